"""Homes whose files are damaged: the hub lives, says what it cannot read, answers with JSON only, throws
nothing of the user's away, and `fsck --repair` mends what there is to mend.

A few rounds of random damage in `make test`, a thousand in `make soak` (AFLOAT_LOOPS)."""
import json
import os
import random
import re
import shutil
import subprocess

import pytest

from bots import DONE, FILES, Repo, Rig, gate, say, shell, use
from conftest import LOOPS, REPORT, Home, Hub, draw_seed
from test_agent import Session, call

ROUNDS = 50 * LOOPS


def journal_of(home, session):
    return home.dir / "sessions" / session.id / "events.jsonl"


def metadata_of(home, session):
    return home.dir / "sessions" / session.id / "metadata.json"


# ---- one file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", '{"id":', "null", "[]", '{"working_dir": 5}', None])
def test_a_session_with_damaged_metadata_is_listed_as_damaged_and_mended(home, start_hub, tmp_path, text):
    hub = start_hub()
    session, other = Session(home, tmp_path / "a", title="mine"), Session(home, tmp_path / "b")
    session.ask()
    hub.close()
    path = metadata_of(home, session)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    hub = start_hub()
    rows = {r["id"]: r for r in call(home, "GET", "/session")["sessions"]}
    assert "metadata.json" in rows[session.id]["damaged"] and "damaged" not in rows[other.id]
    assert "damaged" in session.call("GET")
    assert session.events("turn.completed")
    for method, where, body in [("POST", "/message", {"text": "x"}), ("PATCH", "", {"title": "t"}),
                                ("POST", "/fork", {}), ("DELETE", "", None), ("POST", "/compact", {})]:
        no = session.call(method, where, body, 409)
        assert "fsck --repair" in no["hint"]
    assert (path.read_text() if path.exists() else None) == text  # what is left of it is not written over
    other.ask()
    hub.close()
    home.ok("fsck", "--repair")
    assert text is None or [p for p in path.parent.iterdir() if p.name.startswith("metadata.json.damaged-")]
    start_hub()
    row = session.call("GET")
    assert "damaged" not in row and row["working_dir"] == str(tmp_path / "a") and row["title"] == "mine"
    assert session.ask()["state"] == "completed"


@pytest.mark.parametrize("text", ["", '{"tools.', "[]"])
@pytest.mark.parametrize("name", ["choices.json", "state/hub.json"])
def test_what_the_user_decided_is_not_given_up_silently(home, start_hub, name, text):
    """A start without these documents would run what the user switched off or took back, so there is none; the error
    names the file and the command that sets it aside."""
    hub = start_hub()
    call(home, "POST", "/tool/read_file/disable")
    hub.close()
    (home.dir / name).write_text(text)
    started = home.cli("start")
    assert started.returncode == 5, started.stderr
    assert name.split("/")[-1] in started.stderr and "fsck --repair" in started.stderr, started.stderr
    assert (home.dir / name).read_text() == text
    home.ok("fsck", "--repair")
    assert [p.read_text() for p in (home.dir / name).parent.glob(f"{name.split('/')[-1]}.damaged-*")] == [text]
    start_hub()


def test_a_damaged_session_can_be_purged(home, start_hub, tmp_path):
    hub = start_hub()
    session = Session(home, tmp_path / "a")
    hub.close()
    metadata_of(home, session).write_text("")
    start_hub()
    session.call("DELETE", "?purge=true")
    session.call("GET", status=404)


