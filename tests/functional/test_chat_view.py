"""`afloat chat` against a hub of the test's own: what is shown, asked and sent, and every way out."""
import json
import re
import signal
import threading

import pytest

from chat_rig import FakeHub, Terminal
from conftest import read_to_end, retry, wait_gone


@pytest.fixture
def fake(home):
    made = []

    def make(play):
        made.append(FakeHub(home, play))
        return made[-1]

    yield make
    for hub in made:
        hub.close()


def answer(text):
    return lambda hub, said: hub.say(*re.findall(r"\S+\s*|\s+", text))


# ---- without a terminal --------------------------------------------------------------------


def test_a_pipe_gets_the_text_as_it_is_in_the_end(home, fake):
    fake(lambda hub, said: hub.say("draft **x**", final="# final\n"))
    done = home.cli("chat", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "# final\n", "")


def test_a_hub_of_another_build_is_told_once(home, fake):
    fake(answer("ok")).build = "00aa00aa"
    done = home.cli("chat", "hello")
    assert done.returncode == 0 and done.stderr.count("is not the build the hub runs (00aa00aa)") == 1


def test_what_is_piped_in_is_added_to_the_text(home, fake):
    hub = fake(answer("ok"))
    assert home.cli("chat", "explain", input="some data\n").returncode == 0
    assert hub.wait_for("POST", "/session/s-1/message")["text"] == "explain\n\nsome data\n"
    for args in (["chat"], ["chat", "-"]):
        hub.requests.clear()
        assert home.cli(*args, input="only this").returncode == 0
        assert hub.wait_for("POST", "/session/s-1/message")["text"] == "only this"


@pytest.mark.parametrize("args, input", [(["chat"], None), (["chat", "-"], ""), (["chat"], " \n"),
                                         (["chat", "x"], "a\0b"),
                                         (["chat", "x", "--permission", "maybe"], None),
                                         (["chat", "x", "--sandbox", "none"], None),
                                         (["chat", "x", "--plugins", "a", "--no-plugins"], None)])
def test_what_makes_no_sense_is_refused_before_anything_is_asked(home, fake, args, input):
    hub = fake(answer("ok"))
    done = home.cli(*args, input=input)
    assert done.returncode == 2 and done.stderr.startswith("afloat: ")
    assert hub.requests == []


