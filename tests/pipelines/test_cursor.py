"""The record of a run's boundaries, and how a call is found again in events and spans."""

from __future__ import annotations

from typing import Any

import pytest
from kept_spans import kept_spans
from streams import chat, double, stream

from streamtools import Observation, Trajectory, pipeline
from streamtools.events import StepEnd, StepStart
from streamtools.observers import Cursor
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio


GOOD, BAD = ("good", "double", '{"n": 2}'), ("bad", "double", '{"n": "two"}')


async def ran(run: Trajectory, *steps: list[tuple[str, str, str]]) -> list[Any]:
    events = []
    for calls in steps:
        async with pipeline(stream(chat(calls=calls)), tools=[double], trajectory=run) as block:
            events += [event async for event in block]
    return events


async def test_a_call_is_a_point_between_what_came_before_and_after_it() -> None:
    cursor = Cursor()
    await ran(Trajectory(observers=[cursor]), [GOOD, BAD], [("more", "double", '{"n": 3}')])
    point = cursor.at("bad")
    assert (point.step, point.outcome) == (0, "invalid")
    assert point.observation.validation_error is not None
    assert [type(event).__name__ for event in point.events] == ["ToolCallStart", "ToolCallEnd", "Observation"]
    assert isinstance(point.before[0], StepStart)
    assert isinstance(point.after[-1], StepEnd)
    assert all(event.seq < point.seq for event in point.before)
    assert cursor.calls() == ((0, "good"), (0, "bad"), (1, "more"))


async def test_a_call_has_the_same_ids_in_event_and_span() -> None:
    provider, exporter = kept_spans()
    run = Trajectory(observers=[Tracing(provider)])
    events = await ran(run, [GOOD, BAD])
    observations = {event.call_id: event for event in events if isinstance(event, Observation)}
    spans = {
        attributes["gen_ai.tool.call.id"]: attributes
        for span in exporter.get_finished_spans()
        if (attributes := span.attributes or {}) and span.name.startswith(("execute_tool", "streamtools.call"))
    }
    assert set(spans) == set(observations) == {"good", "bad"}
    for call_id, attributes in spans.items():
        assert attributes["streamtools.seq.last"] == observations[call_id].seq
        assert attributes["streamtools.run.id"] == run.run_id
    provider.shutdown()
