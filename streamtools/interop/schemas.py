"""Holds the built-in accessors and adapters of schemas: they read and write each format by the row of its wire.

A reader takes any dict and returns None for one that is not of its format. A writer copies all it takes over, so that
the source stays as it was authored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from ..errors import ExportError
from ..limits import Limits
from ..schema.names import qualified
from ..text import deeper_than
from ..tools.formats import tool_formats
from ..wires import WIRES
from ..wires.tool_format import JSON, EntryFormat, NamespaceFormat, ToolEntry, ToolFormat
from .contributions import InspectedSchema, ToolSchemaAccessor, ToolSchemaAdapter
from .formats import BUILT_IN

__all__ = [
    "SchemaWriter",
    "alike",
    "freeform_parameters",
    "losses",
    "members",
    "namespace_format",
    "require_shallow",
    "schema_accessors",
    "schema_adapters",
]

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_MAX_DEPTH = 4 * Limits().max_schema_depth  # levels of JSON: a subschema may take four (properties, name, anyOf, place)
_INPUT_DESCRIPTION = "The whole input, as plain text."


def schema_accessors() -> tuple[ToolSchemaAccessor, ...]:
    """Returns the readers of all formats, in the order in which to ask them: formats with a mark of their own, and of
    these first the ones that know what they never have; tools that a provider runs itself, formats without a mark."""
    sure: list[ToolSchemaAccessor] = []
    bare: list[ToolSchemaAccessor] = []
    groups = _groups(tool_formats())
    for format in sorted(_entry_formats(tool_formats()).values(), key=lambda format: not format.never):
        inspect = partial(_inspected, format, groups[format.name])
        (bare if format.bare else sure).append(ToolSchemaAccessor(format.name, inspect))
    return (*sure, ToolSchemaAccessor(BUILT_IN, _built_in), *bare)


def schema_adapters() -> tuple[ToolSchemaAdapter, ...]:
    """Returns the writers of all formats."""
    formats = _entry_formats(tool_formats()).values()
    return tuple(ToolSchemaAdapter(format.name, SchemaWriter(format)) for format in formats)


def namespace_format(wire: str) -> NamespaceFormat | None:
    """Returns the form of a group of tools on a wire; None if the wire has none."""
    return next((format.namespace for format in tool_formats() if format.name == wire), None)


def members(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the tools of a group, each as a group of its own; a schema that is no group as it is."""
    groups = (format.namespace for format in tool_formats() if format.namespace is not None)
    return next((found for group in groups if (found := group.split(schema)) != [schema]), [schema])


def alike(format: str) -> frozenset[str]:
    """Returns the formats in which an entry of this one may be written, too."""
    found = _entry_formats(tool_formats()).get(format)
    return frozenset() if found is None else found.alike


def require_shallow(schema: InspectedSchema) -> None:
    """Refuses a schema that nobody could copy or write as JSON.

    Raises:
        ExportError: a part of the schema is nested too deep.
    """
    if deeper_than(_MAX_DEPTH, [schema.parameters, schema.output_schema, schema.annotations]):
        raise ExportError(f"tool {schema.tool_name!r}: its schema is nested deeper than {_MAX_DEPTH} levels")


def freeform_parameters(description: str | None) -> dict[str, Any]:
    """Returns the parameters of a freeform tool where it has to be a function: one text, called ``input``."""
    text = {"type": "string", "description": description or _INPUT_DESCRIPTION}
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}


# -- reading ----------------------------------------------------------------------------------------------------------


def _inspected(format: EntryFormat, group: NamespaceFormat | None, schema: JSON) -> InspectedSchema | None:
    namespace = None if group is None else group.name_of(schema)
    entry = format.read(schema if group is None or namespace is None else group.entry_in(schema))
    if entry is None:
        return None
    return InspectedSchema(
        format=format.name,
        tool_name=qualified(namespace, entry.name),
        namespace=namespace,
        description=entry.description,
        kind="custom" if format.freeform else "function",
        parameters=None if format.freeform else entry.schema or _NO_PARAMETERS,
        grammar=entry.grammar,
        strict=entry.strict,
        title=entry.title,
        output_schema=entry.output_schema,
        annotations=entry.annotations,
        extra=entry.extra,
        source=schema,
    )


