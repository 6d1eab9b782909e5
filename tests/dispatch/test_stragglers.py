"""Tools that do not stop when they should: nobody can stop them, and everybody is told."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, chat, hanging, stream

from streamtools import ApprovalRequested, Event, Limits, Observation, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.events import StreamWarning, ToolStarted

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


class Tells:
    """An observer that sets an event at a warning."""

    event_types = frozenset({StreamWarning})

    def __init__(self, event: anyio.Event) -> None:
        self.event = event

    def on_event(self, event: Event) -> None:
        self.event.set()

    def around_tool(self, call_id: str) -> None:
        return None


@pytest.mark.parametrize("how", ["timeout", "left", "closed", "failed"])
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
    assert [warning.detail for warning in found] == ["stay, call a: goes on 0.02 s after it was to stop"]
    assert len(events.turn.observations) == 1


async def test_a_tool_that_stops_when_it_should_is_not_told_of() -> None:
    @tool(effect="pure", timeout=0.01)
    async def stay() -> str:
        """Stay."""
        await anyio.sleep_forever()
        return "never"

    async with pipeline(stream(chat(calls=[("a", "stay", "{}")])), tools=[stay], limits=LIMITS) as events:
        _ = [event async for event in events]
    assert events.turn.warnings == ()


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
    async with pipeline(body, tools=[stay], limits=LIMITS, approve=approve) as events:
        _ = [event async for event in events]
    assert events.turn.observations[0].value == "done"
    assert events.turn.warnings == ()


async def test_what_a_thread_returns_after_it_was_given_up_is_a_warning_and_no_result() -> None:
    release = threading.Event()

    @tool(effect="pure", timeout=0.2)  # time enough for its thread to begin
    def stay() -> str:
        """Stay."""
        release.wait(45)
        return "late"

    body = anthropic(calls=[("a", "stay", "{}")], stop=None)
    seen: list[Event] = []
    with anyio.fail_after(30):
        async with pipeline(hanging(body), tools=[stay]) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, Observation):
                    release.set()
                if isinstance(event, StreamWarning):
                    break
    assert [event.detail for event in seen if isinstance(event, StreamWarning)] == [
        "stay, call a: ended after it was given up"
    ]
    assert [(o.outcome, o.value) for o in events.turn.observations] == [("timed_out", None)]
    assert abandoned_threads() == 0
