"""Loaded plugins by name; a file that changed is loaded again."""
from __future__ import annotations

import os

from .loader import Plugin, load_plugin_from_file
from .storage import path_of, plugins_dir


class PluginRegistry:
    def __init__(self):
        self._loaded: dict[str, tuple[tuple, Plugin]] = {}

    def discover(self) -> list[str]:
        """The names of the plugins that are there; runs nothing."""
        return sorted(path.stem for path in plugins_dir().glob("*.py"))

    def load(self, name: str) -> Plugin:
        """The plugin of that name: the same one until its file changes. Raises as load_plugin_from_file() does."""
        path = path_of(name)
        at = os.stat(path)
        mark = (at.st_ino, at.st_size, at.st_mtime_ns)
        known = self._loaded.get(name)
        if known is None or known[0] != mark:
            known = (mark, load_plugin_from_file(path))
            self._loaded[name] = known
        return known[1]

    def load_many(self, names: list[str]) -> list[Plugin]:
        """These plugins, in this order; raises for the first that cannot be loaded."""
        return [self.load(name) for name in names]

    def reload(self, name: str) -> Plugin:
        """Load it anew. When that fails the good one stays."""
        path = path_of(name)
        plugin = load_plugin_from_file(path)
        at = os.stat(path)
        self._loaded[name] = ((at.st_ino, at.st_size, at.st_mtime_ns), plugin)
        return plugin

    def unload(self, name: str) -> bool:
        return self._loaded.pop(name, None) is not None


plugin_registry = PluginRegistry()
