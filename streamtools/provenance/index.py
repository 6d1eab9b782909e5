"""Finds out in which texts of a run a value occurs: the texts by origin, cut into blocks that are searched by token.

In: texts with their origins, in any number; later a value. Out: the origins of the texts that contain it.

Theory of operation. A text is only queued when it is added. `Index.work` takes a block of it at a time: puts it into
the form that is compared (`normalised`), adds a line for each number, date or account number that is written in another
way than values are, and notes which tokens occur: two bits for each, in rows that stand for 16 blocks at once. A
search looks the rows up, which takes a microsecond for all 16, and reads only the blocks that may have all tokens of
the value. Blocks overlap, so that a value stands whole in one of them; longer values are searched in pieces.
"""

from __future__ import annotations

import html
import re
import unicodedata
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["SHORT_CHARS", "Index", "Kind", "Needle", "Origin", "Value", "normalised"]

SHORT_CHARS = 4
"""Shorter values occur in any long text, so that it means nothing where they stand."""
BLOCK_CHARS = 4 << 10  # a millisecond of work
WINDOW_CHARS = 400  # of a value that is searched in one piece; blocks overlap by more
MAX_ORIGINS = 4  # that are named of one value
_OF_A_TEXT = 64  # bytes that a text takes beside its characters
MAX_NUMBER_CHARS = 64  # of a number or an account number

Kind: TypeAlias = Literal["user", "system", "result", "model", "marked", "other"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text of a run comes from."""

    kind: Kind
    """``user``, ``system``, ``result`` (of a tool), ``model``; ``marked``: the program has marked it `Untrusted`; or
    ``other``: a message that nobody here can read."""
    tool: str | None = None
    """The tool of a result, if it is known."""
    call_id: str | None = None
    """The call of a result, if it is known."""
    is_trusted: bool = False
    """Nobody but the user and the program has written it."""


# -- the form in which texts are compared ------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")  # of JSON, which results are mostly written in
_ESCAPED = {"b": " ", "f": " ", "n": " ", "r": " ", "t": " "}
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_LIGATURE = re.compile(
    "[\ufdfa\ufdfb\u3300-\u3357]"
)  # each stands for a sentence or a word, which would take much room
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")


def normalised(text: str) -> str:
    """Returns a text as it is compared: NFKC, without case and invisible characters, spaces joined, JSON's and HTML's
    escapes resolved."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
    if "&" in text:
        text = html.unescape(text)
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _LIGATURE.sub(" ", text)).casefold())
        text = _OTHER_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), _BLANK.sub("", text))
    text = " ".join(text.split())
    return text if text.isprintable() else " ".join("".join(filter(str.isprintable, text)).split())


def _unescaped(found: re.Match[str]) -> str:
    code, sign = found[1], found[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(sign, sign)


# Scripts without spaces between words: each character is a token.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_TOKEN = re.compile(f"[{_ALONE}]|[^\\W_{_ALONE}]+")
_ASCII_TOKEN = re.compile("[a-z0-9]+")
_IS_ALONE = re.compile(f"[{_ALONE}]")


def _tokens(text: str) -> list[str]:
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


# -- values that are written in several ways ---------------------------------------------------------------------------

# A line of its own in the block, begun by a character that no text has: NUMBER 1234.5, DATE 2026-11-24, ACCOUNT de89...
NUMBER, DATE, ACCOUNT = "\x01", "\x02", "\x03"

_NUMBER = re.compile(r"\d+(?:[.,'’ ]\d+)*(?:e[+-]?\d{1,3}(?![^\W_]))?")
_BEFORE = re.compile(r"(?<![^\W_])[^\W\d_]{0,3}$")  # a currency or a unit, beside a number
_AFTER = re.compile(r"[^\W\d_]{0,3}(?![^\W_])")
_PLAIN = re.compile(r"(?:0|[1-9]\d*)(?:\.\d*[1-9])?")
_GROUPED = re.compile(r"\d{1,3}(?:([.,'’ ])\d{3})(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")

_MONTHS: dict[str, int] = dict(
    zip(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], range(1, 13), strict=True)
)
_MONTH = r"(?P<{}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?<![\w.])(?:(?P<y1>\d{4})[./-](?P<m1>\d{1,2})[./-](?P<d1>\d{1,2})(?!\d)"
    r"|(?P<a>\d{1,2})[./-] ?(?P<b>\d{1,2})[./-] ?(?P<y2>\d{4}|\d{2})(?!\d)"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?{_MONTH.format('m3')},? (?P<y3>\d{{4}})(?!\d)"
    rf"|{_MONTH.format('m4')} (?P<d4>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y4>\d{{4}})(?!\d))"
)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d)(?::00(?:\.0+)?)?(?:z|[+-]\d\d:?\d\d)?)?")
_ACCOUNT = re.compile(
    r"(?<![^\W_])(?:[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?"  # IBAN
    r"|\d{4}(?:[ -]\d{4}){3}|\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6})(?![^\W_])"  # cards; telephones
)
_APART = re.compile(r"[ ./()-]+")
_LEAST_ACCOUNT = 8  # characters


