"""Programs from npm that tests talk to, installed once from tests/peers/package-lock.json into build/peers."""
import fcntl
import shutil
import subprocess

import pytest

from conftest import ROOT

DIR = ROOT / "build" / "peers"
SOURCE = ROOT / "tests" / "peers"


def install():
    """The directory of the installed modules."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    DIR.mkdir(parents=True, exist_ok=True)
    with open(DIR / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in parallel
        want = (SOURCE / "package-lock.json").read_text()
        done = DIR / "installed.json"
        if not done.exists() or done.read_text() != want:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / name, DIR / name)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=DIR, check=True,
                           capture_output=True, timeout=300)
            done.write_text(want)
    return DIR / "node_modules"
