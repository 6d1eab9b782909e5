"""The deviations of real servers, and what becomes of each: read by the tests over all cases, and by the pages about
wires (``docs/tables.py``). Each row of ``data/tolerated.jsonl`` names a case that shows it, in ``data/quirks``.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamtools.wires import WIRES, Tolerance

__all__ = ["TOLERATED"]

TOLERATED: dict[str, list[Tolerance]] = {table: [] for table in ("bodies", "calls", *WIRES)}
"""The rows of every body, of every call, and of each wire, by its name."""

for _line in (Path(__file__).parent / "data" / "tolerated.jsonl").read_text(encoding="utf-8").splitlines():
    _row = json.loads(_line)
    TOLERATED[_row.pop("table")].append(Tolerance(**_row))