def _built_in(schema: JSON) -> InspectedSchema | None:
    """Reads a tool that its provider runs itself."""
    for format in tool_formats():
        if format.hosted is not None and (name := format.hosted(schema)) is not None:
            return InspectedSchema(format=format.name + BUILT_IN, tool_name=name, kind="built_in", source=schema)
    return None


# -- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SchemaWriter:
    """Writes schemas in one format of a wire."""

    format: EntryFormat

    def __call__(self, schema: InspectedSchema) -> dict[str, Any]:
        """Returns the schema in this format; shares nothing with its source.

        Raises:
            ExportError: the tool takes an object, and the format is one of freeform tools.
        """
        if self.format.freeform and schema.kind != "custom" and not _takes_one_text(schema.parameters or {}):
            raise ExportError(
                f"tool {schema.tool_name!r} takes an object, which a custom tool cannot; accept a format of functions "
                "too"
            )
        entry = ToolEntry(
            name=schema.tool_name,
            description=schema.description,
            schema=_parameters(schema),
            output_schema=dict(schema.output_schema) if schema.output_schema else None,
            strict=schema.strict if _share_strictness(schema.format, self.format.name) else None,
            title=schema.title,
            annotations=schema.annotations,
            grammar=schema.grammar,
        )
        return copy.deepcopy(self.format.write(entry))


def _takes_one_text(parameters: JSON) -> bool:
    properties = _mapping(parameters.get("properties")) or {}
    only = _mapping(properties.get("input"))
    one = only is not None and properties.keys() == {"input"} and parameters.get("required") == ["input"]
    return one and only is not None and only.keys() <= {"type", "description", "title"} and only["type"] == "string"


def _parameters(schema: InspectedSchema) -> dict[str, Any]:
    if schema.kind == "custom":
        return freeform_parameters(schema.input_description)
    return dict(schema.parameters or _NO_PARAMETERS)


# -- losses -----------------------------------------------------------------------------------------------------------


def losses(schema: InspectedSchema, format: str) -> tuple[str, ...]:
    """Returns a line for each part of a schema that another format cannot say."""
    return tuple(_lost(schema, format))


def _lost(schema: InspectedSchema, name: str) -> Iterator[str]:
    format = _entry_formats(tool_formats()).get(name)
    if schema.grammar is not None and not (format and format.freeform):
        yield f"grammar ({schema.grammar.syntax}): the model is not held to it"
    if schema.strict and not _share_strictness(schema.format, name):
        yield "strict: each provider has rules of its own for it"
    if schema.output_schema and not (format and format.output_at):
        yield "output schema"
    if (schema.title or schema.annotations) and not (format and format.titled):
        yield "title and annotations"
    if schema.namespace is not None:
        yield f"group {schema.namespace!r}: its name is a part of the tool's, and its description is left out"
    if schema.extra:
        yield f"fields of {schema.format} alone: {', '.join(sorted(schema.extra))}"


# -- the rows of the wires --------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _entry_formats(formats: tuple[ToolFormat, ...]) -> Mapping[str, EntryFormat]:
    """Returns the formats by name. Several wires may have one of the same name: then the library's own wires win."""
    ordered = sorted(formats, key=lambda format: format.name not in WIRES)
    found: dict[str, EntryFormat] = {}
    for format in ordered:
        for entry in (format.function, format.freeform):
            if entry is not None:
                found.setdefault(entry.name, entry)
    return found


def _groups(formats: tuple[ToolFormat, ...]) -> Mapping[str, NamespaceFormat | None]:
    """Returns the forms of groups by the names of the formats of their tools."""
    ordered = sorted(formats, key=lambda format: format.namespace is not None)
    return {one.name: format.namespace for format in ordered for one in (format.function, format.freeform) if one}


def _share_strictness(source: str, wanted: str) -> bool:
    """Returns whether two formats mean the same by ``strict``."""
    return not _strict_dialects(source).isdisjoint(_strict_dialects(wanted))


def _strict_dialects(name: str) -> frozenset[str]:
    strict = (format.strict for format in tool_formats() if format.function.name == name)
    return frozenset(form.dialect.name for form in strict if form is not None and not form.whole_request)


def _mapping(value: object) -> JSON | None:
    return value if isinstance(value, Mapping) else None
