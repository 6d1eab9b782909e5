"""Answers whose parts stand in any order, on every wire: text before, between and behind calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from every_wire import said
from wire_cases import Payload
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, INTERACTIONS, LIVE, MISTRAL, REALTIME, RESPONSES

__all__ = ["Part", "arranged"]

Part = tuple[Literal["reasoning", "text", "calls"], Sequence[Any]]
"""The pieces of one text, or one whole call: id, name, arguments as JSON text."""

_NUMBERS = {ANTHROPIC: "index", INTERACTIONS: "index", BEDROCK: "contentBlockIndex", RESPONSES: "output_index",
            REALTIME: "output_index"}  # fmt: skip
_ITEMS = re.compile(r'"(msg_output_text|rs_1|fc_\d+|item_text|item_\d+)"')
_RESPONSES = re.compile(r'"(resp_1|msg_1|chatcmpl-1|v1_a|c-1|r)"')


def arranged(wire: str, parts: Sequence[Part], *, pieces: int = 1, response: str = "1") -> list[Payload]:
    """Composes the payloads of a whole response.

    Args:
        wire: which wire it speaks. Where a call ends the response (Live), the calls come last, in one payload.
        parts: what it says, in order.
        pieces: how many deltas each call's arguments come in.
        response: makes the ids of the response and its items its own.
    """
    calls = [call for kind, given in parts if kind == "calls" for call in given]
    if wire == LIVE:
        texts = [one for one in parts if one[0] != "calls"]
        return [*_joined(wire, texts, pieces), *said(wire, calls=calls)]
    head = said(wire, ends=False)
    body = _joined(wire, parts, pieces, response)
    tail = said(wire, text=["x"], calls=calls)[len(said(wire, text=["x"], calls=calls, ends=False)) :]
    items = [payload["item"] for payload in body if payload.get("type") == "response.output_item.done"]
    for payload in tail:
        if "output" in payload.get("response", ()):
            payload["response"]["output"] = items
    text = json.dumps([*head, *body, *tail])
    found: list[Payload] = json.loads(_RESPONSES.sub(rf'"\g<1>{response}"', text))
    return found


def _joined(wire: str, parts: Sequence[Part], pieces: int, response: str = "1") -> list[Payload]:
    """Returns the payloads of the parts alone, each at a place of its own."""
    before: Counter[str] = Counter()
    found: list[Payload] = []
    for number, (kind, given) in enumerate(parts):
        alone = said(wire, **{kind: given}, pieces=pieces, ends=False)[len(said(wire, ends=False)) :]
        alone = [_moved(wire, payload, before) for payload in alone]
        found += json.loads(_ITEMS.sub(rf'"\g<1>{response}.{number}"', json.dumps(alone)))
        before[kind] += 1
    return found


def _moved(wire: str, payload: Payload, before: Counter[str]) -> Payload:
    """Returns a payload of a part that stands behind others."""
    if wire in (CHAT, MISTRAL):
        for choice in payload["choices"]:
            choice["delta"] = _shifted(choice["delta"], "index", before["calls"])
        return payload
    if wire == COHERE:
        is_call = payload["type"].startswith("tool-call")
        return _shifted(payload, "index", before["calls"] if is_call else before["text"] + before["reasoning"])  # type: ignore[no-any-return]
    return _shifted(payload, _NUMBERS[wire], before.total()) if wire in _NUMBERS else payload


def _shifted(value: Any, key: str, by: int) -> Any:
    if isinstance(value, Mapping):
        return {name: one + by if name == key and isinstance(one, int) else _shifted(one, key, by)
                for name, one in value.items()}  # fmt: skip
    return [_shifted(one, key, by) for one in value] if isinstance(value, list) else value
