"""OpenAI Chat Completions and Responses."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from .spelling import CREATED, PROMPT_TOKENS, SEED, Call, data_line, named_event, pieces, token, usage

__all__ = ["chat", "responses"]


def chat(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    head = {
        "id": "chatcmpl-" + token(rng, 29),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_" + token(rng, 10),
    }
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
        return {
            "id": response_id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": "gpt-4o-2024-08-06",
            "output": list(items),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "auto",
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "user": None,
            "metadata": {},
        }

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
