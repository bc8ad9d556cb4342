"""The files of plugins."""
from __future__ import annotations

import os
import pathlib
import re
import tempfile
import time

from .loader import load_plugin_from_file

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def home() -> pathlib.Path:
    return pathlib.Path(os.environ.get("AFLOAT_HOME") or pathlib.Path.home() / ".afloat")


def plugins_dir() -> pathlib.Path:
    return home() / "plugins"


def path_of(name: str) -> pathlib.Path:
    """Where a plugin's file is; ValueError for what is no name."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a plugin: a-z first, then a-z, 0-9, '-' and '_'; 64 at most")
    return plugins_dir() / f"{name}.py"


def save_plugin(name: str, content: str) -> pathlib.Path:
    """Write a plugin by rename, after it was loaded once; a fault leaves the old file as it was."""
    path = path_of(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".save-", dir=home()) as beside:
        draft = pathlib.Path(beside) / path.name
        draft.write_text(content, encoding="utf-8")
        draft.chmod(0o600)
        load_plugin_from_file(draft)
        draft.replace(path)
    return path


def list_plugins() -> list[dict]:
    """Every plugin: {name, path, hooks, metadata, error}. Runs the files."""
    rows = []
    for path in sorted(plugins_dir().glob("*.py")):
        try:
            plugin = load_plugin_from_file(path)
            rows.append({"name": plugin.name, "path": str(path), "hooks": plugin.hooks, "metadata": plugin.metadata,
                         "error": None})
        except (ImportError, ValueError, OSError) as e:
            rows.append({"name": path.stem, "path": str(path), "hooks": [], "metadata": {}, "error": str(e)})
    return rows


def delete_plugin(name: str) -> bool:
    """Move a plugin to the trash. False: there is none."""
    path = path_of(name)
    trash = home() / "trash"
    trash.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.rename(trash / f"{name}-{time.time_ns()}.py")
    except FileNotFoundError:
        return False
    return True
