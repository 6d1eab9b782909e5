"""What a model reads about a tool, as one hash: to pin a tool, and to see that it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..content import Grammar

__all__ = ["fingerprint"]


def fingerprint(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    grammar: Grammar | None,
) -> str:
    """SHA-256 in hexadecimal digits. The order of keys, which means nothing in JSON, does not enter."""
    said = {
        "name": name,
        "description": description,
        "schema": schema,
        "output_schema": output_schema,
        "grammar": None if grammar is None else asdict(grammar),
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
