"""What becomes of calls that nobody runs: the turn ended otherwise, somebody left, nobody has decided."""

from __future__ import annotations

from ..errors import ApprovalPending, CallCancelled, CallSkipped, CallTruncated
from ..events import StreamEnd
from ..turn import WELL_ENDED
from .record import Ended, Record

__all__ = ["before_it_started", "cancelled", "ended_well", "left_over", "skipped", "undecided"]


def ended_well(end: StreamEnd | None) -> bool:
    """Whether the turn is over, and in a way that lets its calls run."""
    return end is not None and end.complete and end.error is None and end.finish in WELL_ENDED


def skipped(end: StreamEnd | None, stopped: str | None, *, by_hand: bool) -> Ended:
    """A complete call that was held, and will not be released.

    Args:
        end: the turn's, if it has one.
        stopped: why nothing more starts, if that was not the turn's end.
        by_hand: somebody had to ask for it.
    """
    if by_hand and (end is None or ended_well(end)):
        reason = "nobody ran it (dispatch='manual')"
    elif end is None or stopped is not None:
        reason = stopped or "the stream was left"
    elif end.error is not None:
        reason = f"the turn ended with an error ({end.error.kind})"
    else:
        reason = f"the turn ended by {end.finish or 'nothing that says so'}"
    return Ended("skipped", CallSkipped(f"the call was not run: {reason}"))


def undecided() -> Ended:
    """A call that needs an approval when the block is left."""
    return Ended("skipped", ApprovalPending("the call was not run: it waits for an approval"))


def before_it_started(reason: str | None) -> Ended:
    """A call that was cancelled while it waited for its turn to run."""
    why = f": {reason}" if reason else ""
    return Ended("cancelled", CallCancelled(f"the call was cancelled before it started{why}"))


def cancelled(record: Record) -> Ended:
    """A call whose task was cancelled."""
    if not record.attempts:
        return before_it_started(None)
    return Ended("cancelled", CallCancelled("the call was cancelled; it may have had its effect, or part of it"))


def left_over(record: Record) -> Ended:
    """A call that nothing has become of when all is over."""
    if record.bound is not None:
        return before_it_started(None)
    if record.call.status == "ready":
        return Ended("skipped", CallSkipped("the call was not run: it was held back on its way"))
    return Ended("truncated", CallTruncated("the stream was left before the call's end"))
