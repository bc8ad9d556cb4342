"""What is said to a run while it goes: every word is heard once, whenever it comes."""
import contextlib
import json
import os
import subprocess

from conftest import retry

ITERATIONS = 6


def make_repo(dir):
    env = {"PATH": os.environ["PATH"], "HOME": str(dir.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(dir)], env=env, check=True)
    (dir / "a").write_text("a\n")
    subprocess.run(["git", "-C", str(dir), "add", "a"], env=env, check=True)
    subprocess.run(["git", "-C", str(dir), *name, "commit", "-qm", "one"], env=env, check=True)
    return dir


def call(home, method, path, body=None):
    answer = home.http(method, path, json.dumps(body).encode() if body is not None else b"")
    assert answer.status < 300, (method, path, answer.status, answer.body)
    return answer.json()


def test_every_word_is_heard_once_whenever_it_comes(home, hub, tmp_path):
    """Words are said as fast as they are taken, so some come in turns, some between them, and some while a
    session is being made; none may be lost, none may be in two prompts."""
    repo = make_repo(tmp_path / "repo")
    scenario = tmp_path / "scenario.jsonl"
    lines = [{"text": "working", "tool_calls": [{"name": "shell", "input": {"cmd": "true"}}]}, {"text": "on"}]
    scenario.write_text("".join(json.dumps(x) + "\n" for x in lines * 60))
    call(home, "POST", "/bots", {"name": "ear", "sleep_secs": 0})
    env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario), "PATH": os.environ["PATH"]}
    run = call(home, "POST", "/bots/ear/runs", {"working_dir": str(repo), "iterations": ITERATIONS, "env": env})
    said, how = [], set()
    while True:
        word = f"word-{len(said)}-end"
        answer = home.http("POST", f"/runs/{run['run_id']}/input", json.dumps({"text": word}).encode())
        if answer.status == 409:
            break
        assert answer.status == 200, answer.body
        said.append(word)
        how.add(answer.json()["taken"])
    record = retry(lambda: (r := call(home, "GET", f"/runs/{run['run_id']}"))["state"] == "ended" and r)
    history = home.dir / "bots/ear/workspaces/repo/history"
    heard = record["unread"] or ""
    for it in record["iterations"]:
        for line in (history / it["session_id"] / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["type"] == "message.completed" and event["role"] == "user":
                heard += "\n" + event["text"]
    assert how == {"steered", "queued"}, (how, len(said))
    assert [w for w in said if heard.count(w) != 1] == []
    print(f"{len(said)} words in {len(record['iterations'])} iterations")


def test_a_word_that_comes_while_a_session_is_made_is_heard_whole(home, hub, tmp_path):
    """One word at a time, each when the one before was heard: some come when the prompt is made, without a word in it,
    and the session is not there yet."""
    repo = make_repo(tmp_path / "repo")
    scenario = tmp_path / "scenario.jsonl"
    scenario.write_text('{"text": "on"}\n' * 200)
    call(home, "POST", "/bots", {"name": "ear", "sleep_secs": 0})
    env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(scenario), "PATH": os.environ["PATH"]}
    run = call(home, "POST", "/bots/ear/runs", {"working_dir": str(repo), "iterations": 60, "env": env})
    history = home.dir / "bots/ear/workspaces/repo/history"

    def heard():
        text = ""
        for path in history.glob("*/events.jsonl"):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValueError):  # it is being written
                    event = json.loads(line)
                    if event["type"] == "message.completed" and event["role"] == "user":
                        text += "\n" + event["text"]
        return text

    said = []
    while home.http("POST", f"/runs/{run['run_id']}/input", json.dumps({"text": f"word-{len(said)}-end"}).encode()).status == 200:
        said.append(f"word-{len(said)}-end")
        retry(lambda: said[-1][1:] in heard() or call(home, "GET", f"/runs/{run['run_id']}")["state"] == "ended")
    record = retry(lambda: (r := call(home, "GET", f"/runs/{run['run_id']}"))["state"] == "ended" and r)
    all = heard() + (record["unread"] or "")
    assert [w for w in said if all.count(w) != 1] == []
