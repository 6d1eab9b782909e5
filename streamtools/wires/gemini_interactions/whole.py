"""Rewrites a whole interaction as the events that say the same: each step in one piece.

One in the background that is still queued or in progress has no end: neither has the stream, nor any call in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..marks import is_interaction
from ..reading import json_text
from .facts import RUNNING, call_kind

__all__ = ["whole"]


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the events of an interaction; None if this is none."""
    if not is_interaction(answer):
        return None
    told = {key: value for key, value in answer.items() if key != "steps"}
    begun = {key: told[key] for key in ("id", "object", "model") if key in told}
    goes_on = answer["status"] in RUNNING
    last = "interaction.status_update" if goes_on else "interaction.completed"
    said = [step for step in answer["steps"] if isinstance(step, dict) and step.get("type") != "user_input"]
    return [
        {"event_type": "interaction.created", "interaction": {**begun, "status": "in_progress"}},
        *(event for at, step in enumerate(said) for event in _step(step, at, goes_on=goes_on)),
        {"event_type": last, "interaction": told},
    ]


def _step(step: Mapping[str, Any], at: int, *, goes_on: bool) -> Iterator[dict[str, Any]]:
    deltas = list(_deltas(step))
    taken = ("content", "summary", "signature", "arguments") if deltas else ()
    begun = {key: value for key, value in step.items() if key not in taken}
    yield {"event_type": "step.start", "index": at, "step": begun}
    for delta in deltas:
        yield {"event_type": "step.delta", "index": at, "delta": delta}
    is_ours = call_kind(str(step.get("type")), step) == "function"
    if not (goes_on and is_ours):  # a call that ended would run now, and again in the whole interaction
        yield {"event_type": "step.stop", "index": at}


def _deltas(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the deltas of a step; none of one that comes whole in a stream, too."""
    type_ = step.get("type")
    if type_ == "function_call":
        yield {"type": "arguments_delta", "arguments": json_text(step.get("arguments") or {}) or ""}
    elif type_ == "model_output":
        yield from _listed(step, "content")
    elif type_ == "thought":
        for content in _listed(step, "summary"):
            yield {"type": "thought_summary", "content": content}
        if isinstance(step.get("signature"), str):
            yield {"type": "thought_signature", "signature": step["signature"]}


def _listed(step: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = step.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
