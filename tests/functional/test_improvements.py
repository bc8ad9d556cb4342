"""Improvements: Lua that an agent drops into the hub, each file in a process that is locked in.

What an improvement can do is seen through what it says: it logs, and it emits `improvement.*` events,
which the module RELAY puts on the hub's stream as `user.told`.
"""
import contextlib
import itertools
import json
import os
import pathlib
import select
import signal
import threading
import time

import pytest

from conftest import DEADLINE, ROOT, is_gone, retry
from test_lua import Stream, lua  # noqa: F401  (a fixture)

HOSTILE = sorted((ROOT / "tests/fixtures/hostile").glob("*.lua"))
RELAY = 'events.on("improvement.tell", function(data) events.emit("user.told", data) end)'


def beat(n):
    return f'timer.every(0.02, function() events.emit("improvement.tell", {{n = {n}}}) end)\n'


def hosts(home, name):
    """The processes of an improvement: its supervisor and itself."""
    path = str(home.dir / "lua/improvements" / f"{name}.lua").encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if path in words and not is_gone(pid):
                found.append(int(pid))
    return sorted(found)


@contextlib.contextmanager
def all_end(pids):
    """What is done in the block ends these processes."""
    assert pids
    fds = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            fds.append(os.pidfd_open(pid))
    try:
        yield
        for fd in fds:
            assert select.select([fd], [], [], DEADLINE)[0], f"one of {pids} is still there"
    finally:
        for fd in fds:
            os.close(fd)


@pytest.fixture
def improve(home, lua):
    """Save an improvement in one step; returns its path."""
    return lambda name, text: lua(f"improvements/{name}.lua", text)


@pytest.fixture
def stream(home, lua, start_hub):
    """The events of a hub that relays what improvements tell."""
    lua("user/init.lua", RELAY)
    start_hub()
    return Stream(home)


def reload_log(home, logs, *args):
    """Reload, and all that was logged until that was done, from the start."""
    assert home.cli("reload", *args).returncode in (0, 6)
    while "trigger=api" not in logs.next()["text"]:
        pass
    return [e["text"] for e in logs.seen]


# ---- life ------------------------------------------------------------------------------------

def test_a_file_dropped_in_place_is_loaded(home, improve, stream):
    stream.until("plugin.loaded", plugin="lua:user.init")
    improve("x", 'log.info("here I am")\n' + beat(1))
    committed = stream.until("generation.committed")
    assert committed["added"] == ["improvements/x"] and committed["trigger"] == "watch"
    row = stream.until("plugin.loaded", plugin="improvements/x")
    assert row["revision"] == 1
    stream.until("user.told", n=1)
    assert len(hosts(home, "x")) == 2
    report = home.json("reload", "--force", "improvements/x")
    assert report["plugins"] == [{"name": "improvements/x", "state": "changed", "revision": 2, "serving": True}]
    Stream(home, "log").until("log", text='improvement=x text="here I am"')


def test_a_reload_takes_what_was_saved_just_before_it(home, improve, stream):
    for n in range(1, 11):
        path = improve("x", f'log.info("number {n}")')
        home.http("POST", "/reload", b"{}")
        rows = home.http("GET", "/plugin/list").json()["plugins"]
        assert [r["revision"] for r in rows if r["name"] == "improvements/x"] == [n]
    path.unlink()
    home.http("POST", "/reload", b"{}")
    assert not [r for r in home.http("GET", "/plugin/list").json()["plugins"] if r["name"] == "improvements/x"]


def test_what_is_there_at_the_start_is_loaded(home, lua, improve, start_hub):
    lua("user/init.lua", RELAY)
    improve("x", beat(1))
    start_hub()
    stream = Stream(home)
    assert "improvements/x" in stream.until("generation.committed", generation=1)["added"]
    stream.until("user.told", n=1)


def test_events_go_both_ways(home, improve, stream):
    improve("a", 'events.on("improvement.ask", function(d) events.emit("improvement.tell", {answer = d.n + 1}) end)')
    stream.until("plugin.loaded", plugin="improvements/a")
    improve("b", 'timer.after(0, function() events.emit("improvement.ask", {n = 6}) end)')
    stream.until("user.told", answer=7)
    improve("c", 'events.on("plugin.unloaded", function(e) events.emit("improvement.tell", {went = e.plugin}) end)')
    stream.until("plugin.loaded", plugin="improvements/c")
    (home.dir / "lua/improvements/b.lua").unlink()
    stream.until("user.told", went="improvements/b")


