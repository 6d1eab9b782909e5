"""Shows a run in a terminal: each step as a panel, with its text, and a bar for the stream and for each call.

    with TerminalView() as view:
        async with agent_loop(..., trajectory=Trajectory(observers=[view])) as run: ...

In go events, as to a `Watch`; out come the panels of `rich` (extra ``terminal``). Text of the model's and of tools is
shown without its control characters, and never read as markup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ..events import Event, StepEnd
from ..observers import RunFacts
from ..parts import OUTCOMES, Tone
from ..text import cut, one_line, printable
from .drawing import LEFT, PROVIDERS
from .lanes import CallLane, StepLane, StreamPiece
from .picture import BY_CODE, DECIDED, ORIGIN, Picture
from .watch import Watch

__all__ = ["TerminalView", "show"]

# An outcome differs in colour, shape and word: a terminal may lack colours, and a reader may not see them.
COLOURS: dict[Tone, str] = {
    "good": "green", "bad": "red", "held": "yellow", "mute": "yellow", "odd": "magenta", "live": "cyan",
}  # fmt: skip
SHAPES: dict[str, tuple[str, str]] = {
    **{outcome: (facts.sign, COLOURS[facts.tone]) for outcome, facts in OUTCOMES.items()},
    PROVIDERS: ("☁", "cyan"),
    LEFT: ("→", "cyan"),
}
"""The shape and the colour of each outcome."""
RUNNING, WAITING = ("●", "blue"), ("○", "blue")

STYLES = {"reasoning": "dim italic", "refusal": "red"}
"""The styles of what is not ordinary text."""

STREAM, RUN, FAILED_TRY, WAIT, NOTHING = "━", "█", "▓", "┄", " "
"""The marks of which bars are made."""

MOST_CHARS = 4000  # of a step's text, and of its reasoning: the end is shown
LEAST_NAME, WORD, SECONDS = 30, 14, 7  # cells of columns
LEAST_BAR, MOST_BAR = 16, 80
A_SECOND = 8  # pictures


class TerminalView:
    """An observer that shows a run in the terminal. Use it as a context manager around the run.

    Args:
        title: the headline; by default the agent's name.
        content: show texts, arguments and results; without it, names, times and outcomes alone.
        console: writes; by default to standard output.
    """

    def __init__(self, title: str = "", *, content: bool = True, console: Console | None = None) -> None:
        self._watch = Watch(title, content=content)
        self._console = Console() if console is None else console
        self._texts = _Texts(self._watch.picture)
        self._shown = 0  # steps that were printed
        self._live: Live | None = None

    def __enter__(self) -> Self:
        # The step that goes on is drawn again some times a second; a step that is over is printed once, and scrolls
        # away. A file would keep every picture, so that only what is over is written there.
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._current,
                console=self._console,
                refresh_per_second=A_SECOND,
                transient=True,
                vertical_overflow="visible",
            )
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        self._print(len(self._watch.picture.steps))
        self._console.print(_sums(self._watch.picture))

    @property
    def picture(self) -> Picture:
        """The picture so far, for a `streamtools.view.page`."""
        return self._watch.picture

    # -- as an observer --

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """All events."""
        return None

    def on_event(self, event: Event) -> None:
        """Draws an event; prints the step that it ends."""
        self._watch.on_event(event)
        if isinstance(event, StepEnd):
            self._print(len(self._watch.picture.steps))

    def begin_run(self, run: RunFacts) -> None:
        """Begins the run."""
        self._watch.begin_run(run)

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Draws the end of the run."""
        self._watch.end_run(outcome, error)

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    # -- showing --

    def _print(self, until: int) -> None:
        picture = self._watch.picture
        self._texts.take()
        while self._shown < until:
            step = picture.steps[self._shown]
            self._shown += 1
            self._console.print(_Step(picture, step, self._texts))

    def _current(self) -> RenderableType:
        picture = self._watch.picture
        self._texts.take()
        left = picture.steps[self._shown :]
        return Group(*(_Step(picture, step, self._texts) for step in left)) if left else Text("")


def show(picture: Picture, console: Console | None = None) -> None:
    """Prints a run: every step, and the sums."""
    console = Console() if console is None else console
    texts = _Texts(picture)
    texts.take()
    for step in picture.steps:
        console.print(_Step(picture, step, texts))
    console.print(_sums(picture))


# -- one step ----------------------------------------------------------------------------------------------------------


