"""What the tests of bots share: a real repository, a bot with a scenario, its run and what that left.

Everything is looked at from outside: over the socket, in the files of CONTRACT 1, and with git.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import stat
import subprocess

import pytest

from conftest import BIN, retry

GIT_ENV = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


# ---- a repository -------------------------------------------------------------------------------

class Repo:
    """A repository with git's own means to look into it."""

    def __init__(self, root, files=None):
        self.root = pathlib.Path(root)
        if not (self.root / ".git").exists():
            self.root.mkdir(parents=True, exist_ok=True)
            self.git("init", "-q", "-b", "main")
            self.git("config", "user.name", "Ann")
            self.git("config", "user.email", "ann@example.org")
        for path, text in (files or {}).items():
            self.save(path, text)
        if files:
            self.commit("first")

    @classmethod
    def at_path(cls, root):
        """Whatever lies there; nothing is made."""
        repo = cls.__new__(cls)
        repo.root = pathlib.Path(root)
        return repo

    def git(self, *args, ok=True, raw=False):
        done = subprocess.run(["git", "-C", self.root, "-c", "protocol.file.allow=always", *args], capture_output=True,
                              env={**os.environ, **GIT_ENV}, stdin=subprocess.DEVNULL)
        assert not ok or done.returncode == 0, (args, done.stderr)
        return done.stdout if raw else done.stdout.decode(errors="surrogateescape").strip()

    def save(self, path, text="", mode=None):
        """Write a file; its name may be bytes."""
        full = os.path.join(os.fsencode(self.root), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        if mode:
            os.chmod(full, mode)

    def commit(self, message="work"):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head()

    def head(self, name="HEAD"):
        return self.git("rev-parse", "--verify", name)

    def has(self, name):
        return subprocess.run(["git", "-C", self.root, "rev-parse", "-q", "--verify", name],
                              capture_output=True).returncode == 0

    def show(self, commit, path):
        return self.git("show", f"{commit}:{path}", raw=True).decode()

    def at(self, commit):
        """The files of a commit: {path: (mode, bytes)}, links to other repositories left out."""
        found = {}
        for row in self.git("ls-tree", "-r", "-z", commit, raw=True).split(b"\0")[:-1]:
            what, path = row.split(b"\t", 1)
            mode, kind, object = what.decode().split()
            if kind == "blob":
                found[path] = (mode, self.git("cat-file", "blob", object, raw=True))
        return found

    def files(self):
        """The files that lie here and are not ignored, as at() tells them."""
        found = {}
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", raw=True)
        for path in set(listed.split(b"\0")[:-1]):
            full = os.path.join(os.fsencode(self.root), path)
            if os.path.islink(full):
                found[path] = ("120000", os.readlink(full))
            elif os.path.isfile(full):
                mode = "100755" if os.stat(full).st_mode & 0o100 else "100644"
                found[path] = (mode, open(full, "rb").read())
        return found

    def state(self):
        """All that is the user's: every file with inode, mode, time and bytes; index, HEAD, settings, refs and logs
        but those of bots."""
        root = os.fsencode(self.root)
        files = {}
        for dir, dirs, names in os.walk(root):
            if dir == root and b".git" in dirs:
                dirs.remove(b".git")
            for name in names + dirs:
                path = os.path.join(dir, name)
                s = os.lstat(path)
                if stat.S_ISDIR(s.st_mode):
                    files[path] = oct(s.st_mode)
                    continue
                held = os.readlink(path) if stat.S_ISLNK(s.st_mode) else open(path, "rb").read()
                files[path] = (oct(s.st_mode), s.st_ino, s.st_mtime_ns, held)
        kept = {}
        for which in ("--absolute-git-dir", "--git-common-dir"):
            dir = self.root / self.git("rev-parse", which)
            for name in ("index", "HEAD", "config", "packed-refs", "logs/HEAD", "ORIG_HEAD", "MERGE_HEAD"):
                path = dir / name
                kept[which, name] = path.read_bytes() if path.exists() else None
            kept[which, "hooks"] = sorted(os.listdir(dir / "hooks")) if (dir / "hooks").exists() else None
        refs = [r for r in self.git("for-each-ref").splitlines() if "refs/heads/afloat/" not in r]
        return files, kept, refs

    def worktrees(self):
        """Paths that git has registered, without the main one."""
        rows = self.git("worktree", "list", "--porcelain", "-z", raw=True).split(b"\0")
        return [os.fsdecode(r[9:]) for r in rows if r.startswith(b"worktree ")][1:]

    def branches(self):
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/afloat/").split()


def check_same(before, after):
    """Fails with what is different, not with everything."""
    for a, b in zip(before, after):
        if isinstance(a, dict):
            other = {k: (a.get(k), b.get(k)) for k in {*a, *b} if a.get(k) != b.get(k)}
            assert not other, other
        else:
            assert a == b


# ---- scenes -------------------------------------------------------------------------------------

def use(_tool, _text="", **input):
    return {"text": _text, "tool_calls": [{"name": _tool, "input": input}]}


def shell(cmd, text=""):
    return use("shell", text, cmd=cmd)


def say(text):
    return {"text": text}


def complete(summary="all done", action="review", text=""):
    return use("session_complete", text, summary=summary, action=action)


def gate(name="go"):
    """A tool call that goes on when the test opens the pipe of that name in the worktree; see Run.open_gate()."""
    return shell(f"mkfifo {name} && touch at-{name} && cat {name} && rm {name} at-{name}")


DONE = [complete(), say("Bye.")]


# ---- over the socket ----------------------------------------------------------------------------

def call(home, method, path, body=None, status=200):
    raw = json.dumps(body).encode() if body is not None else b""
    answer = home.http(method, path, raw)
    assert answer.status == status, (method, path, answer.status, answer.body)
    return answer.json() if answer.body else None


class Run:
    """A run, by its id."""

    def __init__(self, rig, id):
        self.rig, self.home, self.id = rig, rig.home, id

    def call(self, method, path="", body=None, status=200):
        return call(self.home, method, f"/runs/{self.id}{path}", body, status)

    def row(self):
        return self.call("GET")

    def wait(self):
        """Its record, when it has ended."""
        return retry(lambda: (r := self.row())["state"] == "ended" and r)

    def wait_session(self, n):
        """The id of its n-th session (from 1), when that has begun."""
        return retry(lambda: len(i := self.row()["iterations"]) >= n and i[n - 1]["session_id"])

    def dir(self, n):
        """The files of its n-th session (from 1), when that has begun."""
        self.wait_session(n)
        row = self.row()
        return (self.home.dir / "bots" / row["bot"] / "workspaces" / row["project"] / "history" /
                row["iterations"][n - 1]["session_id"])

    def metadata(self, n=1):
        return json.loads((self.dir(n) / "metadata.json").read_text())

    def events(self, n=1, *types):
        path = self.dir(n) / "events.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # the last line may be just being written
        found = [json.loads(x) for x in whole.splitlines()]
        assert [e["seq"] for e in found] == list(range(1, len(found) + 1))
        return [e for e in found if not types or e["type"] in types]

    def requests(self, n=1):
        return [json.loads(x)["body"] for x in (self.dir(n) / "requests.jsonl").read_text().splitlines()]

    def prompt(self, n=1):
        """What the n-th iteration was told at its beginning."""
        return [m for m in self.requests(n)[0]["messages"] if m["role"] == "user"][-1]["content"]

    def results(self, n=1):
        """What the tools of the n-th iteration answered."""
        return [(e["tool"], e["success"], e["output"], e["error"]) for e in self.events(n, "tool.completed")]

    def changed(self):
        """The paths that `runs diff` names."""
        return sorted(f["path"] for f in self.call("GET", "/diff")["files"])

    def worktree(self):
        return pathlib.Path(self.row()["worktree"])

    def at_gate(self, name="go"):
        """Wait until the scenario stands at gate(name); returns the worktree."""
        dir = self.worktree()
        retry(lambda: (dir / f"at-{name}").exists())
        return dir

    def open_gate(self, name="go"):
        with open(self.at_gate(name) / name, "w"):
            pass


class Rig:
    """A home with bots, and one repository that they work on."""

    def __init__(self, home, repo, scratch=None):
        self.home, self.repo = home, repo
        self.scratch = scratch or repo.root.parent

    def bot(self, name="worker", keys="sleep_secs = 0\n", instructions="Do what is asked.\n"):
        dir = self.home.dir / "bots" / name
        dir.mkdir(parents=True, exist_ok=True)
        (dir / "config.md").write_text(f"+++\n{keys}+++\n{instructions}")
        return name

    def scenario(self, scenes):
        path = self.scratch / f"scenario-{random.random()}.jsonl"
        path.write_text("".join(json.dumps(x) + "\n" for x in scenes))
        return str(path)

    def env(self, scenes):
        """The client's environment, for the scripted model."""
        return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "AFLOAT_PROVIDER": "scripted",
                "AFLOAT_SCENARIO": self.scenario(scenes)}

    def start(self, scenes, bot="worker", prompt="go", status=201, **params):
        if not (self.home.dir / "bots" / bot).exists():
            self.bot(bot)
        body = {"working_dir": str(self.repo.root), "env": self.env(scenes), **params}
        if prompt is not None:
            body["prompt"] = prompt
        made = call(self.home, "POST", f"/bots/{bot}/runs", body, status)
        return Run(self, made["run_id"]) if status == 201 else made

    def start_all(self, many):
        """Runs that begin at the same time: `many` holds the parameters of start() for each."""
        with concurrent.futures.ThreadPoolExecutor(len(many)) as pool:
            return [f.result() for f in [pool.submit(self.start, **m) for m in many]]

    def run(self, scenes, **more):
        """A run from start to end."""
        run = self.start(scenes, **more)
        run.wait()
        return run

    def only(self):
        """The one run there is, when there is one."""
        rows = retry(lambda: call(self.home, "GET", "/runs")["runs"])
        assert len(rows) == 1, rows
        return Run(self, rows[0]["run_id"])

    def popen(self, scenes, *args, bot="worker", **more):
        """`afloat run` in the repository, with the scenario."""
        if not (self.home.dir / "bots" / bot).exists():
            self.bot(bot)
        more.setdefault("cwd", self.repo.root)
        return self.home.popen("run", bot, *args, env=self.env(scenes), **more)

    def check_clean(self):
        """Nothing is registered, no directory is left, and git finds the repository whole."""
        assert self.repo.worktrees() == []
        left = self.home.dir / "worktrees"
        assert [str(p) for p in left.glob("*/*")] == []
        assert [str(p) for p in (self.home.dir / "quarantine").glob("*/*")] == []
        assert self.repo.git("fsck", "--full", "--strict", "--no-dangling") == ""


