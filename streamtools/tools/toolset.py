"""The tools of one request, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .callables import refuse
from .tool import Tool, tool

__all__ = ["Toolset"]


class Toolset(Mapping[str, "Tool | None"]):
    """Tools by name, in the order given. A name without a schema maps to None.

    Args:
        tools: tools, plain functions (made tools as `tool` would), or bare names of which nothing more is known; or
            another toolset.

    Raises:
        ToolDefinitionError: two tools have one name, or a function cannot be a tool.
    """

    __slots__ = ("_tools", "names")

    def __init__(self, tools: Iterable[Tool | Callable[..., Any] | str] = ()) -> None:
        if isinstance(tools, (str, Tool)):
            raise TypeError("tools must be a list of tools, not a single one; write tools=[...]")
        self._tools: dict[str, Tool | None] = {}
        if isinstance(tools, Toolset):
            self._tools = tools._tools
        else:
            for given in tools:
                self._add(given)
        self.names = frozenset(self._tools)
        """The names of all tools."""

    def _add(self, given: Tool | Callable[..., Any] | str) -> None:
        made: Tool | None = None
        if isinstance(given, str):
            name = given
        else:
            made = given if isinstance(given, Tool) else tool(given)
            name = made.name
        if name in self._tools:
            raise refuse(name, "another tool has this name; pass tool(..., name='...')")
        self._tools[name] = made

    def __getitem__(self, name: str) -> Tool | None:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({list(self._tools)})"
