"""Sums up a picture for readers: each call in a few words, how the run ended, and the time that overlap saved."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from ..parts import OUTCOMES, RUN_OUTCOMES, STEP_OUTCOMES, WAITS, Tone
from ..telemetry.names import input_messages
from .lanes import SHORTEST_S, CallLane, RunHead, StepLane, micros

MOST_ARGUMENT, MOST_ANSWER, MOST_OPENING = 60, 100, 200
_MOST_READ = 10_000  # characters of arguments that are parsed
_TURN_END = WAITS["turn_end"].words
_FREED = frozenset(  # the waits that the end of another call ends
    WAITS[reason].words for reason in ("key", "tool_limit", "exclusive", "limit", "thread", "worker_busy")
)


def short(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


# -- the question and the answers --


def question_in(request: Mapping[str, Any]) -> str:
    """Returns the latest text of the user's in a request, of any wire; an empty one if there is none."""
    return next(filter(None, reversed([*texts_in(request)])), "")


def texts_in(request: Mapping[str, Any]) -> Iterator[str]:
    for message in input_messages(request):
        if message["role"] == "user":
            yield "\n".join(part["content"] for part in message["parts"] if part.get("type") == "text")


def answer_of(result: str | None) -> str | None:
    if result is None:
        return None
    value = _read(result) if result[:1] == '"' else None
    return short(value if isinstance(value, str) else result, MOST_ANSWER)


def reason_of(error: str | None) -> str | None:
    """Returns in one line why a call did not succeed: the tool's own error, else what the library says of it."""
    if error is None:
        return None
    first, _, own = error.partition("\n")
    return short(own or first.partition(": ")[2] or first, MOST_ANSWER)


class CallLabels:
    """Finds the argument that tells a call from the others of its tool."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # tool -> the argument that differs
        self._equal: dict[str, tuple[dict[str, Any], list[CallLane]]] = {}  # tool -> its calls, while none differs

    def label(self, call: CallLane) -> None:
        """Sets `CallLane.argument`, and that of earlier calls of the tool once it shows what tells them apart."""
        given = None if call.arguments is None else _read(call.arguments)
        if not isinstance(given, dict):
            call.argument = short(call.arguments, MOST_ARGUMENT) if call.arguments else None
            return
        name = self._names.get(call.name)
        if name is None:
            known, calls = self._equal.setdefault(call.name, (given, []))
            name = _best({key: value for key, value in given.items() if known.get(key) != value})
            if name is None:
                calls.append(call)
            else:  # the ones before are equal, so that it is once that they change
                self._names[call.name] = name
                if (shown := _shown(known, name)) is not None:
                    for one in calls:
                        one.argument = shown
                del self._equal[call.name]
        call.argument = _shown(given, name if name in given else _best(given))


def _best(arguments: Mapping[str, Any]) -> str | None:
    texts = (name for name, value in arguments.items() if isinstance(value, str) and value)
    return next(texts, next(iter(arguments), None))


def _shown(arguments: Mapping[str, Any], name: str | None) -> str | None:
    if name is None or name not in arguments:
        return None
    value = arguments[name]
    try:
        written = value if isinstance(value, str) and value else f"{name}={orjson.dumps(value).decode()}"
    except TypeError:  # orjson reads what is nested deeper than it writes
        written = f"{name}=…"
    return short(written, MOST_ARGUMENT)


def _read(text: str) -> Any:
    try:
        return orjson.loads(text) if len(text) <= _MOST_READ else None
    except ValueError:  # free text, or cut, or half a surrogate pair
        return None


# -- the end of a run --


def outcome_of(runs: Sequence[RunHead], steps: Sequence[StepLane], calls: Iterable[CallLane]) -> str | None:
    """Returns how the last run ended, as far as that is known; None while it goes on."""
    run = runs[-1] if runs else None
    if run is None or run.outcome is not None or run.is_entered:
        return None if run is None else run.outcome
    # Nobody says how a loop of the caller's own has ended, but its last step does.
    step = steps[-1] if steps and steps[-1].run == run.id else None
    if step is None or step.outcome is None:
        return None
    if step.outcome == "complete" and step.asks_model and all(call.step != step.id for call in calls):
        return "answered"
    return _ENDS.get(step.outcome, step.outcome)


_ENDS = {"truncated": "interrupted", "abandoned": "left"}


def head_of(runs: Sequence[RunHead], steps: Sequence[StepLane], calls: Sequence[CallLane]) -> dict[str, Any]:
    """Returns the sums of a picture as plain JSON: the run's end, apart from how many of its calls failed."""
    end = outcome_of(runs, steps, calls)
    ends = _ends_of(steps, calls)
    failed = sum(ends[outcome] for outcome, facts in OUTCOMES.items() if facts.tone == "bad")
    took = length_of(steps)
    words, tone = _meaning(end)
    return {
        "question": next((run.question for run in runs if run.question), None),
        "outcome": end,
        "words": words,
        "tone": tone,
        "calls": sum(ends.values()),
        "ends": dict(ends),
        "failed": failed,
        "took": micros(took),
        "withoutOverlap": micros(took + sum(step.saved for step in steps)),
    }


