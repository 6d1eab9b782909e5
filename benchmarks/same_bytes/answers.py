"""The answers that each loop gets, the server that gives them, and the one tool: `Bank.pay`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI

from ..bodies import CHAT, RESPONSES, responses

Piece = bytes | Callable[[], Awaitable[None]]
Pay = Callable[[str], Awaitable[str]]

URL = "http://model.invalid/v1"


class Server(httpx2.AsyncBaseTransport):
    """Answers a request without results with calls, any other with text; a callable in a body is awaited."""

    def __init__(self, calls: Sequence[Piece], wire: str = CHAT) -> None:
        self.calls, self.text = calls, DONE[wire]
        self.requests: list[dict[str, Any]] = []
        self.whole = False
        """Chat Completions' answers that pay and that are done, as one JSON object each: for a loop without streams."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answers a request with a stream."""
        self.requests.append(json.loads(request.content))
        body = self.text if self.results() else self.calls
        if self.whole:
            return httpx2.Response(200, json=_whole(calls=not self.results()))

        async def stream() -> AsyncIterator[bytes]:
            for piece in body:
                if isinstance(piece, bytes):
                    yield piece
                else:
                    await piece()

        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream())

    def results(self) -> list[str]:
        """The results that the model reads with the last request."""
        asked = self.requests[-1]
        items = [each for each in asked.get("input", []) if each.get("type") == "function_call_output"]
        messages = [each for each in asked.get("messages", []) if each["role"] == "tool"]
        return [str(each["output"]) for each in items] + [str(each["content"]) for each in messages]

    def client(self) -> AsyncOpenAI:
        """Returns the SDK's client, whose requests come here."""
        http = httpx2.AsyncClient(transport=self, base_url=URL)
        return AsyncOpenAI(api_key="none", base_url=URL, http_client=http)


class Bank:
    """Pays, notes whom, and dies within the first payment if it is given a file to note that in."""

    def __init__(self, file: Path | None = None) -> None:
        self.paid: list[str] = []
        self.first = asyncio.Event()
        self.file = file

    async def pay(self, to: str) -> str:
        """Pays somebody; an account named ``nobody`` does not exist."""
        self.paid.append(to)
        self.first.set()
        if to == "nobody":
            raise ValueError("no such account")
        if self.file is not None:
            died = self.file.exists()
            with self.file.open("a") as lines:
                lines.write(f"{to}\n")
            if not died:
                os._exit(9)
        return f"paid {to}"


def _sse(payload: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def _delta(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _sse({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def _call(index: int, call_id: str, arguments: str) -> bytes:
    function = {"name": "pay", "arguments": arguments}
    return _delta({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})


def _whole(*, calls: bool) -> dict[str, Any]:
    function = {"name": "pay", "arguments": '{"to":"Ada"}'}
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else "done"}
    if calls:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


_END = b"data: [DONE]\n\n"
DONE = {
    CHAT: [_delta({"role": "assistant", "content": "done"}), _delta({}, "stop"), _END],
    RESPONSES: responses(["done"], (), ()),
}


async def _reset() -> None:
    raise httpx2.ReadError("the connection was reset")


PAYS: list[Piece] = [_call(0, "call_1", '{"to":"Ada"}'), _delta({}, "tool_calls"), _END]
ANSWERS: dict[str, list[Piece]] = {
    "cut": [_call(0, "call_1", '{"to":"Ada'), _delta({}, "length"), _END],
    "lost": PAYS[:1],
    "reset": [*PAYS[:1], _reset],
    "same_index": [_call(0, "call_1", '{"to":"Ada"}'), _call(0, "call_2", '{"to":"Bob"}'), *PAYS[1:]],
    "raises": [
        *(_call(at, f"call_{at}", json.dumps({"to": to})) for at, to in enumerate(("Ada", "nobody", "Bob"))),
        *PAYS[1:],
    ],
}
"""An answer of Chat Completions for each row of the table that is about one."""


def two_calls(between: Callable[[], Awaitable[None]]) -> list[Piece]:
    """Composes a response of two calls on the Responses API, with something to await after the first one's end."""
    body = responses((), [("pay", f'{{"to":"{to}"}}') for to in ("Ada", "Bob")], ())
    ended = next(at for at, piece in enumerate(body) if b"response.output_item.done" in piece) + 1
    return [*body[:ended], between, *body[ended:]]
