"""Terminals: they run programs, are seen by several viewers, and outlive the hub."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import DEADLINE, Hub, is_gone, read_until, retry, wait_gone
from ptys import Terminal


@pytest.fixture
def ptys(home):
    """The home, without keepers afterwards."""
    yield home
    home.cli("stop", "--all")
    retry(lambda: not list((home.runtime / "pty").glob("*.sock")))


def new(home, *cmd, **more):
    body = {"cmd": cmd[0], "args": list(cmd[1:]), "cwd": "/", **more}
    answer = home.http("POST", "/pty", json.dumps(body).encode())
    assert answer.status == 201, answer.body
    row = answer.json()
    assert answer.headers["location"] == f"/pty/{row['id']}"
    return row


def rows(home):
    return home.http("GET", "/pty").json()["ptys"]


def screen(home, id):
    return home.http("GET", f"/pty/{id}/screen").json()["text"]


def test_a_program_runs_and_its_row_says_so(ptys, hub):
    row = new(ptys, "sh", "-c", "stty size; tty; echo $AFLOAT_PTY $TERM $AFLOAT_HOME; cat", rows=30, cols=100, name="x")
    assert row["state"] == "running" and row["name"] == "x" and row["pid"] > 1 and row["status"] is None
    t = Terminal(ptys, row["id"])
    assert t.status == 101
    t.until(str(ptys.dir).encode())
    shown = t.screen + t.output
    assert b"30 100" in shown and b"/dev/pts/" in shown and f"{row['id']} xterm-256color {ptys.dir}".encode() in shown
    assert ptys.http("GET", f"/pty/{row['id']}").json()["viewers"] == 1
    t.send("typed\r")
    t.until(b"typed\r\ntyped\r\n")
    assert "typed\ntyped\n" in screen(ptys, row["id"])
    assert ptys.http("POST", f"/pty/{row['id']}/input", b'{"text":"again\\r"}').status == 200
    t.until(b"again\r\nagain\r\n")


def test_an_environment_without_a_path_adds_to_the_usual_one(ptys, hub):
    t = Terminal(ptys, new(ptys, "sh", "-c", "echo $WORD$LANG $(basename $PATH/here); cat", env={"WORD": "said", "LANG": "C"})["id"])
    t.until(b"saidC here")
    path = os.environ["PATH"]
    t = Terminal(ptys, new(ptys, "sh", "-c", "env | sort; echo end; cat", env={"PATH": path})["id"])
    t.until(b"end\r\n")
    assert b"\nUSER=" not in t.screen + t.output and b"HOME=" not in (t.screen + t.output).replace(b"AFLOAT_HOME=", b"")


def test_a_prompt_is_typed_and_its_absence_is_no_fault(ptys, hub):
    new(ptys, "sh", "-c", "cat")
    row = new(ptys, "sh", "-c", "echo ready; cat", prompt="make tea")
    retry(lambda: screen(ptys, row["id"]).count("make tea\n") == 2)  # echoed, and printed by cat
    told = ptys.http("GET", "/events?after=0&limit=1000", headers=["Accept: application/json"]).json()["events"]
    assert [e for e in told if e["type"] == "plugin.error"] == []


def test_the_exit_status_comes_after_the_last_byte(ptys, hub):
    row = new(ptys, "sh", "-c", "read x; echo last words; exit 7")
    t = Terminal(ptys, row["id"])
    t.send("\r")
    t.until(lambda: t.exit is not None)
    assert t.exit == 7 and b"last words\r\n" in t.screen + t.output
    retry(lambda: ptys.http("GET", f"/pty/{row['id']}").json()["state"] == "ended")
    assert ptys.http("GET", f"/pty/{row['id']}").json()["status"] == 7
    late = Terminal(ptys, row["id"])  # it stays for 15 s
    late.until(lambda: late.exit is not None)
    assert b"last words" in late.screen


def test_what_cannot_run_is_refused_with_the_reason(ptys, hub):
    for body, why in (({"cmd": "no-such-program"}, "cannot run 'no-such-program'"),
                      ({"cmd": "sh", "cwd": "/no/such"}, "cannot enter '/no/such'"),
                      ({"cmd": "sh", "cwd": "relative"}, "absolute path"),
                      ({"cmd": "sh", "args": [1]}, "array of strings"),
                      ({"cmd": "sh", "env": {"A=B": "c"}}, "object of strings")):
        answer = ptys.http("POST", "/pty", json.dumps(body).encode())
        assert answer.status == 400 and why in answer.json()["detail"], answer.body
    assert rows(ptys) == []
    assert Terminal(ptys, "ffff").status == 404
    assert ptys.http("DELETE", "/pty/ffff").status == 404


def test_a_program_that_read_nothing_for_long_can_be_typed_to_again(ptys, hub, tmp_path):
    wait = "stty raw -echo; echo ready; while [ ! -e go ]; do sleep 0.05; done; exec cat > got"
    id = new(ptys, "sh", "-c", wait, cwd=str(tmp_path))["id"]

    def type(text):
        assert ptys.http("POST", f"/pty/{id}/input", json.dumps({"text": text}).encode()).status == 200

    def read(text):
        type(text)
        return text.encode() in (tmp_path / "got").read_bytes()
    retry(lambda: "ready" in screen(ptys, id))
    for _ in range(4):
        type("x" * 400_000)  # more than waits for a program
    (tmp_path / "go").touch()
    retry(lambda: (tmp_path / "got").exists() and read("the end"))


def test_delete_ends_every_process_of_the_terminal(ptys, hub):
    row = new(ptys, "bash", "-i", env={"PS1": "$ ", "PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    t = Terminal(ptys, row["id"])
    t.send("(trap '' HUP TERM; sleep 1000) & echo bg=$!\r")
    t.until(lambda: re.search(rb"bg=(\d+)", t.screen + t.output))
    background = int(re.search(rb"bg=(\d+)", t.screen + t.output)[1])
    t.send("sleep 2000\r")  # a foreground job has a group of its own
    assert ptys.http("DELETE", f"/pty/{row['id']}").json() == {"deleted": row["id"]}
    retry(lambda: is_gone(row["pid"]) and is_gone(background) and is_gone(row["keeper_pid"]))
    assert ptys.http("DELETE", f"/pty/{row['id']}").status == 404
    assert rows(ptys) == []


class Events:
    """The hub's stream of these types, from now on."""

    def __init__(self, home, types):
        self.socket = home.connect()
        self.socket.sendall(f"GET /events?types={types} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        self.raw = b""
        while b"\r\n\r\n" not in self.raw:
            self.raw += self.socket.recv(65536)

    def next_any(self):
        while True:
            found = re.search(rb"data: ([^\n]*)\n\n", self.raw)
            if found is not None:
                self.raw = self.raw[found.end():]
                return json.loads(found[1])
            self.raw += self.socket.recv(65536)

    def next(self, type):
        while True:
            event = self.next_any()
            if event["type"] == type:
                return event


def test_events_tell_of_terminals(ptys, hub):
    events = Events(ptys, "pty.*")
    row = new(ptys, "sh", "-c", r"read x; printf '\033]2;a title\007\a\033]777;notify;CI;red\007'; read x; exit 3")
    assert events.next("pty.opened")["pty"]["pid"] == row["pid"]
    t = Terminal(ptys, row["id"])
    t.send("\r")
    assert events.next("pty.bell")["pty"]["cmd"] == "sh"
    assert events.next("pty.notified")["notification"] == {"title": "CI", "body": "red"}
    assert events.next("pty.updated")["pty"]["title"] == "a title"
    t.send("\r")
    assert events.next("pty.closed")["pty"]["status"] == 3
    ptys.http("DELETE", f"/pty/{row['id']}")
    assert events.next("pty.removed")["pty"]["id"] == row["id"]
    assert ptys.http("GET", "/pty").json()["ptys"] == []


def test_what_a_program_says_before_the_hub_listens_is_told_later(ptys):
    hub = Hub(ptys)
    row = new(ptys, "sh", "-c", r"read x; printf '\033]9;while away\007\a'; echo done; read x")
    terminal = Terminal(ptys, row["id"])
    terminal.until(lambda: terminal.screen)
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.communicate()
    process, seen = ptys.on_terminal("pty", "attach", row["id"])
    seen.write(b"\r")
    read_until(seen, rb"done")
    seen.write(b"\x1c\x1c")
    process.wait(DEADLINE)
    hub = Hub(ptys)
    told = retry(lambda: [e for e in ptys.http("GET", "/events?types=pty.*", headers=["Accept: application/json"])
                          .json()["events"] if e["type"] in ("pty.notified", "pty.bell")])
    retry(lambda: {e["type"] for e in ptys.http("GET", "/events?types=pty.*", headers=["Accept: application/json"])
                   .json()["events"]} >= {"pty.notified", "pty.bell"})
    assert told[0]["notification"] == {"title": "", "body": "while away"}
    hub.close()


# ---- trap T15: titles at every prompt ---------------------------------------------------------

def test_a_title_at_every_prompt_is_told_twice_a_second_at_most(ptys, hub):
    row = new(ptys, "sh", "-c", r"read x; i=0; while [ $i -lt 300 ]; do i=$((i+1)); printf '\033]2;t%d\007' $i; "
                                "done; echo done; read x; exit 0")
    events = Events(ptys, "pty.*")
    t = Terminal(ptys, row["id"])
    begin = time.monotonic()
    t.send("\r")
    t.until(b"done")
    retry(lambda: ptys.http("GET", f"/pty/{row['id']}").json()["title"] == "t300")
    t.send("\r")
    seen = until_closed(events)
    assert 1 <= seen.count("pty.updated") <= most_in(begin), seen


def until_closed(events):
    """The types of all events up to the end of the program."""
    seen = []
    while not seen or seen[-1] != "pty.closed":
        seen.append(events.next_any()["type"])
    return seen


def most_in(begin, each=1):
    """How many of a kind may have been told since then: `each` in half a second, and its end may tell of more."""
    return each * (2 * (time.monotonic() - begin) + 3)


# ---- trap T9: bursts --------------------------------------------------------------------------

def test_a_thousand_bells_are_told_twice_a_second_at_most(ptys, hub):
    row = new(ptys, "sh", "-c", r"read x; i=0; while [ $i -lt 1000 ]; do i=$((i+1)); printf '\a'; "
                                r"printf '\033]9;n%d\007' $i; done; echo done; read x; exit 0")
    events = Events(ptys, "pty.*")
    t = Terminal(ptys, row["id"])
    begin = time.monotonic()
    t.send("\r")
    t.until(b"done")
    t.send("\r")
    seen = until_closed(events)
    assert 1 <= seen.count("pty.bell") <= most_in(begin), seen.count("pty.bell")
    assert 1 <= seen.count("pty.notified") <= most_in(begin, 4), seen.count("pty.notified")


# ---- trap T13: one that floods starves nobody -------------------------------------------------

def test_a_terminal_that_floods_delays_neither_hub_nor_other_terminals(ptys, hub):
    flood = new(ptys, "sh", "-c", "yes 'a line that never ends'")
    other = new(ptys, "cat")
    viewer = Terminal(ptys, flood["id"])
    viewer.until(lambda: len(viewer.output) > 100000)
    t = Terminal(ptys, other["id"])
    t.until(lambda: t.screen)
    for i in range(10):
        begin = time.monotonic()
        t.send(f"echo{i}\r")
        t.until(f"echo{i}\r\necho{i}\r\n".encode())
        assert ptys.http("GET", "/healthz").status == 200
        assert time.monotonic() - begin < 5
    assert ptys.http("DELETE", f"/pty/{flood['id']}").status == 200


# ---- trap T18: connections do not mix ---------------------------------------------------------

def test_viewers_that_come_and_go_leave_nothing_behind(ptys, hub):
    row = new(ptys, "cat")
    for i in range(30):
        t = Terminal(ptys, row["id"])
        if i % 2:
            t.until(lambda: t.screen)
        t.close()
    t = Terminal(ptys, row["id"])
    t.until(lambda: t.screen)
    t.send("once\r")
    t.until(b"once\r\nonce\r\n")
    assert (t.screen + t.output).count(b"once") == 2
    retry(lambda: ptys.http("GET", f"/pty/{row['id']}").json()["viewers"] == 1)


# ---- viewers ----------------------------------------------------------------------------------

def test_the_smallest_viewer_gives_the_size(ptys, hub):
    row = new(ptys, "sh", "-c", "trap 'stty size' WINCH; echo up; while :; do read x; done", rows=24, cols=80)
    a, b = Terminal(ptys, row["id"]), Terminal(ptys, row["id"])
    a.resize(40, 120)
    a.until(lambda: (40, 120) in a.sizes)
    b.resize(20, 140)
    a.until(lambda: (20, 120) in a.sizes)
    b.close()
    a.until(lambda: a.sizes[-1] == (40, 120))
    retry(lambda: ptys.http("GET", f"/pty/{row['id']}").json()["rows"] == 40)


def test_two_viewers_see_the_same_and_questions_reach_neither(ptys, hub):
    row = new(ptys, "sh", "-c", r"read x; printf 'a\033[c\033[6n\033]52;c;aGk=\007\033[21tb'; read x")
    a, b = Terminal(ptys, row["id"]), Terminal(ptys, row["id"])
    a.until(lambda: a.screen)
    b.until(lambda: b.screen)
    a.send("\r")
    a.until(b"ab")
    b.until(b"ab")
    assert a.output == b.output
    for forbidden in (b"\033[c", b"\033[6n", b"]52", b"\033[21t"):
        assert forbidden not in a.output


def test_a_foreign_page_cannot_open_a_terminal(ptys, start_hub):
    hub = start_hub("--listen", "127.0.0.1:0")
    address = re.search(r"http=(\S+)", hub.ready)[1]
    host, port = address.rsplit(":", 1)
    token = (ptys.dir / "token").read_text().strip()
    row = new(ptys, "sleep", "100")

    def tcp():
        return socket.create_connection((host, int(port)), timeout=DEADLINE)

    ours = f"Host: {address}"

    def status(headers, method="GET", version="1.1"):
        with tcp() as s:
            lines = [f"{method} /pty/{row['id']} HTTP/{version}", ours, "Connection: Upgrade", "Upgrade: websocket",
                     "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13", *headers]
            s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            return int(s.recv(4096).split()[1])

    assert status([]) == 401
    assert status(["Authorization: Bearer wrong"]) == 401
    assert status([f"Authorization: Bearer {token}", "Origin: http://evil.example"]) == 403
    assert status([f"Authorization: Bearer {token}"]) == 101
    assert status([f"Authorization: Bearer {token}", f"Origin: http://{address}"]) == 101
    assert status([f"Authorization: Bearer {token}"], method="HEAD") == 200, "it has no body, so nothing can follow"
    assert status([f"Authorization: Bearer {token}"], version="1.0") == 200


# ---- the hub goes, the terminal stays ---------------------------------------------------------

COUNTER = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.002; done"


def test_five_busy_terminals_continue_byte_for_byte_after_a_killed_hub(ptys):
    hub = Hub(ptys)
    made = [new(ptys, "sh", "-c", COUNTER) for _ in range(5)]
    before = [Terminal(ptys, row["id"], offset=0) for row in made]
    for t in before:
        t.until(b"line 20\r\n")
    os.kill(hub.pid, signal.SIGKILL)
    hub.process.communicate()
    for t in before:  # what was on its way
        try:
            while t.step():
                pass
        except ConnectionError:
            pass
    hub = Hub(ptys)
    assert {r["id"] for r in retry(lambda: len(rows(ptys)) == 5 and rows(ptys))} == {r["id"] for r in made}
    for row, old in zip(made, before):
        t = Terminal(ptys, row["id"], offset=old.offset)
        t.until(lambda: len(t.output) > 2000)
        assert t.screen == b""  # no snapshot: it continued
        numbers = [int(n) for n in re.findall(rb"line (\d+)\r\n", old.output + t.output)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert is_gone(row["pid"]) is False
    for row in made:
        assert ptys.http("DELETE", f"/pty/{row['id']}").status == 200
    hub.close()


def test_an_offset_that_is_gone_begins_with_a_snapshot(ptys, hub):
    row = new(ptys, "sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo end; read x")
    retry(lambda: "end" in screen(ptys, row["id"]))
    t = Terminal(ptys, row["id"], offset=5)
    t.until(b"end")
    assert t.screen and t.offset > 1000000


def test_stop_leaves_terminals_and_stop_all_ends_them(ptys):
    ptys.ok("start")
    row = new(ptys, "sleep", "1000")
    ptys.ok("stop")
    assert not is_gone(row["pid"])
    assert [r["id"] for r in ptys.json("pty", "list")["ptys"]] == [row["id"]]
    done = ptys.cli("stop", "--all")
    assert "1 terminal ended" in done.stderr
    retry(lambda: is_gone(row["pid"]) and is_gone(row["keeper_pid"]))


def test_the_first_question_to_a_new_hub_knows_the_terminals(ptys):
    hub = Hub(ptys)
    made = [new(ptys, "sleep", "1000")["id"] for _ in range(3)]
    for _ in range(5):
        hub.close()
        hub = Hub(ptys)
        assert [Terminal(ptys, id).status for id in made] == [101] * 3
        assert [r["id"] for r in rows(ptys)] == made[::-1]  # newest first
    hub.close()


def test_a_terminal_that_lost_hub_and_socket_ends(ptys):
    (ptys.dir / "config.toml").write_text("[pty]\nabandon_s = 1\n")
    hub = Hub(ptys)
    row = new(ptys, "sleep", "1000")
    (ptys.runtime / "pty" / f"{row['id']}.sock").unlink()
    hub.close()
    retry(lambda: is_gone(row["pid"]) and is_gone(row["keeper_pid"]))


def test_an_idle_keeper_does_not_wake_up(ptys, hub):
    row = new(ptys, "sleep", "1000")

    def switches():
        text = pathlib.Path(f"/proc/{row['keeper_pid']}/status").read_text()
        return int(re.search(r"voluntary_ctxt_switches:\s*(\d+)", text)[1])

    def quiet_second():
        before = switches()
        threading.Event().wait(1)
        return switches() == before
    retry(quiet_second)


def test_the_keepers_socket_is_for_this_user_only(ptys, hub):
    row = new(ptys, "sleep", "1000")
    path = ptys.runtime / "pty" / f"{row['id']}.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


# ---- the command line -------------------------------------------------------------------------

def test_attach_shows_types_and_detaches_with_ctrl_backslash_twice(ptys, hub):
    id = ptys.ok("pty", "new", "--detach", "--name", "n", "--", "bash", "--norc").strip()
    attach, terminal = ptys.on_terminal("pty", "attach", id[:4], rows=15, cols=60)
    retry(lambda: (rows(ptys)[0]["rows"], rows(ptys)[0]["cols"]) == (15, 60))
    terminal.write(b"echo one-$((1+1)); stty size\r")
    read_until(terminal, rb"one-2.*15 60")
    terminal.write(b"\x1c\x1c")
    read_until(terminal, rb"detached; return with 'afloat pty attach " + id.encode())
    assert attach.wait(DEADLINE) == 0
    again, terminal = ptys.on_terminal("pty", "attach", id)
    read_until(terminal, rb"one-2")  # the screen is there again
    terminal.write(b"exit 5\r")
    read_until(terminal, rb"ended with status 5")
    assert again.wait(DEADLINE) == 5


def test_what_a_program_switched_on_is_off_after_detaching(ptys, hub):
    modes = [b"4", b"?5", b"?1004", b"?1000", b"?1006", b"?2004"]
    on = "".join(f"\\033[{mode.decode()}h" for mode in modes)
    attach, terminal = ptys.on_terminal("pty", "new", "--", "sh", "-c", f"printf '{on}\\033[5 q\\033)0'; echo up; cat")
    read_until(terminal, rb"up")
    terminal.write(b"\x1c\x1c")
    seen = read_until(terminal, rb"detached; return")
    assert attach.wait(DEADLINE) == 0
    assert [mode for mode in modes if b"\x1b[" + mode + b"l" not in seen] == []
    assert b"\x1b[0 q" in seen  # the cursor's shape


def test_new_on_a_terminal_attaches_and_returns_the_status(ptys, hub):
    process, terminal = ptys.on_terminal("pty", "new", "--", "sh", "-c", "echo here; exit 4")
    read_until(terminal, rb"here.*ended with status 4")
    assert process.wait(DEADLINE) == 4


def test_list_and_kill(ptys, hub):
    assert "no terminals" in ptys.cli("pty").stderr
    id = ptys.ok("pty", "new", "--detach", "--name", "dev", "--", "sleep", "1000").strip()
    line = ptys.ok("pty", "list")
    assert id in line and "dev" in line and "sleep 1000" in line
    assert "ended" in ptys.cli("pty", "kill", id[:5]).stderr
    assert ptys.cli("pty", "kill", id).returncode == 3
    assert ptys.cli("pty", "attach", id).returncode == 3


def test_a_worktree_of_its_own(ptys, hub, tmp_path):
    def git(*args):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *args], check=True,
                       capture_output=True)
    git("init", "-q", "-b", "main")
    (tmp_path / "f").write_text("x")
    git("add", ".")
    git("commit", "-qm", "one")
    id = ptys.ok("pty", "new", "--detach", "--worktree", "--cwd", str(tmp_path), "--", "sh", "-c",
                 "pwd; git branch --show-current; echo $AFLOAT_BRANCH; read x").strip()
    row = ptys.http("GET", f"/pty/{id}").json()
    assert row["branch"] == f"afloat/pty-{id}" and row["worktree"] != str(tmp_path)
    retry(lambda: screen(ptys, id).count(row["branch"]) == 2)
    assert (pathlib.Path(row["worktree"]) / "f").read_text() == "x"


