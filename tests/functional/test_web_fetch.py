"""The tool web_fetch against a server of our own: what it reads, what it refuses."""
import gzip
import http.server
import json
import threading

import pytest

from conftest import retry
from test_agent import Session, call
from test_task import use

PAGE = """<!doctype html><html><head><title>A page</title><style>p {}</style></head>
<body><h1>Hello &amp; welcome</h1><p>Read <a href="more.html">more</a>.</p><script>evil()</script></body></html>"""


@pytest.fixture
def web():
    """A server with `pages`: path -> (status, headers, body); what was asked is in `seen`."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.server.seen.append((self.path, dict(self.headers)))
            status, headers, body = self.server.pages.get(self.path, (404, {"Content-Type": "text/plain"}, b"no such page"))
            if body is None:  # never
                self.server.stop.wait(60)
                return
            self.send_response(status)
            for k, v in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(k, v)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.seen, server.stop = [], threading.Event()
    server.pages = {"/page": (200, {"Content-Type": "text/html; charset=utf-8"}, PAGE.encode())}
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch(home, tmp_path, start_hub):
    """What the tool answers for an address: the event tool.completed."""
    def run(*urls, config="[web_fetch]\nprivate = true\n", **params):
        (home.dir / "config.toml").write_text(config)
        if not run.started:
            start_hub()
        call(home, "POST", "/reload", {})
        run.started = True
        s = Session(home, tmp_path / "work", [use("web_fetch", url=u) for u in urls] + [{"text": "ok"}],
                    **{"permission": "auto", "network": True, **params})
        run.last = s
        s.ask()
        done = s.events("tool.completed")
        return done[0] if len(done) == 1 else done
    run.started = False
    return run


def test_a_page_comes_as_markdown(fetch, web):
    done = fetch(web.url + "/page")
    assert done["success"] and done["output"] == f"# A page\n\n# Hello & welcome\n\nRead [more]({web.url}/more.html).\n"
    path, headers = web.seen[0]
    assert path == "/page" and headers["User-Agent"].startswith("afloat/") and "Cookie" not in headers


@pytest.mark.parametrize("type, body, text", [
    ("application/json", b'{"a": 1}', '{"a": 1}'),
    ("application/vnd.x+json; charset=utf-8", b"[]", "[]"),
    ("text/plain", b"<b>as it is</b>", "<b>as it is</b>"),
    ("text/plain; charset=ISO-8859-1", b"Gr\xfc\xdfe \x80", "Grüße €"),
    ("text/plain", b"bad \xff byte", "bad \ufffd byte"),
    ("", b"no type", "no type"),
])
def test_text_comes_as_it_is(fetch, web, type, body, text):
    web.pages["/x"] = (200, {"Content-Type": type} if type else {}, body)
    done = fetch(web.url + "/x")
    assert done["success"] and done["output"] == text


def test_what_is_no_text_is_said(fetch, web):
    web.pages["/x.png"] = (200, {"Content-Type": "image/png"}, b"\x89PNG\0\0")
    web.pages["/gz"] = (200, {"Content-Type": "text/html", "Content-Encoding": "gzip"}, gzip.compress(b"x"))
    picture, packed, missing, odd = fetch(web.url + "/x.png", web.url + "/gz", web.url + "/none", "ftp://127.0.0.1/")
    assert picture["error"] == "the answer is image/png, 6 bytes: only text can be read"
    assert "compressed its answer (gzip)" in packed["error"]
    assert missing["error"] == "the server answered with status 404" and missing["output"] == "no such page"
    assert "'url' must be a plain http:// or https:// address" in odd["error"]


def test_a_long_page_is_in_a_file(fetch, web):
    web.pages["/long"] = (200, {"Content-Type": "text/html"}, b"".join(b"<p>paragraph %d</p>" % i for i in range(20000)))
    done = fetch(web.url + "/long")
    assert done["success"] and len(done["output"]) < 40000
    assert done["output"].startswith("paragraph 0\n\n") and done["output"].endswith("paragraph 19999\n")
    kept = fetch.last.home.dir / "sessions" / fetch.last.id / "outputs" / f"{done['call_id']}.txt"
    assert kept.read_text().count("paragraph") == 20000 and str(kept) in done["output"]


def test_a_page_that_is_too_large(fetch, web):
    web.pages["/big"] = (200, {"Content-Type": "text/plain"}, b"x" * (6 << 20))
    assert "(web_fetch reads up to 5 MiB)" in fetch(web.url + "/big")["error"]


def test_redirects_stay_on_the_host(fetch, web):
    web.pages["/a"] = (302, {"Location": "/b"}, b"")
    web.pages["/b"] = (301, {"Location": "page"}, b"")
    web.pages["/loop"] = (302, {"Location": "/loop"}, b"")
    web.pages["/away"] = (302, {"Location": f"http://localhost:{web.server_port}/page"}, b"")
    web.pages["/odd"] = (302, {"Location": "file:///etc/passwd"}, b"")
    near, loop, away, odd = fetch(*(web.url + p for p in ("/a", "/loop", "/away", "/odd")))
    assert near["success"] and "# Hello" in near["output"]
    assert "more than 10 redirects" in loop["error"] and len([p for p, _ in web.seen if p == "/loop"]) == 11
    assert away["error"] == f"it redirects to another host: fetch http://localhost:{web.server_port}/page instead"
    assert "no http or https URL" in odd["error"] and [p for p, _ in web.seen].count("/page") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "[::1]",
                                  "[::ffff:127.0.0.1]"])
def test_this_machine_is_out_of_reach(fetch, web, host):
    done = fetch(f"http://{host}:{web.server_port}/page", config="")
    assert not done["success"] and web.seen == [], done
    assert "is of this machine or its networks ([web_fetch] private = true allows that)" in done["error"]


@pytest.mark.parametrize("host", ["10.1.2.3", "192.168.0.1", "169.254.169.254", "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]"])
def test_networks_are_out_of_reach(fetch, host):
    assert "is of this machine or its networks" in fetch(f"http://{host}/latest/meta-data/", config="")["error"]


def test_a_project_does_not_open_the_network(home, fetch, web, tmp_path):
    (tmp_path / "work" / ".afloat").mkdir(parents=True)
    (tmp_path / "work" / ".afloat" / "config.toml").write_text("[web_fetch]\nprivate = true\n")
    home.ok("trust", str(tmp_path / "work"))
    assert not fetch(web.url + "/page", config="")["success"] and web.seen == []


@pytest.mark.parametrize("mode", ["plan", "deny"])
def test_modes_that_allow_nothing(fetch, web, mode):
    assert "denied by policy" in fetch(web.url + "/page", permission=mode)["error"] and web.seen == []


@pytest.mark.parametrize("params", [{"permission": "ask"}, {"permission": "edits"}, {"permission": "auto", "network": False}])
def test_it_asks_and_remembers_the_host(home, fetch, web, params):
    fetch(web.url + "/page", **params)
    s = fetch.last
    pending = s.call("GET")["pending"][0]
    host = f"127.0.0.1:{web.server_port}"
    assert pending["call"]["input"] == {"url": web.url + "/page"} and web.seen == []
    assert [(o["remember"], o["covers"]) for o in pending["offers"]] == [
        ("once", "this call only"), ("exact", f"this address in this project: {web.url}/page"),
        ("prefix", f"every page of this host in this project: {host}"),
        ("tool", "every web page in this session"), ("project", "every web page in this project, in all sessions")]
    s.call("POST", f"/permission/{pending['request_id']}", {"decision": "allow", "remember": "prefix"})
    s.wait_for("turn.completed")
    assert fetch(web.url + "/other", web.url + "/page", **params)[1]["success"]


def test_rules_of_the_configuration(fetch, web):
    rules = '[[permission]]\ntool = "web_fetch"\nmatch = "127.0.0.*"\ndecision = "{}"\n[web_fetch]\nprivate = true\n'
    assert "rule " in fetch(web.url + "/page", config=rules.format("deny"))["error"]
    port = rules.replace("127.0.0.*", f"127.0.0.1:{web.server_port}")
    assert fetch(web.url + "/page", config=port.format("allow"), permission="ask")["success"]


def test_an_interrupt_ends_it(home, fetch, web, tmp_path):
    web.pages["/slow"] = (200, {}, None)
    (home.dir / "config.toml").write_text("[web_fetch]\nprivate = true\n")
    fetch(web.url + "/page")
    s = Session(home, tmp_path / "work", [use("web_fetch", url=web.url + "/slow"), {"text": "never"}], permission="auto", network=True)
    s.send()
    retry(lambda: any(p == "/slow" for p, _ in web.seen))
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert s.events("tool.completed")[0]["error"] == "interrupted"


def test_without_a_session(home, fetch, web):
    fetch(web.url + "/page")
    refused = home.http("POST", "/tool/web_fetch", json.dumps({"input": {"url": web.url + "/page"}}).encode())
    assert refused.status == 403 and b"needs approval" in refused.body
    (home.dir / "config.toml").write_text("[web_fetch]\nprivate = true\n[sandbox]\nnetwork = true\n")
    call(home, "POST", "/reload", {})
    done = call(home, "POST", "/tool/web_fetch", {"input": {"url": web.url + "/page"}})
    assert done["success"] and "# Hello" in done["output"]
