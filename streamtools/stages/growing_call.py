"""Holds one call while its pieces come: its name, its ids, and the text of its arguments so far."""

from __future__ import annotations

from ..content import Caller
from ..errors import InvalidArguments, ToolError
from ..events import ToolCallDelta, ToolCallFragment
from ..limits import Limits
from ..parts import CallKind
from ..text import SurrogateJoiner
from .moments import Moments

__all__ = ["GrowingCall", "problem_error"]


class GrowingCall:
    """One call while it grows."""

    __slots__ = (
        "announced", "awaits", "call_id", "caller", "closed", "ended", "index", "joiner", "json", "json_end", "kind",
        "name", "namespace", "number", "pieces", "problem", "provider_state", "shown_name", "synthesized", "text_came",
        "wire_id",
    )  # fmt: skip

    def __init__(self, number: int, fragment: ToolCallFragment, limits: Limits) -> None:
        self.number = number
        self.index = fragment.index
        self.kind: CallKind = fragment.kind
        self.name = fragment.name or ""
        self.namespace = ""
        self.awaits = fragment.awaits
        self.caller: Caller = "direct"
        self.wire_id = ""  # as the wire gives it, even where it cannot serve as the identity
        self.call_id = ""  # the identity; "" until it is known
        self.shown_name = ""
        self.synthesized = False
        self.announced = False
        self.closed = False  # it has ended without any arguments
        self.ended = False
        self.problem: str | None = None
        self.provider_state: dict[str, object] | None = None
        self.pieces: list[str] = []
        self.text_came = False
        self.joiner = SurrogateJoiner()
        self.json = Moments(max_depth=limits.max_json_depth)
        self.json_end = 0  # characters emitted in deltas so far

    @property
    def is_bare(self) -> bool:
        """True while a function call with a name has neither arguments nor a problem."""
        return not self.text_came and self.problem is None and self.kind == "function" and bool(self.name)

    def begin_again(self, limits: Limits) -> None:
        """Discards the text, so that it can begin again."""
        self.pieces = []
        self.json = Moments(max_depth=limits.max_json_depth)
        self.json_end = 0

    def delta(self, text: str) -> ToolCallDelta:
        """Returns the event for more of the text."""
        self.json_end += len(text)
        return ToolCallDelta(self.call_id, text, None if self.kind == "custom" else self.json, self.json_end)


def problem_error(problem: str | None, limits: Limits) -> ToolError | None:
    """Returns the error of a call by the code of its problem; None if it has none."""
    if problem is None:
        return None
    texts = {
        "missing_name": "the call came without a tool name",
        "repeated_call": "the same call came before, under the same id; it is run once",
        "name_too_long": f"the tool name exceeds max_name_bytes={limits.max_name_bytes}",
        "too_deep": f"the arguments are nested deeper than max_json_depth={limits.max_json_depth}",
        "argument_too_large": f"the arguments exceed max_argument_bytes={limits.max_argument_bytes}",
        "bad_path": "a piece of the arguments has no path or value that can be used",
    }
    return InvalidArguments(texts.get(problem, f"the call is not whole: {problem}"))
