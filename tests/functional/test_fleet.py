"""Runs of bots over several hubs on one PostgreSQL: queue, labels, drain, leases, fail-over.

A few rounds in `make test`, many in `make soak` (AFLOAT_LOOPS)."""
import collections
import os
import random
import select
import signal

import pytest

from bots import DONE, FILES, Repo, Rig, Run, call, gate, say, shell  # noqa: F401
from conftest import LOOPS, draw_seed, retry
from team_rig import LEASE_S, Proxy, Team

ROUNDS = 2 * LOOPS


@pytest.fixture
def team(database):
    t = Team(database)
    yield t
    for name, home in t.homes.items():  # shown when the test failed
        print(name, *home.log.read_text().splitlines()[-30:], sep="\n")
    for hub in t.hubs.values():
        if hub.process.poll() is None:
            hub.process.send_signal(signal.SIGCONT)
    t.close()


@pytest.fixture
def repo(tmp_path):
    """A repository with a bare one as its remote `far`."""
    r = Repo(tmp_path / "repo", FILES)
    r.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    r.git("remote", "add", "far", str(tmp_path / "far.git"))
    r.git("push", "-q", "far", "main")
    return r


REMOTE = 'sleep_secs = 0\n[worktree]\nremote = "far"\n'


def rigs(team, repo, *names, keys=REMOTE, more=""):
    """A hub of each name, with the bot `worker`."""
    made = {}
    for name in names:
        home = team.home(name, more=more)
        made[name] = Rig(home, repo)
        made[name].bot(keys=keys)
        team.start(name)
    return made


def hubs(home):
    return {h["name"]: h for h in call(home, "GET", "/hubs")["hubs"]}


def row(home, id):
    return call(home, "GET", f"/runs/{id}")


def events(home, session):
    return [e for e in call(home, "GET", f"/session/{session}/events?limit=10000")["events"]]


def writers(team, session):
    """The hubs that wrote a journal, in order, each as often as it began to."""
    rows = team.database.sql(f"SELECT hub FROM afloat.events WHERE session = '{session}' ORDER BY seq").split()
    return [h for i, h in enumerate(rows) if i == 0 or rows[i - 1] != h]


def check_history(home, id):
    """No call ran twice, each that began ended once, and every session was written by one hub at a time."""
    record = row(home, id)
    seen = collections.Counter()
    for it in record["iterations"]:
        log = events(home, it["session_id"])
        assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
        called = [e["call_id"] for e in log if e["type"] == "tool.called"]
        ended = [e["call_id"] for e in log if e["type"] == "tool.completed"]
        assert len(set(called)) == len(called), called
        assert sorted(called) == sorted(ended), (called, ended)
        seen.update((it["session_id"], c) for c in called)
    assert all(n == 1 for n in seen.values())
    return record


