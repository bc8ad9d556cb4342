"""`.afloat/config.toml` of a project: what it may say to those who work there, and who must have trusted it."""
import pytest

from conftest import retry
from test_agent import Session, call, one_call
from test_env import save

SAY = [{"text": "hello"}] * 8


class Project:
    def __init__(self, home, dir, text):
        self.home = home
        self.dir = dir
        self.file = dir / ".afloat/config.toml"
        self.file.parent.mkdir(parents=True)
        self.file.write_text(text)

    def trust(self, *flags):
        self.home.ok("trust", *flags, str(self.dir))
        return self

    def session(self, scenario=SAY, **more):
        return Session(self.home, self.dir, scenario, **more)

    def plugin(self, name, code):
        path = self.dir / ".afloat/plugins" / f"{name}.lua"
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)

    def show(self):
        """The settings as somebody sees them who stands in the project, by key, and what is wrong."""
        shown = self.home.json("config", "show", "--origin", cwd=self.dir)
        return {v["key"]: v for v in shown["values"]}, shown["diagnostics"]


@pytest.fixture
def project(home, tmp_path):
    def make(text, name="p"):
        return Project(home, tmp_path / name, text)
    return make


def user_says(home, text):
    save(home.dir / "config.toml", text)


MODEL = '[model]\nname = "from-the-project"\n'


@pytest.mark.parametrize("with_hub", [False, True])
def test_config_show_names_the_project_and_refuses_what_is_not_its_own(home, project, start_hub, with_hub):
    user_says(home, '[model]\nname = "mine"\n[session]\nanswer_s = 5\n')
    if with_hub:
        start_hub("--listen", "127.0.0.1:0", "--profile", "said")
    p = project('profile = "theirs"\n' + MODEL + 'provider = "scripted"\n[providers.evil]\nkind = "openai-chat"\n[sandbox]\nnetwork = true\n'
                        'mode = "read-only"\n[prices."m"]\ninput = 2.0\n').trust()
    values, wrong = p.show()
    assert values["model.name"] == {"key": "model.name", "value": "from-the-project", "origin": "project",
                                    "path": str(p.file), "line": 3}
    assert values["session.answer_s"]["origin"] == "user"
    assert values["sandbox.mode"]["origin"] == "project" and values["sandbox.mode"]["value"] == "read-only"
    assert values["sandbox.network"] == {"key": "sandbox.network", "value": False, "origin": "default"}
    assert values['prices.m.input']["value"] == 2.0
    assert "providers.evil.kind" not in values
    assert values["listen"]["origin"] == ("flag" if with_hub else "default")
    assert values["profile"]["value"] == ("said" if with_hub else "theirs")  # who said it to the hub wins
    assert sorted((d["path"], d["line"], d["message"]) for d in wrong) == [
        (str(p.file), 6, "a project may not set 'providers.evil.kind'"),
        (str(p.file), 8, "a project may not widen 'sandbox.network'")]
    text = home.ok("config", "show", "--origin", cwd=p.dir)
    assert f"project {p.file}:3" in text
    assert "from-the-project" not in home.ok("config", "show", cwd=home.dir)  # elsewhere it is nobody's


def test_settings_that_nobody_trusts_count_for_nothing_and_it_is_said(home, hub, project):
    p = project(MODEL)
    done = home.cli("config", "show", cwd=p.dir)
    assert "from-the-project" not in done.stdout
    assert done.stderr.count("is ignored because it is not trusted: look at it, then type 'afloat trust'") == 1
    s = p.session()
    assert s.row["model"] != "from-the-project"
    assert p.session().row["model"] != "from-the-project"
    assert home.log.read_text().count(f"settings of '{p.dir}' are not trusted") == 1
    p.trust()  # from now on
    retry(lambda: p.session().row["model"] == "from-the-project")
    save(p.file, MODEL.replace("from", "changed-from"))  # not the bytes that were trusted
    retry(lambda: p.session().row["model"] != "from-the-project")


