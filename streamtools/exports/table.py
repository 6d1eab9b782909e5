"""The targets compared, as Markdown: written from what the exports go by, so it cannot be out of date."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.keywords import COLUMNS, KEYWORDS, Action
from ..tools.targets import ALL_TARGETS

__all__ = ["keyword_table", "table"]

_WORDS = {
    Action.KEEP: "kept",
    Action.DROP: "dropped",
    Action.NOTE: "in the description",
    Action.REWRITE: "said otherwise",
    Action.INLINE: "inlined",
    Action.REFUSE: "refused",
}


def table() -> str:
    """Where each target's payload holds the schema, where strictness is said, which names it takes, what else it
    tells."""
    head = ("Target", "Schema in", "Strict", "Tool names", "Result schema", "Freeform tools")
    rows = [
        (
            f"`{target.name}`",
            f"`{'.'.join(target.schema_at)}`",
            "no" if target.strict is None else target.strict_at,
            "any" if target.names is None else f"`{target.names.pattern}`",
            "`outputSchema`" if target.outputs else "no",
            "custom" if target.custom is not None else "a function with `input`",
        )
        for target in ALL_TARGETS
    ]
    return _markdown(head, rows)


def keyword_table() -> str:
    """What becomes of each keyword of JSON Schema in each dialect."""
    head = ("Keyword", *(f"`{column}`" for column in COLUMNS))
    rows = [
        (keyword if keyword.startswith("(") else f"`{keyword}`", *(_WORDS[row[column]] for column in COLUMNS))
        for keyword, row in KEYWORDS.items()
    ]
    return _markdown(head, rows)


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
