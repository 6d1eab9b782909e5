"""A store before a call: it runs once, and the next one with its key is told how it ended."""

from __future__ import annotations

import threading

import anyio
import pytest
from profiles import every
from stores import Runs

from streamtools.content import Text, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from streamtools.executors import Invocation, run_once

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

CALL = Invocation(tool="order", arguments={"what": "a book"}, key="order:7")


async def test_a_call_runs_once_and_its_result_is_kept() -> None:
    store = MemoryStore()
    value = ToolResult(blocks=[Text("done")], value=1)
    runs = Runs(value)
    first, second = [await run_once(store, runs, CALL) for _ in range(2)]
    assert (first.value, first.recorded, second.value, second.recorded) == (value, False, value, True)
    assert runs.begun == 1


ENDS: list[tuple[BaseException, bool, int, type[ToolError], type[ToolError]]] = [
    (ToolNotStarted("no worker"), True, 0, ToolNotStarted, ToolNotStarted),
    (ToolNotStarted("too late to say so"), False, 1, ToolOutcomeUnknown, ToolOutcomeUnknown),
    (ToolOutcomeUnknown("lost"), False, 1, ToolOutcomeUnknown, ToolOutcomeUnknown),
    (ToolTimeout(1), False, 1, ToolTimeout, ToolOutcomeUnknown),
    (ToolError("sold out"), False, 1, ToolError, ToolError),
    (ToolFailed("the tool order raised ValueError"), False, 1, ToolFailed, ToolFailed),
]
"""How a call ends, and whether before it began; how often it has begun then; what it raises, and what the next one."""


@every(("end", "refuses", "begun", "first", "second"), ENDS)
async def test_only_what_has_not_started_runs_again(
    end: BaseException, refuses: bool, begun: int, first: type[ToolError], second: type[ToolError]
) -> None:
    store, runs = MemoryStore(), Runs(end, refuses=refuses)
    for expected in (first, second):
        with pytest.raises(ToolError) as caught:
            await run_once(store, runs, CALL)
        assert type(caught.value) is expected
    assert runs.begun == begun
    if refuses:
        assert (await run_once(store, Runs("done"), CALL)).value == "done"


async def test_a_call_that_was_cancelled_while_it_ran_is_unknown() -> None:
    store = MemoryStore()
    with anyio.CancelScope() as scope:

        async def run() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await run_once(store, Runs(run), CALL)
    with pytest.raises(ToolOutcomeUnknown, match="begun before"):
        await run_once(store, Runs(), CALL)


async def test_a_call_that_was_cancelled_before_it_ran_gives_its_claim_back() -> None:
    store = MemoryStore()
    runs = Runs("done")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_once(store, runs, CALL)
    assert runs.begun == 0
    assert (await run_once(store, runs, CALL)).recorded is False


async def test_a_result_is_kept_even_if_nobody_waits_for_it_any_more() -> None:
    store = MemoryStore()
    with anyio.CancelScope() as scope:

        async def run() -> str:
            scope.cancel()
            return "done"

        await run_once(store, Runs(run), CALL)
    assert (await run_once(store, Runs(), CALL)).value == "done"


async def test_a_value_that_cannot_be_kept_is_a_failure_on_record() -> None:
    store = MemoryStore()
    runs = Runs(threading.Lock())
    for _ in range(2):
        with pytest.raises(ToolFailed, match="cannot be written as JSON"):
            await run_once(store, runs, CALL)
    assert runs.begun == 1


class FailingStore(MemoryStore):
    """A disk that is full behind the claims."""

    async def complete(self, key: str, result: bytes, /) -> None:
        raise OSError("disk full")

    async def abandon(self, key: str, /) -> None:
        raise OSError("disk full")


@every(("end", "work"), [(ToolError("sold out"), "complete"), (ToolTimeout(1), "abandon")])
async def test_what_a_store_cannot_do_behind_a_claim_is_told_and_changes_nothing(end: ToolError, work: str) -> None:
    told: list[tuple[str, str]] = []
    store = FailingStore()
    with pytest.raises(type(end)):
        await run_once(
            store, Runs(end), CALL, store_failed=lambda work, error: told.append((work, type(error).__name__))
        )
    assert told == [(work, "OSError")]
