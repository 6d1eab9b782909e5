"""A call's observation tells what the call waited for before it ran, and which attempts failed.

A wait that is passing (`WaitFacts.is_passing`) has a record only if it was long, as it may be on a busy machine.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import anyio
import anyio.lowlevel
import executor_tools
import pytest
from profiles import every
from streams import chat, stream

from streamtools import Deny, Limits, ToolContext, Trajectory, pipeline, tool
from streamtools.dispatch import Begin, CallPool, Emit, MemoryStore, SqliteStore
from streamtools.errors import ModelRetry
from streamtools.events import Event, Observation, ToolCallValidated, ToolStarted
from streamtools.executors import Invocation, LocalExecutor, ProcessExecutor
from streamtools.parts import WAITS
from streamtools.tools import RunCall, Tool, ToolCallRequest

pytestmark = pytest.mark.anyio


async def seen_of(made: Tool[..., Any], *arguments: str, **options: Any) -> list[Observation]:
    """Runs calls of one tool whose first run waits until no other can start; returns the observations."""
    body = chat(calls=[(f"c{number}", made.name, text) for number, text in enumerate(arguments)])
    turn = await pipeline(stream(body), tools=[made], **options)
    return list(turn.observations)


def reasons(seen: Observation) -> list[str]:
    assert all(0 <= wait.began <= wait.ended and wait.seconds == wait.ended - wait.began for wait in seen.waits)
    assert [wait.began for wait in seen.waits] == sorted(wait.began for wait in seen.waits)
    return [wait.reason for wait in seen.waits if not WAITS[wait.reason].is_passing]


async def hold() -> None:
    """Stays until the others have come as far as they can."""
    await anyio.wait_all_tasks_blocked()


@every(
    ("options", "limits", "reason"),
    [
        ({"conflict_key": "n"}, {}, "key"),
        ({"max_concurrency": 1}, {}, "tool_limit"),
        ({}, {"max_concurrency": 1}, "limit"),
        ({"exclusive": True}, {}, "exclusive"),
    ],
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


# -- the law: from ready to started a call waits for something that has a name --

MOMENT_S = 0.001  # less is not worth a record


async def pause() -> None:
    """Lets the others go on for a while."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def unnamed(events: Sequence[Event]) -> dict[str, float]:
    """Returns the seconds between ready and started, less the waits, of each call that has started. Checks that no two
    waits of a call overlap, and that those of later attempts lie behind its start."""
    ready = {event.call.call_id: event.time for event in events if isinstance(event, ToolCallValidated)}
    started: dict[str, float] = {}
    for event in events:
        if isinstance(event, ToolStarted):
            started.setdefault(event.call_id, event.time)
    left = {}
    for seen in events:
        if isinstance(seen, Observation) and seen.call_id in started:
            begin, end = ready[seen.call_id], started[seen.call_id]
            before = [wait for wait in seen.waits if wait.began < end]
            assert all(one.ended <= two.began for one, two in zip(seen.waits, seen.waits[1:], strict=False)), seen.waits
            assert all(begin <= wait.began <= wait.ended <= end for wait in before), (begin, seen.waits, end)
            left[seen.call_id] = end - begin - sum(wait.seconds for wait in before)
    return left


@tool(effect="pure")
async def look(n: int) -> int:
    """Look."""
    await pause()
    return n


@tool(effect="pure")
def look_there(n: int) -> int:
    """Look, in a thread."""
    return n


@tool(effect="pure", exclusive=True)
async def alone(n: int) -> int:
    """Look alone."""
    await pause()
    return n


@tool(effect="once")
async def pay(n: int) -> int:
    """Pay."""
    return n


@tool(effect="idempotent", conflict_key="n")
async def book(n: int) -> int:
    """Book."""
    await pause()
    return n


@tool(effect="pure", needs_approval=True)
async def ask(n: int) -> int:
    """Ask."""
    return n


@tool(effect="idempotent", retries=1, retry_delay_s=0.001)
async def again(n: int, ctx: ToolContext) -> int:
    """Fail once."""
    if ctx.attempt == 1:
        raise ModelRetry("once more")
    return n


async def late(call: ToolCallRequest, run: RunCall) -> Any:
    """Waits before it runs the call."""
    await pause()
    return Deny("three are too many") if call.arguments["n"] == 3 else await run()


class Slow:
    """An executor of the user's own. It says nothing, or what it waits for."""

    def __init__(self, *reasons: Any) -> None:
        self.reasons = reasons

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        for reason in self.reasons:
            call.waits_for(reason)
            await pause()
        await begin()
        call.waits_for("store")  # too late to change anything
        return call.arguments["n"]


