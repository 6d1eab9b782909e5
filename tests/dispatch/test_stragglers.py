"""Tools that do not stop when they should: nobody can stop them, and everybody is told."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, chat, hanging, stream

from streamtools import ApprovalRequested, Event, Limits, Observation, pipeline, tool
from streamtools.events import StreamWarning, ToolStarted
from streamtools.observers import Observer

pytestmark = pytest.mark.anyio

LIMITS = Limits(cancel_grace=0.02)


def stubborn(told: anyio.Event, timeout: float | None = None) -> Any:
    @tool(effect="pure", timeout=timeout)
    async def stay() -> str:
        """Go on, until the warning has been seen."""
        with anyio.CancelScope(shield=True):
            await told.wait()
        return "late"

    return stay


class Tells(Observer):
    """An observer that sets an event at a warning."""

    event_types = frozenset({StreamWarning})

    def __init__(self, event: anyio.Event) -> None:
        self.event = event

    def on_event(self, event: Event) -> None:
        self.event.set()


@every("how", ["timeout", "left", "closed", "failed"])
async def test_a_tool_that_swallows_its_cancellation_is_told_of_after_the_grace_and_waited_for(how: str) -> None:
    told = anyio.Event()
    made = stubborn(told, 0.01 if how == "timeout" else None)
    body: Any = anthropic(calls=[("a", "stay", "{}")], stop=None)
    source = stream(body, then=OSError("lost")) if how == "failed" else hanging(body)
    with anyio.fail_after(30):
        async with pipeline(source, tools=[made], limits=LIMITS, observers=[Tells(told)]) as events:
            try:
                async for event in events:
                    if isinstance(event, ToolStarted) and how == "left":
                        break
                    if isinstance(event, ToolStarted) and how == "closed":
                        await events.aclose()
                    if isinstance(event, Observation) and how == "timeout":
                        break
            except OSError:
                assert how == "failed"
    found = [warning for warning in events.turn.warnings if warning.code == "tool_unresponsive"]
    assert [warning.detail for warning in found] == ["stay, call a: still runs 0.02 s after it was told to stop"]
    assert len(events.turn.observations) == 1


async def test_a_call_that_was_approved_is_not_told_of_though_it_runs_for_longer_than_the_grace() -> None:
    @tool(effect="pure", needs_approval=True)
    async def stay() -> str:
        """Run for three times the grace."""
        begun = anyio.current_time()
        while anyio.current_time() < begun + 3 * LIMITS.cancel_grace:
            await anyio.lowlevel.checkpoint()
        return "done"

    async def approve(request: ApprovalRequested) -> bool:
        await anyio.lowlevel.checkpoint()
        return True

    body = stream(chat(calls=[("a", "stay", "{}")]))
    turn = await pipeline(body, tools=[stay], limits=LIMITS, approve=approve)
    assert turn.observations[0].value == "done"
    assert "tool_unresponsive" not in [warning.code for warning in turn.warnings]
