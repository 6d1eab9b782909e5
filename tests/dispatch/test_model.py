"""One turn of calls through a real pipeline, beside a model of it: hypothesis makes up what happens and when.

The source, the executor and the time are the test's: an event loop that is driven by hand, whose clock stands. Each
rule does one thing, lets everything settle, and then compares every call with the model.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples

from streamtools import Event, Limits, Observation, TextDelta, Tool, ToolCallValidated, Trajectory, pipeline
from streamtools import tool as tool_of
from streamtools.dispatch import MemoryStore
from streamtools.errors import (
    BeginRefused,
    LocalProtocolError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from streamtools.events import ToolStarted
from streamtools.executors import Invocation
from streamtools.observers import Observer
from streamtools.stages import DEFAULT

LONG_S = 5_000.0  # beyond every time here but the grace
OPEN = ("queued", "starting", "running", "retrying", "stopping")
AGAIN = {"raises": "failed", "crashes": "unknown", "lost": "unknown", "late": "timed_out"}
SELDOM = st.integers(0, 9).map(lambda drawn: drawn == 7)  # hypothesis likes the ends of a range
ENDS = {"value": "ok", "tool error": "failed", "cancelled": "cancelled", **AGAIN}


# -- the model --------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Expected:
    """One call, as it should be."""

    def __repr__(self) -> str:
        return f"{self.call_id} ({self.tool.name}): {self.state}, {self.outcome}"

    call_id: str
    tool: Tool[..., Any]
    state: str = "announced"
    outcome: str | None = None
    place: int | None = None  # its age in the order
    busy: bool = False  # its task lives: it has its place
    tries: int = 0
    begun: int = 0  # how often it may begin so far
    resting: bool = False  # between two tries
    expired: bool = False  # its time is up, and its code goes on
    latest: str | None = None  # how the latest try ended that had begun

    @property
    def key(self) -> str | None:
        return "x" if self.tool.conflict_key is not None else None


class Model:
    """What should become of the calls: `docs/internals.md`, Dispatch."""

    def __init__(self, policy: str, cancels: bool, drain: bool, most: int) -> None:
        self.policy, self.cancels, self.drain, self.most = policy, cancels, drain, most
        self.calls: list[Expected] = []
        self.end: str | None = None  # "good", "bad", "failed"
        self.stopped = self.left = False
        self._ages = 0

    def of(self, *states: str) -> list[Expected]:
        return [call for call in self.calls if call.state in states]

    # what is told of a call, or done to it

    def ready(self, call: Expected) -> None:
        if call.state != "ended":
            return
        if self.stopped or self.end in ("bad", "failed"):
            self.observe(call, "skipped")
        elif self.policy == "manual":
            call.state = "held"
        elif self._free(call):
            self.go(call)
        else:
            call.state = "held"
            if not call.tool.needs_approval:
                self._take_place(call)

    def _free(self, call: Expected) -> bool:
        held = self.policy == "turn_end" or (self.policy == "auto" and call.tool.effect == "once")
        return self.end == "good" or not held

    def go(self, call: Expected) -> None:
        call.state = "asked" if call.tool.needs_approval else "queued"
        self._advance(call)

    def approve(self, call: Expected) -> None:
        call.state = "queued"
        self._advance(call)

    def _advance(self, call: Expected) -> None:
        if call.state == "queued":
            self._take_place(call)
        self._grant()

    def _take_place(self, call: Expected) -> None:
        if call.place is None:
            call.place, self._ages = self._ages, self._ages + 1

    def _grant(self) -> None:
        """The oldest that may go, goes, while there is room."""
        placed = sorted((call for call in self.calls if call.place is not None), key=lambda call: call.place or 0)
        for call in placed:
            older = [one for one in placed[: placed.index(call)] if one.busy or one.state in ("held", "queued")]
            after = any(
                one.key == call.key == "x" and not (one.tool.effect == call.tool.effect == "pure") for one in older
            )
            if call.state == "queued" and not after and sum(one.busy for one in self.calls) < self.most:
                call.state, call.busy = "starting", True

    def begin(self, call: Expected) -> None:
        call.state, call.begun = "running", call.begun + 1

    def attempt_over(self, call: Expected, how: str) -> None:
        """The executor has ended: by itself, or because it was told to."""
        had_begun = call.state in ("running", "stopping")
        if call.expired and how == "cancelled" and call.state == "running":
            how = "late"
        call.tries, call.expired = call.tries + 1, False
        again = how in AGAIN or how == "not started"
        if had_begun:
            call.latest = ENDS[how]
        if again and call.tries <= call.tool.retries and call.state != "stopping":
            call.resting = True
            call.state = "retrying" if had_begun else call.state
        else:
            unbegun = {"not started": "failed", "no begin": "unknown"}
            self._over(call, call.latest or unbegun[how])

    def _over(self, call: Expected, outcome: str) -> None:
        call.busy = False
        self.observe(call, outcome)

    def observe(self, call: Expected, outcome: str) -> None:
        assert call.state != "observed"
        call.state, call.outcome, call.resting = "observed", outcome, False
        if (
            self.cancels
            and outcome in ("failed", "timed_out", "unknown")
            and not self.stopped
            and call.place is not None
        ):
            self.stop()
        self._grant()

    def cancel(self, calls: Iterable[Expected], otherwise: str = "cancelled") -> None:
        """Stop these: what has not begun gets the other outcome."""
        for call in list(calls):
            if call.state == "running":
                call.state = "stopping"
            elif call.state == "retrying":
                call.busy = False
                call.state, call.outcome, call.resting = "observed", "cancelled", False
            elif call.state not in ("stopping", "observed"):
                call.busy = False
                call.state, call.outcome, call.resting = "observed", otherwise, False
        self._grant()

    def stop(self) -> None:
        """Nothing more starts."""
        self.stopped = True
        self.cancel(self.of("held", "asked"), "skipped")
        self.cancel(self.of(*OPEN))

    def stream_ends(self, how: str) -> None:
        self.end = how
        for call in self.of("announced"):
            self.observe(call, "truncated")
        if how != "good" or self.stopped:
            self.cancel(self.of("ended", "held", "asked", "queued", "starting"), "skipped")
            if how == "failed" and not self.drain:
                self.cancel(self.of(*OPEN))
        elif self.policy != "manual":
            for call in self.of("held"):
                if not self.stopped:
                    self.go(call)
        self.settle()

    def settle(self) -> None:
        """When nothing runs and nobody is asked, the step is over."""
        to_tell = not self.stopped and (self.of("asked") or (self.policy == "manual" and self.of("held")))
        waits = any(call.busy for call in self.calls) or self.of(*OPEN) or (to_tell and self.end != "failed")
        if self.left or (self.end and not waits):
            self.cancel(self.of("ended", "held", "asked"), "skipped")
            self.cancel(self.of("announced"), "truncated")
            self.left = True

    def leave(self) -> None:
        self.stop()
        self.left = True

    def claim_of(self, call: Expected) -> str:
        """What a store should know of it."""
        if not call.begun or (call.tool.effect != "once" and not call.tool.needs_approval):
            return "free"
        if call.state == "observed":
            return "recorded" if call.outcome in ("ok", "failed") else "unknown"
        return "claimed"


# -- what the test has in its hands -----------------------------------------------------------------------------------


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time is said by the test, and whose rounds are run by it."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        async def rounds() -> None:
            for _ in range(40):
                await asyncio.sleep(0)

        self.run_until_complete(rounds())


class Script:
    """A source that brings what it is given."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[Any] = asyncio.Queue()

    def __aiter__(self) -> Script:
        return self

    async def __anext__(self) -> Any:
        item = await self.items.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, Exception):
            raise item
        return item


