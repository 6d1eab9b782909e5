"""The turns of a Live session: which messages begin and end a response, and which belong to none.

Theory of operation. Messages have no id of a response, and a session has one response at a time. Content of the model
or a call begins one. It ends with `turnComplete`, unless the session says that it is still at work, or with a
`toolCall`: the client has to answer that before the model goes on, and a model that does not wait goes on with another
response. What comes about the calls after that, the cancellation say, belongs to the response that called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lanes import OpenResponse
from ..reading import read_text
from .facts import spelled

__all__ = ["LiveTurns", "asks", "calls_in", "content_of", "ends", "taken_back"]

_BESIDE = frozenset({"inputTranscription", "interimInputTranscription", "waitingForInput"})
"""Content that is not the model's."""


def content_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the content of a message; an empty one if it has none."""
    content = payload.get("serverContent")
    return content if isinstance(content, Mapping) else {}


def calls_in(payload: Mapping[str, Any]) -> list[Any]:
    """Returns the calls that a message asks for."""
    asked = payload.get("toolCall")
    calls = asked.get("functionCalls") if isinstance(asked, Mapping) else None
    return calls if isinstance(calls, list) else []


def asks(payload: Mapping[str, Any]) -> bool:
    """Returns whether a message asks for calls, of which the last is whole."""
    calls = calls_in(payload)
    return bool(calls) and not (isinstance(calls[-1], Mapping) and calls[-1].get("willContinue"))


def ends(payload: Mapping[str, Any]) -> bool:
    """Returns whether a message ends the response: it asks for calls, or says that the turn is complete and not that
    more comes by itself, as ``IN_PROGRESS`` does."""
    content = content_of(payload)
    return asks(payload) or (bool(content.get("turnComplete")) and content.get("interactionStatus") != "IN_PROGRESS")


def taken_back(payload: Mapping[str, Any]) -> Sequence[str]:
    """Returns the ids of the calls that a message cancels."""
    cancelled = spelled(payload).get("toolCallCancellation")
    ids = cancelled.get("ids") if isinstance(cancelled, Mapping) else None
    return [id_ for id_ in map(read_text, ids) if id_] if isinstance(ids, list) else []


class LiveTurns:
    """The response of a session that has begun and not ended, and the one before it, if that called."""

    def __init__(self) -> None:
        self.open: list[OpenResponse] = []
        self._calling: OpenResponse | None = None  # ended with calls, and no other response has begun since
        self._interrupted = False  # that one: its `turnComplete` is still to come

    def owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
        """Returns the response that a message belongs to; none if it comes between responses."""
        payload = spelled(payload)
        if not self.open and not self._begins(payload):
            calling = self._calling
            return [calling] if calling is not None and (taken_back(payload) or content_of(payload)) else []
        if not self.open:
            self.open, self._calling = [OpenResponse(None, None, said=True)], None
        [found] = self.open
        if payload.get("error") or ends(payload):
            found.ended, self.open = True, []
            self._calling, self._interrupted = (found if asks(payload) else None), False
        return [found]

    def _begins(self, payload: Mapping[str, Any]) -> bool:
        """Returns whether a message is the first of a response."""
        if calls_in(payload) or payload.get("error"):
            return True
        content = content_of(payload)
        if content.get("interrupted") and self._calling is not None:
            self._interrupted = True
        if not self._interrupted or content.get("modelTurn"):
            return not _BESIDE.issuperset(content)
        if content.get("turnComplete"):
            self._interrupted, self._calling = False, None
        return False
