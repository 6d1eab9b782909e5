"""Defines the options of a pipeline for the dispatch of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from ..tools import Toolset
from ..tools.callables import accepts
from ..tools.options import Middleware, is_middleware
from .approval import Approver
from .executor import Executor

if TYPE_CHECKING:
    from ..events import Observation
    from ..parts import ToolCall, Usage
    from .carried import Carried
    from .origins import Origins
    from .states import LongResults
    from .store import IdempotencyStore
    from .suspended import SuspendedCall

StartPolicy: TypeAlias = Literal["auto", "early", "turn_end", "manual", "pure", "off"]
"""When ready calls start. ``auto``: by the tool's effect. ``early``: all at their own end marker, so that a result may
exist for a turn that then fails. ``turn_end``: none before the turn has ended well. ``manual``: none by itself; see
`Pipeline.run_call`. ``pure``: those of ``pure`` tools that need no approval, at their own end marker; the others are
reported and left to you, without an observation. ``off``: none at all; all calls are left to you."""

LEAVES_CALLS: frozenset[StartPolicy] = frozenset({"pure", "off"})
"""The policies with which calls are left to somebody else."""

OnToolError: TypeAlias = Literal["continue", "cancel"]


class Quotes(Protocol):
    """Knows which calls stand in a tool's result, where calls are read from the model's text."""

    @property
    def asks(self) -> bool:
        """True if such a call needs an approval; otherwise it is refused."""
        ...

    def keep(self, seen: Observation, step: int) -> None:
        """Keeps the result of a call of this step."""
        ...

    def texts(self, step: int) -> Sequence[str]:
        """Returns the results that the model has read before this step."""
        ...

    def search(self, call: ToolCall, texts: Sequence[str]) -> Iterator[bool]:
        """Looks for a call in these texts, and yields for each part of them whether it stands there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """The options for when calls start, who has to approve them, where they run, and what is kept of them."""

    policy: StartPolicy = "auto"
    approver: Approver | None = None
    """Decides about calls that need an approval."""
    on_tool_error: OnToolError = "continue"
    """``cancel``: when one call fails, its siblings are cancelled."""
    executors: Mapping[str, Executor] = field(default_factory=dict)
    """Where the calls of a tool run, by its name; the others run here."""
    store: IdempotencyStore | None = None
    """Keeps ``once`` calls and approved ones from running twice."""
    identity: str | None = None
    """Stands for the run, its step and its response in the calls' idempotency keys."""
    resumed: Mapping[str, SuspendedCall] = field(default_factory=dict)
    """The calls that were suspended, by their ids. If there are any, all calls here were suspended:
    they need an approval, whatever their tools say, and were counted before."""

    middleware: tuple[Middleware, ...] = ()
    """Middleware around every call, the first outermost."""
    context: Any = None
    """Whatever the caller wants its tools to have; see `ToolContext.context`."""
    any_value: bool = False
    """Values need not be JSON: they are written for the model when somebody reads that text."""

    origins: Origins | None = None
    """The origins of the run's texts, if a tool or the pipeline has a ``policy=``."""

    counts_repeated: bool = True
    """Calls that are made too often with the same arguments are denied."""
    offloads: LongResults | None = None
    """Keeps long results, of which the model reads the beginning."""
    quotes: Quotes | None = None
    """Knows calls that the model has only quoted; None where none is looked for."""

    attempt: int = 1
    """The number of the attempt at the step's answer."""
    carried: Carried | None = None
    """The calls of discarded attempts, which serve those of this one."""

    counted_before: Usage | None = None
    """The token counts of the turn that is continued: those of the whole turn include them."""

    def check(self) -> None:
        """Checks the options.

        Raises:
            ValueError: an option has an unknown value.
            TypeError: an option has a value of the wrong type.
        """
        if self.policy not in get_args(StartPolicy):
            raise ValueError(f"unknown start {self.policy!r}; known: {', '.join(get_args(StartPolicy))}")
        if self.on_tool_error not in get_args(OnToolError):
            raise ValueError(f"unknown on_tool_error {self.on_tool_error!r}; known: continue, cancel")
        if self.approver is not None and not callable(self.approver):
            raise TypeError(f"approve is a function of an ApprovalRequested, not {type(self.approver).__name__}")
        if self.approver is not None and not accepts(self.approver, 1):
            raise TypeError("approve takes one argument, an ApprovalRequested: approve=lambda request: ...")
        if self.store is not None and (isinstance(self.store, type) or not hasattr(self.store, "claim")):
            raise TypeError(f"store is an IdempotencyStore, say MemoryStore(), not {_type_of(self.store)}")


