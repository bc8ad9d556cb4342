"""What each command does, against a real hub."""
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import termios
import unicodedata

import pytest

from conftest import BIN, DEADLINE, check_report, read_until, retry

CALLS = [
    (["feature", "list"], ("GET", "/feature")),
    (["status"], ("GET", "/healthz")),
    (["config", "show"], ("GET", "/config")),
]


@pytest.mark.parametrize("words,call", CALLS, ids=[" ".join(w) for w, _ in CALLS])
def test_json_is_the_body_of_the_answer_byte_for_byte(home, hub, words, call):
    ours = home.ok(*words, "--json").encode()
    body = home.http(*call).body
    if call[1] == "/healthz":  # the uptime moves on
        ours, body = (json.loads(b) for b in (ours, body))
        ours.pop("uptime_s"), body.pop("uptime_s")
    assert ours == body


def test_json_of_a_failure_is_the_problem_and_the_talk_is_on_stderr(home, hub):
    done = home.cli("feature", "enable", "xyzzy", "--json")
    assert done.returncode == 3
    assert done.stdout.encode() == home.http("POST", "/feature/xyzzy/enable").body
    assert json.loads(done.stdout)["code"] == "NOT_FOUND"
    assert "xyzzy" in done.stderr


def test_api_prints_the_body_and_exits_by_the_status(home, hub, tmp_path):
    assert home.ok("api", "get", "/feature").encode() == home.http("GET", "/feature").body
    body = tmp_path / "body.json"
    body.write_text('{"type":"user.file"}')
    assert json.loads(home.ok("api", "POST", "/events", '{"type":"user.arg"}'))["id"] > 0
    assert json.loads(home.ok("api", "POST", "/events", f"@{body}"))["id"] > 0
    assert json.loads(home.ok("api", "POST", "/events", "-", input='{"type":"user.in"}'))["id"] > 0
    types = {json.loads(line)["type"] for line in home.ok("events", "--json").splitlines()}
    assert {"user.arg", "user.file", "user.in"} <= types
    for words, code in [
        (["GET", "/nowhere"], 3), (["DELETE", "/feature"], 1), (["POST", "/events", "{"], 1),
        (["POST", "/events", '{"type":"not.mine"}'], 1), (["GET", "/feature", "-H", "Origin: http://evil"], 4),
    ]:
        done = home.cli("api", *words)
        assert done.returncode == code, words
        assert json.loads(done.stdout)["status"] >= 400
    assert home.cli("api", "GET", "no-slash").returncode == 1
    assert home.cli("api", "POST", "/events", "@/nowhere").returncode == 1


def test_api_over_tcp_is_treated_as_a_stranger(home, start_hub):
    start_hub("--listen", "127.0.0.1:0")
    assert home.cli("api", "GET", "/healthz", "--tcp").returncode == 0
    assert home.cli("api", "GET", "/feature", "--tcp").returncode == 4
    token = home.ok("token", "show").strip()
    bearer = ["--header", f"Authorization: Bearer {token}"]
    assert home.cli("api", "GET", "/feature", "--tcp", *bearer).returncode == 0
    foreign = home.cli("api", "GET", "/healthz", "--tcp", "--header", "Host: evil.example")
    assert foreign.returncode == 4 and json.loads(foreign.stdout)["code"] == "HOST_NOT_ALLOWED"


def test_api_over_tcp_without_a_listener_says_what_to_do(home, hub):
    done = home.cli("api", "GET", "/healthz", "--tcp")
    assert done.returncode == 1 and "afloat open" in done.stderr


def test_a_large_body_is_refused_with_an_answer(home, hub, tmp_path):
    big = tmp_path / "big.json"
    big.write_text('{"type":"user.x","data":{"a":"' + "x" * (16 << 20) + '"}}')
    done = home.cli("api", "POST", "/events", f"@{big}")
    assert done.returncode == 1 and json.loads(done.stdout)["code"] == "TOO_LARGE"


def test_features_are_switched_and_survive_a_restart(home):
    home.ok("feature", "disable", "plugins")
    home.ok("stop", "--wait")
    assert "off (chosen)" in home.ok("features")
    assert "'plugins' is on" in home.cli("feature", "enable", "plugins").stderr
    assert home.json("features")["features"][0]["enabled"] is True


def test_open_prints_a_one_time_address(home, hub):
    url = home.ok("open").strip()
    port = home.json("status")["listen"].rpartition(":")[2]
    assert url.startswith(f"http://afloat.localhost:{port}/?code=")
    assert home.json("open")["port"] == int(port)


