"""A tool as one provider sees it, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .definition import Tool

__all__ = ["Exported"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exported:
    """A tool for one wire, and the way back. Made by `streamtools.exports.export`.

    Pass it to ``pipeline(..., tools=[...])`` in the tool's place: the calls that come are then known by `name`, and
    their arguments go through `decode` before they are validated.
    """

    tool: Tool[..., Any]
    wire: str
    """The name that it was exported by (``openai.chat_completions``, ``mcp``)."""
    strict: bool = False
    """The provider holds the model to the payload's schema."""
    name: str
    """The name under which the model calls: the tool's own, unless the wire does not take that."""
    payload: dict[str, Any] = field(repr=False)
    """The entry for the request's list of tools (Gemini: of ``functionDeclarations``); yours to change."""
    decode: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    """What the model sent to what the tool takes: the inverse of whatever the payload had to say differently."""
    rewritten: bool = False
    """`decode` does something, or `name` is not the tool's own: the payload alone does not do."""
    losses: tuple[str, ...] = ()
    """What of the schema the wire cannot say, one line each. Validation still enforces it."""
