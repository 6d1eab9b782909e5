"""Finds out which calls of a response on record have begun, before today's rules are applied to any of them.

In: the events of a response that a journal has. Out: the observation of each call that the store knows; then the events
go on to `Calls`. So neither a rule that has changed, nor a stop, nor a message makes a call that had its effect one
that the model reads as not run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ToolFailed, ToolNotStarted
from ..events import Event, StreamEnd, ToolCallEnd, ToolCallValidated
from ..parts import ToolCall
from ..tools import Toolset
from .approval import is_gated
from .endings import failure, skipped
from .states import Call
from .store import call_fingerprint
from .transitions import Listeners, Transitions

__all__ = ["look_up_first"]


def look_up_first(
    withheld: tuple[str, bool] | None, transitions: Transitions, tools: Toolset, listeners: Listeners
) -> Listeners:
    """Returns listeners that pass events on to these, once the store was asked about the calls.

    Args:
        withheld: why calls that have not begun and may have an effect are not run, and whether those are spared that
            need an approval; None if all are run.
        transitions: those of the calls.
        tools: the tools that may be called.
        listeners: those of the calls.
    """
    on_record = _OnRecord(transitions, tools, withheld, listeners)
    mine: Listeners = {
        ToolCallEnd: on_record.ended,
        ToolCallValidated: on_record.ready,
        StreamEnd: on_record.stream_ended,
    }
    return listeners | mine


@dataclass(slots=True, eq=False)
class _OnRecord:
    """The calls of a response on record, until the store was asked about them."""

    transitions: Transitions
    tools: Toolset
    withheld: tuple[str, bool] | None
    listeners: Listeners
    _later: list[Event] = field(default_factory=list)
    _open: int = 0

    def ended(self, event: ToolCallEnd) -> None:
        call = self.transitions.calls.get(event.call.call_id)
        if call is not None and call.state == "announced":
            call.call, call.tool = event.call, self.tools.called(event.call)
        self._later.append(event)

    def ready(self, event: ToolCallValidated) -> None:
        call = self.transitions.calls.get(event.call.call_id)
        if call is not None and call.tool is not None and event.invocation is not None:
            call.bind(event.invocation)
        self._later.append(event)

    def stream_ended(self, event: StreamEnd) -> None:
        is_repeated = any(isinstance(one, StreamEnd) for one in self._later)  # by a transform
        self._later.append(event)
        if is_repeated:
            return
        asked = [call for call in self.transitions.calls.values() if self._may_have_begun(call)]
        self._open = len(asked)
        for call in asked:
            self.transitions.work(call, partial(self._ask, call))
        if not asked:
            self._go_on()

    def _may_have_begun(self, call: Call) -> bool:
        """Returns whether the store may know a call. Middleware is to see what the store has, so that its calls are
        asked about when they run."""
        options, tool = self.transitions.options, call.tool
        if call.state != "announced" or options.middleware:
            return False
        return tool is None or (tool.middleware is None and self._has_effect(call))

    def _has_effect(self, call: Call) -> bool:
        tool = call.tool
        if tool is None or tool.needs_approval is not False or self.transitions.options.origins is not None:
            return True
        return tool.effect == "once" or (self.withheld is not None and tool.effect != "pure")

    def _is_withheld(self, call: Call) -> bool:
        assert self.withheld is not None, "else nobody asks"
        if call.bound is None or call.tool is None or not self._has_effect(call):
            return False
        gate = call.tool.needs_approval
        try:
            return not (self.withheld[1] and (gate if isinstance(gate, bool) else is_gated(call)))
        except ToolFailed:  # that is the call's end
            return False

    async def _ask(self, call: Call) -> None:
        try:
            fingerprint = "" if call.bound is not None else call_fingerprint(call.call.name, _arguments(call.call))
            ending = await self.transitions.ran_before(call, fingerprint)
        except ToolNotStarted as error:
            ending = failure(error)
        except (ValueError, RecursionError):  # its arguments are no JSON: it was never claimed
            ending = None
        if ending is not None and call.state == "announced":
            self.transitions.count_begun(call)
            self.transitions.move(call, "refused", ending)
        self._open -= 1
        if not self._open:
            self._go_on()

    def _go_on(self) -> None:
        if self.withheld is not None:
            for call in self.transitions.calls.values():
                if call.state == "announced" and self._is_withheld(call):
                    self.transitions.move(call, "refused", skipped(None, self.withheld[0], by_hand=False))
        later, self._later = self._later, []
        for event in later:
            self.listeners[type(event)](event)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """Returns a call's arguments, also if they do not fit its tool any more.

    Raises:
        ValueError: they are no JSON.
    """
    return json.loads(call.arguments_text or "{}") if call.arguments is None else call.arguments
