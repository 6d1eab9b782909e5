"""Defines `ToolResult` and its blocks, for tools whose result is more than text: images, files, several blocks.

A tool that returns a plain value needs none of this: the model reads a string as it is, and anything else as JSON.

    return ToolResult(blocks=(Text("the plan"), Media(kind="image", mime_type="image/png", data=encoded)), value=plan)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from .ground.text import PLAIN_NAME_CHARACTERS, PLAIN_NAME_LENGTH, one_line

_Kind: TypeAlias = Literal["image", "audio", "video", "file"]
Caller: TypeAlias = Literal["direct", "code"]
"""Who makes a call: the model itself, or code that it wrote and the provider runs."""

__all__ = [
    "AnsweredLater", "Block", "Caller", "Grammar", "Media", "Namespace", "Opaque", "FinalResult", "RequestHints",
    "Text", "ToolResult",
]  # fmt: skip

PLACEHOLDERS = {  # what copies of a run show in the place of secrets, by their kinds
    "private_key": "[private key]", "api_key": "[api key]", "jwt": "[token]", "bearer": "[token]", "hook": "[secret]",
    "password": "[password]", "netrc": "[password]", "cookie": "[cookie]", "value": "[secret]", "card": "[card number]",
    "mail": "[mail address]",
}  # fmt: skip
_MAX_WORD_CHARS = 1024  # of a type or a name in a placeholder: as long as an address may be


@dataclass(frozen=True, slots=True)
class FinalResult:
    """The result of a tool that is an async generator; values yielded before it are progress.

        @tool(effect="pure")
        async def search(words: str) -> AsyncIterator[str | FinalResult]:
            \"""Search the archive.\"""
            yield "opening the index"
            yield FinalResult(["first", "second"])

    The generator is closed after it. A yielded `ToolResult` is a result, too.
    """

    value: Any = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredLater:
    """Returned by a tool that has begun work in the background: the call's result is handed in when that has ended.

        @tool
        async def render(scene: str, ctx: ToolContext) -> str | AnsweredLater:
            \"""Render a scene.\"""
            await farm.submit(scene, key=ctx.idempotency_key)
            return AnsweredLater()

    From then on the call waits as one of a tool with ``deferred=True``, and its function is not run again, with a store
    not after a crash either.
    """

    wait: bool = False
    """The run waits for the answer, as for one of a tool with ``deferred="wait"``."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str = field(repr=False)
    state: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    """The block as its provider wrote it, sent back unchanged over the same wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, audio, video or file, given by its bytes, its address, or the id that a provider has for it.

    Args:
        kind: ``image``, ``audio``, ``video`` or ``file``.
        mime_type: ``image/png``; None where only the provider knows. Most providers take no bytes without it.
        data: the bytes as base64 text: ``base64.b64encode(png).decode()``. Data that is not base64, or
            has no type, becomes a placeholder for providers that decode it.
        url: its address.
        file_id: a provider's own id, valid at that provider only.
        filename: a name for people, and for providers that require one.
        state: the block as its provider wrote it, sent back unchanged over the same wire.
    """

    kind: _Kind
    mime_type: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = field(default=None, repr=False)
    file_id: str | None = field(default=None, repr=False)
    filename: str | None = None
    state: Mapping[str, Any] | None = field(default=None, repr=False)

    def problem(self) -> str | None:
        """Returns which field has the wrong type, in words; None if none has."""
        # `ToolResult` asks. A provider's refusal would come later, with the next request.
        if self.kind not in get_args(_Kind):
            return f"expected kind to be one of {', '.join(get_args(_Kind))}, got {self.kind!r}"
        for name in ("data", "url", "file_id"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                hint = "; write base64.b64encode(data).decode()" if name == "data" else ""
                return f"{name}: expected text, got {type(value).__name__}{hint}"
        return None

    def address(self) -> str | None:
        """Returns a URL of the medium: its bytes as a ``data:`` URL, or where it is; None if only an id is known."""
        if self.data is not None:
            return f"data:{self.mime_type or 'application/octet-stream'};base64,{self.data}"
        return self.url

    def placeholder(self) -> str:
        """Returns the text in place of a medium on a wire without such content: kind, type and name on one line, no
        content."""
        words = ", ".join(one_line(word, _MAX_WORD_CHARS) for word in (self.mime_type, self.filename) if word)
        return f"[{self.kind}{f': {words}' if words else ''}]"


_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^,;]*)*?(?P<base64>;base64)?,", re.IGNORECASE)


def read_data_url(url: str) -> tuple[str | None, str] | None:
    """Returns the type and the base64 text of a ``data:`` URL; None if it is another one."""
    head = _DATA_URL.match(url)
    if head is None:
        return None
    body = url[head.end() :]
    if not head["base64"]:
        from base64 import b64encode  # few are written so
        from urllib.parse import unquote_to_bytes

        body = b64encode(unquote_to_bytes(body)).decode()
    return head["type"] or None, body


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that only its own provider understands. It is sent back over that provider's wire, and over no other."""

    state: Mapping[str, Any] = field(repr=False)


