"""A WebSocket to a terminal of the hub, over its socket."""
import base64
import json
import os
import struct
import time

from conftest import DEADLINE


class Terminal:
    def __init__(self, home, id, offset=None, headers=(), connect=None):
        query = "" if offset is None else f"?offset={offset}"
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket = (connect or home.connect)()
        lines = [f"GET /pty/{id}{query} HTTP/1.1", "Host: test", "Connection: Upgrade", "Upgrade: websocket",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *headers]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.raw = b""
        while b"\r\n\r\n" not in self.raw:
            chunk = self.socket.recv(65536)
            if not chunk:
                break
            self.raw += chunk
        self.head, _, self.raw = self.raw.partition(b"\r\n\r\n")
        self.status = int(self.head.split()[1])
        self.offset = offset  # after the last byte that came
        self.screen = b""  # bytes of the last snapshot
        self.output = b""  # bytes after it
        self.exit = None
        self.sizes = []
        self.closed = False
        self.next_is_snapshot = False

    def _need(self, n):
        while len(self.raw) < n:
            chunk = self.socket.recv(65536)
            if not chunk:
                self.closed = True
                return False
            self.raw += chunk
        return True

    def frame(self):
        """The next frame as (opcode, payload); None at the end."""
        if not self._need(2):
            return None
        op, n, at = self.raw[0] & 15, self.raw[1] & 127, 2
        if n == 126:
            self._need(4)
            n, at = struct.unpack(">H", self.raw[2:4])[0], 4
        elif n == 127:
            self._need(10)
            n, at = struct.unpack(">Q", self.raw[2:10])[0], 10
        if not self._need(at + n):
            return None
        payload, self.raw = self.raw[at:at + n], self.raw[at + n:]
        return op, payload

    def step(self):
        """Take one frame in; False at the end."""
        got = self.frame()
        if got is None or got[0] == 8:
            self.closed = True
            return False
        op, payload = got
        if op == 1:
            m = json.loads(payload)
            if m["type"] == "snapshot":
                self.offset, self.next_is_snapshot = m["offset"], True
            elif m["type"] == "exit":
                self.exit = m["status"]
            elif m["type"] == "resize":
                self.sizes.append((m["rows"], m["cols"]))
        elif op == 2 and self.next_is_snapshot:
            self.next_is_snapshot, self.screen = False, payload
        elif op == 2:
            self.output += payload
            self.offset += len(payload)
        return True

    def until(self, what, deadline=DEADLINE):
        """Take frames in until `what` (bytes in the screen or output, or a function) is there."""
        end = time.monotonic() + deadline
        done = what if callable(what) else lambda: what in self.screen + self.output
        while not done():
            assert time.monotonic() < end and self.step(), (what, self.screen[-500:], self.output[-2000:])
        return self

    def send(self, payload, op=2):
        if isinstance(payload, str):
            payload = payload.encode()
        mask = os.urandom(4)
        n = len(payload)
        head = struct.pack(">BB", 128 | op, 128 | n) if n < 126 else struct.pack(">BBH", 128 | op, 254, n)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    def resize(self, rows, cols):
        self.send(json.dumps({"type": "resize", "rows": rows, "cols": cols}), op=1)

    def close(self):
        self.socket.close()
