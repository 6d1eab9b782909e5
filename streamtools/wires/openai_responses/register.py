"""The items of one response: which one an event means, and which one the list at the end repeats.

Theory of operation. An event names its item by its place (``output_index``) and by its id. The place decides, because
ids may differ on every event (GitHub Copilot, vercel/ai#18548); where there is no place the id does (llama.cpp), and
where there is neither, the latest item is meant. An item of another type is never it, and a place that several open
items have says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .items import Item, identity, name_of, type_of

__all__ = ["Register"]


class Register:
    """The items in the order in which they began."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_index: dict[int, Item | None] = {}  # None: several have it
        self._by_id: dict[str, Item] = {}
        self._places: set[int] = set()
        self._next_place = 0

    def find(self, index: object, id_: object, type_: str | None) -> Item | None:
        """The item that an event means; None if there is none of that type. Any type will do if that is None."""
        item = self._by_index.get(index) if isinstance(index, int) else None
        if item is not None and type_ in (None, item.type):
            return item
        item = self._by_id.get(id_) if isinstance(id_, str) else None
        if item is None and index is None and id_ is None and self.items:
            item = self.items[-1]
        return item if item is not None and type_ in (None, item.type) else None

    def open(self, type_: str, index: object, id_: object) -> Item:
        """A new item."""
        free = isinstance(index, int) and index not in self._places
        place = index if isinstance(index, int) and free else self._next_place
        self._places.add(place)
        self._next_place = max(self._next_place, place + 1)
        item = Item(len(self.items), type_, place, index if isinstance(index, int) else None)
        self.items.append(item)
        if isinstance(index, int):
            held = self._by_index.get(index)
            self._by_index[index] = item if index not in self._by_index or (held is not None and held.done) else None
        if isinstance(id_, str):
            self._by_id[id_] = item
        return item

    def repeated(self, output: Sequence[Any]) -> list[Item | None]:
        """For each item of the list at the end the one that streamed of which it is the repetition, if one is.

        Ids alone do not decide: some servers make new ones for the list (vllm-project/vllm#38227), and a call must not
        run twice. So where no id agrees the place does, and then the order among those of the same type and name.
        """
        found: list[Item | None] = [None] * len(output)
        for key_of in (_by_identity, _by_place, _by_name):
            waiting: dict[object, list[Item]] = {}
            for item in reversed(self.items):
                if not item.repeated:
                    waiting.setdefault(key_of(item.type, item.name, item.identity, item.place), []).append(item)
            for position, raw in enumerate(output):
                if found[position] is None and isinstance(raw, Mapping):
                    there = waiting.get(key_of(type_of(raw), name_of(raw), identity(raw), position))
                    if there:
                        item = found[position] = there.pop()
                        item.repeated = True
        return found


def _by_identity(type_: str, _: str | None, identity: str | None, __: int) -> object:
    return (type_, identity) if identity else object()  # without one, nothing is the same


def _by_place(type_: str, name: str | None, _: str | None, place: int) -> object:
    return type_, name, place


def _by_name(type_: str, name: str | None, _: str | None, __: int) -> object:
    return type_, name
