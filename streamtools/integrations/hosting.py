"""Runs the calls of one adapter: in one pool, in the model's order, in the caller's event loop or in one of its own.

Theory of operation. Each call is a run of its own, so that what is about other calls is kept by what they share:

* **The pool**, which holds in all event loops at once, so that ``exclusive``, ``conflict_key`` and limits are the same
  however the framework was started.
* **The line** of an answer, by which its calls enter the pool in the model's order. Tasks arrive in that order; threads
  race, so that a call from a thread says its number, and waits a moment for those before it. A call that the framework
  has kept back never arrives, hence no more than a moment.
* **The loop**, for threads: one for all calls at the same time, in a daemon thread that ends with the last of them. The
  caller's context variables come along. A thread in which an event loop runs may call as well: that loop stands still.

A forked child begins anew, since a fork takes no threads along.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.from_thread import BlockingPortalProvider
from anyio.lowlevel import EventLoopToken, current_token

from ..dispatch import Approver, CallPool, IdempotencyStore
from ..dispatch.endings import DONE_BEFORE
from ..dispatch.event_loop import call_soon
from ..errors import LocalProtocolError, ToolNotStarted
from ..events import Observation, StreamEnd
from ..front import StepKeywords, run_calls
from ..front.checked import check_operations, has_policy
from ..front.given_calls import AnyCall
from ..limits import Limits
from ..observers import Observer
from ..pipelines import Trajectory
from ..tools import Effect, Tool, Toolset
from ..waiting.edits import note_of_edits
from .identity import AnswerName

MakeObservers: TypeAlias = Callable[[], Iterable[Observer]]

_MOMENT_S = 0.25  # until threads that were started one after the other have all arrived, on a busy machine


@dataclass(frozen=True, slots=True)
class CallPlace:
    answer: Hashable  # names the answer while its calls run
    number: int | None = None
    """The number of the call in it, from 0; None: the order in which the calls arrive is the model's."""


def check_policies(adapter: str, options: StepKeywords, tools: Toolset) -> None:
    if has_policy(options.get("policy"), tools):
        raise TypeError(
            f"{adapter}: policy= cannot be enforced, since only the framework knows the messages; use "
            "agent_loop(...), or needs_approval="
        )


def check_budgets(adapter: str, options: StepKeywords) -> None:
    """Refuses budgets of a run where the framework's run is many runs here."""
    limits = options.get("limits", Limits())
    for name in ("call_budget", "token_budget"):
        if getattr(limits, name) is not None:
            raise TypeError(
                f"{adapter}: Limits({name}=...) cannot be enforced, since the calls do not belong to one run; pass "
                f"pool=CallPool({name}=...) to the adapter"
            )


def tool_of(known: Toolset, name: str, run: Any, *, effect: Effect = "once") -> Tool[..., Any]:
    """Returns the tool of a call whose body is `run`: the known one, or one that takes any arguments."""
    if (tool := known.get(name)) is not None:
        return tool.running(run)
    return Tool.from_schema(run, {"type": "object"}, name=name, description="", pass_as="mapping", effect=effect)