def test_a_session_has_the_settings_of_its_project(home, hub, project):
    p = project(MODEL + '[session]\npermission = "deny"\n[sandbox]\nmode = "read-only"\n').trust("--follow")
    s = p.session([one_call(cmd="echo x"), {"text": "done"}, {"text": "more"}])
    assert (s.row["model"], s.row["permission"], s.row["sandbox"]) == ("from-the-project", "deny", "read-only")
    s.ask()
    assert s.events("tool.completed")[0]["success"] is False
    # what is asked for counts more, as with the user's own
    asked = p.session(permission="auto", sandbox="workspace-write", model="asked")
    assert (asked.row["model"], asked.row["permission"], asked.row["sandbox"]) == ("asked", "auto", "workspace-write")
    # a neighbour has the user's
    other = Session(home, p.dir.parent / "other", SAY)
    assert (other.row["model"] != "from-the-project") and other.row["permission"] == "auto"
    # an edit counts from the next turn on
    save(p.file, '[model]\nname = "second"\n')
    retry(lambda: s.ask() and s.call("GET")["model"] == "second")


def test_a_tool_outside_a_session_has_the_settings_of_its_project(home, hub, project, tmp_path):
    p = project('[sandbox]\nmode = "read-only"\n').trust()
    (tmp_path / "other").mkdir()

    def touch(dir):
        done = call(home, "POST", "/tool/shell", {"input": {"cmd": "touch x"}, "working_dir": str(dir)})
        return done["success"], (dir / "x").exists()

    assert touch(p.dir) == (False, False)
    assert touch(tmp_path / "other") == (True, True)
    keep = p.session()  # leaving does not take it from others
    assert touch(p.dir) == (False, False) and keep.row["sandbox"] == "read-only"
    keep.call("DELETE")
    assert touch(p.dir) == (False, False)


def test_the_users_own_settings_follow_their_file_in_a_project_too(home, project, start_hub):
    user_says(home, '[model]\nname = "first"\n')
    start_hub()
    s = project('[session]\nanswer_s = 7\n').trust().session()
    assert s.row["model"] == "first"
    user_says(home, '[model]\nname = "second"\n')
    retry(lambda: s.ask() and s.call("GET")["model"] == "second")


def test_a_project_cannot_be_less_strict_than_the_user(home, project, start_hub):
    user_says(home, '[session]\npermission = "ask"\n[sandbox]\nmode = "read-only"\n')
    start_hub()
    p = project('[session]\npermission = "auto"\n[sandbox]\nmode = "danger-full-access"\nnetwork = true\n').trust()
    s = p.session()
    assert (s.row["permission"], s.row["sandbox"], s.row["network"]) == ("ask", "read-only", False)
    assert "a project may not widen 'session.permission'" in home.log.read_text()


def test_a_broken_file_changes_nothing_and_loosens_nothing(home, project, start_hub):
    user_says(home, '[session]\npermission = "ask"\n')
    start_hub()
    p = project(MODEL).trust("--follow")
    def seen():
        row = p.session().row
        return row["model"], row["permission"]
    assert seen() == ("from-the-project", "ask")
    keep = p.session()  # while somebody is there, the last good ones are known
    save(p.file, "[model\n")
    retry(lambda: "config.toml" in home.log.read_text() and "line=1" in home.log.read_text())
    assert seen() == ("from-the-project", "ask")
    user_says(home, "[session\n")
    retry(lambda: "broken=1" in home.log.read_text())
    save(p.file, MODEL.replace("from", "changed-from"))
    assert seen()[1] == "ask"
    user_says(home, '[session]\npermission = "deny"\n')
    retry(lambda: seen() == ("changed-from-the-project", "deny"))
    keep.call("DELETE")


def test_what_is_wrong_with_the_file_is_in_the_report_while_somebody_works_there(home, hub, project):
    p = project('[model]\nnme = "x"\n[providers.evil]\nkind = "openai-chat"\n').trust("--follow")
    s = p.session()

    def faults():
        found = call(home, "GET", "/reload")["diagnostics"]
        shown = home.ok("status").count(str(p.file))
        return shown == len(found) and [(d["path"], d["line"], d["severity"]) for d in found]

    retry(lambda: faults() == [(str(p.file), 2, "warning"), (str(p.file), 4, "warning")])
    save(p.file, "[session]\npermission = 7\n")
    retry(lambda: faults() == [(str(p.file), 2, "error")])
    done = home.cli("reload")
    assert done.returncode == 6 and "no session starts" in done.stdout, done
    save(p.file, MODEL)
    retry(lambda: faults() == [])
    save(p.file, "[session]\npermission = 7\n")
    retry(lambda: faults() == [(str(p.file), 2, "error")])
    s.call("DELETE")
    retry(lambda: faults() == [])


