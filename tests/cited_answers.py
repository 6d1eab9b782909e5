"""Answers that name sources, or are files, in the shapes of each wire; and what they name: ``data/cited.jsonl``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sansio import DATA, json_lines

Payload = dict[str, Any]
PNG = "iVBORw0KGgo="
"""The first bytes of an image, which are no text."""
ONE = "https://one.example/a?b=c#d"


@dataclass(frozen=True)
class CitedAnswer:
    """An answer, and what is to be read of it."""

    wire: str
    payloads: list[Payload]
    sources: tuple[tuple[str | None, str | None], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    goes_back: bool = True
    """The sources are in the history, too."""


def _answer(row: dict[str, Any]) -> CitedAnswer:
    sources, files = (tuple(map(tuple, row[name])) for name in ("sources", "files"))
    return CitedAnswer(row["wire"], row["payloads"], sources, files, row["goes_back"])


ANSWERS = {row["case"]: _answer(row) for row in json_lines(DATA / "cited.jsonl")}
"""The answers, by what they show."""
