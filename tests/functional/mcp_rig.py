"""An MCP client over the hub's socket, small enough to say exactly what goes over the wire."""
import json

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LATEST = "2025-11-25"


def bare(message):
    return json.dumps(message).encode()


class Wire:
    """A POST or GET whose answer is read piece by piece."""

    def __init__(self, home, method, body=b"", headers=()):
        self.socket = home.connect()
        lines = [f"{method} /mcp HTTP/1.1", "Host: test", *headers]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while line := self.file.readline().decode().strip():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self.lines = []
        self.ids = []

    def chunk(self):
        """One chunk of the body; empty at its end."""
        size = int(self.file.readline() or b"0", 16)
        bytes = self.file.read(size)
        self.file.readline()
        return bytes

    def json(self):
        return json.loads(self.file.read(int(self.headers["content-length"])))

    def message(self):
        """The next message of a stream; None at its end. Its event id is added to `ids`."""
        while True:
            for i, line in enumerate(self.lines):
                if line == "":
                    frame, self.lines = self.lines[:i], self.lines[i + 1:]
                    break
            else:
                more = self.chunk()
                if not more:
                    return None
                self.lines += more.decode().split("\n")[:-1]
                continue
            fields = dict(x.split(": ", 1) for x in frame if ": " in x and not x.startswith(":"))
            if "id" in fields:
                self.ids.append(fields["id"])
            if fields.get("data"):
                return json.loads(fields["data"])

    def rest(self):
        """All messages up to the end."""
        return list(iter(self.message, None))

    def close(self):
        self.file.close()
        self.socket.close()


class Legacy:
    """A client with a handshake."""

    def __init__(self, home, version=LATEST, capabilities=None, hello=True):
        self.home = home
        self.last = 0
        self.headers = []
        answer = self.post("initialize", protocolVersion=version, capabilities=capabilities or {},
                           clientInfo={"name": "rig", "version": "1"})
        assert answer.status == 200, answer.status
        self.hello = answer.json()["result"]
        self.headers = [f"Mcp-Session-Id: {answer.headers['mcp-session-id']}",
                        f"MCP-Protocol-Version: {self.hello['protocolVersion']}"]
        if hello:
            assert self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def send(self, message, accept="application/json, text/event-stream", raw=None):
        return Wire(self.home, "POST", raw if raw is not None else bare(message), [f"Accept: {accept}", *self.headers])

    def post(self, method, accept="application/json, text/event-stream", **params):
        self.last += 1
        return self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}, accept)

    def ask(self, method, **params):
        """The whole answer to one request that is answered without a stream."""
        wire = self.post(method, **params)
        assert wire.headers["content-type"] == "application/json", wire.headers
        answer = wire.json()
        assert answer["id"] == self.last
        return answer

    def result(self, method, **params):
        answer = self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def call(self, name, **arguments):
        return self.result("tools/call", name=name, arguments=arguments)

    def listen(self, after=None):
        more = [f"Last-Event-ID: {after}"] if after else []
        return Wire(self.home, "GET", b"", ["Accept: text/event-stream", *self.headers, *more])

    def end(self):
        return Wire(self.home, "DELETE", b"", self.headers)


class Modern:
    """A client without one."""

    def __init__(self, home, capabilities=None, version=MODERN):
        self.home = home
        self.version = version
        self.capabilities = capabilities or {}
        self.last = 0

    def post(self, method, headers=None, meta=None, **params):
        self.last += 1
        name = params.get("name") or params.get("uri")
        params["_meta"] = {META + "protocolVersion": self.version, META + "clientCapabilities": self.capabilities,
                           **(meta or {})}
        if headers is None:
            headers = [f"MCP-Protocol-Version: {self.version}", f"Mcp-Method: {method}"]
            headers += [f"Mcp-Name: {name}"] if name else []
        return Wire(self.home, "POST", bare({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}),
                    ["Accept: application/json, text/event-stream", *headers])

    def ask(self, method, **params):
        wire = self.post(method, **params)
        answer = wire.json()
        answer["status"] = wire.status
        return answer

    def result(self, method, **params):
        answer = self.ask(method, **params)
        assert answer["status"] == 200 and "result" in answer, answer
        return answer["result"]
