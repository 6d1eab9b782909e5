"""Defines contributions: what foreign schemas, calls and results mean, who may say so, and which of several wins.

    explicit config  >  provider  >  provider extension  >  tool  >  built-in

Accessors describe a foreign object neutrally, adapters write one of their format from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from ..content import Block, Grammar


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSchema:
    """Describes a tool's schema, whatever its format."""

    format: str
    """The format in which it was written."""
    tool_name: str
    namespace: str | None = None
    """The group of tools that it belongs to. It is a part of `tool_name`: ``billing.get_eta``."""
    description: str = field(default="", repr=False)
    kind: Literal["function", "custom", "built_in"] = "function"
    """``custom``: takes one raw text. ``built_in``: its provider runs it."""
    parameters: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the arguments; None if the tool is not a function. Part of the source: do not change it."""
    input_description: str | None = field(default=None, repr=False)
    """The description of a ``custom`` tool's text, where it has to become a parameter."""
    grammar: Grammar | None = field(default=None, repr=False)
    """The grammar that the text of a ``custom`` tool has to match."""
    strict: bool | None = None
    """True if the provider was asked to hold the model to the schema; None where the schema does not say."""
    title: str | None = field(default=None, repr=False)
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    annotations: Mapping[str, Any] | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Other fields, which are its own format's alone (``cache_control``)."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The schema as it was authored: the same object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedCall:
    """Describes a call, whatever its format."""

    tool_name: str
    """The tool's name as its source schema has it."""
    call_id: str | None
    """None where the wire has none (MCP, older Gemini models)."""
    payload: Any = field(repr=False)
    """The tool's input: a dict, or the raw text. None if there is nothing to run, for the reason in `problem`."""
    payload_kind: Literal["object", "raw"]
    payload_format: str
    """The format in which the call was written."""
    namespace: str | None = None
    """The group of tools that its tool belongs to. It is a part of `tool_name`: ``billing.get_eta``."""
    payload_metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """``arguments_text`` (verbatim, where the wire has text), ``normalizations`` (lossless steps to the payload),
    ``unwrapped`` (True for raw text of a function's call), ``extra`` (fields that are the wire's alone)."""
    problem: str | None = None
    """The code of the problem (``incomplete_json``, ``invalid_arguments``, ``sanitized``), else None."""

    @property
    def dispatchable(self) -> bool:
        """True if the payload is the model's own. Only such a call may run."""
        # Whether its turn ended well is another question, which a call cannot answer.
        return self.problem is None

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The payload as `Tool.validate` takes it: raw text is the one argument ``input``. None if it may not run."""
        if self.problem is not None:
            return None
        return {"input": self.payload} if self.payload_kind == "raw" else self.payload


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedResult:
    """Describes a result, whatever its format."""

    format: str
    """``tool_result``, ``provider_native_tool_result``, or the wire in whose shape it stands."""
    text: str = field(repr=False)
    """The whole content as text, with placeholders for all other content."""
    call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    """The content in pieces, if it is more than `text`. An attachment is a `Media` whose `state` is its `reference`."""
    native: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The content in a wire's own shape, by wire. It goes to that wire as it is."""
    kind: Literal["function", "custom"] = "function"
    """The kind of call that it answers, where its shape shows it."""
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The result as it was given: the same object."""


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
    """Returns a copy of a call of this format with other arguments: a dict, or for raw calls a text."""


@dataclass(frozen=True)  # no slots: an instance notes of which kind it is
class Adapter(Generic[D]):
    """Writes schemas or calls in one format, or the content of results for one wire."""

    format: str
    """The format; of results the wire, which finds their place in a message itself."""
    adapt: Callable[[D], Any] = field(repr=False)
    """Returns a new dict, which shares nothing with its argument, and raises an `ExportError` if it cannot write one.
    Of a result it returns the content; None leaves that to the wire."""
    source: str | None = None
    """The only format whose objects it writes; None writes those of all."""


ToolSchemaAccessor: TypeAlias = Accessor[InspectedSchema]
"""Describes schemas of one format."""
ToolSchemaAdapter: TypeAlias = Adapter[InspectedSchema]
"""Writes schemas in one format, whatever they were written in; with `source`, those of that format only."""
ToolCallAdapter: TypeAlias = Adapter[InspectedCall]
"""Writes calls in one format; with `source`, calls of that format only."""
ToolResultAccessor: TypeAlias = Accessor[InspectedResult]
"""Describes results of one format."""
ToolResultAdapter: TypeAlias = Adapter[InspectedResult]
"""Writes a result's content as one wire wants it; its place in a message is the wire's own business."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """Holds the additions of one party to a registry, each in its own flow."""

    name: str = ""
    """A name for people, and for `ToolInteropRegistry.without`."""
    schema_accessors: tuple[ToolSchemaAccessor, ...] = ()
    schema_adapters: tuple[ToolSchemaAdapter, ...] = ()
    call_accessors: tuple[ToolCallAccessor, ...] = ()
    call_adapters: tuple[ToolCallAdapter, ...] = ()
    result_accessors: tuple[ToolResultAccessor, ...] = ()
    result_adapters: tuple[ToolResultAdapter, ...] = ()
    input_descriptions: Mapping[str, str] = field(default_factory=dict)
    """The description of a tool's raw text, by tool, for providers where it has to become the parameter ``input``."""


def contribution_of(party: object) -> Contribution | None:
    """Returns the contribution of a tool, provider or extension; None if it contributes nothing.

    It is the party itself, or the result of its method ``get_tool_interop_contribution()``, which a tool made of a
    function may have on the function.

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
