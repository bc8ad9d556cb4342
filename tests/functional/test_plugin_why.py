"""afloat plugin why: one answer for each reason that a plugin does nothing."""


def put(home, name, text):
    home.ok("stop", "--quiet")
    path = home.dir / "plugins" / f"{name}.lua"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_one_that_serves_says_what_nobody_has_used_yet(home, tmp_path):
    home.env["AFLOAT_PROVIDER"] = "scripted"
    put(home, "sign", "on_final(function(ctx, text) return text .. '!' end)\ntool { name = 'now', run = os.date }")
    said = home.ok("plugin", "why", "sign")
    assert "it serves: revision 1" in said
    assert "\n\n" not in said, "one line for each"
    assert "not used yet: on_final" in said and "sessions pipeline" in said and "not used yet: now" in said
    home.ok("chat", "-p", "what is Afloat?", cwd=tmp_path)
    said = home.ok("plugin", "why", "sign")
    assert "on_final" not in said and "not used yet: now" in said


def test_one_that_registers_nothing_is_told_so(home):
    put(home, "quiet", "local x = 1")
    assert "registers nothing" in home.ok("plugin", "why", "quiet")


def test_each_reason_not_to_serve_has_its_remedy(home):
    put(home, "broken", "x = = 1")
    done = home.cli("plugin", "why", "broken")
    assert done.returncode == 1 and "could not be loaded" in done.stdout and "broken.lua:1" in done.stdout
    (home.dir / "plugins/broken.lua").unlink()
    home.ok("plugin", "save", "off", "-", input="on_begin(function() end)")
    home.ok("plugin", "disable", "off")
    done = home.cli("plugin", "why", "off")
    assert done.returncode == 1 and "afloat plugin enable off" in done.stdout
    assert home.cli("plugin", "why", "nowhere").returncode == 3
    home.ok("plugin", "enable", "off")
    home.ok("feature", "disable", "plugins")
    done = home.cli("plugin", "why", "off")
    assert done.returncode == 1 and "afloat feature enable plugins" in done.stdout
    assert "afloat plugin enable" not in done.stdout


def test_a_refused_newer_version_is_named_while_the_old_one_serves(home):
    home.ok("plugin", "save", "keeps", "-", input="on_begin(function() end)")
    (home.dir / "plugins/keeps.lua").write_text("x = = 1")
    home.cli("reload")
    said = home.ok("plugin", "why", "keeps")
    assert "the last good one keeps serving" in said and "keeps.lua:1" in said


def test_a_file_whose_name_another_plugin_has_is_named(home, tmp_path):
    put(home, "twice", "on_begin(function() end)")
    (tmp_path / "twice").mkdir()
    (tmp_path / "twice/init.lua").write_text("on_done(function() end)")
    home.ok("plugin", "add", str(tmp_path / "twice"))
    said = home.ok("plugin", "why", "twice")
    assert f"'{home.dir}/plugins/twice.lua' has the same name and is not used" in said and str(tmp_path / "twice") in said


def test_one_of_a_project_in_which_nobody_works_is_told_so(home, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".afloat/plugins").mkdir(parents=True)
    (tmp_path / ".afloat/plugins/ours.lua").write_text("prompt('x')")
    done = home.cli("plugin", "why", "ours", cwd=tmp_path)
    assert done.returncode == 3 and "ours.lua" in done.stderr and "'afloat trust' trusts it" in done.stderr, done.stderr
    home.ok("trust", cwd=tmp_path)
    done = home.cli("plugin", "why", "ours", cwd=tmp_path)
    assert done.returncode == 3 and "while a session, run or shell is open here" in done.stderr, done.stderr
    home.env["AFLOAT_PROVIDER"] = "scripted"
    home.ok("chat", "thanks", cwd=tmp_path)
    assert "it serves" in home.ok("plugin", "why", "ours", cwd=tmp_path)


def test_the_command_that_a_held_one_is_told_brings_it_back(home):
    def undo(name, *to):
        home.ok("undo", *to)
        assert f"`afloat reload --force {name}`" in home.cli("reload").stdout
        return home.cli("plugin", "why", "kept").stdout

    for word in ("one", "two"):
        home.ok("plugin", "save", "kept", "-", input=f"command {{ name = 'v', run = function() return '{word}' end }}")
    assert "it serves" in undo("kept") and home.ok("kept:v").strip() == "one"
    home.ok("reload", "--force", "kept")
    assert home.ok("kept:v").strip() == "two"
    said = undo("kept", "--to", "1")
    assert "it does not serve: an undo took it back" in said and "'afloat reload --force kept'" in said, said
    home.ok("reload", "--force", "kept")
    assert home.ok("kept:v").strip() == "two"
    (home.dir / "lua/user").mkdir(parents=True, exist_ok=True)
    (home.dir / "lua/user/init.lua").write_text("x = 1")
    home.ok("reload")
    undo("user.init")
    home.ok("reload", "--force", "user.init")
    assert "HELD" not in home.ok("reload")
