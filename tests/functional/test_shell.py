"""`afloat shell` on a real terminal, with real shells and programs in it."""
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

from conftest import BIN, DEADLINE, check_report, is_gone, retry, wait_gone

SHELLS = ["bash", "zsh", "fish"]
RC = {
    "bash": (".bashrc", "PS1='P> '\n"),
    "zsh": (".zshrc", "PROMPT='P> '\nPROMPT_EOL_MARK=''\n"),
    "fish": (".config/fish/config.fish",
             "set fish_greeting\nfunction fish_prompt; echo -n 'P> '; end\n"),
}
PROMPT = rb"\(afloat\) P> "


class Terminal:
    """A terminal of our own, and what came out of it."""

    def __init__(self, rows=24, cols=200):
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, cols)
        self.seen = bytearray()
        self.at = 0

    def resize(self, rows, cols, x=0, y=0):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, x, y))

    def send(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        while data:
            n = os.write(self.ours, data)
            data = data[n:]

    def more(self, deadline):
        ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.ours, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def expect(self, pattern, deadline=DEADLINE):
        """The match of the pattern in what came since the last one."""
        pattern = pattern if isinstance(pattern, bytes) else pattern.encode()
        end = time.monotonic() + deadline
        while True:
            m = re.search(pattern, self.seen[self.at:], re.S)
            if m:
                self.at += m.end()
                return m
            assert self.more(end), f"no {pattern!r} in {self.seen[self.at:]!r}"

    def modes(self):
        return termios.tcgetattr(self.ours)

    def close(self):
        for fd in (self.ours, self.theirs):
            if fd is not None:
                os.close(fd)
        self.ours = self.theirs = None


class Place:
    """A user's home directory and a project in it."""

    def __init__(self, home, dir):
        self.home = home
        self.user = dir / "user"
        self.project = dir / "project"
        (self.project / ".afloat").mkdir(parents=True)
        self.user.mkdir()
        home.env.update(HOME=str(self.user), TERM="xterm-256color", LANG="C.UTF-8")
        self.open = []

    def write(self, text, name=".afloat/env.toml"):
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def rc(self, shell, more=""):
        name, text = RC[shell]
        path = self.user / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + more)

    def trust(self):
        self.home.ok("trust", "--follow", str(self.project))

    def start(self, *args, shell="bash", rows=24, cols=200, env=None, cwd=None):
        """`afloat shell` on a terminal; its process is `t.process`."""
        return self.start_argv(BIN, "shell", *args, shell=shell, rows=rows, cols=cols, env=env, cwd=cwd)

    def start_argv(self, *argv, shell="bash", rows=24, cols=200, env=None, cwd=None):
        t = Terminal(rows, cols)
        t.process = subprocess.Popen(
            argv, stdin=t.theirs, stdout=t.theirs, stderr=t.theirs,
            cwd=cwd or self.project, start_new_session=True,
            env={**self.home.env, "SHELL": f"/usr/bin/{shell}", **(env or {})},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.open.append(t)
        return t

    def enter(self, *args, **more):
        t = self.start(*args, **more)
        t.expect(PROMPT)
        return t

    def session(self):
        """The directory of the one session."""
        found = [d for d in (self.home.runtime / "shell").iterdir() if (d / "ctl.sock").exists()]
        assert len(found) == 1, found
        return found[0]

    def ctl(self, op, arg=None):
        """Ask the wrapper."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        fd = os.open(self.session(), os.O_PATH)
        try:
            s.connect(f"/proc/self/fd/{fd}/ctl.sock")
        finally:
            os.close(fd)
        with s:
            s.sendall(json.dumps({"op": op, **({"arg": arg} if arg else {})}).encode() + b"\n")
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
        return json.loads(answer)

    def wait_applied(self):
        def applied():
            s = self.ctl("status")
            return s if s["applied"] == s["generation"] > 0 else None
        return retry(applied)

    def rebuild(self, text):
        """Save env.toml and return when the new environment is offered."""
        self.write(text)
        answer = self.ctl("reload")  # "force" would build twice when the watcher was first
        assert "error" not in answer, answer
        return answer

    def end(self, t, command="exit\r"):
        t.send(command)
        code = t.process.wait(DEADLINE)
        while t.more(time.monotonic()):
            pass
        assert list((self.home.runtime / "shell").iterdir()) == []
        return code

    def close(self):
        for t in self.open:
            if t.process.poll() is None:
                t.process.send_signal(signal.SIGTERM)
                t.process.wait(DEADLINE)
            check_report(t.seen.decode(errors="replace"))
            t.close()


@pytest.fixture
def place(home, tmp_path):
    p = Place(home, tmp_path)
    for shell in SHELLS:
        p.rc(shell)
    yield p
    p.close()


@pytest.fixture(params=SHELLS)
def shell(request):
    return request.param


def ask(t, text):
    """Run a command; what it prints between two marks that its echo does not hold."""
    t.send(f"echo be''gin; {text}; echo e''nd\r")
    return t.expect(rb"begin\r?\n(.*)end\r?\n").group(1).decode().replace("\r\n", "\n").strip()


# ---- the environment -------------------------------------------------------------------------

def test_an_edit_arrives_before_the_next_command(place, shell):
    place.write('[env]\nFOO = "one"\nGONE = "x"\n[path]\nprepend = ["bin"]\n')
    place.trust()
    t = place.enter(shell=shell)
    assert ask(t, 'printenv FOO AFLOAT_ENV_GENERATION AFLOAT_SHELL AFLOAT_PROJECT').split() == \
        ["one", "1", "1", str(place.project)]
    assert ask(t, "printenv PATH").startswith(f"{place.project}/bin:")
    place.rebuild('[env]\nFOO = "two"\n')
    assert ask(t, "printenv FOO AFLOAT_ENV_GENERATION; printenv GONE") == "two\n2"
    assert f"{place.project}/bin" not in ask(t, "printenv PATH")
    assert place.end(t) == 0


def test_saving_is_enough(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    place.write('[env]\nFOO = "saved"\n')
    retry(lambda: ask(t, "printenv FOO") == "saved")
    assert place.end(t) == 0


def test_a_line_that_is_being_typed_stays(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    place.wait_applied()
    t.send("echo ke''pt-$F")
    t.expect(rb"-.*F")
    place.rebuild('[env]\nFOO = "two"\n')
    if shell != "bash":  # bash takes it with the next Enter
        place.wait_applied()
    t.send("OO\r")
    t.expect(rb"kept-two")
    assert place.end(t) == 0


def test_what_there_is_to_say_waits_for_the_prompt(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    ask(t, "set -gx FOO mine" if shell == "fish" else "export FOO=mine")
    t.expect(PROMPT)
    t.send("echo ha''lf")
    t.expect(rb"ha.*lf")
    place.rebuild('[env]\nFOO = "two"\n')
    if shell != "bash":
        place.wait_applied()
    before = t.at
    t.send("-line\r")
    t.expect(rb"half-line.*FOO was changed in this shell and stays as it is\r\n.*P> ")
    assert b"was changed" not in t.seen[before:t.seen.index(b"half-line")]
    assert t.seen.count(b"was changed") == 1
    assert ask(t, "printenv FOO") == "mine"
    assert place.end(t) == 0


def test_a_running_program_is_left_alone(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    t.send("echo ca''t; cat; echo af''ter-$FOO\r")
    t.expect(rb"cat\r\n")
    t.send("line\r")
    t.expect(rb"line\r\nline\r\n")
    place.rebuild('[env]\nFOO = "two"\n')
    t.send("more\r")
    t.expect(rb"more\r\nmore\r\n")
    t.send("\x04")
    t.expect(rb"after-two")
    assert ask(t, "printenv FOO") == "two"
    assert place.end(t) == 0


def test_what_the_user_changed_stays(place, shell):
    place.write('[env]\nFOO = "one"\nBAR = "1"\n[path]\nprepend = ["bin"]\n')
    place.trust()
    t = place.enter(shell=shell)
    set_ = "set -gx FOO mine; set -gx PATH /user/first $PATH" if shell == "fish" else \
        "export FOO=mine PATH=/user/first:$PATH"
    ask(t, set_)
    place.rebuild('[env]\nFOO = "two"\nBAR = "2"\n[path]\nprepend = ["other"]\n')
    assert ask(t, "printenv FOO BAR").split()[-2:] == ["mine", "2"]
    path = ask(t, "printenv PATH").split(":")
    assert "/user/first" in path and f"{place.project}/other" in path
    assert f"{place.project}/bin" not in path
    assert len(path) == len(set(path)) or path.count(f"{place.project}/other") == 1
    assert place.end(t) == 0


def test_our_directories_come_back_to_the_front(place, shell):
    """Another hook drops them (direnv), an rc file puts its own before them."""
    more = {"bash": "PATH=/usr/bin:/bin\n", "zsh": "PATH=/usr/bin:/bin\n",
            "fish": "set -gx PATH /usr/bin /bin\n"}[shell]
    place.rc(shell, more)
    place.write('[path]\nprepend = ["bin"]\n')
    place.trust()
    t = place.enter(shell=shell)
    assert ask(t, "printenv PATH").startswith(f"{place.project}/bin:")
    ask(t, more.strip())
    assert ask(t, "printenv PATH").startswith(f"{place.project}/bin:")
    assert place.end(t) == 0


def test_a_failed_build_keeps_what_was_there_and_says_so_at_the_prompt(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    place.write("[env\n")
    assert "error" in place.ctl("reload", "force")
    t.send("\r")
    t.expect(rb"the environment failed, the old one stays")
    assert ask(t, "printenv FOO") == "one"
    assert "env.toml" in place.ctl("error")["error"]
    place.rebuild('[env]\nFOO = "mended"\n')
    assert ask(t, "printenv FOO") == "mended"
    assert place.ctl("error")["error"] is None
    assert place.end(t) == 0


def test_the_key_rebuilds(place, shell):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(shell=shell)
    place.wait_applied()
    place.ctl("pause")
    place.write('[env]\nFOO = "two"\n')

    def pressed():  # the change may not have been seen yet
        t.send(b"\x1b\x12")
        return place.ctl("status")["generation"] == 2
    retry(pressed)
    assert ask(t, "printenv FOO") == "two"
    assert place.end(t) == 0


def test_a_reload_right_after_a_save_is_never_too_early(place):
    place.write('[env]\nFOO = "0"\n')
    place.trust()
    t = place.enter()
    place.wait_applied()
    for i in range(1, 11):
        place.write(f'[env]\nFOO = "{i}"\n')
        assert place.ctl("reload")["generation"] == i + 1
        assert ask(t, "printenv FOO") == str(i)
    before = place.ctl("status")["generation"]
    assert place.ctl("reload")["generation"] == before  # nothing changed
    assert place.end(t) == 0


def test_questions_are_answered(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter()
    s = place.wait_applied()
    assert s["project"] == str(place.project) and s["state"] == "watching" and not s["paused"]
    paths = {i["path"]: i["kind"] for i in place.ctl("inputs")["inputs"]}
    assert paths[str(place.project / ".afloat/env.toml")] == "file"
    assert place.ctl("pause")["paused"] is True
    assert place.ctl("resume")["paused"] is False
    assert place.ctl("nonsense")["error_code"] < 0
    assert place.ctl("task", "none")["error_code"] < 0
    assert place.end(t) == 0


# ---- prompts and rc files --------------------------------------------------------------------

def test_the_status_of_the_last_command_reaches_the_prompt(place, shell):
    prompt = {"bash": "PS1='[$?]P> '\n", "zsh": "PROMPT='[%?]P> '\n",
              "fish": 'function fish_prompt; echo -n "[$status]P> "; end\n'}[shell]
    place.rc(shell, prompt)
    place.trust()
    t = place.start(shell=shell)
    t.expect(rb"\[0\]P> ")
    t.send("false\r")
    t.expect(rb"\(afloat\) \[1\]P> ")
    assert ask(t, "echo st''atus=$status" if shell != "bash" else "echo st''atus=$?") == "status=0"
    t.send("sh -c 'exit 42'\r")
    t.expect(rb"\(afloat\) \[42\]P> ")
    place.end(t)


@pytest.mark.parametrize("form", [
    "PROMPT_COMMAND='echo ho''ok'", "PROMPT_COMMAND='echo ho''ok;'", "PROMPT_COMMAND='echo ho''ok; '",
    "PROMPT_COMMAND='echo ho''ok # why'", "PROMPT_COMMAND=('echo ho''ok' 'true')",
    "PROMPT_COMMAND=('echo ho''ok;')",
])
def test_prompt_command_in_every_form(place, form):
    place.rc("bash", form + "\n")
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter()
    assert b"syntax error" not in t.seen and t.seen.count(b"hook\r\n") == 1
    assert ask(t, "printenv FOO") == "one"
    t.expect(rb"hook\r\n.*" + PROMPT)
    assert place.end(t) == 0


def test_the_hook_comes_behind_all_others_of_a_list(place):
    place.rc("bash", "PROMPT_COMMAND=('true' 'PATH=/usr/bin:/bin')\n")
    place.write('[path]\nprepend = ["bin"]\n')
    place.trust()
    t = place.enter()
    assert ask(t, "printenv PATH").startswith(f"{place.project}/bin:")
    assert place.end(t) == 0


def test_a_hook_that_was_dropped_comes_back(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    for shell, drop, show in (("bash", "PROMPT_COMMAND=", "echo $PROMPT_COMMAND"),
                              ("zsh", "precmd_functions=()", "echo $precmd_functions")):
        t = place.enter(shell=shell)
        ask(t, drop)
        place.rebuild('[env]\nFOO = "two"\n')
        assert ask(t, "printenv FOO") == "two"
        assert "__afloat_reload_hook" in ask(t, show)
        place.write('[env]\nFOO = "one"\n')
        assert place.end(t) == 0


def test_zsh_has_its_own_zdotdir(place):
    """As given, as set by .zshenv, or none: and every rc file runs once."""
    z = place.user / "z"
    z.mkdir()
    (z / ".zshenv").write_text("echo env-ra''n\n")
    (z / ".zshrc").write_text("echo rc-ra''n\nPROMPT='P> '\n")
    place.trust()
    t = place.enter(shell="zsh", env={"ZDOTDIR": str(z)})
    assert t.seen.count(b"env-ran") == 1 and t.seen.count(b"rc-ran") == 1
    assert ask(t, "echo $ZDOTDIR; printenv __AFLOAT_ZDOTDIR") == str(z)
    place.end(t)
    t = place.enter(shell="zsh")
    assert ask(t, 'echo "<${ZDOTDIR-none}>"') == "<none>"
    place.end(t)
    (place.user / ".zshenv").write_text(f"ZDOTDIR={z}\n")
    t = place.enter(shell="zsh")
    assert t.seen.count(b"rc-ran") == 1 and ask(t, "echo $ZDOTDIR") == str(z)
    place.end(t)


def test_the_marker_can_be_switched_off(place, shell):
    place.trust()
    t = place.start(shell=shell, env={"AFLOAT_SHELL_MARKER": "false"})
    t.expect(rb"P> ")
    place.end(t)
    assert b"(afloat)" not in t.seen
    (place.home.dir / "config.toml").write_text("[shell]\nmarker = false\n")
    t = place.start(shell=shell)
    t.expect(rb"P> ")
    place.end(t)
    assert b"(afloat)" not in t.seen


def test_an_idle_prompt_forks_nothing(place, tmp_path):
    place.write('[env]\nFOO = "one"\n' + "".join(f'V{i} = "{i}"\n' for i in range(50)))
    place.trust()
    t = place.enter()
    place.wait_applied()
    rc = place.session() / "rc.bash"
    log = tmp_path / "trace"
    script = f"source {rc}; echo start >&2; for i in 1 2 3 4 5; do __afloat_reload_hook; done"
    subprocess.run(["strace", "-f", "-o", log, "-e", "trace=clone,clone3,fork,vfork,write", "bash", "-ic",
                    script], env={**place.home.env, "AFLOAT_RELOAD_FILE": f"{place.session()}/pending"},
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=DEADLINE)
    text = log.read_text()
    assert '"start\\n"' in text
    assert not re.search(r"clone|fork", text[text.index('"start\\n"'):])
    place.end(t)


# ---- tasks in the shell ----------------------------------------------------------------------

def test_a_task_in_the_shell_runs_before_the_first_prompt(place, shell):
    run = "set -gx FROM_TASK yes" if shell == "fish" else "export FROM_TASK=yes"
    place.write(f'[[task]]\nname = "setup"\nrun = """{run}; echo ra""n"""\nin_shell = true\n'
                .replace('ra""n', "ra''n"))
    place.trust()
    t = place.enter(shell=shell)
    assert t.seen.count(b"ran\r\n") == 1
    assert t.seen.index(b"ran\r\n") < t.seen.index(b"(afloat)")
    assert ask(t, "printenv FROM_TASK") == "yes"
    assert place.ctl("task", "setup") == {"task": "setup", "queued": True}
    t.send("\r")
    t.expect(rb"ran\r\n")
    assert place.end(t) == 0


def test_a_failing_task_leaves_the_shell_alive(place, shell):
    place.write('[[task]]\nname = "bad"\nrun = "exit 3"\nin_shell = true\n')
    place.trust()
    t = place.enter(shell=shell)
    assert b"task bad failed with 3" in t.seen
    assert ask(t, "echo al''ive") == "alive"
    assert place.end(t, "exit 5\r") == 5


def test_a_task_in_the_shell_has_its_directory_and_variables_for_itself(place, shell):
    place.write('[[task]]\nname = "here"\nrun = "echo \\"in-$PWD-$ONLY-$name\\""\nin_shell = true\n'
                'cwd = "sub"\n[task.env]\nONLY = "it\'s ${HOME}"\n')
    (place.project / "sub").mkdir()
    place.trust()
    t = place.enter(shell=shell)
    assert f"in-{place.project}/sub-it's {place.user}-\r\n".encode() in t.seen
    assert ask(t, "pwd; printenv ONLY") == str(place.project)
    assert place.end(t) == 0


def test_the_status_of_a_task_in_the_shell_says_that_there_is_nothing_to_do(place, shell):
    place.write('[[task]]\nname = "once"\nrun = "echo ra-$LINES_IT; touch done"\nin_shell = true\n'
                'cwd = "sub"\nstatus = "test -e $MARK"\n[task.env]\nMARK = "done"\nLINES_IT = "n"\n')
    (place.project / "sub").mkdir()
    place.trust()
    t = place.enter(shell=shell)
    assert b"ra-n\r\n" in t.seen and (place.project / "sub/done").exists()
    place.end(t)
    t = place.enter(shell=shell)
    assert b"ra-n" not in t.seen
    assert place.ctl("task", "once") == {"task": "once", "queued": True}  # by hand it always runs
    t.send("\r")
    t.expect(rb"ra-n\r\n")
    assert place.end(t) == 0


def test_what_comes_after_a_task_in_the_shell(place, shell):
    place.write('[[task]]\nname = "outer"\nrun = "test -e good"\n'
                '[[task]]\nname = "never"\nrun = "echo nev-$N"\nin_shell = true\nafter = ["outer"]\nenv.N="er"\n'
                '[[task]]\nname = "in it"\nrun = "test -e good; or return 4"\nin_shell = true\n'
                '[[task]]\nname = "then"\nrun = "echo th-$N; exit 0"\nafter = ["in it"]\nenv.N = "en"\n'
                .replace("; or return", "; or return" if shell == "fish" else " || return"))
    place.trust()
    t = place.enter(shell=shell)
    assert b"task never not run: outer" in t.seen
    assert b"task in it failed with 4" in t.seen
    assert b"task then failed" in t.seen and b"comes after task in it" in t.seen
    assert b"nev-er" not in t.seen and b"th-en" not in t.seen
    (place.project / "good").touch()
    for name, said in (("then", rb"th-en\r\n"), ("never", rb"nev-er\r\n")):
        assert place.ctl("task", name) == {"task": name, "queued": True}
        t.send("\r")
        t.expect(said)
    assert place.end(t) == 0


def test_tasks_run_before_the_shell_with_their_exports(place):
    place.write('[[task]]\nname = "deps"\n'
                'run = "echo wor''king; echo GOT=it > $AFLOAT_TASK_EXPORTS_FILE"\n')
    place.trust()
    t = place.enter()
    assert b"working" in t.seen
    assert ask(t, "printenv GOT") == "it"
    place.rebuild('[env]\nFOO = "x"\n')
    assert ask(t, "printenv FOO GOT") == "x\nit"
    assert place.end(t) == 0


# ---- how it ends -----------------------------------------------------------------------------

def test_the_exit_code_is_the_shells(place, shell):
    place.trust()
    t = place.enter(shell=shell)
    before = t.modes()
    assert before[3] & termios.ICANON == 0  # raw while it runs
    assert place.end(t, "exit 42\r") == 42
    assert t.modes()[3] & termios.ICANON


def test_a_killed_shell_is_128_and_the_signal(place):
    place.trust()
    t = place.enter()
    os.kill(place.ctl("status")["shell_pid"], signal.SIGKILL)
    assert t.process.wait(DEADLINE) == 128 + 9
    assert t.modes()[3] & termios.ICANON
    assert list((place.home.runtime / "shell").iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_shell_with_us(place, signum):
    place.trust()
    t = place.enter()
    pid = place.ctl("status")["shell_pid"]
    t.process.send_signal(signum)
    assert t.process.wait(DEADLINE) == 128 + signum
    assert is_gone(pid)
    assert t.modes()[3] & termios.ICANON
    assert list((place.home.runtime / "shell").iterdir()) == []


def test_a_shell_that_will_not_go_is_killed(place):
    place.trust()
    for end in (lambda t: t.process.send_signal(signal.SIGTERM), lambda t: t.close()):
        t = place.enter()
        pid = place.ctl("status")["shell_pid"]
        ask(t, "trap '' HUP TERM")
        end(t)
        assert t.process.wait(DEADLINE) in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
        wait_gone(pid)
        if t.ours is None:
            place.open.remove(t)


def test_a_killed_wrapper_takes_its_shell_along_and_the_next_one_cleans_up(place):
    place.trust()
    t = place.enter()
    pid = place.ctl("status")["shell_pid"]
    t.process.kill()
    t.process.wait(DEADLINE)
    wait_gone(pid)
    assert len(list((place.home.runtime / "shell").iterdir())) == 1
    t = place.enter()
    assert len(list((place.home.runtime / "shell").iterdir())) == 1
    assert place.end(t) == 0


def test_a_closed_terminal_ends_everything(place):
    place.trust()
    t = place.enter()
    pid = place.ctl("status")["shell_pid"]
    t.close()
    t.process.wait(DEADLINE)
    wait_gone(pid)
    assert list((place.home.runtime / "shell").iterdir()) == []
    place.open.remove(t)


def test_stopped_it_gives_the_terminal_back_and_continued_it_goes_on(place):
    place.trust()
    t = place.enter()
    t.process.send_signal(signal.SIGTSTP)
    retry(lambda: open(f"/proc/{t.process.pid}/stat").read().rpartition(")")[2].split()[0] == "T")
    assert t.modes()[3] & termios.ICANON
    t.process.send_signal(signal.SIGCONT)
    retry(lambda: not t.modes()[3] & termios.ICANON)
    assert ask(t, "echo ba''ck") == "back"
    assert place.end(t) == 0


def test_a_shell_that_is_not_there(place):
    place.trust()
    t = place.start("--shell", "/nonexistent/bash")
    t.expect(rb"cannot run '/nonexistent/bash'")
    assert t.process.wait(DEADLINE) == 127


# ---- bytes -----------------------------------------------------------------------------------

PROTOCOLS = b"".join([
    b"\x1b_Gf=32,s=1,v=1,a=T;AAAAAA==\x1b\\",  # kitty graphics
    b"\x1bP0;0;0q\"1;1;6;6#0;2;0;0;0#0~~@@vv@@~~$-\x1b\\",  # sixel
    b"\x1b]1337;File=inline=1:AAAA\x07", b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]8;id=1;http://example.org/\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b[>1u\x1b[?u\x1b[<u\x1b[>4;2m\x1b[=5;1u",  # keyboards
    b"\x1b[?2026h\x1b[?2026l\x1b[?2048h\x1b[?2031h\x1b[?1004h\x1b[?1003h\x1b[?1006h\x1b[?2004h",
    b"\x1b[c\x1b[>c\x1b[=c\x1b[>q\x1b[5n\x1b[6n\x1b[18t\x1b[?2026$p\x1bP$qm\x1b\\\x1bP+q544e\x1b\\",
    b"\x1b]133;A\x07\x1b]133;B\x1b\\\x1b[4:3m\x1b[58:2::255:0:0m\x1b[38;2;1;2;3m\x1b[m\x1b[6 q\x1bktitle\x1b\\",
    bytes(range(1, 256)), b"\xff\xfe\x80 half \xe2\x82",
])


def carry(place, t, data, name):
    """What the terminal gets when the shell prints `data` with no translation."""
    (place.project / name).write_bytes(data)
    t.send(f"stty raw -echo; printf be''gin; cat {name}; printf e''nd; stty sane\r")
    t.expect(rb"begin")
    start = t.at
    end = time.monotonic() + 4 * DEADLINE
    while len(t.seen) < start + len(data) + 3:
        assert t.more(end), f"{len(t.seen) - start} of {len(data)} bytes"
    t.at = start + len(data)
    t.expect(rb"^end")
    return t.seen[start:start + len(data)]


def test_every_protocol_passes_byte_for_byte(place):
    place.trust()
    t = place.enter()
    assert carry(place, t, PROTOCOLS * 50, "bytes") == PROTOCOLS * 50
    t.expect(PROMPT)
    assert place.end(t) == 0


def test_twenty_megabytes_of_anything(place):
    place.trust()
    t = place.enter()
    data = os.urandom(1 << 20) * 20
    got = carry(place, t, data, "bytes")
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    t.seen, t.at = bytearray(), 0
    assert ask(t, "echo st''ill") == "still"
    assert place.end(t) == 0


def test_what_is_typed_or_pasted_arrives_whole(place):
    place.trust()
    t = place.enter()
    data = os.urandom(1 << 20)
    t.send(f"stty raw -echo; printf re''ady; head -c {len(data)} >got; stty sane; echo do''ne\r")
    t.expect(rb"ready")
    t.send(data)
    t.expect(rb"done")
    assert (place.project / "got").read_bytes() == data
    assert place.end(t) == 0


def test_what_was_typed_ahead_reaches_the_shell(place):
    os.mkfifo(place.project / "gate")
    place.write('script = "env.sh"\n')
    place.write("read -r x < gate\nexport FOO=$x\n", "env.sh")
    place.trust()
    t = place.start()
    t.send("echo ty''ped-$FOO\r")
    with open(place.project / "gate", "w") as gate:  # opens when the build reads it
        gate.write("opened\n")
    t.expect(rb"typed-opened")
    assert place.end(t) == 0


def test_ctrl_c_goes_in_without_the_environment(place):
    os.mkfifo(place.project / "gate")
    place.write('script = "env.sh"\n')
    place.write("read -r x < gate\n", "env.sh")
    place.trust()
    t = place.start()
    t.expect(rb"building the environment")
    t.send("\x03")
    t.expect(rb"interrupted; this shell has the outer environment")
    t.expect(PROMPT)
    assert place.end(t) == 0


def test_a_signal_before_the_shell_gives_the_terminal_back(place):
    os.mkfifo(place.project / "gate")
    place.write('script = "env.sh"\n')
    place.write("read -r x < gate\n", "env.sh")
    place.trust()
    t = place.start()
    t.expect(rb"building the environment")
    assert not t.modes()[3] & termios.ECHO
    t.process.send_signal(signal.SIGTERM)
    assert t.process.wait(DEADLINE) == -signal.SIGTERM
    assert t.modes()[3] & termios.ECHO


def test_the_window_and_its_pixels(place):
    place.trust()
    t = place.enter()
    size = "python3 -c 'import fcntl,struct,termios; print(*struct.unpack(\"HHHH\", " \
           "fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))))'"
    for i in range(300):
        t.resize(20 + i % 30, 60 + i % 70, 600 + i, 400 + i)
    t.resize(31, 117, 1170, 620)
    retry(lambda: ask(t, size).split() == ["31", "117", "1170", "620"])
    assert place.end(t) == 0


# ---- programs --------------------------------------------------------------------------------

def test_scripts_find_the_terminal_outside(place):
    place.trust()
    t = place.enter()
    assert ask(t, "printenv AFLOAT_TTY") == os.ttyname(t.theirs)
    assert ask(t, "tty") != os.ttyname(t.theirs)
    assert place.end(t) == 0


def test_vim_edits_and_leaves(place):
    place.trust()
    t = place.enter(rows=24, cols=80)
    t.send("vim -u NONE -N note.txt\r")
    t.expect(rb"\x1b\[\?1049h")
    t.send("ihello from vim\x1b:wq\r")
    t.expect(rb"\x1b\[\?1049l")
    t.expect(PROMPT)
    assert (place.project / "note.txt").read_text() == "hello from vim\n"
    assert place.end(t) == 0


def test_less_scrolls(place):
    place.trust()
    (place.project / "long.txt").write_text("".join(f"line {i}\n" for i in range(1000)))
    t = place.enter(rows=10, cols=80)
    t.send("less long.txt\r")
    t.expect(rb"line 8")
    t.send("G")
    t.expect(rb"line 999")
    t.send("q")
    t.expect(PROMPT)
    assert place.end(t) == 0


# ---- the row ---------------------------------------------------------------------------------

def test_the_row_shows_the_state_and_leaves_programs_one_line_less(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter("--status", "row", rows=24, cols=80)
    assert b"\x1b[1;23r" in t.seen
    assert re.search(rb"\x1b\[24;1H\x1b\[m.*watching.*press Ctrl-Alt-R", t.seen)
    assert ask(t, "stty size") == "23 80"
    t.resize(12, 40)
    t.expect(rb"\x1b\[12;1H\x1b\[m\x1b\[m watching  \d files     press Ctrl-Alt-R \x1b\[m\x1b8")
    t.resize(24, 80)
    t.expect(rb"\x1b\[24;1H\x1b\[m\x1b\[m watching  \d files {45}press Ctrl-Alt-R \x1b\[m\x1b8")
    place.write('[env]\nFOO = "two"\n')
    t.expect(rb"\x1b\[97;44m building  env.toml")
    t.expect(rb"\x1b\[30;42m ready")
    t.send("\r")
    t.expect(rb"\x1b\[30;42m reloaded")
    place.ctl("reload", "force")
    t.expect(rb"\x1b\[30;43m reloading")
    place.write("[env\n")
    t.expect(rb"\x1b\[97;41m failed")
    place.write('[env]\nFOO = "two"\n')
    t.expect(rb"\x1b\[30;42m ready")
    assert place.end(t) == 0
    assert re.search(rb"\x1b\[r\x1b\[24;1H\x1b\[2K\x1b8$", t.seen)


def test_a_full_screen_program_has_the_whole_window(place):
    place.trust()
    t = place.enter("--status", "row", rows=24, cols=80)
    t.send("vim -u NONE -N -c 'call writefile([&lines], \"lines\")' -c 'autocmd VimResized * "
           "call writefile([&lines], \"lines\")'\r")
    t.expect(rb"\x1b\[r\x1b8\x1b\[\?1049h")
    retry(lambda: (place.project / "lines").exists() and
          (place.project / "lines").read_text() == "24\n")
    t.send(":q\r")
    t.expect(rb"\x1b\[\?1049l.*\x1b\[1;23r")
    retry(lambda: ask(t, "stty size") == "23 80")
    assert place.end(t) == 0


@pytest.fixture
def emulator(place):
    """A row session in a real terminal emulator of 80 by 24: tmux. What runs tmux, and its screen."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    place.trust()
    sock = place.user / "tmux"
    env = {**place.home.env, "SHELL": "/usr/bin/bash"}

    def tmux(*args):
        return subprocess.run(["tmux", "-S", sock, "-f", "/dev/null", *args], env=env, text=True,
                              capture_output=True, check=True, timeout=DEADLINE).stdout

    def screen(*more):
        return tmux("capture-pane", "-p", *more).splitlines()
    tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(place.project),
         f"{BIN} shell --status row")
    try:
        retry(lambda: any("(afloat) P>" in x for x in screen()))
        yield tmux, screen
    finally:
        tmux("kill-server")


