"""Draws the rows of one step for a terminal: the question and the answer, the model's time, and the calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ..ground import cut, one_line, printable
from ..parts import OUTCOMES, Tone
from .drawing import ELSEWHERE, LEFT, PROVIDERS
from .lanes import CallLane, StepLane, StreamPiece
from .picture import APPROVAL, BY_CODE, DECIDED, ORIGIN, Picture
from .summary import MOST_ANSWER, answer_of, reason_of, short

# An outcome differs in colour, shape and word: a terminal may lack colours, and a reader may not see them.
COLOURS: dict[Tone, str] = {
    "good": "green", "bad": "red", "held": "yellow", "mute": "yellow", "odd": "magenta", "live": "cyan",
}  # fmt: skip
SHAPES: dict[str, tuple[str, str]] = {  # the shape and the colour of each outcome
    **{outcome: (facts.sign, COLOURS[facts.tone]) for outcome, facts in OUTCOMES.items()},
    PROVIDERS: ("☁", "cyan"),
    LEFT: ("→", "cyan"),
}
RUNNING, WAITING = ("●", "blue"), ("○", "blue")

STYLES = {"reasoning": "dim italic", "refusal": "red"}  # the styles of what is not ordinary text
STREAM, RUN, FAILED_TRY, WAIT, NOTHING = "━", "█", "▓", "┄", " "  # the marks of which bars are made

MOST_CHARS = 4000  # of a step's text, and of its reasoning: the end is shown
MOST_ROWS = 8  # calls of one tool in a step; more share a row
MOST_REASONS = 5  # of the calls that share a row
LEAST_NAME, WORD, SECONDS = 30, 14, 7  # cells of columns
LEAST_BAR, MOST_BAR = 16, 60


class Texts:
    """The ends of the growing texts of a picture, each as long as it is shown."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._drawn = 0
        self._texts: dict[int, str] = {}

    def take(self) -> None:
        # The length first: `rich` draws in a thread of its own, while the picture grows.
        growth = self._picture.growth
        until = len(growth)
        for piece, _, _, text in growth[self._drawn : until]:
            self._texts[piece] = (self._texts.get(piece, "") + text)[-MOST_CHARS:]
        self._drawn = until

    def of(self, piece: StreamPiece) -> str:
        return self._texts.get(piece.id, "")


