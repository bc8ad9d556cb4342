"""Afloat's plugins in a Python program of your own: load the files, run their hooks around your agent's loop.

    from plugins import PluginPipeline, plugin_registry
    from plugins.models import PluginContext, ToolCall, ToolResult

    pipeline = PluginPipeline(plugin_registry.load_many(["logger", "footer"]))
    await pipeline.on_begin(ctx)

Only the standard library is needed. Files are those of $AFLOAT_HOME/plugins (~/.afloat/plugins), and of no other
layer; what else a plugin registers there (tools, routes, commands) is kept in `Plugin.offers` and not run.
"""
from .loader import Plugin, load_plugin_from_file
from .models import PluginContext, ToolCall, ToolResult
from .pipeline import PluginPipeline
from .registry import PluginRegistry, plugin_registry
from .storage import delete_plugin, list_plugins, plugins_dir, save_plugin

__all__ = ["Plugin", "PluginContext", "PluginPipeline", "PluginRegistry", "ToolCall", "ToolResult", "delete_plugin",
           "list_plugins", "load_plugin_from_file", "plugin_registry", "plugins_dir", "save_plugin"]
