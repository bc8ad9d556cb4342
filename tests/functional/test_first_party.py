"""The plugins that come with the program, in real turns of the offline model."""
import json
import os
import pty
import sqlite3

import pytest


@pytest.fixture
def use(home, start_hub, tmp_path):
    """A hub with one plugin by name; gives a function that sends a message and returns the answer's text."""
    home.env["AFLOAT_PROVIDER"] = "scripted"

    def begin(name, options="", env=None):
        (home.dir / "config.toml").write_text(f'[[plugins]]\nname = "{name}"\n{options}\n')
        start_hub(env=env)
        return lambda text, *more: home.ok("chat", "-p", *more, text, cwd=tmp_path)
    return begin


def results(home):
    [row] = home.json("sessions", "list")["sessions"]
    events = home.json("api", "GET", f"/session/{row['id']}/events")["events"]
    return [e for e in events if e["type"] == "tool.completed"]


def test_mocker_answers_in_place_of_the_tool(home, use):
    say = use("mocker", '[plugins.options.answers]\n"shell: date" = "the first of May"')
    assert "the first of May" in say('run "date"')
    [done] = results(home)
    assert done["resolved_by"] == "mocker"


def test_shell_blocker_denies_and_gives_its_reason(home, use):
    say = use("shell-blocker", '[plugins.options]\nblocked = ["date"]')
    assert "blocked by shell-blocker" in say('run "date"')
    [done] = results(home)
    assert not done["success"]


def test_footer_closes_every_answer(use):
    say = use("footer", '[plugins.options]\ntext = "(by {model}, {tools} calls)"')
    assert say("list the files").rstrip().endswith("(by scripted, 1 calls)")


def test_truncate_shortens_what_the_model_sees(home, use, tmp_path):
    (tmp_path / "long.txt").write_text("x" * 5000)
    say = use("truncate", "[plugins.options]\nmost = 200")
    say("read long.txt")
    [done] = results(home)
    assert "left out by truncate" in done["output"] and len(done["output"]) < 400


def test_cost_guard_stops_a_session_that_used_its_tokens(use):
    say = use("cost-guard", "[plugins.options]\ntokens = 1")
    assert "cost-guard" not in say("what is Afloat?")
    assert "cost-guard: this session has used" in say("what is Afloat?", "-c")


def test_logger_writes_a_line_for_each_turn_and_tool(home, use):
    use("logger")("list the files")
    lines = home.ok("plugin", "logs", "logger")
    assert "turn begins: list the files" in lines and "list_files ok" in lines and "1 tool calls" in lines


def test_notify_runs_the_command_of_its_options(home, use, tmp_path):
    told = tmp_path / "told"
    words = json.dumps(["/bin/sh", "-c", f"echo \"$0: $1\" >> {told}", "{title}", "{text}"])
    use("notify", f"[plugins.options]\ncommand = {words}")
    assert "notified" in home.ok("notify:try")
    assert told.read_text() == "Afloat: it works\n"


def test_notify_rings_terminals_where_the_command_fails(home, use):
    ours, theirs = pty.openpty()
    try:
        use("notify", f'[plugins.options]\ncommand = ["/nonexistent/notify-send"]\nterminals = ["{os.ttyname(theirs)}"]')
        assert "rang your terminals" in home.ok("notify:try")
        assert os.read(ours, 100) == b"\a\x1b]9;Afloat: it works\x1b\\"
    finally:
        os.close(ours)
        os.close(theirs)


def test_notify_finds_the_terminal_that_shows_a_tmux(home, use, tmp_path):
    """By stand-ins for who and tmux: a test must not ring the terminals of whoever runs it."""
    ours, theirs = pty.openpty()
    for name, says in (("who", "somebody-else pts/9999 2026-01-01"), ("tmux", os.ttyname(theirs))):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{says}'\n")
        program.chmod(0o755)
    use("notify", '[plugins.options]\ncommand = ["/nonexistent/notify-send"]', env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    try:
        assert "rang your terminals" in home.ok("notify:try")
        assert b"\x1b]9;Afloat: it works" in os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)


