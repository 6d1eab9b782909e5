"""A function's schema for a provider that does not take all of JSON Schema, or not its name.

The rules of the providers are those of `streamtools.exports`, which rewrites what it can and gives the way back. What
every provider takes anyway goes as it was authored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from ..errors import ExportError, SchemaError, ToolDefinitionError
from ..exports import export
from ..schema.dialects import Action
from ..tools import Tool
from ..tools.formats import find, targets
from ..wires.tool_format import ToolFormat
from .meanings import InspectedSchema
from .memory import Fitted
from .schemas import freeform_parameters

__all__ = ["fitted", "with_fitted"]

_MAX_KEPT = 512  # functions that the process keeps fitted
_MAX_KEPT_BYTES = 32 << 10  # of schema; a larger one is fitted anew each time, so that no more than 16 MiB are kept


def fitted(schema: InspectedSchema, wire: str) -> Fitted | None:
    """The function as the wire takes it; None if that is as it was authored, or if nothing is known of the wire.

    Raises:
        ExportError: the wire cannot carry it, or the schema is none.
    """
    parameters = schema.parameters if schema.kind == "function" else freeform_parameters(schema.input_description)
    if wire not in targets():
        return None
    if _takes(find(wire, False)[0], schema.tool_name) and _is_plain(parameters or {}, 0):
        return None
    try:
        text = to_json(parameters, inf_nan_mode="constants")
    except ValueError:  # no plain JSON, which will be said in the words of a schema
        return _fitted(wire, schema.tool_name, schema.description, parameters or {})
    if len(text) > _MAX_KEPT_BYTES:
        return _fitted(wire, schema.tool_name, schema.description, parameters or {})
    return _kept(wire, schema.tool_name, schema.description, text)


@lru_cache(maxsize=_MAX_KEPT)
def _kept(wire: str, name: str, description: str, text: bytes) -> Fitted | None:
    """The same for the next request: the tools of a program are the same in each, and a schema costs a millisecond."""
    return _fitted(wire, name, description, from_json(text))


def _fitted(wire: str, name: str, description: str, parameters: Mapping[str, Any]) -> Fitted | None:
    try:
        tool = Tool.from_schema(_nothing, parameters, name=name, description=description, takes="mapping")
    except (SchemaError, ToolDefinitionError) as error:
        raise ExportError(f"tool {name!r}: {error}") from error
    exported = export(tool, wire)
    written = find(wire, False)[0].function.read(exported.payload)
    assert written is not None, "a format reads what it writes"
    if not exported.rewritten and not exported.losses and written.schema == parameters:
        return None
    return Fitted(
        source_name=name,
        name=exported.name,
        parameters=written.schema or {},
        description=written.description,
        decode=exported.decode,
        losses=exported.losses,
    )


def with_fitted(schema: InspectedSchema, found: Fitted) -> InspectedSchema:
    """The schema as it is to be written."""
    if schema.kind != "function":
        return replace(schema, tool_name=found.name)
    return replace(schema, tool_name=found.name, parameters=found.parameters, description=found.description)


def _nothing(arguments: dict[str, Any]) -> None:
    """Stands for a function that lives elsewhere."""


_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
_KEYWORDS = frozenset({"type", "description", "properties", "required", "items", "enum"})
_MAX_PLAIN_DEPTH = 5  # levels: OpenAI's strict mode once took no more, and what is deeper is worth a closer look


def _takes(format: ToolFormat, name: str) -> bool:
    """Whether a format takes this name, and the plainest of keywords."""
    kept = all(format.dialect.action(keyword) is Action.KEEP for keyword in _KEYWORDS)
    return kept and (format.names is None or format.names.takes(name))


def _is_plain(schema: object, depth: int) -> bool:
    """Whether a schema holds only what every provider takes. Costs a look at each node."""
    if not isinstance(schema, Mapping) or depth > _MAX_PLAIN_DEPTH or not schema.keys() <= _KEYWORDS:
        return False
    type_, enum, items = schema.get("type"), schema.get("enum", ()), schema.get("items")
    if type_ not in _TYPES or (type_ == "array") is not (items is not None):
        return False
    if not _are_texts(enum) or not _are_texts(schema.get("required", ())):
        return False
    properties = schema.get("properties", {})
    inner = [*properties.values(), *([] if items is None else [items])] if isinstance(properties, Mapping) else [None]
    named = isinstance(properties, Mapping) and all(_KEY.fullmatch(str(key)) for key in properties)
    return named and all(_is_plain(child, depth + 1) for child in inner)


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
