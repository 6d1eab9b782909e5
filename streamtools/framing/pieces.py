"""Pieces of something that has not ended yet, in little more room than their bytes.

A list of pieces that is joined once costs linear time, and some 40 bytes for each piece: a peer that sends two bytes at
a time makes 8 MiB take 180. So when there are many, those that wait are put into one `bytearray` at the front, which
grows in place: still linear, and no more room than an eighth beyond what is held.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MANY", "fold"]

MANY = 256
"""Pieces from which on `fold` is worth its price: they take some 14 kB at the worst."""


def fold(pieces: list[Any], glue: bytes = b"") -> None:
    """Leave two pieces, which joined by `glue` say what all did: one that grows, a `bytearray`, and the last.

    Call it when there are `MANY`. Costs time linear in what came since the last time.
    """
    first, *rest, last = pieces
    grown = first if isinstance(first, bytearray) else bytearray(first)
    if rest:
        grown += glue
        grown += glue.join(rest)
    pieces[:] = [grown, last]
