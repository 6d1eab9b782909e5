"""Writes the tables of the pages that are made of the code's own data: ``python docs/tables.py``.

A table stands between its marker and ``<!-- end -->``. ``<!-- tolerances: NAME -->``, where NAME is a wire, ``bodies``
or ``calls``, has the rows of `streamtools.wires.Tolerance`; ``<!-- exports: NAME -->`` is `exports.table`
(``targets``), `keyword_table` (``keywords``) or `output_table` (``outputs``); ``<!-- dialects: all -->`` has the
dialects of calls in text; ``<!-- words: NAME -->`` has the rows of a vocabulary: ``counts``, ``waits``, ``runs`` or
``warnings``.
So the pages cannot say anything else than the code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from streamtools import exports
from streamtools.parts import COUNTS, RUN_OUTCOMES, WAITS
from streamtools.stages import DIALECTS
from streamtools.stages.text.dialects import FAMILIES
from streamtools.warning_codes import WARNINGS
from streamtools.wires import Tolerance
from streamtools.wires.marks import MARKS

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from tolerated import TOLERATED  # beside the cases that show each

_DOCS = Path(__file__).parent
WIRE_PAGES = {name: _DOCS / "wires" / f"{name.replace('.', '_')}.md" for name in MARKS}
"""The page of each wire."""
PAGES = [
    *(
        _DOCS / name
        for name in ("wires.md", "tools.md", "keywords.md", "text.md", "guide.md", "observability.md", "debugging.md")
    ),
    *WIRE_PAGES.values(),
]
_TABLE = re.compile(r"(<!-- (tolerances|exports|dialects|words): (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_EXPORTS = {"targets": exports.table, "keywords": exports.keyword_table, "outputs": exports.output_table}


def with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"{match[1]}{_made(match[2], match[3])}{match[4]}", page)


def _made(kind: str, name: str) -> str:
    if kind == "dialects":
        return _dialects()
    if kind == "words":
        return _plain(*_WORDS[name])
    return table(_rows(name)) if kind == "tolerances" else _EXPORTS[name]().rstrip("\n") + "\n"


def table(rows: Iterable[Tolerance]) -> str:
    """Rows as a Markdown table."""
    lines = ["| deviation | result | warning | seen from |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.seen, row.becomes, f"`{row.warning}`" if row.warning else "", row.servers)
        lines.append("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _counts() -> Iterator[tuple[str, ...]]:
    for count, facts in COUNTS.items():
        whole = "" if facts.part_of is None else f"`{facts.part_of}`"
        yield (f"`{count}`", whole, f"`{facts.span}`", facts.metric or "")


_WORDS: dict[str, tuple[tuple[str, ...], Iterable[tuple[str, ...]]]] = {
    "counts": (("count", "part of", "on spans", "`gen_ai.token.type` of the metric"), [*_counts()]),
    "waits": (
        ("`streamtools.wait.reason`", "waited for", "ends by itself"),
        [(f"`{reason}`", one.phrase, "no" if one.reader_acts else "yes") for reason, one in WAITS.items()],
    ),
    "runs": (("outcome", "what happened"), [(f"`{word}`", one.words) for word, one in RUN_OUTCOMES.items()]),
    "warnings": (
        ("code", "severity", "what happened"),
        [(f"`{code}`", one.severity, one.words) for code, one in WARNINGS.items()],
    ),
}


def _plain(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["|" + "|".join(f" {cell} ".replace("  ", " ") for cell in row) + "|" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


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
    return TOLERATED[name]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
