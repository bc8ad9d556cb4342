"""Plugins in Lua, seen from outside: what outlives their Lua state, `plugins {...}` of the user's
init.lua, `loader` in a plugin, and what improvements log."""
import json
import os
import pathlib
import threading
import re
import signal
import socket
import tempfile
import time

import pytest

from conftest import pause, remove_tree, retry
from test_lua import Stream

HOARDER = """
local t = state.get("t", { loads = 0 })
t.loads = t.loads + 1
local hoard = {}
route("GET", "/loads", function() return { loads = t.loads } end)
route("POST", "/fill", function() for i = 1, 1e9 do hoard[i] = { i } end end)
route("GET", "/wait", function() log.info("waits") timer.sleep(60) end)
"""
COUNTER = """
local t = state.get("t", { n = 0 })
route("GET", "/n", function() t.n = t.n + 1 return { n = t.n } end)
"""


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    beside.rename(path)


def put(home, rel, text):
    save(home.dir / "plugins" / rel, text)


def small(home):
    (home.dir / "config.toml").write_text("[limits]\nmemory_mb = 4\nlua_ms = 20000\n")


def get(home, path, method="GET"):
    answer = home.http(method, path)
    return answer.status, json.loads(answer.body) if answer.body else None


def rows(home):
    return {p["name"]: p for p in get(home, "/plugin/list")[1]["plugins"]}


# ---- what outlives a Lua state -------------------------------------------------------------------


def test_limits_that_change_reach_plugins_that_are_loaded(home, start_hub):
    put(home, "eater.lua", "route('GET', '/', function() local t = {} for i = 1, 500000 do t[i] = i end return { n = #t } end)")
    config = home.dir / "config.toml"
    config.write_text("[limits]\nlua_ms = 20000\n")
    start_hub()

    def eat():
        return get(home, "/api/plugins/eater/")[0]
    assert eat() == 200
    config.write_text("[limits]\nmemory_mb = 4\nlua_ms = 20000\n")
    retry(lambda: eat() == 500)
    config.write_text("[limits]\nmemory_mb = 128\nlua_ms = 20000\n")
    retry(lambda: eat() == 200)
    config.write_text("[limits]\nmemory_mb = 128\nlua_ms = 1\n")
    retry(lambda: eat() == 504)
    assert rows(home)["eater"]["revision"] == 1, "it was not loaded again for it"


def test_a_plugin_that_is_switched_off_and_on_finds_its_state_again(home, start_hub):
    put(home, "counter.lua", COUNTER)
    start_hub()
    assert [get(home, "/api/plugins/counter/n")[1]["n"] for _ in range(3)] == [1, 2, 3]
    home.ok("plugin", "disable", "counter")
    assert get(home, "/api/plugins/counter/n")[0] == 404
    home.ok("plugin", "enable", "counter")
    assert get(home, "/api/plugins/counter/n")[1]["n"] == 4
    assert get(home, "/plugin/counter")[1]["diagnostics"] == []


def test_a_plugin_that_fills_its_memory_is_loaded_anew_and_no_other(home, start_hub):
    small(home)
    put(home, "hoarder.lua", HOARDER)
    put(home, "counter.lua", COUNTER)
    start_hub()
    get(home, "/api/plugins/counter/n")
    waiting = []
    caller = threading.Thread(target=lambda: waiting.append(get(home, "/api/plugins/hoarder/wait")))
    caller.start()
    retry(lambda: "waits" in home.http("GET", "/plugin/hoarder/logs").body.decode())
    answers = []
    filler = threading.Thread(target=lambda: answers.append(get(home, "/api/plugins/hoarder/fill", "POST")))
    filler.start()
    healthy = [home.http("GET", "/healthz").status]  # at least once, however quickly the memory is full
    while filler.is_alive():
        healthy.append(home.http("GET", "/healthz").status)
    filler.join()
    assert answers[0][0] >= 500 and set(healthy) == {200}
    retry(lambda: rows(home)["hoarder"]["revision"] == 2)
    assert get(home, "/api/plugins/hoarder/loads")[1] == {"loads": 2}, "with its plain data"
    caller.join()
    assert waiting[0][0] >= 500, "a call in the full state ends"
    shown = get(home, "/plugin/hoarder")[1]
    assert [d["code"] for d in shown["diagnostics"]] == ["MEMORY_LIMIT"]
    assert rows(home)["counter"]["revision"] == 1
    assert get(home, "/api/plugins/counter/n")[1]["n"] == 2
    for revision in (3, 4):
        get(home, "/api/plugins/hoarder/fill", "POST")
        retry(lambda: rows(home)["hoarder"]["revision"] == revision)
    get(home, "/api/plugins/hoarder/fill", "POST")
    retry(lambda: rows(home)["hoarder"]["state"] == "failed")
    assert not rows(home)["hoarder"]["serving"]
    assert "until it changes" in rows(home)["hoarder"]["error"]
    home.cli("reload", "--force")
    assert rows(home)["hoarder"]["state"] == "failed", "not even by force"
    put(home, "hoarder.lua", HOARDER + "-- mended")
    retry(lambda: rows(home)["hoarder"]["state"] == "loaded")
    assert get(home, "/api/plugins/hoarder/loads")[1] == {"loads": 5}


