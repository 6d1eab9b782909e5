"""A tool with another function behind it keeps its schema, its checks and its options."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from alone import run_alone
from pydantic import BaseModel

from streamtools import Tool, ToolContext, tool
from streamtools.errors import ToolDefinitionError

pytestmark = pytest.mark.anyio


class Trip(BaseModel):
    day: dt.date
    stops: list[str]


def book(trip: Trip) -> str:
    """Book."""
    return "booked"


@tool(effect="pure", timeout=7, check=lambda given: given["day"].year == 2026)
def wait(day: dt.date, ctx: ToolContext[dict[str, Any]]) -> str:
    """Wait."""
    return "waited"


async def test_the_other_function_is_given_plain_values_after_the_tools_own_checks() -> None:
    given: list[Any] = []

    async def elsewhere(arguments: dict[str, Any], ctx: ToolContext) -> str:
        given.append(arguments)
        return ctx.call_id

    made = wait.running(elsewhere)
    assert (made.name, made.effect, made.timeout, made.schema) == ("wait", "pure", 7, wait.schema)
    assert (await run_alone(made, {"day": "2026-12-24"}, call_id="c1")).value == "c1"
    assert (await run_alone(made, {"day": "2025-12-24"})).outcome == "invalid"
    assert (await run_alone(made, {"day": "soon"})).outcome == "invalid"
    assert given == [{"day": "2026-12-24"}]


async def test_a_tool_of_a_model_may_be_locked_by_one_of_its_fields() -> None:
    made = Tool.from_model(Trip, book, conflict_key="day").running(lambda arguments: arguments["stops"])
    assert (await run_alone(made, {"day": "2026-12-24", "stops": ["a"]})).value == ["a"]


def test_a_function_that_does_not_take_one_dict_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="takes one dict, in its one parameter"):
        wait.running(lambda one, other: None)
