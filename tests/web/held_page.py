"""Holds a run still for a page: frames pass one by one, and the model writes on when what it wrote was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import anyio

from streamtools import AgentLoop, ToolContext, agent_loop, tool

__all__ = ["TEXTS", "THOUGHT", "Held", "Script"]

WIRE = "anthropic.messages"
THOUGHT = "Hm, let me see."
TEXTS = ("I look around. ", "It is warm. I would book. ", "Booked. Enjoy it.")
Call = tuple[str, dict[str, Any]]
_CALLS: tuple[list[Call], ...] = (
    [("look", {"at": "Lisbon"}), ("look", {"at": "Porto"})],
    [("look", {"at": "trains"}), ("book", {"berths": 2})],
    [],
)
Chunk = dict[str, Any]
_AG_UI = {
    "reasoning-delta": "REASONING_MESSAGE_CONTENT",
    "reasoning-end": "REASONING_END",
    "text-delta": "TEXT_MESSAGE_CONTENT",
    "text-end": "TEXT_MESSAGE_END",
    "tool-input-delta": "TOOL_CALL_ARGS",
    "tool-output-available": "TOOL_CALL_RESULT",
}


class Held:
    """An application between a server and one page.

    Args:
        app: answers the page.
    """

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._news = anyio.Event()
        self.begin(None)

    def begin(self, most: int | None) -> None:
        """Begins anew: `most` frames pass, then nothing does until `open`."""
        self.most = most
        """So many pass; None for all."""
        self.sent = 0
        """Frames that have passed."""
        self.kinds: Counter[str] = Counter()
        self.is_held = False
        """Another frame is there, and does not pass."""
        self.joined = 0
        """Requests to join a run, or to read it anew, that were answered; so are whole messages of AG-UI."""
        self.is_whole = False
        """The page of AG-UI has the messages of a conversation that is finished."""
        self.holds_joins = False
        self._tell()

    def open(self) -> None:
        """Lets through all there is."""
        self.most = None
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def count(self, kind: str) -> int:
        """Returns how many frames of a kind of useChat's, or of AG-UI's that is like it, have passed."""
        return self.kinds[kind] + self.kinds[_AG_UI.get(kind, "")]

    def has_more(self, kind: str, before: int) -> bool:
        """Returns whether more than `before` have passed, or all do."""
        return self.most is None or self.count(kind) > before

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds of what has passed."""
        while not holds():
            await self._news.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request."""
        is_stream = False
        method, path = scope["method"], scope["path"]
        is_join, has_messages = path.endswith("/stream"), method == "GET" and path.endswith("/ag-ui")
        if is_join or (method == "POST" and path.endswith("/ag-ui")):
            await self.until(lambda: not self.holds_joins)

        async def one_by_one(message: Any) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                is_stream = (b"content-type", b"text/event-stream") in [(k, v[:17]) for k, v in message["headers"]]
                await send(message)
                self.joined += is_stream or is_join
                self._tell()
                return
            if has_messages and b'"unfinished":' not in message["body"]:
                self.is_whole = True
                self.joined += 1
                self._tell()
            *frames, rest = message["body"].split(b"\n\n") if is_stream else [message["body"]]
            for frame in frames:
                await self._pass(frame, send)
            await send({**message, "body": rest})

        await self._app(scope, receive, one_by_one)

    async def _pass(self, frame: bytes, send: Any) -> None:
        most = self.most
        if most is not None and self.sent >= most:
            self.is_held = True
            self._tell()
            await self.until(lambda: self.most is None)
        await send({"type": "http.response.body", "body": frame + b"\n\n", "more_body": True})
        self.sent += 1
        data = frame.partition(b"data: ")[2]
        if data.startswith(b"{"):
            shown = json.loads(data)
            self.kinds[shown["type"]] += not shown.get("preliminary")
        self._tell()


class Script:
    """A model of three steps, of which the second one asks, and its tools.

    Args:
        held: says what was sent.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self.booked: Counter[str] = Counter()

    def run(self, chat: Any) -> AgentLoop:
        """Makes the run of a conversation."""

        @tool(effect="pure")
        def look(at: str, ctx: ToolContext) -> dict[str, str]:
            """Looks."""
            ctx.progress({"done": 1, "of": 2})
            return {"seen": at}

        @tool(effect="once", needs_approval=True)
        def book(berths: int) -> str:
            """Books."""
            self.booked[chat.id] += 1
            return f"{berths} booked"

        async def ask(messages: list[Any], tools: Any) -> AsyncIterator[Chunk]:
            return self._answer(sum(message["role"] == "assistant" for message in messages))

        return agent_loop(ask, chat.messages(WIRE), tools=[look, book], wire=WIRE, **chat.options)

    async def _answer(self, step: int) -> AsyncIterator[Chunk]:
        held = self._held
        for chunk, brings in _script(step):
            before = held.count(brings)
            yield chunk
            if brings:
                await held.until(partial(held.has_more, brings, before))


def _script(step: int) -> Sequence[tuple[Chunk, str]]:
    """Returns the chunks of a step, each with the kind of the last frame that it is known to bring by itself."""
    index = 0
    message = {"id": f"msg_{step}", "role": "assistant", "model": "script"}
    chunks: list[tuple[Chunk, str]] = [({"type": "message_start", "message": message}, "")]

    def block(begin: Chunk, deltas: Sequence[Chunk], kind: str, end: str) -> None:
        nonlocal index
        chunks.append(({"type": "content_block_start", "index": index, "content_block": begin}, ""))
        for delta in deltas:
            brings = "" if "signature" in delta else f"{kind}-delta"
            chunks.append(({"type": "content_block_delta", "index": index, "delta": delta}, brings))
        chunks.append(({"type": "content_block_stop", "index": index}, end))
        index += 1

    if step == 0:
        thoughts = [{"type": "thinking_delta", "thinking": text} for text in (THOUGHT[:4], THOUGHT[4:])]
        signed = {"type": "signature_delta", "signature": "c2lnbmVk"}  # or it is no part of a history
        block({"type": "thinking", "thinking": ""}, [*thoughts, signed], "reasoning", "reasoning-end")
    half = len(TEXTS[step]) // 2
    texts = [{"type": "text_delta", "text": text} for text in (TEXTS[step][:half], TEXTS[step][half:])]
    block({"type": "text", "text": ""}, texts, "text", "text-end")
    for number, (name, arguments) in enumerate(_CALLS[step]):
        written = json.dumps(arguments)
        pieces = [{"type": "input_json_delta", "partial_json": text} for text in (written[:6], written[6:])]
        begin = {"type": "tool_use", "id": f"call_{step}_{number}", "name": name, "input": {}}
        block(begin, pieces, "tool-input", "tool-output-available" if name == "look" else "")
    finish = "tool_use" if _CALLS[step] else "end_turn"
    chunks.append(({"type": "message_delta", "delta": {"stop_reason": finish}}, ""))
    return [*chunks, ({"type": "message_stop"}, "")]
