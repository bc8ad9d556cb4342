"""The hub's own Lua: files saved by other programs, seen through the stream, reports and commands."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import DEADLINE, LOOPS, ROOT, read_line, retry



def say(n, name="user.v"):
    return f'events.emit("{name}", {{n = {n}}})\n'


def versions(home):
    """What say() has said so far."""
    answer = home.http("GET", "/events?types=user.v", headers=["Accept: application/json"])
    return [e["data"]["n"] for e in answer.json()["events"]]


class Stream:
    """The hub's events as they come."""

    def __init__(self, home, types="user.*,plugin.*,generation.*"):
        self.process = home.popen("events", "-f", "--json", "--after", "0", "--types", types)
        self.seen = []

    def next(self):
        self.seen.append(json.loads(read_line(self.process.stdout)))
        return self.seen[-1]

    def until(self, type, **fields):
        """Read on until an event of this type has these fields, at its top or in its data."""
        end = time.monotonic() + DEADLINE
        while True:
            e = self.next()
            assert time.monotonic() < end, f"no {type} {fields}; the last were {self.seen[-5:]}"
            got = {**e, **(e.get("data") or {})}
            if e["type"] == type and all(got.get(k) == v for k, v in fields.items()):
                return e


@pytest.fixture
def lua(home):
    def save(name, text):
        path = home.dir / "lua" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_name("." + path.name + ".tmp")
        temp.write_text(text)
        os.rename(temp, path)
        return path
    return save


def test_a_save_is_live_however_it_is_made(home, lua, start_hub):
    path = lua("user/init.lua", say(1))
    start_hub()
    stream = Stream(home)
    stream.until("user.v", n=1)
    lua("user/init.lua", say(2))  # write and rename
    stream.until("user.v", n=2)
    path.write_text(say(3))  # in place
    stream.until("user.v", n=3)
    subprocess.run(["sed", "-i", "s/n = 3/n = 4/", path], check=True)
    stream.until("user.v", n=4)
    source = home.dir / "elsewhere.lua"
    source.write_text(say(5))
    subprocess.run(["cp", source, path], check=True)
    stream.until("user.v", n=5)
    subprocess.run(["mv", source, path], check=True)  # the same bytes: nothing happens
    subprocess.run(["touch", path], check=True)
    lua("user/init.lua", say(6))
    stream.until("user.v", n=6)
    assert [e["data"]["n"] for e in stream.seen if e["type"] == "user.v"] == [1, 2, 3, 4, 5, 6]


def test_the_directory_may_come_later(home, lua, hub):
    stream = Stream(home)
    lua("user/init.lua", say(1))
    stream.until("plugin.loaded", plugin="lua:user.init")
    assert home.json("status")["generation"] >= 2


def test_a_broken_save_changes_nothing_and_says_why(home, lua, start_hub):
    lua("lib/greet.lua", "return {word = 'hello'}")
    lua("user/init.lua", 'local g = require "lib.greet"\n'
        'timer.every(0.02, function() events.emit("user.beat", {word = g.word}) end)\nreturn {}')
    start_hub()
    stream = Stream(home)
    stream.until("user.beat", word="hello")
    lua("lib/greet.lua", "return {\n  word = 'good morning'\n  oops\n}")
    error = stream.until("plugin.error", plugin="lua:lib.greet")
    assert error["code"] == "LOAD_FAILED" and error["line"] == 3 and error["path"].endswith("lib/greet.lua")
    stream.until("user.beat", word="hello")  # the old code goes on
    done = home.cli("reload")
    assert done.returncode == 6, done.stdout
    assert "failed" in done.stdout and "lib/greet.lua:3" in done.stdout
    report = json.loads(home.cli("reload", "--json").stdout)
    assert not report["ok"] and report["failed"] == ["lua:lib.greet"] and report["diagnostics"][0]["line"] == 3
    assert "LOAD_FAILED lua:lib.greet" in home.ok("status")
    lua("lib/greet.lua", "return {word = 'good morning'}")
    stream.until("user.beat", word="good morning")
    home.ok("reload")
    assert "LOAD_FAILED" not in home.ok("status")


def test_reload_takes_what_was_just_written(home, lua, hub):
    for n in range(1, 20):
        lua("user/init.lua", say(n))
        report = home.http("POST", "/reload", b"{}").json()
        assert report["ok"], report
        assert versions(home) == list(range(1, n + 1))


