"""The loop of a run: how it goes on, sleeps, is spoken to, ends, and goes on again."""
import datetime
import itertools
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

import pytest

from bots import (DONE, call, check_same, cold, complete, gate, paste, printed, repo, rig, say,  # noqa: F401
                  shell)
from chat_rig import Terminal
from conftest import DEADLINE, Hub, check_report, retry

STUBBORN = "trap '' TERM INT HUP; echo begun > begun; while :; do sleep 1000; done"


def seconds(event):
    return datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()


def finish(process):
    out, err = process.communicate(timeout=DEADLINE)
    check_report(err.decode(errors="replace"))
    return process.returncode, out.decode(), err.decode()


def check_ended(run, reason, last=None):
    """The record, every session and the repository say that it is over; `last` is what the last session says."""
    row = run.wait()
    assert row["end_reason"] == reason, row
    assert row["ended_at"] and row["state"] == "ended"
    for n in range(1, len(row["iterations"]) + 1):
        meta = run.metadata(n)
        assert meta["end_reason"] and meta["ended_at"] and meta["duration_secs"] >= 0, meta
        assert meta["tokens"]["input_tokens"] > 0 or not run.events(n, "usage.updated"), meta
    assert run.metadata(n)["end_reason"] == (last or reason), run.metadata(n)
    run.rig.check_clean()
    return row


# ---- how it ends --------------------------------------------------------------------------------

def test_a_run_streams_the_answer_and_ends_with_lines_that_work(rig, repo, tmp_path):
    done = finish(rig.popen([shell("echo bot > bot.txt", "I'll write."), complete(text="Done it."), say("Bye.")], "go"))
    assert done[0] == 0 and "I'll write." in done[1] and "Bye." in done[1], done
    run = rig.only()
    assert printed(done[2], "look") == f"afloat runs diff {run.id}"
    assert printed(done[2], "take") == f"afloat runs apply {run.id}"
    assert "+bot" in paste(rig.home, printed(done[2], "look"), tmp_path, repo.root).stdout
    assert paste(rig.home, printed(done[2], "take"), tmp_path, repo.root).returncode == 0
    assert (repo.root / "bot.txt").read_text() == "bot\n"
    check_ended(run, "complete")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_defects_1_and_2_a_signal_ends_it_with_metadata_and_work_kept(rig, repo, signum):
    before = repo.state()
    process = rig.popen([shell("echo kept > kept.txt"), gate(), *DONE], "go", "-n", "0")
    run = rig.only()
    run.at_gate()
    process.send_signal(signum)
    code, _, err = finish(process)
    assert code == 130, err
    row = check_ended(run, "interrupted")
    assert repo.show(row["branch"], "kept.txt") == "kept\n"
    assert printed(err, "resume") == f"afloat run worker --resume {run.id}"
    check_same(before, repo.state())


def test_defect_1_ctrl_c_on_a_terminal(rig, repo):
    rig.bot()
    env = rig.env([shell("echo kept > kept.txt"), gate(), *DONE])
    t = Terminal(rig.home, "run", "worker", "go", env=env, cwd=repo.root)
    run = rig.only()
    run.at_gate()
    t.type("\x03")
    t.read(rb"resume: afloat run worker --resume " + run.id.encode())
    assert t.rest() == 130 and t.is_usual()
    row = check_ended(run, "interrupted")
    assert repo.show(row["branch"], "kept.txt") == "kept\n"


def test_defect_2_the_hub_ended_by_a_signal_ends_its_runs_and_they_go_on_later(cold, repo):
    hub = Hub(cold.home)
    before = repo.state()
    run = cold.start([shell("echo kept > kept.txt"), gate(), *DONE])
    run.at_gate()
    hub.process.send_signal(signal.SIGTERM)
    hub.process.wait(DEADLINE)
    hub.close()
    cold.check_clean()
    check_same(before, repo.state())
    hub = Hub(cold.home)
    row = check_ended(run, "interrupted")
    assert repo.show(row["branch"], "kept.txt") == "kept\n"
    again = cold.start([say("x"), say("x"), shell("cat kept.txt"), *DONE], prompt=None, resume=run.id)
    assert again.id == run.id
    assert again.wait()["end_reason"] == "complete" and "kept\n" in [r[2] for r in again.results(2)]
    hub.close()


