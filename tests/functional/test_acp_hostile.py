"""Agents that mean harm as engines: a turn ends with its reason, the next one works, and nothing is given that was not offered."""
import json
import pathlib
import sys

import pytest

from conftest import retry
from test_agent import work  # noqa: F401 (a fixture)
from test_engine_acp import configure, start

AGENT = pathlib.Path(__file__).with_name("acp_hostile.py")
CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.fixture
def session(home, start_hub, work):
    configure(home, sys.executable, AGENT)
    start_hub()
    return lambda **params: start(home, work, **params)


def test_messages_of_the_wrong_shape_are_passed_over_and_questions_answered(session):
    s = session()
    assert json.loads(s.ask("types")["text"]) == [CANCELLED] * 6
    assert s.ask("again")["text"] == "fine"


def test_what_was_not_offered_is_refused(session):
    assert json.loads(session().ask("files")["text"]) == [-32601] * 5


def test_another_session_of_the_agent_is_not_ours(session):
    assert json.loads(session().ask("other")["text"]) == CANCELLED


def test_texts_without_measure_end_the_turn_as_others(session):
    s = session()
    assert s.ask("huge")["text"] == "huge"
    assert all(len(e.get("diff") or "") < 100000 for e in s.events("tool.completed")) and s.events("tool.completed")
    assert s.ask("again")["text"] == "fine"


def test_an_answer_counts_once(session):
    s = session()
    assert s.ask("twice")["text"] == "fine"
    assert s.ask("again")["text"] == "fine" and s.events("tool.called") == []


@pytest.mark.parametrize("how, state, code", [("error", "failed", "ENGINE_FAILED"), ("null", "completed", None)])
def test_an_answer_without_sense_ends_the_turn(session, how, state, code):
    s = session()
    got = s.ask(how)
    assert got["state"] == state and (got.get("error") or {}).get("code") == code
    assert s.ask("again")["text"] == "fine"


@pytest.mark.parametrize("how, end", [("race", "turn.completed"), ("die", "turn.failed"), ("silent", "turn.interrupted")])
def test_questions_end_with_their_turn(session, how, end):
    s = session(permission="ask")
    s.send(how)
    if how == "silent":
        retry(lambda: s.call("GET")["pending"])
        s.call("POST", "/interrupt")
    s.wait_for(end)
    assert s.call("GET")["pending"] == [] and not any(e["success"] for e in s.events("tool.completed"))