def test_every_line_reaches_the_scrollback_and_the_row_survives(emulator):
    tmux, screen = emulator
    for command in ("seq -f num-%g 200", "printf '\\033[2J\\033[H'; clear", "printf '\\033c'",
                    "printf '\\033[r\\033[999;1Hlow\\n'", "printf '\\033[!p'"):
        tmux("send-keys", command, "Enter")
        tmux("send-keys", "echo fi''nished", "Enter")
        retry(lambda: any(x.strip() == "finished" for x in screen()))
        retry(lambda: "watching" in screen()[-1])
        if command.startswith("seq"):
            lines = screen("-S", "-")
            assert [x for x in lines if x.startswith("num-")] == [f"num-{i}" for i in range(1, 201)]
        tmux("send-keys", "clear", "Enter")
        retry(lambda: not any(x.strip() == "finished" for x in screen()))


# Draws frame after frame by addressing the cursor, as monitors do, on the screen that it is told and by the
# size that the terminal says; then it waits for a key.
MONITOR = r"""
import os, re, sys, termios, tty
alternate = sys.argv[1] == "alternate"
modes = termios.tcgetattr(0)
tty.setraw(0)
write = lambda text: os.write(1, text.encode())

def size():
    write("\033[18t")
    said = b""
    while not said.endswith(b"t"):
        said += os.read(0, 1)
    return [int(x) for x in re.findall(rb"\d+", said)[1:]]

write("\033[?1049h\033[?25l" if alternate else "\033[?25l")
rows, cols = size()
for frame in range(60):
    write("\033[H" if frame % 2 else "\033[2J\033[r\033[H")
    for row in range(1, rows + 1):
        write(f"\033[{row};1Hframe {frame} row {row} of {rows}\033[K\033[{row};{cols - 1}H|")
    write(f"\033[{rows + 1};1H\033[J" if frame % 3 == 0 else "")
    write(f"\033[{rows};1Hframe {frame} row {rows} of {rows}")
os.read(0, 1)
write("\033[?1049l\033[?25h" if alternate else "\033[H\033[2J\033[?25h")
termios.tcsetattr(0, termios.TCSANOW, modes)
"""


