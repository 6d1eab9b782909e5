"""Messages of a Live session in, events out: Gemini's parts and calls in another envelope.

Calls are whole, in messages of their own: one that stands in the model's content is told and never run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...events import Event, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from .. import OpenResponse, PlainDelta, list_of, object_of, read_text, rest_of
from ..gemini.decoder import GeminiDecoder, verdict, without_nulls
from ..gemini.facts import CALL
from .facts import FINISHES, FOREIGN_FINISH, KNOWN, MESSAGE, STATUSES, spelled


class LiveDecoder(GeminiDecoder):
    known = KNOWN
    plain: ClassVar[tuple[PlainDelta, ...]] = (
        PlainDelta(
            ("serverContent", "modelTurn", "parts", 0, "text"),
            {
                ("serverContent", "modelTurn"): frozenset({"role"}),
                ("serverContent", "modelTurn", "parts", 0): frozenset({"thought"}),
            },
        ),
        PlainDelta(("serverContent", "outputTranscription", "text"), {}),
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._has_spoken = False
        self._is_over = False  # after its end somebody else spoke: what comes is of another response

    @override
    def _read(self, payload: dict[str, Any]) -> None:
        content = content_of(payload)
        self._content(content)
        if about := self._read_about(content):
            payload = {**payload, "serverContent": rest_of(content, *about)}
        self._calls(payload)
        self.emit_unread(payload, MESSAGE)
        for name in MESSAGE.known & payload.keys():
            if payload[name] is not None and not isinstance(payload[name], Mapping):
                self.emit_unknown({name: payload[name]})
        self.done = self.done or ends(payload)

    @override
    def after_end(self, payload: dict[str, Any]) -> list[Event] | None:
        payload = dict(spelled(payload))
        content = content_of(payload)
        self._is_over = self._is_over or is_of_the_user(payload)
        if calls_in(payload) or content.get("modelTurn") or KNOWN.isdisjoint(payload):
            self._is_over = True
            return None
        self.out = []
        if content.get("outputTranscription") and not self._is_over:
            self._transcript(content["outputTranscription"])
            self.emit_unread(payload, MESSAGE)
        else:
            self.emit_unknown(payload)
        return self.out

    @override
    def _as_wire(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._payload, self._exact = payload, None
        if spelled(payload) is not payload:
            payload = self._exact = dict(spelled(self._exactly(payload)))
        return payload

    def _content(self, content: Mapping[str, Any]) -> None:
        turn = content.get("modelTurn")
        if not self._has_spoken and (turn or content.get("outputTranscription")):
            self._has_spoken, self._finish_raw = True, None  # what was interrupted is the response before
        parts = turn.get("parts") if isinstance(turn, Mapping) else None
        if isinstance(parts, list):
            for number, part in enumerate(parts):
                self._part(part, ("serverContent", "modelTurn", "parts", number))
        elif parts or (turn and not isinstance(turn, Mapping)):
            self.emit_unknown(turn, "serverContent.modelTurn")
        self._transcript(content.get("outputTranscription"))
        if (status := content.get("interactionStatus")) and status not in STATUSES:
            self.emit_unknown({"interactionStatus": status}, "serverContent")
        if content.get("interrupted"):
            self._finish_raw = "interrupted"
        if content.get("turnComplete"):
            reason = content.get("turnCompleteReason")
            self._finish_raw = read_text(reason) or self._finish_raw or "turnComplete"

    def _part(self, part: object, path: tuple[str | int, ...]) -> None:
        if self.done:  # a limit was exceeded
            return
        if not isinstance(part, dict) or is_sound(part):
            self.emit_unknown(part, "serverContent.modelTurn.parts")
        elif "functionCall" in part:
            self.warn("call_in_content")
            self.emit_unknown(part, "serverContent.modelTurn.parts")
        else:
            self._read_part(without_nulls(part), path)

    def _transcript(self, transcript: object) -> None:
        if not isinstance(transcript, Mapping):
            if transcript:
                self.emit_unknown(transcript, "serverContent.outputTranscription")
            return
        text = transcript.get("text")
        if isinstance(text, str):
            if text:
                self.emit_text(text)
        elif text is not None:
            self.emit_unknown(text, "serverContent.outputTranscription.text")

    def _calls(self, payload: dict[str, Any]) -> None:
        void = frozenset(taken_back(payload))
        for number, call in enumerate(calls_in(payload)):
            if self.done:
                return
            path = ("toolCall", "functionCalls", number)
            if not isinstance(call, dict) or (self._call is None and not (call.get("name") or call.get("args"))):
                self.warn("call_without_name")
                if isinstance(call, dict) and call.get("partialArgs"):
                    self.out.append(ToolCallFragment(read_text(call.get("id")), disorder="late"))
                self.emit_unknown(call, "toolCall.functionCalls")
            elif read_text(call.get("id")) in void:
                self._void(call, path)
            else:
                self._function_call({"functionCall": call}, path)
        if asks(payload):
            self._finish_raw = "toolCall"

    def _void(self, call: dict[str, Any], path: tuple[str | int, ...]) -> None:
        """Tells a call that its own message takes back: it never runs."""
        text, _ = self._arguments(call, path)
        id_, name = read_text(call["id"]), read_text(call.get("name"))
        self.emit_unread(call, CALL, *path)
        self.warn("call_taken_back")
        self.end_part()
        self.out.append(ToolCallFragment(self._label(id_), id_, name, text, start=True, end=True, cut=True))

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        self._close_parts()
        reason = self._finish_raw
        if not self.done or reason is None:
            return None, False
        finish = FINISHES.get(reason, FOREIGN_FINISH)
        if finish == "error":
            self._verdict = verdict(reason, None)
        return finish, True


# -- turns of a session --

# The turns of a Live session: which messages begin and end a response, and which belong to none.
#
# Theory of operation. Messages have no id of a response, and a session has one response at a time. Content of the
# model, a call, the end of a turn or an error begins one; nothing else does, whatever it will be called. It ends with
# `turnComplete`, unless the session says that it is still at work, or with a `toolCall`: the client has to answer that
# before the model goes on, and a model that does not wait goes on with another response. What comes about the calls
# after that, the cancellation say, belongs to the response that called.
#
# What is about a response may come when that is over. An interruption between two responses is about the first, and so
# is the `turnComplete` that follows it. A transcript has no order with the model's turn (`LiveServerContent` of
# google-genai 3.4.0), and few servers say that one is `finished` (googleapis/js-genai#1429): so behind a response with
# sound it is the rest of that one's, until the user is heard or the model goes on.

_HEARD = frozenset({"inputTranscription", "interimInputTranscription"})
_ACTIVITY = frozenset({"voiceActivity", "voiceActivityDetectionSignal"})


def content_of(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(payload.get("serverContent"))


def calls_in(payload: Mapping[str, Any]) -> list[Any]:
    return list_of(object_of(payload.get("toolCall")).get("functionCalls"))


def asks(payload: Mapping[str, Any]) -> bool:
    calls = calls_in(payload)
    return bool(calls) and not (isinstance(calls[-1], Mapping) and calls[-1].get("willContinue"))


def ends(payload: Mapping[str, Any]) -> bool:
    """Returns whether a message ends the response: it asks for calls, or says that the turn is complete and not that
    more comes by itself, as ``IN_PROGRESS`` does."""
    content = content_of(payload)
    return asks(payload) or (bool(content.get("turnComplete")) and content.get("interactionStatus") != "IN_PROGRESS")


def taken_back(payload: Mapping[str, Any]) -> Sequence[str]:
    ids = list_of(object_of(spelled(payload).get("toolCallCancellation")).get("ids"))
    return [id_ for id_ in map(read_text, ids) if id_]


def is_of_the_user(payload: Mapping[str, Any]) -> bool:
    return not (_HEARD.isdisjoint(content_of(payload)) and _ACTIVITY.isdisjoint(payload))


def is_sound(part: object) -> bool:
    kind = read_text(object_of(object_of(part).get("inlineData")).get("mimeType"))
    return kind is not None and kind.startswith("audio/")


class LiveTurns:
    def __init__(self) -> None:
        self.open: list[OpenResponse] = []
        self._last: OpenResponse | None = None  # the response that ended last, if no other has begun since
        self._has_called = False  # that one
        self._interrupted = False  # that one: its `turnComplete` is still to come
        self._speaks = False  # more of its transcript may come, or of that of the open response

    def owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
        payload = spelled(payload)
        content = content_of(payload)
        if not self.open:
            self._speaks = self._speaks and not is_of_the_user(payload)
            if not self._begins(payload, content):
                about = self._has_called and (taken_back(payload) or content)
                return [self._last] if self._last is not None and about else []
            self.open = [OpenResponse(None, None, has_content=True)]
            self._last, self._interrupted, self._speaks = None, False, False
        [found] = self.open
        self._listen(content)
        if payload.get("error") or ends(payload):
            found.ended, self.open = True, []
            self._last, self._has_called = found, asks(payload)
        return [found]

    def _begins(self, payload: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
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
        transcript = content.get("outputTranscription")
        if any(map(is_sound, list_of(object_of(content.get("modelTurn")).get("parts")))):
            self._speaks = True
        if isinstance(transcript, Mapping):
            self._speaks = not transcript.get("finished")
