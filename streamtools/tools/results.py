"""Finds the schema of a tool's results, and validates results by it if the tool declares it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from ..content import ToolResult
from ..errors import SchemaError
from ..limits import Limits
from ..schema import Kept
from .callables import mentions, refuse, returned_by
from .checks import Enforced
from .schema import JsonSchema, one_line

OutputSchema: TypeAlias = Mapping[str, Any] | type[Any] | UnionType | Literal[True]
"""A declaration of a tool's results: a JSON Schema, a type that pydantic knows, or True for the return annotation."""


class Results(NamedTuple):
    schema: dict[str, Any] | None = None
    judge: Enforced | None = None  # judges results; None if nothing was declared


NO_RESULTS = Results()


def results_of(
    function: Callable[..., Any], tool: str, declared: OutputSchema | None, limits: Limits = Limits()
) -> Results:
    """Returns the schema of a function's results, with its judge if it was `declared`; else the return annotation's,
    which is not enforced. Raises a `ToolDefinitionError` if no schema can be made, a `SchemaError` if the declared one
    is none."""
    # A return annotation promises nothing: its schema is shown where a protocol has a place for it, and not enforced.
    if declared is None:
        return Results(_of_annotation(function))
    # A declared schema is a promise, and enforced as those of arguments are: by the same validator, in the same bounds.
    schema = _declared(function, tool, declared)
    return Results(schema, Enforced(schema, limits, whole="the result"))


def _declared(function: Callable[..., Any], tool: str, declared: Any) -> dict[str, Any]:
    if isinstance(declared, Mapping):
        return plain(declared)
    if declared is True:
        if (schema := _of_annotation(function)) is None:
            raise refuse(tool, "output_schema=True, but no schema can be made from its return annotation")
        return schema
    try:
        return _of_type(declared)
    except Exception as error:  # pydantic's errors, and whatever hooks in the user's types raise
        why = f"output_schema: expected a JSON Schema, a type that has one, or True: {one_line(error)}"
        raise refuse(tool, why) from error


def _of_annotation(function: Callable[..., Any]) -> dict[str, Any] | None:
    returned = returned_by(function)
    if returned in (inspect.Parameter.empty, None, type(None), Any) or mentions(returned, ToolResult):
        return None
    try:
        return _of_type(returned)
    except Exception:  # of the user's types; a tool runs as well without
        return None


def _of_type(kind: Any) -> dict[str, Any]:
    return plain(TypeAdapter(kind).json_schema(mode="serialization", schema_generator=JsonSchema))


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(schema, Kept):  # it was copied already, and many tools of an MCP server share the memory for it
        return schema.schema
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(schema), allow_nan=False))
    except RecursionError as error:
        raise SchemaError("the schema is nested too deeply to be written as JSON") from error
    except (TypeError, ValueError) as error:
        raise SchemaError("expected a schema of plain JSON, got one with other values") from error
    return copied
