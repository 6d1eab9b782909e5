"""Lists the keywords of both dialects: those that contain schemas, with the values they apply to, and the rules for the
others' values.

https://json-schema.org/draft/2020-12/json-schema-core, https://json-schema.org/draft/2020-12/json-schema-validation,
https://json-schema.org/draft-07/draft-handrews-json-schema-validation-01

Keywords that do not affect validity (``title``, ``format``, ``contentEncoding``, unknown ones) are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from ...errors import SchemaError
from .values import is_integer, kind_of

__all__ = ["DIALECTS", "TYPES", "Applicator", "SchemaVersion", "dialect_of", "metaschema"]

Shape = Literal["one", "many", "named", "one_or_many", "named_or_names"]
"""The form in which a keyword contains schemas: one, in a list, by name; ``items`` and ``dependencies`` of draft-07
vary."""

Where = Literal["here", "below", "nowhere"]
"""The target of a keyword's schemas: the same value, a part inside it, nothing (definitions)."""

TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
"""The values of ``type``, with their names in messages."""


class Applicator(NamedTuple):
    """A keyword that contains schemas."""

    shape: Shape
    where: Where


class Check(NamedTuple):
    """The rule for a keyword's value."""

    fits: Callable[[Any], bool]
    should: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchemaVersion:
    """One version of JSON Schema."""

    name: str
    uri: str
    """URI of its metaschema, without fragment."""
    applicators: Mapping[str, Applicator]
    checks: Mapping[str, Check]
    lone_reference: bool
    """True if ``$ref`` makes all keywords beside it void."""
    fragment_ids: bool
    """True if ``{"$id": "#name"}`` is what an anchor is in other versions."""

    def knows(self, keyword: str) -> bool:
        """Returns whether the keyword means anything in this dialect."""
        return keyword in self.applicators or keyword in self.checks


def _is_number(value: Any) -> bool:
    return kind_of(value) in (int, float)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_types(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _is_names(value) and bool(value) and set(value) <= set(TYPES)


_TEXT = Check(lambda value: isinstance(value, str), "a string")
_COUNT = Check(lambda value: is_integer(value) and value >= 0, "a whole number from 0 on")
_NUMBER = Check(_is_number, "a number")
_NAMES = Check(_is_names, "a list of strings")
_ANCHOR = Check(
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", value) is not None,
    "a name of letters, digits, '-', '_' and '.'",
)

_CHECKS = {
    **dict.fromkeys(("$ref", "$id", "$schema", "pattern"), _TEXT),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties"), _COUNT),
    "type": Check(_is_types, f"one of {', '.join(TYPES)}, or a list of those"),
    "enum": Check(lambda value: isinstance(value, list), "a list"),
    "const": Check(lambda value: True, "any value"),
    "multipleOf": Check(lambda value: _is_number(value) and value > 0, "a number greater than 0"),
    "uniqueItems": Check(lambda value: isinstance(value, bool), "true or false"),
    "required": _NAMES,
}

_CHECKS_2020_12 = {
    **_CHECKS,
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _ANCHOR),
    "$dynamicRef": _TEXT,
    **dict.fromkeys(("minContains", "maxContains"), _COUNT),
    "dependentRequired": Check(
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())), "an object of lists of strings"
    ),
}

_APPLICATORS = {
    **dict.fromkeys(("properties", "patternProperties"), Applicator("named", "below")),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), Applicator("one", "below")),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), Applicator("many", "here")),
    **dict.fromkeys(("not", "if", "then", "else"), Applicator("one", "here")),
    "definitions": Applicator("named", "nowhere"),
}

_APPLICATORS_2020_12 = {
    **_APPLICATORS,  # with `definitions`, which its metaschema keeps for older documents
    **dict.fromkeys(("items", "unevaluatedItems", "unevaluatedProperties"), Applicator("one", "below")),
    "prefixItems": Applicator("many", "below"),
    "dependentSchemas": Applicator("named", "here"),
    "$defs": Applicator("named", "nowhere"),
}

_APPLICATORS_DRAFT_07 = {
    **_APPLICATORS,
    "items": Applicator("one_or_many", "below"),
    "additionalItems": Applicator("one", "below"),
    "dependencies": Applicator("named_or_names", "here"),
}

DIALECTS = {
    dialect.name: dialect
    for dialect in (
        SchemaVersion(
            name="2020-12",
            uri="https://json-schema.org/draft/2020-12/schema",
            applicators=_APPLICATORS_2020_12,
            checks=_CHECKS_2020_12,
            lone_reference=False,
            fragment_ids=False,
        ),
        SchemaVersion(
            name="draft-07",
            uri="http://json-schema.org/draft-07/schema",
            applicators=_APPLICATORS_DRAFT_07,
            checks=_CHECKS,
            lone_reference=True,
            fragment_ids=True,
        ),
    )
}
"""The dialects by the names that `compile` takes."""

_BY_URI = {dialect.uri.partition("://")[2]: dialect for dialect in DIALECTS.values()}


def dialect_of(schema: Any, otherwise: SchemaVersion, pointer: str) -> SchemaVersion:
    """Returns the dialect of the schema's own ``$schema``; `otherwise` if it has none.

    Raises:
        SchemaError: ``$schema`` names an unknown dialect.
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(uri, str):
        return otherwise
    known = _BY_URI.get(uri.removesuffix("#").partition("://")[2])  # both http and https are in use
    if known is None:
        names = " and ".join(dialect.uri for dialect in DIALECTS.values())
        raise SchemaError(
            f"{uri[:100]!r} is no dialect that is known here; those are {names}", path=f"{pointer}/$schema"
        )
    return known


_2020_12 = "https://json-schema.org/draft/2020-12"
_VOCABULARIES = "applicator content core format-annotation format-assertion meta-data unevaluated validation"
_FILES = {
    "http://json-schema.org/draft-07/schema": "draft-07/schema.json",
    f"{_2020_12}/schema": "2020-12/schema.json",
    **{f"{_2020_12}/meta/{name}": f"2020-12/{name}.json" for name in _VOCABULARIES.split()},
}
"""The specifications' own schemas, unchanged, in the folder ``metaschemas``, by the URI that is their ``$id``."""


@cache
def metaschema(uri: str) -> Any:
    """Returns the schema that was published at `uri` (without fragment), as read from JSON: do not change it. None if
    there is no such schema here."""
    if uri not in _FILES:
        return None
    folder = resources.files("streamtools.schema.validation").joinpath("metaschemas")
    return json.loads(folder.joinpath(_FILES[uri]).read_text(encoding="utf-8"))
