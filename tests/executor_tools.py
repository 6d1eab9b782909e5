"""Tools that worker processes of the tests import by name."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from streamtools import ToolContext, tool
from streamtools.content import FinalResult, Media, ToolResult
from streamtools.dispatch.executors.worker import RESULT, PipeFrame
from streamtools.errors import ToolError, ToolNotStarted, ToolOutcomeUnknown


@tool
def worker_id() -> int:
    """The worker's process id."""
    return os.getpid()


@tool
def environment() -> dict[str, str]:
    """The worker's environment."""
    return dict(os.environ)


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
    ctx.progress({"lock": threading.Lock(), "large": "x" * 1000, "quoted": '"' * 8000, "endless": _without_end()}[what])
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
def wait_for_file(path: str, ctx: ToolContext) -> int:
    """Report that it runs, wait until there is such a file, and return the process id."""
    ctx.progress("runs")
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.getpid()


@tool
async def count(to: int) -> AsyncIterator[Any]:
    """Count, then say that it is done."""
    for number in range(to):
        yield number
    yield FinalResult("done")


@tool
async def endless() -> AsyncIterator[str]:
    """Never say that it is done."""
    yield "on and on"


# -- tools that fork, and what may come of it --


@tool
def fork_and_return(how: str = "return") -> int:
    """Fork; parent and child both come back through the tool."""
    if os.fork() == 0:
        if how == "raise":
            raise KeyError("child")
        return -1
    os.wait()
    return os.getpid()


@tool
async def fork_and_return_async() -> int:
    """Fork in a coroutine; parent and child both come back through the tool."""
    if os.fork() == 0:
        return -1
    os.wait()  # noqa: ASYNC222 - it ends at once
    await anyio.sleep(0.01)  # the loop has to be whole
    return os.getpid()


@tool
def fork_and_report(ctx: ToolContext) -> str:
    """Fork, and report in the child."""
    if os.fork() == 0:
        ctx.progress("from a child")
        os._exit(0)
    os.wait()
    ctx.progress("from the worker")
    return "done"


@tool
def fork_and_die(ctx: ToolContext) -> None:
    """Leave a child that holds the pipes, and die when it is there."""
    child = os.fork()
    if child == 0:
        threading.Event().wait()
    ctx.progress(child)
    os._exit(7)


@tool
def leave_child(apart: bool, ctx: ToolContext, die: bool = False) -> int:
    """Leave a child behind, in a session of its own or not."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, start_new_session=apart, stdin=subprocess.DEVNULL)
    ctx.progress(child.pid)
    if die:
        os._exit(7)
    return child.pid


@tool
def hold_child(ctx: ToolContext) -> None:
    """Start a child in a session of its own, report it, and stay."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    ctx.progress(child.pid)
    threading.Event().wait()


@tool
def forge(number: int, who: str, path: str = "") -> str:
    """Write an answer into the worker's pipe, as code that scribbles over file descriptors might."""
    pipes = [int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and _is_written(int(fd))]
    if who == "late":
        threading.Timer(0.0, _when_written, [lambda: _forged(pipes[0], number, path)]).start()
    elif who == "worker":
        _forged(pipes[0], number)
    elif os.fork() == 0:
        _forged(pipes[0], number)
        os._exit(0)
    else:
        os.wait()
    return "the worker's"


def _forged(pipe: int, number: int, path: str = os.devnull) -> None:
    os.write(pipe, PipeFrame(RESULT, number, b'{"value":"forged"}').packed())
    with open(path, "w"):
        pass


def _is_written(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY)
    except OSError:  # the descriptor of the listing itself
        return False


@tool
def talk() -> None:
    """Fail with many words."""
    raise ToolError("word " * 10_000)


# -- odd ends and odd values --


class Mute(ToolError):
    """An error whose words end the program."""

    def __str__(self) -> str:
        raise SystemExit(3)


ODD_ENDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two", [KeyboardInterrupt(), GeneratorExit()]),
    "Mute": Mute,
    "ToolOutcomeUnknown": lambda: ToolOutcomeUnknown("who knows"),
    "ToolError": lambda: ToolError("half a \ud83d character"),
}


@tool
def end_oddly(kind: str) -> None:
    """Raise what few tools raise."""
    raise ODD_ENDS[kind]()


@tool
async def end_oddly_async(kind: str) -> None:
    """Raise it where an event loop runs."""
    await anyio.lowlevel.checkpoint()
    raise ODD_ENDS[kind]()


def _without_end() -> Any:
    while True:
        yield 0


VALUES: dict[str, Callable[[], Any]] = {
    "endless": _without_end,
    "endless within": lambda: {"rows": [_without_end()]},
    "long list": lambda: [0] * 3_000_000,
    "long text": lambda: "x" * 30_000_000,
    "large block": lambda: ToolResult(blocks=["x" * 30_000_000]),
    "endless value": lambda: ToolResult(blocks=["x"], value=_without_end()),
    "numbers": lambda: (number for number in range(3)),
    "numbers within": lambda: {"a": iter([1]), "b": (2, {3}), "deep": _nested(150)},
    "quoted": lambda: '"' * 8000,
    "a result": lambda: ToolResult(blocks=["x", Media(kind="image", data="AAAA", mime_type="image/png")], value=1),
    "just fits": lambda: ["x" * 90] * 10,
}


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@tool
def value_of(kind: str) -> Any:
    """A value of some size."""
    return VALUES[kind]()


@tool
def answer_late(path: str, ctx: ToolContext) -> str:
    """Report the worker, then return; when the answer has been written, `path` is there."""
    ctx.progress(os.getpid())
    threading.Timer(0.0, _when_written, [lambda: open(path, "w").close()]).start()
    return "answered"


REPORTED_LATE = threading.Event()


@tool
def report_late(ctx: ToolContext) -> None:
    """Leave a thread behind that reports when the call is over."""

    def late() -> None:
        while not ctx.cancelled:
            time.sleep(0.001)
        ctx.progress("from the past")
        REPORTED_LATE.set()

    threading.Thread(target=late, daemon=True).start()


def _when_written(act: Callable[[], object]) -> None:
    """The worker's main thread waits for the next call when the answer to this one has been written."""
    main = threading.main_thread().ident or 0
    while sys._current_frames()[main].f_code.co_name != "serve":
        time.sleep(0.001)
    act()


@tool
def meet_two(path: str) -> int:
    """Return when two calls are here, each in a worker of its own."""
    with open(path, "a") as file:
        file.write("here\n")
    while len(Path(path).read_text().splitlines()) < 2:
        time.sleep(0.005)
    return os.getpid()


@tool(effect="once")
def hold_order(path: str, ctx: ToolContext) -> None:
    """Have an effect, then stay, with a child in a session of its own."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    ctx.progress(child.pid)
    threading.Event().wait()
