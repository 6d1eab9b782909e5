"""A claim that goes on is renewed, who waits for it survives a failing store, and known ends wait for the store."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from once_turns import WAIT_S, Seen, run, said
from streams import key_of

from streamtools import tool
from streamtools.dispatch import MemoryStore
from streamtools.dispatch.executors import Claimed, Recorded, call_fingerprint
from streamtools.dispatch.results import encode_result
from streamtools.dispatch.store import UnsavedEnd, UnsavedEnds
from streamtools.errors import ToolNotStarted, ToolSuspended


class Leasing(MemoryStore):
    """Claims of which have to be renewed; each second renewal fails."""

    lease = 0.03

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[str] = []
        self.often = anyio.Event()

    async def renew(self, key: str, /) -> None:
        self.renewed.append(key)
        if len(self.renewed) == 4:
            self.often.set()
        if len(self.renewed) % 2:
            raise OSError("the store is busy")


@pytest.mark.anyio
async def test_the_lease_of_a_call_that_goes_on_is_renewed_until_it_ends() -> None:
    store = Leasing()

    @tool
    async def pay() -> str:
        """Pay."""
        with anyio.fail_after(WAIT_S):
            await store.often.wait()
        return "paid"

    for call_id in "ab":
        store.renewed, store.often = [], anyio.Event()
        seen = await run(said("pay", call_id), pay, store)
        assert (seen.only.outcome, set(store.renewed)) == ("ok", {key_of(call_id)})


@pytest.mark.anyio
async def test_a_call_that_waits_goes_on_when_the_store_cannot_notify_it() -> None:
    class Deaf(MemoryStore):
        async def changed(self, key: str, seconds: float, /) -> None:
            raise OSError("no connection")

    class Four:
        """The four verbs, and no more."""

        def __init__(self) -> None:
            store = MemoryStore()
            self.claim, self.complete, self.release, self.abandon = (
                store.claim, store.complete, store.release, store.abandon,
            )  # fmt: skip

    @tool
    async def pay() -> None:
        """Pay."""
        raise AssertionError("it runs elsewhere")

    for store in (Deaf(), Four(), MemoryStore()):
        assert isinstance(await store.claim(key_of("a"), call_fingerprint("pay", {})), Claimed)
        seen: list[Seen] = []

        async def turn(store: Any = store, seen: list[Seen] = seen) -> None:
            seen.append(await run(said("pay"), pay, store))

        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            await store.complete(key_of("a"), encode_result("paid there"))
        assert (seen[0].only.outcome, seen[0].only.value, seen[0].only.recorded) == ("ok", "paid there", True)


@pytest.mark.anyio
async def test_a_claim_that_could_not_be_given_back_is_given_back_before_the_call_runs_again() -> None:
    class Once(MemoryStore):
        fails = 1

        async def release(self, key: str, /) -> None:
            self.fails -= 1
            if self.fails >= 0:
                raise OSError("no connection")
            await super().release(key)

    store, ends = Once(), [ToolSuspended("a person is asked"), "paid"]

    @tool
    async def pay() -> str:
        """Pay."""
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return str(end)

    first = await run(said("pay"), pay, store)
    again = await run(said("pay"), pay, store)
    assert (first.only.outcome, first.warnings) == ("suspended", ["claim_not_released"])
    assert (again.only.outcome, again.only.attempts, again.only.recorded, ends) == ("ok", 1, False, [])


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
