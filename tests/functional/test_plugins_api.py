"""Plugins over their public faces: the HTTP interface and the command line.

What a plugin may contribute is tried out from outside; files are dropped into the home as a user would.
"""
import json
import os
import re
import select
import signal
import socket
import time

import pytest

from conftest import DEADLINE, ROOT, Answer, retry

DEMO = """
plugin { api = "1.0", name = "demo", description = "one of everything" }
local loud = flag { name = "loud", default = false, description = "louder" }
on_permission({ tool = "roll" }, function(ctx, call)
  if call.input.sides == 13 then return "deny", "unlucky" end
  if call.input.sides == 14 then return "ask" end
end)
on_tool_call(function(ctx, call) end)
tool { name = "roll", description = "roll a die", input = { sides = "integer", label = "string?" },
       run = function(ctx, input)
         if input.sides == 0 then return nil, "no sides" end
         if input.sides == 1 then error("one side") end
         return "of " .. input.sides
       end }
tool { name = "asks", permission = "ask", run = function() return "never" end }
route("GET", "/hi/:name", function(req)
  log.info("asked for " .. req.params.name)
  return { hi = req.params.name, q = req.query.q, loud = loud() }
end)
route("POST", "/echo", function(req)
  return response { status = 201, headers = { ["X-Seen"] = req.headers["x-mine"] or "none",
    ["Content-Type"] = "text/x-demo" }, body = req.body }
end)
route("GET", "/nothing", function() end)
route("GET", "/secrets", function(req) return { a = req.headers.authorization, c = req.headers.cookie, n = 1 } end)
route("GET", "/throws", function() error("oh no") end)
route("GET", "/bad/:what", function(req)
  local bad = {
    framing = { status = 200, headers = { ["Transfer-Encoding"] = "chunked" } },
    length = { status = 200, headers = { ["content-length"] = "1" } },
    split = { status = 200, headers = { ["X-A"] = "a\\r\\nX-B: b" } },
    cors = { status = 200, headers = { ["Access-Control-Allow-Origin"] = "*" } },
    cookie = { status = 200, headers = { ["Set-Cookie"] = "afloat=x" } },
    status = { status = 101 },
  }
  return response(bad[req.params.what])
end)
route("GET", "/slow", function()
  local left <close> = setmetatable({}, { __close = function() state.set("left", true) end })
  events.emit("user.began", {})
  timer.sleep(60)
end)
route("GET", "/left", function() return { left = state.get("left", false) } end)
command { name = "hello", description = "greets", run = function(args) return "hello " .. (args[1] or "?") end }
command { name = "table", run = function() return { n = 1 } end }
"""


@pytest.fixture
def demo(home, start_hub):
    """A hub that has the plugin `demo`; returns its home."""
    put(home, "demo.lua", DEMO)
    start_hub()
    return home


def put(home, rel, text):
    path = home.dir / "plugins" / rel
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    beside.rename(path)
    return path


def call(home, method, path, body=None):
    answer = home.http(method, path, json.dumps(body).encode() if body is not None else b"")
    return answer.status, answer.json() if answer.body else None


def row(home, name):
    rows = {p["name"]: p for p in call(home, "GET", "/plugin/list")[1]["plugins"]}
    return rows.get(name)


# ---- rows --------------------------------------------------------------------------------------


def test_a_row_says_what_a_plugin_contributes(demo):
    got = row(demo, "demo")
    assert got["hooks"] == ["on_tool_call", "on_permission"], "in the order of a turn"
    assert got["tools"] == ["roll", "asks"] and got["commands"] == ["hello", "table"]
    assert got["routes"][0] == "GET /hi/:name"
    assert got["metadata"] == {"api": "1.0", "name": "demo", "description": "one of everything"}
    assert (got["state"], got["serving"], got["revision"], got["layer"], got["host"]) == \
           ("loaded", True, 1, "user", "hub")
    assert got["error"] is None and got["path"] == str(demo.dir / "plugins/demo.lua")


def test_show_has_code_statistics_and_outputs(demo):
    call(demo, "GET", "/api/plugins/demo/hi/Ada")
    status, got = call(demo, "GET", "/plugin/demo")
    assert status == 200 and got["content"] == DEMO
    assert got["stats"]["routes"]["GET /hi/:name"]["count"] == 1
    assert got["stats"]["memory_bytes"] > 0
    assert {"kind": "tool", "name": "roll", "swaps": True} in got["outputs"]
    assert got["last_error"] is None and got["diagnostics"] == []
    assert "afloat_plugin_calls_total{plugin=\"demo\",kind=\"route\",name=\"GET /hi/:name\"} 1" in \
           demo.http("GET", "/metrics").body.decode()


def test_listing_runs_no_code_and_a_broken_plugin_is_listed(demo):
    put(demo, "broken.lua", "\nerror('at load')")
    demo.cli("reload")
    got = row(demo, "broken")
    assert got["state"] == "failed" and not got["serving"] and "at load" in got["error"]
    got = call(demo, "GET", "/plugin/broken")[1]
    assert got["last_error"]["line"] == 2 and got["last_error"]["code"] == "LOAD_FAILED"
    put(demo, "counts.lua", "state.set('n', state.get('n', 0) + 1)\n"
        "route('GET', '/', function() return { n = state.get('n') } end)")
    demo.cli("reload")
    before = call(demo, "GET", "/api/plugins/counts")[1]["n"]
    for _ in range(3):
        call(demo, "GET", "/plugin/list")
        call(demo, "GET", "/plugin/counts")
    assert call(demo, "GET", "/api/plugins/counts/")[1]["n"] == before


