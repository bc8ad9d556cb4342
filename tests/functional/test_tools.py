"""The scripts of tools/ that tests are run with."""
import os
import shutil
import subprocess

import pytest

from conftest import DEADLINE, ROOT

GOOD = "#!/bin/sh\necho 'ok   one'\necho '1 passed, 0 failed, 0 skipped'\n"
BAD = "#!/bin/sh\necho 'ok   one'\necho 'FAIL two'\necho 'FAIL three'\necho '1 passed, 2 failed, 0 skipped'\nexit 1\n"


class Tree:
    """A tree with nothing in it but what tools/run-tests looks for, all of it passing."""

    def __init__(self, dir):
        self.dir = dir
        shutil.copytree(ROOT / "tools", dir / "tools")
        self.put("tests/unit/loop/test_work.c", "TEST(threads)\n")
        self.put("tests/functional/test_one.py", "def test_one():\n    pass\n")
        self.put("tools/lint", "#!/bin/sh\n")
        self.put("tools/run-fuzz", "#!/bin/sh\necho 'fuzz: 1 passed, 0 failed'\n")
        for name in ("asan/tests/unit-good", "tsan/tests/unit-loop", "tsan/tests/unit-store"):
            self.put(f"build/{name}", GOOD)

    def put(self, path, text):
        file = self.dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run(self):
        return subprocess.run([self.dir / "tools/run-tests", "quick"], capture_output=True, text=True, timeout=DEADLINE,
                              env={"PATH": os.environ["PATH"], "HOME": "/nowhere"}, stdin=subprocess.DEVNULL)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_a_run_without_failures_ends_with_the_line_of_pytest(tree):
    done = tree.run()
    assert done.returncode == 0 and "1 passed" in done.stdout.splitlines()[-1], done.stdout


def test_a_run_goes_on_after_a_failing_group_and_lists_all_failures(tree):
    tree.put("tools/lint", "#!/bin/sh\nexit 1\n")
    tree.put("build/asan/tests/unit-bad", BAD)
    tree.put("build/asan/tests/unit-crash", "#!/bin/sh\nkill -SEGV $$\n")
    tree.put("tools/run-fuzz", "#!/bin/sh\nexit 1\n")
    tree.put("tests/functional/test_one.py", "def test_one():\n    assert False\n")
    done = tree.run()
    assert done.returncode == 1 and "unit good: 1 passed" in done.stdout
    listed = done.stdout.split("\nfailed:\n")[1].split("\n")
    assert listed == ["  lint: see above", "  unit bad: two", "  unit bad: three", "  unit crash: ended before its last test",
                      "  fuzz: see above", "  tests/functional/test_one.py::test_one - assert False", ""]


ONCE = """
import pathlib
def test_once():
    mark = pathlib.Path("mark")
    again = mark.exists()
    mark.touch()
    assert again, "%s"
"""


def test_what_passes_alone_is_named_unsteady(tree):
    tree.put("build/asan/tests/unit-once", "#!/bin/sh\n[ -e once ] || { touch once; echo FAIL one; exit 1; }\n" + GOOD)
    tree.put("tests/functional/test_one.py", ONCE % "late")
    done = tree.run()
    assert done.returncode == 0, done.stdout
    assert done.stdout.split("\nunsteady, passed only alone:\n")[1].split("\n") == [
        "  unit once: one", "  tests/functional/test_one.py::test_once - AssertionError: late", ""]


def test_a_report_of_a_sanitizer_is_not_excused(tree):
    tree.put("tests/functional/test_one.py", ONCE % "AddressSanitizer: heap-use-after-free")
    done = tree.run()
    assert done.returncode == 1 and "unsteady" not in done.stdout
    assert "test_once" in done.stdout.split("\nfailed:\n")[1]


def test_all_fuzz_targets_run_though_one_crashes(tree):
    shutil.copy(ROOT / "tools/run-fuzz", tree.dir / "tools/run-fuzz")
    for name, ends in (("a", "exit 77"), ("b", "echo stat::number_of_executed_units: 5")):
        tree.put(f"build/fuzz/tests/fuzz/fuzz-{name}", f"#!/bin/sh\n{ends}\n")
        tree.put(f"tests/fuzz/seeds/{name}/seed", "x")
    done = subprocess.run([tree.dir / "tools/run-fuzz", "1"], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and "fuzz a: FAILED" in done.stdout and "fuzz b: 5 runs" in done.stdout
    assert done.stdout.splitlines()[-1] == "fuzz: 1 passed, 1 failed"
