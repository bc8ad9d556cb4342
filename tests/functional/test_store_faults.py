"""A store in PostgreSQL under faults: a slow network, a server without room, TLS, a day with many events."""
import concurrent.futures
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import subprocess

import pytest

import pg_rig
from conftest import LOOPS, free_port, read_line, retry
from team_rig import Proxy, Reader, Team
from test_agent import Session, call
from test_bots import full
from test_many_hubs import check_history, team, work  # noqa: F401 (fixtures)


def test_a_slow_network_costs_time_and_nothing_else(team, database, work):
    proxy = Proxy(database)
    team.url = proxy.url
    a, b = team.start("a", "b")
    proxy.delay = 0.04
    reader = Reader(b, "/events?types=user.*", last=0)
    s = Session(a, work, [{"text": " ".join(f"w{i}" for i in range(50)), "delta_ms": 2}])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = pool.submit(s.ask, "go")
        ids = list(pool.map(lambda n: call((a, b)[n % 2], "POST", "/events", {"type": "user.n", "data": {"n": n}},
                                           201)["id"], range(40)))
    assert asked.result()["text"] == " ".join(f"w{i}" for i in range(50))
    assert len(set(ids)) == 40
    reader.wait_for(lambda e: e[0] == max(ids))
    assert [e[0] for e in reader.events] == sorted(ids)
    assert "store=lost" not in a.log.read_text() + b.log.read_text()
    check_history(database)
    reader.close()
    for name in list(team.hubs):
        team.hubs.pop(name).close()
    proxy.close()


FULL = """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file: No space left on device'; END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON afloat.events FOR EACH ROW EXECUTE FUNCTION full_disk()"""


def test_a_server_without_room_refuses_and_goes_on_when_there_is_room(team, database, work):
    """The server says it as it does with a full disk (53100); this one needs no mounts."""
    a = team.start("a")
    s = Session(a, work, [{"text": "one"}, {"text": "two"}])
    assert s.ask("first")["text"] == "one"
    retry(lambda: s.events()[-1].get("state") == "idle")
    before = s.events()
    database.sql(FULL)
    answer = a.http("POST", f"/session/{s.id}/message", json.dumps({"text": "second", "wait": True}).encode())
    assert answer.status >= 500 and "No space left on device" in answer.json()["detail"], answer.body
    refused = a.http("POST", "/events", json.dumps({"type": "user.x"}).encode())
    assert refused.status >= 500, refused.body
    assert s.events() == before, "what was refused is not there"
    assert call(a, "GET", f"/session/{s.id}")["state"] == "idle"
    database.sql("DROP TRIGGER full_disk ON afloat.events")
    assert retry(lambda: s.ask("second")["text"]) == "two"
    assert [e["text"] for e in s.events("message.completed") if e["role"] == "user"] == ["first", "second"]
    check_history(database)


