"""What bots know and keep: instructions, skills, memory, history, and what their tools may do."""
import contextlib
import json
import os
import re
import subprocess
import threading

import pytest

from bots import (DONE, Repo, Rig, Run, call, check_same, cold, complete, gate, repo, rig, say, shell,  # noqa: F401
                  use)
from conftest import BIN, DEADLINE, check_report, read_line, retry

TWO = 'sleep_secs = 0\nmax_iterations = 2\n'
SHIP = "\U0001f6a2"  # four bytes


def workspace(home, bot="worker", project="repo"):
    return home.dir / "bots" / bot / "workspaces" / project


# ---- the prompt ---------------------------------------------------------------------------------

def test_the_first_iteration_writes_a_skill_and_the_second_uses_it(rig):
    rig.bot(keys=TWO)
    body = "Ships are tied with a bowline."
    run = rig.run([use("skill_save", name="knots", description="how to tie", body=body), say("Saved."),
                   {"when": body, "text": "I know how.", **complete("tied")}, say("Bye.")], prompt=None)
    row = run.row()
    assert row["end_reason"] == "complete" and len(row["iterations"]) == 2, row
    assert run.results(1) == [("skill_save", True, run.results(1)[0][2], None)]
    assert "### knots" not in run.prompt(1) and "### knots" in run.prompt(2) and body in run.prompt(2)
    saved = list((rig.home.dir / "bots" / "worker" / "skills").rglob("*.md"))
    assert len(saved) == 1 and body in saved[0].read_text()
    assert "knots" in rig.home.ok("skills", "list", "--bot", "worker")


def test_the_prompt_has_the_order_of_the_contract(rig, repo):
    rig.bot(keys=TWO, instructions="You are the harbour master.\n")
    (rig.home.dir / "skills").mkdir()
    (rig.home.dir / "skills" / "moor.md").write_text("---\ndescription: mooring\n---\nBow first.\n")
    rig.home.ok("memory", "worker", "set", "berth", "seven", cwd=repo.root)
    rig.run([complete("the first"), say("x")])
    run = rig.start([gate(), say("one"), complete(), say("Bye.")], prompt="Look at the pier.\nTwice.", iterations=2)
    run.open_gate()
    run.wait()
    first, second = run.prompt(1), run.prompt(2)
    order = ["You are the harbour master.", "## Status", "- Project: repo", "- Session: 2",
             f"- Branch: afloat/worker-{run.id} (from main)", "## Available Skills", "### moor", "Bow first.",
             "## Memory", "berth", "seven", "## User Input", "Look at the pier.", "### Recent History",
             "- Session 1: the first", "## Instructions", "## Skills System"]
    places = [first.index(x) for x in order]
    assert places == sorted(places), first
    assert "- Session: 3" in second and "## User Input" not in second and "Look at the pier." not in second
    assert len(run.requests(2)[0]["messages"]) > 1, "the conversation goes on"


def test_the_last_five_summaries_are_told(rig):
    for n in range(1, 7):
        rig.run([complete(f"summary number {n}"), say("x")])
    run = rig.run(DONE)
    told = re.findall(r"^- Session (\d+): (.*)$", run.prompt(), re.M)
    assert told == [(str(n), f"summary number {n}") for n in range(2, 7)]


def test_defect_6_text_is_cut_at_borders_of_characters(rig):
    """Characters of four bytes round the borders of 100, 200 and 500."""
    for shift in range(4):
        text = "x" * shift + SHIP * 300
        rig.bot(instructions=text + "\n")
        run = rig.run([complete(text), {"text": text}], prompt=text)
        row = run.row()
        assert row["end_reason"] == "complete"
        for n in range(1, len(row["iterations"]) + 1):
            meta = run.metadata(n)
            for field in ("prompt_summary", "response_summary"):
                cut = meta[field]
                assert cut and "\ufffd" not in cut and set(cut.rstrip(".\u2026")) <= {"x", SHIP}, (field, cut)
    told = re.findall(r"^- Session \d+: (.*)$", run.prompt(), re.M)
    assert len(told) == 3 and all(set(t.rstrip(".\u2026")) <= {"x", SHIP} and len(t) <= 210 for t in told), told
    listed = rig.home.ok("history", "worker", cwd=rig.repo.root)
    assert "\ufffd" not in listed and SHIP in listed
    viewed = rig.run([use("session_history", action="list"), *DONE]).results()[0]
    assert viewed[1] and "\ufffd" not in viewed[2] and SHIP in viewed[2]


