"""What a command says and returns where it can do nothing: exit codes, names, places, and the line of a long wait."""
import json
import os
import pathlib

import pytest

from conftest import BIN, read_to_end
from test_plugins import call, put

WRONG = [  # words, exit code, what is said
    (("undo", "--to", "x"), 2, "must be of type integer, not 'x'"),
    (("sessions", "prune", "--older-than", "x"), 2, "not 'x'"),
    (("pty", "attach"), 3, "afloat pty new"),
    (("pty", "kill", "ffff"), 3, "'afloat pty list' shows them"),
    (("plugin", "show", "zzz"), 3, "`afloat plugins` lists them"),
    (("runs", "show", "ffff"), 3, "'afloat runs' lists them"),
    (("hub", "--listen", "bogus"), 2, "listen"),
    (("hub", "--profile", "../x"), 2, "profile"),
    (("hub", "--repo", "/nonexistent"), 3, "/nonexistent"),
    (("plugin", "new", "list"), 2, "reserved"),
    (("plugin", "new", "validate"), 2, "reserved"),
    (("plugin", "add", "nonesuch"), 3, "no plugin 'nonesuch' comes with the program"),
    (("hooks", "import", "nonesuch"), 3, "cannot open 'nonesuch'"),
    (("api", "POST", "/reload", "@nonesuch"), 3, "cannot open 'nonesuch'"),
    (("bots", "create", "Bad Name"), 2, "cannot be a bot's name"),
    (("run", "../x"), 2, "cannot be a bot's name"),
    (("chat", "--bot", "Bad Name", "hi"), 2, "cannot be a bot's name"),
    (("skills", "save", "Bad Name"), 2, "cannot be a skill's name"),
    (("template", "install", "plugin-lua", "--as", "Bad"), 2, "cannot be installed under that name"),
    (("secret", "set", "bad name"), 2, "a secret's name is"),
    (("events", "emit", "not.mine"), 2, "user."),
    (("chat", "--max-steps", "0", "hi"), 2, "'--max-steps' takes a whole number above 0, not '0'"),
    (("chat", "--max-cost", "-1", "hi"), 2, "'--max-cost' takes a number above 0, not '-1'"),
    (("chat", "--provider", "nonesuch", "hi"), 1, "there is no provider 'nonesuch'"),
    (("chat", "-m", "nonesuch/x", "hi"), 1, "there is no provider 'nonesuch'"),
    (("chat", "--engine", "nonesuch", "hi"), 1, "there is no engine 'nonesuch'"),
    (("chat", "--plugins", "nonesuch", "hi"), 1, "there is no plugin 'nonesuch'"),
    (("chat", "--provider", "openai", "hi"), 1, "OPENAI_API_KEY\n"),
    (("chat", "--provider", "opnai", "hi"), 1, "did you mean 'openai'? (`afloat models` lists what there is)"),
    (("api", "POST", "/bots", '{"name": "Bad Name"}'), 1, ""),
]


