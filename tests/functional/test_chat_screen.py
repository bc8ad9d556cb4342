"""`afloat chat` in a real terminal emulator (tmux): the grid as a user sees it, at several widths, while the
window changes, and with every key of the help page."""
import re
import subprocess
import threading
import types

import pytest

from chat_rig import SPINNER, FakeHub, Pane
from conftest import BIN, DEADLINE, retry

pytestmark = pytest.mark.skipif(subprocess.run(["which", "tmux"], capture_output=True).returncode != 0,
                                reason="no tmux")


@pytest.fixture
def screen(home, tmp_path):
    """Start a chat against a hub of the test's own."""
    made = types.SimpleNamespace(hub=None, pane=None)
    dir = tmp_path / "w"
    dir.mkdir()

    def start(play, *args, cols=80, rows=24, env=None):
        made.hub = FakeHub(home, play)
        made.pane = Pane(home, dir, cols, rows, *(args or ("chat",)), env=env)
        made.pane.idle() if not args else None
        return made.pane, made.hub

    yield start
    if made.pane:
        made.pane.close()
    if made.hub:
        made.hub.close()


ANSWER = ("# Title\n\nA paragraph that is longer than forty columns.\n\n- one\n- two\n\n"
          "```\nx  =  1\n```\n\n| a | b |\n|---|---|\n| 漢字 | 2 |\n\nend")

GRIDS = {
    40: ["> go", "Title", "", "A paragraph that is longer than forty", "columns.", "", "• one", "• two", "",
         "  x  =  1", "", "a    │ b", "漢字 │ 2", "", "end", ">", "fake/f"],
    80: ["> go", "Title", "", "A paragraph that is longer than forty columns.", "", "• one", "• two", "",
         "  x  =  1", "", "a    │ b", "漢字 │ 2", "", "end", ">", "fake/f"],
}
GRIDS[160] = GRIDS[80]


def test_nothing_that_was_drawn_stays_in_the_scrollback(screen):
    go = threading.Event()

    def play(hub, said):
        hub.emit("message.delta", text="half")
        go.wait(DEADLINE)
        hub.say(" and half", final="half and half")

    pane, hub = screen(play, "chat", "go")  # its rows are the first of the screen
    pane.wait(lambda g: any(re.search(r"writing · [1-9]\d* s", line) for line in g))
    go.set()
    retry(lambda: pane.tmux("display", "-p", "#{pane_dead}").strip() == "1")
    assert pane.all().split("\n")[0] == "half and half" and "Esc interrupts" not in pane.all()


@pytest.mark.parametrize("cols", [40, 80, 160])
def test_an_answer_is_this_grid(screen, cols):
    pane, hub = screen(lambda hub, said: hub.say(*re.findall(r"\S+\s*|\s+", ANSWER)), cols=cols)
    pane.type("go")
    pane.keys("Enter")
    pane.shows("end")
    grid = pane.idle()
    at = grid.index("> go")
    assert grid[at:] == GRIDS[cols]
    assert pane.cursor() == (grid.index(">"), 2)


DIFF = "--- a/f\n+++ b/f\n@@ -7,3 +7,3 @@\n int a;\n-int old = 1;\n+int new = 1;\n }"


@pytest.mark.parametrize("cols, rows", [
    (40, ["  @@ -7,3 +7,3 @@", "   int a;", "  -int old = 1;", "  +int new = 1;", "   }"]),
    (80, ["  @@ -7,3 +7,3 @@", "   int a;", "  -int old = 1;", "  +int new = 1;", "   }"]),
    (160, ["  @@ -7,3 +7,3 @@", f"      7 {' int a;':<71} │     7  int a;",
           f"      8 {'-int old = 1;':<71} │     8 +int new = 1;", f"      9 {' }':<71} │     9  }}"])])
def test_an_edit_is_a_diff_and_in_a_wide_window_side_by_side(screen, cols, rows):
    def play(hub, said):
        hub.emit("tool.called", call_id="c", tool="edit_file", input={"path": "f", "old": "x", "new": "y"})
        hub.emit("tool.completed", call_id="c", tool="edit_file", success=True, duration_ms=1, output="ok", diff=DIFF)
        hub.say("done")

    pane, hub = screen(play, cols=cols)
    pane.type("go")
    pane.keys("Enter")
    pane.shows("done")
    grid = pane.idle()
    at = grid.index("● edit_file  f")
    assert grid[at + 1:at + 3] == ["  --- a/f", "  +++ b/f"] and grid[at + 3:at + 3 + len(rows)] == rows


