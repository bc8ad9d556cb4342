"""Bots, looked at once more: what a stop means before there is anything to stop, what is said when something is
refused, what a record may hold, and what is found after a restart."""
import json
import os
import re
import signal

import pytest

from conftest import DEADLINE, files_below, retry
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


# ---- what is said --------------------------------------------------------------------------


def test_outside_of_git_the_way_out_is_said_once(home, hub, bot, script, tmp_path):
    script(BYE)
    refused = home.cli("run", "tidy", "x", cwd=tmp_path)
    assert refused.returncode == 7 and refused.stderr.count("--skip-git-check") == 1


def test_a_merge_into_a_changed_tree_names_each_file_once(home, run, repo):
    id = run()
    (repo / "a.txt").write_text("mine\n")
    (repo / ".gitignore").write_text("mine\n")
    refused = home.cli("runs", "merge", id, cwd=repo)
    assert refused.returncode == 7 and f"afloat runs apply {id}" in refused.stderr
    assert refused.stderr.count("a.txt") == 1 and refused.stderr.count(".gitignore") == 1
    (repo / "notes.txt").write_text("not in the way\n")
    git(repo, "checkout", "-q", "--", ".")
    home.ok("runs", "merge", id, cwd=repo)
    assert (repo / "notes.txt").read_text() == "not in the way\n" and (repo / "b.txt").exists()


def test_a_clash_says_how_to_settle_it_and_that_works(home, hub, bot, repo, script):
    script({"tool_calls": [call("write_file", path="a.txt", content="the bot's\n")]}, done(), BYE)
    home.ok("run", "tidy", "x", cwd=repo)
    id = home.json("runs")["runs"][0]["run_id"]
    (repo / "a.txt").write_text("mine\n")
    refused = home.cli("runs", "apply", id, cwd=repo)
    assert refused.returncode == 7 and (repo / "a.txt").read_text() == "mine\n"
    line = re.search(r"`git (cherry-pick \S+)`", refused.stderr).group(1)
    git(repo, "commit", "-q", "-a", "-m", "mine")
    with pytest.raises(AssertionError, match="CONFLICT|could not apply"):
        git(repo, *line.split())
    assert "<<<<<<<" in (repo / "a.txt").read_text()


def test_what_is_applied_can_be_seen_the_way_it_is_said(home, run, repo):
    applied = home.cli("runs", "apply", run(), cwd=repo)
    shown = re.search(r"'(git [a-z]+)'", applied.stderr).group(1)
    assert "b.txt" in git(repo, *shown.split()[1:])


def test_who_wants_to_be_merged_and_finds_nobody_to_ask_says_how(home, run, repo):
    id = run(last=done(action="merge"))
    attached = home.cli("runs", "attach", id)
    line = re.search(r"^merge: afloat (.*)$", attached.stderr, re.M).group(1)
    home.ok(*line.split(), cwd=repo)
    assert (repo / "b.txt").exists() and "merge:" not in home.cli("runs", "attach", id).stderr


def test_a_merged_run_that_is_discarded_is_still_called_merged(home, run, repo):
    id = run()
    home.ok("runs", "merge", id, cwd=repo)
    home.ok("runs", "discard", id, "--delete-branch", cwd=repo)
    assert home.json("runs", "show", id)["action"] == "merged" and re.search(rf"{id}.*merged", home.ok("runs"))


def test_a_repository_that_was_moved_is_named(home, run, repo):
    id = run()
    repo.rename(repo.with_name("moved"))
    for act in (["diff"], ["apply"], ["merge"], ["discard", "--delete-branch"]):
        refused = home.cli("runs", *act, id, cwd=repo.with_name("moved"))
        assert refused.returncode == 3 and f"not at '{repo}/.git' any more" in refused.stderr, refused.stderr
    home.ok("runs", "discard", id, cwd=repo.with_name("moved"))


def test_what_config_says_in_vain_is_said_at_the_end_of_a_run(home, hub, bot, repo, script):
    script(done(), BYE)
    (home.dir / "bots/tidy/config.md").write_text("+++\nsleep_sec = 3\n+++\nTidy up.\n")
    (home.dir / "bots/tidy/skills").mkdir(exist_ok=True)
    (home.dir / "bots/tidy/skills/odd.md").write_text("+++\nbroken\n")
    ended = home.cli("run", "tidy", "x", cwd=repo)
    assert ended.returncode == 0
    assert ended.stderr.count("did you mean 'sleep_secs'?") == 1 and "odd.md" in ended.stderr


