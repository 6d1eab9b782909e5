"""The function behind an MCP tool: one call, from checked arguments to a result."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from ..content import ToolResult
from ..errors import ToolError
from ..limits import Limits
from ..telemetry.carrier import current_carrier
from ..tools import ToolContext
from .peer import OnProgress, Peer, Unasked
from .reading import excerpt, peek
from .results import CheckOutput, tool_result

__all__ = ["caller"]


def caller(
    peer: Peer, server: str, name: str, *, check: CheckOutput | None, limits: Limits
) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    """A function that calls the server's tool `name`.

    The current span goes along as ``_meta.traceparent``; the server's progress becomes ``ctx.progress``; a cancelled
    call is cancelled on the server.
    """

    async def call(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        progress = _progress(ctx, limits)
        try:
            answer = await peer.call(name, arguments, meta=current_carrier(), on_progress=progress)
        except Exception as error:
            told = _told(error, server, limits)
            if told is None:
                raise
            raise told from error
        return tool_result(answer, check=check, limits=limits)

    call.__name__ = call.__qualname__ = name
    return call


def _progress(ctx: ToolContext, limits: Limits) -> OnProgress:
    left = limits.max_progress_events

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        nonlocal left
        left -= 1
        if left < 0 or not math.isfinite(progress):  # JSON, as which consumers pass it on, has neither NaN nor infinity
            return
        told: dict[str, Any] = {"progress": progress}
        if total is not None and math.isfinite(total):
            told["total"] = total
        if message is not None:
            told["message"] = excerpt(message, limits.max_error_excerpt)
        ctx.progress(told)

    return on_progress


def _told(error: Exception, server: str, limits: Limits) -> ToolError | None:
    """What the model is told of a failure on the way to the MCP server or in its answer; None for any other.

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
