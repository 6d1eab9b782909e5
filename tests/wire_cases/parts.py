"""Pieces that the cases of several wires are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NoReturn

from pydantic import ConfigDict, TypeAdapter

from streamtools import Turn

from .record import Call, Message, Payload, Spoken

__all__ = [
    "NAME", "all_at_once", "alternating", "calls_of_ours", "cut", "each", "new", "one_by_one", "one_message",
    "plain", "roles_alternate", "strict_json", "typed", "user_first", "value_of",
]  # fmt: skip

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""A tool's name as most providers take it."""


# -- the stream --------------------------------------------------------------------------------------------------------


def cut(text: str, pieces: int) -> list[str]:
    """Cuts a text into so many pieces."""
    size = max(-(-len(text) // pieces), 1)
    return [text[at : at + size] for at in range(0, len(text), size)]


def alternating(count: int, one: Callable[[], Payload], other: Callable[[], Payload]) -> list[Payload]:
    """Returns so many payloads, by turns of one kind and the other."""
    return [(other if number % 2 else one)() for number in range(count)]


def new(number: int) -> str:
    """Returns a name that was not there before, and that is too long for the cache of names that orjson has."""
    return f"{number:065}"


# -- the history -------------------------------------------------------------------------------------------------------


def plain(role: str) -> Callable[[str], Message]:
    """Returns a writer of messages with a role and a text."""
    return lambda text: {"role": role, "content": text}


def each(write: Callable[[Call], Message]) -> Callable[[list[Call]], list[Message]]:
    """Returns a writer of results, each a message of its own."""
    return lambda calls: [write(call) for call in calls]


def one_message(write: Callable[[Call], Message], field: str = "content") -> Callable[[list[Call]], list[Message]]:
    """Returns a writer of results that are the blocks of one message of the user."""
    return lambda calls: [{"role": "user", field: [write(call) for call in calls]}] if calls else []


def all_at_once(field: str) -> Callable[[list[Message], int], bool]:
    """Returns a check that a turn's second message has so many results, and nothing else."""
    return lambda messages, count: len(messages[1][field] if len(messages) > 1 else ()) == count


def one_by_one(messages: list[Message], count: int) -> bool:
    """Returns whether so many messages of the role ``tool`` follow the answer."""
    return len([message for message in messages[1:] if message["role"] == "tool"]) == count


def value_of(text: str) -> Any:
    """Returns the value of JSON text; the text itself if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def strict_json(text: str | bytes) -> Any:
    """Returns the value of JSON text, without the constants that Python's parser adds to JSON."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def calls_of_ours(turn: Turn) -> int:
    """Counts the calls that the provider did not run itself."""
    return sum(call.kind != "server" for call in turn.calls)


def user_first(_: list[Message], spoken: list[Spoken]) -> Iterator[str]:
    """Objects to a history that the user does not begin."""
    speakers = [who for who, _ in spoken if who != "system"]
    if speakers and speakers[0] != "user":
        yield f"{speakers[0]} speaks first"


def roles_alternate(messages: list[Message], _: list[Spoken]) -> Iterator[str]:
    """Objects to two messages of one role in a row."""
    roles = [message.get("role") for message in messages]
    if any(a == b for a, b in pairwise(roles)):
        yield "two messages of one role"


# -- the tools ---------------------------------------------------------------------------------------------------------


def typed(kind: Any) -> Callable[[Payload], None]:
    """Returns a check that a payload is an item of this type of lists, with no field more."""
    adapter = TypeAdapter(kind, config=ConfigDict(extra="forbid"))

    def check(payload: Payload) -> None:
        assert adapter.validate_python([payload]) == [payload]

    return check
