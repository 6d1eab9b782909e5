"""An answer that was asked for as JSON is read as its type: previews while it streams, and a checked value."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from every_wire import framed, said
from profiles import every
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from streamtools import StreamDecoder, Turn, agent_loop, parse, pipeline, tool
from streamtools.errors import SchemaError, ToolDefinitionError
from streamtools.events import OutputDelta
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio
CHAT = "openai.chat_completions"


class City(BaseModel):
    """A city."""

    name: str
    people: int = Field(ge=0)


@dataclass
class Town:
    name: str
    people: int = 0


class Village(TypedDict):
    name: str


TEXT = ['{"name": "Os', 'lo", "peo', 'ple": 7', "00000}"]
OSLO = City(name="Oslo", people=700000)


async def each(payloads: Iterable[Any]) -> AsyncIterator[Any]:
    for payload in payloads:
        yield payload


async def turn_of(payloads: Iterable[Any], output: Any, **options: Any) -> Turn:
    return await pipeline(each(payloads), output=output, **options)


@every("wire", WIRES)
def test_an_answer_is_read_on_every_wire(wire: str) -> None:
    turn = parse(framed(wire, said(wire, text=TEXT)), wire=wire, output=City)
    assert (turn.output, turn.output_problem) == (OSLO, None)
    assert turn.text == "".join(TEXT)


@every(
    ("kind", "value"),
    [
        (City, OSLO),
        (Town, Town("Oslo", 700000)),
        (Village, {"name": "Oslo"}),
        ({"type": "object", "required": ["name"]}, {"name": "Oslo", "people": 700000}),
    ],
)
def test_the_type_may_be_a_model_a_dataclass_a_typed_dict_or_a_schema(kind: Any, value: Any) -> None:
    text = TEXT if kind is not Village else ['{"name": "Oslo"}']
    turn = parse(said(CHAT, text=text), output=kind)
    assert turn.output == value
    assert turn.output_as(dict[str, Any] if isinstance(kind, dict) else kind) is turn.output
    other = Town if kind is City else City
    with pytest.raises(TypeError, match=f"expected an output of {other.__name__}, got one of {type(value).__name__}"):
        turn.output_as(other)


def test_a_preview_grows_with_the_text() -> None:
    decoder, seen = StreamDecoder(output=City), []
    for payload in said(CHAT, text=TEXT):
        for event in decoder.feed(payload):
            if isinstance(event, OutputDelta):
                seen.append(json.loads(json.dumps(event.preview)))
    assert seen == [{"name": "Os"}, {"name": "Oslo"}, {"name": "Oslo", "people": 7}, {"name": "Oslo", "people": 700000}]


@every(
    ("payloads", "problem"),
    [
        (said(CHAT, text=TEXT[:2]), "the text is not a JSON object (incomplete_json)"),
        (said(CHAT, text=TEXT, ends=False), "the answer did not end normally: an error"),
        (said(CHAT, text=["Oslo"]), "the text is not a JSON object (malformed_json)"),
        (said(CHAT, text=["[1]"]), "the text is not a JSON object (non_object_arguments)"),
        (said(CHAT, text=['{"name": "Oslo"}']), "people: "),
        (said(CHAT, text=['{"name": "Oslo", "people": -1}']), "people: "),
        (said(CHAT), "the answer has no text"),
        (said(CHAT, refusal=["No."]), "the model refused"),
    ],
)
def test_an_answer_that_is_no_such_value_has_a_problem_and_raises_nothing(payloads: list[Any], problem: str) -> None:
    turn = parse(payloads, output=City)
    assert turn.output is None
    assert turn.output_problem is not None
    assert problem in turn.output_problem
    assert "Oslo" not in turn.output_problem, "values are not shown"
    with pytest.raises(ValueError, match=re.escape(f"no output: {turn.output_problem}")):
        turn.output_as(City)


async def test_a_large_answer_is_checked_outside_the_event_loop() -> None:
    class Many(BaseModel):
        numbers: list[int]

    text = json.dumps({"numbers": list(range(50_000))})
    turn = await turn_of(said(CHAT, text=[text[:100_000], text[100_000:]]), Many)
    assert turn.output == Many(numbers=list(range(50_000)))
    assert parse(said(CHAT, text=[text]), output=Many).output == turn.output


async def test_the_last_answer_of_a_loop_is_read() -> None:
    @tool(effect="pure")
    async def look(at: int) -> str:
        """Look."""
        return "seen"

    answers = [said(CHAT, calls=[("c1", "look", '{"at": 1}')]), said(CHAT, text=TEXT)]

    async def ask(*_: Any) -> AsyncIterator[Any]:
        return each(answers.pop(0))

    async with agent_loop(ask, [{"role": "user", "content": "?"}], tools=[look], wire=CHAT, output=City) as run:
        async for _ in run:
            pass
    assert run.turn.output == OSLO


def test_a_type_without_a_schema_is_refused_at_once() -> None:
    with pytest.raises(ToolDefinitionError):
        parse([], output=StreamDecoder)
    with pytest.raises(SchemaError):
        parse([], output={"type": 3})
