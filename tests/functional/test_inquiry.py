"""What a running tool asks of its session: the user (elicitation), the model (sampling), its directories."""
import json

import pytest

from conftest import retry
import peers
from test_agent import Session, call, one_call, plugin, work  # noqa: F401 (a fixture)
from test_mcp_client import configure, run, table, wait_state
from test_mcp_peers import program

FORM = """{ type = "object", required = { "name", "size" }, properties = {
  name = { type = "string", title = "Your name", minLength = 2 },
  size = { type = "string", enum = { "s", "l" }, enumNames = { "small", "large" } },
  count = { type = "integer", default = 3 }, sure = { type = "boolean" } } }"""


def asker(home):
    plugin(home, "asker", f"""
    tool {{ name = "form", description = "asks", run = function(ctx)
      local got, why = ctx.elicit {{ message = "Who orders?", schema = {FORM} }}
      return got and json.encode(got) or why end }}
    tool {{ name = "agree", description = "asks", run = function(ctx)
      return json.encode(ctx.elicit {{ message = "Really?", schema = {{ type = "object", properties = {{}} }} }}) end }}
    tool {{ name = "sample", description = "asks the model", run = function(ctx)
      local got, why = ctx.sample {{ messages = {{ {{ role = "user", content = {{ type = "text", text = "say x" }} }} }}, max_tokens = 50 }}
      return got and json.encode(got) or "refused: " .. why end }}
    tool {{ name = "roots", description = "where", run = function(ctx) return json.encode(ctx.roots()) end }}""")


def answer(s, text):
    """Answer the question that is open, if there is one."""
    for open in s.call("GET")["pending"]:
        s.call("POST", f"/answer/{open['question_id']}", {"answer": text})


def asked(s, part):
    def look():
        pending = s.call("GET")["pending"]
        return pending and part in pending[0].get("question", "") and pending[0]
    return retry(look)


def output(s):
    return json.loads(s.wait_for("tool.completed")["output"])


def test_a_form_is_asked_field_by_field(home, hub, work):
    asker(home)
    s = Session(home, work, [one_call("form"), {"text": "done"}])
    s.send()
    first = asked(s, "Who orders?")
    assert first["by"] == "form" and first["form"]["requestedSchema"]["required"] == ["name", "size"]
    for field in first["form"]["requestedSchema"]["properties"]:
        open = asked(s, {"name": "Your name"}.get(field, field))
        assert open["choices"] == {"size": ["small", "large", "decline"], "sure": ["yes", "no", "decline"]}.get(field)
        if field == "name":
            answer(s, "A")
            asked(s, "does not fit")
        answer(s, {"name": "Ada", "size": "large", "count": "7", "sure": "yes"}[field])
    assert output(s) == {"action": "accept", "content": {"name": "Ada", "size": "l", "count": 7, "sure": True}}
    answers = [e["answer"] for e in s.events("question.answered")]
    assert "A" in answers and len(answers) == 5


@pytest.mark.parametrize("given,want", [
    ({"action": "accept", "content": {"name": "Bo", "size": "s"}}, {"action": "accept", "content": {"name": "Bo", "size": "s"}}),
    ({"action": "decline"}, {"action": "decline"}), ("", {"action": "decline"}), (None, {"action": "cancel"})])
def test_a_form_is_answered_as_a_whole_or_not_at_all(home, hub, work, given, want):
    asker(home)
    s = Session(home, work, [one_call("form"), {"text": "done"}])
    s.send()
    asked(s, "Who orders?")
    answer(s, given)
    while given == "" and not s.events("tool.completed"):  # optional fields are left out, a required one is not
        answer(s, given)
    assert output(s) == want


def test_a_form_without_fields_is_yes_or_no(home, hub, work):
    asker(home)
    s = Session(home, work, [one_call("agree"), {"text": "done"}])
    s.send()
    assert asked(s, "Really?")["choices"] == ["yes", "no"]
    answer(s, "yes")
    assert output(s) == {"action": "accept"}


@pytest.mark.parametrize("field,given,want", [
    ('{ type = "string", oneOf = { { title = "Red" } } }', "Red", "Red"),
    ('{ type = "array", items = { anyOf = { { description = "any" } } } }', "a,,b", ["a", "", "b"])])