def test_an_unknown_plugin_names_the_nearest(demo):
    status, got = call(demo, "GET", "/plugin/demmo")
    assert (status, got["code"], got["detail"]) == (404, "NOT_FOUND", "Plugin not found: demmo")
    assert got["hint"] == "did you mean 'demo'?"
    assert demo.cli("plugin", "show", "demmo").returncode == 3


def test_logs_of_one_plugin(demo):
    call(demo, "GET", "/api/plugins/demo/hi/Ada")
    lines = call(demo, "GET", "/plugin/demo/logs")[1]["lines"]
    assert [x["text"] for x in lines] == ["asked for Ada"]
    assert "asked for Ada" in demo.ok("plugin", "logs", "demo")


def test_the_traceback_in_a_log_is_in_lines_of_its_own(home, hub):
    put(home, "boom.lua", "command { name = 'go', run = function() error('boom') end }")
    home.ok("reload")
    assert home.cli("boom:go").returncode == 1
    lines = home.ok("plugin", "logs", "boom").splitlines()
    assert "boom" in lines[0] and "boom.lua:1" in lines[0] and "\\n" not in "".join(lines), lines
    assert lines[1:] and all(line.startswith("    ") for line in lines[1:]), lines


def test_durations_are_shown_in_units_that_fit(home, hub):
    put(home, "slow.lua", "command { name = 'go', run = function() timer.sleep(0.05) return 'done' end }")
    home.ok("reload")
    home.ok("slow:go")
    assert re.search(r"^go +1 calls +0 errors +p50 [\d.]+ ms +p99 [\d.]+ ms$", home.ok("plugin", "show", "slow"), re.M)


def test_no_revision_is_shown_where_no_version_serves(demo):
    demo.ok("plugin", "disable", "demo")
    assert "revision" not in demo.ok("plugin", "list", "--all")
    put(demo, "never.lua", "(")
    assert re.search(r"^failed +never$", demo.cli("reload").stdout, re.M)


def test_generations_without_plugins_and_without_a_difference_say_so(home, hub):
    assert "generation 1 has no plugins" in home.cli("generations", "show", "1").stderr
    same = home.cli("generations", "diff", "1", "1")
    assert same.returncode == 0 and same.stdout == "" and "the same plugins" in same.stderr


def test_logs_are_followed(demo):
    follow = demo.popen("plugin", "logs", "-f", "demo")
    end, calls, first = b"", 0, None
    seen = lambda: [int(n) for n in re.findall(rb" info asked for again(\d+)\n", end)]  # noqa: E731
    # the first lines are those that were there; the stream is open once a line that came later is seen
    stop = time.monotonic() + DEADLINE
    while first is None or not any(n > first for n in seen()):
        assert time.monotonic() < stop, end
        calls += 1
        call(demo, "GET", f"/api/plugins/demo/hi/again{calls}")
        if select.select([follow.stdout], [], [], 0.1)[0]:
            end += os.read(follow.stdout.fileno(), 65536)
            first = first or calls
    follow.terminate()


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_logs_are_followed_over_a_restart_and_each_line_comes_once(home, start_hub, more):
    put(home, "demo.lua", DEMO)
    hub = start_hub()
    ask = lambda name: call(home, "GET", f"/api/plugins/demo/hi/{name}")  # noqa: E731
    ask("before")
    follow = home.popen("plugin", "logs", "-f", "demo", *more)
    seen = b""

    def until(text):
        nonlocal seen
        end = time.monotonic() + DEADLINE
        while text not in seen:
            assert time.monotonic() < end and follow.poll() is None, seen
            if select.select([follow.stdout], [], [], 0.1)[0]:
                seen += os.read(follow.stdout.fileno(), 65536)

    until(b"for before")
    ask("between")
    until(b"for between")
    hub.close()
    start_hub()
    ask("after")
    until(b"for after")
    follow.send_signal(signal.SIGINT)
    assert follow.wait(DEADLINE) == 130
    assert [seen.count(b"asked for " + name) for name in (b"before", b"between", b"after")] == [1, 1, 1], seen


# ---- on, off, remove ---------------------------------------------------------------------------


def test_a_plugin_is_switched_off_and_stays_so_over_a_restart(home, start_hub):
    put(home, "demo.lua", DEMO)
    hub = start_hub()
    status, got = call(home, "POST", "/plugin/demo/disable")
    assert status == 200 and got["state"] == "disabled" and not got["serving"]
    assert call(home, "GET", "/api/plugins/demo/hi/x")[0] == 404
    hub.close()
    start_hub()
    assert row(home, "demo")["state"] == "disabled"
    assert "demo" not in home.ok("plugin", "list") and "demo" in home.ok("plugin", "list", "--all")
    assert call(home, "POST", "/plugin/demo/enable")[1]["serving"]
    assert call(home, "GET", "/api/plugins/demo/hi/x")[0] == 200


