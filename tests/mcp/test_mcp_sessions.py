"""Real sessions of the MCP SDK: over stdio, over HTTP and in memory, from the list to the history."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import anyio
import pytest
from mcp.types import CallToolResult
from mcp_servers import SDK2, http_session, in_memory, leaky_before_sdk2, sdk2_only, sdk_server, served_over_http, stdio
from mcp_session import observed
from streams import chat, stream, until

from streamtools import pipeline, tool
from streamtools.content import Media
from streamtools.events import ToolProgress
from streamtools.mcp import SchemaCache, fetch_tools
from streamtools.tools import Effect

pytestmark = pytest.mark.anyio

NAMES = ["change", "count", "echo", "evil", "exit", "forecast", "hot", "junk", "missing", "own", "received", "slow"]


async def received(tools: Any) -> dict[str, Any]:
    """What the plain server has got, by its own account."""
    told: dict[str, Any] = json.loads((await observed(tools, "received")).value)
    return told


# -- stdio ---------------------------------------------------------------------------------------------------------

CALLS: list[tuple[str, str, str, Any]] = [
    ("echo", '{"text": "hi"}', "ok", "hi"),
    ("forecast", "{}", "ok", {"degrees": 21}),
    ("count", "{}", "ok", "counted"),
    ("echo", '{"text": 7}', "invalid", None),
    ("hot", "{}", "failed", None),
    ("evil", "{}", "failed", None),
    ("junk", "{}", "failed", None),
    ("missing", "{}", "failed", None),
]


async def test_a_stream_calls_the_tools_of_a_process() -> None:
    with anyio.fail_after(60):
        async with stdio() as session:
            tools = await fetch_tools(session, server="plain")
            assert ([made.name for made in tools], tools.complete, tools.refused) == (NAMES, True, ())
            calls = [(f"c{n}", name, arguments) for n, (name, arguments, _, _) in enumerate(CALLS)]
            async with pipeline(stream(chat([], calls)), tools=tools) as events:
                progress = [event.value async for event in events if isinstance(event, ToolProgress)]
            told = await received(tools)
    seen = {event.call_id: event for event in events.turn.observations}
    assert [(seen[f"c{n}"].outcome, seen[f"c{n}"].value) for n in range(len(CALLS))] == [call[2:] for call in CALLS]
    assert progress == [{"progress": 1, "total": 2}, {"progress": 2, "total": 2}]
    assert "does not fit the tool's output schema: degrees: " in seen["c4"].model_content
    assert "does not fit the tool's output schema: a: " in seen["c5"].model_content
    assert seen["c6"].model_content == "Error: the MCP server 'plain' answered with something that is not a tool result"
    assert seen["c7"].model_content == "Error: the MCP server 'plain' answered with error -32602: Unknown tool: missing"
    sent = [message["params"]["name"] for message in told["received"] if message["method"] == "tools/call"]
    assert sorted(sent) == sorted(["echo", "forecast", "count", "hot", "evil", "junk", "missing", "received"])
    assert [
        message.get("params", {}).get("cursor") for message in told["received"] if message["method"] == "tools/list"
    ] == [None, "1"]
    with pytest.raises(ProcessLookupError):
        os.kill(told["pid"], 0)


async def test_a_call_that_times_out_is_cancelled_on_the_server() -> None:
    with anyio.fail_after(60):
        async with stdio() as session:
            tools = await fetch_tools(session, server="plain", call_timeout=0.2)
            assert (await observed(tools, "slow")).outcome == "timed_out"
            told = (await received(tools))["received"]
    (asked,) = [m["id"] for m in told if m["method"] == "tools/call" and m["params"]["name"] == "slow"]
    (cancelled,) = [m for m in told if m["method"] == "notifications/cancelled"]
    assert cancelled["params"]["requestId"] == asked


async def test_a_call_whose_consumer_leaves_is_cancelled_on_the_server() -> None:
    with anyio.fail_after(60):
        async with stdio() as session:
            tools = await fetch_tools(session, server="plain")
            async with pipeline(stream(chat([], [("c", "slow", "{}")])), tools=tools) as events:
                await until(events, ToolProgress)
            told = (await received(tools))["received"]
    assert [event.outcome for event in events.turn.observations] == ["cancelled"]
    assert [m["method"] for m in told].count("notifications/cancelled") == 1


async def test_a_change_on_the_server_is_seen_by_the_next_resolve() -> None:
    cache = SchemaCache()
    changed = anyio.Event()

    async def then(_: Any) -> None:
        changed.set()

    with anyio.fail_after(60):
        async with stdio(message_handler=cache.message_handler("plain", then)) as session:
            tools = await fetch_tools(session, server="plain", cache=cache)
            await fetch_tools(session, server="plain", cache=cache)
            assert len(cache) == 1
            await observed(tools, "change")
            await changed.wait()
            assert len(cache) == 0
            await fetch_tools(session, server="plain", cache=cache)
            told = (await received(tools))["received"]
    lists = [m for m in told if m["method"] == "tools/list" and "cursor" not in m.get("params", {})]
    assert len(lists) == 2


@pytest.mark.skipif(not SDK2, reason="tasks of mcp 1 may fail by it, and cancel whoever uses the session")
@pytest.mark.parametrize(("effect", "outcome"), [("once", "unknown"), ("pure", "failed")])
async def test_a_server_that_dies_in_a_call_fails_that_call_and_nothing_else(effect: Effect, outcome: str) -> None:
    @tool(effect="pure")
    async def local() -> str:
        """Works."""
        return "works"

    with anyio.fail_after(60):
        async with stdio() as session:
            tools = [*await fetch_tools(session, server="plain", effect=effect), local]
            calls = [("c0", "exit", "{}"), ("c1", "slow", "{}"), ("c2", "local", "{}")]
            turn = await pipeline(stream(chat(["So"], calls)), tools=tools)
    seen = {event.call_id: event.outcome for event in turn.observations}
    assert seen == {"c0": outcome, "c1": outcome, "c2": "ok"}
    assert turn.text == "So"


async def test_one_tool_that_the_sdk_does_not_take_costs_that_tool_alone() -> None:
    with anyio.fail_after(60):
        async with stdio("broken") as session:
            tools = await fetch_tools(session, server="plain")
            assert (await observed(tools, "echo", '{"text": "hi"}')).value == "hi"
    assert ([made.name for made in tools], tools.complete) == (["echo", "fine", "forecast", "slow"], True)
    assert [(note.name, note.reason) for note in tools.refused] == [("broken", "inputSchema is not an object")]


# -- the SDK's own server ------------------------------------------------------------------------------------------


async def use(session: Any) -> None:
    """Everything that a client does, with the SDK's server."""
    tools = await fetch_tools(session, server="sdk", prefix="sdk")
    assert [made.name for made in tools] == ["sdk__add", "sdk__draw", "sdk__fail"]
    assert tools[0].description == "Adds two numbers."
    calls = [("c0", "sdk__add", '{"a": 1, "b": 2}'), ("c1", "sdk__draw", "{}"), ("c2", "sdk__fail", "{}")]
    progress: list[Any] = []
    async with pipeline(stream(chat([], calls)), tools=tools) as events:
        async for event in events:
            if isinstance(event, ToolProgress):
                progress.append(event.value)
    add, draw, fail = sorted(events.turn.observations, key=lambda seen: seen.call_id)
    assert (add.outcome, add.value, add.model_content) == ("ok", {"result": 3}, "3")
    assert Media(kind="image", mime_type="image/png", data="AAAA") in draw.result.blocks
    assert progress == [{"progress": 1, "total": 2, "message": "sketched"}]
    assert fail.outcome == "failed"
    assert "fail" in fail.model_content
    results = [message for message in events.turn.messages() if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["c0", "c1", "c2"]


# On trio the SDK's HTTP client leaves its async generators to the garbage collector, of which trio warns.
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@asyncio_only
@leaky_before_sdk2
async def test_the_sdks_server_over_http() -> None:
    with anyio.fail_after(60), served_over_http(sdk_server) as url:
        async with http_session(url) as session:
            await use(session)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(url.split(":")[2].split("/")[0]))) != 0


