"""Draws a picture from a run's events, one by one, in constant time each; no event's content makes it raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from .. import events as of
from ..errors import ApprovalPending
from ..events import Event
from ..ground import cut
from ..observers import EarlyEnd
from ..parts import RUN_OUTCOMES, WAITS
from ..telemetry.names import Prices, checked_prices, cost_of
from .lanes import CallLane, Lane, RunHead, Span, StepLane, StreamPiece, Try
from .picture import (
    APPROVAL,
    BY_CODE,
    DECIDED,
    ORIGIN,
    TRIED,
    Arrow,
    Mark,
    Picture,
    apply_record,
    early_fact,
    facts_of,
    waits_before,
    words_of,
)
from .summary import MOST_OPENING, CallLabels, question_in, sum_up, texts_in

MOST_CHARS = 100_000  # characters of one result or error: a page shows it in one piece
PROVIDERS, LEFT = "server", "left_alone"
ELSEWHERE = {PROVIDERS: "run by the provider", LEFT: "run by others"}  # these ends in words

_PIECES: Mapping[type[of.EventBase], str] = {
    of.TextStart: "text",
    of.TextDelta: "text",
    of.TextEnd: "text",
    of.ReasoningStart: "reasoning",
    of.ReasoningDelta: "reasoning",
    of.ReasoningEnd: "reasoning",
    of.RefusalDelta: "refusal",
}


def draw(events: Iterable[Event], *, content: bool = True, title: str = "", prices: Prices | None = None) -> Picture:
    """Returns the picture of a run.

    Args:
        events: the run's events in order, as an observer or a consumer saw them; deltas may be missing.
        content: show texts, arguments, results and error messages; False: only names, times and outcomes.
        title: the headline; by default the run's id.
        prices: the prices of models, as `Tracing` takes them.

    Raises:
        ValueError: the events belong to two runs, or a price is for no token count.
    """
    drawing = Drawing(Picture(title), content=content, prices=prices)
    for event in events:
        drawing.feed(event)
    return drawing.finish()


# -- from events to lanes --


class Drawing:
    def __init__(
        self, picture: Picture, *, content: bool = True, prices: Prices | None = None, lacks_ends: bool = False
    ) -> None:
        self.picture = picture
        self.content = content
        self._prices = checked_prices(prices)
        # A recording ends where its program did, and the next run may be in the same file.
        self._lacks_ends = lacks_ends
        self._origin: float | None = None
        self._now = 0.0
        # Deltas carry no times. Without one they wait for the next event with a time, and are placed evenly between the
        # two.
        self._late: list[tuple[StreamPiece, Event, str]] = []
        self._run: RunHead | None = None
        self._steps: dict[int, StepLane] = {}  # those of the current run
        self._calls: dict[int, dict[str, CallLane]] = {}  # those of the steps that go on
        self._open: dict[tuple[int, str], StreamPiece] = {}
        self._marks: dict[int, int] = {}  # seq -> position of its mark
        self._latest_text: dict[int, int] = {}  # step -> its latest text or reasoning
        self._asked: dict[int, Span] = {}  # call -> the approval that it waits for
        self._labels = CallLabels()

    def feed(self, event: Event, at: float | None = None) -> None:
        """Draws an event. `at` is the time of being seen, on `time.monotonic`, for deltas, which have none."""
        if not self.picture.admits():
            return
        if isinstance(event, of.CausedEvent):
            self._tick(event.requested_at if isinstance(event, of.StepStart) else None)
            self._tick(event.time or at)
            self._boundary(event)
        else:
            if at is not None:
                self._tick(at)
            self._delta(event, at is not None)

    def see_early(self, end: EarlyEnd) -> None:
        """Draws what became of a call that was started early under a tap; a missed one has no lane."""
        call = next((one for one in reversed(self.picture.calls) if one.call_id == end.call_id), None)
        if call is not None:
            call.facts.append(early_fact(end.fate, end.seconds_won))
        elif end.reason is not None:
            self.picture.note_missed(end.tool_name, end.reason)

    def begin_run(self, run_id: str, name: str | None) -> None:
        run = self._begin_run(run_id)
        run.name, run.is_entered = name, True

    def end_run(self, outcome: str | None, error: BaseException | None = None) -> None:
        if self._run is None:
            return
        if outcome is None and isinstance(error, Exception):
            outcome = "error"  # of a loop of the caller's own
        self._run.outcome, self._run.is_entered = outcome, False
        if error is not None and outcome in _FAILED_RUNS:
            self._run.error = self._error_words(error)

    def finish(self) -> Picture:
        """Places the last deltas, and returns the picture. More events may follow."""
        self._place_late(self._now)
        return self.picture

    # -- time --

    def set_clock(self, moment: float, at: float) -> None:
        """Begins to read another clock: its `moment` is `at` seconds into the picture, or now if that is later."""
        self._place_late(self._now)
        if self._origin is not None:  # else it is that of the first event
            self._origin = moment - max(self._now, at)

    def _tick(self, time: float | None) -> None:
        if time is None:
            return
        if self._origin is None:
            self._origin = time
        # Times never go back in a picture, whatever the events have.
        before, self._now = self._now, max(self._now, time - self._origin)
        if self._late:
            self._place_late(self._now, before)

    def _place_late(self, until: float, since: float | None = None) -> None:
        since = self._now if since is None else since
        late, self._late = self._late, []
        for number, (piece, event, text) in enumerate(late, 1):
            self.picture.growth.append((piece.id, event.seq, since + (until - since) * number / (len(late) + 1), text))

    # -- deltas --

    def _delta(self, event: Event, timed: bool) -> None:
        piece, text = self._grown(event)
        if piece is None:
            return
        text = self.picture.kept(text) if self.content else ""
        if piece.kind in ("text", "refusal"):
            self._open_with(event.step, text)
        if timed:
            self.picture.growth.append((piece.id, event.seq, self._now, text))
        else:
            self._late.append((piece, event, text))

    def _open_with(self, number: int, text: str) -> None:
        step = self._step(number)
        if text and len(step.opening) < 2 * MOST_OPENING:  # twice, since white space is joined
            step.opening += text[: 2 * MOST_OPENING]

    def _grown(self, event: Event) -> tuple[StreamPiece | None, str]:
        if isinstance(event, of.ToolCallDelta):
            call = self._calls.get(event.step, {}).get(event.call_id)
            return (None if call is None else self._piece(event.step, "call", call)), event.delta
        if isinstance(event, (of.TextDelta, of.ReasoningDelta, of.RefusalDelta)):
            return self._piece(event.step, _PIECES[type(event)]), event.text
        if isinstance(event, of.EventsDropped):
            self.picture.notes.append(f"events {event.from_seq} to {event.to_seq} were dropped")
        return None, ""

    def _piece(self, step: int, kind: str, call: CallLane | None = None) -> StreamPiece:
        key = (step, kind if call is None else call.ref)
        piece = self._open.get(key)
        if piece is None:
            lane = self._step(step)
            piece = StreamPiece(
                id=len(self.picture.pieces),
                step=lane.id,
                kind=kind,
                start=self._now,
                call=None if call is None else call.id,
            )
            self._open[key] = piece
            self.picture.add(piece)
            if call is None:
                self._latest_text[step] = piece.id
        return piece

    def _close(self, step: int, kind: str) -> StreamPiece | None:
        piece = self._open.pop((step, kind), None)
        if piece is not None:
            piece.end = self._now
        return piece

    # -- boundaries --

    def _boundary(self, event: of.CausedEvent) -> None:
        # The method of an event finds or makes the event's lane, writes down when it happened, and returns the lane, so
        # that the event's mark and the arrows from its causes can be placed.
        method = _DRAWS.get(type(event))
        lane: Lane = self._step(event.step) if method is None else method(self, event)
        causes = tuple(self._marks[seq] for seq in event.causes if seq in self._marks)
        position = len(self.picture.marks)
        self._marks[event.seq] = position
        self.picture.marks.append(Mark(event.seq, self._now, type(event).__name__, lane.ref, causes))
        self._point(event, lane, causes)

    def _point(self, event: of.CausedEvent, lane: Lane, causes: tuple[int, ...]) -> None:
        # Calls and answers have causes that a reader asks for. An arrow inside one lane shows nothing new; that from a
        # step to its call does, once: where the call is announced.
        if not isinstance(lane, CallLane) and not isinstance(event, of.StepStart):
            return
        own = {lane.ref} if isinstance(event, of.ToolCallStart) else {lane.ref, f"s{self._step(event.step).id}"}
        for cause in causes:
            mark = self.picture.marks[cause]
            if mark.ref not in own:
                self.picture.arrows.append(Arrow(mark.ref, mark.time, lane.ref, self._now))

    def _step(self, number: int) -> StepLane:
        step = self._steps.get(number)
        if step is None:  # its start is missing: an observer that came late
            run = self._begin_run("") if self._run is None else self._run
            step = StepLane(id=len(self.picture.steps), start=self._now, run=run.id, number=number)
            self._steps[number] = step
            self.picture.add(step)
        return step

    def _begin_run(self, run_id: str) -> RunHead:
        # `seq` numbers are those of one run. Two runs at once would point to each other's events.
        going_on = [number for number, step in self._steps.items() if step.end is None]
        if going_on and not self._lacks_ends:
            raise ValueError("the events belong to two runs: draw each run separately")
        for number in going_on:
            self._end_step(number, None)
        self._run = RunHead(id=len(self.picture.runs), start=self._now, run_id=run_id)
        for known in (self._steps, self._calls, self._open, self._marks, self._latest_text):
            known.clear()
        self.picture.add(self._run)
        self.picture.title = self.picture.title or run_id
        return self._run

    def _step_start(self, event: of.StepStart) -> Lane:
        # Another run begins with another id, as after `resume`; or with a number that has been, since a resumed run
        # keeps its id and numbers its steps anew.
        known = self._steps.get(event.step)
        again = known is not None and known.end is not None
        if self._run is None or self._run.run_id != event.run_id or again:
            self._begin_run(event.run_id)
        step = self._step(event.step)
        # From the request on: the time until the model answers is the model's.
        step.start -= 0.0 if event.requested_at is None else min(step.start, max(0.0, event.time - event.requested_at))
        step.asks_model = event.asks_model
        run = self._run
        if self.content and event.request is not None and run is not None and run.question is None:
            run.question = self._cut(question_in(event.request)) or None
        refs = [self.picture.marks[self._marks[seq]].ref for seq in event.causes if seq in self._marks]
        step.fed_by = [int(ref[1:]) for ref in refs if ref.startswith(CallLane.LETTER)]
        return step

    def _stream_start(self, event: of.StreamStart) -> Lane:
        step = self._step(event.step)
        step.stream_start, step.wire, step.model = self._now, event.wire, event.model
        return step

    def _stream_end(self, event: of.StreamEnd) -> Lane:
        step = self._step(event.step)
        step.stream_end, step.finish, step.model = self._now, event.finish, event.model or step.model
        if event.error is not None:
            step.error = self._error_words(event.error)
        if event.usage is not None:
            step.usage = {name: count for name, count in asdict(event.usage).items() if count is not None}
            step.cost = cost_of(self._prices, (step.model,), event.usage)
        self._close_all(event.step)
        return step

    def _attempt_discarded(self, event: of.AttemptDiscarded) -> Lane:
        step = self._step(event.step)
        step.warnings.append((self._now, "attempt_discarded", event.error_type))
        step.opening = ""
        self._close_all(event.step)
        self._end_calls(event.step)  # ids may recur
        return step

    def _message_added(self, event: of.MessageAdded) -> Lane:
        step = self._step(event.step)
        step.warnings.append((self._now, "message_added", f"a message of the user, {_WHEN[event.when]}"))
        texts = texts_in({"messages": event.messages})
        step.user_messages += [text for one in texts if (text := self._cut(one))]
        return step

    def _close_all(self, number: int) -> None:
        """Closes the pieces of a stream that was cut: they have no end."""
        for at, kind in tuple(self._open):
            if at == number:
                self._close(at, kind)

    def _step_end(self, event: of.StepEnd) -> Lane:
        return self._end_step(event.step, event.outcome)

    def _end_step(self, number: int, outcome: str | None) -> Lane:
        step = self._step(number)
        step.end, step.outcome = self._now, outcome
        sum_up(step, self._calls.get(number, {}).values())
        self._end_calls(number)
        return step

    def _end_calls(self, number: int) -> None:
        # Every call of ours has its observation by now. The provider's calls, and those that were left to others, get
        # none.
        for call in self._calls.pop(number, {}).values():
            if call.outcome is None:
                call.end, call.outcome = self._now, PROVIDERS if call.kind == "server" else LEFT

    def _warned(self, event: of.StreamWarning) -> Lane:
        step = self._step(event.step)
        step.warnings.append((self._now, event.code, self._cut(event.detail)))
        return step

    def _piece_start(self, event: of.CausedEvent) -> Lane:
        kind = _PIECES[type(event)]
        self._close(event.step, kind)
        return self._piece(event.step, kind)

    def _piece_end(self, event: of.CausedEvent) -> Lane:
        whole = event.whole if isinstance(event, (of.TextEnd, of.ReasoningEnd)) else None
        # The end contradicts its deltas, and counts. What has grown stays as it was seen, with a warning beside it.
        if whole is not None:
            step = self._step(event.step)
            step.warnings.append((self._now, "text_replaced", self._cut(whole)))
            if isinstance(event, of.TextEnd):
                step.opening = ""
                self._open_with(event.step, whole if self.content else "")
        return self._close(event.step, _PIECES[type(event)]) or self._step(event.step)

    # -- calls --

    def _call_start(self, event: of.ToolCallStart) -> Lane:
        after = self._latest_text.get(event.step)
        call = self._new_call(event, event.name, kind=event.kind, index=event.index, after=after)
        self._piece(event.step, "call", call)
        return call

    def _new_call(self, event: Any, name: str, **facts: Any) -> CallLane:
        number, step = len(self.picture.calls), self._step(event.step).id
        call = CallLane(id=number, start=self._now, step=step, call_id=event.call_id, name=name, **facts)
        self._calls.setdefault(event.step, {})[event.call_id] = call
        self.picture.add(call)
        return call

    def _call(self, event: Any) -> CallLane:
        call = self._calls.get(event.step, {}).get(event.call_id)
        if call is None:  # asked for in an earlier run, or before the observer came
            has_call = isinstance(event, (of.ToolCallEnd, of.ToolCallValidated))
            name = event.call.name if has_call else event.tool_name
            call = self._new_call(event, name, index=getattr(event, "index", 0))
        return call

    def _call_end(self, event: of.ToolCallEnd) -> Lane:
        call = self._call(event)
        self._close(event.step, call.ref)
        call.whole, call.problem, call.name = self._now, event.call.problem, event.call.name or call.name
        if event.call.caller == "code":
            call.facts.append(BY_CODE)
        if event.call.normalizations:
            call.facts.append(("normalized", ", ".join(event.call.normalizations)))
        if self.content and event.call.arguments_text:
            call.arguments = self._cut(event.call.arguments_text)
            self._labels.label(call)
        return call

    def _validated(self, event: of.ToolCallValidated) -> Lane:
        call = self._call(event)
        call.ready = self._now
        return call

    def _approval(self, event: of.ApprovalRequested) -> Lane:
        call = self._ask(event, APPROVAL)
        call.facts += [(ORIGIN, str(finding)) for finding in event.findings]
        return call

    def _handed_out(self, event: of.AnswerRequested) -> Lane:
        return self._ask(event, WAITS["answer"].words)

    def _ask(self, event: Any, reason: str) -> CallLane:
        call = self._call(event)
        call.waits += waits_before(call, self._step(event.step).stream_end, self._now)
        self._asked[call.id] = wait = Span(reason=reason, start=self._now)
        call.waits.append(wait)
        return call

    def _asked_of(self, event: Any) -> CallLane:
        call = self._call(event)
        if (wait := self._asked.pop(call.id, None)) is not None:
            wait.end = self._now
        return call

    def _decided(self, event: of.ApprovalResolved) -> Lane:
        call = self._asked_of(event)
        call.facts.append((DECIDED, _words_of(event)))
        return call

    def _started(self, event: of.ToolStarted) -> Lane:
        call, start = self._asked_of(event), self._now
        if event.tried and event.time is not None:  # it began before its event
            start = max(call.start, event.time - (self._origin or 0.0))
            call.facts.append(TRIED)
        elif not call.tries:
            call.waits += waits_before(call, self._step(event.step).stream_end, self._now)
        # An attempt that failed has no event of its own. Its end is known with the next attempt, its error with the
        # observation.
        elif call.tries[-1].end is None:
            call.tries[-1].end = self._now
        call.tries.append(Try(number=event.attempt, start=start))
        return call

    def _observed(self, event: of.Observation) -> Lane:
        call = self._call(event)
        end = self._now
        if TRIED in call.facts and len(call.tries) == 1 and event.duration is not None:  # it may have ended before
            end = min(end, call.tries[0].start + event.duration)
        call.end, call.outcome, call.name = end, event.outcome, event.tool_name or call.name
        for wait in call.waits:
            wait.end = self._now if wait.end is None else wait.end
        for one in call.tries:
            one.end = end if one.end is None else one.end
        apply_record(call, event, self._origin or 0.0)
        if event.error is not None:
            call.error = self._error_words(event.error)
            if call.tries:
                call.tries[-1].error = type(event.exception or event.error).__name__
        if self.content and event.outcome == "ok":
            call.result = self._cut(event.model_content)
        elif self.content and event.outcome not in UNREAD and not isinstance(event.error, ApprovalPending):
            call.to_model = self._cut(event.model_content) or None
        call.result_type = event.observation_type
        call.facts += facts_of(event)
        return call

    # -- texts --

    def _cut(self, text: str) -> str:
        return self.picture.kept(cut(text, MOST_CHARS)) if self.content else ""

    def _error_words(self, error: BaseException) -> str:
        return self.picture.kept(cut(words_of(error, text=self.content), MOST_CHARS))


UNREAD = frozenset({"discarded", "suspended"})  # the ends whose text no model reads
_FAILED_RUNS = frozenset(outcome for outcome, facts in RUN_OUTCOMES.items() if facts.is_error)
_WHEN = {"next": "behind the results", "now": "at once"}

_DRAWS: Mapping[type[of.EventBase], Callable[[Any, Any], Lane]] = {
    of.StepStart: Drawing._step_start,
    of.StreamStart: Drawing._stream_start,
    of.StreamEnd: Drawing._stream_end,
    of.AttemptDiscarded: Drawing._attempt_discarded,
    of.MessageAdded: Drawing._message_added,
    of.StepEnd: Drawing._step_end,
    of.StreamWarning: Drawing._warned,
    of.TextStart: Drawing._piece_start,
    of.TextEnd: Drawing._piece_end,
    of.ReasoningStart: Drawing._piece_start,
    of.ReasoningEnd: Drawing._piece_end,
    of.ToolCallStart: Drawing._call_start,
    of.ToolCallEnd: Drawing._call_end,
    of.ToolCallValidated: Drawing._validated,
    of.ApprovalRequested: Drawing._approval,
    of.ApprovalResolved: Drawing._decided,
    of.AnswerRequested: Drawing._handed_out,
    of.ToolStarted: Drawing._started,
    of.ToolProgress: Drawing._call,
    of.Observation: Drawing._observed,
}


_LAST_AT = 253_402_300_800  # the year 10,000, which a recording may name and a date may not have


def _words_of(event: of.ApprovalResolved) -> str:
    verdict = "approved" if event.approved else "denied"
    if event.arguments is not None:
        verdict += " with other arguments"
    if event.by:
        verdict += f" by {' and '.join(event.by)}"
    return (
        f"{verdict} at {datetime.fromtimestamp(event.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if 0 < event.at < _LAST_AT
        else verdict
    )
