"""Calls in the text are run as native ones are, on asyncio and trio."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from dialect_cases import CASES, HELD, TOOLS, WHOLE
from profiles import mostly_thorough
from streams import chat, stream

from streamtools import Observation, StreamEnd, TextDelta, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.stages import DEFAULT, StageList, text_calls

pytestmark = pytest.mark.anyio


def with_calls(dialect: str) -> StageList:
    return DEFAULT.insert_before("accumulate", text_calls(dialect))


@pytest.mark.parametrize("dialect", mostly_thorough(CASES, 8))
async def test_every_dialect_runs_its_tools(dialect: str) -> None:
    case = WHOLE[dialect]
    body = chat(["a\n", *case.text, "\nb"], finish="stop")
    async with pipeline(stream(body), tools=TOOLS, stages=with_calls(dialect)) as events:
        seen = [event async for event in events]
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "a\n\nb"
    assert [(o.outcome, o.value) for o in events.turn.observations] == [("ok", "Paris: sun for 1")]
    assistant, result = events.turn.messages()
    assert (assistant["content"], result["content"]) == ("a\n\nb", "Paris: sun for 1")


@pytest.mark.parametrize("dialect", mostly_thorough(CASES, 8))
async def test_a_call_that_was_cut_does_not_run(dialect: str) -> None:
    text = WHOLE[dialect].text
    middle = text.index("Paris") + 2
    body = chat([text[:middle]], finish=None)
    async with pipeline(stream(body), tools=TOOLS, stages=with_calls(dialect)) as events:
        with pytest.raises(TruncatedStream):
            async for _ in events:
                pass
    told = [o.outcome for o in events.turn.observations]
    if dialect in HELD:
        assert (told, events.turn.text) == ([], text[:middle]), "it was not announced, so that it is text"
    else:
        assert (told, events.turn.text) == (["truncated"], "")


async def test_a_harmless_call_starts_at_its_own_end_while_the_text_goes_on() -> None:
    may_end = anyio.Event()

    async def slow() -> AsyncIterator[bytes]:
        first, *rest = chat([WHOLE["hermes"].text, "later"], finish="stop")
        yield first
        yield rest[0]
        await may_end.wait()
        for item in rest[1:]:
            yield item

    order = []
    with anyio.fail_after(30):
        async with pipeline(slow(), tools=TOOLS, stages=with_calls("hermes")) as events:
            async for event in events:
                if isinstance(event, (Observation, TextDelta, StreamEnd)):
                    order.append(type(event).__name__)
                if isinstance(event, Observation):
                    may_end.set()
    assert order == ["Observation", "TextDelta", "StreamEnd"]


async def test_a_tool_with_effects_waits_for_the_end_of_the_turn_and_needs_a_good_one() -> None:
    ran = []

    @tool
    async def get_weather(city: str) -> str:
        """It spends something."""
        ran.append(city)
        return "ok"

    for finish, outcome, calls in (("length", "skipped", []), ("stop", "ok", ["Paris"])):
        body = chat([WHOLE["hermes"].text], finish=finish)
        async with pipeline(stream(body), tools=[get_weather], stages=with_calls("hermes")) as events:
            seen = [type(event).__name__ async for event in events]
        assert seen.index("StreamEnd") < seen.index("ToolStarted" if calls else "Observation")
        assert [o.outcome for o in events.turn.observations] == [outcome]
        assert ran == calls
