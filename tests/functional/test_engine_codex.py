"""The real Codex runs turns: against a model on loopback, in a box that reaches nothing else."""
import contextlib
import json
import os
import shutil
import signal

import peers
import pytest

from bots import Repo
from conftest import files_below, retry, wait_gone
from engine_rig import KEY, TOLD, Engine, Messages, Responses, held, of_type, post  # noqa: F401 (held is a fixture)
from test_pictures import png

say, call = Responses.text, Responses.call


@pytest.fixture(scope="session")
def program():
    """The native program: the one that npm puts into PATH only starts it."""
    found = sorted(peers.install("engines").glob("@openai/codex-linux-*/vendor/*/bin/codex"))
    if not found:
        pytest.skip("npm gives no Codex for this machine")
    return found[0]


@pytest.fixture
def codex(home, tmp_path, program):
    work = tmp_path / "work"
    work.mkdir()
    engine = Engine(home, work, "codex", "openai-responses", program)
    yield engine
    engine.model.close()


def test_a_turn_with_a_command_lands_in_our_journal(codex, home):
    codex.model.answers += [call("exec_command", {"cmd": "echo hi > made.txt; cat made.txt; env; exit 3"}), say("all done")]
    done = codex.chat("make it", OPENAI_API_KEY="sk-of-the-user")
    assert done.returncode == 0 and "all done" in done.stdout, done.stderr
    events = codex.events()
    called, result = of_type(events, "tool.called")[0], of_type(events, "tool.completed")[0]
    assert called["tool"] == "shell" and called["input"]["cmd"].startswith("echo hi > made.txt")
    assert result["output"].startswith("hi\n") and result["error"] == "exit 3" and not result["success"]
    assert (codex.work / "made.txt").read_text() == "hi\n"
    assert [e["text"] for e in of_type(events, "message.delta")] and of_type(events, "turn.completed")
    usage = of_type(events, "turn.completed")[0]["usage"]
    assert usage == {"input": 200, "cached": 80, "output": 14, "reasoning": 4, "cost_usd": usage["cost_usd"]}
    assert abs(usage["cost_usd"] - (120 * 1.0 + 80 * 1.0 + 14 * 10.0) / 1e6) < 1e-4
    # the provider's key is the hub's to know: neither Codex nor its commands, nor any file has it
    assert all(headers["authorization"] == f"Bearer {KEY}" for _, headers, _ in codex.model.seen)
    assert KEY not in result["output"] and "AFLOAT_ENGINE_KEY" not in result["output"]
    assert "sk-of-the-user" not in result["output"]
    assert not [path for path, held in files_below(home.dir) if KEY.encode() in held]
    row = home.http("GET", f"/session/{codex.last()}").json()
    assert row["engine"] == "codex" and row["context"]["window"]


def test_commands_have_no_network_and_see_no_secrets(codex, home):
    script = (f"cat {home.dir}/token; ls {home.dir}/secrets; ls {home.dir}/run; echo x > {home.dir}/config.toml; "
              "bash -c 'echo > /dev/tcp/127.0.0.1/%d'; touch ../outside; echo end" % codex.model.server_port)
    (home.dir / "token").write_text("the-token-of-the-hub")
    codex.model.answers += [call("exec_command", {"cmd": script}), say("done")]
    codex.chat("try")
    output = of_type(codex.events(), "tool.completed")[0]["output"]
    assert output.rstrip().endswith("end") and "the-token-of-the-hub" not in output and "hub.sock" not in output
    assert "refused" in output or "unreachable" in output.lower()
    assert not (codex.work.parent / "outside").exists()
    assert "[engines.codex]" in (home.dir / "config.toml").read_text()


def test_a_rule_denies_and_the_model_reads_why(codex, home):
    config = home.dir / "config.toml"
    config.write_text(config.read_text() + '[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n')
    (codex.work / "keep").write_text("")
    codex.model.answers += [call("exec_command", {"cmd": "rm keep"}), say("then not")]
    done = codex.chat("clean up")
    assert done.returncode == 0, done.stderr
    assert (codex.work / "keep").exists()
    events = codex.events()
    assert of_type(events, "permission.decided")[0]["decision"] == "deny"
    assert "rule" in of_type(events, "tool.completed")[0]["error"]
    assert "denied by policy" in json.dumps(codex.requests()[1]["input"])


