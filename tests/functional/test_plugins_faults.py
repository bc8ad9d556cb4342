"""Code that fails as it runs: plugin, what ran, file, line and traceback are in the row, the log ring and the event."""

import pytest

from conftest import retry
from test_lua import Stream
from test_plugins import call, diagnostics, plug, reload, rows

DEEP = "local function deep() local x = nil; return x.y end\nlocal function mid() return (deep()) end\n"
KINDS = {  # how it is registered, how it is called, what it is named
    "tool": ("tool { name = 'tt', description = 'd', input = {}, run = function() mid() end }",
             lambda home: call(home, "POST", "/tool/tt", {"input": {}}), "tool 'tt'"),
    "route": ("route('GET', '/v', function() mid() end)",
              lambda home: call(home, "GET", "/api/plugins/p/v"), "route 'GET /v'"),
    "command": ("command { name = 'cc', run = function() mid() end }",
                lambda home: call(home, "POST", "/command/p:cc", {"args": []}), "command 'cc'"),
    "timer": ("timer.after(0.01, function() mid() end)", lambda home: None, "timer"),
    "event": ("on('user.go', function() mid() end)",
              lambda home: plug(home, "q", "events.emit('user.go', {})"), "user.go"),
}


def shown(home):
    return call(home, "GET", "/plugin/p")[1]


def last_error(home):
    return retry(lambda: shown(home)["last_error"])


