"""A process without the lease of its run begins no call any more, and the end of a call that had begun counts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from streams import chat, exhaust

from streamtools import Observation, agent_loop, tool
from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.errors import RunTakenOver, ToolNotStarted
from streamtools.events import StreamEnd

BACKENDS = ("asyncio", "trio")
CALLS = [(ref, "pay", json.dumps({"to": ref})) for ref in ("x", "y")]


class _Bank:
    """A model that asks for two payments, one of which goes on until it may end."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.asked = 0
        self.is_paying, self.may_end = anyio.Event(), anyio.Event()

    async def pay(self, to: str) -> str:
        """Pay."""
        self.paid.append(to)
        self.is_paying.set()
        await self.may_end.wait()
        return f"paid {to}"

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        self.asked += 1
        for item in chat(calls=CALLS) if len(messages) == 1 else chat(text=["Paid."], finish="stop"):
            await anyio.lowlevel.checkpoint()
            yield item

    def run(self, path: Path, *, asks: bool, **options: Any) -> Any:
        pay = tool(self.pay, effect="once", needs_approval=asks, conflict_key=lambda arguments: "bank")
        told = [{"role": "user", "content": "Pay them."}]
        return agent_loop(
            self.ask, told, tools=[pay], wire="openai.chat_completions", journal=path, run_id="order-7", **options
        )


def test_a_run_that_lost_its_lease_ends_the_call_that_had_begun_and_begins_no_other(tmp_path: Path) -> None:
    async def case(folder: Path, store: Callable[[Path], Any]) -> None:
        bank, path = _Bank(), folder / "runs.db"
        options = store(folder)
        seen: list[Observation] = []
        raised: list[BaseException] = []

        async def stand_still() -> None:
            try:
                async with bank.run(path, asks=False, **options) as run:
                    async for event in run:
                        if isinstance(event, Observation):
                            seen.append(event)
            except RunTakenOver as error:
                raised.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stand_still)
            await bank.is_paying.wait()
            with closing(sqlite3.connect(path)) as file, file:
                file.execute("UPDATE records SET stale_at = 0 WHERE kind = 'lease'")
            async with bank.run(path, asks=True, **options) as successor:
                async for event in successor:
                    if isinstance(event, StreamEnd):  # it waits for the end of the payment that goes on
                        bank.may_end.set()
            assert (successor.outcome, bank.paid) == ("suspended", ["x"])

        assert bank.paid == ["x"], "the second payment waits for an approval now"
        assert bank.asked == 1
        assert [(one.call_id, one.outcome) for one in seen] == [("x", "ok"), ("y", "failed")]
        assert isinstance(seen[1].error, ToolNotStarted)
        assert "the run 'order-7' was taken over" in str(seen[1].error)
        assert len(raised) == 1

        again = bank.run(path, asks=True, approve=lambda asked: True, **options)
        async with again:
            await exhaust(again)
        assert (again.outcome, bank.paid) == ("answered", ["x", "y"]), "the end of the first one is on record"

    stores: dict[str, Callable[[Path], dict[str, Any]]] = {
        "own": lambda folder: {},
        "file": lambda folder: {"store": SqliteStore(folder / "calls.db")},
        "memory": lambda folder: {"store": MemoryStore()},
    }
    for backend in BACKENDS:
        for name, store in stores.items():
            folder = tmp_path / f"{backend}-{name}"
            folder.mkdir()
            anyio.run(case, folder, store, backend=backend)
