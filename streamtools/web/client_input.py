"""Defines `ClientInput`, the input of a chat client independent of its protocol; makes the user's message for any wire.

The server's history is the truth: a client's input is only the new message, the id of the message before, and answers
to waiting calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, TypeAdapter
from pydantic_core import to_json

from ..content import Media, Text, read_data_url
from ..errors import BadRequest, SchemaError, ToolDefinitionError
from ..limits import Limits
from ..tools import Tool
from ..wires import Prompt, Wire, find
from ..wires.transcript import decoded
from .bodies import Posted, printable, unique

Trigger: TypeAlias = Literal["submit", "regenerate", "edit", "resume"]
"""The request of the client: an answer to a new message; another answer instead of `ClientInput.message_id`; an answer
to the edited message of that id; or the continuation of a run whose calls it has answered."""

MAX_PARTS = 256  # texts and files in one message
MAX_TOOLS = 128  # tools that a client declares: providers take about as many in one request
MAX_TOOLS_BYTES = 1 << 20  # bytes of all of them, as JSON: each run keeps its own
MAX_NAME_CHARS = 255  # characters of a file's name, as file systems have it
MAX_URL_CHARS = 8192  # characters of an address; base64 in a `data:` URL is bounded by the body alone

_MEDIA_TYPE = re.compile(r"([a-z]+)(?:/([a-z0-9][a-z0-9.+_-]{0,126}|\*))?(?:;.*)?", re.DOTALL)
_TOP_LEVEL = frozenset({"image", "audio", "video", "text", "application", "font", "model"})
_Kind: TypeAlias = Literal["image", "audio", "video", "file"]
_OFTEN = (  # types that users are told of where another one is not taken
    "image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/mpeg", "video/mp4", "application/pdf",
    "text/plain",
)  # fmt: skip
_BOUNDS = Limits()
_ANY: dict[str, JsonValue] = {"type": "object"}
_Optional: Any = dict[str, JsonValue] | None
_Parameters: TypeAlias = Annotated[
    dict[str, JsonValue], BeforeValidator(lambda given: _ANY if given in (None, {}) else given, _Optional)
]
_KINDS: Mapping[str, _Kind] = {"image": "image", "audio": "audio", "video": "video", "file": "file"}


@dataclass(frozen=True, slots=True)
class UserText:
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """A file of the user's: its content, or the address from which the provider fetches it."""

    media_type: str  # `image/png`; `image` alone if the client knows no more
    url: str = field(repr=False)  # a `data:` or `https:` URL
    filename: str | None = None

    def media(self) -> Media:
        kind: _Kind = _KINDS.get(self.media_type.partition("/")[0], "file")
        mime_type = self.media_type if "/" in self.media_type else None
        content = read_data_url(self.url)
        if content is None:
            return Media(kind=kind, mime_type=_registered(mime_type), url=self.url, filename=self.filename)
        mime_type = _registered(mime_type or content[0])
        return Media(kind=kind, mime_type=mime_type, data=content[1], filename=self.filename)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of the user's, which is never empty."""

    id: str  # the id that the client gave it
    parts: tuple[UserText | UserFile, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientApproval:
    id: str  # the id of the request for it, as it was sent to the client
    approved: bool
    reason: str | None = field(default=None, repr=False)
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)  # all of them, if changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The result of a call that the client has made, or its answer to a question."""

    call_id: str  # the id of the call, or of the request for an answer, as it was sent to the client
    value: Any = field(repr=False)  # JSON; of a failure the words
    is_error: bool = False


class ClientTool(Posted):
    """A tool that the client runs, as it declares it."""

    # From outside: trust neither its name nor its words.
    name: Annotated[str, Field(min_length=1, max_length=_BOUNDS.max_name_bytes), AfterValidator(printable)]
    description: Annotated[str, Field(max_length=_BOUNDS.max_description_chars, repr=False)] = ""
    parameters: Annotated[_Parameters, Field(repr=False)] = _ANY  # JSON Schema of its arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInput:
    """One request of a client. Its answers may be made up, or be to calls that were answered long ago."""

    chat_id: str  # the conversation
    trigger: Trigger
    message: UserMessage | None = None
    """What the user says. With ``regenerate`` and ``edit`` the message to answer, which the server may not know if its
    first request was lost."""
    message_id: str | None = None
    """The message that the client wants to have replaced; of ``resume``, the one that is to go on. None if it names
    none."""
    earlier: tuple[str, ...] = ()
    """The user's message before it that has an answer, as the client knows the conversation, and those behind it."""
    approvals: tuple[ClientApproval, ...] = ()
    results: tuple[ClientResult, ...] = ()
    client_tools: tuple[ClientTool, ...] = ()
    run_id: str | None = None  # the id that the client gives the run (AG-UI)


# -- reading, for every protocol --

MAX_MESSAGES = 10_000  # messages of a conversation, in one request


class PostedText(Posted):
    """A text among the parts of a message."""

    type: Literal["text"]
    text: str


PARTS: Any = Field(max_length=MAX_PARTS, fail_fast=True)
TEXTS = TypeAdapter(Annotated[list[PostedText], PARTS])


def checked_tools(declared: Iterable[ClientTool], path: str) -> tuple[ClientTool, ...]:
    tools, most = unique(declared, lambda one: one.name, path), _BOUNDS.max_schema_bytes
    if any(len(to_json(one.parameters)) > most for one in tools):
        raise BadRequest("a schema is too large", path=path, limit=f"max_schema_bytes={most}")
    return tools


