"""Sessions and turns through the HTTP API, with the scripted model: what runs, what is journaled, what is
shown, what the model reads."""
import concurrent.futures
import json
import os
import random
import select
import signal
import time

import pytest

from conftest import DEADLINE, LOOPS, Hub, draw_seed, files_below, is_gone, retry


class Session:
    """One session over the socket."""

    def __init__(self, home, dir, scenario=None, env=None, **params):
        self.home = home
        self.dir = dir
        dir.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted", **(env or {})}
        if scenario is not None:
            path = dir / f"scenario-{random.random()}.jsonl"
            path.write_text("".join(json.dumps(x) + "\n" for x in scenario))
            env["AFLOAT_SCENARIO"] = str(path)
        made = call(home, "POST", "/session", {"working_dir": str(dir), "env": env, **params}, 201)
        self.id = made["id"]
        self.row = made

    def call(self, method, path="", body=None, status=200):
        return call(self.home, method, f"/session/{self.id}{path}", body, status)

    def ask(self, text="go", **more):
        return self.call("POST", "/message", {"text": text, "wait": True, **more})

    def send(self, text="go", status=202, **more):
        return self.call("POST", "/message", {"text": text, **more}, status)

    def events(self, *types):
        found, after = [], 0
        while True:
            page = self.call("GET", f"/events?after={after}")
            found += page["events"]
            if not page["events"]:
                break
            after = page["next"]
        assert [e["seq"] for e in found] == list(range(1, len(found) + 1))
        return [e for e in found if not types or e["type"] in types]

    def wait_for(self, type, **fields):
        def look():
            return [e for e in self.events(type) if all(e.get(k) == v for k, v in fields.items())]
        return retry(look)[-1]

    def requests(self):
        path = self.home.dir / "sessions" / self.id / "requests.jsonl"
        return [json.loads(x) for x in path.read_text().splitlines()]

    def results(self):
        """What the model was told about its calls, in order."""
        last = self.requests()[-1]["body"]["messages"]
        return [r for m in last if m["role"] == "tool" for r in m["content"]]


def call(home, method, path, body=None, status=200):
    raw = json.dumps(body).encode() if body is not None else b""
    answer = home.http(method, path, raw)
    assert answer.status == status, answer.body
    return answer.json() if answer.body else None


def plugin(home, name, code):
    path = home.dir / "plugins" / f"{name}.lua"
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    report = call(home, "POST", "/reload", {})
    assert name not in report["failed"], report


def one_call(_tool="shell", **input):
    return {"text": "", "tool_calls": [{"name": _tool, "input": input}]}


@pytest.fixture
def work(home):
    return home.dir.parent / (home.dir.name + "-work")


@pytest.fixture(autouse=True)
def remove_work(work):
    yield
    import shutil
    shutil.rmtree(work, ignore_errors=True)


# ---- a turn -------------------------------------------------------------------------------------

@pytest.mark.both_stores
def test_a_turn_with_a_tool_is_journaled_and_answered(home, hub, work):
    s = Session(home, work, [{"text": "I'll look.", "tool_calls": [
        {"name": "shell", "input": {"cmd": "echo from-$PWD"}}]}, {"text": "Done."}])
    assert s.row["state"] == "idle" and s.row["fallback"] is False
    done = s.ask("hello")
    assert done["state"] == "completed" and done["text"] == "Done." and done["turn_id"] == "t1"
    assert [c["tool"] for c in done["tool_calls"]] == ["shell"]
    types = [e["type"] for e in s.events()]
    for type in ("session.created", "turn.started", "message.delta", "tool.called", "tool.completed",
                 "usage.updated", "turn.completed"):
        assert type in types, types
    assert types.index("tool.called") < types.index("tool.completed") < types.index("turn.completed")
    assert s.wait_for("tool.completed")["output"] == f"from-{work}\n"
    assert s.results()[0]["output"] == f"from-{work}\n"
    row = s.call("GET")
    assert row["state"] == "idle" and row["usage"]["input"] > 0 and row["response_summary"] == "Done."
    assert [m["body"]["messages"][0] for m in s.requests()] == [{"role": "user", "content": "hello"}] * 2


@pytest.mark.both_stores
def test_the_next_turn_knows_what_was_said(home, hub, work):
    s = Session(home, work, [{"text": "one"}, {"text": "two"}])
    s.ask("first")
    s.ask("second")
    said = [(m["role"], m["content"] if isinstance(m["content"], str) else m["content"][0]["text"])
            for m in s.requests()[-1]["body"]["messages"]]
    assert said == [("user", "first"), ("assistant", "one"), ("user", "second")]


def test_parallel_calls_run_together_and_are_answered_in_order(home, hub, work):
    first = "until [ -e b ]; do sleep 0.01; done; echo first"
    s = Session(home, work, [{"tool_calls": [{"name": "shell", "input": {"cmd": first}},
                                             {"name": "shell", "input": {"cmd": "touch b; echo second"}}]},
                             {"text": "ok"}])
    assert s.ask()["state"] == "completed"
    assert [r["output"] for r in s.results()] == ["first\n", "second\n"]


def test_a_model_that_asks_for_very_many_commands_gets_them_a_few_at_a_time(home, hub, work):
    cmd = "mkdir -p run/$$; ls run | wc -l; sleep 0.4; rmdir run/$$"
    s = Session(home, work, [{"tool_calls": [{"name": "shell", "input": {"cmd": f"{cmd} # {i}"}} for i in range(60)]},
                             {"text": "ok"}], sandbox="danger-full-access")
    assert s.ask()["state"] == "completed"
    counts = [int(r["output"]) for r in s.results()]
    assert len(counts) == 60 and max(counts) <= 32


def test_interrupt_ends_commands_that_wait_for_their_turn_too(home, hub, work):
    calls = [{"name": "shell", "input": {"cmd": "touch begun; sleep 1000"}}] * 40
    s = Session(home, work, [{"tool_calls": calls}, {"text": "ok"}])
    s.send()
    retry(lambda: (work / "begun").exists())
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    done = s.events("tool.completed")
    assert len(done) == 40 and not any(e["success"] for e in done)


def test_a_bad_input_and_an_unknown_tool_are_results(home, hub, work):
    s = Session(home, work, [{"tool_calls": [{"name": "shell", "input": {"cmd": 7}},
                                             {"name": "nonsense", "input": {}}]}, {"text": "ok"}])
    assert s.ask()["state"] == "completed"
    bad, unknown = s.events("tool.completed")
    assert not bad["success"] and "input.cmd" in bad["error"]
    assert not unknown["success"] and "nonsense" in unknown["error"]
    assert "input.cmd" in s.results()[0]["output"]


