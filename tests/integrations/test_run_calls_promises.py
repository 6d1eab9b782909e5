"""The promises that adapters of frameworks keep, of `run_calls` itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from promised import Given, Room, broken_by_a_cancelled_caller, broken_promises, user

from streamtools import Turn, run_calls, tool
from streamtools.errors import LocalProtocolError


class Calls:
    """Runs the calls of a case."""

    def made(self, given: Given) -> Any:
        def visit(n: int) -> str:
            """Visit the room."""
            return given.room.visit(n, True)

        keeping = {**given.keeping, "observers": given.keeping["observers"]()}
        calls = [(call_id, "visit", {"n": n}) for call_id, n in given.calls]
        return run_calls(calls, [tool(visit, **given.tool)], **given.options, **keeping)

    def read(self, turn: Turn) -> list[str]:
        return [seen.model_content for seen in sorted(turn.observations, key=lambda seen: seen.call_id)]

    def blocking(self, given: Given) -> list[str]:
        return self.read(self.made(given).sync().finish())

    async def awaited(self, given: Given) -> list[str]:
        return self.read(await self.made(given))


def test_a_cancelled_caller_cancels_the_calls() -> None:
    user.set("ada")
    assert broken_by_a_cancelled_caller(Calls()) == []


def test_promises_hold_however_calls_are_run(tmp_path: Path) -> None:
    """Inside a running loop blocking is refused, with the line to write."""
    user.set("ada")
    assert broken_promises(Calls(), tmp_path, modes=("sync", "async")) == []

    async def inside() -> None:
        Calls().blocking(Given(Room(), {}, {}, {"observers": list}))

    with pytest.raises(LocalProtocolError, match="write `async with` instead"):
        asyncio.run(inside())
