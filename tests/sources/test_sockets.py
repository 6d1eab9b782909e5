"""A connection over a WebSocket: each pipeline reads one response of it, and it stays open.

OpenAI's connections need asyncio; those of websockets are tried on both event loops.
"""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from weakref import ref

import anyio
import pytest
from decisions import decisions_on
from openai.lib.responses_websocket import AsyncResponsesWebSocketSession, ResponsesWebSocketLimits
from responses_streams import Payload, added, done, event, function, message, output_text, text
from sockets import Server, client_of, connected, serving
from streams import stream
from websockets.exceptions import ConnectionClosedError
from websockets.sync.connection import Connection

from streamtools import TextDelta, Turn, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.errors import ProviderError, RemoteProtocolError, TruncatedStream
from streamtools.events import StreamStart
from streamtools.history import with_results
from streamtools.pipelines.agent_loop import agent_loop
from streamtools.sources import responses

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

RAN: list[int] = []
LANES = ResponsesWebSocketLimits(
    max_lanes=4, max_events_per_lane=100, max_events=400, max_bytes_per_lane=10**6, max_bytes=10**7
)


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
    async with pipeline(connection, **options) as events:
        _ = [event async for event in events]
    return events.turn


async def ask(socket: Any, words: str, **more: Any) -> None:
    await socket.send(json.dumps({"type": "response.create", "input": words, **more}))


@asynccontextmanager
async def sdk(respond: Any = answer) -> AsyncIterator[tuple[Any, Server]]:
    async with serving(respond) as server, client_of(server) as client, client.responses.connect() as connection:
        yield connection, server


# -- OpenAI's connection -----------------------------------------------------------------------------------------------


@on_asyncio
async def test_each_pipeline_reads_one_response_of_the_sdks_connection() -> None:
    async with sdk() as (connection, _):
        for words in ("one", "two"):
            await connection.response.create(model="m", input=words)
            turn = await read(connection)
            assert (turn.text, turn.complete, turn.warnings) == (words, True, ())


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
async def test_a_lane_that_nobody_reads_yet_waits_for_the_next_reader() -> None:
    x, y = on("x", saying("abc", "resp_x")), on("y", saying("def", "resp_y"))
    async with sdk(lambda _: [x[0], *y, *x[1:]]) as (connection, _):
        await connection.response.create(model="m", input="both")
        assert [(await read(connection)).text for _ in range(2)] == ["abc", "def"]


@on_asyncio
async def test_the_lanes_of_a_session_are_sources_and_stay_attached() -> None:
    async with sdk() as (connection, _), AsyncResponsesWebSocketSession(connection, limits=LANES) as session:
        x, y = session.lane("x"), session.lane("y")
        for words in ("one", "two"):
            for lane in (x, y):
                await lane.send({"type": "response.create", "model": "m", "input": words})
            assert [(await read(lane)).text for lane in (y, x)] == [words, words]


@on_asyncio
async def test_steering_brings_a_successor_that_the_next_pipeline_reads() -> None:
    steer = {"id": "st_1", "previous_response_id": "resp_1"}
    accepted = event("steer.accepted", steer=steer)
    steered = saying("Well", status="incomplete", incomplete_details={"reason": "steered"})
    script = [*steered[:2], accepted, *steered[2:], *saying("Bye", "resp_2")]

    async with sdk(lambda request: script if request["type"] == "response.create" else []) as (connection, server):
        await connection.response.create(model="m", input="Go")
        await connection.response.steer(previous_response_id="resp_1", input="stop")
        first, second = await read(connection), await read(connection)
    assert [(turn.finish, turn.text) for turn in (first, second)] == [("steered", "Well"), ("stop", "Bye")]
    assert [request["type"] for request in server.requests] == ["response.create", "response.steer"]


