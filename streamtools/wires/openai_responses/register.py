"""The items of one response: which one an event means, and which one the list at the end repeats.

Theory of operation. An event names its item by its type, its place (``output_index``), its id, and sometimes the id of
its call. Call ids decide where they are known, since nothing else is as stable; then the place, because item ids may
differ on every event (GitHub Copilot, vercel/ai#18548); then the id (llama.cpp sends no places); and where none of them
says anything, the latest item of the type is meant. A place that several open items have says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..reading import read_text
from .items import Item, identity, name_of, type_of

__all__ = ["Register"]


class Register:
    """The items in the order in which they began."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_index: dict[tuple[str, int], Item | None] = {}  # None: several have it
        self._named: dict[tuple[str, str], Item] = {}  # by id, and by the id of the call
        self._ids: set[str] = set()
        self._latest: dict[str, Item] = {}
        self._places: set[int] = set()
        self._next_place = 0

    def find(self, type_: str, index: object, id_: object, call_id: object = None) -> Item | None:
        """The item of that type that an event means, if there is one."""
        place = (type_, index) if isinstance(index, int) else None
        there = self._by_index.get(place) if place is not None else None
        if there is not None and there.call_id == call_id:
            return there
        called, named = self._by_name(type_, call_id), self._by_name(type_, id_)
        if called is not None and place is not None and called.index not in (None, index):
            called = None  # another place, another call: some servers give one id to several (HKUDS/nanobot#3943)
        for item in (called, there, named):
            if item is not None and _may_be(item, call_id):
                return item
        latest = self._latest.get(type_)
        placed = place is not None and (there is not None or place not in self._by_index)
        if latest is None or placed or (id_ is not None and latest.done) or not _may_be(latest, call_id):
            return None
        return latest

    def knows(self, index: object, id_: object) -> bool:
        """Whether there is an item of any type at that place, or of that id."""
        return (isinstance(index, int) and index in self._places) or (isinstance(id_, str) and id_ in self._ids)

    def open(self, type_: str, index: object, id_: object) -> Item:
        """A new item."""
        free = isinstance(index, int) and index not in self._places
        place = index if isinstance(index, int) and free else self._next_place
        self._places.add(place)
        self._next_place = max(self._next_place, place + 1)
        item = self._latest[type_] = Item(len(self.items), type_, place, index if isinstance(index, int) else None)
        self.items.append(item)
        if isinstance(index, int):
            key = type_, index
            held = self._by_index.get(key)
            self._by_index[key] = item if key not in self._by_index or (held is not None and held.done) else None
        if isinstance(id_, str):
            self._ids.add(id_)
            self._named[type_, id_] = item
        return item

    def call(self, item: Item, call_id: object) -> None:
        """The id of the call that the item is."""
        if (known := read_text(call_id)) is not None:
            item.call_id = known
            self._named[item.type, known] = item

    def _by_name(self, type_: str, key: object) -> Item | None:
        return self._named.get((type_, key)) if isinstance(key, str) else None

    def repeated(self, output: Sequence[Any]) -> list[Item | None]:
        """For each item of the list at the end the one that streamed of which it is the repetition, if one is.

        Ids alone do not decide: some servers make new ones for the list (vllm-project/vllm#38227), and a call must not
        run twice. So where no id agrees the place does, and then the order among those of the same type and name.
        """
        found: list[Item | None] = [None] * len(output)
        for key_of in (_by_identity, _by_place, _by_type_and_name):
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


def _may_be(item: Item, call_id: object) -> bool:
    """Whether nothing speaks against it. Calls of ours keep their ids; a client's tool search does not."""
    known = item.call_id if item.type in ("function_call", "custom_tool_call") else None
    return known is None or call_id is None or known == call_id


def _by_identity(type_: str, _: str | None, identity: str | None, __: int) -> object:
    return (type_, identity) if identity else object()  # without one, nothing is the same


def _by_place(type_: str, name: str | None, _: str | None, place: int) -> object:
    return type_, name, place


def _by_type_and_name(type_: str, name: str | None, _: str | None, __: int) -> object:
    return type_, name
