"""Tells apart the responses of one connection: which of them each event belongs to.

Theory of operation. A lane (``stream_id``; None is the lane of events without one) has one response at a time, which
``response.created`` begins and a terminal event ends. An event with the id of an open response is that one's; any other
belongs to the response that began last on its lane. Where another response is created on a lane, as after a failover,
the one before it has no end to wait for: it is cut, and what may still come of it is nobody's. A Realtime session has
several side by side (``conversation: "none"``).

A resumed stream begins in the middle, so the first response of a connection may begin with any event that names it, or
an item of one. Every other event that comes first is about something else, whatever it will be called: sessions and
gateways send signs of life before any response (xAI's ``ping``). An error where none is open begins one that it ends: a
request that was refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..lanes import OpenResponse
from ..reading import read_text
from .facts import ERRORS, NOTICES, QUIET, TERMINALS, WAITING
from .following import id_of

__all__ = ["LaneWords", "ResponseLanes"]

_MAX_CUT = 64  # ids of cut responses, of which more may come


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWords:
    """The types of events by which responses are told apart."""

    terminals: Collection[str]
    errors: Collection[str]
    waiting: Collection[str]
    """Events of a response that has said nothing yet."""
    notices: Collection[str] = ()
    """Answers to what the client sent."""
    quiet: Collection[str] = ()
    """Events that never begin a response."""
    beside: tuple[str, ...] = ()
    """Prefixes of further events that never do."""
    one_at_a_time: bool = True
    """Whether a lane has one response at a time, which the next one cuts."""
    is_error_last: bool = True
    """Whether an error ends the responses that are open; otherwise each has an end of its own behind it."""


RESPONSES = LaneWords(terminals=TERMINALS, errors=ERRORS, waiting=WAITING, notices=NOTICES, quiet=QUIET)


class ResponseLanes:
    """The responses of a connection that have begun and not ended."""

    def __init__(self, words: LaneWords = RESPONSES) -> None:
        self.open: list[OpenResponse] = []
        self._words = words
        self._begun = False  # any of them
        self._cut: deque[str | None] = deque(maxlen=_MAX_CUT)

    def owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
        """Returns the responses that an event belongs to: mostly one, which begins here if it is not open; none if it
        comes between responses."""
        kind, lane = read_text(payload.get("type")), read_text(payload.get("stream_id"))
        words = self._words
        if kind in words.errors or (kind is None and payload.get("error")):
            return self._failed(payload, lane)
        before = None
        if kind == "response.created":
            before = self._on(lane) if words.one_at_a_time else None
            found = self._created(id_of(payload), lane)
        elif (id_ := id_of(payload)) is not None and id_ in self._cut:
            return []
        elif (known := self._named(payload, kind) or self._on(lane)) is not None:
            found = known
        elif self._begun or not self._may_begin(payload, kind):
            return []
        else:
            found = self._begin(id_of(payload), lane)
        found.said = found.said or kind not in words.waiting
        if kind in words.terminals:
            self._end(found)
        if before is None or before is found or found.stream_id != lane:
            return [found]
        self._end(before)
        self._cut.append(before.id)
        return [before, found]

    def _may_begin(self, payload: Mapping[str, Any], kind: str | None) -> bool:
        """Returns whether an event can be the first that comes of a response."""
        words = self._words
        if kind is None or kind in words.quiet or kind in words.notices or kind.startswith(words.beside):
            return False
        item = payload.get("item")
        item_id = payload.get("item_id") or (item.get("id") if isinstance(item, Mapping) else None)
        return id_of(payload) is not None or (kind.startswith("response.") and read_text(item_id) is not None)

    def _on(self, lane: str | None) -> OpenResponse | None:
        return next((one for one in reversed(self.open) if one.stream_id == lane), None)

    def _created(self, id_: str | None, lane: str | None) -> OpenResponse:
        current = self._on(lane)
        if current is not None and (current.id == id_ or (current.id is None and not current.said)):
            current.id = id_
            return current
        return self._with_id(id_) or self._begin(id_, lane)

    def _named(self, payload: Mapping[str, Any], kind: str | None) -> OpenResponse | None:
        steer = payload.get("steer")
        target = (
            steer.get("previous_response_id") if kind in self._words.notices and isinstance(steer, Mapping) else None
        )
        return self._with_id(read_text(target) or id_of(payload))

    def _with_id(self, id_: str | None) -> OpenResponse | None:
        return next((one for one in self.open if one.id == id_), None) if id_ is not None else None

    def _failed(self, payload: Mapping[str, Any], lane: str | None) -> list[OpenResponse]:
        """Returns the responses that an error is about, which it ends: that of its lane, or all if it has none."""
        named = self._with_id(id_of(payload)) or (None if lane is None else self._on(lane))
        found = [named] if named is not None else [] if lane is not None else list(self.open)
        if found and not self._words.is_error_last:
            return found
        found = found or [self._begin(id_of(payload), lane)]
        for one in found:
            self._end(one)
        return found

    def _begin(self, id_: str | None, lane: str | None) -> OpenResponse:
        self._begun = True
        found = OpenResponse(id_, lane)
        self.open.append(found)
        return found

    def _end(self, response: OpenResponse) -> None:
        response.ended = True
        self.open.remove(response)
