"""`afloat mcp login`: OAuth with PKCE against a server and an authorization server of the test's own."""
import base64
import hashlib
import http.server
import json
import re
import socket
import stat
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import DEADLINE, read_line, retry
from test_mcp_client import configure, run, servers, wait_state


class Service:
    """An MCP server that wants a token, and the authorization server that gives them."""

    def __init__(self):
        self.codes, self.tokens, self.refresh, self.seen, self.expires_in = {}, set(), set(), [], 3600
        self.heard, self.document, self.answer = [], {}, {}  # headers; what documents and tokens say besides
        self.may_answer = threading.Event()  # the token endpoint
        self.may_answer.set()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def reply(self, status, body=None, **headers):
                raw = json.dumps(body).encode() if body is not None else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("Content-Type", "application/json")
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(raw)

            def do_GET(self):
                url = urllib.parse.urlparse(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                service.seen.append(url.path)
                if url.path == "/meta":
                    self.reply(200, {"resource": service.url, "authorization_servers": [service.base + "/tenant"],
                                     "scopes_supported": ["tools"], **service.document})
                elif url.path == "/.well-known/oauth-authorization-server/tenant":
                    self.reply(200, {"issuer": service.base + "/tenant", "authorization_endpoint": service.base + "/agree",
                                     "token_endpoint": service.base + "/token", "registration_endpoint": service.base + "/clients",
                                     "code_challenge_methods_supported": ["S256"], **service.document})
                elif url.path == "/agree":
                    assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
                    assert query["resource"] == service.url and query["scope"] == "tools" and query["client_id"] == "client-7"
                    service.codes["the-code"] = service.agreed = query
                    back = urllib.parse.urlencode({"code": "the-code", "state": query["state"]})
                    self.reply(302, None, Location=query["redirect_uri"] + "?" + back)
                else:
                    self.reply(404 if url.path != "/mcp" else 405)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                getattr(self, "post_" + self.path.strip("/"))(body)

            def do_DELETE(self):
                self.reply(200)

            def post_clients(self, body):
                assert json.loads(body)["redirect_uris"][0].startswith("http://127.0.0.1:")
                self.reply(201, {"client_id": "client-7"})

            def post_token(self, body):
                form = dict(urllib.parse.parse_qsl(body.decode()))
                if form["grant_type"] == "authorization_code":
                    asked = service.codes.pop(form["code"])
                    digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
                    assert digest.rstrip("=") == asked["code_challenge"] and form["redirect_uri"] == asked["redirect_uri"]
                elif form["refresh_token"] not in service.refresh:
                    self.reply(400, {"error": "invalid_grant"})
                    return
                n = len(service.tokens) + 1
                service.tokens = {f"access-token-{n}"} if form["grant_type"] != "authorization_code" else \
                    service.tokens | {f"access-token-{n}"}
                service.refresh = {f"refresh-token-{n}"}
                service.seen.append(form["grant_type"])
                service.may_answer.wait(30)
                self.reply(200, {"access_token": f"access-token-{n}", "token_type": "Bearer",
                                 "refresh_token": f"refresh-token-{n}", "expires_in": service.expires_in, **service.answer})

            def post_mcp(self, body):
                token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
                service.heard.append(token)
                if token not in service.tokens:
                    self.reply(401, None, WWW_Authenticate=f'Bearer resource_metadata="{service.base}/meta"')
                    return
                m = json.loads(body)
                if "id" not in m:
                    self.reply(202)
                    return
                results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                          "serverInfo": {"name": "far", "version": "1"}},
                           "tools/list": {"tools": [{"name": "hi", "inputSchema": {"type": "object"}}]},
                           "tools/call": {"content": [{"type": "text", "text": "hi there"}]}}
                self.reply(200, {"jsonrpc": "2.0", "id": m["id"], "result": results[m["method"]]})

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}"
        self.url = self.base + "/mcp"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def service():
    s = Service()
    yield s
    s.http.shutdown()


def log_in(home):
    """What a person does: open the printed address, and agree."""
    process = home.popen("mcp", "login", "far")
    address = read_line(process.stdout)
    foreign = urllib.parse.parse_qs(urllib.parse.urlparse(address).query)["redirect_uri"][0] + "?code=evil&state=wrong"
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(foreign, timeout=DEADLINE)  # somebody else on this machine
    assert e.value.code == 400
    assert b"Logged in" in urllib.request.urlopen(address, timeout=DEADLINE).read()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return err.decode()


