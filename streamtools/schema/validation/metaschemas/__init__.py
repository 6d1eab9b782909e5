"""Provides the specifications' own schemas, each as it was published at the URI that is its ``$id``.

They are taken from https://json-schema.org/draft-07/schema and https://json-schema.org/draft/2020-12/schema with its
vocabularies, unchanged.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["metaschema"]

_2020_12 = "https://json-schema.org/draft/2020-12"
_VOCABULARIES = (
    "applicator",
    "content",
    "core",
    "format-annotation",
    "format-assertion",
    "meta-data",
    "unevaluated",
    "validation",
)
_FILES = {
    "http://json-schema.org/draft-07/schema": ("draft-07", "schema.json"),
    f"{_2020_12}/schema": ("2020-12", "schema.json"),
    **{f"{_2020_12}/meta/{name}": ("2020-12", f"{name}.json") for name in _VOCABULARIES},
}


@cache
def metaschema(uri: str) -> Any:
    """Returns the schema that was published at `uri` (without fragment), as read from JSON: do not change it. None if
    there is no such schema here."""
    if uri not in _FILES:
        return None
    return json.loads(resources.files(__name__).joinpath(*_FILES[uri]).read_text(encoding="utf-8"))
