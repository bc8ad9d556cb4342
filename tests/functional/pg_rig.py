"""A real PostgreSQL for tests: one server for each pytest worker, one database for each test.

PostgreSQL refuses to run as root, so root starts it as another user. Everything lies in a temporary
directory, and the only way in is a Unix socket there.
"""
import os
import pathlib
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time

BINS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
SETTINGS = {"listen_addresses": "", "fsync": "off", "max_connections": "100", "shared_buffers": "32MB",
            "log_min_messages": "warning", "max_wal_size": "256MB", "autovacuum": "off"}


def other_user():
    """For root: the user as which PostgreSQL runs."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("there is no user as which PostgreSQL could run")


class Server:
    """initdb in a directory of its own, and `postgres` on it."""

    apart = ()  # words before each command, which then sets its own user
    wal_mb = 16  # size of a segment of the log

    def __init__(self, **settings):
        assert BINS, "PostgreSQL is not installed: run scripts/setup test"
        self.bin = BINS[-1]
        self.settings = {**SETTINGS, **settings}
        self.user = other_user()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="afloat-pg-"))
        if self.user:
            os.chown(self.dir, self.user.pw_uid, self.user.pw_gid)
        self.process = None
        self.count = 0
        self.prepare()
        self.run("initdb", "-D", str(self.dir / "data"), "-U", "boss", "-A", "trust", "--no-sync",
                 "-E", "UTF8", "--locale=C.UTF-8", f"--wal-segsize={self.wal_mb}")
        self.start()

    def prepare(self):
        """Called when the directory is there and empty."""

    def _popen(self, *args, **more):
        if self.user and not self.apart:
            more.update(user=self.user.pw_uid, group=self.user.pw_gid, extra_groups=[])
        return subprocess.Popen([*self.apart, str(self.bin / args[0]), *args[1:]], cwd=self.dir, stdin=subprocess.DEVNULL,
                                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, **more)

    def run(self, *args):
        process = self._popen(*args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = process.communicate(timeout=120)[0].decode()
        assert process.returncode == 0, said
        return said

    def start(self):
        """Start the server; it takes connections when this returns."""
        options = [x for k, v in self.settings.items() for x in ("-c", f"{k}={v}")]
        log = open(self.dir / "log", "ab")
        self.process = self._popen("postgres", "-D", str(self.dir / "data"), "-k", str(self.dir), *options,
                                   stdout=log, stderr=log)
        log.close()
        end = time.monotonic() + 120
        while time.monotonic() < end:
            ready = self._popen("pg_isready", "-q", "-h", str(self.dir), "-p", self.settings.get("port", "5432"),
                                "-U", "boss", "-d", "postgres").wait()
            if ready == 0:
                return
            assert self.process.poll() is None, (self.dir / "log").read_text()
            time.sleep(0.02)
        raise AssertionError("PostgreSQL does not come up")

    def stop(self, signum=signal.SIGINT):
        """SIGINT: fast; SIGQUIT: at once, as after a crash."""
        self.process.send_signal(signum)
        self.process.wait(timeout=120)

    def kill(self):
        """kill -9 of the postmaster, then of all processes that it had."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.process.send_signal(signal.SIGSTOP)  # it starts no more of them
        gone = [os.pidfd_open(int(pid)) for pid in children.read_text().split()]
        self.process.kill()
        self.process.wait()
        for fd in gone:
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            end = select.poll()  # select() takes no descriptor above 1023
            end.register(fd, select.POLLIN)
            end.poll(60000)
            os.close(fd)

    def sql(self, database, text, user="boss"):
        """The rows that a statement gives, as lines of text."""
        return subprocess.run([str(self.bin / "psql"), "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(self.dir),
                               "-U", user, "-d", database], input=text.encode(), check=True, timeout=120,
                              stdout=subprocess.PIPE).stdout.decode().strip()

    def database(self):
        self.count += 1
        name = f"t{os.getpid()}_{self.count}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE template0")
        return Database(self, name)

    def close(self):
        if self.process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.dir)


class Database:
    def __init__(self, server, name):
        self.server = server
        self.name = name

    def url(self, user="boss", **options):
        more = "".join(f"&{k}={v}" for k, v in options.items())
        return f"postgresql://{user}@/{self.name}?host={self.server.dir}{more}"

    def sql(self, text, user="boss"):
        return self.server.sql(self.name, text, user)

    def drop(self):
        self.server.sql("postgres", f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")
