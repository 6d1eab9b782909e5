"""Holds the picture of a run: its steps, its calls, the pieces of its streams, and the arrows between them.

Times are seconds from the run's first event; a page has whole microseconds. A picture is bounded by `max_events` and
`max_chars`, and counts what it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ToolFailed
from ..events import Observation
from ..ground import cut, type_name
from ..limits import checked_bound
from ..parts import WAITS, Wait
from ..record import RecordedError
from .lanes import SHORTEST_S, CallLane, Lane, RunHead, Span, StepLane, StreamPiece, Usage, micros
from .summary import MOST_OPENING, answer_of, head_of, reason_of, short

MAX_EVENTS = 200_000  # events of one picture; a page of 100,000 opens within two seconds
MAX_CHARS = 8_000_000  # characters of one picture's texts


@dataclass(frozen=True, slots=True)
class Mark:
    seq: int
    time: float
    kind: str
    ref: str
    causes: tuple[int, ...]  # positions of its causes in `Picture.marks`


@dataclass(frozen=True, slots=True)
class Arrow:
    source: str
    left: float  # when the cause happened
    target: str
    reached: float  # when the effect happened, never before the cause

    def row(self) -> list[Any]:
        return [self.source, micros(self.left), self.target, micros(self.reached)]


# -- the picture --


MOST_NOTES = 20


class Picture:
    """A picture of a run: lanes, growing texts, events and arrows. `Watch` and `draw` make one.

    Args:
        title: the page's headline.
        max_events: events that are kept; later ones are counted in `left_out`.
        max_chars: characters of texts, arguments and results that are kept; later ones are counted in `cut_chars`.
    """

    def __init__(self, title: str = "", *, max_events: int = MAX_EVENTS, max_chars: int = MAX_CHARS) -> None:
        self.title = title
        self.max_events = checked_bound("max_events", max_events)
        self.max_chars = checked_bound("max_chars", max_chars)
        self.runs: list[RunHead] = []
        self.steps: list[StepLane] = []
        self.calls: list[CallLane] = []
        self.pieces: list[StreamPiece] = []
        self.marks: list[Mark] = []
        self.arrows: list[Arrow] = []
        self.growth: list[tuple[int, int, float, str]] = []
        """Each delta: its piece, its `seq`, its time and its text."""
        self.left_out = 0
        """Events beyond `max_events`."""
        self.cut_chars = 0
        """Characters beyond `max_chars`."""
        self.notes: list[str] = []
        """What a reader should know of the picture itself: its source lacks something."""
        self._chars = 0

    # -- drawing --

    def add(self, lane: Lane) -> None:
        """Adds a new lane to the picture."""
        kinds: dict[type[Lane], list[Any]] = {
            RunHead: self.runs,
            StepLane: self.steps,
            CallLane: self.calls,
            StreamPiece: self.pieces,
        }
        kinds[type(lane)].append(lane)

    def note_missed(self, tool_name: str, reason: str) -> None:
        """Notes that a call under a tap ran again; once for each tool and reason."""
        text = f"The early result of a call of {cut(tool_name, 64)} under a tap was not used: {cut(reason, 64)}."
        if text not in self.notes and len(self.notes) < MOST_NOTES:
            self.notes.append(text)

    def admits(self) -> bool:
        """Returns True if there is room for one more event; otherwise counts it as left out."""
        room = len(self.marks) + len(self.growth) < self.max_events
        self.left_out += not room
        return room

    def kept(self, text: str) -> str:
        """Returns the part of a text for which there is room, and counts the rest."""
        room = max(0, self.max_chars - self._chars)
        kept = text if len(text) <= room else text[:room]
        self._chars += len(kept)
        self.cut_chars += len(text) - len(kept)
        return kept

    def usage(self) -> Usage:
        """Returns the run's tokens, summed over its steps."""
        total: Usage = {}
        for step in self.steps:
            for name, count in (step.usage or {}).items():
                total[name] = total.get(name, 0) + count
        return total

    # -- showing --

    def data(self) -> dict[str, Any]:
        """Returns the picture as plain JSON, which a page unpacks (``unpack`` in ``model.js``): numbers as differences,
        and texts joined. A run of a million events takes 30 MB, and loads within seconds."""
        pieces, seqs, times, texts = zip(*self.growth, strict=True) if self.growth else ((), (), (), ())
        grown = self._grown_arguments()
        return {
            "title": self.title,
            "head": head_of(self.runs, self.steps, self.calls),
            "leftOut": self.left_out,
            "cutChars": self.cut_chars,
            "notes": self.notes,
            "runs": [_run(run) for run in self.runs],
            "steps": [_step(step) for step in self.steps],
            "calls": [_call(call, grown.get(call.id)) for call in self.calls],
            "pieces": [_piece(piece) for piece in self.pieces],
            "growth": [
                _steps(pieces),
                _steps(seqs),
                _steps(round(time * 1_000_000) for time in times),
                [_units(text) for text in texts],
                "".join(texts),
            ],
            "marks": self._marks(),
            "arrows": [arrow.row() for arrow in self.arrows],
        }

    def _grown_arguments(self) -> dict[int, str]:
        """Returns for each call its arguments as they grew."""
        parts: dict[int, list[str]] = {}
        for piece, _, _, text in self.growth:
            if (call := self.pieces[piece].call) is not None:
                parts.setdefault(call, []).append(text)
        return {call: "".join(grown) for call, grown in parts.items()}

    def _marks(self) -> list[Any]:
        """Returns the columns of marks: steps of `seq` and time, kinds by number, lanes, distances to causes; and
        kinds."""
        kinds = {kind: at for at, kind in enumerate(dict.fromkeys(mark.kind for mark in self.marks))}
        return [
            _steps(mark.seq for mark in self.marks),
            _steps(round(mark.time * 1_000_000) for mark in self.marks),
            [kinds[mark.kind] for mark in self.marks],
            [mark.ref for mark in self.marks],
            [[at - cause for cause in mark.causes] for at, mark in enumerate(self.marks)],
            [*kinds],
        ]


