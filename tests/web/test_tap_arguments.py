"""`Tap.tool` under frameworks that pass a call's arguments on in any form: as they came, half coerced, or typed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from anyio.lowlevel import checkpoint
from profiles import examples
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr, TypeAdapter
from streams import anthropic
from tapping import Server, read, tapped
from typing_extensions import TypedDict

from streamtools import Tool
from streamtools.integrations.httpx import Tap

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Place(BaseModel):
    name: str
    at: date = date(2026, 1, 1)
    near: list[Place] = Field(default_factory=list)
    extra: Any = None


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Filters(TypedDict, total=False):
    colour: str
    limit: int


def _lower(value: str) -> str:
    return value.strip().lower()


Making = Callable[[random.Random], Any]


def text(rng: random.Random) -> str:
    return "".join(rng.choice('ab1 é"\\{') for _ in range(rng.randrange(8)))


def number(rng: random.Random) -> Any:
    return rng.choice([rng.randrange(-9, 9), 2**53 + 1, 10**30, 0])


def fraction(rng: random.Random) -> Any:
    return rng.choice([rng.uniform(-9, 9), 2, 2.0, -0.0, 1e300, 0.1])


def anything(rng: random.Random, depth: int = 2) -> Any:
    leaves: list[Making] = [text, number, fraction, lambda _: None, lambda r: r.random() < 0.5]
    if depth and rng.random() < 0.4:
        make = partial_any(depth - 1)
        many = range(rng.randrange(3))
        return [make(rng) for _ in many] if rng.random() < 0.5 else {text(rng): make(rng) for _ in many}
    return rng.choice(leaves)(rng)


def partial_any(depth: int) -> Making:
    return lambda rng: anything(rng, depth)


def a_date(rng: random.Random) -> str:
    return f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def a_place(rng: random.Random, depth: int = 1) -> dict[str, Any]:
    made: dict[str, Any] = {"name": text(rng)}
    if rng.random() < 0.5:
        made["at"] = a_date(rng)
    if depth and rng.random() < 0.5:
        made["near"] = [a_place(rng, depth - 1) for _ in range(rng.randrange(3))]
    if rng.random() < 0.3:
        made["extra"] = anything(rng)
    return made


def some(make: Making) -> Making:
    return lambda rng: [make(rng) for _ in range(rng.randrange(4))]


# Each type, with JSON as a model writes it: some of it has to be coerced.
TYPES: list[tuple[Any, Making]] = [
    (str, text),
    (int, lambda rng: rng.choice([number(rng), str(rng.randrange(99)), float(rng.randrange(9))])),
    (float, lambda rng: rng.choice([fraction(rng), "2.5", "7"])),
    (bool, lambda rng: rng.choice([True, False, "true", "no", 1])),
    (int | str, lambda rng: rng.choice([number(rng), "2", text(rng)])),
    (int | None, lambda rng: rng.choice([None, number(rng)])),
    (Any, anything),
    (list[int], some(lambda rng: rng.choice([3, "3", 3.0]))),
    (set[int], some(lambda rng: rng.randrange(5))),
    (tuple[int, str], lambda rng: [number(rng), text(rng)]),
    (dict[str, int], lambda rng: {text(rng): number(rng) for _ in range(rng.randrange(3))}),
    (dict[int, float], lambda rng: {str(rng.randrange(9)): fraction(rng)}),
    (date, a_date),
    (datetime, lambda rng: f"{a_date(rng)}T10:00:00{rng.choice(['', 'Z', '+02:00'])}"),
    (time, lambda rng: f"{rng.randrange(10, 23)}:00:00"),
    (timedelta, lambda rng: rng.choice([60, "PT1M", 1.5])),
    (Decimal, lambda rng: rng.choice(["1.10", 1.1, 3, "-0.5"])),
    (UUID, lambda rng: str(UUID(int=rng.getrandbits(128), version=4))),
    (PurePosixPath, lambda rng: f"/tmp/{rng.randrange(9)}"),
    (bytes, lambda rng: "abc"[: rng.randrange(4)]),
    (Colour, lambda rng: rng.choice(["red", "blue"])),
    (Level, lambda rng: rng.choice([1, 2])),
    (Literal["a", "b", 3], lambda rng: rng.choice(["a", "b", 3])),
    (SecretStr, text),
    (Place, a_place),
    (Place | None, lambda rng: rng.choice([None, a_place(rng)])),
    (list[Place], some(a_place)),
    (Point, lambda rng: {"x": fraction(rng), "tags": ["t"][: rng.randrange(2)]}),
    (Filters, lambda rng: {"limit": rng.choice([3, "3"])} if rng.random() < 0.5 else {"colour": text(rng)}),
    (Annotated[str, AfterValidator(_lower)], text),
    (Annotated[int, Field(ge=-9)], lambda rng: rng.choice([3, "3", 3.0])),
    (Annotated[date, BeforeValidator(lambda value: date.fromisoformat(value))], a_date),
]

# -- the forms in which frameworks pass them --


def as_it_came(annotation: Any, sent: Any) -> Any:
    return sent


def typed(annotation: Any, sent: Any) -> Any:
    return TypeAdapter(annotation).validate_json(json.dumps(sent))


def dumped(annotation: Any, sent: Any) -> Any:
    adapter = TypeAdapter(annotation)
    return adapter.dump_python(adapter.validate_json(json.dumps(sent)), exclude_unset=True)


def by_json(annotation: Any, sent: Any) -> Any:
    if annotation is SecretStr:
        return sent  # its JSON is masked
    adapter = TypeAdapter(annotation)
    return json.loads(adapter.dump_json(adapter.validate_json(json.dumps(sent)), exclude_unset=True))


def all_floats(annotation: Any, sent: Any) -> Any:
    """As a framework of protocol buffers, which have no integers."""
    if isinstance(sent, int) and not isinstance(sent, bool) and abs(sent) < 2**53:
        return float(sent)
    if isinstance(sent, dict):
        return {key: all_floats(None, value) for key, value in sent.items()}
    return [all_floats(None, value) for value in sent] if isinstance(sent, list) else sent


FORMS = [as_it_came, typed, dumped, by_json, all_floats]


@pytest.mark.deadline(900)
async def test_a_call_of_any_arguments_in_any_form_runs_once() -> None:
    rng = random.Random(20261124)
    calls = examples(10_000, 400)
    bodies: list[Any] = []
    expected = 0
    async with tapped(Server([]), patience_s=800) as (tap, client):
        tools = [_tool(tap, number, rng, bodies) for number in range(24)]
        while expected < calls:
            batch = [_call(rng, rng.choice(tools)) for _ in range(20)]
            sent = [(f"c{at}", made.__name__, json.dumps(arguments)) for at, (made, arguments, _) in enumerate(batch)]
            server = Server(anthropic([], sent))
            tap._transport = server.transport()  # the client keeps its tap, and so the tools
            await read(client)
            expected += len(batch)
            while len(bodies) < expected:
                await checkpoint()
            rng.shuffle(batch)
            for made, sent_arguments, given in batch:
                await made(**given)
                assert len(bodies) == expected, (made.types, sent_arguments, given)
        assert tap.summary().claimed == expected
        assert tap.summary().missed == {}
        assert tap.warnings == {}


def _tool(tap: Tap, number: int, rng: random.Random, bodies: list[Any]) -> Any:
    chosen = [rng.choice(TYPES) for _ in range(rng.randrange(1, 5))]
    if number < len(TYPES) / 2:  # each type at least once
        chosen[:2] = [TYPES[2 * number % len(TYPES)], TYPES[(2 * number + 1) % len(TYPES)]]

    async def look_up(**values: Any) -> int:
        bodies.append(values)
        for value in values.values():  # a function may change what it gets
            if isinstance(value, list):
                value.clear()
        return len(bodies)

    source = ", ".join(f"p{at}: T{at}" for at in range(len(chosen)))
    passed = ", ".join(f"p{at}=p{at}" for at in range(len(chosen)))
    scope: dict[str, Any] = {"look_up": look_up, **{f"T{at}": kind for at, (kind, _) in enumerate(chosen)}}
    exec(f"async def tool_{number}(*, {source}) -> int:\n    'Looks up.'\n    return await look_up({passed})", scope)
    made: Any = tap.tool(scope[f"tool_{number}"], effect="pure")
    made.types = chosen
    return made


def _call(rng: random.Random, made: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    arguments = {f"p{at}": make(rng) for at, (_, make) in enumerate(made.types)}
    form = rng.choice(FORMS)
    given = {name: form(kind, arguments[name]) for name, (kind, _) in zip(arguments, made.types, strict=True)}
    return made, arguments, given


# -- what is alike and not the same --


UNLIKE: list[tuple[Any, Any, Any]] = [
    (Any, True, 1),
    (Any, "2", 2),
    (Any, 0.0, -0.0),
    (Any, [1, 2], [2, 1]),
    (Any, {"a": 1}, {"a": 1, "b": None}),
    (datetime, "2026-01-01T12:00:00Z", "2026-01-01T13:00:00+01:00"),
    (datetime, "2026-01-01T12:00:00Z", datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
    (SecretStr, "1234", SecretStr("9999")),
    (Decimal, "1.10", "1.1"),
    (Place, {"name": "Rome"}, {"name": "Rome", "extra": 1}),
    (Place, {"name": "Rome", "extra": True}, Place(name="Rome", extra=1)),
    (int | str, "2", 2),
]


@pytest.mark.parametrize(("annotation", "sent", "given"), UNLIKE, ids=str)
async def test_arguments_that_only_look_alike_are_not_taken_for_each_other(
    annotation: Any, sent: Any, given: Any
) -> None:
    values: list[Any] = []

    async def look_up(key: Any) -> None:
        """Looks a key up."""
        values.append(key)

    look_up.__annotations__["key"] = annotation
    async with tapped(Server(anthropic([], [("c", "look_up", json.dumps({"key": sent}))]))) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        while not values:
            await checkpoint()
        await early(given)
        assert values[-1] is given
        assert tap.summary().missed == {"other_arguments": 1}


async def test_not_a_number_is_the_same_as_itself() -> None:
    runs: list[float] = []

    async def look_up(key: float) -> float:
        """Looks a key up."""
        runs.append(key)
        return key

    async with tapped(Server(anthropic([], [("c", "look_up", '{"key": "nan"}')]))) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        assert math.isnan(await early(float("nan")))
        assert len(runs) == 1


async def test_a_validator_that_changes_a_value_each_time_makes_no_call_another_one() -> None:
    """Sent as 1 it runs with 2; a framework that passes JSON on asks for 2, and means a call that runs with 3."""
    runs: list[int] = []

    async def look_up(key: Annotated[int, AfterValidator(lambda value: value + 1)]) -> int:
        """Looks a key up."""
        runs.append(key)
        return key

    async with tapped(Server(anthropic([], [("c", "look_up", '{"key": 1}')]))) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        while not runs:
            await checkpoint()
        assert await early(2) == 2
        assert runs == [2, 2]
        assert tap.summary().missed == {"other_arguments": 1}


async def test_tools_that_take_all_arguments_at_once_get_their_runs() -> None:
    seen: list[Any] = []

    async def by_schema(arguments: dict[str, Any]) -> str:
        """Takes a dict."""
        seen.append(arguments)
        return "schema"

    async def by_model(place: Place) -> str:
        """Takes a model."""
        seen.append(place)
        return "model"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    calls = [("c1", "by_schema", '{"name": "Rome"}'), ("c2", "by_model", '{"name": "Rome"}')]
    async with tapped(Server(anthropic([], calls))) as (tap, client):
        first = tap.tool(Tool.from_schema(by_schema, schema, pass_as="mapping", effect="pure"))
        second = tap.tool(Tool.from_model(Place, by_model, effect="pure"))
        await read(client)
        assert await first({"name": "Rome"}) == "schema"
        assert await second(Place(name="Rome")) == "model"
        assert len(seen) == 2
        assert tap.summary().missed == {}