def test_a_required_plugin_cannot_be_switched_off_or_removed(home, start_hub):
    path = put(home, "demo.lua", DEMO)
    (home.dir / "config.toml").write_text(f'[[plugins]]\npath = "{path}"\nrequired = true\n')
    start_hub()
    for method, rest in (("POST", "/disable"), ("DELETE", "")):
        status, got = call(home, method, "/plugin/demo" + rest)
        assert (status, got["code"]) == (409, "PLUGIN_REQUIRED")
    assert row(home, "demo")["serving"]


def test_remove_moves_to_the_trash_and_unloads(home, start_hub):
    (home.dir / "config.toml").write_text("[watch]\ndebounce_ms = 10000\n")  # so that the request sees it first
    put(home, "demo.lua", DEMO)
    start_hub()
    assert call(home, "POST", "/reload")[0] == 200  # what a start begins is over
    status, got = call(home, "DELETE", "/plugin/demo")
    assert status == 200 and got["deleted"] == "demo" and got["report"]["removed"] == ["demo"]
    assert os.path.dirname(got["trash"]) == str(home.dir / "trash")
    assert not (home.dir / "plugins/demo.lua").exists()
    kept = list((home.dir / "trash").iterdir())
    assert [k.read_text() for k in kept] == [DEMO]
    assert call(home, "GET", "/api/plugins/demo/hi/x")[0] == 404 and row(home, "demo") is None
    assert call(home, "DELETE", "/plugin/demo")[0] == 404


