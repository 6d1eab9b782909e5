"""Copies values for those who may change them: a tool, an approver, a page, a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy, deepcopy
from functools import partial
from itertools import islice
from types import NoneType
from typing import Any

MESSAGES = 100  # levels of messages or tools, more than JSON from a model has; what is deeper is shared
FIXED = frozenset({str, int, float, bool, NoneType, bytes})  # types whose values nobody can change


def own(value: Any, levels: int = -1) -> Any:
    """Returns a copy of so many levels of dicts and lists; by default a deep one, of objects, too. What cannot be
    copied, such as a connection that a validator has found, is shared."""
    kind = type(value)
    if kind in FIXED or not levels:
        return value
    if kind is list:
        return [one if type(one) in FIXED else own(one, levels - 1) for one in value]
    if kind is Kept:
        return value.copies()()
    if kind is dict or (levels > 0 and isinstance(value, dict)):
        made = value.copy() if kind is dict else copy(value)
        for key, one in value.items():
            if type(one) not in FIXED:
                made[key] = own(one, levels - 1)
        return made
    try:
        return value if levels > 0 else deepcopy(value)
    except Exception:  # code of the user's
        return value


class Kept(list[Any]):
    """Messages that nobody changes, to which others are added. Copying all costs a quarter of what `own` costs, since
    their dicts and lists are found once."""

    __slots__ = ("_at", "_inner", "_shells")

    def __init__(self, messages: Iterable[Any]) -> None:
        super().__init__()
        self._shells: list[Callable[[], Any]] = []  # each copies a dict or a list without what is in it
        self._inner: list[tuple[int, Any, int]] = []  # what is in it: its number, the place, the number of the other
        self._at: list[int] = []  # the numbers of the messages
        self.add(messages)

    def add(self, messages: Iterable[Any]) -> None:
        for message in messages:
            self.append(message)
            self._at.append(self._numbered(message, MESSAGES - 1))

    def copies(self) -> Callable[[], list[Any]]:
        """Returns a function that makes copies, as `own` does, of the messages that are here now."""
        return partial(self._copied, len(self._shells), len(self._inner), len(self))

    def _copied(self, shells: int, inner: int, messages: int) -> list[Any]:
        made = [copied() for copied in islice(self._shells, shells)]
        for outer, place, number in islice(self._inner, inner):
            made[outer][place] = made[number]
        return [made[at] for at in islice(self._at, messages)]

    def _numbered(self, value: Any, levels: int) -> int:
        number, kind = len(self._shells), type(value)
        if not levels or not _is_open(value):
            self._shells.append(lambda: value)
            return number
        self._shells.append(value.copy if kind is list or kind is dict else partial(copy, value))
        for place, one in enumerate(value) if kind is list else value.items():
            if type(one) not in FIXED and _is_open(one):
                self._inner.append((number, place, self._numbered(one, levels - 1)))
        return number


def _is_open(value: Any) -> bool:
    return type(value) is list or isinstance(value, dict)


def owned(slot: Any) -> Any:
    """Returns a property for a slot, each reader of which gets a copy of the value."""
    return property(lambda owner: own(slot.__get__(owner)), slot.__set__)


def on_read(slot: Any) -> Any:
    """Returns a property for a slot whose value may be given as a function, which is called whenever it is read."""

    def read(owner: object) -> Any:
        found = slot.__get__(owner)
        return found() if callable(found) else found

    return property(read, slot.__set__)
