"""Provider wires: payloads in, events out; and the way back, a turn in, the provider's messages out.

One file per wire. A decoder is fed one payload at a time (a parsed JSON object); it knows nothing of bytes, tools or
clocks. `detect` finds the wire from a payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..limits import Limits
from . import anthropic, openai_chat
from .base import Answer, WireDecoder

__all__ = ["WIRES", "Answer", "WireDecoder", "decoder", "detect", "render"]

# A wire is a decoder, a recogniser of its payloads, and a renderer of messages; a new one is a line in each table.
_DECODERS: dict[str, Callable[[Limits], WireDecoder]] = {
    openai_chat.NAME: openai_chat.OpenAIChatDecoder,
    anthropic.NAME: anthropic.AnthropicDecoder,
}
WIRES: tuple[str, ...] = tuple(_DECODERS)
"""The names of all wires, in the order in which they are tried."""

_RENDERERS: dict[str, Callable[[Answer], list[dict[str, Any]]]] = {
    openai_chat.NAME: openai_chat.render,
    anthropic.NAME: anthropic.render,
}
_RECOGNISERS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    openai_chat.NAME: openai_chat.recognises,
    anthropic.NAME: anthropic.recognises,
}


def decoder(wire: str, limits: Limits) -> WireDecoder:
    """A decoder for one stream of `wire`.

    Raises:
        ValueError: no such wire; the message lists those there are.
    """
    if wire not in _DECODERS:
        raise ValueError(f"unknown wire {wire!r}; known: {', '.join(WIRES)}")
    return _DECODERS[wire](limits)


def detect(payload: Mapping[str, Any]) -> str | None:
    """The wire that this payload speaks, or None if it could be any (an error, a keep-alive)."""
    return next((name for name, recognises in _RECOGNISERS.items() if recognises(payload)), None)


def render(target: str, answer: Answer) -> list[dict[str, Any]]:
    """A turn and its results as the messages of `target`, which is one of `WIRES`."""
    return _RENDERERS[target](answer)