def has_policy(policy: object, tools: Toolset) -> bool:
    """Returns whether calls are to be judged by the origins of their arguments, for which more has to be loaded."""
    return policy is not None or any(tool is not None and tool.policy is not None for tool in tools.values())


def check_context(context: Any, tools: Toolset, executors: Mapping[str, Executor]) -> None:
    """Refuses a context: with a `TypeError` if the tool wants another, or one at all; with a `ValueError` if the tool's
    executor cannot carry one."""
    for name, tool in tools.items():
        if tool is None or not tool.wants_context:
            continue
        if (problem := tool.context_problem(context)) is not None:
            raise TypeError(f"context: {problem}")
        executor = executors.get(name)
        if executor is not None and tool.needs_context and not getattr(executor, "carries_context", False):
            raise ValueError(
                f"context: the {type(executor).__name__} cannot carry it to the tool {name!r}; let that tool run here "
                "(executor= takes a mapping of names), or pass it what it needs in its arguments"
            )


def check_operations(tools: Toolset, store: object, conversation_id: str | None) -> None:
    """Refuses tools whose operations nothing would know again, with a `TypeError`: there is no store, or an operation
    is per conversation and there is none."""
    for tool in tools.values():
        if tool is None or tool.operation is None:
            continue
        if store is None:
            raise TypeError(
                f"operation= of {tool.name} needs a store that knows what has been done: store=SqliteStore(path)"
            )
        if tool.scope == "conversation" and conversation_id is None:
            raise TypeError(
                f"operation= of {tool.name} is per conversation; name it: "
                'trajectory=Trajectory(conversation_id="...", run_id="...")'
            )


def middleware_of(given: Middleware | Sequence[Middleware] | None) -> tuple[Middleware, ...]:
    """Returns the middleware that was given as one function, or as several; raises a `TypeError` for what is no async
    function."""
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) else (given,)
    for one in several:
        if not is_middleware(one):
            name = getattr(one, "__name__", type(one).__name__)
            raise TypeError(
                f"middleware: {name} is no middleware; write async def {name}(call, run): return await run()"
            )
    return tuple(several)


def executors_of(given: Executor | Mapping[str, Executor] | None, tools: Toolset) -> Mapping[str, Executor]:
    """Returns the executors by the names of their tools; raises a `TypeError` for what is none, and a `ValueError` if
    one is given for a tool that is not there, or that it was made without."""
    if given is None:
        return {}
    names = {tool.name for tool in tools.values() if tool is not None}
    for executor in given.values() if isinstance(given, Mapping) else [given]:
        if isinstance(executor, type) or not hasattr(executor, "run"):
            raise TypeError(f"executor: {_type_of(executor)} is no Executor; enter one and pass it, or a mapping")
    executors = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, executor in executors.items():
        if name not in names:
            raise ValueError(f"executor: there is no tool {name!r}; there are {', '.join(sorted(names)) or 'none'}")
        has = getattr(executor, "tool_names", None)  # other people's executors need not have it
        if isinstance(has, frozenset) and name not in has:
            there = ", ".join(sorted(has)) or "nothing"
            text = f"executor: the {_type_of(executor)} was made without the tool {name!r}; it has {there}"
            raise ValueError(f"{text}; for some tools only, pass a mapping of their names")
    return executors


def _type_of(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
