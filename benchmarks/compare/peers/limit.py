"""What no decoder in Python can beat; see `benchmarks.workloads.limit`."""

from __future__ import annotations

from ...workloads import limit
from ..work import Read

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> None:
        limit(wire, chunks)

    return read
