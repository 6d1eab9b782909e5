"""Previews a growing JSON text: gives the plain Python value of the text so far, and the value at each delta.

`PartialJSON.read` takes text cut anywhere and reads on from where it stopped, so that the total time is linear in the
text however small the pieces. For every prefix the view is the value that pydantic-core parses from it
(``from_json(prefix, allow_partial="trailing-strings", allow_inf_nan=False)``), except:

* Where pydantic-core raises, the view stays as it was: None before there is a value, the last good one after an error.
  It also stays where pydantic-core ignores an error after a value (``[1 2``, ``{}x``).
* Nothing shown vanishes: a cut number (``12.``, ``12e+``) keeps its valid part. Only a repeated key replaces what was
  shown for it, since the last one wins.
* Half a surrogate pair is held back until the next character; if that is not the other half, it becomes U+FFFD. Raw
  surrogates in the fed text are treated in the same way, so that a view is always valid Unicode.
* A number of more than `NUMBER_CHARACTERS` characters shows only that many until it ends.

Theory of operation of `PartialJSON`. The parser is a state machine over characters. Between values its state is a
table, `_expect`: for each character that may come, the table that follows and an action, or None where there is nothing
to do; any other character breaks the text for good. The tables follow the class. A literal is a chain of them,
one per letter; a number walks through them, too, and ends at the first character that its table does not know.

Inside a string or a number the state is a function, `_leaf`, that reads on at the next delta. It consumes the delta, or
ends and sets `_expect` to `_after`, which follows every value in the innermost container. A string advances by runs:
one expression eats all up to the quote, a cut or an error. A cut escape (``\\u00``, half a pair) is `_held` back,
eleven characters at most, and read again in front of the next delta.

`_parent` is the innermost container and `_slot` where its current value goes: the key, or -1 in a list; `_stack` keeps
both, and `_after`, for each container around it: nothing recurses. A leaf is placed in its parent as soon as there is
something to show, and replaced there as it grows.

Theory of operation of `Moments`, which has the value at each piece's end. `PartialJSON` reads on in place, and only
the containers that are still open ever change. So a moment shares all closed ones with the reader, and has copies of
the open ones, from the innermost outwards. While these have up to `EAGER_ITEMS` items together, each moment has copies
of its own. Beyond that, new ones are made when the new text is worth them, a character for every `ITEMS_PER_CHARACTER`
items; the moments in between show the last ones. So a long list is shown a little late, and its total cost is linear.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import orjson

from ..events import NO_MOMENT, Moment, Preview
from ..limits import Limits

EAGER_CHARACTERS = 4096  # a string of up to this length is exact at every view: one copy costs 0.1 µs
LAG = 64  # a longer one is copied when it has grown by 1/64: about 64 times in all, whatever the size of the deltas
# digits of a number converted at every view; more only once, since conversion takes quadratic time
NUMBER_CHARACTERS = 64
_MAX_NUMBER_CHARACTERS = 4300  # without the sign: the digits of an integer that jiter and CPython convert
DEFAULT_MAX_DEPTH = Limits().max_json_depth
_VALUELESS = ("", "-")  # beginnings of a number

# takes the text and the position to read from; returns the position to continue at
_Action: TypeAlias = "Callable[[PartialJSON, str, int], int]"
_Table: TypeAlias = "dict[str, tuple[_Table, _Action | None]]"

_HEX = "[0-9a-fA-F]"
_PLAIN = r'[^"\\\x00-\x1f\ud800-\udfff]*'
_CUT_ESCAPE = rf"(?:\\(?:u{_HEX}{{0,3}})?)?\Z"
_HIGH_HALF = rf"(?:\\u[dD][89abAB]{_HEX}{{2}}|[\ud800-\udbff])"  # the low half may still come
_UNIT = rf'\\["\\/bfnrt]|\\u(?![dD][89abAB]){_HEX}{{4}}|[\udc00-\udfff]|{_HIGH_HALF}(?!{_CUT_ESCAPE})'
# Matches all that can be decoded now. Without possessive quantifiers: before 3.11.5 they fail here
# (python/cpython#101955), and nothing follows that could make the expression backtrack.
_match_run = re.compile(rf"{_PLAIN}(?:(?:{_UNIT}){_PLAIN})*").match
_search_half = re.compile("[\ud800-\udfff]").search
_match_cut = re.compile(rf"{_HIGH_HALF}?{_CUT_ESCAPE}").match


class PartialJSON:
    """A live view of one growing JSON text.

    >>> partial = PartialJSON()
    >>> partial.read('{"city": "Par'), partial.state()
    ({'city': 'Par'}, 'partial')

    Args:
        max_depth: how many containers may be open at once; a text that nests deeper is broken.
    """

    def __init__(self, max_depth: int = DEFAULT_MAX_DEPTH) -> None:
        self.copied = 0
        """Characters read again, or copied for long strings, so far: linear in those that were read."""
        self._max_depth = max_depth
        self._top: list[Any] = [None]  # the top-level value is appended, as if to a list
        self._parent: Any = self._top
        self._slot: str | int = -1
        self._stack: list[tuple[Any, str | int, _Table]] = []
        self._expect, self._after = _START, _END
        self._leaf: _Action | None = None
        self._in_key = False  # the string is a key
        self._shown = ""  # the string as shown so far
        self._more: list[str] = []  # the pieces that `_shown` lacks
        self._more_size = 0
        self._held = ""
        self._number, self._phase = "", _NUMBER  # the number so far, and the table of the characters that may follow

    def read(self, text: str) -> Any:
        """Reads the next piece of a text cut anywhere, and returns the value so far: None before there is one. It is
        the live value, which grows with what is read next. Takes time linear in the new text."""
        # Most of a text is inside strings: checking here that a delta is plain costs half of the general way.
        if self._leaf is _IN_STRING and '"' not in text and "\\" not in text and text.isprintable():
            self._more_string(text)
            return self._top[-1]
        i, n = 0 if self._leaf is None else self._leaf(self, text, 0), len(text)
        expect = self._expect
        while i < n:
            try:
                expect, action = expect[text[i]]
            except KeyError:
                expect, i = _BROKEN, self._break(text)
                continue
            if action is None:
                i += 1
            else:
                i = action(self, text, i)
                expect = self._expect
        self._expect = expect
        return self._top[-1]

    def tentative(self) -> tuple[str | int, ...] | None:
        """Returns the path of a number at the very end of the text, which may continue; else None."""
        if self._leaf is not _IN_NUMBER or self._number == "-":
            return None
        path = [*self._stack, (self._parent, self._slot, self._after)][1:]  # the first parent is `_top`
        return tuple(len(parent) - 1 if slot == -1 else slot for parent, slot, _ in path)

    def moment(self, worth: int) -> tuple[Any, tuple[str | int, ...] | None] | None:
        """Returns the value as it is now, for good, and `tentative`. Open containers are copied; closed ones, which no
        longer change, are shared. None if more than `worth` items would have to be copied."""
        stack, child = self._stack, self._top[-1]
        if stack:
            size = len(self._parent)
            for entry in stack[1:]:  # the first one's parent is `_top`
                size += len(entry[0])
            if size > worth:
                return None
            child = self._parent.copy()
            for parent, slot, _ in stack[:0:-1]:  # from the innermost outwards
                copied = parent.copy()
                copied[slot] = child
                child = copied
        return child, self.tentative() if self._leaf is _IN_NUMBER else None

    def state(self) -> Literal["empty", "partial", "complete", "broken"]:
        """Returns the state of the text so far.

        ``empty``: white space only. ``complete``: one JSON value with only white space around it, which includes a
        top-level number that could continue. ``broken``: no continuation makes it valid, or it exceeds a limit (depth,
        a number of more than 4300 characters). ``partial``: anything else. Half a surrogate pair breaks nothing.
        """
        if self._expect is _BROKEN:
            return "broken"
        if self._leaf is None:
            return "complete" if self._expect is _END else "empty" if self._expect is _START else "partial"
        whole = self._leaf is _IN_NUMBER and not self._stack and self._number[-1].isdigit()
        return "complete" if whole else "partial"

    def _break(self, text: str) -> int:
        self._leaf, self._expect = None, _BROKEN
        return len(text)

    def _place(self, value: Any, again: bool = False) -> None:
        """Shows a value in the innermost container; `again`: replace the one that was placed last."""
        if again or self._after is _AFTER_MEMBER:
            self._parent[self._slot] = value
        else:
            self._parent.append(value)

    def _open(self, text: str, i: int) -> int:
        if len(self._stack) >= self._max_depth:
            return self._break(text)
        is_object = text[i] == "{"
        container: Any = {} if is_object else []
        self._place(container)
        self._stack.append((self._parent, self._slot, self._after))
        self._parent, self._slot = container, -1
        self._expect, self._after = (_FIRST_KEY, _AFTER_MEMBER) if is_object else (_FIRST_ITEM, _AFTER_ITEM)
        return i + 1

    def _close(self, text: str, i: int) -> int:
        self._parent, self._slot, self._after = self._stack.pop()
        self._expect = self._after
        return i + 1

    def _open_key(self, text: str, i: int) -> int:
        self._leaf, self._in_key, self._shown = _IN_STRING, True, ""
        return self._in_string(text, i + 1)

    def _open_string(self, text: str, i: int) -> int:
        self._leaf, self._in_key, self._shown = _IN_STRING, False, ""
        self._place("")
        return self._in_string(text, i + 1)

    def _in_string(self, text: str, i: int) -> int:
        n = len(text)
        end = text.find('"', i)
        run = text[i:end] if end >= 0 else text[i:]
        if "\\" not in run and run.isprintable():  # half the cost of the expression
            end = i + len(run)
        else:
            match = _match_run(text, i)
            assert match is not None  # it may be empty
            end = match.end()
            run = text[i:end]
            if "\\" in run or _search_half(run):
                run = _decoded(run)
        if run:
            self._more_string(run)
        if end == n:
            return n
        if text[end] == '"':
            if self._more:
                self._catch_up()
            self._leaf = None
            if self._in_key:
                self._slot, self._expect = self._shown, _COLON
            else:
                self._expect = self._after
            return end + 1
        if not _match_cut(text, end):
            return self._break(text)
        self._held, self._leaf = text[end:], _IN_HELD
        return n

    def _in_held(self, text: str, i: int) -> int:
        held = self._held
        self.copied += len(held)
        self._leaf = _IN_STRING
        return self._in_string(held + text, i) - len(held)

    def _more_string(self, run: str) -> None:
        """Appends to the string, and shows it; a long one is shown only when a copy is due."""
        if len(self._shown) < EAGER_CHARACTERS:
            self._shown = shown = self._shown + run
            if not self._in_key:
                self._parent[self._slot] = shown
            return
        self._more.append(run)
        self._more_size += len(run)
        if self._more_size * LAG >= len(self._shown):
            self._catch_up()

    def _catch_up(self) -> None:
        self._shown += "".join(self._more)
        self.copied += len(self._shown)
        self._more, self._more_size = [], 0
        if not self._in_key:
            self._parent[self._slot] = self._shown

    def _in_number(self, text: str, i: int) -> int:
        before, phase, start, n = self._number, self._phase, i, len(text)
        while i < n and (move := phase.get(text[i])) is not None:
            phase = move[0]
            i += 1
        number = before + text[start:i]
        ended = i < n
        if ended:
            self._leaf, self._expect, self._number, self._phase = None, self._after, "", _NUMBER
        else:
            self._leaf, self._number, self._phase = _IN_NUMBER, number, phase
            self.copied += len(number)
        if len(number) > NUMBER_CHARACTERS or number[-1] in "+-.eE":
            return self._odd_number(text, i, before, number)
        value = int(number) if phase is _INTEGER or phase is _ZERO else float(number)
        self._place(value, before not in _VALUELESS)
        return i

    def _odd_number(self, text: str, i: int, before: str, number: str) -> int:
        ended = self._leaf is None
        limit = min(_MAX_NUMBER_CHARACTERS, sys.get_int_max_str_digits() or _MAX_NUMBER_CHARACTERS)
        too_long = len(number.lstrip("-")) > limit
        shown = (number if ended and not too_long else number[:NUMBER_CHARACTERS]).rstrip("+-.eE")
        if shown:
            value = int(shown) if shown.lstrip("-").isdigit() else float(shown)
            self._place(value, before not in _VALUELESS)
        return self._break(text) if too_long or (ended and shown != number) else i


def _decoded(run: str) -> str:
    """Decodes a run of a string. The halves of a pair are joined; a single half becomes U+FFFD."""
    try:
        text: str = orjson.loads(f'"{run}"')
    except orjson.JSONDecodeError:  # orjson refuses halves
        text = json.loads(f'"{run}"').encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_IN_STRING = PartialJSON._in_string
_IN_HELD = PartialJSON._in_held
_IN_NUMBER = PartialJSON._in_number


def _table(moves: dict[str, _Table | None], actions: dict[str, _Action] | None = None) -> _Table:
    """Builds a state: each character's next state (None: this same one), and the characters that need an action."""
    table: _Table = {}
    for characters, following in moves.items():
        table |= dict.fromkeys(characters, (table if following is None else following, None))
    for characters, action in (actions or {}).items():
        table |= dict.fromkeys(characters, (table, action))
    return table


