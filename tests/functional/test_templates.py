"""Templates: files that come with the program are installed whole, never over a user's file, and are live at once."""
import http.server
import json
import os
import subprocess
import threading

import pytest

from conftest import retry

LANGUAGES = {"lua": ".lua", "python": ".py", "node": ".mjs", "c": ".c"}


def served(home):
    return {p["name"]: p for p in home.json("plugin", "list")["plugins"] if p["serving"]}


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "shop"
    place.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    return place


def test_the_list_names_what_each_is_for_and_its_files(home, hub):
    rows = {t["name"]: t for t in home.json("template", "list")["templates"]}
    assert {"user-init", "github", "bot-reviewer", "bot-fixer", "bot-docs", "project"} < set(rows)
    assert {f"plugin-{lang}" for lang in LANGUAGES} < set(rows)
    assert all(t["description"] and t["files"] and t["next"] for t in rows.values())
    assert rows["project"]["target"] == "project" and ".afloat/env.toml" in rows["project"]["files"]
    shown = home.json("template", "show", "bot-docs")
    assert shown["files"][0]["path"] == "bots/docs/config.md" and "documentation" in shown["files"][0]["content"]
    assert home.json("api", "GET", "/template")["templates"] == list(rows.values())


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("form", ["", "-dir"])
def test_a_plugin_of_each_language_serves_at_once(home, hub, lang, form):
    answer = home.json("template", "install", f"plugin-{lang}{form}", "--as", "my-own")
    assert answer["report"]["ok"] and answer["report"]["added"] == ["my-own"]
    assert home.ok("my-own:hello", "Ada").strip() == "Hello, Ada!"
    assert "@" not in "".join(answer["files"]) and all(os.path.exists(f) for f in answer["files"])


def test_plugins_of_all_languages_live_side_by_side_without_a_warning(home, hub, tmp_path):
    for lang in ("lua", "python", "node", "c"):
        for form in ((), ("--dir",)):
            home.ok("plugin", "new", f"my-{lang}{len(form)}", "--lang", lang, *form)
    report = home.json("reload")
    assert report["diagnostics"] == [], report
    for row in home.json("plugin", "list")["plugins"]:
        assert home.ok(f"{row['name']}:hello", "Ada") == "Hello, Ada!\n"
        home.ok("feature", "enable", f"{row['name']}:loud")
        assert home.ok(f"{row['name']}:hello", "Ada") == "HELLO, ADA!\n"
    home.ok("chat", "list the files", cwd=tmp_path)  # all share ctx.state; each counts its own calls
    for row in home.json("plugin", "list")["plugins"]:
        retry(lambda: "called 1 tools" in home.ok("plugin", "logs", row["name"]))


def test_the_users_init_runs_and_answers(home, hub):
    home.ok("template", "install", "user-init")
    assert home.ok("mine:hi", "Ada").strip() == "Hi, Ada!"
    home.ok("events", "emit", "user.hello", '{"name": "Ada"}')
    retry(lambda: "hello Ada" in home.ok("events", "--types", "user.greeting"))


def test_a_session_type_begins_a_chat_of_its_kind(home, hub, project):
    home.env["AFLOAT_PROVIDER"] = "scripted"
    home.ok("template", "install", "session-type", "--as", "look")
    assert "review the last commit" in home.ok("sessions", "types", cwd=project)
    home.ok("chat", "-p", "--type", "look", cwd=project)
    [row] = home.json("sessions", "list")["sessions"]
    assert row["title"] == "review of shop"


def test_bots_come_with_instructions(home, hub):
    for bot in ("reviewer", "fixer", "docs"):
        home.ok("template", "install", f"bot-{bot}")
        row = home.json("bots", "show", bot)
        assert row["instructions"] and row["description"] and not row["diagnostics"] and not row.get("error")
    home.ok("template", "install", "bot-fixer", "--as", "mender")
    assert "mender" in home.ok("bots")


def test_a_project_gets_its_directory_and_trust_makes_it_live(home, hub, project):
    (project / "src").mkdir()
    home.ok("template", "install", "project", cwd=project / "src")
    assert (project / ".afloat/env.toml").stat().st_mode & 0o777 == 0o644
    listed = home.ok("trust", "--dry-run", cwd=project)
    assert all(word in listed for word in ("conventions", "env.toml", "config.toml", "release", "reviewer"))
    home.ok("trust", cwd=project)
    assert "reviewer" in home.ok("bots", cwd=project)
    tested = home.ok("plugin", "test", project / ".afloat/plugins/conventions.lua")
    assert "FAILED" not in tested


def test_outside_a_project_it_says_what_to_do(home, hub, tmp_path):
    done = home.cli("template", "install", "project", cwd=tmp_path)
    assert done.returncode == 7 and done.stderr.count("mkdir .afloat") == 1, done.stderr


def test_a_users_file_stays_unless_forced_and_then_is_in_the_trash(home, hub):
    mine = home.dir / "plugins/github/text.lua"
    mine.parent.mkdir(parents=True)
    mine.write_text("-- mine\n")
    refused = home.cli("template", "install", "github")
    assert refused.returncode == 7 and str(mine) in refused.stderr and "--force" in refused.stderr
    assert mine.read_text() == "-- mine\n" and os.listdir(mine.parent) == ["text.lua"]
    home.ok("template", "install", "github", "--force")
    assert "github" in served(home) and mine.read_text() != "-- mine\n"
    [kept] = (home.dir / "trash").glob("*-github/plugins/github/text.lua")
    assert kept.read_text() == "-- mine\n"
    assert not list(home.dir.glob(".afloat-template-*"))


