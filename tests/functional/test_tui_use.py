"""A day's work in the full-screen interface: sessions, terminals and runs are ended and taken over by keys, what is asked can
always be answered, and the last row tells the truth."""
import json
import os
import time

import pytest

from bots import DONE, Repo, Rig, gate, say, shell
from conftest import retry
from test_agent import Session, one_call
from test_tui import close_popup, no_cursor, open_pty, pytestmark, tui  # noqa: F401 (a fixture and a mark)


def env_of(tui, *scenes):
    path = tui.dir.parent / "scenario.jsonl"
    path.write_text("\n".join(json.dumps(scene) for scene in scenes))
    return {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(path)}


# ---- terminals -----------------------------------------------------------------------------------

def test_an_operation_on_terminals_is_offered_the_one_on_the_screen(tui):
    Session(tui.home, tui.dir, [{"text": "x"}]).ask("a session, open")
    t, row = open_pty(tui, "mine", "cat")
    t.press("C-p", "Command palette")
    t.type("pty.kill")
    t.press("Enter", f"> id={row['id']}")
    t.press("Enter", f'"deleted": "{row["id"]}"')


def test_a_terminal_that_is_gone_is_not_listed(tui):
    t, row = open_pty(tui, "short-lived", "sh", "-c", "echo begun; read x")
    t.shows("begun")  # it is connected
    t.type("\n")
    t.shows("has ended with status 0")
    t.wait(lambda g: any("· short-lived" in line for line in g))
    tui.home.http("DELETE", f"/pty/{row['id']}")  # as the keeper does by itself after 15 s
    t.gone("short-lived")


def test_writing_a_message_leaves_the_terminal(tui):
    Session(tui.home, tui.dir, [{"text": "said before"}]).ask("older")
    t, row = open_pty(tui, "zzz", "cat")
    t.wait(lambda g: "leaves the terminal" in g[-1])
    t.keys("Tab")
    retry(lambda: no_cursor(t))
    t.press("i", "message; Enter")
    t.type("typed")
    t.shows("> typed")
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_the_last_row_is_about_what_is_shown(tui):
    Session(tui.home, tui.dir, [{"text": "x"}], permission="plan").ask("a session")
    t = tui()
    t.press("Enter", "message; Enter sends")
    t.wait(lambda g: " · plan · " in g[-1] and g[-1].endswith("Esc back · Tab next · Ctrl+P palette"))
    row = tui.home.http("POST", "/pty", json.dumps({"cmd": "cat", "cwd": "/usr", "name": "kitten"}).encode()).json()
    t.shows("kitten")
    t.keys("Escape")
    t.wait(lambda g: g[-1].endswith("Tab next · Ctrl+P palette · ? help"))
    t.keys("Up")  # what is at work is above what rests
    t.wait(lambda g: " · /usr " in g[-1] and "plan" not in g[-1])
    t.keys("Enter")
    t.wait(lambda g: g[-1].endswith("Tab leaves the terminal · Ctrl+P palette"))
    t.press("C-p", "Command palette")
    t.wait(lambda g: g[-1].endswith("Esc closes"))
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_a_session_type_is_chosen_from_a_list(tui):
    for name, text in (("looker", 'kind = "pty", cmd = "cat", description = "shows it"'), ("talker", 'kind = "chat", title = "of a type"')):
        (tui.home.dir / "sessions" / name).mkdir(parents=True)
        (tui.home.dir / "sessions" / name / "init.lua").write_text("return { " + text + " }\n")
    t = tui()
    t.press("C-p", "Command palette")
    t.type("terminal.type")
    t.press("Enter", "▣ looker")
    t.shows("shows it")
    t.press("Down")
    t.press("Enter", "○ of a type")
    t.shows("message; Enter sends")
    t.press("C-p", "Command palette")
    t.type("terminal.type")
    t.press("Enter", "▣ looker")
    t.keys("Enter")
    row = retry(lambda: tui.home.http("GET", "/pty").json()["ptys"])[0]
    assert row["type"] == "looker"
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_sessions_of_other_directories_are_told_apart(tui, tmp_path):
    (tmp_path / "otherproj").mkdir()
    Session(tui.home, tmp_path / "otherproj", [{"text": "x"}]).ask("far")
    Session(tui.home, tui.dir, [{"text": "x"}]).ask("near")
    grid = tui().shows("near")
    assert any("far" in line and "otherproj│" in line for line in grid), grid
    assert not any("near" in line and "w│" in line for line in grid[:4]), grid


def test_only_the_environment_of_this_project_is_told(tui):
    t = tui()
    report = {"type": "env.failed", "shell": "s1", "pid": os.getpid(), "generation": 1}
    for project in ("/elsewhere", str(tui.dir) + "x", str(tui.dir.parent)):
        answer = tui.home.http("POST", "/env", json.dumps({**report, "project": project}).encode())
        assert answer.status < 300, answer.body
        if project == str(tui.dir.parent):
            t.wait(lambda g: "environment failed" in g[-1])
        else:
            report["type"] = "env.ready" if report["type"] == "env.failed" else "env.failed"
            tui.home.http("POST", "/pty", json.dumps({"cmd": "true", "cwd": "/", "name": f"after{len(project)}"}).encode())
            t.shows(f"after{len(project)}"[:8])
            assert "environment" not in t.status()


