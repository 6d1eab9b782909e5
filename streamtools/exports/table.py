"""Compares the wires in Markdown, by the tables that the exports use, so that it cannot be out of date."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.dialects import COLUMNS, KEYWORDS, Action
from ..tools.formats import tool_formats
from ..wires import known

__all__ = ["keyword_table", "output_table", "table"]

_WORDS = {
    Action.KEEP: "kept",
    Action.DROP: "dropped",
    Action.NOTE: "in the description",
    Action.REWRITE: "said otherwise",
    Action.INLINE: "inlined",
    Action.REFUSE: "refused",
}


def table() -> str:
    """Returns each wire's place of the schema and of strictness, the names that it takes, and what else it
    tells."""
    head = ("Wire", "Schema in", "Strict", "Tool names", "Result schema", "Freeform tools")
    rows = [
        (
            f"`{format.name}`",
            f"`{'.'.join(format.schema_at)}`",
            "no" if format.strict is None else format.strict.said_at,
            "any" if format.names is None else f"`{format.names.pattern}`",
            "no" if format.function.output_at is None else f"`{format.function.output_at}`",
            "custom" if format.freeform is not None else "a function with `input`",
        )
        for format in tool_formats()
    ]
    return _markdown(head, rows)


def output_table() -> str:
    """Returns the field in which each wire's request asks for an answer by a schema, and whether the model may be told
    the schema without being held to it."""
    rows = [
        (f"`{wire.name}`", wire.structured.strict.said_at, "no" if wire.structured.loose is None else "yes")
        for wire in known()
        if wire.structured is not None
    ]
    return _markdown(("Wire", "Asked for by", "`strict=False`"), rows)


def keyword_table() -> str:
    """Returns the action for each keyword of JSON Schema in each dialect."""
    head = ("Keyword", *(f"`{column}`" for column in COLUMNS))
    rows = [
        (keyword if keyword.startswith("(") else f"`{keyword}`", *(_WORDS[row[column]] for column in COLUMNS))
        for keyword, row in KEYWORDS.items()
    ]
    return _markdown(head, rows)


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
