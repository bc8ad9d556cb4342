"""The full-screen interface in a real terminal emulator (tmux): grids at several widths, every key of the help, answers
with one key, and an interface that changes while it is used."""
import json
import os
import pathlib
import random
import re
import select
import statistics
import subprocess
import time

import pytest

from chat_rig import SPINNER, FakeHub, Pane, Terminal
from conftest import DEADLINE, LOOPS, retry
from test_agent import Session, call, next_millisecond, one_call

pytestmark = pytest.mark.skipif(subprocess.run(["which", "tmux"], capture_output=True).returncode != 0,
                                reason="no tmux")


class Tui(Pane):
    """`afloat` alone in a window."""

    def __init__(self, home, dir, cols=80, rows=24, *args, env=None):
        super().__init__(home, dir, cols, rows, *args, env=env)
        self.home = home
        self.wait(lambda g: re.search(r"none yet|^│?[○?●✗▣] |│ MINE", "\n".join(g), re.M) and "Ctrl+P" in g[-1])

    def status(self):
        return self.grid()[-1]

    def press(self, key, *texts):
        """Press one key, then wait for what it brings."""
        self.keys(key)
        for text in texts:
            self.shows(text)

    def gone(self, text):
        return self.wait(lambda g: not any(text in line for line in g))

    def pid(self):
        return int(self.tmux("display", "-p", "#{pane_pid}"))

    def ended(self):
        return self.tmux("display", "-p", "#{pane_dead}").strip() == "1"

    def save(self, rel, text):
        """Save a file of the user's interface, as editors do: by rename."""
        path = self.home.dir / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / ".new").write_text(text)
        os.replace(path.parent / ".new", path)


@pytest.fixture
def tui(home, tmp_path):
    home.ok("start")
    dir = tmp_path / "w"
    dir.mkdir()
    made = []

    def start(*args, cols=80, rows=24, env=None):
        made.append(Tui(home, dir, cols, rows, *args, env=env))
        return made[-1]

    start.dir, start.home = dir, home
    yield start
    for pane in made:
        pane.close()


def banner(word):
    return ('return function(state, next)\n  local tree = next(state)\n'
            '  table.insert(tree.children, 1, { type = "text", text = "%s", size = 1 })\n  return tree\nend\n' % word)


LAYOUT = "lua/user/ui/layout.lua"

# ---- what is seen --------------------------------------------------------------------------------

GRID_80 = """\
╭─ Sessions ─────────────╮╭─ what is it? ──────────────────────────────────────╮
│○ what is it?           ││> what is it?                                       │
│                        ││Title                                               │
│                        ││                                                    │
│                        ││A paragraph that is longer than forty columns.      │
│                        ││                                                    │
│                        ││• one                                               │
│                        ││                                                    │
│                        ││  x = 1                                             │
│                        │╰────────────────────────────────────────────────────╯
│                        │╭────────────────────────────────────────────────────╮
│                        ││> message; Enter sends                              │
╰────────────────────────╯╰────────────────────────────────────────────────────╯
""".splitlines()

GRID_40 = """\
○ what is it?
> what is it?
Title

A paragraph that is longer than forty
columns.

• one

  x = 1



> message; Enter sends
""".splitlines()

GRID_160 = [
    "╭─ Sessions ─────────────────────╮╭─ what is it? " + "─" * 110 + "╮",
    "│○ what is it?                   ││> what is it?" + " " * 111 + "│",
]


def test_a_conversation_is_these_grids(tui):
    s = Session(tui.home, tui.dir, [{"text": "# Title\n\nA paragraph that is longer than forty columns.\n\n"
                                             "- one\n\n```\nx = 1\n```\n"}])
    s.ask("what is it?")
    pane = tui(rows=14)
    pane.press("Enter", "x = 1")
    pane.wait(lambda g: g[:-1] == GRID_80)
    assert re.match(r" gen \d+ · auto · scripted/scripted · /", pane.status())
    assert pane.status().endswith("Esc back · Tab next · Ctrl+P palette")
    pane.resize(40, 15)
    pane.wait(lambda g: g[:-1] == GRID_40)
    pane.resize(160, 14)
    pane.wait(lambda g: g[:2] == GRID_160)
    pane.resize(80, 14)
    pane.wait(lambda g: g[:-1] == GRID_80)


def test_a_session_is_begun_and_talked_to(tui):
    pane = tui()
    pane.press("C-n", "new session")
    pane.type("list the files")
    pane.press("Enter", "These files are there")
    pane.shows("○ list the files")
    assert tui.home.json("sessions")["sessions"][0]["working_dir"] == str(tui.dir)


def test_a_message_that_is_quicker_than_its_session_waits_for_it(tui):
    pane = tui()
    pane.tmux("send-keys", "C-n", *"list the files", "Enter")
    pane.shows("These files are there")
    assert len(tui.home.json("sessions")["sessions"]) == 1


def test_a_message_without_a_session_begins_one(tui):
    pane = tui()
    pane.press("i")
    pane.type("list the files")
    pane.press("Enter", "These files are there")


def test_what_needs_somebody_comes_first(tui):
    Session(tui.home, tui.dir, [one_call(cmd="true"), {"text": "x"}], permission="ask").send("older, asks")
    Session(tui.home, tui.dir, [{"text": "done"}]).ask("newer, idle")
    pane = tui()
    grid = pane.shows("needs you")
    rows = [line for line in grid if line.startswith("│")]
    assert "older, asks" in rows[0] and "newer, idle" in rows[1]


# ---- keys ----------------------------------------------------------------------------------------

def close_popup(pane, text):
    pane.keys("Escape")
    pane.gone(text)


def no_cursor(pane):
    """The focus is where nothing is typed."""
    return pane.tmux("display", "-p", "#{cursor_flag}").strip() == "0"


def make_old_ones(tui, n, cmd="true"):
    """A session with something in it, which runs `cmd` next, and `n` newer ones."""
    old = Session(tui.home, tui.dir, [{"text": "an answer of long ago"}, one_call(cmd=cmd), {"text": "x"}], title="the oldest of all")
    old.ask("first")
    for i in range(n):
        call(tui.home, "POST", "/session", {"title": f"number {i}", "working_dir": str(tui.dir)}, 201)
    return old


