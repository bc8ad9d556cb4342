"""The web page: built once and without network if need be, typed by the hub's own description, and used in a real browser."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BIN, ROOT

WEB = ROOT / "web"


def node(*args, timeout=120, **more):
    return subprocess.run(["node", *args], cwd=ROOT, text=True, capture_output=True, timeout=timeout, **more)


def test_the_page_in_a_real_browser():
    """Every flow of tests/browser, in one Chromium: node tests/browser/run.mjs [NAME...] runs some of them."""
    env = {**os.environ, "AFLOAT_BIN": BIN}
    done = node("tests/browser/run.mjs", timeout=900, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all browser tests passed" in done.stdout, done.stdout


def test_the_client_is_made_from_what_the_hub_describes(home, hub):
    described = home.http("GET", "/openapi.json").body.decode()
    done = node("web/gen-client.mjs", "--check", input=described)
    assert done.returncode == 0, done.stderr


def test_the_types_hold():
    for project in ("web", "web/tsconfig.plugins.json"):  # the second: types for authors, and the shipped plugins
        done = node("web/node_modules/typescript/bin/tsc", "--noEmit", "-p", project)
        assert done.returncode == 0, done.stdout


def test_the_lock_file_names_no_registry():
    lock = (WEB / "package-lock.json").read_text()
    assert "http" not in json.dumps([p.get("resolved", "") for p in json.loads(lock)["packages"].values()])


def test_what_the_browser_needs_first_is_small():
    manifest = json.loads((ROOT / "build/web/dist/manifest.json").read_text())
    assert 20_000 < manifest["first_bytes"] <= 250 * 1024


@pytest.fixture
def tree(tmp_path):
    """A copy of web/ and its builder, with a npm that fails."""
    shutil.copytree(WEB, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/build-web", tmp_path / "tools")
    shutil.copy(ROOT / "tools/embed_web.py", tmp_path / "tools")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("npm", "echo no network >&2; exit 1"), ("node", "exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def build(tree):
    env = {**os.environ, "PATH": f"{tree / 'bin'}:/usr/bin:/bin"}
    return subprocess.run([tree / "tools/build-web"], env=env, text=True, capture_output=True, timeout=60)


def test_without_packages_there_is_a_plain_page_and_that_is_said(tree):
    done = build(tree)
    assert done.returncode == 0 and "the hub serves a plain one" in done.stderr, done.stderr
    out = tree / "page.c"
    subprocess.run([tree / "tools/embed_web.py", out, tree / "build/web/dist"], check=True, timeout=60)
    assert "web_page" in out.read_text()


def test_without_packages_the_last_built_page_stays(tree):
    dist = tree / "build/web/dist"
    dist.mkdir(parents=True)
    (dist / "manifest.json").write_text('{"assets": [], "first_bytes": 1}')
    done = build(tree)
    assert done.returncode == 0 and "using the page that was built last" in done.stderr, done.stderr
    assert json.loads((dist / "manifest.json").read_text())["first_bytes"] == 1


def test_an_unchanged_page_is_not_built_again():
    stamp = ROOT / "build/web/stamp"
    before = stamp.stat().st_mtime_ns
    done = subprocess.run([ROOT / "tools/build-web"], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert stamp.stat().st_mtime_ns == before
