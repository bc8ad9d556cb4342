"""`afloat acp`: an editor's side of the Agent Client Protocol, spoken by hand."""
import json
import os
import select
import shutil
import subprocess
import time

import peers
import pytest

from conftest import BIN, DEADLINE, ROOT, check_report, retry
from test_agent import one_call, work  # noqa: F401 (a fixture)


class Editor:
    """A client on the standard streams of `afloat acp`."""

    def __init__(self, home, dir, scenario=(), *args, files=None, writes=False, terminal=False, forms=None, **more):
        dir.mkdir(exist_ok=True)
        path = dir / "scenario.jsonl"
        path.write_text("".join(json.dumps(x) + "\n" for x in scenario))
        env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(path)}
        self.process = home.popen("acp", *args, env=env, stdin=-1, **more)
        self.home, self.dir, self.files, self.forms = home, dir, files, forms
        self.rest, self.id, self.updates, self.asked = b"", 0, [], []
        self.choose = lambda options: options[0]["optionId"]
        self.methods, self.terminals, self.servers = [], {}, []
        self.hello = self.ask("initialize", protocolVersion=1, clientCapabilities={"fs": {
            "readTextFile": files is not None, "writeTextFile": writes}, "terminal": terminal,
            **({"elicitation": {"form": {}}} if forms else {})})

    def send(self, message):
        self.process.stdin.write((json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())

    def read(self):
        end = time.monotonic() + DEADLINE
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            assert ready, f"nothing came; updates: {self.updates}"
            got = os.read(self.process.stdout.fileno(), 65536)
            assert got, self.process.stderr.read().decode()
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def step(self):
        """Take one message: updates are kept, questions answered. An answer to us is returned."""
        m = self.read()
        if m.get("method") == "session/update":
            self.updates.append(m["params"]["update"])
        elif m.get("method") == "session/request_permission":
            self.asked.append(m["params"])
            chosen = self.choose(m["params"]["options"])
            outcome = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
            self.send({"id": m["id"], "result": {"outcome": outcome}})
        elif m.get("method") == "elicitation/create":
            self.asked.append(m["params"])
            self.send({"id": m["id"], "result": self.forms})
        elif m.get("method", "").startswith("terminal/"):
            self.methods.append(m["method"])
            answer = self.in_terminal(m["id"], m["method"], m["params"])
            if answer is not None:
                self.send({"id": m["id"], "result": answer})
        elif m.get("method") == "fs/write_text_file":
            self.methods.append(m["method"])
            refused = m["params"]["path"].endswith(".locked")
            if not refused:
                self.files[m["params"]["path"]] = m["params"]["content"]
            self.send({"id": m["id"], **({"error": {"code": -32000, "message": "no"}} if refused else {"result": None})})
        elif m.get("method") == "fs/read_text_file":
            self.methods.append(m["method"])
            text = self.files.get(m["params"]["path"])
            self.send({"id": m["id"], **({"result": {"content": text}} if text is not None else
                                         {"error": {"code": -32002, "message": "no such file"}})})
        else:
            return m
        return None

    def in_terminal(self, id, method, params):
        """Run a command to its end when it is created; `sleep` runs until it is killed."""
        if method == "terminal/create":
            env = {v["name"]: v["value"] for v in params["env"]}
            sleeps = "sleep" in params["args"][-1]
            done = None if sleeps else subprocess.run([params["command"], *params["args"]], cwd=params["cwd"], env=env,
                                                      capture_output=True, text=True)
            self.terminals["t1"] = done
            return {"terminalId": "t1"}
        done = self.terminals[params["terminalId"]]
        if method == "terminal/wait_for_exit" and done is None:
            self.waits = id
            return None
        if method == "terminal/kill":
            self.send({"id": self.waits, "result": {"exitCode": None, "signal": "KILL"}})
        if method == "terminal/output":
            return {"output": done.stdout, "truncated": False, "exitStatus": {"exitCode": done.returncode, "signal": None}}
        return {"exitCode": done.returncode, "signal": None} if method == "terminal/wait_for_exit" else {}

    def begin(self, method, **params):
        self.id += 1
        self.send({"id": self.id, "method": method, "params": params})
        return self.id

    def finish(self, id):
        while True:
            m = self.step()
            if m is not None and m.get("id") == id:
                return m

    def ask(self, method, **params):
        m = self.finish(self.begin(method, **params))
        assert "result" in m, m
        return m["result"]

    def refused(self, method, **params):
        return self.finish(self.begin(method, **params))["error"]

    def new(self, **more):
        self.session = self.ask("session/new", cwd=str(self.dir), mcpServers=self.servers, **more)["sessionId"]
        return self.session

    def prompt(self, text="go", **more):
        blocks = more.pop("blocks", [{"type": "text", "text": text}])
        return self.ask("session/prompt", sessionId=self.session, prompt=blocks)["stopReason"]

    def wait(self, kind):
        while not self.of(kind):
            self.step()
        return self.of(kind)

    def of(self, kind):
        return [u for u in self.updates if u["sessionUpdate"] == kind]

    def said(self):
        return "".join(u["content"]["text"] for u in self.of("agent_message_chunk"))

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(DEADLINE) == 0
        check_report(self.process.stderr.read().decode())


@pytest.fixture
def edit(home, hub, work):
    started = []

    def start(scenario=(), *args, **more):
        started.append(Editor(home, work, scenario, *args, **more))
        return started[-1]

    yield start
    for e in started:
        e.close()


def test_a_prompt_streams_text_calls_diffs_and_a_plan(edit, work):
    e = edit([one_call("write_file", path="a.txt", content="one\ntwo\n"),
              one_call("edit_file", path="a.txt", old="two", new="three"), one_call(cmd="echo out; false"),
              one_call("todo", items=[{"text": "first", "state": "done"}, {"text": "then", "state": "active"}]),
              {"text": "all done"}])
    assert e.hello["protocolVersion"] == 1 and e.hello["agentCapabilities"]["loadSession"]
    e.new()
    assert e.prompt() == "end_turn"
    assert e.said() == "all done"
    write, change, run = e.of("tool_call")
    assert (write["kind"], change["kind"], run["kind"]) == ("edit", "edit", "execute")
    assert write["title"] == "write_file a.txt" and write["locations"] == [{"path": str(work / "a.txt")}]
    assert run["title"] == "echo out; false" and len({c["toolCallId"] for c in (write, change, run)}) == 3
    ends = {u["toolCallId"]: u for u in e.of("tool_call_update") if "status" in u}
    assert ends[write["toolCallId"]]["content"] == [
        {"type": "diff", "path": str(work / "a.txt"), "oldText": None, "newText": "one\ntwo\n"}]
    assert ends[change["toolCallId"]]["content"][0]["newText"] == "one\nthree\n"
    assert ends[run["toolCallId"]]["status"] == "failed" and "out" in json.dumps(ends[run["toolCallId"]]["content"])
    assert [(p["content"], p["status"]) for p in e.of("plan")[-1]["entries"]] == [
        ("first", "completed"), ("then", "in_progress")]


def test_permission_is_asked_with_what_each_answer_covers(edit, work):
    e = edit([one_call("write_file", path="a.txt", content="x\n"), one_call(cmd="touch b"), {"text": "done"}],
             "--permission", "ask")
    e.new()
    e.choose = lambda options: next(o["optionId"] for o in options if o["kind"] == (
        "allow_once" if len(e.asked) == 1 else "reject_once"))
    assert e.prompt() == "end_turn"
    first, second = e.asked
    assert first["toolCall"]["content"][0]["newText"] == "x\n" and first["sessionId"] == e.session
    kinds = [o["kind"] for o in second["options"]]
    assert kinds[0] == "allow_once" and kinds[-1] == "reject_once" and "allow_always" in kinds
    assert any("touch" in o["name"] for o in second["options"])
    assert (work / "a.txt").exists() and not (work / "b").exists()


def test_an_answer_that_covers_more_is_remembered(edit, work):
    e = edit([one_call(cmd="touch a"), {"text": "x"}, one_call(cmd="touch b"), {"text": "y"}], "--permission", "ask")
    e.new()
    e.choose = lambda options: next(o["optionId"] for o in options if o["optionId"] == "allow:tool")
    assert e.prompt() == "end_turn" and e.prompt() == "end_turn"
    assert len(e.asked) == 1 and (work / "a").exists() and (work / "b").exists()


def test_modes_are_permission_modes(edit, home, work):
    e = edit([one_call(cmd="touch a"), {"text": "x"}])
    made = e.ask("session/new", cwd=str(work), mcpServers=[])
    e.session = made["sessionId"]
    assert made["modes"]["currentModeId"] == "auto"
    assert [m["id"] for m in made["modes"]["availableModes"]] == ["ask", "edits", "plan", "auto"]
    e.ask("session/set_mode", sessionId=e.session, modeId="plan")
    assert e.prompt() == "end_turn" and not (work / "a").exists()
    assert home.json("sessions", "show", e.session)["permission"] == "plan"
    assert "message" in e.refused("session/set_mode", sessionId=e.session, modeId="nonsense")


def test_a_prompt_can_be_cancelled_also_while_it_asks(edit):
    e = edit([one_call(cmd="sleep 1000", timeout_s=1000), one_call(cmd="true"), {"text": "y"}])
    e.new()
    id = e.begin("session/prompt", sessionId=e.session, prompt=[{"type": "text", "text": "go"}])
    e.wait("tool_call")
    e.send({"method": "session/cancel", "params": {"sessionId": e.session}})
    assert e.finish(id)["result"]["stopReason"] == "cancelled"
    e.ask("session/set_mode", sessionId=e.session, modeId="ask")

    def cancel(options):
        e.send({"method": "session/cancel", "params": {"sessionId": e.session}})
    e.choose = cancel
    assert e.prompt() == "cancelled"


def test_a_session_is_listed_loaded_with_its_past_and_goes_on(edit, work):
    e = edit([one_call("write_file", path="a.txt", content="x\n"), {"text": "first answer"}, {"text": "second answer"}])
    e.new()
    e.prompt("first question")
    other = edit([one_call("write_file", path="a.txt", content="x\n"), {"text": "first answer"}, {"text": "second answer"}])
    rows = other.ask("session/list", cwd=str(work))["sessions"]
    assert [r["sessionId"] for r in rows] == [e.session] and rows[0]["cwd"] == str(work) and rows[0]["title"]
    assert other.ask("session/list", cwd="/elsewhere")["sessions"] == []
    assert "cursor" in other.refused("session/list", cursor="c" * 70)["message"]
    other.session = e.session
    assert other.ask("session/load", sessionId=e.session, cwd=str(work), mcpServers=[])["modes"]["currentModeId"] == "auto"
    assert other.of("user_message_chunk")[0]["content"]["text"] == "first question" and other.said() == "first answer"
    assert other.of("tool_call")[0]["title"] == "write_file a.txt"
    assert "diff" in json.dumps(other.of("tool_call_update")[-1])
    assert other.prompt("and now?") == "end_turn" and other.said().endswith("second answer")
    assert "no session" in other.refused("session/load", sessionId="nonsense", cwd=str(work), mcpServers=[])["message"]
    other.ask("session/delete", sessionId=e.session)
    assert other.ask("session/list")["sessions"] == []


def test_commands_are_offered_and_run(edit, home, work):
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "greeter.lua").write_text(
        'command { name = "hello", description = "greets", run = function(args) return "hi " .. table.concat(args, "+") end }\n'
        'command { name = "where", run = function(args, ctx) return ctx.working_dir end }')
    home.ok("reload")
    e = edit([{"text": "a model's answer"}])
    e.new()
    [update] = e.wait("available_commands_update")
    names = {c["name"]: c["description"] for c in update["availableCommands"]}
    assert names["greeter:hello"] == "greets" and "compact" in names
    assert e.prompt("/greeter:hello big world") == "end_turn" and e.said() == "hi big+world"
    assert e.prompt("/greeter:where") == "end_turn" and e.said().endswith(str(work))
    assert e.prompt("/no such command") == "end_turn" and e.said().endswith("a model's answer")
    assert e.prompt("/compact") == "end_turn"