@pytest.mark.both_stores
def test_the_events_of_a_session_stream_with_the_journals_seq(home, hub, work):
    s = Session(home, work, [{"text": "a b c"}])
    s.ask()
    last = s.events()[-1]["seq"]
    with home.connect() as c:
        c.sendall(f"GET /session/{s.id}/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                  "Last-Event-ID: 1\r\n\r\n".encode())
        seen = b""
        while f"id: {last}\n".encode() not in seen:
            seen += c.recv(65536)
        ids = [int(x[4:]) for x in seen.decode().splitlines() if x.startswith("id: ")]
        assert ids == list(range(2, last + 1))
        s.call("PATCH", "", {"title": "new"})
        while b'"title":"new"' not in seen:
            seen += c.recv(65536)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("query, why", [("after=-1", "'after' must be 0 or more"), ("limit=0", "'limit' must be 1 to ")])
def test_a_place_or_a_number_of_events_that_cannot_be_is_refused(home, hub, work, query, why, accept):
    for path in (f"/session/{Session(home, work).id}/events", "/events"):
        answer = home.http("GET", f"{path}?{query}", headers=[f"Accept: {accept}"])
        assert answer.status == 400 and answer.json()["detail"].startswith(why)


@pytest.mark.both_stores
def test_a_message_can_stream_its_turn(home, hub, work):
    s = Session(home, work, [{"text": "a b c"}])
    answer = home.http("POST", f"/session/{s.id}/message", b'{"text":"go"}', ["Accept: text/event-stream"])
    assert answer.status == 200 and "text/event-stream" in answer.headers["content-type"]
    types = [x[7:] for x in answer.body.decode().splitlines() if x.startswith("event: ")]
    assert types[0] == "message.completed" and types[-1] == "turn.completed"


@pytest.mark.both_stores
def test_a_streamed_message_sent_again_with_its_key_streams_the_same_turn(home, hub, work):
    s = Session(home, work, [{"text": "a b c"}, {"text": "d"}])

    def send():
        return home.http("POST", f"/session/{s.id}/message", b'{"text":"go"}',
                         ["Accept: text/event-stream", "Idempotency-Key: k"])

    first = send()
    s.call("PATCH", "", {"title": "later"})  # an event after the turn, which the stream must leave out
    again = send()
    assert again.status == 200 and again.headers["idempotency-replayed"] == "true"

    def ids(answer):
        return [int(x[4:]) for x in answer.body.decode().splitlines() if x.startswith("id: ")]
    assert ids(again) == ids(first)
    assert [e["turn"] for e in s.events("turn.started")] == ["t1"]
    s.call("DELETE", "?purge=true")
    assert send().status == 404


@pytest.mark.both_stores
def test_the_live_view_shows_what_is_in_the_journal(home, hub, work):
    s = Session(home, work, [{"text": "hello there"}])
    with home.connect() as c:
        c.sendall(f"GET /events?session={s.id} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        seen = c.recv(65536)
        s.ask()
        while b"turn.completed" not in seen or b'"state":"idle"' not in seen:
            seen += c.recv(65536)
    shown = [json.loads(x[6:]) for x in seen.decode().splitlines() if x.startswith("data: {")]
    journal = {e["seq"]: e for e in s.events()}
    assert len(shown) > 5
    for e in shown:
        written = journal[e["seq"]]
        assert {k: v for k, v in e.items() if k not in ("id", "ts")} == \
               {k: v for k, v in written.items() if k != "ts"}


# ---- queue, reject, steer, interrupt ------------------------------------------------------------

@pytest.mark.both_stores
def test_messages_queue_and_run_in_order(home, hub, work):
    s = Session(home, work, [one_call(cmd="until [ -e go ]; do sleep 0.01; done"), {"text": "one"},
                             {"text": "two"}, {"text": "three"}])
    assert s.send("a") == {"turn_id": "t1"}
    assert s.send("b") == {"turn_id": "t2", "queued": True, "position": 1}
    assert s.send("c") == {"turn_id": "t3", "queued": True, "position": 2}
    assert s.send("d", 409, if_busy="reject")["code"] == "TURN_RUNNING"
    (work / "go").touch()
    s.wait_for("turn.completed", turn="t3")
    assert [e["turn"] for e in s.events("turn.completed")] == ["t1", "t2", "t3"]
    said = [m["content"] for m in s.requests()[-1]["body"]["messages"] if m["role"] == "user"]
    assert said == ["a", "b", "c"]


def test_interrupt_and_steer_without_a_turn(home, hub, work):
    s = Session(home, work, [])
    assert s.call("POST", "/interrupt") == {"ok": True}
    assert s.call("POST", "/steer", {"text": "x"}, 409)["code"] == "NO_TURN"
    assert call(home, "POST", "/session/nope/message", {"text": "x"}, 404)["code"] == "NOT_FOUND"
    assert s.send("", 400)["code"] == "INVALID_BODY"


def test_steering_is_heard_with_the_next_request(home, hub, work):
    s = Session(home, work, [one_call(cmd="until [ -e go ]; do sleep 0.01; done; echo out"), {"text": "ok"}])
    s.send("start")
    s.wait_for("tool.called")
    assert s.call("POST", "/steer", {"text": "other way"}) == {"ok": True}
    (work / "go").touch()
    s.wait_for("turn.completed")
    roles = [m["role"] for m in s.requests()[-1]["body"]["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert s.results()[0]["output"] == "out\n"


@pytest.mark.both_stores
def test_steering_a_model_that_speaks_keeps_what_it_said(home, start_hub, work):
    """The user has read it: it stays in the journal and in the conversation, also over a restart."""
    hub = start_hub()
    s = Session(home, work, [{"text": "slow " * 50, "delta_ms": 200}, {"text": "new"}, {"text": "again"}])
    s.send("start")
    s.wait_for("message.delta")
    s.call("POST", "/steer", {"text": "stop that"})
    s.wait_for("turn.completed")
    assert not s.events("message.aborted")
    assert s.events("turn.completed")[0]["text"] == "new"
    cut, new = [e for e in s.events("message.completed") if e["role"] == "assistant"]
    shown = "".join(e.get("text", "") for e in s.events("message.delta") if e["seq"] < cut["seq"])
    assert cut["cut"] and cut["text"] == shown and shown.startswith("slow ") and "cut" not in new
    said = [{"role": "user", "content": "start"}, {"role": "assistant", "content": shown},
            {"role": "user", "content": "stop that"}]
    assert s.requests()[-1]["body"]["messages"] == said
    hub.close()
    start_hub()
    s.send("and now?")
    s.wait_for("turn.completed", turn="t2")
    assert s.requests()[-1]["body"]["messages"] == said + [
        {"role": "assistant", "content": "new"}, {"role": "user", "content": "and now?"}]


def test_steering_a_model_that_has_said_nothing_begins_its_answer_anew(home, hub, work):
    s = Session(home, work, [{"text": "late", "delay_ms": 60000}, {"text": "new"}])
    s.send("start")
    retry(lambda: (home.dir / "sessions" / s.id / "requests.jsonl").exists())
    s.call("POST", "/steer", {"text": "stop that"})
    s.wait_for("turn.completed")
    assert s.events("message.aborted")
    assert [m["content"] for m in s.requests()[-1]["body"]["messages"]] == ["start", "stop that"]


def test_interrupt_ends_a_running_command_with_its_children(home, hub, work):
    s = Session(home, work, [one_call(cmd="echo $$ > pid; (sleep 1000 & echo $! > child; wait)")],
                sandbox="danger-full-access")
    s.send()
    pids = [int(retry(lambda: (work / n).exists() and (work / n).read_text().strip())) for n in ("pid", "child")]
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    for pid in pids:
        retry(lambda: is_gone(pid))
    done = s.wait_for("tool.completed")
    assert not done["success"] and done["error"] == "interrupted"
    assert s.call("GET")["state"] == "idle"


@pytest.mark.parametrize("point", ["begin", "user_message", "before_model", "after_model", "tool_call",
                                   "permission", "resolve_tool", "tool_result", "final"])
def test_interrupt_while_a_hook_waits(home, hub, work, point):
    plugin(home, "slow", f"""
        on_{point}({{ timeout_ms = 60000 }}, function() log.info("inside {point}") timer.sleep(60) end)
        on_done(function(ctx) log.info("done as " .. ctx.outcome) end)""")
    s = Session(home, work, [one_call(cmd="true"), {"text": "end"}])
    s.send()
    retry(lambda: f"inside {point}" in home.log.read_text())
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert home.log.read_text().count("done as interrupted") == 1
    assert len(s.events("turn.completed", "turn.failed", "turn.interrupted")) == 1
    assert s.call("GET")["state"] == "idle"


def test_interrupt_while_a_prompt_section_waits(home, hub, work):
    plugin(home, "slow", """
        prompt { id = "p", text = function() log.info("inside prompt") timer.sleep(60) return "x" end }""")
    s = Session(home, work, [{"text": "x"}])
    s.send()
    retry(lambda: "inside prompt" in home.log.read_text())
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")


@pytest.mark.both_stores
def test_interrupt_while_the_model_speaks_and_what_it_knows_then(home, hub, work):
    s = Session(home, work, [{"text": "slow " * 50, "delta_ms": 200}, {"text": "new"}])
    s.send("start")
    s.wait_for("message.delta")
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    s.ask("again")
    messages = s.requests()[-1]["body"]["messages"]
    assert [m["role"] for m in messages] == ["user", "system", "user"]
    assert "interrupted" in messages[1]["content"]


def test_what_was_said_before_an_interrupt_is_not_lost(home, start_hub, work):
    hub = start_hub()
    s = Session(home, work, [{"text": "alpha beta " + "slow " * 50, "delta_ms": 200}, {"text": "new"}, {"text": "newer"}])
    s.send("start")
    retry(lambda: "beta" in "".join(e["text"] for e in s.events("message.delta")))
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    said = [e for e in s.events("message.completed") if e["role"] == "assistant"]
    assert [(e["text"][:10], e["cut"]) for e in said] == [("alpha beta", True)]
    s.ask("again")
    first = s.requests()[-1]["body"]["messages"]
    assert [m["role"] for m in first] == ["user", "system", "user"] and said[0]["text"] in first[1]["content"]
    hub.close()
    start_hub()
    s.ask("and again")
    assert s.requests()[-1]["body"]["messages"][:3] == first


def test_interrupt_while_a_plugins_tool_runs(home, hub, work):
    plugin(home, "slow", """
        tool { name = "nap", description = "sleep", run = function(ctx) ctx.progress("asleep") timer.sleep(60) end }""")
    s = Session(home, work, [one_call("nap")])
    s.send()
    assert s.wait_for("tool.progress")["text"] == "asleep"
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert s.wait_for("tool.completed")["error"] == "interrupted"


def test_interrupt_while_a_person_is_asked(home, hub, work):
    s = Session(home, work, [one_call(cmd="touch ran")], permission="ask")
    s.send()
    s.wait_for("permission.requested")
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    decided = s.wait_for("permission.decided")
    assert decided["decision"] == "deny" and decided["by"] == "nobody"
    assert not (work / "ran").exists()


# ---- people -------------------------------------------------------------------------------------

def test_a_person_allows_or_denies(home, hub, work):
    s = Session(home, work, [one_call(cmd="touch one"), {"text": "first"}, one_call(cmd="touch two"),
                             {"text": "second"}], permission="ask")
    waiting = s.ask()
    assert waiting["state"] == "waiting" and s.call("GET")["state"] == "waiting"
    request = waiting["pending"][0]
    assert request["call"]["tool_name"] == "shell" and request["call"]["input"] == {"cmd": "touch one"}
    assert not (work / "one").exists()
    path = f"/permission/{request['request_id']}"
    assert s.call("POST", path, {"decision": "allow"}) == {"ok": True}
    s.wait_for("turn.completed", turn="t1")
    assert (work / "one").exists()
    assert s.call("POST", path, {"decision": "allow"}, 409)["code"] == "ALREADY_DECIDED"
    assert s.call("POST", "/permission/p99", {"decision": "allow"}, 404)["code"] == "NOT_FOUND"
    assert s.call("POST", path, {"decision": "maybe"}, 400)["code"] == "INVALID_BODY"
    request = s.ask()["pending"][0]
    s.call("POST", f"/permission/{request['request_id']}", {"decision": "deny", "reason": "not now"})
    s.wait_for("turn.completed", turn="t2")
    assert not (work / "two").exists()
    assert "not now" in s.results()[-1]["output"]


def test_an_open_question_is_no_permission_that_was_decided(home, hub, work):
    s = Session(home, work, [one_call("ask_user", question="which?"), {"text": "x"}])
    asked = s.ask()["pending"][0]["question_id"]
    for id in (asked, "p" + asked[1:]):
        assert s.call("POST", f"/permission/{id}", {"decision": "allow"}, 404)["code"] == "NOT_FOUND"
    assert s.call("POST", f"/answer/{asked}", {"answer": "b"}) == {"ok": True}
    s.wait_for("turn.completed")
    assert s.call("POST", f"/answer/{asked}", {"answer": "c"}, 409)["code"] == "ALREADY_DECIDED"
    assert s.call("POST", f"/permission/{asked}", {"decision": "allow"}, 404)["code"] == "NOT_FOUND"


@pytest.mark.both_stores
def test_a_decision_is_remembered_for_the_session_also_after_a_restart(home, start_hub, work):
    hub = start_hub()
    s = Session(home, work, [one_call(cmd="touch one"), {"text": "x"}], permission="ask")
    request = s.ask()["pending"][0]
    s.call("POST", f"/permission/{request['request_id']}", {"decision": "allow", "remember": "tool"})
    s.wait_for("turn.completed")
    hub.close()
    start_hub()
    path = work / "again.jsonl"
    path.write_text("\n\n" + "\n".join(json.dumps(x) for x in
                                       [{"text": "0"}, {"text": "1"}, one_call(cmd="touch two"), {"text": "y"}]))
    s.call("PATCH", "", {"env": {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
                                 "AFLOAT_SCENARIO": str(path)}})
    assert s.ask()["state"] == "completed"
    assert (work / "two").exists()


def test_reading_needs_nobody_and_deny_denies(home, hub, work):
    s = Session(home, work, [one_call("list_files"), {"text": "x"}, one_call(cmd="touch no"), {"text": "y"}],
                permission="deny")
    assert s.ask()["state"] == "completed" and s.events("tool.completed")[0]["success"]
    s.ask()
    assert not (work / "no").exists()
    assert s.wait_for("permission.decided")["by"] == "policy"


def test_a_permission_that_nobody_answers_is_denied(home, start_hub, work):
    (home.dir / "config.toml").write_text("[session]\nanswer_s = 1\n")
    start_hub()
    s = Session(home, work, [one_call(cmd="touch ran"), {"text": "x"}], permission="ask")
    s.send()
    s.wait_for("turn.completed")
    decided = s.wait_for("permission.decided")
    assert decided["decision"] == "deny" and decided["by"] == "nobody"
    assert not (work / "ran").exists()


def test_ask_user(home, hub, work):
    s = Session(home, work, [one_call("ask_user", question="which?", choices=["a", "b"]), {"text": "x"}])
    waiting = s.ask()
    asked = waiting["pending"][0]
    assert waiting["state"] == "waiting" and asked["question"] == "which?" and asked["choices"] == ["a", "b"]
    assert s.call("POST", f"/answer/{asked['question_id']}", {"answer": "b"}) == {"ok": True}
    s.wait_for("turn.completed")
    assert s.results()[0]["output"] == "b"
    assert s.wait_for("question.answered")["answer"] == "b"


# ---- the pipeline -------------------------------------------------------------------------------

def test_the_seeds_logger_sees_a_whole_turn(home, hub, work):
    plugin(home, "logger", """
        on_begin(function(ctx) ctx.state.n = 0 log.info("begin " .. ctx.session_id .. " " .. ctx.working_dir) end)
        on_tool_call(function(ctx, call) ctx.state.n = ctx.state.n + 1 log.info("tool " .. call.tool_name) end)
        on_done(function(ctx) log.info("used " .. ctx.state.n .. " tools, " .. ctx.outcome) end)""")
    s = Session(home, work, [one_call(cmd="true"), one_call(cmd="true"), {"text": "x"}], plugins=["logger"])
    s.ask()
    log = home.log.read_text()
    assert f"begin {s.id} {work}" in log and log.count("tool shell") == 2
    assert log.count("used 2 tools, completed") == 1


def test_the_seeds_footer_is_stored_streamed_and_told(home, hub, work):
    plugin(home, "footer", 'on_final(function(ctx, text) return text .. "\\n-- via footer" end)')
    s = Session(home, work, [{"text": "body"}, {"text": "next"}])
    assert s.ask()["text"] == "body\n-- via footer"
    message = s.events("message.completed")[-1]
    assert message["text"] == "body\n-- via footer" and message["changed_by"] == ["footer"]
    assert s.wait_for("turn.completed")["text"] == "body\n-- via footer"
    s.ask("more")
    told = s.requests()[-1]["body"]["messages"][1]
    assert told["content"][0]["text"] == "body\n-- via footer"


def test_the_seeds_blocker_really_blocks(home, hub, work):
    plugin(home, "blocker", """
        on_resolve_tool({ tool = "shell" }, function(ctx, call)
          if call.input.cmd:find("rm -rf", 1, true) then
            return { output = "blocked", success = false, error = "policy" }
          end
        end)""")
    (work).mkdir(exist_ok=True)
    (work / "precious").write_text("x")
    s = Session(home, work, [one_call(cmd="rm -rf precious"), one_call(cmd="touch harmless"), {"text": "x"}])
    s.ask()
    assert (work / "precious").exists() and (work / "harmless").exists()
    blocked, ran = s.events("tool.completed")
    assert blocked["resolved_by"] == "blocker" and blocked["output"] == "blocked" and blocked["error"] == "policy"
    assert "resolved_by" not in ran
    assert s.results()[0]["output"].startswith("blocked")


def test_the_seeds_mocker_answers_in_place_of_a_tool(home, hub, work):
    plugin(home, "mocker", """
        on_resolve_tool({ tool = "read_*" }, function(ctx, call)
          return ToolResult { output = "mock of " .. call.input.path, success = true }
        end)""")
    s = Session(home, work, [one_call("read_file", path="/etc/shadow"), {"text": "x"}])
    s.ask()
    assert s.results()[0]["output"] == "mock of /etc/shadow"
    assert s.wait_for("tool.completed")["resolved_by"] == "mocker"


def test_what_on_tool_call_returns_is_what_runs(home, hub, work):
    plugin(home, "editor", """
        on_tool_call({ tool = "shell" }, function(ctx, call) call.input.cmd = "echo changed" return call end)""")
    s = Session(home, work, [one_call(cmd="touch original"), {"text": "x"}])
    s.ask()
    called = s.wait_for("tool.called")
    assert called["input"] == {"cmd": "echo changed"} and called["original_input"] == {"cmd": "touch original"}
    assert called["changed_by"] == ["editor"]
    assert not (work / "original").exists() and s.results()[0]["output"] == "changed\n"


def test_a_changed_call_is_checked_again(home, hub, work):
    plugin(home, "editor", 'on_tool_call(function(ctx, call) call.input.cmd = 7 return call end)')
    s = Session(home, work, [one_call(cmd="touch original"), {"text": "x"}])
    s.ask()
    assert "input.cmd" in s.wait_for("tool.completed")["error"]
    assert not (work / "original").exists()


def test_what_on_tool_result_returns_is_what_the_model_reads(home, hub, work):
    plugin(home, "cutter", 'on_tool_result(function(ctx, call, result) result.output = "cut" return result end)')
    s = Session(home, work, [one_call(cmd="echo long"), {"text": "x"}])
    s.ask()
    assert s.results()[0]["output"] == "cut"
    done = s.wait_for("tool.completed")
    assert done["output"] == "cut" and done["changed_by"] == ["cutter"]


@pytest.mark.parametrize("code, why", [
    ('return "deny", "not here"', "not here"), ('error("broken")', "broken"), ("timer.sleep(60)", "time")])
def test_on_permission_refuses_and_fails_closed(home, hub, work, code, why):
    plugin(home, "guard", f"on_permission({{ timeout_ms = 200 }}, function(ctx, call) {code} end)")
    s = Session(home, work, [one_call(cmd="touch ran"), {"text": "x"}])
    s.ask()
    assert not (work / "ran").exists()
    decided = s.wait_for("permission.decided")
    assert decided["decision"] == "deny" and decided["by"] == "guard"
    assert why in s.results()[0]["output"]


def test_on_permission_can_ask_a_person(home, hub, work):
    plugin(home, "guard", 'on_permission(function(ctx, call) return "ask" end)')
    s = Session(home, work, [one_call("list_files"), {"text": "x"}])
    request = s.ask()["pending"][0]
    s.call("POST", f"/permission/{request['request_id']}", {"decision": "allow"})
    s.wait_for("turn.completed")
    assert s.wait_for("tool.completed")["success"]


def test_on_before_model_may_answer_itself(home, hub, work):
    plugin(home, "answerer", """
        on_before_model(function(ctx, request)
          if #request.messages == 1 then
            return { response = { text = "", tool_calls = { { name = "shell", input = { cmd = "echo mine" } } } } }
          end
        end)""")
    s = Session(home, work, [{"text": "from the model"}])
    assert s.ask()["text"] == "from the model"
    assert s.results()[0]["output"] == "mine\n" and len(s.requests()) == 1


def test_requests_and_answers_can_be_changed(home, hub, work):
    plugin(home, "changer", """
        on_user_message(function(ctx, text) return text .. "!" end)
        on_before_model(function(ctx, request) request.system = "short" return request end)
        on_after_model(function(ctx, response) response.text = response.text:upper() return response end)""")
    s = Session(home, work, [{"text": "quiet"}])
    assert s.ask("hey")["text"] == "QUIET"
    body = s.requests()[0]["body"]
    assert body["system"] == "short" and body["messages"][0]["content"] == "hey!"
    changed = [e for e in s.events("message.completed") if e["role"] == "user"][-1]
    assert changed["original_text"] == "hey" and changed["changed_by"] == ["changer"]


def test_an_empty_table_where_a_list_stands_is_an_empty_list(home, hub, work):
    plugin(home, "emptier", """
        on_before_model(function(ctx, request)
          if ctx.user_text == "mock" then return { response = { text = "mocked", tool_calls = {} } } end
          request.tools = {}
          return request
        end)
        on_after_model(function(ctx, response) response.tool_calls = {} return response end)""")
    s = Session(home, work, [{**one_call(cmd="true"), "text": "no call"}])
    assert s.ask("mock")["text"] == "mocked"
    turn = s.ask("go")
    assert (turn["text"], turn["tool_calls"]) == ("no call", [])
    assert s.requests()[0]["body"]["tools"] == []


def test_the_schema_of_a_tool_may_use_all_of_json_schema(home, hub, work):
    schema = {"type": "object", "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}},
              "properties": {"who": {"$ref": "#/$defs/name"}, "any": True}, "oneOf": [{"$ref": "#/$defs/x"}, {"not": {}}]}
    plugin(home, "schemas", f"""
        tool {{ name = "greet", description = "g", input_schema = json.decode([[{json.dumps(schema)}]]),
               run = function(ctx, input) return "hello " .. input.who end }}""")
    s = Session(home, work, [one_call("greet", who="Ada", any=[1]), {"text": "done"}])
    s.ask()
    assert s.results()[0]["output"] == "hello Ada"
    assert next(t for t in s.requests()[0]["body"]["tools"] if t["name"] == "greet")["input_schema"] == schema
    refused = home.http("POST", "/plugin/save", json.dumps({"name": "typo", "content": """
        tool { name = "t", description = "t", input_schema = { propertys = {} }, run = print }"""}).encode())
    assert "did you mean 'properties'?" in refused.body.decode()


def test_a_response_carries_its_own_usage_not_that_of_the_turn(home, hub, work):
    plugin(home, "meter", """
        on_after_model(function(ctx, response) log.info("used " .. json.encode(response.usage)) end)""")
    spent = [{"input": 100, "cached": 40, "output": 7, "reasoning": 3}, {"input": 5, "cached": 0, "output": 2, "reasoning": 0}]
    s = Session(home, work, [{**one_call(cmd="true"), "usage": spent[0]}, {"text": "end", "usage": spent[1]}])
    s.ask()
    told = [line["text"] for line in home.http("GET", "/plugin/meter/logs").json()["lines"]]
    assert [json.loads(text.removeprefix("used ")) for text in told] == spent


def test_a_turn_that_never_ends_by_itself_stops_at_its_step_limit(home, start_hub, work):
    (home.dir / "config.toml").write_text("[limits]\nmax_steps = 5\n")
    start_hub()
    plugin(home, "again", """
        on_after_model(function(ctx, response)
          response.tool_calls = { { name = "list_files", input = {} } }
          return response
        end)""")
    s = Session(home, work, [{"text": "x"}] * 9)
    s.ask()
    failed = s.events("turn.failed")[-1]
    assert failed["error"]["code"] == "LIMIT_REACHED" and "5 model requests" in failed["error"]["message"]
    assert len(s.requests()) == 5


def test_an_empty_table_is_an_array_where_the_schema_says_so(home, hub, work):
    plugin(home, "tags", """
        tool { name = "count", description = "counts", input_schema = { type = "object", required = {},
               properties = { tags = { type = "array" }, more = { type = "object" } } },
               run = function(ctx, input) return json.encode(input) end }
        tool { name = "usual", description = "has a default", input = { tags = { type = "array", default = {} } },
               run = function(ctx, input) return json.encode(input) end }
        on_tool_call({ tool = "count" }, function(ctx, call) call.input.tags, call.input.more = {}, {} return call end)""")
    s = Session(home, work, [{"tool_calls": [{"name": "count", "input": {"tags": [1]}}, {"name": "usual", "input": {}}]},
                             {"text": "x"}])
    s.ask()
    count, usual = s.results()
    assert json.loads(count["output"]) == {"tags": [], "more": {}}, count
    assert json.loads(usual["output"]) == {"tags": []}, usual


def test_memory_reaches_the_next_request(home, hub, work):
    plugin(home, "reminder", 'on_begin(function(ctx) table.insert(ctx.memory, "remember the milk") end)')
    s = Session(home, work, [{"text": "x"}, {"text": "y"}])
    s.ask()
    assert s.requests()[0]["body"]["messages"][-1] == {"role": "system", "content": "remember the milk"}


def test_memory_of_the_end_of_a_turn_reaches_the_next_one_once(home, hub, work):
    plugin(home, "reminder", """
        on_begin(function(ctx) table.insert(ctx.memory, "early") end)
        on_final(function(ctx) table.insert(ctx.memory, "late") end)
        on_done(function(ctx) table.insert(ctx.memory, { role = "user", content = "last" }) end)""")
    s = Session(home, work, [{"text": "a"}, {"text": "b"}])
    s.ask()
    plugin(home, "reminder", "on_begin(function() end)")
    for text in ("second", "third"):
        s.ask(text)
    asked = [[m["content"] for m in r["body"]["messages"] if m["role"] != "assistant"] for r in s.requests()]
    assert asked == [["go", "early"], ["go", "second", "late", "last"], ["go", "second", "third"]]


def test_handlers_that_wait_in_parallel_calls_share_ctx_state(home, hub, work):
    plugin(home, "counter", """
on_tool_call({ tool = "shell" }, function(ctx, call)
  timer.sleep(0.05)
  ctx.state[call.input.cmd] = true
end)
tool { name = "slow", description = "touches no state", input = {},
       run = function(ctx, input) timer.sleep(0.3) return "ok" end }
on_final(function(ctx, text)
  local names = {}
  for name in pairs(ctx.state) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, " ")
end)""")
    calls = [{"name": "shell", "input": {"cmd": f"echo {x}"}} for x in "abc"]
    s = Session(home, work, [{"tool_calls": calls[:2] + [{"name": "slow", "input": {}}, calls[2]]}, {"text": "x"}])
    assert s.ask()["text"] == "echo a echo b echo c"


def test_a_handler_that_throws_is_in_the_journal_and_changes_nothing(home, hub, work):
    plugin(home, "broken", 'on_final(function(ctx, text)\n  error("oh no")\nend)')
    s = Session(home, work, [{"text": "body"}])
    assert s.ask()["text"] == "body"
    told = s.wait_for("plugin.error")
    assert told["plugin"] == "broken" and told["hook"] == "on_final" and "oh no" in told["message"]
    assert told["line"] == 2 and told["path"].endswith("broken.lua")


def test_a_handler_that_blocks_fails_the_turn(home, hub, work):
    plugin(home, "strict", 'on_user_message({ on_error = "block" }, function() error("no") end)')
    s = Session(home, work, [{"text": "x"}])
    failed = s.ask()
    assert failed["state"] == "failed" and "strict" in failed["error"]["message"]


def test_a_failed_turn_tells_on_error_and_on_done_once(home, hub, work):
    plugin(home, "watcher", """
        on_error(function(ctx, e) log.info("error " .. e.code) end)
        on_done(function(ctx) log.info("over " .. ctx.outcome) end)""")
    s = Session(home, work, [{"error": {"status": 400, "times": 9}, "text": "x"}])
    failed = s.ask()
    assert failed["state"] == "failed" and failed["error"]["code"] == "PROVIDER_REJECTED"
    log = home.log.read_text()
    assert log.count("error PROVIDER_REJECTED") == 1 and log.count("over failed") == 1
    assert s.wait_for("turn.failed")["error"]["code"] == "PROVIDER_REJECTED"


def test_a_cut_answer_is_void_and_comes_again(home, hub, work):
    s = Session(home, work, [{"error": {"status": 500, "times": 1}, "text": "after a failure"}])
    assert s.ask()["text"] == "after a failure"
    assert s.wait_for("message.aborted")["error"]["status"] == 500


def test_a_listed_plugin_that_does_not_serve_stops_the_turn(home, hub, work):
    plugin(home, "guard", "on_begin(function() end)")
    s = Session(home, work, [{"text": "x"}], plugins=["guard"])
    call(home, "POST", "/plugin/guard/disable")
    refused = s.send("go", 409)
    assert refused["code"] == "PLUGIN_UNAVAILABLE" and "guard" in refused["detail"]
    call(home, "POST", "/plugin/guard/enable")
    assert s.ask()["state"] == "completed"


def test_unknown_and_doubled_plugins_are_refused(home, hub, work):
    plugin(home, "one", "on_begin(function() end)")
    work.mkdir(exist_ok=True)
    for plugins in (["nope"], ["one", "one"]):
        no = call(home, "POST", "/session", {"plugins": plugins, "working_dir": str(work)}, 400)
        assert plugins[0] in no["detail"]


def test_sessions_have_their_own_plugins_in_their_own_order(home, hub, work):
    for name in ("a", "b"):
        plugin(home, name, f'on_final(function(ctx, text) return text .. "{name}" end)')
    assert Session(home, work, [{"text": "x"}], plugins=["b", "a"]).ask()["text"] == "xba"
    assert Session(home, work, [{"text": "x"}], plugins=["a", "b"]).ask()["text"] == "xab"
    assert Session(home, work, [{"text": "x"}], plugins=["a"]).ask()["text"] == "xa"
    assert Session(home, work, [{"text": "x"}], plugins=[]).ask()["text"] == "x"
    s = Session(home, work, [{"text": "x"}], plugins=["b", "a"])
    shown = s.call("GET", "/pipeline")
    final = [h for h in shown["hooks"] if h["hook"] == "on_final"][0]
    assert [h["plugin"] for h in final["handlers"]] == ["b", "a"] and final["kind"] == "chain"
    assert s.call("PATCH", "", {"plugins": ["a"]})["plugins"] == ["a"]
    assert s.ask()["text"] == "xa"


def test_a_projects_plugins_reach_sessions_in_it_only(home, start_hub, work):
    hub = start_hub()
    inside, outside = work / "project", work / "elsewhere"
    (inside / ".afloat" / "plugins").mkdir(parents=True)
    (inside / ".afloat" / "plugins" / "tag.lua").write_text('on_final(function(ctx, text) return text .. "!" end)')
    call(home, "POST", "/trust", {"path": str(inside)})
    s = Session(home, inside, [{"text": "x"}, {"text": "y"}], plugins=["tag"])
    assert s.ask()["text"] == "x!"
    assert Session(home, inside, [{"text": "x"}]).ask()["text"] == "x!"
    assert Session(home, outside, [{"text": "x"}]).ask()["text"] == "x"
    (work / "link").symlink_to(inside)
    linked = Session(home, work / "link", [{"text": "x"}], plugins=["tag"])
    assert linked.ask()["text"] == "x!"
    linked.call("DELETE")
    assert s.ask()["text"] == "y!"
    t = Session(home, outside, [{"text": "x"}], plugins=["tag"])
    assert t.send("go", 409)["code"] == "PLUGIN_UNAVAILABLE"
    hub.close()
    start_hub()
    assert s.ask()["text"].endswith("!")


def test_a_step_runs_on_one_generation_and_the_next_on_the_newest(home, hub, work):
    plugin(home, "tag", 'on_tool_result(function(c, call, r) r.output = "old" return r end)')
    s = Session(home, work, [one_call(cmd="until [ -e go ]; do sleep 0.01; done"), one_call(cmd="true"),
                             {"text": "x"}])
    s.send()
    s.wait_for("tool.called")
    plugin(home, "tag", 'on_tool_result(function(c, call, r) r.output = "new" return r end)')
    (work / "go").touch()
    s.wait_for("turn.completed")
    assert [e["output"] for e in s.events("tool.completed")] == ["old", "new"]


def test_a_long_error_of_a_plugins_tool_is_cut_like_its_output(home, hub, work):
    plugin(home, "p", """tool { name = "bad", description = "d", input = {}, run = function()
        return { output = "", success = false, error = "first " .. ("x"):rep(1 << 20) .. " last" } end }""")
    s = Session(home, work, [one_call("bad"), {"text": "x"}])
    assert s.ask()["state"] == "completed"
    [event] = s.events("tool.completed")
    for text in (s.results()[0]["output"], event["error"]):
        assert "first x" in text and "bytes left out" in text and text.rstrip("]").endswith("x last") and len(text) < 64 << 10
    assert call(home, "POST", "/tool/bad", {"input": {}})["error"].endswith("x last")  # outside of a turn it is whole


def test_tools_of_plugins_are_called_by_both_names(home, hub, work):
    plugin(home, "dice", """
        tool { name = "roll", description = "roll", input = { sides = "integer" },
               run = function(ctx, input) return "rolled " .. input.sides end }""")
    s = Session(home, work, [one_call("roll", sides=6), one_call("dice:roll", sides=8),
                             one_call("roll", sides="x"), {"text": "x"}])
    s.ask()
    first, second, third = s.results()
    assert first["output"] == "rolled 6" and second["output"] == "rolled 8" and not third["success"]
    names = [t["name"] for t in s.requests()[0]["body"]["tools"]]
    assert "roll" in names and "shell" in names and "ask_user" in names
    t = Session(home, work, [{"text": "x"}], disabled_tools=["roll", "shell"])
    t.ask()
    names = [x["name"] for x in t.requests()[0]["body"]["tools"]]
    assert "roll" not in names and "shell" not in names and "read_file" in names


def tool_names(home, work, **params):
    s = Session(home, work, [{"text": "x"}], **params)
    s.ask()
    return [t["name"] for t in s.requests()[0]["body"]["tools"]]


def test_a_session_switches_off_a_tool_by_the_name_that_its_events_show(home, hub, work):
    for name in "ab":
        plugin(home, name, 'tool { name = "roll", description = "d", input = {}, run = function() return "x" end }')
    assert {"roll", "b__roll"} <= set(tool_names(home, work))
    for name in ("b__roll", "b:roll"):
        names = tool_names(home, work, disabled_tools=[name])
        assert "roll" in names and "b__roll" not in names, names


@pytest.mark.parametrize("length", [61, 62, 63, 64])
def test_no_name_of_a_tool_is_longer_than_providers_take(home, hub, work, length):
    long = "t" * (length - 1)
    for name in ("a", "bb"):
        plugin(home, name, f"""for _, end_ in ipairs {{ "x", "y" }} do
            tool {{ name = "{long}" .. end_, description = "d", input = {{}}, run = function() end }} end""")
    names = [n for n in tool_names(home, work) if "tttt" in n]
    assert len(set(names)) == len(names) == 4 and max(map(len, names)) <= 64, names


@pytest.mark.parametrize("guard", ['on_permission({ tool = "roll" }, function() return "deny", "no dice" end)',
                                   'on_tool_call({ tool = "roll", on_error = "block" }, function() error("no dice") end)'])
def test_a_guard_of_a_tool_stands_whatever_name_the_model_calls_it_by(home, hub, work, guard):
    plugin(home, "dice", 'tool { name = "roll", description = "d", input = {}, run = function() return "rolled" end }')
    plugin(home, "guard", guard)
    calls = [{"name": name, "input": {}} for name in ("roll", "dice:roll")]
    s = Session(home, work, [{"tool_calls": calls}, {"text": "ok"}])
    s.ask()
    assert [r["success"] for r in s.results()] == [False, False]
    assert all("no dice" in r["output"] for r in s.results())


def test_an_agent_writes_a_plugin_and_uses_it_in_the_same_turn(home, hub, work):
    code = 'tool { name = "double", description = "twice", input = { n = "integer" },\n' \
           '       run = function(ctx, input) return tostring(2 * input.n) end }'
    s = Session(home, work, [one_call("plugin_save", name="twice", content=code), one_call("double", n=21),
                             {"text": "x"}])
    assert s.ask()["state"] == "completed"
    saved, used = s.events("tool.completed")
    assert saved["success"], saved
    assert used["output"] == "42", used
    other = Session(home, work, [one_call("double", n=1), one_call("plugin_save", name="twice", content="x"),
                                 {"text": "x"}])
    other.ask()
    unknown, taken = other.events("tool.completed")
    assert "no tool" in unknown["error"] and "taken" in taken["error"]


def test_instructions_count_from_the_root_down_once_trusted(home, hub, work):
    deep = work / "a" / "b"
    deep.mkdir(parents=True)
    (work / ".git").mkdir()
    (work / "AGENTS.md").write_text("Root agents.\n")
    (work / "CLAUDE.md").symlink_to("AGENTS.md")  # the same text counts once
    (work / "a/CLAUDE.md").write_text("Claude of a.\n")
    (deep / "AGENTS.md").write_text("Agents of b.\n")
    (work / "other").mkdir()
    (work / "other/AGENTS.md").write_text("Not on the way.\n")
    s = Session(home, deep, [{"text": "one"}, {"text": "two"}, {"text": "three"}])
    s.ask()
    assert "Root agents" not in s.requests()[-1]["body"]["system"] and s.call("GET")["instructions"] == []
    home.ok("trust", cwd=work)
    assert s.call("GET")["instructions"] == ["AGENTS.md"]  # it was said in the root: what lies deeper is not covered
    home.ok("trust", cwd=deep)
    assert s.call("GET")["instructions"] == ["AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md"]
    s.ask()
    system = s.requests()[-1]["body"]["system"]
    places = [system.index(text) for text in ("Root agents.", "Claude of a.", "Agents of b.")]
    assert places == sorted(places) and "Not on the way" not in system and system.count("Root agents.") == 1
    (work / "a/CLAUDE.md").write_text("Changed.\n")
    assert s.call("GET")["instructions"] == ["AGENTS.md", "a/b/AGENTS.md"]


def test_untrusted_instructions_push_no_trusted_ones_out(home, hub, work):
    deep = work / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (work / ".git").mkdir()
    (work / "CLAUDE.md").write_text("Be brief.\n")
    (deep / "AGENTS.md").write_text("Be brave.\n")
    home.ok("trust", cwd=deep)
    (work / "AGENTS.md").write_text("Be brief.\n")  # a copy
    for i, name in enumerate(("a/AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md", "a/b/CLAUDE.md")):
        (work / name).write_text(f"{i}" * 65536)  # together all that may be told
    s = Session(home, deep, [{"text": "one"}])
    s.ask()
    assert s.call("GET")["instructions"] == ["CLAUDE.md", "a/b/c/AGENTS.md"]
    system = s.requests()[-1]["body"]["system"]
    assert "Be brief." in system and "Be brave." in system


def test_prompt_sections_skills_and_agents(home, hub, work):
    plugin(home, "style", """
        prompt("Prefer small commits.")
        prompt { id = "where", priority = 5, text = function(ctx) return "You are in " .. ctx.working_dir end }""")
    (home.dir / "skills").mkdir()
    (home.dir / "skills" / "deploy.md").write_text('+++\ndescription = "how to deploy"\n+++\nPush the button.\n')
    work.mkdir(exist_ok=True)
    (work / ".git").mkdir()
    (work / "AGENTS.md").write_text("Be brave.\n")
    s = Session(home, work, [one_call("skill", name="deploy"), {"text": "x"}, {"text": "y"}])
    s.ask()
    system = s.requests()[0]["body"]["system"]
    assert "Prefer small commits." in system and f"You are in {work}" in system
    assert system.index("You are in") < system.index("Prefer small")
    assert "- deploy: how to deploy" in system and "Push the button" not in system
    assert "Be brave." not in system
    assert s.results()[0]["output"] == "Push the button."
    call(home, "POST", "/trust", {"path": str(work)})
    s.ask()
    assert "Be brave." in s.requests()[-1]["body"]["system"]


def test_a_todo_list_is_told_and_shown(home, hub, work):
    items = [{"text": "look", "state": "done"}, {"text": "mend", "state": "active"}, {"text": "test", "state": "pending"}]
    wrong = [{"text": "look", "state": "soon"}]
    s = Session(home, work, [one_call("todo", items=items), one_call("todo", items=wrong), {"text": "x"}])
    s.ask()
    assert [e["items"] for e in s.events("todo.updated")] == [items]
    assert [r["output"] for r in s.results()][0] == "1 of 3 done" and not s.results()[1]["success"]
    scenario = work / "again.jsonl"
    scenario.write_text(json.dumps(one_call("todo", items=items)) + '\n{"text": "x"}\n')
    home.env.update(AFLOAT_PROVIDER="scripted", AFLOAT_SCENARIO=str(scenario))
    shown = home.cli("chat", "go", cwd=work).stderr
    assert "[x] look" in shown and "[>] mend" in shown and "[ ] test" in shown


@pytest.mark.both_stores
def test_too_long_is_compacted_once(home, hub, work):
    plugin(home, "marker", 'on_compact(function(ctx, summary) return summary .. " (marked)" end)')
    over = {"error": {"status": 400, "times": 1, "code": "context_length_exceeded",
                      "message": "context_length_exceeded"}, "text": "never"}
    s = Session(home, work, [{"text": "one"}, over, {"text": "the summary"}, {"text": "after"}])
    s.ask("first")
    assert s.ask("second")["text"] == "after"
    done = s.wait_for("session.compacted")
    assert done["summary"] == "the summary (marked)"
    messages = s.requests()[-1]["body"]["messages"]
    assert "the summary (marked)" in messages[0]["content"] and messages[-1]["content"] == "second"
    assert s.call("POST", "/compact")["state"] == "completed"


# ---- the environment travels --------------------------------------------------------------------

def test_two_clients_with_their_own_path_and_directory(home, hub, work):
    found = []
    for name in ("left", "right"):
        dir = work / name
        (dir / "bin").mkdir(parents=True)
        tool = dir / "bin" / "whoami-here"
        tool.write_text(f"#!/bin/sh\necho {name} in $PWD with $MINE\n")
        tool.chmod(0o755)
        s = Session(home, dir, [one_call(cmd="whoami-here"), {"text": "x"}],
                    env={"PATH": f"{dir}/bin:{os.environ['PATH']}", "MINE": name, "MY_API_TOKEN": "hidden-token"})
        s.ask()
        found.append(s.wait_for("tool.completed")["output"])
        assert "hidden-token" not in (home.dir / "sessions" / s.id / "metadata.json").read_text()
    assert found == [f"{n} in {work / n} with {n}\n" for n in ("left", "right")]


def test_keys_are_in_memory_only(home, start_hub, work):
    (home.dir / "config.toml").write_text(
        '[providers.mine]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "MYCRED"\n')
    start_hub()
    secret = "very-secret-value-1234567890"
    s = Session(home, work, [one_call(cmd="env"), {"text": "x"}], env={"MYCRED": secret, "PLAIN": "seen"})
    s.call("PATCH", "", {"env": {**{"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted"}, "MYCRED": secret,
                                 "PLAIN": "seen", "AFLOAT_SCENARIO": str(next(work.glob("scenario-*")))}})
    s.ask()
    output = s.wait_for("tool.completed")["output"]
    assert "PLAIN=seen" in output and "MYCRED" not in output and "AFLOAT_" not in output
    for path, held in files_below(home.dir):
        assert secret.encode() not in held, path


def test_a_long_answer_is_remembered_and_a_cut_one_says_so(home, start_hub, work):
    hub = start_hub()
    long, longer = "word " * 200_000, "more\n" * 400_000
    left_out = len(longer) - (1 << 20)
    s = Session(home, work, [{"text": long}, {"text": longer}, {"text": "x"}, {"text": "y"}])
    answers = [s.ask() for _ in range(3)]
    assert [a["state"] for a in answers] == ["completed"] * 3
    assert answers[0]["text"] == long and "left_out" not in answers[0]
    assert answers[1]["text"] == longer[:1 << 20] and answers[1]["left_out"] == left_out
    said = [e for e in s.events("message.completed") if e["role"] == "assistant"]
    assert said[0]["text"] == long and "left_out" not in said[0]
    assert said[1]["text"] == longer[:1 << 20] and said[1]["left_out"] == left_out
    done = s.events("turn.completed")
    assert done[1]["text"] == longer[:1 << 20] and done[1]["left_out"] == left_out

    def told():
        first, second = [m["content"] for m in s.requests()[-1]["body"]["messages"] if m["role"] == "assistant"][:2]
        assert first in ([{"type": "text", "text": long}], long)
        assert second == [{"type": "text", "text": longer[:1 << 20]},
                          {"type": "text", "text": f"[{left_out} bytes of this answer were not kept]"}]

    told()
    hub.close()
    start_hub()  # and the journal says the same
    env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(next(work.glob("scenario-*")))}
    assert s.ask(env=env)["state"] == "completed"
    told()


def test_the_client_says_what_is_left_out_of_an_answer(home, hub, work):
    work.mkdir(exist_ok=True)
    path = work / "long.jsonl"
    path.write_text(json.dumps({"text": "more\n" * 400_000}) + "\n")
    done = home.cli("chat", "go", cwd=work, env={"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(path)})
    assert done.returncode == 0 and f"{2_000_000 - (1 << 20)} bytes" in done.stderr and "left out" in done.stderr


@pytest.mark.both_stores
def test_clients_that_race_for_a_session_that_is_deleted_hear_that_it_is_gone(home, hub, work):
    calls = [("DELETE", "?purge=true", None), ("POST", "/fork", {}), ("GET", "/events", None), ("PATCH", "", {"title": "t"}),
             ("POST", "/message", {"text": "x", "wait": True}), ("GET", "", None)]
    for round in range(15 * LOOPS):
        s = Session(home, work)
        with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
            asked = [pool.submit(home.http, method, f"/session/{s.id}{path}", json.dumps(body).encode() if body else b"")
                     for method, path, body in random.sample(calls * 2, len(calls) * 2)]
            answers = [a.result() for a in asked]
        assert not [a.body for a in answers if a.status >= 500], f"round {round}"


# ---- secrets ------------------------------------------------------------------------------------

def holders(home, text):
    """The files of the home that hold this text, but for those that are there for it."""
    skip = ("secrets.json", "token")
    return [path for path, held in files_below(home.dir) if path.name not in skip and text.encode() in held]


@pytest.mark.both_stores
def test_a_secret_that_a_tool_prints_is_redacted_everywhere(home, hub, work):
    value = "correct-horse-battery-staple"
    home.ok("secret", "set", "STAPLE", input=value)
    work.mkdir(exist_ok=True)
    (work / "config.txt").write_text(f"password = {value}\n")
    half, rest = value[:11], value[11:]
    split = f"printf %s {half}; while [ ! -e go ]; do sleep 0.02; done; printf '%s\\n' {rest}"
    long = f"yes {'x' * 60} | head -c 40000; cat config.txt; yes {'y' * 60} | head -c 40000"
    s = Session(home, work, [
        {"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "cat config.txt"}},
                                    {"name": "read_file", "input": {"path": "config.txt"}}]},
        {"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": split}}]},
        {"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": long}}]},
        {"text": f"It is {value}."}])
    turn = s.send(f"the password is {value}")["turn_id"]
    s.wait_for("tool.called", step=2)
    (work / "go").write_text("")
    s.wait_for("turn.completed", turn=turn)
    outputs = [e["output"] for e in s.events("tool.completed")]
    assert outputs[0] == "password = [redacted STAPLE]\n" and "[redacted STAPLE]" in outputs[1]
    assert outputs[2] == "[redacted STAPLE]\n"
    assert "[redacted STAPLE]" in next((home.dir / "sessions" / s.id / "outputs").iterdir()).read_text()
    said = [e["text"] for e in s.events("message.completed")]
    assert said[0] == "the password is [redacted STAPLE]" and said[-1] == "It is [redacted STAPLE]."
    assert "".join(e.get("text", "") for e in s.events("message.delta")).endswith("It is [redacted STAPLE].")
    assert "[redacted STAPLE]" in json.dumps(s.requests()[-1])
    for path in holders(home, value):
        raise AssertionError(path)
    assert not [e for e in s.events() if half in json.dumps(e) and e["type"] == "tool.progress"]