def test_what_a_module_emits_reaches_who_subscribed(home, lua, improve, stream):
    improve("a", 'events.on("improvement.ask", function(d) events.emit("improvement.tell", {answer = d.n + 1}) end)')
    stream.until("plugin.loaded", plugin="improvements/a")
    lua("user/init.lua", RELAY + '\ntimer.every(0.05, function() events.emit("improvement.ask", {n = 41}) end)')
    stream.until("user.told", answer=42)


def test_an_event_that_is_too_large_is_not_passed_on_in_part(improve, stream):
    improve("says", 'timer.after(0, function() local large = {} for i = 1, 30000 do large[i] = ("x"):rep(50) end\n'
            '  events.emit("improvement.tell", large) events.emit("improvement.tell", {n = 1}) end)')
    assert stream.until("user.told").get("data") == {"n": 1}


def test_an_improvement_may_not_forge_events(home, improve, stream):
    improve("x", 'timer.after(0, function()\n'
            '  local got, why = events.emit("user.told", {forged = true})\n'
            '  events.emit("improvement.tell", {got = tostring(got), why = why})\nend)')
    told = stream.until("user.told")["data"]
    assert told == {"got": "nil", "why": "events.emit: an improvement may emit 'improvement.*' only"}


def test_a_save_replaces_it(home, improve, stream):
    improve("x", beat(1))
    stream.until("user.told", n=1)
    old = hosts(home, "x")
    with all_end(old):
        improve("x", beat(2))
        stream.until("plugin.changed", plugin="improvements/x")
        stream.until("user.told", n=2)
    new = hosts(home, "x")
    assert len(new) == 2 and not set(new) & set(old)
    told = [stream.until("user.told")["data"]["n"] for _ in range(5)]
    assert told == [2] * 5, "the old version still talks"


def test_the_old_version_serves_while_the_new_one_is_tried(home, improve, stream):
    improve("x", beat(1))
    stream.until("user.told", n=1)
    old = hosts(home, "x")
    number = itertools.count()

    def side_by_side():
        """The trial ends after half a second: on a busy machine one may be missed, and the next is looked at."""
        improve("x", f"while true do end -- {next(number)}")
        end = time.monotonic() + 2
        while (n := len(hosts(home, "x"))) != 4 and time.monotonic() < end:
            pass
        return n == 4
    retry(side_by_side)
    assert stream.until("plugin.error", plugin="improvements/x")["code"] == "LOAD_TIMEOUT"
    stream.until("user.told", n=1)
    assert retry(lambda: hosts(home, "x") == old)


def test_a_broken_save_keeps_the_last_good_and_says_why(home, improve, stream):
    improve("x", beat(1))
    stream.until("user.told", n=1)
    old = hosts(home, "x")
    improve("x", beat(2) + "this is no Lua\n")
    error = stream.until("plugin.error", plugin="improvements/x")
    assert error["code"] == "LOAD_FAILED" and error["line"] == 2 and error["path"].endswith("improvements/x.lua")
    stream.until("user.told", n=1)
    done = home.cli("reload")
    assert done.returncode == 6 and "failed  improvements/x" in done.stdout and "x.lua:2" in done.stdout
    report = json.loads(home.cli("reload", "--json").stdout)
    assert not report["ok"] and report["failed"] == ["improvements/x"]
    assert report["plugins"][0]["serving"] and report["diagnostics"][0]["line"] == 2
    assert "error LOAD_FAILED improvements/x" in home.ok("status")
    assert hosts(home, "x") == old
    improve("x", beat(3))
    stream.until("user.told", n=3)
    home.ok("reload")
    assert "improvements/x" not in home.ok("status")
    assert 2 not in [e["data"]["n"] for e in stream.seen if e["type"] == "user.told"]


def test_a_removed_file_is_unloaded(home, improve, stream):
    path = improve("x", beat(1))
    stream.until("user.told", n=1)
    with all_end(hosts(home, "x")):
        path.unlink()
        assert stream.until("generation.committed")["removed"] == ["improvements/x"]
        stream.until("plugin.unloaded", plugin="improvements/x")
    assert home.json("reload")["ok"]


# ---- harm ------------------------------------------------------------------------------------

