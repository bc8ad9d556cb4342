"""`afloat run` and `runs attach` as a person sees them, with a hub of the test's own: what is shown, what
Ctrl-C, a closed terminal and a hub that goes away do."""
import json
import signal
import threading

import pytest

from chat_rig import Terminal
from conftest import retry
from runs_rig import RUN, FakeRunHub


@pytest.fixture
def fake(home):
    hubs = []

    def make(play=lambda hub, body: None):
        hubs.append(FakeRunHub(home, play))
        return hubs[-1]

    yield make
    for hub in hubs:
        hub.close()


def one_iteration(hub, body):
    hub.iterate("s1", 7)
    hub.answer("s1", "all is well")
    hub.end("complete", action="review", summary="looked at it", not_kept=["build/", "x.o"])


NEXT = [f"look: afloat runs diff {RUN}", f"take: afloat runs apply {RUN}",
        f"resume: afloat run tidy --resume {RUN}"]


def test_the_answer_is_data_and_all_else_is_talk(home, fake):
    fake(one_iteration)
    done = home.cli("run", "tidy", "look around")
    assert (done.returncode, done.stdout) == (0, "all is well\n")
    assert "iteration 1: session #7 of tidy" in done.stderr
    assert "summary: looked at it" in done.stderr and "build/, x.o" in done.stderr
    assert done.stderr.splitlines()[-3:] == NEXT


