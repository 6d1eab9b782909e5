"""Validators and checks of the user's own, of tools of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from pydantic import BaseModel
from single_calls import run_alone

from streamtools import Tool, ToolContext, tool

pytestmark = pytest.mark.anyio


class Span(BaseModel):
    start: int
    end: int


class Rules:
    """A library of rules that somebody has."""

    name = "rules"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def validate(self, arguments: dict[str, Any], /) -> list[str]:
        self.seen.append(arguments)
        return ["end: should be after start"] if _values(arguments)[1] < _values(arguments)[0] else []


def _values(arguments: dict[str, Any]) -> tuple[int, int]:
    (whole, *_) = arguments.values()
    return (whole.start, whole.end) if isinstance(whole, Span) else (arguments["start"], arguments["end"])


def ordered(arguments: dict[str, Any]) -> None:
    start, end = _values(arguments)
    if end < start:
        raise ValueError("end should be after start")


def between(start: int, end: int) -> int:
    """Count."""
    return end - start


def of_span(span: Span) -> int:
    """Count."""
    return span.end - span.start


SCHEMA = {"type": "object", "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}}}


def kinds(**options: Any) -> list[Tool]:
    return [
        tool(between, **options),
        Tool.from_model(Span, of_span, **options),
        Tool.from_schema(between, SCHEMA, **options),
    ]


@every("number", [0, 1, 2])
async def test_a_check_refuses_a_call_of_any_tool_in_its_words(number: int) -> None:
    made = kinds(check=ordered)[number]
    assert (await run_alone(made, {"start": 1, "end": 3})).value == 2
    seen = await run_alone(made, {"start": 3, "end": 1})
    assert (seen.outcome, seen.attempts) == ("invalid", 0)
    assert "end should be after start" in seen.model_content


@every("number", [0, 1, 2])
async def test_a_validator_judges_any_tool_and_is_named_in_the_record(number: int) -> None:
    made = kinds(validator=Rules())[number]
    seen = await run_alone(made, {"start": 3, "end": 1})
    assert (seen.outcome, "end: should be after start" in seen.model_content) == ("invalid", True)
    fine = await run_alone(made, {"start": 1, "end": 3})
    assert (fine.value, fine.validator) == (2, ["pydantic, rules", "pydantic, rules", "rules"][number])


async def test_they_see_values_of_the_functions_types_and_the_types_are_judged_first() -> None:
    rules = Rules()
    made = tool(between, validator=rules)
    seen = await run_alone(made, {"start": "1", "end": 3})
    assert (seen.outcome, rules.seen) == ("ok", [{"start": 1, "end": 3}])
    assert (await run_alone(made, {"start": "x", "end": 3})).outcome == "invalid"
    assert len(rules.seen) == 1


async def test_a_check_cannot_change_the_arguments() -> None:
    def meddles(arguments: dict[str, Any]) -> None:
        arguments["start"] = 0
        arguments.clear()

    assert (await run_alone(tool(between, check=meddles), {"start": 1, "end": 3})).value == 2


async def test_a_tool_with_a_context_and_a_freeform_one_are_checked_too() -> None:
    def short(arguments: dict[str, Any]) -> bool:
        return len(arguments["text"]) < 4

    @tool(kind="custom", check=short)
    def echo(text: str) -> str:
        """Echo."""
        return text

    @tool(check=short)
    def told(text: str, ctx: ToolContext) -> str:
        """Tell."""
        return ctx.tool_name

    assert (await run_alone(echo, {"input": "abc"})).value == "abc"
    assert (await run_alone(echo, {"input": "abcd"})).outcome == "invalid"
    assert (await run_alone(told, {"text": "abc"})).value == "told"
    assert (await run_alone(told, {"text": "abcd"})).outcome == "invalid"
