"""What `afloat shell` and `afloat hook` say about their environment, and what they do when something is in the way."""
import json
import os
import re
import signal
import subprocess

import pytest

import test_env
from conftest import BIN, retry
from test_env import helper_pid, place as hooked  # noqa: F401
from test_shell import PROMPT, SHELLS, ask, place, shell  # noqa: F401


def can_unshare():
    return subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_unshare(), reason="no user namespaces")

# ---- states at the prompt ----------------------------------------------------------------------


def test_building_and_reloaded_are_one_line_each_at_the_prompt(place, shell):
    place.write('script = "env.sh"\n[env]\nFOO = "one"\n')
    place.write("while [ -e hold ]; do sleep 0.05; done\n", "env.sh")
    place.trust()
    t = place.enter(shell=shell)
    (place.project / "hold").touch()
    place.write('script = "env.sh"\n[env]\nFOO = "two"\n')
    retry(lambda: place.ctl("status")["state"] == "building")
    t.send("\r")
    t.expect(rb"afloat: building  env.toml  \(press Ctrl-Alt-R to reload\)\r\n")
    t.expect(PROMPT)
    (place.project / "hold").unlink()
    retry(lambda: place.ctl("status")["generation"] == 2)
    t.send("\r")
    t.expect(rb"afloat: reloaded  env.toml  in [0-9.]+ m?s\r\n")  # nothing is left to press
    t.expect(PROMPT)
    assert ask(t, "printenv FOO") == "two"
    assert place.end(t) == 0
    assert t.seen.count(b"afloat: building") == t.seen.count(b"afloat: reloaded") == 1


def test_what_failed_is_tried_again_by_the_key(place, shell):
    """No input has changed: only the user knows that it may succeed now."""
    place.write('script = "env.sh"\n')
    place.write('test -e there || { echo "not there" >&2; exit 1; }; export FOO=one\n', "env.sh")
    (place.project / "there").touch()
    place.trust()
    t = place.enter(shell=shell)
    (place.project / "there").unlink()
    place.write('test -e there || { echo "not there" >&2; exit 1; }; export FOO=two\n', "env.sh")
    retry(lambda: place.ctl("status")["state"] == "failed")
    t.send("\r")
    t.expect(rb"'afloat env error' says why  \(press Ctrl-Alt-R to try again\)\r\n")
    assert ask(t, "printenv FOO") == "one"
    t.expect(PROMPT)
    (place.project / "there").touch()
    t.send(b"\x1b\x12")
    assert retry(lambda: ask(t, "printenv FOO") == "two")
    assert place.end(t) == 0


def test_a_build_that_writes_its_own_input_is_named(place):
    place.write('script = "env.sh"\nwatch = ["made"]\n')
    place.write("date +%s%N > made; export FOO=1\n", "env.sh")
    place.trust()
    t = place.enter()
    def said():
        ask(t, "true")
        return b"it seems that the build itself writes 'made'" in t.seen
    assert retry(said)
    assert ask(t, "printenv FOO") == "1"
    assert place.end(t) == 0


@pytest.mark.parametrize("args, config", [(["--status", "none"], ""), (["--quiet"], ""),
                                          ([], '[shell]\nstatus = "none"\n')])
def test_states_are_not_shown_when_so_wanted(place, args, config):
    place.home.dir.mkdir(parents=True, exist_ok=True)
    (place.home.dir / "config.toml").write_text(config)
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter(*args)
    place.rebuild('[env]\nFOO = "two"\n')
    assert ask(t, "printenv FOO") == "two"
    t.send("\r")
    t.expect(PROMPT)
    assert place.end(t) == 0
    assert b"building" not in t.seen and b"reloaded" not in t.seen


