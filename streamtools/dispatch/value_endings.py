"""Makes the ending of a call of the value that its tool returned, or that a store has on record."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..content import ToolResult
from ..errors import InvalidResult, ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown
from ..limits import Limits
from ..tools import TakesLong, Tool
from .call import Call, Ending
from .endings import failure
from .results import AsRead, any_content, bounded, checked_content, is_small, no_content, value_content

__all__ = ["ValueEndings"]

_BOUNDED_BEFORE = Limits(max_result_bytes=sys.maxsize, max_result_media_bytes=sys.maxsize)


@dataclass(slots=True, eq=False)
class ValueEndings:
    """Checks and writes the values of one call."""

    call: Call
    tool: Tool[..., Any]
    limits: Limits
    any_value: bool
    """The value need not be JSON; see `DispatchOptions.any_value`."""

    async def ending(self, value: Any) -> Ending:
        """Returns the ending of a call that returned this value. A small value is checked and written in the event
        loop, any other in a thread."""
        given = isinstance(value, ToolResult)
        if given and not self.tool.checks_results:
            return self._given(value, self.limits)
        if self._is_written_later():
            return Ending("ok", value=value, content=partial(any_content, value, self.limits.max_result_bytes))
        if is_small(value.value if given else value):
            with suppress(TakesLong):
                return self._checked(value, quick=True)
        from .threads import ThreadCall, take_thread

        thread = ThreadCall()
        try:
            ending: Ending = await thread.run(take_thread(), partial(self._checked, value))
        finally:
            self.call.left_running |= thread.give_up()
        return ending

    def _is_written_later(self) -> bool:
        """Returns whether nobody needs the value as text before somebody reads it."""
        return self.any_value and self.call.claim is None and not self.tool.checks_results

    def _checked(self, value: Any, *, quick: bool = False) -> Ending:
        """Returns the ending of a call that returned this value, if that fits the output schema which its tool
        declares."""
        given = isinstance(value, ToolResult)
        if not self.tool.checks_results or (given and value.is_error):
            return self._given(value, self.limits) if given else self._valued(value)
        plain = value.value if given else value
        try:
            content, cut = checked_content(self.tool, plain, self.limits, quick=quick)
        except (ToolFailed, InvalidResult) as error:
            return Ending("failed", error)
        if given:
            return self._given(value, self.limits)
        return Ending("ok", value=value, content=content, cut=cut)

    def _valued(self, value: Any) -> Ending:
        try:
            content, cut = value_content(value, self.limits.max_result_bytes)
        except ToolFailed as error:
            if not self.any_value:
                return Ending("failed", error)
            content, cut = no_content(value), True
        return Ending("ok", value=value, content=content, cut=cut)

    def _given(self, given: ToolResult, limits: Limits) -> Ending:
        """Returns the ending of a call whose tool words the result for the model itself."""
        result, content, cut = bounded(given, limits)
        if given.is_error:
            error = ToolFailed(f"the tool {self.tool.name} reported an error")
            return Ending("failed", error, content=content, result=result)
        value = given if given.value is None else given.value
        return Ending("ok", value=value, content=content, result=result, cut=cut)

    def recorded(self, found: Any) -> Ending:
        """Returns the ending that the store has on record."""
        from .claims import recorded_value

        try:
            value = recorded_value(self.tool.name, found)
        except ToolError as error:
            ending = failure(error)
            ending.recorded = not isinstance(error, (ToolNotStarted, ToolOutcomeUnknown))
            return ending
        if isinstance(value, AsRead):
            return Ending("ok", value=value.value, content=value.content, recorded=True)
        # A tool's own result was bounded before it was kept: cutting it again would note the wrong size. Nor is it
        # checked again: only what fitted the output schema was kept, and a note may stand for a value.
        ending = self._given(value, _BOUNDED_BEFORE) if isinstance(value, ToolResult) else self._valued(value)
        ending.recorded = True
        return ending
