"""A run's place in its journal, while this process holds it."""

from __future__ import annotations

import sqlite3

from ..errors import JournalError, RunTakenOver
from ..ground import type_name
from .journal import Journal
from .lease import JournalLease, Waiter
from .run_records import JournaledResponse


class JournalPlace:
    def __init__(self, journal: Journal, run_id: str, first: str) -> None:
        self.journal = journal
        self.run_id = run_id
        self.first = first  # by which the journal recognizes the run: a digest of its wire and messages
        self.held: JournalLease | None = None
        self.marker = ""  # names the run in this journal, for tickets
        self.lost: RunTakenOver | None = None  # set by a claim that found it

    async def take(self, name: str | None) -> list[JournaledResponse]:
        """Takes the lease of the run; returns its stored responses. Raises `RunStillRunning` if another process runs
        it, a `JournalError` if another run has this id."""
        self.held, found = await self.journal.begin(self.run_id, self.first, name)
        self.marker = self.held.marker
        return found

    async def stored(self, waiter: Waiter, what: str, verb: str = "stored") -> None:
        try:
            await waiter()
        except JournalError:
            raise
        except Exception as error:
            text = f"{what} could not be {verb} ({words(error)})"
            raise JournalError(f"the run {self.run_id!r} ends here: {text}") from error


async def fail(error: Exception) -> None:
    raise error


def words(error: Exception) -> str:
    return str(error) if isinstance(error, sqlite3.Error) else type_name(error)
