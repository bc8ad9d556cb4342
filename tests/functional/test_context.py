"""How full a model's context is, and what happens before it is; commands of the user whose output the model reads."""
import json

import pytest

from chat_rig import Terminal
from conftest import Hub, retry
from test_agent import Session, call
from test_chat import place, script  # noqa: F401 (fixtures)
from test_task import use

SMALL = '[models."scripted"]\ncontext = 1000\n'


def usage(n, **scene):
    return {**scene, "usage": {"input": n, "cached": 0, "output": 10}}


@pytest.fixture
def small(home, hub):
    """A model whose context has 1,000 tokens."""
    (home.dir / "config.toml").write_text(SMALL)
    call(home, "POST", "/reload", {})


def test_how_full_it_is(home, small, tmp_path):
    s = Session(home, tmp_path / "w", [usage(400, text="one"), usage(500, text="two")])
    assert s.row["context"] == {"used": None, "window": 1000}
    s.ask()
    assert s.call("GET")["context"] == {"used": 410, "window": 1000}
    assert s.events("usage.updated")[-1]["context"] == {"used": 410, "window": 1000}
    path = home.dir / "sessions" / s.id / "metadata.json"
    meta = retry(lambda: (m := json.loads(path.read_text()))["context"]["used"] == 410 and m)  # written after the turn
    assert meta["tokens"]["context_window"] == 1000
    assert s.events("session.compacting") == []


def test_it_becomes_shorter_before_it_is_full(home, small, tmp_path):
    s = Session(home, tmp_path / "w", [usage(790, text="first answer"), usage(100, text="THE SUMMARY"), usage(50, text="second answer")])
    s.ask("first question")
    assert s.ask("second question")["text"] == "second answer"
    began = s.events("session.compacting")[0]
    assert (began["used"], began["window"]) == (800, 1000)
    assert s.events("session.compacted")[0]["summary"] == "THE SUMMARY"
    last = json.dumps(s.requests()[-1]["body"]["messages"])
    assert "THE SUMMARY" in last and "second question" in last and "first question" not in last
    assert s.call("GET")["context"]["used"] == 60


def test_a_conversation_that_was_taken_back_fills_nothing(home, small, tmp_path):
    s = Session(home, tmp_path / "w", [usage(100, text="one"), usage(890, text="two"), usage(120, text="three")])
    s.ask("first")
    s.ask("second")
    s.call("POST", "/rewind", {"to": "t2"})
    assert s.call("GET")["context"] == {"used": None, "window": 1000}
    assert s.ask("another")["text"] == "three" and s.events("session.compacting") == []


def test_the_status_line_follows_what_a_command_changed(home, small, script, place):
    script(usage(390, text="one"), usage(100, text="THE SUMMARY"), usage(490, text="two"))
    t = Terminal(home, "chat", "--color", "never", cwd=place)
    t.prompt()
    t.type("first\r")
    t.frame(lambda s: "context 40%" in s.text() and s.asks("> ") and not s.busy())
    t.type("/compact\r")
    t.frame(lambda s: "were replaced" in s.text() and s.asks("> ") and "context 40%" not in s.text().splitlines()[-1])
    t.type("second\r")
    t.frame(lambda s: "context 50%" in s.text() and s.asks("> ") and not s.busy())
    assert "THE SUMMARY" not in t.screen() and "by a summary of" not in t.screen()
    t.type("/rewind\r")
    t.frame(lambda s: "[y/N]" in s.text())
    t.type("y\r")
    t.frame(lambda s: "back at the state" in s.text() and s.asks("> ") and "context 50%" not in s.text().splitlines()[-1])
    t.type("/model other\r")
    t.frame(lambda s: s.asks("> ") and "scripted/other" in s.text().splitlines()[-1])
    t.type("/quit\r")
    assert t.rest() == 0


@pytest.mark.parametrize("cols, line", [(100, "auto · scripted/scripted · …/deep/deep/deep/deep/deep/deep/deep/deep/deep/the-place · context 40%"),
                                        (57, "auto · scripted/scripted · …/deep/the-place · context 40%"),
                                        (40, "auto · scripted/scripted · context 40%")])
