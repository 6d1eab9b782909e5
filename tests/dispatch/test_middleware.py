"""Middleware around calls: for logging, caching, mocking, other arguments, approval by the application."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from decisions import decisions_on
from profiles import every
from ran import ran

from streamtools import Deny, Observation, ToolError, Trajectory, resume, run_calls, tool
from streamtools.dispatch import MemoryStore
from streamtools.errors import InvalidArguments, LocalProtocolError, ToolFailed
from streamtools.events import ToolStarted
from streamtools.tools import RunCall, ToolCallRequest

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    ran.append((a, b))
    return a + b


@tool(effect="pure")
async def fail(why: str) -> str:
    """Fail."""
    raise KeyError(why)


ADD = [("c1", "add", {"a": 1, "b": 2})]


async def one(calls: Any, tools: Any, **options: Any) -> Observation:
    (seen,) = (await run_calls(calls, tools, **options)).observations
    return seen


async def test_middleware_sees_the_call_and_its_value_and_may_keep_it_without_a_return() -> None:
    log: list[Any] = []

    async def logged(call: ToolCallRequest, run: RunCall) -> None:
        log.append((call.call_id, call.tool_name, dict(call.arguments), call.effect, call.step))
        log.append(await run())

    seen = await one(ADD, [add], middleware=logged)
    assert (seen.outcome, seen.value, seen.model_content) == ("ok", 3, "3")
    assert log == [("c1", "add", {"a": 1, "b": 2}, "pure", 0), 3]


async def test_the_first_is_outermost_and_the_tools_own_innermost() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        async def middleware(call: ToolCallRequest, run: RunCall) -> Any:
            order.append(f"{name} in")
            value = await run()
            order.append(f"{name} out")
            return value

        return middleware

    @tool(effect="pure", middleware=named("own"))
    def act() -> str:
        """Act."""
        order.append("act")
        return "done"

    seen = await one([("c1", "act", {})], [act], middleware=[named("a"), named("b")])
    assert order == ["a in", "b in", "own in", "act", "own out", "b out", "a out"]
    assert seen.value == "done"


async def test_a_value_that_is_returned_without_running_is_the_calls_and_nothing_ran() -> None:
    async def cached(call: ToolCallRequest, run: RunCall) -> Any:
        return 42

    async with run_calls(ADD, [add], middleware=cached) as events:
        seen = [event async for event in events]
    (found,) = events.turn.observations
    assert (found.outcome, found.value, found.attempts, found.duration, ran) == ("ok", 42, 0, None, [])
    assert not any(isinstance(event, ToolStarted) for event in seen)


async def test_other_arguments_are_validated_again_and_are_those_of_the_record() -> None:
    async def more(call: ToolCallRequest, run: RunCall) -> Any:
        return await run({**call.arguments, "b": 10})

    seen = await one(ADD, [add], middleware=more)
    assert (seen.value, ran, seen.validated_args) == (11, [(1, 10)], {"a": 1, "b": 10})

    async def wrong(call: ToolCallRequest, run: RunCall) -> Any:
        return await run({"a": "many"})

    seen = await one(ADD, [add], middleware=wrong)
    assert (seen.outcome, isinstance(seen.error, InvalidArguments), ran) == ("failed", True, [(1, 10)])


async def test_deny_is_a_denial_as_an_approvers() -> None:
    async def guarded(call: ToolCallRequest, run: RunCall) -> Any:
        return await run() if call.arguments["a"] > 1 else Deny("too small")

    seen = await one(ADD, [add], middleware=guarded)
    assert (seen.outcome, ran) == ("denied", [])
    assert "too small" in seen.model_content


async def test_a_tools_failure_comes_out_of_run_and_may_be_replaced_or_let_through() -> None:
    caught: list[Any] = []

    async def seen_by(call: ToolCallRequest, run: RunCall) -> Any:
        try:
            return await run()
        except ToolError as error:
            caught.append(error.__cause__)
            raise

    calls = [("c1", "fail", {"why": "x"})]
    seen = await one(calls, [fail], middleware=seen_by)
    assert (seen.outcome, repr(seen.exception)) == ("failed", "KeyError('x')")
    assert caught == [seen.exception]

    async def instead(call: ToolCallRequest, run: RunCall) -> Any:
        try:
            return await run()
        except ToolError:
            return "nothing found"

    seen = await one(calls, [fail], middleware=instead)
    assert (seen.outcome, seen.value, seen.error) == ("ok", "nothing found", None)

    async def swallowed(call: ToolCallRequest, run: RunCall) -> None:
        try:
            await run()
        except ToolError:
            return

    assert (await one(calls, [fail], middleware=swallowed)).outcome == "failed"


async def test_middleware_that_neither_runs_nor_returns_is_named() -> None:
    async def forgetful(call: ToolCallRequest, run: RunCall) -> None:
        run

    seen = await one(ADD, [add], middleware=forgetful)
    assert (seen.outcome, ran) == ("failed", [])
    assert "the middleware forgetful returned None without running the call" in seen.model_content


async def test_a_call_is_run_once() -> None:
    problems: list[str] = []

    async def twice(call: ToolCallRequest, run: RunCall) -> Any:
        await run()
        try:
            await run()
        except LocalProtocolError as error:
            problems.append(str(error))

    seen = await one(ADD, [add], middleware=twice)
    assert (seen.value, ran) == (3, [(1, 2)])
    assert problems == ["add, call c1: it has already run; set retries= on its tool"]


async def test_retries_are_inside() -> None:
    tries: list[int] = []

    async def counted(call: ToolCallRequest, run: RunCall) -> Any:
        tries.append(0)
        return await run()

    @tool(effect="pure", retries=2, retry_delay_s=0.001)
    async def flaky() -> str:
        """Fail at first."""
        ran.append(1)
        if len(ran) < 3:
            raise OSError
        return "at last"

    seen = await one([("c1", "flaky", {})], [flaky], middleware=counted)
    assert (seen.value, seen.attempts, tries) == ("at last", 3, [0])


@every("where", ["before", "inside", "behind"])
async def test_a_call_that_is_cancelled_ends_its_middleware(where: str) -> None:
    closed: list[str] = []
    reached = anyio.Event()

    @tool(effect="pure")
    async def work() -> str:
        """Work."""
        if where == "inside":
            reached.set()
            await anyio.sleep_forever()
        return "done"

    async def waits(call: ToolCallRequest, run: RunCall) -> Any:
        try:
            if where == "before":
                reached.set()
                await anyio.sleep_forever()
            value = await run()
            if where == "behind":
                reached.set()
                await anyio.sleep_forever()
            return value
        finally:
            closed.append(where)

    with anyio.fail_after(30):
        async with run_calls([("c1", "work", {})], [work], middleware=waits) as events:

            async def cancel() -> None:
                await reached.wait()
                events.cancel("c1")

            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                await events.finish()
    (seen,) = events.turn.observations
    assert closed == [where]
    assert seen.outcome == ("ok" if where == "behind" else "cancelled")


async def test_a_store_keeps_what_the_tool_returned_and_middleware_sees_what_is_on_record() -> None:
    @tool
    async def buy(item: str) -> str:
        """Buy."""
        ran.append(item)
        return f"bought {item}"

    async def louder(call: ToolCallRequest, run: RunCall) -> Any:
        return (await run()).upper()

    store, calls = MemoryStore(), [("c1", "buy", {"item": "tea"})]
    first = await one(calls, [buy], middleware=louder, store=store, trajectory=Trajectory(run_id="r"))
    second = await one(calls, [buy], middleware=louder, store=store, trajectory=Trajectory(run_id="r"))
    assert (first.value, second.value, ran) == ("BOUGHT TEA", "BOUGHT TEA", ["tea"])
    assert (first.recorded, second.recorded) == (False, True)


async def test_a_call_that_was_approved_keeps_its_arguments() -> None:
    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    async def more(call: ToolCallRequest, run: RunCall) -> Any:
        return await run({"amount": 1000})

    calls = [("c1", "pay", {"amount": 1})]
    seen = await one(calls, [pay], middleware=more, approve=lambda _: True)
    assert (seen.outcome, type(seen.exception), ran) == ("failed", LocalProtocolError, [])
    run = run_calls(calls, [pay], store=(store := MemoryStore()), identity="r")
    await run
    assert run.suspended is not None
    turn = await resume(
        run.suspended, tools=[pay], store=store, decisions=decisions_on(run.suspended, {"c1": True}), middleware=more
    )
    assert ([seen.outcome for seen in turn.observations], ran) == (["failed"], [])


async def test_other_arguments_may_not_name_another_thing_to_work_on() -> None:
    @tool(effect="idempotent", conflict_key="path")
    async def write(path: str, text: str) -> str:
        """Write."""
        ran.append(path)
        return "written"

    async def moved(call: ToolCallRequest, run: RunCall) -> Any:
        return await run({**call.arguments, "path": "/other"})

    async def changed(call: ToolCallRequest, run: RunCall) -> Any:
        return await run({**call.arguments, "text": "other"})

    calls = [("c1", "write", {"path": "/a", "text": "x"})]
    seen = await one(calls, [write], middleware=moved)
    assert (seen.outcome, type(seen.exception), ran) == ("failed", LocalProtocolError, [])
    assert (await one(calls, [write], middleware=changed)).value == "written"


async def test_a_value_from_middleware_is_checked_as_the_tools_own() -> None:
    @tool(effect="pure", output_schema=True)
    async def count() -> int:
        """Count."""
        return 1

    async def wrong(call: ToolCallRequest, run: RunCall) -> Any:
        return "many"

    seen = await one([("c1", "count", {})], [count], middleware=wrong)
    assert (seen.outcome, type(seen.error).__name__) == ("failed", "InvalidResult")


async def sync_like(call: ToolCallRequest, run: RunCall) -> Any:
    return await run()


@every("given", [lambda call, run: None, "around", [sync_like, 5]])
def test_what_is_no_middleware_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(TypeError, match=r"middleware: .* is not a middleware; write async def .*\(call, run\)"):
        run_calls(ADD, [add], middleware=given)


def test_a_tools_middleware_is_checked_where_it_is_defined() -> None:
    with pytest.raises(Exception, match="middleware: expected an async function"):
        tool(lambda: None, name="x", middleware=lambda call, run: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(Exception, match="middleware: expected an async function"):

        @tool(middleware=5)  # type: ignore[arg-type]
        def act() -> None:
            """Act."""


async def test_a_failure_of_middleware_is_no_reason_to_retry() -> None:
    @tool(effect="pure", retries=3, retry_delay_s=0.001)
    async def act() -> str:
        """Act."""
        ran.append(1)
        return "x"

    async def broken(call: ToolCallRequest, run: RunCall) -> Any:
        await run()
        raise ToolFailed("no")

    seen = await one([("c1", "act", {})], [act], middleware=broken)
    assert (seen.outcome, seen.attempts, ran) == ("failed", 1, [1])


async def test_a_call_that_has_run_is_not_denied() -> None:
    async def late(call: ToolCallRequest, run: RunCall) -> Any:
        await run()
        return Deny("oh")

    seen = await one(ADD, [add], middleware=late)
    assert (seen.outcome, ran) == ("failed", [(1, 2)])
    assert "denied the call after it had run" in seen.model_content


async def test_leaving_the_block_ends_middleware() -> None:
    closed: list[bool] = []
    reached = anyio.Event()

    async def waits(call: ToolCallRequest, run: RunCall) -> Any:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            closed.append(True)

    async with run_calls(ADD, [add], middleware=waits) as events:
        await anext(events)
        await reached.wait()
    assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
    assert (closed, ran) == ([True], [])
