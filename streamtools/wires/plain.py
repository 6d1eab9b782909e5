"""Recognises payloads that add nothing but one more piece to the text, the thought or the call that grows.

Nearly all payloads are such. A wire says as data where the piece stands and what may stand beside it (`PlainDelta`);
how such a payload looks in the stream at hand is learned from the stream itself (`PlainPath`).

Theory of operation. After two payloads in a row that were decoded the long way, gave one piece each and differ in
nothing else, the decoder keeps a *template*: the payload, with an object in the piece's place that equals everything
and remembers what it was compared with. A later payload that equals the template is decoded by that comparison alone,
which runs in C: there is no path to walk and no field to look up. Whatever the first two payloads had beside the piece
says nothing new when it comes again, since the long way has read it twice and made nothing of it. Any other payload
goes the long way, and makes the decoder learn anew.

Many providers write the same bytes around each piece. These are learned, too, and of a payload that has them only the
JSON text between them is parsed. If that is one value, it is the piece, and the payload equals the template: the bytes
before it put any JSON parser into the same state, and a value ends where it ends, whatever follows. Where a provider
writes another number or padding into each payload, the template is compared.

    learn(payload, "Hel", data)      the long way; nothing yet
    learn(payload, "lo", data)       the long way; True: from now on `template` may be compared
    piece_of(data)                   the piece, if the bytes around it are the same; else None, and
    payload == template              then `leaf.value` is the piece
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import orjson

from ..events import ReasoningDelta, RefusalDelta, TextDelta
from ..text import deeper_than
from .fields import Path
from .reading import says_something

__all__ = ["GrowingPart", "PlainDelta", "PlainPath"]

_MAX_DEPTH = 7  # of a value beside the piece: comparing recurses
_NO_NAMES: frozenset[str] = frozenset()
_MAX_REST = 64  # payloads that are not looked at after others were in vain


@dataclass(frozen=True, slots=True)
class PlainDelta:
    """Describes payloads with one piece of text at one place."""

    path: Path
    """The keys and positions that lead to the piece. A list on the way has one item."""
    beside: Mapping[Path, AbstractSet[str]]
    """The names that may stand beside each step, by the path of their object: fields that mean nothing when they come
    again as they were. Fields that say nothing (None, empty) may stand there whatever their names are."""
    varies: AbstractSet[Path] = frozenset()
    """Fields among these that may have another value in each payload; of an object the values, not the keys."""


class GrowingPart:
    """The text or the reasoning that grows in a response, and the room that all of them have."""

    __slots__ = ("kind", "max_size", "sink", "size")

    def __init__(self, max_size: int) -> None:
        self.kind: type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta] = TextDelta
        """The event of a piece."""
        self.size = 0
        """Characters so far, of this part and all before it."""
        self.max_size = max_size
        """How many there may be."""
        self.sink: Callable[[str], object] | None = None
        """Takes each piece as well, where the wire collects them."""


class _Anything:
    """Equals everything. A C function that is true for every argument stands in for the method, since a method in
    Python would cost as much as all the rest of the comparison."""

    __slots__ = ()
    __eq__ = type  # type: ignore[assignment]  # `type(other)`: a class, which is true
    __hash__ = None  # type: ignore[assignment]


class _Leaf:
    """Equals everything, and remembers it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def __eq__(self, other: object) -> bool:
        self.value = other
        return True

    __hash__ = None  # type: ignore[assignment]


_ANYTHING = _Anything()


