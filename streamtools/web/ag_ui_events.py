"""Writes single events of AG-UI 1.0, from what a run's events say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..events import AnswerRequested, ApprovalRequested, Event, Observation
from ..parts import OUTCOMES, Usage
from .encoding import json_bytes, plain

Sent = dict[str, Any]  # an event of the protocol

CONTENTS: Mapping[str, str] = {
    "text": "TEXT_MESSAGE_CONTENT",
    "refusal": "TEXT_MESSAGE_CONTENT",
    "reasoning": "REASONING_MESSAGE_CONTENT",
}
ENDS: Mapping[str, tuple[str, ...]] = {
    "text": ("TEXT_MESSAGE_END",),
    "refusal": ("TEXT_MESSAGE_END",),
    "reasoning": ("REASONING_MESSAGE_END", "REASONING_END"),
}
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

    def move(self, event: Event) -> None:
        self.step, self.seq = event.step, event.seq
        self.mark = f"{self.run_id}:{event.step}:{event.seq}"

    def made(self, id: str) -> str:
        self.messages.append((self.seq, id))
        return id


def opening(kind: str, id: str) -> Iterator[Sent]:
    if kind == "reasoning":
        yield {"type": "REASONING_START", "messageId": id}
        yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
    else:
        yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}


def call_start(id: str, name: str, parent: str) -> Sent:
    return {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, "parentMessageId": parent}


def result(message_id: str, id: str, content: str, outcome: str | None) -> Sent:
    sent = {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": id, "content": content, "role": "tool"}
    return sent if outcome is None else {**sent, "metadata": {"outcome": outcome}}


def content(event: Observation) -> str:
    """Returns a result as text: the value where JSON has it, else the text that the model reads."""
    if event.outcome != "ok" or event.value is None:
        return event.model_content or OUTCOMES[event.outcome].words
    value = plain(event.value, _NOT_JSON)
    if value is _NOT_JSON:
        return event.model_content
    return value if isinstance(value, str) else json_bytes(value).decode()


def activity(message_id: str, kind: str, content: Sent) -> Sent:
    """Returns an activity, in place of any message of this id."""
    return {"type": "ACTIVITY_SNAPSHOT", "messageId": message_id, "activityType": kind, "content": content}


def custom(name: str, value: Sent) -> Sent:
    return {"type": "CUSTOM", "name": name, "value": value}


def approval(event: ApprovalRequested) -> Sent:
    shown: Sent = {"arguments": plain(event.arguments, {}), "approvals": event.approvals}
    if event.findings:
        shown["findings"] = [str(one) for one in event.findings]
    message = f"{event.tool_name} needs an approval"
    return {"reason": "tool_call", "message": message, "responseSchema": _ANSWER_SCHEMA, "metadata": shown}


def question(event: AnswerRequested) -> Sent:
    asked = plain(event.question)
    named = {"message": asked} if isinstance(asked, str) else {}
    return {"reason": "input_required", **named, "metadata": {"question": asked}}


def counted(provider: str, model: str, usage: Usage) -> Sent:
    read = None if usage.input_tokens is None else usage.input_tokens + (usage.tool_use_input_tokens or 0)
    counts = {
        "provider": provider or None,
        "model": model or None,
        "inputTokens": read,
        "outputTokens": usage.output_tokens,
        "totalTokens": None if read is None or usage.output_tokens is None else read + usage.output_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
