"""Converts in three flows: schemas of a tool's author, calls of the model, results that go back to it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..errors import ExportError
from .calls import SanitizedCall
from .contributions import (
    Contribution,
    InspectedCall,
    InspectedResult,
    InspectedSchema,
    ToolCallAccessor,
    ToolSchemaAdapter,
)
from .formats import BUILT_IN, NATIVE_RESULT, TOOL_RESULT, ToolInteropTarget, entry_of, raw_formats
from .schemas import (
    Memory,
    SchemaWriter,
    alike,
    fitted,
    losses,
    members,
    namespace_format,
    require_shallow,
    with_fitted,
)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedSchema:
    """Holds a schema for one provider, and its losses."""

    schema: dict[str, Any] = field(repr=False)
    """The entry for the request; the very object that was given if its format is accepted as it is."""
    format: str
    inspected: InspectedSchema
    """The description of the source."""
    losses: tuple[str, ...] = ()
    """The parts that the format or the provider cannot express, one line each."""


class SchemaFlow:
    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = _first(contributions, lambda c: c.schema_accessors, lambda piece: piece.format)
        self._adapters = _first(contributions, lambda c: c.schema_adapters, lambda piece: (piece.source, piece.format))
        self._written_formats = {format for _, format in self._adapters}
        self._inputs = {k: text for c in reversed(contributions) for k, text in c.input_descriptions.items()}
        self._memory = memory

    def inspect(self, schema: Mapping[str, Any]) -> InspectedSchema:
        if (count := len(members(dict(schema)))) != 1:
            raise ExportError(f"expected the schema of one tool, got {count}; registry.describe(...) splits a group")
        # In their order of precedence: the first that recognises the schema reads it.
        for accessor in self._accessors.values():
            if (found := accessor.inspect(schema)) is not None:
                described = self._inputs.get(found.tool_name)
                return found if described is None else replace(found, input_description=described)
        raise _unknown("schema", schema)

    def knows(self, format: str) -> bool:
        """Returns whether there is an accessor or an adapter for it, or its provider runs such tools itself."""
        return self._knows(self._format(format)) or format.endswith(BUILT_IN)

    def _knows(self, format: str) -> bool:
        return format in self._accessors or format in self._written_formats

    def _format(self, wanted: str) -> str:
        return wanted if self._knows(wanted) else entry_of(wanted)

    def convert(
        self, schema: dict[str, Any], target: ToolInteropTarget, target_formats: Sequence[str] | None
    ) -> ConvertedSchema:
        found = self.inspect(schema)
        self._memory.note_schema(found)
        wanted = list(dict.fromkeys(map(self._format, target_formats or target.formats())))
        # The very object, if it may go as it is: its author may have used fields that no description has.
        # In its group only where the target has groups.
        keeps_group = found.namespace is None or namespace_format(target.wire) is not None
        accepted = self._accepted(found, wanted) if keeps_group else None
        if accepted is not None or _is_run_by(found, target):
            return ConvertedSchema(schema=schema, format=accepted or found.format, inspected=found)
        adapters = _fitting(self._adapters, found.format, wanted, raw=found.kind == "custom")
        if not adapters:
            raise _unreachable("schema", found.tool_name, found.format, wanted)
        return _first_written(adapters, lambda adapter: self._written(found, adapter, target))

    def _accepted(self, found: InspectedSchema, wanted: Sequence[str]) -> str | None:
        if found.format in wanted or found.kind == "built_in":
            return found.format if found.format in wanted else None
        # An entry may be of two formats: those of Gemini's Interactions are of the Responses API, too, where they have
        # no `strict`.
        twins = (name for name in wanted if name in alike(found.format) and name in self._accessors)
        return next((name for name in twins if self._accessors[name].inspect(found.source) is not None), None)

    def _written(
        self, found: InspectedSchema, adapter: ToolSchemaAdapter, target: ToolInteropTarget
    ) -> ConvertedSchema:
        require_shallow(found)
        own = adapter.adapt
        # Only our own writers need a schema that is fitted to the provider: a contributed adapter knows its wire.
        fits = isinstance(own, SchemaWriter) and (not own.format.freeform or found.namespace is not None)
        fit = fitted(found, target.wire) if fits else None
        schema = adapter.adapt(found if fit is None else with_fitted(found, fit))
        lost = losses(found, adapter.format)
        if fit is not None:
            self._memory.note_fitted(fit, target.wire)
            lost += fit.losses
        return ConvertedSchema(schema=schema, format=adapter.format, inspected=found, losses=lost)


def _is_run_by(schema: InspectedSchema, target: ToolInteropTarget) -> bool:
    """Returns whether the target's provider runs this tool itself; raises an `ExportError` if another one does."""
    if schema.kind != "built_in":
        return False
    # No other provider has such a tool, so it is never translated.
    owner = schema.format.rpartition(".")[0]
    if owner != target.wire:
        raise ExportError(
            f"{schema.tool_name!r} is not a function, and taken for a tool that is run by its provider ({owner}), "
            f"which {target} cannot have"
        )
    return True


