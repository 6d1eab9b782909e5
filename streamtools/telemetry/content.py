"""Fits captured content into an attribute: text is cut at its end, JSON inside its texts and lists, so that it stays
JSON. What was cut is marked by `MARK`."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MARK", "fitted", "fitted_json"]

MARK = "…"

_LENGTHS = (4096, 1024, 256, 64, 16, 0)  # of texts, tried in this order
_ITEMS = (64, 16, 4, 1, 0)  # of lists and objects, tried with the shortest texts


def fitted(text: str, most: int) -> str:
    """Returns a text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - len(MARK)] + MARK


def fitted_json(value: Any, most: int) -> str:
    """Returns a value as JSON of at most `most` characters, and of the whole value if that fits. Else texts in it end
    in `MARK`, and lists and objects leave items out and say so."""
    written = _json(value)
    if len(written) <= most:
        return written
    for length in (most, *_LENGTHS):
        if length <= most and len(written := _json(_cut(value, length, None))) <= most:
            return written
    for items in _ITEMS:
        if len(written := _json(_cut(value, 0, items))) <= most:
            return written
    return _json(MARK)


def _cut(value: Any, length: int, items: int | None) -> Any:
    if isinstance(value, str):
        return fitted(value, length) if length else MARK if value else value
    if isinstance(value, dict):
        kept = list(value.items())[:items]
        left = {MARK: len(value) - len(kept)} if len(kept) < len(value) else {}
        return {_cut_key(key): _cut(item, length, items) for key, item in kept} | left
    if isinstance(value, (list, tuple)):
        kept_items = [_cut(item, length, items) for item in value[:items]]
        return kept_items if len(kept_items) == len(value) else [*kept_items, MARK]
    return value


def _cut_key(key: Any) -> str:
    return fitted(str(key), 64)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # not orjson, which refuses integers from 2**64
