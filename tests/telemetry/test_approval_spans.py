"""What a trace shows of calls that wait for an approval, and of content that somebody redacts."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import decisions_on
from opentelemetry.sdk.trace import ReadableSpan
from profiles import every
from scripted import Spans
from streams import anthropic, stream

from streamtools import ApprovalRequested, Pipeline, ToolError, Trajectory, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.events import StreamWarning
from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay."""
    if to == "nobody":
        raise ToolError("there is no account of nobody") from KeyError("nobody")
    return f"paid {to}"


CALLS = [("a", "pay", '{"to": "x"}'), ("b", "pay", '{"to": "y"}'), ("c", "pay", '{"to": "nobody"}')]


def named(spans: Spans, name: str) -> list[ReadableSpan]:
    return [span for span in spans.all if span.name == name]


async def decided(trace: Spans, **options: Any) -> Pipeline:
    """The first call is approved, the second denied, and nobody says anything about the third."""
    tracing = Tracing(trace.provider, **options)
    async with pipeline(stream(anthropic(calls=CALLS)), tools=[pay], observers=[tracing]) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested) and event.call_id == "a":
                events.approve(event)
            elif isinstance(event, ApprovalRequested) and event.call_id == "b":
                events.deny(event, "no")
    return events


async def test_a_wait_for_an_approval_is_a_span_that_tells_the_verdict() -> None:
    trace = Spans()
    await decided(trace)
    spans = named(trace, "streamtools.approval pay")
    said = {(span.attributes or {})["streamtools.call.id"]: span.attributes or {} for span in spans}
    verdicts = {call_id: given["streamtools.approval.verdict"] for call_id, given in said.items()}
    assert verdicts == {"a": "approved", "b": "denied", "c": "none"}
    (step,) = named(trace, "streamtools.step")
    assert step.context is not None
    for span in spans:
        assert span.parent.span_id == step.context.span_id
        assert span.end_time is not None
        assert step.end_time is not None
        assert span.end_time <= step.end_time
    assert said["a"]["streamtools.call.key"] == "0.0"
    assert not [name for given in said.values() for name in given if name.startswith("gen_ai.")], "no second tool"
    assert (len(named(trace, "execute_tool pay")), len(named(trace, "streamtools.call pay"))) == (1, 2)


async def test_a_resumed_step_has_no_span_of_a_chat() -> None:
    first, second = Spans(), Spans()
    suspended = (await decided(first)).suspended
    assert suspended is not None
    tracing = Tracing(second.provider)
    await resume(
        suspended, tools=[pay], store=MemoryStore(), decisions=decisions_on(suspended, {"c": True}), observers=[tracing]
    )
    (begin,) = named(second, "streamtools.begin.call pay")
    assert (begin.attributes or {})["streamtools.approval.verdict"] == "approved"
    names = [name for name in second.names() if name != begin.name]
    assert names == ["execute_tool pay", "streamtools.approval pay", "streamtools.step"]


@every("redact", [lambda text: 1 / 0, lambda text: None])
async def test_a_redaction_that_fails_shows_nothing_and_breaks_nothing(redact: Any) -> None:
    trace = Spans()
    policy = Privacy(redact=redact, content_in_spans=True)
    run = Trajectory(observers=[Tracing(trace.provider)], privacy=policy)
    async with pipeline(
        stream(anthropic(["a secret"], CALLS)), tools=[pay], trajectory=run, approve=lambda request: True
    ) as events:
        seen = [event async for event in events]
    assert [event.code for event in seen if isinstance(event, StreamWarning)] == ["observer_failed"]
    assert [o.outcome for o in events.turn.observations] == ["ok", "ok", "failed"]
    assert "secret" not in "".join(span.to_json() for span in trace.all)
    assert "paid" not in "".join(span.to_json() for span in trace.all)


async def test_a_call_that_the_store_remembered_says_so_in_its_span_and_its_report() -> None:
    first, second, store = Spans(), Spans(), MemoryStore()
    suspended = (await decided(first)).suspended
    assert suspended is not None
    for trace, verdicts in ((first, {"c": True}), (second, {})):
        decisions = decisions_on(suspended, verdicts)
        options: dict[str, Any] = {"store": store, "decisions": decisions, "observers": [Tracing(trace.provider)]}
        turn = await resume(suspended, tools=[pay], **options)
    (again,) = named(second, "streamtools.call pay")
    assert (again.attributes or {})["streamtools.call.recorded"] is True
    assert "recorded: yes: the call had run before, and did not run again" in turn.observations[0].report()
