"""Draws a picture from a Jaeger UI document, such as ``configure("jaeger-file")`` writes.

In goes the parsed JSON; out comes the picture as far as spans have it: steps, calls, waits, attempts, tokens, links;
and texts, arguments and results where content was captured. Spans have no deltas, so nothing grows.

Source: https://github.com/jaegertracing/jaeger/blob/v2.20.0/internal/uimodel/model.go (read 2026-11-20)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ..fields import Range, fits
from ..parts import WAITS
from ..telemetry.names import SEMCONV
from .picture import (
    BY_CODE,
    DECIDED,
    ORIGIN,
    Arrow,
    CallLane,
    Picture,
    RunHead,
    Span,
    StepLane,
    StreamPiece,
    Try,
    early_fact,
)

__all__ = ["draw_jaeger", "is_jaeger"]

NAMES = SEMCONV
COUNT = Annotated[int, Range(0, (1 << 53) - 1)]  # a count, or microseconds: JavaScript's greatest exact integer
_WORDS = {str(reason): facts.words for reason, facts in WAITS.items()}
SECONDS = Annotated[float, Range(0, 1e9)]  # 30 years: a longer wait is ignored


def is_jaeger(document: object) -> bool:
    """Returns True if a parsed JSON document looks like one of Jaeger's."""
    return isinstance(document, dict) and any(isinstance(trace.get("spans"), list) for trace in _traces(document))


def draw_jaeger(document: Mapping[str, Any], *, title: str = "") -> Picture:
    """Returns the picture of the runs in a Jaeger UI document.

    Args:
        document: the parsed JSON.
        title: the headline; by default the first run's id.

    Raises:
        ValueError: it contains no span of a step.
    """
    spans = [span for trace in _traces(document) for span in map(_read, _items(trace.get("spans"))) if span is not None]
    spans.sort(key=lambda span: span.start)
    steps = [span for span in spans if span.name == NAMES.step_span]
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
    if others:
        drawing.picture.notes.append(f"Spans of other instrumentations are not shown: {len(others)}.")
    drawing.picture.notes.append("This was drawn from spans, which do not show how texts and arguments grew.")
    return drawing.picture


@dataclass(slots=True)
class _Span:
    id: str
    name: str
    start: float
    end: float
    parent: str | None
    links: list[str]
    tags: dict[str, Any]
    logs: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def text(self, key: str | None) -> str | None:
        value = self.tags.get(key or "")
        return value if isinstance(value, str) else None

    @property
    def index(self) -> int:
        """The call's position among those of its step; -1 for a span without a call."""
        # `int` would take digits of any script, and any number of them.
        last = (self.text(NAMES.call_key) or "").rpartition(".")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 10 else -1

    def count(self, key: str | None) -> int | None:
        return _whole(self.tags.get(key or ""))

    def seconds(self, key: str | None) -> float:
        value = self.tags.get(key or "")
        return float(value) if value is not None and fits(value, SECONDS) else 0.0


