"""The real Claude Code runs turns: against a model on loopback, in a box that reaches nothing else."""
import base64
import contextlib
import json
import os
import shutil
import signal

import peers
import pytest

from bots import Repo
from conftest import retry, wait_gone
from engine_rig import KEY, TOLD, Engine, Messages, held, of_type, post  # noqa: F401 (held is a fixture)
from test_pictures import png

say, call = Messages.text, Messages.call


@pytest.fixture(scope="session")
def program():
    found = sorted(p for p in peers.install("engines").glob("@anthropic-ai/claude-code-linux-*/claude"))
    if not found:
        pytest.skip("npm gives no Claude Code for this machine")
    return found[0]


@pytest.fixture
def claude(home, tmp_path, program):
    work = tmp_path / "work"
    work.mkdir()
    engine = Engine(home, work, "claude", "anthropic", program)
    yield engine
    engine.model.close()


def test_a_turn_with_commands_and_files_lands_in_our_journal(claude, home):
    path = str(claude.work / "made.txt")
    claude.model.answers += [call("Bash", {"command": "echo hi; env; exit 3", "description": "say hi"}),
                             call("Write", {"file_path": path, "content": "hello\n"}, 2), say("all done")]
    done = claude.chat("make it", ANTHROPIC_API_KEY="sk-of-the-user")
    assert done.returncode == 0 and "all done" in done.stdout, done.stderr
    events = claude.events()
    called, results = of_type(events, "tool.called"), of_type(events, "tool.completed")
    assert [e["tool"] for e in called] == ["shell", "write_file"]
    assert called[0]["input"] == {"cmd": "echo hi; env; exit 3"} and called[1]["input"]["path"] == "made.txt"
    assert results[0]["error"] == "exit 3" and "hi" in results[0]["output"] and results[1]["success"]
    assert (claude.work / "made.txt").read_text() == "hello\n"
    assert of_type(events, "message.delta") and of_type(events, "turn.completed")[0]["text"] == "all done"
    usage = of_type(events, "turn.completed")[0]["usage"]
    assert (usage["input"], usage["cached"], usage["output"]) == (300, 120, 21)
    assert all(headers["x-api-key"] == KEY for _, headers, _ in claude.model.seen)
    assert KEY not in results[0]["output"] and "sk-of-the-user" not in results[0]["output"]
    assert home.http("GET", f"/session/{claude.last()}").json()["engine"] == "claude"


def test_a_rule_denies_and_the_model_reads_why(claude, home):
    config = home.dir / "config.toml"
    config.write_text(config.read_text() + '[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n'
                      '[[permission]]\ntool = "read_file"\nmatch = "secret*"\ndecision = "deny"\n')
    (claude.work / "secret.txt").write_text("hidden words")
    claude.model.answers += [call("Bash", {"command": "rm secret.txt"}),
                             call("Read", {"file_path": str(claude.work / "secret.txt")}, 2), say("then not")]
    done = claude.chat("clean up")
    assert done.returncode == 0, done.stderr
    assert (claude.work / "secret.txt").exists()
    last = json.dumps(claude.requests()[-1]["messages"])
    assert "denied by policy" in last and "hidden words" not in last
    assert [e["decision"] for e in of_type(claude.events(), "permission.decided")] == ["deny", "deny"]


def test_a_person_is_asked_and_allows(claude, home, hub):
    id = claude.new(permission="ask")
    claude.model.answers += [call("Bash", {"command": "touch allowed"}), say("done")]
    outcome = claude.send(id, "go")
    assert outcome["state"] == "waiting" and not (claude.work / "allowed").exists()
    asked = of_type(claude.events(id), "permission.requested")[0]
    post(home, f"/session/{id}/permission/{asked['request_id']}", decision="allow")
    retry(lambda: of_type(claude.events(id), "turn.completed"))
    assert (claude.work / "allowed").exists()


