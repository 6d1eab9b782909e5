"""Defines contributions: what foreign schemas, calls and results mean, who may say so, and which of several wins.

    explicit config  >  provider  >  provider extension  >  tool  >  built-in

Accessors inspect: they describe a foreign object neutrally. Adapters write one of their format from such a description.
So each format is read and written once, and eight formats need eight readers and eight writers, not sixty-four
translations. Each of the three flows (schemas, calls, results) has its own kinds of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from ..content import Block, Grammar

__all__ = [
    "Contribution",
    "InspectedCall",
    "InspectedResult",
    "InspectedSchema",
    "LEVELS",
    "Level",
    "ToolCallAccessor",
    "ToolCallAdapter",
    "ToolResultAccessor",
    "ToolResultAdapter",
    "ToolSchemaAccessor",
    "ToolSchemaAdapter",
    "contribution_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSchema:
    """What a tool's schema says, whatever its format."""

    format: str
    """The format in which it was written."""
    tool_name: str
    description: str = field(default="", repr=False)
    kind: Literal["function", "custom", "built_in"] = "function"
    """``custom``: takes one raw text. ``built_in``: its provider runs it."""
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the arguments; None for what is no function. Part of the source: do not change it."""
    input_description: str | None = field(default=None, repr=False)
    """What the one text of a ``custom`` tool is, where it has to become a parameter."""
    grammar: Grammar | None = field(default=None, repr=False)
    """What the text of a ``custom`` tool has to match."""
    strict: bool | None = None
    """The provider was asked to hold the model to the schema; None where nothing was said."""
    title: str | None = field(default=None, repr=False)
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    annotations: Mapping[str, Any] | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What else stands there, and is its own format's alone (``cache_control``)."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The schema as it was authored: the same object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedCall:
    """What a call says, whatever its format."""

    tool_name: str
    """The tool's name as its source schema has it."""
    call_id: str | None
    """None where the wire has none (MCP, older Gemini models)."""
    payload: Any = field(repr=False)
    """What the tool gets: a dict, or the raw text. None if `problem` says why there is nothing to run."""
    payload_kind: Literal["object", "raw"]
    payload_format: str
    """The format in which the call was written."""
    payload_metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """``arguments_text`` (verbatim, where the wire has text), ``normalizations`` (lossless steps to the payload),
    ``unwrapped`` (raw text that came inside of a function call), ``extra`` (fields that are the wire's alone)."""
    problem: str | None = None
    """Code of what is wrong (``incomplete_json``, ``invalid_arguments``, ``sanitized``), else None."""

    @property
    def dispatchable(self) -> bool:
        """The payload is what the model said. Only such a call may run; whether its turn ended well is another
        question."""
        return self.problem is None

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The payload as `Tool.validate` takes it: raw text is the one argument ``input``. None if it may not run."""
        if self.problem is not None:
            return None
        return {"input": self.payload} if self.payload_kind == "raw" else self.payload


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedResult:
    """What a result says, whatever its format."""

    format: str
    """``tool_result``, ``provider_native_tool_result``, or the wire in whose shape it stands."""
    text: str = field(repr=False)
    """The whole content as text; placeholders stand for what is none."""
    call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    """The content in pieces, if it is more than `text` says. An attachment is a `Media` whose `state` is its
    `reference`."""
    native: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The content as one wire or another wants it, by wire. It goes to that wire as it is."""
    kind: Literal["function", "custom"] = "function"
    """What kind of call it answers, where its shape tells."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The result as it was given: the same object."""


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
