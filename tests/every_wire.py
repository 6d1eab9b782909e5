"""What a response looks like on every wire and in every framing: for tests that hold of all of them.

`said` composes the payloads of a response; `FRAMES` puts payloads into bytes, and `payloads_of` gets them out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import bedrock_streams
from sansio import ANTHROPIC, CHAT, HISTORY_CHECKS, MISTRAL, encode

from streamtools import Turn
from streamtools.errors import StreamError
from streamtools.framing import Frame, choose
from streamtools.wires import WIRES

__all__ = [
    "ANTHROPIC", "BEDROCK", "CHAT", "COHERE", "FRAMES", "FRAMINGS", "GEMINI", "IN_DELTAS", "MISTRAL", "OLLAMA",
    "REFUSES", "RESPONSES", "Call", "Payload", "check_sendable", "dumped", "events_of", "framed", "payloads_of", "said",
]  # fmt: skip

RESPONSES, GEMINI, COHERE = "openai.responses", "gemini.generate_content", "cohere.chat"
OLLAMA, BEDROCK = "ollama.chat", "bedrock.converse_stream"

Call = tuple[str, str, str]  # id, name, arguments as JSON text
Payload = dict[str, Any]

# -- framings --------------------------------------------------------------------------------------------------------


def _sse(payloads: Iterable[Any]) -> list[bytes]:
    return [b"data: " + dumped(payload) + b"\n\n" for payload in payloads]


def _ndjson(payloads: Iterable[Any]) -> list[bytes]:
    return [dumped(payload) + b"\n" for payload in payloads]


def _json_array(payloads: Iterable[Any]) -> list[bytes]:
    values = [dumped(payload) for payload in payloads]
    return [b"[" * (not at) + value + (b",\n" if at < len(values) - 1 else b"]\n") for at, value in enumerate(values)]


def _aws(payloads: Iterable[Any]) -> list[bytes]:
    """Each payload with one name at its top as the message of that name; any other inside a message of its own."""
    frames = []
    for payload in payloads:
        named = isinstance(payload, dict) and len(payload) == 1
        name, body = next(iter(payload.items())) if named else ("unnamed", payload)
        kind = "exception" if name.endswith("Exception") else "event"
        frames.append(bedrock_streams.event(name.encode("utf-8", "replace").decode(), dumped(body), kind=kind))
    return frames


def dumped(payload: Any) -> bytes:
    """As JSON that holds anything that Python's reader takes: NaN, halves of surrogate pairs, integers of any size."""
    try:
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


FRAMES: dict[str, Callable[[Iterable[Any]], list[bytes]]] = {
    "sse": _sse,
    "ndjson": _ndjson,
    "json_array": _json_array,
    "aws_eventstream": _aws,
}
"""Payloads as the body of each framing, a payload an item."""

FRAMINGS = {
    CHAT: ("sse",),
    ANTHROPIC: ("sse",),
    RESPONSES: ("sse",),
    GEMINI: ("sse", "json_array"),
    MISTRAL: ("sse",),
    COHERE: ("sse",),
    OLLAMA: ("ndjson",),
    BEDROCK: ("aws_eventstream",),
}
"""The framings that each wire is known to come in, the usual one first."""


def framed(wire: str, payloads: Iterable[Any]) -> list[bytes]:
    """Payloads in the wire's usual framing."""
    return FRAMES[FRAMINGS[wire][0]](payloads)


def payloads_of(body: bytes) -> list[Any]:
    """The payloads of a body, as far as they are JSON."""
    framing = choose(body, len(body) + 1)
    found: list[Any] = []
    data: list[bytes | Frame] = []
    try:
        data.extend(framing.feed_payloads(body) if framing else ())
        data.extend(framing.finish() if framing else ())
    except StreamError:
        pass  # what came before it
    for item in data:
        try:
            found.append(json.loads((item.data if isinstance(item, Frame) else item).decode("utf-8", "replace")))
        except ValueError:
            continue
    return found


def events_of(body: bytes) -> list[bytes]:
    """A body, an event an item, each whole in its framing; of a JSON array, in a framing of its own."""
    if body[:1] == b"\0":
        found = []
        while body:
            size = max(int.from_bytes(body[:4], "big"), 1)
            found.append(body[:size])
            body = body[size:]
        return found
    if body[:1] == b"{":
        return body.splitlines(keepends=True)
    if body.lstrip()[:1] == b"[":
        return FRAMES["json_array"](payloads_of(body))
    return re.findall(rb".*?(?:\r?\n){2}|.+", body, re.DOTALL)


# -- wires -----------------------------------------------------------------------------------------------------------


