"""Shows a run in a terminal, by `rich` (extra ``terminal``). Text of the model and of tools is shown without control
characters, and never read as markup.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..events import Event, StepEnd
from ..ground import one_line
from ..observers import Observer, RunFacts
from ..parts import OUTCOMES
from .drawing import ELSEWHERE
from .picture import Picture
from .summary import head_of
from .terminal_rows import COLOURS, StepRows, Texts, plain, seconds, tokens_in
from .watch import Watch

A_SECOND = 8  # pictures
LEAST_SAVED_S = 0.005  # that is worth a word


class TerminalView(Observer):
    """An observer that shows a run in the terminal. Use it as a context manager around the run.

    Args:
        title: the headline; by default the agent's name.
        content: show texts, arguments and results; without it, names, times and outcomes alone.
        console: writes; by default to standard output.
    """

    def __init__(self, title: str = "", *, content: bool = True, console: Console | None = None) -> None:
        self._watch = Watch(title, content=content)
        self._console = Console() if console is None else console
        self._texts = Texts(self._watch.picture)
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

    # -- showing --

    def _print(self, until: int) -> None:
        picture = self._watch.picture
        self._texts.take()
        while self._shown < until:
            step = picture.steps[self._shown]
            self._shown += 1
            self._console.print(StepRows(picture, step, self._texts))

    def _current(self) -> RenderableType:
        picture = self._watch.picture
        self._texts.take()
        left = picture.steps[self._shown :]
        return Group(*(StepRows(picture, step, self._texts) for step in left)) if left else Text("")


def show(picture: Picture, console: Console | None = None) -> None:
    console = Console() if console is None else console
    texts = Texts(picture)
    texts.take()
    console.print(_sums(picture))
    for step in picture.steps:
        console.print(StepRows(picture, step, texts))


def _sums(picture: Picture) -> RenderableType:
    """Returns the run's own end, apart from the ends of its calls, and the time that overlapping has saved."""
    head, steps = head_of(picture.runs, picture.steps, picture.calls), len(picture.steps)
    ids = [run.run_id for run in picture.runs]
    names = [picture.title if picture.title not in ids else "", *(run.name or "" for run in picture.runs)]
    line = plain(one_line(next(filter(None, names), "the run")), "bold")
    line.append(" · ").append((head["outcome"] or "without an end").replace("_", " "), style=COLOURS[head["tone"]])
    took, without = head["took"] / 1e6, head["withoutOverlap"] / 1e6
    saved = f", without overlap {seconds(without)}" if without - took >= LEAST_SAVED_S else ""
    usage = picture.usage()
    words = [f"{steps} {'step' if steps == 1 else 'steps'}", _calls_in(head["calls"], head["failed"], head["ends"])]
    words += [f"{seconds(took)}{saved}", tokens_in(usage) if usage else ""]
    words.append(f"{picture.left_out} events beyond the limit are not shown" if picture.left_out else "")
    for word in filter(None, words):
        line.append(f" · {word}")
    errors = [
        run.error for run in picture.runs if run.error and run.error not in [step.error for step in picture.steps]
    ]
    return Group(line, *(plain(f"✖ {error}", "red") for error in errors))


def _calls_in(count: int, failed: int, ends: dict[str, int]) -> str:
    words = [f"{failed} of {count} {'call' if count == 1 else 'calls'} failed"] if failed else []
    words = words or [f"{count} {'call' if count == 1 else 'calls'}"]
    shown: dict[str, str] = {
        end: end.replace("_", " ") for end, facts in OUTCOMES.items() if facts.tone not in _COUNTED
    }
    shown |= ELSEWHERE
    return ", ".join([*words, *(f"{count} {shown[end]}" for end, count in ends.items() if end in shown)])


_COUNTED = ("good", "bad")
