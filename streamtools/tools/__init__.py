"""Makes tools from functions: their schemas, and the validation of every call's arguments before it runs.

tool(fn)                  of a typed function, also of a method in a class body, and of a freeform or lazy one
Tool.from_schema(fn, ...) of a schema that was written by hand or fetched, or of none
Tool.from_model(m, fn)    of a model that the function takes as a whole
Toolset(tools)            by name, for one request
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..content import Grammar
from ..ground.on_demand import names
from .binder import LARGE_CHARS, ArgumentsValidator, Binder, Coerce, SchemaSource, TakesLong
from .context import ToolContext
from .definition import Bound, Tool, validate_tool_call
from .options import AnyPolicy, Effect, Middleware, NeedsApproval, RunCall, ToolCallRequest, ToolKeywords
from .tool import framework_readers, tool, tools_of
from .toolset import AnyTool, AnyTools, Exported, Toolset

if TYPE_CHECKING:
    from ..testing.tool_classes import validate_tool_class
else:
    __getattr__ = names(__name__, {".testing.tool_classes": "validate_tool_class"})

_FRAMEWORKS = {
    "langchain_core.BaseTool": "langchain",
    "agents.FunctionTool": "openai_agents",
    "pydantic_ai.Tool": "pydantic_ai",
    "smolagents.Tool": "smolagents",
    "strands.AgentTool": "strands",
}


def _read(name: str, target: object) -> Any:
    # Loaded by the first such tool: most programs have none.
    return getattr(import_module("..integrations.framework_tools", __name__), name)(target)


framework_readers.update({kind: partial(_read, name) for kind, name in _FRAMEWORKS.items()})

__all__ = [
    "LARGE_CHARS", "AnyPolicy", "AnyTool", "AnyTools", "ArgumentsValidator", "Middleware", "Binder", "Bound", "Coerce",
    "Effect", "NeedsApproval", "Exported", "Grammar", "RunCall", "SchemaSource", "TakesLong", "Tool", "ToolCallRequest",
    "ToolContext", "ToolKeywords", "Toolset", "tool", "tools_of", "validate_tool_call", "validate_tool_class",
]  # fmt: skip
