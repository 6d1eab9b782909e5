"""Holds the tools of one request by name, also those that were exported for a provider."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from ..ground.text import shown_by
from ..parts import ToolCall
from .callables import refuse
from .definition import Tool
from .tool import tool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exported:
    """Holds a tool in the form of one wire, with the way back. Made by `streamtools.exports.export`.

    Pass it to ``pipeline(..., tools=[...])`` in the tool's place: the model's calls are then known by `name`, and their
    arguments go through `decode` before they are validated.
    """

    tool: Tool[..., Any]
    wire: str
    """The name of the wire's format (``openai.chat_completions``, ``mcp``)."""
    strict: bool = False
    """The provider holds the model to the payload's schema."""
    name: str
    """The name under which the model calls: the tool's own, unless the wire refuses that."""
    payload: dict[str, Any] = field(repr=False)
    """The entry for the request's list of tools (Gemini: of ``functionDeclarations``); yours to change."""
    decode: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    """Returns the tool's arguments for the model's: the inverse of all rewrites in the payload's schema."""
    rewritten: bool = False
    """True if `decode` changes anything, or `name` is not the tool's own: the payload alone is not enough."""
    losses: tuple[str, ...] = ()
    """The parts of the schema that the wire cannot express, one line each. Validation still enforces them."""

    __repr__ = shown_by("tool", "wire", "strict", "name", "rewritten", "losses")


AnyTool: TypeAlias = Tool[..., Any] | Exported | Callable[..., Any]
"""An item of a list of tools: a tool, a tool as it was exported, or a function to make a tool of."""

# mypy takes a list of two functions whose signatures differ, once it has a name of its own, for a `list[object]`.
AnyTools: TypeAlias = Iterable[AnyTool | Any]
"""A list of tools. Type checkers do not judge its items; one that is not a tool is refused when the list is passed."""


@cache
def approval_tool() -> Tool[..., Any]:
    # A tool, so that the question waits for an approval as any other call does, in the same events and records.
    return Tool.from_schema(_approved, {"type": "object"}, name="approval", effect="pure", needs_approval=True)


def _approved(**_: Any) -> str:
    """Let the provider run a call of its own."""
    return "approved"


def checked_list(tools: Any) -> Any:
    """Returns the tools; raises a `TypeError` for what is not a list of them: one tool alone, a mapping, or something
    else."""
    if type(tools) is list or type(tools) is tuple:  # as nearly always
        return tools
    if isinstance(tools, Mapping) and not isinstance(tools, Toolset):
        raise TypeError("tools is a mapping; pass its values: tools=[...]")
    if isinstance(tools, (str, Tool, Exported)) or (callable(tools) and not isinstance(tools, Iterable)):
        raise TypeError("tools: expected a list of tools, got a single one; write tools=[...]")
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools: expected a list of tools, got {type(tools).__name__}; write tools=[...]")
    return tools


class Toolset(Mapping[str, "Tool | None"]):
    """Maps the names under which the model calls tools to these, in the order given; a bare name to None.

    Args:
        tools: tools, exported tools, plain functions (made tools as `tool` would), or bare names; or another toolset.

    Raises:
        ToolDefinitionError: two tools have one name, or a function cannot be a tool.
    """

    __slots__ = ("_decoders", "_tools", "names")

    def __init__(self, tools: AnyTools = ()) -> None:
        checked_list(tools)
        self._tools: dict[str, Tool | None] = {}
        self._decoders: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {}
        if isinstance(tools, Toolset):
            self._tools, self._decoders = tools._tools, tools._decoders
        else:
            for given in tools:
                self._add(given)
        self.names = frozenset(self._tools)
        """The names of all tools."""

    def _add(self, given: AnyTool | str) -> None:
        made: Tool | None = None
        if isinstance(given, Tool):
            name, made = given.name, given
        elif isinstance(given, str):
            name = given
        elif isinstance(given, Exported):
            # By the name that the model calls, which the provider's form may have changed.
            name, made = given.name, given.tool
            if given.rewritten:
                self._decoders[name] = given.decode
        else:
            made = tool()(given)  # not `tool(None)`, which is a decorator
            name = made.name
        if name in self._tools:
            raise refuse(name, "another tool has this name; pass tool(..., name='...')")
        self._tools[name] = made

    def decode(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the tool's arguments for the model's, maybe the same object; raises `InvalidArguments`."""
        decoder = self._decoders.get(name)
        return arguments if decoder is None else decoder(arguments)

    def called(self, call: ToolCall) -> Tool | None:
        """Returns the tool that a call is for; None if there is none, or only one of another namespace."""
        found = self._tools.get(call.name)
        if found is None:
            return approval_tool() if call.kind == "approval" else None
        if call.namespace is None:
            return found
        # A tool without a namespace may be called `billing.get_eta`, too: names may have dots.
        return found if found.namespace is not None and found.namespace.name == call.namespace else None

    def items(self) -> ItemsView[str, Tool | None]:
        """Returns the names with their tools."""
        return self._tools.items()

    def values(self) -> ValuesView[Tool | None]:
        """Returns the tools."""
        return self._tools.values()

    def __getitem__(self, name: str) -> Tool | None:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolset({list(self._tools)})"


def toolset_of(tools: AnyTools | Toolset) -> Toolset:
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
    for name, one in toolset.items():
        if one is None:
            raise TypeError(f"a bare name ({name!r}) cannot be run; pass the tool or the function itself")
    return toolset
