"""Copies values for code that may change them (a tool, an approver, a page, a request), and builds immutable ones."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import field, fields, make_dataclass
from types import NoneType
from typing import Any, TypeVar

T = TypeVar("T")

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


def owned(slot: Any) -> Any:
    """Returns a property for a slot, each reader of which gets a copy of the value."""
    return property(lambda owner: own(slot.__get__(owner)), slot.__set__)


def on_read(slot: Any) -> Any:
    """Returns a property for a slot whose value may be given as a function, which is called whenever it is read."""

    def read(owner: object) -> Any:
        found = slot.__get__(owner)
        return found() if callable(found) else found

    return property(read, slot.__set__)


def builder_of(cls: type[T]) -> type[T]:
    """Returns what builds instances of a frozen dataclass with slots at a third of the price: it passes no guard for
    each field."""

    # A class of the same layout that is not frozen: what it has built becomes one of the frozen class.
    def __post_init__(made: Any) -> None:
        made.__class__ = cls

    own_fields = [
        (one.name, one.type, field(default=one.default, default_factory=one.default_factory, kw_only=one.kw_only))
        for one in fields(cls)  # type: ignore[arg-type]  # one is given
        if one.name in cls.__annotations__
    ]
    hooks = {"__post_init__": __post_init__}
    return make_dataclass(cls.__name__, own_fields, bases=cls.__bases__, slots=True, namespace=hooks)
