"""Plugins in processes of their own: what they may do, how they reload, and how they fail.

Each file is dropped into the home as a user would, and only public faces are used. What differs between languages is
in LANGUAGES; what is said here of one holds for all.
"""
import contextlib
import json
import os
import pathlib
import shutil
import re
import signal
import socket
import subprocess

import pytest

from conftest import DEADLINE, LOOPS, ROOT, is_gone, retry
from mcp_rig import Legacy

SEEDS = pathlib.Path(__file__).parent.parent / "fixtures/python"


def scenario(home, *lines):
    path = home.dir / "scenario.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"AFLOAT_SCENARIO": str(path)}


def put(home, name, text):
    """Save a plugin in one step, as an editor does."""
    path = home.dir / "plugins" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = home.dir / f".{path.name}.new"
    beside.write_text(text)
    os.rename(beside, path)
    return path


def row(home, name):
    return home.json("plugin", "show", name)


def hosts(home, name):
    """The processes of a plugin, by the name in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            env = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"AFLOAT_PLUGIN={name}".encode() in env and f"AFLOAT_HOST_CACHE={home.dir}/state/hosts".encode() in env:
                if not is_gone(pid):
                    found.append(int(pid))
    return sorted(found)


def events_of(home, session, kind):
    path = next(home.dir.glob(f"sessions/{session}*/events.jsonl"))
    return [e for e in map(json.loads, path.read_text().splitlines()) if e["type"] == kind]


# ---- the seed's plugins ---------------------------------------------------------------------------

def test_the_seeds_python_plugins_run_unchanged(home):
    for name in ("logger", "footer", "shell_blocker"):
        put(home, f"{name}.py", (SEEDS / f"{name}.py").read_text())
    env = scenario(home, {"text": "I'll look.", "tool_calls": [
        {"name": "shell", "input": {"cmd": "echo one"}}, {"name": "shell", "input": {"cmd": "sudo rm -rf /"}}]},
        {"text": "Done."})
    got = home.json("api", "POST", "/session", '{"plugins": ["logger", "footer", "shell_blocker"]}', env=env)
    body = json.dumps({"text": "go", "wait": True, "env": env})
    turn = home.json("api", "POST", f"/session/{got['id']}/message", body)
    assert turn["state"] == "completed", turn
    assert turn["text"] == f"Done.\n\n---\nSession: {got['id']}\nTools: shell"
    outputs = [e["output"].strip() for e in events_of(home, got["id"], "tool.completed")]
    assert sorted(outputs) == ["Blocked by security policy", "one"]
    called = next(e for e in events_of(home, got["id"], "tool.called") if "changed_by" in e)
    assert called["changed_by"] == ["shell_blocker"] and called["original_input"] == {"cmd": "sudo rm -rf /"}
    said = home.ok("plugin", "logs", "logger")
    assert f"Request started: {got['id']}" in said and "Tool #2: shell" in said and "completed: 2 tools called" in said
    shown = row(home, "logger")
    assert shown["host"] == "python" and shown["hooks"] == ["on_begin", "on_tool_call", "on_done"]
    assert shown["metadata"]["name"] == "logger" and shown["metadata"]["api"] == "1.0"


def test_what_is_wrong_in_a_seed_example_is_told_with_file_and_line(home):
    path = put(home, "mocker.py", (SEEDS / "mocker.py").read_text())
    report = home.cli("reload", "--json")
    assert report.returncode == 6
    d = next(d for d in json.loads(report.stdout)["diagnostics"] if d["plugin"] == "mocker")
    assert d["code"] == "LOAD_FAILED" and d["path"] == str(path) and d["line"] == 5 and "SyntaxError" in d["message"]


# ---- the API --------------------------------------------------------------------------------------

EVERYTHING = {"python": '''
"""one of everything"""
import time
__plugin__ = {"api": "1.0", "name": "every", "version": "2.1"}
loud = flag("loud", default=False, description="louder")

@tool
def dice(ctx, sides: int, label: str = "d"):
    """roll a die"""
    ctx.progress("rolling")
    if sides == 0:
        return None, "no sides"
    if sides == 1:
        raise ValueError("one side")
    return f"{label}{sides}"

@tool(input={"s": "number"}, description="waits")
async def waits(ctx, input):
    await timer.sleep(input["s"])
    return {"output": "waited", "success": True}

@route("GET", "/hi/:name")
def hi(req):
    return {"hi": req.params["name"], "q": req.query.get("q"), "loud": loud()}

@route("POST", "/echo")
async def echo(req):
    return response(status=201, headers={"X-Seen": req.headers.get("x-mine", "none")}, body=req.body)

@route("GET", "/nothing")
def nothing(req):
    pass

@command(description="counts")
def count(args, ctx):
    n = state.get("n", 0) + 1
    state.set("n", n)
    store.set("n", n)
    return {"state": n, "store": store.get("n"), "keys": store.keys(), "args": args,
            "dir": ctx.working_dir, "version": VERSION}

VERSION = 1

@command
def plugins(args):
    return [p["name"] for p in hub.plugin.list()["plugins"]]

@command
def emit(args):
    events.emit("user.every", {"n": 7})

@command
def refused(args):
    try:
        hub.trust.add(path="/")
    except HubError as e:
        return str(e)

@on("user.every")
def heard(event):
    log.info(f"heard {event['data']['n']}")

@on("plugin_start")
def start(ev):
    log.info("start " + ev["reason"])

@on("plugin_shutdown")
def stop(ev):
    log.info("stop " + ev["reason"])

prompt("Prefer small commits.", id="small")

@prompt(id="live")
def live(ctx):
    return "Directory " + ctx.working_dir

preserve_ui("pending")

@on_begin
def begin(ctx):
    ctx.state["odd"] = {1, 2}          # no JSON value: stays in this process
    ctx.state["seen"] = []
    ctx.memory.append("Remember the milk.")

@on_user_message
def shout(ctx, text):
    return text + "!"

@on_tool_call(tool="shell", priority=5)
def see(ctx, call):
    ctx.state["seen"].append(call.input["cmd"])

@on_permission(tool="shell")
async def permit(ctx, call):
    if "forbidden" in call.input["cmd"]:
        return "deny", "not here"

@on_resolve_tool
def resolve(ctx, call):
    if call.input.get("cmd") == "answer":
        return ToolResult(call.tool_call_id, call.tool_name, "answered by " + call.tool_name)

@on_tool_result
def shorten(ctx, call, result):
    result.output = result.output.strip()[:20]
    return result

@on_before_model
def before(ctx, request):
    request["system"] = (request.get("system") or "") + "\\nSPICE"
    return request

@on_after_model
def after(ctx, response):
    response["text"] = response["text"].replace("Done", "Finished")
    return response

@on_model_delta
def delta(ctx, d):
    state.set("deltas", (state.get("deltas") or 0) + 1)

@on_final
def first(ctx, text):
    return text + " one"

@on_final
async def second(ctx, text):
    return text + f" two {sorted(ctx.state['odd'])} {ctx.state['seen']}"

@on_done
def done(ctx):
    log.info(f"done {ctx.outcome} {state.get('deltas', 0) > 0}")
''', "node": '''
import { command, events, flag, hub, log, on, preserve_ui, prompt, response, route, state, store, timer, tool } from "afloat";
export const plugin = { api: "1.0", name: "every", version: "2.1" };
const loud = flag({ name: "loud", default: false, description: "louder" });

tool({ name: "dice", description: "roll a die", input: { sides: "integer", label: { type: "string", default: "d" } },
  run(ctx, input) {
    ctx.progress("rolling");
    if (input.sides === 0) return [null, "no sides"];
    if (input.sides === 1) throw new RangeError("one side");
    return `${input.label}${input.sides}`;
  } });
tool({ name: "waits", description: "waits", input: { s: "number" }, async run(ctx, input) {
  await timer.sleep(input.s);
  return { output: "waited", success: true };
} });
route("GET", "/hi/:name", req => ({ hi: req.params.name, q: req.query.q ?? null, loud: loud() }));
route("POST", "/echo", async req => response({ status: 201, headers: { "X-Seen": req.headers["x-mine"] ?? "none" }, body: req.body }));
route("GET", "/nothing", () => {});
command({ name: "count", description: "counts", async run(args, ctx) {
  const n = state.get("n", 0) + 1;
  state.set("n", n);
  await store.set("n", n);
  return { state: n, store: await store.get("n"), keys: await store.keys(), args,
    dir: ctx.working_dir, version: VERSION };
} });
const
VERSION = 1;
command({ name: "plugins", run: async () => (await hub.plugin.list()).plugins.map(p => p.name) });
command({ name: "emit", run: () => events.emit("user.every", { n: 7 }) });
command({ name: "refused", run: () => hub.trust.add({ path: "/" }).catch(e => e.message) });
on("user.every", event => log.info(`heard ${event.data.n}`));
on("plugin_start", ev => log.info(`start ${ev.reason}`));
on("plugin_shutdown", ev => console.log(`stop ${ev.reason}`));
prompt({ id: "small", text: "Prefer small commits." });
prompt({ id: "live", text: async ctx => `Directory ${ctx.working_dir}` });
preserve_ui("pending");
on_begin(ctx => {
  ctx.state.odd = new Set([1, 2]);    // no JSON value: stays in this process
  ctx.state.seen = [];
  ctx.memory.push("Remember the milk.");
});
onUserMessage((ctx, text) => text + "!");
on_tool_call({ tool: "shell", priority: 5 }, (ctx, call) => { ctx.state.seen.push(call.input.cmd); });
on("permission", { tool: "shell" }, async (ctx, call) => {
  if (call.input.cmd.includes("forbidden")) return ["deny", "not here"];
});
on_resolve_tool((ctx, call) => {
  if (call.input.cmd === "answer") return ToolResult({ output: `answered by ${call.tool_name}` });
});
on_tool_result((ctx, call, result) => ({ ...result, output: result.output.trim().slice(0, 20) }));
on_before_model((ctx, request) => ({ ...request, system: (request.system ?? "") + "\\nSPICE" }));
on_after_model((ctx, response) => ({ ...response, text: response.text.replace("Done", "Finished") }));
on_model_delta(() => state.set("deltas", (state.get("deltas") ?? 0) + 1));
on_final((ctx, text) => text + " one");
on_final(async (ctx, text) => `${text} two [${[...ctx.state.odd].sort().join(", ")}] [${ctx.state.seen.map(s => `'${s}'`).join(", ")}]`);
on_done(ctx => log.info("done", ctx.outcome, state.get("deltas", 0) > 0 ? "True" : "False"));
'''}
LANGUAGES = {"python": ".py", "node": ".mjs", "c": ".c"}


@pytest.fixture(params=list(EVERYTHING))
def every(request, home):
    home.lang, home.file = request.param, "every" + LANGUAGES[request.param]
    put(home, home.file, EVERYTHING[request.param].lstrip())
    home.ok("reload")
    return home


def test_tools_routes_and_commands_of_a_host(every):
    shown = row(every, "every")
    assert shown["host"] == every.lang and shown["state"] == "loaded" and shown["tools"] == ["dice", "waits"], shown
    assert shown["routes"] == ["GET /hi/:name", "POST /echo", "GET /nothing"]
    assert every.ok("tool", "run", "dice", '{"sides": 6}').strip() == "d6"
    assert "no sides" in every.cli("tool", "run", "dice", '{"sides": 0}').stderr
    assert "one side" in every.cli("tool", "run", "dice", '{"sides": 1}').stderr
    assert "must be an integer" in every.cli("tool", "run", "dice", '{"sides": "x"}').stderr
    assert every.ok("tool", "run", "waits", '{"s": 0.01}').strip() == "waited"
    tool = next(t for t in every.json("tool", "list")["tools"] if t["name"] == "dice")
    assert tool["description"] == "roll a die" and tool["input_schema"]["required"] == ["sides"]
    answer = every.http("GET", "/api/plugins/every/hi/Ada?q=a%20b")
    assert answer.json() == {"hi": "Ada", "q": "a b", "loud": False}
    every.ok("feature", "enable", "every:loud")
    assert every.http("GET", "/api/plugins/every/hi/Ada").json()["loud"] is True
    answer = every.http("POST", "/api/plugins/every/echo", b'"body"', headers=["X-Mine: 4"])
    assert answer.status == 201 and answer.headers["x-seen"] == "4" and answer.body == b'"body"'
    assert every.http("GET", "/api/plugins/every/nothing").status == 204
    assert "every" in every.json("every:plugins")["output"]
    assert "NOT_FOUND" in every.ok("every:refused") or "no such operation" in every.ok("every:refused")
    assert every.json("every:count", cwd=every.dir)["output"]["dir"] == str(every.dir)
    every.ok("every:emit")
    retry(lambda: "heard 7" in every.ok("plugin", "logs", "every"))


def test_a_long_message_reaches_a_host_whole_wherever_its_pieces_end(every):
    text = "a" + "\u20ac" * 100_000  # no piece of 64 KiB ends between characters
    answer = every.http("POST", "/api/plugins/every/echo", text.encode(), headers=["X-Mine: 4"])
    assert answer.status == 201 and answer.body.decode() == text


def test_a_turn_passes_through_every_hook_of_a_host(every):
    env = scenario(every, {"text": "Look.", "tool_calls": [
        {"name": "shell", "input": {"cmd": "echo 123456789012345678901234"}},
        {"name": "shell", "input": {"cmd": "answer"}}, {"name": "shell", "input": {"cmd": "echo forbidden"}}]},
        {"text": "Done."})
    got = every.json("api", "POST", "/session", json.dumps({"plugins": ["every"]}), env=env)
    body = json.dumps({"text": "go", "wait": True, "env": env})
    turn = every.json("api", "POST", f"/session/{got['id']}/message", body)
    seen = ["echo 123456789012345678901234", "answer", "echo forbidden"]
    assert turn["text"] == f"Finished. one two [1, 2] {seen}".replace('"', "'"), turn
    done = {e["call_id"]: e for e in events_of(every, got["id"], "tool.completed")}
    outputs = [e["output"] for e in done.values()]
    assert "12345678901234567890" in outputs and "answered by shell" in outputs
    assert any("not here" in json.dumps(e) for e in done.values())
    requests = next(every.dir.glob(f"sessions/{got['id']}*/requests.jsonl")).read_text()
    for text in ("Prefer small commits.", "Directory ", "SPICE", "Remember the milk.", "go!"):
        assert text in requests, text
    retry(lambda: "done completed True" in every.ok("plugin", "logs", "every"))


def test_state_and_store_survive_a_reload_and_lifecycle_is_told(every):
    here = {"keys": ["n"], "dir": str(every.dir)}
    first = every.json("every:count", "a", cwd=every.dir)["output"]
    assert first == {"state": 1, "store": 1, "args": ["a"], "version": 1, **here}
    put(every, every.file, EVERYTHING[every.lang].lstrip().replace("VERSION = 1", "VERSION = 2"))
    every.ok("reload")
    second = every.json("every:count", cwd=every.dir)["output"]
    assert second == {"state": 2, "store": 2, "args": [], "version": 2, **here}
    retry(lambda: all(s in every.ok("plugin", "logs", "every") for s in ("start start", "stop reload", "start reload")))
    every.ok("stop")
    assert every.json("every:count")["output"]["store"] == 1     # the state is new, and counted from 1


def test_a_save_is_live_without_a_gap_and_a_broken_one_keeps_the_last_good(every):
    text = EVERYTHING[every.lang].lstrip()
    old = hosts(every, "every")
    put(every, every.file, text.replace("VERSION = 1", "VERSION = 5"))
    retry(lambda: every.json("every:count")["output"]["version"] == 5)   # an error in between would end the test
    retry(lambda: all(is_gone(pid) for pid in old))
    put(every, every.file, text.replace("VERSION = 1", "VERSION = = 6"))
    retry(lambda: row(every, "every")["state"] == "failed")
    shown = row(every, "every")
    line = text.split("VERSION = 1")[0].count("\n") + 1
    assert shown["serving"] and shown["pending"]["error"]
    d = next(d for d in shown["diagnostics"] if d["code"] == "LOAD_FAILED")
    assert d["line"] == line and d["path"].endswith(every.file), d
    assert every.json("every:count")["output"]["version"] == 5


def test_reloads_leave_no_process_behind(every):
    n = len(hosts(every, "every"))  # before any reload: an old process may take a moment to end
    seen = set(hosts(every, "every"))
    for _ in range(10 if LOOPS == 1 else 1000):
        every.ok("reload", "--force", "every")
        seen.update(hosts(every, "every"))
    retry(lambda: len(hosts(every, "every")) == n)
    assert len(seen) > n
    every.ok("plugin", "disable", "every")
    retry(lambda: hosts(every, "every") == [])
    every.ok("plugin", "enable", "every")
    assert hosts(every, "every")
    every.ok("stop", "--wait")
    retry(lambda: hosts(every, "every") == [])


def test_a_hub_that_is_killed_leaves_no_host_behind(every):
    pids = hosts(every, "every")
    assert pids
    every.kill_hub()
    retry(lambda: all(is_gone(pid) for pid in pids))


# ---- what goes wrong ------------------------------------------------------------------------------

BAD = {"python": '''
import os, signal, time

@command
def die(args):
    signal.raise_signal(signal.SIGSEGV)

@command
def leave(args):
    os._exit(3)

@command
def flood(args):
    while True:
        log.info("x" * 100)

@command
def garbage(args):
    os.write(3, b"this is no JSON\\n")

@command
def fine(args):
    return "fine"

@route("GET", "/loops")
async def loops(req):
    while True:
        pass

@on_final(timeout_ms=100)
def slow(ctx, text):
    time.sleep(30)

@on_final
def throws(ctx, text):
    return 1 / 0
''', "node": '''
import fs from "node:fs";
command({ name: "die", run: () => { process.kill(process.pid, "SIGSEGV"); for (;;); } });
command({ name: "leave", run: () => process.reallyExit(3) });
command({ name: "flood", async run() { for (;;) { for (let i = 0; i < 1000; i++) log.info("x"); await timer.sleep(0); } } });
command({ name: "garbage", run: () => fs.writeSync(3, "this is no JSON\\n") });
command({ name: "fine", run: () => "fine" });
route("GET", "/loops", async () => { for (;;); });
on_final({ timeout_ms: 100 }, () => new Promise(done => setTimeout(done, 30000)));
on_final(() => { throw new Error("division by zero"); });
''', "c": r'''
#include <afloat/plugin.h>
#include <unistd.h>
static void die(struct afloat_call *c) { (void)c; *(volatile int *)0 = 1; }
static void leave(struct afloat_call *c) { (void)c; _exit(3); }
static void flood(struct afloat_call *c) { (void)c; for (;;) afloat_log("info", "x"); }
static void garbage(struct afloat_call *c) { (void)c; if (write(3, "this is no JSON\n", 16) < 0) _exit(9); }
static void fine(struct afloat_call *c) { afloat_answer_text(c, "fine"); }
static void loops(struct afloat_call *c) { (void)c; for (;;) pause(); }
static void throws(struct afloat_call *c) { afloat_fail(c, "division by zero in bad.c"); }
AFLOAT_PLUGIN(.commands = (const struct afloat_command[]){{"die", "", die}, {"leave", "", leave}, {"flood", "", flood},
    {"garbage", "", garbage}, {"fine", "", fine}, {0}},
    .routes = (const struct afloat_route[]){{"GET", "/loops", loops}, {0}},
    .hooks = (const struct afloat_hook[]){{.point = "on_final", .run = throws}, {0}})
'''}


@pytest.fixture(params=list(BAD))
def bad(request, home):
    home.file = "bad" + LANGUAGES[request.param]
    home.text = BAD[request.param].lstrip()
    put(home, home.file, home.text)
    home.ok("reload")
    return home


@pytest.mark.parametrize("how, why", [("die", "signal 11"), ("leave", "exited with 3"), ("flood", "flooded the hub"),
                                      ("garbage", "does not speak the protocol")])
def test_a_host_that_dies_is_a_diagnostic_and_is_started_again(bad, how, why):
    pids = hosts(bad, "bad")
    assert bad.cli(f"bad:{how}").returncode != 0
    retry(lambda: all(is_gone(pid) for pid in pids))
    retry(lambda: bad.cli("bad:fine").stdout.strip() == "fine")
    d = next(d for d in row(bad, "bad")["diagnostics"] if d["code"] == "HOST_CRASHED")
    assert why in d["message"], d
    bad.cli(f"bad:{how}")                                  # the second time within a minute it is left alone
    retry(lambda: row(bad, "bad")["state"] == "failed" and not hosts(bad, "bad"))
    assert "left alone" in json.dumps(row(bad, "bad")["diagnostics"])
    put(bad, bad.file, bad.text + "\n")                    # until it is another text
    retry(lambda: bad.cli("bad:fine").stdout.strip() == "fine")


def test_a_hook_that_is_slow_or_throws_changes_nothing_and_is_told(bad):
    env = scenario(bad, {"text": "Done."})
    pids = hosts(bad, "bad")
    got = bad.ok("chat", "go", env=env)
    assert got.strip() == "Done."
    codes = {d["code"]: d for d in row(bad, "bad")["diagnostics"]}
    assert "HOOK_TIMEOUT" in codes or "HOOK_FAILED" in codes
    text = json.dumps(row(bad, "bad")["diagnostics"])
    assert "division by zero" in text or "zero" in text
    assert bad.file in text
    assert hosts(bad, "bad") == pids                       # it lives on
    assert bad.ok("bad:fine").strip() == "fine"


FAILS = {  # the lines that fail are 3, 6 and 9
    "f.py": """
