"""Tools for tests of where calls run, each in an async and a sync form; in a module, so that workers can import them.

They count effects as lines of a file: the process that they ran in, one line each.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel

from streamtools import ModelRetry, Tool, ToolContext, ToolError, tool
from streamtools.content import Media, ToolResult

SECRET = "a value that nobody is to read"


def marks(path: str | Path) -> list[int]:
    """The processes that effects happened in."""
    file = Path(path)
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def mark(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")


def _told(value: int, ctx: ToolContext) -> dict[str, Any]:
    ctx.progress({"told": value})
    names = ("call_id", "tool_name", "run_id", "step", "attempt", "idempotency_key")
    return {"value": value, **{name: getattr(ctx, name) for name in names}}


def _fail(how: str) -> Any:
    if how in ("blocks", "complaint"):
        blocks: list[Any] = ["it is", Media(kind="image", data="AAAA", mime_type="image/png")]
        return ToolResult(blocks=blocks, value={"seen": how}, is_error=how == "complaint")
    errors = {"words": ToolError("sold out"), "again": ModelRetry("give a number"), "crash": ValueError(SECRET)}
    raise errors[how]


@tool(name="tell")
async def tell_async(value: int, ctx: ToolContext) -> dict[str, Any]:
    """What it is told."""
    return _told(value, ctx)


@tool(name="tell")
def tell_sync(value: int, ctx: ToolContext) -> dict[str, Any]:
    """What it is told."""
    return _told(value, ctx)


@tool(name="end")
async def end_async(how: str) -> Any:
    """End in some way."""
    return _fail(how)


@tool(name="end")
def end_sync(how: str) -> Any:
    """End in some way."""
    return _fail(how)


@tool(name="stay")
async def stay_async(path: str, ctx: ToolContext) -> None:
    """Have effects until it is stopped."""
    while True:
        mark(path)
        ctx.progress("marked")
        await anyio.sleep(0.01)


@tool(name="stay")
def stay_sync(path: str, ctx: ToolContext) -> None:
    """Have effects until it is stopped."""
    pause = threading.Event()
    while not ctx.cancelled:
        mark(path)
        ctx.progress("marked")
        pause.wait(0.01)


def _weigh(how: str) -> Any:
    given: dict[str, Any] = {
        "well": Weight(kilos=2),
        "wrong": Weight.model_construct(kilos=SECRET),
        "blocks": ToolResult(blocks=["two kilos"], value={"kilos": 2}),
        "wrong blocks": ToolResult(blocks=["two kilos"], value={"kilos": SECRET}),
        "no value": ToolResult(blocks=["two kilos"]),
        "error": ToolResult(blocks=["no scales"], is_error=True),
    }
    return given[how]


class Weight(BaseModel):
    """A weight."""

    kilos: int


@tool(name="weigh", output_schema=Weight, effect="idempotent", retries=2, retry_delay_s=0.001)
async def weigh_async(how: str, path: str) -> Any:
    """Have an effect, and return a weight or something else."""
    mark(path)
    return _weigh(how)


@tool(name="weigh", output_schema=Weight, effect="idempotent", retries=2, retry_delay_s=0.001)
def weigh_sync(how: str, path: str) -> Any:
    """Have an effect, and return a weight or something else."""
    mark(path)
    return _weigh(how)


def _second_time(ctx: ToolContext, how: str) -> dict[str, Any]:
    if ctx.attempt == 1 and how == "raise":
        raise ValueError(SECRET)
    if ctx.attempt == 1 and how == "exit":
        os._exit(3)
    return {"attempt": ctx.attempt, "key": ctx.idempotency_key}


@tool(name="second_time", effect="idempotent", retries=1, retry_delay_s=0.001)
async def second_time_async(how: str, ctx: ToolContext) -> dict[str, Any]:
    """Fail, then do it."""
    return _second_time(ctx, how)


@tool(name="second_time", effect="idempotent", retries=1, retry_delay_s=0.001)
def second_time_sync(how: str, ctx: ToolContext) -> dict[str, Any]:
    """Fail, then do it."""
    return _second_time(ctx, how)


@tool
def span_here() -> dict[str, str]:
    """Draw a span, and say what it belongs to."""
    span: Any = TracerProvider().get_tracer("a worker's").start_span("work")
    assert span.parent is not None, "it was given a carrier"
    return {"trace": f"{span.get_span_context().trace_id:032x}", "parent": f"{span.parent.span_id:016x}"}


@tool
def order(path: str, ctx: ToolContext) -> str:
    """Have an effect, say so, and stay for as long as it is let."""
    mark(path)
    ctx.progress("ordered")
    threading.Event().wait()
    return "never"


@tool
def place_order(path: str, ctx: ToolContext) -> str:
    """Have an effect."""
    mark(path)
    return f"ordered by {os.getpid()}"


FORMS: dict[str, dict[str, Tool[..., Any]]] = {
    "async": {made.name: made for made in (tell_async, end_async, stay_async, second_time_async, weigh_async)},
    "sync": {made.name: made for made in (tell_sync, end_sync, stay_sync, second_time_sync, weigh_sync)},
}
"""Each tool's two forms, by name."""


@tool(effect="pure")
def peek(ctx: ToolContext) -> str:
    """Look at the context."""
    return type(ctx.context).__name__