def test_an_entry_of_a_form_without_a_value_gives_what_was_typed(home, hub, work, field, given, want):
    plugin(home, "asker", f"""tool {{ name = "form", description = "asks", run = function(ctx)
      return json.encode(ctx.elicit {{ message = "Which?", schema = {{ type = "object", properties = {{ c = {field} }} }} }}) end }}""")
    s = Session(home, work, [one_call("form"), {"text": "done"}])
    s.send()
    asked(s, "Which?")
    answer(s, given)
    assert output(s) == {"action": "accept", "content": {"c": want}}
    assert home.http("GET", "/healthz").status == 200


def test_a_turn_is_interrupted_while_a_tool_asks(home, hub, work):
    asker(home)
    s = Session(home, work, [one_call("form"), {"text": "done"}])
    s.send()
    asked(s, "Who orders?")
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert s.call("GET")["pending"] == [] and s.events("question.answered")[0]["answer"] is None


def test_the_model_is_asked_and_its_cost_counted(home, hub, work):
    asker(home)
    usage = {"input": 10, "output": 5}
    s = Session(home, work, [{**one_call("sample"), "usage": usage}, {"text": "x", "usage": usage}, {"text": "done", "usage": usage}])
    outcome = s.ask()
    assert output(s) == {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": s.row["model"], "stopReason": "endTurn"}
    assert outcome["text"] == "done" and outcome["usage"]["output"] == 15
    assert [e["usage"]["output"] for e in s.events("usage.updated")] == [5, 10, 15]


def test_the_model_is_asked_by_permission(home, hub, work):
    asker(home)
    s = Session(home, work, [one_call("sample"), {"text": "x"}, {"text": "done"}], permission="ask")
    s.send()

    def decide(tool, decision):
        def look():
            return [p for p in s.call("GET")["pending"] if p.get("call", {}).get("tool_name") == tool]
        [open] = retry(look)
        s.call("POST", f"/permission/{open['request_id']}", {"decision": decision, "reason": "too dear"})
        return open
    # the tool itself has the same name as what it asks for: both are asked
    decide("sample", "allow")
    second = retry(lambda: [p for p in s.call("GET")["pending"] if "for" in p["call"]["input"]])[0]
    assert second["call"]["input"] == {"for": "sample", "max_tokens": 50, "messages": [{"role": "user", "content": "say x"}]}
    s.call("POST", f"/permission/{second['request_id']}", {"decision": "deny", "reason": "too dear"})
    done = s.wait_for("tool.completed")
    assert done["output"].startswith("refused: ") and "too dear" in done["output"]
    s.wait_for("turn.completed")
    plan = Session(home, work, [one_call("roots"), {"text": "done"}], permission="plan")
    plan.ask()
    assert not plan.events("tool.completed")[0]["success"]


def test_a_rule_can_forbid_sampling(home, hub, work):
    asker(home)
    (home.dir / "config.toml").write_text('[[permission]]\ntool = "sample"\ndecision = "deny"\n')
    plugin(home, "other", """tool { name = "probe", description = "asks the model", run = function(ctx)
      local got, why = ctx.sample("say x") return got and "yes" or why end }""")
    s = Session(home, work, [one_call("probe"), {"text": "done"}])
    s.ask()
    assert "rule" in s.wait_for("tool.completed")["output"]


def test_the_directories_of_the_session(home, hub, work, tmp_path):
    asker(home)
    s = Session(home, work, [one_call("roots"), {"text": "done"}], writable=[str(tmp_path)])
    s.ask()
    assert [r["uri"] for r in output(s)["roots"]] == [f"file://{work}", f"file://{tmp_path}"]


# ---- the same for MCP servers ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["asks", "modern-asks"])
def test_a_server_asks_the_user(home, start_hub, work, mode):
    configure(home, table("s", mode))
    start_hub()
    wait_state(home, "s")
    s = Session(home, work, [one_call("s__elicit"), {"text": "done"}])
    s.send()
    assert asked(s, "Who?")["question"].startswith("s__elicit asks: Who?")  # nobody speaks in Afloat's name
    answer(s, "Ada")
    got = {"action": "accept", "content": {"name": "Ada"}}
    assert output(s) == ([{"e": got}, "kept"] if "modern" in mode else got)


@pytest.mark.parametrize("mode", ["asks", "modern-asks"])
def test_a_server_asks_the_model_by_permission(home, start_hub, work, mode):
    configure(home, table("s", mode))
    start_hub()
    wait_state(home, "s")
    s = Session(home, work, [one_call("s__sample"), {"text": "x"}, {"text": "done"}])
    assert s.ask()["text"] == "done"
    got = output(s)
    got = got[0]["s"] if "modern" in mode else got
    assert got["content"] == {"type": "text", "text": "x"} and got["role"] == "assistant"
    s = Session(home, work, [one_call("s__sample"), {"text": "done"}], permission="edits")
    s.send()
    for tool, decision in (("s__sample", "allow"), ("sample", "deny")):
        [p] = retry(lambda: [p for p in s.call("GET")["pending"] if p["call"]["tool_name"] == tool])
        s.call("POST", f"/permission/{p['request_id']}", {"decision": decision})
    done = s.wait_for("tool.completed")
    assert "denied by the user" in done["output"] + str(done["error"])


@pytest.mark.parametrize("mode", ["asks", "modern-asks"])
def test_a_server_asks_for_the_directories(home, start_hub, work, mode):
    configure(home, table("s", mode))
    start_hub()
    wait_state(home, "s")
    s = Session(home, work, [one_call("s__roots"), {"text": "done"}])
    s.ask()
    got = output(s)
    assert [r["uri"] for r in (got[0]["r"] if "modern" in mode else got)["roots"]] == [f"file://{work}"]


def test_questions_of_a_server_come_one_after_the_other_and_addresses_are_shown(home, start_hub, work):
    configure(home, table("s", "asks"))
    start_hub()
    wait_state(home, "s")
    s = Session(home, work, [one_call("s__twice"), {"text": "done"}])
    s.send()
    asked(s, "Who?")
    answer(s, "Ada")
    assert asked(s, "Log in")["question"].endswith("https://example.com/")
    answer(s, "no")
    assert output(s) == [{"action": "accept", "content": {"name": "Ada"}}, {"action": "decline"}]


def test_the_time_of_a_call_rests_while_the_user_thinks(home, start_hub, work):
    configure(home, table("s", "asks", timeout_s=2), table("other", timeout_s=4))
    start_hub()
    wait_state(home, "s"), wait_state(home, "other")
    s = Session(home, work, [one_call("s__elicit"), {"text": "done"}])
    s.send()
    asked(s, "Who?")
    assert "within 4 s" in str(run(home, "other__hang"))  # meanwhile the time of the call would be over
    answer(s, "Ada")
    assert output(s)["action"] == "accept"


def test_an_interrupt_ends_a_call_that_asks(home, start_hub, work):
    configure(home, table("s", "asks"))
    start_hub()
    wait_state(home, "s")
    s = Session(home, work, [one_call("s__elicit"), {"text": "done"}])
    s.send()
    asked(s, "Who?")
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    assert s.call("GET")["pending"] == []


def test_a_server_that_asks_outside_of_a_session_gets_no_user(home, start_hub):
    configure(home, table("s", "asks"))
    start_hub()
    wait_state(home, "s")
    assert json.loads(run(home, "s__elicit")["output"]) == {"action": "cancel"}
    assert "message" in json.loads(run(home, "s__sample")["output"])
    run(home, "s__chatter")
    assert home.json("mcp", "show", "s")["log"] == ['warning: {"disk":"full"}']


def test_the_demonstration_server_asks_the_user_and_the_model(home, start_hub, work):
    configure(home, program("ev", peers.install(), "server-everything"))
    start_hub()
    row = wait_state(home, "ev")
    assert {"ev__trigger-elicitation-request", "ev__trigger-sampling-request", "ev__get-roots-list"} <= set(row["tools"])
    s = Session(home, work, [one_call("ev__trigger-elicitation-request"), one_call("ev__trigger-sampling-request", prompt="hi"),
                             {"text": "sampled"}, one_call("ev__get-roots-list"), {"text": "done"}])
    s.send()
    first = asked(s, "legal name")
    given = {"titledSingleSelectEnum": "Wonder Woman", "titledMultipleSelectEnum": "Tuna, Trout", "integer": "7", "check": "yes",
             "name": "Ada", "email": "a@example.com", "homepage": "https://example.com/", "birthdate": "1815-12-10"}
    for name, field in first["form"]["requestedSchema"]["properties"].items():
        open = asked(s, field["title"])
        s.call("POST", f"/answer/{open['question_id']}", {"answer": given.get(name, "")})
        retry(lambda: all(p.get("question_id") != open["question_id"] for p in s.call("GET")["pending"]))
    s.wait_for("turn.completed")
    form, sample, roots = [r["output"] for r in s.results()]
    assert '"titledSingleSelectEnum": "hero-3"' in form and '"fish-3"' in form and '"integer": 7' in form and "accept" in form
    assert "It was a dark and stormy night" in form and "sampled" in sample and str(work) in roots