class _SpanDrawing:
    """The picture, with the lane that each span has become."""

    def __init__(self, picture: Picture, origin: float) -> None:
        self.picture = picture
        self._origin = origin
        self._steps: dict[str, StepLane] = {}  # by the span's id
        self._chats: dict[str, StepLane] = {}
        self._calls: dict[str, CallLane] = {}
        self._latest_text: dict[int, int] = {}  # step -> its latest text
        self._known: dict[tuple[int, str], CallLane] = {}
        self._runs: dict[str, RunHead] = {}
        self._waited: set[int] = set()  # calls whose waits have spans

    def _at(self, time: float) -> float:
        return max(0.0, time - self._origin)

    def step(self, span: _Span) -> None:
        """Draws a step."""
        run_id = span.text(NAMES.run_id) or ""
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = RunHead(id=len(self.picture.runs), start=self._at(span.start), run_id=run_id)
            self.picture.add(run)
            self.picture.title = self.picture.title or run_id
        step = StepLane(
            id=len(self.picture.steps),
            start=self._at(span.start),
            end=self._at(span.end),
            run=run.id,
            number=span.count(NAMES.step) or 0,
            asks_model=False,
            outcome=span.text(NAMES.step_outcome),
        )
        self._steps[span.id] = step
        self.picture.add(step)

    def child(self, span: _Span) -> bool:
        """Draws a span of a step; returns False if it is not one of ours."""
        # Only a child of a step is ours: another instrumentation's `chat` and `execute_tool` have the same names.
        step = self._steps.get(span.parent or "")
        if step is None:
            is_run = span.name.startswith(NAMES.run_span) and NAMES.run_id in span.tags
            if is_run:
                self.run(span)
            return is_run
        if span.name.startswith(NAMES.chat_span):
            self._chat(span, step)
        elif span.name.startswith(NAMES.tool_span):
            self._call(span, step)
        elif span.name.startswith((NAMES.approval_span, NAMES.wait_span)):
            self._wait(span, step)
        elif span.name.startswith(NAMES.early_span):
            self._early(span, step)
        else:
            return False
        return True

    def _chat(self, span: _Span, step: StepLane) -> None:
        self._chats[span.id] = step
        step.asks_model = True
        step.stream_start = self._at(span.start) + span.seconds(NAMES.time_to_first_chunk)
        step.stream_end = max(step.stream_start, self._at(span.end))
        step.model, step.wire = span.text(NAMES.response_model), span.text(NAMES.stream_wire)
        step.finish = span.text(NAMES.stream_finish)
        step.error = _error(span)
        counts = {name: span.count(key) for name, key in NAMES.usage.items()}
        step.usage = {name: count for name, count in counts.items() if count is not None} or None
        for kind, text in _messages(span.text(NAMES.output_messages)):
            piece = StreamPiece(
                id=len(self.picture.pieces), step=step.id, kind=kind, start=step.stream_start, end=step.stream_end
            )
            self._latest_text[step.id] = piece.id
            self.picture.add(piece)
            self.picture.growth.append((piece.id, 0, step.stream_end, self.picture.kept(text)))
        self.picture.touch(step)

    def _call(self, span: _Span, step: StepLane) -> None:
        call = self._call_of(step, span.text(NAMES.tool_call_id) or "", span.text(NAMES.tool_name) or "", span)
        self._calls[span.id] = call
        call.start, call.end = min(call.start, self._at(span.start)), self._at(span.end)
        call.outcome, call.problem = span.text(NAMES.call_outcome), span.text(NAMES.call_problem)
        call.error = _error(span)
        call.arguments, call.result = span.text(NAMES.tool_arguments), span.text(NAMES.tool_result)
        call.result_type = span.text(NAMES.observation_type)
        if span.text(NAMES.call_caller) == "code":
            call.facts.append(BY_CODE)
        attempts = span.count(NAMES.tool_attempts) or 0
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

    def _wait(self, span: _Span, step: StepLane) -> None:
        call = self._call_of(step, span.text(NAMES.waiting_call) or "", span.text(NAMES.waiting_tool) or "", span)
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
        if found := span.text(NAMES.approval_findings):
            call.facts += [(ORIGIN, words) for words in found.split("; ")]
        self.picture.touch(call)

    def _early(self, span: _Span, step: StepLane) -> None:
        tool_name, reason = span.text(NAMES.waiting_tool) or "", span.text(NAMES.early_reason)
        if reason is not None:
            self.picture.note_missed(tool_name, reason)
            return
        call = self._call_of(step, span.text(NAMES.waiting_call) or "", tool_name, span)
        call.facts.append(early_fact(span.text(NAMES.early_fate) or "", span.seconds(NAMES.early_won)))
        self.picture.touch(call)

    def _failed(self, span: _Span) -> list[Try]:
        """Returns the attempts that were followed by another."""
        found: list[Try] = []
        for time, tags in span.logs:
            number = _whole(tags.get(NAMES.attempt_number))
            if tags.get("event") == NAMES.attempt_event and number is not None:
                kind, lasted = tags.get(NAMES.error_type), tags.get(NAMES.attempt_duration)
                start = time - lasted if lasted is not None and fits(lasted, SECONDS) else time
                error = kind if isinstance(kind, str) else None
                found.append(Try(number=number, start=self._at(start), end=self._at(time), error=error))
        return found

    def run(self, span: _Span) -> None:
        """Notes the name of a run."""
        run = self._runs.get(span.text(NAMES.run_id) or "")
        if run is not None:
            run.name = span.text(NAMES.agent_name)
            self.picture.touch(run)

    def _call_of(self, step: StepLane, call_id: str, name: str, span: _Span) -> CallLane:
        call = self._known.get((step.id, call_id))
        if call is None:
            start = self._at(span.start)
            call = CallLane(id=len(self.picture.calls), start=start, step=step.id, call_id=call_id, name=name)
            self._known[step.id, call_id] = call
            self.picture.add(call)
        return call

    def connect(self, span: _Span) -> None:
        """Draws the arrows of a span's links."""
        call, chat = self._calls.get(span.id), self._chats.get(span.id)
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


# -- reading a stranger's document -------------------------------------------------------------------------------------
#
# Every field is checked where it is read, and one that has another type counts as missing.


def _traces(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    data = document.get("data")
    for trace in data if isinstance(data, list) else [data]:
        if isinstance(trace, dict):
            yield trace


def _items(value: object) -> Iterable[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read(span: Mapping[str, Any]) -> _Span | None:
    start, duration, name = _whole(span.get("startTime")), _whole(span.get("duration")), span.get("operationName")
    if start is None or duration is None or not isinstance(name, str):
        return None
    references = _items(span.get("references"))
    return _Span(
        id=span["spanID"] if isinstance(span.get("spanID"), str) else "",
        name=name,
        start=start / 1e6,
        end=(start + duration) / 1e6,
        parent=next(_referred(references, "CHILD_OF"), None),
        links=list(_referred(references, "FOLLOWS_FROM")),
        tags=_tags(span.get("tags")),
        logs=[
            (time / 1e6, _tags(log.get("fields")))
            for log in _items(span.get("logs"))
            if (time := _whole(log.get("timestamp"))) is not None
        ],
    )


def _referred(references: Iterable[Mapping[str, Any]], kind: str) -> Iterator[str]:
    """Yields the ids of the spans that are referred to in this way."""
    for one in references:
        if one.get("refType") == kind and isinstance(one.get("spanID"), str):
            yield one["spanID"]


def _whole(value: object) -> int | None:
    """Returns a count or a time that every reader of JSON can hold."""
    return value if isinstance(value, int) and fits(value, COUNT) else None


def _tags(tags: object) -> dict[str, Any]:
    return {tag["key"]: tag.get("value") for tag in _items(tags) if isinstance(tag.get("key"), str)}


def _error(span: _Span) -> str | None:
    """Returns the type of a span's error and its text, as far as the span has them."""
    kind = span.text(NAMES.error_type)
    text = span.text("otel.status_description")
    return f"{kind}: {text}" if kind and text and kind not in text else text or kind


def _messages(messages: str | None) -> Iterator[tuple[str, str]]:
    """Yields the kind and the text of each part of captured messages; nothing if they cannot be read."""
    try:
        read = json.loads(messages or "[]")
    except (ValueError, RecursionError):  # content that was cut after it was encoded
        return
    for message in _items(read):
        for part in _items(message.get("parts")):
            if part.get("type") in ("text", "reasoning") and isinstance(part.get("content"), str):
                yield part["type"], part["content"]
