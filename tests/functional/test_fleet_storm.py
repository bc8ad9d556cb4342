"""Five hubs on one PostgreSQL while hubs are killed and stopped, the server restarts or crashes, connections break and the network is slow, all at random.

The server itself keeps the history: triggers note who held each run and session under which epoch, and who wrote
each event. From that, from what was acknowledged and from a ledger that the tools write outside of all worktrees:
nothing acknowledged is lost, nothing is there twice, no call ran twice, and no two hubs held one lease.

30 rounds in `make test`, 1,000 in `make soak` (AFLOAT_LOOPS=20)."""
import collections
import itertools
import json
import os
import random
import select
import signal
import threading
import time

import pytest

from bots import DONE, FILES, Repo, Rig, call, shell
from conftest import LOOPS, draw_seed, retry
from team_rig import LEASE_S, Proxy, Reader, Team
from test_many_hubs import check_history

ROUNDS = 30 if LOOPS == 1 else 50 * LOOPS
CRASHES = 8 * LOOPS
NAMES = ["anvil", "bellows", "crucible", "dies", "ember"]
STEPS = 3

HISTORY = """
    CREATE TABLE holds (what text, id text, epoch bigint, hub text, n bigserial);
    CREATE FUNCTION note_hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.hub IS NOT NULL THEN
            INSERT INTO holds (what, id, epoch, hub) VALUES (TG_TABLE_NAME, NEW.id, NEW.epoch, NEW.hub);
        END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE OF hub, epoch ON afloat.runs FOR EACH ROW EXECUTE FUNCTION note_hold();
    CREATE TRIGGER note AFTER INSERT OR UPDATE OF hub, epoch ON afloat.sessions FOR EACH ROW EXECUTE FUNCTION note_hold();
    CREATE TABLE writes (session text, seq bigint, hub text, held_by text, epoch bigint);
    CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO writes SELECT NEW.session, NEW.seq, NEW.hub, s.hub, s.epoch FROM afloat.sessions s WHERE s.id = NEW.session;
        RETURN NULL; END $$;
    CREATE TRIGGER note AFTER INSERT ON afloat.events FOR EACH ROW WHEN (NEW.seq IS NOT NULL) EXECUTE FUNCTION note_write();
"""


