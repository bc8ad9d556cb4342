"""Bots, looked at once more: what a stop means before there is anything to stop, what is said when something is
refused, what a record may hold, and what is found after a restart."""
import json
import os
import re
import signal

import pytest

from conftest import DEADLINE, retry
from test_bots_cli import (BYE, WRITE, bot, call, done, git, repo, run, script, trees)  # noqa: F401 (fixtures)

SLOW = '+++\n[worktree]\nsetup = ["touch started; sleep 60"]\n+++\nTidy up.\n'


def begun(home):
    """Wait for the `setup` of a run, or its command, to run; the directory."""
    return retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))[0].parent


# ---- stopped before it began ---------------------------------------------------------------


def test_stopping_a_run_that_is_still_beginning_is_no_conflict(home, hub, bot, repo, script):
    script(BYE)
    (home.dir / "bots/tidy/config.md").write_text(SLOW)
    starter = home.popen("run", "tidy", "x", cwd=repo)
    begun(home)
    id = home.json("runs")["runs"][0]["run_id"]
    stopped = home.cli("runs", "stop", id)
    assert stopped.returncode == 0, stopped.stderr
    assert "before it began: nothing of it is left" in stopped.stderr and "resume:" not in stopped.stderr
    _, err = starter.communicate(timeout=DEADLINE)
    assert starter.returncode == 7 and b"the run was stopped before it began" in err
    assert home.json("runs")["runs"] == [] and git(repo, "branch").split() == ["*", "main"]


def test_stopping_a_run_that_is_about_to_go_on_leaves_it_as_it_was(home, run, repo):
    id, config = run(), home.dir / "bots/tidy/config.md"
    before = home.json("runs", "show", id)
    config.write_text(SLOW)
    starter = home.popen("run", "tidy", "more", "--resume", id, cwd=repo)
    begun(home)
    stopped = home.cli("runs", "stop", id, "--json")
    assert stopped.returncode == 0, stopped.stderr
    assert starter.wait(DEADLINE) == 7
    assert json.loads(stopped.stdout) == before == home.json("runs", "show", id)
    assert git(repo, "show", f"{before['branch']}:b.txt") == "hello\n"
