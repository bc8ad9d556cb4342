"""Plugins and choices over several hubs on one PostgreSQL: `reload --all-hubs`, and what each hub makes of it."""
import json
import signal

import pytest

from bots import call
from conftest import retry
from team_rig import Team

GREET = 'command {{ name = "hello", description = "x", run = function() return "{0}" end }}\n'


@pytest.fixture
def team(database):
    t = Team(database)
    yield t
    for name, home in t.homes.items():  # shown when the test failed
        print(name, *home.log.read_text().splitlines()[-30:], sep="\n")
    t.close()


def put(home, name, text, root="plugins"):
    path = home.dir / root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def plugins(home):
    return {p["name"]: p for p in call(home, "GET", "/plugin/list")["plugins"]}


def generation(home):
    return call(home, "GET", "/healthz")["generation"]


def commits(home):
    """How often each trigger committed, from the log of generations."""
    return [g["trigger"] for g in call(home, "GET", "/generations")["generations"]]


def test_a_choice_reaches_the_other_hub_while_it_runs(team):
    for name in ("anvil", "bellows"):
        put(team.home(name), "greet.lua", GREET.format("hi"))
    anvil, bellows = team.start("anvil", "bellows")
    before = generation(bellows)
    anvil.ok("plugin", "disable", "greet")
    retry(lambda: plugins(bellows)["greet"]["state"] == "disabled")
    assert generation(bellows) == before + 1, "one change, one commit"
    bellows.ok("plugin", "enable", "greet")
    retry(lambda: plugins(anvil)["greet"]["state"] != "disabled" and plugins(anvil)["greet"]["serving"])
    anvil.ok("feature", "disable", "plugins")
    retry(lambda: not call(bellows, "GET", "/plugin/list")["feature_enabled"])
    anvil.ok("feature", "enable", "plugins")
    retry(lambda: call(bellows, "GET", "/plugin/list")["feature_enabled"] and plugins(bellows)["greet"]["serving"])
    assert generation(bellows) == before + 4
    assert commits(bellows)[0] == "choice"
    anvil.ok("tool", "disable", "web_fetch")
    retry(lambda: not {t["name"]: t["enabled"] for t in call(bellows, "GET", "/tool")["tools"]}["web_fetch"])


# ---- reload --all-hubs --------------------------------------------------------------------------

THREE = ("anvil", "bellows", "crucible")
POISON = 'if io.open(os.getenv("AFLOAT_HOME") .. "/poison") then error("not here") end\n'


def start(team, *names, watch_s=0):
    for name in names:  # the hub that leads is the one that watches
        team.home(name, more=f"rollout_watch_s = {watch_s if name == names[0] else 0}\n")
    homes = team.start(*names)
    return homes if isinstance(homes, list) else [homes]


def says(home):
    """What the plugin greet answers on a hub; None: there is none."""
    answer = home.http("POST", "/command/greet:hello", b"{}")
    return answer.json()["output"] if answer.status == 200 else None


