"""A file system that does not answer, such as a network mount whose server is gone: whoever asks about a path on it
waits, and nobody else.

The mount is real: FUSE with a server that never reads its requests. It lives in a mount namespace with the hub, and ends
with the process that made it; then everything that waits gets an error.
"""
import json
import os
import subprocess
import sys
import threading

import pytest

from bots import call
from conftest import BIN, DEADLINE, check_report, read_line, retry

MOUNTER = """
import ctypes, os, subprocess, sys
hub = subprocess.Popen(sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
open_ends = []
for path in map(str.strip, sys.stdin):
    try:
        open_ends.append(os.open("/dev/fuse", os.O_RDWR))
        options = f"fd={open_ends[-1]},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"dead", path.encode(), b"fuse", 6, options) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        print("covered", flush=True)
    except OSError as e:
        print("cannot mount:", e, flush=True)
for end in open_ends:
    os.close(end)
sys.exit(hub.wait())
"""


class Apart:
    """A hub in a mount namespace of its own, where directories can stop answering."""

    def __init__(self, home):
        self.home, self.threads = home, []
        apart = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
        self.process = subprocess.Popen([*apart, sys.executable, "-c", MOUNTER, BIN, "hub"], env=home.env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        home.running.append(self.process)
        if not read_line(self.process.stdout).startswith("ready "):
            self.process.stdin.close()
            err = self.process.stderr.read().decode()
            if "unshare" in err:
                pytest.skip("no namespaces of our own here: " + err)
            pytest.fail(err)

    def kill_mount(self, path):
        """From now on nothing on `path` answers."""
        path.mkdir(exist_ok=True)
        self.process.stdin.write(f"{path}\n".encode())
        said = read_line(self.process.stdout).strip()
        if said != "covered":
            pytest.skip("no FUSE mounts of our own here: " + said)
        return path

    def ask(self, method, path, body=None):
        """Ask and do not wait. Where the path lies on the mount the answer comes when it is gone."""
        raw = json.dumps(body).encode() if body is not None else b""
        thread = threading.Thread(target=self.home.http, daemon=True, args=(method, path, raw))
        thread.start()
        self.threads.append(thread)

    def healthy(self):
        """Does the hub answer others? DEADLINE passes first where it does not."""
        return self.home.http("GET", "/healthz").status == 200

    def close(self):
        self.process.stdin.close()  # whoever waits gets an error
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        self.home.cli("stop")
        err = self.process.stderr.read()
        check_report(err.decode(errors="replace"))
        assert self.process.wait() == 0, err


@pytest.fixture
def apart(home):
    apart = Apart(home)
    yield apart
    apart.close()


@pytest.fixture
def dead(apart, tmp_path):
    apart.path = apart.kill_mount(tmp_path / "dead")
    return apart


READS = ["/files?dir={p}", "/files/text?path={p}/x", "/env?path={p}", "/permission?path={p}", "/provider?path={p}",
         "/bots?working_dir={p}", "/runs?working_dir={p}", "/worktrees?repo={p}", "/skills?working_dir={p}",
         "/session-types?path={p}"]


def test_reading_on_a_dead_mount_stops_nobody_else(dead):
    for path in READS:
        dead.ask("GET", path.format(p=dead.path))
        assert dead.healthy(), path


WRITES = [("/files/watch", {"dirs": ["{p}"]}), ("/files/dir", {"path": "{p}/new"}),
          ("/files/move", {"path": "{p}/a", "to": "{p}/b"}), ("/plugin/add", {"path": "{p}/x.lua"}),
          ("/plugin/validate", {"path": "{p}/x.lua"}), ("/template/project/install", {"working_dir": "{p}"}),
          ("/open", {"working_dir": "{p}"}), ("/trust", {"path": "{p}"}), ("/session", {"working_dir": "{p}"}),
          ("/session", {"working_dir": "/", "writable": ["{p}/x"]}),
          ("/worktrees", {"repo": "{p}", "branch": "b"}), ("/pty", {"cmd": "/bin/true", "cwd": "{p}"}),
          ("/pty", {"cmd": "{p}/program"}),
          ("/bots/b/runs", {"prompt": "p", "working_dir": "{p}"}), ("/bots/import", {"path": "{p}"}), ("/env", {"type": "applied", "shell": "bash", "project": "{p}", "pid": 1})]


def test_a_dead_directory_in_the_path_of_an_engine_stops_nobody_else(dead, tmp_path):
    """When the session is made, and when a turn of it begins."""
    codex = tmp_path / "bin" / "codex"
    codex.parent.mkdir()
    codex.write_text("#!/bin/sh\nexit 1\n")
    codex.chmod(0o755)
    wish = {"working_dir": str(tmp_path), "engine": "codex"}
    s = call(dead.home, "POST", "/session", {**wish, "env": {"PATH": str(codex.parent)}}, 201)
    gone = {"PATH": f"{dead.path}:{codex.parent}"}
    dead.ask("POST", "/session", {**wish, "env": gone})
    assert dead.healthy()
    dead.ask("POST", f"/session/{s['id']}/message", {"text": "go", "env": gone})
    retry(lambda: call(dead.home, "GET", f"/session/{s['id']}")["state"] == "running")
    assert dead.healthy()
    assert dead.home.http("POST", f"/session/{s['id']}/interrupt").status == 200
    retry(lambda: call(dead.home, "GET", f"/session/{s['id']}")["state"] == "idle")


def test_a_dead_home_directory_does_not_stop_a_change_of_directory(home, tmp_path):
    """The mode that fits a directory depends on where the home directory is."""
    home.env["HOME"] = str(tmp_path / "away" / "me")
    (tmp_path / "away" / "me").mkdir(parents=True)
    apart = Apart(home)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    s = call(home, "POST", "/session", {"working_dir": str(tmp_path / "one"), "provider": "scripted"}, 201)
    assert s["sandbox"] == "workspace-write"
    apart.kill_mount(tmp_path / "away")
    apart.ask("PATCH", f"/session/{s['id']}", {"working_dir": str(tmp_path / "two")})
    assert all(apart.healthy() for _ in range(50))
    apart.close()


def test_acting_on_a_dead_mount_stops_nobody_else(dead):
    for path, body in WRITES:
        dead.ask("POST", path, json.loads(json.dumps(body).replace("{p}", str(dead.path))))
        assert dead.healthy(), path


TOOLS = [("read_file", {"path": "{p}/x"}), ("write_file", {"path": "{p}/x", "content": "c"}),
         ("edit_file", {"path": "{p}/x", "old": "a", "new": "b"}), ("list_files", {"path": "{p}"}),
         ("search_files", {"pattern": "x", "path": "{p}"}), ("shell", {"cmd": "true", "cwd": "{p}"}),
         ("shell", {"cmd": "ls {p}"})]


def test_a_tool_on_a_dead_mount_stops_nobody_else(dead, tmp_path):
    """Called by a model in a session that asks first, so that rules and offers look at the path as well."""
    scenario = tmp_path / "scenario.jsonl"
    s = call(dead.home, "POST", "/session", {
        "working_dir": str(tmp_path), "provider": "scripted", "permission": "ask",
        "env": {"AFLOAT_SCENARIO": str(scenario)}}, 201)
    for number, (tool, input) in enumerate(TOOLS):
        input = json.loads(json.dumps(input).replace("{p}", str(dead.path)))
        lines = [json.dumps({"text": "t", "tool_calls": [{"name": tool, "input": input}]})] * (number + 1)
        scenario.write_text("\n".join(lines) + "\n")
        dead.ask("POST", f"/session/{s['id']}/message", {"text": "go", "wait": True})

        def calls():
            page = call(dead.home, "GET", f"/session/{s['id']}/events?limit=200")
            return [e for e in page["events"] if e["type"] == "tool.called"]
        assert retry(lambda: len(calls()) == number + 1)
        assert dead.healthy(), tool
        assert dead.home.http("POST", f"/session/{s['id']}/interrupt").status == 200
        retry(lambda: call(dead.home, "GET", f"/session/{s['id']}")["state"] == "idle")


def writer(home, dir, scenario):
    """A session in `dir` whose model writes a file and says "done", and how to run a turn of it."""
    dir.mkdir(exist_ok=True)
    write = {"name": "write_file", "input": {"path": "made.txt", "content": "made"}}
    scenario.write_text(json.dumps({"text": "", "tool_calls": [write]}) + "\n" + json.dumps({"text": "done"}) + "\n")
    s = call(home, "POST", "/session", {"working_dir": str(dir), "provider": "scripted", "permission": "auto",
                                        "env": {"AFLOAT_SCENARIO": str(scenario)}}, 201)

    def run():
        done = call(home, "POST", f"/session/{s['id']}/message", {"text": "go", "wait": True})
        assert done["state"] == "completed" and (dir / "made.txt").exists(), done
        assert call(home, "GET", f"/session/{s['id']}")["state"] == "idle"
    return s["id"], run


def test_a_rewind_in_a_dead_directory_stops_no_other_session(apart, tmp_path):
    project = tmp_path / "project"
    id, run = writer(apart.home, project, tmp_path / "first.jsonl")
    run()
    apart.kill_mount(project)
    apart.ask("POST", f"/session/{id}/rewind", {})
    _, run = writer(apart.home, tmp_path / "other", tmp_path / "second.jsonl")
    run()


def test_a_session_whose_directory_dies_stops_nobody_else(apart, tmp_path):
    """A project with plugins, an environment and instructions, all of it known and watched when its mount dies."""
    project, home = tmp_path / "project", apart.home
    (project / ".afloat" / "plugins").mkdir(parents=True)
    (project / ".afloat" / "plugins" / "p.lua").write_text("on('on_begin', function() end)\n")
    (project / ".afloat" / "env.toml").write_text("[env]\nA = '1'\n")
    (project / "AGENTS.md").write_text("Be brief.\n")
    call(home, "POST", "/trust", {"path": str(project)})
    wish = {"working_dir": str(project), "provider": "scripted"}
    s = call(home, "POST", "/session", wish, 201)
    done = call(home, "POST", f"/session/{s['id']}/message", {"text": "list the files", "wait": True})
    assert done["state"] == "completed", done
    apart.kill_mount(project)
    for method, path, body in [
            ("POST", f"/session/{s['id']}/message", {"text": "list the files", "wait": True}),
            ("POST", "/session", wish), ("POST", "/reload", {}), ("POST", f"/session/{s['id']}/rewind", {"dry_run": True}),
            ("GET", f"/env?path={project}", None), ("PATCH", f"/session/{s['id']}", {"title": "t"}),
            ("DELETE", f"/trust?path={project}", None), ("GET", "/status", None), ("GET", "/plugin", None),
            ("POST", f"/session/{s['id']}/fork", {}), ("DELETE", f"/session/{s['id']}", None)]:
        apart.ask(method, path, body)
        assert apart.healthy(), path
        if path.endswith("/message"):
            _, run = writer(home, tmp_path / "other", tmp_path / "scenario.jsonl")
            run()