@pytest.mark.parametrize("stdin", ["/dev/null", "closed"])
def test_defect_3_stdin_at_eof_is_not_an_end(rig, repo, stdin):
    rig.bot(keys="sleep_secs = 0\nmax_iterations = 2\n")
    more = {"stdin": subprocess.DEVNULL} if stdin == "/dev/null" else {"stdin": None, "preexec_fn": lambda: os.close(0)}
    code, out, err = finish(rig.popen([shell("true", "One."), say("Two."), complete(), say("Three.")], **more))
    assert code == 0 and "One." in out and "Three." in out, (out, err)
    assert len(check_ended(rig.only(), "complete")["iterations"]) == 2


def test_defect_4_sleep_really_sleeps(rig, repo):
    """Also on a terminal, where ticks of a screen once ended it."""
    rig.bot(keys="sleep_secs = 1\nmax_iterations = 2\n")
    t = Terminal(rig.home, "run", "worker", env=rig.env([say("One."), *DONE]), cwd=repo.root)
    assert t.rest() == 0, t.seen
    run = rig.only()
    ended, began = run.events(1, "turn.completed")[-1], run.events(2, "turn.started")[0]
    assert seconds(began) - seconds(ended) >= 0.95  # two clocks, in whole milliseconds: not exactly one second


def wait_sleep(home, n=1):
    """Until the only run of the hub sleeps for the n-th time: its turn ends a little earlier."""
    retry(lambda: call_events(home).count(b'"bot.run.sleeping"') >= n)


def test_a_sleep_is_ended_by_a_stop(rig):
    rig.bot(keys="sleep_secs = 1000\nmax_iterations = 2\n")
    run = rig.start([say("One."), *DONE], prompt=None)
    wait_sleep(rig.home)
    run.call("POST", "/stop", {})
    assert len(check_ended(run, "interrupted", last="limit")["iterations"]) == 1


def test_the_limit_ends_it(rig):
    rig.bot(keys="sleep_secs = 0\nmax_iterations = 3\n")
    assert len(check_ended(rig.run([say("x")] * 5, prompt=None), "limit")["iterations"]) == 3
    code, _, err = finish(rig.popen([say("x")] * 5, "-n", "2"))
    assert code == 0, err
    assert len(call(rig.home, "GET", "/runs")["runs"]) == 2
    rig.bot()
    one = rig.run([say("x")] * 5)  # a prompt means one iteration, where config.md says nothing
    assert len(check_ended(one, "limit")["iterations"]) == 1


def test_the_stop_phrase_ends_it_as_complete(rig):
    rig.bot(keys='sleep_secs = 0\nmax_iterations = 9\nstop_phrase = "TASK COMPLETE"\n')
    run = rig.run([say("Not yet: TASK"), say("Now: TASK COMPLETE."), say("never")], prompt=None)
    row = check_ended(run, "complete")
    assert [i["end_reason"] for i in row["iterations"]][-1] == "complete" and len(row["iterations"]) == 2


def test_defect_12_a_provider_that_always_fails_ends_the_run(cold, start_hub):
    rig = cold
    (rig.home.dir / "config.toml").write_text("[retry]\nfirst_ms = 1\ntries = 2\n")
    start_hub()
    code, _, err = finish(rig.popen([{"error": {"status": 500, "times": 100000}}] * 50, "-n", "0"))
    assert code == 1, err
    row = check_ended(rig.only(), "failed")
    assert row["error"] and len(row["iterations"]) <= 3


def test_defect_12_a_provider_that_refuses_ends_the_run_at_once(rig):
    code, _, err = finish(rig.popen([{"error": {"status": 401, "times": 100000}}] * 50, "-n", "0"))
    assert code == 1 and printed(err, "resume"), err
    assert len(check_ended(rig.only(), "failed")["iterations"]) <= 3