def _literal(word: str, value: bool | None) -> _Table:
    def end(self: PartialJSON, text: str, i: int) -> int:
        self._place(value)
        self._expect = self._after
        return i + 1

    table = _table({}, {word[-1]: end})
    for letter in reversed(word[1:-1]):
        table = _table({letter: table})
    return table


_DIGITS = "0123456789"
_EXPONENT = _table({_DIGITS: None})  # 1e5
_EXPONENT_SIGN = _table({_DIGITS: _EXPONENT})  # 1e+
_E = _table({_DIGITS: _EXPONENT, "+-": _EXPONENT_SIGN})  # 1e
_FRACTION = _table({_DIGITS: None, "eE": _E})  # 1.5
_POINT = _table({_DIGITS: _FRACTION})  # 1.
_ZERO = _table({".": _POINT, "eE": _E})  # 0, which no digit may follow
_INTEGER = _table({_DIGITS: None, ".": _POINT, "eE": _E})  # 12
_MINUS = _table({"0": _ZERO, "123456789": _INTEGER})  # -
_NUMBER = _table({"0": _ZERO, "123456789": _INTEGER, "-": _MINUS})  # a number's first character

_BLANK: dict[str, _Table | None] = {" \t\n\r": None}
_ANY = _BLANK | {"t": _literal("true", True), "f": _literal("false", False), "n": _literal("null", None)}
_BEGIN: dict[str, _Action] = {
    "{[": PartialJSON._open,
    '"': PartialJSON._open_string,
    "-" + _DIGITS: PartialJSON._in_number,
}
_START = _table(_ANY, _BEGIN)  # the beginning of the text
_VALUE = _table(_ANY, _BEGIN)  # after a colon, or a comma in a list
_FIRST_ITEM = _table(_ANY, _BEGIN | {"]": PartialJSON._close})
_KEY = _table(_BLANK, {'"': PartialJSON._open_key})
_FIRST_KEY = _table(_BLANK, {'"': PartialJSON._open_key, "}": PartialJSON._close})
_COLON = _table(_BLANK | {":": _VALUE})
_AFTER_MEMBER = _table(_BLANK | {",": _KEY}, {"}": PartialJSON._close})
_AFTER_ITEM = _table(_BLANK | {",": _VALUE}, {"]": PartialJSON._close})
_END = _table(_BLANK)  # after the top-level value
_BROKEN = _table({})


