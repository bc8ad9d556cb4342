"""The tour ends well, leaves nothing behind, and says only what commands said."""
import os
import re
import signal

import pytest

from conftest import DEADLINE, check_report, read_line, read_to_end, read_until


LONG = 4 * DEADLINE  # a tour is some thirty commands


@pytest.fixture
def tmp(home, tmp_path):
    """Where the demo makes its home."""
    home.env["TMPDIR"] = str(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == [], "the private home is still there"


def hubs_of(tmp):
    """Processes that have a file of the demo's home open."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if int(pid) != os.getpid() and any(x.startswith(str(tmp)) for x in links):
            found.append(int(pid))
    return found


def said(text):
    """What commands printed, without what the demo saved and typed."""
    return "\n".join(x for x in text.splitlines() if x.startswith("    "))


def test_the_demo_ends_by_itself_with_0(home, tmp):
    done = home.cli("demo", timeout=LONG)
    assert done.returncode == 0 and done.stderr == ""
    printed = said(done.stdout)
    for fact in ("+goodbye from the tour", "-- signed by version 1", "error LOAD_FAILED signature", "signature.lua:2",
                 "+x = 1", "?? answer.txt", "good evening", "good morning", "reloaded  env.toml",
                 "did not end by itself"):
        assert fact in printed, fact
    assert printed.count("-- signed by version 2") >= 3, "the last good version goes on, over kill -9 too"
    assert "broken" not in printed, "the broken version never answers"
    assert "\x1b" not in done.stdout
    assert done.stdout.rstrip().endswith("the commands to begin with")
    assert hubs_of(tmp) == []
    assert os.listdir(home.dir) == [], "the user's own home is untouched"


def test_the_demo_with_serve_but_no_terminal_ends_by_itself(home, tmp):
    assert home.cli("demo", "--serve", timeout=LONG).returncode == 0


def test_every_step_shows_its_command_and_verbose_adds_how_long_it_took(home, tmp):
    lines = home.ok("demo", "--verbose", timeout=LONG).splitlines()
    shown = [x for x in lines if x.startswith("  $ ")]
    assert len(shown) > 15 and any(x.startswith("  $ afloat chat ") for x in shown)
    took = [x for x in lines if re.fullmatch(r"    \(\d+ ms\)", x)]
    assert len(took) == sum(not x.startswith("  $ kill -9 ") for x in shown)
    # what is neither typed, nor printed by a command, nor the text of a file claims no figure
    plain = [x for x in lines if not x.startswith(("    ", "  $ ", "  | ", "  saved "))]
    assert not any(re.search(r"\d{2,}", x) for x in plain)


def test_a_command_that_cannot_be_run_ends_the_demo_with_it(home, tmp):
    done = home.cli("demo", env={"PATH": str(tmp / "nowhere")})
    assert done.returncode == 1 and "'git init -q .' cannot be run: is it installed?" in done.stderr
    assert hubs_of(tmp) == []


def test_on_a_terminal_it_waits_for_the_reader_and_space_goes_on(home, tmp):
    process, terminal = home.on_terminal("demo")
    with terminal:
        read_until(terminal, rb"Press Space to skip ahead.*A model that works")
        for _ in range(100):  # far fewer seconds than the pauses together
            terminal.write(b" ")
        read_until(terminal, rb"the commands to begin with", LONG)
        assert process.wait(DEADLINE) == 0


def test_on_a_terminal_rows_end_with_words(home, tmp):
    process, terminal = home.on_terminal("demo", "--fast", env={"TERM": "xterm", "NO_COLOR": "1"})
    with terminal:
        rows = read_to_end(terminal).decode().splitlines()
        assert process.wait(DEADLINE) == 0
    assert len(rows) > 150
    assert [r for r in rows if len(r) > 80 and " " in r.strip()] == []  # a path or hash alone may be longer


def test_a_demo_without_a_place_says_so(home, tmp):
    done = home.cli("demo", env={"TMPDIR": str(tmp / "absent")})
    assert done.returncode == 1 and "absent" in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(home, tmp, signum):
    process = home.popen("demo")
    while "is changed" not in read_line(process.stdout):
        pass
    process.send_signal(signum)
    _, err = process.communicate(timeout=DEADLINE)
    check_report(err.decode())
    assert process.returncode == 130
    assert hubs_of(tmp) == []


def test_a_demo_whose_reader_goes_leaves_nothing_behind(home, tmp):
    process = home.popen("demo")
    while "is changed" not in read_line(process.stdout):
        pass
    process.stdout.close()
    process.wait(DEADLINE)
    assert process.returncode == 1
    assert hubs_of(tmp) == []


def test_serve_on_a_terminal_stays_until_ctrl_c(home, tmp):
    process, terminal = home.on_terminal("demo", "--serve", "--fast")
    with terminal:
        read_until(terminal, rb"Ctrl-C ends it.*http://afloat\.localhost:\d+/\?code=\S+\r\n", LONG)
        assert process.poll() is None and hubs_of(tmp)
        terminal.write(b"\x03")
        assert process.wait(DEADLINE) == 0
    assert hubs_of(tmp) == []


def test_serve_ends_when_its_terminal_goes(home, tmp):
    process, terminal = home.on_terminal("demo", "--serve", "--fast")
    with terminal:
        read_until(terminal, rb"Ctrl-C ends it.*code=\S+\r\n", LONG)
    process.wait(DEADLINE)
    assert hubs_of(tmp) == []


def test_the_text_of_the_demo_breaks_no_word_on_a_narrow_terminal(home, tmp):
    home.env.update(TERM="xterm", LANG="C.UTF-8")
    process, terminal = home.on_terminal("demo", "--fast", cols=40)
    seen = read_to_end(terminal)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r", "")
    said_by_us = [x for x in text.splitlines() if not x.startswith(("    ", "  $", "  |", "  saved"))]
    assert said_by_us and max(map(len, said_by_us)) <= 40, said_by_us
    assert "find a real model" in " ".join(text.split())