@on_asyncio
async def test_notices_between_responses_are_kept_aside() -> None:
    pending = event("steer.pending", reason="waiting_for_required_input", required_input=[], steer={"id": "st_1"})
    injected = {"type": "response.inject.failed", "response_id": "resp_1", "error": {"code": "response_not_found"}}
    async with sdk(lambda _: [*saying("a"), pending, injected, *saying("b", "resp_2")]) as (connection, _):
        await connection.response.create(model="m", input="Go")
        texts = [(await read(connection)).text for _ in range(2)]
        assert (texts, [aside["type"] for aside in responses(connection).asides]) == (
            ["a", "b"],
            ["response.steer.pending", "response.inject.failed"],
        )


@on_asyncio
async def test_a_warm_up_is_a_turn_that_says_nothing_and_has_an_id_to_continue_from() -> None:
    async with sdk(lambda r: response("resp_w") if r.get("generate") is False else answer(r)) as (connection, _):
        await connection.response.create(model="m", generate=False)
        turn = await read(connection)
        assert (turn.response_id, turn.text, turn.complete, turn.messages()) == ("resp_w", "", True, [])
        await connection.response.create(model="m", input="Hi", previous_response_id="resp_w")
        assert (await read(connection)).text == "Hi"


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
async def test_a_call_that_waits_for_approval_is_decided_while_the_connection_serves_another_turn() -> None:
    @tool(needs_approval=True)
    async def pay(n: int) -> str:
        """Pay n."""
        return f"paid {n}"

    item = {**function(1, '{"n":900}'), "name": "pay"}
    script = {"pay": response("resp_1", added(0, item), done(0, item))}
    async with sdk(lambda r: script.get(str(r["input"]), saying("meanwhile", "resp_2"))) as (connection, server):
        await connection.response.create(model="m", input="pay")
        async with pipeline(connection, tools=[pay]) as events:
            _ = [event async for event in events]
        assert events.suspended is not None
        await connection.response.create(model="m", input="other")
        assert (await read(connection)).text == "meanwhile"
        async with resume(
            events.suspended,
            tools=[pay],
            store=MemoryStore(),
            decisions=decisions_on(events.suspended, {"call_1": True}),
        ) as resumed:
            _ = [event async for event in resumed]
        items = with_results(events.turn.messages(), resumed.turn.observations, "openai.responses")
        await connection.response.create(model="m", input=items)
        assert (await read(connection)).text == "meanwhile"
    assert server.requests[-1]["input"][-1]["output"] == "paid 900"


@on_asyncio
async def test_all_responses_can_be_split_and_the_socket_still_stays_open() -> None:
    async with sdk(lambda r: [*saying("a"), *saying("b", "resp_2")]) as (connection, _):
        await connection.response.create(model="m", input="Go")
        async with responses(connection) as split:
            texts = [(await read(await anext(split))).text for _ in range(2)]
        await connection.response.create(model="m", input="Go")
        assert [*texts, (await read(connection)).text] == ["a", "b", "a"]


@on_asyncio
async def test_the_manager_that_opens_a_connection_is_left_after_the_response() -> None:
    async with serving(answer) as server, client_of(server) as client:
        manager = client.responses.connect()
        manager.send({"type": "response.create", "model": "m", "input": "Hi"})
        assert (await read(manager)).text == "Hi"


@on_asyncio
async def test_a_blocking_connection_is_refused() -> None:
    with pytest.raises(TypeError, match="blocking connection"):
        await read(Connection.__new__(Connection))


# -- a connection of websockets, and frames ----------------------------------------------------------------------------


@pytest.mark.parametrize("encode", [json.dumps, lambda payload: json.dumps(payload).encode()], ids=["text", "bytes"])
async def test_each_pipeline_reads_one_response_of_a_bare_connection(encode: Any) -> None:
    async with serving(lambda r: [encode(each) for each in answer(r)]) as server, connected(server) as socket:
        for words in ("one", "two"):
            await ask(socket, words)
            turn = await read(socket)
            assert (turn.text, turn.complete, turn.warnings) == (words, True, ())


