"""The tools that the tests of `RayExecutor` call; in a module, so that actors can import them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import anyio
import ray
from anyio.lowlevel import checkpoint
from opentelemetry import trace

from streamtools import ToolContext, tool
from streamtools.telemetry.carrier import current_carrier

TRACER = trace.get_tracer("shop")


def _mark(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


@tool
async def where() -> dict[str, object]:
    """Tell the actor's process and node."""
    return {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}


@tool
async def spot() -> dict[str, object]:
    """Tell the actor's process and node, from a node of a kind."""
    return {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}


@tool
async def hold(path: str, ctx: ToolContext) -> None:
    """Leave a mark, then wait to be cancelled, and say when that came."""
    _mark(path, "begun")
    ctx.progress(time.time())
    try:
        await anyio.sleep_forever()
    finally:
        _mark(path, f"cancelled {time.time()!r}")


@tool
async def stubborn(path: str, ctx: ToolContext) -> str:
    """Swallow a cancellation once."""
    ctx.progress("begun")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        _mark(path, "swallowed")
    await anyio.sleep_forever()
    return "never"


@tool
async def effect(path: str) -> str:
    """Leave a mark."""
    _mark(path, "effect")
    return "done"


@tool
def hold_thread(path: str, ctx: ToolContext) -> str:
    """Leave a mark, then look now and then whether it is cancelled."""
    _mark(path, "begun")
    ctx.progress("begun")
    pause = threading.Event()
    while not ctx.cancelled:
        pause.wait(0.01)
    _mark(path, "seen")
    return "stopped"


@tool
def report_thread(count: int, ctx: ToolContext) -> int:
    """Report numbers from a thread."""
    for number in range(count):
        ctx.progress(number)
    return count


@tool
async def report(count: int, ctx: ToolContext) -> int:
    """Report numbers."""
    for number in range(count):
        ctx.progress(number)
        if number % 7 == 0:
            await checkpoint()
    return count


@tool
async def carrier() -> dict[str, str]:
    """Tell the current span."""
    return current_carrier()


@tool
def carrier_thread() -> dict[str, str]:
    """Tell the current span of a thread."""
    return current_carrier()


@tool
async def busy(path: str, ctx: ToolContext) -> None:
    """Keep the actor's event loop busy, which an async tool must not do."""
    ctx.progress("begun")
    await anyio.sleep(0.05)
    _mark(path, "busy")
    time.sleep(4)  # noqa: ASYNC251 - that is what it must not do


@tool
async def large(size: int) -> str:
    """Return so many characters."""
    return "x" * size


@tool
async def nap(seconds: float) -> None:
    """Wait."""
    await anyio.sleep(seconds)


@tool
async def draws(text: str) -> int:
    """Draw spans while other calls draw theirs, in a task and in a thread, and say in which process."""

    def pack() -> None:
        with TRACER.start_as_current_span(f"pack {text}"):
            TRACER.start_span(f"item {text}").end()

    with TRACER.start_as_current_span(f"order {text}"):
        await anyio.sleep(0.2)
        await anyio.to_thread.run_sync(pack)
    return os.getpid()


@tool
def draws_in_thread(text: str) -> int:
    """Draw a span in the thread of a sync tool, and more than may travel."""
    for number in range(1005):
        TRACER.start_span(f"{number} {text}").end()
    return os.getpid()