def test_a_module_sees_what_a_plugin_returned_and_its_newest_version(home, start_hub):
    put(home, "roll.lua", "return { sides = 6, double = function(n) return n * 2 end }")
    save(home.dir / "lua/user/init.lua", """
local roll = require "plugin.roll" -- before it is loaded: each use looks for it
events.on("user.ask", function() events.emit("user.told", { sides = roll.sides, two = roll.double(21) }) end)
""")
    start_hub()
    stream = Stream(home)
    home.ok("events", "emit", "user.ask", "{}")
    assert stream.until("user.told")["data"] == {"sides": 6, "two": 42}
    put(home, "roll.lua", "return { sides = 8, double = function(n) return -n end }")
    stream.until("plugin.changed", plugin="roll")
    home.ok("events", "emit", "user.ask", "{}")
    assert stream.until("user.told")["data"] == {"sides": 8, "two": -21}


def test_a_shutdown_that_hangs_delays_no_other_save(home, start_hub):
    hangs = "on('plugin_shutdown', function() timer.sleep(30) end)\n"
    put(home, "slow.lua", hangs)
    put(home, "other.lua", "-- one")
    start_hub()
    stream = Stream(home)
    put(home, "slow.lua", hangs + "-- two")
    stream.until("plugin.changed", plugin="slow")
    put(home, "other.lua", "-- two")
    stream.until("plugin.changed", plugin="other")
    assert not [e for e in stream.seen if e["type"] == "plugin.error"], "nobody was given up yet"
    stream.until("plugin.error", plugin="slow", code="SHUTDOWN_TIMEOUT")


# ---- loader ----------------------------------------------------------------------------------------

BOSS = """
local loader = require "hub.loader"
assert(loader == hub.loader and loader == _G.loader)
route("POST", "/load", function(req) local ok, report = loader.load_plugin(req.query.path, req.query.name)
  return { ok = ok, added = report.added } end)
route("POST", "/reload", function(req) local ok, report = loader.reload_plugin(req.query.name)
  return { ok = ok, changed = report and report.changed or {} } end)
route("POST", "/unload", function(req) local n, report = loader.unload_plugin(req.query.name)
  return { n = n, ok = report.ok } end)
route("POST", "/module", function(req) local ok, report = loader.reload(req.query.name)
  return { ok = ok, report = report } end)
route("GET", "/list", function() local names = {}
  for i, p in ipairs(loader.list_plugins()) do names[i] = p.name end
  return { names = names, modules = #loader.list(), found = #loader.discover() } end)
"""


def test_a_plugin_that_is_missing_is_an_answer_to_who_loads_it(home, start_hub):
    put(home, "boss.lua", """route("POST", "/load", function(req) local ok, report = loader.load_plugin(req.query.path, req.query.name)
  return { ok = ok, diagnostics = report.diagnostics } end)""")
    start_hub()
    for name in ("gone", "lost"):  # that of the file, and another one
        got = get(home, f"/api/plugins/boss/load?path={home.dir}/gone.lua&name={name}", "POST")[1]
        (told,) = [d for d in got["diagnostics"] if d["plugin"] == name]
        assert not got["ok"] and told["code"] == "ENTRY_MISSING", got
        assert f"there is nothing at '{home.dir}/gone.lua'" in told["message"]