ALL = [look, look_there, alone, pay, book, ask, again]


def cases() -> dict[str, dict[str, Any]]:
    """Returns what pipelines are given, each by its name."""
    return {
        "as it is": {},
        "at the end of the turn": {"start": "turn_end"},
        "one at a time": {"limits": Limits(max_concurrency=1, max_threads=1)},
        "a pool": {"pool": CallPool(Limits(max_concurrency=2)), "limits": Limits()},
        "a budget": {"limits": Limits(call_budget=5)},
        "middleware": {"middleware": late},
        "a store": {"store": MemoryStore()},
        "local": {"executor": LocalExecutor(ALL, max_threads=1)},
        "silent": {"executor": Slow()},
        "chatty": {"executor": Slow("worker_busy", "worker_start", "executor")},
    }


async def run(made: Sequence[Any], options: dict[str, Any], calls: Sequence[tuple[str, str, str]]) -> list[Event]:
    async with AsyncExitStack() as stack:
        if (executor := options.get("executor")) is not None:
            await stack.enter_async_context(executor)
        events = await stack.enter_async_context(
            pipeline(stream(chat(calls=calls)), tools=made, approve=approve, trajectory=Trajectory(), **options)
        )
        return [event async for event in events]


async def approve(request: Any) -> bool:
    await pause()
    return True


async def test_from_ready_to_started_every_moment_is_a_wait_with_a_name(tmp_path: Path) -> None:
    calls = [(f"{made.name}{n}", made.name, json.dumps({"n": n})) for made in ALL for n in (1, 2, 2, 3)]
    calls = [(f"{call_id}-{at}", name, text) for at, (call_id, name, text) in enumerate(calls)]
    with SqliteStore(tmp_path / "calls.sqlite3") as kept:
        reasons: set[str] = set()
        for case, options in {**cases(), "a file": {"store": kept}}.items():
            seen = await run(ALL, {**options, "trials": False}, calls)
            reasons |= {wait.reason for event in seen if isinstance(event, Observation) for wait in event.waits}
            left = unnamed(seen)
            assert all(-1e-6 < seconds < MOMENT_S for seconds in left.values()), (case, left)
            assert len(left) == (5 if case == "a budget" else len(calls) - (7 if case == "middleware" else 0)), case
    assert reasons >= {"turn_end", "approval", "exclusive", "key", "limit", "thread", "worker_busy", "worker_start"}


async def test_an_executor_names_its_waits_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    for reasons in ((), ("worker_busy", "worker_start"), ("quota",)):
        (observation,) = [
            event
            for event in await run([look], {"executor": Slow(*reasons)}, [("c", "look", '{"n":1}')])
            if isinstance(event, Observation)
        ]
        named = [wait.reason for wait in observation.waits if wait.reason in ("worker_busy", "worker_start", "store")]
        seen[reasons] = observation.outcome, observation.attempts, named
    assert seen == {
        (): ("ok", 1, []),
        ("worker_busy", "worker_start"): ("ok", 1, ["worker_busy", "worker_start"]),
        ("quota",): ("failed", 0, []),
    }
    for step_s in (0, 1):  # what passes in no time is not recorded
        clock = itertools.count(time.monotonic(), step_s)
        made = SimpleNamespace(monotonic=partial(next, clock))
        monkeypatch.setattr("streamtools.dispatch.states.time", made)
        events = await run([look], {"executor": Slow("worker_busy")}, [("c", "look", '{"n":1}')])
        waits = [wait for event in events if isinstance(event, Observation) for wait in event.waits]
        assert any(WAITS[wait.reason].is_passing for wait in waits) is bool(step_s)


@pytest.mark.thorough
async def test_a_call_waits_by_name_for_a_worker_to_start_and_for_one_that_is_busy() -> None:
    workers = ProcessExecutor([executor_tools.worker_id], max_workers=1)
    calls = [(f"c{n}", "worker_id", "{}") for n in range(2)]
    events = await run([executor_tools.worker_id], {"executor": workers}, calls)
    left, seen = unnamed(events), [event for event in events if isinstance(event, Observation)]
    assert sorted(reasons(one) for one in seen) == [["turn_end", "worker_busy"], ["turn_end", "worker_start"]]
    assert len(left) == 2
    assert all(-1e-6 < seconds < MOMENT_S for seconds in left.values()), left
