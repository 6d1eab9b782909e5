"""Checks that an `Executor` keeps its promises, and raises `AssertionError` if not; see `check_executor`."""

from __future__ import annotations

import functools
import math
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import anyio

from ..dispatch import Begin, Executor, Invocation, MemoryStore
from ..errors import BeginRefused, ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..executors import run_once
from ..parts import WAITS
from ..telemetry.carrier import current_carrier
from ..tools import Tool, ToolContext, tool

__all__ = ["CHECKS", "Check", "MakeExecutor", "TOOLS", "check_executor"]

MakeExecutor: TypeAlias = Callable[[list[Tool[..., Any]]], Executor]

WAIT_S = 20.0  # for each check; a worker may have to start


async def check_executor(
    make_executor: MakeExecutor, *, tools: Literal["async", "sync"] = "async", own_processes: bool = False
) -> list[str]:
    """Checks that an executor keeps the promises of `Executor`. Run it on every event loop that you support.

        @pytest.mark.anyio
        async def test_my_executor_does_what_executors_do() -> None:
            await check_executor(lambda tools: MyExecutor(tools))

    Args:
        make_executor: makes a fresh executor for the given tools, which are functions of
            ``streamtools.testing.executors``; at least two calls must run at once. One executor serves all checks
            but those that close it. The tools count their effects in a file of this machine. Leaving the executor twice
            must do no harm.
        tools: the form of tool that the executor runs.
        own_processes: tools run in other processes of this machine; one of them is then killed, too.

    Returns:
        The names of the checks, in order.

    Raises:
        AssertionError: the executor breaks a promise, which the text names. The remaining checks are not run.
    """
    together = [check for check in CHECKS if check not in CLOSING] + list(LOST_WORKER if own_processes else ())
    # One executor for all checks that leave it open, since a worker may have to start for each.
    rounds = [together, *([check] for check in CLOSING)]
    for checks in rounds:
        await _checked(checks, make_executor(list(TOOLS[tools])))
    return [_name(check) for checks in rounds for check in checks]


async def _checked(checks: Sequence[Check], executor: Executor) -> None:
    # Raised only after the executor's end: its own task group may wrap an error that passes through.
    failed: AssertionError | None = None
    try:
        with anyio.fail_after(WAIT_S * (len(checks) + 1)):
            async with executor:
                for check in checks:
                    failed = await _failed(check, executor)
                    if failed is not None:
                        break
    except Exception as error:  # raised while it was entered or left
        failed = failed or AssertionError(f"{_name(checks[-1])}: {error!r}")
        failed.__cause__ = failed.__cause__ or error
    if failed is not None:
        raise failed


async def _failed(check: Check, executor: Executor) -> AssertionError | None:
    with tempfile.TemporaryDirectory() as directory:
        try:
            with anyio.fail_after(WAIT_S):
                await check(Bench(executor, Path(directory, "marks")))
        except Exception as error:
            reason = f"it takes longer than {WAIT_S:g} s" if isinstance(error, TimeoutError) else repr(error)
            failed = AssertionError(f"{_name(check)}: {reason}")
            failed.__cause__ = error
            return failed
    return None


def _name(check: Check) -> str:
    return getattr(check, "__name__", repr(check))


# -- the tools that the checks call --
#
# Each has an async and a sync form, and stands in a module, so that workers can import it. Tools count their effects as
# lines of a file, and wait by short pauses, since the code that waits may be in another process.

SECRET = "a value that nobody is to read"


def marks(path: str | Path) -> int:
    return Path(path).read_text().count("\n")


def _echo(value: Any, ctx: ToolContext) -> Any:
    return {"value": value, "key": ctx.idempotency_key, "attempt": ctx.attempt, "carrier": current_carrier()}


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


def _raise(kind: str) -> None:
    raise FAILURES[kind](SECRET)


