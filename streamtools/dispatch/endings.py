"""Makes the endings of calls: of one that is not run, of a failure, and of the value that a tool returned.

Input: a call, and the reason why it ends. Output: its `Ending`, from which its `Observation` is made, with a hint where
the model can do something about it. A value is checked and written for the model here, also one that a store has on
record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any

from pydantic_core import from_json

from ..content import AnsweredLater, Text, ToolResult
from ..errors import (
    AnswerPending,
    ApprovalPending,
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
)
from ..events import Observation, StreamEnd
from ..limits import Limits
from ..parts import OUTCOMES, ToolCall
from ..text import type_name
from ..tools import TakesLong, Tool
from .log import log_unwritable
from .results import AsRead, any_content, bounded, checked_content, is_small, no_content, value_content
from .states import Call, Ending, RunCounts

_NOT_AGAIN = "\nIt may have taken effect. Do not call it again for the same thing: find out first, or say so."
DONE_BEFORE = "This had been done already, by an earlier call, and was not done again. The result of that call:"
"""Begins what the model reads of a call that is answered by the result of another."""
_TRIED_BEFORE = "This had been tried already, by an earlier call, and was not tried again. That call ended so:"
_MOST_NOTED_CHARS = 2_000
_COMPARED = 500  # names compared to find the closest, which takes some milliseconds


def ended_well(end: StreamEnd | None) -> bool:
    """Returns whether the turn is over, and in a way that lets its calls run."""
    return end is not None and end.ended_well


def skipped(end: StreamEnd | None, stopped: str | None, *, by_hand: bool) -> Ending:
    """Returns the ending of a complete call that will not start: the turn's `end` has come, or nothing more starts
    because it was `stopped`, or the call starts only if somebody runs it, `by_hand`."""
    if by_hand and (end is None or ended_well(end)):
        reason = "nobody ran it (start='manual')"
    elif end is None or stopped is not None:
        reason = stopped or "the stream was left"
    elif end.error is not None:
        reason = f"the turn ended with an error ({end.error.kind})"
    else:
        reason = f"the turn ended by {end.finish or 'nothing that says so'}"
    return Ending("skipped", CallSkipped(f"the call was not run: {reason}"))


def perhaps_run(reason: str) -> Ending:
    """Returns the ending of a call that is not run, and that no store would know if it has run before."""
    return Ending("cancelled", CallCancelled(f"the call is not run again: {reason}; it may have had its effect before"))


def undecided() -> Ending:
    """Returns the ending of a call that needs an approval when the block is left."""
    return Ending("skipped", ApprovalPending())


def unanswered(reason: str | None, *, is_kept: bool) -> Ending:
    """Returns the ending of a call that was handed out and has no answer; `is_kept`: somebody may answer later."""
    if is_kept:
        return Ending("suspended", AnswerPending())
    why = f" ({reason})" if reason else ""
    text = f"the call was handed out, and its answer is not waited for any more{why}; it may have had its effect"
    return Ending("cancelled", CallCancelled(text))


def answered_later(value: AnsweredLater) -> Ending:
    """Returns the ending of a call whose tool goes on elsewhere."""
    return Ending("suspended", AnswerPending(), value=value)


def unstarted(reason: str | None) -> Ending:
    """Returns the ending of a call that was cancelled before any of its tool's code ran."""
    why = f": {reason}" if reason else ""
    return Ending("cancelled", CallCancelled(f"the call was cancelled before it started{why}"))


def cancelled(call: Call, reason: str | None = None) -> Ending:
    """Returns the ending of a call that was cancelled."""
    if not call.attempts:
        return unstarted(reason)
    return Ending("cancelled", CallCancelled("the call was cancelled; it may have had its effect, or part of it"))


def discarded() -> Ending:
    """Returns the ending of a call of an attempt that is discarded."""
    return Ending("discarded", CallSkipped("the call is void: its answer broke off, and was asked for again"))


def left_over(call: Call) -> Ending:
    """Returns the ending of a call that is not yet valid when everything is over."""
    if call.state == "ended" or call.call.status == "ready":
        return Ending("skipped", CallSkipped("the call was not run: it was held back on its way"))
    return Ending("truncated", CallTruncated("the stream was left before the call's end"))


