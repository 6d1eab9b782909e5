"""Packs a whole patch for a page's file: a run of a million events is 30 MB then, and read within seconds.

The page's script unpacks it (``unpack`` in ``model.js``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def packed(data: dict[str, Any]) -> dict[str, Any]:
    pieces, seqs, times, texts = data["growth"]
    growth = [_steps(pieces), _steps(seqs), _steps(times), [_units(text) for text in texts], "".join(texts)]
    arguments = _joined(data["pieces"], pieces, texts)
    return {**data, "growth": growth, "marks": _marks(data["marks"]), "calls": [*_calls(data["calls"], arguments)]}


def _steps(numbers: Iterable[int]) -> list[int]:
    before, steps = 0, []
    for number in numbers:
        steps.append(number - before)
        before = number
    return steps


def _units(text: str) -> int:
    # A script counts in UTF-16.
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _joined(pieces: Iterable[list[Any]], ids: Iterable[int], texts: Iterable[str]) -> dict[int, str]:
    """Returns for each call its arguments as they grew."""
    calls = {piece[0]: piece[5] for piece in pieces if piece[5] is not None}
    parts: dict[int, list[str]] = {}
    for piece, text in zip(ids, texts, strict=True):
        if piece in calls:
            parts.setdefault(calls[piece], []).append(text)
    return {call: "".join(grown) for call, grown in parts.items()}


def _calls(calls: Iterable[dict[str, Any]], arguments: dict[int, str]) -> Iterator[dict[str, Any]]:
    for call in calls:
        grown, result = arguments.get(call["id"]), call.get("result")
        twice = {"arguments"} if grown is not None and grown == call.get("arguments") else set()
        if result is not None and result == call.get("answer"):
            twice.add("answer")
        yield {name: value for name, value in call.items() if name not in twice} if twice else call


def _marks(marks: list[list[Any]]) -> list[Any]:
    """Returns the columns of marks: steps of `seq` and time, kinds by number, lanes, distances to causes; and kinds."""
    kinds = {kind: at for at, kind in enumerate(dict.fromkeys(mark[2] for mark in marks))}
    return [
        _steps(mark[0] for mark in marks),
        _steps(mark[1] for mark in marks),
        [kinds[mark[2]] for mark in marks],
        [mark[3] for mark in marks],
        [_distances(at, mark[4]) for at, mark in enumerate(marks)],
        [*kinds],
    ]


def _distances(at: int, causes: list[int]) -> int | list[int]:
    """Returns how far before a mark its causes are; a number for a single one, which is the usual."""
    return at - causes[0] if len(causes) == 1 else [at - cause for cause in causes]
