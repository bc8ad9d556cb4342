"""What a sandboxed agent tries in order to have something done outside of its sandbox: each way is closed
for commands and for file tools alike."""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import DEADLINE, read_until, retry
from test_agent import Session, call, one_call, remove_work, work  # noqa: F401  (fixtures)


def results(s):
    return [(e["success"], e["output"] or "", e["error"]) for e in s.events("tool.completed")]


def play(s, *lines):
    """Let the session's model say these lines next; gives the results of its calls."""
    s.said = getattr(s, "said", []) + list(lines)
    path = s.home.dir / f"scenario-{s.id}.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in s.said))
    s.call("PATCH", "", {"env": {"PATH": os.environ["PATH"], "AFLOAT_PROVIDER": "scripted",
                                 "AFLOAT_SCENARIO": str(path)}})
    s.ask()
    return results(s)[-len(lines) + 1:]


# ---- the working directory ----------------------------------------------------------------------

def test_a_replaced_working_directory_is_refused_to_every_tool_also_after_a_restart(home, start_hub, work):
    hub = start_hub()
    work.mkdir()
    (work / "victim").mkdir()
    (work / "src" / "x" / "project").mkdir(parents=True)
    s = Session(home, work / "src" / "x" / "project", writable=[str(work / "src")])
    attack = [one_call(cmd="touch pwned; pwd -P"), one_call("write_file", path="pwned", content="x"),
              one_call("list_files"), {"text": "end"}]
    swapped = play(s, one_call(cmd=f"cd {work}/src && mv x y && mkdir x && ln -s {work}/victim x/project"),
                   {"text": "end"})
    assert swapped[0][0], swapped
    for success, _, error in play(s, *attack):
        assert not success and "no longer the directory" in error
    hub.close()
    start_hub()
    for success, _, error in play(s, *attack):
        assert not success and "symbolic link" in error
    assert os.listdir(work / "victim") == []


def test_a_session_that_moves_to_the_home_directory_can_only_read_there(home, hub, work):
    user = pathlib.Path(os.environ["HOME"])
    mark = user / f"escaped-{os.getpid()}"
    s = Session(home, work)
    assert s.row["sandbox"] == "workspace-write" and s.row["sandbox_reason"] is None
    for dir in (user, "/", home.dir.parent):
        moved = s.call("PATCH", "", {"working_dir": str(dir)})
        assert moved["sandbox"] == "read-only" and "tools can only read" in moved["sandbox_reason"], dir
        assert s.events("session.updated")[-1]["working_dir"] == str(dir)
        s.call("PATCH", "", {"working_dir": str(work), "sandbox": "workspace-write"})
    s.call("PATCH", "", {"working_dir": str(user)})
    assert not play(s, one_call(cmd=f"touch {mark}"), {"text": "end"})[0][0] and not mark.exists()
    asked = s.call("PATCH", "", {"working_dir": str(user), "sandbox": "workspace-write"})
    assert asked["sandbox"] == "workspace-write" and asked["sandbox_reason"] is None


def test_a_chat_in_the_home_directory_says_that_tools_can_only_read(home, hub, work):
    work.mkdir()
    line = "afloat: the working directory is your home: tools can only read; --sandbox asks for more"
    user = os.environ["HOME"]
    assert line in home.cli("chat", "hi", cwd=user).stderr
    assert line not in home.cli("chat", "hi", "--sandbox", "read-only", cwd=user).stderr
    assert line not in home.cli("chat", "hi", cwd=work).stderr
    first = call(home, "GET", "/session?limit=1")["sessions"][0]
    assert line in home.cli("chat", "hi", "--resume", first["id"], "--cwd", user).stderr
    home.ok("bots", "create", "reader")
    assert line in home.cli("run", "reader", "hi", "-n", "1", "--no-worktree", "--skip-git-check", cwd=user).stderr


