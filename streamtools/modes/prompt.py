"""Describes the tools and the form of the answer to a model that gets no list of tools from its API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from ..tools import AnyTool, Tool, Toolset

__all__ = ["named_tools", "tool_prompt", "with_system_prompt"]

_SYSTEM_ROLES = ("system", "developer")

_FORM = """\
Reply with one JSON object and nothing else. To call a tool, one at a time:
{"tool": "<name>", "arguments": {<arguments by name>}}
To give the final answer:
{"answer": "<text>"}
To think first, begin any of these with a key "scratchpad"."""


def tool_prompt(tools: Iterable[AnyTool]) -> str:
    """Returns the tools and the form of the answer as text, for the system prompt of a model that gets them in no other
    way.

    The same tools give the same text, to the byte.

    Args:
        tools: the tools that the model may call.
    """
    lines = [_line(name, tool) for name, tool in named_tools(tools)]
    if not lines:
        return "There are no tools.\n\n" + _FORM
    return "\n".join(["Available tools:", *lines, "", _FORM])


def _line(name: str, tool: Tool) -> str:
    description = " ".join(tool.description.split())
    return f"- {name}: {description}\n  arguments: {orjson.dumps(tool.schema).decode()}"


def named_tools(tools: Iterable[AnyTool]) -> list[tuple[str, Tool]]:
    """Returns each tool with the name under which the model calls it.

    Raises:
        ToolDefinitionError: a function cannot be a tool, or two have one name.
    """
    return [(name, tool) for name, tool in Toolset(tools).items() if tool is not None]


def with_system_prompt(messages: Sequence[Mapping[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Returns the messages with `prompt` as system prompt: added to the first message if that is one, since many
    templates take only one."""
    copies = [dict(message) for message in messages]
    first = copies[0] if copies else {}
    content = first.get("content")
    if first.get("role") not in _SYSTEM_ROLES or not isinstance(content, (str, list)):
        return [{"role": "system", "content": prompt}, *copies]
    first["content"] = (
        f"{content}\n\n{prompt}" if isinstance(content, str) else [*content, {"type": "text", "text": prompt}]
    )
    return copies
