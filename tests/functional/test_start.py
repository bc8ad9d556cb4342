"""Starting, finding and stopping the background hub."""
import fcntl
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading

import pytest

from conftest import BIN, DEADLINE, Home, check_report, is_gone, pause, read_line, retry


def test_a_command_starts_the_hub_and_the_next_one_finds_it(home):
    assert home.cli("status").returncode == 5
    first = home.json("feature", "list")
    pid = home.hub_pid()
    assert pid and first["features"]
    home.ok("feature", "list")
    assert home.hub_pid() == pid
    assert home.json("status")["pid"] == pid


def test_start_twice_says_so(home):
    started = home.cli("start")
    again = home.cli("start")
    pid = home.hub_pid()
    assert (started.returncode, again.returncode) == (0, 0)
    assert f"hub started (pid {pid})" in started.stderr
    assert f"already running (pid {pid})" in again.stderr
    assert home.cli("start", "--quiet").stderr == ""


def test_twenty_clients_at_once_start_one_hub(home):
    clients = [home.popen("feature", "list", "--json") for _ in range(20)]
    for c in clients:
        out, err = c.communicate(timeout=DEADLINE)
        check_report(err.decode())
        assert c.returncode == 0, err
        assert json.loads(out)["features"]
    assert home.hub_pid()
    # one hub came up, and no second one was even tried: it would have complained about the first
    said = (home.dir / "logs/hub.out").read_text()
    assert re.fullmatch(r"ready [^\n]*\n", said), said
    assert home.log.read_text().count(" ready ") == 1


def test_the_hub_has_nothing_of_its_parent(home, tmp_path):
    secret = "SECRET_OF_THE_CLIENT"
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    home.cli("start", cwd=tmp_path, env={secret: "x", "AFLOAT_LOG": "debug"}, pass_fds=[write_end])
    os.close(write_end)
    pid = home.hub_pid()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.getsid(pid) == pid
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    assert fields[4] == "0", "it has a controlling terminal"
    env = open(f"/proc/{pid}/environ").read()
    assert secret not in env and "AFLOAT_LOG=debug" in env
    # nobody else has the writing end any more
    os.set_blocking(read_end, False)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert targets.count(str(home.dir / "logs/hub.out")) == 2