def test_a_flipped_bit_of_a_journal_is_told_and_the_session_goes_on(home, start_hub, tmp_path):
    hub = start_hub()
    session = Session(home, tmp_path / "a")
    session.ask("one")
    session.ask("two")
    before = session.events()
    hub.close()
    path = journal_of(home, session)
    data = bytearray(path.read_bytes())
    data[data.index(b'"two"') + 2] ^= 1
    with open(path, "r+b") as f:
        f.write(data)
    hub = start_hub()
    after = session.events()
    changed = [(a, b) for a, b in zip(before, after) if a != b]
    assert len(after) == len(before) and len(changed) == 1
    lost = changed[0][1]
    assert lost["type"] == "journal.repaired" and lost["lost"] is True and lost["seq"] == changed[0][0]["seq"]
    assert "damaged at line" in home.log.read_text()
    assert "damaged at line" in session.call("GET")["damaged"]
    assert session.ask("three")["state"] == "completed"
    hub.close()
    done = home.cli("fsck")
    assert done.returncode != 0 and "damaged at line" in done.stdout
    home.ok("fsck", "--repair")
    home.ok("fsck")
    start_hub()
    assert "damaged" not in session.call("GET")
    assert session.events()[:len(after)] == after


# ---- all files -------------------------------------------------------------------------------------


class Gold:
    """A home in which everything was used, by a hub that was killed while a run was at work, and its projects."""

    def __init__(self, root):
        self.home = Home(root / "home")
        self.home.dir.mkdir(mode=0o700)
        self.work = root / "project"
        self.work.mkdir()
        git = ["git", "-c", "user.email=a@b", "-c", "user.name=x"]
        subprocess.run([*git, "init", "-q"], cwd=self.work, check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "1"], cwd=self.work, check=True)
        hub = Hub(self.home)
        self.sessions = [Session(self.home, self.work).id for _ in range(3)]
        for id in self.sessions:
            call(self.home, "POST", f"/session/{id}/message", {"text": "go", "wait": True})
        (self.work / "a.txt").write_text("one\n")
        edits = [use("edit_file", path="a.txt", old="one", new="two"), say("edited"),
                 use("shell", cmd="echo more >> a.txt"), say("ran")]
        edited = Session(self.home, self.work, edits, permission="auto")
        self.turns = [edited.ask()["turn_id"] for _ in range(2)]
        self.edited = edited.id
        self.home.ok("bots", "create", "b1")
        repo = Repo(root / "repo", FILES)
        rig = Rig(self.home, repo)
        self.runs = [rig.run([shell("echo b > b.txt"), *DONE], bot="b1").id]
        cut = rig.start([shell("echo c > c.txt"), gate(), *DONE], bot="b1")
        cut.at_gate()
        self.runs.append(cut.id)
        call(self.home, "PUT", "/bots/b1/memory/k", {"value": "v", "working_dir": str(self.work)})
        call(self.home, "PUT", "/skills/sk", {"body": "b", "description": "d"})
        self.home.ok("secret", "set", "S", input="a secret value")
        for i in range(2):
            code = f'command{{name="c", description="x", run=function() return "{i}" end}} store.set("a", {i})'
            call(self.home, "POST", "/plugin/save", {"name": "pl", "content": code})
        self.home.ok("trust", str(self.work))
        call(self.home, "POST", "/tool/shell/disable")
        hub.process.kill()
        hub.process.communicate()
        self.used = (self.home.dir, self.work, repo.root)
        self.kept = root / "gold"
        self.kept.mkdir()
        for dir in self.used:
            subprocess.run(["cp", "-a", dir, self.kept], check=True)
        self.copy = self.kept / self.home.dir.name
        skip = ("hub.lock", "hub.log", "hub.out")
        self.files = sorted(p.relative_to(self.copy) for p in self.copy.rglob("*")
                            if p.is_file() and not p.is_symlink() and p.name not in skip
                            and not {"run", "worktrees", "quarantine"} & set(p.relative_to(self.copy).parts))

    def restore(self):
        for dir in self.used:
            shutil.rmtree(dir)
            subprocess.run(["cp", "-a", self.kept / dir.name, dir], check=True)