def _meaning(outcome: str | None) -> tuple[str | None, Tone]:
    run, step = (table.get(outcome) for table in (dict[Any, Any](RUN_OUTCOMES), dict[Any, Any](STEP_OUTCOMES)))
    if run is not None:
        return run.words, run.tone
    return None, "live" if step is None else step.tone


def _ends_of(steps: Sequence[StepLane], calls: Iterable[CallLane]) -> Counter[str]:
    """Counts a call that waited, and went on in a resumed run, once."""
    ends: dict[Any, str] = {}
    latest: dict[str, Any] = {}
    for call in calls:
        resumed = latest.get(call.call_id) if not steps[call.step].asks_model else None
        key = latest[call.call_id] = call.id if resumed is None else resumed
        ends[key] = call.outcome or "running"
    return Counter(ends.values())


def length_of(steps: Sequence[StepLane]) -> float:
    began = min((step.start for step in steps), default=0.0)
    return max((step.start if step.end is None else step.end for step in steps), default=0.0) - began


# -- the time of a step --


def sum_up(step: StepLane, calls: Iterable[CallLane]) -> None:
    """Sets what the end of a step waited for, and what overlapping has saved there: `StepLane.waited_for` and `saved`.

    Without overlap the calls would have begun when the response had ended, all at once, and each would have taken as
    long as it did. A call that waited for another's end would have waited for it then, too; that more of them would
    have waited is not counted, so that the time saved is rather too short.
    """
    answered = step.start if step.stream_end is None else step.stream_end
    ran = sorted((one for one in calls if one.end is not None and (one.tries or one.waits)), key=_end)
    last = ran[-1] if ran and _end(ran[-1]) > answered else None
    step.waited_for = step.ref if last is None else last.ref
    if not step.asks_model or step.stream_end is None:
        return
    real, ends = [*map(_end, ran)], list[float]()
    for call in ran:
        ends.append(_end_without_overlap(call, answered, real, ends))
    step.saved = max(0.0, max(ends, default=0.0) - max([answered, *real]))


def _end(call: CallLane) -> float:
    return call.start if call.end is None else call.end


def _end_without_overlap(call: CallLane, answered: float, real: list[float], ends: list[float]) -> float:
    # `ends` has those of the calls before this one, in the order of their `real` ends.
    moments = [call.ready, *(wait.start for wait in call.waits[:1]), *(one.start for one in call.tries[:1])]
    began, end = min(moment for moment in moments if moment is not None), _end(call)  # a trial is before the others
    held = sum(_end_of(wait.end, end) - wait.start for wait in call.waits if wait.reason == _TURN_END)
    begins, since = answered, began + held
    queued = [
        wait for wait in call.waits if wait.reason in _FREED and _end_of(wait.end, end) - wait.start >= SHORTEST_S
    ]
    if queued:
        freed = _end_of(queued[-1].end, end)
        before = bisect_right(real, freed, hi=len(ends)) - 1
        if before >= 0 and queued[-1].start <= real[before]:
            begins, since = max(answered, ends[before]), freed
    return begins + max(0.0, end - since) if began < answered else end


def _end_of(moment: float | None, end: float) -> float:
    return end if moment is None else moment
