"""Afloat as an MCP server, over the wire: both eras, what plugins offer, and what clients are told as it changes."""
import json
import random

import pytest
from conftest import retry
from mcp_rig import LATEST, META, MODERN, Legacy, Modern, Wire, bare

PLUGIN = """
tool { name = "add", title = "Adder", description = "adds", input = { a = "integer", b = "integer" },
       run = function(_, i) return i.a + i.b end }
mcp.tool { name = "point", description = "a point", output_schema = { type = "object" },
           run = function() return { x = 1, y = 2 } end }
tool { name = "fail", description = "fails", run = function() error("broken inside") end }
tool { name = "slow", description = "waits", run = function(ctx)
  ctx.progress("begun", 1, 2)
  timer.sleep(60)
  return "never"
end }
mcp.prompt { name = "greet", description = "says hello", arguments = { { name = "who", required = true,
  values = { "world", "wood", "you" } } }, get = function(a) return "Hello " .. a.who end }
mcp.resource { uri = "notes://today", name = "today", mime = "text/plain", read = function(uri) return "at " .. uri end }
mcp.resource { uri_template = "notes://{day}/{+rest}", name = "day", read = function(_, p)
  if p.day == "none" then return nil end
  return p.day .. "|" .. p.rest
end }
route("POST", "/touch", function() mcp.updated("notes://today") return {} end)
"""


def tool(name, says="x"):
    return f'tool {{ name = "{name}", description = "{says}", run = function() return "{says}" end }}\n'


@pytest.fixture
def plugin(home):
    """Write a plugin of the user; returns its file."""
    def write(name, text):
        file = home.dir / "plugins" / f"{name}.lua"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file
    return write


@pytest.fixture
def served(plugin, start_hub, home):
    plugin("notes", PLUGIN)
    start_hub()
    return home


def test_no_client_is_shown_a_secret(home, plugin, start_hub):
    home.ok("secret", "set", "PHRASE", input="open-sesame-open")
    plugin("leaks", """
      local s = "open-" .. "sesame-open"
      tool { name = "said", description = "x", run = function() return s end }
      tool { name = "object", description = "x", run = function() return { a = "<" .. s .. ">" } end }
      tool { name = "thrown", description = "x", run = function() error(s) end }
      tool { name = "noted", description = "x", run = function(ctx) ctx.progress(s) ctx.log("error", s) return "" end }
      mcp.prompt { name = "p", description = s, get = function() return s end }
      mcp.resource { uri = "x://a", name = "a", read = function() return s end }""")
    start_hub()
    client = Legacy(home)
    assert client.call("said")["content"][0]["text"] == "[redacted PHRASE]"
    shown = [client.call("object"), client.call("thrown"), client.result("prompts/list"),
             client.result("prompts/get", name="p"), client.result("resources/read", uri="x://a")]
    noted = client.post("tools/call", name="noted", arguments={}, _meta={"progressToken": 1})
    for answer in shown + [noted.message(), noted.message()]:
        text = json.dumps(answer)
        assert "[redacted PHRASE]" in text and "sesame" not in text, text


def names(list):
    return [x["name"] for x in list]


# ---- the handshake -----------------------------------------------------------


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", LATEST])
def test_a_handshake_agrees_on_each_version(served, version):
    client = Legacy(served, version)
    assert client.hello["protocolVersion"] == version
    assert client.hello["serverInfo"]["name"] == "afloat"
    assert client.hello["capabilities"]["tools"] == {"listChanged": True}
    assert client.call("add", a=2, b=3)["content"] == [{"type": "text", "text": "5"}]


def test_an_unknown_version_gets_our_newest(served):
    assert Legacy(served, "2019-01-01").hello["protocolVersion"] == LATEST


def test_a_session_is_needed_and_ends(served):
    client = Legacy(served)
    stranger = Legacy(served)
    stranger.headers = []
    assert stranger.post("tools/list").status == 400
    stranger.headers = ["Mcp-Session-Id: 00112233445566778899aabbccddeeff"]
    assert stranger.post("tools/list").status == 404
    stream = client.listen()
    assert client.end().status == 204
    assert stream.rest() == []  # its stream ended with it
    assert client.post("tools/list").status == 404
    assert client.end().status == 404


