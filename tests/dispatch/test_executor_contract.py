"""One contract for all executors, and an executor for each of its checks that breaks it."""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from streamtools.dispatch.executor import Begin, Emit
from streamtools.dispatch.executors import Executor, Invocation, LocalExecutor, ProcessExecutor
from streamtools.errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from streamtools.event_loop import call_soon
from streamtools.testing import check_executor
from streamtools.testing.executors import CHECKS

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


@pytest.mark.thorough
@pytest.mark.parametrize(("anyio_backend", "tools"), [("asyncio", "async"), ("trio", "sync")])
async def test_worker_processes_do_what_executors_do(tools: Any) -> None:
    """The event loop here and the form of the tools there have nothing to do with each other."""
    checked = await check_executor(ProcessExecutor, tools=tools, own_processes=True)
    assert len(checked) == len(CHECKS) + 1


# -- each check sees the executor that breaks it --


class Altered:
    """An executor that does one thing otherwise."""

    def __init__(self, alter: Callable[[Executor, Invocation, Begin, Emit], Awaitable[Any]], tools: Any) -> None:
        self.inner = LocalExecutor(tools)
        self.alter = alter

    async def __aenter__(self) -> Altered:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.inner.__aexit__(*raised)

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        return await self.alter(self.inner, call, begin, emit)


