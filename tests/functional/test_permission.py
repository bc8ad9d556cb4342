"""Permission rules: what each answer covers, how rules are listed and removed, what the modes let run."""
import json
import subprocess

from conftest import retry
from test_agent import Session, call, one_call, work  # noqa: F401 (a fixture)


def offers(request):
    return {o["remember"]: o["covers"] for o in request["offers"]}


def answer(session, request, **body):
    return session.call("POST", f"/permission/{request['request_id']}", body, body.pop("status", 200))


def rules(home, path):
    return call(home, "GET", f"/permission?path={path}")["rules"]


def repository(path):
    path.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


def test_a_question_says_what_each_answer_covers(home, hub, work):
    s = Session(home, work, [one_call(cmd="git status -s"), {"text": "x"}], permission="ask")
    request = s.ask()["pending"][0]
    covers = offers(request)
    assert list(covers) == ["once", "exact", "prefix", "tool", "project"]
    assert covers["exact"].endswith(": git status -s") and covers["prefix"].endswith(": git status *")
    assert "session" in covers["tool"] and "project" in covers["project"]
    assert [offers(e) for e in s.events("permission.requested")] == [covers]
    no = answer(s, request, decision="allow", remember="forever", status=400)
    assert "once, exact, prefix, tool or project" in no["detail"]
    answer(s, request, decision="allow")
    s.wait_for("turn.completed")
    assert rules(home, work) == []


def test_an_answer_that_was_not_offered_is_refused(home, hub, work):
    s = Session(home, work, [one_call(cmd="sudo true && ls"), {"text": "x"}], permission="ask")
    request = s.ask()["pending"][0]
    assert "prefix" not in offers(request)
    no = answer(s, request, decision="allow", remember="prefix", status=400)
    assert no["code"] == "INVALID_BODY" and "was not offered" in no["detail"]
    answer(s, request, decision="deny", reason="too wide")
    s.wait_for("turn.completed")
    assert "too wide" in s.results()[-1]["output"]


def test_a_remembered_prefix_covers_its_command_and_nothing_that_rides_along(home, hub, work):
    repository(work)
    ride = ["git status; touch a", "git status $(touch a)", "git status > /tmp/a", "git -C / status",
            "PATH=/x git status", "bash -c 'git status'"]
    s = Session(home, work, [one_call(cmd="git status"), {"text": "x"}, one_call(cmd="git status -s"), {"text": "y"}]
                + [x for cmd in ride for x in (one_call(cmd=cmd), {"text": "z"})], permission="ask")
    answer(s, s.ask()["pending"][0], decision="allow", remember="prefix")
    s.wait_for("turn.completed", turn="t1")
    assert s.ask()["state"] == "completed"  # the same with other arguments
    for cmd in ride:
        waiting = s.ask()
        assert waiting["state"] == "waiting", cmd
        answer(s, waiting["pending"][0], decision="deny")
        retry(lambda: s.call("GET")["state"] == "idle")
    assert not (work / "a").exists()


def test_a_remembered_answer_also_decides_about_the_calls_that_ask_already(home, hub, work):
    repository(work)
    shells = [{"name": "shell", "input": {"cmd": f"touch {name}"}} for name in ("a", "b", "c")]
    write = {"name": "write_file", "input": {"path": "d", "content": "d"}}
    s = Session(home, work, [{"tool_calls": [*shells, write]}, {"text": "x"}] * 2, permission="ask")
    for decision, remember, names in ("deny", "project", ["d"]), ("allow", "tool", ["a", "b", "c", "d"]):
        s.ask()
        pending = retry(lambda: len(s.call("GET")["pending"]) == 4 and s.call("GET")["pending"])
        [file] = [p for p in pending if p["call"]["tool_name"] == "write_file"]
        first = next(p for p in pending if p is not file)
        answer(s, first, decision=decision, remember=remember)
        retry(lambda: s.call("GET")["pending"] == [file])
        answer(s, file, decision="allow")
        retry(lambda: s.call("GET")["state"] == "idle")
        assert [name for name in "abcd" if (work / name).exists()] == names
        for rule in rules(home, work):
            call(home, "DELETE", f"/permission/{rule['id']}")
    by = [(e["by"], e["decision"]) for e in s.events("permission.decided")]
    assert sorted(by) == [("person", "allow")] * 3 + [("person", "deny")] + [("policy", "allow")] * 2 + [
        ("policy", "deny")] * 2
    assert len({e["request_id"] for e in s.events("permission.decided")}) == 8


