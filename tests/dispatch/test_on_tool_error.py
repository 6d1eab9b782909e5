"""What happens to the other calls of a turn when one fails."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, hanging, stream

from streamtools import ApprovalRequested, Limits, Observation, Pipeline, pipeline, tool
from streamtools.events import ToolStarted

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def fail() -> str:
    """Fail."""
    raise KeyError("no such thing")


@tool(effect="pure", timeout=0.01)
async def hang() -> str:
    """Take too long."""
    await anyio.sleep_forever()
    return "never"


@tool(effect="pure")
async def wait() -> str:
    """Wait."""
    await anyio.sleep_forever()
    return "never"


@tool
async def spend() -> str:
    """Spend."""
    return "spent"


@tool(effect="pure", needs_approval=True)
async def ask() -> str:
    """Ask."""
    return "asked"


TOOLS = [fail, hang, wait, spend, ask]


def block(names: list[str], **options: Any) -> Pipeline:
    calls = [(f"{name}-{n}", name, "{}") for n, name in enumerate(names)]
    return pipeline(stream(anthropic(calls=calls)), tools=TOOLS, **options)


def outcomes(events: Pipeline) -> list[str]:
    return [o.outcome for o in sorted(events.turn.observations, key=lambda o: o.index)]


async def test_the_siblings_of_a_call_that_fails_go_on() -> None:
    async with block(["fail", "spend", "hang", "spend"]) as events:
        _ = [event async for event in events]
    assert outcomes(events) == ["failed", "ok", "timed_out", "ok"]


@pytest.mark.parametrize("failing", ["fail", "hang"])
async def test_a_failure_cancels_the_siblings_if_that_is_wanted(failing: str) -> None:
    with anyio.fail_after(30):
        names = ["wait", "ask", failing, "spend"]
        async with block(names, on_tool_error="cancel") as events:
            seen = [event async for event in events]
            assert not events.resting
    first, asked, _, held = sorted(events.turn.observations, key=lambda o: o.index)
    assert (first.outcome, asked.outcome) == ("cancelled", "skipped")
    assert "another call of its turn failed" in asked.model_content
    if failing == "fail":  # before the turn's end, for which the last call waits
        assert not any(isinstance(event, ToolStarted) and event.tool_name == "spend" for event in seen)
        assert held.outcome == "skipped"
        assert "another call of its turn failed" in held.model_content
    assert events.suspended is None
    assert events.turn.complete


async def test_calls_that_wait_for_a_place_are_cancelled_as_well_and_say_why() -> None:
    with anyio.fail_after(30):
        async with block(["fail", "wait", "wait"], on_tool_error="cancel", limits=Limits(max_concurrency=1)) as events:
            _ = [event async for event in events]
    assert outcomes(events)[0] == "failed"
    assert set(outcomes(events)[1:]) <= {"cancelled", "skipped"}
    assert all("another call of its turn failed" in o.model_content for o in events.turn.observations[1:])


async def test_the_stream_is_read_on_and_what_comes_later_does_not_start() -> None:
    body = anthropic(["Hi"], [("a", "fail", "{}"), ("b", "spend", "{}"), ("c", "wait", "{}")])
    failed = anyio.Event()

    async def source() -> Any:
        for number, item in enumerate(body):
            if number == 10:  # behind the first call's end
                await failed.wait()
            yield item

    with anyio.fail_after(30):
        async with pipeline(source(), tools=TOOLS, on_tool_error="cancel") as events:
            async for event in events:
                if isinstance(event, Observation) and event.call_id == "a":
                    failed.set()
    assert outcomes(events) == ["failed", "skipped", "skipped"]
    assert events.turn.text == "Hi"


async def test_a_call_that_never_ran_cancels_nobody() -> None:
    calls = [("a", "nobody", "{}"), ("b", "fail", '{"n": 1}'), ("c", "spend", "{}"), ("d", "ask", "{}")]
    async with pipeline(stream(anthropic(calls=calls)), tools=TOOLS, on_tool_error="cancel") as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                events.deny(event)
    assert outcomes(events) == ["unknown_tool", "invalid", "ok", "denied"]


async def test_leaving_after_a_failure_leaves_nothing_behind() -> None:
    with anyio.fail_after(30):
        calls = [("a", "wait", "{}"), ("b", "fail", "{}")]
        async with pipeline(hanging(anthropic(calls=calls, stop=None)), tools=TOOLS, on_tool_error="cancel") as events:
            async for event in events:
                if isinstance(event, Observation) and event.call_id == "a":
                    break
    assert outcomes(events) == ["cancelled", "failed"]


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown on_tool_error 'stop'; known: continue, cancel"):
        pipeline(stream([]), on_tool_error="stop")  # type: ignore[arg-type]