def test_a_plugin_of_that_name_in_another_language_is_never_shadowed(home, hub):
    home.ok("template", "install", "plugin-lua")
    for force in ([], ["--force"]):
        done = home.cli("template", "install", "plugin-python", *force)
        assert done.returncode == 7 and "greet.lua" in done.stderr
        assert "'afloat plugin remove'" in done.stderr and "--force" not in done.stderr  # which would not help
    assert not (home.dir / "plugins/greet.py").exists()


def test_a_link_in_a_project_is_not_followed(home, hub, project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / ".afloat").symlink_to(elsewhere)
    done = home.cli("template", "install", "project", cwd=project)
    assert done.returncode == 4 and "symbolic link" in done.stderr
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("words, code, said", [
    (["nope"], 3, "template list"),
    (["github", "--as", "x"], 1, "leave out"),
    (["plugin-lua", "--as", "../x"], 2, "a-z"),
])
def test_wrong_names_are_refused_with_the_reason(home, hub, words, code, said):
    done = home.cli("template", "install", *words)
    assert done.returncode == code and said in done.stderr
    assert not (home.dir / "plugins").exists() or not list((home.dir / "plugins").iterdir())


# ---- github, against a stand-in ----------------------------------------------------------------


class Stand(http.server.BaseHTTPRequestHandler):
    """As much of GitHub's interface as the plugin uses."""

    ISSUE = {"number": 7, "title": "it leaks", "state": "open", "user": {"login": "ada"}, "labels": [{"name": "bug"}],
             "body": "in the hold", "html_url": "https://example.test/7"}
    PULL = {**ISSUE, "number": 8, "title": "a patch", "pull_request": {}}

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json"):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def seen(self, body=None):
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization"), body))

    def do_GET(self):
        self.seen()
        path = self.path.split("?")[0]
        if self.headers.get("Authorization") == "Bearer bad":
            return self.answer(401, {"message": "Bad credentials"})
        if path == "/repos/ada/ship/pulls/8":
            return self.answer(200, "diff --git a/hold b/hold\n", "text/plain")
        known = {"/repos/ada/ship/issues": [self.ISSUE, self.PULL], "/repos/ada/ship/issues/7": self.ISSUE,
                 "/repos/ada/ship/issues/7/comments": [{"user": {"login": "bob"}, "created_at": "now", "body": "me too"}],
                 "/repos/ada/ship/pulls": [self.PULL], "/repos/ada/ship": {"full_name": "ada/ship"}, "/rate_limit": {}}
        return self.answer(200, known[path]) if path in known else self.answer(404, {"message": "Not Found"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen(body)
        self.answer(201, {"html_url": f"https://example.test{self.path}"})


@pytest.fixture
def github(home, start_hub):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stand)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = f'[[plugins]]\npath = "plugins/github"\n[plugins.options]\napi = "http://127.0.0.1:{server.server_port}"\n'
    (home.dir / "config.toml").write_text(options)
    home.cli("secret", "set", "GITHUB_TOKEN", input="s3cret-token")
    start_hub()
    home.ok("template", "install", "github")
    yield server
    server.shutdown()
    server.server_close()


def run(home, tool, cwd=None, **given):
    return json.loads(home.cli("tool", "run", tool, json.dumps(given), "--json", cwd=cwd).stdout)


def test_github_reads_issues_and_pull_requests_with_the_token(home, github):
    listed = run(home, "github_issues", repository="ada/ship")["output"]
    assert listed == "#7 it leaks (open, ada) [bug]"  # the pull request is not among them
    whole = run(home, "github_issue", repository="ada/ship", number=7)["output"]
    assert "in the hold" in whole and "bob, now\nme too" in whole
    assert run(home, "github_pulls", repository="ada/ship")["output"].startswith("#8 a patch")
    assert run(home, "github_pull_diff", repository="ada/ship", number=8)["output"].startswith("diff --git")
    assert {token for _, _, token, _ in github.requests} == {"Bearer s3cret-token"}


def test_github_finds_the_repository_of_the_working_directory(home, github, project):
    subprocess.run(["git", "remote", "add", "origin", "git@github.com:ada/ship.git"], cwd=project, check=True)
    assert "it leaks" in run(home, "github_issues", cwd=project)["output"]
    done = run(home, "github_issues", cwd=project.parent)
    assert not done["success"] and "OWNER/NAME" in done["error"]


def test_github_writes_only_after_a_person_said_so(home, github, project):
    home.env["AFLOAT_PROVIDER"] = "scripted"
    scenario = project / "scenario.jsonl"
    call = {"name": "github_comment", "input": {"repository": "ada/ship", "number": 7, "body": "mended"}}
    scenario.write_text(json.dumps({"tool_calls": [call]}) + '\n{"text": "done"}\n')
    home.env["AFLOAT_SCENARIO"] = str(scenario)
    asked = home.cli("chat", "-p", "comment", cwd=project)
    assert asked.returncode == 4 and "github_comment" in asked.stderr
    assert not [r for r in github.requests if r[0] == "POST"]
    [session] = home.json("sessions", "list")["sessions"]
    done = home.json("api", "GET", f"/session/{session['id']}/events")["events"]
    assert "s3cret-token" not in json.dumps(done)


def test_github_says_what_to_do_when_it_is_refused(home, github):
    missing = run(home, "github_issue", repository="ada/none", number=1)
    assert not missing["success"] and "404: Not Found" in missing["error"] and "lack access" in missing["error"]
    home.ok("secret", "set", "GITHUB_TOKEN", input="bad")
    done = run(home, "github_issues", repository="ada/ship")
    assert not done["success"] and "afloat secret set GITHUB_TOKEN" in done["error"]