class HoldBack:
    """A stage behind all others that keeps each `ToolCallValidated` until a text names its call."""

    handles = frozenset({ToolCallValidated, TextDelta})

    def __init__(self) -> None:
        self.kept: dict[str, Event] = {}

    def feed(self, event: Event) -> Iterable[Event]:
        if isinstance(event, ToolCallValidated):
            self.kept[event.call.call_id] = event
            return ()
        if isinstance(event, TextDelta):
            kept = self.kept.pop(event.text, None)
            return (event,) if kept is None else (event, kept)
        return (event,)

    def finish(self) -> Iterable[Event]:
        return ()


@dataclass(eq=False)
class Attempt:
    """A call that the executor was given."""

    call: Invocation
    told: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    begun: bool = False
    cancelled: bool = False


class Hands:
    """An executor whose every step is told by the test. Its cleanup, too, lasts until it is told to end."""

    def __init__(self) -> None:
        self.runs: dict[str, Attempt] = {}
        self.granted: dict[str, int] = defaultdict(int)
        self.broken: list[str] = []

    async def __aenter__(self) -> Hands:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return None

    async def run(self, call: Invocation, begin: Any, emit: Any, /) -> Any:
        if call.call_id in self.runs:
            self.broken.append(f"{call.call_id} is given twice at once")
        attempt = self.runs[call.call_id] = Attempt(call)
        try:
            return await self._run(attempt, begin)
        except asyncio.CancelledError:
            attempt.cancelled = True
            if not attempt.begun:
                try:
                    await begin()
                    self.broken.append(f"{call.call_id} began after its end")
                except BeginRefused:
                    pass
                raise
            if await attempt.told.get() == "value":
                return "ended"
            raise
        finally:
            del self.runs[call.call_id]

    async def _run(self, attempt: Attempt, begin: Any) -> Any:
        word = await attempt.told.get()
        if word == "begin":
            await begin()
            attempt.begun = True
            self.granted[attempt.call.call_id] += 1
            try:
                await begin()
                self.broken.append("begin was granted twice")
            except LocalProtocolError:
                pass
            word = await attempt.told.get()
        match word:
            case "value" | "no begin":
                return {"n": 1}
            case "tool error":
                raise ToolError("no")
            case "raises":
                raise ToolFailed("it raised")
            case "lost":
                raise ToolOutcomeUnknown("lost")
            case "late":
                raise ToolTimeout(1.0)
            case "not started":
                raise ToolNotStarted("no worker")
        raise RuntimeError(word)


