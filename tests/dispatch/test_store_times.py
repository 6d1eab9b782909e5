"""When a store is asked again: by calls that meet or wait, for a lease, and for an end that it did not take."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from once_turns import WAIT_S, Seen, run, said
from stores import Runs
from trio import current_time
from trio.testing import MockClock

from streamtools import tool
from streamtools.dispatch import Claim, Claimed, EndUnknown, MemoryStore, Recorded, StillRunning
from streamtools.dispatch.event_loop import Timers
from streamtools.durable.claims import CallClaim, UnsavedEnd, UnsavedEnds
from streamtools.durable.holders import this_process
from streamtools.errors import CallStillRunning, LocalProtocolError, ToolNotStarted, ToolOutcomeUnknown, ToolSuspended
from streamtools.executors import Invocation, run_once

on_a_made_clock = pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
CALL = Invocation(tool="order", arguments={"what": "a book"}, key="order:7")


class Written:
    """A store that answers as it was written down, and notes when it is asked for what."""

    def __init__(self, answer: Callable[[str, float], Any], *, lease: float | None = None) -> None:
        self.began, self.answer, self.asked = current_time(), answer, list[tuple[str, float]]()
        if lease is not None:
            self.lease, self.renew = lease, self._renew

    def _noted(self, work: str) -> Any:
        at = round(current_time() - self.began, 6)
        self.asked.append((work, at))
        answer = self.answer(work, at)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        return self._noted("claim")  # type: ignore[no-any-return]

    async def complete(self, key: str, result: bytes, /) -> None:
        self._noted("complete")

    async def release(self, key: str, /) -> None:
        self._noted("release")

    async def abandon(self, key: str, /) -> None:
        self._noted("abandon")

    async def _renew(self, key: str, /) -> None:
        self._noted("renew")

    def times(self, work: str) -> list[float]:
        return [at for kind, at in self.asked if kind == work]


class Slotted(Written):
    """One that cannot be referred to weakly."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class Telling(Written):
    """One that tells when a claim has changed, or fails at it."""

    async def changed(self, key: str, seconds: float, /) -> None:
        if not self._noted("changed"):
            raise OSError("lost")
        await anyio.sleep(0.01)


def running(since: float) -> StillRunning:
    return StillRunning(since, "there", 7)


@pytest.mark.anyio
@on_a_made_clock
async def test_a_call_looks_for_the_end_of_one_that_runs_as_long_as_it_may_and_ever_less_often() -> None:
    looks = [0, 0.05, 0.15, 0.35, 0.6, 0.85]
    known = Recorded(b'{"result": 1}')
    cases: list[tuple[Any, float, Callable[[str, float], Any], Any, list[float], int]] = [
        (Written, 1, lambda _, at: running(5), CallStillRunning, [*looks, 1], 1),
        (Written, 0, lambda _, at: running(5), CallStillRunning, [0], 1),
        (Written, math.inf, lambda _, at: known if at > 0.5 else running(5), known, looks[:5], 1),
        (Written, 9, lambda _, at: EndUnknown(5) if at else running(5), ToolOutcomeUnknown, [0, 0.05], 1),
        # another run than before has its own time
        (Written, 0.2, lambda _, at: running(at > 0.1), CallStillRunning, [0, 0.05, 0.15, 0.2, 0.3, 0.35], 2),
        (Telling, 0.025, lambda work, at: work == "changed" or running(5), CallStillRunning, [0, 0.01, 0.02, 0.03], 1),
        (Telling, 0.06, lambda work, at: work != "changed" and running(5), CallStillRunning, [0, 0.05, 0.06], 1),
    ]
    for kind, patience, answer, expected, times, met in cases:
        store, meetings = kind(answer), list[int]()
        claim = CallClaim(store, "k", "order", lambda work, error: None)
        try:
            end: Any = await claim.make("f", patience, lambda found=meetings: found.append(1))  # type: ignore[misc]
        except (CallStillRunning, ToolOutcomeUnknown) as error:
            end = type(error)
            text = str(error)
        assert (end, store.times("claim"), len(meetings)) == (expected, times, met)
        assert end is not CallStillRunning or "process 7 on there" in text
    runs = Runs("done")
    with anyio.CancelScope() as scope:  # it is cancelled while it claims
        store = Written(lambda work, at: work == "claim" and (scope.cancel() or Claimed()))
        await run_once(store, runs, CALL)
    assert ([work for work, _ in store.asked], runs.begun) == (["claim", "release"], 0)


