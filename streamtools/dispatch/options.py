"""The options of a pipeline for the dispatch of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from ..tools import Toolset
from .approval import Approver
from .executor import Executor
from .store import IdempotencyStore

__all__ = ["DispatchOptions", "StartPolicy", "executors_of"]

StartPolicy: TypeAlias = Literal["auto", "early", "turn_end", "manual"]
"""When ready calls start. ``auto``: by the tool's effect. ``early``: all at their own end marker, so that a result may
exist for a turn that then fails. ``turn_end``: none before the turn has ended well. ``manual``: none by itself; see
`Pipeline.run_call`."""

OnToolError: TypeAlias = Literal["continue", "cancel"]


def _none() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """The options for when calls start, who has to approve them, where they run, and what is kept of them."""

    policy: StartPolicy = "auto"
    approver: Approver | None = None
    """Decides about calls that need an approval."""
    on_tool_error: OnToolError = "continue"
    """``cancel``: when one call fails, its siblings are cancelled."""
    executors: Mapping[str, Executor] = field(default_factory=_none)
    """Where the calls of a tool run, by its name; the others run here."""
    store: IdempotencyStore | None = None
    """Keeps ``once`` calls and approved ones from running twice."""
    resumed: Mapping[str, str] = field(default_factory=_none)
    """The idempotency keys of calls that were suspended, by call id. If there are any, all calls here were suspended:
    they need an approval, whatever their tools say, and were counted before."""

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
        if self.store is not None and (isinstance(self.store, type) or not hasattr(self.store, "claim")):
            raise TypeError(f"store is an IdempotencyStore, say MemoryStore(), not {_said(self.store)}")


def executors_of(given: Executor | Mapping[str, Executor] | None, tools: Toolset) -> Mapping[str, Executor]:
    """Returns the executors by the names of their tools.

    Raises:
        TypeError: something given is no executor.
        ValueError: an executor is given for a tool that is not there, or that it was made without.
    """
    if given is None:
        return _none()
    names = {tool.name for tool in tools.values() if tool is not None}
    executors = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, executor in executors.items():
        if name not in names:
            raise ValueError(f"executor: there is no tool {name!r}; there are {', '.join(sorted(names)) or 'none'}")
        if isinstance(executor, type) or not hasattr(executor, "run"):
            raise TypeError(f"executor: {_said(executor)} is no Executor; enter one and pass it, or a mapping")
        has = getattr(executor, "tool_names", None)  # other people's executors need not have it
        if isinstance(has, frozenset) and name not in has:
            there = ", ".join(sorted(has)) or "nothing"
            text = f"executor: the {_said(executor)} was made without the tool {name!r}; it has {there}"
            raise ValueError(f"{text}; for some tools only, pass a mapping of their names")
    return executors


def _said(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