class _Texts:
    """The ends of the growing texts of a picture, each as long as it is shown."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._drawn = 0
        self._texts: dict[int, str] = {}

    def take(self) -> None:
        """Takes the deltas that are new."""
        # The length first: `rich` draws in a thread of its own, while the picture grows.
        growth = self._picture.growth
        until = len(growth)
        for piece, _, _, text in growth[self._drawn : until]:
            self._texts[piece] = (self._texts.get(piece, "") + text)[-MOST_CHARS:]
        self._drawn = until

    def of(self, piece: StreamPiece) -> str:
        """Returns the end of a piece's text."""
        return self._texts.get(piece.id, "")


class _Step:
    """One step, drawn as wide as the terminal is."""

    def __init__(self, picture: Picture, step: StepLane, texts: _Texts) -> None:
        self._picture = picture
        self._step = step
        self._texts = texts
        self._pieces = [piece for piece in picture.pieces if piece.step == step.id]
        self._calls = [call for call in picture.calls if call.step == step.id]

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        width: int = options.max_width
        yield Rule(self._title(), align="left", style="dim", characters="─")
        for piece in self._pieces:
            if piece.call is None and (text := self._texts.of(piece).strip("\n")):
                yield Padding(_plain(text, STYLES.get(piece.kind, "default")), (0, 2))
        if self._step.error is not None:
            yield Padding(_plain(f"✖ {self._step.error}", "red"), (0, 2))
        for _, code, text in self._step.warnings:
            yield Padding(_plain(f"! {code} {text}".rstrip(), "yellow"), (0, 2))
        yield from self._lines(width)

    def _title(self) -> Text:
        step = self._step
        words = [f"step {step.number + 1}", step.wire or "", step.model or "", _seconds(self._length())]
        words += [step.finish or "", "" if step.outcome in (None, "complete") else str(step.outcome)]
        tokens = step.usage or {}
        if tokens:
            words.append(f"{tokens.get('input_tokens', 0)} + {tokens.get('output_tokens', 0)} tokens")
        title = Text(one_line(words[0]), style="bold")
        for word in filter(None, words[1:]):
            title.append(" · ", style="dim").append(one_line(word), style="default")
        return title

    def _length(self) -> float:
        return self._until() - self._step.start

    def _until(self) -> float:
        step, calls = self._step, self._calls
        if step.end is not None:
            return step.end
        ends = [one.end or one.start for one in (*calls, *self._pieces)]
        return max([step.start, step.stream_end or step.start, *ends])

    def _lines(self, width: int) -> Iterator[RenderableType]:
        """Yields a line for the stream and each call, and one below a call for its result or its error."""
        # On a narrow terminal names are worth more than bars.
        bar = min(MOST_BAR, width - LEAST_NAME - WORD - SECONDS - 5)
        columns = _Columns(width, bar if bar >= LEAST_BAR else 0)
        if self._step.asks_model:
            yield self._stream_line(columns)
        for call in self._calls:
            line = self._call_line(call, columns)
            yield line
            # The arguments of a call that did not succeed are shown whole: they are what a reader looks for then.
            arguments = one_line(self._arguments(call))
            if call.outcome not in (None, "ok") and arguments and arguments not in line.plain:
                yield Padding(_plain(cut(arguments, 4 * width), "dim"), (0, 2, 0, 4))
            if not call.tries:  # somebody decides, or has denied
                for words in (text for label, text in call.facts if label == ORIGIN):
                    yield Padding(_plain(cut(one_line(words), 2 * width), "yellow"), (0, 2, 0, 4))
            for words in (text for label, text in call.facts if label == DECIDED and " by " in text):
                yield Padding(_plain(cut(one_line(words), 2 * width), "dim"), (0, 2, 0, 4))
            if outcome_line := self._outcome_line(call):
                colour = self._shape(call)[1] if call.error else "default"
                yield Padding(_plain(cut(outcome_line, 2 * width), colour), (0, 2, 0, 4))

    def _stream_line(self, columns: _Columns) -> Text:
        step = self._step
        begun = step.start if step.stream_start is None else step.stream_start
        ended = self._until() if step.stream_end is None else step.stream_end
        spans = [(step.start, begun, WAIT, "dim"), (begun, ended, STREAM, "cyan")]
        word = "streams" if step.stream_end is None else (step.finish or "ended")
        return columns.line(
            Text(" "),
            Text("the stream", style="dim"),
            self._drawn(spans, columns.bar),
            _plain(word, "dim"),
            _plain(_seconds(ended - begun), "dim"),
        )

    def _call_line(self, call: CallLane, columns: _Columns) -> Text:
        shape, colour = self._shape(call)
        name = Text(one_line(call.name) or "(no name)", style="bold")
        if arguments := self._arguments(call):
            name.append(f" {one_line(arguments)}", style="not bold dim")
        if BY_CODE in call.facts:
            name = Text("by code: ", style="yellow").append(name)
        spans = [(wait.start, wait.end or self._until(), WAIT, "yellow") for wait in call.waits]
        for one in call.tries:
            mark, ink = (FAILED_TRY, "red") if one.error else (RUN, colour)
            spans.append((one.start, one.end or call.end or self._until(), mark, ink))
        return columns.line(
            Text(shape, style=colour),
            name,
            self._drawn(spans, columns.bar),
            _plain(self._word(call), colour),
            _plain(_ran(call), "default"),
        )

    def _shape(self, call: CallLane) -> tuple[str, str]:
        if call.outcome is not None:
            return SHAPES.get(call.outcome, ("?", "magenta"))
        return RUNNING if call.tries and call.tries[-1].end is None else WAITING

    def _word(self, call: CallLane) -> str:
        if call.outcome is not None:
            words = {PROVIDERS: "the provider's", LEFT: "left to others"}
            tries = f" x{len(call.tries)}" if len(call.tries) > 1 else ""
            return f"{words.get(call.outcome, call.outcome.replace('_', ' '))}{tries}"
        if call.tries and call.tries[-1].end is None:
            return "runs" if len(call.tries) == 1 else f"runs x{len(call.tries)}"
        waits = [wait for wait in call.waits if wait.end is None]
        return f"waits: {waits[-1].reason.replace('_', ' ')}" if waits else "arrives" if call.whole is None else "ready"

    def _arguments(self, call: CallLane) -> str:
        if call.arguments is not None:
            return call.arguments
        return "".join(self._texts.of(piece) for piece in self._pieces if piece.call == call.id)

    def _outcome_line(self, call: CallLane) -> str:
        if call.error:
            return " ← ".join(one_line(line) for line in call.error.split("\n"))
        return f"= {one_line(call.result)}" if call.result else ""

    def _drawn(self, spans: list[tuple[float, float, str, str]], bar: int) -> Text:
        """Returns the bar of a lane: a span takes at least one cell, and later ones win."""
        start, length = self._step.start, max(self._length(), 1e-9)
        cells: list[tuple[str, str]] = [(NOTHING, "default")] * bar
        for begin, end, mark, colour in spans if bar else ():
            left = min(bar - 1, max(0, int((begin - start) / length * bar)))
            right = min(bar, max(left + 1, round((end - start) / length * bar)))
            cells[left:right] = [(mark, colour)] * (right - left)
        drawn = Text()
        for mark, colour in cells:
            drawn.append(mark, style=colour)
        return drawn


