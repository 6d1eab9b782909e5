"""`once` around any function: claimed before, answered from the record, and unknown is said."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from profiles import every

from streamtools.dispatch import MemoryStore
from streamtools.durable import once
from streamtools.durable.memory import MemoryRecords
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.errors import CallStillRunning, ToolNotStarted, ToolOutcomeUnknown

pytestmark = pytest.mark.anyio


@dataclass
class Receipt:
    order: str
    on: date
    cents: int


async def test_a_function_runs_once_for_a_key_and_its_answer_comes_back_as_its_type() -> None:
    charged: list[str] = []

    @once(MemoryStore(), key=lambda order, **_: f"charge:{order}")
    async def charge(order: str, *, cents: int) -> Receipt:
        """Charge."""
        charged.append(order)
        return Receipt(order, date(2026, 11, 30), cents)

    first = await charge("7", cents=3)
    assert await charge("7", cents=3) == first == Receipt("7", date(2026, 11, 30), 3)
    await charge("8", cents=3)
    assert charged == ["7", "8"]
    assert (charge.__name__, charge.__doc__) == ("charge", "Charge.")


def test_a_function_whose_answer_has_a_type_that_nobody_can_read_has_no_effect() -> None:
    charged: list[str] = []

    def charge(order: str) -> Any:
        charged.append(order)

    charge.__annotations__["return"] = "OnlyForTypeCheckers"
    charge_once = once(MemoryStore(), key=lambda order: str(order))(charge)
    for _ in range(2):
        with pytest.raises(NameError, match="OnlyForTypeCheckers"):
            charge_once("7")
    assert charged == []


def test_a_function_that_is_not_async_does_so_too_wherever_it_is_called(tmp_path: Path) -> None:
    charged: list[str] = []
    records = SqliteRecords(tmp_path / "calls.db")

    @once(records, key=lambda order: order)
    def charge(order: str) -> str:
        charged.append(order)
        return f"paid {order}"

    async def from_a_loop() -> str:
        return charge("7")

    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(charge, ["7"] * 8)} == {"paid 7"}
    assert (charge("7"), anyio.run(from_a_loop), charged) == ("paid 7", "paid 7", ["7"])
    records.close()


async def test_an_error_leaves_the_call_unknown_unless_it_says_that_nothing_has_happened() -> None:
    class Declined(Exception):
        pass

    errors: list[BaseException] = [Declined(), ToolNotStarted("not now"), ConnectionError()]
    store, runs = MemoryStore(), 0

    @once(store, key=lambda: "k", no_effect=(Declined,))
    async def charge() -> str:
        nonlocal runs
        runs += 1
        if errors:
            raise errors.pop(0)
        return "paid"

    for error in (Declined, ToolNotStarted, ConnectionError, ToolOutcomeUnknown, ToolOutcomeUnknown):
        with pytest.raises(error):
            await charge()
    assert runs == 3
    await store.settle("k", None)
    assert (await charge(), runs) == ("paid", 4)


async def test_a_call_waits_for_the_same_one_as_long_as_it_may_and_a_cancelled_one_is_unknown() -> None:
    store, begun, may_end, answers = MemoryStore(), anyio.Event(), anyio.Event(), list[str]()

    def charging(wait: float) -> Callable[[], Any]:
        @once(store, key=lambda: "k", wait=wait, name="charge")
        async def charge() -> str:
            begun.set()
            await may_end.wait()
            return "paid"

        return charge

    async def answered() -> None:
        answers.append(await charging(60)())

    async with anyio.create_task_group() as group:
        group.start_soon(answered)
        await begun.wait()
        with pytest.raises(CallStillRunning):
            await charging(0.01)()
        group.start_soon(answered)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert answers == ["paid", "paid"]

    @once(store, key=lambda: "cancelled")
    async def cut() -> None:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
    with pytest.raises(ToolOutcomeUnknown):
        await cut()


async def test_what_could_not_be_kept_is_returned_and_said(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryStore):
        async def complete(self, key: str, result: bytes, /) -> None:
            raise OSError("secret")

    @once(Full(), key=lambda: "k")
    async def stored() -> str:
        return "paid"

    @once(MemoryStore(), key=lambda: "k")
    async def locked() -> Any:
        return threading.Lock()

    assert await stored() == "paid"
    assert isinstance(await locked(), type(threading.Lock()))
    assert [record.getMessage().split(".")[-1] for record in caplog.records] == [
        "stored has ended, but its end could not be stored (OSError)",
        "locked has ended, but its end could not be stored (ToolFailed)",
    ]


async def test_a_key_of_another_function_is_refused() -> None:
    async def one() -> int:
        return 1

    records = MemoryRecords()
    assert await once(records, key=lambda: "k", name="one")(one)() == 1
    with pytest.raises(ToolNotStarted, match="belongs to a call with another tool or arguments"):
        await once(records, key=lambda: "k", name="other")(one)()


def test_what_has_no_whole_value_or_no_keeper_of_leases_is_refused() -> None:
    class Renewed(MemoryStore):
        async def renew(self, key: str, /) -> None: ...

    def many() -> Iterator[int]:
        yield 1

    def one() -> int:
        return 1

    with pytest.raises(TypeError, match="is a generator"):
        once(MemoryStore(), key=lambda: "k")(many)
    with pytest.raises(TypeError, match="needs that to renew its leases"):
        once(Renewed(), key=lambda: "k")(one)


# -- killed --

PROGRAM = """
import sys
from streamtools.dispatch import {store}
from streamtools.durable import once

@once({store}({where}), key=lambda order: f"charge:{{order}}")
def charge(order: str) -> str:
    with open(sys.argv[1], "a") as ledger:
        ledger.write(order)
    if sys.argv[2] == "dies":
        print("charged", flush=True)
        sys.stdin.readline()
    return f"paid {{order}}"

print(charge(sys.argv[3]), flush=True)
"""


@pytest.mark.thorough
@pytest.mark.asyncio_only
@every("name", ["SqliteStore", "PostgresStore", "RedisStore"])
async def test_a_worker_that_is_killed_leaves_one_effect_and_an_unknown_end(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from dispatch.processes import program, says

    servers = {"PostgresStore": "postgres", "RedisStore": "redis"}
    where = request.getfixturevalue(servers[name]).url if name in servers else str(tmp_path / "calls.db")
    text, ledger = PROGRAM.format(store=name, where=repr(where)), tmp_path / name
    with program(text, ledger, "dies", "7") as first:
        assert await says(first) == "charged"
        first.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(first.wait)
    for order, told in (("7", "ToolOutcomeUnknown"), ("8", "paid 8"), ("8", "paid 8")):
        with program(text, ledger, "lives", order) as again:
            out, wrong = await anyio.to_thread.run_sync(lambda again=again: again.communicate(timeout=60))
        assert told in out + wrong
    assert ledger.read_text() == "78"