def test_the_configuration_is_read_anew_at_each_iteration(rig):
    rig.bot(keys=TWO, instructions="Be slow.\n")
    run = rig.start([gate(), say("one"), complete(), say("Bye.")], prompt=None)
    run.at_gate()
    rig.bot(keys=TWO, instructions="Be quick.\n")
    run.open_gate()
    run.wait()
    assert run.prompt(1).startswith("Be slow.") and run.prompt(2).startswith("Be quick.")


def test_a_broken_config_names_file_line_and_column(rig, repo):
    rig.bot(keys="max_iterations = 2\nsleep_secs = \n")
    done = rig.home.cli("run", "worker", "go", cwd=repo.root, env=rig.env(DONE))
    assert done.returncode != 0 and re.search(r"config\.md:3:\d+: ", done.stderr), done.stderr
    assert repo.branches() == []
    rig.bot(keys="max_iteration = 2\n")
    assert "max_iterations" in rig.home.ok("bots", "show", "worker", "--json", cwd=repo.root)


def test_an_unknown_bot_is_not_found_and_the_nearest_is_named(rig, repo):
    rig.bot("reviewer")
    done = rig.home.cli("run", "reviewr", "go", cwd=repo.root)
    assert done.returncode == 3 and "reviewer" in done.stderr, done
    assert not (rig.home.dir / "bots" / "reviewr").exists()
    for name in ("..", "../x", "A", "x/y"):
        assert rig.home.cli("run", name, "go", cwd=repo.root).returncode != 0
    assert sorted(os.listdir(rig.home.dir / "bots")) == ["reviewer"]


# ---- workspaces ---------------------------------------------------------------------------------

def test_repositories_of_one_name_do_not_share_a_workspace(home, hub, tmp_path):
    one, two = (Rig(home, Repo(tmp_path / d / "backend_api", {"f": "x\n"})) for d in ("a", "b"))
    first = one.run([use("memory", action="set", key="who", value="one"), *DONE])
    second = two.run([use("memory", action="list"), *DONE])
    assert first.row()["project"] == "backend-api"
    assert re.fullmatch(r"backend-api-[0-9a-f]{8}", second.row()["project"])
    assert "who" not in second.prompt() and first.metadata()["session_number"] == 1
    assert second.metadata()["session_number"] == 1
    assert "one" in home.ok("memory", "worker", "get", "who", cwd=one.repo.root)
    assert home.cli("memory", "worker", "get", "who", cwd=two.repo.root).returncode == 3
    assert "one" in home.ok("memory", "worker", "get", "who", "--project", "backend-api", cwd=two.repo.root)


def test_a_name_without_letters_gets_a_stable_workspace(home, hub, tmp_path):
    rig = Rig(home, Repo(tmp_path / "\u8239", {"f": "x\n"}))
    slugs = {rig.run(DONE).row()["project"] for _ in range(2)}
    assert slugs == {"project"}


# ---- memory -------------------------------------------------------------------------------------

