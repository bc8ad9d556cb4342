"""`[worktree] remote`: the work of a run is pushed where it begins, after every step and at its end."""
import pytest

from bots import DONE, Repo, gate, repo, rig, say, shell  # noqa: F401


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