def test_a_person_is_asked_and_allows(codex, home, hub):
    id = codex.new(permission="ask")
    codex.model.answers += [call("exec_command", {"cmd": "touch allowed"}), say("done")]
    outcome = codex.send(id, "go")
    assert outcome["state"] == "waiting" and not (codex.work / "allowed").exists()
    asked = of_type(codex.events(id), "permission.requested")[0]
    assert asked["call"]["tool_name"] == "shell" and asked["call"]["input"] == {"cmd": "touch allowed"}
    post(home, f"/session/{id}/permission/{asked['request_id']}", decision="allow")
    retry(lambda: of_type(codex.events(id), "turn.completed"))
    assert (codex.work / "allowed").exists()


def test_changes_of_files_are_shown_kept_and_taken_back(codex, home, hub):
    (codex.work / "old.txt").write_text("one\n")
    patch = ("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: old.txt\n@@\n-one\n+two\n*** Add File: new.txt\n+new\n"
             "*** End Patch\nEOF")
    id = codex.new()
    codex.model.answers += [call("exec_command", {"cmd": patch}), say("changed")]
    assert codex.send(id, "change it")["state"] == "completed"
    assert (codex.work / "old.txt").read_text() == "two\n" and (codex.work / "new.txt").read_text() == "new\n"
    events = codex.events(id)
    results = {e["tool"]: e for e in of_type(events, "tool.completed")}
    if "edit_file" in results:  # as changes of files; a version that runs the command line tells one command
        assert "+two" in results["edit_file"]["diff"] and results["write_file"]["success"]
    post(home, f"/session/{id}/rewind", to=of_type(events, "turn.started")[0]["turn"])
    assert (codex.work / "old.txt").read_text() == "one\n" and not (codex.work / "new.txt").exists()
    # the conversation went back as well: a new thread, which was never told of the change
    codex.model.answers += [say("fresh")]
    assert codex.send(id, "what now")["text"] == "fresh"
    assert "change it" not in json.dumps(codex.requests()[-1]["input"])


def test_our_tools_are_codexs_tools(codex, home, hub):
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "dice.lua").write_text(
        'tool { name = "roll", description = "roll a die", input = { sides = "integer" },\n'
        '  run = function(ctx, input) return "rolled " .. input.sides end }\n')
    home.ok("reload")
    id = codex.new()
    codex.model.answers += [call("roll", {"sides": 6}), say("it is 6")]
    outcome = codex.send(id, "roll")
    assert outcome["state"] == "completed" and outcome["tool_calls"][0]["tool"] == "roll"
    assert "rolled 6" in json.dumps(codex.requests()[1]["input"])
    names = json.dumps(codex.requests()[0]["tools"])
    assert '"roll"' in names and '"todo"' in names and '"read_file"' not in names
    # the thread keeps its tools; who follows is told, and the newest version runs
    (home.dir / "plugins" / "dice.lua").write_text(
        'tool { name = "roll", description = "roll a die well", input = { sides = "integer" },\n'
        '  run = function(ctx, input) return "threw " .. input.sides end }\n')
    home.ok("reload")
    codex.model.answers += [call("roll", {"sides": 4}, 2), say("it is 4")]
    assert codex.send(id, "again")["state"] == "completed"
    assert "threw 4" in json.dumps(codex.requests()[-1]["input"])
    assert of_type(codex.events(id), "plugin.needs")[0]["kind"] == "session-restart"


def test_a_broken_stream_is_told_and_its_pieces_are_void(codex):
    codex.model.answers += [Responses.half("never finished"), say("whole answer")]
    done = codex.chat("go")
    assert done.returncode == 0 and "whole answer" in done.stdout, done.stderr
    events = codex.events()
    kinds = [e["type"] for e in events]
    assert "message.aborted" in kinds
    assert kinds.index("message.aborted") < kinds.index("message.completed", 3)
    assert of_type(events, "turn.completed")[0]["text"] == "whole answer"


def test_a_provider_that_refuses_fails_the_turn_with_its_words(codex):
    codex.model.answers += [(400, "no such model here")]
    done = codex.chat("go")
    assert done.returncode == 1 and "no such model here" in done.stderr
    assert of_type(codex.events(), "turn.failed")[0]["error"]["code"] == "ENGINE_FAILED"


def test_codex_is_shown_pictures(codex, hub):
    (codex.work / "shot.png").write_bytes(png())
    id = codex.new()
    codex.model.answers += [say("a dot"), say("yes")]
    assert codex.send(id, "what is this?", images=[str(codex.work / "shot.png")])["text"] == "a dot"
    shown = [c for i in codex.requests()[0]["input"] if i["type"] == "message" for c in i["content"] if c["type"] == "input_image"]
    assert len(shown) == 1 and shown[0]["image_url"].startswith("data:image/png;base64,")
    assert codex.send(id, "sure?")["text"] == "yes"  # it remembers the picture by itself


