"""Writes the tables of tolerances into ``docs/wires.md``: ``python docs/tables.py``.

A table stands between ``<!-- tolerances: NAME -->`` and ``<!-- end -->``, where NAME is a wire, ``bodies`` or
``calls``. Its rows are those of the code (`streamtools.wires.Tolerance`), so that the page cannot say anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from streamtools.wires import Tolerance, find
from streamtools.wires.tolerances import BODIES, CALLS

PAGE = Path(__file__).parent / "wires.md"
_TABLE = re.compile(r"(<!-- tolerances: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"{match[1]}{table(_rows(match[2]))}{match[3]}", page)


def table(rows: Iterable[Tolerance]) -> str:
    """Rows as a Markdown table."""
    lines = ["| seen | what becomes of it | warning | seen of |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.seen, row.becomes, f"`{row.warning}`" if row.warning else "", row.servers)
        lines.append("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _rows(name: str) -> tuple[Tolerance, ...]:
    return {"bodies": BODIES, "calls": CALLS}[name] if name in ("bodies", "calls") else find(name).tolerances


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