def test_defect_11_commands_look_at_what_a_run_uses(rig, repo):
    rig.home.ok("memory", rig.bot(), "set", "from-cli", "typed", cwd=repo.root)
    run = rig.run([use("memory", action="set", key="from-bot", value="learnt"),
                   use("memory", action="get", key="from-cli"), *DONE])
    assert "from-cli" in run.prompt() and run.results()[1][2].strip().endswith("typed")
    entries = json.loads((workspace(rig.home) / "memory.json").read_text())["entries"]
    assert entries == {"from-cli": "typed", "from-bot": "learnt"}
    for words in (("memory", "worker"), ("memory", "worker", "show"), ("memory", "show", "worker")):
        assert {"from-cli", "learnt"} <= set(re.findall(r"[\w-]+", rig.home.ok(*words, cwd=repo.root)))
    shown = rig.home.json("bots", "show", "worker", cwd=repo.root)
    assert shown["memory_count"] == 2 and shown["session_count"] == 1
    assert "from-bot" in rig.run(DONE).prompt()


def test_a_corrupted_memory_is_set_aside_and_nothing_is_lost(rig, repo):
    rig.run([use("memory", action="set", key="a", value="1"), *DONE])
    file = workspace(rig.home) / "memory.json"
    file.write_text('{"entries": {"a": "1", "b')
    run = rig.run([use("memory", action="set", key="c", value="3"), *DONE])
    assert run.row()["end_reason"] == "complete" and run.results()[0][1]
    aside = list(file.parent.glob("memory.json.corrupt-*"))
    assert [p.read_text() for p in aside] == ['{"entries": {"a": "1", "b']
    assert json.loads(file.read_text())["entries"] == {"c": "3"}


def test_two_runs_at_once_lose_no_memory(rig):
    rig.bot()
    runs = rig.start_all([{"scenes": [use("memory", action="set", key=f"k{i}", value="v"), *DONE]} for i in range(6)])
    for run in runs:
        run.wait()
    assert json.loads((workspace(rig.home) / "memory.json").read_text())["entries"] == {f"k{i}": "v" for i in range(6)}


# ---- history ------------------------------------------------------------------------------------

def test_metadata_and_history_tell_what_happened(rig, repo):
    run = rig.run([shell("echo hi", "I'll greet."), shell("exit 3"),
                   {**complete("greeted", text="Hello, sea."), "usage": {"input": 100, "cached": 40, "output": 7}},
                   say("Bye.")])
    meta = run.metadata()
    assert meta["session_number"] == 1 and meta["run_id"] == run.id and meta["bot"] == "worker"
    assert meta["project"] == "repo" and meta["end_reason"] == "complete" and meta["action"] == "review"
    assert meta["response_summary"] == "greeted" and meta["command_count"] >= 2 and meta["engine"] == "native"
    assert meta["branch"] == f"afloat/worker-{run.id}" and meta["started_at"] <= meta["ended_at"]
    assert meta["tokens"]["input_tokens"] >= 100 and meta["tokens"]["cached_input_tokens"] >= 40
    assert "greeted" in rig.home.ok("history", "worker", cwd=repo.root)
    shown = rig.home.ok("history", "worker", "show", "1", cwd=repo.root)
    assert "$ echo hi" in shown and "exit 3" in shown and "Hello, sea." in shown


def test_the_history_tool_lists_views_and_pages_from_the_end(rig):
    lines = "".join(f"line {i}\n" for i in range(1, 61))
    rig.run([{**complete("sixty"), "text": lines}, say("Bye.")])
    run = rig.run([use("session_history", action="list"),
                   use("session_history", action="view", session_number=1, section="response", limit=5),
                   use("session_history", action="view", session_number=1, section="commands"),
                   use("session_history", action="view", session_number=99), *DONE])
    listed, viewed, commands, missing = run.results()[:4]
    assert listed[1] and "sixty" in listed[2]
    assert "Bye." in viewed[2] and "line 1\n" not in viewed[2] and "offset=5" in viewed[2]
    assert "line 60" not in commands[2]
    assert not missing[1] and "99" in missing[3]


# ---- safety -------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
def test_defect_14_skills_and_memory_can_be_written_in_every_box(rig, repo, mode):
    before = repo.state()
    run = rig.run([use("skill_save", name="knots", description="d", body="b"),
                   use("memory", action="set", key="k", value="v"), shell("echo x > file"),
                   shell(f"echo x >> {rig.home.dir}/bots/worker/config.md"), *DONE], sandbox=mode)
    ok = [r[1] for r in run.results()]
    assert ok[:4] == [True, True, mode == "workspace-write", False], run.results()
    assert json.loads((workspace(rig.home) / "memory.json").read_text())["entries"] == {"k": "v"}
    assert run.row()["end_reason"] == "complete"
    check_same(before, repo.state())


