"""Response bodies of eight wires, composed, with the fields and the spelling that the providers send.

A body is a list of `bytes`, one event each: text, then calls, then more text, then the end of the response. A wire that
sends arguments in pieces gets them in pieces of five characters; Gemini, Mistral and Ollama send a call whole. Each
delta of text is an event, also on wires whose providers put several words into one: that is the worst case.
"""

from __future__ import annotations

import json
import random
import string
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

CHAT = "openai.chat_completions"
RESPONSES = "openai.responses"
ANTHROPIC = "anthropic.messages"
GEMINI = "gemini.generate_content"
OLLAMA = "ollama.chat"
BEDROCK = "bedrock.converse_stream"

Call = tuple[str, str]  # the tool's name, the arguments as JSON text
Body = Callable[[Sequence[str], Sequence[Call], Sequence[str]], list[bytes]]  # of text, calls, text after them

SEED = 1
PROMPT_TOKENS = 512
CREATED = 1763625600
LETTERS = string.ascii_letters + string.digits


# -- OpenAI Chat Completions and Responses ---------------------------------------------------------------------------


def chat(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    head = chunk_head("chatcmpl-" + token(rng, 29), "gpt-4o-2024-08-06")
    head |= {"service_tier": "default", "system_fingerprint": "fp_" + token(rng, 10)}
    out: list[bytes] = []

    def chunk(
        delta: Mapping[str, Any] | None, finish: str | None = None, usage: Mapping[str, int] | None = None
    ) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        payload = {**head, "choices": [] if delta is None else [choice], "usage": usage}
        out.append(data_line({**payload, "obfuscation": token(rng, rng.randrange(2, 16))}))

    chunk({"role": "assistant", "content": "", "refusal": None})
    for delta in text:
        chunk({"content": delta})
    for index, (name, arguments) in enumerate(calls):
        call = {"index": index, "id": "call_" + token(rng, 24), "type": "function"}
        chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for delta in pieces(arguments):
            chunk({"tool_calls": [{"index": index, "function": {"arguments": delta}}]})
    for delta in after:
        chunk({"content": delta})
    chunk({}, "tool_calls" if calls else "stop")
    chunk(None, usage=usage(len(out)))
    return [*out, b"data: [DONE]\n\n"]


_RESPONSE = json.loads("""{
    "id": "", "object": "response", "created_at": 1763625600, "status": "", "error": null, "incomplete_details": null,
    "instructions": null, "max_output_tokens": null, "model": "gpt-4o-2024-08-06", "output": [],
    "parallel_tool_calls": true, "previous_response_id": null, "reasoning": {"effort": null, "summary": null},
    "service_tier": "auto", "store": true, "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [], "top_logprobs": 0,
    "top_p": 1.0, "truncation": "disabled", "usage": null, "user": null, "metadata": {}
}""")


def responses(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []
    items: list[dict[str, Any]] = []
    response_id = "resp_" + token(rng, 48)

    def event(kind: str, **fields: Any) -> None:
        if kind.endswith(".delta"):
            fields["obfuscation"] = token(rng, rng.randrange(2, 16))
        out.append(named_event(kind, {"type": kind, "sequence_number": len(out), **fields}))

    def response(status: str, usage: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {**_RESPONSE, "id": response_id, "status": status, "output": list(items), "usage": usage}

    def message(deltas: Sequence[str]) -> None:
        item = {"id": "msg_" + token(rng, 48), "type": "message", "status": "in_progress", "role": "assistant"}
        index, part = len(items), {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        at = {"item_id": item["id"], "output_index": index, "content_index": 0}
        event("response.output_item.added", output_index=index, item={**item, "content": []})
        event("response.content_part.added", **at, part=part)
        for delta in deltas:
            event("response.output_text.delta", **at, delta=delta, logprobs=[])
        whole = "".join(deltas)
        event("response.output_text.done", **at, text=whole, logprobs=[])
        event("response.content_part.done", **at, part={**part, "text": whole})
        items.append({**item, "status": "completed", "content": [{**part, "text": whole}]})
        event("response.output_item.done", output_index=index, item=items[-1])

    def function_call(name: str, arguments: str) -> None:
        index, call_id = len(items), "call_" + token(rng, 24)
        item = {"id": "fc_" + token(rng, 48), "type": "function_call", "call_id": call_id, "name": name}
        at = {"item_id": item["id"], "output_index": index}
        event("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""})
        for delta in pieces(arguments):
            event("response.function_call_arguments.delta", **at, delta=delta)
        event("response.function_call_arguments.done", **at, arguments=arguments)
        items.append({**item, "status": "completed", "arguments": arguments})
        event("response.output_item.done", output_index=index, item=items[-1])

    event("response.created", response=response("in_progress"))
    event("response.in_progress", response=response("in_progress"))
    if text:
        message(text)
    for name, arguments in calls:
        function_call(name, arguments)
    if after:
        message(after)
    usage = {
        "input_tokens": PROMPT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": len(out),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": PROMPT_TOKENS + len(out),
    }
    event("response.completed", response=response("completed", usage))
    return out


# -- Anthropic Messages ----------------------------------------------------------------------------------------------


def anthropic(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []

    def event(kind: str, **fields: Any) -> None:
        padding = " " * rng.randrange(15)  # the API pads its events so that their length tells nothing
        out.append(f"event: {kind}\ndata: {written({'type': kind, **fields})[:-1]}{padding}}}\n\n".encode())

    def block(index: int, content_block: Mapping[str, Any], deltas: Iterable[Mapping[str, str]]) -> None:
        event("content_block_start", index=index, content_block=content_block)
        for delta in deltas:
            event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)

    def text_block(index: int, text: Sequence[str]) -> None:
        block(index, {"type": "text", "text": ""}, ({"type": "text_delta", "text": delta} for delta in text))

    message = {"id": "msg_01" + token(rng, 22), "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 2}
    event(
        "message_start", message={**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    )
    event("ping")
    if text:
        text_block(0, text)
    first = 1 if text else 0
    for index, (name, arguments) in enumerate(calls, first):
        call = {"type": "tool_use", "id": "toolu_01" + token(rng, 22), "name": name, "input": {}}
        block(index, call, ({"type": "input_json_delta", "partial_json": delta} for delta in pieces(arguments)))
    if after:
        text_block(first + len(calls), after)
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    event("message_delta", delta=stop, usage={"output_tokens": len(out)})
    event("message_stop")
    return out


# -- Gemini generateContent: an event stream; calls come whole -------------------------------------------------------


def gemini(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    """Lines end in CRLF, and a space follows each colon but no comma, as the API writes them."""
    rng = random.Random(SEED)
    response_id = token(rng, 22)
    out: list[bytes] = []

    def chunk(part: Mapping[str, Any], finish: str | None = None) -> None:
        candidate = {"content": {"parts": [part], "role": "model"}, **({"finishReason": finish} if finish else {})}
        usage = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": len(out),
            "totalTokenCount": PROMPT_TOKENS + len(out),
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT_TOKENS}],
        }
        payload = {"candidates": [{**candidate, "index": 0}], "usageMetadata": usage}
        payload |= {"modelVersion": "gemini-2.5-flash", "responseId": response_id}
        written = json.dumps(payload, separators=(",", ": "), ensure_ascii=False)
        out.append(f"data: {written}\r\n\r\n".encode())

    for delta in text:
        chunk({"text": delta})
    for name, arguments in calls:
        chunk({"functionCall": {"name": name, "args": orjson.loads(arguments)}})
    for delta in after:
        chunk({"text": delta})
    chunk({"text": ""}, "STOP")
    return out


# -- Mistral chat; calls come whole, in the last event ---------------------------------------------------------------


def mistral(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    head = chunk_head(hexadecimal(rng, 32), "mistral-large-latest")
    out: list[bytes] = []

    def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        out.append(data_line({**head, "choices": [choice], **more, "p": padding(rng)}))

    chunk({"role": "assistant", "content": ""})
    for delta in [*text, *after]:  # calls are the last that it sends
        chunk({"content": delta})
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    called = [{"id": token(rng, 9), "function": function, "index": at} for at, function in enumerate(functions)]
    if called:
        chunk({"tool_calls": called}, "tool_calls", usage=usage(len(out)))
    else:
        chunk({"content": ""}, "stop", usage=usage(len(out)))
    return [*out, b"data: [DONE]\n\n"]


# -- Cohere chat, version 2 ------------------------------------------------------------------------------------------


def cohere(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []
    index = 0

    def event(kind: str, **fields: Any) -> None:
        out.append(named_event(kind, {"type": kind, **fields}))

    def content(deltas: Sequence[str]) -> None:
        nonlocal index
        event("content-start", index=index, delta={"message": {"content": {"type": "text", "text": ""}}})
        for delta in deltas:
            event("content-delta", index=index, delta={"message": {"content": {"text": delta}}})
        event("content-end", index=index)
        index += 1

    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    message_id = "-".join(hexadecimal(rng, length) for length in (8, 4, 4, 4, 12))
    out.append(named_event("message-start", {"id": message_id, "type": "message-start", "delta": {"message": message}}))
    if text:
        content(text)
    for at, (name, arguments) in enumerate(calls):
        call = {"id": f"{name}_{token(rng, 12)}", "type": "function", "function": {"name": name, "arguments": ""}}
        event("tool-call-start", index=at, delta={"message": {"tool_calls": call}})
        for delta in pieces(arguments):
            event("tool-call-delta", index=at, delta={"message": {"tool_calls": {"function": {"arguments": delta}}}})
        event("tool-call-end", index=at)
    if after:
        content(after)
    tokens = {"input_tokens": PROMPT_TOKENS, "output_tokens": len(out)}
    end = {"finish_reason": "TOOL_CALL" if calls else "COMPLETE", "usage": {"billed_units": tokens, "tokens": tokens}}
    event("message-end", delta=end)
    return [*out, b"data: [DONE]\n\n"]


# -- Ollama chat: JSON lines; calls come whole -----------------------------------------------------------------------


def ollama(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []

    def line(message: Mapping[str, Any], **more: Any) -> None:
        made = f"2025-11-20T08:{len(out) // 3000 % 60:02}:{len(out) // 50 % 60:02}.{rng.randrange(10**6):06}Z"
        head = {"model": "qwen3:8b", "created_at": made, "message": {"role": "assistant", "content": "", **message}}
        out.append(written({**head, **(more or {"done": False})}).encode() + b"\n")

    for delta in text:
        line({"content": delta})
    for name, arguments in calls:
        line({"tool_calls": [{"function": {"name": name, "arguments": orjson.loads(arguments)}}]})
    for delta in after:
        line({"content": delta})
    durations = {"total_duration": 2203237375, "load_duration": 336223209}
    counts = {"prompt_eval_count": PROMPT_TOKENS, "prompt_eval_duration": 355000000}
    line({}, done_reason="stop", done=True, **durations, **counts, eval_count=len(out), eval_duration=1511000000)
    return out


# -- Amazon Bedrock ConverseStream: an AWS event stream --------------------------------------------------------------


def bedrock(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []
    index = 0

    def event(kind: str, **fields: Any) -> None:
        out.append(_message(kind, written({**fields, "p": padding(rng)}).encode()))

    def block(deltas: Iterable[Mapping[str, Any]]) -> None:
        nonlocal index
        for delta in deltas:
            event("contentBlockDelta", contentBlockIndex=index, delta=delta)
        event("contentBlockStop", contentBlockIndex=index)
        index += 1

    event("messageStart", role="assistant")
    if text:
        block({"text": delta} for delta in text)
    for name, arguments in calls:
        call = {"name": name, "toolUseId": "tooluse_" + token(rng, 22)}
        event("contentBlockStart", contentBlockIndex=index, start={"toolUse": call})
        block({"toolUse": {"input": delta}} for delta in pieces(arguments))
    if after:
        block({"text": delta} for delta in after)
    event("messageStop", stopReason="tool_use" if calls else "end_turn")
    usage = {"inputTokens": PROMPT_TOKENS, "outputTokens": len(out), "totalTokens": PROMPT_TOKENS + len(out)}
    event("metadata", metrics={"latencyMs": 1859}, usage=usage)
    return out


def _message(kind: str, payload: bytes) -> bytes:
    """One message of an AWS event stream: prelude with its checksum, headers, payload, checksum."""
    given = ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event"))
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in given
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


# -- how JSON and events are spelled ---------------------------------------------------------------------------------


def pieces(text: str, size: int = 5) -> list[str]:
    """`text` in deltas of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def written(value: object) -> str:
    """As JSON text."""
    return orjson.dumps(value).decode()


def data_line(payload: object) -> bytes:
    """As an event of an event stream."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def named_event(kind: str, payload: object) -> bytes:
    """As an event that has a name."""
    return f"event: {kind}\n".encode() + data_line(payload)


def chunk_head(response_id: str, model: str) -> dict[str, Any]:
    """As OpenAI and Mistral begin each chunk."""
    return {"id": response_id, "object": "chat.completion.chunk", "created": CREATED, "model": model}


def usage(tokens: int) -> dict[str, int]:
    """As OpenAI and Mistral tell it."""
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}


def token(rng: random.Random, length: int) -> str:
    """What ids are made of."""
    return "".join(rng.choices(LETTERS, k=length))


def hexadecimal(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.hexdigits[:16], k=length))


def padding(rng: random.Random) -> str:
    """The beginning of the alphabet, so that an event's length tells nothing."""
    return LETTERS[: rng.randrange(3, 60)]


BODIES: dict[str, Body] = {
    CHAT: chat,
    ANTHROPIC: anthropic,
    RESPONSES: responses,
    GEMINI: gemini,
    "mistral.chat": mistral,
    "cohere.chat": cohere,
    OLLAMA: ollama,
    BEDROCK: bedrock,
}
