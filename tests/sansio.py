"""What the sans-IO tests share: recorded deviations, ways of cutting, and what a good turn and a good history are."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from anthropic.types import MessageParam
from cohere_messages import check_cohere
from gemini_contents import GEMINI, check_gemini
from mistral_messages import check_mistral
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter
from responses_items import RESPONSES, check_responses

from streamtools import Turn
from streamtools.wires import WIRES

DATA = Path(__file__).resolve().parent / "data"
CHAT, ANTHROPIC = "openai.chat_completions", "anthropic.messages"
MISTRAL = "mistral.chat"
BUILT = (CHAT, ANTHROPIC)
"""The wires that `streams` composes bodies of; `every_wire` does so for all."""

# What only this wire's payloads carry. Mistral's are OpenAI's.
_CHUNK = rb'"choices"\s*:|"chat\.completion\.chunk"'
_TOLD = {
    CHAT: _CHUNK,
    MISTRAL: _CHUNK,
    ANTHROPIC: rb'"type"\s*:\s*"(message_(start|delta|stop)|content_block_)',
    "openai.responses": rb'"type"\s*:\s*"response\.',
    "gemini.generate_content": rb'"(candidates|promptFeedback|usageMetadata)"\s*:',
    "cohere.chat": rb'"type"\s*:\s*"(message-(start|end)|content-(start|delta)|tool-call-start)"|"event_type"\s*:',
    "ollama.chat": rb'"done"\s*:',
    "bedrock.converse_stream": rb":event-type\x07..message(Start|Stop)",
}
_SAME_BYTES = {CHAT, MISTRAL}


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The values of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


QUIRKS = [
    quirk for path in sorted((DATA / "quirks").glob("*.jsonl")) for quirk in json_lines(path) if quirk["wire"] in WIRES
]


def body_of(quirk: dict[str, Any]) -> bytes:
    return base64.b64decode(quirk["body_b64"]) if "body_b64" in quirk else quirk["body"].encode()


def tells(body: bytes, wire: str) -> bool:
    """Whether the bytes say which wire they speak: an error alone, a web page or nothing does not."""
    return re.search(_TOLD[wire], body, re.DOTALL) is not None


def is_found(found: str | None, wire: str) -> bool:
    """Whether detection found the right wire."""
    return found == wire or {found, wire} == _SAME_BYTES


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def random_splits(body: bytes, count: int, seed: str) -> Iterator[list[bytes]]:
    """`count` seeded ways of cutting, from one cut to a dozen."""
    for number in range(count):
        dice = random.Random(f"{seed}:{number}")
        cuts = min(dice.randint(1, 12), max(len(body) - 1, 0))
        bounds = [0, *sorted(dice.sample(range(1, len(body)), cuts) if cuts else ()), len(body)]
        yield [body[start:end] for start, end in pairwise(bounds)]


def snapshot(turn: Turn) -> dict[str, Any]:
    """All that a turn says, comparable: errors are equal only to themselves."""
    said = {field.name: getattr(turn, field.name) for field in fields(turn)}
    return said | {"error": turn.error and (type(turn.error), turn.error.kind, str(turn.error))}


# -- what holds for every turn ----------------------------------------------------------------------------------

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")
_CHAT_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[MessageParam])
_OWN_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result"}


def check_turn(turn: Turn) -> None:
    """A turn is consistent: ids are unique, and only what is whole, of ours and in a turn that ended well may run."""
    ids = [call.call_id for call in turn.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    assert [call.index for call in turn.calls] == sorted(call.index for call in turn.calls)
    assert sorted(part.call_id or "" for part in turn.parts if part.kind == "call") == sorted(ids)
    for call in turn.calls:
        assert (call.arguments is not None) == (call.status == "ready")
        assert (call.problem is None) == (call.status == "ready")
        if call.dispatchable:
            assert call.status == "ready"
            assert call.kind != "server"
            assert turn.complete
            assert turn.error is None
            assert turn.finish in ("stop", "tool_calls")
            if call.kind == "function" and not call.normalizations:
                assert strict_json(call.arguments_text) == call.arguments
    assert not (turn.complete and turn.error is not None and turn.finish != "error")


def check_histories(turn: Turn) -> None:
    """The messages for all wires are such that no provider refuses them."""
    for target, check in HISTORY_CHECKS.items():
        messages = turn.messages(target)
        assert messages == turn.messages(target), "the same turn gives the same messages"
        encode(messages)
        ids = [call.call_id for call in turn.calls if call.kind != "server"]
        if not messages:
            assert not ids
            continue
        assert messages[0].get("role") in ("assistant", "CHATBOT", "model") or target == RESPONSES
        check(turn, messages)


def encode(messages: object) -> bytes:
    """As an HTTP client does it: strict JSON in UTF-8, so no NaN and no half of a surrogate pair."""
    body = json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    strict_json(body)
    return body


def _check_chat(turn: Turn, messages: list[dict[str, Any]]) -> None:
    message, results = messages[0], messages[1:]
    calls = message.get("tool_calls", [])
    ours = [call for call in turn.calls if call.kind != "server"]
    assert len(calls) == len(ours)
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in calls]
    assert all(result["role"] == "tool" and isinstance(result["content"], str) for result in results)
    for call in calls:
        name = call[call["type"]]["name"]
        assert NAME.fullmatch(name)
        if call["type"] == "function":
            assert isinstance(strict_json(call["function"]["arguments"]), dict)
    assert message["content"] != "" or message.get("reasoning_content"), "some refuse it empty, DeepSeek null"
    if isinstance(message["content"], list):  # typed thinking is Mistral's, and OpenAI's types do not know it
        message = message | {"content": None}
    _CHAT_MESSAGES.validate_python([message, *results])


def _check_anthropic(turn: Turn, messages: list[dict[str, Any]]) -> None:
    blocks = messages[0]["content"]
    uses = [block for block in blocks if block["type"] == "tool_use"]
    assert len(messages) == (2 if uses else 1)
    results = messages[1]["content"] if uses else []
    assert len(uses) == len([call for call in turn.calls if call.kind != "server"])
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
        waiting = [use["caller"].get("tool_id") for use in uses if isinstance(use.get("caller"), dict)]
        servers = ("server_tool_use", "mcp_tool_use")  # one whose code calls tools of ours waits for their results
        asked = [block["type"] in servers and block["id"] not in waiting for block in blocks]
        answered = [isinstance(block.get("tool_use_id"), str) for block in blocks]  # recordings may redact the ids
        assert sum(asked) <= sum(answered), "a server's tool is refused without its result"
    known = [m | {"content": [b for b in m["content"] if b["type"] in _OWN_BLOCKS]} for m in messages]
    _MESSAGES.validate_python(known)


_BEDROCK_BLOCKS = {"text", "toolUse", "reasoningContent", "citationsContent", "toolResult", "image"}


def _check_bedrock(turn: Turn, messages: list[dict[str, Any]]) -> None:
    blocks = messages[0]["content"]
    assert blocks
    assert all(len(block) == 1 and set(block) <= _BEDROCK_BLOCKS for block in blocks), "a block is of one kind"
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    kinds = {call.call_id: call.kind for call in turn.calls}
    ours = [use for use in uses if kinds.get(use["toolUseId"]) != "server"]
    assert len(ours) == len([call for call in turn.calls if call.kind != "server"])
    results = [block["toolResult"] for block in messages[1]["content"]] if len(messages) > 1 else []
    assert [result["toolUseId"] for result in results] == [use["toolUseId"] for use in ours]
    assert [message["role"] for message in messages] == ["assistant", *(["user"] if ours else [])]
    for use in uses:
        assert NAME.fullmatch(use["name"])
        assert isinstance(use["input"], dict)
        assert use["toolUseId"]
        if turn.wire != "bedrock.converse_stream":
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", use["toolUseId"])
            assert set(use) == {"toolUseId", "name", "input"}
    for result in results:
        assert set(result) == {"toolUseId", "content"}, "not every model takes a status"
        assert [set(part) for part in result["content"]] == [{"text"}]
        assert result["content"][0]["text"].strip(), "not every model takes a blank result"
    for block in blocks:
        if "text" in block:
            assert block["text"].strip(), "blank text is refused"
        elif "reasoningContent" in block and "reasoningText" in block["reasoningContent"]:
            assert block["reasoningContent"]["reasoningText"]["signature"], "unsigned reasoning is refused"
        elif "citationsContent" in block:
            assert set(block["citationsContent"]) == {"content", "citations"}
    assert "reasoningContent" not in blocks[-1], "refused as the final block"
    asked = {use["toolUseId"] for use in uses if kinds.get(use["toolUseId"]) == "server"}
    assert {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block} >= asked


def _check_ollama(turn: Turn, messages: list[dict[str, Any]]) -> None:
    message, *results = messages
    assert set(message) <= {"role", "content", "thinking", "tool_calls"}
    assert isinstance(message["content"], str)
    calls = message.get("tool_calls", [])
    assert len(calls) == len([call for call in turn.calls if call.kind != "server"])
    for call, result in zip(calls, results, strict=True):
        function = call["function"]
        assert set(call) == {"id", "function"}
        assert set(function) <= {"index", "name", "arguments"}
        assert NAME.fullmatch(function["name"])
        assert isinstance(function["arguments"], dict)
        assert isinstance(result["content"], str)
        said = {"role": "tool", "tool_name": function["name"], "tool_call_id": call["id"]}
        assert result == said | {"content": result["content"]}


def strict_json(text: str | bytes) -> Any:
    """JSON without the constants that Python's parser adds to it."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


HISTORY_CHECKS: dict[str, Callable[[Turn, list[dict[str, Any]]], None]] = {
    CHAT: _check_chat,
    ANTHROPIC: _check_anthropic,
    MISTRAL: check_mistral,
    "cohere.chat": check_cohere,
    GEMINI: check_gemini,
    "bedrock.converse_stream": _check_bedrock,
    "ollama.chat": _check_ollama,
    RESPONSES: check_responses,
}
"""For each wire, what its provider would refuse."""
