"""The flow of schemas: a tool's author writes one, a request takes it in its own format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ExportError
from .contributions import Contribution, ToolSchemaAdapter
from .fitting import fitted, with_fitted
from .formats import BUILT_IN, ToolInteropTarget, raw_formats
from .lookup import adapter_for, first, fitting_first, unknown, unreachable
from .meanings import InspectedSchema
from .memory import Memory
from .schemas import SCHEMA_ADAPTERS, losses, require_shallow

__all__ = ["ConvertedSchema", "SchemaFlow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedSchema:
    """A schema for one provider, and what that cost."""

    schema: dict[str, Any] = field(repr=False)
    """For the request; the very object that was given if its format is accepted as it is."""
    format: str
    inspected: InspectedSchema
    """What the source says."""
    losses: tuple[str, ...] = ()
    """What the format or the provider cannot say, one line each."""


class SchemaFlow:
    """Accessors and adapters of schemas, in their order of precedence."""

    def __init__(self, contributions: Sequence[Contribution], memory: Memory) -> None:
        self._accessors = first(contributions, lambda c: c.schema_accessors, lambda piece: piece.format)
        self._adapters = first(contributions, lambda c: c.schema_adapters, lambda piece: (piece.source, piece.format))
        self._written_formats = {format for _, format in self._adapters}
        self._inputs = {k: text for c in reversed(contributions) for k, text in c.input_descriptions.items()}
        self._memory = memory

    def inspect(self, schema: Mapping[str, Any]) -> InspectedSchema:
        """What a schema means."""
        for accessor in self._accessors.values():
            if (found := accessor.inspect(schema)) is not None:
                described = self._inputs.get(found.tool_name)
                return found if described is None else replace(found, input_description=described)
        raise unknown("schema", schema)

    def knows(self, format: str) -> bool:
        """Whether there is an accessor or an adapter for it, or its provider runs such tools itself."""
        return format in self._accessors or format in self._written_formats or format.endswith(BUILT_IN)

    def convert(
        self, schema: dict[str, Any], target: ToolInteropTarget, target_formats: Sequence[str] | None
    ) -> ConvertedSchema:
        """A schema in a format that the target accepts."""
        found = self.inspect(schema)
        self._memory.note_schema(found)
        wanted = target_formats or target.formats()
        if found.format in wanted or _is_run_by(found, target):
            return ConvertedSchema(schema=schema, format=found.format, inspected=found)
        problem: ExportError | None = None
        for format in fitting_first(wanted, raw=found.kind == "custom"):
            adapter = adapter_for(self._adapters, found.format, format)
            if adapter is None or found.kind == "built_in":
                continue
            try:
                return self._written(found, adapter, target)
            except ExportError as error:
                problem = problem or error
        raise problem or unreachable("schema", found.tool_name, found.format, wanted)

    def _written(
        self, found: InspectedSchema, adapter: ToolSchemaAdapter, target: ToolInteropTarget
    ) -> ConvertedSchema:
        require_shallow(found)
        fit = None
        if adapter in SCHEMA_ADAPTERS and adapter.format not in raw_formats():  # who contributes one knows its wire
            fit = fitted(found, target.wire)
        schema = adapter.adapt(found if fit is None else with_fitted(found, fit))
        lost = losses(found, adapter.format)
        if fit is not None:
            self._memory.note_fitted(fit, target.wire)
            lost += fit.losses
        return ConvertedSchema(schema=schema, format=adapter.format, inspected=found, losses=lost)


def _is_run_by(schema: InspectedSchema, target: ToolInteropTarget) -> bool:
    """Whether this is a tool that the target's provider runs itself.

    Raises:
        ExportError: it is one of another provider.
    """
    if schema.kind != "built_in":
        return False
    owner = schema.format.rpartition(".")[0]
    if owner != target.wire:
        raise ExportError(
            f"{schema.tool_name!r} is no function, so it is taken for a tool that is run by its provider ({owner}), "
            f"and {target} cannot have it"
        )
    return True
