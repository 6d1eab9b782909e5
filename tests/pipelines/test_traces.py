"""Spans of real pipelines: the laws AT-22 to AT-24, and the tree of a run with two steps."""

from __future__ import annotations

import gc
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from streams import anthropic, chat, hanging, stream

from streamtools import Limits, Trajectory, pipeline, tool
from streamtools.events import ToolStarted
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


class Spans(SpanProcessor):
    """Every span that was started, and every one that ended."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name == name]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def tracer(spans: Spans) -> Iterator[trace.Tracer]:
    provider = TracerProvider()
    provider.add_span_processor(spans)
    yield provider.get_tracer("test")
    provider.shutdown()


@pytest.fixture
def observers(spans: Spans) -> list[Tracing]:
    provider = TracerProvider()
    provider.add_span_processor(spans)
    return [Tracing(provider)]


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    await anyio.lowlevel.checkpoint()
    return 2 * n


@tool(effect="pure")
async def wait() -> str:
    """Wait to be cancelled."""
    await anyio.sleep_forever()
    return "never"


CALLS = [("a", "double", '{"n": 1}'), ("b", "wait", "{}")]


async def leave_by(exit_: str, observers: list[Tracing], inside: list[Any]) -> None:
    events = pipeline(hanging(anthropic(["Hi"], CALLS, stop=None)), tools=[double, wait], observers=observers)
    if exit_ == "timeout":
        with anyio.CancelScope() as scope:
            async with events:
                async for event in events:
                    inside.append(trace.get_current_span())
                    if isinstance(event, ToolStarted):
                        scope.deadline = anyio.current_time()
    elif exit_ == "never entered":
        del events
    else:
        async with events:
            async for event in events:
                inside.append(trace.get_current_span())
                if exit_ == "break" and isinstance(event, ToolStarted):
                    break
                if exit_ == "cancel" and isinstance(event, ToolStarted):
                    await events.aclose()
    gc.collect()


@pytest.mark.parametrize("exit_", ["break", "cancel", "timeout", "never entered"])
async def test_at_22_no_exit_leaves_a_word_in_the_log_of_the_context(
    exit_: str, observers: list[Tracing], caplog: pytest.LogCaptureFixture
) -> None:
    await leave_by(exit_, observers, [])
    assert caplog.records == []


@pytest.mark.parametrize("exit_", ["break", "cancel", "timeout"])
async def test_at_23_the_current_span_in_the_loop_is_the_callers_and_stays_it(
    exit_: str, observers: list[Tracing], tracer: trace.Tracer
) -> None:
    inside: list[Any] = []
    with tracer.start_as_current_span("callers") as callers:
        await leave_by(exit_, observers, inside)
        assert trace.get_current_span() is callers
    assert len(inside) > 3
    assert all(span is callers for span in inside)


async def cancelled_at(n: int, observers: list[Tracing]) -> None:
    left = n
    with anyio.CancelScope() as scope:

        async def checkpoint() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                scope.cancel()
            await anyio.lowlevel.checkpoint()

        async def source() -> AsyncIterator[bytes]:
            for item in anthropic(["Hi"], [("a", "double", '{"n": 1}'), ("b", "nope", "{}"), ("c", "double", "[")]):
                await checkpoint()
                yield item

        async with pipeline(source(), tools=[double], observers=observers, limits=Limits(event_buffer=2)) as events:
            async for _ in events:
                await checkpoint()


@pytest.mark.thorough
async def test_at_24_every_span_that_started_has_ended_wherever_the_consumer_is_cancelled() -> None:
    dice = random.Random(20261120)
    counts = set()
    for _ in range(1000):
        spans = Spans()
        provider = TracerProvider()
        provider.add_span_processor(spans)
        await cancelled_at(dice.randint(1, 60), [Tracing(provider, spans={"wait": False, "begin": False})])
        assert [span.context for span in spans.started] != []
        ended = [span.context.span_id for span in spans.ended if span.context]
        assert sorted(ended) == sorted(span.context.span_id for span in spans.started)
        assert len(set(ended)) == len(ended)
        counts.add(len(ended))
    assert min(counts) == 2  # step and chat
    assert max(counts) == 5  # and three calls


async def test_a_run_of_two_steps_is_one_tree_whose_second_chat_observes_the_tools_of_the_first(
    spans: Spans, observers: list[Tracing], tracer: trace.Tracer
) -> None:
    run = Trajectory(observers=observers)
    with tracer.start_as_current_span("callers") as callers:
        for body in (
            chat(["Let me see"], [("a", "double", '{"n": 1}'), ("b", "nope", "{}")]),
            chat(["2"], finish="stop"),
        ):
            async with pipeline(stream(body), tools=[double], trajectory=run) as events:
                _ = [event async for event in events]
    root = callers.get_span_context()
    steps, chats = spans.named("streamtools.step"), spans.named("chat m")
    tools = spans.named("execute_tool double") + spans.named("streamtools.call nope")
    assert [span.parent and span.parent.span_id for span in steps] == [root.span_id] * 2
    assert [span.parent and span.parent.span_id for span in chats] == [s.context.span_id for s in steps]
    assert {span.parent and span.parent.span_id for span in tools} == {steps[0].context.span_id}
    assert {link.context.span_id for link in chats[1].links} == {span.context.span_id for span in tools}
    assert all(link.context.span_id == chats[0].context.span_id for span in tools for link in span.links)
    assert {span.context.trace_id for span in spans.ended} == {root.trace_id}


async def test_spans_made_inside_a_tool_are_children_of_its_span(
    spans: Spans, observers: list[Tracing], tracer: trace.Tracer
) -> None:
    @tool(effect="pure")
    async def work() -> str:
        """Work."""
        with tracer.start_as_current_span("inner async"):
            return "done"

    @tool(effect="pure")
    def work_in_a_thread() -> str:
        """Work."""
        with tracer.start_as_current_span("inner sync"):
            return "done"

    body = chat(calls=[("a", "work", "{}"), ("b", "work_in_a_thread", "{}")])
    async with pipeline(stream(body), tools=[work, work_in_a_thread], observers=observers) as events:
        _ = [event async for event in events]
    for outer, inner in (("work", "inner async"), ("work_in_a_thread", "inner sync")):
        (parent,), (child,) = spans.named(f"execute_tool {outer}"), spans.named(inner)
        assert child.parent is not None
        assert child.parent.span_id == parent.context.span_id


async def test_no_argument_result_or_text_is_in_any_span_by_default(spans: Spans, observers: list[Tracing]) -> None:
    @tool(effect="pure")
    async def keep(secret: str) -> str:
        """Keep."""
        if secret == "sesame1":
            raise ValueError(secret)
        return secret

    calls = [
        ("a", "keep", '{"secret": "sesame1"}'),
        ("b", "keep", '{"secret": "sesame2"}'),
        ("c", "keep", '{"x": "sesame3"}'),
    ]
    async with pipeline(stream(chat(["sesame4"], calls)), tools=[keep], observers=observers) as events:
        _ = [event async for event in events]
    assert [observation.outcome for observation in events.turn.observations] == ["failed", "ok", "invalid"]
    told = "".join(span.to_json() for span in spans.ended)
    assert "sesame" not in told
    assert "execute_tool keep" in told