def test_a_session_that_is_not_among_the_newest_is_found(tui):
    make_old_ones(tui, 210)
    pane = tui()
    pane.shows("number 209")
    pane.press("/", "─ Sessions", "type to search")
    pane.type("oldest all")
    pane.wait(lambda g: "○ the oldest of all" in g[6] and "number" not in g[7][5:])
    pane.keys("Enter")
    pane.shows("an answer of long ago")
    pane.gone("type to search")


def test_the_list_reads_on_where_it_ends(tui):
    make_old_ones(tui, 210)
    pane = tui()
    pane.shows("number 209")
    pane.keys("End")
    pane.shows("─ number 109")  # the newest of the older ones is chosen
    pane.press("End", "─ number 9 ")
    pane.press("End", "an answer of long ago")
    pane.wait(lambda g: any("the oldest of all" in line for line in g) and not any("older sessions" in line for line in g))


def test_an_old_session_that_needs_an_answer_comes_first(tui):
    old = make_old_ones(tui, 100)
    pane = tui()
    pane.shows("number 99")
    old.call("PATCH", "", {"permission": "ask"})
    old.send("and now")
    pane.wait(lambda g: "the oldest" in g[1] and "needs you" in g[1])


def test_an_old_session_that_waits_is_there_from_the_start(tui):
    old = make_old_ones(tui, 100, cmd="until [ -e go ]; do sleep 0.02; done")  # while it works it is in sight
    old.call("PATCH", "", {"permission": "ask"})
    old.send("and now")
    retry(lambda: old.call("GET", "")["state"] == "waiting")
    pane = tui()
    pane.wait(lambda g: "the oldest" in g[1] and "needs you" in g[1] and "number 99" in g[2])
    newest = call(tui.home, "GET", "/session?limit=1")["sessions"][0]["id"]
    call(tui.home, "PATCH", f"/session/{newest}", {"title": "renamed"})
    pane.shows("renamed")  # it follows events now: of an answer before that it would not know
    tui.home.ok("sessions", "allow", old.id)
    pane.wait(lambda g: any("the oldest" in line for line in g) and not any("needs you" in line for line in g))
    (tui.dir / "go").touch()


def test_every_key_of_the_help_does_what_it_says(tui):
    s = Session(tui.home, tui.dir, [{"text": "said"}])
    s.ask("first")
    pane = tui()
    pane.press("?", "─ Keys ─")
    first = pane.grid()
    pane.press("End", "ctrl+space")  # the page is longer than this window
    listed = {m.group(1) for m in (re.match(r"│(\S+) +\S", line) for line in first + pane.grid()) if m}
    assert not any("…" in line for line in first[1:-1] + pane.grid()[1:-1])  # nothing is cut
    close_popup(pane, "─ Keys ─")
    tried = set()

    def press(key, tmux=None, *texts, gone=None):
        tried.add(key)
        pane.press(tmux or key, *texts)
        if gone:
            pane.gone(gone)

    press("?", None, "this help")
    press("esc", "Escape", gone="─ Keys ─")
    press("ctrl+p", "C-p", "Command palette")
    close_popup(pane, "Command palette")
    press("t", None, "▣")
    pane.press("C-p", "Command palette")  # typed keys go to the shell, this one does not
    close_popup(pane, "Command palette")
    pane.keys("Tab")
    retry(lambda: no_cursor(pane))
    press("/", None, "─ Sessions ─", "Enter opens it")
    close_popup(pane, "Enter opens it")
    press("p", None, "Plugins · generation")
    press("r", None, "Runs of bots")
    press("a", None, "choose a run first")
    press("M", None, "choose a run first")
    press("s", None, "Sessions")
    pane.keys("Down")
    pane.press("Enter", "said")  # opens the session, and the input has the focus
    pane.keys("Escape")
    retry(lambda: no_cursor(pane))
    press("o", None)
    retry(lambda: tui.home.json("sessions")["sessions"][0]["permission"] == "auto")
    press("m", None, " · ask · ")
    assert s.call("GET")["permission"] == "ask"
    press("x", None)
    press("i", None)
    retry(lambda: pane.cursor()[0] == 21)
    press("tab", "Tab")
    retry(lambda: no_cursor(pane))
    press("shift+tab", "BTab")
    retry(lambda: not no_cursor(pane))
    pane.type("/rel")
    press("ctrl+space", "C-Space", "/reload ")
    pane.keys("C-u")
    pane.keys("Escape")
    retry(lambda: no_cursor(pane))
    press("ctrl+r", "C-r", "0 added, 0 changed, 0 removed")
    press("ctrl+l", "C-l", "Sessions")
    press("z", None, gone="Sessions")
    pane.press("z", "Sessions")
    pane.keys("Escape")
    s2 = Session(tui.home, tui.dir, [{"text": "\n\n".join(f"par {i}." for i in range(40))}])
    s2.ask("long")
    pane.wait(lambda g: any("○ long" in line for line in g))
    pane.keys("Home")
    pane.keys("Down")  # the terminal is above it
    pane.press("Enter", "par 39.")
    press("pageup", "PageUp", gone="par 39.")  # also while a message is typed
    press("pagedown", "PageDown", "par 39.")
    pane.keys("Escape")
    retry(lambda: no_cursor(pane))
    press("d", None, "end the session 'long'?")
    pane.keys("y")
    pane.gone("○ long")
    s.call("DELETE")
    pane.gone("○ first")
    press("e", None, "· first")
    press("ctrl+n", "C-n", "new session")
    press("ctrl+q", "C-q")
    retry(pane.ended)
    assert listed - {"key"} == tried


def test_keys_that_come_at_once_are_for_what_the_one_before_opened(tui):
    pane = tui()
    pane.type("\x10health")
    pane.shows("> health")
    pane.type("\x10\tx")  # closes it, goes to the input, types
    pane.shows("> x")


def test_in_an_input_keys_are_typed(tui):
    pane = tui()
    pane.press("i")
    pane.type("a?spx")
    pane.keys("C-a")
    pane.type("0")
    pane.shows("> 0a?spx")
    pane.keys("C-c")
    pane.gone("0a?spx")
    pane.press("C-p", "Command palette")


