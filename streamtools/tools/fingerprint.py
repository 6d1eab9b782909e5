"""What a model reads about a tool, as one hash: to pin a tool, and to see that it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Grammar", "fingerprint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What the text of a freeform tool has to match.

    https://platform.openai.com/docs/guides/function-calling#context-free-grammars

    Raises:
        ValueError: the syntax is another one.
    """

    syntax: Literal["lark", "regex"]
    definition: str

    def __post_init__(self) -> None:
        if self.syntax not in ("lark", "regex"):
            raise ValueError(f"Grammar(syntax={self.syntax!r}): the syntax must be 'lark' or 'regex'")


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
