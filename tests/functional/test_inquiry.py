"""What a running tool asks of its session: the user (elicitation), the model (sampling), its directories."""
import json

import pytest

from conftest import retry
from test_agent import Session, call, one_call, plugin, work  # noqa: F401 (a fixture)

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
