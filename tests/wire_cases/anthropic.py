"""The cases of Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anthropic.types import MessageParam, ToolParam
from pydantic import TypeAdapter

from streamtools import Turn

from .parts import NAME, calls_of_ours, cut, new, one_message, plain, typed, user_first, value_of
from .record import Call, Format, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES"]

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[MessageParam])
_OWN_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result"}


def _say(response: Response) -> list[Payload]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if response.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in response.reasoning]
        signature = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if response.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in response.text]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call_id, name, arguments in response.calls:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in cut(arguments, response.pieces)]
        blocks.append((block, deltas))
    payloads: list[Payload] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(blocks):
        payloads.append({"type": "content_block_start", "index": index, "content_block": block})
        payloads += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        payloads.append({"type": "content_block_stop", "index": index})
    if response.ends:
        stop = "tool_use" if response.calls else "end_turn"
        payloads.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})
        payloads.append({"type": "message_stop"})
    return payloads


def _blocks(count: int) -> list[Payload]:
    return [
        event
        for index in range(count)
        for event in (
            {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": "x"}},
            {"type": "content_block_stop", "index": index},
        )
    ]


def _said(text: str, calls: list[Call]) -> list[Message]:
    uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": value_of(c.arguments)} for c in calls]
    return [{"role": "assistant", "content": [*([{"type": "text", "text": text}] if text else []), *uses]}]


def _flow(message: Message) -> Iterator[Spoken]:
    content = message["content"]
    blocks = [{"type": "text"}] if isinstance(content, str) else content
    if message["role"] == "assistant":
        yield "model", [block["id"] for block in blocks if block["type"] == "tool_use"]
        return
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results stand first"
    if results:
        yield "result", results
    if len(results) < len(blocks):
        yield message["role"], []


def _check(turn: Turn, messages: list[Message]) -> None:
    blocks = messages[0]["content"]
    uses = [block for block in blocks if block["type"] == "tool_use"]
    assert len(messages) == (2 if uses else 1)
    results = messages[1]["content"] if uses else []
    assert len(uses) == calls_of_ours(turn)
    assert [block["tool_use_id"] for block in results] == [block["id"] for block in uses]
    for use in uses:
        assert NAME.fullmatch(use["name"])
        assert isinstance(use["input"], dict)
    for block in blocks:
        assert isinstance(block["type"], str)
        assert block["type"]
        if block["type"] == "text":
            assert block["text"].strip()
            assert set(block) <= {"type", "text", "citations"}
        elif block["type"] == "thinking":
            assert block["signature"]
    if turn.finish != "pause":
        assert blocks[-1]["type"] not in ("thinking", "redacted_thinking"), "refused as the final block"
        waiting = [use["caller"].get("tool_id") if isinstance(use.get("caller"), dict) else None for use in uses]
        servers = ("server_tool_use", "mcp_tool_use")  # one whose code calls tools of ours waits for their results
        asked = [block["type"] in servers and block["id"] not in waiting for block in blocks]
        answered = [isinstance(block.get("tool_use_id"), str) for block in blocks]  # recordings may redact the ids
        known = [block["id"] for block in blocks if block["type"] in servers]
        deferred = any(one not in known for one in waiting)  # beside a direct call of ours
        assert deferred or sum(asked) <= sum(answered), "a server's tool is refused without its result"
    own = [m | {"content": [b for b in m["content"] if b["type"] in _OWN_BLOCKS]} for m in messages]
    _MESSAGES.validate_python(own)


CASES = WireCases(
    say=_say,
    told_by=rb'"type"\s*:\s*"(message_(start|delta|stop)|content_block_)',
    nothing={
        "a ping": lambda _: {"type": "ping"},
        "an unknown event": lambda n: {"type": f"new{n}", "data": n},
        "an unknown delta": lambda n: {"type": "content_block_delta", "index": 0, "delta": {"type": f"new{n}"}},
        "empty text": lambda _: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": ""},
        },
        "a delta of no block": lambda n: {"type": "content_block_delta", "index": n + 9, "delta": {"type": "x"}},
        "the end of no block": lambda n: {"type": "content_block_stop", "index": n + 9},
        "usage": lambda n: {"type": "message_delta", "delta": {}, "usage": {"output_tokens": n, new(n): n}},
    },
    blocks=_blocks,
    events_of_a_call=5,
    signature_characters=4,
    cache_apart=True,
    not_found_again={
        r"content_block_start:content_block\.input": "the deltas are right where the start has arguments, too",
        r"message_stop:amazon-bedrock-invocationMetrics": "counts that the usage has, too",
    },
    native=Native(
        user=plain("user"),
        said=_said,
        came=one_message(lambda c: {"type": "tool_result", "tool_use_id": c.id, "content": c.result}),
    ),
    flow=_flow,
    objections=(user_first,),
    check=_check,
    takes=_MESSAGES.validate_python,
    formats=(
        Format(
            name="anthropic.messages.tool",
            call=lambda call_id, name, _, value: {"type": "tool_use", "id": call_id, "name": name, "input": value},
            tool=lambda said, parameters: {**said, "input_schema": parameters},
        ),
    ),
    request=lambda tool: {"tools": [tool], "tool_choice": {"type": "auto"}},
    takes_tool=typed(list[ToolParam]),
    provider="anthropic",
)
