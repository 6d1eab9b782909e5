"""Provider wires: payloads in, events out; and the way back, a turn in, the provider's messages out.

One package per wire, which tells what it is in its `Wire`. A decoder is fed one payload at a time (a parsed JSON
object); it knows nothing of bytes, tools or clocks. `detect` finds the wire from a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..limits import Limits
from . import anthropic, bedrock, cohere, gemini, mistral, ollama, openai_chat, openai_responses
from .answer import Answer
from .base import WireDecoder
from .wire import CallIds, Tolerance, Wire

__all__ = [
    "WIRES",
    "Answer",
    "CallIds",
    "Tolerance",
    "Wire",
    "WireDecoder",
    "decoder",
    "detect",
    "find",
    "known",
    "render",
]

_WIRES: dict[str, Wire] = {
    wire.name: wire
    for wire in (
        openai_chat.WIRE,
        openai_responses.WIRE,
        anthropic.WIRE,
        gemini.WIRE,
        mistral.WIRE,
        cohere.WIRE,
        ollama.WIRE,
        bedrock.WIRE,
    )
}
WIRES: tuple[str, ...] = tuple(_WIRES)
"""The names of all wires."""


def known() -> tuple[Wire, ...]:
    """All wires, in their order."""
    return tuple(_WIRES.values())


def find(name: str) -> Wire:
    """The wire of that name.

    Raises:
        ValueError: no such wire; the message lists those there are.
    """
    wire = _WIRES.get(name)
    if wire is None:
        raise ValueError(f"unknown wire {name!r}; known: {', '.join(WIRES)}")
    return wire


def decoder(name: str, limits: Limits) -> WireDecoder:
    """A decoder for one stream of the wire of that name.

    Raises:
        ValueError: no such wire; the message lists those there are.
    """
    return find(name).decoder(limits)


def detect(payload: Mapping[str, Any]) -> str | None:
    """The wire that this payload speaks, or None if it could be any (an error, a keep-alive)."""
    return next((wire.name for wire in _WIRES.values() if wire.recognises(payload)), None)


def render(target: str, answer: Answer) -> list[dict[str, Any]]:
    """A turn and its results as the messages of `target`, which is one of `WIRES`."""
    return find(target).render(answer)