def test_a_secret_in_an_answer_is_redacted_though_it_comes_in_pieces(home, hub, work):
    value = "xylophone and zither"  # a scenario speaks word by word
    home.ok("secret", "set", "MUSIC", input=value)
    s = Session(home, work, [{"text": f"a {value} b", "delta_ms": 5}])
    assert s.ask()["text"] == "a [redacted MUSIC] b"
    assert "".join(e["text"] for e in s.events("message.delta")) == "a [redacted MUSIC] b"
    assert not holders(home, value)


def test_a_secret_is_redacted_as_json_and_line_by_line(home, hub, work):
    value = 'say "friend"\\and\nAAAAB3NzaC1yc2EAAAADAQABAAABgQDZ\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC'
    home.ok("secret", "set", "PEM", input=value)
    work.mkdir(exist_ok=True)
    (work / "key").write_text(f"a\n{value}\nb\n")
    (work / "key.json").write_text(json.dumps({"key": value}))
    home.ok("plugin", "save", "shows", "-", input=f"""
        tool {{ name = "shows", description = "x", run = function() return {{ k = fs.read("{work}/key") }} end }}""")
    s = Session(home, work, [
        {"text": "", "tool_calls": [{"name": "shell", "input": {"cmd": "cat key.json"}},
                                    {"name": "shell", "input": {"cmd": "grep -n . key"}},
                                    {"name": "shows", "input": {}}]},
        {"text": "x " * 95 + value}])
    s.ask("the key is " + value)
    calls = {e["call_id"]: e["output"] for e in s.events("tool.completed")}
    shown = [calls[x] for x in sorted(calls)]
    assert shown[0] == '{"key": "[redacted PEM]"}' and json.loads(shown[2]) == {"k": "a\n[redacted PEM]\nb\n"}
    assert shown[1].splitlines()[2:4] == ["3:[redacted PEM]", "4:[redacted PEM]"]
    row = s.call("GET")
    assert row["prompt_summary"] == "the key is [redacted PEM]"
    assert row["response_summary"] == "x " * 95 + "[redacted ", "hidden first, then cut"
    for part in ("AAAAB3NzaC1yc2EAAAADAQABAAABgQDZ", json.dumps(value)[1:-1]):
        assert not holders(home, part)


