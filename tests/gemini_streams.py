"""Gemini's response objects for tests, composed in the API's own shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

__all__ = ["call", "candidate", "gemini", "piece", "pieces", "response", "text"]

Json = dict[str, Any]


def text(value: str, *, thought: bool = False, signature: str | None = None) -> Json:
    """A part of text."""
    part: Json = {"text": value} | ({"thought": True} if thought else {})
    return part | ({"thoughtSignature": signature} if signature else {})


def call(name: str | None = None, args: Any = None, *, signature: str | None = None, **fields: Any) -> Json:
    """A part with a function call."""
    body = ({"name": name} if name is not None else {}) | ({"args": args} if args is not None else {}) | fields
    return {"functionCall": body} | ({"thoughtSignature": signature} if signature else {})


def piece(path: Any, *, goes_on: bool = False, **value: Any) -> Json:
    """A piece of a call's arguments."""
    return {"jsonPath": path, **value} | ({"willContinue": True} if goes_on else {})


def pieces(*given: Any, goes_on: bool = True, **fields: Any) -> Json:
    """A part with pieces of the open call's arguments."""
    body = {"partialArgs": list(given), **fields} | ({"willContinue": True} if goes_on else {})
    return {"functionCall": body}


def candidate(parts: Sequence[Any] = (), finish: Any = None, **fields: Any) -> Json:
    return (
        {"content": {"role": "model", "parts": list(parts)}, "index": 0}
        | ({"finishReason": finish} if finish is not None else {})
        | fields
    )


def response(*parts: Any, finish: Any = None, **fields: Any) -> Json:
    """One response object."""
    return {"candidates": [candidate(parts, finish)], "modelVersion": "gemini-9", "responseId": "r1"} | fields


def gemini(
    texts: Sequence[str] = (), calls: Sequence[tuple[str, Any]] = (), finish: str | None = "STOP"
) -> list[bytes]:
    """A body, an event an item: text, then whole calls, then the end."""
    payloads = [response(text(value)) for value in texts]
    payloads += [response(call(name, args)) for name, args in calls]
    if finish is not None:
        payloads.append(response(text(""), finish=finish))
    return [b"data: " + orjson.dumps(payload) + b"\r\n\r\n" for payload in payloads]
