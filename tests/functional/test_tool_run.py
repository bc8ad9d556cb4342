"""POST /tool: a call without a session goes through the same pipeline as one of a turn."""
import ctypes
import json
import os
import struct
import threading

import pytest

from conftest import retry
from test_plugins import diagnostics, plug, reload
from test_plugins_api import call

BUILTIN = ("shell read_file write_file edit_file list_files search_files skill ask_user plugin_save "
           "plugin_diagnostics memory skill_save session_complete session_history").split()


def run(home, name, dir=None, **input):
    return call(home, "POST", f"/tool/{name}", {"input": input, **({"working_dir": str(dir)} if dir else {})})


def test_the_hooks_of_a_call_run_outside_a_session_too(home, start_hub):
    plug(home, "p", """
        tool { name = 'say', input = { text = 'string' }, run = function(ctx, input) return input.text end }
        tool { name = 'never', run = function() error('it ran') end }
        on_tool_call({ tool = 'say' }, function(ctx, call) call.input.text = call.input.text .. '!' return call end)
        on_resolve_tool({ tool = 'never' }, function(ctx, call) return { output = 'in its place' } end)
        on_tool_result({ tool = 'say' }, function(ctx, call, result)
          result.output = '<' .. result.output .. '>' return result end)""")
    start_hub()
    assert run(home, "say", text="hi")[1]["output"] == "<hi!>"
    assert run(home, "never")[1]["output"] == "in its place"


def test_permission_rules_hold_outside_a_session_too(home, start_hub, tmp_path):
    (home.dir / "config.toml").write_text(
        '[[permission]]\ntool = "shell"\nmatch = "rm *"\ndecision = "deny"\n'
        '[[permission]]\ntool = "shell"\nmatch = "touch asked"\ndecision = "ask"\n')
    start_hub()
    (tmp_path / "keep").write_text("")
    status, got = run(home, "shell", tmp_path, cmd="rm keep")
    assert (status, got["code"]) == (403, "FORBIDDEN") and "rule permission.0" in got["detail"]
    status, got = run(home, "shell", tmp_path, cmd="touch asked")
    assert status == 403 and "needs approval" in got["detail"]
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["keep"]
    assert run(home, "shell", tmp_path, cmd="touch made")[1]["success"] and (tmp_path / "made").exists()


def test_a_required_plugin_that_does_not_serve_stops_calls_too(home, start_hub):
    plug(home, "guard", "error('broken')")
    plug(home, "p", "tool { name = 'what', run = function() return 'ran' end }")
    (home.dir / "config.toml").write_text('[[plugins]]\npath = "plugins/guard.lua"\nrequired = true\n')
    start_hub()
    status, got = run(home, "what")
    assert (status, got["code"]) == (409, "PLUGIN_UNAVAILABLE") and "guard" in got["detail"]
    plug(home, "guard", "")
    retry(lambda: run(home, "what")[0] == 200)


def test_a_stopping_hub_ends_the_command_of_a_call(home, start_hub, tmp_path):
    start_hub()
    got = []
    thread = threading.Thread(target=lambda: got.append(
        run(home, "shell", tmp_path, cmd="touch begun; sleep 1000", timeout_s=1000)))
    thread.start()
    retry((tmp_path / "begun").exists)
    home.ok("stop", "--wait")
    thread.join()
    assert (got[0][0], got[0][1]["code"]) == (503, "STOPPING")


def test_a_tool_that_needs_a_session_is_not_offered_outside(home, hub):
    names = {t["name"] for t in call(home, "GET", "/tool")[1]["tools"]}
    assert names & set(BUILTIN) == set(BUILTIN[:6])
    for name in BUILTIN[6:]:
        assert run(home, name)[0] == 404, name


