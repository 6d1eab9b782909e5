"""Tools that end the process, forge cancellations, raise without words, return too much, block, or clean up slowly."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from streams import anthropic, chat, hanging, stream
from telemetry.scripted import capturing

from streamtools import Event, Limits, Observation, ToolError, Turn, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.events import StreamWarning, ToolStarted

pytestmark = pytest.mark.anyio


async def turn_of(tools: list[Any], **options: Any) -> Turn:
    """A turn that calls each of them once, without arguments."""
    body = chat(calls=[(made.name, made.name, "{}") for made in tools])
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=tools, **options) as events:
            _ = [event async for event in events]
    return events.turn


@tool(effect="pure")
async def sibling() -> str:
    """Take some rounds of the event loop."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    return "fine"


def raising(make: Any, *, sync: bool) -> Any:
    if sync:

        @tool(effect="pure")
        def bad() -> str:
            """Raise."""
            raise make()
    else:

        @tool(effect="pure")
        async def bad() -> str:
            """Raise."""
            await anyio.lowlevel.checkpoint()
            raise make()

    return bad


def cancellation() -> BaseException:
    """One that nobody has asked for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return trio.Cancelled._create()  # type: ignore[attr-defined,no-any-return]
    return asyncio.CancelledError()


def cancellations() -> BaseException:
    inner = BaseExceptionGroup("inner", [cancellation(), ValueError("secret")])
    return BaseExceptionGroup("outer", [cancellation(), inner])


RAISED: dict[str, Any] = {
    "exit": lambda: SystemExit(3),
    "exit in a group": lambda: BaseExceptionGroup("all", [SystemExit(3)]),
    "cancelled": cancellation,
    "cancelled in groups": cancellations,
}


@pytest.mark.parametrize("what", RAISED)
async def test_what_would_end_everything_ends_its_call(what: str) -> None:
    turn = await turn_of([raising(RAISED[what], sync=False), sibling])
    assert [seen.outcome for seen in turn.observations] == ["failed", "ok"]
    assert turn.observations[0].model_content.startswith("Error: the tool bad raised ")
    assert "secret" not in turn.observations[0].model_content
    assert turn.complete


@pytest.mark.parametrize("what", ["exit", "exit in a group"])
async def test_what_would_end_everything_ends_its_call_in_a_thread_too(what: str) -> None:
    turn = await turn_of([raising(RAISED[what], sync=True), sibling])
    assert [seen.outcome for seen in turn.observations] == ["failed", "ok"]


async def test_sys_exit_is_named_for_the_model() -> None:
    @tool(effect="pure")
    def leave() -> str:
        """Leave."""
        sys.exit("secret")

    turn = await turn_of([leave])
    assert turn.observations[0].model_content == "Error: the tool leave raised SystemExit"


# -- errors without words ---------------------------------------------------------------------------------------------


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class WordlessToolError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("captured", [False, True], ids=["plain", "captured"])
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("kind", [Wordless, WordlessToolError])
async def test_an_error_that_has_no_words_is_a_failure_that_names_its_type(
    kind: type[Exception], sync: bool, captured: bool
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observers = [capturing(provider, capture=captured)]
    turn = await turn_of([raising(kind, sync=sync), sibling], observers=observers)
    assert [seen.outcome for seen in turn.observations] == ["failed", "ok"]
    assert kind.__name__ in turn.observations[0].model_content
    assert turn.warnings == (), "the observer goes on"
    names = [span.name for span in exporter.get_finished_spans() if not span.name.startswith("streamtools.")]
    assert sorted(names) == ["chat m", "execute_tool bad", "execute_tool sibling"]


# -- results without end ----------------------------------------------------------------------------------------------

LARGE = """
import sys
import anyio
from streams import chat, stream
from streamtools import Limits, pipeline, tool

def endless():
    while True:
        yield "again"

def peak_mib():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024

VALUES = {
    "text": lambda: "x" * 300_000_000,
    "texts": lambda: {"all": ["\\u00e9" * 150_000_000]},
    "bytes": lambda: b"x" * 300_000_000,
    "numbers": lambda: [1] * 10_000_000,
    "numbers by name": lambda: dict.fromkeys(range(2_000_000), 1),
    "endless": endless,
}