# ---- signs of life -------------------------------------------------------------------------


def test_thinking_running_and_retrying_are_seen(screen):
    go = [threading.Event() for _ in range(4)]

    def play(hub, said):
        go[0].wait(DEADLINE)
        hub.emit("message.delta", reasoning="The user wants something.\nI wonder what.")
        go[1].wait(DEADLINE)
        hub.emit("usage.updated", usage={"input": 1500, "output": 20, "cost_usd": 0.0123})
        hub.emit("tool.called", call_id="c", tool="shell", input={"cmd": "make"})
        hub.emit("tool.progress", call_id="c", text="".join(f"compiling {i}\n" for i in range(9)))
        go[2].wait(DEADLINE)
        hub.emit("tool.completed", call_id="c", tool="shell", success=True, duration_ms=5, output="built")
        hub.emit("message.aborted", retry_in_ms=30000,
                 error={"code": "PROVIDER_RATE_LIMITED", "message": "the provider limits the rate"})
        go[3].wait(DEADLINE)
        hub.say("at last")

    pane, hub = screen(play)
    pane.type("go")
    pane.keys("Enter")
    pane.wait(lambda g: any(line[:1] in SPINNER and re.search(r"thinking · [1-9]\d* s", line) for line in g if line))
    go[0].set()
    pane.shows("  The user wants something. I wonder what.")
    go[1].set()
    grid = pane.shows("running shell")
    assert "  compiling 8" in grid and "  compiling 4" in grid and "  compiling 3" not in grid
    assert any(re.match(r"∴ thought for \d+\.\d s", line) for line in grid)
    assert any("· $0.0123 · Esc interrupts" in line for line in grid)
    assert any("context" not in line and "$0.0123" in line for line in grid)
    go[2].set()
    grid = pane.wait(lambda g: any("the provider limits the rate: trying again in" in line for line in g))
    assert "  compiling 8" not in grid and "  built" in grid
    go[3].set()
    pane.shows("at last")
    pane.idle()


def test_a_window_that_changes_reprints_and_loses_nothing(screen):
    go = threading.Event()
    words = " ".join(f"word{i:03d}" for i in range(60))
    before = [f"line{i:02d}" for i in range(50)]

    def play(hub, said):
        if said == "fill":
            return hub.say("```\n" + "\n".join(before) + "\n```")
        hub.emit("message.delta", text="first block, printed for good\n\n" + words)
        go.wait(DEADLINE)
        hub.say(" end", final="first block, printed for good\n\n" + words + " end")

    pane, hub = screen(play, cols=100, rows=40)
    for text, answer in (("fill", "line49"), ("go", "word059")):
        pane.idle()
        pane.type(text)
        pane.keys("Enter")
        pane.shows(answer)
    pane.type("a line that is typed while the model writes, longer than forty columns")
    pane.shows("forty columns")
    for cols, rows in [(60, 30), (41, 36), (97, 30), (52, 34), (140, 40), (73, 28), (80, 34)] * 2:
        pane.resize(cols, rows)
    pane.wait(lambda g: any(len(line) > 70 and line.startswith("> a line") for line in g))
    go.set()
    pane.wait(lambda g: not any(line[:1] in SPINNER for line in g if line))
    pane.keys("C-u")
    pane.idle()
    seen = pane.all()
    for text in ["> fill", *before, "> go", "first block, printed for good", *words.split()]:
        assert seen.count(text) == 1, f"{text}\n{seen}"
    assert "typed while" not in seen and seen.count("fake/f") == 2  # the greeting, and the status


@pytest.mark.parametrize("size", [(80, 10), (60, 10), (40, 14)])
def test_a_lower_window_keeps_the_last_answer_and_the_status(screen, size):
    lines = [f"  line{i:02d}" for i in range(20)]
    pane, hub = screen(lambda hub, said: hub.say("```\n" + "\n".join(x[2:] for x in lines) + "\n```"))
    pane.type("go")
    pane.keys("Enter")
    pane.shows("line19")
    pane.idle()
    pane.resize(*size)  # tmux drops the rows below the cursor first
    grid = pane.wait(lambda g: len(g) == size[1] and g[-1].endswith("fake/f"))
    assert grid == [*lines, ">", "fake/f"][-size[1]:]


# ---- every key of the help page ------------------------------------------------------------


