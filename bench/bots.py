"""Runs of bots, driven through the hub's socket, beside git itself in the same repository and the same round."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import turns

FILES, CROWD, SESSIONS, RUNS = 5000, 20, 10_000, 10_000
MEMORY, DISK = turns.MEMORY, turns.DISK
SYNC_MS, WORD_MS, WORDS = 100, 5, 200
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "AFLOAT"))}


class Repository:
    """FILES files in directories of a hundred, one commit."""

    def __init__(self, base=DISK):
        self.dir = tempfile.mkdtemp(prefix="afloat-bench-repo-", dir=base)
        self.root = pathlib.Path(self.dir, "repo")
        for i in range(FILES):
            path = self.root / f"d{i // 100}" / f"f{i}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"file {i}\n" * 40)
        for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Ann"],
                      ["config", "user.email", "ann@example.org"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
            self.git(*words)

    def git(self, *words):
        done = subprocess.run(["git", "-C", self.root, *words], env=PLAIN, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench: git {words[0]}: {done.stderr}")
        return done.stdout

    def scenario(self, *scenes):
        path = pathlib.Path(self.dir, f"scenario-{len(os.listdir(self.dir))}.jsonl")
        path.write_text("".join(json.dumps(s) + "\n" for s in scenes))
        return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "AFLOAT_PROVIDER": "scripted",
                "AFLOAT_SCENARIO": str(path)}

    def worktree_ms(self, i):
        dir = os.path.join(self.dir, f"peer-{i}")
        start = time.perf_counter()
        self.git("worktree", "add", "-q", "-b", f"peer-{i}", dir)
        took = (time.perf_counter() - start) * 1000
        self.git("worktree", "remove", "--force", dir)
        self.git("branch", "-q", "-D", f"peer-{i}")
        return took

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)


def call(hub, method, path, body=None):
    link = hub.link()
    link.request(method, path, json.dumps(body) if body is not None else None,
                 {"Content-Type": "application/json"} if body is not None else {})
    answer = link.getresponse()
    text = answer.read()
    link.close()
    if answer.status >= 300:
        raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:300]}")
    return json.loads(text)


def begin(hub, repo, env, bot="worker"):
    return call(hub, "POST", f"/bots/{bot}/runs", {"prompt": "go", "working_dir": str(repo.root), "env": env})


def wait_end(hub, run):
    """Its record at the end; asked for every 5 ms, which is no part of any figure."""
    while (row := call(hub, "GET", f"/runs/{run}"))["state"] != "ended":
        time.sleep(0.005)
    if row["end_reason"] != "complete":
        raise SystemExit(f"bench: a run went wrong: {json.dumps(row)[:500]}")
    return row


DONE = [{"text": "", "tool_calls": [{"name": "session_complete", "input": {"summary": "done", "action": "review"}}]},
        {"text": "Bye."}]
BOT = {"bots/worker/config.md": "+++\nsleep_secs = 0\n+++\nDo what is asked.\n"}
FREE = {"bots/worker/config.md": "+++\nsandbox = \"danger-full-access\"\n+++\nDo what is asked.\n"}


# ---- the start ----------------------------------------------------------------------------------

def start_ms(hub, repo, env):
    """From the request to its answer: the worktree is made, the first iteration has begun."""
    start = time.perf_counter()
    run = begin(hub, repo, env)["run_id"]
    took = (time.perf_counter() - start) * 1000
    wait_end(hub, run)
    call(hub, "POST", f"/runs/{run}/discard", {"delete_branch": True})
    return took


def run_start(make_hub, row, rounds):
    base = MEMORY if os.access(MEMORY, os.W_OK) else DISK  # on a disk both wait for what was written before
    with Repository(base) as repo, make_hub(base=base, files=FREE) as hub:  # no box lets anybody see that memory
        env = repo.scenario(*DONE)
        start_ms(hub, repo, env), repo.worktree_ms("warm")
        clean, peer = [], []
        for i in range(rounds):
            peer.append(repo.worktree_ms(i))
            clean.append(start_ms(hub, repo, env))
        for i in range(0, FILES, 500):
            (repo.root / f"d{i // 100}" / f"f{i}.txt").write_text("changed\n")
        dirty = [start_ms(hub, repo, env) for _ in range(rounds)]
    ours, theirs = statistics.median(clean), statistics.median(peer)
    print(f"    git worktree add {' '.join(f'{m:.0f}' for m in peer)} ms; "
          f"run {' '.join(f'{m:.0f}' for m in clean)} ms; with 10 changed files {statistics.median(dirty):.0f} ms")
    row(f"start of a run in {FILES:,} files, git worktree add = 1", f"{ours:.0f} ms, {ours / theirs:.2f}x", "<= 1.3x",
        ours <= 1.3 * theirs)


# ---- many at once -------------------------------------------------------------------------------

def crowd(make_hub, row):
    """The same bot CROWD times: branches and numbers must all be distinct."""
    with Repository() as repo, make_hub(base=DISK, files=BOT) as hub:
        shell = {"name": "shell", "input": {"cmd": "echo bot > bot.txt"}}
        env = repo.scenario({"text": "", "tool_calls": [shell]}, *DONE)
        turns.forget_peak(hub.pid)
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
            ids = [r["run_id"] for r in pool.map(lambda _: begin(hub, repo, env), range(CROWD))]
        begun = time.perf_counter() - start
        rows = [wait_end(hub, i) for i in ids]
        took = time.perf_counter() - start
        mb = turns.status_mb(hub.pid, "VmHWM")
        branches = set(repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads/afloat/").split())
    numbers = {i["number"] for r in rows for i in r["iterations"]}
    good = branches == {r["branch"] for r in rows} and len(branches) == len(numbers) == CROWD
    print(f"    all had begun after {begun:.2f} s; peak of the hub {mb:.1f} MB")
    row(f"{CROWD} runs at once in {FILES:,} files, from start to end", f"{took:.2f} s", "distinct branches, numbers",
        good)


# ---- a long history -----------------------------------------------------------------------------

def openbot(dir):
    """SESSIONS sessions in the old form, one file each."""
    history = pathlib.Path(dir, "bots/old/workspaces/repo/history")
    history.mkdir(parents=True)
    pathlib.Path(dir, "bots/old/config.md").write_text("Do what is asked.\n")
    for n in range(1, SESSIONS + 1):
        (history / f"t-s{n}.json").write_text(json.dumps({
            "session_id": f"t-s{n}", "session_number": n, "started_at": "2026-01-02T03:04:05Z", "duration_secs": 1,
            "model": "m", "prompt_summary": "do it", "response_summary": f"did {n}", "action": None, "command_count": 0,
            "tokens": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}))


def list_all(link):
    """Every page of the history, as large as they may be: ms from the first request to the last byte, and the pages."""
    start, cursor, pages = time.perf_counter(), "", []
    while True:
        link.request("GET", f"/bots/old/history?project=repo&limit=1000{cursor}")
        pages.append(link.getresponse().read())
        more = re.search(rb'"next":"([^"]+)"\}\s*$', pages[-1])
        if not more:
            return (time.perf_counter() - start) * 1000, pages
        cursor = f"&cursor={more.group(1).decode()}"


def long_history(make_hub, row, rounds):
    dir = tempfile.mkdtemp(prefix="afloat-bench-openbot-", dir=DISK)
    try:
        openbot(dir)
        base = MEMORY if os.access(MEMORY, os.W_OK) else DISK  # each import is synced
        with make_hub(base=base) as hub:
            start = time.perf_counter()
            call(hub, "POST", "/bots/import", {"path": dir})
            brought = time.perf_counter() - start
            link = hub.link()
            list_all(link)
            took, pages = zip(*(list_all(link) for _ in range(rounds)))
    finally:
        shutil.rmtree(dir, ignore_errors=True)
    seen = sum(len(json.loads(p)["sessions"]) for p in pages[-1])
    if seen != SESSIONS:
        raise SystemExit(f"bench: the history tells {seen} of {SESSIONS} sessions")
    print(f"    imported in {brought:.1f} s; {len(pages[-1])} pages, {sum(map(len, pages[-1])) / 1e6:.1f} MB; "
          f"the quickest round {min(took):.0f} ms")
    row(f"listing {SESSIONS:,} sessions of a bot, all pages", f"{statistics.median(took):.0f} ms", "<= 50 ms",
        statistics.median(took) <= 50)


# ---- many runs ----------------------------------------------------------------------------------

def records():
    """RUNS records of ended runs, of five bots in one repository."""
    files = {}
    for n in range(RUNS):
        bot, run = f"worker{n % 5}", f"{n * 2654435761 % 2**32:08x}"
        time = f"2026-01-{n // 1000 + 1:02}T{n // 60 % 24:02}:{n % 60:02}:00.000Z"
        files[f"bots/{bot}/workspaces/repo/runs/{run}.json"] = json.dumps({
            "run_id": run, "bot": bot, "project": "repo", "end_reason": "complete", "action": "review",
            "summary": f"did {n}: " + "what was asked for " * 10, "branch": f"afloat/{bot}-{run}",
            "worktree": f"/home/ann/.afloat/worktrees/repo/{bot}-{run}", "repository": "/home/ann/repo",
            "common": "/home/ann/repo/.git", "root": "/home/ann/repo", "working_dir": "/home/ann/repo", "base_branch": "main",
            "base": "a" * 40, "start": "a" * 40, "head": "b" * 40, "prompt": "do it " * 20, "state": "ended",
            "started_at": time, "ended_at": time, "commits": 1, "files": 2, "notes": [], "not_kept": [], "link": [],
            "options": {"working_dir": "/home/ann/repo"},
            "iterations": [{"number": 1, "session_id": "0123456789ab", "end_reason": "complete", "summary": "did it"}]})
    return files


def save_old(hub, files):
    """Save files with times of long ago, as those of a history are."""
    for path, text in files.items():
        hub.save(path, text)
        os.utime(os.path.join(hub.home, path), (1_000_000, 1_000_000))
    for dir in {os.path.dirname(path) for path in files}:
        os.utime(os.path.join(hub.home, dir), (1_000_000, 1_000_000))


def page_ms(link, path):
    start = time.perf_counter()
    link.request("GET", path)
    text = link.getresponse().read()
    return (time.perf_counter() - start) * 1000, json.loads(text)


def many_runs(make_hub, row, rounds):
    with make_hub(base=DISK) as hub:
        save_old(hub, records())
        link = hub.link()
        first, _ = page_ms(link, "/runs")
        warm = [page_ms(link, "/runs")[0] for _ in range(rounds)]
        took, seen, cursor = 0, 0, ""
        while cursor is not None:
            ms, page = page_ms(link, f"/runs?limit=1000{cursor}")
            took, seen = took + ms, seen + len(page["runs"])
            cursor = f"&cursor={page['next']}" if page["next"] else None
        mb = turns.status_mb(hub.pid, "VmRSS")
    if seen != RUNS:
        raise SystemExit(f"bench: the list tells {seen} of {RUNS} runs")
    print(f"    the first page {first:.1f} ms; all in pages of 1,000 {took:.0f} ms; hub {mb:.1f} MB")
    worst = max(first, *warm)
    row(f"a page of {RUNS:,} runs, the first and the slowest", f"{first:.1f}, {max(warm):.1f} ms", "<= 50 ms", worst <= 50)


# ---- a slow disk --------------------------------------------------------------------------------

def longest_gap(make_hub, preload):
    """The longest time between two words of one answer on the stream of a run; `preload` makes syncs slow. The call
    behind it does wait for a sync: a tool begins when its call is on the disk."""
    if preload:
        os.environ["LD_PRELOAD"] = preload
    try:
        with Repository() as repo, make_hub(base=DISK, files=BOT) as hub:
            env = repo.scenario({**DONE[0], "text": "word " * WORDS, "delta_ms": WORD_MS}, DONE[1])
            link = socket.socket(socket.AF_UNIX)
            link.connect(hub.socket)
            link.sendall(b"GET /events?types=message.delta,turn.completed HTTP/1.1\r\nHost: x\r\n"
                         b"Accept: text/event-stream\r\n\r\n")
            run = begin(hub, repo, env)["run_id"]
            times, tail = [], b""
            while b"event: turn.completed" not in tail:
                got = link.recv(65536)
                if not got:
                    raise SystemExit("bench: the stream ended early")
                tail = (tail + got)[-4000:]
                times += [time.perf_counter()] if b"word" in got else []
            wait_end(hub, run)
            link.close()
    finally:
        os.environ.pop("LD_PRELOAD", None)
    return max(b - a for a, b in zip(times, times[1:])) * 1000


def slow_sync(make_hub, row, rounds, build):
    shim = build / "bench" / "libslow_sync.so"
    what = f"longest gap between words while each sync takes {SYNC_MS} ms"
    if not shim.exists():
        return row(what, "not measured (no shim)", f"< {SYNC_MS} ms", None)
    usual = statistics.median(longest_gap(make_hub, None) for _ in range(rounds))
    slow = statistics.median(longest_gap(make_hub, str(shim)) for _ in range(rounds))
    print(f"    words come every {WORD_MS} ms; with the disk as it is {usual:.0f} ms")
    row(what, f"{slow:.0f} ms", f"< {SYNC_MS} ms", slow < SYNC_MS)
