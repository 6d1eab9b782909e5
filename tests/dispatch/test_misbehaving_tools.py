"""Tools that end the process, forge cancellations, raise without words, return too much, block, or clean up slowly."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
from kept_spans import kept_spans
from profiles import every, thorough_unless
from streams import anthropic, chat, hanging, stream
from telemetry.scripted import capturing

from streamtools import ApprovalRequested, Event, Limits, Observation, ToolError, Turn, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.events import StreamWarning, ToolStarted

pytestmark = pytest.mark.anyio


async def turn_of(tools: list[Any], **options: Any) -> Turn:
    """A turn that calls each of them once, without arguments."""
    body = chat(calls=[(made.name, made.name, "{}") for made in tools])
    with anyio.fail_after(30):
        return await pipeline(stream(body), tools=tools, **options)


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


class Panic(BaseException):
    """As native code panics: PyO3's PanicException is no Exception."""


RAISED: dict[str, Any] = {
    "exit": lambda: SystemExit(3),
    "exit in a group": lambda: BaseExceptionGroup("all", [SystemExit(3)]),
    "cancelled": cancellation,
    "cancelled in groups": cancellations,
    "panic": lambda: Panic("secret"),
    "generator exit": GeneratorExit,
    "asyncio's cancellation": asyncio.CancelledError,
    "all in a group": lambda: BaseExceptionGroup("all", [Panic(), GeneratorExit(), ValueError(), cancellation()]),
}


@every("what, sync", [(what, sync) for what in RAISED for sync in (False, True) if not (sync and "cancel" in what)])
async def test_what_would_end_everything_ends_its_call(what: str, sync: bool) -> None:
    if sync and "group" in what and what != "exit in a group":
        return  # a cancellation of trio's cannot be made in a thread
    turn = await turn_of([raising(RAISED[what], sync=sync), sibling])
    assert [seen.outcome for seen in turn.observations] == ["failed", "ok"]
    assert turn.observations[0].model_content.startswith("Error: the tool bad raised ")
    assert "secret" not in turn.observations[0].model_content
    assert turn.complete


paid: list[str] = []


@tool(effect="once")
async def pay() -> str:
    """Pay, beside a call that fails."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    paid.append("paid")
    return "paid"


class Raises:
    """An observer that raises as it sees an event, or around a tool."""

    def __init__(self, make: Any, *, around: bool) -> None:
        self.make, self.around = make, around
        self.event_types = frozenset() if around else frozenset({ToolStarted})

    def on_event(self, event: Event) -> None:
        raise self.make()

    def around_tool(self, call_id: str) -> None:
        if self.around:
            raise self.make()


def refusing(make: Any, where: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Options of a tool and of a pipeline with code that raises there, and the outcome of the call."""

    def plain(*given: Any) -> Any:
        raise make()

    async def around(call: Any, run: Any) -> Any:
        if where == "after the tool":
            await run()
        raise make()

    async def approver(request: ApprovalRequested) -> bool:
        await anyio.lowlevel.checkpoint()
        raise make()

    options: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
        "middleware": ({"middleware": around}, {}, "failed"),
        "after the tool": ({"middleware": around}, {}, "failed"),
        "check": ({"check": plain}, {}, "invalid"),
        "validator": ({"validator": SimpleNamespace(name="mine", validate=plain)}, {}, "invalid"),
        "needs_approval": ({"needs_approval": plain}, {}, "failed"),
        "approver": ({"needs_approval": True}, {"approve": plain}, "denied"),
        "async approver": ({"needs_approval": True}, {"approve": approver}, "denied"),
        "conflict_key": ({"conflict_key": plain}, {}, "failed"),
        "policy": ({"policy": plain}, {"request": {"messages": []}}, "failed"),
        "observer": ({}, {"observers": [Raises(make, around=False)]}, "ok"),
        "observer around the tool": ({}, {"observers": [Raises(make, around=True)]}, "ok"),
    }
    return options[where]


