"""The environment of a project in the agent's sessions there: who gets it, when it follows an edit, who may
not have it, what it costs those who have none."""
import json
import os
import select
import signal
import subprocess

import pytest

from conftest import BIN, DEADLINE, retry
from test_agent import Session, call, one_call
from test_env import save


class Project:
    def __init__(self, home, dir, text):
        self.home = home
        self.dir = dir
        self.toml = dir / ".afloat/env.toml"
        self.toml.parent.mkdir(parents=True)
        self.toml.write_text(text)

    def allow(self, *flags):
        self.home.ok("env", "allow", *flags, str(self.dir))
        return self

    def session(self, *commands, dir=None, **more):
        """A session whose model runs one of `commands` in each turn."""
        steps = [step for c in commands for step in (one_call(cmd=c), {"text": "done"})]
        s = Session(self.home, dir or self.dir, steps, **more)
        s.scenario = max(s.dir.glob("scenario-*"), key=lambda path: path.stat().st_mtime_ns)
        return s


@pytest.fixture
def project(home, tmp_path):
    def make(text, name="p"):
        return Project(home, tmp_path / name, text)
    return make


def says(s, **message):
    """Run a turn; what its command printed."""
    before = len(s.events("tool.completed"))
    assert s.ask(**message)["state"] == "completed"
    done = s.events("tool.completed")
    assert len(done) == before + 1
    return done[-1]["output"].strip()


def bring(s, **env):
    """As a client does who comes back: with the environment that it has now."""
    s.call("PATCH", "", {"env": {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
                                 "AFLOAT_SCENARIO": str(s.scenario), **env}})


def watched(hub):
    """How many places of files the hub watches."""
    n = 0
    for fd in os.listdir(f"/proc/{hub.pid}/fd"):
        try:
            if "inotify" in os.readlink(f"/proc/{hub.pid}/fd/{fd}"):
                with open(f"/proc/{hub.pid}/fdinfo/{fd}") as info:
                    n += sum(line.startswith("inotify") for line in info)
        except OSError:
            pass
    return n


def watched_at_rest(hub):
    """The same for a hub that has just started: threads make its first watches, some of them after it is ready."""
    seen = [-1]

    def rests():
        select.select([], [], [], 0.2)
        seen.append(watched(hub))
        return seen[-1] == seen[-2]
    retry(rests)
    return seen[-1]


