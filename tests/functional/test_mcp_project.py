"""The MCP server for a client that works in a project."""
import subprocess

import pytest

from mcp_rig import MODERN, Legacy, Modern
from test_mcp_stdio import Bridge

TOOL = 'tool { name = "%s", description = "says", run = function() return "%s" end }\n'


@pytest.fixture
def place(home, tmp_path):
    """A trusted project with a tool, a prompt and a resource of its own."""
    dir = tmp_path / "the shop ü"
    (dir / ".afloat" / "plugins").mkdir(parents=True)
    (dir / ".afloat" / "plugins" / "shop.lua").write_text(TOOL % ("till", "from the shop") + '''
      mcp.prompt { name = "sell", description = "sells", get = function() return "sell it" end }
      mcp.resource { uri = "shop://stock", name = "stock", read = function() return "3 apples" end }''')
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins" / "own.lua").write_text(TOOL % ("mine", "of the user"))
    home.ok("trust", "--follow", str(dir))
    return dir


def header(dir):
    text = "".join(chr(b) if 0x20 < b < 0x7F and b != 0x25 else f"%{b:02X}" for b in str(dir).encode())
    return f"Afloat-Project: {text}"


class Inside(Legacy):
    def __init__(self, home, dir):
        self.where = header(dir)
        super().__init__(home)

    def send(self, message, accept="application/json, text/event-stream", raw=None):
        kept = self.headers
        self.headers = [*kept, self.where] if len(kept) == 0 else kept  # a session knows where it is
        try:
            return super().send(message, accept, raw)
        finally:
            self.headers = kept


def names(client):
    return {t["name"] for t in client.result("tools/list")["tools"] if not t["name"].startswith("afloat_")}


def test_a_client_in_a_project_has_its_plugins_and_others_do_not(home, start_hub, place, tmp_path):
    start_hub()
    here, elsewhere = Inside(home, place), Legacy(home)
    assert names(here) == {"mine", "till"} and names(elsewhere) == {"mine"}
    assert here.call("till")["content"][0]["text"] == "from the shop"
    assert "error" in elsewhere.ask("tools/call", name="till", arguments={})
    assert here.result("prompts/get", name="sell")["messages"][0]["content"]["text"] == "sell it"
    assert here.result("resources/read", uri="shop://stock")["contents"][0]["text"] == "3 apples"
    assert elsewhere.result("prompts/list")["prompts"] == [] and elsewhere.result("resources/list")["resources"] == []
    assert "error" in elsewhere.ask("resources/read", uri="shop://stock")


def test_only_those_who_see_a_list_are_told_that_it_changed(home, start_hub, place):
    start_hub()
    here, elsewhere = Inside(home, place), Legacy(home)
    streams = [c.listen() for c in (here, elsewhere)]
    names(here), names(elsewhere)
    (place / ".afloat" / "plugins" / "more.lua").write_text(TOOL % ("scale", "weighs"))
    assert streams[0].message()["method"] == "notifications/tools/list_changed"
    assert names(here) == {"mine", "till", "scale"}
    (home.dir / "plugins" / "both.lua").write_text(TOOL % ("both", "for all"))
    assert [s.message()["method"] for s in streams] == ["notifications/tools/list_changed"] * 2
    assert names(elsewhere) == {"mine", "both"}


def test_the_stateless_era_names_its_project_with_each_request(home, start_hub, place, tmp_path):
    start_hub()
    client = Modern(home)

    def listed(*more):
        got = client.post("tools/list", headers=[f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/list", *more]).json()
        return {t["name"] for t in got["result"]["tools"]} if "result" in got else got["error"]["message"]
    assert "till" in listed(header(place)) and "till" not in listed()
    assert "no directory" in listed(header(tmp_path / "nowhere")) and "absolute" in listed("Afloat-Project: relative")


def test_the_bridge_is_in_the_project_where_it_was_started(home, start_hub, place, tmp_path):
    start_hub()

    class In(Bridge):
        def __init__(self, *args, **more):
            process = home.popen("mcp", *args, stdin=subprocess.PIPE, **more)
            home_popen, home.popen = home.popen, lambda *_, **__: process
            try:
                super().__init__(home)
            finally:
                home.popen = home_popen
    assert "till" in In(cwd=place).names() and "till" in In("--project", str(place), cwd=tmp_path).names()
    assert "till" not in In(cwd=tmp_path).names()
    assert home.cli("mcp", "--project", "/nonexistent").returncode == 3
