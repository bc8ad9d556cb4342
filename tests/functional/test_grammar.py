"""The grammar of the command line, generated from the table that `help --json` prints."""
import json
import subprocess

import pytest

from conftest import BIN

TABLE = json.loads(subprocess.run([BIN, "help", "--json"], capture_output=True, check=True,
                                  stdin=subprocess.DEVNULL).stdout)
COMMANDS = TABLE["commands"]
ALIASES = {}
for row in TABLE["verb_aliases"]:
    ALIASES.setdefault(row["verb"], []).append(row["alias"])


def name(row):
    return [row["noun"]] + ([row["verb"]] if row["verb"] else [])


def spellings(row):
    """Every way to write the command of a row, besides the one in the table. A verb that the noun has itself
    is an alias of no other."""
    nouns = [row["noun"]] + ([row["other"]] if row["other"] else [])
    own = {r["verb"] for r in COMMANDS if r["noun"] == row["noun"]}
    aliases = [alias for alias in ALIASES.get(row["verb"], []) if alias not in own]
    verbs = [row["verb"]] + aliases if row["verb"] else [None]
    for noun in nouns:
        for verb in verbs:
            words = [noun] + ([verb] if verb else [])
            if words != name(row):
                yield words
        if row["default"]:
            yield [noun]


SPELLINGS = [(row, words) for row in COMMANDS for words in spellings(row)]


def test_the_table_is_not_empty_and_names_every_command_of_the_contract():
    nouns = {row["noun"] for row in COMMANDS} | {row["other"] for row in COMMANDS}
    wanted = "hub start stop status logs events demo open feature token secret api config fsck " \
             "doctor paths completions version help chat run runs worktrees bots skills memory history"
    assert set(wanted.split()) <= nouns
    assert len(SPELLINGS) > 20


@pytest.mark.parametrize("row,words", SPELLINGS, ids=[" ".join(w) for _, w in SPELLINGS])
def test_every_alias_means_what_the_table_says(cli, row, words):
    if "..." in row["arguments"] and row["noun"] == "pty":  # takes any number of words: they are a program's
        assert cli(*words, "--help").stdout == cli(*name(row), "--help").stdout
        return
    # too many words are refused in the name of the command that the grammar understood
    surplus = ["x"] * 9
    expected = cli(*name(row), *surplus)
    got = cli(*words, "--", *surplus) if len(words) > 1 or not row["default"] else None
    assert expected.returncode == 2
    if got is not None:
        assert (got.returncode, got.stderr) == (2, expected.stderr)
    else:  # a noun alone: its flags are the default verb's
        for flag in row["flags"]:
            assert "unknown flag" not in cli(*words, f"--{flag}", "x", "x", "x").stderr


@pytest.mark.parametrize("row", COMMANDS, ids=[" ".join(name(r)) for r in COMMANDS])
def test_every_command_has_help_with_examples(cli, row):
    asked = cli(*name(row), "--help")
    assert asked.returncode == 0 and asked.stderr == ""
    assert row["help"] in asked.stdout
    assert row["examples"] and all(e in asked.stdout for e in row["examples"])
    assert all(f"--{flag}" in asked.stdout for flag in row["flags"])
    assert cli("help", *name(row)).stdout == asked.stdout
    assert cli("-h", *name(row)).stdout == asked.stdout


@pytest.mark.parametrize("noun,verbs", [("secret", "list"), ("feature", "list"), ("config", "show"),
                                        ("event", "list"), ("events", "list")])
def test_a_noun_alone_is_its_default_verb(noun, verbs):
    rows = [r for r in COMMANDS if noun in (r["noun"], r["other"]) and r["default"]]
    assert [r["verb"] for r in rows] == [verbs]


def test_help_calls_things_as_the_documentation_does():
    """One vocabulary: what README and guides say in the plural is so in help, completions and man pages."""
    nouns = {row["noun"] for row in COMMANDS}
    assert {"sessions", "bots", "skills", "worktrees", "events", "generations", "models", "runs"} <= nouns


def test_afloat_alone_prints_help_on_stdout(cli):
    done = cli()
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == cli("help").stdout
    assert done.stdout.count("\n  afloat ") == 10 and len(done.stdout.splitlines()) < 30
    assert all(line[2:].split("  ")[0] in {r["examples"][0] for r in COMMANDS}
               for line in done.stdout.splitlines() if line.startswith("  afloat "))
    assert "afloat help --all" in done.stdout


def test_help_all_lists_every_command_but_the_inner_ones(cli):
    done = cli("help", "--all")
    assert done.returncode == 0 and done.stderr == ""
    for row in COMMANDS:
        assert (row["help"] in done.stdout) == (row["group"] != "Started by afloat itself"), row


@pytest.mark.parametrize("words,near", [
    (["stauts"], "'status'"), (["fature", "list"], "'feature'"), (["feature", "enabel", "x"], "'feature enable'"),
    (["events", "--typs", "x"], "'--types'"), (["status", "--jsn"], "'--json'"), (["--hom", "x", "status"], "'--home'"),
    (["secrt"], "'secret'"), (["completions", "bsh"], "'bash'"),
])
def test_a_typo_names_the_nearest_and_exits_2(cli, words, near):
    done = cli(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert near in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [
    ["token"], ["secret", "set"], ["secret", "set", "A", "B"], ["api"], ["api", "GET"], ["status", "x"],
    ["--color", "blue", "status"], ["logs", "-n"], ["logs", "-n", "many"], ["logs", "-n", "-1"],
    ["logs", "--follow=yes"], ["events", "--after", "x"], ["-x"], ["xyzzy"], ["feature", "xyzzy"],
    ["events", "emit"], ["hub", "--unsafe"],
])
def test_wrong_usage_exits_2_and_prints_nothing_on_stdout(cli, words):
    done = cli(*words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("afloat: ")


def test_global_flags_stand_before_between_and_behind(home, cli):
    plain = home.ok("secret", "list", "--json")
    assert home.ok("--json", "secret", "list") == plain
    assert home.ok("secret", "--json", "list") == plain
    assert home.ok("secrets", "--json") == plain
    assert home.ok("--quiet", "--color", "never", "secrets", "--no-start", "--json") == plain


def test_flags_take_their_values_in_every_form(home):
    home.log.parent.mkdir(parents=True)
    home.log.write_text("".join(f"2026-01-01T00:00:00.000Z info hub n={i}\n" for i in range(5)))
    expected = "".join(f"2026-01-01T00:00:00.000Z info hub n={i}\n" for i in (3, 4))
    for words in (["-n", "2"], ["-n2"], ["--lines", "2"], ["--lines=2"], ["-n", "9", "-n", "2"]):
        assert home.ok("logs", *words) == expected


def test_words_behind_two_dashes_are_words(home):
    assert "does not take '--json'" in home.cli("status", "--", "--json").stderr


def test_home_flag_wins_over_the_environment(home, tmp_path):
    assert home.json("paths", "--home", str(tmp_path))["home"] == str(tmp_path)


def test_version_has_one_line_and_a_build(home, cli):
    done = cli("version")
    assert done.stdout.count("\n") == 1 and done.stdout.startswith("afloat ")
    assert cli("--version").stdout == done.stdout
    assert set(home.json("version")) == {"version", "build"}
    assert cli("status", "--version").stdout == done.stdout
