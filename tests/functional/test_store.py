"""`afloat store`: what the store is, its schema, and moving it between files and PostgreSQL."""
import json
import os
import re
import subprocess

import pytest

from conftest import Hub
from test_agent import Session, call


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def use(home, url):
    (home.dir / "config.toml").write_text(f'[store]\nurl = "{url}"\n' if url else "")


def some_sessions(home, work, n):
    hub = Hub(home)
    rows = []
    for i in range(n):
        s = Session(home, work, [{"text": f"answer {i} \u00e9\u2028"}], title=f"number {i}")
        s.ask("what is 1.0e3, \"quoted\" \\ and \u0001?")
        rows.append(s.id)
    call(home, "POST", "/feature/plugins/disable", {})
    hub.close()
    return rows


def everything(home):
    """All that a hub shows of its sessions."""
    hub = Hub(home)
    try:
        rows = {s["id"]: s for s in call(home, "GET", "/session")["sessions"]}
        events = {id: call(home, "GET", f"/session/{id}/events?after=0&limit=1000")["events"] for id in rows}
        return rows, events, call(home, "GET", "/feature")
    finally:
        hub.close()


def test_status_says_what_the_store_is(home, database):
    row = home.json("store", "status")
    assert row["kind"] == "files" and re.fullmatch(r"[0-9.]+", row["version"]) and row["schema"] == row["latest"]
    use(home, database.url())
    row = home.json("store", "status")
    assert row["kind"] == "postgresql" and row["schema"] == 0 and row["latest"] >= 1 and row["latency_ms"] >= 0
    home.ok("store", "migrate")
    assert home.json("store")["schema"] == row["latest"]
    assert "postgresql" in home.ok("store", "status")


def test_migrate_goes_up_and_down(home, database):
    assert home.cli("store", "migrate").returncode == 2, "files have no schema"
    use(home, database.url())
    latest = home.json("store", "migrate")["schema"]
    assert home.json("store", "migrate")["schema"] == latest, "nothing to do"
    assert home.cli("store", "migrate", "--down", str(latest + 1)).returncode == 2
    assert home.json("store", "migrate", "--down", "1")["schema"] == latest - 1
    if latest > 1:
        done = home.cli("hub")
        assert done.returncode == 1 and "afloat store migrate" in done.stderr
    assert home.json("store", "migrate", "--down", str(latest - 1))["schema"] == 0 if latest > 1 else True
    assert home.json("store", "migrate")["schema"] == latest


def test_migrate_waits_for_hubs_and_keeps_the_runs(home, database, start_hub):
    use(home, database.url())
    with open(home.dir / "config.toml", "a") as f:
        f.write('hub_name = "anvil"\n')
    start_hub()
    done = home.cli("store", "migrate", "--down", "1")
    assert done.returncode != 0 and "stop 'anvil' first" in done.stderr, done.stderr
    assert home.json("store", "status")["schema"] == home.json("store", "status")["latest"]
    home.ok("store", "migrate")
    body = {"run_id": "r1", "bot": "w", "repository": "/r", "state": "ended", "started_at": "2026-01-02T03:04:05.678Z"}
    columns = "SELECT bot, repository, started_at FROM afloat.runs"
    database.sql("INSERT INTO afloat.runs (id, bot, repository, started_at, state, body) VALUES"
                 f" ('r1', 'w', '/r', 1767323045678, 'ended', '{json.dumps(body)}')")
    before = database.sql(columns)
    home.ok("stop")
    home.ok("store", "migrate", "--down", "2")
    home.ok("store", "migrate")
    assert database.sql(columns) == before


def test_a_store_that_is_newer_is_left_alone(home, database):
    use(home, database.url())
    home.ok("store", "migrate")
    database.sql("INSERT INTO afloat.migrations VALUES (99, 'future')")
    done = home.cli("hub")
    assert done.returncode == 1 and "schema 99" in done.stderr
    assert home.cli("store", "migrate").returncode == 7


