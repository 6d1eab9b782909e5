"""Response bodies for tests, composed in the providers' own shapes, and the tools, models and readers of most tests."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import orjson

from streamtools import Event, Turn, pipeline, tool
from streamtools.observers import Observer
from streamtools.tools.context import call_key

Call = tuple[str, str, str]  # id, name, arguments as JSON text


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


class Seeing(Observer):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


class Model:
    """Answers with one body, or function of what it was asked, after the other, and remembers the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.asked: list[list[Any]] = []
        self.tools: Any = None

    async def __call__(self, messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        await anyio.lowlevel.checkpoint()
        self.asked.append(messages)
        self.tools = tools
        answer = self.answers[len(self.asked) - 1]
        answer = answer(str(messages)) if callable(answer) else answer
        return stream(answer) if isinstance(answer, list) else answer


def sse(payloads: Iterable[dict[str, Any]], *, named: bool = False) -> list[bytes]:
    """Each payload as an event of an event stream, named by its type if the provider does so."""
    return [
        (f"event: {payload['type']}\n".encode() if named else b"") + b"data: " + orjson.dumps(payload) + b"\n\n"
        for payload in payloads
    ]


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def chat(text: Sequence[str] = (), calls: Sequence[Call] = (), finish: str | None = "tool_calls") -> list[bytes]:
    """A Chat Completions body, an event an item: text deltas, then whole calls, then the end."""
    payloads = [chat_chunk({"role": "assistant", "content": ""})]
    payloads += [chat_chunk({"content": piece}) for piece in text]
    for index, (call_id, name, arguments) in enumerate(calls):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        payloads.append(chat_chunk({"tool_calls": [head]}))
        payloads.append(chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    if finish is not None:
        payloads.append(chat_chunk({}, finish))
    return [*sse(payloads), b"data: [DONE]\n\n"] if finish is not None else sse(payloads)


def anthropic(text: Sequence[str] = (), calls: Sequence[Call] = (), stop: str | None = "tool_use") -> list[bytes]:
    """A Messages body, an event an item: one text block, then a block for each call, then the end."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    payloads: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    index = 0
    if text:
        payloads.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        for piece in text:
            delta = {"type": "text_delta", "text": piece}
            payloads.append({"type": "content_block_delta", "index": 0, "delta": delta})
        payloads.append({"type": "content_block_stop", "index": 0})
        index = 1
    for number, (call_id, name, arguments) in enumerate(calls, index):
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": arguments}
        payloads.append({"type": "content_block_start", "index": number, "content_block": block})
        payloads.append({"type": "content_block_delta", "index": number, "delta": delta})
        payloads.append({"type": "content_block_stop", "index": number})
    if stop is not None:
        payloads.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})
        payloads.append({"type": "message_stop"})
    return sse(payloads, named=True)


def key_of(call_id: str, *, run: str = "r", step: int = 0, response: str = "chatcmpl-1") -> str:
    """The idempotency key of a call in such a body; by default of one of `chat`."""
    return call_key(run, step, response, call_id)


async def stream(items: Iterable[Any], *, then: BaseException | None = None) -> AsyncIterator[Any]:
    """The items, with a checkpoint before each; then an error, if one is given."""
    for item in items:
        await anyio.lowlevel.checkpoint()
        yield item
    if then is not None:
        raise then


async def hanging(items: Iterable[Any]) -> AsyncIterator[Any]:
    """The items, then nothing, for ever: a server that keeps the connection open."""
    for item in items:
        yield item
    await anyio.sleep_forever()


async def turn_of(calls: Sequence[Call], tools: Sequence[Any], **options: Any) -> Turn:
    return await pipeline(stream(chat(calls=calls)), tools=tools, **options)


async def exhaust(items: AsyncIterable[Any]) -> None:
    async for _ in items:
        pass


async def until(events: AsyncIterable[Any], kind: type | tuple[type, ...]) -> Any:
    """Reads to the first event of that kind, and returns it; the last one if there is none."""
    event = None
    async for event in events:
        if isinstance(event, kind):
            break
    return event


async def pass_on(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in events:
        yield event
