"""A list of an MCP server is bounded as a whole: its bytes, its values, its time, and what it keeps in memory."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest
from mcp_session import FakeSession, fetched, listed
from profiles import every

from streamtools import Limits
from streamtools.mcp import Pins, ToolChange, fetch_tools

pytestmark = pytest.mark.anyio


def with_default(name: str, default: Any) -> dict[str, Any]:
    """A tool that brings along a value nobody needs."""
    return listed(name, inputSchema={"type": "object", "properties": {"a": {"default": default}}})


def wide(name: str, count: int) -> dict[str, Any]:
    """A tool of so many parameters."""
    properties = {f"p{number}": {"minLength": 1} for number in range(count)}
    return listed(name, inputSchema={"type": "object", "properties": properties})


BOUNDS = [
    (Limits(max_list_bytes=3500), "x" * 1000, "the list is larger than max_list_bytes=3500; the rest is left out"),
    (
        Limits(max_list_values=350),
        [[]] * 100,
        "the list has schemas of more JSON values than max_list_values=350; the rest is left out",
    ),
]


@every("pages", [1, 5])
@every(("limits", "default", "why"), BOUNDS)
async def test_what_is_beyond_the_bounds_of_a_whole_list_is_left_out_and_told(
    limits: Limits, default: Any, why: str, pages: int
) -> None:
    entries = [with_default(name, default) for name in "abcde"]
    given: list[dict[str, Any]] = [{"tools": entries}]
    if pages == 5:
        given = [{"tools": [entry], "nextCursor": str(number + 1)} for number, entry in enumerate(entries)]
    session = FakeSession(pages=given)
    tools = await fetch_tools(session, server="s", limits=limits)
    assert ([made.name for made in tools], tools.complete) == (["a", "b", "c"], False)
    assert [(note.name, note.reason) for note in tools.refused] == [(None, why)]
    assert len(session.cursors) == min(pages, 4)


async def test_a_schema_of_very_many_values_is_refused_alone_wherever_they_are() -> None:
    lists = [[]] * 60_000
    bad = [with_default(f"bad{number}", lists) for number in range(100)]
    tools = await fetched(*bad, with_default("fine", "x" * 180_000))
    assert ([made.name for made in tools], tools.complete) == (["fine"], True)
    assert len(tools.refused) == 100
    assert {note.reason for note in tools.refused} == {"inputSchema has more JSON values than max_schema_values=30000"}


@pytest.mark.costly
async def test_other_tasks_go_on_while_one_large_tool_is_made() -> None:
    beats = 0
    done = anyio.Event()

    async def beat() -> None:
        nonlocal beats
        while not done.is_set():
            beats += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        assert len(await fetched(wide("t", 9_000))) == 1
        done.set()
    assert beats > 100


async def test_whoever_is_asked_about_a_change_may_take_longer() -> None:
    deadlines: list[float] = []

    async def on_change(_: ToolChange) -> bool:
        deadlines.append(anyio.current_effective_deadline())
        return True

    pins = Pins(trust_on_first_use=False, on_change=on_change)
    assert len(await fetched(listed("a"), pins=pins, list_timeout=5)) == 1
    assert deadlines == [math.inf]
