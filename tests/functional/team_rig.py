"""Several hubs, each with a home of its own, on one PostgreSQL; and what happens between them."""
import json
import pathlib
import socket
import tempfile
import threading
import time

from conftest import DEADLINE, Home, Hub, remove_tree, retry

LEASE_S = 3


class Team:
    def __init__(self, database, url=None):
        self.database = database
        self.url = url or database.url()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="afloat-team-"))
        self.homes, self.hubs = {}, {}

    def home(self, name, url=None, more="", lease_s=LEASE_S):
        dir = self.root / name
        dir.mkdir()
        (dir / "config.toml").write_text(
            f'[store]\nurl = "{url or self.url}"\nhub_name = "{name}"\nlease_s = {lease_s}\n{more}')
        self.homes[name] = Home(dir)
        return self.homes[name]

    def start(self, *names, **more):
        """Start a hub for each name; their homes."""
        for name in names:
            home = self.homes.get(name) or self.home(name, **more)
            self.hubs[name] = Hub(home)
        homes = [self.homes[n] for n in names]
        return homes if len(homes) > 1 else homes[0]

    def kill(self, name):
        hub = self.hubs.pop(name)
        hub.process.kill()
        hub.process.communicate()

    def close(self):
        for hub in self.hubs.values():
            hub.close()
        for home in self.homes.values():
            home.close()
        remove_tree(self.root)


class Reader(threading.Thread):
    """Server-sent events of a hub from the moment on when it is made, until close(): self.events holds (id, type, data)."""

    def __init__(self, home, path="/events", last=None):
        super().__init__(daemon=True)
        self.events = []
        self.socket = home.connect()
        self.socket.settimeout(None)
        self.last = last
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
        if last is not None:
            head += f"Last-Event-ID: {last}\r\n"
        self.socket.sendall(head.encode() + b"\r\n")
        self.stream = self.socket.makefile("rb")
        assert self.stream.readline().startswith(b"HTTP/1.1 200")  # so the hub has begun to follow
        self.start()

    def run(self):
        frame = {}
        try:
            for line in self.stream:
                line = line.decode().rstrip("\r\n")
                name, _, value = line.partition(": ")
                if name in ("id", "event", "data"):
                    frame[name] = value
                elif not line and "data" in frame:
                    data = json.loads(frame["data"])
                    self.last = int(frame.get("id", 0))
                    self.events.append((self.last, frame["event"], data))
                    frame = {}
        except (OSError, ValueError):
            pass

    def wait_for(self, test, deadline=DEADLINE):
        return retry(lambda: [e for e in list(self.events) if test(e)], deadline)[0]

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.join(DEADLINE)
        self.socket.close()


class Proxy:
    """Stands between hubs and the server, and cuts connections when told."""

    def __init__(self, database):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="afloat-proxy-"))
        self.target = str(database.server.dir / ".s.PGSQL.5432")
        self.pairs, self.open = set(), True
        self.refusing = False
        self.swallow = None  # bytes: the answer to what holds them does not arrive, its connection breaks instead
        self.swallowed = 0
        self.delay = 0.0  # seconds that everything takes on its way
        self.freeze = None  # (is it an answer, bytes): when this has passed, nothing more goes to the server
        self.flows = threading.Event()
        self.flows.set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.dir / ".s.PGSQL.5432"))
        self.listener.listen(64)
        self.url = f"postgresql://boss@/{database.name}?host={self.dir}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while self.open:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.target)
            except OSError:
                near.close()
                continue
            pair, doomed = (near, far), threading.Event()
            self.pairs.add(pair)
            for answers in (False, True):
                threading.Thread(target=self._pump, args=(pair, doomed, answers), daemon=True).start()

    def _pump(self, pair, doomed, answers):
        a, b = reversed(pair) if answers else pair
        try:
            while data := a.recv(65536):
                if answers and doomed.is_set():
                    self.swallowed += 1
                    break
                if not answers and self.swallow and self.swallow in data:
                    self.swallow = None
                    doomed.set()
                time.sleep(self.delay)
                freezes = self.freeze is not None and answers == self.freeze[0] and self.freeze[1] in data
                if freezes and answers:
                    self.flows.clear()
                if not answers:
                    self.flows.wait()
                b.sendall(data)
                if freezes:
                    self.freeze = None
                    self.flows.clear()
        except OSError:
            pass
        self.pairs.discard(pair)  # a socket is closed when both directions have let go of it
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Break every connection at once."""
        pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        return len(pairs)

    def close(self):
        self.open = False
        self.listener.close()
        self.flows.set()
        self.cut()
        remove_tree(self.dir)
