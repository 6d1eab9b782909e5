"""Who may say what formats mean and how they are written: contributions, and which of several wins.

    explicit config  >  provider  >  provider extension  >  tool  >  built-in

Accessors inspect, adapters translate; each of the three flows (schemas, calls, results) has its own kinds of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from .meanings import InspectedCall, InspectedResult, InspectedSchema

__all__ = [
    "LEVELS",
    "Contribution",
    "Level",
    "ToolCallAccessor",
    "ToolCallAdapter",
    "ToolResultAccessor",
    "ToolResultAdapter",
    "ToolSchemaAccessor",
    "ToolSchemaAdapter",
    "contribution_of",
]

Level: TypeAlias = Literal["config", "provider", "extension", "tool", "built_in"]
"""Where a contribution comes from."""

LEVELS: tuple[Level, ...] = get_args(Level)
"""In order of precedence."""

JSON: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolSchemaAccessor:
    """Says what schemas of one format mean."""

    format: str
    inspect: Callable[[JSON], InspectedSchema | None] = field(repr=False)
    """None where the dict is not of this format."""


@dataclass(frozen=True, slots=True)
class ToolSchemaAdapter:
    """Writes schemas in one format, whatever they were written in; with `source`, those of that format only."""

    format: str
    adapt: Callable[[InspectedSchema], dict[str, Any]] = field(repr=False)
    """Must not change or share what it is given. An `ExportError` says that it cannot."""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallAccessor:
    """Says what calls of one format mean."""

    format: str
    inspect: Callable[[JSON], InspectedCall | None] = field(repr=False)
    """None where the dict is not of this format."""
    replace: Callable[[JSON, str | dict[str, Any]], dict[str, Any]] = field(repr=False)
    """A copy of a call of this format with other arguments: a dict, or for raw calls a text."""


@dataclass(frozen=True, slots=True)
class ToolCallAdapter:
    """Writes calls in one format; with `source`, calls of that format only."""

    format: str
    adapt: Callable[[InspectedCall], dict[str, Any]] = field(repr=False)
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResultAccessor:
    """Says what results of one format mean."""

    format: str
    inspect: Callable[[JSON], InspectedResult | None] = field(repr=False)
    """None where the dict is not of this format."""


@dataclass(frozen=True, slots=True)
class ToolResultAdapter:
    """Writes a result's content as one wire wants it; where it stands in a message is the wire's own business."""

    wire: str
    adapt: Callable[[InspectedResult], Any] = field(repr=False)
    """None leaves it to the wire."""
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one party adds to a registry.

    Raises:
        TypeError: something stands in the wrong flow.
    """

    name: str = ""
    """For people, and for `ToolInteropRegistry.without`."""
    schema_accessors: tuple[ToolSchemaAccessor, ...] = ()
    schema_adapters: tuple[ToolSchemaAdapter, ...] = ()
    call_accessors: tuple[ToolCallAccessor, ...] = ()
    call_adapters: tuple[ToolCallAdapter, ...] = ()
    result_accessors: tuple[ToolResultAccessor, ...] = ()
    result_adapters: tuple[ToolResultAdapter, ...] = ()
    input_descriptions: Mapping[str, str] = field(default_factory=dict)
    """By tool: what its raw text is, for providers where it has to become the parameter ``input``."""

    def __post_init__(self) -> None:
        for flow in fields(self):
            wanted = _FLOWS.get(flow.name)
            if wanted is None:
                continue
            given = tuple(getattr(self, flow.name))
            object.__setattr__(self, flow.name, given)
            for piece in given:
                if not isinstance(piece, wanted):
                    name = type(piece).__name__
                    raise TypeError(f"Contribution({flow.name}=...) takes {wanted.__name__}s, not {name}")


_FLOWS: dict[str, type] = {
    "schema_accessors": ToolSchemaAccessor,
    "schema_adapters": ToolSchemaAdapter,
    "call_accessors": ToolCallAccessor,
    "call_adapters": ToolCallAdapter,
    "result_accessors": ToolResultAccessor,
    "result_adapters": ToolResultAdapter,
}


def contribution_of(party: object) -> Contribution | None:
    """What a tool, provider or extension contributes: itself, if it is a `Contribution`, or what its method
    ``get_tool_interop_contribution()`` returns; a tool made of a function may have it on the function. None if it
    contributes nothing.

    Raises:
        TypeError: the method returned something else.
    """
    if isinstance(party, Contribution):
        return party
    for owner in (party, getattr(party, "fn", None)):
        hook = getattr(owner, "get_tool_interop_contribution", None)
        if hook is None:
            continue
        found = hook()
        if found is None or isinstance(found, Contribution):
            return found
        name = type(owner).__name__
        raise TypeError(f"{name}.get_tool_interop_contribution() returned {type(found).__name__}, not a Contribution")
    return None


def contributions_of(parties: Iterable[object]) -> list[Contribution]:
    """All that several parties contribute, in their order."""
    return [found for party in parties if (found := contribution_of(party)) is not None]
