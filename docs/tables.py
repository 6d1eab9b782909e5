"""Writes the tables of the pages that are made of the code's own data: ``python docs/tables.py``.

A table stands between its marker and ``<!-- end -->``. ``<!-- tolerances: NAME -->``, where NAME is a wire, ``bodies``
or ``calls``, has the rows of `streamtools.wires.Tolerance`; ``<!-- exports: NAME -->`` is `exports.table`
(``targets``), `keyword_table` (``keywords``) or `output_table` (``outputs``); ``<!-- dialects: all -->`` has the
dialects of calls in text.
So the pages cannot say anything else than the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from streamtools import exports
from streamtools.stages import DIALECTS
from streamtools.stages.text.models import FAMILIES
from streamtools.wires import Tolerance, find
from streamtools.wires.tolerances import BODIES, CALLS, tolerances_of

PAGES = [Path(__file__).parent / name for name in ("wires.md", "tools.md", "keywords.md", "text.md", "guide.md")]
_TABLE = re.compile(r"(<!-- (tolerances|exports|dialects): (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_EXPORTS = {"targets": exports.table, "keywords": exports.keyword_table, "outputs": exports.output_table}


def with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"{match[1]}{_made(match[2], match[3])}{match[4]}", page)


def _made(kind: str, name: str) -> str:
    if kind == "dialects":
        return _dialects()
    return table(_rows(name)) if kind == "tolerances" else _EXPORTS[name]().rstrip("\n") + "\n"


def table(rows: Iterable[Tolerance]) -> str:
    """Rows as a Markdown table."""
    lines = ["| deviation | result | warning | seen from |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.seen, row.becomes, f"`{row.warning}`" if row.warning else "", row.servers)
        lines.append("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _dialects() -> str:
    """The dialects of calls in text as a Markdown table."""
    lines = ["| dialect | models | a call looks like this | read as well |", "|---|---|---|---|"]
    for name, dialect in DIALECTS.items():
        models = ", ".join(family.models for family in FAMILIES if family.dialect == name)
        fence = "``" if "`" in dialect.example else "`"
        example = f"{fence}{' ' if fence != '`' else ''}{dialect.example}{' ' if fence != '`' else ''}{fence}"
        cells = (f"`{name}`", models or "any that was asked to write it", example, dialect.tolerates)
        lines.append("|" + "|".join(f" {_cell(cell)} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "⏎")


def _rows(name: str) -> tuple[Tolerance, ...]:
    return {"bodies": BODIES, "calls": CALLS}[name] if name in ("bodies", "calls") else tolerances_of(find(name))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
