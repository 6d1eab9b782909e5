"""Words the problems found by jsonschema-rs: a path into the value, and the rule that it breaks, never the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from ...errors import SchemaError
from .document import DIALECTS, Document, refuse_to_fetch
from .plain import Plain

MAX_PROBLEMS = 64  # kept of one validation; a list of a thousand bad items shows no more than its first ones
MAX_SHOWN = 10  # names or allowed values that a message lists
MAX_SPELLED_CHARS = 40  # of one of them

TYPES = {  # the values of `type`, with their names in messages
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """Describes a rule of a schema that a value breaks."""

    path: Path  # the place in the value: names and positions. A name that is missing, or not allowed, is the last one
    keyword: str  # the keyword that is broken (`minimum`); `limit` if the value could not be checked to its end
    message: str  # the demand that the value breaks. Never the value itself


def problems_of(errors: Iterable[Any], value: Any, plain: Plain) -> list[SchemaProblem]:
    return list(islice((one for error in errors for one in _problems(error, value, plain)), MAX_PROBLEMS))


def check_values(document: Document) -> None:
    """Raises a `SchemaError` if some keyword has a value that the metaschema refuses."""
    values = [place.values for place in document.places]
    try:
        _metaschema().validate(values)
    except ValueError as error:
        number, keyword, *_ = getattr(error, "instance_path", None) or (0, None)
        if keyword is None:
            raise SchemaError("contains a value that JSON does not have") from error
        message = f"should be one of {', '.join(TYPES)}, or a list of those"
        if keyword != "type":
            message = problems_of([error], values, Plain(True))[0].message
        raise SchemaError(message, path=f"{document.places[number].pointer}/{keyword}") from error


@lru_cache(1)
def _metaschema() -> Any:
    import jsonschema_rs

    few = {"properties": {"type": {"maxItems": len(TYPES)}}}  # each wrong one would be a problem, which takes its time
    schema = {"items": {"allOf": [few, {"$ref": DIALECTS["2020-12"].uri}]}}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=False, retriever=refuse_to_fetch, mask="it")


def _problems(error: Any, value: Any, plain: Plain) -> Iterator[SchemaProblem]:
    followed, kind = _followed(value, error.instance_path), error.kind
    if followed is None:
        yield SchemaProblem(path=(), keyword="", message="does not fit the schema")
        return
    path, keyword = followed[0], kind.name
    if keyword in ("anyOf", "oneOf"):
        yield from _of_alternatives(error, path, value, plain)
    elif keyword == "required":
        yield SchemaProblem(path=(*path, kind.property), keyword=keyword, message="is required but missing")
    elif keyword == "propertyNames":
        at = (*path, kind.error.instance) if hasattr(kind, "error") else path
        yield SchemaProblem(path=at, keyword=keyword, message="has a name that is not allowed here")
    elif keyword == "unevaluatedItems" and hasattr(kind, "unexpected"):  # the items themselves, without their places
        yield SchemaProblem(path=path, keyword=keyword, message="has items that are not allowed here")
    elif hasattr(kind, "unexpected"):  # additionalProperties and its like
        message = "is not allowed here"
        if keyword == "additionalProperties":
            schema = _followed(plain.whole(), error.schema_path[:-1])
            if schema is not None:
                message += f"; what is: {_listed(list(schema[1].get('properties', ()))) or 'nothing'}"
        for name in kind.unexpected[:MAX_PROBLEMS]:
            yield SchemaProblem(path=(*path, name), keyword=keyword, message=message)
    else:
        word = _MESSAGES.get(type(kind).__name__.rpartition("_")[2], _unknown)
        yield SchemaProblem(path=path, keyword=keyword, message=word(kind))


def _followed(value: Any, steps: Iterable[str | int]) -> tuple[Path, Any] | None:
    """Returns the path by the value's own names, and the part at its end; None if that is not known."""
    path: list[str | int] = []
    for step in steps:
        if isinstance(value, dict):  # the engine makes a number of a name of digits, and leaves out an empty one
            step = str(step)
            if "" in value or step not in value:
                return None
        path.append(step)
        value = value[step]
    return tuple(path), value


# -- alternatives --

