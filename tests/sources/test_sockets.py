"""A connection over a WebSocket: each pipeline reads one response of it, and it stays open.

OpenAI's connections need asyncio; those of websockets are tried on both event loops.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from profiles import every
from responses_streams import Payload, added, done, function, message, output_text, text
from sockets import Server, client_of, connected, serving
from streams import stream
from websockets.exceptions import ConnectionClosedError
from websockets.sync.connection import Connection

from streamtools import TextDelta, Turn, pipeline, tool
from streamtools.errors import ProviderError, RemoteProtocolError, TruncatedStream
from streamtools.events import StreamStart
from streamtools.front import agent_loop
from streamtools.sources import responses

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

RAN: list[int] = []


@tool(effect="pure")
async def f(n: int) -> int:
    """Return n."""
    RAN.append(n)
    return n


def response(id_: str, *items: Payload, status: str = "completed", **more: Any) -> list[Payload]:
    last = {"type": f"response.{status}", "response": {"id": id_, "status": status, "output": [], **more}}
    begun = {"id": id_, "model": "m", "status": "in_progress", "output": []}
    return [{"type": "response.created", "response": begun}, *items, last]


def saying(words: str, id_: str = "resp_1", **more: Any) -> list[Payload]:
    deltas = [text(0, letter) for letter in words]
    return response(id_, added(0, message()), *deltas, done(0, message(output_text(words))), **more)


def calling(number: int, id_: str = "resp_1") -> list[Payload]:
    return response(id_, added(0, function(number)), done(0, function(number, f'{{"n":{number}}}')))


def on(lane: str, payloads: Iterable[Payload]) -> list[Payload]:
    return [{**payload, "stream_id": lane} for payload in payloads]


def answer(request: Payload) -> list[Payload | str | bytes]:
    """The script: a request's ``say`` is what comes back; a lane is repeated."""
    if request["type"] != "response.create":
        return []
    events = saying(str(request.get("input", "")), str(request.get("metadata", {}).get("id", "resp_1")))
    lane = request.get("stream_id")
    return [*(on(lane, events) if lane else events)]


async def read(connection: Any, **options: Any) -> Turn:
    return await pipeline(connection, **options)


async def ask(socket: Any, words: str, **more: Any) -> None:
    await socket.send(json.dumps({"type": "response.create", "input": words, **more}))


@asynccontextmanager
async def sdk(respond: Any = answer) -> AsyncIterator[tuple[Any, Server]]:
    async with serving(respond) as server, client_of(server) as client, client.responses.connect() as connection:
        yield connection, server


# -- OpenAI's connection -----------------------------------------------------------------------------------------------


@on_asyncio
@pytest.mark.parametrize("leave", ["break", "aclose", "exception", "cancellation"])
async def test_a_response_that_is_left_early_leaves_the_socket_open_for_the_next(leave: str) -> None:
    async with sdk() as (connection, _):
        await connection.response.create(model="m", input="first " * 50, metadata={"id": "resp_1"})
        with anyio.CancelScope() as scope:
            try:
                async with pipeline(connection) as events:
                    async for seen in events:
                        if isinstance(seen, TextDelta):
                            if leave == "break":
                                break
                            if leave == "aclose":
                                await events.aclose()
                                break
                            if leave == "exception":
                                raise KeyError
                            scope.cancel()
                            await anyio.lowlevel.checkpoint()
            except KeyError:
                assert leave == "exception"
        await connection.response.create(model="m", input="second", metadata={"id": "resp_2"})
        turn = await read(connection)
    assert (turn.response_id, turn.text, turn.complete) == ("resp_2", "second", True)


@on_asyncio
async def test_a_reader_that_is_cancelled_before_anything_came_loses_nothing() -> None:
    async with sdk() as (connection, server):
        async with anyio.create_task_group() as group:
            group.start_soon(read, connection)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        await connection.response.create(model="m", input="late")
        assert (await read(connection)).text == "late"
        assert len(server.requests) == 1


@on_asyncio
async def test_an_error_ends_its_request_and_not_the_connection() -> None:
    nested = {"type": "error", "status": 400, "error": {"type": "e", "code": "invalid_stream_id", "message": "no"}}

    def refusing(request: Payload) -> list[Any]:
        return [nested] if request.get("input") == "bad" else answer(request)

    async with sdk(refusing) as (connection, _):
        await connection.response.create(model="m", input="bad")
        with pytest.raises(ProviderError, match="no") as caught:
            await read(connection)
        assert caught.value.code == "invalid_stream_id"
        await connection.response.create(model="m", input="good")
        assert (await read(connection)).text == "good"


@on_asyncio
async def test_lanes_that_interleave_are_one_turn_each_whoever_reads_first() -> None:
    x, y = on("x", saying("abc", "resp_x")), on("y", saying("def", "resp_y"))
    mixed = [payload for pair in zip(x, y, strict=True) for payload in pair]

    async with sdk(lambda _: mixed) as (connection, _):
        await connection.response.create(model="m", input="both")
        turns: list[Turn] = []

        async def take() -> None:
            turns.append(await read(connection))

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            group.start_soon(take)
    assert sorted((turn.response_id, turn.text, turn.warnings) for turn in turns) == [
        ("resp_x", "abc", ()),
        ("resp_y", "def", ()),
    ]


