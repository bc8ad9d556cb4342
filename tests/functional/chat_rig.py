"""What the tests of `afloat chat` share: a terminal that is read as a screen, and a hub of the test's own.

The hub here speaks the session routes over the socket and does what a real one must not: it sends
hostile text, breaks off, goes away. What a real hub does is tested with the real one.
"""
import fcntl
import json
import os
import re
import select
import socket
import struct
import subprocess
import termios
import threading
import time
import urllib.parse

from conftest import BIN, DEADLINE

CSI = re.compile(rb"\x1b\[([0-9;?<>]*)([A-Za-z])")
FRAME = b"\x1b[?2026l"  # the end of what is drawn in one piece
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Screen:
    """The rows that a terminal shows after some bytes; knows what the chat uses and fails on the rest."""

    def __init__(self, rows=24, cols=80):
        self.rows, self.cols = rows, cols
        self.lines, self.row, self.col = [[]], 0, 0

    def feed(self, data):
        at = 0
        while at < len(data):
            if data[at] == 0x1B:
                m = CSI.match(data, at)
                assert m, f"no sequence we know: {data[at:at + 16]!r}"
                self._sequence(m.group(1), m.group(2))
                at = m.end()
            else:
                n = 1
                while at + n < len(data) and data[at + n] & 0xC0 == 0x80:
                    n += 1
                self._put(data[at:at + n].decode())
                at += n
        return self

    def _put(self, c):
        if c == "\r":
            self.col = 0
        elif c == "\n":
            self._down()
        else:
            assert c >= " ", f"a control character on the screen: {c!r}"
            if self.col >= self.cols:
                self.col = 0
                self._down()
            line = self.lines[self.row]
            line.extend(" " * (self.col + 1 - len(line)))
            line[self.col] = c
            self.col += 1

    def _down(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _sequence(self, args, final):
        n = int(args or b"1") if args.isdigit() or not args else 0
        if final == b"A":
            self.row = max(self.row - n, 0, len(self.lines) - self.rows)
        elif final == b"B":
            self.row = min(self.row + n, len(self.lines) - 1)
        elif final == b"C":
            self.col = min(self.col + n, self.cols - 1)
        elif final == b"K" and not args:
            self.lines[self.row] = self.lines[self.row][:self.col]
        elif final == b"J" and not args:
            self.lines[self.row] = self.lines[self.row][:self.col]
            del self.lines[self.row + 1:]
        elif final == b"J" or final == b"H":
            self.lines, self.row, self.col = [[]], 0, 0
        else:
            assert final in b"mhlu", f"a sequence we do not know: {args!r} {final!r}"

    def asks(self, prompt):
        """The cursor is behind this prompt, and nothing is typed."""
        line = "".join(self.lines[self.row]).rstrip()
        return line == prompt.rstrip() and self.col == len(prompt)

    def busy(self):
        return any(line and line[0] in SPINNER for line in self.lines)

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, home, *args, env=None, rows=24, cols=80, cwd=None):
        more = {"env": {"TERM": "xterm", **(env or {})}}
        if cwd:
            more["cwd"] = cwd
        self.process, self.end = home.on_terminal(*args, rows=rows, cols=cols, **more)
        self.rows, self.cols = rows, cols
        self.seen, self.at = b"", 0
        self.drawn, self.drawn_n = Screen(rows, cols), 0

    def resize(self, rows, cols):
        self.rows, self.cols = rows, cols
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, pattern, deadline=DEADLINE):
        """Read on until what follows the last match matches; returns it up to there."""
        end = time.monotonic() + deadline
        while not (m := re.compile(pattern, re.S).search(self.seen, self.at)):
            self._more(end)
        start, self.at = self.at, m.end()
        return self.seen[start:self.at]

    def _more(self, end):
        ready, _, _ = select.select([self.end], [], [], max(0, end - time.monotonic()))
        assert ready, f"nothing more came after {self.seen[self.at:]!r}"
        try:
            chunk = os.read(self.end.fileno(), 65536)
        except OSError:
            chunk = b""
        assert chunk, f"the terminal is closed after {self.seen[self.at:]!r}"
        self.seen += chunk

    def frame(self, check):
        """Read on to a frame, drawn after the last match, whose screen passes the check."""
        end = time.monotonic() + DEADLINE
        while True:
            while (at := self.seen.find(FRAME, max(self.at, self.drawn_n))) >= 0:
                self.drawn.feed(self.seen[self.drawn_n:at + len(FRAME)])
                self.drawn_n = at + len(FRAME)
                if check(self.drawn):
                    start, self.at = self.at, self.drawn_n
                    return self.seen[start:self.at]
            self._more(end)

    def rest(self):
        """All that comes until the program has ended; returns its exit code."""
        while True:
            ready, _, _ = select.select([self.end], [], [], DEADLINE)
            assert ready, f"still running after {self.seen[-300:]!r}"
            try:
                chunk = os.read(self.end.fileno(), 65536)
            except OSError:
                break
            if not chunk:
                break
            self.seen += chunk
        return self.process.wait(DEADLINE)

    def type(self, text):
        self.end.write(text.encode() if isinstance(text, str) else text)

    def prompt(self):
        """Wait for an empty prompt, and nothing at work."""
        return self.frame(lambda s: s.asks("> ") and not s.busy())

    def asked(self, prompt):
        """Wait for a question of the chat."""
        return self.frame(lambda s: s.asks(prompt))

    def screen(self):
        return Screen(self.rows, self.cols).feed(self.seen).text()

    def modes(self):
        return termios.tcgetattr(self.end)

    def is_usual(self):
        """Echo, lines and signals are as a shell expects them."""
        return self.modes()[3] & (termios.ECHO | termios.ICANON | termios.ISIG) == (
            termios.ECHO | termios.ICANON | termios.ISIG)


