"""Bots of hubs that share a store: what they remember, their skills and their history are the same on every hub."""
import concurrent.futures
import json
import pathlib
import subprocess

import pytest

from bots import DONE, FILES, Repo, Rig, call, complete, gate, say, shell, use  # noqa: F401
from conftest import Hub, retry
from team_rig import Team
from test_bots import imported, openbot


@pytest.fixture
def team(database):
    t = Team(database)
    yield t
    for name, home in t.homes.items():  # shown when the test failed
        print(name, *home.log.read_text().splitlines()[-30:], sep="\n")
    t.close()


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "repo", FILES)


def rigs(team, repo, *names):
    made = []
    for name in names:
        made.append(Rig(team.home(name), repo))
        made[-1].bot()
        team.start(name)
    return made


def memory(rig):
    return call(rig.home, "GET", f"/bots/worker/memory?working_dir={rig.repo.root}")["entries"]


def remember(rig, key, value):
    return call(rig.home, "PUT", f"/bots/worker/memory/{key}", {"value": value, "working_dir": str(rig.repo.root)})


def test_what_one_hub_remembers_all_do_and_no_write_is_lost(team, repo):
    a, b = rigs(team, repo, "a", "b")
    remember(a, "colour", "red")
    assert memory(b) == {"colour": "red"}
    remember(b, "colour", "blue")
    assert call(a.home, "GET", f"/bots/worker/memory/colour?working_dir={repo.root}")["value"] == "blue"
    # many at once, on both
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: remember((a, b)[n % 2], f"k{n}", str(n)), range(40)))
    want = {"colour": "blue", **{f"k{n}": str(n) for n in range(40)}}
    assert memory(a) == memory(b) == want
    call(b.home, "DELETE", f"/bots/worker/memory/k7?working_dir={repo.root}")
    call(a.home, "DELETE", f"/bots/worker/memory/k7?working_dir={repo.root}", status=404)
    assert call(a.home, "GET", f"/bots/worker?working_dir={repo.root}")["memory_count"] == 40
    assert call(b.home, "DELETE", f"/bots/worker/memory?working_dir={repo.root}")["removed"] == 40
    assert memory(a) == {}
    assert not list(a.home.dir.rglob("memory.json")) and not list(b.home.dir.rglob("memory.json"))


def test_two_repositories_of_one_name_do_not_share_and_two_checkouts_of_one_do(team, tmp_path):
    def repo(name, remote=None):
        r = Repo(tmp_path / name / "api", FILES)
        if remote:
            r.git("remote", "add", "origin", remote)
        return r

    a = rigs(team, repo("ann"), "a")[0]
    b = rigs(team, repo("bob"), "b")[0]
    remember(a, "colour", "red")
    assert memory(b) == {}, "another repository"
    remember(b, "colour", "blue")
    assert memory(a) == {"colour": "red"} and memory(b) == {"colour": "blue"}
    slugs = [call(r.home, "GET", f"/bots/worker?working_dir={r.repo.root}")["project"] for r in (a, b)]
    assert slugs[0] == "api" and slugs[1].startswith("api-") and len(slugs[1]) == 12, slugs
    # the same repository, at other paths and by other ways
    a.repo, b.repo = repo("cay", "git@host.example:team/api.git"), repo("dan", "https://host.example/team/api")
    remember(a, "shape", "round")
    remember(b, "size", "small")
    assert memory(a) == {"shape": "round"}, "on `a` the name is taken"
    a.repo, b.repo = repo("eve/x", "git@host.example:team/other.git"), repo("fay/x", "https://host.example/team/other/")
    for rig in (a, b):
        rig.repo.root.rename(rig.repo.root.parent / "other")
        rig.repo = Repo.at_path(rig.repo.root.parent / "other")
    remember(a, "shape", "round")
    assert memory(b) == {"shape": "round"}
    remember(b, "size", "small")
    assert memory(a) == memory(b) == {"shape": "round", "size": "small"}
    # an address that changes takes nothing away
    a.repo.git("remote", "set-url", "origin", "https://moved.example/other")
    assert memory(a) == {"shape": "round", "size": "small"}
    run = a.run([use("memory", action="list"), *DONE])
    assert run.row()["project"] == "other" and run.row()["end_reason"] == "complete"