def test_lua_starts_reads_and_ends_terminals(ptys):
    (ptys.dir / "plugins").mkdir()
    (ptys.dir / "plugins" / "terms.lua").write_text("""
route("GET", "/go", function()
  local t, why = pty.new { cmd = "sh", args = { "-c", "read x; echo got $x; read y" }, cwd = "/" }
  if not t then return { why = why } end
  pty.input { id = t.id, text = "lua\\r" }
  local text = ""
  for _ = 1, 500 do
    text = pty.screen { id = t.id }.text
    if text:find("got lua", 1, true) then break end
    timer.sleep(0.01)
  end
  local n = #pty.list().ptys
  return { text = text, n = n, killed = pty.kill { id = t.id }.deleted == t.id, left = #pty.list().ptys }
end)
""")
    hub = Hub(ptys)
    answer = ptys.http("GET", "/api/plugins/terms/go").json()
    assert "got lua" in answer.get("text", ""), answer
    assert (answer["n"], answer["killed"], answer["left"]) == (1, True, 0)
    hub.close()


# ---- real programs ----------------------------------------------------------------------------

def test_real_vim_less_and_top_draw_and_are_redrawn(ptys, hub, tmp_path):
    text = tmp_path / "text"
    text.write_text("".join(f"line {i} of the file\n" for i in range(1, 200)))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def start(*cmd):
        return new(ptys, *cmd, cwd=str(tmp_path), env=env, rows=20, cols=70)["id"]

    vim = start("vim", "-u", "NONE", "-N", str(text))
    retry(lambda: "line 1 of the file\nline 2 of the file" in screen(ptys, vim))
    t = Terminal(ptys, vim)
    t.until(lambda: t.screen)
    t.send("Gohello from vim\x1b")
    retry(lambda: "hello from vim" in screen(ptys, vim))
    late = Terminal(ptys, vim)
    late.until(lambda: late.screen)
    assert b"hello from vim" in late.screen and b"\x1b[?1049h" in late.screen
    t.send(":wq\r")
    t.until(lambda: t.exit is not None)
    assert t.exit == 0 and text.read_text().endswith("hello from vim\n")
    less = start("less", str(text))
    retry(lambda: "line 1 of the file" in screen(ptys, less))
    ptys.http("POST", f"/pty/{less}/input", b'{"text":"G"}')
    retry(lambda: "hello from vim" in screen(ptys, less) and "(END)" in screen(ptys, less))
    top = start("top")
    retry(lambda: "PID" in screen(ptys, top) and "load average" in screen(ptys, top))