def test_keys_of_the_editor(screen):
    pane, hub = screen(lambda hub, said: hub.say("ok"))

    def said():
        return [b["text"] for m, p, b in hub.requests if p.endswith("/message")]

    def check(text, *keys):
        n = len(said())
        for key in keys:
            pane.type(key[1:]) if key.startswith("'") else pane.keys(key)
        pane.keys("Enter")
        retry(lambda: len(said()) == n + 1)
        assert said()[-1] == text
        retry(lambda: pane.all().split("\n").count("ok") == n + 1)  # the turn is over, and not about to begin
        pane.idle()

    check("one two", "'one three", "C-w", "'two")
    check("Xone", "'one", "Home", "'X")
    check("one", "'one two", "M-BSpace", "BSpace")
    check("a b", "'a c", "Left", "Delete", "'b")
    check("first\nsecond", "'first", "M-Enter", "'second")
    check("first\nsecond", "'first\\", "Enter", "'second")
    check("kept", "'kept", "' lost", "C-w", "C-_", "C-w", "BSpace")
    check("kept", "Up")
    check("first\nsecond", "C-r", "'fir")
    check("moved by words", "'by words", "M-b", "M-b", "'moved ")
    check("yanked", "'yanked", "C-u", "C-y")
    check("ab c", "'b", "C-a", "'a", "C-e", "' c")
    check("one", "'one two", "M-b", "C-k", "BSpace")
    check("one", "'two one", "Home", "M-d", "Delete")
    check("to and fro", "' fro", "Home", "'to", "C-Right", "C-Left", "'and ")
    check("漢字👩‍👩‍👧", "'漢字x", "BSpace", "'👩‍👩‍👧y", "BSpace")


def test_ctrl_l_clears_and_ctrl_d_leaves(screen):
    pane, hub = screen(lambda hub, said: hub.say("ok"))
    pane.type("kept")
    pane.keys("C-l")
    pane.wait(lambda g: g[0] == "> kept" and not any("session" in line for line in g))
    pane.keys("C-d")  # not in a text
    pane.keys("C-u", "C-d")
    retry(lambda: pane.tmux("display", "-p", "#{pane_dead}").strip() == "1")


def test_ctrl_z_suspends_and_the_chat_comes_back(home, tmp_path):
    hub = FakeHub(home, lambda hub, said: hub.say("an answer to " + said))
    pane = Pane(home, tmp_path, 80, 24, "--norc", "-i", program="bash", env={"PS1": "shell$ "})
    try:
        pane.shows("shell$")
        pane.type(f"{BIN} chat")
        pane.keys("Enter")
        pane.idle()
        pane.type("half")
        pane.keys("C-z")
        grid = pane.shows("Stopped")
        assert "> half" not in grid and "fake/f" not in grid[-3:]
        pane.type("stty -a | grep -c -- ' icanon'; fg")
        pane.keys("Enter")
        pane.shows("> half")
        pane.type(" done")
        pane.keys("Enter")
        pane.shows("an answer to half done")
        assert "1" in pane.grid()  # the shell had its terminal as usual
        pane.idle()
        pane.type("/quit")
        pane.keys("Enter")
        pane.wait(lambda g: [line for line in g if line][-1] == "shell$")
    finally:
        pane.close()
        hub.close()


def test_escape_interrupts_and_enter_steers_and_alt_enter_queues(screen):
    def play(hub, said):
        if said == "go":
            hub.emit("message.delta", text="working on it")
            hub.wait_for("POST", "/session/s-1/interrupt")
            hub.turns = 1
            hub.emit("turn.interrupted")
        else:
            hub.wait_for("POST", "/session/s-1/interrupt")
            retry(lambda: any(e["type"] == "turn.interrupted" for e in hub.events))
            hub.turns = 2
            hub.say("an answer to " + said)

    pane, hub = screen(play)
    pane.type("go")
    pane.keys("Enter")
    pane.shows("working on it")
    pane.type("mind the tests")
    pane.keys("Enter")
    assert hub.wait_for("POST", "/session/s-1/steer") == {"text": "mind the tests"}
    pane.shows("> mind the tests")
    pane.type("/quit")
    pane.keys("Enter")
    pane.shows("commands wait for the end of the turn")  # and the model is not told
    pane.keys("C-u")
    pane.type("and then this")
    pane.keys("M-Enter")
    pane.shows("queued: and then this")
    pane.keys("Escape")
    pane.shows("an answer to and then this")
    grid = pane.idle()
    assert not any(line.startswith("queued") for line in grid) and "> and then this" in grid
    assert [b["text"] for m, p, b in hub.requests if p.endswith("/steer")] == ["mind the tests"]


