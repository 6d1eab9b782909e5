"""Talks with a model in a mode: fields of the request instead of a list of tools, payloads and results as text, and
turns that only think.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ground.own import MESSAGES, own
from ..tools import AnyTool
from ..wires import Wire, find
from .modes import NativeToolAdapter, StreamingAdapter, ToolCallingAdapter


def checked(mode: Any, wire: Wire | str) -> StreamingAdapter:
    """Raises a `TypeError` if this is no adapter, a `ValueError` if it writes for another wire."""
    if not isinstance(mode, StreamingAdapter):
        hint = "ValidatedAdapter(yours)" if isinstance(mode, ToolCallingAdapter) else "get_adapter('mistral-7b')"
        raise TypeError(f"mode must be an adapter of streamtools.modes, such as {hint}, not {type(mode).__name__}")
    inner = getattr(mode, "base", mode)
    if isinstance(inner, NativeToolAdapter) and inner.wire != (name := find(wire).name):
        raise ValueError(f"mode {inner!r} is for another wire than wire={name!r}; pass NativeToolAdapter({name!r})")
    return mode


class ModeConversation:
    def __init__(self, tools: Sequence[AnyTool], mode: StreamingAdapter) -> None:
        self.tools = tools
        self._mode = mode
        self.messages, self.with_results, self.only_thinks = mode.messages, mode.with_results, mode.only_thinks

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        messages = own(messages, MESSAGES)  # an adapter may be the user's
        fields = dict(self._mode.format_request(self.tools, messages))
        return fields.pop("messages", messages), fields
