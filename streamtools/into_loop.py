"""From any thread into the event loop. Where that has ended nothing happens: whoever wanted to know is gone, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from anyio import Event, RunFinishedError, from_thread
from anyio.lowlevel import EventLoopToken, current_token

__all__ = ["call_soon", "from_any_thread", "is_running", "ring"]


def call_soon(token: EventLoopToken, callback: Callable[[], None]) -> None:
    """Call back in an event loop, and wait for nothing: garbage is collected wherever it pleases, and a loop may be
    about to end."""
    loop: Any = token.native_token
    schedule = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe  # trio's name, asyncio's name
    try:
        schedule(callback)
    except RuntimeError:  # it has ended
        return


def ring(event: Event) -> None:
    """Set an event, or nothing where its event loop is closed: nobody waits there any more."""
    try:
        event.set()
    except RuntimeError:
        return


def is_running(token: EventLoopToken | None) -> bool:
    """Whether somebody still drives a loop. Of trio's that is not known, and not asked: its runs end by themselves,
    however they are interrupted."""
    loop: Any = None if token is None else token.native_token
    return loop is not None and not (hasattr(loop, "is_running") and not loop.is_running())


def from_any_thread(take: Callable[[Any], object], is_over: Callable[[], bool]) -> Callable[[Any], None]:
    """A function that passes a value to `take` in this event loop, from this thread or any other, and waits for that.

    Args:
        take: is called in the loop; it has to look by itself whether it is too late.
        is_over: nobody wants a value any more, so that other threads need not ask the loop.
    """
    loop_thread, token = threading.get_ident(), current_token()

    def give(value: Any) -> None:
        if threading.get_ident() == loop_thread:
            take(value)
        elif not is_over():
            try:
                from_thread.run_sync(take, value, token=token)
            except RunFinishedError:
                return

    return give