class StepRows:
    def __init__(self, picture: Picture, step: StepLane, texts: Texts) -> None:
        self._step = step
        self._texts = texts
        self._pieces = [piece for piece in picture.pieces if piece.step == step.id]
        self._calls = [call for call in picture.calls if call.step == step.id]
        question = picture.runs[step.run].question
        before = picture.runs[picture.steps[step.id - 1].run] if step.id else None
        self._asked = [question] if question and (before is None or before.question != question) else []

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        width: int = options.max_width
        for question in (*self._asked, *self._step.user_messages):
            yield plain(f"You: {one_line(short(question, 4 * width))}", "bold")
        yield Rule(self._title(), align="left", style="dim", characters="─")
        for piece in self._pieces:
            if piece.call is None and (text := self._texts.of(piece).strip("\n")):
                yield Padding(plain(text, STYLES.get(piece.kind, "default")), (0, 2))
        if self._step.error is not None:
            yield Padding(plain(f"✖ {self._step.error}", "red"), (0, 2))
        for _, code, text in self._step.warnings:
            if code != "message_added" or not self._step.user_messages:  # else the message itself is above
                yield Padding(plain(f"! {code} {text}".rstrip(), "yellow"), (0, 2))
        yield from self._lines(_Columns(width))

    def _title(self) -> Text:
        step = self._step
        words = [f"Step {step.number + 1}", step.model or step.wire or ("" if step.asks_model else "no model is asked")]
        words += [tokens_in(step.usage) if step.usage else "", seconds(self._until() - step.start)]
        last = next((call for call in self._calls if call.ref == step.waited_for), None)
        if last is not None and step.stream_end is not None:
            alone = seconds(self._until() - step.stream_end)
            words[-1] += f", the last {alone} for {last.name} {last.argument or ''}".rstrip()
        words.append("" if step.outcome in (None, "complete") else str(step.outcome))
        title = Text().append(words[0], style="bold")
        for word in filter(None, words[1:]):
            title.append(" · ", style="dim").append(one_line(word), style="default")
        return title

    def _until(self) -> float:
        step, calls = self._step, self._calls
        if step.end is not None:
            return step.end
        ends = [one.end or one.start for one in (*calls, *self._pieces)]
        return max([step.start, step.stream_end or step.start, *ends])

    def _lines(self, columns: _Columns) -> Iterator[RenderableType]:
        if self._step.asks_model:
            yield self._stream_line(columns)
        groups: dict[str, list[CallLane]] = {}
        for call in self._calls:
            if not _is_decided(call):
                groups.setdefault(call.name, []).append(call)
        for call in self._calls:
            if _is_decided(call) or len(groups[call.name]) <= MOST_ROWS:
                yield from self._call_lines(call, columns)
            elif groups[call.name][0] is call:
                yield from self._group_lines(groups[call.name], columns)

    # -- rows --

    def _stream_line(self, columns: _Columns) -> Text:
        step = self._step
        begun = step.start if step.stream_start is None else step.stream_start
        ended = self._until() if step.stream_end is None else step.stream_end
        spans = [(step.start, begun, WAIT, "dim"), (begun, ended, STREAM, "cyan")]
        word = "streams" if step.stream_end is None else (step.finish or "ended")
        return columns.line(
            Text(" "),
            Text("the model", style="dim"),
            self._drawn(spans, columns.bar),
            plain(word, "dim"),
            plain(seconds(ended - begun), "dim"),
        )

    def _call_lines(self, call: CallLane, columns: _Columns) -> Iterator[RenderableType]:
        shape, colour = self._shape(call)
        row = self._row(call)
        fits = row.cell_len <= columns.name
        line = columns.line(
            Text(shape, style=colour),
            row,
            self._drawn(self._spans(call), columns.bar),
            plain(self._word(call), colour),
            plain(_ran(call), "default"),
        )
        yield line
        # The arguments of a call that did not succeed are shown whole: they are what a reader looks for then.
        arguments = one_line(self._arguments(call))
        if call.outcome not in (None, "ok") and arguments not in ("", "{}") and arguments not in line.plain:
            yield columns.below(arguments, "dim", lines=4)
        if not call.tries:  # somebody decides, or has denied
            for words in (text for label, text in call.facts if label == ORIGIN):
                yield columns.below(words, "yellow")
        for words in (text for label, text in call.facts if label == DECIDED and " by " in text):
            yield columns.below(words, "dim")
        yield from self._outcome_lines(call, columns, fits=fits)

    def _outcome_lines(self, call: CallLane, columns: _Columns, *, fits: bool) -> Iterator[RenderableType]:
        if call.result and not (fits and len(call.result) <= MOST_ANSWER):
            yield columns.below(f"= {one_line(call.result)}", "default")
        read, reason = call.to_model or "", reason_of(call.error)
        if call.error and not fits and (reason or "").rstrip("…") not in read:
            yield columns.below(" ← ".join(one_line(line) for line in call.error.split("\n")), self._shape(call)[1])
        if read:
            yield columns.below(f'For the model: "{one_line(read)}"', "default")

    def _group_lines(self, calls: Sequence[CallLane], columns: _Columns) -> Iterator[RenderableType]:
        going_on = sum(call.outcome is None for call in calls)
        good = sum(call.outcome == "ok" for call in calls)
        others = _by_end(calls)
        name = Text(f"{one_line(calls[0].name) or '(no name)'} ×{len(calls)}", style="bold")
        for ended in others[:MOST_REASONS]:
            name.append(f", {_counted(ended)}", style="not bold")
        fits = name.cell_len <= columns.name
        shape, colour = RUNNING if going_on else self._shape(others[0][0] if others else calls[0])
        tries = [one.start for call in calls for one in call.tries]
        until = max((call.end for call in calls if call.end is not None), default=self._until())
        yield columns.line(
            Text(shape, style=colour),
            name,
            self._drawn([span for call in calls for span in self._spans(call)], columns.bar),
            plain(f"{going_on} run" if going_on else f"{good} ok", colour),
            plain(seconds(until - min(tries)) if tries else "", "default"),
        )
        answers = [f"{call.argument or ''} → {answer_of(call.result)}" for call in calls if call.result is not None]
        if answers:
            shown = ", ".join(one_line(answer.strip()) for answer in answers[:MOST_ROWS])
            yield columns.below(f"{shown}, …" if len(answers) > MOST_ROWS else shown, "dim", lines=1)
        for ended in others[:MOST_REASONS]:
            yield from self._reason_lines(ended, columns, fits=fits)
        if len(others) > MOST_REASONS:
            left = sum(map(len, others[MOST_REASONS:]))
            yield columns.below(f"{left} more with other reasons or ends", "dim")

    def _reason_lines(self, calls: Sequence[CallLane], columns: _Columns, *, fits: bool) -> Iterator[RenderableType]:
        named = ", ".join(call.argument for call in calls[:MOST_ROWS] if call.argument)
        words = [f"{len(calls)} {_word_of(calls[0])}" if fits else _counted(calls)]
        words += [f"{named}, …" if len(calls) > MOST_ROWS else named] if named else []
        if named or not fits:
            yield columns.below(one_line(": ".join(words)), self._shape(calls[0])[1])
        if calls[0].to_model:
            yield columns.below(f'For the model: "{one_line(calls[0].to_model)}"', "default")

    # -- parts of a row --

    def _row(self, call: CallLane) -> Text:
        row = Text(one_line(call.name) or "(no name)", style="bold")
        if BY_CODE in call.facts:
            row = Text("by code: ", style="yellow").append(row)
        if argument := call.argument or ("" if call.whole is not None else self._arguments(call)):
            row.append(f" {one_line(argument)}", style="not bold")
        if (answer := answer_of(call.result)) is not None:
            row.append(" → ", style="not bold dim").append(one_line(answer), style="not bold")
        elif call.outcome != "ok" and (reason := reason_of(call.error)) is not None:
            row.append(f" × {one_line(reason)}", style=f"not bold {self._shape(call)[1]}")
        return row

    def _shape(self, call: CallLane) -> tuple[str, str]:
        if call.outcome is not None:
            return SHAPES.get(call.outcome, ("?", "magenta"))
        return RUNNING if call.tries and call.tries[-1].end is None else WAITING

    def _word(self, call: CallLane) -> str:
        if call.outcome is not None:
            words = {**ELSEWHERE, PROVIDERS: "the provider's"}  # for which there is room
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

    def _spans(self, call: CallLane) -> list[tuple[float, float, str, str]]:
        colour = self._shape(call)[1]
        spans = [(wait.start, wait.end or self._until(), WAIT, "yellow") for wait in call.waits]
        for one in call.tries:
            mark, ink = (FAILED_TRY, "red") if one.error else (RUN, colour)
            spans.append((one.start, one.end or call.end or self._until(), mark, ink))
        return spans

    def _drawn(self, spans: list[tuple[float, float, str, str]], bar: int) -> Text:
        """Returns the bar of a lane: a span takes at least one cell, and later ones win."""
        start, length = self._step.start, max(self._until() - self._step.start, 1e-9)
        cells: list[tuple[str, str]] = [(NOTHING, "default")] * bar
        for begin, end, mark, colour in spans if bar else ():
            left = min(bar - 1, max(0, int((begin - start) / length * bar)))
            right = min(bar, max(left + 1, round((end - start) / length * bar)))
            cells[left:right] = [(mark, colour)] * (right - left)
        drawn = Text()
        for mark, colour in cells:
            drawn.append(mark, style=colour)
        return drawn