def test_sessions_of_runs_are_listed_by_bot_and_number(home, run):
    id = run()
    [line] = home.ok("sessions", "list").splitlines()
    assert line.endswith(f"tidy #1 of run {id}")


# ---- failures ------------------------------------------------------------------------------


def failing(times):
    return {"error": {"status": 503, "code": "overloaded", "message": "come back later", "times": times}}


@pytest.fixture
def one_try(home, start_hub):
    """A hub that asks a provider once, and a bot."""
    (home.dir / "config.toml").write_text("[retry]\ntries = 1\n")
    start_hub()
    home.ok("bots", "create", "tidy", "--instructions", "Tidy up.")


def test_an_overloaded_provider_is_asked_again_in_the_next_iteration(home, one_try, repo, script):
    script(failing(1), WRITE, done(), BYE)
    ended = home.cli("run", "tidy", "--sleep", "0", cwd=repo)
    record = home.json("runs", "show", home.json("runs")["runs"][0]["run_id"])
    assert ended.returncode == 0 and record["end_reason"] == "complete" and record["error"] is None
    assert [it["end_reason"] for it in record["iterations"]] == ["failed", "complete"]


def test_three_failures_in_a_row_end_a_run(home, one_try, repo, script):
    script(*[failing(1)] * 9)
    assert home.cli("run", "tidy", "-n", "0", "--sleep", "0", cwd=repo).returncode == 1
    record = home.json("runs", "show", home.json("runs")["runs"][0]["run_id"])
    assert len(record["iterations"]) == 3 and "PROVIDER_OVERLOADED" in record["error"]


def test_what_was_wished_in_a_turn_that_failed_is_void(home, one_try, repo, script):
    script(done(action="discard"), failing(1), BYE)
    id = home.ok("run", "tidy", "-n", "0", "--sleep", "600", "--detach", cwd=repo).strip()
    retry(lambda: [i["end_reason"] for i in home.json("runs", "show", id)["iterations"]] == ["failed"])
    home.ok("runs", "stop", id)
    record = home.json("runs", "show", id)
    assert record["end_reason"] == "interrupted" and record["discarded_at"] is None and record["action"] is None


# ---- after a restart -----------------------------------------------------------------------


def test_lua_finds_the_worktrees_of_an_earlier_hub(home, trees, start_hub, repo):
    start_hub()
    path = home.ok("trees:create", str(repo), "try/it").strip()
    (home.dir / "worktrees/shop/stray").mkdir()
    home.kill_hub(signal.SIGTERM)
    start_hub()
    assert json.loads(home.ok("trees:mine")) == [{"path": path, "branch": "try/it", "repository": str(repo)}]
    assert home.ok("trees:remove", path) == "gone\n" and json.loads(home.ok("trees:mine")) == []


