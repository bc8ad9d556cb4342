"""The environment of a project in the runs of bots there: a worktree is its repository by content, and no
`--follow` covers what a bot writes in one."""
import json

import pytest

from conftest import retry
from test_bots_cli import BYE, bot, call, done, git, repo, script  # noqa: F401


@pytest.fixture
def env(home, repo):
    """Write the environment of the repository, commit it, and allow it."""

    def write(toml, *flags, **files):
        (repo / ".afloat").mkdir(exist_ok=True)
        (repo / ".afloat/env.toml").write_text(toml)
        for name, text in files.items():
            (repo / name).write_text(text)
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "environment")
        home.ok("env", "allow", *flags, str(repo))

    return write


def journal(home):
    """Events of the last session of the bot."""
    path = max(home.dir.glob("bots/tidy/workspaces/shop/history/*/events.jsonl"), key=lambda p: p.stat().st_mtime_ns)
    return [json.loads(line) for line in path.read_text().splitlines()]


def outputs(events):
    return [e["output"].strip() for e in events if e["type"] == "tool.completed" and "output" in e]


def shell(cmd):
    return {"tool_calls": [call("shell", cmd=cmd)]}


def run(home, repo):
    ended = home.cli("run", "tidy", "go", cwd=repo)
    assert ended.returncode == 0, ended.stderr
    return journal(home)


def test_a_run_has_the_environment_of_its_repository(home, hub, bot, repo, script, env):
    env('[env]\nFOO = "bar"\n[path]\nprepend = ["bin"]\n')
    script(shell('echo "$FOO|$PATH|$PWD"'), done(), BYE)
    events = run(home, repo)
    told = [e for e in events if e["type"] == "env.applied"]
    # once: that the worktree goes is no change of it
    assert len(told) == 1 and told[0]["added"] == ["FOO"] and told[0]["changed"] == ["PATH"], events
    assert told[0]["project"].startswith(str(home.dir / "worktrees"))
    foo, path, pwd = outputs(events)[0].split("|")
    assert foo == "bar" and pwd == told[0]["project"] and path.startswith(f"{pwd}/bin:"), events


def test_what_a_bot_changes_in_its_worktree_is_not_followed(home, hub, bot, repo, script, env):
    """Values alone follow a person's word for his own repository, not for a worktree of ours."""
    env('dotenv = ["vars"]\n', "--follow", vars="FOO=good\n")
    script(shell("echo FOO=bad > vars"), shell("echo $FOO"), done(), BYE)
    events = run(home, repo)
    assert "Read-only" in outputs(events)[0] and outputs(events)[1] == "good", events


def test_a_program_that_a_bot_wrote_in_its_worktree_is_not_run(home, hub, bot, repo, script, env, tmp_path):
    env('script = "env.sh"\n', "--follow", **{"env.sh": "export FOO=good\n"})
    script(shell(f"echo 'touch {tmp_path}/escaped; export FOO=bad' > env.sh"), shell("echo $FOO"), done(), BYE)
    events = run(home, repo)
    assert "Read-only" in outputs(events)[0] and outputs(events)[1] == "good", events
    assert not (tmp_path / "escaped").exists()


def test_the_watch_of_a_run_ends_with_it(home, hub, bot, repo, script, env):
    from test_env_session import watched, watched_at_rest
    env('[env]\nFOO = "bar"\n')
    none = watched_at_rest(hub)
    script(shell("echo $FOO"), done(), BYE)
    assert outputs(run(home, repo))[0] == "bar"
    retry(lambda: watched(hub) <= none)