def test_an_openbot_home_is_imported_for_all_hubs(team, repo, tmp_path):
    a, b = rigs(team, repo, "a", "b")
    b.bot("rev")
    b.run(DONE, bot="rev")  # number 1
    there = openbot(tmp_path / "openbot")
    report = imported(a.home, there)
    assert report["taken"] >= 5, report
    for home in (a.home, b.home):
        rows = home.json("history", "rev", cwd=repo.root)["sessions"]
        assert sorted(r["session_number"] for r in rows) == [1, 2, 3], "no number twice"
        number = next(r["session_number"] for r in rows if r["response_summary"] == "did 1")
        view = home.ok("history", "rev", "show", str(number), cwd=repo.root)
        assert "$ ls -l" in view and "Looking." in view
        assert home.json("memory", "rev", cwd=repo.root)["entries"] == {"fact": "kept"}
        names = {s["name"] for s in call(home, "GET", "/skills?bot=rev")["skills"] if s["source"] in ("bot", "user")}
        assert names == {"own", "shared"}
    again = imported(b.home, there)
    assert again["taken"] == 0, again
    assert imported(a.home, there)["taken"] == 0
    assert team.database.sql("SELECT count(*) FROM afloat.sessions") == "3"


def test_a_bot_that_is_removed_with_its_history_is_gone_on_all_hubs_and_can_be_taken_back(team, repo):
    a, b = rigs(team, repo, "a", "b")
    b.bot("other")
    b.run(DONE, bot="other")
    remember(a, "colour", "red")
    call(a.home, "PUT", "/skills/knock", {"description": "one", "body": "Knock.", "bot": "worker"})
    b.run([shell("echo hello"), *DONE])
    history = lambda home: home.json("history", "worker", cwd=repo.root)["sessions"]
    before = history(b.home)
    run = b.start([gate(), *DONE])
    run.at_gate()
    no = a.home.cli("bots", "rm", "worker", "--history")
    assert no.returncode == 7 and "runs on hub 'b'" in no.stderr and run.id in no.stderr, no.stderr
    run.open_gate()
    run.wait()
    retry(lambda: team.database.sql("SELECT count(*) FROM afloat.sessions WHERE hub IS NOT NULL") == "0")
    before = history(b.home)
    gone = a.home.json("bots", "rm", "worker", "--history")
    assert memory(b) == {} and history(b.home) == [] and call(b.home, "GET", "/runs?bot=worker")["runs"] == []
    assert b.home.json("history", "other", cwd=repo.root)["sessions"], "others stay"
    assert not [s for s in call(b.home, "GET", "/skills?bot=worker")["skills"] if s["name"] == "knock"]
    [file] = pathlib.Path(gone["trash"]).glob("store-*.jsonl")
    for name in ("a", "b"):
        team.hubs.pop(name).close()
    assert a.home.json("store", "import", str(file))["sessions"] == len(before)
    team.start("b")
    assert history(b.home) == before and memory(b) == {"colour": "red"}


def test_memory_that_is_damaged_is_set_aside_in_the_store_too(team, repo):
    a, b = rigs(team, repo, "a", "b")
    remember(a, "k", "v")
    team.database.sql("UPDATE afloat.documents SET body = 'torn' WHERE name LIKE '%/memory.json'")
    said = call(b.home, "GET", f"/bots/worker/memory?working_dir={repo.root}")
    assert said["entries"] == {} and "memory.json.corrupt-" in said["note"]
    assert team.database.sql("SELECT body FROM afloat.documents WHERE name LIKE '%.corrupt-%'") == "torn"
    remember(a, "k", "again")
    assert memory(b) == {"k": "again"}


def test_a_run_uses_what_another_hub_left_and_its_history_is_shown_everywhere(team, repo):
    a, b = rigs(team, repo, "a", "b")
    for rig in (a, b):
        rig.bot("other")
    first = a.run([use("memory", action="set", key="where", value="under the mat"),
                   use("skill_save", name="knock", description="how to enter", body="Knock twice."),
                   shell("echo out of a"), complete("went in"), say("Bye.")])
    assert first.row()["end_reason"] == "complete"
    second = b.run([use("memory", action="list"), use("session_history", action="view", session_number=1),
                    *DONE])
    record = second.row()
    assert record["end_reason"] == "complete"
    session = record["iterations"][0]["session_id"]
    log = call(a.home, "GET", f"/session/{session}/events?limit=1000")["events"]
    said = {e["tool"]: e["output"] for e in log if e["type"] == "tool.completed"}
    assert "where: under the mat" in said["memory"]
    assert "$ echo out of a [ok]" in said["session_history"] and "# Session 1 (" in said["session_history"]
    for rig in (a, b):
        rows = call(rig.home, "GET", f"/bots/worker/history?working_dir={repo.root}")["sessions"]
        assert [r["session_number"] for r in rows] == [2, 1], "numbers are not given twice"
        shown = call(rig.home, "GET", f"/bots/worker/history/1?working_dir={repo.root}")
        assert shown["response_summary"] == "went in" and "$ echo out of a [ok]" in shown["view"]
        assert [c["command"] for c in shown["commands"]][-2:] == ["echo out of a", shown["commands"][-1]["command"]]
        assert call(rig.home, "GET", f"/bots/worker/history/{session}?working_dir={repo.root}")["session_number"] == 2
        call(rig.home, "GET", f"/bots/other/history/{session}?working_dir={repo.root}", status=404)  # not its own
        assert call(rig.home, "GET", f"/bots/worker?working_dir={repo.root}")["session_count"] == 2
        skills = {s["name"]: s for s in call(rig.home, "GET", "/skills?bot=worker")["skills"]}
        assert skills["knock"]["source"] == "bot" and skills["knock"]["description"] == "how to enter"