class CallFlow:
    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = _first(contributions, lambda c: c.call_accessors, lambda piece: piece.format)
        self._adapters = _first(contributions, lambda c: c.call_adapters, lambda piece: (piece.source, piece.format))
        self._memory = memory

    def inspect(self, call: Mapping[str, Any], wire: str | None = None) -> InspectedCall:
        found = self._memory.as_authored(self._read(call)[0], wire)
        # A call whose arguments were emptied must never run: neither while its object lives, which says so, nor after
        # the provider's history has been read again, where only its id is left.
        if isinstance(call, SanitizedCall):
            return replace(found, payload=None, problem=call.problem)
        if self._memory.was_sanitized(found):
            return replace(found, payload=None, problem="sanitized")
        return found

    def convert(
        self,
        call: dict[str, Any],
        wire: str | None,
        wanted: Sequence[str],
        *,
        seed: str = "",
        source_wire: str | None = None,
    ) -> dict[str, Any]:
        """Writes a call in one of the formats wanted; without a wire under the tool's own name and parameters."""
        found = self.inspect(call, source_wire)
        name = found.tool_name if wire is None else self._memory.name_on(wire, found.tool_name)
        if found.payload_format in wanted and not self._wants_change(call, found, wire, wanted):
            return call if found.problem is None else self.sanitize(call, complete=True)
        # Gemini may omit ids, and MCP has none, where most other wires need one for the result.
        if found.call_id is None and wire is not None:
            found = replace(found, call_id=_made_up(found, seed))
        adapters = _fitting(self._adapters, found.payload_format, wanted, raw=found.payload_kind == "raw")
        if not adapters:
            raise _unreachable("call", found.tool_name, found.payload_format, wanted)
        fits = wire is not None and name == found.tool_name and namespace_format(wire) is not None
        named = replace(found, tool_name=name, namespace=found.namespace if fits else None)
        written = _first_written(adapters, lambda adapter: adapter.adapt(named))
        return written if found.problem is None else self._flagged(written, call, found)

    def _wants_change(
        self, call: Mapping[str, Any], found: InspectedCall, wire: str | None, wanted: Sequence[str]
    ) -> bool:
        """Returns whether a call of an accepted format has to be written anew: for its text, name or arguments."""
        # Raw text that stands in a function's call, for a history that may have custom calls.
        if found.payload_metadata.get("unwrapped") and not raw_formats().isdisjoint(wanted):
            return True
        if wire is None:
            decoded = "decoded" in found.payload_metadata.get("normalizations", ())
            return decoded or self._read(call)[0].tool_name != found.tool_name
        # Without groups on the wire, the group's name becomes a part of the tool's.
        if found.namespace is not None and namespace_format(wire) is None:
            return True
        return self._read(call)[0].tool_name != self._memory.name_on(wire, found.tool_name)

    def sanitize(self, call: dict[str, Any], *, complete: bool) -> dict[str, Any]:
        if isinstance(call, SanitizedCall):
            return call
        try:
            found, accessor = self._read(call)
        except ExportError:
            return call  # of a format that nobody reads: it goes back as it is
        # In a turn that was cut, a call without arguments looks like one that was cut before they began.
        steps = found.payload_metadata.get("normalizations", ())
        if found.problem is None and (complete or "empty_arguments" not in steps):
            return accessor.replace(call, found.payload) if steps else call
        # `{}` is for the history alone. Run, it would be a call of a tool without required arguments.
        clean = accessor.replace(call, "" if found.payload_kind == "raw" else {})
        return self._flagged(clean, call, found)

    def _flagged(self, clean: dict[str, Any], call: Mapping[str, Any], found: InspectedCall) -> SanitizedCall:
        raw = call.raw if isinstance(call, SanitizedCall) else found.payload_metadata.get("arguments_text")
        self._memory.note_sanitized(found.call_id)
        return SanitizedCall(clean, raw=raw, problem=found.problem or "incomplete_json")

    def _read(self, call: Mapping[str, Any]) -> tuple[InspectedCall, ToolCallAccessor]:
        for accessor in self._accessors.values():
            if (found := accessor.inspect(call)) is not None:
                return found, accessor
        raise _unknown("call", call)


