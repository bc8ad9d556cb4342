"""The client that the official MCP conformance suite tests: conformance_client.py URL.

A hub of its own in a private home has the server as [mcp.t]. If it wants a login, `afloat mcp login` is run and the address
that it prints is opened, as a browser would. Then each of its tools is called once, in a session whose scripted model
calls it; a form that it shows is accepted as it is.
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


def call_one(env, tool, given):
    """Have a session call the tool; what its events say of the call."""
    script = f"{env['AFLOAT_HOME']}/scenario.jsonl"
    with open(script, "w") as f:
        f.write(json.dumps({"tool_calls": [{"name": tool, "input": given}]}) + "\n" + json.dumps({"text": "done"}) + "\n")
    dir = tempfile.mkdtemp(dir=env["AFLOAT_HOME"])
    made = afloat(env, "api", "POST", "/session", json.dumps({"working_dir": dir, "env": {
        "AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": script, "PATH": os.environ["PATH"]}}))
    path = f"/session/{made['id']}"
    got = afloat(env, "api", "POST", path + "/message", json.dumps({"text": "go", "wait": True}))
    while got.get("state") == "waiting":
        for question in afloat(env, "api", "GET", path)["pending"]:
            afloat(env, "api", "POST", f"{path}/answer/{question['question_id']}",
                   json.dumps({"answer": {"action": "accept", "content": {}}}))
        got = {"state": afloat(env, "api", "GET", path)["state"].replace("running", "waiting")}
    events = afloat(env, "api", "GET", path + "/events")["events"]
    return [e for e in events if e["type"] == "tool.completed"]


def call_all(env):
    for row in afloat(env, "tool", "list").get("tools", []):
        if row["name"].startswith("t__"):
            schema = row.get("input_schema", {})
            given = {k: ARGUMENTS.get(v.get("type"), 1) for k, v in schema.get("properties", {}).items()}
            got = call_one(env, row["name"], given)
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
