"""`afloat mcp`, the bridge on stdin and stdout, and `afloat mcp install`."""
import json
import os
import signal
import subprocess
import tomllib

import pytest
from conftest import read_line, read_until
from mcp_rig import LATEST, META, MODERN

TOOL = 'tool { name = "%s", description = "says", run = function() return "%s" end }\n'
SLOW = """tool { name = "slow", description = "waits", run = function(ctx)
  ctx.progress("begun")
  timer.sleep(60)
end }
"""


def plugin(home, name, text):
    file = home.dir / "plugins" / f"{name}.lua"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


class Bridge:
    def __init__(self, home, version=LATEST):
        self.process = home.popen("mcp", stdin=subprocess.PIPE)
        self.last = 0
        self.notes = []
        if version:
            hello = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "t", "version": "1"})
            assert hello["result"]["protocolVersion"] == version
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")

    def read(self):
        return json.loads(read_line(self.process.stdout))

    def send(self, method, **params):
        self.last += 1
        self.write({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        return self.last

    def answer(self, id):
        while True:
            message = self.read()
            if message.get("id") == id:
                return message
            self.notes.append(message)

    def ask(self, method, **params):
        return self.answer(self.send(method, **params))

    def note(self):
        return self.notes.pop(0) if self.notes else self.read()

    def names(self):
        return [t["name"] for t in self.ask("tools/list")["result"]["tools"] if not t["name"].startswith("afloat_")]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        assert not self.process.stderr.read()


def test_lines_written_before_the_handshake_is_answered_wait_for_it(home, hub):
    plugin(home, "says", TOOL % ("hi", "hello"))
    home.ok("reload")
    hello = {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [{"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
             {"id": 2, "method": "ping"}, {"id": 3, "method": "tools/call", "params": {"name": "hi", "arguments": {}}}]
    done = home.cli("mcp", input="".join(json.dumps({"jsonrpc": "2.0", **m}) + "\n" for m in lines))
    answers = {m["id"]: m for m in map(json.loads, done.stdout.splitlines()) if "id" in m}
    assert list(answers)[0] == 1 and answers[1]["result"]["protocolVersion"] == LATEST
    assert answers[2]["result"] == {} and answers[3]["result"]["content"][0]["text"] == "hello"
    # one that is refused lets them go, too
    lines[0]["params"] = {}
    done = home.cli("mcp", input="".join(json.dumps({"jsonrpc": "2.0", **m}) + "\n" for m in lines))
    answers = {m["id"]: m for m in map(json.loads, done.stdout.splitlines()) if "id" in m}
    assert set(answers) == {1, 2, 3} and all("error" in m for m in answers.values())



def modern(capabilities=None):
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}}


def test_the_bridge_starts_the_hub_and_passes_messages_on(home):
    plugin(home, "a", TOOL % ("hi", "hello"))
    bridge = Bridge(home)
    assert bridge.names() == ["hi"]
    assert bridge.ask("tools/call", name="hi")["result"]["content"][0]["text"] == "hello"
    plugin(home, "b", TOOL % ("ho", "there"))
    assert bridge.note() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}
    assert bridge.names() == ["hi", "ho"]
    bridge.close()


def test_answers_that_are_on_their_way_are_still_given_at_the_end(home):
    plugin(home, "a", TOOL % ("hi", "hello"))
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hi", "_meta": modern()}}]
    done = home.cli("mcp", input="".join(json.dumps(x) + "\n" for x in lines))
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "hello"


def test_the_bridge_outlives_the_hub_and_lists_again(home):
    plugin(home, "a", TOOL % ("hi", "hello"))
    bridge = Bridge(home)
    assert bridge.names() == ["hi"]
    home.kill_hub(signal.SIGKILL)
    gone = bridge.ask("tools/list")
    assert gone["error"]["code"] == -32603 and "afloat start" in gone["error"]["message"]
    plugin(home, "a", TOOL % ("other", "hello"))
    home.ok("start")
    assert sorted(bridge.note()["method"] for _ in range(3)) == [
        "notifications/prompts/list_changed", "notifications/resources/list_changed",
        "notifications/tools/list_changed"]
    assert bridge.names() == ["other"]
    plugin(home, "b", TOOL % ("more", "x"))  # and changes are told as before
    assert bridge.note()["method"] == "notifications/tools/list_changed"
    bridge.close()


def test_a_call_that_the_hub_does_not_survive_fails_and_others_go_on(home):
    plugin(home, "a", SLOW + TOOL % ("hi", "hello"))
    bridge = Bridge(home)
    slow = bridge.send("tools/call", name="slow", _meta={"progressToken": 1})
    assert bridge.note()["method"] == "notifications/progress"
    home.kill_hub(signal.SIGKILL)
    assert bridge.answer(slow)["error"]["code"] == -32603
    home.ok("start")
    for _ in range(3):
        bridge.note()
    assert bridge.ask("tools/call", name="hi")["result"]["content"][0]["text"] == "hello"
    bridge.close()


def test_the_stateless_era_over_stdio_with_a_subscription_that_outlives_the_hub(home):
    plugin(home, "a", SLOW + TOOL % ("hi", "hello"))
    plugin(home, "region", """tool { name = "region", description = "d", input = {
      region = { type = "string", ["x-mcp-header"] = "Region" } }, run = function(_, i) return i.region end }""")
    bridge = Bridge(home, version=None)
    eu = bridge.ask("tools/call", name="region", arguments={"region": "eu"}, _meta=modern())  # stdio has no headers
    assert eu["result"]["content"][0]["text"] == "eu"
    assert MODERN in bridge.ask("server/discover", _meta=modern())["result"]["supportedVersions"]
    sub = bridge.send("subscriptions/listen", _meta=modern(), notifications={"toolsListChanged": True})
    assert bridge.note()["method"] == "notifications/subscriptions/acknowledged"
    slow = bridge.send("tools/call", name="slow", _meta={**modern(), "progressToken": 1})
    assert bridge.note()["method"] == "notifications/progress"
    bridge.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
    assert bridge.ask("tools/call", name="hi", _meta=modern())["result"]["content"][0]["text"] == "hello"
    home.kill_hub(signal.SIGKILL)
    home.ok("start")
    told = bridge.note()
    assert told["method"] == "notifications/tools/list_changed"
    assert told["params"]["_meta"][META + "subscriptionId"] == sub
    plugin(home, "b", TOOL % ("ho", "x"))
    assert bridge.note()["method"] == "notifications/tools/list_changed"
    bridge.close()


def test_garbage_on_stdin_is_answered_and_changes_nothing(home):
    plugin(home, "a", TOOL % ("hi", "hello"))
    bridge = Bridge(home)
    for line, code in ((b"{", -32700), (b"[]", -32600), (b"7", -32600), (b'{"jsonrpc":"2.0","id":5}', -32600)):
        bridge.write(line)
        assert bridge.read()["error"]["code"] == code
    bridge.write(b"")
    bridge.write({"jsonrpc": "2.0", "id": 99, "result": {}})  # an answer that nobody waits for
    assert bridge.names() == ["hi"]
    bridge.close()


# ---- install --------------------------------------------------------------------

FILES = {"claude": (".claude.json", "mcpServers"), "cursor": (".cursor/mcp.json", "mcpServers"),
         "vscode": (".config/Code/User/mcp.json", "servers"), "zed": (".config/zed/settings.json", "context_servers")}


def install(home, client, tmp_path, answer=b"y\n", meanwhile=lambda: None):
    process, terminal = home.on_terminal("mcp", "install", client, env={"HOME": str(tmp_path)})
    read_until(terminal, rb"\[y/N\]")
    meanwhile()
    os.write(terminal.fileno(), answer)
    try:
        while terminal.read(4096):
            pass
    except OSError:
        pass  # the end of a terminal
    return process.wait(30)


@pytest.mark.parametrize("client", FILES)
def test_install_adds_a_server_and_keeps_everything_else(home, tmp_path, client):
    path, key = FILES[client]
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"theme": "dark", key: {"other": {"command": "x"}}, "n": [1, 2.5]}))
    assert install(home, client, tmp_path) == 0
    now = json.loads(file.read_text())
    assert now["theme"] == "dark" and now["n"] == [1, 2.5] and now[key]["other"] == {"command": "x"}
    server = now[key]["afloat"]
    assert server["args"] == ["mcp"] and os.path.isabs(server["command"])
    assert server["env"] == {"AFLOAT_HOME": str(home.dir)}
    assert json.loads((file.parent / (file.name + ".afloat-backup")).read_text())["theme"] == "dark"
    again = home.cli("mcp", "install", client, env={"HOME": str(tmp_path)})
    assert again.returncode == 0 and "already" in again.stderr
    printed = json.loads(home.ok("mcp", "install", client, "--print", env={"HOME": str(tmp_path)}))
    assert printed[key]["afloat"] == server