class Storm:
    """The hubs, each behind a proxy of its own; who works on them; and the faults."""

    def __init__(self, database, postgres, tmp_path, dice):
        self.database, self.postgres, self.dice = database, postgres, dice
        self.team = Team(database)
        self.repo = Repo(tmp_path / "repo", FILES)
        self.repo.git("init", "-q", "--bare", str(tmp_path / "far.git"))
        self.repo.git("remote", "add", "far", str(tmp_path / "far.git"))
        self.repo.git("push", "-q", "far", "main")
        self.ledger = tmp_path / "ledger"
        self.scratch = tmp_path
        self.proxies, self.rigs = {}, {}
        self.away = {}  # hubs that cannot work now: {name: (when it ends, what ends it)}
        self.kinds = [self.kill, self.pause, self.part, self.cut, self.slow, self.restart, self.crash]
        self.made = collections.Counter()  # faults by kind
        self.acknowledged, self.said, self.runs = [], [], []
        self.numbers, self.stop = itertools.count(), threading.Event()
        self.emitters = []
        for name in NAMES:
            self.proxies[name] = Proxy(database)
            self.rigs[name] = Rig(self.team.home(name, url=self.proxies[name].url), self.repo, tmp_path)
            self.rigs[name].bot(keys='sleep_secs = 0\nsandbox = "danger-full-access"\n[worktree]\nremote = "far"\n')
        for name in NAMES:
            self.team.start(name)
            if name == NAMES[0]:  # its hub made the schema
                database.sql(HISTORY)
            self.emit(name)
        self.talk = self.answered(lambda: self.post(NAMES[0], "/session", {"working_dir": str(tmp_path)}), 201)["id"]

    # ---- work ---------------------------------------------------------------------------------------

    def post(self, name, path, body):
        """The answer of a hub; None when it is not there."""
        try:
            return self.rigs[name].home.http("POST", path, json.dumps(body).encode())
        except (OSError, IndexError, ValueError):
            return None

    def answered(self, ask, status):
        return retry(lambda: (a := ask()) and a.status == status and a.json(), 60)

    def live(self):
        return [n for n in NAMES if n not in self.away]

    def emit(self, name):
        """Events on a hub, one after the other, until it is gone."""
        def emitter():
            for n in self.numbers:
                answer = self.post(name, "/events", {"type": "user.n", "data": {"n": n}})
                if answer is None or self.stop.wait(0.1):
                    return
                if answer.status == 201:
                    self.acknowledged.append(answer.json()["id"])
        self.emitters.append(threading.Thread(target=emitter))
        self.emitters[-1].start()

    def run(self, number):
        """A run whose every step writes into the ledger, on any hub that is there."""
        scenes = [*(shell(f"echo {number} {i} >> {self.ledger}; echo {i} >> steps.txt; sleep 0.1") for i in range(STEPS)), *DONE]
        env = self.rigs[NAMES[0]].env(scenes)
        body = {"working_dir": str(self.repo.root), "env": env, "prompt": "go"}

        def start():
            self.busy = self.dice.choice(self.live())
            return self.post(self.busy, "/bots/worker/runs", body)
        self.runs.append(self.answered(start, 201)["run_id"])

    def say(self, number):
        """A message to the one session that all hubs work on; another hub may have it just now."""
        env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted"}
        answer = self.post(self.dice.choice(self.live()), f"/session/{self.talk}/message", {"text": f"say {number}.", "env": env})
        if answer is not None and answer.status == 202:
            self.said.append(f"say {number}.")

    # ---- faults -------------------------------------------------------------------------------------

    def leave(self, name, seconds, end):
        self.away[name] = (time.monotonic() + seconds, end)

    def come_back(self, all=False):
        for name, (when, end) in list(self.away.items()):
            if all or when <= time.monotonic():
                del self.away[name]
                end()

    def kill(self, name):
        def end():
            self.team.start(name)
            self.emit(name)
        self.team.kill(name)
        self.leave(name, self.dice.choice([0, LEASE_S + 1]), end)

    def pause(self, name):
        hub = self.team.hubs[name].process
        hub.send_signal(signal.SIGSTOP)
        self.leave(name, self.dice.choice([0.3, LEASE_S + 1]), lambda: hub.send_signal(signal.SIGCONT))

    def part(self, name):
        """The hub lives and cannot reach the server."""
        proxy = self.proxies[name]
        proxy.refusing = True
        proxy.cut()
        self.leave(name, self.dice.choice([0.3, LEASE_S + 1]), lambda: setattr(proxy, "refusing", False))

    def cut(self, name):
        assert sum(p.cut() for p in self.proxies.values()) > 0

    def slow(self, name):
        proxy = self.proxies[name]
        proxy.delay = self.dice.uniform(0.005, 0.05)
        self.leave(name, 1.0, lambda: setattr(proxy, "delay", 0.0))

    def restart(self, name):
        self.postgres.stop()
        self.postgres.start()

    def crash(self, name):
        """The server forgets what it has committed without waiting for its disk (`afloat.hurry()`)."""
        if self.dice.random() < 0.5:
            self.postgres.stop(signal.SIGQUIT)
        else:
            self.postgres.kill()
        self.postgres.start()

    def fault(self, round):
        if round % len(self.kinds) == 0:
            self.order = self.dice.sample(self.kinds, len(self.kinds))  # each kind as often as the others
        kind = self.order[round % len(self.kinds)]
        busy = self.busy in self.live() and self.dice.random() < 0.7  # the hub that has just begun a run
        kind(self.busy if busy else self.dice.choice(self.live()))
        self.made[kind.__name__] += 1

    def round(self, number):
        self.come_back()
        retry(lambda: self.come_back() or len(self.away) < 3)  # three of five work at any time
        self.run(number)
        self.say(number)
        select.select([], [], [], self.dice.uniform(0, 0.4))  # the moment, at random
        self.fault(number)
        before = len(self.acknowledged)
        retry(lambda: self.come_back() or len(self.acknowledged) > before + 3)

    # ---- what must be true --------------------------------------------------------------------------

    def settle(self):
        """All faults end, and so does all work."""
        self.come_back(all=True)
        hub = self.rigs[NAMES[0]].home
        retry(lambda: all(r["state"] == "ended" for r in call(hub, "GET", "/runs?limit=1000")["runs"]), 120)
        retry(lambda: call(hub, "GET", f"/session/{self.talk}")["state"] == "idle", 60)

    def rows(self, sql):
        return [json.loads(x) for x in self.database.sql(f"SELECT to_json(x) FROM ({sql}) x").splitlines()]

    def check(self):
        written = {r["id"] for r in check_history(self.database)}
        assert len(set(self.acknowledged)) == len(self.acknowledged) and set(self.acknowledged) <= written
        numbers = self.database.sql("SELECT fields FROM afloat.events WHERE type = 'user.n'").splitlines()
        assert len(numbers) == len(set(numbers)) >= len(self.acknowledged), "an event was written twice"
        two = self.rows("SELECT what, id, epoch, array_agg(DISTINCT hub) AS hubs FROM holds GROUP BY 1, 2, 3 HAVING count(DISTINCT hub) > 1")
        assert two == [], "two hubs held one lease"
        not_held = self.rows("SELECT * FROM writes WHERE held_by IS NOT NULL AND held_by <> hub")
        assert not_held == [], "a hub wrote what another one held"
        back = self.rows("SELECT * FROM (SELECT *, lag(epoch) OVER (PARTITION BY session ORDER BY seq) AS before FROM writes) w WHERE epoch < before")
        assert back == [], "a write under an epoch that was over"
        self.check_said()
        return self.check_runs()

    def check_said(self):
        log = self.rows(f"SELECT fields FROM afloat.events WHERE session = '{self.talk}' AND type = 'message.completed' ORDER BY seq")
        heard = [m["text"] for m in (json.loads("{" + r["fields"] + "}") for r in log) if m["role"] == "user"]
        assert len(heard) == len(set(heard)) and set(self.said) <= set(heard), "a message that was taken is lost, or there twice"

    def check_runs(self):
        """How many runs moved to another hub."""
        records = {r["id"]: json.loads(r["body"]) for r in self.rows("SELECT id, body FROM afloat.runs")}
        assert set(self.runs) <= set(records)
        steps = self.ledger.read_text().splitlines()
        assert len(steps) == len(set(steps)), "a step ran twice"
        calls = collections.defaultdict(list)
        for r in self.rows("SELECT session, type, fields FROM afloat.events WHERE type IN ('tool.called', 'tool.completed') ORDER BY session, seq"):
            calls[r["session"]].append((r["type"], json.loads("{" + r["fields"] + "}")))
        done = 0
        for record in records.values():
            was_over = False  # it said that it is done, and its hub was lost before that was written down
            for it in record["iterations"]:
                called = [f["call_id"] for t, f in calls[it["session_id"]] if t == "tool.called"]
                ended = [f for t, f in calls[it["session_id"]] if t == "tool.completed"]
                assert len(called) == len(set(called)) and sorted(called) == sorted(f["call_id"] for f in ended), (called, ended)
                done += sum(f["tool"] == "shell" and f["success"] for f in ended)
                was_over |= it["end_reason"] == "crashed" and any(f["tool"] == "session_complete" for f in ended)
            assert record["end_reason"] == "complete" or (record["end_reason"] == "limit" and was_over), json.dumps(record)
        assert done <= len(steps), "a step that succeeded is not in the ledger"
        return int(self.database.sql("SELECT count(DISTINCT id) FROM holds WHERE what = 'runs' AND epoch > 1"))

    def check_reader(self):
        """A hub gives all that came behind an id to whoever asks for it."""
        first, last = min(self.acknowledged), max(self.acknowledged)
        reader = Reader(self.rigs[NAMES[-1]].home, "/events?types=user.*", last=first - 1)
        reader.wait_for(lambda e: e[0] >= last, 120)
        got = [e[0] for e in reader.events]
        assert got == sorted(set(got)) and set(self.acknowledged) <= set(got)
        reader.close()

    def close(self):
        self.stop.set()
        for hub in self.team.hubs.values():
            if hub.process.poll() is None:
                hub.process.send_signal(signal.SIGCONT)
        for t in self.emitters:
            t.join(60)
        for name in list(self.team.hubs):
            self.team.hubs.pop(name).close()
        for proxy in self.proxies.values():
            proxy.close()
        self.team.close()


