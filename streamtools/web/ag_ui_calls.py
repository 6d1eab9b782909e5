"""Follows the calls of a run for a client of AG-UI. A call has one id in the whole run, and one result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import events as of
from ..parts import OUTCOMES
from .approval_ids import approval_id
from .encoding import json_bytes, plain
from .shown import is_pending

Sent = dict[str, Any]  # an event of the protocol

_REPLACED = "not run: its arguments were replaced"
_NOT_JSON = object()
_ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}, "editedArgs": {"type": "object"}},
    "required": ["approved"],
}


@dataclass(slots=True)
class RunPlace:
    """The place in a run, and the messages that its current step has made."""

    run_id: str = ""
    step: int = 0
    mark: str = ""  # names a message: made of the last event that is no delta, since deltas may be joined
    parent: str | None = None  # the message that the next call belongs to
    messages: list[tuple[int, str]] = field(default_factory=list)  # each with the `seq` of its begin
    seq: int = -1

    def move(self, event: of.Event) -> None:
        self.step, self.seq = event.step, event.seq
        self.mark = f"{self.run_id}:{event.step}:{event.seq}"

    def made(self, id: str) -> str:
        self.messages.append((self.seq, id))
        return id


@dataclass(slots=True)
class _Call:
    name: str
    kind: str
    parent: str
    shown: list[str] | None = field(default_factory=list)  # its arguments so far; None if they are whole


class CallsShown:
    """The calls of one run; `answered` are the ids of those whose results the client has."""

    def __init__(self, place: RunPlace, answered: Collection[str]) -> None:
        self._place = place
        self._answered = frozenset(answered)
        self._ids: dict[tuple[int, str], str] = {}
        self._begun: dict[tuple[int, str], int] = {}  # their numbers
        self._taken: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._edited: set[str] = set()  # they were approved with other arguments than the client knows
        self.asked: dict[str, Sent] = {}  # interrupts by call

    def opened(self) -> Iterator[Sent]:
        for id, call in self._calls.items():
            if call.shown is not None:
                yield _call_start(id, call.name, call.parent)

    def pending(self) -> list[str]:
        """Returns the ids of the calls without a result that nobody is asked about."""
        return [id for id in self._calls if id not in self.asked]

    def _id(self, event: Any) -> str:
        key = (event.step, event.call_id)
        known = self._ids.get(key)
        return self._new_id(key) if known is None else known

    def _new_id(self, key: tuple[int, str]) -> str:
        step, call_id = key
        id, number = call_id, 1
        while id in self._taken:
            id = f"{call_id}@{step}" + (f".{number}" if number > 1 else "")
            number += 1
        self._taken.add(id)
        self._ids[key], self._begun[key] = id, self._place.seq
        return id

    # -- arguments --

    def begun(self, event: of.ToolCallStart) -> Iterator[Sent]:
        yield self._announce(self._id(event), event.name, event.kind)

    def _announce(self, id: str, name: str, kind: str) -> Sent:
        place = self._place
        place.parent = place.parent or place.made(place.mark)
        self._calls[id] = _Call(name, kind, place.parent)
        return _call_start(id, name, place.parent)

    def grown(self, event: of.ToolCallDelta) -> Iterator[Sent]:
        id = self._id(event)
        call = self._calls.get(id)
        if event.delta and call is not None and call.shown is not None:
            call.shown.append(event.delta)
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": event.delta}

    def ended(self, event: of.ToolCallEnd) -> Iterator[Sent]:
        id = self._id(event)
        call = self._calls.get(id)
        if call is None or call.shown is None:
            return
        shown = "".join(call.shown)
        whole = event.call.arguments_text or ("{}" if event.call.arguments == {} else "")
        if not whole.startswith(shown):  # a client can neither change nor forget a call
            yield from self._close(id)
            yield from self._void(id, _REPLACED, "replaced")
            id, shown = self._new_id((event.step, event.call_id)), ""
            yield self._announce(id, call.name, call.kind)
        if rest := whole[len(shown) :]:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": rest}
        yield from self._close(id)

    def close(self) -> Iterator[Sent]:
        for id in [id for id, call in self._calls.items() if call.shown is not None]:
            yield from self._close(id)

    def _close(self, id: str) -> Iterator[Sent]:
        call = self._calls[id]
        call.shown = None
        yield {"type": "TOOL_CALL_END", "toolCallId": id}
        if call.kind == "server":  # a client takes a call without a result for one that waits for it
            yield from self._void(id, "run by the provider", None)

    def _void(self, id: str, words: str, outcome: str | None) -> Iterator[Sent]:
        if self._calls.pop(id, None) is not None:
            yield _result(self._place.made(f"{self._place.mark}:{id}"), id, words, outcome)

    def started(self, event: of.ToolStarted) -> Iterable[Sent]:
        """Notes that a call runs here: it is not for the client, whatever it waits for."""
        self._edited.discard(self._id(event))
        return ()

    # -- results --

    def progressed(self, event: of.ToolProgress) -> Iterator[Sent]:
        id = self._id(event)
        shown = {"toolCallId": id, "toolName": event.tool_name, "value": plain(event.value)}
        yield activity(f"{self._place.run_id}:{event.step}:{id}:progress", "tool_progress", shown)

    def observed(self, event: of.Observation) -> Iterator[Sent]:
        if is_pending(event):
            return
        id = self._id(event)
        if (call := self._calls.get(id)) is not None and call.shown is not None:
            yield from self._close(id)
        self._calls.pop(id, None)
        asked = self.asked.pop(id, None)
        if asked is not None and event.edited is not None:  # the process died that took the decision
            shown = {"id": asked["id"], "approved": True, "editedArgs": plain(event.edited)}
            yield custom("interrupt_resolved", shown)
        if id not in self._answered:
            outcome = None if event.outcome == "ok" else event.outcome
            yield _result(self._place.made(self._place.mark), id, _content(event), outcome)

    def discarded(self, from_seq: int) -> Iterator[Sent]:
        for key in [key for key in self._ids if self._begun[key] >= from_seq]:  # also of a later step
            id = self._ids.pop(key)
            self.asked.pop(id, None)
            yield from self._void(id, OUTCOMES["discarded"].words, "discarded")

    # -- people --

    def approval_asked(self, event: of.ApprovalRequested) -> Iterator[Sent]:
        shown: Sent = {"arguments": plain(event.arguments, {}), "approvals": event.approvals}
        if event.findings:
            shown["findings"] = [str(one) for one in event.findings]
        message = f"{event.tool_name} needs an approval"
        yield from self._ask(event, reason="tool_call", message=message, responseSchema=_ANSWER_SCHEMA, metadata=shown)

    def answer_asked(self, event: of.AnswerRequested) -> Iterable[Sent]:
        """Asks a question of a call. One that is handed out stays open; if it was edited, under another id: the client
        runs a call with the arguments that it knows."""
        if event.question is None:
            id = self._id(event)
            self.asked.pop(id, None)
            return self._again(event, id) if id in self._edited else ()
        asked = plain(event.question)
        named = {"message": asked} if isinstance(asked, str) else {}
        return self._ask(event, reason="input_required", **named, metadata={"question": asked})

    def _again(self, event: of.AnswerRequested, id: str) -> Iterator[Sent]:
        self._edited.discard(id)
        self._calls.setdefault(id, _Call(event.tool_name, "function", ""))
        yield from self._void(id, _REPLACED, "replaced")
        self._place.parent, id = None, self._new_id((event.step, event.call_id))
        yield self._announce(id, event.tool_name, "function")
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": json_bytes(plain(event.arguments, {})).decode()}
        yield from self._close(id)

    def _ask(self, event: Any, **shown: Any) -> Iterator[Sent]:
        id = self._id(event)
        interrupt_id = approval_id(self._place.run_id, event.step, event.call_id, event.fingerprint)
        known = self.asked.get(id)
        self.asked[id] = {"id": interrupt_id, "toolCallId": id, **shown}
        if known is None or known["id"] != interrupt_id:
            yield custom("interrupt_requested", self.asked[id])

    def resolved(self, event: of.ApprovalResolved) -> Iterator[Sent]:
        id = self._id(event)
        edited = {} if event.arguments is None else {"editedArgs": plain(event.arguments)}
        if edited:
            self._edited.add(id)
        if (asked := self.asked.pop(id, None)) is not None:
            yield custom("interrupt_resolved", {"id": asked["id"], "approved": event.approved, **edited})


# -- single events --


def activity(message_id: str, kind: str, content: Sent) -> Sent:
    """Returns an activity, in place of any message of this id."""
    return {"type": "ACTIVITY_SNAPSHOT", "messageId": message_id, "activityType": kind, "content": content}


def custom(name: str, value: Sent) -> Sent:
    return {"type": "CUSTOM", "name": name, "value": value}


def _call_start(id: str, name: str, parent: str) -> Sent:
    return {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": parent}


def _result(message_id: str, id: str, content: str, outcome: str | None) -> Sent:
    sent = {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": id, "content": content, "role": "tool"}
    return sent if outcome is None else {**sent, "metadata": {"outcome": outcome}}


def _content(event: of.Observation) -> str:
    """Returns a result as text: the value where JSON has it, else the text that the model reads."""
    if event.outcome != "ok" or event.value is None:
        return event.model_content or OUTCOMES[event.outcome].words
    value = plain(event.value, _NOT_JSON)
    if value is _NOT_JSON:
        return event.model_content
    return value if isinstance(value, str) else json_bytes(value).decode()
