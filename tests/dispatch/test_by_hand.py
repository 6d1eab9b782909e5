"""``start="manual"``: nothing starts by itself, and still every call has exactly one observation."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ran import ran
from streams import anthropic, chat, hanging, stream

from streamtools import Event, Observation, Pipeline, ToolCallValidated, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.events import StepEnd, ToolStarted

pytestmark = pytest.mark.anyio


@tool(effect="once")
async def act(n: int) -> int:
    """Act."""
    ran.append(n)
    await anyio.lowlevel.checkpoint()
    return n


CALLS = [(f"c{n}", "act", f'{{"n": {n}}}') for n in range(3)]


def manual(body: Any, **options: Any) -> Pipeline:
    return pipeline(body, tools=[act], start="manual", **options)


def outcomes(events: Pipeline) -> list[str]:
    return [o.outcome for o in events.turn.observations]


async def test_nothing_starts_by_itself_and_what_nobody_ran_is_skipped_and_says_so() -> None:
    with anyio.fail_after(30):
        async with manual(stream(chat(calls=CALLS))) as events:
            seen = [event async for event in events]
            assert not any(isinstance(event, (ToolStarted, Observation)) for event in seen)
    assert (ran, outcomes(events)) == ([], ["skipped"] * 3)
    assert "the program did not run it (start='manual')" in events.turn.observations[0].model_content


async def test_a_call_that_is_run_in_the_loop_is_observed_there_and_the_step_ends_when_all_have_run() -> None:
    seen: list[Event] = []
    with anyio.fail_after(30):
        async with manual(stream(chat(calls=CALLS))) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolCallValidated):
                    observation = await events.run_call(event)
                    assert (observation.outcome, observation.call_id) == ("ok", event.call_id)
    assert (ran, outcomes(events)) == ([0, 1, 2], ["ok"] * 3)
    assert [event.call_id for event in seen if isinstance(event, Observation)] == ["c0", "c1", "c2"]
    assert isinstance(seen[-1], StepEnd)
    assert seen[-1].outcome == "complete"
    assert [event.seq for event in seen] == list(range(len(seen)))


async def test_a_call_that_is_run_twice_runs_once_and_gives_the_same_observation() -> None:
    found: list[Observation] = []
    async with manual(stream(chat(calls=CALLS[:1]))) as events:
        _ = [event async for event in events]

        async def run_it() -> None:
            found.append(await events.run_call("c0"))

        async with anyio.create_task_group() as group:
            group.start_soon(run_it)
            group.start_soon(run_it)
        found.append(await events.run_call("c0"))
    found.append(await events.run_call("c0"))
    assert ran == [0]
    assert all(observation is found[0] for observation in found)


async def test_a_call_without_a_result_of_its_own_gives_the_observation_that_it_has() -> None:
    body = chat(calls=[("bad", "act", '{"n": "x"}'), ("none", "nope", "{}")])
    async with manual(stream(body)) as events:
        _ = [event async for event in events]
        assert (await events.run_call("bad")).outcome == "invalid"
        assert (await events.run_call("none")).outcome == "unknown_tool"


async def test_misuse_says_what_to_do() -> None:
    async with pipeline(stream(chat(calls=CALLS)), tools=[act]) as events:
        with pytest.raises(LocalProtocolError, match="pass start='manual'"):
            await events.run_call("c0")
    unentered = manual(stream(chat(calls=CALLS)))
    with pytest.raises(TypeError, match="was not entered"):
        await unentered.run_call("c0")
    async with manual(stream(chat(calls=CALLS))) as events:
        async for event in events:
            if type(event).__name__ == "ToolCallStart":
                with pytest.raises(LocalProtocolError, match="no such call"):
                    await events.run_call("other")
                break
    async with manual(hanging(anthropic(calls=CALLS[:1], stop=None)[:2])) as events:
        async for event in events:
            if type(event).__name__ == "ToolCallStart":
                with pytest.raises(LocalProtocolError, match="run it after its ToolCallValidated"):
                    await events.run_call("c0")
                break


async def test_a_pipeline_that_was_opened_runs_calls_by_hand_too() -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            events = manual(stream(chat(calls=CALLS))).open(group)
            _ = [event async for event in events]
            assert (await events.run_call("c1")).value == 1
            rest = [event async for event in events]
            assert [event.call_id for event in rest if isinstance(event, Observation)] == ["c1"]
            await events.aclose()
            assert [o.outcome for o in events.turn.observations] == ["skipped", "ok", "skipped"]
