"""What hooks get and give."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class PluginContext:
    session_id: str = ""
    working_dir: str = ""
    user_text: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    memory: list = field(default_factory=list)
    turn_id: str = ""
    bot: str | None = None
    model: str | None = None
    depth: int = 0
    outcome: str | None = None

    def progress(self, text: str) -> None:
        """Tools say how far they are; nobody listens here."""


@dataclass
class ToolCall:
    tool_name: str
    tool_call_id: str = ""
    input: dict[str, Any] = field(default_factory=dict)


@dataclass
class ToolResult:
    tool_call_id: str = ""
    tool_name: str = ""
    output: str = ""
    success: bool = True
    error: str | None = None
