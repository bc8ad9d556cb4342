"""The commands of bots, as a new user would type them: a real hub, real repositories, a scripted model."""
import json
import os
import re
import signal
import subprocess

import pytest

from chat_rig import Terminal
from conftest import BIN, DEADLINE, retry
from test_bots_runs import viewers

IDENTITY = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_NOSYSTEM": "1"}


def git(dir, *args):
    done = subprocess.run(["git", *args], cwd=dir, env={**os.environ, **IDENTITY}, text=True, capture_output=True,
                          timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repo(tmp_path):
    """A repository with one commit."""
    dir = tmp_path / "shop"
    dir.mkdir()
    git(dir, "init", "-q", "-b", "main")
    (dir / "a.txt").write_text("one\ntwo\n")
    (dir / ".gitignore").write_text("build/\n")
    git(dir, "add", ".")
    git(dir, "commit", "-q", "-m", "first")
    return dir


@pytest.fixture
def script(home, tmp_path):
    """Write a scenario and let every command of this home play it."""

    def write(*lines):
        path = tmp_path / "scenario.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        home.env["AFLOAT_PROVIDER"] = "scripted"
        home.env["AFLOAT_SCENARIO"] = str(path)

    return write


def call(name, **input):
    return {"name": name, "input": input}


def done(summary="did it", action="review", text="Finished."):
    return {"text": text, "tool_calls": [call("session_complete", summary=summary, action=action)]}


WRITE = {"text": "I write.", "tool_calls": [call("write_file", path="b.txt", content="hello\n")]}
BYE = {"text": "bye"}


@pytest.fixture
def bot(home, hub):
    home.ok("bots", "create", "tidy", "--instructions", "Tidy up.")
    return "tidy"


@pytest.fixture
def run(home, hub, bot, repo, script):
    """A run that wrote b.txt; its id."""

    def go(*args, last=None, **more):
        script(WRITE, last or done(), BYE)
        ended = home.cli("run", bot, *(args or ("write b",)), cwd=repo, **more)
        assert ended.returncode == 0, ended.stderr
        return re.search(r"^look: afloat runs diff (\w{8})$", ended.stderr, re.M).group(1)

    return go


# ---- bots ----------------------------------------------------------------------------------


def test_a_bot_is_made_listed_shown_and_deleted(home, hub, repo):
    assert "no bots yet; create one with 'afloat bots create NAME'" in home.cli("bots").stderr
    path = home.ok("bots", "create", "tidy", "-d", "tidies up", "--instructions", "Be brief.", "-n", "4",
                   "--sandbox", "read-only").strip()
    assert path == str(home.dir / "bots/tidy/config.md")
    text = (home.dir / "bots/tidy/config.md").read_text()
    assert 'description = "tidies up"' in text and "max_iterations = 4" in text and "Be brief." in text
    assert re.search(r"^tidy +user +tidies up$", home.ok("bots"), re.M)
    shown = home.ok("bot", "show", "tidy", cwd=repo)
    assert re.search(r"^max_iterations +4$", shown, re.M) and re.search(r"^project +shop$", shown, re.M)
    assert shown.endswith("\nBe brief.\n")
    assert home.json("bots")["bots"][0]["name"] == "tidy"
    home.ok("bots", "rm", "tidy")
    assert home.json("bots")["bots"] == [] and not (home.dir / "bots/tidy/config.md").exists()


def test_a_bot_is_never_overwritten(home, hub):
    home.ok("bots", "create", "tidy", "--instructions", "mine")
    again = home.cli("bots", "new", "tidy", "--instructions", "other")
    assert again.returncode == 7 and "tidy" in again.stderr
    assert "mine" in (home.dir / "bots/tidy/config.md").read_text()


@pytest.mark.parametrize("name", ["Tidy", "../x", "a/b", ""])
def test_a_bad_name_is_refused(home, hub, name):
    assert home.cli("bots", "create", name).returncode in (1, 2)
    assert not (home.dir / "bots").exists() or os.listdir(home.dir / "bots") == []


@pytest.mark.parametrize("args", [["bots", "show"], ["run"], ["memory"], ["history"], ["bots", "delete"]])
def test_a_typing_error_names_the_nearest_bot(home, hub, bot, repo, args):
    wrong = home.cli(*args, "tiyd", cwd=repo)
    assert wrong.returncode == 3 and "did you mean 'tidy'" in wrong.stderr


def test_a_broken_config_is_told_with_its_line(home, hub, bot, repo):
    (home.dir / "bots/tidy/config.md").write_text('+++\nmax_iterations = "many"\n+++\nx\n')
    wrong = home.cli("run", "tidy", cwd=repo)
    assert wrong.returncode != 0 and "config.md:2" in wrong.stderr
    listed = home.cli("bots")
    assert listed.returncode == 0 and "config.md" in listed.stdout + listed.stderr


def test_the_bots_of_openbot_are_imported(home, hub, tmp_path):
    old = tmp_path / "old"
    (old / "bots/sweep/workspaces/shop").mkdir(parents=True)
    (old / "bots/sweep/config.md").write_text('+++\ndescription = "sweeps"\n+++\nSweep.\n')
    (old / "bots/sweep/workspaces/shop/memory.json").write_text('{"entries": {"k": "v"}}')
    home.ok("bots", "import", "old", cwd=tmp_path)
    assert home.json("bots")["bots"][0]["description"] == "sweeps"
    assert home.ok("memory", "sweep", "get", "k", "--project", "shop") == "v\n"
    assert home.cli("bots", "import", "nowhere", cwd=tmp_path).returncode != 0


# ---- memory, skills, history ---------------------------------------------------------------


def test_memory_in_every_order_of_words(home, hub, bot, repo):
    home.ok("memory", "tidy", "set", "style", "tabs", cwd=repo)
    home.ok("memory", "set", "tidy", "long", "-", input="two\nlines", cwd=repo)
    assert home.ok("memory", "tidy", "get", "style", cwd=repo) == "tabs\n"
    assert home.ok("memory", "get", "tidy", "long", cwd=repo) == "two\nlines\n"
    for words in (["tidy"], ["tidy", "show"], ["show", "tidy"], ["--project", "shop", "tidy"]):
        assert re.search(r"^style +tabs$", home.ok("memory", *words, cwd=repo), re.M)
    assert home.json("memory", "tidy", cwd=repo)["entries"] == {"style": "tabs", "long": "two\nlines"}
    home.ok("memory", "tidy", "rm", "style", cwd=repo)
    assert home.cli("memory", "tidy", "get", "style", cwd=repo).returncode == 3
    assert "1 entry of 'shop'" in home.cli("memory", "tidy", "clear", cwd=repo).stderr
    assert "remembers nothing of 'shop'" in home.cli("memory", "tidy", cwd=repo).stderr


def test_memory_belongs_to_a_place(home, hub, bot, repo, tmp_path):
    home.ok("memory", "tidy", "set", "k", "v", cwd=repo)
    other = tmp_path / "other"
    other.mkdir()
    assert home.cli("memory", "tidy", "get", "k", cwd=other).returncode == 3
    assert home.ok("memory", "tidy", "get", "k", "--project", "shop", cwd=other) == "v\n"


def test_skills_are_saved_listed_shown_and_removed(home, hub, bot, repo):
    (repo / "deploy.md").write_text("Run make deploy.\n")
    home.ok("skills", "save", "deploy", "deploy.md", "-d", "how to ship", cwd=repo)
    home.ok("skill", "save", "local", "--bot", "tidy", "-d", "mine", input="Only for tidy.\n", cwd=repo)
    assert (home.dir / "skills/deploy.md").exists() and (home.dir / "bots/tidy/skills/local.md").exists()
    assert re.search(r"^deploy +user +how to ship$", home.ok("skills", cwd=repo), re.M)
    assert "local" not in home.ok("skills", cwd=repo)
    assert re.search(r"^local +bot +mine$", home.ok("skills", "--bot", "tidy", cwd=repo), re.M)
    assert home.ok("skills", "show", "deploy", cwd=repo) == "Run make deploy.\n"
    home.ok("skills", "delete", "deploy", cwd=repo)
    assert home.cli("skills", "get", "deploy", cwd=repo).returncode == 3
    assert home.cli("skills", "save", "x", "nowhere.md", cwd=repo).returncode == 3
    assert home.cli("skills", "save", "x", "-", input="", cwd=repo).returncode != 0


@pytest.mark.parametrize("verb", ["apply", "merge"])
def test_a_run_that_changed_nothing_has_nothing_to_take_over(home, bot, hub, script, repo, verb):
    script(BYE)
    ended = home.cli("run", bot, "hello", cwd=repo)
    id = re.search(r"^resume: afloat run \S+ --resume (\w{8})$", ended.stderr, re.M).group(1)
    taken = home.cli("runs", verb, id, cwd=repo)
    assert taken.returncode == 0 and "changed nothing: there is nothing to take over" in taken.stderr


@pytest.mark.parametrize("verb", ["apply", "merge"])
def test_a_run_that_changed_nothing_is_not_listed_as_taken_over(home, bot, hub, script, repo, verb):
    script(BYE)
    ended = home.cli("run", bot, "hello", cwd=repo)
    id = re.search(r"^resume: afloat run \S+ --resume (\w{8})$", ended.stderr, re.M).group(1)
    before = home.json("runs", "show", id, cwd=repo)
    home.ok("runs", verb, id, cwd=repo)
    after = home.json("runs", "show", id, cwd=repo)
    for key in ("action", "applied_at", "merged_at", "merged_into"):
        assert after[key] == before[key], key


def test_what_is_on_the_tree_already_is_not_reported_as_applied(home, bot, hub, script, repo):
    script(WRITE, BYE)
    ended = home.cli("run", bot, "go", cwd=repo)
    id = re.search(r"^take: afloat runs apply (\w{8})$", ended.stderr, re.M).group(1)
    first = home.cli("runs", "apply", id, cwd=repo)
    assert f"the changes of run {id} are in" in first.stderr and (repo / "b.txt").read_text() == "hello\n"
    again = home.cli("runs", "apply", id, cwd=repo)
    assert again.returncode == 0 and "changed nothing that is not there already" in again.stderr, again.stderr
    assert home.json("runs", "apply", id, cwd=repo)["written"] == 0


def test_a_row_of_the_history_says_what_the_metadata_say(home, bot, hub, script, repo):
    script(BYE)
    home.ok("run", bot, "hello", "--no-worktree", cwd=repo)
    row = home.json("history", bot, cwd=repo)["sessions"][0]
    kept = json.loads(next(home.dir.glob(f"bots/{bot}/workspaces/*/history/*/metadata.json")).read_text())
    row.pop("tokens")
    assert row == {k: kept[k] for k in row} and row["branch"] is None


def test_history_lists_and_shows_what_a_bot_did(home, run, repo):
    run()
    listed = home.ok("history", "tidy", cwd=repo)
    assert re.search(r"^#1 .* complete +review +did it$", listed, re.M)
    shown = home.ok("history", "tidy", "show", "1", cwd=repo)
    assert "write_file" in shown and "I write." in shown
    assert "write_file" not in home.ok("history", "show", "tidy", "1", "--section", "response", cwd=repo)
    row = home.json("history", "tidy", "list", cwd=repo)["sessions"][0]
    assert row["session_number"] == 1 and row["end_reason"] == "complete"
    assert home.ok("history", "tidy", "show", row["session_id"][:5], cwd=repo) == shown
    assert home.cli("history", "tidy", "show", "99", cwd=repo).returncode == 3


# ---- run -----------------------------------------------------------------------------------


def test_a_run_works_on_a_branch_and_leaves_the_tree_alone(home, hub, bot, repo, script):
    (repo / "a.txt").write_text("changed\n")
    (repo / "new.txt").write_text("untracked\n")
    before = git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")
    script(WRITE, {"tool_calls": [call("shell", cmd="mkdir build && echo x > build/out; cat new.txt")]}, done(), BYE)
    ended = home.cli("run", "tidy", "write b", cwd=repo)
    assert (ended.returncode, ended.stdout) == (0, "I write.\nFinished.\nbye\n"), ended.stderr
    assert (git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD")) == before
    assert "not kept" in ended.stderr and "build/" in ended.stderr
    look, take, resume = ended.stderr.splitlines()[-3:]
    assert look.startswith("look: afloat runs diff ") and take.startswith("take: afloat runs apply ")
    assert resume == f"resume: afloat run tidy --resume {look.split()[-1]}"
    assert git(repo, "branch", "--list", "afloat/*").strip() == f"afloat/tidy-{look.split()[-1]}"
    assert home.json("worktrees")["worktrees"] == []


def test_the_printed_lines_work_when_they_are_pasted(home, run, repo, script, tmp_path):
    id = run()
    (tmp_path / "bin").mkdir()
    os.symlink(BIN, tmp_path / "bin/afloat")
    ended = home.cli("run", "tidy", "go on", "--resume", cwd=repo)
    script(*[done()] * 12)
    lines = [line.partition(": ")[2] for line in ended.stderr.splitlines()[-3:]]
    assert lines[2] == f"afloat run tidy --resume {id}"  # the last run, not a new one
    env = {**home.env, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for line in lines:
        pasted = subprocess.run(["bash", "-c", line], cwd=repo, env=env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=DEADLINE)
        assert pasted.returncode == 0, (line, pasted.stderr)
    assert (repo / "b.txt").read_text() == "hello\n"


def test_a_resumed_run_goes_on_with_conversation_branch_and_number(home, run, repo, script):
    id = run()
    script({}, {}, {}, {"text": "I remember."}, done("more"), BYE)
    ended = home.cli("run", "tidy", "and now?", "--resume", id[:4], cwd=repo)
    assert ended.returncode == 0 and "session #2" in ended.stderr and "I remember." in ended.stdout
    record = home.json("runs", "show", id)
    assert record["run_id"] == id and [it["number"] for it in record["iterations"]] == [1, 2]
    assert len(git(repo, "branch", "--list", "afloat/*").splitlines()) == 1
    assert home.cli("run", "tidy", "--resume", "ffffffff", cwd=repo).returncode == 3


def test_stdin_at_its_end_is_not_the_end_of_the_run(home, hub, bot, repo, script):
    script({"text": "one", "delay_ms": 300}, {"text": "two"})
    ended = home.cli("run", "tidy", "-n", "2", "--sleep", "0", cwd=repo)  # stdin is /dev/null
    assert (ended.returncode, ended.stdout) == (0, "one\ntwo\n"), ended.stderr
    assert home.json("runs")["runs"][0]["end_reason"] == "limit"


def test_outside_of_git_it_is_refused_with_the_way_out(home, hub, bot, tmp_path, script):
    script({"text": "here"}, done(), BYE)
    place = tmp_path / "plain"
    place.mkdir()
    refused = home.cli("run", "tidy", "x", cwd=place)
    assert refused.returncode != 0 and "--skip-git-check" in refused.stderr
    ended = home.cli("run", "tidy", "x", "--skip-git-check", cwd=place)
    assert ended.returncode == 0 and "here" in ended.stdout
    assert not any(line.startswith("look:") for line in ended.stderr.splitlines())


def test_without_a_worktree_it_works_in_place(home, hub, bot, repo, script):
    script(WRITE, done(), BYE)
    ended = home.cli("run", "tidy", "x", "--no-worktree", cwd=repo)
    assert ended.returncode == 0 and (repo / "b.txt").read_text() == "hello\n"
    assert git(repo, "branch", "--list", "afloat/*") == ""


def test_a_provider_that_fails_fails_the_run(home, hub, bot, repo, script):
    script({"when": "never said", "text": "x"})
    ended = home.cli("run", "tidy", "-n", "0", "--sleep", "0", cwd=repo)
    assert ended.returncode == 1 and "resume: afloat run tidy --resume" in ended.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_its_work_kept(home, hub, bot, repo, script, signum):
    script(WRITE, {"tool_calls": [call("shell", cmd="touch started; sleep 60")]}, BYE)
    process = home.popen("run", "tidy", "x", cwd=repo)
    retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    process.send_signal(signum)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    record = home.json("runs")["runs"][0]
    assert record["end_reason"] == "interrupted"
    assert git(repo, "show", f"{record['branch']}:b.txt") == "hello\n"
    assert f"resume: afloat run tidy --resume {record['run_id']}" in err.decode()
    assert home.json("history", "tidy", cwd=repo)["sessions"][0]["end_reason"] == "interrupted"


def test_a_second_signal_ends_what_will_not_end(home, hub, bot, repo, script):
    script({"tool_calls": [call("shell", cmd="trap '' INT TERM; touch started; sleep 60 & wait; wait")]}, BYE)
    process = home.popen("run", "tidy", "x", cwd=repo)
    retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 130
    assert home.json("runs")["runs"][0]["state"] == "ended"


def test_ctrl_c_ends_a_run_that_has_not_begun_yet(home, hub, bot, repo, script):
    script(BYE)
    config = home.dir / "bots/tidy/config.md"
    config.write_text('+++\n[worktree]\nsetup = ["touch started; sleep 60"]\n+++\nTidy up.\n')
    process = home.popen("run", "tidy", "x", cwd=repo)
    retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert not any(row["state"] == "running" for row in home.json("runs")["runs"])
    assert home.json("worktrees")["worktrees"] == [] and git(repo, "branch").split() == ["*", "main"]


def test_a_closed_terminal_detaches_and_attach_comes_back(home, hub, bot, repo, script, tmp_path):
    script({"tool_calls": [call("shell", cmd="touch started; while ! test -e go; do sleep 0.05; done")]}, done(), BYE)
    t = Terminal(home, "run", "tidy", "x", cwd=repo)
    started = retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    t.end.close()
    t.process.wait(DEADLINE)
    row = home.json("runs")["runs"][0]
    assert row["state"] == "running"
    retry(lambda: viewers(home) == 0)
    watcher = home.popen("runs", "attach", row["run_id"][:3])
    retry(lambda: viewers(home) == 1)  # it follows: a run that has ended is not played again
    (started[0].parent / "go").touch()
    out, err = watcher.communicate(timeout=DEADLINE)
    assert watcher.returncode == 0 and b"bye" in out and b"look: afloat runs diff" in err


def test_a_detached_run_goes_on_and_can_be_stopped(home, hub, bot, repo, script):
    script({"text": "one"}, {"text": "two"})
    started = home.cli("run", "tidy", "-n", "0", "--sleep", "600", "--detach", cwd=repo)
    id = started.stdout.strip()
    assert started.returncode == 0 and re.fullmatch(r"[0-9a-f]{8}", id)
    assert f"follow: afloat runs attach {id}" in started.stderr
    assert re.search(rf"^{id} +tidy +shop +running", home.ok("runs"), re.M)
    stopped = home.cli("runs", "stop", id)
    assert stopped.returncode == 0 and f"resume: afloat run tidy --resume {id}" in stopped.stderr
    assert home.json("runs", "show", id)["end_reason"] == "interrupted"


def test_json_prints_one_event_a_line(home, hub, bot, repo, script):
    script({"text": "hello"}, done(), BYE)
    ended = home.cli("run", "tidy", "hi", "--json", cwd=repo)
    types = [json.loads(line)["type"] for line in ended.stdout.splitlines()]
    assert types[0] == "bot.run.started" and types[-1] == "bot.run.ended" and "message.delta" in types
    assert json.loads(home.cli("run", "nobody", "--json", cwd=repo).stdout)["code"] == "NOT_FOUND"
    detached = home.json("run", "tidy", "hi", "--detach", cwd=repo)
    assert {"run_id", "session_id", "branch", "worktree"} <= set(detached)


def test_the_demo_model_says_what_it_is(home, hub, bot, repo):
    for more in ([], ["--detach"]):
        ended = home.cli("run", "tidy", "hello", *more, cwd=repo)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr.count("no model key found: this is the scripted demo model") == 1


def test_what_is_not_trusted_is_announced(home, hub, bot, repo, script):
    script({"text": "x"})
    (repo / ".afloat/bots/guest").mkdir(parents=True)
    (repo / ".afloat/bots/guest/config.md").write_text("Hello.\n")
    ended = home.cli("run", "tidy", "hi", cwd=repo)
    assert ended.returncode == 0 and ended.stderr.count("1 item of ") == 1
    refused = home.cli("run", "guest", "hi", cwd=repo)
    assert refused.returncode == 4 and "afloat trust" in refused.stderr
    home.ok("trust", cwd=repo)
    assert home.ok("run", "guest", "hi", cwd=repo) == "x\n"


def test_a_line_typed_during_the_run_reaches_the_model(home, hub, bot, repo, script):
    wait = "touch started; while ! test -e go; do sleep 0.05; done"
    script({"tool_calls": [call("shell", cmd=wait)]}, {"when": "mind the tests", "text": "I heard."}, done(), BYE)
    t = Terminal(home, "run", "tidy", "x", cwd=repo)
    started = retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    retry(lambda: not t.is_usual())  # the command has its terminal
    t.type("mind the tests\r")
    t.read(rb"> \x1b\[0mmind the tests\r")
    retry(lambda: "mind the tests" in "".join(p.read_text() for p in home.dir.glob("bots/tidy/**/events.jsonl")))
    (started[0].parent / "go").touch()
    assert t.rest() == 0 and "I heard." in t.screen() and t.is_usual()


# ---- taking over ---------------------------------------------------------------------------


def test_runs_are_listed_and_shown(home, run, repo, tmp_path):
    id = run()
    assert re.search(rf"^{id} +tidy +shop +complete +review .* did it$", home.ok("runs", cwd=tmp_path), re.M)
    shown = home.ok("runs", "show", id[:3])
    assert re.search(r"^summary +did it$", shown, re.M) and re.search(r"^#1 ", shown, re.M)
    assert home.json("runs", "--bot", "tidy")["runs"][0]["run_id"] == id
    assert home.cli("runs", "ls", "--bot", "other").returncode == 3
    for verb in ("show", "diff", "apply", "merge", "discard", "attach", "stop"):
        assert home.cli("runs", verb, "ffff0000", cwd=repo).returncode == 3


def test_the_diff_is_a_patch_of_the_bots_own_work(home, hub, bot, repo, script, tmp_path):
    (repo / "mine.txt").write_text("mine\n")
    script({"tool_calls": [call("write_file", path="b.txt", content="hello\f\n")]}, done(), BYE)
    id = home.cli("run", "tidy", "x", cwd=repo).stderr.splitlines()[-1].split()[-1]
    patch = home.ok("runs", "diff", id)
    assert "+hello" in patch and "mine" not in patch and "\x1b" not in patch
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    subprocess.run(["git", "apply", "-"], input=patch, cwd=clone, text=True, check=True)
    assert (clone / "b.txt").read_text() == "hello\f\n"
    assert [f["path"] for f in home.json("runs", "diff", id)["files"]] == ["b.txt"]
    assert "\x1b[32m+hello" in home.ok("runs", "diff", id, "--color", "always")


def test_apply_puts_the_work_on_a_dirty_tree(home, run, repo):
    id = run()
    (repo / "a.txt").write_text("mine\n")
    refused = home.cli("runs", "merge", id, cwd=repo)
    assert refused.returncode == 7 and f"afloat runs apply {id}" in refused.stderr
    home.ok("runs", "apply", id, cwd=repo)
    assert (repo / "b.txt").read_text() == "hello\n" and (repo / "a.txt").read_text() == "mine\n"
    assert " applied " in home.ok("runs")


def test_apply_is_all_or_nothing(home, hub, bot, repo, script):
    edits = [call("write_file", path="a.txt", content="theirs\n"), call("write_file", path="b.txt", content="b\n")]
    script({"tool_calls": edits}, done(), BYE)
    ended = home.cli("run", "tidy", "x", cwd=repo)
    id = ended.stderr.splitlines()[-1].split()[-1]
    (repo / "a.txt").write_text("mine\n")
    refused = home.cli("runs", "apply", id, cwd=repo)
    assert refused.returncode == 7 and "a.txt" in refused.stderr
    assert (repo / "a.txt").read_text() == "mine\n" and not (repo / "b.txt").exists()


def test_merge_takes_the_commits_and_discard_keeps_the_branch(home, run, repo):
    id = run()
    said = home.cli("runs", "merge", id, cwd=repo)
    assert said.returncode == 0 and "merged into 'main'" in said.stderr and (repo / "b.txt").exists()
    assert " merged " in home.ok("runs")
    (repo / "b.txt").unlink()
    git(repo, "commit", "-q", "-a", "-m", "gone")
    other = run()
    said = home.cli("runs", "discard", other, cwd=repo)
    assert said.returncode == 0 and f"afloat/tidy-{other}" in git(repo, "branch")
    home.ok("runs", "discard", other, "--delete-branch", cwd=repo)
    assert f"afloat/tidy-{other}" not in git(repo, "branch")


@pytest.mark.parametrize("answer, merged", [("y\r", True), ("\r", False)])
def test_a_bot_that_wants_to_merge_is_asked_about_on_a_terminal(home, hub, bot, repo, script, answer, merged):
    script(WRITE, done(action="merge"), BYE)
    t = Terminal(home, "run", "tidy", "x", cwd=repo)
    t.read(rb"into main\? \[y/N\] ")
    t.type(answer)
    assert t.rest() == 0 and (repo / "b.txt").exists() == merged


def test_without_a_terminal_nothing_is_merged_unless_it_was_asked_for(home, run, repo):
    run("write", last=done(action="merge"), input="y\n")
    assert not (repo / "b.txt").exists()
    run("write", "--merge", last=done(action="merge"))
    assert (repo / "b.txt").read_text() == "hello\n"


# ---- worktrees -----------------------------------------------------------------------------


def test_worktrees_of_live_runs_are_listed_and_never_cleaned(home, hub, bot, repo, script):
    script({"tool_calls": [call("shell", cmd="touch started; sleep 60")]}, BYE)
    id = home.ok("run", "tidy", "x", "--detach", cwd=repo).strip()
    started = retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    row = home.json("worktrees")["worktrees"][0]
    assert row["run_id"] == id and row["state"] == "live"
    listed = home.ok("worktrees", "ls")
    assert f"tidy {id}" in listed and " live " in listed and "1 uncommitted" in listed
    assert home.json("worktrees", "clean", "--dry-run")["removed"] == []
    home.ok("worktrees", "clean")
    assert started[0].exists()
    home.ok("runs", "stop", id, "--force")
    assert not started[0].exists()


# ---- chat ----------------------------------------------------------------------------------


def test_a_conversation_with_a_bot_has_its_instructions_and_memory(home, hub, bot, repo, script):
    script({"text": "first"}, {"text": "second"})
    home.ok("memory", "tidy", "set", "style", "tabs are best", cwd=repo)
    assert home.ok("chat", "--bot", "tidy", "hi", cwd=repo) == "first\n"
    kept = "".join(p.read_text() for p in home.dir.glob("bots/tidy/workspaces/shop/history/*/requests.jsonl"))
    assert "Tidy up." in kept and "tabs are best" in kept
    assert home.ok("chat", "--bot", "tidy", "-c", "and?", cwd=repo) == "second\n"
    assert home.cli("chat", "-c", "x", cwd=repo).returncode == 3
    assert home.cli("chat", "--bot", "nobody", "hi", cwd=repo).returncode == 3


# ---- Lua -----------------------------------------------------------------------------------


LUA = """
command { name = "create", run = function(args)
  local t, why = worktree.create { repo = args[1], branch = args[2], base = args[3] }
  return t and t.path or why
end }
command { name = "remove", run = function(args)
  local ok, why = worktree.remove(args[1])
  return ok and "gone" or why
end }
command { name = "list", run = function(args) return json.encode(worktree.list(args[1])) end }
command { name = "mine", run = function() return json.encode(hub.get_worktrees()) end }
hooks.on("worktree_created", "c", function(w) events.emit("user.made", w) end)
hooks.on("worktree_deleted", "d", function(w) events.emit("user.gone", w) end)
"""


@pytest.fixture
def trees(home):
    """A plugin whose commands are the functions of `worktree`."""
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins/trees.lua").write_text(LUA)


def heard(home, type):
    lines = home.ok("events", "--types", type, "--json").splitlines()
    return [json.loads(line)["data"] for line in lines]


def test_lua_makes_lists_and_removes_worktrees(home, trees, start_hub, repo):
    start_hub()
    path = home.ok("trees:create", str(repo), "try/it").strip()
    assert path == str(home.dir / "worktrees/shop/try-it")
    assert git(path, "branch", "--show-current").strip() == "try/it"
    assert [w["branch"] for w in json.loads(home.ok("trees:list", str(repo)))] == ["main", "try/it"]
    assert json.loads(home.ok("trees:mine")) == [{"path": path, "branch": "try/it", "repository": str(repo)}]
    (home.dir / "worktrees/shop/try-it/new.txt").write_text("work\n")
    assert "not committed" in home.ok("trees:remove", path) and os.path.exists(path)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "work")
    assert home.ok("trees:remove", path) == "gone\n" and not os.path.exists(path)
    assert git(repo, "show", "try/it:new.txt") == "work\n" and json.loads(home.ok("trees:mine")) == []
    assert [w["path"] for w in retry(lambda: heard(home, "user.gone"))] == [path]


def test_worktrees_are_made_and_removed_over_http(home, start_hub, repo):
    start_hub()
    made = home.http("POST", "/worktrees", json.dumps({"repo": str(repo), "branch": "try"}).encode()).json()
    assert made["branch"] == "try" and made["repository"] == str(repo) and os.path.isdir(made["path"])
    listed = home.http("GET", f"/worktrees?repo={repo}").json()["worktrees"]
    assert [w["branch"] for w in listed] == ["main", "try"]
    again = home.http("POST", "/worktrees", json.dumps({"repo": str(repo), "branch": "try"}).encode())
    assert again.status == 409 and again.json()["code"] == "CONFLICT"
    run = home.http("POST", "/worktrees", json.dumps({"repo": str(repo), "branch": "afloat/x"}).encode())
    assert run.status == 400 and run.json()["code"] == "INVALID_NAME"
    gone = home.http("DELETE", f"/worktrees?path={made['path']}")
    assert gone.status == 200 and not os.path.exists(made["path"])


def test_lua_is_told_why_not(home, trees, start_hub, repo, tmp_path):
    start_hub()
    assert "afloat/" in home.ok("trees:create", str(repo), "afloat/x-12345678")
    assert "absolute" in home.ok("trees:create", "shop", "x")
    assert "no-such" in home.ok("trees:create", str(repo), "x", "no-such")
    assert home.ok("trees:create", str(tmp_path), "x").strip()
    assert "worktree" in home.ok("trees:remove", str(repo)) and (repo / "a.txt").exists()
    assert git(repo, "branch").split() == ["*", "main"] and json.loads(home.ok("trees:mine")) == []


def test_lua_hears_of_the_worktrees_of_runs_and_leaves_them_alone(home, trees, start_hub, repo, script):
    start_hub()
    home.ok("bots", "create", "tidy")
    script({"tool_calls": [call("shell", cmd="touch started; sleep 60")]}, BYE)
    id = home.ok("run", "tidy", "x", "--detach", cwd=repo).strip()
    started = retry(lambda: list((home.dir / "worktrees").glob("*/*/started")))
    path = str(started[0].parent)
    assert [w["path"] for w in retry(lambda: heard(home, "user.made"))] == [path]
    assert [w["branch"] for w in json.loads(home.ok("trees:mine"))] == [f"afloat/tidy-{id}"]
    assert "belongs to a run" in home.ok("trees:remove", path) and started[0].exists()
    home.ok("runs", "stop", id, "--force")
    assert [w["path"] for w in retry(lambda: heard(home, "user.gone"))] == [path]
    assert json.loads(home.ok("trees:mine")) == []


def test_an_error_of_a_run_is_printed_once(home, hub, script, repo):
    script({"when": "nothing of the kind", "text": "x"})
    home.ok("bots", "create", "worker")
    ended = home.cli("run", "worker", "go", cwd=repo)
    assert ended.returncode == 1 and ended.stderr.count("expects 'nothing of the kind'") == 1, ended.stderr
    run = home.json("runs", cwd=repo)["runs"][0]["run_id"]
    assert "expects 'nothing of the kind'" in home.cli("runs", "show", run, cwd=repo).stdout


LISTS = {"/bots": "bots", "/skills": "skills", "/template": "templates", "/provider": "providers", "/worktrees": "worktrees",
         "/trust": "places", "/pty": "ptys", "/session-types": "types", "/provider/scripted/models": "models"}


def test_a_list_comes_in_pages_whichever_it_is(home, hub):
    for name in ("ant", "bee", "cat"):
        save_bot = home.http("POST", "/bots", json.dumps({"name": name}).encode())
        save_skill = home.http("PUT", f"/skills/{name}", json.dumps({"body": "Steps."}).encode())
        assert (save_bot.status, save_skill.status) == (201, 200)
    for path, key in LISTS.items():
        whole = home.http("GET", path).json()
        rows, cursor = [], "0"
        while cursor is not None:
            got = home.http("GET", f"{path}?limit=2&cursor={cursor}").json()
            assert len(got[key]) == min(2, len(whole[key]) - len(rows)) and list(got) == list(whole), got
            rows, cursor = rows + got[key], got["next"]
        assert rows == whole[key] and whole["next"] is None
        assert home.http("GET", f"{path}?cursor=9999").json()[key] == []
        for wrong in ("limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=-1"):
            assert home.http("GET", f"{path}?{wrong}").status == 400, (path, wrong)


def test_the_skill_about_plugins_comes_with_the_program(home, hub, tmp_path):
    rows = home.json("skills", "list")["skills"]
    assert [(r["name"], r["source"]) for r in rows] == [("plugin-authoring", "shipped")]
    shown = home.cli("skills", "show", "plugin-authoring")
    assert "plugin_save" in shown.stdout and shown.stderr.splitlines() == ["afloat: it comes with the program"]
    home.env["AFLOAT_PROVIDER"] = "scripted"
    scenario = tmp_path / "scenario.jsonl"
    scenario.write_text('{"tool_calls": [{"name": "skill", "input": {"name": "plugin-authoring"}}]}\n'
                        '{"when": "CHANGE_DROPPED", "text": "read"}\n')
    home.env["AFLOAT_SCENARIO"] = str(scenario)
    assert home.ok("chat", "-p", "write a plugin", cwd=tmp_path).strip() == "read"


def test_a_users_skill_of_the_same_name_wins(home, hub):
    home.ok("skills", "save", "plugin-authoring", "-", input="My own way.")
    [row] = home.json("skills", "list")["skills"]
    assert row["source"] == "user" and "My own way." in home.ok("skills", "show", "plugin-authoring")
