"""Defines contributions: the meanings of foreign schemas, calls and results, and the precedence of their sources.

    explicit config  >  provider  >  provider extension  >  tool  >  built-in

Accessors describe a foreign object neutrally; adapters write an object of their format from that description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from ..content import Block, Grammar


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSchema:
    """The description of a tool's schema in any format."""

    format: str
    """The format in which it was written."""
    tool_name: str
    namespace: str | None = None
    """The group of tools that it belongs to, which is a part of `tool_name`: ``billing.get_eta``."""
    description: str = field(default="", repr=False)
    kind: Literal["function", "custom", "built_in"] = "function"
    """``custom``: takes one raw text. ``built_in``: its provider runs it."""
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the arguments; None if the tool is not a function. Part of the source: do not change it."""
    input_description: str | None = field(default=None, repr=False)
    """The description of a ``custom`` tool's text, for providers where it becomes a parameter."""
    grammar: Grammar | None = field(default=None, repr=False)
    """The grammar that the text of a ``custom`` tool must match."""
    strict: bool | None = None
    """True if the provider was asked to hold the model to the schema; None where the schema does not say."""
    title: str | None = field(default=None, repr=False)
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    annotations: Mapping[str, Any] | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Other fields that only its own format has (``cache_control``)."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The source schema: the very object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedCall:
    """The description of a call in any format."""

    tool_name: str
    """The tool's name in its source schema."""
    call_id: str | None
    """The id; None where the wire has none (MCP, older Gemini models)."""
    payload: Any = field(repr=False)
    """The tool's input: a dict, or the raw text. None if it cannot run, for the reason in `problem`."""
    payload_kind: Literal["object", "raw"]
    payload_format: str
    """The format in which the call was written."""
    namespace: str | None = None
    """The group of tools that its tool belongs to. It is a part of `tool_name`: ``billing.get_eta``."""
    payload_metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """``arguments_text`` (verbatim, where the wire has text), ``normalizations`` (lossless steps to the payload),
    ``unwrapped`` (True for raw text of a function's call), ``extra`` (fields that only the wire has)."""
    problem: str | None = None
    """The code of the problem (``incomplete_json``, ``invalid_arguments``, ``sanitized``), else None."""

    @property
    def dispatchable(self) -> bool:
        """True if the payload is the model's own; only such a call may run."""
        # Whether its turn ended well is another question, which a call cannot answer.
        return self.problem is None

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The payload for `Tool.validate`: raw text becomes the argument ``input``. None if the call may not run."""
        if self.problem is not None:
            return None
        return {"input": self.payload} if self.payload_kind == "raw" else self.payload


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedResult:
    """The description of a result in any format."""

    format: str
    """``tool_result``, ``provider_native_tool_result``, or the wire whose shape it has."""
    text: str = field(repr=False)
    """The whole content as text, with placeholders for all other content."""
    call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    """The content as blocks, if it is more than `text`. An attachment is a `Media` whose `state` is its `reference`."""
    native: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The content in the shape of a wire, by wire; it is sent to that wire unchanged."""
    kind: Literal["function", "custom"] = "function"
    """The kind of the call, if its shape shows it."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The result that was passed: the very object."""


Level: TypeAlias = Literal["config", "provider", "extension", "tool", "built_in"]

LEVELS: tuple[Level, ...] = get_args(Level)
"""The levels in order of precedence."""

JSON: TypeAlias = Mapping[str, Any]

# Each format is read and written once, by way of a description: eight formats need eight readers and eight writers,
# not sixty-four translations.


D = TypeVar("D", InspectedSchema, InspectedCall, InspectedResult)


@dataclass(frozen=True)  # no slots: an instance notes of which kind it is
class Accessor(Generic[D]):
    """Describes the schemas, calls or results of one format."""

    format: str
    inspect: Callable[[JSON], D | None] = field(repr=False)
    """Returns None where the dict is not of this format."""


@dataclass(frozen=True, slots=True)
class ToolCallAccessor:
    """Describes calls of one format."""

    format: str
    inspect: Callable[[JSON], InspectedCall | None] = field(repr=False)
    """Returns None where the dict is not of this format."""
    replace: Callable[[JSON, str | dict[str, Any]], dict[str, Any]] = field(repr=False)
    """Returns a copy of a call of this format with other arguments: a dict, or text for raw calls."""


@dataclass(frozen=True)  # no slots: an instance notes of which kind it is
class Adapter(Generic[D]):
    """Writes schemas or calls in one format, or the content of results for one wire."""

    format: str
    """The format; for results the wire, which puts them into a message itself."""
    adapt: Callable[[D], Any] = field(repr=False)
    """Returns a new dict that shares nothing with its argument; raises an `ExportError` if it cannot. For a result it
    returns the content; None leaves that to the wire."""
    source: str | None = None
    """The only format whose objects it writes; None: all formats."""


ToolSchemaAccessor: TypeAlias = Accessor[InspectedSchema]
"""Describes schemas of one format."""
ToolSchemaAdapter: TypeAlias = Adapter[InspectedSchema]
"""Writes schemas of any format in one format; with `source`, only those of that format."""
ToolCallAdapter: TypeAlias = Adapter[InspectedCall]
"""Writes calls in one format; with `source`, calls of that format only."""
ToolResultAccessor: TypeAlias = Accessor[InspectedResult]
"""Describes results of one format."""
ToolResultAdapter: TypeAlias = Adapter[InspectedResult]
"""Writes a result's content for one wire, which puts it into a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The additions of one party to a registry, for each flow."""

    name: str = ""
    """A name to show, and for `ToolInteropRegistry.without`."""
    schema_accessors: tuple[ToolSchemaAccessor, ...] = ()
    schema_adapters: tuple[ToolSchemaAdapter, ...] = ()
    call_accessors: tuple[ToolCallAccessor, ...] = ()
    call_adapters: tuple[ToolCallAdapter, ...] = ()
    result_accessors: tuple[ToolResultAccessor, ...] = ()
    result_adapters: tuple[ToolResultAdapter, ...] = ()
    input_descriptions: Mapping[str, str] = field(default_factory=dict)
    """The descriptions of tools' raw texts, by tool, for providers where the text becomes the parameter ``input``."""


def contribution_of(party: object) -> Contribution | None:
    """Returns the contribution of a tool, provider or extension; None if it contributes nothing.

    It is the party itself, or the result of its method ``get_tool_interop_contribution()``; a tool made from a function
    may have that on the function.

    Raises:
        TypeError: the method returned something else.
    """
    if isinstance(party, Contribution):
        return party
    # A decorated function is a tool, whose attributes are its own: the hook was set on the function.
    for owner in (party, getattr(party, "fn", None)):
        if (hook := getattr(owner, "get_tool_interop_contribution", None)) is not None:
            found = hook()
            if found is None or isinstance(found, Contribution):
                return found
            where, what = f"{type(owner).__name__}.get_tool_interop_contribution()", type(found).__name__
            raise TypeError(f"{where}: expected a Contribution or None, got {what}")
    return None
