"""Clients that change the same few plugins and improvements at once, against one hub.

Each client draws its next call from a generator with a seed of its own; the run's seed is printed, and
AFLOAT_SEED repeats it. The calls race, so any of the usual answers is right. What must hold: the hub
lives (the sanitizers watch it), no answer is its own failure, and afterwards it still takes a save.
"""
import collections
import json
import os
import random
import threading

from conftest import LOOPS, draw_seed, retry

OPERATIONS = 2000 if LOOPS == 1 else 5000 * LOOPS
CLIENTS = 4
NAMES = [f"p{i}" for i in range(5)]
ANSWERS = {200, 201, 204, 400, 404, 409}  # 500 and above: the hub failed


def code(rng):
    """Some version of a plugin: mostly sound, now and then broken, failing or slow to go."""
    kind, value = rng.random(), rng.randrange(1000)
    if kind < 0.1:
        return "this is not Lua"
    if kind < 0.2:
        return f"error('no {value}')"
    return (f"route('GET', '/v', function() return {{v = {value}}} end)\n"
            f"tool {{ name = 't{value % 7}', description = 'd', input = {{}}, run = function() return '{value}' end }}\n"
            f"on('plugin_shutdown', function() {'timer.sleep(0.01)' if kind > 0.9 else ''} end)\n")


def improvement_code(rng):
    """The same; one that hangs holds up a reload for its half second, so there are few."""
    return rng.choices(["log.info('x')", "no Lua", "while true do end"], [16, 6, 1])[0]


class Client(threading.Thread):
    """Makes its share of the calls and counts their answers; a lost hub ends it."""

    def __init__(self, home, seed, count):
        super().__init__()
        self.home, self.rng, self.count = home, random.Random(seed), count
        self.seen, self.failed = collections.Counter(), []

    def call(self, method, path, body=None):
        answer = self.home.http(method, path, json.dumps(body).encode() if body is not None else b"")
        self.seen[answer.status] += 1
        if answer.status not in ANSWERS:
            self.failed.append((method, path, answer.status, answer.body[:500]))

    def touch(self, path, text):
        """A file that another program writes or removes; both can lose a race with the hub."""
        try:
            if text is None:
                path.unlink()
            else:
                beside = path.with_name(f".{path.name}.{self.name}")
                beside.write_text(text)
                os.rename(beside, path)
        except FileNotFoundError:
            pass

    def step(self):
        rng = self.rng
        name = rng.choice(NAMES)
        improvement = self.home.dir / "lua/improvements" / f"i{rng.randrange(3)}.lua"
        dry = rng.random() < 0.3
        steps = [
            (5, lambda: self.call("POST", "/plugin/save", {"name": name, "content": code(rng)})),
            (4, lambda: self.call("DELETE", f"/plugin/{name}")),
            (4, lambda: self.touch(self.home.dir / "plugins" / f"{name}.lua", code(rng))),
            (3, lambda: self.touch(self.home.dir / "plugins" / f"{name}.lua", None)),
            (3, lambda: self.call("POST", f"/plugin/{name}/{rng.choice(('enable', 'disable'))}")),
            (3, lambda: self.call("POST", "/reload", {"dry_run": dry, "force": rng.random() < 0.3})),
            (2, lambda: self.call("POST", f"/plugin/{name}/reload")),
            (2, lambda: self.call("POST", "/generations/undo", {})),
            (4, lambda: self.touch(improvement, improvement_code(rng))),
            (4, lambda: self.touch(improvement, None)),
            (1, lambda: self.call("DELETE", f"/plugin/improvements%2F{improvement.stem}")),
            (4, lambda: self.call("GET", "/plugin/list")),
            (4, lambda: self.call("GET", f"/plugin/{name}")),
            (2, lambda: self.call("GET", "/generations")),
            (2, lambda: self.call("GET", f"/plugin/{name}/logs")),
        ]
        rng.choices([s for _, s in steps], [w for w, _ in steps])[0]()

    def run(self):
        for _ in range(self.count):
            try:
                self.step()
            except (OSError, IndexError):  # the hub is gone: the fixture says how it ended
                self.failed.append("the hub does not answer")
                return


def test_racing_clients_leave_a_hub_that_lives(home, hub):
    seed = draw_seed()
    print(f"operations={OPERATIONS}")
    for sub in ("plugins", "lua/improvements"):
        (home.dir / sub).mkdir(parents=True, exist_ok=True)
    clients = [Client(home, seed + i, OPERATIONS // CLIENTS) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    assert hub.process.poll() is None, f"seed {seed}: the hub ended with {hub.process.returncode}"
    assert [f for c in clients for f in c.failed] == [], f"seed {seed}"
    assert sum((c.seen for c in clients), collections.Counter())[200] > OPERATIONS // 4
    body = json.dumps({"name": "last", "content": "route('GET', '/v', function() return {v = 1} end)"})
    assert home.http("POST", "/plugin/save", body.encode()).status == 200
    assert retry(lambda: home.http("GET", "/api/plugins/last/v").status == 200)
