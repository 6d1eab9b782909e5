"""Decodes suspended calls as if a stream had brought them: through the same stages, to the same dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ..dispatch.suspended import Suspended, SuspendedCall
from ..errors import StreamError
from ..events import Event, StreamEnd, ToolCallEnd, ToolCallFragment, ToolCallStart, ToolCallValidated
from ..limits import Limits
from ..stages import Deferred, StageList
from ..tools import Toolset
from ..wires import Wire

__all__ = ["SuspendedDecoder", "calls_of"]


async def calls_of(suspended: Suspended) -> AsyncIterator[Mapping[str, Any]]:
    """Yields the calls as the one item of a source, so that a consumer who leaves has seen all of them, and their end,
    or none."""
    yield {"calls": [asdict(call) for call in suspended.calls]}


class SuspendedDecoder:
    """A decoder that makes the events of suspended calls: announced, ended, validated again.

    Args:
        suspended: the calls, and the wire over which they came once.
        tools: what may be called now.
        stages: the steps that the calls pass.
        limits: bounds on their arguments, and on the work of judging them. The calls have been within such bounds; the
            text that they were kept as may be a little longer than the model's.
    """

    def __init__(self, suspended: Suspended, tools: Toolset, stages: StageList, limits: Limits) -> None:
        self.wire = suspended.wire
        self.record: Wire | None = None
        """None: only the name of the wire is kept with calls that wait."""
        self.received = 0
        self.done = False
        self._indexes = {call.call_id: call.index for call in suspended.calls}
        self._chain = stages.build(tools, _with_room(limits, suspended.calls), "", defer=True)

    @property
    def deferred(self) -> Deferred | None:
        """Work for a large call that has to be done, and given to `resume`."""
        return self._chain.deferred

    def resume(self, made: Iterable[Event], /) -> list[Event]:
        """Goes on with the events that `deferred` has made; returns events."""
        return [self._placed(event) for event in self._chain.resume(made)]

    def feed(self, item: bytes | Mapping[str, Any], /) -> list[Event]:
        """Takes the calls; returns all events, and the end: the calls were complete, and so was their turn."""
        assert isinstance(item, Mapping), "that is what `calls_of` yields"
        self.done = True
        calls = [SuspendedCall(**call) for call in item["calls"]]
        self.received = sum(len(call.arguments_text) for call in calls)
        events = [event for call in calls for event in self._chain.feed(_fragment(call))]
        events += self._chain.feed(StreamEnd(finish="tool_calls", complete=True))
        events += self._chain.finish()
        return [self._placed(event) for event in events]

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        """Returns no more events, unless the calls never came."""
        if self.done:
            return []
        self.done = True
        return [*self._chain.feed(StreamEnd(error=error)), *self._chain.finish()]

    def _placed(self, event: Event) -> Event:
        """Returns a call's event with the index that the call had in its turn."""
        if isinstance(event, ToolCallStart):
            return replace(event, index=self._indexes.get(event.call_id, event.index))
        if isinstance(event, (ToolCallEnd, ToolCallValidated)):
            call = event.call
            return replace(event, call=replace(call, index=self._indexes.get(call.call_id, call.index)))
        return event


def _fragment(call: SuspendedCall) -> ToolCallFragment:
    return ToolCallFragment(
        index=call.call_id,
        id=call.call_id,
        name=call.tool_name if call.namespace is None else call.tool_name.removeprefix(f"{call.namespace}."),
        namespace=call.namespace,
        awaits=call.awaits,
        arguments=call.arguments_text,
        kind=call.kind,
        start=True,
        end=True,
    )


def _with_room(limits: Limits, calls: tuple[SuspendedCall, ...]) -> Limits:
    """Returns limits that these calls do not exceed by their number or size."""
    sizes = [len(call.arguments_text) for call in calls]
    return replace(
        limits,
        max_tool_calls=max(limits.max_tool_calls, len(calls)),
        max_argument_bytes=max(limits.max_argument_bytes, *sizes, 0),
        max_total_argument_bytes=max(limits.max_total_argument_bytes, sum(sizes)),
        max_id_bytes=max(limits.max_id_bytes, *(len(call.call_id) for call in calls), 0),
        max_name_bytes=max(limits.max_name_bytes, *(len(call.tool_name) for call in calls), 0),
    )
