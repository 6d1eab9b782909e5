"""What a tool gives the model to read, where a text alone does not say it: `ToolResult`, and the blocks that it holds.

A tool that returns a plain value needs none of this: a string is read as it is, anything else as JSON.

    return ToolResult(blocks=[Text("the plan"), Media(kind="image", mime_type="image/png", data=encoded)], value=plan)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Block", "Media", "Opaque", "Text", "ToolResult"]


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str = field(repr=False)
    state: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    """The block as its provider wrote it, to go back over the same wire as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound, a film or a file: by its bytes, by an address, or by an id that a provider gave it."""

    kind: Literal["image", "audio", "video", "file"]
    mime_type: str | None = None
    """``image/png``; None where only the provider knows."""
    data: str | None = field(default=None, repr=False)
    """The bytes, in base64."""
    url: str | None = field(default=None, repr=False)
    file_id: str | None = field(default=None, repr=False)
    """A provider's own id: of no use anywhere else."""
    filename: str | None = None
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The block as its provider wrote it, to go back over the same wire as it is."""

    def placeholder(self) -> str:
        """What stands for it where it cannot go: its kind, type and name, never its content."""
        told = ", ".join(word for word in (self.mime_type, self.filename) if word)
        return f"[{self.kind}{f': {told}' if told else ''}]"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that only its own provider understands. It goes back over its own wire, and nowhere else."""

    state: Mapping[str, Any] = field(repr=False)


Block: TypeAlias = Text | Media | Opaque


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool may return to say apart what the model reads and what the program gets.

    Args:
        blocks: what the model reads, in order.
        value: what the program gets (``Observation.value``); None gives it the whole result.
        is_error: the tool failed, in words that the model should read; the outcome is ``failed``.
        native: the content as one provider wants it, by wire name. It goes to that wire as it is; any other reads the
            blocks, or a placeholder if there are none.
        display: what a person is shown; never sent to the model.
    """

    blocks: tuple[Block, ...] = ()
    value: Any = None
    is_error: bool = False
    native: Mapping[str, Any] = field(default_factory=dict, repr=False)
    display: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given: Iterable[Block | str] = (self.blocks,) if isinstance(self.blocks, str) else self.blocks
        blocks = tuple(Text(block) if isinstance(block, str) else block for block in given)
        for block in blocks:
            if not isinstance(block, (Text, Media, Opaque)):
                raise TypeError(f"ToolResult(blocks=...) takes Text, Media or str, not {type(block).__name__}")
        object.__setattr__(self, "blocks", blocks)
