"""Subagents: the tool `task`, through the HTTP API and the command line, with scripted models."""
import json
import os

import pytest

from bots import FILES, Repo, Rig, complete, say, shell
from chat_rig import Terminal
from conftest import Hub, retry
from test_agent import Session, call, plugin
from test_rewind import repo, tree  # noqa: F401 (a fixture)


def use(tool, **input):
    return {"text": "", "tool_calls": [{"name": tool, "input": input}]}


def together(*calls):
    return {"text": "", "tool_calls": [{"name": n, "input": i} for n, i in calls]}


class Worker(Session):
    """A session of the provider `lead`; other providers are for its subagents."""

    def __init__(self, home, dir, **params):
        self.home, self.dir = home, dir
        body = {"working_dir": str(dir), "env": {"PATH": os.environ["PATH"]}, "provider": "lead", "model": "m", **params}
        self.row = call(home, "POST", "/session", body, 201)
        self.id = self.row["id"]

    def tasks(self):
        return call(self.home, "GET", f"/session?parent={self.id}")["sessions"]

    def task(self, i=0):
        """A subagent as a session, the one made first being 0."""
        row = self.tasks()[::-1][i]
        s = Session.__new__(Session)
        s.home, s.dir, s.id, s.row = self.home, self.dir, row["id"], row
        return s

    def result(self, i=-1):
        return self.events("tool.completed")[i]


@pytest.fixture
def team(home, hub, tmp_path):
    """Start a session whose model, and those of its subagents, play scenes: team(lead=[...], helper=[...])."""
    def start(dir=tmp_path / "work", more="", params=(), **scenes):
        dir.mkdir(exist_ok=True)
        text = more
        for name, lines in scenes.items():
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(json.dumps(x) + "\n" for x in lines))
            text += f'[providers.{name}]\nkind = "scripted"\nscenario = "{path}"\n'
        (home.dir / "config.toml").write_text(text)
        call(home, "POST", "/reload", {})
        return Worker(home, dir, **dict(params))
    return start


USAGE = {"input": 100, "cached": 0, "output": 10}
PRICE = '[prices."m"]\ninput = 10000.0\ncached = 0.0\noutput = 0.0\n'  # a request with USAGE costs 1 USD


def test_a_subagent_works_alone_and_answers_once(home, team):
    s = team(lead=[use("task", prompt="Count the files.\nSay only a number.", model="helper/m"), {"text": "Three."}],
             helper=[use("shell", cmd="echo from-the-subagent"), {"text": "3 files"}])
    assert s.ask("how many files?")["text"] == "Three."
    done = s.result()
    assert (done["tool"], done["output"], done["success"]) == ("task", "3 files", True)
    row = s.tasks()[0]
    assert row["parent"] == s.id and row["state"] == "ended" and row["title"] == "Count the files."
    assert (row["provider"], row["model"]) == ("helper", "m")
    # its context is its own: it knows nothing of what the person said, and the parent nothing of its calls
    child = s.task()
    messages = child.requests()[0]["body"]["messages"]
    assert "Count the files" in json.dumps(messages) and "how many files" not in json.dumps(messages)
    assert "from-the-subagent" not in json.dumps(s.requests()[-1]["body"]["messages"])
    # but who follows the parent sees what it does, in the call
    told = "".join(e["text"] for e in s.events("tool.progress"))
    assert "shell echo from-the-subagent\n" in told and {e["call_id"] for e in s.events("tool.progress")} == {done["call_id"]}
    # and lists show it only where it is asked for
    assert [x["id"] for x in call(home, "GET", "/session")["sessions"]] == [s.id]
    assert "3 files" in json.dumps(s.results())


def test_usage_and_cost_count_for_the_parent(home, team):
    s = team(more=PRICE, lead=[{**use("task", prompt="p", model="helper/m"), "usage": USAGE}, {"text": "ok", "usage": USAGE}],
             helper=[{**use("shell", cmd="true"), "usage": USAGE}, {"text": "x", "usage": USAGE}])
    done = s.ask()
    assert done["usage"]["input"] == 400 and done["usage"]["cost_usd"] == pytest.approx(4)
    row = s.call("GET")
    assert row["usage"]["input"] == 400 and s.tasks()[0]["usage"]["input"] == 200
    assert s.tasks()[0]["usage"]["cost_usd"] == pytest.approx(2)
    home.ok("stop")
    again = Hub(home)
    assert s.call("GET")["usage"]["input"] == 400
    again.close()


