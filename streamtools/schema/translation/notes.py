"""Writes demands that a schema cannot express into its description: one text for one schema, always the same.

``(min 1, max 10, default 5)`` stands at the end of the description. The text never depends on the order of a
dictionary, since a request that changes from one turn to the next misses the provider's prompt cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["TOLD", "described", "note"]

TOLD = "told in the description only"
"""The entry in `Exported.losses` for a keyword that is noted in the description."""

MAX_SHOWN = 200
"""Most characters of one keyword's value in a description; a longer value is left out, only its keyword is named."""

_WORDS: Mapping[str, str] = {
    "minimum": "min",
    "maximum": "max",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
    "minLength": "min length",
    "maxLength": "max length",
    "minItems": "min items",
    "maxItems": "max items",
    "minProperties": "min properties",
    "maxProperties": "max properties",
    "minContains": "min contained",
    "maxContains": "max contained",
    "enum": "one of",
    "const": "always",
    "contentEncoding": "encoding",
    "contentMediaType": "media type",
    "dependentRequired": "required together",
    "dependentSchemas": "if present",
    "propertyNames": "keys",
    "patternProperties": "properties by pattern",
    "additionalProperties": "further properties",
}
_BARE = frozenset({"format", "contentEncoding", "contentMediaType", "pattern"})
"""Keywords whose values are shown without quotes."""
_ORDER = {keyword: number for number, keyword in enumerate([*_WORDS, "default"])}


def note(keyword: str, value: Any) -> str:
    """Puts one keyword into words: ``min 1``."""
    if keyword == "uniqueItems":
        return "unique items"
    if keyword in ("deprecated", "readOnly", "writeOnly"):
        return {"readOnly": "read only", "writeOnly": "write only"}.get(keyword, keyword)
    word = _WORDS.get(keyword, keyword)
    if keyword == "enum" and isinstance(value, list):
        text = ", ".join(map(_json, value))
    elif keyword in _BARE and isinstance(value, str):
        text = value
    else:
        text = _json(value)
    return f"{word} {text}" if len(text) <= MAX_SHOWN else f"{word}: see the error if refused"


def described(text: Any, keywords: Mapping[str, Any], more: Iterable[str] = ()) -> str | None:
    """Returns a description with notes of `keywords`, and further notes; None if there is none of these. A description
    that is no text does not count: no provider takes it."""
    said: str | None = text if isinstance(text, str) else None
    in_order = sorted(keywords, key=lambda keyword: (_ORDER.get(keyword, len(_ORDER)), keyword))
    notes = [note(keyword, keywords[keyword]) for keyword in in_order]
    notes.extend(more)
    if not notes:
        return said
    told = f"({', '.join(notes)})"
    return f"{said} {told}" if said else told


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
