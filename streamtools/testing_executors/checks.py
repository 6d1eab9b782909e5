"""What an executor must do, one check each. A check is given an executor that nobody has used, and raises."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from ..dispatch.executors import Invocation, MemoryStore, run_once
from ..errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from .bench import Bench, background, expect, stops
from .tools import SECRET, marks

__all__ = ["CHECKS", "LOST_WORKER", "Check"]

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def a_value_comes_back_as_it_is(bench: Bench) -> None:
    """JSON values go there and back."""
    value = {"text": "\u00e4\n\U0001f600", "list": [1, 2.5, None, True], "deep": {"er": {}}}
    seen = await bench.run(bench.call("echo", value=value))
    expect(seen["value"] == value, "the value should come back as it was", seen["value"])


async def the_tool_is_told_its_key_and_attempt(bench: Bench) -> None:
    """Whatever the executor."""
    seen = await bench.run(replace(bench.call("echo", value=1, key="order:7"), attempt=3))
    expect((seen["key"], seen["attempt"]) == ("order:7", 3), "ctx should tell the call's key and attempt", seen)


async def the_tools_span_belongs_to_the_callers(bench: Bench) -> None:
    """The W3C carrier is the tool's context."""
    seen = await bench.run(replace(bench.call("echo", value=1), carrier={"traceparent": TRACEPARENT}))
    found = seen["carrier"].get("traceparent")
    expect(found == TRACEPARENT, "the carrier's span should be the tool's current one", found)


async def an_exception_tells_its_type_and_nothing_more(bench: Bench) -> None:
    """Messages and tracebacks hold hosts, paths, credentials."""
    error = await bench.error_of(bench.call("fail", kind="ValueError"))
    expect(type(error) is ToolFailed, "an exception should become ToolFailed", type(error))
    expect("ValueError" in str(error), "it should name the type", str(error))
    told = SECRET in str(error) or "Traceback" in str(error) or __file__ in str(error)
    expect(not told, "it should hold neither message nor traceback", str(error))


async def a_tool_error_keeps_its_words(bench: Bench) -> None:
    """They are for the model."""
    error = await bench.error_of(bench.call("fail", kind="ToolError"))
    expect(str(error) == SECRET, "a ToolError's text should arrive as it is", str(error))


async def after_a_failure_it_runs_calls_as_before(bench: Bench) -> None:
    """A tool that fails harms no other."""
    await bench.error_of(bench.call("fail", kind="ValueError"))
    await a_value_comes_back_as_it_is(bench)


async def an_unknown_tool_is_not_started(bench: Bench) -> None:
    """And says so."""
    error = await bench.error_of(bench.call("no_such_tool"))
    expect(isinstance(error, ToolNotStarted), "an unknown tool should be ToolNotStarted", type(error))


async def arguments_that_do_not_fit_are_not_started(bench: Bench) -> None:
    """The tool validates where it is."""
    error = await bench.error_of(bench.call("mark", wrong=str(bench.path)))
    expect(isinstance(error, ToolNotStarted), "bad arguments should be ToolNotStarted", type(error))
    expect(not bench.path.exists(), "nothing should have run", bench.path)


async def a_deadline_that_is_over_is_not_started(bench: Bench) -> None:
    """The tool never sees the call."""
    error = await bench.error_of(bench.call("mark", seconds=-1, path=str(bench.path)))
    expect(isinstance(error, ToolNotStarted), "a deadline in the past should be ToolNotStarted", type(error))
    expect(not bench.path.exists(), "nothing should have run", bench.path)


async def a_deadline_ends_the_work(bench: Bench) -> None:
    """It is a `ToolTimeout`, and the tool stops."""
    await bench.run(bench.call("echo", value="a worker is there now"))
    error = await bench.error_of(bench.call("work", seconds=1, path=str(bench.path)))
    expect(isinstance(error, ToolTimeout), "a deadline should be ToolTimeout", type(error))
    await stops(bench.path)


async def cancellation_reaches_the_work(bench: Bench) -> None:
    """Who stops waiting stops the work."""
    async with background(functools.partial(bench.run, bench.call("work", path=str(bench.path)))) as scope:
        await bench.reported.wait()
        scope.cancel()
    await stops(bench.path)


async def progress_comes_while_the_tool_runs(bench: Bench) -> None:
    """Not with the result; this tool has none."""
    async with background(functools.partial(bench.run, bench.call("work", path=str(bench.path)))) as scope:
        await bench.reported.wait()
        scope.cancel()
    expect(set(bench.progress) == {"marked"}, "progress should arrive as it was reported", bench.progress)


async def calls_run_side_by_side(bench: Bench) -> None:
    """Two that wait for each other."""
    call = bench.call("meet", path=str(bench.path))
    async with background(functools.partial(bench.run, call)):
        seen = await bench.run(call)
    expect(seen == 2, "two calls should run at once", seen)


async def once_means_once(bench: Bench) -> None:
    """The second call with a key gets the first one's result."""
    store, call = MemoryStore(), bench.call("mark", path=str(bench.path))
    answers = [await run_once(store, call, functools.partial(bench.run, call)) for _ in range(3)]
    expect([answer.value for answer in answers] == ["done"] * 3, "each should get the result", answers)
    expect([answer.recorded for answer in answers] == [False, True, True], "only the first should run", answers)
    expect(marks(bench.path) == 1, "there should be one effect", marks(bench.path))


async def closing_ends_what_runs(bench: Bench) -> None:
    """Its end is unknown to who waits for it; then nothing runs any more."""
    ended: list[ToolError] = []

    async def run(call: Invocation) -> None:
        ended.append(await bench.error_of(call))

    async with background(functools.partial(run, bench.call("work", path=str(bench.path)))):
        await bench.reported.wait()
        await bench.executor.__aexit__(None, None, None)
    expect(isinstance(ended[0], ToolOutcomeUnknown), "a call cut by closing should be unknown", type(ended[0]))
    await stops(bench.path)
    error = await bench.error_of(bench.call("echo", value=1))
    expect(isinstance(error, ToolNotStarted), "a closed executor should start nothing", type(error))


async def a_lost_worker_leaves_one_effect_and_no_outcome(bench: Bench) -> None:
    """For executors with worker processes on this machine: SIGKILL in the middle of a call."""
    store, call = MemoryStore(), bench.call("work", path=str(bench.path))
    ended: list[ToolError] = []

    async def run() -> None:
        try:
            await run_once(store, call, functools.partial(bench.run, call))
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
    await a_value_comes_back_as_it_is(bench)


Check: TypeAlias = Callable[[Bench], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    a_value_comes_back_as_it_is,
    the_tool_is_told_its_key_and_attempt,
    the_tools_span_belongs_to_the_callers,
    an_exception_tells_its_type_and_nothing_more,
    a_tool_error_keeps_its_words,
    after_a_failure_it_runs_calls_as_before,
    an_unknown_tool_is_not_started,
    arguments_that_do_not_fit_are_not_started,
    a_deadline_that_is_over_is_not_started,
    a_deadline_ends_the_work,
    cancellation_reaches_the_work,
    progress_comes_while_the_tool_runs,
    calls_run_side_by_side,
    once_means_once,
    closing_ends_what_runs,
)
"""What any executor must do."""

LOST_WORKER: tuple[Check, ...] = (a_lost_worker_leaves_one_effect_and_no_outcome,)
"""And one whose tools run in processes of their own on this machine."""
