"""Notes what a call waits for before it runs, and how long, from the states that it is moved along."""

from __future__ import annotations

import time

from ..parts import WAITS, Wait, WaitReason
from .call import Call

__all__ = ["begin_wait", "end_wait", "note_move"]

_REASONS: dict[str, WaitReason] = {facts.state: reason for reason, facts in WAITS.items() if facts.state is not None}


def note_move(call: Call, *, by_hand: bool) -> None:
    """Ends the wait that a move has ended, and begins that of the new state."""
    if call.waiting is not None:
        end_wait(call)
    reason = _REASONS.get(call.state)
    if reason is not None:
        begin_wait(call, "caller" if by_hand and reason == "turn_end" else reason)


def begin_wait(call: Call, reason: WaitReason) -> None:
    """Begins a wait now."""
    call.waiting = (reason, time.monotonic())


def end_wait(call: Call) -> None:
    """Ends the wait that goes on, if one does."""
    if call.waiting is not None:
        reason, began = call.waiting
        call.waits = (*call.waits, Wait(reason, began, time.monotonic()))
        call.waiting = None