def test_the_palette_has_every_operation_and_runs_them(tui):
    pane = tui()
    pane.press("C-p", "Command palette")
    pane.type("health")
    pane.shows("whether the hub is up")
    pane.press("Enter", '"ok": true')
    close_popup(pane, '"ok": true')
    # one that needs a value asks for it
    pane.press("C-p", "Command palette")
    pane.type("plugin.show")
    pane.press("Enter", "> name=")
    pane.type("nosuch")
    pane.press("Enter", "nosuch")
    pane.shows("gen ")
    names = re.findall(r'^OP\(\w+,\s*"([^"]+)"', (pathlib.Path(__file__).parents[2] / "src/proto/ops.def").read_text(), re.M)
    assert len(names) > 60
    for name in names[::12]:
        if name != "events":
            pane.press("C-p", "Command palette")
            pane.type(name)
            pane.wait(lambda g: any(re.search(r"│" + re.escape(name[:18]), line) for line in g))
            close_popup(pane, "Command palette")


def test_a_plugin_that_fails_is_seen_with_its_line(tui):
    pane = tui()
    (tui.home.dir / "plugins").mkdir(exist_ok=True)
    (tui.home.dir / "plugins/bad.lua").write_text("on_begin(function() end)\nlocal x = = 1\n")
    pane.shows("1 plugin failed")
    pane.press("p", "unexpected symbol near '='")
    pane.press("Enter", "error LOAD_FAILED: unexpected symbol near '='")
    pane.shows("plugins/bad.lua:2")
    close_popup(pane, "LOAD_FAILED")
    (tui.home.dir / "plugins/bad.lua").write_text("on_begin(function() end)\n")
    pane.shows("loaded")
    pane.press("Enter", "hooks: on_begin")


# ---- answers with one key ------------------------------------------------------------------------

@pytest.mark.parametrize("key, decision, remember", [("a", "allow", "once"), ("t", "allow", "tool"), ("d", "deny", "once")])
def test_a_permission_is_given_with_one_key(tui, key, decision, remember):
    s = Session(tui.home, tui.dir, [one_call(cmd="echo hi there"), {"text": "after"}], permission="ask")
    pane = tui()
    pane.press("Enter", "message; Enter sends")
    s.send("go")
    pane.shows("shell wants to run: echo hi there")
    time.sleep(0.5)  # a question is not answered by a key that was pressed before it could be read
    pane.press(key, "after")
    decided = s.wait_for("permission.decided")
    assert (decided["decision"], decided.get("remember") or "once") == (decision, remember)


def test_a_question_shows_all_of_a_call(tui):
    code = 'tool {\n  name = "die",\n}\n'
    calls = [one_call(cmd="echo hi", cwd="/"), one_call("plugin_save", name="die", content=code), {"text": "after"}]
    s = Session(tui.home, tui.dir, calls, permission="ask")
    pane = tui()
    pane.press("Enter", "message; Enter sends")
    s.send("go")
    grid = pane.shows("shell wants to use: ")
    assert '"cwd":"/"' in "".join(line.strip("│ ") for line in grid)
    s.call("POST", "/permission/" + s.wait_for("permission.requested")["request_id"], {"decision": "deny"})
    grid = pane.shows('plugin_save wants to use: {"name":"die"}')
    at = next(i for i, line in enumerate(grid) if "content:" in line)
    assert 'name = "die",' in grid[at + 2] and "\\n" not in "".join(grid)


def test_a_key_that_was_on_its_way_decides_nothing(tui):
    s = Session(tui.home, tui.dir, [one_call(cmd="echo hi there"), {"text": "after"}] * 20, permission="ask")
    pane = tui()
    pane.press("Enter", "message; Enter sends")

    def both_arrived():
        """The second offer is the chosen one, or the question is answered."""
        screen = pane.tmux("capture-pane", "-p", "-e")
        return re.search(r"\x1b\[7m[^\n]*exactly this command", screen) or "wants to" not in screen

    def press_at_once():
        """Press 'a' as soon as the question is seen; the turn, when the key came in the 0.4 s in which it counts for nothing."""
        turn = s.send("go")["turn_id"]
        end = before = time.monotonic() + DEADLINE
        while not any("wants to run" in line for line in pane.grid()):
            before = time.monotonic()
            assert before < end
        pane.keys("a", "Down")
        retry(both_arrived)
        soon = time.monotonic() - before < 0.4
        time.sleep(0.2)
        if soon and not [e for e in s.events("permission.decided") if e["turn"] == turn]:
            return turn
        for p in s.call("GET")["pending"]:  # on a busy machine: again, with another question
            s.call("POST", f"/permission/{p['request_id']}", {"decision": "allow"})
        s.wait_for("turn.completed", turn=turn)
        pane.gone("wants to run")
        return None
    turn = retry(press_at_once)
    time.sleep(0.4)
    pane.keys("d")
    assert s.wait_for("permission.decided", turn=turn)["decision"] == "deny"


def test_a_question_is_answered_with_a_number(tui):
    ask = {"tool_calls": [{"name": "ask_user", "input": {"question": "which one?", "choices": ["red", "blue"]}}]}
    s = Session(tui.home, tui.dir, [ask, {"text": "after"}])
    pane = tui()
    pane.press("Enter", "message; Enter sends")
    s.send("go")
    pane.shows("which one?")
    time.sleep(0.5)
    pane.press("2", "after")
    assert s.wait_for("question.answered")["answer"] == "blue"


def test_who_looks_elsewhere_is_told_of_a_question(home, tmp_path):
    home.ok("start")
    s = Session(home, tmp_path, [one_call(cmd="true"), {"text": "x"}], permission="ask")
    t = Terminal(home, cwd=tmp_path)
    t.read("○".encode())  # the hub has answered, and its events are followed
    t.type("\x1b[O?")
    t.read(rb"this help")  # it knows that nobody looks
    s.send("go")
    t.read(rb"\x07\x1b\]9;Afloat: waiting for your answer\x07")
    t.type("\x11")
    assert t.rest() == 0


# ---- live ----------------------------------------------------------------------------------------

