"""Functions in, tools out: their schemas, and the check of every call's arguments before it runs."""

from __future__ import annotations

from .binder import Binder, SchemaSource
from .context import ToolContext
from .exported import Exported
from .fingerprint import Grammar
from .tool import Bound, Effect, Tool, tool
from .toolset import AnyTool, Toolset

__all__ = [
    "AnyTool",
    "Binder",
    "Bound",
    "Effect",
    "Exported",
    "Grammar",
    "SchemaSource",
    "Tool",
    "ToolContext",
    "Toolset",
    "tool",
]