# -- columns and words -------------------------------------------------------------------------------------------------


class _Columns:
    """The widths of a line's columns, the same for all lines of a step; `bar` is 0 without room for bars."""

    def __init__(self, width: int, bar: int) -> None:
        self.bar = bar
        """The width of the bars."""
        self._name = max(10, width - WORD - SECONDS - (bar + 1 if bar else 0) - 4)

    def line(self, shape: Text, name: Text, bar: Text, word: Text, seconds: Text) -> Text:
        """Returns a line of these, each cut or filled to its column."""
        name.truncate(self._name, overflow="ellipsis", pad=True)
        word.truncate(WORD, overflow="ellipsis", pad=True)
        line = Text(no_wrap=True).append(shape).append(" ").append(name).append(" ")
        if self.bar:
            line.append(bar).append(" ")
        seconds.align("right", SECONDS)
        return line.append(word).append(" ").append(seconds)


def _plain(text: str, style: str) -> Text:
    """Returns text that cannot steer the terminal."""
    # `Text` and not a string: `rich` would read "[red]" in a string as markup.
    return Text("\n".join(printable(line) for line in text.split("\n")), style=style)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _ran(call: CallLane) -> str:
    if not call.tries:
        return ""
    last = call.tries[-1].end if call.tries[-1].end is not None else call.end
    return "" if last is None else _seconds(last - call.tries[0].start)


def _sums(picture: Picture) -> Text:
    tokens = picture.usage()
    steps, calls = len(picture.steps), len(picture.calls)
    began = min((step.start for step in picture.steps), default=0.0)
    ended = max((step.end or step.start for step in picture.steps), default=0.0)
    names = [run.name for run in picture.runs if run.name]
    words = [picture.title or (names[0] if names else "the run")]
    words += [_counted(steps, "step"), _counted(calls, "call"), _seconds(ended - began)]
    if tokens:
        words.append(f"{tokens.get('input_tokens', 0)} + {tokens.get('output_tokens', 0)} tokens")
    if picture.left_out:
        words.append(f"{picture.left_out} events beyond the bound are not shown")
    return _plain(" · ".join(one_line(word) for word in words), "bold")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