def test_files_are_read_as_they_stand_in_the_editor(edit, home, work):
    e = edit([{"text": "x"}], files={str(work / "a b.txt"): "not saved yet"})
    e.new()
    e.prompt(blocks=[{"type": "text", "text": "look at "},
                     {"type": "resource_link", "name": "a", "uri": f"file://{work}/a%20b.txt"},
                     {"type": "resource_link", "name": "gone", "uri": f"file://{work}/gone.txt"},
                     {"type": "resource", "resource": {"uri": "zed:///selection", "text": "int main"}}])
    [text] = [ev["text"] for ev in home.json("api", "GET", f"/session/{e.session}/events")["events"]
              if ev["type"] == "message.completed" and ev["role"] == "user"]
    assert f'<file path="{work}/a b.txt">\nnot saved yet\n</file>' in text and "int main" in text
    assert f"`{work}/gone.txt`" in text


def test_a_session_that_is_loaded_twice_at_once_is_answered_twice(edit, work):
    e = edit([{"text": "x"}], files={})
    e.new()
    ids = [e.begin("session/load", sessionId=e.session, cwd=str(work), mcpServers=[]) for _ in range(3)]
    assert all("result" in e.finish(id) for id in ids)
    assert e.prompt() == "end_turn"


def test_pictures_go_with_the_message(edit, home):
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    e = edit([{"text": "a dot"}, {"text": "again"}])
    assert e.hello["agentCapabilities"]["promptCapabilities"]["image"]
    e.new()
    e.prompt(blocks=[{"type": "text", "text": "what is this?"}, {"type": "image", "data": png, "mimeType": "image/png"}])
    assert e.prompt(blocks=[{"type": "image", "data": png, "mimeType": "image/png"}]) == "end_turn"
    first, second = [ev for ev in home.json("api", "GET", f"/session/{e.session}/events")["events"]
                     if ev["type"] == "turn.started"]
    assert first["text"] == "what is this?" and first["images"][0]["media_type"] == "image/png"
    assert second["images"][0]["path"] == first["images"][0]["path"]
    assert "base64" in e.refused("session/prompt", sessionId=e.session,
                                 prompt=[{"type": "image", "data": "!", "mimeType": "image/png"}])["message"]


