"""``start="manual"``: nothing starts by itself, and still every call has exactly one observation."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, chat, hanging, stream

from streamtools import Event, Observation, Pipeline, ToolCallValidated, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.events import StepEnd, ToolStarted

pytestmark = pytest.mark.anyio

ran: list[int] = []


@tool(effect="once")
async def act(n: int) -> int:
    """Act."""
    ran.append(n)
    await anyio.lowlevel.checkpoint()
    return n


CALLS = [(f"c{n}", "act", f'{{"n": {n}}}') for n in range(3)]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


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
    assert "nobody ran it (start='manual')" in events.turn.observations[0].model_content


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


async def test_calls_may_be_run_after_the_loop_in_any_order_and_the_next_loop_tells_the_rest() -> None:
    with anyio.fail_after(30):
        async with manual(stream(chat(calls=CALLS))) as events:
            _ = [event async for event in events]
            assert (await events.run_call("c2")).value == 2
            assert (await events.run_call(events.turn.calls[0])).value == 0
            rest = [event async for event in events]
    assert (ran, outcomes(events)) == ([2, 0], ["ok", "skipped", "ok"])
    assert [event.call_id for event in rest if isinstance(event, Observation)] == ["c2", "c0"]


async def test_calls_may_be_run_by_another_task_while_one_iterates() -> None:
    seen: list[Event] = []
    with anyio.fail_after(30):
        async with manual(hanging(anthropic(calls=CALLS, stop=None))) as events, anyio.create_task_group() as group:

            async def run_it(call_id: str) -> None:
                assert (await events.run_call(call_id)).outcome == "ok"

            async for event in events:
                seen.append(event)
                if isinstance(event, ToolCallValidated):
                    group.start_soon(run_it, event.call_id)
                if sum(isinstance(one, Observation) for one in seen) == 3:
                    break
    assert sorted(ran) == [0, 1, 2]


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


async def test_what_waits_when_the_turn_ends_badly_cannot_be_run_any_more() -> None:
    async with manual(stream(anthropic(calls=CALLS[:1], stop="max_tokens"))) as events:
        _ = [event async for event in events]
        assert (await events.run_call("c0")).outcome == "skipped"
    assert ran == []


async def test_leaving_the_block_cancels_what_runs_and_skips_what_does_not() -> None:
    begun = anyio.Event()

    @tool(effect="pure")
    async def stay() -> str:
        """Stay."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    waited: list[str] = []
    left: list[Pipeline] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            body = stream(chat(calls=[("a", "stay", "{}"), ("b", "stay", "{}")]))
            async with pipeline(body, tools=[stay], start="manual") as events:
                _ = [event async for event in events]

                async def run_it() -> None:
                    waited.append((await events.run_call("a")).outcome)

                group.start_soon(run_it)
                await begun.wait()
            left.append(events)
    assert (outcomes(left[0]), waited) == (["cancelled", "skipped"], ["cancelled"])


async def test_a_stream_that_fails_is_raised_and_skips_what_waits() -> None:
    with anyio.fail_after(30):
        async with manual(stream(anthropic(calls=CALLS[:2], stop=None), then=OSError("lost"))) as events:
            with pytest.raises(OSError, match="lost"):
                _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], ["skipped"] * 2)


async def test_aclose_ends_a_pipeline_whose_calls_nobody_runs() -> None:
    with anyio.fail_after(30):
        async with manual(stream(chat(calls=CALLS))) as events:
            _ = [event async for event in events]
            await events.aclose()
            assert outcomes(events) == ["skipped"] * 3


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
