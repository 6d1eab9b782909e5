"""The half of Cohere's decoder that both versions of the API share: plans, thoughts, citations, arguments, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from ...errors import ProviderError
from ...events import ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ..decoder import WireDecoder
from ..reading import provider_error, read_text

__all__ = ["CohereParts", "label"]

_FINISHES: dict[str, Finish] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "tool_calls",
    "MAX_TOKENS": "length",
    "ERROR_LIMIT": "length",  # "the maximum number of tokens for its context length"
    "ERROR_TOXIC": "content_filter",
}
_FAILURES = frozenset({"ERROR", "TIMEOUT"})
_WITH_REASON = frozenset({"length", "content_filter"})  # an error's text beside these only explains them


class CohereParts(WireDecoder):
    """The half of the decoder that knows no event."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._calls: dict[int | str | None, bool] = {}  # by index; whether it is open
        self._nameless: set[int | str | None] = set()  # those that began with a delta: no start has named them
        self._state: dict[str, Any] = {}  # what every part of this response is marked with
        self._field = ""  # what the reasoning that is being told is: "thinking" or "tool_plan"
        self._kept_count = 0  # blocks, citations, search results
        self._stopped = False

    def _begin(self) -> None:
        if not self._started:
            self.emit_start(None, None)

    def _think(self, field: str, text: str) -> None:
        if self._open == "reasoning" and self._field != field:
            self.end_part()
        self._field = field
        self.emit_reasoning(text)

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        if self._open == "reasoning":
            provider_state = {"field": self._field, **self._state}
        elif self._state:
            provider_state = self._state
        super().end_part(provider_state)

    def _citation(self, citation: object) -> None:
        """Tells a citation at once, also in the midst of a text: it ends nothing."""
        if not isinstance(citation, dict):
            self.emit_unknown(citation)
        elif self._keeps_one_more(citation) and (kept := self.to_keep(citation)) is not None:
            self.out.append(ProviderItem("citation", {"citations": kept}))

    def _keeps_one_more(self, extra: object = None) -> bool:
        """Returns whether one more part, and what is kept of it beside its text, stays within the limits."""
        self._kept_count += 1
        return self.holds(self._kept_count, "the message") and (extra is None or self.charge(extra))

    def _argument_text(self, holder: object, key: str, path: tuple[str | int, ...]) -> tuple[str, str | None]:
        """Returns arguments, as text or as an object, under `key` of what `path` leads to; and the problem's code."""
        arguments = holder.get(key) if isinstance(holder, dict) else None
        if arguments is None or isinstance(arguments, str):
            return arguments or "", None
        return self.object_text(arguments, (*path, key))

    def _end_call(self, index: int | str | None, *, cut: bool = False) -> None:
        cut = (index not in self._nameless and self.lacks_arguments(index)) or cut
        self.out.append(ToolCallFragment(index, end=True, cut=cut))

    # -- the end --

    def _ended(self, reason: object, usage: object, error: object, error_type: object = None) -> None:
        """Takes the event that ends a response."""
        self._begin()
        self.read_usage(usage)
        if isinstance(reason, str) and reason:
            self._finish_raw = reason
        failed = (self._finish_raw or "").upper() in _FAILURES
        if failed or (error and self._finish() not in _WITH_REASON):
            told = provider_error({"error": error})
            message = told.message if told else f"the provider ended the generation with {read_text(reason)}"
            self.fail(ProviderError(message, code=told.code if told else None, type=read_text(error_type)))
        self._stopped = self.done = True

    def _finish(self) -> Finish | None:
        return _FINISHES.get(self._finish_raw.upper(), "other") if self._finish_raw else None

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        whole = self._stopped and self.error is None
        for index, is_open in self._calls.items():
            if is_open:
                if whole:
                    self.warn("missing_call_end")
                self._end_call(index, cut=not whole)
        return self.normalized(self._finish(), bool(self._calls)), self._stopped


def label(index: object) -> int | str | None:
    """Returns an index as a label: v1's are floating point numbers."""
    if isinstance(index, float):
        return int(index) if index.is_integer() else str(index)
    return index if isinstance(index, (int, str)) else None