def test_reload_by_name_force_and_dry_run(home, lua, start_hub):
    lua("lib/x.lua", "return {}")
    lua("user/init.lua", 'require "lib.x"')
    start_hub()
    assert home.json("reload", "--force", "lib.x")["changed"] == ["lua:lib.x", "lua:user.init"]
    lua("lib/x.lua", "return {n = 2}")
    # the watcher may have been faster than we are: what a dry run says is the same or nothing
    dry = home.json("reload", "--force", "--dry-run")
    assert dry["dry_run"] and "lua:lib.x" in dry["changed"]
    assert home.cli("reload", "nobody").returncode == 3
    assert home.http("POST", "/reload", b'{"names":[1]}').json()["code"] == "INVALID_BODY"
    assert home.http("GET", "/reload").json()["generation"] == home.json("status")["generation"]


def test_hangup_reloads(home, lua, start_hub):
    hub = start_hub(env={"AFLOAT_HOME": str(home.dir)})
    stream = Stream(home, "user.*,generation.*")
    (home.dir / "config.toml").write_text("[watch]\npoll = true\n")
    lua("user/init.lua", say(1))
    hub.process.send_signal(signal.SIGHUP)
    stream.until("user.v", n=1)


def test_a_protected_module_needs_a_restart(home, lua, hub):
    stream = Stream(home)
    lua("hub/state.lua", "error('never run')")
    need = stream.until("plugin.needs", plugin="lua:hub.state")
    assert need["kind"] == "hub-restart"
    report = home.json("reload")
    assert report["ok"] and report["diagnostics"][0]["code"] == "PROTECTED"


def test_safe_starts_without_user_lua(home, lua, start_hub):
    lua("user/init.lua", say(1))
    start_hub("--safe")
    report = home.http("GET", "/reload").json()
    assert report["ok"] and "lua:user.init" not in report["added"] and "lua:hub.state" in report["added"]
    lua("user/init.lua", say(2))
    home.ok("reload")
    assert versions(home) == []


def test_dev_lua_is_the_shipped_tree_watched(home, start_hub):
    dev = home.dir / "source"
    subprocess.run(["cp", "-r", ROOT / "runtime/lua", dev], check=True)
    start_hub(env={"AFLOAT_DEV_LUA": str(dev)})
    stream = Stream(home)
    (dev / "lib/commands.lua").write_text(say(1) + (dev / "lib/commands.lua").read_text())
    stream.until("user.v", n=1)


def test_shutdown_is_told(home, lua, start_hub):
    lua("user/init.lua", 'hooks.on("shutdown", "me", function() io.open(config.data_dir() .. "/bye", "w"):close() end)')
    hub = start_hub()
    hub.close()
    assert (home.dir / "bye").exists()


def test_file_changed_is_notified(home, lua, hub):
    stream = Stream(home)
    lua("user/init.lua", 'hooks.on("file_changed", "me", function(c) events.emit("user.file", c) end)')
    stream.until("plugin.loaded", plugin="lua:user.init")
    lua("user/other.lua", "return 1")
    # the watch may tell of init.lua itself when its handler is there already
    while not stream.until("user.file")["data"]["path"].endswith("user/other.lua"):
        pass


RUNAWAYS = {
    "load": "while true do end",
    "timer": "timer.every(0.01, function() while true do end end)",
    "hook": 'hooks.on("go", "x", function() while true do end end)\n'
            'timer.every(0.01, function() hooks.notify("go") end)',
}


@pytest.mark.parametrize("where", RUNAWAYS)
def test_code_that_never_ends_does_not_end_the_hub(home, lua, start_hub, where):
    start_hub()
    stream = Stream(home)
    lua("user/init.lua", RUNAWAYS[where])
    error = stream.until("plugin.error", plugin="lua:user.init")
    assert "TIMEOUT" in error["code"] or error["code"] == "HOOK_DISABLED", error
    began = time.monotonic()
    assert home.http("GET", "/healthz").json()["ok"]
    assert time.monotonic() - began < 5
    lua("user/init.lua", say(1))
    stream.until("user.v", n=1)


HOARD = "for i = 1, 1e9 do hoard[#hoard + 1] = {i} end"


