"""Provider wires: payloads in, events out; and the way back, a turn in, the provider's messages out.

One file per wire. A decoder is fed one payload at a time (a parsed JSON object); it knows nothing of bytes, tools or
clocks. `detect` finds the wire from a payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ExportError
from ..limits import Limits
from . import anthropic, openai_chat
from .base import Answer, WireDecoder

__all__ = ["WIRES", "Answer", "WireDecoder", "decoder", "detect", "render"]

_MODULES = {openai_chat.NAME: openai_chat, anthropic.NAME: anthropic}

WIRES: tuple[str, ...] = tuple(_MODULES)
"""The names of all wires, in the order in which they are tried."""

_DECODERS: dict[str, Callable[[Limits], WireDecoder]] = {
    openai_chat.NAME: openai_chat.OpenAIChatDecoder,
    anthropic.NAME: anthropic.AnthropicDecoder,
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
    return next((name for name, module in _MODULES.items() if module.recognises(payload)), None)


def render(target: str, answer: Answer) -> list[dict[str, Any]]:
    """A turn and its results as `target`'s own messages.

    Raises:
        ExportError: no such target.
    """
    if target not in _MODULES:
        raise ExportError(f"cannot write messages for {target!r}; known: {', '.join(WIRES)}")
    return _MODULES[target].render(answer)
