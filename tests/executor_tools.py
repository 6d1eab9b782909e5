"""Tools that worker processes of the tests import by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from functools import wraps
from typing import Any

import anyio
import anyio.lowlevel

from streamtools import ToolContext, tool
from streamtools.content import Media, Result, ToolResult
from streamtools.errors import ToolNotStarted


@tool
def worker_id() -> int:
    """The worker's process id."""
    return os.getpid()


@tool
def leave(how: str, code: int = 7) -> None:
    """End the worker, or try to."""
    {"exit": sys.exit, "at once": os._exit}[how](code)


@tool
def pretend() -> None:
    """Say that it has not run, which is not for a tool to say."""
    raise ToolNotStarted("not run")


@tool
def start_child(ctx: ToolContext) -> None:
    """Start a process of its own, report it, and stay."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    ctx.progress(child.pid)
    child.wait()


@tool
def chatter() -> str:
    """Print, and read what it may not read."""
    print("to standard output")
    return sys.stdin.read()


@tool
def large(size: int) -> str:
    """A long text."""
    return "x" * size


@tool
def picture() -> ToolResult:
    """Blocks and a value."""
    blocks = ["a picture", Media(kind="image", data="AAAA", mime_type="image/png")]
    return ToolResult(blocks=blocks, value={"width": 1}, display="shown")


@tool
def opaque() -> Any:
    """Something that JSON has no word for."""
    return threading.Lock()


@tool
def report(what: str, ctx: ToolContext) -> str:
    """Report odd things."""
    ctx.progress({"lock": threading.Lock(), "large": "x" * 1000}[what])
    return "reported"


@tool
def haunt(ctx: ToolContext) -> None:
    """Leave a thread behind that goes on reporting."""

    def go_on() -> None:
        while True:
            ctx.progress("from the past")
            time.sleep(0.001)

    threading.Thread(target=go_on, daemon=True).start()


def plain(number: int) -> int:
    """A function that is no tool yet."""
    return number + 1


def _wrapped(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@tool
@_wrapped
async def behind_a_wrapper(number: int) -> int:
    """An async function that looks sync."""
    await anyio.lowlevel.checkpoint()
    return number


class Shop:
    @staticmethod
    @tool
    def price(article: str) -> int:
        """What it costs."""
        return len(article)


@tool(effect="once")
def order(path: str, ctx: ToolContext) -> str:
    """Have an effect, then stay for as long as it is let."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    ctx.progress("ordered")
    threading.Event().wait()
    return "never"


GATES: dict[str, tuple[threading.Event, threading.Event]] = {}


@tool
def wait_at(name: str) -> None:
    """Say that it has begun, and wait until it may end."""
    begin, end = GATES.setdefault(name, (threading.Event(), threading.Event()))
    begin.set()
    end.wait()


@tool
async def count(to: int) -> AsyncIterator[Any]:
    """Count, then say that it is done."""
    for number in range(to):
        yield number
    yield Result("done")


@tool
async def endless() -> AsyncIterator[str]:
    """Never say that it is done."""
    yield "on and on"