def test_a_version_header_that_nobody_knows_is_refused(served):
    client = Legacy(served)
    client.headers[1] = "MCP-Protocol-Version: 1999-01-01"
    assert client.post("tools/list").status == 400


# ---- what is offered -----------------------------------------------------------


def test_tools_of_plugins_and_allowed_operations_are_listed_in_order(served):
    client = Legacy(served)
    tools = client.result("tools/list")["tools"]
    assert names(tools)[:4] == ["add", "point", "fail", "slow"]
    assert names(tools)[4:] == ["afloat_reload", "afloat_reload_last", "afloat_generation_list", "afloat_plugin_list",
                                "afloat_plugin_show", "afloat_plugin_logs", "afloat_plugin_reload"]
    assert client.result("tools/list")["tools"] == tools
    assert tools[0]["title"] == "Adder" and tools[0]["inputSchema"]["required"] == ["a", "b"]
    listed = served.json("tool", "list")["tools"]
    assert [t["name"] for t in listed if not t.get("builtin")] == names(tools)[:4]


def test_results_have_text_structure_and_errors(served):
    client = Legacy(served)
    point = client.call("point")
    assert point["structuredContent"] == {"x": 1, "y": 2}
    assert json.loads(point["content"][0]["text"]) == {"x": 1, "y": 2}
    for failed in (client.call("fail"), client.call("add", a="x", b=1)):
        assert failed["isError"] is True and failed["content"][0]["text"]
    assert "broken inside" in client.call("fail")["content"][0]["text"]
    assert client.ask("tools/call", name="nobody")["error"]["code"] == -32602
    assert client.ask("tools/call", name="shell", arguments={"cmd": "id"})["error"]["code"] == -32602
    assert client.ask("tools/call", name="add", arguments=[1])["error"]["code"] == -32602
    assert client.ask("no/such")["error"]["code"] == -32601


@pytest.mark.parametrize("says", ["", "check = false,"])
def test_a_schema_that_the_hub_cannot_check_is_passed_on(plugin, start_hub, home, says):
    text = """tool { name = "r", description = "d", %s input_schema = { type = "object", ["$defs"] = { x = { type = "integer" } },
      properties = { n = { ["$ref"] = "#/$defs/x" } } }, run = function(_, i) return i.n end }"""
    plugin("loose", text % says)
    plugin("strict", text.replace("properties", "propertys") % "")
    start_hub()
    states = {p["name"]: p["state"] for p in home.json("plugin", "list")["plugins"]}
    assert states["strict"] == "failed" and states["loose"] == "loaded"
    client = Legacy(home)
    schema = client.result("tools/list")["tools"][0]["inputSchema"]
    assert schema["properties"] == {"n": {"$ref": "#/$defs/x"}} and schema["$defs"] == {"x": {"type": "integer"}}
    assert client.call("r", n="anything")["content"][0]["text"] == "anything"


def test_hooks_and_rules_decide_over_calls(served, plugin, home):
    plugin("guard", 'on_permission({ tool = "add" }, function() return "deny" end)\n')
    home.ok("reload")
    denied = Legacy(served).call("add", a=1, b=2)
    assert denied["isError"] is True and "guard" in denied["content"][0]["text"]


def test_an_operation_runs_as_a_tool(served):
    client = Legacy(served)
    rows = json.loads(client.call("afloat_plugin_list")["content"][0]["text"])
    assert "notes" in names(rows["plugins"])
    wrong = client.result("tools/call", name="afloat_plugin_show", arguments={"name": "nobody"})
    assert wrong["isError"] is True and wrong["content"][0]["text"].startswith("NOT_FOUND")
    assert client.call("afloat_plugin_show", nme="x")["isError"] is True


def test_decisions_are_never_offered_whatever_the_settings_say(served, home):
    (home.dir / "config.toml").write_text('[mcp_server]\noperations = ["*"]\n')
    client = Legacy(served)
    offered = retry(lambda: [n for n in names(client.result("tools/list")["tools"]) if n.startswith("afloat_session")]
                    and names(client.result("tools/list")["tools"]))
    for word in ("trust", "permission", "secret", "token", "hub_open", "hub_stop"):
        assert not [n for n in offered if word in n], word
    new = next(t for t in client.result("tools/list")["tools"] if t["name"] == "afloat_session_new")
    assert not {"sandbox", "network", "permission", "writable"} & set(new["inputSchema"]["properties"])
    assert client.call("afloat_session_new", sandbox="danger-full-access")["isError"] is True


