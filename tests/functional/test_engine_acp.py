"""Agents that speak the Agent Client Protocol run turns: one made with the official library, and `afloat acp` itself."""
import base64
import json
import os
import shutil
import sys

import peers
import pytest

from conftest import BIN, ROOT, retry
from engine_rig import of_type
from test_pictures import png
from test_agent import Session, call, one_call, work  # noqa: F401 (a fixture)

NODE = shutil.which("node") or "node"


@pytest.fixture(scope="module")
def agent():
    modules = peers.install()
    path = modules.parent / "acp_agent.mjs"
    shutil.copy(ROOT / "tests/peers/acp_agent.mjs", path)
    return path


def configure(home, command, *args, more=""):
    (home.dir / "config.toml").write_text(
        f"[engines.acp]\ncommand = {json.dumps(str(command))}\nargs = {json.dumps([str(a) for a in args])}\n{more}")


def start(home, work, **params):
    work.mkdir(exist_ok=True)
    return Session(home, work, [{"text": "never asked"}], env={"ACP_AGENT_DIR": str(work)}, engine="acp", **params)


def test_a_turn_lands_in_our_journal_in_our_types(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    s = start(home, work)
    outcome = s.ask("run echo out; echo more")
    assert outcome["state"] == "completed" and outcome["text"] == "it ran", outcome
    [called], [done] = s.events("tool.called"), s.events("tool.completed")
    assert (called["tool"], called["input"]) == ("shell", {"cmd": "echo out; echo more"})
    assert done["output"] == "out\nmore\n" and done["success"]
    assert [e["text"] for e in s.events("message.completed") if e["role"] == "assistant" and e["text"]] == ["let me see", "it ran"]
    assert "".join(e.get("text", "") for e in s.events("message.delta")) == "let me seeit ran"
    assert s.ask("edit a.txt hello")["state"] == "completed" and (work / "a.txt").read_text() == "hello\n"
    edited = s.events("tool.called")[-1]
    assert edited["tool"] == "edit_file" and edited["input"]["path"].endswith("a.txt")
    assert "+hello" in s.events("tool.completed")[-1]["diff"]
    s.ask("plan")
    assert [(i["text"], i["state"]) for i in s.events("todo.updated")[-1]["items"]] == [("first", "done"), ("then", "active")]
    assert any(e.get("reasoning") == "hm" for e in s.events("message.delta"))


def test_permissions_decide_about_what_the_agent_asks(home, start_hub, work, agent):
    configure(home, NODE, agent, more='[[permission]]\ntool = "shell"\nmatch = "touch *"\ndecision = "deny"\n')
    start_hub()
    s = start(home, work)
    assert s.ask("run touch denied")["text"] == "then not" and not (work / "denied").exists()
    assert "rule" in s.events("tool.completed")[-1]["error"]
    s = start(home, work, permission="ask")
    s.send("edit b.txt hello")
    [asked] = retry(lambda: s.call("GET")["pending"])
    assert asked["call"]["tool_name"] == "edit_file" and "+hello" in asked["diff"]
    s.call("POST", f"/permission/{asked['request_id']}", {"decision": "allow"})
    s.wait_for("turn.completed")
    assert (work / "b.txt").read_text() == "hello\n"


def test_a_call_that_was_not_asked_about_is_judged_all_the_same(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    free = start(home, work)
    free.send("rash echo free")
    assert free.wait_for("tool.completed")["output"] == "free\n"
    free.call("POST", "/interrupt")
    free.wait_for("turn.interrupted")
    outcome = start(home, work, permission="plan").ask("rash echo free")
    assert outcome["state"] == "failed" and outcome["error"]["code"] == "PERMISSION_DENIED"


def test_a_plugin_sees_and_stops_the_agents_calls(home, start_hub, work, agent):
    configure(home, NODE, agent)
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins" / "guard.lua").write_text(
        'on_permission(function(ctx, call) if call.tool_name == "shell" then return "deny", "not here" end end)')
    start_hub()
    s = start(home, work)
    assert s.ask("run touch x")["text"] == "then not"
    assert "not here" in s.events("tool.completed")[-1]["error"] and not (work / "x").exists()


@pytest.mark.parametrize("way", ["http", "stdio"])  # the protocol asks every agent for stdio, and for HTTP nobody
def test_the_agent_calls_our_tools_by_mcp(home, start_hub, work, agent, way):
    configure(home, NODE, agent, way)
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins" / "dice.lua").write_text("""tool { name = "roll", description = "rolls", input = { sides = "integer" },
      run = function(ctx, input) return "a " .. input.sides end }""")
    start_hub()
    s = start(home, work)  # in a box without network it reaches the hub all the same
    assert s.ask('tool roll {"sides": 6}')["text"] == "true false a 6"
    [called], [done] = s.events("tool.called"), s.events("tool.completed")
    assert called["tool"] == "roll" and called["input"] == {"sides": 6} and done["output"] == "a 6"
    assert s.ask('tool roll {"sides": "x"}')["text"].startswith("true true")
    s = start(home, work, permission="plan")
    assert "plan mode" in s.ask('tool roll {"sides": 6}')["text"]


def test_a_turn_is_interrupted_and_one_that_follows_works(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    s = start(home, work)
    s.send("hang")
    s.wait_for("message.delta")
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert s.ask("hello")["text"] == "you said hello"


def test_what_is_said_to_a_turn_is_its_next_prompt(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    s = start(home, work, permission="ask")
    s.send("run echo one")
    [asked] = retry(lambda: s.call("GET")["pending"])
    s.call("POST", "/steer", {"text": "and this"})
    s.call("POST", f"/permission/{asked['request_id']}", {"decision": "allow"})
    assert s.wait_for("turn.completed")["text"] == "you said and this"


@pytest.mark.parametrize("mode", ["", "forgetful"])
def test_a_conversation_goes_on_in_another_process(home, start_hub, work, agent, mode):
    configure(home, NODE, agent, mode)
    start_hub()
    s = start(home, work)
    s.ask("remember me")
    home.ok("stop")
    retry(lambda: home.hub_pid() is None)
    start_hub()
    assert s.ask("again")["text"] == "you said again"
    said = json.loads((work / ".acp-agent.json").read_text())
    if mode:  # a new session of the agent is told the past
        assert len(said) == 2 and "remember me" in said["s2"][0]
    else:
        assert len(said) == 1 and "old:" not in json.dumps(s.events("message.completed"))


@pytest.mark.parametrize("mode,why", [("v9", "version 9"), ("locked", "log in first")])
def test_an_agent_that_cannot_be_used_says_why(home, start_hub, work, agent, mode, why):
    configure(home, NODE, agent, mode)
    start_hub()
    outcome = start(home, work).ask()
    assert outcome["state"] == "failed" and why in outcome["error"]["message"], outcome


def test_an_agent_that_dies_fails_the_turn_and_is_started_again(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    s = start(home, work)
    outcome = s.ask("die")
    assert outcome["state"] == "failed" and outcome["error"]["code"] == "ENGINE_FAILED" and "3" in outcome["error"]["message"]
    assert s.ask("alive?")["text"] == "you said alive?"


@pytest.mark.parametrize("script,why", [
    ("print('Welcome!', flush=True); input()", "no message"), ("import sys; sys.exit('cannot start')", "cannot start"),
    ("print('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}', flush=True); input()", "version 0"),
    ("print('[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"x\"}},{\"jsonrpc\":\"2.0\",\"method\":\"y\"}]', "
     "flush=True); input()", "no message"),
    ("print('x' * (17 << 20), flush=True); input()", "above")])
def test_garbage_from_an_agent_ends_the_turn_with_the_reason(home, start_hub, work, script, why):
    configure(home, sys.executable, "-c", script)
    start_hub()
    outcome = start(home, work).ask()
    assert outcome["state"] == "failed" and why in outcome["error"]["message"], outcome
    assert call(home, "GET", "/healthz")["ok"]


def test_an_agent_that_takes_pictures_is_shown_them(home, start_hub, work, agent):
    configure(home, NODE, agent, "sees", more='[models."*"]\nimages = false\n')  # of our models, and it has its own
    start_hub()
    s = start(home, work)
    (work / "shot.png").write_bytes(png())
    assert s.ask("what is this?", images=[str(work / "shot.png")])["state"] == "completed"
    told, = json.loads((work / ".acp-agent.json").read_text()).values()
    assert f"[image image/png {len(base64.b64encode(png()))}]" in told[0]


def test_an_agent_that_takes_no_pictures_says_so(home, start_hub, work, agent):
    configure(home, NODE, agent)
    start_hub()
    s = start(home, work)
    (work / "shot.png").write_bytes(png())
    for _ in range(2):  # before it is ready, and after
        failed = s.ask("what is this?", images=[str(work / "shot.png")])
        assert failed["state"] == "failed" and "takes no pictures" in failed["error"]["message"], failed
    assert s.ask("in words")["text"] == "you said in words"


def test_a_missing_program_is_named(home, start_hub, work):
    configure(home, "/nonexistent/agent")
    start_hub()
    work.mkdir()
    got = home.cli("chat", "hi", "--engine", "acp", "--cwd", str(work))
    assert got.returncode == 1 and "/nonexistent/agent" in got.stderr


def test_afloat_itself_is_the_agent_of_another_hub(home, start_hub, work, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o700)
    script = [one_call(cmd="echo from the inner hub"), one_call("write_file", path="deep.txt", content="x\n"), {"text": "both hubs"}]
    (inner / "s.jsonl").write_text("".join(json.dumps(x) + "\n" for x in script))
    (inner / "config.toml").write_text('[model]\nprovider = "play"\n[providers.play]\nkind = "scripted"\nscenario = "s.jsonl"\n')
    configure(home, BIN, "--home", inner, "acp", "--permission", "ask")
    start_hub()
    s = start(home, work, sandbox="danger-full-access")
    try:
        outcome = s.ask("go", env={**os.environ, "AFLOAT_PROVIDER": "scripted"})
        assert outcome["state"] == "completed" and outcome["text"] == "both hubs", outcome
        assert [(e["tool"], e["input"]) for e in s.events("tool.called")] == [
            ("shell", {"cmd": "echo from the inner hub"}), ("edit_file", {"path": "deep.txt"})], s.events("tool.called")
        assert "from the inner hub" in s.events("tool.completed")[0]["output"] and (work / "deep.txt").read_text() == "x\n"
    finally:
        home.cli("--home", str(inner), "stop", "--wait")
