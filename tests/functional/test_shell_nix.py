"""A nix shell as `nix develop` would give it, with a nix that prints what the real one was recorded to print."""
import json
import os

from conftest import retry
from test_shell import ask, place  # noqa: F401


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
