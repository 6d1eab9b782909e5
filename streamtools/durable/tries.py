"""Makes the attempts at a step's answer, one after the other, where a policy may ask the model again.

Theory of operation. When an attempt breaks off, and before the last events of its decoder are emitted, the pump asks
`discards`, which asks the policy (`streamtools.seams.Attempts`). If the attempt is *discarded*, its calls are observed
as ``discarded`` at once: otherwise a call that cannot be discarded could begin while the source is being closed. Then
the runner reads another source with a new decoder, new calls and an empty turn. If a call has begun that must not run
twice, the attempt is *cut*: its running calls continue, and `agent_loop` asks for the next step. Otherwise the error is
raised. Before all that, the rest of a response may be requested (`rest`): the same decoder continues, and nothing is
discarded.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope

from ..decode import StreamDecoder
from ..decode.body import Body, read_json
from ..dispatch.states import Call, Ending, Mention, begin_wait, end_wait
from ..errors import TruncatedStream
from ..events import AttemptBegan, AttemptCommitted, AttemptDiscarded, Observation, StreamEnd
from ..framing import Frame
from ..ground import type_name
from ..limits import Limits
from ..parts import OUTCOMES, Failure, ResumePoint, Usage
from ..seams import Again, Attempts, Cut, Rest, Sight
from ..sources import ModelRequest, Source
from ..wires import malformed

if TYPE_CHECKING:
    from ..pipelines.attempt import Reading
    from ..pipelines.pump import Pump
    from ..pipelines.runner import Runner
    from ..wires import Wire


class PolicyTries:
    """The attempts of one step, as a policy decides.

    Args:
        policy: decides which request is made after a failure.
        functions: each makes a request; the first one is called first.
        read: returns the parts that read such a request.
        wire: the wire of all requests.
    """

    def __init__(
        self,
        runner: Runner,
        policy: Attempts,
        functions: Sequence[Callable[[], Any]],
        read: Callable[[ModelRequest], Reading],
        wire: Wire | str | None,
    ) -> None:
        self.number = 1  # of the attempt
        self.is_cut = False  # the attempt broke off, and is committed nevertheless
        self.is_followed = False  # after a cut step, another one is requested with its results
        self._runner = runner
        self._carried = _Carried()
        self.serves, self.drop_carried = self._carried.serves, self._carried.drop
        self._policy = policy
        self._functions = functions
        self._read = read
        self._wire = wire
        self._after_output = getattr(policy, "after_output", False)
        self._fallback = 0  # the index of the function that was called; their number if it was another one
        self._request = functions[0]
        self._asked = 1  # how often it was called, in a row
        self._rests = 0  # how often the rest of the attempt's response was requested
        self._broke: tuple[Exception | None, Source, int] | None = None  # why, where, and how much had come
        self._began_at = 0.0  # the first attempt, on ``time.monotonic``
        self._pause_s = 0.0  # before the next attempt
        self._seq = -1  # of the event that began the attempt, or its end
        self._is_committed = False
        self._discarded: dict[str, Observation] = {}  # of the calls of discarded attempts
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
        """Reads attempts, each after the one before it was discarded."""
        runner = self._runner
        while (discarded := runner.attempt).pump.is_discarded:
            runner.deadlines.source_is_over()
            attempt = runner.read_anew(self._read(ModelRequest(self._request, self._wire)))
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

    def discarded_end(self, call: Mention | str) -> Observation | None:
        call_id = call if isinstance(call, str) else call.call_id
        seen, seq = self._discarded.get(call_id), getattr(call, "seq", -1)
        is_discarded = not self._runner.attempt.calls.knows(call_id) if seq < 0 else seq < self._seq
        return seen if is_discarded else None

    # -- for the pump --

    def rest(self, pump: Pump) -> Source | None:
        assert isinstance(pump.decoder, StreamDecoder), "else no model is asked"
        error, source, came = pump.raised, pump.source, pump.decoder.received
        if self._broke is not None and self._broke[2] == came:
            error, source, _ = self._broke  # the rest was refused: that is not why the response broke off
        self._broke = error, source, came
        point = pump.decoder.resume_point()
        if point is not None:
            # The policy gets the latest error: a rest that is refused for good is not requested again.
            latest = pump.raised or TruncatedStream("the stream ended before its terminal marker")
            chosen = self._chosen(pump.failure(latest), latest, None, point)
            if isinstance(chosen, Rest) and self._leaves(chosen.pause_s, None):
                self._rests += 1
                return _RestSource(ModelRequest(chosen.request, self._wire, chosen.pause_s), pump.limits)
        pump.raised, pump.blamed = error, source
        return None

    def discards(self, error: Exception, end: StreamEnd) -> bool:
        if end.error is None:
            return False
        attempt, step = self._runner.attempt, self._runner.step
        failure = attempt.pump.failure(error)
        chosen = self._chosen(failure, error, end.usage, None)
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
        self._discarded |= attempt.calls.discard(event.usage, self._carried.keep)
        if self._take_back_counts is not None:
            self._take_back_counts()
        step.discard(event)
        self._seq, self._pause_s, self._rests, self._broke = event.seq, chosen.pause_s, 0, None
        self._asked = self._asked + 1 if request is self._request and fallback == self._fallback else 1
        self._fallback, self._request = fallback, request
        self.number += 1
        return True

    def _next(self, again: Again) -> tuple[int, Callable[[], Any]]:
        functions = self._functions
        if again.request is not None:
            if not callable(again.request):
                raise TypeError(f"Again(request=...) must be a function, not {type_name(again.request)}")
            return len(functions), again.request
        if again.fallback is not None:
            if not 0 <= again.fallback < len(functions):
                raise ValueError(f"Again(fallback={again.fallback}): there are {len(functions) - 1} fallbacks")
            return again.fallback, functions[again.fallback]
        return self._fallback, self._request

    def _chosen(
        self, failure: Failure, error: Exception, usage: Usage | None, point: ResumePoint | None
    ) -> Again | Rest | Cut | None:
        runner, policy = self._runner, self._policy
        sight = Sight(
            attempt=self.number,
            fallback=self._fallback,
            fallbacks=len(self._functions) - 1,
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
        except Exception as mistake:  # the failure is raised, with a note on why no attempt followed
            error.add_note(f"{type_name(policy)}.broke failed: {mistake!r}")
            return None
        return chosen

    def _leaves(self, seconds: float, usage: Usage | None) -> bool:
        runner = self._runner
        limits, then = runner.deadlines.limits, time.monotonic() + seconds
        ends = ((limits.step_timeout, runner.deadlines.began_at), (limits.run_timeout, runner.trajectory.began_at))
        leaves = all(most is None or began + most > then for most, began in ends)
        return leaves and runner.attempt.calls.leaves_tokens(usage)

    def _commit(self, end: StreamEnd) -> None:
        if self._is_committed or (end.error is not None and not self.is_cut):
            return
        self._is_committed = True
        self._runner.step.emit(AttemptCommitted(self.number, self.is_cut))
        self._carried.cancel_all_but(self._runner.attempt.calls.all)


# -- the rest of a response --


class _RestSource(Source):
    """The rest of a response that broke off, from another source, for the decoder that has read its beginning.

    The decoder's framing may hold the beginning of an event that comes again as a whole. So the rest is split into its
    payloads here, and observers of the body see these in place of bytes.
    """

    async def items(self) -> AsyncIterator[Any]:
        payloads = _payloads(await super().items(), self.as_item, self._limits)
        self._closes(payloads)
        return payloads


async def _payloads(
    items: AsyncIterator[Any], as_item: Callable[[Any], Any], limits: Limits
) -> AsyncGenerator[Mapping[str, Any], None]:
    body = Body(limits)
    async for one in items:
        item = as_item(one)
        if isinstance(item, Mapping):
            yield item
        elif item is not None:
            data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            for payload in _read(body.feed_payloads(data)):
                yield payload
    for payload in _read(body.finish()):
        yield payload


def _read(found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for one in found:
        data = (one.data if isinstance(one, Frame) else one).strip()
        if not data or data == b"[DONE]" or data.startswith(b":"):
            continue
        payload = read_json(data)
        if not isinstance(payload, dict):
            raise malformed("the data of an event in the rest of the response is not a JSON object")
        yield payload


# -- calls of discarded attempts --


@dataclass(slots=True, eq=False)
class _Carried:
    """Keeps pure and idempotent calls of a discarded attempt for the next one, so that no tool runs twice for one
    purpose: each gives its ending to one identical call; the others are cancelled."""

    _kept: dict[str, list[tuple[Call, Callable[[Call], Awaitable[None]]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def keep(self, call: Call, wait: Callable[[Call], Awaitable[None]]) -> None:
        """Keeps a call of an attempt that is about to be discarded, if it has begun and was not told to stop; `wait`
        waits until all of its tasks have ended."""
        has_run = call.attempts or (call.ending is not None and call.ending.recorded)
        if not has_run or call.state not in ("running", "observed") or call.bound is None:
            return
        if call.tool is None or call.tool.effect == "once" or call.needs:
            return
        try:
            self._kept[call.fingerprint].append((call, wait))
        except ValueError:  # its arguments are not plain JSON
            return

    async def serves(self, call: Call) -> bool:
        """Gives a call that has its place the ending of an identical one, once that has ended; returns False if there
        is none, or it ended in a way that another run may mend."""
        try:
            kept = self._kept.get(call.fingerprint)
        except ValueError:
            return False
        if not kept:
            return False
        earlier, wait = kept.pop(0)
        begin_wait(call, "elsewhere")
        try:
            with CancelScope() as call.scope:
                await wait(earlier)
        finally:
            end_wait(call, time.monotonic())
            if call.seen is not None and call.seen.outcome == "discarded":  # the next attempt may want it
                kept.append((earlier, wait))
            elif earlier.tasks:  # no other call wants it
                _cancel(earlier)
        ending = _ending(earlier)
        if call.state == "starting" and ending is not None:
            call.ending = replace(ending, recorded=True, again=False)
        return call.ending is not None or call.state != "starting"

    def cancel_all_but(self, calls: Iterable[Call]) -> None:
        wanted = {call.fingerprint for call in calls if call.bound is not None} if self._kept else set()
        for fingerprint, kept in self._kept.items():
            for call, _ in () if fingerprint in wanted else kept:
                _cancel(call)

    async def drop(self) -> None:
        left = [one for kept in self._kept.values() for one in kept]
        self._kept.clear()
        for call, _ in left:
            _cancel(call)
        for call, wait in left:
            await wait(call)


def _cancel(call: Call) -> None:
    if call.tasks and call.scope is not None:
        call.scope.cancel()


def _ending(call: Call) -> Ending | None:
    ending = call.ending
    if ending is None or OUTCOMES[ending.outcome].may_have_had_effect or OUTCOMES[ending.outcome].may_run_later:
        return None
    # Its own attempts end with its answer.
    return None if ending.again and call.tool is not None and call.tool.retries else ending