async def text_for_value(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    value = await inner.run(call, begin, emit)
    return {**value, "value": str(value["value"])} if call.tool == "echo" else value


async def no_attempt(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    return await inner.run(replace(call, attempt=1), begin, emit)


async def early_carrier(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    return await inner.run(replace(call, carrier=dict(call.carrier)), begin, emit)


def rewording(caught: type[Exception], made: Callable[[Any], BaseException]) -> Any:
    """Returns an alteration that raises another error."""

    async def alter(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
        try:
            return await inner.run(call, begin, emit)
        except caught as error:
            raise made(error) from error

    return alter


telling = rewording(ToolFailed, lambda error: ToolFailed(f"{error}: {error.__cause__}"))
wordless = rewording(ToolError, lambda error: error if isinstance(error, ToolFailed) else ToolFailed("failed"))
nameless = rewording(ToolFailed, lambda error: ToolFailed(str(error).replace("SystemExit", "an exit")))
unknowing = rewording(ToolNotStarted, lambda error: ToolOutcomeUnknown("who knows"))
not_timed_out = rewording(ToolTimeout, lambda error: ToolOutcomeUnknown("late"))
failing_at_closing = rewording(ToolOutcomeUnknown, lambda error: ToolFailed("closed"))
refusing_in_its_own_words = rewording(Exception, lambda e: ToolNotStarted("no") if type(e) is LookupError else e)


async def forgiving(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    except ToolFailed:
        return None


async def beginning_first(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    return await inner.run(call, given(await begin()), emit)


def given(seconds: float) -> Begin:
    """Returns a `begin` that does nothing else."""

    async def begin() -> float:
        return seconds

    return begin


async def beginning_late(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    value = await inner.run(call, given(math.inf), emit) if call.tool == "mark" else None
    return await inner.run(call, begin, emit) if value is None else (value, await begin())


async def beginning_twice(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    async def twice() -> float:
        await begin()
        return await begin()

    return await inner.run(call, twice, emit)


async def twice(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    value = await inner.run(call, begin, emit)
    return await inner.run(call, given(math.inf), emit) if call.tool == "mark" else value


async def running_what_was_refused(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    except LookupError:
        await inner.run(call, given(math.inf), emit)
        raise


async def running_what_was_cancelled(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    except anyio.get_cancelled_exc_class():
        if call.tool == "mark":
            with anyio.CancelScope(shield=True):
                await inner.run(call, given(math.inf), emit)
        raise


async def counting_the_wait(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    since = anyio.current_time()

    async def counting() -> float:
        return await begin() - (anyio.current_time() - since)

    return await inner.run(call, counting, emit)


async def silent(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    return await inner.run(call, begin, lambda value: emit(str(value).upper()))


async def reporting_early(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    emit("marked")
    return await inner.run(call, begin, emit)


async def reporting_late(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    finally:
        late(functools.partial(emit, "marked"))


def late(work: Callable[[], Any]) -> None:
    """Do something when the caller has gone on, in the event loop."""
    token = anyio.lowlevel.current_token()
    call_soon(token, lambda: call_soon(token, lambda: call_soon(token, lambda: call_soon(token, work))))


async def waiting_for_anything(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    call.waits_for("quota")  # type: ignore[arg-type]  # that is the point
    return await inner.run(call, begin, emit)


async def waiting_late(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    value = await inner.run(call, begin, emit)
    call.waits_for("executor")
    return value


async def unknown_at_closing(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    begins = False

    async def noted() -> float:
        nonlocal begins
        begins = True
        try:
            return await begin()
        except Exception:
            begins = False
            raise

    try:
        return await inner.run(call, noted, emit)
    except ToolNotStarted as error:
        raise ToolOutcomeUnknown("closed") if begins else error from error


BROKEN: dict[str, tuple[Any, str]] = {
    "text_for_value": (text_for_value, "a_value_is_returned_unchanged"),
    "no_attempt": (no_attempt, "the_tool_has_its_key_and_attempt"),
    "early_carrier": (early_carrier, "the_tools_span_belongs_to_the_callers"),
    "forgiving": (forgiving, "an_exception_shows_its_type_alone"),
    "telling": (telling, "an_exception_shows_its_type_alone"),
    "wordless": (wordless, "a_tool_error_keeps_its_words"),
    "nameless": (nameless, "whatever_a_tool_raises_is_its_failure"),
    "unknowing": (unknowing, "an_unknown_tool_is_not_started"),
    "beginning_first": (beginning_first, "an_unknown_tool_is_not_started"),
    "beginning_late": (beginning_late, "it_begins_once_and_before_the_tool"),
    "beginning_twice": (beginning_twice, "it_begins_once_and_before_the_tool"),
    "twice": (twice, "it_begins_once_and_before_the_tool"),
    "refusing_in_its_own_words": (refusing_in_its_own_words, "a_refused_begin_runs_nothing_and_is_raised_unchanged"),
    "running_what_was_refused": (running_what_was_refused, "a_refused_begin_runs_nothing_and_is_raised_unchanged"),
    "running_what_was_cancelled": (running_what_was_cancelled, "a_call_that_is_cancelled_as_it_begins_runs_nothing"),
    "counting_the_wait": (counting_the_wait, "its_time_begins_when_the_call_has_begun"),
    "not_timed_out": (not_timed_out, "a_deadline_ends_the_work"),
    "silent": (silent, "progress_is_reported_while_the_tool_runs"),
    "reporting_early": (reporting_early, "progress_is_reported_while_the_tool_runs"),
    "reporting_late": (reporting_late, "progress_is_reported_while_the_tool_runs"),
    "waiting_for_anything": (waiting_for_anything, "it_names_waits_by_the_table_until_the_call_begins"),
    "waiting_late": (waiting_late, "it_names_waits_by_the_table_until_the_call_begins"),
    "failing_at_closing": (failing_at_closing, "closing_ends_what_runs"),
    "unknown_at_closing": (unknown_at_closing, "closing_starts_nothing_that_waits"),
}


@pytest.mark.thorough
async def test_a_check_names_the_promise_that_is_broken() -> None:
    """All at once, since the checks wait for what must not happen."""
    found: dict[str, str] = {}

    async def check(name: str) -> None:
        try:
            await check_executor(lambda tools: Altered(BROKEN[name][0], tools))
        except AssertionError as error:
            found[name] = str(error).partition(": ")[0]

    async with anyio.create_task_group() as group:
        for name in BROKEN:
            group.start_soon(check, name)
    assert found == {name: check for name, (_, check) in BROKEN.items()}
