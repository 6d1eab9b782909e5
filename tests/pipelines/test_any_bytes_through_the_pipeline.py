"""Whatever a server sends: typed events, then an end or a typed error; and only whole calls run."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from every_wire import check_sendable, events_of
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import TIMES
from profiles import examples
from sansio import QUIRKS, body_of
from streams import stream

from streamtools import Observation, StreamError, parse, pipeline, tool
from streamtools.events import StepEnd
from streamtools.wires import WIRES as ALL_WIRES

EVENTS = sorted({event for quirk in QUIRKS for event in events_of(body_of(quirk))})
WIRES = st.sampled_from([*ALL_WIRES, None])
BODIES = st.lists(st.binary(max_size=60), max_size=8) | st.lists(st.sampled_from(EVENTS), max_size=8)


@tool(effect="once", require_hints=False)
async def bash(**anything):
    """Run a command: the call that must never run on a guess."""
    return "ran"


async def read(chunks: list[bytes], wire: str | None) -> tuple[Any, list[Any], Exception | None]:
    seen, raised = [], None
    with anyio.fail_after(30):
        async with pipeline(stream(chunks), tools=[bash], wire=wire) as events:
            try:
                async for event in events:
                    seen.append(event)
            except StreamError as error:  # anything else is a bug, and fails the test
                raised = error
    return events.turn, seen, raised


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=examples(60) * TIMES, deadline=None, derandomize=TIMES == 1, database=None)
@given(chunks=BODIES, wire=WIRES)
def test_any_bytes_end_in_a_turn_or_a_typed_error_and_run_nothing_that_is_not_whole(
    backend: str, chunks: list[bytes], wire: str | None
) -> None:
    turn, seen, raised = anyio.run(read, chunks, wire, backend=backend)
    parsed = parse(chunks, wire=wire, tools=[bash])
    assert raised is turn.error
    assert (turn.error and turn.error.kind) == (parsed.error and parsed.error.kind)
    assert isinstance(seen[-1], StepEnd)
    assert [event.seq for event in seen] == list(range(len(seen)))
    ran = [event for event in seen if isinstance(event, Observation) and event.attempts]
    whole = {call.call_id for call in turn.calls if call.dispatchable}
    assert {observation.call_id for observation in ran} <= whole
    assert len(turn.observations) == sum(call.kind != "server" for call in turn.calls)
    check_sendable(turn)