def test_a_long_directory_leaves_room_for_the_rest(home, small, script, tmp_path, cols, line):
    script(usage(390, text="one"))
    place = tmp_path / "/".join(["deep"] * 30) / "the-place"
    place.mkdir(parents=True)
    t = Terminal(home, "chat", "--color", "never", cwd=place, cols=cols)
    t.prompt()
    t.type("first\r")
    t.frame(lambda s: s.asks("> ") and not s.busy() and s.text().splitlines()[-1] == line)  # a line typed in the turn would steer it
    t.type("/quit\r")
    assert t.rest() == 0


def test_only_when_the_provider_refuses(home, small, tmp_path):
    (home.dir / "config.toml").write_text(SMALL + "[limits]\ncompact_percent = 100\n")
    call(home, "POST", "/reload", {})
    s = Session(home, tmp_path / "w", [usage(2000, text="first"), usage(2000, text="second")])
    s.ask()
    assert s.ask()["text"] == "second" and s.events("session.compacting") == []


def test_in_one_long_turn_results_are_cut(home, small, tmp_path):
    s = Session(home, tmp_path / "w", [usage(900, **use("shell", cmd="seq 2000")), usage(300, text="done")])
    assert s.ask()["text"] == "done"
    trimmed = s.events("session.trimmed")[0]
    assert trimmed["results"] == 1 and s.events("session.compacting") == []
    assert len(s.results()[0]["output"]) < 2100 and "bytes left out" in s.results()[0]["output"]
    assert len(s.events("tool.completed")[0]["output"]) > 8000  # the journal has all of it
    assert s.call("GET")["context"]["used"] == 310


def test_nothing_to_cut_is_no_failure(home, small, tmp_path):
    s = Session(home, tmp_path / "w", [usage(950, **use("shell", cmd="echo short")), usage(300, text="done")])
    assert s.ask()["text"] == "done" and s.events("session.trimmed", "session.compacting") == []


CONTEXTS = {"claude-sonnet-4": 200000, "vendor/gpt-4.1-mini": 1047576, "nobody-knows": 128000, "gpt-5.2": 400000,
            "gpt-5-chat-latest": 128000, "o1-mini": 128000, "o1": 200000, "gpt-4.5-preview": 128000, "gpt-4": 8192,
            "gpt-4-32k": 32768, "gpt-4-turbo": 128000, "openai/gpt-oss-120b": 131072, "gemini-2.5-pro": 1048576}


def test_known_models_and_unknown_ones(home, start_hub, tmp_path):
    (home.dir / "config.toml").write_text('[providers.x]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "X_CRED"\n')
    start_hub()

    def window(model):
        return Session(home, tmp_path / "w", provider="x", model=model, env={"X_CRED": "k"}).row["context"]["window"]
    assert {m: window(m) for m in CONTEXTS} == CONTEXTS
    with (home.dir / "config.toml").open("a") as f:
        f.write('[limits]\ncontext_tokens = 32000\n[models."mine"]\ncontext = 7000\n')
    retry(lambda: window("nobody-knows") == 32000)
    assert window("mine") == 7000 and window("gpt-4o") == 128000


def test_a_user_may_say_that_nothing_is_known_of_other_models(home, start_hub, tmp_path):
    (home.dir / "config.toml").write_text('[limits]\ncontext_tokens = 0\n[providers.x]\nkind = "openai-chat"\n'
                                          'base_url = "http://127.0.0.1:1/v1"\napi_key_env = "X_CRED"\n')
    start_hub()
    row = Session(home, tmp_path / "w", provider="x", model="nobody-knows", env={"X_CRED": "k"}).row
    assert row["context"] == {"used": None, "window": None}


def test_the_chat_shows_percent_and_says_what_happens(home, script, place):  # noqa: F811
    (home.dir / "config.toml").write_text(SMALL)
    hub = Hub(home)
    script(usage(790, text="first answer"), usage(100, text="THE SUMMARY"), usage(50, text="second answer"))
    t = Terminal(home, "chat", "--color", "never", cwd=place, cols=200)
    t.prompt()
    t.type("one\r")
    t.read(rb"context 80%")
    t.prompt()
    t.type("two\r")
    t.read(rb"context is 80% full: older messages become a summary")
    t.read(rb"replaced by a summary of 11 bytes")
    t.read(rb"second answer")
    t.read(rb"context 6%")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0
    hub.close()


