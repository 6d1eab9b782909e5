"""Names formats (the ways in which schemas and calls are written) and targets (the wires they are written for).

A format's name is its wire and its kind there: ``openai.responses.custom``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..errors import ExportError
from ..wires import CallFormat, Wire, known

MCP_CALL = CallFormat(name="mcp.tool", only=frozenset({"name", "arguments", "_meta", "task"}))

BUILT_IN = ".built_in"  # the end of the format of a tool that its provider runs itself (`anthropic.messages.built_in`)

STORED_WIRE = "openai.chat_completions"  # the wire in whose formats a stored history has its calls
TOOL_RESULT = "tool_result"
NATIVE_RESULT = "provider_native_tool_result"


def call_formats(wires: tuple[Wire, ...]) -> tuple[CallFormat, ...]:
    # Formats without a mark of their own last, since they recognise others' calls as theirs; first those that know a
    # field which they never have.
    formats = dict.fromkeys([*(format for wire in wires for format in wire.calls), MCP_CALL])
    return tuple(sorted(formats, key=lambda format: (format.bare, not format.never)))


def entry_of(format: str) -> str:
    """Returns the format of the tools that are called in `format`: the same, unless that is one of calls alone."""
    # Schemas and calls share the names of formats, but a wire may write calls in more ways than tools.
    tools = [tool for wire in known() for tool in wire.tools]
    if any(each.name == format for tool in tools for each in (tool.function, tool.freeform) if each):
        return format
    found = ((call, wire.tools[0]) for wire in known() for call in wire.calls if call.name == format and wire.tools)
    return next((((call.raw and tool.freeform) or tool.function).name for call, tool in found), format)


def raw_formats() -> frozenset[str]:
    return frozenset(format.name for wire in known() for format in wire.calls if format.raw)


@lru_cache(maxsize=1)
def _by_target(wires: tuple[Wire, ...]) -> dict[str, tuple[str, ...]]:
    named = {wire.name: tuple(format.name for format in wire.calls) for wire in wires}
    return {**named, "mcp": (MCP_CALL.name,)}


class _TargetFormats(Mapping[str, tuple[str, ...]]):
    """Maps all wires that are known at the moment of asking to their formats."""

    def __getitem__(self, wire: str) -> tuple[str, ...]:
        return _by_target(known())[wire]

    def __iter__(self) -> Iterator[str]:
        return iter(_by_target(known()))

    def __len__(self) -> int:
        return len(_by_target(known()))


TARGET_FORMATS: Mapping[str, tuple[str, ...]] = _TargetFormats()
"""The formats that each wire accepts by itself, the usual one first."""


@dataclass(frozen=True, slots=True)
class ToolInteropTarget:
    """The wire to translate for.

    For a wire of your own, pass the formats that it accepts, or contribute adapters for them.
    """

    wire: str

    def formats(self) -> tuple[str, ...]:
        """Returns the formats that the wire accepts by itself; raises an `ExportError` if the wire is unknown."""
        known = TARGET_FORMATS.get(self.wire)
        if known is None:
            names = ", ".join(TARGET_FORMATS)
            raise ExportError(f"no formats are known for {self.wire!r}; pass target_formats=[...] (known: {names})")
        return known

    def __str__(self) -> str:
        return self.wire