def _mark(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")


@tool(name="echo")
async def echo_async(value: Any, ctx: ToolContext) -> Any:
    """Returns the value, and the facts of the call."""
    return _echo(value, ctx)


@tool(name="echo")
def echo_sync(value: Any, ctx: ToolContext) -> Any:
    """Returns the value, and the facts of the call."""
    return _echo(value, ctx)


@tool(name="fail")
async def fail_async(kind: str) -> None:
    """Raises."""
    _raise(kind)


@tool(name="fail")
def fail_sync(kind: str) -> None:
    """Raises."""
    _raise(kind)


@tool(name="work")
async def work_async(path: str, ctx: ToolContext) -> None:
    """Leaves marks and reports them, until it is cancelled."""
    while True:
        _mark(path)
        ctx.progress("marked")
        await anyio.sleep(0.01)


@tool(name="work")
def work_sync(path: str, ctx: ToolContext) -> None:
    """Leaves marks and reports them, until it is cancelled."""
    pause = threading.Event()
    while not ctx.cancelled:
        _mark(path)
        ctx.progress("marked")
        pause.wait(0.01)


@tool(name="meet")
async def meet_async(path: str, ctx: ToolContext) -> int:
    """Returns when two calls are running."""
    _mark(path)
    while marks(path) < 2:  # noqa: ASYNC110 - the other call may be in another process
        await anyio.sleep(0.01)
    return marks(path)


@tool(name="meet")
def meet_sync(path: str, ctx: ToolContext) -> int:
    """Returns when two calls are running."""
    _mark(path)
    pause = threading.Event()
    while marks(path) < 2 and not ctx.cancelled:
        pause.wait(0.01)
    return marks(path)


@tool(name="mark")
async def mark_async(path: str) -> str:
    """Has an effect."""
    _mark(path)
    return "done"


@tool(name="mark")
def mark_sync(path: str) -> str:
    """Has an effect."""
    _mark(path)
    return "done"


TOOLS: dict[str, list[Tool[..., Any]]] = {
    "async": [echo_async, fail_async, work_async, meet_async, mark_async],
    "sync": [echo_sync, fail_sync, work_sync, meet_sync, mark_sync],
}


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

    def call(self, tool: str, *, key: str = "key", **arguments: Any) -> Invocation:
        return Invocation(tool=tool, arguments=arguments, key=key)

    async def run(self, call: Invocation, begin: Begin | None = None, *, seconds: float = math.inf) -> Any:
        return await self.executor.run(call, begin or self.begin_with(seconds), self.report)

    def begin_with(self, seconds: float) -> Begin:
        """Returns a `begin` that lets a call run for so long, and counts in `begun` how often it was awaited."""

        async def begin() -> float:
            self.begun += 1
            return seconds

        return begin

    async def error_of(self, call: Invocation, begin: Begin | None = None, *, seconds: float = math.inf) -> ToolError:
        try:
            value = await self.run(call, begin, seconds=seconds)
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


async def the_tool_has_its_key_and_attempt(bench: Bench) -> None:
    seen = await bench.run(replace(bench.call("echo", value=1, key="order:7"), attempt=3))
    expect((seen["key"], seen["attempt"]) == ("order:7", 3), "ctx should tell the call's key and attempt", seen)


async def the_tools_span_belongs_to_the_callers(bench: Bench) -> None:
    """Checks that the W3C carrier is the tool's context. `begin` fills it, with which the call's span begins."""
    call = bench.call("echo", value=1)

    async def begin() -> float:
        call.carrier["traceparent"] = TRACEPARENT
        return math.inf

    found = (await bench.run(call, begin))["carrier"].get("traceparent")
    expect(found == TRACEPARENT, "the span in the carrier that begin fills should be the tool's current one", found)


async def an_exception_shows_its_type_alone(bench: Bench) -> None:
    # The error's text goes to the model; messages and tracebacks contain hosts, paths, credentials.
    error = await bench.error_of(bench.call("fail", kind="ValueError"))
    expect(type(error) is ToolFailed, "an exception should become ToolFailed", type(error))
    expect("ValueError" in str(error), "it should name the type", str(error))
    leaks = SECRET in str(error) or "Traceback" in str(error) or __file__ in str(error)
    expect(not leaks, "it should hold neither message nor traceback", str(error))


async def a_tool_error_keeps_its_words(bench: Bench) -> None:
    error = await bench.error_of(bench.call("fail", kind="ToolError"))
    expect(str(error) == SECRET, "a ToolError's text should arrive as it is", str(error))


async def whatever_a_tool_raises_is_its_failure(bench: Bench) -> None:
    """Checks `sys.exit`, in a group too, and an error whose text cannot be had."""
    for kind in ("SystemExit", "BaseExceptionGroup", "Wordless"):
        error = await bench.error_of(bench.call("fail", kind=kind))
        expect(type(error) is ToolFailed, f"{kind} should become ToolFailed", type(error))
        expect(kind in str(error), "it should name the type", str(error))


async def after_a_failure_it_runs_calls_as_before(bench: Bench) -> None:
    await bench.error_of(bench.call("fail", kind="ValueError"))
    await a_value_is_returned_unchanged(bench)


async def an_unknown_tool_is_not_started(bench: Bench) -> None:
    error = await bench.error_of(bench.call("no_such_tool"))
    expect(isinstance(error, ToolNotStarted), "an unknown tool should be ToolNotStarted", type(error))
    expect(bench.begun == 0, "begin should not have been awaited", bench.begun)


async def arguments_that_do_not_fit_are_not_started(bench: Bench) -> None:
    """Checks that the tool validates in its own process, before the call has begun."""
    error = await bench.error_of(bench.call("mark", wrong=str(bench.path)))
    expect(isinstance(error, ToolNotStarted), "bad arguments should be ToolNotStarted", type(error))
    expect(bench.begun == 0, "begin should not have been awaited", bench.begun)
    await nothing_ran(bench.path)


async def it_begins_once_and_before_the_tool(bench: Bench) -> None:
    async def begin() -> float:
        bench.begun += 1
        await nothing_ran(bench.path)
        return math.inf

    await bench.run(bench.call("mark", path=str(bench.path)), begin)
    expect(bench.begun == 1, "begin should have been awaited once", bench.begun)
    expect(marks(bench.path) == 1, "the tool should have run once", marks(bench.path))


async def a_refused_begin_runs_nothing_and_is_raised_unchanged(bench: Bench) -> None:
    for refusal in (BeginRefused("its end is on record"), LookupError("no row")):
        found = await _refused(bench, refusal)
        expect(found is refusal, "what begin raises should come out as it is", found)
    await nothing_ran(bench.path)
    await a_value_is_returned_unchanged(bench)


async def _refused(bench: Bench, refusal: Exception) -> object:
    async def begin() -> NoReturn:
        raise refusal

    try:
        return await bench.run(bench.call("mark", path=str(bench.path)), begin)
    except Exception as error:
        return error


async def a_call_that_is_cancelled_as_it_begins_runs_nothing(bench: Bench) -> None:
    begins, begin = _waiting()
    call = bench.call("mark", path=str(bench.path))
    async with background(functools.partial(bench.run, call, begin)) as scope:
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
    """Checks that waiting for a place, a worker or `begin` is not part of the tool's time."""
    # A `begin` that takes longer than the tool may run, which then has its whole time: three marks at least.
    third = anyio.Event()

    async def begin() -> float:
        await anyio.sleep(1.2)
        return 1.1

    def report(value: Any) -> None:
        bench.report(value)
        if len(bench.progress) == 3:
            third.set()

    call = bench.call("work", path=str(bench.path))
    async with background(functools.partial(bench.executor.run, call, begin, report)) as scope:
        await third.wait()
        scope.cancel()


async def a_deadline_ends_the_work(bench: Bench) -> None:
    error = await bench.error_of(bench.call("work", path=str(bench.path)), seconds=1)
    expect(isinstance(error, ToolTimeout), "a deadline should be ToolTimeout", type(error))
    expect(bool(bench.progress), "the tool should have had its time", bench.progress)
    await stops(bench.path)


async def cancellation_reaches_the_work(bench: Bench) -> None:
    async with background(functools.partial(bench.run, bench.call("work", path=str(bench.path)))) as scope:
        await bench.reported.wait()
        scope.cancel()
    await stops(bench.path)


async def progress_is_reported_while_the_tool_runs(bench: Bench) -> None:
    async def begin() -> float:
        await nothing_ran(bench.path)
        expect(bench.progress == [], "nothing should be reported before begin", bench.progress)
        return math.inf

    async with background(functools.partial(bench.run, bench.call("work", path=str(bench.path)), begin)) as scope:
        await bench.reported.wait()
        scope.cancel()
    reported = list(bench.progress)
    await stops(bench.path)
    expect(set(reported) == {"marked"}, "progress should arrive as it was reported", reported)
    expect(bench.progress == reported, "nothing should be reported after the end", bench.progress)


async def it_names_waits_by_the_table_until_the_call_begins(bench: Bench) -> None:
    """Checks that the reasons which an executor reports are those of `WAITS`, and that none follows `begin`."""

    async def named() -> None:
        reasons: list[str] = []

        async def begin() -> float:
            reasons.append("begin")
            return math.inf

        await bench.run(replace(bench.call("echo", value=1), waits_for=reasons.append), begin)
        strangers = sorted({*reasons[:-1]} - {*WAITS})
        expect(not strangers, "a reason to wait should be one of parts.WAITS", strangers)
        expect(reasons[-1:] == ["begin"], "no reason should be reported after begin", reasons)

    failed: list[BaseException] = []

    async def kept() -> None:
        try:
            await named()
        except AssertionError as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(kept)
    if failed:
        raise failed[0]


async def calls_run_side_by_side(bench: Bench) -> None:
    call = bench.call("meet", path=str(bench.path))
    async with background(functools.partial(bench.run, call)):
        seen = await bench.run(call)
    expect(seen == 2, "two calls should run at once", seen)


async def once_means_once(bench: Bench) -> None:
    store, call = MemoryStore(), bench.call("mark", path=str(bench.path))
    answers = [await run_once(store, bench.executor, call) for _ in range(3)]
    expect([answer.value for answer in answers] == ["done"] * 3, "each should get the result", answers)
    expect([answer.recorded for answer in answers] == [False, True, True], "only the first should run", answers)
    expect(marks(bench.path) == 1, "there should be one effect", marks(bench.path))


async def closing_ends_what_runs(bench: Bench) -> None:
    ended = await _closed(bench, bench.call("work", path=str(bench.path)), bench.begin_with(math.inf), bench.reported)
    expect(isinstance(ended, ToolOutcomeUnknown), "a call cut by closing should be unknown", type(ended))
    await stops(bench.path)
    error = await bench.error_of(bench.call("echo", value=1))
    expect(isinstance(error, ToolNotStarted), "a closed executor should start nothing", type(error))


async def closing_starts_nothing_that_waits(bench: Bench) -> None:
    begins, begin = _waiting()
    ended = await _closed(bench, bench.call("mark", path=str(bench.path)), begin, begins)
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
    store, call = MemoryStore(), bench.call("work", path=str(bench.path))
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
    expect(isinstance(ended[0], ToolOutcomeUnknown), "a lost worker should be ToolOutcomeUnknown", type(ended[0]))
    effects = marks(bench.path)
    await run()
    expect(isinstance(ended[1], ToolOutcomeUnknown), "asked again, it should still be unknown", type(ended[1]))
    expect(marks(bench.path) == effects, "it should not have run again", bench.path)
    await a_value_is_returned_unchanged(bench)


Check: TypeAlias = Callable[[Bench], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    a_value_is_returned_unchanged, the_tool_has_its_key_and_attempt, the_tools_span_belongs_to_the_callers,
    an_exception_shows_its_type_alone, a_tool_error_keeps_its_words, whatever_a_tool_raises_is_its_failure,
    after_a_failure_it_runs_calls_as_before, an_unknown_tool_is_not_started, arguments_that_do_not_fit_are_not_started,
    it_begins_once_and_before_the_tool, a_refused_begin_runs_nothing_and_is_raised_unchanged,
    a_call_that_is_cancelled_as_it_begins_runs_nothing, its_time_begins_when_the_call_has_begun,
    a_deadline_ends_the_work, cancellation_reaches_the_work, progress_is_reported_while_the_tool_runs,
    it_names_waits_by_the_table_until_the_call_begins, calls_run_side_by_side, once_means_once, closing_ends_what_runs,
    closing_starts_nothing_that_waits,
)  # fmt: skip

CLOSING: tuple[Check, ...] = (closing_ends_what_runs, closing_starts_nothing_that_waits)

LOST_WORKER: tuple[Check, ...] = (a_lost_worker_leaves_one_effect_and_no_outcome,)
"""The check of an executor whose tools run in processes of their own on this machine."""
