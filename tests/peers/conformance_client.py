"""The client that the official MCP conformance suite tests: conformance_client.py URL.

A hub of its own in a private home has the server as [mcp.t]. If it wants a login, `afloat mcp login` is run and the address
that it prints is opened, as a browser would. Then each of its tools is called once.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

BIN = os.environ["AFLOAT_BIN"]
ARGUMENTS = {"integer": 2, "number": 3, "string": "text", "boolean": True, "array": [], "object": {}}


def main(url):
    with tempfile.TemporaryDirectory(prefix="afloat-conformance-") as home:
        os.chmod(home, 0o700)
        env = {**os.environ, "AFLOAT_HOME": home}
        with open(f"{home}/config.toml", "w") as f:
            f.write(f'[mcp.t]\nurl = "{url}"\ntimeout_s = 10\n')
        hub = subprocess.Popen([BIN, "hub"], env=env, stdout=subprocess.PIPE)
        hub.stdout.readline()
        try:
            return talk(env)
        finally:
            hub.terminate()
            hub.wait()


def afloat(env, *args):
    done = subprocess.run([BIN, *args, "--json"], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": done.stderr}


def wait(env):
    """The row of the server once it is ready, or has failed and nothing more can be done."""
    end = time.monotonic() + 20
    row = {}
    while time.monotonic() < end and row.get("state") != "ready":
        row = afloat(env, "mcp", "show", "t")
        if row.get("state") == "failed" and "mcp login" in str(row.get("error")):
            return row
        time.sleep(0.05)
    return row


def log_in(env):
    process = subprocess.Popen([BIN, "mcp", "login", "t"], env=env, stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    if address:
        try:
            urllib.request.urlopen(address, timeout=10).read()
        except urllib.error.HTTPError as e:
            print(f"browser: {e}", file=sys.stderr)
    return process.wait(30) == 0


def call_all(env):
    for row in afloat(env, "tool", "list").get("tools", []):
        if row["name"].startswith("t__"):
            schema = row.get("input_schema", {})
            given = {k: ARGUMENTS.get(v.get("type"), 1) for k, v in schema.get("properties", {}).items()}
            got = afloat(env, "tool", "run", row["name"], json.dumps(given))
            print(row["name"], json.dumps(got), file=sys.stderr)
            if "mcp login" in str(got):
                return False
    return True


def talk(env):
    for _ in range(3):
        row = wait(env)
        print(json.dumps(row), file=sys.stderr)
        if row.get("state") == "ready" and call_all(env):
            time.sleep(0.3)
            return 0
        if not log_in(env):
            return 1
    return 1


sys.exit(main(sys.argv[-1]))
