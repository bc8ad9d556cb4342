"""A private home per test, and the program under test in it.

Everything goes through public faces: the command line, the socket, the files of CONTRACT 1. The
program comes from AFLOAT_BIN (default build/asan/afloat). Whatever it prints on stderr is searched for
reports of the sanitizers; a hub that a test leaves behind is stopped, and must stop well.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = os.path.abspath(os.environ.get("AFLOAT_BIN", ROOT / "build/asan/afloat"))
DEADLINE = 60  # seconds: how long anything may take before the test gives up
# started in the background we would ignore these, and so would every program that we start
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
# the files of the user who runs the tests, such as ~/.gitconfig and ~/.bashrc, must not matter
USER = tempfile.TemporaryDirectory(prefix="afloat-user-")
os.environ["HOME"] = USER.name
REPORT = re.compile(r"Sanitizer|runtime error:|Assertion .* failed")
LOOPS = int(os.environ.get("AFLOAT_LOOPS", "1"))  # 1 in `make test`, 20 in `make soak`


def draw_seed():
    """The seed of a test that draws its steps: AFLOAT_SEED, else one seed in `make test`, so that a red run is the
    fault of what changed, and another each time in `make soak`."""
    seed = int(os.environ.get("AFLOAT_SEED", 1 if LOOPS == 1 else random.randrange(1 << 30)))
    print(f"AFLOAT_SEED={seed}")
    return seed


def retry(what, deadline=DEADLINE):
    """Call `what` until it returns something true; fail with its last answer at the deadline."""
    end = time.monotonic() + deadline
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"still {answer!r} after {deadline} s"
        select.select([], [], [], 0.01)


def wait_gone(pid, deadline=DEADLINE):
    """Wait until process `pid` is gone (or was never there)."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([fd], [], [], deadline)
        assert ready, f"process {pid} is still there"
    finally:
        os.close(fd)