def _steps(numbers: Iterable[int]) -> list[int]:
    before, steps = 0, []
    for number in numbers:
        steps.append(number - before)
        before = number
    return steps


def _units(text: str) -> int:
    # A script counts in UTF-16.
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _run(run: RunHead) -> list[Any]:
    return [run.id, run.run_id, run.name, run.question, run.outcome, run.error]


def _step(step: StepLane) -> dict[str, Any]:
    return _present(
        id=step.id,
        run=step.run,
        number=step.number,
        start=micros(step.start),
        end=micros(step.end),
        asksModel=step.asks_model,
        outcome=step.outcome,
        wire=step.wire,
        model=step.model,
        streamStart=micros(step.stream_start),
        streamEnd=micros(step.stream_end),
        finish=step.finish,
        error=step.error,
        usage=step.usage,
        cost=step.cost,
        fedBy=step.fed_by,
        opening=short(step.opening, MOST_OPENING) or None,
        userMessages=step.user_messages,
        waitedFor=step.waited_for,
        saved=micros(step.saved) or None,
        warnings=[[micros(time), code, text] for time, code, text in step.warnings],
    )


def _call(call: CallLane, grown: str | None) -> dict[str, Any]:
    answer = answer_of(call.result)
    return _present(
        id=call.id,
        step=call.step,
        callId=call.call_id,
        name=call.name,
        kind=call.kind,
        index=call.index,
        start=micros(call.start),
        whole=micros(call.whole),
        ready=micros(call.ready),
        end=micros(call.end),
        outcome=call.outcome,
        problem=call.problem,
        error=call.error,
        waits=[wait.row() for wait in call.waits],
        tries=[one.row() for one in call.tries],
        after=call.after,
        arguments=None if call.arguments == grown else call.arguments,
        argument=call.argument,
        answer=None if answer == call.result else answer,
        reason=None if call.outcome == "ok" else reason_of(call.error),
        toModel=call.to_model,
        result=call.result,
        resultType=call.result_type,
        facts=[list(fact) for fact in call.facts],
    )


