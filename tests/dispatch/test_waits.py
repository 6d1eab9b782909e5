"""A call's observation tells what the call waited for before it ran, and which attempts failed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from streams import chat, stream

from streamtools import Limits, pipeline, tool
from streamtools.errors import ModelRetry
from streamtools.events import Observation, ToolStarted
from streamtools.tools import Tool

pytestmark = pytest.mark.anyio


async def seen_of(made: Tool[..., Any], *arguments: str, **options: Any) -> list[Observation]:
    """Runs calls of one tool whose first run waits until no other can start; returns the observations."""
    body = chat(calls=[(f"c{number}", made.name, text) for number, text in enumerate(arguments)])
    async with pipeline(stream(body), tools=[made], **options) as events:
        async for _ in events:
            pass
    return list(events.turn.observations)


def reasons(seen: Observation) -> list[str]:
    assert all(0 <= wait.began <= wait.ended and wait.seconds == wait.ended - wait.began for wait in seen.waits)
    assert [wait.began for wait in seen.waits] == sorted(wait.began for wait in seen.waits)
    return [wait.reason for wait in seen.waits]


async def hold() -> None:
    """Stays until the others have come as far as they can."""
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("options", "limits", "reason"),
    [
        ({"conflict_key": "n"}, {}, "key"),
        ({"max_concurrency": 1}, {}, "tool_limit"),
        ({}, {"max_concurrency": 1}, "limit"),
        ({"exclusive": True}, {}, "exclusive"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
async def test_a_call_tells_what_stood_in_its_way(options: Any, limits: Any, reason: str) -> None:
    @tool(effect="pure" if "conflict_key" not in options else "idempotent", **options)
    async def work(n: int) -> str:
        """Work."""
        await hold()
        return "done"

    first, second = await seen_of(work, '{"n":1}', '{"n":1}', limits=Limits(**limits))
    assert reasons(first) == []
    assert reasons(second) == [reason]


async def test_a_call_that_only_the_end_of_its_turn_lets_start_says_so() -> None:
    @tool(effect="once")
    async def pay(n: int) -> str:
        """Pay."""
        return "paid"

    (seen,) = await seen_of(pay, '{"n":1}')
    assert reasons(seen) == ["turn_end"]


@pytest.mark.parametrize("decision", [True, False])
async def test_the_time_until_a_decision_is_a_wait_for_an_approval(decision: bool) -> None:
    @tool(effect="pure", needs_approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        return "paid"

    (seen,) = await seen_of(pay, '{"n":1}', approve=lambda _: decision)
    assert reasons(seen)[-1] == "approval"
    assert (seen.outcome == "ok") is decision


async def test_a_call_that_is_run_by_hand_waits_for_its_caller() -> None:
    @tool(effect="pure")
    async def work(n: int) -> str:
        """Work."""
        return "done"

    body = chat(calls=[("c0", "work", '{"n":1}')])
    async with pipeline(stream(body), tools=[work], start="manual") as events:
        async for event in events:
            if type(event).__name__ == "ToolCallValidated":
                seen = await events.run_call(event.call)
    assert reasons(seen) == ["caller"]


async def test_a_function_that_waits_for_a_thread_says_so() -> None:
    import threading

    gate = threading.Event()

    @tool(effect="pure")
    def work(n: int) -> str:
        """Work."""
        gate.wait(45)
        return "done"

    body = chat(calls=[(f"c{number}", "work", '{"n":1}') for number in range(2)])
    async with pipeline(stream(body), tools=[work], limits=Limits(max_threads=1)) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                await anyio.wait_all_tasks_blocked()
                gate.set()
    assert sorted(reasons(seen) for seen in events.turn.observations) == [[], ["thread"]]


async def test_an_attempt_that_failed_is_told_by_its_exception_and_the_pause_behind_it() -> None:
    left = [ValueError("secret"), KeyError("x")]

    @tool(effect="idempotent", retries=2, retry_delay_s=0.001)
    async def flaky(n: int) -> str:
        """Fail twice."""
        if left:
            raise left.pop(0)
        return "done"

    (seen,) = await seen_of(flaky, '{"n":1}')
    assert (seen.outcome, seen.attempts) == ("ok", 3)
    assert [(one.number, one.error_type, one.delay_s) for one in seen.failed_attempts] == [
        (1, "ValueError", 0.001),
        (2, "KeyError", 0.002),
    ]
    assert all(one.began <= one.ended for one in seen.failed_attempts)
    assert "secret" not in repr(seen.failed_attempts)


async def test_the_last_attempt_is_the_outcome_and_no_failed_attempt() -> None:
    @tool(effect="idempotent", retries=1, retry_delay_s=0.001)
    async def flaky(n: int) -> str:
        """Fail."""
        raise ModelRetry("no") if n else ValueError("no")

    (seen,) = await seen_of(flaky, '{"n":0}')
    assert (seen.outcome, seen.attempts, [one.number for one in seen.failed_attempts]) == ("failed", 2, [1])
