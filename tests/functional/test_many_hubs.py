"""Hubs that share a store in PostgreSQL: what each sees of the others, and what becomes of their work when one
of them, the server or the way to it is lost."""
import concurrent.futures
import itertools
import json
import os
import signal
import threading

import pytest

from conftest import LOOPS, retry
from team_rig import Proxy, Reader, Team
from test_agent import Session, call


@pytest.fixture
def team(database):
    t = Team(database)
    yield t
    t.close()


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def on(home, session):
    """The same session, through another hub."""
    other = Session.__new__(Session)
    other.home, other.id, other.dir = home, session.id, session.dir
    return other


def ask_there(session, text):
    """A turn, as soon as no other hub has the session."""
    raw = json.dumps({"text": text, "wait": True}).encode()

    def ask():
        answer = session.home.http("POST", f"/session/{session.id}/message", raw)
        assert answer.status in (200, 409), answer.body
        return answer.status == 200 and answer.json()
    return retry(ask)


def check_history(database):
    """Nothing doubled, nothing missing: of every session `seq`, and of the stream `id`, count from 1."""
    said = database.sql(
        "BEGIN ISOLATION LEVEL REPEATABLE READ;"  # hubs may still write
        "SELECT json_build_object('id', id, 'session', session, 'seq', seq) FROM afloat.events ORDER BY id;"
        "SELECT json_build_object('session', id, 'last_seq', last_seq) FROM afloat.sessions; COMMIT")
    said = [json.loads(x) for x in said.splitlines()]
    rows = [r for r in said if "id" in r]
    assert [r["id"] for r in rows] == list(range(1, len(rows) + 1))
    seqs = {}
    for r in rows:
        if r["seq"] is not None:
            seqs.setdefault(r["session"], []).append(r["seq"])
    for session, got in seqs.items():
        assert got == list(range(1, len(got) + 1)), session
    for r in said:
        if "last_seq" in r:
            assert len(seqs.get(r["session"], [])) == r["last_seq"], r
    return rows


# ---- shared -------------------------------------------------------------------------------------

def test_a_session_of_one_hub_goes_on_at_another(team, work):
    a, b = team.start("a", "b")
    s = Session(a, work, [{"text": "I am one"}, {"text": "I am two"}])
    assert s.ask("first")["text"] == "I am one"
    there = on(b, s)
    row = retry(lambda: [r for r in call(b, "GET", "/session")["sessions"] if r["state"] == "idle"])[0]
    assert (row["id"], row["turns"]) == (s.id, 1)
    assert retry(lambda: there.events() == s.events())
    call(b, "PATCH", f"/session/{s.id}", {"title": "renamed there"})
    assert s.call("GET")["title"] == "renamed there"
    env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
           "AFLOAT_SCENARIO": str(next(work.glob("scenario-*")))}
    call(b, "PATCH", f"/session/{s.id}", {"env": env})
    assert ask_there(there, "second")["text"] == "I am two"
    asked = json.dumps(there.requests()[-1]["body"])
    assert "first" in asked and "I am one" in asked, "the other hub's part of the conversation"
    assert retry(lambda: s.events() == there.events())
    assert len(s.events("turn.completed")) == 2
    check_history(team.database)


def test_a_turn_that_runs_elsewhere_is_a_conflict_that_names_the_hub(team, work):
    a, b = team.start("harbour-a", "harbour-b")
    s = Session(a, work, [{"text": "slow", "delay_ms": 60000}, {"text": "x"}])
    s.send("wait")
    s.wait_for("turn.started")
    raw = json.dumps({"text": "me too"}).encode()
    answer = b.http("POST", f"/session/{s.id}/message", raw)
    assert answer.status == 409, answer.body
    assert answer.json()["code"] == "CONFLICT" and "'harbour-a'" in answer.json()["detail"]
    for method, path, body in (("POST", "/interrupt", {}), ("POST", "/steer", {"text": "x"}), ("POST", "/compact", {}),
                               ("POST", "/rewind", {}), ("POST", "/permission/1", {"decision": "allow"}),
                               ("POST", "/answer/1", {"answer": "x"}), ("PATCH", "", {"title": "x"}),
                               ("DELETE", "", None), ("DELETE", "?purge=true", None)):
        raw_body = json.dumps(body).encode() if body is not None else b""
        answer = b.http(method, f"/session/{s.id}{path}", raw_body)
        assert answer.status == 409 and "'harbour-a'" in answer.json()["detail"], (method, path, answer.body)
        assert call(b, "GET", f"/session/{s.id}")["state"] == "running", (method, path)
    s.call("POST", "/interrupt", {})
    s.wait_for("turn.interrupted")
    retry(lambda: b.http("POST", f"/session/{s.id}/message", raw).status == 202)
    check_history(team.database)