def test_json_prints_one_event_a_line(home, fake):
    hub = fake(answer("two words"))
    done = home.cli("chat", "hi", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == hub.events
    assert hub.events[-1]["type"] == "turn.completed"


@pytest.mark.parametrize("event, code, words", [
    ("turn.failed", 1, "the turn failed: no luck (PROVIDER_FAILED)"),
    ("turn.interrupted", 130, "interrupted")])
def test_the_exit_code_says_how_the_turn_ended(home, fake, event, code, words):
    fake(lambda hub, said: hub.emit(event, error={"code": "PROVIDER_FAILED", "message": "no luck"}))
    done = home.cli("chat", "hi")
    assert done.returncode == code and words in done.stderr


def test_without_a_terminal_a_permission_is_denied(home, fake):
    def play(hub, said):
        hub.emit("permission.requested", request_id="p-1",
                 call={"tool_name": "shell", "tool_call_id": "c", "input": {"cmd": "rm x"}})
        assert hub.wait_for("POST", "/session/s-1/permission/p-1")["decision"] == "deny"
        hub.emit("question.asked", question_id="q-1", question="which?", choices=[])
        hub.wait_for("POST", "/session/s-1/answer/q-1")
        hub.say("done")

    hub = fake(play)
    done = home.cli("chat", "go")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "denied: shell needs approval, and no terminal is attached" in done.stderr
    assert "no terminal is attached" in hub.wait_for("POST", "/session/s-1/answer/q-1")["answer"]


def test_the_environment_travels_without_secrets(home, fake, tmp_path):
    hub = fake(answer("ok"))
    env = {"MY_SECRET_THING": "s", "github_token": "t", "LD_PRELOAD_X": "l", "OPENAI_API_KEY": "k",
           "EDITOR": "ed", "AFLOAT_SCENARIO": "scenario.jsonl"}
    assert home.cli("chat", "x", env=env, cwd=tmp_path).returncode == 0
    body = hub.wait_for("POST", "/session")
    assert body["working_dir"] == str(tmp_path)
    sent = body["env"]
    assert sent["OPENAI_API_KEY"] == "k" and sent["EDITOR"] == "ed" and "PATH" in sent
    assert sent["AFLOAT_SCENARIO"] == str(tmp_path / "scenario.jsonl")
    assert not {"MY_SECRET_THING", "github_token", "LD_PRELOAD_X"} & set(sent)


def test_flags_are_what_the_session_is_made_with(home, fake, tmp_path):
    hub = fake(answer("ok"))
    done = home.cli("chat", "x", "-m", "openai/some/model", "--sandbox", "read-only", "--network",
                    "--permission", "ask", "--plugins", "a, b", "--cwd", str(tmp_path),
                    "--engine", "native")
    assert done.returncode == 0, done.stderr
    body = hub.wait_for("POST", "/session")
    del body["env"]
    assert body == {"working_dir": str(tmp_path), "provider": "openai", "model": "some/model",
                    "engine": "native", "sandbox": "read-only", "permission": "ask", "network": True,
                    "plugins": ["a", "b"]}
    hub.requests.clear()
    assert home.cli("chat", "x", "-m", "meta/model", "--no-plugins").returncode == 0
    body = hub.wait_for("POST", "/session")
    assert body["model"] == "meta/model" and "provider" not in body and body["plugins"] == []


def test_ctrl_c_in_a_script_interrupts_the_turn(home, fake):
    def play(hub, said):
        hub.wait_for("POST", "/session/s-1/interrupt")
        hub.emit("turn.interrupted")

    hub = fake(play)
    process = home.popen("chat", "long")
    hub.wait_for("POST", "/session/s-1/message")
    hub.wait_for("GET", "/session/s-1/events")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert b"interrupted" in process.stderr.read()


def test_a_hub_that_goes_away_in_a_turn_leaves_the_way_back(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="half of ")
        hub.wait_for("GET", "/session/s-1/events")
        hub.close()

    fake(play)
    done = home.cli("chat", "go", "--no-start")
    assert done.returncode == 5
    assert "lost the connection to the hub during the turn; resume with 'afloat" in done.stderr
    assert done.stderr.count("the hub") == 1
    assert "'afloat chat --resume s-1'" in done.stderr


# ---- on a terminal -------------------------------------------------------------------------


def test_markdown_is_drawn_while_it_comes(home, fake):
    fake(answer("# Title\n\nSome *words* and `code`.\n\n- one\n- two\n\n```\nx  =  1\n```\n\nend"))
    t = Terminal(home, "chat", "go", "--color", "never")
    assert t.rest() == 0
    assert t.screen() == "Title\n\nSome words and code.\n\n• one\n• two\n\n  x  =  1\n\nend"
    assert t.is_usual()


def test_an_answer_higher_than_the_window_is_there_once(home, fake):
    lines = [f"line {i:03d}" for i in range(100)]
    fake(answer("```\n" + "\n".join(lines) + "\n```"))
    t = Terminal(home, "chat", "go", "--color", "never", rows=10, cols=40)
    assert t.rest() == 0
    assert t.screen().split("\n") == ["  " + line for line in lines]


def test_what_a_plugin_made_of_the_answer_is_what_stays(home, fake):
    fake(lambda hub, said: hub.say("a draft", final="the answer"))
    t = Terminal(home, "chat", "go")
    assert t.rest() == 0
    assert t.screen() == "the answer"


def test_a_change_behind_printed_blocks_is_told(home, fake):
    fake(lambda hub, said: hub.say("one\n\ntwo\n\nthree", final="other"))
    t = Terminal(home, "chat", "go", "--color", "never")
    assert t.rest() == 0
    assert t.screen().endswith("three\n(a plugin changed the answer; it reads:)\nother")


def test_a_stream_that_broke_off_begins_anew(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="half an ans")
        hub.emit("message.aborted", error={})
        hub.say("the whole answer")

    fake(play)
    t = Terminal(home, "chat", "go")
    assert t.rest() == 0
    assert t.screen() == "the whole answer"


def test_a_stream_that_broke_off_behind_printed_blocks_is_told(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="one\n\ntw")
        hub.emit("message.aborted", error={})
        hub.say("one\n\ntwo")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never")
    assert t.rest() == 0
    assert t.screen() == "one\n(the answer broke off; once more:)\none\n\ntwo"


def test_tools_are_cards(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="looking")
        hub.emit("message.completed", role="assistant", text="looking")
        hub.emit("tool.called", call_id="c", tool="shell", input={"cmd": "ls -la", "timeout_s": 3},
                 changed_by="guard")
        hub.emit("tool.completed", call_id="c", tool="shell", success=True, duration_ms=12,
                 output="\n".join(f"file{i}" for i in range(7)))
        hub.emit("tool.called", call_id="d", tool="write", input={"path": "x" * 200})
        hub.emit("tool.completed", call_id="d", tool="write", success=False, error="no room",
                 output=None, duration_ms=1)
        hub.emit("tool.completed", call_id="e", tool="make", success=True, output=None, duration_ms=62000)
        hub.emit("tool.completed", call_id="f", tool="make", success=True, output=None, duration_ms=923818)
        hub.say("done")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never", cols=60)
    assert t.rest() == 0
    rows = t.screen().split("\n")
    assert rows[:9] == ["looking", "● shell  ls -la", "  changed by guard", "  file0", "  file1",
                        "  file2", "  file3", "  … 3 more lines", "  ✓ shell 12 ms"]
    assert rows[9].startswith("● write  xxx") and rows[9].endswith("…") and len(rows[9]) <= 60
    assert rows[10:] == ["  ✗ write 1 ms  no room", "  ✓ make 62.0 s", "  ✓ make 15 min 23 s", "done"]


def test_cards_say_what_a_call_is_about_not_its_json(home, fake):
    def play(hub, said):
        items = [{"text": "look", "state": "done"}]
        hub.emit("tool.called", call_id="c", tool="todo", input={"items": items})
        hub.emit("tool.completed", call_id="c", tool="todo", success=True, duration_ms=0, output="1 of 1 done")
        hub.emit("tool.called", call_id="d", tool="ask_user", input={"question": "Which?", "choices": ["a", "b"]})
        hub.emit("tool.completed", call_id="d", tool="ask_user", success=True, output="a", duration_ms=12345)
        hub.say("done")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never", cols=60)
    assert t.rest() == 0
    assert t.screen().split("\n") == ["● todo", "  1 of 1 done", "  ✓ todo 0 ms", "● ask_user  Which?", "  a",
                                      "  ✓ ask_user 12.3 s", "done"]


def test_results_of_calls_that_ran_at_once_say_which_call_they_are_of(home, fake):
    def play(hub, said):
        for n in "ab":
            hub.emit("tool.called", call_id=n, tool="shell", input={"cmd": f"make {n * 60}\ncheck"})
        hub.emit("tool.completed", call_id="b", tool="shell", success=True, duration_ms=1, output="built")
        hub.emit("tool.completed", call_id="a", tool="shell", success=False, duration_ms=2, error="no rule")
        hub.emit("tool.called", call_id="c", tool="shell", input={"cmd": "ls"})
        hub.emit("tool.completed", call_id="c", tool="shell", success=True, duration_ms=3, output="x")
        hub.say("done")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never", cols=60)
    assert t.rest() == 0
    b, a, c = (line for line in t.screen().split("\n") if line.startswith(("  ✓", "  ✗")))
    assert b.startswith("  ✓ shell 1 ms  make bbbb") and b.endswith("b…")
    assert a.startswith("  ✗ shell 2 ms  make aaaa") and a.endswith("a…  no rule") and len(a) <= 60
    assert c == "  ✓ shell 3 ms"


def test_the_diff_of_one_of_two_calls_is_shown_once(home, fake):
    diff = "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+long b\n"

    def play(hub, said):
        hub.emit("permission.requested", request_id="p", diff=diff, offers=[{"remember": "once", "covers": "this call"}],
                 call={"tool_name": "write_file", "tool_call_id": "w", "input": {"path": "b.txt", "content": "long b"}})
        hub.wait_for("POST", "/session/s-1/permission/p")
        hub.emit("tool.completed", call_id="s", tool="shell", success=True, duration_ms=1, output="ran")
        hub.emit("tool.completed", call_id="w", tool="write_file", success=True, duration_ms=1, output="wrote", diff=diff)
        hub.say("done")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never")
    t.asked("allow? ")
    t.type("a\r")
    assert t.rest() == 0
    assert t.screen().count("+long b") == 1 and "✓ write_file" in t.screen()


def test_nothing_from_a_model_commands_the_terminal(home, fake):
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202e"

    def play(hub, said):
        hub.emit("tool.called", call_id="c", tool="t" + evil, input={"cmd": evil}, changed_by=evil)
        hub.emit("tool.completed", call_id="c", tool="t" + evil, output=evil, success=False,
                 error=evil, duration_ms=1)
        hub.emit("plugin.error", plugin=evil, message=evil)
        hub.emit("env.failed", project=evil, error=evil)
        hub.emit("permission.requested", request_id="p", call={"tool_name": evil, "input": {"a": evil}},
                 offers=[{"remember": "once", "covers": evil}])
        hub.wait_for("POST", "/session/s-1/permission/p")
        hub.emit("question.asked", question_id="q", question=evil, choices=[evil])
        hub.wait_for("POST", "/session/s-1/answer/q")
        hub.say(evil, "`" + evil + "`\n\n```\n" + evil + "\n```\n\n&#27;[2J")

    fake(play)
    t = Terminal(home, "chat", "go", "--color", "never", cols=200)
    t.read(rb"allow\? ")
    t.type("d\r")
    t.read(rb"answer> ")
    t.type("1\r")
    assert t.rest() == 0
    t.screen()  # fails on control characters and on sequences that are not ours
    for bad in (b"\x07", b"\x9b", b"\x7f", "\u202e".encode(), b"\x1b]", b"\x1b[2J"):
        assert bad not in t.seen


def test_a_permission_is_asked_for(home, fake):
    def play(hub, said):
        for i, tool in enumerate(("shell", "write", "web")):
            hub.emit("permission.requested", request_id=f"p-{i}",
                     offers=[{"remember": "once", "covers": "this call only"},
                             {"remember": "prefix", "covers": "any command of this form: make *"},
                             {"remember": "tool", "covers": f"every call of {tool} in this session"}],
                     call={"tool_name": tool, "tool_call_id": "c", "input": {"cmd": "make"}})
            hub.wait_for("POST", f"/session/s-1/permission/p-{i}")
        hub.say("done")

    hub = fake(play)
    t = Terminal(home, "chat", "go", "--color", "never")
    for i, (keys, decision, remember, reason) in enumerate((
            (["a"], "allow", "once", None), (["T"], "allow", "tool", None),
            (["what", "", "e", "a b", "d not on a Friday"], "deny", "once", "not on a Friday"))):
        t.read(rb"%s wants to run: " % (b"shell", b"write", b"web")[i])
        for key in keys:
            t.asked("allow? ")
            t.type(key + "\r")
            if key != keys[-1]:
                t.read(rb"type one of the letters above and Enter")
        body = hub.wait_for("POST", f"/session/s-1/permission/p-{i}")
        assert (body["decision"], body["remember"], body.get("reason")) == (decision, remember, reason)
    assert t.rest() == 0
    screen = t.screen()
    assert "? shell wants to run: make" in screen
    assert "[a] allow this call only" in screen and "[p] always allow any command of this form: make *" in screen
    assert "[t] always allow every call of web in this session" in screen and "[d] deny" in screen


def test_what_was_typed_before_the_question_does_not_allow(home, fake):
    go = threading.Event()

    def play(hub, said):
        hub.emit("message.delta", text="thinking about it\n\n.")
        go.wait(30)
        hub.emit("permission.requested", request_id="p", call={"tool_name": "shell", "input": {}},
                 offers=[{"remember": "once", "covers": "this call only"}])
        hub.wait_for("POST", "/session/s-1/permission/p")
        hub.say("done")

    hub = fake(play)
    t = Terminal(home, "chat", "go")
    t.read(rb"thinking about it")
    t.type("a\r")
    go.set()
    t.read(rb"allow\? \r")
    t.type("d\r")
    assert hub.wait_for("POST", "/session/s-1/permission/p")["decision"] == "deny"
    assert t.rest() == 0


def test_a_question_is_answered_by_number_or_text(home, fake):
    def play(hub, said):
        for i in (1, 2):
            hub.emit("question.asked", question_id=f"q-{i}", question="Which one?",
                     choices=["red", "blue"])
            hub.wait_for("POST", f"/session/s-1/answer/q-{i}")
        hub.say("done")

    hub = fake(play)
    t = Terminal(home, "chat", "go", "--color", "never")
    for i, keys in ((1, "2\r"), (2, "gr\u00fcn\r")):
        t.read(rb"Which one\?.*1\. red.*2\. blue.*answer> \r")
        t.type(keys)
        hub.wait_for("POST", f"/session/s-1/answer/q-{i}")
    assert t.rest() == 0
    assert hub.wait_for("POST", "/session/s-1/answer/q-1") == {"answer": "blue"}
    assert hub.wait_for("POST", "/session/s-1/answer/q-2") == {"answer": "grün"}


# ---- the prompt ----------------------------------------------------------------------------


def test_lines_become_turns_until_the_person_leaves(home, fake):
    hub = fake(lambda hub, said: hub.say(f"you said {said!r}"))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("one\r")
    t.read(rb"you said 'one'")
    t.prompt()
    t.type("\x1b[A\x7f\x7f\x7ftwo\x1b[D\x1b[D-\r")
    t.read(rb"you said 't-wo'")
    t.prompt()
    t.type("\r")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0 and t.is_usual()
    assert [b["text"] for m, p, b in hub.requests if p.endswith("/message")] == ["one", "t-wo"]


def test_a_paste_of_several_lines_is_one_message(home, fake):
    hub = fake(answer("ok"))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("\x1b[200~def f():\r\n\treturn 1\r\x1b[201~")
    t.type("\r")
    assert hub.wait_for("POST", "/session/s-1/message")["text"] == "def f():\n\n\treturn 1"
    t.prompt()
    t.type("\x04")
    assert t.rest() == 0


def test_ctrl_c_interrupts_a_turn_and_the_prompt_comes_back(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="going on and on")
        hub.wait_for("POST", "/session/s-1/interrupt")
        hub.emit("turn.interrupted")

    fake(play)
    t = Terminal(home, "chat")
    t.prompt()
    t.type("go\r")
    t.read(rb"going on and on")
    t.type("\x03")
    t.read(rb"interrupted")
    t.prompt()
    t.type("\x03")
    t.read(rb"Ctrl-C again leaves")
    t.type("\x03")
    assert t.rest() == 130 and t.is_usual()


def test_ctrl_c_twice_leaves_a_turn_that_does_not_end(home, fake):
    def play(hub, said):
        hub.emit("message.delta", text="deaf")

    hub = fake(play)
    t = Terminal(home, "chat")
    t.prompt()
    t.type("go\r")
    t.read(rb"deaf")
    t.type("\x03")
    hub.wait_for("POST", "/session/s-1/interrupt")
    t.type("\x03")
    assert t.rest() == 130 and t.is_usual()
    assert "afloat chat --resume s-1" in t.screen()


def test_two_ctrl_c_of_one_write_interrupt_the_turn_and_leave(home, fake):
    hub = fake(lambda hub, said: hub.emit("message.delta", text="deaf"))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("go\r")
    t.read(rb"deaf")
    t.type("\x03\x03")
    assert t.rest() == 130 and t.is_usual()
    hub.wait_for("POST", "/session/s-1/interrupt")
    assert "afloat chat --resume s-1" in t.screen()


def test_ctrl_c_twice_at_a_question_leaves_a_turn_that_does_not_end(home, fake):
    hub = fake(lambda hub, said: hub.emit("question.asked", question_id="q", question="Which one?", choices=[]))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("go\r")
    t.read(rb"answer> ")
    t.type("\x03\x03")
    assert t.rest() == 130 and t.is_usual()
    hub.wait_for("POST", "/session/s-1/interrupt")


def test_ctrl_c_throws_a_line_away(home, fake):
    hub = fake(answer("ok"))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("not this\x03")
    t.prompt()
    t.type("but this\r")
    assert hub.wait_for("POST", "/session/s-1/message")["text"] == "but this"
    t.prompt()
    t.type("\x04")
    assert t.rest() == 0


def test_a_closed_terminal_ends_the_chat_and_not_the_turn(home, fake):
    for busy in (False, True):
        hub = fake(lambda hub, said: hub.emit("message.delta", text="busy"))
        t = Terminal(home, "chat")
        t.prompt()
        if busy:
            t.type("go\r")
            t.read(rb"busy")
        t.end.close()
        wait_gone(t.process.pid)
        assert t.process.wait() == 130
        assert not [p for m, p, b in hub.requests if p.endswith("/interrupt")]
        hub.close()
        home.socket.unlink()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True])
