"""Draws a picture from the spans of runs, as trace stores keep them.

In go parsed documents (`span_files`); out comes the picture as far as spans have it: steps, calls, waits, attempts,
tokens, links; and texts, arguments and results where content was captured. Spans have no deltas, so nothing grows.

Several documents, or several traces in one, become one picture: that of a run which was resumed on another day. The
time in which no trace went on is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from ..fields import fits
from ..parts import WAITS
from ..telemetry.names import PROFILES, SEMCONV
from .drawing import UNREAD
from .lanes import CallLane, RunHead, Span, StepLane, StreamPiece, Try
from .picture import BY_CODE, DECIDED, ORIGIN, Arrow, Picture, early_fact
from .span_files import SECONDS, SpanKey, StoredSpan, items, read_spans, whole_number
from .summary import MOST_OPENING, CallLabels, question_in, sum_up

__all__ = ["draw_traces"]

NAMES = SEMCONV
LONGEST_PAUSE_S = 60.0
"""Seconds between two traces; a longer time would leave no room for what happened."""
_WORDS = {str(reason): facts.words for reason, facts in WAITS.items()}
_COUNTS = {count: [profile.usage[count] for profile in PROFILES.values()] for count in NAMES.usage}


def draw_traces(*documents: Mapping[str, Any], title: str = "") -> Picture:
    """Returns one picture of the runs in documents with spans.

    Args:
        documents: each as parsed JSON: Jaeger's, or OTLP's. A span that is in two of them is drawn once.
        title: the headline; by default the first run's id.

    Raises:
        ValueError: they contain no span of a step.
    """
    found: dict[object, StoredSpan] = {}
    for span in (span for document in documents for span in read_spans(document)):
        found[span.key if span.key[1] else len(found)] = span
    spans = sorted(found.values(), key=lambda span: span.start)
    paused, lost = _close_pauses(spans), _lost_steps(spans)
    spans = sorted([*lost, *spans], key=lambda span: span.start)
    steps = [span for span in spans if span.name == NAMES.step_span]
    if not steps and any(span.name.startswith(NAMES.run_begin_span) for span in spans):
        raise ValueError("a run has begun, but no response and no call of it has ended yet")
    if not steps:
        raise ValueError(f"expected spans named {NAMES.step_span!r}, got none: was this file written by streamtools?")
    # Three passes: first steps, to which all others belong; then calls by their place among those of their step; then
    # links, whose ends exist by now.
    drawing = _SpanDrawing(Picture(title), steps[0].start)
    kept = drawing.picture.max_events
    drawing.picture.left_out = max(0, len(spans) - kept)
    spans = spans[:kept]
    for span in spans:
        if span.name == NAMES.step_span:
            drawing.step(span)
    rest = sorted((span for span in spans if span.name != NAMES.step_span), key=lambda span: span.index)
    others = [span for span in rest if not drawing.child(span)]
    for span in rest:
        drawing.connect(span)
    drawing.sum_up()
    if others:
        drawing.picture.notes.append(f"Spans of other instrumentations are not shown: {len(others)}.")
    if lost:
        drawing.picture.notes.append(f"Steps that go on, or whose process died: {len(lost)}.")
    if paused:
        pauses = "A pause" if len(paused) == 1 else f"{len(paused)} pauses"
        length = timedelta(seconds=round(sum(paused)))
        drawing.picture.notes.append(f"{pauses} between traces, of {length} in all, left out of the times.")
    drawing.picture.notes.append("This was drawn from spans, which do not show how texts and arguments grew.")
    return drawing.picture


def _lost_steps(spans: Iterable[StoredSpan]) -> list[StoredSpan]:
    """Returns steps whose spans are missing; each is as long as what is known of it."""
    # A span is exported when it ends. Those of a process that died are missing, but for what had ended by then.
    known, lost = {span.key for span in spans}, dict[SpanKey, StoredSpan]()
    for span in spans:
        number, run_id = span.count(NAMES.step), span.text(NAMES.run_id)
        if span.parent is None or span.parent in known or number is None or run_id is None:
            continue
        if span.name == NAMES.step_span:
            continue
        tags = {NAMES.run_id: run_id, NAMES.step: number}
        step = StoredSpan(span.parent, NAMES.step_span, span.start, span.end, None, [], tags)
        step = lost.setdefault(span.parent, step)
        step.end = max(step.end, span.end)
    return list(lost.values())


def _close_pauses(spans: list[StoredSpan]) -> list[float]:
    """Moves traces up to the ones before them; returns the pauses that were long enough for that, in seconds."""
    traces: dict[str, list[StoredSpan]] = {}
    for span in spans:  # by their start, so that traces are, too
        traces.setdefault(span.key[0], []).append(span)
    latest, moved, paused = spans[0].start if spans else 0.0, 0.0, []
    for trace in traces.values():
        pause = trace[0].start - moved - latest
        if pause > LONGEST_PAUSE_S:
            moved += pause
            paused.append(pause)
        for span in trace:
            span.move(-moved)
        latest = max(latest, *(span.end for span in trace))
    return paused


class _SpanDrawing:
    """The picture, with the lane that each span has become."""

    def __init__(self, picture: Picture, origin: float) -> None:
        self.picture = picture
        self._origin = origin
        self._steps: dict[SpanKey, StepLane] = {}  # by the span's key
        self._chats: dict[SpanKey, StepLane] = {}
        self._calls: dict[SpanKey, CallLane] = {}
        self._latest_text: dict[int, int] = {}  # step -> its latest text
        self._known: dict[tuple[int, str], CallLane] = {}
        self._runs: dict[str, list[RunHead]] = {}  # by their id: one, and one for each time that it was resumed
        self._numbers: dict[str, set[int]] = {}  # of the latest one's steps
        self._above: dict[int, set[SpanKey | None]] = {}  # run -> the parents of its steps
        self._waited: set[int] = set()  # calls whose waits have spans
        self._labels = CallLabels()

    def _at(self, time: float) -> float:
        return max(0.0, time - self._origin)

    def step(self, span: StoredSpan) -> None:
        """Draws a step."""
        number = span.count(NAMES.step) or 0
        run = self._run_of(span, number)
        step = StepLane(
            id=len(self.picture.steps),
            start=self._at(span.start),
            end=self._at(span.end),
            run=run.id,
            number=number,
            asks_model=False,
            outcome=span.text(NAMES.step_outcome),
        )
        self._steps[span.key] = step
        self._above.setdefault(run.id, set()).add(span.parent)
        self.picture.add(step)

    def _run_of(self, span: StoredSpan, number: int) -> RunHead:
        # A run that is resumed keeps its id, and numbers its steps anew.
        run_id = span.text(NAMES.run_id) or ""
        heads = self._runs.setdefault(run_id, [])
        numbers = self._numbers.setdefault(run_id, set())
        if not heads or number in numbers:
            numbers.clear()
            heads.append(RunHead(id=len(self.picture.runs), start=self._at(span.start), run_id=run_id))
            self.picture.add(heads[-1])
            self.picture.title = self.picture.title or run_id
        numbers.add(number)
        return heads[-1]

    def child(self, span: StoredSpan) -> bool:
        """Draws a span of a step; returns False if it is not one of ours."""
        # Only a child of a step is ours: another instrumentation's `chat` and `execute_tool` have the same names.
        step = self._steps.get(span.parent) if span.parent is not None else None
        if step is None:
            is_run = span.name.startswith((NAMES.run_span, NAMES.run_begin_span)) and NAMES.run_id in span.tags
            if is_run:
                self.run(span)
            return is_run
        if span.name.startswith(NAMES.chat_span):
            self._chat(span, step)
        elif span.name.startswith((NAMES.tool_span, NAMES.call_span)):
            self._call(span, step)
        elif span.name.startswith((NAMES.approval_span, NAMES.wait_span)):
            self._wait(span, step)
        elif span.name.startswith(NAMES.early_span):
            self._early(span, step)
        elif span.name.startswith(NAMES.call_begin_span):
            self._begun(span, step)
        else:
            return span.name == NAMES.pause_span
        return True

    def _chat(self, span: StoredSpan, step: StepLane) -> None:
        self._chats[span.key] = step
        step.asks_model = True
        step.stream_start = self._at(span.start) + span.seconds(NAMES.time_to_first_chunk)
        step.stream_end = max(step.stream_start, self._at(span.end))
        step.model, step.wire = span.text(NAMES.response_model), span.text(NAMES.stream_wire)
        step.finish = span.text(NAMES.stream_finish)
        step.error = _error(span)
        counts = {name: map(span.count, keys) for name, keys in _COUNTS.items()}
        known = {name: next((one for one in found if one is not None), None) for name, found in counts.items()}
        step.usage = {name: count for name, count in known.items() if count is not None} or None
        step.cost = span.cost(NAMES.cost)
        run = self.picture.runs[step.run]
        run.question = run.question or question_in({"messages": _read(span.text(NAMES.input_messages))}) or None
        for kind, text in _messages(span.text(NAMES.output_messages)):
            if kind == "text" and len(step.opening) < MOST_OPENING:
                step.opening += text[: 2 * MOST_OPENING]
            piece = StreamPiece(
                id=len(self.picture.pieces), step=step.id, kind=kind, start=step.stream_start, end=step.stream_end
            )
            self._latest_text[step.id] = piece.id
            self.picture.add(piece)
            self.picture.growth.append((piece.id, 0, step.stream_end, self.picture.kept(text)))
        self.picture.touch(step)

    def _call(self, span: StoredSpan, step: StepLane) -> None:
        call = self._call_of(step, span.text(NAMES.tool_call_id) or "", span.tool_name, span)
        self._calls[span.key] = call
        call.start, call.end = min(call.start, self._at(span.start)), self._at(span.end)
        call.outcome, call.problem = span.text(NAMES.call_outcome), span.text(NAMES.call_problem)
        call.error = _error(span)
        call.arguments, read = span.text(NAMES.tool_arguments), span.text(NAMES.tool_result)
        call.result = read if call.outcome == "ok" else None
        waits = call.outcome == "skipped" and step.outcome == "suspended"
        call.to_model = None if call.outcome == "ok" or call.outcome in UNREAD or waits else read
        call.result_type = span.text(NAMES.observation_type)
        self._labels.label(call)
        if span.text(NAMES.call_caller) == "code":
            call.facts.append(BY_CODE)
        attempts, call.tries = span.count(NAMES.tool_attempts) or 0, []
        if attempts:
            call.tries += self._failed(span)
            call.tries.append(
                Try(number=attempts, start=self._at(span.start), end=call.end, error=span.text("error.type"))
            )
        # A span of a wait has its reason. The queue's time, which is there without such spans, too, has none.
        queued = span.seconds(NAMES.tool_queue_time)
        if queued > 0 and not call.waits and call.id not in self._waited:
            start = self._at(span.start)
            call.start = min(call.start, max(0.0, start - queued))
            call.waits.append(Span(reason=WAITS["limit"].words, start=max(0.0, start - queued), end=start))
        self.picture.touch(call)

    def _begun(self, span: StoredSpan, step: StepLane) -> None:
        call = self._call_of(step, span.text(NAMES.tool_call_id) or "", span.tool_name, span)
        if call.outcome is None:  # until its own span is drawn, which may be missing
            call.outcome, call.end = "unknown", step.end
            call.tries = [Try(number=1, start=self._at(span.start), end=step.end)]
            self.picture.touch(call)

    def _wait(self, span: StoredSpan, step: StepLane) -> None:
        call = self._call_of(step, span.text(NAMES.waiting_call) or "", span.tool_name, span)
        call.start = min(call.start, self._at(span.start))
        # What has been drawn from the queue's time of the call gives way to the spans of its waits.
        if call.id not in self._waited:
            self._waited.add(call.id)
            call.waits = []
        reason = _WORDS.get(span.text(NAMES.wait_reason) or "approval", WAITS["limit"].words)
        call.waits.append(Span(reason=reason, start=self._at(span.start), end=self._at(span.end)))
        call.waits.sort(key=lambda wait: wait.start)
        if verdict := span.text(NAMES.approval_verdict):
            by = span.tags.get(NAMES.approval_by)
            call.facts.append((DECIDED, f"{verdict} by {by}" if isinstance(by, str) and by else verdict))
        if found := span.text(NAMES.call_findings):
            call.facts += [(ORIGIN, words) for words in found.split("; ")]
        self.picture.touch(call)

    def _early(self, span: StoredSpan, step: StepLane) -> None:
        tool_name, reason = span.text(NAMES.waiting_tool) or "", span.text(NAMES.early_reason)
        if reason is not None:
            self.picture.note_missed(tool_name, reason)
            return
        call = self._call_of(step, span.text(NAMES.waiting_call) or "", tool_name, span)
        call.facts.append(early_fact(span.text(NAMES.early_fate) or "", span.seconds(NAMES.early_won)))
        self.picture.touch(call)

    def _failed(self, span: StoredSpan) -> list[Try]:
        """Returns the attempts that were followed by another."""
        found: list[Try] = []
        for time, tags in span.logs:
            number = whole_number(tags.get(NAMES.attempt_number))
            if tags.get("event") == NAMES.attempt_event and number is not None:
                kind, lasted = tags.get(NAMES.error_type), tags.get(NAMES.attempt_duration)
                start = time - lasted if lasted is not None and fits(lasted, SECONDS) else time
                error = kind if isinstance(kind, str) else None
                found.append(Try(number=number, start=self._at(start), end=self._at(time), error=error))
        return found

    def run(self, span: StoredSpan) -> None:
        """Notes the name of a run, and its end."""
        for run in self._runs.get(span.text(NAMES.run_id) or "", ()):
            run.name = span.text(NAMES.agent_name) or span.text(NAMES.run_name) or run.name
            if span.key in self._above[run.id]:  # a resumed run has a span of its own, or none
                run.outcome = span.text(NAMES.run_outcome)
            self.picture.touch(run)

    def sum_up(self) -> None:
        """Sums up each step, once its calls are drawn."""
        calls: dict[int, list[CallLane]] = {}
        for call in self.picture.calls:
            calls.setdefault(call.step, []).append(call)
        for step in self.picture.steps:
            sum_up(step, calls.get(step.id, ()))

    def _call_of(self, step: StepLane, call_id: str, name: str, span: StoredSpan) -> CallLane:
        call = self._known.get((step.id, call_id))
        if call is None:
            start = self._at(span.start)
            call = CallLane(id=len(self.picture.calls), start=start, step=step.id, call_id=call_id, name=name)
            self._known[step.id, call_id] = call
            self.picture.add(call)
        return call

    def connect(self, span: StoredSpan) -> None:
        """Draws the arrows of a span's links."""
        call, chat = self._calls.get(span.key), self._chats.get(span.key)
        if call is not None:
            call.after = self._latest_text.get(call.step)
        for linked in span.links:
            if call is not None and (source := self._chats.get(linked)) is not None:
                self._point(source.ref, source.stream_start or source.start, call.ref, call.start)
            if chat is not None and (fed := self._calls.get(linked)) is not None:
                chat.fed_by.append(fed.id)
                self._point(fed.ref, fed.end or fed.start, chat.ref, chat.start)

    def _point(self, source: str, left: float, target: str, reached: float) -> None:
        self.picture.arrows.append(Arrow(source, min(left, reached), target, reached))


def _error(span: StoredSpan) -> str | None:
    """Returns the type of a span's error and its text, as far as the span has them."""
    kind = span.text(NAMES.error_type)
    text = span.text("otel.status_description")
    return f"{kind}: {text}" if kind and text and kind not in text else text or kind


def _read(messages: str | None) -> list[Any]:
    try:
        return list(items(json.loads(messages or "[]")))
    except (ValueError, RecursionError):  # content that was cut after it was encoded
        return []


def _messages(messages: str | None) -> Iterator[tuple[str, str]]:
    """Yields the kind and the text of each part of captured messages; nothing if they cannot be read."""
    for message in _read(messages):
        for part in items(message.get("parts")):
            if part.get("type") in ("text", "reasoning") and isinstance(part.get("content"), str):
                yield part["type"], part["content"]