class Ledger(MemoryStore):
    """A store that can be looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, str] = {}

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        found = await super().claim(key, fingerprint)
        self.known[key] = "claimed"
        return found

    async def complete(self, key: str, result: bytes, /) -> None:
        await super().complete(key, result)
        self.known[key] = "recorded"

    async def release(self, key: str, /) -> None:
        await super().release(key)
        del self.known[key]

    async def abandon(self, key: str, /) -> None:
        await super().abandon(key)
        self.known[key] = "unknown"


class Watch(Observer):
    """An observer that keeps what it sees."""

    event_types = frozenset({Observation, ToolStarted})

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event)


def made(effect: Any, gated: bool, keyed: bool, retries: int) -> Tool[..., Any]:
    async def never(n: int) -> str:
        """Run elsewhere."""
        raise AssertionError("it runs on the executor")

    return tool_of(
        never,
        name=f"{effect}{'_gated' * gated}{'_keyed' * keyed}_{retries}",
        effect=effect,
        needs_approval=gated,
        conflict_key=(lambda arguments: "x") if keyed else None,
        retries=retries,
        retry_delay_s=30.0,
        timeout=1_000.0,
    )


TOOLS = [
    made(effect, gated, keyed, retries)
    for effect, most in (("pure", 1), ("idempotent", 1), ("once", 0))
    for gated in (False, True)
    for keyed in (False, True)
    for retries in range(most + 1)
]


# -- the machine ------------------------------------------------------------------------------------------------------


class OneTurn(RuleBasedStateMachine):
    """A pipeline beside the model of it."""

    @initialize(
        policy=st.sampled_from(["auto", "auto", "early", "turn_end", "manual"]),
        cancels=st.booleans(),
        drain=st.booleans(),
        most=st.integers(1, 3),
    )
    def enter(self, policy: Any, cancels: bool, drain: bool, most: int) -> None:
        self.model = Model(policy, cancels, drain, most)
        self.loop = Loop()
        self.hands, self.store, self.watch = Hands(), Ledger(), Watch()
        self.indices: dict[str, int] = {}
        self.asking: list[asyncio.Task[Any]] = []
        self.over = False

        async def host() -> None:
            self.source, self.leaving = Script(), asyncio.Event()
            limits = Limits(max_concurrency=most, idle_timeout=None, tool_timeout=None, cancel_grace=1e12)
            options: dict[str, Any] = {
                "start": policy,
                "on_tool_error": "cancel" if cancels else "continue",
                "on_source_error": "drain" if drain else "cancel",
                "trajectory": Trajectory(run_id="r", observers=[self.watch]),
            }
            block = pipeline(
                self.source,
                tools=TOOLS,
                executor=self.hands,
                store=self.store,
                limits=limits,
                stages=DEFAULT.append(HoldBack),
                **options,
            )
            async with block as self.events:
                await self.leaving.wait()

        self.host = self.loop.create_task(host())
        self.loop.settle()
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
        self.say({"type": "message_start", "message": message})
        self.block(0, {"type": "text", "text": ""})

    def say(self, *items: Any) -> None:
        for item in items:
            self.source.items.put_nowait(item)
        self.loop.settle()

    def block(self, index: int, content: dict[str, Any]) -> None:
        self.say({"type": "content_block_start", "index": index, "content_block": content})

    def pick(self, data: Any, calls: list[Expected]) -> Expected:
        return data.draw(st.sampled_from(calls), label="call")  # type: ignore[no-any-return]

    def _streams(self) -> bool:
        return self.model.end is None and not self.model.left

    # -- the model's words --

    @precondition(lambda self: self._streams() and len(self.model.calls) < 8)
    @rule(tools=st.lists(st.sampled_from(TOOLS), min_size=2, max_size=4))
    def say_calls(self, tools: list[Tool[..., Any]]) -> None:
        for tool in tools:
            self.announce(tool, at_once=True)

    @precondition(lambda self: self._streams() and len(self.model.calls) < 8)
    @rule(tool=st.sampled_from(TOOLS), at_once=st.booleans())
    def announce(self, tool: Tool[..., Any], at_once: bool) -> None:
        number = len(self.model.calls) + 1
        call = Expected(f"c{number}", tool)
        self.indices[call.call_id] = number
        self.model.calls.append(call)
        self.block(number, {"type": "tool_use", "id": call.call_id, "name": tool.name, "input": {}})
        self._delta(call, f'{{"n": {number}')
        if at_once:
            self._end(call)
            self._ready(call)

    def _delta(self, call: Expected, text: str) -> None:
        delta = {"type": "input_json_delta", "partial_json": text}
        self.say({"type": "content_block_delta", "index": self.indices[call.call_id], "delta": delta})

    def _end(self, call: Expected) -> None:
        self._delta(call, "}")
        self.say({"type": "content_block_stop", "index": self.indices[call.call_id]})
        call.state = "ended"

    def _ready(self, call: Expected) -> None:
        self.say({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": call.call_id}})
        self.model.ready(call)

    @precondition(lambda self: self._streams() and self.model.of("announced"))
    @rule(data=st.data())
    def end_call(self, data: Any) -> None:
        self._end(self.pick(data, self.model.of("announced")))

    @precondition(lambda self: self._streams() and self.model.of("ended"))
    @rule(data=st.data())
    def ready_call(self, data: Any) -> None:
        self._ready(self.pick(data, self.model.of("ended")))

    @precondition(lambda self: self._streams() and not self.model.of("announced"))
    @rule(reason=st.sampled_from(["tool_use", "tool_use", "max_tokens"]), now=SELDOM)
    def end_turn(self, reason: str, now: bool) -> None:
        if not now:
            return
        self.say(
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
            None,
        )
        self.model.stream_ends("good" if reason == "tool_use" else "bad")

    @precondition(lambda self: self._streams() and self.model.calls)
    @rule(now=SELDOM)
    def source_fails(self, now: bool) -> None:
        if not now:
            return
        self.say(OSError("lost"))
        self.model.stream_ends("failed")

    # -- people's words --

    @precondition(lambda self: self.model.of("asked"))
    @rule(data=st.data(), approved=st.booleans())
    def decide(self, data: Any, approved: bool) -> None:
        self._decide(self.pick(data, self.model.of("asked")), approved)

    def _decide(self, call: Expected, approved: bool) -> None:
        decide = self.events.approve if approved else self.events.deny

        async def say() -> bool:
            return decide(call.call_id)

        assert self.loop.run_until_complete(say()) is True
        if approved:
            self.model.approve(call)
        else:
            self.model.observe(call, "denied")

    @precondition(lambda self: not self.over and self.model.of("announced", "ended", "held", "asked", "observed"))
    @rule(data=st.data(), now=SELDOM)
    def cancel_one(self, data: Any, now: bool) -> None:
        if now:
            self._cancel(self.pick(data, self.model.of("announced", "ended", "held", "asked", "observed")))

    @precondition(lambda self: not self.over and self.model.of(*OPEN))
    @rule(data=st.data(), now=st.booleans())
    def cancel_one_that_is_open(self, data: Any, now: bool) -> None:
        if now:
            self._cancel(self.pick(data, self.model.of(*OPEN)))

    def _cancel(self, call: Expected) -> None:
        changes = call.state not in ("stopping", "observed")

        async def say() -> bool:
            return self.events.cancel(call.call_id, "not needed")

        assert self.loop.run_until_complete(say()) is changes
        self.model.cancel([call])

    @precondition(lambda self: self.model.policy == "manual" and self.model.of("held"))
    @rule(data=st.data())
    def run_by_hand(self, data: Any) -> None:
        call = self.pick(data, self.model.of("held"))
        self.asking.append(self.loop.create_task(self.events.run_call(call.call_id)))
        self.model.go(call)

    # -- the executor's words --

    def _waiting(self, *states: str) -> list[Expected]:
        """Those of whom the executor has an attempt that waits for a word."""
        return [call for call in self.model.of(*states) if call.busy and not call.resting]

    def _tell(self, call: Expected, word: str) -> None:
        self.hands.runs[call.call_id].told.put_nowait(word)
        self.loop.settle()

    @precondition(lambda self: self._waiting("starting", "retrying"))
    @rule(data=st.data())
    def begin(self, data: Any) -> None:
        call = self.pick(data, self._waiting("starting", "retrying"))
        self._tell(call, "begin")
        self.model.begin(call)

    @precondition(lambda self: self._waiting("starting", "retrying"))
    @rule(data=st.data(), how=st.sampled_from(["not started", "not started", "no begin"]), now=SELDOM)
    def does_not_begin(self, data: Any, how: str, now: bool) -> None:
        if not now:
            return
        call = self.pick(data, self._waiting("starting", "retrying"))
        self._tell(call, how)
        self.model.attempt_over(call, how)

    @precondition(lambda self: self._waiting("starting", "retrying"))
    @rule(approved=st.booleans())
    def all_begin(self, approved: bool) -> None:
        for call in self.model.of("asked") if approved else ():
            self._decide(call, approved)
        for call in self._waiting("starting", "retrying"):
            self._tell(call, "begin")
            self.model.begin(call)

    @precondition(lambda self: any(call.tool.retries and not call.expired for call in self._waiting("running")))
    @rule(data=st.data(), how=st.sampled_from(sorted(AGAIN)))
    def fails_and_may_again(self, data: Any, how: str) -> None:
        found = [call for call in self._waiting("running") if call.tool.retries and not call.expired]
        call = self.pick(data, found)
        self._tell(call, how)
        self.model.attempt_over(call, how)

    @precondition(lambda self: [call for call in self._waiting("running") if not call.expired])
    @rule(data=st.data(), how=st.sampled_from(["value", "tool error", "raises", "crashes", "lost", "late"]))
    def ends(self, data: Any, how: str) -> None:
        call = self.pick(data, [call for call in self._waiting("running") if not call.expired])
        self._tell(call, how)
        self.model.attempt_over(call, how)

    @precondition(lambda self: [call for call in self._waiting("running", "stopping") if self._must_end(call)])
    @rule(data=st.data(), how=st.sampled_from(["cancelled", "value"]))
    def stops(self, data: Any, how: str) -> None:
        call = self.pick(data, [call for call in self._waiting("running", "stopping") if self._must_end(call)])
        self._tell(call, how)
        self.model.attempt_over(call, how)

    def _must_end(self, call: Expected) -> bool:
        return call.expired or call.state == "stopping"

    @rule()
    def time_passes(self) -> None:
        self.loop.now += LONG_S
        self.loop.settle()
        for call in self.model.calls:
            call.resting = False
            call.expired |= call.state == "running"

    # -- the end --

    @precondition(lambda self: not self.over and self.model.calls)
    @rule(now=SELDOM)
    def leave_in_the_middle(self, now: bool) -> None:
        if now:
            self.leave()

    def leave(self) -> None:
        self.over = True
        self.leaving.set()
        self.loop.settle()
        self.model.leave()

    # -- what always holds --

    def check(self) -> None:
        self.loop.settle()
        self.model.settle()

    @invariant()
    def every_call_is_as_it_should_be(self) -> None:
        if not hasattr(self, "model"):
            return
        self.check()
        assert self.hands.broken == []
        assert not self.host.done() or self.host.exception() is None
        seen = [event for event in self.watch.seen if isinstance(event, Observation)]
        assert len({event.call_id for event in seen}) == len(seen), "one observation for each call"
        outcomes = {event.call_id: event.outcome for event in seen}
        waits_for_tasks = self.model.left and any(call.busy for call in self.model.calls)
        for call in self.model.calls:
            if waits_for_tasks and call.state == "observed" and call.call_id not in outcomes:
                continue  # what is settled last is observed when no task is left
            assert outcomes.get(call.call_id) == call.outcome, call
        assert {call.call_id: call.begun for call in self.model.calls if call.begun} == self.hands.granted
        started = [event.call_id for event in self.watch.seen if isinstance(event, ToolStarted)]
        assert sorted(started) == sorted(call.call_id for call in self.model.calls for _ in range(call.begun))
        assert set(self.hands.runs) == {call.call_id for call in self.model.calls if call.busy and not call.resting}
        for event in seen:
            call = next(one for one in self.model.calls if one.call_id == event.call_id)
            assert event.attempts == call.begun
            if not call.busy:
                assert self.store.known.get(event.idempotency_key, "free") == self.model.claim_of(call), call
        assert list(self.store.known.values()).count("claimed") == sum(
            self.model.claim_of(call) == "claimed" for call in self.model.calls
        )

    def teardown(self) -> None:
        """Leave the block, let all end, and see that nothing is left."""
        if not hasattr(self, "model"):
            return
        try:
            if not self.over:
                self.leave()
            for call in self._waiting("stopping"):
                self._tell(call, "cancelled")
                self.model.attempt_over(call, "cancelled")
            self.model.settle()
            self.every_call_is_as_it_should_be()
            assert self.host.done()
            assert all(call.state == "observed" for call in self.model.calls)
            assert len(self.events.turn.observations) == len(self.model.calls)
            assert all(task.done() for task in self.asking)
            assert asyncio.all_tasks(self.loop) == set()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.settle()
            self.loop.close()


TestOneTurn = OneTurn.TestCase
TestOneTurn.settings = settings(derandomize=True, deadline=None, max_examples=examples(60), stateful_step_count=40)