def said(
    wire: str,
    *,
    text: Sequence[str] = (),
    reasoning: Sequence[str] = (),
    refusal: Sequence[str] = (),
    calls: Sequence[Call] = (),
    pieces: int = 1,
    ends: bool = True,
) -> list[Payload]:
    """The payloads of a response.

    Args:
        wire: which wire it speaks.
        text, reasoning, refusal: a delta an item; what the wire has no word for is left out.
        calls: whole calls.
        pieces: how many deltas each call's arguments come in, where the wire has them in deltas.
        ends: with the wire's own end.
    """
    return _SAID[wire](_Answer(text, reasoning, refusal, calls, pieces, ends))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What `said` was given."""

    text: Sequence[str]
    reasoning: Sequence[str]
    refusal: Sequence[str]
    calls: Sequence[Call]
    pieces: int
    ends: bool


def _cut(text: str, pieces: int) -> list[str]:
    size = max(-(-len(text) // pieces), 1)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _chat_delta(delta: dict[str, Any], finish: str | None = None) -> Payload:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat(answer: _Answer) -> list[Payload]:
    payloads = [_chat_delta({"role": "assistant", "content": ""})]
    payloads += [_chat_delta({"reasoning_content": piece}) for piece in answer.reasoning]
    payloads += [_chat_delta({"content": piece}) for piece in answer.text]
    payloads += [_chat_delta({"refusal": piece}) for piece in answer.refusal]
    for index, (call_id, name, arguments) in enumerate(answer.calls):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        payloads.append(_chat_delta({"tool_calls": [head]}))
        for piece in _cut(arguments, answer.pieces):
            payloads.append(_chat_delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return [*payloads, _chat_delta({}, "tool_calls" if answer.calls else "stop")] if answer.ends else payloads


def _mistral(answer: _Answer) -> list[Payload]:
    payloads = _chat(replace(answer, reasoning=(), refusal=()))
    thoughts = [[{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}] for piece in answer.reasoning]
    return [payloads[0], *(_chat_delta({"content": thought}) for thought in thoughts), *payloads[1:]]


def _anthropic(answer: _Answer) -> list[Payload]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.reasoning]
        signature = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if answer.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text]))
    for call_id, name, arguments in answer.calls:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _cut(arguments, answer.pieces)]
        blocks.append((block, deltas))
    payloads: list[Payload] = [{"type": "message_start", "message": message}]
    for index, (block, deltas) in enumerate(blocks):
        payloads.append({"type": "content_block_start", "index": index, "content_block": block})
        payloads += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        payloads.append({"type": "content_block_stop", "index": index})
    if answer.ends:
        stop = "tool_use" if answer.calls else "end_turn"
        payloads.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})
        payloads.append({"type": "message_stop"})
    return payloads


def _responses(answer: _Answer) -> list[Payload]:
    response = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "output": []}
    payloads: list[Payload] = [{"type": "response.created", "response": response}]
    done: list[dict[str, Any]] = []

    def item(begun: dict[str, Any], whole: dict[str, Any], inside: Iterable[Payload]) -> None:
        at = len(done)
        payloads.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        payloads.extend({**event, "item_id": begun["id"], "output_index": at} for event in inside)
        payloads.append({"type": "response.output_item.done", "output_index": at, "item": whole})
        done.append(whole)

    if answer.reasoning:
        head = {"id": "rs_1", "type": "reasoning", "encrypted_content": "ZW5j"}
        summary = {"type": "summary_text", "text": "".join(answer.reasoning)}
        told = [
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}
            for piece in answer.reasoning
        ]
        item({**head, "summary": []}, {**head, "summary": [summary]}, told)
    for kind, piece_type, key, given in (
        ("response.output_text", "output_text", "text", answer.text),
        ("response.refusal", "refusal", "refusal", answer.refusal),
    ):
        if given:
            head = {"id": f"msg_{piece_type}", "type": "message", "role": "assistant"}
            part: dict[str, Any] = {"type": piece_type, key: "".join(given)} | (
                {"annotations": []} if key == "text" else {}
            )
            told = [{"type": f"{kind}.delta", "content_index": 0, "delta": piece} for piece in given]
            whole = {**head, "status": "completed", "content": [part]}
            item({**head, "status": "in_progress", "content": []}, whole, told)
    for number, (call_id, name, arguments) in enumerate(answer.calls):
        head = {"id": f"fc_{number}", "type": "function_call", "call_id": call_id, "name": name}
        kind = "response.function_call_arguments"
        told = [{"type": f"{kind}.delta", "delta": piece} for piece in _cut(arguments, answer.pieces)]
        told.append({"type": f"{kind}.done", "arguments": arguments})
        item({**head, "arguments": ""}, {**head, "arguments": arguments, "status": "completed"}, told)
    if answer.ends:
        usage = {"input_tokens": 1, "output_tokens": 1}
        end = {**response, "status": "completed", "output": done, "usage": usage}
        payloads.append({"type": "response.completed", "response": end})
    return payloads


def _gemini(answer: _Answer) -> list[Payload]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in answer.reasoning]
    parts += [{"text": piece} for piece in answer.text]
    for call_id, name, arguments in answer.calls:
        parts.append({"functionCall": {"id": call_id, "name": name, "args": json.loads(arguments)}})
    payloads: list[Payload] = [
        {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": "g",
            "responseId": "r",
        }
        for part in parts
    ]
    if answer.ends:
        end = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1}
        payloads.append({"candidates": [end], "usageMetadata": usage, "modelVersion": "g", "responseId": "r"})
    return payloads


def _cohere(answer: _Answer) -> list[Payload]:
    def event(kind: str, message: dict[str, Any] | None = None, **more: Any) -> Payload:
        return {"type": kind, **more} | ({} if message is None else {"delta": {"message": message}})

    start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    payloads = [event("message-start", start, id="c-1")]
    index = 0
    for key, given in (("thinking", answer.reasoning), ("text", answer.text)):
        if given:
            payloads.append(event("content-start", {"content": {"type": key, key: ""}}, index=index))
            payloads += [event("content-delta", {"content": {key: piece}}, index=index) for piece in given]
            payloads.append(event("content-end", index=index))
            index += 1
    for number, (call_id, name, arguments) in enumerate(answer.calls):
        head = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        payloads.append(event("tool-call-start", {"tool_calls": head}, index=number))
        for piece in _cut(arguments, answer.pieces):
            delta = {"tool_calls": {"function": {"arguments": piece}}}
            payloads.append(event("tool-call-delta", delta, index=number))
        payloads.append(event("tool-call-end", index=number))
    if answer.ends:
        usage = {"tokens": {"input_tokens": 1, "output_tokens": 1}}
        reason = "TOOL_CALL" if answer.calls else "COMPLETE"
        payloads.append({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
    return payloads


def _ollama(answer: _Answer) -> list[Payload]:
    messages: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in answer.reasoning]
    messages += [{"content": piece} for piece in answer.text]
    for call_id, name, arguments in answer.calls:
        call = {"id": call_id, "function": {"name": name, "arguments": json.loads(arguments)}}
        messages.append({"content": "", "tool_calls": [call]})
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    payloads = [{**head, "message": {"role": "assistant", **message}, "done": False} for message in messages]
    if answer.ends:
        end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        payloads.append({**head, **end, "prompt_eval_count": 1, "eval_count": 1})
    return payloads


def _bedrock(answer: _Answer) -> list[Payload]:
    payloads, index = [bedrock_streams.START], 0
    if answer.reasoning:
        deltas = [{"reasoningContent": {"text": piece}} for piece in answer.reasoning]
        deltas.append({"reasoningContent": {"signature": "c2ln"}})
        payloads += [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}} for delta in deltas]
        payloads.append({"contentBlockStop": {"contentBlockIndex": 0}})
        index = 1
    if answer.text:
        payloads += bedrock_streams.text_deltas(answer.text, index)
        index += 1
    for number, call in enumerate(answer.calls, index):
        payloads += bedrock_streams.tool_use(number, call, pieces=answer.pieces)
    end = [bedrock_streams.end("tool_use" if answer.calls else "end_turn"), bedrock_streams.USAGE]
    return [*payloads, *end] if answer.ends else payloads


_SAID: dict[str, Callable[[_Answer], list[Payload]]] = {
    CHAT: _chat,
    ANTHROPIC: _anthropic,
    RESPONSES: _responses,
    GEMINI: _gemini,
    MISTRAL: _mistral,
    COHERE: _cohere,
    OLLAMA: _ollama,
    BEDROCK: _bedrock,
}
REFUSES = frozenset({CHAT, RESPONSES}) & set(WIRES)
"""The wires that have a word for the model's refusal."""
IN_DELTAS = frozenset({CHAT, ANTHROPIC, RESPONSES, MISTRAL, COHERE, BEDROCK}) & set(WIRES)
"""The wires whose arguments come as text in deltas; in the others they come as objects, whole."""

