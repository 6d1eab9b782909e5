"""Finds out the kind of a stream by its methods, and turns its items into the decoder's input.

The first kind that fits, in this order:

    MEMORY            bytes, text, a list or a tuple
    CONNECTION        a connection over a socket (asynchronous `recv`), which carries responses one after another; or
                      google-genai's Live session, which has one
    RESPONSE          an httpx or httpx2 response (`aiter_bytes`), or an SDK's stream that has one and was not begun
    BLOCKING_RESPONSE the same of a synchronous client (`iter_bytes`)
    AIOHTTP           an aiohttp response (`content.iter_any`)
    EVENTS            an event source (`aiter_sse`), where its response cannot be had
    ASYNC             any other asynchronous iterable
    MANAGER           an asynchronous context manager that opens a stream
    AWAITABLE         a request that was not awaited yet, and returns one of these
    BLOCKING          any other iterable
    BLOCKING_MANAGER  a context manager that opens a stream
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum, auto
from types import AsyncGeneratorType, FunctionType, GeneratorType
from typing import Any, TypeAlias

TAPPED = "streamtools.tap"
"""The extension of a response of httpx that has the copy of its body; see `streamtools.integrations.httpx`."""

IN_MEMORY = (bytes, bytearray, memoryview, str, list, tuple)

# The attributes in which SDKs keep the response: openai, anthropic, groq, mistralai, httpx-sse;
# `with_streaming_response`. (google-genai's stream of an interaction goes on with the response of another request.)
_RESPONSES = ("response", "http_response", "_response")
_SDKS = frozenset({"anthropic", "groq", "httpx_sse", "mistralai", "openai"})
# The methods by which instrumentations watch a stream: patched on its type, or overridden in a subclass.
_READING = ("__iter__", "__next__", "__aiter__", "__anext__", "__stream__", "__enter__", "__aenter__")
_NO_CODING = frozenset({"", "identity", "none", "utf-8"})  # "none" is sent to keep proxies from compressing
_LIVE_SESSIONS = "google.genai.live"


class Kind(Enum):
    MEMORY = auto()
    CONNECTION = auto()
    RESPONSE = auto()
    BLOCKING_RESPONSE = auto()
    AIOHTTP = auto()
    EVENTS = auto()
    ASYNC = auto()
    MANAGER = auto()
    AWAITABLE = auto()
    BLOCKING = auto()
    BLOCKING_MANAGER = auto()


# Methods decide, never a class, so that no SDK is imported to ask for its classes. Bytes come first wherever they can
# be had: an SDK's typed chunks cost twenty times as much.
_ABILITIES = (
    ("aiter_sse", Kind.EVENTS),
    ("__aiter__", Kind.ASYNC),
    ("__aenter__", Kind.MANAGER),
    ("__await__", Kind.AWAITABLE),  # before those of a blocking one: a future has `__iter__`
    ("__iter__", Kind.BLOCKING),
    ("__enter__", Kind.BLOCKING_MANAGER),
)


_OF_TYPE: dict[type, Kind] = {AsyncGeneratorType: Kind.ASYNC, GeneratorType: Kind.BLOCKING}
"""Types that have nothing of what the other kinds are known by."""


def kind_of(stream: Any) -> Kind | None:
    if (known := _OF_TYPE.get(type(stream))) is not None:
        return known
    if isinstance(stream, IN_MEMORY):
        return Kind.MEMORY
    if connection_of(stream) is not None:
        return Kind.CONNECTION
    response = response_of(stream)
    if response is not None:
        return Kind.BLOCKING_RESPONSE if _is_blocking(response) else Kind.RESPONSE
    # Not `stream.content`: where that is a property (requests), it would read the whole body, here and now.
    if hasattr(inspect.getattr_static(stream, "content", None), "iter_any"):
        return Kind.AIOHTTP
    # litellm's stream has the methods of both worlds, and those of its inner stream's other world fail.
    if hasattr(wrapped_by(stream), "__iter__") and not hasattr(wrapped_by(stream), "__aiter__"):
        return Kind.BLOCKING
    for name, kind in _ABILITIES:
        if hasattr(stream, name):
            return kind
    return None


def connection_of(stream: Any) -> Any | None:
    """Returns the connection that is read by an asynchronous `recv`: `stream` itself, or a Live session's."""
    # The session's own messages are typed, and have lost the fields that these types do not have.
    if type(stream).__module__ == _LIVE_SESSIONS:
        stream = getattr(stream, "_ws", None)
    return stream if inspect.iscoroutinefunction(getattr(type(stream), "recv", None)) else None