def test_the_stream_of_every_hub_covers_all(team, work):
    a, b, c = team.start("a", "b", "c")
    readers = [Reader(h) for h in (a, b, c)]
    ids = {}
    for n, home in enumerate((a, b, c) * 5):
        ids[int(home.ok("events", "emit", "user.n", json.dumps({"n": n})))] = n
    s = Session(b, work, [{"text": "hello"}])
    s.ask()
    end = [e for e in s.events("turn.completed")][0]
    for r in readers:
        r.wait_for(lambda e: e[1] == "turn.completed" and e[2]["session"] == s.id)
        got = {e[0]: e[2]["data"]["n"] for e in r.events if e[1] == "user.n"}
        assert got == ids
        assert [e[0] for e in r.events] == sorted({e[0] for e in r.events})
        mine = [e[2] for e in r.events if e[2].get("session") == s.id and "seq" in e[2]]
        assert [e["seq"] for e in mine] == list(range(1, len(mine) + 1)) and mine[-1]["seq"] >= end["seq"]
    last = readers[0].last
    for r in readers:
        r.wait_for(lambda e: e[0] >= last)  # one may have been told a little more than another
    same = [[e for e in r.events if e[0] <= last] for r in readers]
    first = max(x[0][0] for x in same)
    assert [e for e in same[0] if e[0] >= first] == [e for e in same[1] if e[0] >= first]
    for r in readers:
        r.close()
    check_history(team.database)


