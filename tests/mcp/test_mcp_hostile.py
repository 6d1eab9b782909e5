"""A server that means harm, or is broken: nothing escapes, nothing hangs, nothing is fetched."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from anyio import from_thread
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_session import FakeSession, fetched, listed, observed, text
from profiles import examples

from streamtools import Limits, ToolError
from streamtools.content import Media, Text, ToolResult
from streamtools.mcp import FetchedTools, fetch_tools, tool_result

BOUNDED = settings(derandomize=True, deadline=None, max_examples=examples(200))

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def objects(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose known keys hold the right thing, junk or nothing."""
    return st.fixed_dictionaries({}, optional={key: value | JUNK for key, value in known.items()})


WORDS = st.sampled_from(["a", "b", "a/b", "ü", "x\x00", "\ud800", "\u202e", ""])
SCHEMAS = objects(
    type=st.sampled_from(["object", "array"]),
    properties=st.dictionaries(WORDS, objects(type=st.sampled_from(["string", "integer"]), pattern=WORDS), max_size=2),
    required=st.lists(WORDS, max_size=2),
)
ENTRIES = objects(
    name=WORDS,
    title=WORDS,
    description=WORDS,
    inputSchema=SCHEMAS,
    outputSchema=SCHEMAS,
    annotations=objects(readOnlyHint=st.booleans(), title=WORDS),
    execution=objects(taskSupport=WORDS),
)
PAGES = objects(
    tools=st.lists(ENTRIES, max_size=4),
    nextCursor=st.sampled_from(["0", "1"]),
    ttlMs=st.integers(-5, 5),
    cacheScope=st.sampled_from(["public", "private"]),
)
BLOCKS = objects(
    type=st.sampled_from(["text", "image", "audio", "resource", "resource_link"]),
    text=WORDS,
    data=WORDS,
    mimeType=st.sampled_from(["image/png", "x"]),
    uri=WORDS,
    resource=objects(uri=WORDS, text=WORDS, blob=WORDS),
)
ANSWERS = objects(content=st.lists(BLOCKS, max_size=4), structuredContent=JUNK, isError=st.booleans(), resultType=WORDS)


def run(function: Callable[[], Any]) -> Any:
    return anyio.run(function)


@given(st.lists(PAGES | JUNK, min_size=2, max_size=2))
@BOUNDED
def test_whatever_a_list_holds_each_entry_is_taken_or_refused(pages: list[Any]) -> None:
    async def fetch() -> FetchedTools:
        return await fetch_tools(FakeSession(pages=pages), server="s", prefix="p")

    tools = run(fetch)
    assert len({made.name for made in tools}) == len(tools)
    for made in tools:
        assert made.name.startswith("p__")
        assert made.schema["type"] == "object"
    for note in tools.refused:
        assert note.reason
        assert note.name is None or note.name.isprintable()


@given(ANSWERS | JUNK)
@BOUNDED
def test_whatever_a_call_is_answered_it_is_a_result_or_an_error_of_the_tool(answer: Any) -> None:
    with suppress(ToolError):
        result = tool_result(answer, limits=Limits())
        assert isinstance(result, ToolResult)
        assert all(isinstance(block, Text | Media) for block in result.blocks)


@pytest.mark.parametrize("answer", [7, None, {}, [], {"content": None}, {"isError": False, "_meta": {}}])
def test_an_answer_without_any_content_is_no_success(answer: Any) -> None:
    with pytest.raises(ToolError, match="not a tool result: it has neither content"):
        tool_result(answer, limits=Limits())


# -- as much as they like ------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_hundred_thousand_tools_are_cut_at_the_limit() -> None:
    began = time.process_time()
    tools = await fetched(*[listed(f"t{n}") for n in range(100_000)])
    assert (len(tools), len(tools.refused), tools.complete) == (1000, 1, False)
    assert time.process_time() - began < 10


@pytest.mark.anyio
async def test_a_long_list_lets_other_tasks_run() -> None:
    """No entry is read, and no tool made, before another task has had a turn."""
    beats = 0
    done = anyio.Event()

    async def beat() -> None:
        nonlocal beats
        while not done.is_set():
            beats += 1
            await anyio.lowlevel.checkpoint()

    async def another_beat() -> None:
        before = beats
        while beats == before:
            await anyio.lowlevel.checkpoint()

    class Entry(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "name":
                from_thread.run(another_beat)  # refuses the event loop's own thread
            return super().get(key, default)

    class Seconds(float):
        def __gt__(self, other: float) -> bool:
            from_thread.run(another_beat)
            return super().__gt__(other)

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        tools = await fetched(*[Entry(listed(f"t{n}")) for n in range(100)], call_timeout=Seconds(1))
        done.set()
        assert (len(tools), tools.refused) == (100, ())
    assert beats >= 2 * 100


BOMBS: list[dict[str, Any]] = [
    {"type": "object", "properties": {f"p{n}": {} for n in range(100_000)}},
    {"type": "object", "properties": {"a": {"enum": ["x" * 10] * 100_000}}},
    {
        "type": "object",
        "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 100}},
        "properties": {"x": {"$ref": "#/$defs/a"}},
    },
    {"type": "object", "$ref": "#"},
    {"type": "object", "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(30)}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a{1000}){1000}"}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "x" * 2000}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
]


@pytest.mark.anyio
@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
async def test_a_schema_bomb_costs_little_and_nobody_else(bomb: dict[str, Any]) -> None:
    began = time.process_time()
    tools = await fetched(listed("bomb", inputSchema=bomb), listed("fine"))
    outcome = (await observed(tools, "bomb", '{"x": {}, "a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}')).outcome
    assert tools[-1].name == "fine"
    assert outcome in ("ok", "invalid", "unknown_tool")
    assert time.process_time() - began < 10


@pytest.mark.anyio
@pytest.mark.parametrize("where", ["inputSchema", "outputSchema"])
async def test_a_pattern_that_backtracks_for_ever_elsewhere_is_nothing_here(where: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    value = "a" * 40_000 + "!"
    session = FakeSession(listed("f", **{where: schema}), answer=text("", structuredContent={"a": value}))
    arguments = f'{{"a": "{value}"}}' if where == "inputSchema" else "{}"
    began = time.process_time()
    outcome = (await observed(await fetch_tools(session, server="s"), "f", arguments)).outcome
    assert outcome == ("invalid" if where == "inputSchema" else "failed")
    assert time.process_time() - began < 10


@pytest.mark.anyio
async def test_nothing_is_fetched_for_a_schema() -> None:
    hits: list[Any] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0.05)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/schema.json"

        def serve() -> None:
            try:
                hits.append(listening.accept())
            except TimeoutError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        remote: list[dict[str, Any]] = [
            {"type": "object", "properties": {"a": {"$ref": url}}},
            {"type": "object", "$schema": url},
            {"type": "object", "allOf": [{"$dynamicRef": url}]},
            {"type": "object", "$id": url, "properties": {"a": {"$ref": "other.json"}}},
        ]
        entries = [listed(f"in{n}", inputSchema=schema) for n, schema in enumerate(remote)]
        entries += [listed(f"out{n}", outputSchema=schema) for n, schema in enumerate(remote)]
        tools = await fetched(*entries)
        thread.join()
    assert ([made.name for made in tools], len(tools.refused), hits) == ([], len(entries), [])