def test_a_plugin_that_runs_a_fifo_delays_nobody(home, hub, work):
    work.mkdir()
    os.mkfifo(work / "fifo")
    call(home, "POST", "/plugin/save", {"name": "waits", "content": f"""
        route("GET", "/load", function() return {{ select(2, loadfile("{work}/fifo")) }} end)
        route("GET", "/do", function() return {{ select(2, pcall(dofile, "{work}/fifo")) }} end)"""})
    for path in ("load", "do"):
        assert "fifo" in call(home, "GET", f"/api/plugins/waits/{path}")[0]
    assert call(home, "GET", "/healthz")["ok"]


def test_a_directory_given_through_a_link_is_kept_by_its_real_path(home, hub, work):
    work.mkdir()
    (work / "real").mkdir()
    (work / "more").mkdir()
    (work / "link").symlink_to(work / "real")
    (work / "also").symlink_to(work / "more")
    s = Session(home, work / "link", writable=[str(work / "also")])
    row = s.call("GET")
    assert (row["working_dir"], row["writable"]) == (str(work / "real"), [str(work / "more")])
    (work / "link").unlink()
    assert play(s, one_call(cmd=f"touch here {work}/more/there"), {"text": "end"})[0][0]
    assert (work / "real" / "here").exists() and (work / "more" / "there").exists()


# ---- what runs outside of the sandbox -------------------------------------------------------------

PROOF = 'io.open("{0}", "w"):close()\n'
HELLO = 'command{name = "hi", description = "x", run = function() return "good" end}\n'


