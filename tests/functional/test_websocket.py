"""The Lua modules websocket and action_cable, against a server made with the library `ws`."""
import shutil
import subprocess

import pytest

import peers
from conftest import retry


@pytest.fixture
def serve():
    """Start ws_server.mjs; returns its port."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = peers.script("ws_server.mjs")
    running = []

    def serve(*args):
        running.append(subprocess.Popen(["node", str(script), *args], stdout=subprocess.PIPE, text=True))
        return int(running[-1].stdout.readline())
    yield serve
    for p in running:
        p.kill()
        p.wait()
        p.stdout.close()


def put(home, text, name="talker.lua"):
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / name).write_text(text)
    report = home.json("reload")
    assert report["ok"], report


def said(home, name="talker"):
    return [line["text"] for line in home.json("plugin", "logs", name)["lines"]]


def wait_for(home, *texts):
    return retry(lambda: all(any(t in line for line in said(home)) for t in texts) and said(home))


SOCKET = """
local id
id = websocket.connect("ws://127.0.0.1:%d%s", {
  headers = { ["X-Key"] = "k" },
  on_open = function() log.info("open") websocket.send(id, "hello") end,
  on_message = function(data, binary)
    log.info((binary and "bytes " or "text ") .. #data .. " " .. data:sub(1, 80))
    %s
  end,
  on_close = function(code, reason) log.info("close " .. code .. " " .. reason) end,
  on_error = function(message) log.info("error " .. message) end,
})
route("POST", "/send", function(req)
  local ok, why = websocket.send(id, req.body)
  return { ok = ok or false, why = why }
end)
route("POST", "/bytes", function() return { ok = websocket.send(id, "\\0\\255\\1", true) } end)
route("POST", "/close", function() return { ok = websocket.close(id, 4002, "enough") } end)
"""


def post(home, path, body=b"x"):
    return home.http("POST", f"/api/plugins/talker/{path}", body).json()


def test_messages_go_both_ways(home, hub, serve):
    put(home, SOCKET % (serve("echo"), "/chat?room=1", ""))
    lines = wait_for(home, "text 5 hello")
    assert lines[0] == "open"
    assert '"url":"/chat?room=1"' in lines[1] and '"key":"k"' in lines[1]
    assert post(home, "bytes")["ok"]
    wait_for(home, "bytes 3 ")
    big = b"y" * 300000
    assert post(home, "send", big)["ok"]
    wait_for(home, f"text {len(big)} ")
    assert post(home, "close")["ok"]
    wait_for(home, "close 4002 ")
    assert post(home, "send") == {"ok": False, "why": "websocket.send: it is not open"}


def test_a_close_of_the_server_has_its_code_and_reason(home, hub, serve):
    put(home, SOCKET % (serve("echo"), "/", 'if data == "hello" then websocket.send(id, "bye") end'))
    wait_for(home, "close 4001 as you wish")
    assert not any(line.startswith("error") for line in said(home))


def test_a_connection_that_breaks_is_an_error_and_a_close(home, hub, serve):
    put(home, SOCKET % (serve("echo"), "/", 'if data == "hello" then websocket.send(id, "die") end'))
    wait_for(home, "error ", "close 1006 ")


def test_a_close_behind_more_messages_than_the_queue_takes_is_told(home, hub, serve):
    port = serve("echo")
    put(home, """
local id, go
id = websocket.connect("ws://127.0.0.1:%d/", {
  on_open = function() log.info("open") websocket.send(id, "flood") end,
  on_message = function() while not go do timer.sleep(0.01) end end,
  on_close = function(code, reason) log.info("close " .. code .. " " .. reason) end,
})
route("POST", "/go", function() go = true return {} end)
""" % port)
    wait_for(home, "open")
    retry(lambda: not connections(port))
    assert any(d["code"] == "LIMIT_REACHED" for d in home.json("plugin", "show", "talker")["diagnostics"])
    post(home, "go")
    wait_for(home, "close 4001 enough")


@pytest.mark.parametrize("url, why", [("/refused", "status 401"), (None, "cannot connect")])
def test_one_that_cannot_be_made_says_why(home, hub, serve, url, why):
    put(home, SOCKET % ((serve("echo"), url, "") if url else (1, "/", "")))
    lines = wait_for(home, "error ", "close 1006 ")
    assert any(why in line for line in lines) and "open" not in lines


def test_a_certificate_that_nobody_trusts_is_refused(home, hub, serve, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
                    "-subj", "/CN=127.0.0.1"], check=True, capture_output=True)
    put(home, (SOCKET % (serve("echo", str(cert), str(key)), "/", "")).replace("ws://", "wss://"))
    lines = wait_for(home, "error ")
    assert any("certificate" in line for line in lines) and "open" not in lines


def test_a_reload_closes_the_old_connection_and_opens_the_new_one(home, hub, serve):
    port = serve("echo")
    put(home, SOCKET % (port, "/one", ""))
    wait_for(home, "/one", "hello")
    put(home, SOCKET % (port, "/two", ""))
    wait_for(home, "/two")
    (home.dir / "plugins" / "talker.lua").unlink()
    home.json("reload")
    retry(lambda: not connections(port))


def connections(port):
    wanted = f"0100007F:{port:04X}"
    rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
    return [r for r in rows if r[2] == wanted and r[3] == "01"]


def test_handlers_run_one_after_another_even_when_they_wait(home, hub, serve):
    put(home, """
local id, inside = nil, 0
id = websocket.connect("ws://127.0.0.1:%d/", {
  on_open = function() for i = 1, 5 do websocket.send(id, "n" .. i) end end,
  on_message = function(data)
    inside = inside + 1
    timer.sleep(0.01)
    log.info(data .. " " .. inside)
    inside = inside - 1
  end,
})
""" % serve("echo"))
    lines = wait_for(home, "n5")
    assert [line for line in lines if line.startswith("n")] == [f"n{i} 1" for i in range(1, 6)]


def test_mistakes_are_refused_where_they_are_made(home, hub):
    for code, why in (('websocket.connect("http://x")', "wss://"), ('websocket.connect("ws://x", {on_mesage = print})', "on_mesage"),
                      ('websocket.connect("ws://x", {on_open = 1})', "function"), ('websocket.connect("ws://x", {headers = 1})', "headers"),
                      ('action_cable.connect{url = "x"}', "wss://"), ('action_cable.subscribe(1, "A", nil, print)', "no such connection")):
        put(home, f'command {{ name = "try", run = function() local ok, why = {code} return tostring(ok) .. " " .. tostring(why) end }}')
        done = home.cli("talker:try")
        assert why in done.stdout + done.stderr, (code, done)


def test_another_plugins_connection_is_out_of_reach(home, hub, serve):
    put(home, SOCKET % (serve("echo"), "/", ""))
    wait_for(home, "hello")
    put(home, """command { name = "steal", run = function()
      local n = 0
      for id = 1, 5000 do if websocket.send(id, "x") or websocket.close(id) then n = n + 1 end end
      return n
    end }""", "thief.lua")
    assert home.ok("thief:steal").strip() == "0"


CABLE = """
local conn = action_cable.connect { url = "ws://127.0.0.1:%d/cable",
  on_open = function() log.info("open") end,
  on_close = function(code) log.info("close " .. code) end,
}
local room = action_cable.subscribe(conn, "Room", { id = 7 }, function(message, ch)
  log.info("room " .. json.encode(message))
end)
local secret = action_cable.subscribe(conn, "Secret", function() log.info("never") end)
route("POST", "/perform", function(req)
  local ok, why = action_cable.perform(room, req.body, { text = "hi" })
  return { ok = ok or false, why = why }
end)
route("POST", "/leave", function() return { ok = action_cable.unsubscribe(room) } end)
route("POST", "/close", function() return { ok = action_cable.close(conn) } end)
"""


def test_channels_of_action_cable(home, hub, serve):
    put(home, CABLE % serve("cable"))
    lines = wait_for(home, '"hello":"Room"')
    assert lines[0] == "open" and '"id":7' in "".join(lines) and "never" not in lines
    assert post(home, "perform", b"speak")["ok"]
    wait_for(home, '"did":"speak"')
    assert any("rejected" in d["message"] for d in home.json("plugin", "show", "talker")["diagnostics"])
    assert post(home, "leave")["ok"]
    assert post(home, "perform", b"speak") == {"ok": False, "why": "action_cable.perform: the channel is not connected"}
    assert post(home, "close")["ok"]
    wait_for(home, "close 1000")


def test_action_cable_comes_back_with_its_channels(home, hub, serve):
    put(home, CABLE % serve("cable"))
    wait_for(home, '"hello":"Room"')
    assert post(home, "perform", b"drop")["ok"]
    retry(lambda: sum('"hello":"Room"' in line for line in said(home)) == 2)
    assert said(home).count("open") == 2 and "close 1006" in "".join(said(home))


def test_improvements_have_neither(home, hub):
    (home.dir / "lua" / "improvements").mkdir(parents=True)
    (home.dir / "lua" / "improvements" / "x.lua").write_text('log.info("ws " .. tostring(websocket) .. " " .. tostring(action_cable))')
    home.json("reload")
    retry(lambda: "ws nil nil" in "".join(said(home, "improvements/x")))
