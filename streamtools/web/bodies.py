"""Reads the JSON that a client has sent, within bounds, and checks it where it is used.

In: the bytes of a body, from anybody. Out: a `BodyValue`, which knows its path and gives values of the wanted type
alone. Size, depth and the number of values are looked at before anything is parsed; then there are no keys twice, no
numbers that JSON does not have, and no halves of surrogate pairs. Whatever is wrong is a `BadRequest`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

from ..errors import BadRequest
from ..text import excerpt

__all__ = ["MAX_BYTES", "BodyValue", "read_body", "unique"]

T = TypeVar("T")

MAX_BYTES = 8 << 20
"""Bytes of a body, unless the program says otherwise: clients send their whole chat each time, with its pictures."""
MAX_DEPTH = 100
"""Levels of nesting: those of arguments (`Limits.max_json_depth`), and those around them."""
MAX_VALUES = 300_000
"""Values in a body: about as many as 8 MiB have in chats with many results."""
MAX_ID_CHARS = 4096
"""Characters of an id. Those of approvals name a run, a step, a call and its arguments, with escapes."""

_STRING = re.compile(rb'"[^"]*"?')
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_MAY_BE_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
_SHOWN = 80  # characters of a name that the client made up


def read_body(body: bytes, *, max_bytes: int = MAX_BYTES) -> BodyValue:
    """Returns the object that a body is. Costs time and space linear in `max_bytes`.

    Raises:
        BadRequest: the body is too large, or no JSON object.
    """
    if len(body) > max_bytes:
        raise BadRequest("the body is too large", limit=f"max_bytes={max_bytes}", status=413)
    _check_size(body)
    try:
        text = body.decode()
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON at character {error.pos}") from None
    except BadRequest:
        raise
    except ValueError:  # an integer with thousands of digits
        raise BadRequest("the body has a number that is too long") from None
    if _MAY_BE_HALF.search(text):
        _check_pairs(value)
    return BodyValue(value, "").checked(dict, "an object")


def _check_size(body: bytes) -> None:
    # Up to its first error the parser takes for strings what is taken for strings here: what it builds is bounded.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * MAX_VALUES:  # the quotes of a value and of its name
        raise _too_many()
    structure = _STRING.sub(b"", plain)
    if structure.count(b",") + structure.count(b"[") + structure.count(b"{") > MAX_VALUES:
        raise _too_many()
    brackets = structure.translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise BadRequest("the body is nested too deeply", limit=f"max_depth={MAX_DEPTH}")


def _too_many() -> BadRequest:
    return BadRequest("the body has too many values", limit=f"max_values={MAX_VALUES}", status=413)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise BadRequest(f"an object has the key '{excerpt(twice, _SHOWN)}' twice")
    return found


def _no_number(word: str) -> NoReturn:
    raise BadRequest(f"{word} is no number that JSON has")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadRequest("a number is too large")
    return number


def _check_pairs(value: Any) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str) and _HALF.search(one):
            raise BadRequest("a text has half of a surrogate pair")


@dataclass(frozen=True, slots=True)
class BodyValue:
    """A value in a body, and where it stands."""

    value: Any = field(repr=False)
    path: str

    def refused(self, message: str, *, limit: str | None = None, status: Any = 400) -> BadRequest:
        """Returns the error about this place."""
        return BadRequest(message, path=self.path, limit=limit, status=status)

    def checked(self, kind: type, words: str) -> BodyValue:
        """Returns this place if its value is of a type."""
        if not isinstance(self.value, kind):
            raise self.refused(f"expected {words}, got {_JSON_NAMES.get(type(self.value), 'something else')}")
        return self

    def get(self, key: str) -> BodyValue | None:
        """Returns the field of an object; None if it has none, or null there."""
        value = self.checked(dict, "an object").value.get(key)
        return None if value is None else self._at(key, value)

    def need(self, key: str) -> BodyValue:
        """Returns the field of an object, which has to be there."""
        found = self.get(key)
        if found is None:
            raise self._at(key, None).refused("is missing")
        return found

    def items(self, name: str, most: int) -> list[BodyValue]:
        """Returns the items of a list; `name` is that of its bound."""
        values = self.checked(list, "a list").value
        if len(values) > most:
            raise self.refused(f"{len(values)} items are too many", limit=f"{name}={most}", status=413)
        return [BodyValue(value, f"{self.path}[{number}]") for number, value in enumerate(values)]

    def text(self, most: int | None = None) -> str:
        """Returns a text; with a bound in characters where it is to be short."""
        found: str = self.checked(str, "text").value
        if most is not None and len(found) > most:
            raise self.refused(f"{len(found)} characters are too many", limit=f"max_chars={most}")
        return found

    def id(self) -> str:
        """Returns an id: some printable characters."""
        found = self.call_id()
        if not found.isprintable():
            raise self.refused("expected an id of printable characters")
        return found

    def call_id(self) -> str:
        """Returns the id of a call, in which its provider may have put anything."""
        found = self.text(MAX_ID_CHARS)
        if not found:
            raise self.refused("expected an id, got an empty text")
        return found

    def flag(self) -> bool:
        """Returns a boolean."""
        found: bool = self.checked(bool, "true or false").value
        return found

    def word(self, *known: str) -> str:
        """Returns a text that is one of these."""
        found = self.text()
        if found not in known:
            raise self.refused(f"expected one of {', '.join(known)}")
        return found

    def object(self) -> dict[str, Any]:
        """Returns an object."""
        found: dict[str, Any] = self.checked(dict, "an object").value
        return found

    def size(self) -> int:
        """Returns how many bytes the value has as JSON."""
        return len(json.dumps(self.value, ensure_ascii=False, separators=(",", ":")).encode())

    def _at(self, key: str, value: Any) -> BodyValue:
        return BodyValue(value, f"{self.path}.{key}" if self.path else key)


def unique(found: Iterable[tuple[BodyValue, str, T]]) -> tuple[T, ...]:
    """Returns values that have an id, each with its place.

    Raises:
        BadRequest: an id stands there twice.
    """
    seen: dict[str, T] = {}
    for place, id_, value in found:
        if id_ in seen:
            raise place.refused("the same id stands there twice")
        seen[id_] = value
    return tuple(seen.values())


_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}