def save(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_all(files, text="bad"):
    """One command that tries each of them, whatever becomes of the others."""
    return one_call(cmd="; ".join(f"mkdir -p $(dirname {f}); echo {text} > {f}" for f in files))


def test_no_input_of_a_followed_project_can_be_written(home, hub, work):
    inputs = ["env.sh", "conf/.env", "more.toml", "src/p.lua", ".afloat/plugins/new.lua", ".envrc"]
    save(work / ".afloat" / "env.toml",
         'include = ["../more.toml"]\nscript = "env.sh"\ndotenv = ["conf/.env", "missing/.env"]\n')
    for name in inputs:
        save(work / name, "good")
    (work / ".afloat" / "plugins" / "linked.lua").symlink_to("../../src/p.lua")
    (work / ".afloat" / "plugins" / "new.lua").unlink()
    home.cli("trust", str(work), "--follow")  # says that the plugins are none
    s = Session(home, work)
    play(s, write_all(inputs + ["missing/.env", "free"]),
         one_call(cmd="mv conf c2; mv src s2; rm -rf .afloat env.sh; ls -A > list"), {"text": "end"})
    assert (work / "free").read_text() == "bad\n" and (work / "list").exists()
    assert [(work / n).read_text() for n in inputs if "new" not in n] == ["good"] * 5
    assert not (work / ".afloat/plugins/new.lua").exists() and not (work / "missing").exists()


def test_a_followed_project_below_the_working_directory_is_out_of_reach(home, hub, work):
    inner = work / "packages" / "inner"
    save(inner / ".afloat" / "plugins" / "a.lua", "return {}\n")
    home.ok("trust", str(inner), "--follow")
    s = Session(home, work)
    play(s, write_all([inner / ".afloat/plugins/b.lua", inner / "free"]),
         one_call("write_file", path=str(inner / ".afloat/plugins/c.lua"), content="bad"), {"text": "end"})
    assert os.listdir(inner / ".afloat" / "plugins") == ["a.lua"]
    assert (inner / "free").exists()


def test_a_project_that_is_not_followed_can_be_worked_on(home, hub, work):
    save(work / "env.sh", "export A=1\n")
    save(work / ".afloat" / "env.toml", 'script = "env.sh"\n')
    home.ok("trust", str(work))  # by content: a change waits by itself
    s = Session(home, work)
    play(s, write_all(["env.sh"]), {"text": "end"})
    assert (work / "env.sh").read_text() == "bad\n"


def test_a_plugin_in_the_working_directory_is_not_written_by_commands(home, hub, work):
    save(work / "mine" / "init.lua", HELLO)
    save(work / "mine" / "plugin.toml", 'name = "mine"\n')
    save(work / "single.lua", HELLO)
    save(work / "linked.lua", HELLO)
    (home.dir / "plugins").mkdir(exist_ok=True)
    (home.dir / "plugins" / "linked.lua").symlink_to(work / "linked.lua")
    home.ok("plugin", "add", str(work / "mine"))
    home.ok("plugin", "add", str(work / "single.lua"))
    files = ["mine/init.lua", "mine/new.lua", "single.lua", "linked.lua"]
    s = Session(home, work)
    out = play(s, write_all(files), one_call(cmd="mv mine m2; rm single.lua"), {"text": "end"})
    assert "Read-only file system" in out[0][1]
    assert [(work / f).read_text() for f in files if "new" not in f] == [HELLO] * 3
    assert not (work / "mine" / "new.lua").exists()
    for name in ("mine", "single", "linked"):
        assert call(home, "POST", f"/command/{name}:hi", {})["output"] == "good"
    home.ok("plugin", "disable", "mine")  # nothing runs there now
    play(s, write_all(["mine/init.lua"]), {"text": "end"})
    assert (work / "mine" / "init.lua").read_text() == "bad\n"


def test_settings_kept_elsewhere_by_a_link_cannot_be_written(home, start_hub, work):
    save(work / "dotfiles" / "init.lua", "return {}\n")
    save(work / "dotfiles" / "config.toml", "# mine\n")
    (home.dir / "lua" / "user").mkdir(parents=True)
    (home.dir / "lua" / "user" / "init.lua").symlink_to(work / "dotfiles" / "init.lua")
    (home.dir / "config.toml").unlink(missing_ok=True)
    (home.dir / "config.toml").symlink_to(work / "dotfiles" / "config.toml")
    start_hub()
    s = Session(home, work)
    play(s, write_all(["dotfiles/init.lua", "dotfiles/config.toml", "dotfiles/free"]), {"text": "end"})
    assert (work / "dotfiles" / "init.lua").read_text() == "return {}\n"
    assert (work / "dotfiles" / "config.toml").read_text() == "# mine\n"
    assert (work / "dotfiles" / "free").exists()


# ---- what the hub reads for the model ---------------------------------------------------------------

def test_instructions_of_a_followed_project_do_not_lead_out_of_it(home, start_hub, work, tmp_path):
    hidden = tmp_path / "hidden"
    (home.dir / "config.toml").write_text(f'[sandbox]\nhide = ["{hidden}", "{work}/inner"]\n')
    start_hub()
    save(hidden / "key", "the secret\n")
    save(work / "inner" / "key", "the secret of the project\n")
    save(work / "docs" / "rules.md", "Be brief.\n")
    (work / "a").mkdir()
    (work / "a" / "AGENTS.md").symlink_to("../docs/rules.md")
    (work / ".afloat" / "skills").mkdir(parents=True)
    home.ok("trust", str(work), "--follow")
    (work / ".afloat" / "skills" / "leak.md").symlink_to(hidden / "key")
    s = Session(home, work / "a", writable=[str(work)])
    links = f"ln -s {hidden}/key CLAUDE.md && ln -s a/../inner/key ../AGENTS.md"
    assert play(s, one_call(cmd=links), {"text": "end"})[0][0]
    play(s, one_call("skill", name="leak"), {"text": "end"})
    text = (home.dir / "sessions" / s.id / "requests.jsonl").read_text()
    assert "Be brief." in s.requests()[-1]["body"]["system"] and "the secret" not in text
    assert s.call("GET")["instructions"] == ["a/AGENTS.md"]


# ---- walks ----------------------------------------------------------------------------------------

def test_links_in_circles_and_huge_trees_delay_no_other_plugin(home, hub, work):
    say = 'command{name = "v", description = "x", run = function() return "%d" end}\n'
    save(home.dir / "plugins" / "u.lua", say % 1)
    save(home.dir / "plugins" / "circles" / "init.lua", "return {}\n")
    for name in "abcd":
        (home.dir / "plugins" / "circles" / name).symlink_to(".")
    call(home, "POST", "/reload", {})
    assert call(home, "POST", "/command/u:v", {})["output"] == "1"
    report = call(home, "POST", "/plugin/add", {"path": "/usr"})["report"]  # is no plugin
    assert not report["ok"] and not report["added"]
    call(home, "POST", "/plugin/add", {"path": "/"}, 400)  # holds the home: it would be reloaded for its own changes
    save(home.dir / "plugins" / "u.lua", say % 2)
    call(home, "POST", "/reload", {})
    assert call(home, "POST", "/command/u:v", {})["output"] == "2"
    save(home.dir / "plugins" / "circles" / "init.lua", say % 3)  # its own changes are seen
    call(home, "POST", "/reload", {})
    assert call(home, "POST", "/command/circles:v", {})["output"] == "3"


# ---- the hub's own streams ------------------------------------------------------------------------

@pytest.mark.parametrize("code", ["return tostring(io.read())", "return tostring(io.stdin:read(1))",
                                  "for l in io.lines() do end return 'x'",
                                  "io.write(('x'):rep(200000)) io.flush() return 'x'",
                                  "io.stderr:write(('x'):rep(200000)) return 'x'"])
def test_a_plugin_that_uses_the_hubs_streams_delays_nobody(home, code):
    save(home.dir / "plugins" / "p.lua",
         'command{name = "go", description = "x", run = function() %s end}\n' % code)
    hub = home.popen("hub", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert hub.stdout.readline().startswith(b"ready ")
        answer = call(home, "POST", "/command/p:go", {})
        assert answer["output"] in ("nil", "x")
        assert home.http("GET", "/healthz").status == 200
    finally:
        hub.terminate()
        hub.communicate(timeout=DEADLINE)
    assert hub.returncode == 0


# ---- other users ----------------------------------------------------------------------------------

def test_a_plugin_that_others_can_write_does_not_run_and_says_so(home, hub, work):
    save(work / "shared" / "p.lua", HELLO)
    os.chmod(work / "shared" / "p.lua", 0o666)
    home.cli("plugin", "add", str(work / "shared" / "p.lua"))
    row = call(home, "GET", "/plugin/p")
    assert row["state"] == "untrusted", row
    problem = [d for d in call(home, "POST", "/reload", {})["diagnostics"] if d.get("plugin") == "p"]
    assert "another user owns or may write" in problem[0]["message"]
    os.chmod(work / "shared" / "p.lua", 0o644)
    call(home, "POST", "/reload", {})
    assert call(home, "POST", "/command/p:hi", {})["output"] == "good"


def test_instructions_and_skills_that_others_can_write_are_not_followed(home, hub, work):
    files = [work / "AGENTS.md", work / ".afloat" / "skills" / "deploy.md"]
    for path in files:
        save(path, "Be brief.\n")
        os.chmod(path, 0o644)
    home.ok("trust", str(work), "--follow")
    s = Session(home, work)

    def prompt():
        s.ask()
        system = s.requests()[-1]["body"]["system"]
        return "(AGENTS.md)" in system, "- deploy: " in system, len(s.call("GET")["instructions"])

    assert prompt() == (True, True, 1)
    for path in files:
        path.write_text("Be wild.\n")
        os.chmod(path, 0o666)
    assert prompt() == (False, False, 0)
    home.ok("trust", str(work))  # these bytes, whoever may write others
    assert prompt() == (True, True, 1)


def test_the_environment_of_a_followed_project_that_others_can_write_is_refused(home, work):
    save(work / ".afloat" / "env.toml", 'script = "env.sh"\n')
    save(work / "env.sh", "export A=1\n")
    home.ok("trust", str(work), "--follow")
    save(work / "env.sh", "export A=2\n")
    assert home.ok("shell", "printenv", "A", cwd=work) == "2\n"
    os.chmod(work / "env.sh", 0o666)
    save(work / "env.sh", "export A=3\n")
    refused = home.cli("shell", "printenv", "A", cwd=work)
    assert refused.returncode == 4 and "another user" in refused.stderr, refused


# ---- the question of first use ----------------------------------------------------------------------

def test_what_is_shown_before_consent_is_the_project_and_nothing_of_the_home(home, work):
    save(work / ".afloat" / "env.toml", 'script = "env.sh"\n')
    save(work / "env.sh", ". ./lib.sh\nexport SHOWN=1\n")
    save(work / "lib.sh", "export SOURCED=1\n")
    save(work / "other" / ".afloat" / "env.toml", "")
    home.ok("trust", str(work / "other"))  # so that the home has a book
    process, terminal = home.on_terminal("shell", "--no-reload", "true", cwd=work)
    read_until(terminal, rb"\[\?\] show: ")
    terminal.write(b"?\n")
    shown = read_until(terminal, rb"\[\?\] show: ")
    terminal.write(b"n\n")
    process.wait(timeout=DEADLINE)
    for text in (b".afloat/env.toml", b"env.sh", b"SHOWN=1", b"lib.sh", b"SOURCED=1"):
        assert text in shown, shown
    assert b"trust.json" not in shown and b"places" not in shown, shown


# ---- an agent that develops a plugin --------------------------------------------------------------

def develop(home, work, decision):
    """Let an agent change a plugin that the hub loads; gives the request, and the results of its calls."""
    save(work / "mine.lua", HELLO)
    home.ok("plugin", "add", str(work / "mine.lua"))
    s = Session(home, work, [one_call("edit_file", path="mine.lua", old="good", new="better"),
                             one_call(cmd="echo bad > mine.lua"), {"text": "end"}])
    s.send()
    asked = s.wait_for("permission.requested")
    assert s.call("GET")["pending"][0]["diff"] == asked["diff"]
    assert (work / "mine.lua").read_text() == HELLO
    call(home, "POST", f"/session/{s.id}/permission/{asked['request_id']}",
         {"decision": decision, "remember": "tool"}, 400)  # each change is one to look at
    call(home, "POST", f"/session/{s.id}/permission/{asked['request_id']}", {"decision": decision})
    s.wait_for("turn.completed")
    return asked, results(s)


def test_an_agent_that_develops_a_plugin_asks_with_the_diff(home, hub, work):
    asked, (edit, command) = develop(home, work, "allow")
    assert '-command{name = "hi"' in asked["diff"] and 'return "better"' in asked["diff"]
    assert [o["remember"] for o in asked["offers"]] == ["once"]
    assert edit[0] and "write_file and edit_file ask the user" in command[1]
    assert (work / "mine.lua").read_text() == HELLO.replace("good", "better")
    retry(lambda: call(home, "POST", "/command/mine:hi", {})["output"] == "better")


def test_a_new_file_of_a_plugin_is_asked_about_once(home, hub, work):
    save(work / "mine" / "init.lua", HELLO)
    home.ok("plugin", "add", str(work / "mine"))
    s = Session(home, work, [one_call("write_file", path="mine/new.lua", content="return {}\n"), {"text": "x"}],
                permission="ask")
    [request] = s.ask()["pending"]
    s.call("POST", f"/permission/{request['request_id']}", {"decision": "allow"})
    s.wait_for("turn.completed")
    assert [e["by"] for e in s.events("permission.requested")] == ["sandbox"]
    assert (work / "mine" / "new.lua").read_text() == "return {}\n"


def test_a_refused_change_of_a_plugin_is_not_made(home, hub, work):
    _, (edit, _) = develop(home, work, "deny")
    assert not edit[0] and edit[2].startswith("denied by")
    assert (work / "mine.lua").read_text() == HELLO
