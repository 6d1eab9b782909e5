"""Turns the items of a stream into the decoder's input: bytes, text, or a payload as the wire had it.

bytes, text, mappings                   as they are
an event of an event source             its frame, written again: an event named "error" stays one
an SDK's typed chunk                    the payload that it was made of
an item that an SDK derived from others nothing: it would count twice
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .langchain import LangChainChunks

__all__ = ["Item", "answer_of", "as_event", "as_item", "langchain_chunks", "without_finish"]

Item: TypeAlias = "bytes | str | Mapping[str, Any]"

# Events that an SDK's accumulating helper adds to the raw ones; taking both would count every delta twice.
_DERIVED = frozenset({
    # anthropic `messages.stream()`
    "text", "thinking", "signature", "citation", "input_json", "compaction",
    # openai `chat.completions.stream()`
    "content.delta", "content.done", "refusal.delta", "refusal.done", "logprobs.content.delta",
    "logprobs.content.done", "logprobs.refusal.delta", "logprobs.refusal.done",
    "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done",
})  # fmt: skip

# google-genai adds the HTTP headers of the response, and the history of its own tool loop.
_ADDED_BY_GENAI = ("sdkHttpResponse", "automaticFunctionCallingHistory", "parsed")
# Methods of streams and of responses, which no answer has.
_OF_STREAMS = ("__aiter__", "__next__", "__anext__", "__aenter__", "__enter__", "aiter_bytes", "iter_bytes", "recv")
_STANDARD_BASE64 = str.maketrans("-_", "+/")


def langchain_chunks() -> LangChainChunks:
    """Returns a converter of LangChain's chunks for one response."""
    from .langchain import LangChainChunks  # most streams are of others

    return LangChainChunks()


def as_item(item: Any, chunks: Callable[[], LangChainChunks] = langchain_chunks) -> Item | None:
    """Returns an item of a stream as bytes, text or a plain payload; None if an SDK derived it from other items.
    LangChain's chunks are converted by what `chunks` returns, which knows those before.

    Raises:
        TypeError: the item is none of these; the message says which items a stream may yield.
    """
    if isinstance(item, (bytes, str, Mapping)):
        return item
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    if getattr(item, "type", None) == "AIMessageChunk" and hasattr(item, "tool_call_chunks"):
        return chunks().payload(item)
    kind = getattr(item, "type", None)
    data = getattr(item, "data", None)
    if kind == "chunk" and hasattr(item, "chunk"):
        return _payload(item.chunk)
    if isinstance(kind, str) and kind in _DERIVED:
        return None
    if isinstance(data, str) and hasattr(item, "event"):
        return as_event(data.encode("utf-8", "surrogatepass"), item.event)
    if hasattr(data, "model_dump"):  # mistralai's CompletionEvent
        return _payload(data)
    return _payload(item)


def answer_of(stream: Any) -> Any:
    """Returns the payload of an SDK's object that is a whole answer; anything else, a stream say, as it is."""
    is_object = hasattr(stream, "model_dump") or hasattr(stream, "to_dict")
    if not is_object or isinstance(stream, type) or any(hasattr(stream, name) for name in _OF_STREAMS):
        return stream
    return _payload(stream)


def without_finish(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a Chat Completions chunk without the finish reason that no provider gave."""
    choices = payload.get("choices") or ()
    return {**payload, "choices": [{**choice, "finish_reason": None} for choice in choices]}


def _payload(item: Any) -> Mapping[str, Any]:
    if hasattr(item, "to_dict"):
        payload = item.to_dict()
    elif hasattr(item, "model_dump"):
        payload = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        raise TypeError(
            f"a stream yields bytes, text, mappings or chunks of an SDK, not {type(item).__name__}; "
            "make each item the provider's payload, a dict, before you pass it on"
        )
    if not isinstance(payload, Mapping):
        raise TypeError(f"{type(item).__name__}.to_dict() gave no mapping")
    return _as_gemini_has_it(payload) if "candidates" in payload or "serverContent" in payload else payload


def as_event(data: bytes, name: object) -> bytes:
    """Returns the data of an event as an event of an event stream; its name is kept where only the name marks an
    error."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return (
        (b"event: error\n" if name == "error" else b"") + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    )


def _as_gemini_has_it(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a response of google-genai, or a Live session's message, in the wire's form, whose base64 is not the
    URL-safe one."""
    wire = {key: value for key, value in payload.items() if key not in _ADDED_BY_GENAI}
    contents = [candidate.get("content", {}) for candidate in wire.get("candidates", ())]
    contents.append(wire.get("serverContent", {}).get("modelTurn", {}))
    for content in contents:
        for part in content.get("parts", ()):
            for holder, key in ((part, "thoughtSignature"), (part.get("inlineData"), "data")):
                if holder and isinstance(text := holder.get(key), str):
                    holder[key] = text.translate(_STANDARD_BASE64)
    return wire