def test_prompts_resources_and_completion(served):
    client = Legacy(served)
    prompt = client.result("prompts/list")["prompts"][0]
    assert prompt == {"name": "greet", "description": "says hello", "arguments": [{"name": "who", "required": True}]}
    got = client.result("prompts/get", name="greet", arguments={"who": "you"})
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hello you"}}]
    assert client.ask("prompts/get", name="greet")["error"]["code"] == -32602
    assert client.ask("prompts/get", name="nobody")["error"]["code"] == -32602
    assert client.result("resources/list")["resources"] == [
        {"uri": "notes://today", "name": "today", "mimeType": "text/plain"}]
    assert client.result("resources/templates/list")["resourceTemplates"][0]["uriTemplate"] == "notes://{day}/{+rest}"
    assert client.result("resources/read", uri="notes://today")["contents"] == [
        {"uri": "notes://today", "mimeType": "text/plain", "text": "at notes://today"}]
    assert client.result("resources/read", uri="notes://mon/a/b")["contents"][0]["text"] == "mon|a/b"
    for missing in ("notes://none/x", "notes://", "other://x"):
        error = client.ask("resources/read", uri=missing)["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": missing})
    done = client.result("completion/complete", ref={"type": "ref/prompt", "name": "greet"},
                         argument={"name": "who", "value": "wo"})
    assert done["completion"] == {"values": ["world", "wood"], "total": 2, "hasMore": False}


def test_what_a_project_offers_stays_in_the_project(plugin, start_hub, home, tmp_path):
    plugin("notes", PLUGIN)
    own = tmp_path / ".afloat" / "plugins"
    own.mkdir(parents=True)
    (own / "local.lua").write_text(tool("local") + """
    mcp.prompt { name = "local", get = function() return "" end }
    mcp.resource { uri = "local://x", name = "local", read = function() return "" end }
    mcp.resource { uri_template = "local://t/{x}", name = "local", read = function() return "" end }
    """)
    home.ok("trust", str(tmp_path))
    start_hub("--repo", str(tmp_path))
    retry(lambda: "local" in names(home.json("plugin", "list")["plugins"]))
    client = Legacy(home)
    assert "local" not in names(client.result("tools/list")["tools"])
    assert names(client.result("prompts/list")["prompts"]) == ["greet"]
    assert names(client.result("resources/list")["resources"]) == ["today"]
    assert names(client.result("resources/templates/list")["resourceTemplates"]) == ["day"]
    for method, params in (("tools/call", {"name": "local"}), ("prompts/get", {"name": "local"}),
                           ("resources/read", {"uri": "local://x"}), ("resources/read", {"uri": "local://t/1"})):
        assert "error" in client.ask(method, **params), method


# ---- while a call runs ------------------------------------------------------------


def test_a_call_that_is_cancelled_ends_without_an_answer(served):
    client = Legacy(served)
    wire = client.post("tools/call", name="slow", _meta={"progressToken": "p"})
    told = wire.message()
    assert told["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "begun"}
    assert client.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": client.last}}).status == 202
    assert wire.rest() == []


ASKS = """
tool { name = "ask", description = "asks", run = function(ctx)
  local r, why = ctx.elicit { message = "Name?", schema = { type = "object" } }
  return r and r.action .. " " .. json.encode(r.content) or "nobody: " .. why
end }
"""


def test_a_client_is_asked_on_the_way_of_the_answer(plugin, start_hub, home):
    plugin("asks", ASKS)
    start_hub()
    client = Legacy(home, capabilities={"elicitation": {}})
    wire = client.post("tools/call", name="ask")
    asked = wire.message()
    assert asked["method"] == "elicitation/create" and asked["params"]["message"] == "Name?"
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "A"}}}
    assert client.send({**answer, "id": 999}).status == 202  # nobody asked that
    assert client.send(answer).status == 202
    assert wire.message()["result"]["content"][0]["text"] == 'accept {"name":"A"}'
    assert client.send(answer).status == 202  # once is enough
    refused = client.post("tools/call", name="ask")
    asked = refused.message()
    client.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "not now"}})
    assert "not now" in refused.message()["result"]["content"][0]["text"]
    assert "elicitation" in Legacy(home).call("ask")["content"][0]["text"]  # it never said that it can


