"""What is current, where, and for how long: the tool's span around the tool's body, and nothing anywhere else."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from profiles import every
from scripted import Script, Spans, span_id

from streamtools.errors import ToolFailed
from streamtools.telemetry import Tracing


@pytest.fixture(autouse=True)
def _context_log_stays_empty(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """OpenTelemetry logs an error where a context is left in another task than it was entered in."""
    caplog.set_level(logging.DEBUG, logger="opentelemetry")
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def running(spans: Spans, tracing: Tracing, *call_ids: str) -> Script:
    """A step in which these tools have started."""
    script = Script.started(tracing)
    for index, call_id in enumerate(call_ids):
        script.call(call_id, call_id, index=index)
    for call_id in call_ids:
        script.run(call_id, call_id)
    return script


def finish(script: Script, *call_ids: str) -> None:
    for call_id in call_ids:
        script.observe(call_id, name=call_id)
    script.end_step()


def query(spans: Spans, name: str) -> None:
    """What a tool's body does: a span of its own, of whatever is current."""
    spans.provider.get_tracer("app").start_span(name).end()


def test_no_event_changes_the_callers_current_span(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    seen: list[trace.Span] = []
    script.after_each = lambda: seen.append(trace.get_current_span())
    with spans.provider.get_tracer("app").start_as_current_span("request") as request:
        script.whole_step(causes=script.whole_step())
    assert len(seen) == len(script.events)
    assert set(seen) == {request}


@pytest.mark.anyio
async def test_spans_of_tools_that_run_side_by_side_become_children_of_their_own_call(spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    script = running(spans, tracing, "alpha", "beta")
    before = trace.get_current_span()
    both_inside = anyio.Event()
    inside = 0

    async def tool(call_id: str) -> None:
        nonlocal inside
        with tracing.around_tool(call_id):
            inside += 1
            if inside == 2:
                both_inside.set()
            await both_inside.wait()
            query(spans, f"query of {call_id}")
        assert trace.get_current_span() is before

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tool, "alpha")
            tasks.start_soon(tool, "beta")
    assert trace.get_current_span() is before
    finish(script, "alpha", "beta")
    for call_id in ("alpha", "beta"):
        assert parent_id(spans.named(f"query of {call_id}")) == span_id(spans.named(f"execute_tool {call_id}"))


@pytest.mark.anyio
@every("entered_in_the_thread", [True, False])
async def test_spans_of_a_tool_in_a_thread_become_children_of_its_call(entered_in_the_thread: bool) -> None:
    spans = Spans()
    tracing = Tracing(spans.provider)
    script = running(spans, tracing, "alpha")

    def body() -> None:
        query(spans, "query")

    def body_in_its_span() -> None:
        with tracing.around_tool("alpha"):
            body()

    if entered_in_the_thread:
        await anyio.to_thread.run_sync(body_in_its_span)
    else:
        with tracing.around_tool("alpha"):
            await anyio.to_thread.run_sync(body)
    finish(script, "alpha")
    assert parent_id(spans.named("query")) == span_id(spans.named("execute_tool alpha"))


@pytest.mark.anyio
async def test_a_cancelled_tool_leaves_nothing_current(spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    script = running(spans, tracing, "alpha")
    before = trace.get_current_span()
    with anyio.CancelScope() as scope, tracing.around_tool("alpha"):
        scope.cancel()
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert trace.get_current_span() is before
    finish(script, "alpha")


def test_the_error_of_a_tool_passes_through_and_is_not_recorded(spans: Spans) -> None:
    """Its text may be secret, so `around_tool` must not do what `start_as_current_span` does."""
    tracing = Tracing(spans.provider)
    script = running(spans, tracing, "alpha")
    before = trace.get_current_span()
    with pytest.raises(KeyError), tracing.around_tool("alpha"):
        raise KeyError("secret")
    assert trace.get_current_span() is before
    script.observe("alpha", "failed", name="alpha", error=ToolFailed("the tool raised"))
    script.end("complete")
    (event,) = spans.named("execute_tool alpha").events
    assert dict(event.attributes or {}) == {"exception.type": "streamtools.errors.ToolFailed"}


def test_a_tools_spans_hang_on_the_step_where_its_own_span_is_left_out(spans: Spans) -> None:
    tracing = Tracing(spans.provider, spans={"execute_tool": False})
    script = running(spans, tracing, "alpha")
    with tracing.around_tool("alpha"):
        query(spans, "query")
    finish(script, "alpha")
    assert parent_id(spans.named("query")) == span_id(spans.named("streamtools.step"))


def test_nothing_is_made_current_for_a_call_outside_of_a_step(spans: Spans) -> None:
    before = trace.get_current_span()
    with Tracing(spans.provider).around_tool("alpha"):
        assert trace.get_current_span() is before