def test_our_tools_are_claudes_tools_and_change_with_plugins(claude, home, hub):
    plugin = ('tool {{ name = "roll", description = "roll a die", input = {{ sides = "integer" }},\n'
              '  run = function(ctx, input) return "{} " .. input.sides end }}\n'
              'on_tool_call(function(ctx, call) if call.tool_name == "shell" then call.input.cmd = "echo changed"; '
              'return call end end)\n'
              'on_final(function(ctx, text) return text .. "!" end)\n')
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "dice.lua").write_text(plugin.format("rolled"))
    home.ok("reload")
    id = claude.new()
    claude.model.answers += [call("mcp__afloat__roll", {"sides": 6}), call("Bash", {"command": "echo original"}, 2), say("it is 6")]
    outcome = claude.send(id, "roll")
    assert outcome["text"] == "it is 6!", outcome
    assert [c["tool"] for c in outcome["tool_calls"]] == ["roll", "shell"]
    last = json.dumps(claude.requests()[-1]["messages"])
    assert "rolled 6" in last and "changed" in last
    names = [t["name"] for t in claude.requests()[0]["tools"]]
    assert "mcp__afloat__roll" in names and "mcp__afloat__todo" in names and "mcp__afloat__read_file" not in names
    (home.dir / "plugins" / "dice.lua").write_text(plugin.format("threw").replace('name = "roll"', 'name = "throw"'))
    home.ok("reload")
    claude.model.answers += [call("mcp__afloat__throw", {"sides": 4}, 3), say("it is 4")]
    assert claude.send(id, "again")["text"] == "it is 4!"
    last = json.dumps(claude.requests()[-1]["messages"])
    assert "threw 4" in last and "rolled 6" in last  # another process, the same conversation


def test_files_are_taken_back_by_a_rewind(claude, home, hub):
    (claude.work / "old.txt").write_text("one\n")
    path = str(claude.work / "old.txt")
    id = claude.new()
    claude.model.answers += [call("Read", {"file_path": path}),
                             call("Edit", {"file_path": path, "old_string": "one", "new_string": "two"}, 2), say("changed")]
    assert claude.send(id, "change it")["state"] == "completed"
    assert (claude.work / "old.txt").read_text() == "two\n"
    post(home, f"/session/{id}/rewind")
    assert (claude.work / "old.txt").read_text() == "one\n"
    claude.model.answers += [say("fresh")]
    assert claude.send(id, "what now")["text"] == "fresh"
    assert "change it" not in json.dumps(claude.requests()[-1]["messages"])


@pytest.mark.parametrize("held", [Messages], indirect=True)
def test_a_turn_is_interrupted_and_another_steered(claude, home, hub, held):  # noqa: F811
    id = claude.new()
    claude.model.answers += [held]
    claude.send(id, "go", wait=False)
    retry(lambda: of_type(claude.events(id), "message.delta"))
    post(home, f"/session/{id}/interrupt")
    retry(lambda: of_type(claude.events(id), "turn.interrupted"))
    claude.model.answers += [held, say("in short")]
    claude.send(id, "go on", wait=False)
    retry(lambda: of_type(claude.events(id), "message.delta")[-1]["turn"] == "t2")
    post(home, f"/session/{id}/steer", text="be short")
    done = retry(lambda: of_type(claude.events(id), "turn.completed"))
    assert done[0]["text"] == "in short" and "be short" in json.dumps(claude.requests()[-1]["messages"])


def test_a_provider_that_refuses_fails_the_turn_with_its_words(claude):
    claude.model.answers += [(400, "no such model here")] * 3
    done = claude.chat("go")
    assert done.returncode == 1 and "no such model here" in done.stderr
    assert of_type(claude.events(), "turn.failed")[0]["error"]["code"] == "ENGINE_FAILED"


