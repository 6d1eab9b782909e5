"""The record of a run's boundaries, and how a call is found again in events, logs and spans."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from streams import chat, stream

from streamtools import Observation, Trajectory, pipeline, tool
from streamtools.events import StepEnd, StepStart, ToolCallEnd
from streamtools.observers import Cursor
from streamtools.telemetry import Tracing
from streamtools.telemetry.log import FIELDS

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


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
    assert point.observation is not None
    assert point.observation.validation_error is not None
    assert [type(event).__name__ for event in point.events] == ["ToolCallStart", "ToolCallEnd", "Observation"]
    assert isinstance(point.before[0], StepStart)
    assert isinstance(point.after[-1], StepEnd)
    assert all(event.seq < point.seq for event in point.before)
    assert cursor.calls() == ((0, "good"), (0, "bad"), (1, "more"))


async def test_reading_goes_on_from_any_place() -> None:
    cursor = Cursor()
    events = await ran(Trajectory(observers=[cursor]), [GOOD], [("more", "double", '{"n": 3}')])
    ended = next(event for event in events if isinstance(event, ToolCallEnd) and event.call_id == "more")
    rest = cursor.since(ended.seq)
    assert rest[0] is ended
    assert cursor.position == rest[-1].seq == events[-1].seq
    assert [*cursor][: -len(rest)] + list(rest) == [*cursor]


async def test_an_id_that_two_steps_use_means_the_latest_unless_the_step_is_named() -> None:
    cursor = Cursor()
    await ran(Trajectory(observers=[cursor]), [GOOD], [GOOD])
    assert cursor.at("good").step == 1
    assert cursor.at("good", step=0).step == 0
    with pytest.raises(KeyError, match="no call 'good' is kept of step 7"):
        cursor.at("good", step=7)
    with pytest.raises(KeyError, match="no call 'other' is kept"):
        cursor.at("other")


async def test_a_call_that_goes_on_has_no_outcome_yet() -> None:
    cursor = Cursor()
    async with pipeline(
        stream(chat(calls=[GOOD])), tools=[double], trajectory=Trajectory(observers=[cursor])
    ) as events:
        async for event in events:
            if isinstance(event, ToolCallEnd):
                cut = Cursor()
                for seen in cursor.since(0):
                    cut.on_event(seen) if seen.seq <= event.seq else None
                assert (cut.at("good").outcome, cut.at("good").observation) == (None, None)


async def test_what_is_kept_is_bounded_and_says_what_it_forgot() -> None:
    cursor = Cursor(max_events=3)
    await ran(Trajectory(observers=[cursor]), [GOOD])
    assert len(cursor) == 3
    assert cursor.forgotten > 0
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="max_events"):
            Cursor(max_events=wrong)  # type: ignore[arg-type]


async def test_the_record_is_plain_json_without_arguments_and_values() -> None:
    cursor = Cursor()
    await ran(Trajectory(observers=[cursor], run_id="run-1"), [("secretive", "double", '{"n": 123454321}'), BAD])
    record = cursor.to_json()
    text = json.dumps(record)
    assert (record["run_id"], record["step"], record["position"]) == ("run-1", 0, cursor.position)
    assert "123454321" not in text
    assert "246908642" not in text
    outcomes = {b["call_id"]: b["outcome"] for b in record["boundaries"] if b["event"] == "Observation"}
    assert outcomes == {"secretive": "ok", "bad": "invalid"}
    ended = [b for b in record["boundaries"] if b["event"] == "ToolCallEnd"]
    assert [b["status"] for b in ended] == ["ready", "invalid"]


async def test_an_empty_cursor_is_nowhere() -> None:
    cursor = Cursor()
    assert (cursor.position, cursor.run_id, cursor.around_tool("c1"), [*cursor]) == (None, None, None, [])


async def test_a_call_has_the_same_ids_in_event_log_record_and_span(caplog: pytest.LogCaptureFixture) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    logger = logging.getLogger("test.tools")
    caplog.set_level(logging.INFO, logger="test.tools")
    run = Trajectory(observers=[Tracing(provider, logger=logger)])
    events = await ran(run, [GOOD, BAD])
    observations = {event.call_id: event for event in events if isinstance(event, Observation)}
    spans = {
        (span.attributes or {})["gen_ai.tool.call.id"]: span
        for span in exporter.get_finished_spans()
        if span.name.startswith(("execute_tool", "streamtools.call"))
    }
    records = {vars(record)["call_id"]: vars(record) for record in caplog.records}
    assert set(records) == set(spans) == set(observations) == {"good", "bad"}
    for call_id, record in records.items():
        context = spans[call_id].get_span_context()
        assert context is not None
        assert (record["trace_id"], record["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
        assert record["seq"] == observations[call_id].seq == (spans[call_id].attributes or {})["streamtools.seq.last"]
        assert record["run_id"] == run.run_id
        assert set(FIELDS) <= set(record)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.records[0].getMessage() == "tool call 'bad' of 'double': invalid"
    provider.shutdown()


async def test_a_logger_that_wants_no_such_record_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.silent")
    logger.setLevel(logging.ERROR)
    provider = TracerProvider()
    await ran(Trajectory(observers=[Tracing(provider, logger=logger)]), [GOOD, BAD])
    assert caplog.records == []
    provider.shutdown()