def test_a_lost_stream_is_resumed_behind_the_last_event(plugin, start_hub, home):
    plugin("asks", ASKS)
    start_hub()
    client = Legacy(home, capabilities={"elicitation": {}})
    wire = client.post("tools/call", name="ask")
    asked = wire.message()
    wire.close()  # not the end of the call
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}
    assert client.send(answer).status == 202
    again = client.listen(after=wire.ids[-1])
    assert again.message()["result"]["content"][0]["text"].startswith("accept")
    assert again.message() is None  # and the stream is complete
    whole = client.listen(after=wire.ids[0])
    assert [m.get("method", "answer") for m in whole.rest()] == ["elicitation/create", "answer"]
    assert client.listen(after="77-1").status == 404


# ---- lists that change ---------------------------------------------------------------


def test_each_change_is_told_once_and_only_of_its_list(served, plugin, home):
    client, other = Legacy(served), Legacy(served)
    plugin("more", tool("one"))
    home.ok("reload")  # nobody reads yet: it is kept
    stream = client.listen()
    assert stream.message()["method"] == "notifications/tools/list_changed"
    assert "one" in names(client.result("tools/list")["tools"])
    plugin("more", tool("one") + "-- no other tool\n")
    home.ok("reload")
    plugin("more", 'mcp.prompt { name = "p", get = function() return "" end }\n' + tool("one"))
    home.ok("reload")
    assert stream.message()["method"] == "notifications/prompts/list_changed"
    home.ok("tool", "disable", "one")
    assert stream.message()["method"] == "notifications/tools/list_changed"
    assert "one" not in names(client.result("tools/list")["tools"])
    late = other.listen()  # both lists changed since its handshake, each is told once
    assert sorted(late.message()["method"] for _ in range(2)) == [
        "notifications/prompts/list_changed", "notifications/tools/list_changed"]
    client.end()
    assert stream.rest() == []


def test_settings_that_allow_another_operation_change_the_list(served, home):
    client = Legacy(served)
    stream = client.listen()
    (home.dir / "config.toml").write_text('[mcp_server]\noperations = ["doctor"]\n')
    assert stream.message()["method"] == "notifications/tools/list_changed"
    assert names(client.result("tools/list")["tools"])[4:] == ["afloat_doctor"]


def test_who_subscribed_to_a_resource_is_told_of_it(served, home):
    client, other = Legacy(served), Legacy(served)
    assert client.result("resources/subscribe", uri="notes://today") == {}
    stream, quiet = client.listen(), other.listen()
    assert home.http("POST", "/api/plugins/notes/touch").status == 200
    told = stream.message()
    assert told["method"] == "notifications/resources/updated" and told["params"] == {"uri": "notes://today"}
    client.result("resources/unsubscribe", uri="notes://today")
    home.http("POST", "/api/plugins/notes/touch")
    for each, its in ((client, stream), (other, quiet)):
        each.end()
        assert its.rest() == []


def test_a_call_under_way_ends_on_its_generation(plugin, start_hub, home):
    text = """tool {{ name = "v", description = "d", run = function(ctx)
        ctx.progress("{v}")
        timer.sleep(0.3)
        return "{v}"
    end }}"""
    plugin("v", text.format(v="old"))
    start_hub()
    client = Legacy(home)
    wire = client.post("tools/call", name="v", _meta={"progressToken": 1})
    assert wire.message()["params"]["message"] == "old"
    plugin("v", text.format(v="new"))
    home.ok("reload")
    assert wire.message()["result"]["content"][0]["text"] == "old"
    assert client.call("v")["content"][0]["text"] == "new"


def test_a_storm_of_reloads_with_many_clients_loses_and_doubles_nothing(served, plugin, home):
    streams = [Legacy(served).listen() for _ in range(80)]
    listeners = []
    for _ in range(20):
        wire = Modern(served).post("subscriptions/listen", notifications={"toolsListChanged": True})
        assert wire.message()["method"] == "notifications/subscriptions/acknowledged"
        listeners.append(wire)
    for i in range(25):
        plugin("storm", tool("storm", f"says {i}"))
        home.ok("reload")
    plugin("end", 'mcp.resource { uri = "end://", name = "end", read = function() return "" end }\n')
    home.ok("reload")
    for stream in streams:
        seen = []
        while not seen or seen[-1] != "notifications/resources/list_changed":
            seen.append(stream.message()["method"])
        assert seen == ["notifications/tools/list_changed"] * 25 + ["notifications/resources/list_changed"]
    for wire in listeners:
        assert [wire.message()["method"] for _ in range(25)] == ["notifications/tools/list_changed"] * 25


