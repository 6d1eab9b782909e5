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
"""True: the call may run. False or `Deny`: it may not. `Decision`: either, with a name. None: someone else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call: returns a verdict, or an awaitable of one. If the approver raises, the call is denied."""

StartPolicy: TypeAlias = Literal["auto", "early", "turn_end", "manual", "pure", "off"]
"""When ready calls start. ``auto``: it depends on the tool's effect. ``early``: each at its own end marker, so a result
may exist for a turn that then fails. ``turn_end``: none before the turn has ended well. ``manual``: only when you call
`Pipeline.run_call`. ``pure``: calls of ``pure`` tools that need no approval start at their own end marker; the others
are reported and left to you, without an observation. ``off``: none; all calls are left to you."""

LEAVES_CALLS: frozenset[StartPolicy] = frozenset({"pure", "off"})

OnToolError: TypeAlias = Literal["continue", "cancel", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCalls:
    """What is known about a step's calls before its stream begins."""

    suspended: Mapping[str, Pending] = field(default_factory=dict)
    """What the suspended calls wait for, by their ids. If there are any, all calls here were suspended, and counted
    before. An approval that they needed then is needed still, whatever their tools say today."""
    identity: str | None = None
    """Replaces the run, its step and its response in the calls' idempotency keys."""
    usage: Usage | None = None
    """The token counts of the turn that is continued; the counts of the whole turn include them."""
    any_value: bool = False
    """True if values need not be JSON: the text for the model is written when your program reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """The options for when calls start, who approves them, where they run, and what is kept of them."""

    start: StartPolicy = "auto"
    approver: Approver | None = None
    """Decides about calls that need an approval."""
    on_tool_error: OnToolError = "continue"
    """``cancel``: when one call fails, its siblings are cancelled."""
    executors: Mapping[str, Executor] = field(default_factory=dict)
    """Where a tool's calls run, by the tool's name; the others run in this process."""
    middleware: tuple[Middleware, ...] = ()
    """Middleware around every call, the first outermost."""
    trials: bool = True
    """True if the bodies of ``pure`` calls may begin before their calls have ended; see `dispatch.trials`."""
    context: Any = None
    """The object that tools get as `ToolContext.context`."""
    seams: Seams = NO_SEAMS
    known: KnownCalls = KnownCalls()
