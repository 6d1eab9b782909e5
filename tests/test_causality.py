"""Who caused what: each event's place in its step, by identity."""

from __future__ import annotations

from typing import Any

from profiles import every

from streamtools import Observation, StreamEnd, ToolCall, ToolCallValidated
from streamtools.events import (
    CausedEvent,
    ReasoningEnd,
    ReasoningStart,
    StepEnd,
    StepStart,
    StreamStart,
    StreamWarning,
    TextEnd,
    TextStart,
    ToolCallEnd,
    ToolCallStart,
    ToolProgress,
    ToolStarted,
    UnknownPayload,
)
from streamtools.pipelines.step import Causality


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id=call_id, name="f")


def observation(call_id: str) -> Observation:
    return Observation(call_id=call_id, tool_name="f", outcome="ok")


# An event, and the numbers of those that led to it; an event's number is its place in the list.
STEP: list[tuple[CausedEvent, tuple[int, ...]]] = [
    (StepStart("run"), (70, 71)),
    (StreamWarning("early"), (0,)),
    (StreamStart("openai.chat_completions"), (0,)),
    (ReasoningStart(), (2,)),
    (ReasoningEnd(), (3,)),
    (TextStart(), (2,)),
    (ToolCallStart("a", "f"), (2, 5)),
    (TextEnd(), (5,)),
    (ToolCallStart("b", "f"), (2, 5)),
    (ToolCallEnd(call("a")), (6,)),
    (ToolCallValidated(call("a")), (9,)),
    (ToolStarted("a", "f"), (10,)),
    (ToolCallEnd(call("b")), (8,)),
    (ToolProgress("a", "f", 1), (11,)),
    (UnknownPayload({}), (2,)),
    (observation("b"), (12,)),
    (StreamEnd(), (2,)),
    (ToolProgress("a", "f", 2), (13,)),
    (observation("a"), (17,)),
    (StepEnd(), (16, 15, 18)),
]


def test_every_event_names_what_led_to_it() -> None:
    causality = Causality(before=(70, 71))
    for number, (event, causes) in enumerate(STEP):
        causality.stamp(event, number, 3, float(number))
        assert (event.seq, event.step, event.time) == (number, 3, float(number))
        assert event.causes == causes, event
    assert causality.observations == [15, 18]


def test_causes_that_an_event_already_has_come_first_and_none_comes_twice() -> None:
    causality = Causality()
    causality.stamp(StepStart("run"), 0, 0, 0.0)
    causality.stamp(ToolCallStart("a", "f"), 1, 0, 0.0)
    started = ToolStarted("a", "f", causes=(7, 1, 7))
    causality.stamp(started, 2, 0, 0.0)
    assert started.causes == (7, 1)


@every("event", [StreamEnd(), TextEnd(), StepEnd(), observation("x"), StreamWarning("w")])
def test_an_event_that_comes_too_early_is_caused_by_what_there_is(event: Any) -> None:
    causality = Causality()
    causality.stamp(StepStart("run"), 4, 0, 0.0)
    causality.stamp(event, 5, 0, 0.0)
    assert event.causes == (4,)
    assert event.seq == 5