RUNAWAYS = {
    "loop at load": ("while true do end", "LOAD_TIMEOUT"),
    "memory at load": ("local s = 'x' while true do s = s .. s end", "MEMORY_LIMIT"),
    "flood at load": ("while true do log.info('flood') end", None),
    "loop in a timer": ("timer.after(0, function() while true do end end)", "HOOK_TIMEOUT"),
    "loop in a handler": ("events.on('plugin.loaded', function() while true do end end)", "HOOK_TIMEOUT"),
    "loop in pcall": ("timer.after(0, function() while true do pcall(function() while true do end end) end end)",
                      "HOOK_TIMEOUT"),
    "memory in a timer": ("local t = {} timer.every(0, function() t[#t + 1] = string.rep('x', 1e6) .. #t end)",
                          "MEMORY_LIMIT"),
    "flood of logs": ("timer.every(0.01, function() for i = 1, 2000 do log.info('flood') end end)", "HOST_CRASHED"),
    "flood of events": ("timer.every(0.01, function() for i = 1, 2000 do events.emit('improvement.x', i) end end)",
                        "HOST_CRASHED"),
}


@pytest.mark.parametrize("how", RUNAWAYS)
def test_a_runaway_is_stopped_and_its_neighbour_goes_on(home, improve, stream, how):
    text, code = RUNAWAYS[how]
    improve("good", beat(1))
    stream.until("user.told", n=1)
    neighbour = hosts(home, "good")
    improve("x", text)
    error = stream.until("plugin.error", plugin="improvements/x")
    assert error["code"] == code or code is None, error
    assert retry(lambda: not hosts(home, "x"))
    done = home.cli("reload")
    assert done.returncode == 6 and f"{error['code']} improvements/x" in done.stdout
    stream.until("user.told", n=1)
    assert hosts(home, "good") == neighbour
    improve("x", beat(2))
    stream.until("user.told", n=2)
    home.ok("reload")


@pytest.mark.parametrize("which", ["itself", "its supervisor"])
def test_a_crash_is_told_and_leaves_nothing(home, improve, stream, which):
    improve("x", beat(1))
    stream.until("user.told", n=1)
    pids = hosts(home, "x")
    supervises = {pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"afloat-launch"): pid for pid in pids}
    with all_end(pids):
        os.kill(supervises[which == "its supervisor"], signal.SIGKILL)
        assert stream.until("plugin.error", plugin="improvements/x")["code"] == "HOST_CRASHED"
    assert home.cli("reload").returncode == 6


def test_what_was_stopped_is_left_alone_until_it_changes(home, improve, stream):
    text, tried = 'log.info("tried")\ntimer.after(0, function() while true do end end)', "improvement=x text=tried"
    logs = Stream(home, "log")
    path = improve("x", text)
    stream.until("plugin.error", plugin="improvements/x")
    assert reload_log(home, logs).count(tried) == 1
    os.utime(path)
    improve("x", text)  # the same bytes, in a new file
    assert reload_log(home, logs).count(tried) == 1
    report = home.http("GET", "/reload").json()
    row = report["plugins"][0]
    assert not report["ok"] and row["name"] == "improvements/x" and row["state"] == "failed" and not row["serving"]
    assert not hosts(home, "x")
    assert reload_log(home, logs, "--force", "improvements/x").count(tried) == 2
    improve("x", beat(2))
    stream.until("user.told", n=2)


def test_safe_starts_none(home, improve, start_hub):
    improve("x", beat(1))
    start_hub("--safe")
    improve("y", beat(1))
    report = home.json("reload", "--force")
    assert not any("improvements/" in row["name"] for row in report["plugins"])
    assert not hosts(home, "x") and not hosts(home, "y")


@pytest.mark.parametrize("end", ["kill -9", "stop"])
def test_no_process_outlives_the_hub(home, lua, improve, end):
    lua("user/init.lua", RELAY)
    # it says one thing and then waits: only the end of its hub can end it
    improve("x", 'timer.after(0, function() events.emit("improvement.tell", {n = 1}) end)')
    home.ok("start")
    stream = Stream(home)
    stream.until("user.told", n=1)
    improve("y", "while true do end")  # and one that is being tried
    trial = retry(lambda: hosts(home, "y"))
    with all_end(hosts(home, "x") + trial):
        if end == "stop":
            home.ok("stop", "--wait")
            assert not hosts(home, "x") and not hosts(home, "y")
        else:
            home.kill_hub()