@pytest.mark.anyio
@on_a_made_clock
async def test_a_lease_is_renewed_three_times_in_its_length_until_the_end_even_if_that_fails() -> None:
    async def work(seconds: float) -> str:
        await anyio.sleep(seconds)
        return "done"

    def answer(work: str, at: float) -> Any:
        return Claimed() if work == "claim" else OSError("busy") if (work, at) == ("renew", 2) else None

    for lease, expected in ((6, [2, 4, 6]), (None, [])):
        store, timers = Written(answer, lease=lease), Timers.current()
        async with anyio.create_task_group() as group:
            timers.join(store, group)
            assert (await run_once(store, Runs(lambda: work(7)), CALL)).value == "done"
            await anyio.sleep(20)
            timers.leave(store)
            group.cancel_scope.cancel()
        assert store.times("renew") == expected
        assert store.times("complete") == [7]


@pytest.mark.anyio
@on_a_made_clock
async def test_an_end_that_a_store_did_not_take_is_repeated_ever_less_often_while_the_lease_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamtools.durable.claims.time.monotonic", current_time)
    pauses = [0, 0.05, 0.15, 0.35, 0.75, 1.55, 3.15, 6.35, 11.35, 16.35, 21.35, 26.35]
    settled = LocalProtocolError("it is on record")
    cases: list[tuple[Any, float | None, Callable[[float], Any], list[float]]] = [
        (Written, None, lambda at: OSError(), pauses),
        (Written, 1.0, lambda at: OSError(), pauses[:5]),
        (Written, 6.35, lambda at: OSError(), pauses[:7]),
        (Written, None, lambda at: None if at > 0.5 else OSError(), pauses[:5]),
        (Written, None, lambda at: settled if at > 0.1 else OSError(), pauses[:3]),
        (Slotted, None, lambda at: None if at > 0.5 else OSError(), pauses[:5]),
    ]
    for kind, lease, end, expected in cases:
        store = kind(lambda work, at, end=end: Claimed() if work == "claim" else end(at))
        if lease is not None:
            store.lease = lease
        found = await run_once(store, Runs("done"), CALL)
        assert isinstance(found.not_kept, OSError)
        await anyio.sleep(60)
        assert store.times("complete") == expected, (kind, lease)


@pytest.mark.anyio
async def test_a_store_in_memory_keeps_what_its_bounds_let_it_keep() -> None:
    store = MemoryStore()
    for key, size in (("most", 1 << 20), ("more", (1 << 20) + 1)):
        await store.claim(key, "f")
        await store.changed(key, 0)
        await store.complete(key, b"1" * size)
        assert await store.claim(key, "f") == Recorded(b"1" * size if key == "most" else None)
    for number in range(9_999):  # the first of ten thousand and one is forgotten
        await store.claim(f"k{number}", "f")
    assert isinstance(await store.claim("most", "f"), EndUnknown | StillRunning | Claimed)
    store = MemoryStore(max_entries=2)
    for key in "abc":
        assert await store.decide(key, key.encode()) == key.encode()
    assert [await store.decide(key, None) for key in "abc"] == [None, b"b", b"c"]
    assert await store.decide("b", b"later") == b"b"
    with anyio.fail_after(5):
        await store.changed("nobody's", math.inf)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_a_process_is_gone_from_its_end_on_even_if_nobody_has_waited_for_it() -> None:
    here = this_process()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        began = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        there = replace(here, pid=child.pid, start=f"{here.start.split()[0]} {began}")
        alive = [
            *(here, there, replace(there, boot="another", start=f"{there.start}1")),
            *(replace(there, start=f"elsewhere {began}1"), replace(there, start="")),
        ]
        assert [each.is_gone() for each in alive] == [False] * 5
        assert replace(there, start=f"{here.start.split()[0]} 1").is_gone()
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert there.is_gone()
    finally:
        child.wait()
    assert there.is_gone()


# -- calls that meet --