def test_last_event_id_is_good_on_every_hub_also_after_the_loss_of_one(team):
    a, b = team.start("a", "b")
    total = 300
    reader = Reader(a, "/events?types=user.*", last=0)
    for n in range(total // 2):
        call(a if n % 2 else b, "POST", "/events", {"type": "user.n", "data": {"n": n}}, 201)
    reader.wait_for(lambda e: e[2]["data"]["n"] > total // 4)
    team.kill("a")
    reader.close()
    got = list(reader.events)
    for n in range(total // 2, total):
        call(b, "POST", "/events", {"type": "user.n", "data": {"n": n}}, 201)
    # a hub that was not there when any of it happened
    c = team.start("c")
    second = Reader(c, "/events?types=user.*", last=got[-1][0])
    second.wait_for(lambda e: e[2].get("data", {}).get("n") == total - 1)
    second.close()
    seen = [e[2]["data"]["n"] for e in got + second.events]
    assert sorted(seen) == list(range(total)) and len(set(seen)) == total, "no gap, nothing twice"
    assert "stream.gap" not in [e[1] for e in got + second.events]


def test_an_id_that_was_never_given_out_is_a_gap(team):
    a = team.start("a")
    r = Reader(a, last=10 ** 9)
    gap = r.wait_for(lambda e: e[1] == "stream.gap")
    assert gap[2]["from"] == 1
    call(a, "POST", "/events", {"type": "user.x"}, 201)
    r.wait_for(lambda e: e[1] == "user.x")
    r.close()


def test_a_server_that_lost_events_is_reported_until_the_hub_restarts(team, database):
    """As after a restore from a backup: ids are given out again, and live readers would miss their events unheard."""
    a = team.start("a")
    for n in range(5):
        last = int(a.ok("events", "emit", "user.n", json.dumps({"n": n})))
    assert "store_error" not in a.json("status")
    database.sql(f"DELETE FROM afloat.events WHERE id > {last} - 3; UPDATE afloat.streams SET last = {last} - 3")
    said = retry(lambda: a.json("status").get("store_error"))
    assert f"lost the events after {last - 3}" in said and "restart the hub" in said
    a.ok("stop")
    del team.hubs["a"]
    a = team.start("a")
    reader = Reader(a, "/events?types=user.*")
    again = int(a.ok("events", "emit", "user.again"))
    reader.wait_for(lambda e: e[0] == again)
    assert "store_error" not in a.json("status")
    reader.close()


def test_the_events_of_a_session_on_another_hub_come_as_they_happen(team, work):
    a, b = team.start("a", "b")
    s = Session(a, work, [{"text": "one two three", "delta_ms": 20}, {"text": "more"}])
    r = Reader(b, f"/session/{s.id}/events", last=0)
    s.ask("go")
    r.wait_for(lambda e: e[1] == "session.updated" and e[2].get("state") == "idle")
    assert [(e[0], e[1]) for e in r.events] == [(e["seq"], e["type"]) for e in s.events()]
    r.close()


def test_choices_are_shared(team):
    a, b = team.start("a", "b")
    call(a, "POST", "/feature/plugins/disable", {})
    team.hubs.pop("b").close()
    b = team.start("b")
    rows = {f["name"]: f["enabled"] for f in call(b, "GET", "/feature")["features"]}
    assert rows["plugins"] is False


# ---- lost ---------------------------------------------------------------------------------------

def test_a_hub_that_is_killed_loses_its_session_to_another(team, work):
    a, b = team.start("a", "b", lease_s=10)
    s = Session(a, work, [{"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "sleep 600"}}]},
                          {"text": "afterwards"}, {"text": "again"}])
    s.send("go")
    s.wait_for("tool.called")
    team.kill("a")
    there = on(b, s)
    raw = json.dumps({"text": "go on", "wait": True}).encode()
    assert b.http("POST", f"/session/{s.id}/message", raw).status == 409, "its lease runs"
    assert ask_there(there, "go on")["state"] == "completed"
    types = [e["type"] for e in there.events()]
    done = there.events("tool.completed")
    assert len(done) == 1 and done[0]["success"] is False and done[0]["error"] == "unknown"
    assert types.count("turn.started") == 2 and types.count("turn.completed") == 1
    check_history(team.database)


def test_a_turn_that_a_killed_hub_left_open_is_ended_by_an_interrupt(team, work):
    a, b = team.start("a", "b")
    s = Session(a, work, [{"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "sleep 600"}}]}])
    s.send("go")
    s.wait_for("tool.called")
    team.kill("a")
    there = on(b, s)
    retry(lambda: b.http("POST", f"/session/{s.id}/interrupt", b"{}").status == 200)
    assert there.call("GET")["state"] not in ("running", "waiting")
    assert [e["error"] for e in there.events("tool.completed")] == ["unknown"]
    there.call("DELETE")
    assert there.call("GET")["state"] == "ended"
    check_history(team.database)


def test_messages_that_come_together_after_a_lost_hub_all_get_their_turn(team, work):
    a, b = team.start("a", "b")
    s = Session(a, work, [{"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "sleep 600"}}]},
                          *[{"text": f"answer {n}"} for n in range(4)]])
    s.send("go")
    s.wait_for("tool.called")
    team.kill("a")
    there = on(b, s)
    raw = json.dumps({"text": "still there?", "wait": True}).encode()

    def taken(_):
        return b.http("POST", f"/session/{s.id}/message", raw).status != 409

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        retry(lambda: any(list(pool.map(taken, range(8)))))
    assert b.http("GET", "/healthz").status == 200
    retry(lambda: there.call("GET")["state"] not in ("running", "waiting"))
    begun, failed = there.events("turn.started"), there.events("turn.failed")
    ended = {e["turn"] for e in there.events() if e["type"] in ("turn.completed", "turn.failed", "turn.interrupted")}
    assert {e["turn"] for e in begun} <= ended
    assert [e["turn"] for e in failed if e.get("error", {}).get("code") == "CRASHED"] == [begun[0]["turn"]]
    check_history(team.database)


def test_a_hub_that_was_stopped_for_long_cannot_write_what_it_lost(team, work):
    a, b = team.start("a", "b")
    s = Session(a, work, [{"text": " ".join(["word"] * 4000), "delta_ms": 5}, {"text": "from b"}])
    s.send("go")
    s.wait_for("message.delta")
    hub = team.hubs["a"]
    os.kill(hub.pid, signal.SIGSTOP)
    try:
        there = on(b, s)
        assert ask_there(there, "go on")["state"] == "completed"
        before = there.events()
    finally:
        os.kill(hub.pid, signal.SIGCONT)
    retry(lambda: "was taken over" in a.log.read_text() or "is running on hub" in a.log.read_text())
    retry(lambda: call(a, "GET", f"/session/{s.id}")["turn"] is None)
    after = [e for e in there.events() if e["type"].startswith(("turn.", "message.", "tool."))]
    assert after == [e for e in before if e["type"].startswith(("turn.", "message.", "tool."))]
    check_history(team.database)


# ---- the server and the way to it ---------------------------------------------------------------

def emit_many(home, n, acknowledged, stop):
    """Emit until told; every id that was answered goes into `acknowledged`."""
    while not stop.is_set():
        try:
            answer = home.http("POST", "/events", json.dumps({"type": "user.n", "data": {"n": next(n)}}).encode())
            if answer.status == 201:
                acknowledged.append(answer.json()["id"])
        except (OSError, ValueError, IndexError):
            return


def test_connections_that_break_lose_and_double_nothing(team, database, work):
    proxy = Proxy(database)
    team.url = proxy.url
    a, b = team.start("a", "b")
    reader = Reader(b, "/events?types=user.*", last=0)
    s = Session(a, work, [{"text": " ".join(f"w{i}" for i in range(200)), "delta_ms": 5}])
    s.send("go")
    count, stop, acknowledged = itertools.count(), threading.Event(), []
    threads = [threading.Thread(target=emit_many, args=(h, count, acknowledged, stop)) for h in (a, b)]
    for t in threads:
        t.start()
    cuts = 0
    for _ in range(6):
        before = len(acknowledged)
        retry(lambda: len(acknowledged) > before + 20)
        cuts += proxy.cut()
    before = len(acknowledged)
    retry(lambda: len(acknowledged) > before + 20)
    stop.set()
    for t in threads:
        t.join()
    assert cuts > 6 and len(set(acknowledged)) == len(acknowledged)
    assert s.wait_for("turn.completed")
    said = s.events("message.completed")[-1]["text"]
    assert said == " ".join(f"w{i}" for i in range(200))
    rows = check_history(database)
    assert set(acknowledged) <= {r["id"] for r in rows}
    numbers = database.sql("SELECT fields::text FROM afloat.events WHERE type = 'user.n'").splitlines()
    assert len(numbers) == len(set(numbers)), "an event was written twice"
    reader.wait_for(lambda e: e[0] >= max(acknowledged))
    got = [e[0] for e in reader.events]
    assert got == sorted(set(got)) and set(acknowledged) <= set(got)
    reader.close()
    team.close()
    proxy.close()
    team.hubs, team.homes = {}, {}
    team.root.mkdir()


def test_five_hubs_that_are_killed_in_turn_lose_nothing_that_was_acknowledged(team, database):
    names = ["a", "b", "c", "d", "e"]
    homes = dict(zip(names, team.start(*names)))
    count, stop, acknowledged = itertools.count(), threading.Event(), []

    def begin(name):
        t = threading.Thread(target=emit_many, args=(homes[name], count, acknowledged, stop))
        t.start()
        return t

    threads = [begin(n) for n in names]
    for i in range(3 * LOOPS):
        name = names[i % len(names)]
        before = len(acknowledged)
        retry(lambda: len(acknowledged) > before + 30)
        team.kill(name)
        team.start(name)
        threads.append(begin(name))
    before = len(acknowledged)
    retry(lambda: len(acknowledged) > before + 30)
    stop.set()
    for t in threads:
        t.join()
    rows = check_history(database)
    assert set(acknowledged) <= {r["id"] for r in rows} and len(set(acknowledged)) == len(acknowledged)
    numbers = database.sql("SELECT fields FROM afloat.events WHERE type = 'user.n'").splitlines()
    assert len(numbers) == len(set(numbers)) >= len(acknowledged)


def test_a_restart_of_the_server_is_a_pause(team, postgres, work):
    a = team.start("a")
    s = Session(a, work, [{"text": " ".join(["word"] * 300), "delta_ms": 10}])
    s.send("go")
    s.wait_for("message.delta")
    postgres.stop(signal.SIGQUIT)
    retry(lambda: "store=lost" in a.log.read_text())
    row = a.json("status")
    assert "PostgreSQL" in row["store_error"]
    assert "store" in a.ok("status")
    postgres.start()
    assert s.wait_for("turn.completed")
    retry(lambda: "store_error" not in a.json("status"))
    check_history(team.database)


def test_a_hub_without_its_store_does_not_start_and_writes_no_files(home, tmp_path):
    (home.dir / "config.toml").write_text('[store]\nurl = "postgresql://boss@/x?host=/nonexistent"\n')
    done = home.cli("hub")
    assert done.returncode == 1 and "cannot reach the store in PostgreSQL" in done.stderr
    assert "/nonexistent" in done.stderr
    assert not (home.dir / "sessions").exists() or not list((home.dir / "sessions").iterdir())
    (home.dir / "config.toml").write_text('[store]\nurl_secret = "db"\n')
    done = home.cli("hub")
    assert done.returncode == 1 and "afloat secret set db" in done.stderr


@pytest.mark.parametrize("fault", ["[store\nurl = \"%s\"\n", "listen = 7\n[store]\nurl = \"%s\"\n",
                                   "[watch\n[store]\nurl_secret = \"db\"\n"])
def test_a_mistake_in_the_settings_does_not_lead_to_files(home, database, fault, tmp_path):
    (home.dir / "config.toml").write_text(fault.replace("%s", database.url()))
    done = home.cli("hub")
    assert done.returncode == 1 and "config.toml' is broken" in done.stderr and "config show" in done.stderr
    for command in (("store", "status"), ("store", "migrate"), ("store", "export", str(tmp_path / "x.jsonl"))):
        done = home.cli(*command)
        assert done.returncode != 0 and "config.toml' is broken" in done.stderr, command
    assert not (tmp_path / "x.jsonl").exists()
    (home.dir / "config.toml").write_text("# [store] url = \"postgresql://x\"\nlisten = 7\n")
    assert home.json("store", "status")["kind"] == "files"


def test_the_address_can_be_a_secret(home, database, start_hub):
    home.ok("secret", "set", "db", input=database.url())
    (home.dir / "config.toml").write_text('[store]\nurl_secret = "db"\n')
    start_hub()
    row = call(home, "GET", "/store")
    assert row["kind"] == "postgresql" and row["schema"] >= 1 and row["latency_ms"] > 0
    assert row["version"].split(".")[0].isdigit()


def test_a_password_in_the_address_is_shown_to_nobody(team, database):
    a = team.start("a", url=database.url().replace("boss@", "boss:hush-hush-hush@"))
    assert call(a, "GET", "/store")["user"] == "boss"
    shown = a.http("GET", "/config").body + a.http("GET", "/store").body + a.http("GET", "/logs").body
    assert b"[redacted" in shown and b"hush-hush" not in shown
    assert "hush-hush" not in a.log.read_text()


def test_two_homes_cannot_have_one_name(team):
    team.start("a")
    other = team.home("other")
    (other.dir / "config.toml").write_text(f'[store]\nurl = "{team.url}"\nhub_name = "a"\n')
    done = other.cli("hub")
    assert done.returncode == 7 and "another hub named 'a'" in done.stderr


# ---- rights -------------------------------------------------------------------------------------

def test_owners_see_only_what_is_theirs_and_hubs_need_one_role(team, database, work):
    name = database.name
    boss = team.start("boss")
    mine = Session(boss, work, [{"text": "boss says"}])
    mine.ask()
    database.sql(f"CREATE ROLE {name}_ann LOGIN; CREATE ROLE {name}_bob LOGIN;"
                 f"GRANT afloat_hub TO {name}_ann, {name}_bob")
    try:
        ann = team.start("ann", url=database.url(f"{name}_ann"))
        bob = team.start("bob", url=database.url(f"{name}_bob"))
        hers = Session(ann, work, [{"text": "ann says"}])
        assert hers.ask()["text"] == "ann says"
        assert [s["id"] for s in call(ann, "GET", "/session")["sessions"]] == [hers.id]
        assert call(bob, "GET", "/session")["sessions"] == []
        call(bob, "GET", f"/session/{hers.id}", status=404)
        r = Reader(bob, last=0)
        call(bob, "POST", "/events", {"type": "user.x"}, 201)
        r.wait_for(lambda e: e[1] == "user.x")
        assert hers.id not in json.dumps(r.events) and mine.id not in json.dumps(r.events)
        r.close()
        # the role can do what a hub needs, and no more
        user = f"{name}_ann"
        for denied in ("DROP TABLE afloat.sessions", "CREATE TABLE afloat.x (y int)",
                       "ALTER TABLE afloat.events DISABLE ROW LEVEL SECURITY",
                       "TRUNCATE afloat.events", "DELETE FROM afloat.migrations"):
            with pytest.raises(Exception):
                database.sql(denied, user)
        assert database.sql("SELECT count(*) FROM afloat.sessions", user) == "1"
        row = {c["name"]: c for c in call(ann, "GET", "/doctor")["checks"]}
        assert row["store privileges"]["status"] == "ok" and row["store clock"]["status"] == "ok"
        assert {"store", "store version", "store latency", "store replication"} <= set(row)
    finally:
        for hub in list(team.hubs):
            team.hubs.pop(hub).close()
        database.sql(f"DROP OWNED BY {name}_ann, {name}_bob; DROP ROLE {name}_ann, {name}_bob")


def test_the_database_does_not_say_where_files_are_made_or_removed(team, database, work):
    a = team.start("a")
    s = Session(a, work, [{"text": "one"}])
    s.ask("hello")
    outside = team.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    team.hubs.pop("a").close()
    database.sql(f"UPDATE afloat.sessions SET dir = 'sessions/../../outside' WHERE id = '{s.id}'")
    team.start("a")
    listed = [r["id"] for r in call(a, "GET", "/session")["sessions"]]
    a.http("POST", f"/session/{s.id}/message", json.dumps({"text": "go on", "wait": True}).encode())
    a.http("DELETE", f"/session/{s.id}?purge=true")
    assert [p.name for p in outside.iterdir()] == ["file"]
    assert listed == []
    other = call(a, "POST", "/session", {"working_dir": str(work)}, 201)
    database.sql(f"DELETE FROM afloat.events WHERE session = '{s.id}'; DELETE FROM afloat.sessions WHERE id = '{s.id}';"
                 f"UPDATE afloat.sessions SET dir = 'sessions/../../outside' WHERE id = '{other['id']}'")
    a.http("DELETE", f"/session/{other['id']}?purge=true")  # the hub has it in memory
    assert [p.name for p in outside.iterdir()] == ["file"]


def test_an_event_that_no_hub_would_write_ends_no_hub(team, database):
    a, b = team.start("a", "b")
    reader = Reader(a, "/events")
    call(b, "POST", "/events", {"type": "user.before"}, 201)
    database.sql("UPDATE afloat.streams SET last = last + 2;"
                 "INSERT INTO afloat.events (id, ts, type, fields, hub, token)"
                 " SELECT s.last - i, afloat.now_ms(), repeat('x', i * 300), '', 'c', 0 FROM afloat.streams s, generate_series(0, 1) i")
    call(b, "POST", "/events", {"type": "user.after"}, 201)
    reader.wait_for(lambda e: e[1] == "user.after")
    reader.close()


def test_metrics_tell_of_the_pool_and_the_queue(team):
    a = team.start("a")
    text = a.http("GET", "/metrics").body.decode()
    assert "afloat_store_pool_up" in text and "afloat_store_stream_lag_events " in text
    # a hub that has just started still reads what its own start emitted
    assert retry(lambda: b"afloat_store_stream_lag_events 0\n" in a.http("GET", "/metrics").body)
    team.database.sql("INSERT INTO afloat.runs (id, project, bot, state, body) VALUES ('r1', 'p', 'nobody', 'queued', '{}')")
    assert retry(lambda: b"afloat_store_queued_runs 1\n" in a.http("GET", "/metrics").body)
