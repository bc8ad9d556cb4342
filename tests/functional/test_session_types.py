"""Session types, and the policy in Lua that decides how agents are started and what happens at their end."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import ROOT, Hub, retry
from test_lua import Stream, lua  # noqa: F401


@pytest.fixture
def work(home, tmp_path):
    """A repository to work in; no keeper is left afterwards."""
    def git(*args):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True,
                       capture_output=True)
    git("init", "-q", "-b", "main")
    (tmp_path / "f").write_text("x\n")
    git("add", ".")
    git("commit", "-qm", "one")
    home.env.update(AFLOAT_PROVIDER="scripted")
    yield pathlib.Path(os.path.realpath(tmp_path))
    home.cli("stop", "--all")


def save(base, name, text, place="sessions"):
    path = base / place / name / "init.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def pty(home, **body):
    return home.http("POST", "/pty", json.dumps(body).encode())


def screen(home, id):
    return home.http("GET", f"/pty/{id}/screen").json()["text"]


def types(home, path=None):
    query = f"?path={path}" if path else ""
    return {t["name"]: t for t in home.http("GET", f"/session-types{query}").json()["types"]}


PROGRAM = """
return { kind = "pty", description = "says what it got", cmd = "sh",
         args = { "-c", 'echo "got: $GREETING $@"; pwd; read line; echo "told: $line"; read x', "sh", "one" },
         env = { GREETING = "hi" }, cwd = "sub" }
