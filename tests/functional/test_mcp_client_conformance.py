"""The official conformance suite against our MCP client: a hub and `afloat mcp login`, driven by a script."""
import os
import subprocess
import sys

import pytest

from conftest import BIN, ROOT
from test_mcp_conformance import NODE, TOOLS

pytestmark = pytest.mark.skipif(not NODE.exists(), reason="build/mcp is missing: run tools/mcp-tools")


def test_every_scenario_that_a_client_of_2025_11_25_needs_passes_or_is_listed(home):
    script = ROOT / "tests" / "peers" / "conformance_client.py"
    done = subprocess.run(
        [NODE, TOOLS / "@modelcontextprotocol/conformance/dist/index.js", "client", "--command", f"{sys.executable} {script}",
         "--requirements", "2025-11-25", "--timeout", "60000", "--expected-failures",
         ROOT / "tests" / "peers" / "expected-failures.yml"], capture_output=True, text=True, timeout=280,
        env={**home.env, "PATH": f"{NODE.parent}:{os.environ['PATH']}", "AFLOAT_BIN": BIN})
    assert done.returncode == 0, done.stdout[-4000:]
    assert "tools_call: 2 passed, 0 failed" in done.stdout and "auth/metadata-default: " in done.stdout