def number_text(number: int | float | Decimal | str) -> str:
    """Returns a number's value as text: equal numbers have equal texts."""
    value = Decimal(str(number))
    if not value.is_finite() or abs(value.adjusted()) > MAX_NUMBER_CHARS:
        return str(value).lower()
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def numbers_in(chunk: str) -> set[str]:
    """Returns the values that a row of digits and signs may stand for: ``1.234`` is 1234 or 1.234."""
    found: set[str] = set()
    pieces = chunk.split(" ")
    if len(chunk) > MAX_NUMBER_CHARS:
        return found.union(*map(numbers_in, pieces)) if len(pieces) > 1 else found
    if "e" in chunk:
        return {number_text(chunk.replace(",", "."))} if not re.search("[ '’]", chunk) and _is_decimal(chunk) else found
    if _GROUPED.fullmatch(chunk):
        signs = [sign for sign in chunk if not sign.isdigit()]
        digits = re.sub(r"\D", "", chunk)
        behind = len(chunk) - chunk.rfind(signs[-1]) - 1
        if len(set(signs)) > 1:
            found.add(number_text(f"{digits[:-behind]}.{digits[-behind:]}"))
        else:
            found.add(number_text(digits))
    if len(pieces) > 1:
        return found.union(*map(numbers_in, pieces))
    if _is_decimal(chunk):
        found.add(number_text(chunk.replace(",", ".")))
    return found or {number_text(piece) for piece in re.split(r"\D+", chunk) if piece}


def _is_decimal(chunk: str) -> bool:
    return re.fullmatch(r"\d+(?:[.,]\d+)?(?:e[+-]?\d{1,3})?", chunk) is not None


def _dates_in(found: re.Match[str]) -> set[str]:
    part = found.groupdict()
    if part["y1"]:
        return _dates((part["y1"], part["m1"], part["d1"]))
    if part["y2"]:
        year = part["y2"] if len(part["y2"]) == 4 else f"20{part['y2']}"
        return _dates((year, part["b"], part["a"]), (year, part["a"], part["b"]))
    number = "3" if part["y3"] else "4"
    return _dates((part[f"y{number}"], _MONTHS[part[f"m{number}"]], part[f"d{number}"]))


def _dates(*readings: tuple[str | int | None, ...]) -> set[str]:
    dates = set()
    for reading in readings:
        try:
            dates.add(date(*(int(part or 0) for part in reading)).isoformat())
        except ValueError:
            continue
    return dates


def _accounts_in(text: str) -> set[str]:
    """Returns an account number without its spaces; also cut where a word behind it may have been taken for its end."""
    whole, groups = "", _APART.split(text)
    found = set()
    for number, group in enumerate(groups, 1):
        whole += group
        if number == len(groups) or (len(whole) >= 15 and whole[0].isalpha()):
            found.add(whole)
    return {one for one in found if _LEAST_ACCOUNT <= len(one) <= MAX_NUMBER_CHARS}


