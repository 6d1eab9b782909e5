"""Reads what Chat Completions clients post (the types of `openai.types.chat` in openai 3.57, read 2026-11-28).

A client repeats the whole conversation in each request. Taken from it are the user's messages and the results behind
the last turn of the assistant's. A message has no id here, and gets one of its place and its content, so that the same
request again is no second message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt, TypeAdapter

from ..errors import BadRequest
from . import client_input as client
from .bodies import MAX_BYTES, CallId, Id, Posted, parsed, read, unique
from .encoding import json_bytes

_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


class _Posted(Posted):
    model_config = ConfigDict(alias_generator=None)


class PostedChatMessage(_Posted):
    role: Literal["developer", "system", "user", "assistant", "tool", "function"]


class StreamOptions(_Posted):
    include_usage: StrictBool | None = None


class PostedTool(_Posted):
    type: Literal["function"]
    function: client.DeclaredTool


class ChatCompletionRequest(_Posted):
    """Chat Completions of OpenAI."""

    model: Id
    messages: Annotated[list[PostedChatMessage], Field(max_length=client.MAX_MESSAGES, fail_fast=True)]
    n: Annotated[StrictInt, Field(ge=1, le=1)] | None = None  # a run has one answer
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[PostedTool], Field(max_length=client.MAX_TOOLS, fail_fast=True)] | None = None
    tool_choice: Any = None


class _Content(_Posted):
    content: Any


class _Result(_Posted):
    tool_call_id: CallId
    content: Any


class _ImageUrl(_Posted):
    url: str


class _Image(_Posted):
    type: Literal["image_url"]
    image_url: _ImageUrl


class _Sound(_Posted):
    data: str
    format: Literal["wav", "mp3"]


class _Audio(_Posted):
    type: Literal["input_audio"]
    input_audio: _Sound


class _Named(_Posted):
    file_id: Any = None
    file_data: str | None = None
    filename: str | None = None


class _File(_Posted):
    type: Literal["file"]
    file: _Named


_REQUEST, _CONTENT, _RESULT = TypeAdapter(ChatCompletionRequest), TypeAdapter(_Content), TypeAdapter(_Result)
_PARTS = TypeAdapter(
    Annotated[list[Annotated[client.PostedText | _Image | _Audio | _File, Field(discriminator="type")]], client.PARTS]
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request, and how it is to be answered."""

    model: str
    stream: bool
    include_usage: bool  # the client of a stream wants the tokens
    given: client.ClientInput  # what is new


def read_chat_request(body: bytes, *, chat_id: str, max_bytes: int = MAX_BYTES) -> ChatRequest:
    """Returns what a Chat Completions client wants; raises a `BadRequest`. Costs time linear in the body."""
    value = parsed(body, max_bytes)
    root = read(_REQUEST, value)
    stream, options = bool(root.stream), root.stream_options
    return ChatRequest(
        model=root.model,
        stream=stream,
        include_usage=stream and options is not None and bool(options.include_usage),
        given=_given(root, value["messages"], chat_id),
    )


def _given(root: ChatCompletionRequest, messages: list[Any], chat_id: str) -> client.ClientInput:
    roles = [message.role for message in root.messages]
    begin = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    said, done = ([at for at in range(begin, len(roles)) if roles[at] == role] for role in ("user", "tool"))
    if not said and not done:
        raise BadRequest("expected a message of the user's, or a tool's result, at the end", path="messages")
    tools = client.read_tools([tool.function for tool in root.tools or ()], "tools")
    return client.ClientInput(
        chat_id=chat_id,
        trigger="submit" if said else "resume",
        message=_message(messages, said, roles.count("user")) if said else None,
        results=unique([_result(messages[at], f"messages[{at}]") for at in done], lambda one: one.call_id, "messages"),
        client_tools=() if root.tool_choice == "none" else tools,
    )


# -- the user's message --


def _message(messages: list[Any], said: Sequence[int], place: int) -> client.UserMessage:
    path = f"messages[{said[-1]}]"
    if len(said) > client.MAX_PARTS:
        raise BadRequest(
            "too many messages without an answer", path=path, limit=f"max_parts={client.MAX_PARTS}", status=413
        )
    parts = [part for at in said for part in _parts(messages[at], f"messages[{at}]")]
    fields = [[part.text] if isinstance(part, client.UserText) else [part.url, part.filename] for part in parts]
    digest = hashlib.sha256(json_bytes(fields)).hexdigest()
    return client.user_message(f"{place}-{digest[:32]}", parts, path)


def _parts(value: Any, path: str) -> list[client.UserText | client.UserFile]:
    content, path = read(_CONTENT, value, path).content, f"{path}.content"
    if isinstance(content, str):
        return [client.UserText(content)]
    parts = read(_PARTS, content, path)
    return [_part(part, f"{path}[{at}]") for at, part in enumerate(parts)]


def _part(part: client.PostedText | _Image | _Audio | _File, path: str) -> client.UserText | client.UserFile:
    match part:
        case client.PostedText():
            return client.UserText(part.text)
        case _Image():
            url = part.image_url.url
            return client.read_file(path, url, None if url[:5].lower() == "data:" else "image")
        case _Audio():
            sound = part.input_audio
            return client.read_file(path, f"data:{_AUDIO[sound.format]};base64,{sound.data}", None)
        case _File(file=file):
            if file.file_id is not None or file.file_data is None:  # it may be somebody else's
                text = "a file that the provider has is not taken; send its content"
                raise BadRequest(text, path=f"{path}.file")
            return client.read_file(path, file.file_data, None, file.filename)


def _result(value: Any, path: str) -> client.ClientResult:
    message = read(_RESULT, value, path)
    text = message.content
    if not isinstance(text, str):
        text = "".join(part.text for part in read(client.TEXTS, text, f"{path}.content"))
    return client.ClientResult(call_id=message.tool_call_id, value=text)