@pytest.mark.parametrize("which, rows", [("main", 23), ("alternate", 24)])
def test_a_monitor_redraws_the_whole_screen(place, emulator, which, rows):
    tmux, screen = emulator
    (place.project / "monitor.py").write_text(MONITOR)
    tmux("send-keys", f"python3 monitor.py {which}", "Enter")
    retry(lambda: f"frame 59 row {rows} of {rows}" in screen()[rows - 1])
    lines = screen()
    assert [x.split(" of ")[0] for x in lines[:rows]] == [f"frame 59 row {i}" for i in range(1, rows + 1)]
    if rows == 23:
        retry(lambda: "watching" in screen()[-1])
    tmux("send-keys", "q")
    retry(lambda: "watching" in screen()[-1])
    tmux("send-keys", "stty size", "Enter")
    retry(lambda: "23 80" in screen())


# Asks for reports of the size, and shows two of them.
REPORTS = r"""
import os, sys, termios, tty
modes = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"\033[?2048h")
for i in range(2):
    said = b""
    while not said.endswith(b"t"):
        said += os.read(0, 1)
    os.write(1, b"report " + said[1:] + b"\r\n")
os.write(1, b"\033[?2048l")
termios.tcsetattr(0, termios.TCSANOW, modes)
"""


def test_reports_of_the_size_are_those_of_the_programs_own_window(place):
    place.trust()
    (place.project / "reports.py").write_text(REPORTS)
    t = place.enter("--status", "row", rows=24, cols=80)
    t.send("python3 reports.py\r")
    t.expect(rb"report \[48;23;80;0;0t")
    t.resize(30, 90, 900, 600)
    t.expect(rb"report \[48;29;90;580;900t")
    t.expect(PROMPT)
    assert b"\x1b[?2048" not in t.seen
    assert place.end(t) == 0