def test_a_saved_layout_is_on_the_screen_and_does_not_stack(tui):
    pane = tui()
    for i in range(5):
        pane.save(LAYOUT, banner(f"BANNER {i}"))
        grid = pane.shows(f"BANNER {i}")
        assert sum("BANNER" in line for line in grid) == 1
    (pane.home.dir / LAYOUT).unlink()
    pane.gone("BANNER")


@pytest.mark.parametrize("text, said", [
    ("return function(state, next)\n  local x\n  return x.y\nend\n", "lua/user/ui/layout.lua:3: attempt to index"),
    ("return functio(", "lua/user/ui/layout.lua:1: "),
    ("", "lua/user/ui/layout.lua: the file returns nothing"),
    ("return 3", "lua/user/ui/layout.lua: the file must return a function"),
    ("return function() return { type = 'lst' } end", "unknown node type 'lst'; did you mean"),
    ("return function() return { type = 'text', txt = 'x' } end", "'text' has no field 'txt'"),
    ("return function() return { type = 'row', children = { { type = 'text', style = 'pink' } } } end",
     "children[1]: unknown style 'pink'"),
    ("return function() while true do end end", "lua/user/ui/layout.lua:1: ran for more than 100 ms"),
    ("while true do end", "lua/user/ui/layout.lua:1: "),
    ("return function() local t = {} while true do t[#t + 1] = ('x'):rep(100000) end end", "lua/user/ui/layout.lua:1: "),
])
def test_a_broken_layout_keeps_the_last_good_one_and_is_named(tui, text, said):
    pane = tui(cols=120)
    pane.save(LAYOUT, banner("GOOD ONE"))
    pane.shows("GOOD ONE")
    pane.save(LAYOUT, text)
    pane.wait(lambda g: said in g[-1])
    assert pane.grid()[0] == "GOOD ONE"
    pane.press("C-p", "Command palette")  # and it is still of use
    pane.save(LAYOUT, banner("GOOD TWO"))
    pane.shows("GOOD TWO")
    pane.wait(lambda g: "layout.lua" not in g[-1])


def test_a_layout_that_fails_later_keeps_its_last_frame(tui):
    pane = tui()
    pane.save(LAYOUT, banner("GOOD ONE").replace("local tree", "if state.tui.popup then error('no popups') end local tree"))
    pane.shows("GOOD ONE")
    pane.press("C-p", "no popups")
    assert pane.grid()[0] == "GOOD ONE"
    pane.keys("Escape")
    pane.save(LAYOUT, banner("GOOD TWO"))
    pane.shows("GOOD TWO")


def test_what_was_typed_and_chosen_survives_a_reload(tui):
    pane = tui()
    pane.press("i")
    pane.type("half a mess")
    pane.shows("half a mess")
    pane.save(LAYOUT, banner("GOOD ONE"))
    pane.shows("GOOD ONE")
    pane.type("age")
    pane.shows("> half a message")


def test_a_rebound_key_works_at_once_and_a_deleted_one_no_more(tui):
    pane = tui()
    pane.save("lua/user/ui/keybindings.lua", 'return { ["F5"] = "view.plugins", ["p"] = false, ["alt+ctrl+x"] = function(state)'
                                             ' afloat.note("my own key") end }')
    pane.save(LAYOUT, banner("BUILT"))
    pane.shows("BUILT")
    pane.press("F5", "Plugins · generation")
    pane.press("s", "Sessions")
    pane.keys("p")
    pane.press("M-C-x", "my own key")
    assert not any("Plugins" in line for line in pane.grid())
    (pane.home.dir / "lua/user/ui/keybindings.lua").unlink()

    def back():
        pane.keys("p")
        return any("Plugins · generation" in line for line in pane.grid())
    retry(back)


def test_an_unknown_key_or_action_is_told(tui):
    pane = tui()
    pane.save("lua/user/ui/keybindings.lua", 'return { ["ctrl+pp"] = "quit" }')
    pane.wait(lambda g: "there is no key 'ctrl+pp'" in g[-1])
    pane.save("lua/user/ui/keybindings.lua", 'return { ["f5"] = "no.such" }')
    pane.wait(lambda g: "ctrl+pp" not in g[-1])
    pane.press("F5", "there is no action 'no.such'")


def test_shipped_files_are_replaced_and_plugins_add_to_them(tui):
    pane = tui(cols=120)
    pane.save("lua/ui/layout.lua", 'return function(state) return { type = "text", text = "MINE " .. (state.extra or "") } end')
    pane.shows("MINE")
    plugin = pane.home.dir / "plugins/look"
    pane.save("plugins/look/ui/layout.lua", 'return function(state, next) state.extra = "and LOOK"; return next(state) end')
    pane.save("plugins/look/ui/actions.lua", 'afloat.keymap.set("f6", "look.note", { desc = "of a plugin" })\n'
                                             'return { ["look.note"] = function(state) state.tui.n = (state.tui.n or 0) + 1\n'
                                             'afloat.note("pressed " .. state.tui.n) end }')
    (plugin / "init.lua").write_text("on_begin(function() end)\n")
    pane.shows("MINE and LOOK")
    pane.save("lua/ui/layout.lua", 'return function(state) local n = state.note; return { type = "text", '
                                   'text = "MINE " .. (state.extra or "") .. " " .. (n and n.text or "") } end')
    pane.press("F6", "MINE and LOOK pressed 1")
    pane.save("plugins/look/ui/layout.lua", 'return function(state, next) state.extra = "and MORE"; return next(state) end')
    pane.shows("MINE and MORE")
    pane.press("F6", "pressed 2")  # _tui_state is kept
    pane.home.ok("plugin", "disable", "look")
    pane.gone("and MORE")


