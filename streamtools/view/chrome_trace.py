"""Writes a picture as Chrome trace events, which Perfetto and ``chrome://tracing`` open.

In goes a picture; out comes ``{"traceEvents": [...]}``. Each run is a process with a track for its steps and one for
its stream; calls that overlap have tracks of their own. Times are whole microseconds.

Source: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format", read
2026-11-23)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .lanes import CallLane, Lane, StepLane, micros
from .picture import Picture

STEPS, STREAM, CALLS = 1, 2, 3
"""The first thread ids: steps, stream, and the first track of calls."""


def chrome_trace(picture: Picture) -> dict[str, Any]:
    """Returns the document, ready for `json.dumps` and `write_private`, with the picture's arguments and results."""
    return {"traceEvents": list(_Tracks(picture).events()), "displayTimeUnit": "ms"}


class _Tracks:
    """A picture laid out on tracks: where each lane stands, and from when to when."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.last = max(_moments(picture), default=0.0)
        self.places: dict[str, tuple[int, int, int, int]] = {}  # ref -> process, thread, start, end
        for step in picture.steps:
            self._place(step, step.run, STEPS)
        for piece in picture.pieces:
            self._place(piece, picture.steps[piece.step].run, STREAM)
        # Slices of one track lie beside or inside each other, so that calls which overlap need tracks of their own.
        free: dict[int, list[float]] = {}
        for call in sorted(picture.calls, key=lambda call: call.start):
            run = picture.steps[call.step].run
            self._place(call, run, CALLS + _first_free(free.setdefault(run, []), call.start, self._end(call)))

    def _end(self, lane: Lane) -> float:
        return max(lane.start, self.last if lane.end is None else lane.end)

    def _place(self, lane: Lane, run: int, thread: int) -> None:
        # At least a microsecond: an arrow has to begin and end inside a slice, and a slice without length has no
        # inside.
        start, end = _whole(lane.start), _whole(self._end(lane))
        self.places[lane.ref] = (run + 1, thread, start, max(end, start + 1))

    def events(self) -> Iterator[dict[str, Any]]:
        """Yields the names of the tracks, the slices, the warnings and the arrows."""
        yield from self._names()
        for step in self.picture.steps:
            yield from self._step(step)
        for piece in self.picture.pieces:
            called = {} if piece.call is None else {"call": self.picture.calls[piece.call].name}
            yield self._slice(piece, piece.kind, "stream", called)
        for call in self.picture.calls:
            yield from self._call(call)
        yield from self._flows()

    def _names(self) -> Iterator[dict[str, Any]]:
        for run in self.picture.runs:
            yield _named("process_name", run.id + 1, 0, run.name or self.picture.title or run.run_id)
        threads = sorted({(process, thread) for process, thread, _, _ in self.places.values()})
        for process, thread in threads:
            name = {STEPS: "steps", STREAM: "stream"}.get(thread, f"calls {thread - CALLS + 1}")
            yield _named("thread_name", process, thread, name)

    def _step(self, step: StepLane) -> Iterator[dict[str, Any]]:
        facts = {"model": step.model, "wire": step.wire, "outcome": step.outcome, "error": step.error}
        yield self._slice(step, f"step {step.number + 1}", "step", {**facts, **(step.usage or {})})
        process, thread, _, _ = self.places[step.ref]
        for time, code, text in step.warnings:
            place = {"ts": _whole(time), "pid": process, "tid": thread}
            yield {"ph": "i", "s": "t", "name": code, "cat": "warning", "args": {"detail": text}, **place}

    def _call(self, call: CallLane) -> Iterator[dict[str, Any]]:
        facts = {
            "outcome": call.outcome,
            "call_id": call.call_id,
            "error": call.error,
            "arguments": call.arguments,
            "result": call.result,
        }
        yield self._slice(call, call.name or "(no name)", f"call,{call.outcome or 'running'}", facts)
        parts: list[tuple[str, float, float | None]] = []
        if call.whole is not None:
            parts.append(("arguments", call.start, call.whole))
        parts += [(f"wait: {wait.reason}", wait.start, wait.end) for wait in call.waits]
        parts += [(f"attempt {one.number}", one.start, one.end) for one in call.tries]
        # A slice may not end after the one that contains it, nor begin before its neighbour's end. Waits and attempts
        # are measured apart, and may overlap by the time of an event: each begins where the one before has ended.
        process, thread, first, last = self.places[call.ref]
        reached = first
        for name, start, end in sorted(parts, key=lambda part: part[1]):
            begin = min(last, max(reached, _whole(start)))
            reached = min(last, max(begin, _whole(self.last if end is None else end)))
            yield _slice(name, "call", process, thread, begin, reached, {})

    def _slice(self, lane: Lane, name: str, category: str, facts: dict[str, Any]) -> dict[str, Any]:
        return _slice(name, category, *self.places[lane.ref], facts)

    def _flows(self) -> Iterator[dict[str, Any]]:
        for number, arrow in enumerate(self.picture.arrows):
            ends = (("s", arrow.source, arrow.left), ("f", arrow.target, arrow.reached))
            for phase, ref, time in ends:
                # Viewers drop an arrow that touches no slice, so each end is moved into the slice of its lane.
                process, thread, first, last = self.places[ref]
                flow = {"ph": phase, "id": number, "name": "cause", "cat": "cause", "pid": process, "tid": thread}
                flow["ts"] = max(first, min(_whole(time), last - 1))
                # "bp": "e" binds the head to the slice that encloses its time; by default it is bound to the next
                # slice.
                yield flow | ({"bp": "e"} if phase == "f" else {})


def _slice(
    name: str, category: str, process: int, thread: int, first: int, last: int, facts: dict[str, Any]
) -> dict[str, Any]:
    args = {key: value for key, value in facts.items() if value is not None}
    return {"ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, "ts": first, "dur": last - first,
            "args": args}  # fmt: skip


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}


def _first_free(tracks: list[float], start: float, end: float) -> int:
    """Returns the first track on which nothing lasts until `start`, and takes it until `end`."""
    for number, busy_until in enumerate(tracks):
        if busy_until < start:
            tracks[number] = end
            return number
    tracks.append(end)
    return len(tracks) - 1


def _moments(picture: Picture) -> Iterable[float]:
    for lanes in (picture.steps, picture.calls, picture.pieces):
        for lane in lanes:
            yield lane.start if lane.end is None else lane.end
    yield from (mark.time for mark in picture.marks[-1:])


def _whole(seconds: float) -> int:
    return micros(seconds) or 0