Block: TypeAlias = Text | Media | Opaque


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ToolResult:
    """A tool's return value that separates the content for the model from the value for the program.

    Args:
        blocks: the content that the model reads, in order. A str is a `Text`.
        value: the program's value (``Observation.value``); with None, that is the whole result.
        is_error: the tool failed; the model reads the blocks behind ``Error:``, and the outcome is ``failed``.
        native: the content in a provider's own form, by wire name. That wire gets it unchanged; any other wire gets the
            blocks, or a placeholder if there are none.
        display: a value to show to a person; it is never sent to the model.

    Raises:
        TypeError: a block is of another type, or a field of a `Media` that must be text is not.
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
        # A str is a block by itself, and not an iterable of letters. Checked where the tool returns it: there its
        # traceback names the line.
        given: Iterable[Block | str] = (blocks,) if isinstance(blocks, str) else blocks
        held = tuple(Text(block) if isinstance(block, str) else block for block in given)
        for block in held:
            if not isinstance(block, (Text, Media, Opaque)):
                raise TypeError(f"ToolResult(blocks=...): expected Text, Media or str, got {type(block).__name__}")
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


# -- what a request may say about a tool --

_NAMESPACE = re.compile(f"[{PLAIN_NAME_CHARACTERS}]{{1,{PLAIN_NAME_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A group of tools, whose names are those of the group alone: the same name may stand in another one.

    https://platform.openai.com/docs/guides/function-calling#defining-namespaces

    Raises:
        ValueError: the name is not 1 to 64 letters, digits, ``_`` or ``-``.
    """

    name: str
    description: str = ""
    """The text that the model reads about the group."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _NAMESPACE.fullmatch(self.name) is None:
            raise ValueError(f"Namespace({self.name!r}): a name is 1 to 64 letters, digits, '_' or '-'")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestHints:
    """Gives a provider more about a tool, in words that mean the same everywhere. Where a provider has no field for one
    of them, it is left out, and `Exported.losses` names it.

    Raises:
        ValueError: a value is not one of those below.
    """

    defer_loading: bool = False
    """The model finds the tool by searching, and does not see it before."""
    allowed_callers: tuple[Caller, ...] = ()
    """The callers of the tool: the model itself, or code that it wrote and the provider runs. A call of any other is
    ``denied``. Empty: the provider's default, and no call is denied for its caller."""
    cache: Literal["5m", "1h"] | None = None
    """The provider's cache keeps the request up to this tool, for that long."""
    examples: tuple[Mapping[str, Any], ...] = ()
    """Arguments as the model should write them; each is validated where the tool is made."""
    eager: bool | None = None
    """The arguments stream as they are written, and may not be valid JSON in the end."""
    entry: Mapping[str, Any] | None = None
    """The whole entry of a tool that the provider defines and we run: ``{"type": "computer"}``. The tool has the name
    by which the provider's calls are known (``computer_call``), and its schema is for us alone."""

    def __post_init__(self) -> None:
        if not isinstance(self.allowed_callers, tuple) or not set(self.allowed_callers) <= set(get_args(Caller)):
            raise ValueError(f"allowed_callers={self.allowed_callers!r}: must be a tuple of 'direct' and 'code'")
        if self.cache not in (None, "5m", "1h"):
            raise ValueError(f"cache={self.cache!r}: must be '5m', '1h' or None")

    def given(self) -> dict[str, Any]:
        """Returns the hints that differ from the defaults, by name."""
        values = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return {name: value for name, value, default in values if value != default}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A grammar that the input of a freeform tool has to match.

    https://platform.openai.com/docs/guides/function-calling#context-free-grammars

    Raises:
        ValueError: `syntax` is neither ``lark`` nor ``regex``.
    """

    syntax: Literal["lark", "regex"]
    definition: str

    def __post_init__(self) -> None:
        if self.syntax not in ("lark", "regex"):
            raise ValueError(f"Grammar(syntax={self.syntax!r}): the syntax must be 'lark' or 'regex'")
