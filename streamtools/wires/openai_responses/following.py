"""Decides which events of a stream belong to the response that a decoder follows: its first.

A connection may carry several responses: on lanes of their own (``stream_id``, over WebSocket), one after another (a
successor after steering, the rounds of a gateway that runs tools itself), or one inside another (a proxy that begins
again elsewhere). Two responses are two turns, so the events of all but the first are told apart here.

Theory of operation. A lane has one response at a time. An event of another lane is another response's, and so is one
with another id. Most events have no id: they belong to the response that ``response.created``, or any event with an
id, named last on their lane. Only ``response.created`` makes another response the one that is meant.

GitHub Copilot encrypts the response's id anew in every event (lidge-jun/opencodex#995). So an id that no
``response.created`` has announced is taken for the same response's if the stream shows that its ids change: in the
event that follows ``response.created``, or by a list of items at the end that repeats ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..reading import read_text
from .facts import ERRORS, NOTICES, TERMINALS, WAITING
from .items import Register

__all__ = ["Followed", "id_of"]


class Followed:
    """The response that is followed, and what its stream has shown of others."""

    def __init__(self, register: Register) -> None:
        self.begun = False
        """True once it has an event of its own."""
        self._lane: object = None  # None on a connection without lanes
        self._register = register
        self._id: str | None = None
        self._elsewhere = False  # events of this lane that have no id belong to another response
        self._elsewhere_id: str | None = None
        self._has_others = False
        self._rotates = False  # its id is another in every event

    @property
    def is_one_of_several(self) -> bool:
        """True if the connection has shown lanes, or other responses."""
        return self._lane is not None or self._has_others

    @property
    def id(self) -> str | None:
        """The response's id; None if it has none, or another in every event, by which nobody could ask for it."""
        return None if self._rotates else self._id

    @property
    def lane(self) -> dict[str, Any]:
        """Its lane, as a field of an event; empty on a connection without lanes."""
        return {} if self._lane is None else {"stream_id": self._lane}

    @property
    def elsewhere(self) -> str | None:
        """The id of another response, to which events of this lane that have no id belong now."""
        return self._elsewhere_id if self._elsewhere else None

    def begin(self, payload: Mapping[str, Any]) -> None:
        """Takes the first event of the response."""
        self.begun, self._id, self._lane = True, id_of(payload), payload.get("stream_id")

    def other(self, payload: Mapping[str, Any]) -> str | None:
        """Returns None if an event belongs to the response, or to none; else the other one's name, which is ``""`` if
        the response was named before."""
        if not self.begun:
            return None
        kind, id_, lane = read_text(payload.get("type")), id_of(payload), payload.get("stream_id")
        if lane != self._lane and not (lane is None and kind in ERRORS):  # an error without a lane is everyone's
            return self._named(id_, read_text(lane))
        if kind in NOTICES:
            return None
        if kind == "response.created" and self._is_another(id_):
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

    def _is_another(self, id_: str | None) -> bool:
        """Returns whether the response of a ``response.created`` is not this one."""
        return id_ != self._id and (self._id is not None or bool(self._register.items))

    def _is_same(self, id_: str, payload: Mapping[str, Any]) -> bool:
        """Returns whether an event with an id, which is not the first one, is of this response."""
        if id_ == self._id:
            return True
        if self._has_others:
            return False
        kind = read_text(payload.get("type"))
        self._rotates = self._rotates or (kind in WAITING and not self._register.items)
        return self._rotates or (kind in TERMINALS and self._register.is_repeated(_response_of(payload).get("output")))


def id_of(payload: Mapping[str, Any]) -> str | None:
    """Returns the id of the response that an event names."""
    return read_text(_response_of(payload).get("id")) or read_text(payload.get("response_id"))


def _response_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    response = payload.get("response")
    return response if isinstance(response, Mapping) else {}
