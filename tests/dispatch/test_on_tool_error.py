"""What happens to the other calls of a turn when one fails."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, stream

from streamtools import Limits, Pipeline, pipeline, tool
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


@every("failing", ["fail", "hang"])
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


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown on_tool_error 'stop'; known: continue, cancel"):
        pipeline(stream([]), on_tool_error="stop")  # type: ignore[arg-type]