def test_a_terminal_is_scrolled_from_the_list(tui):
    t, row = open_pty(tui, "lines", "sh", "-c", "seq -f line-%g 100; cat")
    t.shows("line-100")
    t.keys("Tab")
    retry(lambda: no_cursor(t))
    t.keys("PageUp")
    t.shows("line-70")
    t.gone("line-100")
    t.press("PageDown", "line-100")
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_zoom_gives_the_program_the_whole_window(tui):
    t, row = open_pty(tui, "sized", "sh", "-c", "trap 'stty size' WINCH; echo begun; while :; do read x; done")
    t.shows("begun")
    t.press("C-p", "Command palette")
    t.type("zoom")
    t.keys("Enter")
    t.shows("23 80")
    t.wait(lambda g: not any("Sessions" in line or "│" in line for line in g))
    t.press("C-p", "Command palette")
    t.type("zoom")
    t.press("Enter", "Sessions")
    tui.home.http("DELETE", f"/pty/{row['id']}")


# ---- ending things -------------------------------------------------------------------------------

def test_what_is_chosen_is_ended_after_a_question(tui):
    s = Session(tui.home, tui.dir, [{"text": "x"}])
    s.ask("one to end")
    row = tui.home.http("POST", "/pty", json.dumps({"cmd": "cat", "cwd": "/", "name": "kitten"}).encode()).json()
    t = tui()
    t.shows("▣ kitten")
    t.press("d", "end the terminal 'kitten' with all of its processes?")
    t.press("n")
    t.gone("Sure?")
    assert tui.home.http("GET", f"/pty/{row['id']}").status == 200
    t.press("d", "end the terminal 'kitten'")
    t.keys("y")
    t.gone("kitten")
    assert tui.home.http("GET", f"/pty/{row['id']}").status == 404
    t.press("d", "end the session 'one to end'?")
    t.keys("y")
    t.gone("one to end")
    assert s.call("GET")["state"] == "ended"


# ---- what is asked -------------------------------------------------------------------------------

def test_another_permission_mode_leaves_the_session_where_it_is(tui, tmp_path):
    """Also a session of another directory, and while a turn runs."""
    other = tmp_path / "other"
    other.mkdir()
    s = Session(tui.home, other, [one_call(cmd="until [ -e go ]; do sleep 0.01; done"), {"text": "said"}])
    s.send("first")
    s.wait_for("tool.called")
    t = tui()
    t.press("Enter", "● shell")
    t.keys("Tab", "Tab")
    t.wait(lambda g: "Tab next" in g[-1])
    for mode in ("ask", "edits"):
        t.press("m", f" · {mode} · ")
        assert s.call("GET")["working_dir"] == str(other) and s.call("GET")["permission"] == mode
    (other / "go").touch()
    t.shows("said")
    t.press("m", " · plan · ")
    assert s.call("GET")["working_dir"] == str(other)
    t.keys("m", "m", "m")  # faster than the hub answers
    t.shows(" · edits · ")
    retry(lambda: s.call("GET")["permission"] == "edits")


def test_what_a_message_leads_to_is_answered_with_one_key(tui):
    """The question may be told before the answer to the message: the input is empty by then."""
    for n in range(3):
        t = tui(env=env_of(tui, one_call(cmd=f"echo hi {n}"), {"text": f"after {n}"}))
        t.press("C-n", "message; Enter sends")
        t.keys("Escape")
        retry(lambda: no_cursor(t))
        t.press("m", " · ask · ")
        t.press("i")
        t.type("go\r")
        t.shows(f"wants to run: echo hi {n}")
        time.sleep(0.5)  # it is read before it is answered
        t.press("a", f"after {n}")


def test_a_question_is_the_next_after_a_message_that_is_typed(tui):
    s = Session(tui.home, tui.dir, [one_call(cmd="true"), {"text": "after"}], permission="ask")
    t = tui()
    t.press("Enter", "message; Enter sends")
    t.type("half a mess")
    s.send("go")
    t.shows("wants to run: true")
    t.keys("Tab")
    time.sleep(0.5)
    t.press("d", "after")
    t.shows("> half a mess")


@pytest.mark.parametrize("cols, rows", [(80, 24), (40, 10)])
def test_every_answer_is_seen_however_long_the_command_is(tui, cols, rows):
    script = "\n".join(["set -e"] + [f"echo line {i}" for i in range(40)])
    s = Session(tui.home, tui.dir, [one_call(cmd=script), {"text": "after"}], permission="ask")
    t = tui(cols=cols, rows=rows)
    t.press("Enter", "message; Enter sends")
    s.send("go")
    grid = t.shows("wants to run: set -e")
    grid = t.wait(lambda g: any(" d  deny" in line for line in g))
    assert any(" a  allow this call only" in line for line in grid) and any("echo line 0" in line for line in grid)
    t.keys("BTab")
    t.keys("End")
    t.shows("echo line 39")
    t.shows(" d  deny")
    t.keys("Tab")
    time.sleep(0.5)  # it is read before it is answered
    t.press("d", "after")


