"""A chat that waits at its prompt, and the full-screen interface, tell at once what broke or changed in the hub."""
import re
import shutil

import pytest

from chat_rig import Terminal
from conftest import retry
from test_config_faults import FAULTS
from test_plugins import answer, configure, put, reload
from test_tui import Tui

GOOD = 'command { name = "hi", description = "d", run = function() return "v%d" end }\n'


@pytest.fixture
def chat(home, start_hub, tmp_path):
    start_hub()
    (tmp_path / "w").mkdir()
    t = Terminal(home, "chat", "--color", "never", cwd=tmp_path / "w", cols=160)
    t.prompt()
    return t


def tells(chat, *words):
    """A line with all these words stands above the prompt, where what was typed and the cursor still are."""
    def is_told(screen):
        above = [re.sub(" +$", "", "".join(line)) for line in screen.lines[:screen.row]]
        typed = "".join(screen.lines[screen.row]).rstrip()
        return any(all(word in line for word in words) for line in above) and typed == "> half a line" and screen.col == len(typed)
    chat.frame(is_told)


def test_an_idle_chat_tells_of_plugins_and_keeps_what_is_typed(home, chat):
    chat.type("half a line")
    put(home, "plugins/p.lua", GOOD % 1)
    tells(chat, "generation 2: added p")
    put(home, "plugins/p.lua", "oh no\n")
    tells(chat, "plugin 'p': syntax error near 'no' (p.lua:1)")
    put(home, "plugins/p.lua", GOOD % 2)
    tells(chat, "generation 3: changed p")
    (home.dir / "plugins/p.lua").unlink()
    tells(chat, "generation 4: removed p")


@pytest.mark.parametrize("fault", FAULTS)
def test_an_idle_chat_tells_of_a_fault_in_the_settings(home, chat, fault):
    text, line, words, _ = FAULTS[fault]
    put(home, "ext/d/init.lua", answer(1))
    chat.type("half a line")
    configure(home, text)
    tells(chat, f"config.toml:{line}: ", words)
    configure(home, "")
    tells(chat, "the settings were read again")


def test_what_broke_during_a_turn_is_told_once_at_the_next_prompt(home, chat, tmp_path):
    chat.type('run "until test -e go; do sleep 0.05; done"\r')
    chat.frame(lambda s: s.busy())
    put(home, "plugins/p.lua", "oh no\n")
    retry(lambda: "p" in reload(home)["failed"])
    (tmp_path / "w/go").touch()
    chat.frame(lambda s: "plugin 'p': syntax error" in s.text() and s.asks("> ") and not s.busy())
    chat.type("thanks\r")
    chat.frame(lambda s: "> thanks" in s.text() and s.asks("> ") and not s.busy())
    assert chat.screen().count("plugin 'p': syntax error") == 1
    chat.type("\x04")
    assert chat.rest() == 0


def test_a_hub_that_was_started_again_is_heard_again(home, chat, start_hub):
    chat.type("half a line")
    home.ok("stop")
    start_hub()
    tells(chat, "the hub was started again")
    put(home, "plugins/p.lua", GOOD % 1)
    tells(chat, "added p")
    assert "lua:hub." not in chat.screen(), "its own modules are no news"


def test_a_terminal_that_cannot_be_drawn_on_tells_before_its_next_prompt(home, start_hub, tmp_path):
    start_hub()
    t = Terminal(home, "chat", cwd=tmp_path, env={"TERM": "dumb"})
    t.read(rb"> $")
    put(home, "plugins/p.lua", "oh no\n")
    retry(lambda: "p" in reload(home)["failed"])
    t.type("/cost\n")
    told = t.read(rb"\n> $")
    assert told.count(b"plugin 'p': syntax error near 'no' (p.lua:1)") == 1, told
    t.type("/quit\n")
    assert t.rest() == 0


def test_a_chat_that_begins_tells_of_the_fault_that_stands(home, start_hub):
    configure(home, "listne = 1\n")
    start_hub()
    said = home.cli("chat", "hello").stderr
    assert said.count("config.toml:1: unknown key 'listne', did you mean 'listen'?") == 1, said


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
def test_the_full_screen_interface_tells_too(home, tmp_path):
    home.ok("start")
    tui = Tui(home, tmp_path)
    try:
        put(home, "plugins/p.lua", "oh no\n")
        tui.shows("p.lua:1: syntax error")
        configure(home, "listne = 1\n")
        tui.shows("config.toml:1: unknown key 'listne'")
    finally:
        tui.close()