def test_defect_14_the_model_commits_in_the_box_but_settings_and_hooks_stay_closed(rig, repo):
    git = repo.root / ".git"
    (git / "hooks").mkdir(exist_ok=True)
    hooks = ("pre-commit", "post-commit", "reference-transaction", "post-checkout")
    for name in hooks:
        repo.save(f".git/hooks/{name}", f"#!/bin/sh\ntouch {rig.home.dir}/hook-ran-$PPID 2>&-\nexit 0\n", 0o755)
    before, config = repo.state(), (git / "config").read_bytes()
    commit = "echo x > x && git add x && git commit --no-verify -qm 'by the model' && git log -1 --format=%s"
    run = rig.run([shell(commit),
                   shell(f"echo '[core]' >> {git}/config"), shell("git config core.pager evil"),
                   shell(f"echo evil > {git}/hooks/pre-push"), shell(f"echo evil >> {git}/hooks/pre-commit"),
                   shell("git update-ref refs/heads/main $(git rev-parse HEAD)"),
                   shell(f"echo evil > {repo.root}/a.txt"), *DONE])
    results = run.results()
    assert results[0][1] and results[0][2].endswith("by the model\n"), results[0]
    # main is its copy, in a repository of its own; the last may write a /tmp of its own
    assert [r[1] for r in results[1:6]] == [False] * 4 + [True], results
    assert (git / "config").read_bytes() == config
    check_same(before, repo.state())
    row = run.row()
    assert repo.git("log", "-1", "--format=%s", row["branch"]) == "by the model"
    assert not list(rig.home.dir.glob("hook-ran-*")), "no hook of the repository runs for our own git"


def test_an_autonomous_run_denies_instead_of_waiting(cold, start_hub):
    rig = cold
    (rig.home.dir / "config.toml").write_text('[session]\npermission = "ask"\n')
    start_hub()
    run = rig.run([shell("echo x > x"), use("ask_user", question="May I?"), *DONE])
    results = run.results()
    assert not results[0][1] and not results[1][1], results
    assert run.row()["end_reason"] == "complete"
    assert run.events(1, "permission.requested", "question.asked") == []


# ---- conversations ------------------------------------------------------------------------------

def test_a_conversation_with_a_bot_has_its_instructions_skills_and_memory(rig, repo):
    rig.bot(instructions="You are the harbour master.\n")
    skills = rig.home.dir / "bots/worker/skills"
    skills.mkdir()
    (skills / "moor.md").write_text("+++\ndescription = 'mooring'\n+++\nBow first.\n")
    rig.home.ok("memory", "worker", "set", "berth", "seven", cwd=repo.root)
    before = repo.state()
    said = rig.home.ok("chat", "--bot", "worker", "hello", cwd=repo.root,
                       env=rig.env([use("memory", action="set", key="seen", value="yes"), complete(), say("Ahoy.")]))
    assert "Ahoy." in said
    [dir] = (workspace(rig.home) / "history").iterdir()
    body = json.loads((dir / "requests.jsonl").read_text().splitlines()[0])["body"]
    text = json.dumps(body)
    for word in ("harbour master", "moor", "berth", "seven"):
        assert word in text, word
    ended = [json.loads(x) for x in (dir / "events.jsonl").read_text().splitlines() if "tool.completed" in x][1]
    assert not ended["success"] and "run" in ended["error"], "there is nothing to complete"
    assert json.loads((workspace(rig.home) / "memory.json").read_text())["entries"] == {"berth": "seven", "seen": "yes"}
    meta = json.loads((dir / "metadata.json").read_text())
    assert meta["bot"] == "worker" and meta["session_number"] == 1
    made = call(rig.home, "POST", "/session", {"bot": "worker", "working_dir": str(repo.root),
                                               "env": rig.env([say("Again.")])}, 201)
    answer = call(rig.home, "POST", f"/session/{made['id']}/message", {"text": "hi", "wait": True})
    assert answer["text"] == "Again." and (workspace(rig.home) / "history" / made["id"]).is_dir()
    call(rig.home, "POST", "/session", {"bot": "nobody", "working_dir": str(repo.root)}, 404)
    check_same(before, repo.state())
    assert repo.branches() == []