# ---- one program -----------------------------------------------------------------------------

def test_a_program_runs_in_the_environment_with_its_own_code(place):
    place.write('[env]\nFOO = "one"\n[[task]]\nname = "t"\nrun = "touch ran"\n')
    place.trust()
    done = place.home.cli("shell", "sh", "-c", "echo $FOO $AFLOAT_ENV_GENERATION; exit 9", cwd=place.project)
    assert (done.returncode, done.stdout) == (9, "one 1\n")
    assert (place.project / "ran").exists()
    done = place.home.cli("shell", "-c", "echo $FOO; exit 8", cwd=place.project)
    assert (done.returncode, done.stdout) == (8, "one\n")
    assert place.home.cli("shell", "printenv", "--help", cwd=place.project).returncode == 0
    done = place.home.cli("shell", "no-such-program", cwd=place.project)
    assert done.returncode == 127 and "cannot run 'no-such-program'" in done.stderr
    done = place.home.cli("shell", "--no-reload", cwd=place.project, input="echo $FOO; exit 6\n")
    assert (done.returncode, done.stdout) == (6, "one\n")
    done = place.home.cli("shell", cwd=place.project, input="echo $FOO; exit 5\n")
    assert (done.returncode, done.stdout) == (5, "one\n")


def test_without_reloads_a_shell_has_marker_and_path_all_the_same(place, shell):
    place.write('[env]\nFOO = "one"\n[path]\nprepend = ["bin", "bin2"]\n')
    place.trust()
    outer = "set -gx PATH /usr/bin /bin" if shell == "fish" else "export PATH=/usr/bin:/bin"
    place.rc(shell, outer + "\n")
    t = place.enter("--no-reload", shell=shell, env={"AFLOAT_RELOAD_FILE": "/nowhere/pending"})
    front = f"{place.project}/bin:{place.project}/bin2:/usr/bin:/bin"
    assert ask(t, "printenv PATH FOO AFLOAT_ENV_GENERATION") == f"{front}\none\n1"
    assert ask(t, "printenv __AFLOAT_FRONT; echo x\"$AFLOAT_RELOAD_FILE\"x") == "xx"
    t.send(outer + "\r")  # as another hook does
    t.expect(PROMPT)
    assert ask(t, "printenv PATH") == front
    keys = {"bash": "bind -X", "zsh": "bindkey", "fish": "bind"}[shell]
    assert ask(t, f"{keys} | grep -c afloat") == "0"  # nobody would hear it
    t.send("exit 4\r")
    assert t.process.wait(DEADLINE) == 4


