"""Defines the options of a pipeline for the dispatch of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..events import ApprovalRequested
from ..seams import NO_SEAMS, Seams
from ..tools.options import Middleware
from .executor import Executor

if TYPE_CHECKING:
    from ..parts import Usage
    from ..seams import Decision, Deny, Pending

Verdict: TypeAlias = "bool | Deny | Decision | None"
"""True: the call may run. False or `Deny`: it may not. A `Decision` says so by name. None: somebody else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call: returns a verdict, or an awaitable of one. If the approver raises, the call is denied."""

StartPolicy: TypeAlias = Literal["auto", "early", "turn_end", "manual", "pure", "off"]
"""When ready calls start. ``auto``: by the tool's effect. ``early``: all at their own end marker, so that a result may
exist for a turn that then fails. ``turn_end``: none before the turn has ended well. ``manual``: none by itself; see
`Pipeline.run_call`. ``pure``: those of ``pure`` tools that need no approval, at their own end marker; the others are
reported and left to you, without an observation. ``off``: none at all; all calls are left to you."""

LEAVES_CALLS: frozenset[StartPolicy] = frozenset({"pure", "off"})

OnToolError: TypeAlias = Literal["continue", "cancel", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCalls:
    """What is known of a step's calls before its stream begins."""

    suspended: Mapping[str, Pending] = field(default_factory=dict)
    """What the calls were suspended for, by their ids. If there are any, all calls here were suspended, and counted
    before; of these, tools of today change no approval that was needed."""
    identity: str | None = None
    """Stands for the run, its step and its response in the calls' idempotency keys."""
    usage: Usage | None = None
    """The token counts of the turn that is continued: those of the whole turn include them."""
    any_value: bool = False
    """Values need not be JSON: they are written for the model when somebody reads that text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """The options for when calls start, who has to approve them, where they run, and what is kept of them."""

    start: StartPolicy = "auto"
    approver: Approver | None = None
    """Decides about calls that need an approval."""
    on_tool_error: OnToolError = "continue"
    """``cancel``: when one call fails, its siblings are cancelled."""
    executors: Mapping[str, Executor] = field(default_factory=dict)
    """Where the calls of a tool run, by its name; the others run here."""
    middleware: tuple[Middleware, ...] = ()
    """Middleware around every call, the first outermost."""
    trials: bool = True
    """The bodies of ``pure`` calls may begin before their calls have ended; see `dispatch.trials`."""
    context: Any = None
    """Whatever the caller wants its tools to have; see `ToolContext.context`."""
    seams: Seams = NO_SEAMS
    known: KnownCalls = KnownCalls()
