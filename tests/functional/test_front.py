"""Web sides of plugins: compiled on save, served by revision, reported on by pages.

The compiler is the real one, beside the program; a page is played by requests.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from conftest import BIN, DEADLINE, retry

PANEL = """import { definePlugin } from "afloat";
import { useState } from "react";
import { label } from "./label";
function Counter() { const [n] = useState<number>(1); return <b>{label}{n}</b>; }
export default definePlugin({ panels: [{ id: "main", title: "Main", component: Counter }] });
"""


def put(home, name, files):
    """Save files as an editor does; a new plugin appears whole."""
    place = home.dir / "plugins" / name
    root = place if place.exists() else home.dir / f"new-{name}"
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(file.name + ".new~")
        new.write_bytes(text if isinstance(text, bytes) else text.encode())
        new.rename(file)
    if root != place:
        place.parent.mkdir(exist_ok=True)
        root.rename(place)


def fronts(home):
    return {p["name"]: p for p in home.json("api", "GET", "/front/plugins")["plugins"]}


class Events:
    """The hub's events from now on."""

    def __init__(self, home):
        self.home, self.after = home, 0
        self.after = self.more()["next"]

    def more(self):
        headers = ["Accept: application/json"]
        return self.home.http("GET", f"/events?after={self.after}&limit=1000", headers=headers).json()

    def wait(self, type, **fields):
        """The first one of that type with these fields that was not passed yet."""
        def look():
            for event in self.more()["events"]:
                if event["type"] == type and all(event.get(k) == v for k, v in fields.items()):
                    return event
            return None

        event = retry(look)
        self.after = event["id"] if "id" in event else self.after
        return event


def diagnostics(home, name):
    return home.json("plugin", "show", name)["diagnostics"]


def test_a_tsx_plugin_is_bundled_and_served_by_revision(home, hub, http):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label: string = "total ";\n'})
    home.ok("reload")
    row = fronts(home)["demo"]
    assert row["revision"] == 1 and row["url"] == f"/front/demo/1/index.js?v={row['hash'][:12]}"
    assert row["style"] is None
    answer = http("GET", row["url"])
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    text = answer.body.decode()
    assert "total " in text and 'from "afloat/react"' in text and 'from "afloat"' in text, "only its own files are bundled"
    assert "Counter:typeof Counter" in text, "components are exported by name, for their state"
    assert http("GET", "/front/demo/1/index.js").headers["cache-control"] == "private, no-cache"
    assert "//# sourceMappingURL=index.js.map" in text
    assert "plugin:front/index.tsx" in http("GET", "/front/demo/1/index.js.map").json()["sources"]
    outputs = {o["kind"]: o for o in home.json("plugin", "show", "demo")["outputs"]}
    assert outputs["front"]["swaps"] is True


def test_a_save_makes_a_new_revision_and_ends_the_old(home, hub, http):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "one";\n'})
    home.ok("reload")
    events = Events(home)
    put(home, "demo", {"front/label.ts": 'export const label = "two";\n'})
    events.wait("plugin.changed", revision=2)
    row = fronts(home)["demo"]
    assert row["revision"] == 2 and b'"two"' in http("GET", row["url"]).body
    assert http("GET", "/front/demo/1/index.js").status == 404


def test_two_plugins_may_fall_back_on_the_same_files(home, start_hub):
    files = {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "one";\n', "init.lua": "-- nothing\n"}
    put(home, "ours", files)
    put(home, "copy", files)
    hub = start_hub()
    retry(lambda: set(fronts(home)) == {"ours", "copy"})
    hub.close()
    put(home, "ours", {"init.lua": "error('ours')\n"})
    put(home, "copy", {"init.lua": "error('copy')\n"})
    start_hub()
    rows = {p["name"]: p for p in home.json("plugin", "list")["plugins"]}
    assert [(rows[n]["serving"], rows[n]["state"]) for n in ("ours", "copy")] == [(True, "failed")] * 2
    assert set(fronts(home)) == {"ours", "copy"}


def test_a_save_of_the_server_side_keeps_the_web_side(home, hub, http):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "one";\n',
                       "init.lua": "tool { name = 'a', run = function() return 1 end }"})
    home.ok("reload")
    before = fronts(home)["demo"]
    put(home, "demo", {"init.lua": "tool { name = 'a', run = function() return 2 end }"})
    home.ok("reload")
    after = fronts(home)["demo"]
    assert after["revision"] == 2 and after["hash"] == before["hash"]
    assert http("GET", after["url"]).status == 200


