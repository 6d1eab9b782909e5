"""Turns payloads in a streamed text into calls, text and reasoning, as they come.

    {"scratchpad": "Look it up.", "tool": "get_weather", "arguments": {"city": "Pa...
     → reasoning, delta by delta   → a call, whose arguments grow

A call found here is treated like a native one: accumulated, validated, dispatched, observed. It ends with the response,
as a call of the chat wire does, so that one that was cut can never run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..events import ReasoningDelta, ReasoningEnd, ReasoningStart, StreamEnd, StreamWarning, TextStart, ToolCallFragment
from ..limits import Limits
from ..stages import DEFAULT, StageList
from ..stages.arguments import Validate
from ..stages.text import TextRecipe
from ..stages.text.parts import TextStage
from ..tools import Exported, Tool, Toolset
from .reading import PayloadReader

__all__ = ["PAYLOADS", "PayloadStage", "with_payloads"]

_LABEL = "payload"  # of the one call; wires use numbers, or names of their own


class PayloadStage(TextStage):
    """Turns the payload in the text into events, as the sink of its reader. Stands before ``accumulate``."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._reader = PayloadReader(limits, self)
        self._text_came = False
        self._has_call = False
        self._key = ""

    def _is_plain(self, text: str) -> bool:
        return self._reader.is_plain(text)

    def _text(self, text: str) -> None:
        self._text_came = True
        self._reader.feed(text)

    def _text_over(self) -> None:
        self._reader.over()

    def _stream_end(self, end: StreamEnd) -> StreamEnd:
        if self._text_came and not self._reader.whole:
            self._out.append(StreamWarning("no_payload", "the text holds no whole payload"))
        return replace(end, finish="tool_calls") if end.finish == "stop" and self._has_call else end

    # -- the sink --

    def text(self, text: str) -> None:
        """Emits text."""
        self._tell_text(text)

    def call(self, name: str) -> None:
        """Begins a call."""
        self._has_call = True
        self._tell_between(ToolCallFragment(_LABEL, name=name, start=True))

    def arguments(self, text: str) -> None:
        """Emits more of the call's arguments."""
        self._tell_between(ToolCallFragment(_LABEL, arguments=text))

    def call_over(self, *, whole: bool) -> None:
        """Marks the call as cut if it will never end; a whole one ends with the response."""
        if self._has_call and not whole:
            self._tell_between(ToolCallFragment(_LABEL, end=True, cut=True))

    def begin(self, key: str, *, is_string: bool) -> None:
        """Begins reasoning, or a part of text, which may stay empty."""
        self._key = key
        if key == "scratchpad":
            self._tell_between(ReasoningStart())
            return
        self._close_part()
        self._out.append(self._start or TextStart())
        self._start, self._open = None, True

    def add(self, text: str) -> None:
        """Emits more of the reasoning or the text."""
        if self._key == "scratchpad":
            self._tell_between(ReasoningDelta(text))
        else:
            self._tell_text(text)

    def end(self) -> None:
        """Ends the reasoning or the part of text."""
        if self._key == "scratchpad":
            self._tell_between(ReasoningEnd())
        else:
            self._close_part()


PAYLOADS = TextRecipe("payloads", lambda tools, limits: PayloadStage(limits), before="accumulate")
"""A recipe of the stage, to be put before ``accumulate``."""


@dataclass(frozen=True, slots=True)
class _ValidateAs:
    """A recipe of the stage ``validate``, with each tool as an adapter showed it to the model."""

    told: Callable[[str, Tool], Exported]
    name: str = "validate"

    def build(self, tools: Toolset, limits: Limits, id_salt: str) -> Validate:
        """Makes the stage for one stream."""
        told = Toolset(name if tool is None else self.told(name, tool) for name, tool in tools.items())
        return Validate(told, limits)


def with_payloads(told: Callable[[str, Tool], Exported] | None = None) -> StageList:
    """Returns the default stages with the one for payloads.

    Args:
        told: gives a tool as it was shown to the model under that name, if its arguments have to be read differently.
    """
    stages = DEFAULT.insert_before("accumulate", PAYLOADS)
    return stages if told is None else stages.without("validate").insert_after("finalize", _ValidateAs(told))