def roll(home, code=0, *more):
    done = home.cli("reload", *more, "--all-hubs", "--json", timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    assert {"ok", "generation", "previous", "plugins", "diagnostics", "hubs", "stopped"} <= set(answer)
    return answer


def states(answer):
    return {h["name"]: h["state"] for h in answer["hubs"]}


def test_plugins_travel_to_all_hubs_and_so_does_a_deletion(team):
    homes = start(team, *THREE)
    put(homes[0], "greet.lua", GREET.format("one"))
    put(homes[0], "big/init.lua", 'return require "more"\n')
    put(homes[0], "big/more.lua", 'tool { name = "big", description = "x", run = function() return "big" end }\nreturn {}\n')
    put(homes[1], "mine.lua", GREET.format("mine"))
    answer = roll(homes[0])
    assert answer["ok"] and answer["stopped"] is None
    assert [h["name"] for h in answer["hubs"]] == list(THREE), "the hub that was asked comes first"
    assert set(states(answer).values()) == {"committed"}
    for h, home in zip(answer["hubs"], homes):
        assert says(home) == "one" and plugins(home)["big"]["serving"]
        assert h["generation_after"] == generation(home)
    assert answer["hubs"][1]["generation_before"] < answer["hubs"][1]["generation_after"]
    assert "mine" in plugins(homes[1]) and "mine" not in plugins(homes[0])
    # what others made is untouched, and comes along when they publish
    put(homes[1], "greet.lua", GREET.format("two"))
    assert states(roll(homes[1])) == dict.fromkeys(THREE, "committed")
    assert [says(h) for h in homes] == ["two"] * 3 and all("mine" in plugins(h) for h in homes)
    (homes[2].dir / "plugins/greet.lua").unlink()
    roll(homes[2])
    assert [says(h) for h in homes] == [None] * 3
    assert list((homes[0].dir / "trash").glob("*greet.lua")) and not (homes[0].dir / "plugins/greet.lua").exists()
    text = homes[0].ok("reload", "--all-hubs")
    assert all(name in text for name in THREE) and "committed" in text


def test_only_the_plugins_that_are_named_travel(team):
    anvil, bellows = start(team, "anvil", "bellows")
    put(anvil, "greet.lua", GREET.format("one"))
    put(anvil, "other.lua", "-- one\n")
    roll(anvil)
    put(anvil, "greet.lua", GREET.format("two"))
    put(anvil, "other.lua", "-- two\n")
    put(anvil, "fresh.lua", "-- fresh\n")
    anvil.ok("reload")
    answer = roll(anvil, 0, "greet")
    assert states(answer) == dict.fromkeys(("anvil", "bellows"), "committed")
    assert says(bellows) == "two" and "fresh" not in plugins(bellows)
    assert (bellows.dir / "plugins/other.lua").read_text() == "-- one\n", "it was not named"
    assert (anvil.dir / "plugins/other.lua").read_text() == "-- two\n", "and stays here as it is"
    # a deletion has no name here any more: it travels with all
    (anvil.dir / "plugins/other.lua").unlink()
    put(anvil, "greet.lua", GREET.format("three"))
    roll(anvil, 0, "greet")
    assert "other" in plugins(bellows) and says(bellows) == "three"
    roll(anvil)
    assert "other" not in plugins(bellows) and "fresh" in plugins(bellows)
    refused = anvil.cli("reload", "nobody", "--all-hubs")
    assert refused.returncode == 3 and "'nobody'" in refused.stderr, refused
    (anvil.dir / "config.toml").write_text((anvil.dir / "config.toml").read_text() + f'\n[[plugins]]\npath = "{put(anvil, "far.lua", "-- far", "elsewhere")}"\n')
    anvil.ok("reload")
    refused = anvil.cli("reload", "far", "--all-hubs")
    assert refused.returncode != 0 and "'far' is not a plugin that can be sent" in refused.stderr, refused


def test_a_dry_run_tells_what_would_travel_and_sends_nothing(team):
    homes = start(team, *THREE)
    put(homes[0], "greet.lua", GREET.format("one"))
    put(homes[0], "old.lua", "-- old\n")
    roll(homes[0])
    team.kill("crucible")
    retry(lambda: {h["name"]: h["state"] for h in call(homes[0], "GET", "/hubs")["hubs"]}["crucible"] == "lost")
    put(homes[0], "greet.lua", GREET.format("two"))
    put(homes[0], "fresh.lua", "-- fresh\n")
    (homes[0].dir / "plugins/old.lua").unlink()
    homes[0].ok("reload")
    before, sets = generation(homes[0]), team.database.sql("SELECT count(*) FROM afloat.plugin_sets")
    answer = roll(homes[0], 0, "--dry-run")
    assert answer["stopped"] is None and states(answer) == {"anvil": "planned", "bellows": "planned", "crucible": "skipped"}
    changes = {c["plugin"]: c["change"] for c in answer["changes"]}
    assert changes == {"plugins/greet.lua": "changed", "plugins/fresh.lua": "added", "plugins/old.lua": "removed"}
    assert {c["plugin"] for c in roll(homes[0], 0, "greet", "--dry-run")["changes"]} == {"plugins/greet.lua"}
    text = homes[0].ok("reload", "--dry-run", "--all-hubs")
    assert "planned" in text and "changed plugins/greet.lua" in text
    assert says(homes[1]) == "one" and generation(homes[0]) == before
    assert team.database.sql("SELECT count(*) FROM afloat.plugin_sets") == sets
    told = homes[0].http("GET", "/events?types=rollout.changed&limit=1000", headers=["Accept: application/json"]).json()["events"]
    assert told and not [e for e in told if e["state"] == "planned"]
    # what could not be sent is refused
    (homes[0].dir / "plugins/link.lua").symlink_to("greet.lua")
    homes[0].cli("reload")
    assert "symbolic link" in homes[0].cli("reload", "--dry-run", "--all-hubs").stderr


def test_a_plugin_that_fails_on_the_second_hub_is_taken_back_from_all(team):
    homes = start(team, *THREE)
    put(homes[0], "greet.lua", GREET.format("one"))
    roll(homes[0])
    (homes[1].dir / "poison").touch()
    put(homes[0], "greet.lua", POISON + GREET.format("two"))
    retry(lambda: says(homes[0]) == "two")
    answer = roll(homes[0], 6)
    assert not answer["ok"] and "'bellows'" in answer["stopped"] and "not here" in answer["stopped"]
    assert states(answer) == {"anvil": "rolled_back", "bellows": "rolled_back", "crucible": "skipped"}, answer
    assert [says(h) for h in homes] == ["one"] * 3
    assert "two" in (homes[0].dir / "plugins/greet.lua").read_text(), "the user's own file stays"
    assert "one" in (homes[1].dir / "plugins/greet.lua").read_text()
    answer = roll(homes[0], 6)  # nothing was mended
    assert "is held" in answer["stopped"] and states(answer)["bellows"] == "skipped"
    # mended, it goes through
    put(homes[0], "greet.lua", GREET.format("three"))
    assert states(roll(homes[0])) == dict.fromkeys(THREE, "committed")
    assert [says(h) for h in homes] == ["three"] * 3


def test_errors_that_rise_after_the_commit_take_it_back(team):
    homes = start(team, *THREE, watch_s=4)
    put(homes[2], "greet.lua", GREET.format("one"))
    roll(homes[2])
    (homes[1].dir / "poison").touch()
    put(homes[0], "greet.lua", GREET.format("two") + 'timer.every(0.05, function() '
        'if io.open(os.getenv("AFLOAT_HOME") .. "/poison") then error("it breaks") end end)\n')
    answer = roll(homes[0], 6)
    assert states(answer) == {"anvil": "rolled_back", "bellows": "rolled_back", "crucible": "skipped"}, answer
    assert "'bellows'" in answer["stopped"] and "it breaks" in answer["stopped"]
    assert [says(h) for h in homes] == ["one"] * 3


def test_a_local_edit_is_a_conflict_and_stays(team):
    homes = start(team, *THREE)
    put(homes[0], "greet.lua", GREET.format("one"))
    put(homes[0], "other.lua", "-- one\n")
    roll(homes[0])
    put(homes[1], "greet.lua", GREET.format("mine"))
    put(homes[0], "other.lua", "-- two\n")
    assert roll(homes[0])["ok"], "what is changed here alone is no conflict"
    put(homes[0], "greet.lua", GREET.format("two"))
    put(homes[0], "other.lua", "-- three\n")
    answer = roll(homes[0], 6)
    assert set(states(answer).values()) == {"committed"} and answer["stopped"] is None
    assert answer["hubs"][1]["conflicts"] == ["plugins/greet.lua: changed on this hub"]
    assert [says(h) for h in homes] == ["two", "mine", "two"]
    assert (homes[1].dir / "plugins/other.lua").read_text() == "-- three\n"
    assert roll(homes[1])["ok"], "published from there, it is what all have"
    assert [says(h) for h in homes] == ["mine"] * 3


def test_a_hub_that_was_down_or_draining_takes_it_later(team):
    homes = start(team, *THREE)
    homes[0].ok("hubs", "drain", "bellows")
    retry(lambda: {h["name"]: h["state"] for h in call(homes[1], "GET", "/hubs")["hubs"]}["bellows"] == "draining")
    team.hubs.pop("crucible").close()
    put(homes[0], "greet.lua", GREET.format("one"))
    answer = roll(homes[0])
    assert states(answer) == {"anvil": "committed", "bellows": "skipped", "crucible": "skipped"}
    assert all(h["reason"] for h in answer["hubs"][1:])
    team.start("crucible")
    retry(lambda: says(homes[2]) == "one")
    assert says(homes[1]) is None
    team.hubs.pop("bellows").close()
    team.start("bellows")
    retry(lambda: says(homes[1]) == "one")


def half_way(team):
    """All hubs say "one"; the first two say "two" already, and the command that leads there runs."""
    homes = start(team, *THREE, watch_s=5)
    put(homes[2], "greet.lua", GREET.format("one"))
    roll(homes[2])
    put(homes[0], "greet.lua", GREET.format("two"))
    command = homes[0].popen("reload", "--all-hubs", "--json")
    retry(lambda: says(homes[1]) == "two")
    return homes, command


def test_a_hub_that_is_killed_in_the_middle_stops_it(team):
    homes, command = half_way(team)
    team.kill("bellows")
    out, err = command.communicate(timeout=60)
    answer = json.loads(out)
    assert command.returncode == 6 and "'bellows'" in answer["stopped"], (out, err)
    assert states(answer) == {"anvil": "rolled_back", "bellows": "lost", "crucible": "skipped"}
    assert says(homes[0]) == "one" and says(homes[2]) == "one"
    team.start("bellows")
    retry(lambda: says(homes[1]) == "one")


def test_when_the_hub_that_leads_is_killed_the_others_go_back(team):
    homes, command = half_way(team)
    team.kill("anvil")
    command.communicate(timeout=60)
    retry(lambda: says(homes[1]) == "one")
    assert says(homes[2]) == "one"
    team.start("anvil")
    retry(lambda: says(homes[0]) == "one")
    put(homes[2], "greet.lua", GREET.format("three"))
    answer = roll(homes[2], 6)
    assert [h.get("conflicts") for h in answer["hubs"]] == [None, ["plugins/greet.lua: changed on this hub"], None]
    assert "two" in (homes[0].dir / "plugins/greet.lua").read_text(), "what was not published is the user's"


def test_a_hub_that_was_killed_while_it_wrote_files_goes_back_first(team):
    anvil, bellows = start(team, "anvil", "bellows")
    put(anvil, "greet.lua", GREET.format("one"))
    roll(anvil)
    retry(lambda: "before" not in json.loads((bellows.dir / "state/channel.json").read_text()))
    team.hubs.pop("bellows").close()
    put(anvil, "greet.lua", GREET.format("two"))
    roll(anvil)
    # as a kill leaves it: the file is written, the state says that it is being done, the old contents are kept
    file, state = bellows.dir / "plugins/greet.lua", bellows.dir / "state/channel.json"
    old = json.loads(state.read_text())
    hash = old["base"][0]["hash"]
    put(bellows, "greet.lua", file.read_text(), f"state/channel/{hash}")
    new = json.loads(team.database.sql("SELECT body FROM afloat.plugin_sets WHERE number = 2"))
    file.write_text(GREET.format("two"))
    before = {"number": 1, "generation": old["generation"], "base": old["base"], "files": old["base"]}
    state.write_text(json.dumps({**old, "number": 2, "doing": True, "base": new, "before": before}))
    team.start("bellows")
    retry(lambda: "set=2 state=committed" in bellows.log.read_text())
    log = bellows.log.read_text()
    assert log.index("set=2 state=rolled_back") < log.index("set=2 state=committed")
    retry(lambda: says(bellows) == "two")
    retry(lambda: not list((bellows.dir / "state/channel").iterdir()))


def test_the_command_may_be_interrupted_and_says_how_it_gets_on(team):
    homes = start(team, "anvil", "bellows", watch_s=3)
    put(homes[0], "greet.lua", GREET.format("one"))
    command = homes[0].popen("reload", "--all-hubs")
    retry(lambda: says(homes[0]) == "one")
    retry(lambda: team.database.sql("SELECT next FROM afloat.plugin_channels").strip() == "1")
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=30)
    assert command.returncode == 130 and b"continues in the hub" in err
    retry(lambda: says(homes[1]) == "one")
    retry(lambda: team.database.sql("SELECT current, next FROM afloat.plugin_channels").split("|") == ["1", "0"])
    put(homes[0], "greet.lua", GREET.format("two"))
    shown = homes[0].cli("reload", "--all-hubs", timeout=60)
    assert shown.returncode == 0 and "anvil: committed" in shown.stderr and "bellows" in shown.stdout


