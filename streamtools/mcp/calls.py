"""Calls an MCP tool: one call, from checked arguments to a result."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream, to_thread
from pydantic import ValidationError

from ..content import ToolResult
from ..dispatch.results import is_small
from ..errors import ToolError, ToolFailed, ToolOutcomeUnknown
from ..limits import Limits
from ..telemetry.carrier import current_carrier
from ..tools import Effect, ToolContext
from .peer import OnProgress, Peer, Unasked
from .reading import excerpt, peek
from .results import tool_result

__all__ = ["caller"]

CONNECTION_CLOSED = -32000
"""The SDK's own code for an answer that can never come. Servers use it, too, so that the message has to fit as well."""
_LOST_WORDS = ("Connection closed", "SSE stream ")
_LOST = (BrokenResourceError, ClosedResourceError, EndOfStream, ConnectionError)


def caller(
    peer: Peer, server: str, name: str, *, effect: Effect, structured: bool, limits: Limits
) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    """Returns a function that calls the server's tool `name`.

    The current span is sent as ``_meta.traceparent``; the server's progress becomes ``ctx.progress``; a cancelled call
    is cancelled on the server. If the connection is lost, the call fails if the tool is ``pure``; any other call may
    have had its effect, so its outcome is unknown.
    """

    async def call(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        progress = _progress(ctx, limits)
        try:
            answer = await peer.call(name, arguments, meta=current_carrier(), on_progress=progress)
        except Exception as error:
            told = _lost(server, effect) if _is_lost(error) else _told(error, server, limits)
            if told is None:
                raise
            raise told from error
        read = partial(tool_result, answer, structured=structured, limits=limits)
        return read() if is_small(answer) else await to_thread.run_sync(read, abandon_on_cancel=True)

    call.__name__ = call.__qualname__ = name
    return call


def _progress(ctx: ToolContext, limits: Limits) -> OnProgress:
    left = limits.max_progress_events

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        nonlocal left
        left -= 1
        if left < 0 or not math.isfinite(progress):  # consumers pass it on as JSON, which has neither NaN nor infinity
            return
        told: dict[str, Any] = {"progress": progress}
        if total is not None and math.isfinite(total):
            told["total"] = total
        if message is not None:
            told["message"] = excerpt(message, limits.max_error_excerpt)
        ctx.progress(told)

    return on_progress


def _is_lost(error: BaseException) -> bool:
    """Returns whether the connection was lost before there was an answer; a transport's task groups raise that in a
    group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_lost, error.exceptions))
    code, words = peek(peek(error, "error"), "code"), peek(peek(error, "error"), "message")
    said = code == CONNECTION_CLOSED and isinstance(words, str) and words.startswith(_LOST_WORDS)
    return said or isinstance(error, _LOST)


def _lost(server: str, effect: Effect) -> ToolError:
    what = f"the connection to the MCP server {server!r} was lost before it had answered"
    if effect == "pure":
        return ToolFailed(what)
    return ToolOutcomeUnknown(f"{what}; the call may have had its effect")


def _told(error: Exception, server: str, limits: Limits) -> ToolError | None:
    """Returns the error for the model after a failure on the way to the MCP server or in its answer; None for any
    other.

    A JSON-RPC error is told apart by its shape: the SDK's class for it has another name in each generation.
    """
    if isinstance(error, Unasked):
        return ToolError(f"the MCP server {server!r} was not asked: {error}")
    if isinstance(error, ValidationError):
        return ToolError(f"the MCP server {server!r} answered with something that is no tool result")
    code, message = peek(peek(error, "error"), "code"), peek(peek(error, "error"), "message")
    if not isinstance(code, int) or not isinstance(message, str):
        return None
    return ToolError(
        f"the MCP server {server!r} answered with error {code}: {excerpt(message, limits.max_error_excerpt)}"
    )