def test_add_uses_a_plugin_where_it_lies_and_remove_forgets_it(demo, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/init.lua").write_text("command { name = 'c', run = function() return 'far' end }")
    demo.ok("plugin", "add", str(tmp_path / "far"))
    assert demo.ok("far:c") == "far\n"
    assert row(demo, "far")["source"] == "choice"
    assert demo.cli("plugin", "add", str(tmp_path / "far")).returncode == 7
    said = demo.cli("plugin", "remove", "far").stderr
    assert "trash" not in said and "files stay where they are" in said
    assert row(demo, "far") is None and (tmp_path / "far/init.lua").exists()


def test_the_setting_switches_plugins_while_the_hub_runs(demo):
    (demo.dir / "config.toml").write_text("[features]\nplugins = false\n")
    retry(lambda: not row(demo, "demo")["serving"])
    (demo.dir / "config.toml").write_text("[features]\nplugins = true\n")
    retry(lambda: row(demo, "demo")["serving"])


def test_changes_are_refused_while_the_feature_is_off(demo):
    demo.ok("feature", "disable", "plugins")
    assert not row(demo, "demo")["serving"] and row(demo, "demo")["state"] == "disabled"
    assert not call(demo, "GET", "/plugin/list")[1]["feature_enabled"]
    changing = [("POST", "/plugin/demo/enable", None), ("POST", "/plugin/demo/disable", None),
                ("POST", "/plugin/demo/reload", None), ("DELETE", "/plugin/demo", None),
                ("POST", "/plugin/save", {"name": "x", "content": ""}),
                ("POST", "/plugin/add", {"path": "/nowhere"}), ("POST", "/generations/undo", {})]
    for method, path, body in changing:
        status, got = call(demo, method, path, body)
        assert (status, got["code"]) == (503, "FEATURE_DISABLED"), path
        assert got["detail"] == "Plugins feature is not enabled. Enable it in settings."
    assert call(demo, "POST", "/plugin/validate", {"name": "x", "content": ""})[0] == 200
    demo.ok("feature", "enable", "plugins")
    assert row(demo, "demo")["serving"]


def test_improvements_are_rows_with_a_scope(home, start_hub):
    path = home.dir / "lua/improvements/tidy.lua"
    path.parent.mkdir(parents=True)
    path.write_text("hooks.on('on_begin', 'x', function() end)")
    (path.parent / "wrong.lua").write_text("x = = 1")
    start_hub()
    got = row(home, "improvements/tidy")
    assert (got["layer"], got["scope"], got["serving"], got["hooks"]) == ("improvement", "all", True, ["on_begin"])
    assert row(home, "improvements/wrong")["state"] == "failed" and row(home, "improvements/wrong")["error"]
    assert call(home, "GET", "/plugin/improvements%2Ftidy")[0] == 200
    home.ok("plugin", "enable", "improvements/tidy")
    assert home.cli("plugin", "disable", "improvements/tidy").returncode == 7
    home.ok("plugin", "remove", "improvements/tidy")
    retry(lambda: row(home, "improvements/tidy") is None)
    assert not path.exists() and len(list((home.dir / "trash").iterdir())) == 1


def test_a_reload_may_name_plugins(demo):
    report = demo.json("reload", "--force", "demo")
    assert report["changed"] == ["demo"]
    assert demo.cli("reload", "nobody").returncode == 3
    got = call(demo, "POST", "/plugin/demo/reload")[1]
    assert got["name"] == "demo" and got["report"]["ok"] and got["hooks"] == ["on_tool_call", "on_permission"]
    put(demo, "demo.lua", "x = = 1")
    assert demo.cli("plugin", "reload", "demo").returncode == 6
    assert call(demo, "GET", "/api/plugins/demo/hi/x")[0] == 200, "the last good version goes on"
    pending = row(demo, "demo")
    assert pending["state"] == "failed" and pending["serving"] and pending["pending"]["error"]


# ---- validate and save -------------------------------------------------------------------------

CONTRACT = re.search(r"```lua\n(.*?)```", (ROOT / "docs/guide/plugins.md").read_text(), re.S).group(1)


def validate(home, content, **more):
    return call(home, "POST", "/plugin/validate", {"name": "probe", "content": content, **more})


def test_validate_accepts_the_whole_authoring_api(hub, home):
    status, got = validate(home, CONTRACT)
    assert status == 200, got
    assert got["name"] == "probe" and got["metadata"]["name"] == "logger"
    assert got["hooks"] == ["on_begin", "on_tool_call", "on_resolve_tool", "on_tool_result", "on_final",
                            "on_done"]
    assert got["tools"] == ["roll"] and got["routes"] == ["GET /stats/:day"] and got["commands"] == ["hello"]


@pytest.mark.parametrize("shape", [
    "return { api = '1.0', name = 'probe', hooks = { on_begin = function() end }, "
    "tools = { a = { run = function() end } }, routes = { ['GET /x'] = function() end } }",
    "return function(options, ctx) return { hooks = { begin = function() end }, "
    "tools = { { name = 'a', run = function() end } }, routes = { { 'GET', '/x', function() end } } } end",
    "on('begin', function() end) tool { name = 'a', run = function() end } route('GET', '/x', function() end)",
])
def test_all_forms_of_a_file_register_the_same(hub, home, shape):
    status, got = validate(home, shape)
    assert status == 200, got
    assert (got["hooks"], got["tools"], got["routes"]) == (["on_begin"], ["a"], ["GET /x"])


@pytest.mark.parametrize("content, says", [
    ("x = = 1", "probe.lua:1: unexpected symbol"),
    ("\n\nerror('boom')", "probe.lua:3: boom"),
    ("\ntool { name = 'x' }", "probe.lua:2: tool 'x' has no function 'run'"),
    ("plugin { api = '2.0' }", "Incompatible plugin API version: 2.0 (expected 1.0)"),
    ("on('turn.complete', function() end)", "there is no hook point or event 'turn.complete'"),
    ("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end", "memory"),
    ("require 'elsewhere'", "module 'elsewhere' is not in the plugin's directory"),
    ("os.exit(0)", "os.exit"),
    ("local function f() return f() + 1 end f()", "stack overflow"),
])
def test_bad_code_is_refused_with_its_place(home, start_hub, content, says):
    (home.dir / "config.toml").write_text("[limits]\nload_ms = 20000\n")  # for a busy machine
    start_hub()
    status, got = validate(home, content)
    assert status == 400 and got["detail"].startswith("Invalid plugin code: ") and says in got["detail"]


@pytest.mark.parametrize("content", [
    "on_tool_call({ priorty = 5 }, print)",
    "on_tool_call({ priority = 1.5 }, print)",
    "on_tool_call({ timeout_ms = 0 }, print)",
    "on_tool_call({ tool = 5 }, print)",
    "tool { name = 'x', inputt = {}, run = print }",
    "tool { name = 'X Y', run = print }",
    "tool { name = 'x', input = {}, input_schema = {}, run = print }",
    "tool { name = 'x', input_schema = { propertys = {} }, run = print }",
    "tool { name = 'x', input = { a = { type = 'string', enum = {} } }, run = print }",
    "command { name = 'a b', run = print }",
    "command { name = 'c', descripton = 'x', run = print }",
    "prompt { text = 'x', prio = 5 }",
    "flag { name = 'f', type = 'boolen' }",
    "flag { name = 'f', default = 'x' }",
    "timer.every(-1, print)",
])
def test_a_save_refuses_what_the_hub_would_refuse_to_load(hub, home, content):
    name = home.dir / "plugins/kept.lua"
    assert call(home, "POST", "/plugin/save", {"name": "kept", "content": "-- good"})[0] == 200
    status, got = call(home, "POST", "/plugin/save", {"name": "kept", "content": content})
    assert status == 400 and name.read_text() == "-- good", got
    name.write_text(content)  # past the validation
    report = call(home, "POST", "/reload", {})[1]
    said = next(d for d in report["diagnostics"] if d["plugin"] == "kept")
    assert said["code"] == "LOAD_FAILED" and got["detail"].endswith(said["message"]), (said, got)


@pytest.mark.parametrize("config, ms", [("", 500), ("[limits]\nload_ms = 70\n", 70)])
def test_validating_has_the_time_of_a_load(home, start_hub, config, ms):
    (home.dir / "config.toml").write_text(config)
    start_hub()
    status, got = validate(home, "while true do end")
    assert status == 400 and f"ran for more than {ms} ms" in got["detail"], got


def test_nothing_has_an_effect_while_validating(hub, home, tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "there").write_text("x")
    status, got = validate(home, f"""
      local refused = "not while validating"
      local function is_refused(v, why) assert(v == nil and why == refused, tostring(why)) end
      is_refused(fs.write("{mark}", "x")) is_refused(exec {{ cmd = "touch", args = {{ "{mark}" }} }})
      is_refused(io.open("{mark}", "w")) is_refused(os.remove("{tmp_path}/there"))
      is_refused(http.get("http://127.0.0.1:1/")) is_refused(store.set("a", 1)) is_refused(timer.sleep(1))
      is_refused(os.execute("touch {mark}")) is_refused(io.popen("touch {mark}"))
      is_refused(events.emit("user.x", {{}})) is_refused(secrets.get("A"))
      assert(state.get("n", 7) == 7) state.set("n", 8) assert(state.get("n") == 8)
      assert(require("hub.state") == state and require("json") == json)
      print("to nobody") io.write("to nobody")
    """)
    assert status == 200, got
    assert not mark.exists() and (tmp_path / "there").exists()


def test_an_unknown_language_is_refused_with_those_that_there_are(demo):
    done = demo.cli("plugin", "new", "x", "--lang", "rust")
    assert done.returncode == 2 and "unknown language 'rust': lua, python, node or c" in done.stderr
    assert "unknown language" in call(demo, "POST", "/plugin/validate",
                                      {"name": "probe", "content": "", "lang": "rust"})[1]["detail"]


def test_save_validates_writes_and_reloads(demo):
    good = "command { name = 'v', run = function() return 1 end }"
    status, got = call(demo, "POST", "/plugin/save", {"name": "made", "content": good})
    assert status == 200 and got["name"] == "made" and got["path"] == str(demo.dir / "plugins/made.lua")
    assert demo.ok("made:v") == "1\n"
    status, got = call(demo, "POST", "/plugin/save", {"name": "made", "content": "x = = 1"})
    assert status == 400 and "made.lua:1" in got["detail"]
    assert (demo.dir / "plugins/made.lua").read_text() == good and demo.ok("made:v") == "1\n"
    assert call(demo, "POST", "/plugin/save", {"name": "made", "content": good.replace("1", "2")})[0] == 200
    assert demo.ok("made:v") == "2\n" and row(demo, "made")["revision"] == 2


def test_save_into_a_directory_sees_its_other_files(demo):
    put(demo, "big/help.lua", "return { n = 5 }")
    put(demo, "big/init.lua", "local h = require 'help' command { name = 'n', run = function() return h.n end }")
    demo.ok("reload")
    status, got = call(demo, "POST", "/plugin/save", {
        "name": "big", "content": "local h = require 'help' command { name = 'n', run = function() return h.n + 1 end }"})
    assert status == 200 and got["path"] == str(demo.dir / "plugins/big/init.lua"), got
    assert demo.ok("big:n") == "6\n"


@pytest.mark.parametrize("name", ["list", "save", "validate", "../x", "/x", "X", "", "a" * 65, "a.b", "a\0b"])
def test_a_bad_name_writes_nothing(hub, home, name):
    status, got = call(home, "POST", "/plugin/save", {"name": name, "content": ""})
    assert (status, got["code"]) == (400, "INVALID_NAME")
    assert not list(home.dir.glob("plugins/*")) and not (home.dir / "x.lua").exists()


# ---- tools and commands ------------------------------------------------------------------------


def test_a_tool_runs_outside_a_session(demo):
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 6}})
    assert status == 200 and (got["output"], got["success"], got["error"]) == ("of 6", True, None)
    assert got["generation"] == call(demo, "GET", "/healthz")[1]["generation"]
    assert call(demo, "POST", "/tool/demo:roll", {"input": {"sides": 6}})[1]["output"] == "of 6"
    assert demo.ok("tool", "run", "roll", '{"sides":6}') == "of 6\n"


