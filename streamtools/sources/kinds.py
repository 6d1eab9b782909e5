"""Finds out the kind of a stream by its methods.

The first kind that fits, in this order:

    MEMORY            bytes, text, a list or a tuple
    RESPONSE          an httpx or httpx2 response (`aiter_bytes`), or an SDK's stream that has one and was not begun
    BLOCKING_RESPONSE the same of a synchronous client (`iter_bytes`)
    AIOHTTP           an aiohttp response (`content.iter_any`)
    EVENTS            an event source (`aiter_sse`), where its response cannot be had
    ASYNC             any other asynchronous iterable
    MANAGER           an asynchronous context manager that opens a stream
    BLOCKING          any other iterable
    BLOCKING_MANAGER  a context manager that opens a stream
"""

from __future__ import annotations

import inspect
from enum import Enum, auto
from typing import Any

__all__ = ["IN_MEMORY", "Kind", "kind_of", "pulled_of", "raw_of", "response_of", "wrapped_by"]

IN_MEMORY = (bytes, bytearray, memoryview, str, list, tuple)

# The attributes in which SDKs keep the response: openai, anthropic, groq, mistralai, httpx-sse;
# `with_streaming_response`.
_RESPONSES = ("response", "http_response", "_response")


class Kind(Enum):
    """The way in which a stream is read."""

    MEMORY = auto()
    RESPONSE = auto()
    BLOCKING_RESPONSE = auto()
    AIOHTTP = auto()
    EVENTS = auto()
    ASYNC = auto()
    MANAGER = auto()
    BLOCKING = auto()
    BLOCKING_MANAGER = auto()


_ABILITIES = (
    ("aiter_sse", Kind.EVENTS),
    ("__aiter__", Kind.ASYNC),
    ("__aenter__", Kind.MANAGER),
    ("__iter__", Kind.BLOCKING),
    ("__enter__", Kind.BLOCKING_MANAGER),
)


def kind_of(stream: Any) -> Kind | None:
    """Returns how to read `stream`; None if it cannot be read."""
    if isinstance(stream, IN_MEMORY):
        return Kind.MEMORY
    response = response_of(stream)
    if response is not None:
        return Kind.BLOCKING_RESPONSE if _is_blocking(response) else Kind.RESPONSE
    if _has_content(stream):
        return Kind.AIOHTTP
    if hasattr(wrapped_by(stream), "__iter__") and not hasattr(wrapped_by(stream), "__aiter__"):
        return Kind.BLOCKING
    return next((kind for name, kind in _ABILITIES if hasattr(stream, name)), None)


def wrapped_by(stream: Any) -> Any | None:
    """Returns the stream inside litellm's, which has the methods of both worlds: only those of its inner stream
    work."""
    return getattr(stream, "completion_stream", None)


def response_of(stream: Any) -> Any | None:
    """Returns the response to read bytes from: `stream` itself, or that of an SDK's stream which nobody has begun to
    read."""
    if _gives_bytes(stream):
        return stream
    for name in _RESPONSES:
        response = getattr(stream, name, None)
        if _gives_bytes(response) and not getattr(response, "is_stream_consumed", False):
            return response
    return None


def raw_of(response: Any, method: str) -> Any | None:
    """Returns the object whose `method` gives a response's bytes as they came over the wire; None if the response was
    read before: then its body is in memory and decoded, or gone."""
    for holder in (response, getattr(response, "http_response", None)):  # openai's and anthropic's raw responses
        if hasattr(holder, method):
            return None if getattr(holder, "is_stream_consumed", True) else holder
    return None


def pulled_of(stream: Any) -> Any | None:
    """Returns the response of urllib3 that `stream` is or holds (requests), if nobody has begun to read it."""
    held: tuple[Any, ...] = (stream, getattr(stream, "raw", None))
    for response in held:
        if hasattr(response, "decode_content") and callable(getattr(response, "tell", None)):
            return response if response.tell() == 0 and not response.closed else None
    return None


def _gives_bytes(response: Any) -> bool:
    if hasattr(response, "aiter_bytes"):
        return True
    # openai's and anthropic's raw responses have `iter_bytes` in both worlds; the asynchronous one holds a response of
    # httpx.
    return hasattr(response, "iter_bytes") and not inspect.isasyncgenfunction(response.iter_bytes)


def _is_blocking(response: Any) -> bool:
    """Returns whether a response blocks. httpx's have the methods of both worlds; the type of the body shows which of
    them work."""
    if not hasattr(response, "aiter_bytes"):
        return True
    body = getattr(response, "stream", None)
    return hasattr(body, "__iter__") and not hasattr(body, "__aiter__")


def _has_content(stream: Any) -> bool:
    # Not `stream.content`: where that is a property (requests), it would read the whole body, here and now.
    content = inspect.getattr_static(stream, "content", None)
    return hasattr(content, "iter_any")
