"""Undo takes back the last change, of whatever it was: a plugin, a module, an improvement, a choice."""
import os
import signal

import pytest

from conftest import retry
from test_lua import lua, say, versions  # noqa: F401  (a fixture)
from test_plugins import answer, ask, call, calm, plug, reload, rows
from test_plugins_kept import undo, undo_refused

RELAY = 'events.on("improvement.tell", function(data) events.emit("user.told", data) end)\n'


def beat(n):
    return f'timer.every(0.02, function() events.emit("improvement.tell", {{n = {n}}}) end)\n'


def told(home):
    """What the improvement said last."""
    found = home.http("GET", "/events?types=user.told", headers=["Accept: application/json"]).json()["events"]
    return found[-1]["data"]["n"] if found else None


def is_at(home, p, m, i):
    """Wait until plugin, module and improvement are in these versions."""
    def same():
        now = (call(home, "GET", "/api/plugins/p/")[1].get("v"), (versions(home) or [None])[-1], told(home))
        return now == (p, m, i) or None
    assert retry(same)


@pytest.fixture
def world(home, lua, start_hub):
    """A plugin, a module and an improvement, each in its first version."""
    def save(**what):
        for name, n in what.items():
            if name == "p":
                plug(home, "p", answer(n))
            elif name == "m":
                lua("lib/m.lua", say(n) + "return {}")
            else:
                lua("improvements/i.lua", beat(n))
    lua("user/init.lua", RELAY + 'require "lib.m"')
    save(p=1, m=1, i=1)
    hub = start_hub()
    is_at(home, 1, 1, 1)
    save.hub = hub
    return save


def end_hub(hub, signum):
    """The hub goes, one way or the other."""
    os.kill(hub.pid, signum)
    hub.process.wait()
    hub.process.returncode = 0  # it died as we wanted


def undo_all(home):
    while call(home, "POST", "/generations/undo", {})[0] == 200:
        pass


def held(home):
    """Who is, by the report of a reload, which ends no hold."""
    return sorted(d["plugin"] for d in reload(home)["diagnostics"] if d["code"] == "HELD")


def test_the_last_change_is_taken_back_and_then_the_one_before(home, world):
    assert undo_refused(home), "what was there at first is no change"
    world(p=2)
    is_at(home, 2, 1, 1)
    world(m=2)
    is_at(home, 2, 2, 1)
    world(i=2)
    is_at(home, 2, 2, 2)
    assert undo(home)["changed"] == ["improvements/i"]
    is_at(home, 2, 2, 1)
    assert undo(home)["changed"] == ["lua:lib.m", "lua:user.init"]
    is_at(home, 2, 1, 1)
    assert "n = 2" in (home.dir / "lua/lib/m.lua").read_text(), "files are not touched"
    assert held(home) == ["improvements/i", "lua:lib.m"]
    assert undo(home)["changed"] == ["p"]
    is_at(home, 1, 1, 1)
    assert undo_refused(home)
    world(m=3)
    is_at(home, 1, 3, 1)
    world(i=3)
    is_at(home, 1, 3, 3)
    assert held(home) == ["p"], "a save ends it"


def test_a_generation_is_gone_back_to_with_all_that_was_in_it(home, world):
    before = reload(home)["generation"]
    world(p=2)
    is_at(home, 2, 1, 1)
    world(m=2, i=2)
    is_at(home, 2, 2, 2)
    hashes = lambda n: {k: v["hash"] for k, v in call(home, "GET", f"/generations/{n}")[1]["set"].items()}
    undo(home, to=before)
    is_at(home, 1, 1, 1)
    assert hashes(reload(home)["generation"]) == hashes(before)
    assert set(hashes(before)) == {"p", "lua:lib.m", "lua:user.init", "improvements/i"}


def test_what_was_deleted_comes_back_and_what_was_added_goes(home, world, lua):
    (home.dir / "lua/improvements/i.lua").unlink()
    retry(lambda: "improvements/i" not in rows(home))
    assert undo(home)["added"] == ["improvements/i"]
    (home.dir / "lua/user/init.lua").unlink()
    retry(lambda: not hub_has(home, "lua:user.init"))
    assert undo(home)["added"] == ["lua:lib.m", "lua:user.init"]
    is_at(home, 1, 1, 1)
    lua("improvements/j.lua", "log.info('j')")
    retry(lambda: hub_has(home, "improvements/j"))
    assert undo(home)["removed"] == ["improvements/j"]
    lua("lib/config_resolver.lua", "return {mine = true}")
    retry(lambda: last_change(home) == ["lua:lib.config_resolver"])
    assert undo(home)["changed"] == ["lua:lib.config_resolver"], "the shipped one is back"


def last_change(home):
    return call(home, "GET", "/generations")[1]["generations"][0]["changed"]


