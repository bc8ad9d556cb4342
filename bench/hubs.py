"""Hubs that share a store in PostgreSQL on this machine, beside the store in files."""
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "functional"))
import pg_rig  # noqa: E402

EVENTS, BATCH, TRIPS, TURNS = 200_000, 100, 300, 20


class Hub:
    """`afloat hub` with a home of its own; `url` NULL: in files."""

    def __init__(self, afloat, url):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="afloat-bench-hub-"))
        if url:
            (self.dir / "config.toml").write_text(f'[store]\nurl = "{url}"\n')
        env = {"PATH": os.environ["PATH"], "HOME": str(self.dir), "AFLOAT_HOME": str(self.dir)}
        self.process = subprocess.Popen([afloat, "hub"], env=env, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.dir / "run" / "hub.sock"))
        return s

    def call(self, method, path, body=None):
        raw = json.dumps(body).encode() if body is not None else b""
        with self.connect() as s:
            s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
            got = b""
            while chunk := s.recv(65536):
                got += chunk
        head, _, rest = got.partition(b"\r\n\r\n")
        assert b" 20" in head.split(b"\r\n")[0], got
        if b"chunked" in head.lower():
            rest = rest.partition(b"\r\n")[2].rpartition(b"\r\n0\r\n")[0]
        return json.loads(rest)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir)


def append(build, row, server):
    with tempfile.TemporaryDirectory(dir=build) as directory:
        out = subprocess.run([build / "bench" / "bench_journal", directory, str(EVENTS), str(BATCH),
                              server.database().url()], capture_output=True, text=True, check=True).stdout
    print("    " + out.strip())
    rate = float(out.split("events/s")[0].split()[-1])
    row("events appended to PostgreSQL by one hub", f"{rate:,.0f} events/s", ">= 20,000/s", rate >= 20000)


def trip(afloat, row, server):
    url = server.database().url()
    a, b = Hub(afloat, url), Hub(afloat, url)
    reader = b.connect()
    reader.sendall(b"GET /events?types=user.* HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
    stream, times = reader.makefile("rb"), []
    stream.readline()
    for n in range(TRIPS):
        begin = time.perf_counter()
        a.call("POST", "/events", {"type": "user.trip", "data": {"n": n}})
        while b'"n":%d}' % n not in stream.readline():
            pass
        times.append((time.perf_counter() - begin) * 1000)
    reader.close()
    a.close()
    b.close()
    times.sort()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    row("an event from hub A to a reader on hub B", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "<= 10 ms, <= 50 ms",
        p50 <= 10 and p99 <= 50)


def one_turn(hub):
    """The model lists the directory: one of the hub's own, so that nothing else on the machine counts."""
    work = hub.dir / "work"
    work.mkdir(exist_ok=True)
    made = hub.call("POST", "/session", {"working_dir": str(work), "env": {"AFLOAT_PROVIDER": "scripted"}})
    begin = time.perf_counter()
    hub.call("POST", f"/session/{made['id']}/message", {"text": "hello", "wait": True})
    return (time.perf_counter() - begin) * 1000


def turn(afloat, row, server):
    files, shared = Hub(afloat, None), Hub(afloat, server.database().url())
    times = {files: [], shared: []}
    for _ in range(TURNS):
        for hub in times:  # in turn: the machine is shared
            times[hub].append(one_turn(hub))
    f, s = statistics.median(times[files]), statistics.median(times[shared])
    files.close()
    shared.close()
    row("a turn with the store in PostgreSQL", f"{s:.1f} ms ({s / f:.2f} times files)", "<= 1.5 times", s <= 1.5 * f)


def measure(afloat, build, row):
    server = pg_rig.Server(fsync="on")
    try:
        append(build, row, server)
        trip(afloat, row, server)
        turn(afloat, row, server)
    finally:
        server.close()
