"""Engines that crash, hang, flood or talk nonsense: the turn fails with its reason, and nothing is left running."""
import pathlib

import pytest

from conftest import retry
from engine_rig import Engine, of_type, post

PROGRAM = pathlib.Path(__file__).with_name("fake_codex.py")


@pytest.fixture
def fake(home, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    engine = Engine(home, work, "codex", "openai-responses", PROGRAM)
    yield engine
    engine.model.close()


def left_running(home, word):
    """Processes that were started for this home and have `word` in their command line."""
    found = []
    for dir in pathlib.Path("/proc").iterdir():
        try:
            if dir.name.isdigit() and word.encode() in (dir / "cmdline").read_bytes() \
                    and str(home.dir).encode() in (dir / "environ").read_bytes():
                found.append(int(dir.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("mode, says", [("crash", "the engine exited with 7: boom"), ("garbage", "no JSON object"),
                                        ("line", "a line above 16 MiB")])
def test_what_cannot_go_on_fails_the_turn_with_its_reason(fake, home, mode, says):
    done = fake.chat("go", FAKE=mode)
    assert done.returncode == 1 and says in done.stderr
    assert of_type(fake.events(), "turn.failed")[0]["error"]["code"] == "ENGINE_FAILED"
    retry(lambda: not left_running(home, "fake_codex") and not left_running(home, "987654"))


def test_an_engine_that_says_nothing_is_ended(fake, home):
    config = home.dir / "config.toml"
    config.write_text(config.read_text() + "[retry]\nidle_ms = 700\n")
    done = fake.chat("go", FAKE="silent")
    assert done.returncode == 1 and of_type(fake.events(), "turn.failed")[0]["error"]["code"] == "ENGINE_IDLE"
    retry(lambda: not left_running(home, "fake_codex"))


def test_an_engine_that_does_not_hear_an_interrupt_is_ended(fake, home, hub):
    id = fake.new_with(FAKE="silent")
    fake.send(id, "go", wait=False)
    retry(lambda: of_type(fake.events(id), "message.delta"))
    post(home, f"/session/{id}/interrupt")
    post(home, f"/session/{id}/interrupt")  # asked twice: at once
    retry(lambda: of_type(fake.events(id), "turn.interrupted"))
    retry(lambda: not left_running(home, "fake_codex"))


@pytest.mark.parametrize("purge", ["", "?purge=true"])
def test_a_session_ends_after_its_process(fake, home, hub, purge):
    id = fake.new_with(FAKE="stubborn")
    assert fake.send(id, "go")["text"] == "done"
    assert left_running(home, "fake_codex")
    assert home.http("DELETE", f"/session/{id}{purge}").status < 300
    assert not left_running(home, "fake_codex")  # it ignores SIGTERM: the answer came after SIGKILL


def test_a_flood_is_journaled_as_fast_as_the_disk_takes_it(fake, home):
    done = fake.chat("go", FAKE="flood")
    assert done.returncode == 0 and "that was much" in done.stdout
    peak = next(x for x in pathlib.Path(f"/proc/{home.hub_pid()}/status").read_text().splitlines() if x.startswith("VmHWM"))
    assert int(peak.split()[1]) < 600_000  # KB, with the sanitizer's; 20 MB came


def test_messages_without_sense_are_passed_over_and_every_question_is_answered(fake):
    done = fake.chat("go", FAKE="odd")
    assert done.returncode == 0 and "odd, but done" in done.stdout, done.stderr


def test_a_command_that_was_not_asked_about_ends_the_turn(fake, home):
    config = home.dir / "config.toml"
    config.write_text(config.read_text() + '[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n')
    done = fake.chat("go", FAKE="unasked")
    assert done.returncode == 1
    assert of_type(fake.events(), "turn.failed")[0]["error"]["code"] == "PERMISSION_DENIED"


def test_a_codex_that_lacks_a_method_is_named_with_the_way_out(fake):
    done = fake.chat("go", FAKE="old")
    assert done.returncode == 1
    assert "it has no 'turn/steer'" in done.stderr and "npm install -g @openai/codex" in done.stderr


@pytest.mark.parametrize("engine, install", [("codex", "npm install -g @openai/codex"),
                                             ("claude", "npm install -g @anthropic-ai/claude-code")])
def test_a_missing_program_is_named_with_the_command_that_installs_it(home, tmp_path, engine, install):
    done = home.cli("chat", "go", "--engine", engine, "--cwd", str(tmp_path), env={"PATH": str(tmp_path)})
    assert done.returncode == 1 and install in done.stderr and f"'{engine}'" in done.stderr


def test_an_unknown_engine_and_an_unfit_provider_are_named(fake, home, tmp_path):
    done = home.cli("chat", "go", "--engine", "nonesuch", "--cwd", str(tmp_path), env={"HERE_CRED": "k"})
    assert done.returncode != 0 and "there is no engine 'nonesuch'" in done.stderr
    (home.dir / "config.toml").write_text(f'[engines.claude]\ncommand = "{PROGRAM}"\n')
    done = home.cli("chat", "go", "--engine", "claude", "--provider", "scripted", "--cwd", str(tmp_path))
    assert done.returncode == 1 and "anthropic" in done.stderr


def test_doctor_says_which_engines_there_are(home, tmp_path):
    checks = {c["name"]: c for c in home.json("doctor", env={"PATH": str(tmp_path)})["checks"]}
    assert checks["engine codex"]["status"] == "ok" and "npm install -g @openai/codex" in checks["engine codex"]["detail"]
    (home.dir / "config.toml").write_text(f'[engines.codex]\ncommand = "{PROGRAM}"\n[engines.claude]\ncommand = "/not/there"\n')
    checks = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert checks["engine codex"]["detail"] == str(PROGRAM)
    assert checks["engine claude"]["status"] == "warn" and "npm install" in checks["engine claude"]["hint"]


def test_models_lists_the_engines_with_their_programs_and_versions(home, hub, tmp_path):
    (tmp_path / "claude").write_text("#!/bin/sh\ntouch %s/ran; exit 3\n" % tmp_path)
    (tmp_path / "claude").chmod(0o755)
    (home.dir / "config.toml").write_text(f'[engines.codex]\ncommand = "{PROGRAM}"\n[engines.mine]\nkind = "acp"\ncommand = "nonesuch"\n')
    home.ok("reload")
    path = f"{tmp_path}:/usr/bin:/bin"
    listed = {e["name"]: e for e in home.json("models", env={"PATH": path})["engines"]}
    assert list(listed) == ["codex", "claude", "acp", "mine"]
    assert listed["codex"] == {"name": "codex", "kind": "codex", "installed": True, "version": "codex-fake 9.9.1",
                               "program": str(PROGRAM), "install": "npm install -g @openai/codex"}
    # a program that does not say its version is installed all the same; it ran where nothing can be written
    assert listed["claude"]["installed"] and listed["claude"]["version"] is None
    assert listed["claude"]["program"] == f"{tmp_path}/claude" and not (tmp_path / "ran").exists()
    assert not listed["acp"]["installed"] and listed["acp"]["install"] is None
    assert listed["mine"]["kind"] == "acp" and not listed["mine"]["installed"] and listed["mine"]["program"] is None
    shown = home.ok("models", env={"PATH": "/usr/bin:/bin"})
    assert "codex-fake 9.9.1" in shown and "npm install -g @anthropic-ai/claude-code" in shown
    assert "not installed" in shown and "set 'command' in [engines.acp]" in shown
    rows = home.http("GET", "/provider").json()
    assert [e["name"] for e in rows["engines"]] == ["codex", "claude", "acp", "mine"] and rows["providers"]


def test_an_engine_that_the_settings_drop_before_its_turn_begins_is_said_to_be_gone(fake, home, hub):
    """The turn waits for the project's environment while [engines.NAME] goes."""
    config, built, go = home.dir / "config.toml", fake.work / "built", fake.work / "go"
    config.write_text(config.read_text() + f'[engines.mine]\nkind = "codex"\ncommand = "{PROGRAM}"\n')
    fake.name = "mine"
    retry(lambda: "engines.mine.kind" in home.http("GET", "/config").body.decode())
    (fake.work / ".afloat").mkdir()
    (fake.work / ".afloat" / "env.toml").write_text('script = "env.sh"\n')
    (fake.work / "env.sh").write_text(f"touch '{built}'; while [ ! -e '{go}' ]; do sleep 0.05; done\n")
    home.ok("trust", str(fake.work))
    id = fake.new()
    fake.send(id, "go", wait=False)
    retry(built.exists)
    config.write_text(config.read_text().split("[engines.mine]")[0])
    retry(lambda: "engines.mine.kind" not in home.http("GET", "/config").body.decode())
    go.touch()
    failed = retry(lambda: of_type(fake.events(id), "turn.failed"))[0]["error"]
    assert failed == {"code": "ENGINE_MISSING", "message": "there is no engine 'mine' any more"}
