"""The Python package `plugins`: the pipeline in a program of one's own."""
import os
import pathlib
import subprocess

import pytest

from conftest import ROOT

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures/python"
PROGRAM = '''
import asyncio
from plugins import (
    PluginPipeline,
    plugin_registry,
    load_plugin_from_file,
    save_plugin,
    list_plugins,
    delete_plugin,
)
from plugins.models import PluginContext, ToolCall, ToolResult

async def execute_tool(call):
    return ToolResult(tool_call_id=call.tool_call_id, tool_name=call.tool_name, output="ran " + call.input["cmd"])

async def main():
    available = plugin_registry.discover()
    print(available)
    plugin = plugin_registry.load("logger")
    print(plugin.name, plugin.hooks, plugin.metadata)
    plugins = plugin_registry.load_many(["logger", "footer"])
    pipeline = PluginPipeline(plugins)
    ctx = PluginContext(
        session_id="ses_123",
        working_dir="/path/to/project",
        user_text="Hello",
    )
    await pipeline.on_begin(ctx)
    call = ToolCall(tool_name="shell", tool_call_id="1", input={"cmd": "ls"})
    call = await pipeline.on_tool_call(ctx, call)
    resolved = await pipeline.on_resolve_tool(ctx, call)
    if resolved:
        result = resolved
    else:
        result = await execute_tool(call)
    result = await pipeline.on_tool_result(ctx, call, result)
    print(result.output)
    final_text = await pipeline.on_final(ctx, "Response text")
    print(final_text)
    await pipeline.on_done(ctx)
    save_plugin("my_plugin", "@on_begin\\nasync def init(ctx): pass")
    print([(p["name"], p["hooks"], p["error"]) for p in list_plugins()])
    print(delete_plugin("my_plugin"), delete_plugin("my_plugin"), plugin_registry.discover())

asyncio.run(main())
'''


@pytest.fixture
def run(tmp_path):
    (tmp_path / "plugins").mkdir()
    for name in ("logger", "footer"):
        (tmp_path / f"plugins/{name}.py").write_text((FIXTURES / f"{name}.py").read_text())

    def run(program):
        env = {"PATH": os.environ["PATH"], "AFLOAT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "runtime/python"),
               "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(["/usr/bin/python3", "-c", program], env=env, text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout
    run.dir = tmp_path
    return run


def test_the_seeds_own_program_runs(run):
    assert run(PROGRAM).splitlines() == [
        "['footer', 'logger']",
        "logger ['on_begin', 'on_tool_call', 'on_done'] {'api': '1.0', 'name': 'logger'}",
        "ran ls",
        "Response text", "", "---", "Session: ses_123", "Tools: shell",
        "[('footer', ['on_begin', 'on_tool_call', 'on_final'], None), ('logger', ['on_begin', 'on_tool_call', 'on_done'], "
        "None), ('my_plugin', ['on_begin'], None)]",
        "True False ['footer', 'logger']"]


def test_a_pipeline_chains_resolves_and_goes_on_after_faults(run):
    write = lambda name, text: (run.dir / f"plugins/{name}.py").write_text(text)  # noqa: E731
    write("a", "import time\n@on_final\ndef one(ctx, t): return t + '1'\n@on_final\nasync def two(ctx, t): return t + '2'\n"
               "@on_tool_call(tool='sh*')\ndef tag(ctx, call):\n    return ToolCall(call.tool_name, '', {'cmd': 'tagged'})\n"
               "@on_tool_result\ndef slow(ctx, call, r): time.sleep(5)\n")
    write("b", "@on_final\nasync def bad(ctx, t): return 1 / 0\n@on_final\nasync def wrong(ctx, t): return 7\n"
               "@on_resolve_tool\nasync def r(ctx, call):\n    return ToolResult(output='from b')\n")
    write("c", "@on_final\nasync def last(ctx, t): return t + 'c'\n"
               "@on_resolve_tool\nasync def r(ctx, call): raise SystemError('never asked')\n")
    assert run('''
import asyncio
from plugins import PluginPipeline, plugin_registry, PluginContext, ToolCall, ToolResult
p, ctx = PluginPipeline(plugin_registry.load_many(["a", "b", "c"]), timeout=0.2), PluginContext()
print(asyncio.run(p.on_final(ctx, "x")))
print(asyncio.run(p.on_tool_call(ctx, ToolCall("shell"))).input, asyncio.run(p.on_tool_call(ctx, ToolCall("read"))).input)
print(asyncio.run(p.on_resolve_tool(ctx, ToolCall("shell"))).output)
r = ToolResult(output="kept")
async def kept(): return await p.on_tool_result(ctx, ToolCall("shell"), r)
loop = asyncio.new_event_loop()
print(loop.run_until_complete(kept()) is r)
import os; import sys; sys.stdout.flush(); os._exit(0)
''').splitlines() == ["x12c", "{'cmd': 'tagged'} {}", "from b", "True"]


def test_faults_are_told_and_nothing_is_written_or_read_outside(run):
    assert run('''
from plugins import load_plugin_from_file, save_plugin, plugin_registry, plugins_dir
def told(fn, *args):
    try:
        fn(*args)
        print("no fault")
    except Exception as e:
        print(type(e).__name__, str(e).replace(str(plugins_dir().parent), "HOME").split("/")[-1])
save_plugin("good", "@on_begin\\ndef a(ctx): pass")
first = plugin_registry.load("good")
told(save_plugin, "good", "x = = 1")
told(save_plugin, "good", "\\n\\n1 / 0")
told(save_plugin, "good", "__plugin__ = {'api': '99.0'}")
told(save_plugin, "../x", "x = 1")
told(load_plugin_from_file, plugins_dir() / "absent.py")
print(plugin_registry.load("good") is first)
save_plugin("good", "@on_done\\ndef a(ctx): pass")
print(plugin_registry.load("good").hooks)
''').splitlines() == [
        "ImportError good.py:1: SyntaxError: invalid syntax (good.py, line 1)",
        "ImportError good.py:3: ZeroDivisionError: division by zero",
        "ValueError Incompatible plugin API version: 99.0 (expected 1.0)",
        "ValueError x' is no name for a plugin: a-z first, then a-z, 0-9, '-' and '_'; 64 at most",
        "FileNotFoundError absent.py'", "True", "['on_done']"]