def test_install_for_codex_appends_a_table(home, tmp_path):
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('model = "x" # mine')
    assert install(home, "codex", tmp_path) == 0
    assert file.read_text().startswith('model = "x" # mine\n\n[mcp_servers.afloat]\ncommand = "')
    assert home.cli("mcp", "install", "codex", env={"HOME": str(tmp_path)}).returncode == 0  # nothing to do
    file.write_text('[mcp_servers.afloat]\ncommand = "other"\n')
    other = home.cli("mcp", "install", "codex", env={"HOME": str(tmp_path)})
    assert other.returncode == 7 and "by hand" in other.stderr


@pytest.mark.parametrize("text, code, said", [
    ('mcp_servers = { docs = { command = "x" } }\n', 7, "by hand"),
    ('mcp_servers = { afloat = { command = "x" } }\n', 7, "another server"),
    ('[mcp_servers]\nafloat = { command = "x" }\n', 7, "another server"),
    ('[mcp_servers."afloat"]\ncommand = "x"\n', 7, "another server"),
    ('[mcp_servers\n', 1, "not TOML (line 1")])
def test_install_for_codex_leaves_a_file_to_which_no_table_can_be_appended(home, tmp_path, text, code, said):
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    refused = home.cli("mcp", "install", "codex", env={"HOME": str(tmp_path)})  # before it asks
    assert refused.returncode == code and said in refused.stderr, refused
    assert file.read_text() == text


