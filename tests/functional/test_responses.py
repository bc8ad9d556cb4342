"""Afloat as a model server: POST /v1/responses and GET /v1/models, answered by every kind of provider."""
import http.client
import json
import shutil
import socket
import subprocess
import threading
from contextlib import closing

import pytest

import peers
from conftest import DEADLINE
from test_providers import CALL, KEY, KINDS, anthropic_message, model, sse  # noqa: F401 (`model` is a fixture)

USAGE = {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"}


class Client:
    """Requests over TCP with the hub's token."""

    def __init__(self, home):
        self.address = home.json("status")["listen"]
        self.token = home.ok("token", "show").strip()

    def open(self, method, path, body=None, headers={}, token=True):
        c = http.client.HTTPConnection(self.address, timeout=DEADLINE)
        auth = {"Authorization": f"Bearer {self.token}"} if token else {}
        c.request(method, path, None if body is None else json.dumps(body),
                  {**auth, **({"Content-Type": "application/json"} if body is not None else {}), **headers})
        return c, c.getresponse()

    def ask(self, body, **more):
        """The answer's status and JSON."""
        c, r = self.open("POST", "/v1/responses", body, **more)
        with closing(c):
            return r.status, json.loads(r.read())

    def stream(self, body, **more):
        """The events of a streamed answer."""
        c, r = self.open("POST", "/v1/responses", {**body, "stream": True}, **more)
        with closing(c):
            assert r.status == 200, r.read()
            assert r.headers["Content-Type"].startswith("text/event-stream")
            return parse(r.read().decode())


def parse(text):
    events = []
    for frame in text.split("\n\n"):
        lines = dict(x.split(": ", 1) for x in frame.splitlines() if x and not x.startswith(":"))
        if lines:
            events.append(json.loads(lines["data"]))
            assert lines["event"] == events[-1]["type"]
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    return events


@pytest.fixture
def serve(home, start_hub):
    """Start a hub with these providers; returns a client of it."""
    def serve(config="", scenario=None, key=KEY):
        secret = home.cli("secret", "set", "here", input=key)
        assert secret.returncode == 0, secret.stderr
        if scenario is not None:
            (home.dir / "scene.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scenario))
            config += '[providers.played]\nkind = "scripted"\nscenario = "scene.jsonl"\n'
        (home.dir / "config.toml").write_text(config)
        start_hub("--listen", "127.0.0.1:0")
        return Client(home)
    return serve


def provider(model, kind, name="here"):  # noqa: F811
    base = f"http://127.0.0.1:{model.server_port}" + ("" if kind == "anthropic" else "/v1")
    return f'[providers.{name}]\nkind = "{kind}"\nbase_url = "{base}"\napi_key_secret = "here"\n'


SCENE = [{"reasoning": "hm", "text": "I look.", "tool_calls": [{"name": CALL, "input": {"path": "."}}],
          "usage": {"input": 100, "cached": 40, "output": 7, "reasoning": 2}},
         {"when": "a-file-to-see", "text": "Found it.", "usage": {"input": 120, "output": 3}}]


def test_a_stream_tells_every_item_from_its_beginning_to_its_end(serve):
    events = serve(scenario=SCENE).stream({"model": "played/any", "input": "what is here?"})
    assert [e["type"].removeprefix("response.") for e in events] == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed"]
    last = events[-1]["response"]
    assert last["status"] == "completed" and last["object"] == "response" and last["model"] == "played/any"
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert last["output"] == done and [i["type"] for i in done] == ["reasoning", "message", "function_call"]
    assert done[1]["content"][0]["text"] == "I look."
    assert json.loads(done[2]["arguments"]) == {"path": "."} and done[2]["name"] == CALL and done[2]["call_id"]
    assert last["usage"] == {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 7,
                             "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 107}
    ids = {e["item_id"] for e in events if "item_id" in e}
    assert ids == {i["id"] for i in done} and len(ids) == 3


def test_a_whole_answer_has_the_same_items(serve):
    client = serve(scenario=SCENE)
    asked = [{"role": "user", "content": "what is here?"}]
    status, first = client.ask({"model": "played/any", "input": asked})
    assert status == 200 and first["status"] == "completed" and set(first["usage"]) == USAGE
    call = first["output"][-1]
    asked += first["output"] + [{"type": "function_call_output", "call_id": call["call_id"], "output": "a-file-to-see"}]
    status, second = client.ask({"model": "played/any", "input": asked})
    assert status == 200 and second["output"][0]["content"][0]["text"] == "Found it."


@pytest.mark.parametrize("kind", KINDS)
def test_the_official_client_uses_a_model_of_every_kind(home, serve, model, kind):  # noqa: F811
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = peers.script("openai_client.mjs")
    path, call, text, (header, value) = KINDS[kind]
    model.answers += [call(), text("Grüße")]
    client = serve(provider(model, kind))
    done = subprocess.run(["node", str(script), f"http://{client.address}/v1", client.token, "here/m-1"],
                          capture_output=True, text=True, timeout=2 * DEADLINE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "error" not in seen, seen
    assert seen["call"] == {"name": CALL, "arguments": "{}"}
    assert seen["types"][0] == "response.created" and seen["types"][-1] == "response.completed"
    assert seen["second"]["text"] == "Grüße" and seen["second"]["usage"]["input_tokens"] == 9
    assert "scripted/scripted" in seen["models"]
    assert [p for p, _, _ in model.seen] == [path, path]
    for _, headers, body in model.seen:
        assert {k.lower(): v for k, v in headers.items()}[header.lower()] == value
        assert body["model"] == "m-1" and "be brief" in json.dumps(body) and CALL in json.dumps(body["tools"])
    assert "a-file-to-see" in json.dumps(model.seen[1][2]) and "call_1" in json.dumps(model.seen[1][2])


def test_thinking_goes_back_to_the_api_that_made_it(serve, model):  # noqa: F811
    thinking = [{"type": "thinking_delta", "thinking": "let me see"}, {"type": "signature_delta", "signature": "SIG"}]
    head = anthropic_message({"type": "thinking", "thinking": ""}, thinking, "end_turn").split("event: message_delta")[0]
    tail = anthropic_message({"type": "text", "text": ""}, [{"type": "text_delta", "text": "yes"}], "end_turn")
    tail = "event: content_block_start" + tail.split("event: content_block_start", 1)[1].replace('"index": 0', '"index": 1')
    model.answers += [head + tail] * 2
    client = serve(provider(model, "anthropic"))
    asked = [{"role": "user", "content": "well?"}]
    events = client.stream({"model": "here/m", "input": asked})
    output = events[-1]["response"]["output"]
    assert [i["type"] for i in output] == ["reasoning", "message"]
    assert output[0]["summary"] == [{"type": "summary_text", "text": "let me see"}]
    asked += [{k: v for k, v in i.items() if k != "id"} for i in output] + [{"role": "user", "content": "sure?"}]
    assert client.ask({"model": "here/m", "input": asked})[0] == 200
    sent = model.seen[1][2]["messages"][1]
    assert sent["role"] == "assistant"
    assert sent["content"][0] == {"type": "thinking", "thinking": "let me see", "signature": "SIG"}


def test_tools_of_free_text_and_of_namespaces_reach_every_api_and_their_calls_come_back(serve, model):  # noqa: F811
    def call(name, arguments):
        return {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    tools = [{"type": "custom", "name": "patch", "description": "a patch",
              "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}},
             {"type": "namespace", "name": "mcp__git", "description": "git",
              "tools": [{"type": "function", "name": "log", "parameters": {"type": "object"}}]},
             {"type": "web_search"}]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    for name, arguments in (("patch", '{"input": "*** Begin"}'), ("mcp__git__log", '{"n": 1}'), ("patch", "{}")):
        model.answers.append(sse({"choices": [{"index": 0, "delta": {"tool_calls": [call(name, arguments)]}}]}, end)
                             + "data: [DONE]\n\n")
    client = serve(provider(model, "openai-chat"))
    body = {"model": "here/m", "tools": tools, "tool_choice": "auto", "parallel_tool_calls": False,
            "reasoning": {"effort": "low"}, "max_output_tokens": 50}
    events = client.stream({**body, "input": "go"})
    types = [e["type"] for e in events]
    assert "response.custom_tool_call_input.delta" in types and "response.custom_tool_call_input.done" in types
    patch = events[-1]["response"]["output"][0]
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "patch", "*** Begin")
    log = client.ask({**body, "input": "go"})[1]["output"][0]
    assert (log["type"], log["namespace"], log["name"], log["arguments"]) == ("function_call", "mcp__git", "log", '{"n": 1}')
    sent = model.seen[0][2]
    assert [t["function"]["name"] for t in sent["tools"]] == ["patch", "mcp__git__log"]
    assert "start: /x/" in sent["tools"][0]["function"]["description"]
    assert sent["parallel_tool_calls"] is False and sent["reasoning_effort"] == "low" and sent["tool_choice"] == "auto"
    asked = [{"role": "user", "content": "go"}, patch,
             {"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": "ok"}, log,
             {"type": "function_call_output", "call_id": log["call_id"], "output": [{"type": "input_text", "text": "c0ffee"}]}]
    assert client.ask({**body, "input": asked})[0] == 200
    sent = json.dumps(model.seen[2][2]["messages"])
    assert "*** Begin" in sent and "mcp__git__log" in sent and "c0ffee" in sent


def test_pictures_reach_the_model(serve, model):  # noqa: F811
    url = "data:image/png;base64,iVBORw0KGgo="
    model.answers.append(KINDS["anthropic"][2]("seen"))
    client = serve(provider(model, "anthropic"))
    content = [{"type": "input_text", "text": "what is it?"}, {"type": "input_image", "image_url": url}]
    assert client.ask({"model": "here/m", "input": [{"role": "user", "content": content}]})[0] == 200
    sent = model.seen[0][2]["messages"][0]["content"]
    assert sent[1]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


REFUSED = [
    ({}, 400, "model", "missing_required_parameter"),
    ({"model": "played/x"}, 400, "input", "invalid_value"),
    ({"model": "played/x", "input": []}, 400, "input", "invalid_value"),
    ({"model": "played/x", "input": "a", "previous_response_id": "r"}, 400, "previous_response_id", "invalid_value"),
    ({"model": "played/x", "input": "a", "background": True}, 400, "background", "invalid_value"),
    ({"model": "played/x", "input": [{"type": "item_reference", "id": "x"}]}, 400, "input", "invalid_value"),
    ({"model": "played/x", "input": [{"role": "king", "content": "x"}]}, 400, "input", "invalid_value"),
    ({"model": "played/x", "input": [{"type": "function_call", "name": "a"}]}, 400, "input", "invalid_value"),
    ({"model": "played/x", "input": "a", "tools": [{"type": "function"}]}, 400, "tools", "invalid_value"),
    ({"model": "gpt-of-nobody", "input": "a"}, 404, "model", "model_not_found"),
    ({"model": "openai/gpt", "input": "a"}, 404, "model", "model_not_found"),
]


def test_refusals_are_in_the_shape_of_the_api(home, serve):
    client = serve(scenario=[])
    for body, status, param, code in REFUSED:
        got, answer = client.ask(body)
        error = answer["error"]
        assert (got, error["param"], error["code"]) == (status, param, code), (body, answer)
        assert error["type"] == "invalid_request_error" and error["message"]
    status, answer = client.ask({"model": "played/x", "input": "a"}, token=False)
    assert status == 401 and answer["error"]["type"] == "authentication_error" and answer["error"]["message"]
    for method, path, allow in (("GET", "/v1/responses", "POST"), ("POST", "/v1/models", "GET")):
        c, r = client.open(method, path)
        with closing(c):
            assert r.status == 405 and r.headers["Allow"] == allow and json.loads(r.read())["error"]["code"]
    assert home.http("POST", "/v1/responses", b"{").json()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize("status, code, stream", [(429, "rate_limit_exceeded", False), (429, "rate_limit_exceeded", True),
                                                  (401, "invalid_api_key", True), (500, "server_is_overloaded", True)])
def test_a_failure_before_the_first_word_is_a_status(serve, status, code, stream):
    client = serve("[retry]\ntries = 1\n", scenario=[{"error": {"status": status, "times": 9}, "text": "never"}])
    got, answer = client.ask({"model": "played/x", "input": "a", "stream": stream})
    assert got == (503 if status == 500 else status) and answer["error"]["code"] == code


def test_a_failure_after_it_is_an_event(serve):
    client = serve("[retry]\ntries = 1\n", scenario=[{"error": {"cut": True, "times": 9}, "text": "one two three four"}])
    events = client.stream({"model": "played/x", "input": "a"})
    assert events[-1]["type"] == "response.failed" and "response.output_text.delta" in [e["type"] for e in events]
    failed = events[-1]["response"]
    assert failed["status"] == "failed" and failed["error"]["code"] == "server_error" and failed["error"]["message"]


def test_an_answer_that_was_cut_short_is_incomplete(serve, model):  # noqa: F811
    answer = KINDS["anthropic"][2]("half").replace('"end_turn"', '"max_tokens"')
    model.answers += [answer, answer]
    client = serve(provider(model, "anthropic"))
    last = client.stream({"model": "here/m", "input": "a"})[-1]
    assert last["type"] == "response.incomplete"
    whole = client.ask({"model": "here/m", "input": "a"})[1]
    for r in (last["response"], whole):
        assert r["status"] == "incomplete" and r["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_client_that_leaves_ends_the_request_to_the_provider(serve):
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(DEADLINE)
    config = f'[providers.slow]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:{server.getsockname()[1]}/v1"\n'
    client = serve(config)
    c = http.client.HTTPConnection(client.address, timeout=DEADLINE)
    c.request("POST", "/v1/responses", json.dumps({"model": "slow/m", "input": "a", "stream": True}),
              {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"})
    upstream, _ = server.accept()
    upstream.settimeout(DEADLINE)
    while b"\r\n\r\n" not in upstream.recv(65536):
        pass
    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                     b'data: {"choices": [{"index": 0, "delta": {"content": "one"}}]}\n\n')
    r = c.getresponse()
    assert b"response.created" in r.readline()
    c.close()
    r.close()
    while upstream.recv(65536):  # until the hub hangs up
        pass
    upstream.close()
    server.close()


def test_a_session_lends_its_provider_and_key(home, serve, model, tmp_path):  # noqa: F811
    config = provider(model, "openai-chat").replace("api_key_secret", "api_key_env").replace('"here"\n', '"HERE_CRED"\n', 1)
    config = config.replace('api_key_env = "here"', 'api_key_env = "HERE_CRED"')
    client = serve(config)
    body = {"provider": "here", "model": "m-1", "working_dir": str(tmp_path), "env": {"HERE_CRED": KEY}}
    session = json.loads(home.ok("api", "POST", "/session", json.dumps(body)))["id"]
    status, answer = client.ask({"model": "here/m-1", "input": "a"})
    assert status == 404 and "Afloat-Session" in answer["error"]["message"]
    model.answers += [KINDS["openai-chat"][2]("hi")] * 2
    for name, sent in (("m-2", "m-2"), ("", "m-1")):
        status, answer = client.ask({"model": name, "input": "a"}, headers={"Afloat-Session": session})
        assert status == 200 and answer["output"][0]["content"][0]["text"] == "hi", answer
        assert model.seen[-1][2]["model"] == sent
    status, answer = client.ask({"model": "m", "input": "a"}, headers={"Afloat-Session": "nobody"})
    assert status == 404 and answer["error"]["code"] == "session_not_found"


def test_many_streams_at_once_stay_apart(serve):
    client = serve(scenario=[{"text": " ".join(f"word{i}" for i in range(40)), "delta_ms": 1}])
    texts = []

    def ask(i):
        events = client.stream({"model": "played/x", "input": f"number {i}"})
        texts.append("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"))
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert texts == [" ".join(f"word{i}" for i in range(40))] * 12
