"""kill -9 of the hub while bots work: afterwards nothing is lost that a tool had told, and nothing lies about.

A few rounds in `make test`, many in `make soak` (AFLOAT_LOOPS)."""
import json
import os
import random
import select
import signal
import time

import pytest

from bots import DONE, Run, call, check_same, cold, gate, repo, say, shell, use  # noqa: F401
from conftest import LOOPS, Hub, draw_seed, retry

ROUNDS = 5 * LOOPS
STEPS = 8


def scenes(round):
    """Each step writes a file, every other commits; after STEPS the run ends by itself."""
    steps = [shell(f"echo {round} > f{i}.txt && " + ("git add -A && git commit -qm step" if i % 2 else "true"))
             for i in range(STEPS)]
    return [use("memory", action="set", key=f"r{round}", value="x"), *steps, *DONE]


def check_after(rig, ids, counts):
    """A new hub has brought in what the killed one left."""
    repo = rig.repo
    runs = [Run(rig, i) for i in ids]
    rows = [r.wait() for r in runs]
    retry(lambda: repo.worktrees() == [] and not list((rig.home.dir / "worktrees").glob("*/*")))
    assert repo.git("fsck", "--full", "--strict", "--no-dangling") == ""
    for run, row in zip(runs, rows):
        assert row["end_reason"] in ("crashed", "complete"), row
        tip = repo.at(row["branch"]) if repo.has(row["branch"]) else {}
        for n in range(1, len(row["iterations"]) + 1):
            meta = run.metadata(n)
            assert meta["end_reason"] in ("crashed", "complete") and meta["run_id"] == run.id, meta
            told = [e for e in run.events(n, "tool.completed") if e["tool"] == "shell" and e["success"]]
            for i in range(len(told)):
                assert f"f{i}.txt".encode() in tip, f"f{i}.txt was told as written; the branch has {sorted(tip)}"
        counts["crashed"] += row["end_reason"] == "crashed"


def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_left(cold, repo):
    rig = cold
    seed = draw_seed()
    dice = random.Random(seed)
    repo.save("b.txt", "the user's own change\n")
    repo.save("untracked.txt", "and file\n")
    before = repo.state()
    counts, made = {"crashed": 0}, []
    for round in range(ROUNDS):
        hub = Hub(rig.home)
        try:
            ids = []
            for bot in ("one", "two"):
                rig.bot(bot)
                ids.append(rig.start(scenes(round), bot=bot).id)
                if dice.random() < 0.3:
                    break
            select.select([], [], [], dice.uniform(0, 0.5))  # the moment of the kill, at random
        finally:
            os.kill(hub.pid, signal.SIGKILL)
            hub.process.wait()
            hub.process.communicate()
        check_same(before, repo.state())
        again = Hub(rig.home)
        try:
            check_after(rig, ids, counts)
            check_same(before, repo.state())
        except AssertionError as e:
            raise AssertionError(f"seed {seed} round {round}") from e
        made += ids
        again.close()
    assert len(set(made)) == len(made) == len(repo.branches())
    print(f"{ROUNDS} kills, {counts['crashed']} runs among them had work in progress")
    assert counts["crashed"] > 0


def test_a_record_that_lost_its_repository_does_not_end_the_next_hub(cold, repo):
    rig = cold
    hub = Hub(rig.home)
    rig.bot()
    run = rig.start([shell("echo x > f.txt"), gate(), *DONE])
    run.at_gate()
    hub.process.kill()
    hub.process.communicate()
    path, = rig.home.dir.glob(f"bots/worker/workspaces/*/runs/{run.id}.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "common": "", "start": ""}))
    again = Hub(rig.home)
    assert Run(rig, run.id).wait()["end_reason"] == "crashed"
    again.close()


def time_to_begin(rig):
    """How long a run takes to begin on this machine, in seconds."""
    began = time.monotonic()
    run = rig.start(DONE)
    took = time.monotonic() - began
    assert run.wait()["end_reason"] == "complete"
    return took


def test_killed_while_a_run_begins_leaves_no_half(cold, repo):
    """The kill comes while the worktree is made: either there is a run, which has crashed, or there is nothing."""
    rig = cold
    rig.bot()
    for i in range(300):
        repo.save(f"many/{i}.txt", f"{i}\n" * 50)
    repo.commit("many")
    repo.save("b.txt", "dirty\n")
    before, dice, hits = repo.state(), random.Random(draw_seed()), 0
    first = Hub(rig.home)
    whole = time_to_begin(rig)
    first.close()
    for round in range(ROUNDS):
        hub = Hub(rig.home)
        known = {r["run_id"] for r in call(rig.home, "GET", "/runs?limit=1000")["runs"]}
        body = json.dumps({"prompt": "go", "working_dir": str(repo.root), "env": rig.env(DONE)}).encode()
        with rig.home.connect() as c:
            c.sendall(f"POST /bots/worker/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answered = select.select([c], [], [], dice.uniform(0, whole))[0]
            hub.process.kill()
            hub.process.communicate()
        hits += not answered
        again = Hub(rig.home)
        rows = [r for r in call(rig.home, "GET", "/runs?limit=1000")["runs"] if r["run_id"] not in known]
        assert len(rows) <= 1
        for row in rows:
            assert Run(rig, row["run_id"]).wait()["end_reason"] in ("crashed", "complete", "failed")
        retry(lambda: repo.worktrees() == [] and not list((rig.home.dir / "worktrees").glob("*/*")))
        assert repo.git("fsck", "--full", "--strict", "--no-dangling") == ""
        branches = {r["branch"] for r in call(rig.home, "GET", "/runs?limit=1000")["runs"]}
        retry(lambda: set(repo.branches()) <= branches)  # no branch without a run
        check_same(before, repo.state())
        whole = time_to_begin(rig)
        again.close()
    print(f"{ROUNDS} kills, {hits} of them before the run had begun")
    assert hits > 0


def test_a_crashed_run_goes_on_where_it_was(cold, repo):
    rig = cold
    hub = Hub(rig.home)
    run = rig.start([shell("echo kept > kept.txt"), shell("touch there; sleep 1000"), *DONE])
    retry(lambda: (run.worktree() / "there").exists())
    hub.process.kill()
    hub.process.communicate()
    hub = Hub(rig.home)
    row = run.wait()
    assert row["end_reason"] == "crashed" and run.metadata()["end_reason"] == "crashed"
    assert repo.show(row["branch"], "kept.txt") == "kept\n"
    again = rig.start([say("x")] * 2 + [shell("cat kept.txt"), *DONE], prompt="on", resume=run.id)
    assert again.wait()["end_reason"] == "complete" and again.results(2)[0][2] == "kept\n"
    rig.check_clean()
    hub.close()


@pytest.mark.parametrize("change", [{"bot": ""}, {"bot": "../../.."}, {"project": None}, {"project": "../x"}])
def test_a_record_whose_names_are_no_names_is_no_run(cold, change):
    """A record's bot and project are parts of paths: DELETE removes a file by them."""
    rig = cold
    hub = Hub(rig.home)
    run = rig.run(DONE).id
    hub.close()
    [path] = (rig.home.dir / "bots").glob(f"*/workspaces/*/runs/{run}.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    hub = Hub(rig.home)
    assert call(rig.home, "GET", "/runs")["runs"] == []
    for method, where in [("GET", ""), ("POST", "/discard"), ("DELETE", "")]:
        no = rig.home.http(method, f"/runs/{run}{where}")
        assert no.status >= 400 and "no record of a run" in no.body.decode(), no.body
    assert path.exists()
    hub.close()