def read_line(stream, deadline=DEADLINE):
    """The next line of an unbuffered binary stream, as text."""
    line = b""
    end = time.monotonic() + deadline
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
        assert ready, f"no line in {deadline} s, only {line!r}"
        byte = os.read(stream.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode().rstrip("\n")


def read_to_end(terminal):
    """All that comes from a terminal until its program has left it."""
    seen = b""
    try:
        while chunk := terminal.read(65536):
            seen += chunk
    except OSError:
        pass  # the terminal is closed
    return seen


def read_until(terminal, pattern, deadline=DEADLINE):
    """All that comes from a terminal until it matches the pattern."""
    seen = b""
    end = time.monotonic() + deadline
    while not re.search(pattern, seen, re.S):
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        assert ready, f"only {seen!r} in {deadline} s"
        seen += os.read(terminal.fileno(), 4096)
    return seen


def is_gone(pid):
    """True when the process has ended, whether or not its parent has taken notice."""
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it ended between open and read
        return True


def pause(pid):
    """Stop a process with SIGSTOP; it does nothing more when this returns."""
    def rests(thread):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended before it was stopped
            return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TZ"
        return True
    os.kill(pid, signal.SIGSTOP)
    retry(lambda: all(map(rests, pathlib.Path(f"/proc/{pid}/task").iterdir())))


def files_below(dir):
    """(path, bytes) of every file below a directory; what its owner removes meanwhile is left out."""
    for root, _, names in os.walk(dir):
        for path in (pathlib.Path(root) / name for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    yield path, path.read_bytes()


@contextlib.contextmanager
def free_port():
    """A port of loopback that nobody else is given: a server that sets SO_REUSEADDR can listen on it all the same."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def remove_tree(dir):
    """Remove a directory in which a process that is just ending may still make a file."""
    def removed():
        shutil.rmtree(dir, ignore_errors=True)
        return not os.path.lexists(dir)
    retry(removed)


def check_report(text):
    assert not REPORT.search(text), text


class Answer:
    def __init__(self, raw):
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {n.lower(): v.strip() for n, _, v in (x.partition(":") for x in lines[1:])}
        self.body = self._chunks(rest) if self.headers.get("transfer-encoding") else rest

    @staticmethod
    def _chunks(rest):
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                return body
            body += rest[:n]
            rest = rest[n + 2:]

    def json(self):
        return json.loads(self.body)


class Home:
    """A home of its own, with the means to run commands in it and to talk to its hub."""

    def __init__(self, dir):
        self.dir = pathlib.Path(dir)
        self.runtime = self.dir / "run"
        self.socket = self.runtime / "hub.sock"
        self.log = self.dir / "logs" / "hub.log"
        keep = ("PATH", "LANG", "HOME", "TMPDIR")
        self.env = {k: os.environ[k] for k in keep if k in os.environ}
        self.env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        self.env["AFLOAT_HOME"] = str(self.dir)
        self.running = []

    def popen(self, *args, env=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([BIN, *args], env={**self.env, **(env or {})}, bufsize=0, **more)
        self.running.append(process)
        return process

    def on_terminal(self, *args, rows=24, cols=80, **more):
        """Start a command on a terminal of its own; returns the process and our end."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        process = self.popen(*args, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **more)
        os.close(theirs)
        return process, os.fdopen(ours, "r+b", buffering=0)

    def cli(self, *args, input=None, env=None, timeout=DEADLINE, **more):
        """Run a command to its end; stdout and stderr are text."""
        if input is None:
            more.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([BIN, *args], env={**self.env, **(env or {})}, input=input, text=True,
                              capture_output=True, timeout=timeout, **more)
        check_report(done.stderr)
        assert done.returncode >= 0, f"{args} died of signal {-done.returncode}: {done.stderr}"
        return done

    def ok(self, *args, **more):
        """Like cli(), but it must succeed; returns stdout."""
        done = self.cli(*args, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *args, **more):
        return json.loads(self.ok(*args, "--json", **more))

    def connect(self):
        """A raw connection to the hub's socket, whatever the length of its path."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        fd = os.open(self.socket.parent, os.O_PATH)
        try:
            s.connect(f"/proc/self/fd/{fd}/{self.socket.name}")
        finally:
            os.close(fd)
        return s

    def http(self, method, path, body=b"", headers=()):
        """One raw request over the socket."""
        lines = [f"{method} {path} HTTP/1.1", "Host: test", "Connection: close", *headers]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        with self.connect() as s:
            s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            raw = b""
            while chunk := s.recv(65536):
                raw += chunk
        return Answer(raw)

    def hub_pid(self):
        """The hub's process, or None; believed only when it has the lock file open."""
        try:
            pid = int((self.dir / "hub.lock").read_text())
            fds = os.listdir(f"/proc/{pid}/fd")
        except (OSError, ValueError):
            return None
        for fd in fds:
            try:
                if os.path.samefile(f"/proc/{pid}/fd/{fd}", self.dir / "hub.lock"):
                    return pid
            except OSError:
                pass
        return None

    def kill_hub(self, signum=signal.SIGKILL):
        pid = self.hub_pid()
        assert pid, "no hub to kill"
        os.kill(pid, signum)
        wait_gone(pid)
        return pid

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
        pid = self.hub_pid()
        if pid:
            with contextlib.suppress(ProcessLookupError):  # it was on its way out
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
            wait_gone(pid)
        said = self.dir / "logs" / "hub.out"
        if said.exists():
            check_report(said.read_text(errors="replace"))


class Hub:
    """`afloat hub` in the foreground."""

    def __init__(self, home, *args, env=None):
        self.home = home
        self.process = home.popen("hub", *args, env=env)
        self.ready = read_line(self.process.stdout)
        if not self.ready.startswith("ready "):
            pytest.fail(f"the hub said {self.ready!r}: {self.process.communicate()[1].decode()}")
        self.pid = self.process.pid

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=DEADLINE)
        check_report(err.decode(errors="replace"))
        assert self.process.returncode == 0, err.decode(errors="replace")


def pytest_configure(config):
    if ROOT.is_relative_to("/tmp"):
        pytest.exit(f"clone the tree elsewhere than {ROOT}: programs in the sandbox have a /tmp of their own", 1)
    config.addinivalue_line("markers", "both_stores: runs with the store in files and in PostgreSQL")


def pytest_terminal_summary(terminalreporter):
    """What tests counted (record_property): rounds, faults."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {value}")


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("both_stores") and "home" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", ["files", "postgresql"], indirect=True)


@pytest.fixture
def store_kind(request):
    return getattr(request, "param", "files")


@pytest.fixture
def home(request, store_kind):
    dir = tempfile.mkdtemp(prefix="afloat-test-")
    h = Home(dir)
    if store_kind == "postgresql":
        database = request.getfixturevalue("database")
        (h.dir / "config.toml").write_text(f'[store]\nurl = "{database.url()}"\nlease_s = 3\n')
    yield h
    h.close()
    remove_tree(dir)


@pytest.fixture
def hub(home):
    h = Hub(home)
    yield h
    h.close()


@pytest.fixture
def start_hub(home):
    """A function that starts `afloat hub` with arguments of the test's own."""
    started = []

    def start(*args, env=None):
        started.append(Hub(home, *args, env=env))
        return started[-1]

    yield start
    for h in started:
        h.close()


@pytest.fixture
def cli(home):
    return home.cli


@pytest.fixture
def http(home):
    return home.http


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of this worker; started by the first test that asks for it."""
    import pg_rig
    server = pg_rig.Server()
    yield server
    server.close()


@pytest.fixture
def database(postgres):
    """An empty database of this test's own."""
    if postgres.process.poll() is not None:
        postgres.start()
    db = postgres.database()
    yield db
    db.drop()