def test_a_pipe_round_start_ends_with_the_client(home):
    shell = subprocess.run(["sh", "-c", '"$0" start 2>&1 | cat', BIN], env=home.env, text=True,
                           capture_output=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
    assert "hub started" in shell.stdout
    assert home.hub_pid()


def test_no_start_is_obeyed(home):
    for words in (["feature", "list"], ["events"], ["api", "GET", "/healthz"], ["open"],
                  ["token", "rotate"], ["events", "-f"], ["events", "emit", "user.x"], ["mcp"], ["acp"]):
        done = home.cli(*words, "--no-start")
        assert (done.returncode, done.stdout) == (5, ""), words
    assert home.hub_pid() is None


@pytest.mark.parametrize("words", [["mcp"], ["acp"]])
def test_no_start_uses_a_hub_that_runs(home, hub, words):
    done = home.cli("--no-start", *words, input="")
    assert done.returncode == 0, done.stderr


NEVER = [["status"], ["stop"], ["logs"], ["doctor"], ["paths"], ["config"], ["version"],
         ["completions", "bash"], ["help"], ["fsck"], ["secret", "list"], ["token", "show"]]


@pytest.mark.parametrize("words", NEVER, ids=[" ".join(w) for w in NEVER])
def test_these_never_start_a_hub(home, words):
    home.cli(*words)
    assert home.hub_pid() is None
    assert not home.socket.exists()


def test_after_kill_9_the_next_command_starts_a_new_hub(home):
    home.ok("feature", "disable", "plugins")
    old = home.kill_hub()
    assert home.socket.exists(), "the dead hub's socket is still in the way"
    assert (home.runtime / "hub.pid").read_text().strip() == str(old)
    gone = home.cli("status")
    assert gone.returncode == 5 and "did not end by itself" in gone.stderr
    [feature] = home.json("feature", "list")["features"]
    assert feature["enabled"] is False and home.hub_pid() != old


def test_a_stale_pid_of_another_process_is_left_alone(home):
    # the number of the killed hub now belongs to somebody else
    home.ok("start")
    home.kill_hub()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as bystander:
        for name in ("hub.lock", "run/hub.pid"):
            (home.dir / name).write_text(f"{bystander.pid}\n")
        done = home.cli("stop", "--wait")
        assert done.returncode == 0 and "not running" in done.stderr
        assert home.cli("status").returncode == 5
        home.ok("start")
        assert home.hub_pid() not in (None, bystander.pid)
        home.ok("stop", "--wait")
        assert bystander.poll() is None
        bystander.stdin.close()


@pytest.mark.parametrize("flags", [[], ["--wait"], ["--all"], ["--all", "--wait"]], ids=" ".join)
def test_stop_returns_when_the_hub_is_gone(home, flags):
    home.ok("start")
    pid = home.hub_pid()
    done = home.cli("stop", *flags)
    assert done.returncode == 0 and "stopped" in done.stderr
    assert is_gone(pid)
    assert not home.socket.exists() and not (home.runtime / "hub.pid").exists()
    again = home.cli("stop")
    assert again.returncode == 0 and "not running" in again.stderr


def test_start_right_behind_stop_gets_a_hub(home):
    home.ok("start")
    for _ in range(5):
        old = home.hub_pid()
        home.ok("stop")
        home.ok("feature", "list")
        assert home.hub_pid() not in (None, old)


def test_a_hub_on_its_way_out_is_waited_for(home):
    home.ok("start")
    old = home.hub_pid()
    with home.connect() as held:  # a request under way keeps the hub from going
        held.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 9\r\n\r\n{")
        stop = home.popen("stop")
        retry(lambda: not home.socket.exists())
        client = home.popen("feature", "list", "--json")

        def client_waits():
            with open(home.runtime / "start.lock", "a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
                return False

        retry(client_waits)
        assert home.hub_pid() == old and stop.poll() is None
    assert stop.wait(DEADLINE) == 0
    out, err = client.communicate(timeout=DEADLINE)
    assert client.returncode == 0 and json.loads(out)["features"], err
    assert home.hub_pid() not in (None, old)


def test_a_hub_that_does_not_answer_is_sent_sigterm(home, start_hub):
    hub = start_hub()
    pause(hub.pid)  # it can neither answer nor make its socket again
    home.socket.unlink()
    stop = home.popen("stop")
    assert "SIGTERM" in read_line(stop.stderr)
    os.kill(hub.pid, signal.SIGCONT)
    hub.process.wait(DEADLINE)
    assert stop.wait(DEADLINE) == 0


def test_status_of_a_hub_that_hangs(home, hub):
    os.kill(hub.pid, signal.SIGSTOP)
    try:
        done = home.cli("status")
        assert done.returncode == 5 and f"pid {hub.pid}" in done.stderr
    finally:
        os.kill(hub.pid, signal.SIGCONT)


def test_a_hub_that_hangs_does_not_hold_its_log_back(home, hub):
    os.kill(hub.pid, signal.SIGSTOP)
    try:
        assert "ready" in home.ok("logs", "--json", timeout=10)
    finally:
        os.kill(hub.pid, signal.SIGCONT)


@pytest.mark.parametrize("words", [["status"], ["start"], ["stop"], ["stop", "--wait"]])
def test_a_hub_that_refuses_us_is_not_called_absent(home, words):
    home.runtime.mkdir(parents=True)
    body = json.dumps({"code": "FORBIDDEN", "detail": "this socket serves its own user only"}).encode()

    def refuse(listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                if not peer.recv(4096):
                    continue  # it only looked whether somebody listens
                peer.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\n"
                             b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        listener.listen()
        other = threading.Thread(target=refuse, args=[listener])
        other.start()
        told = home.cli(*words)
        listener.shutdown(socket.SHUT_RDWR)
        other.join()
    assert told.returncode == 4 and "its own user only" in told.stderr


def test_a_hub_that_dies_under_a_question_is_asked_again(home):
    home.runtime.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        listener.listen()
        client = home.popen("feature", "list", "--json")
        peer, _ = listener.accept()
        home.socket.unlink()
        listener.close()
        peer.close()  # as the kernel does for one that was killed
    out, err = client.communicate(timeout=DEADLINE)
    assert client.returncode == 0 and json.loads(out)["features"], err


def test_a_change_is_not_sent_twice(home):
    home.runtime.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        listener.listen()
        client = home.popen("feature", "enable", "plugins")
        peer, _ = listener.accept()
        home.socket.unlink()
        listener.close()
        peer.close()
    assert client.wait(DEADLINE) == 5 and home.hub_pid() is None


def test_a_hub_in_another_runtime_directory_is_named(home, hub, tmp_path):
    told = home.cli("feature", "list", env={"AFLOAT_RUNTIME": str(tmp_path / "elsewhere")})
    assert told.returncode == 5 and f"pid {hub.pid}" in told.stderr and "AFLOAT_RUNTIME" in told.stderr


def test_a_home_deeper_than_a_socket_path_may_be_works(tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    home = Home(deep)
    try:
        home.ok("start")
        assert len(str(home.socket)) > 107
        assert home.json("status")["pid"] == home.hub_pid()
        assert home.http("GET", "/healthz").status == 200
    finally:
        home.close()


def test_a_home_that_is_a_file_is_exit_5_with_the_reason(home):
    broken = home.dir / "file"
    broken.write_text("x")
    done = home.cli("start", "--home", str(broken))
    assert done.returncode == 5 and str(broken) in done.stderr


def test_a_hub_that_cannot_start_is_exit_5_with_its_last_words_and_the_log(home):
    (home.dir / "token").mkdir()
    done = home.cli("feature", "list", env={"AFLOAT_LISTEN": "127.0.0.1:0"})
    assert done.returncode == 5 and done.stdout == ""
    assert "could not start" in done.stderr and "token" in done.stderr
    assert str(home.log) in done.stderr


def test_a_port_that_is_taken_is_an_error_by_name_and_another_one_by_auto(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = home.cli("start", env={"AFLOAT_LISTEN": f"127.0.0.1:{port}"})
        assert done.returncode == 5 and str(port) in done.stderr
        home.ok("start", env={"AFLOAT_LISTEN": "auto"})
        assert re.fullmatch(r"127\.0\.0\.1:\d+", home.json("status")["listen"])


def test_a_vanished_socket_is_made_again(home, hub):
    home.socket.unlink()
    retry(lambda: home.cli("status").returncode == 0)
    assert home.json("status")["pid"] == hub.pid
    assert stat.S_IMODE(home.socket.stat().st_mode) == 0o600


def test_a_second_hub_in_the_home_is_refused(home, hub):
    done = home.cli("hub")
    assert done.returncode == 7 and str(hub.pid) in done.stderr


def test_another_build_of_the_hub_is_said_in_one_line(home):
    answer = (b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAfloat-Build: 00aa00aa\r\n'
              b'Content-Length: 15\r\nConnection: close\r\n\r\n{"features":[]}')
    home.runtime.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(home.socket))
        other.listen()

        def serve():
            for _ in range(2):
                c, _ = other.accept()
                with c:
                    c.recv(65536)
                    c.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        done = home.cli("feature", "list")
        assert done.returncode == 0 and done.stderr.count("\n") == 1
        assert "is not the build the hub runs (00aa00aa)" in done.stderr
        assert home.cli("feature", "list", "--quiet").stderr == ""
        thread.join()


def test_the_same_build_says_nothing(home):
    home.ok("start")
    assert home.cli("feature", "list").stderr == ""
    assert home.http("GET", "/healthz").headers["afloat-build"] == home.json("version")["build"]


def test_ready_line_names_socket_address_and_generation(start_hub, home):
    hub = start_hub("--listen", "127.0.0.1:0")
    match = re.fullmatch(r"ready socket=(\S+) http=(127\.0\.0\.1:\d+) generation=\d+", hub.ready)
    assert match and match[1] == str(home.socket)
    assert home.json("status")["listen"] == match[2]