def test_errors_are_clear_and_keep_the_password(home):
    use(home, "postgresql://me:hush-hush@127.0.0.1:1/x")
    done = home.cli("store", "status")
    assert done.returncode != 0 and "cannot reach the store" in done.stderr and "hush" not in done.stderr
    assert "refused; Is the server running" in done.stderr
    use(home, "mysql://me:hush-hush@x/y")
    done = home.cli("store", "status")
    assert done.returncode != 0 and "postgresql://" in done.stderr and "hush" not in done.stderr


def test_a_home_moves_into_postgresql_and_back_without_loss(home, database, work, tmp_path):
    some_sessions(home, work, 4)
    before = everything(home)
    out, back = tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    n = home.json("store", "export", str(out))
    assert n["sessions"] == 4 and n["documents"] == 1 and n["events"] == sum(len(e) for e in before[1].values())
    assert home.cli("store", "export", str(out)).returncode != 0, "a file is not written over"
    use(home, database.url())
    assert home.cli("store", "import", str(out)).returncode != 0, "no schema yet"
    home.ok("store", "migrate")
    assert home.json("store", "import", str(out)) == {**n, "skipped": 0}
    assert home.json("store", "import", str(out)) == {**n, "skipped": 4}, "once more changes nothing"
    assert everything(home) == before
    assert home.json("store", "export", str(back)) == n
    assert sorted(out.read_text().splitlines()) == sorted(back.read_text().splitlines())
    # and into the files of another home
    use(home, None)
    for path in (home.dir / "sessions").iterdir():
        subprocess.run(["rm", "-r", str(path)], check=True)
    (home.dir / "choices.json").unlink()
    assert home.json("store", "import", str(back)) == {**n, "skipped": 0}
    assert everything(home) == before
    assert "0 faults" in home.ok("fsck")


def test_an_export_does_not_leave_out_a_session_whose_metadata_is_lost(home, work, tmp_path):
    ids = some_sessions(home, work, 2)
    (home.dir / "sessions" / ids[0] / "metadata.json").unlink()
    out = tmp_path / "out.jsonl"
    done = home.cli("store", "export", str(out))
    assert done.returncode != 0 and ids[0] in done.stderr and "afloat fsck --repair" in done.stderr
    assert not out.exists()
    home.ok("fsck", "--repair")
    assert home.json("store", "export", str(out))["sessions"] == 2


def test_events_that_came_before_the_partition_of_their_month_keep_no_hub_from_starting(home, database, work, tmp_path):
    some_sessions(home, work, 1)
    before = everything(home)
    home.ok("store", "export", str(tmp_path / "out.jsonl"))
    use(home, database.url())
    home.ok("store", "migrate")
    month = database.sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')")
    database.sql(f"DROP TABLE afloat.events_{month}")  # as when the last hub ran two months ago
    home.ok("store", "import", str(tmp_path / "out.jsonl"))
    assert int(database.sql("SELECT count(*) FROM afloat.events_other")) > 0
    assert everything(home) == before
    assert database.sql("SELECT count(*) FROM afloat.events_other") == "0"


