"""The demo's tools: what they answer, and that the model was trained with them."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
import trio.testing

from demo.tools import TOOLS
from streamtools import ToolError

BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """A clock that jumps to where everybody waits for: the tools take their time, the tests do not."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def answer(name: str, **arguments: Any) -> Any:
    bound = BY_NAME[name].validate(arguments)
    return await BY_NAME[name].fn(*bound.args, **bound.kwargs)


@pytest.mark.anyio
async def test_the_same_arguments_get_the_same_answer() -> None:
    answers: dict[int, Any] = {}

    async def ask(number: int) -> None:
        answers[number] = await answer("get_weather", city="Tokyo")

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(ask, number)
    assert set(answers.values()) == {"7 degrees"}


@pytest.mark.anyio
async def test_every_call_takes_a_moment_and_each_another() -> None:
    took = set()
    for city in ("Tokyo", "Oslo", "Lima"):
        start = anyio.current_time()
        await answer("get_weather", city=city)
        took.add(round(anyio.current_time() - start, 3))
    assert len(took) == 3
    assert 0.2 <= min(took) <= max(took) <= 0.6


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add", {"a": 2, "b": 3}, "5"),
        ("add", {"a": 0.1, "b": 0.2}, "0.3"),
        ("convert", {"amount": 100, "from_currency": "EUR", "to_currency": "USD"}, "109"),
        ("convert", {"amount": 1, "from_currency": "CHF", "to_currency": "CHF"}, "1"),
    ],
)
async def test_numbers_are_as_plain_as_they_can_be(name: str, arguments: dict[str, Any], expected: str) -> None:
    assert str(await answer(name, **arguments)) == expected


@pytest.mark.anyio
async def test_texts_are_short_enough_for_the_model_to_repeat() -> None:
    assert await answer("get_time", city="Oslo") == "13:38"
    assert re.fullmatch(r"\d\d pages about trains", await answer("search", query="trains"))
    assert re.fullmatch(r"\d+\.\d\d", str(await answer("stock_price", symbol="QZX")))


@pytest.mark.anyio
async def test_a_currency_without_a_rate_is_an_error_for_the_model() -> None:
    with pytest.raises(ToolError, match=r"^no rate$"):
        await answer("convert", amount=1, from_currency="USD", to_currency="QQQ")


def test_tools_may_start_while_the_model_still_writes() -> None:
    assert {tool.effect for tool in TOOLS} == {"pure"}
