"""Plugins that change, break and come back while requests run: files saved by other programs, seen through
the socket, the stream of events and the command line.
"""
import json
import os
import threading

import pytest

from conftest import retry
from test_lua import LOOPS, Stream


def put(home, rel, text):
    """Save a file of the home by rename, as editors do."""
    path = home.dir / rel
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text)
    os.rename(beside, path)
    return path


def plug(home, name, text):
    return put(home, f"plugins/{name}.lua", text)


def configure(home, text):
    return put(home, "config.toml", text)


CALM = "[watch]\ndebounce_ms = 10000\n"  # the watcher takes its time


def calm(home, start_hub, more=""):
    """A hub whose reports are those of who asks: nothing else looks at files."""
    configure(home, CALM + more)
    hub = start_hub()
    reload(home)  # what a start begins is over
    return hub


def call(home, method, path, body=None):
    answer = home.http(method, path, json.dumps(body).encode() if body is not None else b"")
    return answer.status, answer.json() if answer.body else None


def hub_events(home, types="*"):
    """What is on the stream so far."""
    return home.http("GET", f"/events?types={types}", headers=["Accept: application/json"]).json()["events"]


def reload(home, **how):
    status, report = call(home, "POST", "/reload", how)
    assert status == 200, report
    return report


def ask(home, name, path=""):
    """What a route of the plugin answers; fails when it does not."""
    status, body = call(home, "GET", f"/api/plugins/{name}/{path}")
    assert status == 200, body
    return body


def rows(home):
    return {r["name"]: r for r in call(home, "GET", "/plugin/list")[1]["plugins"]}


def diagnostics(report, plugin):
    return [d for d in report["diagnostics"] if d["plugin"] == plugin]


def tools(home):
    """Those of plugins, by name."""
    return {t["name"]: t["plugin"] for t in call(home, "GET", "/tool")[1]["tools"] if t["plugin"]}


def answer(value, more=""):
    """A plugin whose route and tool give `value`."""
    return (f"route('GET', '/', function() return {{ v = {json.dumps(value)} }} end)\n"
            f"tool {{ name = 'what', run = function() return {json.dumps(value)} end }}\n{more}\n")


class Asking(threading.Thread):
    """Calls `once` again and again on a thread of its own until stop(), which gives what went wrong."""

    def __init__(self, once):
        super().__init__(daemon=True)
        self.once, self.count, self.wrong, self.ending = once, 0, None, False
        self.start()

    def run(self):
        while not self.ending and self.wrong is None:
            try:
                self.once()
                self.count += 1
            except Exception as e:  # whatever it is, the test says so
                self.wrong = repr(e)

    def stop(self, at_least=1):
        retry(lambda: self.count >= at_least or self.wrong)
        self.ending = True
        self.join()
        assert self.wrong is None, self.wrong


# ---- while requests run ----------------------------------------------------------------------------


def test_requests_during_constant_reloads_are_all_answered_and_no_tool_is_ever_missing(home, start_hub):
    plug(home, "p", answer(0))
    plug(home, "q", "tool { name = 'other', run = function() end }")
    start_hub()
    seen = []

    def request():
        status, body = call(home, "GET", "/api/plugins/p/")
        assert status == 200, (status, body)
        seen.append(body["v"])

    def list_tools():
        assert tools(home) == {"what": "p", "other": "q"}

    asking = [Asking(request), Asking(list_tools)]
    stream = Stream(home, "plugin.changed")
    for n in range(1, 30 * LOOPS + 1):
        plug(home, "p", answer(n))
        if n % 3 == 0:
            reload(home, force=True)
        stream.until("plugin.changed", plugin="p")
    for thread in asking:
        thread.stop(at_least=30)
    assert ask(home, "p")["v"] == 30 * LOOPS
    assert seen == sorted(seen) and len(set(seen)) > 5, "versions come in order, and many were seen"


