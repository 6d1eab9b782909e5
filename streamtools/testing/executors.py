"""Checks that an `Executor` keeps its contract, and raises `AssertionError` if not; see `check_executor`."""

from __future__ import annotations

import math
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from ..dispatch import Begin, Executor, Invocation, MemoryStore
from ..errors import BeginRefused, ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..executors import run_once
from ..front import ambient as ambient  # makes spans current where calls run, as every pipeline does
from ..telemetry.carrier import current_carrier
from ..tools import Tool, ToolContext, tool

__all__ = ["CHECKS", "TOOLS", "check_executor"]

WAIT_S = 20.0  # for each check; a worker may have to start


async def check_executor(
    make_executor: Callable[[list[Tool[..., Any]]], Executor], *, own_processes: bool = False
) -> list[str]:
    """Checks that an executor keeps the contract of `Executor`. Run it on every event loop that you support.

        @pytest.mark.anyio
        async def test_my_executor_does_what_executors_do() -> None:
            await check_executor(lambda tools: MyExecutor(tools))

    Args:
        make_executor: makes a new executor for the given tools, which are functions of
            ``streamtools.testing.executors``; at least two calls must run at once. All checks but those that close it
            share one executor. The tools count their effects in a file of this machine. Leaving the executor twice must
            be harmless.
        own_processes: the tools run in other processes of this machine; the checks then also kill one of these.

    Returns:
        The names of the checks, in order.

    Raises:
        AssertionError: the executor breaks the contract; the text says how. The remaining checks are not run.
    """
    together = [check for check in CHECKS if check not in CLOSING]
    if own_processes:
        together.append(a_lost_worker_leaves_one_effect_and_no_outcome)
    # One executor for all checks that leave it open, since a worker may have to start for each.
    rounds = [together, *([check] for check in CLOSING)]
    for checks in rounds:
        # Raised only after the executor's end: its own task group may wrap an error that passes through.
        failed: AssertionError | None = None
        with anyio.fail_after(WAIT_S * (len(checks) + 1)):
            async with make_executor([*TOOLS]) as executor:
                for check in checks:
                    if (failed := await _failed(check, executor)) is not None:
                        break
        if failed is not None:
            raise failed
    return [check.__name__ for checks in rounds for check in checks]


async def _failed(check: Check, executor: Any) -> AssertionError | None:
    with tempfile.TemporaryDirectory() as directory:
        try:
            with anyio.fail_after(WAIT_S):
                await check(Bench(executor, Path(directory, "marks")))
        except Exception as error:
            reason = f"it takes longer than {WAIT_S:g} s" if isinstance(error, TimeoutError) else repr(error)
            failed = AssertionError(f"{check.__name__}: {reason}")
            failed.__cause__ = error
            return failed
    return None


# -- the tools that the checks call --
#
# They stand in a module, so that workers can import them, and count their effects as lines of a file.

SECRET = "a value that nobody is to read"
PAUSE_S = 0.01


class Wordless(ToolError):
    def __str__(self) -> str:
        raise ValueError(SECRET)


FAILURES: dict[str, Callable[[str], BaseException]] = {
    "ToolError": ToolError,
    "ValueError": ValueError,
    "SystemExit": SystemExit,
    "BaseExceptionGroup": lambda text: BaseExceptionGroup(text, [SystemExit(text)]),
    "Wordless": Wordless,
}


def marks(path: str | Path) -> int:
    return Path(path).read_text().count("\n")