def test_a_secret_that_is_set_while_the_hub_runs_is_known_at_once(home, hub, work):
    work.mkdir(exist_ok=True)
    home.ok("secret", "set", "LATE", input="tangerine-dream-1970")
    (work / "f").write_text("tangerine-dream-1970")

    def shown():
        return call(home, "POST", "/tool/shell", {"input": {"cmd": "cat f"}, "working_dir": str(work)})["output"]
    assert retry(lambda: shown() == "[redacted LATE]")
    s = Session(home, work, title="of tangerine-dream-1970")
    assert s.row["title"] == "of [redacted LATE]" == s.events("session.created")[0]["title"]
    call(home, "POST", "/plugin/save", {"name": "bad", "content": """
        tool { name = "bad", description = "x", run = function() error("tangerine-" .. "dream-1970") end }"""})
    assert "[redacted LATE]" in call(home, "POST", "/tool/bad", {"input": {}}, 500)["detail"]
    assert not holders(home, "tangerine-dream-1970")


LEAKS = """
local value = "tangerine-" .. "dream-1970"
on_begin(function() error(value) end)
route("GET", "/r", function() error(value) end)
route("GET", "/hooks", function() return hooks.list() end)
command { name = "c", description = "x", run = function() error(value) end }
on("plugin_start", function() print(value) error(value) end)
"""