async def main(what):
    value = VALUES[what]()
    ticks = 0

    @tool(effect="pure", require_hints=False)
    async def give():
        "Give."
        return value

    async def tick():
        nonlocal ticks
        while True:
            await anyio.sleep(0.001)
            ticks += 1

    before = peak_mib()
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        body = stream(chat(calls=[("a", "give", "{}")]))
        async with pipeline(body, tools=[give], limits=Limits(max_result_bytes=10_000)) as events:
            _ = [event async for event in events]
        await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    (seen,) = events.turn.observations
    print(seen.outcome, len(seen.model_content.encode()) < 10_100, "[cut: the first 10000" in seen.model_content)
    print(peak_mib() - before, ticks)

anyio.run(main, sys.argv[1], backend=sys.argv[2])
"""


@pytest.mark.thorough
@pytest.mark.costly
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads its peak of memory there")
@pytest.mark.parametrize("what", ["text", "texts", "bytes", "numbers", "numbers by name", "endless"])
async def test_a_huge_result_costs_no_more_than_what_is_kept_of_it(what: str, anyio_backend_name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(120):
        done = await anyio.run_process(
            [sys.executable, "-c", LARGE, what, anyio_backend_name], env=environment, stderr=subprocess.STDOUT
        )
    first, second = done.stdout.decode().splitlines()
    assert first == "ok True True"
    grown_mib, ticks = map(float, second.split())
    assert grown_mib < 50
    assert ticks > 0


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_generator_that_never_yields_is_timed_out_and_the_loop_goes_on(sync: bool) -> None:
    release, ticks = threading.Event(), 0

    def silent() -> Iterator[str]:
        while not release.wait(0.01):
            pass
        yield from ()

    if sync:

        @tool(effect="pure", timeout=0.5, require_hints=False)
        def give():
            """Give."""
            return silent()
    else:

        @tool(effect="pure", timeout=0.5, require_hints=False)
        async def give():
            """Give."""
            return silent()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            turn = await turn_of([give, sibling])
            group.cancel_scope.cancel()
    finally:
        release.set()
    assert [seen.outcome for seen in turn.observations] == ["timed_out", "ok"]
    assert turn.observations[0].still_running
    assert ticks > 100
    with anyio.fail_after(30):
        while abandoned_threads():  # noqa: ASYNC110  # a thread ends, and has no event to wait for
            await anyio.sleep(0.001)


# -- the event loop ---------------------------------------------------------------------------------------------------


async def test_an_async_tool_that_blocks_the_event_loop_is_told_of(
    anyio_backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By an event and in the turn for each call, and in the log once for each tool."""

    @tool(effect="pure", name=f"think_on_{anyio_backend_name}")
    async def think() -> str:
        """Block."""
        time.sleep(0.3)  # noqa: ASYNC251  # that is what it is about
        return "thought"

    body = chat(calls=[(call, think.name, "{}") for call in ("a", "b")] + [("c", "sibling", "{}")])
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=[think, sibling]) as events:
            seen = [event async for event in events if isinstance(event, StreamWarning | Observation)]
    warned = [event for event in seen if isinstance(event, StreamWarning)]
    assert [one.outcome for one in events.turn.observations] == ["ok"] * 3
    assert [warning.code for warning in warned] == ["loop_blocked"] * 2
    assert list(events.turn.warnings) == warned
    for call in ("a", "b"):
        at = next(n for n, one in enumerate(seen) if isinstance(one, Observation) and one.call_id == call)
        says = f"{think.name}, call {call}: kept the event loop from running for 0."
        (detail,) = [one.detail for one in seen[:at] if isinstance(one, StreamWarning) and says in one.detail]
        assert "make it a `def`" in detail
    (record,) = caplog.messages
    assert record.startswith(f"{think.name}: kept the event loop from running for 0.")


async def test_a_tool_that_waits_for_long_does_not_block() -> None:
    @tool(effect="pure")
    async def wait() -> str:
        """Wait."""
        await anyio.sleep(0.3)
        return "waited"

    turn = await turn_of([wait])
    assert turn.warnings == ()


# -- cleaning up ------------------------------------------------------------------------------------------------------

WAYS = ["timeout", "cancelled", "left", "closed", "failed"]


async def ended(way: str, made: Any, **options: Any) -> Turn:
    """The turn of a call that was ended this way while it ran."""
    body = anthropic(calls=[("a", made.name, "{}")], stop=None)
    source = stream(body, then=OSError("lost")) if way == "failed" else hanging(body)
    with anyio.fail_after(30):
        async with pipeline(source, tools=[made], **options) as events:
            try:
                async for event in events:
                    if isinstance(event, ToolStarted):
                        await anyio.wait_all_tasks_blocked()
                        if way == "left":
                            break
                        if way == "closed":
                            await events.aclose()
                        if way == "cancelled":
                            events.cancel(event)
                    if isinstance(event, Observation):
                        break
            except OSError:
                assert way == "failed"
    return events.turn


