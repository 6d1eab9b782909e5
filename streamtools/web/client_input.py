"""What a client of a chat has sent, in no protocol's form; and the user's message for any wire.

In: what a reader of one protocol has found (`ui_requests`, `ag_ui_requests`, `chat_requests`). Out: a `ClientInput`.
The server's history is the truth: of a client's messages nothing is here but what the user says now, and answers to
calls that wait. Whether they do is for the server to say: see `ClientInput.only`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..content import Media, Text
from ..errors import BadRequest
from ..limits import Limits
from ..wires import Wire, find
from ..wires.transcript import Prompt, decoded, read_data_url
from .bodies import BodyValue

__all__ = [
    "ClientApproval",
    "ClientInput",
    "ClientResult",
    "ClientTool",
    "Trigger",
    "UserFile",
    "UserMessage",
    "UserText",
    "to_wire",
]

Trigger: TypeAlias = Literal["submit", "regenerate", "edit", "resume"]
"""What the client wants: the answer to a new message; another answer than that of `ClientInput.message_id`; the answer
to another text of the message of that id; or that a run goes on whose calls it has answered."""

MAX_PARTS = 256
"""Texts and files in one message."""
MAX_TOOLS = 128
"""Tools that a client declares: providers take about as many in one request."""
MAX_NAME_CHARS = 255
"""Characters of a file's name, as file systems have it."""
MAX_URL_CHARS = 8192
"""Characters of an address; base64 in a ``data:`` URL is bounded by the body alone."""

_MEDIA_TYPE = re.compile(r"([a-z]+)(?:/([a-z0-9][a-z0-9.+_-]{0,126}|\*))?(?:;.*)?", re.DOTALL)
_TOP_LEVEL = frozenset({"image", "audio", "video", "text", "application", "font", "model"})
_Kind: TypeAlias = Literal["image", "audio", "video", "file"]
_KINDS: Mapping[str, _Kind] = {"image": "image", "audio": "audio", "video": "video", "file": "file"}


@dataclass(frozen=True, slots=True)
class UserText:
    """A text of the user's."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """A file of the user's: its content, or the address from which the provider fetches it."""

    media_type: str
    """``image/png``; ``image`` alone if the client knows no more."""
    url: str = field(repr=False)
    """A ``data:`` or ``https:`` URL."""
    filename: str | None = None

    def media(self) -> Media:
        """Returns the file as content of a message."""
        kind: _Kind = _KINDS.get(self.media_type.partition("/")[0], "file")
        mime_type = self.media_type if "/" in self.media_type else None
        content = read_data_url(self.url)
        if content is None:
            return Media(kind=kind, mime_type=mime_type, url=self.url, filename=self.filename)
        return Media(kind=kind, mime_type=mime_type or content[0], data=content[1], filename=self.filename)


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of the user's, which is never empty."""

    id: str
    """The id that the client gave it."""
    parts: tuple[UserText | UserFile, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientApproval:
    """An answer to the question whether a call may run."""

    id: str
    """The id of the request for it, as it was sent to the client."""
    approved: bool
    reason: str | None = field(default=None, repr=False)
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)
    """Other arguments for the call, if the user has changed them: all of them. A denial has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The result of a call that the client has made, or its answer to a question."""

    call_id: str
    """The id of the call, or of the request for an answer, as it was sent to the client."""
    value: Any = field(repr=False)
    """JSON; of a failure the words."""
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool:
    """A tool that the client runs. It is a declaration from outside: trust neither its name nor its words."""

    name: str
    description: str = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    """JSON Schema of its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInput:
    """One request of a client.

    Its answers may be made up, or be to calls that were answered long ago: take `only` what waits.
    """

    chat_id: str
    """The conversation; ``""`` if the client has no name for it (Chat Completions)."""
    trigger: Trigger
    message: UserMessage | None = None
    """What the user says. With ``regenerate`` and ``edit`` the message to answer, which the server may not know if its
    first request was lost."""
    message_id: str | None = None
    """The message that the client wants to have replaced; of ``resume``, the one that is to go on. None if it names
    none."""
    approvals: tuple[ClientApproval, ...] = ()
    results: tuple[ClientResult, ...] = ()
    client_tools: tuple[ClientTool, ...] = ()
    run_id: str | None = None
    """The id that the client gives the run (AG-UI)."""
    context: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What the client says beside the messages, as description and value (AG-UI)."""
    state: Any = field(default=None, repr=False)
    """The state that the client shares (AG-UI)."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the page has added to the request: JSON that nothing has checked."""

    def only(self, *, approvals: Container[str] = (), calls: Container[str] = ()) -> ClientInput:
        """Returns the input without any answer but those to the requests for approval, and the calls, of these ids."""
        return replace(
            self,
            approvals=tuple(one for one in self.approvals if one.id in approvals),
            results=tuple(one for one in self.results if one.call_id in calls),
        )


