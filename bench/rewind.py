"""Going back: what keeping costs a command, and how fast files come back.

A turn with one command (`true`) in a clean repository of 50,000 files is compared with the same turn outside of
git: the first one takes a snapshot, the third finds that nothing was touched. Then a command changes 1,000 files
and the session is rewound; beside it stands `git checkout` of the same files, which makes as many files on the same
disk.
"""
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from turns import DISK, MEMORY, Work, ask, call

FILES, DIRS, CHANGED = 50_000, 500, 1_000


def make_repo(root):
    for d in range(DIRS):
        dir = pathlib.Path(root, f"d{d}")
        dir.mkdir()
        for f in range(FILES // DIRS):
            (dir / f"f{f}").write_text(f"{d} {f}\n")
    for args in (["init", "-q"], ["add", "-A"],
                 ["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", root, *args], check=True)


def shell(cmd):
    return [{"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": cmd}}]}, {"text": "done"}]


def session_of(link, work, dir):
    env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(work.scenario), "PATH": "/usr/bin:/bin"}
    return call(link, "/session", {"working_dir": dir, "env": env, "permission": "auto"})["id"]


def rewind(make_hub, row, rounds):
    repo, plain = (tempfile.mkdtemp(prefix="afloat-bench-", dir=DISK) for _ in range(2))
    make_repo(repo)
    first, third, base, back, peer = [], [], [], [], []
    try:
        with Work(DISK, shell("true") * 4) as quiet, make_hub(base=MEMORY) as hub:
            link = hub.link()
            for _ in range(rounds):
                times = [ask(link, s, 1) for s in [session_of(link, quiet, repo)] for _ in range(4)]
                first.append(times[0])
                third.append(min(times[2:]))
                base.append(min(ask(link, s, 1) for s in [session_of(link, quiet, plain)] for _ in range(4)))
            change = "for f in d[0-9]/f*; do echo x >> $f; done; ls -d d[0-9]/f* | wc -l"
            with Work(DISK, shell(change)) as busy:
                for _ in range(rounds):
                    session = session_of(link, busy, repo)
                    ask(link, session, 1)
                    link.request("GET", f"/session/{session}/checkpoints")  # until what the command did is kept
                    link.getresponse().read()
                    start = time.perf_counter()
                    done = call(link, f"/session/{session}/rewind", {})
                    back.append((time.perf_counter() - start) * 1000)
                    if len(done["restored"]) != CHANGED:
                        raise SystemExit(f"bench: {len(done['restored'])} files came back, not {CHANGED}")
                    subprocess.run(["sh", "-c", change], cwd=repo, check=True, stdout=subprocess.DEVNULL)
                    start = time.perf_counter()
                    subprocess.run(["git", "-C", repo, "checkout", "-q", "--", "."], check=True)
                    peer.append((time.perf_counter() - start) * 1000)
    finally:
        shutil.rmtree(repo)
        shutil.rmtree(plain)
    plain_ms = statistics.median(base)
    row("snapshot of a clean repository, 50,000 files", f"{statistics.median(first) - plain_ms:.1f} ms", "<= 150 ms",
        statistics.median(first) - plain_ms <= 150)
    row("the same when nothing was touched since", f"{statistics.median(third) - plain_ms:.1f} ms", "<= 3 ms",
        statistics.median(third) - plain_ms <= 3)
    row("rewind of 1,000 files", f"{statistics.median(back):.0f} ms, git {statistics.median(peer):.0f} ms", "<= 300 ms",
        statistics.median(back) <= 300)
