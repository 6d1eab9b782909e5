"""Whatever stream you hold, as one asynchronous iteration of bytes, text or payloads.

Streams are told apart by what they can do, never by their class, so that no SDK is imported here:

    1. bytes, str, a list or tuple of chunks        in memory already
    2. an SDK stream (`.response`) not yet begun    read as bytes: 4 µs per event instead of 84 for its typed chunks
    3. a response (`.aiter_bytes`): httpx, httpx2   read as bytes
    4. a context manager that opens a stream        entered, then as above
    5. any other asynchronous iterable              item by item; SDK objects are turned into plain dicts, and the
                                                    events that an SDK's helper derives from the raw ones are skipped
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["Item", "Source", "as_item", "open_source"]

Item: TypeAlias = "bytes | str | Mapping[str, Any]"

# Events that an SDK's accumulating helper adds beside the raw ones; taking both would count every delta twice.
_DERIVED = frozenset({
    # anthropic `messages.stream()`
    "text", "thinking", "signature", "citation", "input_json",
    # openai `chat.completions.stream()`
    "content.delta", "content.done", "refusal.delta", "refusal.done", "logprobs.content.delta",
    "logprobs.content.done", "logprobs.refusal.delta", "logprobs.refusal.done",
    "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done",
})  # fmt: skip


class Source:
    """One stream: iterate `items` once, then `aclose`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._closers: list[Callable[[], Any]] = []  # called last to first
        self._manager: Any = None  # entered, to be left
        self._items: AsyncIterator[Any] | None = None

    async def items(self) -> AsyncIterator[Any]:
        """Begin to read; what comes is for `as_item`. Call it in the task that iterates."""
        stream = self._stream
        if _is_manager(stream):
            self._manager = stream
            stream = await stream.__aenter__()
            _check(stream)
            if _is_manager(stream):
                raise TypeError(f"cannot stream from {type(stream).__name__}, which a context manager opened")
        self._items = self._read(stream)
        return self._items

    async def aclose(self, error: BaseException | None = None) -> bool:
        """Close the stream, and leave what was entered to open it. Idempotent.

        Args:
            error: what ended the reading; a context manager that was entered is told.

        Returns:
            Whether that manager took the error upon itself.
        """
        closers, self._closers = self._closers, []
        if (close_items := getattr(self._items, "aclose", None)) is not None:
            closers.append(close_items)
        manager, self._manager, self._items = self._manager, None, None
        try:
            await _call_all(closers)
        finally:
            absorbed = False
            if manager is not None:
                absorbed = await manager.__aexit__(type(error) if error else None, error, error and error.__traceback__)
        return bool(absorbed)

    def _read(self, stream: Any) -> AsyncIterator[Any]:
        if isinstance(stream, (bytes, bytearray, str)):
            return _in_memory([stream])
        if isinstance(stream, (list, tuple)):
            return _in_memory(stream)
        response = _response_of(stream)
        if response is not None:
            self._close_later(stream)
            self._close_later(response)
            return aiter(response.aiter_bytes())
        self._close_later(stream)
        return aiter(stream)

    def _close_later(self, stream: Any) -> None:
        for name in ("aclose", "close"):
            close = getattr(stream, name, None)
            if callable(close):
                self._closers.append(close)
                return


async def _call_all(closers: list[Callable[[], Any]]) -> None:
    """Last to first, each of them: what fails to close must not keep the others open."""
    if closers:
        try:
            result = closers.pop()()
            if inspect.isawaitable(result):
                await result
        finally:
            await _call_all(closers)


def open_source(stream: Any) -> Source:
    """A source for `stream`; nothing is read yet.

    Raises:
        TypeError: it is nothing that can be streamed; the message says what to pass instead.
    """
    _check(stream)
    return Source(stream)


def _check(stream: Any) -> None:
    kind = type(stream).__name__
    if inspect.isawaitable(stream):
        raise TypeError(f"the stream is a {kind} that was not awaited; write pipeline(await ...)")
    if isinstance(stream, Mapping):
        raise TypeError("the stream is one mapping; pass an iterable of payloads, or ask for stream=True")
    if isinstance(stream, (bytes, bytearray, str, list, tuple)) or _is_manager(stream):
        return
    if hasattr(stream, "__aiter__") or _response_of(stream) is not None:
        return
    if hasattr(stream, "__iter__") or hasattr(stream, "iter_bytes"):
        raise TypeError(f"the stream ({kind}) is synchronous and would block the event loop; use the async client")
    raise TypeError(f"cannot stream from {kind}; pass an SDK's stream, an httpx response, or an async iterable")


def _is_manager(stream: Any) -> bool:
    return hasattr(stream, "__aenter__") and not hasattr(stream, "__aiter__") and _response_of(stream) is None


def _response_of(stream: Any) -> Any | None:
    """The response to read bytes from: `stream` itself, or that of an SDK stream which nobody has begun to read."""
    if hasattr(stream, "aiter_bytes"):
        return stream
    for name in ("response", "http_response", "_response"):
        response = getattr(stream, name, None)
        if hasattr(response, "aiter_bytes") and not getattr(response, "is_stream_consumed", False):
            return response
    return None


async def _in_memory(items: Any) -> AsyncIterator[Item]:
    for item in items:
        yield bytes(item) if isinstance(item, (bytearray, memoryview)) else item


def as_item(item: Any) -> Item | None:
    """What a stream yielded, as bytes, text or a plain payload; None for what an SDK derived from other items.

    Raises:
        TypeError: it is nothing of the kind.
    """
    if isinstance(item, (bytes, str, Mapping)):
        return item
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    kind = getattr(item, "type", None)
    if kind == "chunk" and hasattr(item, "chunk"):
        item = item.chunk
    elif isinstance(kind, str) and kind in _DERIVED:
        return None
    if hasattr(item, "to_dict"):
        payload = item.to_dict()
    elif hasattr(item, "model_dump"):
        payload = item.model_dump(mode="json", by_alias=True, exclude_unset=True)
    else:
        raise TypeError(f"a stream yields bytes, str, mappings or SDK objects, not {type(item).__name__}")
    if not isinstance(payload, Mapping):
        raise TypeError(f"{type(item).__name__}.to_dict() gave no mapping")
    return payload