@pytest.mark.parametrize("place,entry", [("plain.lua", ""), ("dir", "/init.lua"), ("dir", "")])
def test_a_plugin_is_loaded_under_the_name_that_was_asked_for(home, start_hub, place, entry):
    put(home, "boss.lua", BOSS)
    path = home.dir / "elsewhere" / place
    code = path / "init.lua" if place == "dir" else path
    save(code, "route('GET', '/v', function() return { v = 1 } end)")
    start_hub()
    for _ in range(2):
        got = get(home, f"/api/plugins/boss/load?path={path}{entry}&name=other", "POST")[1]
        assert got["ok"] and get(home, "/api/plugins/other/v")[1] == {"v": 1}, got
    assert get(home, "/api/plugins/boss/list")[1]["names"] == ["other", "boss"]
    save(code, "route('GET', '/v', function() return { v = 2 } end)")
    retry(lambda: get(home, "/api/plugins/other/v")[1] == {"v": 2})
    assert get(home, "/api/plugins/boss/unload?name=other", "POST")[1] == {"n": 0, "ok": True}
    assert get(home, "/api/plugins/other/v")[0] == 404


def test_a_plugin_loads_reloads_and_unloads_others_and_modules(home, start_hub):
    put(home, "boss.lua", BOSS)
    save(home.dir / "elsewhere/extra.lua", COUNTER)
    save(home.dir / "lua/user/init.lua", "return {}")
    start_hub()
    boss = "/api/plugins/boss"
    path = home.dir / "elsewhere/extra.lua"
    assert get(home, f"{boss}/load?path={path}&name=extra", "POST")[1] == {"ok": True, "added": ["extra"]}
    assert get(home, "/api/plugins/extra/n")[1] == {"n": 1}
    assert get(home, f"{boss}/reload?name=extra", "POST")[1] == {"ok": True, "changed": ["extra"]}
    got = get(home, f"{boss}/list")[1]
    assert got["names"] == ["extra", "boss"] and got["found"] == 2 and got["modules"] >= 5
    assert get(home, f"{boss}/unload?name=extra", "POST")[1] == {"n": 0, "ok": True}
    assert get(home, "/api/plugins/extra/n")[0] == 404
    assert get(home, f"{boss}/module?name=hub.state", "POST")[1] == {"ok": False, "report": "PROTECTED"}
    got = get(home, f"{boss}/module?name=user.init", "POST")[1]
    assert got["ok"] and got["report"]["changed"] == ["lua:user.init"]
    assert get(home, f"{boss}/module?name=user.none", "POST")[1] == \
           {"report": "there is no module 'user.none'"}


BURST = """
local told = {}
route("POST", "/burst", function(req)
  for i = 1, 20 do
    for _, name in ipairs { "one", "two" } do
      hub.loader.reload_plugin(name, function(ok, report)
        told[#told + 1] = { name = name, ok = ok, changed = report.changed, generation = report.generation }
      end)
    end
  end
  return {}
end)
route("GET", "/told", function() return { told = told } end)
"""


def test_reloads_of_one_burst_are_one_run_and_each_is_told_what_came_of_it(home, start_hub):
    put(home, "boss.lua", BURST)
    put(home, "one.lua", COUNTER)
    put(home, "two.lua", COUNTER)
    start_hub()
    told = lambda: get(home, "/api/plugins/boss/told")[1]["told"]
    for burst in (1, 2):
        before = rows(home)["one"]["revision"], rows(home)["two"]["revision"]
        assert get(home, "/api/plugins/boss/burst", "POST")[0] == 200
        retry(lambda: len(told()) == 40 * burst)
        now = told()[40 * (burst - 1):]
        assert all(t["ok"] and sorted(t["changed"]) == ["one", "two"] for t in now), now
        assert len({t["generation"] for t in now}) == 1, "40 calls, one run"
        assert (rows(home)["one"]["revision"], rows(home)["two"]["revision"]) == (before[0] + 1, before[1] + 1)


