"""The async laws AT-…: lifetimes, cancellation, and one observation for every call, on asyncio and trio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, chat, double, exhaust, hanging, stream

from streamtools import Limits, Observation, StreamEnd, TextDelta, ToolCallValidated, Turn, parse, pipeline, tool
from streamtools.errors import LocalProtocolError, TruncatedStream
from streamtools.events import ToolStarted

pytestmark = pytest.mark.anyio


class Running:
    """Counts the bodies that are inside a tool."""

    def __init__(self) -> None:
        self.now = 0
        self.started = 0
        self.cancelled = 0

    async def forever(self) -> None:
        self.now += 1
        self.started += 1
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.now -= 1


def sleeper(running: Running) -> Any:
    @tool(effect="pure")
    async def sleep(n: int = 0) -> str:
        """Sleep until cancelled."""
        await running.forever()
        return "never"

    return sleep


def every_call_has_one_observation_and_one_result(turn: Turn) -> None:
    ids = [call.call_id for call in turn.calls]
    assert [observation.call_id for observation in turn.observations] == ids
    messages = turn.messages()
    if not messages:
        assert not ids
    elif turn.wire == "openai.chat_completions":
        assert [call["id"] for call in messages[0].get("tool_calls", [])] == ids
        assert [message["tool_call_id"] for message in messages[1:]] == ids
    else:
        results = messages[1]["content"] if len(messages) > 1 else []
        assert [block["id"] for block in messages[0]["content"] if block["type"] == "tool_use"] == ids
        assert [block["tool_use_id"] for block in results] == ids


async def test_at_1_breaking_out_cancels_both_sleeping_tools_before_the_line_after_the_block() -> None:
    running = Running()
    calls = [("a", "sleep", "{}"), ("b", "sleep", '{"n": 1}')]
    async with pipeline(hanging(anthropic(calls=calls, stop=None)), tools=[sleeper(running)]) as events:
        async for event in events:
            if isinstance(event, ToolStarted) and running.started:
                while running.now < 2:
                    await anyio.lowlevel.checkpoint()
                break
    assert (running.now, running.started, running.cancelled) == (0, 2, 2)
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled", "cancelled"]
    every_call_has_one_observation_and_one_result(events.turn)


async def test_at_2_calls_that_run_when_the_source_fails_are_cancelled_or_drained_as_asked() -> None:
    body = anthropic(calls=[("a", "sleep", "{}")], stop=None)
    running = Running()
    async with pipeline(stream(body, then=OSError("reset")), tools=[sleeper(running)]) as events:
        with pytest.raises(OSError, match="reset"):
            _ = [event async for event in events]
        assert running.now == 0
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]

    release = anyio.Event()

    @tool(effect="pure")
    async def sleep() -> str:
        """Wait for the source to fail."""
        await release.wait()
        return "drained"

    async def fails() -> AsyncIterator[bytes]:
        for item in body:
            yield item
        await anyio.lowlevel.checkpoint()
        release.set()
        raise OSError("reset")

    async with pipeline(fails(), tools=[sleep], on_source_error="drain") as events:
        with pytest.raises(OSError, match="reset"):
            _ = [event async for event in events]
    assert [observation.value for observation in events.turn.observations] == ["drained"]


async def test_at_4_an_outer_timeout_leaves_the_scopes_intact() -> None:
    running = Running()
    calls = [("a", "sleep", "{}")]
    with anyio.move_on_after(0.01) as scope:
        async with pipeline(hanging(anthropic(calls=calls, stop=None)), tools=[sleeper(running)]) as events:
            await exhaust(events)
    assert scope.cancelled_caught
    assert running.now == 0
    every_call_has_one_observation_and_one_result(events.turn)
    async with pipeline(stream(chat(["again"], finish="stop"))) as events:
        assert [event.text async for event in events if isinstance(event, TextDelta)] == ["again"]
    await anyio.lowlevel.checkpoint()  # nothing of the first block cancels what comes later


async def test_a_consumer_whose_scope_is_cancelled_does_not_take_that_for_the_end_of_the_stream() -> None:
    """The reading task is told of it before the consumer, which is busy."""
    running, ends = Running(), []
    with anyio.CancelScope() as scope:
        body = hanging(anthropic(["Hi"], calls=[("a", "sleep", "{}")], stop=None))
        async with pipeline(body, tools=[sleeper(running)]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    scope.cancel()
            ends.append("the loop has ended")
    assert ends == []
    assert scope.cancelled_caught
    assert running.now == 0


async def test_at_9_a_tool_that_finishes_while_the_outbox_is_full_does_not_deadlock() -> None:
    finished = anyio.Event()

    @tool(effect="pure")
    async def quick() -> str:
        """Finish at once."""
        finished.set()
        return "done"

    call = anthropic(calls=[("a", "quick", "{}")], stop=None)
    text = anthropic(["x"] * 50, stop="end_turn")[1:]
    async with pipeline(stream(call + text), tools=[quick], limits=Limits(event_buffer=1)) as events:
        with anyio.fail_after(30):
            seen = []
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolCallValidated):
                    await finished.wait()  # the consumer takes nothing while the tool finishes
    assert sum(isinstance(event, Observation) for event in seen) == 1
    assert sum(isinstance(event, TextDelta) for event in seen) == 50


async def test_at_11_leaving_with_calls_done_running_queued_and_cut_observes_each_once() -> None:
    running = Running()

    @tool(effect="pure")
    async def done() -> str:
        """Finish at once."""
        return "done"

    calls = [("a", "done", "{}"), ("b", "sleep", "{}"), ("c", "sleep", '{"n": 1}')]
    body = anthropic(calls=calls, stop=None)
    cut = anthropic(calls=[("d", "sleep", '{"n": ')], stop=None)[1:3]
    for name, payload in enumerate(cut):
        cut[name] = payload.replace(b'"index":0', b'"index":9')
    async with pipeline(
        hanging(body + cut), tools=[done, sleeper(running)], limits=Limits(max_concurrency=1)
    ) as events:
        observed = started = 0
        async for event in events:
            observed += isinstance(event, Observation)
            started += isinstance(event, ToolStarted)
            if observed == 1 and started == 2:
                await anyio.wait_all_tasks_blocked()
                break
    outcomes = {observation.call_id: observation for observation in events.turn.observations}
    assert list(outcomes) == ["a", "b", "c", "d"]
    assert sorted(o.outcome for o in outcomes.values()) == ["cancelled", "cancelled", "ok", "truncated"]
    assert outcomes["d"].outcome == "truncated"
    assert sorted(o.attempts for o in outcomes.values()) == [0, 0, 1, 1]
    every_call_has_one_observation_and_one_result(events.turn)
    assert running.now == 0


@pytest.mark.asyncio_only
async def test_at_18_a_cancellation_that_the_tool_itself_lets_out_is_its_failure() -> None:
    @tool(effect="pure")
    async def awaits_a_cancelled_task() -> str:
        """Await a task that is cancelled."""
        task = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task
        return "never"

    calls = [("a", "awaits_a_cancelled_task", "{}"), ("b", "double", '{"n": 2}')]
    turn = await pipeline(stream(chat(calls=calls)), tools=[awaits_a_cancelled_task, double])
    first, second = turn.observations
    assert (first.outcome, second.outcome, second.value) == ("failed", "ok", 4)
    assert isinstance(first.error and first.error.__cause__, asyncio.CancelledError)


class Checkpoints:
    """Cancels a scope at the n-th checkpoint of a scenario."""

    def __init__(self, n: int, scope: anyio.CancelScope) -> None:
        self.left = n
        self.scope = scope

    async def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()


async def scenario(n: int, running: Running) -> tuple[Any, bool]:
    """A stream with text, a quick pure call, a slow pure call and a held one, cancelled at the n-th checkpoint."""
    with anyio.CancelScope() as scope:
        checkpoint = Checkpoints(n, scope)

        @tool(effect="pure")
        async def slow(n: int = 0) -> str:
            """Take some steps."""
            running.now += 1
            try:
                for _ in range(5):
                    await checkpoint()
            finally:
                running.now -= 1
            return "slow"

        @tool(effect="once")
        async def spend(amount: int) -> str:
            """Spend."""
            await checkpoint()
            return "spent"

        calls = [("a", "double", '{"n": 1}'), ("b", "slow", "{}"), ("c", "spend", '{"amount": 3}')]

        async def source() -> AsyncIterator[bytes]:
            for item in anthropic(["Hi", " there"], calls):
                await checkpoint()
                yield item

        events = pipeline(source(), tools=[double, slow, spend], limits=Limits(event_buffer=2))
        async with events:
            async for _ in events:
                await checkpoint()
    return events, scope.cancelled_caught


async def test_at_31_a_pipeline_is_entered_once() -> None:
    events = pipeline(stream(chat(["x"], finish="stop")))
    async with events:
        with pytest.raises(LocalProtocolError, match="entered once"):
            async with events:
                pass
    with pytest.raises(LocalProtocolError, match="entered once"):
        async with events:
            pass


async def test_at_31_aclose_may_be_called_again_and_again_and_stops_everything() -> None:
    running = Running()
    calls = [("a", "sleep", "{}")]
    async with pipeline(hanging(anthropic(calls=calls, stop=None)), tools=[sleeper(running)]) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                while not running.now:
                    await anyio.lowlevel.checkpoint()
                break
        await events.aclose()
        assert running.now == 0
        assert [event async for event in events] == []
        await events.aclose()
        await anyio.lowlevel.checkpoint()  # the body itself is not cancelled
    await events.aclose()
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]


async def test_iterating_without_the_block_says_what_to_write() -> None:
    events = pipeline(stream(chat(["x"], finish="stop")))
    with pytest.raises(TypeError, match="async with pipeline"):
        await exhaust(events)
    async with events:
        pass
    with pytest.raises(TypeError, match="was left"):
        await exhaust(events)


async def test_a_source_that_lets_out_a_cancellation_of_its_own_ends_the_stream_with_an_error() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield chat(["x"], finish=None)[0]
        raise anyio.get_cancelled_exc_class()

    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        pytest.skip("trio's Cancelled cannot be raised by hand")
    with anyio.fail_after(30):
        async with pipeline(source()) as events:
            with pytest.raises(Exception, match="cancelled from within"):
                _ = [event async for event in events]


def used(events: Iterable[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_pure_calls_start_at_their_own_end_and_once_calls_when_the_turn_has_ended_well() -> None:
    @tool(effect="once")
    async def spend(amount: int) -> str:
        """Spend."""
        return "spent"

    body = anthropic(calls=[("a", "spend", '{"amount": 1}'), ("b", "double", '{"n": 1}')])
    async with pipeline(stream(body), tools=[double, spend]) as events:
        seen = [event async for event in events]
    started = {event.call_id: event.seq for event in used(seen, ToolStarted)}
    (end,) = used(seen, StreamEnd)
    assert started["b"] < end.seq < started["a"]
    (spent,) = [event for event in used(seen, ToolStarted) if event.call_id == "a"]
    assert end.seq in spent.causes


@every("stop", ["max_tokens", "refusal", "pause_turn", None])
async def test_once_calls_of_a_turn_that_did_not_end_well_are_skipped_and_say_why(stop: str | None) -> None:
    ran = []

    @tool
    def spend(amount: int) -> str:
        """Spend."""
        ran.append(amount)
        return "spent"

    body = anthropic(calls=[("a", "spend", '{"amount": 1}')], stop=stop)
    async with pipeline(stream(body), tools=[spend]) as events:
        with contextlib.nullcontext() if stop else pytest.raises(TruncatedStream):
            _ = [event async for event in events]
    (observation,) = events.turn.observations
    assert (observation.outcome, ran) == ("skipped", [])
    assert "not run" in observation.model_content
    every_call_has_one_observation_and_one_result(events.turn)


async def test_the_turn_of_the_pipeline_is_the_turn_of_parse() -> None:
    for body in (chat(["a", "b"], [("x", "double", '{"n": 1}')]), anthropic(["a"], [("x", "double", '{"n": 1}')])):
        turn = await pipeline(stream(body), tools=[double])
        parsed = parse(body, tools=[double])
        for name in ("wire", "text", "parts", "calls", "finish", "finish_raw", "complete", "usage", "error"):
            assert getattr(turn, name) == getattr(parsed, name), name


async def test_at_30_the_invariants_hold_wherever_the_consumer_is_cancelled() -> None:
    outcomes = set()
    for n in range(1, 200):
        running = Running()
        events, cancelled = await scenario(n, running)
        turn = events.turn
        assert running.now == 0, n
        every_call_has_one_observation_and_one_result(turn)
        outcomes.update(observation.outcome for observation in turn.observations)
        if not cancelled:
            break
    else:
        pytest.fail("the scenario has more checkpoints than tried")
    assert n > 40
    assert {"ok", "cancelled", "truncated", "skipped"} <= outcomes
    assert [observation.outcome for observation in turn.observations] == ["ok", "ok", "ok"]
