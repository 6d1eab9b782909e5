"""Copies values for those who may change them: a tool, an approver, a page, a request."""

from __future__ import annotations

from copy import copy, deepcopy
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
    if kind is dict and FIXED.issuperset(map(type, value.values())):  # as is nearly always so
        return value.copy()
    if isinstance(value, dict) and (kind is dict or levels > 0):
        made = {} if kind is dict else copy(value)
        for key, one in value.items():
            made[key] = one if type(one) in FIXED else own(one, levels - 1)
        return made
    if kind is list:
        return [one if type(one) in FIXED else own(one, levels - 1) for one in value]
    try:
        return value if levels > 0 else deepcopy(value)
    except Exception:  # code of the user's
        return value


def own_entries(entries: Any) -> Any:
    """Returns messages or tools as `own` does. It does so for each step of a run, over all that was said."""
    try:
        return _own_plain(entries)
    except RecursionError:
        return own(entries, MESSAGES)


def _own_plain(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        value = value.copy()
        for name, one in value.items():
            if type(one) is not str and type(one) not in FIXED:
                value[name] = _own_plain(one)
        return value
    if kind is list:
        return [one if type(one) in FIXED else _own_plain(one) for one in value]
    return value if kind in FIXED else own(value, MESSAGES)


def owned(slot: Any) -> Any:
    """Returns a property for a slot, each reader of which gets a copy of the value."""
    return property(lambda owner: own(slot.__get__(owner)), slot.__set__)


def on_read(slot: Any) -> Any:
    """Returns a property for a slot whose value may be given as a function, which is called whenever it is read."""

    def read(owner: object) -> Any:
        found = slot.__get__(owner)
        return found() if callable(found) else found

    return property(read, slot.__set__)
