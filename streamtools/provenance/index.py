"""Finds the texts of a run in which a value occurs: texts by origin, cut into blocks that are searched by token.

Theory of operation. A text is only queued when it is added. `Index.work` takes a block of it at a time: puts it into
the form that is compared (`forms`), adds a line for each number, date or account number that is written in another way
than values are, and notes which tokens occur: two bits for each, in rows that stand for 16 blocks at once. A search
looks the rows up, which takes a microsecond for all 16, and reads only the blocks that may have all tokens of the
value. Blocks overlap, so that a value stands whole in one of them; longer values are searched in pieces.

Doubt goes against a value: a path is not the folder above it, and a trusted result does not vouch for what its call was
asked with.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

from .forms import (
    A_DATE,
    A_MOMENT,
    A_NUMBER,
    ACCOUNT,
    ALONE,
    APART,
    DATE,
    IS_ALONE,
    LEAST_ACCOUNT,
    MAX_NUMBER_CHARS,
    NUMBER,
    as_written,
    dates_in,
    forms,
    normalised,
    number_text,
    numbers_in,
    tokens,
)  # fmt: skip

SHORT_CHARS = 4  # shorter values occur in any long text, so that it means nothing where they stand
BLOCK_CHARS = 4 << 10  # a millisecond of work
WINDOW_CHARS = 400  # of a value that is searched in one piece; blocks overlap by more
MAX_ORIGINS = 4  # that are named of one value
_OF_A_TEXT = 64  # bytes that a text takes beside its characters

Kind: TypeAlias = Literal["user", "system", "result", "model", "marked", "attached", "other"]


@dataclass(frozen=True, slots=True)
class Origin:
    kind: Kind
    """``user``, ``system``, ``result`` (of a tool), ``model``; ``marked``: the program has marked it `Untrusted`;
    ``attached``: a document or a search result in a user's message; or ``other``: a message that nobody here can
    read."""
    tool: str | None = None
    call_id: str | None = None
    is_trusted: bool = False  # nobody but the user and the program has written it


# -- what is searched --


class Needle(NamedTuple):
    """One text to search for: as it stands, as a number that is no part of another, or as a whole line."""

    text: str
    kind: Literal["text", "number", "line"] = "text"


_Reading: TypeAlias = "tuple[tuple[Needle, ...], ...]"


class Value(NamedTuple):
    """A value of a call's arguments: several readings, each of pieces that all have to be found, each in one of several
    ways.
    """

    readings: tuple[_Reading, ...]
    trusted: tuple[_Reading, ...]
    is_short: bool

    @classmethod
    def of_number(cls, number: int | float | Decimal) -> Value:
        text = number_text(number)
        line = Needle(f"{NUMBER}{text}", "line")
        return cls((((Needle(text, "number"), line),),), (((line,),),), len(text) < SHORT_CHARS)

    @classmethod
    def of_text(cls, given: str) -> Value | None:
        text = named = written = normalised(given)
        if not (given.isascii() and given.isprintable() and "\\" not in given and "&" not in given):
            named, written = normalised(given, trusted=True), as_written(given)
        if not text:
            return None
        if written == named:
            trusted = _readings(named, trusted=True)
        else:  # of signs that would count as others
            trusted = (tuple((Needle(piece),) for piece in _windows(written)),)
        return cls(_readings(text), trusted, len(text) < SHORT_CHARS)


def _readings(text: str, *, trusted: bool = False) -> tuple[_Reading, ...]:
    if text.startswith(("http://", "https://")):
        text = text.rstrip("/")
    pieces = _windows(text)
    if len(pieces) > 1:
        return (tuple((Needle(piece),) for piece in pieces),)
    ways = [Needle(text)]
    number = A_NUMBER.fullmatch(text)
    if number is not None and len(texts := numbers_in(text, trusted=trusted)) == 1:
        lines = [Needle(f"{NUMBER}{one}", "line") for one in texts]
        ways = lines if trusted else [*ways, *(Needle(one, "number") for one in texts), *lines]
    compact = APART.sub("", text)
    if len(compact) >= LEAST_ACCOUNT and sum(map(str.isdigit, compact)) >= 4 and compact.lstrip("+").isalnum():
        ways += [Needle(compact), Needle(f"{ACCOUNT}{compact}", "line")]
    if len(text) <= MAX_NUMBER_CHARS and (day := A_DATE.fullmatch(text)) is not None:
        ways = [Needle(f"{DATE}{one}", "line") for one in dates_in(day)] or ways
    readings: list[_Reading] = [(tuple(ways),)]
    if (moment := A_MOMENT.fullmatch(text)) is not None:
        when = ((Needle(moment[2]),),) if moment[2] and moment[2] != "00:00" else ()
        if when or moment[2]:
            readings.append(((Needle(f"{DATE}{moment[1]}", "line"),), *when))
    return tuple(readings)


def _windows(text: str) -> list[str]:
    """Cuts a long text into pieces that each stand whole in a block, between words where there are spaces."""
    pieces = []
    while len(text) > WINDOW_CHARS:
        cut = text.rfind(" ", WINDOW_CHARS // 2, WINDOW_CHARS)
        cut = WINDOW_CHARS if cut < 0 else cut
        pieces.append(text[:cut].strip())
        text = text[cut:].strip()
    return [*pieces, text] if text or not pieces else pieces


# -- the index --


BLOCKS = 16  # on a shelf: the bits of an item of its rows
PLACES = 1 << 13  # of the tokens of a block, two for each of the thousand that it has


class _Block:
    __slots__ = ("origins", "starts", "text")

    def __init__(self) -> None:
        self.text = b""  # lines: texts, and values in other forms
        self.starts = array("I")  # where the lines of each text begin
        self.origins: list[Origin] = []


class _Shelf:
    __slots__ = ("blocks", "rows")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.rows = array("H", bytes(2 * PLACES))  # by the place of a token: a bit for each block

    def add(self, origin: Origin, given: str) -> None:
        block, bit, rows = self.blocks[-1], 1 << (len(self.blocks) - 1), self.rows
        texts, lines = forms(given, trusted=origin.is_trusted)
        block.starts.append(len(block.text))
        block.origins.append(origin)
        block.text += "\n".join(("", *texts, *lines, "")).encode("utf-8", "surrogatepass")
        for token in lines.union(*map(tokens, texts)):
            number = hash(token)
            rows[number % PLACES] |= bit
            rows[(number >> 24) % PLACES] |= bit

    def having(self, words: Iterable[str]) -> Iterator[_Block]:
        """Yields the blocks that may have all these tokens, the latest first."""
        found, rows = (1 << len(self.blocks)) - 1, self.rows
        for token in words:
            number = hash(token)
            found &= rows[number % PLACES] & rows[(number >> 24) % PLACES]
            if not found:
                return
        for number in range(found.bit_length() - 1, -1, -1):
            if found >> number & 1:
                yield self.blocks[number]


class Index:
    """The texts of a run, by origin; beyond `max_bytes`, in characters, it `is_partial`."""

    def __init__(self, max_bytes: int) -> None:
        self.is_partial = False  # True if there are texts that are not known here: too many, or kept by the provider
        self.reads_requests = True  # False if the run adds the messages of its requests itself
        self.unseen: dict[Origin, None] = {}  # the origins of media, which nobody can read here
        self._left = max_bytes
        self._queued: deque[tuple[Origin, str, int]] = deque()  # a text, and how much of it is indexed
        self._trusted: list[_Shelf] = []
        self._others: list[_Shelf] = []
        self._asked: dict[Origin, str] = {}  # what the calls of trusted results were asked with
        self._known: set[int] = set()  # hashes of origin and text: a history comes again with each request

    def add(self, origin: Origin, text: str) -> None:
        """Queues a text. It is not copied; one that is known already is left out."""
        if not text or (known := hash((origin, text))) in self._known:
            return
        if len(text) + _OF_A_TEXT > self._left:
            self.is_partial = True
            return
        self._left -= len(text) + _OF_A_TEXT
        self._known.add(known)
        self._queued.append((origin, text, 0))

    def note_asked(self, origin: Origin, arguments: Any) -> None:
        """Notes the arguments of a call, for whose values its trusted result does not vouch: it may repeat them."""
        texts = [form for text in _leaves(arguments) for part in forms(text, trusted=True) for form in part]
        self._asked[origin] = "\n".join((self._asked.get(origin, ""), *texts, ""))

    @property
    def is_behind(self) -> bool:
        return bool(self._queued)

    def work(self) -> None:
        room, is_trusted = BLOCK_CHARS, self._queued[0][0].is_trusted
        shelf = _with_room(self._trusted if is_trusted else self._others)
        while self._queued and room > 0 and self._queued[0][0].is_trusted == is_trusted:
            origin, text, begin = self._queued.popleft()
            end = _end_of(text, begin, room if text.isascii() else room // 2)
            shelf.add(origin, text[begin:end])
            if end < len(text):
                self._queued.appendleft((origin, text, _overlapping(text, begin, end)))
            room -= end - begin

    def trusts(self, value: Value) -> tuple[Origin, ...]:
        """Returns origins of trusted texts that have a value: all pieces of one of its readings."""
        for reading in value.trusted:
            found = [self._find(ways, self._trusted, strict=True) for ways in reading]
            if found and all(found):
                return _different(origin for piece in found for origin in piece)
        return ()

    def others(self, value: Value) -> tuple[Origin, ...]:
        """Returns origins of other texts that have a value, or a piece of it."""
        pieces = (ways for reading in value.readings for ways in reading)
        return _different(origin for ways in pieces for origin in self._find(ways, self._others, strict=False))

    def _find(self, ways: Iterable[Needle], shelves: list[_Shelf], *, strict: bool) -> list[Origin]:
        found: list[Origin] = []
        for needle in ways:
            if len(found) < MAX_ORIGINS:
                _search(needle, shelves, found, self._asked if strict else None)
        return found


def _leaves(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            left.extend(one)
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
        elif isinstance(one, (str, int, float)) and not isinstance(one, bool):
            yield str(one)


def _different(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origins))[:MAX_ORIGINS]


def _end_of(text: str, begin: int, room: int) -> int:
    end = begin + max(room, 2 * WINDOW_CHARS)
    if end >= len(text):
        return len(text)
    cut = max(text.rfind(" ", end - WINDOW_CHARS, end), text.rfind("\n", end - WINDOW_CHARS, end))
    return end if cut < 0 else cut


def _overlapping(text: str, begin: int, end: int) -> int:
    """Returns where the block after this one begins: a window before its end, and between words."""
    least = end - WINDOW_CHARS - 100
    cut = max(text.rfind(" ", least - 200, least), text.rfind("\n", least - 200, least))
    return max(begin + 1, least if cut < 0 else cut)


def _with_room(shelves: list[_Shelf]) -> _Shelf:
    if shelves and shelves[-1].blocks[-1].text and len(shelves[-1].blocks[-1].text) < BLOCK_CHARS // 2:
        return shelves[-1]
    if not shelves or len(shelves[-1].blocks) == BLOCKS:
        shelves.append(_Shelf())
    shelves[-1].blocks.append(_Block())
    return shelves[-1]


def _search(needle: Needle, shelves: list[_Shelf], found: list[Origin], asked: Mapping[Origin, str] | None) -> None:
    """Adds the origins of the texts that have a needle, the latest texts first. Trusted ones have to mean it
    themselves: `asked` is what their calls were asked with."""
    wanted_tokens = [needle.text] if needle.kind == "line" else tokens(needle.text)
    wanted = (f"\n{needle.text}\n" if needle.kind == "line" else needle.text).encode("utf-8", "surrogatepass")
    for shelf in reversed(shelves):
        for block in shelf.having(wanted_tokens):
            for origin in _in_block(needle, wanted, block, strict=asked is not None):
                if origin not in found and not (asked and needle.text in asked.get(origin, "")):
                    found.append(origin)
                    if len(found) >= MAX_ORIGINS:
                        return


def _in_block(needle: Needle, wanted: bytes, block: _Block, *, strict: bool) -> Iterator[Origin]:
    text, at = block.text, -1
    while (at := text.find(wanted, at + 1)) >= 0:
        if needle.kind == "line" or _stands_alone(needle, text, at, at + len(wanted), strict=strict):
            number = bisect_right(block.starts, at) - 1
            yield block.origins[number]
            if number + 1 == len(block.starts):
                return
            at = block.starts[number + 1] - 1  # another origin's text


def _stands_alone(needle: Needle, text: bytes, begin: int, end: int, *, strict: bool) -> bool:
    """Returns whether a place has the needle as words of its own, not as parts of longer ones."""
    before = text[max(0, begin - 8) : begin].decode("utf-8", "ignore")
    after = text[end : end + 8].decode("utf-8", "ignore")
    first, last = needle.text[0], needle.text[-1]
    if _goes_on(before[-1:], first) or _goes_on(last, after[:1]):
        return False
    if needle.kind == "number":
        return not (before[-1:] in (".", ",", "'", "’") and before[-2:-1].isdigit()) and not (
            after[:1] in (".", ",", "'", "’") and after[1:2].isdigit()
        )
    return not strict or not _is_part_of_more(needle.text, before, after)


_GOES_ON = r"[\w*~$?{\[%@+#=&-]|\.[\w.]"  # as a path does behind its slash
_STEP_AFTER = re.compile(rf"[/\\](?:{_GOES_ON})|[.@?&=#%~_-][^\W_]|\\")
_STEP_BEFORE = re.compile(rf"(?![{ALONE}])[\w/\\.~+%@*$#?&-]\Z")
_SIGN_BEFORE, _SIGN_AFTER = re.compile(r"[._%+@-]\Z"), re.compile(r"[.@_-][^\W_]")
_DIGITS = re.compile(r"[a-z]{0,2}\d[\d -]*")
_QUOTE = re.compile("[\"'`‘’“”«»]")


def _is_part_of_more(text: str, before: str, after: str) -> bool:
    """Returns whether a text is only a part of an address, a path or a link: in /data/ann/old is no /data/ann."""
    if not tokens(text) and text.isascii():  # signs alone, such as a star, mean something in quotes only
        return not (_QUOTE.match(before[-1:]) and _QUOTE.match(after))
    if "/" in text or "\\" in text:
        goes_on = text[-1] in "/\\" and re.match(_GOES_ON, after)
        goes_on = goes_on or ("://" in text and re.match(r":\d", after))
        return bool(goes_on or _STEP_AFTER.match(after)) or _begins_within(text, before)
    if "@" in text or "." in text:
        return bool(_SIGN_BEFORE.search(before) or _SIGN_AFTER.match(after))
    if _DIGITS.fullmatch(text):
        return bool(re.search(r"\d[ -]\Z", before) or re.match(r"[ -]\d", after))
    if re.match(r"[/\\][^\W_]", after):  # a folder in the midst of a path; but not one of a/b
        return before[-1:] in ("/", "\\")
    return bool(re.match(r"@[^\W_]", after) or re.search(r"[^\W_]@\Z", before))


def _begins_within(text: str, before: str) -> bool:
    """Returns whether a path begins in the midst of another: the scheme of a link may be left out, and ``./``."""
    if before.endswith("://") or (text[0] not in "/\\" and re.search(r"(?<![\w/\\.~-])\./\Z", before)):
        return False
    return _STEP_BEFORE.search(before) is not None


def _goes_on(one: str, other: str) -> bool:
    return one.isalnum() and other.isalnum() and not IS_ALONE.match(one) and not IS_ALONE.match(other)