def _made_up(call: InspectedCall, seed: str) -> str:
    # A hash: the same history has the same ids each time that it is converted, and in every process.
    digest = hashlib.blake2b(f"{seed}\0{call.tool_name}".encode("utf-8", "replace"), digest_size=12)
    return f"call_{digest.hexdigest()}"


class ResultFlow:
    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = _first(contributions, lambda c: c.result_accessors, lambda piece: piece.format)
        self._adapters = _first(contributions, lambda c: c.result_adapters, lambda piece: (piece.source, piece.wire))
        self._memory = memory

    def inspect(self, result: Mapping[str, Any]) -> InspectedResult:
        for accessor in self._accessors.values():
            if (found := accessor.inspect(result)) is not None:
                # A native one shows the kind of its call, `custom_tool_call_output`; a stored one does not.
                stored = found.format in (TOOL_RESULT, NATIVE_RESULT)
                raw = stored and self._memory.is_freeform(found.tool_name)
                return replace(found, kind="custom") if raw else found
        raise _unknown("result", result)

    def content(self, result: InspectedResult, wire: str) -> Any:
        adapter = _adapter_for(self._adapters, result.format, wire)
        content = None if adapter is None else adapter.adapt(result)
        return result.native.get(wire) if content is None else content


# -- shared by the flows --


def _first(
    contributions: Iterable[Contribution], pieces: Callable[[Contribution], Iterable[T]], key: Callable[[T], K]
) -> dict[K, T]:
    found: dict[K, T] = {}
    for contribution in contributions:
        for piece in pieces(contribution):
            found.setdefault(key(piece), piece)
    return found


def _adapter_for(adapters: Mapping[tuple[str | None, str], T], source: str, format: str) -> T | None:
    return adapters.get((source, format)) or adapters.get((None, format))


def _fitting(
    adapters: Mapping[tuple[str | None, str], T], source: str, formats: Sequence[str], *, raw: bool
) -> list[T]:
    """Returns the adapters to try, in their order: those of the same kind of payload before the others."""
    # Raw text stays raw, and an object an object, wherever one of the accepted formats allows it.
    raw_ones = raw_formats()
    ordered = sorted(formats, key=lambda format: (format in raw_ones) is not raw)
    return [found for format in ordered if (found := _adapter_for(adapters, source, format)) is not None]


def _first_written(adapters: Sequence[T], write: Callable[[T], W]) -> W:
    """Writes with the first adapter that can; if none can, the first one's reason is raised."""
    problems: list[ExportError] = []
    for adapter in adapters:
        try:
            return write(adapter)
        except ExportError as error:
            # The next format may carry what this one cannot: an object, where this one is of raw text.
            problems.append(error)
    raise problems[0]


def _unknown(what: str, given: Mapping[str, Any]) -> ExportError:
    keys = ", ".join(sorted(str(key) for key in given)[:12]) or "none"
    return ExportError(f"no accessor knows this {what} (its keys: {keys}); contribute one for its format")


def _unreachable(what: str, name: str, source: str, wanted: Sequence[str]) -> ExportError:
    return ExportError(
        f"the {what} of {name!r} is {source}, and no adapter writes it as {' or '.join(wanted)}; contribute one"
    )