@pytest.mark.parametrize("words,code,says", WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_a_wrong_word_is_named_and_has_its_exit_code(home, words, code, says):
    done = home.cli(*words, timeout=60)
    assert done.returncode == code and says in done.stderr, (done.returncode, done.stderr)


def test_a_home_of_another_user_is_not_said_to_have_no_hub(home, hub):
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    if other and not all(d.stat().st_mode & 1 for d in pathlib.Path(BIN).resolve().parents):
        pytest.skip("other users cannot reach the program in this directory")
    home.dir.chmod(0o700 if other else 0)
    try:
        for words in (["status"], ["stop"], ["doctor"], ["sessions", "--no-start"]):
            done = home.cli(*words, cwd="/", **other)
            assert done.returncode != 0 and "cannot look into the home" in done.stdout + done.stderr, words
            assert "not running" not in done.stdout + done.stderr and "AFLOAT_HOME" in done.stdout + done.stderr
        assert home.cli("status", cwd="/", **other).returncode == 4
    finally:
        home.dir.chmod(0o700)
    assert home.cli("status").returncode == 0


def test_the_doctor_names_the_fault_of_the_settings_and_the_model(home):
    def row(name, text, env=None):
        (home.dir / "config.toml").write_text(text)
        return next(c for c in json.loads(home.cli("doctor", "--json", env=env).stdout)["checks"] if c["name"] == name)
    fault = row("settings", "# a line\nlistne = 1\n")
    assert fault["status"] == "warn" and "config.toml:2: unknown key 'listne'" in fault["detail"], fault
    assert "offline model" in row("model", "")["detail"]
    work = '[providers.work]\nkind = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\n%s\n[model]\nprovider = "work"\n'
    assert "no provider 'nox'" in row("model", '[model]\nprovider = "nox"\n')["detail"]
    bad = row("model", work % 'api_key_env = "WORK_KEY"')
    assert bad["status"] == "warn" and "WORK_KEY, which is not set" in bad["detail"], bad
    assert row("model", work % 'api_key_env = "WORK_KEY"', env={"WORK_KEY": "x"})["status"] == "ok"
    bad = row("model", work % 'api_key_secret = "NONE"')
    assert bad["status"] == "warn" and "no secret 'NONE'" in bad["detail"] and "secret set" in bad["hint"], bad


def test_the_doctor_names_a_store_that_no_hub_can_use(home):
    for text, says in (('url = "postgresql://127.0.0.1:1/x"', "Connection refused"), ('url_secret = "NONE"', "no secret 'NONE'")):
        (home.dir / "config.toml").write_text(f"[store]\n{text}\n")
        done = home.cli("doctor", "--json")
        row = next(c for c in json.loads(done.stdout)["checks"] if c["name"] == "store")
        assert done.returncode == 1 and row["status"] == "fail" and says in row["detail"] and "[store]" in row["hint"], row


def test_the_doctor_names_no_line_of_a_file_that_cannot_be_read(home):
    (home.dir / "config.toml").mkdir()
    row = next(c for c in json.loads(home.cli("doctor", "--json").stdout)["checks"] if c["name"] == "settings")
    assert row["status"] == "fail" and "Is a directory" in row["detail"] and ":0" not in row["detail"], row


def test_a_file_may_be_a_pipe(home, tmp_path):
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    assert "[[command_hooks]]" in home.ok("hooks", "import", "/dev/stdin", input=json.dumps(hooks))
    assert "[[command_hooks]]" in home.ok("hooks", "import", "-", input=json.dumps(hooks))


def test_verify_says_in_json_what_differs(home, hub):
    home.ok("plugin", "new", "one")
    assert home.json("plugin", "verify", "one") == {"different": []}


def test_a_home_that_no_hub_can_use_sends_to_the_doctor(home):
    (home.dir / "run").write_text("")  # where the hub's directory would be
    done = home.cli("sessions")
    assert done.returncode == 5 and "'afloat doctor' says what to do" in done.stderr, done
    rows = json.loads(home.cli("doctor", "--json").stdout)["checks"]
    assert any(r["name"] == "runtime" and r["status"] == "fail" and r["hint"] for r in rows), rows


def test_an_editor_is_told_that_no_hub_can_be_reached(home):
    (home.dir / "run").write_text("")  # where the hub's directory would be
    done = home.cli("acp", input='{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}\n')
    assert done.returncode == 5, done


def test_a_home_that_is_a_file_has_a_remedy_that_helps(home, tmp_path):
    (tmp_path / "file").write_text("")
    rows = json.loads(home.cli("doctor", "--json", env={"AFLOAT_HOME": str(tmp_path / "file")}).stdout)["checks"]
    row = next(r for r in rows if r["name"] == "home")
    assert "is not a directory" in row["detail"] and "AFLOAT_HOME" in row["hint"], row


def test_a_shipped_plugin_that_is_none_is_named_with_its_line(home, hub):
    (home.dir / "config.toml").write_text('# a line\n[[plugins]]\nname = "loger"\n')
    said = [d for d in home.json("api", "POST", "/reload")["diagnostics"] if d["code"] == "ENTRY_MISSING"]
    assert len(said) == 1 and said[0]["message"] == "there is no shipped plugin 'loger'" and "logger" in said[0]["hint"], said
    assert said[0]["path"].endswith("config.toml") and said[0]["line"] == 2, said


def test_a_current_directory_that_is_gone_is_named(home, hub, tmp_path):
    gone, here = tmp_path / "gone", os.getcwd()
    home.ok("bots", "create", "b")
    for words in (["chat", "hi"], ["run", "b", "hi"], ["env", "init"], ["memory", "b"], ["tool", "run", "list_files", "{}"]):
        gone.mkdir()
        done = home.cli(*words, preexec_fn=lambda: (os.chdir(gone), gone.rmdir()))
        assert done.returncode in (1, 3) and "current directory" in done.stderr and "go to one that exists" in done.stderr, done
    assert os.getcwd() == here


def test_a_text_needs_no_input(home, hub):
    done = home.cli("chat", "hi", preexec_fn=lambda: os.close(0))
    assert done.returncode == 0 and "offline demo" in done.stdout, done
    done = home.cli("chat", "-", preexec_fn=lambda: os.close(0))
    assert done.returncode == 1 and "cannot read the input" in done.stderr, done


@pytest.mark.parametrize("verb", ["show", "end", "pipeline", "rewind"])
def test_a_session_that_is_none_is_the_problem_of_the_hub_with_json(home, hub, verb):
    done = home.cli("sessions", verb, "nonesuch", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["code"] == "NOT_FOUND" and "'nonesuch'" in done.stderr, done
    assert home.cli("sessions", verb, "nonesuch").stdout == ""


def test_an_import_fails_alike_with_and_without_json(home, hub, tmp_path):
    (tmp_path / "bots" / "bad").mkdir(parents=True)
    (tmp_path / "bots" / "bad" / "config.md").write_text("+++\nmodel = 1\n")
    assert home.cli("bots", "import", str(tmp_path)).returncode == 1
    done = home.cli("bots", "import", str(tmp_path), "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["failed"] == 1


def test_a_directory_that_holds_the_home_is_no_plugin(home, hub):
    done = home.cli("plugin", "add", str(home.dir.parent))
    assert done.returncode == 1 and "holds the home" in done.stderr, done.stderr
    assert home.json("plugin", "list")["plugins"] == []


def test_fsck_without_a_home_says_that_nothing_is_stored(home, tmp_path):
    done = home.cli("--home", str(tmp_path / "none"), "fsck")
    assert done.returncode == 3 and "nothing is stored yet" in done.stderr and not (tmp_path / "none").exists()


def test_an_export_never_replaces_a_file(home, tmp_path):
    there = tmp_path / "there.jsonl"
    there.write_text("mine")
    assert home.cli("store", "export", str(there)).returncode == 7 and there.read_text() == "mine"


def test_two_answers_are_two_lines(home, hub):
    put(home, "plugins/a.lua", 'command { name = "a", run = function() return "a" end }')
    home.ok("reload")
    lines = home.ok("generations", "diff", "1", "2", "--json").splitlines()
    assert [json.loads(line)["generation"] for line in lines] == [1, 2]


def test_a_plugin_of_a_reserved_name_is_refused_with_the_reason(home, hub):
    put(home, "plugins/list.lua", 'command { name = "a", run = function() return "a" end }')
    done = home.cli("reload")
    assert done.returncode == 6 and "NAME_INVALID" in done.stdout and "reserved" in done.stdout
    assert home.http("GET", "/plugin/list").json()["plugins"], "the list itself is reached"


def test_the_list_of_plugins_says_where_a_broken_one_is_broken(home, hub):
    path = put(home, "plugins/bad.lua", "local a = 1\nlocal b = = 2\n")
    home.cli("reload")
    row = home.json("plugin", "list")["plugins"][0]
    assert row["error_at"].endswith("bad.lua:2"), (row, path)
    assert "bad.lua:2: " in home.ok("plugin", "list")


def test_why_names_the_command_to_type(home, hub):
    home.ok("plugin", "new", "greet")
    why = home.ok("plugin", "why", "greet")
    assert "'afloat greet:hello'" in why and "'afloat tool run greet_greet'" in why, why


def test_a_model_is_offered_once(home, hub):
    for _ in range(2):
        assert call(home, "POST", "/session", {"provider": "scripted"})[0] == 201
    models = [line.split("\t")[0] for line in home.ok("complete", "afloat", "chat", "--model", "").splitlines()]
    assert "scripted/scripted" in models and len(models) == len(set(models)), models


def test_setup_names_an_installed_agent_when_there_is_no_key(home, tmp_path):
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    home.env.update(OPENAI_API_KEY="", ANTHROPIC_API_KEY="", PATH=str(tmp_path))
    done = home.cli("setup")
    if "answers" not in done.stdout:  # a model server runs on this machine
        assert done.returncode == 0 and "--engine codex" in done.stdout and "no model was found" in done.stderr


def test_a_long_wait_says_what_is_waited_for(home, hub):
    put(home, "plugins/slow.lua", 'tool { name = "wait", input = { s = "number" }, run = function(_, i) timer.sleep(i.s) return "done" end }')
    home.ok("reload")
    process, terminal = home.on_terminal("tool", "run", "wait", '{"s": 3}', env={"TERM": "xterm"})
    seen = read_to_end(terminal).decode()
    assert process.wait() == 0
    assert "afloat: tool run still runs, " in seen and seen.index("still runs") < seen.index("done")
    assert "\r\x1b[K" in seen[seen.rindex("still runs"):], "the line goes"
    process, terminal = home.on_terminal("--quiet", "tool", "run", "wait", '{"s": 1.2}', env={"TERM": "xterm"})
    assert "still runs" not in read_to_end(terminal).decode() and process.wait() == 0
    assert "still runs" not in home.cli("tool", "run", "wait", '{"s": 1.2}').stderr, "not in a pipe"


@pytest.mark.parametrize("cols", [40, 80])
def test_no_description_of_a_template_is_cut(home, hub, cols):
    process, terminal = home.on_terminal("template", "list", cols=cols, env={"TERM": "xterm", "LANG": "C.UTF-8"})
    seen = " ".join(read_to_end(terminal).decode().split())
    assert process.wait() == 0 and "…" not in seen
    first = home.json("template", "list")["templates"][0]["description"]
    assert first in seen or all(word in seen for word in first.split()), seen


def test_help_breaks_no_word_on_a_narrow_terminal(home):
    process, terminal = home.on_terminal("help", cols=40, env={"TERM": "xterm"})
    lines = read_to_end(terminal).decode().splitlines()
    assert process.wait() == 0 and max(map(len, lines[:3])) <= 40, lines[:3]
    assert os.path.commonprefix(["afloat: a workbench", lines[0]]) == "afloat: a workbench"


def test_the_first_page_of_help_fits_a_usual_terminal_in_one_column_layout(home):
    process, terminal = home.on_terminal("help", cols=80, env={"TERM": "xterm"})
    lines = read_to_end(terminal).decode().splitlines()
    assert process.wait() == 0 and len(lines) <= 23 and max(map(len, lines)) <= 80, lines
    commands = [line for line in lines if line.startswith("  afloat ")]
    assert len(commands) == 10 and len({line.rindex("  ") for line in commands}) == 1, commands


@pytest.mark.parametrize("typed,made", [("y", True), ("n", False)])
def test_a_question_for_permission_takes_yes_and_no(home, hub, tmp_path, typed, made):
    home.env.update(AFLOAT_PROVIDER="scripted", TERM="xterm")
    process, terminal = home.on_terminal("chat", "--permission", "ask", 'write "x" to a.txt', cwd=tmp_path)
    seen = b""
    while b"allow? " not in seen:
        seen += terminal.read(65536)
    terminal.write(typed.encode() + b"\r")
    seen += read_to_end(terminal)
    assert process.wait() == 0 and (tmp_path / "a.txt").exists() == made, seen