# -- reading, for every protocol --------------------------------------------------------------------------------------


def read_file(url: BodyValue, media_type: BodyValue | None, filename: BodyValue | None = None) -> UserFile:
    """Returns a file, whose content is base64 if it is here; raises a `BadRequest` if it is neither a ``data:`` nor an
    ``https:`` URL, or its type is none."""
    address = url.text()
    content = None
    if address[:5].lower() == "data:":
        content = _content(url, address)
    elif address[:8].lower() != "https://":
        raise url.refused("expected a data: or an https: URL")
    elif len(address) > MAX_URL_CHARS or not address.isprintable() or " " in address:
        raise url.refused("expected a URL of printable characters", limit=f"max_url_chars={MAX_URL_CHARS}")
    name = filename.text(MAX_NAME_CHARS) if filename is not None else None
    if name is not None and not name.isprintable():
        raise url.refused("the file's name has characters that cannot be printed")
    return UserFile(media_type=_media_type(url, media_type, content), url=address, filename=name or None)


def _content(url: BodyValue, address: str) -> tuple[str | None, str]:
    head, comma, _ = address[:MAX_URL_CHARS].partition(",")
    if not comma:
        raise url.refused("expected a comma behind the type", limit=f"max_url_chars={MAX_URL_CHARS}")
    # Browsers write base64; anything else is read in time that is linear, too, but a thousand times as long.
    if not head.lower().endswith(";base64") and len(address) > MAX_URL_CHARS:
        raise url.refused("the content is long, and not base64", limit=f"max_url_chars={MAX_URL_CHARS}")
    content = read_data_url(address)
    if content is None or decoded(content[1]) is None:
        raise url.refused("the content is not base64")
    return content


def _media_type(url: BodyValue, given: BodyValue | None, content: tuple[str | None, str] | None) -> str:
    named = given.text(MAX_NAME_CHARS) if given is not None else ""  # browsers say "" where they know no type
    named = named or (content and content[0]) or ""
    found = _MEDIA_TYPE.fullmatch(named.strip().lower())
    if found is None or not (found[2] or found[1] in _TOP_LEVEL):
        raise (given or url).refused("expected a media type, such as image/png")
    return found[1] if found[2] in (None, "*") else f"{found[1]}/{found[2]}"


def user_message(message: BodyValue, message_id: str, parts: list[UserText | UserFile]) -> UserMessage:
    """Returns a message of its parts, without blank texts; raises a `BadRequest` if nothing is left."""
    kept = tuple(one for one in parts if isinstance(one, UserFile) or one.text.strip())
    if not kept:
        raise message.refused("the message says nothing")
    return UserMessage(message_id, kept)


def read_tool(tool: BodyValue, description: BodyValue | None, limits: Limits) -> tuple[BodyValue, str, ClientTool]:
    """Returns a tool that a client declares, with its name and the place of that; raises a `BadRequest` if it is no
    such declaration, or exceeds a bound."""
    place, parameters = tool.need("name"), tool.get("parameters")
    name = place.text(limits.max_name_bytes)
    if not name or not name.isprintable():
        raise place.refused("expected a name of printable characters")
    schema = parameters.object() if parameters is not None else {"type": "object"}
    if parameters is not None and parameters.size() > limits.max_schema_bytes:
        raise parameters.refused("the schema is too large", limit=f"max_schema_bytes={limits.max_schema_bytes}")
    words = "" if description is None else description.text(limits.max_description_chars)
    return place, name, ClientTool(name=name, description=words, parameters=schema)


# -- writing ----------------------------------------------------------------------------------------------------------


def to_wire(message: UserMessage, wire: Wire | str) -> list[dict[str, Any]]:
    """Returns the user's message as a wire has it: native messages to append to the history.

    Raises:
        BadRequest: the wire has no place for one of the files.
        ValueError: there is no such wire.
    """
    target = find(wire)
    blocks = [Text(part.text) if isinstance(part, UserText) else part.media() for part in message.parts]
    for number, block in enumerate(blocks):
        if isinstance(block, Media) and not _carries(target, block):
            kind = block.mime_type or block.kind
            raise BadRequest(f"{target.name} takes no file of type {kind} in this form", path=f"parts[{number}]")
    return target.render_prompt(Prompt(role="user", blocks=tuple(blocks)))


def _carries(wire: Wire, media: Media) -> bool:
    """Returns whether a wire has a place for a file. Its renderer decides, and writes a placeholder if it has none."""
    rendered = wire.render_prompt(Prompt(role="user", blocks=(media,)))
    stand_ins = {replace(media, kind=kind).placeholder() for kind in _KINDS.values()}
    return bool(rendered) and not stand_ins & set(texts_in(rendered))


def texts_in(value: Any) -> Iterator[str]:
    """Yields the texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from texts_in(one)
