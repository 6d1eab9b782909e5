"""Calls that go on after they were to stop. They cannot be stopped, but told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio
from anyio import CancelScope

from ..events import Event, Warning
from .record import Record

__all__ = ["watch"]

_LOOKS = 4  # at what should stop, within the grace


async def watch(
    records: Callable[[], Iterable[Record]],
    emit: Callable[[Event], None],
    grace_s: float,
    *,
    busy: Callable[[], bool],
    wait_idle: Callable[[], Awaitable[None]],
) -> None:
    """Tell of each call once that goes on longer than the grace. Ends when it is cancelled and nothing runs any more.

    Args:
        records: the calls.
        emit: takes a `Warning` with code ``tool_unresponsive``.
        grace_s: how long a call may take to stop.
        busy: some call runs.
        wait_idle: waits until none does.
    """
    pause_s = grace_s / _LOOKS
    try:
        while True:
            await anyio.sleep(pause_s)
            _look(records(), emit, grace_s)
    finally:
        with CancelScope(shield=True):
            while busy():
                with anyio.move_on_after(pause_s):
                    await wait_idle()
                _look(records(), emit, grace_s)


def _look(records: Iterable[Record], emit: Callable[[Event], None], grace_s: float) -> None:
    latest = anyio.current_time() - grace_s
    for record in records:
        late = record.scope is not None and min(record.due, record.cancelled_at) <= latest
        if late and not record.unresponsive:
            record.unresponsive = True
            text = f"{record.label}: goes on {grace_s:g} s after it was to stop"
            emit(Warning("tool_unresponsive", text))