# -- arguments that a server wants repeated in headers (MCP 2026-07-28) ------------------------------------------------


def paged_server(answers: list[Any], asked: list[str]) -> Any:
    """A server with a page for each tool, of which the last, `b`, gives these answers one after the other."""
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp.types import ListToolsResult, Tool

    async def tools(_: Any, params: Any) -> Any:
        page = 0 if params is None or params.cursor is None else int(params.cursor)
        asked.append(f"list {page}")
        listed = Tool(name="ab"[page], input_schema={"type": "object"})
        return ListToolsResult(tools=[listed], next_cursor=None if page else "1", ttl_ms=60_000)

    async def call(*_: Any) -> Any:
        asked.append("call")
        answer = answers.pop(0)
        if isinstance(answer, int):
            raise MCPError(code=answer, message="no")
        return answer

    return Server("paged", on_list_tools=tools, on_call_tool=call)


@sdk2_only
async def test_after_a_mismatch_of_headers_all_pages_are_looked_through_and_the_call_is_sent_once_more() -> None:
    cache, asked = SchemaCache(), list[str]()
    answers = [-32020, CallToolResult(content=[]), -32020, -32020]
    with anyio.fail_after(60):
        async with in_memory(paged_server(answers, asked)) as session:
            tools = await fetch_tools(session, server="paged", cache=cache)
            asked.clear()
            assert (await observed(tools, "b")).outcome == "ok"
            assert asked == ["call", "list 0", "list 1", "call"]
            asked.clear()
            assert (await observed(tools, "b")).outcome == "failed"
            assert asked == ["call", "list 0", "list 1", "call"]