@pytest.mark.parametrize("how", [("--engine", "nosuch"), ("--engine", "codex"), ("--provider", "nosuch")])
def test_a_refused_run_or_chat_uses_up_no_session_number(rig, repo, how):
    rig.bot()
    for command in (("run", "worker", "hi"), ("chat", "hi", "--bot", "worker")):
        done = rig.home.cli(*command, *how, cwd=repo.root)
        assert done.returncode in (1, 2, 3) and how[1] in done.stderr, done.stderr
    assert repo.git("branch", "--list", "afloat/*") == ""
    assert rig.run([say("done")]).metadata()["session_number"] == 1


def test_one_failed_turn_is_not_the_end(cold, start_hub):
    rig = cold
    rig.bot(keys="sleep_secs = 0\nmax_iterations = 3\n")
    (rig.home.dir / "config.toml").write_text("[retry]\nfirst_ms = 1\ntries = 1\n")
    start_hub()
    run = rig.run([{"error": {"status": 500, "times": 1}, "text": "never"}, *DONE], prompt=None)
    assert run.wait()["end_reason"] == "complete"


# ---- a second time ------------------------------------------------------------------------------

def read_all(stream):
    """What lies in a pipe now."""
    seen = b""
    while select.select([stream], [], [], 0)[0] and (chunk := os.read(stream.fileno(), 65536)):
        seen += chunk
    return seen


def inside(dir):
    """Processes that work in a directory or below it."""
    found = []
    for cwd in pathlib.Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(cwd).startswith(str(dir)):
                found.append(cwd)
        except OSError:
            pass  # it ended meanwhile
    return found


def test_a_second_stop_kills_what_does_not_listen(rig, repo):
    """A tool that ignores every signal it can: the second Ctrl-C ends it within 2 s."""
    process = rig.popen([shell(STUBBORN), *DONE], "go")
    run = rig.only()
    dir = run.worktree()
    retry(lambda: (dir / "begun").exists())
    read_all(process.stderr)
    process.send_signal(signal.SIGINT)
    assert select.select([process.stderr], [], [], DEADLINE)[0], "the first is answered"
    start = time.time()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    row = check_ended(run, "interrupted")
    took = seconds(run.events(1, "tool.completed")[-1]) - start
    print(f"second Ctrl-C: over after {took:.2f} s")
    assert code == 130 and took < 5, (took, err)
    assert repo.show(row["branch"], "begun") == "begun\n"
    retry(lambda: not inside(dir))


def test_a_first_stop_ends_even_what_does_not_listen(rig, repo):
    run = rig.start([shell(STUBBORN), *DONE])
    retry(lambda: (run.worktree() / "begun").exists())
    run.call("POST", "/stop", {})
    row = check_ended(run, "interrupted")
    assert repo.show(row["branch"], "begun") == "begun\n"
    retry(lambda: not inside(row["worktree"]))


def test_defect_9_two_runs_in_the_same_second(rig, repo):
    rig.bot()
    runs = rig.start_all([{"scenes": [shell(f"echo {i} > f"), *DONE]} for i in range(4)])
    rows = [r.wait() for r in runs]
    assert len({r["branch"] for r in rows}) == 4 and sorted(repo.branches()) == sorted(r["branch"] for r in rows)
    assert sorted(r.metadata()["session_number"] for r in runs) == [1, 2, 3, 4]
    for i, row in enumerate(rows):
        assert row["end_reason"] == "complete" and repo.show(row["branch"], "f") == f"{i}\n"
    rig.check_clean()


def test_twenty_bots_at_once_on_one_repository(rig, repo):
    before = repo.state()
    names = [rig.bot(f"bot{i}") for i in range(20)]
    runs = rig.start_all([{"scenes": [gate(), shell(f"echo {b} > {b}.txt"), *DONE], "bot": b} for b in names])
    for run in runs:
        run.at_gate()
    assert len(repo.worktrees()) == 20, "all at the same time"
    check_same(before, repo.state())
    for run in runs:
        run.open_gate()
    for bot, run in zip(names, runs):
        row = run.wait()
        assert row["end_reason"] == "complete" and repo.show(row["branch"], f"{bot}.txt") == f"{bot}\n"
        assert run.metadata()["session_number"] == 1
    assert len(set(repo.branches())) == 20
    check_same(before, repo.state())
    rig.check_clean()


# ---- speaking to it -----------------------------------------------------------------------------