def test_a_tool_that_fails_says_so(demo):
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 0}})
    assert status == 200 and not got["success"] and got["error"] == "no sides"
    assert demo.cli("tool", "run", "roll", '{"sides":0}').returncode == 1
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 1}})
    assert (status == 200 and not got["success"] and "one side" in got["error"]) or \
           (status == 500 and got["code"] == "PLUGIN_FAILED" and "one side" in got["detail"])


@pytest.mark.parametrize("input, says", [
    ({}, "sides"), ({"sides": "6"}, "must be an integer"), ({"sides": 6, "label": 1}, "label")])
def test_input_that_does_not_fit_is_refused_before_the_tool_runs(demo, input, says):
    status, got = call(demo, "POST", "/tool/roll", {"input": input})
    assert (status, got["code"]) == (400, "INVALID_BODY") and says in got["detail"]


def test_on_permission_decides_and_asking_is_refused_where_nobody_can_answer(demo):
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 13}})
    assert (status, got["code"], got["detail"]) == (403, "FORBIDDEN", "denied by 'demo': unlucky")
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 14}})
    assert status == 403 and "needs approval" in got["detail"]
    status, got = call(demo, "POST", "/tool/asks", {})
    assert status == 403 and "needs approval" in got["detail"]
    assert demo.cli("tool", "run", "roll", '{"sides":13}').returncode == 4


def test_a_permission_hook_that_throws_denies(demo):
    put(demo, "guard.lua", "on_permission(function() error('confused') end)")
    demo.ok("reload")
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 6}})
    assert status == 403 and "guard" in got["detail"]


