"""The states of a call and its transitions: one table, and the one function that moves a call along it.

    announced -> ended -> held | asked | queued -> starting -> running -> observed

An *input* is a thing that happens to a call. The row of a state and an input names the next state and the effects, in
their order: `Moves` carries them out, and nothing else does. A pair without a row changes nothing. The state is written
first, so that an observer that decides or cancels in the middle of a row finds the call in its new state; the rest of
the row is void then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = ["OPEN", "TRANSITIONS", "Effect", "Input", "Row", "State", "advance"]

State: TypeAlias = Literal[
    "announced",  # its text streams
    "ended",  # its text is whole
    "held",  # valid, and waiting for the end of its turn, or for `run_call`
    "asked",  # waiting for an approval
    "queued",  # waiting for its place
    "starting",  # has its place, and none of its tool's code may have run
    "running",  # `begin` was granted
    "retrying",  # between two attempts
    "stopping",  # its code was told to end
    "observed",  # has its Observation
    "left_alone",  # is somebody else's to run, and never gets one here
]

OPEN: frozenset[State] = frozenset({"queued", "starting", "running", "retrying", "stopping"})
"""The states that a pipeline waits for."""

Input: TypeAlias = Literal[
    "leave_alone",  # calls are not run here
    "end",  # its text is whole
    "refused",  # it is cut, invalid, unknown, or was repeated too often
    "hold",  # valid, and must wait: for an approval at its turn's end, or for `run_call`
    "hold_place",  # the same, but it takes its place in the order already
    "ask",  # may start once it is approved
    "queue",  # may start
    "approved",
    "denied",
    "granted",  # the pool has a place for it
    "begun",  # its executor awaits `begin`
    "again",  # the attempt is over, and another follows
    "done",  # the last attempt is over
    "cancelled",  # this call is to end
    "stopped",  # the block was left, a sibling failed, a time was over: all are to end
    "bad_end",  # the turn ended in a way that starts nothing
    "settled",  # no task is left
]

Effect: TypeAlias = Literal[
    "place",  # take a place in the order, if it has none
    "release",  # run when the place's turn comes
    "leave",  # give the place up
    "start",  # run in a task
    "cancel",  # cancel the task
    "ask",  # emit ApprovalRequested, and ask the approver in a task
    "resolve",  # emit ApprovalResolved
    "begin",  # emit ToolStarted
    "end_as_given",  # this and the rest make the Observation: here with the ending that the input brings
    "end_denied",
    "end_skipped",
    "end_undecided",  # skipped, with an ApprovalPending if the turn ended well
    "end_unstarted",  # cancelled before any of its tool's code ran
    "end_cancelled",
    "end_left_over",  # truncated, or skipped if its text was whole
]


class Row(NamedTuple):
    """The next state, and the effects on the way."""

    state: State
    effects: tuple[Effect, ...] = ()


TRANSITIONS: Mapping[tuple[State, Input], Row] = {
    ("announced", "leave_alone"): Row("left_alone"),
    ("announced", "end"): Row("ended"),
    ("announced", "refused"): Row("observed", ("end_as_given",)),
    ("announced", "cancelled"): Row("observed", ("end_unstarted",)),
    ("announced", "settled"): Row("observed", ("end_left_over",)),
    ("ended", "refused"): Row("observed", ("end_as_given",)),
    ("ended", "hold"): Row("held"),
    ("ended", "hold_place"): Row("held", ("place",)),
    ("ended", "ask"): Row("asked", ("ask",)),
    ("ended", "queue"): Row("queued", ("place", "release")),
    ("ended", "cancelled"): Row("observed", ("end_unstarted",)),
    ("ended", "bad_end"): Row("observed", ("end_skipped",)),
    ("ended", "settled"): Row("observed", ("end_left_over",)),
    ("held", "refused"): Row("observed", ("leave", "end_as_given")),
    ("held", "ask"): Row("asked", ("ask",)),
    ("held", "queue"): Row("queued", ("place", "release")),
    ("held", "cancelled"): Row("observed", ("leave", "end_unstarted")),
    ("held", "stopped"): Row("observed", ("leave", "end_skipped")),
    ("held", "bad_end"): Row("observed", ("leave", "end_skipped")),
    ("held", "settled"): Row("observed", ("leave", "end_skipped")),
    ("asked", "approved"): Row("queued", ("cancel", "resolve", "place", "release")),
    ("asked", "denied"): Row("observed", ("cancel", "resolve", "end_denied")),
    ("asked", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("asked", "stopped"): Row("observed", ("cancel", "end_undecided")),
    ("asked", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("asked", "settled"): Row("observed", ("cancel", "end_undecided")),
    ("queued", "granted"): Row("starting", ("start",)),
    ("queued", "cancelled"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "stopped"): Row("observed", ("leave", "end_unstarted")),
    ("queued", "bad_end"): Row("observed", ("leave", "end_skipped")),
    ("queued", "settled"): Row("observed", ("leave", "end_unstarted")),
    ("starting", "begun"): Row("running", ("begin",)),
    ("starting", "done"): Row("observed", ("end_as_given",)),
    ("starting", "cancelled"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "stopped"): Row("observed", ("cancel", "end_unstarted")),
    ("starting", "bad_end"): Row("observed", ("cancel", "end_skipped")),
    ("starting", "settled"): Row("observed", ("end_unstarted",)),
    ("running", "again"): Row("retrying"),
    ("running", "done"): Row("observed", ("end_as_given",)),
    ("running", "cancelled"): Row("stopping", ("cancel",)),
    ("running", "stopped"): Row("stopping", ("cancel",)),
    ("running", "settled"): Row("observed", ("end_cancelled",)),
    ("retrying", "begun"): Row("running", ("begin",)),
    ("retrying", "done"): Row("observed", ("end_as_given",)),
    ("retrying", "cancelled"): Row("observed", ("cancel", "end_cancelled")),
    ("retrying", "stopped"): Row("observed", ("cancel", "end_cancelled")),
    ("retrying", "settled"): Row("observed", ("end_cancelled",)),
    ("stopping", "done"): Row("observed", ("end_as_given",)),
    ("stopping", "settled"): Row("observed", ("end_cancelled",)),
}


class HasState(Protocol):
    """Anything that the table moves."""

    state: State


def advance(call: HasState, happened: Input) -> tuple[Effect, ...]:
    """Moves a call along the table, and returns the effects to carry out; the only writer of its state."""
    row = TRANSITIONS.get((call.state, happened))
    if row is None:
        return ()
    call.state = row.state
    return row.effects
