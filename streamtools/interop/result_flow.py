"""The flow of results: ordinary messages of the stored history, which each provider's history has in its own shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .contributions import Contribution
from .formats import NATIVE_RESULT, TOOL_RESULT
from .lookup import adapter_for, first, unknown
from .meanings import InspectedResult
from .memory import Memory

__all__ = ["ResultFlow"]


class ResultFlow:
    """Accessors and adapters of results, in their order of precedence."""

    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = first(contributions, lambda c: c.result_accessors, lambda piece: piece.format)
        self._adapters = first(contributions, lambda c: c.result_adapters, lambda piece: (piece.source, piece.wire))
        self._memory = memory

    def inspect(self, result: Mapping[str, Any]) -> InspectedResult:
        """What a result means."""
        for accessor in self._accessors.values():
            if (found := accessor.inspect(result)) is not None:
                stored = found.format in (TOOL_RESULT, NATIVE_RESULT)  # a native one shows what it answers
                raw = stored and self._memory.is_freeform(found.tool_name)
                return replace(found, kind="custom") if raw else found
        raise unknown("result", result)

    def content(self, result: InspectedResult, wire: str) -> Any:
        """Its content in a wire's own shape, or None where the wire shall write it."""
        adapter = adapter_for(self._adapters, result.format, wire)
        content = None if adapter is None else adapter.adapt(result)
        return result.native.get(wire) if content is None else content
