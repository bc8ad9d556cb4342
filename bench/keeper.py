"""Figures of keepers: coloured output against tmux by CPU, and memory with a full history."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.parse

MB = 30
TERMINALS = 50
LINE = (b"\033[1m\033[32m%6d\033[0m \033[34mdrwxr-xr-x\033[m src/\033[1;35mmodule_%d.c\033[m:%d: \033[31merror:\033[0m "
        b"expected value\n")


def cpu(pid):
    """Seconds of CPU that the process itself took."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return sum(int(x) for x in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def private_mb(pid):
    """Memory that nobody else has: what one more terminal costs."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1024, kb["Rss"] / 1024


class Place:
    def __init__(self, binary):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="afloat-keep-"))
        self.binary = binary
        self.env = {**os.environ, "AFLOAT_HOME": str(self.dir / "home")}
        self.big = self.dir / "big"
        lines, n = [], 0
        for i in range(10 ** 9):
            lines.append(LINE % (i, i % 97, i % 1000))
            n += len(lines[-1])
            if n > MB * 1000000:
                break
        self.big.write_bytes(b"".join(lines))
        self.api("POST", "/pty", {"cmd": "true", "cwd": "/"})  # the hub is up

    def api(self, method, path, body=None):
        args = [self.binary, "api", method, path] + ([json.dumps(body)] if body else [])
        done = subprocess.run(args, env=self.env, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def start(self, command):
        return self.api("POST", "/pty", {"cmd": "sh", "args": ["-c", command], "cwd": str(self.dir)})

    def wait(self, path):
        while not path.exists():
            time.sleep(0.02)

    def close(self):
        subprocess.run([self.binary, "stop", "--all"], env=self.env, capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def keeper(place):
    """Seconds of CPU of a keeper for the file, and its memory afterwards."""
    go, over = place.dir / "go", place.dir / "over"
    row = place.start(f"while ! test -e {go}; do sleep 0.05; done; cat big; touch {over}; sleep 600")
    before = cpu(row["keeper_pid"])
    go.touch()
    place.wait(over)
    time.sleep(0.3)
    took, memory = cpu(row["keeper_pid"]) - before, private_mb(row["keeper_pid"])
    place.api("DELETE", "/pty/" + urllib.parse.quote(row["id"]))
    go.unlink(), over.unlink()
    return took, memory


def tmux(place):
    """The same for the server of tmux, without a client."""
    go, over = place.dir / "go", place.dir / "over"
    words = ["tmux", "-S", str(place.dir / "tmux"), "-f", "/dev/null"]
    subprocess.run([*words, "start-server", ";", "set", "-g", "history-limit", "10000", ";",
                    "new-session", "-d", "-x", "80", "-y", "24", "-c", str(place.dir),
                    f"while ! test -e {go}; do sleep 0.05; done; cat big; touch {over}; sleep 600"], check=True)
    pid = int(subprocess.run([*words, "display-message", "-p", "#{pid}"], capture_output=True, text=True, check=True).stdout)
    before = cpu(pid)
    go.touch()
    place.wait(over)
    time.sleep(0.3)
    took = cpu(pid) - before
    subprocess.run([*words, "kill-server"], check=False)
    go.unlink(), over.unlink()
    return took


def throughput(place, row, rounds):
    ours, theirs, memory = [], [], (0, 0)
    for _ in range(rounds):
        took, memory = keeper(place)
        ours.append(MB / took)
        if shutil.which("tmux"):
            theirs.append(MB / tmux(place))
    speed = statistics.median(ours)
    row("keeper, coloured output", f"{speed:.0f} MB a core-second", ">= 25 MB/s", speed >= 25)
    if theirs:
        ratio = speed / statistics.median(theirs)
        row("keeper against tmux by CPU", f"{ratio:.2f} x", ">= 1.5 x", ratio >= 1.5)
    else:
        row("keeper against tmux by CPU", "tmux not measured", ">= 1.5 x", None)
    row("keeper with 10,000 lines of history", f"{memory[1]:.1f} MB, {memory[0]:.1f} MB of its own", "<= 3 MB", memory[1] <= 3)


def many(place, row):
    """The hub with fifty terminals."""
    for _ in range(TERMINALS):
        place.start("exec sleep 600")
    pid = place.api("GET", "/healthz")["pid"]
    rss = private_mb(pid)[1]
    row(f"hub with {TERMINALS} terminals", f"{rss:.1f} MB", "<= 20 MB", rss <= 20)


def measure(binary, row, rounds=3):
    place = Place(binary)
    try:
        throughput(place, row, rounds)
        many(place, row)
    finally:
        place.close()


if __name__ == "__main__":
    import sys
    measure(sys.argv[1] if len(sys.argv) > 1 else "build/afloat",
            lambda what, got, want, ok: print(f"{what}: {got} ({want}) {'ok' if ok else 'not measured' if ok is None else 'MISSED'}"),
            rounds=1)
