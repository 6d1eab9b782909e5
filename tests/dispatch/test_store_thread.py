"""The thread that stores share: a claim that nobody waits for is taken back, however late that is found."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import anyio
import anyio.to_thread
import pytest
from processes import PATIENCE_S

from streamtools.dispatch.executors import Claimed
from streamtools.dispatch.store import Claim
from streamtools.dispatch.store_sqlite import StoreJob, ThreadedStore
from streamtools.errors import ToolNotStarted

pytestmark = pytest.mark.anyio


class SlowStore(ThreadedStore):
    """A server that takes a claim at once, and answers when it is told to."""

    def __init__(self, patience: float = PATIENCE_S, lease: float = PATIENCE_S) -> None:
        super().__init__(patience, lease)
        self.done: list[str] = []
        self.asked, self.answers, self.renewed = threading.Event(), threading.Event(), threading.Event()

    def _claim(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim:
        self.done.append(f"claim {key}")
        self.asked.set()
        assert self.answers.wait(PATIENCE_S)
        return Claimed()

    def _complete(self, key: str, claim_id: str | None, result: bytes, job: StoreJob) -> None:
        self.done.append(f"complete {key}")

    def _release(self, key: str, claim_id: str | None, job: StoreJob) -> None:
        self.done.append(f"release {key}")

    def _renew(self, claims: Mapping[str, str | None], lease: float | None, job: StoreJob) -> None:
        self.done.append(f"{'abandon' if lease is None else 'renew'} {' '.join(claims)}")
        self.renewed.set()

    def _decide(self, key: str, record: bytes | None, job: StoreJob) -> bytes | None:
        return record

    def _disconnect(self) -> None:
        self.done.append("disconnect")

    def _busy(self) -> str:
        return "no answer"


async def test_a_claim_that_is_made_behind_its_callers_leaving_is_taken_back_before_anything_else(
    anyio_backend: str,
) -> None:
    with SlowStore() as store:
        async with anyio.create_task_group() as group:
            group.start_soon(store.claim, "a", "print")
            await anyio.to_thread.run_sync(store.asked.wait, PATIENCE_S)
            group.cancel_scope.cancel()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.complete("b", b"1")
        store.answers.set()
    assert store.done == ["claim a", "release a", "complete b", "disconnect"]


async def test_a_claim_whose_answer_crosses_its_callers_leaving_is_taken_back() -> None:
    """The thread has ended it; the event loop has not heard yet."""
    with SlowStore() as store:
        async with anyio.create_task_group() as group:
            group.start_soon(store.claim, "a", "print")
            await anyio.to_thread.run_sync(store.asked.wait, PATIENCE_S)
            store.answers.set()
            while store._jobs.empty() and not store._open:  # blocks the loop, so that it does not hear
                pass
            group.cancel_scope.cancel()
        await store.complete("b", b"1")
    assert store.done == ["claim a", "release a", "complete b", "disconnect"]


async def test_a_claim_that_is_not_answered_in_time_is_refused_and_taken_back() -> None:
    with SlowStore(patience=0.05) as store:
        with pytest.raises(ToolNotStarted, match="not run: no answer"):
            await store.claim("a", "print")
        store.answers.set()
    assert store.done == ["claim a", "release a", "disconnect"]


async def test_open_claims_are_renewed_and_in_the_end_abandoned() -> None:
    with SlowStore(lease=0.01) as store:
        store.answers.set()
        for key in ("a", "b", "c"):
            await store.claim(key, "print")
        await store.complete("c", b"1")
        store.renewed.clear()
        await anyio.to_thread.run_sync(store.renewed.wait, PATIENCE_S)
    assert "renew a b" in store.done
    assert store.done[-2:] == ["abandon a b", "disconnect"]