@tool(name="t1", description="d", input={})
def t1(ctx, input): raise ValueError("boom")

@route("GET", "/r")
def r(req): raise ValueError("boom")

@on("user.go")
def go(ev): raise ValueError("boom")
""",
    "f.mjs": """
tool({ name: "t1", description: "d", input: {},
  run() { throw new TypeError("boom"); } });
// a route
route("GET", "/r",
  () => { throw new TypeError("boom"); });
// an event
on("user.go",
  () => { throw new TypeError("boom"); });
"""}


@pytest.mark.parametrize("file", FAILS)
def test_what_fails_in_a_process_is_noted_with_its_place(home, file):
    path = str(put(home, file, FAILS[file]))
    home.ok("reload")
    for what, line, args in (("tool 't1'", 3, ["tool", "run", "t1", "{}"]), ("route 'GET /r'", 6, ["api", "GET", "/api/plugins/f/r"]),
                             ("event 'user.go'", 9, ["events", "emit", "user.go", "{}"])):
        home.cli(*args)
        last = retry(lambda: (d := row(home, "f")["last_error"]) and d["hook"] == what and d)
        assert (last["path"], last["line"], last["code"]) == (path, line, "HOOK_FAILED") and "boom" in last["message"], last
        event = home.ok("events", "--types", "plugin.error").splitlines()[-1]
        assert f'hook="{what}"' in event and f"line={line}" in event, event
        logs = re.split(r"\n(?=\S)", home.ok("plugin", "logs", "f"))  # the lines of a traceback are indented
        assert len([text for text in logs if "boom" in text and f"{path}:{line}" in text]) == 1, logs
    assert len([text for text in logs if "boom" in text]) == 3, logs


def test_an_answer_of_a_process_that_cannot_be_used_is_noted(home):
    put(home, "f.py", "@route('GET', '/r')\ndef r(req): return response(status=9999)\n")
    home.ok("reload")
    home.cli("api", "GET", "/api/plugins/f/r")
    last = row(home, "f")["last_error"]
    assert last["hook"] == "route 'GET /r'" and "9999" in last["message"], last


def test_a_host_that_hangs_is_ended_and_started_again(bad):
    def limit():
        return next(v["value"] for v in bad.json("config", "show")["values"] if v["key"] == "limits.tool_ms")
    (bad.dir / "config.toml").write_text("[limits]\ntool_ms = 300\n")
    retry(lambda: limit() == 300)
    pids = hosts(bad, "bad")
    assert bad.http("GET", "/api/plugins/bad/loops").status == 504
    (bad.dir / "config.toml").write_text("")  # a second time out in a minute would be the last
    retry(lambda: limit() > 300)
    retry(lambda: all(is_gone(pid) for pid in pids))
    retry(lambda: bad.cli("bad:fine").stdout.strip() == "fine")


def test_a_file_that_hangs_or_leaves_while_it_loads_fails(home):
    put(home, "leaves.py", "import os\nos._exit(4)\n")
    put(home, "exits.py", "import sys\nsys.exit(5)\n")
    put(home, "old.py", '__plugin__ = {"api": "2.0"}\n')
    put(home, "late.py", "@on_begin\ndef x(ctx): pass\n@on_begim\ndef y(ctx): pass\n")
    put(home, "twice.py", "@tool\ndef a(ctx): pass\n@tool\ndef a(ctx): pass\n")
    put(home, "schema.py", "@tool(input={'n': 'integr'})\ndef a(ctx, input): pass\n")
    report = json.loads(home.cli("reload", "--json").stdout)
    told = {d["plugin"]: d for d in report["diagnostics"]}
    assert "exited with 4" in told["leaves"]["message"] and told["leaves"]["code"] == "HOST_CRASHED"
    assert "exit" in told["exits"]["message"]
    assert told["old"]["message"] == "Incompatible plugin API version: 2.0 (expected 1.0)"
    assert told["late"]["line"] == 3 and "on_begim" in told["late"]["message"]
    assert told["twice"]["line"] in (3, 4) and "registered twice" in told["twice"]["message"]
    assert told["schema"]["line"] == 1 and "did you mean 'integer'" in told["schema"]["message"]


def test_memory_of_a_host_is_limited(home):
    (home.dir / "config.toml").write_text("[limits]\nhost_mb = 100\n")
    put(home, "fat.py", "@command\ndef eat(args):\n    return len(bytearray(200 << 20))\n")
    home.ok("reload")
    assert "MemoryError" in home.cli("fat:eat").stderr
    put(home, "fat.py", "x = bytearray(200 << 20)\n")
    told = json.loads(home.cli("reload", "--json").stdout)["diagnostics"]
    assert told[0]["code"] == "MEMORY_LIMIT", told


# ---- validate, save, new, test --------------------------------------------------------------------

def call(home, method, path, body):
    answer = home.http(method, path, json.dumps(body).encode())
    return answer.status, answer.json()


@pytest.mark.parametrize("lang, code, line", [
    ("lua", "local a = 1\nerror('x')", 2), ("lua", "\n\nlocal = 1", 3), ("python", "a = 1\nraise ValueError('x')", 2),
    ("python", "a = 1\n\ndef (", 3), ("node", "const a = 1;\nthrow new Error('x');", 2), ("node", "const a = 1;\n\nfunction (", 3),
    ("c", "int a;\nint b = ;", 2)])
def test_a_text_that_is_not_valid_is_told_with_its_line(home, hub, lang, code, line):
    status, got = call(home, "POST", "/plugin/validate", {"name": "bad", "content": code, "lang": lang})
    ending = {"python": "py", "node": "mjs"}.get(lang, lang)
    assert status == 400 and got["detail"].startswith(f"Invalid plugin code: bad.{ending}:{line}: "), got


def test_python_is_validated_and_saved_as_the_seed_says(home, hub):
    code = "@on_begin\nasync def init(ctx): pass"
    assert call(home, "POST", "/plugin/validate", {"name": "test_plugin", "content": code}) == (
        200, {**call(home, "POST", "/plugin/validate", {"name": "test_plugin", "content": code})[1],
              "name": "test_plugin", "hooks": ["on_begin"], "metadata": {"api": "1.0", "name": "test_plugin"}})
    status, got = call(home, "POST", "/plugin/validate", {"name": "bad", "content": "@on_begin\nasync def (ctx): pass"})
    assert status == 400 and got["detail"].startswith("Invalid plugin code: bad.py:2: SyntaxError"), got
    status, got = call(home, "POST", "/plugin/save", {"name": "made", "content": code})
    assert status == 200 and got["path"] == str(home.dir / "plugins/made.py")
    assert row(home, "made")["hooks"] == ["on_begin"]
    status, got = call(home, "POST", "/plugin/save", {"name": "made", "content": "def x(:\n", "lang": "python"})
    assert status == 400 and (home.dir / "plugins/made.py").read_text() == code
    status, got = call(home, "POST", "/plugin/save", {"name": "made", "content": "x = 1", "lang": "lua"})
    assert status == 400 and "written in python" in got["detail"]


ALL_POINTS = {
    "all.lua": lambda p: f"{p}(function() end)",
    "all.py": lambda p: f"@{p}\ndef f_{p}(*args): pass",
    "all.mjs": lambda p: f"{p}(() => {{}});",
    "all.c": lambda p: f"void {p}(struct afloat_call *c) {{ (void)c; }}",
}


@pytest.mark.parametrize("file", list(ALL_POINTS))
def test_every_language_offers_every_row_of_the_table_of_hook_points(home, hub, tmp_path, file):
    rows = (ROOT / "src/hook/points.def").read_text()
    points = re.findall(r'^POINT\(\w+,\s*"(\w+)"', rows, re.M)
    begin = '#include <afloat/plugin.h>\nAFLOAT_PLUGIN(.name = "all")\n' if file == "all.c" else ""
    (tmp_path / file).write_text(begin + "\n".join(ALL_POINTS[file](p) for p in reversed(points)) + "\n")
    got = json.loads(home.ok("plugin", "validate", str(tmp_path / file), "--json"))
    assert len(points) > 12 and got["hooks"] == points


def test_a_validation_changes_nothing_and_reaches_nothing(home, hub, tmp_path):
    mark = tmp_path / "mark"
    mark.write_text("before")
    code = f'''
import os, socket
problems = []
for what in (lambda: open({str(mark)!r}, "w"), lambda: os.remove({str(mark)!r}),
             lambda: open({str(home.dir / "token")!r}), lambda: socket.create_connection(("127.0.0.1", 1)),
             lambda: hub.plugin.list()):
    try:
        what()
        problems.append(what)
    except Exception:
        pass
assert len(problems) == 0, problems
on_begin(lambda ctx: None)
'''
    status, got = call(home, "POST", "/plugin/validate", {"name": "probe", "content": code})
    assert status == 200, got
    assert mark.read_text() == "before"


@pytest.mark.parametrize("lang", list(LANGUAGES))
@pytest.mark.parametrize("dir", [(), ("--dir",)])
def test_a_new_plugin_loads_and_passes_its_tests(home, hub, lang, dir):
    path = home.ok("plugin", "new", "fresh", "--lang", lang, *dir).strip()
    assert path == str(home.dir / "plugins" / ("fresh" if dir else f"fresh{LANGUAGES[lang]}"))
    home.ok("plugin", "test", "fresh")
    assert home.ok("tool", "run", "fresh_greet", '{"name": "Ada"}').strip() == "Hello, Ada!"
    assert home.ok("fresh:hello", "Ada").strip() == "Hello, Ada!"
    home.ok("feature", "enable", "fresh:loud")
    assert home.http("GET", "/api/plugins/fresh/hello/Ada").json() == {"text": "HELLO, ADA!"}
    assert home.cli("plugin", "new", "fresh").returncode == 7


@pytest.mark.parametrize("file, text", [
    ("a.py", "x = 1\n"), ("a.mjs", "const x = 1;\n"), ("a.c", "#include <afloat/plugin.h>\nAFLOAT_PLUGIN()\n"), ("a.lua", "x = 1\n")])
def test_the_ending_of_a_saved_file_says_its_language(home, hub, tmp_path, file, text):
    (tmp_path / file).write_text(text)
    home.ok("plugin", "save", "kept", str(tmp_path / file))
    assert (home.dir / "plugins" / file.replace("a.", "kept.")).read_text() == text
    assert row(home, "kept")["state"] == "loaded"


def test_state_that_is_set_while_a_plugin_loads_is_bounded(home, start_hub):
    """18 MB of values, in two pieces: more in a second is a flood. Past the library, which says all when it has loaded."""
    start_hub()
    put(home, "fat.py", """import json, os, time
