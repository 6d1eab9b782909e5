"""Suspended calls as if a stream had brought them: through the same stages, to the same dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from .dispatch.suspended import Suspended, SuspendedCall
from .errors import StreamError
from .events import Event, StreamEnd, ToolCallEnd, ToolCallFragment, ToolCallReady, ToolCallStart
from .limits import Limits
from .stages import StageList
from .tools import Toolset

__all__ = ["SuspendedDecoder", "calls_of"]


async def calls_of(suspended: Suspended) -> AsyncIterator[Mapping[str, Any]]:
    """The calls, as items of a source."""
    for call in suspended.calls:
        yield asdict(call)


def _placed(event: Event, index: int) -> Event:
    """The event of a call in the place that it had in its turn."""
    if isinstance(event, ToolCallStart):
        return replace(event, index=index)
    if isinstance(event, (ToolCallEnd, ToolCallReady)):
        return replace(event, call=replace(event.call, index=index))
    return event


class SuspendedDecoder:
    """Makes the events of calls that were suspended: announced, ended, validated again.

    Args:
        wire: over which wire they came once.
        tools: what may be called now.
        stages: the steps that they pass.
        limits: bounds on what they may hold.
    """

    def __init__(self, wire: str | None, tools: Toolset, stages: StageList, limits: Limits) -> None:
        self.wire = wire
        self.received = 0
        self.done = False
        self._chain = stages.build(tools, limits, "")
        self._finished = False

    def feed(self, item: bytes | Mapping[str, Any], /) -> list[Event]:
        """Take one call; return its events."""
        assert isinstance(item, Mapping), "that is what `calls_of` yields"
        call = SuspendedCall(**item)
        self.received += len(call.arguments_text)
        fragment = ToolCallFragment(
            index=call.call_id,
            id=call.call_id,
            name=call.tool_name,
            arguments=call.arguments_text,
            kind=call.kind,
            start=True,
            end=True,
        )
        return [_placed(event, call.index) for event in self._chain.feed(fragment)]

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        """All calls have come. They were complete, and so was their turn: nothing else is suspended."""
        if self._finished:
            return []
        self._finished = self.done = True
        whole = error is None and not abandoned
        end = StreamEnd(finish="tool_calls" if whole else None, complete=whole, error=error)
        return [*self._chain.feed(end), *self._chain.finish()]
