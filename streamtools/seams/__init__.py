"""The seams of a run: the places where capabilities, yours or built-in ones, take part in it.

A capability is an object with the methods of one or more of these protocols; pass it as ``capabilities=[...]`` to
`pipeline` or `agent_loop`. It sees frozen views of calls and steps, never the run's own objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ground.on_demand import names

if TYPE_CHECKING:
    from .attempts import Again, Attempts, Cut, Rest, Sight
    from .desk import Asked, Decision, Deny, Desk, Pending, Response, ShownCall, WrittenAnswer
    from .gate import CallEnd, Entered, Gate, GateView, call_fingerprint
    from .guard import Guard, Shown
    from .rules import Allow, Ask, CallRule, ReadText, ReadyCall, Refuse, ResultFilter, StepView, Verdict
    from .steps import OnRecord, RunView, StepPlan, StepRequest, StepSource
else:
    __getattr__ = names(
        __name__,
        {
            "attempts": "Again Attempts Cut Rest Sight",
            "desk": "Asked Decision Deny Desk Pending Response ShownCall WrittenAnswer",
            "gate": "CallEnd Entered Gate GateView call_fingerprint",
            "guard": "Guard Shown",
            "rules": "Allow Ask CallRule ReadText ReadyCall Refuse ResultFilter StepView Verdict",
            "steps": "OnRecord RunView StepPlan StepRequest StepSource",
        },
    )

__all__ = [
    "Again",
    "Allow",
    "Ask",
    "Asked",
    "Attempts",
    "CallEnd",
    "CallRule",
    "Cut",
    "Decision",
    "Deny",
    "Desk",
    "Entered",
    "Gate",
    "GateView",
    "Guard",
    "OnRecord",
    "Pending",
    "ReadText",
    "ReadyCall",
    "Refuse",
    "Response",
    "Rest",
    "ResultFilter",
    "RunView",
    "Seams",
    "Shown",
    "ShownCall",
    "Sight",
    "StepPlan",
    "StepRequest",
    "StepSource",
    "StepView",
    "Verdict",
    "WrittenAnswer",
    "call_fingerprint",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """The capabilities of a run, by the place where they take part. ``capabilities=[...]`` fills it in."""

    rules: tuple[CallRule, ...] = ()
    filters: tuple[ResultFilter, ...] = ()
    gate: Gate | None = None
    desk: Desk | None = None
    guard: Guard | None = None
    attempts: Attempts | None = None
    steps: StepSource | None = None
    services: tuple[Callable[[Any], dict[str, Any]], ...] = ()  # each gives some of the services of an `Invocation`


NO_SEAMS = Seams()
