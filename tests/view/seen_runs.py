"""Runs to be looked at: one with every kind of trouble, one whose every text is hostile, and one of many events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
from streams import anthropic, exhaust, stream

from streamtools import Deny, Trajectory, agent_loop, tool
from streamtools.errors import ToolError
from streamtools.events import (
    ApprovalRequested,
    Event,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from streamtools.parts import ToolCall, Usage
from streamtools.view import Watch

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>\u2028\u202e\ud800"
STEP_1 = anthropic(
    ["It may ", "rain."],
    [
        ("c1", "get_weather", '{"city": "Lisbon"}'),
        ("c2", "get_rates", '{"currency": "EUR"}'),
        ("c3", "find_hotel", "{}"),
        ("c4", "book", '{"people": "four"}'),
    ],
)
STEP_2 = anthropic(
    ["Paying."],
    [("d1", "pay", '{"amount": 12}'), ("d2", "pay", '{"amount": 70007000}'), ("d3", "book", '{"people": 4}')],
)
STEP_3 = anthropic(["It is ", "planned."], stop="end_turn")


async def watched(watch: Watch) -> None:
    """Runs three steps: calls that succeed, fail twice first, are denied, are invalid, and are unknown."""
    failures = iter([True, True])

    @tool(effect="pure")
    async def get_weather(city: str) -> dict[str, str]:
        """Get the weather."""
        return {"city": city, "sky": "rain"}

    @tool(effect="idempotent", retries=2, retry_delay_s=0.001)
    async def get_rates(currency: str) -> float:
        """Get the rates."""
        if next(failures, False):
            raise ConnectionError("the bank does not answer")
        return 1.08

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    @tool
    async def book(people: int) -> str:
        """Book a table."""
        raise ValueError("closed on Mondays")

    bodies = iter([STEP_1, STEP_2, STEP_3])

    async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        return stream(next(bodies))

    async def approve(asked: ApprovalRequested) -> bool | Deny:
        await anyio.lowlevel.checkpoint()
        return True if asked.arguments["amount"] < 1000 else Deny("too much")

    loop = agent_loop(
        ask,
        [{"role": "user", "content": "Plan a trip."}],
        tools=[get_weather, get_rates, pay, book],
        wire="anthropic.messages",
        trajectory=Trajectory(observers=[watch]),
        approve=approve,
    )
    async with loop as events:
        await exhaust(events)


def hostile_events(text: str = HOSTILE, *, arguments: str = f'{{"x": "{HOSTILE}"}}') -> list[Event]:
    """A run whose every text comes from somebody who wants to run code in the reader's browser."""
    call = ToolCall(call_id=text, name=text, arguments_text=arguments, status="ready")
    return stamped(
        [
            StepStart(text),
            StreamStart(text, text),
            TextDelta(text),
            ToolCallStart(text, text),
            ToolCallDelta(text, text),
            ToolCallEnd(call),
            ToolCallValidated(call),
            StreamEnd("tool_calls"),
            ToolStarted(text, text),
            Observation(call_id=text, tool_name=text, outcome="timed_out", error=ToolError(text), model_content=text),
            StepEnd(),
        ]
    )


def many_events(count: int) -> list[Event]:
    """A run of so many events: steps of 100 calls with 20 deltas of arguments each, and texts in between."""
    events: list[Event] = []
    while len(events) < count:
        events += [StepStart("long-run"), StreamStart("anthropic.messages", "model")]
        events += [TextDelta("words and words ") for _ in range(300)]
        for number in range(100):
            name, call_id = f"tool_{number % 7}", f"call_{number}"
            text = '{"value": "' + "x" * 120 + '"}'
            call = ToolCall(call_id=call_id, name=name, index=number, arguments_text=text, status="ready")
            events.append(ToolCallStart(call_id, name, index=number))
            events += [ToolCallDelta(call_id, text[at : at + 7]) for at in range(0, len(text), 7)]
            events += [ToolCallEnd(call), ToolCallValidated(call), ToolStarted(call_id, name)]
            events.append(
                Observation(call_id=call_id, tool_name=name, outcome="ok", model_content="fine", index=number)
            )
        events += [StreamEnd("tool_calls", usage=Usage(input_tokens=10, output_tokens=5)), StepEnd()]
    return stamped(events)


def stamped(events: list[Event]) -> list[Event]:
    """Numbers events as a pipeline does: a millisecond between two, each step after the one before."""
    step = -1
    for seq, event in enumerate(events):
        step += isinstance(event, StepStart)
        causes = (seq - 1,) if seq and hasattr(event, "causes") else ()
        told: dict[str, Any] = {"causes": causes, "time": 50 + seq / 1000} if hasattr(event, "time") else {}
        for name, value in {"seq": seq, "step": step, **told}.items():
            object.__setattr__(event, name, value)
    return events