def results(home, session):
    return [ev for ev in home.json("api", "GET", f"/session/{session}/events")["events"] if ev["type"] == "tool.completed"]


def test_file_tools_read_what_is_not_saved_and_write_through_the_editor(edit, home, work):
    work.mkdir()
    (work / "a.txt").write_text("saved\n")
    (work / "b.txt").write_text("only on disk\n")
    path = str(work / "a.txt")
    e = edit([one_call("read_file", path="a.txt"), one_call("edit_file", path="a.txt", old="not saved", new="edited"),
              one_call("read_file", path="b.txt"), one_call("write_file", path="sub/new.txt", content="fresh\n"),
              {"text": "done"}], files={path: "not saved\n"}, writes=True)
    e.new()
    assert e.prompt() == "end_turn"
    read, changed, plain, made = results(home, e.session)
    assert read["output"] == "not saved\n" and plain["output"] == "only on disk\n"
    assert "-not saved" in changed["diff"] and e.files[path] == "edited\n"
    assert (work / "a.txt").read_text() == "saved\n"  # the editor writes, and this one keeps it
    assert e.files[str(work / "sub" / "new.txt")] == "fresh\n" and made["success"]
    ends = [u for u in e.of("tool_call_update") if u.get("status") == "completed"]
    assert ends[1]["content"][0]["oldText"] == "not saved\n"