def test_a_fifo_in_the_place_of_a_file_hangs_nobody(home, start_hub, tmp_path):
    (tmp_path / "mine").write_text("mine")
    start_hub().close()
    files = sorted(p for p in (home.dir / "state" / "shipped").rglob("*") if p.is_file())
    texts = [p.read_text() for p in files]
    files[0].unlink()
    os.mkfifo(files[0])
    files[1].unlink()
    files[1].symlink_to(tmp_path / "mine")
    start_hub().close()
    assert [p.read_text() for p in files] == texts and (tmp_path / "mine").read_text() == "mine"
    home.log.unlink()
    os.mkfifo(home.log)
    done = home.cli("hub")
    assert done.returncode == 1 and "cannot open the log" in done.stderr
    assert home.cli("doctor").returncode in (0, 1)


def put_huge(path):
    with open(path, "wb") as f:
        f.truncate(6 << 30)


@pytest.mark.parametrize("name, put", [("choices.json", put_huge), ("state/hub.json", put_huge), ("logs/hub.log", os.mkfifo),
                                       ("logs/hub.log", os.mkdir), ("state/index.sqlite", os.mkfifo)])
def test_what_is_no_file_or_far_too_large_is_set_aside_by_fsck(home, start_hub, name, put):
    start_hub().close()
    (home.dir / name).unlink(missing_ok=True)
    put(home.dir / name)
    if name == "state/index.sqlite":  # it is made again, without a word from anybody
        start_hub().close()
    else:
        done = home.cli("hub")
        assert done.returncode == 1 and str(home.dir / name) in done.stderr
    home.ok("fsck", "--repair")
    start_hub().close()
    aside = [p for p in (home.dir / name).parent.iterdir() if p.name.startswith((home.dir / name).name + ".damaged-")]
    assert len(aside) == 1


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo, lambda path: os.symlink("/nonexistent/x", path)])
def test_an_index_of_which_a_file_is_none_is_made_again(home, start_hub, tmp_path, suffix, put):
    hub = start_hub()
    session = Session(home, tmp_path / "a")
    hub.close()
    path = home.dir / f"state/index.sqlite{suffix}"
    path.unlink(missing_ok=True)
    put(path)
    start_hub()
    assert [r["id"] for r in call(home, "GET", "/session")["sessions"]] == [session.id]


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    g = Gold(tmp_path_factory.mktemp("damage"))
    yield g
    g.home.close()