def test_install_for_codex_passes_over_a_comment(home, tmp_path):
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('# [mcp_servers.afloat]\n[mcp_servers.docs]\ncommand = "x"\n')
    assert install(home, "codex", tmp_path) == 0
    assert set(tomllib.loads(file.read_text())["mcp_servers"]) == {"docs", "afloat"}


@pytest.mark.parametrize("before", [None, '{"theme": "dark"}'])
def test_install_keeps_what_the_client_writes_while_the_question_stands(home, tmp_path, before):
    file, saved = tmp_path / ".claude.json", '{"theme": "light"}'
    if before:
        file.write_text(before)
    assert install(home, "claude", tmp_path, meanwhile=lambda: file.write_text(saved)) == 7
    assert file.read_text() == saved and list(tmp_path.iterdir()) == [file]
    assert install(home, "claude", tmp_path) == 0 and json.loads(file.read_text())["theme"] == "light"


@pytest.mark.parametrize("client, variable, path", [
    ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"), ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ("zed", "XDG_CONFIG_HOME", "zed/settings.json"), ("codex", "CODEX_HOME", "config.toml")])
def test_install_finds_files_that_are_kept_elsewhere(home, tmp_path, client, variable, path):
    for moved, place in [(str(tmp_path / "moved"), tmp_path / "moved" / path), ("", tmp_path), ("relative", tmp_path)]:
        shown = home.cli("mcp", "install", client, "--print", env={"HOME": str(tmp_path), variable: moved})
        assert shown.returncode == 0 and f", in {place}" in shown.stderr


def test_install_changes_nothing_without_a_yes(home, tmp_path):
    file = tmp_path / ".claude.json"
    file.write_text("{}")
    assert install(home, "claude", tmp_path, b"n\n") == 4
    refused = home.cli("mcp", "install", "claude", env={"HOME": str(tmp_path)})
    assert refused.returncode == 4 and "--print" in refused.stderr
    file.write_text("{ // comment\n}")
    commented = home.cli("mcp", "install", "claude", env={"HOME": str(tmp_path)})
    assert commented.returncode == 1 and "not plain JSON" in commented.stderr
    assert file.read_text() == "{ // comment\n}"
    unknown = home.cli("mcp", "install", "curser", env={"HOME": str(tmp_path)})
    assert unknown.returncode == 2 and "'cursor'" in unknown.stderr
    assert list(tmp_path.iterdir()) == [file]
