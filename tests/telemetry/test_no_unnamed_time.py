"""Every moment of a run belongs to the model, a tool, or a wait that has a name: there is a span of it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import nullcontext
from typing import Any, Self

import anyio
import pytest
import trio
import trio.testing
from opentelemetry.sdk.trace import ReadableSpan
from scripted import Spans
from streams import anthropic

from streamtools import Limits, Retry, Trajectory, agent_loop, tool
from streamtools.dispatch import MemoryStore
from streamtools.dispatch.executor import Begin, Emit
from streamtools.dispatch.executors import Invocation, LocalExecutor
from streamtools.errors import ToolTimeout
from streamtools.telemetry import Tracing
from streamtools.tools import RunCall, ToolCallRequest

EPOCH_S = 1_000_000.0
NAMED = ("chat", "execute_tool", "streamtools.wait", "streamtools.approval", "streamtools.pause")


async def took(seconds: float) -> None:
    await anyio.sleep(seconds)


@tool(effect="pure", max_concurrency=1)
async def look(n: int) -> int:
    """Look."""
    await took(0.1)
    return n


@tool(effect="idempotent", conflict_key="n", retries=1, retry_delay_s=0.5)
async def book(n: int) -> int:
    """Time out, once or twice."""
    await took(0.2)
    raise ToolTimeout(0.2)


@tool(effect="once", needs_approval=True)
async def pay(n: int) -> int:
    """Pay."""
    await took(0.1)
    return n


@tool(effect="once")
async def send(n: int) -> int:
    """Send."""
    await took(0.1)
    return n


@tool(effect="pure", exclusive=True)
async def alone(n: int) -> int:
    """Work alone."""
    await took(0.1)
    return n


TOOLS = [look, book, pay, alone, send]
STEPS = [["look", "look", "book", "book", "pay"], ["alone", "look", "alone", "pay"], ["pay", "send", "look"], []]


class SlowStore(MemoryStore):
    """A store that is far away."""

    async def claim(self, key: str, fingerprint: str) -> Any:
        """Claims a key, later."""
        await took(0.3)
        return await super().claim(key, fingerprint)


class Workers:
    """An executor with one worker, which takes a while to start and to answer; one that says nothing is `silent`."""

    def __init__(self, *, silent: bool = False) -> None:
        self.silent, self.started, self.place = silent, False, anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        """Runs one call after the other."""
        if not self.silent:
            call.waits_for("worker_busy")
        async with self.place:
            if not self.silent:
                call.waits_for("executor" if self.started else "worker_start")
            await took(0.05 if self.started else 1.1)
            self.started = True
            await begin()
            await took(0.1)
        return call.arguments["n"]


async def slow(call: ToolCallRequest, run: RunCall) -> Any:
    """Waits before and after the call."""
    await took(0.25)
    return await run()


async def approve(request: Any) -> bool:
    await took(0.7)
    return True


def asks(refusals: int) -> Any:
    steps, left = iter(STEPS), iter(range(refusals))

    async def body(names: list[str]) -> AsyncIterator[bytes]:
        calls = [(f"c{at}", name, json.dumps({"n": at // 4})) for at, name in enumerate(names)]
        for piece in anthropic(calls=calls) if calls else anthropic(["Done."], stop="end_turn"):
            await took(0.05)
            yield piece

    async def ask(messages: Any, tools: Any) -> Any:
        await took(0.4)
        if next(left, None) is not None:
            raise ConnectionResetError
        return body(next(steps))

    return ask


def unnamed(spans: Iterable[ReadableSpan]) -> tuple[float, float]:
    """Returns the length of the run, and for how much of it there is no span of a name that says why."""
    known = [(span.start_time or 0, span.end_time or 0, span.name) for span in spans]
    ((begin, end, _),) = [one for one in known if one[2].startswith("invoke_agent")]
    left, until = 0, begin
    for start, stop, _ in sorted(one for one in known if one[2].startswith(NAMED)):
        left += max(0, start - until)
        until = max(until, stop)
    return (end - begin) / 1e9, (left + max(0, end - until)) / 1e9


def test_every_moment_of_a_run_is_a_span_of_the_model_of_a_tool_or_of_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still while code runs: a moment that passes is one that something waits for."""
    cases: dict[str, dict[str, Any]] = {
        "as it is": {},
        "one at a time": {"limits": Limits(max_concurrency=1)},
        "at the end of the turn": {"start": "turn_end"},
        "middleware": {"middleware": slow},
        "a store": {"store": SlowStore()},
        "here": {"executor": LocalExecutor(TOOLS)},
        "workers": {"executor": Workers(), "store": SlowStore()},
        "asked again": {"retry": Retry(backoff=2, jitter=lambda: 0.0)},
        "silent": {"executor": Workers(silent=True), "middleware": slow},
    }
    found: dict[str, tuple[float, float]] = {}
    reasons: set[Any] = set()
    for case, options in cases.items():
        spans, clock = Spans(), trio.testing.MockClock(autojump_threshold=0)

        def now(clock: trio.testing.MockClock = clock) -> float:
            return EPOCH_S + clock.current_time()

        async def main(spans: Spans = spans, options: dict[str, Any] = options) -> None:
            run = Trajectory(observers=[Tracing(spans.provider)], name="shop")
            executor = options.get("executor")
            loop = agent_loop(
                asks(2 if "retry" in options else 0),
                [],
                tools=TOOLS,
                wire="anthropic.messages",
                trajectory=run,
                approve=approve,
                **options,
            )
            async with nullcontext() if executor is None else executor, loop as events:
                await events.finish()
            assert events.outcome == "answered"

        with monkeypatch.context() as patch:
            patch.setattr(time, "monotonic", now)
            patch.setattr(time, "monotonic_ns", lambda now=now: round(now() * 1e9))
            patch.setattr(time, "time_ns", lambda now=now: round(now() * 1e9))
            trio.run(main, clock=clock)
        found[case] = unnamed(spans.all)
        reasons |= {(span.attributes or {}).get("streamtools.wait.reason") for span in spans.all}
    assert all(left <= 0.01 * whole for whole, left in found.values()), found
    assert all(whole > 2 for whole, _ in found.values()), found
    assert reasons >= {
        "turn_end", "key", "tool_limit", "exclusive", "limit", "middleware", "store", "worker_start", "worker_busy",
        "executor",
    }  # fmt: skip
