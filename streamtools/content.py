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
"""The caller of a tool: the model itself, or code that the model wrote and the provider runs."""

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
    """Returned by a tool that has begun work in the background: the call's result is handed in when the work has ended.

        @tool
        async def render(scene: str, ctx: ToolContext) -> str | AnsweredLater:
            \"""Render a scene.\"""
            await farm.submit(scene, key=ctx.idempotency_key)
            return AnsweredLater()

    From then on the call waits like one of a tool with ``deferred=True``. Its function does not run again; with a
    store, not even after a crash.
    """

    wait: bool = False
    """The run waits for the answer, as for a tool with ``deferred="wait"``."""


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
        url: the address.
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
        """Returns a sentence that names a field of the wrong type; None if all are right."""
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
        """Returns a URL of the medium: its bytes as a ``data:`` URL, or its address; None if only an id is known."""
        if self.data is not None:
            return f"data:{self.mime_type or 'application/octet-stream'};base64,{self.data}"
        return self.url

    def placeholder(self) -> str:
        """Returns the text that replaces the medium on a wire that cannot carry it: kind, type and name on one line, no
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
    """A block that only its own provider understands. It is sent back over that provider's wire and no other."""

    state: Mapping[str, Any] = field(repr=False)


Block: TypeAlias = Text | Media | Opaque


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class ToolResult:
    """A tool's return value that separates the content for the model from the value for the program.

    Args:
        blocks: the content that the model reads, in order. A str is a `Text`.
        value: the program's value (``Observation.value``); None: the whole result is the value.
        is_error: the tool failed; the model reads the blocks after ``Error:``, and the outcome is ``failed``.
        native: the content in a provider's own form, by wire name. That wire gets it unchanged; other wires get the
            blocks, or a placeholder if there are none.
        display: a value to show to a person; it is never sent to the model.

    Raises:
        TypeError: a block has another type, or a field of a `Media` that must be text has not.
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
    """A group of tools with names of its own: another group may contain the same name.

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
    """Hints about a tool for the provider, with the same meaning for all providers. A hint for which a provider has no
    field is left out, and `Exported.losses` names it.

    Raises:
        ValueError: a value is not one of those listed below.
    """

    defer_loading: bool = False
    """The model does not see the tool until it has found it by a search."""
    allowed_callers: tuple[Caller, ...] = ()
    """The callers of the tool: the model itself, or code that it wrote and the provider runs. Calls from any other
    caller are ``denied``. Empty: the provider's default; no call is denied because of its caller."""
    cache: Literal["5m", "1h"] | None = None
    """The time for which the provider's cache keeps the request up to this tool."""
    examples: tuple[Mapping[str, Any], ...] = ()
    """Examples of arguments for the model; each is validated where the tool is defined."""
    eager: bool | None = None
    """The arguments stream as they are written; they may turn out not to be valid JSON."""
    entry: Mapping[str, Any] | None = None
    """The whole entry of a tool that the provider defines and your program runs: ``{"type": "computer"}``. Name the
    tool as the provider's calls do (``computer_call``). Its schema is not sent to the provider."""

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
    """A grammar that the input of a freeform tool must match.

    https://platform.openai.com/docs/guides/function-calling#context-free-grammars

    Raises:
        ValueError: `syntax` is neither ``lark`` nor ``regex``.
    """

    syntax: Literal["lark", "regex"]
    definition: str

    def __post_init__(self) -> None:
        if self.syntax not in ("lark", "regex"):
            raise ValueError(f"Grammar(syntax={self.syntax!r}): the syntax must be 'lark' or 'regex'")