def test_open_under_ssh_also_prints_the_tunnel_and_asks_for_a_longer_code(home, hub):
    done = home.cli("open", "--json", env={"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"})
    opened = json.loads(done.stdout)
    assert f"ssh -L {opened['port']}:127.0.0.1:{opened['port']} 10.0.0.2" in done.stderr
    assert opened["expires_s"] > home.json("open")["expires_s"]


# ---- token and secrets ---------------------------------------------------------------------

def test_token_show_reads_the_file_and_rotate_replaces_it(home):
    absent = home.cli("token", "show")
    assert (absent.returncode, absent.stdout) == (3, "")
    home.ok("start", env={"AFLOAT_LISTEN": "127.0.0.1:0"})
    old = home.ok("token", "show").strip()
    assert old == (home.dir / "token").read_text().strip() and len(old) >= 43
    assert home.json("token", "get") == {"token": old}
    home.ok("token", "rotate")
    assert home.ok("token", "show").strip() != old


def test_secrets_come_from_stdin_and_show_nowhere(home):
    value = "correct horse battery staple"
    home.ok("start")
    with home.popen("secret", "set", "WORK_KEY", stdin=subprocess.PIPE) as setting:
        argv = open(f"/proc/{setting.pid}/cmdline").read()
        _, err = setting.communicate(value.encode() + b"\n", timeout=DEADLINE)
        assert setting.returncode == 0, err
    assert value not in argv and value not in err.decode()
    stored = home.dir / "secrets.json"
    assert json.loads(stored.read_text()) == {"WORK_KEY": value}, "the line end is cut"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert home.ok("secrets") == "WORK_KEY\n"
    assert home.json("secret", "list") == {"secrets": ["WORK_KEY"]}
    for said in (home.log.read_text(), (home.dir / "logs/hub.out").read_text(), home.ok("doctor")):
        assert value not in said
    home.ok("secret", "rm", "WORK_KEY")
    assert home.ok("secrets") == ""
    assert home.cli("secret", "remove", "WORK_KEY").returncode == 3


