"""Calls in, calls that fit their tool's schema out: typed arguments, or what is wrong with them.

A call to a tool that is known by name only, or not at all, is not judged here: who dispatches says what that means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..errors import InvalidArguments
from ..events import Event, ToolCallEnd, ToolCallReady
from ..tools import Toolset

__all__ = ["Validate"]


class Validate:
    """Follows the `ToolCallEnd` of a good call with `ToolCallReady`; marks a bad one ``invalid``."""

    handles = frozenset({ToolCallEnd})

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
        self.follows_finalize = False
        """Nothing stands between this stage and `Finalize`: arguments that are verbatim say what their text says."""

    def feed(self, event: Event) -> Iterable[Event]:
        """Take one event."""
        if not isinstance(event, ToolCallEnd) or event.call.status != "ready" or event.call.kind == "server":
            return (event,)
        call = event.call
        tool = self._tools.get(call.name)
        if tool is None or call.arguments is None:
            return (event,)
        try:
            arguments = self._tools.decode(call.name, call.arguments)
            verbatim = self.follows_finalize and arguments is call.arguments and not call.normalizations
            # Read once more from its own text, a call need not be written again to be validated as JSON.
            text = call.arguments_text if verbatim and call.kind == "function" else None
            bound = tool.validate(arguments, text=text)
        except InvalidArguments as error:
            refused = replace(call, status="invalid", problem="invalid_arguments", arguments=None)
            return (replace(event, call=refused, error=error),)
        return (event, ToolCallReady(call, bound))

    def finish(self) -> Iterable[Event]:
        """Nothing is held."""
        return ()
