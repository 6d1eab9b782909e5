"""Makes the endings of calls: for calls that are not run, for failures, and for the values that tools return.

Values are checked and written for the model here, including those that a store has on record.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from ..content import AnsweredLater, Text, ToolResult
from ..errors import (
    AnswerPending,
    CallCancelled,
    CallDenied,
    CallRepeated,
    CallSkipped,
    CallTruncated,
    InvalidArguments,
    InvalidResult,
    ModelRetry,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolSuspended,
    UnknownTool,
    contained,
)
from ..events import Observation, StreamEnd
from ..ground.own import own
from ..ground.text import type_name
from ..limits import Limits
from ..parts import OUTCOMES, ToolCall
from ..tools import TakesLong, Tool
from .log import log_unwritable
from .results import AsRead, any_content, bounded, checked_content, is_small, no_content, value_content
from .states import Call, Ending, RunCounts

if TYPE_CHECKING:
    from ..seams import CallEnd

LEFT = "the program left the stream"
_NOT_AGAIN = "\nIt may have taken effect. Do not call it again for the same purpose: first find out, or tell the user."
DONE_BEFORE = "An earlier call already did this, so it was not done again. The result of that call:"
_TRIED_BEFORE = "An earlier call already tried this, so it was not tried again. That call ended like this:"
_COMPARED = 500  # names compared to find the closest, which takes some milliseconds


_VOID = frozenset({"truncated", "invalid", "denied", "over_budget", "skipped", "cancelled"})


def ended_well(end: StreamEnd | None) -> bool:
    return end is not None and end.ended_well


def skipped(end: StreamEnd | None, stopped: str | None, *, by_hand: bool) -> Ending:
    """Returns the ending of a complete call that will not start: the turn's `end` has come, no more calls start because
    the turn was `stopped`, or the call starts only when it is run `by_hand`."""
    if by_hand and (end is None or end.ended_well):
        reason = "the program did not run it (start='manual')"
    elif end is None or stopped is not None:
        reason = stopped or LEFT
    elif end.error is not None:
        reason = f"the turn ended with an error ({end.error.kind})"
    else:
        reason = f"the turn ended, and its finish reason is {end.finish or 'missing'}"
    return Ending("skipped", CallSkipped(f"the call was not run: {reason}"))


def perhaps_run(reason: str) -> Ending:
    """Returns the ending of a call that is not run, but that may have run before, since no store would know."""
    return Ending("cancelled", CallCancelled(f"the call is not run again: {reason}; it may have had its effect before"))


def answered_later(value: AnsweredLater) -> Ending:
    return Ending("suspended", AnswerPending(), value=value)


def unstarted(reason: str | None) -> Ending:
    why = f": {reason}" if reason else ""
    return Ending("cancelled", CallCancelled(f"the call was cancelled before it started{why}"))


def cancelled(call: Call, reason: str | None = None) -> Ending:
    if not call.attempts:
        return unstarted(reason)
    return Ending("cancelled", CallCancelled("the call was cancelled; it may have had its effect, or part of it"))


def discarded() -> Ending:
    return Ending("discarded", CallSkipped("the call was discarded: another answer replaced the one that made it"))


def undone(ending: Ending, lost: ToolError | None) -> Ending:
    """Returns the ending of a call that began while its arguments came, and would otherwise have had this `ending`."""
    if ending.outcome not in _VOID:  # as a store has it on record
        return ending
    if lost is not None:
        return failure(lost)
    why = str(ending.error or OUTCOMES[ending.outcome].words).removeprefix("the call was not run: ")
    error = CallCancelled(f"the call began with partial arguments, and was undone: {why}")
    error.__cause__ = ending.error
    return Ending("cancelled", error, undone=True)


def denied(reason: str | None, cause: BaseException | None = None) -> Ending:
    why = f": {reason}" if reason else ""
    error = CallDenied(f"not run: the call was not approved{why}")
    error.__cause__ = cause
    return Ending("denied", error)


def left_over(call: Call) -> Ending:
    if call.state == "ended" or call.call.status == "ready":
        return Ending("skipped", CallSkipped("the call was not run: it never became ready to start"))
    return Ending("truncated", CallTruncated("the program left the stream before the call's end"))


def keyed(call: Call) -> Ending | None:
    """Notes the call's conflict key; returns a refusal if the tool's function raises or returns no key."""
    try:
        call.conflict = call.conflict_key()
        hash(call.conflict)
    except BaseException as error:
        text = f"not run: the conflict_key of {call.ready[0].name} raised {type_name(error)}"
        return failure(ToolFailed(text), contained(error))
    return None


def needs_approval(call: Call) -> bool:
    """Returns whether a call needs an approval; raises `ToolFailed` if its tool's predicate raised, or did not return a
    bool."""
    tool, bound = call.ready
    needed = tool.needs_approval
    if isinstance(needed, bool):
        return needed
    try:
        answer = needed(own(bound.by_name))
    except BaseException as error:
        raise ToolFailed(f"not run: the needs_approval of {tool.name} raised {type_name(error)}") from contained(error)
    if not isinstance(answer, bool):
        kind = type(answer).__name__
        raise ToolFailed(f"not run: the needs_approval of {tool.name} returned {kind}, not True or False")
    return answer


def unknown_tool(name: str, names: Iterable[str], awaits: str | None = None) -> UnknownTool:
    from difflib import get_close_matches  # only for a mistake

    available = sorted(names)
    folded = {known.casefold(): known for known in islice(available, _COMPARED)}
    close = get_close_matches(name.casefold(), folded, n=1) if name else []
    return UnknownTool(name, available=available, closest=folded[close[0]] if close else None, awaits=awaits)


def not_again(call: Call, ending: Ending) -> str:
    may_have_begun = call.attempts or call.is_outside or ending.outcome == "unknown"
    if call.tool is None or call.tool.effect != "once" or not may_have_begun or ending.undone:
        return ""
    return _NOT_AGAIN if OUTCOMES[ending.outcome].may_have_had_effect else ""


_USELESS = (ModelRetry, InvalidArguments, UnknownTool, CallRepeated)


def try_again(ending: Ending, call: Call, counts: RunCounts, limits: Limits) -> str:
    """Returns what the model should do next, and counts a call that it has to make differently. Such calls share one
    budget per tool; calls of unknown tools share another.
    """
    error, tool = ending.error.__cause__ if ending.undone and ending.error else ending.error, call.call.name
    if isinstance(error, CallTruncated):
        was = "has no effect" if ending.undone else "was not run"
        return f"\nThe call {was}. Make it again, with smaller arguments if they were cut for their length."
    if not isinstance(error, _USELESS):
        return ""
    is_unknown, most = isinstance(error, UnknownTool), limits.max_model_retries
    if counts.count_useless("" if is_unknown else tool) <= most:
        return f"\nCorrect the arguments and call {tool} again." if isinstance(error, ModelRetry) else ""
    if is_unknown:
        return f"\nCall only tools that exist: more than max_model_retries={most} calls named unknown tools."
    return f"\nDo not call {tool} again: more than max_model_retries={most} of its calls could not be used."


def is_exhausted(seen: Observation, counts: RunCounts, limits: Limits) -> bool:
    tool = "" if isinstance(seen.error, UnknownTool) else seen.tool_name
    return isinstance(seen.error, _USELESS) and counts.were_useless(tool) > limits.max_model_retries


def recount(calls: Iterable[ToolCall], ends: Iterable[Observation], counts: RunCounts) -> None:
    for call in calls:
        if call.status == "ready" and call.kind != "server":
            counts.count_call(call.name, call.arguments, call.arguments_text)
    for seen in ends:
        if isinstance(seen.error, _USELESS):
            counts.count_useless("" if isinstance(seen.error, UnknownTool) else seen.tool_name)


def failure(error: ToolError, cause: BaseException | None = None) -> Ending:
    """A tool's own `ToolError` is not retried."""
    error.__cause__ = cause or error.__cause__
    if isinstance(error, ToolOutcomeUnknown):
        return Ending("unknown", error, again=True)
    if isinstance(error, ToolSuspended):
        return Ending("suspended", error)
    return Ending("failed", error, again=isinstance(error, (ToolNotStarted, ToolFailed)))


