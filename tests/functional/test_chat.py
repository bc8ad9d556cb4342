"""`afloat chat`, `sessions` and `models` with a real hub and the scripted provider."""
import http.server
import json
import re
import signal
import threading

import pytest

from chat_rig import SPINNER, Terminal
from conftest import read_to_end, retry
from test_agent import Session, call, one_call, plugin


@pytest.fixture
def script(home, tmp_path):
    """Write a scenario and let every command of this home play it."""

    def write(*lines):
        path = tmp_path / "scenario.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        home.env["AFLOAT_PROVIDER"] = "scripted"
        home.env["AFLOAT_SCENARIO"] = str(path)
        return path

    return write


@pytest.fixture
def place(tmp_path):
    dir = tmp_path / "work"
    dir.mkdir()
    return dir


def newest(home):
    return home.json("sessions")["sessions"][0]


# ---- one turn ------------------------------------------------------------------------------


def test_one_turn_prints_the_answer(home, hub, script, place):
    script({"text": "The **answer** is 42."})
    done = home.cli("chat", "what is it?", cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "The **answer** is 42.\n", "")
    row = newest(home)
    assert row["state"] == "idle" and row["working_dir"] == str(place)
    assert row["provider"] == "scripted" and not row["fallback"]


def test_the_demo_model_says_what_it_is(home, hub, place):
    done = home.cli("chat", "hello", cwd=place)
    assert done.returncode == 0 and done.stdout.strip()
    assert done.stderr.count("no model key found: this is the scripted demo model") == 1
    assert "'afloat setup'" in done.stderr and max(map(len, done.stderr.splitlines())) <= 80
    assert newest(home)["fallback"]


def test_json_is_the_journal_as_it_is_written(home, hub, script, place):
    script({"text": "two words", "usage": {"input": 5, "cached": 1, "output": 2}})
    done = home.cli("chat", "hi", "--json", cwd=place)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    types = [e["type"] for e in events]
    assert done.returncode == 0 and types[0] == "session.created" and types[-1] == "turn.completed"
    assert "message.delta" in types and events[-1]["text"] == "two words"
    kept = home.http("GET", f"/session/{newest(home)['id']}/events").json()["events"]
    assert [e["type"] for e in kept][:len(types)] == types


def test_a_provider_that_fails_fails_the_turn(home, hub, script, place):
    script({"when": "never said", "text": "x"})
    done = home.cli("chat", "hello", cwd=place)
    assert done.returncode == 1 and done.stderr.startswith("afloat: the turn failed: ")


def test_a_session_goes_on_by_id_and_by_place(home, hub, script, place, tmp_path):
    script({"text": "first"}, {"text": "second"}, {"text": "third"})
    assert home.ok("chat", "one", cwd=place) == "first\n"
    id = newest(home)["id"]
    done = home.cli("chat", "two", "--resume", id, cwd=place)
    assert (done.returncode, done.stdout) == (0, "second\n") and f"continuing session {id}" in done.stderr
    assert home.ok("chat", "three", "-c", cwd=place) == "third\n"
    assert len(home.json("sessions")["sessions"]) == 1
    missing = home.cli("chat", "x", "-c", cwd=tmp_path)
    assert missing.returncode == 3 and "this directory has no session to continue" in missing.stderr
    assert home.cli("chat", "x", "--resume", "nosuch").returncode == 3


def test_what_is_not_trusted_is_announced_once(home, hub, script, place):
    script({"text": "one"}, {"text": "one"})
    (place / ".afloat" / "plugins").mkdir(parents=True)
    (place / ".afloat" / "plugins" / "p.lua").write_text("on_done(function() end)\n")
    (place / "AGENTS.md").write_text("be brief\n")
    done = home.cli("chat", "hi", cwd=place)
    assert done.returncode == 0 and done.stderr.count("2 items of ") == 1
    home.ok("trust", cwd=place)
    assert home.cli("chat", "hi", cwd=place).stderr == ""
    (place / "AGENTS.md").write_text("be long\n")
    said = home.cli("chat", "hi", cwd=place).stderr
    assert f"1 item of '{place}' is not trusted as it is now, and only what was trusted is used;" in said