def test_skills_are_shared_and_files_put_there_by_hand_stay(team, repo):
    a, b = rigs(team, repo, "a", "b")
    call(a.home, "PUT", "/skills/deploy", {"description": "one", "body": "Do it."})
    call(b.home, "PUT", "/skills/deploy", {"description": "two", "body": "Do it well."})
    assert call(a.home, "GET", "/skills/deploy")["body"] == "Do it well."
    assert [p.read_text() for p in (b.home.dir / "trash").rglob("deploy.md")], "the old one can be taken back"
    (b.home.dir / "skills").mkdir()
    (b.home.dir / "skills" / "mine.md").write_text("Only here.")
    names = [{s["name"] for s in call(r.home, "GET", "/skills")["skills"] if s["source"] == "user"} for r in (a, b)]
    assert names == [{"deploy"}, {"deploy", "mine"}]
    call(b.home, "DELETE", "/skills/mine")
    call(b.home, "DELETE", "/skills/deploy")
    call(a.home, "GET", "/skills/deploy", status=404)
    call(a.home, "DELETE", "/skills/deploy", status=404)
    texts = [p.read_text() for p in (b.home.dir / "trash").rglob("*.md")]
    assert len(texts) == 3 and "Only here." in texts


def test_memory_and_skills_move_with_the_store_and_back(home, database, repo, tmp_path):
    rig = Rig(home, repo)
    rig.bot()

    def use_store(url):
        (home.dir / "config.toml").write_text(f'[store]\nurl = "{url}"\n' if url else "")

    def everything():
        hub = Hub(home)
        try:
            rows = call(home, "GET", f"/bots/worker/history?working_dir={repo.root}")["sessions"]
            skill = call(home, "GET", "/skills/deploy?bot=worker")
            return memory(rig), skill["body"], [call(
                home, "GET", f"/bots/worker/history/{r['session_number']}?working_dir={repo.root}") for r in rows]
        finally:
            hub.close()

    hub = Hub(home)
    remember(rig, "colour", "r\u00e9d \u2028 \"quoted\"")
    call(home, "PUT", "/skills/deploy", {"description": "one", "body": "Do it.\n\nTwice.", "bot": "worker"})
    call(home, "PUT", "/skills/plain", {"description": "one", "body": "Plain."})
    rig.run([shell("echo hello"), *DONE])
    hub.close()
    before = everything()
    out, back = tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    n = home.json("store", "export", str(out))
    assert n["documents"] == 4, "memory, two skills, the last number"
    use_store(database.url())
    home.ok("store", "migrate")
    assert home.json("store", "import", str(out))["documents"] == 4
    assert home.json("store", "import", str(out))["documents"] == 4, "once more changes nothing"
    for path in [home.dir / "skills", home.dir / "bots" / "worker" / "skills",
                 home.dir / "bots" / "worker" / "workspaces" / "repo" / "memory.json"]:
        subprocess.run(["rm", "-r", str(path)], check=True)
    assert everything() == before
    home.json("store", "export", str(back))
    assert sorted(out.read_text().splitlines()) == sorted(back.read_text().splitlines())
    # one that differs is not replaced
    database.sql("UPDATE afloat.documents SET body = 'other' WHERE name = 'skills/plain.md'")
    done = home.cli("store", "import", str(out))
    assert done.returncode == 7 and "'skills/plain.md' is there already, and differs" in done.stderr
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"afloat":"store","format":1}\n' + json.dumps({"document": "../x", "body": "y"}) + "\n")
    assert home.cli("store", "import", str(bad)).returncode != 0 and not (home.dir.parent / "x").exists()
    # and into files again
    use_store(None)
    home.json("store", "import", str(back))
    assert everything() == before