def ring(home):
    return [line["text"] for line in call(home, "GET", "/plugin/p/logs")[1]["lines"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_names_what_ran_with_file_line_and_traceback(home, hub, kind):
    how, go, name = KINDS[kind]
    stream = Stream(home, "plugin.error")
    path = plug(home, "p", DEEP + how)
    retry(lambda: rows(home).get("p", {}).get("serving"))
    go(home)
    event, last = stream.until("plugin.error", plugin="p"), last_error(home)
    for told in (event, last):
        assert told["path"] == str(path) and told["line"] == 1 and name in told["hook"], told
        assert name in told["message"] and "attempt to index a nil value" in told["message"]
        assert f"{path}:2: in" in told["traceback"], told
    assert last["code"] == "HOOK_FAILED"
    (text,) = [t for t in ring(home) if "attempt to index" in t]
    assert name in text and f"{path}:1" in text and f"{path}:2: in" in text
    assert diagnostics(reload(home), "p")[0]["hook"] == last["hook"]
    plug(home, "p", "-- mended")
    retry(lambda: shown(home)["last_error"] is None)


def test_hooks_of_one_function_are_told_apart_and_the_last_is_last(home, hub):
    plug(home, "p", DEEP + "".join(KINDS[k][0] + "\n" for k in ("tool", "route", "command")))
    retry(lambda: rows(home).get("p", {}).get("serving"))
    for kind in ("tool", "route", "command", "tool"):
        KINDS[kind][1](home)
        assert KINDS[kind][2] in last_error(home)["message"]
    assert {d["hook"] for d in shown(home)["diagnostics"]} == {KINDS[k][2] for k in ("tool", "route", "command")}


@pytest.mark.parametrize("value,text", [("{ code = 5, message = 'five' }", "five"), ("{ code = 5 }", "table"),
                                        ("nil", "nil"), ("setmetatable({}, { __tostring = error })", "table")])
def test_an_error_of_another_type_has_its_place_too(home, hub, value, text):
    path = plug(home, "p", f"local function f()\n  error({value})\nend\nroute('GET', '/v', function() f() end)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    call(home, "GET", "/api/plugins/p/v")
    last = last_error(home)
    assert text in last["message"] and last["path"] == str(path) and last["line"] == 2, last
    assert f"{path}:4" in last["traceback"]


def test_a_hook_of_a_session_names_itself_in_journal_report_and_chat(home, hub):
    path = plug(home, "p", DEEP + "on_user_message(function() mid() end)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    done = home.cli("chat", "hello")
    assert "on_user_message" in done.stderr and "p.lua:1" in done.stderr, done.stderr
    last = last_error(home)
    assert last["hook"] == "on_user_message" and "on_user_message" in last["message"] and last["line"] == 1
    assert f"{path}:2: in" in last["traceback"]
    (sid,) = [s["id"] for s in call(home, "GET", "/session")[1]["sessions"]]
    (event,) = [e for e in call(home, "GET", f"/session/{sid}/events")[1]["events"] if e["type"] == "plugin.error"]
    assert event["hook"] == "on_user_message" and event["path"] == str(path) and f"{path}:2" in event["traceback"]
    assert [t for t in ring(home) if "on_user_message" in t and f"{path}:2" in t]


def test_a_hook_that_never_pauses_is_told_the_limit_that_it_met(home, hub):
    plug(home, "p", "on_user_message(function() while true do end end)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    home.cli("chat", "hello")
    last = last_error(home)
    assert last["code"] == "HOOK_TIMEOUT" and "ran for more than 200 ms without a pause" in last["message"], last


def test_a_start_that_fails_is_in_the_log_with_its_traceback(home, hub):
    path = plug(home, "p", DEEP + "on('plugin_start', function() mid() end)")
    (text,) = retry(lambda: [t for t in ring(home) if "plugin_start" in t] if rows(home).get("p") else [])
    assert f"{path}:1" in text and f"{path}:2: in" in text


def test_a_fault_that_repeats_is_one_line(home, hub):
    plug(home, "p", DEEP + KINDS["route"][0])
    retry(lambda: rows(home).get("p", {}).get("serving"))
    for _ in range(20):
        KINDS["route"][1](home)
    assert len([t for t in ring(home) if "attempt to index" in t]) == 1
    assert len(shown(home)["diagnostics"]) == 1


@pytest.mark.parametrize("kind", ["tool", "route", "command"])
def test_an_answer_that_cannot_be_sent_is_a_fault_at_the_function(home, hub, kind):
    how, go, name = KINDS[kind]
    stream = Stream(home, "plugin.error")
    path = plug(home, "p", "\n" + how.replace("mid()", "return print"))
    retry(lambda: rows(home).get("p", {}).get("serving"))
    status, no = go(home)
    event, last = stream.until("plugin.error", plugin="p"), last_error(home)
    for told in (event, last):
        assert (told["path"], told["line"], told["hook"]) == (str(path), 2, name), told
        assert "a function cannot be sent" in told["message"], told
    assert [t for t in ring(home) if name in t and f"{path}:2" in t]
    assert "a function cannot be sent (p.lua:2)" in no["detail"], no


def test_a_command_that_says_itself_that_it_failed_is_no_fault(home, hub):
    plug(home, "p", KINDS["command"][0].replace("mid()", "return nil, 'not today'"))
    retry(lambda: rows(home).get("p", {}).get("serving"))
    status, no = KINDS["command"][1](home)
    assert status == 500 and no["detail"] == "not today", no
    assert shown(home)["last_error"] is None and not ring(home)


@pytest.mark.parametrize("hook,answer", [("on_user_message", "{ 'x' }"), ("on_permission", "'alow'"),
                                         ("on_tool_call", "5"), ("on_final", "print")])
def test_an_answer_that_its_point_does_not_take_has_the_place_of_its_handler(home, hub, hook, answer):
    path = plug(home, "p", f"\n\n{hook}(function()\n  return {answer}\nend)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    done = home.cli("chat", "-p", "list the files")
    assert f"plugin 'p', {hook}: " in done.stderr and "(p.lua:3)" in done.stderr, done.stderr
    last = last_error(home)
    assert (last["hook"], last["path"], last["line"]) == (hook, str(path), 3), last
    assert [t for t in ring(home) if hook in t and f"{path}:3" in t]


def test_an_error_out_of_a_coroutine_has_the_line_where_it_began(home, hub):
    path = plug(home, "p", "local function f(x)\n  return x.y\nend\n"
                           "route('GET', '/v', function()\n  return coroutine.wrap(f)()\nend)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    status, no = KINDS["route"][1](home)
    assert no["detail"].endswith(": attempt to index a nil value (local 'x') (p.lua:2)"), no
    last = last_error(home)
    assert (last["path"], last["line"]) == (str(path), 2) and f"{path}:5: in" in last["traceback"], last