def test_a_tool_is_switched_off_and_on_with_one_event_each(demo):
    def changes():
        return demo.ok("events", "--types", "tools.changed").count("tools.changed")

    before = changes()
    assert not call(demo, "POST", "/tool/roll/disable")[1]["enabled"]
    assert call(demo, "POST", "/tool/roll/disable")[0] == 200
    assert changes() == before + 1, "the second call changed nothing"
    status, got = call(demo, "POST", "/tool/roll", {"input": {"sides": 6}})
    assert (status, got["code"]) == (409, "CONFLICT")
    listed = {t["name"]: t["enabled"] for t in call(demo, "GET", "/tool")[1]["tools"] if t["plugin"]}
    assert listed == {"roll": False, "asks": True}
    assert call(demo, "POST", "/tool/roll/enable")[1]["enabled"] and changes() == before + 2
    assert call(demo, "POST", "/tool/roll", {"input": {"sides": 6}})[0] == 200
    assert call(demo, "POST", "/tool/nothing/disable")[0] == 404


def test_commands_by_both_spellings(demo):
    assert demo.ok("x", "demo:hello", "Ada") == demo.ok("demo:hello", "Ada") == "hello Ada\n"
    assert demo.json("demo:table")["output"] == {"n": 1}
    assert call(demo, "POST", "/command/hello", {"args": ["Bob"]})[1]["output"] == "hello Bob"
    assert call(demo, "POST", "/command/nothing", {})[0] == 404
    assert demo.cli("demo:nothing").returncode == 3
    assert "demo:hello" in demo.ok("x")


def test_a_command_knows_where_its_client_works(home, start_hub, tmp_path):
    put(home, "p.lua", "command { name = 'where', run = function(args, ctx) return ctx.working_dir or 'nowhere' end }")
    start_hub()
    assert home.ok("p:where", cwd=tmp_path) == f"{tmp_path}\n"
    assert call(home, "POST", "/command/p:where", {"working_dir": str(tmp_path / ".")})[1]["output"] == str(tmp_path)
    assert call(home, "POST", "/command/p:where", {})[1]["output"] == "nowhere"
    for wrong in ("relative", str(tmp_path / "missing")):
        status, got = call(home, "POST", "/command/p:where", {"working_dir": wrong})
        assert (status, got["code"]) == (400, "INVALID_BODY") and "'working_dir'" in got["detail"], got


def test_a_command_of_a_project_serves_whoever_works_there(home, start_hub, tmp_path):
    (tmp_path / ".afloat/plugins").mkdir(parents=True)
    (tmp_path / ".afloat/plugins/near.lua").write_text("command { name = 'hi', run = function() return 'near' end }")
    home.ok("trust", str(tmp_path))
    start_hub()
    assert home.cli("near:hi", cwd=home.dir).returncode == 3
    assert home.ok("near:hi", cwd=tmp_path) == "near\n"


def test_a_flag_of_a_plugin_is_a_feature(demo):
    assert not call(demo, "GET", "/api/plugins/demo/hi/x")[1]["loud"]
    flags = {f["name"]: f for f in call(demo, "GET", "/feature")[1]["features"]}
    assert (flags["demo:loud"]["enabled"], flags["demo:loud"]["overridden"]) == (False, False)
    assert call(demo, "POST", "/feature/demo:loud/enable")[1] == {"name": "demo:loud", "enabled": True}
    assert call(demo, "GET", "/api/plugins/demo/hi/x")[1]["loud"]
    demo.ok("feature", "disable", "demo:loud")
    assert not call(demo, "GET", "/api/plugins/demo/hi/x")[1]["loud"]
    assert demo.cli("feature", "enable", "demo:quiet").returncode == 3


# ---- routes ------------------------------------------------------------------------------------


def test_a_route_gets_parameters_query_headers_and_body(demo):
    status, got = call(demo, "GET", "/api/plugins/demo/hi/A%20da?q=1%2B1")
    assert status == 200 and (got["hi"], got["q"]) == ("A da", "1+1")
    answer = demo.http("POST", "/api/plugins/demo/echo", b'{"a":1}', headers=["X-Mine: yes"])
    assert (answer.status, answer.body) == (201, b'{"a":1}')
    assert (answer.headers["x-seen"], answer.headers["content-type"]) == ("yes", "text/x-demo")
    assert demo.http("GET", "/api/plugins/demo/nothing").status == 204


def test_the_hubs_secrets_are_not_shown_to_plugins(demo):
    answer = demo.http("GET", "/api/plugins/demo/secrets", headers=["Authorization: Bearer x", "Cookie: afloat=y"])
    assert answer.status == 200 and answer.json() == {"n": 1}


def test_unknown_routes_and_methods(demo):
    answer = demo.http("PUT", "/api/plugins/demo/echo", b"{}")
    assert answer.status == 405 and "POST" in answer.headers["allow"]
    assert demo.http("GET", "/api/plugins/demo/nowhere").status == 404
    assert demo.http("GET", "/api/plugins/nobody/x").status == 404
    assert demo.http("GET", "/api/plugins/demo/hi/..").status == 400
    assert demo.http("GET", "/api/plugins/demo/hi/%00").status == 400
    assert demo.http("HEAD", "/api/plugins/demo/hi/x").body == b""


def test_a_handler_that_throws_is_a_failure_of_the_plugin(demo):
    status, got = call(demo, "GET", "/api/plugins/demo/throws")
    assert (status, got["code"]) == (500, "PLUGIN_FAILED") and "oh no" in got["detail"]
    assert call(demo, "GET", "/api/plugins/demo/hi/x")[0] == 200


