"""`streamtools.parse`: the sans-IO chain in one call, arguments validated, nothing run."""

from __future__ import annotations

from streamtools import parse

from ..work import Answer, Read, save_report

__all__ = ["reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    async def read() -> Answer:
        turn = parse(chunks, tools=[save_report])
        return Answer(turn.text, [(call.name, call.arguments) for call in turn.calls])

    return read