def test_every_hub_lists_all_hubs_and_changes_their_labels(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    for rig in made.values():
        rows = retry(lambda: len(h := hubs(rig.home)) == 2 and h)
        assert {n: r["state"] for n, r in rows.items()} == {"anvil": "live", "bellows": "live"}
    made["anvil"].home.ok("hubs", "label", "bellows", "gpu", "big")
    assert hubs(made["bellows"].home)["bellows"]["labels"] == ["gpu", "big"]
    generation = call(made["anvil"].home, "GET", "/healthz")["generation"]
    retry(lambda: hubs(made["bellows"].home)["anvil"]["generation"] == generation)
    refused = made["anvil"].home.cli("hubs", "label", "nobody", "x")
    assert refused.returncode == 3 and "'nobody'" in refused.stderr
    team.kill("bellows")
    retry(lambda: hubs(made["anvil"].home)["bellows"]["state"] == "lost")


def test_a_run_starts_here_and_is_seen_everywhere(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    run = made["anvil"].start([gate(), *DONE])
    run.at_gate()
    seen = row(made["bellows"].home, run.id)
    assert seen["hub"] == "anvil" and seen["epoch"] == 1 and seen["state"] == "running" and seen["lease_until"]
    assert [r["run_id"] for r in call(made["bellows"].home, "GET", "/runs")["runs"]] == [run.id]
    assert hubs(made["bellows"].home)["anvil"]["runs"] == 1
    run.open_gate()
    assert run.wait()["end_reason"] == "complete"
    seen = row(made["bellows"].home, run.id)
    assert seen["state"] == "ended" and seen["hub"] == "anvil" and seen["lease_until"] is None
    check_history(made["bellows"].home, run.id)


def test_a_run_is_resumed_on_another_hub(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    scenes = [shell("echo one > one.txt"), *DONE]
    first = made["anvil"].start(scenes).wait()
    again = made["bellows"].start([*scenes, shell("cat one.txt"), *DONE], resume=first["run_id"])
    record = again.wait()
    assert again.id == first["run_id"] and record["hub"] == "bellows" and record["epoch"] == 2
    last = events(made["anvil"].home, record["iterations"][-1]["session_id"])
    assert [e["output"].strip() for e in last if e["type"] == "tool.completed"][0] == "one"
    assert made["anvil"].start(DONE, resume=again.id, on="nowhere") and row(made["anvil"].home, again.id)["state"] == "queued"


def test_a_run_that_cannot_move_waits_for_its_own_hub_and_keeps_its_work(team, repo):
    made = rigs(team, repo, "anvil", "bellows", keys="sleep_secs = 0\n")
    run = made["anvil"].start([shell("echo one > one.txt"), gate(), *DONE])
    run.at_gate()
    team.kill("anvil")
    retry(lambda: hubs(made["bellows"].home)["anvil"]["state"] == "lost")
    assert row(made["bellows"].home, run.id)["hub"] == "anvil"
    team.start("anvil")
    record = retry(lambda: (r := row(made["bellows"].home, run.id))["state"] == "ended" and r)
    assert record["end_reason"] == "crashed" and record["hub"] == "anvil"
    assert repo.show(record["branch"], "one.txt") == "one\n"


def test_a_run_that_cannot_move_outlives_a_long_outage_of_the_store(team, repo, postgres):
    made = rigs(team, repo, "anvil", keys="sleep_secs = 0\n")["anvil"]
    run = made.start([shell("echo one > one.txt"), gate(), *DONE])
    dir = run.at_gate()
    postgres.stop()
    retry(lambda: made.home.log.read_text().count("store=lost"))
    select.select([], [], [], LEASE_S + 2)  # longer than the lease
    assert (dir / "one.txt").read_text() == "one\n"
    postgres.start()
    run.open_gate()
    record = retry(lambda: (r := row(made.home, run.id))["state"] == "ended" and r)
    assert record["end_reason"] == "complete" and record["epoch"] == 1, record
    assert repo.show(record["branch"], "one.txt") == "one\n"


def test_labels_place_a_run_and_it_waits_until_a_hub_has_them(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    started = made["anvil"].start([shell("echo one > one.txt"), *DONE], on="gpu")
    queued = row(made["anvil"].home, started.id)
    assert queued["state"] == "queued" and queued["hub"] is None and queued["session_id"] is None
    assert row(made["bellows"].home, started.id)["state"] == "queued"
    made["anvil"].home.ok("hubs", "label", "bellows", "gpu")
    record = retry(lambda: (r := row(made["anvil"].home, started.id))["state"] == "ended" and r)
    assert record["hub"] == "bellows" and record["end_reason"] == "complete" and record["epoch"] == 1
    assert repo.show(record["branch"], "one.txt") == "one\n"
    check_history(made["anvil"].home, started.id)


def test_a_run_that_was_stopped_in_the_queue_begins_when_it_is_resumed(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    queued = made["anvil"].start(DONE, prompt="the wish", on="gpu")
    call(made["anvil"].home, "POST", f"/runs/{queued.id}/stop", {})
    stopped = retry(lambda: (r := row(made["bellows"].home, queued.id))["state"] == "ended" and r)
    assert stopped["end_reason"] == "interrupted" and stopped["resume"]
    repo.git("branch", stopped["branch"])  # as of a hub that was killed before it wrote that the run began
    again = made["bellows"].start([shell("echo one > one.txt"), *DONE], prompt=None, resume=queued.id)
    record = again.wait()
    assert again.id == queued.id and record["hub"] == "bellows" and record["end_reason"] == "complete", record
    assert record["prompt"] == "the wish" and record["base_branch"] == "main"
    said = [e["text"] for e in events(made["anvil"].home, record["session_id"])
            if e["type"] == "message.completed" and e["role"] == "user"]
    assert "the wish" in said[0]
    assert repo.show(record["branch"], "one.txt") == "one\n"
    check_history(made["anvil"].home, queued.id)


def test_secrets_of_the_client_stay_on_its_machine(team, repo):
    made = rigs(team, repo, "anvil")["anvil"]
    env = {**made.env(DONE), "OPENAI_API_KEY": "sk-not-for-others", "MY_TOKEN": "hush-hush", "PLAIN": "seen"}
    here, queued = made.start(DONE, env=env), made.start(DONE, env=env, on="nowhere")
    here.wait()
    for run in (here, queued):
        stored = team.database.sql(f"SELECT env, body FROM afloat.runs WHERE id = '{run.id}'")
        assert "PLAIN" in stored and "sk-not-for-others" not in stored and "hush-hush" not in stored


def test_a_hub_takes_only_runs_of_its_own_bots(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    made["anvil"].bot("smith")
    made["anvil"].home.ok("hubs", "label", "bellows", "gpu")
    run = made["anvil"].start(DONE, bot="smith", on="gpu")
    other = made["anvil"].start(DONE, on="gpu")
    retry(lambda: row(made["anvil"].home, other.id)["state"] == "ended")
    assert row(made["anvil"].home, run.id)["state"] == "queued"
    made["bellows"].bot("smith")
    record = retry(lambda: (r := row(made["anvil"].home, run.id))["state"] == "ended" and r)
    assert record["hub"] == "bellows" and record["end_reason"] == "complete"


def test_the_command_waits_with_a_queued_run_and_shows_it(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    command = made["anvil"].popen([say("hello from afar")], "go", "--on", "gpu", "--json")
    waiting = retry(lambda: call(made["anvil"].home, "GET", "/runs?state=queued")["runs"])[0]
    made["bellows"].home.ok("hubs", "label", "bellows", "gpu")
    out, err = command.communicate(timeout=60)
    assert command.returncode == 0 and b"hello from afar" in out, (out, err)
    assert b"waits for a hub" in err
    assert row(made["anvil"].home, waiting["run_id"])["hub"] == "bellows"


LOOKS = """
    CREATE TABLE looks (hub text, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE taken (hub text, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION note_look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO looks (hub) VALUES (NEW.name); RETURN NULL; END $$;
    CREATE FUNCTION note_taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO taken (hub) VALUES (NEW.hub); RETURN NULL; END $$;
    CREATE TRIGGER note AFTER UPDATE OF generation ON afloat.hubs FOR EACH ROW EXECUTE FUNCTION note_look();
    CREATE TRIGGER note AFTER UPDATE OF hub ON afloat.runs FOR EACH ROW EXECUTE FUNCTION note_taken();
"""


def pauses_before_claims(database):
    """Of each run that was taken from the queue: the seconds between the look that took it and the look before. A hub
    without a reason to look does so half a second after the last, never earlier."""
    return [float(x) for x in database.sql("""SELECT extract(epoch FROM max(two.at) - min(two.at)) FROM taken t CROSS JOIN LATERAL
        (SELECT l.at FROM looks l WHERE l.hub = t.hub AND l.at < t.at ORDER BY l.at DESC LIMIT 2) AS two GROUP BY t.at HAVING count(*) = 2""").split()]


def test_a_hub_with_room_takes_a_queued_run_at_once(team, repo, database):
    made = rigs(team, repo, "anvil", "bellows")
    made["anvil"].home.ok("hubs", "label", "bellows", "gpu")
    database.sql(LOOKS)
    for _ in range(4):
        run = made["anvil"].start(DONE, on="gpu")
        retry(lambda: row(made["anvil"].home, run.id)["state"] == "ended", 60)
    pauses = pauses_before_claims(database)
    assert len(pauses) >= 3 and min(pauses) < 0.5, pauses


def test_a_queued_run_starts_at_once_when_another_one_ends(team, repo, database):
    rig = rigs(team, repo, "anvil", more="max_runs = 1\n")["anvil"]
    first = rig.start([gate(), *DONE])
    first.at_gate()
    waiting = [rig.start(DONE) for _ in range(3)]
    assert all(row(rig.home, r.id)["state"] == "queued" for r in waiting)
    database.sql(LOOKS)
    retry(lambda: database.sql("SELECT hub FROM looks"))  # the look before that of the first claim
    first.open_gate()
    for run in waiting:
        retry(lambda: row(rig.home, run.id)["state"] == "ended", 60)
    pauses = pauses_before_claims(database)
    assert len(pauses) >= 3 and min(pauses) < 0.5, pauses


def test_a_draining_hub_passes_its_runs_on(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    first = made["anvil"].start([gate(), *DONE])
    first.at_gate()
    made["bellows"].home.ok("hubs", "drain", "anvil")
    assert retry(lambda: hubs(made["anvil"].home)["anvil"]["state"] == "draining")
    second = retry(lambda: (r := made["anvil"].start(DONE)) and row(made["anvil"].home, r.id)["hub"] != "anvil" and r)
    record = retry(lambda: (r := row(made["anvil"].home, second.id))["state"] == "ended" and r)
    assert record["hub"] == "bellows" and record["end_reason"] == "complete"
    first.open_gate()
    assert first.wait()["end_reason"] == "complete", "what it has goes on"
    made["anvil"].home.ok("hubs", "drain", "anvil", "--off")
    assert hubs(made["bellows"].home)["anvil"]["state"] == "live"


def test_any_hub_stops_a_run_and_speaks_to_it(team, repo):
    made = rigs(team, repo, "anvil", "bellows")
    run = made["anvil"].start([gate(), say("first"), say("second"), *DONE], iterations=3)
    run.at_gate()
    assert call(made["bellows"].home, "POST", f"/runs/{run.id}/input", {"text": "hello there"}) == {"taken": "queued"}
    stopped = call(made["bellows"].home, "POST", f"/runs/{run.id}/stop", {"force": True})
    assert stopped["state"] == "ended" and stopped["end_reason"] == "interrupted" and stopped["hub"] == "anvil"
    waiting = made["anvil"].start(DONE, on="nowhere")
    for method, what in (("DELETE", ""), ("POST", "/discard"), ("POST", "/apply")):
        refused = call(made["bellows"].home, method, f"/runs/{waiting.id}{what}", {} if what else None, 409)
        assert "has not" in str(refused), (what, refused)
    assert row(made["bellows"].home, waiting.id)["state"] == "queued"
    assert call(made["bellows"].home, "POST", f"/runs/{waiting.id}/stop", {})["end_reason"] == "interrupted"


def lose(team, name, how):
    if how == "kill":
        team.kill(name)
    else:
        team.hubs[name].process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("place", ["here", "clone"])
def test_a_run_of_a_lost_hub_goes_on_at_another(team, repo, how, place, tmp_path):
    """The call that ran is `unknown` and not repeated; the files are as the last step left them."""
    made = rigs(team, repo, "anvil", "bellows")
    run = made["anvil"].start([shell("echo one > one.txt"), gate(), shell("cat one.txt"), *DONE])
    run.at_gate()
    before = row(made["bellows"].home, run.id)
    assert before["hub"] == "anvil" and before["pushed"]
    if place == "clone":
        repo.root.rename(tmp_path / "elsewhere")
    lose(team, "anvil", how)
    after = retry(lambda: (r := row(made["bellows"].home, run.id))["state"] == "ended" and r, 60)
    assert after["hub"] == "bellows" and after["epoch"] == 2, after
    assert after["end_reason"] == "complete", after
    record = check_history(made["bellows"].home, run.id)
    first, second = (events(made["bellows"].home, i["session_id"]) for i in record["iterations"])
    unknown = [e for e in first if e["type"] == "tool.completed" and e.get("error") == "unknown"]
    assert len(unknown) == 1 and unknown[0]["success"] is False
    results = [e for e in second if e["type"] == "tool.completed" and e["tool"] == "shell"]
    assert results[0]["output"].strip() == "one" and results[0]["success"]
    assert record["iterations"][0]["end_reason"] == "crashed"
    if how == "stop":
        n = len(first)
        team.hubs["anvil"].process.send_signal(signal.SIGCONT)
        retry(lambda: hubs(made["bellows"].home)["anvil"]["state"] == "live")
        retry(lambda: made["anvil"].home.log.read_text().count("dropped=true"))
        assert len(events(made["bellows"].home, record["iterations"][0]["session_id"])) == n
        assert row(made["anvil"].home, run.id)["hub"] == "bellows"
        retry(lambda: not list((made["anvil"].home.dir / "worktrees").glob("*/*")))


def test_a_run_that_is_lost_as_its_record_is_written_is_let_go(team, repo):
    """The hub learns that another one has the run only when it writes the record of the end."""
    rig = Rig(team.home("anvil", lease_s=60), repo)
    rig.bot(keys="sleep_secs = 0\n")
    team.start("anvil")
    run = rig.start([gate(), *DONE])
    run.at_gate()
    team.database.sql("""
        CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER lose BEFORE UPDATE ON afloat.runs FOR EACH ROW WHEN (NEW.state = 'ended') EXECUTE FUNCTION lose();""")
    run.open_gate()
    retry(lambda: rig.home.cli("bots", "delete", "worker").returncode == 0)
    assert rig.home.log.read_text().count("dropped=true") == 1


def test_a_hub_stops_while_the_store_holds_the_record_of_a_push(team, repo, database, tmp_path):
    """The turn is given up and its work kept; the last push waits for the record of the one before."""
    proxy = Proxy(database)
    try:
        home = team.home("anvil", url=proxy.url)
        config = home.dir / "config.toml"
        config.write_text(config.read_text().replace(f"lease_s = {LEASE_S}", "lease_s = 60"))
        rig = Rig(home, repo)
        rig.bot(keys=REMOTE)
        team.start("anvil")
        run = rig.start([gate(), shell("echo one > one.txt"), say("never")])
        run.at_gate()
        began, go = tmp_path / "began", tmp_path / "go"
        os.mkfifo(go)
        hook = tmp_path / "far.git" / "hooks" / "pre-receive"
        hook.write_text(f'#!/bin/sh\n[ -e "{began}" ] || {{ touch "{began}"; cat "{go}"; }}\n')
        hook.chmod(0o755)
        run.open_gate()
        retry(began.exists)
        proxy.flows.clear()
        go.write_text("")
        branch = repo.git("for-each-ref", "--format=%(refname)", "refs/heads/afloat/")
        retry(lambda: repo.git("ls-remote", "far", branch) and "one.txt" in
              Repo.at_path(tmp_path / "far.git").git("ls-tree", "--name-only", branch).split())
        team.hubs["anvil"].process.send_signal(signal.SIGTERM)
        retry(lambda: "one.txt" in repo.git("ls-tree", "--name-only", branch).split())
        proxy.flows.set()
        assert team.hubs["anvil"].process.wait(60) == 0
        team.start("anvil")
        record = run.row()
        assert record["end_reason"] == "interrupted" and not any("remote" in n for n in record["notes"]), record
        assert repo.git("ls-remote", "far", branch).split()[0] == repo.head(branch) == record["pushed"]
    finally:
        for name in list(team.hubs):
            team.hubs.pop(name).close()
        proxy.close()


def test_what_is_said_to_a_run_elsewhere_arrives_once_though_the_answer_was_lost(team, repo, database):
    proxy = Proxy(database)
    try:
        made = rigs(team, repo, "anvil")
        team.url = proxy.url
        made.update(rigs(team, repo, "bellows"))
        run = made["anvil"].start([gate(), *DONE])
        run.at_gate()
        proxy.swallow = b"mind the gap"
        call(made["bellows"].home, "POST", f"/runs/{run.id}/input", {"text": "mind the gap"})
        assert proxy.swallowed == 1, "its answer was lost, and it was sent again"
        assert database.sql(f"SELECT said FROM afloat.runs WHERE id = '{run.id}'") == '{"mind the gap"}'
        call(made["bellows"].home, "POST", f"/runs/{run.id}/input", {"text": "mind the gap"})
        assert database.sql(f"SELECT cardinality(said) FROM afloat.runs WHERE id = '{run.id}'") == "2", "said twice"
        run.open_gate()
        run.wait()
    finally:
        for name in list(team.hubs):
            team.hubs.pop(name).close()
        proxy.close()


def test_work_of_another_hub_is_fetched_from_the_remote(team, repo, tmp_path):
    made = rigs(team, repo, "anvil", "bellows")
    run = made["anvil"].start([shell("echo one > one.txt"), *DONE])
    run.wait()
    repo.root.rename(tmp_path / "of-anvil")  # this machine is bellows' alone now
    there = made["bellows"].home
    diff = call(there, "GET", f"/runs/{run.id}/diff")
    assert [f["path"] for f in diff["files"]] == ["one.txt"] and "+one" in diff["patch"]
    # what changes files needs a checkout of the project
    no = call(there, "POST", f"/runs/{run.id}/apply", {"working_dir": str(tmp_path)}, 409)
    assert "worked on hub 'anvil'" in no["detail"] and "checkout of the project" in no["hint"], no
    # and a repository that only has the same name is none
    namesake = Repo.at_path(tmp_path / "elsewhere" / "repo")
    namesake.root.mkdir(parents=True)
    namesake.git("init", "-q", "-b", "main")
    namesake.git("remote", "add", "origin", "https://example.org/other/repo.git")
    no = call(there, "POST", f"/runs/{run.id}/apply", {"working_dir": str(namesake.root)}, 409)
    assert "checkout of the project" in no["hint"] and namesake.git("branch", "--all") == "", no
    mine = Repo.at_path(tmp_path / "bellows" / "repo")
    repo.at_path(tmp_path).git("clone", "-q", "-b", "main", str(tmp_path / "far.git"), str(mine.root))
    call(there, "POST", f"/runs/{run.id}/apply", {"working_dir": str(mine.root)})
    assert (mine.root / "one.txt").read_text() == "one\n" and mine.head() == mine.head("origin/main")
    (mine.root / "one.txt").unlink()
    mine.git("config", "user.name", "Bea")
    mine.git("config", "user.email", "bea@example.org")
    merged = call(there, "POST", f"/runs/{run.id}/merge", {"working_dir": str(mine.root)})
    assert mine.show("main", "one.txt") == "one\n" and merged["merged_into"] == "main"
    assert row(made["anvil"].home, run.id)["common"] == str(repo.root / ".git"), "what anvil has stays as it was"


def test_work_of_another_hub_that_is_nowhere_else_says_where_it_is(team, repo, tmp_path):
    made = rigs(team, repo, "anvil", "bellows", keys="sleep_secs = 0\n")
    run = made["anvil"].start([shell("echo one > one.txt"), *DONE])
    run.wait()
    repo.root.rename(tmp_path / "of-anvil")
    there = made["bellows"].home
    for method, what in (("GET", "diff"), ("POST", "apply"), ("POST", "merge")):
        no = call(there, method, f"/runs/{run.id}/{what}", {} if method == "POST" else None, 409)
        assert no["code"] == "CONFLICT" and "worked on hub 'anvil'" in no["detail"], no
        assert "do it on hub 'anvil'" in no["hint"] and "[worktree]" in no["hint"], no


STEPS = 6


def test_lost_at_any_moment_no_call_runs_twice_and_no_two_hubs_write(team, repo):
    """Three hubs; the one that has the run is killed or stopped at a random moment. The ledger in the worktree has
    each step at most once, in order; each journal has one writer after the other."""
    made = rigs(team, repo, "anvil", "bellows", "crucible")
    seed = draw_seed()
    dice = random.Random(seed)
    moved = 0
    for round in range(ROUNDS):
        print(f"seed {seed} round {round}")
        run = made[dice.choice(list(made))].start(
            [*(shell(f"echo {i} >> ledger.txt; sleep 0.2") for i in range(STEPS)), *DONE])
        victim = row(run.home, run.id)["hub"]
        others = [r.home for n, r in made.items() if n != victim]
        how = dice.choice(["kill", "stop"])
        select.select([], [], [], dice.uniform(0, 1.5))  # the moment, at random
        lose(team, victim, how)
        held, record = {}, None
        while record is None:
            now = retry(lambda: row(others[0], run.id), 60)
            if now["hub"]:
                assert held.setdefault(now["epoch"], now["hub"]) == now["hub"], "one epoch, one hub"
            record = now if now["state"] == "ended" else None
        if how == "kill":
            team.start(victim)
        else:
            team.hubs[victim].process.send_signal(signal.SIGCONT)
        retry(lambda: hubs(others[0])[victim]["state"] == "live")
        record = check_history(others[0], run.id)
        assert record["end_reason"] == "complete", record
        assert record["hub"] != victim or record["epoch"] == 1
        ledger = [int(x) for x in repo.show(record["branch"], "ledger.txt").split()]
        assert ledger == sorted(set(ledger)), ledger
        for it in record["iterations"]:
            order = writers(team, it["session_id"])
            assert len(order) == len(set(order)), f"hubs wrote in turns: {order}"
        moved += record["epoch"] > 1
    print(f"{ROUNDS} rounds, {moved} runs moved")