def _leave_mark(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")


@tool
async def echo(value: Any, ctx: ToolContext) -> Any:
    """Returns the value, and the facts of the call."""
    return {"value": value, "key": ctx.idempotency_key, "attempt": ctx.attempt, "carrier": current_carrier()}


@tool
async def fail(kind: str) -> None:
    """Raises."""
    raise FAILURES[kind](SECRET)


@tool
async def work(path: str, ctx: ToolContext) -> None:
    """Leaves marks and reports them, until it is cancelled."""
    while True:
        _leave_mark(path)
        ctx.progress("marked")
        await anyio.sleep(PAUSE_S)


@tool
async def mark(path: str, together: int = 1) -> str:
    """Has an effect; returns when so many calls have had it."""
    _leave_mark(path)
    while marks(path) < together:  # noqa: ASYNC110 - the other call may be in another process
        await anyio.sleep(PAUSE_S)
    return "done"


TOOLS: list[Tool[..., Any]] = [echo, fail, work, mark]


# -- the checks --
#
# Each check is given a fresh `Bench`, and raises if a promise is broken. Its name is the promise: it stands in the
# error.


class Bench:
    def __init__(self, executor: Executor, path: Path) -> None:
        self.executor = executor
        self.path = path
        self.progress: list[Any] = []
        self.begun = 0
        self.reported = anyio.Event()

    def call(self, tool: str, **arguments: Any) -> Invocation:
        return Invocation(tool=tool, arguments=arguments, key="key")

    def call_with_path(self, tool: str, **arguments: Any) -> Invocation:
        return self.call(tool, path=str(self.path), **arguments)

    async def run(self, call: Invocation, begin: Begin | None = None) -> Any:
        return await self.executor.run(call, begin or self.begin, self.report)

    async def begin(self) -> float:
        self.begun += 1
        return math.inf

    async def error_of(self, call: Invocation, begin: Begin | None = None) -> ToolError:
        try:
            value = await self.run(call, begin)
        except ToolError as error:
            return error
        raise AssertionError(f"{call.tool} should have raised, and returned a {type(value).__name__}")

    def report(self, value: Any) -> None:
        self.progress.append(value)
        self.reported.set()


def expect(holds: bool, promise: str, found: object) -> None:
    if not holds:
        raise AssertionError(f"{promise}; found {found!r}")


@asynccontextmanager
async def background(work: Callable[[], Awaitable[Any]]) -> AsyncIterator[anyio.CancelScope]:
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await work()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield scope


async def stops(path: Path) -> None:
    # It leaves one every 10 ms, so that 200 ms without one mean that it is over.
    before = -1
    while before != (before := marks(path)):  # noqa: ASYNC110 - it is another process that may go on
        await anyio.sleep(0.2)


async def nothing_ran(path: Path) -> None:
    # A tool that was started by mistake may be in another process, and has had no time for its mark.
    await anyio.sleep(0.2)
    expect(not path.exists(), "no tool should have run", path)  # noqa: ASYNC240 - one look


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def a_value_is_returned_unchanged(bench: Bench) -> None:
    value = {"text": "\u00e4\n\U0001f600", "list": [1, 2.5, None, True], "deep": {"er": {}}}
    seen = await bench.run(bench.call("echo", value=value))
    expect(seen["value"] == value, "the value should come back as it was", seen["value"])


async def the_tool_knows_its_call(bench: Bench) -> None:
    """Checks key, attempt, and that the W3C carrier is the tool's context. `begin` fills it, with which the call's span
    begins."""
    call = replace(bench.call("echo", value=1), key="order:7", attempt=3)

    async def begin() -> float:
        call.carrier["traceparent"] = TRACEPARENT
        return math.inf

    seen = await bench.run(call, begin)
    expect((seen["key"], seen["attempt"]) == ("order:7", 3), "ctx should tell the call's key and attempt", seen)
    found = seen["carrier"].get("traceparent")
    expect(found == TRACEPARENT, "the span in the carrier that begin fills should be the tool's current one", found)


async def an_exception_shows_its_type_alone(bench: Bench) -> None:
    """Checks `sys.exit`, in a group too, and an error whose text cannot be had."""
    # The error's text goes to the model; messages and tracebacks contain hosts, paths, credentials.
    for kind in FAILURES.keys() - {"ToolError"}:
        error = await bench.error_of(bench.call("fail", kind=kind))
        expect(type(error) is ToolFailed, f"{kind} should become ToolFailed", type(error))
        expect(kind in str(error), "it should name the type", str(error))
        leaks = SECRET in str(error) or "Traceback" in str(error) or __file__ in str(error)
        expect(not leaks, "it should hold neither message nor traceback", str(error))
    error = await bench.error_of(bench.call("fail", kind="ToolError"))
    expect(str(error) == SECRET, "a ToolError's own words should arrive as they are", str(error))
    await a_value_is_returned_unchanged(bench)


async def an_unknown_tool_or_bad_arguments_start_nothing(bench: Bench) -> None:
    """Checks that the tool validates in its own process, before the call has begun."""
    for call in (bench.call("no_such_tool"), bench.call("mark", wrong=str(bench.path))):
        error = await bench.error_of(call)
        expect(isinstance(error, ToolNotStarted), "it should be ToolNotStarted", type(error))
    expect(bench.begun == 0, "begin should not have been awaited", bench.begun)
    await nothing_ran(bench.path)


async def it_begins_once_and_before_the_tool(bench: Bench) -> None:
    async def begin() -> float:
        await nothing_ran(bench.path)
        return await bench.begin()

    await bench.run(bench.call_with_path("mark"), begin)
    expect(bench.begun == 1, "begin should have been awaited once", bench.begun)
    expect(marks(bench.path) == 1, "the tool should have run once", marks(bench.path))


async def a_refused_begin_runs_nothing_and_is_raised_unchanged(bench: Bench) -> None:
    for refusal in (BeginRefused("its end is on record"), LookupError("no row")):

        async def begin(refusal: Exception = refusal) -> float:
            raise refusal

        found: object = None
        try:
            found = await bench.run(bench.call_with_path("mark"), begin)
        except Exception as error:
            found = error
        expect(found is refusal, "what begin raises should come out as it is", found)
    await nothing_ran(bench.path)
    await a_value_is_returned_unchanged(bench)


async def a_call_that_is_cancelled_as_it_begins_runs_nothing(bench: Bench) -> None:
    begins, begin = _waiting()
    async with background(partial(bench.run, bench.call_with_path("mark"), begin)) as scope:
        await begins.wait()
        scope.cancel()
    await nothing_ran(bench.path)
    await a_value_is_returned_unchanged(bench)


def _waiting() -> tuple[anyio.Event, Callable[[], Awaitable[float]]]:
    """Returns a `begin` that never ends, and the event that is set when it is awaited."""
    begins = anyio.Event()

    async def begin() -> float:
        begins.set()
        await anyio.sleep_forever()
        raise AssertionError("nobody wakes it")  # pragma: no cover

    return begins, begin


async def its_time_begins_when_the_call_has_begun(bench: Bench) -> None:
    """Checks that waiting for a place, a worker or `begin` is not part of the tool's time, at whose end it stops."""

    async def begin() -> float:  # longer than the tool may run, which then has its whole time: three marks at least
        await anyio.sleep(1.2)
        return 1.1

    error = await bench.error_of(bench.call_with_path("work"), begin)
    expect(isinstance(error, ToolTimeout), "a deadline should be ToolTimeout", type(error))
    expect(len(bench.progress) >= 3, "the tool should have had its time", bench.progress)
    await stops(bench.path)


async def cancellation_ends_the_work_and_its_progress(bench: Bench) -> None:
    async def begin() -> float:
        await nothing_ran(bench.path)
        expect(bench.progress == [], "nothing should be reported before begin", bench.progress)
        return math.inf

    async with background(partial(bench.run, bench.call_with_path("work"), begin)) as scope:
        await bench.reported.wait()
        scope.cancel()
    reported = list(bench.progress)
    await stops(bench.path)
    expect(set(reported) == {"marked"}, "progress should arrive as it was reported", reported)
    expect(bench.progress == reported, "nothing should be reported after the end", bench.progress)


async def calls_run_side_by_side(bench: Bench) -> None:
    call = bench.call_with_path("mark", together=2)
    async with background(partial(bench.run, call)):
        await bench.run(call)


async def once_means_once(bench: Bench) -> None:
    store, call = MemoryStore(), bench.call_with_path("mark")
    answers = [await run_once(store, bench.executor, call) for _ in range(3)]
    expect([answer.value for answer in answers] == ["done"] * 3, "each should get the result", answers)
    expect([answer.recorded for answer in answers] == [False, True, True], "only the first should run", answers)
    expect(marks(bench.path) == 1, "there should be one effect", marks(bench.path))


async def closing_ends_what_runs(bench: Bench) -> None:
    ended = await _closed(bench, bench.call_with_path("work"), bench.begin, bench.reported)
    expect(isinstance(ended, ToolOutcomeUnknown), "a call cut by closing should be unknown", type(ended))
    await stops(bench.path)
    error = await bench.error_of(bench.call("echo", value=1))
    expect(isinstance(error, ToolNotStarted), "a closed executor should start nothing", type(error))


async def closing_starts_nothing_that_waits(bench: Bench) -> None:
    begins, begin = _waiting()
    ended = await _closed(bench, bench.call_with_path("mark"), begin, begins)
    expect(isinstance(ended, ToolNotStarted), "a call that waits at closing should be ToolNotStarted", type(ended))
    await nothing_ran(bench.path)


async def _closed(bench: Bench, call: Invocation, begin: Begin, when: anyio.Event) -> ToolError:
    ended: list[ToolError] = []

    async def run() -> None:
        ended.append(await bench.error_of(call, begin))

    async with background(run):
        await when.wait()
        await bench.executor.__aexit__(None, None, None)
    return ended[0]


async def a_lost_worker_leaves_one_effect_and_no_outcome(bench: Bench) -> None:
    """Checks executors with worker processes on this machine: SIGKILL in the middle of a call."""
    store, call = MemoryStore(), bench.call_with_path("work")
    ended: list[ToolError] = []

    async def run() -> None:
        try:
            await run_once(store, bench.executor, call, bench.report)
        except ToolError as error:
            ended.append(error)

    async with background(run):
        await bench.reported.wait()
        worker = int(bench.path.read_text().splitlines()[0])
        expect(worker != os.getpid(), "the tool should run in a worker process", worker)
        os.kill(worker, signal.SIGKILL)
    effects = marks(bench.path)
    await run()
    for error in ended:
        expect(isinstance(error, ToolOutcomeUnknown), "a lost worker should be ToolOutcomeUnknown, also later", error)
    expect((len(ended), marks(bench.path)) == (2, effects), "it should not have run again", ended)
    await a_value_is_returned_unchanged(bench)


Check: TypeAlias = Callable[[Bench], Awaitable[None]]

CLOSING: tuple[Check, ...] = (closing_ends_what_runs, closing_starts_nothing_that_waits)

CHECKS: tuple[Check, ...] = (
    a_value_is_returned_unchanged, the_tool_knows_its_call, an_exception_shows_its_type_alone,
    an_unknown_tool_or_bad_arguments_start_nothing, it_begins_once_and_before_the_tool,
    a_refused_begin_runs_nothing_and_is_raised_unchanged, a_call_that_is_cancelled_as_it_begins_runs_nothing,
    its_time_begins_when_the_call_has_begun, cancellation_ends_the_work_and_its_progress,
    calls_run_side_by_side, once_means_once, *CLOSING,
)  # fmt: skip
