"""What a foreign schema, call or result means: the neutral descriptions that accessors give and adapters write from.

Each format is read and written once, so that eight formats need eight readers and eight writers, not sixty-four
translations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..content import Block, Grammar

__all__ = ["InspectedCall", "InspectedResult", "InspectedSchema"]


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