def flipped(random, data):
    data = bytearray(data)
    for _ in range(min(len(data), 3)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def retyped(random, data):
    """Values of other types in the places of members."""
    return re.sub(rb'("[^"]*":\s*)("(?:[^"\\]|\\.)*"|\d+|true|false|null)',
                  lambda m: m[1] + random.choice([b"5", b'"x"', b"null", b"true", b"[]", b"-1", m[2]]), data)


DAMAGES = {
    "empty": lambda r, d: b"",
    "cut": lambda r, d: d[:r.randrange(len(d) + 1)],
    "flipped": flipped,
    "noise": lambda r, d: r.randbytes(500),
    "zeros": lambda r, d: bytes(len(d)),
    "null": lambda r, d: b"null",
    "list": lambda r, d: b"[]",
    "object": lambda r, d: b"{}",
    "retyped": retyped,
    "deep": lambda r, d: b'{"a":' * 3000,
    "long": lambda r, d: d + b" " * 1000000,
    "gone": None, "directory": None, "link": None, "private": None, "fifo": None,
}


def damage(random, path, kind):
    data = path.read_bytes()
    if DAMAGES[kind]:
        with open(path, "r+b") as f:  # in place: its inode stays, as on a disk that loses bits
            f.write(DAMAGES[kind](random, data))
            f.truncate()
        return
    if kind == "private":
        path.chmod(0)
        return
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/nonexistent/x")
    elif kind == "fifo":
        os.mkfifo(path)


def ask(home, method, path, body=None):
    """Any answer will do that is one: JSON where it says so."""
    answer = home.http(method, path, json.dumps(body).encode() if body is not None else b"")
    assert answer.status != 0
    if "json" in answer.headers.get("content-type", ""):
        json.loads(answer.body.decode("utf-8", "strict"))
    return answer


def use_everything(gold):
    a, b, c = gold.sessions
    place = f"?working_dir={gold.work}"
    for method, path, body in [
            ("GET", "/session", None), ("GET", f"/session/{a}", None), ("GET", f"/session/{a}/events", None),
            ("POST", f"/session/{a}/message", {"text": "x", "wait": True}), ("POST", f"/session/{b}/fork", {}),
            ("PATCH", f"/session/{b}", {"title": "t"}), ("GET", f"/session/{a}/pipeline", None), ("GET", "/bots", None),
            ("GET", "/bots/b1", None), ("GET", "/bots/b1/history" + place, None),
            ("GET", "/bots/b1/memory" + place, None),
            ("PUT", "/bots/b1/memory/z", {"value": "v", "working_dir": str(gold.work)}), ("GET", "/plugin/list", None),
            ("GET", "/plugin/pl", None), ("POST", "/reload", {"force": True}), ("POST", "/generations/undo", {}),
            ("GET", "/trust", None), ("GET", "/skills/sk", None), ("GET", "/config", None), ("GET", "/provider", None),
            ("POST", "/command/pl:c", {}), ("POST", "/tool/shell/enable", None),
            ("POST", "/session", {"working_dir": str(gold.work), "provider": "scripted"}), ("GET", "/runs", None),
            ("GET", f"/session/{gold.edited}/checkpoints", None),
            ("POST", f"/session/{gold.edited}/rewind", {"to": gold.turns[0]}),
            *((method, f"/runs/{run}{verb}", body) for run in gold.runs
              for method, verb, body in [("GET", "", None), ("GET", "/diff", None), ("POST", "/apply", {}),
                                         ("POST", "/discard", {}), ("DELETE", "", None)]),
            ("DELETE", f"/session/{c}?purge=true", None), ("GET", "/metrics", None)]:
        ask(gold.home, method, path, body)


def kept(path, data):
    """Are these bytes still somewhere: where they were, or aside? A session that was purged has none."""
    beside = [p for p in path.parent.glob(path.name + "*") if p.is_file()]
    return not path.parent.exists() or any(p.read_bytes() == data for p in beside)


def test_no_damage_of_a_file_ends_the_hub_or_loses_what_is_left(gold):
    seed = draw_seed()
    for i in range(ROUNDS):
        r = random.Random(seed + i)
        gold.restore()
        name, kind = r.choice(gold.files), r.choice(list(DAMAGES))
        what = f"seed {seed + i}: {name} {kind}"
        path = gold.home.dir / name
        damage(r, path, kind)
        precious = path.name in ("choices.json", "trust.json", "secrets.json", "memory.json", "metadata.json")
        data = path.read_bytes() if precious and path.is_file() and os.access(path, os.R_OK) else None
        process = gold.home.popen("hub")
        said = process.stdout.readline()
        if said.startswith(b"ready "):
            try:
                use_everything(gold)
            except (OSError, AssertionError, ValueError) as e:
                raise AssertionError(f"{what}: {e}, hub {process.poll()}") from e
            process.terminate()
        _, err = process.communicate(timeout=30)
        assert not REPORT.search(err.decode(errors="replace")), f"{what}: {err.decode(errors='replace')[-3000:]}"
        # it ends well; or it did not start, and says which file is to blame
        assert process.returncode == 0 or (not said and process.returncode == 1 and path.name.encode() in err), \
            f"{what}: {process.returncode} {err.decode(errors='replace')[-2000:]}"
        unreadable = kind not in ("flipped", "retyped", "long", "object", "private")
        if data is not None and unreadable and data.strip() != (gold.copy / name).read_bytes().strip():
            assert kept(path, data), f"{what}: it was written over"
        if not said:
            gold.home.cli("fsck", "--repair")
            process = gold.home.popen("hub")
            assert process.stdout.readline().startswith(b"ready "), f"{what}: fsck did not mend it"
            process.terminate()
            process.communicate(timeout=30)
