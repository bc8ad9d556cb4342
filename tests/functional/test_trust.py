"""Trust: what a project holds is trusted by its bytes, with and without a hub."""
import json
import re
import shutil
import stat
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import retry

ITEMS = {
    ".afloat/plugins/logger.lua": "-- one\n",
    ".afloat/plugins/big/init.lua": "-- big\n",
    ".afloat/env.toml": 'dotenv = [".env"]\nscript = "env.sh"\n',
    ".env": "A=1\n",
    "env.sh": "export B=1\n",
    "AGENTS.md": "be kind\n",
}


@pytest.fixture
def repo(tmp_path):
    """A project with something of most kinds."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    for path, text in ITEMS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def states(home, repo):
    body = json.loads(home.cli("trust", "--dry-run", "--json", str(repo)).stdout)
    return {item["path"]: item["state"] for item in body["items"]}


def test_a_dry_run_shows_what_it_covers_and_changes_nothing(home, repo):
    done = home.cli("trust", "--dry-run", str(repo))
    assert done.returncode == 0
    for word in ("logger", ".afloat/plugins/big", "env.sh", ".env", "AGENTS.md", "new"):
        assert word in done.stdout
    assert "run in the hub with your permissions" in done.stderr
    assert "nothing was changed" in done.stderr
    assert not (home.dir / "trust.json").exists()


def test_what_is_trusted_stays_so_until_it_changes(home, repo):
    home.ok("trust", str(repo))
    file = home.dir / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert set(states(home, repo).values()) == {"trusted"}
    (repo / ".afloat/plugins/logger.lua").write_text("-- two\n")
    (repo / "env.sh").write_text("export B=2\n")
    assert states(home, repo) == {
        ".afloat/plugins/big": "trusted", ".afloat/plugins/logger.lua": "changed",
        ".afloat/env.toml": "changed", "AGENTS.md": "trusted"}
    home.ok("trust", str(repo))
    (repo / ".afloat/plugins/logger.lua").write_text("-- one\n")  # every hash once trusted stays so
    assert states(home, repo)[".afloat/plugins/logger.lua"] == "trusted"


def test_the_directory_is_the_one_we_are_in(home, repo):
    deep = repo / "a/b"
    deep.mkdir(parents=True)
    home.ok("trust", cwd=deep)
    places = home.json("trust", "list")["places"]
    assert [p["path"] for p in places] == [str(repo)]
    assert str(repo) in home.ok("trust", "list")


def test_diff_shows_both_versions_and_trusts_nothing(home, repo):
    home.ok("trust", str(repo))
    (repo / ".afloat/plugins/logger.lua").write_text("-- two\x1b[2K\n")
    out = home.ok("trust", "--diff", str(repo))
    assert "--- .afloat/plugins/logger.lua\n" in out
    assert "\n--- one\n+-- two\\x1b[2K\n" in out
    assert "\x1b" not in out
    assert "big/init.lua" not in out
    assert states(home, repo)[".afloat/plugins/logger.lua"] == "changed"


def test_a_followed_place_is_trusted_whatever_comes(home, repo):
    home.ok("trust", "--follow", str(repo))
    (repo / ".afloat/plugins/new.lua").write_text("")
    assert states(home, repo)[".afloat/plugins/new.lua"] == "followed"
    assert "followed" in home.ok("trust", "list")


def test_a_followed_place_is_not_said_to_wait_for_the_next_trust(home, repo):
    waits = "later changes wait for the next 'afloat trust'"
    assert waits in home.cli("trust", str(repo)).stderr
    assert "later changes included" in home.cli("trust", "--follow", str(repo)).stderr
    for command in (("trust",), ("trust", "--dry-run")):  # it stays followed
        said = home.cli(*command, str(repo)).stderr
        assert "later changes included" in said and waits not in said, said


def test_a_real_worktree_counts_as_its_repository_and_ours_is_not_followed(home, tmp_path):
    repo, tree = tmp_path / "repo", tmp_path / "tree"
    ours = home.dir / "worktrees/repo/bot-1"
    plugin = ".afloat/plugins/x.lua"
    (repo / ".afloat/plugins").mkdir(parents=True)
    (repo / plugin).write_text("-- one\n")

    def git(*args):
        subprocess.run(["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@t", *args],
                       check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    git("worktree", "add", "--detach", str(tree))
    git("worktree", "add", "--detach", str(ours))
    home.ok("trust", "--follow", str(repo))
    assert states(home, tree) == states(home, ours) == {plugin: "trusted"}
    for place in (tree, ours):
        (place / plugin).write_text("-- two\n")
    assert states(home, tree) == {plugin: "followed"}
    assert states(home, ours) == {plugin: "changed"}


def test_an_environment_is_not_followed_where_its_project_brings_more(home, repo):
    deep = repo / "deep"
    deep.mkdir()
    (deep / "mise.toml").write_text('[env]\nA = "1"\n')
    for dir in (repo, deep):
        done = home.cli("env", "allow", "--follow", str(dir))
        assert done.returncode == 4 and "'afloat trust --follow' follows all of it" in done.stderr, done
        assert set(states(home, repo).values()) == {"new"}
    home.ok("env", "allow", str(repo))
    assert states(home, repo) == {path: "trusted" if path == ".afloat/env.toml" else "new" for path in states(home, repo)}
    home.ok("trust", "--follow", str(repo))
    home.ok("env", "allow", "--follow", str(repo))  # it is followed already


def test_following_an_environment_and_taking_it_back_say_how_far_that_reaches(home, repo):
    shutil.rmtree(repo / ".afloat/plugins")
    (repo / "AGENTS.md").unlink()
    assert "plugins too" in home.cli("env", "allow", "--follow", str(repo)).stderr
    (repo / "AGENTS.md").write_text("be kind\n")
    assert states(home, repo)["AGENTS.md"] == "followed"
    assert "nor is anything else" in home.cli("env", "deny", str(repo)).stderr
    assert set(states(home, repo).values()) == {"new"}


def test_untrust_forgets_all_of_it(home, repo):
    home.ok("trust", "--follow", str(repo))
    assert home.json("untrust", str(repo)) == {"path": str(repo), "place": str(repo), "removed": True}
    assert set(states(home, repo).values()) == {"new"}
    again = home.cli("untrust", str(repo))
    assert again.returncode == 3 and "is not trusted" in again.stderr
    home.ok("trust", str(repo))
    repo.rename(repo.with_name("gone"))
    home.ok("untrust", str(repo))  # by name, for what is no longer there


def test_outside_of_a_project_it_says_what_to_do(home, tmp_path):
    done = home.cli("trust", cwd=tmp_path)
    assert done.returncode == 3 and "mkdir .afloat" in done.stderr
    assert home.cli("trust", str(tmp_path / "nowhere")).returncode == 3


def test_a_project_with_nothing_is_told_so(home, tmp_path):
    (tmp_path / ".git").mkdir()
    done = home.cli("trust", str(tmp_path))
    assert done.returncode == 0 and "nothing to trust" in done.stderr
    assert not (home.dir / "trust.json").exists()


def test_what_cannot_be_read_is_said_and_not_trusted(home, repo, tmp_path):
    (tmp_path / "outside.lua").write_text("")
    (repo / ".afloat/plugins/out.lua").symlink_to("../../../outside.lua")
    done = home.cli("trust", str(repo))
    assert done.returncode == 1 and "leads outside the project" in done.stderr
    found = states(home, repo)
    assert found.pop(".afloat/plugins/out.lua") == "unreadable"
    assert set(found.values()) == {"trusted"}


def test_a_directory_named_like_a_verb_is_reached(home, tmp_path):
    (tmp_path / "list/.git").mkdir(parents=True)
    (tmp_path / "list/AGENTS.md").write_text("x")
    assert home.json("trust", "list", cwd=tmp_path) == {"places": [], "next": None}
    home.ok("trust", "--", "list", cwd=tmp_path)
    assert home.json("trust", "ls")["places"][0]["path"] == str(tmp_path / "list")


def test_no_hub_is_started(home, repo):
    for args in (("trust", str(repo)), ("trust", "list"), ("untrust", str(repo))):
        home.ok(*args)
    assert home.hub_pid() is None


def test_a_damaged_file_is_set_aside_with_a_word(home, repo):
    home.ok("trust", str(repo))
    (home.dir / "trust.json").write_text("{ not json")
    done = home.cli("trust", "list", "--json")
    assert json.loads(done.stdout)["places"] == []
    assert "set aside" in done.stderr
    assert len(list(home.dir.glob("trust.json.damaged-*"))) == 1


# ---- with a hub ----------------------------------------------------------------------------------


def test_the_routes_answer_as_the_commands_do(home, hub, http, repo):
    want = home.ok("trust", "--dry-run", "--json", str(repo))
    body = json.dumps({"path": str(repo), "dry_run": True}).encode()
    assert http("POST", "/trust", body).body.decode() == want
    assert not (home.dir / "trust.json").exists()
    body = json.dumps({"path": str(repo / ".afloat"), "follow": True}).encode()
    answer = http("POST", "/trust", body)
    assert answer.status == 200 and answer.json()["follow"] is True
    assert set(states(home, repo).values()) == {"trusted"}
    assert http("GET", "/trust").body.decode() == home.ok("trust", "list", "--json")
    assert http("DELETE", f"/trust?path={repo}").json()["removed"] is True
    assert http("DELETE", f"/trust?path={repo}").status == 404
    assert home.json("trust", "list")["places"] == []


def test_wrong_requests_are_told_why(hub, http, tmp_path):
    for body, status in ((b"{}", 400), (b'{"path": "relative"}', 400), (b'{"path": "/a\\u0000b"}', 400),
                         (b'{"path": 1}', 400), (json.dumps({"path": str(tmp_path)}).encode(), 404),
                         (b'{"path": "/nowhere/at/all"}', 404)):
        assert http("POST", "/trust", body).status == status, body
    assert http("DELETE", "/trust").status == 400


def test_trust_is_given_over_the_socket_only(home, start_hub, repo):
    hub = start_hub("--listen", "127.0.0.1:0")
    address = re.search(r"http=(\S+)", hub.ready).group(1)
    token = home.ok("token", "show").strip()

    def tcp(method, path, body=None):
        request = urllib.request.Request(f"http://{address}{path}", body, method=method, headers={
            "Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        try:
            return urllib.request.urlopen(request).status
        except urllib.error.HTTPError as e:
            return e.code

    assert tcp("GET", "/trust") == 200
    assert tcp("POST", "/trust", json.dumps({"path": str(repo)}).encode()) == 403
    assert tcp("DELETE", f"/trust?path={repo}") == 403
    assert not (home.dir / "trust.json").exists()


def test_a_running_hub_sees_the_file_by_itself(home, hub):
    # nobody asks it anything: that it sets a damaged file aside shows that it has read it
    (home.dir / "trust.json").write_text("damaged")
    retry(lambda: list(home.dir.glob("trust.json.damaged-*")))
    assert not (home.dir / "trust.json").exists()
    assert retry(lambda: "trust=unread" in home.log.read_text())


def test_commands_at_the_same_time_lose_nothing(home, hub, tmp_path):
    roots = [tmp_path / f"r{i}" for i in range(8)]
    for root in roots:
        (root / ".git").mkdir(parents=True)
        (root / "AGENTS.md").write_text(root.name)
    running = [home.popen("trust", str(root)) for root in roots]
    for process in running:
        assert process.wait() == 0
    assert {p["path"] for p in home.json("trust", "list")["places"]} == {str(r) for r in roots}
    retry(lambda: home.http("GET", "/trust").json() == home.json("trust", "list"))


def test_trust_reaches_a_session_that_was_there_before(home, hub, tmp_path):
    """Also in a project inside a trusted one."""
    home.env["AFLOAT_PROVIDER"] = "scripted"
    for name in ("outer", "outer/inner"):
        (tmp_path / name / ".git").mkdir(parents=True)
        plugins = tmp_path / name / ".afloat/plugins"
        plugins.mkdir(parents=True)
        plugin = name.replace("outer/", "")
        (plugins / f"{plugin}.lua").write_text(f"on_final(function(ctx, text) return text .. ' via {plugin}' end)")
    served = lambda: {p["name"] for p in home.json("plugin", "list")["plugins"] if p["serving"]}  # noqa: E731
    for name in ("outer", "inner"):
        dir = tmp_path / ("outer/inner" if name == "inner" else name)
        assert f"via {name}" not in home.ok("chat", "thanks", cwd=dir)
        home.ok("trust", cwd=dir)
        retry(lambda: name in served())
        assert f"via {name}" in home.ok("chat", "-c", "thanks", cwd=dir)
    home.ok("untrust", cwd=tmp_path / "outer")
    retry(lambda: served() == {"inner"})