@pytest.mark.parametrize("cap, what", [({"max_steps": 3}, "3 model requests (max_steps)"), ({"max_cost": 2.5}, "has cost 3.0000 USD")])
def test_caps_cover_subagents(team, cap, what):
    loop = {**use("shell", cmd="true"), "usage": USAGE}
    s = team(more=PRICE, params=cap, lead=[{**use("task", prompt="p", model="helper/m"), "usage": USAGE}, {"text": "never"}],
             helper=[loop, loop, loop, loop, {"text": "never"}])
    done = s.ask()
    assert done["state"] == "failed" and done["error"]["code"] == "LIMIT_REACHED" and what in done["error"]["message"]
    assert "LIMIT_REACHED" in s.result()["error"] and len(s.task().requests()) == 2


def test_tools_are_a_part_of_the_parents(team):
    s = team(lead=[together(("task", {"prompt": "p", "tools": ["read_file"], "model": "helper/m"}),
                            ("task", {"prompt": "p", "tools": ["fly"]})), {"text": "ok"}],
             helper=[together(("shell", {"cmd": "touch made"}), ("task", {"prompt": "q"})), {"text": "tried"}])
    s.ask()
    refused = next(e for e in s.events("tool.completed") if not e["success"])
    assert refused["error"] == "'tools': you have no tool 'fly'" and len(s.tasks()) == 1
    child = s.task()
    assert [t["name"] for t in child.requests()[0]["body"]["tools"]] == ["read_file"] and child.row["tools"] == ["read_file"]
    assert [e["error"] for e in child.events("tool.completed")] == ["there is no tool 'shell'", "there is no tool 'task'"]
    assert not (s.dir / "made").exists()


def test_nesting_ends(team):
    s = team(lead=[use("task", prompt="one", model="lead/m"), {"text": "done"}])  # each plays the same scenes
    assert s.ask()["text"] == "done"
    first = s.task()
    second = call(s.home, "GET", f"/session?parent={first.id}")["sessions"]
    assert len(second) == 1 and call(s.home, "GET", f"/session?parent={second[0]['id']}")["sessions"] == []
    assert "task" in [t["name"] for t in first.requests()[0]["body"]["tools"]]
    deepest = s.home.dir / "sessions" / second[0]["id"] / "requests.jsonl"
    assert "task" not in [t["name"] for t in json.loads(deepest.read_text().splitlines()[0])["body"]["tools"]]


def test_they_run_at_the_same_time(team):
    meet = "touch {}; for i in $(seq 300); do [ -e {} ] && exit 0; sleep 0.05; done; exit 1"
    s = team(lead=[together(("task", {"prompt": "a", "model": "a/m"}), ("task", {"prompt": "b", "model": "b/m"})), {"text": "ok"}],
             a=[use("shell", cmd=meet.format("a-is-here", "b-is-here")), {"text": "A"}],
             b=[use("shell", cmd=meet.format("b-is-here", "a-is-here")), {"text": "B"}])
    assert s.ask()["state"] == "completed"
    assert sorted(e["output"] for e in s.events("tool.completed")) == ["A", "B"]
    assert all(e["success"] for i in (0, 1) for e in s.task(i).events("tool.completed"))


def test_more_than_can_run_wait_in_line(team):
    many = [("task", {"prompt": f"task {i}", "model": "helper/m"}) for i in range(20)]
    s = team(lead=[together(*many), {"text": "ok"}], helper=[{"text": "done"}])
    assert s.ask()["state"] == "completed"
    assert [e["output"] for e in s.events("tool.completed")] == ["done"] * 20 and len(s.tasks()) == 20


def test_the_parents_person_is_asked(team):
    s = team(params={"permission": "ask"}, lead=[use("task", prompt="p", model="helper/m"), {"text": "ok"}],
             helper=[together(("shell", {"cmd": "touch yes"}), ("shell", {"cmd": "touch no"})), {"text": "did"}])
    waiting = s.ask()
    assert waiting["state"] == "waiting"
    pending = retry(lambda: len(s.call("GET")["pending"]) == 2 and s.call("GET")["pending"])
    assert {p["task"] for p in pending} == {s.tasks()[0]["id"]} and s.call("GET")["state"] == "waiting"
    for p in pending:
        allow = p["call"]["input"]["cmd"] == "touch yes"
        s.call("POST", f"/permission/{p['request_id']}", {"decision": "allow" if allow else "deny", "reason": "not that one"})
    s.wait_for("turn.completed")
    assert (s.dir / "yes").exists() and not (s.dir / "no").exists()
    assert "denied by the user: not that one" in json.dumps(s.task().results())
    assert len(s.events("permission.requested")) == 2 and s.task().events("permission.requested") == []


