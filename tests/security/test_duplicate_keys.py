"""A key that stands twice: whoever looks sees the one value that runs."""

from __future__ import annotations

from typing import Any

import pytest
from every_wire import IN_DELTAS, framed, said
from profiles import every
from streams import chat, stream

from streamtools import Observation, ToolCallValidated, parse, pipeline, tool
from streamtools.events import ToolCallDelta
from streamtools.tools import Tool

pytestmark = pytest.mark.anyio

TEXTS = {
    "plain": '{"amount": 1, "amount": 1000}',
    "escaped": '{"amount": 1, "\\u0061mount": 1000}',
    "three": '{"amount": 1000, "amount": 1, "amount": 1000}',
    "inside": '{"amount": 1000, "to": {"amount": 2, "amount": 3}}',
}


def pay(amount: int, to: dict[str, int] | None = None) -> int:
    """Pay."""
    return amount


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}, "to": {"type": "object"}}}
TOOLS = {
    "typed": lambda: tool(pay, effect="pure"),
    "strict": lambda: tool(pay, effect="pure", coerce="strict"),
    "foreign": lambda: Tool.from_schema(pay, SCHEMA, effect="pure"),
}


@every("made", TOOLS)
@every("case", TEXTS)
async def test_preview_record_and_tool_have_the_same_value_the_last_one(case: str, made: str) -> None:
    last, ready, observation = None, None, None
    async with pipeline(stream(chat(calls=[("c", "pay", TEXTS[case])])), tools=[TOOLS[made]()]) as events:
        async for event in events:
            match event:
                case ToolCallDelta():
                    last = event.preview
                case ToolCallValidated(call=call):
                    ready = call
                case Observation():
                    observation = event
    assert observation.validated_args is not None
    assert ready.arguments == last
    assert observation.value == observation.validated_args["amount"] == ready.arguments["amount"] == 1000
    if case == "inside":
        assert observation.validated_args["to"] == {"amount": 3}


@every("wire", sorted(IN_DELTAS))
def test_on_every_wire_the_last_one_counts(wire: str) -> None:
    for pieces in (1, 7):
        body = framed(wire, said(wire, calls=[("c", "pay", TEXTS["plain"])], pieces=pieces))
        assert parse(body, wire=wire, tools=["pay"]).calls[0].arguments == {"amount": 1000}