def test_a_compile_error_names_file_and_line_and_the_old_revision_stays(home, hub, http):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "one";\n',
                       "init.lua": "tool { name = 'says', run = function() return 'old' end }"})
    home.ok("reload")
    events = Events(home)
    # the broken file comes first: the other one alone, with the label as it was, would be a good version
    put(home, "demo", {"front/label.ts": "// first\nexport const label = ;\n",
                       "init.lua": "tool { name = 'says', run = function() return 'new' end }"})
    event = events.wait("plugin.error")
    assert event["code"] == "FRONT_BUILD_FAILED" and event["source"] == "front"
    report = json.loads(home.cli("reload", "--json").stdout)
    (d,) = [d for d in report["diagnostics"] if d["plugin"] == "demo"]
    assert d["code"] == "FRONT_BUILD_FAILED" and d["source"] == "front" and d["line"] == 2
    assert d["path"] == str(home.dir / "plugins/demo/front/label.ts") and "Unexpected" in d["message"]
    row = fronts(home)["demo"]
    assert b'"one"' in http("GET", row["url"]).body
    assert home.json("tool", "run", "says", "{}")["output"] == "old", "both sides stay, never half of a version"
    put(home, "demo", {"front/label.ts": 'export const label = "mended";\n'})
    home.ok("reload")
    assert b'"mended"' in http("GET", fronts(home)["demo"]["url"]).body
    assert home.json("tool", "run", "says", "{}")["output"] == "new"


def test_imports_that_lead_out_or_nowhere_are_named(home, hub):
    wrong = [('import "../../../../etc/passwd.json";', "leads out of the plugin"),
             ('import "lodash";', "there is no package 'lodash'"),
             ('import "./missing";', "there is no file './missing'"),
             ('import "../init.lua";', "a page cannot import '../init.lua'"),
             ('import "/etc/hostname.json";', "there is no package '/etc/hostname.json'")]
    for n, (line, _) in enumerate(wrong):
        put(home, f"bad{n}", {"front/index.tsx": f"\n{line}\nexport default {{}};\n", "init.lua": "-- nothing\n"})
    home.cli("reload")
    for n, (_, said) in enumerate(wrong):
        (d,) = home.json("plugin", "show", f"bad{n}")["diagnostics"]
        assert d["code"] == "FRONT_BUILD_FAILED" and d["line"] == 2 and said in d["message"], d


def test_styles_and_pictures_are_bundled(home, hub, http):
    put(home, "demo", {"front/index.jsx": 'import "./a.css";\nimport p from "./p.png";\nexport default { p };\n',
                       "front/a.css": ".a { background: url(p.png) }\n", "front/p.png": b"\x89PNG\0\xff"})
    home.ok("reload")
    row = fronts(home)["demo"]
    css = http("GET", row["style"])
    assert css.headers["content-type"].startswith("text/css") and b"data:image/png;base64,iVBORwD/" in css.body
    assert b"data:image/png" in http("GET", row["url"]).body


def test_plain_modules_are_served_as_they_are(home, hub, http):
    put(home, "plain", {"front/index.js": 'import { x } from "../shared/x.js";\nexport default { x };\n',
                        "shared/x.js": "export const x = 1;\n", "init.lua": "-- secret of the server\n"})
    home.ok("reload")
    row = fronts(home)["plain"]
    assert http("GET", row["url"]).body == b'import { x } from "../shared/x.js";\nexport default { x };\n'
    assert http("GET", "/front/plain/1/shared/x.js").body == b"export const x = 1;\n"
    assert http("GET", "/front/plain/1/init.lua").status == 404, "the server side is no page's business"


