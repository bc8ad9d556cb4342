"""Plugins over time: versions that are kept, held and undone, projects and their trust, entries and their
options, what a version owns and what outlives it.
"""
import contextlib
import itertools
import threading
import os
import signal

import pytest

from conftest import ROOT, retry
from test_lua import Stream
from test_plugins import answer, ask, call, calm, configure, diagnostics, hub_events, plug, put, reload, rows, tools


def undo(home, **how):
    status, report = call(home, "POST", "/generations/undo", how)
    assert status == 200, report
    return report


def entry(path, more=""):
    return f'[[plugins]]\npath = "{path}"\n{more}\n'


def emitting(event):
    """Lua that tells the reason of a start and of a shutdown."""
    return "".join(f"on('plugin_{w}', function(ev) events.emit('user.{event}', {{ what = '{w}', why = ev.reason }}) end)\n"
                   for w in ("start", "shutdown"))


# ---- going back ------------------------------------------------------------------------------------


def test_undo_of_an_edit_holds_the_former_version_until_the_file_changes(home, start_hub):
    path = plug(home, "p", answer(1))
    calm(home, start_hub)
    plug(home, "p", answer(2))
    before = reload(home)["generation"]
    report = undo(home)
    assert report["generation"] == before + 1 and report["changed"] == ["p"]
    assert ask(home, "p")["v"] == 1 and path.read_text() == answer(2), "files are not touched"
    assert rows(home)["p"]["state"] == "held" and rows(home)["p"]["pending"]["hash"]
    assert [d["code"] for d in diagnostics(reload(home), "p")] == ["HELD"]
    assert ask(home, "p")["v"] == 1, "a reload does not end it"
    plug(home, "p", answer(3))
    assert not diagnostics(reload(home), "p") and ask(home, "p")["v"] == 3


def test_a_held_version_ends_by_force_and_a_second_undo_goes_further(home, start_hub):
    plug(home, "p", answer(1))
    calm(home, start_hub)
    for n in (2, 3):
        plug(home, "p", answer(n))
        reload(home)
    undo(home)
    assert ask(home, "p")["v"] == 2
    undo(home)
    assert ask(home, "p")["v"] == 1
    assert reload(home, force=True)["ok"] and ask(home, "p")["v"] == 3
    assert rows(home)["p"]["state"] == "loaded"


def test_undo_of_an_added_plugin_takes_it_out(home, start_hub):
    plug(home, "p", answer("p"))
    calm(home, start_hub)
    path = plug(home, "q", answer("q").replace("what", "other"))
    assert reload(home)["added"] == ["q"]
    assert undo(home)["removed"] == ["q"]
    assert call(home, "GET", "/api/plugins/q/")[0] == 404 and path.exists()
    assert tools(home) == {"what": "p"} and rows(home)["q"]["state"] == "held"
    assert undo_refused(home), "there is nothing before it"


def undo_refused(home):
    status, body = call(home, "POST", "/generations/undo", {})
    return (status, body["code"]) == (409, "CONFLICT")


def test_undo_of_a_removal_brings_it_back_without_its_file(home, start_hub):
    path = plug(home, "p", answer(1))
    calm(home, start_hub)
    path.unlink()
    assert reload(home)["removed"] == ["p"] and call(home, "GET", "/api/plugins/p/")[0] == 404
    assert undo(home)["added"] == ["p"]
    assert ask(home, "p")["v"] == 1 and not path.exists() and tools(home) == {"what": "p"}


@pytest.mark.parametrize("undos", [1, 2], ids=["serves", "kept-out"])
def test_a_held_plugin_whose_file_is_gone_can_be_removed(home, start_hub, undos):
    plug(home, "p", answer(1))
    calm(home, start_hub)
    path = plug(home, "q", answer(2).replace("what", "which"))
    reload(home)
    path.unlink()
    reload(home)
    for _ in range(undos):  # the first brings it back, the second leads to before it came
        undo(home)
    assert rows(home)["q"]["state"] == "held" and rows(home)["q"]["serving"] == (undos == 1)
    status, body = call(home, "DELETE", "/plugin/q")
    assert status == 200 and body["deleted"] == "q", body
    assert list(rows(home)) == ["p"]
    assert call(home, "DELETE", "/plugin/q")[0] == 404, "it is gone"