def test_quiet_says_nothing(home, fake):
    fake(one_iteration)
    done = home.cli("run", "tidy", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well\n", "")


def test_the_lines_name_the_home_that_a_flag_named(home, fake):
    fake(one_iteration)
    done = home.cli("run", "tidy", "--home", str(home.dir))
    assert done.stderr.splitlines()[-1] == NEXT[2] + f" --home '{home.dir}'"


@pytest.mark.parametrize("reason, code", [("complete", 0), ("limit", 0), ("interrupted", 130), ("failed", 1)])
def test_the_exit_status_is_how_it_ended(home, fake, reason, code):
    fake(lambda hub, body: hub.end(reason))
    assert home.cli("run", "tidy").returncode == code


def test_flags_and_place_and_environment_travel(home, fake, tmp_path):
    hub = fake(one_iteration)
    done = home.cli("run", "tidy", "do it", "-n", "3", "-m", "scripted/x", "--sandbox", "read-only", "--network",
                    "--sleep", "2", "--resume", "beef", "--project", "p", "--instructions", "be kind",
                    "--wake-on", "a", "--wake-on", "/b", "--merge", "--no-worktree", "--skip-git-check",
                    cwd=tmp_path, env={"COLOUR": "blue", "MY_SECRET": "x"})
    assert done.returncode == 0, done.stderr
    body = hub.wait_for("POST", "/bots/tidy/runs")
    env = body.pop("env")
    assert env["COLOUR"] == "blue" and "MY_SECRET" not in env
    assert body == {"working_dir": str(tmp_path), "prompt": "do it", "iterations": 3, "sleep_secs": 2,
                    "resume": "beef", "project": "p", "instructions": "be kind", "sandbox": "read-only",
                    "network": True, "merge": True, "worktree": False, "skip_git_check": True,
                    "provider": "scripted", "model": "x", "wake_on": [f"{tmp_path}/a", "/b"]}


def test_resume_without_an_id_means_the_last(home, fake):
    hub = fake(one_iteration)
    assert home.cli("run", "tidy", "go on", "--resume").returncode == 0
    body = hub.wait_for("POST", "/bots/tidy/runs")
    assert body["resume"] is True and body["prompt"] == "go on"


def test_a_prompt_may_come_from_stdin_and_nothing_else_is_read_there(home, fake):
    hub = fake(one_iteration)
    assert home.cli("run", "tidy", "-", input="from a pipe\n").returncode == 0
    assert hub.wait_for("POST", "/bots/tidy/runs")["prompt"] == "from a pipe\n"
    hub.requests.clear()
    assert home.cli("run", "tidy", input="not for you\n").returncode == 0
    assert "prompt" not in hub.wait_for("POST", "/bots/tidy/runs")


@pytest.mark.parametrize("args", [["-n", "x"], ["-n", "-1"], ["--sleep", "soon"], ["--sleep", "-3"], ["--sandbox", "no"],
                                  [" "]])
def test_what_makes_no_sense_is_refused_before_anything_begins(home, fake, args):
    hub = fake(one_iteration)
    done = home.cli("run", "tidy", *args)
    assert done.returncode == 2 and done.stderr.startswith("afloat: ")
    assert not any(path.startswith("/bots") for _, path, _ in hub.requests)


def test_json_is_one_event_a_line_of_run_and_sessions(home, fake):
    fake(one_iteration)
    done = home.cli("run", "tidy", "--json")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert types == ["bot.run.iteration", "message.delta", "message.completed", "turn.completed", "session.ended",
                     "bot.run.ended"]


def test_events_of_other_runs_and_of_this_run_before_are_not_ours(home, fake):
    def play(hub, body):
        hub.hub_events.append({"id": 3, "type": "bot.run.ended", "run_id": "ffffffff", "end_reason": "failed"})
        one_iteration(hub, body)

    hub = fake(play)
    hub.tell("bot.run.iteration", session_id="old", number=1)
    hub.tell("bot.run.ended", end_reason="failed")
    done = home.cli("run", "tidy", "--resume", RUN)
    assert (done.returncode, done.stdout) == (0, "all is well\n")


def test_several_iterations_are_followed_one_after_the_other(home, fake):
    def play(hub, body):
        hub.iterate("s1", 7)
        hub.answer("s1", "first")
        hub.tell("bot.run.sleeping", seconds=30)
        hub.iterate("s2", 8)
        hub.answer("s2", "second")
        hub.end("limit")

    fake(play)
    done = home.cli("run", "tidy")
    assert (done.returncode, done.stdout) == (0, "first\nsecond\n")
    assert "sleeping 30 s" in done.stderr and "iteration 2: session #8" in done.stderr


def test_a_gap_in_the_events_is_bridged_by_the_record(home, fake):
    def play(hub, body):
        hub.sessions["s9"] = []
        hub.record["iterations"] = [{"number": 9, "session_id": "s9"}]
        hub.hub_events.append({"id": 1, "type": "stream.gap", "from": 1, "to": 1})
        hub.answer("s9", "found by the record")
        hub.end()

    fake(play)
    done = home.cli("run", "tidy")
    assert (done.returncode, done.stdout) == (0, "found by the record\n")


def test_detached_it_prints_the_id_and_how_to_come_back(home, fake):
    fake(lambda hub, body: hub.iterate("s1", 1))
    done = home.cli("run", "tidy", "--detach")
    assert (done.returncode, done.stdout) == (0, RUN + "\n")
    assert done.stderr.splitlines()[-2:] == [f"follow: afloat runs attach {RUN}", f"stop: afloat runs stop {RUN}"]


# ---- signals -------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_for_the_end_and_the_end_is_shown(home, fake, signum):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    process = home.popen("run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and hub.stops == 1
    assert err.decode().splitlines()[-3:] == NEXT


def test_a_second_one_ends_it_at_once(home, fake):
    held = threading.Event()
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    hub.on_stop = lambda hub, force: hub.end("interrupted") if force else held.wait(30)
    process = home.popen("run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    process.send_signal(signal.SIGINT)
    hub.wait_for("POST", f"/runs/{RUN}/stop")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    held.set()
    assert process.returncode == 130 and b"at once" in err
    assert [body for _, path, body in hub.requests if path.endswith("/stop")] == [{}, {"force": True}]


def test_a_closed_terminal_leaves_it_running(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    t = Terminal(home, "run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    t.end.close()
    assert t.process.wait(30) == 130 and hub.stops == 0


def test_who_only_watches_leaves_it_running_and_says_so(home, fake):
    hub = fake()
    hub.iterate("s1", 4)
    process = home.popen("runs", "attach", RUN)
    hub.note("s1", "message.completed", role="assistant", text="busy")
    assert process.stdout.read(5) == b"busy\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and hub.stops == 0
    assert f"follow: afloat runs attach {RUN}" in err.decode()


def test_a_hub_that_goes_away_is_said_and_how_to_come_back(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    process = home.popen("run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    hub.close()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 5 and b"lost the connection to the hub during the run\n" in err
    assert f"resume: afloat run tidy --resume {RUN}" in err.decode()


def test_a_reader_that_has_enough_does_not_end_the_run(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    process = home.popen("run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    process.stdout.close()
    hub.note("s1", "message.completed", role="assistant", text="x" * 100000)
    assert process.wait(30) == -signal.SIGPIPE and hub.stops == 0


def test_a_run_that_has_ended_is_told_and_not_played_again(home, fake):
    hub = fake()
    hub.iterate("s1", 4)
    hub.answer("s1", "long ago")
    hub.end("limit")
    done = home.cli("runs", "attach", RUN)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr.splitlines()[-3:] == NEXT


# ---- a terminal ----------------------------------------------------------------------------


def test_a_line_typed_during_the_run_goes_to_the_run(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    t = Terminal(home, "run", "tidy")
    t.read(rb"iteration 1")
    hub.wait_for("GET", "/session/s1/events")
    t.type("mind the tests\r")
    assert hub.wait_for("POST", f"/runs/{RUN}/input") == {"text": "mind the tests"}
    hub.answer("s1", "I will")
    hub.end()
    assert t.rest() == 0 and "> mind the tests" in t.screen() and "I will" in t.screen()
    assert t.is_usual()


def test_the_end_of_typing_is_not_the_end_of_the_run(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    t = Terminal(home, "run", "tidy")
    hub.wait_for("GET", "/session/s1/events")
    t.type("\x04")
    t.read(rb"> ")
    hub.answer("s1", "still here")
    hub.end()
    assert t.rest() == 0 and hub.stops == 0 and "still here" in t.screen()


def test_ctrl_c_on_a_terminal_ends_the_run(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    t = Terminal(home, "run", "tidy")
    t.read(rb"iteration 1")
    hub.wait_for("GET", "/session/s1/events")
    retry(lambda: not t.is_usual())
    t.type("\x03")
    assert t.rest() == 130 and hub.stops == 1 and t.is_usual()
    assert NEXT[2] in t.screen()


def test_two_ctrl_c_of_one_write_end_the_run_at_once(home, fake):
    hub = fake(lambda hub, body: hub.iterate("s1", 1))
    hub.on_stop = lambda hub, force: hub.end("interrupted") if force else None
    t = Terminal(home, "run", "tidy")
    t.read(rb"iteration 1")
    hub.wait_for("GET", "/session/s1/events")
    retry(lambda: not t.is_usual())
    t.type("\x03\x03")
    assert t.rest() == 130 and hub.stops == 2 and t.is_usual()


@pytest.mark.parametrize("answer, merged", [("y\r", True), ("\r", False), ("n\r", False), ("\x04", False)])
def test_a_merge_that_is_wished_for_is_asked_about(home, fake, answer, merged):
    def play(hub, body):
        hub.iterate("s1", 1)
        hub.answer("s1", "done")
        hub.end("complete", action="merge", wants_merge=True)

    hub = fake(play)
    t = Terminal(home, "run", "tidy")
    t.read(rb"into main\? \[y/N\] ")
    t.type(answer)
    assert t.rest() == 0
    assert any(path == f"/runs/{RUN}/merge" for _, path, _ in hub.requests) == merged


def test_without_a_terminal_nobody_is_asked(home, fake):
    hub = fake(lambda hub, body: hub.end("complete", action="merge", wants_merge=True))
    done = home.cli("run", "tidy", input="y\n")
    assert done.returncode == 0 and not any(path.endswith("/merge") for _, path, _ in hub.requests)
    assert NEXT[1] in done.stderr


def test_the_terminal_never_obeys_a_bot(home, fake):
    def play(hub, body):
        hub.iterate("s1", 1)
        hub.answer("s1", "a\x1b]0;owned\x07b")
        hub.end("complete", summary="c\x1b[2Jd", not_kept=["\x1b[31mred"])

    fake(play)
    t = Terminal(home, "run", "tidy")
    assert t.rest() == 0
    assert b"\x1b]0;" not in t.seen and b"\x1b[2J" not in t.seen and b"\x1b[31mred" not in t.seen
