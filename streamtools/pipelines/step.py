"""Runs one step's events: numbers them, keeps the turn, tells the observers, fills the outbox.

`seq` numbers the events of a run; `causes` names the events that led to one. Both are set at one place, here, when an
event is emitted, so that effects are attributed by identity and not by when they happened to be seen.

    StepStart ← the observations of the step before        StreamStart, StreamEnd ← StepStart, StreamStart
    TextStart, ReasoningStart, … ← StreamStart             TextEnd ← TextStart
    AttemptBegan ← StepStart, or the AttemptDiscarded before it, which is caused as a StepEnd is
    ToolCallStart ← StreamStart, and the start of the text or reasoning before it
    ToolCallEnd ← ToolCallStart                            ToolCallValidated ← ToolCallEnd
    ToolStarted ← ToolCallValidated, and its release       ToolProgress, Observation ← the call's event before it
    StreamWarning, UnknownPayload ← StreamStart, or StepStart before it
    StepEnd ← StreamEnd and the step's observations
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope

from ..errors import contained
from ..events import (
    AttemptBegan,
    AttemptDiscarded,
    CausedEvent,
    Event,
    Observation,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from ..ground.text import type_name
from ..observers import Observer
from ..parts import StepOutcome, Usage
from ..turn import TAKEN_BY, Turn, TurnBuilder
from ..wires import Wire
from .queues import DELTAS, ConsumerQueue, Outbox
from .trajectory import Trajectory, sees_originals, told

if TYPE_CHECKING:
    from ..seams import Shown

_PLAIN: frozenset[type[Event]] = frozenset({TextDelta, ReasoningDelta, ToolCallDelta})

_LASTING = frozenset({ToolCallStart, ToolCallEnd, ToolCallValidated, Observation, StreamEnd, StepEnd})

Callback = Callable[[Any], None]


class Step:
    """The place that every event of a step passes, whichever task made it; the only one that gives out `seq`."""

    def __init__(self, trajectory: Trajectory, outbox: Outbox, tool_names: Collection[str] = ()) -> None:
        self.run_id = trajectory.run_id
        self.number: int
        self.counts = trajectory.counts
        self.new_scope: Callable[[], CancelScope] = CancelScope  # as `Host` has it; set by the runner
        self.now: Callable[[], float] = anyio.current_time
        self.scope: CancelScope | None = None  # the only one around the reading task; set like `new_scope`
        self.ended = False  # True once `StepEnd` is being emitted: nothing more will come
        self._trajectory = trajectory
        self._outbox = outbox
        self._builder = TurnBuilder()
        self._causality = Causality()
        self.observers: list[Observer] = []  # of the run, except those that have failed
        self._listeners: dict[type[Event], tuple[Callback, ...]] = {}
        self._failures: list[tuple[Observer, BaseException]] = []
        self._callbacks: dict[int, Callback] = {}  # of each observer, by its identity
        self._routes: dict[type[Event], tuple[Callback, ...]] = {}
        self._other_routes: tuple[()] | None = None  # of events that are not in `_routes`; None: not known yet
        self._interrupted: list[tuple[Event, Callback | None]] = []  # with the callback that was running
        self._plain: frozenset[type[Event]] = frozenset()  # deltas that only the turn and the consumer want
        self._turn: Turn | None = None  # the final one, once it was asked for
        guard = trajectory.guard
        self._shown: Shown | None = None if guard is None else guard.step(trajectory, tool_names)
        self._shown_to: dict[type[Event], tuple[Callback, ...]] = {}  # the observers of what is shown
        self._untold: dict[int, list[tuple[Callback, Event]]] = {}  # of what is shown of interrupted events, last first

    @property
    def behind(self) -> int:
        """The number of events that the consumer, or a branch that is waited for, has not taken yet: the larger one."""
        behind = len(self._outbox.queue)
        for branch in self._outbox.branches:
            behind = max(behind, branch.behind)
        return behind

    def listen(self, callbacks: Mapping[type[Event], Callback]) -> None:
        """Calls back for each event of these types, after the observers and earlier listeners. The callbacks'
        exceptions are not caught. Call it before `begin`."""
        for kind, callback in callbacks.items():
            self._listeners[kind] = (*self._listeners.get(kind, ()), callback)

    def join(self, reader: ConsumerQueue) -> None:
        outbox = self._outbox
        if self.ended:
            reader.close()
        else:
            outbox.branches = (*outbox.branches, reader)
            self.reroute()

    def begin(self, start: StepStart) -> None:
        """Begins the step: numbers it, and emits its `StepStart`. A ``replayed`` step has no observers, because they
        saw it before."""
        self.number, self._causality.before = self._trajectory.begin_step(self._causality.observations)
        self.observers = [] if start.replayed else list(self._trajectory.observers)
        self.reroute()
        if self.observers:
            if self._trajectory.guard is not None:
                self.tell("obey", self._trajectory.guard)
            self.tell("see_parts", lambda: self._builder.build().parts)
        self.emit(start)

    def discard(self, event: AttemptDiscarded) -> None:
        self._trajectory.discarded += event.usage or Usage()
        self.emit(event)
        self._causality.begin_attempt()
        was, self._builder = self._builder, TurnBuilder()
        self._builder.begin_as(was)
        self._listeners = {}
        self.reroute()

    @property
    def has_output(self) -> bool:
        return self._builder.has_parts

    def end(self, outcome: StepOutcome) -> None:
        if not self.ended:
            self.ended = True
            self.emit(StepEnd(outcome))

    @property
    def conversation_id(self) -> str | None:
        return self._trajectory.conversation_id

    @property
    def model(self) -> str | None:
        return self._builder.start.model if self._builder.start is not None else None

    def turn(self, wire: Wire | str | None) -> Turn:
        """Returns the turn so far, which came over `wire`; computed once when the step has ended."""
        if self._turn is not None:
            return self._turn
        self._builder.wire = wire
        turn = self._builder.build()
        if self.ended:
            self._turn = turn
        return turn

    def emit_all(self, events: Iterable[Event]) -> None:
        run, outbox, builder, step = self._trajectory, self._outbox, self._builder, self.number
        for event in events:
            kind = type(event)
            if kind in self._plain and event.seq < 0 and not outbox.closed:
                seq = run.next_seq
                run.next_seq = seq + 1
                event.seq = seq  # type: ignore[misc]  # events are immutable to all other code
                if step:
                    event.step = step  # type: ignore[misc]
                if kind is TextDelta:
                    builder.add_text(event.text)  # type: ignore[union-attr]
                elif kind is ReasoningDelta:
                    builder.add_reasoning(event.text)  # type: ignore[union-attr]
                outbox.queue.append(event)
            else:
                self.emit(event)
        if outbox.awaited is not None and outbox.queue:  # most keep-alives bring none
            outbox.wake()

    def emit(self, event: Event) -> None:
        """Numbers an event and passes it to the turn, the consumer, the observers and the listeners. Never waits."""
        kind = type(event)
        if event.seq >= 0:  # a stage or a transform passed it on a second time: that is another event
            event = replace(event)
        run, outbox = self._trajectory, self._outbox
        seq = run.next_seq
        run.next_seq = seq + 1
        callback: Callback | None = None
        try:
            if kind in DELTAS:
                event.seq = seq  # type: ignore[misc]  # events are immutable to all other code
                event.step = self.number  # type: ignore[misc]
            elif isinstance(event, CausedEvent):
                self._causality.stamp(event, seq, self.number, time.monotonic())
            take = TAKEN_BY.get(kind)
            if take is not None:
                take(self._builder, event)
            if outbox.skipped_to_end is not None or outbox.closed:
                outbox.put(event)
            else:  # nearly always
                outbox.queue.append(event)
                if outbox.awaited is not None:
                    outbox.wake()
            route = self._routes.get(kind, self._other_routes)
            if route is None:
                route = self._route(kind)
            for callback in route:
                callback(event)
        except BaseException as error:
            # An interrupt, on any line. A listener that raises an error would raise it again.
            if kind in _LASTING and not isinstance(error, Exception):
                self._interrupted.append((event, callback))
            raise
        if self._failures:
            self._drop_failed()

    def keep(self, event: Event) -> None:
        """Adds an event only to the turn: the pipeline that this one continues has emitted it."""
        self._builder.add(event)

    def resume(self) -> None:
        """Continues with the interrupted events, and calls the callback that was running once more. Otherwise the turn
        would contain calls that are unknown to the listeners that observe them, and to the observers."""
        while self._interrupted:
            event, reached = self._interrupted[0]
            self._builder.add(event)
            route = self._route(type(event))
            for callback in route[route.index(reached) if reached in route else 0 :]:
                callback(event)
            self._interrupted.pop(0)

    def tell(self, method: str, *facts: Any) -> None:
        """Calls an optional method of the observers that have it; an observer that raises is dropped."""
        for observer in tuple(self.observers):
            try:
                told(observer, method, facts, self._shown)
            except BaseException as error:
                self._failures.append((observer, contained(error)))
        if self._failures:
            self._drop_failed()

    def words(self, error: BaseException) -> BaseException | None:
        try:
            return error if self._shown is None else self._shown.words(error)
        except Exception:  # of a user's guard
            return None

    def enter_tool(self, call_id: str) -> Callable[[], None] | None:
        managers: list[tuple[Observer, AbstractContextManager[object]]] = []
        for observer in tuple(self.observers):
            try:
                manager = observer.around_tool(call_id)
                if manager is not None:
                    manager.__enter__()
                    managers.append((observer, manager))
            except BaseException as error:
                self._failures.append((observer, contained(error)))
        self._drop_failed()
        return partial(self._leave_tool, managers) if managers else None

    def _leave_tool(self, managers: list[tuple[Observer, AbstractContextManager[object]]]) -> None:
        for observer, manager in reversed(managers):
            try:
                manager.__exit__(None, None, None)
            except BaseException as error:
                self._failures.append((observer, contained(error)))
        self._drop_failed()

    def _route(self, kind: type[Event]) -> tuple[Callback, ...]:
        branches = self._outbox.branches
        callbacks: list[Callback] = [branch.put for branch in branches] if branches else []  # before any that may emit
        if self._shown is None:
            callbacks += self._readers(kind, self.observers)
        else:
            callbacks += self._readers(kind, [one for one in self.observers if sees_originals(one)])
            # The end of a text may bring more of it: it is shown to those who want only the deltas.
            if kind not in DELTAS or self._guarded_readers(kind):
                callbacks.append(self._show)
        route = self._routes[kind] = (*callbacks, *self._listeners.get(kind, ()))
        if kind in _PLAIN and not route:
            self._plain |= {kind}
        return route

    def _readers(self, kind: type[Event], observers: Iterable[Observer]) -> list[Callback]:
        found: list[Callback] = []
        for observer in tuple(observers):
            try:
                wanted = observer.event_types
                if wanted is None or kind in wanted:
                    # The same one in each route: `resume` looks for the one that was interrupted.
                    found.append(self._callbacks.setdefault(id(observer), _callback(observer, self._failures)))
            except BaseException as error:
                self._failures.append((observer, contained(error)))
        return found

    def _guarded_readers(self, kind: type[Event]) -> tuple[Callback, ...]:
        known = self._shown_to.get(kind)
        if known is None:
            others = [one for one in self.observers if not sees_originals(one)]
            known = self._shown_to[kind] = tuple(self._readers(kind, others))
        return known

    def _show(self, event: Event) -> None:
        assert self._shown is not None, "routes lead here where there is a guard"
        untold = self._untold.pop(event.seq, None)  # the guard is asked once for an event, or a mask would be fed twice
        try:
            if untold is None:
                shown = reversed(self._shown.event(event))
                untold = [(call, one) for one in shown for call in reversed(self._guarded_readers(type(one)))]
            while untold:
                call, one = untold[-1]
                call(one)
                del untold[-1]
        except BaseException as error:  # of the guard: what it did not judge must stay hidden
            if untold is not None:
                self._untold[event.seq] = untold  # for `resume` after an interrupt
            contained(error)
            self._untold.pop(event.seq, None)
            for observer in self.observers:
                if not sees_originals(observer):
                    self._failures.append((observer, error))
                    give_up = getattr(observer, "give_up", None)
                    if give_up is not None:
                        give_up()

    def reroute(self) -> None:
        """Forgets the routes, because observers or branches have come or gone; without any, only listeners stay."""
        self._shown_to = {}
        if self.observers or self._outbox.branches:
            self._routes, self._other_routes, self._plain = {}, None, frozenset()
        else:
            plain = _PLAIN if ToolCallDelta not in self._listeners else _PLAIN - {ToolCallDelta}
            self._routes, self._other_routes, self._plain = dict(self._listeners), (), plain

    def leave(self, reader: ConsumerQueue) -> None:
        self._outbox.branches = tuple(known for known in self._outbox.branches if known is not reader)
        self.reroute()

    def _drop_failed(self) -> None:
        """Drops the observers that raised, since they must not break the stream, and warns the consumer."""
        failures, self._failures[:] = list(self._failures), []
        for observer, error in failures:
            if any(known is observer for known in self.observers):
                self.observers = [known for known in self.observers if known is not observer]
                self.reroute()
                if not self.ended:
                    self.emit(StreamWarning("observer_failed", f"{type_name(observer)} raised {type_name(error)}"))


def _callback(observer: Observer, failures: list[tuple[Observer, BaseException]]) -> Callback:
    def call(event: Event) -> None:
        try:
            observer.on_event(event)
        except BaseException as error:
            failures.append((observer, contained(error)))

    return call


# -- causes --

_START_OF: dict[type, type] = {TextEnd: TextStart, ReasoningEnd: ReasoningStart}
_ROOTS = frozenset({StepStart, StreamStart, AttemptBegan, AttemptDiscarded})
_set = object.__setattr__


@dataclass(slots=True, eq=False)
class Causality:
    before: tuple[int, ...] = ()
    observations: list[int] = field(default_factory=list)
    _root: tuple[int, ...] = ()  # StreamStart, or StepStart before there is one
    _stream_end: tuple[int, ...] = ()
    _calls: dict[str, int] = field(default_factory=dict)  # the latest event of each call
    _latest: tuple[int, ...] = ()  # the start of the latest text or reasoning
    _parts: dict[type, int] = field(default_factory=dict)  # the start of the text or reasoning that now streams

    def begin_attempt(self) -> None:
        self.observations.clear()
        self._calls.clear()
        self._parts.clear()
        self._latest = self._stream_end = ()

    def stamp(self, event: CausedEvent, seq: int, step: int, time: float) -> None:
        causes, kind = self._root, type(event)
        if (call_id := getattr(event, "call_id", None)) is not None:
            before = self._calls.get(call_id)
            causes = (*causes, *self._latest) if before is None else (before,)
            self._calls[call_id] = seq
            if kind is Observation:
                self.observations.append(seq)
        elif kind is TextStart or kind is ReasoningStart:
            self._parts[kind], self._latest = seq, (seq,)
        elif kind is TextEnd or kind is ReasoningEnd:
            start = self._parts.get(_START_OF[kind])
            causes = causes if start is None else (start,)
        elif kind is StreamEnd:
            self._stream_end = (seq,)
        elif kind is StepEnd:
            causes = (*self._stream_end, *self.observations) or causes
        elif kind in _ROOTS:
            causes = self.before if kind is StepStart else causes
            if kind is AttemptDiscarded:
                causes = (*causes, *self.observations)
            self._root = (seq,)
        if event.causes:
            causes = tuple(dict.fromkeys((*event.causes, *causes)))
        if kind is Observation:  # the one kind that is frozen, which makes this eight times as slow
            for name, value in (("seq", seq), ("step", step), ("time", time), ("causes", causes)):
                _set(event, name, value)
            return
        event.seq, event.step, event.causes = seq, step, causes  # type: ignore[misc]
        if kind is not ToolStarted or not event.time:  # a trial's has the time at which the trial began
            event.time = time  # type: ignore[misc]