def test_a_plugin_whose_file_just_went_is_not_found(home, start_hub):
    path = plug(home, "p", answer(1))
    calm(home, start_hub)
    path.unlink()
    assert call(home, "DELETE", "/plugin/p")[0] == 404
    assert reload(home)["removed"] == ["p"]


def test_undo_of_a_disabling_serves_again(home, start_hub):
    plug(home, "p", answer(1))
    calm(home, start_hub)
    assert call(home, "POST", "/plugin/p/disable")[0] == 200
    assert call(home, "GET", "/api/plugins/p/")[0] == 404
    undo(home)
    assert ask(home, "p")["v"] == 1 and rows(home)["p"]["state"] == "held"


def is_out(home):
    row = rows(home)["p"]
    return (row["state"], row["enabled"], row["serving"]) == ("disabled", False, False) and \
        call(home, "GET", "/api/plugins/p/")[0] == 404


@pytest.mark.parametrize("file", ["there", "gone"])
def test_disabling_a_held_plugin_takes_it_out_and_enabling_holds_it_again(home, start_hub, file):
    path = plug(home, "p", answer(1))
    hub = calm(home, start_hub)
    plug(home, "p", answer(2)) if file == "there" else path.unlink()
    reload(home)
    undo(home)
    assert ask(home, "p")["v"] == 1 and rows(home)["p"]["state"] == "held"
    status, row = call(home, "POST", "/plugin/p/disable")
    assert status == 200 and (row["state"], row["enabled"], row["serving"]) == ("disabled", False, False), row
    assert is_out(home)
    hub.close()
    start_hub()
    reload(home)
    assert is_out(home), "also after a restart"
    status, row = call(home, "POST", "/plugin/p/enable")
    assert status == 200 and (row["state"], row["enabled"], row["serving"]) == ("held", True, True), row
    assert ask(home, "p")["v"] == 1


def test_a_line_that_switches_a_held_plugin_off_takes_it_out(home, start_hub):
    path = plug(home, "p", answer(1))
    start_hub()
    stream = Stream(home, "plugin.*")
    configure(home, entry(path))
    reload(home)
    plug(home, "p", answer(2))
    reload(home)
    undo(home)
    assert ask(home, "p")["v"] == 1
    configure(home, entry(path, "enabled = false"))
    stream.until("plugin.unloaded", plugin="p")
    assert is_out(home)


def test_undo_of_a_line_that_switched_a_plugin_off_serves_until_a_command_disables_it(home, start_hub):
    path = plug(home, "p", answer(1))
    configure(home, entry(path))
    start_hub()
    stream = Stream(home, "plugin.*")
    configure(home, entry(path, "enabled = false"))
    stream.until("plugin.unloaded", plugin="p")
    undo(home)
    assert ask(home, "p")["v"] == 1 and rows(home)["p"]["state"] == "held"
    assert call(home, "POST", "/plugin/p/disable")[0] == 200 and is_out(home)
    assert call(home, "POST", "/plugin/p/enable")[1]["state"] == "held" and ask(home, "p")["v"] == 1


def test_undo_of_changed_options_brings_the_former_ones_back(home, start_hub):
    path = plug(home, "p", "return function(options)\n"
                "  route('GET', '/', function() return { v = options.word } end)\nend")
    start_hub()
    stream = Stream(home, "plugin.*")
    configure(home, entry(path, '[plugins.options]\nword = "one"'))
    stream.until("plugin.changed", plugin="p")
    assert ask(home, "p")["v"] == "one"
    configure(home, entry(path, '[plugins.options]\nword = "two"'))
    stream.until("plugin.changed", plugin="p")
    assert ask(home, "p")["v"] == "two"
    undo(home)
    assert ask(home, "p")["v"] == "one"


