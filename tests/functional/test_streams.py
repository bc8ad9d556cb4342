"""Events and logs, as they come."""
import fcntl
import json
import os
import select
import signal
import struct
import termios

import pytest

from conftest import DEADLINE, check_report, read_line, retry

pytestmark = pytest.mark.both_stores


def emit(home, type="user.x", **data):
    return int(home.ok("events", "emit", type, json.dumps(data)))


def follow(home, *args):
    return home.popen("events", "-f", "--json", *args)


def interrupt(process):
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE)
    check_report(err.decode())
    assert process.returncode == 130, err
    return err.decode()


def test_events_lists_what_the_ring_holds_and_ends(home, hub):
    ids = [emit(home, n=i) for i in range(3)]
    rows = [json.loads(x) for x in home.ok("events", "--types", "user.*", "--json").splitlines()]
    assert [r["id"] for r in rows] == ids and [r["data"] for r in rows] == [{"n": i} for i in range(3)]
    lines = home.ok("events", "--types", "user.*").splitlines()
    assert [int(x.split()[0]) for x in lines] == ids and 'user.x data={"n":0}' in lines[0]
    behind = home.ok("events", "--after", str(ids[0]), "--types", "user.*", "--json").splitlines()
    assert [json.loads(x)["id"] for x in behind] == ids[1:]


def test_events_lists_more_than_one_page(home, hub):
    body = b'{"type":"user.many"}'
    head = (b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    with home.connect() as s:
        for _ in range(25):
            s.sendall((head + body) * 100)
            answers = b""
            while answers.count(b"HTTP/1.1 201") < 100:
                answers += s.recv(1 << 16)
    assert len(home.ok("events", "--types", "user.many", "--json").splitlines()) == 2500


def test_emit_prints_the_id_and_takes_stdin(home, hub):
    id = int(home.ok("events", "emit", "user.a", "-", input='{"from":"stdin"}'))
    assert f'{id} ' in home.ok("events", "--types", "user.a")
    assert home.json("events", "emit", "user.a")["id"] > id
    assert home.cli("events", "emit", "user.a", "{").returncode == 2
    assert home.cli("events", "emit", "hub.started").returncode == 2  # a name that it cannot have


def test_following_prints_each_event_as_one_line_and_ctrl_c_is_130(home, hub):
    id = emit(home, n=0)
    process = follow(home, "--after", "0", "--types", "user.*")
    assert json.loads(read_line(process.stdout))["id"] == id
    for n in (1, 2):
        id = emit(home, n=n)
        got = json.loads(read_line(process.stdout))
        assert (got["id"], got["type"], got["data"]) == (id, "user.x", {"n": n})
    assert interrupt(process) == ""


def test_following_starts_a_hub(home):
    process = follow(home, "--after", "0", "--types", "hub.*")
    assert json.loads(read_line(process.stdout))["type"] == "hub.started"
    interrupt(process)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_following_goes_on_when_the_hub_is_restarted(home, end):
    first = emit(home, n=1)
    process = follow(home, "--after", "0", "--types", "user.*,stream.gap")
    assert json.loads(read_line(process.stdout))["id"] == first
    home.kill_hub(end)
    assert "went away" in read_line(process.stderr)
    second = emit(home, n=2)  # starts the next hub
    assert "is back" in read_line(process.stderr)
    seen = []
    while not seen or seen[-1].get("id") != second:
        seen.append(json.loads(read_line(process.stdout)))
        assert len(seen) < 5, seen
    ids = [e["id"] for e in seen if e["type"] == "user.x"]
    assert ids == [second], "each event exactly once"
    interrupt(process)


def test_a_refused_filter_ends_following_with_the_hub_s_words(home, hub):
    done = home.cli("events", "-f", "--after", "99999999999999999999")
    assert done.returncode == 2


def test_ctrl_c_is_heard_while_the_reader_does_not_read(home, hub):
    process = follow(home, "--after", "0", "--types", "user.*")
    emit(home, n=0)
    read_line(process.stdout)  # it follows; from now on nobody reads
    data = {"pad": "x" * 30000}
    for _ in range(8):
        emit(home, **data)

    def waiting_in_the_pipe():
        return struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"\0" * 4))[0]

    retry(lambda: waiting_in_the_pipe() > 60000)  # it is full: the command waits to write
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130


def test_api_stream_prints_events_one_a_line(home, hub):
    id = emit(home, n=1)
    process = home.popen("api", "GET", "/events?after=0&types=user.*", "--stream")
    assert json.loads(read_line(process.stdout))["id"] == id
    interrupt(process)


# ---- logs ----------------------------------------------------------------------------------

LINE = "2026-01-01T00:00:00.000Z info hub n={}\n"


def write_log(home, lines, mode="w"):
    home.log.parent.mkdir(parents=True, exist_ok=True)
    with open(home.log, mode) as f:
        f.write("".join(LINE.format(i) for i in lines))


def test_logs_reads_the_file_without_a_hub(home):
    missing = home.cli("logs")
    assert missing.returncode == 3 and str(home.log) in missing.stderr
    write_log(home, range(250))
    assert home.ok("logs").splitlines()[0].endswith("n=150")
    assert home.ok("logs", "-n", "3") == "".join(LINE.format(i) for i in (247, 248, 249))
    assert home.ok("logs", "-n", "0") == ""
    assert len(home.ok("logs", "-n", "9999").splitlines()) == 250
    rows = home.json("logs", "-n", "1")["lines"]
    assert rows == [{"ts": "2026-01-01T00:00:00.000Z", "level": "info", "component": "hub", "text": "n=249"}]


def test_a_log_of_many_windows_is_read_from_its_end(home):
    write_log(home, range(20000))
    assert home.ok("logs", "-n", "15000").splitlines()[0].endswith(" n=5000")


def test_logs_with_a_hub_has_the_shape_of_the_answer(home, hub):
    # a line may be logged in between, but not each time
    retry(lambda: home.ok("logs", "--json", "-n", "1000").encode() == home.http("GET", "/logs?limit=1000").body)
    assert "ready" in home.ok("logs")


def test_logs_follows_the_file_across_a_rotation(home):
    write_log(home, range(2))
    process = home.popen("logs", "-f", "-n", "1")
    assert read_line(process.stdout).endswith("n=1")
    write_log(home, [2], "a")
    assert read_line(process.stdout).endswith("n=2")
    home.log.rename(f"{home.log}.1")
    write_log(home, [3, 4])
    assert read_line(process.stdout).endswith("n=3")
    assert read_line(process.stdout).endswith("n=4")
    with open(home.log, "a") as f:
        f.write("half a ")
        f.flush()
        f.write("line\n")
    assert read_line(process.stdout) == "half a line"
    interrupt(process)


def test_logs_followed_as_json_are_the_log_events(home, hub):
    process = home.popen("logs", "-f", "--json")

    def seen():
        os.kill(hub.pid, signal.SIGHUP)  # reading the settings again is logged
        return select.select([process.stdout], [], [], 0)[0]

    retry(seen)
    event = json.loads(read_line(process.stdout))
    assert event["type"] == "log" and event["component"]
    interrupt(process)