def said_in(run, n, word):
    """How often the model's last request of session n has the word in a user's message."""
    return sum(m["content"].count(word) for m in run.requests(n)[-1]["messages"] if m["role"] == "user")


def test_input_during_a_turn_steers_it_and_is_told_once(rig):
    rig.bot(keys="sleep_secs = 0\nmax_iterations = 2\n")
    run = rig.start([gate(), say("Aye."), *DONE], prompt=None)
    run.at_gate()
    assert run.call("POST", "/input", {"text": "mind the XYZZY"})["taken"] == "steered"
    run.open_gate()
    run.wait()
    assert said_in(run, 1, "XYZZY") == 1 and said_in(run, 2, "XYZZY") == 1 and "XYZZY" not in run.prompt(2)


def test_input_during_the_sleep_wakes_it_and_is_in_the_next_prompt_once(rig):
    rig.bot(keys="sleep_secs = 1000\nmax_iterations = 3\n")
    run = rig.start([say("One."), say("Two."), *DONE], prompt=None)
    wait_sleep(rig.home)
    run.call("POST", "/input", {"text": "mind the XYZZY\nand the PLUGH"})
    run.wait_session(2)
    wait_sleep(rig.home, 2)
    assert re.search(r"## User Input\n+> mind the XYZZY\n> and the PLUGH\n", run.prompt(2)), run.prompt(2)
    run.call("POST", "/input", {"text": "go on"})
    run.wait()
    assert said_in(run, 3, "XYZZY") == 1 and "> go on" in run.prompt(3)


def test_a_line_typed_on_the_terminal_reaches_the_run(rig, repo):
    rig.bot(keys="sleep_secs = 0\nmax_iterations = 2\n")
    t = Terminal(rig.home, "run", "worker", env=rig.env([gate(), say("Aye."), *DONE]), cwd=repo.root)
    run = rig.only()
    run.at_gate()
    retry(lambda: not t.is_usual())  # the command has its terminal
    t.type("mind the XYZZY\r")
    retry(lambda: any("XYZZY" in json.dumps(e) for e in run.events(1, "message.completed")))
    run.open_gate()
    assert t.rest() == 0, t.seen
    assert said_in(run, 2, "XYZZY") == 1


def test_a_changed_file_wakes_it(rig, repo, tmp_path):
    rig.bot(keys="sleep_secs = 1000\nmax_iterations = 2\n")
    watched = tmp_path / "wake"
    watched.write_text("1")
    process = rig.popen([say("One."), *DONE], "--wake-on", str(watched))
    run = rig.only()
    wait_sleep(rig.home)
    number = itertools.count(2)  # until its watch has begun nothing is a change
    retry(lambda: watched.write_text(str(next(number))) and process.poll() is not None)
    code, _, err = finish(process)
    assert code == 0 and len(check_ended(run, "complete")["iterations"]) == 2, err


def call_events(home):
    return home.http("GET", "/events?types=bot.run.*&after=0", headers=["Accept: application/json"]).body


# ---- going on again -----------------------------------------------------------------------------

def test_defect_7_the_printed_resume_line_works(rig, repo, tmp_path):
    scenes = [shell("echo one > one.txt", "I make one."), say("One is there."),
              shell("cat one.txt; echo two > two.txt"), complete("both"), say("Bye.")]
    env = rig.env(scenes)
    rig.bot()
    done = rig.home.cli("run", "worker", "Make the FIRST.", cwd=repo.root, env=env)
    assert done.returncode == 0, done
    run = rig.only()
    before = run.row()
    resumed = paste(rig.home, printed(done.stderr, "resume"), tmp_path, repo.root, env)
    assert resumed.returncode == 0, resumed
    row = rig.only().row()  # still one run
    assert row["branch"] == before["branch"] and row["run_id"] == run.id and len(row["iterations"]) == 2
    assert run.results(2)[0][2] == "one\n"
    assert "FIRST" in json.dumps(run.requests(2)[0]["messages"][:-1]), "the same conversation"
    assert [run.metadata(n)["session_number"] for n in (1, 2)] == [1, 2]
    assert repo.show(row["branch"], "two.txt") == "two\n"
    assert run.changed() == ["one.txt", "two.txt"]
    rig.check_clean()