def test_last_good_and_held_versions_outlive_a_hub_that_was_killed(home, start_hub):
    plug(home, "good", answer("good").replace("what", "a"))
    held = plug(home, "held", answer(1).replace("what", "b"))
    gone = plug(home, "gone", answer("gone").replace("what", "c"))
    hub = calm(home, start_hub)
    plug(home, "held", answer(2).replace("what", "b"))
    gone.unlink()
    reload(home)
    undo(home)
    plug(home, "good", "error('broken')")
    reload(home)

    def check():
        assert ask(home, "good")["v"] == "good" and rows(home)["good"]["state"] == "failed"
        assert ask(home, "held")["v"] == 1 and rows(home)["held"]["state"] == "held"
        assert ask(home, "gone")["v"] == "gone" and not gone.exists()
        assert set(tools(home)) == {"a", "b", "c"}

    check()
    hub.close()
    hub = start_hub()
    check()
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.wait()
    hub.process.returncode = 0  # it died as we wanted
    start_hub()
    check()
    held.write_text(answer(3).replace("what", "b"))
    reload(home)
    assert ask(home, "held")["v"] == 3


def test_the_last_good_version_is_kept_when_the_report_is_there(home, start_hub):
    """No wait between the answer and the kill, and the file breaks while no hub runs."""
    plug(home, "p", answer(0))
    hub = calm(home, start_hub)
    for n in range(1, 6):
        path = plug(home, "p", answer(n))
        reload(home)
        os.kill(hub.pid, signal.SIGKILL)
        hub.process.wait()
        hub.process.returncode = 0  # it died as we wanted
        path.write_text("error('broken')")
        hub = start_hub()
        assert ask(home, "p")["v"] == n


def test_the_last_good_version_of_a_fixed_plugin_is_its_built_one(home, start_hub):
    for sub, v in (("", "source"), ("dist/", "built")):
        put(home, f"dev/p/{sub}init.lua", answer(v))
    configure(home, entry(home.dir / "dev/p", "hot = false"))
    hub = start_hub()
    assert ask(home, "p")["v"] == "built"
    hub.close()
    put(home, "dev/p/plugin.json", "{")
    start_hub()
    reload(home)
    assert rows(home)["p"]["state"] == "failed" and ask(home, "p")["v"] == "built"


def test_a_held_version_is_kept_when_the_report_is_there(home, start_hub):
    plug(home, "p", answer(1))
    hub = calm(home, start_hub)
    plug(home, "p", answer(2))
    reload(home)
    undo(home)
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.wait()
    hub.process.returncode = 0
    start_hub()
    assert ask(home, "p")["v"] == 1 and rows(home)["p"]["state"] == "held"


def test_versions_that_no_undo_can_reach_are_removed(home, start_hub):
    plug(home, "p", answer(0))
    calm(home, start_hub)
    for n in range(1, 25):
        plug(home, "p", answer(n))
        reload(home)
    retry(lambda: len(list((home.dir / "state/versions").iterdir())) <= 12)
    for n in range(23, 19, -1):
        undo(home)
        assert ask(home, "p")["v"] == n