class PlainPath:
    """The payloads of one stream that are recognised without being read.

    Args:
        deltas: the forms that they may have on the wire.
    """

    __slots__ = (
        "_around_size", "_before", "_deltas", "_in_vain", "_likely", "_rest", "_tail", "_varied", "head", "leaf",
        "template",
    )  # fmt: skip

    def __init__(self, deltas: tuple[PlainDelta, ...]) -> None:
        self.template: object = None
        """Equals each payload that differs from the last one in its piece alone; None while there is none."""
        self.leaf = _Leaf()
        """Has the piece of the payload that was compared last."""
        self.head: bytes | None = None
        """The bytes before the piece, where each payload has the same; None while `piece_of` knows of none."""
        self._tail = b""  # the bytes after it
        self._around_size = 0  # of both
        self._deltas = deltas
        self._likely: PlainDelta | None = None  # the form that was found last
        self._before: tuple[PlainDelta, dict[str, Any], dict[str, Any]] | None = None
        self._varied: set[Path] = set()  # the fields that have had another value
        self._in_vain = 0  # templates that no payload has equalled, in a row
        self._rest = 0  # payloads that are not looked at

    def forget(self) -> None:
        """Drops what was learned: a payload goes the long way, after which nothing need be as it was."""
        self.template = self.head = self._before = None

    def piece_of(self, data: bytes) -> Any:
        """Returns the piece of a payload that has the learned bytes around it, and equals the template for that
        reason; any other payload makes them forgotten, and gives None. Call it only if there is a `head`."""
        assert self.head is not None, "there is a head"
        written = data.removeprefix(self.head).removesuffix(self._tail)  # half the price of asking for them first
        if len(data) - len(written) == self._around_size:
            try:
                return orjson.loads(written)
            except orjson.JSONDecodeError:  # more than one value; or broken, as the long way will find
                pass
        self.head = None
        return None

    def learn(self, payload: dict[str, Any], text: str, data: bytes | None = None) -> bool:
        """Takes a payload that has gone the long way and given this piece alone; returns True if payloads like it may
        be compared from now on.

        Args:
            payload: must not change any more.
            text: the piece.
            data: the JSON text of the payload, if it came so.
        """
        before, self._before = self._before, None
        self.template = self.head = None
        if self._rest:
            self._rest -= 1
            return False
        if before is not None:
            delta, template, last = before
            if payload == template and self.leaf.value == text:
                self._in_vain, self.template = 0, template
                if data is not None:
                    self._learn_bytes(data, text)
                return True
            self._varied |= {path for path in delta.varies if _at(payload, path) != _at(last, path)}
        self._in_vain += 1
        self._rest = min(_MAX_REST, 1 << self._in_vain >> 3)
        for delta in self._deltas if self._likely is None else (self._likely, *self._deltas):
            if _at(payload, delta.path) == text and (template := self._template(delta, payload)) is not None:
                self._before, self._likely = (delta, template, payload), delta
                break
        return False

    def _learn_bytes(self, data: bytes, text: str) -> None:
        """Learns the bytes around the piece of a payload, if the piece is written as orjson would write it."""
        written, other = orjson.dumps(text), text + "."
        for at in (data.find(written), data.rfind(written)):
            if at < 0:
                return
            # A key or another value may be equal to the piece: only in the piece's place another one is found again.
            head, tail = data[:at], data[at + len(written) :]
            try:
                tried = orjson.loads(b"%b%b%b" % (head, orjson.dumps(other), tail))
            except orjson.JSONDecodeError:
                continue
            if tried == self.template and self.leaf.value == other:
                self.head, self._tail, self._around_size = head, tail, len(head) + len(tail)
                return

    def _template(self, delta: PlainDelta, payload: dict[str, Any]) -> Any:
        """Returns the payload with the leaf in the piece's place; None if something beside it says something."""
        on_the_way: list[Any] = [payload]
        for step in delta.path[:-1]:
            on_the_way.append(on_the_way[-1][step])
        template: Any = self.leaf
        for depth in reversed(range(len(delta.path))):
            at, found = delta.path[:depth], on_the_way[depth]
            if isinstance(found, list):
                if len(found) != 1:
                    return None
                template = [template]
                continue
            known, there = delta.beside.get(at, _NO_NAMES), {delta.path[depth]: template}
            for name, value in found.items():
                if name in there:
                    continue
                if name not in known and says_something(value):
                    return None
                if isinstance(value, (dict, list)) and deeper_than(_MAX_DEPTH, value):
                    return None
                if isinstance(value, dict) and (*at, name) in delta.varies:
                    there[name] = dict.fromkeys(value, _ANYTHING)
                else:
                    there[name] = _ANYTHING if (*at, name) in self._varied else value
            template = there
        return template


def _at(found: Any, path: Path) -> Any:
    """Returns the value at a path; None if there is none."""
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and len(found) > step else None
    return found
