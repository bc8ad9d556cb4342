"""Turns of an agent's session, driven through the hub's socket as any client drives them.

What a turn costs us is measured with the home in memory, where a sync costs nothing; beside it stands the
same turn with the home on a disk. The model is the scripted one, except where its words alone would fill the
memory that is measured: there a small server speaks the Responses protocol.
"""
import http.server
import json
import os
import pathlib
import selectors
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time

SESSIONS, TURNS = 20, 10   # of the rows of one turn: a conversation that grows a little
CROWD, WORDS = 100, 51     # 51 words 20 ms apart: a second
PIECE, PIECES = 1000, 100_000
MARKS, MARK_S = 500, 0.02  # of the rows of many readers: ten seconds
MEMORY, DISK = "/dev/shm", "/var/tmp"


def status_mb(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split(field + ":")[1].split()[0]) / 1024


def forget_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def call(link, path, body):
    link.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"bench: POST {path}: {answer.status} {text[:300]}")
    return json.loads(text)


class Work:
    """A directory with a scenario, in which sessions work."""

    def __init__(self, base, scenes=()):
        self.dir = tempfile.mkdtemp(prefix="afloat-bench-work-", dir=base)
        self.scenario = pathlib.Path(self.dir, "scenario.jsonl")
        self.scenario.write_text("".join(json.dumps(s) + "\n" for s in scenes))

    def session(self, link, **env):
        env = env or {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(self.scenario)}
        made = call(link, "/session", {"working_dir": self.dir, "env": {"PATH": os.environ["PATH"], **env}})
        return made["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)


def ask(link, session, tools=0):
    """One turn from request to answer, in ms."""
    start = time.perf_counter()
    done = call(link, f"/session/{session}/message", {"text": "go", "wait": True})
    took = (time.perf_counter() - start) * 1000
    worked = [c for c in done["tool_calls"] if c["success"]]
    if done["state"] != "completed" or len(worked) != tools:
        raise SystemExit(f"bench: a turn went wrong: {json.dumps(done)[:500]}")
    return took


def turn_ms(make_hub, base, scenes):
    """The median turn and the first decile, with the hub's home below `base`; a turn takes all scenes, the last calls nothing."""
    took = []
    with Work(DISK, scenes * TURNS) as work, make_hub(base=base) as hub:
        link = hub.link()
        for _ in range(SESSIONS):
            session = work.session(link)
            took += [ask(link, session, len(scenes) - 1) for _ in range(TURNS)]
    took.sort()
    return took[len(took) // 2], took[len(took) // 10]


def sync_ms():
    """One append and its sync on the disk, with nothing else: what a turn waits for several times."""
    took = []
    with tempfile.NamedTemporaryFile(dir=DISK) as file:
        for _ in range(200):
            start = time.perf_counter()
            os.write(file.fileno(), b"x" * 200)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - start) * 1000)
    return statistics.median(took)


def one_turn(make_hub, row, what, scenes, budget):
    if not os.access(MEMORY, os.W_OK):
        return row(what, f"not measured (no {MEMORY})", f"<= {budget} ms", None)
    (own, quick), (whole, _) = turn_ms(make_hub, MEMORY, scenes), turn_ms(make_hub, DISK, scenes)
    print(f"    a tenth of them took at most {quick:.2f} ms; with the home on a disk {whole:.2f} ms, one sync of "
          f"which takes {sync_ms():.2f} ms")
    row(what, f"{own:.2f} ms", f"<= {budget} ms and syncs", own <= budget)


def turn(make_hub, row):
    one_turn(make_hub, row, "turn without a tool, instant model", [{"text": "Hello there."}], 2)


