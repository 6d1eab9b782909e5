"""Reads what Chat Completions clients post, whom `chat_completions` answers: in a body's bytes, out a `ChatRequest`.

    {"model", "messages": [...], "stream", "stream_options", "tools", "tool_choice", "metadata": {"chat": id}?}

A client repeats the whole conversation in each request. Taken from it are the user's messages and the results behind
the last turn of the assistant's; instructions for the model are not taken over, and other fields are ignored.

A message has no id here, so that it gets one of its place and its content: the same request again is no second message.

The types of `openai.types.chat` in openai 3.57 for Python, read 2026-11-28.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..limits import Limits
from .bodies import MAX_BYTES, BodyValue, read_body, unique
from .client_input import (
    MAX_PARTS,
    MAX_TOOLS,
    ClientInput,
    ClientResult,
    ClientTool,
    UserFile,
    UserMessage,
    UserText,
    read_file,
    read_tool,
    user_message,
)
from .encoding import json_bytes

__all__ = ["ChatRequest", "read_chat_request"]

MAX_MESSAGES = 10_000
"""Messages of a conversation."""

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request, and how it is to be answered."""

    model: str
    stream: bool
    include_usage: bool
    """The client of a stream wants the tokens."""
    given: ClientInput
    """What is new. Its `chat_id` is ``""`` if the client begins a conversation that it has no name for."""


def read_chat_request(
    body: bytes, *, chat_id: str | None = None, max_bytes: int = MAX_BYTES, limits: Limits = Limits()
) -> ChatRequest:
    """Returns what a Chat Completions client wants. Costs time linear in the body.

    Args:
        body: the request's body, as it came.
        chat_id: the conversation that its address names.
        max_bytes: how large it may be. Its pictures are in it, in every request of the conversation.
        limits: how large the names, descriptions and schemas of its tools may be.

    Raises:
        BadRequest: it is not such a request, or exceeds a bound.
    """
    root = read_body(body, max_bytes=max_bytes)
    count = root.get("n")
    if count is not None and (type(count.value), count.value) != (int, 1):
        raise count.refused("expected 1, since a run has one answer")
    stream, options = _flag(root, "stream"), root.get("stream_options")
    return ChatRequest(
        model=root.need("model").id(),
        stream=stream,
        include_usage=stream and options is not None and _flag(options, "include_usage"),
        given=_given(root, chat_id, _tools(root, limits)),
    )


def _flag(place: BodyValue, key: str) -> bool:
    found = place.get(key)
    return found is not None and found.flag()


def _given(root: BodyValue, chat_id: str | None, tools: tuple[ClientTool, ...]) -> ClientInput:
    messages = root.need("messages")
    items = messages.items("max_messages", MAX_MESSAGES)
    roles = [message.need("role").word(*_ROLES) for message in items]
    begin = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    new = list(zip(items[begin:], roles[begin:], strict=True))
    said = [message for message, role in new if role == "user"]
    results = unique(_result(message) for message, role in new if role == "tool")
    if not said and not results:
        raise messages.refused("expected a message of the user's, or a tool's result, at the end")
    return ClientInput(
        chat_id=_chat_id(root, chat_id, is_new=not begin),
        trigger="submit" if said else "resume",
        message=_message(said, roles.count("user")) if said else None,
        results=results,
        client_tools=tools,
    )


def _chat_id(root: BodyValue, addressed: str | None, *, is_new: bool) -> str:
    metadata = root.get("metadata")
    named = None if metadata is None else metadata.get("chat")
    found = None if named is None else named.id()
    if named is not None and addressed is not None and found != addressed:
        raise named.refused("the body names another conversation than the address")
    # Without its name the run would know nothing of what was said before.
    if found is None and addressed is None and not is_new:
        raise root.refused("expected metadata.chat, the id of the conversation that goes on (`x-chat-id` of its begin)")
    return addressed or found or ""


# -- the user's message -----------------------------------------------------------------------------------------------


def _message(said: Sequence[BodyValue], place: int) -> UserMessage:
    parts = [part for message in said for part in _parts(message.need("content"))]
    fields = [[part.text] if isinstance(part, UserText) else [part.url, part.filename] for part in parts]
    digest = hashlib.sha256(json_bytes(fields)).hexdigest()
    return user_message(said[-1], f"{place}-{digest[:32]}", parts)


def _parts(content: BodyValue) -> list[UserText | UserFile]:
    if isinstance(content.value, str):
        return [UserText(content.value)]
    return [_part(part) for part in content.items("max_parts", MAX_PARTS)]


def _part(part: BodyValue) -> UserText | UserFile:
    match part.need("type").word("text", "image_url", "input_audio", "file"):
        case "text":
            return UserText(part.need("text").text())
        case "image_url":
            url = part.need("image_url").need("url")
            has_type = url.text()[:5].lower() == "data:"
            return read_file(url, None if has_type else BodyValue("image", url.path))
        case "input_audio":
            audio = part.need("input_audio")
            data, media_type = audio.need("data"), _AUDIO[audio.need("format").word(*_AUDIO)]
            return read_file(BodyValue(f"data:{media_type};base64,{data.text()}", data.path), None)
        case _:
            file = part.need("file")
            if file.get("file_id") is not None:  # it may be somebody else's
                raise file.refused("a file that the provider has is not taken; send its content")
            return read_file(file.need("file_data"), None, file.get("filename"))


# -- results and tools ------------------------------------------------------------------------------------------------


def _result(message: BodyValue) -> tuple[BodyValue, str, ClientResult]:
    place, content = message.need("tool_call_id"), message.need("content")
    if isinstance(content.value, str):
        text = content.value
    else:
        parts = content.items("max_parts", MAX_PARTS)
        text = "".join(part.need("text").text() for part in parts if part.need("type").word("text"))
    return place, place.call_id(), ClientResult(call_id=place.call_id(), value=text)


def _tools(root: BodyValue, limits: Limits) -> tuple[ClientTool, ...]:
    """Returns the client's tools; none if it forbids to call any."""
    given, choice = root.get("tools"), root.get("tool_choice")
    if given is None:
        return ()
    found = unique(_tool(tool, limits) for tool in given.items("max_tools", MAX_TOOLS))
    return () if choice is not None and choice.value == "none" else found


def _tool(tool: BodyValue, limits: Limits) -> tuple[BodyValue, str, ClientTool]:
    function = tool.need(tool.need("type").word("function"))
    return read_tool(function, function.get("description"), limits)
