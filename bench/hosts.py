"""Plugins in processes of their own: a hook's round trip in each language, reload, and what fifty idle ones cost.

The round trip is what the hub itself counts for a hook that does nothing (`stats` of `plugin show`), for calls of a tool
one after another over one connection; so the hub's own work for a call is not in it, and its JSON is.
"""
import json
import pathlib
import shutil
import statistics
import time

HOOKS = {
    "python": ("hook.py", "@on_tool_call\ndef nothing(ctx, call):\n    pass\n", 80, "python3"),
    "node": ("hook.mjs", "on_tool_call(() => {});\n", 60, "node"),
    "c": ("hook.c", "#include <afloat/plugin.h>\nvoid on_tool_call(struct afloat_call *c) { (void)c; }\nAFLOAT_PLUGIN()\n", 30, "cc"),
}
TOOL = "tool { name = 'quick', run = function() return 'x' end }\n"
CALLS, IDLE, IDLE_S = 2000, 50, 5


def call(link, method, path, body=None):
    link.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = link.getresponse()
    data = answer.read()
    assert answer.status == 200, data
    return json.loads(data)


def round_trip(make_hub, row):
    for lang, (file, text, budget, program) in HOOKS.items():
        what = f"hook in {lang}, round trip (median)"
        if shutil.which(program) is None:
            row(what, "not measured", f"<= {budget} us", None)
            continue
        with make_hub(files={f"plugins/{file}": text, "plugins/quick.lua": TOOL}) as hub:
            link = hub.link()
            for _ in range(CALLS):
                call(link, "POST", "/tool/quick", {"input": {}})
            stats = call(link, "GET", "/plugin/hook")["stats"]["hooks"]["on_tool_call"]
            row(what, f"{stats['p50_us']:.0f} us, p99 {stats['p99_us']:.0f} us", f"<= {budget} us", stats["p50_us"] <= budget)


def reload(make_hub, row, rounds):
    """A saved Python plugin is live; a tool of it is called all the while, and must never fail."""
    def text(n):
        return f"@tool\ndef version(ctx):\n    return '{n}'\n"
    times = []
    with make_hub(files={"plugins/live.py": text(0)}) as hub:
        link = hub.link()
        for n in range(1, rounds * 4):
            hub.save("plugins/live.py", text(n))
            start = time.perf_counter()
            while call(link, "POST", "/tool/version", {"input": {}})["output"] != str(n):
                assert time.perf_counter() - start < 10
            times.append((time.perf_counter() - start) * 1000)
    middle = statistics.median(times)
    row("save of a Python plugin to live, no gap", f"{middle:.0f} ms, worst {max(times):.0f} ms", "<= 150 ms", middle <= 150)


def cpu_ms(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10


def idle(make_hub, row, family, rss_mb, pss_mb):
    files = {f"plugins/p{n}.py": "@on_begin\nasync def begin(ctx):\n    ctx.state['n'] = 0\n" for n in range(IDLE)}
    with make_hub(files=files) as hub:
        link = hub.link()
        end = time.monotonic() + 60
        while sum(p["serving"] for p in call(link, "GET", "/plugin/list")["plugins"]) < IDLE:
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(1)
        pids = [pid for pid in family(hub.pid) if b"python3" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        before = sum(map(cpu_ms, pids))
        time.sleep(IDLE_S)
        used = sum(map(cpu_ms, pids)) - before
        rss, pss = (statistics.mean(map(how, pids)) for how in (rss_mb, pss_mb))
        row(f"{IDLE} idle Python plugins, each", f"{rss:.1f} MB, own share {pss:.1f} MB", "<= 12 MB", rss <= 12)
        row(f"{IDLE} idle Python plugins, CPU in {IDLE_S} s", f"{used} ms", "0 ms", used == 0)
