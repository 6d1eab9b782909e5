"""Takes calls that must not run twice through the gate of their run, and tells the gate how each ended.

A gate is asked inside ``begin()``: after a call has its place, thread and worker, and before any of its tool's code.
After it, the core checks the call once more, since it may have been cancelled meanwhile. Nothing that a gate does
after the body changes how the call ended. Waits for a gate are never shielded: the gate itself finishes what it was
handed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from anyio.lowlevel import checkpoint_if_cancelled

from ..content import AnsweredLater
from ..errors import ToolError, ToolFailed, ToolNotStarted, contained
from ..events import StreamWarning
from ..ground.own import own
from ..ground.text import type_name
from ..limits import Limits
from ..parts import OUTCOMES
from ..seams import CallEnd, Entered, Gate, GateView
from ..tools import Bound, Tool
from .endings import ValueEndings, as_read, failure
from .event_loop import let_out
from .results import AsRead
from .states import Call, Ending, Host, begin_wait, report_wait

_NOT_KEPT = {
    "kept": ("result_not_kept", "keep its result"),
    "free": ("claim_not_released", "release its claim"),
    "lost": ("claim_not_abandoned", "record that its end is unknown"),
}
_NOT_NOTED = ("result_not_kept", "record where it runs")


@dataclass(slots=True, eq=False)
class AtGate:
    gate: Gate
    host: Host
    limits: Limits
    any_value: bool
    arguments: Callable[[Call], Mapping[str, Any]]  # those by which the gate knows a call
    executors: Container[str]  # the tools that run elsewhere, and cannot note anything
    is_left: Callable[[Call], bool]  # True if a cancelled call ends because its run is left

    def view(self, call: Call, known_as: str = "") -> GateView:
        """`known_as`: the fingerprint of arguments that are no longer valid."""
        tool, is_valid = call.tool, call.tool is not None and call.bound is not None
        has_key = tool is not None and tool.idempotency_key is not None
        return GateView(
            key=call.key,
            call_id=call.call_id,
            tool_name=tool.name if tool is not None and is_valid else call.call.name,
            arguments=self.arguments(call) if is_valid else {},
            operation=partial(_operation_of, *call.ready) if is_valid and has_key else None,
            scope="run" if tool is None else tool.scope,
            effect="once" if tool is None else tool.effect,
            goes_on=tool is not None and tool.name not in self.executors and getattr(tool.fn, "goes_on", False),
            is_approved=call.needs > 0,
            run_id=self.host.run_id,
            step=self.host.number,
            conversation_id=self.host.conversation_id,
            seconds=call.seconds(self.limits),
            waits_for=report_wait(call),
            known_as="" if is_valid else known_as,
        )

    def named(self, call: Call) -> GateView | Ending:
        """Gives a call the key by which the gate knows it; returns its ending if the gate cannot say."""
        view, name = self.view(call), getattr(self.gate, "key", None)
        if name is not None:
            try:
                call.key = _checked_key(name(view))
            except ToolError as error:
                return failure(error)
            except BaseException as error:
                return failure(ToolFailed(f"not run: the gate raised {type_name(error)}"), contained(error))
        return view

    async def look(self, call: Call, known_as: str = "") -> Ending | None:
        """Returns the ending of a call that has begun before; None if it has not. Raises `ToolNotStarted` if the gate
        cannot say."""
        key = call.key
        view = self.view(call, known_as) if call.bound is None else self.named(call)
        if isinstance(view, Ending):
            return view
        try:
            end = await self.gate.look(view)
            if end is not None:
                return self._ending(call, end)
        except ToolNotStarted:
            raise
        except ToolError as error:
            return failure(error)
        except BaseException as error:
            let_out(error)
            raise ToolNotStarted(f"not run: the gate raised {type_name(error)}") from error
        call.key = key  # another call may have done what it asks for
        return None

    async def enter(self, call: Call, view: GateView, check: Callable[[], object]) -> Ending | None:
        """Lets a call in; returns its ending if it may not run. `check` raises if the call has ended meanwhile."""
        begin_wait(call, "store")
        try:
            found = await self.gate.enter(view)
            if isinstance(found, CallEnd):
                return self._ending(call, found)
            _check_entered(found)
        except ToolError as error:
            return failure(error)
        except BaseException as error:
            let_out(error)
            return failure(ToolNotStarted(f"not run: the gate raised {type_name(error)}"), error)
        try:
            await checkpoint_if_cancelled()
            check()
        except BaseException:  # the turn ended, or the consumer left: nothing has run, and nothing will
            await self._tell(call, "free", found.free)
            raise
        call.entered = found
        return None

    def _ending(self, call: Call, end: CallEnd) -> Ending:
        if not isinstance(end, CallEnd):
            raise TypeError(f"expected a CallEnd, got {type_name(end)}")
        return ValueEndings(call, call.tool, self.limits, self.any_value).ended_before(end)

    async def settle(self, call: Call, entered: Entered, ending: Ending) -> None:
        facts, error = OUTCOMES[ending.outcome], ending.error
        if facts.may_have_had_effect:
            await self.lose(call, entered)
        elif not isinstance(ending.value, AnsweredLater) and (facts.frees_claim or isinstance(error, ToolNotStarted)):
            await self._tell(call, "free", entered.free)
        else:
            await self._tell(call, "kept", lambda: entered.kept(replace(_end_of(ending), notes=ending.notes)))

    async def lose(self, call: Call, entered: Entered) -> None:
        await self._tell(call, "lost", entered.lost)

    def services(self, call: Call) -> dict[str, Callable[..., Any]]:
        """Returns functions that keep a text with the call's claim, return the text that an earlier process kept, and
        say whether the cancelled call continues elsewhere."""
        entered: Any = call.entered
        if not hasattr(entered, "note"):
            return {}
        return {
            "note": lambda text: self._tell(call, "note", lambda: entered.note(text)),
            "noted": lambda: entered.noted,
            "goes_on": lambda: entered.outlives and self.is_left(call),
        }

    async def _tell(self, call: Call, work: str, tell: Callable[[], Awaitable[None]]) -> None:
        try:
            await tell()
        except BaseException as error:
            let_out(error)
            code, task = _NOT_KEPT.get(work, _NOT_NOTED)
            text = f"the store could not {task} ({type_name(error)}); the call stays claimed"
            if isinstance(error, ToolError):
                text = "its value is not JSON, so only its text for the model is kept"
            self.host.emit(StreamWarning(code, f"{call.label}: {text}"))


def _checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"expected a key as a str, got {type_name(key)}")
    return key


def _check_entered(found: Any) -> None:
    """Raises a `TypeError` for an object that cannot be told how the call ends: its run would go unrecorded."""
    if not all(callable(getattr(found, name, None)) for name in _NOT_KEPT):
        raise TypeError(f"expected a CallEnd or an Entered, got {type_name(found)}")


def _operation_of(tool: Tool[..., Any], bound: Bound) -> Any:
    """Raises what the tool's own function raises, or an error for an argument that is missing."""
    given = tool.idempotency_key
    if callable(given):
        done = given(own(bound.by_name))
        if done is None:
            raise ValueError("the idempotency key is None, so all calls would share it; return a distinct value")
        return done
    return [tool.argument(bound, name) for name in ((given,) if isinstance(given, str) else given or ())]


def _end_of(ending: Ending) -> CallEnd:
    if isinstance(ending.value, AnsweredLater):
        return CallEnd(value=ending.value)
    if ending.result is not None:
        return CallEnd(value=ending.result)
    if ending.error is not None:
        return CallEnd(error=ending.error)
    value = as_read(ending)
    return CallEnd(value=value.value, content=value.content) if isinstance(value, AsRead) else CallEnd(value=value)