GREET = """
return function(options)
    return { tools = { { name = "greet", description = "says it", run = function() return options.word or "none" end } } }
end
"""


def test_a_project_names_plugins_and_their_options(home, project, start_hub):
    (home.dir / "mine.lua").write_text("return {}")
    user_says(home, '[[plugins]]\npath = "mine.lua"\n')
    start_hub()
    p = project('[[plugins]]\npath = "plugins/greet.lua"\n[plugins.options]\nword = "ahoy"\n'
                '[[plugins]]\npath = "plugins/other.lua"\nenabled = false\n')
    p.plugin("greet", GREET)
    p.plugin("other", "return {}")
    p.trust("--follow")
    turn = [one_call("greet"), {"text": "done"}]
    s = p.session(turn + turn)
    rows = {r["name"]: r for r in call(home, "GET", "/plugin/list")["plugins"]}
    assert rows["greet"]["layer"] == "repo" and rows["greet"]["source"] == "config", rows["greet"]
    assert rows["mine"]["layer"] == "config" and len(rows) == 3, rows
    assert rows["greet"]["serving"] and not rows["other"]["serving"], rows
    s.ask()
    assert s.events("tool.completed")[-1]["output"] == "ahoy", s.events("tool.completed")
    save(p.file, '[[plugins]]\npath = "plugins/greet.lua"\n[plugins.options]\nword = "moin"\n')
    retry(lambda: {r["name"]: r for r in call(home, "GET", "/plugin/list")["plugins"]}["other"]["serving"])
    s.ask()
    assert s.events("tool.completed")[-1]["output"] == "moin"
    s.call("DELETE")
    retry(lambda: "greet" not in [r["name"] for r in call(home, "GET", "/plugin/list")["plugins"]])


def test_a_line_that_leads_out_of_what_is_trusted_runs_nothing(home, hub, project, tmp_path):
    (tmp_path / "evil.lua").write_text("error('ran')")
    p = project('[[plugins]]\npath = "../../evil.lua"\n[[plugins]]\npath = "../written.lua"\n')
    (p.dir / "written.lua").write_text("error('ran')")  # where a model may write
    p.trust("--follow").session()
    rows = {r["name"]: r for r in call(home, "GET", "/plugin/list")["plugins"]}
    for name in ("evil", "written"):
        assert rows[name]["state"] == "untrusted" and not rows[name]["serving"], rows[name]


def test_a_project_chooses_the_profile_of_its_own_plugins(home, hub, project):
    p = project('profile = "extra"\n')
    for profile in ("extra", "default"):
        path = p.dir / ".afloat/profiles" / profile / "plugins" / f"of-{profile}.lua"
        path.parent.mkdir(parents=True)
        path.write_text("return {}")
    p.trust("--follow").session()
    assert [r["name"] for r in call(home, "GET", "/plugin/list")["plugins"]] == ["of-extra"]
    save(p.file, 'profile = "default"\n')
    retry(lambda: [r["name"] for r in call(home, "GET", "/plugin/list")["plugins"]] == ["of-default"])


@pytest.mark.parametrize("trusted", [True, False])
def test_a_shell_has_the_settings_of_its_project(home, project, trusted):
    p = project("[shell]\nbuild_timeout_s = 1\n")
    (p.dir / ".afloat/env.toml").write_text('script = "env.sh"\n')
    (p.dir / "env.sh").write_text("sleep 2; export FOO=1\n")
    home.ok("env", "allow", str(p.dir))
    if trusted:
        p.trust()
    done = home.cli("env", cwd=p.dir)
    assert (done.returncode, "FOO=1" in done.stdout) == ((124, False) if trusted else (0, True)), done


def test_a_shell_says_that_a_file_of_its_settings_is_broken(home, project):
    p = project("[shell]\nstatus = 'gold'\n")
    (p.dir / ".afloat/env.toml").write_text('[env]\nFOO = "1"\n')
    home.ok("env", "allow", str(p.dir))
    p.trust()
    broken = p.dir / ".afloat/config.toml"
    for words in (["env"], ["shell", "true"]):
        done = home.cli(*words, cwd=p.dir)
        assert done.returncode == 0 and f"'{broken}' is broken" in done.stderr, done
    (home.dir / "config.toml").write_text("[oops")
    assert f"'{home.dir / 'config.toml'}' is broken" in home.cli("env", cwd=p.dir).stderr
