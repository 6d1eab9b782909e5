"""A store before the calls of a pipeline: what has run is not run again, and what nobody knows is not guessed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext
from datetime import date
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from executor_tools import count
from once_turns import WAIT_S, Effects, Seen, run, said
from profiles import every
from stores import Runs
from streams import anthropic, chat, key_of, stream

from streamtools import (
    ApprovalRequested,
    Deny,
    Event,
    Limits,
    ModelRetry,
    Observation,
    ToolContext,
    ToolError,
    Trajectory,
    pipeline,
    run_calls,
    tool,
)
from streamtools.content import Media, Opaque, ToolResult
from streamtools.dispatch import Begin, CallPool, Claimed, Emit, MemoryStore, Recorded
from streamtools.errors import (
    BeginRefused,
    CallStillRunning,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolSuspended,
    ToolTimeout,
)
from streamtools.events import StreamWarning, ToolProgress, ToolStarted
from streamtools.executors import Invocation, LocalExecutor
from streamtools.parts import WAITS
from streamtools.seams import call_fingerprint

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def effects() -> Effects:
    return Effects()


# -- what has run --

PICTURE = Media(kind="image", data="AAAA", mime_type="image/png")
ENDS: list[tuple[Any, str]] = [
    ("done", "ok"),
    (None, "ok"),
    ({"paid": [1, 2.5, None], "value": "\u00e4", "error": "no"}, "ok"),
    ("\ud83d", "ok"),
    (ToolResult(blocks=["paid", PICTURE], value={"id": 7}, display="shown"), "ok"),
    (ToolResult(blocks=["\ud83d"]), "ok"),
    (ToolResult(blocks=["no money", PICTURE], is_error=True), "failed"),
    (ToolError("no money"), "failed"),
    (ModelRetry("in cents, please"), "failed"),
    (ValueError("a secret"), "failed"),
]


@every("ends, outcome", ENDS)
async def test_a_call_that_has_run_is_answered_from_the_record(ends: Any, outcome: str) -> None:
    store, effects = MemoryStore(), Effects()
    first, second = [await run(said("pay"), effects.tool(ends), store) for _ in range(2)]
    assert effects == [key_of("a")]
    assert (first.only.outcome, first.only.recorded, first.only.attempts) == (outcome, False, 1)
    assert (second.only.outcome, second.only.recorded, second.only.attempts) == (outcome, True, 0)
    assert second.only.model_content == first.only.model_content
    assert second.only.result == first.only.result
    assert type(second.only.error) is type(first.only.error)
    assert second.only.duration is None
    assert second.pipeline.turn.messages() == first.pipeline.turn.messages()
    assert not [event for event in second.events if isinstance(event, ToolStarted)]
    assert first.warnings == second.warnings == []


LAZY: list[Callable[[], Any]] = [
    lambda: (number for number in range(3)),
    lambda: {"rows": map(str, range(3))},
    lambda: b"paid",
    lambda: date(2026, 11, 21),
    lambda: iter(["x" * 60]),
    lambda: ["x" * 60],
    lambda: ToolResult(blocks=["x" * 60, PICTURE]),
]


@every("make", LAZY)
async def test_whatever_kind_of_value_it_was_the_model_reads_the_same_again(make: Callable[[], Any]) -> None:
    store = MemoryStore()

    @tool
    def pay() -> Any:
        """Pay."""
        return make()

    first, second = [await run(said("pay"), pay, store, limits=Limits(max_result_bytes=40)) for _ in range(2)]
    assert second.only.recorded
    assert second.only.model_content == first.only.model_content
    assert second.pipeline.turn.messages() == first.pipeline.turn.messages()
    assert len(first.only.model_content) > 5


UNSAYABLE: list[dict[str, Any]] = [
    {"value": threading.Lock()},
    {"display": threading.Lock(), "native": {"openai.responses": {"lock": threading.Lock()}}},
]


@every("fields", UNSAYABLE)
async def test_of_a_result_that_json_cannot_say_the_blocks_are_kept(fields: Any) -> None:
    store, effects = MemoryStore(), Effects()
    result = ToolResult(blocks=["paid"], **fields)
    first, second = [await run(said("pay"), effects.tool(result), store) for _ in range(2)]
    assert (first.only.outcome, first.only.model_content, first.warnings) == ("ok", "paid", ["result_not_kept"])
    assert (second.only.outcome, second.only.model_content, second.only.recorded) == ("ok", "paid", True)
    assert len(effects) == 1


async def test_of_blocks_that_json_cannot_say_it_is_kept_that_they_were_there(
    store: MemoryStore, effects: Effects
) -> None:
    result = ToolResult(blocks=["paid", Opaque({"lock": threading.Lock()})])
    first, second = [await run(said("pay"), effects.tool(result), store) for _ in range(2)]
    assert (first.only.outcome, first.only.model_content, first.warnings) == ("ok", "paid", ["result_not_kept"])
    assert (second.only.outcome, second.only.recorded, len(effects)) == ("ok", True, 1)
    assert "has run before; the idempotency store could not keep its result" in second.only.model_content


async def test_of_a_result_that_is_too_large_it_is_kept_that_it_was_there(effects: Effects) -> None:
    store = MemoryStore(max_result_bytes=20)
    _, second = [await run(said("pay"), effects.tool("x" * 100), store) for _ in range(2)]
    assert (second.only.outcome, second.only.recorded, len(effects)) == ("ok", True, 1)
    assert "has run before; its result was larger" in second.only.model_content


async def test_what_a_generator_came_to_is_on_record_and_its_progress_is_not(store: MemoryStore) -> None:
    first, second = [await run(said("count", to=3), count, store) for _ in range(2)]
    assert (first.only.value, second.only.value, second.only.recorded) == ("done", "done", True)
    assert len([event for event in first.events if isinstance(event, ToolProgress)]) == 3
    assert not [event for event in second.events if isinstance(event, ToolProgress)]


# -- which calls --


async def test_each_call_of_each_step_of_each_run_is_a_call_of_its_own(store: MemoryStore, effects: Effects) -> None:
    pay, calls = effects.tool(), [said("pay", "a"), said("pay", "b")]
    for run_id in ("r", "s"):
        trajectory = Trajectory(run_id=run_id)
        for _ in range(2):
            await run(calls, pay, store, trajectory=trajectory)
    assert sorted(effects) == sorted(
        key_of(call, run=run_id, step=step) for run_id in "rs" for step in (0, 1) for call in "ab"
    )


async def test_without_an_id_of_yours_each_run_is_another(store: MemoryStore, effects: Effects) -> None:
    for _ in range(2):
        await run(said("pay"), effects.tool(), store, trajectory=Trajectory())
    assert len(set(effects)) == 2


@every("effect", ["pure", "idempotent"])
async def test_what_does_no_harm_twice_is_not_kept(effect: Any) -> None:
    store, effects = Told(), Effects()
    for _ in range(2):
        await run(said("pay"), effects.tool(effect=effect), store)
    assert (len(effects), store.told) == (2, [])


async def test_a_call_that_was_approved_is_kept_whatever_its_effect(store: MemoryStore, effects: Effects) -> None:
    pay = effects.tool(effect="idempotent", needs_approval=True)
    both = [await run(said("pay"), pay, store, approve=lambda _: True) for _ in range(2)]
    assert [seen.only.recorded for seen in both] == [False, True]
    assert len(effects) == 1


async def test_a_call_that_was_denied_or_waits_is_not_claimed(effects: Effects) -> None:
    store, pay = Told(), effects.tool(needs_approval=True)
    seen = await run(said("pay"), pay, store, approve=lambda _: Deny("no"))
    assert seen.only.outcome == "denied"
    with anyio.fail_after(WAIT_S):
        async with pipeline(stream(chat(calls=[said("pay")])), tools=[pay], store=store) as events:
            assert [event async for event in events if isinstance(event, ApprovalRequested)]
    assert (effects, store.told) == ([], [])


async def test_other_arguments_under_the_same_key_are_refused(store: MemoryStore, effects: Effects) -> None:
    await run(said("pay", amount=1), effects.tool(), store)
    other = await run(said("pay", amount=1000), effects.tool(), store)
    assert (other.only.outcome, other.only.recorded, other.only.attempts, len(effects)) == ("failed", False, 0, 1)
    assert "belongs to a call with another tool or arguments" in other.only.model_content
    assert "1000" not in other.only.model_content


async def test_all_attempts_at_a_call_are_one_claim() -> None:
    store, attempts = Told(), []

    @tool(effect="idempotent", needs_approval=True, retries=2, retry_delay_s=0.001)
    async def put(ctx: ToolContext) -> str:
        """Put."""
        attempts.append(ctx.idempotency_key)
        if len(attempts) < 3:
            raise ConnectionError
        return "done"

    seen = await run(said("put"), put, store, approve=lambda _: True)
    assert (seen.only.outcome, seen.only.attempts) == ("ok", 3)
    assert attempts == [key_of("a")] * 3
    assert store.told == ["claim", "complete"]


async def test_of_pipelines_that_make_the_same_call_at_once_one_runs_it(store: MemoryStore) -> None:
    ran, begun, may_end = [], anyio.Event(), anyio.Event()

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        begun.set()
        await may_end.wait()
        return "paid"

    seen: list[Seen] = []

    async def turn() -> None:
        seen.append(await run(said("pay"), pay, store))

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        with anyio.fail_after(WAIT_S):
            await begun.wait()
            group.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            may_end.set()
    assert ran == ["pay"]
    assert sorted((one.only.outcome, one.only.value, one.only.recorded, one.only.attempts) for one in seen) == [
        ("ok", "paid", False, 1),
        ("ok", "paid", True, 0),
    ]
    (waits,) = [one.only.waits for one in seen if one.only.recorded]
    named = [wait.reason for wait in waits if not WAITS[wait.reason].is_passing]
    assert named == ["turn_end", "elsewhere"]


async def test_a_call_waits_for_its_run_elsewhere_no_longer_than_it_may_take_itself(
    store: MemoryStore, effects: Effects
) -> None:
    pay = effects.tool(timeout=0.02)
    assert isinstance(await store.claim(key_of("a"), call_fingerprint("pay", {})), Claimed)
    other = await run(said("pay"), pay, store)
    assert (other.only.outcome, other.only.attempts, other.only.recorded, effects) == ("unknown", 0, False, [])
    assert isinstance(other.only.error, CallStillRunning)
    assert f"the call is running already (process {os.getpid()} on " in other.only.model_content
    await store.release(key_of("a"))
    assert (await run(said("pay"), pay, store)).only.outcome == "ok"


# -- what nobody knows --


async def left_in_the_middle(store: MemoryStore, **options: Any) -> Observation:
    """A call whose block is left while it runs."""
    begun = anyio.Event()

    @tool(name="pay")
    async def pay(amount: int = 1) -> None:
        """Pay."""
        begun.set()
        await anyio.sleep_forever()

    with anyio.fail_after(WAIT_S):
        body, run_ = stream(chat(calls=[said("pay")])), Trajectory(run_id="r")
        async with pipeline(body, tools=[pay], store=store, trajectory=run_, **options) as _:
            await begun.wait()
    (observation,) = _.turn.observations
    return observation


async def test_a_call_that_was_cut_is_unknown_from_then_on(store: MemoryStore, effects: Effects) -> None:
    assert (await left_in_the_middle(store)).outcome == "cancelled"
    for _ in range(2):
        seen = await run(said("pay"), effects.tool(), store)
        assert (seen.only.outcome, seen.only.recorded, seen.only.attempts) == ("unknown", False, 0)
        assert "its end is unknown" in seen.only.model_content
    assert effects == []


@every("kept", [b"", b"no JSON", b"[]", b'{"other": 1}', b'{"result": {"blocks": [["x", {}]]}}'])
async def test_a_record_that_cannot_be_read_is_not_taken_for_a_failure(kept: bytes) -> None:
    store, effects = MemoryStore(), Effects()
    await store.claim(key_of("a"), call_fingerprint("pay", {}))
    await store.complete(key_of("a"), kept)
    seen = await run(said("pay"), effects.tool(), store)
    assert (seen.only.outcome, seen.only.recorded, effects) == ("unknown", False, [])
    assert "ran before, but its record cannot be read" in seen.only.model_content


# -- what has not run --


ELSEWHERE: list[tuple[Any, str, str]] = [
    (partial(Runs, "done"), "ok", "ok"),
    (partial(Runs, ToolNotStarted("no worker"), refuses=True), "failed", "runs"),
    (partial(Runs, ConnectionError("a secret"), refuses=True), "failed", "runs"),
    (partial(Runs, ToolTimeout(1), refuses=True), "failed", "runs"),
    (partial(Runs, ToolNotStarted("no worker")), "unknown", "unknown"),
    (partial(Runs, ToolOutcomeUnknown("lost")), "unknown", "unknown"),
    (partial(Runs, ToolTimeout(1)), "timed_out", "unknown"),
    (partial(Runs, ToolFailed("the tool pay raised KeyError")), "failed", "failed"),
    (partial(Runs, ToolError("no money")), "failed", "failed"),
    (partial(Runs, ConnectionError("a secret")), "unknown", "unknown"),
]
"""What an executor says; the call's outcome; what the same call comes to next time."""