@pytest.mark.parametrize("held", [Messages], indirect=True)
def test_engine_and_hub_are_killed_and_the_conversation_goes_on(claude, home, held):  # noqa: F811
    claude.model.answers += [say("I remember blue")]
    claude.chat("remember blue")
    id = claude.last()
    claude.model.answers += [held]
    claude.send(id, "go", wait=False)
    retry(lambda: of_type(claude.events(id), "message.delta")[-1]["turn"] == "t2")
    # Claude Code writes its conversation when it has time; what was not written is told as text
    retry(lambda: any("I remember blue" in f.read_text() for f in home.dir.glob(f"sessions/{id}/engine/**/*.jsonl")))
    for pid in claude.processes():
        with contextlib.suppress(ProcessLookupError):  # it went with the one before
            os.kill(pid, signal.SIGKILL)
    assert "signal 9" in retry(lambda: of_type(claude.events(id), "turn.failed"))[0]["error"]["message"]
    claude.model.answers += [call("Bash", {"command": "sleep 600"})]
    claude.send(id, "wait", wait=False)
    retry(lambda: of_type(claude.events(id), "tool.called"))
    left = claude.processes()
    home.kill_hub()
    for pid in left:
        wait_gone(pid)
    claude.model.answers += [say("blue")]
    done = claude.chat("which colour?", "--resume", id)
    assert done.returncode == 0 and "blue" in done.stdout, done.stderr
    asked = json.dumps(claude.requests()[-1]["messages"])
    assert "remember blue" in asked and TOLD not in asked  # Claude Code's own conversation went on
    # where its file is gone, a new one is told the past, and the journal says so
    left = claude.processes()
    home.kill_hub()
    for pid in left:
        wait_gone(pid)
    shutil.rmtree(home.dir / "sessions" / id / "engine" / "projects")
    claude.model.answers += [say("still blue")]
    done = claude.chat("sure?", "--resume", id)
    assert done.returncode == 0 and "still blue" in done.stdout, done.stderr
    asked = json.dumps(claude.requests()[-1]["messages"])
    assert "remember blue" in asked and TOLD in asked
    told = [e for e in of_type(claude.events(id), "session.updated") if "engine_thread" in e]
    assert len(told) == 1 and "lost" in told[0]["reason"]


def test_claude_is_shown_pictures(claude, hub):
    (claude.work / "shot.png").write_bytes(png())
    id = claude.new()
    claude.model.answers += [say("a dot")]
    assert claude.send(id, "what is this?", images=[str(claude.work / "shot.png")])["text"] == "a dot"
    [shown] = [c for m in claude.requests()[0]["messages"] if isinstance(m["content"], list) for c in m["content"] if c["type"] == "image"]
    assert shown["source"] == {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png()).decode()}


def test_a_conversation_that_claude_cannot_read_fails_one_turn_only(claude, home):
    claude.model.answers += [say("I remember blue")]
    claude.chat("remember blue")
    id, left = claude.last(), claude.processes()
    home.kill_hub()
    for pid in left:
        wait_gone(pid)
    file, = (home.dir / "sessions" / id / "engine" / "projects").glob("*/*.jsonl")
    file.write_text("")
    done = claude.chat("which colour?", "--resume", id)
    assert done.returncode == 1 and "No conversation found" in done.stderr
    claude.model.answers += [say("blue")]
    done = claude.chat("which colour?", "--resume", id)
    assert done.returncode == 0 and "blue" in done.stdout, done.stderr
    asked = json.dumps(claude.requests()[-1]["messages"])
    assert "remember blue" in asked and TOLD in asked


def test_a_bot_commits_remembers_and_completes(claude, home, tmp_path):
    repo = Repo(tmp_path / "project", {"README": "hello\n"})
    home.ok("bots", "create", "worker", "--engine", "claude", "--instructions", "Do the work.")
    commit = "echo new > new.txt && git add -A && git -c user.name=B -c user.email=b@x commit -qm 'add new'"
    claude.model.answers += [call("Bash", {"command": commit}),
                             call("mcp__afloat__memory", {"action": "set", "key": "colour", "value": "blue"}, 2),
                             call("mcp__afloat__session_complete", {"summary": "done", "action": "review"}, 3), say("bye")]
    done = home.cli("run", "worker", "go", cwd=repo.root, env={"HERE_CRED": KEY}, timeout=60)
    assert done.returncode == 0, done.stderr
    run = home.http("GET", "/runs").json()["runs"][0]
    assert repo.show(run["branch"], "new.txt") == "new\n"
    assert "blue" in home.ok("memory", "show", "worker", cwd=repo.root)
    retry(lambda: not claude.processes())
