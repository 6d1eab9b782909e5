"""Shows a run while it happens: what the screen says is written, at a pace that eyes can follow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from streamtools import Event, ReasoningDelta, TextDelta
from streamtools.events import ToolCallDelta

from .screen import Screen
from .terminal import Terminal

__all__ = ["Show"]

LINGER_S = 0.008  # the demo's model writes up to a thousand pieces a second: each stays long enough to be seen
TICK_S = 0.1  # how often the clocks of running tools move

_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta)


class Show:
    """Writes one run to a terminal or a file.

    Only a terminal is written to slowly. The pipeline goes on meanwhile, and every time shown is that of the event,
    not of its being shown.

    Args:
        out: what to write to.
        terminal: what it understands.
    """

    def __init__(self, out: TextIO, terminal: Terminal) -> None:
        self._out = out
        self._live = terminal.live
        self._screen = Screen(terminal)

    def say(self, who: str, text: str) -> None:
        """A line of somebody but the model."""
        self._write(self._screen.say(who, text))

    def file(self, who: str, path: Path, hint: str) -> None:
        """A file that was written."""
        self._write(self._screen.unbroken(who, f"{path}  ({hint})"))

    def blank(self) -> None:
        """An empty line."""
        self._write(self._screen.blank())

    def request(self) -> None:
        """A request leaves now."""
        self._write(self._screen.ask(time.monotonic()))

    async def event(self, event: Event) -> None:
        """The next event of the run."""
        self._write(self._screen.feed(event))
        if self._live and isinstance(event, _PIECES):
            await asyncio.sleep(LINGER_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the clocks of running tools going while the block runs. Enter it where an event loop runs."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def tick() -> None:
            nonlocal timer
            timer = loop.call_later(TICK_S, tick)
            self._write(self._screen.tick(time.monotonic()))

        if self._live:
            tick()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            self._write(self._screen.close())

    def timeline(self) -> None:
        """When everything happened."""
        self._write(self._screen.timeline())

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
