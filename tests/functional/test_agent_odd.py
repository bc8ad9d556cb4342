"""Everything at odd moments: several people do what they like to a few sessions, in an order that the seed
decides. Whatever they do, the hub answers, nothing is lost, and every session comes to rest."""
import json
import os
import random
import threading
import time

import pytest

from conftest import DEADLINE, retry
from test_agent import call, one_call, plugin, remove_work, work  # noqa: F401

SCENARIO = [
    {"text": "word " * 30, "delta_ms": 2},
    one_call(cmd="echo one; sleep 0.05"),
    {"tool_calls": [{"name": "shell", "input": {"cmd": f"echo {i}; sleep 0.0{i}"}} for i in range(4)]},
    one_call("ask_user", question="what now?"),
    one_call("slow"),
    {"error": {"status": 500, "times": 1}, "text": "after a failure"},
    {"text": "done"},
]

# Handlers that wait, at every point that may.
PLUGIN = """
for _, point in ipairs { "begin", "user_message", "before_model", "after_model", "tool_call", "permission",
                         "resolve_tool", "tool_result", "final", "done", "error", "compact" } do
  on(point, function(ctx) timer.sleep(0.002); ctx.state[point] = (ctx.state[point] or 0) + 1 end)
end
on("done", function(ctx) fs.append("DONE", ctx.session_id .. " " .. ctx.turn_id .. "\\n") end)
prompt { id = "late", text = function(ctx) timer.sleep(0.002) return "late" end }
tool { name = "slow", description = "d", input = {}, run = function(ctx) timer.sleep(0.05) return "slow" end }
"""

FINE = {200, 201, 202, 400, 404, 409, 429}


class Person(threading.Thread):
    """Does `steps` things to sessions that all persons share."""

    def __init__(self, home, dir, ids, seed, steps):
        super().__init__()
        self.home, self.dir, self.ids, self.steps = home, dir, ids, steps
        self.random = random.Random(seed)
        self.bad = []

    def http(self, method, path, body=None):
        answer = self.home.http(method, path, json.dumps(body if body is not None else {}).encode())
        if answer.status not in FINE:
            self.bad.append((method, path, answer.status, answer.body))
        return answer

    def decide(self, id):
        answer = self.http("GET", f"/session/{id}")
        for p in answer.json().get("pending", []) if answer.status == 200 else []:
            if "request_id" in p:
                what = {"decision": self.random.choice(["allow", "deny"]),
                        "remember": self.random.choice(["once", "tool"])}
                self.http("POST", f"/session/{id}/permission/{p['request_id']}", what)
            else:
                self.http("POST", f"/session/{id}/answer/{p['question_id']}", {"answer": "go on"})

    def new(self):
        env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
               "AFLOAT_SCENARIO": str(self.dir / "scenario")}
        made = self.http("POST", "/session", {"working_dir": str(self.dir), "env": env,
                                              "permission": self.random.choice(["auto", "ask"])})
        self.ids.append(made.json()["id"])

    def act(self, id):
        path = f"/session/{id}"
        acts = {
            "message": (8, lambda: self.http("POST", path + "/message", {"text": "go"})),
            "decide": (8, lambda: self.decide(id)),
            "interrupt": (3, lambda: self.http("POST", path + "/interrupt")),
            "steer": (3, lambda: self.http("POST", path + "/steer", {"text": "rather this"})),
            "patch": (2, lambda: self.http("PATCH", path, {"title": "t", "disabled_tools": []})),
            "move": (1, lambda: self.http("PATCH", path, {"working_dir": str(self.dir)})),
            "compact": (1, lambda: self.http("POST", path + "/compact")),
            "fork": (1, lambda: self.ids.append(f.json()["id"])
                     if (f := self.http("POST", path + "/fork")).status == 201 else None),
            "end": (1, lambda: self.http("DELETE", path + self.random.choice(["", "?purge=true"]))),
            "reload": (1, lambda: self.http("POST", "/reload")),
            "look": (1, lambda: self.http("GET", path + "/pipeline")),
        }
        names = list(acts)
        acts[self.random.choices(names, [acts[n][0] for n in names])[0]][1]()

    def run(self):
        for _ in range(self.steps):
            if len(self.ids) < 3:
                self.new()
            self.act(self.random.choice(self.ids[-6:]))


def come_to_rest(home, id):
    person = Person(home, None, [], 0, 0)
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        answer = home.http("GET", f"/session/{id}")
        if answer.status == 404 or answer.json()["state"] in ("idle", "ended"):
            return
        home.http("POST", f"/session/{id}/interrupt", b"{}")
        person.decide(id)
    raise AssertionError(f"{id} does not come to rest: {answer.body}")


def check_journal(home, id, done):
    path = home.dir / "sessions" / id / "events.jsonl"
    if not path.exists():
        return
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    begun = {e["turn"] for e in events if e["type"] == "turn.started"}
    ends = [e["turn"] for e in events if e["type"] in ("turn.completed", "turn.failed", "turn.interrupted")]
    said = {e["turn"] for e in events if e["type"] == "message.completed" and e["role"] == "user"}
    at = max([i for i, e in enumerate(events) if "forked_from" in e], default=0)
    cut = {e.get("turn") for e in events[:at]}  # of the session that it is a copy of
    assert not (begun | said) - cut - set(ends), "a turn has no end"
    assert len(ends) == len(set(ends)), "a turn has two ends"
    for turn in begun - cut:
        assert done.count(f"{id} {turn}") == 1, "on_done comes once"


@pytest.mark.parametrize("seed", range(3))
def test_odd_moments(home, hub, work, seed):
    work.mkdir()
    (work / "scenario").write_text("".join(json.dumps(x) + "\n" for x in SCENARIO * 200))
    plugin(home, "waits", PLUGIN.replace("DONE", str(work / "done")))
    ids = []
    people = [Person(home, work, ids, f"{seed}.{i}", 60) for i in range(3)]
    for p in people:
        p.start()
    for p in people:
        p.join()
    assert not [b for p in people for b in p.bad]
    for id in ids:
        come_to_rest(home, id)
    hub.close()
    done = (work / "done").read_text().splitlines()
    for id in ids:
        check_journal(home, id, done)