WHERE = (
    "middleware", "after the tool", "check", "validator", "needs_approval", "approver", "async approver",
    "conflict_key", "policy", "observer", "observer around the tool",
)  # fmt: skip


PAIRS = [(where, what) for where in WHERE for what in RAISED]


@every(
    "where, what",
    thorough_unless(lambda pair: (PAIRS.index(pair) % len(RAISED)) in (0, WHERE.index(pair[0]) % 8), PAIRS),
)
async def test_what_a_users_code_raises_around_a_call_ends_no_payment_beside_it(where: str, what: str) -> None:
    of_tool, of_pipeline, outcome = refusing(RAISED[what], where)

    @tool(effect="pure", **of_tool)
    async def bad() -> str:
        """Work."""
        return "fine"

    paid.clear()
    turn = await turn_of([bad, pay], **of_pipeline)
    assert [seen.outcome for seen in turn.observations] == [outcome, "ok"]
    assert paid == ["paid"]
    assert turn.complete


@every("where", [where for where in WHERE if where != "validator"])
async def test_an_interrupt_is_let_out_wherever_it_is_raised(where: str, anyio_backend_name: str) -> None:
    if anyio_backend_name == "asyncio":
        pytest.skip("asyncio raises a task's interrupt out of the loop itself")
    of_tool, of_pipeline, _ = refusing(KeyboardInterrupt, where)

    @tool(effect="pure", **of_tool)
    async def bad() -> str:
        """Work."""
        return "fine"

    with pytest.raises(BaseException) as caught:
        await turn_of([bad], **of_pipeline)
    assert isinstance(caught.value, KeyboardInterrupt) or caught.group_contains(KeyboardInterrupt)


# -- errors without words ---------------------------------------------------------------------------------------------


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class WordlessToolError(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@every("captured", [False, True])
@every("sync", [False, True])
@every("kind", [Wordless, WordlessToolError])
async def test_an_error_that_has_no_words_is_a_failure_that_names_its_type(
    kind: type[Exception], sync: bool, captured: bool
) -> None:
    provider, exporter = kept_spans()
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
    "texts": lambda: {"all": ["\\u00e9" * 150_000_000]},
    "bytes": lambda: b"x" * 300_000_000,
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
@every("what", ["texts", "bytes", "numbers by name", "endless"])
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


async def test_a_generator_that_never_yields_is_timed_out_and_the_loop_goes_on() -> None:
    release, ticks = threading.Event(), 0

    def silent() -> Iterator[str]:
        while not release.wait(0.01):
            pass
        yield from ()

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
        says = f"{think.name}, call {call}: blocked the event loop for 0."
        (detail,) = [one.detail for one in seen[:at] if isinstance(one, StreamWarning) and says in one.detail]
        assert "make the tool a `def`" in detail
    (record,) = caplog.messages
    assert record.startswith(f"{think.name}: blocked the event loop for 0.")


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


@every("way", WAYS)
@every("is_long", [False, True])
async def test_a_rollback_in_a_tools_finally_is_awaited_and_cut_after_the_grace(way: str, is_long: bool) -> None:
    steps: list[str] = []

    @tool(effect="once", timeout=0.05 if way == "timeout" else None)
    async def work() -> str:
        """Work, and roll back."""
        try:
            await anyio.sleep_forever()
        finally:
            steps.append("began")
            try:
                await (anyio.sleep_forever() if is_long else anyio.sleep(0.01))
                steps.append("ended")
            except BaseException:
                steps.append("was cut")
                raise
        return "never"

    turn = await ended(way, work, start="early", limits=Limits(cancel_grace=0.05) if is_long else Limits())
    assert steps == ["began", "was cut" if is_long else "ended"]
    assert [seen.outcome for seen in turn.observations] == ["timed_out" if way == "timeout" else "cancelled"]
    assert is_long or turn.warnings == ()


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