for i in range(18):
    line = json.dumps({"type": "state", "key": f"k{i}", "value": "x" * 1000000}).encode() + b"\\n"
    while line:
        line = line[os.write(3, line):]
    time.sleep(1.1 if i == 8 else 0)
""")
    # on a busy machine the first process may be too slow
    retry(lambda: home.http("GET", "/plugin/fat").json().get("state") == "loaded" or not home.cli("reload", "--force", "fat"))
    assert "all of them than 16 MiB" in home.ok("plugin", "logs", "fat")


def test_a_failing_test_of_a_python_plugin_is_told_with_its_line(home, hub):
    path = put(home, "t.py", "def test_ok():\n    pass\n\n\ndef test_bad(t):\n    t.equal(1, 2)\n")
    done = home.cli("plugin", "test", str(path))
    assert done.returncode == 1 and "t.py:6" in done.stdout and "1, wanted 2" in done.stdout


# ---- Python's own ways ----------------------------------------------------------------------------

def test_a_plugin_that_imports_asyncio_waits_without_holding_up_its_hooks(home):
    put(home, "waits.py", '''
import asyncio

@command
async def together(args):
    n = await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(3)))
    return n

@command
async def long(args):
    await asyncio.sleep(8)

@on_final
async def final(ctx, text):
    await asyncio.sleep(0.01)
    return text + " later"

ticks = []
timer.every(0.02, lambda: ticks.append(1))

@command
def count(args):
    return len(ticks)
'''.lstrip())
    home.ok("reload")
    assert home.json("waits:together")["output"] == [0, 1, 2]
    waiting = home.popen("waits:long")
    assert home.ok("chat", "go", env=scenario(home, {"text": "Done."})).strip() == "Done. later"
    retry(lambda: home.json("waits:count")["output"] > 2)
    waiting.kill()


def test_files_of_a_directory_are_imported_from_what_was_hashed(home):
    put(home, "many/init.py", "import lib.deep as deep\nfrom util import name\n"
                              "@command\ndef say(args): return [name, deep.value, __file__]\n")
    put(home, "many/util.py", "name = 'util'\n")
    put(home, "many/lib/__init__.py", "")
    put(home, "many/lib/deep.py", "value = 1\n")
    home.ok("reload")
    assert home.json("many:say")["output"] == ["util", 1, str(home.dir / "plugins/many/init.py")]
    put(home, "many/lib/deep.py", "value = 2\n")
    retry(lambda: home.json("many:say")["output"][1] == 2)
    put(home, "many/lib/deep.py", "value = \n")
    retry(lambda: row(home, "many")["state"] == "failed")
    d = row(home, "many")["diagnostics"][0]
    assert d["path"].endswith("many/lib/deep.py") and d["line"] == 1
    assert home.json("many:say")["output"][1] == 2


def test_sync_tools_run_beside_each_other_and_beside_hooks(home):
    put(home, "slow.py", '''
import threading
gate = threading.Event()

@command
def wait(args):
    return gate.wait(20)

@command
def open_it(args):
    gate.set()
'''.lstrip())
    home.ok("reload")
    waiting = home.popen("slow:wait")
    retry(lambda: row(home, "slow")["stats"] is not None)
    home.ok("slow:open-it")
    assert waiting.communicate(timeout=20)[0].strip() == b"true"


def test_an_undone_python_plugin_serves_its_old_version(home):
    put(home, "v.py", "@command\ndef v(args): return 1\n")
    home.ok("reload")
    put(home, "v.py", "@command\ndef v(args): return 2\n")
    home.ok("reload")
    assert home.ok("v:v").strip() == "2"
    home.ok("undo")
    assert home.ok("v:v").strip() == "1"
    home.ok("stop", "--wait")
    assert home.ok("v:v").strip() == "1"
    assert row(home, "v")["state"] == "held"


def test_a_broken_file_at_start_serves_the_last_good_version(home):
    put(home, "g.py", "@command\ndef v(args): return 1\n")
    home.ok("reload")
    assert home.ok("g:v").strip() == "1"
    home.ok("stop", "--wait")
    put(home, "g.py", "def (\n")
    assert home.ok("g:v").strip() == "1"
    assert row(home, "g")["state"] == "failed" and row(home, "g")["serving"]


# ---- JavaScript's own ways ------------------------------------------------------------------------

def test_modules_packages_and_data_of_a_directory_in_javascript(home):
    put(home, "many/init.mjs", 'import { name } from "./lib/util.mjs";\nimport data from "./data.json";\nimport path from "node:path";\n'
                               'import { extra } from "dep";\n'
                               'command({ name: "say", run: async () => [name, data.n, path.basename("/a/b"), extra,\n'
                               '  (await import("./lib/late.mjs")).late, import.meta.url] });\n')
    put(home, "many/lib/util.mjs", 'export const name = "util";\n')
    put(home, "many/lib/late.mjs", 'export const late = "late";\n')
    put(home, "many/data.json", '{"n": 3}\n')
    put(home, "many/node_modules/dep/package.json", '{"name": "dep", "type": "module", "main": "index.js"}\n')
    put(home, "many/node_modules/dep/index.js", 'export const extra = "dep";\n')
    home.ok("reload")
    url = "file://" + str(home.dir / "plugins/many/init.mjs")
    assert home.json("many:say")["output"] == ["util", 3, "b", "dep", "late", url]
    put(home, "many/lib/util.mjs", 'export const name = = 1;\n')
    retry(lambda: row(home, "many")["state"] == "failed")
    d = row(home, "many")["diagnostics"][0]
    assert d["path"].endswith("many/lib/util.mjs") and d["line"] == 1 and "SyntaxError" in d["message"], d
    put(home, "many/lib/util.mjs", 'import "absent-package";\nexport const name = 1;\n')
    retry(lambda: "absent-package" in json.dumps(row(home, "many")["diagnostics"]))
    assert home.json("many:say")["output"][0] == "util"


def test_a_default_export_is_registered_part_by_part(home):
    put(home, "table.mjs", """
