"""Real sessions of the MCP SDK: over stdio, over HTTP and in memory, from the list to the history."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import anyio
import mcp
import pytest
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, JSONRPCMessage
from mcp_servers import (
    SDK2,
    Context,
    Watch,
    cache_hints,
    http_session,
    in_memory,
    leaky_before_sdk2,
    sdk2_only,
    sdk_server,
    served_over_http,
    server_with_headers,
    stdio,
)
from mcp_session import observed
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import TypeAdapter
from streams import chat, stream

from streamtools import pipeline, tool
from streamtools.content import Media
from streamtools.events import ToolProgress
from streamtools.mcp import SchemaCache, fetch_tools
from streamtools.telemetry import Tracing
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
    ] == [
        None,
        "1",
    ]
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
                async for event in events:
                    if isinstance(event, ToolProgress):
                        break
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


async def test_a_list_of_another_session_serves_and_is_not_asked_for_again_by_a_call() -> None:
    cache = SchemaCache()
    with anyio.fail_after(60):
        async with stdio() as first, stdio() as second:
            await fetch_tools(first, server="plain", cache=cache)
            tools = await fetch_tools(second, server="plain", cache=cache)
            assert (await observed(tools, "forecast")).value == {"degrees": 21}
            told = (await received(tools))["received"]
    assert "tools/list" not in [message["method"] for message in told]


async def test_a_tools_own_error_is_not_taken_for_one_about_headers_and_does_not_run_it_twice() -> None:
    with anyio.fail_after(60):
        async with stdio() as session:
            tools = await fetch_tools(session, server="plain")
            assert "error -32020: an error of its own" in (await observed(tools, "own")).model_content
            told = (await received(tools))["received"]
    assert [m["params"]["name"] for m in told if m["method"] == "tools/call"] == ["own", "received"]


async def test_the_tools_span_reaches_the_server() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with anyio.fail_after(60):
        async with stdio() as session:
            tools = await fetch_tools(session, server="plain")
            await observed(tools, "forecast", observers=[Tracing(provider)])
            told = (await received(tools))["received"]
    (sent,) = [m["params"] for m in told if m["method"] == "tools/call" and m["params"]["name"] == "forecast"]
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "execute_tool forecast"]
    ids = span.get_span_context()
    assert ids is not None
    assert sent["_meta"]["traceparent"].split("-")[1] == f"{ids.trace_id:032x}"


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
            async with pipeline(stream(chat(["So"], calls)), tools=tools) as events:
                async for _ in events:
                    pass
    seen = {event.call_id: event.outcome for event in events.turn.observations}
    assert seen == {"c0": outcome, "c1": outcome, "c2": "ok"}
    assert events.turn.text == "So"


@pytest.mark.parametrize("end", ["send", "receive"])
async def test_a_connection_in_memory_that_closes_in_a_call_fails_that_call(end: str) -> None:
    to_client, from_server = anyio.create_memory_object_stream[Any](1)
    to_server, from_client = anyio.create_memory_object_stream[Any](1)

    async def server() -> None:
        async with to_client, from_client:
            async for message in from_client:
                asked = message.message.root if hasattr(message.message, "root") else message.message
                if asked.method == "tools/call":
                    await (to_client if end == "send" else from_client).aclose()
                    return
                if asked.method in ANSWERS:
                    answer = {"jsonrpc": "2.0", "id": asked.id, "result": ANSWERS[asked.method]}
                    await to_client.send(SessionMessage(TypeAdapter(JSONRPCMessage).validate_python(answer)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(server)
            async with mcp.ClientSession(from_server, to_server) as session:
                await session.initialize()
                tools = await fetch_tools(session, server="memory")
                for _ in range(2):
                    assert (await observed(tools, "f")).outcome == "unknown"


ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "memory", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "f", "inputSchema": {"type": "object"}}]},
}


async def test_one_tool_that_the_sdk_does_not_take_costs_that_tool_alone() -> None:
    with anyio.fail_after(60):
        async with stdio("broken") as session:
            tools = await fetch_tools(session, server="plain")
            assert (await observed(tools, "echo", '{"text": "hi"}')).value == "hi"
    assert ([made.name for made in tools], tools.complete) == (["echo", "fine", "forecast", "slow"], True)
    assert [(note.name, note.reason) for note in tools.refused] == [("broken", "inputSchema is not an object")]


@pytest.mark.parametrize(("argument", "name"), [("halves", "half"), ("deep", "deep")])
async def test_one_tool_that_keeps_the_transport_from_reading_the_message_costs_that_tool_alone(
    argument: str, name: str
) -> None:
    with anyio.fail_after(20):
        async with stdio(argument) as session:
            handler = session._message_handler
            tools = await fetch_tools(session, server="plain", list_timeout=15)
            assert (await observed(tools, "echo", '{"text": "hi"}')).value == "hi"
            assert session._message_handler is handler
    assert ([made.name for made in tools], tools.complete) == (["echo", "fine", "forecast", "slow"], True)
    assert [note.name for note in tools.refused] == [name]


async def test_a_page_that_is_none_at_all_ends_the_list_at_once() -> None:
    with anyio.fail_after(60):
        async with stdio("none") as session:
            tools = await fetch_tools(session, server="plain")
    assert ([made.name for made in tools], tools.complete) == (["echo", "forecast", "slow"], False)
    assert [(note.name, note.reason) for note in tools.refused] == [(None, "a page of the list has no list of tools")]


# -- the SDK's own server ------------------------------------------------------------------------------------------


async def use(session: Any) -> None:
    """Everything that a client does, with the SDK's server."""
    tools = await fetch_tools(session, server="sdk", prefix="sdk")
    assert [made.name for made in tools] == ["sdk__add", "sdk__draw", "sdk__fail", "sdk__wait"]
    assert tools[0].description == "Adds two numbers."
    calls = [("c0", "sdk__add", '{"a": 1, "b": 2}'), ("c1", "sdk__draw", "{}"), ("c2", "sdk__fail", "{}")]
    progress: list[Any] = []
    async with pipeline(stream(chat([], calls)), tools=tools) as events:
        async for event in events:
            if isinstance(event, ToolProgress):
                progress.append(event.value)
    add, draw, fail = sorted(events.turn.observations, key=lambda seen: seen.call_id)
    assert (add.outcome, add.value, add.model_content) == ("ok", {"result": 3}, "3")
    assert draw.result is not None
    assert Media(kind="image", mime_type="image/png", data="AAAA") in draw.result.blocks
    assert progress == [{"progress": 1, "total": 2, "message": "sketched"}]
    assert fail.outcome == "failed"
    assert "fail" in fail.model_content
    results = [message for message in events.turn.messages() if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["c0", "c1", "c2"]


async def test_the_sdks_server_in_memory() -> None:
    with anyio.fail_after(60):
        async with in_memory(sdk_server()) as session:
            await use(session)


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


@sdk2_only
async def test_the_sdks_client_is_a_session_too() -> None:
    with anyio.fail_after(60):
        async with mcp.Client(sdk_server()) as client:
            await use(client)


@sdk2_only
async def test_the_sdks_client_does_not_answer_from_a_list_of_its_own() -> None:
    cache = SchemaCache()
    server = sdk_server(cache_hints=cache_hints(60_000))
    with anyio.fail_after(60):
        async with mcp.Client(server) as client:
            await fetch_tools(client, server="sdk", cache=cache)
            server.remove_tool("fail")
            cache.invalidate("sdk")
            tools = await fetch_tools(client, server="sdk", cache=cache)
    assert [made.name for made in tools] == ["add", "draw", "wait"]


async def test_a_cancelled_call_is_cancelled_in_the_server() -> None:
    watch = Watch()
    with anyio.fail_after(60):
        async with in_memory(sdk_server(watch)) as session:
            tools = await fetch_tools(session, server="sdk")
            async with anyio.create_task_group() as group:
                group.start_soon(observed, tools, "wait")
                await watch.waiting.wait()
                group.cancel_scope.cancel()
            await watch.cancelled.wait()


@sdk2_only
@pytest.mark.parametrize(("ttl_ms", "kept"), [(60_000, 1), (0, 0)])
async def test_how_long_a_list_holds_is_the_servers_word(ttl_ms: int, kept: int) -> None:
    cache = SchemaCache()
    with anyio.fail_after(60):
        async with in_memory(sdk_server(cache_hints=cache_hints(ttl_ms))) as session:
            await fetch_tools(session, server="sdk", cache=cache, credentials="me")
            assert len(cache) == kept
            await fetch_tools(session, server="sdk", cache=cache, credentials="somebody else")
            assert len(cache) == kept


async def test_a_server_that_says_nothing_about_caching_is_kept_for_the_default() -> None:
    cache = SchemaCache()
    with anyio.fail_after(60):
        async with stdio() as session:
            await fetch_tools(session, server="plain", cache=cache)
    assert len(cache) == 1


@pytest.mark.skipif(not SDK2, reason="mcp 1 keeps no server version")
async def test_the_version_of_the_server_is_known_from_the_session() -> None:
    cache = SchemaCache()
    with anyio.fail_after(60):
        for version in ("1", "2", "2"):
            async with in_memory(sdk_server(version=version, cache_hints=cache_hints(60_000))) as session:
                await fetch_tools(session, server="sdk", cache=cache)
    assert len(cache) == 2


# -- arguments that a server wants repeated in headers (MCP 2026-07-28) ------------------------------------------------


@sdk2_only
@asyncio_only
async def test_a_session_that_never_saw_the_list_learns_it_when_the_server_asks_for_headers() -> None:
    cache = SchemaCache()
    with anyio.fail_after(60), served_over_http(server_with_headers) as url:
        async with mcp.Client(url) as first, mcp.Client(url) as second:
            for client in (first, second):
                tools = await fetch_tools(client.session, server="headers", cache=cache)
                for _ in range(2):
                    observation = await observed(tools, "locate", '{"region": "eu"}')
                    assert (observation.outcome, observation.value) == ("ok", {"result": "eu"})
    assert len(cache) == 1


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


@sdk2_only
async def test_a_server_that_asks_for_input_fails_the_call() -> None:
    from mcp.types import InputRequiredResult

    answers = [InputRequiredResult(request_state="x")]
    with anyio.fail_after(60):
        async with in_memory(paged_server(answers, [])) as session:
            observation = await observed(await fetch_tools(session, server="paged"), "b")
    assert observation.outcome == "failed"
    assert "asks for input" in observation.model_content


@sdk2_only
async def test_the_sdks_client_gives_the_input_that_a_server_asks_for() -> None:
    from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

    form = {"type": "object", "properties": {}}
    question = ElicitRequest(params=ElicitRequestFormParams(message="sure?", requested_schema=form))
    answers = [InputRequiredResult(input_requests={"q": question}), CallToolResult(content=[])]

    async def agree(*_: Any) -> Any:
        return ElicitResult(action="accept", content={})

    with anyio.fail_after(60):
        async with mcp.Client(paged_server(answers, []), elicitation_callback=agree) as client:
            tools = await fetch_tools(client, server="paged")
            assert [made.name for made in tools] == ["a", "b"]
            assert (await observed(tools, "b")).outcome == "ok"


@sdk2_only
async def test_who_listens_to_a_server_of_2026_is_told_of_changes() -> None:
    cache, changed = SchemaCache(), anyio.Event()

    async def then(message: Any) -> None:
        if message.method == "notifications/tools/list_changed":
            changed.set()

    server = sdk_server(cache_hints=cache_hints(60_000))

    @server.tool()
    async def change(ctx: Context) -> str:  # type: ignore[type-arg]
        """Changes the list of tools."""
        await ctx.notify_tools_changed()
        return ""

    with anyio.fail_after(60):
        async with mcp.Client(server, message_handler=cache.message_handler("sdk", then)) as client:
            tools = await fetch_tools(client, server="sdk", cache=cache)
            async with client.listen(tools_list_changed=True):
                assert len(cache) == 1
                await observed(tools, "change")
                await changed.wait()
    assert len(cache) == 0