# -- histories -------------------------------------------------------------------------------------------------------

_STRICT = frozenset({CHAT, ANTHROPIC})  # what is not of its type does not go back to these either


def check_sendable(turn: Turn, targets: Iterable[str] = WIRES) -> None:
    """Messages for any wire can be encoded and answer each call once, in order; whatever the provider had sent.

    For other wires than its own, and for those that keep nothing that they do not understand, they are checked as
    strictly as those of a good response. A provider's own state goes back to it as it came: if it was garbage, garbage.
    """
    if turn.wire is None and turn.parts:
        return
    ours = [call for call in turn.calls if call.kind != "server"]
    for target in targets:
        messages = turn.messages(target)
        assert messages == turn.messages(target), "the same turn gives the same messages"
        encode(messages)
        if not messages:
            assert not ours
        elif target != turn.wire or target in _STRICT:
            HISTORY_CHECKS[target](turn, messages)
        elif target == RESPONSES:
            assert all(item["type"].endswith("_output") for item in messages[len(messages) - len(ours) :])
        elif target in (GEMINI, BEDROCK):
            results = messages[1]["parts" if target == GEMINI else "content"] if len(messages) > 1 else []
            assert len(results) == len(ours)
        else:
            results = [message for message in messages[1:] if message["role"].lower() == "tool"]
            answered = [answer for result in results for answer in result.get("tool_results", [result])]
            assert len(answered) == len(ours)