def earlier_of(messages: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Returns the ids of the user's messages among those before the new one, by their roles: of the last that has an
    answer, and of those behind it, which perhaps were refused; "" for one without an id."""
    ids, answered = list[str](), -1
    for role, id_ in messages:
        if role == "user":
            ids.append(id_ if isinstance(id_, str) else "")
        elif role == "assistant":
            answered = len(ids) - 1
    return tuple(ids[answered:]) if answered >= 0 else ()


def read_file(path: str, url: str, media_type: str | None, filename: str | None = None) -> UserFile:
    """Returns a file, whose content is base64 if it is here; raises a `BadRequest` if it is neither a ``data:`` nor an
    ``https:`` URL, or its type is none."""
    content, limit = None, f"max_url_chars={MAX_URL_CHARS}"
    if url[:5].lower() == "data:":
        content = _content(url, path)
    elif url[:8].lower() != "https://":
        raise BadRequest("expected a data: or an https: URL", path=path)
    elif len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url:
        raise BadRequest("expected a URL of printable characters", path=path, limit=limit)
    if filename is not None and (len(filename) > MAX_NAME_CHARS or not filename.isprintable()):
        limit = f"max_name_chars={MAX_NAME_CHARS}"
        raise BadRequest("expected a file's name of printable characters", path=path, limit=limit)
    named = media_type or (content and content[0]) or ""  # browsers say "" where they know no type
    return UserFile(media_type=_media_type(named, path), url=url, filename=filename or None)


def _content(url: str, path: str) -> tuple[str | None, str]:
    head, comma, _ = url[:MAX_URL_CHARS].partition(",")
    # Browsers write base64; anything else is read in time that is linear, too, but a thousand times as long.
    if not comma or (len(url) > MAX_URL_CHARS and not head.lower().endswith(";base64")):
        limit = f"max_url_chars={MAX_URL_CHARS}"
        raise BadRequest("expected a type, a comma, and base64 if the content is long", path=path, limit=limit)
    content = read_data_url(url)
    if content is None or decoded(content[1]) is None:
        raise BadRequest("the content is not base64", path=path)
    if not content[1]:
        raise BadRequest("the file is empty", path=path)
    return content


def _registered(media_type: str | None) -> str | None:
    """Returns a media type as IANA has it: some browsers and phones say ``image/jpg``, which no provider takes."""
    return "image/jpeg" if media_type == "image/jpg" else media_type


def _media_type(named: str, path: str) -> str:
    found = _MEDIA_TYPE.fullmatch(named.strip().lower()) if len(named) <= MAX_NAME_CHARS else None
    if found is None or not (found[2] or found[1] in _TOP_LEVEL):
        raise BadRequest("expected a media type, such as image/png", path=path)
    return found[1] if found[2] in (None, "*") else f"{found[1]}/{found[2]}"


def user_message(message_id: str, parts: list[UserText | UserFile], path: str) -> UserMessage:
    """Returns a message of its parts, without blank texts; raises a `BadRequest` if nothing is left."""
    kept = tuple(one for one in parts if isinstance(one, UserFile) or one.text.strip())
    if not kept:
        raise BadRequest("the message is empty", path=path)
    return UserMessage(message_id, kept)


# -- writing --


def to_wire(message: UserMessage, wire: Wire | str, *, new: bool = True) -> list[dict[str, Any]]:
    """Returns native messages to append to the history; raises a `BadRequest` if the wire has no place for one of the
    files, which is refused when `new`, and else becomes a placeholder.
    """
    target = find(wire)
    blocks: list[Text | Media] = []
    for number, part in enumerate(message.parts):
        block = Text(part.text) if isinstance(part, UserText) else part.media()
        if isinstance(block, Media) and not _carries(target, block):
            if new:
                raise BadRequest(_refused_type(target, block), path=f"parts[{number}]")
            block = Text(block.placeholder())
        blocks.append(block)
    return target.render_prompt(Prompt(role="user", blocks=tuple(blocks)))


def _refused_type(wire: Wire, media: Media) -> str:
    form = "by its content" if media.data is not None else "by its URL"
    others = (replace(media, kind=_KINDS.get(one.partition("/")[0], "file"), mime_type=one) for one in _OFTEN)
    taken = ", ".join(str(one.mime_type) for one in others if _carries(wire, one))
    return f"{wire.name} takes no file of type {media.mime_type or media.kind} {form}; it takes {taken or 'only text'}"


def _carries(wire: Wire, media: Media) -> bool:
    """Returns whether a wire has a place for a file. Its renderer decides, and writes a placeholder if it has none."""
    if media.data == "":
        return False
    rendered = wire.render_prompt(Prompt(role="user", blocks=(media,)))
    stand_ins = {replace(media, kind=kind).placeholder() for kind in _KINDS.values()}
    return bool(rendered) and not stand_ins & set(texts_in(rendered))


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)


# -- making tools --


def tools_of(declared: Sequence[ClientTool]) -> tuple[Tool[..., Any], ...]:
    """Makes tools of what a client declares: their calls are handed out, and the run rests until the client has
    answered. Raises a `BadRequest` for a name or a schema that cannot be used, and if they are too large."""
    if len(to_json([*declared])) > MAX_TOOLS_BYTES:
        raise BadRequest(
            "the tools are too large", path="tools", limit=f"max_tools_bytes={MAX_TOOLS_BYTES}", status=413
        )
    return tuple(_made(number, tool) for number, tool in enumerate(declared))


def _made(number: int, declared: ClientTool) -> Tool[..., Any]:
    try:
        return Tool.from_schema(
            _never_called,
            declared.parameters,
            name=declared.name,
            description=declared.description,
            owner="client",
            pass_as="mapping",
            deferred=True,
        )
    except (SchemaError, ToolDefinitionError) as error:
        raise BadRequest(
            "expected a valid name, and a valid JSON Schema for the arguments", path=f"tools[{number}]"
        ) from error


def _never_called(arguments: dict[str, Any]) -> NoReturn:
    raise AssertionError("the client runs it")
