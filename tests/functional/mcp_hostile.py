"""An MCP server that means harm: mcp_hostile.py MODE [FILE]. The modes are those of test_mcp_hostile.py."""
import json
import os
import sys

MODE = sys.argv[1]
FILE = sys.argv[2] if len(sys.argv) > 2 else ""
OBJECT = {"type": "object", "properties": {}}
ESCAPE = "\x1b]0;owned\x07\x1b[31m"
LISTED = 0


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method, **params):
    say({"method": method, "params": params})


def tool(name, description="does it", schema=OBJECT):
    return {"name": name, "description": description, "inputSchema": schema}


def tools():
    global LISTED
    LISTED += 1
    if MODE == "many":
        return {"tools": [tool(f"t{i}") for i in range(100000)]}
    if MODE == "endless":
        return {"tools": [tool(f"t{LISTED}")], "nextCursor": f"c{LISTED}"}
    if MODE == "churn":  # another list each time, and never an end of it
        note("notifications/tools/list_changed")
        return {"tools": [tool("ping"), tool(f"new{LISTED}")]}
    if MODE == "names":
        names = ["a" + ESCAPE, "../../etc/passwd", "x\ny", "  ", "shell", "", "tab\t", "\u202egnirts", "nul\x00nul"]
        return {"tools": [tool(n, "says " + ESCAPE) for n in names]}
    if MODE == "types":
        return {"tools": [None, 7, "x", [], {}, {"name": 7}, {"name": "a", "description": 7, "inputSchema": "no"},
                          {"name": "b", "inputSchema": []}, tool("b"), tool("b", "another")]}
    if MODE == "schema":
        schema = json.load(open(FILE))
        return {"tools": [tool("add", "adds", schema), tool("changed")]}
    return {"tools": [tool("ping"), tool("log"), tool("ask"), tool("wrong"), tool("half"), tool("deaf"), tool("progress"),
                      tool("senseless")]}


def call(message):
    name, id = message["params"]["name"], message["id"]
    if name == "log":
        for i in range(3):
            note("notifications/message", level="L" * (4 << 20), data="x")
    elif name == "ask":
        if "inputResponses" not in message["params"]:
            say({"id": id, "result": {"resultType": "input_required", "inputRequests": {"e": {
                "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {
                    "type": "object", "properties": {"name": {"type": "string"}}}}}}, "requestState": "s"}})
            open(FILE, "w").close()
            os._exit(1)  # while the user thinks
    elif name == "wrong":
        for other in (str(id), id + 0.5, -id, id + 1, id + 1000, None, [id], {"id": id}, 1 << 62, True):
            say({"id": other, "result": {"content": [{"type": "text", "text": "of another"}]}})
        say({"id": id, "result": {"content": [{"type": "text", "text": "right"}]}})
        say({"id": id, "result": {"content": [{"type": "text", "text": "twice"}]}})
        say({"id": id, "error": {"code": 1, "message": "thrice"}})
        return
    elif name == "senseless":
        return say({"id": id, "error": "no"})
    elif name == "half":
        sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te' % id)
        sys.stdout.flush()
        os._exit(1)
    elif name == "deaf":  # asks without end and never reads an answer
        while True:
            say({"id": "p" * (1 << 20), "method": "ping"})
    elif name == "progress":
        token = message["params"]["_meta"]["progressToken"]
        for i in range(8):
            note("notifications/progress", progressToken=token, progress=i, message="p" * (1 << 20))
    elif name == "changed":
        note("notifications/tools/list_changed")
    say({"id": id, "result": {"content": [{"type": "text", "text": "pong"}]}})


def answer(message):
    method = message["method"]
    if method == "initialize" and MODE == "modern":
        return say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
    if method == "initialize":
        return say({"id": message["id"], "result": {
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "h" + ESCAPE, "version": "1"},
            "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "completions": {}}}})
    if method == "server/discover":
        return say({"id": message["id"], "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}})
    if method == "tools/list":
        return say({"id": message["id"], "result": tools()})
    if method == "prompts/list":
        names = ["p" + ESCAPE, "with space", "x\ny", "../up", "good"] if MODE == "names" else []
        return say({"id": message["id"], "result": {"prompts": [{"name": n, "description": ESCAPE} for n in names]}})
    if method == "resources/list":
        uris = ["note:///" + ESCAPE, "file:///etc/passwd", "x\ny"] if MODE == "names" else []
        return say({"id": message["id"], "result": {"resources": [{"uri": u, "name": "r"} for u in uris]}})
    if method == "tools/call":
        return call(message)
    if method != "subscriptions/listen":
        say({"id": message["id"], "error": {"code": -32601, "message": "no"}})


def main():
    if MODE == "modern" and os.path.exists(FILE):  # started again: it does not come up
        sys.stdin.read()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)


main()
