"""Reasoning that is told in other ways than by a field of its own.

A ``<think>`` block opens the text of a response where a server has no reasoning parser (BerriAI/litellm#15233,
pydantic/pydantic-ai#2290). Only a block at the very start is split off, since text may quote one. Servers' own fields
have to be sent back as they came (`EXTRAS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ..reading import list_of, says_something, weight
from .facts import ENTRIES

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_SPACE = 4096  # characters of white space before a tag, or after its end; after more, all is text


class LeadingThink:
    """Splits the head of a text. Feed it until `state` is ``"text"``; from then on all is text. Holds back at most what
    may still become a tag, so that a tag is found however it is cut."""

    def __init__(self) -> None:
        self.state: Literal["undecided", "reasoning", "gap", "text"] = "undecided"
        self.raw: list[str] = []  # everything up to the text, verbatim: what a history must repeat
        self._held = ""  # what may become a tag
        self._space: list[str] = []  # the white space before it
        self._space_size = 0

    def feed(self, text: str) -> tuple[str, str]:
        """Takes more text; returns (reasoning, text) that are now certain."""
        reasoning = ""
        if self.state == "undecided":
            if not self._begins_with_tag(text):
                return ("", "") if self.state == "undecided" else ("", self._to_text(self._head()))
            self.state, self._space_size = "reasoning", 0
            self.raw.append("".join(self._space) + _OPEN)
            text, self._held = self._held[len(_OPEN) :], ""
        if self.state == "reasoning":
            reasoning, text = self._reasoning(text)
        if self.state == "gap":  # the white space between the block and the text belongs to neither
            stripped = text.lstrip()
            self._space_size += len(text) - len(stripped)
            self.raw[-1] += text[: len(text) - len(stripped)]
            return reasoning, self._to_text(stripped) if stripped or self._space_size > _MAX_SPACE else ""
        return reasoning, ""

    def finish(self) -> tuple[str, str]:
        held, self._held = (self._head() if self.state == "undecided" else self._held), ""
        if self.state == "reasoning":
            self.raw.append(held)
            return held, ""
        self.state = "text"
        return "", held

    def _begins_with_tag(self, text: str) -> bool:
        if not self._held:
            stripped = text.lstrip()
            self._space.append(text[: len(text) - len(stripped)])
            self._space_size += len(self._space[-1])
            text = stripped
        self._held += text  # at most a tag and one delta
        if self._held.startswith(_OPEN):
            return True
        if not _OPEN.startswith(self._held) or self._space_size > _MAX_SPACE:
            self.state = "text"
        return False

    def _head(self) -> str:
        return "".join(self._space) + self._held

    def _reasoning(self, text: str) -> tuple[str, str]:
        text = self._held + text
        at = text.find(_CLOSE)
        if at >= 0:
            self.state, self._held = "gap", ""
            self.raw.append(text[: at + len(_CLOSE)])
            return text[:at], text[at + len(_CLOSE) :]
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self._held = text[len(text) - keep :]
        text = text[: len(text) - keep]
        self.raw.append(text)
        return text, ""

    def _to_text(self, text: str) -> str:
        self.state, self._held = "text", ""
        return text


class _Pieces(list[str]):
    """A text while it grows."""


_TEXTS = frozenset({"data", "reasoning", "summary", "text", "thinking"})


class Extras:
    def __init__(self) -> None:
        self.size = 0  # of what is kept, as `weight` has it
        self.replaced: dict[str, Any] = {}  # values that the latest field has replaced
        self.is_signed = False  # the latest field has a signature; LiteLLM has all the text there again (its #31022)
        self.kept: dict[str, Any] = {}

    def add(self, name: str, value: object) -> Iterator[str]:
        self.replaced, self.is_signed = {}, False
        if name in ENTRIES:
            return self._extend(self.kept.setdefault(name, []), list_of(value))
        return self._grow(self.kept, {name: value}, is_entry=False)

    def whole(self) -> dict[str, Any]:
        return {name: value for name, value in _whole(self.kept).items() if says_something(value)}

    def _grow(self, kept: dict[str, Any], piece: Mapping[str, Any], *, is_entry: bool = True) -> Iterator[str]:
        for key, value in piece.items():
            before: Any = kept.get(key)
            if isinstance(value, (dict, list)) and (before is None or type(before) is type(value)):
                before = kept[key] = type(value)() if before is None else before
                if isinstance(value, dict):
                    yield from self._grow(before, value, is_entry=is_entry)
                elif is_entry or (key in ENTRIES and key != "content"):  # LiteLLM has them in its own fields, too
                    yield from self._extend(before, value)
                else:  # some servers have all so far again
                    more = value[len(before) :] if value[: len(before)] == before else value
                    self.size += sum(map(weight, more))
                    before += more
            elif is_entry and isinstance(value, str) and key in _TEXTS and type(before) in (_Pieces, type(None)):
                kept[key] = before = before or _Pieces()
                self.size += len(value)
                before += [value] if value else ()
                yield from () if key == "data" else (value,)
            elif key not in kept or (value is not None and before != value):
                self.size += weight(value)
                if says_something(before):
                    self.replaced[key] = _whole(before)
                kept[key] = _whole(value)

    def _extend(self, entries: list[Any], pieces: list[Any]) -> Iterator[str]:
        for number, piece in enumerate(pieces):
            if not isinstance(piece, dict):
                if says_something(piece):
                    self.size += weight(piece)
                    entries.append(piece)
                continue
            if not entries or type(entries[-1]) is not dict or not _continues(entries[-1], piece, is_first=number == 0):
                if not any(says_something(value) for key, value in piece.items() if key != "type"):
                    continue
                entries.append({})
            self.is_signed = self.is_signed or bool(piece.get("signature"))
            yield from self._grow(entries[-1], piece)


def _continues(entry: dict[str, Any], piece: dict[str, Any], *, is_first: bool) -> bool:
    """Returns whether a piece is of the latest entry. Labels say so, of which it may leave out some; without any it is,
    if it comes first in its delta, and no signature, which is of the whole, came before it."""
    labels = [(key, entry.get(key), piece.get(key)) for key in ("id", "index", "type")]
    given = {key: one == other for key, one, other in labels if one is not None and other is not None}
    is_labelled = not given.keys() <= {"type"}
    return all(given.values()) and (is_labelled or (is_first and "data" not in piece and not entry.get("signature")))


def _whole(value: Any) -> Any:
    if type(value) is _Pieces:
        return "".join(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if type(value) is list else value