def test_a_rule_of_a_project_holds_in_its_other_sessions_over_a_restart_until_it_is_removed(home, start_hub, work):
    repository(work)
    (work / "sub").mkdir()
    hub = start_hub()
    s = Session(home, work, [one_call(cmd="touch one"), {"text": "x"}], permission="ask")
    answer(s, s.ask()["pending"][0], decision="allow", remember="exact")
    s.wait_for("turn.completed")
    [rule] = rules(home, work)
    assert (rule["tool"], rule["match"], rule["decision"], rule["scope"]) == ("shell", "touch one", "allow", "project")
    assert rules(home, work / "sub") == [rule] and rules(home, home.dir.parent) == []
    assert not (work / "permissions").exists() and list((home.dir / "permissions").iterdir())
    hub.close()
    start_hub()
    assert rules(home, work) == [rule]
    again = Session(home, work, [one_call(cmd="touch one"), {"text": "x"}, one_call(cmd="touch one"), {"text": "y"}],
                    permission="ask")
    assert again.ask()["state"] == "completed"
    assert rule["id"] in home.ok("permission", "list", cwd=work)
    home.ok("permission", "remove", rule["id"])
    assert home.cli("permission", "remove", rule["id"]).returncode == 3
    assert rules(home, work) == [] and again.ask()["state"] == "waiting"


def test_a_rule_of_a_session_goes_with_it(home, hub, work):
    s = Session(home, work, [one_call(cmd="true"), {"text": "x"}, one_call(cmd="false"), {"text": "y"}],
                permission="ask")
    answer(s, s.ask()["pending"][0], decision="allow", remember="tool")
    s.wait_for("turn.completed")
    assert s.ask()["state"] == "completed"
    other = Session(home, work, [one_call(cmd="true"), {"text": "x"}], permission="ask")
    assert other.ask()["state"] == "waiting"
    assert [r["scope"] for r in rules(home, work)] == ["session"]
    s.call("DELETE")
    retry(lambda: rules(home, work) == [])


def test_rules_of_the_configuration_deny_over_ask_over_allow(home, start_hub, work):
    (home.dir / "config.toml").write_text(
        '[[permission]]\ntool = "shell"\nmatch = "touch *"\ndecision = "allow"\n'
        '[[permission]]\ntool = "shell"\nmatch = "touch asked"\ndecision = "ask"\n'
        '[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n'
        '[[permission]]\ntool = "write_file"\nmatch = "secret/**"\ndecision = "deny"\n')
    start_hub()
    (work).mkdir(exist_ok=True)
    (work / "keep").write_text("kept")
    s = Session(home, work, [one_call(cmd="touch made"), one_call(cmd="env /bin/rm keep"),
                             one_call("write_file", path="secret/x", content="1"), {"text": "x"},
                             one_call(cmd="touch asked"), {"text": "y"}], permission="auto")
    assert s.ask()["state"] == "completed"
    assert (work / "made").exists() and (work / "keep").exists() and not (work / "secret").exists()
    denied = s.events("permission.decided")
    assert [d["tool"] for d in denied] == ["shell", "write_file"] and all("rule permission." in d["reason"] for d in denied)
    assert s.ask()["state"] == "waiting"
    assert [r["scope"] for r in rules(home, work)] == ["config"] * 4
    assert call(home, "DELETE", "/permission/permission.0", status=409)["code"] == "CONFLICT"


def test_nobody_is_asked_about_a_new_file_that_cannot_be_written(home, hub, work):
    work.mkdir()
    (work / "nowhere").symlink_to("missing/file")
    paths = ["/var/tmp/afloat-elsewhere/new.txt", ".git/hooks/x", "nowhere"]
    s = Session(home, work, [one_call("write_file", path=p, content="x") for p in paths]
                + [{"text": "x"}, one_call("write_file", path="new/dir/a.txt", content="x"), {"text": "y"}], permission="ask")
    assert s.ask()["state"] == "completed" and s.events("permission.requested") == []
    errors = [e["error"] for e in s.events("tool.completed")]
    assert len(errors) == 3 and all(word in error for word, error in zip(("outside", ".git", "leads nowhere"), errors))
    [request] = s.ask()["pending"]
    assert not (work / "new").exists()
    answer(s, request, decision="allow")
    s.wait_for("turn.completed", turn="t2")
    assert (work / "new/dir/a.txt").read_text() == "x"


