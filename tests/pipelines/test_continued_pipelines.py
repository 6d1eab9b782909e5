"""A pipeline that goes on with a turn that was cut: the turn is whole, and no call runs twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from every_wire import framed, payloads_of, said
from profiles import every
from ran import ran
from wire_cases.names import CHAT, INTERACTIONS, RESPONSES

from streamtools import Turn, parse, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.events import Event, TextDelta

pytestmark = pytest.mark.anyio
BOTH = every("wire", [INTERACTIONS, RESPONSES])


@tool(effect="pure")
async def look(at: int) -> str:
    """Look."""
    ran.append(at)
    return f"seen {at}"


@tool
async def pay(at: int) -> str:
    """Pay."""
    ran.append(at)
    return f"paid {at}"


def payloads(wire: str, **what: Any) -> list[dict[str, Any]]:
    return payloads_of(b"".join(framed(wire, said(wire, **what))))


async def run(stream: list[dict[str, Any]], turn: Turn | None = None) -> tuple[Turn, str]:
    """The turn, and the text of its deltas."""
    told = ""
    with anyio.fail_after(20):
        async with pipeline(stream, tools=[look, pay], continues=turn) as events:
            try:
                async for event in events:
                    told += event.text if isinstance(event, TextDelta) else ""
            except TruncatedStream:
                assert events.turn.resume_from is not None
    return events.turn, told


@BOTH
async def test_wherever_it_is_cut_the_turn_is_whole_and_each_call_has_run_once(wire: str) -> None:
    calls = [("k1", "look", '{"at": 1}'), ("k2", "pay", '{"at": 2}'), ("k3", "look", '{"at": 3}')]
    stream = payloads(wire, text=["Hé", "llo"], reasoning=["Hm."], calls=calls, pieces=2)
    whole, _ = await run(stream)
    for cut in range(1, len(stream)):
        ran.clear()
        first, _ = await run(stream[:cut])
        before = list(ran)
        second, told = await run(stream[cut:], first)
        assert sorted(ran) == [1, 2, 3], (cut, before)
        assert (second.text, second.calls, told) == (whole.text, whole.calls, whole.text), cut
        assert [one.outcome for one in second.observations] == ["ok"] * 3, cut
        assert second.messages() == whole.messages(), cut


@BOTH
async def test_a_call_that_ended_keeps_its_result_and_is_not_announced_again(wire: str) -> None:
    ran.clear()
    stream = payloads(wire, calls=[("k1", "look", '{"at": 1}')], text=["Hi"])
    first, _ = await run(stream[:-1])
    assert [one.outcome for one in first.observations] == ["ok"]
    with anyio.fail_after(20):
        async with pipeline(stream[-1:], tools=[look], continues=first) as events:
            announced = [getattr(event, "call_id", None) async for event in events]
    assert (ran, set(announced)) == ([1], {None})
    assert events.turn.observations == first.observations


@BOTH
async def test_transforms_see_what_the_turn_had_said(wire: str) -> None:
    stream = payloads(wire, text=["Hé", "llo"])
    seen: list[Any] = []

    async def watch(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            seen.append(event)
            yield event

    cut = parse(stream[:3], wire=wire)
    with anyio.fail_after(20):
        async with pipeline(stream[3:], continues=cut, transforms=[watch]) as events:
            async for _ in events:
                pass
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == events.turn.text == "Héllo"


async def test_a_pipeline_over_a_wire_that_cannot_resume_is_not_made() -> None:
    cut = parse(framed(CHAT, said(CHAT, text=["Hi"], ends=False)))
    with pytest.raises(ValueError, match="has no way to resume a response"):
        pipeline([], continues=cut)
