"""Programs from npm that tests talk to, installed once from tests/NAME/package-lock.json into build/NAME."""
import fcntl
import os
import shutil
import subprocess

import pytest

from conftest import ROOT


def install(name="peers"):
    """The directory of the installed modules."""
    dir, source = ROOT / "build" / name, ROOT / "tests" / name
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    dir.mkdir(parents=True, exist_ok=True)
    with open(dir / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in parallel
        want = (source / "package-lock.json").read_text()
        done = dir / "installed.json"
        if not done.exists() or done.read_text() != want:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, dir / file)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=dir, check=True,
                           capture_output=True, timeout=300)
            done.write_text(want)
    return dir / "node_modules"


def script(file):
    """A program of tests/peers/, put where it finds the modules; in one step, since tests run in parallel."""
    dir = install().parent
    new = dir / f".{file}.{os.getpid()}"
    shutil.copy(ROOT / "tests" / "peers" / file, new)
    new.rename(dir / file)
    return dir / file
