"""A history as every wire can say it: what was asked, what the model said, what its calls came to.

A wire's `read` makes entries of its native messages; its `render` writes `Said` with its results back, its
`render_prompt` a `Prompt`. An entry knows which messages it was read from (`origin`), so that whoever changes nothing
can hand those back as they are.

    read(messages) -> entries -> repair -> messages      on one wire: what is not changed stays the same object
    read(messages) -> entries -> render of another wire  a history moved from one provider to another
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..content import Block
from .answer import Answer, CallResult
from .rules import Violation

__all__ = ["Entry", "Prompt", "Returned", "Said"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """What the model was told."""

    role: Literal["system", "user"]
    """``system`` also stands for OpenAI's ``developer``; `state` of the blocks tells."""
    blocks: tuple[Block, ...]
    origin: tuple[int, int] | None = None
    """First and one past the last of the native messages that it was read from; None if it was made here."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the message has beside its content (``role: developer``, ``name``), to go back over the same wire."""
    flaws: tuple[Violation, ...] = ()
    """What was wrong with the messages and does not show here any more, such as an empty block."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """One answer of the model, without results (`Answer.results` is empty)."""

    answer: Answer
    origin: tuple[int, int] | None = None
    flaws: tuple[Violation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Returned:
    """Results that stand together, in their order. Ids as they stand there: they may answer nothing."""

    results: tuple[CallResult, ...]
    origin: tuple[int, int] | None = None
    flaws: tuple[Violation, ...] = ()


Entry: TypeAlias = Prompt | Said | Returned
