"""What users have in their rc files, and do in their shells, must not break `afloat shell`, nor be broken by it."""
import subprocess

import pytest

from conftest import BIN, DEADLINE, retry
from test_shell import PROMPT, ask, place, shell  # noqa: F401


@pytest.mark.parametrize("rc", ["set -u\n", "readonly PROMPT_COMMAND=true\n", "readonly PROMPT_COMMAND\n",
                                "set -u\nunset PROMPT_COMMAND\n", "set -u\nPROMPT_COMMAND=(true)\n"])
def test_a_strict_bashrc_gets_edits_all_the_same(place, rc):
    place.rc("bash", rc)
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.start()
    t.expect(rb"P> ")
    place.write('[env]\nFOO = "two"\n')
    assert retry(lambda: ask(t, "printenv FOO") == "two")
    assert place.end(t) == 0
    assert b"bash:" not in t.seen


def test_a_strict_zshrc_gets_edits_all_the_same(place):
    place.rc("zsh", "setopt nounset\n")
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell="zsh")
    place.write('[env]\nFOO = "two"\n')
    assert retry(lambda: ask(t, "printenv FOO") == "two")
    assert place.end(t) == 0
    assert b"parameter not set" not in t.seen


def test_what_the_user_puts_first_in_path_stays_first(place, shell):
    place.write('[path]\nprepend = ["bin", "tools"]\n')
    place.trust()
    t = place.enter(shell=shell)
    ours = f"{place.project}/bin:{place.project}/tools:"
    ask(t, "set -gx PATH /venv/bin $PATH" if shell == "fish" else "export PATH=/venv/bin:$PATH")
    assert ask(t, "printenv PATH").startswith(f"/venv/bin:{ours}")
    place.rebuild('[path]\nprepend = ["bin", "other"]\n')  # a reload moves it no more than a prompt
    assert ask(t, "printenv PATH").startswith(f"/venv/bin:{place.project}/bin:{place.project}/other:")
    place.rebuild('[env]\nFOO = "1"\n')
    assert ask(t, "printenv PATH").startswith("/venv/bin:")
    assert str(place.project) not in ask(t, "printenv PATH")
    assert place.end(t) == 0


def test_another_shell_than_ours_is_refused(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    for args in (["--shell", "/bin/dash"], ["--shell", "/bin/dash", "-c", "echo x"]):
        r = subprocess.run([BIN, "shell", *args], cwd=place.project, env=place.home.env, capture_output=True, text=True)
        assert r.returncode == 2 and r.stdout == "", r
        assert "'--shell' takes bash, zsh or fish, not '/bin/dash'" in r.stderr


def test_init_shell_edit(place):
    """As on the first page: a first file, a shell, an edit."""
    def init():
        return subprocess.run([BIN, "env", "init"], cwd=place.project, env=place.home.env, capture_output=True, text=True)
    r = init()
    assert r.returncode == 0 and "now and after every edit" in r.stderr, r
    t = place.enter()
    place.write('[env]\nFOO = "mine"\n')
    assert retry(lambda: ask(t, "printenv FOO") == "mine")
    t.expect(PROMPT)
    assert place.end(t) == 0


def test_init_in_a_project_that_brings_more_trusts_its_own_file_only(place):
    place.write("return {}\n", ".afloat/plugins/x.lua")
    r = subprocess.run([BIN, "env", "init"], cwd=place.project, env=place.home.env, capture_output=True, text=True)
    assert r.returncode == 0 and "trusted as it is now" in r.stderr, r
    assert "follow" not in place.home.ok("trust", "list")


def test_first_use_does_not_offer_to_follow_a_project_that_brings_more(place):
    place.write("return {}\n", ".afloat/plugins/x.lua")
    place.write('[env]\nFOO = "one"\n')
    t = place.start()
    t.expect(rb"'afloat trust --follow'.*Use it\? \[o\]nce.*show: ")
    t.send("f\r")  # no answer
    t.expect(rb"Use it\? .*show: ")
    t.send("n\r")
    assert t.process.wait(DEADLINE) == 4
    assert "no trusted projects" in place.home.cli("trust", "list").stderr