def test_a_turn_is_interrupted(codex, home, hub, held):
    id = codex.new()
    codex.model.answers += [held]
    codex.send(id, "go", wait=False)
    retry(lambda: of_type(codex.events(id), "message.delta"))
    post(home, f"/session/{id}/interrupt")
    retry(lambda: of_type(codex.events(id), "turn.interrupted"))
    held.go.set()
    codex.model.answers += [say("still here")]
    assert codex.send(id, "again")["text"] == "still here"


def test_a_turn_is_steered(codex, home, hub, held):
    id = codex.new()
    codex.model.answers += [held, say("in short")]
    codex.send(id, "go", wait=False)
    retry(lambda: of_type(codex.events(id), "message.delta"))
    post(home, f"/session/{id}/steer", text="be short")
    done = retry(lambda: of_type(codex.events(id), "turn.completed"))
    assert done[0]["text"] == "in short" and "be short" in json.dumps(codex.requests()[-1]["input"])
    assert of_type(codex.events(id), "message.aborted")  # what it was saying is not said


def test_the_engine_is_killed_in_a_turn_and_the_next_one_resumes(codex, home, hub, held):
    id = codex.new()
    codex.model.answers += [say("I remember blue")]
    codex.send(id, "remember blue")
    codex.model.answers += [held]
    codex.send(id, "go", wait=False)
    retry(lambda: of_type(codex.events(id), "message.delta")[-1]["turn"] == "t2")
    for pid in codex.processes():
        with contextlib.suppress(ProcessLookupError):  # it went with the one before
            os.kill(pid, signal.SIGKILL)
    failed = retry(lambda: of_type(codex.events(id), "turn.failed"))[0]
    assert failed["error"]["code"] == "ENGINE_FAILED" and "signal 9" in failed["error"]["message"]
    codex.model.answers += [say("blue")]
    assert codex.send(id, "which colour?")["text"] == "blue"
    assert "remember blue" in json.dumps(codex.requests()[-1]["input"])


def test_the_hub_is_killed_in_a_turn_and_nothing_is_left_running(codex, home, held):
    codex.model.answers += [say("I remember green")]
    codex.chat("remember green")
    id = codex.last()
    codex.model.answers += [call("exec_command", {"cmd": "sleep 600"})]
    codex.send(id, "wait", wait=False)
    retry(lambda: of_type(codex.events(id), "tool.called"))
    left = codex.processes()
    assert left
    home.kill_hub()
    for pid in left:
        wait_gone(pid)
    codex.model.answers += [say("green")]
    done = codex.chat("which colour?", "--resume", id)
    assert done.returncode == 0 and "green" in done.stdout, done.stderr
    asked = json.dumps(codex.requests()[-1]["input"])
    assert "remember green" in asked and TOLD not in asked  # Codex's own thread went on
    assert not of_type(codex.events(id), "session.updated")[-1].get("engine_thread")


def test_a_thread_that_codex_lost_is_told_the_past_and_the_journal_says_so(codex, home):
    codex.model.answers += [say("I remember red")]
    codex.chat("remember red")
    id = codex.last()
    home.kill_hub()
    shutil.rmtree(home.dir / "sessions" / id / "engine" / "sessions")
    codex.model.answers += [say("red")]
    done = codex.chat("which colour?", "--resume", id)
    assert done.returncode == 0 and "red" in done.stdout, done.stderr
    asked = json.dumps(codex.requests()[-1]["input"])
    assert "remember red" in asked and TOLD in asked
    told = [e for e in of_type(codex.events(id), "session.updated") if "engine_thread" in e]
    assert len(told) == 1 and "lost" in told[0]["reason"] and told[0]["turn"] == "t2"


def test_the_process_ends_with_its_session(codex, home, hub):
    id = codex.new()
    codex.model.answers += [say("hello")]
    codex.send(id, "hi")
    assert codex.processes()
    assert home.http("DELETE", f"/session/{id}").status < 300
    retry(lambda: not codex.processes())


def test_any_provider_of_ours_is_codexs_model(codex, home):
    base = f"http://127.0.0.1:{codex.model.server_port}"
    codex.configure((home.dir / "config.toml").read_text().split("output = 10.0\n")[1], "anthropic", base)
    codex.model.answers += [Messages.call("exec_command", {"cmd": "echo hi > made.txt"}), Messages.text("all done")]
    done = codex.chat("make it")
    assert done.returncode == 0 and "all done" in done.stdout, done.stderr
    assert (codex.work / "made.txt").read_text() == "hi\n"
    assert [path for path, _, _ in codex.model.seen] == ["/v1/messages"] * 2
    assert all(headers["x-api-key"] == KEY for _, headers, _ in codex.model.seen)