def test_without_reloads_and_marker(place):
    place.trust()
    t = place.start("--no-reload", env={"AFLOAT_SHELL_MARKER": "false"})
    t.expect(rb"P> ")
    assert b"(afloat)" not in t.seen
    t.send("exit\r")
    assert t.process.wait(DEADLINE) == 0


def test_without_reloads_a_failed_environment_is_said_and_the_shell_starts(place):
    place.write("[env\n")
    place.trust()
    t = place.start("--no-reload")
    t.expect(rb"the environment failed, this shell has the outer one: .*env.toml")
    t.expect(PROMPT)
    t.send("exit\r")
    assert t.process.wait(DEADLINE) == 0


def test_a_program_is_not_run_without_its_environment(place):
    place.write('[env]\nFOO = "one"\n')
    done = place.home.cli("shell", "touch", "ran", cwd=place.project)
    assert done.returncode == 4 and "afloat env allow" in done.stderr
    place.trust()
    place.write("[env\n")
    done = place.home.cli("shell", "touch", "ran", cwd=place.project)
    assert done.returncode == 1 and "env.toml" in done.stderr
    place.write('[[task]]\nname = "t"\nrun = "exit 3"\n')
    done = place.home.cli("shell", "touch", "ran", cwd=place.project)
    assert done.returncode == 1
    assert not (place.project / "ran").exists()


