"""The flow of calls: the model makes them in one format, the program and other providers read them in another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ExportError
from .calls import SanitizedCall
from .contributions import Contribution, ToolCallAccessor
from .formats import raw_formats
from .lookup import adapter_for, first, fitting_first, unknown, unreachable
from .meanings import InspectedCall
from .memory import Memory

__all__ = ["CallFlow"]


class CallFlow:
    """Accessors and adapters of calls, in their order of precedence."""

    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = first(contributions, lambda c: c.call_accessors, lambda piece: piece.format)
        self._adapters = first(contributions, lambda c: c.call_adapters, lambda piece: (piece.source, piece.format))
        self._memory = memory

    def inspect(self, call: Mapping[str, Any], wire: str | None = None) -> InspectedCall:
        """What a call means that came over a wire."""
        found = self._memory.as_authored(self._read(call)[0], wire)
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
        came_over: str | None = None,
    ) -> dict[str, Any]:
        """A call in one of the formats wanted. Without a wire it is as the tool's author meant it: under the tool's
        own name, with its own parameters."""
        found = self.inspect(call, came_over)
        name = found.tool_name if wire is None else self._memory.name_on(wire, found.tool_name)
        if found.payload_format in wanted and not self._wants_change(call, found, wire, wanted):
            return call if found.problem is None else self.sanitize(call, complete=True)
        if found.call_id is None and wire is not None:
            found = replace(found, call_id=_made_up(found, seed))
        problem: ExportError | None = None
        for format in fitting_first(wanted, raw=found.payload_kind == "raw"):
            adapter = adapter_for(self._adapters, found.payload_format, format)
            if adapter is None:
                continue
            try:
                written = adapter.adapt(replace(found, tool_name=name))
            except ExportError as error:
                problem = problem or error
                continue
            return written if found.problem is None else self._flagged(written, call, found)
        raise problem or unreachable("call", found.tool_name, found.payload_format, wanted)

    def _wants_change(
        self, call: Mapping[str, Any], found: InspectedCall, wire: str | None, wanted: Sequence[str]
    ) -> bool:
        """Whether a call of an accepted format has to be written anew: for its raw text, its name or its arguments."""
        if found.payload_metadata.get("unwrapped") and not raw_formats().isdisjoint(wanted):
            return True
        if wire is None:
            decoded = "decoded" in found.payload_metadata.get("normalizations", ())
            return decoded or self._read(call)[0].tool_name != found.tool_name
        return self._read(call)[0].tool_name != self._memory.name_on(wire, found.tool_name)

    def sanitize(self, call: dict[str, Any], *, complete: bool) -> dict[str, Any]:
        """A call that may stand in a history."""
        if isinstance(call, SanitizedCall):
            return call
        try:
            found, accessor = self._read(call)
        except ExportError:
            return call
        steps = found.payload_metadata.get("normalizations", ())
        if found.problem is None and (complete or "empty_arguments" not in steps):
            return accessor.replace(call, found.payload) if steps else call
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
        raise unknown("call", call)


def _made_up(call: InspectedCall, seed: str) -> str:
    digest = hashlib.blake2b(f"{seed}\0{call.tool_name}".encode("utf-8", "replace"), digest_size=12)
    return f"call_{digest.hexdigest()}"
