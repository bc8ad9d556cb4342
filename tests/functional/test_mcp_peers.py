"""Real MCP servers from npm: the protocol's own demonstration server over both transports, and the file server."""
import json
import os
import shutil
import socket
import subprocess

import peers
import pytest

from conftest import free_port, retry
from test_agent import Session, one_call, work  # noqa: F401 (a fixture)
from test_mcp_client import configure, run, servers, wait_state

NODE = shutil.which("node") or "node"


@pytest.fixture(scope="module")
def modules():
    return peers.install()


def program(name, modules, package, *args, **more):
    keys = {"command": NODE, "args": [str(modules / "@modelcontextprotocol" / package / "dist/index.js"), *args], **more}
    return f"[mcp.{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())


@pytest.fixture
def remote(modules):
    """The address of a demonstration server that talks HTTP, and the process."""
    path = modules / "@modelcontextprotocol/server-everything/dist/index.js"
    major = int(subprocess.run([NODE, "--version"], capture_output=True, text=True).stdout[1:].split(".")[0])
    crypto = ["--experimental-global-webcrypto"] if major < 19 else []  # the SDK of this server expects it
    started = []
    with free_port() as port:
        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        def start():
            process = subprocess.Popen([NODE, *crypto, path, "streamableHttp"], env={**os.environ, "PORT": str(port)},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            started.append(process)
            retry(listens)
            return process

        yield f"http://127.0.0.1:{port}/mcp", start
    for process in started:
        process.kill()
        process.wait()


def test_the_demonstration_server_on_its_streams(home, start_hub, work, modules):
    configure(home, program("ev", modules, "server-everything"))
    start_hub()
    row = wait_state(home, "ev")
    assert row["protocol"] == "2025-11-25" and "ev__echo" in row["tools"] and "simple-prompt" in row["prompts"]
    s = Session(home, work, [one_call("ev__get-sum", a=2, b=40), one_call("ev__get-tiny-image"),
                             one_call("ev__trigger-long-running-operation", duration=1, steps=2), {"text": "x"}])
    assert s.ask()["state"] == "completed"
    sum_, image, long = [r["output"] for r in s.results()]
    assert "42" in sum_ and "[image, image/png, " in image and "completed" in long
    assert home.ok("x", "mcp:ev:args-prompt", "Paris", "Texas").strip().endswith("Paris, Texas?")
    assert run(home, "ev__get-structured-content", location="New York")["success"]


def test_the_demonstration_server_over_http_and_its_restart(home, start_hub, remote):
    url, start = remote
    first = start()
    configure(home, f'[mcp.far]\nurl = "{url}"\n')
    start_hub()
    wait_state(home, "far")
    assert run(home, "far__echo", message="hi")["output"] == "Echo: hi"
    first.kill()
    first.wait()
    assert "MCP server 'far'" in run(home, "far__echo", message="hi")["detail"]
    start()
    retry(lambda: servers(home)["far"]["state"] == "ready" and run(home, "far__echo", message="hi").get("success"))


def test_the_file_server_writes_in_its_directory_only(home, start_hub, work, modules, tmp_path):
    work.mkdir()
    (work / "a.txt").write_text("hello")
    configure(home, program("fs", modules, "server-filesystem", str(work), "/", cwd=str(work)))
    start_hub()
    wait_state(home, "fs")
    assert run(home, "fs__read_text_file", path=str(work / "a.txt"))["output"] == "hello"
    assert run(home, "fs__write_file", path=str(work / "b.txt"), content="b")["success"]
    assert (work / "b.txt").read_text() == "b"
    refused = run(home, "fs__write_file", path=str(tmp_path / "c.txt"), content="c")  # the server may, the sandbox says no
    assert not refused["success"] and not (tmp_path / "c.txt").exists()
