"""The hub's life: coming up, being the only one, keeping what was chosen, going down."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from conftest import BIN, DEADLINE, read_line, retry, wait_gone


def events(home, after=0):
    return home.http("GET", f"/events?after={after}&limit=1000", headers=["Accept: application/json"]).json()


def stream(home, after=None, extra=()):
    """A raw event stream, positioned behind the head of the answer."""
    s = home.connect()
    query = "" if after is None else f"?after={after}"
    lines = [f"GET /events{query} HTTP/1.1", "Host: x", "Accept: text/event-stream", *extra]
    s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
    f = s.makefile("rb")
    assert f.readline().startswith(b"HTTP/1.1 200")
    while f.readline().strip():
        pass
    return s, f


def next_event(f):
    """The next event of a stream as (id, type, data)."""
    fields = {}
    for line in f:
        line = line.decode().rstrip("\n")
        if not line and fields:
            return int(fields["id"]), fields["event"], json.loads(fields["data"])
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
    raise AssertionError("the stream ended")


def test_ready_line_says_where_it_listens(home, start_hub):
    hub = start_hub("--listen", "127.0.0.1:0")
    assert re.fullmatch(rf"ready socket={re.escape(str(home.socket))} http=127\.0\.0\.1:\d+ generation=1", hub.ready)


def test_without_listen_there_is_no_tcp(home, hub):
    assert "http= " in hub.ready
    health = home.http("GET", "/healthz").json()
    assert health["listen"] == "" and health["pid"] == hub.pid and health["ok"] is True
    assert not (home.dir / "token").exists()


def test_files_and_directories_are_private(home, start_hub):
    start_hub("--listen", "127.0.0.1:0")
    home.ok("feature", "disable", "plugins")
    seen = 0
    for root, dirs, files in os.walk(home.dir):
        for d in dirs:
            with contextlib.suppress(FileNotFoundError):  # the hub at work replaces some of them meanwhile
                assert stat.S_IMODE(os.stat(os.path.join(root, d)).st_mode) == 0o700, d
        for f in files:
            with contextlib.suppress(FileNotFoundError):
                mode = os.lstat(os.path.join(root, f)).st_mode
                assert stat.S_IMODE(mode) & 0o077 == 0, f
                seen += 1
    assert stat.S_IMODE(os.stat(home.socket).st_mode) == 0o600 and seen >= 6


def test_a_second_hub_in_the_same_home_is_refused(home, hub):
    done = home.cli("hub")
    assert done.returncode == 7
    assert f"a hub already runs in this home (pid {hub.pid})" in done.stderr
    assert home.http("GET", "/healthz").json()["pid"] == hub.pid


def test_the_lock_of_a_dead_hub_is_waited_for(home):
    """A child that a hub was just making when it was killed has the lock open, until it is another program."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    path = home.dir / "hub.lock"
    with open(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(f"{dead.pid}\n")
        held.flush()
        process = home.popen("hub")
        fds = pathlib.Path(f"/proc/{process.pid}/fd")
        lock = str(path.resolve())

        def opened():  # a descriptor that is listed may be closed by now: its link then leads nowhere
            return lock in {os.path.realpath(f) for f in fds.iterdir()}
        retry(lambda: process.poll() is not None or opened())
        fcntl.flock(held, fcntl.LOCK_UN)
    assert read_line(process.stdout).startswith("ready ")
    process.terminate()
    assert process.wait(DEADLINE) == 0


def test_a_second_hub_in_the_same_runtime_directory_is_refused(home, hub, tmp_path):
    env = {"AFLOAT_HOME": str(tmp_path / "other"), "AFLOAT_RUNTIME": str(home.runtime)}
    done = home.cli("hub", env=env)
    assert done.returncode == 7 and "runtime directory" in done.stderr
    assert home.http("GET", "/healthz").json()["pid"] == hub.pid


def test_remains_of_a_killed_hub_are_no_obstacle(home, start_hub):
    hub = start_hub()
    first = hub.pid
    os.kill(first, signal.SIGKILL)
    hub.process.communicate()
    assert home.socket.exists() and (home.runtime / "hub.pid").exists()
    again = home.popen("hub")
    assert read_line(again.stdout).startswith("ready ")
    assert home.http("GET", "/healthz").json()["pid"] == again.pid != first
    again.send_signal(signal.SIGTERM)
    assert again.wait(DEADLINE) == 0
    assert not home.socket.exists() and not (home.runtime / "hub.pid").exists()
    hub.process.returncode = 0  # its death was ours


def test_a_vanished_socket_is_made_again(home, hub):
    home.socket.unlink()
    retry(home.socket.exists)
    retry(lambda: "made-again" in home.log.read_text())
    assert home.http("GET", "/healthz").json()["pid"] == hub.pid


def test_a_vanished_runtime_directory_is_made_again_each_time(home, hub):
    for i in range(3):
        home.runtime.rename(home.dir / f"gone{i}")
        retry(lambda: home.socket.exists() and (home.runtime / "hub.pid").exists())
        assert home.json("status", "--no-start")["pid"] == hub.pid
        assert int((home.runtime / "hub.pid").read_text()) == hub.pid
    env = {"AFLOAT_HOME": str(home.dir / "other"), "AFLOAT_RUNTIME": str(home.runtime)}
    other = home.cli("hub", env=env)
    assert other.returncode == 7 and str(hub.pid) in other.stderr


def test_a_port_that_is_taken_is_an_error_and_auto_takes_another(home, start_hub):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = home.cli("hub", "--listen", f"127.0.0.1:{port}")
        assert done.returncode == 1 and str(port) in done.stderr
        assert "in use" in done.stderr
    with socket.socket() as default:
        default.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for _ in range(100):  # a hub of another test may have it for a moment
            try:
                default.bind(("127.0.0.1", 4700))
                default.listen()
                break
            except OSError:
                time.sleep(0.05)  # someone who keeps it for longer: just as taken
        hub = start_hub("--listen", "auto")
        assert re.search(r"http=127\.0\.0\.1:(\d+)", hub.ready)[1] != "4700"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.168.1.1:0"])
def test_other_addresses_than_loopback_are_refused(home, address):
    done = home.cli("hub", "--listen", address)
    assert done.returncode == 1 and "behind_proxy" in done.stderr, done.stderr


def test_a_choice_survives_stop_and_kill(home, start_hub):
    start_hub().close()
    home.ok("feature", "disable", "plugins")
    row = home.json("feature", "list")["features"][0]
    assert row == {"name": "plugins", "enabled": False, "default": True, "overridden": True,
                   "stage": "stable", "description": row["description"]}
    home.kill_hub(signal.SIGTERM)
    assert home.json("feature", "list")["features"][0]["enabled"] is False
    home.ok("feature", "enable", "plugins")
    home.kill_hub(signal.SIGKILL)
    assert home.json("feature", "list")["features"][0]["enabled"] is True
    assert json.loads((home.dir / "choices.json").read_text()) == {"features.plugins": True}


def test_a_damaged_choices_file_stops_the_start_and_is_not_touched(home, hub):
    hub.close()
    (home.dir / "choices.json").write_text('{"features.plugins": fal')
    done = home.cli("hub")
    assert done.returncode == 1 and "choices.json" in done.stderr
    assert (home.dir / "choices.json").read_text() == '{"features.plugins": fal'


def test_a_mended_file_is_logged_once(home, start_hub):
    (home.dir / "state").mkdir()
    (home.dir / "state" / "index.sqlite").write_text("no database at all\n" * 100)
    start_hub()
    lines = [x for x in home.log.read_text().splitlines() if "index.sqlite" in x]
    assert len(lines) == 1 and "notice=rebuilt" in lines[0], lines


def test_event_ids_are_never_reused_and_a_reader_from_before_gets_a_gap(home, start_hub):
    seen = set()
    for round in range(5):
        hub = start_hub()
        ids = [e["id"] for e in events(home)["events"]]
        assert ids and not seen.intersection(ids)
        if round:
            s, f = stream(home, extra=[f"Last-Event-ID: {last}"])
            number, kind, data = next_event(f)
            assert kind == "stream.gap" and data["from"] == last + 1 and data["to"] == ids[0] - 1
            assert next_event(f)[0] == ids[0]
            s.close()
        seen.update(ids)
        last = max(ids)
        if round % 2:
            hub.close()
        else:
            os.kill(hub.pid, signal.SIGKILL)
            hub.process.communicate()
            hub.process.returncode = 0
            hub.close = lambda: None


def test_replay_has_no_gap_and_no_duplicate(home, hub):
    for i in range(50):
        home.http("POST", "/events", json.dumps({"type": "user.n", "data": {"i": i}}).encode())
    first = next(e["id"] for e in events(home)["events"] if e["type"] == "user.n")
    s, f = stream(home, after=first + 9)
    got = [next_event(f) for _ in range(40)]
    assert [d["data"]["i"] for _, _, d in got] == list(range(10, 50))
    home.http("POST", "/events", b'{"type":"user.n","data":{"i":50}}')
    number, kind, data = next_event(f)
    assert (number, kind, data["type"], data["data"]) == (got[-1][0] + 1, "user.n", "user.n", {"i": 50})
    s.close()


def test_hangup_reads_settings_again_and_keeps_the_last_good_over_a_broken_file(home, hub):
    def level():
        values = home.http("GET", "/config").json()["values"]
        return next(v for v in values if v["key"] == "log.level")

    after = events(home)["next"]
    s, f = stream(home, after=after)
    for text, broken, want in [('[log]\nlevel = "debug"\n', False, "debug"),
                               ('[log]\nlevel = "err', True, "debug"),
                               ('[log]\nlevel = 7\n', True, "debug"),
                               ('[log]\nlevel = "warn"\n', False, "warn")]:
        (home.dir / "config.toml").write_text(text)
        os.kill(hub.pid, signal.SIGHUP)
        while True:
            _, kind, data = next_event(f)
            if kind == "config.changed" and data["broken"] is broken:  # the save itself tells too
                break
        assert level()["value"] == want
        diagnostics = home.http("GET", "/config").json()["diagnostics"]
        assert bool(diagnostics) is broken
        if broken:
            assert diagnostics[0]["line"] == 2 and diagnostics[0]["path"].endswith("config.toml")
    assert level()["origin"] == "user"
    s.close()


def test_a_hangup_while_the_hub_comes_up_is_no_end(home):
    for _ in range(5):
        hub = home.popen("hub", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        deadline = time.monotonic() + DEADLINE
        while not select.select([hub.stdout], [], [], 0.0002)[0]:
            assert time.monotonic() < deadline, "it does not come up"
            hub.send_signal(signal.SIGHUP)
        assert read_line(hub.stdout).startswith("ready "), hub.communicate()[1].decode()
        hub.terminate()
        assert hub.wait(DEADLINE) == 0


def test_a_saved_config_is_in_force_by_itself(home, hub):
    s, f = stream(home, after=events(home)["next"])
    for text, broken, shown in [("listen = ''\n[watch]\npoll_ms = 77\n", False, 77),
                                ("listen = ''\n[watch]\npoll_ms = 'x'\n", True, 77),
                                ("[watch]\npoll_ms = 78\n", False, 78)]:
        fresh = home.dir / "config.toml.new"
        fresh.write_text(text)
        fresh.rename(home.dir / "config.toml")
        while True:
            _, kind, data = next_event(f)
            if kind == "config.changed":
                break
        assert data["broken"] is broken
        values = home.http("GET", "/config").json()["values"]
        assert next(v["value"] for v in values if v["key"] == "watch.poll_ms") == shown
    s.close()


def test_a_broken_file_at_start_is_left_out_and_shown(home, start_hub):
    (home.dir / "config.toml").write_text('listen = "127.0.0.1:0"\n[watch]\npoll = 3\n')
    hub = start_hub()
    assert "http= " in hub.ready
    shown = home.http("GET", "/config").json()["diagnostics"]
    assert shown[0]["line"] == 3 and shown[0]["severity"] == "error"
    assert [c for c in home.http("GET", "/doctor").json()["checks"] if c["status"] == "fail"]


def test_the_log_is_opened_anew_after_it_was_moved(home, hub):
    home.log.rename(home.log.with_suffix(".moved"))
    os.kill(hub.pid, signal.SIGHUP)
    retry(lambda: home.log.exists() and "reload=done" in home.log.read_text())


def test_a_request_under_way_is_finished_before_the_hub_stops(home, start_hub):
    hub = start_hub()
    with home.connect() as s:
        s.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 21\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 100")  # so the hub has begun with it
        s.sendall(b'{"type":')
        hub.process.send_signal(signal.SIGTERM)
        retry(lambda: not home.socket.exists())
        s.sendall(b'"user.late"}\n')
        assert s.recv(4096).startswith(b"HTTP/1.1 201")
    assert hub.process.wait(DEADLINE) == 0


def test_asking_twice_to_stop_still_finishes_a_request_under_way(home, start_hub):
    hub = start_hub()
    with home.connect() as s:
        s.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 21\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        first = home.popen("stop")
        retry(lambda: not home.socket.exists())
        second = home.popen("stop")  # by signal now: nobody listens
        assert "SIGTERM" in read_line(second.stderr)
        s.sendall(b'{"type":"user.late"}\n')
        assert s.recv(4096).startswith(b"HTTP/1.1 201")
    assert hub.process.wait(DEADLINE) == 0 and not (home.runtime / "hub.pid").exists()
    assert first.wait(DEADLINE) == 0 and second.wait(DEADLINE) == 0


@pytest.mark.parametrize("path, body", [("/session/{id}/message", b'{"text": "late"}'), ("/session", b'{"title": "late"}'),
                                        ("/session/{id}/fork", b'{"seq": 1}'), ("/session/{id}/rewind", b'{"force": true}'),
                                        ("/open", b'{"ssh": true}')])
def test_a_request_that_comes_to_an_end_too_late_is_refused(home, start_hub, path, body):
    hub = start_hub()
    id = home.http("POST", "/session", b"{}").json()["id"]
    with home.connect() as s, home.connect() as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(4096).startswith(b"HTTP/1.1 200")
        s.sendall(f"POST {path.format(id=id)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        s.sendall(body[:4])
        hub.process.send_signal(signal.SIGTERM)
        while idle.recv(4096):  # closed when all turns have ended
            pass
        s.sendall(body[4:])
        assert s.recv(4096).startswith(b"HTTP/1.1 503")
    assert hub.process.wait(DEADLINE) == 0


def test_a_second_signal_ends_the_wait(home):
    hub = home.popen("hub")
    read_line(hub.stdout)
    with home.connect() as s:
        s.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 21\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        hub.send_signal(signal.SIGTERM)
        retry(lambda: not home.socket.exists())
        hub.send_signal(signal.SIGTERM)
        assert hub.wait(DEADLINE) == 128 + signal.SIGTERM


def test_an_event_stream_does_not_hold_the_stop_up(home, start_hub):
    hub = start_hub()
    s, f = stream(home)
    hub.process.send_signal(signal.SIGTERM)
    kinds = []
    try:
        while True:
            kinds.append(next_event(f)[1])
    except AssertionError:
        pass
    assert hub.process.wait(DEADLINE) == 0 and "hub.stopping" in kinds
    s.close()


def test_the_open_file_limit_is_raised(home, hub):
    text = pathlib.Path(f"/proc/{hub.pid}/limits").read_text()
    soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", text).groups()
    assert int(soft) == min(int(hard), 1 << 20)


def test_an_idle_hub_has_no_thread_but_its_own_soon(home, hub):
    retry(lambda: len(os.listdir(f"/proc/{hub.pid}/task")) == 1)


def test_metrics_and_openapi_describe_what_is_there(home, hub):
    text = home.http("GET", "/metrics").body.decode()
    assert re.search(r"^afloat_uptime_seconds \d", text, re.M) and "afloat_generation 1" in text
    assert re.search(r"^afloat_http_requests_total\S* \d", text, re.M)
    doc = home.http("GET", "/openapi.json").json()
    assert doc["openapi"].startswith("3.1")
    rows = re.findall(r'^OP\(\w+,\s*"[^"]*",\s*(\w+),\s*"([^"]*)"',
                      (pathlib.Path(__file__).parents[2] / "src/proto/ops.def").read_text(), re.M)
    assert len(rows) >= 14
    for method, path in rows:
        assert method.lower() in doc["paths"][path], (method, path)


def test_unknown_and_wrong_fields_are_named(home, hub):
    answer = home.http("POST", "/events", b'{"type":"user.x","dta":{}}')
    assert answer.status == 400 and answer.json()["code"] == "UNKNOWN_FIELD"
    assert "data" in answer.json()["hint"]
    answer = home.http("POST", "/events", b'{"type":7}')
    assert answer.status == 400 and answer.json()["code"] == "INVALID_BODY"
    assert "type" in answer.json()["detail"]
    answer = home.http("POST", "/events", b'{"type":"hub.started"}')
    assert answer.status == 400 and answer.json()["code"] == "INVALID_NAME"
    answer = home.http("POST", "/feature/plugin/enable")
    assert answer.status == 404 and "plugins" in answer.json()["hint"]
    big = json.dumps({"type": "user.x", "data": {"t": "x" * 70000}}).encode()
    assert home.http("POST", "/events", big).status == 413


def test_an_event_that_was_emitted_has_a_location(home, hub):
    made = home.http("POST", "/events", b'{"type":"user.x"}')
    found = home.http("GET", made.headers["location"], headers=["Accept: application/json"]).json()
    assert made.status == 201 and [e["id"] for e in found["events"]] == [made.json()["id"]]


def test_a_token_that_cannot_be_read_is_no_conflict(home, hub):
    token = home.dir / "token"
    token.write_text("no token\n")
    token.chmod(0o600)
    answer = home.http("POST", "/open")
    assert answer.status == 500 and answer.json()["code"] == "STORE_FAILED"
    token.chmod(0o644)
    answer = home.http("POST", "/open")
    assert answer.status == 403 and "chmod 600" in answer.json()["detail"]


def test_secrets_never_reach_the_log(home, start_hub):
    hub = start_hub("--listen", "127.0.0.1:0")
    token = (home.dir / "token").read_text().strip()
    host = re.search(r"http=(\S+)", hub.ready)[1]
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as s:
        s.sendall(f"GET /?code={token} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token[:-1]}x\r\n"
                  f"Connection: close\r\n\r\n".encode())
        while s.recv(4096):
            pass
    home.ok("token", "rotate")
    assert token not in home.log.read_text()
    assert (home.dir / "token").read_text().strip() != token


def test_a_hub_whose_program_was_replaced_still_starts_programs(home, tmp_path):
    """An upgrade renames a new file over the old one; the kernel then calls the running program "... (deleted)"."""
    programs = tmp_path / "programs"
    programs.mkdir()
    source = pathlib.Path(BIN).resolve().parent
    for path in source.glob("afloat*"):
        if path.is_file():
            shutil.copy2(path, programs / path.name)
    process = subprocess.Popen([programs / "afloat", "hub"], env=home.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    home.running.append(process)
    assert process.stdout.readline().startswith("ready ")
    shutil.copy2(programs / "afloat", programs / "afloat.new")
    (programs / "afloat.new").rename(programs / "afloat")
    body = json.dumps({"name": "x", "lang": "lua", "content": "return 1\n"}).encode()
    answer = home.http("POST", "/plugin/validate", body)
    assert answer.status == 200 and answer.json()["name"] == "x", answer.body