def hub_has(home, unit):
    """Does the newest generation hold it?"""
    newest = call(home, "GET", "/generations")[1]["generations"][0]["generation"]
    return unit in call(home, "GET", f"/generations/{newest}")[1]["set"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_held_versions_outlive_the_hub_and_end_by_force(home, world, start_hub, end):
    world(m=2, i=2)
    is_at(home, 1, 2, 2)
    undo_all(home)
    is_at(home, 1, 1, 1)
    end_hub(world.hub, end)
    start_hub()
    is_at(home, 1, 1, 1)
    assert held(home) == ["improvements/i", "lua:lib.m"]
    reload(home, force=True)
    is_at(home, 1, 2, 2)
    assert held(home) == []


def test_a_file_that_changed_while_the_hub_was_down_is_not_held(home, world, start_hub):
    world(m=2, i=2)
    is_at(home, 1, 2, 2)
    undo_all(home)
    is_at(home, 1, 1, 1)
    assert held(home) == ["improvements/i", "lua:lib.m"]
    end_hub(world.hub, signal.SIGTERM)
    world(m=3, i=3)
    start_hub()
    is_at(home, 1, 3, 3)
    assert held(home) == []


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_last_good_versions_serve_after_a_restart(home, world, lua, start_hub, end):
    units = {"lua:lib.m", "lua:user.init", "improvements/i"}
    failed = lambda: {d["plugin"] for d in reload(home)["diagnostics"] if d["code"] == "LOAD_FAILED"}
    reload(home)  # its answer says that what serves is kept
    for name in ("lib/m.lua", "user/init.lua", "improvements/i.lua"):
        lua(name, "this is (not Lua")
    retry(lambda: failed() == units)
    end_hub(world.hub, end)
    start_hub()
    is_at(home, 1, 1, 1)
    retry(lambda: failed() == units)
    world(m=2, i=2)
    lua("user/init.lua", RELAY + 'require "lib.m"')
    is_at(home, 1, 2, 2)
    assert failed() == set()


# ---- choices ---------------------------------------------------------------------------------------


def test_choices_are_taken_back_one_by_one(home, start_hub):
    plug(home, "p", answer(1, 'flag { name = "loud", type = "boolean", default = false }\n'))
    calm(home, start_hub)
    before = reload(home)["generation"]
    for path in ("/tool/read_file/disable", "/tool/what/disable", "/feature/p:loud/enable"):
        assert call(home, "POST", path)[0] == 200
    flag = lambda: {f["name"]: f["enabled"] for f in call(home, "GET", "/feature")[1]["features"]}["p:loud"]
    off = lambda: {t["name"] for t in call(home, "GET", "/tool")[1]["tools"] if not t["enabled"]}
    assert flag() and off() == {"read_file", "what"}
    assert home.ok("generations").splitlines()[0].endswith("  =flags.p.loud")
    generation = undo(home)["generation"]
    assert generation > before and not flag() and off() == {"read_file", "what"}
    assert home.ok("undo").endswith("restored in choices.json: tools.what.off\n")
    assert off() == {"read_file"}
    undo(home)
    assert off() == set() and undo_refused(home)


def test_a_plugin_that_was_switched_off_stays_on_after_undo_and_a_save(home, start_hub):
    plug(home, "p", answer(1))
    calm(home, start_hub)
    assert call(home, "POST", "/plugin/p/disable")[0] == 200
    undo(home)
    assert ask(home, "p")["v"] == 1
    plug(home, "p", answer(2))
    assert reload(home)["ok"] and ask(home, "p")["v"] == 2 and rows(home)["p"]["state"] == "loaded"


def test_generations_of_registrations_are_listed_and_stepped_over(home, start_hub):
    plug(home, "p", answer(1))
    plug(home, "late", """
        local n = 0
        command { name = 'more', run = function()
          n = n + 1
          tool { name = 'late' .. n, run = function() end }
        end }""")
    start_hub()
    for n in range(2, 5):
        plug(home, "p", answer(n))
        reload(home)
        for _ in range(60 if n == 3 else 1):
            call(home, "POST", "/command/late:more", {})
    got = call(home, "GET", "/generations")[1]
    numbers = [g["generation"] for g in got["generations"]]
    registered = [g for g in got["generations"] if g["trigger"] == "register"]
    assert got["current"] == numbers[0] and numbers == sorted(numbers, reverse=True)
    assert len(registered) == 50, "the oldest are dropped, and take no change with them"
    assert not any(g["added"] or g["changed"] or g["removed"] or g["choices"] for g in registered)
    assert call(home, "GET", f"/generations/{numbers[0]}")[1]["set"].keys() == {"p", "late"}
    assert undo(home)["changed"] == ["p"] and ask(home, "p")["v"] == 3
    assert undo(home)["changed"] == ["p"] and ask(home, "p")["v"] == 2
