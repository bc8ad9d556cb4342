"""Plugins in Lua, seen from outside: what outlives their Lua state, `plugins {...}` of the user's
init.lua, `loader` in a plugin, and what improvements log."""
import json
import threading

from conftest import retry

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
    healthy = 0
    while filler.is_alive():
        healthy += home.http("GET", "/healthz").status == 200
    filler.join()
    assert answers[0][0] >= 500 and healthy > 0
    retry(lambda: rows(home)["hoarder"]["revision"] == 2)
    assert get(home, "/api/plugins/hoarder/loads")[1] == {"loads": 2}, "with its plain data"
    caller.join()
    assert waiting[0][0] >= 500, "a call in the full state ends"
    shown = get(home, "/plugin/hoarder")[1]
    assert [d["code"] for d in shown["diagnostics"]] == ["MEMORY_LIMIT"]
    assert rows(home)["counter"]["revision"] == 1
    assert get(home, "/api/plugins/counter/n")[1]["n"] == 2
    get(home, "/api/plugins/hoarder/fill", "POST")
    retry(lambda: rows(home)["hoarder"]["state"] == "failed")
    assert not rows(home)["hoarder"]["serving"]
    assert "until it changes" in rows(home)["hoarder"]["error"]
    home.cli("reload", "--force")
    assert rows(home)["hoarder"]["state"] == "failed", "not even by force"
    put(home, "hoarder.lua", HOARDER + "-- mended")
    retry(lambda: rows(home)["hoarder"]["state"] == "loaded")
    assert get(home, "/api/plugins/hoarder/loads")[1] == {"loads": 3}


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


# ---- improvements ----------------------------------------------------------------------------------


def test_what_an_improvement_logs_is_among_its_lines(home, start_hub):
    save(home.dir / "lua/improvements/talks.lua", 'log.warn("it is up")\nprint("printed")')
    start_hub()
    lines = retry(lambda: get(home, "/plugin/improvements%2Ftalks/logs")[1]["lines"])
    assert [(x["level"], x["text"]) for x in lines] == [("warn", "it is up"), ("info", "printed")]
    assert "it is up" in home.ok("plugin", "logs", "improvements/talks")