def test_a_login_gives_the_tools_at_once_and_is_kept_as_a_secret(home, start_hub, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    hub = start_hub()
    assert "afloat mcp login far" in wait_state(home, "far", "failed")["error"]
    assert "logged in to 'far'" in log_in(home)
    wait_state(home, "far")
    assert run(home, "far__hi")["output"] == "hi there"
    assert "mcp.far" in home.ok("secret", "list") and stat.S_IMODE((home.dir / "secrets.json").stat().st_mode) == 0o600
    assert "access-token-1" not in home.log.read_text()
    hub.close()
    start_hub()
    wait_state(home, "far")  # over a restart


def test_a_token_that_has_ended_is_renewed(home, start_hub, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    service.expires_in = 1  # counts as ended from the beginning
    hub = start_hub()
    log_in(home)
    wait_state(home, "far")
    assert service.seen.count("refresh_token") >= 1
    service.expires_in = 3600
    service.tokens.clear()  # the server takes it back
    retry(lambda: run(home, "far__hi").get("success"))
    service.tokens.clear()
    service.refresh.clear()  # and the user's consent
    retry(lambda: "afloat mcp login far" in str(run(home, "far__hi").get("detail")))
    hub.close()


def test_a_login_that_cannot_be_says_why(home, service):
    configure(home, '[mcp.prog]\ncommand = "x"\n[mcp.far]\nurl = "http://127.0.0.1:9/mcp"\n')
    missing = home.cli("mcp", "login", "prog")
    assert missing.returncode == 3 and "no [mcp.prog] with a 'url'" in missing.stderr
    assert home.cli("mcp", "login", "far").returncode == 1


def test_a_login_by_broken_settings_names_the_file(home):
    (home.dir / "config.toml").write_text('[mcp.issues]\nurl = "https://x"\n[oops')
    done = home.cli("mcp", "login", "issues")
    assert done.returncode == 1 and str(home.dir / "config.toml") in done.stderr and "is broken" in done.stderr, done
    assert "has no" not in done.stderr


@pytest.mark.parametrize("document, why", [
    ({"resource": "{base}/m"}, "names another resource"), ({"resource": "http"}, "names another resource"),
    ({"authorization_servers": ["http://192.0.2.1"]}, "no https address"),
    ({"authorization_servers": ["file:///etc"]}, "no https address"),
    ({"authorization_endpoint": "{base}/\x1b]0;owned\x07"}, "no https addresses"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "no https addresses"),
    ({"issuer": "https://another.example"}, "names another issuer"),
    ({"registration_endpoint": "http://192.0.2.1/clients"}, "no https address"),
    ({"code_challenge_methods_supported": ["plain"]}, "no PKCE"),
    ({"authorization_endpoint": 7}, "no https addresses")])
def test_a_document_that_leads_elsewhere_ends_the_login(home, service, document, why):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    service.document = json.loads(json.dumps(document).replace("{base}", service.base))
    done = home.cli("mcp", "login", "far")
    assert done.returncode in (1, 4) and why in done.stderr and done.stdout == ""


def test_a_token_that_is_no_header_is_refused(home, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    service.answer = {"access_token": "abc\r\nX-Evil: 1"}
    process = home.popen("mcp", "login", "far")
    page = urllib.request.urlopen(read_line(process.stdout), timeout=DEADLINE).read()
    assert page.startswith(b"Not logged in: ") and b"gave no token" in page and b"Logged in" not in page
    assert b"gave no token" in process.communicate(timeout=30)[1] and process.returncode == 4
    assert "mcp.far" not in home.ok("secret", "list")


def test_the_page_waits_for_the_token_and_says_what_became_of_it(home, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    process = home.popen("mcp", "login", "far")
    answers = []
    address = read_line(process.stdout)
    visitor = threading.Thread(target=lambda: answers.append(urllib.request.urlopen(address, timeout=30).read()))
    service.may_answer.clear()
    visitor.start()
    retry(lambda: "authorization_code" in service.seen)  # the code is being exchanged
    query = service.agreed
    again = query["redirect_uri"] + "?" + urllib.parse.urlencode({"code": "the-code", "state": query["state"]})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(again, timeout=10)  # a code is taken once
    assert answers == []
    service.may_answer.set()
    visitor.join(30)
    assert answers == [b"Logged in. You can close this page.\n"]
    assert process.wait(30) == 0


def test_visitors_of_the_callback_keep_the_login_from_nothing(home, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    process = home.popen("mcp", "login", "far")
    address = read_line(process.stdout)
    back = urllib.parse.parse_qs(urllib.parse.urlparse(address).query)["redirect_uri"][0]
    held = [socket.create_connection(("127.0.0.1", urllib.parse.urlparse(back).port)) for _ in range(20)]
    held[0].sendall(b"GET /callb")
    assert b"Logged in" in urllib.request.urlopen(address, timeout=DEADLINE).read()
    process.communicate(timeout=30)
    assert process.returncode == 0
    for s in held:
        s.close()


def test_a_login_is_sent_only_to_the_address_that_it_was_given_for(home, start_hub, service):
    configure(home, f'[mcp.far]\nurl = "{service.url}"\n')
    start_hub()
    log_in(home)
    wait_state(home, "far")
    other = Service()
    configure(home, f'[mcp.far]\nurl = "{other.url}"\n')
    retry(lambda: other.heard and servers(home)["far"]["state"] == "failed")
    other.http.shutdown()
    assert set(other.heard) == {""}
    shown = home.ok("mcp", "show", "far", "--json") + home.ok("config", "show") + home.log.read_text()
    assert not re.search("(access|refresh)-token-[0-9]", shown)