def _piece(piece: StreamPiece) -> list[Any]:
    return [piece.id, piece.step, piece.kind, micros(piece.start), micros(piece.end), piece.call]


def _present(**fields: Any) -> dict[str, Any]:
    """Returns the fields that are neither None nor an empty list, which a page reads like missing ones."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


# -- the record of a call --


TRIED = ("trial", "it began as soon as its arguments were complete, before the response ended")
BY_CODE = ("caller", "code that the model wrote")  # the fact of a call that the model has not made itself


def early_fact(fate: str, won_s: float) -> tuple[str, str]:
    return "early run", f"claimed, {won_s:.2f} s won" if fate == "claimed" else "no one has asked for it"


ORIGIN = "origin"  # the label of a fact about where an argument's value comes from

DECIDED = "approval"  # the label of a fact about what was decided, by whom and when


def facts_of(event: Observation) -> list[tuple[str, str]]:
    """Returns the facts of a call beside its outcome, as label and text; no value of its arguments or its result."""
    facts = [
        ("schema", event.schema_source),
        ("validated by", event.validator),
        ("boundary", "advisory: no schema was enforced" if event.boundary == "advisory" else None),
        ("coercions", ", ".join(event.coercions)),
        ("recorded", "it had run before, and did not run again" if event.recorded else None),
        ("still running", "in a thread that was abandoned" if event.still_running else None),
    ]
    return [(label, text) for label, text in facts if text]


def words_of(error: BaseException, *, text: bool = True) -> str:
    """Returns the type of an error, and that of the tool's own exception behind it; with their texts if wanted."""
    cause = error.__cause__ if isinstance(error, ToolFailed) else None
    return "\n".join(_words_of(one, text) for one in (error, cause) if one is not None)


def _words_of(error: BaseException, text: bool) -> str:
    kind = error.type.rpartition(".")[2] if isinstance(error, RecordedError) else type_name(error)
    if not text:
        return kind
    try:
        return f"{kind}: {error}"
    except Exception:  # a user's exception may fail at its text
        return kind


# -- the waits and attempts of a call --
#
# They are those of its observation. Until there is one they follow from the events before and after them.


APPROVAL = WAITS["approval"].words


def apply_record(call: CallLane, event: Observation, origin: float) -> None:
    """Replaces a call's waits, and completes its attempts, by its observation's; the run began at `origin`."""
    if event.waits:
        call.waits = list(_in_words(event.waits, origin))
    for failed in event.failed_attempts:
        if failed.number <= len(call.tries):
            one = call.tries[failed.number - 1]
            one.error, one.end = failed.error_type, max(one.start, failed.ended - origin)


def _in_words(waits: Iterable[Wait], origin: float) -> Iterator[Span]:
    for wait in waits:
        facts = WAITS[wait.reason]
        if facts.has_own_span or wait.seconds >= SHORTEST_S:
            start, end = max(0.0, wait.began - origin), max(0.0, wait.ended - origin)
            yield Span(reason=facts.words, start=start, end=end)


def waits_before(call: CallLane, stream_end: float | None, now: float) -> list[Span]:
    """Returns the waits since the call was ready, or since the end of the last one that is known."""
    moments = (call.ready, *(wait.end for wait in call.waits))
    since = max((moment for moment in moments if moment is not None), default=None)
    if since is None:
        return []
    # First for the turn's end, then for a place: the events do not show what was in between.
    found = []
    if stream_end is not None and stream_end - since >= SHORTEST_S:
        found.append(Span(reason=WAITS["turn_end"].words, start=since, end=stream_end))
        since = stream_end
    if now - since >= SHORTEST_S:
        found.append(Span(reason=WAITS["limit"].words, start=since, end=now))
    return found
