"""Going back: files and conversation of a session as they were before a turn, through the real program."""
import concurrent.futures
import json
import os
import subprocess

import pytest

from conftest import Hub, retry
from test_agent import Session, call


def git(dir, *args):
    done = subprocess.run(["git", "-C", str(dir), *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repo(tmp_path):
    dir = tmp_path / "repo"
    (dir / "sub").mkdir(parents=True)
    git(dir, "init", "-q", "-b", "main")
    git(dir, "config", "user.email", "user@example.org")
    git(dir, "config", "user.name", "User")
    (dir / "a.txt").write_text("one\n")
    (dir / "sub/b.txt").write_text("two\n")
    (dir / ".gitignore").write_text("scenario-*\n")
    git(dir, "add", "-A")
    git(dir, "commit", "-q", "-m", "first")
    return dir


def tree(dir):
    """Every file with its mode and bytes, the repository's own left out."""
    found = {}
    for path in sorted(dir.rglob("*")):
        name = str(path.relative_to(dir))
        if name.startswith(".git/") or name.startswith("scenario-") or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = os.readlink(path) if path.is_symlink() else (oct(path.stat().st_mode), path.read_bytes())
    return found


def use(tool, **input):
    return {"text": "", "tool_calls": [{"name": tool, "input": input}]}


def said(text):
    return {"text": text}


EDIT = use("edit_file", path="a.txt", old="one", new="ONE")
SHELL = use("shell", cmd="echo more >> a.txt; rm sub/b.txt; chmod 755 a.txt; echo n > new.txt; ln -s a.txt link")


@pytest.fixture
def session(home, hub, repo):
    def start(*scenes):
        return Session(home, repo, scenes, permission="auto")
    return start


def test_files_and_conversation_go_back_and_forth(session, repo, home):
    first = tree(repo)
    s = session(EDIT, said("edited"), SHELL, said("ran"), said("after all"))
    t1 = s.ask("edit it")["turn_id"]
    second = tree(repo)
    t2 = s.ask("run it")["turn_id"]
    third = tree(repo)
    points = s.call("GET", "/checkpoints")["checkpoints"]
    assert [(p["turn"], p["text"]) for p in points] == [(t1, "edit it"), (t2, "run it")]
    assert points[0]["files"] == [str(repo / "a.txt")]
    assert set(points[1]["files"]) == {str(repo / n) for n in ("a.txt", "sub/b.txt", "new.txt", "link")}

    plan = s.call("POST", "/rewind", {"to": t1, "dry_run": True})
    assert plan["dry_run"] and set(plan["deleted"]) == {str(repo / "new.txt"), str(repo / "link")}
    assert tree(repo) == third

    back = s.call("POST", "/rewind", {})
    assert back["to"] == t2 and back["conflicts"] == [] and tree(repo) == second
    assert s.call("POST", "/rewind", {"to": t1})["restored"] == [str(repo / "a.txt")]
    assert tree(repo) == first
    rewinds = [e for e in s.events("session.rewound")]
    assert [e["to"] for e in rewinds] == [t2, t1] and rewinds[0]["conversation"] and rewinds[0]["files"]

    # every rewind is a point by itself: going back to it undoes it
    s.call("POST", "/rewind", {"to": rewinds[0]["checkpoint"]})
    assert tree(repo) == third
    s.ask("and now?")
    messages = json.dumps(s.requests()[-1]["body"]["messages"])
    assert "edit it" in messages and "run it" in messages and "and now?" in messages


@pytest.mark.parametrize("part", ["files", "conversation"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_rewind_of_one_part_alone_can_be_undone_like_any_other(home, killed, repo, part, restart):
    s = Session(home, repo, [EDIT, said("edited"), said("after all")], permission="auto")
    s.ask("edit it")
    other = {"files": "conversation", "conversation": "files"}[part]
    s.call("POST", "/rewind", {"to": "t1", other: False})
    assert (repo / "a.txt").read_text() == ("one\n" if part == "files" else "ONE\n")
    if restart:
        killed()
    s.call("POST", "/rewind", {"to": s.call("GET", "/checkpoints")["checkpoints"][-1]["turn"]})
    assert (repo / "a.txt").read_text() == "ONE\n"
    s.ask("and now?", env={"AFLOAT_PROVIDER": "scripted", "PATH": os.environ["PATH"]})
    assert "edit it" in json.dumps(s.requests()[-1]["body"]["messages"])


def test_a_file_written_through_a_link_comes_back(session, repo, home):
    (repo / "link").symlink_to("a.txt")
    before = tree(repo)
    s = session(use("write_file", path="link", content="through\n"), use("write_file", path="a.txt", content="on\n"),
                use("write_file", path="~/" + os.path.relpath(repo / "home.txt", os.environ["HOME"]), content="made\n"),
                said("done"))
    turn = s.ask()["turn_id"]
    assert (repo / "a.txt").read_text() == "on\n" and (repo / "home.txt").exists()
    [point] = s.call("GET", "/checkpoints")["checkpoints"]
    assert point["files"] == [str(repo / "a.txt"), str(repo / "home.txt")]
    back = s.call("POST", "/rewind", {"to": turn})
    assert back["conflicts"] == [] and tree(repo) == before


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
def test_a_file_above_the_target_of_a_link_comes_back(home, hub, repo, sandbox):
    (repo / "sub" / "deep").mkdir()
    (repo / "x").symlink_to("sub/deep")
    (repo / "b.txt").write_text("mine\n")
    before = tree(repo)
    s = Session(home, repo, [use("edit_file", path="x/../b.txt", old="two", new="TWO"),
                             use("write_file", path="x/../../new.txt", content="made\n"), said("done")],
                permission="auto", sandbox=sandbox)
    turn = s.ask()["turn_id"]
    assert (repo / "sub" / "b.txt").read_text() == "TWO\n" and (repo / "new.txt").exists()
    back = s.call("POST", "/rewind", {"to": turn})
    assert back["conflicts"] == [] and tree(repo) == before


@pytest.fixture
def killed(home):
    """A function that kills the hub and starts another one."""
    running = [Hub(home)]

    def again():
        running[-1].process.kill()
        running[-1].process.communicate()
        running.append(Hub(home))
    yield again
    running[-1].close()


def test_the_model_forgets_what_was_taken_back(home, killed, repo):
    s = Session(home, repo, [said("first answer"), said("second answer"), said("third answer"), said("fourth answer")])
    s.ask("remember apples")
    turn = s.ask("remember pears")["turn_id"]
    s.call("POST", "/rewind", {"to": turn, "files": False})
    s.ask("what was it?")
    messages = json.dumps(s.requests()[-1]["body"]["messages"])
    assert "apples" in messages and "pears" not in messages and "second answer" not in messages
    # and the same after the journal was read again by another hub
    killed()
    s.ask("and now?", env={"AFLOAT_PROVIDER": "scripted", "PATH": os.environ["PATH"]})
    messages = json.dumps(s.requests()[-1]["body"]["messages"])
    assert "apples" in messages and "what was it?" in messages and "pears" not in messages


@pytest.mark.parametrize("path", ["../out/a.txt", "sub/../../out/a.txt", "/etc/a.txt", "..", ""])
def test_a_path_that_leads_out_of_its_directory_is_not_followed(home, killed, repo, path):
    s = Session(home, repo, [EDIT, said("edited")], permission="auto")
    turn = s.ask("edit it")["turn_id"]
    record = home.dir / "sessions" / s.id / "rewind.jsonl"
    text = record.read_text()
    assert '"path":"a.txt"' in text
    record.write_text(text.replace('"path":"a.txt"', f'"path":{json.dumps(path)}'))
    killed()
    assert s.call("POST", "/rewind", {"to": turn})["restored"] == []
    assert not (repo.parent / "out").exists() and (repo / "a.txt").read_text() == "ONE\n"


def test_an_edit_by_the_user_is_never_overwritten_unasked(session, repo, home):
    s = session(EDIT, said("done"))
    turn = s.ask()["turn_id"]
    (repo / "a.txt").write_text("mine\n")
    refused = s.call("POST", "/rewind", {"to": turn}, status=409)
    assert refused["code"] == "CONFLICT" and "a.txt" in refused["detail"]
    assert (repo / "a.txt").read_text() == "mine\n"
    assert not s.events("session.rewound")
    forced = s.call("POST", "/rewind", {"to": turn, "force": True})
    assert forced["conflicts"] == [str(repo / "a.txt")] and (repo / "a.txt").read_text() == "one\n"
    s.call("POST", "/rewind", {"to": s.events("session.rewound")[-1]["checkpoint"]})
    assert (repo / "a.txt").read_text() == "mine\n"


def test_a_killed_hub_loses_no_way_back(home, killed, repo):
    first = tree(repo)
    s = Session(home, repo, [use("shell", cmd="echo half > a.txt; rm sub/b.txt; touch at; sleep 600"), said("x")],
                permission="auto")
    turn = s.send()["turn_id"]
    retry(lambda: (repo / "at").exists())
    killed()
    s.call("POST", "/rewind", {"to": turn})
    assert tree(repo) == first


def test_a_command_after_a_kill_and_a_move_comes_back(home, killed, repo, tmp_path):
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repo), "other")
    first, there = tree(repo), tree(other)
    s = Session(home, repo, [use("shell", cmd="echo half > a.txt; touch at; sleep 600")], permission="auto")
    s.send()
    retry(lambda: (repo / "at").exists())
    killed()
    s.call("PATCH", "", {"working_dir": str(other)})
    scenario = tmp_path / "next.jsonl"
    scenario.write_text("".join(json.dumps(x) + "\n" for x in (said("over"), SHELL, said("ran there"))))
    turn = s.ask(env={"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario)})["turn_id"]
    assert "more" in (other / "a.txt").read_text()
    s.call("POST", "/rewind", {"to": turn})
    assert tree(other) == there
    s.call("POST", "/rewind", {"to": "t1"})
    assert tree(repo) == first


def test_what_is_refused(session, home, repo):
    s = session(use("shell", cmd="touch at; while ! test -e go; do sleep 0.05; done"), said("x"))
    assert s.call("POST", "/rewind", {}, status=404)["code"] == "NOT_FOUND"
    s.send()
    retry(lambda: (repo / "at").exists())
    assert s.call("POST", "/rewind", {}, status=409)["code"] == "TURN_RUNNING"
    (repo / "go").write_text("")
    s.wait_for("turn.completed")
    assert s.call("POST", "/rewind", {"to": "t99"}, status=404)["code"] == "NOT_FOUND"
    nothing = s.call("POST", "/rewind", {"files": False, "conversation": False}, status=400)
    assert nothing["code"] == "INVALID_BODY" and "'files'" in nothing["detail"]


def test_a_directory_that_comes_back_can_be_read_by_whom_it_could(session, repo, home):
    (repo / "sub/deep").mkdir()
    (repo / "sub/deep/c.txt").write_text("three\n")
    for dir in (repo, repo / "sub", repo / "sub/deep"):
        dir.chmod(0o755)
    s = session(use("shell", cmd="rm -r sub"), said("gone"))
    s.ask()
    assert not (repo / "sub").exists()
    s.call("POST", "/rewind", {})
    assert (repo / "sub/deep/c.txt").read_text() == "three\n"
    assert [oct((repo / d).stat().st_mode & 0o777) for d in ("sub", "sub/deep")] == ["0o755"] * 2


def test_outside_of_git_it_says_what_is_not_kept(home, hub, tmp_path):
    dir = tmp_path / "plain"
    dir.mkdir()
    (dir / "a.txt").write_text("one\n")
    s = Session(home, dir, [EDIT, use("shell", cmd="echo x > b.txt"), said("x")], permission="auto")
    turn = s.ask()["turn_id"]
    back = s.call("POST", "/rewind", {"to": turn})
    assert back["restored"] == [str(dir / "a.txt")] and back["not_kept"]
    assert (dir / "a.txt").read_text() == "one\n" and (dir / "b.txt").exists()


def test_what_a_command_changed_in_another_directory_comes_back(session, home, repo, tmp_path):
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repo), "other")
    first, there = tree(repo), tree(other)
    s = session(SHELL, said("ran"), SHELL, said("ran there"), SHELL, said("ran here again"))
    s.ask("run it")
    second = tree(repo)
    s.call("PATCH", "", {"working_dir": str(other)})
    s.ask("run it there")
    assert tree(other) != there
    s.call("PATCH", "", {"working_dir": str(repo)})
    s.ask("run it here again")
    back = s.call("POST", "/rewind", {"to": "t2"})
    assert str(other / "a.txt") in back["restored"] and back["not_kept"] == []
    assert tree(other) == there and tree(repo) == second
    s.call("POST", "/rewind", {"to": "t1"})
    assert tree(other) == there and tree(repo) == first


def test_the_command(session, home, repo):
    first = tree(repo)
    s = session(EDIT, said("x"), SHELL, said("y"))
    t1, t2 = s.ask()["turn_id"], s.ask()["turn_id"]
    third = tree(repo)
    listed = home.ok("sessions", "checkpoints", s.id)
    assert t1 in listed and t2 in listed
    looked = home.cli("sessions", "rewind", s.id, "--to", t1, "--dry-run")
    assert looked.returncode == 0 and "deleted" in looked.stdout and "new.txt" in looked.stdout
    assert tree(repo) == third
    done = home.cli("sessions", "rewind", s.id, "--to", t1, "--files")
    assert done.returncode == 0 and f"before {t1}" in done.stderr and tree(repo) == first
    assert not s.events("session.rewound")[-1]["conversation"]
    assert home.cli("sessions", "rewind", s.id, "--files", "--both").returncode == 2
    (repo / "a.txt").write_text("mine\n")
    assert home.cli("sessions", "rewind", s.id, "--to", t1, "--files").returncode == 7
    assert (repo / "a.txt").read_text() == "mine\n"


def test_a_purged_session_leaves_nothing(session, home, repo):
    s = session(EDIT, said("x"))
    s.ask()
    assert (home.dir / "sessions" / s.id / "kept").is_dir()
    call(home, "DELETE", f"/session/{s.id}?purge=true")
    retry(lambda: not (home.dir / "sessions" / s.id).exists())


def test_a_session_that_is_deleted_or_spoken_to_while_it_goes_back(session, home, hub, repo):
    """Both wait for the rewind, in whatever order they come; nothing is used after it is gone."""
    for i in range(10):
        s = session(EDIT, said("x"), said("y"))
        turn = s.ask()["turn_id"]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            back = pool.submit(home.http, "POST", f"/session/{s.id}/rewind", json.dumps({"to": turn}).encode())
            listed = pool.submit(home.http, "GET", f"/session/{s.id}/checkpoints")
            spoken = pool.submit(home.http, "POST", f"/session/{s.id}/message", b'{"text": "hi", "wait": true}')
            ended = pool.submit(home.http, "DELETE", f"/session/{s.id}?purge=true") if i % 2 else None
            assert back.result().status in (200, 404, 409) and listed.result().status in (200, 404)
            assert spoken.result().status in (200, 404, 409) and (ended is None or ended.result().status == 200)
        if ended is None:
            assert spoken.result().json()["state"] == "completed"
            if back.result().status != 200:  # the message was first
                s.call("POST", "/rewind", {"to": turn})
            assert (repo / "a.txt").read_text() == "one\n"
        else:
            git(repo, "checkout", "-q", "--", ".")
    assert call(home, "GET", "/healthz")["ok"]
