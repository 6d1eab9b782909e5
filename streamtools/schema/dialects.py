"""The providers' dialects of JSON Schema: a column of the table of keywords each, and what goes beyond it.

A wire of your own names one of them, or derives one: ``PLAIN.but("acme", {"pattern": Action.NOTE})``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .keywords import Action, Column, actions
from .names import NameRule

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "BEDROCK_STRICT",
    "GEMINI",
    "GEMINI_OPENAPI",
    "MCP",
    "OLLAMA",
    "OPENAI",
    "OPENAI_STRICT",
    "PLAIN",
    "Action",
    "Dialect",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """A dialect: one column of the table, with what goes beyond it. Each is itself alone."""

    name: str
    actions: Mapping[str, Action]
    """What happens to each keyword or construct of the table. Any other keyword stays where references do, and goes
    elsewhere."""
    wants_properties: bool = False
    """The schema of a tool has ``properties``, even if there are none."""
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

    def but(self, name: str, actions: Mapping[str, Action]) -> Dialect:
        """Returns a dialect that differs from this one in what happens to some keywords. For the other fields, use
        `dataclasses.replace`.

        Raises:
            ValueError: the dialect keeps references, so that a schema goes out as it was written and its keywords can
                be kept, dropped or noted; begin with one that does not, `OLLAMA`.
        """
        made = replace(self, name=name, actions={**self.actions, **actions})
        beyond = {key for key, does in actions.items() if does not in _VERBATIM or key.startswith("(")} - _EVERYWHERE
        if made.keeps_references and beyond:
            raise ValueError(f"the dialect {name!r} keeps references, so it cannot change {', '.join(sorted(beyond))}")
        return made

    def action(self, keyword: str) -> Action:
        """Returns what happens to `keyword`."""
        return self.actions.get(keyword) or (Action.KEEP if self.keeps_references else Action.DROP)

    def rewrites(self, construct: str) -> bool:
        """Whether `construct` has to be said in another way."""
        return self.action(construct) is Action.REWRITE

    @property
    def keeps_references(self) -> bool:
        """The schema goes out as it was written, but for single keywords."""
        return self.actions["$ref"] is Action.KEEP

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


_VERBATIM = frozenset({Action.KEEP, Action.DROP, Action.NOTE})
"""What can happen to a keyword of a schema that goes out as it was written."""
_EVERYWHERE = frozenset({"(root union)", "(property name)"})
"""The constructs that can be rewritten even there."""

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


def _column(column: Column, **beyond: Any) -> Dialect:
    return Dialect(name=column, actions=actions(column), **beyond)


# 400 otherwise: "object schema missing properties"
OPENAI = _column("openai", wants_properties=True)
OPENAI_STRICT = _column("openai_strict", formats=_OPENAI_FORMATS, refused_pattern=_LOOKAROUND)
ANTHROPIC = _column("anthropic", keys=_ANTHROPIC_KEYS)
ANTHROPIC_STRICT = _column("anthropic_strict", formats=_ANTHROPIC_FORMATS, few_items=True, keys=_ANTHROPIC_KEYS)
BEDROCK_STRICT = replace(
    ANTHROPIC_STRICT,
    name="bedrock_strict",
    actions=actions("bedrock_strict"),
    refused_pattern=_LOOKAROUND_OR_BACKREFERENCE,
)
GEMINI = _column("gemini", formats=frozenset({"date-time", "date", "time"}), keys=_GEMINI_KEYS, enums=(str, int, float))
# "only 'enum' and 'date-time' are supported for STRING type"
GEMINI_OPENAPI = _column(
    "gemini_openapi", formats=frozenset({"date-time"}), keys=_GEMINI_KEYS, openapi=True, enums=(str,)
)
MCP = _column("mcp")
OLLAMA = _column("ollama")
PLAIN = _column("plain")
"""What Mistral, Cohere and Bedrock take as it is."""