@pytest.mark.parametrize("typed,stored", [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a\n\n", "a\n"), ("a \n", "a ")])
def test_one_line_end_of_a_secret_is_cut(home, typed, stored):
    home.ok("secret", "set", "X", input=typed)
    assert json.loads((home.dir / "secrets.json").read_bytes())["X"] == stored


def test_an_empty_secret_and_a_bad_name_are_refused(home):
    assert home.cli("secret", "set", "X", input="").returncode == 1
    assert home.cli("secret", "set", "../x", input="v").returncode == 2
    assert not (home.dir / "secrets.json").exists()


@contextlib.contextmanager
def secret_asked(home):
    """`secret set X` on a terminal that asks for the value."""
    process, terminal = home.on_terminal("secret", "set", "X")
    with terminal:
        read_until(terminal, rb"\(not shown\): ")
        yield process, terminal


def test_a_secret_typed_on_a_terminal_is_not_shown(home):
    with secret_asked(home) as (process, terminal):
        terminal.write(b"typed value\n")
        said = read_until(terminal, b"is stored")
        assert b"typed value" not in said
        assert process.wait(DEADLINE) == 0
    assert json.loads((home.dir / "secrets.json").read_text()) == {"X": "typed value"}


@pytest.mark.parametrize("pasted", [b"one\ntwo\n", b"one\ntwo", b"x" * 5000 + b"\n"],
                         ids=["two lines", "no end", "long"])
def test_a_pasted_secret_that_a_terminal_cannot_give_whole_is_refused(home, pasted):
    with secret_asked(home) as (process, terminal):
        assert terminal.write(pasted) == len(pasted)
        said = read_until(terminal, b"< FILE")
        assert b"two" not in said and process.wait(DEADLINE) == 2
    assert not (home.dir / "secrets.json").exists()


def test_a_typed_secret_may_end_with_ctrl_d(home):
    with secret_asked(home) as (process, terminal):
        terminal.write(b"value\x04")
        read_until(terminal, b"is stored")
        assert process.wait(DEADLINE) == 0
    assert json.loads((home.dir / "secrets.json").read_text()) == {"X": "value"}


def test_ctrl_c_at_the_prompt_is_130_and_puts_the_echo_back(home):
    with secret_asked(home) as (process, terminal):
        assert not termios.tcgetattr(terminal)[3] & termios.ECHO
        terminal.write(b"\x03")
        assert process.wait(DEADLINE) == 130
        assert termios.tcgetattr(terminal)[3] & termios.ECHO
    assert not (home.dir / "secrets.json").exists()


def test_no_input_never_asks(home):
    process, terminal = home.on_terminal("secret", "set", "X", "--no-input")
    with terminal:
        assert process.wait(DEADLINE) == 2


# ---- settings, places, care ----------------------------------------------------------------

def test_config_shows_each_value_with_its_origin_with_and_without_a_hub(home):
    (home.dir / "config.toml").write_text('profile = "work"\n\n[watch]\ndebounce = 5\n')
    without = home.cli("config", "show", "--origin")
    assert f"user {home.dir}/config.toml:1" in without.stdout and '"work"' in without.stdout
    assert "debounce_ms" in without.stderr
    local = home.json("config")
    home.ok("start")
    assert home.json("config") == local
    assert home.cli("config", "--origin").stdout == without.stdout


def test_a_config_that_cannot_be_read_is_named_without_a_line(home):
    (home.dir / "config.toml").mkdir()
    said = home.cli("config", "show").stderr
    assert "config.toml: error: cannot read" in said and "the whole file is ignored" in said, said


def test_config_tells_the_environment_s_part(home):
    shown = home.json("config", env={"AFLOAT_LISTEN": "auto"})
    [row] = [v for v in shown["values"] if v["key"] == "listen"]
    assert (row["value"], row["origin"], row["path"]) == ("auto", "environment", "AFLOAT_LISTEN")


def test_paths_are_those_of_the_contract(home):
    assert home.json("paths") == {
        "home": str(home.dir), "runtime": str(home.runtime), "socket": str(home.socket),
        "pid": str(home.runtime / "hub.pid"), "lock": str(home.dir / "hub.lock"),
        "config": str(home.dir / "config.toml"), "choices": str(home.dir / "choices.json"),
        "token": str(home.dir / "token"), "secrets": str(home.dir / "secrets.json"),
        "log": str(home.log), "state": str(home.dir / "state"), "sessions": str(home.dir / "sessions"),
    }
    rows = dict(line.split(None, 1) for line in home.ok("paths").splitlines())
    assert rows == home.json("paths")


def test_doctor_is_well_with_and_without_a_hub(home):
    without = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert without["hub"]["detail"] == "not running"
    home.ok("start")
    checks = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert "running" in checks["hub"]["detail"] and any(n.startswith("hub: ") for n in checks)
    assert all(c["status"] != "fail" for c in checks.values())
    assert len(home.ok("doctor").splitlines()) == len(checks)
    if checks["sandbox"]["status"] == "warn":  # a chroot or container without user namespaces
        assert "refused" in checks["sandbox"]["detail"] and "user_namespaces" in checks["sandbox"]["hint"]
    else:
        assert "Landlock" in checks["sandbox"]["detail"] and "network off" in checks["sandbox"]["detail"]


def test_doctor_finds_faults_and_names_the_remedy(home):
    home.dir.chmod(0o777)
    (home.dir / "token").write_text("x")
    (home.dir / "token").chmod(0o644)
    (home.dir / "config.toml").write_text("listen = [\n")
    done = home.cli("doctor")
    assert done.returncode == 1
    checks = {c["name"]: c for c in json.loads(home.cli("doctor", "--json").stdout)["checks"]}
    assert {n for n, c in checks.items() if c["status"] == "fail"} == {"home", "token", "settings"}
    assert checks["home"]["hint"] == f"chmod go-w '{home.dir}'" in done.stdout
    assert checks["token"]["hint"] == f"chmod 600 '{home.dir}/token'"


def test_doctor_tells_missing_programs_from_limits_of_the_kernel(home, tmp_path):
    # a copy of the program without its launcher, and a PATH without git
    alone = shutil.copy(BIN, tmp_path / "afloat")
    done = subprocess.run([alone, "doctor", "--json"], env={**home.env, "PATH": str(tmp_path)}, capture_output=True,
                          timeout=DEADLINE)
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1 and checks["afloat-launch"]["status"] == "fail"
    assert "No such file" in checks["afloat-launch"]["detail"]
    assert checks["git"]["status"] == "warn" and "install git" in checks["git"]["hint"]
    assert "sysctl" not in checks["sandbox"].get("hint", "") and "afloat-launch" in checks["sandbox"]["detail"]


def test_doctor_says_what_the_settings_do_to_the_sandbox(home):
    (home.dir / "config.toml").write_text('[sandbox]\nmode = "danger-full-access"\n')
    checks = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert checks["sandbox"]["status"] == "warn" and "switched off" in checks["sandbox"]["detail"]


def test_doctor_sees_a_hub_that_was_killed_and_creates_nothing(home):
    home.cli("doctor")
    assert os.listdir(home.dir) == []
    home.ok("start")
    home.kill_hub()
    checks = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert checks["hub"]["status"] == "warn" and "did not end by itself" in checks["hub"]["detail"]


def test_doctor_shows_the_last_error_of_the_log(home):
    home.log.parent.mkdir(parents=True)
    home.log.write_text("2026-01-01T00:00:00.000Z error store disk=full\n"
                        "2026-01-01T00:00:00.000Z info hub ready\n")
    checks = {c["name"]: c for c in home.json("doctor")["checks"]}
    assert checks["log"]["status"] == "warn" and "disk=full" in checks["log"]["detail"]


def test_fsck_refuses_while_a_hub_runs_and_names_it(home, hub):
    done = home.cli("fsck")
    assert done.returncode == 7 and str(hub.pid) in done.stderr


def test_stop_leaves_a_command_alone_that_keeps_hubs_out(home, tmp_path):
    home.ok("start")
    home.ok("stop")
    os.mkfifo(tmp_path / "pipe")
    importing = home.popen("store", "import", str(tmp_path / "pipe"))  # waits for the other end
    lock, pid = home.dir / "hub.lock", importing.pid
    retry(lambda: lock.exists() and lock.read_text().startswith(f"{pid}\n"))
    for words in (("stop",), ("uninstall", "--data", "--force")):
        done = home.cli(*words)
        assert done.returncode == 7 and f"process {pid}" in done.stderr and importing.poll() is None, done
    started, checked = home.cli("hub"), home.cli("fsck")
    assert started.returncode == checked.returncode == 7 and f"process {pid}" in started.stderr, started
    assert f"process {pid}; try again" in checked.stderr and "stop" not in checked.stderr
    assert "not running" in home.cli("status").stderr
    (tmp_path / "pipe").write_text("")  # the other end
    assert importing.wait(DEADLINE) == 1
    assert "not running" in home.cli("stop").stderr


def test_fsck_checks_a_home_and_mends_a_torn_document(home):
    home.ok("feature", "disable", "plugins")
    home.ok("stop", "--wait")
    assert "0 faults found" in home.ok("fsck")
    choices = home.dir / "choices.json"
    choices.write_text(choices.read_text()[:-3])
    broken = home.cli("fsck", "--json")
    report = json.loads(broken.stdout)
    assert broken.returncode == 1 and report["found"] == 1
    assert report["findings"][0]["kind"] == "document"
    assert home.cli("fsck", "--repair").returncode == 0
    assert home.cli("fsck").returncode == 0
    home.ok("start")


# ---- stdout --------------------------------------------------------------------------------

def read_only(home, *words):
    """Run a command while the home is on a file system that is mounted read-only."""
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 77; exec "$@"'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount, str(home.dir), BIN, *words], env=home.env,
                          stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=DEADLINE)
    check_report(done.stderr)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mounts of our own here: " + done.stderr)
    return done


def test_doctor_and_fsck_work_in_a_home_that_cannot_be_written(home):
    told = read_only(home, "doctor")  # nothing in it yet
    assert told.returncode == 1 and re.search(r"^fail +home .*Read-only", told.stdout, re.M), told.stdout
    assert read_only(home, "fsck").returncode == 0
    home.ok("start")
    home.ok("stop", "--wait")
    told = read_only(home, "doctor")
    assert told.returncode == 1 and re.search(r"^fail +home .*Read-only", told.stdout, re.M), told.stdout
    told = read_only(home, "fsck")
    assert told.returncode == 0 and "sessions checked" in told.stdout, told
    assert read_only(home, "fsck", "--repair").returncode == 1


def test_a_full_disk_under_stdout_is_an_error(home):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN, "paths"], env=home.env, stdout=full, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_closed_stdout_is_an_error_and_takes_no_harm(home, hub, closed):
    # the next file to be opened must not become stdout: the events would be sent back to the hub
    done = subprocess.run(["sh", "-c", f'"$0" events -f --after 0 {closed}', BIN], env=home.env,
                          capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert "2>&-" in closed or "cannot write to stdout" in done.stderr


def test_a_reader_that_has_enough_is_no_fault_to_tell(home):
    for ignore in ("", "trap '' PIPE; "):
        done = subprocess.run(["bash", "-c", ignore + '"$0" help --json | true; exit ${PIPESTATUS[0]}', BIN],
                              env=home.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=DEADLINE)
        assert done.stderr == b"" and done.returncode in (0, 1, 141)


def test_colour_is_for_terminals_unless_told_otherwise(home):
    home.ok("start")
    assert "\033[" not in home.ok("status")
    assert "\033[" in home.ok("status", "--color", "always")
    for words, env, colour in [([], {}, True), ([], {"NO_COLOR": "1"}, False),
                               (["--color=never"], {}, False), ([], {"TERM": "dumb"}, False)]:
        home.env.update({"TERM": "xterm"})
        before = dict(home.env)
        home.env.update(env)
        process, terminal = home.on_terminal("status", *words)
        home.env = before
        with terminal:
            seen = read_until(terminal, b"listen")
            assert (b"\033[" in seen) == colour, (words, env)
            assert process.wait(DEADLINE) == 0


def test_what_users_emit_cannot_command_a_terminal(home, hub):
    home.ok("events", "emit", "user.x", json.dumps({"a": "\u009b31m\u202e"}, ensure_ascii=False))
    shown = home.ok("events", "--types", "user.x")
    assert "\u009b" not in shown and "\\u009b31m\\u202e" in shown


# ---- tables on terminals -------------------------------------------------------------------

def seen_on_terminal(home, cols, *words):
    """The lines that a command prints on a terminal of this width, without colours."""
    process, terminal = home.on_terminal(*words, "--color", "never", cols=cols)
    seen = b""
    with terminal:
        try:
            while piece := os.read(terminal.fileno(), 65536):
                seen += piece
        except OSError:
            pass  # the other end is closed
    assert process.wait(DEADLINE) == 0, seen
    return seen.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("cols", [40, 80, 160])
def test_a_list_fits_the_terminal_and_keeps_its_ids(home, cols):
    home.env.update(AFLOAT_PROVIDER="scripted", AFLOAT_MODEL="a-model-with-a-rather-long-name")
    ids = [json.loads(home.ok("api", "POST", "/session", json.dumps({"title": title})))["id"]
           for title in ("a title that is long enough to be cut where there is no room for it", "漢字漢字" * 12)]
    lines = seen_on_terminal(home, cols, "sessions")
    heads = [line for line in lines if line.split()[:2] == ["ID", "STATE"]]
    assert len(heads) == (cols > 40)
    for id in ids:
        [line] = [line for line in lines if line.startswith(id)]
        assert cols == 40 or re.search(r" \d+ s ago ", line), "relative on a terminal"
        row = home.json("sessions", "show", id)
        [plain] = [line for line in home.ok("sessions").splitlines() if line.startswith(id)]
        assert row["started_at"] in plain and row["title"] in plain, "whole and exact in a pipe"
    if cols == 160:
        assert all(wide(line) <= cols for line in lines) and any("漢" in line for line in lines)


def wide(text):
    return sum(2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def test_a_list_in_a_pipe_has_no_heads_and_one_line_a_row(home):
    rows = home.json("features")["features"]
    lines = home.ok("features").splitlines()
    assert [line.split()[0] for line in lines] == [row["name"] for row in rows]


def test_a_record_leaves_out_what_is_null(home):
    id = json.loads(home.ok("api", "POST", "/session", "{}"))["id"]
    row = home.json("sessions", "show", id)
    shown = {line.split()[0] for line in home.ok("sessions", "show", id).splitlines()}
    assert any(value is None for value in row.values())
    assert shown == {key for key, value in row.items() if value not in (None, "", [])}


def test_an_object_in_a_record_is_shown_in_words(home):
    id = json.loads(home.ok("api", "POST", "/session", "{}"))["id"]
    shown = home.ok("sessions", "show", id)
    assert re.search(r"^usage +input 0, cached 0, output 0, reasoning 0, cost_usd 0.0$", shown, re.M), shown
    assert re.search(r"^context +unknown$", shown, re.M), shown


def test_each_command_explains_its_flags(home):
    logs, trust = home.ok("help", "logs"), home.ok("help", "trust")
    assert re.search("--follow +print new lines as they come", logs)
    assert re.search("--follow +trust later changes too", trust)
    assert re.search(r"--color WHEN +when to use colours: auto, always or never", logs)


@pytest.mark.parametrize("words", [["chat", "--permission", "plan", "hi"], ["chat", "--permission", "edits", "hi"]])
def test_every_permission_mode_of_the_hub_can_be_asked_for(home, words):
    home.env.update(AFLOAT_PROVIDER="scripted")
    assert home.cli(*words).returncode == 0