@pytest.mark.parametrize("lang", ["lua", "python"])
def test_a_secret_in_the_error_of_a_plugin_is_redacted_wherever_it_is_shown(home, hub, work, lang):
    home.ok("secret", "set", "LATE", input="tangerine-dream-1970")
    work.mkdir(exist_ok=True)
    python = "value = 'tangerine-' + 'dream-1970'\ndef on_begin(ctx):\n    raise Exception(value)\n"
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / ("leaks.lua" if lang == "lua" else "leaks.py")).write_text(LEAKS if lang == "lua" else python)
    broken = home.dir / "plugins" / ("broken.lua" if lang == "lua" else "broken.py")
    broken.write_text("error('tangerine-' .. 'dream-1970')" if lang == "lua" else "raise Exception('tangerine-' + 'dream-1970')")
    shown = [home.cli("reload", "--json").stdout]
    assert "[redacted LATE]" in shown[0]
    Session(home, work, [{"text": "hi"}]).ask()
    for path in ("/api/plugins/leaks/r", "/api/plugins/leaks/hooks", "/plugin/leaks", "/plugin/leaks/logs", "/plugin/broken",
                 "/plugin/list", "/generations", "/logs", "/doctor", "/metrics"):
        shown.append(home.http("GET", path).body.decode())
    shown.append(home.http("POST", "/command/leaks:c", b"{}").body.decode())
    shown.append(home.cli("plugin", "validate", str(broken)).stderr)
    shown.append(home.cli("plugin", "show", "leaks").stdout)
    assert not [text for text in shown if "tangerine-dream" in text]
    assert sum("[redacted LATE]" in text for text in shown) > 4
    assert not holders(home, "tangerine-dream-1970")