DISTINGUISHING = {"type": 0, "enum": 1, "const": 1, "required": 0, "additionalProperties": 0}
"""Keywords that distinguish the alternatives of a union, with the depth inside the value to which they do."""


def _of_alternatives(error: Any, path: Path, value: Any, plain: Plain) -> Iterator[SchemaProblem]:
    """Yields the problems of the alternative that was meant, if only one can have been."""
    # An alternative is meant if none of its distinguishing keywords is broken. If only one can have been meant, its own
    # problems help a model more than "fits none of the alternatives".
    keyword, branches = error.kind.name, error.kind.context
    count = len(branches)
    if type(error.kind).__name__.endswith("OneOfMultipleValid"):
        message = f"fits several of the {count} alternatives and should fit exactly one"
        yield SchemaProblem(path=path, keyword=keyword, message=message)
        return
    meant = [branch for branch in branches if not any(_distinguishes(one, path) for one in branch)]
    if not meant:
        wrong = [_wrong_types(branch, path) for branch in branches]
        meant = [branch for branch, types in zip(branches, wrong, strict=True) if not types]
        if not meant:
            message = _expected([name for types in wrong for name in types])
            yield SchemaProblem(path=path, keyword=keyword, message=message)
            return
    if len(meant) == 1:
        for one in meant[0]:
            yield from _problems(one, value, plain)
        return
    yield SchemaProblem(path=path, keyword=keyword, message=f"fits none of the {count} alternatives")


def _distinguishes(error: Any, path: Path) -> bool:
    deeper = len(error.instance_path) - len(path)
    return deeper <= DISTINGUISHING.get(error.kind.name, -1)


def _wrong_types(branch: list[Any], path: Path) -> list[str]:
    found = [one for one in branch if one.kind.name == "type" and len(one.instance_path) == len(path)]
    return list(found[0].kind.types) if found else []


# -- rules in words --


def _expected(types: Iterable[str]) -> str:
    return f"should be {' or '.join(TYPES[name] for name in dict.fromkeys(types))}"


def _size(which: str, one: str, many: str) -> Callable[[Any], str]:
    return lambda kind: f"should have at {which} {int(kind.limit)} {one if kind.limit == 1 else many}"


def _enum(kind: Any) -> str:
    return f"should be one of {_listed(kind.options)}" if kind.options else "is not allowed to be anything"


def _unknown(kind: Any) -> str:
    return f"does not fit {kind.name!r} of the schema"


_MESSAGES: dict[str, Callable[[Any], str]] = {  # the messages by the engine's kinds of errors
    "Type": lambda kind: _expected(kind.types),
    "Enum": _enum,
    "Constant": lambda kind: f"should be {_spelled(kind.expected_value)}",
    "Minimum": lambda kind: f"should be at least {_spelled(kind.limit)}",
    "Maximum": lambda kind: f"should be at most {_spelled(kind.limit)}",
    "ExclusiveMinimum": lambda kind: f"should be greater than {_spelled(kind.limit)}",
    "ExclusiveMaximum": lambda kind: f"should be less than {_spelled(kind.limit)}",
    "MultipleOf": lambda kind: f"should be a multiple of {_spelled(kind.multiple_of)}",
    "MinLength": _size("least", "character", "characters"),
    "MaxLength": _size("most", "character", "characters"),
    "MinItems": _size("least", "item", "items"),
    "MaxItems": _size("most", "item", "items"),
    "MinProperties": _size("least", "property", "properties"),
    "MaxProperties": _size("most", "property", "properties"),
    "Pattern": lambda kind: f"should match the pattern {_spelled(kind.pattern)}",
    "UniqueItems": lambda kind: "should have no two equal items",
    "Contains": lambda kind: "should contain as many items as 'contains' asks for",
    "Not": lambda kind: "should not be what 'not' describes",
    "FalseSchema": lambda kind: "is not allowed here",
}


def _listed(values: list[Any]) -> str:
    shown = ", ".join(map(_spelled, values[:MAX_SHOWN]))
    return shown if len(values) <= MAX_SHOWN else f"{shown} and {len(values) - MAX_SHOWN} more"


def _spelled(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return "a very long number"
    return text if len(text) <= MAX_SPELLED_CHARS else text[:MAX_SPELLED_CHARS] + "..."
