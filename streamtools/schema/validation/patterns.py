"""Matches ``pattern``: regular expressions in their ECMA-262 meaning, on Rust's regex engine, which never backtracks.

Input: a pattern. Output: a `Pattern`, or a `PatternError` for one that the engine cannot run (look-around, back
references) or that ECMA-262 does not know; such a pattern is not enforced.

https://262.ecma-international.org/#sec-patterns, https://docs.rs/regex/latest/regex/#syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pydantic_core import SchemaError as EngineError
from pydantic_core import SchemaValidator, core_schema

MAX_WEIGHT = 50_000
"""The largest weight of one pattern: about the instructions that the engine compiles it to, some 100 ns each."""

# The two languages differ in the characters of `\d`, `\w`, `\s`, `\b` and `.`: Rust's are those of Unicode, ECMA-262's
# are ASCII but for white space and line ends.
_SETS = {
    "d": "0-9",
    "D": r"\x{0}-\x{2f}\x{3a}-\x{10ffff}",
    "w": r"0-9A-Z\x{5f}a-z",
    "W": r"\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}",
    "s": r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}",
    "S": r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}",
}
"""The sets as the inside of a class, where others may stand beside them."""
_DOT = r"[^\x{a}\x{d}\x{2028}\x{2029}]"
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_BOUNDARIES = {"b": r"(?-u:\b)", "B": r"(?-u:\B)"}
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,8})\}")
_PROPERTY = re.compile(r"[pP]\{[A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?\}")
_COUNTED = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_GROUP = re.compile(r"\((?:\?(?::|<([A-Za-z_$][\w$]*)>))?")
_LIGHT = 26  # the weight of patterns that cost no more than reading the text
_WEIGHED_CHARS = 208  # weight times characters that make one unit of work
_PROPERTY_WEIGHT = 300  # a class of many ranges
_SET_WEIGHT = 10


class PatternError(ValueError):
    """Raised for a pattern that cannot be enforced; its text is the reason."""


class Pattern(NamedTuple):
    """Matches a pattern against texts."""

    matches: Callable[[str], bool]
    """Returns whether a text has a match anywhere, in time linear in the text."""
    weight: int

    def units(self, chars: int) -> int:
        """Returns the possible cost of matching texts of that many characters, in units of a validation (50 ns)."""
        # At the worst the engine follows every state that the pattern can be in: 0.25 ns for each unit of its weight.
        return chars * max(self.weight, _LIGHT) // _WEIGHED_CHARS


def compile_pattern(pattern: str) -> Pattern:
    """Compiles a pattern; raises a `PatternError` if the engine cannot."""
    translated, weight = translate(pattern)
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=translated, regex_engine="rust-regex", strict=True))
    except EngineError as error:
        lines = str(error).strip().splitlines()
        raise PatternError(lines[-1].strip().removeprefix("error: ")[:200]) from error
    return Pattern(validator.isinstance_python, weight)


def translate(pattern: str) -> tuple[str, int]:
    """Returns the pattern in Rust's syntax, and its weight; raises a `PatternError` if it has no such form."""
    return _Translation(pattern).run()


