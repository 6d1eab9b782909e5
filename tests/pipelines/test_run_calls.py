"""`run_calls`: calls without a stream, by the rules of the pipeline."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from pydantic import BaseModel
from ran import ran
from single_calls import run_alone
from streams import chat, stream

from streamtools import Limits, Observation, ToolContext, ToolError, pipeline, tool
from streamtools.content import Text, ToolResult
from streamtools.errors import InvalidArguments, ToolFailed, ToolTimeout
from streamtools.tools import Tool

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    item: str
    day: dt.date | None = None


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
def nothing() -> None:
    """Do nothing."""


@tool(kind="custom")
def echo(text: str) -> str:
    """Echo."""
    return text


async def through_the_pipeline(made: Tool, text: str, limits: Limits) -> Observation:
    turn = await pipeline(stream(chat(calls=[("c1", made.name, text)])), tools=[made], limits=limits)
    (observation,) = turn.observations
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


@every(("made", "text"), CALLS)
async def test_the_record_is_that_of_the_pipeline(made: Tool, text: str) -> None:
    wanted = record(await through_the_pipeline(made, text, LIMITS))
    assert record(await run_alone(made, text, call_id="c1", limits=LIMITS)) == wanted
    assert record(await run_alone(made, text.encode(), call_id="c1", limits=LIMITS)) == wanted


async def test_run_gives_the_value_that_a_direct_call_gives() -> None:
    assert (await run_alone(create_ticket, {"title": "x", "priority": 1})).unwrap() == create_ticket("x", 1)
    assert (await run_alone(nothing, {})).unwrap() is None
    assert (
        await run_alone(order, {"order": Order(item="tea", day=dt.date(2024, 1, 2))})
    ).unwrap() == "Order tea 2024-01-02"
    assert (await run_alone(echo, {"input": "x"})).unwrap() == "x"


async def test_run_raises_what_the_tool_raised_or_why_it_did_not_run() -> None:
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