# ---- the stateless era -----------------------------------------------------------------


def test_the_stateless_era_needs_no_session(served):
    client = Modern(served)
    found = client.result("server/discover")
    assert MODERN in found["supportedVersions"] and LATEST in found["supportedVersions"]
    assert found["_meta"][META + "serverInfo"]["name"] == "afloat"
    tools = client.result("tools/list")
    assert tools["resultType"] == "complete" and tools["ttlMs"] == 0 and tools["cacheScope"] == "private"
    assert tools["tools"] == Legacy(served).result("tools/list")["tools"]
    assert client.result("tools/call", name="add", arguments={"a": 1, "b": 1})["content"][0]["text"] == "2"
    assert client.result("resources/read", uri="notes://today")["ttlMs"] == 0
    assert client.ask("resources/read", uri="x://y")["error"]["code"] == -32602
    gone = client.ask("ping")
    assert (gone["status"], gone["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("headers, code", [
    ([], -32020),
    (["MCP-Protocol-Version: 2026-07-28"], -32020),
    (["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"], -32020),
    (["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: other"], -32020),
    (["MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/call", "Mcp-Name: add"], -32020),
    (["MCP-Protocol-Version: 2026-07-28", "mcp-method: tools/call", "MCP-NAME:  add  "], None),
])
def test_headers_have_to_say_what_the_body_says(served, headers, code):
    wire = Modern(served).post("tools/call", headers=headers, name="add", arguments={"a": 1, "b": 1})
    answer = wire.json()
    assert answer.get("error", {}).get("code") == code
    assert wire.status == (400 if code else 200)


def test_parameters_that_are_headers_too_have_to_agree(plugin, start_hub, home):
    plugin("region", """tool { name = "r", description = "d", input = {
      region = { type = "string", ["x-mcp-header"] = "Region" }, n = { type = "integer?", ["x-mcp-header"] = "N" } },
      run = function(_, i) return i.region end }""")
    start_hub()
    base = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: =?base64?cg==?="]

    def status(arguments, *headers):
        return Modern(home).post("tools/call", headers=[*base, *headers], name="r", arguments=arguments).status

    assert status({"region": "eu"}, "Mcp-Param-Region: eu") == 200
    assert status({"region": "eu", "n": 7}, "Mcp-Param-Region: =?base64?ZXU=?=", "Mcp-Param-N: 7") == 200
    assert status({"region": "eu"}) == 400
    assert status({"region": "eu"}, "Mcp-Param-Region: us") == 400
    assert status({"region": "eu"}, "Mcp-Param-Region: =?base64?ZXU?=") == 400  # not padded
    assert status({"region": "eu"}, "Mcp-Param-Region: eu", "Mcp-Param-N: 7") == 400  # the body has none


def test_a_version_that_is_not_served_names_those_that_are(served):
    answer = Modern(served, version="2030-01-01").ask("tools/list")
    assert answer["status"] == 400 and answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


def test_get_and_delete_are_not_for_the_stateless_era(served):
    for method in ("GET", "DELETE"):
        wire = Wire(served, method, b"", [f"MCP-Protocol-Version: {MODERN}", "Accept: text/event-stream"])
        assert wire.status == 405 and wire.headers["allow"] == "POST"