def test_no_path_leads_out_of_a_plugin(home, hub, http):
    put(home, "plain", {"front/index.js": "export default {};\n"})
    home.ok("reload")
    for path in ["../../../token", "%2e%2e/%2e%2e/token", "..%2f..%2f..%2ftoken", "front/../../../choices.json",
                 "/etc/hostname", "front//index.js", "%00", ".", "front/"]:
        answer = http("GET", f"/front/plain/1/{path}")
        assert answer.status in (400, 404), path
    for path in ["/front/plain/x/front/index.js", "/front/none/1/front/index.js",
                 "/front/plain/-1/front/index.js", "/front/plain/18446744073709551617/front/index.js"]:
        assert http("GET", path).status == 404, path
    assert http("POST", "/front/plain/1/front/index.js").status == 405


def test_files_need_the_token_over_tcp(home, start_hub):
    put(home, "plain", {"front/index.js": "export default {};\n"})
    hub = start_hub("--listen", "127.0.0.1:0")
    address = hub.ready.split("http=")[1].split()[0]
    url = f"http://{address}/front/plain/1/front/index.js"
    code = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
    assert subprocess.run([*code, url], capture_output=True, text=True).stdout == "401"
    token = home.ok("token", "show").strip()
    known = subprocess.run([*code, "-H", f"Authorization: Bearer {token}", url], capture_output=True, text=True)
    assert known.stdout == "200"


def test_an_untrusted_project_is_never_served(home, start_hub, tmp_path, http):
    repo = tmp_path / "repo"
    front = repo / ".afloat/plugins/web/front"
    front.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", repo], check=True)
    (front / "index.tsx").write_text("export default {};\n")
    start_hub("--repo", str(repo))
    assert home.json("plugin", "show", "web")["state"] == "untrusted"
    assert fronts(home) == {}
    assert http("GET", "/front/web/1/index.js").status == 404
    home.ok("trust", str(repo))
    row = retry(lambda: fronts(home).get("web"))
    good = http("GET", row["url"]).body
    (front / "index.tsx").write_text("export default { evil: 1 };\n")
    home.ok("reload")
    row = fronts(home)["web"]
    assert http("GET", row["url"]).body == good, "what was trusted goes on, what was not is not served"


