"""Rewrites a whole response of the Responses API as the events that say the same: each item in one piece.

A response in the background that is still queued or in progress has no end: neither has the stream, nor any call in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..marks import is_response_answer
from .facts import ARGUMENTS
from .items import TEXT_FIELDS, call_kind, type_of

__all__ = ["whole"]

_ENDS = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.cancelled"}
_RUNNING = {"queued": "response.queued", "in_progress": "response.in_progress"}


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the events of a response; None if this is none."""
    if not is_response_answer(answer):
        return None
    status = str(answer.get("status"))
    last = _RUNNING.get(status) or _ENDS.get(status, "response.completed")
    begun = {**answer, "output": [], "status": "in_progress", "usage": None, "error": None, "incomplete_details": None}
    return [
        {"type": "response.created", "response": begun},
        *(
            event
            for at, item in enumerate(answer["output"])
            if isinstance(item, dict)
            for event in _item(item, at, goes_on=status in _RUNNING)
        ),
        {"type": last, "response": dict(answer)},
    ]


def _item(item: dict[str, Any], at: int, *, goes_on: bool) -> Iterator[dict[str, Any]]:
    begun = {key: value for key, value in item.items() if key not in ("content", "summary", "arguments", "input")}
    empty: dict[str, Any] = {key: [] for key in ("content", "summary") if isinstance(item.get(key), list)}
    empty |= {key: "" for key in ("arguments", "input") if isinstance(item.get(key), str)}
    head = {"output_index": at, "item_id": item.get("id")}
    yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, **empty}}
    for number, part in enumerate(_parts(item, "content")):
        yield from _content(part, {**head, "content_index": number})
    for number, part in enumerate(_parts(item, "summary")):
        placed = {**head, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **placed, "part": {**part, "text": ""}}
        yield {"type": "response.reasoning_summary_text.delta", **placed, "delta": part.get("text", "")}
        yield {"type": "response.reasoning_summary_text.done", **placed, "text": part.get("text", "")}
    is_ours = call_kind(type_of(item), item) not in (None, "server")
    if goes_on and is_ours:
        yield from _arguments(item, head)
    elif not goes_on or item.get("status") in (None, "completed"):
        yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _arguments(item: dict[str, Any], head: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments of a call that does not end, since it would run now and again in the whole response."""
    text = item.get(TEXT_FIELDS.get(type_of(item), ""))
    prefix = next((prefix for prefix, (type_, _) in ARGUMENTS.items() if type_ == item.get("type")), None)
    if isinstance(text, str) and prefix is not None:
        yield {"type": f"{prefix}.delta", **head, "delta": text}


def _parts(item: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    parts = item.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


_DELTAS = {
    "output_text": ("response.output_text.delta", "text"),
    "refusal": ("response.refusal.delta", "refusal"),
    "reasoning_text": ("response.reasoning_text.delta", "text"),
}


def _content(part: dict[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if part.get("type") not in _DELTAS:
        return
    kind, key = _DELTAS[part["type"]]
    yield {"type": "response.content_part.added", **place, "part": {**part, key: "", "annotations": []}}
    yield {"type": kind, **place, "delta": part.get(key, "")}
    yield {"type": "response.content_part.done", **place, "part": part}
