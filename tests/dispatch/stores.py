"""What tests of stores share: an executor that counts."""

from __future__ import annotations

from typing import Any, Self

from streamtools.dispatch import Begin, Emit, Invocation

__all__ = ["Runs"]


class Runs:
    """An executor that runs this, or raises it; it counts what has begun."""

    def __init__(self, result: Any = None, *, refuses: bool = False) -> None:
        self.result = result
        self.refuses = refuses
        self.begun = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        return None

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        if self.refuses:
            raise self.result
        await begin()
        self.begun += 1
        if isinstance(self.result, BaseException):
            raise self.result
        return await self.result() if callable(self.result) else self.result
