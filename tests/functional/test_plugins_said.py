"""Names, keys, routes and parts of a plugin that are probably not meant, or not served, are said to be so."""
import pytest

from conftest import retry
from test_plugins import answer, ask, call, diagnostics, plug, put, reload, rows


def test_a_declared_name_that_differs_is_said(home, hub):
    plug(home, "file1", "plugin{api='1.0', name='other'}\n" + answer(1))
    retry(lambda: rows(home).get("file1", {}).get("serving"))
    (d,) = diagnostics(reload(home), "file1")
    assert d["code"] == "NAME_MISMATCH" and d["severity"] == "warning" and "'other'" in d["message"]
    status, body = call(home, "POST", "/plugin/save", {"name": "saved", "content": "plugin{api='1.0', name='other'}\n"})
    assert status == 400 and body["detail"].startswith("Invalid plugin code: ") and "'other'" in body["detail"]
    assert not (home.dir / "plugins/saved.lua").exists()
    assert call(home, "POST", "/plugin/save", {"name": "same", "content": "plugin{api='1.0', name='same'}\n"})[0] == 200


def test_an_unknown_key_of_a_manifest_is_said_with_the_nearest(home, hub):
    put(home, "plugins/typo/init.lua", answer(1))
    put(home, "plugins/typo/plugin.json", '{"name": "typo",\n "sever": "srv.lua"}')
    retry(lambda: rows(home).get("typo", {}).get("serving"))
    (d,) = diagnostics(reload(home), "typo")
    assert d["code"] == "MANIFEST_UNKNOWN" and d["line"] == 2 and "'server'" in d["message"] and d["severity"] == "warning"
    put(home, "plugins/typo/plugin.json", '{"name": "typo", "sever": "srv.lua", "optoins": {}}')  # two in one line
    found = retry(lambda: len(all := diagnostics(reload(home), "typo")) == 2 and all)
    assert "'sever'" in found[0]["message"] and "'optoins'" in found[1]["message"], found


@pytest.mark.parametrize("content", ["", "  \n\t\n"])
def test_a_save_of_nothing_is_refused(home, hub, content):
    path = plug(home, "p", answer(1))
    retry(lambda: rows(home).get("p", {}).get("serving"))
    status, body = call(home, "POST", "/plugin/save", {"name": "p", "content": content})
    assert status == 400 and body["detail"].startswith("Invalid plugin code: "), body
    assert path.read_text() == answer(1) and rows(home)["p"]["state"] == "loaded"


def test_routes_that_answer_the_same_requests_conflict(home, hub):
    plug(home, "p", "for _, path in ipairs{'/p/:a', '/p/:b', '/p/:a/x', '/p/*', '/q/:a', '/'} do\n"
                    "  route('GET', path, function() return { path = path } end)\nend\n"
                    "route('POST', '/p/:b', function() return 1 end)")
    retry(lambda: rows(home).get("p", {}).get("serving"))
    assert rows(home)["p"]["routes"] == ["GET /p/:a", "GET /p/:a/x", "GET /p/*", "GET /q/:a", "GET /", "POST /p/:b"]
    (d,) = diagnostics(reload(home), "p")
    assert d["code"] == "ROUTE_CONFLICT" and "/p/:b" in d["message"]
    assert ask(home, "p", "p/1")["path"] == "/p/:a"


def test_the_function_that_makes_a_plugin_gets_its_options_and_places(home, start_hub):
    put(home, "ext/d/init.lua", "return function(options, ctx)\n"
                                "  local t = { o = options, ctx = { options = ctx.options, project = ctx.project or json.null,\n"
                                "    working_dir = ctx.working_dir, data_dir = ctx.data_dir } }\n"
                                "  return { routes = { ['GET /'] = function() return t end } }\nend")
    put(home, "config.toml", '[[plugins]]\npath = "ext/d"\n[plugins.options]\nsides = 6\n')
    start_hub()
    retry(lambda: rows(home).get("d", {}).get("serving"))
    said = ask(home, "d")
    assert said["o"] == said["ctx"]["options"] == {"sides": 6}
    code = (home.dir / "ext/d/init.lua").read_text()
    assert call(home, "POST", "/plugin/validate", {"name": "d", "content": code.replace(
        "local t", "local _ = ctx.data_dir .. ctx.working_dir .. ctx.path .. ctx.name local t")})[0] == 200
    assert said["ctx"]["project"] is None and said["ctx"]["data_dir"] == said["ctx"]["working_dir"] == str(home.dir)


def test_prompts_are_listed_and_every_side_swaps(home, hub):
    put(home, "plugins/d/init.lua", "prompt { id = 'style', text = 'Be brief.' }")
    put(home, "plugins/d/prompt.md", "Be kind.")
    put(home, "plugins/d/front/index.js", "1")
    put(home, "plugins/d/ui/layout.lua", "return 1")
    row = retry(lambda: rows(home).get("d", {}).get("serving") and rows(home)["d"])
    assert row["prompts"] == ["d", "style"]
    assert "2 prompts" in home.ok("plugin", "list") and "style" in home.ok("plugin", "show", "d")
    outputs = call(home, "GET", "/plugin/d")[1]["outputs"]
    swaps = {(o["kind"], o["name"]): o["swaps"] for o in outputs}
    assert swaps[("prompt", "style")] and swaps[("prompt", "prompt.md")]
    assert swaps[("ui", "ui")] and swaps[("front", "front/index.js")]  # terminal interface and page take them over
    assert [k for k, v in swaps.items() if not v] == [], swaps
