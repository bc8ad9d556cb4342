"""The guide is true: its files are saved, its commands are run, and they print what it says.

A Lua block whose first line is `-- ~/.afloat/PATH` is a file. In a console block a line with `$` is a
command, and what follows is what it prints; numbers, dates and times may differ.
"""
import os
import re
import subprocess

import pytest

from conftest import BIN, DEADLINE, ROOT, check_report, retry
from test_lua import lua  # noqa: F401  (a fixture)

BLOCK = re.compile(r"^```(lua|console)\n(.*?)^```$", re.S | re.M)


def blocks(page):
    return BLOCK.findall((ROOT / "docs/guide" / page).read_text())


def plain(text):
    """What has to be the same in the guide and in what is printed."""
    return re.sub(r" +", " ", re.sub(r"\d[\d.:TZ-]*", "N", text)).strip()


def commands(block):
    """Pairs of a command and what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [tuple(part.partition("\n")[::2]) for part in parts]


def unit_of(name):
    stem = name.removeprefix("lua/").removesuffix(".lua")
    return stem if stem.startswith("improvements/") else "lua:" + stem.replace("/", ".")


def news_of(home, unit):
    """How often the hub has said something about a unit."""
    types = "plugin.loaded,plugin.changed,plugin.error"
    answer = home.http("GET", f"/events?types={types}", headers=["Accept: application/json"])
    return sum(e["plugin"] == unit for e in answer.json()["events"])


class Reader:
    """Somebody who does what the page says."""

    def __init__(self, home, lua, dir):
        self.home, self.lua, self.last = home, lua, ""
        (dir / "bin").mkdir()
        os.symlink(BIN, dir / "bin/afloat")
        self.env = {**home.env, "PATH": f"{dir / 'bin'}:{os.environ['PATH']}"}

    def save(self, text):
        name = re.match(r"-- ~/\.afloat/(\S+)\n", text).group(1)
        before = news_of(self.home, unit_of(name)) if self.home.hub_pid() else None
        self.lua(name.removeprefix("lua/"), text)
        if before is not None:
            retry(lambda: news_of(self.home, unit_of(name)) > before)

    def run(self, command):
        command = re.sub(r"--after \d+", f"--after {self.last}", command)
        done = subprocess.run(["bash", "-c", command], env=self.env, text=True, capture_output=True, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL)
        check_report(done.stderr)
        return done.stdout.replace(f"{self.home.dir}/", "~/.afloat/")

    def follow(self, command, printed):
        """An event is emitted once; anything else is a question, asked until the answer is there."""
        if " emit " in command:
            self.last = self.run(command).strip()
            assert self.last.isdigit()
            return
        answers = []

        def ask():
            answers.append(self.run(command))
            return plain(answers[-1]) == plain(printed)

        try:
            retry(ask, 5)
        except AssertionError:
            pytest.fail(f"$ {command}\n{answers[-1]}instead of\n{printed}", pytrace=False)


@pytest.mark.parametrize("page", ["live.md"])
def test_the_guide_is_true(home, lua, tmp_path, page):
    reader = Reader(home, lua, tmp_path)
    ran = 0
    for kind, text in blocks(page):
        if kind == "lua":
            reader.save(text)
            continue
        for command, printed in commands(text):
            reader.follow(command, printed)
            ran += 1
    assert ran > 10


# ---- bots ----------------------------------------------------------------------------------


class Owner:
    """Somebody with a repository who follows the page about bots; the id on the page is that of his run."""

    SHOWN = "1a2b3c4d"

    def __init__(self, home, dir):
        self.home, self.before, self.id = home, "", self.SHOWN
        self.repo = dir / "shop"
        (dir / "bin").mkdir()
        os.symlink(BIN, dir / "bin/afloat")
        name = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {**home.env, **name, "HOME": str(dir), "PATH": f"{dir / 'bin'}:{os.environ['PATH']}"}
        subprocess.run("git init -q shop && cd shop && echo hi > a && git add a && git commit -qm one", shell=True,
                       cwd=dir, env=self.env, check=True)

    def run(self, command):
        if command.startswith("export "):
            self.before += command + "\n"
            return ""
        command = command.replace(self.SHOWN, self.id)
        done = subprocess.run(["bash", "-c", self.before + command], cwd=self.repo, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE)
        check_report(done.stdout)
        if found := re.match(r"afloat: run (\w{8}) on branch", done.stdout):
            self.id = found.group(1)
        told = done.stdout.replace(f"{self.home.dir}/", "~/.afloat/").replace(str(self.repo), "~/shop")
        return told.replace(self.id, self.SHOWN)


def test_the_guide_of_bots_is_true(home, tmp_path):
    owner = Owner(home, tmp_path)
    text = (ROOT / "docs/guide/bots.md").read_text()
    (tmp_path / "review.jsonl").write_text(re.search(r"^```json\n(.*?)^```$", text, re.S | re.M).group(1))
    ran = 0
    for _, block in blocks("bots.md"):
        for command, printed in commands(block):
            got = owner.run(command)
            hash = re.compile(r"\b[0-9a-f]{40}\b")
            assert plain(hash.sub("HASH", got)) == plain(hash.sub("HASH", printed)), f"$ {command}\n{got}"
            ran += 1
    assert ran > 12
