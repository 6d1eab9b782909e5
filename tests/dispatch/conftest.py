"""Stores of both kinds, for whatever is to hold with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamtools.dispatch import MemoryStore, SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes stores; every SQLite store of a test is of one file."""
    made: list[SqliteStore] = []

    def make(**options: Any) -> Any:
        if request.param == "memory":
            return MemoryStore(**options)
        made.append(SqliteStore(tmp_path / "calls.sqlite3", **options))
        return made[-1]

    yield make
    for store in made:
        store.close()
