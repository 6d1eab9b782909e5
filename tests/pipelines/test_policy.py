"""A policy of the user's stands apart from the tool: it may refuse what the schema allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from streams import chat, stream

from streamtools import Event, ToolCallValidated, ToolError, pipeline, tool
from streamtools.events import ToolCallEnd
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio


class NotAbroad:
    """Refuses calls whose country is not ours, before they are ready."""

    handles = frozenset({ToolCallEnd, ToolCallValidated})

    def __init__(self) -> None:
        self._denied: set[str] = set()

    def feed(self, event: Event) -> Iterable[Event]:
        if isinstance(event, ToolCallEnd) and (event.call.arguments or {}).get("country") == "abroad":
            self._denied.add(event.call_id)
            refused = replace(event.call, status="invalid", problem="policy", arguments=None)
            return (replace(event, call=refused, error=ToolError("orders from abroad are not taken")),)
        if isinstance(event, ToolCallValidated) and event.call_id in self._denied:
            return ()
        return (event,)

    def finish(self) -> Iterable[Event]:
        return ()


async def test_a_policy_stage_refuses_a_call_that_the_schema_allows_and_the_tool_knows_nothing_of_it() -> None:
    ran = []

    @tool(effect="once")
    async def order(country: str) -> str:
        """Order something."""
        ran.append(country)
        return "ordered"

    assert order.validate({"country": "abroad"}).by_name == {"country": "abroad"}
    calls = [("c1", "order", '{"country": "abroad"}'), ("c2", "order", '{"country": "home"}')]
    stages = DEFAULT.insert_after("validate", NotAbroad)
    async with pipeline(stream(chat(calls=calls)), tools=[order], stages=stages) as events:
        _ = [event async for event in events]
    denied, taken = events.turn.observations
    assert (denied.outcome, str(denied.error)) == ("invalid", "orders from abroad are not taken")
    assert (taken.outcome, ran) == ("ok", ["home"])
    assert denied.model_content == "Error: orders from abroad are not taken"