def test_two_clients_have_each_their_own_path_and_place(home, hub, script, tmp_path):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "pwd; mine"}}]}, {"text": "done"})
    for name in ("a", "b"):
        bin = tmp_path / name / "bin"
        bin.mkdir(parents=True)
        (bin / "mine").write_text(f"#!/bin/sh\necho tool of {name}\n")
        (bin / "mine").chmod(0o755)
        done = home.cli("chat", "go", "--json", cwd=tmp_path / name,
                        env={"PATH": f"{bin}:/usr/bin:/bin"})
        outputs = [e["output"] for e in map(json.loads, done.stdout.splitlines())
                   if e["type"] == "tool.completed"]
        assert len(outputs) == 1 and f"tool of {name}" in outputs[0]
        assert str(tmp_path / name) in outputs[0]


def test_more_directories_can_be_written_when_the_flag_says_so(home, hub, script, place, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    script({"tool_calls": [{"name": "shell", "input": {"cmd": f"echo x > {other}/made"}}]}, {"text": "done"})
    assert home.ok("chat", "go", cwd=place) == "done\n"
    assert not (other / "made").exists()
    assert home.ok("chat", "go", "--add-dir", "../other", cwd=place) == "done\n"
    assert (other / "made").exists()
    assert newest(home)["writable"] == [str(other)]
    assert home.cli("chat", "go", "--add-dir", "nosuch", cwd=place).returncode == 3
    assert home.http("POST", "/session", b'{"writable": ["relative"]}').status == 400


# ---- on a terminal -------------------------------------------------------------------------


def test_a_conversation_with_tools(home, hub, script, place):
    script({"text": "I look.", "tool_calls": [{"name": "shell", "input": {"cmd": "echo from the tool"}}]},
           {"when": "from the tool", "text": "It *works*."}, {"text": "Bye."})
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"It works\.")
    t.prompt()
    t.type("thanks\r")
    t.read(rb"Bye\.")
    t.prompt()
    t.type("/cost\r")
    t.read(rb"output")
    t.prompt()
    t.type("\x04")
    assert t.rest() == 0 and t.is_usual()
    rows = t.screen().split("\n")
    at = rows.index("> go")
    assert rows[at + 1:at + 4] == ["I look.", "● shell  echo from the tool", "  from the tool"]
    assert rows[at + 4].startswith("  ✓ shell ") and rows[at + 5] == "It works."


def test_ctrl_c_interrupts_what_a_real_hub_does(home, hub, script, place):
    script({"text": "word " * 500, "delta_ms": 50}, {"text": "calm again"})
    t = Terminal(home, "chat", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"word word word")
    t.type("\x03")
    t.read(rb"interrupted")
    t.prompt()
    assert newest(home)["state"] == "idle"
    t.type("again\r")
    t.read(rb"calm again")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0 and t.is_usual()


@pytest.mark.parametrize("error, words", [
    ({"status": 429, "times": 1, "retry_after": 2, "message": "slow down please"}, "slow down please"),
    ({"status": 529, "times": 1, "retry_after": 2, "message": "we are overloaded"}, "we are overloaded"),
    ({"cut": True, "times": 1}, "trying again")])
def test_a_provider_that_fails_for_a_moment_is_seen_to_be_asked_again(home, hub, script, place, error, words):
    script({"text": "never mind, here it is", "error": error})
    t = Terminal(home, "chat", "--color", "never", cwd=place, cols=120)
    t.prompt()
    t.type("go\r")
    t.frame(lambda s: any(line[0] in SPINNER and words in (text := "".join(line)) and "trying again" in text
                          for line in s.lines if line))
    t.read(rb"here it is")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0
    assert "never mind, here it is" in t.screen().split("\n")


def test_a_provider_that_says_nothing_is_seen_to_think_and_can_be_interrupted(home, hub, script, place):
    script({"text": "too late", "delay_ms": 60000})
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type("go\r")
    t.frame(lambda s: re.search(r"thinking · [1-9]\d* s", s.text()))  # a busy machine draws some seconds only
    t.type("\x1b")
    t.read(rb"interrupted")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_a_provider_that_refuses_fails_the_turn_and_the_prompt_comes_back(home, hub, script, place):
    script({"text": "x", "error": {"status": 401, "times": 9, "message": "no such key"}})
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"the turn failed: .*no such key.*PROVIDER_AUTH")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


