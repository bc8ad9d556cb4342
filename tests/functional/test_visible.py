"""Text of plugins, tools, projects and models on a terminal: every character is shown, none is obeyed."""
import json
import os

import pytest

from conftest import DEADLINE

# clear the screen, set the clipboard and the title, a DCS, C1, direction, no width, backspaces
EVIL = "\033[2J\033]52;c;ZXZpbA==\7\033]0;PWNED\7\033P+q\033\\ \u009b31m \u202egnp.exe\u200b\b\b"
LUA = EVIL.encode("unicode_escape").decode().replace("\\u009b", "\\xc2\\x9b").replace(
    "\\x9b", "\\xc2\\x9b").replace("\\u202e", "\\u{202e}").replace("\\u200b", "\\u{200b}")
RAW = [b"\033[2J", b"\033]", b"\033P", b"\7", b"\b", "\u009b".encode(), "\u202e".encode(), "\u200b".encode()]
PLUGIN = f'''plugin {{ api = "1.0", name = "evil", description = "{LUA}" }}
log.info("{LUA}")
command {{ name = "c", description = "{LUA}", run = function() return "{LUA}" end }}
tool {{ name = "tl", description = "{LUA}", input = {{}}, run = function() return "{LUA}" end }}
route("GET", "/r", function() return {{ a = "{LUA}" }} end)
on_final(function(ctx, text) return text .. "{LUA}" end)
'''
COMMANDS = [
    ["tool", "run", "tl"], ["evil:c"], ["tool", "list"], ["plugin", "list"], ["plugin", "show", "evil"],
    ["plugin", "show", "broken"], ["plugin", "logs", "evil"], ["plugin", "list", "--json"], ["logs"],
    ["reload", "--force"], ["doctor"], ["status"], ["api", "GET", "/api/plugins/evil/r"],
    ["api", "GET", "/plugin/evil"], ["chat", "go"], ["chat", "--json", "go"], ["events", "--types", "plugin.*,user.*"],
    ["events", "--json"], ["sessions", "list"], ["generations", "list"], ["config", "show"], ["models"],
    ["trust", "--dry-run", "."], ["trust", "--dry-run", "--diff", "."], ["env", "show"], ["env", "error"],
    ["skills", "list"], ["bots", "list"],
]


def on_terminal(home, args, cwd):
    """All that a command prints on a terminal of its own."""
    process, terminal = home.on_terminal(*args, cwd=cwd)
    seen = b""
    with terminal:
        try:
            while piece := os.read(terminal.fileno(), 65536):
                seen += piece
        except OSError:
            pass  # the other end is closed
    process.wait(DEADLINE)
    return seen


@pytest.fixture
def evil(home, start_hub, tmp_path):
    """A home and a project in which every text is hostile."""
    name = EVIL.replace("/", "")
    project = tmp_path / "project"
    (project / ".afloat" / "plugins").mkdir(parents=True)
    (project / ".afloat" / "plugins" / f"{name}.lua").write_text(f"-- {EVIL}\n")
    (project / ".afloat" / "env.toml").write_text(f"script = {json.dumps(name)}\n[env]\nA = 'x'\n")
    (project / name).write_text(f"echo {EVIL!r}; exit 1\n")
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"turns": [{"text": f"hello {EVIL}"}]}))
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins" / "evil.lua").write_text(PLUGIN)
    (home.dir / "plugins" / "broken.lua").write_text(f'error("{LUA}")\n')
    (home.dir / "skills").mkdir()
    (home.dir / "skills" / "s.md").write_text(f"---\nname: s\ndescription: {EVIL}\n---\n{EVIL}\n")
    home.env.update(TERM="xterm-256color", AFLOAT_PROVIDER="scripted", AFLOAT_SCENARIO=str(scenario))
    start_hub()
    home.ok("events", "emit", "user.x", json.dumps({"a": EVIL}))
    assert "PWNED" in home.ok("evil:c")
    return project


def test_no_command_obeys_what_it_prints_on_a_terminal(home, evil):
    for words in COMMANDS:
        seen = on_terminal(home, words, evil)
        assert seen, words
        raw = [sign for sign in RAW if sign in seen]
        assert not raw, (words, raw, seen)


def test_what_is_hidden_or_obeyed_is_shown_as_an_escape(home, evil):
    seen = on_terminal(home, ["tool", "run", "tl"], evil).decode()
    assert "\\x1b[2J\\x1b]52;c;ZXZpbA==\\x07" in seen and "\\u009b31m \\u202egnp.exe\\u200b\\x08" in seen


def test_json_on_a_terminal_is_still_json(home, evil):
    seen = on_terminal(home, ["plugin", "show", "evil", "--json"], evil)
    assert json.loads(seen)["metadata"]["description"] == EVIL


def test_a_pipe_gets_the_bytes_as_they_are(home, evil):
    assert home.ok("tool", "run", "tl").rstrip("\n") == EVIL


def test_the_trust_question_shows_names_and_text_of_files_harmlessly(home, evil):
    process, terminal = home.on_terminal("shell", cwd=evil)
    seen = b""
    with terminal:
        terminal.write(b"?\n")
        while seen.count(b"[?] show") < 2:
            seen += os.read(terminal.fileno(), 65536)
        terminal.write(b"n\n")
        assert process.wait(DEADLINE) == 4
    assert b"\\x1b[2J" in seen and not [sign for sign in RAW if sign in seen], seen
