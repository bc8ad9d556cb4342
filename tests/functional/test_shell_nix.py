"""A nix shell as `nix develop` would give it: with a nix that prints what the real one was recorded to print, and with
the real one."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import BIN, retry
from test_shell import PROMPT, ask, place  # noqa: F401


def answer(greeting, **functions):
    return json.dumps({"bashFunctions": functions, "variables": {
        "GREETING": {"type": "exported", "value": greeting},
        "shellHook": {"type": "exported", "value": "export HOOKED=$GREETING; from_hook() { echo hook $GREETING; }"}}})


def test_functions_and_hook_of_a_flake_are_in_bash_and_follow_its_imports(place):
    tools = place.user / "tools"
    tools.mkdir()
    (tools / "nix").write_text("#!/bin/sh\nexec cat answer.json\n")
    (tools / "nix").chmod(0o755)
    place.home.env["PATH"] = f"{tools}:{os.environ['PATH']}"
    place.rc("bash", "alias printf='printf aliased'\nmine() { echo own; }\n")
    place.write("import ./shell.nix", "flake.nix")
    place.write("1", "shell.nix")
    place.write(answer("one", greet=" printf \"hi $1 $GREETING\\n\" ", gone=" : ", mine=" echo theirs "), "answer.json")
    place.home.ok("trust", "--follow", str(place.project))
    t = place.enter()
    assert ask(t, "printenv HOOKED") == "one"
    assert ask(t, "greet you") == "hi you one"
    assert ask(t, "from_hook") == "hook one"
    assert ask(t, "mine") == "own"  # the user's own stays
    place.write(answer("two", greet=" echo \"ho $1\" "), "answer.json")
    place.write("2", "shell.nix")  # which the flake imports
    assert retry(lambda: ask(t, "printenv HOOKED") == "two")
    assert ask(t, "greet you") == "ho you"
    assert ask(t, "type -t gone mine") == "function"
    assert ask(t, "mine") == "own"
    assert place.end(t) == 0

# ---- the real nix -----------------------------------------------------------------------------------

needs_nix = pytest.mark.skipif(shutil.which("nix") is None, reason="nix is not installed (Debian: nix-bin)")

FLAKE = '''{ outputs = { self }: { devShells.SYSTEM.default = derivation ({
  name = "tiny"; system = "SYSTEM"; builder = "/bin/bash"; args = [ "-c" "export > $out" ]; outputs = [ "out" ]; stdenv = ./std;
} // import ./nix/shell.nix { name = "more"; }); }; }
'''
SHELL = '''{ name }: import (../mods + "/${name}.nix") // { shellHook = builtins.readFile ./hook; IMPORTED = "one"; }
'''
HOOK = '''export HOOKED="$IMPORTED by hook"
export PATH=$PWD/tools:$PATH
from_hook() { echo "hook $1 $IMPORTED"; }
'''


@pytest.fixture
def flake(place):
    """A flake with its own stdenv, for a nix that has a store of its own and no network."""
    system = {"x86_64": "x86_64-linux", "aarch64": "aarch64-linux"}.get(os.uname().machine)
    store = place.user / "nix"
    place.home.env.update(NIX_STORE_DIR=f"{store}/store", NIX_STATE_DIR=f"{store}/var", NIX_LOG_DIR=f"{store}/log",
                          NIX_CONF_DIR=str(store), NIX_USER_CONF_FILES="")
    place.home.env.pop("NIX_REMOTE", None)
    store.mkdir()
    (store / "nix.conf").write_text("experimental-features = nix-command flakes\nsandbox = false\nbuild-users-group =\n"
                                    "substituters =\nflake-registry =\n")
    place.write(FLAKE.replace("SYSTEM", system), "flake.nix")
    place.write(SHELL, "nix/shell.nix")
    place.write(HOOK, "nix/hook")
    place.write('{ MORE = "one"; }', "mods/more.nix")
    place.write("export PATH=/usr/bin:/bin\nfrom_std() { echo std; }\n", "std/setup")
    place.write("#!/bin/sh\necho a tool\n", "tools/tool")
    (place.project / "tools/tool").chmod(0o755)
    return place


def edit(place, name, old, new):
    path = place.project / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@needs_nix
def test_imports_of_a_flake_are_followed_and_its_hook_is_run(flake):
    flake.trust()
    t = flake.enter()
    assert ask(t, "printenv HOOKED") == "one by hook"
    assert ask(t, "from_hook x; from_std; tool") == "hook x one\nstd\na tool"
    inputs = {i["path"]: i["kind"] for i in flake.ctl("inputs")["inputs"]}
    for name in ["flake.nix", "nix/shell.nix", "nix/hook", "mods/more.nix"]:
        assert inputs[f"{flake.project}/{name}"] == "file", inputs
    edit(flake, "nix/shell.nix", '"one"', '"two"')
    assert retry(lambda: ask(t, "printenv HOOKED") == "two by hook")
    assert ask(t, "from_hook x") == "hook x two"
    edit(flake, "mods/more.nix", '"one"', '"two"')  # a path that only nix can put together
    assert retry(lambda: ask(t, "printenv MORE") == "two")
    edit(flake, "nix/hook", "from_hook", "other")
    assert retry(lambda: ask(t, "other y") == "hook y two")
    assert ask(t, "type -t from_hook") == ""
    assert flake.end(t) == 0


@needs_nix
@pytest.mark.parametrize("kind", ["zsh", "fish"])
def test_what_a_shell_hook_exports_reaches_every_shell(flake, kind):
    flake.trust()
    t = flake.enter(shell=kind)
    assert ask(t, "printenv HOOKED; tool") == "one by hook\na tool"
    edit(flake, "nix/shell.nix", '"one"', '"two"')
    assert retry(lambda: ask(t, "printenv HOOKED") == "two by hook")
    assert flake.end(t) == 0


@needs_nix
def test_a_broken_edit_of_a_flake_keeps_the_last_good_environment(flake):
    flake.trust()
    t = flake.enter()
    edit(flake, "nix/shell.nix", "IMPORTED", "IMPORTED IMPORTED")
    def failed():
        ask(t, "true")
        return b"the environment failed, the old one stays" in t.seen
    assert retry(failed)
    said = ask(t, f'"{BIN}" env error')
    assert "syntax error" in said and "nix/shell.nix" in said and "evaluating file" not in said
    assert ask(t, "printenv HOOKED; from_hook x") == "one by hook\nhook x one"
    edit(flake, "nix/shell.nix", 'IMPORTED IMPORTED = "one"', 'IMPORTED = "two"')
    assert retry(lambda: ask(t, "printenv HOOKED") == "two by hook")
    edit(flake, "nix/hook", "from_hook", "false; exit 3\nfrom_hook")
    assert retry(lambda: "shellHook: 'bash' ended with status 3" in ask(t, f'"{BIN}" env error'))
    assert ask(t, "from_hook x") == "hook x two"
    assert flake.end(t) == 0


@needs_nix
def test_files_that_a_flake_imports_are_trusted_content(flake):
    edit(flake, "nix/shell.nix", '../mods + "/${name}.nix"', "../mods/more.nix")
    flake.home.ok("env", "allow", str(flake.project))  # what is there now
    t = flake.enter()
    assert ask(t, "printenv HOOKED MORE") == "one by hook\none"
    for name, old, new in [("mods/more.nix", "one", "two"), ("nix/hook", "by hook", "by another hook")]:
        edit(flake, name, old, new)  # by somebody else
        assert retry(lambda: "is not trusted" in ask(t, f'"{BIN}" env error'))
        assert ask(t, "printenv HOOKED") == "one by hook"
        flake.home.ok("env", "allow", str(flake.project))
        assert retry(lambda: ask(t, f'"{BIN}" env error') == "")
    assert retry(lambda: ask(t, "printenv HOOKED MORE") == "one by another hook\ntwo")
    assert flake.end(t) == 0


@needs_nix
def test_a_file_that_nobody_could_see_in_the_flake_is_refused(flake):
    flake.home.ok("env", "allow", str(flake.project))
    done = flake.home.cli("shell", "true", cwd=flake.project)
    assert done.returncode != 0
    assert "'mods/more.nix' is evaluated, and it is not among the trusted files" in done.stderr


@needs_nix
def test_a_failed_environment_is_tried_again_by_the_key(flake):
    """nix sees what git knows: `git add` mends the build, and no input has changed."""
    for args in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *args], cwd=flake.project, env=flake.home.env, check=True)
    flake.trust()
    t = flake.enter()
    flake.write('{ NEW = "new"; }', "mods/new.nix")
    edit(flake, "nix/shell.nix", "// {", "// import ../mods/new.nix // {")
    def failed():
        ask(t, "true")
        return b"(press Ctrl-Alt-R to try again)" in t.seen
    assert retry(failed)
    ask(t, "git add mods/new.nix")
    t.expect(PROMPT)
    t.send(b"\x1b\x12")
    assert retry(lambda: ask(t, "printenv NEW") == "new")
    assert flake.end(t) == 0