def test_a_rule_judges_the_file_that_the_tool_opens(home, start_hub, work):
    (home.dir / "config.toml").write_text(
        '[[permission]]\ntool = "write_file"\nmatch = "docs/src/**"\ndecision = "deny"\n'
        '[[permission]]\ntool = "edit_file"\nmatch = "docs/**"\ndecision = "allow"\n')
    start_hub()
    for dir in ("docs/deep", "docs/src", "src"):
        (work / dir).mkdir(parents=True)
    for name in ("main.c", "docs/main.c"):
        (work / name).write_text("old")
    (work / "x").symlink_to("docs/deep")
    edit = {"path": "x/../main.c", "old": "old", "new": "new"}
    s = Session(home, work, [one_call("write_file", path="x/../src/a.c", content="bad"), one_call("edit_file", **edit),
                             {"text": "x"}], permission="ask")
    assert s.ask()["state"] == "completed"
    assert [d["decision"] for d in s.events("permission.decided")] == ["deny"]
    assert not (work / "src" / "a.c").exists() and not (work / "docs" / "src" / "a.c").exists()
    assert (work / "main.c").read_text() == "old" and (work / "docs" / "main.c").read_text() == "new"


def test_a_rule_that_cannot_be_read_stops_sessions_and_names_its_line(home, start_hub, work):
    config = home.dir / "config.toml"
    work.mkdir()
    config.write_text('[[permission]]\ntool = "shell"\nmatch = "rm *; true"\ndecision = "deny"\n')
    start_hub()
    no = call(home, "POST", "/session", {"working_dir": str(work)}, 409)
    assert "config.toml:1" in no["detail"] and "'match'" in no["detail"]
    config.write_text('[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n')
    home.ok("reload")
    retry(lambda: home.http("POST", "/session", json.dumps({"working_dir": str(work)}).encode()).status == 201)


def test_the_modes(home, hub, work, tmp_path):
    steps = [one_call("write_file", path="a.txt", content="1"), {"text": "x"}, one_call(cmd="touch b"), {"text": "y"},
             one_call("read_file", path="c.txt"), {"text": "z"}]
    expected = {"ask": ("waiting", "waiting"), "edits": ("completed", "waiting"), "auto": ("completed", "completed"),
                "plan": ("completed", "completed"), "deny": ("completed", "completed")}
    for mode, states in expected.items():
        dir = tmp_path / mode
        s = Session(home, dir, steps, permission=mode)
        (dir / "c.txt").write_text("read me")
        for state in states:
            answered = s.ask()
            assert answered["state"] == state, (mode, answered)
            for request in answered.get("pending") or []:
                answer(s, request, decision="deny")
                retry(lambda: s.call("GET")["state"] == "idle")
        assert (dir / "a.txt").exists() == (mode in ("edits", "auto"))
        assert (dir / "b").exists() == (mode == "auto")
        assert s.ask()["state"] == "completed" and s.events("tool.completed")[-1]["output"].endswith("read me")
        if mode == "plan":
            assert "plan mode" in s.results()[0]["output"]
    assert call(home, "POST", "/session", {"working_dir": str(work), "permission": "all"}, 400)


def test_a_damaged_book_fails_closed(home, start_hub, work):
    repository(work)
    hub = start_hub()
    s = Session(home, work, [one_call(cmd="touch one"), {"text": "x"}], permission="ask")
    answer(s, s.ask()["pending"][0], decision="deny", remember="project")
    s.wait_for("turn.completed")
    hub.close()
    [book] = (home.dir / "permissions").iterdir()
    doc = json.loads(book.read_text())
    for key, value in doc.items():
        if key != "path":
            value["decision"] = "perhaps"
    book.write_text(json.dumps(doc))
    start_hub()
    s = Session(home, work, [one_call(cmd="touch one"), {"text": "x"}], permission="auto")
    failed = s.ask()
    assert failed["state"] == "failed" and book.name in failed["error"]["message"]
    assert not (work / "one").exists()


def test_a_question_about_a_file_shows_what_would_change_and_the_result_what_did(home, hub, work):
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    s = Session(home, work, [one_call("edit_file", path="a.txt", old="two", new="2"), {"text": "x"},
                             one_call("write_file", path="sub/new.txt", content="fresh\n"), {"text": "y"},
                             one_call("edit_file", path="a.txt", old="missing", new="2"), {"text": "z"}],
                permission="ask")
    request = s.ask()["pending"][0]
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert request["diff"] == diff and (work / "a.txt").read_text() == "one\ntwo\nthree\n"
    answer(s, request, decision="allow")
    s.wait_for("turn.completed", turn="t1")
    assert s.events("tool.completed")[0]["diff"] == diff and (work / "a.txt").read_text() == "one\n2\nthree\n"
    request = s.ask()["pending"][0]
    assert request["diff"].endswith("@@ -0,0 +1,1 @@\n+fresh\n") and not (work / "sub").exists()
    answer(s, request, decision="deny")
    s.wait_for("turn.completed", turn="t2")
    assert not (work / "sub").exists() and "diff" not in s.events("tool.completed")[1]
    assert s.ask()["state"] == "completed"  # an edit that cannot succeed asks nobody
    assert len(s.events("permission.requested")) == 2
