"""MCP servers as sources of tools: fifty started together, a first step beside one that never answers, and a call.

A call through the hub (POST /tool: hooks, rules, schema, the server in its box) stands beside the same call written to the
pipe of the same server by hand.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

from turns import MEMORY, Work, ask, call

FAKE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "functional" / "mcp_fake.py"
SERVERS, CALLS = 50, 500


def table(name, *args, **more):
    keys = {"command": sys.executable, "args": [str(FAKE), *args], **more}
    return f"[mcp.{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())


def states(link):
    link.request("GET", "/mcp/servers")
    return [s["state"] for s in json.loads(link.getresponse().read())["servers"]]


def wait_ready(link, n):
    while states(link).count("ready") != n:
        time.sleep(0.005)


class Pipe:
    """The server by hand."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, FAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "x", "version": "1"})

    def ask(self, method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start(make_hub, row):
    began = time.perf_counter()
    Pipe().close()
    one = time.perf_counter() - began
    began = time.perf_counter()
    with make_hub(files={"config.toml": "\n".join(table(f"s{i}") for i in range(SERVERS))}) as hub:
        wait_ready(hub.link(), SERVERS)
        all_s = time.perf_counter() - began
    row(f"MCP client: {SERVERS} stdio servers ready / one by hand", f"{all_s:.2f} s / {one:.2f} s",
        f"<= {SERVERS} by hand", all_s <= SERVERS * one)
    with make_hub(files={"config.toml": table("mute", "mute", timeout_s=1) + table("good")}) as hub, \
            Work(MEMORY, [{"text": "done"}]) as work:
        link = hub.link()
        began = time.perf_counter()
        ask(link, work.session(link))
        first = time.perf_counter() - began
    row("MCP client: first turn beside a server that never answers", f"{first:.2f} s", "<= 1.5 s (timeout_s = 1)",
        first <= 1.5)


def one_call(make_hub, row, rounds):
    ours, theirs = [], []
    pipe = Pipe()
    with make_hub(files={"config.toml": table("fake")}) as hub:
        link = hub.link()
        wait_ready(link, 1)
        for _ in range(rounds):
            began = time.perf_counter()
            for _ in range(CALLS):
                call(link, "/tool/fake__echo", {"input": {"text": "hi"}})
            ours.append((time.perf_counter() - began) / CALLS * 1e6)
            began = time.perf_counter()
            for _ in range(CALLS):
                pipe.ask("tools/call", name="echo", arguments={"text": "hi"})
            theirs.append((time.perf_counter() - began) / CALLS * 1e6)
    pipe.close()
    mine, peer = statistics.median(ours), statistics.median(theirs)
    row("MCP client: a call through the hub / on the pipe", f"{mine:.0f} us / {peer:.0f} us", "<= 1 ms more",
        mine - peer <= 1000)