def test_a_burst_of_reloads_of_a_broken_plugin_tells_each_call_that_it_failed(home, start_hub):
    put(home, "boss.lua", BURST.replace("changed = report.changed", "changed = #report.diagnostics"))
    put(home, "one.lua", COUNTER)
    put(home, "two.lua", COUNTER)
    save(home.dir / "config.toml", "[watch]\ndebounce_ms = 10000\n")
    start_hub()
    put(home, "two.lua", "error('broken')")
    assert get(home, "/api/plugins/boss/burst", "POST")[0] == 200
    told = retry(lambda: (t := get(home, "/api/plugins/boss/told")[1]["told"]) and len(t) == 40 and t)
    assert all(t["changed"] >= 1 for t in told) and rows(home)["two"]["state"] == "failed", told
    assert {(t["name"], t["ok"]) for t in told} == {("one", True), ("two", False)}


# ---- improvements ----------------------------------------------------------------------------------


def test_what_an_improvement_logs_is_among_its_lines(home, start_hub):
    save(home.dir / "lua/improvements/talks.lua", 'log.warn("it is up")\nprint("printed")')
    start_hub()
    lines = retry(lambda: len(x := get(home, "/plugin/improvements%2Ftalks/logs")[1].get("lines", ())) > 1 and x)
    assert [(x["level"], x["text"]) for x in lines] == [("warn", "it is up"), ("info", "printed")]
    assert "it is up" in home.ok("plugin", "logs", "improvements/talks")


# ---- plugins {...} of the user's init.lua ----------------------------------------------------------

PARTS = """{ api = "1.0", description = "the same everywhere",
  hooks = { on_tool_call = function() end, on_final = function() end },
  tools = { { name = "greet", description = "greets", input = { who = "string?" },
              run = function(ctx, input) return "hi " .. (input.who or "you") end } },
  routes = { ["GET /hi/:who"] = function(req) return { hi = req.params.who } end },
  commands = { { name = "hello", run = function() return "hello" end } },
  prompt = { id = "style", text = "Be brief." } }"""
FILE = "return " + PARTS
WITH_OPTIONS = "return function(options, ctx) route('GET', '/options', function() return options end) end"
CONTRIBUTED = ("hooks", "tools", "routes", "commands")


def init(home, *entries):
    save(home.dir / "lua/user/init.lua", "plugins {\n" + ",\n".join(entries) + "\n}\n")


def four_forms(home):
    save(home.dir / "elsewhere/by-path.lua", WITH_OPTIONS)
    save(home.dir / "lua/user/by_module.lua", WITH_OPTIONS)
    save(home.dir / "lua/user/wide/init.lua", WITH_OPTIONS)
    return ['{ name = "by-table", tools = { mine = function() return "t" end } }',
            'function(ctx) route("GET", "/name", function() return { name = ctx.name } end) end',
            '{ module = "user.by_module", options = { n = 1 } }',
            '{ module = "user.wide", options = { n = 2 } }',
            f'{{ path = "{home.dir}/elsewhere/by-path.lua", options = {{ n = 3 }}, hot = true }}',
            '{ path = "../../elsewhere/none.lua" }']


def test_the_four_forms_of_plugins_in_init(home, start_hub):
    init(home, *four_forms(home))
    assert "generation=2" in start_hub().ready, "what init.lua installs is there before anybody may connect"
    got = rows(home)
    assert {n for n, r in got.items() if r["state"] == "loaded"} == \
           {"by-table", "init-2", "by_module", "wide", "by-path"}
    assert {r["source"] for r in got.values()} == {"lua"}
    assert got["by-table"]["path"] == str(home.dir / "lua/user/init.lua")
    assert get(home, "/tool/mine", "POST")[1]["output"] == "t"
    assert get(home, "/api/plugins/init-2/name")[1] == {"name": "init-2"}
    for n, name in enumerate(("by_module", "wide", "by-path"), 1):
        assert get(home, f"/api/plugins/{name}/options")[1] == {"n": n}
    assert got["none"]["state"] == "failed", "a place with nothing in it is told"
    added = [name for g in get(home, "/generations")[1]["generations"] for name in g["added"]]
    assert {n for n, r in got.items() if r["serving"]} <= set(added)