def test_questions_end_a_round_and_answers_begin_the_next(plugin, start_hub, home):
    plugin("asks", ASKS + """
    tool { name = "two", description = "asks twice", run = function(ctx)
      local a = ctx.elicit { key = "a", message = "A?", schema = { type = "object" } }
      local b = ctx.elicit { key = "b", message = "B?", schema = { type = "object" } }
      return a.content.v .. b.content.v
    end }""")
    start_hub()
    client = Modern(home, {"elicitation": {}})
    first = client.result("tools/call", name="two")
    assert first["resultType"] == "input_required" and list(first["inputRequests"]) == ["a"]
    second = client.result("tools/call", name="two", requestState=first["requestState"],
                           inputResponses={"a": {"action": "accept", "content": {"v": "1"}}})
    assert list(second["inputRequests"]) == ["b"]
    last = client.result("tools/call", name="two", requestState=second["requestState"],
                         inputResponses={"b": {"action": "accept", "content": {"v": "2"}}})
    assert last["content"][0]["text"] == "12"
    # the state belongs to this tool, and to nobody's pen
    for name, state in (("ask", second["requestState"]), ("two", second["requestState"].replace('"1"', '"9"')),
                        ("two", "x"), ("two", 7)):
        assert client.ask("tools/call", name=name, requestState=state, inputResponses={})["error"]["code"] == -32602
    poor = Modern(home).ask("tools/call", name="ask")
    assert (poor["status"], poor["error"]["code"]) == (400, -32021)
    assert poor["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


def test_a_listener_hears_what_it_asked_for_with_its_own_id(served, plugin, home):
    client = Modern(served)
    wire = client.post("subscriptions/listen", notifications={"promptsListChanged": True,
                                                              "resourceSubscriptions": ["notes://today"]})
    ack = wire.message()
    assert ack["params"]["notifications"] == {"promptsListChanged": True, "resourceSubscriptions": ["notes://today"]}
    assert ack["params"]["_meta"][META + "subscriptionId"] == client.last
    plugin("more", tool("one"))
    home.ok("reload")
    home.http("POST", "/api/plugins/notes/touch")
    told = wire.message()
    assert told["method"] == "notifications/resources/updated"  # the tools were not asked for
    assert told["params"]["_meta"][META + "subscriptionId"] == client.last
    wire.close()
    assert client.result("tools/list")["tools"]


def test_a_connection_that_closes_cancels_a_stateless_call(plugin, start_hub, home):
    plugin("slow", """
    local ended = false
    tool { name = "slow", description = "waits", run = function(ctx)
      local mark <close> = setmetatable({}, { __close = function() ended = true end })
      ctx.progress("begun")
      timer.sleep(60)
    end }
    route("GET", "/ended", function() return { ended = ended } end)
    """)
    start_hub()
    wire = Modern(home).post("tools/call", name="slow", meta={"progressToken": 1})
    assert wire.message()["method"] == "notifications/progress"
    wire.close()
    retry(lambda: home.http("GET", "/api/plugins/slow/ended").json()["ended"])


# ---- garbage and floods ----------------------------------------------------------------------


@pytest.mark.parametrize("body, status, code", [
    (b"", 415, -32600), (b"{", 400, -32700), (b"[]", 400, -32600), (b"7", 400, -32600), (b"{}", 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}', 400, -32020),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
])
def test_garbage_is_refused_with_a_code(served, body, status, code):
    wire = Wire(served, "POST", body, ["Accept: application/json, text/event-stream"])
    assert (wire.status, wire.json()["error"]["code"]) == (status, code)
    assert Legacy(served).call("add", a=1, b=1)["content"][0]["text"] == "2"


def test_a_batch_is_answered_as_one_where_the_version_has_it(served):
    client = Legacy(served, "2025-03-26")
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, 7, {"jsonrpc": "2.0", "method": "notifications/x"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}]
    answers = client.send(batch).json()
    assert {str(a.get("id")): "result" in a for a in answers} == {"1": True, "None": False, "2": True}
    assert Legacy(served).send(batch).status == 400


def test_an_error_answers_a_request_with_an_id_of_any_length(served):
    id = "i" * 20000
    client = Legacy(served, "2025-03-26")
    alone, other = client.send([{"jsonrpc": "2.0", "id": id, "method": 7}, {"jsonrpc": "2.0", "id": 1, "method": "ping"}]).json()
    assert (alone["id"], alone["error"]["code"], other["id"]) == (id, -32600, 1)
    refused = Wire(served, "POST", bare({"jsonrpc": "2.0", "id": id, "method": "server/discover"}), ["Accept: */*"]).json()
    assert (refused["id"], refused["error"]["code"]) == (id, -32020)


def test_a_flood_of_sessions_and_calls_leaves_others_served(served):
    client = Legacy(served)
    stream = client.listen()  # read: it is not the one that goes
    idle = Legacy(served)
    for _ in range(1100):
        hello = bare({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                      "params": {"protocolVersion": LATEST, "capabilities": {}}})
        wire = Wire(served, "POST", hello)
        assert wire.status == 200
        wire.close()
    assert client.call("add", a=1, b=1)["content"][0]["text"] == "2"
    assert idle.post("ping").status == 404  # the oldest that nobody reads made room
    stream.close()


