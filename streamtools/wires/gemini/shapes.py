"""Payloads as others write them than the API: with names like ``finish_reason``, with bytes, enums and nulls."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any

__all__ = ["as_wire", "is_foreign", "without_nulls"]

_UNDERSCORE = re.compile(r"_([a-z])")
# What the model or a tool wrote: its names are its own.
_NOT_OURS = frozenset({"args", "response", "partMetadata", "part_metadata"})
_NULL_MEANT = frozenset({"nullValue", "null_value"})
_MAX_DEPTH = 16  # an envelope has about ten levels


def is_foreign(payload: Mapping[str, Any]) -> bool:
    """Whether some name is spelled as in Protocol Buffers, which their JSON format allows
    (https://protobuf.dev/programming-guides/json)."""
    levels: list[Any] = [payload]
    candidates = payload.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        levels.append(candidate)
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            levels.append(part)
            if isinstance(part, dict):
                levels.extend(part.values())
    return any(isinstance(level, dict) and "_" in "".join(map(str, level)) for level in levels)


def as_wire(value: Any, depth: int = 0) -> Any:
    """A part of a payload with names and values as on the wire: camelCase, bytes in Base64, no nulls, no enums."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return {
            _camel(name): item if name in _NOT_OURS else as_wire(item, depth + 1)
            for name, item in value.items()
            if item is not None or name in _NULL_MEANT
        }
    if isinstance(value, list) and depth < _MAX_DEPTH:
        return [as_wire(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.value if isinstance(value, Enum) else value


def without_nulls(part: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were set."""
    return {name: value for name, value in part.items() if value is not None}


def _camel(name: Any) -> Any:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name) if isinstance(name, str) else name