@pytest.mark.anyio
async def test_a_release_whose_answer_is_lost_does_not_free_the_claim_that_was_made_behind_it() -> None:
    class LosesAnswers(MemoryStore):
        releases = 0

        async def release(self, key: str, /) -> None:
            self.releases += 1
            await super().release(key)
            with anyio.fail_after(WAIT_S):
                await begun[1].wait()
            raise OSError("the answer was lost")

    store, begun, settled, runs = LosesAnswers(), [anyio.Event(), anyio.Event()], anyio.Event(), 0

    @tool
    async def pay() -> str:
        """Pay."""
        nonlocal runs
        runs += 1
        if runs > 2:
            return "paid twice"
        begun[runs - 1].set()
        if runs == 1:
            raise ToolSuspended("a person is asked")
        with anyio.fail_after(WAIT_S):
            await settled.wait()
        return "paid"

    seen: dict[str, Seen] = {}

    async def first() -> None:
        seen["first"] = await run(said("pay"), pay, store)
        settled.set()

    async def second() -> None:
        seen["second"] = await run(said("pay"), pay, store)

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await begun[0].wait()
        group.start_soon(second)
    assert (seen["first"].only.outcome, seen["first"].warnings) == ("suspended", [])
    assert (seen["second"].only.value, runs, store.releases) == ("paid", 2, 1)


@pytest.mark.anyio
async def test_an_end_is_not_repeated_while_its_key_is_being_claimed() -> None:
    class Slow(MemoryStore):
        async def claim(self, key: str, fingerprint: str, /) -> Any:
            asked.set()
            with anyio.fail_after(WAIT_S):
                await repeated.wait()
            return Claimed()

        async def release(self, key: str, /) -> None:
            released.append(key)
            repeated.set()

    store, ends, asked, repeated = Slow(), UnsavedEnds(), anyio.Event(), anyio.Event()
    released: list[str] = []

    async def claim() -> None:
        assert await ends.claim(store, "claimed", "f") == Claimed()
        ends.forget("claimed")

    async with anyio.create_task_group() as group:
        group.start_soon(claim)
        await asked.wait()
        for key in ("claimed", "another"):
            ends.add(key, UnsavedEnd("f", None, 1e12))
        group.start_soon(ends.repeat, store)
    assert released == ["another"]


@pytest.mark.anyio
async def test_known_ends_that_wait_for_a_store_are_bounded_and_given_up_with_their_lease() -> None:
    store, soon = MemoryStore(), 1e12
    ends = UnsavedEnds()
    for number in range(1_001):
        ends.add(str(number), UnsavedEnd("f", b"1", soon))
    assert await ends.claim(store, "0", "f") == Claimed()
    assert await ends.claim(store, "1", "f") == Recorded(b"1")
    with pytest.raises(ToolNotStarted, match="belongs to a call with another tool or arguments"):
        await ends.claim(store, "1", "another")
    ends.forget("1")
    assert await ends.claim(store, "1", "another") == Claimed()

    large, ends = bytes(8 << 20), UnsavedEnds()
    for key in ("a", "a", "b", "c"):
        ends.add(key, UnsavedEnd("f", large, soon))
    assert [type(await ends.claim(store, key, "f")) for key in "abc"] == [Claimed, Recorded, Recorded]

    await store.claim("freed", "f")
    ends.add("freed", UnsavedEnd("f", None, soon))
    assert await ends.claim(store, "freed", "f") == Claimed(), "its claim is given back first"

    ends = UnsavedEnds()
    await store.claim("late", "f")
    ends.add("late", UnsavedEnd("f", b"1", 0.0))
    await ends.repeat(store)
    assert not isinstance(await ends.claim(store, "late", "f"), Recorded)


def test_a_call_that_runs_in_another_event_loop_wakes_who_waits_for_it() -> None:
    store, begun, may_end = MemoryStore(), threading.Event(), threading.Event()

    @tool
    def pay() -> str:
        """Pay."""
        begun.set()
        assert may_end.wait(WAIT_S)
        return "paid"

    async def turn() -> Seen:
        return await run(said("pay"), pay, store)

    async def meeting() -> Seen:
        async with anyio.create_task_group() as group:
            group.start_soon(may_end_soon)
            return await turn()

    async def may_end_soon() -> None:
        await anyio.wait_all_tasks_blocked()
        may_end.set()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(asyncio.run, turn(), debug=True)
        assert begun.wait(WAIT_S)
        second = asyncio.run(meeting(), debug=True)
    assert [(one.only.value, one.only.recorded) for one in (first.result(), second)] == [
        ("paid", False),
        ("paid", True),
    ]
    assert first.result().warnings == []
