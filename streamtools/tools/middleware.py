"""Defines the middleware around a tool's calls: `Around`, and the call as it is shown to one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

__all__ = ["Around", "RunCall", "ToolCallRequest", "is_around"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """A call that is about to run: valid, approved where it had to be, and at its turn."""

    call_id: str
    """The call's identity, unique within its step."""
    tool_name: str
    """The tool's name."""
    arguments: Mapping[str, Any] = field(repr=False)
    """The arguments as plain JSON values by name, as the tool takes them. They cannot be changed; see `RunCall`."""
    effect: str
    """The tool's effect: ``pure``, ``idempotent`` or ``once``."""
    run_id: str
    """The run (trajectory) that the call belongs to."""
    step: int
    """The number of the model response in the run that made the call, from 0."""
    idempotency_key: str = field(repr=False)
    """As `ToolContext.idempotency_key`."""
    context: Any = field(default=None, repr=False)
    """The ``context=`` of the pipeline."""


class RunCall(Protocol):
    """Runs the rest: the next middleware, and in the end the tool, with its timeout, retries, executor and store."""

    def __call__(self, arguments: Mapping[str, Any] | None = None, /) -> Awaitable[Any]:
        """Returns the tool's value, or raises the `ToolError` that the call would end with. May be awaited once.

        Args:
            arguments: those to run the call with instead; they are validated again.

        Raises:
            InvalidArguments: they do not fit the tool.
            LocalProtocolError: the call was run already; or it was approved with other arguments, or these name another
                thing to work on (``conflict_key``).
        """
        ...


Around: TypeAlias = Callable[[ToolCallRequest, RunCall], Awaitable[Any]]
"""Middleware: an async function of a call and of a function that runs it. The value that it returns is the call's; None
keeps the one that `run` returned."""


def is_around(given: object) -> bool:
    """Returns whether this may be middleware: an async function, or an object whose call is one."""
    return inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None))  # noqa: B004