def test_a_conversation_with_a_bot_has_its_network_and_plugins(rig, repo):
    plugins = rig.home.dir / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "chart.lua").write_text('command { name = "depth", description = "d", run = function() return "9" end }')
    rig.home.ok("reload")
    rig.bot(keys='network = true\nplugins = ["chart"]\n')
    asked = {"bot": "worker", "working_dir": str(repo.root)}
    made = call(rig.home, "POST", "/session", asked, 201)
    assert (made["network"], made["plugins"]) == (True, ["chart"]), made
    made = call(rig.home, "POST", "/session", {**asked, "network": False, "plugins": []}, 201)
    assert (made["network"], made["plugins"]) == (False, []), "what the request says comes first"
    rig.bot(keys="")
    made = call(rig.home, "POST", "/session", asked, 201)
    assert (made["network"], made["plugins"]) == (False, "*"), "the hub's own"


def test_bots_of_a_project_count_only_when_it_is_trusted(rig, repo):
    repo.save(".afloat/bots/guide/config.md", "+++\nsleep_secs = 0\n+++\nYou are the guide.\n")
    repo.save(".afloat/bots/worker/config.md", "You are a thief.\n")
    repo.commit("bots")
    done = rig.home.cli("run", "guide", "go", cwd=repo.root, env=rig.env(DONE))
    assert done.returncode in (3, 4) and "afloat trust" in done.stderr, done
    assert "guide" not in rig.home.ok("bots", "list", cwd=repo.root)
    rig.home.ok("trust", str(repo.root))
    assert "guide" in retry(lambda: "guide" in (x := rig.home.ok("bots", "list", cwd=repo.root)) and x)
    rig.home.ok("run", "guide", "go", cwd=repo.root, env=rig.env(DONE))
    assert rig.only().prompt().startswith("You are the guide.")
    rig.bot("worker", instructions="You are honest.\n")
    assert rig.run(DONE, bot="worker").prompt().startswith("You are honest."), "the user's win by name"
    repo.save(".afloat/bots/guide/config.md", "You are changed.\n")
    changed = rig.home.cli("run", "guide", "go", cwd=repo.root, env=rig.env(DONE))
    assert changed.returncode in (3, 4), "by content: a change needs a person again"


# ---- an openbot home ----------------------------------------------------------------------------

def openbot(dir):
    """The home of an openbot, with both forms of its history."""
    def put(path, text):
        (dir / path).parent.mkdir(parents=True, exist_ok=True)
        (dir / path).write_text(text if isinstance(text, str) else json.dumps(text))

    def meta(n, **more):
        return {"session_id": f"thread-s{n}", "session_number": n, "started_at": "2026-01-02T03:04:05Z",
                "duration_secs": 7, "model": "m", "prompt_summary": "do it", "response_summary": f"did {n}",
                "action": None, "tokens": {"input_tokens": 10, "cached_input_tokens": 1, "output_tokens": 2,
                           "reasoning_output_tokens": 0, "context_window": 1000}, "command_count": 1, **more}
    put("skills/shared.md", "---\nname: shared\ndescription: for all\n---\nShare.\n")
    put("bots/rev/config.md", '+++\ndescription = "old friend"\nmax_iterations = 4\nstop_phrase = "TASK COMPLETE"\n'
                              '+++\nReview it.\n')
    put("bots/rev/skills/own.md", "---\nname: own\ndescription: mine\n---\nOwn.\n")
    put("bots/rev/workspaces/repo/memory.json", {"entries": {"fact": "kept"}})
    put("bots/rev/workspaces/repo/history/thread-s1/metadata.json", meta(1))
    put("bots/rev/workspaces/repo/history/thread-s1/events.jsonl", "".join(json.dumps(e) + "\n" for e in [
        {"type": "message", "content": "Look"}, {"type": "message", "content": "ing."},
        {"type": "command", "command": "ls -l", "exit_code": 0, "duration_ms": 12}, {"type": "token_count"}]) + "torn")
    put("bots/rev/workspaces/repo/history/thread-s2.json", meta(2, response="An old answer."))
    put("bots/broken/config.md", "+++\nmax_iterations = 4\n")
    return dir


