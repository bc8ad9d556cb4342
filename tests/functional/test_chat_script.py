"""`afloat chat -p` and its like: one answer for scripts, in the format and within the bounds that were asked for."""
import json
import re

import pytest

from chat_rig import Terminal
from conftest import retry
from test_chat import newest, place, script  # noqa: F401 (fixtures)

MAKE = {"tool_calls": [{"name": "shell", "input": {"cmd": "echo here > made"}}]}


def test_print_gives_one_answer_without_drawing(home, hub, script, place):
    script({"text": "The **answer** is 42."})
    t = Terminal(home, "chat", "-p", "what is it?", cwd=place)
    assert t.rest() == 0
    assert t.seen == b"The **answer** is 42.\r\n"


def test_print_gives_the_last_message_only(home, hub, script, place):
    script({"text": "I will look.", **MAKE}, {"text": "Nearly.", **MAKE}, {"text": "done"})
    assert home.ok("chat", "-p", "go", cwd=place) == "done\n"
    done = home.cli("chat", "-p", "--max-steps", "2", "go", cwd=place)
    assert (done.returncode, done.stdout) == (1, "Nearly.\n") and "LIMIT_REACHED" in done.stderr


def test_print_needs_something_to_say(home, hub, script, place):
    done = home.cli("chat", "-p", cwd=place, input="")
    assert done.returncode == 2 and "give a TEXT, or pipe one in" in done.stderr


@pytest.mark.parametrize("format", ["text", "json", "stream-json"])
def test_a_call_that_nobody_may_decide_ends_the_turn_with_exit_4_and_its_name(home, hub, script, place, format):
    script(MAKE, {"text": "done"})
    done = home.cli("chat", "-p", "--output-format", format, "--permission", "ask", "go", cwd=place)
    assert done.returncode == 4, done.stderr
    assert "'shell' needs approval" in done.stderr and "echo here > made" in done.stderr
    assert not (place / "made").exists()
    retry(lambda: newest(home)["state"] == "idle")


def test_a_rule_decides_where_nobody_can(home, start_hub, script, place):
    (home.dir / "config.toml").write_text(
        '[[permission]]\ntool = "shell"\nmatch = "echo *"\ndecision = "allow"\n')
    start_hub()
    script(MAKE, {"text": "done"})
    done = home.cli("chat", "-p", "--permission", "ask", "go", cwd=place)
    assert (done.returncode, done.stdout) == (0, "done\n") and (place / "made").exists()


def test_the_formats(home, hub, script, place):
    script(MAKE, {"text": "done", "usage": {"input": 5, "output": 2}})
    done = home.cli("chat", "-p", "--output-format", "json", "go", cwd=place)
    whole = json.loads(done.stdout)
    assert done.returncode == 0 and (whole["state"], whole["text"]) == ("completed", "done")
    assert [c["tool"] for c in whole["tool_calls"]] == ["shell"] and whole["usage"]["input"] is not None
    done = home.cli("chat", "-p", "--output-format", "stream-json", "go", cwd=place)
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert types[-1] == "turn.completed" and "tool.completed" in types
    done = home.cli("chat", "-p", "--output-format", "xml", "go", cwd=place)
    assert done.returncode == 2 and "text, json or stream-json" in done.stderr


def test_a_failed_turn_fails_in_every_format(home, hub, script, place):
    script({"when": "nothing of the kind", "text": "x"})
    for format in ("text", "json", "stream-json"):
        done = home.cli("chat", "-p", "--output-format", format, "go", cwd=place)
        assert done.returncode == 1, format
    assert "SCENARIO_FAILED" in done.stdout


def test_max_steps_ends_the_turn(home, hub, script, place):
    script(MAKE, MAKE, MAKE, {"text": "done"})
    done = home.cli("chat", "-p", "--output-format", "json", "--max-steps", "2", "go", cwd=place)
    whole = json.loads(done.stdout)
    assert done.returncode == 1 and whole["error"]["code"] == "LIMIT_REACHED"
    assert "2 model requests" in whole["error"]["message"]
    for bad in ("0", "1.5", "many"):
        assert home.cli("chat", "-p", "--max-steps", bad, "go", cwd=place).returncode in (1, 2)


def test_max_cost_ends_the_turn_and_needs_a_price(home, start_hub, script, place):
    usage = {"usage": {"input": 1000, "output": 1000}}
    script({**MAKE, **usage}, {**MAKE, **usage}, {**MAKE, **usage}, {"text": "done"})
    start_hub()
    done = home.cli("chat", "-p", "--max-cost", "0.01", "go", cwd=place)
    table = re.search(r'\[prices\."[^"]+"\]', done.stderr)
    assert done.returncode == 1 and table, done.stderr
    (home.dir / "config.toml").write_text(f"{table.group()}\ninput = 1.0\noutput = 9.0\n")
    home.ok("reload")
    args = ("chat", "-p", "--output-format", "json", "--max-cost", "0.015", "go")
    done = retry(lambda: (d := home.cli(*args, cwd=place)) and d.stdout and d)
    whole = json.loads(done.stdout)
    assert whole["error"]["code"] == "LIMIT_REACHED" and "0.0200 USD" in whole["error"]["message"]
    assert len(whole["tool_calls"]) == 2