def _lines_of(text: str) -> set[str]:
    """Returns a line for each value in a text that stands there in another form than values have."""
    lines: set[str] = set()
    digits = _NUMBER.search(text)
    if digits is None:
        return lines
    for found in _NUMBER.finditer(text, digits.start()):
        chunk, begin, end = found[0], found.start(), found.end()
        before = _BEFORE.search(text[max(0, begin - 5) : begin])
        after = _AFTER.match(text[end : end + 5])
        if before is None or after is None:
            continue  # part of a name or a hash
        sign = (
            "-" if text[begin - 1 : begin] in ("-", "−") and not text[max(0, begin - 2) : begin - 1].isalnum() else ""
        )
        plain = not sign and not before[0] and not after[0]
        if plain and chunk.isdigit() and (chunk[0] != "0" or chunk == "0"):
            continue  # it is found as it stands
        as_they_stand = filter(_PLAIN.fullmatch, chunk.split(" ")) if plain else ()
        lines.update(f"{NUMBER}{sign}{number}" for number in numbers_in(chunk).difference(as_they_stand))
    for found in _DATE.finditer(text):
        lines.update(f"{DATE}{day}" for day in _dates_in(found))
    for found in _ACCOUNT.finditer(text):
        if _APART.search(found[0]):
            lines.update(f"{ACCOUNT}{one}" for one in _accounts_in(found[0]))
    return lines


# -- what is searched --------------------------------------------------------------------------------------------------


class Needle(NamedTuple):
    """One text to search for: as it stands, as a number that is no part of another, or as a whole line."""

    text: str
    kind: Literal["text", "number", "line"] = "text"


class Value(NamedTuple):
    """A value of a call's arguments, as it is searched: several readings, each of several pieces that all have to be
    found, each in one of several ways."""

    readings: tuple[tuple[tuple[Needle, ...], ...], ...]
    is_short: bool

    @classmethod
    def of_number(cls, number: int | float | Decimal) -> Value:
        """Returns a number as it is searched, by its value."""
        text = number_text(number)
        return cls((((Needle(text, "number"), Needle(f"{NUMBER}{text}", "line")),),), len(text) < SHORT_CHARS)

    @classmethod
    def of_text(cls, given: str) -> Value | None:
        """Returns a text as it is searched, also as the number, date or account number that it is; None for an empty
        one."""
        text = normalised(given)
        if text.startswith(("http://", "https://")):
            text = text.rstrip("/")
        if not text:
            return None
        pieces = _windows(text)
        if len(pieces) > 1:
            return cls((tuple((Needle(piece),) for piece in pieces),), False)
        ways = [Needle(text)]
        number = _NUMBER.fullmatch(text)
        if number is not None and len(texts := numbers_in(text)) == 1:
            ways += [Needle(one, "number") for one in texts] + [Needle(f"{NUMBER}{one}", "line") for one in texts]
        compact = _APART.sub("", text)
        if len(compact) >= _LEAST_ACCOUNT and sum(map(str.isdigit, compact)) >= 4 and compact.lstrip("+").isalnum():
            ways += [Needle(compact), Needle(f"{ACCOUNT}{compact}", "line")]
        if len(text) <= MAX_NUMBER_CHARS and (day := _DATE.fullmatch(text)) is not None:
            ways = [Needle(f"{DATE}{one}", "line") for one in _dates_in(day)] or ways
        readings: list[tuple[tuple[Needle, ...], ...]] = [(tuple(ways),)]
        if (moment := _MOMENT.fullmatch(text)) is not None:
            when = ((Needle(moment[2]),),) if moment[2] and moment[2] != "00:00" else ()
            if when or moment[2]:
                readings.append(((Needle(f"{DATE}{moment[1]}", "line"),), *when))
        return cls(tuple(readings), len(text) < SHORT_CHARS)