def running(text):
    """Processes with `text` in their command line; a pid that one of them tells is that of its box."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                found += [pid] if text.encode() in f.read() else []
        except OSError:
            pass
    return found


SHOW = 'echo "$FOO|$PATH|${GONE-none}"'


def test_a_session_has_the_environment_of_its_directory(home, hub, project):
    p = project('[env]\nFOO = "bar"\nAT = "${OUTER}/x"\n[path]\nprepend = ["bin"]\n[unset]\nnames = ["GONE"]\n').allow()
    below = p.dir / "below"
    below.mkdir()
    s = p.session('echo "$FOO|$PATH|${GONE-none}|$AT"', dir=below, env={"PATH": "/usr/bin:/bin", "GONE": "x", "OUTER": "o", "FOO": "mine"})
    assert says(s) == f"bar|{p.dir}/bin:/usr/bin:/bin|none|o/x"
    told = s.events("env.applied")
    assert len(told) == 1, told
    assert told[0]["session"] == s.id and told[0]["project"] == str(p.dir) and told[0]["generation"] == 1
    assert told[0]["added"] == ["AT"] and told[0]["changed"] == ["FOO", "PATH"] and told[0]["removed"] == ["GONE"]
    types = [e["type"] for e in s.events()]
    assert types.index("env.applied") < types.index("tool.completed")


def test_an_edit_is_in_the_next_command_and_told(home, hub, project):
    p = project('[env]\nFOO = "1"\nGONE = "soon"\n').allow("--follow")
    s = p.session(SHOW, SHOW, SHOW, env={"PATH": "/bin"})
    assert says(s) == "1|/bin|soon"
    save(p.toml, '[env]\nFOO = "2"\nNEW = "n"\n')
    told = s.wait_for("env.applied", generation=2)  # though nothing runs
    assert (told["added"], told["changed"], told["removed"]) == (["NEW"], ["FOO"], ["GONE"])
    assert told["changed_files"] == [".afloat/env.toml"]
    assert says(s) == "2|/bin|none"
    p.toml.unlink()  # all is as it was
    told = s.wait_for("env.applied", generation=3)
    assert told["removed"] == ["FOO", "NEW"]
    assert says(s) == "|/bin|none"


def test_a_command_right_behind_a_save_does_not_miss_it(home, hub, project):
    p = project('[env]\nFOO = "0"\n').allow("--follow")
    s = p.session(*[f"cat marker; echo $FOO" for _ in range(6)])
    (p.dir / "marker").write_text("")
    assert says(s) == "0"
    for n in range(1, 6):
        save(p.toml, f'[env]\nFOO = "{n}"\n')
        assert says(s) == str(n)


def test_what_is_not_trusted_is_not_applied_and_said_once(home, hub, project):
    p = project('[env]\nFOO = "bar"\n')
    s = p.session(SHOW, SHOW, SHOW, SHOW, env={"PATH": "/bin"})
    assert says(s) == "|/bin|none"
    said = s.events("env.failed")
    assert len(said) == 1 and said[0]["session"] == s.id, said
    assert "'p' is not trusted" in said[0]["error"] and "afloat env allow" in said[0]["error"]
    save(p.toml, '[env]\nFOO = "other"\n')
    assert says(s) == "|/bin|none"
    assert len(s.events("env.failed")) == 1 and s.events("env.applied") == []
    p.allow()
    s.wait_for("env.applied", added=["FOO"])
    assert says(s) == "other|/bin|none"
    save(p.toml, '[env]\nFOO = "third"\n')  # not the bytes that were allowed
    assert says(s) == "other|/bin|none"
    assert len(s.events("env.failed")) == 2


def test_a_chat_says_that_the_environment_is_not_trusted(home, hub, project):
    p = project('[env]\nFOO = "bar"\n')
    (p.dir / "s.jsonl").write_text(json.dumps(one_call(cmd="echo x")) + '\n{"text": "done"}\n')
    env = {"AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(p.dir / "s.jsonl")}
    done = home.cli("chat", "go", cwd=p.dir, env=env)
    assert done.returncode == 0 and "done" in done.stdout, done
    assert done.stderr.count("'p' is not trusted: look at it, then type 'afloat env allow'") == 1, done.stderr


def test_a_failed_build_keeps_the_old_environment_and_says_why(home, hub, project):
    p = project('[env]\nFOO = "1"\n').allow("--follow")
    s = p.session(SHOW, SHOW, SHOW, env={"PATH": "/bin"})
    assert says(s) == "1|/bin|none"
    save(p.toml, '[env]\nFOO = 1\nFOO = 2\n')
    assert says(s) == "1|/bin|none"
    said = s.events("env.failed")
    assert len(said) == 1 and ".afloat/env.toml: line 3" in said[0]["error"], said
    save(p.toml, '[env]\nFOO = "3"\n')
    assert says(s) == "3|/bin|none"


def test_the_first_build_is_waited_for_and_its_provider_ends_with_the_session(home, hub, project):
    p = project('script = "env.sh"\n')
    gate, mark = p.dir / "gate", p.dir / "pid"
    os.mkfifo(gate)
    (p.dir / "env.sh").write_text(f'echo $$ > "{mark}"; read line < "{gate}"; export FOO=$line\n')
    p.allow()

    def begin(**env):
        """A session whose command waits for its provider."""
        s = p.session(SHOW, env={"PATH": "/usr/bin:/bin", **env})
        s.send()
        s.wait_for("tool.called")
        retry(lambda: mark.exists() and mark.read_text().strip())
        mark.unlink()
        assert s.events("tool.completed") == []
        return s

    s = begin()
    gate.write_text("built\n")
    s.wait_for("turn.completed")
    assert s.events("tool.completed")[0]["output"].startswith("built|")
    s = begin(OTHER="1")
    s.call("POST", "/interrupt")  # does not wait for it
    s.wait_for("turn.interrupted")
    gate.write_text("late\n")
    s.wait_for("env.applied")
    s = begin(OTHER="2")
    assert running(str(p.dir / "env.sh"))
    s.call("POST", "/interrupt")
    s.wait_for("turn.interrupted")
    s.call("DELETE")
    retry(lambda: not running(str(p.dir / "env.sh")))


def test_sessions_of_one_directory_share_one_build_and_one_watch(home, hub, project):
    p = project('script = "env.sh"\n')
    (p.dir / "env.sh").write_text(f'echo built >> "{p.dir}/builds"; export FOO=1\n')
    p.allow()
    none = watched_at_rest(hub)
    sessions = [p.session(SHOW, SHOW, env={"PATH": "/usr/bin:/bin", "SHLVL": str(i)}) for i in range(4)]
    assert [says(s).split("|")[0] for s in sessions] == ["1"] * 4
    assert (p.dir / "builds").read_text() == "built\n"
    assert watched(hub) > none
    for s in sessions[:3]:
        s.call("DELETE")
    assert says(sessions[3]).startswith("1|")
    sessions[3].call("DELETE")
    retry(lambda: watched(hub) <= none)  # the last one takes the watch along


def test_a_session_that_moves_takes_its_watch_along(home, hub, project, tmp_path):
    p = project('[env]\nFOO = "1"\n').allow()
    none = watched_at_rest(hub)
    s = p.session(SHOW, SHOW, env={"PATH": "/bin"})
    assert says(s).startswith("1|")
    assert watched(hub) > none
    (tmp_path / "elsewhere").mkdir()
    s.call("PATCH", "", {"working_dir": str(tmp_path / "elsewhere")})
    retry(lambda: watched(hub) <= none)  # though it runs nothing there
    assert says(s).startswith("|")


def test_settings_that_are_read_while_the_hub_stops_find_no_environments(home, project, start_hub):
    hub = start_hub()
    s = project('[env]\nFOO = "1"\n').allow().session(SHOW)
    assert says(s).startswith("1|")
    with home.connect() as busy:
        busy.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: 21\r\nExpect: 100-continue\r\n\r\n")
        assert busy.recv(4096).startswith(b"HTTP/1.1 100")  # the hub waits for the rest of it
        hub.process.send_signal(signal.SIGTERM)
        retry(lambda: not home.socket.exists())
        for n in range(1, 6):
            hub.process.send_signal(signal.SIGHUP)
            retry(lambda: hub.process.poll() is not None or home.log.read_text().count("reload=done") >= n)
        busy.sendall(b'{"type":"user.late"}\n')
        assert busy.recv(4096).startswith(b"HTTP/1.1 201")
    assert hub.process.wait(DEADLINE) == 0


def test_an_environment_belongs_to_the_client_who_brings_the_outer_one(home, project, start_hub):
    start_hub(env={"OUTER": "the hub's", "FOO": "the hub's"})
    p = project('[env]\nAT = "${OUTER}"\n').allow()
    cmd = 'echo "$AT|$FOO"'
    first = p.session(cmd, cmd, env={"OUTER": "one"})
    second = p.session(cmd, env={"OUTER": "two"})
    assert says(first) == "one|" and says(second) == "two|"
    bring(first, OUTER="three")
    assert says(first) == "three|"


def test_commands_have_the_environment_that_came_with_the_message(home, hub, project):
    p = project('[env]\nAT = "${OUTER}"\n').allow()
    s = p.session(*['echo "$AT|$OUTER|${GONE-none}"'] * 2, env={"OUTER": "one", "GONE": "soon"})
    assert says(s) == "one|one|soon"
    now = {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted", "AFLOAT_SCENARIO": str(s.scenario), "OUTER": "two"}
    assert says(s, env=now) == "two|two|none"


def test_what_a_person_changed_in_the_shell_of_the_project_stays(home, hub, project):
    p = project('[env]\nFOO = "1"\nBAR = "1"\n').allow("--follow")
    inside = {"PATH": "/bin", "FOO": "mine", "BAR": "1", "AFLOAT_PROJECT": str(p.dir), "AFLOAT_ENV_GENERATION": "3"}
    s = p.session('echo "$FOO|$BAR"', 'echo "$FOO|$BAR"', env=inside)
    assert says(s) == "mine|1"
    save(p.toml, '[env]\nFOO = "2"\nBAR = "2"\n')
    assert says(s) == "mine|2"


def test_tools_do_not_get_the_projects_secrets_either(home, hub, project):
    p = project('[env]\nFOO = "1"\nMY_TOKEN = "t"\n').allow()
    s = p.session('echo "$FOO|${MY_TOKEN-none}"')
    assert says(s) == "1|none"
    assert s.events("env.applied")[0]["added"] == ["FOO"]


def test_a_model_cannot_have_a_program_of_its_own_run_outside_its_box(home, hub, project):
    """`--follow` is a person's word for a person's edits."""
    p = project('script = "env.sh"\n')
    (p.dir / "env.sh").write_text("export FOO=good\n")
    p.allow("--follow")
    evil = f"touch {p.dir}/escaped; export FOO=bad"
    s = p.session('echo "$FOO"', f"echo '{evil}' > env.sh", 'echo "$FOO"', env={"PATH": os.environ["PATH"]})
    assert says(s) == "good"
    says(s)
    assert (p.dir / "env.sh").read_text() == "export FOO=good\n"  # read-only in the box
    (p.dir / "env.sh").write_text(evil + "\n")  # and by whatever way it came there
    assert says(s) == "good"
    assert "not trusted as its programs are now" in s.wait_for("env.failed")["error"]
    assert not (p.dir / "escaped").exists()
    # the person's own shell follows
    assert "FOO=bad" in subprocess.run([BIN, "env"], cwd=p.dir, env=home.env, capture_output=True, text=True).stdout


def test_what_a_trusted_script_sources_is_trusted_by_content(home, hub, project, tmp_path):
    p = project('script = "env.sh"\n')
    (p.dir / "lib.sh").write_text("export FOO=good\n")
    (p.dir / "env.sh").write_text(". ./lib.sh\n")
    p.allow()
    s = p.session('echo "$FOO"', f"echo 'touch {p.dir}/ran; export FOO=new' > lib.sh", 'echo "$FOO"',
                  env={"PATH": "/usr/bin:/bin"})
    assert says(s) == "good"
    says(s)
    assert says(s) == "good"
    assert "is not trusted" in s.wait_for("env.failed")["error"]
    assert not (p.dir / "ran").exists()


@pytest.mark.parametrize("way", ["found"])
def test_what_a_trusted_script_runs_stays_in_the_box_of_the_session(home, hub, project, tmp_path, way):
    """No hash says which bash a PATH of the project finds."""
    p = project('script = "env.sh"\n[path]\nprepend = ["bin"]\n')
    (p.dir / "lib.sh").write_text("export FOO=good\n")
    (p.dir / "env.sh").write_text(". ./lib.sh\n")
    p.allow()
    evil = f"touch {tmp_path}/escaped {p.dir}/ran {home.dir}/escaped; cat {home.dir}/trust.json > {p.dir}/read"
    write = {"found": f"mkdir bin; printf '#!/bin/sh\\n{evil}\\n' > bin/bash; chmod +x bin/bash"}[way]
    s = p.session('echo "$FOO"', write, env={"PATH": "/usr/bin:/bin"})
    assert says(s) == "good"
    says(s)
    p.session("true", env={"PATH": "/usr/bin:/bin", "OTHER": "1"}).ask()  # one more build
    assert (p.dir / "ran").exists()
    assert not (tmp_path / "escaped").exists() and not (home.dir / "escaped").exists()
    assert (p.dir / "read").read_text() == ""


def test_a_program_that_a_model_wrote_is_not_taken_for_nix(home, hub, project, tmp_path):
    p = project("")
    (p.dir / "flake.nix").write_text("{}")
    tools = tmp_path / "tools"
    tools.mkdir()
    answer = json.dumps({"variables": {"FOO": {"type": "exported", "value": "good"}}})
    (tools / "nix").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (tools / "nix").chmod(0o755)
    p.allow()
    path = f"{p.dir}/bin:{tools}:/usr/bin:/bin"
    write = f"mkdir bin; printf '#!/bin/sh\\ntouch {tmp_path}/escaped\\n' > bin/nix; chmod +x bin/nix"
    s = p.session('echo "$FOO|$PATH"', write, env={"PATH": path})
    assert says(s) == f"good|{path}"
    says(s)
    assert says(p.session("echo $FOO", env={"PATH": path, "OTHER": "1"})) == "good"
    assert not (tmp_path / "escaped").exists()


def test_a_session_without_a_project_costs_nothing(home, hub, tmp_path):
    before = watched_at_rest(hub)
    s = Session(home, tmp_path / "plain", [one_call(cmd="echo $HOME"), {"text": "x"}, one_call(cmd="echo $FOO"),
                                           {"text": "x"}], env={"HOME": "/h"})
    assert says(s) == "/h"
    assert watched(hub) == before
    assert s.events("env.applied", "env.failed") == []
    (tmp_path / "plain/.afloat").mkdir()  # one that comes later is found by the next command
    (tmp_path / "plain/.afloat/env.toml").write_text('[env]\nFOO = "late"\n')
    home.ok("env", "allow", str(tmp_path / "plain"))
    assert says(s) == "late"


def test_a_session_that_goes_on_after_a_restart_has_it_again(home, project, start_hub):
    first = start_hub()
    p = project('[env]\nFOO = "1"\n').allow()
    s = p.session("echo $FOO", "echo $FOO")
    assert says(s) == "1"
    first.close()
    start_hub()
    bring(s)
    assert says(s) == "1"


def test_the_stream_of_the_hub_tells_of_builds_and_of_sessions(home, hub, project):
    p = project('[env]\nFOO = "1"\n').allow()
    with home.connect() as stream:
        stream.sendall(b"GET /events?types=env.* HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n\r\n")
        s = p.session(SHOW)
        text = b""
        while b'"removed":' not in text:
            text += stream.recv(65536)
            assert text.count(b"\n:") < 3, text  # nothing but signs of life
    text = text.decode()
    assert text.index("event: env.building") < text.index("event: env.ready") < text.index("event: env.applied")
    assert f'"session":"{s.id}"' in text.split("event: env.applied")[1]
    assert call(home, "DELETE", f"/session/{s.id}")