class CallHost:
    """Runs the calls of one adapter, whose `known` tools have options of ours; for the others see `run_calls`. Raises a
    TypeError if an option cannot hold where each call is a run of its own, or for a tool's operation without a
    store."""

    def __init__(
        self,
        adapter: str,
        known: Toolset,
        *,
        store: IdempotencyStore | None,
        observers: MakeObservers | None,
        options: StepKeywords,
    ) -> None:
        on_tool_error = options.get("on_tool_error", "continue")
        if on_tool_error not in ("continue", "raise"):
            raise TypeError(
                f'{adapter}: on_tool_error="cancel" cannot be enforced, since the framework runs each call '
                "separately; use agent_loop(...) or CallsExecutor"
            )
        check_policies(adapter, options, known)
        check_budgets(adapter, options)
        check_operations(known, store, "known when a call is made")
        self.ends_runs = on_tool_error == "raise"  # by an exception of a tool
        self.store = store
        self.approver = options.get("approve")
        self._observers = observers
        self._options = options
        self._privacy = options.get("privacy")
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._pool = self._options.get("pool") or CallPool(self._options.get("limits", Limits()))
        self._portals = BlockingPortalProvider()
        self._lines: dict[Hashable, _Line] = {}
        self._lock = threading.Lock()

    def raises(self, seen: Observation) -> bool:
        """Returns whether the exception by which a call ended is raised; else the model reads of it. A call that has
        had no effect is forgotten by a store, so that what the model was told of it could become untrue."""
        is_forgotten = self.store is not None and isinstance(seen.error, ToolNotStarted)
        return seen.outcome == "failed" and seen.attempts > 0 and (self.ends_runs or is_forgotten)

    async def run(
        self,
        call: AnyCall,
        tool: Tool[..., Any],
        *,
        identity: AnswerName | None,
        place: CallPlace | None,
        approve: Approver | None = None,
    ) -> Observation:
        """Runs one call in the caller's event loop, and returns its Observation. `identity` names the answer that the
        call stands in, for the store, and `place` where in it, if that is known; `approve` stands for the option of
        that name."""
        self._check_process()
        if place is None:
            return await self._run(call, tool, identity, lambda: None, approve)
        line, number = self._lined_up(place)
        entered = partial(line.enter, number)
        try:
            await line.wait(number)
            return await self._run(call, tool, identity, entered, approve)
        finally:
            entered()
            self._leave(place.answer, line)

    def run_sync(
        self,
        call: AnyCall,
        tool: Tool[..., Any],
        *,
        identity: AnswerName | None,
        place: CallPlace | None,
        approve: Approver | None = None,
    ) -> Observation:
        self._check_process()
        work: Callable[[], Coroutine[Any, Any, Observation]] = partial(
            self.run, call, tool, identity=identity, place=place, approve=approve
        )
        with self._portals as portal:
            done: Future[Observation] = portal.start_task_soon(work)
            try:
                return done.result()
            except CancelledError:
                raise LocalProtocolError("the event loop of the calls has ended") from None
            except BaseException:
                done.cancel()
                raise

    async def _run(
        self,
        call: AnyCall,
        tool: Tool[..., Any],
        identity: AnswerName | None,
        entered: Callable[[], None],
        approve: Approver | None,
    ) -> Observation:
        options: StepKeywords = {**self._options, "pool": self._pool, "privacy": None, "on_tool_error": "continue"}
        if approve is not None:
            options["approve"] = approve
        answer, conversation = (None, None) if identity is None else identity
        observers = None if self._observers is None else self._observers()
        run = Trajectory(conversation_id=conversation, observers=observers, privacy=self._privacy)
        running = run_calls([call], [tool], store=self.store, identity=answer, trajectory=run, **options)
        async with running as events:
            async for event in events:
                if type(event) is StreamEnd:  # the call has its place by now, or waits for an approval, or is over
                    entered()
        (seen,) = events.turn.observations
        return seen

    def _check_process(self) -> None:
        if self._process != os.getpid():
            self._begin()

    def _lined_up(self, place: CallPlace) -> tuple[_Line, int]:
        with self._lock:
            line = self._lines.setdefault(place.answer, _Line())
            line.calls += 1
            number = line.arrived if place.number is None else place.number
            line.arrived += 1
            return line, number

    def _leave(self, answer: Hashable, line: _Line) -> None:
        with self._lock:
            line.calls -= 1
            if not line.calls and self._lines.get(answer) is line:
                del self._lines[answer]


class _Line:
    def __init__(self) -> None:
        self.calls = 0
        self.arrived = 0
        self._lock = threading.Lock()
        self._entered: set[int] = set()
        self._waiting: list[tuple[EventLoopToken, anyio.Event]] = []

    def enter(self, number: int) -> None:
        with self._lock:
            if number in self._entered:
                return
            self._entered.add(number)
            waiting, self._waiting = self._waiting, []
        for loop, changed in waiting:
            call_soon(loop, changed.set)

    async def wait(self, number: int) -> None:
        with anyio.move_on_after(_MOMENT_S):
            while (changed := self._change_before(number)) is not None:
                await changed.wait()

    def _change_before(self, number: int) -> anyio.Event | None:
        with self._lock:
            if self._entered.issuperset(range(number)):
                return None
            changed = anyio.Event()
            self._waiting.append((current_token(), changed))
            return changed


# -- what a model reads beside a result --


def is_repetition(seen: Observation) -> bool:
    return seen.recorded and seen.model_content.startswith(DONE_BEFORE)


def notes_of(seen: Observation) -> list[str]:
    notes = [DONE_BEFORE] if is_repetition(seen) else []
    return notes if seen.edited is None else [note_of_edits(seen.edited), *notes]