def test_a_projects_plugin_goes_only_where_the_project_is_trusted(team, tmp_path):
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    anvil, bellows, crucible = homes = start(team, *THREE)
    path = repo / ".afloat/plugins/ours.lua"
    path.parent.mkdir(parents=True)
    path.write_text('tool { name = "ours", description = "x", run = function() return 1 end }\n')
    for home in (anvil, bellows):
        home.ok("trust", str(repo))
    for home in homes:
        call(home, "POST", "/session", {"working_dir": str(repo)}, 201)
    retry(lambda: all(plugins(home).get("ours", {}).get("serving") for home in (anvil, bellows)))
    assert roll(anvil)["ok"]
    set = json.loads(team.database.sql("SELECT body FROM afloat.plugin_sets ORDER BY number DESC LIMIT 1"))
    assert [(i["place"], i["project"]) for i in set] == [(".afloat/plugins/ours.lua", str(repo))]
    trust = json.loads((crucible.dir / "trust.json").read_text()) if (crucible.dir / "trust.json").exists() else {}
    assert not trust.get("places"), "nothing was trusted on the way"
    assert not plugins(crucible).get("ours", {"serving": False})["serving"]
    # gone from the disk, it comes back where its bytes are trusted, and nowhere else
    text = path.read_text()
    path.unlink()
    for home, name in ((bellows, "bellows"), (crucible, "crucible")):
        (home.dir / "state/channel.json").unlink()
        team.hubs.pop(name).close()
    team.start("crucible")
    retry(lambda: "not trusted on this hub" in team.database.sql("SELECT answer FROM afloat.plugin_hubs WHERE hub = 'crucible'"))
    assert not path.exists()
    team.start("bellows")
    retry(lambda: path.exists() and path.read_text() == text)
    # an untrusted one is not published at all
    (repo / ".afloat/plugins/theirs.lua").write_text("-- new\n")
    roll(anvil)
    assert "theirs" not in team.database.sql("SELECT body FROM afloat.plugin_sets ORDER BY number DESC LIMIT 1")