def no_key(tool: str, error: Exception, option: str = "conflict_key") -> Ending:
    """Returns the ending of a call without a usable key: it might conflict with another call, or repeat it."""
    failed = ToolFailed(f"not run: the {option} of {tool} raised {type_name(error)}")
    failed.__cause__ = error
    return Ending("failed", failed)


def keyed(call: Call) -> Ending | None:
    """Notes the call's conflict key; returns a refusal if the tool's function raises or returns no key."""
    try:
        call.conflict = call.conflict_key()
        hash(call.conflict)
    except Exception as error:
        return no_key(call.ready[0].name, error)
    return None


def unknown_tool(name: str, names: Iterable[str], awaits: str | None = None) -> UnknownTool:
    """Returns the error for a call of an unknown tool; it names the known tools and the closest, and the answer that a
    provider waits for."""
    available = sorted(names)
    folded = {known.casefold(): known for known in islice(available, _COMPARED)}
    close = get_close_matches(name.casefold(), folded, n=1) if name else []
    return UnknownTool(name, available=available, closest=folded[close[0]] if close else None, awaits=awaits)


def wrong_caller(tool: Tool, call: ToolCall) -> Ending | None:
    """Returns a refusal if the tool may not be called by whoever made the call. The provider was told who may, but
    a compatible server or a gateway need not hold to that."""
    allowed = () if tool.hints is None else tool.hints.allowed_callers
    if not allowed or call.caller in allowed:
        return None
    names = {"direct": "the model itself", "code": "the model's code"}
    only = " or ".join(names[one] for one in allowed)
    return Ending("denied", CallDenied(f"not run: {tool.name} is for calls by {only}, not by {names[call.caller]}"))


def not_again(call: Call, ending: Ending) -> str:
    """Returns the hint to add to the words of a call whose effect must not happen twice, and may have happened."""
    may_have_begun = call.attempts or call.out is not None or ending.outcome == "unknown"
    if call.tool is None or call.tool.effect != "once" or not may_have_begun:
        return ""
    return _NOT_AGAIN if OUTCOMES[ending.outcome].may_have_had_effect else ""


_USELESS = (ModelRetry, InvalidArguments, UnknownTool, CallRepeated)


def try_again(error: ToolError, tool: str, counts: RunCounts, limits: Limits) -> str:
    """Returns the hint to add to an error's own words, which tells the model what to do next.

    Counts a call that the model would have to make in another way: with other arguments, or of another tool. All such
    calls of one tool are one budget, and all calls of tools that there are not are another.
    """
    if isinstance(error, CallTruncated):
        return "\nThe call was not run. Make it again, with smaller arguments if they were cut for their length."
    if not isinstance(error, _USELESS):
        return ""
    is_unknown, most = isinstance(error, UnknownTool), limits.max_model_retries
    if counts.useless("" if is_unknown else tool) <= most:
        return f"\nMend the arguments and call {tool} again." if isinstance(error, ModelRetry) else ""
    if is_unknown:
        return f"\nCall no other tools: more than max_model_retries={most} calls were of tools that do not exist."
    return f"\nDo not call {tool} again: more than max_model_retries={most} of its calls could not be used."


def is_exhausted(seen: Observation, counts: RunCounts, limits: Limits) -> bool:
    """Returns whether a call could not be used, and no other one of its tool is wanted; the model has read so."""
    tool = "" if isinstance(seen.error, UnknownTool) else seen.tool_name
    return isinstance(seen.error, _USELESS) and counts.were_useless(tool) > limits.max_model_retries


def recount(calls: Iterable[ToolCall], ends: Iterable[Observation], counts: RunCounts) -> None:
    """Counts calls that were made before, as their run did then."""
    for call in calls:
        if call.status == "ready" and call.kind != "server":
            counts.call(call.name, call.arguments, call.arguments_text)
    for seen in ends:
        if isinstance(seen.error, _USELESS):
            counts.useless("" if isinstance(seen.error, UnknownTool) else seen.tool_name)


def failure(error: ToolError) -> Ending:
    """Returns the ending of a call that raised this error. A tool's own `ToolError` is no reason to try again."""
    if isinstance(error, ToolOutcomeUnknown):
        return Ending("unknown", error, again=True)
    if isinstance(error, ToolSuspended):
        return Ending("suspended", error)
    return Ending("failed", error, again=isinstance(error, (ToolNotStarted, ToolFailed)))


