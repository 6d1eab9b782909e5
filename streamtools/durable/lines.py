"""The form in which a journal keeps a response and the ends of its calls."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic_core import PydanticSerializationError, to_json

from ..events import Observation
from .codec import read_event, read_value, written_event, written_value
from .fields import Range, read_object
from .run_records import JournaledResponse, read_entry

_PLACE = ("seq", "step", "time", "causes")  # in the run: replayed events get new ones


@dataclass(frozen=True, slots=True)
class Facts:
    kind: Literal["bytes", "items"]
    salt: Annotated[int, Range(0, 1 << 53)]
    attempt: Annotated[int, Range(1, 1 << 53)]
    said: tuple[dict[str, Any], ...]
    traceparent: str | None
    proposed_by: str | None
    fallback: Annotated[int, Range(0, 1 << 53)] | None = None  # missing in older journals
    broken: bool = False  # it broke off, and its ends are stored with it


@dataclass(frozen=True, slots=True)
class Ends:
    observations: tuple[Observation, ...]
    calls: Annotated[int, Range(0, 1 << 53)]
    tokens: Annotated[int, Range(0, 1 << 53)]


@dataclass(frozen=True, slots=True)
class Line:
    """A stored response; `ends` are None while they are unknown."""

    step: int
    facts: Facts
    said: tuple[dict[str, Any], ...]
    items: tuple[Any, ...]
    ends: Ends | None


def read_line(response: JournaledResponse) -> Line:
    """Raises a `ValueError`, `LookupError`, `TypeError` or `RecursionError` if it is not as a journal writes it."""
    facts: Facts = read_object(Facts, json.loads(response.facts), label="facts")
    ends: Ends | None = None
    if response.ends is not None:
        ends = read_object(Ends, json.loads(response.ends), label="ends", read=_read_end)
    if facts.broken and ends is None:
        raise ValueError("the ends of its calls were expected")
    said, items = tuple(_said(facts.said)), tuple(_read_items(facts.kind, response.body))
    return Line(response.step, facts, said, items, ends)


def _said(said: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in map(read_entry, said):
        messages = one["messages"]
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise ValueError("messages were expected")
        yield {"id": str(one["id"]), "kind": "say", "when": str(one["when"]), "messages": messages}


def _read_items(kind: str, body: bytes) -> Iterator[Any]:
    if kind == "bytes":
        yield body
        return
    for one in json.loads(body):  # exact even for integers of any size
        item = base64.b64decode(one["bytes"]) if "bytes" in one else read_value(one["is"])
        if not isinstance(item, (bytes, str, dict)):
            raise ValueError("a piece of a response was expected")
        yield item


def _read_end(written: Any) -> Any:
    if not isinstance(written, list):
        return written
    return [read_event(one) if isinstance(one, dict) else one for one in written]


def written_item(item: Any) -> bytes | dict[str, Any]:
    return item if isinstance(item, bytes) else {"is": written_value(item)}


def written_items(items: Sequence[bytes | dict[str, Any]]) -> tuple[Literal["bytes", "items"], bytes]:
    """Returns the kind of a body and the body: bytes joined, since they read the same however they are cut; else a list
    of the items."""
    if all(isinstance(item, bytes) for item in items):
        return "bytes", b"".join(item for item in items if isinstance(item, bytes))
    written = ({"bytes": base64.b64encode(one).decode()} if isinstance(one, bytes) else one for one in items)
    return "items", written_json(list(written))


def written_ends(observations: Iterable[Observation], calls: int, tokens: int) -> bytes:
    seen = [{name: value for name, value in written_event(one).items() if name not in _PLACE} for one in observations]
    return written_json({"observations": seen, "calls": calls, "tokens": tokens})


def written_json(value: Any) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:  # half a surrogate pair
        return json.dumps(value).encode()