def test_the_terminal_is_given_back_when_we_are_told_to_end(home, fake, signum, busy):
    hub = fake(lambda hub, said: hub.emit("message.delta", text="busy"))
    t = Terminal(home, "chat")
    t.prompt()
    if busy:
        t.type("go\r")
        t.read(rb"busy")
    assert not t.is_usual()
    t.process.send_signal(signum)
    assert t.rest() == 130 and t.is_usual()
    interrupted = [p for m, p, b in hub.requests if p.endswith("/interrupt")]
    assert bool(interrupted) == (busy and signum == signal.SIGTERM)


def test_a_hub_that_goes_away_leaves_the_terminal_as_it_was(home, fake):
    go = threading.Event()

    def play(hub, said):
        hub.emit("message.delta", text="half of it")
        go.wait(30)
        hub.close()

    fake(play)
    t = Terminal(home, "chat", "--no-start")
    t.prompt()
    t.type("go\r")
    t.read(rb"half of it")
    go.set()
    assert t.rest() == 5 and t.is_usual()
    assert "'afloat chat --resume s-1'" in t.screen().replace("\n", "")


def test_a_terminal_that_cannot_draw_gets_plain_text(home, fake):
    hub = fake(answer("**bold** \x1b[2J"))
    t = Terminal(home, "chat", env={"TERM": "dumb"})
    t.read(rb"> ")
    t.type("hello\n")
    t.read(rb"\*\*bold\*\* \\x1b\[2J")
    assert hub.wait_for("POST", "/session/s-1/message")["text"] == "hello"
    t.read(rb"> ")
    t.type("\x04")
    assert t.rest() == 0
    assert b"\x1b" not in t.seen


