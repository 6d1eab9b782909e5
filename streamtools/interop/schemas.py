"""Reads and writes the schemas of functions in each provider's format, by the row of its wire, and fits them to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ..errors import ExportError, InvalidArguments, SchemaError, ToolDefinitionError
from ..exports import export, targets
from ..ground import deeper_than
from ..limits import Limits
from ..schema.names import qualified
from ..tools import Exported, Tool
from ..tools.entries import find, tool_formats
from ..wires import WIRES, EntryFormat, NamespaceFormat, ToolEntry, ToolFormat, object_of
from .contributions import InspectedCall, InspectedSchema, ToolSchemaAccessor, ToolSchemaAdapter
from .formats import BUILT_IN, TARGET_FORMATS

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_MAX_DEPTH = 4 * Limits().max_schema_depth  # levels of JSON: a subschema may take four (properties, name, anyOf, place)
_INPUT_DESCRIPTION = "The whole input, as plain text."


def schema_accessors() -> tuple[ToolSchemaAccessor, ...]:
    # Formats with a mark of their own, and of these first those that know a field which they never have; tools that a
    # provider runs itself; formats without a mark, which recognise many dicts as theirs.
    sure: list[ToolSchemaAccessor] = []
    bare: list[ToolSchemaAccessor] = []
    groups = _groups(tool_formats())
    for format in sorted(_entry_formats(tool_formats()).values(), key=lambda format: not format.never):
        inspect = partial(_inspected, format, groups[format.name])
        (bare if format.bare else sure).append(ToolSchemaAccessor(format.name, inspect))
    return (*sure, ToolSchemaAccessor(BUILT_IN, _built_in), *bare)


def schema_adapters() -> tuple[ToolSchemaAdapter, ...]:
    formats = _entry_formats(tool_formats()).values()
    return tuple(ToolSchemaAdapter(format.name, SchemaWriter(format)) for format in formats)


def namespace_format(wire: str) -> NamespaceFormat | None:
    return next((format.namespace for format in tool_formats() if format.name == wire), None)


def members(schema: dict[str, Any]) -> list[dict[str, Any]]:
    groups = (format.namespace for format in tool_formats() if format.namespace is not None)
    return next((found for group in groups if (found := group.split(schema)) != [schema]), [schema])


def alike(format: str) -> frozenset[str]:
    """Returns the other formats in which an entry of this one may be written unchanged."""
    found = _entry_formats(tool_formats()).get(format)
    return frozenset() if found is None else found.alike


def require_shallow(schema: InspectedSchema) -> None:
    # `deepcopy` and writers of JSON recurse: without this they would raise a RecursionError.
    if deeper_than(_MAX_DEPTH, [schema.parameters, schema.output_schema, schema.annotations]):
        raise ExportError(f"tool {schema.tool_name!r}: its schema is nested deeper than {_MAX_DEPTH} levels")


def freeform_parameters(description: str | None) -> dict[str, Any]:
    text = {"type": "string", "description": description or _INPUT_DESCRIPTION}
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}


# -- reading --


def _inspected(format: EntryFormat, group: NamespaceFormat | None, schema: Mapping[str, Any]) -> InspectedSchema | None:
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


def _built_in(schema: Mapping[str, Any]) -> InspectedSchema | None:
    for format in tool_formats():
        if format.hosted is not None and (name := format.hosted(schema)) is not None:
            return InspectedSchema(format=format.name + BUILT_IN, tool_name=name, kind="built_in", source=schema)
    return None


# -- writing --


@dataclass(frozen=True, slots=True)
class SchemaWriter:
    format: EntryFormat

    def __call__(self, schema: InspectedSchema) -> dict[str, Any]:
        """Returns the schema in this format, sharing nothing; raises an `ExportError` for an object as raw text."""
        if self.format.freeform and schema.kind != "custom" and not _accepts_one_text(schema.parameters or {}):
            raise ExportError(
                f"tool {schema.tool_name!r} takes an object, which a custom tool cannot; accept a function format, too"
            )
        entry = ToolEntry(
            name=schema.tool_name,
            description=schema.description,
            schema=freeform_parameters(schema.input_description)
            if schema.kind == "custom"
            else dict(schema.parameters or _NO_PARAMETERS),
            output_schema=dict(schema.output_schema) if schema.output_schema else None,
            strict=schema.strict if _share_strictness(schema.format, self.format.name) else None,
            title=schema.title,
            annotations=schema.annotations,
            grammar=schema.grammar,
        )
        return copy.deepcopy(self.format.write(entry))


def _accepts_one_text(parameters: Mapping[str, Any]) -> bool:
    properties = object_of(parameters.get("properties"))
    only = object_of(properties.get("input"))
    one = properties.keys() == {"input"} and parameters.get("required") == ["input"]
    return one and only.keys() <= {"type", "description", "title"} and only.get("type") == "string"


# -- the rows of the wires --


@lru_cache(maxsize=1)
def _entry_formats(formats: tuple[ToolFormat, ...]) -> Mapping[str, EntryFormat]:
    # A registered wire may name a format like one of ours, but must not change how ours are read.
    ordered = sorted(formats, key=lambda format: format.name not in WIRES)
    found: dict[str, EntryFormat] = {}
    for format in ordered:
        for entry in (format.function, format.freeform):
            if entry is not None:
                found.setdefault(entry.name, entry)
    return found


def _groups(formats: tuple[ToolFormat, ...]) -> Mapping[str, NamespaceFormat | None]:
    ordered = sorted(formats, key=lambda format: format.namespace is not None)
    return {one.name: format.namespace for format in ordered for one in (format.function, format.freeform) if one}


def _share_strictness(source: str, wanted: str) -> bool:
    return not _strict_dialects(source).isdisjoint(_strict_dialects(wanted))


def _strict_dialects(name: str) -> frozenset[str]:
    strict = (format.strict for format in tool_formats() if format.function.name == name)
    return frozenset(form.dialect.name for form in strict if form is not None and not form.whole_request)


# -- functions fitted to a provider, and the way back --

# A function is fitted where a provider does not accept all of JSON Schema, or not its name. The rules are those of
# `streamtools.exports`, which rewrites schemas where it can, with the way back; a `Memory` keeps that for the calls of
# one request. A schema that every provider accepts goes as it was authored.

_MAX_KEPT = 512  # functions that the process keeps fitted
_MAX_KEPT_BYTES = 32 << 10  # of schema; a larger one is fitted anew each time, so that no more than 16 MiB are kept


class _Fitted(NamedTuple):
    exported: Exported
    parameters: Mapping[str, Any]
    description: str


def _fitted(schema: InspectedSchema, wire: str) -> _Fitted | None:
    """Fits a function to a wire; returns None if it goes as it was authored, or if the wire is not known. Raises an
    `ExportError` if the wire cannot carry it, or the schema is not a schema."""
    parameters = schema.parameters if schema.kind == "function" else freeform_parameters(schema.input_description)
    if wire not in targets():
        return None
    try:
        text = to_json(parameters, inf_nan_mode="constants")
    except ValueError:  # not plain JSON, which `Tool.from_schema` refuses in the words of a schema
        text = None
    if text is None or len(text) > _MAX_KEPT_BYTES:
        return _made(wire, schema.tool_name, schema.description, parameters or {})
    return _kept(wire, schema.tool_name, schema.description, text)


@lru_cache(maxsize=_MAX_KEPT)
def _kept(wire: str, name: str, description: str, text: bytes) -> _Fitted | None:
    # A program's tools are the same in each request, and fitting one costs a millisecond.
    return _made(wire, name, description, from_json(text))


def _made(wire: str, name: str, description: str, parameters: Mapping[str, Any]) -> _Fitted | None:
    try:
        tool = Tool.from_schema(_nothing, parameters, name=name, description=description, pass_as="mapping")
    except (SchemaError, ToolDefinitionError) as error:
        raise ExportError(f"tool {name!r}: {error}") from error
    exported = export(tool, wire)
    # The export is a whole entry, of which only the parameters are taken: the adapter writes the rest.
    written = find(wire, False)[0].function.read(exported.payload)
    assert written is not None, "a format reads what it writes"
    if not exported.rewritten and not exported.losses and written.schema == parameters:
        return None
    return _Fitted(exported, written.schema or {}, written.description)


def _nothing(arguments: dict[str, Any]) -> None:
    """Stands for a function that lives elsewhere."""


class Memory:
    def __init__(self, *, keeps: bool) -> None:
        # A registry outside of any request would grow without an end, and mix the tools of all requests.
        self._keeps = keeps
        self._freeform: set[str] = set()
        self._namespaces: dict[str, str] = {}
        self._sanitized: set[str] = set()
        self._fitted: dict[tuple[str, str], Exported] = {}
        self._names: dict[tuple[str, str], str] = {}

    def note_schema(self, schema: InspectedSchema) -> None:
        if self._keeps and schema.namespace is not None:
            self._namespaces[schema.tool_name] = schema.namespace
        if self._keeps and schema.kind == "custom":
            self._freeform.add(schema.tool_name)

    def fitted(self, schema: InspectedSchema, wire: str, *, as_text: bool) -> InspectedSchema:
        """Returns a schema as the wire accepts it, and notes the way back; raises an `ExportError` if that would be
        forgotten."""
        if (found := _fitted(schema, wire)) is None:
            return schema
        one, name = found.exported, schema.tool_name
        # A new name alone may pass (`dict` only copies): a call by it is unknown. Arguments that nothing decodes would
        # be wrong ones.
        if not self._keeps and one.decode is not dict:
            raise ExportError(
                f"tool {name!r}: for {wire} the arguments have another form than the tool's; use the request's "
                "registry, which translates them back: get_registry_from_context(context)"
            )
        if self._keeps:
            self._fitted[wire, one.name], self._names[wire, name] = one, one.name
        named = replace(schema, tool_name=one.name)
        if as_text:
            return named
        return replace(named, kind="function", parameters=found.parameters, description=found.description)

    def note_sanitized(self, call_id: str | None) -> None:
        if self._keeps and call_id is not None:
            self._sanitized.add(call_id)

    def is_freeform(self, name: str | None) -> bool:
        return name in self._freeform

    def was_sanitized(self, call: InspectedCall) -> bool:
        # A later call of the same id, with arguments, did not.
        return call.call_id in self._sanitized and not call.payload

    def name_on(self, wire: str, name: str) -> str:
        return self._names.get((wire, name), name)

    def as_authored(self, call: InspectedCall, wire: str | None) -> InspectedCall:
        """Returns a call as the tool's author meant it: its own name and parameters, raw text where it takes that."""
        any_of_format = (name for name, formats in TARGET_FORMATS.items() if call.payload_format in formats)
        wires = any_of_format if wire is None else (wire,)
        if self._fitted and (found := next(filter(None, (self._fitted.get((w, call.tool_name)) for w in wires)), None)):
            call = _decoded(call, found)
        if call.namespace is None and (group := self._namespaces.get(call.tool_name)) is not None:
            call = replace(call, namespace=group)
        raw = call.problem is None and call.payload_kind == "object" and self.is_freeform(call.tool_name)
        return _unwrapped(call) if raw else call


def _decoded(call: InspectedCall, fitted: Exported) -> InspectedCall:
    call = replace(call, tool_name=fitted.tool.name)
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
    metadata, text = {**call.payload_metadata, "unwrapped": True}, call.payload.get("input")
    # Exactly the one text that the schema has: anything else is not a text of the model's, and must not run as one.
    if call.payload.keys() == {"input"} and isinstance(text, str):
        return replace(call, payload=text, payload_kind="raw", payload_metadata=metadata)
    return replace(call, payload=None, payload_kind="raw", payload_metadata=metadata, problem="invalid_arguments")