def test_a_function_in_init_that_says_a_name_is_told_that_it_does_not_count(home, start_hub):
    init(home, 'function() return { name = "late", commands = { hi = function() return "hi" end } } end',
         'function() plugin { name = "later" } end', '{ name = "well" }')
    start_hub()
    assert {n for n, r in rows(home).items() if r["serving"]} == {"init-1", "init-2", "well"}
    told = [d for d in home.json("reload", "--dry-run")["diagnostics"] if d["code"] == "NAME_MISMATCH"]
    assert {(d["plugin"], d["origin"]) for d in told} == {("init-1", "init"), ("init-2", "init")}
    assert "'late'" in told[0]["message"] and "it is 'init-1'" in told[0]["message"]


def test_a_reload_of_init_that_drops_entries_drops_their_plugins(home, start_hub):
    forms = four_forms(home)
    init(home, *forms)
    start_hub()
    assert len(rows(home)) == 6
    init(home, forms[0], forms[2])
    retry(lambda: set(rows(home)) == {"by-table", "by_module"})
    assert get(home, "/api/plugins/by-path/options")[0] == 404
    init(home, "{ name = 'by-table', tools = 7 }", forms[2])
    retry(lambda: rows(home)["by-table"]["state"] == "failed")
    assert rows(home)["by-table"]["serving"] and rows(home)["by-table"]["error"]
    assert get(home, "/tool/mine", "POST")[1]["output"] == "t", "its last good version goes on"
    save(home.dir / "lua/user/init.lua", "return {}")
    retry(lambda: rows(home) == {})


def test_one_inside_init_contributes_what_it_does_as_a_file(home, start_hub):
    put(home, "same.lua", FILE)
    start_hub()
    as_file, shown = rows(home)["same"], get(home, "/plugin/same")[1]
    (home.dir / "plugins/same.lua").unlink()
    home.ok("reload")
    assert rows(home) == {}
    init(home, PARTS.replace("{ api", '{ name = "same", api', 1))
    home.ok("reload")
    as_table = rows(home)["same"]
    assert {k: as_table[k] for k in CONTRIBUTED} == {k: as_file[k] for k in CONTRIBUTED}
    assert as_table["metadata"] == as_file["metadata"]
    assert get(home, "/plugin/same")[1]["outputs"] == shown["outputs"]
    assert get(home, "/api/plugins/same/hi/Ada")[1] == {"hi": "Ada"}
    assert home.ok("same:hello").strip() == "hello"


def test_one_inside_init_is_changed_in_its_file_only(home, start_hub):
    init(home, '{ name = "mine", tools = { t = function() log.info("ran") return 1 end } }',
         "{ name = 'broken', hooks = 7 }")
    start_hub()
    text = (home.dir / "lua/user/init.lua").read_text()
    assert rows(home)["broken"]["state"] == "failed" and not rows(home)["broken"]["serving"]
    for what in (("remove", "mine"), ("disable", "mine"), ("enable", "broken")):
        done = home.cli("plugin", *what)
        assert done.returncode != 0 and "is part of" in done.stderr
    assert home.cli("plugin", "save", "mine", "-", input="return {}").returncode != 0
    assert (home.dir / "lua/user/init.lua").read_text() == text
    get(home, "/tool/t", "POST")
    assert "ran" in home.ok("plugin", "logs", "mine")
    home.cli("plugin", "reload", "mine")
    assert rows(home)["mine"]["revision"] == 2


def test_the_feature_switches_those_inside_init_too(home, start_hub):
    forms = four_forms(home)
    init(home, forms[0], forms[4])
    start_hub()
    assert get(home, "/tool/mine", "POST")[0] == 200
    home.ok("feature", "disable", "plugins")
    retry(lambda: get(home, "/tool/mine", "POST")[0] == 404)
    retry(lambda: get(home, "/api/plugins/by-path/options")[0] == 404)
    home.ok("feature", "enable", "plugins")
    retry(lambda: get(home, "/tool/mine", "POST")[0] == 200)
    retry(lambda: get(home, "/api/plugins/by-path/options")[0] == 200)


# ---- code that the limits cannot end ---------------------------------------------------------------

# A collection walks over all weak tables once for each link of the longest chain, and nothing can
# interrupt it. How many it takes to be late depends on the machine: each call adds some.
STALLER = """
local tail, weak = {}, { __mode = "k" }
local kept = { tail }
command { name = "more", description = "take longer each time", run = function()
  local keys, order = { tail }, {}
  for i = 1, 5000 do
    keys[i + 1] = {}
    local at = math.random(i)
    order[i] = order[at]
    order[at] = i
  end
  for _, i in ipairs(order) do
    kept[#kept + 1] = setmetatable({ [keys[i]] = keys[i + 1] }, weak)
  end
  tail, keys = keys[5001], nil
  collectgarbage()
end }
"""