def test_a_mode_that_changes_counts_at_once(team):
    s = team(params={"permission": "ask"}, lead=[use("task", prompt="p", model="helper/m"), {"text": "ok"}],
             helper=[use("shell", cmd="echo 1"), use("shell", cmd="touch written"), {"text": "did"}])
    s.ask()
    s.call("PATCH", "", {"permission": "plan"})
    s.call("POST", "/permission/p1", {"decision": "allow"})
    s.wait_for("turn.completed")
    assert "plan mode" in json.dumps(s.task().results()) and not (s.dir / "written").exists()


def test_an_answer_for_the_session_covers_subagents(team):
    s = team(params={"permission": "ask"}, lead=[use("shell", cmd="echo 1"), use("task", prompt="p", model="helper/m"), {"text": "ok"}],
             helper=[use("shell", cmd="echo 2"), {"text": "did"}])
    s.ask()
    s.call("POST", "/permission/p1", {"decision": "allow", "remember": "tool"})
    assert s.wait_for("turn.completed")["text"] == "ok"
    assert len(s.events("permission.requested")) == 1


def test_a_plugin_of_the_session_guards_subagents(home, team):
    plugin(home, "guard", 'on_permission(function(ctx, call) if call.tool_name == "shell" then return "deny", "no shell" end end)')
    s = team(lead=[use("task", prompt="p", model="helper/m"), {"text": "ok"}], helper=[use("shell", cmd="touch x"), {"text": "did"}])
    s.ask()
    assert "denied by guard" in s.task().events("tool.completed")[0]["error"] and not (s.dir / "x").exists()


def test_an_interrupt_reaches_them(team):
    s = team(lead=[together(*[("task", {"prompt": "p", "model": "helper/m"})] * 3), {"text": "never"}],
             helper=[use("shell", cmd="echo $$ > pid-$$; exec sleep 1000"), {"text": "never"}])
    s.send()
    retry(lambda: len(list(s.dir.glob("pid-*"))) >= 1 and all(t["state"] == "running" for t in s.tasks()) and len(s.tasks()) == 3)
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert [t["state"] for t in s.tasks()] == ["ended"] * 3
    assert {t["end_reason"] for t in s.tasks()} == {"interrupted"}
    assert [e["error"] for e in s.events("tool.completed")] == ["interrupted"] * 3
    assert s.call("GET")["state"] == "idle" and "pending" in s.call("GET")


def test_an_interrupt_while_one_asks(team):
    s = team(params={"permission": "ask"}, lead=[use("task", prompt="p", model="helper/m"), {"text": "never"}],
             helper=[use("shell", cmd="touch x"), {"text": "never"}])
    assert s.ask()["state"] == "waiting"
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    row = s.call("GET")
    assert row["state"] == "idle" and row["pending"] == [] and s.tasks()[0]["state"] == "ended"


def test_one_that_is_ended_from_outside(team):
    s = team(lead=[use("task", prompt="p", model="helper/m"), {"text": "went on"}],
             helper=[use("shell", cmd="touch here; exec sleep 1000"), {"text": "never"}])
    s.send()
    retry(lambda: (s.dir / "here").exists())
    s.task().call("DELETE", "?purge=true")
    assert s.wait_for("turn.completed")["text"] == "went on"
    assert s.result()["error"] == "the subagent was interrupted" and s.tasks() == []


def test_a_killed_hub_leaves_nothing_hanging(home, hub, team):
    s = team(lead=[use("task", prompt="p", model="helper/m"), {"text": "second try"}],
             helper=[use("shell", cmd="touch here; exec sleep 1000"), {"text": "never"}])
    s.send()
    retry(lambda: (s.dir / "here").exists())
    hub.process.kill()
    hub.process.communicate()
    hub.process = Hub(home).process
    assert s.call("GET")["state"] == "crashed"
    assert [(t["state"], t["end_reason"]) for t in s.tasks()] == [("ended", "crashed")]
    assert s.task().events("turn.failed")[-1]["error"]["code"] == "CRASHED"
    assert s.ask()["state"] == "completed"  # and goes on


def test_a_purged_session_takes_them_along(home, team):
    s = team(lead=[use("task", prompt="one", model="lead/m"), {"text": "done"}])
    s.ask()
    assert len(list((home.dir / "sessions").iterdir())) == 3
    s.call("DELETE", "?purge=true")
    assert list((home.dir / "sessions").iterdir()) == []


