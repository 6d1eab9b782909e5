"""Takes secrets out of events before they are written.

In: an event as plain JSON. Out: the same event with the same `seq`, whose texts have passed through a function of the
caller's, and whose deltas are masked: a secret may be cut by any delta, so only whole texts can be judged. The whole of
a text stands in the event that ends it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..display import class_name
from .codec import MARK, VALUES

__all__ = ["Redact", "Redaction"]

Redact: TypeAlias = Callable[[str], str]
"""Returns a text as it may be kept."""

DOT = "·"  # stands for each character of a delta

_KEPT = frozenset({
    # the event, and its place
    "event", MARK, "seq", "step", "causes", "time", "run_id", "asks_model", "dispatches", "requested_at", "resumes",
    # identities and words of ours or the provider's
    "wire", "model", "response_id", "call_id", "idempotency_key", "name", "tool_name", "namespace", "awaits",
    "caller", "kind", "type", "place", "code", "status", "problem", "normalizations", "outcome", "finish", "finish_raw",
    "schema_source", "owner", "validator", "boundary", "observation_type", "reason", "error_type", "mime_type",
    "setting", "limit", "seconds", "timeout_s",
})  # fmt: skip
"""Fields of events, of our own values and of errors that say nothing about content."""
_DROPPED = frozenset({"resume_from", "fingerprint"})  # deltas again, and a hash of arguments
_DELTAS: Mapping[str, tuple[str, str | None]] = {
    "TextDelta": ("text", "TextEnd"),
    "ReasoningDelta": ("text", "ReasoningEnd"),
    "RefusalDelta": ("text", None),
    "ToolCallDelta": ("delta", None),
}
"""The field of each delta that has its text, and the event that has the whole."""


class Redaction:
    """Redacts the events of one run, in order."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._texts: dict[str, list[str]] = {}  # of texts that have not ended, by the event that ends them

    def event(self, told: dict[str, Any]) -> dict[str, Any]:
        """Returns an event as it may be written.

        Raises:
            TypeError: the caller's function returned something else than a text.
        """
        name = told["event"]
        if name in _DELTAS:
            field, end = _DELTAS[name]
            text = told.get(field, "")
            if end is not None:
                self._texts.setdefault(end, []).append(text)
            return {**told, field: DOT * len(text)}
        kept = self._fields(told)
        if name in self._texts:
            said = "".join(self._texts.pop(name))
            kept["whole"] = self.text(told.get("whole", said))
        elif name == "ApprovalRequested":
            kept["fingerprint"] = ""
        elif name == "ApprovalResolved" and "reason" in told:
            kept["reason"] = self._leaves(told["reason"])
        return kept

    def text(self, text: str) -> str:
        """Returns a text as it may be written."""
        kept = self._redact(text)
        if not isinstance(kept, str):
            raise TypeError(f"redact returned {class_name(kept)}, not a text")
        return kept

    def _fields(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Redacts the fields of an event, or of a value of ours. Numbers in fields of their own are kept."""
        kept: dict[str, Any] = {}
        for name, value in told.items():
            if name in _DROPPED:
                continue
            is_content = name not in _KEPT and not isinstance(value, (bool, int, float))
            kept[name] = self._leaves(value) if is_content else value
        if told.get(MARK) == "ToolCall" and "arguments_text" in told:
            kept["arguments_text"] = self._arguments_text(told["arguments_text"])
        return kept

    def _arguments_text(self, text: str) -> str:
        """Returns arguments with their strings redacted: in the text itself, escapes could hide them."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # cut, or none: a piece of a secret is not recognised
            return DOT * len(text)
        return json.dumps(self._leaves(value), ensure_ascii=False)

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._leaves(one) for one in value]
        if isinstance(value, dict):
            return self._object(value)
        if value is None or isinstance(value, bool):
            return value
        text = str(value)
        kept = self.text(text)
        return value if kept == text else kept

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        mark = value.get(MARK)
        if mark in VALUES:
            return self._fields(value)
        if mark == "error":
            told = {key: self._leaves(one) for key, one in value.items() if key in ("args", "message")}
            if "has" in value:
                told["has"] = self._fields(value["has"])
            if value.get("cause") is not None:
                told["cause"] = self._leaves(value["cause"])
            return {**value, **told}
        if mark == "bytes":
            return {**value, "is": ""}
        if mark is not None and mark != "dict":
            return {**value, **({"is": self._leaves(value["is"])} if "is" in value else {})}
        return {(key if key == MARK else self.text(key)): self._leaves(one) for key, one in value.items()}
