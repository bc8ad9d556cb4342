"""Real programs in terminals, and programs that misbehave: what a viewer draws is what a terminal of its own would show."""
import json
import os
import random
import re
import shutil
import subprocess
import time

import pytest
from conftest import DEADLINE, LOOPS, Hub, retry
from ptys import Terminal
from test_pty import new, ptys, rows, screen  # noqa: F401

FLOOD_MB = 5 * LOOPS  # 100 in `make soak`
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def needs(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}")


class Shown:
    """What a real terminal emulator (tmux) shows of the bytes that a viewer gets."""

    def __init__(self, dir, cols=80, rows=24):
        self.tmux = ["tmux", "-S", str(dir / "shown.sock"), "-f", "/dev/null"]
        self.pipe = dir / "bytes"
        os.mkfifo(self.pipe)
        self.run("new-session", "-d", "-x", str(cols), "-y", str(rows), f"stty raw -echo; exec cat {self.pipe}")
        self.run("set", "-g", "status", "off")
        self.out = open(self.pipe, "wb", buffering=0)

    def run(self, *args):
        return subprocess.run([*self.tmux, *args], capture_output=True, text=True, check=True).stdout

    def text(self):
        return "\n".join(line.rstrip() for line in self.run("capture-pane", "-p").split("\n")).rstrip()

    def close(self):
        self.out.close()
        subprocess.run([*self.tmux, "kill-server"], capture_output=True)


@pytest.fixture
def shown(tmp_path):
    made = []

    def start(**size):
        made.append(Shown(tmp_path, **size))
        return made[-1]
    yield start
    for it in made:
        it.close()


def same_everywhere(home, terminal, emulator):
    """The keeper's own screen, and what an emulator draws of its snapshot and its bytes, end up the same."""
    emulator.out.write(terminal.screen + terminal.output)
    done = len(terminal.output)

    terminal.socket.settimeout(0.2)

    def equal():
        nonlocal done
        try:
            terminal.step()  # more of it
        except TimeoutError:
            pass
        emulator.out.write(terminal.output[done:])
        done = len(terminal.output)
        ours = "\n".join(line.rstrip() for line in screen(home, terminal.id).split("\n")).rstrip()
        equal.seen = ours, emulator.text()
        return equal.seen[0] == equal.seen[1] and ours
    try:
        return retry(equal)
    except AssertionError:
        pytest.fail("\n----\n".join(equal.seen), pytrace=False)
    finally:
        terminal.socket.settimeout(DEADLINE)


def view(home, row):
    terminal = Terminal(home, row["id"])
    terminal.id = row["id"]
    return terminal


@needs("vim", "tmux")
def test_vim_edits_a_file(ptys, hub, tmp_path, shown):
    file = tmp_path / "f.txt"
    file.write_text("first\nsecond\n" * 30)
    row = new(ptys, "vim", "-u", "NONE", "-N", str(file), env={**ENV, "TERM": "xterm-256color"})
    t = view(ptys, row)
    t.until(b"second")
    t.send("Gonew line\x1b:set number\r")
    retry(lambda: "61 new line" in screen(ptys, row["id"]))
    text = same_everywhere(ptys, t, shown())
    assert "61 new line" in text and "first" in text
    t.send(":wq\r")
    t.until(lambda: t.exit is not None)
    assert t.exit == 0 and file.read_text().endswith("second\nnew line\n")


@needs("less", "tmux")
def test_less_pages_and_gives_the_screen_back(ptys, hub, tmp_path, shown):
    (tmp_path / "long").write_text("".join(f"line {i}\n" for i in range(1, 500)))
    row = new(ptys, "sh", "-c", f"echo before; less {tmp_path}/long; echo after; read x", env=ENV)
    t = view(ptys, row)
    t.until(b"line 20")
    t.send(" ")
    retry(lambda: "line 46" in screen(ptys, row["id"]))
    assert "line 46" in same_everywhere(ptys, t, shown())
    t.send("q")
    t.until(b"after")
    assert screen(ptys, row["id"]).split("\n")[:2] == ["before", "after"]  # the alternate screen is gone


@needs("top", "tmux")
def test_top_draws_and_leaves(ptys, hub, shown):
    row = new(ptys, "top", "-d", "60", env=ENV)
    t = view(ptys, row)
    t.until(b"load average")
    t.until(b"COMMAND")
    assert "PID" in same_everywhere(ptys, t, shown())
    t.send("q")
    t.until(lambda: t.exit is not None)
    assert t.exit == 0


