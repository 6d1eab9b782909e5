"""Turns LangChain's `AIMessageChunk`s, a dialect made of every provider's wire, into Chat Completions payloads.

    content="Hel"  |  content=[{"type": "text", "text": "Hel", "index": 0}, {"type": "thinking", "thinking": "..."}]
    tool_call_chunks=[{"name": "add", "args": '{"a"', "id": "call_1", "index": 0, "type": "tool_call_chunk"}]
    usage_metadata={"input_tokens": 9, ...}         what this chunk adds: the sum over all chunks is the usage
    response_metadata={"finish_reason": "stop"}     or `stop_reason`, `stopReason`, `done_reason`, `status`

Read in langchain-core 1.7, `langchain_core/messages/ai.py`, 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# The fields in which integrations put the provider's finish reason.
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
# Where the provider has no finish reason for tool calls, its ordinary one may mean them: OpenAI's Responses, Gemini,
# Ollama.
_ORDINARY = {("status", "completed"), ("finish_reason", "STOP"), ("done_reason", "stop")}
# Finish reasons that the chat wire does not have, in its own words. Any other goes through as it is.
_FINISHES = {
    "TOOL_CALL": "tool_calls",
    "SAFETY": "content_filter",
    "refusal": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "failed": "error",
}
# Blocks that repeat the content of `tool_call_chunks`.
_CALLS = {"tool_use", "input_json_delta", "tool_call_chunk", "tool_call", "function_call", "custom_tool_call"}
_OWN_IDS = ("lc_", "run-")  # LangChain's own ids, of its run, where the provider's response had none
_REASONING = {"thinking", "reasoning", "reasoning_content"}
_OPAQUE = ("signature", "encrypted_content")


class LangChainChunks:
    """Converts the chunks of one response: counts are summed, and some finish reasons depend on earlier chunks."""

    def __init__(self) -> None:
        self._usage: dict[str, int] = {}
        self._has_calls = False

    def payload(self, chunk: Any) -> dict[str, Any]:
        metadata: Mapping[str, Any] = getattr(chunk, "response_metadata", None) or {}
        choice: dict[str, Any] = {"index": 0, "delta": _delta(chunk)}
        self._has_calls = self._has_calls or bool(chunk.tool_call_chunks)
        # `chunk_position="last"` is LangChain's own end, and not the model's: only the provider's finish reason
        # completes the turn.
        if finish := self._finish(metadata):
            choice["finish_reason"] = finish
        payload: dict[str, Any] = {"object": "chat.completion.chunk", "choices": [choice]}
        chunk_id = getattr(chunk, "id", None)
        if isinstance(chunk_id, str) and not chunk_id.startswith(_OWN_IDS):
            payload["id"] = chunk_id
        if model := metadata.get("model_name") or metadata.get("model"):
            payload["model"] = model
        if usage := getattr(chunk, "usage_metadata", None):
            payload["usage"] = self._add_up(usage)
        return payload

    def _finish(self, metadata: Mapping[str, Any]) -> str | None:
        key = next((key for key in _REASONS if metadata.get(key)), "status")
        reason = metadata.get(key)
        if (key, reason) in _ORDINARY:
            return "tool_calls" if self._has_calls else "stop"
        if key == "status":
            reason = (metadata.get("incomplete_details") or {}).get("reason") or reason
        return _FINISHES.get(reason, reason) if isinstance(reason, str) else None

    def _add_up(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        cached = (usage.get("input_token_details") or {}).get("cache_read")
        reasoning = (usage.get("output_token_details") or {}).get("reasoning")
        counts = {"input": usage.get("input_tokens"), "output": usage.get("output_tokens")}
        # A chunk has the counts that it adds; a chat payload has the total.
        for name, count in (counts | {"cached": cached, "reasoning": reasoning}).items():
            if isinstance(count, int):
                self._usage[name] = self._usage.get(name, 0) + count
        return {
            "prompt_tokens": self._usage.get("input"),
            "completion_tokens": self._usage.get("output"),
            "prompt_tokens_details": {"cached_tokens": self._usage.get("cached")},
            "completion_tokens_details": {"reasoning_tokens": self._usage.get("reasoning")},
        }


def _delta(chunk: Any) -> dict[str, Any]:
    delta: dict[str, Any] = {}
    more: Mapping[str, Any] = getattr(chunk, "additional_kwargs", None) or {}
    content = chunk.content
    if isinstance(content, list):
        delta.update(_blocks(content))
    elif content:
        delta["content"] = content
    # Integrations have these beside the content or as blocks of it; where both are there, the blocks count.
    for key in ("reasoning_content", "refusal"):
        if key not in delta and (text := more.get(key)):
            delta[key] = text
    if calls := [_call(call) for call in chunk.tool_call_chunks]:
        delta["tool_calls"] = calls
    return delta


def _call(chunk: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": chunk.get("name"), "arguments": chunk.get("args")}
    call = {"index": chunk.get("index"), "id": chunk.get("id"), "function": _present(function)}
    return {"type": "function", **_present(call)}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _blocks(blocks: list[Any]) -> dict[str, Any]:
    """Returns a list of content blocks as reasoning, refusal and text; content without a chat field stays a block."""
    collected: dict[str, list[str]] = {"reasoning_content": [], "refusal": [], "content": []}
    others: list[Any] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, str):
            collected["content"].append(block)
        elif kind in ("text", "refusal") and isinstance(text := block.get(kind), str):
            collected["content" if kind == "text" else "refusal"].append(text)
            others.extend(_opaque(block))
        elif kind in _REASONING:
            collected["reasoning_content"].extend(_reasoning(block))
            others.extend(_opaque(block))
        elif kind not in _CALLS:
            others.append(block)
    delta: dict[str, Any] = {key: text for key, texts in collected.items() if (text := "".join(texts))}
    # Signatures of reasoning, media, results of tools that the provider ran: content without a field in a chat payload
    # stays a block, which the chat wire passes on unread.
    if others:
        delta["content"] = [delta.get("content", ""), *others]
    return delta


def _reasoning(block: Mapping[str, Any]) -> Iterator[str]:
    for key in ("thinking", "reasoning", "reasoning_content"):
        inner = block.get(key)
        text = inner.get("text") if isinstance(inner, Mapping) else inner
        if isinstance(text, str):
            yield text
    summaries = block.get("summary")
    for summary in summaries if isinstance(summaries, list) else ():
        if isinstance(summary, Mapping) and isinstance(text := summary.get("text"), str):
            yield text


def _opaque(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for holder in (block, block.get("extras"), block.get("reasoning_content")):
        if isinstance(holder, Mapping):
            yield from ({"type": key, key: value} for key in _OPAQUE if (value := holder.get(key)))