export default {
  api: "1.0", name: "table",
  hooks: { on_final: (ctx, text) => text + " table", onDone: () => {} },
  tools: { add: { description: "adds", input: { a: "integer", b: "integer" }, run: (ctx, i) => i.a + i.b } },
  routes: { "GET /x": () => ({ x: 1 }) },
  commands: { hi: () => "hi" },
  prompt: "Be brief.",
};
""")
    home.ok("reload")
    shown = row(home, "table")
    assert shown["hooks"] == ["on_final", "on_done"] and shown["tools"] == ["add"] and shown["commands"] == ["hi"]
    assert home.ok("tool", "run", "add", '{"a": 2, "b": 3}').strip() == "5"
    put(home, "table.mjs", "export default { hooks: { on_finl: () => {} } };\n")
    assert "did you mean 'on_final'" in home.cli("reload").stdout


PI = """
export default function (pi) {
  pi.registerFlag("strict", { type: "boolean", default: false, description: "be strict" });
  pi.registerTool({
    name: "hello", label: "Hello", description: "A greeting tool",
    parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    async execute(toolCallId, params, signal, onUpdate, ctx) {
      onUpdate?.({ content: [{ type: "text", text: "greeting" }] });
      return { content: [{ type: "text", text: `Hello, ${params.name}! ${pi.getFlag("strict")}` }], details: {} };
    },
  });
  pi.registerCommand("stats", { description: "say it", handler: async (args, ctx) => { ctx.ui.notify(`stats ${args}`, "info"); return "ok"; } });
  pi.on("session_start", async (event, ctx) => ctx.ui.notify(`started ${event.reason}`, "info"));
  pi.on("input", async (event) => ({ action: "transform", text: event.text + " (from pi)" }));
  pi.on("before_agent_start", async (event) => ({ systemPrompt: event.systemPrompt + "\\nPIRATE" }));
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName !== "shell") return;
    if (event.input.cmd.includes("rm -rf")) return { block: true, reason: "Dangerous command" };
    event.input.cmd = event.input.cmd.replace("one", "two");
  });
  pi.on("tool_result", async (event) => ({ content: [{ type: "text", text: event.content[0].text.trim() + " seen" }] }));
}
"""


def test_an_extension_written_for_pi_runs(home):
    put(home, "pirate.mjs", PI)
    home.ok("reload")
    assert row(home, "pirate")["state"] == "loaded", row(home, "pirate")
    assert home.ok("tool", "run", "hello", '{"name": "Ada"}').strip() == "Hello, Ada! false seen"
    assert home.ok("pirate:stats", "a", "b").strip() == "ok"
    env = scenario(home, {"text": "Look.", "tool_calls": [{"name": "shell", "input": {"cmd": "echo one"}},
                                                          {"name": "shell", "input": {"cmd": "rm -rf /"}}]}, {"text": "Done."})
    got = home.json("api", "POST", "/session", '{"plugins": ["pirate"]}', env=env)
    home.json("api", "POST", f"/session/{got['id']}/message", json.dumps({"text": "go", "wait": True, "env": env}))
    done = json.dumps(events_of(home, got["id"], "tool.completed"))
    assert "two seen" in done and "Dangerous command" in done
    requests = next(home.dir.glob(f"sessions/{got['id']}*/requests.jsonl")).read_text()
    assert "go (from pi)" in requests and "PIRATE" in requests
    retry(lambda: all(s in home.ok("plugin", "logs", "pirate") for s in ("stats a b", "started startup")))


@pytest.mark.parametrize("line, why", [
    ('pi.registerShortcut("ctrl+x", {});', "Pi's registerShortcut is not available in Afloat"),
    ('pi.on("model_select", () => {});', "Pi's event 'model_select' is not available in Afloat"),
    ('pi.on("tool_cal", () => {});', "did you mean 'tool_call'"),
    ('pi.sendUserMessage("x");', "use hub.session.message")])
def test_what_pi_has_and_afloat_has_not_is_refused_by_name(home, line, why):
    path = put(home, "pi.mjs", f"export default function (pi) {{\n  {line}\n}}\n")
    told = json.loads(home.cli("reload", "--json").stdout)["diagnostics"]
    assert why in told[0]["message"] and told[0]["line"] == 2 and told[0]["path"] == str(path), told


TYPED = """
interface Greeting { text: string }
type Name = string | undefined;

