"""Tools whose function is loaded at the first call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from streams import chat, stream

from streamtools import ToolContext, Turn, pipeline, tool
from streamtools.errors import ToolDefinitionError
from streamtools.tools import Tool, tools_of

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
    async with pipeline(stream(chat(calls=calls)), tools=[made]) as events:
        _ = [event async for event in events]
    return events.turn


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


async def test_calls_that_come_while_another_loads_wait_for_it() -> None:
    inside = threading.Barrier(2, timeout=5)
    loads = 0

    def load() -> Callable[..., Any]:
        nonlocal loads
        loads += 1
        inside.wait()  # only when the second caller is on its way
        return real

    made = tool(embed, lazy=load)
    results: list[str] = []

    def call(number: int) -> None:
        if number:
            inside.wait()
        results.append(made(f"{number}", ToolContext()))

    threads = [threading.Thread(target=call, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert sorted(results) == ["0 tool", "1 tool"]
    assert loads == 1


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


@pytest.mark.parametrize("lazy", [anyio.sleep, "loader", 3])
async def test_what_cannot_load_is_refused(lazy: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="lazy: expected a plain function"):
        tool(embed, lazy=lazy)