# ---- life ---------------------------------------------------------------------------------------

def next_millisecond():
    """Wait until what starts next is newer than what has started: lists are in order of the millisecond."""
    began = time.time_ns() // 10**6
    while time.time_ns() // 10**6 == began:
        pass


@pytest.mark.both_stores
def test_sessions_are_listed_changed_ended_and_purged(home, hub, work):
    a = Session(home, work, [{"text": "x"}])
    next_millisecond()
    b = Session(home, work, [{"text": "x"}], title="second")
    rows = call(home, "GET", "/session")["sessions"]
    assert [r["id"] for r in rows] == [b.id, a.id] and rows[0]["title"] == "second"
    page = call(home, "GET", "/session?limit=1")
    assert [r["id"] for r in page["sessions"]] == [b.id]
    assert [r["id"] for r in call(home, "GET", f"/session?limit=1&cursor={page['next']}")["sessions"]] == [a.id]
    assert a.call("DELETE")["state"] == "ended"
    assert a.send("x", 409)["code"] == "SESSION_ENDED"
    assert a.call("GET")["state"] == "ended"
    assert b.call("PATCH", "", {"permission": "never"}, 400)["code"] == "INVALID_BODY"
    b.call("DELETE", "?purge=true")
    assert b.call("GET", "", None, 404)["code"] == "NOT_FOUND"
    assert not (home.dir / "sessions" / b.id).exists()