@every("makes, outcome, then", ELSEWHERE)
async def test_only_what_an_executor_has_not_begun_runs_the_next_time(makes: Any, outcome: str, then: str) -> None:
    store, effects, executor = MemoryStore(), Effects(), makes()
    pay = effects.tool()
    first = await run(said("pay"), pay, store, executor=executor)
    second = await run(said("pay"), pay, store, executor=(other := Runs("the second time")))
    assert (first.only.outcome, first.only.recorded, first.only.attempts) == (outcome, False, not executor.refuses)
    assert other.begun == (then == "runs")
    if then == "runs":
        assert (second.only.value, second.only.recorded) == ("the second time", False)
    else:
        assert (second.only.outcome, second.only.recorded) == (then, then != "unknown")


async def _other_call_ended(end: Exception) -> Exception:
    """The end of a call that a tool has made itself."""

    @tool
    def other() -> None:
        """Do something."""
        raise end

    error = (await run_calls([("x", "other", {})], [other])).observations[0].error
    assert error is end
    return error


@every("word, place", [(word, place) for word in ("start", "time", "suspended") for place in ("here", "elsewhere")])
async def test_how_another_call_ended_says_nothing_of_the_tools_own(word: str, place: str) -> None:
    store, effects = MemoryStore(), Effects()
    ends = {"start": ToolNotStarted("no worker for the other call"), "suspended": ToolSuspended("the other call waits")}
    error = await _other_call_ended(ends[word]) if word in ends else ToolTimeout(3)
    pay = effects.tool(error)
    async with LocalExecutor([pay]) as executor:
        options = {"executor": executor} if place != "here" else {}
        both = [await run(said("pay"), pay, store, **options) for _ in range(2)]
    assert [seen.only.outcome for seen in both] == ["failed", "failed"]
    assert both[0].only.model_content == both[1].only.model_content == f"Error: {error}"
    assert (both[1].only.recorded, len(effects)) == (True, 1)