def repeated(ending: Ending) -> Ending:
    """Returns the ending of a call that asks for what another call has done, or tried, which a store has on record."""
    if ending.error is not None and ending.result is None:
        return replace(ending, error=type(ending.error)(f"{_TRIED_BEFORE} {ending.error}"))
    note, result = DONE_BEFORE if ending.error is None else _TRIED_BEFORE, ending.result
    content = ending.content() if callable(ending.content) else ending.content
    if result is not None:
        result = replace(result, blocks=(Text(note), *result.blocks), native={})
    return replace(ending, content=f"{note}\n{content}", result=result)


def is_repetition(seen: Observation) -> bool:
    """Returns whether a call was answered by the result of another."""
    return seen.recorded and seen.model_content.startswith(DONE_BEFORE)


def note_of_edits(arguments: Mapping[str, Any]) -> str:
    """Returns what a model reads beside the result of a call whose arguments were edited."""
    text = json.dumps(dict(arguments), ensure_ascii=False)
    if len(text) > _MOST_NOTED_CHARS:
        text = f"{text[:_MOST_NOTED_CHARS]}… ({len(text)} characters in all)"
    return f"Note: a person approved this call with other arguments than yours: {text}"


def notes_of(seen: Observation) -> list[str]:
    """Returns what a model has to read beside a value that a framework gives it itself."""
    notes = [DONE_BEFORE] if is_repetition(seen) else []
    return notes if seen.edited is None else [note_of_edits(seen.edited), *notes]


def as_read(ending: Ending) -> Any:
    """Returns a value for the record: as it was written for the model, since an iterator can be written only once."""
    value, content = ending.value, ending.content
    if content is None or (isinstance(value, str) and not ending.cut):
        return value
    content = content() if callable(content) else content
    if ending.cut:
        return value if is_small(value) else AsRead(None, content)
    read = from_json(content)
    return AsRead(read, content) if isinstance(read, str) else read  # a date, say: no text is written with quotes


# -- endings with a value ----------------------------------------------------------------------------------------------


_BOUNDED_BEFORE = Limits(max_result_bytes=sys.maxsize, max_result_media_bytes=sys.maxsize)


@dataclass(slots=True, eq=False)
class ValueEndings:
    """Checks and writes the values of one call."""

    call: Call
    tool: Tool[..., Any] | None
    """The call's tool; None if it is gone, so that the value can only be on record."""
    limits: Limits
    any_value: bool
    """The value need not be JSON; see `DispatchOptions.any_value`."""

    @property
    def _name(self) -> str:
        return self.call.call.name if self.tool is None else self.tool.name

    async def ending(self, value: Any) -> Ending:
        """Returns the ending of a call that returned this value. A small value is checked and written in the event
        loop, any other in a thread."""
        given = isinstance(value, ToolResult)
        assert self.tool is not None, "it has run"
        if isinstance(value, AnsweredLater):
            return answered_later(value)
        if given and not self.tool.checks_results:
            return self._given(value, self.limits)
        if self.any_value and self.call.claim is None and not self.tool.checks_results:  # written when it is read
            return Ending(
                "ok", value=value, content=partial(any_content, value, self.limits.max_result_bytes, self._name)
            )
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
        """Returns the ending of a call that returned this value, if that fits the output schema which its tool
        declares."""
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
        """Returns the ending of a call whose tool words the result for the model itself."""
        result, content, cut = bounded(given, limits)
        if given.is_error:
            error = ToolFailed(f"the tool {self._name} reported an error")
            return Ending("failed", error, content=content, result=result)
        value = given if given.value is None else given.value
        return Ending("ok", value=value, content=content, result=result, cut=cut)

    def recorded(self, found: Any) -> Ending:
        """Returns the ending that the store has on record."""
        from .store import recorded_value

        try:
            value = recorded_value(self._name, found)
        except ToolError as error:
            ending = failure(error)
            ending.again = False
            ending.recorded = not isinstance(error, (ToolNotStarted, ToolOutcomeUnknown))
            return ending
        if isinstance(value, AnsweredLater):
            return answered_later(value)
        if isinstance(value, AsRead):
            return Ending("ok", value=value.value, content=value.content, recorded=True)
        # A tool's own result was bounded before it was kept: cutting it again would note the wrong size. Nor is it
        # checked again: only what fitted the output schema was kept, and a note may stand for a value.
        ending = self._given(value, _BOUNDED_BEFORE) if isinstance(value, ToolResult) else self._valued(value)
        ending.recorded = True
        return ending