@pytest.mark.parametrize("key, ran", [("a", True), ("d", False), ("yes", True), ("N", False)])
def test_a_person_decides_what_runs(home, hub, script, place, key, ran):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo here > made"}}]}, {"text": "done"})
    t = Terminal(home, "chat", "go", "--permission", "ask", cwd=place)
    t.read(rb"shell.* wants to run: .*echo here > made.*allow\? \r")
    t.type(key + "\r")
    t.read(rb"done")
    assert t.rest() == 0
    assert (place / "made").exists() == ran


def test_questions_in_a_narrow_window_are_whole_and_break_between_words(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "true"}}]}, {"text": "one\n\ntwo"}, {"text": "again"})
    t = Terminal(home, "chat", "--permission", "ask", "--color", "never", cols=40, cwd=place)
    t.prompt()
    t.type("go\r")
    t.frame(lambda s: s.asks("allow? "))
    rows = t.drawn.text().split("\n")
    at = rows.index("  [a] allow this call only")
    assert rows[at + 1:at + 3] == ["  [e] always allow exactly this command", "      in this project: true"]
    t.type("a\r")
    t.prompt()
    t.type("/rewind\r")
    t.frame(lambda s: "go back to before turn t1: the\nconversation only, no file\nchanges? [y/N]" in s.text())
    t.type("n\r")
    t.prompt()
    t.type("/new\r")
    t.prompt()
    t.type("/resume\r")
    t.prompt()
    assert "go    one two" in t.drawn.text()
    t.type("/quit\r")
    assert t.rest() == 0


@pytest.mark.parametrize("content, shown", [("one\ntwo\n", rb"  one\s+two"), ("", rb"\(empty\)")])
def test_a_write_that_changes_nothing_is_asked_about_by_its_text(home, hub, script, place, content, shown):
    (place / "a.txt").write_text(content)
    script({"tool_calls": [{"name": "write_file", "input": {"path": "a.txt", "content": content}}]}, {"text": "done"})
    t = Terminal(home, "chat", "go", "--permission", "ask", "--color", "never", cwd=place)
    question = t.read(rb"write_file wants to write: a.txt.*" + shown + rb".*allow\? \r")
    assert b"{" not in question, question
    t.type("a\r")
    t.read(rb"done")
    assert t.rest() == 0


def test_texts_of_many_lines_are_asked_about_as_lines(home, hub, script, place):
    code = 'tool {\n  name = "die",\n}\n' + "-- more\n" * 500
    script({"tool_calls": [{"name": "plugin_save", "input": {"name": "die", "content": code}}]}, {"text": "done"})
    t = Terminal(home, "chat", "go", "--permission", "ask", "--color", "never", cwd=place)
    t.read(rb'plugin_save wants to run: {"name":"die"}\s+content:\s+tool {\s+name = "die",\s+}.*'
           rb"  -- more\s+\xe2\x80\xa6 103 more lines.*allow\? \r")
    t.type("d\r")
    t.read(rb"done")
    assert t.rest() == 0


def test_an_edit_is_shown_as_a_diff_in_the_question_and_in_the_result(home, hub, script, place):
    (place / "a.txt").write_text("one\ntwo\n")
    edit = {"tool_calls": [{"name": "edit_file", "input": {"path": "a.txt", "old": "two", "new": "2"}}]}
    script(edit, {"text": "done"}, {"tool_calls": [{"name": "write_file", "input": {"path": "b.txt", "content": "b\n"}}]},
           {"text": "done again"})
    t = Terminal(home, "chat", "go", "--permission", "ask", "--color", "never", cwd=place)
    t.read(rb"edit_file wants to change: a.txt.*-two.*\+2.*allow\? \r")
    t.type("a\r")
    t.read(rb"done")
    assert t.rest() == 0 and t.seen.count(b"-two") == 1  # the result does not repeat it
    t = Terminal(home, "chat", "-c", "more", "--permission", "auto", "--color", "never", cwd=place)
    t.read(rb"write_file  b.txt.*\+\+\+ b/b.txt.*\+b.*done again")
    assert t.rest() == 0


