"""Previews: one growing JSON text in, the plain Python value of what has come so far out, at every delta.

`PartialJSON.feed` takes text cut anywhere; `PartialJSON.view` reads on from where the last view stopped and returns
the live value. Total time is linear in the text, however small the deltas are and however often a view is asked for:
re-parsing the text at every delta would be quadratic (216 µs per delta at 100 kB against less than one here).

For every prefix the view equals ``pydantic_core.from_json(prefix, allow_partial="trailing-strings")``, except:

* Where that raises, the view stays as it was: None before there is a value, the last good view after an error.
  So it does where that is silent about an error after a value (``[1 2``, ``{}x``).
* Nothing shown vanishes: of a number that is cut (``12.``, ``12e+``) the part that is a number stays.
* Half a surrogate pair is held back until the next character; unpaired for good, it becomes U+FFFD. Surrogates that
  come as raw characters of the fed text are treated in the same way, so that the view is always valid Unicode.
* A string of more than `EAGER_CHARACTERS` is shown with a small lag while it grows, less than ``1/LAG`` of its shown
  length, because replacing it at every delta would copy it every time. At its end it is exact.
* Of a number of more than `NUMBER_CHARACTERS` the value of that many characters is shown until it ends.

A repeated key replaces the value shown before: the last one wins, as in every JSON parser that runs the arguments.

Theory of operation
-------------------
The parser is a state machine over characters whose states are of two kinds.

Between values the state is a table, `_expect`: what may come next. It maps each character that may come to the table
that follows it and an action, or None where nothing is to be done (white space, ``:``, ``,``). A character that the
table does not know breaks the text for good::

    _START, _VALUE, _ITEM    a value                    at the top, after a colon, after a comma in a list
    _FIRST_ITEM              a value or ]               after [
    _KEY, _FIRST_KEY         a key; or }                after a comma in an object; after {
    _COLON                   :                          after a key
    _AFTER_MEMBER            , or }                     after a value in an object
    _AFTER_ITEM              , or ]                     after a value in a list
    _END                     white space                after the top-level value
    _BROKEN                  nothing, for ever

Inside a string, number or literal the state is a function, `_leaf`, that reads on from the beginning of the next
delta. It either ends the leaf, and sets `_expect` to `_after`, or consumes the delta to its end. A string advances
by runs: one regular expression eats everything up to the closing quote, an escape that is cut, or an error. What is
cut (``\\u00``, half a pair) is kept in `_held` and read again in front of the next delta: at most eleven characters. A
number walks through tables of its own, `_NUMBER` and those below it, which hold for each character the next table.

The innermost open container is `_parent`, the key under construction `_slot` (-1 in a list: the last item), and
`_stack` holds the same two for the containers around it, with what is expected after each. Nothing recurses. A leaf
is put into its parent as soon as there is something to show, and replaced there as it grows.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import orjson

from ..events import Preview
from ..limits import Limits

__all__ = ["EAGER_CHARACTERS", "LAG", "NUMBER_CHARACTERS", "PartialJSON"]

EAGER_CHARACTERS = 4096
"""A string up to this length is shown exactly at every view: copying it costs 0.1 µs."""

LAG = 64
"""A longer one lacks less than ``1/LAG`` of its shown length: in all it is then copied about `LAG` times, 10 ms for
1 MB, whatever the size of the deltas."""

NUMBER_CHARACTERS = 64
"""A number is converted at every delta up to this length, and once more when it ends."""

_DEFAULT_MAX_DEPTH = Limits().max_json_depth
_MAX_INTEGER_DIGITS = 4300  # as CPython (CVE-2020-10735) and jiter: conversion takes quadratic time

_Action: TypeAlias = "Callable[[PartialJSON, str, int], int]"
_Table: TypeAlias = "dict[str, tuple[_Table, _Action | None]]"
_Phase: TypeAlias = "dict[str, _Phase]"

_PLAIN = r'[^"\\\x00-\x1f\ud800-\udfff]*+'
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = rf'\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|{_HIGH}{_LOW}'

_match_run = re.compile(rf"{_PLAIN}(?:(?:{_ESCAPE}){_PLAIN})*+").match
"""Characters and whole escapes of a string: what can be decoded now, and on its own."""
_match_cut = re.compile(rf"(?:{_HIGH}|[\ud800-\udbff])?(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z").match
"""The end of a delta that means nothing without the next one."""
_match_pair = re.compile(rf"({_HIGH}|[\ud800-\udbff])({_LOW}|[\udc00-\udfff])").match
_match_half = re.compile(rf"{_HIGH}|{_LOW}|[\ud800-\udfff]").match
_match_long_integer = re.compile(rf"-?[0-9]{{{_MAX_INTEGER_DIGITS + 1}}}").match


class PartialJSON(Preview):
    """The live view of one growing JSON text.

    >>> partial = PartialJSON()
    >>> partial.feed('{"city": "Par')
    >>> partial.view(partial.length)
    {'city': 'Par'}
    >>> partial.state()
    'partial'

    Args:
        max_depth: how many containers may be open at once; a text that nests deeper is broken.
    """

    __slots__ = (
        "_after",
        "_expect",
        "_held",
        "_in_key",
        "_leaf",
        "_max_depth",
        "_more",
        "_more_size",
        "_parent",
        "_parsed",
        "_phase",
        "_pieces",
        "_placed",
        "_shown",
        "_slot",
        "_stack",
        "_top",
        "_word",
        "length",
        "work",
    )

    def __init__(self, max_depth: int = _DEFAULT_MAX_DEPTH) -> None:
        self.length = 0
        """Characters fed so far."""
        self.work = 0
        """Characters read and copied so far: a count that must stay linear in `length`, for tests and benchmarks."""
        self._pieces: deque[str] = deque()  # fed and not read yet
        self._parsed = 0
        self._max_depth = max_depth
        self._top: list[Any] = [None]  # the top-level value is its last item
        self._parent: Any = self._top
        self._slot: str | int = -1
        self._stack: list[tuple[Any, str | int, _Table]] = []
        self._expect = _START
        self._after = _END
        self._leaf: _Action | None = None
        self._in_key = False
        self._shown = ""  # the string as it is shown
        self._more: list[str] = []  # the rest of it; all pieces of a number
        self._more_size = 0
        self._held = ""
        self._word: tuple[str, bool | None] = ("", None)  # what is left of a literal, and its value
        self._phase = _NUMBER
        self._placed = False  # the number is shown

    def feed(self, text: str) -> None:
        """Append text, cut anywhere. It is kept until a view reads it; takes constant time."""
        if text:
            self._pieces.append(text)
            self.length += len(text)

    def view(self, end: int) -> Any:
        """The value of the text up to character `end`, and of the rest of the delta in which that falls.

        The view never goes back: it covers more if an earlier one did. It is the same object at every call and grows
        in place, so copy what you keep. None until there is a value. Takes time linear in what is new.
        """
        pieces = self._pieces
        if pieces and end > self._parsed:
            text = pieces.popleft()
            self._read(self._take(text, end) if pieces else text)
        return self._top[-1]

    def tentative(self) -> tuple[str | int, ...] | None:
        """Path of a number at the very end of the view, which may go on (``12`` of ``123``); else None.

        A path holds keys and indexes from the top; it is empty for a top-level number.
        """
        if self._leaf is not _IN_NUMBER or not self._placed:
            return None
        around = [*self._stack, (self._parent, self._slot, self._after)][1:]
        return tuple(len(parent) - 1 if slot == -1 else slot for parent, slot, _ in around)

    def state(self) -> Literal["empty", "partial", "complete", "broken"]:
        """What the whole text fed so far is, read to its end.

        ``empty``: white space only. ``complete``: one JSON value with nothing but white space around it; a top-level
        number that could go on counts. ``broken``: no continuation can make it valid, or it exceeds a limit (depth,
        an integer of more than 4300 digits). ``partial``: anything else. Takes time linear in what is new.
        """
        self.view(self.length)
        if self._expect is _BROKEN:
            return "broken"
        if self._leaf is None:
            return "complete" if self._expect is _END else "empty" if self._expect is _START else "partial"
        whole = self._leaf is _IN_NUMBER and not self._stack and self._more[-1][-1].isdigit()
        return "complete" if whole else "partial"

    # -- the machine --

    def _take(self, text: str, end: int) -> str:
        """`text` and the waiting pieces after it, up to `end`: joined, which is faster to read than piece by piece."""
        pieces = self._pieces
        taken = [text]
        if end >= self.length:
            taken += pieces
            pieces.clear()
        else:
            size = self._parsed + len(text)
            while size < end:
                taken.append(pieces.popleft())
                size += len(taken[-1])
        return "".join(taken)

    def _read(self, text: str) -> None:
        n = len(text)
        self._parsed += n
        self.work += n
        leaf = self._leaf
        i = 0 if leaf is None else leaf(self, text, 0)
        expect = self._expect
        while i < n:
            try:
                expect, action = expect[text[i]]
            except KeyError:
                i = self._break(text)
                return
            if action is None:
                i += 1
            else:
                i = action(self, text, i)
                expect = self._expect
        self._expect = expect

    def _break(self, text: str) -> int:
        """Give up: the view stays as it is."""
        self._leaf = None
        self._expect = _BROKEN
        return len(text)

    # -- actions and leaves: each takes the text and where to read on, and returns how far it came --

    def _place(self, value: Any) -> None:
        """Show a new value in the innermost container."""
        if self._after is _AFTER_MEMBER:
            self._parent[self._slot] = value
        else:
            self._parent.append(value)

    def _open_object(self, text: str, i: int) -> int:
        return self._open(text, i, {}, _FIRST_KEY, _AFTER_MEMBER)

    def _open_list(self, text: str, i: int) -> int:
        return self._open(text, i, [], _FIRST_ITEM, _AFTER_ITEM)

    def _open(self, text: str, i: int, container: Any, expect: _Table, after: _Table) -> int:
        if len(self._stack) >= self._max_depth:
            return self._break(text)
        self._place(container)
        self._stack.append((self._parent, self._slot, self._after))
        self._parent = container
        self._slot = -1
        self._after = after
        self._expect = expect
        return i + 1

    def _close(self, text: str, i: int) -> int:
        self._parent, self._slot, self._after = self._stack.pop()
        self._expect = self._after
        return i + 1

    def _open_key(self, text: str, i: int) -> int:
        self._in_key = True
        self._shown = ""
        self._leaf = _IN_STRING
        return self._string(text, i + 1)

    def _open_string(self, text: str, i: int) -> int:
        self._in_key = False
        self._shown = ""
        self._leaf = _IN_STRING
        self._place("")
        return self._string(text, i + 1)

    def _string(self, text: str, i: int) -> int:
        n = len(text)
        while i < n:
            # The three scans of the first line cost half as much as the expression; most deltas are plain text.
            if i == 0 and '"' not in text and "\\" not in text and text.isprintable():
                end, run = n, text
            else:
                end = _match_run(text, i).end()  # type: ignore[union-attr]  # it matches the empty run, too
                run = text[i:end]
                if "\\" in run:
                    run = orjson.loads(f'"{run}"')
            if run:
                self._grow(run)
                if end == n:
                    return n
            if text[end] == '"':
                self._close_string()
                return end + 1
            i = self._special(text, end)
        return i

    def _grow(self, run: str) -> None:
        """More of the string was decoded; show it if that is due."""
        shown = self._shown
        if len(shown) < EAGER_CHARACTERS:
            self._shown = shown = shown + run
            self.work += len(shown)
            if not self._in_key:
                self._parent[self._slot] = shown
        else:
            self._more.append(run)
            self._more_size += len(run)
            if self._more_size * LAG >= len(shown):
                self._refresh()

    def _refresh(self) -> None:
        self._shown = "".join([self._shown, *self._more])
        self._more.clear()
        self._more_size = 0
        self.work += len(self._shown)
        if not self._in_key:
            self._parent[self._slot] = self._shown

    def _close_string(self) -> None:
        if self._more:
            self._refresh()
        self._leaf = None
        if self._in_key:
            self._slot = self._shown
            self._expect = _COLON
        else:
            self._expect = self._after

    def _special(self, text: str, i: int) -> int:
        """Where a run stopped before the closing quote: a cut, a surrogate, or a character that may not be here."""
        if _match_cut(text, i):
            self._held = text[i:]
            self._leaf = _IN_HELD
            return len(text)
        if pair := _match_pair(text, i):
            high, low = (int(half[2:], 16) if half[0] == "\\" else ord(half) for half in pair.groups())
            self._grow(chr(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF)))
            return pair.end()
        if half := _match_half(text, i):
            self._grow("\ufffd")
            return half.end()
        return self._break(text)

    def _resume(self, text: str, i: int) -> int:
        held = self._held
        self.work += len(held)
        self._leaf = _IN_STRING
        return self._string(held + text, i) - len(held)

    def _open_literal(self, text: str, i: int) -> int:
        self._word = _LITERALS[text[i]]
        self._leaf = _IN_LITERAL
        return self._literal(text, i)

    def _literal(self, text: str, i: int) -> int:
        word, value = self._word
        got = text[i : i + len(word)]
        if got == word:
            self._leaf = None
            self._expect = self._after
            self._place(value)
        elif word.startswith(got):
            self._word = (word[len(got) :], value)
        else:
            return self._break(text)
        return i + len(got)

    def _open_number(self, text: str, i: int) -> int:
        self._phase = _NUMBER
        self._placed = False
        self._more_size = 0
        self._leaf = _IN_NUMBER
        return self._number(text, i)

    def _number(self, text: str, i: int) -> int:
        phase, start, n = self._phase, i, len(text)
        while i < n and (following := phase.get(text[i])) is not None:
            phase = following
            i += 1
        self._phase = phase
        self._more.append(text[start:i])
        before = self._more_size
        self._more_size = size = before + i - start
        # Looked at when it passes the limit and not again: that would be quadratic in a long fraction.
        too_long = size > _MAX_INTEGER_DIGITS >= before - 1 and _match_long_integer("".join(self._more))
        if before < NUMBER_CHARACTERS and (i == n or too_long):
            self._show_number("".join(self._more)[:NUMBER_CHARACTERS])
        if too_long:
            return self._break(text)
        return i if i == n else self._end_number(text, i)

    def _end_number(self, text: str, i: int) -> int:
        number = "".join(self._more)
        self._more.clear()
        self._leaf = None
        self._expect = self._after
        try:
            self._show_number(number)
        except ValueError:  # the process allows integers of fewer digits: sys.set_int_max_str_digits()
            return self._break(text)
        return i if number[-1].isdigit() else self._break(text)

    def _show_number(self, text: str) -> None:
        """Show the value of `text`, or of the longest part of it that is a number."""
        text = text.rstrip("+-.eE")
        if not text:
            return
        value = int(text) if text.lstrip("-").isdigit() else float(text)
        if self._placed:
            self._parent[self._slot] = value
        else:
            self._place(value)
            self._placed = True


_IN_STRING = PartialJSON._string
_IN_HELD = PartialJSON._resume
_IN_LITERAL = PartialJSON._literal
_IN_NUMBER = PartialJSON._number

_LITERALS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_DIGITS = "0123456789"


def _phase(digits: _Phase | None, others: _Phase) -> _Phase:
    """A state inside a number: what a digit leads to (None: to the same state), and what other characters do."""
    phase: _Phase = dict(others)
    phase |= dict.fromkeys(_DIGITS, phase if digits is None else digits)
    return phase


_EXPONENT = _phase(None, {})  # 1e5
_EXPONENT_SIGN = _phase(_EXPONENT, {})  # 1e+
_E = _phase(_EXPONENT, {"+": _EXPONENT_SIGN, "-": _EXPONENT_SIGN})  # 1e
_FRACTION = _phase(None, {"e": _E, "E": _E})  # 1.5
_POINT = _phase(_FRACTION, {})  # 1.
_ZERO: _Phase = {".": _POINT, "e": _E, "E": _E}  # 0, which no digit may follow
_INTEGER = _phase(None, _ZERO)  # 12
_MINUS = _phase(_INTEGER, {}) | {"0": _ZERO}  # -
_NUMBER = _MINUS | {"-": _MINUS}  # the beginning


def _table(*, actions: dict[str, _Action] | None = None, moves: dict[str, _Table] | None = None) -> _Table:
    """A state between values: what each character does, or where it leads. White space leads nowhere."""
    table: _Table = {}
    table |= {character: (following, None) for character, following in (moves or {}).items()}
    table |= {character: (table, action) for character, action in (actions or {}).items()}
    table |= dict.fromkeys(" \t\n\r", (table, None))
    return table


_ANY_VALUE: dict[str, _Action] = {
    "{": PartialJSON._open_object,
    "[": PartialJSON._open_list,
    '"': PartialJSON._open_string,
    **dict.fromkeys("-" + _DIGITS, PartialJSON._open_number),
    **dict.fromkeys(_LITERALS, PartialJSON._open_literal),
}
_START = _table(actions=_ANY_VALUE)
_VALUE = _table(actions=_ANY_VALUE)
_ITEM = _table(actions=_ANY_VALUE)
_FIRST_ITEM = _table(actions=_ANY_VALUE | {"]": PartialJSON._close})
_KEY = _table(actions={'"': PartialJSON._open_key})
_FIRST_KEY = _table(actions={'"': PartialJSON._open_key, "}": PartialJSON._close})
_COLON = _table(moves={":": _VALUE})
_AFTER_MEMBER = _table(moves={",": _KEY}, actions={"}": PartialJSON._close})
_AFTER_ITEM = _table(moves={",": _ITEM}, actions={"]": PartialJSON._close})
_END = _table()
_BROKEN: _Table = {}
