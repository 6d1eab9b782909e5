"""Makes the history with which a run begins from earlier runs, for any wire.

A long history is repaired where it may need that. Runs that ended with an answer are valid for their provider, and are
joined unchanged: each begins with the user, ends with the answer, and has its own calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from ..durable.codec import MARK, read_value, written_value
from ..history import convert, repair
from ..parts import Carry
from ..wires import Entry, Reply, Wire, find
from .client_input import UserMessage, to_wire

_MARK = f'"{MARK}"'.encode()  # in a value that JSON does not have


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier run has left."""

    wire: str | None  # None if no run has answered the message
    messages: list[Any] = field(repr=False)
    message: UserMessage | None = None  # if it is not among the messages
    call_ids: tuple[str, ...] | None = None  # None if the messages alone may not be what the provider takes
    carry: Carry = field(default_factory=Carry, repr=False)

    def over(self, wire: str) -> list[Any]:
        return self.messages if self.message is None else [*to_wire(self.message, wire, new=False), *self.messages]


def history_of(past: Sequence[Past], message: UserMessage, target: Wire, *, is_new: bool) -> list[Any]:
    whole, ids, rest = list[Any](), set[str](), list[Past]()
    for one in past:
        if rest or one.wire != target.name or one.call_ids is None or not ids.isdisjoint(one.call_ids):
            rest.append(one)
        else:
            ids.update(one.call_ids)
            whole += one.messages
    messages = list[Any]()
    # Whole stretches are converted: a conversation that begins with an answer, or ends with a call, is none.
    for name, runs in groupby(rest, lambda one: one.wire or target.name):
        stretch = [message for one in runs for message in one.over(name)]
        messages += stretch if name == target.name else convert(stretch, name, target).messages
    messages += to_wire(message, target, new=is_new)
    if ids.isdisjoint(_call_ids(target.entries(messages))):
        return [*whole, *repair(messages, target)]
    return repair([*whole, *messages], target)


def written_past(
    before: int | None, message: UserMessage, added: Sequence[Any], wire: str, outcome: str | None, carry: Carry
) -> bytes:
    messages, target = [*to_wire(message, wire, new=False), *added], find(wire)
    ids = _whole_ids(messages, target) if outcome == "answered" and target.rules.mend is None else None
    beside = {"carry": dict(carry), "expires_at": carry.expires_at} if carry else {}
    kept = {"before": before, "wire": wire, "call_ids": ids, "messages": written_value(messages)}  # bytes, too
    return to_json(kept | beside)


def _whole_ids(messages: list[Any], wire: Wire) -> list[str] | None:
    """Returns the ids of the calls in a whole exchange; None if it needs repairs, or has an id twice."""
    entries = wire.entries(messages)
    ids, last = [*_call_ids(entries)], entries[-1] if entries else None
    is_over = isinstance(last, Reply) and not last.answer.our_calls and len({*ids}) == len(ids)
    return ids if is_over and repair(messages, wire, last=True) is messages else None


def _call_ids(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Reply):
            yield from (id_ for id_, call in entry.answer.calls.items() if not call.call_id_synthesized)


@dataclass(frozen=True, slots=True)
class _Kept:
    before: int | None
    wire: str
    messages: Any
    call_ids: tuple[str, ...] | None = None
    message: UserMessage | None = None
    carry: dict[str, str] | None = None
    expires_at: str | None = None


_KEPT = TypeAdapter(_Kept)


def read_past(value: bytes) -> tuple[int | None, Past]:
    """Returns the number of the run before, and what a run has left; raises a `ValueError`, `TypeError` or
    `LookupError` if nobody here has written this."""
    try:
        written = from_json(value)
    except ValueError:  # it is deep
        written = json.loads(value)
    kept = _KEPT.validate_python(written)
    messages = read_value(kept.messages) if _MARK in value else kept.messages
    if type(messages) is not list:
        raise ValueError("messages were expected")
    ids, carry = kept.call_ids if kept.message is None else None, Carry(kept.carry or {}, kept.expires_at)
    return kept.before, Past(kept.wire, messages, kept.message, ids, carry)
