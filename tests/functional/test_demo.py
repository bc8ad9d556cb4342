"""The tour ends well, leaves nothing behind, and says only what commands said."""
import os
import re
import resource
import signal

import pytest

from conftest import DEADLINE, check_report, read_line, read_until


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
    """What commands printed, without what the demo saved."""
    return "\n".join(x for x in text.splitlines() if x.startswith("    "))


def test_the_demo_ends_by_itself_with_0(home, tmp):
    done = home.cli("demo")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.rstrip().endswith("hub is not running")
    for fact in ("hub started", "user.demo", "off (chosen)", "did not end by itself",
                 '"hello Ada"', '"good day Grace"', "error LOAD_FAILED lua:user.init", '"good day Edsger"',
                 "cannot read '/etc/passwd'", "cannot read '../user/init.lua'",
                 "UNAUTHORIZED", "HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED", "hub stopped"):
        assert fact in done.stdout
    assert "good night" not in said(done.stdout), "the broken version never answers"
    assert hubs_of(tmp) == []
    assert os.listdir(home.dir) == [], "the user's own home is untouched"


def test_the_demo_with_serve_but_no_terminal_ends_by_itself(home, tmp):
    assert home.cli("demo", "--serve").returncode == 0


def test_verbose_shows_the_commands_and_nothing_else_is_said(home, tmp):
    lines = home.ok("demo", "--verbose").splitlines()
    shown = [x for x in lines if x.startswith("  $ afloat ")]
    assert len(shown) > 15
    plain = [x for x in home.ok("demo").splitlines() if not x.startswith(("    ", "  > lua/", "  | "))]
    # what is neither a command's output nor the text of a file is a heading: an instruction or a
    # question, never a figure
    assert all(re.fullmatch(r"|[A-Z].*|kill -9 .*", x) for x in plain)
    assert not any(re.search(r"\d{2,}", x) for x in plain)


def test_a_command_that_fails_ends_the_demo_with_it(home, tmp):
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))  # the doctor objects
    done = home.cli("demo", preexec_fn=few)
    assert done.returncode == 1 and "'afloat doctor' gave exit code 1" in done.stderr
    assert "fail  open files" in done.stdout
    assert hubs_of(tmp) == []


def test_a_demo_without_a_place_says_so(home, tmp):
    done = home.cli("demo", env={"TMPDIR": str(tmp / "absent")})
    assert done.returncode == 1 and "absent" in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_behind(home, tmp, signum):
    process = home.popen("demo")
    while "hub started" not in read_line(process.stdout):
        pass
    process.send_signal(signum)
    _, err = process.communicate(timeout=DEADLINE)
    check_report(err.decode())
    assert process.returncode == 130
    assert hubs_of(tmp) == []


def test_a_demo_whose_reader_goes_leaves_nothing_behind(home, tmp):
    process = home.popen("demo")
    while "hub started" not in read_line(process.stdout):
        pass
    process.stdout.close()
    process.wait(DEADLINE)
    assert process.returncode == 1
    assert hubs_of(tmp) == []


def test_serve_on_a_terminal_stays_until_ctrl_c(home, tmp):
    process, terminal = home.on_terminal("demo", "--serve")
    with terminal:
        read_until(terminal, rb"Ctrl-C ends it.*http://afloat\.localhost:\d+/\?code=\S+\r\n")
        assert process.poll() is None and hubs_of(tmp)
        terminal.write(b"\x03")
        assert process.wait(DEADLINE) == 0
    assert hubs_of(tmp) == []


def test_serve_ends_when_its_terminal_goes(home, tmp):
    process, terminal = home.on_terminal("demo", "--serve")
    with terminal:
        read_until(terminal, rb"Ctrl-C ends it.*code=\S+\r\n")
    process.wait(DEADLINE)
    assert hubs_of(tmp) == []
