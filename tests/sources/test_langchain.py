"""LangChain's chunks: one dialect for all providers, read as Chat Completions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from profiles import every
from streams import add, stream

from streamtools import Turn, Usage, pipeline
from streamtools.events import UnknownPayload
from streamtools.sources import as_item

pytestmark = pytest.mark.anyio


def chunk(content: Any = "", **fields: Any) -> Any:
    """An `AIMessageChunk` with what it has when an integration made it."""
    defaults: dict[str, Any] = {
        "additional_kwargs": {},
        "response_metadata": {},
        "tool_call_chunks": [],
        "usage_metadata": None,
    }
    return SimpleNamespace(type="AIMessageChunk", content=content, **({"id": "lc_run--1"} | defaults | fields))


def call_chunk(args: str | None, *, name: str | None = None, id: str | None = None, index: int | None = 0) -> Any:
    part = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return chunk(tool_call_chunks=[part])


def finished(reason: str = "stop", key: str = "finish_reason") -> Any:
    return chunk(response_metadata={key: reason})


async def run(*chunks: Any) -> tuple[Turn, list[Any]]:
    async with pipeline(stream(chunks), tools=[add]) as events:
        seen = [event async for event in events]
    return events.turn, seen


async def test_text_and_a_call_in_fragments_become_a_turn_that_openai_takes_back() -> None:
    turn, _ = await run(
        chunk("Let me "),
        chunk("see."),
        call_chunk("", name="add", id="call_1"),
        call_chunk('{"a": 1'),
        call_chunk(', "b": 2}'),
        chunk(response_metadata={"finish_reason": "tool_calls", "model_name": "m"}, id="chatcmpl-1"),
        chunk(chunk_position="last"),
    )
    assert (turn.wire, turn.text, turn.finish, turn.complete) == (
        "openai.chat_completions",
        "Let me see.",
        "tool_calls",
        True,
    )
    assert [(call.call_id, call.arguments) for call in turn.calls] == [("call_1", {"a": 1, "b": 2})]
    assert [observation.value for observation in turn.observations] == [3]
    assert turn.warnings == ()
    assert [message["role"] for message in turn.messages()] == ["assistant", "tool"]


@every(
    ("key", "reason", "finish"),
    [
        ("finish_reason", "stop", "stop"),
        ("finish_reason", "STOP", "stop"),
        ("finish_reason", "COMPLETE", "stop"),
        ("finish_reason", "MAX_TOKENS", "length"),
        ("finish_reason", "SAFETY", "content_filter"),
        ("finish_reason", "something new", "other"),
        ("stop_reason", "end_turn", "stop"),
        ("stop_reason", "max_tokens", "length"),
        ("stop_reason", "refusal", "content_filter"),
        ("stopReason", "guardrail_intervened", "content_filter"),
        ("done_reason", "stop", "stop"),
        ("status", "completed", "stop"),
        ("status", "failed", "error"),
    ],
)
async def test_the_finish_of_every_integration_is_found(key: str, reason: str, finish: str) -> None:
    turn, _ = await run(chunk("Hi"), finished(reason, key))
    assert (turn.finish, turn.complete) == (finish, True)


@every(("key", "reason"), [("status", "completed"), ("finish_reason", "STOP"), ("done_reason", "stop")])
async def test_the_ordinary_end_of_a_provider_without_a_word_for_calls_is_one_after_calls(
    key: str, reason: str
) -> None:
    turn, _ = await run(call_chunk('{"a": 1, "b": 2}', name="add", id="a"), finished(reason, key))
    assert (turn.finish, turn.warnings) == ("tool_calls", ())


async def test_what_cut_a_response_of_openais_newer_api_is_found() -> None:
    metadata = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    turn, _ = await run(chunk("Hi"), chunk(response_metadata=metadata))
    assert turn.finish == "length"


async def test_usage_is_the_sum_of_what_the_chunks_tell() -> None:
    def used(inputs: int, outputs: int, **details: Any) -> Any:
        return chunk(usage_metadata={"input_tokens": inputs, "output_tokens": outputs, **details})

    turn, _ = await run(
        used(10, 0, input_token_details={"cache_read": 4, "cache_creation": None}),
        chunk("Hi"),
        used(0, 2, input_token_details={}),
        used(0, 3, output_token_details={"reasoning": 1}),
        finished(),
    )
    assert turn.usage == Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, reasoning_tokens=1)
    assert payload(used(3, 1))["usage"]["prompt_tokens"] == 3  # alone, a chunk is its own sum


@every(
    "block",
    [
        {"type": "thinking", "thinking": "Hm.", "index": 0},
        {"type": "reasoning", "reasoning": "Hm.", "index": "lc_rs_0"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm.", "index": 0}, 7], "id": "rs_1"},
        {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "type": "text"}},
    ],
)
async def test_reasoning_is_found_in_every_block_that_integrations_put_it_into(block: dict[str, Any]) -> None:
    turn, seen = await run(chunk([block]), chunk([{"type": "text", "text": "Hi"}, "!"]), finished())
    assert (turn.reasoning, turn.text) == ("Hm.", "Hi!")
    assert not [event for event in seen if isinstance(event, UnknownPayload)]


async def test_reasoning_and_refusal_may_stand_beside_the_content() -> None:
    turn, _ = await run(
        chunk(additional_kwargs={"reasoning_content": "Hm."}),
        chunk(additional_kwargs={"refusal": "No"}),
        chunk([{"type": "refusal", "refusal": "."}]),
        finished(),
    )
    assert (turn.reasoning, turn.refusal, turn.text) == ("Hm.", "No.", "")


@every(
    ("block", "unknown"),
    [
        ({"type": "thinking", "thinking": "", "signature": "c2ln"}, {"type": "signature", "signature": "c2ln"}),
        (
            {"type": "reasoning", "summary": [], "encrypted_content": "ZW5j"},
            {"type": "encrypted_content", "encrypted_content": "ZW5j"},
        ),
        (
            {"type": "text", "text": "", "extras": {"signature": "c2ln"}},
            {"type": "signature", "signature": "c2ln"},
        ),
        ({"type": "image", "base64": "aW1n"}, {"type": "image", "base64": "aW1n"}),
        ({"type": "server_tool_use", "name": "web_search"}, {"type": "server_tool_use", "name": "web_search"}),
        ({"type": "text", "annotations": []}, {"type": "text", "annotations": []}),
    ],
)
async def test_what_a_chat_payload_cannot_hold_is_an_event_and_does_not_go_unseen(block: Any, unknown: Any) -> None:
    turn, seen = await run(chunk([{"type": "text", "text": "Hi"}, block]), chunk([block]), finished())
    assert turn.text == "Hi"
    assert [event.raw for event in seen if isinstance(event, UnknownPayload)] == [unknown, unknown]


async def test_a_call_is_not_counted_twice_where_the_content_tells_of_it_too() -> None:
    first = call_chunk("", name="add", id="toolu_1", index=1)
    first.content = [{"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}, "index": 1}]
    more = call_chunk('{"a": 1, "b": 2}', index=1)
    more.content = [{"type": "input_json_delta", "partial_json": '{"a": 1, "b": 2}', "index": 1}]
    turn, _ = await run(first, more, finished("tool_use", "stop_reason"))
    assert [call.arguments for call in turn.calls] == [{"a": 1, "b": 2}]


def test_an_id_that_langchain_made_up_is_not_the_responses_id() -> None:
    assert "id" not in payload(chunk("Hi"))
    assert "id" not in payload(chunk("Hi", id="run-1"))
    assert "id" not in payload(chunk("Hi", id=None))
    assert payload(chunk("Hi", id="chatcmpl-1"))["id"] == "chatcmpl-1"


def payload(chunk: Any) -> Any:
    return as_item(chunk)
