"""Defines the translation of one subschema, and the keywords that matter for each type of value."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from .plan import Plan

__all__ = ["ANNOTATIONS", "ANY", "DEFINITIONS", "KEYWORDS_OF", "REFERENCES", "Translation", "without"]

REFERENCES = frozenset({"$ref", "$dynamicRef"})
DEFINITIONS = frozenset({"$defs", "definitions"})
ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that demand nothing of a value."""
ANY = ANNOTATIONS - {"description"} | {"not", "if", "then", "else"}
"""Keywords that can stand beside any type."""
_STRING = frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"})
_ARRAY = frozenset({"minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"})
_OBJECT = frozenset(
    {"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"}
)
KEYWORDS_OF: Mapping[str, frozenset[str]] = {
    "string": _STRING,
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": _ARRAY,
    "object": _OBJECT,
}
"""The keywords that bound values, by type, without those that give them their form."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A subschema in a provider's dialect, with the way back from it."""

    schema: dict[str, Any]
    plan: Plan = None


def without(node: Mapping[str, Any], *keywords: AbstractSet[str]) -> dict[str, Any]:
    """Returns a schema without some of its keywords."""
    gone = frozenset[str]().union(*keywords)
    return {keyword: value for keyword, value in node.items() if keyword not in gone}