# ---- what is out of reach --------------------------------------------------------------------

PROBE = """
local function tell(face, path, ...)
  events.emit("improvement.tell", {face = face, path = path, got = (...) and true or false})
end
timer.after(0, function()
  for _, p in ipairs(json.decode([==[%s]==])) do
    tell("read", p, fs.read(p))
    tell("exists", p, fs.exists(p))
    tell("is_dir", p, fs.is_dir(p))
    tell("stat", p, fs.stat(p))
    tell("list", p, fs.list(p))
    tell("copy", p, fs.copy(p, "stolen"))
  end
  for _, p in ipairs(json.decode([==[%s]==])) do
    tell("write", p, fs.write(p, "harm"))
    tell("append", p, fs.append(p, "harm"))
    tell("mkdir", p, fs.mkdir(p))
    tell("copy to", p, fs.copy("own.txt", p))
    tell("rename", p, fs.rename(p, "stolen"))
    tell("rename to", p, fs.rename("own.txt", p))
    tell("remove", p, fs.remove(p))
  end
  tell("own", "read", fs.read("own.txt") == "mine")
  tell("own", "write", fs.write("d.txt", "x") and fs.read("d.txt") == "x" and fs.remove("d.txt"))
  events.emit("improvement.tell", {face = "end", config = json.encode(config.all())})
end)
"""
READING, CHANGING = 6, 7


def ways_to(home, i, file):
    """Paths that lead out of the improvements to a file."""
    room = home.dir / "lua/improvements"
    os.symlink(file.parent, room / f"door{i}")
    return [str(file), os.path.relpath(file, room), "own/../" + os.path.relpath(file, room), f"door{i}/{file.name}"]


def private_files(home):
    """What nobody else may see. All of it is the test's own: were the walls broken, nothing else may suffer."""
    return [home.dir / "token", home.dir / "secrets.json", home.socket, home.dir / "lua/user/init.lua",
            home.dir / "config.toml"]


def test_files_outside_are_out_of_reach(home, lua, improve, start_hub):
    lua("user/init.lua", RELAY)
    (home.dir / "config.toml").write_text("[watch]\npoll_ms = 1000\n")
    home.ok("secret", "set", "WORK_KEY", input="s3cr3t-value")
    room = home.dir / "lua/improvements"
    room.mkdir(parents=True)
    (room / "own.txt").write_text("mine")
    (room / "own").mkdir()
    start_hub("--listen", "127.0.0.1:0", env={"WORK_TOKEN": "t0ken-of-the-environment"})
    files = private_files(home)
    paths = [way for i, file in enumerate(files) for way in ways_to(home, i, file)]
    system = ways_to(home, "way", pathlib.Path("/etc/passwd"))  # is asked for and never changed
    before = [f.read_bytes() for f in files if f.is_file()]
    inodes = [f.stat().st_ino for f in files]
    stream = Stream(home)
    improve("probe", PROBE % (json.dumps(paths + system), json.dumps(paths)))
    told = []
    while not told or told[-1]["face"] != "end":
        told.append(stream.until("user.told")["data"])
    probes = [t for t in told if t["face"] not in ("own", "end")]
    assert len(probes) == READING * len(paths + system) + CHANGING * len(paths)
    assert [t for t in probes if t["got"]] == []
    assert [t["got"] for t in told if t["face"] == "own"] == [True, True], "its own files are its own"
    assert [f.read_bytes() for f in files if f.is_file()] == before
    assert [f.stat().st_ino for f in files] == inodes
    assert not (room / "stolen").exists()
    token = (home.dir / "token").read_text().strip()
    assert len(token) > 20 and token not in told[-1]["config"] and "s3cr3t" not in told[-1]["config"]
    pids = hosts(home, "probe")
    assert len(pids) == 2
    for pid in pids:
        assert b"t0ken" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()