# -- the value at each delta --


EAGER_ITEMS = 64
ITEMS_PER_CHARACTER = 4  # copying four takes a tenth of the time that reading a character does


class Moments(Preview):
    """The moments of one growing JSON text.

    >>> moments = Moments()
    >>> for piece in ['{"cities": ["Par', 'is", "Ro']:
    ...     moments.feed(piece)
    >>> moments.at(16), moments.at(24)
    (({'cities': ['Par']}, None), ({'cities': ['Paris', 'Ro']}, None))

    Args:
        max_depth: how many containers may be open at once; see `PartialJSON`.
    """

    __slots__ = ("_behind", "_growing", "_max_depth", "_moment", "_moment_at", "_read", "_taken", "length", "pieces")

    def __init__(self, max_depth: int = DEFAULT_MAX_DEPTH) -> None:
        self.length = 0  # characters fed so far
        self._max_depth = max_depth
        self.pieces: list[str] = []  # all that was fed
        self._taken = self._read = 0  # the pieces that were read, and their characters
        self._growing: PartialJSON | None = None  # made for the first reader: most texts are not shown
        self._moment, self._moment_at = NO_MOMENT, 0  # the last one, and the characters up to it
        self._behind: Moments | None = None  # for a reader that asks for earlier moments

    def feed(self, text: str) -> None:
        if text:
            self.pieces.append(text)
            self.length += len(text)

    def state(self) -> Literal["empty", "partial", "complete", "broken"]:
        growing = self._growing or self._begin()
        if self._taken < len(self.pieces):
            growing.read(self._next(self.length))
        return growing.state()

    def at(self, end: int) -> Moment:
        """Returns the moment at character `end`, which is rounded up to the end of a piece."""
        if self._moment_at == end:
            return self._moment
        if end < self._read:
            return self._earlier(end)
        growing, pieces, taken = self._growing or self._begin(), self.pieces, self._taken
        if end > self._read and taken < len(pieces):
            text = pieces[taken]
            self._taken = taken + 1
            self._read += len(text)
            if growing.read(text if self._read >= end else text + self._next(end)) is None:
                return self._moment
        worth = (self._read - self._moment_at) * ITEMS_PER_CHARACTER
        found = growing.moment(worth if worth > EAGER_ITEMS else EAGER_ITEMS)
        if found is not None:
            self._moment, self._moment_at = found, self._read
        return self._moment

    def _begin(self) -> PartialJSON:
        growing = self._growing = PartialJSON(max_depth=self._max_depth)
        return growing

    def _next(self, end: int) -> str:
        start, pieces = self._taken, self.pieces
        while self._read < end and self._taken < len(pieces):
            self._read += len(pieces[self._taken])
            self._taken += 1
        return "".join(pieces[start : self._taken])

    def _earlier(self, end: int) -> Moment:
        if self._behind is None or self._behind._read > end:
            self._behind = Moments(self._max_depth)
            self._behind.pieces, self._behind.length = self.pieces, self.length
        return self._behind.at(end)
