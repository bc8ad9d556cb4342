"""One plugin file, loaded into this process."""
from __future__ import annotations

import pathlib
import types
from dataclasses import dataclass, field
from typing import Any, Callable

from .models import PluginContext, ToolCall, ToolResult

# hook points, in the order of a turn (made by tools/gen_reference_doc.py)
POINTS = ("on_begin",
          "on_user_message",
          "on_before_model",
          "on_model_delta",
          "on_after_model",
          "on_tool_call",
          "on_permission",
          "on_resolve_tool",
          "on_tool_result",
          "on_compact",
          "on_final",
          "on_done",
          "on_error")
# hook points: end
API_VERSION = "1.0"


@dataclass
class Plugin:
    """A loaded plugin: what it says of itself, and its functions for each hook, in the order of the file."""
    name: str
    path: pathlib.Path
    metadata: dict[str, Any]
    functions: list[tuple[str, dict, Callable]] = field(default_factory=list)
    offers: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def hooks(self) -> list[str]:
        """The names of its hooks, in the order of a turn."""
        have = {point for point, _, _ in self.functions}
        return [point for point in POINTS if point in have]

    def handlers(self, point: str, tool: str | None = None) -> list[Callable]:
        """Its functions for a hook; with the name of a tool only those that are meant for it."""
        import fnmatch
        found = [(-(o.get("priority") or 0), i, fn) for i, (p, o, fn) in enumerate(self.functions)
                 if p == point and (tool is None or fnmatch.fnmatchcase(tool, o.get("tool") or "*"))]
        return [fn for _, _, fn in sorted(found, key=lambda f: f[:2])]


def _hook(plugin: Plugin, point: str):
    def decorate(fn=None, **options):
        def add(f):
            plugin.functions.append((point, options, f))
            return f
        return add if fn is None else add(fn)
    return decorate


def _offer(plugin: Plugin, kind: str):
    """tool, route, ...: as a decorator or as a call; kept, never run."""
    def offer(*args, **options):
        plugin.offers.append((kind, args or options))
        if len(args) == 1 and callable(args[0]) and not options:
            return args[0]
        return lambda f=None: f if f is not None else options.get("default")
    return offer


def _names(plugin: Plugin) -> dict[str, Any]:
    """What a plugin file finds without an import."""
    import logging
    names = {point: _hook(plugin, point) for point in POINTS}
    names.update({kind: _offer(plugin, kind) for kind in ("tool", "route", "command", "prompt", "flag", "preserve_ui", "on")})
    names.update(PluginContext=PluginContext, ToolCall=ToolCall, ToolResult=ToolResult, options={},
                 log=logging.getLogger(f"plugin.{plugin.name}"), response=lambda **answer: answer)
    return names


def check_api(version: Any) -> None:
    if not isinstance(version, str) or version.split(".")[0] != API_VERSION.split(".")[0]:
        raise ValueError(f"Incompatible plugin API version: {version} (expected {API_VERSION})")


def load_plugin_from_file(path: str | pathlib.Path) -> Plugin:
    """Run the file and return its plugin.

    FileNotFoundError: there is none. ImportError: it fails, with the place in it. ValueError: it is written for
    another version of the interface.
    """
    path = pathlib.Path(path)
    source = path.read_text(encoding="utf-8")
    plugin = Plugin(path.stem, path, {})
    module = types.ModuleType(f"plugin_{path.stem}")
    module.__file__ = str(path)
    module.__dict__.update(_names(plugin))
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as e:
        line = e.lineno if isinstance(e, SyntaxError) else _line_of(e, str(path))
        raise ImportError(f"Failed to execute plugin {path}:{line}: {type(e).__name__}: {e}", path=str(path)) from e
    said = module.__dict__.get("__plugin__")
    if said is not None and not isinstance(said, dict):
        raise ImportError(f"Failed to execute plugin {path}: __plugin__ must be a dict", path=str(path))
    plugin.metadata = {"api": API_VERSION, "name": path.stem, **(said or {})}
    check_api(plugin.metadata["api"])
    return plugin


def _line_of(e: BaseException, path: str) -> int:
    line, tb = 0, e.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == path:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line