def turn_shell(make_hub, row):
    scenes = [{"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "true"}}]}, {"text": "Done."}]
    one_turn(make_hub, row, "turn with one sandboxed shell call", scenes, 10)


# ---- many at once ---------------------------------------------------------------------------

def send_streaming(hub, session, text="go"):
    link = socket.socket(socket.AF_UNIX)
    link.connect(hub.socket)
    body = json.dumps({"text": text}).encode()
    link.sendall(f"POST /session/{session}/message HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                 f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return link


def read_streams(links):
    """Read all until each has told the end of its turn; the number of words that came."""
    ready, words, tails = selectors.DefaultSelector(), 0, dict.fromkeys(links, b"")
    for link in links:
        ready.register(link, selectors.EVENT_READ)
    while tails:
        events = ready.select(20)
        if not events:
            raise SystemExit(f"bench: {len(tails)} streams tell nothing any more")
        for key, _ in events:
            link = key.fileobj
            text = link.recv(65536)
            seen = tails[link] + text
            words += seen.count(b"event: message.delta") - tails[link].count(b"event: message.delta")
            tails[link] = seen[-200:]
            if b"event: turn.completed" in seen:
                ready.unregister(link)
                del tails[link]
            elif not text:
                raise SystemExit(f"bench: a stream ended early: {seen[-300:]}")
    return words


def crowd(make_hub):
    """(seconds, peak MB, words told) of CROWD turns that begin together."""
    scene = {"text": "word " * WORDS, "delta_ms": 20}
    with Work(DISK, [{"text": "warm"}, scene]) as work, make_hub() as hub:
        link = hub.link()
        sessions = [work.session(link) for _ in range(CROWD)]
        for session in sessions:
            ask(link, session)
        forget_peak(hub.pid)
        start = time.perf_counter()
        links = [send_streaming(hub, s) for s in sessions]
        words = read_streams(links)
        took = time.perf_counter() - start
        for link in links:
            link.close()
        return took, status_mb(hub.pid, "VmHWM"), words


def turns_100(make_hub, row, rounds):
    got = [crowd(make_hub) for _ in range(rounds)]
    took, mb = statistics.median(g[0] for g in got), max(g[1] for g in got)
    print(f"    seconds of each round: {' '.join(f'{g[0]:.2f}' for g in got)}; "
          f"pieces told: {' '.join(str(g[2]) for g in got)}")
    row(f"{CROWD} streaming turns of 1 s at once: time, memory", f"{took:.2f} s, {mb:.1f} MB",
        "<= 1.3 s, <= 40 MB", took <= 1.3 and mb <= 40)


# ---- much of it -----------------------------------------------------------------------------

class Talker(http.server.BaseHTTPRequestHandler):
    """Speaks the Responses protocol: what say_pieces() says where the last message is "much", else one piece."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.say("response.created", response={"id": "r"})
        message = {"type": "message", "role": "assistant", "id": "m", "content": []}
        self.say("response.output_item.added", output_index=0, item=message)
        if b'"much"' in asked:
            pieces = self.say_pieces()
        else:
            pieces = self.say("response.output_text.delta", output_index=0, delta="x ") or 1
        self.say("response.output_item.done", output_index=0, item=message)
        self.say("response.completed", response={"id": "r", "status": "completed", "usage": {
            "input_tokens": 1, "output_tokens": pieces, "total_tokens": 1 + pieces}})
        self.close_connection = True

    def say_pieces(self):
        piece = self.frame("response.output_text.delta", output_index=0, delta="x" * (PIECE - 1) + " ")
        for _ in range(PIECES // 100):
            self.wfile.write(piece * 100)
        return PIECES

    def frame(self, type, **fields):
        return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()

    def say(self, type, **fields):
        self.wfile.write(self.frame(type, **fields))

    def log_message(self, *_):
        pass


class Marker(Talker):
    """Says MARKS marks of sse_load, MARK_S apart."""

    def say_pieces(self):
        start = time.monotonic()
        for n in range(MARKS):
            time.sleep(max(0, start + n * MARK_S - time.monotonic()))
            self.say("response.output_text.delta", output_index=0, delta=f"#{n}@{time.monotonic_ns() // 1000}#")
        return MARKS


class Server:
    def __init__(self, model=Talker):
        self.model = model

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.model)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __exit__(self, *_):
        self.server.shutdown()


TALKER = {"AFLOAT_PROVIDER": "talker", "TALKER_KEY": "x"}


def config_of(url):
    return f'[providers.talker]\nkind = "openai-responses"\nbase_url = "{url}"\nmodel = "m"\n' \
           'api_key_env = "TALKER_KEY"\n'


def grows(hub, what, row, work):
    """Peak memory of the hub while `work` runs a turn, over what it had before."""
    forget_peak(hub.pid)
    before = status_mb(hub.pid, "VmRSS")
    start = time.perf_counter()
    work()
    took = time.perf_counter() - start
    peak, after = status_mb(hub.pid, "VmHWM"), status_mb(hub.pid, "VmRSS")
    print(f"    {took:.1f} s; memory {before:.1f} MB before, {peak:.1f} at its peak, {after:.1f} after")
    row(what, f"+{peak - before:.1f} MB", "<= 8 MB", peak - before <= 8)


def check_size(hub, session, pattern):
    """All of it was kept, or the row means nothing."""
    files = pathlib.Path(hub.home, "sessions", session).glob(pattern)
    largest = max((f.stat().st_size for f in files), default=0)
    if largest < PIECE * PIECES:
        raise SystemExit(f"bench: {pattern} holds {largest} bytes of {PIECE * PIECES}")


def say_much(hub, session):
    link = send_streaming(hub, session, "much")
    read_streams([link])
    link.close()


def turn_100mb(make_hub, row):
    with Server() as url, Work(DISK) as work:
        with make_hub(base=DISK, files={"config.toml": config_of(url)}) as hub:
            link = hub.link()
            session = work.session(link, **TALKER)
            ask(link, session)
            grows(hub, "100 MB of streamed text, memory of the hub", row, lambda: say_much(hub, session))
            check_size(hub, session, "events.jsonl")
    shell = {"cmd": "yes 'a line of output that is as long as lines of output often are' | head -c 104857600"}
    scenes = [{"text": "warm"}, {"text": "", "tool_calls": [{"name": "shell", "input": shell}]}, {"text": "Done."}]
    with Work(DISK, scenes) as work, make_hub(base=DISK) as hub:
        link = hub.link()
        session = work.session(link)
        ask(link, session)
        grows(hub, "100 MB of a tool's output, memory of the hub", row, lambda: ask(link, session, 1))
        check_size(hub, session, "outputs/*")


# ---- many readers of one session --------------------------------------------------------------

def session_readers(make_hub, row, load):
    """A session's readers: how late its deltas come, and what the hub's CPU does for them."""
    for readers in (1, 100, 1000):
        with Server(Marker) as url, Work(DISK) as work:
            with make_hub(base=DISK, files={"config.toml": config_of(url)}) as hub:
                session = work.session(hub.link(), **TALKER)
                ask(hub.link(), session)
                got = load(hub, readers, MARKS, 0, 1, session)
        row(f"{readers:,} readers of one session, {MARKS} deltas at {1 / MARK_S:.0f}/s",
            f"p50 {got['p50_ms']:.1f} p99 {got['p99_ms']:.1f} ms, CPU {got['hub_cpu_s'] / got['wall_s']:.0%}",
            "p99 <= 50 ms, 0 lost", got["p99_ms"] <= 50 and got["lost"] == 0)


# ---- the peer -------------------------------------------------------------------------------

def command_ms(command, rounds, **how):
    took = []
    for _ in range(rounds + 1):  # the first finds nothing in any cache
        start = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, **how)
        took.append((time.perf_counter() - start) * 1000)
        if done.returncode != 0:
            raise SystemExit(f"bench: {command[0]}: {done.stderr[-500:]}")
    return statistics.median(took[1:])


def codex_ms(url, dir, rounds):
    provider = f'model_providers.talker={{name="talker",base_url="{url}",wire_api="responses",env_key="TALKER_KEY"}}'
    command = ["codex", "exec", "--skip-git-repo-check", "-c", provider, "-c", 'model_provider="talker"',
               "-c", 'model="m"', "go"]
    return command_ms(command, rounds, cwd=dir, env={**os.environ, **TALKER, "CODEX_HOME": dir})


def one_shot(make_hub, afloat, row, rounds):
    """One question from the command line, the hub running: `afloat chat` and `codex exec` ask the same server."""
    with Server() as url, Work(DISK) as work, make_hub(base=DISK, files={"config.toml": config_of(url)}) as hub:
        env = {**os.environ, **TALKER, "AFLOAT_HOME": hub.home}
        ours = command_ms([str(afloat), "chat", "go"], rounds, cwd=work.dir, env=env)
        theirs = codex_ms(url, work.dir, rounds) if shutil.which("codex") else None
    beside = f"codex exec {theirs:.0f} ms" if theirs else "codex not measured"
    row("afloat chat, one question from the command line", f"{ours:.1f} ms, {beside}", "<= codex exec",
        ours <= theirs if theirs else None)
