"""A program in a terminal with a worktree of its own is a run: its work is taken over as that of a bot."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import Hub, is_gone, read_until, retry
from ptys import Terminal

AGENT = r"""
echo by the agent > made.txt
git add made.txt
git -c user.name=a -c user.email=a@a commit -qm 'agent: make a file'
echo later >> f
env | grep '^AFLOAT_' > env.txt
printf '\a'; read x; exit ${x:-0}
"""


@pytest.fixture
def repo(home, tmp_path):
    """A repository with one commit; no keeper is left afterwards."""
    def git(*args):
        return subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True,
                              capture_output=True, text=True).stdout
    git("init", "-q", "-b", "main")
    (tmp_path / "f").write_text("x\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "g").write_text("y\n")
    git("add", ".")
    git("commit", "-qm", "one")
    yield pathlib.Path(os.path.realpath(tmp_path))
    home.cli("stop", "--all")


def start(home, cwd, script=AGENT, **more):
    body = {"cmd": "sh", "args": ["-c", script], "cwd": str(cwd), "worktree": True, "name": "agent", **more}
    answer = home.http("POST", "/pty", json.dumps(body).encode())
    assert answer.status == 201, answer.body
    return answer.json()


def run_of(home, id):
    return home.http("GET", f"/runs/{id}").json()


def finish(home, row, line=""):
    """Let its program end; the record when its work was kept."""
    home.http("POST", f"/pty/{row['id']}/input", json.dumps({"text": line + "\r"}).encode())
    return retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)


def test_its_work_is_shown_applied_and_merged_like_a_bots(home, hub, repo):
    row = start(home, repo)
    assert row["run_id"] == row["id"] and row["branch"] == f"afloat/pty-{row['id']}"
    retry(lambda: (pathlib.Path(row["worktree"]) / "env.txt").exists())
    live = run_of(home, row["id"])
    assert (live["state"], live["terminal"], live["bot"], live["resume"]) == ("running", row["id"], "pty", None)
    assert live["prompt"].startswith("sh -c") and live["repository"] == str(repo)
    assert row["id"] in home.ok("runs", "list")
    assert "run '" in home.cli("runs", "apply", row["id"]).stderr  # it has not ended
    assert "has not ended" in home.cli("runs", "apply", row["id"]).stderr
    assert "later" in home.ok("runs", "diff", row["id"])  # of a live run: what lies there now
    record = finish(home, row)
    assert (record["end_reason"], record["action"], record["commits"]) == ("complete", "review", 2)
    assert not pathlib.Path(row["worktree"]).exists()
    assert sorted(p.name for p in repo.iterdir() if p.name != ".git") == ["f", "sub"]  # the user's tree is as it was
    patch = home.ok("runs", "diff", row["id"])
    assert "by the agent" in patch and "later" in patch
    home.ok("runs", "apply", row["id"], cwd=repo)
    assert (repo / "made.txt").read_text() == "by the agent\n" and (repo / "f").read_text() == "x\nlater\n"
    subprocess.run(["git", "-C", repo, "stash", "-uq"], check=True)
    home.ok("runs", "merge", row["id"], cwd=repo)
    log = subprocess.run(["git", "-C", repo, "log", "--format=%s"], capture_output=True, text=True).stdout
    assert "agent: make a file" in log and "uncommitted work of 'sh -c" in log


def test_its_program_knows_where_it_is(home, hub, repo):
    row = start(home, repo / "sub", "pwd; env | grep ^AFLOAT_ | sort; read x")
    text = retry(lambda: "AFLOAT_WORKTREE" in (s := home.http("GET", f"/pty/{row['id']}/screen").json()["text"]) and s)
    text = text.replace("\n", "")  # long values wrap
    for name, value in (("RUN", row["id"]), ("PTY", row["id"]), ("PTY_NAME", "agent"), ("BRANCH", row["branch"]),
                        ("WORKTREE", row["worktree"]), ("PROJECT", str(repo)), ("HOME", str(home.dir))):
        assert f"AFLOAT_{name}={value}" in text
    assert text.startswith(row["worktree"] + "/sub")  # the same directory, in its worktree


def test_a_program_that_fails_or_is_ended_leaves_its_work(home, hub, repo):
    failed = finish(home, start(home, repo), "3")
    assert (failed["end_reason"], failed["error"], failed["files"]) == ("failed", "its program ended with status 3", 3)
    row = start(home, repo)
    retry(lambda: (pathlib.Path(row["worktree"]) / "env.txt").exists())
    stopped = json.loads(home.ok("runs", "stop", row["id"], "--json"))
    assert (stopped["end_reason"], stopped["files"]) == ("interrupted", 3) and is_gone(row["pid"])
    row = start(home, repo)
    retry(lambda: (pathlib.Path(row["worktree"]) / "env.txt").exists())
    home.ok("pty", "kill", row["id"])
    killed = retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)
    assert (killed["end_reason"], killed["files"]) == ("interrupted", 3)
    assert home.cli("runs", "discard", row["id"], "--delete-branch").returncode == 0


def test_what_cannot_start_leaves_nothing(home, hub, repo):
    body = {"cmd": "no-such-program", "cwd": str(repo), "worktree": True}
    answer = home.http("POST", "/pty", json.dumps(body).encode())
    assert answer.status == 400 and "cannot run 'no-such-program'" in answer.json()["detail"]
    branches = lambda: subprocess.run(["git", "-C", repo, "branch"], capture_output=True, text=True).stdout
    retry(lambda: branches() == "* main\n" and home.json("runs", "list")["runs"] == [])
    assert list((home.dir / "worktrees").glob("*/*")) == []
    nowhere = home.http("POST", "/pty", json.dumps({"cmd": "sh", "cwd": "/", "worktree": True}).encode())
    assert nowhere.status == 404 and "repository" in nowhere.json()["detail"]


def test_it_goes_on_while_the_hub_is_killed_and_is_found_again(home, repo):
    hub = Hub(home)
    row = start(home, repo)
    retry(lambda: (pathlib.Path(row["worktree"]) / "env.txt").exists())
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.communicate()
    hub = Hub(home)
    retry(lambda: home.http("GET", f"/pty/{row['id']}").status == 200)
    assert run_of(home, row["id"])["state"] == "running" and not is_gone(row["pid"])
    assert home.json("worktrees", "list")["worktrees"][0]["state"] == "live"
    assert home.json("worktrees", "clean")["kept"][0]["why"] == "its run lives"
    hub.close()  # a clean stop leaves it as well
    assert not is_gone(row["pid"])
    hub = Hub(home)
    retry(lambda: home.http("GET", f"/pty/{row['id']}").status == 200)
    record = finish(home, row)
    assert (record["end_reason"], record["files"]) == ("complete", 3)
    hub.close()


def test_one_that_ended_without_a_hub_is_brought_in_by_the_next(home, repo):
    hub = Hub(home)
    row = start(home, repo)
    retry(lambda: (pathlib.Path(row["worktree"]) / "env.txt").exists())
    hub.close()
    os.kill(row["keeper_pid"], signal.SIGKILL)
    os.kill(row["pid"], signal.SIGKILL)
    retry(lambda: is_gone(row["pid"]) and is_gone(row["keeper_pid"]))
    hub = Hub(home)
    record = retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)
    assert (record["end_reason"], record["files"]) == ("crashed", 3)
    assert any("nobody knows" in note for note in record["notes"])
    assert not pathlib.Path(row["worktree"]).exists()
    hub.close()


def test_runs_attach_shows_its_terminal_and_a_bot_cannot_take_it_up(home, hub, repo):
    row = start(home, repo, "echo here-I-am; read x")
    process, terminal = home.on_terminal("runs", "attach", row["id"])
    read_until(terminal, rb"here-I-am")
    terminal.write(b"\r")
    read_until(terminal, rb"ended with status 0")
    assert process.wait(20) == 0
    retry(lambda: run_of(home, row["id"])["state"] == "ended")
    home.ok("bots", "create", "pty")
    refused = home.cli("run", "pty", "--resume", row["id"], cwd=repo)
    assert refused.returncode == 7 and "program in a terminal" in refused.stderr


def test_a_viewer_sees_its_last_words(home, hub, repo):
    row = start(home, repo, "read x; echo last words; exit 0")
    viewer = Terminal(home, row["id"])
    viewer.send("\r")
    viewer.until(lambda: viewer.exit is not None)
    assert viewer.exit == 0 and b"last words" in viewer.screen + viewer.output
