"""Figures of `afloat shell`, each taken on a pseudo-terminal that this program reads."""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import statistics
import struct
import subprocess
import tempfile
import termios
import time

MB = 60
KEYS = 300


class Terminal:
    """A program on a terminal of ours."""

    def __init__(self, argv, env, cwd):
        self.fd, theirs = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)

    def read(self):
        try:
            return os.read(self.fd, 65536)
        except OSError:
            return b""

    def send(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern):
        """What came until the pattern; only the end of it is searched."""
        tail = b""
        while not re.search(pattern, tail):
            data = self.read()
            assert data, f"it ended: {tail[-300:]!r}"
            tail = tail[-4096:] + data
        return tail

    def drain(self, mark):
        """Throw away all that comes until the mark, as cheaply as can be."""
        tail = b""
        while True:
            data = os.read(self.fd, 65536)
            if mark in tail + data:
                return
            tail = data[-len(mark):]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


class Place:
    """A home, a user's directory and a project in one."""

    def __init__(self, afloat):
        self.afloat = afloat
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="afloat-bench-"))
        self.project = self.dir / "project"
        (self.project / ".afloat").mkdir(parents=True)
        (self.dir / ".bashrc").write_text("PS1='P> '\n")
        (self.dir / ".zshrc").write_text("PROMPT='P> '\nzmodload zsh/datetime\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("AFLOAT")}
        self.env.update(AFLOAT_HOME=str(self.dir / "home"), HOME=str(self.dir), TERM="xterm-256color", HISTFILE="")

    def save(self, text):
        (self.project / ".afloat" / "env.toml").write_text(text)

    def shell(self, name="bash"):
        subprocess.run([self.afloat, "trust", "--follow", self.project], env=self.env, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        t = Terminal([self.afloat, "shell"], {**self.env, "SHELL": f"/usr/bin/{name}"}, self.project)
        t.until(rb"\(afloat\) P> ")
        return t

    def close(self):
        shutil.rmtree(self.dir)


def variables(value):
    return "[env]\n" + "".join(f'VARIABLE_{i} = "{value} {i}"\n' for i in range(120))


# ---- throughput ------------------------------------------------------------------------------

def spent(pid):
    """Seconds of CPU of a process and of all below it, those that ended included; they are waited for."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    own = sum(int(x) for x in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return own + sum(spent(int(child)) for child in f.read().split())


def cat_in(t, pids, mark):
    """Have the shell on `t` print the file; seconds by the clock, and of the CPU of `pids` and below."""
    t.send("stty -echo; echo rea''dy\n")
    t.until(rb"ready")
    before, began = sum(spent(p) for p in pids), time.monotonic()
    t.send("cat big; echo en''d\n")
    t.drain(mark)
    return time.monotonic() - began, sum(spent(p) for p in pids) - before


def through_shell(place):
    t = place.shell()
    took = cat_in(t, [t.process.pid], b"end\r\n")
    t.close()
    return took


def through_nothing(place):
    t = Terminal(["bash", "--norc", "-i"], place.env, place.project)
    took = cat_in(t, [t.process.pid], b"end\r\n")
    t.close()
    return took


def through_script(place):
    t = Terminal(["script", "-qc", "bash --norc -i", "/dev/null"], place.env, place.project)
    took = cat_in(t, [t.process.pid], b"end\r\n")
    t.close()
    return took


def through_tmux(place):
    """With a client that looks at it; ends when the last line is on the screen."""
    tmux = ["tmux", "-S", place.dir / "tmux", "-f", "/dev/null"]
    t = Terminal([*tmux, "new-session", "PS1='P> ' bash --norc -i"], place.env, place.project)
    t.until(rb"P>")
    server = subprocess.run([*tmux, "display-message", "-p", "#{pid}"], capture_output=True, text=True, check=True)
    took = cat_in(t, [t.process.pid, int(server.stdout)], b"end")
    subprocess.run([*tmux, "kill-server"], check=False)
    t.close()
    return took


def throughput(place, row, rounds):
    """Against script by the clock. Against tmux by the CPU that lies between `cat` and the screen, as the kernel's
    terminals and this reader, which are the same for both, bound what the clock can show."""
    (place.project / "big").write_bytes((b"0123456789" * 8 + b"x\n") * (MB * 1000000 // 82))
    ways = {"shell": through_shell, "nothing": through_nothing, "script": through_script,
            "tmux": through_tmux}
    runs = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            if name in ("shell", "nothing") or shutil.which(name):
                runs[name].append(run(place))
    clock = {name: statistics.median(MB / r[0] for r in got) for name, got in runs.items() if got}
    core = {name: statistics.median(MB / r[1] for r in got) for name, got in runs.items() if got}
    print(f"    a terminal with nothing between takes {clock['nothing']:.0f} MB/s here")
    if "tmux" in clock:
        print(f"    against tmux by the clock: {clock['shell'] / clock['tmux']:.2f} x, a terminal with nothing "
              f"between {clock['nothing'] / clock['tmux']:.2f} x")
    for name, least, figures, unit in (("script", 1.0, clock, "MB/s"), ("tmux", 2.5, core, "MB a core-second")):
        what, ours = f"terminal throughput against {name}", figures["shell"]
        if name in figures:
            ratio = ours / figures[name]
            row(what, f"{ours:.0f} {unit}, {ratio:.2f} x", f">= {least} x", ratio >= least)
        else:
            row(what, f"{ours:.0f} {unit}, {name} not measured", f">= {least} x", None)


# ---- keys ------------------------------------------------------------------------------------

def key_times(t):
    """Echo of single keys by the terminal's own line discipline, with `cat` in front."""
    t.send("echo rea''dy; cat >/dev/null\n")
    t.until(rb"ready\r\n")
    times = []
    for _ in range(KEYS):
        began = time.monotonic()
        os.write(t.fd, b"k")
        while b"k" not in t.read():
            pass
        times.append(time.monotonic() - began)
    return statistics.median(times)


def key_echo(place, row, rounds):
    with_us, without = [], []
    for _ in range(rounds):
        t = place.shell()
        with_us.append(key_times(t))
        t.close()
        t = Terminal(["bash", "--noprofile", "--norc", "-i"], place.env, place.project)
        without.append(key_times(t))
        t.close()
    added = (statistics.median(with_us) - statistics.median(without)) * 1000
    row("key echo, added to a bare terminal", f"{added:.3f} ms", "<= 0.2 ms", added <= 0.2)


# ---- the hook --------------------------------------------------------------------------------

def number(t, command):
    t.send(command + "; echo ' en''d'\n")
    return float(re.search(rb"([0-9.]+) end\r\n", t.until(rb"[0-9.]+ end\r\n")).group(1))


def forks_of(place):
    """Processes that 100 idle hooks start; None where that cannot be traced."""
    session = next((place.dir / "home" / "run" / "shell").iterdir())
    log = place.dir / "trace"
    script = f"source {session}/rc.bash; echo start >&2; for i in {{1..100}}; do __afloat_reload_hook; done"
    if not shutil.which("strace"):
        return None
    done = subprocess.run(["strace", "-f", "-o", log, "-e", "trace=clone,clone3,fork,vfork,write", "bash", "-ic",
                           script], env={**place.env, "AFLOAT_RELOAD_FILE": f"{session}/pending"},
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    text = log.read_text() if done.returncode == 0 else ""
    _, found, rest = text.partition('"start\\n"')
    return len(re.findall(r"clone|fork", rest)) if found else None


def idle_hook(place, row, rounds):
    place.save(variables("first"))
    t = place.shell()
    loop = "best=99999999; for ((k = 0; k < 50; k++)); do s=${EPOCHREALTIME/./}; " \
           "for ((i = 0; i < 200; i++)); do __afloat_reload_hook; done; e=${EPOCHREALTIME/./}; " \
           "((e - s > best)) || best=$((e - s)); done; echo -n $((best * 5))"
    times = [number(t, loop) / 1000 for _ in range(rounds)]
    forks = forks_of(place)
    t.close()
    took = statistics.median(times)
    row("idle hook in bash, 120 variables", f"{took:.1f} us", "<= 15 us", took <= 15)
    row("processes started by 100 idle hooks", "not measured" if forks is None else str(forks), "0",
        None if forks is None else forks == 0)


def apply_times(place, name, rounds):
    place.save(variables("first"))
    t = place.shell(name)
    wait = "precmd_functions=(); preexec_functions=(); PROMPT_COMMAND=; trap - URG; " \
           "while [[ ! -e $AFLOAT_RELOAD_FILE ]]; do :; done; "
    clock = "s=${EPOCHREALTIME/./}; __afloat_reload_apply; e=${EPOCHREALTIME/./}; "
    show = "echo -n $(((e - s)))" if name == "bash" else "echo -n $((${e[1,16]} - ${s[1,16]}))"
    times = []
    for i in range(rounds):
        t.send("echo rea''dy\n")
        t.until(rb"ready\r\n")
        place.save(variables(f"round {i}"))
        times.append(number(t, wait + clock + show) / 1000)
    t.close()
    return statistics.median(times)


def apply(place, row, rounds):
    for name in ("bash", "zsh"):
        if shutil.which(name):
            took = apply_times(place, name, rounds)
            row(f"apply of 120 changed variables in {name}", f"{took:.2f} ms", "<= 5 ms", took <= 5)
        else:
            row(f"apply of 120 changed variables in {name}", "not measured", "<= 5 ms", None)


def measure(afloat, row, rounds):
    for figure in (throughput, key_echo, idle_hook, apply):
        place = Place(afloat)
        try:
            figure(place, row, rounds)
        finally:
            place.close()
