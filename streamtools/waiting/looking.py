"""Looks up how calls that may have run before ended, before today's rules are applied to any of them.

So if a call had its effect, neither a changed rule, nor a stop, nor a message makes the model read that it was not
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CancelScope

from ..content import AnsweredLater
from ..dispatch.endings import failure, needs_approval, perhaps_run, skipped
from ..dispatch.states import Call, Ending, Listeners, State
from ..errors import ToolFailed, ToolNotStarted, ToolOutcomeUnknown
from ..events import Event, StreamEnd, ToolCallEnd, ToolCallValidated
from ..parts import ToolCall
from ..seams import call_fingerprint

if TYPE_CHECKING:
    from ..dispatch.transitions import Transitions


_UNASKED = "the call may have run before the process ended, and the store could not say whether it has"
_UNREADABLE = "the call has run before, but it is no longer valid, so it cannot be continued"


class _Waiting(Protocol):
    transitions: Transitions

    async def apply_as_on_record(self, call: Call) -> None: ...


def look_up_first(waiting: _Waiting, withheld: tuple[str, bool] | None, listeners: Listeners) -> Listeners:
    """Returns listeners that pass events on to `listeners` once the gate was asked about the calls. `withheld` says why
    calls that have not begun and may have an effect are not run, and whether those that need an approval are spared;
    None if all are run."""
    transitions = waiting.transitions
    if transitions.options.start == "manual":  # they may be run once they are ready, and are looked up at the end
        return listeners | {StreamEnd: _LooksFirst(waiting, transitions, withheld, listeners, "held").stream_ended}
    looks = _LooksFirst(waiting, transitions, withheld, listeners, "announced")
    mine: Listeners = {
        ToolCallEnd: looks.ended,
        ToolCallValidated: looks.ready,
        StreamEnd: looks.stream_ended,
    }
    return listeners | mine


async def refuse_unless_it_ran(waiting: _Waiting, call: Call, ending: Ending) -> None:
    """Ends a suspended call with `ending`, unless it has run: then it keeps the ending that it had."""
    assert call.before is not None, "it was suspended"
    try:
        before = await _look(waiting, call, call.before.fingerprint)
    except ToolNotStarted as error:
        before = failure(error)
    waiting.transitions.move(call, "refused", before or ending)


async def _look(waiting: _Waiting, call: Call, known_as: str | None) -> Ending | None:
    """Notes what was decided about a call, and asks the gate about it as `known_as`; None: it cannot have run."""
    with CancelScope() as call.scope:
        before = call.ready, call.changed
        await waiting.apply_as_on_record(call)
        ending = None if known_as is None else await waiting.transitions.at_gate.look(call, known_as)
        if ending is None:
            call.ready, call.changed = before
        return ending
    return None


def _count_begun(transitions: Transitions, call: Call) -> None:
    """Counts a call that has begun before, in another process; its place is not given back."""
    made = call.call
    transitions.budgets.admit(call)
    call.counted = False
    if transitions.limits.max_repeated_calls is not None:
        transitions.host.counts.count_call(made.name, made.arguments, made.arguments_text)


@dataclass(slots=True, eq=False)
class _LooksFirst:
    waiting: _Waiting
    transitions: Transitions
    withheld: tuple[str, bool] | None
    listeners: Listeners
    state: State
    _later: list[Event] = field(default_factory=list)
    _open: int = 0

    def ended(self, event: ToolCallEnd) -> None:
        if event.call.problem == "void":  # it is in no turn
            self.listeners[ToolCallEnd](event)
            return
        call = self.transitions.calls.get(event.call.call_id)
        if call is not None and call.state == "announced":
            call.call, call.tool = event.call, self.transitions.tools.called(event.call)
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
        asked = [call for call in self.transitions.calls.values() if call.state == self.state]
        self._open = len(asked)
        for call in asked:
            self.transitions.work(call, partial(self._ask, call))
        if not asked:
            self._go_on()

    def _has_effect(self, call: Call) -> bool:
        tool = call.tool
        rules = self.transitions.rules
        if tool is None or tool.needs_approval is not False or (rules is not None and rules.may_ask(call.call.name)):
            return True
        return tool.effect == "once" or (self.withheld is not None and tool.effect != "pure")

    def _is_withheld(self, call: Call) -> bool:
        assert self.withheld is not None, "asked only then"
        if call.bound is None or call.tool is None or not self._has_effect(call):
            return False
        try:
            return not (self.withheld[1] and needs_approval(call))
        except ToolFailed:  # that is the call's end
            return False

    async def _ask(self, call: Call) -> None:
        ending: Ending | None = None
        is_kept = self.transitions.options.seams.gate is not None  # else nothing knows what has begun
        may_have_begun = is_kept and (call.tool is None or self._has_effect(call))
        try:
            known_as = None  # but it was perhaps approved, or denied
            if may_have_begun:
                known_as = "" if call.bound is not None else call_fingerprint(call.call.name, _arguments(call.call))
            ending = await _look(self.waiting, call, known_as)
        except ToolNotStarted as error:  # now, but it may have run before
            unknown = ToolOutcomeUnknown(_UNASKED)
            unknown.__cause__ = error
            ending = failure(unknown if may_have_begun else error)
        except (ValueError, RecursionError):  # its arguments are not JSON: it was never claimed
            pass
        if ending is not None and call.state == self.state:
            _count_begun(self.transitions, call)
            await self._end(call, ending)
        self._open -= 1
        if not self._open:
            self._go_on()

    async def _end(self, call: Call, ending: Ending) -> None:
        tool, move = call.tool, self.transitions.move
        has_middleware = self.transitions.options.middleware or (tool is not None and tool.middleware is not None)
        goes_on = isinstance(ending.value, AnsweredLater)
        enters_again = getattr(ending.error, "goes_on", False)
        if not goes_on and not enters_again and not (has_middleware and ending.recorded):
            move(call, "refused", ending)
        elif call.bound is None:  # it has no arguments to show to those who answer, or to its middleware
            move(call, "refused", failure(ToolOutcomeUnknown(_UNREADABLE)))
        else:
            call.needs = int(call.ready[0].effect != "once")  # so that it is claimed, whatever its tool is today
            if self.state == "announced":
                move(call, "end")
            if not goes_on:
                move(call, "queue")
                await self.transitions.wait_task(call, but=1)  # else the end of its response might hold it back
                return
            move(call, "wait", ending)
            if self.transitions.stopped is not None or (self.withheld is not None and not self.withheld[1]):
                move(call, "bad_end")  # its answer is not awaited

    def _go_on(self) -> None:
        if self.withheld is not None:
            for call in self.transitions.calls.values():
                if call.state == self.state and self._is_withheld(call):
                    is_claimed = call.tool is None or call.tool.effect == "once" or call.tool.needs_approval is True
                    why = self.withheld[0]
                    ending = skipped(None, why, by_hand=False) if is_claimed else perhaps_run(why)
                    self.transitions.move(call, "refused", ending)
        later, self._later = self._later, []
        for event in later:
            self.listeners[type(event)](event)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    """Returns a call's arguments, even if they no longer fit its tool; raises a `ValueError` if they are
    not JSON."""
    return json.loads(call.arguments_text or "{}") if call.arguments is None else call.arguments