def test_without_a_compiler_the_server_side_and_dist_still_work(home):
    place = pathlib.Path(tempfile.mkdtemp(prefix="afloat-alone-"))
    try:
        for name in ("afloat", "afloat-launch"):
            shutil.copy2(pathlib.Path(BIN).resolve().parent / name, place / name)
        env = {**home.env, "PATH": "/nonexistent"}
        put(home, "needy", {"front/index.tsx": "export default {};\n",
                            "init.lua": "tool { name = 'works', run = function() return 'yes' end }"})
        put(home, "built", {"front/index.tsx": "export default {};\n",
                            "dist/front/index.js": "export default 'built';\n"})
        put(home, "plain", {"front/index.js": "export default {};\n"})
        process = subprocess.Popen([place / "afloat", "hub"], env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline().startswith("ready ")
            assert set(fronts(home)) == {"built", "plain"}
            assert home.http("GET", fronts(home)["built"]["url"]).body == b"export default 'built';\n"
            (d,) = [d for d in diagnostics(home, "needy") if d["code"] == "FRONT_BUILD_FAILED"]
            assert "no compiler" in d["message"] and "install esbuild" in d["hint"]
            assert home.json("tool", "run", "works", "{}")["output"] == "yes"
        finally:
            process.terminate()
            process.wait(DEADLINE)
    finally:
        shutil.rmtree(place)


def test_a_page_reports_what_it_could_not_load(home, hub):
    put(home, "demo", {"front/index.js": "export default {};\n"})
    home.ok("reload")
    events = Events(home)

    def report(**more):
        return json.loads(home.ok("api", "POST", "/front/demo/report", json.dumps(more)))

    problem = {"code": "FRONT_LOAD_FAILED", "message": "x is not defined", "line": 3}
    clash = {"code": "OUTPUT_CONFLICT", "message": "panel 'main' belongs to 'other'"}
    assert report(revision=1, diagnostics=[problem, clash], needs="provider 'theme' changed") == {"taken": True}
    event = events.wait("plugin.error")
    assert event["plugin"] == "demo" and event["source"] == "front" and event["message"] == "x is not defined"
    event = events.wait("plugin.needs")
    assert (event["plugin"], event["kind"], event["reason"]) == ("demo", "page-reload", "provider 'theme' changed")
    row = home.json("plugin", "show", "demo")
    assert row["front_error"] == "x is not defined"
    assert [d["code"] for d in row["diagnostics"]] == ["FRONT_LOAD_FAILED", "OUTPUT_CONFLICT"]
    assert {o["kind"]: o for o in row["outputs"]}["front"]["needs"] == "page-reload"
    assert report(revision=7, diagnostics=[]) == {"taken": False}, "of another revision"
    assert home.json("plugin", "show", "demo")["front_error"] == "x is not defined"
    assert report(revision=1) == {"taken": True}
    row = home.json("plugin", "show", "demo")
    assert row["front_error"] is None and row["diagnostics"] == []
    assert home.cli("api", "POST", "/front/nobody/report", '{"revision": 1}').returncode == 3


def test_a_new_version_forgets_what_was_said_of_the_old(home, hub):
    put(home, "demo", {"front/index.js": "export default {};\n"})
    home.ok("reload")
    home.ok("api", "POST", "/front/demo/report", '{"revision": 1, "diagnostics": [{"message": "broken"}]}')
    assert home.json("plugin", "show", "demo")["front_error"] == "broken"
    put(home, "demo", {"front/index.js": "export default { ok: 1 };\n"})
    home.ok("reload")
    row = home.json("plugin", "show", "demo")
    assert row["front_error"] is None and row["diagnostics"] == []


def test_the_page_state_is_replaced_but_for_preserved_keys(home, hub):
    def state(method="GET", body=None):
        return json.loads(home.ok("api", method, "/ui/state", *([json.dumps(body)] if body is not None else [])))

    put(home, "keeps", {"init.lua": "preserve_ui('pending')"})
    home.ok("reload")
    assert state() == {}
    assert state("PUT", {"panels": ["a"], "pending": 1, "kind": "x"}) == {"panels": ["a"], "pending": 1, "kind": "x"}
    assert state("PUT", {"panels": []}) == {"panels": [], "pending": 1}
    assert state("PUT", {"pending": None}) == {"pending": None}, "a key that is named is replaced"
    (home.dir / "plugins/keeps/init.lua").write_text("-- nothing\n")
    home.ok("reload")
    assert state("PUT", {"a": 1}) == {"a": 1}
    assert json.loads(home.ok("tool", "run", "ui_state", "{}", "--json"))["output"] == '{"a":1}'


def test_a_command_waits_for_the_page_to_say_what_came_of_it(home, hub):
    events = Events(home)
    tool = home.popen("tool", "run", "ui_command", '{"kind": "open_panel", "params": {"panel": "demo.main"}}', "--json")
    event = events.wait("ui.command")
    assert event["kind"] == "open_panel" and event["params"] == {"panel": "demo.main"}
    home.ok("api", "POST", f"/ui/command/{event['command']}", '{"result": {"opened": "demo.main"}}')
    out = json.loads(tool.communicate(timeout=DEADLINE)[0])
    assert out["success"] is True and json.loads(out["output"]) == {"opened": "demo.main"}
    api = home.popen("api", "POST", "/ui/command", '{"kind": "open_panel", "params": {"panel": "none"}}')
    event = events.wait("ui.command")
    home.ok("api", "POST", f"/ui/command/{event['command']}", '{"error": "there is no panel \'none\'"}')
    out = json.loads(api.communicate(timeout=DEADLINE)[0])
    assert out["code"] == "CONFLICT" and out["detail"] == "there is no panel 'none'"
    assert json.loads(home.ok("api", "POST", f"/ui/command/{event['command']}", "{}")) == {"taken": False}


def test_a_command_without_a_page_says_so(home, hub):
    done = home.cli("api", "POST", "/ui/command", '{"kind": "notify", "params": {"text": "hi"}}')
    assert done.returncode == 7 and "no open page" in done.stdout
    done = home.cli("api", "POST", "/ui/command", '{"kind": "notfy"}')
    assert done.returncode == 1 and "notify" in done.stdout


def test_the_compiler_starts_with_the_first_build_and_is_used_again(home, hub):
    def compilers():
        found = subprocess.run(["pgrep", "-P", str(hub.pid), "-f", "esbuild"], capture_output=True, text=True)
        return found.stdout.split()

    put(home, "plain", {"front/index.js": "export default {};\n"})
    home.ok("reload")
    assert compilers() == [], "nothing needs it"
    put(home, "demo", {"front/index.tsx": "export default {};\n"})
    home.ok("reload")
    first = compilers()
    assert len(first) == 1
    put(home, "demo", {"front/index.tsx": "export default { a: 1 };\n"})
    home.ok("reload")
    assert compilers() == first
    os.kill(int(first[0]), 9)
    put(home, "demo", {"front/index.tsx": "export default { a: 2 };\n"})
    home.ok("reload")
    assert b"a: 2" in home.http("GET", fronts(home)["demo"]["url"]).body, "one that died is started again"


def test_validate_and_test_compile_the_web_side(home, hub, cli):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label: string = "total ";\n',
                       "init.lua": 'tool { name = "t", description = "d", run = function() return 1 end }\n',
                       "test.lua": 'test("adds", function(t) t.equal(1 + 1, 2) end)\n'})
    home.ok("reload")
    place = home.dir / "plugins/demo"
    good = home.json("plugin", "validate", str(place))
    assert good["tools"] == ["t"] and good["front"] == "front/index.tsx" and good["diagnostics"] == []
    assert "front/index.tsx" in home.ok("plugin", "validate", "demo")
    home.ok("plugin", "test", "demo")
    (place / "front/label.ts").write_text("export const label = ;\n")
    for command in ("validate", "test"):
        done = cli("plugin", command, str(place))
        assert done.returncode == 1, done.stdout
        assert "FRONT_BUILD_FAILED: front/label.ts:1: " in done.stderr, done.stderr