def _windows(text: str) -> list[str]:
    """Cuts a long text into pieces that each stand whole in a block, between words where there are spaces."""
    pieces = []
    while len(text) > WINDOW_CHARS:
        cut = text.rfind(" ", WINDOW_CHARS // 2, WINDOW_CHARS)
        cut = WINDOW_CHARS if cut < 0 else cut
        pieces.append(text[:cut].strip())
        text = text[cut:].strip()
    return [*pieces, text] if text or not pieces else pieces


# -- the index ---------------------------------------------------------------------------------------------------------


BLOCKS = 16  # on a shelf: the bits of an item of its rows
PLACES = 1 << 13  # of the tokens of a block, two for each of the thousand that it has


class _Block:
    """A few texts, one after the other."""

    __slots__ = ("origins", "starts", "text")

    def __init__(self) -> None:
        self.text = b""
        """Lines: texts, and values in other forms."""
        self.starts = array("I")
        """Where the lines of each text begin."""
        self.origins: list[Origin] = []
        """The origin of each text."""


class _Shelf:
    """Some blocks, and in which of them each token may occur."""

    __slots__ = ("blocks", "rows")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.rows = array("H", bytes(2 * PLACES))  # by the place of a token: a bit for each block

    def add(self, origin: Origin, text: str) -> None:
        """Adds a normalised text to the last block."""
        block, bit, rows = self.blocks[-1], 1 << (len(self.blocks) - 1), self.rows
        lines = _lines_of(text)
        block.starts.append(len(block.text))
        block.origins.append(origin)
        block.text += "\n".join(("", text, *lines, "")).encode("utf-8", "surrogatepass")
        for token in lines.union(_tokens(text)):
            number = hash(token)
            rows[number % PLACES] |= bit
            rows[(number >> 24) % PLACES] |= bit

    def having(self, tokens: Iterable[str]) -> Iterator[_Block]:
        """Yields the blocks that may have all tokens, the latest first."""
        found, rows = (1 << len(self.blocks)) - 1, self.rows
        for token in tokens:
            number = hash(token)
            found &= rows[number % PLACES] & rows[(number >> 24) % PLACES]
            if not found:
                return
        for number in range(found.bit_length() - 1, -1, -1):
            if found >> number & 1:
                yield self.blocks[number]


class Index:
    """The texts of a run, by origin.

    Args:
        max_bytes: how much text is indexed, in characters; beyond that the index `is_partial`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.is_partial = False
        """True if there are texts that are not known here: too many, or kept by the provider."""
        self.reads_requests = True
        """False if the run adds the messages of its requests itself."""
        self.unseen: dict[Origin, None] = {}
        """The origins of media, which nobody can read here."""
        self._left = max_bytes
        self._queued: deque[tuple[Origin, str, int]] = deque()  # a text, and how much of it is indexed
        self._trusted: list[_Shelf] = []
        self._others: list[_Shelf] = []
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

    @property
    def is_behind(self) -> bool:
        """True while texts are queued."""
        return bool(self._queued)

    def work(self) -> None:
        """Indexes the next block of the queued texts, which takes about a millisecond."""
        room, is_trusted = BLOCK_CHARS, self._queued[0][0].is_trusted
        shelf = _with_room(self._trusted if is_trusted else self._others)
        while self._queued and room > 0 and self._queued[0][0].is_trusted == is_trusted:
            origin, text, begin = self._queued.popleft()
            end = _end_of(text, begin, room if text.isascii() else room // 2)
            shelf.add(origin, normalised(text[begin:end]))
            if end < len(text):
                self._queued.appendleft((origin, text, _overlapping(text, begin, end)))
            room -= end - begin

    def trusts(self, value: Value) -> tuple[Origin, ...]:
        """Returns origins of trusted texts that have a value: all pieces of one of its readings; none if there are
        none."""
        for reading in value.readings:
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
                _search(needle, shelves, found, strict=strict)
        return found


def _different(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(origins))[:MAX_ORIGINS]


def _end_of(text: str, begin: int, room: int) -> int:
    """Returns where the next block of a text ends: between words, where there are spaces."""
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
    """Returns the last shelf, with a block for new texts at its end."""
    if shelves and shelves[-1].blocks[-1].text and len(shelves[-1].blocks[-1].text) < BLOCK_CHARS // 2:
        return shelves[-1]
    if not shelves or len(shelves[-1].blocks) == BLOCKS:
        shelves.append(_Shelf())
    shelves[-1].blocks.append(_Block())
    return shelves[-1]


def _search(needle: Needle, shelves: list[_Shelf], found: list[Origin], *, strict: bool) -> None:
    """Adds the origins of the texts that have a needle, the latest texts first."""
    tokens = [needle.text] if needle.kind == "line" else _tokens(needle.text)
    wanted = (f"\n{needle.text}\n" if needle.kind == "line" else needle.text).encode("utf-8", "surrogatepass")
    for shelf in reversed(shelves):
        for block in shelf.having(tokens):
            for origin in _in_block(needle, wanted, block, strict=strict):
                if origin not in found:
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
    if strict and "@" in needle.text:  # in bob@bank.example.org is no bob@bank.example
        return before[-1:] not in (*"._%+-",) and not (after[:1] in (".", "-") and after[1:2].isalnum())
    return True


def _goes_on(one: str, other: str) -> bool:
    """Returns whether two neighbouring characters are of one word."""
    return one.isalnum() and other.isalnum() and not _IS_ALONE.match(one) and not _IS_ALONE.match(other)