@on_asyncio
async def test_an_agent_loop_runs_over_one_connection() -> None:
    def agent(request: Payload) -> list[Any]:
        last = request["input"][-1]
        return calling(7) if last.get("role") == "user" else saying(f"It is {last['output']}.", "resp_2")

    async with sdk(agent) as (connection, server):

        async def call_model(messages: list[Any], tools: list[Any]) -> Any:
            await connection.response.create(model="m", input=messages, tools=tools)
            return connection

        asked = [{"role": "user", "content": "Go"}]
        async with agent_loop(call_model, asked, tools=[f], wire="openai.responses") as run:
            turn = await run.finish()
        await ask(connection._connection, "", input=[{"role": "user", "content": "again"}])
        assert [call.name for call in (await read(connection)).calls] == ["f"]
    assert (run.outcome, turn.text, len(server.requests)) == ("answered", "It is 7.", 3)


@on_asyncio
async def test_a_blocking_connection_is_refused() -> None:
    with pytest.raises(TypeError, match="blocking connection"):
        await read(Connection.__new__(Connection))


# -- a connection of websockets, and frames ----------------------------------------------------------------------------


@every("encode", [json.dumps, lambda payload: json.dumps(payload).encode()])
async def test_each_pipeline_reads_one_response_of_a_bare_connection(encode: Any) -> None:
    async with serving(lambda r: [encode(each) for each in answer(r)]) as server, connected(server) as socket:
        for words in ("one", "two"):
            await ask(socket, words)
            turn = await read(socket)
            assert (turn.text, turn.complete, turn.warnings) == (words, True, ())


UNKNOWN = [{"type": kind, "sequence_number": 0} for kind in ("response.metadata", "response.new", "new", "ping")]


@every("first", UNKNOWN)
async def test_an_event_that_names_neither_a_response_nor_an_item_begins_none(first: Payload) -> None:
    async with serving(lambda _: [first, *saying("a")]) as server, connected(server) as socket:
        with anyio.fail_after(30):
            await ask(socket, "")
            turn = await read(socket)
        assert (turn.text, turn.complete, turn.warnings) == ("a", True, ())
        assert [each["type"] for each in responses(socket).asides] == [first["type"]]


async def test_a_resumed_response_begins_in_the_middle_with_what_names_it_or_an_item_of_it() -> None:
    whole = saying("ab")
    named = {"type": "response.metadata", "response_id": "resp_1"}
    for first in (whole[1:], [{**whole[2], "item_id": "msg_1"}, *whole[3:]], [named, *whole], whole[-1:]):
        async with serving(lambda _, first=first: first) as server, connected(server) as socket:  # type: ignore[misc]
            with anyio.fail_after(30):
                await ask(socket, "")
                assert (await read(socket)).complete, first


async def test_a_response_is_cut_by_the_next_one_on_its_lane_whose_events_are_its_own() -> None:
    def failing_over(_: Payload) -> list[Payload]:
        old, new = [*calling(1)[:2], *saying("old", "resp_1")[-1:]], saying("new", "resp_2")
        return [*old[:2], *new[:3], *old[2:], *new[3:], *saying("last", "resp_3")]

    RAN.clear()
    async with serving(failing_over) as server, connected(server) as socket:
        with anyio.fail_after(30):
            await ask(socket, "")
            events = pipeline(socket, tools=[f])
            with pytest.raises(TruncatedStream):
                async with events:
                    _ = [seen async for seen in events]
            turns = [await read(socket) for _ in range(2)]
        assert [aside["type"] for aside in responses(socket).asides] == ["response.completed"]
    old = events.turn
    assert (old.response_id, old.complete, [call.status for call in old.calls]) == ("resp_1", False, ["truncated"])
    assert [(warning.code, warning.detail) for warning in old.warnings] == [("other_response", "resp_2")]
    assert [(turn.response_id, turn.text, turn.complete, turn.warnings) for turn in turns] == [
        ("resp_2", "new", True, ()),
        ("resp_3", "last", True, ()),
    ]
    assert RAN == []


async def test_a_socket_that_closes_in_the_middle_cuts_the_response_and_runs_nothing() -> None:
    RAN.clear()
    cut = calling(1)[:2]
    async with serving(lambda _: cut) as server, connected(server) as socket:
        await ask(socket, "")
        events = pipeline(socket, tools=[f])
        with pytest.raises(TruncatedStream):
            async with events:
                async for seen in events:
                    if isinstance(seen, StreamStart):
                        await server.hang_up()
        with pytest.raises(RemoteProtocolError, match="no event"):
            await read(socket)
    assert (RAN, events.turn.complete) == ([], False)


async def test_a_socket_that_fails_raises_its_own_error() -> None:
    async with serving(lambda _: saying("a")[:2]) as server, connected(server) as socket:
        await ask(socket, "")
        with pytest.raises(ConnectionClosedError):
            async with pipeline(socket) as events:
                async for seen in events:
                    if isinstance(seen, StreamStart):
                        await server.hang_up(1011)


@every("frame", ["7", "{", b"\xff", "[]"])
async def test_a_frame_that_is_no_object_is_an_error_and_the_next_response_can_be_read(frame: Any) -> None:
    def broken(request: Payload) -> list[Any]:
        return [*saying("a")[:2], frame] if request["input"] == "bad" else saying("b", "resp_2")

    async with serving(broken) as server, connected(server) as socket:
        await ask(socket, "bad")
        with pytest.raises(RemoteProtocolError) as caught:
            await read(socket)
        assert caught.value.kind == "malformed_chunk"
        await ask(socket, "good")
        rest = await read(socket)
    assert (rest.response_id, rest.text) == ("resp_2", "b")


async def test_text_lines_that_are_cut_within_an_object_are_joined_as_before() -> None:
    whole = "".join(json.dumps(payload) + "\n" for payload in saying("a{}b"))
    pieces = [piece for part in whole.replace("{", "\0{").split("\0") for piece in part.replace("}", "}\0").split("\0")]
    turn = await read(stream([piece for piece in pieces if piece]))
    assert (turn.text, turn.complete, turn.warnings) == ("a{}b", True, ())