def test_an_import_that_is_cut_short_goes_on_and_a_file_that_is_not_whole_is_refused(home, database, work, tmp_path):
    some_sessions(home, work, 3)
    out, cut = tmp_path / "out.jsonl", tmp_path / "cut.jsonl"
    home.ok("store", "export", str(out))
    lines = out.read_text().splitlines(keepends=True)
    use(home, database.url())
    home.ok("store", "migrate")
    cut.write_text("".join(lines[:len(lines) // 2]))
    done = home.cli("store", "import", str(cut))
    assert done.returncode == 1 and "the file ends" in done.stderr or "not whole" in done.stderr
    n = home.json("store", "import", str(out))
    assert n["sessions"] == 3 and n["skipped"] >= 1
    # one that differs is not written over
    database.sql("UPDATE afloat.events SET fields = '\"x\":1' WHERE seq = 2 AND session ="
                 " (SELECT min(id) FROM afloat.sessions)")
    done = home.cli("store", "import", str(out))
    assert done.returncode == 7 and "differs" in done.stderr
    assert home.cli("store", "import", str(tmp_path / "config.toml")).returncode != 0


def test_files_are_not_moved_while_their_hub_runs(home, hub, tmp_path):
    done = home.cli("store", "export", str(tmp_path / "x"))
    assert done.returncode == 7 and "in use" in done.stderr


# ---- what a write costs -------------------------------------------------------------------------

def test_what_the_end_of_an_answer_writes_is_one_commit(home, database, work):
    use(home, database.url())
    hub = Hub(home)
    s = Session(home, work, [{"text": "done"}])
    s.ask()
    hub.close()
    rows = database.sql(f"SELECT type, xmin FROM afloat.events WHERE session = '{s.id}' ORDER BY seq")
    commits = dict(line.split("|") for line in rows.splitlines())  # the last of each type
    assert commits["usage.updated"] == commits["message.completed"] != commits["turn.completed"], rows


def test_the_doorbell_rings_for_other_hubs_and_not_for_a_hub_alone(home, database):
    use(home, database.url())
    home.ok("store", "migrate")
    append = """SELECT format('LISTEN %s', afloat.channel()) \\gexec
        SELECT first_id FROM afloat.emit('a', 0, 1, '{""}', '{user.x}', '{""}');"""
    database.sql("SELECT afloat.hub_start('a', 'a', '{}', '', 3600)")
    assert database.sql(append) == "1"
    database.sql("SELECT afloat.hub_start('b', 'b', '{}', '', 3600)")
    first, _, told = database.sql(append.replace("0, 1", "1, 2")).partition("\n")
    assert first == "2" and told.startswith("Asynchronous notification") and 'with payload "2"' in told
    database.sql("SELECT afloat.hub_stop('b', 1)")
    assert database.sql(append.replace("0, 1", "2, 3")) == "3"


# ---- plans --------------------------------------------------------------------------------------

def plans(node):
    yield node
    for child in node.get("Plans", []):
        yield from plans(child)


def test_lists_pages_and_pruning_read_no_table_from_end_to_end(home, database):
    """With a table that is large enough for the planner to care."""
    use(home, database.url())
    home.ok("store", "migrate")
    database.sql("""
        INSERT INTO afloat.sessions (id, dir, kind, state, title, meta, started_at, updated_at, token, last_seq)
            SELECT 's' || i, 'sessions/s' || i, CASE WHEN i % 10 = 0 THEN 'task:s1' ELSE 'session' END,
                CASE WHEN i % 100 = 0 THEN 'running' ELSE 'idle' END, '', '{}', i, i, '', 20
            FROM generate_series(1, 5000) AS i;
        INSERT INTO afloat.events (id, session, seq, ts, type, fields, hub, token)
            SELECT i, 's' || i / 20, i % 20 + 1, afloat.now_ms() - i, 'message.delta', '"text":"x"', 'a', 0
            FROM generate_series(1, 100000) AS i;
        ANALYZE afloat.sessions; ANALYZE afloat.events""")
    source = open(os.path.join(os.path.dirname(__file__), "../../src/store/pg_store.c")).read()
    listing = "".join(re.findall(r'"(.*?)"', source[source.index("#define LIST"):source.index("#define ORDER")]))
    row = "id, dir, kind, state, title, meta, started_at, updated_at, last_seq, coalesce(hub, '')"
    listing = listing.replace("SELECT ", f"SELECT {row}", 1)
    order = " ORDER BY started_at DESC, id DESC LIMIT 101"
    base = (listing.replace("$1::bigint", "9e15::bigint").replace("$2::text", "''").replace("$3::boolean", "false")
            .replace("$4::text", "NULL::text").replace("= $4", "= 'a'"))
    every, some = base.replace("$5::text", "NULL::text").replace("= $5", "= ''"), base.replace(
        "($5::text IS NULL OR state = $5)", "state = 'running'")
    questions = [every + order, some + order,
                 f"SELECT {row} FROM afloat.sessions WHERE owner = current_user AND id = 's77' AND starts_with(dir, 'sessions')",
                 every + " AND kind = 'task:s1'" + order,
                 every + " AND dir >= 'sessions/s77' AND dir < 'sessions/s77' || chr(1114111)" + order,
                 "SELECT * FROM afloat.events WHERE owner = current_user AND session = 's7' AND seq > 3"
                 " ORDER BY seq LIMIT 256",
                 "SELECT * FROM afloat.events WHERE owner = current_user AND id > 99000 ORDER BY id LIMIT 1000",
                 "DELETE FROM afloat.events WHERE owner = current_user AND session = 's9'",
                 "DELETE FROM afloat.events WHERE owner = current_user AND seq IS NULL AND ts < 1000",
                 "SELECT id FROM afloat.sessions WHERE owner = current_user AND updated_at < 10 AND hub IS NULL"]
    for q in questions:
        plan = json.loads(database.sql(f"EXPLAIN (FORMAT JSON) {q}"))[0]["Plan"]
        scans = [n for n in plans(plan) if n["Node Type"] == "Seq Scan" and n.get("Relation Name") in
                 ("sessions", database.sql("SELECT 'events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')"))]
        assert not scans, (q, scans)


def test_a_claim_reads_no_more_when_more_runs_are_at_work(home, database):
    """Counted in pages. The hubs that hold the runs live; there are always 1,000 that wait, of 10 projects."""
    use(home, database.url())
    home.ok("store", "migrate")
    database.sql("SELECT afloat.hub_start('a', 'a', '{}', '', 3600); SELECT afloat.hub_start('b', 'b', '{}', '', 3600)")

    def pages(at_work):
        database.sql(f"""DELETE FROM afloat.runs;
            INSERT INTO afloat.runs (id, project, bot, state, hub, hub_epoch, body)
                SELECT 'w' || i, 'p' || i % 10, 'w', 'running', 'b', 1, '{{}}' FROM generate_series(1, {at_work}) i;
            INSERT INTO afloat.runs (id, project, bot, state, body)
                SELECT 'q' || i, 'p' || i % 10, 'w', 'queued', '{{}}' FROM generate_series(1, 1000) i;
            VACUUM ANALYZE afloat.runs""")
        plan = database.sql("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM afloat.run_claim('a', 1, '{w}', 10)")
        return json.loads(plan)[0]["Plan"]["Shared Hit Blocks"]

    pages(1000)  # what the server reads of its catalogs
    few, many = pages(1000), pages(20000)
    assert many < 1.5 * few, (few, many)


def test_what_is_too_old_is_pruned_and_nothing_else(home, database):
    use(home, database.url())
    home.ok("store", "migrate")
    database.sql("""
        INSERT INTO afloat.sessions (id, dir, kind, state, title, meta, started_at, updated_at, token, last_seq)
            SELECT id, 'sessions/' || id, 'session', state, '', '{}', at, at, '', 1 FROM (VALUES
                ('old', 'idle', afloat.now_ms() - 40 * 86400000::bigint),
                ('busy', 'running', afloat.now_ms() - 40 * 86400000::bigint),
                ('young', 'idle', afloat.now_ms() - 86400000)) AS x(id, state, at);
        INSERT INTO afloat.events (id, session, seq, ts, type, fields, hub, token)
            SELECT row_number() OVER (), id, 1, started_at, 'session.created', '', 'a', 0 FROM afloat.sessions;
        SELECT afloat.prune(30)""")
    assert database.sql("SELECT string_agg(id, ' ' ORDER BY id) FROM afloat.sessions") == "busy young"
    assert database.sql("SELECT count(*) FROM afloat.events") == "2"
    # a month that is over and empty goes
    database.sql("CREATE TABLE afloat.events_202001 PARTITION OF afloat.events FOR VALUES FROM"
                 " (afloat.month_ms('2020-01-01')) TO (afloat.month_ms('2020-02-01')); SELECT afloat.prune(30)")
    assert database.sql("SELECT to_regclass('afloat.events_202001') IS NULL") == "t"
    assert database.sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'afloat.events'::regclass") == "3"
