"""A server that means harm, or is broken: nothing escapes, nothing hangs, nothing is fetched."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_session import FakeSession, fetched, listed
from profiles import every, examples

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


@every("answer", [7, None, {}, [], {"content": None}, {"isError": False, "_meta": {}}])
def test_an_answer_without_any_content_is_no_success(answer: Any) -> None:
    with pytest.raises(ToolError, match="not a tool result: it has neither content"):
        tool_result(answer, limits=Limits())


# -- as much as they like ------------------------------------------------------------------------------------------


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
