"""Defines the tools that the checks call, each in an async and a sync form; in a module, so that workers can import
them.

The tools count their effects as lines of a file, and wait by short pauses, since the waiting code may be in another
process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from ..errors import ToolError
from ..telemetry.carrier import current_carrier
from ..tools import Tool, ToolContext, tool

__all__ = ["SECRET", "TOOLS", "marks"]

SECRET = "a value that nobody is to read"


def marks(path: str | Path) -> int:
    """Returns the number of effects."""
    return Path(path).read_text().count("\n")


def _echo(value: Any, ctx: ToolContext) -> Any:
    return {"value": value, "key": ctx.idempotency_key, "attempt": ctx.attempt, "carrier": current_carrier()}


class Wordless(ToolError):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError(SECRET)


FAILURES: dict[str, Callable[[str], BaseException]] = {
    "ToolError": ToolError,
    "ValueError": ValueError,
    "SystemExit": SystemExit,
    "BaseExceptionGroup": lambda text: BaseExceptionGroup(text, [SystemExit(text)]),
    "Wordless": Wordless,
}


def _raise(kind: str) -> None:
    raise FAILURES[kind](SECRET)


def _mark(path: str) -> None:
    """Adds a line, by which effects are counted."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")


@tool(name="echo")
async def echo_async(value: Any, ctx: ToolContext) -> Any:
    """Returns the value, and the facts of the call."""
    return _echo(value, ctx)


@tool(name="echo")
def echo_sync(value: Any, ctx: ToolContext) -> Any:
    """Returns the value, and the facts of the call."""
    return _echo(value, ctx)


@tool(name="fail")
async def fail_async(kind: str) -> None:
    """Raises."""
    _raise(kind)


@tool(name="fail")
def fail_sync(kind: str) -> None:
    """Raises."""
    _raise(kind)


@tool(name="work")
async def work_async(path: str, ctx: ToolContext) -> None:
    """Leaves marks and reports them, until it is cancelled."""
    while True:
        _mark(path)
        ctx.progress("marked")
        await anyio.sleep(0.01)


@tool(name="work")
def work_sync(path: str, ctx: ToolContext) -> None:
    """Leaves marks and reports them, until it is cancelled."""
    pause = threading.Event()
    while not ctx.cancelled:
        _mark(path)
        ctx.progress("marked")
        pause.wait(0.01)


@tool(name="meet")
async def meet_async(path: str, ctx: ToolContext) -> int:
    """Returns when two calls are here."""
    _mark(path)
    while marks(path) < 2:  # noqa: ASYNC110 - the other call may be in another process
        await anyio.sleep(0.01)
    return marks(path)


@tool(name="meet")
def meet_sync(path: str, ctx: ToolContext) -> int:
    """Returns when two calls are here."""
    _mark(path)
    pause = threading.Event()
    while marks(path) < 2 and not ctx.cancelled:
        pause.wait(0.01)
    return marks(path)


@tool(name="mark")
async def mark_async(path: str) -> str:
    """Has an effect."""
    _mark(path)
    return "done"


@tool(name="mark")
def mark_sync(path: str) -> str:
    """Has an effect."""
    _mark(path)
    return "done"


TOOLS: dict[str, list[Tool[..., Any]]] = {
    "async": [echo_async, fail_async, work_async, meet_async, mark_async],
    "sync": [echo_sync, fail_sync, work_sync, meet_sync, mark_sync],
}
