"""Counts the calls of a run: how often each was made, and how often a tool asked to be called again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import orjson

from ..tools import LARGE_CHARS

__all__ = ["RunCounts"]

_KEPT = 10_000  # the latest different calls are remembered; 16 bytes each


def _written(value: Any) -> bytes:
    """Returns the same text for equal values. orjson takes a tenth of json's time, and refuses integers beyond 64
    bits."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class RunCounts:
    """The counts of one run, over all its steps."""

    def __init__(self) -> None:
        self._calls: OrderedDict[bytes, int] = OrderedDict()
        self._retries: Counter[str] = Counter()

    def call(self, tool: str, arguments: Mapping[str, Any] | None, text: str) -> int:
        """Counts a call; returns how often it has been made, this time included.

        The order of the arguments and the way they were written do not matter, unless the arguments are large: writing
        large ones once more would hold up the event loop. Only a hash of each call is kept.

        Args:
            tool: the tool's name.
            arguments: the arguments.
            text: the arguments as the model wrote them.
        """
        is_large = len(text) > LARGE_CHARS
        written = f"{tool} {text}".encode("utf-8", "surrogatepass") if is_large else _written([tool, arguments])
        identity = hashlib.blake2b(written, digest_size=16).digest()
        times = self._calls.pop(identity, 0) + 1
        self._calls[identity] = times
        if len(self._calls) > _KEPT:
            self._calls.popitem(last=False)
        return times

    def model_retry(self, tool: str) -> int:
        """Counts that a tool asked to be called again; returns how often it has."""
        self._retries[tool] += 1
        return self._retries[tool]