def with_afloat(home, tmp_path):
    """An environment in which the command `afloat` is ours, for lines that are pasted."""
    dir = tmp_path / "bin"
    dir.mkdir(exist_ok=True)
    if not (dir / "afloat").exists():
        (dir / "afloat").symlink_to(BIN)
    return {**home.env, "PATH": f"{dir}:{os.environ['PATH']}"}


def paste(home, line, tmp_path, cwd, env=None):
    """Type a line that was printed into a shell."""
    return subprocess.run(["sh", "-c", line], env={**(env or {}), **with_afloat(home, tmp_path)}, cwd=cwd, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


def printed(text, word):
    """The command that a line `WORD: COMMAND` names."""
    found = re.findall(rf"^{word}: (.+)$", text, re.M)
    assert len(found) == 1, text
    return found[0]


# ---- fixtures -----------------------------------------------------------------------------------

FILES = {"a.txt": "a\n", "b.txt": "b\n", "src/main.c": "int main(void) { return 0; }\n",
         ".gitignore": "*.log\ncache/\n"}


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "repo", FILES)


@pytest.fixture
def rig(home, hub, repo):
    return Rig(home, repo)


@pytest.fixture
def cold(home, repo):
    """A rig whose hub the test starts itself, with Hub(home)."""
    return Rig(home, repo)