def test_an_editor_that_refuses_a_write_fails_the_call(edit, home, work):
    e = edit([one_call("write_file", path="a.locked", content="x"), {"text": "done"}], files={}, writes=True)
    e.new()
    assert e.prompt() == "end_turn"
    [r] = results(home, e.session)
    assert not r["success"] and "editor" in r["error"] and not (work / "a.locked").exists()


def test_the_sandbox_decides_before_the_editor_is_asked(edit, home, work, tmp_path):
    work.mkdir()
    (home.dir / "secret.txt").write_text("key\n")
    (work / "link.txt").symlink_to(home.dir / "secret.txt")
    e = edit([one_call("read_file", path="link.txt"), one_call("write_file", path="/etc/passwd", content="x"),
              one_call("write_file", path=".git/config", content="x"), {"text": "done"}],
             files={str(home.dir / "secret.txt"): "leaked"}, writes=True)
    (work / ".git").mkdir(exist_ok=True)
    e.new()
    assert e.prompt() == "end_turn"
    assert [r["success"] for r in results(home, e.session)] == [False, False, False]
    assert not [m for m in e.methods if "write" in m] and "leaked" not in json.dumps(results(home, e.session))


def test_without_an_editor_the_disk_counts_again(edit, home, work):
    work.mkdir()
    (work / "a.txt").write_text("saved\n")
    e = edit([one_call("read_file", path="a.txt"), {"text": "x"}, one_call("read_file", path="a.txt"), {"text": "y"}],
             files={str(work / "a.txt"): "not saved\n"})
    e.new()
    e.prompt()
    e.ask("session/close", sessionId=e.session)
    retry(lambda: home.json("api", "POST", f"/session/{e.session}/message", json.dumps({"text": "go", "wait": True}))["text"] == "y")
    assert [r["output"] for r in results(home, e.session)] == ["not saved\n", "saved\n"]


