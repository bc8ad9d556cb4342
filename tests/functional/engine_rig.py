"""Real engines from npm (tests/engines/package-lock.json) and a model on loopback that they talk to through the hub."""
import http.server
import json
import os
import pathlib
import threading

import pytest

KEY = "sk-engine-0123456789abcdef"
TOLD = "The conversation so far"  # a new thread is told the past as text


def sse(*events):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)


USAGE = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 7,
         "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 107}


class Responses:
    """What a model of the Responses API says."""

    @staticmethod
    def text(text, name="m1"):
        item = {"type": "message", "id": name, "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        return sse({"type": "response.created", "response": {"id": "r"}},
                   {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                   *[{"type": "response.output_text.delta", "item_id": name, "output_index": 0, "delta": piece}
                     for piece in text.split(" ")],
                   {"type": "response.output_item.done", "output_index": 0, "item": item},
                   {"type": "response.completed", "response": {"id": "r", "usage": USAGE}})

    @staticmethod
    def call(name, input, number=1):
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"call_{number}", "name": name,
                "arguments": json.dumps(input)}
        return sse({"type": "response.created", "response": {"id": "r"}},
                   {"type": "response.output_item.done", "output_index": 0, "item": item},
                   {"type": "response.completed", "response": {"id": "r", "usage": USAGE}})

    @staticmethod
    def half(text):
        """The beginning of an answer, and then nothing: the stream is cut."""
        item = {"type": "message", "id": "cut", "role": "assistant", "content": []}
        return sse({"type": "response.created", "response": {"id": "r"}},
                   {"type": "response.output_item.added", "output_index": 0, "item": item},
                   {"type": "response.output_text.delta", "item_id": "cut", "output_index": 0, "delta": text})


class Messages:
    """The same of the Anthropic Messages API."""

    @staticmethod
    def message(block, deltas, reason):
        usage = {"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 1}
        return sse({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m-1",
                                                         "content": [], "stop_reason": None, "usage": usage}},
                   {"type": "content_block_start", "index": 0, "content_block": block},
                   *[{"type": "content_block_delta", "index": 0, "delta": d} for d in deltas],
                   {"type": "content_block_stop", "index": 0},
                   {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}},
                   {"type": "message_stop"})

    @classmethod
    def text(cls, text):
        pieces = [text[i:i + 5] for i in range(0, len(text), 5)]
        return cls.message({"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces], "end_turn")

    @classmethod
    def call(cls, name, input, number=1):
        return cls.message({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}},
                           [{"type": "input_json_delta", "partial_json": json.dumps(input)}], "tool_use")

    @classmethod
    def half(cls, text):
        whole = cls.message({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}], "end_turn")
        return whole[:whole.index("event: content_block_stop")]


class Model(http.server.ThreadingHTTPServer):
    """A server on loopback. `answers` are given one after the other: a text, a (status, body), or a function of the
    request and its handler that writes by itself. What was asked is in `seen`."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.server.take(self, json.loads(body))

            def log_message(self, *args):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.answers = [], []
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def take(self, handler, body):
        self.seen.append((handler.path, {k.lower(): v for k, v in handler.headers.items()}, body))
        answer = self.answers.pop(0) if self.answers else (500, "the test has no more answers")
        if callable(answer):
            answer(handler, body)
            return
        status, text = answer if isinstance(answer, tuple) else (200, answer)
        kind = "text/event-stream" if status == 200 else "application/json"
        text = text if status == 200 else json.dumps({"error": {"message": text, "type": "test"}})
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(text.encode())))
        handler.end_headers()
        handler.wfile.write(text.encode())

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


def events(home, session):
    """All events of a session."""
    answer = home.http("GET", f"/session/{session}/events?limit=1000")
    assert answer.status == 200, answer.body
    return answer.json()["events"]


def post(home, path, **body):
    answer = home.http("POST", path, json.dumps(body).encode())
    assert answer.status < 300, answer.body
    return answer.json()


def of_type(list, kind):
    return [e for e in list if e["type"] == kind]


# ---- a home whose sessions an engine runs ---------------------------------------------------------

class Engine:
    """A home with a provider on loopback and one engine; the engine's program is `program`."""

    def __init__(self, home, work, name, kind, program):
        self.home, self.work, self.name, self.model = home, work, name, Model()
        base = f"http://127.0.0.1:{self.model.server_port}" + ("/v1" if kind == "openai-responses" else "")
        self.configure(f'[engines.{name}]\ncommand = "{program}"\n', kind, base)

    def configure(self, more, kind, base):
        (self.home.dir / "config.toml").write_text(
            f'[model]\nprovider = "here"\nname = "m-1"\n[providers.here]\nkind = "{kind}"\nbase_url = "{base}"\n'
            f'api_key_env = "HERE_CRED"\n[prices."m-1"]\ninput = 1.0\noutput = 10.0\n{more}')

    def chat(self, text, *args, **more):
        return self.home.cli("chat", text, "--engine", self.name, "--cwd", str(self.work), *args,
                             env={"HERE_CRED": KEY, **more}, timeout=60)

    def new(self, **params):
        env = {"HERE_CRED": KEY, "PATH": self.home.env["PATH"], **params.pop("env", {})}
        return post(self.home, "/session", working_dir=str(self.work), engine=self.name, env=env, **params)["id"]

    def new_with(self, **env):
        """A session whose engine has these variables."""
        return self.new(env=env)

    def send(self, id, text, wait=True, **more):
        return post(self.home, f"/session/{id}/message", text=text, wait=wait, **more)

    def last(self):
        """The session that was made last."""
        return self.home.http("GET", "/session").json()["sessions"][0]["id"]

    def events(self, id=None):
        return events(self.home, id or self.last())

    def requests(self):
        return [body for _, _, body in self.model.seen]

    def processes(self):
        """The engine's own processes."""
        found = []
        for dir in pathlib.Path("/proc").iterdir():
            try:
                if dir.name.isdigit() and str(self.home.dir) in (dir / "environ").read_bytes().decode(errors="replace"):
                    name = os.path.basename(os.readlink(dir / "exe"))
                    if name.startswith(self.name):
                        found.append(int(dir.name))
            except OSError:
                pass
        return found


@pytest.fixture
def held(request):
    """An answer that begins, and goes on when the test says so; the parameter is the API."""
    api = getattr(request, "param", Responses)
    go = threading.Event()

    def answer(handler, body):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        try:
            handler.wfile.write(api.half("I begin").encode())
            handler.wfile.flush()
            go.wait(30)
            handler.wfile.write(api.text("and end").encode())
        except OSError:
            pass  # nobody listens any more
        handler.close_connection = True
    answer.go = go
    yield answer
    go.set()