def test_a_projects_interface_counts_after_trust_and_in_that_project(tui, tmp_path):
    subprocess.run(["git", "init", "-q", str(tui.dir)], check=True)
    plugin = tui.dir / ".afloat/plugins/look"
    (plugin / "ui").mkdir(parents=True)
    (plugin / "init.lua").write_text("on_begin(function() end)\n")
    (plugin / "ui/layout.lua").write_text(banner("OF THE PROJECT"))
    Session(tui.home, tui.dir, [{"text": "x"}]).ask("known")
    pane = tui()
    pane.press("Enter", "known")
    assert not any("OF THE PROJECT" in line for line in pane.grid())
    tui.home.ok("trust", str(tui.dir))
    Session(tui.home, tui.dir, [{"text": "x"}]).ask("again")  # a session opens its project
    pane.shows("OF THE PROJECT")
    (plugin / "ui/layout.lua").write_text(banner("NOT SEEN BY ANYBODY"))
    retry(lambda: tui.home.json("plugin", "show", "look").get("pending"))
    time.sleep(0.3)
    assert pane.grid()[0] == "OF THE PROJECT"
    tui.home.ok("trust", str(tui.dir))
    pane.shows("NOT SEEN BY ANYBODY")
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = Tui(tui.home, other)
    assert not any("NOT SEEN" in line for line in elsewhere.grid())
    elsewhere.close()


def test_conflicts_between_plugins_are_shown(tui):
    pane = tui(cols=120)
    for name in ("one", "two"):
        pane.save(f"plugins/{name}/ui/keybindings.lua", 'return { ["f7"] = "view.plugins" }' if name == "one" else
                  'return { ["f7"] = "view.runs" }')
        (pane.home.dir / f"plugins/{name}/init.lua").write_text("on_begin(function() end)\n")
    retry(lambda: pane.home.http("GET", "/plugin/two").json().get("serving"))
    pane.save(LAYOUT, banner("BUILT"))
    pane.shows("BUILT")

    def seen():
        pane.press("?", "─ Keys ─")
        found = any("f7: two/ui/keybindings.lua replaces one/ui/keybindings.lua" in line for line in pane.grid())
        close_popup(pane, "─ Keys ─")
        return found
    retry(seen)
    pane.press("F7", "Runs of bots")


def test_components_and_the_mouse(tui):
    pane = tui()
    pane.save("lua/user/ui/actions.lua", 'afloat.component.register("badge", function(props, state)\n'
              '  return { type = "text", text = "<" .. props.word .. " " .. (state.tui.clicks or 0) .. ">", size = 1 }\nend)\n'
              'afloat.mouse.on("press", function(state, event)\n'
              '  if event.row == 1 then state.tui.clicks = (state.tui.clicks or 0) + 1 return true end\nend)\nreturn {}\n')
    pane.save(LAYOUT, 'return function(state, next) local tree = next(state)\n'
              'table.insert(tree.children, 1, { type = "badge", word = "hi" }) return tree end')
    pane.shows("<hi 0>")
    pane.tmux("send-keys", "-H", *"1b 5b 3c 30 3b 33 3b 31 4d".split())  # ESC [ < 0;3;1 M
    pane.shows("<hi 1>")
    pane.save(LAYOUT, (pane.home.dir / LAYOUT).read_text() + "-- again\n")  # handlers do not double
    pane.tmux("send-keys", "-H", *"1b 5b 3c 30 3b 33 3b 31 4d".split())
    pane.shows("<hi 2>")


def test_a_safe_start_has_the_shipped_interface_only(tui):
    (tui.home.dir / "lua/user/ui").mkdir(parents=True)
    (tui.home.dir / LAYOUT).write_text(banner("MINE"))
    pane = tui("tui", "--safe")
    assert pane.grid()[0].startswith("╭─ Sessions")