def test_an_editor_that_dies_during_a_read_does_not_hang_the_turn(edit, home, work):
    work.mkdir()
    (work / "a.txt").write_text("saved\n")
    e = edit([one_call("read_file", path="a.txt"), {"text": "x"}], files={})
    e.new()
    e.begin("session/prompt", sessionId=e.session, prompt=[{"type": "text", "text": "go"}])
    while True:
        if e.read().get("method") == "fs/read_text_file":
            break
    e.process.kill()
    e.process.wait(DEADLINE)
    retry(lambda: [r["output"] for r in results(home, e.session)] == ["saved\n"])
    e.close = lambda: None


def test_commands_run_in_terminals_of_the_editor_where_there_is_no_sandbox(edit, home, work):
    script = [one_call(cmd="echo here $PWD; exit 3"), one_call(cmd="sleep 1000", timeout_s=1000), {"text": "done"}]
    e = edit(script, "--sandbox", "danger-full-access", terminal=True)
    e.new()
    id = e.begin("session/prompt", sessionId=e.session, prompt=[{"type": "text", "text": "go"}])
    while e.methods.count("terminal/wait_for_exit") < 2:
        e.step()
    shown = [u for u in e.of("tool_call_update") if u.get("content") == [{"type": "terminal", "terminalId": "t1"}]]
    assert len(shown) == 2 and {u["toolCallId"] for u in shown} == {c["toolCallId"] for c in e.of("tool_call")}
    e.send({"method": "session/cancel", "params": {"sessionId": e.session}})
    assert e.finish(id)["result"]["stopReason"] == "cancelled"
    first = results(home, e.session)[0]
    assert first["output"] == f"here {work}\n" and first["error"] == "exit 3"
    while e.methods.count("terminal/release") < 2:
        e.step()
    assert "terminal/kill" in e.methods and e.methods[:4] == ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"]


def test_commands_of_a_sandboxed_session_stay_in_the_sandbox(edit, home):
    e = edit([one_call(cmd="echo ours"), {"text": "done"}], terminal=True)
    e.new()
    assert e.prompt() == "end_turn" and e.methods == [] and results(home, e.session)[0]["output"] == "ours\n"


FAKE = ROOT / "tests/functional/mcp_fake.py"


def test_servers_of_the_editor_serve_its_session_and_end_with_it(edit, home, work):
    e = edit([one_call("My-server__echo", text="hi"), {"text": "done"}])
    e.servers = [{"name": "My server", "command": "/usr/bin/python3", "args": [str(FAKE)],
                  "env": [{"name": "FAKE_NAME", "value": "x"}]}]
    assert e.hello["agentCapabilities"]["mcpCapabilities"]["http"]
    e.new()
    ready = [("My-server", "ready", e.session)]  # a session waits for a server, but not for ever
    retry(lambda: [(r["name"], r["state"], r["session"]) for r in home.json("mcp", "list")["servers"]] == ready)
    assert e.prompt() == "end_turn"
    [r] = results(home, e.session)
    assert r["success"] and "hi" in r["output"], r
    other = home.json("api", "POST", "/session", json.dumps({"working_dir": str(work)}))["id"]
    assert "mcp:My-server" not in json.dumps(home.json("api", "GET", f"/session/{other}/pipeline"))
    assert home.json("mcp", "show", "My-server")["sandbox"]
    pid = home.json("mcp", "show", "My-server")["pid"]
    e.ask("session/close", sessionId=e.session)
    retry(lambda: home.json("mcp", "list")["servers"] == [])
    retry(lambda: not os.path.exists(f"/proc/{pid}"))


