"""Completions: the shells accept them, and they complete."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BIN, DEADLINE


def script(home, tmp_path, shell):
    path = tmp_path / f"afloat.{shell}"
    path.write_text(home.ok("completions", shell))
    return path


@pytest.mark.parametrize("shell,check", [("bash", "-n"), ("zsh", "-n"), ("fish", "-n")])
def test_the_shell_accepts_the_script(home, tmp_path, shell, check):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, check, script(home, tmp_path, shell)], capture_output=True,
                          text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")


def on_path(home):
    return {**home.env, "PATH": f"{pathlib.Path(BIN).parent}:{os.environ['PATH']}"}


def bash_complete(home, path, *words, cwd=None):
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _afloat; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", path, "afloat", *words], text=True, env=on_path(home), cwd=cwd,
                          capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_nouns_verbs_flags_and_choices(home, tmp_path):
    path = script(home, tmp_path, "bash")
    nouns = {r["noun"] for r in home.json("help")["commands"] if r["group"] != "Started by afloat itself"}
    assert bash_complete(home, path, "") == nouns
    assert bash_complete(home, path, "sta") == {"start", "status"}
    assert bash_complete(home, path, "feature", "") == {"list", "enable", "disable"}
    assert bash_complete(home, path, "features", "e") == {"enable"}
    assert bash_complete(home, path, "--home", "x", "secret", "s") == {"set"}
    assert bash_complete(home, path, "completions", "") == {"bash", "zsh", "fish"}
    assert bash_complete(home, path, "help", "memory", "g") == {"get"}
    assert bash_complete(home, path, "mcp", "install", "c") == {"claude", "cursor", "codex"}
    assert {"--follow", "--types", "--json"} <= bash_complete(home, path, "events", "--")
    assert "--types" not in bash_complete(home, path, "status", "--")
    assert bash_complete(home, path, "feature", "enable", "") == set()
    assert bash_complete(home, path, "plugin", "new", "x", "--lang", "") == {"lua", "python", "node", "c"}
    home.dir.mkdir(exist_ok=True)
    (home.dir / "config.toml").write_text('[engines.gemini]\nkind = "acp"\ncommand = "gemini"\n')
    assert bash_complete(home, path, "chat", "--engine", "") == {"native", "codex", "claude", "gemini"}


def test_fish_completes_nouns_and_verbs(home, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    path = script(home, tmp_path, "fish")

    def complete(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"],
                              capture_output=True, text=True, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, env={**on_path(home), "HOME": str(tmp_path)})
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    assert complete("afloat sta") == {"start", "status"}
    assert {"list", "enable", "disable"} <= complete("afloat feature ")
    assert "--types" in complete("afloat events --")


def test_zsh_completes_nouns_and_verbs(home, tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    path = script(home, tmp_path, "zsh")

    def complete(*words):
        code = ('compdef() { : }; compadd() { print -l -- $found }; _files() { : }; '
                'source "$1"; shift; words=("$@"); CURRENT=$#; _afloat')
        done = subprocess.run(["zsh", "-f", "-c", code, "zsh", path, "afloat", *words], text=True,
                              env=on_path(home), capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
        assert done.stderr == ""
        return set(done.stdout.split())

    assert {"start", "status", "feature"} <= complete("")
    assert complete("features", "") == {"list", "enable", "disable"}
    assert complete("--home", "x", "secret", "") == {"list", "set", "remove"}
    assert "--types" in complete("events", "--")


def test_names_of_what_exists_are_offered_and_no_hub_is_started(home, tmp_path):
    path = script(home, tmp_path, "bash")
    project = tmp_path / "project"
    (project / ".afloat").mkdir(parents=True)
    (project / ".afloat/env.toml").write_text('[[task]]\nname = "deps"\nrun = "true"\n')
    complete = lambda *words: bash_complete(home, path, *words, cwd=project)
    assert complete("env", "task", "") == {"deps"}
    assert complete("feature", "enable", "") == set()
    assert home.cli("status", "--no-start").returncode == 5  # asking started none
    home.ok("bots", "create", "fixer")
    home.ok("plugin", "save", "hello", "-", input="tool { name = 'greet', run = function() end }")
    session = home.json("api", "POST", "/session", "{}")["id"]
    assert complete("feature", "enable", "") == {"plugins"}
    assert complete("run", "f") == complete("chat", "--bot", "f") == complete("memory", "get", "fi") == {"fixer"}
    assert complete("plugin", "show", "he") == complete("reload", "he") == {"hello"}
    assert session in complete("sessions", "show", "") and session in complete("chat", "--resume", "")
    assert "greet" in complete("tool", "run", "gr")
    assert complete("chat", "--permission", "e") == {"edits"}
    assert complete("plugin", "new", "") == set()  # a new name is the user's
    assert complete("shell", "ls", "--") == set()  # another program's
    assert {"github", "bot-docs"} <= complete("template", "install", "")
    assert complete("chat", "-m", "scr") == {"scripted/scripted"}  # used by a session
    listed = {f"scripted/{model}" for model in home.ok("models", "scripted").split()}
    assert listed and complete("chat", "-m", "scripted/") == listed  # what the provider says it has


def test_names_of_secrets_are_offered_and_values_are_not(home, tmp_path):
    path = script(home, tmp_path, "bash")
    home.ok("secret", "set", "WORK_KEY", input="s3cret")
    for verb in ("set", "remove"):
        assert bash_complete(home, path, "secret", verb, "") == {"WORK_KEY"}


def test_a_mistyped_place_offers_nothing(home, hub, tmp_path):
    path = script(home, tmp_path, "bash")
    complete = lambda *words: bash_complete(home, path, *words, cwd=tmp_path)
    assert complete("chat", "-m", "nobody/") == set()
    home.ok("pty", "new", "--detach", "--", "sleep", "1000")
    assert len(complete("pty", "kill", "")) == 1
    home.ok("stop", "--all")


def test_a_title_cannot_reach_the_terminal_through_a_completion(home):
    home.json("api", "POST", "/session", json.dumps({"title": "a\x1b[2Jb"}))
    done = home.ok("complete", "afloat", "sessions", "show", "")
    assert "\x1b" not in done and "\\x1b[2J" in done