@needs("htop", "tmux")
def test_htop_draws_and_leaves(ptys, hub, shown):
    row = new(ptys, "htop", "-d", "600", env=ENV)
    t = view(ptys, row)
    t.until(b"F10")
    t.until(b"Quit")
    assert "F1" in same_everywhere(ptys, t, shown())
    t.send("q")
    t.until(lambda: t.exit is not None)
    assert t.exit == 0


def test_a_storm_of_sizes_ends_with_the_last_one(ptys, hub):
    row = new(ptys, "sh", "-c", "trap 'stty size' WINCH; echo up; while :; do read x || :; done", env=ENV)
    t = view(ptys, row)
    t.until(b"up")
    choose = random.Random(5)
    for _ in range(300):
        t.resize(choose.randrange(2, 200), choose.randrange(3, 400))
    t.resize(33, 77)
    t.until(lambda: t.sizes and t.sizes[-1] == (33, 77))
    t.until(b"33 77")
    assert ptys.http("GET", "/healthz").status == 200


def drain(t, what):
    """Read frames until `what` is at the end; what came before it is let go."""
    end = time.monotonic() + 60 * LOOPS
    while what not in t.screen + t.output:
        assert time.monotonic() < end and t.step(), (what, t.screen[-300:], t.output[-300:])
        t.output = t.output[-4096:]
    return (t.screen + t.output)[-400:]


def test_a_flood_leaves_memory_flat_ends_with_the_right_line_and_with_ctrl_c(ptys, hub):
    line, lines = "line %09.0f of the flood", FLOOD_MB * 1000000 // 26
    row = new(ptys, "bash", "-c", f"stty -echo; trap 'echo stopped' INT; read x; seq -f '{line}' {lines // 5}; echo some; read x; "
                                  f"seq -f '{line}' {lines}; echo the end; read x; yes forever; echo after; read x")

    def peak():
        return int(re.search(r"VmHWM:\s*(\d+)", open(f"/proc/{row['keeper_pid']}/status").read())[1])

    t = view(ptys, row)
    t.send("\r")
    drain(t, b"some\r\n")
    before = peak()
    t.send("\r")
    told = drain(t, b"the end\r\n")
    assert (line % lines + "\r\nthe end").encode() in told, told
    retry(lambda: line % lines + "\nthe end" in screen(ptys, row["id"]))
    t.send("\r")
    drain(t, b"forever\r\n" * 20)
    t.send("\x03")
    told = drain(t, b"after\r\n")
    assert b"stopped" in told, told
    if "build/asan" not in os.environ.get("AFLOAT_BIN", ""):  # it keeps what was freed; tests/unit/vt counts there
        assert peak() < min(before + 1024, 16000), "kilobytes: what was written is not kept"
    t.close()


def test_an_osc_that_never_ends_holds_up_nothing(ptys, hub):
    row = new(ptys, "sh", "-c", r"read x; printf '\033]2;'; head -c 3000000 /dev/zero | tr '\0' x; printf '\007'; "
                                r"printf '\033]8;;http'; head -c 100000 /dev/zero | tr '\0' y; printf '\033\\'; "
                                "echo still here; read x")
    t = view(ptys, row)
    t.send("\r")
    t.until(b"still here")
    text = screen(ptys, row["id"])
    assert "still here" in text and "xxx" not in text and "yyy" not in text
    assert len(ptys.http("GET", f"/pty/{row['id']}").json()["title"]) < 1000


def test_T18_a_terminal_that_is_found_again_hears_no_older_connection(ptys):
    first = Hub(ptys)
    row = new(ptys, "cat")
    first.close()
    for word in ("uno", "due", "tre"):  # each hub has a connection of its own, and the keeper forgets the ones before
        hub = Hub(ptys)
        retry(lambda: rows(ptys))
        t = view(ptys, row)
        t.until(lambda: t.screen)
        t.send(word + "\r")
        t.until(f"{word}\r\n{word}\r\n".encode())
        assert t.output.count(word.encode()) == 2
        assert ptys.http("GET", f"/pty/{row['id']}").json()["viewers"] == 1
        t.close()
        hub.close()
    assert json.loads(ptys.ok("pty", "list", "--json"))["ptys"][0]["state"] == "running"
