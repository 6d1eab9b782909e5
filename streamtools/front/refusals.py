"""Refuses what is easily written wrongly about a block or a run that is open, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..turn import Turn

_TURN = frozenset(name for name in dir(Turn) if not name.startswith("_"))


def asynchronous_only(what: str, block: str) -> Callable[..., NoReturn]:
    """Returns a method that refuses a synchronous ``for`` or ``with``, and says what to write. `what` names such an
    object; `block` are the words between ``async with`` and the colon: a call, and the name of the events."""
    made, _, events = block.rpartition(" as ")
    inside = f"async with {block}:  async for event in {events}: ..."

    def refuse(*_: object) -> NoReturn:
        outside = f"with {made}.sync() as {events}: ..."
        raise TypeError(f"{what} is asynchronous; write:  {inside}, or, without an event loop,  {outside}")

    return refuse


def turned_to(turn: str) -> Callable[[object, str], NoReturn]:
    """Returns a ``__getattr__`` that says where the turn is, by its expression, for an attribute that only the turn
    has."""

    def refuse(self: object, name: str) -> NoReturn:
        hint = f"; the turn has it, write {turn}.{name}" if name in _TURN else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    return refuse