def test_a_request_in_flight_ends_on_the_code_that_it_began_with(home, start_hub):
    plug(home, "p", "local word = 'old'\nroute('GET', '/', function() events.emit('user.began', {})\n"
         "  while not state.get('go', false) do timer.sleep(0.01) end\n  return { v = word } end)")
    start_hub()
    stream = Stream(home)
    got = []
    slow = threading.Thread(target=lambda: got.append(call(home, "GET", "/api/plugins/p/")))
    slow.start()
    stream.until("user.began")
    for word in ("new", "newer"):
        plug(home, "p", f"route('GET', '/', function() return {{ v = '{word}' }} end)\n"
             "route('POST', '/go', function() state.set('go', true) end)")
        stream.until("plugin.changed", plugin="p")
        assert ask(home, "p")["v"] == word
    assert not got
    assert call(home, "POST", "/api/plugins/p/go")[0] == 204
    slow.join()
    assert got == [(200, {"v": "old"})]


def test_a_save_is_live_without_anyone_asking(home, start_hub):
    start_hub()
    stream = Stream(home)
    path = plug(home, "p", answer(1))
    loaded = stream.until("plugin.loaded", plugin="p")
    assert ask(home, "p")["v"] == 1
    path.write_text(answer(2))  # in place
    assert stream.until("plugin.changed", plugin="p")["generation"] > loaded["generation"]
    assert ask(home, "p")["v"] == 2
    path.unlink()
    stream.until("plugin.unloaded", plugin="p")
    assert call(home, "GET", "/api/plugins/p/")[0] == 404


def test_the_tools_changed_event_comes_once_for_what_really_changed(home, start_hub):
    plug(home, "p", answer(1))
    calm(home, start_hub)
    stream = Stream(home, "tools.changed,generation.committed")
    reload(home, force=True)
    plug(home, "p", answer(2))  # the same tool, another answer
    reload(home)
    plug(home, "q", "tool { name = 'a', run = function() end } tool { name = 'b', run = function() end }")
    last = reload(home)["generation"]
    stream.until("tools.changed", generation=last)
    assert [e["generation"] for e in stream.seen if e["type"] == "tools.changed"] == [1, last]
    assert len([e for e in stream.seen if e["type"] == "generation.committed"]) == last


def test_many_reloads_leave_nothing_open(home, start_hub):
    for n in range(20):
        plug(home, f"p{n}", answer(n, f"timer.every(60, function() end)\nwatch.directory('{home.dir}', {{}}, function() end)\n"
                                  "on('plugin_start', function() end)").replace("what", f"t{n}"))
    hub = calm(home, start_hub)

    def descriptors():
        return len(os.listdir(f"/proc/{hub.pid}/fd"))

    reload(home, force=True)
    before = descriptors()
    for _ in range(20 * LOOPS):
        report = reload(home, force=True)
        assert report["ok"] and len([n for n in report["changed"] if n.startswith("p")]) == 20
    retry(lambda: descriptors() <= before)
    assert len(tools(home)) == 20 and rows(home)["p7"]["revision"] == 20 * LOOPS + 2


# ---- nothing changed -------------------------------------------------------------------------------


def test_a_reload_without_a_change_is_silent(home, start_hub):
    plug(home, "p", answer(1, "state.set('loads', state.get('loads', 0) + 1)\n"
                           "on('plugin_start', function() state.set('starts', state.get('starts', 0) + 1) end)\n"
                           "on('plugin_shutdown', function() state.set('ends', state.get('ends', 0) + 1) end)\n"
                           "route('GET', '/n', function() return {"
                           "l = state.get('loads'), s = state.get('starts'), e = state.get('ends', 0) } end)"))
    put(home, "plugins/q/init.lua", "return require 'x'")
    put(home, "plugins/q/x.lua", "return {}")
    start_hub()

    def picture():
        events = hub_events(home)
        return (ask(home, "p", "n"), {n: (r["revision"], r["generation"], r["state"]) for n, r in rows(home).items()},
                [e["id"] for e in events if not e["type"].startswith(("log", "client"))])

    before = picture()
    assert before[0] == {"l": 1, "s": 1, "e": 0}
    for _ in range(3):
        report = reload(home)
        assert report["ok"] and not report["changed"] and not report["added"] and report["kept"] >= 2
    same = (home.dir / "plugins/p.lua").read_text()
    plug(home, "p", same)  # the same bytes in another file
    os.utime(home.dir / "plugins/q/x.lua")
    reload(home)
    assert picture() == before