def test_what_cannot_travel_is_named(team, tmp_path):
    [anvil] = start(team, "anvil")
    (tmp_path / "far.lua").write_text("-- far\n")
    put(anvil, "near/init.lua", "-- near\n")
    (anvil.dir / "plugins/near/other.lua").symlink_to("init.lua")
    refused = anvil.cli("reload", "--all-hubs")
    assert refused.returncode == 4 and "plugins/near" in refused.stderr and "symbolic link" in refused.stderr
    (anvil.dir / "plugins/near/other.lua").unlink()
    (anvil.dir / "plugins/far.lua").symlink_to(tmp_path / "far.lua")
    refused = anvil.cli("reload", "--all-hubs")
    assert refused.returncode == 4 and "plugins/far.lua" in refused.stderr and "symbolic link" in refused.stderr
    (anvil.dir / "plugins/far.lua").unlink()
    put(anvil, "near/data.bin", "x" * (7 << 20))
    refused = anvil.cli("reload", "--all-hubs", timeout=60)
    assert refused.returncode == 1 and "8 MiB" in refused.stderr, refused
    (anvil.dir / "plugins/near/data.bin").unlink()
    put(anvil, "broken.lua", "this is not Lua\n")
    answer = roll(anvil, 6)
    assert answer["hubs"] == [] and "nothing was sent" in answer["stopped"]
    (anvil.dir / "plugins/broken.lua").unlink()
    assert roll(anvil)["ok"]
    assert anvil.cli("reload", "--all-hubs", "--dry-run").returncode == 0
    # secrets, settings and trust are in no set
    assert "config" not in team.database.sql("SELECT body FROM afloat.plugin_sets")