def test_without_a_terminal_nothing_runs_that_must_be_asked_for(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo here > made"}}]}, {"text": "done"})
    done = home.cli("chat", "go", "--permission", "ask", cwd=place)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "needs approval, and no terminal is attached" in done.stderr
    assert not (place / "made").exists()


def test_a_question_of_the_model_is_answered(home, hub, script, place):
    script({"tool_calls": [{"name": "ask_user",
                            "input": {"question": "Which colour?", "choices": ["red", "blue"]}}]},
           {"when": "blue", "text": "It is blue."})
    t = Terminal(home, "chat", "go", cwd=place)
    t.read(rb"Which colour\?.*2\. blue.*answer> \r")
    t.type("2\r")
    t.read(rb"It is blue\.")
    assert t.rest() == 0


def test_a_hub_that_is_killed_in_a_turn_can_be_gone_on_with(home, script, place):
    script({"text": "word " * 500, "delta_ms": 50})
    t = Terminal(home, "chat", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"word word word")
    home.kill_hub(signal.SIGKILL)
    assert t.rest() == 5 and t.is_usual()
    said = t.screen().replace("\n", "")
    id = said.partition("chat --resume ")[2].partition("'")[0]
    assert home.json("sessions", "show", id)["state"] == "crashed"
    script(*[{"text": "where were we"}] * 2)
    done = home.cli("chat", "go on", "--resume", id, cwd=place)
    assert (done.returncode, done.stdout) == (0, "where were we\n")


def test_a_hub_started_anew_between_two_messages_gets_the_environment_again(home, start_hub, script, place):
    tool = {"tool_calls": [{"name": "shell", "input": {"cmd": "echo [$ONLY_HERE]"}}]}
    script({"text": "one"}, tool, {"when": "[seen]", "text": "same as ever"})
    hub = start_hub()
    t = Terminal(home, "chat", cwd=place, env={"ONLY_HERE": "seen"})
    t.prompt()
    t.type("go\r")
    t.read(rb"one")
    t.prompt()
    hub.close()
    start_hub()
    t.type("again\r")
    t.read(rb"same as ever")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_slash_commands_of_the_session(home, hub, script, place):
    script({"text": "one"}, {"text": "summary"}, {"text": "more"})
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "greeter.lua").write_text(
        'command { name = "hello", description = "greets",'
        ' run = function(args) return "hi " .. table.concat(args, "+") end }\n'
        'command { name = "where", run = function(args, ctx) return "works in " .. ctx.working_dir end }\n'
        'tool { name = "wave", description = "waves", run = function() return "waved" end }\n')
    home.ok("reload")
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    first = newest(home)["id"]
    t.type("/hello big world\r")
    t.read(rb"hi big\+world")
    t.prompt()
    t.type("/where\r")
    t.read(rb"works in " + str(place).encode())
    t.prompt()
    t.type("/help\r")
    t.read(rb"/greeter:hello +greets")
    t.prompt()
    for line, words in (("/tools", rb"wave +greeter +waves"), ("/plugins", rb"greeter"), ("/reload", rb"generation"),
                        ("/model", rb"the model is scripted/"), ("/new", rb"session .* begins")):
        t.type(line + "\r")
        t.read(words)
        t.prompt()
    assert newest(home)["id"] != first
    t.type(f"/resume {first}\r")
    t.read(rb"continuing session")
    t.prompt()
    t.type("hello\r")
    t.read(rb"one")
    t.prompt()

    def compacted():  # the last turn may still be putting its things away
        t.type("/compact\r")
        return b"conversation compacted: earlier messages were replaced by a summary" in t.prompt()

    retry(compacted)
    t.type("/quit\r")
    assert t.rest() == 0