@pytest.mark.parametrize("what", ["framing", "length", "split", "cors", "cookie", "status"])
def test_an_answer_that_would_break_the_framing_is_refused(demo, what):
    answer = demo.http("GET", f"/api/plugins/demo/bad/{what}")
    assert answer.status == 500 and answer.json()["code"] == "PLUGIN_FAILED"
    assert "x-b" not in answer.headers and "*" not in answer.headers.get("access-control-allow-origin", "")


def test_routes_are_behind_authentication(home, start_hub):
    put(home, "demo.lua", DEMO)
    hub = start_hub("--listen", "127.0.0.1:0")
    host, port = re.search(r"http=(\S+):(\d+)", hub.ready).groups()
    with socket.create_connection((host, int(port)), DEADLINE) as s:
        s.sendall(f"GET /api/plugins/demo/hi/x HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        raw = b""
        while chunk := s.recv(65536):
            raw += chunk
    assert Answer(raw).status == 401


def test_a_client_that_leaves_cancels_its_request(home, start_hub):
    demo = home
    put(home, "demo.lua", DEMO)
    (home.dir / "config.toml").write_text("[limits]\ntool_ms = 600000\n")  # no time-out ends it instead
    start_hub()
    s = demo.connect()
    s.sendall(b"GET /api/plugins/demo/slow HTTP/1.1\r\nHost: test\r\n\r\n")
    retry(lambda: "user.began" in demo.ok("events"))
    assert not call(demo, "GET", "/api/plugins/demo/left")[1]["left"]
    s.close()
    retry(lambda: call(demo, "GET", "/api/plugins/demo/left")[1]["left"])


def test_three_time_outs_in_a_row_switch_a_route_off(home, start_hub):
    (home.dir / "config.toml").write_text("[limits]\ntool_ms = 100\n")
    put(home, "slow.lua", "route('GET', '/', function() timer.sleep(60) end)")
    start_hub()
    for _ in range(3):
        assert call(home, "GET", "/api/plugins/slow/")[1]["code"] == "PLUGIN_TIMEOUT"
    status, got = call(home, "GET", "/api/plugins/slow/")
    assert (status, got["code"]) == (503, "HOOK_DISABLED")
    put(home, "slow.lua", "route('GET', '/', function() return 'quick' end)")
    retry(lambda: home.http("GET", "/api/plugins/slow/").status == 200)


def test_a_request_in_flight_ends_on_the_code_it_began_with(home, start_hub):
    slow = "route('GET', '/', function() events.emit('user.began', {}) timer.sleep(0.5) return 'VERSION' end)"
    put(home, "p.lua", slow.replace("VERSION", "old"))
    start_hub()
    s = home.connect()
    s.sendall(b"GET /api/plugins/p/ HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    retry(lambda: "user.began" in home.ok("events"))
    put(home, "p.lua", slow.replace("VERSION", "new").replace("0.5", "0"))
    retry(lambda: b"new" in home.http("GET", "/api/plugins/p/").body)
    raw = b""
    while chunk := s.recv(65536):
        raw += chunk
    assert Answer(raw).status == 200 and Answer(raw).json() == "old"


# ---- generations -------------------------------------------------------------------------------


def test_generations_are_listed_shown_compared_and_undone(demo):
    first = call(demo, "GET", "/generations")[1]["current"]
    put(demo, "demo.lua", DEMO.replace("hello ", "howdy "))
    demo.ok("reload")
    got = call(demo, "GET", "/generations")[1]
    newest = got["generations"][0]
    assert got["current"] == newest["generation"] > first and newest["changed"] == ["demo"]
    shown = call(demo, "GET", f"/generations/{first}")[1]
    assert shown["set"]["demo"]["hash"] != call(demo, "GET", f"/generations/{got['current']}")[1]["set"]["demo"]["hash"]
    assert demo.ok("generations", "diff", str(first), str(got["current"])) == "~ demo\n"
    assert demo.ok("demo:hello", "x") == "howdy x\n"
    demo.ok("undo")
    assert demo.ok("demo:hello", "x") == "hello x\n"
    assert row(demo, "demo")["state"] == "held" and "howdy" in (demo.dir / "plugins/demo.lua").read_text()
    assert demo.cli("undo", "--to", "9999").returncode == 3
    assert demo.cli("generations", "show", "9999").returncode == 3


# ---- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--dir"]])
def test_new_writes_a_plugin_that_works_and_passes_its_own_test(hub, home, flags):
    path = home.ok("plugin", "new", "my-greet", *flags).strip()
    assert os.path.exists(path)
    retry(lambda: (row(home, "my-greet") or {}).get("serving"))
    assert "tests passed" in home.cli("plugin", "test", "my-greet").stderr
    assert home.ok("my-greet:hello", "Ada") == "Hello, Ada!\n"
    assert home.ok("tool", "run", "my_greet_greet", '{"name":"Ada"}') == "Hello, Ada!\n"
    assert call(home, "GET", "/api/plugins/my-greet/hello/Ada")[1]["text"] == "Hello, Ada!"
    assert home.cli("plugin", "new", "my-greet").returncode == 7
    assert home.cli("plugin", "verify", "my-greet").returncode == 0


def test_new_tells_the_hub_and_waits_for_no_watcher(home, start_hub):
    (home.dir / "config.toml").write_text("[watch]\ndebounce_ms = 10000\n")
    start_hub()
    home.ok("plugin", "new", "my-greet")
    assert row(home, "my-greet")["serving"]


def test_a_failing_test_of_a_plugin_fails_the_command(hub, home, tmp_path):
    (tmp_path / "p.lua").write_text("if test then test('wrong', function(t) t.equal(1, 2) end) end")
    done = home.cli("plugin", "test", str(tmp_path / "p.lua"))
    assert done.returncode == 1 and "wrong" in done.stdout and "1, wanted 2" in done.stdout
    (tmp_path / "none.lua").write_text("")
    assert home.cli("plugin", "test", str(tmp_path / "none.lua")).returncode == 3


def test_verify_finds_a_built_file_that_is_not_the_source(hub, home, tmp_path):
    source = "tool { name = 'a', run = function() end }"
    (tmp_path / "p/dist").mkdir(parents=True)
    (tmp_path / "p/init.lua").write_text(source)
    (tmp_path / "p/dist/init.lua").write_text(source)
    assert home.cli("plugin", "verify", str(tmp_path / "p")).returncode == 0
    (tmp_path / "p/dist/init.lua").write_text(source.replace("'a'", "'b'"))
    done = home.cli("plugin", "verify", str(tmp_path / "p"))
    assert done.returncode == 1 and "tools" in done.stdout


def test_new_for_a_project_goes_into_its_own_directory(home, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep").mkdir()
    path = home.ok("plugin", "new", "p", "--repo", cwd=tmp_path / "deep").strip()
    assert path == str(tmp_path / ".afloat/plugins/p.lua")


def test_validate_by_name_path_and_stdin(demo, tmp_path):
    (tmp_path / "f.lua").write_text("tool { name = 'from_file', run = function() end }")
    assert "from_file" in demo.ok("plugin", "validate", str(tmp_path / "f.lua"))
    assert "roll" in demo.ok("plugin", "validate", "demo")
    assert "on_begin" in demo.ok("plugin", "validate", "-", input="on_begin(function() end)")
    done = demo.cli("plugin", "validate", "-", input="x = = 1")
    assert done.returncode == 1 and "Invalid plugin code" in done.stderr


def test_validate_of_a_plugin_that_lacks_a_declared_part_names_the_part(demo, tmp_path):
    place = tmp_path / "p"
    place.mkdir()
    (place / "plugin.json").write_text('{"server": "main.lua"}')
    done = demo.cli("plugin", "validate", str(place))
    assert done.returncode == 1 and "server: 'main.lua' is not there" in done.stderr, done.stderr
    (place / "plugin.json").unlink()
    (place / "notes.txt").write_text("nothing")
    done = demo.cli("plugin", "validate", str(place))
    assert done.returncode == 1 and "there is nothing to load" in done.stderr and "add init.lua" in done.stderr, done.stderr
    assert demo.cli("plugin", "validate", str(tmp_path / "none")).returncode == 3


SHIPPED = sorted(p.name for p in (ROOT / "runtime/plugins").iterdir())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_plugins_load_by_name_and_pass_their_own_tests(home, start_hub, name):
    (home.dir / "config.toml").write_text(f'[[plugins]]\nname = "{name}"\n')
    start_hub()
    got = row(home, name)
    assert got["serving"] and got["error"] is None, got
    assert home.cli("plugin", "test", name).returncode == 0
    assert home.cli("plugin", "verify", name).returncode == 0


@pytest.mark.parametrize("name", SHIPPED)
def test_a_plugin_contributes_the_same_however_it_is_installed(home, start_hub, name):
    def contributions(of):
        got = call(home, "GET", f"/plugin/{of}")[1]
        return {k: got[k] for k in ("hooks", "tools", "routes", "commands", "outputs")}

    (home.dir / "config.toml").write_text(f'[[plugins]]\nname = "{name}"\n')
    hub = start_hub()
    by_entry = contributions(name)
    hub.close()
    (home.dir / "config.toml").unlink()
    there = ROOT / "runtime/plugins" / name
    for file in (f for f in there.rglob("*") if f.is_file()):
        put(home, f"{name}/{file.relative_to(there)}", file.read_text())
    hub = start_hub()
    by_layer = contributions(name)
    assert by_entry == by_layer
    assert sum(len(v) for v in by_layer.values()) > 0


def test_the_page_holds_nothing_that_a_plugin_says(demo):
    """It asks for the rows and shows them as text: tests/browser has what it does with them."""
    put(demo, "broken.lua", "error('<b>')")
    demo.cli("reload")
    page = demo.http("GET", "/")
    assert page.status == 200 and b"<b>" not in page.body and b"demo" not in page.body


def test_the_schema_of_a_tool_is_the_same_at_every_load(home, start_hub):
    put(home, "wide.lua", "tool { name = 'wide', run = function() end, input = { "
        + ", ".join(f"{c}{c} = 'string'" for c in "qwertzuiopasdfg") + " } }")
    seen = set()
    for _ in range(3):
        hub = start_hub()
        [tool] = [t for t in call(home, "GET", "/tool")[1]["tools"] if t["name"] == "wide"]
        seen.add(json.dumps(tool["input_schema"]))
        assert tool["input_schema"]["required"] == sorted(c * 2 for c in "qwertzuiopasdfg")
        hub.close()
    assert len(seen) == 1
