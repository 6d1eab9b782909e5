"""Tools whose function is loaded at the first call, and tools with another function behind them."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from profiles import every
from pydantic import BaseModel
from single_calls import run_alone
from streams import chat, stream

from streamtools import Tool, ToolContext, Turn, pipeline, tool
from streamtools.errors import ToolDefinitionError
from streamtools.tools import tools_of

pytestmark = pytest.mark.anyio


def embed(text: str, ctx: ToolContext) -> str:
    """Embed a text."""
    raise AssertionError("the stub never runs")


class Loader:
    """Counts what it is asked for, and remembers in which threads."""

    def __init__(self, function: Callable[..., Any], *, fails: int = 0) -> None:
        self.function = function
        self.fails = fails
        self.threads: list[threading.Thread] = []

    def __call__(self) -> Callable[..., Any]:
        self.threads.append(threading.current_thread())
        if len(self.threads) <= self.fails:
            raise OSError("no model file")
        return self.function


def real(text: str, ctx: ToolContext) -> str:
    """Embed, really."""
    return f"{text} {ctx.tool_name}"


async def turn_of(made: Tool, count: int) -> Turn:
    calls = [(f"c{n}", made.name, f'{{"text": "t{n}"}}') for n in range(count)]
    return await pipeline(stream(chat(calls=calls)), tools=[made])


async def test_nothing_is_loaded_before_the_first_call_and_once_then_in_a_thread() -> None:
    load = Loader(real)
    made = tool(embed, lazy=load, effect="pure")
    assert (made.name, made.schema["required"], made.is_async) == ("embed", ["text"], False)
    assert made.validate({"text": "x"}).by_name == {"text": "x"}
    assert load.threads == []
    with anyio.fail_after(30):
        turn = await turn_of(made, 6)
    assert [observation.value for observation in turn.observations] == [f"t{n} embed" for n in range(6)]
    assert len(load.threads) == 1
    assert load.threads[0] is not threading.main_thread()


async def test_an_async_function_that_is_loaded_is_awaited() -> None:
    async def real_async(text: str, ctx: ToolContext) -> str:
        await anyio.lowlevel.checkpoint()
        return f"async {text}"

    turn = await turn_of(tool(embed, lazy=Loader(real_async), effect="pure"), 1)
    assert turn.observations[0].value == "async t0"


async def test_a_tool_that_is_loaded_runs_as_its_function() -> None:
    turn = await turn_of(tool(embed, lazy=lambda: tool(real, name="other"), effect="pure"), 1)
    assert turn.observations[0].value == "t0 embed"


async def test_a_loader_that_raises_fails_the_call_and_is_tried_again() -> None:
    load = Loader(real, fails=1)
    made = tool(embed, lazy=load, effect="pure")
    first = (await turn_of(made, 1)).observations[0]
    assert (first.outcome, first.model_content) == ("failed", "Error: the tool embed raised OSError")
    assert (await turn_of(made, 1)).observations[0].value == "t0 embed"
    assert len(load.threads) == 2


async def test_a_loader_that_returns_nothing_to_call_fails_the_call() -> None:
    made = tool(embed, lazy=lambda: "model", effect="pure")  # type: ignore[arg-type, return-value]
    (seen,) = (await turn_of(made, 1)).observations
    assert (seen.outcome, type(seen.error and seen.error.__cause__)) == ("failed", TypeError)


async def test_methods_may_be_lazy_too() -> None:
    class Model:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool(lazy=lambda: lambda self, text: f"{self.name} {text}", effect="pure")
        def embed(self, text: str) -> str:
            """Embed."""
            return ""

    (made,) = tools_of(Model("m"))
    assert (await turn_of(made, 1)).observations[0].value == "m t0"


@every("lazy", [anyio.sleep, "loader", 3])
async def test_what_cannot_load_is_refused(lazy: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="lazy: expected a plain function"):
        tool(embed, lazy=lazy)


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