def last_request(home):
    files = sorted(home.dir.glob("sessions/*/requests.jsonl"))
    return json.loads(files[0].read_text().splitlines()[-1])["body"]["messages"]


def test_the_model_reads_what_a_command_printed(home, hub, script, place):  # noqa: F811
    script({"text": "one"}, {"text": "two"})
    t = Terminal(home, "chat", "--color", "never", cwd=place, env={"SHELL": "/bin/sh"})
    t.prompt()
    t.type("!printf '\\033[31mred\\033[0m\\r\\nline\\n'; test -t 1 && echo tty; exit 3\r")
    t.read(rb"exit code 3")
    t.read(rb"the model reads this with your next message")
    t.prompt()
    t.type("!!echo hidden-from-it\r")
    t.read(rb"hidden-from-it\r\n")
    t.prompt()
    t.type("what was that?\r")
    t.read(rb"one")
    t.prompt()
    said = last_request(home)[0]["content"]
    command = "printf '\\033[31mred\\033[0m\\r\\nline\\n'; test -t 1 && echo tty; exit 3"
    assert said == f"[I ran a command in the working directory:]\n$ {command}\nred\nline\ntty\n[exit code 3]\n\nwhat was that?"
    t.type("and now?\r")
    t.read(rb"two")
    t.prompt()
    assert last_request(home)[-1]["content"] == "and now?"
    t.type("/quit\r")
    assert t.rest() == 0


def test_long_output_is_cut_and_screens_are_not_text(home, hub, script, place):  # noqa: F811
    script({"text": "one"})
    t = Terminal(home, "chat", "--color", "never", cwd=place, env={"SHELL": "/bin/sh"})
    t.prompt()
    t.type("!seq 20000\r")
    t.read(rb"\n20000\r\n")
    t.prompt()
    t.type("!printf '\\033[?1049hscreen\\033[?1049l'\r")
    t.read(rb"the model reads this")
    t.prompt()
    t.type("well?\r")
    t.read(rb"one")
    t.prompt()
    said = last_request(home)[0]["content"]
    assert "$ seq 20000\n1\n2\n" in said and "\n20000\n[exit code 0]" in said and "bytes left out]" in said and len(said) < 18000
    assert "[a full-screen program]" in said and "screen\033" not in said
    t.type("/quit\r")
    assert t.rest() == 0


def test_a_program_that_sets_the_modes_of_its_output(home, hub, script, place):  # noqa: F811
    script({"text": "one"})
    t = Terminal(home, "chat", "--color", "never", cwd=place, env={"SHELL": "/bin/sh"})
    t.prompt()
    t.type("!stty -echo -icanon <&1; echo set; dd bs=1 count=1 2>/dev/null | od -c | head -1; stty sane <&1; echo over\r")
    t.read(rb"set\r\n")
    retry(lambda: not t.is_usual())
    t.type("x")  # without Enter, and not echoed
    t.read(rb"0000000 +x")
    t.read(rb"over")
    t.prompt()
    t.type("/quit\r")
    assert t.rest() == 0


def test_the_status_line_and_prompt_are_live(home, hub, script, place):  # noqa: F811
    script({"text": "one"})
    t = Terminal(home, "chat", "--color", "never", cwd=place, cols=200)
    t.prompt()
    own = home.dir / "lua" / "user" / "ui"
    own.mkdir(parents=True)
    (own / "status.lua").write_text('return { status = function(s, next) return "MINE " .. next(s) end, prompt = function() return "go: " end }')
    t.read(rb"go: [^~]*MINE auto \xc2\xb7 scripted")  # nothing was typed
    (own / "status.lua").write_text("return {\n  status = function(s) retrun 1 end }")
    t.read(rb"lua/user/ui/status.lua:2: .*the last good one counts")
    t.read(rb"MINE auto")
    (own / "status.lua").unlink()
    t.read(rb"> [^~]*auto \xc2\xb7 scripted")
    t.type("/quit\r")
    assert t.rest() == 0