def test_links_are_not_followed(home, lua, improve, start_hub):
    lua("user/init.lua", RELAY)
    home.ok("secret", "set", "WORK_KEY", input="s3cr3t-value")
    (home.dir / "config.toml").write_text("[watch]\npoll_ms = 1000\n")
    (home.dir / "lua/improvements").mkdir(parents=True)
    start_hub("--listen", "127.0.0.1:0")
    files = private_files(home)
    links = [f"link{i}" for i in range(len(files))]
    for link, file in zip(links, files):
        os.symlink(file, home.dir / "lua/improvements" / link)
    before = [f.read_bytes() for f in files if f.is_file()]
    stream = Stream(home)
    improve("probe", f"timer.after(0, function() for _, p in ipairs(json.decode([==[{json.dumps(links)}]==])) do\n"
            '  events.emit("improvement.tell", {got = fs.read(p) or fs.append(p, "x") or fs.copy(p, "stolen")\n'
            '    or fs.stat(p) or fs.list(p) or false})\n'
            '  fs.write(p, "a file of its own in its place")\n  fs.remove(p)\nend end)')
    assert [stream.until("user.told")["data"]["got"] for _ in links] == [False] * len(links)
    assert [f.read_bytes() for f in files if f.is_file()] == before


# ---- all of it at once -----------------------------------------------------------------------

def starved(*tasks):
    """How long these threads have been ready and had no processor, in seconds, if the kernel counts it; as /proc names them."""
    files = (pathlib.Path(f"/proc/{task}/schedstat") for task in tasks)
    return sum(int(f.read_text().split()[1]) for f in files if f.exists()) / 1e9


class Pulse(threading.Thread):
    """A client that asks for /healthz over and over, and counts how long it waits for the hub: not for a processor."""

    def __init__(self, home):
        super().__init__(daemon=True)
        self.home, self.over, self.answers, self.fault = home, threading.Event(), [], None
        self.start()

    def run(self):
        hub = self.home.hub_pid()
        own = os.getpid()  # whose main thread may be stopped while it holds Python's lock
        all_of_us = f"{hub}/task/{hub}", f"{own}/task/{own}", "thread-self"
        try:
            while not self.over.wait(0.002):
                began, before = time.monotonic(), starved(*all_of_us)
                status = self.home.http("GET", "/healthz").status
                took, waited = time.monotonic() - began, starved(*all_of_us) - before
                self.answers.append((took - waited, status))
        except Exception as e:  # an answer that did not come is told by the test
            self.fault = e

    def stop(self):
        """How long the slowest answer took; every answer was good."""
        self.over.set()
        self.join(DEADLINE)
        assert self.fault is None and not self.is_alive()
        assert {status for _, status in self.answers} == {200}
        return max(took for took, _ in self.answers)


def ends_badly(program):
    """Does it fail without a session that calls its hooks and tools?"""
    how = program.read_text().split()[2]
    return how == "failed" or how == "stopped" and program.stem.startswith(("timer_", "event_"))


def save_until_told(improve, stream, program):
    """Save it; again when it should load, but had no processor in the half second that it has for that."""
    unit = f"improvements/{program.stem}"
    wanted = "plugin.error" if ends_badly(program) else "plugin.loaded"
    text = program.read_text()
    improve(program.stem, text)
    while (e := stream.next())["type"] != wanted or e["plugin"] != unit:
        if e["type"] == "plugin.error" and e["plugin"] == unit and e["code"] == "LOAD_TIMEOUT":
            text += "\n--"
            improve(program.stem, text)


def test_the_hub_answers_while_every_hostile_program_runs(home, improve, stream):
    assert len(HOSTILE) >= 40
    improve("attack", 'timer.every(0.02, function() events.emit("improvement.attack", {}) end)')
    stream.until("plugin.loaded", plugin="improvements/attack")
    (home.dir / "etc").mkdir()
    (home.dir / "etc/passwd").write_text("root")
    for name, target in {"token": "../../token", "etc": "../../etc", "home": "../.."}.items():
        os.symlink(target, home.dir / "lua/improvements" / f"link-to-{name}")
    pulse = Pulse(home)
    for program in HOSTILE:
        save_until_told(improve, stream, program)
    improve("good", beat(1))
    stream.until("user.told", n=1)
    improve("good", beat(2))
    stream.until("user.told", n=2)
    slowest = pulse.stop()
    print(f"{len(HOSTILE)} hostile programs: {len(pulse.answers)} answers, the slowest in {slowest * 1000:.1f} ms")
    assert slowest < 1 and len(pulse.answers) > 100
    report = json.loads(home.cli("reload", "--json").stdout)
    bad = {f"improvements/{p.stem}" for p in HOSTILE if ends_badly(p)}
    assert set(report["failed"]) == bad
    assert (home.dir / "etc/passwd").read_text() == "root"
    assert "HARM" not in "".join(p.read_text(errors="replace") for p in home.log.parent.glob("hub.log*"))
