"""Tools that worker processes of the tests import by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

import anyio.lowlevel

from streamtools import ToolContext, tool
from streamtools.content import FinalResult, Media, ToolResult
from streamtools.errors import ToolError, ToolNotStarted, ToolOutcomeUnknown


@tool
def worker_id() -> int:
    """The worker's process id."""
    return os.getpid()


class Mute(ToolError):
    """An error whose words end the program."""

    def __str__(self) -> str:
        raise SystemExit(3)


def _without_end() -> Any:
    while True:
        yield 0


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _chatter() -> str:
    print("to standard output")
    return sys.stdin.read()


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two", [KeyboardInterrupt(), GeneratorExit()]),
    "Mute": Mute,
    "unknown": lambda: ToolOutcomeUnknown("who knows"),
    "half a character": lambda: ToolError("half a \ud83d character"),
    "many words": lambda: ToolError("word " * 10_000),
    "not started": lambda: ToolNotStarted("not run"),
}
REPORTED: dict[str, Callable[[], Any]] = {
    "report of a lock": lambda: {"lock": threading.Lock()},
    "large report": lambda: "x" * 1000,
    "report of quotes": lambda: '"' * 8000,
    "report without end": _without_end,
}
RETURNED: dict[str, Callable[[], Any]] = {
    "endless": _without_end,
    "endless within": lambda: {"rows": [_without_end()]},
    "long list": lambda: [0] * 3_000_000,
    "long text": lambda: "x" * 30_000_000,
    "large block": lambda: ToolResult(blocks=["x" * 30_000_000]),
    "endless value": lambda: ToolResult(blocks=["x"], value=_without_end()),
    "numbers": lambda: (number for number in range(3)),
    "numbers within": lambda: {"a": iter([1]), "b": (2, {3})},
    "deep": lambda: _nested(150),
    "quotes": lambda: '"' * 8000,
    "large": lambda: "x" * 20_000,
    "just fits": lambda: ["x" * 90] * 10,
    "blocks": lambda: ToolResult(blocks=["x", Media(kind="image", data="AAAA", mime_type="image/png")], value=1),
    "lock": threading.Lock,
    "chatter": _chatter,
    "environment": lambda: dict(os.environ),
    "exit": lambda: os._exit(7),
}


@tool
def do(what: str, ctx: ToolContext) -> Any:
    """Return, report or raise something."""
    if what in RAISED:
        raise RAISED[what]()
    if what in REPORTED:
        ctx.progress(REPORTED[what]())
        return "reported"
    return RETURNED[what]()


@tool
async def do_async(what: str) -> Any:
    """Raise something where an event loop runs."""
    await anyio.lowlevel.checkpoint()
    raise RAISED[what]()


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


@tool
async def count(to: int) -> AsyncIterator[Any]:
    """Count, then say that it is done; from nought, never say so."""
    for number in range(to):
        yield number
    if to:
        yield FinalResult("done")


@tool
def start_child(apart: bool, stay: bool, ctx: ToolContext, die: bool = False) -> int:
    """Start a process, in a session of its own or not, report it, and stay, die or leave it behind."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, start_new_session=apart, stdin=subprocess.DEVNULL)
    ctx.progress(child.pid)
    if stay:
        threading.Event().wait()
    if die:
        os._exit(7)
    return child.pid
