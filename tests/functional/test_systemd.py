"""The units under a real systemd: a user manager of its own, in namespaces for cgroups, mounts and processes.

No journal and no login is needed for that, but root is. `make test-systemd` does the same as a user of the package would,
in a booted Debian.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import pytest

from conftest import BIN, DEADLINE, REPORT, ROOT, remove_tree, retry

SYSTEMD = "/lib/systemd/systemd"
# The directory /run/systemd/system says that systemd runs. The shell stays as the first process: systemd in its place
# would be a manager of the system.
INIT = f"""
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run && mkdir -p /run/systemd/system || exit 1
{SYSTEMD} --user --default-standard-output=inherit --default-standard-error=inherit &
wait
"""


def cgroup2():
    """Where the one hierarchy of cgroups is mounted, or None."""
    mounts = [line.split() for line in open("/proc/self/mounts")]
    return next((pathlib.Path(m[1]) for m in mounts if m[2] == "cgroup2"), None)


pytestmark = [
    pytest.mark.skipif(not os.path.exists(SYSTEMD), reason="systemd is not installed"),
    pytest.mark.skipif(os.getuid() != 0, reason="cgroups and mounts of its own need root"),
    pytest.mark.skipif(cgroup2() is None, reason="no cgroup2 is mounted"),
]


class Manager:
    """systemd as it runs for a user, with the units that `make install` installs."""

    def __init__(self, dir):
        self.home, prefix = dir / "home", dir / "usr"
        paths = [self.home / ".config/systemd/user", prefix / "lib/systemd/user", "/usr/lib/systemd/user"]
        kept = {k: v for k, v in os.environ.items() if k == "LANG" or k.endswith("SAN_OPTIONS")}
        self.env = {**kept, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(dir / "run"), "SHELL": "/bin/sh",
                    "PATH": f"{prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_UNIT_PATH": ":".join(map(str, paths))}
        install = {**os.environ, "PREFIX": str(prefix), "BUILD": str(pathlib.Path(BIN).parent), "QUIET": "1"}
        subprocess.run([ROOT / "tools/install", "install"], env=install, check=True)
        for place in self.home, dir / "run":
            place.mkdir(mode=0o700)
        self.group = cgroup2() / f"afloat-test-{os.getpid()}"
        self.group.mkdir()
        self.out = open(dir / "out", "w+")
        enter = lambda: (self.group / "cgroup.procs").write_text("0")
        words = ["unshare", "--cgroup", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT]
        self.init = subprocess.Popen(words, env=self.env, preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=self.out,
                                     stderr=self.out)
        retry(lambda: (self.init.poll() is None and self.run("systemctl", "--user", "is-system-running").stdout
                       in ("running\n", "degraded\n")))

    def run(self, *words):
        """A command of the user, as in any of the user's terminals."""
        first = pathlib.Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        enter = ["nsenter", "-t", first[0], "--mount", "--pid", "--cgroup", "--wd=/"] if first else ["false"]
        return subprocess.run([*enter, *words], env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=DEADLINE)

    def ok(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def ctl(self, *words):
        return self.ok("systemctl", "--user", *words)

    def show(self, unit, name):
        return self.ctl("show", "-P", name, unit).strip()

    def state(self, unit):
        return self.show(unit, "ActiveState")

    def hub(self):
        """The number of the hub that answers."""
        return json.loads(self.ok("afloat", "status", "--json"))["pid"]

    def terminals(self):
        """Name and process of each terminal that runs; this starts a hub if there is none."""
        found = json.loads(self.ok("afloat", "pty", "list", "--json"))["ptys"]
        return {t["name"]: t["pid"] for t in found if t["state"] == "running"}

    def close(self):
        self.init.kill()  # and with it all that ran inside
        self.init.wait(DEADLINE)
        retry(lambda: not re.search("^populated 1", (self.group / "cgroup.events").read_text(), re.M))
        for dir, _, _ in os.walk(self.group, topdown=False):
            os.rmdir(dir)
        self.out.seek(0)
        said = self.out.read()
        assert not REPORT.search(said), said


@pytest.fixture(scope="module")
def manager():
    dir = pathlib.Path(tempfile.mkdtemp(prefix="afs-"))  # short: systemd takes no longer path for a socket
    m = Manager(dir)
    yield m
    m.close()
    remove_tree(dir)


@pytest.fixture
def user(manager):
    """The manager with the socket enabled and no hub yet."""
    manager.ctl("enable", "--now", "afloat.socket")
    assert manager.state("afloat.socket") == "active" and manager.state("afloat.service") == "inactive"
    yield manager
    manager.ctl("disable", "--now", "afloat.socket")
    manager.ok("afloat", "stop", "--all")
    manager.ctl("reset-failed")


def test_the_first_command_starts_the_hub_and_asking_for_it_does_not(user):
    assert user.run("afloat", "status").returncode == 5 and user.state("afloat.service") == "inactive"
    said = user.ok("afloat", "start")
    pid = int(user.show("afloat.service", "MainPID"))
    assert pid == user.hub() and f"hub started (pid {pid})" in said
    assert f"already running (pid {pid})" in user.ok("afloat", "start")
    user.ctl("reload", "afloat.service")
    assert user.hub() == pid


def test_terminals_and_sessions_outlive_stop_and_restart_and_crash(user):
    user.ok("afloat", "pty", "new", "--detach", "--name", "mine", "--", "cat")
    session = json.loads(user.ok("afloat", "api", "POST", "/session", "{}"))["id"]
    terminals = user.terminals()
    assert list(terminals) == ["mine"]
    seen = {user.hub()}

    def is_another_hub():
        pid = int(user.show("afloat.service", "MainPID"))
        assert user.terminals() == terminals and session in user.ok("afloat", "sessions", "list")
        assert user.state("afloat.socket") == "active" and user.hub() not in seen
        seen.add(user.hub())
        return pid
    user.ctl("stop", "afloat.service")
    assert user.state("afloat.service") == "inactive" and user.state("afloat.socket") == "active"
    is_another_hub()
    user.ctl("restart", "afloat.service")
    is_another_hub()
    user.ok("afloat", "stop")
    retry(lambda: user.state("afloat.service") == "inactive")
    is_another_hub()
    user.ctl("kill", "--kill-who=main", "--signal=KILL", "afloat.service")
    retry(lambda: user.show("afloat.service", "NRestarts") == "1")  # by itself: no command has asked
    retry(lambda: user.run("afloat", "status").returncode == 0)
    is_another_hub()


def test_stopping_the_socket_ends_the_hub_and_then_commands_start_their_own(user):
    user.ok("afloat", "pty", "new", "--detach", "--name", "mine", "--", "cat")
    terminals = user.terminals()
    user.ctl("stop", "afloat.socket")
    assert user.state("afloat.service") == "inactive" and "not running" in user.run("afloat", "status").stderr
    assert user.terminals() == terminals
    assert user.state("afloat.service") == "inactive" and user.hub() != 0


def test_starting_the_socket_replaces_a_hub_that_a_command_started(user):
    user.ctl("stop", "afloat.socket")
    user.ok("afloat", "start")
    before = user.hub()
    user.ctl("start", "afloat.socket")
    assert user.run("afloat", "status").returncode == 5  # it is gone, and systemd listens
    user.terminals()
    assert user.hub() == int(user.show("afloat.service", "MainPID")) != before


def test_stopping_and_starting_in_a_row_does_not_use_the_socket_up(user):
    for _ in range(7):  # systemd's own limit is 5 in 10 s
        user.ok("afloat", "start")
        user.ok("afloat", "stop")
    user.ok("afloat", "start")
    assert user.state("afloat.socket") == "active" and user.hub() == int(user.show("afloat.service", "MainPID"))


def test_a_hub_that_cannot_start_is_given_up_and_the_command_says_why(user):
    sessions = user.home / ".afloat/sessions"
    user.terminals()
    user.ok("afloat", "stop")
    sessions.rename(sessions.with_name("away"))
    sessions.write_text("not a directory")
    done = user.run("afloat", "sessions", "list")
    assert done.returncode == 5 and "not a directory" in done.stderr
    retry(lambda: user.state("afloat.socket") == "failed")
    sessions.unlink()
    sessions.with_name("away").rename(sessions)
    user.ok("afloat", "sessions", "list")  # a hub of the command's own
    user.ctl("reset-failed")
    user.ctl("start", "afloat.socket")
    user.terminals()
    assert user.hub() == int(user.show("afloat.service", "MainPID"))


def test_uninstall_names_the_socket_that_systemd_holds(user):
    assert "systemctl --user disable --now afloat.socket" in user.ok("afloat", "uninstall", "--dry-run")


def test_systemd_finds_no_fault_in_the_units(user):
    units = user.home.parent / "usr/lib/systemd/user"
    words = ["systemd-analyze", "--user", "verify", "--man=no", units / "afloat.service", units / "afloat.socket"]
    assert user.ok(*words) == ""
