"""Rewrites a whole answer of Bedrock's Converse as the events that say the same: each block in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..marks import is_converse_answer
from ..reading import json_text

__all__ = ["whole"]

_BESIDE = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the events of an answer; None if this is none."""
    if not is_converse_answer(answer):
        return None
    output = answer["output"]
    message = output["message"]
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    beside = {key: answer[key] for key in _BESIDE if key in answer}
    return [
        {"messageStart": {**_but(output, "message"), **_but(message, "content")}},
        *(event for at, block in enumerate(blocks) for event in _block(block, at)),
        {"messageStop": _but(answer, "output", "ResponseMetadata", *_BESIDE)},
        *([{"metadata": beside}] if beside else []),
    ]


def _block(block: Mapping[str, Any], at: int) -> Iterator[dict[str, Any]]:
    use = block.get("toolUse")
    if isinstance(use, dict):
        start = {**_but(block, "toolUse"), "toolUse": _but(use, "input")}
        yield {"contentBlockStart": {"contentBlockIndex": at, "start": start}}
        yield _delta(at, {"toolUse": {"input": json_text(use.get("input", {})) or ""}})
    elif isinstance(reasoning := block.get("reasoningContent"), dict):
        text = reasoning.get("reasoningText")
        pieces = {**_but(reasoning, "reasoningText"), **text} if isinstance(text, dict) else reasoning
        for key, value in pieces.items():
            yield _delta(at, {"reasoningContent": {key: value}})
        for key, value in _but(block, "reasoningContent").items():
            yield _delta(at, {key: value})
    else:
        for key, value in block.items():
            yield _delta(at, {key: value})
    yield {"contentBlockStop": {"contentBlockIndex": at}}


def _but(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in names}


def _delta(at: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": at, "delta": delta}}