def imported(home, dir):
    """The report of an import of openbot(), of which one bot fails."""
    done = home.cli("bots", "import", str(dir), "--json")
    assert done.returncode == 1, done
    report = json.loads(done.stdout)
    assert [i["name"] for i in report["items"] if i["outcome"] == "failed"] == ["broken"], report
    return report


def test_an_openbot_home_is_imported_with_both_forms_of_history(rig, repo, tmp_path):
    from_dir = openbot(tmp_path / "openbot")
    before = {p: p.read_bytes() for p in from_dir.rglob("*") if p.is_file()}
    report = imported(rig.home, from_dir)
    assert report["taken"] >= 5, report
    assert {p: p.read_bytes() for p in from_dir.rglob("*") if p.is_file()} == before
    shown = rig.home.json("bots", "show", "rev", cwd=repo.root)
    assert shown["description"] == "old friend" and shown["settings"]["max_iterations"] == 4
    assert rig.home.json("memory", "rev", cwd=repo.root)["entries"] == {"fact": "kept"}
    numbers = [s["session_number"] for s in rig.home.json("history", "rev", cwd=repo.root)["sessions"]]
    assert sorted(numbers) == [1, 2]
    view = rig.home.ok("history", "rev", "show", "1", cwd=repo.root)
    assert "$ ls -l" in view and "Looking." in view
    run = rig.run(DONE, bot="rev")
    assert run.metadata()["session_number"] == 3 and "- Session 1: did 1" in run.prompt() and "kept" in run.prompt()
    assert "### own" in run.prompt() and "### shared" in run.prompt()
    again = imported(rig.home, from_dir)
    assert again["taken"] == 0, again


# ---- a home that cannot be written --------------------------------------------------------------

class Walled:
    """A hub whose home is a file system of its own, in a mount namespace; its socket lies outside."""

    def __init__(self, home, tmp_path, size):
        home.env["AFLOAT_RUNTIME"] = str(tmp_path / "run")
        home.socket = tmp_path / "run" / "hub.sock"
        self.home = home
        script = 'mount -t tmpfs -o size="$1",mode=700 none "$0" || exit 77; shift; exec "$@"'
        apart = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
        self.process = subprocess.Popen([*apart, "sh", "-c", script, str(home.dir), size, BIN, "hub"], env=home.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        bufsize=0)
        line = read_line(self.process.stdout)
        if not line.startswith("ready "):
            _, err = self.process.communicate()
            if self.process.returncode == 77 or b"unshare" in err:
                pytest.skip("no mounts of our own here: " + err.decode())
            pytest.fail(err.decode())
        home.running.append(self.process)
        home.dir = type(home.dir)(f"/proc/{self.process.pid}/root{home.dir}")

    def enter(self, script, *args):
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        subprocess.run(["nsenter", "-t", str(self.process.pid), *user, "-m", "sh", "-ec", script, *args], check=True)

    def close(self):
        self.process.terminate()
        _, err = self.process.communicate(timeout=DEADLINE)
        check_report(err.decode(errors="replace"))
        assert self.process.returncode == 0, err


@pytest.fixture
def walled(home, tmp_path):
    dir = home.dir
    w = Walled(home, tmp_path, "24m")
    yield w
    w.close()
    home.dir = dir