class _Translation:
    """Translates a pattern in one pass. `_weights` has the weight of each open group, without its last piece."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._out: list[str] = []
        self._weights = [0]
        self._last: int | None = None  # weight of the piece that a quantifier would repeat

    def run(self) -> tuple[str, int]:
        while self._at < len(self._text):
            self._piece()
            # Before the engine sees it: `((a{999}){999}){999}` is short, and would be compiled to a billion states.
            if self._weights[-1] + (self._last or 0) > MAX_WEIGHT:
                raise PatternError("its repetitions are too many together")
        if len(self._weights) > 1:
            raise PatternError("a group is not closed")
        self._settle()
        return "".join(self._out), self._weights[0]

    def _settle(self) -> None:
        self._weights[-1] += self._last or 0
        self._last = None

    def _add(self, text: str, weight: int = 1) -> None:
        self._settle()
        self._out.append(text)
        self._last = weight

    def _piece(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._at += 1
            self._escape()
        elif char == "[":
            self._at += 1
            self._add(*self._class())
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char in "*+?{":
            self._quantifier(char)
        else:
            self._at += 1
            self._plain(char)

    def _plain(self, char: str) -> None:
        if char in "^$|":  # the text's ends mean the same in both languages, as long as no flag is set
            self._settle()
            self._out.append(char)
        elif char == ".":
            self._add(_DOT, 5)
        else:
            self._add(_literal(char))

    # -- groups and quantifiers --------------------------------------------------------------------------------

    def _open(self) -> None:
        # Names of groups are dropped: nothing refers to them, and the two languages allow different ones.
        found = _GROUP.match(self._text, self._at)
        assert found is not None, "it begins with a parenthesis"
        if self._text[found.end() : found.end() + 1] == "?":
            raise PatternError("look-around and flags are not supported")
        self._at = found.end()
        self._settle()
        self._weights.append(0)
        self._out.append("(?:")

    def _close(self) -> None:
        self._at += 1
        if len(self._weights) == 1:
            raise PatternError("a parenthesis is not opened")
        self._settle()
        weight = self._weights.pop()
        self._out.append(")")
        self._last = weight + 1

    def _quantifier(self, char: str) -> None:
        found = _COUNTED.match(self._text, self._at) if char == "{" else None
        if char == "{" and found is None:  # a lone brace stands for itself (ECMA-262, annex B.1.2)
            self._at += 1
            self._add(r"\{")
            return
        if self._last is None:
            raise PatternError(f"expected something that {char!r} could repeat")
        written, times = (char, 1) if found is None else (found.group(), _times(found))
        self._at += len(written)
        self._out.append(written)
        self._weights[-1] += self._last * times
        self._last = None
        if self._text[self._at : self._at + 1] == "?":
            self._at += 1  # lazy: it does not matter which match is found

    # -- escapes and classes -----------------------------------------------------------------------------------

    def _escape(self) -> None:
        char = self._text[self._at : self._at + 1]
        if char in _BOUNDARIES and char:
            self._at += 1
            self._settle()
            self._out.append(_BOUNDARIES[char])
        elif char in ("1", "2", "3", "4", "5", "6", "7", "8", "9", "k"):
            raise PatternError("back references are not supported")
        else:
            text, weight = self._escaped()
            self._add(f"[{text}]" if _is_set(text) else text, weight)

    def _escaped(self) -> tuple[str, int]:
        """Reads the rest of an escape, after its backslash, as a set or one character; inside a class and outside."""
        text, at = self._text, self._at
        char = text[at : at + 1]
        if char in _SETS and char:
            self._at += 1
            return _SETS[char], _SET_WEIGHT
        if found := _PROPERTY.match(text, at):
            self._at = found.end()
            return "\\" + found.group(), _PROPERTY_WEIGHT
        return _literal(chr(self._code_point())), 1

    def _code_point(self) -> int:
        """Reads the rest of an escape of one character, after its backslash."""
        text, at = self._text, self._at
        char = text[at : at + 1]
        if found := _HEX.match(text, at):
            self._at = found.end()
            return self._joined(int(next(filter(None, found.groups())), 16))
        # `\cJ` is a line feed: the letter's code point modulo 32 (ECMA-262, CharacterEscape).
        if char == "c" and text[at + 1 : at + 2].isascii() and text[at + 1 : at + 2].isalpha():
            self._at += 2
            return ord(text[at + 1]) % 32
        self._at += 1
        if char == "0" and not text[self._at : self._at + 1].isdigit():
            return 0
        if char in _CONTROLS and char and char != "0":
            return _CONTROLS[char]
        if not char or char.isalnum() or char == "_":
            escape = "a lone backslash" if not char else ascii(chr(92) + char)
            raise PatternError(f"{escape} is not an escape of ECMA-262")
        return ord(char)

    def _joined(self, code: int) -> int:
        """Joins a surrogate pair to one character."""
        # "Regular expressions SHOULD be built with the "u" flag (or equivalent)", under which two such escapes are one
        # character. https://json-schema.org/draft/2020-12/json-schema-core#section-6.4
        if 0xD800 <= code < 0xDC00 and (
            low := re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})").match(self._text, self._at)
        ):
            self._at = low.end()
            return 0x10000 + ((code - 0xD800) << 10) + (int(low.group(1), 16) - 0xDC00)
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise PatternError("it has an escape that is not a character")
        return code

    def _class(self) -> tuple[str, int]:
        """Reads a class, after its opening bracket."""
        negated = self._text[self._at : self._at + 1] == "^"
        self._at += negated
        items: list[str] = []
        weight = 2
        while (char := self._text[self._at : self._at + 1]) != "]":
            if not char:
                raise PatternError("a class is not closed")
            first, cost = self._class_item()
            weight += cost
            items.append(first)
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last, cost = self._class_item()
                weight += cost
                # with a set at either end the hyphen stands for itself (annex B.1.2)
                items[-1:] = [first, _literal("-"), last] if _is_set(first) or _is_set(last) else [f"{first}-{last}"]
        self._at += 1
        if not items:  # [] matches nothing, [^] everything
            return (r"[\x{0}-\x{10ffff}]", 5) if negated else (r"[^\x{0}-\x{10ffff}]", 5)
        return f"[{'^' * negated}{''.join(items)}]", weight + 4 * negated

    def _class_item(self) -> tuple[str, int]:
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return _literal(char), 1
        if self._text[self._at : self._at + 1] == "b":
            self._at += 1
            return _literal("\b"), 1
        return self._escaped()


def _literal(char: str) -> str:
    """Returns a character in a form that stands for itself."""
    if char.isascii() and char.isalnum():
        return char
    # By its number: characters that mean nothing in ECMA-262, such as `&&` in a class, may be syntax in Rust.
    if "\ud800" <= char <= "\udfff":
        raise PatternError("it has half a surrogate pair, which is not a character")
    return f"\\x{{{ord(char):x}}}"


def _is_set(item: str) -> bool:
    return item[:2] in (r"\p", r"\P") or item in _SETS.values()


def _times(found: re.Match[str]) -> int:
    least, open_ended, most = found.groups()
    if most and int(most) < int(least):
        raise PatternError("a repetition has its numbers out of order")
    return max(int(least), int(most or 0), 1) + (1 if open_ended and not most else 0)
