"""The turns of a Live session: which messages begin and end a response, and which belong to none.

Theory of operation. Messages have no id of a response, and a session has one response at a time. Content of the model,
a call, the end of a turn or an error begins one; nothing else does, whatever it will be called. It ends with
`turnComplete`, unless the session says that it is still at work, or with a `toolCall`: the client has to answer that
before the model goes on, and a model that does not wait goes on with another response. What comes about the calls after
that, the cancellation say, belongs to the response that called.

What is about a response may come when that is over. An interruption between two responses is about the first, and so is
the `turnComplete` that follows it. A transcript has no order with the model's turn (`LiveServerContent` of google-genai
3.4.0), and few servers say that one is `finished` (googleapis/js-genai#1429): so behind a response with sound it is the
rest of that one's, until the user is heard or the model goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..lanes import OpenResponse
from ..reading import read_text
from .facts import spelled

__all__ = ["LiveTurns", "asks", "calls_in", "content_of", "ends", "is_of_the_user", "is_sound", "taken_back"]

_HEARD = frozenset({"inputTranscription", "interimInputTranscription"})
_ACTIVITY = frozenset({"voiceActivity", "voiceActivityDetectionSignal"})


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


def is_of_the_user(payload: Mapping[str, Any]) -> bool:
    """Returns whether a message says that the user speaks."""
    return not (_HEARD.isdisjoint(content_of(payload)) and _ACTIVITY.isdisjoint(payload))


def is_sound(part: object) -> bool:
    """Returns whether a part of the model's content is sound."""
    data = part.get("inlineData") if isinstance(part, Mapping) else None
    kind = read_text(data.get("mimeType")) if isinstance(data, Mapping) else None
    return kind is not None and kind.startswith("audio/")


class LiveTurns:
    """The response of a session that has begun and not ended, or what is known of the one before it."""

    def __init__(self) -> None:
        self.open: list[OpenResponse] = []
        self._last: OpenResponse | None = None  # the response that ended last, if no other has begun since
        self._has_called = False  # that one
        self._interrupted = False  # that one: its `turnComplete` is still to come
        self._speaks = False  # more of its transcript may come, or of that of the open response

    def owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
        """Returns the response that a message belongs to; none if it comes between responses."""
        payload = spelled(payload)
        content = content_of(payload)
        if not self.open:
            self._speaks = self._speaks and not is_of_the_user(payload)
            if not self._begins(payload, content):
                about = self._has_called and (taken_back(payload) or content)
                return [self._last] if self._last is not None and about else []
            self.open = [OpenResponse(None, None, said=True)]
            self._last, self._interrupted, self._speaks = None, False, False
        [found] = self.open
        self._listen(content)
        if payload.get("error") or ends(payload):
            found.ended, self.open = True, []
            self._last, self._has_called = found, asks(payload)
        return [found]

    def _begins(self, payload: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
        """Returns whether a message is the first of a response."""
        if calls_in(payload) or payload.get("error") or content.get("modelTurn"):
            return True
        if content.get("interrupted"):
            self._interrupted = self._last is not None and not content.get("turnComplete")
            return self._last is None
        if content.get("turnComplete"):
            late, self._interrupted = self._interrupted, False
            return not late
        if not content.get("outputTranscription"):
            return False
        late = self._speaks
        self._listen(content)
        return not late

    def _listen(self, content: Mapping[str, Any]) -> None:
        """Notes whether more of a transcript may come."""
        turn, transcript = content.get("modelTurn"), content.get("outputTranscription")
        parts = turn.get("parts") if isinstance(turn, Mapping) else None
        if isinstance(parts, list) and any(map(is_sound, parts)):
            self._speaks = True
        if isinstance(transcript, Mapping):
            self._speaks = not transcript.get("finished")