def test_an_edit_that_keeps_size_and_times_is_seen_with_force(home, start_hub):
    path = plug(home, "p", answer(1))
    start_hub()
    was = path.stat()
    copy = home.dir / "copy.lua"
    copy.write_text(answer(2))
    os.utime(copy, ns=(was.st_atime_ns, was.st_mtime_ns))
    stream = Stream(home)
    with open(path, "r+b") as f, open(copy, "rb") as c:  # what `cp -p` does
        f.write(c.read())
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    now = path.stat()
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == (was.st_size, was.st_mtime_ns, was.st_ino)
    report = reload(home, force=True)
    assert report["ok"] and ask(home, "p")["v"] == 2
    stream.until("plugin.changed", plugin="p")


# ---- broken ----------------------------------------------------------------------------------------

PATIENT = "[limits]\nload_ms = 20000\nlua_ms = 20000\nstart_ms = 20000\n"  # for a busy machine
LOADS = {
    "throw": ("error('boom')", "LOAD_FAILED", 3, "boom"),
    "syntax": ("x = = 1", "LOAD_FAILED", 3, "unexpected symbol"),
    "hang": ("while true do end", "LOAD_TIMEOUT", 3, ""),
    "memory": ("local s = 'x' while true do s = s .. s end", "MEMORY_LIMIT", None, ""),
    "exit": ("os.exit(3)", "LOAD_FAILED", 3, "os.exit"),
    "recursion": ("local function f() return 1 + f() end f()", "MEMORY_LIMIT", 3, "stack overflow"),
    "pattern": ("string.find(('a'):rep(200), ('a*'):rep(40) .. 'b')", "LOAD_TIMEOUT", None, ""),
    "require": ("require 'elsewhere'", "LOAD_FAILED", 3, "elsewhere"),
    "wait": ("timer.sleep(1)", "LOAD_FAILED", 3, "cannot wait here"),
    "api": ("plugin { api = '2.0' }", "API_INCOMPATIBLE", None, "Incompatible plugin API version: 2.0 (expected 1.0)"),
}


@pytest.mark.parametrize("how", LOADS)
def test_a_save_that_breaks_at_load_changes_nothing_and_says_why(home, start_hub, how):
    code, name, line, says = LOADS[how]
    if name != "LOAD_TIMEOUT":
        configure(home, PATIENT)
    beat = "timer.every(0.01, function() events.emit('user.beat', {}) end)"
    plug(home, "p", answer("good", beat + "\non_permission(function() return 'deny', 'by p' end)"))
    plug(home, "q", answer("other"))
    start_hub()
    before = home.json("status")["generation"]
    path = plug(home, "p", f"{answer('bad')[:-1]}\n{code}\n".replace("\n\n", "\n"))
    report = reload(home)
    (problem,) = diagnostics(report, "p")
    assert (problem["code"], problem["severity"], problem["path"]) == (name, "error", str(path)), report
    assert says in problem["message"]
    if line is not None:
        assert problem["line"] == line
    assert not report["ok"] and report["failed"] == ["p"] and report["generation"] == before
    assert ask(home, "p")["v"] == "good" and ask(home, "q")["v"] == "other"
    status, body = call(home, "POST", "/tool/what", {"input": {}})
    assert status == 403 and "by p" in body["detail"], "its hook is still asked"
    stream = Stream(home, "user.beat")  # and its timer runs
    last = hub_events(home, "user.beat")[-1]["id"]
    while stream.next()["id"] <= last:
        pass
    row = rows(home)["p"]
    assert (row["state"], row["serving"], row["revision"]) == ("failed", True, 1) and row["pending"]["error"]
    assert diagnostics(reload(home), "p") == [problem], "it stands"
    plug(home, "p", answer("mended"))
    assert reload(home)["ok"] and ask(home, "p")["v"] == "mended"


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "directory"])
def test_a_file_that_is_not_what_it_should_be(home, start_hub, how):
    put(home, "plugins/p/plugin.json", '{\n  "name": "p",\n  "server": "main.lua"\n}\n')
    main = put(home, "plugins/p/main.lua", answer("good", "require 'part'"))
    put(home, "plugins/p/part.lua", "return 1")
    start_hub()
    assert ask(home, "p")["v"] == "good"
    if how == "missing":
        main.unlink()
    elif how == "empty":
        main.write_text("")
    elif how == "truncated":
        main.write_text(answer("good")[:-30])
    else:
        main.unlink()
        main.mkdir()
    report = reload(home)
    problems = diagnostics(report, "p")
    codes = {"truncated": "LOAD_FAILED", "empty": "EMPTY_MODULE"}
    assert [d["code"] for d in problems] == [codes.get(how, "ENTRY_MISSING")]
    assert ask(home, "p")["v"] == "good"
    if how not in codes:
        assert problems[0]["path"].endswith("p/plugin.json") and problems[0]["line"] == 3


