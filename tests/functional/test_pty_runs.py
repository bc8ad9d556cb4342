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


def test_a_hub_that_stops_answers_who_waits_for_the_end_of_a_program(home, repo):
    hub = Hub(home)
    row = start(home, repo, "trap 'echo asked > asked' HUP TERM INT; echo > ready; while :; do sleep 0.1; done")
    there = lambda name: (pathlib.Path(row["worktree"]) / name).exists()
    retry(lambda: there("ready"))
    stopping = home.popen("runs", "stop", row["id"])
    retry(lambda: there("asked"))
    hub.close()  # it does not wait for that request
    _, err = stopping.communicate(timeout=60)
    assert f"the hub stops before run '{row['id']}' has ended" in err.decode()


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
    assert any("the exit status of its program is unknown" in note for note in record["notes"])
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


LOGGER = 'pwd >> log; echo "$AFLOAT_RUN $AFLOAT_BRANCH" >> log; echo up; read x; exit ${x:-0}'


def resume(home, id, status=201, **more):
    answer = home.http("POST", "/pty", json.dumps({"resume": id, **more}).encode())
    assert answer.status == status, answer.body
    return answer.json()


def test_it_is_resumed_with_its_program_in_its_worktree_and_on_its_branch(home, hub, repo):
    row = start(home, repo / "sub", LOGGER)
    assert "has not ended" in resume(home, row["id"], 409)["detail"]
    retry(lambda: "up" in home.http("GET", f"/pty/{row['id']}/screen").json()["text"])
    first = finish(home, row)
    assert first["resume"] == f"afloat pty new --resume {row['id']}" and first["commits"] == 1
    (repo / "f").write_text("the user went on\n")
    again = resume(home, row["id"][:6])
    assert again["run_id"] == row["id"] and again["id"] != row["id"]  # the first terminal may still be shown
    assert [again[k] for k in ("cmd", "args", "name", "branch", "worktree", "cwd")] == \
           [row[k] for k in ("cmd", "args", "name", "branch", "worktree", "cwd")]
    log = pathlib.Path(again["worktree"]) / "sub" / "log"
    lines = [f"{row['worktree']}/sub", f"{row['id']} {row['branch']}"] * 2
    retry(lambda: log.read_text().split("\n")[:-1] == lines)
    live = run_of(home, row["id"])
    assert (live["state"], live["terminal"], live["end_reason"]) == ("running", again["id"], None)
    home.http("POST", f"/pty/{again['id']}/input", json.dumps({"text": "\r"}).encode())
    record = retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)
    assert (record["end_reason"], record["commits"], record["files"]) == ("complete", 2, 1)
    assert not pathlib.Path(row["worktree"]).exists() and (repo / "f").read_text() == "the user went on\n"
    assert len(home.json("runs", "list")["runs"]) == 1
    home.ok("runs", "apply", row["id"], cwd=repo)
    assert (repo / "sub" / "log").read_text().split("\n")[:-1] == lines


def test_the_command_resumes_it_too_and_may_name_another_program(home, hub, repo):
    row = start(home, repo, LOGGER)
    finish(home, row, "3")
    id = home.ok("pty", "new", "--detach", "--resume", row["id"], "--", "sh", "-c", "cat log; read x").strip()
    retry(lambda: f"{row['id']} {row['branch']}" in home.http("GET", f"/pty/{id}/screen").json()["text"].replace("\n", ""))
    assert run_of(home, row["id"])["prompt"] == "sh -c cat log; read x"
    process, terminal = home.on_terminal("runs", "attach", row["id"])
    read_until(terminal, rb"afloat/pty")
    terminal.write(b"\r")
    read_until(terminal, rb"ended with status 0")
    assert process.wait(20) == 0
    assert retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)["error"] is None


def test_one_that_cannot_be_resumed_is_as_it_was(home, hub, repo):
    row = start(home, repo, LOGGER)
    before = finish(home, row)
    answer = resume(home, row["id"], 400, cmd="no-such-program")
    assert "cannot run 'no-such-program'" in answer["detail"]
    assert retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r) == before
    retry(lambda: not pathlib.Path(row["worktree"]).exists())
    assert resume(home, "ffffffff", 404)["detail"].startswith("there is no run")
    home.ok("runs", "discard", row["id"], "--delete-branch")
    assert "was deleted" in resume(home, row["id"], 409)["detail"]
    home.ok("bots", "create", "helper")
    home.env.update(AFLOAT_PROVIDER="scripted")
    home.ok("run", "helper", "hello", cwd=repo)
    bots = home.json("runs", "list", "--bot", "helper")["runs"][0]["run_id"]
    refused = resume(home, bots, 409)
    assert "afloat run helper --resume" in refused["detail"] + (refused.get("hint") or "")


def test_a_resumed_one_goes_on_while_the_hub_is_killed(home, repo):
    hub = Hub(home)
    row = start(home, repo, LOGGER)
    finish(home, row)
    again = resume(home, row["id"])
    retry(lambda: "up" in home.http("GET", f"/pty/{again['id']}/screen").json()["text"])
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.communicate()
    hub = Hub(home)
    retry(lambda: home.http("GET", f"/pty/{again['id']}").status == 200)
    assert run_of(home, row["id"])["state"] == "running" and not is_gone(again["pid"])
    home.http("POST", f"/pty/{again['id']}/input", json.dumps({"text": "\r"}).encode())
    record = retry(lambda: (r := run_of(home, row["id"]))["state"] == "ended" and r)
    assert (record["end_reason"], record["commits"]) == ("complete", 2)
    hub.close()


def test_the_lines_to_paste_name_a_home_that_a_flag_named(home, repo):
    """The two lines of `pty new` ask the hub that has the run, from any shell."""
    elsewhere = {"AFLOAT_HOME": ""}
    done = home.cli("pty", "new", "--home", str(home.dir), "--worktree", "--detach", "--", "true", cwd=repo, env=elsewhere)
    assert done.returncode == 0, done.stderr
    id = done.stdout.strip()
    assert f"look: afloat runs diff {id} --home '{home.dir}'\ntake: afloat runs apply {id} --home '{home.dir}'\n" in done.stderr
