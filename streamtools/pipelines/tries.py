"""Makes the attempts at a step's answer, one after the other, where a policy may ask the model again.

Theory of operation. When an attempt breaks off, and before the last events of its decoder are emitted, the pump asks
`Tries.discards`, which asks the policy (`streamtools.seams.Attempts`). If the attempt is *discarded*, its calls are
observed as ``discarded``, at once: a call may begin while the source is closed, and must not be one that nobody may
discard. Then the runner reads another source with a new decoder, new calls and an empty turn. If a call has begun that
must not run twice, the attempt is *cut*: its running calls go on, and `agent_loop` asks for the next step. Otherwise
the error is raised. Before all that, the rest of a response may be asked for (`Tries.rest`): the same decoder reads on,
and nothing is discarded.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from anyio import CancelScope

from ..dispatch.states import Call, Mention
from ..events import AttemptBegan, AttemptCommitted, AttemptDiscarded, Observation, StreamEnd
from ..ground.text import type_name
from ..parts import Failure, ResumePoint, Usage
from ..seams import Again, Attempts, Cut, Rest, Sight
from ..sources import Source
from .attempt import Attempt, Reading
from .deadlines import Deadlines
from .step import Step
from .trajectory import Trajectory


class Carries(Protocol):
    """Keeps calls of discarded attempts for those of the next one."""

    def keep(self, call: Call, wait: Callable[[Call], Awaitable[None]]) -> None:
        """Keeps a call of an attempt that is about to be discarded, if it may serve another one."""
        ...

    async def serves(self, call: Call) -> bool:
        """Gives a call that has its place the ending of one that is the same, once that has ended; returns False if
        it has to run."""
        ...

    def cancel_all_but(self, calls: Iterable[Call]) -> None: ...

    async def drop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The requests that a step may make, and the policy that decides which one is made after a failure."""

    policy: Attempts
    functions: tuple[Callable[[], Any], ...]  # each makes a request; the first is asked first
    read: Callable[[Callable[[], Any]], Reading]
    open_rest: Callable[[Rest], Source]  # of a response that broke off
    carries: Carries


class Running(Protocol):
    step: Step
    attempt: Attempt
    deadlines: Deadlines
    trajectory: Trajectory

    def read_anew(self, reading: Reading) -> Attempt: ...