def test_a_deleted_place_of_versions_costs_nothing_but_the_past(home, start_hub):
    plug(home, "p", answer(1))
    hub = calm(home, start_hub)
    plug(home, "p", answer(2))
    reload(home)
    hub.close()
    for version in (home.dir / "state/versions").iterdir():
        for file in sorted(version.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
    start_hub()
    assert ask(home, "p")["v"] == 2 and reload(home)["ok"]


# ---- projects --------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path):
    def make(name, **plugins):
        root = tmp_path / name
        (root / ".git").mkdir(parents=True)
        for plugin, text in plugins.items():
            path = root / ".afloat/plugins" / f"{plugin}.lua"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root
    return make


def save(root, plugin, text):
    path = root / ".afloat/plugins" / f"{plugin}.lua"
    beside = path.with_name(".beside.tmp")
    beside.write_text(text)
    os.rename(beside, path)


def test_an_untrusted_plugin_takes_no_name_from_the_users(home, start_hub, repo):
    plug(home, "p", answer("mine"))
    root = repo("r", p=answer("theirs"))
    start_hub("--repo", str(root))
    assert ask(home, "p")["v"] == "mine" and rows(home)["p"]["layer"] == "user"
    assert rows(home)["p@r"]["state"] == "untrusted" and "shadows" not in rows(home)["p@r"]
    home.ok("trust", str(root))
    retry(lambda: ask(home, "p")["v"] == "theirs")
    assert rows(home)["p"]["layer"] == "repo" and ask(home, "p@user")["v"] == "mine"
    home.ok("untrust", str(root))
    retry(lambda: ask(home, "p")["v"] == "mine")
    assert rows(home)["p"]["layer"] == "user"


def test_a_project_runs_what_was_trusted_over_a_change_and_a_restart(home, start_hub, repo):
    root = repo("r", p=answer("first"))
    hub = start_hub("--repo", str(root))
    assert rows(home)["p"]["state"] == "untrusted" and not rows(home)["p"]["serving"]
    (d,) = diagnostics(reload(home), "p")
    assert d["code"] == "UNTRUSTED" and f"afloat trust {root}" in d["hint"]
    home.ok("trust", str(root))  # reaches the running hub
    retry(lambda: rows(home)["p"]["serving"])
    assert ask(home, "p")["v"] == "first" and rows(home)["p"]["layer"] == "repo"
    save(root, "p", answer("second"))
    reload(home)
    assert ask(home, "p")["v"] == "first" and rows(home)["p"]["state"] == "untrusted"
    hub.close()
    hub = start_hub("--repo", str(root))
    assert ask(home, "p")["v"] == "first"
    home.ok("trust", str(root))
    retry(lambda: ask(home, "p")["v"] == "second")
    save(root, "p", answer("first"))
    reload(home)
    assert ask(home, "p")["v"] == "first", "what was once trusted stays so"
    home.ok("untrust", str(root))
    retry(lambda: not rows(home)["p"]["serving"])
    assert call(home, "GET", "/api/plugins/p/")[0] == 404 and not tools(home)


def test_a_followed_project_is_live_with_every_save(home, start_hub, repo):
    root = repo("r", p=answer(1))
    home.ok("trust", "--follow", str(root))
    start_hub("--repo", str(root))
    stream = Stream(home, "plugin.changed")
    save(root, "p", answer(2))
    stream.until("plugin.changed", plugin="p")
    assert ask(home, "p")["v"] == 2


def test_a_projects_plugin_reaches_only_calls_inside_it(home, start_hub, repo, tmp_path):
    tool = "tool { name = 'local', run = function() return 'ran' end }\n" \
           "on_permission(function(ctx, call) if call.tool_name == 'mine' then return 'deny', 'by the project' end end)"
    root, other = repo("r", p=tool), repo("r-other")
    (root / "deep").mkdir()
    plug(home, "user", "tool { name = 'mine', run = function() return 'ran' end }")
    home.ok("trust", "--follow", str(root))
    start_hub("--repo", str(root))

    def run(name, where=None):
        body = {"input": {}, **({"working_dir": str(where)} if where else {})}
        status, got = call(home, "POST", f"/tool/{name}", body)
        return got["output"] if status == 200 else status

    link = tmp_path / "link"
    link.symlink_to(root)
    inside = (root, root / "deep", f"{root}/", f"{other}/../r", link)
    outside = (other, tmp_path, f"{root}/../r-other", "/", None)
    assert [run("local", w) for w in inside] == ["ran"] * len(inside)
    assert [run("mine", w) for w in inside] == [403] * len(inside)
    assert all(run("local", w) in (403, 404) for w in outside)
    assert [run("mine", w) for w in outside] == ["ran"] * len(outside)


def test_a_call_opens_the_trusted_project_that_it_works_in(home, start_hub, repo):
    root = repo("r", p="tool { name = 'local', run = function() return 'ran' end }")
    home.ok("trust", "--follow", str(root))
    start_hub()
    retry(lambda: call(home, "POST", "/tool/local", {"input": {}, "working_dir": str(root)})[0] == 200)


# ---- entries ---------------------------------------------------------------------------------------


def test_options_that_do_not_fit_name_code_path_and_line(home, start_hub):
    put(home, "apart/p/plugin.json", '{"name": "p", "options": {"type": "object", "required": ["word"],\n'
        '"properties": {"word": {"type": "string"}, "count": {"type": "integer", "default": 3}},\n'
        '"additionalProperties": false}}')
    put(home, "apart/p/init.lua", "return function(options) route('GET', '/', function() return options end) end")
    good = '[plugins.options]\nword = "hello"'
    configure(home, entry(home.dir / "apart/p", good))
    start_hub()
    assert ask(home, "p") == {"word": "hello", "count": 3}
    stream = Stream(home, "plugin.error,plugin.changed")
    for bad, says in (("[plugins.options]\nword = 1", "word"), ('[plugins.options]\nwrd = "x"\nword = "y"', "wrd"),
                      ("", "word")):
        configure(home, "# its line is the second\n" + entry(home.dir / "apart/p", bad))
        error = stream.until("plugin.error", plugin="p")
        assert error["code"] == "MANIFEST_INVALID" and says in error["message"], error
        assert error["path"] == str(home.dir / "config.toml")
        (d,) = diagnostics(reload(home), "p")
        assert d["source"] == "config" and d["line"] == 2, d
        assert ask(home, "p") == {"word": "hello", "count": 3}, "the last good goes on"
    configure(home, entry(home.dir / "apart/p", good.replace("hello", "bye")))
    stream.until("plugin.changed", plugin="p")
    assert ask(home, "p")["word"] == "bye"


@pytest.mark.parametrize("text, code, line", [
    ('{\n"name": "p",\n"server": "../out.lua"}', "PATH_ESCAPE", 3),
    ('{\n"name": "p",\n"server": "/etc/passwd"}', "PATH_ESCAPE", 3),
    ('{\n"name": "P!"}', "NAME_INVALID", 2),
    ('{\n"name": "p",\n"api": "7"}', "API_INCOMPATIBLE", 3),
    ('{\n"name": "p",\n"server": "none.lua"}', "ENTRY_MISSING", 3),
    ('{\n"name": "p",\n"options": 5}', "MANIFEST_INVALID", 3),
    ('{\n"name": "p",\n', "MANIFEST_INVALID", None),
    ("", "MANIFEST_INVALID", None),
])
def test_a_manifest_that_is_wrong_names_its_line_and_nothing_is_guessed(home, start_hub, text, code, line):
    path = put(home, "plugins/p/plugin.json", text)
    put(home, "plugins/p/init.lua", answer("by convention"))
    start_hub()
    report = reload(home)
    (d,) = [d for d in report["diagnostics"] if d["path"] == str(path)]
    assert d["code"] == code and (line is None or d["line"] == line), d
    assert not tools(home) and not report["ok"]


def test_a_broken_manifest_does_not_cost_a_plugin_its_name(home, start_hub):
    manifest = '{"name": "said", "server": "init.lua"}'
    put(home, "plugins/place/plugin.json", manifest)
    put(home, "plugins/place/init.lua", answer(1))
    calm(home, start_hub)
    for text in (manifest[:-1], "", '{"name": "said", "server": "none.lua"}', "[]"):
        put(home, "plugins/place/plugin.json", text)
        assert reload(home)["failed"] == ["said"] and ask(home, "said")["v"] == 1
    put(home, "plugins/place/plugin.json", manifest.replace("said", "other"))
    report = reload(home)
    assert (report["added"], report["removed"]) == (["other"], ["said"])


def test_a_link_out_of_a_plugin_is_not_followed(home, start_hub, tmp_path):
    (tmp_path / "secret.lua").write_text(answer("outside"))
    put(home, "plugins/p/init.lua", "require 'secret'")
    (home.dir / "plugins/p/secret.lua").symlink_to(tmp_path / "secret.lua")
    start_hub()
    assert [d["code"] for d in diagnostics(reload(home), "p")] == ["PATH_ESCAPE"]


def test_a_required_entry_that_does_not_load_is_said_and_stays_required(home, start_hub):
    configure(home, entry("nowhere/p", "required = true"))
    start_hub()
    (d,) = [d for d in reload(home)["diagnostics"] if d["code"] == "ENTRY_MISSING"]
    assert (d["path"], d["line"], d["plugin"]) == (str(home.dir / "config.toml"), 1, "p")
    row = rows(home)["p"]
    assert row["state"] == "failed" and not row["serving"]
    assert call(home, "POST", "/plugin/p/disable")[1]["code"] == "PLUGIN_REQUIRED"
    put(home, "nowhere/p/init.lua", answer(1))
    reload(home)
    assert ask(home, "p")["v"] == 1


def test_manual_waits_for_who_asks_and_fixed_for_a_restart(home, start_hub):
    put(home, "apart/manual.lua", answer(1).replace("what", "m"))
    put(home, "apart/fixed/init.lua", answer(1).replace("what", "f"))
    put(home, "apart/fixed/dist/init.lua", answer("built").replace("what", "f"))
    configure(home, entry("apart/manual.lua", 'hot = "manual"') + entry("apart/fixed", "hot = false"))
    plug(home, "hot", answer(1).replace("what", "h"))
    hub = start_hub()
    reload(home)  # what a start begins is over
    assert ask(home, "fixed")["v"] == "built"
    put(home, "apart/manual.lua", answer(2).replace("what", "m"))
    put(home, "apart/fixed/dist/init.lua", answer("rebuilt").replace("what", "f"))
    stream = Stream(home, "plugin.changed")
    plug(home, "hot", answer(2).replace("what", "h"))  # the watcher has gone past both when this is live
    stream.until("plugin.changed", plugin="hot")
    assert ask(home, "manual")["v"] == 1 and ask(home, "fixed")["v"] == "built"
    report = reload(home)
    assert ask(home, "manual")["v"] == 2 and ask(home, "fixed")["v"] == "built"
    assert [n["kind"] for n in report["needs"] if n["plugin"] == "fixed"] == ["hub-restart"]
    hub.close()
    start_hub()
    assert ask(home, "fixed")["v"] == "rebuilt"


def contributions(home, name):
    got = call(home, "GET", f"/plugin/{name}")[1]
    listed = [{k: v for k, v in t.items() if k != "generation"} for t in call(home, "GET", "/tool")[1]["tools"]]
    return {**{k: got[k] for k in ("hooks", "tools", "routes", "commands", "outputs", "metadata")}, "listed": listed}


def test_entry_layer_and_single_file_give_the_same(home, start_hub):
    text = (ROOT / "runtime/plugins/hello/init.lua").read_text()
    hub = start_hub()
    seen = []
    for how in ("entry", "layer", "file", "profile"):
        path = {"entry": "apart/hello/init.lua", "layer": "plugins/hello/init.lua", "file": "plugins/hello.lua",
                "profile": "profiles/default/plugins/hello.lua"}[how]
        file = put(home, path, text)
        configure(home, entry("apart/hello") if how == "entry" else "")
        retry(lambda: rows(home).get("hello", {}).get("serving"))
        seen.append(contributions(home, "hello"))
        file.unlink()
        if file.name == "init.lua":
            file.parent.rmdir()
        configure(home, "")
        retry(lambda: "hello" not in rows(home))
    assert hub.process.poll() is None
    assert seen[0]["tools"] or seen[0]["routes"]
    for other in seen[1:]:
        assert other == seen[0]


# ---- life ------------------------------------------------------------------------------------------


def test_start_and_shutdown_carry_their_reason(home, start_hub):
    path = plug(home, "p", emitting("life") + answer(1))
    plug(home, "silent", "")
    hub = calm(home, start_hub)
    for step in (lambda: reload(home, force=True, names=["p"]), lambda: call(home, "POST", "/plugin/p/disable"),
                 lambda: call(home, "POST", "/plugin/p/enable"), lambda: (path.unlink(), reload(home))):
        step()
    plug(home, "p", emitting("life") + "on('plugin_shutdown', function(ev) fs.write('" + str(home.dir / "last") +
         "', ev.reason) end)")
    reload(home)
    said = [(e["data"]["what"], e["data"]["why"]) for e in hub_events(home, "user.life")]
    assert said == [("start", "start"), ("shutdown", "reload"), ("start", "reload"), ("shutdown", "disable"),
                    ("start", "start"), ("shutdown", "remove"), ("start", "start")]
    hub.close()
    assert (home.dir / "last").read_text() == "stop"


def test_state_outlives_versions_and_being_switched_off(home, start_hub):
    count = "state.set('n', state.get('n', 0) + 1)\nroute('GET', '/', function() return { n = state.get('n') } end)\n"
    plug(home, "p", count)
    calm(home, start_hub)
    plug(home, "p", count + "-- edited")
    reload(home)
    assert ask(home, "p")["n"] == 2
    plug(home, "p", count + "error('after it has counted')")
    reload(home)
    assert ask(home, "p")["n"] == 2, "what a failed load did is undone"
    plug(home, "p", count + "-- mended")
    reload(home)
    call(home, "POST", "/plugin/p/disable")
    call(home, "POST", "/plugin/p/enable")
    assert ask(home, "p")["n"] == 4


@contextlib.contextmanager
def changing(path):
    """A file that changes all the time: nobody says when a watch that was asked for has begun."""
    done = threading.Event()

    def write():
        n = 0
        while not done.wait(0.02):
            n += 1
            path.write_text(str(n))
    writer = threading.Thread(target=write)
    writer.start()
    yield
    done.set()
    writer.join()


def test_what_a_plugin_owns_ends_with_it(home, start_hub):
    watched = home.dir / "watched"
    watched.mkdir()
    path = plug(home, "p", "timer.every(0.01, function() events.emit('user.tick', {}) end)\n"
                f"watch.directory('{watched}', {{}}, function() events.emit('user.seen', {{}}) end)\n"
                "events.on('user.ping', function() events.emit('user.pong', {}) end)\n"
                "on('plugin.loaded', function() events.emit('user.loaded', {}) end)")
    start_hub()

    def say(event):
        call(home, "POST", "/events", {"type": event, "data": {}})

    stream = Stream(home, "user.*")
    stream.until("user.tick")
    say("user.ping")
    stream.until("user.pong")
    with changing(watched / "file"):
        stream.until("user.seen")
    for n, end in enumerate((lambda: call(home, "POST", "/plugin/p/disable"), lambda: (path.unlink(), reload(home)))):
        end()
        say("user.mark")
        mark = stream.until("user.mark")["id"]
        # another plugin with a slower timer, the same watch and the same event: when they fired, p's would have
        plug(home, f"q{n}", "timer.after(0.05, function() events.emit('user.late', {}) end)\n"
             f"watch.directory('{watched}', {{}}, function() events.emit('user.other', {{}}) end)\n"
             "events.on('user.ping', function() events.emit('user.heard', {}) end)")
        retry(lambda: rows(home).get(f"q{n}", {}).get("serving"))
        say("user.ping")
        wanted = {"user.late", "user.other", "user.heard"}
        with changing(watched / "file"):
            while wanted:
                wanted.discard(stream.next()["type"])
        assert not [e for e in stream.seen if e["id"] > mark and e["type"] in
                    ("user.tick", "user.seen", "user.pong", "user.loaded")]
        if n == 0:
            call(home, "POST", "/plugin/p/enable")
            stream.until("user.tick")


def test_a_failed_save_leaves_no_half_of_a_plugin(home, start_hub):
    """T2: tools, hooks, timers and watches of the version that goes on are all still there."""
    watched = home.dir / "watched"
    watched.mkdir()
    whole = ("timer.every(0.01, function() events.emit('user.tick', {}) end)\n"
             f"watch.directory('{watched}', {{}}, function() events.emit('user.seen', {{}}) end)\n"
             "events.on('user.ping', function() events.emit('user.pong', {}) end)\n"
             "command { name = 'c', run = function() return 'c' end }\n"
             "on_permission(function() return 'deny', 'by p' end)\n" + answer("whole"))
    plug(home, "p", whole)
    start_hub()
    for n in range(3):
        plug(home, "p", whole.replace("whole", f"half {n}") + "error('at the very end')")
        assert reload(home)["failed"] == ["p"]
    mark = hub_events(home)[-1]["id"]
    stream = Stream(home, "user.*")
    call(home, "POST", "/events", {"type": "user.ping", "data": {}})
    wanted = {"user.tick", "user.seen", "user.pong"}
    with changing(watched / "file"):
        while wanted:
            e = stream.next()
            if e["id"] > mark:
                wanted.discard(e["type"])
    assert ask(home, "p")["v"] == "whole" and call(home, "POST", "/command/p:c", {})[1]["output"] == "c"
    assert call(home, "POST", "/tool/what", {"input": {}})[0] == 403
    pongs = [e for e in hub_events(home, "user.pong") if e["id"] > mark]
    assert len(pongs) == 1, "one version listens"


def hosts_below(pid):
    """The processes in which improvements run (`PROGRAM host lua ...`), not those that watch over them."""
    found, wanted = [pid], []
    for known in found:
        try:
            below = open(f"/proc/{known}/task/{known}/children").read().split()
            found += [int(child) for child in below]
            if open(f"/proc/{known}/cmdline", "rb").read().split(b"\0")[1:3] == [b"host", b"lua"]:
                wanted.append(known)
        except OSError:
            pass  # it ended meanwhile
    return wanted


def test_a_host_that_is_slow_to_load_does_not_delay_a_save(home, start_hub):
    plug(home, "p", answer(1))
    hub = start_hub()
    stream = Stream(home, "plugin.*")
    version = itertools.count(2)
    stopped = []

    def saves_come_first():
        """Four saves while a host loads, which never ends: True when all of them came before the host was given up."""
        name = f"improvements/slow{next(version)}"
        put(home, f"lua/{name}.lua", "while true do end")
        stopped[:] = retry(lambda: [pid for pid in hosts_below(hub.pid) if pid not in stopped])
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)  # from here on it does not get any further
        before = len(stream.seen)
        for n in itertools.islice(version, 4):
            plug(home, "p", answer(n))
            stream.until("plugin.changed", plugin="p")
            assert ask(home, "p")["v"] == n
        told = [e for e in stream.seen[before:] if e.get("plugin") == name]
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        given_up = told[0] if told else stream.until("plugin.error", plugin=name)
        assert given_up["code"] == "LOAD_TIMEOUT"
        return not told
    retry(saves_come_first)  # a host has five seconds: a busy machine may need them for something else
