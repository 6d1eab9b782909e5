"""Reads the request of a Chat Completions client, whose answer `chat_completions` writes.

In: the body of ``POST /v1/chat/completions``, which is not trusted. Out: what is new in it. The client repeats the
whole conversation in each request; the server's own history is the truth, so that the turns up to the last one of the
assistant's, and instructions for the model, are not taken over. Fields that are not named here are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from ..text import PLAIN_NAME_CHARACTERS, PLAIN_NAME_LENGTH
from .encoding import json_bytes

__all__ = ["ChatRequest", "ClientResult", "ClientTool", "read_chat_request"]

_NAME = re.compile(f"[{PLAIN_NAME_CHARACTERS}]{{1,{PLAIN_NAME_LENGTH}}}")
_KINDS = {str: "text", bool: "true or false", int: "a number", dict: "an object", list: "a list"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool:
    """A tool that the client runs: make it a `Tool.from_schema` with ``external=True, rests=True``."""

    name: str
    description: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    """The JSON Schema of its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The result of a call that was handed to the client."""

    call_id: str
    """The id that the client was shown: that of the call, or ``id@step`` where the id had come before in the run."""
    content: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What is new in a request."""

    model: str
    messages: tuple[Mapping[str, Any], ...] = field(repr=False)
    """The user's messages after the last turn of the assistant, in the shape of Chat Completions."""
    results: tuple[ClientResult, ...] = ()
    """The results after that turn."""
    tools: tuple[ClientTool, ...] = ()
    """The client's tools; none if it forbids to call any."""
    stream: bool = False
    include_usage: bool = False
    """The client of a stream wants the tokens."""


def read_chat_request(body: bytes | Mapping[str, Any], *, max_bytes: int = 8 << 20) -> ChatRequest:
    """Returns what is new in a request.

    Args:
        body: as the client sent it, or read as JSON.
        max_bytes: the size of the body as JSON.

    Raises:
        ValueError: the request cannot be served: an answer for status 400 (413 for its size) has the text, which names
            the place and the problem, and no value.
    """
    given = _is(dict, _read(body, max_bytes), "the body")
    if given.get("n") not in (None, 1):
        raise ValueError("n: expected 1, since a run has one answer")
    stream = bool(_is(bool, _or(given, "stream", False), "stream"))
    options = _is(dict, _or(given, "stream_options", {}), "stream_options")
    tools = _tools(_is(list, _or(given, "tools", []), "tools"))
    messages, results = _new(_is(list, given.get("messages"), "messages"))
    return ChatRequest(
        model=_is(str, given.get("model"), "model"),
        messages=messages,
        results=results,
        tools=() if given.get("tool_choice") == "none" else tools,
        stream=stream,
        include_usage=stream and _is(bool, _or(options, "include_usage", False), "stream_options.include_usage"),
    )


def _read(body: bytes | Mapping[str, Any], max_bytes: int) -> Any:
    try:
        written = body if isinstance(body, bytes) else json_bytes(body)
        if len(written) <= max_bytes:
            return orjson.loads(written)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        raise ValueError("the body: expected JSON, of a usual depth") from None
    raise ValueError(f"the body: expected at most max_bytes={max_bytes}, got {len(written)}")


def _or(given: Mapping[str, Any], name: str, default: Any) -> Any:
    value = given.get(name)
    return default if value is None else value


def _is(kind: type, value: Any, place: str) -> Any:
    if type(value) is not kind:
        got = "nothing" if value is None else _KINDS.get(type(value), "a number")
        raise ValueError(f"{place}: expected {_KINDS[kind]}, got {got}")
    return value


def _new(messages: list[Any]) -> tuple[tuple[dict[str, Any], ...], tuple[ClientResult, ...]]:
    """Returns the user's messages and the results behind the last turn of the assistant."""
    roles = [_is(dict, one, f"messages[{at}]").get("role") for at, one in enumerate(messages)]
    begin = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
    asked: list[dict[str, Any]] = []
    results: dict[str, ClientResult] = {}
    for at, message in enumerate(messages[begin:], begin):
        place = f"messages[{at}]"
        if roles[at] == "user":
            asked.append({"role": "user", "content": _content(message.get("content"), place)})
        elif roles[at] == "tool":
            call_id = _is(str, message.get("tool_call_id"), f"{place}.tool_call_id")
            if call_id in results:
                raise ValueError(f"{place}.tool_call_id: expected another call, since this one has a result before")
            results[call_id] = ClientResult(call_id=call_id, content=_text(message.get("content"), place))
        elif roles[at] not in ("system", "developer"):
            raise ValueError(f"{place}.role: expected user or tool, got another role")
    if not asked and not results:
        raise ValueError("messages: expected the user's message, or a tool's result, at the end")
    return tuple(asked), tuple(results.values())


def _content(content: Any, place: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise ValueError(f"{place}.content: expected text, or a list of parts")
    for at, part in enumerate(content):
        _is(str, _is(dict, part, f"{place}.content[{at}]").get("type"), f"{place}.content[{at}].type")
    return content


def _text(content: Any, place: str) -> str:
    parts = _content(content, place)
    if isinstance(parts, str):
        return parts
    for at, part in enumerate(parts):
        if part["type"] != "text":
            raise ValueError(f"{place}.content[{at}].type: expected text, since a result is text")
    return "".join(_is(str, part.get("text"), f"{place}.content[{at}].text") for at, part in enumerate(parts))


def _tools(tools: list[Any]) -> tuple[ClientTool, ...]:
    found: dict[str, ClientTool] = {}
    for at, tool in enumerate(tools):
        place = f"tools[{at}]"
        if _is(dict, tool, place).get("type") != "function":
            raise ValueError(f"{place}.type: expected function, got another type")
        function, place = _is(dict, tool.get("function"), f"{place}.function"), f"{place}.function"
        name = _is(str, function.get("name"), f"{place}.name")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{place}.name: expected 1 to {PLAIN_NAME_LENGTH} letters, digits, _ or -")
        if name in found:
            raise ValueError(f"{place}.name: expected another name, since a tool before has it")
        found[name] = ClientTool(
            name=name,
            description=_is(str, _or(function, "description", ""), f"{place}.description"),
            parameters=_is(dict, _or(function, "parameters", {"type": "object"}), f"{place}.parameters"),
        )
    return tuple(found.values())