def test_every_answer_is_seen_however_wide_the_characters_are(tui):
    s = Session(tui.home, tui.dir, [one_call(cmd="echo " + "漢字" * 260), {"text": "after"}], permission="ask")
    t = tui(cols=80, rows=27)
    t.press("Enter", "message; Enter sends")
    s.send("go")
    t.shows("wants to run: echo")
    t.wait(lambda g: any(" a  allow this call only" in line for line in g) and any(" d  deny" in line for line in g))
    time.sleep(0.5)  # it is read before it is answered
    t.press("d", "after")


def test_a_change_that_is_asked_for_is_shown_whole(tui):
    long = "int answer = 42; // " + "a remark that goes on " * 6 + "to its END"
    (tui.dir / "f.c").write_text("int x;\n")
    s = Session(tui.home, tui.dir, [{"tool_calls": [{"name": "write_file", "input": {"path": "f.c", "content": long + "\n"}}]},
                                    {"text": "after"}], permission="ask")
    t = tui()
    t.press("Enter", "message; Enter sends")
    s.send("go")
    t.shows("write_file wants to write: f.c")
    t.shows("to its END")


# ---- the hub, and what is said -------------------------------------------------------------------

def test_a_hub_that_was_killed_is_started_with_one_key(tui):
    t = tui()
    pid = int((tui.home.runtime / "hub.pid").read_text())
    tui.home.kill_hub()
    t.resize(40, 10)
    t.shows("hub gone: Ctrl+R starts it")  # whole in a narrow window too
    t.resize(80, 24)
    t.shows("the hub does not answer; Ctrl+R starts it")
    t.keys("C-r")
    t.gone("the hub does not answer")
    assert int((tui.home.runtime / "hub.pid").read_text()) != pid


def test_what_was_said_breaks_between_words(tui):
    said = "please look " + "at everything twice " * 5 + "then-a-word-that-is-much-longer-than-the-window-and-has-no-blank-in-it"
    Session(tui.home, tui.dir, [{"text": "done"}]).ask(said)
    t = tui()
    t.press("Enter", "message; Enter sends")
    grid = t.shows("then-a-word")
    rows = [line[27:79].rstrip() for line in grid[1:8]]
    assert rows[0] == "> please look at everything twice at everything" and rows[1].startswith("twice at everything"), rows
    assert rows[3].startswith("then-a-word-that"), rows
    assert "then-a-word-that-is-much-longer-than-the-window-and-has-no-blank-in-it" in "".join(rows[2:5]).replace(" ", "")


def test_a_question_is_shown_as_one(tui):
    ask = {"tool_calls": [{"name": "ask_user", "input": {"question": "which one?", "choices": ["red", "blue"]}}]}
    s = Session(tui.home, tui.dir, [ask, {"text": "after"}])
    t = tui()
    t.press("Enter", "message; Enter sends")
    s.send("go")
    t.shows("● ask_user  which one?")


# ---- runs ----------------------------------------------------------------------------------------

@pytest.fixture
def rig(home, tui, tmp_path):
    return Rig(home, Repo(tui.dir, {"f": "x\n"}))


def test_who_follows_a_run_goes_on_with_its_next_session(tui, rig):
    rig.bot(keys="sleep_secs = 5\nmax_iterations = 2\n")
    run = rig.start([gate(), say("the first part"), say("the second part")], prompt="build the thing", iterations=2)
    t = tui()
    t.shows("worker: build the")  # not what the bot's instructions begin with
    t.press("Enter", "running shell")
    run.open_gate()
    t.shows("the first part")
    t.wait(lambda g: any("… worker" in line and "sleeps" in line for line in g))
    t.shows("the second part")


def test_a_run_is_taken_over_by_keys(tui, rig):
    rig.bot()
    run = rig.start([shell("echo by the bot > made.txt"), *DONE])
    run.wait()
    t = tui()
    t.press("r", "1 file")
    t.wait(lambda g: "Enter diff · a apply · M merge" in g[-1])
    t.press("Enter", "+by the bot")
    close_popup(t, "+by the bot")
    t.press("a", "its changes are on your tree")
    assert (tui.dir / "made.txt").read_text() == "by the bot\n"
    t.shows("applied")
    (tui.dir / "made.txt").unlink()
    t.press("M", "into your branch?")
    t.keys("y")
    t.shows("merged into")
    assert (tui.dir / "made.txt").read_text() == "by the bot\n"
    t.press("d", "discard the work of run")
    t.press("n")
    t.gone("Sure?")