def test_what_is_typed_during_a_turn_is_for_the_next_prompt(home, fake):
    go = threading.Event()

    def play(hub, said):
        hub.emit("message.delta", text="wait")
        go.wait(30)
        hub.say("ed", final="waited")

    hub = fake(play)
    t = Terminal(home, "chat")
    t.prompt()
    t.type("one\r")
    t.read(rb"wait")
    t.type("ahead")
    go.set()
    t.frame(lambda s: "> ahead" in s.text() and not s.busy())
    assert t.screen().count("ahead") == 1
    t.type("!\r")
    retry(lambda: [b["text"] for m, p, b in hub.requests if p.endswith("/message")] == ["one", "ahead!"])
    t.prompt()
    t.type("\x04")
    assert t.rest() == 0


def test_an_unknown_command_is_told(home, fake):
    fake(answer("ok"))
    t = Terminal(home, "chat")
    t.prompt()
    t.type("/nosuch\r")
    t.read(rb"there is no command '/nosuch'")
    t.prompt()
    t.type("/help\r")
    seen = t.prompt()
    for name in b"help model tools plugins plugin reload cost compact new resume quit".split():
        assert b"/" + name in seen
    t.type("/quit\r")
    assert t.rest() == 0


def test_who_attaches_speaks_to_the_turn_and_can_interrupt_it(home, fake):
    hub = fake(lambda hub, said: None)
    hub.emit("turn.started", text="long")
    hub.emit("message.completed", role="user", text="long")
    hub.emit("message.delta", text="on and on")
    t = Terminal(home, "sessions", "attach", "s-1", "--color", "never")
    t.frame(lambda s: "> long" in s.text() and "on and on" in s.text() and s.busy() and "fake/f" in s.text())
    t.type("mind the gap\r")
    assert hub.wait_for("POST", "/session/s-1/steer") == {"text": "mind the gap"}
    t.type("\x1b")
    hub.wait_for("POST", "/session/s-1/interrupt")
    hub.emit("turn.interrupted")
    t.frame(lambda s: s.asks("> ") and not s.busy())
    t.type("\x03")
    assert t.rest() == 130 and t.is_usual()
    assert "afloat chat --resume s-1" in t.screen()


