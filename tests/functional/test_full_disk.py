"""A home whose disk is full: what cannot be written is refused with the reason, what was there stays, and all is well
again when there is room. Runs of bots have their own tests (test_bots.py)."""
import json

import pytest

from conftest import retry
from test_agent import Session, call
from test_bots import Walled, full
from test_plugins import answer, ask, configure, reload


@pytest.fixture
def walled(home, tmp_path):
    dir = home.dir
    w = Walled(home, tmp_path, "24m")
    yield w
    w.close()
    home.dir = dir


def refused(home, method, path, body=None):
    said = home.http(method, path, json.dumps(body).encode() if body is not None else b"")
    assert said.status >= 500 and b"No space left" in said.body, said.body


def test_a_choice_that_cannot_be_written_is_refused_and_not_in_force(walled):
    home = walled.home
    enabled = lambda name: {t["name"]: t["enabled"] for t in call(home, "GET", "/tool")["tools"]}[name]
    call(home, "POST", "/tool/read_file/disable")
    before = (home.dir / "choices.json").read_bytes()
    with full(home.dir / "filler"):
        refused(home, "POST", "/tool/write_file/disable")
        assert not enabled("read_file") and enabled("write_file")
        assert (home.dir / "choices.json").read_bytes() == before
        assert call(home, "GET", "/healthz")["ok"]
    call(home, "POST", "/tool/write_file/disable")
    assert not enabled("write_file")
    assert [p.name for p in home.dir.iterdir() if "choices" in p.name] == ["choices.json"], "no temporary file is left"


def test_metadata_that_cannot_be_written_is_refused_and_stays(walled, tmp_path):
    home = walled.home
    s = Session(home, tmp_path / "work", title="old")
    path = home.dir / "sessions" / s.id / "metadata.json"
    before = path.read_bytes()
    with full(home.dir / "filler"):
        refused(home, "PATCH", f"/session/{s.id}", {"title": "new"})
        assert path.read_bytes() == before and s.call("GET")["id"] == s.id
    s.call("PATCH", "", {"title": "new"})
    assert json.loads(path.read_text())["title"] == "new"


def test_a_setting_that_cannot_be_written_is_not_in_force(walled, tmp_path):
    home = walled.home
    s = Session(home, tmp_path / "work", permission="ask", title="old", disabled_tools=["todo"])
    before = s.call("GET")
    with full(home.dir / "filler"):
        refused(home, "PATCH", f"/session/{s.id}", {"permission": "auto", "network": True, "disabled_tools": [], "title": "new",
                                                    "sandbox": "danger-full-access", "max_steps": 3, "env": {"A": "b"}})
        after = s.call("GET")
        assert {k: after[k] for k in before if k not in ("last_seq", "state")} == {k: before[k] for k in before if k not in ("last_seq", "state")}
    assert [e for e in s.events("session.updated") if "permission" in e] == []
    s.call("PATCH", "", {"permission": "auto"})
    assert s.call("GET")["permission"] == "auto" and s.wait_for("session.updated", permission="auto")


def test_the_record_of_what_serves_stays_whole_and_is_written_later(walled, tmp_path):
    home = walled.home
    path = tmp_path / "p.lua"
    path.write_text(answer(1))
    configure(home, f'[[plugins]]\npath = "{path}"\n')
    reload(home)
    record = home.dir / "state/hub.json"
    before = record.read_bytes()
    with full(home.dir / "filler"):
        path.write_text(answer(2))
        reload(home)
        assert ask(home, "p")["v"] == 2, "the plugin is outside: it is live all the same"
        assert record.read_bytes() == before
        said = home.http("GET", "/events?types=log", headers=["Accept: application/json"]).json()["events"]
        assert [e for e in said if "cannot be kept" in e["text"] and "No space left" in e["text"]], said
    path.write_text(answer(3))
    reload(home)
    retry(lambda: record.read_bytes() != before)
    assert ask(home, "p")["v"] == 3 and json.loads(record.read_text())["plugins"]["good"][str(path)]