def test_shift_tab_cycles_the_permission_modes(screen):
    pane, hub = screen(lambda hub, said: hub.say("ok"))
    for mode in ("ask", "edits", "plan", "auto", "ask"):
        pane.keys("BTab")
        pane.shows(f"{mode} · fake/f")
        assert hub.row["permission"] == mode


def test_tab_completes_commands_files_and_programs(screen):
    pane, hub = screen(lambda hub, said: hub.say("ok"))
    (pane.dir / "readme.txt").write_text("")
    (pane.dir / "really").mkdir()
    hub.row["working_dir"] = str(pane.dir)
    pane.keys("BTab")  # takes the row over
    pane.type("/comp")
    pane.keys("Tab")
    pane.wait(lambda g: "> /compact" in g)
    pane.keys("C-u")
    pane.type("/pl")
    pane.keys("Tab")
    pane.wait(lambda g: "plugin  plugins" in g)
    pane.keys("Tab")
    pane.wait(lambda g: "*plugin  plugins" in g and "> /plugin" in g)
    pane.keys("C-u")
    pane.type("see @rea")
    pane.keys("Tab")
    pane.wait(lambda g: "readme.txt  really/" in g)
    pane.type("d")
    pane.keys("Tab")
    pane.wait(lambda g: "> see @readme.txt" in g)
    pane.keys("C-u")
    pane.type("!tmu")
    pane.keys("Tab")
    pane.wait(lambda g: any(line.startswith("> !tmux") for line in g))


def test_tab_in_the_second_line_of_a_command_does_no_harm(screen):
    pane, hub = screen(lambda hub, said: hub.say("ok"))
    pane.type("/review")
    pane.keys("M-Enter")
    pane.type("fo")
    pane.keys("Tab")
    pane.type("o")
    pane.wait(lambda g: "  foo" in g)


def test_a_paste_of_a_megabyte_is_there_at_once(screen, tmp_path):
    pane, hub = screen(lambda hub, said: hub.say("ok"))
    text = "a line of text.\n" * 65536
    (tmp_path / "big").write_text(text)
    pane.tmux("load-buffer", str(tmp_path / "big"))
    pane.tmux("paste-buffer", "-p")
    pane.type("!")
    pane.shows("  !")
    pane.keys("BSpace", "Enter")
    retry(lambda: any(p.endswith("/message") for m, p, b in hub.requests))
    assert hub.wait_for("POST", "/session/s-1/message")["text"] == text.strip()
    pane.idle()


def test_ctrl_o_opens_what_a_tool_prints(screen):
    go = threading.Event()

    def play(hub, said):
        hub.emit("tool.called", call_id="c", tool="shell", input={"cmd": "make"})
        hub.emit("tool.progress", call_id="c", text="".join(f"row{i}\n" for i in range(12)))
        go.wait(DEADLINE)
        hub.emit("tool.completed", call_id="c", tool="shell", success=True, duration_ms=5,
                 output="".join(f"row{i}\n" for i in range(12)))
        hub.say("done")

    pane, hub = screen(play)
    pane.type("go")
    pane.keys("Enter")
    grid = pane.shows("row11")
    assert "  row7" in grid and "  row6" not in grid
    pane.keys("C-o")
    pane.wait(lambda g: "  row0" in g and "  row11" in g)
    go.set()
    pane.shows("done")
    assert "  row11" in pane.idle() and "more line" not in pane.all()


def test_a_user_who_looks_elsewhere_is_told(screen):
    go = threading.Event()

    def play(hub, said):
        go.wait(DEADLINE)
        hub.say("done")

    pane, hub = screen(play)
    pane.tmux("set", "-g", "monitor-bell", "on")
    pane.tmux("new-window", "-d", "cat")
    pane.type("go")
    pane.keys("Enter")
    pane.wait(lambda g: any(line[:1] in SPINNER for line in g if line))
    pane.type("\x1b[O")  # as the terminal says it
    pane.tmux("select-window", "-t", ":1")
    go.set()
    retry(lambda: pane.tmux("display", "-p", "-t", ":0", "#{window_bell_flag}").strip() == "1")


def test_a_crash_gives_the_terminal_back(screen):
    pane, hub = screen(lambda hub, said: hub.emit("message.delta", text="busy"))
    pane.type("go")
    pane.keys("Enter")
    pane.shows("busy")
    pid = int(pane.tmux("display", "-p", "#{pane_pid}"))
    subprocess.run(["kill", "-SEGV", str(pid)], check=True)
    retry(lambda: pane.tmux("display", "-p", "#{pane_dead}").strip() == "1")
    assert not any("Esc interrupts" in line or line.startswith(">") and line != "> go" for line in pane.grid()[3:])
