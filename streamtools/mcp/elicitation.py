"""Lets an MCP server ask the user in the middle of a call, by those who answer the call: `Elicitation`.

A session's callback does not learn which call the server asks for, so a session with an `Elicitation` makes one call
at a time. A question of a task names its task, so tasks run beside each other. A question outside any call, or one
whose call ends before the answer, is cancelled. The server's words are untrusted: they are bounded, and shown as its
own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CancelScope

from ..errors import ToolError
from ..ground import one_line
from ..limits import Limits
from ..tools import ToolContext
from .definition import peek, plain, weighed

MOST_ROUNDS = 10  # how often a server may ask for input in one call; the SDK's own client allows as many
MOST_CHARS = 4096  # characters of a server's message or address
MOST_VALUES = 2_000  # values in the schema of a form
NOBODY = (
    "the MCP server asks for input in the middle of a call (input_required), but nothing here can ask the user; "
    "pass fetch_tools(..., elicitation=Elicitation())"
)
RELATED_TASK = "io.modelcontextprotocol/related-task"


class Elicitation:
    """Lets the servers of a session ask the user, through the events of the run that calls them.

        elicitation = Elicitation()
        async with ClientSession(read, write, elicitation_callback=elicitation) as session:
            await session.initialize()
            tools = await fetch_tools(session, server="shop", elicitation=elicitation)

    The `AnswerRequested` event of the call has the question: ``{"server", "mode": "form", "message", "schema"}``, or
    ``url`` in place of ``schema``. Answer a form with an object, a URL with True. ``is_error=True`` means that the user
    declines.
    """

    def __init__(self) -> None:
        self._one_call = anyio.Lock()
        self._calls: dict[str | None, _Asking] = {}  # by their tasks; the one that is no task yet under None

    @asynccontextmanager
    async def during(
        self, ctx: ToolContext, server: str, limits: Limits, task_id: str | None = None
    ) -> AsyncIterator[None]:
        """Treats the server's questions as those of this call, or of its task. `fetch_tools` uses this."""
        async with self._one_call if task_id is None else nullcontext():
            made = self._calls[task_id] = _Asking(ctx, server, limits)
            try:
                yield
            finally:
                if self._calls.get(task_id) is made:
                    del self._calls[task_id]
                made.is_over = True
                if made.scope is not None:
                    made.scope.cancel()

    async def __call__(self, context: Any, params: Any, /) -> Any:
        from mcp import types  # the session that calls this has imported it

        related = peek(peek(params, "meta", "_meta"), RELATED_TASK)
        task_id = peek(related, "taskId", "task_id")
        answer = await self.answer(params, task_id if isinstance(task_id, str) else None)
        return types.ElicitResult(**answer)

    async def answer(self, params: Any, task_id: str | None = None) -> dict[str, Any]:
        """Returns the user's answer to a server's question, as JSON."""
        made = self._calls.get(task_id)
        if made is None:
            return {"action": "cancel"}
        with CancelScope() as scope:
            async with made.one_question:
                if made.is_over:
                    return {"action": "cancel"}
                made.scope = scope
                try:
                    return await _asked(params, made.ctx, made.server, made.limits)
                finally:
                    made.scope = None
        return {"action": "cancel"}  # the call is over

    async def inputs(self, answer: Any, task_id: str | None = None) -> dict[str, Any]:
        """Returns the answers to a server's request for input, by its keys.

        Raises:
            ToolError: the server asks for something other than the user's answer, or for too much.
        """
        wanted = peek(answer, "inputRequests", "input_requests") or {}
        if not isinstance(wanted, Mapping) or len(wanted) > MOST_ROUNDS:
            raise ToolError("the MCP server asks for more input at once than this client answers")
        given = {}
        for key, request in wanted.items():
            if peek(request, "method") != "elicitation/create":
                raise ToolError("the MCP server asks for a kind of input that this client cannot give")
            given[str(key)] = await self.answer(peek(request, "params"), task_id)
        return given


@dataclass(slots=True, eq=False)
class _Asking:
    ctx: ToolContext
    server: str
    limits: Limits
    one_question: anyio.Lock = field(default_factory=anyio.Lock)
    scope: CancelScope | None = None
    is_over: bool = False


async def _asked(params: Any, ctx: ToolContext, server: str, limits: Limits) -> dict[str, Any]:
    mode = peek(params, "mode") or "form"
    schema = peek(params, "requestedSchema", "requested_schema")
    message, url = peek(params, "message"), peek(params, "url")
    question: dict[str, Any] = {"server": server, "mode": mode, "message": _line(message)}
    if mode == "url":
        if not isinstance(url, str) or len(url) > MOST_CHARS:
            return {"action": "cancel"}
        question["url"] = _line(url)
    else:
        question["schema"] = plain(schema)
        _, chars, is_whole = weighed(question["schema"], MOST_VALUES, limits.max_schema_bytes)
        if not is_whole or chars > limits.max_schema_bytes:
            return {"action": "cancel"}
    try:
        answer = await ctx.ask(question)
    except ToolError:
        return {"action": "decline"}
    except TypeError:  # its schema is nested too deeply
        return {"action": "cancel"}
    if mode == "url":
        return {"action": "accept" if answer is True else "decline"}
    if not isinstance(answer, Mapping) or not all(map(_is_plain, answer.values())):
        return {"action": "cancel"}
    return {"action": "accept", "content": dict(answer)}


def _line(text: Any) -> str:
    return one_line(text, MOST_CHARS) if isinstance(text, str) else ""


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, (str, int, float, bool))
