"""What the model is told of calls that are not run, or not to be repeated."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from ..errors import CallDenied, CallTruncated, ModelRetry, ToolError, UnknownTool
from ..limits import Limits
from ..turn import ToolCall
from .counts import RunCounts
from .record import Ended

__all__ = ["repeated", "try_again", "unknown_tool"]

_COMPARED = 500  # names that are looked through for the closest: some milliseconds


def unknown_tool(name: str, names: Iterable[str]) -> UnknownTool:
    """The answer to a call of a tool that is not there: which there are, and which was perhaps meant."""
    available = sorted(names)
    folded = {known.casefold(): known for known in islice(available, _COMPARED)}
    close = get_close_matches(name.casefold(), folded, n=1) if name else []
    return UnknownTool(name, available=available, closest=folded[close[0]] if close else None)


def repeated(call: ToolCall, counts: RunCounts, limits: Limits) -> Ended | None:
    """The refusal of a call that was made too often with the same arguments, if it was."""
    most = limits.max_repeated_calls
    if most is None or counts.call(call.name, call.arguments) <= most:
        return None
    text = f"not run: {call.name} was called {most} times with the same arguments; use its result, or do something else"
    return Ended("denied", CallDenied(f"{text} (max_repeated_calls)"))


def try_again(error: ToolError, tool: str, counts: RunCounts, limits: Limits) -> str:
    """What is added to an error's own words: what the model had better do."""
    if isinstance(error, CallTruncated):
        return "\nThe call was not run. Make it again, with smaller arguments if they were cut for their length."
    if not isinstance(error, ModelRetry):
        return ""
    if counts.model_retry(tool) <= limits.max_model_retries:
        return f"\nMend the arguments and call {tool} again."
    most = limits.max_model_retries
    return f"\nDo not call {tool} again: it asked for that more than max_model_retries={most} times."
