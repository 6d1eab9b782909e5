"""Facts that are exported before anything can go wrong: a process that is killed leaves a name and a culprit."""

from __future__ import annotations

import pytest
from scripted import Spans
from streams import anthropic, stream

from streamtools import Trajectory, agent_loop, pipeline, tool
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio


@tool(effect="once")
async def book(n: int) -> str:
    """Book."""
    return "booked"


@tool(effect="pure")
async def look() -> int:
    """Look."""
    return 1


@tool(effect="pure", needs_approval=True)
async def read_mail() -> str:
    """Read."""
    return "mail"


async def test_calls_that_may_run_again_are_not_written_ahead_unless_somebody_approved_them(spans: Spans) -> None:
    body = anthropic([], [("c1", "look", "{}"), ("c2", "read_mail", "{}"), ("c3", "book", '{"n": 1}')])
    for wanted in (True, False):
        run = Trajectory(name="till", observers=[Tracing(spans.provider, spans={"begin": wanted})])
        async with (
            run,
            pipeline(stream(body), tools=[look, read_mail, book], approve=lambda _: True, trajectory=run) as events,
        ):
            _ = [seen async for seen in events]
        names = sorted(name for name in spans.names() if name.startswith("streamtools.begin"))
        both = ["streamtools.begin.call book", "streamtools.begin.call read_mail"]
        assert names == ([*both, "streamtools.begin.run till"] if wanted else [])
        runs, points = spans.named("invoke_agent till"), [span for span in spans.all if "begin" in span.name]
        assert {point.parent.span_id for point in points if point.parent and ".run" in point.name} <= {
            runs.context.span_id if runs.context else 0
        }
        assert all(point.start_time == point.end_time for point in points)
        said = {str((point.attributes or {}).get("streamtools.approval.verdict")) for point in points}
        assert said == ({"None", "approved"} if wanted else set())
        spans.exporter.clear()


async def test_a_begin_is_not_taken_for_an_operation_of_the_conventions(spans: Spans) -> None:
    """Jaeger's UI counts a span with any of their attributes but for the call's id."""
    body = anthropic([], [("c1", "book", '{"n": 1}')])
    bodies = iter([body, anthropic(["Done."], stop="end_turn")])
    run = Trajectory(name="till", observers=[Tracing(spans.provider)])
    await agent_loop(lambda *_: next(bodies), [], tools=[book], wire="anthropic.messages", trajectory=run)
    named = {
        key
        for span in spans.all
        if span.name.startswith("streamtools.begin")
        for key in span.attributes or {}
        if key.startswith("gen_ai.")
    }
    assert named == {"gen_ai.tool.call.id"}