LIFE = {
    "throw": "error('boom')",
    "hang": "while true do end",
    "wait": "timer.sleep(60)",
    "memory": "local s = 'x' while true do s = s .. s end",
    "exit": "os.exit(3)",
}
LIMITS = {"hang": "[limits]\nlua_ms = 100\n", "wait": "[limits]\nstart_ms = 300\n"}


@pytest.mark.parametrize("how", LIFE)
def test_a_start_that_fails_is_told_once_and_the_plugin_serves(home, start_hub, how):
    calm(home, start_hub, LIMITS.get(how, PATIENT))
    plug(home, "p", answer(1, f"on('plugin_start', function()\n{LIFE[how]}\nend)"))
    report = reload(home)
    (problem,) = diagnostics(report, "p")
    assert problem["code"] == "START_FAILED" and problem["severity"] == "warning", problem
    assert ask(home, "p")["v"] == 1 and rows(home)["p"]["serving"]
    assert not diagnostics(reload(home), "p"), "it belongs to the report of its commit"


@pytest.mark.parametrize("how", LIFE)
def test_a_shutdown_that_fails_does_not_keep_the_old_code(home, start_hub, how):
    plug(home, "p", answer(1, f"on('plugin_shutdown', function()\n{LIFE[how]}\nend)"))
    calm(home, start_hub, LIMITS.get(how, PATIENT))
    plug(home, "p", answer(2))
    report = reload(home)
    (problem,) = diagnostics(report, "p")
    assert problem["code"] == ("SHUTDOWN_TIMEOUT" if how in LIMITS else "SHUTDOWN_FAILED")
    assert report["ok"] and ask(home, "p")["v"] == 2
    assert not diagnostics(reload(home), "p")