def test_a_full_disk_costs_nothing_that_was_there(walled, repo):
    home, rig = walled.home, Rig(walled.home, repo)
    rig.bot()
    assert rig.run([use("memory", action="set", key="k", value="v"), *DONE]).row()["end_reason"] == "complete"
    before, branches = repo.state(), repo.branches()
    with full(home.dir / "filler"):
        body = {"value": "w" * 8192, "working_dir": str(repo.root)}
        answer = home.http("PUT", "/bots/worker/memory/k2", json.dumps(body).encode())
        assert answer.status >= 500, answer.body
        assert json.loads((workspace(home) / "memory.json").read_text()) == {"entries": {"k": "v"}}
        started = home.http("POST", "/bots/worker/runs", json.dumps(
            {"prompt": "go", "working_dir": str(repo.root), "env": rig.env(DONE)}).encode())
        if started.status == 201:
            Run(rig, started.json()["run_id"]).wait()
        check_same(before, repo.state())
        assert call(home, "GET", "/healthz")["ok"]
    run = rig.run([use("memory", action="get", key="k"), *DONE])
    assert run.row()["end_reason"] == "complete" and run.results()[0][2].strip() == "v"
    assert repo.worktrees() == [] and set(branches) < set(repo.branches())


@contextlib.contextmanager
def full(path):
    """The disk of `path` is full, also when somebody gives a little of it back."""
    done, filled = threading.Event(), threading.Event()

    def fill():
        with open(path, "wb", buffering=0) as f:
            while not done.is_set():
                try:
                    f.write(b"x" * 4096)
                except OSError:
                    filled.set()
                    done.wait(0.001)

    filler = threading.Thread(target=fill)
    filler.start()
    filled.wait()
    try:
        yield
    finally:
        done.set()
        filler.join()
        os.unlink(path)


def test_a_disk_that_fills_up_ends_the_run_with_its_reason(walled, repo):
    home, rig = walled.home, Rig(walled.home, repo)
    rig.bot()
    client = rig.popen([{"text": ("slow" * 60 + " ") * 400, "delta_ms": 20}] * 3, "go")
    run = rig.only()
    retry(lambda: any(p.stat().st_size > 20000 for p in workspace(home).glob("history/*/events.jsonl")))
    with full(home.dir / "filler"):
        _, said = client.communicate(timeout=DEADLINE)
        assert client.returncode == 1 and b"No space left" in said, said
        row = call(home, "GET", f"/runs/{run.id}")
        assert (row["state"], row["end_reason"]) == ("ended", "failed") and "No space left" in row["error"], row
        [listed] = call(home, "GET", "/runs")["runs"]
        assert (listed["state"], listed["end_reason"]) == ("ended", "failed")
    record = workspace(home) / "runs" / f"{run.id}.json"
    retry(lambda: json.loads(record.read_text())["state"] == "ended")


def test_a_home_that_becomes_read_only_refuses_and_touches_nothing(walled, repo):
    home, rig = walled.home, Rig(walled.home, repo)
    rig.bot()
    rig.run([use("memory", action="set", key="k", value="v"), *DONE])
    before, branches = repo.state(), repo.branches()
    real = str(home.dir).partition("/root")[2] + "/bots"
    walled.enter('mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"', real)
    refused = home.http("PUT", "/bots/worker/memory/k2", json.dumps(
        {"value": "w", "working_dir": str(repo.root)}).encode())
    assert refused.status >= 400 and b"ead-only" in refused.body, refused.body
    started = home.http("POST", "/bots/worker/runs", json.dumps(
        {"prompt": "go", "working_dir": str(repo.root), "env": rig.env(DONE)}).encode())
    assert started.status >= 400 and b"ead-only" in started.body, started.body
    check_same(before, repo.state())
    retry(lambda: repo.worktrees() == [] and repo.branches() == branches)
    walled.enter('umount "$0"', real)
    assert rig.run(DONE).row()["end_reason"] == "complete"
