"""A ``thinking`` chunk that comes in pieces, and goes back whole.

Each delta brings a chunk of its own: ``{"type": "thinking", "thinking": [{"type": "text", "text": "..."}]}``. The texts
of one run of them are joined; what stands between the texts (references), and what stands beside them (``signature``,
``closed``), stays as it came. Dropping or flattening it makes the model worse (mistralai/client-python,
``examples/mistral/chat/reasoning_multi_turn.py``; vercel/ai#17930).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Thinking", "says_nothing"]


class Thinking:
    """Collects one chunk. Feed it the deltas that it `continues`."""

    def __init__(self) -> None:
        self._inner: list[list[str] | dict[str, Any]] = []  # the pieces of a text, or something else
        self._beside: dict[str, Any] = {}
        self.count = 0
        """Things kept beside the texts."""
        self.latest: list[Any] = []
        """Those that the latest delta brought."""

    def continues(self, chunk: Mapping[str, Any]) -> bool:
        """Whether a delta belongs to this chunk. Once this is signed it only takes more of the same signature, or
        nothing but an end: a signature is of the whole."""
        signature, other = self._beside.get("signature"), chunk.get("signature")
        return not signature or other == signature or says_nothing(chunk)

    def add(self, chunk: Mapping[str, Any]) -> Iterator[str]:
        """Takes a delta; yields its texts."""
        self.latest = []
        for key, value in chunk.items():
            if key not in ("type", "thinking") and value is not None:
                self.count += key not in self._beside
                self.latest.append(value)
                self._beside[key] = value
        for item in _items(chunk):
            text = item.get("text") if isinstance(item, dict) else item
            if isinstance(text, str):
                if text:
                    self._text().append(text)
                    yield text
            elif isinstance(item, dict):
                self.count += 1
                self.latest.append(item)
                self._inner.append(item)

    def state(self) -> dict[str, Any]:
        """What must go back beside the text; the whole list where something stands among the texts."""
        state: dict[str, Any] = {"type": "thinking"}
        if any(isinstance(item, dict) for item in self._inner):
            state["thinking"] = [
                item if isinstance(item, dict) else {"type": "text", "text": "".join(item)} for item in self._inner
            ]
        return state | self._beside

    def _text(self) -> list[str]:
        if not self._inner or isinstance(self._inner[-1], dict):
            self._inner.append([])
        last = self._inner[-1]
        assert isinstance(last, list), "an item was appended above unless the last is a text"
        return last


def says_nothing(chunk: Mapping[str, Any]) -> bool:
    """Whether a delta has neither a text nor anything else to keep; the first and the last of a run may be so."""
    return not chunk.get("signature") and not any(
        item if isinstance(item, str) else isinstance(item, dict) and item.get("text") != "" for item in _items(chunk)
    )


def _items(chunk: Mapping[str, Any]) -> list[Any]:
    inner = chunk.get("thinking")
    return inner if isinstance(inner, list) else [inner]