def test_modes_and_rules_are_shown_and_changed(home, hub, script, place):
    script({"text": "one"})
    t = Terminal(home, "chat", "--permission", "ask", "--color", "never", cwd=place)
    t.prompt()
    t.type("/permission\r")
    t.read(rb"the mode is ask")
    t.prompt()
    t.type("/permission plan\r")
    t.frame(lambda s: "plan · scripted/" in s.text())
    assert newest(home)["permission"] == "plan"
    t.type("/permission maybe\r")
    t.read(rb"permission.*maybe|maybe.*permission")
    t.prompt()
    assert newest(home)["permission"] == "plan"
    t.type("/permission remove nosuch\r")
    t.read(rb"nosuch")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_a_talk_is_exported_and_shown_again_when_it_is_resumed(home, hub, script, place):
    script({"text": "I *look*.", "tool_calls": [{"name": "shell", "input": {"cmd": "echo hi"}}]}, {"text": "# Done"},
           {"text": "again"})
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type("what is\x1b\rhere\r")
    t.read(rb"Done")
    t.prompt()
    t.type("/export talk.md\r")
    t.read(rb"written to talk.md")
    t.prompt()
    assert (place / "talk.md").read_text() == ("## User\n\nwhat is\nhere\n\n## Assistant\n\nI *look*.\n\n"
                                               '`shell` {"cmd":"echo hi"}\n\n## Assistant\n\n# Done\n\n')
    t.type("/export talk.md\r")
    t.read(rb"'talk.md' exists already")
    t.prompt()
    id = newest(home)["id"]
    t.type("/new\r")
    t.read(rb"begins")
    t.prompt()
    t.type("/resume\r")
    seen = t.prompt().decode()
    assert any(line.startswith(id) and " ago " in line and "what is" in line and "# Done" in line
               for line in seen.replace("\r", "").split("\n")), seen
    t.type(f"/resume {id}\r")
    t.read(rb"continuing session")
    t.prompt()
    t.type("\x04")
    assert t.rest() == 0
    rows = t.screen().split("\n")
    at = len(rows) - 1 - rows[::-1].index("> what is")
    assert rows[at:at + 5] == ["> what is", "  here", "I look.", "● shell  echo hi", "Done"]