def test_a_database_that_lost_its_sets_begins_anew(team):
    anvil, bellows = start(team, "anvil", "bellows")
    put(anvil, "greet.lua", GREET.format("one"))
    roll(anvil)
    team.database.sql("DELETE FROM afloat.plugin_channels; DELETE FROM afloat.plugin_sets")
    put(bellows, "more.lua", "-- more\n")
    assert roll(bellows)["ok"] and "more" in plugins(anvil)


def test_a_hub_alone_says_what_is_missing(home, hub):
    refused = home.cli("reload", "--all-hubs")
    assert refused.returncode == 7 and "works alone" in refused.stderr and "[store] url" in refused.stderr


BAD = {
    "place": ("UPDATE afloat.plugin_sets SET body = replace(body, 'plugins/greet.lua', 'config.toml')", "not a place"),
    "way out": ("UPDATE afloat.plugin_sets SET body = replace(body, 'plugins/greet.lua', 'plugins/../x.lua')", "not a place"),
    "contents": ("UPDATE afloat.plugin_blobs SET body = replace(body, '\"bytes\":\"', '\"bytes\":\"AAAA')", "hash"),
    "file": ("UPDATE afloat.plugin_blobs SET body = replace(body, 'greet.lua', '../greet.lua')", "would not be in the plugin"),
    "missing": ("DELETE FROM afloat.plugin_blobs", "does not have the contents"),
}