def test_saves_leave_memory_and_keys_as_they_were(tui):
    options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"  # else freed memory is kept
    pane = tui(env={"ASAN_OPTIONS": options})
    saves = 500 * LOOPS  # 10,000 in `make soak`
    keys = []

    def memory():
        status = pathlib.Path(f"/proc/{pane.pid()}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def work():
        """Seconds of a processor that the interface has used."""
        fields = pathlib.Path(f"/proc/{pane.pid()}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def press():
        began = work()
        pane.press("?", "─ Keys ─")
        keys.append(work() - began)
        close_popup(pane, "─ Keys ─")

    for i in range(saves):
        pane.save(LAYOUT, banner(f"N{i}."))
        if i % 5 == 4:
            pane.shows(f"N{i}.")
        if i % 20 == 19:
            press()
        if i == saves // 5:
            before = memory()
    assert memory() < before + 4096, "kilobytes"
    early, late = (statistics.median(some) for some in (keys[:len(keys) // 5], keys[-(len(keys) // 5):]))
    assert late < 2 * early + 0.1, f"a key took {early:.3f} s at first and {late:.3f} s in the end"


# ---- terminals -----------------------------------------------------------------------------------

def shell_env(dir):
    """tmux sets SHELL to bash; this is its prompt."""
    (dir / ".bashrc").write_text("PS1='shell$ '\n")
    return {"HOME": str(dir)}


def test_a_terminal_runs_in_the_screen_and_outlives_the_hub(tui):
    pane = tui(env=shell_env(tui.dir))
    pane.press("t", "▣")
    pane.shows("shell$")
    pane.type("echo m''ade; n=42\n")
    pane.shows("made")
    pane.keys("Tab")
    pane.save(LAYOUT, banner("GOOD ONE"))
    pane.shows("GOOD ONE")
    tui.home.kill_hub()
    pane.shows("the hub does not answer")
    tui.home.ok("start")
    pane.gone("the hub does not answer")
    pane.wait(lambda g: any("▣" in line for line in g))
    pane.keys("BTab")
    pane.type("echo n is $n\n")
    pane.shows("n is 42")
    pane.resize(100, 30)
    pane.wait(lambda g: any(line.startswith("╭") and len(line) == 100 for line in g))  # drawn, so the program knows too
    pane.type("stty size\n")
    pane.wait(lambda g: any(re.search(r"│2\d 7\d ", line) for line in g))
    pane.type("exit 3\n")
    pane.shows("the program has ended with status 3")
    pane.press("C-q")
    retry(pane.ended)


def test_full_screen_programs_work_in_a_terminal(tui):
    (tui.dir / "f.txt").write_text("".join(f"line {i}\n" for i in range(200)))
    pane = tui(env=shell_env(tui.dir))
    pane.press("t", "▣")
    pane.shows("shell$")
    pane.type("less f.txt\n")
    pane.shows("line 5")
    pane.keys("PageDown")
    pane.shows("line 30")
    pane.type("q")
    pane.type("vim -u NONE f.txt\n")
    pane.shows('"f.txt" 200')  # vim's own line, not the command
    pane.keys("Down", "Down")
    pane.type("iINSERTED ")
    pane.shows("INSERTED line 2")
    pane.keys("Escape")
    time.sleep(0.2)
    pane.type(":q!\n")
    pane.shows("shell$")


# ---- storms --------------------------------------------------------------------------------------

def test_a_window_that_is_dragged_ends_with_the_right_grid(tui):
    Session(tui.home, tui.dir, [{"text": "an answer of a few words"}]).ask("question")
    pane = tui()
    pane.press("Enter", "an answer of a few words")
    before = pane.wait(lambda g: not any(c in SPINNER for line in g for c in line))  # the end of the turn is drawn, too
    for i in range(60):
        pane.resize(20 + i * 7 % 120, 4 + i * 3 % 40)
    pane.resize(80, 24)
    pane.wait(lambda g: g == before)


@pytest.mark.parametrize("seed", range(3))
def test_garbage_from_the_terminal_does_no_harm(home, tmp_path, seed):
    home.ok("start")
    Session(home, tmp_path, [{"text": "x"}]).ask("question")
    any = random.Random(seed)
    t = Terminal(home, cwd=tmp_path)
    t.read(rb"Ctrl\+P")
    words = [b"\x1b[A", b"\x1b[B", b"\t", b"\x10", b"?", b"i", b"\x1b[<0;%d;%dM", b"\x1b[<64;9;9M", b"\x1b", b"\x0e", b"p", b"s"]
    for _ in range(30):
        piece = bytearray()
        for _ in range(40):
            word = any.choice(words) if any.random() < 0.6 else any.randbytes(any.randrange(12))
            piece += word.replace(b"%d", b"%d" % any.randrange(90))
        t.type(bytes(piece).replace(b"\x11", b"").replace(b"\r", b"").replace(b"\n", b""))
        while select.select([t.end], [], [], 0.02)[0]:
            t.seen = os.read(t.end.fileno(), 65536)
    assert t.process.poll() is None
    t.type("\x1b[201~")
    time.sleep(0.2)
    t.type("\x11")
    assert t.rest() == 0


def test_windows_too_small_for_anything_do_no_harm(tui):
    pane = tui()
    for cols, rows in [(10, 3), (3, 2), (1, 1), (200, 1), (2, 60)]:
        pane.resize(cols, rows)
        pane.keys("C-p")
        time.sleep(0.05)
        pane.keys("C-p")
    pane.resize(80, 24)
    pane.shows("Sessions")
    assert not pane.ended()


def test_T13_a_flood_of_output_does_not_hold_up_a_key(tui):
    """A session that prints without a pause, and somebody who wants to leave it."""
    words = " ".join(str(i) for i in range(30000))
    s = Session(tui.home, tui.dir, [{"text": words}])
    pane = tui()
    pane.press("Enter", "message; Enter sends")
    s.send("go")
    pane.keys("Tab")
    pane.press("C-p", "Command palette")
    close_popup(pane, "Command palette")
    s.wait_for("turn.completed")
    pane.shows("29999")


class BusyHub(FakeHub):
    """A hub whose own stream says what the test wants."""

    def __init__(self, home):
        super().__init__(home, lambda hub, said: None)
        self.shouts = []

    def shout(self, n, type):
        with self.changed:
            self.shouts += [type] * n
            self.changed.notify_all()

    def _answer(self, client, method, path, query, body):
        if path != "/events":
            return super()._answer(client, method, path, query, body)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        at = 0
        while not self.gone:
            with self.changed:
                while at == len(self.shouts) and not self.gone:
                    self.changed.wait()
                new, at = self.shouts[at:], len(self.shouts)
            client.sendall("".join(f"id: {at}\nevent: {t}\ndata: {{}}\n\n" for t in new).encode())

    def asked(self, path):
        return sum(p == path for _, p, _ in self.requests)


def test_T9_T15_a_burst_of_events_is_a_few_questions(home, tmp_path):
    hub = BusyHub(home)
    pane = Tui(home, tmp_path)
    try:
        before = hub.asked("/session"), hub.asked("/plugin/list")
        began = time.monotonic()
        hub.shout(2000, "session.updated")
        hub.shout(2000, "plugin.changed")
        hub.row["title"] = "the last word"
        hub.shout(1, "session.updated")
        pane.shows("the last word")
        most = max(12, (time.monotonic() - began) / 0.02)  # one in 20 ms, on a machine that is slow to draw
        assert 1 <= hub.asked("/session") - before[0] <= most
        retry(lambda: hub.asked("/plugin/list") > before[1])
        assert hub.asked("/plugin/list") - before[1] <= most
    finally:
        pane.close()
        hub.close()


def test_T18_events_of_a_session_that_was_left_are_not_shown(tui):
    a = Session(tui.home, tui.dir, [{"text": "answer of A"}])
    next_millisecond()
    b = Session(tui.home, tui.dir, [{"text": "answer of B"}])
    b.ask("to B")
    pane = tui()
    pane.press("Enter", "answer of B")
    pane.keys("Escape")
    for _ in range(10):
        pane.keys("Down", "Up")
    a.ask("to A")
    pane.shows("answer of B")
    time.sleep(0.3)
    grid = pane.grid()
    assert not any("answer of A" in line for line in grid)
    assert sum("answer of B" in line for line in grid) == 1


def test_a_hub_that_was_killed_is_told_and_found_again(tui):
    Session(tui.home, tui.dir, [{"text": "kept"}]).ask("question")
    pane = tui()
    pane.press("Enter", "kept")
    tui.home.kill_hub()
    pane.shows("the hub does not answer")
    pane.press("C-p", "Command palette")
    close_popup(pane, "Command palette")
    tui.home.ok("start")
    pane.gone("the hub does not answer")
    pane.type("list the files")
    pane.keys("Enter")
    assert sum("kept" in line for line in pane.grid()) == 1


class RestartedHub(BusyHub):
    """A hub that has no sessions yet when their events are asked for first, as one that has just been started."""
    early = True

    def _answer(self, client, method, path, query, body):
        if path == "/session/s-1/events" and self.early:
            self.early = False
            self._json(client, 503, {"code": "STOPPING", "detail": "there are no sessions: the hub starts or stops"})
        else:
            super()._answer(client, method, path, query, body)


def test_a_hub_that_has_no_sessions_yet_is_asked_again_for_their_events(home, tmp_path):
    hub = RestartedHub(home)
    hub.row["title"] = "the session"
    hub.emit("message.completed", role="user", text="said before")
    pane = Tui(home, tmp_path)
    try:
        pane.shows("the session")
        pane.press("Enter", "said before")
    finally:
        pane.close()
        hub.close()


# ---- ways in and out ---------------------------------------------------------------------------

def test_without_a_terminal_afloat_prints_a_short_help(home):
    done = home.cli()
    assert done.returncode == 0 and "afloat chat" in done.stdout
    for alone in ("tui", "--plain", "--safe"):
        done = home.cli(alone)
        assert done.returncode == 2 and "needs a terminal" in done.stderr
    assert "does not take 'chat'" in home.cli("--plain", "chat").stderr


def test_the_terminal_is_given_back_as_it_was(home):
    home.ok("start")
    t = Terminal(home)
    t.read(rb"Ctrl\+P")
    assert not t.is_usual()
    t.type("\x11")
    assert t.rest() == 0
    assert t.seen.endswith(b"\x1b[?1049l") and t.is_usual()
    assert b"\x1b[?1000l" in t.seen and b"\x1b[?2004l" in t.seen


def test_plain_is_line_by_line(home):
    home.ok("start")
    t = Terminal(home, "tui", "--plain")
    t.read(rb"> ")
    t.type("list the files\n")
    t.read(rb"These files are there")
    t.type("/quit\n")
    assert t.rest() == 0
    assert b"\x1b" not in t.seen


# ---- the input: as in the chat -------------------------------------------------------------------

def test_slash_commands_run_and_complete(tui):
    t = tui()
    t.press("C-n", "message; Enter sends")
    t.type("/per")
    t.keys("C-Space")
    t.shows("> /permission ")
    t.type("plan")
    t.keys("Enter")
    t.shows("plan · ")
    assert t.home.json("sessions", "list")["sessions"][0]["permission"] == "plan"
    t.type("/re")
    t.keys("C-Space")
    t.shows("reload  resume  rewind")  # several: they are offered
    t.keys("C-u")
    t.type("/nonsense")
    t.keys("Enter")
    t.shows("there is no command '/nonsense'")
    t.type("/help")
    t.keys("Enter")
    t.shows("Keys")


def test_files_complete_and_tab_always_moves_the_focus(tui):
    (tui.dir / "notes-of-today.md").write_text("x")
    t = tui()
    t.press("C-n", "message; Enter sends")
    t.type("look at @not")
    t.keys("C-Space")
    t.shows("> look at @notes-of-today.md ")
    t.type("and @not")
    t.keys("Right")  # at the end of the text
    t.shows("and @notes-of-today.md ")
    t.type("@not")
    t.keys("Tab")  # there is something to complete, and yet
    t.type("p")    # this is a key of the list
    t.shows("Plugins · generation")
    t.press("s", "Sessions")
    t.keys("i")
    t.type("e")
    t.shows(" @note ")  # it was not completed


def test_a_command_runs_in_a_terminal_and_the_model_reads_it(tui):
    scenario = tui.dir / "s.jsonl"
    scenario.write_text('{"when": "made-by-a-command", "text": "I read it"}\n')
    t = tui(env={"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario)})
    t.press("C-n", "message; Enter sends")
    t.type("!echo made-by-a-$((1))command | tr -d 1")
    t.keys("Enter")
    t.shows("made-by-a-command")
    t.shows("exit code 0")
    t.keys("Up")  # from the terminal, which has ended, to the session
    t.press("Enter", "message; Enter sends")
    t.type("what was that?")
    t.keys("Enter")
    t.shows("I read it")


def test_what_was_said_is_shared_with_the_chats_of_the_project(tui):
    subprocess.run(["git", "init", "-q", tui.dir], check=True)
    t = tui()
    t.press("C-n", "message; Enter sends")
    t.type("said in the interface")
    t.keys("Enter")
    kept = retry(lambda: [f for f in (t.home.dir / "history").glob("*") if "said in the interface" in f.read_text()])
    kept[0].write_text('"said in a chat"\n')
    other = tui()
    other.press("C-n", "message; Enter sends")
    other.keys("Up")
    other.shows("> said in a chat")


# the terminal echoes no mouse before a program is ready for it
MOUSE = r"printf '\033[?1000h\033[?1006h'; stty -echo raw; printf ready; head -c 9 | od -An -c | tr -s ' '; read x"


def test_a_program_that_asked_for_the_mouse_is_told_of_it(tui):
    row = tui.home.http("POST", "/pty", json.dumps(
        {"cmd": "bash", "args": ["-c", MOUSE], "cwd": "/", "name": "mousy"}).encode()).json()
    t = tui()
    t.shows("mousy")
    t.press("Enter", "ready")
    top = next(i for i, line in enumerate(t.grid()) if "ready" in line)
    left = t.grid()[top].index("ready")
    t.tmux("send-keys", "-H", *[f"{b:x}" for b in b"\x1b[<0;%d;%dM" % (left + 3, top + 1)])
    t.shows("033 [ < 0 ; 3 ; 1 M")
    tui.home.http("DELETE", f"/pty/{row['id']}")


def open_pty(tui, name, *cmd):
    """A terminal with this program, on the screen and in focus."""
    row = tui.home.http("POST", "/pty", json.dumps({"cmd": cmd[0], "args": list(cmd[1:]), "cwd": "/", "name": name,
                                                    "env": {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}}).encode()).json()
    t = tui()
    t.shows(name)
    t.keys("Enter")
    return t, row


def test_dragging_and_moving_the_mouse_reach_the_program_that_asked_for_it(tui):
    mouse = r"printf '\033[?%sh\033[?1006h\033[H'; stty -echo raw; printf 'ready\r\n'; cat -v"
    t, row = open_pty(tui, "painter", "bash", "-c", mouse % 1002)
    t.shows("ready")
    top = next(i for i, line in enumerate(t.grid()) if "ready" in line)
    left = t.grid()[top].index("ready")

    def send(button, col, line, end):
        t.tmux("send-keys", "-H", *[f"{b:x}" for b in b"\x1b[<%d;%d;%d%s" % (button, left + col, top + line, end)])

    modes = "#{mouse_button_flag} #{mouse_all_flag} #{mouse_sgr_flag}"
    assert t.tmux("display-message", "-p", "-t", "0", modes).strip() == "1 0 1"
    send(0, 3, 2, b"M")
    send(32, 4, 3, b"M")
    t.shows("^[[<0;3;2M^[[<32;4;3M")
    send(32 + 16, -left + 1, 4, b"M")  # with Ctrl, over the list at the left: at the edge
    t.shows("^[[<48;1;4M")
    send(0, -left + 1, 5, b"m")
    t.shows("^[[<0;1;5m")
    send(35, 5, 5, b"M")  # a movement without a button is not for it
    send(2, 6, 6, b"M")
    t.shows("^[[<0;1;5m^[[<2;6;6M")
    tui.home.http("DELETE", f"/pty/{row['id']}")
    t.gone("painter")
    row = tui.home.http("POST", "/pty", json.dumps({"cmd": "bash", "args": ["-c", mouse % 1003], "cwd": "/", "name": "hoverer"}).encode()).json()
    t.shows("hoverer")
    t.press("Enter", "ready")
    retry(lambda: t.tmux("display-message", "-p", "-t", "0", modes).strip() == "0 1 1")
    send(35, 5, 5, b"M")
    t.shows("^[[<35;5;5M")
    tui.home.http("DELETE", f"/pty/{row['id']}")
    t.gone("hoverer")
    retry(lambda: t.tmux("display-message", "-p", "-t", "0", modes).strip() == "1 0 1")


def test_the_wheel_scrolls_back_and_typing_returns(tui):
    t, row = open_pty(tui, "counter", "sh", "-c", "for i in $(seq 1 100); do echo line-$i; done; exec cat")
    t.shows("line-100")
    wheel = [f"{b:x}" for b in b"\x1b[<64;40;10M"]
    for _ in range(10):
        t.tmux("send-keys", "-H", *wheel)
    t.shows("line-60")
    t.gone("line-100")
    t.type("x")
    t.shows("line-100")
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_all_keys_but_three_go_to_the_program_of_a_terminal(tui):
    t, row = open_pty(tui, "keys", "sh", "-c", "stty raw -echo; echo ready; exec od -An -c -w1 -v")
    t.shows("ready")
    for key, seen in (("C-a", "001"), ("C-b", "002"), ("C-c", "003"), ("C-z", "032"), ("C-n", "016"), ("C-r", "022"),
                      ("s", "s"), ("?", "?"), ("Escape", "033")):
        before = t.grid()
        t.keys(key)
        t.wait(lambda g: g != before and any(line.strip("│ ╮╯").endswith(seen) for line in g))
    t.keys("C-p")
    t.shows("Command palette")
    tui.home.http("DELETE", f"/pty/{row['id']}")


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
def test_a_terminal_fits_into_small_windows(tui, size):
    cols, rows = size
    row = tui.home.http("POST", "/pty", json.dumps({"cmd": "sh", "args": ["-c", "stty size; trap 'stty size' WINCH; while :; do read x; done"],
                                                    "cwd": "/", "name": "sized"}).encode()).json()
    t = tui(cols=cols, rows=rows)
    t.keys("Enter")
    pty = lambda: tui.home.http("GET", f"/pty/{row['id']}").json()
    retry(lambda: pty()["viewers"] == 1 and pty()["cols"] <= cols and pty()["rows"] < rows)
    got = pty()
    t.shows(f"{got['rows']} {got['cols']}")
    assert got["rows"] >= rows // 2 and got["cols"] >= cols // 2
    tui.home.http("DELETE", f"/pty/{row['id']}")


def test_the_work_of_a_program_in_a_worktree_is_taken_over_from_the_screen(tui):
    def git(*args):
        subprocess.run(["git", "-C", tui.dir, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True, capture_output=True)
    git("init", "-q", "-b", "main")
    (tui.dir / "f").write_text("x\n")
    git("add", "f")
    git("commit", "-qm", "one")
    t = tui(env=shell_env(tui.dir))
    t.keys("C-p")
    t.type("terminal.worktree")
    t.press("Enter", "shell$")
    t.type("echo by the agent >> f; exit\n")
    t.shows("ended with status 0")
    retry(lambda: tui.home.json("runs", "list")["runs"][0]["state"] == "ended")
    t.keys("Tab")
    t.keys("C-p")
    t.type("view.runs")
    t.press("Enter", "complete")
    t.press("Enter", "+by the agent")
    t.keys("Escape")
    t.gone("+by the agent")
    t.keys("C-p")
    t.type("run.apply")
    t.press("Enter", "its changes are on your tree")
    assert (tui.dir / "f").read_text() == "x\nby the agent\n"


def test_a_terminal_of_another_encoding_gets_ascii(home, tmp_path):
    home.ok("start")
    home.env.update(LANG="de_DE.ISO-8859-1", TERM="xterm")
    for name in ("LC_ALL", "LC_CTYPE"):
        home.env.pop(name, None)
    process, terminal = home.on_terminal(cwd=tmp_path)
    seen = b""
    try:
        while chunk := terminal.read(65536):
            seen += chunk
            if b"Ctrl+P" in seen:  # the last row
                os.write(terminal.fileno(), b"\x11")
    except OSError:
        pass  # the terminal is closed
    assert process.wait() == 0
    assert all(byte < 0x80 for byte in seen), seen


@pytest.mark.parametrize("below", [True, False])
def test_directories_below_the_home_are_shown_with_a_tilde(tui, below):
    home = str(tui.dir.parent) if below else str(tui.dir)[:-1]  # a name that only begins alike is not below it
    t = tui(cols=120, env={"HOME": home})
    t.shows("begin a session in ~/w" if below else "begin a session in")
    assert ("~/w" in t.status()) == below and (str(tui.dir) in t.status()) != below, t.status()