@pytest.mark.parametrize("moved", [False, True])
def test_a_branch_without_work_goes_with_its_crashed_run(home, repo, script, moved):
    """The hub is killed between making the branch and noting where it begins."""
    home.ok("bots", "create", "tidy")
    (home.dir / "bots/tidy/config.md").write_text(SLOW)
    script(BYE)
    starter = home.popen("run", "tidy", "x", cwd=repo)
    begun(home)
    home.kill_hub()
    starter.wait(DEADLINE)
    [path] = (home.dir / "bots/tidy/workspaces/shop/runs").glob("*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "start": None, "head": None}))
    if moved:
        tip = git(repo, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}").strip()
        git(repo, "update-ref", f"refs/heads/{record['branch']}", tip)
    ended = retry(lambda: (r := home.json("runs", "show", record["run_id"]))["state"] == "ended" and r)
    assert ended["end_reason"] == "crashed"
    assert git(repo, "branch", "--list", "afloat/*").strip() == (record["branch"] if moved else "")
    assert not os.path.exists(record["worktree"])


def test_keys_of_providers_reach_neither_setup_nor_the_disk(home, start_hub, repo, script):
    (home.dir / "config.toml").write_text('[providers.mine]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:1"\n'
                                          'api_key_env = "MY_LLM"\n')
    start_hub()
    home.ok("bots", "create", "tidy")
    (home.dir / "bots/tidy/config.md").write_text('+++\n[worktree]\nsetup = ["env > got"]\n+++\nTidy up.\n')
    script({"tool_calls": [call("shell", cmd="env > seen")]}, done(), BYE)
    home.env["MY_LLM"], home.env["PLAIN"] = "geheim", "visible"
    home.ok("run", "tidy", "x", cwd=repo)
    branch = home.json("runs")["runs"][0]["branch"]
    for name in ("got", "seen"):
        env = git(repo, "show", f"{branch}:{name}")
        assert "PLAIN=visible" in env and "MY_LLM" not in env and "AFLOAT_SCENARIO" not in env
    assert not [path for path, held in files_below(home.dir) if b"geheim" in held]


# ---- many runs -----------------------------------------------------------------------------


def test_pages_of_runs_fit_together_when_one_ends_in_between(home, run, repo):
    first = home.json("runs", "show", run())
    runs = home.dir / "bots/tidy/workspaces/shop/runs"
    for i in range(5):
        made = {**first, "run_id": f"0000000{i}", "started_at": f"2020-01-01T00:00:0{i // 2}.000Z", "state": "running"}
        (runs / f"0000000{i}.json").write_text(json.dumps(made, separators=(",", ":")))
    assert home.http("GET", "/runs?state=runing").json()["detail"] == "'state' must be queued, running or ended"
    seen, cursor = [], ""
    for _ in range(9):
        page = home.http("GET", f"/runs?state=running&limit=2{cursor}").json()
        seen += [row["run_id"] for row in page["runs"]]
        if page["next"] is None:
            break
        (runs / f"{seen[-1]}.json").unlink()  # the one that the cursor was made from
        cursor = f"&cursor={page['next']}"
    assert seen == ["00000004", "00000003", "00000002", "00000001", "00000000"]
    assert [row["run_id"] for row in home.json("runs", "list")["runs"]][0] == first["run_id"]


def test_a_config_that_stays_broken_is_noted_once(home, hub, bot, repo, script):
    wait = call("shell", cmd="touch started; while ! test -e go; do sleep 0.05; done")
    script({"tool_calls": [wait]}, *[{"text": str(i)} for i in range(5)])
    id = home.ok("run", "tidy", "-n", "4", "--sleep", "0", "--detach", cwd=repo).strip()
    dir = begun(home)
    (home.dir / "bots/tidy/config.md").write_text("+++\nbroken\n")
    (dir / "go").touch()
    record = retry(lambda: (r := home.json("runs", "show", id))["state"] == "ended" and r)
    assert len(record["iterations"]) == 4
    assert len([note for note in record["notes"] if "last good config.md" in note]) == 1, record["notes"]


@pytest.mark.parametrize("cursor", ["x", "12", "12-", "-1-abcdefgh"])
def test_a_cursor_that_no_list_of_runs_gave_is_refused(home, hub, cursor):
    answer = home.http("GET", f"/runs?cursor={cursor}")
    assert answer.status == 400 and answer.json()["detail"] == "not a cursor of this list"


def test_a_prompt_that_no_record_could_hold_is_refused(home, hub, bot, repo):
    body = json.dumps({"prompt": "x" * (2 << 20), "working_dir": str(repo)}).encode()
    answer = home.http("POST", "/bots/tidy/runs", body)
    assert answer.status == 413 and home.json("runs")["runs"] == []


@pytest.mark.parametrize("wrong", [{"iterations": -1}, {"iterations": -2}, {"sleep_secs": -1}, {"iterations": 1 << 40}])
def test_a_number_that_no_run_could_have_is_refused(home, hub, bot, repo, wrong):
    answer = home.http("POST", "/bots/tidy/runs", json.dumps({"prompt": "x", "working_dir": str(repo), **wrong}).encode())
    assert answer.status == 400 and answer.json()["code"] == "INVALID_BODY" and home.json("runs")["runs"] == []


def test_a_summary_without_end_is_cut_at_a_character(home, run):
    record = home.json("runs", "show", run(last=done(summary="a" + "ü" * 100_000)))
    assert record["summary"] == "a" + "ü" * 1999