def test_five_broken_of_a_hundred_are_five_failures(home, start_hub):
    broken = [code for code, *_ in LOADS.values()][:5]
    for n in range(100):
        plug(home, f"p{n:02}", broken[n // 20] if n % 20 == 7 else answer(n).replace("what", f"t{n}"))
    calm(home, start_hub)
    report = reload(home)
    assert len(report["failed"]) == 5 and len(report["diagnostics"]) == 5
    served = [r for r in rows(home).values() if r["serving"]]
    assert len(served) == 95 and len(tools(home)) == 95
    assert ask(home, "p99")["v"] == 99
    plug(home, "p07", answer(7))
    report = reload(home)
    assert len(report["failed"]) == 4 and report["added"] == ["p07"]


# ---- names -----------------------------------------------------------------------------------------

TWICE = {
    "TOOL_CONFLICT": "tool { name = 'n', run = function() return NAME end }",
    "COMMAND_CONFLICT": "command { name = 'n', run = function() return NAME end }",
    "PROMPT_CONFLICT": "prompt { id = 'n', text = NAME }",
    "FLAG_CONFLICT": "flag { name = 'n', type = 'boolean', default = false, description = NAME }",
}


@pytest.mark.parametrize("code", TWICE)
def test_a_name_taken_twice_names_both_and_prefer_turns_it_round(home, start_hub, code):
    for name in ("first", "second"):
        plug(home, name, TWICE[code].replace("NAME", f"'{name}'"))
    start_hub()

    def problem():
        (d,) = [d for d in reload(home)["diagnostics"] if d["code"] == code]
        assert d["severity"] == "warning"
        return d

    def owner(name):
        if code == "TOOL_CONFLICT":
            return call(home, "POST", f"/tool/{name}", {"input": {}})[1]["output"]
        if code == "COMMAND_CONFLICT":
            return call(home, "POST", f"/command/{name}", {})[1]["output"]
        return None

    d = problem()
    assert d["plugin"] == "second" and "'first'" in d["message"] and "'second'" in d["message"]
    assert owner("n") in ("first", None) and owner("second:n") in ("second", None)
    assert owner("first:n") in ("first", None)
    configure(home, f'[[plugins]]\npath = "{home.dir}/plugins/second.lua"\nprefer = ["n"]\n')
    d = retry(lambda: (lambda d: d if d["plugin"] == "first" else None)(problem()))
    assert owner("n") in ("second", None) and owner("first:n") in ("first", None)
    assert owner("second:n") in ("second", None)


def test_a_name_that_is_only_long_is_free_for_others(home, start_hub):
    for name in ("first", "second", "third"):
        short = "" if name == "third" else "short = false, "
        plug(home, name, f"command {{ name = 'n', {short}run = function() return '{name}' end }}\n"
             f"flag {{ name = 'f', {short}type = 'boolean', default = false }}\n")
    start_hub()
    assert reload(home)["diagnostics"] == []
    for path in ("first:n", "second:n", "third:n", "n"):
        want = "third" if path == "n" else path.split(":")[0]
        assert call(home, "POST", f"/command/{path}", {})[1]["output"] == want
    home.ok("feature", "enable", "second:f")


def test_a_name_taken_twice_inside_one_plugin(home, start_hub):
    plug(home, "p", "route('GET', '/a', function() return { v = 1 } end)\n"
         "route('GET', '/a', function() return { v = 2 } end)\n"
         "tool { name = 't', run = function() return 1 end }\ntool { name = 't', run = function() return 2 end }\n"
         "flag { name = 'f', type = 'boolean', default = false }\n"
         "flag { name = 'f', type = 'boolean', default = true }\n")
    start_hub()
    got = {d["code"]: d for d in diagnostics(reload(home), "p")}
    assert set(got) == {"ROUTE_CONFLICT", "TOOL_CONFLICT", "FLAG_CONFLICT"}, got
    assert "GET /a" in got["ROUTE_CONFLICT"]["message"] and got["ROUTE_CONFLICT"]["line"] == 2
    assert ask(home, "p", "a")["v"] == 1
    assert call(home, "POST", "/tool/t", {"input": {}})[1]["output"] == "1"


def test_a_builtins_name_is_taken_by_override_only(home, start_hub):
    tool = "tool { name = 'shell', run = function() return 'mine' end }\ntool { name = 'x', run = function() end }"
    plug(home, "p", tool)
    start_hub()
    (d,) = diagnostics(reload(home), "p")
    assert d["code"] == "BUILTIN_CONFLICT" and d["severity"] == "warning"
    assert "'shell'" in d["message"] and "'p'" in d["message"] and "override = true" in d["hint"]
    assert tools(home).get("x") == "p" and "shell" not in tools(home), "that one tool is refused"
    assert call(home, "POST", "/tool/p:shell", {"input": {}})[0] == 404
    plug(home, "p", tool.replace("name = 'shell'", "name = 'shell', override = true"))
    assert not diagnostics(reload(home), "p")
    assert call(home, "POST", "/tool/shell", {"input": {}})[1]["output"] == "mine"


def test_outputs_of_one_name_are_a_conflict(home, start_hub):
    for name in ("one", "two"):
        put(home, f"plugins/{name}/init.lua", "")
        put(home, f"plugins/{name}/skills/sew.md", f"---\nname: sew\n---\n{name}")
    start_hub()
    (d,) = [d for d in reload(home)["diagnostics"] if d["code"] == "OUTPUT_CONFLICT"]
    assert d["plugin"] == "two" and "'one'" in d["message"] and "'sew'" in d["message"]


def test_two_plugins_of_one_name_in_one_layer(home, start_hub):
    plug(home, "same", answer("first"))
    put(home, "shared/plugins/same.lua", answer("second"))
    start_hub()
    report = reload(home)
    (d,) = [d for d in report["diagnostics"] if d["code"] == "NAME_DUPLICATE"]
    assert d["severity"] == "error" and not report["ok"] and report["failed"] == ["same"]
    assert [(p["name"], p["state"], p["serving"]) for p in report["plugins"]] == [("same", "failed", False)]
    both = d["message"] + d["path"]
    assert str(home.dir / "plugins/same.lua") in both and str(home.dir / "shared/plugins/same.lua") in both
    assert ask(home, "same")["v"] == "first"


def test_a_plugin_does_not_reach_the_named_handlers_of_another(home, start_hub):
    """Only the hub's own modules do: the user's init.lua."""
    plug(home, "gate", "hooks.on('door', 'lock', function() end)\n"
         "route('GET', '/', function() return { v = hooks.list('door')[1].enabled } end)")
    plug(home, "thief", "route('GET', '/', function() return { v = { hooks.disable('door', 'lock'), hooks.off('door', 'lock'),"
         " hooks.list('door')[1].name } } end)")
    put(home, "lua/user/init.lua", "events.on('user.close', function() hooks.disable('door', 'lock') end)")
    calm(home, start_hub)
    assert ask(home, "thief")["v"] == [False, False, "lock"] and ask(home, "gate")["v"] is True
    plug(home, "friend", "route('GET', '/', function() return { v = events.emit('user.close', {}) } end)")
    reload(home)
    ask(home, "friend")
    retry(lambda: ask(home, "gate")["v"] is False)


def test_files_of_one_name_in_two_plugins_do_not_meet(home, start_hub):
    """T17: a generic module name belongs to each plugin alone."""
    for name in ("one", "two"):
        put(home, f"plugins/{name}/init.lua", "local util = require 'util'\nleaked = (leaked or 0) + 1\n"
            "route('GET', '/', function() return { v = util.name, n = leaked } end)")
        put(home, f"plugins/{name}/util.lua", f"return {{ name = '{name}' }}")
    calm(home, start_hub)
    assert [ask(home, n) for n in ("one", "two")] == [{"v": "one", "n": 1}, {"v": "two", "n": 1}]
    put(home, "plugins/one/util.lua", "return { name = 'changed' }")
    assert reload(home)["changed"] == ["one"]
    assert [ask(home, n) for n in ("one", "two")] == [{"v": "changed", "n": 1}, {"v": "two", "n": 1}]


def test_a_file_runs_once_for_each_version(home, start_hub):
    """T16: effects of a load are not doubled."""
    put(home, "plugins/p/init.lua", "events.emit('user.load', { n = 1 }) require 'part' require 'part'")
    put(home, "plugins/p/part.lua", "events.emit('user.part', {})")
    start_hub()
    stream = Stream(home)
    put(home, "plugins/p/init.lua", "events.emit('user.load', { n = 2 }) require 'part'")
    stream.until("plugin.changed", plugin="p")
    reload(home)
    call(home, "POST", "/events", {"type": "user.end", "data": {}})
    stream.until("user.end")
    said = [e["type"] + str(e["data"].get("n", "")) for e in stream.seen if e["type"] in ("user.load", "user.part")]
    assert said == ["user.load1", "user.part", "user.load2", "user.part"]
