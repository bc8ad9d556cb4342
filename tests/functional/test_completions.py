"""Completions: the shells accept them, and they complete."""
import json
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


def bash_complete(path, *words):
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _afloat; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", code, "bash", path, "afloat", *words], text=True,
                          capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_nouns_verbs_flags_and_choices(home, tmp_path):
    path = script(home, tmp_path, "bash")
    nouns = {r["noun"] for r in home.json("help")["commands"]}
    assert bash_complete(path, "") == nouns
    assert bash_complete(path, "sta") == {"start", "status"}
    assert bash_complete(path, "feature", "") == {"list", "enable", "disable"}
    assert bash_complete(path, "features", "e") == {"enable"}
    assert bash_complete(path, "--home", "x", "secret", "s") == {"set"}
    assert bash_complete(path, "completions", "") == {"bash", "zsh", "fish"}
    assert {"--follow", "--types", "--json"} <= bash_complete(path, "events", "--")
    assert "--types" not in bash_complete(path, "status", "--")
    assert bash_complete(path, "feature", "enable", "") == set()


def test_fish_completes_nouns_and_verbs(home, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    path = script(home, tmp_path, "fish")

    def complete(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"],
                              capture_output=True, text=True, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, env={**home.env, "HOME": str(tmp_path)})
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    assert complete("afloat sta") == {"start", "status"}
    assert {"list", "enable", "disable"} <= complete("afloat feature ")
    assert "--types" in complete("afloat events --")


def test_zsh_completes_nouns_and_verbs(home, tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    path = script(home, tmp_path, "zsh")

    def complete(*words):
        code = ('compdef() { : }; compadd() { shift; print -l -- "$@" }; _files() { : }; '
                'source "$1"; shift; words=("$@"); CURRENT=$#; _afloat')
        done = subprocess.run(["zsh", "-f", "-c", code, "zsh", path, "afloat", *words], text=True,
                              capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
        assert done.stderr == ""
        return set(done.stdout.split())

    assert {"start", "status", "feature"} <= complete("")
    assert complete("features", "") == {"list", "enable", "disable"}
    assert complete("--home", "x", "secret", "") == {"list", "set", "remove"}
    assert "--types" in complete("events", "--")