def test_servers_of_the_editor_come_back_after_a_restart_of_the_hub(edit, home):
    e = edit([{"text": "one"}, one_call("s__echo", text="hi"), {"text": "two"}])
    e.servers = [{"name": "s", "command": "/usr/bin/python3", "args": [str(FAKE)], "env": []}]
    e.new()
    e.prompt()
    home.ok("stop")
    retry(lambda: home.hub_pid() is None)
    assert e.prompt() == "end_turn" and results(home, e.session)[0]["success"]


def test_a_server_of_the_editor_takes_no_name_and_no_secret_of_the_user(edit, home):
    (home.dir / "config.toml").write_text(f'[mcp.mine]\ncommand = "/usr/bin/python3"\nargs = ["{FAKE}"]\n')
    home.ok("reload")
    e = edit([{"text": "x"}])
    e.servers = [{"name": "mine", "command": "/bin/false", "args": [], "env": []},
                 {"name": "thief", "command": "/usr/bin/python3", "args": [str(FAKE)],
                  "env": [{"name": "K", "value": "${secret:KEY}"}]},
                 {"type": "http", "name": "far", "url": "http://127.0.0.1:1/mcp", "headers": []}]
    e.new()
    listed = lambda: {(r["name"], r.get("session")): r for r in home.json("mcp", "list")["servers"]}  # noqa: E731
    wanted = {("mine", None): "ready", ("far", e.session): "failed"}
    rows = retry(lambda: (r := listed()) and all(r.get(at, {}).get("state") == state for at, state in wanted.items()) and r)
    assert "is used instead" in rows["mine", e.session]["error"]
    assert "secrets" in rows["thief", e.session]["error"]


def test_questions_of_the_model_are_asked(edit):
    e = edit([one_call("ask_user", question="Which?", choices=["left", "right"]), {"text": "x"},
              one_call("ask_user", question="What name?"), {"text": "named"}])
    e.new()
    e.choose = lambda options: options[1]["optionId"]
    assert e.prompt() == "end_turn"
    assert e.asked[0]["toolCall"]["title"] == "Which?"
    assert e.prompt() == "end_turn" and e.said().endswith("What name?")
    assert e.prompt("Ada") == "end_turn" and e.said().endswith("named")


def test_a_question_that_is_answered_elsewhere_leaves_the_turn_to_its_end(edit, home):
    e = edit([one_call("ask_user", question="What name?"), one_call(cmd="sleep 1000", timeout_s=1000), {"text": "x"}])
    e.new()
    assert e.prompt() == "end_turn" and e.said() == "What name?"
    home.ok("sessions", "answer", e.session, "Ada")
    while len(e.of("tool_call")) < 2:
        e.step()
    go = {"sessionId": e.session, "prompt": [{"type": "text", "text": "Eve"}]}
    e.refused("session/prompt", **go)  # it was an answer, too late
    assert "still runs" in e.refused("session/prompt", **go)["message"]
    e.send({"method": "session/cancel", "params": {"sessionId": e.session}})
    retry(lambda: home.json("sessions", "show", e.session)["state"] != "running")


def test_a_form_of_a_server_is_shown_by_an_editor_that_shows_forms(edit, home):
    answer = {"action": "accept", "content": {"name": "Ada"}}
    e = edit([one_call("s__elicit"), {"text": "done"}], forms=answer)
    e.servers = [{"name": "s", "command": "/usr/bin/python3", "args": [str(FAKE), "asks"], "env": []}]
    e.new()
    assert e.prompt() == "end_turn" and json.loads(results(home, e.session)[0]["output"]) == answer
    [form] = e.asked
    assert (form["mode"], form["message"], form["sessionId"]) == ("form", "Who?", e.session)
    assert form["requestedSchema"]["required"] == ["name"]


