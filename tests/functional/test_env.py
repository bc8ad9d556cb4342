"""`afloat env` and `afloat hook`, with real shells on a terminal."""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import termios

import pytest

from conftest import BIN, retry
from test_shell import RC, Terminal

SHELLS = ["bash", "zsh", "fish"]
HOOK = {
    "bash": 'eval "$("%s" hook bash)"\n',
    "zsh": 'eval "$("%s" hook zsh)"\n',
    "fish": '"%s" hook fish | source\n',
}


def save(path, text):
    """As an editor does: by rename."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


class Shell:
    """An interactive shell of the user's own, with the hook in its rc file."""

    def __init__(self, place, shell, more="", env=None):
        self.t = Terminal()
        self.shell = shell
        self.n = 0
        name, text = RC[shell]
        path = place.user / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + more + HOOK[shell] % BIN)
        self.process = subprocess.Popen(
            [f"/usr/bin/{shell}", "-i"], stdin=self.t.theirs, stdout=self.t.theirs, stderr=self.t.theirs,
            cwd=place.dir, start_new_session=True, env={**place.home.env, **(env or {})},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.t.expect("P> ")

    def get(self, name):
        """The value of a variable in the environment of the shell."""
        self.n += 1
        self.t.send(f"printf '@{self.n}=%s=\\n' \"${name}\"\n")
        value = self.t.expect(rb"@%d=([^=\r\n]*)=\r?\n" % self.n).group(1).decode()
        self.t.expect("P> ")
        return value

    def type(self, line):
        self.t.send(line + "\n")
        self.t.expect("P> ")

    def wait(self, name, value):
        retry(lambda: self.get(name) == value)

    def close(self):
        self.t.close()  # as a terminal that is closed
        self.process.wait(30)


class Place:
    def __init__(self, home, dir):
        self.home = home
        self.dir = dir
        self.user = dir / "user"
        self.user.mkdir()
        home.env.update(HOME=str(self.user), TERM="xterm-256color", LANG="C.UTF-8")
        self.shells = []

    def project(self, name, text, trust=True):
        path = self.dir / name
        (path / ".afloat").mkdir(parents=True, exist_ok=True)
        (path / ".afloat/env.toml").write_text(text)
        if trust:
            self.home.ok("env", "allow", "--follow", str(path))
        return path

    def start(self, shell, **more):
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        s = Shell(self, shell, **more)
        self.shells.append(s)
        return s

    def helpers(self):
        """Directories of processes in the background."""
        d = self.home.runtime / "hook"
        return list(d.iterdir()) if d.exists() else []


@pytest.fixture
def place(home, tmp_path):
    p = Place(home, tmp_path)
    yield p
    for s in p.shells:
        s.close()
    retry(lambda: p.helpers() == [])  # nothing is left behind


# ---- env ------------------------------------------------------------------------------------------


def test_an_environment_is_shown_once_it_is_allowed(place):
    project = place.project("p", '[env]\nFOO = "bar"\n[path]\nprepend = ["bin"]\n[unset]\nnames = ["GONE"]\n',
                            trust=False)
    env = {**place.home.env, "GONE": "x", "PATH": "/usr/bin:/bin"}
    def afloat(*args):
        return subprocess.run([BIN, *args], cwd=project, env=env, capture_output=True, text=True)
    r = afloat("env")
    assert r.returncode == 4 and "type 'afloat env allow'" in r.stderr, r
    assert "untrusted" in afloat("env", "status").stdout
    assert afloat("env", "allow").returncode == 0
    assert afloat("env").stdout == f"FOO=bar\nPATH={project}/bin:/usr/bin:/bin\n"
    assert afloat("env", "diff").stdout == "+ FOO\n- GONE\n~ PATH\n"
    assert afloat("env", "diff", "--values").stdout.startswith("+ FOO=bar\n- GONE\n")
    shown = json.loads(afloat("env", "show", "--json").stdout)
    assert shown["set"]["FOO"] == "bar" and shown["unset"] == ["GONE"]
    assert f"{project}/.afloat/env.toml\n" in afloat("env", "inputs").stdout
    assert f"{project}/.envrc (missing)\n" in afloat("env", "inputs").stdout
    save(project / ".afloat/env.toml", "[env]\nFOO = 1\nFOO = 2\n")
    afloat("env", "allow")
    r = afloat("env")
    assert r.returncode == 1 and ".afloat/env.toml: line 3" in r.stderr, r
    assert ".afloat/env.toml: line 3" in afloat("env", "error").stdout
    save(project / ".afloat/env.toml", "[env]\nFOO = 1\n")
    assert afloat("env", "allow").returncode == 0
    assert afloat("env").stdout == "FOO=1\n"
    assert afloat("env", "deny").returncode == 0
    assert afloat("env").returncode == 4
    assert afloat("env", "reload").returncode == 3


def test_init_writes_a_file_that_is_trusted(place):
    d = place.dir / "fresh"
    d.mkdir()
    def afloat(*args):
        return subprocess.run([BIN, *args], cwd=d, env=place.home.env, capture_output=True, text=True)
    r = afloat("env", "init")
    assert r.returncode == 0 and r.stdout == f"{d}/.afloat/env.toml\n", r
    assert afloat("env").returncode == 0
    assert afloat("env", "init").returncode == 7  # it is there already


def test_a_task_runs_without_a_shell(place):
    project = place.project("p", '[env]\nFOO = "bar"\n[[task]]\nname = "a"\nrun = "echo a $FOO"\n'
                                 '[[task]]\nname = "b"\nrun = "echo b; exit 3"\nafter = ["a"]\n')
    def afloat(*args):
        return subprocess.run([BIN, *args], cwd=project, env=place.home.env, capture_output=True, text=True)
    r = afloat("env", "task", "b")
    assert r.returncode == 1 and r.stdout == "a bar\nb\n" and "task b: failed" in r.stderr, r
    assert afloat("env", "task", "a").returncode == 0
    assert afloat("env", "task", "c").returncode == 3


# ---- hook -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_cd_in_out_and_between(place, shell):
    one = place.project("one", '[env]\nFOO = "one"\nONLY = "1"\n[path]\nprepend = ["bin"]\n')
    two = place.project("two", '[env]\nFOO = "two"\n')
    inner = place.project("one/inner", '[env]\nFOO = "inner"\n')
    s = place.start(shell)
    path = s.get("PATH")
    assert s.get("FOO") == ""
    s.type(f"cd {one}")
    s.wait("FOO", "one")
    assert s.get("PATH") == f"{one}/bin:{path}"
    s.type("cd .afloat")  # deeper in the same project: nothing happens
    assert s.get("FOO") == "one" and len(place.helpers()) == 1
    s.type(f"cd {two}")
    assert s.get("ONLY") == "" and s.get("PATH") == path  # the old one is gone at once
    s.wait("FOO", "two")
    s.type("cd -")
    s.wait("ONLY", "1")
    s.type(f"cd {inner}")
    s.wait("FOO", "inner")
    assert s.get("ONLY") == ""  # the nearest one counts, alone
    s.type(f"cd {place.dir}")
    assert s.get("FOO") == "" and s.get("PATH") == path and s.get("AFLOAT_ENV_GENERATION") == ""
    if shell != "fish":
        s.type(f"pushd {one} >/dev/null")
        s.wait("FOO", "one")
        s.type("popd >/dev/null")
        assert s.get("FOO") == ""
    retry(lambda: place.helpers() == [])


@pytest.mark.parametrize("shell", SHELLS)
def test_an_edit_is_there_at_the_prompt(place, shell):
    one = place.project("one", '[env]\nFOO = "1"\nOLD = "x"\n')
    s = place.start(shell)
    s.type(f"cd {one}")
    s.wait("FOO", "1")
    assert s.get("AFLOAT_ENV_GENERATION") == "1"
    save(one / ".afloat/env.toml", '[env]\nFOO = "2"\n')
    s.wait("FOO", "2")
    assert s.get("OLD") == ""
    save(one / ".afloat/env.toml", '[env\n')  # broken: the old one stays, and it is said
    s.t.send("\n")
    retry(lambda: s.get("FOO") == "2" and b"afloat: .afloat/env.toml: line 1" in s.t.seen)
    (one / ".afloat/env.toml").unlink()  # deleted: everything is restored
    s.wait("FOO", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_directory_that_becomes_a_project_while_the_shell_is_in_it(place, shell):
    (place.dir / "late").mkdir()
    s = place.start(shell)
    s.type(f"cd {place.dir / 'late'}")
    assert s.get("FOO") == ""
    place.project("late", '[env]\nFOO = "1"\n')
    s.wait("FOO", "1")


@pytest.mark.parametrize("shell", SHELLS)
def test_saves_in_an_editor_that_ends_with_a_broken_file(place, shell):
    """A program runs in the shell: what was built last arrives at the prompt, although a failure came after it."""
    toml = place.project("one", '[env]\nFOO = "1"\n') / ".afloat/env.toml"
    s = place.start(shell)
    s.type(f"cd {toml.parent.parent}")
    s.wait("FOO", "1")
    [meet] = place.helpers()
    # the first save waits until the program runs: at its prompt the shell would take each file as it comes
    s.t.send("sh -c 'echo at\"\"work >&2; head -n 1 >/dev/null'\n")
    s.t.expect("atwork")
    for n in range(2, 8):
        save(toml, f'[env]\nFOO = "{n}"\nBIG = "{"x" * 50000}"\n')
        retry(lambda: (meet / f"env.{n}").exists())

    def sizes():
        return [f.stat().st_size for f in meet.glob("env.*")]
    retry(lambda: sum(size > 0 for size in sizes()) == 1)  # only the newest takes space; the one before is emptied after it
    assert len(sizes()) == 6
    save(toml, "[env\n")
    retry(lambda: (meet / "note").exists() or (meet / "env.8").exists())
    s.t.send("\n")  # the program ends
    s.t.expect("afloat: .afloat/env.toml: line 1")
    s.t.expect("P> ")
    assert s.get("FOO") == "7"
    retry(lambda: not list(meet.glob("env.*")))


def test_what_is_not_trusted_is_announced_and_not_used(place):
    one = place.project("one", '[env]\nFOO = "1"\n', trust=False)
    s = place.start("bash")
    s.type(f"cd {one}")
    retry(lambda: s.get("FOO") == "" and b"is not trusted: look at it" in s.t.seen)
    place.home.ok("env", "allow", str(one))
    s.wait("FOO", "1")


def test_inside_an_afloat_shell_the_hook_does_nothing(place):
    one = place.project("one", '[env]\nFOO = "1"\n')
    for shell in SHELLS:
        if shutil.which(shell):
            s = place.start(shell, env={"AFLOAT_SHELL": "1"})
            s.type(f"cd {one}")
            assert s.get("FOO") == "" and place.helpers() == []


@pytest.mark.parametrize("before", ["", "PROMPT_COMMAND='BEFORE=1; '\n", "PROMPT_COMMAND='BEFORE=1'\n",
                                    "PROMPT_COMMAND='BEFORE=1 # first'\n", "PROMPT_COMMAND=('BEFORE=1' ':')\n"])
def test_the_hook_does_no_harm_to_prompt_command(place, before):
    one = place.project("one", '[env]\nFOO = "1"\n')
    s = place.start("bash", more=before)
    s.type(f"cd {one}")
    s.wait("FOO", "1")
    s.t.send("(exit 7)\necho status=$? before=$BEFORE\n")
    m = s.t.expect(rb"status=(\d+) before=(1?)\r")
    assert m.group(1) == b"7" and m.group(2) == (b"1" if before else b"")
    assert b"syntax error" not in s.t.seen


@pytest.mark.parametrize("before", ["set -u\nunset PROMPT_COMMAND\n", "set -u\nPROMPT_COMMAND=()\n", "set -u\nPROMPT_COMMAND=(:)\n"])
def test_the_hook_works_where_unset_variables_are_errors(place, before):
    one = place.project("one", '[env]\nFOO = "1"\n')
    script = (before + HOOK["bash"] % BIN + f"cd /; __afloat_hook; cd '{one}'\n"
              "until __afloat_hook; [[ ${FOO-} == 1 ]]; do sleep 0.05; done\n"
              "cd /; __afloat_hook; echo \"FOO=${FOO-none}\"\n")
    done = subprocess.run(["bash", "--norc", "-c", script], env=place.home.env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("FOO=none\n", ""), done


@pytest.mark.parametrize("shell, prompt", [
    ("bash", "PS1='[$seen]P> '\n"), ("zsh", "PROMPT='[%?]P> '\n"),
    ("fish", "function fish_prompt; echo -n \"[$status]P> \"; end\n")])
def test_the_hook_keeps_the_status_for_the_prompt(place, shell, prompt):
    one = place.project("one", '[env]\nFOO = "1"\n')
    s = place.start(shell, more=prompt)
    if shell == "bash":  # what comes behind us at the prompt
        s.type("PROMPT_COMMAND+='; seen=$?'")
    for command in ("sh -c 'exit 7'", f"cd {one}; sh -c 'exit 7'", "cd /; sh -c 'exit 7'"):
        s.t.send(command + "\n")
        s.t.expect(rb"\[7\]P> ")


def test_an_idle_prompt_starts_no_process(place):
    one = place.project("one", '[env]\nFOO = "1"\n')
    s = place.start("bash")
    s.type(f"cd {one}")
    s.wait("FOO", "1")
    pid = str(s.process.pid)
    trace = place.dir / "trace"
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tracer = subprocess.Popen(["strace", "-f", "-e", "trace=process", "-o", str(trace), "-p", pid],
                              stderr=subprocess.PIPE)
    tracer.stderr.readline()  # attached
    s.type(":")
    s.type(":")
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    assert not re.search(r"\b(fork|vfork|clone|clone3|execve)\(", trace.read_text()), trace.read_text()


def test_a_shell_that_is_killed_takes_its_process_along(place):
    one = place.project("one", '[env]\nSECRET = "1"\n')
    s = place.start("bash")
    s.type(f"cd {one}")
    s.wait("SECRET", "1")
    assert len(place.helpers()) == 1
    os.kill(s.process.pid, signal.SIGKILL)
    s.process.wait()
    retry(lambda: place.helpers() == [])


def helper_pid(dir):
    """The process that serves this directory."""
    for p in os.listdir("/proc"):
        try:
            with open(f"/proc/{p}/cmdline", "rb") as f:
                if str(dir).encode() in f.read().split(b"\0"):
                    return int(p)
        except (OSError, ValueError):
            pass
    return None


def is_unlocked(dir):
    fd = os.open(dir, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def test_what_a_killed_process_left_goes_when_the_next_one_starts(place):
    one = place.project("one", '[env]\nSECRET = "1"\n')
    s = place.start("bash")
    s.type(f"cd {one}")
    s.wait("SECRET", "1")
    [left] = place.helpers()
    os.kill(retry(lambda: helper_pid(left)), signal.SIGKILL)
    retry(lambda: is_unlocked(left))  # the dying process holds it until it is gone, and so does a child before its exec
    s.type("cd /")
    s.wait("SECRET", "")
    assert left.exists()
    s.type(f"cd {one}")
    s.wait("SECRET", "1")
    assert retry(lambda: not left.exists() and len(place.helpers()) == 1)


def test_a_meeting_place_that_is_not_ours_alone_is_refused(place, tmp_path):
    one = place.project("one", '[env]\nFOO = "1"\n')
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    trap = place.home.runtime / "hook"
    serve = ["env", "serve", "bash", str(trap / "1-1"), str(one), str(os.getpid())]
    trap.symlink_to(target)
    for args in (["hook", "bash"], serve):
        r = place.home.cli(*args)
        assert r.returncode == 4 and str(trap) in r.stderr and r.stdout == "", r
    trap.unlink()
    trap.mkdir()
    trap.chmod(0o777)
    for args in (["hook", "bash"], serve):
        r = place.home.cli(*args)
        assert r.returncode == 4 and str(trap) in r.stderr and r.stdout == "", r
    assert list(trap.iterdir()) == [] and list(target.iterdir()) == []
    trap.chmod(0o700)
    (trap / "1-1").symlink_to(target)
    r = place.home.cli(*serve)
    assert r.returncode == 1 and list(target.iterdir()) == [], r
    (trap / "1-1").unlink()


def test_a_program_that_takes_too_long_is_ended(place):
    one = place.project("one", 'script = "env.sh"\n', trust=False)
    os.mkfifo(one / "gate")
    (one / "env.sh").write_text("read -r x < gate\n")
    place.home.ok("env", "allow", "--follow", str(one))
    (place.home.dir / "config.toml").write_text("[shell]\nbuild_timeout_s = 1\n")
    r = place.home.cli("env", "show", cwd=one)
    assert r.returncode == 124 and "took longer than 1 s" in r.stderr, r
    r = place.home.cli("shell", "true", cwd=one)
    assert r.returncode == 1 and "took longer than 1 s" in r.stderr, r


def test_the_hook_knows_its_shells(place):
    r = place.home.cli("hook", "ksh")
    assert r.returncode == 2 and "bash, zsh or fish" in r.stderr, r


# ---- the hub ----------------------------------------------------------------------------------------


def events(home):
    return home.http("GET", "/events?types=env.*&limit=100", headers=["Accept: application/json"]).json()["events"]


def test_a_running_hub_is_told_and_knows_who_is_there(place, hub):
    one = place.project("one", '[env]\nFOO = "1"\n')
    s = place.start("bash")
    s.type(f"cd {one}")
    def types():
        s.type(":")
        return [e["type"] for e in events(place.home)]
    good = ["env.building", "env.ready", "env.applied"]
    retry(lambda: types() == good)
    save(one / ".afloat/env.toml", '[env]\nFOO = "2"\n')
    retry(lambda: types() == good + good)
    save(one / ".afloat/env.toml", "[env\n")
    retry(lambda: types() == good + good + ["env.building", "env.failed"])
    told = events(place.home)
    assert told[3]["changed_files"] == [".afloat/env.toml"] and told[3]["project"] == str(one)
    assert told[5]["changed_files"] == [".afloat/env.toml"]  # of what is applied
    assert told[5]["duration_ms"] == told[4]["duration_ms"]
    assert [e["generation"] for e in told] == [1, 1, 1, 2, 2, 2, 3, 3]
    assert "line 1" in told[7]["error"] and told[7]["shell"].startswith(str(s.process.pid))
    shells = place.home.http("GET", f"/env?path={one}").json()["shells"]
    assert [(x["state"], x["pid"]) for x in shells] == [("failed", s.process.pid)], shells
    assert place.home.http("GET", f"/env?path={one}/src/deep").json()["shells"] == shells  # around this path
    assert place.home.http("GET", f"/env?path={one}-2").json()["shells"] == []
    assert place.home.http("GET", "/env?path=/nowhere").json()["shells"] == []
    assert place.home.http("GET", "/env?path=src").status == 400
    s.close()
    place.shells.remove(s)
    assert retry(lambda: place.home.http("GET", "/env").json() == {"shells": []})


def test_a_hub_that_starts_later_is_told_how_things_stand(place, start_hub):
    one = place.project("one", '[env]\nFOO = "1"\n')
    s = place.start("bash")
    s.type(f"cd {one}")
    s.wait("FOO", "1")
    start_hub()
    retry(lambda: [e["type"] for e in events(place.home)] == ["env.applied"])


def test_only_shells_report(place, hub):
    def report(**more):
        body = {"type": "env.ready", "shell": "1-1", "project": "/p", "pid": os.getpid(), **more}
        return place.home.http("POST", "/env", json.dumps(body).encode()).status
    assert report() == 200
    assert report(type="hub.started") == 400
    assert report(pid=0) == 400
    assert report(error="x" * 70000) in (400, 413)
    assert [x["shell"] for x in place.home.http("GET", "/env").json()["shells"]] == ["1-1"]


def test_an_afloat_shell_tells_the_hub_too(place, hub):
    one = place.project("one", '[env]\nFOO = "1"\n')
    (place.user / ".bashrc").write_text(RC["bash"][1])
    t = Terminal()
    process = subprocess.Popen(
        [BIN, "shell"], stdin=t.theirs, stdout=t.theirs, stderr=t.theirs, cwd=one, start_new_session=True,
        env={**place.home.env, "SHELL": "/usr/bin/bash"},
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    t.expect("P> ")
    retry(lambda: [e["type"] for e in events(place.home)] == ["env.ready", "env.applied"])
    shells = place.home.http("GET", "/env").json()["shells"]
    assert [(x["state"], x["pid"], x["project"]) for x in shells] == [("applied", process.pid, str(one))]
    t.send("afloat() { \"%s\" \"$@\"; }; afloat env status --json\n" % BIN)
    status = json.loads(t.expect(rb"(\{\"session\".*?\})\r?\n").group(1))
    assert status["project"] == str(one) and status["applied"] == 1
    t.send("afloat env show | head -1; afloat env inputs | head -1; afloat env pause | grep -c state.*paused\n")
    t.expect(rb"FOO=1\r\n.*\.afloat/env\.toml\r\n1\r\n")
    t.send("exit 3\n")
    assert process.wait(30) == 3
    t.close()
