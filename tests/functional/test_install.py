"""make install and make uninstall: everything is where a system looks for it, and works from there."""
import gzip
import json
import os
import pathlib
import subprocess

import pytest

from conftest import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]


def install(verb, root):
    env = {**os.environ, "DESTDIR": str(root), "PREFIX": "/usr", "BUILD": str(pathlib.Path(BIN).parent)}
    done = subprocess.run([ROOT / "tools/install", verb], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("root")
    install("install", place)
    return place


def test_the_installed_program_starts_its_hub_and_runs_a_tool(root, tmp_path):
    env = {**os.environ, "AFLOAT_HOME": str(tmp_path / "home"), "PATH": f"{root}/usr/bin:{os.environ['PATH']}"}
    run = lambda *words: subprocess.run(["afloat", *words], env=env, cwd=tmp_path, capture_output=True, text=True)
    try:
        done = run("tool", "run", "shell", '{"cmd": "echo from the box"}', "--json")
        assert done.returncode == 0 and "from the box" in done.stdout, done.stderr  # so the launcher was found
    finally:
        assert run("stop").returncode == 0


def test_every_command_has_a_man_page(root):
    table = json.loads(subprocess.run([BIN, "help", "--json"], capture_output=True, check=True).stdout)["commands"]
    shown = [r for r in table if r["group"] != "Started by afloat itself"]
    pages = {p.name: gzip.decompress(p.read_bytes()).decode() for p in (root / "usr/share/man/man1").iterdir()}
    assert set(pages) == {f"afloat-{r['noun']}.1.gz" for r in shown} | {"afloat.1.gz"}
    plain = lambda text: text.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
    for row in shown:
        page = plain(pages[f"afloat-{row['noun']}.1.gz"])
        assert all(e in page for e in row["examples"]), row
        assert all(f"--{f}" in page for f in row["flags"]), row


def test_the_man_pages_are_sound(root):
    for page in (root / "usr/share/man/man1").iterdir():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=gzip.decompress(page.read_bytes()),
                              capture_output=True)
        assert done.returncode == 0 and done.stderr == b"", (page, done.stderr)


def test_completions_and_the_unit_are_installed(root):
    share = root / "usr/share"
    assert "complete " in (share / "bash-completion/completions/afloat").read_text()
    assert "#compdef afloat" in (share / "zsh/vendor-completions/_afloat").read_text()
    assert "complete -c afloat" in (share / "fish/vendor_completions.d/afloat.fish").read_text()
    assert "ExecStart=/usr/bin/afloat hub" in (root / "usr/lib/systemd/user/afloat.service").read_text()


def test_installing_again_is_fine_and_uninstalling_leaves_nothing(root, tmp_path):
    keep = tmp_path / "usr/bin/other"
    keep.parent.mkdir(parents=True)
    keep.write_text("not ours")
    install("install", tmp_path)
    install("install", tmp_path)
    assert (tmp_path / "usr/bin/afloat").exists()
    assert "untouched" in install("uninstall", tmp_path)
    assert [p for p in tmp_path.rglob("*") if not p.is_dir()] == [keep]
