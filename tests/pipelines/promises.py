"""Checks of many promises in one test item, each in a folder of its own: all that do not hold are reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

__all__ = ["Promises"]

Check: TypeAlias = Callable[[Path], Awaitable[None]]


class Promises:
    """The promises of one module; decorate each check with `add`."""

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def add(self, check: Check) -> Check:
        self._checks.append(check)
        return check

    async def check_all(self, folder: Path) -> None:
        """Raises a group of what the checks raise."""
        assert self._checks, "a test of no promises cannot fail"
        failed: list[Exception] = []
        for number, check in enumerate(self._checks):
            (own := folder / str(number)).mkdir()
            try:
                await check(own)
            except Exception as error:
                error.add_note(getattr(check, "__name__", ""))
                failed.append(error)
        if failed:
            raise ExceptionGroup("promises that do not hold", failed)
