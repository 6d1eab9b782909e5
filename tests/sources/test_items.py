"""What streams yield, and the payloads that are made of it."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from blocking_sources import AsyncStream, Chunk, Event, Held
from profiles import every
from streams import chat, stream

from streamtools import Turn, pipeline
from streamtools.errors import TruncatedStream
from streamtools.sources import as_item

pytestmark = pytest.mark.anyio

BODY = chat(["Hel", "lo"], finish="stop")


class Model:
    """A pydantic model, as SDKs make them."""

    def __init__(self, payload: dict[str, Any], **fields: Any) -> None:
        self._payload = payload
        self.__dict__.update(fields)

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_none) == ("json", True, True)
        return self._payload


async def run(source: Any) -> Turn:
    return await pipeline(source)


def payloads() -> list[dict[str, Any]]:
    return [orjson.loads(item.removeprefix(b"data: ")) for item in BODY[:-1]]


def test_bytes_text_and_mappings_stay_what_they_are() -> None:
    for item in (b"data", "data", {"a": 1}):
        assert as_item(item) is item
    assert as_item(bytearray(b"data")) == as_item(memoryview(b"data")) == b"data"


async def test_chunks_that_know_their_payload_are_read_whatever_their_class() -> None:
    for made in (Chunk, Model, lambda payload: Model({}, data=Model(payload)), lambda payload: chunk_event(payload)):
        turn = await run(stream([made(payload) for payload in payloads()]))
        assert (turn.text, turn.finish, turn.complete) == ("Hello", "stop", True)


def chunk_event(payload: dict[str, Any]) -> Any:
    """What openai's helper makes of each chunk."""
    return SimpleNamespace(type="chunk", chunk=Chunk(payload), snapshot="all of it")


async def test_events_that_a_helper_derives_are_left_out() -> None:
    derived = [SimpleNamespace(type=kind, text="Hel") for kind in ("text", "content.delta", "input_json", "thinking")]
    assert [as_item(event) for event in derived] == [None] * 4
    turn = await run(stream([item for payload in payloads() for item in (Chunk(payload), *derived)]))
    assert turn.text == "Hello"
    assert turn.warnings == ()


@every("received", [None, "stop"])
async def test_a_finish_reason_that_a_wrapper_invented_for_a_stream_that_was_cut_completes_nothing(
    received: str | None,
) -> None:
    """litellm ends every stream with one, and tells whether it was received."""
    wrapper = AsyncStream(Held([Chunk(payload) for payload in [*payloads(), {"choices": []}]]))
    wrapper.received_finish_reason = received  # type: ignore[attr-defined]
    async with pipeline(wrapper) as events:
        try:
            _ = [event async for event in events]
        except TruncatedStream:
            assert received is None
    assert (events.turn.text, events.turn.complete) == ("Hello", received is not None)


@every("make", [stream, iter])
async def test_events_of_an_event_source_are_its_frames_again(make: Any) -> None:
    data = [item.decode().removeprefix("data: ").strip() for item in BODY]
    turn = await run(make([Event(text) for text in ["", *data]]))
    assert (turn.text, turn.complete) == ("Hello", True)


def test_the_base64_and_the_names_of_a_gemini_response_are_those_of_the_wire() -> None:
    signature = bytes(range(250, 256)) * 2
    standard, url_safe = (encode(signature).decode() for encode in (base64.b64encode, base64.urlsafe_b64encode))
    assert standard != url_safe

    def response(encoded: str, **more: Any) -> dict[str, Any]:
        call = {"functionCall": {"name": "a_b-c", "args": {"x": url_safe}}, "thoughtSignature": encoded}
        parts = [call, {"inlineData": {"mimeType": "image/png", "data": encoded}}, {"text": url_safe}]
        return {"candidates": [{"content": {"parts": parts}}, {"finishReason": "STOP"}], **more}

    added = {"sdkHttpResponse": {"headers": {"authorization": "x"}}, "automaticFunctionCallingHistory": [], "parsed": 1}
    assert as_item(Model(response(url_safe, **added, usageMetadata={}))) == response(standard, usageMetadata={})


@every("item", [42, None, object(), ("chunk", {}), [b"data"]])
def test_anything_else_is_refused_and_one_is_told_what_to_pass(item: Any) -> None:
    with pytest.raises(
        TypeError, match=f"not {type(item).__name__}; convert each item to the provider's payload, a dict"
    ):
        as_item(item)


def test_a_chunk_that_gives_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a mapping from"):
        as_item(Chunk(["a list"]))  # type: ignore[arg-type]
