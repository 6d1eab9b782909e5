"""Checks calls against their tool's schema: gives typed arguments, or the problems found.

A call to a tool that is known by name only, or not at all, is not checked here: the dispatcher decides about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ..errors import InvalidArguments
from ..events import Event, ToolCallEnd, ToolCallValidated
from ..limits import Limits
from ..tools import TakesLong, Tool, Toolset
from .finalize import Deferred

__all__ = ["Validate"]


class Validate:
    """Follows the `ToolCallEnd` of a good call with `ToolCallValidated`; marks a bad one ``invalid``."""

    handles = frozenset({ToolCallEnd})

    def __init__(self, tools: Toolset, limits: Limits) -> None:
        self._tools = tools
        self._limits = limits
        self.follows_finalize = False
        """True if this stage directly follows `Finalize`: verbatim arguments then equal their text."""
        self.may_defer = False
        """True if long work is deferred."""

    def feed(self, event: Event) -> Iterable[Event | Deferred]:
        """Takes one event."""
        if not isinstance(event, ToolCallEnd) or event.call.status != "ready" or event.call.kind == "server":
            return (event,)
        tool = self._tools.get(event.call.name)
        if tool is None or event.call.arguments is None:
            return (event,)
        try:
            return self._judged(event, tool, quick=self.may_defer)
        except TakesLong:
            timeout = self._limits.tool_timeout if tool.timeout is None else tool.timeout
            return (Deferred(event=event, run=partial(self._judged, event, tool), timeout_s=timeout),)

    def finish(self) -> Iterable[Event]:
        """Returns nothing: no event is held."""
        return ()

    def _judged(self, event: ToolCallEnd, tool: Tool, *, quick: bool = False) -> Iterable[Event]:
        call = event.call
        assert call.arguments is not None, "only a call with arguments is judged"
        try:
            arguments = self._tools.decode(call.name, call.arguments)
            verbatim = self.follows_finalize and arguments is call.arguments and not call.normalizations
            # A call whose own text is read once more need not be written again to be validated as JSON.
            text = call.arguments_text if verbatim and call.kind == "function" else None
            bound = tool.validate(arguments, text=text, quick=quick)
        except InvalidArguments as error:
            refused = replace(call, status="invalid", problem="invalid_arguments", arguments=None)
            return (replace(event, call=refused, error=error),)
        return (event, ToolCallValidated(call, bound))