class Pane:
    """A program in a window of tmux."""

    def __init__(self, home, dir, cols, rows, *args, env=None, program=BIN):
        self.socket = str(dir / "tmux.sock")
        words = {**home.env, "AFLOAT_HOME": str(home.dir), "TERM": "tmux-256color", "NO_COLOR": "1", **(env or {})}
        words.pop("TMUX", None)
        self.dir = dir
        self.tmux("new-session", "-d", "-x", str(cols), "-y", str(rows), "-c", str(dir), "cat")
        self.tmux("set", "-g", "status", "off")
        self.tmux("set", "-g", "focus-events", "on")
        self.tmux("set", "-g", "remain-on-exit", "on")
        self.tmux("respawn-pane", "-k", "-c", str(dir), *[f"-e{k}={v}" for k, v in words.items()],
                  program, *args)

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def grid(self):
        return self.tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def all(self):
        """With the scrollback, lines that were wrapped joined again."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n")

    def wait(self, check):
        end = time.monotonic() + DEADLINE
        while not check(grid := self.grid()):
            assert time.monotonic() < end, "\n".join(grid)
            time.sleep(0.02)
        return grid

    def shows(self, text):
        return self.wait(lambda grid: any(text in line for line in grid))

    def idle(self):
        """The prompt is empty and nothing is at work."""
        return self.wait(lambda g: any(line == ">" for line in g) and not any(line[:1] in SPINNER for line in g if line))

    def cursor(self):
        x, y = self.tmux("display", "-p", "#{cursor_x} #{cursor_y}").split()
        return int(y), int(x)

    def resize(self, cols, rows):
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


class FakeHub:
    """The session routes, played: `play(hub, text)` makes the events of a turn."""

    def __init__(self, home, play):
        home.runtime.mkdir(mode=0o700, exist_ok=True)
        self.play, self.events, self.requests, self.turns = play, [], [], 0
        self.changed = threading.Condition()
        self.streams, self.gone, self.build = [], False, None
        self.row = {"id": "s-1", "state": "idle", "provider": "fake", "model": "f", "usage": {}}
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(home.socket))
        self.server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    # ---- for tests -------------------------------------------------------------------------

    def emit(self, type, **fields):
        with self.changed:
            seq = len(self.events) + 1
            self.events.append({"seq": seq, "type": type, "session": "s-1", "turn": f"t-{self.turns}",
                                **fields})
            self.changed.notify_all()

    def say(self, *pieces, final=None):
        for piece in pieces:
            self.emit("message.delta", text=piece)
        text = final if final is not None else "".join(pieces)
        self.emit("message.completed", role="assistant", text=text)
        self.emit("turn.completed", text=text, usage={}, duration_ms=1)

    def wait_for(self, method, path):
        """The body of the request that a client made, or will make."""
        end = time.monotonic() + DEADLINE
        with self.changed:
            while True:
                for m, p, body in self.requests:
                    if (m, p) == (method, path):
                        return body
                assert self.changed.wait(end - time.monotonic()), self.requests

    def close(self):
        with self.changed:
            self.gone = True
            self.changed.notify_all()
        self.server.close()
        for s in self.streams:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # ---- the far side ----------------------------------------------------------------------

    def _accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self.streams.append(client)
        with client:
            f = client.makefile("rb")
            first = f.readline()
            if not first:  # somebody looked whether we are here
                return
            method, target, _ = first.decode().split()
            n = 0
            while (line := f.readline().strip()):
                name, _, value = line.decode().partition(":")
                n = int(value) if name.lower() == "content-length" else n
            body = json.loads(f.read(n)) if n else None
            url = urllib.parse.urlsplit(target)
            query = dict(urllib.parse.parse_qsl(url.query))
            try:
                self._answer(client, method, url.path, query, body)
            except OSError:
                pass

    def _answer(self, client, method, path, query, body):
        with self.changed:
            self.requests.append((method, path, body))
            self.changed.notify_all()
        row = self.row
        if method == "PATCH":
            row.update(body)
        if path == "/session/s-1/events" and "after" in query and method == "GET":
            self._stream(client, int(query["after"]))
        elif (method, path) == ("POST", "/session/s-1/message"):
            self.turns += 1
            self._json(client, 202, {"turn_id": f"t-{self.turns}"})
            threading.Thread(target=self.play, args=(self, body["text"]), daemon=True).start()
        elif (method, path) == ("POST", "/session/s-1/steer"):
            self.emit("message.completed", role="user", text=body["text"], steer=True)
            self._json(client, 200, {"ok": True})
        elif (method, path) == ("POST", "/session"):
            self._json(client, 201, row)
        elif (method, path) == ("GET", "/session"):
            self._json(client, 200, {"sessions": [row], "next": None})
        else:
            self._json(client, 200, {**row, "ok": True, "commands": []})

    def _json(self, client, status, value):
        body = json.dumps(value).encode()
        build = f"Afloat-Build: {self.build}\r\n".encode() if self.build else b""
        client.sendall(b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                       b"%sConnection: close\r\n\r\n%s" % (status, len(body), build, body))

    def _stream(self, client, after):
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                       b"Connection: close\r\n\r\n")
        while True:
            with self.changed:
                while len(self.events) <= after and not self.gone:
                    self.changed.wait()
                if self.gone:
                    return
                ev = self.events[after]
            after += 1
            client.sendall(f"id: {ev['seq']}\nevent: {ev['type']}\ndata: {json.dumps(ev)}\n\n".encode())
