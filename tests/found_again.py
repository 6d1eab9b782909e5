"""Marks strings in the payloads of a stream, and finds them again in its events and its turn.

A skeleton is a response that a wire tells without an error or a warning: composed by the wire's cases, or one of its
quirks. An edit puts one marked string into it, in the value of a field that no provider has yet (`Insert`), or in the
place of a string that the schema leaves free (`Replace`): texts, arguments, ids, names, signatures.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from every_wire import FRAMES, Payload, payloads_of, said
from sansio import QUIRKS, body_of
from wire_cases import CASES

from streamtools import StreamDecoder, parse
from streamtools.events import StreamEnd
from streamtools.turn import TurnBuilder

__all__ = ["WAYS", "Edit", "Way", "alike", "edits_of", "excuse", "lost", "place_of", "skeletons"]

Path = tuple[str | int, ...]

USAGE = frozenset({"usage", "usageMetadata", "usage_metadata", "meta"})
"""The fields that hold the counts of tokens, which `StreamEnd.usage_raw` is for."""

WORDS = frozenset({
    "type", "event_type", "role", "object", "status", "finish_reason", "finishReason", "stop_reason", "stopReason",
    "done_reason", "nullValue", "execution", "environment", "language", "outcome",
})  # fmt: skip
"""Fields whose strings are words of the schema."""

REPLACEABLE = frozenset({
    "created", "created_at", "is_finished", "item_id", "model", "modelVersion", "obfuscation", "object", "role",
    "sequence_number",
})  # fmt: skip
"""Fields that can be missing."""

ERROR = {"error": {"type": "overloaded_error", "message": "overloaded", "code": "busy"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How marks are put in, and the payloads are fed."""

    framed: bool = False
    """As bytes, not as objects."""
    deep: bool = False
    """Inside an object and a list, not as the field's value."""
    instead: bool = False
    """In the place of a field that says nothing, so that the object has as many fields as before."""


WAYS = (Way(), Way(framed=True, deep=True), Way(framed=True, instead=True))
"""Ways that differ from each other in everything."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One marked string that is put into the payloads of a skeleton."""

    at: int
    """The number of the payload."""
    path: Path
    """Path of the object that gets a new field, or of the string that is replaced."""
    old: str | None = None
    """The string that is replaced, in the same field of every payload; None for a new field."""

    def apply(self, payloads: list[Payload], mark: str, way: Way) -> None:
        """Puts `mark` into the payloads."""
        if self.old is not None:
            payloads[:] = [_replaced(payload, self.old, mark) for payload in payloads]
            return
        found: Any = payloads[self.at]
        for key in self.path:
            found = found[key]
        noise = next((key for key in found if key in REPLACEABLE), None) if way.instead else None
        found.pop(noise, None)
        found["newField"] = {"deep": [mark]} if way.deep else mark


def place_of(payloads: list[Payload], edit: Edit) -> str:
    """Returns the place of an edit in words: the payload's kind and the path, ``message_start:message.usage``."""
    payload = payloads[edit.at]
    kind = payload.get("type") or payload.get("event_type") or ""
    path = "".join("[]" if isinstance(key, int) else f".{key}" for key in edit.path).lstrip(".")
    return f"{kind}:{path}" + ("" if edit.old is None else "=")


def skeletons(wire: str) -> list[list[Payload]]:
    """Returns the skeletons of a wire."""
    return copy.deepcopy(_skeletons(wire))  # none of whose objects stands in two places


@cache
def _skeletons(wire: str) -> list[list[Payload]]:
    calls = [("call_one", "look", '{"city": "Oslo"}'), ("call_two", "find", '{"query": "fjord"}')]
    text, reasoning = ["Hello ", "dear ", "world, ", "again"], ["First, ", "I think."]
    whole = said(wire, text=text, reasoning=reasoning, refusal=["I ", "refuse"], calls=calls)
    cut = [*said(wire, text=text, reasoning=reasoning, ends=False), ERROR]
    composed = [whole, said(wire, text=text), cut, [*whole, {"surprise": "after the end"}]]
    return [*(json.loads(json.dumps(payloads)) for payloads in composed), *_regular_quirks(wire)]


def _regular_quirks(wire: str) -> Iterator[list[Payload]]:
    for quirk in QUIRKS:
        if quirk["wire"] == wire:
            payloads = payloads_of(body_of(quirk))
            turn = parse(copy.deepcopy(payloads), wire=wire)
            if turn.complete and turn.error is None and not turn.warnings and len(payloads) <= 40:
                yield payloads


def edits_of(payloads: list[Payload]) -> list[Edit]:
    """Returns every edit that can be made in a skeleton."""
    found: list[Edit] = []
    seen: set[str] = set()
    for at, payload in enumerate(payloads):
        for path, value in _nodes(payload, ()):
            if isinstance(value, dict):
                found.append(Edit(at, path))
            elif isinstance(value, str) and value and path[-1] not in WORDS and value not in seen:
                seen.add(value)
                found.append(Edit(at, path, value))
    return found


def alike(edits: list[Edit], edit: Edit) -> list[Edit]:
    """Returns the edits that put a new field into the same object of other payloads, with `edit` itself."""
    return [other for other in edits if other.path == edit.path and other.old is None] if edit.old is None else [edit]


def marked(payloads: list[Payload], edits: Mapping[str, Edit], way: Way) -> list[Payload]:
    """Returns the payloads with each mark put in by its edit; new fields first, since paths hold until then."""
    if any(edit.old is not None for edit in edits.values()):
        way = replace(way, instead=False)  # a string that is replaced must be there
    edited = copy.deepcopy(payloads)
    for mark, edit in sorted(edits.items(), key=lambda item: item[1].old is not None):
        edit.apply(edited, mark, way)
    return edited


def lost(wire: str, payloads: list[Payload], edits: Mapping[str, Edit], way: Way) -> set[str]:
    """Returns the places of the marks that neither an event nor the turn holds once they are put in."""
    decoder, builder = StreamDecoder(wire=wire), TurnBuilder()
    events = []
    fed = marked(payloads, edits, way)
    for item in FRAMES["sse"](fed) if way.framed else fed:
        events += decoder.feed(item)
    events += decoder.finish()
    builder.add_all(events)
    told = "\n".join([*_strings(events, usage=False), *_strings(builder.build(), usage=False)])
    counted = "\n".join(_strings([event for event in events if isinstance(event, StreamEnd)], usage=True))
    return {
        place_of(payloads, edit)
        for mark, edit in edits.items()
        if mark not in told and (USAGE.isdisjoint(edit.path) or mark not in counted)
    }


def excuse(wire: str, place: str) -> str | None:
    """Returns the exception of the wire's cases that covers a place, if one does."""
    return next((pattern for pattern in CASES[wire].not_found_again if re.fullmatch(pattern, place)), None)


def _nodes(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _nodes(item, (*path, key))


def _replaced(value: Any, old: str, mark: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _replaced(item, old, mark, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, mark, key) for item in value]
    return mark if value == old and key not in WORDS else value


def _strings(value: Any, *, usage: bool) -> Iterator[str]:
    """Yields every string in a value, keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key, usage=usage)
            yield from _strings(item, usage=usage)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item, usage=usage)
    elif isinstance(value, BaseException):
        yield from _strings(vars(value) | {"message": str(value)}, usage=usage)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            if one.name != "usage_raw" or usage:
                yield from _strings(getattr(value, one.name), usage=usage)
