"""What is wrong with config.toml is said at once, to everybody, and a mistake in what sessions may do lets none begin."""
import socket

import pytest

from conftest import retry
from test_lua import Stream
from test_plugins import CALM, answer, ask, call, calm, configure, put, reload, rows
from test_project_config import project  # noqa: F401 (a fixture)

FAULTS = {  # text, line, a word of the message, whether it is an error
    "broken TOML": ('[[plugins]\npath = "x"\n', 1, "", True),
    "bad value": ('[[plugins]]\npath = "ext/d"\nhot = "nonsense"\n', 3, "hot", True),
    "unknown key of an entry": ('[[plugins]]\npath = "ext/d"\nenbaled = false\n', 3, "did you mean 'enabled'?", False),
    "unknown key": ("listne = \"auto\"\n", 1, "did you mean 'listen'?", False),
    "unknown feature": ("[features]\nplugns = false\n", 2, "did you mean 'plugins'?", False),
    "pattern of a rule": ('[[permission]]\ntool = "nosuch"\nmatch = "x"\ndecision = "deny"\n', 1, "leave 'match' out", True),
    "server without a program or an address": ('[mcp.notes]\ntimeout_s = 5\n', 2, "neither 'command' nor 'url'", True),
    "server with both": ('[mcp.notes]\nurl = "http://b"\ncommand = "a"\n', 3, "both 'command' and 'url'", True),
    "unknown table": ("[wacth]\npoll = true\n", 1, "did you mean 'watch'?", False),
}