def wrapped_by(stream: Any) -> Any | None:
    return getattr(stream, "completion_stream", None)


def response_of(stream: Any) -> Any | None:
    """Returns the response to read bytes from: `stream` itself, or that of an SDK's unread stream."""
    if _gives_bytes(stream):
        return stream
    if not is_untouched(stream):
        return None
    for name in _RESPONSES:
        response = getattr(stream, name, None)
        if _gives_bytes(response) and not getattr(response, "is_stream_consumed", False):
            return response
    return None


def is_untouched(stream: Any) -> bool:
    """Returns whether a stream is an SDK's own, so that the bytes below it may be read in its place."""
    # A stream that somebody has wrapped, or whose type or iterator is patched, is iterated: its wrapper counts chunks,
    # and ends its span after the last one. Read below it, the span would never end. A wrapper cannot be asked whether
    # it is one (proxies lie about their class), so its code is looked at: in which folder was it written?
    kind = type(stream)
    root = kind.__module__.partition(".")[0]
    if root not in _SDKS:
        return False
    home = os.path.dirname(getattr(sys.modules[root], "__file__", None) or "")
    methods = (getattr(kind, name, None) for name in _READING)
    return all(method is None or _is_of(home, method) for method in methods) and _is_of(
        home, getattr(stream, "_iterator", None)
    )


def foreign_iterator_of(stream: Any) -> Any | None:
    """Returns the generator inside an SDK's stream, if somebody else has put it there or a subclass has made it."""
    # The SDKs leave the generator inside to the garbage collector when their stream is closed. One that an
    # instrumentation put there makes its record when it ends.
    held = getattr(stream, "_iterator", None)
    if not inspect.isasyncgen(held):
        return None
    files = (getattr(sys.modules.get(root), "__file__", None) for root in _SDKS)
    return None if any(file and _is_of(os.path.dirname(file), held) for file in files) else held


def _is_of(home: str, code: Any) -> bool:
    if code is None:
        return True
    found = code.__code__ if type(code) is FunctionType else getattr(code, "ag_code", getattr(code, "gi_code", None))
    return found is not None and found.co_filename.startswith(home + os.sep)


def raw_of(response: Any, method: str) -> Any | None:
    """Returns the object whose `method` gives a response's bytes as they came; None if it was read before."""
    # Then its body is in memory, decoded; or it is gone.
    for holder in (response, getattr(response, "http_response", None)):  # openai's and anthropic's raw responses
        if hasattr(holder, method):
            return None if getattr(holder, "is_stream_consumed", True) else holder
    return None


def untap(response: Any) -> None:
    # Read by both, its calls would run twice, and show twice.
    for holder in (response, getattr(response, "http_response", None)):
        extensions = getattr(holder, "extensions", None)
        if isinstance(extensions, Mapping) and (copy := extensions.get(TAPPED)) is not None:
            copy.yield_to()


def pulled_of(stream: Any) -> Any | None:
    """Returns the response of urllib3 that `stream` is or holds (requests), if nobody has begun to read it."""
    held: tuple[Any, ...] = (stream, getattr(stream, "raw", None))
    for response in held:
        # `tell` counts the bytes that came over the wire: 0 before anybody has read.
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
    # httpx's responses have the methods of both worlds; the type of the body shows which of them work.
    if not hasattr(response, "aiter_bytes"):
        return True
    body = getattr(response, "stream", None)
    return hasattr(body, "__iter__") and not hasattr(body, "__aiter__")


_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def server_of(response: Any) -> tuple[str, int | None] | None:
    """Returns the host and the port that answered a request, and nothing else of its address."""
    from urllib.parse import urlsplit  # every HTTP library has loaded it

    try:
        address = urlsplit(str(response.url))
        port = address.port or _PORTS.get(address.scheme)
    except (AttributeError, RuntimeError, ValueError):  # httpx raises for a response that was made without a request
        return None
    return None if address.hostname is None else (address.hostname, port)


