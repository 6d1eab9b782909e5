"""A deadline for each phase of each test: a test that hangs fails by its name instead of holding up the run.

A timer interrupts the main thread. A plain test gets `PastDeadline` raised where it hangs, again and again. A test on
an event loop is cancelled, since an exception raised inside the loop leaves it broken for the tests that follow. Where
neither helps (a shielded wait, a loop in C), the process writes the test's name and every thread's stack, and exits;
pytest-xdist then fails the test with which its worker ended, and goes on with another worker.

``tests/conftest.py`` makes this part of every run. `--deadline SECONDS` stands for the tests' own deadlines.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import inspect
import math
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from profiles import FULL

__all__ = ["BY_FOLDER", "BY_MARKER", "QUICK_S", "PastDeadline", "deadline_of", "pytest_addoption", "pytest_configure"]

QUICK_S = 60.0
"""The deadline of a quick test, in seconds: some hundred times what it takes on an idle machine."""
FULL_TIMES = 5
"""How many times as long a quick test has where all examples of each law are tried."""
BY_MARKER = {"costly": 120.0, "thorough": 120.0, "sweep": 300.0}
BY_FOLDER = {"backends": 600.0, "durable": 600.0, "integrations": 300.0}
"""Folders whose tests start foreign programs, and the deadline of each of their tests, in seconds."""

AGAIN_S = 5.0
"""The time that a test has to end after an interrupt, before the next one."""
GRACE_S = 15.0
"""The time that the interrupts have before the process ends."""


class PastDeadline(BaseException):
    """Is raised in a test that ran too long. Not an `Exception`: hypothesis would run the test again to shrink it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deadline", type=float, metavar="SECONDS", help="fail each test that runs longer than this")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deadline(seconds): fail the test when it runs longer than this")
    config.pluginmanager.register(_Deadlines(config), "deadlines-of-tests")


def deadline_of(item: pytest.Item) -> float:
    """Returns a test's deadline in seconds: the command's, else that of its own marker, else that of its kind."""
    given: float | None = item.config.getoption("--deadline")
    if given is not None:
        return given
    own = item.get_closest_marker("deadline")
    if own is not None:
        return float(own.args[0])
    of_kinds = [seconds for name, seconds in BY_MARKER.items() if item.get_closest_marker(name)]
    of_folders = [seconds for name, seconds in BY_FOLDER.items() if name in item.path.parts]
    times = int(os.environ.get("STREAMTOOLS_FUZZ_TIMES", "1"))
    return max([QUICK_S * (FULL_TIMES if FULL else 1), *of_kinds, *of_folders]) * times


class _Deadlines:
    """Interrupts each phase of a test (setup, call, teardown) that runs longer than the test's deadline."""

    def __init__(self, config: pytest.Config) -> None:
        self._passed = ""  # the report of the phase that runs; empty between phases
        self._hung = ""
        self._cancel: Callable[[], object] | None = None
        self._place: Callable[[], str] = str
        self._on_loop = False
        # Capturing has not begun: the last words of the process go where the run's own output goes.
        self._stderr = os.dup(2)
        config.add_cleanup(lambda: os.close(self._stderr))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        with self._limited(item, "setup"):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        with self._limited(item, "call"):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        with self._limited(item, "teardown"):
            yield

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        test = pyfuncitem.obj
        if self._on_loop and inspect.iscoroutinefunction(test) and not hasattr(test, "hypothesis"):
            pyfuncitem.obj = self._cancellable(test, pyfuncitem.funcargs["anyio_backend"])
        try:
            return (yield)
        finally:
            pyfuncitem.obj = test

    @contextmanager
    def _limited(self, item: pytest.Item, phase: str) -> Iterator[None]:
        seconds = deadline_of(item)
        faulthandler.dump_traceback_later(math.ceil(seconds + GRACE_S), exit=True, file=self._stderr)
        interrupts = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGALRM, self._interrupt) if interrupts else None
        self._on_loop = "anyio_backend" in getattr(item, "fixturenames", ())
        self._passed = f"expected {item.nodeid} ({phase}) to end within {seconds:g} s"
        if interrupts:
            signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, AGAIN_S))
        try:
            yield
        finally:
            self._passed, self._cancel = "", None
            if interrupts:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            faulthandler.cancel_dump_traceback_later()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._passed:  # the phase ended while the signal was on its way
            return
        if not self._on_loop:
            raise PastDeadline(self._passed)
        if self._cancel is None:  # it has been cancelled and goes on, or is a fixture
            os.write(self._stderr, f"\n{self._passed}\n".encode())
            faulthandler.dump_traceback(file=self._stderr)
            os._exit(1)
        self._hung = f"{self._passed}; it waits at {self._place()}"
        self._cancel()
        self._cancel = None

    def _cancellable(self, test: Callable[..., Any], backend: object) -> Callable[..., Any]:
        """Wraps a test of this backend so that `_interrupt` can cancel it. It gets no scope of anyio around it, which
        would be one more than in the programs that it stands for."""

        @functools.wraps(test)
        async def on_asyncio(**arguments: Any) -> None:
            task, loop, running = asyncio.current_task(), asyncio.get_running_loop(), test(**arguments)
            self._cancel = functools.partial(loop.call_soon_threadsafe, task.cancel, self._passed)
            self._place = functools.partial(_place, running)
            try:
                await running
            except asyncio.CancelledError as error:
                if error.args != (self._passed,):
                    raise
                task.uncancel()
                pytest.fail(self._hung)

        @functools.wraps(test)
        async def on_trio(**arguments: Any) -> None:
            import trio

            token, running = trio.lowlevel.current_trio_token(), test(**arguments)
            with trio.CancelScope() as scope:
                self._cancel = functools.partial(token.run_sync_soon, scope.cancel)
                self._place = functools.partial(_place, running)
                await running
            if scope.cancelled_caught:
                pytest.fail(self._hung)

        name = backend[0] if isinstance(backend, tuple) else backend  # with options: ("trio", {"clock": ...})
        return on_trio if name == "trio" else on_asyncio


def _place(running: Any) -> str:
    """Returns the lines at which a coroutine waits, the outermost first."""
    lines = []
    while (frame := getattr(running, "cr_frame", None)) is not None:
        lines.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")
        running = running.cr_await
    return " > ".join(lines)