@pytest.mark.parametrize("way", WAYS)
async def test_a_rollback_in_a_tools_finally_is_awaited(way: str) -> None:
    steps: list[str] = []

    @tool(effect="once", timeout=0.05 if way == "timeout" else None)
    async def work() -> str:
        """Work, and roll back."""
        try:
            await anyio.sleep_forever()
        finally:
            for step in ("one", "two"):
                await anyio.sleep(0.01)
                steps.append(step)
        return "never"

    turn = await ended(way, work, start="early")
    assert steps == ["one", "two"]
    assert [seen.outcome for seen in turn.observations] == ["timed_out" if way == "timeout" else "cancelled"]
    assert turn.warnings == ()


@pytest.mark.parametrize("way", WAYS)
async def test_a_rollback_that_takes_too_long_is_cut_after_the_grace(way: str) -> None:
    steps: list[str] = []

    @tool(effect="once", timeout=0.05 if way == "timeout" else None)
    async def work() -> str:
        """Work, and roll back for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            steps.append("began")
            try:
                await anyio.sleep_forever()
            finally:
                steps.append("was cut")
        return "never"

    turn = await ended(way, work, start="early", limits=Limits(cancel_grace=0.05))
    assert steps == ["began", "was cut"]
    assert [seen.outcome for seen in turn.observations] == ["timed_out" if way == "timeout" else "cancelled"]


async def test_scopes_and_groups_within_a_tool_work_as_anywhere() -> None:
    found: list[str] = []

    async def child(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            found.append(name)

    @tool(effect="pure")
    async def work() -> str:
        """Cancel things of its own, and come back."""
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
        async with anyio.create_task_group() as group:
            group.start_soon(child, "child")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        try:
            with anyio.fail_after(0.01):
                await anyio.sleep_forever()
        except TimeoutError:
            found.append("late")
        return "back"

    turn = await turn_of([work])
    assert [(seen.outcome, seen.value) for seen in turn.observations] == [("ok", "back")]
    assert found == ["child", "late"]


async def test_a_scope_of_the_tools_own_that_was_cancelled_is_no_reason_to_cut_what_follows() -> None:
    @tool(effect="pure")
    async def work() -> str:
        """Give something up, and go on for longer than a cleanup may take."""
        for _ in range(3):
            with anyio.move_on_after(0.01):
                await anyio.sleep_forever()
            await anyio.sleep(0.1)
        return "back"

    turn = await turn_of([work], limits=Limits(cancel_grace=0.05))
    assert [seen.value for seen in turn.observations] == ["back"]


async def test_a_cancellation_that_comes_while_a_scope_of_the_tools_own_is_cancelled_is_not_lost() -> None:

    @tool(effect="pure")
    async def work() -> str:
        """Be cancelled within a cleanup of its own."""
        with anyio.CancelScope() as own:
            own.cancel()
            try:
                await anyio.sleep_forever()
            finally:
                events.cancel("work")
        await anyio.sleep_forever()
        return "never"

    body = chat(calls=[("work", "work", "{}")])
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=[work]) as events:
            _ = [event async for event in events]
    assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]


@pytest.mark.parametrize("way", WAYS)
async def test_scopes_and_groups_work_in_a_cleanup_too_and_children_are_cancelled(way: str) -> None:
    found: list[str] = []

    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            found.append("child")

    @tool(effect="pure", timeout=0.05 if way == "timeout" else None)
    async def work() -> str:
        """Have a child, and clean up within scopes."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(child)
                await anyio.sleep_forever()
        finally:
            with anyio.move_on_after(0.01) as scope:
                await anyio.sleep_forever()
            found.append("scope" if scope.cancelled_caught else "lost")
            await anyio.to_thread.run_sync(found.append, "thread")
        return "never"

    turn = await ended(way, work)
    assert found == ["child", "scope", "thread"]
    assert [seen.outcome for seen in turn.observations] == ["timed_out" if way == "timeout" else "cancelled"]


async def test_a_cancellation_from_outside_comes_out_after_the_cleanup() -> None:
    found: list[str] = []
    seen: list[Event] = []

    @tool(effect="pure")
    async def work() -> str:
        """Work."""
        try:
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(0.01)
            found.append("rolled back")
        return "never"

    body = hanging(anthropic(calls=[("a", "work", "{}")], stop=None))
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with pipeline(body, tools=[work]) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolStarted):
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
    assert scope.cancelled_caught
    assert found == ["rolled back"]
    assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