def test_output_of_programs_looks_as_they_meant_it(home, fake):
    def play(hub, said):
        hub.emit("tool.called", call_id="c1", tool="shell", input={"cmd": "count"})
        output = "\n   1 \x1b[31mred\x1b[0m\tone\n  12 plain\ttwo\n10%\r50%\r100%\r\nbad \x1b[2J\n"
        hub.emit("tool.completed", call_id="c1", tool="shell", success=True, output=output, duration_ms=1)
        hub.say("done")

    fake(play)
    t = Terminal(home, "chat", "--color", "never")
    t.prompt()
    t.type("go\r")
    t.frame(lambda s: "done" in s.text() and s.asks("> ") and not s.busy())
    rows = t.screen().split("\n")
    at = rows.index("● shell  count")
    assert rows[at + 1:at + 5] == ["     1 red        one", "    12 plain      two", "  100%", "  bad \\x1b[2J"]
    t.type("/quit\r")
    assert t.rest() == 0


def test_an_answer_that_a_message_cuts_off_stays_on_the_screen(home, hub, tmp_path):
    scenario = tmp_path / "s.jsonl"
    scenario.write_text(json.dumps({"text": "word " * 300, "delta_ms": 100}) + '\n{"text": "another answer"}\n')
    home.env.update(AFLOAT_PROVIDER="scripted", AFLOAT_SCENARIO=str(scenario))
    t = Terminal(home, "chat", "--color", "never", cwd=tmp_path)
    t.prompt()
    t.type("go\r")
    t.frame(lambda s: "word word" in s.text())
    t.type("stop that\r")
    t.frame(lambda s: "another answer" in s.text() and s.asks("> ") and not s.busy())
    shown = t.screen()
    assert re.search(r"\nword( word)*\n\(cut off here\)\n> stop that\n+another answer\n", shown), shown
    assert shown.count("stop that") == 1
    t.type("/quit\r")
    assert t.rest() == 0
    t = Terminal(home, "chat", "--color", "never", "-c", cwd=tmp_path)
    t.prompt()
    assert re.search(r"\nword( word)*\n\(cut off here\)\n> stop that\n+another answer\n", t.screen()), t.screen()
    t.type("/quit\r")
    assert t.rest() == 0


def test_a_terminal_of_another_encoding_gets_ascii(home, hub, tmp_path):
    """Marks and rows of the chat as ASCII; the file that the tool writes is UTF-8 all the same."""
    home.env.update(AFLOAT_PROVIDER="scripted", LANG="de_DE.ISO-8859-1", TERM="xterm")
    for name in ("LC_ALL", "LC_CTYPE"):
        home.env.pop(name, None)
    process, terminal = home.on_terminal("chat", "--permission", "auto", 'write "naïve" to a.txt', cwd=tmp_path)
    seen = read_to_end(terminal)
    assert process.wait() == 0
    assert all(byte < 0x80 for byte in seen), seen
    assert b"* \x1b[1mwrite_file" in seen and "naïve" in (tmp_path / "a.txt").read_text()
