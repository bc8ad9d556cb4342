"""Hooks by command: [[command_hooks]] in the settings, in the format of Claude Code."""
import json
import os

import pytest

from conftest import retry
from test_hosts import events_of, scenario


@pytest.fixture(autouse=True)
def work(home, tmp_path):
    home.work = str(tmp_path)


def set_hooks(home, *hooks):
    text = "".join("[[command_hooks]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in h.items()) + "\n" for h in hooks)
    beside = home.dir / ".config.new"
    beside.write_text(text)
    os.rename(beside, home.dir / "config.toml")


def script(home, name, text):
    path = home.dir / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def turn(home, *lines, text="go"):
    env = scenario(home, *lines)
    got = home.json("api", "POST", "/session", json.dumps({"working_dir": home.work}), env=env)
    body = json.dumps({"text": text, "wait": True, "env": env})
    answer = home.json("api", "POST", f"/session/{got['id']}/message", body)
    return got["id"], answer


def shell(cmd):
    return {"text": "Look.", "tool_calls": [{"name": "shell", "input": {"cmd": cmd}}]}


def test_a_hook_sees_the_call_blocks_it_changes_it_and_adds_to_the_result(home):
    pre = script(home, "pre.sh", f'''cat > {home.dir}/seen.json
if grep -q forbidden {home.dir}/seen.json; then echo "not that" >&2; exit 2; fi
if grep -q 'echo one' {home.dir}/seen.json; then
  echo '{{"hookSpecificOutput": {{"permissionDecision": "allow", "updatedInput": {{"command": "echo two"}}}}}}'; fi
''')
    post = script(home, "post.sh", f'echo >> {home.dir}/posts\n' 'echo \'{"hookSpecificOutput": {"additionalContext": "checked by post"}}\'\n')
    set_hooks(home, {"event": "PreToolUse", "matcher": "Bash", "command": pre},
              {"event": "PostToolUse", "matcher": "Bash|Edit", "command": post})
    session, answer = turn(home, shell("echo one"), {"text": "Done."})
    assert answer["state"] == "completed"
    seen = json.loads((home.dir / "seen.json").read_text())
    assert seen["hook_event_name"] == "PreToolUse" and seen["tool_name"] == "Bash" and seen["session_id"] == session
    assert seen["tool_input"] == {"command": "echo one"} and seen["cwd"] == home.work
    done = events_of(home, session, "tool.completed")[0]
    assert done["output"] == "two\n\nchecked by post" and done["success"]
    session, answer = turn(home, shell("echo forbidden"), {"text": "Done."})
    assert "not that" in json.dumps(events_of(home, session, "tool.completed"))
    assert (home.dir / "posts").read_text() == "\n", "it runs after tools that ran"


def test_failure_and_time_are_what_the_settings_say(home):
    for command, failure, ok in (("exit 3", "allow", True), ("exit 4", "block", False), ("sleep 30", "block", False),
                                 ("/no/such/program", "block", False), ("echo '{broken'", "block", False)):
        set_hooks(home, {"event": "PreToolUse", "command": command, "timeout_s": 1, "on_failure": failure})
        retry(lambda: command in json.dumps(home.json("api", "GET", "/config")))
        home.ok("reload")     # the run that takes the new settings over is done
        session, _ = turn(home, shell("echo ran"), {"text": "Done."})
        done = events_of(home, session, "tool.completed")[0]
        assert done["success"] is ok, (command, done)


def test_prompts_sessions_and_ends_run_their_commands(home):
    note = script(home, "note.sh", f'cat >> {home.dir}/notes; echo >> {home.dir}/notes\n')
    context = script(home, "context.sh", 'cat > /dev/null; echo "The build is green."\n')
    guard = script(home, "guard.sh", 'if grep -q secret; then echo "{\\"decision\\": \\"block\\", \\"reason\\": \\"no secrets\\"}"; fi\n')
    set_hooks(home, {"event": "SessionStart", "command": context}, {"event": "UserPromptSubmit", "command": guard},
              {"event": "Stop", "command": note})
    session, answer = turn(home, {"text": "Done."})
    assert answer["state"] == "completed"
    assert "The build is green." in next(home.dir.glob(f"sessions/{session}*/requests.jsonl")).read_text()
    retry(lambda: (home.dir / "notes").exists() and '"Stop"' in (home.dir / "notes").read_text())
    _, answer = turn(home, {"text": "Done."}, text="tell the secret")
    assert answer["state"] == "failed" and "no secrets" in answer["error"]["message"]


def test_a_wrong_hook_in_the_settings_refuses_sessions(home):
    set_hooks(home, {"event": "PreToolUs", "command": "true"})
    done = home.cli("chat", "hi")
    assert done.returncode != 0 and "config.toml:2" in done.stderr, done.stderr


def test_hooks_of_claude_code_are_imported(home, tmp_path):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo \"no\" >&2; exit 2", "timeout": 5}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "true"}, {"type": "prompt", "prompt": "x"}]}],
        "TeammateIdle": [{"hooks": [{"type": "command", "command": "x"}]}]}}))
    done = home.cli("hooks", "import", str(settings))
    assert done.returncode == 0, done.stderr
    assert "type 'prompt'" in done.stderr and "TeammateIdle" in done.stderr and "2 hooks" in done.stderr
    (home.dir / "config.toml").write_text(done.stdout)
    session, _ = turn(home, shell("echo ran"), {"text": "Done."})
    assert not events_of(home, session, "tool.completed")[0]["success"]
    settings.write_text("{}")
    assert home.cli("hooks", "import", str(settings)).returncode == 3
