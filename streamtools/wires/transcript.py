"""A history as every wire can say it: what was asked, what the model said, what its calls came to.

A wire's `read` makes entries of its native messages; its `render` writes `Said` with its results back, its
`render_prompt` a `Prompt`. An entry knows which messages it was read from (`origin`), so that whoever changes nothing
can hand those back as they are.

    read(messages) -> entries -> repair -> messages      on one wire: what is not changed stays the same object
    read(messages) -> entries -> render of another wire  a history moved from one provider to another
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from ..content import Block, Media, Text
from ..parts import Finish, Part, ToolCall
from ..schema.names import PLAIN_NAMES
from .history_rules import Violation

__all__ = [
    "Answer",
    "CallResult",
    "Entry",
    "Prompt",
    "Returned",
    "Said",
    "data_url",
    "decoded",
    "encoded",
    "read_data_url",
    "text_block",
    "text_of",
    "written",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The outcome of one call as the model will read it."""

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

    def state_of(self, piece: Part | ToolCall) -> Mapping[str, Any]:
        """Returns the provider's state of a part or a call; an empty one if that came over another wire."""
        return (piece.provider_state or {}) if self.own_wire else {}

    def text(self, *kinds: str) -> str:
        """Returns the texts of all parts of these kinds, joined."""
        return "".join(part.text for part in self.parts if part.kind in kinds)

    def as_function(self, call: ToolCall) -> dict[str, Any]:
        """Returns a call in the shape that OpenAI's chat gave to most: id, type, name, arguments as text."""
        function = {"name": PLAIN_NAMES.cleaned(call.name), "arguments": self.arguments[call.call_id][0]}
        return {"id": call.call_id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """Something that the model was told, by the user or by a system prompt."""

    role: Literal["system", "user"]
    """``system`` also stands for OpenAI's ``developer``; `state` of the blocks tells."""
    blocks: tuple[Block, ...]
    origin: tuple[int, int] | None = None
    """First and one past the last of the native messages that it was read from; None if it was made here."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The message's fields beside its content (``role: developer``, ``name``), to go back over the same wire."""
    flaws: tuple[Violation, ...] = ()
    """The faults of the messages that do not show here any more, such as an empty block."""


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


# -- media -----------------------------------------------------------------------------------------------------------

# Media in results and prompts: data URLs, texts that stand for them, and blocks as an API wants them.

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^,;]*)*?(?P<base64>;base64)?,", re.IGNORECASE)


def data_url(media: Media) -> str | None:
    """Returns the bytes of `media` as a ``data:`` URL (RFC 2397), or its address; None if it has neither."""
    if media.data is not None:
        return f"data:{media.mime_type or 'application/octet-stream'};base64,{media.data}"
    return media.url


def read_data_url(url: str) -> tuple[str | None, str] | None:
    """Returns the MIME type, if a URL says one, and its bytes in base64; None if this is an address of another kind."""
    head = _DATA_URL.match(url)
    if head is None:
        return None
    body = url[head.end() :]
    return head["type"] or None, body if head["base64"] else b64encode(unquote_to_bytes(body)).decode()


def decoded(data: str) -> bytes | None:
    """Returns the bytes of a text in base64; None if it is none."""
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return None


def encoded(data: bytes | str) -> str:
    """Returns bytes, or the text of a file, in base64."""
    return b64encode(data if isinstance(data, bytes) else data.encode("utf-8", "replace")).decode()


def text_of(blocks: Iterable[Block]) -> str:
    """Returns all of it as one text: what is no text is a placeholder there, and what only its provider understands is
    left out."""
    texts = (
        block.text if isinstance(block, Text) else block.placeholder()
        for block in blocks
        if isinstance(block, (Text, Media))
    )
    return "\n".join(texts)


def text_block(blocks: Iterable[Block], raw: dict[str, Any]) -> Text | None:
    """Returns the texts of `blocks` as one that goes back as `raw`; None if there are none."""
    found = [block.text for block in blocks if isinstance(block, Text)]
    return Text("\n".join(found), state=raw) if found else None


def written(
    blocks: Iterable[Block],
    *,
    own_wire: bool = True,
    text: Callable[[str], dict[str, Any]],
    media: Callable[[Media], dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Renders blocks as an API takes them. What it does not take is a placeholder; blank text is left out.

    Args:
        blocks: what is to be told.
        own_wire: what stands in a block's `state` was read from this API, and goes back as it is.
        text: the API's form of a text.
        media: its form of a picture or file; None if it has none.
    """
    found: list[dict[str, Any]] = []
    for block in blocks:
        if own_wire and block.state is not None:
            found.append(dict(block.state))
        elif isinstance(block, Media):
            found.append(media(block) or text(block.placeholder()))
        elif isinstance(block, Text) and block.text.strip():
            found.append(text(block.text))
    return found