class SmallDisk(pg_rig.Server):
    """A server whose data lie on a small file system of their own, in a mount namespace that a sleeping process keeps."""
    wal_mb = 1

    def prepare(self):
        user = self.user or pwd.getpwuid(os.getuid())
        owner = f"uid={user.pw_uid},gid={user.pw_gid}" if self.user else "uid=0,gid=0"
        script = f'mkdir "$0" && mount -t tmpfs -o size=80m,mode=700,{owner} none "$0" && echo ready && exec sleep infinity'
        self.keeper = subprocess.Popen(["unshare", "-m" if self.user else "-rm", "sh", "-c", script, str(self.dir / "data")],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        if read_line(self.keeper.stdout) != "ready":
            why = self.keeper.communicate()[1].decode()
            shutil.rmtree(self.dir)
            pytest.skip("no disk can be filled, since there are no mounts of our own here: " + why)
        enter = ["nsenter", "-t", str(self.keeper.pid), "-m"]
        self.apart = [*enter, "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"] if self.user else [
            *enter, "-U", "--preserve-credentials", "unshare", "-U", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}"]
        self.disk = pathlib.Path(f"/proc/{self.keeper.pid}/root{self.dir / 'data'}")

    def close(self):
        if self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        self.keeper.kill()
        self.keeper.communicate()
        shutil.rmtree(self.dir)


def test_a_disk_of_the_server_that_is_really_full_costs_nothing_that_was_acknowledged(work, record_property):
    """The server refuses while it has room for its log, and crashes when it has none."""
    server = SmallDisk(min_wal_size="2MB", max_wal_size="3MB")
    team = Team(server.database())
    try:
        a = team.start("a")
        s = Session(a, work, [{"text": f"{n}"} for n in range(100)])
        assert s.ask("first")["text"] == "0"
        acknowledged, refused, asked = [], [], ["first"]

        def pad():
            """Text for which the server needs new pages: what is small may fit into those it has."""
            return random.randbytes(20000).hex()

        def emit(n):
            answer = a.http("POST", "/events", json.dumps({"type": "user.n", "data": {"n": n, "pad": pad()}}).encode())
            if answer.status == 201:
                acknowledged.append(answer.json()["id"])
            else:
                refused.append((answer.status, answer.json()["detail"]))

        emit(0)
        with full(server.disk / "filler"):
            for n in range(1, 60):
                emit(n)
            while len(asked) < 60:
                text = pad()
                answer = a.http("POST", f"/session/{s.id}/message", json.dumps({"text": text, "wait": True}).encode())
                if answer.status != 200:
                    break
                asked.append(text)
            assert answer.status >= 500, answer.body
            assert call(a, "GET", "/healthz")["ok"], "the hub lives"
        assert refused and all(status >= 500 for status, _ in refused), (refused, len(acknowledged))
        crashed = server.process.poll() is not None
        if crashed:
            server.start()
        assert retry(lambda: a.http("POST", "/events", b'{"type": "user.after"}').status == 201)
        assert retry(lambda: s.ask("last")["text"]) == str(len(asked))
        assert [e["text"] for e in s.events("message.completed") if e["role"] == "user"] == [*asked, "last"]
        rows = check_history(team.database)
        assert set(acknowledged) <= {r["id"] for r in rows}
        numbers = team.database.sql("SELECT ('{' || fields || '}')::json -> 'data' ->> 'n' FROM afloat.events WHERE type = 'user.n'").split()
        assert len(numbers) == len(set(numbers)), "an event was written twice"
        assert len(numbers) == len(acknowledged) or crashed, "what was refused is not there"
        record_property("counted", f"{len(acknowledged)} events acknowledged, {len(refused)} refused: {refused[-1][1]}; "
                        f"the server {'crashed' if crashed else 'lived on'}")
    finally:
        team.close()
        server.close()


# ---- TLS ----------------------------------------------------------------------------------------

def openssl(dir, *args):
    subprocess.run(["openssl", *args], cwd=dir, check=True, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def authority(tmp_path):
    """An authority of our own, another one, and a certificate of the first for the name `localhost`."""
    for name in ("ca", "other"):
        openssl(tmp_path, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.crt")
    openssl(tmp_path, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key",
            "-out", "server.csr")
    (tmp_path / "ext").write_text("subjectAltName=DNS:localhost\n")
    openssl(tmp_path, "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "ext", "-out", "server.crt")
    return tmp_path


def test_tls_takes_the_right_server_only(home, authority, start_hub):
    with free_port() as port:
        server = pg_rig.Server(port=str(port))
        try:
            check_tls(server, port, home, authority, start_hub)
        finally:
            server.close()


def check_tls(server, port, home, authority, start_hub):
    for name in ("server.crt", "server.key"):
        path = server.dir / "data" / name
        path.write_bytes((authority / name).read_bytes())
        path.chmod(0o600)
        if server.user:
            os.chown(path, server.user.pw_uid, server.user.pw_gid)
    server.run("psql", "-h", str(server.dir), "-p", str(port), "-U", "boss", "-d", "postgres", "-c",
               "CREATE DATABASE team TEMPLATE template0", "-c", "CREATE ROLE pw LOGIN PASSWORD 'other'")
    server.stop()
    rules = server.dir / "data" / "pg_hba.conf"
    rules.write_text("host all pw all scram-sha-256\n" + rules.read_text())
    server.settings.update(ssl="on", listen_addresses="127.0.0.1")
    server.start()

    def use(host, ca):
        (home.dir / "config.toml").write_text(
            f'[store]\nurl = "postgresql://boss@{host}:{port}/team?sslmode=verify-full&sslrootcert={authority / ca}"\n')

    use("127.0.0.1", "ca.crt")
    done = home.cli("hub")
    assert done.returncode == 1 and 'does not match host name "127.0.0.1"' in done.stderr, done.stderr
    use("localhost", "other.crt")
    done = home.cli("hub")
    assert done.returncode == 1 and "certificate verify failed" in done.stderr, done.stderr
    assert "cannot reach the store" in done.stderr and "sslrootcert=FILE" in done.stderr
    (home.dir / "config.toml").write_text(f'[store]\nurl = "postgresql://pw:hush-hush@127.0.0.1:{port}/team"\n')
    done = home.cli("hub")  # tried with TLS, then without
    assert done.returncode == 1 and "hush" not in done.stderr, done.stderr
    assert done.stderr.count("password authentication failed") == 1 and "[store] url right?" in done.stderr, done.stderr
    use("localhost", "ca.crt")
    start_hub()
    assert call(home, "GET", "/store")["kind"] == "postgresql"
    said = server.run("psql", "-h", str(server.dir), "-p", str(port), "-U", "boss", "-d", "postgres", "-Atc",
                      "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                      " WHERE datname = 'team' AND client_addr IS NOT NULL")
    assert said.strip() == "t"
    home.ok("stop")


# ---- many events --------------------------------------------------------------------------------

EVENTS = 1_000_000 if LOOPS >= 20 else 30_000
SESSIONS = EVENTS // 10

BLOCK = 10_000  # events that one statement makes


def make_many(database):
    """Sessions with ten events each."""
    database.sql("INSERT INTO afloat.streams (last) VALUES (0) ON CONFLICT DO NOTHING")
    for first in range(0, SESSIONS, BLOCK // 10):
        database.sql(f"""
            INSERT INTO afloat.sessions (id, dir, kind, state, title, meta, started_at, updated_at, last_seq, token)
                SELECT 's' || i, 'sessions/s' || i, 'session', 'idle', 't' || i, '{{}}', afloat.now_ms() - i,
                    afloat.now_ms() - i, 10, 'x' FROM generate_series({first} + 1, {first} + {BLOCK} / 10) i;
            INSERT INTO afloat.events (id, session, seq, ts, type, fields, hub, token)
                SELECT s.last + i, 's' || {first} + 1 + (i - 1) / 10, 1 + (i - 1) % 10, afloat.now_ms(),
                    'message.delta', '"text":"word"', 'old', 0 FROM generate_series(1, {BLOCK}) i, afloat.streams s;
            UPDATE afloat.streams SET last = last + {BLOCK}""")
    database.sql("ANALYZE")


# rows, not scans: the hub looked into these tables when they were empty, and the server may tell of that late
SCANS = """SELECT coalesce(sum(seq_tup_read), 0), coalesce(sum(idx_scan), 0) FROM pg_stat_user_tables
    WHERE schemaname = 'afloat' AND (relname = 'sessions' OR relname ~ '^events_[0-9]+$') AND n_live_tup > 1000"""


def test_a_day_of_many_events_is_listed_read_and_pruned_by_indexes(team, database, record_property):
    a = team.start("a")
    make_many(database)

    def scans():
        return [int(x) for x in database.sql(SCANS).split("|")]

    def by_index(fn):
        """Run `fn`; the server counts what its statements read (it tells so a moment after they ended)."""
        index = scans()[1]
        got = fn()
        assert retry(lambda: scans()[1] > index)
        assert scans()[0] == none, "a table was read from its beginning to its end"
        return got

    none = scans()[0]
    rows = by_index(lambda: call(a, "GET", "/session?limit=20"))
    assert len(rows["sessions"]) == 20
    page = by_index(lambda: call(a, "GET", f"/session/s{SESSIONS // 2}/events?after=4&limit=4"))
    assert [e["seq"] for e in page["events"]] == [5, 6, 7, 8]
    last = int(database.sql("SELECT last FROM afloat.streams"))
    reader = Reader(a, "/events", last=last - EVENTS // 2)
    by_index(lambda: reader.wait_for(lambda e: e[0] == last - EVENTS // 2 + 50))
    assert [e[0] for e in reader.events[:50]] == list(range(last - EVENTS // 2 + 1, last - EVENTS // 2 + 51))
    reader.close()
    old = 100
    database.sql(f"SET enable_seqscan = off; UPDATE afloat.sessions SET updated_at = updated_at - 30 * 86400000::bigint WHERE id IN "
                 f"(SELECT 's' || i FROM generate_series(1, {old}) i)")
    assert by_index(lambda: database.sql("SELECT afloat.prune(7)")) == str(old)
    team.hubs.pop("a").close()  # a connection tells all that it counted when it ends
    retry(lambda: database.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") == "1")
    assert scans()[0] == none, "a table was read from its beginning to its end"
    assert database.sql("SELECT count(*) FROM afloat.events WHERE session = 's1'") == "0"
    assert database.sql("SELECT count(*) FROM afloat.sessions") == str(SESSIONS - old)
    months = database.sql("SELECT count(*) FROM pg_inherits WHERE inhparent = 'afloat.events'::regclass")
    assert int(months) >= 3, "this month, the next one, and one for all else"
    record_property("counted", f"{EVENTS:,} events in {SESSIONS:,} sessions")