def test_resume_takes_a_run_a_session_or_the_last_here(rig, repo):
    scenes = [say("x")] * 4 + DONE
    run = rig.run(scenes)
    session = run.row()["iterations"][0]["session_id"]
    rig.run(DONE, bot="other")
    for resume in (run.id, session, True, run.id[:6]):
        again = rig.start(scenes, prompt="on", resume=resume)
        assert again.id == run.id
        again.wait()
    assert [run.metadata(n)["session_number"] for n in range(1, 6)] == [1, 2, 3, 4, 5]


def test_resume_of_something_unknown_is_an_error(rig, repo):
    rig.bot()
    done = rig.home.cli("run", "worker", "--resume", "deadbeef", cwd=repo.root, env=rig.env(DONE))
    assert done.returncode == 3 and "deadbeef" in done.stderr, done
    none = rig.home.cli("run", "worker", "--resume", cwd=repo.root, env=rig.env(DONE))
    assert none.returncode == 3, none
    assert repo.branches() == [] and call(rig.home, "GET", "/runs")["runs"] == []


def test_resume_of_a_run_that_works_is_refused(rig):
    run = rig.start([gate(), *DONE])
    run.at_gate()
    rig.start(DONE, prompt="x", resume=run.id, status=409)
    run.open_gate()
    check_ended(run, "complete")


# ---- without a terminal -------------------------------------------------------------------------

def test_detached_it_goes_on_and_can_be_attached(rig, repo):
    done = finish(rig.popen([gate(), {**complete(), "text": "Hello from afar."}, say("Bye.")], "go", "--detach"))
    run = rig.only()
    assert done[0] == 0 and run.id in done[1], done
    run.at_gate()
    attached = rig.home.popen("runs", "attach", run.id, cwd=repo.root)
    left = rig.home.popen("runs", "attach", run.id, cwd=repo.root)
    retry(lambda: viewers(rig.home) >= 2)
    left.send_signal(signal.SIGINT)
    finish(left)
    assert run.row()["state"] == "running", "who leaves does not stop it"
    run.open_gate()
    code, out, err = finish(attached)
    assert code == 0 and "Hello from afar." in out, (out, err)
    check_ended(run, "complete")


def viewers(home):
    """How many read streams of the hub, by its own count."""
    return int(re.search(r"^afloat_sse_readers (\d+)", home.http("GET", "/metrics").body.decode(), re.M).group(1))


def test_a_closed_terminal_detaches(rig, repo):
    rig.bot()
    t = Terminal(rig.home, "run", "worker", "go", env=rig.env([gate(), *DONE]), cwd=repo.root)
    run = rig.only()
    run.at_gate()
    t.end.close()
    t.process.wait(DEADLINE)
    assert run.row()["state"] == "running"
    run.open_gate()
    check_ended(run, "complete")


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGKILL])
def test_a_client_that_goes_away_leaves_the_run(rig, repo, signum):
    process = rig.popen([gate(), *DONE], "go")
    run = rig.only()
    run.at_gate()
    process.send_signal(signum)
    process.wait(DEADLINE)
    assert run.row()["state"] == "running"
    run.open_gate()
    check_ended(run, "complete")


def test_stop_ends_a_detached_run(rig, repo):
    run = rig.start([shell("echo kept > kept.txt"), gate(), *DONE])
    run.at_gate()
    rig.home.ok("runs", "stop", run.id, cwd=repo.root)
    row = check_ended(run, "interrupted")
    assert repo.show(row["branch"], "kept.txt") == "kept\n"
    rig.home.ok("runs", "stop", run.id, cwd=repo.root)  # it had ended: fine


def test_a_stop_of_the_hub_by_command_ends_runs_well(cold, repo):
    hub = Hub(cold.home)
    run = cold.start([shell("echo kept > kept.txt"), shell(STUBBORN), *DONE])
    retry(lambda: (run.worktree() / "begun").exists())
    branch = run.row()["branch"]
    cold.home.ok("stop", "--wait")
    hub.close()
    cold.check_clean()
    assert repo.show(branch, "kept.txt") == "kept\n"
    hub = Hub(cold.home)
    check_ended(run, "interrupted")
    hub.close()