def test_a_client_that_does_not_read_is_let_go_and_delays_nobody(plugin, start_hub, home):
    plugin("flood", """
    tool { name = "flood", description = "talks", input = { n = "integer" }, run = function(ctx, input)
      local text = ("x"):rep(64 * 1024)
      for i = 1, input.n do
        ctx.progress(text, i, input.n)
        if i % 20 == 0 then timer.sleep(0.001) end
      end
      return "done"
    end }""" + tool("hi"))
    hub = start_hub()
    for client in (Modern(home), Legacy(home)):
        meta = "meta" if isinstance(client, Modern) else "_meta"
        wires = [client.post("tools/call", name="flood", arguments={"n": 400}, **{meta: {"progressToken": i}})
                 for i in range(4)]
        assert Legacy(home).call("hi")["content"][0]["text"] == "x"
        reader = Legacy(home).post("tools/call", name="flood", arguments={"n": 60}, _meta={"progressToken": 1})
        said = reader.rest()
        assert len(said) == 61 and said[-1]["result"]["content"][0]["text"] == "done"
        for wire in wires:
            wire.close()
    with open(f"/proc/{hub.pid}/status") as status:
        peak = int(status.read().split("VmHWM:")[1].split()[0])
    assert peak < 1024 * 1024, f"{peak} kB"  # with the sanitizer's own; 200 MiB were said


def test_changed_messages_never_break_the_hub(served):
    """Real messages with bytes and values changed at random: each gets an answer, and the hub goes on."""
    rng = random.Random(18)
    client = Legacy(served)
    seeds = [bare({"jsonrpc": "2.0", "id": i, "method": m, "params": p}) for i, (m, p) in enumerate([
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {"progressToken": "p"}}),
        ("resources/read", {"uri": "notes://mon/a"}), ("prompts/get", {"name": "greet", "arguments": {"who": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "w"}}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}), ("logging/setLevel", {"level": "info"}),
        ("tools/call", {"name": "point", "inputResponses": {"a": {}}, "requestState": "x",
                        "_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}}),
    ])]
    values = [b"null", b"7", b"-1", b"[]", b"{}", b'""', b"1e308", b'"\\u0000"', b"true"]
    for _ in range(400):
        text = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            kind = rng.randrange(4)
            if kind == 0:
                text[at] = rng.randrange(256)
            elif kind == 1:
                del text[at:at + rng.randint(1, 9)]
            elif kind == 2:
                text[at:at] = rng.choice(values)
            else:
                colon = text.rfind(b":", 0, at)
                end = min(x for x in (text.find(b",", at), text.find(b"}", at), len(text)) if x >= 0)
                text[colon + 1:end] = rng.choice(values)
            if not text:
                text = bytearray(b"{")
        headers = client.headers if rng.random() < 0.7 else [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call",
                                                              "Mcp-Name: add"]
        wire = Wire(served, "POST", bytes(text), ["Accept: application/json, text/event-stream", *headers])
        assert wire.status in (200, 202, 400, 404), (wire.status, text)
        wire.close()
    assert Legacy(served).call("add", a=1, b=1)["content"][0]["text"] == "2"


def test_over_tcp_the_token_and_names_of_the_hub_are_needed(plugin, start_hub, home):
    import http.client
    plugin("notes", PLUGIN)
    hub = start_hub("--listen", "127.0.0.1:0")
    address = hub.ready.split("http=")[1].split()[0]
    token = (home.dir / "token").read_text().strip()
    hello = bare({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                  "params": {"protocolVersion": LATEST, "capabilities": {}}})

    def status(**headers):
        conn = http.client.HTTPConnection(address)
        conn.request("POST", "/mcp", hello, {"Content-Type": "application/json", **headers})
        return conn.getresponse().status

    auth = {"Authorization": f"Bearer {token}"}
    assert status() == 401
    assert status(**auth) == 200
    assert status(**auth, Host="evil.example") == 403
    assert status(**auth, Origin="http://evil.example") == 403
    assert status(**auth, Origin=f"http://{address}") == 200
