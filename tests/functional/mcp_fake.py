"""An MCP server that does what tests ask of it: mcp_fake.py [MODE] [FILE].

The tools of FILE, a JSON object {name: description}, are offered besides its own. Modes: "modern" knows the stateless
era only, "asks" and "modern-asks" have tools that ask the client, "mute" says nothing, "noise" prints text that is no message, "slow" answers the handshake when FILE exists,
"old" speaks the first revision.
"""
import json
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
MODERN = MODE.startswith("modern")
FILE = sys.argv[2] if len(sys.argv) > 2 else ""
OBJECT = {"type": "object", "properties": {}}
TOOLS = {name: {"name": name, "description": f"does {name}", "inputSchema": OBJECT}
         for name in ("grow", "die", "hang", "flood", "garbage", "huge", "write", "environ", "fail", "progress", "Odd.Näme",
                      *(("elicit", "sample", "roots", "twice", "chatter") if "asks" in MODE else ()))}
TOOLS["echo"] = {"name": "echo", "description": "says it again", "inputSchema": {
    "type": "object", "properties": {"text": {"$ref": "#/$defs/line"}}, "required": ["text"],
    "$defs": {"line": {"type": "string", "pattern": "^[a-z ]*$"}}}}
TOOLS["a" * 90] = {"name": "a" * 90, "description": "a long name", "inputSchema": OBJECT}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method, **params):
    say({"method": method, "params": params})


ASKED = 0


def ask(method, **params):
    """Ask the client in the middle of a call; what it answers."""
    global ASKED
    ASKED += 1
    say({"id": f"s{ASKED}", "method": method, "params": params})
    while True:
        message = json.loads(sys.stdin.readline())
        if message.get("id") == f"s{ASKED}":
            return message.get("result", message.get("error"))


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = {"message": "Who?", "requestedSchema": NAME}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "say x"}}], "maxTokens": 9}


def stateless(name, params):
    """The same in the era without sessions: the call ends with its questions and comes again."""
    given = params.get("inputResponses")
    if given is None:
        wanted = {"elicit": {"e": {"method": "elicitation/create", "params": QUESTION}},
                  "sample": {"s": {"method": "sampling/createMessage", "params": SAMPLE}},
                  "roots": {"r": {"method": "roots/list", "params": {}}}}[name]
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": "kept"}
    return text(json.dumps([given, params["requestState"]]), resultType="complete")


def listed():
    tools = dict(TOOLS)
    if FILE and MODE != "slow" and os.path.exists(FILE):
        for name, text in json.load(open(FILE)).items():
            tools[name] = {"name": name, "description": text, "inputSchema": OBJECT}
    return list(tools.values())


def text(s, **more):
    return {"content": [{"type": "text", "text": s}], **more}


def run(message):
    name, args = message["params"]["name"], message["params"].get("arguments", {})
    meta = message["params"].get("_meta", {})
    if name == "echo":
        return text("echo: " + args["text"])
    if name == "grow":
        TOOLS["grown"] = {"name": "grown", "description": "was not there before", "inputSchema": OBJECT}
        note("notifications/tools/list_changed")
        return text("grew")
    if name in ("elicit", "sample", "roots") and MODERN:
        return stateless(name, message["params"])
    if name == "elicit":
        return text(json.dumps(ask("elicitation/create", **QUESTION)))
    if name == "twice":
        return text(json.dumps([ask("elicitation/create", **QUESTION), ask("elicitation/create", mode="url", elicitationId="1",
                                                                           message="Log in", url="https://example.com/")]))
    if name == "sample":
        return text(json.dumps(ask("sampling/createMessage", **SAMPLE)))
    if name == "roots":
        return text(json.dumps(ask("roots/list")))
    if name == "chatter":
        note("notifications/message", level="warning", data={"disk": "full"})
        return text("told")
    if name == "changed":
        note("notifications/tools/list_changed")
        return text("told")
    if name == "die":
        sys.stderr.write("dying as told\n")
        sys.exit(3)
    if name == "hang":
        return None
    if name == "flood":
        while True:
            note("notifications/message", level="info", data="x" * 100)
    if name == "garbage":
        for line in ("{", "[]", "nonsense", '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":99,"result":{}}', "\x00\xff", '[1,2]'):
            sys.stdout.write(line + "\n")
        say({"id": "theirs", "method": "sampling/createMessage", "params": {}})
        return text("after garbage")
    if name == "huge":
        sys.stdout.write("x" * (17 << 20) + "\n")
        return text("never read")
    if name == "write":
        open(args["path"], "w").write("written")
        return text("written")
    if name == "environ":
        return text(json.dumps(dict(os.environ)))
    if name == "fail":
        return text("it went wrong", isError=True)
    if name == "progress":
        note("notifications/progress", progressToken=meta["progressToken"], progress=1, message="half way")
        return text("done")
    return text(f"ran {name}")


def guarded(message):
    try:
        return run(message)
    except Exception as e:
        return text(f"{type(e).__name__}: {e}", isError=True)


def answer(message):
    method = message["method"]
    if method == "initialize":
        version = "2024-11-05" if MODE == "old" else message["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {},
                                                              "completions": {}},
                "serverInfo": {"name": "fake", "version": "7"}}
    if method == "server/discover":
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "8"}}}
    if method == "tools/list":  # two pages
        tools, after = listed(), int(message.get("params", {}).get("cursor", 0))
        more = {"nextCursor": "5"} if after == 0 and len(tools) > 5 else {}
        return {"tools": tools[5:] if after else tools[:5] if more else tools, **more}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "description": "greets", "arguments": [{"name": "who"}, {"name": "how"}]}]}
    if method == "prompts/get":
        args = message["params"]["arguments"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"greet {args['who']}, {args.get('how')}"}}]}
    if method == "completion/complete":
        asked, known = message["params"]["argument"], message["params"]["context"]["arguments"]
        if message["params"]["ref"] == {"type": "ref/resource", "uri": "note://{day}/{+path}"}:
            words = {"day": ["mon", "monk's day", "tue"], "path": [f"{known['day']}/a", "b c"] if "day" in known else []}[asked["name"]]
            return {"completion": {"values": [w for w in words if w.startswith(asked["value"])]}}
        words = {"who": ["Ada", "Alan", "Grace", "Grace H.", "x\x1b[31m", 7], "how": ["softly", "loudly", *known]}[asked["name"]]
        assert message["params"]["ref"] == {"type": "ref/prompt", "name": "greet"}
        return {"completion": {"values": [w for w in words if str(w).startswith(asked["value"])], "hasMore": False}}
    if method == "resources/list":
        return {"resources": [{"uri": "note:///first", "name": "first"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "search:{?q}", "name": "search"}, {"uriTemplate": "note://{day}/{+path}", "name": "notes"}]}
    if method == "resources/read":
        return {"contents": [{"uri": message["params"]["uri"], "text": "text of " + message["params"]["uri"]}]}
    if method == "tools/call":
        return guarded(message)
    raise LookupError(method)


def main():
    if MODE == "noise":
        print("Server listening on standard streams", flush=True)
    while MODE == "slow" and not os.path.exists(FILE):
        time.sleep(0.01)
    for line in sys.stdin:
        message = json.loads(line)
        if MODE in ("mute", "noise") or "method" not in message or "id" not in message:
            continue
        if MODERN and (message["method"] == "initialize" or message["method"] == "subscriptions/listen"):
            if message["method"] == "initialize":
                say({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
            continue
        if MODERN:
            assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        try:
            result = answer(message)
        except LookupError:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        if result is not None:
            say({"id": message["id"], "result": result})


main()