def test_a_change_that_no_turn_could_run_with_is_refused(home, hub, work):
    """A cap on the cost needs the price of the model, whichever of the two changes."""
    (home.dir / "config.toml").write_text('[prices."m"]\ninput = 1.0\noutput = 9.0\n')
    call(home, "POST", "/reload", {})
    s = Session(home, work, [{"text": "x"}, {"text": "y"}], provider="scripted", model="unpriced")
    assert "max_cost" in s.call("PATCH", "", {"max_cost": 1}, 400)["detail"]
    assert s.call("PATCH", "", {"model": "m", "max_cost": 1})["max_cost"] == 1
    assert "max_cost" in s.call("PATCH", "", {"model": "unpriced"}, 400)["detail"]
    row = s.call("PATCH", "", {"max_cost": 2, "title": "t"})
    assert (row["model"], row["max_cost"]) == ("m", 2)
    assert s.ask()["state"] == "completed"


@pytest.mark.both_stores
def test_a_fork_goes_on_by_itself(home, hub, work):
    s = Session(home, work, [{"text": "one"}, {"text": "two"}, {"text": "three"}])
    s.ask("a")
    cut = s.events()[-1]["seq"]
    s.ask("b")
    last = s.events()[-1]["seq"]
    no = s.call("POST", "/fork", {"seq": last + 1}, 400)
    assert no["code"] == "INVALID_BODY" and str(last) in no["detail"]
    assert s.call("POST", "/fork", {"seq": 0}, 400)["code"] == "INVALID_BODY"
    made = s.call("POST", "/fork", {"seq": cut}, 201)
    assert made["id"] != s.id
    fork = Session.__new__(Session)
    fork.home, fork.id, fork.dir = home, made["id"], work
    assert fork.ask("c")["state"] == "completed"
    said = [m["content"] for m in fork.requests()[-1]["body"]["messages"] if m["role"] == "user"]
    assert said == ["a", "c"]
    assert [e["text"] for e in s.events("turn.started")] == ["a", "b"]


@pytest.mark.both_stores
def test_a_session_goes_on_after_a_restart(home, start_hub, work):
    hub = start_hub()
    scenario = [one_call(cmd="echo kept"), {"text": "one"}, {"text": "two"}]
    s = Session(home, work, scenario)
    s.ask("first")
    before = s.requests()[-1]["body"]["messages"]
    hub.close()
    start_hub()
    path = work / "again.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in scenario))
    assert s.call("GET")["state"] == "idle"
    s.call("PATCH", "", {"env": {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
                                 "AFLOAT_SCENARIO": str(path)}})
    assert s.ask("second")["text"] == "two"
    after = s.requests()[-1]
    assert after["n"] == 3 and after["body"]["messages"][:len(before)] == before