export const plugin: { api: string } = { api: "1.0" };
function greet(name: Name): Greeting {
  return { text: `Hello, ${name ?? "world"}!` };
}
command({ name: "hello", run: (args: string[]) => greet(args[0] as Name).text });
"""


def test_typescript_is_stripped_by_esbuild_and_told_with_its_own_lines(home):
    esbuild = next((p for p in (ROOT / "web/node_modules/.bin/esbuild", pathlib.Path(shutil.which("esbuild") or "/none"))
                    if p.exists()), None)
    if esbuild is None:
        pytest.skip("no esbuild here: make builds it with the web page")
    home.env["PATH"] = f"{esbuild.parent}:{home.env['PATH']}"
    put(home, "typed.ts", TYPED)
    home.ok("reload")
    assert row(home, "typed")["host"] == "node" and home.ok("typed:hello", "Ada").strip() == "Hello, Ada!"
    path = put(home, "typed.ts", TYPED + "const later: number = 1;\nthrow new Error('here');\n")
    told = json.loads(home.cli("reload", "--json").stdout)["diagnostics"]
    assert told[0]["line"] == len(TYPED.splitlines()) + 2 and told[0]["path"] == str(path), told
    put(home, "typed.ts", TYPED + "const x: = 1;\n")
    told = json.loads(home.cli("reload", "--json").stdout)["diagnostics"]
    assert told[0]["line"] == len(TYPED.splitlines()) + 1, told
    assert home.ok("typed:hello").strip() == "Hello, world!"


def test_typescript_without_a_way_to_strip_it_says_what_to_install(home):
    version = subprocess.run(["/usr/bin/node", "--version"], capture_output=True, text=True).stdout
    if [int(n) for n in version.strip("v\n").split(".")][:2] >= [22, 13]:
        pytest.skip("this Node strips types itself")
    home.env["PATH"] = "/usr/bin:/bin"
    if shutil.which("esbuild", path=home.env["PATH"]):
        pytest.skip("esbuild is installed for everybody here")
    put(home, "typed.ts", TYPED)
    told = json.loads(home.cli("reload", "--json").stdout)["diagnostics"]
    assert "install esbuild" in told[0]["message"], told


# ---- C's own ways ---------------------------------------------------------------------------------

C_EVERY = r"""
#include <afloat/plugin.h>
#include <stdio.h>
#include <string.h>

void on_begin(struct afloat_call *c)
{
    afloat_set(c, "ctx.state.seen", "[]");
    afloat_set_text(c, "ctx.memory.0", "Remember the milk.");
}
void on_user_message(struct afloat_call *c) { afloat_answer_text(c, "%s!", afloat_text(c, "text")); }
void on_tool_call(struct afloat_call *c)
{
    if (afloat_text(c, "call.input.cmd") == NULL) {
        return;
    }
    afloat_set_text(c, "ctx.state.seen.999", afloat_text(c, "call.input.cmd"));
    if (strcmp(afloat_text(c, "call.input.cmd"), "echo one") == 0) {
        afloat_set_text(c, "call.input.cmd", "echo two");
    }
}
void on_permission(struct afloat_call *c)
{
    const char *cmd = afloat_text(c, "call.input.cmd");
    if (cmd != NULL && strstr(cmd, "forbidden") != NULL) {
        afloat_answer_json(c, "[\"deny\", \"not here\"]");
    }
}
void on_tool_result(struct afloat_call *c)
{
    char text[64];
    snprintf(text, sizeof text, "seen %.3s", afloat_text(c, "result.output"));
    afloat_set_text(c, "result.output", text);
}
void on_final(struct afloat_call *c)
{
    afloat_answer_text(c, "%s with %s", afloat_text(c, "text"), afloat_json(c, "ctx.state.seen"));
}
void plugin_start(struct afloat_call *c) { afloat_log("info", "start %s", afloat_text(c, "event.reason")); }
void plugin_shutdown(struct afloat_call *c) { afloat_log("info", "stop %s", afloat_text(c, "event.reason")); }

static void count(struct afloat_call *c)
{
    char params[64];
    const char *now = afloat_ask(c, "state.get", "{\"key\": \"n\"}");
    int n = 0;
    sscanf(now, "%d", &n);
    snprintf(params, sizeof params, "{\"key\": \"n\", \"value\": %d}", n + 1);
    afloat_ask(c, "state.set", params);
    afloat_ask(c, "store.set", params);
    afloat_answer_json(c, "{\"state\": %d, \"store\": %s, \"args\": %s, \"version\": %d}", n + 1,
        afloat_ask(c, "store.get", "{\"key\": \"n\"}"), afloat_json(c, "args"), VERSION);
}
static void heard(struct afloat_call *c) { afloat_log("info", "heard %lld", afloat_int(c, "event.data.n", 0)); }
static void emit(struct afloat_call *c) { afloat_ask(c, "event.emit", "{\"type\": \"user.x\", \"data\": {\"n\": 7}}"); }
static void dice(struct afloat_call *c)
{
    afloat_progress(c, "rolling");
    if (afloat_int(c, "input.sides", 0) == 0) {
        afloat_fail(c, "no sides");
        return;
    }
    afloat_answer_text(c, "%s%lld", afloat_text(c, "input.label"), afloat_int(c, "input.sides", 0));
}
static void live(struct afloat_call *c) { afloat_answer_text(c, "Directory %s", afloat_text(c, "ctx.working_dir")); }
static void echo(struct afloat_call *c)
{
    afloat_set(c, "out", "{\"status\": 201, \"headers\": {\"X-Seen\": \"yes\"}}");
    afloat_set_text(c, "out.body", afloat_text(c, "req.body"));
    afloat_answer_json(c, "%s", afloat_json(c, "out"));
}

AFLOAT_PLUGIN(.name = "cee", .description = "one of everything",
    .tools = (const struct afloat_tool[]){{.name = "dice", .description = "roll a die", .run = dice,
        .input = "{\"sides\": \"integer\", \"label\": {\"type\": \"string\", \"default\": \"d\"}}"}, {0}},
    .commands = (const struct afloat_command[]){{"count", "counts", count}, {"emit", "", emit}, {0}},
    .routes = (const struct afloat_route[]){{"POST", "/echo", echo}, {0}},
    .prompts = (const struct afloat_prompt[]){{.id = "small", .text = "Prefer small commits."}, {.id = "live", .run = live}, {0}},
    .events = (const struct afloat_event[]){{"user.x", heard}, {0}})
