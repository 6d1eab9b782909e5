"""The deviations of real servers, and what becomes of each: read by the tests over all cases, and by the pages about
wires (``docs/tables.py``). Each row names a case that shows it, in ``tests/data/quirks``.
"""

from __future__ import annotations

from importlib import import_module

from streamtools.wires import Tolerance
from streamtools.wires.marks import MARKS

from .every_wire import BODIES, CALLS

__all__ = ["TOLERATED"]

TOLERATED: dict[str, tuple[Tolerance, ...]] = {
    "bodies": BODIES,
    "calls": CALLS,
    **{wire: import_module(f".{marks.package}", __name__).TOLERANCES for wire, marks in MARKS.items()},
}
"""The rows of every body, of every call, and of each wire, by its name."""