@pytest.mark.both_stores
def test_stopping_the_hub_ends_turns_and_answers_who_waits(home, start_hub, work):
    hub = start_hub()
    s = Session(home, work, [one_call(cmd="sleep 1000")])
    with home.connect() as c:
        body = b'{"text":"go","wait":true}'
        c.sendall(f"POST /session/{s.id}/message HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        s.wait_for("tool.called")
        hub.process.send_signal(signal.SIGTERM)
        answer = b""
        while b'"state":' not in answer and (chunk := c.recv(65536)):
            answer += chunk
    assert b'"state":"interrupted"' in answer
    hub.process.wait(DEADLINE)
    hub.close()
    start_hub()
    assert s.call("GET")["state"] == "idle" and s.events("turn.interrupted")


@pytest.mark.both_stores
def test_sessions_that_nobody_uses_are_pruned_and_all_others_stay(home, hub, work):
    old = [Session(home, work, [{"text": "hi"}], title=f"t{i}") for i in range(3)]
    for s in old:
        s.ask()
    old[1].call("DELETE")
    busy = Session(home, work, [{"text": "a b", "delay_ms": 60000}])
    busy.send()
    busy.wait_for("turn.started")
    assert home.json("sessions", "prune")["pruned"] == []  # nothing is 30 days old
    planned = home.json("sessions", "prune", "--older-than", "0", "--dry-run")
    assert {r["id"] for r in planned["pruned"]} == {s.id for s in old} and planned["dry_run"] is True
    assert {r["title"] for r in planned["pruned"]} == {"t0", "t1", "t2"}
    assert all((home.dir / "sessions" / s.id).is_dir() for s in old)
    done = home.cli("sessions", "prune", "--older-than", "0")
    assert done.returncode == 0 and all(s.id in done.stdout for s in old) and "3 deleted" in done.stderr
    assert [p.name for p in (home.dir / "sessions").iterdir()] == [busy.id]
    assert [r["id"] for r in call(home, "GET", "/session")["sessions"]] == [busy.id]
    assert home.cli("sessions", "prune", "--older-than", "-1").returncode != 0
    busy.call("POST", "/interrupt")


@pytest.mark.parametrize("query", ["", "?purge=true"])
def test_a_session_that_is_interrupted_while_it_ends_ends_once(home, start_hub, work, query):
    """The end was written twice, and the count of what the hub waits for was wrong for ever: it never stopped."""
    hub = start_hub()
    for _ in range(20):
        s = Session(home, work, [])
        links = [home.connect() for _ in range(6)]
        links[0].sendall(f"DELETE /session/{s.id}{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for link in links[1:]:
            link.sendall(f"POST /session/{s.id}/interrupt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert links[0].recv(65536).startswith(b"HTTP/1.1 200")
        for link in links:
            link.close()
    hub.close()


@pytest.mark.both_stores
def test_sessions_that_wait_are_listed_by_their_state(home, hub, work):
    s = Session(home, work, [one_call(cmd="true"), {"text": "done"}], permission="ask")

    def states():
        return [state for state in ("idle", "running", "waiting")
                if s.id in [r["id"] for r in call(home, "GET", f"/session?state={state}")["sessions"]]]

    no = call(home, "GET", "/session?state=wating", status=400)
    assert no["detail"] == "'state' must be idle, running, waiting, ended or crashed"
    assert s.ask()["state"] == "waiting"
    retry(lambda: states() == ["waiting"])
    home.ok("sessions", "allow", s.id)
    retry(lambda: states() == ["idle"])


def test_a_second_interrupt_kills_what_does_not_listen(home, hub, work):
    s = Session(home, work, [one_call(cmd="trap '' TERM; echo begun; while :; do sleep 1000; done"), {"text": "never"}])
    began = time.monotonic()
    s.send("go")
    s.wait_for("tool.progress")
    s.call("POST", "/interrupt", {})
    s.call("POST", "/interrupt", {})
    asked_ms = (time.monotonic() - began) * 1000
    ended = s.wait_for("tool.completed")
    assert ended["error"] == "interrupted" and s.wait_for("turn.interrupted")["duration_ms"] < asked_ms + 1900, ended


# ---- kill -9 ------------------------------------------------------------------------------------

@pytest.mark.both_stores
def test_a_call_that_ran_when_the_hub_was_killed_ends_as_unknown_and_is_not_repeated(home, work):
    hub = Hub(home)
    s = Session(home, work, [one_call(cmd="echo once >> ran.txt; echo up; sleep 60"), {"text": "later"}])
    s.send("go")
    s.wait_for("tool.called")
    retry(lambda: (work / "ran.txt").exists())
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.wait()
    again = Hub(home)
    called, ended = s.wait_for("tool.called"), s.wait_for("tool.completed")
    assert ended["call_id"] == called["call_id"] and ended["turn"] == called["turn"]
    assert ended["success"] is False and ended["error"] == "unknown"
    kinds = [e["type"] for e in s.events()]
    assert kinds.index("tool.completed") < kinds.index("turn.failed")
    s.call("PATCH", "", {"env": {"AFLOAT_PROVIDER": "scripted", "PATH": os.environ["PATH"]}})
    assert s.ask("and now?")["state"] == "completed"
    assert (work / "ran.txt").read_text() == "once\n"
    assert sum(e["type"] == "tool.completed" for e in s.events()) == 1
    again.close()


def test_a_call_that_waited_for_permission_when_the_hub_was_killed_is_said_not_to_have_run(home, work):
    hub = Hub(home)
    scenes = [one_call(cmd="touch first"), one_call(cmd="touch second"), {"text": "later"}]
    s = Session(home, work, scenes, permission="ask")
    s.send("go")
    first = s.wait_for("permission.requested")
    s.call("POST", f"/permission/{first['request_id']}", {"decision": "allow"})
    retry(lambda: len(s.events("permission.requested")) == 2)
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.wait()
    again = Hub(home)
    retry(lambda: len(s.events("tool.completed")) == 2)
    ran, waited = s.events("tool.completed")
    assert ran["success"] and not waited["success"] and (work / "first").exists() and not (work / "second").exists()
    said = waited["error"] + waited["output"]
    assert said == "it did not run: the hub was lost while it waited for permission"
    s.call("PATCH", "", {"env": {"AFLOAT_PROVIDER": "scripted", "PATH": os.environ["PATH"]}})
    assert s.ask("and now?")["state"] == "completed"
    assert "it did not run" in json.dumps(s.results()[-1]), "the model knows, too"
    again.close()


@pytest.mark.both_stores
def test_killed_while_streaming_nothing_that_was_seen_is_lost(home):
    """Kill the hub at a random time while a model speaks; afterwards the journal has all that was seen."""
    rounds = 6 * LOOPS
    work = home.dir / "work"
    hits = 0
    seed = draw_seed()
    dice = random.Random(seed)
    for i in range(rounds):
        hub = Hub(home)
        s = Session(home, work, [one_call(cmd="echo tool"), {"text": "word " * 200, "delta_ms": 3}])
        with home.connect() as c:
            c.sendall(f"GET /session/{s.id}/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n".encode())
            accepted = s.send("go")
            seen = b""
            while i % 2 and b"message.delta" not in seen:  # each other time it has begun to speak, for 0.6 s
                seen += c.recv(65536)
            end = time.monotonic() + dice.uniform(0.05, 0.5)
            while time.monotonic() < end:
                if select.select([c], [], [], max(0, end - time.monotonic()))[0]:
                    seen += c.recv(65536)
            os.kill(hub.pid, signal.SIGKILL)
            hub.process.wait()
            while chunk := c.recv(65536):
                seen += chunk
        frames = [json.loads(x[6:]) for x in seen.decode(errors="ignore").split("\n") if x.startswith("data: ")
                  and x.endswith("}")]
        running = frames and not any(e["type"] == "turn.completed" for e in frames)
        hits += bool(running and any(e["type"] == "message.delta" for e in frames))
        again = Hub(home)
        journal = {e["seq"]: e for e in s.events()}
        for e in frames:
            assert journal[e["seq"]] == e, f"seed {seed} round {i}"
        assert any(e.get("turn") == accepted["turn_id"] and e["type"] == "message.completed"
                   for e in journal.values())
        if running:
            assert s.call("GET")["state"] == "crashed", f"seed {seed} round {i}"
            assert s.wait_for("turn.failed")["error"]["code"] == "CRASHED"
        s.call("PATCH", "", {"env": {"AFLOAT_PROVIDER": "scripted", "PATH": os.environ["PATH"]}})
        assert s.ask("and now?")["state"] == "completed"
        again.close()
    print(f"killed {rounds} times, {hits} of them while the model spoke")
    assert hits > 0


def test_built_in_tools_run_outside_a_session_in_the_sandbox(home, hub, cli, work):
    names = {t["name"] for t in json.loads(cli("tool", "list", "--json").stdout)["tools"] if t.get("builtin")}
    assert {"shell", "read_file", "write_file", "edit_file", "list_files", "search_files"} <= names
    here = work
    here.mkdir()
    got = json.loads(cli("tool", "run", "write_file", '{"path": "f", "content": "x"}', "--cwd", str(here),
                         "--json").stdout)
    assert got["success"] and (here / "f").read_text() == "x"
    escape = json.dumps({"path": str(home.dir / "config.toml"), "content": "x"})
    got = json.loads(cli("tool", "run", "write_file", escape, "--cwd", str(here), "--json").stdout)
    assert not got["success"] and not (home.dir / "config.toml").exists()
    assert cli("tool", "disable", "write_file").returncode == 0
    assert cli("tool", "run", "write_file", '{"path": "g", "content": "x"}', "--cwd", str(here)).returncode == 7
    assert not (here / "g").exists()


# ---- sessions in Lua ----------------------------------------------------------------------------

LUA_SESSIONS = """
local seen = {}
for _, event in ipairs { "agent_created", "agent_deleted" } do
  hooks.on(event, "watch", function(row) seen[#seen + 1] = { event = event, row = row } end)
end
route("GET", "/seen", function() return json.array(seen) end)
route("GET", "/sessions", function() return hub.sessions() end)
route("POST", "/send", function(req)
  local ok, why = hub.send(req.json.id, req.json.text)
  return { ok = ok, why = why }
end)
"""


@pytest.mark.both_stores
def test_lua_lists_sessions_sends_to_one_and_sees_both_events(home, hub, work):
    plugin(home, "desk", LUA_SESSIONS)

    def seen():
        return [(x["event"], x["row"]["id"], x["row"]["state"]) for x in call(home, "GET", "/api/plugins/desk/seen")]

    def send(id, text):
        return call(home, "POST", "/api/plugins/desk/send", {"id": id, "text": text})
    a = Session(home, work, [{"when": "from Lua", "text": "heard"}, {"text": "again"}], title="first")
    next_millisecond()
    b = Session(home, work, [])
    assert retry(lambda: len(seen()) == 2 and seen()) == [("agent_created", a.id, "idle"),
                                                         ("agent_created", b.id, "idle")]
    rows = call(home, "GET", "/api/plugins/desk/sessions")
    assert [r["id"] for r in rows] == [b.id, a.id]
    assert rows == call(home, "GET", "/session")["sessions"]
    assert rows[1]["title"] == "first" and rows[1]["working_dir"] == str(work) and rows[1]["model"]
    assert send(a.id, "a word from Lua") == {"ok": True}
    assert a.wait_for("message.completed", role="assistant")["text"] == "heard"
    assert [e["text"] for e in a.events("turn.started")] == ["a word from Lua"]
    a.call("DELETE")
    assert send(a.id, "more")["why"] == f"hub.send: session '{a.id}' has ended"
    assert send("none", "x")["why"] == "hub.send: there is no session 'none'"
    a.call("DELETE", "?purge=true")
    b.call("DELETE", "?purge=true")
    assert retry(lambda: len(seen()) >= 4 and seen())[2:] == [("agent_deleted", a.id, "ended"),
                                                             ("agent_deleted", b.id, "ended")]
    assert call(home, "GET", "/api/plugins/desk/sessions") == []


LUA_OPERATIONS = """
route("POST", "/op", function(req)
  local noun, verb = req.json.op:match("^(%w+)%.?(.*)$")
  local fn = hub[noun]
  if fn and verb ~= "" then fn = fn[verb] end
  if not fn then return { exists = false } end
  local value, why, code = fn(req.json.params)
  return { value = value, why = why, code = code }
end)
"""


def test_lua_calls_operations_and_gets_what_http_gives(home, hub, work):
    plugin(home, "ops", LUA_OPERATIONS)

    def op(operation, **params):
        return call(home, "POST", "/api/plugins/ops/op", {"op": operation, "params": params})
    work.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted"}
    made = op("session.new", working_dir=str(work), title="by Lua", env=env)["value"]
    assert made == call(home, "GET", f"/session/{made['id']}") == op("session.show", id=made["id"])["value"]
    assert op("session.list", limit=5)["value"] == call(home, "GET", "/session?limit=5")
    assert op("generation.list")["value"] == call(home, "GET", "/generations")
    assert op("bot.create", name="tidy")["value"]["name"] == "tidy"
    assert [b["name"] for b in op("bot.list")["value"]["bots"]] == ["tidy"]
    assert op("memory.set", bot="tidy", key="k", value="v", working_dir=str(work))["value"]["value"] == "v"
    assert op("session.end_", id=made["id"])["value"]["state"] == "ended"
    assert op("reload", names=["ops"])["value"]["ok"] is True
    no = op("run.show", id="ffffffff")
    assert no["code"] == "NOT_FOUND" and no["why"].startswith("hub.run.show: ") and "value" not in no
    assert op("session.message", id=made["id"], text="x")["code"] == "SESSION_ENDED"
    assert op("session.new", sandbox="danger-full-access")["code"] == "FORBIDDEN"
    assert op("session.show", idd="x")["code"] == "UNKNOWN_FIELD"
    for name in ("trust.add", "token.rotate", "session.permission", "plugin.enable", "run.merge", "hub.stop"):
        assert op(name) == {"exists": False}, name


def test_openapi_says_who_may_call_and_what_parameters_mean(home, hub):
    doc = call(home, "GET", "/openapi.json")
    new, end = doc["paths"]["/session"]["post"], doc["paths"]["/session/{id}"]["delete"]
    assert new["x-afloat-lua"] and not new["x-afloat-read-only"] and "x-afloat-destructive" not in new
    assert end["x-afloat-destructive"] and doc["paths"]["/session"]["get"]["x-afloat-read-only"]
    assert "x-afloat-lua" not in doc["paths"]["/token/rotate"]["post"]
    fields = new["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert all(f["description"] for f in fields.values())
    assert all(p["description"] for way in doc["paths"].values() for o in way.values() for p in o["parameters"])


GREETER = """
hooks.on("agent_created", "greet", function(s)
  local past = fs.read(config.data_dir() .. "/sessions/" .. s.id .. "/events.jsonl")
  hub.send(s.id, (past:find("forked_from", 1, true) and "welcome back, " or "hello ") .. s.title)
end)
"""


def test_a_module_greets_every_new_session(home, start_hub, work):
    """Also a fork, and that not before its past is there."""
    init = home.dir / "lua" / "user" / "init.lua"
    init.parent.mkdir(parents=True, exist_ok=True)
    init.write_text(GREETER)
    start_hub()
    s = Session(home, work, [{"text": "one"}, {"text": "two"}], title="you")
    assert s.wait_for("turn.completed")
    made = s.call("POST", "/fork", {}, 201)
    fork = Session.__new__(Session)
    fork.home, fork.id, fork.dir = home, made["id"], work
    assert [e["text"] for e in s.events("turn.started")] == ["hello you"]
    said = retry(lambda: len(fork.events("turn.started")) == 2 and fork.events("turn.started"))
    assert [e["text"] for e in said] == ["hello you", "welcome back, you"]