def codings_of(response: Any) -> tuple[str, ...]:
    headers = getattr(response, "headers", None)
    if not isinstance(headers, Mapping):
        return ()
    get_all = getattr(headers, "getall", None)  # aiohttp's `get` gives the first line only
    lines = get_all("content-encoding", ()) if get_all is not None else [headers.get("content-encoding") or ""]
    names = (name.strip().lower() for line in lines for name in str(line).split(","))
    return tuple(name for name in names if name not in _NO_CODING)


# -- items --

#     bytes, text, mappings                     as they are
#     an event of an event source               its frame, written again: an event named "error" stays one
#     an SDK's typed chunk                      the payload that it was made of
#     an item that an SDK derived from others   nothing: it would count twice

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


chunk_readers: dict[str, Callable[[], Callable[[Any], Item]]] = {}
"""By a library with a dialect of every wire, what makes the reader of one response's chunks; `sources` fills it."""


def langchain_chunks() -> Callable[[Any], Item]:
    return chunk_readers["langchain"]()


def as_item(item: Any, chunks: Callable[[], Callable[[Any], Item]] = langchain_chunks) -> Item | None:
    """Returns an item of a stream as bytes, text or a plain payload; None if an SDK derived it from other items.
    LangChain's chunks are converted by what `chunks` returns. Raises a TypeError, which lists the items that a stream
    may yield, for any other."""
    if isinstance(item, (bytes, str, Mapping)):
        return item
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    # The order: LangChain's chunks have a `type`, too. OpenAI's helper wraps each chunk in an event of type "chunk" and
    # adds events of its own, as Anthropic's does; both are named by their type. An event of an event source has text as
    # its data, mistralai's an object.
    if getattr(item, "type", None) == "AIMessageChunk" and hasattr(item, "tool_call_chunks"):
        return chunks()(item)
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
    """Returns the payload of an SDK object that is a whole answer; anything else, such as a stream, unchanged."""
    is_object = hasattr(stream, "model_dump") or hasattr(stream, "to_dict")
    if not is_object or isinstance(stream, type) or any(hasattr(stream, name) for name in _OF_STREAMS):
        return stream
    return _payload(stream)


def without_finish(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = payload.get("choices") or ()
    return {**payload, "choices": [{**choice, "finish_reason": None} for choice in choices]}


def _payload(item: Any) -> Mapping[str, Any]:
    # The SDKs' own `to_dict` gives the fields as the wire names them, also those that the type does not have. A plain
    # pydantic model is written by its aliases, without the fields that are None, since its wire left them out.
    if hasattr(item, "to_dict"):
        payload = item.to_dict()
    elif hasattr(item, "model_dump"):
        payload = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        raise TypeError(
            f"a stream yields bytes, text, mappings or chunks of an SDK, not {type(item).__name__}; convert each "
            "item to the provider's payload, a dict"
        )
    if not isinstance(payload, Mapping):
        raise TypeError(f"expected a mapping from {type(item).__name__}.to_dict(), got {type(payload).__name__}")
    return _as_gemini_has_it(payload) if "candidates" in payload or "serverContent" in payload else payload


def as_event(data: bytes, name: object) -> bytes:
    """Returns the data of an event as an event of an event stream, with its name where that marks an error."""
    # A line end inside the data would end its field: each line gets a field of its own, which are joined again.
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return (
        (b"event: error\n" if name == "error" else b"") + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    )


def _as_gemini_has_it(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    # pydantic writes bytes in URL-safe base64, the wire has the standard one. A signature has to go back to the
    # provider as it came.
    wire = {key: value for key, value in payload.items() if key not in _ADDED_BY_GENAI}
    contents = [candidate.get("content", {}) for candidate in wire.get("candidates", ())]
    contents.append(wire.get("serverContent", {}).get("modelTurn", {}))
    for content in contents:
        for part in content.get("parts", ()):
            for holder, key in ((part, "thoughtSignature"), (part.get("inlineData"), "data")):
                if holder and isinstance(text := holder.get(key), str):
                    holder[key] = text.translate(_STANDARD_BASE64)
    return wire