@pytest.fixture
def storm(database, postgres, tmp_path):
    seed = draw_seed()
    s = Storm(database, postgres, tmp_path, random.Random(seed))
    yield s
    for name, home in s.team.homes.items():  # shown when the test failed
        print(name, *home.log.read_text().splitlines()[-20:], sep="\n")
    s.close()


def rage(storm, rounds, record_property):
    """So many rounds, then the check; how many runs moved to another hub."""
    for number in range(rounds):
        storm.round(number)
        print(f"round {number}: {dict(storm.made)}")
    storm.settle()
    storm.stop.set()
    moved = storm.check()
    storm.check_reader()
    assert set(storm.made) == {k.__name__ for k in storm.kinds} and storm.made.total() == rounds and len(storm.said) > rounds // 4
    record_property("counted", f"{rounds} rounds, faults {dict(storm.made)}, {len(storm.runs)} runs of which {moved} moved, "
                    f"{len(storm.acknowledged)} events and {len(storm.said)} messages acknowledged")
    return moved


def test_five_hubs_lose_double_and_repeat_nothing_whatever_breaks(storm, record_property):
    assert rage(storm, ROUNDS, record_property) > 0


def test_a_server_that_crashes_again_and_again_loses_nothing(storm, record_property):
    storm.kinds = [storm.crash]
    rage(storm, CRASHES, record_property)
