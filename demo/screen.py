"""What the demo shows: events in, text for the terminal out.

Nothing here writes, waits or looks at a clock. `Screen` returns what is to be written:

    model  get_weather(city="Tokyo")   0.20 → 0.55 s   343 ms  7 degrees
           get_weather(city="Oslo")    0.20 →           410 ms  running
           get_weather(city="Li…

Theory of operation. A step is shown as blocks, in the order in which they began: texts and calls. A block's lines
settle when they can no longer change, and are written for good as soon as all above them are. Where the cursor can
move, what has not settled stands below and is rewritten at every event; elsewhere it is not shown, so that a file gets
each line once. What is rewritten never exceeds the height of the terminal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamtools import Event, Observation, ReasoningDelta, StreamEnd, TextDelta
from streamtools.events import (
    ReasoningEnd,
    RefusalDelta,
    StreamWarning,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolStarted,
)
from streamtools.ground.text import printable

from .blocks import Block, CallBlock, TextBlock, margin
from .terminal import Style, Terminal
from .timeline import Timeline

__all__ = ["Screen"]


class Screen:
    """Shows one run. Call `ask` before each request and `feed` with every event; write what they return.

    Args:
        terminal: what is written to.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._timeline = Timeline()
        self._blocks: deque[Block] = deque()
        self._texts: dict[str, TextBlock] = {}
        self._calls: dict[str, CallBlock] = {}
        self._spoke = ""  # who spoke last: nobody is introduced twice
        self._rewritable = 0  # lines above the cursor that have not settled
        self._now = 0.0

    def say(self, who: str, text: str) -> str:
        """Somebody but the model speaks: a whole text at once."""
        self._whole_text(who, text, "bold" if who == "you" else "dim")
        return self._update()

    def unbroken(self, who: str, text: str) -> str:
        """As `say`, on one line however long: what is to be copied must not be broken."""
        return f"{margin(self._introduced(who), self._terminal)}{printable(text)}\n"

    def ask(self, now: float) -> str:
        """A request leaves, at `now` (seconds of the clock that stamps the events)."""
        self._timeline.ask(now)
        self._now = now
        self._texts, self._calls = {}, {}
        return self._settle_all() + self.blank()

    def feed(self, event: Event) -> str:
        """Take the next event of the run."""
        handler = _HANDLERS.get(type(event))
        if handler is None:
            return ""
        self._now = max(self._now, getattr(event, "time", 0.0))
        handler(self, event)
        return self._update()

    def tick(self, now: float) -> str:
        """Time has passed: how long running tools have been running is shown anew."""
        self._now = max(self._now, now)
        return self._update() if self._blocks else ""

    def blank(self) -> str:
        """An empty line; whoever speaks next is introduced."""
        self._spoke = ""
        return "\n"

    def close(self) -> str:
        """The run is over, well or not: what was still open stays as it is."""
        return self._settle_all()

    def timeline(self) -> str:
        """When everything happened."""
        return "".join(f"{line}\n" for line in self._timeline.lines(self._terminal))

    # -- one method per event that shows --

    def _text(self, event: TextDelta | ReasoningDelta | RefusalDelta) -> None:
        who = _SPEAKERS[type(event)]
        if who not in self._texts:
            self._texts[who] = TextBlock(self._introduced(who), self._terminal)
            self._blocks.append(self._texts[who])
        self._texts[who].add(event.text)

    def _text_end(self, event: TextEnd | ReasoningEnd) -> None:
        text = self._texts.pop(_ENDS[type(event)], None)
        if text is not None:
            text.finished = True

    def _call_start(self, event: ToolCallStart) -> None:
        call = self._calls[event.call_id] = CallBlock(self._introduced("model"), self._terminal, event.name)
        self._blocks.append(call)

    def _call_delta(self, event: ToolCallDelta) -> None:
        self._calls[event.call_id].arguments = event.preview

    def _call_end(self, event: ToolCallEnd) -> None:
        block = self._calls[event.call_id]
        block.end(event.call)
        block.finished = event.call.kind == "server"  # the provider runs it: nothing of ours will come of it

    def _tool_started(self, event: ToolStarted) -> None:
        block = self._calls[event.call_id]
        block.started = self._timeline.since(event.time)
        self._timeline.started(event.call_id, block.text(), event.time)

    def _observation(self, event: Observation) -> None:
        self._calls[event.call_id].observe(event, self._timeline.since(event.time))
        self._timeline.ended(event.call_id, event.time)

    def _stream_end(self, event: StreamEnd) -> None:
        self._timeline.answered(event.time)
        for text in self._texts.values():
            text.finished = True
        self._texts = {}

    def _warning(self, event: StreamWarning) -> None:
        self._whole_text("note", f"{event.code} {event.detail}".rstrip(), "dim")

    # -- lines --

    def _whole_text(self, who: str, text: str, style: Style) -> None:
        block = TextBlock(self._introduced(who), self._terminal, style=style)
        block.add(text)
        block.finished = True
        self._blocks.append(block)

    def _introduced(self, who: str) -> str:
        introduction = "" if who == self._spoke else who
        self._spoke = who
        return introduction

    def _settle_all(self) -> str:
        for block in self._blocks:
            block.finished = True
        return self._update()

    def _update(self) -> str:
        settled: list[str] = []
        while self._blocks:
            block = self._blocks[0]
            settled += block.settle()
            if not block.finished:
                break
            self._blocks.popleft()
        if not self._terminal.live:
            return "".join(f"{line}\n" for line in settled)
        now = self._timeline.since(self._now)
        growing = [line for block in self._blocks for line in block.open(now)]
        growing = growing[max(len(growing) - self._terminal.height + 1, 0) :]
        back = f"\x1b[{self._rewritable}A" if self._rewritable else ""
        self._rewritable = len(growing)
        # Each line is cleared behind what is written, not before it: so nothing flickers.
        return back + "".join(f"{line}\x1b[K\n" for line in settled + growing) + "\x1b[J"


_SPEAKERS: dict[type[Event], str] = {TextDelta: "model", ReasoningDelta: "thinks", RefusalDelta: "model"}
_ENDS: dict[type[Event], str] = {TextEnd: "model", ReasoningEnd: "thinks"}

_HANDLERS: dict[type[Event], Callable[[Screen, Any], None]] = {
    TextDelta: Screen._text,
    ReasoningDelta: Screen._text,
    RefusalDelta: Screen._text,
    TextEnd: Screen._text_end,
    ReasoningEnd: Screen._text_end,
    ToolCallStart: Screen._call_start,
    ToolCallDelta: Screen._call_delta,
    ToolCallEnd: Screen._call_end,
    ToolStarted: Screen._tool_started,
    Observation: Screen._observation,
    StreamWarning: Screen._warning,
    StreamEnd: Screen._stream_end,
}