def test_max_steps_ends_the_turn(codex):
    codex.model.answers += [call("exec_command", {"cmd": "echo 1"}), call("exec_command", {"cmd": "echo 2"}, 2), say("done")]
    done = codex.chat("go", "-p", "--max-steps", "2")
    assert done.returncode == 1 and "max_steps" in done.stderr
    assert of_type(codex.events(), "turn.failed")[0]["error"]["code"] == "LIMIT_REACHED"


def test_hooks_see_the_turn(codex, home, hub):
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "watch.lua").write_text(
        'on_user_message(function(ctx, text) return text .. " please" end)\n'
        'on_permission(function(ctx, call) if call.input.cmd == "forbidden" then return "deny", "not this one" end end)\n'
        'on_final(function(ctx, text) return text .. "!" end)\n')
    report = home.ok("reload")
    id = codex.new()
    codex.model.answers += [call("exec_command", {"cmd": "forbidden"}), say("done")]
    outcome = codex.send(id, "work")
    assert outcome["text"] == "done!", (outcome, report)
    assert "work please" in json.dumps(codex.requests()[0]["input"])
    assert "not this one" in of_type(codex.events(id), "tool.completed")[0]["error"]


# ---- bots: what went wrong in openbot, with the engine that it used ----------------------------------

class Bots:
    """A bot whose engine is Codex, and a repository."""

    def __init__(self, codex, repo):
        self.codex, self.home, self.repo = codex, codex.home, repo
        self.make("worker")

    def make(self, name):
        self.home.ok("bots", "create", name, "--engine", "codex", "--instructions", "Do the work.", "--sleep", "0")

    def run(self, *args, bot="worker", **more):
        return self.home.cli("run", bot, *args, cwd=self.repo.root, env={"HERE_CRED": KEY}, timeout=60, **more)

    def start(self, *args, bot="worker", **more):
        return self.home.popen("run", bot, *args, cwd=self.repo.root, env={"HERE_CRED": KEY}, **more)

    def runs(self):
        return self.home.http("GET", "/runs").json()["runs"]

    def history(self):
        """metadata.json of each session, by its number."""
        found = [json.loads(p.read_text()) for p in self.home.dir.glob("bots/*/workspaces/*/history/*/metadata.json")]
        return sorted(found, key=lambda m: (m["bot"], m["session_number"]))


@pytest.fixture
def bots(codex, tmp_path):
    return Bots(codex, Repo(tmp_path / "project", {"README": "hello\n"}))


def complete(number=9, action="review", summary="the work is done"):
    return call("session_complete", {"summary": summary, "action": action}, number)


COMMIT = "echo new > new.txt && git add -A && git -c user.name=B -c user.email=b@x commit -qm 'add new' && echo committed"


def test_defect_14_codex_commits_and_saves_skills_and_memory(bots, codex):
    codex.model.answers += [call("exec_command", {"cmd": COMMIT}, 1),
                            call("skill_save", {"name": "greet", "description": "how to greet", "body": "Say hello."}, 2),
                            call("memory", {"action": "set", "key": "colour", "value": "blue"}, 3), complete(4), say("bye")]
    done = bots.run("go")
    assert done.returncode == 0, done.stderr
    branch = bots.runs()[0]["branch"]
    assert bots.repo.show(branch, "new.txt") == "new\n" and "add new" in bots.repo.git("log", branch)
    assert list(bots.home.dir.glob("bots/worker/skills/**/greet*")) or list(bots.home.dir.glob("bots/worker/skills/greet*"))
    assert "blue" in bots.home.ok("memory", "show", "worker", cwd=bots.repo.root)
    assert bots.history()[0]["engine"] == "codex" and bots.history()[0]["end_reason"] == "complete"
    assert bots.repo.git("status", "--porcelain") == ""


def test_iterations_go_on_with_one_conversation(bots, codex):
    codex.model.answers += [say("first half"), call("session_history", {"action": "list"}, 2), complete(3), say("second half")]
    done = bots.run("-n", "2")
    assert done.returncode == 0, done.stderr
    assert "first half" in json.dumps(codex.requests()[1]["input"])
    assert [m["session_number"] for m in bots.history()] == [1, 2]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_defects_1_2_and_5_a_signal_ends_the_run_and_keeps_metadata_and_work(bots, codex, signum):
    codex.model.answers += [call("exec_command", {"cmd": "echo half > half.txt; echo ready; sleep 600"})]
    run = bots.start("go")
    retry(lambda: [p for p in codex.home.dir.glob("worktrees/*/*/half.txt") if p.read_text()])
    run.send_signal(signum)
    run.communicate(timeout=30)
    assert run.returncode == 130
    meta = retry(lambda: [m for m in bots.history() if m["ended_at"]])[0]
    assert meta["end_reason"] == "interrupted" and meta["tokens"]["input_tokens"] is not None
    assert bots.repo.show(bots.runs()[0]["branch"], "half.txt") == "half\n"
    retry(lambda: not codex.processes())