def test_one_is_added_and_removed_by_its_name(home, hub):
    home.ok("plugin", "add", "logger")
    assert [p["name"] for p in home.json("plugin", "list")["plugins"] if p["serving"]] == ["logger"]
    assert home.cli("plugin", "add", "logger").returncode == 7
    unknown = home.cli("plugin", "add", "loger")
    assert unknown.returncode == 3 and "cost-guard" in unknown.stderr and "logger" in unknown.stderr
    home.ok("plugin", "remove", "logger")
    assert home.json("plugin", "list")["plugins"] == []


def shop(path):
    """A real SQLite file: odd names, a view, nulls."""
    db = sqlite3.connect(path)
    db.executescript("""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL, note BLOB);
        INSERT INTO orders VALUES (1, 'Ada, Countess', 10.5, NULL), (2, 'Grace', 7, 'fast');
        CREATE TABLE "od""d name" ("a b" TEXT);
        CREATE VIEW large AS SELECT * FROM orders WHERE total > 8;
    """)
    db.close()


def test_data_catalog_shows_tables_and_views_of_an_sqlite_file(home, use, tmp_path):
    shop(tmp_path / "shop.db")
    use("data-catalog", f'[plugins.options]\nsqlite = "{tmp_path}/shop.db"')
    sets = home.json("api", "GET", "/api/plugins/data-catalog/datasets")["datasets"]
    assert [(s["name"], s["description"]) for s in sets] == [
        ("large", "1 row, view of shop.db"), ('od"d name', "0 rows, table of shop.db"), ("orders", "2 rows, table of shop.db")]
    table = home.json("api", "GET", "/api/plugins/data-catalog/datasets/orders")
    assert table["columns"] == ["id", "customer", "total", "note"] and table["total"] == 2
    assert table["rows"] == [["1", "Ada, Countess", "10.5", ""], ["2", "Grace", "7.0", "fast"]]
    db = sqlite3.connect(tmp_path / "shop.db")  # what is written later is there at the next look
    db.execute("INSERT INTO orders (customer) VALUES ('Lin')")
    db.commit()
    db.close()
    assert home.json("api", "GET", "/api/plugins/data-catalog/datasets/orders")["total"] == 3
    found = home.json("tool", "run", "catalog_search", '{"query": "customer"}')
    assert "orders" in json.dumps(found)


def test_sqlite_only_reads_and_is_bounded(home, start_hub, tmp_path):
    shop(tmp_path / "shop.db")
    (home.dir / "plugins").mkdir()
    (home.dir / "plugins/ask.lua").write_text(f"""
        tool {{ name = "ask", description = "d", input = {{ sql = "string", path = "string?" }}, run = function(ctx, input)
          local r, why = sqlite.query(input.path or "{tmp_path}/shop.db", input.sql)
          return r and json.encode(r) or "no: " .. why
        end }}
    """)
    start_hub()

    def ask(sql, **more):
        return home.json("tool", "run", "ask", json.dumps({"sql": sql, **more}))["output"]

    assert json.loads(ask("SELECT 1 AS one, 'x', NULL, 2.5")) == {"columns": ["one", "'x'", "NULL", "2.5"], "rows": [[1, "x", None, 2.5]], "more": False}
    for sql, why in (("DELETE FROM orders", "only statements that read"), ("SELECT 1; SELECT 2", "more than one statement"), ("", "no statement"),
                     ("SELEKT", "syntax error"), (f"ATTACH '{tmp_path}/new.db' AS n", "too many attached"),
                     ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "it took too long")):
        assert why in ask(sql), sql
    assert not (tmp_path / "new.db").exists()
    many = json.loads(ask("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000) SELECT x FROM c"))
    assert len(many["rows"]) == 10000 and many["more"] is True
    assert "unable to open" in ask("SELECT 1", path=f"{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists(), "a file that is not there is not made"
