"""`Tap.tool` under frameworks that pass a call's arguments on in any form: as they came, half coerced, or typed."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from profiles import every
from pydantic import BaseModel, Field, SecretStr
from streams import anthropic
from tapping import Server, read, tapped

from streamtools import Tool

pytestmark = pytest.mark.anyio


class Place(BaseModel):
    name: str
    at: date = date(2026, 1, 1)
    near: list[Place] = Field(default_factory=list)
    extra: Any = None


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


@every(("annotation", "sent", "given"), UNLIKE)
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
