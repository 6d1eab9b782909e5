"""Functions in, tools out: their schemas, and the check of every call's arguments before it runs."""

from __future__ import annotations

from .context import ToolContext
from .tool import Bound, Effect, Tool, tool
from .toolset import Toolset

__all__ = ["Bound", "Effect", "Tool", "ToolContext", "Toolset", "tool"]