def test_no_color_holds_for_the_row(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter("--status", "row", rows=24, cols=80, env={"NO_COLOR": "1"})
    place.write("[env\n")
    t.expect(rb"\x1b\[m failed")
    assert place.end(t) == 0
    assert not re.search(rb"\x1b\[[0-9;]*4[0-7]m", t.seen)


@pytest.mark.parametrize("save", ["\\0337", "\\033[s"])
def test_a_cursor_that_is_saved_for_good_does_not_take_the_row(place, save):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    t = place.enter("--status", "row", rows=24, cols=80)
    ask(t, f"printf '{save}'")
    place.write("[env\n")
    t.expect(rb"\x1b\[97;41m failed")
    assert place.end(t) == 0


# ---- errors in full ----------------------------------------------------------------------------


def test_env_error_is_the_whole_text(place):
    place.write('script = "env.sh"\n')
    place.write('for i in $(seq 2000); do echo "line $i of the error" >&2; done; exit 1\n', "env.sh")
    place.trust()
    t = place.enter()
    text = place.ctl("error")["error"]
    assert "line 1 of the error\n" in text and "line 2000 of the error\n" in text
    assert place.end(t) == 0


# ---- things in the way -------------------------------------------------------------------------


@needs_namespaces
def test_a_full_disk_is_said_and_tried_again(place):
    runtime = place.user.parent / "small"
    runtime.mkdir(mode=0o700)
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    place.home.env["AFLOAT_RUNTIME"] = str(runtime)
    script = f'mount -t tmpfs -o size=256k,mode=700 tmpfs {runtime}; exec "{BIN}" shell'
    t = place.start_argv("unshare", "-Urm", "sh", "-c", script)
    t.expect(PROMPT)
    ask(t, f"cat /dev/zero > {runtime}/fill 2>/dev/null")
    place.write('[env]\nFOO = "two"\nBIG = "%s"\n' % ("y" * 20000))
    t.expect(PROMPT)
    def said():
        t.send("\r")
        t.expect(PROMPT)
        return b"the environment failed" in t.seen
    assert retry(said)
    assert "No space left" in ask(t, f'"{BIN}" env error')
    assert ask(t, "printenv FOO") == "one"
    ask(t, f"rm {runtime}/fill")
    assert retry(lambda: ask(t, "printenv FOO") == "two")
    assert ask(t, f'"{BIN}" env error') == ""
    t.send("exit\r")
    assert t.process.wait(60) == 0


@needs_namespaces
def test_degraded_watching_is_said(place):
    place.write('[env]\nFOO = "one"\n')
    place.trust()
    script = f'echo 0 > /proc/sys/user/max_inotify_watches; exec "{BIN}" shell'
    t = place.start_argv("unshare", "-Ur", "sh", "-c", script)
    t.expect(PROMPT)
    def said():
        ask(t, "true")
        return re.search(rb"afloat: [^\r]*inotify[^\r]*\r\n", t.seen)
    assert retry(said)
    assert "polling" in place.ctl("status")["watching"]
    place.write('[env]\nFOO = "two"\n')
    assert retry(lambda: ask(t, "printenv FOO") == "two")
    assert place.end(t) == 0


@pytest.mark.parametrize("kind", SHELLS)
def test_a_process_beside_the_shell_that_is_killed_is_started_again(hooked, kind):
    one = hooked.project("one", '[env]\nFOO = "1"\nOLD = "x"\n')
    s = hooked.start(kind)
    s.type(f"cd {one}")
    s.wait("FOO", "1")
    [left] = hooked.helpers()
    os.kill(retry(lambda: helper_pid(left)), signal.SIGKILL)
    test_env.save(one / ".afloat/env.toml", '[env]\nFOO = "2"\n')
    s.wait("FOO", "2")
    assert s.get("OLD") == ""
    assert b"the process beside this shell is gone" in s.t.seen
    s.type("cd /")
    assert s.get("FOO") == ""  # what was there before both of them


# ---- tasks in a running shell --------------------------------------------------------------------


def test_env_task_in_a_shell_shows_its_output_and_applies_its_exports(place, shell):
    place.write('[[task]]\nname = "t"\nrun = "echo pri''nted; echo MADE=$N >> $AFLOAT_TASK_EXPORTS_FILE"\nenv = { N = "1" }\n'
                '[[task]]\nname = "bad"\nrun = "echo al''so; exit 4"\n'
                '[[task]]\nname = "state"\nrun = "cd $AFLOAT_STATE && pwd"\n')
    place.trust()
    t = place.start(shell=shell)
    t.expect(rb"P> ")
    (place.project / ".afloat/env.toml").write_text((place.project / ".afloat/env.toml").read_text().replace('"1"', '"2"'))
    retry(lambda: place.ctl("status")["generation"] == 2)
    assert "printed" in ask(t, f'"{BIN}" env task t')
    assert retry(lambda: ask(t, "printenv MADE") == "2")
    said = ask(t, f'"{BIN}" env task bad 2>&1')
    assert "also" in said and "task bad: failed: '/bin/sh' ended with status 4" in said
    assert f"{place.project}/.afloat/state" in ask(t, f'"{BIN}" env task state')
    assert place.end(t) == 0


def test_a_task_runs_again_when_its_inputs_change(place, shell):
    place.write("1\n", "in/a.txt")
    place.write('[[task]]\nname = "first"\nrun = "echo first >> log"\n'
                '[[task]]\nname = "t"\nafter = ["first"]\ninputs = ["in/*.txt"]\n'
                'run = "cat in/a.txt >> log; echo FROM=$(cat in/a.txt) >> $AFLOAT_TASK_EXPORTS_FILE"\n'
                '[[task]]\nname = "own"\nin_shell = true\ninputs = ["own.txt"]\nrun = "echo own >> log"\n')
    place.trust()
    t = place.enter(shell=shell)
    log = place.project / "log"
    assert retry(lambda: sorted(log.read_text().split()) == ["1", "first", "own"])
    assert ask(t, "printenv FROM") == "1"
    place.write("2\n", "in/a.txt")
    assert retry(lambda: ask(t, "printenv FROM") == "2")
    place.write("3\n", "in/a.txt")
    assert retry(lambda: ask(t, "printenv FROM") == "3")
    assert b"afloat: task t done\r\n" in t.seen
    assert b"reloaded" not in t.seen  # no file of the environment has changed
    place.write("x\n", "own.txt")
    def told():
        ask(t, "true")
        return log.read_text().split().count("own") == 2
    assert retry(told)
    assert log.read_text().split().count("first") == 1  # what it comes after did not change
    place.write("4\n", "in/a.txt")
    assert retry(lambda: ask(t, "printenv FROM") == "4")
    assert place.end(t) == 0


def test_tasks_may_change_together_with_their_inputs(place):
    """An input starts a timer; a new list of tasks must not make it anew while it runs."""
    def change(n):
        place.write(f"{n}\n", "in.txt")
        place.write(f'[[task]]\nname = "t{n}"\ninputs = ["in.txt"]\nrun = "echo {n} >> log"\n')
    change(0)
    place.trust()
    t = place.enter()
    for n in range(1, 9):
        change(n)
        assert retry(lambda: place.ctl("status")["generation"] > n)
    assert retry(lambda: "8" in (place.project / "log").read_text().split())
    assert place.end(t) == 0


def test_a_task_that_an_edit_brings_runs_on_what_changed_before_it(place):
    """The input was seen while another task had it: the new one must not wait for the next change."""
    def task(name):
        return f'[[task]]\nname = "{name}"\ninputs = ["in.txt"]\nrun = "echo {name} $(cat in.txt) >> log"\n'
    place.write("1\n", "in.txt")
    place.write(task("old"))
    place.trust()
    t = place.enter()
    log = place.project / "log"
    place.write("2\n", "in.txt")
    assert retry(lambda: "old 2" in log.read_text())
    place.write(task("new"))
    assert retry(lambda: "new 2" in log.read_text())
    assert place.end(t) == 0
