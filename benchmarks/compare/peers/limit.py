"""What no decoder in Python can beat, see `benchmarks.workloads.limit`; and the loop that is written by hand."""

from __future__ import annotations

from ...bench_runs import by_hand
from ...workloads import limit, note
from ..transport import plain_client
from ..work import Read, Run


def run_limit(answers: list[list[bytes]]) -> Run:
    client = plain_client(answers)
    return lambda: by_hand(client, note)


def read_limit(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> None:
        limit(wire, chunks)

    return read
