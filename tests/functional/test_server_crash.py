"""The server crashes between a commit that does not wait for its disk (`afloat.hurry()`) and the disk: a hub believes in a
claim that nobody remembers, and another hub gets the same session or run.

The server writes such commits late here (wal_writer_delay), and the hub's way to the server is frozen behind its
claim, so the crash hits that moment. A crash that came too late is not counted and tried again."""
import concurrent.futures
import json
import os
import signal

import pytest

from bots import DONE, FILES, Repo, Rig, say, shell
from conftest import retry
from team_rig import Proxy, Team
from test_agent import Session, call
from test_many_hubs import ask_there, check_history, on

TRIES = 20  # the first that hits ends the test


@pytest.fixture
def lazy(postgres):
    """A server that keeps what need not be on its disk in memory for long."""
    postgres.stop()
    postgres.settings["wal_writer_delay"] = "10s"
    postgres.start()
    yield postgres
    del postgres.settings["wal_writer_delay"]
    postgres.stop()
    postgres.start()


@pytest.fixture
def hubs(lazy, database):
    """Hub `a` behind a proxy, hub `b`."""
    team, proxy = Team(database), Proxy(database)
    team.home("a", url=proxy.url)
    team.home("b")
    yield team, proxy
    for name, home in team.homes.items():  # shown when the test failed
        print(name, *home.log.read_text().splitlines()[-30:], sep="\n")
    proxy.flows.set()
    for name in list(team.hubs):
        team.hubs.pop(name).close()
    proxy.close()
    team.close()


@pytest.fixture
def team_of_one(database):
    team = Team(database)
    yield team, team.start("a")
    print(*team.homes["a"].log.read_text().splitlines()[-30:], sep="\n")  # shown when the test failed
    team.close()


def crash(server):
    server.stop(signal.SIGQUIT)
    server.start()


def test_a_claim_of_a_session_that_the_server_forgot_is_worth_nothing(hubs, lazy, database, tmp_path, record_property):
    team, proxy = hubs
    a, b = team.start("a", "b")
    s = Session(a, tmp_path / "work", [{"text": f"answer {n}"} for n in range(2 * TRIES)])
    scenario = str(next(s.dir.glob("scenario-*")))
    env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": scenario}
    holder = lambda: database.sql(f"SELECT hub FROM afloat.sessions WHERE id = '{s.id}'")
    pool = concurrent.futures.ThreadPoolExecutor(1)
    forgotten = 0
    for n in range(TRIES):
        retry(lambda: holder() == "")
        proxy.freeze = (False, b"session_claim")
        asked = pool.submit(a.http, "POST", f"/session/{s.id}/message", json.dumps({"text": f"lost {n}", "wait": True, "env": env}).encode())
        retry(lambda: holder() == "a")
        crash(lazy)
        if holder() == "":
            forgotten += 1
            call(b, "PATCH", f"/session/{s.id}", {"env": env})
            assert ask_there(on(b, s), f"kept {n}")["state"] == "completed"
            retry(lambda: holder() == "")
            before = [e for e in on(b, s).events() if e["type"] != "session.updated"]
            proxy.flows.set()
            answer = asked.result()
            assert answer.status == 409 and "was taken over from this hub" in answer.json()["detail"], answer.body
            assert [e for e in on(b, s).events() if e["type"] != "session.updated"] == before
            break
        proxy.flows.set()
        asked.result()
    assert forgotten, "no crash hit the moment"
    check_history(database)
    record_property("counted", f"{forgotten} crashes behind a claim")


def test_a_claim_of_a_run_that_the_server_forgot_is_worth_nothing(hubs, lazy, database, tmp_path, record_property):
    team, proxy = hubs
    ledger, forgotten = tmp_path / "ledger", 0
    repo = Repo(tmp_path / "repo", FILES)
    repo.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    repo.git("remote", "add", "far", str(tmp_path / "far.git"))
    repo.git("push", "-q", "far", "main")
    rigs = [Rig(team.homes[n], repo) for n in ("a", "b")]
    for rig in rigs:
        rig.bot(keys='sleep_secs = 0\nsandbox = "danger-full-access"\n[worktree]\nremote = "far"\n')
    a, b = team.start("a", "b")
    row = lambda id: call(b, "GET", f"/runs/{id}")
    for n in range(TRIES):
        mark = f"only-in-claim-{n}"
        env = {**rigs[1].env([shell(f"echo {n} >> {ledger}"), *DONE]), "MARK": mark}
        run = rigs[1].start([], env=env, on=f"gpu{n}")
        holder = lambda: database.sql(f"SELECT hub FROM afloat.runs WHERE id = '{run.id}'")
        proxy.freeze = (True, mark.encode())
        b.ok("hubs", "label", "a", f"gpu{n}")
        retry(lambda: holder() == "a")
        crash(lazy)
        forgot = holder() == ""
        forgotten += forgot
        b.ok("hubs", "label", "b", f"gpu{n}")
        retry(lambda: holder() == "b")
        proxy.flows.set()
        record = retry(lambda: (r := row(run.id))["state"] == "ended" and r, 60)
        end = "complete" if forgot else "crashed"  # a run without a push does not move
        assert record["hub"] == "b" and record["end_reason"] == end, record
        retry(lambda: f"run={run.id} lease=lost" in a.log.read_text())
        if forgotten:
            assert record["epoch"] == 1, "the claim of `a` never was"
            break
    assert forgotten, "no crash hit the moment"
    steps = ledger.read_text().split()
    assert len(steps) == len(set(steps)), "a step ran twice"
    record_property("counted", f"{forgotten} crashes behind a claim")


def test_a_hub_outlives_a_server_that_lost_what_was_committed(team_of_one, database, tmp_path):
    """As a copy does that was behind when it took over."""
    team, hub = team_of_one
    s = Session(hub, tmp_path / "work", [shell("touch began; until [ -e go ]; do sleep 0.05; done"), say("done")])
    s.send()
    retry((s.dir / "began").exists)
    database.sql(f"DELETE FROM afloat.events WHERE session = '{s.id}' AND seq > 1; UPDATE afloat.sessions SET last_seq = 1 WHERE id = '{s.id}'")
    (s.dir / "go").touch()
    retry(lambda: f"event=turn.failed lost: \"the server has lost events of session '{s.id}' after 1" in hub.log.read_text())
    assert s.call("GET")["id"] == s.id
    team.kill("a")
    team.start("a")
    s.send("again")  # the model begins anew: it has heard nothing yet
    s.wait_for("turn.completed")