def test_a_plugin_with_a_web_side_alone_is_valid(home, hub):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "";\n'})
    good = home.json("plugin", "validate", str(home.dir / "plugins/demo"))
    assert (good["name"], good["hooks"], good["tools"], good["front"]) == ("demo", [], [], "front/index.tsx")


def test_the_page_begins_to_load_modules_with_itself(home, hub, http):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "";\n'})
    home.ok("reload")
    row = fronts(home)["demo"]
    html = http("GET", "/").body.decode()
    assert f'<link rel="modulepreload" fetchpriority="low" href="{row["url"]}">' in html
    assert html.index("importmap") < html.index(row["url"]), "a map after a module is refused"


def test_the_list_says_whether_a_page_reported_something(home, hub):
    put(home, "demo", {"front/index.tsx": PANEL, "front/label.ts": 'export const label = "";\n'})
    home.ok("reload")
    assert fronts(home)["demo"]["reported"] is False
    report = {"revision": 1, "diagnostics": [{"code": "FRONT_LOAD_FAILED", "message": "no"}]}
    home.http("POST", "/front/demo/report", json.dumps(report).encode())
    assert fronts(home)["demo"]["reported"] is True
    home.http("POST", "/front/demo/report", b'{"revision": 1}')
    assert fronts(home)["demo"]["reported"] is False, "a page that loads it well takes it back"
