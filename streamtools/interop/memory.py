"""What a request's registry remembers of the tools and calls that passed it, so that what comes back is understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InvalidArguments
from .formats import TARGET_FORMATS
from .meanings import InspectedCall, InspectedSchema

__all__ = ["Fitted", "Memory"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A function that one wire could not take as it was authored."""

    source_name: str
    name: str
    """The name under which the model calls."""
    parameters: Mapping[str, Any] = field(repr=False)
    description: str = field(repr=False)
    decode: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    """What the model sends to what the tool takes."""
    losses: tuple[str, ...] = ()


class Memory:
    """The tools of one request by the names under which the model calls them. `keeps` is False where there is no
    request to belong to: then nothing is kept."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._freeform: set[str] = set()
        self._sanitized: set[str] = set()
        self._fitted: dict[tuple[str, str], Fitted] = {}
        self._names: dict[tuple[str, str], str] = {}

    def note_schema(self, schema: InspectedSchema) -> None:
        """Keeps that a tool takes raw text."""
        if self._keeps and schema.kind == "custom":
            self._freeform.add(schema.tool_name)

    def note_fitted(self, fitted: Fitted, wire: str) -> None:
        """Keeps the way back from what a wire's model is told."""
        if self._keeps:
            self._fitted[wire, fitted.name] = fitted
            self._names[wire, fitted.source_name] = fitted.name

    def note_sanitized(self, call_id: str | None) -> None:
        """Keeps that a call lost its arguments."""
        if self._keeps and call_id is not None:
            self._sanitized.add(call_id)

    def is_freeform(self, name: str | None) -> bool:
        """Whether the tool of this name takes raw text."""
        return name in self._freeform

    def was_sanitized(self, call: InspectedCall) -> bool:
        """Whether this is what was left of a call; a later one of the same id, with arguments, is not."""
        return call.call_id in self._sanitized and not call.payload

    def name_on(self, wire: str, name: str) -> str:
        """The name of a tool on a wire."""
        return self._names.get((wire, name), name)

    def as_authored(self, call: InspectedCall, wire: str | None) -> InspectedCall:
        """A call as the tool's author meant it: its own name, its own parameters, raw text where it takes that.

        Without the wire that it came over it may be any that has calls of its format.
        """
        fitted = self._fitted_for(call, wire) if self._fitted else None
        if fitted is not None:
            call = _decoded(call, fitted)
        raw = call.problem is None and call.payload_kind == "object" and self.is_freeform(call.tool_name)
        return _unwrapped(call) if raw else call

    def _fitted_for(self, call: InspectedCall, wire: str | None) -> Fitted | None:
        any_of_format = (wire for wire, formats in TARGET_FORMATS.items() if call.payload_format in formats)
        wires = any_of_format if wire is None else (wire,)
        return next((found for wire in wires if (found := self._fitted.get((wire, call.tool_name)))), None)


def _decoded(call: InspectedCall, fitted: Fitted) -> InspectedCall:
    call = replace(call, tool_name=fitted.source_name)
    if call.problem is not None or call.payload_kind == "raw":
        return call
    try:
        payload = fitted.decode(call.payload)
    except InvalidArguments:
        return replace(call, payload=None, problem="invalid_arguments")
    if payload == call.payload:
        return call
    steps = (*call.payload_metadata.get("normalizations", ()), "decoded")
    return replace(call, payload=payload, payload_metadata={**call.payload_metadata, "normalizations": steps})


def _unwrapped(call: InspectedCall) -> InspectedCall:
    """A function's call to a freeform tool as the raw text that is meant."""
    metadata = {**call.payload_metadata, "unwrapped": True}
    text = call.payload.get("input")
    if call.payload.keys() == {"input"} and isinstance(text, str):
        return replace(call, payload=text, payload_kind="raw", payload_metadata=metadata)
    return replace(call, payload=None, payload_kind="raw", payload_metadata=metadata, problem="invalid_arguments")