def _of_another(ending: Ending) -> Ending:
    if ending.error is not None and ending.result is None:
        return replace(ending, error=type(ending.error)(f"{_TRIED_BEFORE} {ending.error}"))
    note, result = DONE_BEFORE if ending.error is None else _TRIED_BEFORE, ending.result
    content = ending.content() if callable(ending.content) else ending.content
    if result is not None:
        result = replace(result, blocks=(Text(note), *result.blocks), native={})
    return replace(ending, content=f"{note}\n{content}", result=result)


def as_read(ending: Ending) -> Any:
    """Returns the value as it was written for the model, since an iterator can be written only once."""
    value, content = ending.value, ending.content
    if content is None or (isinstance(value, str) and not ending.cut):
        return value
    content = content() if callable(content) else content
    if ending.cut:
        return value if is_small(value) else AsRead(None, content)
    read = from_json(content)
    return AsRead(read, content) if isinstance(read, str) else read  # a date, say: no text is written with quotes


# -- endings with a value --


_BOUNDED_BEFORE = Limits(max_result_bytes=sys.maxsize, max_result_media_bytes=sys.maxsize)


@dataclass(slots=True, eq=False)
class ValueEndings:
    call: Call
    tool: Tool[..., Any] | None  # the call's tool; None if it is gone, so that the value can only be on record
    limits: Limits
    any_value: bool  # the value need not be JSON; see `KnownCalls.any_value`

    @property
    def _name(self) -> str:
        return self.call.call.name if self.tool is None else self.tool.name

    async def ending(self, value: Any) -> Ending:
        """A small value is checked and written in the event loop, any other in a thread."""
        given = isinstance(value, ToolResult)
        assert self.tool is not None, "it has run"
        if isinstance(value, AnsweredLater):
            return answered_later(value)
        if given and not self.tool.checks_results:
            return self._given(value, self.limits)
        if self.any_value and self.call.entered is None and not self.tool.checks_results:
            written_when_read = partial(any_content, value, self.limits.max_result_bytes, self._name)
            return Ending("ok", value=value, content=cache(written_when_read))
        if is_small(value.value if given else value):
            with suppress(TakesLong):
                return self._checked(value, quick=True)
        from .in_process import ThreadCall, take_thread

        thread = ThreadCall()
        try:
            ending: Ending = await thread.run(take_thread(), partial(self._checked, value))
        finally:
            self.call.left_running |= thread.give_up()
        return ending

    def _checked(self, value: Any, *, quick: bool = False) -> Ending:
        given = isinstance(value, ToolResult)
        assert self.tool is not None, "it has run"
        if not self.tool.checks_results or (given and value.is_error):
            return self._given(value, self.limits) if given else self._valued(value, known_small=quick)
        plain = value.value if given else value
        try:
            content, cut = checked_content(self.tool, plain, self.limits, quick=quick)
        except (ToolFailed, InvalidResult) as error:
            return Ending("failed", error)
        if given:
            return self._given(value, self.limits)
        return Ending("ok", value=value, content=content, cut=cut)

    def _valued(self, value: Any, *, known_small: bool = False) -> Ending:
        try:
            content, cut = value_content(value, self.limits.max_result_bytes, known_small=known_small)
        except ToolFailed as error:
            if not self.any_value:
                return Ending("failed", error)
            log_unwritable(self._name, value)
            content, cut = no_content(value), True
        return Ending("ok", value=value, content=content, cut=cut)

    def _given(self, given: ToolResult, limits: Limits) -> Ending:
        result, content, cut = bounded(given, limits)
        if given.is_error:
            error = ToolFailed(f"the tool {self._name} reported an error")
            return Ending("failed", error, content=content, result=result)
        value = given if given.value is None else given.value
        return Ending("ok", value=value, content=content, result=result, cut=cut)

    def ended_before(self, end: CallEnd) -> Ending:
        error, value = end.error, end.value
        if error is not None:
            ending = failure(error)
            ending.again = False
            ending.recorded = not isinstance(error, (ToolNotStarted, ToolOutcomeUnknown))
        elif isinstance(value, AnsweredLater):
            return answered_later(value)
        elif end.content is not None:
            ending = Ending("ok", value=value, content=end.content, recorded=True)
        else:
            # A tool's own result was bounded before it was kept: cutting it again would note the wrong size. Nor is it
            # checked again: only what fitted the output schema was kept, and a note may stand for a value.
            ending = self._given(value, _BOUNDED_BEFORE) if isinstance(value, ToolResult) else self._valued(value)
            ending.recorded = True
        ending.notes = end.notes
        return _of_another(ending) if end.by_another and ending.recorded else ending
