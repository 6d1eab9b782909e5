"""A tool that needs an approval and one that needs none, pipelines around calls of both, and a plain store."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
from ran import ran
from streams import Call, anthropic, stream

from streamtools import Pipeline, pipeline, tool
from streamtools.dispatch import Claim, MemoryStore


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


class OnlyClaims:
    """A store of somebody's own, with the four verbs of an `IdempotencyStore`."""

    def __init__(self) -> None:
        self._inner = MemoryStore()

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        return await self._inner.claim(key, fingerprint)

    async def complete(self, key: str, result: bytes, /) -> None:
        await self._inner.complete(key, result)

    async def release(self, key: str, /) -> None:
        await self._inner.release(key)

    async def abandon(self, key: str, /) -> None:
        await self._inner.abandon(key)
