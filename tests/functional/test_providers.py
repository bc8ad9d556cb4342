"""The whole way to a model and back: chat, hub, HTTP, and a server on loopback that speaks the real formats."""
import http.server
import json
import threading

import pytest

from conftest import files_below

CALL, KEY = "list_files", "sk-loopback-0123456789"


def sse(*events, named=False):
    return "".join((f"event: {e['type']}\n" if named else "") + f"data: {json.dumps(e)}\n\n" for e in events)


def chat_text(text):
    pieces = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": p}}]} for p in text]
    return sse(*pieces, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
               {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}) + "data: [DONE]\n\n"


def chat_call():
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": CALL, "arguments": "{}"}}
    return sse({"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]},
               {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}) + "data: [DONE]\n\n"


def responses_text(text):
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    deltas = [{"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "delta": p} for p in text]
    return sse({"type": "response.created", "response": {"id": "r1"}}, *deltas,
               {"type": "response.output_item.done", "output_index": 0, "item": item},
               {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [item],
                "usage": {"input_tokens": 9, "output_tokens": 3}}}, named=True)


def responses_call():
    item = {"type": "function_call", "id": "f1", "call_id": "call_1", "name": CALL, "arguments": "{}"}
    return sse({"type": "response.created", "response": {"id": "r1"}},
               {"type": "response.output_item.done", "output_index": 0, "item": item},
               {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [item],
                "usage": {"input_tokens": 9, "output_tokens": 3}}}, named=True)


def anthropic_message(block, deltas, reason):
    return sse({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [],
                                                     "usage": {"input_tokens": 9, "output_tokens": 1}}},
               {"type": "content_block_start", "index": 0, "content_block": block},
               *[{"type": "content_block_delta", "index": 0, "delta": d} for d in deltas],
               {"type": "content_block_stop", "index": 0},
               {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}},
               {"type": "message_stop"}, named=True)


def anthropic_text(text):
    return anthropic_message({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in text], "end_turn")


def anthropic_call():
    return anthropic_message({"type": "tool_use", "id": "call_1", "name": CALL, "input": {}},
                             [{"type": "input_json_delta", "partial_json": "{}"}], "tool_use")


# kind: path behind base_url, a call, a text, how its key travels
KINDS = {
    "openai-chat": ("/v1/chat/completions", chat_call, chat_text, ("Authorization", f"Bearer {KEY}")),
    "openai-responses": ("/v1/responses", responses_call, responses_text, ("Authorization", f"Bearer {KEY}")),
    "anthropic": ("/v1/messages", anthropic_call, anthropic_text, ("x-api-key", KEY)),
}


@pytest.fixture
def model():
    """A server that asks for a tool first and then answers; what it was asked is in `model.seen`."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.seen.append((self.path, dict(self.headers), body))
            text = self.server.answers.pop(0).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_goes_over_the_wire_and_back(home, model, tmp_path, kind):
    path, call, text, (header, value) = KINDS[kind]
    base = f"http://127.0.0.1:{model.server_port}" + ("" if kind == "anthropic" else "/v1")
    (home.dir / "config.toml").write_text(
        f'[model]\nprovider = "here"\nname = "m-1"\n'
        f'[providers.here]\nkind = "{kind}"\nbase_url = "{base}"\napi_key_env = "HERE_CRED"\n')
    (tmp_path / "a-file-to-see").write_text("")
    model.answers += [call(), text("Grüße aus dem Modell")]
    done = home.cli("chat", "what is here?", "--cwd", str(tmp_path), env={"HERE_CRED": KEY})
    assert done.returncode == 0, done.stderr
    assert "Grüße aus dem Modell" in done.stdout
    assert [p for p, _, _ in model.seen] == [path, path]
    for _, headers, body in model.seen:
        assert {k.lower(): v for k, v in headers.items()}[header.lower()] == value
        assert body["model"] == "m-1" and body["stream"] is True and CALL in json.dumps(body["tools"])
    first, second = (json.dumps(body) for _, _, body in model.seen)
    assert "what is here?" in first and "a-file-to-see" not in first
    assert "a-file-to-see" in second and "call_1" in second  # what the tool found goes back with its call
    assert not [path for path, held in files_below(home.dir) if KEY.encode() in held]  # in no journal, log or index
