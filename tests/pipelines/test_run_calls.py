"""`run_calls`: calls without a stream, by the rules of the pipeline."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime as dt
import json
import threading
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from alone import run_alone
from pydantic import BaseModel
from streams import chat, stream

from streamtools import Limits, Observation, ToolCall, ToolContext, ToolError, parse, pipeline, tool
from streamtools.content import Text, ToolResult
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import InvalidArguments, ToolFailed, ToolTimeout
from streamtools.tools import Tool, validate_tool_call

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    item: str
    day: dt.date | None = None


ran: list[Any] = []


@tool
def create_ticket(title: str, priority: int) -> dict[str, Any]:
    """Create a ticket."""
    ran.append((title, priority))
    return {"ticket_id": "T-1", "title": title, "priority": priority}


@tool
async def order(order: Order, ctx: ToolContext) -> str:
    """Order."""
    ctx.progress("half way")
    return f"{type(order).__name__} {order.item} {order.day}"


@tool
async def fail(kind: str) -> str:
    """Fail."""
    if kind == "told":
        raise ToolError("closed on Sundays")
    if kind == "result":
        return ToolResult(blocks=(Text("no"),), is_error=True)  # type: ignore[return-value]
    raise LookupError("nothing there")


@tool(timeout=0.01)
async def slow() -> str:
    """Sleep."""
    await anyio.sleep_forever()
    return "never"


@tool
async def cancels() -> str:
    """Let out a cancellation that nobody asked for."""
    raise asyncio.CancelledError


@tool
def nothing() -> None:
    """Do nothing."""


@tool
def odd() -> Any:
    """Return what is no JSON."""
    return object()


@tool(kind="custom")
def echo(text: str) -> str:
    """Echo."""
    return text


async def through_the_pipeline(made: Tool, text: str, limits: Limits) -> Observation:
    async with pipeline(stream(chat(calls=[("c1", made.name, text)])), tools=[made], limits=limits) as events:
        _ = [event async for event in events]
    (observation,) = events.turn.observations
    return observation


def record(seen: Observation) -> dict[str, Any]:
    """What two observations of the same call have in common."""
    fields = {field.name: getattr(seen, field.name) for field in dataclasses.fields(seen)}
    for name in ("seq", "time", "causes", "duration", "waits", "idempotency_key"):  # each run has its own
        del fields[name]
    error = fields.pop("error")
    fields["value"] = repr(fields["value"]).partition(" at 0x")[0]
    return {**fields, "error": (type(error), str(error), type(error and error.__cause__))}


CALLS: list[tuple[Tool, str]] = [
    (create_ticket, '{"title": "Prod outage", "priority": 1}'),
    (create_ticket, '{"title": "Prod outage", "priority": "1"}'),
    (create_ticket, '{"title": "Prod outage", "priority": "urgent"}'),
    (create_ticket, '{"title": "x"}'),
    (create_ticket, '{"title": "x", "priority": 1, "more": 2}'),
    (create_ticket, '{"title": "x", "priority": NaN}'),
    (create_ticket, '{"title": "x", "prio'),
    (create_ticket, '{"title": "x"} {"title": "y"}'),
    (create_ticket, "[1]"),
    (create_ticket, "nonsense"),
    (create_ticket, '"{\\"title\\": \\"x\\", \\"priority\\": 1}"'),
    (create_ticket, '```json\n{"title": "x", "priority": 1}\n```'),
    (create_ticket, '{"title": "' + "x" * 300 + '", "priority": 1}'),
    (create_ticket, '{"title": ' + "[" * 70 + "]" * 70 + "}"),
    (create_ticket, ""),
    (nothing, ""),
    (nothing, "{}"),
    (order, '{"order": {"item": "tea", "day": "2024-01-02"}}'),
    (order, '{"order": "{\\"item\\": \\"tea\\"}"}'),
    (fail, '{"kind": "told"}'),
    (fail, '{"kind": "result"}'),
    (fail, '{"kind": "raised"}'),
    (slow, "{}"),
    (echo, '{"input": "x"}'),
    (echo, '{"text": "x"}'),
]
LIMITS = Limits(max_argument_bytes=256, max_result_bytes=64)


@pytest.mark.parametrize(("made", "text"), CALLS)
async def test_the_record_is_that_of_the_pipeline(made: Tool, text: str) -> None:
    wanted = record(await through_the_pipeline(made, text, LIMITS))
    assert record(await run_alone(made, text, call_id="c1", limits=LIMITS)) == wanted
    assert record(await run_alone(made, text.encode(), call_id="c1", limits=LIMITS)) == wanted


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict) and "NaN" not in text
    except ValueError:
        return False


@pytest.mark.parametrize(("made", "text"), [call for call in CALLS if is_object(call[1])])
async def test_a_dict_runs_as_its_text_does(made: Tool, text: str) -> None:
    wanted = record(await through_the_pipeline(made, text, LIMITS))
    assert record(await run_alone(made, json.loads(text), call_id="c1", limits=LIMITS)) == wanted


@pytest.mark.parametrize(
    "arguments", [b'{"title": "\xff", "priority": 1}', {"title": object()}, {"title": "\ud800"}, 5]
)
async def test_what_is_no_json_at_all_is_invalid(arguments: Any) -> None:
    ran.clear()
    seen = await run_alone(create_ticket, arguments)
    assert (seen.outcome, seen.attempts, ran) == ("invalid", 0, [])
    assert (seen.validation_error or "").startswith("invalid arguments for create_ticket: the arguments: should be")


async def test_call_ids_are_made_up_and_differ() -> None:
    one, other = await run_alone(nothing, {}), await run_alone(nothing, {})
    assert one.call_id != other.call_id
    assert one.call_id.startswith("call_")


async def test_run_gives_the_value_that_a_direct_call_gives() -> None:
    assert (await run_alone(create_ticket, {"title": "x", "priority": 1})).unwrap() == create_ticket("x", 1)
    assert (await run_alone(nothing, {})).unwrap() is None
    assert (
        await run_alone(order, {"order": Order(item="tea", day=dt.date(2024, 1, 2))})
    ).unwrap() == "Order tea 2024-01-02"
    assert (await run_alone(echo, {"input": "x"})).unwrap() == "x"


async def test_run_raises_what_the_tool_raised_or_why_it_did_not_run() -> None:
    ran.clear()
    with pytest.raises(InvalidArguments, match="priority: should be a valid integer"):
        (await run_alone(create_ticket, {"title": "x", "priority": "urgent"})).unwrap()
    assert ran == []
    with pytest.raises(LookupError, match="nothing there"):
        (await run_alone(fail, {"kind": "raised"})).unwrap()
    with pytest.raises(ToolError, match="closed on Sundays"):
        (await run_alone(fail, {"kind": "told"})).unwrap()
    with pytest.raises(ToolFailed, match="reported an error"):
        (await run_alone(fail, {"kind": "result"})).unwrap()
    with pytest.raises(ToolTimeout):
        (await run_alone(slow, {})).unwrap()


async def test_a_cancellation_that_the_tool_let_out_does_not_look_like_the_callers(anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("asyncio's own exception")
    with pytest.raises(ToolFailed, match="raised CancelledError"):
        (await run_alone(cancels, {})).unwrap()


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_a_sync_tool_runs_in_a_thread_with_the_callers_context_while_the_loop_goes_on() -> None:
    go_on = threading.Event()

    @tool
    def wait() -> str:
        """Wait for the loop."""
        assert go_on.wait(45)
        return f"{threading.current_thread() is threading.main_thread()} {variable.get()}"

    async def tick() -> None:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        go_on.set()

    token = variable.set("callers")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            assert (await run_alone(wait, {})).unwrap() == "False callers"
    finally:
        variable.reset(token)


async def test_calls_may_run_at_once() -> None:
    inside = 0
    all_inside = anyio.Event()

    @tool
    async def meet() -> None:
        """Meet."""
        nonlocal inside
        inside += 1
        if inside == 3:
            all_inside.set()
        await all_inside.wait()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(run_alone, meet, {})


async def test_who_is_cancelled_leaves_a_sync_tool_to_itself() -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def stuck() -> None:
        """Wait."""
        started.set()
        release.wait(45)

    before = abandoned_threads()
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(run_alone, stuck, {})
            while not started.is_set():  # noqa: ASYNC110 - a thread sets no event of the loop
                await anyio.sleep(0.001)
            scope.cancel()
    assert abandoned_threads() == before + 1
    release.set()
    with anyio.fail_after(30):
        while abandoned_threads() > before:  # noqa: ASYNC110
            await anyio.sleep(0.001)


async def test_steps_of_one_tool_may_run_others() -> None:
    @tool
    async def search(topic: str) -> list[str]:
        """Search."""
        return [f"{topic} 1", f"{topic} 2"]

    @tool
    async def research(topic: str) -> str:
        """Search, then sum up."""
        return " + ".join((await run_alone(search, {"topic": topic})).unwrap())

    assert (await run_alone(research, {"topic": "x"})).unwrap() == "x 1 + x 2"


@pytest.mark.parametrize(
    ("name", "arguments", "fits"),
    [
        ("create_ticket", {"title": "x", "priority": 1}, True),
        ("create_ticket", {"title": "x", "priority": "urgent"}, False),
        ("create_ticket", None, False),
        ("other", {"title": "x", "priority": 1}, False),
    ],
)
async def test_a_call_is_valid_if_name_and_arguments_are_the_tools(
    name: str, arguments: dict[str, Any] | None, fits: bool
) -> None:
    call = ToolCall(call_id="a", name=name, arguments=arguments)
    assert validate_tool_call(call, create_ticket) is fits


async def test_calls_of_a_parsed_turn_can_be_validated_and_run() -> None:
    turn = parse(b"".join(chat(calls=[("a", "create_ticket", '{"title": "x", "priority": 2}')])))
    (call,) = turn.calls
    arguments: Mapping[str, Any] = call.arguments or {}
    assert validate_tool_call(call, create_ticket)
    assert (await run_alone(create_ticket, arguments, call_id=call.call_id)).call_id == "a"


class Mute(InvalidArguments):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_refused_arguments_of_another_call_are_a_failure_and_not_this_calls_validation_error() -> None:
    @tool(effect="pure")
    async def outer(x: str) -> str:
        """Hand on."""
        (await run_alone(create_ticket, {"title": x, "priority": "high"})).unwrap()
        raise AssertionError("it was refused")

    @tool(effect="pure")
    async def mute(x: str) -> str:
        """Fail without words."""
        raise Mute("x")

    seen = await run_alone(outer, {"x": "a"})
    assert (seen.outcome, seen.validated, seen.validation_error) == ("failed", True, None)
    assert "invalid arguments for create_ticket" in seen.model_content
    seen = await run_alone(mute, {"x": "a"})
    assert (seen.outcome, seen.validation_error) == ("failed", None)
    assert seen.model_content == "Error: the tool mute raised Mute"