def test_a_rewind_takes_back_what_they_changed(team, repo):  # noqa: F811
    before = tree(repo)
    s = team(dir=repo, lead=[use("task", prompt="p", model="helper/m"), {"text": "ok"}],
             helper=[use("edit_file", path="a.txt", old="one", new="ONE"),
                     use("shell", cmd="rm sub/b.txt; echo n > new.txt"), {"text": "did"}])
    s.ask()
    assert tree(repo) != before
    no = s.task().call("POST", "/rewind", {}, 409)
    assert s.id in no["detail"]
    got = s.call("POST", "/rewind", {"to": "t1"})
    assert sorted(got["restored"]) and tree(repo) == before


def test_a_model_that_is_not_there(team):
    s = team(lead=[together(("task", {"prompt": "p", "model": "helper/m"}), ("task", {"prompt": "p", "model": "absent/m"})), {"text": "ok"}],
             helper=[{"error": {"status": 400, "times": 9}, "text": "x"}])
    assert s.ask()["state"] == "completed"
    errors = {e["call_id"]: e["error"] for e in s.events("tool.completed")}
    assert any("the subagent failed: " in e and "PROVIDER_REJECTED" in e for e in errors.values()), errors


def test_the_chat_shows_one_line(home, tmp_path, team):
    team(lead=[use("task", prompt="Look around.", model="helper/m"), {"text": "Seen."}],
         helper=[use("shell", cmd="echo hidden-output"), {"text": "all quiet"}])
    done = home.cli("chat", "look", "--provider", "lead", "-m", "m", "--cwd", str(tmp_path))
    assert done.returncode == 0 and done.stdout == "Seen.\n"
    assert "task: " in done.stderr and "Look around." in done.stderr and "hidden-output" not in done.stderr
    assert len(home.json("sessions", "list", "--json")["sessions"]) == 2  # the fixture's and this one


def test_a_subagent_can_be_looked_at_by_its_id(home, team):
    s = team(lead=[use("task", prompt="Look.", model="helper/m"), {"text": "Seen."}], helper=[{"text": "all quiet"}])
    s.ask()
    id = s.tasks()[0]["id"]
    assert home.json("sessions", "show", id, "--json")["parent"] == s.id
    assert home.cli("sessions", "show", "0123456789ab").returncode == 3


def test_the_chat_asks_for_a_subagent(home, tmp_path, team):
    team(lead=[use("task", prompt="Look around.", model="helper/m"), {"text": "Seen."}],
         helper=[together(("shell", {"cmd": "touch one"}), ("web_fetch", {"url": "http://127.0.0.1:9/x"})), {"text": "all quiet"}])
    t = Terminal(home, "chat", "--provider", "lead", "-m", "m", "--permission", "ask", "--color", "never", cwd=tmp_path)
    t.prompt()
    t.type("look\r")
    t.read(rb"shell of a subagent wants to run: touch one")
    t.asked("allow? ")
    t.type("a\r")
    t.read(rb"web_fetch of a subagent wants to read: http://127.0.0.1:9/x")
    t.asked("allow? ")
    t.type("d\r")
    t.read(rb"Seen\.")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0
    assert (tmp_path / "one").exists()


def test_subagents_of_a_bot_work_in_its_worktree(home, hub, tmp_path):
    rig = Rig(home, Repo(tmp_path / "repo", FILES))
    # each of the three plays the same scenes; subagents have no session_complete
    run = rig.run([use("task", prompt="help"), shell("echo line >> made.txt; pwd"), complete(), say("Bye.")])
    row = run.wait()
    assert row["end_reason"] == "complete", row
    session = row["iterations"][0]["session_id"]
    child = call(rig.home, "GET", f"/session?parent={session}")["sessions"][0]
    assert child["state"] == "ended" and child["bot"] is None and child["working_dir"].startswith(str(rig.home.dir / "worktrees"))
    diff = call(rig.home, "GET", f"/runs/{run.id}/diff")
    assert json.dumps(diff).count("+line") == 3
    requests = (rig.home.dir / "sessions" / child["id"] / "requests.jsonl").read_text().splitlines()
    tools = [t["name"] for t in json.loads(requests[0])["body"]["tools"]]
    assert "shell" in tools and "session_complete" not in tools
    assert call(rig.home, "POST", f"/session/{child['id']}/rewind", {}, 409)["detail"].endswith("it has what its subagents changed")
