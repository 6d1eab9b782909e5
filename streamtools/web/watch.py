"""Bounds how long a stream is silent, and how long each of its sends takes.

Theory of operation. A scope with a deadline of its own costs more than an event. Here one scope is open over many
events, and a task beside the writer cancels it when what the writer does has taken too long. The task never sleeps
longer than the shorter of both bounds, so that it is late for neither.
"""

from __future__ import annotations

import math

import anyio
from anyio import CancelScope


class StreamWatch:
    """Watches over the writer of one stream: after `silence_s` something has to be sent; one send may take `send_s`."""

    def __init__(self, silence_s: float, send_s: float) -> None:
        self._silence_s, self._send_s = silence_s, send_s
        self._due = math.inf
        self._scope = CancelScope()
        self.is_sending = False
        """Whether the writer sends, or waits for something to send."""

    def scope(self) -> CancelScope:
        """Returns a scope to wait and to send in. It is cancelled when either takes too long, perhaps too late for
        the awaited: what came nevertheless counts."""
        self._scope = CancelScope()
        return self._scope

    def sends(self) -> None:
        """Begins a send."""
        self.is_sending, self._due = True, anyio.current_time() + self._send_s

    def waits(self) -> None:
        """Begins a silence."""
        self.is_sending, self._due = False, anyio.current_time() + self._silence_s

    async def keep(self) -> None:
        """Looks at the time until it is cancelled."""
        pause = min(self._silence_s, self._send_s)
        while pause < math.inf:
            now = anyio.current_time()
            if now >= self._due:
                self._due = math.inf
                self._scope.cancel()
            await anyio.sleep(min(pause, self._due - now))
