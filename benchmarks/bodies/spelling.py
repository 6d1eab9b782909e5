"""How the builders of bodies spell JSON and events, and what they share."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence

import orjson

__all__ = [
    "CREATED",
    "PROMPT_TOKENS",
    "SEED",
    "Body",
    "Call",
    "data_line",
    "hexadecimal",
    "named_event",
    "padding",
    "pieces",
    "token",
    "usage",
    "written",
]

Call = tuple[str, str]  # the tool's name, the arguments as JSON text
Body = Callable[[Sequence[str], Sequence[Call], Sequence[str]], list[bytes]]  # of text, calls, text after them

SEED = 1
PROMPT_TOKENS = 512
CREATED = 1763625600
LETTERS = string.ascii_letters + string.digits


def pieces(text: str, size: int = 5) -> list[str]:
    """`text` in deltas of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def written(value: object) -> str:
    """As JSON text."""
    return orjson.dumps(value).decode()


def data_line(payload: object) -> bytes:
    """As an event of an event stream."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def named_event(kind: str, payload: object) -> bytes:
    """As an event that has a name."""
    return f"event: {kind}\n".encode() + data_line(payload)


def usage(tokens: int) -> dict[str, int]:
    """As OpenAI and Mistral tell it."""
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}


def token(rng: random.Random, length: int) -> str:
    """What ids are made of."""
    return "".join(rng.choices(LETTERS, k=length))


def hexadecimal(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.hexdigits[:16], k=length))


def padding(rng: random.Random) -> str:
    """The beginning of the alphabet, so that an event's length tells nothing."""
    return LETTERS[: rng.randrange(3, 60)]
