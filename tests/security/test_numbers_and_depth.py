"""Values that break parsers, wherever a peer may put them: numbers without end, numbers that are none, nesting."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from every_wire import FRAMINGS, framed, said
from hostile import every_place
from profiles import every, mostly_thorough
from streams import chat, stream

from streamtools import Observation, StreamEnd, parse, pipeline, tool
from streamtools.tools import Tool
from streamtools.wires import WIRES

MARK = "@@here@@"
VALUES = {
    "5,000 digits": "9" * 5000,
    "a million digits": "-" + "9" * 1_000_000,
    "5,000 decimals": "0." + "1" * 5000,
    "1e999": "1e999",
    "a huge exponent": "1e" + "9" * 400,
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "beyond 64 bits": str(2**64 + 1),
    "100,000 lists": "[" * 100_000 + "]" * 100_000,
    "100,000 objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "brackets that never close": "[" * 100_000,
}


def bodies(wire: str, value: str) -> Iterator[tuple[str, list[bytes]]]:
    """A response again and again, each time with the value in one place, not as a text but as itself."""
    payloads = said(wire, text=["hi"], reasoning=["hm"], calls=[("call_1", "get", '{"a": 1}')])
    for place, changed in every_place(payloads, MARK):
        if not place.startswith("behind"):
            body = framed(wire, changed)
            yield place, [_put(chunk, value) for chunk in body]


def _put(chunk: bytes, value: str) -> bytes:
    """The value in the mark's place: as a JSON value, or inside a JSON text."""
    return chunk.replace(f'"{MARK}":'.encode(), b'"key":').replace(f'"{MARK}"'.encode(), value.encode())


JSON_WIRES = [wire for wire in WIRES if FRAMINGS[wire] != ("aws_eventstream",)]
PAIRS = [pair for at, pair in enumerate((wire, name) for name in VALUES for wire in JSON_WIRES) if at % 3 == 0]


@every(("wire", "name"), mostly_thorough(PAIRS, 6))
def test_in_any_place_of_any_wire_it_gives_a_turn_that_can_be_sent_on(wire: str, name: str) -> None:
    before = sys.get_int_max_str_digits(), sys.getrecursionlimit()
    for place, body in bodies(wire, VALUES[name]):
        turn = parse(body, wire=wire, tools=["get"])
        assert turn.complete or turn.error is not None, place
        json.dumps(turn.messages(), allow_nan=False)
        repr(turn)
    assert (sys.get_int_max_str_digits(), sys.getrecursionlimit()) == before


# -- arguments ----------------------------------------------------------------------------------------------------


@tool(effect="pure")
def typed(a: Any) -> str:
    """Take anything."""
    raise AssertionError("it ran")


@tool(effect="pure", name="counted")
def counted(a: int) -> str:
    """Take an integer."""
    raise AssertionError("it ran")


def _foreign(**arguments: Any) -> str:
    raise AssertionError("it ran")


foreign = Tool.from_schema(_foreign, {"type": "object"}, name="foreign", description="Takes anything.", effect="pure")

NEVER_RUN = {name: value for name, value in VALUES.items() if name not in ("beyond 64 bits", "5,000 decimals")}


@pytest.mark.anyio
@every("made", [typed, counted, foreign])
@every("name", NEVER_RUN)
async def test_as_an_argument_it_runs_nothing_and_concerns_its_call_alone(name: str, made: Tool[..., Any]) -> None:
    calls = [("bad", made.name, f'{{"a": {NEVER_RUN[name]}}}'), ("good", "fine", "{}")]

    @tool(effect="pure")
    def fine() -> str:
        """Run."""
        return "ran"

    async with pipeline(stream(chat(calls=calls)), tools=[made, fine]) as events:
        seen = [event async for event in events]
    bad, good = events.turn.observations
    assert bad.outcome in ("invalid", "truncated")
    assert (good.outcome, good.value) == ("ok", "ran")
    assert len(bad.model_content) < 1000
    assert len([event for event in seen if isinstance(event, Observation)]) == 2
    (end,) = (event for event in seen if isinstance(event, StreamEnd))
    assert end.error is None
    json.dumps(events.turn.messages(), allow_nan=False)


@pytest.mark.anyio
async def test_no_digit_of_an_integer_is_lost_on_its_way_to_a_tool() -> None:
    sent = [2**53 + 1, 2**63, 2**64, 2**64 + 1, -(2**70) - 1, int("7" * 4000)]
    seen: list[int] = []

    @tool(effect="pure")
    def keep(numbers: list[int]) -> list[int]:
        """Keep them."""
        seen.extend(numbers)
        return numbers

    turn = await pipeline(stream(chat(calls=[("c", "keep", json.dumps({"numbers": sent}))])), tools=[keep])
    (observation,) = turn.observations
    assert seen == sent
    assert json.loads(observation.model_content) == sent


@pytest.mark.anyio
@every("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
async def test_a_result_that_is_no_json_is_not_sent_as_if_it_were(value: Any) -> None:
    @tool(effect="pure")
    def give() -> Any:
        """Give it."""
        return value

    turn = await pipeline(stream(chat(calls=[("c", "give", "{}")])), tools=[give])
    (observation,) = turn.observations
    json.dumps(turn.messages(), allow_nan=False)
    for word in ("NaN", "Infinity"):
        assert observation.outcome == "failed" or word not in observation.model_content
