"""Spans of real pipelines: the caller's span in the loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from streams import anthropic, hanging

from streamtools import pipeline, tool
from streamtools.events import ToolStarted
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider()
    yield provider
    provider.shutdown()


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
    else:
        async with events:
            async for event in events:
                inside.append(trace.get_current_span())
                if exit_ == "break" and isinstance(event, ToolStarted):
                    break
                if exit_ == "cancel" and isinstance(event, ToolStarted):
                    await events.aclose()
    gc.collect()


@pytest.mark.parametrize("exit_", ["break", "cancel", "timeout"])
async def test_at_23_the_current_span_in_the_loop_is_the_callers_and_stays_it(
    exit_: str, provider: TracerProvider
) -> None:
    inside: list[Any] = []
    with provider.get_tracer("test").start_as_current_span("callers") as callers:
        await leave_by(exit_, [Tracing(provider)], inside)
        assert trace.get_current_span() is callers
    assert len(inside) > 3
    assert all(span is callers for span in inside)
