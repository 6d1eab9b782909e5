"""A connection of the Responses API is split into its responses, each of which is a stream for `pipeline`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
import pytest
from profiles import every
from responses_streams import Payload, added, done, event, message, output_text, text
from sansio import byte_by_byte
from streams import sse, stream

from streamtools import Limits, Turn, parse
from streamtools.errors import LimitExceeded, StreamError
from streamtools.sources import ResponseSource, responses

pytestmark = pytest.mark.anyio


def response(number: int, *items: Payload, status: str = "completed", **more: Any) -> list[Payload]:
    id_ = f"resp_{number}"
    last = {"type": f"response.{status}", "response": {"id": id_, "status": status, "output": [], **more}}
    return [{"type": "response.created", "response": {"id": id_, "model": "m"}}, *items, last]


def saying(number: int, *pieces: str, **more: Any) -> list[Payload]:
    deltas = [text(0, piece) for piece in pieces]
    whole = message(output_text("".join(pieces)))
    return response(number, added(0, message()), *deltas, done(0, whole), **more)


def on(lane: str, payloads: Iterable[Payload]) -> list[Payload]:
    return [{**payload, "stream_id": lane} for payload in payloads]


def mixed(*lanes: list[Payload]) -> list[Payload]:
    return [payload for several in zip(*lanes, strict=True) for payload in several]


class Typed:
    """An event as an SDK has it."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload

    def to_dict(self) -> Payload:
        return self.payload


def ways(payloads: list[Payload]) -> Iterable[list[Any]]:
    yield payloads
    yield [Typed(payload) for payload in payloads]
    yield sse(payloads, named=True)
    yield byte_by_byte(b"".join(sse(payloads)))


async def items_of(source: ResponseSource) -> list[Any]:
    return [item async for item in source]


async def turns_of(items: list[Any], **options: Any) -> list[Turn]:
    return [parse(await items_of(source), **options) async for source in responses(stream(items))]


CONNECTIONS = {
    "one after another": [*saying(1, "a", "b"), *saying(2, "c", "d")],
    "on lanes": mixed(on("x", saying(1, "a", "b")), on("y", saying(2, "c", "d"))),
    "on a lane and without one": mixed(saying(1, "a", "b"), on("y", saying(2, "c", "d"))),
}


@every("payloads", CONNECTIONS.values())
async def test_each_response_comes_as_a_stream_of_its_own_in_the_order_in_which_they_begin(
    payloads: list[Payload],
) -> None:
    for items in ways(payloads):
        turns = await turns_of(items)
        assert [(turn.response_id, turn.text, turn.complete, turn.warnings) for turn in turns] == [
            ("resp_1", "ab", True, ()),
            ("resp_2", "cd", True, ()),
        ]


async def test_a_response_without_a_lane_is_cut_when_another_is_created() -> None:
    payloads = [*saying(1, "a", "b")[:-1], *saying(2, "c", "d"), saying(1)[-1]]
    for items in ways(payloads):
        connection = responses(stream(items))
        turns = [parse(await items_of(source)) async for source in connection]
        assert [(turn.response_id, turn.text, turn.complete) for turn in turns] == [
            ("resp_1", "ab", False),
            ("resp_2", "cd", True),
        ]
        assert list(connection.asides) == payloads[-1:]


async def test_what_comes_between_responses_is_kept_aside() -> None:
    steer = {"previous_response_id": "resp_1"}
    pending = event("steer.pending", reason="waiting_for_required_input", required_input=[], steer=steer)
    connection = responses(stream([{"type": "keepalive"}, *saying(1, "a"), pending, *saying(2, "b")]))
    texts = [parse(await items_of(source)).text async for source in connection]
    assert (texts, list(connection.asides)) == (["a", "b"], [{"type": "keepalive"}, pending])
    failed = event("steer.failed", steer=steer, error={"code": "invalid_input"})
    inside = [*saying(1, "a")[:2], failed, *saying(1, "a")[2:]]
    assert [warning.code for turn in await turns_of(inside) for warning in turn.warnings] == ["steer_failed"]


ERROR = {"type": "error", "error": {"type": "e", "code": "previous_response_not_found", "message": "no"}}


async def test_an_error_ends_the_responses_of_its_lane_and_without_a_lane_all_of_them() -> None:
    x, y = on("x", saying(1, "a")), on("y", saying(2, "b"))
    alone = [*mixed(x[:2], y[:2]), *on("x", [ERROR]), *y[2:]]
    assert [turn.complete for turn in await turns_of(alone)] == [False, True]
    for items in ways([*mixed(x[:2], y[:2]), ERROR]):
        assert [str(turn.error) for turn in await turns_of(items)] == ["no (previous_response_not_found, e)"] * 2


@every("body", [b"<html></html>\n\n", b'{"id": "resp_1", "output": []}', b"data: 7\n\n"])
async def test_a_body_without_responses_is_an_error(body: bytes) -> None:
    with pytest.raises(StreamError):
        await anext(responses(stream([body])))


async def test_a_payload_that_cannot_be_read_breaks_every_open_response() -> None:
    items = [*sse(saying(1, "a")[:2]), b"data: {\n\n"]
    [turn] = await turns_of(items)
    assert turn.error.kind == "malformed_chunk"


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_responses_that_nobody_takes_are_bounded() -> None:
    lanes = [payload for number in range(5) for payload in on(f"l{number}", saying(number, "a"))]
    connection = responses(stream([*lanes[:2], *lanes[6:]]), limits=Limits(max_open_responses=3))
    first = await anext(connection)
    with pytest.raises(LimitExceeded, match="max_open_responses=3"):
        await items_of(first)


async def test_events_that_wait_are_bounded_and_those_that_were_read_count_no_more() -> None:
    limits = Limits(max_waiting_bytes=2000)
    x, y = on("x", saying(1, "a")), on("y", saying(2, *"b" * 100))
    connection = responses(stream([*x[:2], *y, *x[2:]]), limits=limits)
    first = await anext(connection)
    with pytest.raises(LimitExceeded, match="max_waiting_bytes=2000"):
        await items_of(first)
    long = [payload for number in range(50) for payload in saying(number, "a")]
    texts = [parse(await items_of(source)).text async for source in responses(stream(long), limits=limits)]
    assert texts == ["a"] * 50


async def test_leaving_the_block_closes_the_connection() -> None:
    closed = anyio.Event()

    async def endless() -> AsyncIterator[Payload]:
        try:
            for number in range(1000):
                for payload in saying(number, "a"):
                    await anyio.lowlevel.checkpoint()
                    yield payload
        finally:
            closed.set()

    async with responses(endless()) as connection:
        source = await anext(connection)
    assert closed.is_set()
    assert not parse(await items_of(source)).complete
