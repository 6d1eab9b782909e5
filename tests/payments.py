"""A tool that needs an approval and one that needs none, what they did, and pipelines around calls of both."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
from streams import Call, anthropic, stream

from streamtools import Pipeline, pipeline, tool

ran: list[str] = []
"""What was done. A test file clears it before each test."""


@tool(needs_approval=True)
async def pay(to: str, amount: int = 1) -> str:
    """Pay."""
    ran.append(f"pay {to} {amount}")
    await anyio.lowlevel.checkpoint()
    return f"paid {to}"


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    ran.append(f"look {at}")
    return f"seen {at}"


PAY_A, PAY_B = ("a", "pay", '{"to": "x"}'), ("b", "pay", '{"to": "y", "amount": 9}')
LOOK = ("l", "look", '{"at": "z"}')


def block(calls: list[Call], **options: Any) -> Pipeline:
    options.setdefault("tools", [pay, look])
    return pipeline(stream(anthropic(["Hi"], calls)), **options)


def outcomes(events: Any) -> dict[str, str]:
    return {o.call_id: o.outcome for o in events.turn.observations}
