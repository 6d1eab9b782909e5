"""Finds the formats in which a tool can be told: MCP's, and those of all wires that are known at that moment.

MCP is no wire, since no model speaks it, but its ``tools/list`` tells tools as the wires do.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..errors import ExportError
from ..schema.dialects import MCP as MCP_DIALECT
from ..schema.names import NameRule
from ..text import known_names
from ..wires import Wire, known
from ..wires.tool_format import EntryFormat, ToolFormat

__all__ = ["HINTS", "MCP", "STRICT", "find", "short_names", "targets", "tool_formats"]


HINTS: Mapping[str, Mapping[str, bool]] = {
    "pure": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "once": {},
}
"""The annotations that tell an effect. https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""

MCP = ToolFormat(
    name="mcp",
    dialect=MCP_DIALECT,
    # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
    names=NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 128),
    function=EntryFormat(name="mcp.tool", schema_at=("inputSchema",), output_at="outputSchema", titled=True),
    tells_results=True,
)


STRICT = ".strict"
"""The end of a format's name that means its strict form."""


def tool_formats() -> tuple[ToolFormat, ...]:
    """Returns every format: the wires', in the order of detection, and MCP's."""
    return tuple(_by_name(known()).values())


def targets(*, strict: bool = False) -> tuple[str, ...]:
    """Returns the names that `export` takes: of the wires, of second forms of one (``gemini.parameters``), and ``mcp``.

    Args:
        strict: only those that have a strict form.
    """
    return tuple(format.name for format in tool_formats() if not strict or format.strict is not None)


def short_names() -> dict[str, str]:
    """Returns the wires' names by their short ones, which the command line alone takes."""
    return {wire.short_name: wire.name for wire in known() if wire.short_name is not None}


def find(wire: Wire | str, strict: bool) -> tuple[ToolFormat, bool]:
    """Returns the format of a wire or of that name, and whether its strict form is meant: by `strict`, or by what
    stands behind the name.

    Raises:
        ExportError: there is no such format, or it has no strict form.
    """
    if isinstance(wire, Wire):
        plain, found = wire.name, _usual(wire)
    else:
        plain = wire.removesuffix(STRICT)
        strict = strict or plain != wire
        found = _named(plain)
    if strict and found.strict is None:
        raise ExportError(f"{plain} has no strict form; these have: {', '.join(targets(strict=True))}")
    return found, strict


def _usual(wire: Wire) -> ToolFormat:
    if not wire.tools:
        raise ExportError(f"{wire.name} says no format of tools; give it one: Wire(..., tools=(ToolFormat(...),))")
    return wire.tools[0]


def _named(name: str) -> ToolFormat:
    found = _by_name(known()).get(name)
    if found is None:
        raise ExportError(f"unknown wire {name!r}; {known_names(name, targets(), short_names())}")
    return found


@lru_cache(maxsize=1)
def _by_name(wires: tuple[Wire, ...]) -> Mapping[str, ToolFormat]:
    return {format.name: format for format in (*(format for wire in wires for format in wire.tools), MCP)}
