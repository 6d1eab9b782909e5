"""Spans of calls that exist already: a step and its tools, and no request to a model."""

from __future__ import annotations

import pytest
from scripted import Spans

from streamtools import run_calls, tool
from streamtools.telemetry import Tracing
from streamtools.tools import RunCall, ToolCallRequest

pytestmark = pytest.mark.anyio


@tool(effect="pure")
def add(a: int) -> int:
    """Add."""
    return a


async def test_calls_that_exist_already_are_a_step_and_ask_no_model(spans: Spans) -> None:
    calls = [("a", "add", {"a": 1}), ("b", "add", {"a": "x"})]
    await run_calls(calls, [add], observers=[Tracing(tracer_provider=spans.provider)])
    assert spans.names() == ["execute_tool add", "streamtools.call add", "streamtools.step"]
    outcomes = [(span.attributes or {})["streamtools.call.outcome"] for span in spans.tools()]
    assert sorted(map(str, outcomes)) == ["invalid", "ok"]


async def test_a_call_that_its_middleware_answers_has_a_span_without_attempts(spans: Spans) -> None:
    async def cached(call: ToolCallRequest, run: RunCall) -> int:
        return 7

    tracing = Tracing(tracer_provider=spans.provider)
    await run_calls([("a", "add", {"a": 1})], [add], observers=[tracing], middleware=cached)
    (span,) = spans.tools()
    told = span.attributes or {}
    assert (told["streamtools.call.outcome"], told["streamtools.tool.attempts"]) == ("ok", 0)
    assert (span.name, told["streamtools.call.reason"]) == ("streamtools.call add", "not run: its result was given")