def test_what_the_database_says_is_checked(team):
    [anvil] = start(team, "anvil")
    put(anvil, "greet.lua", GREET.format("one"))
    roll(anvil)
    team.database.sql("CREATE TABLE sets AS SELECT * FROM afloat.plugin_sets;"
                      "CREATE TABLE blobs AS SELECT * FROM afloat.plugin_blobs")
    for i, (change, complaint) in enumerate(BAD.values()):
        team.database.sql("DELETE FROM afloat.plugin_sets; INSERT INTO afloat.plugin_sets SELECT * FROM sets;"
                          "DELETE FROM afloat.plugin_blobs; INSERT INTO afloat.plugin_blobs SELECT * FROM blobs;" + change)
        [other] = start(team, f"bellows-{i}")
        retry(lambda: complaint in team.database.sql(f"SELECT answer FROM afloat.plugin_hubs WHERE hub = 'bellows-{i}'"))
        assert not list(other.dir.rglob("greet.lua")) and says(other) is None, complaint
        assert "hub_name" in (other.dir / "config.toml").read_text()
    refused = other.cli("reload", "--all-hubs")
    assert refused.returncode == 7 and "does not have the current plugins" in refused.stderr


def test_a_set_that_is_gone_is_asked_for_no_faster_than_the_poll(team):
    [anvil] = start(team, "anvil")
    put(anvil, "greet.lua", GREET.format("one"))
    roll(anvil)
    team.database.sql("DELETE FROM afloat.plugin_sets")
    [bellows] = start(team, "bellows")

    def asked():
        lines = bellows.http("GET", "/metrics").body.decode().splitlines()
        return int([line.split()[1] for line in lines if line.startswith("afloat_store_requests_total ")][0])
    before = asked()
    team.database.sql("SELECT pg_sleep(3)")  # the time over which they are counted
    assert asked() - before < 100


def test_users_of_a_team_do_not_give_each_other_plugins(team):
    """Ann and Bob work as one role and share sessions; a plugin of Ann's never reaches Bob's hub."""
    crew, ann, bob = (f"{who}_{team.database.name}" for who in ("crew", "ann", "bob"))
    team.database.sql(f"CREATE ROLE {crew}; CREATE ROLE {ann} LOGIN IN ROLE {crew}; CREATE ROLE {bob} LOGIN IN ROLE {crew}")
    first = start(team, "anvil")[0]  # prepares the database
    team.database.sql(f"GRANT afloat_hub TO {crew}")
    homes = {}
    for user, name in ((ann, "bellows"), (ann, "crucible"), (bob, "drill")):
        url = team.database.url(user, options=f"-crole%3D{crew}")
        homes[name] = team.home(name, url=url, more="rollout_watch_s = 0\n")
        team.start(name)
    put(homes["bellows"], "greet.lua", GREET.format("one"))
    answer = roll(homes["bellows"])
    assert states(answer) == {"bellows": "committed", "crucible": "committed"}
    assert says(homes["crucible"]) == "one" and says(homes["drill"]) is None and says(first) is None


def test_a_plugin_cannot_roll_out(team):
    [anvil] = start(team, "anvil")
    put(anvil, "greet.lua", 'command { name = "hello", description = "x", run = function() '
        'local ok, why = hub.reload { all_hubs = true }; return tostring(ok) .. why end }\n')
    retry(lambda: "for the user to decide" in (says(anvil) or ""))
    assert team.database.sql("SELECT count(*) FROM afloat.plugin_sets").strip() == "0"