def test_defect_3_stdin_at_eof_is_not_an_end(bots, codex):
    codex.model.answers += [complete(), say("bye")]
    assert bots.run("go", input="").returncode == 0
    assert bots.history()[0]["end_reason"] == "complete"


def test_defect_6_text_is_cut_at_borders_of_characters(bots, codex):
    codex.model.answers += [complete(summary="ü€😀" * 400), say("ü€😀" * 400)]
    assert bots.run("ä€😀" * 100).returncode == 0
    bots.history()[0]["response_summary"].encode()


def test_defect_7_the_printed_resume_line_works(bots, codex):
    codex.model.answers += [say("so far")]
    done = bots.run("-n", "1")
    line = next(x for x in done.stderr.splitlines() if x.startswith("resume: "))
    codex.model.answers += [complete(), say("all of it")]
    more = bots.home.cli(*line.split()[2:], cwd=bots.repo.root, env={"HERE_CRED": KEY}, timeout=60)
    assert more.returncode == 0, more.stderr
    assert "so far" in json.dumps(codex.requests()[-1]["input"])
    assert len(bots.history()) == 2


def test_a_run_resumed_after_a_restart_goes_on_with_codexs_thread(bots, codex):
    codex.model.answers += [say("half done")]
    done = bots.run("-n", "1")
    line = next(x for x in done.stderr.splitlines() if x.startswith("resume: ")).split()[2:]
    bots.home.kill_hub()
    codex.model.answers += [complete(), say("all of it")]
    more = bots.home.cli(*line, cwd=bots.repo.root, env={"HERE_CRED": KEY}, timeout=60)
    assert more.returncode == 0, more.stderr
    asked = json.dumps(codex.requests()[-1]["input"])
    assert "half done" in asked and TOLD not in asked
    # the thread is the second session's now: nothing else may go on with it
    first, second = bots.history()
    assert "engine_thread" not in first and second["engine_thread"]


def test_defect_8_10_and_13_any_checkout_and_any_path(bots, codex, tmp_path):
    linked = tmp_path / "linked"
    bots.repo.git("worktree", "add", "-q", "--detach", str(linked))
    (linked / "grüße \"quoted\".txt").write_text("dirty\n")
    codex.model.answers += [call("exec_command", {"cmd": "cat gr*"}), complete(2), say("bye")]
    done = bots.home.cli("run", "worker", "go", cwd=linked, env={"HERE_CRED": KEY}, timeout=60)
    assert done.returncode == 0, done.stderr
    results = of_type(codex.events(bots.history()[0]["session_id"]), "tool.completed")
    assert results[0]["output"] == "dirty\n"


def test_defect_9_two_runs_at_once_have_branches_and_numbers_of_their_own(bots, codex):
    codex.model.answers += [complete(), complete(), say("bye"), say("bye")]
    runs = [bots.start("go"), bots.start("go")]
    for run in runs:
        _, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
    assert sorted(m["session_number"] for m in bots.history()) == [1, 2]
    assert len({r["branch"] for r in bots.runs()}) == 2


def test_defect_11_commands_look_at_what_a_run_uses(bots, codex):
    bots.home.ok("memory", "set", "worker", "colour", "red", cwd=bots.repo.root)
    codex.model.answers += [complete(), say("bye")]
    assert bots.run("go").returncode == 0
    assert "red" in json.dumps(codex.requests()[0]["input"])


def test_defect_12_a_provider_that_always_refuses_ends_the_run(bots, codex):
    codex.model.answers += [(400, "never")] * 20
    done = bots.run("-n", "0")
    assert done.returncode == 1 and bots.history()[-1]["end_reason"] == "failed"
    assert len(bots.history()) < 20


def test_defect_4_sleep_sleeps(bots, codex):
    codex.model.answers += [say("one"), complete(2), say("two")]
    done = bots.run("-n", "2", "--sleep", "1")
    assert done.returncode == 0, done.stderr
    times = [m["started_at"] for m in bots.history()]
    seconds = [float(t[17:23]) for t in times]
    assert (seconds[1] - seconds[0]) % 60 >= 1.0
