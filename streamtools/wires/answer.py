"""What a wire's `render` takes: a turn, and one result for each of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..content import Block
from ..parts import Finish, Part, ToolCall
from ..schema.names import PLAIN_NAMES

__all__ = ["Answer", "CallResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What the model will read as the outcome of one call."""

    call_id: str
    content: str = field(repr=False)
    """The whole content as text; placeholders stand for what is none."""
    is_error: bool = False
    name: str | None = None
    """The tool's name, where the wire gives it."""
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    """The content in pieces, if it is more than `content` says: render these where the wire can carry them."""
    native: Any = field(default=None, repr=False)
    """The content in the very shape of the wire that it is rendered for (a `ToolResult.native`); it goes there as it
    is."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The native block or message that it was read from, to go back over the same wire (`Answer.own_wire`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A turn as `render` takes it: what the model said, and one result for each of its calls."""

    parts: tuple[Part, ...]
    calls: Mapping[str, ToolCall]
    """The calls by id, in call order."""
    arguments: Mapping[str, tuple[str, Mapping[str, Any]]] = field(repr=False)
    """Each call's history form: a JSON object as text and as value."""
    results: tuple[CallResult, ...]
    """In call order."""
    finish: Finish | None = None
    own_wire: bool = True
    """The turn came over the very wire it is rendered for, so that opaque provider state may go back."""

    @property
    def our_calls(self) -> list[ToolCall]:
        """The calls that were ours to run, in call order."""
        return [call for call in self.calls.values() if call.kind != "server"]

    def text(self, *kinds: str) -> str:
        """The texts of all parts of these kinds, joined."""
        return "".join(part.text for part in self.parts if part.kind in kinds)

    def as_function(self, call: ToolCall) -> dict[str, Any]:
        """A call in the shape that OpenAI's chat gave to most: id, type, name, arguments as text."""
        function = {"name": PLAIN_NAMES.cleaned(call.name), "arguments": self.arguments[call.call_id][0]}
        return {"id": call.call_id, "type": "function", "function": function}