def stall_until(home, happened):
    """Call the staller until something has happened, during a call or after it. Each call stalls for longer than the
    last one; where nobody watches, they would go on for minutes."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        process = home.popen("staller:more")
        while process.poll() is None and time.monotonic() < deadline:
            if happened():
                return
            time.sleep(0.01)
        if happened():
            return
    process.kill()
    assert False, "no stall was noticed in 30 s"


def stopped_in_a_stall(home):
    """Stop the hub when it is stuck: True when the stall is on record, and stays so since nothing in the hub goes on."""
    mark = home.dir / "state/stalling.json"
    if not mark.exists():
        return False
    pid = home.hub_pid()
    pause(pid)
    if not mark.exists():  # the stall ended meanwhile
        os.kill(pid, signal.SIGCONT)
        return False
    return True


def test_code_that_stops_the_hub_is_named_and_the_hub_says_so_for_a_while(home):
    put(home, "staller.lua", STALLER)
    home.ok("start")
    assert "degraded" not in get(home, "/healthz")[1]
    stall_until(home, lambda: "stalls=true" in (home.dir / "logs/hub.log").read_text())
    said = get(home, "/healthz")[1]["degraded"]
    assert said["plugin"] == "staller" and said["path"].endswith("/plugins/staller.lua") and said["line"] > 3
    assert said["ms"] >= 350
    retry(lambda: not (home.dir / "state/stalling.json").exists())


class Asked:
    """One request on a connection of its own."""

    def __init__(self, to, path, host):
        self.s = socket.create_connection(to) if isinstance(to, tuple) else to.connect()
        self.s.settimeout(60)
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    def answer(self):
        with self.s, self.s.makefile("rb") as f:
            return json.loads(f.read().split(b"\r\n\r\n", 1)[1])


def test_a_stalled_hub_says_so_while_it_is_stalled_and_serves_the_others_afterwards(home):
    put(home, "staller.lua", STALLER)
    save(home.dir / "config.toml", 'listen = "127.0.0.1:0"\n')
    home.ok("start")
    address = get(home, "/healthz")[1]["listen"]
    far = ("127.0.0.1", int(address.rpartition(":")[2]))
    stalling, log = home.dir / "state/stalling.json", home.dir / "logs/hub.log"
    deadline = time.monotonic() + 60
    asked = []
    while not asked and time.monotonic() < deadline:
        process = home.popen("staller:more")  # each call takes longer than the last one
        while process.poll() is None and not stalling.exists():
            time.sleep(0.01)
        ended = log.read_text().count("stalls=false")
        waits = [Asked(home, "/plugin/list", "afloat"), Asked(far, "/healthz", "elsewhere.example")]
        said = [Asked(home, "/healthz", "afloat").answer(), Asked(far, "/healthz", address).answer()]
        time.sleep(0.3)  # the end of a stall is in the log within 50 ms: was it still going on?
        asked = waits if log.read_text().count("stalls=false") == ended and stalling.exists() else []
        process.wait()
    assert asked, "nothing was said during a stall"
    assert said[0]["degraded"]["plugin"] == "staller" and said[0]["degraded"]["line"] > 3
    assert said[0]["generation"] > 0 and said[0]["listen"] == address and said[0]["uptime_s"] > 0
    assert said[1]["degraded"]["plugin"] == "staller" and "path" not in said[1]["degraded"] and "pid" not in said[1]
    assert [p["name"] for p in asked[0].answer()["plugins"]] == ["staller"]
    assert asked[1].answer()["code"] == "HOST_NOT_ALLOWED"


def test_a_hub_killed_in_a_stall_starts_without_that_module_until_it_changes(home):
    module = home.dir / "lua/user/init.lua"
    # a timer is switched off after three time-outs, so each of its calls has to take much longer than the last one
    timer = re.sub(r"command \{.*run = function\(\)", "timer.every(0.01, function()", STALLER).replace("end }", "end)")
    save(module, timer.replace("5000", "15000").replace("5001", "15001"))
    put(home, "other.lua", COUNTER)
    starting = home.popen("start")  # a stall may keep the hub from answering until this gives up
    retry(lambda: stopped_in_a_stall(home))
    starting.kill()
    starting.wait()
    home.kill_hub()
    home.ok("start")
    report = get(home, "/reload")[1]
    [fault] = [d for d in report["diagnostics"] if d["plugin"] == "lua:user.init"]
    assert fault["code"] == "LOAD_TIMEOUT" and fault["line"] > 3 and "until it changes" in fault["message"]
    assert rows(home)["other"]["state"] == "loaded"
    assert get(home, "/healthz")[1]["degraded"]["plugin"] == "lua:user.init"
    save(module, "return {}")
    retry(lambda: "degraded" not in get(home, "/healthz")[1])


def test_a_hub_killed_in_a_stall_starts_without_that_plugin_until_it_changes(home):
    put(home, "staller.lua", STALLER)
    put(home, "other.lua", COUNTER)
    home.ok("start")
    stall_until(home, lambda: stopped_in_a_stall(home))
    home.kill_hub()
    home.ok("start")
    shown = get(home, "/plugin/staller")[1]
    assert shown["state"] == "failed" and rows(home)["other"]["state"] == "loaded"
    fault = shown["diagnostics"][-1]
    assert fault["code"] == "LOAD_TIMEOUT" and fault["line"] > 3 and "until it changes" in fault["message"]
    assert get(home, "/healthz")[1]["degraded"]["plugin"] == "staller"
    put(home, "staller.lua", "-- mended\n" + STALLER)
    retry(lambda: rows(home)["staller"]["state"] == "loaded")
    assert "degraded" not in get(home, "/healthz")[1]


def test_a_parameter_of_a_route_may_hold_a_slash(home, hub):
    made = home.http("POST", "/plugin/save", json.dumps({"name": "files", "content": """
        route("GET", "/file/:name", function(req) return { req.params.name, req.path } end)
        route("GET", "/tree/:a/*", function(req) return { req.params.a, req.params["*"] } end)"""}).encode())
    assert made.status == 200, made.body

    def get(path):
        answer = home.http("GET", f"/api/plugins/files{path}")
        return json.loads(answer.body) if answer.status == 200 else answer.status
    assert get("/file/src%2Fmain.c") == ["src/main.c", "/file/src/main.c"]
    assert get("/file/a%252Fb") == ["a%2Fb", "/file/a%2Fb"]
    assert get("/tree/x%2fy/z%2Fw/v") == ["x/y", "z/w/v"]
    assert get("/file/src/main.c") == get("/file%2Fa") == 404
    assert get("/file/..%2Fsecret") == get("/file/a%2F..%2Fb") == get("/file/a%00b") == 400


# ---- programs in a sandbox -----------------------------------------------------------------------


def test_exec_in_a_sandbox_writes_only_its_directory_and_not_the_plugins_of_the_hub(home, start_hub):
    # not below /tmp, which is another one in the sandbox
    place = pathlib.Path(tempfile.mkdtemp(prefix="afloat-test-", dir="/var/tmp"))
    beside = place.with_name(place.name + "-beside")
    (place / "sub").mkdir()
    try:
        save(place / "mine.lua", f"""
route("POST", "/run", function(req)
  local r, why = exec {{ cmd = "sh", args = {{ "-c", req.body }}, cwd = "{place}", sandbox = true }}
  return {{ code = r and r.code, why = why, stderr = r and r.stderr }}
end)
""")
        (home.dir / "config.toml").write_text(f'[[plugins]]\npath = "{place}/mine.lua"\n')
        start_hub()

        def run(text):
            return json.loads(home.http("POST", "/api/plugins/mine/run", text.encode()).body)

        assert run("echo x > made && cat made > sub/made") == {"code": 0, "stderr": ""}
        assert (place / "sub" / "made").read_text() == "x\n"
        assert "Read-only" in run(f"echo x > {beside}")["stderr"] and not beside.exists()
        assert run(f"cat {home.dir}/config.toml")["code"] != 0
        assert "Read-only" in run("echo broken >> mine.lua")["stderr"]
        assert "Network is unreachable" in run("python3 -c 'import socket; socket.socket()'")["stderr"]
    finally:
        remove_tree(place)
