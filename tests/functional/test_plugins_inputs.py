"""What a plugin is loaded for again: its code, manifest, prompt and skills, and what it read as it loaded; not
for every file in its directory, and not for ever.
"""
import json
import time

import pytest

from conftest import retry
from test_plugins import answer, ask, call, configure, diagnostics, plug, put, reload, rows


def settled(home, n=[0]):
    """Everything saved so far has been looked at: a plugin that is saved now is live."""
    n[0] += 1
    plug(home, "settled", answer(n[0]).replace("what", "settled"))
    retry(lambda: rows(home).get("settled") and ask(home, "settled")["v"] == n[0])


def revision(home, name="d"):
    return rows(home)[name]["revision"]


def directory(home, name, files):
    for rel, text in files.items():
        put(home, f"plugins/{name}/{rel}", text)
    retry(lambda: rows(home).get(name, {}).get("serving"))


PARTS = {"init.lua": answer(1), "lib/util.lua": "return 1", "plugin.json": '{"name": "d"}', "prompt.md": "Be kind.",
         "skills/x.md": "# x"}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_a_plugin_is_an_input(home, hub, part):
    directory(home, "d", PARTS)
    settled(home)
    before = revision(home)
    put(home, f"plugins/d/{part}", PARTS[part] + "\n")
    retry(lambda: revision(home) > before)


def test_other_files_of_the_directory_are_not(home, hub):
    directory(home, "d", PARTS)
    settled(home)
    before = revision(home)
    for rel in ("README.md", "out.log", "cache/a.json", ".hidden"):
        put(home, f"plugins/d/{rel}", "something")
    settled(home)
    assert revision(home) == before and "pending" not in rows(home)["d"]
    put(home, "plugins/d/out.log", "more")
    assert reload(home)["changed"] == [] and revision(home) == before
    assert "d" in reload(home, force=True)["changed"]


READS = {"fs": "fs.read({path})", "io.open": "io.open({path}):read('a')", "io.lines": "io.lines({path})()"}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_what_it_reads_as_it_loads_is_an_input(home, hub, how, place):
    data = put(home, "plugins/d/data.json" if place == "inside" else "elsewhere/data.json", "1")
    read = READS[how].format(path=json.dumps(str(data)))
    directory(home, "d", {"init.lua": f"local v = {read}\nroute('GET', '/', function() return {{ v = v }} end)"})
    assert ask(home, "d")["v"] == "1"
    put(home, str(data.relative_to(home.dir)), "2")
    retry(lambda: ask(home, "d")["v"] == "2")


def test_a_failed_load_is_tried_again_when_what_it_read_changes(home, hub):
    data = put(home, "elsewhere/data.json", "no JSON")
    plug(home, "p", f"local v = json.decode(fs.read({json.dumps(str(data))}))\nassert(v, 'bad data')\n{answer(1)}")
    retry(lambda: rows(home).get("p", {}).get("state") == "failed")
    put(home, "elsewhere/data.json", "{}")
    retry(lambda: rows(home)["p"]["state"] == "loaded" and ask(home, "p")["v"] == 1)


def test_a_file_that_appears_where_it_looked_is_an_input(home, hub):
    path = home.dir / "elsewhere/late"
    path.parent.mkdir()
    plug(home, "p", f"local there = fs.exists({json.dumps(str(path))})\n"
                    "route('GET', '/', function() return { v = there } end)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    assert ask(home, "p")["v"] is False
    put(home, "elsewhere/late", "")
    retry(lambda: ask(home, "p")["v"] is True)


def test_what_it_writes_as_it_loads_is_no_input(home, hub):
    cache = home.dir / "plugins/d/cache.lua.json"
    directory(home, "d", {"init.lua": f"local f = io.open({json.dumps(str(cache))})\nif f then f:close() end\n"
                                      f"f = io.open({json.dumps(str(cache))}, 'w') f:write(math.random()) f:close()\n"
                                      + answer(1)})
    settled(home)
    before = revision(home)
    settled(home)
    assert revision(home) == before and cache.exists()


def writes_itself(path):
    """It saves another version of itself whenever it loads."""
    return (f"local f = io.open({json.dumps(str(path))}) local text = f:read('a') f:close()\n"
            "text = text:gsub('local n = (%d+)', function(n) return 'local n = ' .. n + 1 end)\n"
            f"f = io.open({json.dumps(str(path))}, 'w') f:write(text) f:close()\n"
            "local n = 1\nroute('GET', '/', function() return { v = n } end)\n")


def noted(home, name):
    status, body = call(home, "GET", f"/plugin/{name}")
    return body["diagnostics"] if status == 200 else []


def test_a_plugin_that_writes_itself_is_slowed_down_and_named(home, hub):
    plug(home, "p", writes_itself(home.dir / "plugins/p.lua"))
    retry(lambda: "WATCH_DEGRADED" in [d["code"] for d in noted(home, "p")])
    start, named = time.monotonic(), revision(home, "p")
    assert named < 20
    retry(lambda: revision(home, "p") >= named + 3)
    assert time.monotonic() - start > 1.5, "one a second"
    plug(home, "q", answer(1))
    retry(lambda: rows(home).get("q", {}).get("serving"))  # others are not held up
    plug(home, "p", answer("mine"))
    retry(lambda: ask(home, "p")["v"] == "mine")
    assert not noted(home, "p")


def test_a_plugin_that_others_save_all_the_time_is_not_slowed_down(home, hub):
    for n in range(30):
        plug(home, "p", answer(n))
        retry(lambda: rows(home).get("p") and rows(home)["p"]["serving"] and ask(home, "p")["v"] == n)
    assert not diagnostics(reload(home), "p")


def test_hot_decides_at_once_whether_dist_or_the_source_serves(home, start_hub):
    for rel, v in (("init.lua", "source"), ("dist/init.lua", "dist")):
        put(home, f"ext/d/{rel}", answer(v))
    configure(home, '[[plugins]]\npath = "ext/d"\nhot = false\n')
    start_hub()
    retry(lambda: ask(home, "d")["v"] == "dist")
    for hot, v in (("true", "source"), ("false", "dist"), ("true", "source")):
        configure(home, f'[[plugins]]\npath = "ext/d"\nhot = {hot}\n')
        retry(lambda: ask(home, "d")["v"] == v)


def test_a_line_for_a_plugin_that_is_found_as_well_says_how_it_is_read(home, start_hub):
    for rel, v in (("init.lua", "source"), ("dist/init.lua", "dist")):
        put(home, f"plugins/d/{rel}", answer(v))
    configure(home, '[[plugins]]\npath = "plugins/d"\nhot = false\n')
    start_hub()
    retry(lambda: rows(home).get("d", {}).get("serving"))
    assert ask(home, "d")["v"] == "dist"
