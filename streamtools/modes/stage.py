"""Turns payloads in a streamed text into calls, text and reasoning, as they come.

    {"scratchpad": "Look it up.", "tool": "get_weather", "arguments": {"city": "Pa...
     → reasoning, delta by delta   → a call, whose arguments grow

A call found here is treated like a native one: accumulated, validated, dispatched, observed. It ends with the response,
as a call of the chat wire does, so that one that was cut can never run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamWarning,
    TextStart,
    ToolCallFragment,
)
from ..limits import Limits
from ..stages import DEFAULT, StageList
from ..stages.text import TextRecipe
from ..stages.text.parts import TextStage
from ..stages.validate import Validate
from ..tools import Exported, Tool, Toolset
from .reading import PayloadReader

__all__ = ["PAYLOADS", "PayloadStage", "with_payloads"]

_LABEL = "payload"  # of the one call; wires use numbers, or names of their own


class PayloadStage(TextStage):
    """Turns the payload in the text into events. Stands before ``accumulate``."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._told = _Told(self)
        self._reader = PayloadReader(limits, self._told)
        self._text_came = False

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
        return replace(end, finish="tool_calls") if end.finish == "stop" and self._told.calls else end

    # -- for the sink --

    def say(self, text: str) -> None:
        """Emits text."""
        self._tell_text(text)

    def say_between(self, event: Event) -> None:
        """Emits an event between two parts of text."""
        self._tell_between(event)

    def begin_part(self) -> None:
        """Begins a part of text, which may stay empty."""
        self._close_part()
        self._out.append(self._start or TextStart())
        self._start, self._open = None, True

    def end_part(self) -> None:
        """Ends the part of text."""
        self._close_part()


class _Told:
    """A sink that turns the parts of a text into events."""

    def __init__(self, stage: PayloadStage) -> None:
        self.calls = 0
        self._stage = stage
        self._key = ""

    def text(self, text: str) -> None:
        self._stage.say(text)

    def call(self, name: str) -> None:
        self.calls += 1
        self._stage.say_between(ToolCallFragment(_LABEL, name=name, start=True))

    def arguments(self, text: str) -> None:
        self._stage.say_between(ToolCallFragment(_LABEL, arguments=text))

    def call_over(self, *, whole: bool) -> None:
        if self.calls and not whole:
            self._stage.say_between(ToolCallFragment(_LABEL, end=True, cut=True))

    def begin(self, key: str, *, is_string: bool) -> None:
        self._key = key
        if key == "scratchpad":
            self._stage.say_between(ReasoningStart())
        else:
            self._stage.begin_part()

    def add(self, text: str) -> None:
        if self._key == "scratchpad":
            self._stage.say_between(ReasoningDelta(text))
        else:
            self._stage.say(text)

    def end(self) -> None:
        if self._key == "scratchpad":
            self._stage.say_between(ReasoningEnd())
        else:
            self._stage.end_part()


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