UNKNOWN = [{"type": kind, "sequence_number": 0} for kind in ("response.metadata", "response.new", "new", "ping")]


@pytest.mark.parametrize("first", UNKNOWN, ids=[first["type"] for first in UNKNOWN])
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


async def test_a_response_on_another_lane_is_not_cut() -> None:
    x, y = on("x", saying("abc", "resp_x")), on("y", saying("def", "resp_y"))
    again = {**x[0], "stream_id": "y"}
    async with serving(lambda _: [*x[:2], *y[:2], again, *x[2:], *y[2:]]) as server, connected(server) as socket:
        with anyio.fail_after(30):
            await ask(socket, "")
            assert [(await read(socket)).complete for _ in range(2)] == [True, True]


async def test_calls_run_while_the_socket_stays_open() -> None:
    RAN.clear()
    async with serving(lambda r: calling(r["input"])) as server, connected(server) as socket:
        for number in (1, 2):
            await socket.send(json.dumps({"type": "response.create", "input": number}))
            assert [seen.value for seen in (await read(socket, tools=[f])).observations] == [number]
    assert RAN == [1, 2]


async def test_integers_of_any_size_arrive_whole() -> None:
    big = 2**70
    items = [added(0, function()), done(0, {**function(1, ""), "arguments": {"n": big}})]
    async with serving(lambda _: response("resp_1", *items)) as server, connected(server) as socket:
        await ask(socket, "")
        assert [seen.value for seen in (await read(socket, tools=[f])).observations] == [big]


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


@pytest.mark.parametrize("frame", ["7", "{", b"\xff", "[]"])
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


async def test_frames_of_any_iterator_are_read_as_text_or_payloads() -> None:
    for items in (saying("abc"), [json.dumps(payload) for payload in saying("abc")]):
        turn = await read(stream(items))
        assert (turn.text, turn.complete, turn.warnings) == ("abc", True, ())
    frames = [json.dumps(payload).encode() for payload in [*saying("a"), *saying("b", "resp_2")]]
    lines = [frame + b"\n" for frame in frames]
    assert [(await read(source)).text async for source in responses(stream(lines))] == ["a", "b"]


async def test_text_lines_that_are_cut_within_an_object_are_joined_as_before() -> None:
    whole = "".join(json.dumps(payload) + "\n" for payload in saying("a{}b"))
    pieces = [piece for part in whole.replace("{", "\0{").split("\0") for piece in part.replace("}", "}\0").split("\0")]
    turn = await read(stream([piece for piece in pieces if piece]))
    assert (turn.text, turn.complete, turn.warnings) == ("a{}b", True, ())


class Adapter:
    """A connection that nobody else holds."""

    def __init__(self, *payloads: Payload) -> None:
        self.frames = [json.dumps(payload) for payload in payloads]

    async def recv(self) -> str:
        await anyio.lowlevel.checkpoint()
        if not self.frames:
            raise EOFError
        return self.frames.pop(0)


async def test_responses_and_each_one_of_them_keep_the_connection_that_nobody_else_holds() -> None:
    said = [*saying("a"), *saying("b", "resp_2")]
    assert [(await read(source)).text async for source in responses(Adapter(*said))] == ["a", "b"]
    first = await anext(responses(Adapter(*said)))
    gc.collect()
    assert (await read(first)).text == "a"
    assert (await read(Adapter(*said))).text == "a"


@pytest.mark.parametrize("until", ["begun", "ended"])
async def test_what_is_kept_of_a_connection_goes_with_it(until: str) -> None:
    connection = Adapter(*saying("a"))
    if until == "ended":
        assert (await read(connection)).text == "a"
    else:
        source = await anext(responses(connection))
        await anext(source)
        del source
    gone = ref(connection)
    del connection
    for _ in range(3):  # the event loop lets go of the pipeline's tasks
        await anyio.lowlevel.checkpoint()
    gc.collect()
    assert gone() is None
