"""The hooks of several plugins around one agent's loop."""
from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from .loader import Plugin
from .models import PluginContext, ToolCall, ToolResult

logger = logging.getLogger("plugins")
ANSWERS = {"on_tool_call": ToolCall, "on_resolve_tool": ToolResult, "on_tool_result": ToolResult, "on_final": str,
           "on_user_message": str}


class PluginPipeline:
    """Plugins in the order in which they are asked.

    A function that fails, answers something of another kind, or takes longer than `timeout` seconds changes nothing:
    a warning names it, and the next one is asked. A plain function runs in a thread, so that its time counts, too.
    """

    def __init__(self, plugins: list[Plugin] | None = None, timeout: float = 5.0):
        self.plugins = list(plugins or [])
        self.timeout = timeout

    def __len__(self) -> int:
        return len(self.plugins)

    async def _ask(self, plugin: Plugin, point: str, fn, args) -> Any:
        try:
            if inspect.iscoroutinefunction(fn):
                value = await asyncio.wait_for(fn(*args), self.timeout)
            else:
                value = await asyncio.wait_for(asyncio.to_thread(fn, *args), self.timeout)
                if inspect.isawaitable(value):
                    value = await asyncio.wait_for(value, self.timeout)
        except asyncio.TimeoutError:
            logger.warning("plugin %s: %s took longer than %s s", plugin.name, point, self.timeout)
            return None
        except Exception as e:
            logger.warning("plugin %s: %s failed: %s: %s", plugin.name, point, type(e).__name__, e)
            return None
        want = ANSWERS.get(point)
        if value is not None and want is not None and not isinstance(value, want):
            logger.warning("plugin %s: %s answered %s, not %s", plugin.name, point, type(value).__name__, want.__name__)
            return None
        return value

    def _handlers(self, point: str, tool: str | None = None):
        return [(plugin, fn) for plugin in self.plugins for fn in plugin.handlers(point, tool)]

    async def _observe(self, point: str, *args) -> None:
        for plugin, fn in self._handlers(point):
            await self._ask(plugin, point, fn, args)

    async def _chain(self, point: str, tool: str | None, *args) -> Any:
        for plugin, fn in self._handlers(point, tool):
            answer = await self._ask(plugin, point, fn, args)
            if answer is not None:
                args = (*args[:-1], answer)
        return args[-1]

    async def on_begin(self, ctx: PluginContext) -> None:
        await self._observe("on_begin", ctx)

    async def on_user_message(self, ctx: PluginContext, text: str) -> str:
        return await self._chain("on_user_message", None, ctx, text)

    async def on_tool_call(self, ctx: PluginContext, call: ToolCall) -> ToolCall:
        """The call as the plugins want it; what runs is what is returned."""
        return await self._chain("on_tool_call", call.tool_name, ctx, call)

    async def on_resolve_tool(self, ctx: PluginContext, call: ToolCall) -> ToolResult | None:
        """The first answer of a plugin in the place of the tool; None: run it."""
        for plugin, fn in self._handlers("on_resolve_tool", call.tool_name):
            answer = await self._ask(plugin, "on_resolve_tool", fn, (ctx, call))
            if answer is not None:
                return answer
        return None

    async def on_tool_result(self, ctx: PluginContext, call: ToolCall, result: ToolResult) -> ToolResult:
        return await self._chain("on_tool_result", call.tool_name, ctx, call, result)

    async def on_final(self, ctx: PluginContext, text: str) -> str:
        return await self._chain("on_final", None, ctx, text)

    async def on_done(self, ctx: PluginContext) -> None:
        await self._observe("on_done", ctx)