class Tries:
    def __init__(self, runner: Running, requests: Requests) -> None:
        self.number = 1  # of the attempt
        self.is_cut = False  # the attempt has ended in its middle, and is committed all the same
        self.is_followed = False  # a step that is cut is followed by another one, which is asked with its results
        self._runner = runner
        self.serves, self.drop_carried = requests.carries.serves, requests.carries.drop
        self._requests = requests
        self._after_output = getattr(requests.policy, "after_output", False)
        self._fallback = 0  # which of the functions was asked; their number if it was another one
        self._request = requests.functions[0]
        self._asked = 1  # how often it was, in a row
        self._rests = 0  # how often the rest of the attempt's response was asked for
        self._began_at = 0.0  # the first attempt, on ``time.monotonic``
        self._pause_s = 0.0  # before the next attempt
        self._seq = -1  # of the event that the attempt, or its end, has begun with
        self._is_committed = False
        self._void: dict[str, Observation] = {}  # of the calls of discarded attempts
        self._take_back_counts: Callable[[], None] | None = None  # those of the attempt's calls in their run
        self._pause: CancelScope | None = None  # around the wait for another attempt
        self._cut_for: str | None = None  # why the response was cut

    # -- for the runner --

    def listen(self) -> None:
        self._runner.step.listen({StreamEnd: self._commit})

    def begin(self) -> None:
        step = self._runner.step
        if self._after_output:  # else it is discarded before it has any call
            self._take_back_counts = step.counts.mark()
        self._began_at = self._began_at or time.monotonic()
        event = AttemptBegan(self.number, self._fallback, self._after_output)
        step.emit(event)
        self._seq = event.seq

    async def go_on(self) -> None:
        """Reads one attempt after the other, as long as the one before it was discarded."""
        runner = self._runner
        while (discarded := runner.attempt).pump.is_void:
            runner.deadlines.source_is_over()
            attempt = runner.read_anew(self._requests.read(self._request))
            if discarded.expired is not None:
                attempt.expire(discarded.expired)
            if self._cut_for is not None:
                attempt.pump.cut()
                attempt.calls.cut(self._cut_for)
            with CancelScope() as self._pause:
                await anyio.sleep(self._pause_s if self._cut_for is None and discarded.expired is None else 0)
            self._pause = None
            runner.deadlines.begin_source(attempt.pump, time.monotonic())
            self.begin()
            await attempt.pump.run()

    def cut(self, reason: str) -> None:
        self._cut_for = reason
        self.wake()

    def wake(self) -> None:
        if self._pause is not None:
            self._pause.cancel()

    def void(self, call: Mention | str) -> Observation | None:
        call_id = call if isinstance(call, str) else call.call_id
        seen, seq = self._void.get(call_id), getattr(call, "seq", -1)
        is_void = not self._runner.attempt.calls.knows(call_id) if seq < 0 else seq < self._seq
        return seen if is_void else None

    # -- for the pump --

    def rest(self, error: Exception, point: ResumePoint) -> Source | None:
        chosen = self._asked_for(self._runner.attempt.pump.failure(error), error, None, point)
        if not isinstance(chosen, Rest) or not self._leaves(chosen.pause_s, None):
            return None
        self._rests += 1
        return self._requests.open_rest(chosen)

    def discards(self, error: Exception, end: StreamEnd) -> bool:
        if end.error is None:
            return False
        attempt, step = self._runner.attempt, self._runner.step
        failure = attempt.pump.failure(error)
        chosen = self._asked_for(failure, error, end.usage, None)
        if not isinstance(chosen, (Again, Cut)) or (step.has_output and not self._after_output):
            return False
        if attempt.calls.is_bound or isinstance(chosen, Cut):
            self.is_cut = attempt.calls.is_bound
            return False
        fallback, request = self._next(chosen)
        if not self._leaves(chosen.pause_s, end.usage):
            return False
        event = AttemptDiscarded(self.number, self._seq, end.error.kind, failure.error_type, chosen.pause_s, end.usage)
        if attempt.pump.came:
            attempt.warn_of_counts(end)
        self._void |= attempt.calls.discard(event.usage, self._requests.carries.keep)
        if self._take_back_counts is not None:
            self._take_back_counts()
        step.discard(event)
        self._seq, self._pause_s, self._rests = event.seq, chosen.pause_s, 0
        self._asked = self._asked + 1 if request is self._request and fallback == self._fallback else 1
        self._fallback, self._request = fallback, request
        self.number += 1
        return True

    def _next(self, again: Again) -> tuple[int, Callable[[], Any]]:
        functions = self._requests.functions
        if again.request is not None:
            if not callable(again.request):
                raise TypeError(f"Again(request=...) is a function, not {type_name(again.request)}")
            return len(functions), again.request
        if again.fallback is not None:
            if not 0 <= again.fallback < len(functions):
                raise ValueError(f"Again(fallback={again.fallback}): there are {len(functions) - 1}")
            return again.fallback, functions[again.fallback]
        return self._fallback, self._request

    def _asked_for(
        self, failure: Failure, error: Exception, usage: Usage | None, point: ResumePoint | None
    ) -> Again | Rest | Cut | None:
        runner, policy = self._runner, self._requests.policy
        sight = Sight(
            attempt=self.number,
            fallback=self._fallback,
            fallbacks=len(self._requests.functions) - 1,
            asked=self._asked,
            rests=self._rests,
            elapsed_s=time.monotonic() - self._began_at,
            error=error,
            usage=usage,
            has_output=runner.step.has_output,
            is_bound=runner.attempt.calls.is_bound,
            resume_from=point,
        )
        try:
            chosen = policy.broke(failure, sight)
            if isinstance(chosen, Again):
                self._next(chosen)
            elif not (chosen is None or isinstance(chosen, (Rest, Cut))):
                raise TypeError(f"it returned {type_name(chosen)}")
        except Exception as mistake:  # the failure is what is raised, and says why nothing followed it
            error.add_note(f"{type_name(policy)}.broke failed: {mistake!r}")
            return None
        return chosen

    def _leaves(self, seconds: float, usage: Usage | None) -> bool:
        runner = self._runner
        leaves = runner.deadlines.leaves(seconds, runner.trajectory.began_at)
        return leaves and runner.attempt.calls.leaves_tokens(usage)

    def _commit(self, end: StreamEnd) -> None:
        if self._is_committed or (end.error is not None and not self.is_cut):
            return
        self._is_committed = True
        self._runner.step.emit(AttemptCommitted(self.number, self.is_cut))
        self._requests.carries.cancel_all_but(self._runner.attempt.calls.all)