"""


def test_a_terminal_of_a_type_has_its_program_arguments_environment_and_directory(home, hub, work):
    save(home.dir, "greeter", PROGRAM)
    (work / "sub").mkdir()
    answer = pty(home, type="greeter", cwd=str(work), args=["two"])
    assert answer.status == 201, answer.body
    row = answer.json()
    assert (row["cmd"], row["type"], row["name"], row["cwd"]) == ("sh", "greeter", "greeter", str(work / "sub"))
    retry(lambda: "got: hi one two" in screen(home, row["id"]))
    id = home.ok("pty", "new", "--detach", "--type", "greeter", "--", "three", cwd=work).strip()
    retry(lambda: "got: hi one three" in screen(home, id))
    assert home.http("GET", f"/pty/{id}").json()["name"] == "greeter-2"  # names are not taken twice


def test_a_type_with_a_worktree_is_a_run_and_is_given_its_prompt(home, hub, work):
    save(home.dir, "fixer", """return { cmd = "sh", worktree = true, prompt = "fix it",
      args = { "-c", 'echo ready; read line; echo "told: $line" > out; echo "env: $AFLOAT_PROMPT"; read x' } }""")
    row = pty(home, type="fixer", cwd=str(work)).json()
    assert row["run_id"] == row["id"] and row["prompt"] == "fix it"
    retry(lambda: (pathlib.Path(row["worktree"]) / "out").exists())
    retry(lambda: "env: fix it" in screen(home, row["id"]))
    assert (pathlib.Path(row["worktree"]) / "out").read_text() == "told: fix it\n"


def test_a_prompt_in_the_arguments_is_not_typed(home, hub, work):
    save(home.dir, "once", """return { cmd = "sh", prompt = "do it",
      args = { "-c", 'echo "arg: $1"; read x; echo "typed: $x"', "sh", "{prompt}" } }""")
    row = pty(home, type="once", cwd=str(work)).json()
    retry(lambda: "arg: do it" in screen(home, row["id"]))
    home.http("POST", f"/pty/{row['id']}/input", b'{"text":"mine\\r"}')
    retry(lambda: "typed: mine" in screen(home, row["id"]))


def test_a_chat_of_a_type_has_its_model_plugins_and_prompt(home, hub, work):
    save(home.dir, "review", """return function(ctx)
      return { kind = "chat", model = "small", plugins = json.array {}, prompt = "review " .. ctx.cwd:match("[^/]*$"), title = "a review" }
    end""")
    scenario = work / "s.jsonl"
    scenario.write_text(json.dumps({"when": "review " + work.name, "text": "looks good"}) + "\n")
    home.env.update(AFLOAT_SCENARIO=str(scenario))
    assert "looks good" in home.ok("chat", "--type", "review", cwd=work)
    row = home.json("sessions", "list")["sessions"][0]
    assert (row["model"], row["plugins"], row["title"]) == ("small", [], "a review")
    given = home.http("POST", "/session", json.dumps({"type": "review", "model": "large", "working_dir": str(work)}).encode())
    assert given.json()["model"] == "large"  # what is asked for wins


def test_a_save_is_live_and_a_broken_one_says_file_and_line(home, hub, work):
    path = save(home.dir, "t", 'return { cmd = "sh", args = { "-c", "echo first; read x" } }')
    first = pty(home, type="t", cwd="/").json()
    retry(lambda: "first" in screen(home, first["id"]))
    path.write_text('return { cmd = "sh", args = { "-c", "echo second; read x" } }')
    second = pty(home, type="t", cwd="/").json()
    retry(lambda: "second" in screen(home, second["id"]))
    for text, line, why in (("return {\n cmd = }", 2, "unexpected symbol"),
                            ("\n\nerror('boom')", 3, "boom"),
                            ("return 7", 1, "must return a table"),
                            ('return { cmd = "sh", sandbox = "none" }', 1, "'sandbox' is no key"),
                            ('return { cmd = "sh", args = { 1 } }', 1, "'args' must be a list of texts"),
                            ('return { kind = "pty" }', 1, "'cmd' is missing"),
                            ('return { kind = "robot" }', 1, "'kind' is")):
        path.write_text(text)
        answer = pty(home, type="t", cwd="/")
        assert answer.status == 400, answer.body
        assert f"{path}:{line}:" in answer.json()["detail"] and why in answer.json()["detail"], answer.body
    row = types(home)["t"]
    assert row["state"] == "failed" and f"{path}:1:" in row["error"]


def test_arguments_are_a_list_in_whatever_order_they_were_written(home, hub, work):
    save(home.dir, "t", 'return { cmd = "sh", args = { [2] = "echo second; read x", [1] = "-c" } }')
    row = pty(home, type="t", cwd="/").json()
    retry(lambda: "second" in screen(home, row["id"]))


def test_layers_win_by_order_and_a_project_counts_only_when_trusted(home, hub, work):
    chat = 'return { kind = "chat", description = "%s" }'
    save(home.dir, "a", chat % "user")
    save(home.dir / "shared", "b", chat % "shared")
    save(home.dir / "profiles" / "default", "b", chat % "profile")
    save(work / ".afloat", "a", chat % "project")
    listed = home.http("GET", f"/session-types?path={work}").json()["types"]
    assert {(t["name"], t["layer"], t["state"], t["shadowed"]) for t in listed} == {
        ("a", "user", "loaded", False), ("b", "user", "loaded", True), ("b", "user-profile", "loaded", False),
        ("a", "repo", "untrusted", False)}
    show = lambda name: home.http("GET", f"/session-types/{name}?path={work}").json()
    assert show("a")["description"] == "user" and show("b")["description"] == "profile"
    save(work / ".afloat", "only", chat % "here")
    answer = home.http("GET", f"/session-types/only?path={work}")
    assert answer.status == 403 and "afloat trust" in answer.json()["detail"]
    home.ok("trust", str(work))
    retry(lambda: show("a")["description"] == "project" and show("only").get("description") == "here")
    (work / ".afloat/sessions/a/init.lua").write_text(chat % "changed")  # other bytes: not trusted, the user's counts again
    assert show("a")["description"] == "user"
    assert {t["name"] for t in home.json("sessions", "types", cwd=work)["types"]} == {"a", "b", "only"}


def test_an_unknown_type_names_the_nearest_and_completion_offers_them(home, hub, work):
    save(home.dir, "reviewer", 'return { kind = "chat", description = "reads code" }')
    answer = pty(home, type="reviwer", cwd="/")
    assert answer.status == 404 and "did you mean 'reviewer'?" in answer.json()["detail"]
    wrong = pty(home, type="reviewer", cwd="/")
    assert wrong.status == 403 and "afloat chat --type reviewer" in wrong.json()["detail"]
    assert "reviewer\treads code" in home.ok("complete", "afloat", "chat", "--type", "rev", cwd=work)
    assert pty(home, cwd="/").json()["detail"] == "'cmd' is missing"


# ---- the policy ---------------------------------------------------------------------------------

def test_user_lua_decides_how_agents_of_every_kind_start(home, hub, work, lua):
    stream = Stream(home, "generation.committed,user.*")
    lua("user/init.lua", """
      hooks.intercept("before_agent_create", "mine", function(agent)
        if agent.cmd == "forbidden" or agent.title == "forbidden" or agent.prompt == "forbidden" then
          agent.refuse = "not here"
        end
        if agent.kind == "chat" then agent.title, agent.sandbox = "named by Lua", "danger-full-access" end
        if agent.kind == "bot" then agent.prompt = "changed: " .. agent.prompt end
        return agent
      end)
      hooks.intercept("before_pty_spawn", "mine", function(agent)
        agent.args[#agent.args + 1] = "appended"
        return agent
      end)
      hooks.intercept("filter_agent_env", "mine", function(env) env.SECRET = nil; env.ADDED = "yes" return env end)
      events.emit("user.loaded", {})
    """)
    stream.until("user.loaded")
    retry(lambda: pty(home, cmd="forbidden", cwd="/").status == 403)
    assert "not here" in pty(home, cmd="forbidden", cwd="/").json()["detail"]
    row = pty(home, cmd="sh", args=["-c", 'echo "[$SECRET] [$ADDED] $1"; read x', "sh"], cwd="/",
              env={"PATH": os.environ["PATH"], "SECRET": "s"}).json()
    retry(lambda: "[] [yes] appended" in screen(home, row["id"]))
    refused = home.http("POST", "/session", json.dumps({"title": "forbidden", "working_dir": str(work)}).encode())
    assert refused.status == 403
    session = home.http("POST", "/session", json.dumps({"working_dir": str(work), "sandbox": "read-only"}).encode()).json()
    assert session["title"] == "named by Lua" and session["sandbox"] == "read-only"  # a person's, whatever Lua says
    home.ok("bots", "create", "tidy")
    home.ok("run", "tidy", "go", cwd=work)
    assert home.json("runs", "list")["runs"][0]["prompt"] == "changed: go"
    refused = home.cli("run", "tidy", "forbidden", cwd=work)
    assert refused.returncode == 4 and "not here" in refused.stderr


def test_user_lua_decides_what_becomes_of_the_work_of_a_terminal(home, hub, work, lua):
    stream = Stream(home, "generation.committed,user.*")
    lua("user/init.lua", """
      hooks.intercept("before_agent_delete", "mine", function(agent)
        if agent.name == "auto" and agent.status == 0 then agent.action = "merge" end
        return agent
      end)
      hooks.on("agent_lifecycle", "mine", function(e) events.emit("user.life", { kind = e.kind, state = e.state, id = e.id }) end)
      hooks.on("agent_created", "mine", function(a) events.emit("user.created", { id = a.id, name = a.name }) end)
      hooks.on("agent_deleted", "mine", function(a) events.emit("user.deleted", { id = a.id }) end)
      hooks.on("pty_notification", "mine", function(n) events.emit("user.note", { title = n.title, body = n.body }) end)
      hooks.on("pty_title_changed", "mine", function(n) events.emit("user.title", { title = n.title }) end)
      events.emit("user.loaded", {})
    """)
    stream.until("user.loaded")
    script = r"echo more >> f; printf '\033]2;t1\007\033]777;notify;CI;red\007'; read x"
    row = pty(home, cmd="sh", args=["-c", script], cwd=str(work), worktree=True, name="auto").json()
    expected = [("user.created", {"id": row["id"], "name": "auto"}), ("user.title", {"title": "t1"}),
                ("user.life", {"kind": "pty", "state": "created", "id": row["id"]}),
                ("user.note", {"title": "CI", "body": "red"})]
    while expected:  # in the order in which the program and the hub find each other
        event = stream.next()
        expected = [e for e in expected if e != (event["type"], event.get("data"))]
    home.http("POST", f"/pty/{row['id']}/input", b'{"text":"\\r"}')
    stream.until("user.deleted", id=row["id"])
    stream.until("user.life", kind="pty", state="ended", id=row["id"])
    record = retry(lambda: (r := home.http("GET", f"/runs/{row['id']}").json())["state"] == "ended" and r)
    assert (record["action"], record["merged_into"]) == ("merged", "main")
    assert (work / "f").read_text() == "x\nmore\n"


def test_the_shipped_policy_is_a_module_that_the_user_replaces_while_the_hub_runs(home, hub, work, lua):
    stream = Stream(home, "generation.committed")
    shipped = (ROOT / "runtime/lua/handlers/agents.lua").read_text()
    assert 'free_name(agent.type' in shipped
    lua("handlers/agents.lua", shipped.replace("free_name(agent.type", 'free_name("ours" or agent.type'))
    stream.until("generation.committed")
    retry(lambda: pty(home, cmd="sleep", args=["100"], cwd="/").json()["name"].startswith("ours"))
    (home.dir / "lua/handlers/agents.lua").unlink()
    home.ok("reload")
    assert pty(home, cmd="sleep", args=["100"], cwd="/").status == 201


# ---- a conversation with a worktree -----------------------------------------------------------------------------

WRITES = [{"tool_calls": [{"name": "shell", "input": {"cmd": "echo by the model > made.txt && git add made.txt && "
                                                             "git commit -qm 'model: make a file' && echo more >> f"}}]},
          {"text": "made it"}, {"text": "and on"}]


def client(home):
    return {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(home.dir / "scenario.jsonl"), "PATH": os.environ["PATH"]}


def converse(home, work, **more):
    """A session of type `fixer`, which works in a worktree of its own."""
    (home.dir / "scenario.jsonl").write_text("\n".join(json.dumps(line) for line in WRITES))
    save(home.dir, "fixer", 'return { kind = "chat", worktree = true, title = "fix it" }')
    body = {"type": "fixer", "working_dir": str(work), "env": client(home), **more}
    answer = home.http("POST", "/session", json.dumps(body).encode())
    assert answer.status == 201, answer.body
    return answer.json()


def say(home, row, text="go"):
    body = json.dumps({"text": text, "wait": True, "env": client(home)}).encode()
    return home.http("POST", f"/session/{row['id']}/message", body).json()


def run_of(home, row):
    return home.http("GET", f"/runs/{row['run_id']}").json()


def test_a_chat_type_with_a_worktree_is_a_run_whose_work_is_taken_over(home, hub, work):
    row = converse(home, work)
    assert row["branch"] == f"afloat/chat-{row['run_id']}" and row["working_dir"] == row["worktree"]
    assert pathlib.Path(row["worktree"]).is_dir() and row["bot"] is None and row["title"] == "fix it"
    assert say(home, row)["text"] == "made it"
    live = run_of(home, row)
    assert (live["state"], live["bot"], live["chat"], live["session_id"], live["resume"]) == \
           ("running", "chat", row["id"], row["id"], None)
    assert "by the model" in home.ok("runs", "diff", row["run_id"])
    assert "has not ended" in home.cli("runs", "apply", row["run_id"], cwd=work).stderr
    assert home.json("worktrees", "clean")["kept"][0]["why"] == "its run lives"
    assert home.http("DELETE", f"/session/{row['id']}").status == 200
    record = retry(lambda: (r := run_of(home, row))["state"] == "ended" and r)
    assert (record["end_reason"], record["action"], record["commits"], record["files"]) == ("complete", "review", 2, 2)
    assert not pathlib.Path(row["worktree"]).exists() and (work / "f").read_text() == "x\n"
    home.ok("runs", "apply", row["run_id"], cwd=work)
    assert (work / "made.txt").read_text() == "by the model\n" and (work / "f").read_text() == "x\nmore\n"
    subprocess.run(["git", "-C", work, "stash", "-uq"], check=True)
    home.ok("runs", "merge", row["run_id"], cwd=work)
    assert (work / "f").read_text() == "x\nmore\n"
    home.ok("bots", "create", "chat")
    refused = home.cli("run", "chat", "--resume", row["run_id"], cwd=work)
    assert refused.returncode == 7 and "conversation" in refused.stderr


def test_a_chat_in_a_worktree_goes_on_after_a_restart_and_ends_with_runs_stop(home, work):
    hub = Hub(home)
    row = converse(home, work)
    say(home, row)
    hub.close()
    assert pathlib.Path(row["worktree"]).is_dir()
    hub = Hub(home)
    assert retry(lambda: run_of(home, row)["state"] == "running") and say(home, row)["text"] == "and on"
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.communicate()
    hub = Hub(home)
    refused = home.http("POST", f"/runs/{row['run_id']}/input", json.dumps({"text": "hi"}).encode())
    assert refused.status == 409 and f"afloat chat --resume {row['id']}" in refused.json()["detail"]
    stopped = json.loads(home.ok("runs", "stop", row["run_id"], "--json"))
    assert (stopped["end_reason"], stopped["files"]) == ("interrupted", 2)
    assert home.http("GET", f"/session/{row['id']}").json()["state"] == "ended"
    assert not pathlib.Path(row["worktree"]).exists()
    hub.close()


def test_a_chat_in_a_worktree_can_be_rewound(home, hub, work):
    row = converse(home, work)
    say(home, row)
    tree = pathlib.Path(row["worktree"])
    assert (tree / "made.txt").exists() and (tree / "f").read_text() == "x\nmore\n"
    points = home.http("GET", f"/session/{row['id']}/checkpoints").json()["checkpoints"]
    assert [p["text"] for p in points] == ["go"] and sorted(points[0]["files"]) == [str(tree / "f"), str(tree / "made.txt")]
    home.ok("sessions", "rewind", row["id"])
    assert not (tree / "made.txt").exists() and (tree / "f").read_text() == "x\n"
    assert home.http("DELETE", f"/session/{row['id']}").status == 200
    record = retry(lambda: (r := run_of(home, row))["state"] == "ended" and r)
    assert record["files"] == 0, "what was taken back is not in the run's work"


def test_chat_continues_one_in_a_worktree_from_where_it_was_started(home, hub, work):
    row = converse(home, work)
    say(home, row)
    assert row["started_in"] == str(work)
    env = {**client(home), "AFLOAT_HOME": str(home.dir)}
    assert home.cli("chat", "-c", "hello", cwd=work, env=env).stdout == "and on\n"
    home.ok("chat", "-c", "--cwd", str(work), "again", cwd="/", env=env)
    after = home.json("sessions", "show", row["id"])
    assert after["turns"] == 3 and after["working_dir"] == row["worktree"], "it stays in its worktree"
    assert len(home.json("sessions", "list")["sessions"]) == 1
    assert home.http("DELETE", f"/session/{row['id']}").status == 200
    none = home.cli("chat", "-c", "hello", cwd=work, env=env)
    assert none.returncode == 3 and "this directory has no session to continue" in none.stderr


def test_one_that_ended_while_the_run_was_not_looking_is_brought_in(home, work):
    hub = Hub(home)
    row = converse(home, work)
    say(home, row)
    hub.close()
    path = next((home.dir / "bots/chat/workspaces").glob("*/runs/*.json"))
    record = path.read_text()
    hub = Hub(home)
    home.http("DELETE", f"/session/{row['id']}?purge=true")
    retry(lambda: run_of(home, row)["state"] == "ended")
    hub.close()
    path.write_text(record)  # as if the hub had been killed before the run's end was written
    hub = Hub(home)
    ended = retry(lambda: (r := run_of(home, row))["state"] == "ended" and r)
    assert (ended["end_reason"], ended["files"]) == ("complete", 2)
    hub.close()


def test_a_bots_chat_has_a_worktree_too_and_one_outside_of_a_repository_is_refused(home, hub, work, tmp_path):
    home.ok("bots", "create", "helper")
    row = converse(home, work, bot="helper")
    assert row["bot"] == "helper" and row["session_number"] == 1 and row["run_id"]
    assert say(home, row)["text"] == "made it"
    assert json.loads(home.ok("runs", "stop", row["run_id"], "--json"))["files"] == 2
    body = {"worktree": True, "working_dir": "/"}
    nowhere = home.http("POST", "/session", json.dumps(body).encode())
    assert nowhere.status == 404 and "repository" in nowhere.json()["detail"]
    bad = home.http("POST", "/session", json.dumps({**body, "working_dir": str(work), "plugins": ["no-such"]}).encode())
    assert bad.status >= 400
    branches = lambda: subprocess.run(["git", "-C", work, "branch"], capture_output=True, text=True).stdout
    retry(lambda: branches().count("afloat/") == 1)  # nothing is left of what could not begin
    assert len(home.json("runs", "list")["runs"]) == 1