def faults(report):
    return [d for d in report["diagnostics"] if d["source"] == "config"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_in_the_report_in_status_and_on_the_stream(home, start_hub, fault):
    text, line, words, error = FAULTS[fault]
    put(home, "ext/d/init.lua", answer(1))
    good = '[[plugins]]\npath = "ext/d"\n'
    configure(home, good)
    start_hub()
    assert not faults(reload(home)) and home.cli("reload").returncode == 0
    stream = Stream(home, "plugin.error")
    configure(home, text)
    said = stream.next()
    assert said["path"].endswith("config.toml") and said["line"] == line and words in said["message"], said
    last = retry(lambda: faults(home.http("GET", "/reload").json()))  # without being asked
    assert len(last) == 1 and last[0]["line"] == line and words in last[0]["message"], last
    report, done, status = reload(home), home.cli("reload"), home.cli("status")
    assert faults(report) == last and report["ok"] == (not error)
    assert done.returncode == (6 if error else 0) and "config.toml" in done.stdout + done.stderr
    assert "config.toml" in status.stdout + status.stderr
    configure(home, good)
    retry(lambda: not faults(home.http("GET", "/reload").json()))
    assert reload(home)["ok"] and ask(home, "d")["v"] == 1


def test_a_fault_that_is_there_at_the_start_is_in_the_report(home, start_hub):
    configure(home, "listen = 7\n")
    start_hub()
    assert retry(lambda: [d["line"] for d in faults(reload(home))]) == [1]


def test_a_rule_without_a_decision_lets_no_session_begin(home, start_hub):
    configure(home, '[[permission]]\ntool = "shell"\n')
    start_hub()
    status, no = call(home, "POST", "/session", {})
    assert status == 409 and "config.toml:1" in no["detail"], no
    assert "the whole file is ignored" in retry(lambda: faults(reload(home)))[0]["hint"]


def test_a_pattern_that_is_wrong_at_the_start_is_in_the_report_and_lets_no_session_begin(home, start_hub):
    configure(home, '[[permission]]\ntool = "shell"\nmatch = ""\ndecision = "allow"\n')
    start_hub()
    fault = retry(lambda: faults(reload(home)))[0]
    assert fault["severity"] == "error" and fault["line"] == 1 and "no session starts" in fault["hint"], fault
    status, no = call(home, "POST", "/session", {})
    assert status == 409 and "config.toml:1" in no["detail"] and "'match'" in no["detail"], no


def test_the_listener_follows_the_file(home, start_hub):
    start_hub()

    def listens(text):
        configure(home, text)
        assert not faults(reload(home))
        return home.http("GET", "/healthz").json()["listen"]

    first = listens('listen = "127.0.0.1:0"\n')
    assert first.startswith("127.0.0.1:")
    assert listens('listen = "[::1]:0"\n').startswith("[::1]:")
    assert listens(f'listen = "{first}"\n') == first, "the port was free again"
    configure(home, 'listen = "192.0.2.1:1"\n')
    assert "behind_proxy" in faults(reload(home))[0]["message"]
    assert home.http("GET", "/healthz").json()["listen"] == first, "what cannot be listened on changes nothing"
    assert listens("") == ""
    with pytest.raises(OSError):
        socket.create_connection(tuple(first.split(":")), timeout=5)


def test_a_port_that_is_taken_leaves_the_listener_and_is_reported(home, start_hub):
    start_hub()
    listen = lambda: home.http("GET", "/healthz").json()["listen"]  # noqa: E731
    first = call(home, "POST", "/open", {})[1]["url"].split("/")[2].split(":")[1]
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_connection(("127.0.0.1", int(first))) as client:
        port = taken.getsockname()[1]
        configure(home, f'# a line\nlisten = "127.0.0.1:{port}"\n')
        fault = retry(lambda: faults(home.http("GET", "/reload").json()))[0]
        assert fault["severity"] == "error" and fault["path"].endswith("config.toml") and fault["line"] == 2, fault
        assert f"'127.0.0.1:{port}'" in fault["message"] and f"still listening on 127.0.0.1:{first}" in fault["message"]
        assert home.cli("reload").returncode == 6 and "still listening" in home.cli("status").stdout
        assert listen() == f"127.0.0.1:{first}"
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost:%s\r\n\r\n" % first.encode())
        assert client.recv(12) == b"HTTP/1.1 200"
    report = reload(home)  # the port is free now, and the file is as it was
    assert report["ok"] and listen() == f"127.0.0.1:{port}", report


def test_a_session_sees_a_file_saved_just_before(home, start_hub):
    calm(home, start_hub)  # the watcher takes its time
    for mode in ("deny", "ask", "plan"):
        configure(home, CALM + f'[session]\npermission = "{mode}"\n')
        assert call(home, "POST", "/session", {})[1]["permission"] == mode


def test_a_reload_sees_a_file_saved_just_before(home, start_hub):
    put(home, "ext/d/init.lua", answer(1))
    calm(home, start_hub)  # the watcher takes its time
    for n in range(3):
        configure(home, CALM + '[[plugins]]\npath = "ext/d"\n')
        assert reload(home)["added"] == ["d"]
        configure(home, "listen = 7\n" + CALM)
        assert [d["line"] for d in faults(reload(home))] == [1]
        configure(home, CALM)
        report = reload(home)
        assert report["removed"] == ["d"] and not faults(report)


STRICT = {
    "[sandbox]\nmod = \"read-only\"\n": "mod",
    "[sandbox]\nmode = \"read-onyl\"\n": "sandbox.mode",
    "[session]\npermision = \"ask\"\n": "permision",
    "[session]\nplugins = 7\n": "session.plugins",
    "[sandbox.deep]\nmode = \"read-only\"\n": "deep",
    "[[permission]]\ntol = \"shell\"\n": "tol",
}


@pytest.mark.parametrize("text", STRICT)
def test_a_mistake_in_what_sessions_may_do_lets_none_begin(home, start_hub, text):
    start_hub()
    status, old = call(home, "POST", "/session", {})
    assert status == 201
    configure(home, "# a line\n" + text)
    retry(lambda: call(home, "POST", "/session", {})[0] != 201)
    status, no = call(home, "POST", "/session", {})
    assert status == 409 and "config.toml:" in no["detail"] and STRICT[text] in no["detail"], no
    line = 2 if STRICT[text] in text.split("\n")[0] else 3
    assert f"config.toml:{line}:" in no["detail"], no
    done = home.cli("chat", "hello")
    assert done.returncode != 0 and f"config.toml:{line}:" in done.stderr, done.stderr
    assert call(home, "POST", f"/session/{old['id']}/message", {"text": "x", "wait": True})[0] == 200, "it goes on"
    configure(home, "# a line\n")
    retry(lambda: call(home, "POST", "/session", {})[0] == 201)


def test_a_mistake_elsewhere_does_not(home, start_hub):
    configure(home, "[wacth]\npoll = true\n")
    start_hub()
    assert call(home, "POST", "/session", {})[0] == 201


def test_a_file_that_is_broken_at_the_start_lets_no_session_begin(home, start_hub):
    """Nothing of it counts then, nor does what it says of sessions; later the last good settings stay."""
    strict = '[session]\npermission = "deny"\n'
    configure(home, strict + "[watch\npoll = true\n")
    start_hub()
    status, no = call(home, "POST", "/session", {})
    assert status == 409 and "config.toml:3:" in no["detail"] and "until this is fixed" in no["detail"], no
    configure(home, strict)
    retry(lambda: call(home, "POST", "/session", {})[0] == 201)
    configure(home, strict + "[watch\npoll = true\n")
    retry(lambda: faults(home.http("GET", "/reload").json()))
    status, s = call(home, "POST", "/session", {})
    assert status == 201 and s["permission"] == "deny", s


def test_a_projects_mistake_lets_no_session_begin_in_it(home, project, start_hub):
    start_hub()
    p = project("[sandbox]\nmod = \"read-only\"\n").trust()
    status, no = call(home, "POST", "/session", {"working_dir": str(p.dir)})
    assert status == 409 and f"{p.file}:2:" in no["detail"] and "mod" in no["detail"], no
    assert call(home, "POST", "/session", {})[0] == 201, "elsewhere they do"


def test_a_provider_without_a_kind_is_none_and_hides_none_of_a_plugin(home, start_hub):
    put(home, "plugins/near/init.lua", 'provider { name = "near", models = { "m" }, stream = function() return "x" end }')
    configure(home, '[providers.bare]\nmodel = "x"\n[providers.near]\nmodel = "y"\n')
    start_hub()
    listed = [p for p in home.http("GET", "/provider").json()["providers"] if p["name"] in ("bare", "near")]
    assert [(p["name"], p["kind"], p["model"]) for p in listed] == [("near", "plugin", "m")], listed
    assert [d["line"] for d in faults(reload(home))] == [2, 4]
    no = home.cli("chat", "-p", "hi", "-m", "bare/x")
    assert no.returncode == 1 and "there is no provider 'bare'" in no.stderr, no.stderr