def test_a_form_of_a_server_is_asked_in_any_other_editor(edit, home):
    e = edit([one_call("s__elicit"), {"text": "done"}])
    e.servers = [{"name": "s", "command": "/usr/bin/python3", "args": [str(FAKE), "asks"], "env": []}]
    e.new()
    assert e.prompt() == "end_turn" and e.said().startswith("s__elicit asks: Who?")
    assert e.prompt("Ada") == "end_turn"
    assert json.loads(results(home, e.session)[0]["output"]) == {"action": "accept", "content": {"name": "Ada"}}


def test_a_flood_of_requests_is_answered_and_an_endless_line_ends_it(edit, home):
    e = edit([{"text": "x"}])
    n = 2000
    e.process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": "no/such"}).encode() + b"\n" for i in range(1000, 1000 + n)))
    assert sorted(e.read()["id"] for _ in range(n)) == list(range(1000, 1000 + n))
    e.new()
    assert e.prompt() == "end_turn"
    other = edit()
    with pytest.raises(BrokenPipeError):
        for _ in range(40):
            other.process.stdin.write(b"x" * (1 << 20))
    assert other.process.wait(DEADLINE) == 0
    other.close = lambda: None


def test_a_failed_turn_and_a_busy_session_are_errors(edit):
    e = edit(["not an object"])
    e.new()
    assert "SCENARIO_FAILED" in e.refused("session/prompt", sessionId=e.session, prompt=[{"type": "text", "text": "x"}])["message"]
    assert e.refused("session/prompt", sessionId="nobody", prompt=[])["code"] == -32602
    assert e.refused("session/new", cwd="relative", mcpServers=[])["code"] == -32602
    assert e.refused("no/such/method")["code"] == -32601


def test_garbage_from_the_editor_is_answered_and_survived(edit):
    e = edit([{"text": "still here"}])
    for line in (b"nonsense\n", b"[]\n", b"{}\n", b'{"jsonrpc":"2.0","id":7,"result":{}}\n', b'\xff\xfe\n', b"\n"):
        e.process.stdin.write(line)
    codes = [e.read()["error"]["code"] for _ in range(4)]
    assert codes == [-32700, -32600, -32600, -32700]
    e.new()
    assert e.prompt() == "end_turn" and e.said() == "still here"


def test_a_hub_that_was_restarted_is_found_again(edit, home, start_hub):
    e = edit([{"text": "one"}, {"text": "two"}])
    e.new()
    assert e.prompt() == "end_turn"
    home.ok("stop")
    retry(lambda: home.hub_pid() is None)
    assert e.prompt() == "end_turn" and e.said().startswith("one")


def test_an_editor_made_with_the_official_library(home, hub, work):
    modules = peers.install()
    work.mkdir()
    (work / "a.txt").write_text("on disk")
    scenario = work / "scenario.jsonl"
    scenario.write_text("".join(json.dumps(x) + "\n" for x in [
        one_call("read_file", path="a.txt"), one_call("write_file", path="b.txt", content="x\n"),
        one_call("everything__echo", message="hello"), one_call(cmd="make"),
        one_call("todo", items=[{"text": "first", "state": "active"}]), {"text": "done"},
        one_call(cmd="touch c"), {"text": "again"}]))
    shutil.copy(ROOT / "tests/peers/acp_client.mjs", modules.parent)
    env = {**home.env, "AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario)}
    done = subprocess.run(["node", modules.parent / "acp_client.mjs", work, BIN, "acp", "--sandbox", "danger-full-access"],
                          env=env, capture_output=True, text=True, timeout=2 * DEADLINE)
    check_report(done.stderr)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["hello"]["agentInfo"]["name"] == "afloat" and (seen["stop"], seen["again"]) == ("end_turn", "end_turn")
    assert {"tool_call", "tool_call_update", "plan", "agent_message_chunk", "available_commands_update"} <= set(seen["updates"])
    assert seen["past"][0] == "user_message_chunk" and "tool_call" in seen["past"] and seen["list"] == 1
    assert seen["asked"][0][0] == "allow_once" and seen["written"] == {str(work / "b.txt"): "x\n"}
    assert seen["methods"] == ["make", "release", "touch c", "release"]
    id = home.json("sessions", "list")["sessions"][0]["id"]
    outputs = [r["output"] for r in results(home, id) if r["tool"] != "todo"]
    assert outputs[0] == "from the editor" and "hello" in outputs[2] and outputs[3] == "from the terminal"