# -- a store that fails --


class Told(MemoryStore):
    """Keeps what it was asked to do, and fails where it is told to."""

    def __init__(self, failing: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self.failing, self.error = failing, error or OSError("the disk is full")
        self.told: list[str] = []

    def _tell(self, work: str) -> None:
        self.told.append(work)
        if work == self.failing:
            raise self.error

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        self._tell("claim")
        return await super().claim(key, fingerprint)

    async def complete(self, key: str, result: bytes, /) -> None:
        self._tell("complete")
        await super().complete(key, result)

    async def release(self, key: str, /) -> None:
        self._tell("release")
        await super().release(key)


@every("error", [OSError("a secret"), ToolError("a secret"), KeyError("a secret")])
async def test_without_a_claim_nothing_runs(error: Exception) -> None:
    effects = Effects()
    seen = await run(said("pay"), effects.tool(), Told("claim", error))
    assert (seen.only.outcome, seen.only.recorded, seen.only.attempts, effects) == ("failed", False, 0, [])
    name = type(error).__name__
    assert seen.only.model_content == f"Error: not run: the idempotency store failed ({name})"
    assert isinstance(seen.only.error, ToolNotStarted)
    assert seen.only.error.__cause__ is error


@every("ends", ["done", ToolError("no money"), KeyError("x")])
async def test_a_result_that_the_store_cannot_keep_is_told_and_not_lost(ends: Any) -> None:
    store, effects = Told("complete"), Effects()
    seen = await run(said("pay"), effects.tool(ends), store)
    assert seen.only.outcome == ("ok" if ends == "done" else "failed")
    assert (seen.only.recorded, seen.warnings) == (False, ["result_not_kept"])
    (warning,) = [event for event in seen.events if isinstance(event, StreamWarning)]
    assert warning.detail == "pay, call a: the store could not keep its result (OSError); the call stays claimed"
    again = await run(said("pay"), effects.tool(ends), store)
    assert (again.only.outcome, again.only.recorded, len(effects)) == (seen.only.outcome, True, 1)
    store.failing = ""
    for _ in range(1000):  # until the store has been asked again
        if isinstance(await store.claim(key_of("a"), call_fingerprint("pay", {})), Recorded):
            break
        await anyio.sleep(0.01)
    else:
        pytest.fail("the end was not repeated")


class Slow(MemoryStore):
    """Waits at its door. Once asked it finishes by itself, as stores do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = anyio.Event(), anyio.Event()

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        self.asked.set()
        with anyio.CancelScope(shield=True):
            await self.open.wait()
            return await super().claim(key, fingerprint)


class Watcher:
    """An observer that hands over what it wants to see."""

    def __init__(self, wants: type[Event], take: Callable[[Any], object]) -> None:
        self.event_types = frozenset({wants})
        self._take = take

    def on_event(self, event: Event) -> None:
        self._take(event)

    def around_tool(self, call_id: str) -> None:
        return None


async def test_a_call_that_was_left_is_cancelled_also_if_its_claim_is_not_taken_back() -> None:
    class Failing(Slow):
        async def release(self, key: str, /) -> None:
            raise OSError("a secret")

    store, warnings = Failing(), list[str]()

    async def answer() -> None:
        await store.asked.wait()
        await anyio.wait_all_tasks_blocked()  # the block is being left
        store.open.set()

    watcher = Watcher(StreamWarning, lambda event: warnings.append(f"{event.code}: {event.detail}"))
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            run_ = Trajectory(observers=[watcher], run_id="r")
            body = stream(chat(calls=[said("pay")]))
            async with pipeline(body, tools=[Effects().tool()], store=store, trajectory=run_) as events:
                await store.asked.wait()
    assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
    text = "pay, call a: the store could not release its claim (OSError); the call stays claimed"
    assert warnings == [f"claim_not_released: {text}"]


class Shielding(Runs):
    """An executor that lets nothing cancel it while it begins: so its `begin` alone can know that the call is over."""

    def __init__(self, *, in_a_task: bool) -> None:
        super().__init__("done")
        self.in_a_task = in_a_task

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        with anyio.CancelScope(shield=True):
            if not self.in_a_task:
                await begin()
            else:
                refused: list[BaseException] = []
                async with anyio.create_task_group() as group:
                    group.start_soon(self._begin_in_a_task, begin, refused)
                if refused:
                    raise refused[0]
        self.begun += 1
        return self.result

    async def _begin_in_a_task(self, begin: Begin, refused: list[BaseException]) -> None:
        try:
            await begin()
        except BeginRefused as error:
            refused.append(error)


OVER = {"it is cancelled": "cancelled", "the block is left": "cancelled", "the stream fails": "skipped"}
"""How a call is over before it has begun, and its outcome."""


async def test_a_call_that_is_over_before_its_claim_is_made_does_not_begin_and_gives_the_claim_back() -> None:
    """Nothing was cancelled where the claim was waited for, so that the wait itself does not show it."""
    for how, outcome in OVER.items():
        for in_a_task in (False, True):
            store, executor = Slow(), Shielding(in_a_task=in_a_task)
            seen = await end_while_claiming(how, store, executor)
            assert (seen.outcome, seen.attempts, executor.begun) == (outcome, 0, 0), how
            again = await run(said("pay"), Effects().tool(), store, executor=(other := Runs("done")))
            assert (again.only.outcome, again.only.recorded, other.begun) == ("ok", False, 1), how


async def end_while_claiming(how: str, store: Slow, executor: Shielding) -> Observation:
    """A call that is over while the store makes its claim; the store answers once the call has its observation."""
    ended = anyio.Event()

    async def body() -> Any:
        for item in anthropic(calls=[said("pay")], stop=None if how == "the stream fails" else "tool_use"):
            yield item.replace(b"msg_1", b"chatcmpl-1")  # the same response as of `run`, by its name
        if how == "the stream fails":
            await store.asked.wait()
            raise ConnectionError

    async def answer() -> None:
        await ended.wait()
        store.open.set()

    options: Any = {"tools": [Effects().tool()], "store": store, "executor": executor, "start": "early"}
    run_ = Trajectory(run_id="r", observers=[Watcher(Observation, lambda event: ended.set())])
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            async with pipeline(body(), trajectory=run_, **options) as events:
                await store.asked.wait()
                if how == "it is cancelled":
                    assert events.cancel("a")
                if how != "the block is left":
                    with pytest.raises(ConnectionError) if how == "the stream fails" else nullcontext():
                        _ = [event async for event in events]
    (seen,) = events.turn.observations
    return seen


# -- cancelled anywhere --


class Stepping(MemoryStore):
    """Cancels a scope at its n-th checkpoint; it has some on every way. As stores do, it claims nothing for a wait that
    was cancelled, and finishes its other work."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0
        self.scope: anyio.CancelScope | None = None

    async def step(self) -> None:
        self.left -= 1
        if self.left == 0 and self.scope is not None:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        await self.step()
        claim = await super().claim(key, fingerprint)
        try:
            await self.step()
        except BaseException:
            await super().release(key)
            raise
        return claim

    async def complete(self, key: str, result: bytes, /) -> None:
        await self._to_its_end(super().complete(key, result))

    async def release(self, key: str, /) -> None:
        await self._to_its_end(super().release(key))

    async def abandon(self, key: str, /) -> None:
        await self._to_its_end(super().abandon(key))

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        with anyio.CancelScope(shield=True):
            await self.step()
            await work
            await self.step()


def paying(kind: str, store: Stepping, runs: list[str]) -> Any:
    """A tool that has its effect at once, and, if it is async, some checkpoints after it."""

    async def pay() -> str:
        """Pay."""
        runs.append("paid")
        await store.step()
        await store.step()
        return "paid"

    def pay_sync() -> str:
        """Pay."""
        runs.append("paid")
        return "paid"

    return tool(pay if kind == "async" else pay_sync, name="pay")


async def cancelled_at(n: int, store: Stepping, made: Any) -> tuple[str, bool]:
    """How the call ended in a turn that was cancelled at its n-th checkpoint, and whether it had so many."""

    async def source() -> AsyncIterator[bytes]:
        for item in chat(calls=[said("pay")]):
            await store.step()
            yield item

    store.left = n
    with anyio.CancelScope() as scope:
        store.scope = scope
        async with pipeline(source(), tools=[made], store=store, trajectory=Trajectory(run_id="r")) as events:
            async for _ in events:
                await store.step()
    store.scope = None
    outcomes = [seen.outcome for seen in events.turn.observations]
    return outcomes[0] if outcomes else "not called", scope.cancelled_caught


@every("kind", ["async", "sync"])
async def test_wherever_a_call_is_cancelled_it_runs_once_or_is_not_claimed(kind: str) -> None:
    """Whatever the same call comes to the next time, it has run once by then: if it is unknown, it has run before. A
    sync one has begun at least: its thread may have been given up before it came to it."""
    ends: set[tuple[str, str, bool]] = set()
    every_run: list[list[str]] = []
    for n in range(1, 200):
        store, runs = Stepping(), list[str]()
        every_run.append(runs)
        made = paying(kind, store, runs)
        first, cancelled = await cancelled_at(n, store, made)
        second = (await run(said("pay"), made, store)).only
        may_not_have_run = kind == "sync" and second.outcome == "unknown"
        assert runs == ["paid"] or (may_not_have_run and not runs), (n, first, second.outcome)
        ends.add((first, second.outcome, second.recorded))
        if not cancelled:
            break
    else:
        pytest.fail("the scenario has more checkpoints than tried")
    assert n > 15
    assert ends <= {
        ("not called", "ok", False),
        ("truncated", "ok", False),
        ("skipped", "ok", False),
        ("cancelled", "ok", False),
        ("cancelled", "ok", True),
        ("cancelled", "unknown", False),
        ("ok", "ok", True),
    }
    assert ("ok", "ok", True) in ends
    assert ("cancelled", "ok", False) in ends
    assert kind == "sync" or ("cancelled", "unknown", False) in ends
    assert all(len(runs) <= 1 for runs in every_run)


async def test_a_sync_call_that_is_cancelled_while_it_waits_for_a_thread_is_not_claimed(effects: Effects) -> None:
    store, let_go, begun = Told(), threading.Event(), anyio.Event()
    token = anyio.lowlevel.current_token()

    @tool
    def hold() -> None:
        """Hold the only thread."""
        anyio.from_thread.run_sync(begun.set, token=token)
        let_go.wait()

    @tool
    def pay() -> str:
        """Pay."""
        effects.append("pay")
        return "paid"

    try:
        with anyio.fail_after(WAIT_S):
            shared, run_ = CallPool(Limits(max_threads=1)), Trajectory(run_id="r")
            async with pipeline(stream(chat(calls=[said("hold")])), tools=[hold], pool=shared):
                await begun.wait()
                body = stream(chat(calls=[said("pay")]))
                async with pipeline(body, tools=[pay], store=store, trajectory=run_, pool=shared) as events:
                    await anyio.wait_all_tasks_blocked()
    finally:
        let_go.set()
    (seen,) = events.turn.observations
    assert (seen.outcome, seen.attempts, store.told, effects) == ("cancelled", 0, [], [])
    assert "cancelled before it started" in seen.model_content
    again = await run(said("pay"), pay, store)
    assert (again.only.outcome, again.only.recorded, effects) == ("ok", False, ["pay"])


@every("place", ["here", "in an executor"])
def test_a_loop_that_ends_in_the_middle_of_a_call_leaves_it_unknown(place: str) -> None:
    """asyncio cancels each task by itself then, without a scope: that is no failure of the tool's."""
    store, ran = MemoryStore(), list[str]()

    async def turn(begun: asyncio.Event) -> Observation:
        @tool
        async def pay() -> None:
            """Pay."""
            ran.append("pay")
            begun.set()
            await anyio.sleep_forever()

        async with LocalExecutor([pay]) as executor:
            options: dict[str, Any] = {"executor": executor} if place != "here" else {}
            return (await run(said("pay"), pay, store, **options)).only

    async def leave() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(turn(begun))
        async with asyncio.timeout(WAIT_S):
            await begun.wait()
        assert not task.done()

    asyncio.run(leave())
    assert asyncio.run(turn(asyncio.Event())).outcome == "unknown"
    assert ran == ["pay"]


async def test_calls_of_two_responses_in_runs_of_one_name_are_two_calls_although_their_ids_are_the_same(
    store: MemoryStore, effects: Effects
) -> None:
    """Some models count their calls from nought; a conversation's name is a likely name for each of its runs."""
    for response in ("chatcmpl-1", "chatcmpl-2", "chatcmpl-2"):
        body = [item.replace(b"chatcmpl-1", response.encode()) for item in chat(calls=[said("pay", "functions.pay:0")])]
        run_ = Trajectory(run_id="conversation", observers=())
        async with pipeline(stream(body), tools=[effects.tool()], store=store, trajectory=run_) as events:
            _ = [event async for event in events]
    assert len(effects) == len(set(effects)) == 2
    assert events.turn.observations[0].recorded