""".lstrip()


def test_a_plugin_in_c_has_hooks_tools_routes_commands_prompts_events_and_state(home):
    put(home, "cee.c", "#define VERSION 1\n" + C_EVERY)
    home.ok("reload")
    shown = row(home, "cee")
    assert shown["state"] == "loaded" and shown["host"] == "c" and shown["tools"] == ["dice"], shown
    assert shown["hooks"] == ["on_begin", "on_user_message", "on_tool_call", "on_permission", "on_tool_result", "on_final"]
    assert home.ok("tool", "run", "dice", '{"sides": 6}').strip() == "seen d6"
    assert "no sides" in home.cli("tool", "run", "dice", '{"sides": 0}').stderr
    assert "must be an integer" in home.cli("tool", "run", "dice", '{"sides": "x"}').stderr
    answer = home.http("POST", "/api/plugins/cee/echo", b'"body"')
    assert answer.status == 201 and answer.headers["x-seen"] == "yes" and answer.body == b'"body"'
    assert home.json("cee:count", "a")["output"] == {"state": 1, "store": 1, "args": ["a"], "version": 1}
    home.ok("cee:emit")
    retry(lambda: "heard 7" in home.ok("plugin", "logs", "cee"))
    put(home, "cee.c", "#define VERSION 2\n" + C_EVERY)
    home.ok("reload")
    assert home.json("cee:count")["output"] == {"state": 2, "store": 2, "args": [], "version": 2}
    retry(lambda: all(s in home.ok("plugin", "logs", "cee") for s in ("start start", "stop reload", "start reload")))
    env = scenario(home, {"text": "Look.", "tool_calls": [{"name": "shell", "input": {"cmd": "echo one"}},
                                                          {"name": "shell", "input": {"cmd": "echo forbidden"}}]},
                   {"text": "Done."})
    got = home.json("api", "POST", "/session", '{"plugins": ["cee"]}', env=env)
    turn = home.json("api", "POST", f"/session/{got['id']}/message", json.dumps({"text": "go", "wait": True, "env": env}))
    assert turn["text"] == 'Done. with ["echo one","echo forbidden"]', turn
    done = json.dumps(events_of(home, got["id"], "tool.completed"))
    assert "seen two" in done and "not here" in done
    requests = next(home.dir.glob(f"sessions/{got['id']}*/requests.jsonl")).read_text()
    for text in ("Prefer small commits.", "Directory ", "Remember the milk.", "go!"):
        assert text in requests, text


def test_what_the_compiler_says_is_told_with_file_and_line_and_a_library_is_made_once(home):
    put(home, "many/init.c", '#include <afloat/plugin.h>\n#include "lib/deep.h"\n'
                             'static void v(struct afloat_call *c) { afloat_answer_json(c, "%d", deep()); }\n'
                             'AFLOAT_PLUGIN(.commands = (const struct afloat_command[]){{"v", "", v}, {0}})\n')
    put(home, "many/lib/deep.h", "int deep(void);\n")
    put(home, "many/lib/deep.c", '#include "deep.h"\nint deep(void) { int unused; return 1; }\n')
    home.ok("reload")
    assert home.json("many:v")["output"] == 1
    assert "unused" in home.ok("plugin", "logs", "many")

    def libraries():
        return {p.name: p.stat().st_ino for p in (home.dir / "state/hosts").glob("c-many-*.so")}
    made = libraries()
    home.ok("reload", "--force", "many")
    home.ok("stop", "--wait")
    assert home.json("many:v")["output"] == 1
    assert libraries() == made and len(made) == 1
    put(home, "many/lib/deep.c", '#include "deep.h"\nint deep(void) { return none; }\n')
    report = json.loads(home.cli("reload", "--json").stdout)
    d = next(d for d in report["diagnostics"] if d["plugin"] == "many")
    assert d["path"] == str(home.dir / "plugins/many/lib/deep.c") and d["line"] == 2 and "none" in d["message"], d
    assert home.json("many:v")["output"] == 1
    put(home, "many/lib/deep.c", "int x;\n")
    assert "deep" in json.dumps(json.loads(home.cli("reload", "--json").stdout)["diagnostics"])


def test_a_crash_in_c_is_told_with_signal_function_and_line(home):
    put(home, "crash.c", '#include <afloat/plugin.h>\nstatic int inner(volatile int *p)\n{\n    return *p;\n}\n'
                         'static void die(struct afloat_call *c)\n{\n    (void)c;\n    afloat_log("info", "%d", inner(0));\n}\n'
                         'AFLOAT_PLUGIN(.commands = (const struct afloat_command[]){{"die", "", die}, {0}})\n')
    home.ok("reload")
    assert home.cli("crash:die").returncode != 0
    d = retry(lambda: [d for d in row(home, "crash")["diagnostics"] if d["code"] == "HOST_CRASHED"])[0]
    assert "signal 11" in d["message"], d
    assert "crash.c:4" in d["message"] or "crash.c:9" in d["message"], d


# ---- in the middle of a turn ----------------------------------------------------------------------

@pytest.mark.parametrize("point, success, output", [("on_permission", False, ""), ("on_tool_result", True, "ran\n")])
def test_a_host_that_is_killed_inside_a_hook_denies_a_veto_and_leaves_a_chain_as_it_was(home, point, success, output):
    inside = home.dir / "inside"
    args = "ctx, call" if point == "on_permission" else "ctx, call, result"
    put(home, "slow.py", f"import time\n@{point}(timeout_ms=20000)\ndef slow({args}):\n"
                         f"    open({str(inside)!r}, 'w').close()\n    time.sleep(20)\n")
    home.ok("reload")
    env = scenario(home, {"text": "Look.", "tool_calls": [{"name": "shell", "input": {"cmd": "echo ran"}}]}, {"text": "Done."})
    got = home.json("api", "POST", "/session", '{"plugins": ["slow"]}', env=env)
    turn = home.popen("api", "POST", f"/session/{got['id']}/message", json.dumps({"text": "go", "wait": True, "env": env}))
    retry(inside.exists)
    for pid in hosts(home, "slow"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    answer = json.loads(turn.communicate(timeout=60)[0])
    assert answer["state"] == "completed" and answer["text"] == "Done.", answer
    done = events_of(home, got["id"], "tool.completed")[0]
    assert done["success"] is success and done["output"] == output, done
    retry(lambda: row(home, "slow")["serving"] and hosts(home, "slow"))


# ---- what MCP clients see, and timers -------------------------------------------------------------

MCP = {
    "python": ("offers.py", '''
@mcp.prompt(arguments=["who", {"name": "tone", "required": True}])
def greet(arguments, ctx):
    """Greet somebody."""
    return "hello " + arguments["who"]

@mcp.resource("notes://today", mime="text/plain")
def today(uri):
    return "at " + uri

@mcp.resource(uri_template="notes://{day}/x", name="day")
def day(uri, params):
    return params["day"]
'''),
    "node": ("offers.mjs", '''
mcp.prompt({ name: "greet", description: "Greet somebody.", arguments: ["who", { name: "tone", required: true }], get: a => "hello " + a.who });
mcp.resource({ uri: "notes://today", name: "today", mime: "text/plain", read: uri => "at " + uri });
mcp.resource({ uri_template: "notes://{day}/x", name: "day", read: (uri, params) => params.day });
'''),
    "c": ("offers.c", r'''
#include <afloat/plugin.h>
static void greet(struct afloat_call *c) { afloat_answer_text(c, "hello %s", afloat_text(c, "arguments.who")); }
static void today(struct afloat_call *c) { afloat_answer_text(c, "at %s", afloat_text(c, "uri")); }
static void day(struct afloat_call *c) { afloat_answer_text(c, "%s", afloat_text(c, "params.day")); }
static int n;
static void tick(struct afloat_call *c)
{
    (void)c;
    if (++n == 3) {
        afloat_log("info", "ticked %d times", n);
    }
}
AFLOAT_PLUGIN(.name = "offers",
    .mcp_prompts = (const struct afloat_mcp_prompt[]){{.name = "greet", .description = "Greet somebody.",
        .arguments = "[\"who\", {\"name\": \"tone\", \"required\": true}]", .run = greet}, {0}},
    .mcp_resources = (const struct afloat_mcp_resource[]){{.uri = "notes://today", .name = "today", .mime = "text/plain", .run = today},
        {.uri = "notes://{day}/x", .name = "day", .run = day}, {0}},
    .timers = (const struct afloat_timer[]){{.name = "tick", .every_ms = 10, .run = tick}, {0}})
'''),
}


@pytest.mark.parametrize("language", MCP)
def test_prompts_and_resources_reach_mcp_clients_from_every_language(home, hub, language):
    put(home, *MCP[language])
    assert home.json("reload")["ok"]
    client = Legacy(home)
    (prompt,) = client.result("prompts/list")["prompts"]
    assert prompt["name"] == "greet" and prompt["description"] == "Greet somebody."
    assert [(a["name"], a["required"]) for a in prompt["arguments"]] == [("who", False), ("tone", True)]
    got = client.result("prompts/get", name="greet", arguments={"who": "you", "tone": "kind"})
    assert got["messages"][0]["content"]["text"] == "hello you"
    assert [r["uri"] for r in client.result("resources/list")["resources"]] == ["notes://today"]
    read = client.result("resources/read", uri="notes://today")["contents"][0]
    assert (read["text"], read["mimeType"]) == ("at notes://today", "text/plain")
    assert client.result("resources/read", uri="notes://monday/x")["contents"][0]["text"] == "monday"
    assert {"mcp_prompt", "mcp_resource"} <= {o["kind"] for o in row(home, "offers")["outputs"]}


def test_timers_in_c_run_while_the_plugin_serves(home, hub):
    put(home, *MCP["c"])
    assert home.json("reload")["ok"]
    retry(lambda: "ticked 3 times" in home.ok("plugin", "logs", "offers"))
    before = hosts(home, "offers")
    put(home, "offers.c", MCP["c"][1].replace("ticked", "tocked"))
    assert home.json("reload")["ok"]
    retry(lambda: "tocked 3 times" in home.ok("plugin", "logs", "offers"))
    retry(lambda: not set(before) & set(hosts(home, "offers")))


# ---- mistakes that would change nothing without a word ---------------------------------------------

FORGETFUL = {
    "python": ("forgetful.py", "\n@on_tool_call\ndef forget(ctx, call):\n    call.input['path'] = 'other'\n", 2),
    "node": ("forgetful.mjs", "\non_tool_call((ctx, call) => { call.input.path = 'other'; });\n", 2),
}


@pytest.mark.parametrize("language", FORGETFUL)
def test_a_change_that_is_not_returned_is_said_once(home, hub, language):
    file, text, line = FORGETFUL[language]
    put(home, file, text)
    put(home, "quick.lua", "tool { name = 'quick', run = function(_, input) return input.path or 'as it was' end }")
    assert home.json("reload")["ok"]
    for _ in range(3):
        assert home.json("api", "POST", "/tool/quick", '{"input": {}}')["output"] == "as it was"
    (told,) = [d for d in row(home, "forgetful")["diagnostics"] if d["code"] == "CHANGE_DROPPED"]
    assert told["message"] == "changed `call` but returned nothing: add `return call`" and told["severity"] == "warning"
    assert told["path"].endswith(file) and told["line"] == line
    put(home, file, {"python": "@on_tool_call\ndef keep(ctx, call):\n    pass\n", "node": "on_tool_call(() => {});\n"}[language])
    assert home.json("reload")["ok"]
    assert home.json("api", "POST", "/tool/quick", '{"input": {}}')["output"] == "as it was"
    assert not [d for d in row(home, "forgetful")["diagnostics"] if d["code"] == "CHANGE_DROPPED"]


def test_a_python_hook_that_hangs_is_interrupted_also_after_many_quick_ones(home, start_hub):
    (home.dir / "config.toml").write_text("[limits]\nhook_ms = 200\n")
    start_hub()
    put(home, "slow.py", """
@on_tool_call
def wait(ctx, call):
    while call.input.get("hang"):
        pass
""")
    put(home, "quick.lua", "tool { name = 'quick', run = function() return 'x' end }")
    assert home.json("reload")["ok"]
    pids = hosts(home, "slow")
    for _ in range(30):
        assert home.json("api", "POST", "/tool/quick", '{"input": {}}')["output"] == "x"
    for _ in range(2):
        assert home.json("api", "POST", "/tool/quick", '{"input": {"hang": true}}')["output"] == "x"
    assert home.json("api", "POST", "/tool/quick", '{"input": {}}')["output"] == "x"
    assert hosts(home, "slow") == pids  # its loop was broken, not its process
    assert [d["code"] for d in row(home, "slow")["diagnostics"]].count("HOOK_TIMEOUT") >= 1


# ---- registering later -----------------------------------------------------------------------------

LATER = {
    "python": ("later.py", '''
@tool
def more(ctx, name: str):
    """Add a tool and a hook."""
    tool(name=name, description="added")(lambda ctx, input: "from " + name)
    on("tool_result", lambda ctx, call, result: {**result._members(), "output": result.output + "!"})
    return "added"
'''),
    "node": ("later.mjs", '''
tool({ name: "more", input: { name: "string" }, run(ctx, { name }) {
  tool({ name, description: "added", run: () => "from " + name });
  on_tool_result((ctx, call, result) => ({ ...result, output: result.output + "!" }));
  return "added";
} });
'''),
    "c": ("later.c", r'''
#include <afloat/plugin.h>
static void from(struct afloat_call *c) { afloat_answer_text(c, "from extra"); }
static void shout(struct afloat_call *c)
{
    const char *output = afloat_text(c, "result.output");
    char text[200];
    __builtin_snprintf(text, sizeof text, "%s!", output);
    afloat_set_text(c, "result.output", text);
}
static void more(struct afloat_call *c)
{
    static char name[64];
    __builtin_snprintf(name, sizeof name, "%s", afloat_text(c, "input.name"));
    if (afloat_add_tool(.name = name, .description = "added", .run = from) == 0) {
        afloat_fail(c, "it is registered twice");
        return;
    }
    afloat_add_hook(.point = "on_tool_result", .run = shout);
    afloat_answer_text(c, "added");
}
AFLOAT_PLUGIN(.tools = (const struct afloat_tool[]){
    {.name = "more", .input = "{\\"name\\": \\"string\\"}", .run = more}, {0}})
'''.replace('\\\\"', '\\"')),
}


@pytest.mark.parametrize("language", LATER)
def test_what_is_registered_later_is_live_at_once_as_one_generation(home, hub, language):
    put(home, *LATER[language])
    assert home.json("reload")["ok"]
    before = home.json("generations")["current"]
    assert home.json("api", "POST", "/tool/more", '{"input": {"name": "extra"}}')["output"].startswith("added")
    retry(lambda: "extra" in row(home, "later")["tools"])
    assert home.json("api", "POST", "/tool/extra", '{"input": {}}')["output"] == "from extra!"
    assert "on_tool_result" in row(home, "later")["hooks"]
    told = home.http("GET", "/events?types=generation.committed", headers=("Accept: application/json",)).json()["events"][-1]
    assert home.json("generations")["current"] == before + 1 and told["trigger"] == "register", told
    again = home.cli("api", "POST", "/tool/more", '{"input": {"name": "extra"}}')
    assert "registered twice" in again.stdout  # and the plugin lives on
    assert home.json("api", "POST", "/tool/extra", '{"input": {}}')["output"].startswith("from extra!")


@pytest.mark.parametrize("language", LATER)
def test_a_version_that_was_replaced_registers_nothing(home, hub, tmp_path, language):
    gate, began = tmp_path / "gate", tmp_path / "began"
    file, text = {"python": ("stale.py", f"""
import os, time
@tool
def wait(ctx):
    open("{began}", "w").close()
    while not os.path.exists("{gate}"):
        time.sleep(0.01)
    tool(name="late")(lambda ctx, input: "x")
    return "registered"