def test_first_use_asks(place):
    place.write('[env]\nFOO = "\\u001b]evil"\n')
    t = place.start()
    t.expect(rb"\[f\]ollow.*\[o\]nce.*\[n\]o.*\[\?\] show: ")
    t.send("?\r")
    t.expect(rb"env.toml.*FOO = .*show: ")
    t.send("n\r")
    assert t.process.wait(DEADLINE) == 4
    t = place.start()
    t.expect(rb"show: ")
    t.send("fg\r")  # typed ahead for the shell: no answer
    t.expect(rb"show: ")
    t.send("o\r")
    t.expect(PROMPT)
    place.end(t)
    t = place.enter()
    place.end(t)
    place.write('[env]\nFOO = "changed"\n')
    t = place.start()
    t.expect(rb"show: ")
    t.send("f\r")
    t.expect(PROMPT)
    place.end(t)
    place.write('[env]\nFOO = "followed"\n')
    t = place.enter()
    assert ask(t, "printenv FOO") == "followed"
    assert place.end(t) == 0


# ---- hostile and odd places ------------------------------------------------------------------

def test_hostile_things_in_the_runtime_directory(place, tmp_path):
    place.trust()
    place.home.runtime.mkdir(mode=0o700, exist_ok=True)
    trap = place.home.runtime / "shell"
    target = tmp_path / "target"
    target.mkdir()
    (target / "keep").write_text("x")
    trap.symlink_to(target)
    t = place.start()
    t.expect(rb"is in the way and is no directory")
    assert t.process.wait(DEADLINE) == 4
    trap.unlink()
    trap.mkdir()
    trap.chmod(0o777)
    t = place.start()
    t.expect(rb"others have access to")
    assert t.process.wait(DEADLINE) == 4
    trap.chmod(0o700)
    (trap / "stale").symlink_to(target)
    (trap / "old").mkdir()
    (trap / "old" / "link").symlink_to(target)
    t = place.enter()
    assert not (trap / "old").exists()
    t.send("exit\r")
    assert t.process.wait(DEADLINE) == 0
    assert (target / "keep").read_text() == "x"


def test_a_shell_in_a_shell(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    other = place.project.parent / "other"
    (other / ".afloat").mkdir(parents=True)
    (other / ".afloat" / "env.toml").write_text('[env]\nBAR = "inner"\n')
    place.home.ok("trust", "--follow", str(other))
    t = place.enter()
    t.send(f"cd {other}; {BIN} shell\r")
    t.expect(PROMPT)
    assert ask(t, "printenv FOO BAR AFLOAT_PROJECT") == f"one\ninner\n{other}"
    assert len(list((place.home.runtime / "shell").iterdir())) == 2
    t.send("exit 3\r")
    t.expect(rb"exit\r\n.*" + PROMPT)
    assert ask(t, "printenv AFLOAT_PROJECT; printenv BAR") == str(place.project)
    assert place.end(t) == 0


def test_a_shell_without_a_project(place, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    t = place.enter(cwd=empty)
    assert ask(t, "printenv AFLOAT_SHELL") == "1"
    assert place.end(t) == 0