# -- columns and words --


class _Columns:
    """The widths of a row's columns, the same for all rows of a step; `bar` is 0 without room for bars."""

    def __init__(self, width: int) -> None:
        self._width = width
        # On a narrow terminal names are worth more than bars.
        left = width - WORD - SECONDS - 4
        bar = max(LEAST_BAR, min(MOST_BAR, left // 3))
        self.bar = bar if left - bar - 1 >= LEAST_NAME else 0  # the width of the bars
        self.name = max(10, left - (self.bar + 1 if self.bar else 0))  # the width of what is read

    def line(self, shape: Text, name: Text, bar: Text, word: Text, seconds: Text) -> Text:
        name.truncate(self.name, overflow="ellipsis", pad=True)
        word.truncate(WORD, overflow="ellipsis", pad=True)
        line = Text(no_wrap=True).append(shape).append(" ").append(name).append(" ")
        if self.bar:
            line.append(bar).append(" ")
        seconds.align("right", SECONDS)
        return line.append(word).append(" ").append(seconds)

    def below(self, text: str, style: str, *, lines: int = 2) -> RenderableType:
        return Padding(plain(cut(text, lines * self._width - (8 if lines == 1 else 0)), style), (0, 2, 0, 4))


def plain(text: str, style: str) -> Text:
    """Returns text that cannot steer the terminal."""
    # `Text` and not a string: `rich` would read "[red]" in a string as markup.
    return Text("\n".join(printable(line) for line in text.split("\n")), style=style)


def seconds(length: float) -> str:
    return f"{length * 1000:.0f} ms" if length < 1 else f"{length:.2f} s" if length < 10 else f"{length:.1f} s"


def tokens_in(usage: Mapping[str, int]) -> str:
    return f"{usage.get('input_tokens', 0)} → {usage.get('output_tokens', 0)} tokens"


def _ran(call: CallLane) -> str:
    if not call.tries:
        return ""
    last = call.tries[-1].end if call.tries[-1].end is not None else call.end
    return "" if last is None else seconds(last - call.tries[0].start)


def _is_decided(call: CallLane) -> bool:
    """Returns whether somebody decides about a call, who is to see it by itself."""
    return any(label in (ORIGIN, DECIDED) for label, _ in call.facts) or any(
        wait.reason == APPROVAL for wait in call.waits
    )


def _by_end(calls: Sequence[CallLane]) -> list[list[CallLane]]:
    """Returns those calls that did not succeed, by their end and its reason: failures first, then the most."""
    ends: dict[tuple[str, str | None], list[CallLane]] = {}
    for call in calls:
        if call.outcome not in (None, "ok"):
            ends.setdefault((call.outcome, reason_of(call.error)), []).append(call)
    return sorted(ends.values(), key=lambda one: (SHAPES.get(one[0].outcome or "", ("", ""))[1] != "red", -len(one)))


def _counted(calls: Sequence[CallLane]) -> str:
    reason = reason_of(calls[0].error)
    return f"{len(calls)} {_word_of(calls[0])}" + (f": {one_line(reason)}" if reason else "")


def _word_of(call: CallLane) -> str:
    return (call.outcome or "").replace("_", " ")
