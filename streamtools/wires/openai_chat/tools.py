"""How Chat Completions tells tools."""

from __future__ import annotations

from typing import Any

from ...schema.bounds import SchemaBound
from ...schema.dialects import OPENAI, OPENAI_STRICT
from ...schema.names import PLAIN_NAMES
from ..tool_format import EntryFormat, RequestLimits, StrictForm, StructuredOutput, ToolFormat

__all__ = ["FUNCTION", "LIMITS", "STRICT", "STRUCTURED", "TOOLS"]

FUNCTION = EntryFormat(
    name="openai.chat_completions.function",
    type="function",
    type_optional=True,
    inside="function",
    schema_at=("parameters",),
    strict="where_strict",
)
"""The form that most other providers took over."""

# https://platform.openai.com/docs/guides/function-calling#custom-tools
CUSTOM = EntryFormat(
    name="openai.chat_completions.custom", type="custom", inside="custom", freeform=True, grammar_at="grammar"
)

STRICT = StrictForm(
    dialect=OPENAI_STRICT,
    said_at="`strict` of the function",
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    bounds=(
        SchemaBound(count="properties", most=5000, what="properties"),
        SchemaBound(count="depth", most=10, what="levels of nesting"),
        SchemaBound(count="enum_values", most=1000, what="enum values"),
        SchemaBound(count="long_enum", most=15_000, what="characters in one enum of more than 250 values"),
        SchemaBound(count="characters", most=120_000, what="characters of names and enum values"),
    ),
)


def response_format(name: str, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    """Returns ``response_format``. https://platform.openai.com/docs/guides/structured-outputs"""
    asked = {"name": name, "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": asked}}


STRUCTURED = StructuredOutput(request=response_format, bounds=STRICT.bounds)

LIMITS = RequestLimits(tools=128)  # https://platform.openai.com/docs/api-reference/chat/create

TOOLS = (
    ToolFormat(
        name="openai.chat_completions",
        dialect=OPENAI,
        strict=STRICT,
        names=PLAIN_NAMES,
        function=FUNCTION,
        freeform=CUSTOM,
        limits=LIMITS,
    ),
)
