"""Defines further consumers of a pipeline's events, each with its own bounded queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from anyio.lowlevel import checkpoint, current_token

from ..dispatch.event_loop import call_soon
from ..errors import ConsumerTooSlow, LocalProtocolError
from ..events import (
    Event,
    EventsDropped,
    ProviderItem,
    ReasoningEnd,
    ReasoningStart,
    StepEnd,
    StreamWarning,
    TextEnd,
    TextStart,
    ToolProgress,
    UnknownPayload,
)
from ..limits import checked_bound
from ..pipelines.queues import DELTAS, Outbox
from ..pipelines.runner import Runner

WhenFull: TypeAlias = Literal["wait", "drop_oldest", "disconnect"]
"""The rule for a full branch: reading the source pauses; the oldest events are dropped, replaced by an `EventsDropped`;
or the branch ends with `ConsumerTooSlow`."""

_MAY_GO = DELTAS | {
    ProviderItem,
    ReasoningEnd,
    ReasoningStart,
    StreamWarning,
    TextEnd,
    TextStart,
    ToolProgress,
    UnknownPayload,
}
"""The events that ``"drop_oldest"`` drops. Of the rest there is a bounded number in a step (`Limits.max_tool_calls`),
and the turn holds them anyway."""


_TURNS = 2  # rounds of the event loop for the reader of a full branch to run: within one, trio has no order of tasks


def branch_of(runner: Runner, size: int | None, when_full: WhenFull) -> Branch:
    if runner.state == "left":
        raise LocalProtocolError("the pipeline's block was left; make branches before or inside the block")
    outbox, step = runner.outbox, runner.step
    queue = BranchQueue(outbox.size if size is None else size, when_full, outbox, step.leave)
    step.join(queue)
    return Branch(queue)


class Branch:
    """One more consumer of a pipeline's events, from the making of the branch on; made by `Pipeline.branch`.

    Iterate it in a task of its own, in a group around the pipeline: reading one consumer to its end before the other
    may wait for ever. A branch ends after `StepEnd`, also when the pipeline is left in the middle: the closing events
    come here, too. A stream error is raised here as it is at the pipeline, once, after the last event: the same object.

    A branch that is made with ``when_full="wait"`` and no longer read stops the pipeline. Give it up with `aclose` or
    by ``async with branch:``. One that nothing refers to any more gives itself up.
    """

    def __init__(self, queue: BranchQueue) -> None:
        self._queue = queue

    @property
    def waiting(self) -> int:
        """The number of events that wait to be read."""
        return self._queue.waiting

    @property
    def dropped(self) -> int:
        """The number of events that were dropped because the branch was full. An `EventsDropped` stands for each
        gap."""
        return self._queue.dropped

    def __aiter__(self) -> Branch:
        return self

    async def __anext__(self) -> Event:
        queue = self._queue
        if await queue.wait():
            return queue.take()
        if queue.error is not None:
            error, queue.error = queue.error, None
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Gives the branch up: its events are dropped, and the pump waits for it no more. Idempotent; in any task.

        A task that iterates it reaches its end.
        """
        self._queue.discard()

    async def __aenter__(self) -> Branch:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._queue.discard_soon()


class BranchQueue:
    """A bounded queue of events to a branch. The step puts them in without knowing the `Branch`, which may be dropped.
    `outbox` is that of the pump; `leave` is called when no more events are wanted."""

    def __init__(self, size: int, when_full: WhenFull, outbox: Outbox, leave: Callable[[BranchQueue], None]) -> None:
        checked_bound("size", size)
        if when_full not in _OVERFLOW:
            raise ValueError(f"unknown when_full {when_full!r}; known: {', '.join(_OVERFLOW)}")
        self.error: BaseException | None = None  # the error to raise after the last event
        self.dropped = 0
        self._settled: deque[Event] = deque()  # the oldest: kept events, with gaps between; never dropped any more
        self._box = Outbox(size)  # the rest
        self._lossless = when_full == "wait"
        self._overflow = _OVERFLOW[when_full]
        self._reading = 0  # how many wait for an event, or were woken and have not run yet
        self._turns = 0  # of the event loop, which the pump still gives to the reader
        self._outbox = outbox
        self._leave = leave
        self._token = current_token()

    @property
    def waiting(self) -> int:
        return len(self._settled) + len(self._box.queue)

    @property
    def behind(self) -> int:
        """As `waiting` if the branch is waited for; else 0, since it drops the events that are too many."""
        return self.waiting if self._lossless else 0

    # -- for the step and the pump --

    def put(self, event: Event) -> None:
        box = self._box
        if full := len(box.queue) >= box.size and not self._reading:
            self._overflow(self, event)
        box.put(event)
        if not full and len(box.queue) == box.size:
            self._turns = _TURNS
        if self._holds():
            self._outbox.full_at = 0  # the pump asks for room before it reads on
        if type(event) is StepEnd:
            box.close()

    async def wait_for_room(self) -> None:
        """Waits while this branch holds up the pump: by its rule, or because its reader is to have its turn."""
        while self._holds():
            if self._lossless:
                await self._box.wait_for_room()
            else:
                self._turns -= 1
                await checkpoint()

    def close(self) -> None:
        self._box.close()

    def discard(self) -> None:
        self.error = None
        self._settled.clear()
        self._box.discard()
        self._leave(self)

    def discard_soon(self) -> None:
        """Calls `discard` in the event loop; from any thread, and in the middle of anything."""
        if not self._box.closed:
            call_soon(self._token, self.discard)

    def _holds(self) -> bool:
        box = self._box
        return len(box.queue) >= box.size and (self._lossless or self._reading > 0 or self._turns > 0)

    def _grow(self, _: Event) -> None:
        """Makes no room: the pump waits after this chunk, and a tool's event waits for nobody."""

    def _drop_oldest(self, _: Event) -> None:
        """Makes room for one event, and for more if many came at once."""
        while len(self._box.queue) >= self._box.size:
            self._drop(self._box.queue.popleft())

    def _drop(self, event: Event) -> None:
        """Puts an event that may be dropped into a gap; moves any other to the settled ones, not looked at again."""
        if type(event) not in _MAY_GO:
            self._settled.append(event)
            return
        self.dropped += 1
        last = self._settled[-1] if self._settled else None
        if type(last) is EventsDropped:
            # Also if the numbers between are another pipeline's of the same run: else each would begin a new gap.
            last.to_seq = last.seq = event.seq  # type: ignore[misc]  # nobody has seen it yet
        else:
            self._settled.append(EventsDropped(event.seq, event.seq, seq=event.seq, step=event.step))

    def _disconnect(self, event: Event) -> None:
        self.error = ConsumerTooSlow(size=self._box.size, seq=event.seq)
        self.close()
        self._leave(self)

    # -- for the reader --

    async def wait(self) -> bool:
        if self._settled or self._box.queue:
            return True
        box = self._box
        self._reading += 1
        try:
            while not box.queue:
                if box.closed:
                    return False
                if box.awaited is None:
                    box.await_one()
                assert box.awaited is not None, "just made"
                await box.awaited.wait()
            return True
        finally:
            self._reading -= 1

    def take(self) -> Event:
        if self._settled:
            return self._settled.popleft()
        event = self._box.queue.popleft()
        self._box.make_room()
        return event


_OVERFLOW: Mapping[WhenFull, Callable[[BranchQueue, Event], None]] = {
    "wait": BranchQueue._grow,
    "drop_oldest": BranchQueue._drop_oldest,
    "disconnect": BranchQueue._disconnect,
}