"""), "node": ("stale.mjs", f"""
import fs from "node:fs";
tool({{ name: "wait", async run() {{
  fs.writeFileSync("{began}", "");
  while (!fs.existsSync("{gate}")) await timer.sleep(0.01);
  tool({{ name: "late", run: () => "x" }});
  return "registered";
}} }});
"""), "c": ("stale.c", f"""
#include <afloat/plugin.h>
#include <fcntl.h>
#include <unistd.h>
static void x(struct afloat_call *c) {{ (void)c; }}
static void wait_there(struct afloat_call *c)
{{
    close(creat("{began}", 0600));
    while (access("{gate}", F_OK) != 0)
        usleep(10000);
    if (afloat_add_tool(.name = "late", .run = x) == 0)
        afloat_fail(c, "not registered");
}}
AFLOAT_PLUGIN(.tools = (const struct afloat_tool[]){{{{.name = "wait", .run = wait_there}}, {{0}}}})
""")}[language]
    put(home, file, text)
    assert home.json("reload")["ok"]
    waiting = home.popen("api", "POST", "/tool/wait", '{"input": {}}', "--json")
    retry(began.exists)
    old = hosts(home, "stale")
    put(home, file, text + ("# again\n" if language == "python" else "// again\n"))
    assert home.json("reload")["ok"]
    retry(lambda: set(hosts(home, "stale")) - set(old))
    gate.write_text("")
    out, _ = waiting.communicate(timeout=30)
    if language == "c":  # a function in C gets no id, and the log says why
        assert "not registered" in out.decode(), out
        out = home.cli("plugin", "logs", "stale").stdout.encode()
    assert "stale handle" in out.decode(), out
    assert "late" not in row(home, "stale")["tools"]


# ---- taking back ------------------------------------------------------------------------------------

BACK = {
    "python": ("back.py", '''
@tool
def gone(ctx):
    return "first"
@on_tool_result
def shout(ctx, call, result):
    result.output += "!"
    return result
def hi(req):
    return "hi"
kept = [route("GET", "/hi", hi), on("user.back", lambda event: log("heard")), prompt("Be brief.")]
@command
def end(args):
    return [off(gone), off(shout), off(shout), *[h.off() for h in kept], *[h.off() for h in kept]]
@command
def again(args):
    tool(name="gone")(lambda ctx, input: "second")
    return "added"
'''),
    "node": ("back.mjs", '''
const kept = [tool({ name: "gone", run: () => "first" }), on_tool_result((ctx, call, r) => ({ ...r, output: r.output + "!" }))];
const twice = kept[1];
kept.push(twice, route("GET", "/hi", () => "hi"), on("user.back", () => log("heard")), prompt("Be brief."));
command({ name: "end", run: () => [...kept.map(h => h.off()), ...kept.slice(3).map(h => h.off())] });
command({ name: "again", run() { tool({ name: "gone", run: () => "second" }); return "added"; } });
'''),
    "c": ("back.c", r'''
#include <afloat/plugin.h>
static void first(struct afloat_call *c) { afloat_answer_text(c, "first"); }
static void second(struct afloat_call *c) { afloat_answer_text(c, "second"); }
static void hi(struct afloat_call *c) { afloat_answer_text(c, "hi"); }
static void heard(struct afloat_call *c) { (void)c; afloat_log("info", "heard"); }
void on_tool_result(struct afloat_call *c)
{
    char text[200];
    __builtin_snprintf(text, sizeof text, "%s!", afloat_text(c, "result.output"));
    afloat_set_text(c, "result.output", text);
}
static void end(struct afloat_call *c)
{
    static const char *const kinds[][2] = {{"tool", "gone"}, {"hook", "on_tool_result"}, {"hook", "on_tool_result"},
        {"route", "GET /hi"}, {"event", "user.back"}, {"prompt", "brief"}};
    long long ids[9];
    char text[200] = "[";
    for (int i = 0; i < 9; i++) {
        ids[i] = i < 6 ? afloat_find(kinds[i][0], kinds[i][1]) : ids[i - 3];
        __builtin_strcat(text, i == 0 ? "" : ",");
        __builtin_strcat(text, afloat_off(ids[i]) ? "true" : "false");
    }
    afloat_answer_json(c, "%s]", text);
}
static void again(struct afloat_call *c)
{
    afloat_add_tool(.name = "gone", .run = second);
    afloat_answer_text(c, "added");
}
AFLOAT_PLUGIN(
    .tools = (const struct afloat_tool[]){{.name = "gone", .run = first}, {0}},
    .routes = (const struct afloat_route[]){{"GET", "/hi", hi}, {0}},
    .events = (const struct afloat_event[]){{"user.back", heard}, {0}},
    .prompts = (const struct afloat_prompt[]){{.id = "brief", .text = "Be brief."}, {0}},
    .commands = (const struct afloat_command[]){{"end", "", end}, {"again", "", again}, {0}})
'''),
}


@pytest.mark.parametrize("language", BACK)
def test_what_is_taken_back_is_gone_at_once_as_one_generation_and_may_come_again(home, hub, language):
    put(home, *BACK[language])
    assert home.json("reload")["ok"]
    assert home.json("api", "POST", "/tool/gone", '{"input": {}}')["output"] == "first!"
    assert home.http("GET", "/api/plugins/back/hi").json() == "hi"
    before = home.json("generations")["current"]
    assert json.loads(home.cli("back:end").stdout) == [True, True, False, True, True, True, False, False, False]
    retry(lambda: "gone" not in row(home, "back")["tools"])
    now = row(home, "back")
    assert (now["tools"], now["hooks"], now["routes"]) == ([], [], []), now
    assert home.json("generations")["current"] == before + 1
    assert home.http("POST", "/tool/gone", b'{"input": {}}').status == 404
    assert home.http("GET", "/api/plugins/back/hi").status == 404
    assert "added" in home.cli("back:again").stdout
    retry(lambda: "gone" in row(home, "back")["tools"])
    assert home.json("api", "POST", "/tool/gone", '{"input": {}}')["output"] == "second"
    assert not now["diagnostics"], now


WATCHING = {
    "python": ("looker.py", '''
ids = []
ids.append(watch.directory("DIR", lambda e: log(f"a {e['kind']} {e['path']}"), pattern="*.txt"))
@watch.directory("DIR")
def seen(change):
    log(f"b {change['kind']} {change['path']}")
@command
def end(args):
    return [watch.unwatch(ids[0]), watch.unwatch(ids[0]), watch.unwatch(99)]
'''),
    "node": ("looker.mjs", '''
const id = watch.directory("DIR", { pattern: "*.txt" }, e => log(`a ${e.kind} ${e.path}`));
watch.directory("DIR", e => log(`b ${e.kind} ${e.path}`));
command({ name: "end", run: () => [watch.unwatch(id), watch.unwatch(id), watch.unwatch(99)] });
'''),
    "c": ("looker.c", r'''
#include <afloat/plugin.h>
static long long a;
static void seen_a(struct afloat_call *c)
{
    afloat_log("info", "a %s %s", afloat_text(c, "event.kind"), afloat_text(c, "event.path"));
}
static void seen_b(struct afloat_call *c)
{
    afloat_log("info", "b %s %s", afloat_text(c, "event.kind"), afloat_text(c, "event.path"));
}
void plugin_start(struct afloat_call *c)
{
    (void)c;
    a = afloat_add_watch(.path = "DIR", .run = seen_a, .pattern = "*.txt");
}
static void end(struct afloat_call *c)
{
    const char *first = afloat_off(a) ? "true" : "false", *second = afloat_off(a) ? "true" : "false";
    afloat_answer_json(c, "[%s, %s, %s]", first, second, afloat_off(99) ? "true" : "false");
}
AFLOAT_PLUGIN(
    .watches = (const struct afloat_watch[]){{.path = "DIR", .run = seen_b}, {0}},
    .commands = (const struct afloat_command[]){{"end", "", end}, {0}})
'''),
}


@pytest.mark.parametrize("language", WATCHING)
def test_a_host_is_told_of_changed_files_until_it_takes_the_watch_back(home, hub, tmp_path, language):
    (tmp_path / "w").mkdir()
    file, text = WATCHING[language]
    put(home, file, text.replace("DIR", str(tmp_path / "w")))
    assert home.json("reload")["ok"]
    told = lambda: home.cli("plugin", "logs", "looker").stdout
    n = iter(range(10 ** 6))

    def change(*lines):
        """Until the watch has seen what was there at its start, nothing is a change: write until it is told."""
        (tmp_path / "w/x.txt").write_text(str(next(n)))
        (tmp_path / "w/y.md").write_text(str(next(n)))
        return all(line in told() for line in lines)
    retry(lambda: change(f"a changed {tmp_path}/w/x.txt", f"b changed {tmp_path}/w/x.txt", f"b changed {tmp_path}/w/y.md"))
    assert "y.md" not in "".join(line for line in told().splitlines() if "a c" in line)
    (tmp_path / "w/x.txt").unlink()
    retry(lambda: f"a deleted {tmp_path}/w/x.txt" in told() and f"b deleted {tmp_path}/w/x.txt" in told())
    assert json.loads(home.cli("looker:end").stdout) == [True, False, False]
    (tmp_path / "w/z.txt").write_text("new")
    retry(lambda: f"b created {tmp_path}/w/z.txt" in told())
    assert f"a created {tmp_path}/w/z.txt" not in told()
    put(home, file, text.replace("DIR", str(tmp_path / "w")) + ("# v2\n" if language == "python" else "// v2\n"))
    assert home.json("reload")["ok"]
    retry(lambda: change(f"a changed {tmp_path}/w/x.txt"))  # the new version watches by itself


def test_a_watch_that_cannot_be_is_refused_with_its_line(home, hub):
    put(home, "bad.py", 'x = 1\nwatch.directory("here", print)\n')
    put(home, "worse.mjs", 'watch.directory("/tmp", { recurse: true }, () => {});\n')
    rows = {d["plugin"]: d for d in json.loads(home.cli("reload", "--json").stdout)["diagnostics"]}
    assert "'here' is not an absolute path" in rows["bad"]["message"] and rows["bad"]["line"] == 2, rows
    assert "unknown option 'recurse' (did you mean 'recursive'?)" in rows["worse"]["message"], rows


# ---- the protocol, spoken by hand ----------------------------------------------------------------

class Far:
    """A host of ours that the test talks to in the hub's place, with what the contract says and no more."""

    def __init__(self, home, lang, path):
        ours, theirs = socket.socketpair()
        ours.settimeout(DEADLINE)
        self.process = home.popen("host", lang, str(path), env={"AFLOAT_PLUGIN": "far"}, close_fds=False,
                                  preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
        theirs.close()
        self.lines = ours.makefile("rwb", buffering=0)
        ours.close()
        self.say(type="load", path=str(path), name="far", options={}, api="1.0", state={})

    def say(self, **message):
        self.lines.write(json.dumps(message).encode() + b"\n")

    def hear(self, *types):
        """The next message of one of these types."""
        while True:
            message = json.loads(self.lines.readline())
            if message["type"] in types:
                return message

    def end(self):
        self.lines.close()
        assert self.process.wait(DEADLINE) == 0


SPOKEN = {
    "lua": """tool { name = "twice", description = "d", input = { n = "integer" }, run = function(_, i) return i.n * 2 end }
              hooks.intercept("on_final", "bang", function(_, text) return text .. "!" end)""",
    "py": """__plugin__ = {"api": "1.0", "name": "far"}
@tool(description="d")
def twice(n: int):
    return n * 2
@on_final
def end(ctx, text):
    return text + "!"
@route("GET", "/stats/:day")
def stats(req):
    return {"day": req.params["day"]}
@command(description="d")
def hello(args):
    return "hi " + args[0]
""",
    "mjs": """export const plugin = { api: "1.0", name: "far" };
tool({ name: "twice", description: "d", input: { n: "integer" }, run: (ctx, i) => i.n * 2 });
on_final((ctx, text) => text + "!");
route("GET", "/stats/:day", req => ({ day: req.params.day }));
command({ name: "hello", description: "d", run: args => "hi " + args[0] });
""",
    "c": r"""#include <afloat/plugin.h>
static void twice(struct afloat_call *c) { afloat_answer_json(c, "%lld", afloat_int(c, "input.n", 0) * 2); }
void on_final(struct afloat_call *c) { afloat_answer_text(c, "%s!", afloat_text(c, "text")); }
static void stats(struct afloat_call *c) { afloat_answer_json(c, "{\"day\": \"%s\"}", afloat_text(c, "req.params.day")); }
static void hello(struct afloat_call *c) { afloat_answer_text(c, "hi %s", afloat_text(c, "args.0")); }
AFLOAT_PLUGIN(.name = "far",
    .tools = (const struct afloat_tool[]){{.name = "twice", .description = "d", .run = twice, .input = "{\"n\": \"integer\"}"}, {0}},
    .commands = (const struct afloat_command[]){{"hello", "d", hello}, {0}},
    .routes = (const struct afloat_route[]){{"GET", "/stats/:day", stats}, {0}})
""",
}
SPEAKERS = [("lua", "lua"), ("python", "py"), ("node", "mjs"), ("c", "c")]


@pytest.mark.parametrize("lang, ending", SPEAKERS)
def test_a_host_serves_who_speaks_the_protocol(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(SPOKEN[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["metadata"]["name"] == "far"
    far.say(type="tool", id=1, name="twice", ctx={}, input={"n": 21}, unheard="of")
    assert "42" in json.dumps(far.hear("result", "error")["value"])
    far.say(type="hook", id=2, point="on_final", ctx={"session_id": "s"}, args=["hi"], deadline_ms=5000)
    assert "hi!" in json.dumps(far.hear("result", "error")["value"])
    far.say(type="unheard", id=3)
    assert far.hear("result", "error")["type"] == "error"
    far.say(type="shutdown", id=4, reason="stop")
    assert far.hear("result", "error")["id"] == 4
    far.end()


@pytest.mark.parametrize("lang, ending", SPEAKERS)
def test_a_shutdown_needs_no_id_and_is_not_the_end(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(SPOKEN[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["metadata"]["name"] == "far"
    far.say(type="shutdown", reason="reload")
    assert far.hear("result", "error")["type"] == "result"
    far.say(type="tool", id=1, name="twice", ctx={}, input={"n": 21})
    assert "42" in json.dumps(far.hear("result", "error")["value"])
    far.end()


@pytest.mark.parametrize("lang, ending", SPEAKERS[1:])
def test_routes_and_commands_need_nothing_that_the_contract_does_not_name(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(SPOKEN[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["metadata"]["name"] == "far"
    far.say(type="route", id=1, method="GET", path="/stats/mon", params={"day": "mon"}, query={}, headers={}, body="")
    assert far.hear("result", "error")["value"] == {"day": "mon"}
    far.say(type="route", id=2, method="POST", path="/stats/mon", params={}, query={}, headers={}, body="")
    assert far.hear("result", "error")["type"] == "error"
    far.say(type="command", id=3, name="hello", args=["you"])
    assert far.hear("result", "error")["value"] == "hi you"
    far.end()


@pytest.mark.parametrize("lang, ending", SPEAKERS)
def test_a_host_goes_on_after_lines_without_sense_and_ends_at_one_without_end(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(SPOKEN[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["metadata"]["name"] == "far"
    far.say(type="load", path=str(file), name="far", options={}, api="1.0", state={})
    assert "already" in far.hear("error", "loaded", "failed")["message"]
    far.lines.write(b"not json\n[]\n7\n{}\nnull\n\xff\xfe\n")
    far.say(type="tool", id=1, name="twice", ctx={}, input={"n": 21})
    while (got := far.hear("result", "error")).get("id") != 1:
        assert got["type"] == "error"
    assert got["value"] == 42
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(17 * 16):
            far.lines.write(b"x" * (1 << 16))
    assert far.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("lang, ending", SPEAKERS)
def test_a_host_says_why_a_file_cannot_be_loaded(home, lang, ending):
    missing = home.dir / f"far.{ending}"
    assert "far." in json.dumps(Far(home, lang, missing).hear("failed", "loaded"))
    missing.write_text("this is = not code (\n")
    failed = Far(home, lang, missing).hear("failed", "loaded")
    assert failed["type"] == "failed" and failed["path"] == str(missing) and failed["line"] == 1 and failed["message"]


ASLEEP = {
    "lua": """tool { name = "sleep", description = "d", input = {}, run = function() timer.sleep(0.3) return "slept" end }""",
    "py": """
@tool
async def sleep(ctx):
    await timer.sleep(0.3)
    return "slept"
""",
    "mjs": """tool({ name: "sleep", async run() { await timer.sleep(0.3); return "slept"; } });""",
}


@pytest.mark.parametrize("lang, ending", SPEAKERS[:3])
def test_what_sleeps_in_an_open_call_continues_after_a_shutdown(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(ASLEEP[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["type"] == "loaded"
    far.say(type="tool", id=1, name="sleep", ctx={}, input={})
    far.say(type="shutdown", id=2, reason="reload")
    assert {far.hear("result", "error")["id"]: 0, far.hear("result", "error")["id"]: 0} == {1: 0, 2: 0}
    far.end()


EARLY = {
    "py": """
timer.after(0, lambda: log.info("fired"))
gone = timer.after(0, lambda: log.info("cancelled"))
timer.cancel(gone)
@tool
def nothing(ctx):
    return "done"
""",
    "mjs": """
timer.after(0, () => log.info("fired"));
timer.cancel(timer.after(0, () => log.info("cancelled")));
tool({ name: "nothing", async run() { await timer.sleep(0.01); return "done"; } });
""",
}


@pytest.mark.parametrize("lang, ending", SPEAKERS[1:3])
def test_a_version_that_is_only_tried_runs_no_timers(home, lang, ending):
    file = home.dir / f"far.{ending}"
    file.write_text(EARLY[ending])
    far = Far(home, lang, file)
    assert far.hear("loaded", "failed")["type"] == "loaded"
    far.say(type="tool", id=1, name="nothing", ctx={}, input={})
    assert far.hear("log", "result", "error")["type"] == "result"
    far.say(type="event", name="plugin_start", data={"reason": "start"})
    assert far.hear("log")["text"] == "fired"
    far.say(type="tool", id=2, name="nothing", ctx={}, input={})
    assert far.hear("log", "result", "error")["type"] == "result"
    far.end()


def test_a_timer_in_python_leaves_out_the_times_that_it_missed(home):
    file = home.dir / "far.py"
    file.write_text("""
import time
clock = [time.monotonic()]
time.monotonic = lambda: clock[0]
timer.every(5, lambda: log.info("tick"))

@on_final
def late(ctx, text):
    clock[0] += 17

@tool
def nothing(ctx):
    return "done"
""")
    far = Far(home, "python", file)
    assert far.hear("loaded", "failed")["type"] == "loaded"
    far.say(type="event", name="plugin_start", data={"reason": "start"})
    far.say(type="hook", id=1, point="on_final", ctx={}, args=["x"])
    assert far.hear("result", "error")["id"] == 1
    assert far.hear("log")["text"] == "tick"
    far.say(type="tool", id=2, name="nothing", ctx={}, input={})
    assert far.hear("log", "result", "error")["type"] == "result"
    far.end()


def test_what_comes_while_a_coroutine_asks_the_hub_is_answered_without_another_line(home):
    file = home.dir / "far.py"
    file.write_text("""
import asyncio

@tool
async def ask(ctx):
    await asyncio.sleep(0)
    return hub.session.list()

@on_final
def final(ctx, text):
    return text + "!"
""")
    far = Far(home, "python", file)
    assert far.hear("loaded", "failed")["type"] == "loaded"
    far.say(type="tool", id=1, name="ask", ctx={}, input={})
    asked = far.hear("call")
    far.say(type="hook", id=2, point="on_final", ctx={}, args=["hi"])
    far.say(type="result", id=asked["id"], value="all")
    assert {far.hear("result", "error")["value"] for _ in range(2)} == {"all", "hi!"}
    far.end()


STARRED = {
    "lua": """route("GET", "/files/*", function(req) return req.params["*"] end)
test("rest", function(t)
  t.equal(t.route("GET", "/files/a/b.txt"), "a/b.txt")
  t.ok(not pcall(t.route, "GET", "/files"))
end)
""",
    "py": """
@route("GET", "/files/*")
def files(req):
    return req.params["*"]

def test_rest(t):
    t.equal(t.route("GET", "/files/a/b.txt"), "a/b.txt")
    try:
        t.route("GET", "/files")
    except AssertionError:
        return
    raise AssertionError("it was found")
""",
    "mjs": """route("GET", "/files/*", req => req.params["*"]);
globalThis.test?.("rest", t => {
  t.equal(t.route("GET", "/files/a/b.txt"), "a/b.txt");
  let found = true;
  try { t.route("GET", "/files"); } catch { found = false; }
  t.ok(!found);
});
""",
}


@pytest.mark.parametrize("ending", STARRED)
def test_a_test_of_a_plugin_gets_the_rest_of_a_route_as_the_hub_gives_it(home, hub, ending):
    path = put(home, f"starred.{ending}", STARRED[ending])
    done = home.cli("plugin", "test", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


# ---- results of tools ---------------------------------------------------------------------------------

def test_a_result_that_python_passes_on_has_no_error_where_there_was_none(home, tmp_path):
    put(home, "passes.py", '''
@on_tool_result
def shorten(ctx, call, result):
    result.output = result.output.strip() + "!"
    return result
''')
    env = scenario(home, {"tool_calls": [{"name": "shell", "input": {"cmd": "echo one"}}]}, {"text": "Done."})
    run = {"input": {"cmd": "echo one"}, "working_dir": str(tmp_path)}
    outside = home.json("api", "POST", "/tool/shell", json.dumps(run))
    assert (outside["output"], outside["success"], outside["error"]) == ("one!", True, None)
    got = home.json("api", "POST", "/session", "{}", env=env)
    turn = home.json("api", "POST", f"/session/{got['id']}/message", json.dumps({"text": "go", "wait": True, "env": env}))
    assert [(c["success"], c["error"]) for c in turn["tool_calls"]] == [(True, None)], turn
    assert [(e["output"], e["error"]) for e in events_of(home, got["id"], "tool.completed")] == [("one!", None)]