def test_a_full_state_is_rebuilt_and_the_rest_lives_on(home, lua, start_hub):
    (home.dir / "config.toml").write_text("[limits]\nmemory_mb = 8\nlua_ms = 20000\n")
    lua("user/hoard.lua", "_G.hoard = {}\n"
        'hooks.on("file_changed", "hoard", function(c) if c.path:find("go.lua") then ' + HOARD + " end end)\n"
        "return {}")
    lua("user/keeper.lua", 'local t = state.get("keeper", {n = 0})\n'
        "t.loads = (t.loads or 0) + 1\n"
        'timer.every(0.02, function() t.n = t.n + 1 events.emit("user.n", t) end)\n'
        'hooks.on("file_changed", "keeper", function(c) events.emit("user.file", {path = c.path}) end)\n'
        "return {}")
    lua("user/waiter.lua", 'local t = state.get("waiter", {})\n'
        "if not t.begun then t.begun = true\n"
        '  timer.after(0, function() events.emit("user.waits", {}) timer.sleep(3600) end)\n'
        "end\nreturn {}")
    lua("user/init.lua", 'for _, n in ipairs{"hoard", "keeper", "waiter"} do require("user." .. n) end\n')
    start_hub()
    stream = Stream(home)
    stream.until("user.waits")
    before = stream.until("user.n", loads=1)["data"]["n"]
    generation = home.http("GET", "/reload").json()["generation"]
    lua("user/go.lua", "return 1")
    slowest = 0
    while home.http("GET", "/reload").json()["generation"] == generation:
        began = time.monotonic()
        assert home.http("GET", "/healthz").json()["ok"]
        slowest = max(slowest, time.monotonic() - began)
    print(f"slowest /healthz while the state was full and rebuilt: {slowest * 1000:.0f} ms")
    stream.until("plugin.error", plugin="lua:user.waiter", code="STALE_HANDLE")
    after = stream.until("user.n", loads=2)["data"]["n"]
    assert after > before
    report = home.http("GET", "/reload").json()
    about = [d for d in report["diagnostics"] if "made anew" in d["message"]]
    assert len(about) == 1 and about[0]["code"] == "MEMORY_LIMIT" and about[0]["plugin"] == "lua:user.hoard"
    assert report["failed"] == [] and report["needs"] == []
    lua("user/other.lua", "return 1")
    assert stream.until("user.file")["data"]["path"]
    lua("user/hoard.lua", say(1) + "return {}")
    stream.until("user.v", n=1)
    assert home.json("reload")["ok"]


def test_a_bomb_is_not_loaded_again_and_again(home, lua, start_hub):
    (home.dir / "config.toml").write_text("[limits]\nmemory_mb = 8\n")
    lua("user/bomb.lua", "return {}")
    lua("user/init.lua", 'require("user.bomb")\n' + say(1))
    start_hub()
    stream = Stream(home, "user.*,generation.*,plugin.error")
    stream.until("user.v", n=1)
    lua("user/bomb.lua", "_G.hoard = {} " + HOARD)

    def refused():
        found = home.http("GET", "/reload").json()["diagnostics"]
        return any("is not run until it changes" in d["message"] for d in found)
    retry(refused)
    generation = home.http("POST", "/reload", b"{}").json()["generation"]
    assert home.http("POST", "/reload", b"{}").json()["generation"] == generation
    loads = versions(home)
    assert set(loads) == {1} and len(loads) <= 5  # the last good version, each time
    lua("user/bomb.lua", "return {}\n-- mended")
    lua("user/init.lua", 'require("user.bomb")\n' + say(2))
    stream.until("user.v", n=2)


def test_a_storm_of_saves_ends_consistent(home, lua, start_hub):
    count, saves = 50, 1000 * LOOPS
    for i in range(count):
        lua(f"user/m{i}.lua", "return {n = 0}")
    lua("user/init.lua", "local all = {}\n"
        f"for i = 0, {count - 1} do all[i + 1] = require('user.m' .. i).n end\n"
        'events.emit("user.all", {list = all})')
    start_hub()
    stream = Stream(home, "user.all,plugin.error")
    for k in range(saves):
        i = k % count
        text = "return {n = " if k % 7 == 3 and k < saves - count else f"return {{n = {k}}}"
        lua(f"user/m{i}.lua", text)
    want = [max(k for k in range(saves) if k % count == i) for i in range(count)]
    stream.until("user.all", list=want)
    report = home.json("reload")
    assert report["ok"] and report["failed"] == []
    again = [e for e in stream.seen if e["type"] == "user.all"]
    print(f"{saves} saves over {count} files: {len(again)} loads of what stands on them")
    assert len(again) < saves


def test_the_log_says_which_diagnostic_it_was(home, lua, start_hub):
    lua("user/init.lua", 'timer.after(0, function() error("broken") end)\n')
    start_hub()
    line = retry(lambda: next((x for x in home.log.read_text().splitlines() if "broken" in x), None))
    assert "HOOK_FAILED" in line