def test_a_tool_that_needs_a_session_is_switched_off_and_on(home, hub, tmp_path):
    def in_session():
        made = call(home, "POST", "/session", {"working_dir": str(tmp_path), "env": {"AFLOAT_PROVIDER": "scripted"}})[1]
        call(home, "POST", f"/session/{made['id']}/message", {"text": "hello", "wait": True})
        kept = (home.dir / "sessions" / made["id"] / "requests.jsonl").read_text().splitlines()
        return "ask_user" in [t["name"] for t in json.loads(kept[0])["body"]["tools"]]

    def listed():
        return {t["name"]: t["enabled"] for t in call(home, "GET", "/tool")[1]["tools"]}.get("ask_user")

    assert run(home, "ask_user")[1]["detail"] == "tool 'ask_user' runs in sessions only"
    assert in_session() and listed() is None
    assert call(home, "POST", "/tool/ask_user/disable")[1]["enabled"] is False
    assert not in_session() and listed() is False
    assert call(home, "POST", "/tool/ask_user/enable")[1]["enabled"] is True
    assert in_session() and listed() is None


def test_a_tool_that_is_switched_off_under_its_long_name_does_not_run(home, start_hub):
    for name in "ab":
        plug(home, name, f"tool {{ name = 'roll', run = function() return 'of {name}' end }}")
    start_hub()
    assert run(home, "b:roll")[1]["output"] == "of b"
    assert call(home, "POST", "/tool/b:roll/disable")[1]["enabled"] is False
    for name in ("b:roll", "b__roll"):
        status, got = run(home, name)
        assert (status, got["code"]) == (409, "CONFLICT") and "is switched off" in got["detail"], got
    assert run(home, "roll")[1]["output"] == "of a"
    assert call(home, "POST", "/tool/b:roll/enable")[1]["enabled"] is True
    assert run(home, "b:roll")[1]["output"] == "of b"


def test_a_tool_stays_off_when_the_plain_name_becomes_its_own(home, start_hub):
    for name in "ab":
        plug(home, name, "tool { name = 'roll', run = function() return 'x' end }")
    start_hub()
    assert call(home, "POST", "/tool/b:roll/disable")[1]["enabled"] is False
    (home.dir / "plugins" / "a.lua").unlink()
    reload(home)
    assert [t["enabled"] for t in call(home, "GET", "/tool")[1]["tools"] if t["name"] == "roll"] == [False]
    assert run(home, "roll")[0] == 409
    assert call(home, "POST", "/tool/roll/enable")[1]["enabled"] is True
    assert run(home, "roll")[0] == 200


@pytest.mark.parametrize("name", BUILTIN)
def test_the_name_of_every_builtin_tool_is_reserved(home, start_hub, name):
    plug(home, "p", f"tool {{ name = '{name}', run = function() end }}")
    start_hub()
    assert [d["code"] for d in diagnostics(reload(home), "p")] == ["BUILTIN_CONFLICT"]


def opened_meanwhile(dirs, act):
    """Which of the directories are opened while `act` runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    names = {libc.inotify_add_watch(fd, str(d).encode(), 0x20): d for d in dirs}  # IN_OPEN
    try:
        act()
        raw = os.read(fd, 65536)
    except BlockingIOError:
        raw = b""
    finally:
        os.close(fd)
    found = set()
    while raw:
        watch, mask, _, n = struct.unpack_from("iIII", raw)
        if mask & 0x40000000 and n == 0:  # IN_ISDIR: the directory itself
            found.add(names[watch])
        raw = raw[16 + n:]
    return found


def test_a_tool_that_only_reads_does_not_look_for_what_may_not_be_written(home, hub, tmp_path):
    (tmp_path / "a.txt").write_text("hello\n")
    (home.dir / "plugins").mkdir(exist_ok=True)
    dirs = [home.dir, home.dir / "plugins"]

    def ok(tool, **input):
        status, got = run(home, tool, tmp_path, **input)
        assert status == 200 and got["success"], got
    ok("list_files", path=".")
    # the hub itself may look at its new directory just then, but not each time
    retry(lambda: opened_meanwhile(dirs, lambda: ok("read_file", path="a.txt")) == set())
    retry(lambda: opened_meanwhile(dirs, lambda: ok("search_files", pattern="hello")) == set())
    assert opened_meanwhile(dirs, lambda: ok("write_file", path="b.txt", content="x")) == set(dirs)
