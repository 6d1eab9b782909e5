"""Recognises payloads that only add one more piece to the growing text, reasoning or call: nearly all payloads.

Theory of operation. After two payloads in a row that were decoded the long way, gave one piece each and differ in
nothing else, the decoder keeps a *template*: the payload, with an object in the piece's place that equals everything
and remembers what it was compared with. A later payload that equals the template is decoded by that comparison alone,
which runs in C: there is no path to walk and no field to look up. Whatever the first two payloads had beside the piece
says nothing new when it comes again, since the long way has read it twice and made nothing of it. Any other payload
goes the long way, and makes the decoder learn anew.

Most providers write the same bytes around each piece, but for a number that counts the payloads, or padding. These
bytes are learned, too, and of a payload that has them only the JSON text of the piece is parsed. If that is one value,
the payload is JSON and equals the template: equal bytes put any JSON parser into the same state, a value ends where it
ends, whatever follows, and another number and other padding were tried in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from ..events import ReasoningDelta, RefusalDelta, TextDelta
from ..ground.text import deeper_than
from .cursors import EventCursors, is_number
from .reading import Path, says_something

_MAX_DEPTH = 7  # of a value beside the piece: comparing recurses
_NO_NAMES: frozenset[str] = frozenset()
_MAX_REST = 64  # payloads that are not looked at after others were in vain
_TRIES = 8  # to find the bytes around a piece: pieces may be written with escapes, and padding may come later
_MAX_LEARNED = 4 << 10  # bytes of a payload that is looked at so closely; those of deltas have some 300


@dataclass(frozen=True, slots=True)
class PlainDelta:
    """A form of payloads that differ from the previous one only in their piece, so that they need no handler."""

    path: Path
    """The keys and positions that lead to the piece. A list on the way has exactly one item."""
    beside: Mapping[Path, AbstractSet[str]]
    """The names allowed beside each step, by the path of their object: fields that mean nothing when they repeat. Empty
    fields (None, empty) are allowed with any name."""
    varies: AbstractSet[Path] = frozenset()
    """Fields among these whose value may differ in each payload; of an object its values, not its keys."""


class GrowingPart:
    """The text or the reasoning that grows in a response, and the room that all of them have."""

    __slots__ = ("kind", "max_size", "sink", "size")

    def __init__(self, max_size: int) -> None:
        self.kind: type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta] = TextDelta
        self.size = 0  # characters so far, of this part and all before it
        self.max_size = max_size
        self.sink: Callable[[str], object] | None = None  # takes each piece as well, where the wire collects them


class _Anything:
    """Equals everything. A C function that is true for every argument stands in for the method, since a method in
    Python would cost as much as all the rest of the comparison."""

    __slots__ = ()
    __eq__ = type  # type: ignore[assignment]  # `type(other)`: a class, which is true
    __hash__ = None  # type: ignore[assignment]


class _Leaf:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def __eq__(self, other: object) -> bool:
        self.value = other
        return True

    __hash__ = None  # type: ignore[assignment]


_ANYTHING = _Anything()


class PlainPath:
    """The payloads of one stream that are recognised without being read, in the forms of `deltas`."""

    __slots__ = (
        "_before", "_deltas", "_in_vain", "_last", "_likely", "_rest", "_varied", "cursors", "leaf", "surroundings",
        "template", "tries",
    )  # fmt: skip

    def __init__(self, deltas: tuple[PlainDelta, ...], cursors: EventCursors | None = None) -> None:
        self.cursors = cursors
        self.template: object = None
        """Equals each payload that differs from the last one in its piece alone; None while there is none."""
        self.leaf = _Leaf()
        self.surroundings: Surroundings | None = None
        """The bytes around the piece; None while they are not known. Reset it when a payload has others."""
        self.tries = 0  # how often these may still be looked for
        self._last: tuple[bytes, str] | None = None  # the last payload that they were looked for in, and its piece
        self._deltas = deltas
        self._likely: PlainDelta | None = None  # the form that was found last
        self._before: tuple[PlainDelta, dict[str, Any], dict[str, Any]] | None = None
        self._varied: set[Path] = set()  # the fields that have had another value
        self._in_vain = 0  # templates that no payload has equalled, in a row
        self._rest = 0  # payloads that are not looked at

    def forget(self) -> None:
        self.template = self.surroundings = self._before = self._last = None
        self.tries = 0

    def learn(self, payload: dict[str, Any], text: str) -> bool:
        """Takes a payload that gave this piece alone; returns True if payloads like it may be compared from now on."""
        before = self._before
        self.forget()
        if self._rest:
            self._rest -= 1
            return False
        if before is not None:
            delta, template, last = before
            if payload == template and self.leaf.value == text:
                self._in_vain, self.template, self.tries = 0, template, _TRIES
                return True
            self._varied |= {path for path in delta.varies if _at(payload, path) != _at(last, path)}
        self._in_vain += 1
        self._rest = min(_MAX_REST, 1 << self._in_vain >> 3)
        for delta in self._deltas if self._likely is None else (self._likely, *self._deltas):
            if _at(payload, delta.path) == text and (template := self._template(delta, payload)) is not None:
                self._before, self._likely = (delta, template, payload), delta
                break
        return False

    def learn_bytes(self, data: bytes, text: Any, payload: Mapping[str, Any]) -> None:
        self.tries -= 1
        last, self._last = self._last, None
        if type(text) is not str or len(data) > _MAX_LEARNED:
            return
        self._last = data, text
        if last is None:
            return
        other = text + "."
        for find in (bytes.find, bytes.rfind):  # a key or another value may be equal to the piece
            surroundings = _common(last, (data, text), find)
            if surroundings is None:
                continue
            try:
                example = orjson.loads(surroundings.example(other))
            except orjson.JSONDecodeError:
                continue
            if (
                example == self.template
                and self.leaf.value == other
                and (self.cursors is None or surroundings.follow(self.cursors, data, payload.get(self.cursors.field)))
            ):
                self.surroundings = surroundings
                return

    def _template(self, delta: PlainDelta, payload: dict[str, Any]) -> Any:
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
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and len(found) > step else None
    return found


# -- the bytes around a piece --


class _Gap(NamedTuple):  # a place where each payload has something else
    fits: Callable[[bytes], bool]
    example: bytes  # bytes that may, other than those from which the place was learned
    goes_on: Callable[[bytes], bool] | None = None
    """Takes these bytes as the cursor of an event, if they are; returns whether they may be, and the event is new."""

    def cursor(
        self, cursors: EventCursors, cursor: int | str, before: bytes, found: bytes, after: bytes
    ) -> Callable[[bytes], bool] | None:
        """Returns what takes the bytes in the gap as a cursor; None if `cursor` does not stand there."""
        before, _, prefix = before.rpartition(b'"') if isinstance(cursor, str) else (before, b"", b"")
        if not before.rstrip(b" ").removesuffix(b":").rstrip(b" ").endswith(b'"%b"' % cursors.field.encode()):
            return None
        if isinstance(cursor, int):
            return cursors.digits_go_on if found == b"%d" % cursor else None
        fits, suffix, text_goes_on = self.fits, after.partition(b'"')[0], cursors.text_goes_on
        if b"\\" in prefix + suffix or prefix + found + suffix != cursor.encode("utf-8", "surrogatepass"):
            return None
        return lambda found: fits(found) and text_goes_on(prefix + found + suffix)


class Surroundings:
    """The bytes that payloads have before their piece and after it, with at most one gap on each side: `head` and
    `tail` are the outer ones, `left_inner` and `right_inner` those between a gap and the piece."""

    __slots__ = ("_has_gaps", "_size", "head", "left", "left_inner", "right", "right_inner", "tail")

    def __init__(
        self, head: bytes, left: _Gap | None, left_inner: bytes, right_inner: bytes, right: _Gap | None, tail: bytes
    ) -> None:
        self.head, self.left, self.left_inner = head, left, left_inner
        self.right_inner, self.right, self.tail = right_inner, right, tail
        self._size = len(head) + len(tail)
        self._has_gaps = left is not None or right is not None

    def follow(self, cursors: EventCursors, data: bytes, cursor: object) -> bool:
        """Recognises from now on only payloads whose cursor goes on; returns False if it is not found in `data`."""
        if cursors.is_useless or (type(cursor) is not int and type(cursor) is not str):
            return True
        inner = data.removeprefix(self.head).removesuffix(self.tail)
        if self.left is not None:
            found = inner.partition(self.left_inner)[0]
            if goes_on := self.left.cursor(cursors, cursor, self.head, found, self.left_inner):
                self.left = self.left._replace(goes_on=goes_on)
                return True
        if self.right is not None:
            found = inner.rpartition(self.right_inner)[2]
            if goes_on := self.right.cursor(cursors, cursor, self.right_inner, found, self.tail):
                self.right = self.right._replace(goes_on=goes_on)
                return True
        return False

    def piece_of(self, data: bytes) -> Any:
        written = data.removeprefix(self.head).removesuffix(self.tail)  # half the price of asking for them first
        if len(data) - len(written) != self._size:
            return None
        if not self._has_gaps:
            try:
                piece = orjson.loads(written)
            except orjson.JSONDecodeError:  # none, or more than one; or broken, as the long way will find
                return None
            return piece if type(piece) is str else None  # what is no text goes the long way
        goes_on, cursor = None, b""
        if (left := self.left) is not None:
            found, _, written = written.partition(self.left_inner)
            if left.goes_on is not None:
                goes_on, cursor = left.goes_on, found
            elif not left.fits(found):
                return None
        if (right := self.right) is not None:
            written, _, found = written.rpartition(self.right_inner)
            if right.goes_on is not None:
                goes_on, cursor = right.goes_on, found
            elif not right.fits(found):
                return None
        try:
            piece = orjson.loads(written)
        except orjson.JSONDecodeError:
            return None
        if type(piece) is not str or (goes_on is not None and not goes_on(cursor)):
            return None
        return piece

    def example(self, piece: str) -> bytes:
        """Returns a payload with this piece, and with other bytes in the gaps than those that were seen."""
        left, right = (b"" if gap is None else gap.example for gap in (self.left, self.right))
        written = orjson.dumps(piece)
        return b"".join((self.head, left, self.left_inner, written, self.right_inner, right, self.tail))


def _common(
    one: tuple[bytes, str], other: tuple[bytes, str], find: Callable[[bytes, bytes], int]
) -> Surroundings | None:
    """Returns the bytes around the piece that the JSON texts of two payloads have in common; None if they differ in
    more than one gap on a side, or a piece is not written as orjson writes it."""
    sides: list[bytes] = []
    for data, text in (one, other):
        written = orjson.dumps(text)
        if (at := find(data, written)) < 0:
            return None
        sides += (data[:at], data[at + len(written) :])
    before, after = _gap(sides[0], sides[2]), _gap(sides[1], sides[3])
    if before is None or after is None:
        return None
    head, left, left_inner = before
    right_inner, right, tail = after
    if right is None:
        right_inner, tail = b"", right_inner
    if (left is not None and not left_inner) or (right is not None and not right_inner):
        return None  # the gap has no end
    return Surroundings(head, left, left_inner, right_inner, right, tail)


def _gap(one: bytes, other: bytes) -> tuple[bytes, _Gap | None, bytes] | None:
    """Returns the bytes before the only place where two texts differ, the place, and the bytes after it. If they do
    not differ, all bytes come before; None if they differ in more than a number, a word or blanks."""
    if one == other:
        return one, None, b""
    begin, end = _shared(one, other), _shared(one[::-1], other[::-1])
    end = min(end, len(one) - begin, len(other) - begin)
    differing = one[begin : len(one) - end] + other[begin : len(other) - end]
    kind = next((kind for kind in (_WORD, b" ") if not differing.strip(kind)), None)
    if kind is None:
        return None
    before, after = one[:begin].rstrip(kind), one[len(one) - end :].lstrip(kind)
    found = [text[len(before) : len(text) - len(after)] for text in (one, other)]
    if kind == b" ":
        return before, _Gap(lambda written: not written.strip(b" "), b" ".join(found)), after
    if all(map(is_number, found)):
        return before, _Gap(is_number, b"".join(found)), after
    return before, _Gap(bytes.isalnum, b"".join((*found, b"Zz"))), after  # a word with such an end is inside a text


_WORD = bytes(code for code in range(128) if chr(code).isalnum())


def _shared(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
