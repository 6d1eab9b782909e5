"""Runs with a journal hold what they promise where their parts meet: retries, messages, stops, stores that fail."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest
from test_journal import ANSWER, Bank, on_both, read

from streamtools.dispatch import SqliteStore
from streamtools.dispatch.journal import Journal


class Failing(SqliteStore):
    """A store that does something at one of its journal's transactions."""

    at = 0
    then: Any = None

    def hand_over(self, work: Any, **options: Any) -> Any:
        self.at -= 1
        if self.at == 0:
            self.then()
        return super().hand_over(work, **options)


def broken() -> None:
    raise sqlite3.OperationalError("disk I/O error")


def test_a_run_that_is_left_or_fails_where_it_begins_leaves_nothing_behind(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        with anyio.fail_after(10):
            async with Bank().run(folder / "left.db") as run:
                pass
            assert run.outcome == "left"
            with pytest.raises(KeyError, match="the body's own"):
                async with Bank().run(folder / "left.db"):
                    raise KeyError("the body's own")

            store = Failing(folder / "failing.db")
            store.at, store.then = 2, broken  # the look into the inbox
            run = Bank().run(store)
            with pytest.raises(sqlite3.OperationalError):
                await read(run)
            assert run.outcome == "error"
            with anyio.CancelScope() as scope:
                store.at, store.then = 2, scope.cancel
                await read(Bank().run(store))
            assert scope.cancelled_caught
            run = Bank(ANSWER).run(Journal(store, wait=0))  # the lease was given back
            await read(run)
            assert run.outcome == "answered"

    on_both(case, tmp_path)
