"""What a tool gives the model to read, where a text alone does not say it: `ToolResult`, and the blocks that it holds.

A tool that returns a plain value needs none of this: a string is read as it is, anything else as JSON.

    return ToolResult(blocks=(Text("the plan"), Media(kind="image", mime_type="image/png", data=encoded)), value=plan)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from .text import one_line

_Kind: TypeAlias = Literal["image", "audio", "video", "file"]

__all__ = ["Block", "Grammar", "Media", "Opaque", "FinalResult", "Text", "ToolResult"]

_MAX_WORD_CHARS = 1024  # of a type or a name in a placeholder: as long as an address may be


@dataclass(frozen=True, slots=True)
class FinalResult:
    """The result of a tool that is an async generator; what it yields before is progress.

        @tool(effect="pure")
        async def search(words: str) -> AsyncIterator[str | FinalResult]:
            \"""Search the archive.\"""
            yield "opening the index"
            yield FinalResult(["first", "second"])

    The generator is closed after it. A `ToolResult` that is yielded is a result, too.
    """

    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str = field(repr=False)
    state: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    """The block as its provider wrote it, to go back over the same wire as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound, a film or a file: by its bytes, by an address, or by an id that a provider gave it.

    Args:
        kind: what it is.
        mime_type: ``image/png``; None where only the provider knows. Most providers take no bytes without it.
        data: the bytes as base64 text: ``base64.b64encode(png).decode()``. What is no base64, or has no type, goes as a
            placeholder to providers that decode it.
        url: the address.
        file_id: a provider's own id: of no use anywhere else.
        filename: for people, and for providers that want one.
        state: the block as its provider wrote it, to go back over the same wire as it is.
    """

    kind: _Kind
    mime_type: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    file_id: str | None = field(default=None, repr=False)
    filename: str | None = None
    state: Mapping[str, Any] | None = field(default=None, repr=False)

    def problem(self) -> str | None:
        """What is of the wrong type; None if nothing is. `ToolResult` asks, since a provider's refusal comes later."""
        if self.kind not in get_args(_Kind):
            return f"kind must be one of {', '.join(get_args(_Kind))}, not {self.kind!r}"
        for name in ("data", "url", "file_id"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                hint = "; write base64.b64encode(data).decode()" if name == "data" else ""
                return f"{name} must be text, not {type(value).__name__}{hint}"
        return None

    def placeholder(self) -> str:
        """What stands for it where it cannot go: its kind, type and name on one line, never its content."""
        told = ", ".join(one_line(word, _MAX_WORD_CHARS) for word in (self.mime_type, self.filename) if word)
        return f"[{self.kind}{f': {told}' if told else ''}]"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that only its own provider understands. It goes back over its own wire, and nowhere else."""

    state: Mapping[str, Any] = field(repr=False)


Block: TypeAlias = Text | Media | Opaque


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ToolResult:
    """What a tool may return to say apart what the model reads and what the program gets.

    Args:
        blocks: what the model reads, in order. A str is a `Text`.
        value: what the program gets (``Observation.value``); None gives it the whole result.
        is_error: the tool failed, in words that the model should read, behind ``Error:``; the outcome is ``failed``.
        native: the content as one provider wants it, by wire name. It goes to that wire as it is; any other reads the
            blocks, or a placeholder if there are none.
        display: what a person is shown; never sent to the model.

    Raises:
        TypeError: a block is none of ours, or a `Media` holds something else than text.
    """

    blocks: tuple[Block, ...]
    value: Any = field(repr=False)
    is_error: bool
    native: Mapping[str, Any] = field(repr=False)
    display: Any = field(repr=False)

    def __init__(
        self,
        *,
        blocks: Iterable[Block | str] = (),
        value: Any = None,
        is_error: bool = False,
        native: Mapping[str, Any] | None = None,
        display: Any = None,
    ) -> None:
        given: Iterable[Block | str] = (blocks,) if isinstance(blocks, str) else blocks
        held = tuple(Text(block) if isinstance(block, str) else block for block in given)
        for block in held:
            if not isinstance(block, (Text, Media, Opaque)):
                raise TypeError(f"ToolResult(blocks=...) takes Text, Media or str, not {type(block).__name__}")
            if isinstance(block, Media) and (problem := block.problem()) is not None:
                raise TypeError(f"Media(kind={block.kind!r}): {problem}")
        for name, value_ in (
            ("blocks", held),
            ("value", value),
            ("is_error", is_error),
            ("native", {} if native is None else native),
            ("display", display),
        ):
            object.__setattr__(self, name, value_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What the text of a freeform tool has to match.

    https://platform.openai.com/docs/guides/function-calling#context-free-grammars

    Raises:
        ValueError: the syntax is another one.
    """

    syntax: Literal["lark", "regex"]
    definition: str

    def __post_init__(self) -> None:
        if self.syntax not in ("lark", "regex"):
            raise ValueError(f"Grammar(syntax={self.syntax!r}): the syntax must be 'lark' or 'regex'")
