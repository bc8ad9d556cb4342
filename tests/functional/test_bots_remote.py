"""`[worktree] remote`: the work of a run is pushed where it begins, after every step and at its end."""
import concurrent.futures
import errno
import os

import pytest

from bots import DONE, Repo, cold, gate, repo, rig, say, shell  # noqa: F401
from conftest import Hub, retry


@pytest.fixture
def far(repo):
    """A bare repository that the user's has as the remote `far`."""
    root = repo.root.parent / "far.git"
    repo.git("init", "-q", "--bare", str(root))
    repo.git("remote", "add", "far", str(root))
    return Repo.at_path(root)


def test_each_step_is_on_the_remote_before_the_next_one_runs(rig, far):
    rig.repo.save("begun.txt", "the user's\n")
    rig.bot(keys='[worktree]\nremote = "far"\n')
    run = rig.start([shell("echo one > one.txt"), gate("first"),
                     shell("echo two > two.txt && git add -A && git commit -qm two"), gate("second"), *DONE])
    run.at_gate("first")
    row = run.row()
    branch = row["branch"]
    tip = far.at(branch)
    assert tip[b"one.txt"][1] == b"one\n" and tip[b"begun.txt"][1] == b"the user's\n" and b"two.txt" not in tip
    assert row["remote"] == str(far.root) and row["pushed"] == far.head(branch)
    run.open_gate("first")
    run.at_gate("second")
    assert far.at(branch)[b"two.txt"][1] == b"two\n"
    run.open_gate("second")
    row = run.wait()
    assert row["end_reason"] == "complete" and row["notes"] == []
    assert far.head(branch) == row["pushed"] == row["head"] == rig.repo.head(branch)


def test_a_remote_that_cannot_be_reached_is_a_note_and_stops_nothing(rig, repo):
    rig.bot(keys='[worktree]\nremote = "/nowhere/at/all.git"\n')
    row = rig.start([shell("echo one > one.txt"), *DONE]).wait()
    assert row["end_reason"] == "complete" and row["pushed"] is None
    assert any("not on the remote" in x and "/nowhere" in x for x in row["notes"]), row["notes"]
    assert repo.show(row["branch"], "one.txt") == "one\n"


def test_a_resumed_run_goes_on_with_the_branch_of_the_remote(rig, far):
    rig.bot(keys='[worktree]\nremote = "far"\n')
    scenes = [shell("echo one > one.txt"), *DONE]
    first = rig.start(scenes).wait()
    again = rig.start([*scenes, shell("echo two > two.txt"), *DONE], resume=first["run_id"]).wait()
    assert again["run_id"] == first["run_id"] and again["notes"] == [], again["notes"]
    assert {b"one.txt", b"two.txt"} <= set(far.at(again["branch"]))


def test_without_a_remote_nothing_is_pushed(rig, far):
    rig.bot()
    row = rig.start([shell("echo one > one.txt"), *DONE]).wait()
    assert row["remote"] is None and row["pushed"] is None and far.git("branch", "--list") == ""


class Stuck:
    """The remote never answers the next push: `hook` of it opens a pipe that nobody writes to."""

    def __init__(self, far, hook):
        self.pipe, self.hook = far.root / "pipe", far.root / "hooks" / hook
        os.mkfifo(self.pipe)
        self.hook.write_text(f'#!/bin/sh\ntouch began\ncat "{self.pipe}"\n')
        self.hook.chmod(0o755)

    def began(self):
        return retry((self.pipe.parent / "began").exists)

    def reads(self):
        try:
            os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as no:
            assert no.errno == errno.ENXIO
            return False
        return True

    def end(self):
        """No process of the push is left; the remote answers again."""
        assert not self.reads(), "the hook still reads"
        self.hook.unlink()


NOT_THERE = "its work is not on the remote"


def check_resumed(rig, far, scenes, run, stuck):
    """The work is on the local branch, the record says that the remote lacks it, and the next push carries it."""
    row = run.row()
    assert row["state"] == "ended" and row["end_reason"] == "interrupted", row
    assert any(NOT_THERE in x for x in row["notes"]), row["notes"]
    assert rig.repo.show(row["branch"], "one.txt") == "one\n"
    stuck.end()
    row = rig.start([*scenes, shell("echo two > two.txt"), *DONE], resume=run.id).wait()
    assert row["end_reason"] == "complete" and row["notes"] == [], row["notes"]
    assert far.head(row["branch"]) == row["pushed"] == row["head"] == rig.repo.head(row["branch"])
    assert {b"one.txt", b"two.txt"} <= set(far.at(row["branch"]))


# when `post-receive` begins the remote has the work, though it never says so
@pytest.mark.parametrize("how, hook", [("force", "post-receive"), ("hub stop", "pre-receive")])
def test_a_push_that_is_never_answered_holds_neither_run_nor_hub(rig, far, how, hook, start_hub):
    rig.bot(keys='[worktree]\nremote = "far"\n')
    scenes = [gate(), shell("echo one > one.txt")]
    run = rig.start([*scenes, say("never")])
    run.at_gate()
    stuck = Stuck(far, hook)
    run.open_gate()
    stuck.began()
    if how == "force":
        run.call("POST", "/stop", {"force": True})
    else:
        rig.home.ok("stop", "--wait")
        start_hub()
    check_resumed(rig, far, scenes, run, stuck)


def test_a_hub_killed_between_a_push_and_its_record_pushes_again(cold, far, start_hub):
    rig, hub = cold, Hub(cold.home)
    rig.bot(keys='[worktree]\nremote = "far"\n')
    run = rig.start([gate(), shell("echo one > one.txt"), say("never")])
    run.at_gate()
    before = run.row()["pushed"]
    stuck = Stuck(far, "post-receive")
    run.open_gate()
    stuck.began()
    assert far.head(run.row()["branch"]) != before == run.row()["pushed"]
    hub.process.kill()
    hub.process.wait()
    retry(lambda: not stuck.reads())
    stuck.end()
    start_hub()
    row = run.wait()
    assert row["end_reason"] == "crashed" and row["notes"] == [], row["notes"]
    assert far.head(row["branch"]) == row["pushed"] == row["head"] and b"one.txt" in far.at(row["branch"])


def test_the_last_push_ends_when_a_stop_is_forced(rig, far):
    rig.bot(keys='[worktree]\nremote = "far"\n')
    run = rig.start([shell("echo one > one.txt"), gate(), say("never")])
    run.at_gate()
    stuck = Stuck(far, "pre-receive")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(run.call, "POST", "/stop", {})
        stuck.began()
        assert not first.done()
        stopped = run.call("POST", "/stop", {"force": True})
        assert first.result() == stopped
    assert stopped["end_reason"] == "interrupted" and any(NOT_THERE in x for x in stopped["notes"]), stopped
    stuck.end()


def test_a_failed_push_is_forgotten_when_a_later_one_arrives(rig, far):
    rig.bot(keys='[worktree]\nremote = "far"\n')
    run = rig.start([gate("first"), shell("echo one > one.txt"), gate("second"), *DONE])
    run.at_gate("first")
    hook = far.root / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    run.open_gate("first")
    run.at_gate("second")
    assert any(NOT_THERE in x for x in run.row()["notes"])
    hook.unlink()
    run.open_gate("second")
    row = run.wait()
    assert row["notes"] == [] and far.head(row["branch"]) == row["head"], row
