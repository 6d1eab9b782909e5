"""The record of a call in readable lines."""

from __future__ import annotations

import re
from typing import Any

import anyio
from profiles import every
from single_calls import run_alone

from streamtools import Observation, ToolError, tool
from streamtools.tools import Tool


@tool
def create_ticket(title: str, priority: int) -> dict[str, Any]:
    """Create a ticket."""
    return {"ticket_id": "T-1", "title": title, "priority": priority}


def report(arguments: dict[str, Any], made: Tool = create_ticket, **options: Any) -> list[str]:
    seen: Observation = anyio.run(lambda: run_alone(made, arguments, call_id="6b1c6070"))
    return re.sub(r"[\d.]+ ms", "1.0 ms", seen.report(**options)).split("\n")


def test_a_good_call_is_reported_in_the_eight_lines_and_what_follows() -> None:
    assert report({"title": "Prod outage", "priority": 1}, values=True) == [
        "tool_name: create_ticket",
        "schema_source: typed_signature",
        "schema_present: true",
        "args_validated: true",
        "validation_error: none",
        "call_id: 6b1c6070",
        "observation_type: dict",
        'return_value: {"ticket_id": "T-1", "title": "Prod outage", "priority": 1}',
        "outcome: ok",
        "validator: pydantic",
        "coercions: none",
        "duration: 1.0 ms",
        "attempts: 1",
    ]


def test_a_bad_call_is_reported_with_what_is_wrong_and_without_the_values() -> None:
    for values in (False, True):
        lines = report({"title": "secret", "priority": "urgent"}, values=values)
        wrong = "invalid arguments for create_ticket: priority: should be a valid integer, "
        wrong += "unable to parse string as an integer"
        assert lines == [
            "tool_name: create_ticket",
            "schema_source: typed_signature",
            "schema_present: true",
            "args_validated: false",
            f"validation_error: {wrong}",
            "call_id: 6b1c6070",
            "observation_type: error",
            "return_value: none",
            "outcome: invalid",
            "validator: pydantic",
            "coercions: none",
            "duration: not started",
            "attempts: 0",
            f"error: {wrong}",
        ]


def test_an_advisory_boundary_is_reported() -> None:
    def anything(x: int) -> int:
        """Take anything."""
        return x

    lines = report({"x": 1}, Tool.from_schema(anything, None, check=lambda _: None))
    assert lines[1:5] == [
        "schema_source: hand_written",
        "schema_present: false",
        "args_validated: false",
        "validation_error: none",
    ]
    assert "boundary: advisory: no schema was enforced" in lines
    assert "validator: none" in lines


LOOP: list[Any] = []
LOOP.append(LOOP)


@every(
    ("value", "told", "shown"),
    [
        ("hunter2", "str of 7", '"hunter2"'),
        (b"hunter2", "bytes of 7", "\"b'hunter2'\""),
        ({"hunter2": 1}, "dict of 1", '{"hunter2": 1}'),
        ([1, "\u20ac"], "list of 2", '[1, "\u20ac"]'),
        (17, "int", "17"),
        (None, "NoneType", "null"),
        ({(1, 2): 3}, "dict of 1", "{(1, 2): 3}"),
        (LOOP, "list of 1", "[[...]]"),
    ],
)
def test_a_value_is_shown_only_if_asked_for(value: Any, told: str, shown: str) -> None:
    seen = Observation(call_id="a", tool_name="f", outcome="ok", value=value)
    assert seen.report().split("\n")[7] == f"return_value: {told}"
    assert "hunter2" not in seen.report()
    assert seen.report(values=True).split("\n")[7] == f"return_value: {shown}"


def test_a_report_survives_values_and_errors_that_cannot_be_shown() -> None:
    class Mute(ToolError):
        def __str__(self) -> str:
            raise RuntimeError("no words")

        __repr__ = __str__

    failed = Observation(call_id="c1", tool_name="f", outcome="failed", error=Mute())
    assert "error: a Mute that cannot be shown" in failed.report()
    shown = Observation(call_id="c1", tool_name="f", outcome="ok", value=Mute())
    assert "return_value: a Mute that cannot be shown" in shown.report(values=True)
