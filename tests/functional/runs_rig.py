"""A hub of the test's own that plays a run of a bot over the socket: what a real one must not do, and when
the test wants it. What a real hub does is tested with the real one."""
import json

from chat_rig import FakeHub

RUN = "1a2b3c4d"


class FakeRunHub(FakeHub):
    """`play(hub, body)` makes the events of a run once it was asked for."""

    def __init__(self, home, play):
        self.hub_events, self.sessions, self.stops = [], {}, 0
        self.record = {"run_id": RUN, "bot": "tidy", "project": "p", "state": "running", "end_reason": None,
                       "branch": f"afloat/tidy-{RUN}", "base_branch": "main", "iterations": []}
        self.on_stop = lambda hub, force: hub.end("interrupted")
        super().__init__(home, play)

    # ---- for tests -------------------------------------------------------------------------

    def tell(self, type, **fields):
        """An event of the run on the hub's stream."""
        with self.changed:
            id = len(self.hub_events) + 1
            self.hub_events.append({"id": id, "type": type, "run_id": RUN, "bot": "tidy", **fields})
            self.changed.notify_all()

    def iterate(self, session, number):
        self.sessions[session] = []
        self.record["iterations"].append({"number": number, "session_id": session})
        self.tell("bot.run.iteration", session_id=session, number=number)

    def note(self, session, type, **fields):
        with self.changed:
            events = self.sessions[session]
            events.append({"seq": len(events) + 1, "type": type, "session": session, **fields})
            self.changed.notify_all()

    def answer(self, session, text):
        self.note(session, "message.delta", text=text)
        self.note(session, "message.completed", role="assistant", text=text)
        self.note(session, "turn.completed", text=text, usage={}, duration_ms=1)
        self.note(session, "session.ended")

    def end(self, reason="complete", **fields):
        for session, events in self.sessions.items():
            if not events or events[-1]["type"] != "session.ended":
                self.note(session, "session.ended")
        self.record.update({"state": "ended", "end_reason": reason, **fields})
        self.tell("bot.run.ended", end_reason=reason)

    # ---- the far side ----------------------------------------------------------------------

    def _answer(self, client, method, path, query, body):
        with self.changed:
            self.requests.append((method, path, body))
            self.changed.notify_all()
        part = path.strip("/").split("/")
        if path == "/events" and "limit" in query:
            self._json(client, 200, {"events": [], "next": len(self.hub_events)})
        elif path == "/events":
            self._follow(client, self.hub_events, int(query["after"]), "id")
        elif part[0] == "session" and part[-1] == "events":
            self._follow(client, self.sessions[part[1]], int(query["after"]), "seq")
        elif (method, part[0], part[-1]) == ("POST", "bots", "runs"):
            self.play(self, body)
            self._json(client, 201, self.record)
        elif part[-1] == "stop":
            self.stops += 1
            self.on_stop(self, bool(body.get("force")))
            self._json(client, 200, self.record)
        elif part[-1] == "input":
            self._json(client, 200, {"taken": "queued"})
        else:
            self._json(client, 200, self.record)

    def _follow(self, client, events, after, key):
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        while True:
            with self.changed:
                while len(events) <= after and not self.gone:
                    self.changed.wait()
                if self.gone:
                    return
                ev = events[after]
            after += 1
            text = f"id: {ev[key]}\nevent: {ev['type']}\ndata: {json.dumps(ev)}\n\n"
            client.sendall(text.encode())
