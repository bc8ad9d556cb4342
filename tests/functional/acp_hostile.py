"""An agent of the Agent Client Protocol that means harm: the last word of a prompt says how."""
import json
import os
import sys

SESSION = "s1"
asked = 0


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(session=SESSION, **fields):
    say({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def text(words, **more):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": words}, **more)


def ask(method, **params):
    global asked
    asked += 1
    say({"id": f"a{asked}", "method": method, "params": params})
    return f"a{asked}"


def answer(method, **params):
    """Ask, and wait for what the client says."""
    id = ask(method, **params)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == id:
            return message.get("result", message.get("error"))


def permission(call, session=SESSION, how=ask):
    return how("session/request_permission", sessionId=session, toolCall={
        "toolCallId": call, "title": "touch x", "kind": "execute", "rawInput": {"command": "touch x"}},
        options=[{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}])


def types():
    for u in (None, 7, [], "x", {}, {"sessionUpdate": 7}, {"sessionUpdate": "tool_call"}, {"sessionUpdate": "tool_call", "toolCallId": 7},
              {"sessionUpdate": "tool_call", "toolCallId": "", "status": "completed"},
              {"sessionUpdate": "tool_call_update", "toolCallId": "never", "status": "completed"},
              {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "content": [
                  None, 7, {"type": "diff"}, {"type": "diff", "path": 7, "newText": []}, {"type": "content", "content": 7}]},
              {"sessionUpdate": "plan", "entries": 7}, {"sessionUpdate": "plan", "entries": [None, {"content": 7, "status": 9}]},
              {"sessionUpdate": "agent_message_chunk", "content": 7}):
        say({"method": "session/update", "params": {"sessionId": SESSION, "update": u}})
    for params in (None, 7, [], "x"):
        say({"method": "session/update", "params": params})
    got = [answer("session/request_permission", sessionId=SESSION, toolCall={"toolCallId": f"q{i}", "kind": "execute", "title": "x"},
                  options=o) for i, o in enumerate(([], None, 7, [7], [{"optionId": 7}]))]
    got.append(answer("session/request_permission", sessionId=SESSION, toolCall=7, options=[]))
    text(json.dumps(got))


def files():
    text(json.dumps([answer(method, sessionId=SESSION, path="/etc/passwd", content="x", command="true")["code"]
                     for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "session/new", "nonsense")]))


def huge():
    update(sessionUpdate="tool_call", toolCallId="h" * 100000, title="t" * (1 << 20), kind="k" * 100000, status="in_progress",
           rawInput={"command": "c" * (1 << 20)})
    update(sessionUpdate="tool_call_update", toolCallId="h" * 100000, status="completed", content=[
        {"type": "diff", "path": "p" * 100000, "oldText": "a\n" * 200000, "newText": "b\n" * 200000}])
    update(sessionUpdate="plan", entries=[{"content": "e", "status": "pending", "priority": "high"}] * 20000)
    text("huge")


def prompt(how, id):
    if how in ("types", "files", "huge"):
        globals()[how]()
    elif how == "other":
        text("of another ", session="s2")
        text(json.dumps(permission("p", session="s2", how=answer)))
    elif how == "race":
        permission("p1"), permission("p1"), permission("p2")
        text("no wait")
    elif how == "die":
        permission("p1")
        os._exit(3)
    elif how == "silent":
        permission("p1")
        return
    elif how == "error":
        return say({"id": id, "error": {"code": "x", "message": 7}})
    elif how == "null":
        return say({"id": id, "result": None})
    else:
        text("fine")
    say({"id": id, "result": {"stopReason": "end_turn"}})
    if how == "twice":
        say({"id": id, "result": {"stopReason": "nonsense"}})
        text("late")
        permission("late")


def main():
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            say({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
        elif method == "session/new":
            say({"id": message["id"], "result": {"sessionId": SESSION}})
        elif method == "session/prompt":
            prompt(message["params"]["prompt"][-1]["text"].split()[-1], message["id"])


main()
