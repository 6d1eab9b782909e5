"""Reads the request of a Chat Completions client, whose answer `chat_completions` writes.

In: the bytes of a body. Out: a `ChatRequest`.

A client sends the whole conversation each time. Taken from it are the user's messages and the tools' results behind the
last message of the assistant's, and the client's tools. Instructions for the model, turns of the assistant's and the
parameters of the request (``temperature``) are not: the server's history is the truth.

The fields are those of `openai.types.chat.CompletionCreateParams` in openai 3.57 for Python, read 2026-11-28.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..limits import Limits
from .bodies import MAX_BYTES, BodyValue, read_body, unique
from .client_input import (
    MAX_PARTS,
    ClientInput,
    ClientResult,
    ClientTool,
    UserFile,
    UserMessage,
    UserText,
    read_file,
    user_message,
)
from .encoding import json_bytes

__all__ = ["ChatRequest", "read_chat_request"]

MAX_MESSAGES = 10_000
"""Messages of a conversation."""
MAX_TOOLS = 128
"""Tools of a client, as OpenAI takes them."""

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What is new in a request."""

    model: str
    messages: tuple[UserMessage, ...] = field(repr=False)
    """The user's messages after the last turn of the assistant; none if there are results alone."""
    results: tuple[ClientResult, ...] = ()
    """The results after that turn. A call's id is that which was shown: ``id@step`` where it came before in the run."""
    tools: tuple[ClientTool, ...] = ()
    """The client's tools; none if it forbids to call any. Each becomes a `Tool.from_schema` with ``external=True`` and
    ``rests=True``."""
    stream: bool = False
    include_usage: bool = False
    """The client of a stream wants the tokens."""

    def as_input(self, chat_id: str) -> ClientInput:
        """Returns the request as one to a conversation, which its protocol does not name."""
        parts = tuple(part for message in self.messages for part in message.parts)
        return ClientInput(
            chat_id=chat_id,
            trigger="submit" if parts else "resume",
            message=UserMessage(self.messages[-1].id, parts) if parts else None,
            results=self.results,
            client_tools=self.tools,
        )


def read_chat_request(
    body: bytes | Mapping[str, Any], *, max_bytes: int = MAX_BYTES, limits: Limits | None = None
) -> ChatRequest:
    """Returns what is new in a request. Costs time linear in the body.

    Args:
        body: the request's body as it came, or read as JSON.
        max_bytes: how large it may be. Its pictures are in it, in every request of the conversation.
        limits: how large the names, descriptions and schemas of the client's tools may be.

    Raises:
        BadRequest: it is not such a request, or exceeds a bound.
    """
    limits = limits or Limits()
    root = read_body(body if isinstance(body, bytes) else json_bytes(body), max_bytes=max_bytes)
    choices, stream, options = root.get("n"), root.get("stream"), root.get("stream_options")
    if choices is not None and choices.value != 1:
        raise choices.refused("expected 1, since a run has one answer")
    tools = root.get("tools")
    found = unique(_tool(one, limits) for one in tools.items("max_tools", MAX_TOOLS)) if tools is not None else ()
    counts = options.get("include_usage") if options is not None else None
    all_messages = root.need("messages")
    new = _new(all_messages.items("max_messages", MAX_MESSAGES))
    if not new:
        raise all_messages.refused("expected a message of the user's, or a tool's result, at the end")
    streams = stream is not None and stream.flag()
    return ChatRequest(
        model=root.need("model").text(limits.max_name_bytes),
        messages=tuple(_message(message) for message, role in new if role == "user"),
        results=unique(_result(message) for message, role in new if role == "tool"),
        tools=() if root.object().get("tool_choice") == "none" else found,
        stream=streams,
        include_usage=streams and counts is not None and counts.flag(),
    )


def _new(messages: list[BodyValue]) -> list[tuple[BodyValue, str]]:
    """Returns the user's messages and the tools' behind the last message of the assistant's."""
    roles = [message.need("role").word(*_ROLES) for message in messages]
    begin = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    known = zip(messages[begin:], roles[begin:], strict=True)
    return [(message, role) for message, role in known if role in ("user", "tool")]


def _message(message: BodyValue) -> UserMessage:
    content = message.need("content")
    if isinstance(content.value, str):
        parts: list[UserText | UserFile] = [UserText(content.value)]
    else:
        parts = [one for part in content.items("max_parts", MAX_PARTS) for one in _part(part)]
    # No message has an id here. The same message at the same place is the same, whenever its request is repeated.
    words = hashlib.sha256(json_bytes(content.value)).hexdigest()[:16]
    return user_message(message, f"{message.path}-{words}", parts)


def _part(part: BodyValue) -> Iterator[UserText | UserFile]:
    kind = part.need("type").word("text", "image_url", "input_audio", "file")
    content = part.need(kind)
    if kind == "text":
        yield UserText(content.text())
    elif kind == "image_url":
        url = content.need("url")
        is_here = url.text()[:5].lower() == "data:"  # and names its type
        yield read_file(url, None if is_here else BodyValue("image", url.path))
    elif kind == "file":
        yield read_file(content.need("file_data"), None, content.get("filename"))
    else:
        sound, form = content.need("data"), content.need("format").word("wav", "mp3")
        yield read_file(BodyValue(f"data:audio/{form};base64,{sound.text()}", sound.path), None)


def _result(message: BodyValue) -> tuple[BodyValue, str, ClientResult]:
    place, content = message.need("tool_call_id"), message.need("content")
    if isinstance(content.value, str):
        text = content.value
    else:
        parts = content.items("max_parts", MAX_PARTS)
        text = "".join(part.need(part.need("type").word("text")).text() for part in parts)
    return place, place.id(), ClientResult(call_id=place.id(), value=text)


def _tool(tool: BodyValue, limits: Limits) -> tuple[BodyValue, str, ClientTool]:
    function = tool.need(tool.need("type").word("function"))
    place, description, parameters = function.need("name"), function.get("description"), function.get("parameters")
    name = place.text(limits.max_name_bytes)
    if not name or not name.isprintable():
        raise place.refused("expected a name of printable characters")
    if parameters is not None and parameters.size() > limits.max_schema_bytes:
        raise parameters.refused("the schema is too large", limit=f"max_schema_bytes={limits.max_schema_bytes}")
    schema = {"type": "object"} if parameters is None else parameters.object()
    words = "" if description is None else description.text(limits.max_description_chars)
    return place, name, ClientTool(name=name, description=words, parameters=schema)
