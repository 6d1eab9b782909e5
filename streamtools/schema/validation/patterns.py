"""Sorts the patterns of a schema: those that are enforced, by their cost, and those that cannot be.

Patterns mean what ECMA-262 says, and run on Rust's regex engine, in time linear in the text. What this engine does not
have (look-around, back references), and what is no pattern, is not enforced; a pattern beyond a bound is refused.
"""

from __future__ import annotations

import re

from ...errors import SchemaError
from ...limits import Limits
from .document import Place
from .reading import refuse_size

SIZES = {1 << 10: 2, 1 << 12: 160, 1 << 14: 300, 1 << 16: 1500, 1 << 18: 6000}
"""Bytes of a compiled pattern, with the most that a character of a text then costs, in units of 25 ns."""
MAX_SIZE = max(SIZES)  # the largest compiled pattern: up to here one takes less than a millisecond to compile
MAX_SIZE_TOGETHER = 32 * MAX_SIZE
MAX_LINES = 64  # about patterns that are not enforced

_UNSUPPORTED = re.compile(r"\(\?(?!:|<[A-Za-z_$])|\\[1-9k]")
_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_ESCAPES = {r"\b": r"(?-u:\b)", r"\B": r"(?-u:\B)", r"\<": "<", r"\>": ">"}  # that mean something else to the engine
_REWRITTEN = (  # forms of ECMA-262 that the engine does not read, with others that it does
    (re.compile(r"(\\[dDwWsS])-(?=[^\]])"), r"\1\\-"),  # a hyphen beside a set stands for itself (annex B.1.2)
    (re.compile(r"(?<=[^\[\\])-(?=\\[dDwWsS])"), r"\\-"),
    (re.compile(r"(?<![\\pPu])\{(?!\d+(?:,\d*)?\})"), r"\\{"),  # and so does a lone brace
    (re.compile(r"\\0(?!\d)"), r"\\x00"),
    (re.compile(r"\[\^\]"), r"[\\s\\S]"),
)
_PAIR = re.compile(r"\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")


class Patterns:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._readable: dict[str, str] = {}  # patterns as the engine reads them, by those of the schema
        self._sizes: dict[str, int] = {}  # 0: not enforced
        self.unenforced: list[str] = []  # the places of patterns that are not enforced, with the reason

    def enforced(self, pattern: str, place: Place, step: str) -> str | None:
        """Returns the pattern at a place in a form that the engine reads, None if it is not enforced; raises a
        `SchemaError` if it is beyond a bound."""
        longest = self._limits.max_pattern_chars
        if len(pattern) > longest:
            raise refuse_size("has a pattern longer than", "max_pattern_chars", longest, place.pointer + step)
        given = pattern
        if given not in self._readable:
            pattern = _ESCAPE.sub(lambda found: _ESCAPES.get(found[0], found[0]), given)
            self._readable[given] = pattern if _compiles(pattern, MAX_SIZE) else _rewritten(pattern)
        pattern = self._readable[given]
        if pattern not in self._sizes:
            self._sizes[pattern] = self._measured(pattern, place, step)
        if self._sizes[pattern] == 0 and len(self.unenforced) < MAX_LINES:
            why = "is not a regular expression of ECMA-262"
            if _UNSUPPORTED.search(given):
                why = "look-around, flags and back references are not supported"
            self.unenforced.append(f"{place.pointer}{step}: {why}")
        return pattern if self._sizes[pattern] else None

    def cost(self, pattern: str) -> int:
        return SIZES.get(self._sizes.get(pattern, 0), 1)

    def _measured(self, pattern: str, place: Place, step: str) -> int:
        size = next((size for size in SIZES if _compiles(pattern, size)), 0)
        # Repetitions are what makes a pattern large: without its counts, one that is no pattern still is none.
        in_order = all(not most or int(least) <= int(most) for least, most in _COUNT.findall(pattern))
        if not size and in_order and _compiles(_COUNT.sub("+", pattern), MAX_SIZE):
            what = f"the pattern is larger than {MAX_SIZE >> 10} KiB once compiled"
            raise SchemaError(what, path=place.pointer + step)
        if size + sum(self._sizes.values()) > MAX_SIZE_TOGETHER:
            what = f"the patterns of this schema are larger than {MAX_SIZE_TOGETHER >> 20} MiB together"
            raise SchemaError(what, path=place.pointer + step)
        return size


def _compiles(pattern: str, size: int) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size))
    except ValueError:
        return False
    return True


def _rewritten(pattern: str) -> str:
    for found, written in _REWRITTEN:
        pattern = found.sub(written, pattern)
    return _PAIR.sub(lambda pair: bytes.fromhex("".join(pair.groups())).decode("utf-16-be"), pattern)
