"""What the table of keywords cannot say about a provider's dialect: which formats, which patterns, which names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .keywords import Action, Column, action
from .names import NameRule

__all__ = ["DIALECTS", "Dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One column of the table, with what goes beyond it."""

    column: Column
    formats: frozenset[str] | None = None
    """The formats that it keeps; None keeps all."""
    refused_pattern: re.Pattern[str] | None = None
    """What its engine for regular expressions does not know."""
    few_items: bool = False
    """It knows no ``minItems`` beyond 1."""
    keys: NameRule | None = None
    """The property names that it takes; None takes all."""
    openapi: bool = False
    """It is OpenAPI 3.0: ``nullable``, types in upper case, enums of strings only."""
    enums: tuple[type, ...] = (str, int, float, bool, type(None))
    """The Python types of values that its enums may hold."""

    def action(self, keyword: str) -> Action:
        """What happens to `keyword`."""
        return action(keyword, self.column)

    def rewrites(self, construct: str) -> bool:
        """Whether `construct` has to be said in another way."""
        return self.action(construct) is Action.REWRITE

    @property
    def keeps_references(self) -> bool:
        """The schema goes out as it was written, but for single keywords."""
        return self.action("$ref") is Action.KEEP

    def for_value(self, keyword: str, value: Any) -> Action:
        """What happens to a keyword with this value."""
        general = self.action(keyword)
        if keyword == "minItems" and self.few_items and value in (0, 1):
            return Action.KEEP
        if general is not Action.KEEP:
            return general
        if keyword == "format" and self.formats is not None and value not in self.formats:
            return Action.NOTE
        if keyword == "pattern" and self.refused_pattern is not None and self.refused_pattern.search(str(value)):
            return Action.NOTE
        return general


_OPENAI_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)  # https://platform.openai.com/docs/guides/structured-outputs#supported-properties ; `uri` is refused there
_ANTHROPIC_FORMATS = _OPENAI_FORMATS | {"uri"}
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_LOOKAROUND_OR_BACKREFERENCE = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<|\(\?P=")
# 400 otherwise: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
_ANTHROPIC_KEYS = NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 64)
# As the API says of function names: "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain
# underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64." Properties become names likewise.
_GEMINI_KEYS = NameRule("a-zA-Z_", "a-zA-Z0-9_.:-", 64)

_ALL = (
    Dialect(column="openai"),
    Dialect(column="openai_strict", formats=_OPENAI_FORMATS, refused_pattern=_LOOKAROUND),
    Dialect(column="anthropic", keys=_ANTHROPIC_KEYS),
    Dialect(column="anthropic_strict", formats=_ANTHROPIC_FORMATS, few_items=True, keys=_ANTHROPIC_KEYS),
    Dialect(
        column="bedrock_strict",
        formats=_ANTHROPIC_FORMATS,
        refused_pattern=_LOOKAROUND_OR_BACKREFERENCE,
        few_items=True,
        keys=_ANTHROPIC_KEYS,
    ),
    Dialect(
        column="gemini",
        formats=frozenset({"date-time", "date", "time"}),
        keys=_GEMINI_KEYS,
        enums=(str, int, float),
    ),
    # "only 'enum' and 'date-time' are supported for STRING type"
    Dialect(
        column="gemini_openapi",
        formats=frozenset({"date-time"}),
        keys=_GEMINI_KEYS,
        openapi=True,
        enums=(str,),
    ),
    Dialect(column="mcp"),
    Dialect(column="ollama"),
    Dialect(column="plain"),
)
DIALECTS: Mapping[Column, Dialect] = {dialect.column: dialect for dialect in _ALL}
"""By column of the table."""