def test_who_resumes_a_session_at_work_sees_the_turn_from_its_start(home, hub, script, place):
    script({"text": " ".join(f"word{i}" for i in range(40)), "delta_ms": 50}, {"text": "calm again"})
    first = Terminal(home, "chat", "--color", "never", cwd=place)
    first.prompt()
    first.type("go\r")
    first.read(rb"word2 ")
    t = Terminal(home, "chat", "--color", "never", "--resume", newest(home)["id"], cwd=place)
    t.read(rb"word39")
    t.frame(lambda s: s.asks("> ") and not s.busy())
    rows = t.screen().split("\n")
    at = rows.index("> go")
    said = " ".join(row for row in rows[at + 1:] if row.startswith("word"))
    assert said.split() == [f"word{i}" for i in range(40)]
    t.type("and\r")
    t.read(rb"calm again")
    first.end.close()
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_who_resumes_a_session_that_waits_is_asked(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo ran"}}]}, {"text": "done at last"}, {"text": "x"})
    first = Terminal(home, "chat", "--color", "never", "--permission", "ask", cwd=place)
    first.prompt()
    first.type("go\r")
    first.read(rb"allow\? ")
    id = newest(home)["id"]
    first.end.close()  # the terminal is closed; the session goes on waiting
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type(f"/resume {id}\r")
    t.read(rb"allow\? ")
    t.type("a\r")
    t.read(rb"done at last")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_a_turn_that_another_client_begins_is_shown_at_the_prompt(home, hub, script, place):
    script({"text": "one"}, {"tool_calls": [{"name": "shell", "input": {"cmd": "echo ran"}}]}, {"text": "for both"}, {"text": "last"})
    t = Terminal(home, "chat", "--color", "never", "--permission", "ask", cwd=place)
    t.prompt()
    t.type("first\r")
    t.read(rb"one")
    t.prompt()
    t.type("half a li")
    id = newest(home)["id"]
    call(home, "POST", f"/session/{id}/message", {"text": "from elsewhere"}, 202)
    t.read(rb"allow\? ")
    t.type("a\r")
    t.read(rb"for both")
    t.frame(lambda s: s.asks("> half a li"))
    t.type("ne\r")
    t.read(rb"last")
    t.prompt()
    rows = [row for row in t.screen().split("\n") if row.startswith(("> ", "one", "for both", "last"))]
    assert rows[:6] == ["> first", "one", "> from elsewhere", "for both", "> half a line", "last"]
    t.type("/quit\r")
    assert t.rest() == 0


def test_an_answer_of_another_client_ends_the_question(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo ran"}}]},
           {"tool_calls": [{"name": "ask_user", "input": {"question": "which?"}}]}, {"text": "all clear"}, {"text": "x"})
    t = Terminal(home, "chat", "--color", "never", "--permission", "ask", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"allow\? ")
    id = newest(home)["id"]
    home.ok("sessions", "allow", id)
    t.read(rb"answer> ")
    home.ok("sessions", "answer", id, "that one")
    t.read(rb"all clear")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_nobody_is_asked_what_was_decided_before(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo ran"}}]},
           {"text": " ".join(f"word{i}" for i in range(40)), "delta_ms": 50}, {"text": "x"})
    first = Terminal(home, "chat", "--color", "never", "--permission", "ask", cwd=place)
    first.prompt()
    first.type("go\r")
    first.read(rb"allow\? ")
    first.type("a\r")
    first.read(rb"word2 ")
    id = newest(home)["id"]
    resumed = Terminal(home, "chat", "--color", "never", "--resume", id, cwd=place)
    resumed.read(rb"word39")
    resumed.prompt()
    assert "allow?" not in resumed.screen()
    resumed.type("/quit\r")
    assert resumed.rest() == 0
    watches = Terminal(home, "sessions", "attach", id, "--color", "never", cwd=place)
    watches.read(rb"word39")
    assert "allow?" not in watches.screen()
    for t in (first, watches):
        t.end.close()


def test_a_resumed_talk_is_the_one_that_the_model_knows(home, hub, place):
    """What was taken back is not shown, and is shown again when the rewind is undone; a message that waited stands where
    its turn began, and one that a plugin changed is there once."""
    plugin(home, "loud", 'on_user_message(function(ctx, text) return text .. "!" end)')
    s = Session(home, place, [one_call(cmd="until [ -e go ]; do sleep 0.01; done"), *({"text": f"answer {i}"} for i in range(5))])
    home.env["AFLOAT_SCENARIO"] = str(next(place.glob("scenario-*")))  # who resumes it brings the environment
    s.send("one")
    s.wait_for("tool.called")
    s.send("two")
    (place / "go").touch()
    s.wait_for("turn.completed", turn="t2")
    s.ask("three")
    checkpoint = []

    def shown():
        t = Terminal(home, "chat", "--color", "never", "--resume", s.id, cwd=place)
        t.prompt()
        t.type("/quit\r")
        assert t.rest() == 0
        return [line for line in t.screen().split("\n") if line.startswith(("> ", "answer")) and line != "> /quit"]

    def back(to):
        s.call("POST", "/rewind", {"to": to, "files": False})
        checkpoint.append(s.events("session.rewound")[-1]["checkpoint"])

    all = ["> one", "answer 0", "> two", "answer 1", "> three", "answer 2"]
    assert shown() == all
    back("t2")
    assert shown() == all[:2]
    assert s.ask("four")["text"] == "answer 3"
    assert shown() == [*all[:2], "> four", "answer 3"]
    back(checkpoint[0])
    assert shown() == all
    back(checkpoint[1])
    assert shown() == [*all[:2], "> four", "answer 3"]


@pytest.mark.parametrize("answer, text", [("y", "before\n"), ("n", "after\n"), ("\x1b", "after\n")])
def test_a_turn_is_taken_back_when_the_user_agrees(home, hub, script, place, answer, text):
    (place / "a.txt").write_text("before\n")
    script({"tool_calls": [{"name": "write_file", "input": {"path": "a.txt", "content": "after\n"}}]},
           {"text": "written"})
    t = Terminal(home, "chat", "--permission", "auto", "--color", "never", cwd=place)
    t.prompt()
    t.type("go\r")
    t.read(rb"written")
    t.prompt()
    assert (place / "a.txt").read_text() == "after\n"
    t.type("/rewind\r")
    t.read(rb"restored  .*a.txt")
    t.asked("go back to before turn t1: these files and the conversation? [y/N] ")
    t.type(answer + ("" if answer == "\x1b" else "\r"))
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0
    assert (place / "a.txt").read_text() == text
    assert ("back at the state before turn" in t.screen()) == (answer == "y")


def test_a_command_of_the_users_own_runs_on_the_terminal(home, hub, script, place):
    script({"text": "one"})
    t = Terminal(home, "chat", "--color", "never", cwd=place, env={"SHELL": "/bin/sh"})
    t.prompt()
    t.type("!pwd; test -t 0 && echo tty; exit 3\r")
    t.read(rb"exit code 3")
    t.prompt()
    rows = t.screen().split("\n")
    at = rows.index("> !pwd; test -t 0 && echo tty; exit 3")
    assert rows[at + 1:at + 4] == [str(place), "tty", "afloat: exit code 3"]
    t.type("/help\r")
    help = " ".join(t.prompt().decode().split())
    assert "!COMMAND, !!COMMAND" in help and "with ! the model reads what it printed" in help
    t.type("!echo rea''dy; exec sleep 100\r")
    t.read(rb"ready\r\n")
    assert t.is_usual()
    t.type("\x03")
    t.read(rb"ended by signal 2")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_what_was_said_is_there_in_the_next_chat_of_the_project(home, hub, script, place, tmp_path):
    script(*[{"text": "fine"}] * 3)
    (place / "sub").mkdir()
    (place / ".git").mkdir()
    for text in ("first thing", "second\x1b\rthing"):
        t = Terminal(home, "chat", cwd=place)
        t.prompt()
        t.type(text + "\r")
        t.read(rb"fine")
        t.prompt()
        t.type("\x04")
        assert t.rest() == 0
    files = list((home.dir / "history").iterdir())
    assert len(files) == 1 and files[0].stat().st_mode & 0o777 == 0o600
    assert files[0].read_text() == '"first thing"\n"second\\nthing"\n'
    t = Terminal(home, "chat", cwd=tmp_path)
    t.prompt()
    t.type("\x1b[A")
    t.type("\x04")  # nothing was said here: still empty
    assert t.rest() == 0
    t = Terminal(home, "chat", cwd=place)
    t.prompt()
    t.type("\x12first\r")
    t.frame(lambda s: "> first thing" in s.text())
    t.read(rb"fine")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_the_model_writes_a_plugin_and_the_person_saves_it(home, hub, script, place):
    bad = "Here:\n```lua\ntool { name = }\n```\n"
    good = ('Better:\n```lua\nplugin { api = "1.0", name = "dice" }\n'
            'command { name = "roll", description = "d", run = function() return "rolled 4" end }\n```\n')
    script({"text": bad}, {"when": "does not load", "text": good})
    t = Terminal(home, "chat", cwd=place)
    t.prompt()
    t.type("/plugin dice rolls a die\r")
    t.read(rb"it does not load: ")
    t.read(rb"it loads: commands roll\r\n.*save it, so that it runs in the hub with your permissions\? \[y/N\] \r")
    assert not (home.dir / "plugins" / "dice.lua").exists()
    t.type("y\r")
    t.read(rb"saved as ")
    t.prompt()
    assert "rolled 4" in (home.dir / "plugins" / "dice.lua").read_text()

    def rolled():
        t.type("/roll\r")
        return b"rolled 4" in t.prompt()

    retry(rolled)
    t.type("/quit\r")
    assert t.rest() == 0


def test_without_a_key_a_plugin_is_written_too(home, hub, place):
    t = Terminal(home, "chat", cwd=place)
    t.prompt()
    t.type('/plugin tide says "high water", always\r')
    t.read(rb"it loads: .*save it, so that it runs in the hub with your permissions\? \[y/N\] \r")
    t.type("y\r")
    t.read(rb"saved as ")
    t.prompt()

    def signed():
        t.type("list the files\r")
        return b'tide: says "high water", always' in t.prompt()

    retry(signed)
    t.type("/quit\r")
    assert t.rest() == 0


# ---- sessions and models -------------------------------------------------------------------


def test_on_a_terminal_lists_shorten_the_home_directory(home, hub, script, place):
    script({"text": "one"})
    home.ok("chat", "hello", cwd=place)
    _, terminal = home.on_terminal("sessions", cols=200, env={"TERM": "xterm", "HOME": str(place.parent)})
    shown = read_to_end(terminal).decode()
    assert f" ~/{place.name} " in shown and str(place) not in shown, shown
    assert str(place) in home.ok("sessions", env={"HOME": str(place.parent)})  # a pipe gets it whole


def test_sessions_are_listed_shown_and_ended(home, hub, script, place):
    script({"text": "one"})
    assert "afloat chat" in home.cli("sessions").stderr
    home.ok("chat", "hello", cwd=place)
    row = newest(home)
    assert row["id"] in home.ok("sessions") and str(place) in home.ok("sessions", "list")
    assert home.json("sessions", "show", row["id"][:-1])["id"] == row["id"]
    assert "working_dir" in home.ok("session", "get", row["id"])
    assert "hooks" in home.json("sessions", "pipeline", row["id"])
    assert "generation" in home.ok("sessions", "pipeline", row["id"])
    home.ok("sessions", "end", row["id"])
    assert home.json("sessions", "show", row["id"])["state"] == "ended"
    home.ok("sessions", "end", row["id"], "--purge")
    assert home.cli("sessions", "show", row["id"]).returncode == 3
    assert home.cli("sessions", "show", "nosuch").returncode == 3


def test_another_terminal_watches_and_answers(home, hub, script, place):
    script({"tool_calls": [{"name": "shell", "input": {"cmd": "echo here > made"}}]},
           {"tool_calls": [{"name": "ask_user", "input": {"question": "Which?"}}]},
           {"when": "that one", "text": "done at last"})
    id = home.http("POST", "/session", json.dumps({
        "working_dir": str(place), "permission": "ask", "env": home.env}).encode()).json()["id"]
    t = Terminal(home, "sessions", "attach", id, "--no-input", "--color", "never")
    home.http("POST", f"/session/{id}/message", b'{"text": "go"}')
    t.read(rb"> go")
    retry(lambda: home.json("sessions", "show", id)["pending"])
    home.ok("sessions", "allow", id)
    retry(lambda: "question_id" in str(home.json("sessions", "show", id)["pending"]))
    home.ok("sessions", "answer", id, "that one")
    t.read(rb"done at last")
    assert (place / "made").exists()
    assert home.cli("sessions", "deny", id).returncode == 3
    t.type("\x03")
    assert t.rest() == 130


def test_models_lists_providers_and_whose_key_is_here(home, hub):
    rows = {p["name"]: p for p in home.json("models", env={"OPENAI_API_KEY": "k"})["providers"]}
    assert rows["openai"]["has_key"] and not rows["anthropic"]["has_key"]
    listed = home.ok("models")
    assert home.ok("model", "ls") == listed
    assert "openai" in listed and "scripted" in listed and "no key" in listed
    assert home.cli("models", "nosuch").returncode == 3


def test_a_provider_without_a_key_in_its_settings_is_not_said_to_lack_one(home, start_hub):
    (home.dir / "config.toml").write_text('[providers.near]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n')
    start_hub()
    keys = {line.split()[0]: line for line in home.ok("models").splitlines() if line}
    assert "no key needed" in keys["near"] and "no key needed" not in keys["openai"] and "no key" in keys["openai"]


def test_models_of_a_provider_are_asked_for_with_the_clients_key(home, start_hub):
    keys = []

    class Provider(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            keys.append((self.path, self.headers["Authorization"]))
            body = b'{"data": [{"id": "small"}, {"id": "large"}]}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (home.dir / "config.toml").write_text(
        '[providers.work]\nkind = "openai-chat"\napi_key_env = "WORK_KEY"\n'
        f'base_url = "http://127.0.0.1:{server.server_port}/v1"\n')
    start_hub()
    assert home.ok("models", "work", env={"WORK_KEY": "k-1"}).split() == ["large", "small"]
    assert keys == [("/v1/models", "Bearer k-1")]
    assert home.json("sessions")["sessions"] == []
    server.shutdown()
    server.server_close()
