"""Replays what the demo's model said when it was asked the demo's own question.

The recordings are the bytes that the server sent, one file per response; `demo.capture` makes them. They hold
what the model made of the tools' results, and the tools answer the same every time, so that a replay is the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from .errors import DemoError
from .model import Ask, Messages
from .server import INSTALL, installed

__all__ = ["CAPTURES", "QUESTION", "capture", "instead", "replaying"]

QUESTION = "weather in Tokyo and Oslo and Lima?"
"""What the demo asks, and what was recorded."""

CAPTURES = Path(__file__).with_name("captures")

# The recordings hold no times. The model takes about as long on one core of a laptop.
BEFORE_FIRST_S = 0.04
BETWEEN_LINES_S = 0.0007


def capture(wire: str, number: int, *, in_text: bool = False) -> Path:
    """The file of the run's response `number`, from 1, over `wire`; with the calls in its text, or read by the
    server."""
    return CAPTURES / f"{wire}{'.text' if in_text else ''}.{number}.sse"


def replaying(question: str, wire: str, *, in_text: bool = False) -> Ask:
    """Answer as the model did.

    Raises:
        DemoError: this question was not recorded.
    """
    if question != QUESTION:
        raise DemoError(f"only {QUESTION!r} was recorded; for questions of your own: {instead()}")

    async def ask(messages: Messages) -> AsyncIterator[bytes]:
        answered = sum(message["role"] == "assistant" for message in messages)
        return _paced(capture(wire, answered + 1, in_text=in_text).read_bytes())

    return ask


def instead() -> str:
    """What to do to talk to the model itself."""
    return "leave out --replay" if installed() else INSTALL


async def _paced(body: bytes) -> AsyncIterator[bytes]:
    await asyncio.sleep(BEFORE_FIRST_S)
    for line in body.splitlines(keepends=True):
        yield line
        await asyncio.sleep(BETWEEN_LINES_S)
