"""When each chat and each tool of a run began and ended, drawn as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamtools.cli.common import cells, pad

from .cells import clip
from .terminal import Style, Terminal

__all__ = ["TIMES", "TOOK", "Timeline", "interval", "milliseconds"]

TIMES = 13
"""Cells of an `interval`."""

TOOK = 7
"""Cells of `milliseconds`."""


@dataclass(slots=True)
class _Bar:
    kind: Literal["chat", "tool"]
    name: str
    start: float
    end: float | None = None


class Timeline:
    """Collects the bars of a run. All times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self.began: float | None = None
        """When the first request left; None before."""
        self._bars: list[_Bar] = []
        self._chat: _Bar | None = None
        self._tools: dict[str, _Bar] = {}

    def ask(self, now: float) -> None:
        """A request leaves."""
        if self.began is None:
            self.began = now
        number = 1 + sum(bar.kind == "chat" for bar in self._bars)
        self._chat = _Bar("chat", f"chat {number}", now)
        self._bars.append(self._chat)
        self._tools = {}

    def answered(self, now: float) -> None:
        """The model's response is over."""
        if self._chat is not None:
            self._chat.end = now

    def started(self, call_id: str, name: str, now: float) -> None:
        """A tool runs; `name` is what its bar is called."""
        self._tools[call_id] = _Bar("tool", name, now)
        self._bars.append(self._tools[call_id])

    def ended(self, call_id: str, now: float) -> None:
        """A call is over. One that never ran has no bar."""
        if call_id in self._tools:
            self._tools[call_id].end = now

    def lines(self, terminal: Terminal) -> list[str]:
        """The bars, one below the other, in the order in which they began. Empty if nothing was asked."""
        if self.began is None:
            return []
        titles = [bar.name if bar.kind == "chat" else f"  {bar.name}" for bar in self._bars]
        names = min(max(map(cells, titles)), terminal.width * 7 // 20)
        room = terminal.width - 1 - names - 2 - 2 - TIMES - 2 - TOOK
        whole = max([self.since(bar.end) for bar in self._bars if bar.end is not None], default=0.0) or 0.001
        end = f"{whole:.2f} s"
        lines = [terminal.paint("dim", " " * (names + 2) + "0 s" + end.rjust(room - 3))]
        for bar, title in zip(self._bars, titles, strict=True):
            name = pad(clip(title, names, terminal.sign("ellipsis")), names)
            lines.append(f"{name}  {self._drawn(bar, room, whole, terminal)}".rstrip())
        return [*lines, *self._saved()]

    def since(self, time: float) -> float:
        """Seconds from the first request to `time`."""
        return time - (time if self.began is None else self.began)

    def _drawn(self, bar: _Bar, room: int, whole: float, terminal: Terminal) -> str:
        start = self.since(bar.start)
        if bar.end is None:
            return "did not end"
        end = self.since(bar.end)
        first = min(int(start / whole * room), room - 1)
        size = max(int(end / whole * room) - first, 1)
        drawn = terminal.sign(bar.kind) * size
        style: Style = "cyan" if bar.kind == "chat" else "green"
        right = " " * (room - first - size)
        times = f"{interval(start, end, terminal)}  {milliseconds(end - start):>{TOOK}}"
        return f"{' ' * first}{terminal.paint(style, drawn)}{right}  {terminal.paint('dim', times)}"

    def _saved(self) -> list[str]:
        """What starting tools early and running them at once was worth, if it was worth anything."""
        work = waited = 0.0
        count = under = 0
        written, latest = 0.0, 0.0  # when the latest response was over, and the latest of its tools
        for bar in self._bars:
            if bar.end is None:
                continue
            if bar.kind == "chat":
                waited += max(latest - written, 0.0)
                written, latest = bar.end, bar.end
                continue
            count += 1
            work += bar.end - bar.start
            under += bar.end < written
            latest = max(latest, bar.end)
        waited += max(latest - written, 0.0)
        if work - waited < 0.01:
            return []
        lines = ["", f"{count} tools worked {work:.2f} s, waited for {waited:.2f} s."]
        if under:
            lines.append(f"{'One' if under == 1 else under} of them ended while the model still wrote.")
        return lines


def interval(start: float, end: float | None, terminal: Terminal) -> str:
    """``0.18 → 0.60 s``; without an end, where it is going is left open."""
    return f"{_seconds(start)} {terminal.sign('arrow')} " + ("" if end is None else f"{_seconds(end)} s")


def milliseconds(seconds: float) -> str:
    """``420 ms``; from ten seconds on seconds, so that it never takes more than seven cells."""
    return f"{seconds * 1000:.0f} ms" if seconds < 9.9995 else f"{_seconds(seconds)} s"


def _seconds(seconds: float) -> str:
    """In four cells: ``0.18``, ``12.3``, ``145``."""
    return f"{seconds:.2f}"[:4].rstrip(".")
