"""Reads the answer as JSON of a type that the caller asked for, while it streams.

Previews are only for display. The value is made from the whole text once the answer has ended well. Nothing is
completed, guessed or raised: an answer that does not match the type is text with a problem.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from ..errors import InvalidArguments
from ..events import Event, OutputDelta, OutputEnd, RefusalDelta, StreamEnd, TextDelta
from ..limits import Limits
from ..tools import LARGE_CHARS, TakesLong, Tool, Toolset
from .arguments import Deferred, arguments_of
from .preview import Moments

Decode: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]


class TypedOutput:
    """A recipe for the stage: the type of the answer.

    Args:
        kind: a pydantic model, a dataclass or a ``TypedDict``; or a JSON Schema, which makes the value a dict; or
            either as `streamtools.exports.export_output` returns it, so that the answer is decoded before it is read.

    Raises:
        ToolDefinitionError: the type cannot be made into a schema.
        SchemaError: the schema is invalid or exceeds a limit.
    """

    name = "output"

    def __init__(self, kind: OutputType) -> None:
        self._decode: Decode | None = None
        if isinstance(kind, ExportedOutput):
            self._reader = kind.reader
            self._decode = kind.decode if kind.rewritten else None
        else:
            self._reader = answer_reader(kind)

    def build(self, _: Toolset, limits: Limits, __: str) -> OutputStage:
        """Makes the stage for one stream."""
        return OutputStage(self._reader, self._decode, limits)


class OutputStage:
    """Adds a preview after each text delta, and the checked value before the end."""

    handles = frozenset({TextDelta, RefusalDelta, StreamEnd})

    def __init__(self, reader: Tool[..., Any], decode: Decode | None, limits: Limits) -> None:
        self._reader = reader
        self._decode = decode
        self._limits = limits
        self._pieces: list[str] = []
        self._json = Moments(max_depth=limits.max_json_depth)
        self._is_refused = False
        self.may_defer = False

    def feed(self, event: Event) -> Iterable[Event | Deferred]:
        if isinstance(event, TextDelta):
            self._pieces.append(event.text)
            self._json.feed(event.text)
            return (event, OutputDelta(self._json, self._json.length))
        if isinstance(event, StreamEnd):
            return self._ended(event)
        self._is_refused = True
        return (event,)

    def finish(self) -> Iterable[Event]:
        return ()

    def _ended(self, end: StreamEnd) -> Iterable[Event | Deferred]:
        text = "".join(self._pieces)
        if (problem := self._why_not(text, end)) is not None:
            return (OutputEnd(problem=problem), end)
        if self.may_defer and len(text) > LARGE_CHARS:
            return (self._deferred(text, end),)
        try:
            return self._judged(text, end, quick=self.may_defer)
        except TakesLong:
            return (self._deferred(text, end),)

    def _why_not(self, text: str, end: StreamEnd) -> str | None:
        if self._is_refused:
            return "the model refused"
        if not end.ended_well:
            ended_by = "an error" if end.error is not None else end.finish or "no finish reason"
            return f"the answer did not end normally: {ended_by}"
        return None if text.strip() else "the answer has no text"

    def _deferred(self, text: str, end: StreamEnd) -> Deferred:
        unread = partial(_unread, end)
        return Deferred(run=partial(self._judged, text, end), refuse=unread, timeout_s=self._limits.tool_timeout)

    def _judged(self, text: str, end: StreamEnd, *, quick: bool = False) -> Iterable[Event]:
        found = arguments_of(text, self._limits)
        if isinstance(found, str):
            return (OutputEnd(problem=f"the text is not a JSON object ({found})"), end)
        value, steps = found
        try:
            if self._decode is not None:
                value = self._decode(value)
            verbatim = not steps and self._decode is None
            bound = self._reader.validate(value, text=text if verbatim else None, quick=quick)
        except InvalidArguments as error:
            return (OutputEnd(problem="; ".join(error.problems)), end)
        return (OutputEnd(value=self._reader(*bound.args, **bound.kwargs)), end)


def _unread(end: StreamEnd, why: str) -> list[Event]:
    return [OutputEnd(problem=f"the text could not be checked {why}"), end]


# -- an answer as a type --

# Its reader is a tool: an answer is validated, coerced and bounded as a call's arguments are.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExportedOutput:
    """The type of an answer for one wire, with the way back. Made by `streamtools.exports.export_output`.

    Add `request` to the provider's request, and pass the whole object as ``output=``: the answer goes through `decode`
    before it is validated.
    """

    reader: Tool[..., Any] = field(repr=False)
    """Checks the answer by the type's own schema, whatever the provider was told."""
    wire: str
    """The name of the wire it was exported for."""
    strict: bool
    """True if the provider makes the model follow the request's schema."""
    name: str
    """The schema's name, for providers that want one."""
    decode: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    """Turns the model's answer back into the type's form: undoes what the request expresses differently."""
    rewritten: bool = False
    """True if `decode` changes something, so that sending the request is not enough."""
    losses: tuple[str, ...] = ()
    """The parts of the schema that the wire cannot express, one line each. Validation still enforces them."""
    _pickled: bytes = field(repr=False)

    @property
    def request(self) -> dict[str, Any]:
        """The request's fields: ``client.chat.completions.create(..., **exported.request)``; a fresh copy."""
        copied: dict[str, Any] = pickle.loads(self._pickled)  # bytes of our own, and the quickest exact copy
        return copied


OutputType: TypeAlias = type[Any] | Mapping[str, Any] | ExportedOutput
"""A pydantic model, a dataclass or a ``TypedDict``; a JSON Schema; or either of these, exported."""


def answer_reader(kind: type[Any] | Mapping[str, Any]) -> Tool[..., Any]:
    """Returns a tool that takes an answer as its arguments and returns the value: a dict, for a schema. Raises
    `ToolDefinitionError` if the type cannot be made into a schema, `SchemaError` if it is invalid or too large."""
    if isinstance(kind, Mapping):
        return Tool.from_schema(_same, kind, name="output", description="The answer.", pass_as="mapping")
    return Tool.from_model(kind, _same, name="output", description="The answer.")


def _same(value: Any) -> Any:
    return value
