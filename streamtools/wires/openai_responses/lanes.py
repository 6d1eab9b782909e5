"""Decides which events of a stream belong to the response that a decoder follows: its first.

A connection may carry several responses: on lanes of their own (``stream_id``, over WebSocket), one after another (a
successor after steering, the rounds of a gateway that runs tools itself), or one inside another (a proxy that begins
again elsewhere).

Theory of operation. A lane has one response at a time. An event of another lane is another response's, and so is one
with another id. Most events have no id: they belong to the response that ``response.created``, or any event with an id,
named last on their lane. GitHub Copilot encrypts the response's id anew in every event (lidge-jun/opencodex#995). So an
id that no ``response.created`` has announced is taken for the same response's if the stream shows that its ids change:
in the event that follows ``response.created``, or by a list of items at the end that repeats ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..reading import object_of, read_text
from ..wire import OpenResponse
from .facts import ERRORS, NOTICES, QUIET, TERMINALS, WAITING
from .items import Register


class Followed:
    def __init__(self, register: Register) -> None:
        self.begun = False
        self._lane: object = None  # None on a connection without lanes
        self._register = register
        self._id: str | None = None
        self._elsewhere = False  # events of this lane that have no id belong to another response
        self._elsewhere_id: str | None = None
        self._has_others = False
        self._rotates = False  # its id is another in every event

    @property
    def id(self) -> str | None:
        """The response's id; None if it has none, or another in every event, by which nobody could ask for it."""
        return None if self._rotates else self._id

    @property
    def lane(self) -> dict[str, Any]:
        return {} if self._lane is None else {"stream_id": self._lane}

    @property
    def elsewhere(self) -> str | None:
        """The id of another response, to which events of this lane that have no id belong now."""
        return self._elsewhere_id if self._elsewhere else None

    def begin(self, payload: Mapping[str, Any]) -> None:
        self.begun, self._id, self._lane = True, id_of(payload), payload.get("stream_id")

    def other(self, payload: Mapping[str, Any]) -> str | None:
        """Returns None if an event belongs to the response, or to none; else the other's name, ``""`` if told."""
        if not self.begun:
            return None
        kind, id_, lane = read_text(payload.get("type")), id_of(payload), payload.get("stream_id")
        if lane != self._lane and not (lane is None and kind in ERRORS):  # an error without a lane is everyone's
            return self._named(id_, read_text(lane))
        if kind in NOTICES:
            return None
        if kind == "response.created" and id_ != self._id and (self._id is not None or self._register.items):
            self._elsewhere, self._elsewhere_id = True, id_
            return self._named(id_)
        if id_ is None:
            return "" if self._elsewhere else None
        if self._id is None or self._is_same(id_, payload):
            self._id, self._elsewhere = self._id or id_, False
            return None
        return self._named(id_)

    def _named(self, id_: str | None, lane: str | None = None) -> str:
        known, self._has_others = self._has_others, True
        return id_ or ("" if known else lane or "without an id")

    def _is_same(self, id_: str, payload: Mapping[str, Any]) -> bool:
        if id_ == self._id:
            return True
        if self._has_others:
            return False
        kind, response = read_text(payload.get("type")), object_of(payload.get("response"))
        if kind == "response.failed" or (kind in TERMINALS and response.get("status") == "failed"):
            return True  # a failure without its reason would be a cut; and nothing runs because of it
        self._rotates = self._rotates or (kind in WAITING and not self._register.items)
        return self._rotates or (kind in TERMINALS and self._register.is_repeated(response.get("output")))


def id_of(payload: Mapping[str, Any]) -> str | None:
    return read_text(object_of(payload.get("response")).get("id")) or read_text(payload.get("response_id"))


# -- the responses of a connection --

# Tells apart the responses of one connection: which of them each event belongs to.
#
# Theory of operation. A lane (``stream_id``; None is the lane of events without one) has one response at a time, which
# ``response.created`` begins and a terminal event ends. An event with the id of an open response is that one's; any
# other belongs to the response that began last on its lane. Where another response is created on a lane, as after a
# failover, the one before it has no end to wait for: it is cut, and what may still come of it is nobody's. A Realtime
# session has several side by side (``conversation: "none"``).
#
# A resumed stream begins in the middle, so the first response of a connection may begin with any event that names it,
# or an item of one. Every other event that comes first is about something else, whatever it will be called: sessions
# and gateways send signs of life before any response (xAI's ``ping``). An error where none is open begins one that it
# ends: a request that was refused.

_MAX_CUT = 64  # ids of cut responses, of which more may come


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWords:
    terminals: Collection[str]
    errors: Collection[str]
    waiting: Collection[str]  # events of a response that has said nothing yet
    notices: Collection[str] = ()
    quiet: Collection[str] = ()  # events that never begin a response
    beside: tuple[str, ...] = ()  # prefixes of further events that never do
    one_at_a_time: bool = True  # whether a lane has one response at a time, which the next one cuts
    is_error_last: bool = True
    """Whether an error ends the responses that are open; otherwise each has an end of its own behind it."""


RESPONSES = LaneWords(terminals=TERMINALS, errors=ERRORS, waiting=WAITING, notices=NOTICES, quiet=QUIET)


class ResponseLanes:
    def __init__(self, words: LaneWords = RESPONSES) -> None:
        self.open: list[OpenResponse] = []
        self._words = words
        self._begun = False  # any of them
        self._cut: deque[str | None] = deque(maxlen=_MAX_CUT)

    def owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
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
        found.has_content = found.has_content or kind not in words.waiting
        if kind in words.terminals:
            self._end(found)
        if before is None or before is found or found.stream_id != lane:
            return [found]
        self._end(before)
        self._cut.append(before.id)
        return [before, found]

    def _may_begin(self, payload: Mapping[str, Any], kind: str | None) -> bool:
        words = self._words
        if kind is None or kind in words.quiet or kind in words.notices or kind.startswith(words.beside):
            return False
        item_id = payload.get("item_id") or object_of(payload.get("item")).get("id")
        return id_of(payload) is not None or (kind.startswith("response.") and read_text(item_id) is not None)

    def _on(self, lane: str | None) -> OpenResponse | None:
        return next((one for one in reversed(self.open) if one.stream_id == lane), None)

    def _created(self, id_: str | None, lane: str | None) -> OpenResponse:
        current = self._on(lane)
        if current is not None and (current.id == id_ or (current.id is None and not current.has_content)):
            current.id = id_
            return current
        return self._with_id(id_) or self._begin(id_, lane)

    def _named(self, payload: Mapping[str, Any], kind: str | None) -> OpenResponse | None:
        steer = object_of(payload.get("steer")) if kind in self._words.notices else {}
        return self._with_id(read_text(steer.get("previous_response_id")) or id_of(payload))

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
