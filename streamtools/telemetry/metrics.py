"""Counts and times a run's responses and calls as OpenTelemetry metrics.

Names and buckets: https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai (gen-ai-metrics.md,
read 2026-11-23); those for the durations of tools and runs are in the conventions' new repository alone,
https://github.com/open-telemetry/semantic-conventions-genai (gen-ai-metrics.md, read 2026-11-28). `streamtools.*` names
are this library's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import metrics

from .._version import __version__
from ..events import AttemptBegan, AttemptDiscarded, Event, Observation, StepEnd, StepStart, StreamEnd, StreamStart
from ..ground import class_name
from ..observers import Observer, RunFacts
from ..parts import COUNTS, OUTCOMES, RUN_OUTCOMES, STEP_OUTCOMES, Usage
from .names import Names, provider_of, request_model
from .tracing import call_error_type, stream_error_type, stream_outcome

MAX_MODELS = 100  # different names of models in the attributes of one process; the others are `_OTHER`

# The buckets that the conventions advise for each metric.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_CHUNK = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_PER_CHUNK = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS = tuple(4**power for power in range(14))
_AGENT_SECONDS = tuple(0.1 * 2**power for power in range(13))
_OTHER = "_OTHER"

_models: set[str] = set()


class Metrics(Observer):
    """An observer that records metrics. Give each run its own: it is cheap to make.

    Args:
        meter_provider: takes the metrics; by default the global provider.
    """

    def __init__(self, meter_provider: metrics.MeterProvider | None = None) -> None:
        self._instruments = _instruments_of(meter_provider or metrics.get_meter_provider())
        self._start: StepStart | None = None
        self._stream: StreamStart | None = None
        self._ended = False
        self._asked_again: float | None = None
        self._run: _OpenRun | None = None

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The events that the metrics need."""
        return _HANDLERS

    def on_event(self, event: Event) -> None:
        """Records the event's metrics."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def begin_run(self, run: RunFacts) -> None:
        """Starts timing a run."""
        self._run = _OpenRun(run.name, time.monotonic())

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Records the run's metrics."""
        run, self._run = self._run, None
        if run is None:
            return
        attributes = {} if run.name is None else {"gen_ai.agent.name": run.name}
        if outcome is not None:
            attributes[Names.run_outcome] = outcome
        if isinstance(error, Exception) or any(name == outcome and one.is_error for name, one in RUN_OUTCOMES.items()):
            attributes["error.type"] = _OTHER if error is None else class_name(error)
        self._record("gen_ai.invoke_agent.duration", max(0.0, time.monotonic() - run.began), attributes)

    def _step_start(self, event: StepStart) -> None:
        self._start, self._stream, self._ended = event, None, False
        self._asked_again = None

    def _stream_start(self, event: StreamStart) -> None:
        self._stream = event
        self._record("gen_ai.client.operation.time_to_first_chunk", max(0.0, event.time - self._asked), self._of_chat())

    def _stream_end(self, event: StreamEnd) -> None:
        if self._stream is not None and event.model is not None:
            self._stream = replace(self._stream, model=event.model)
        outcome, attributes = stream_outcome(event), self._of_chat()
        if STEP_OUTCOMES[outcome].is_error:
            attributes["error.type"] = stream_error_type(event.error)
        self._operation_ended(event.time, attributes)
        # One mean for a response: an observation for each chunk would cost something per token.
        stream = self._stream
        if stream is not None and event.seq - stream.seq > 1:
            self._record(
                "gen_ai.client.operation.time_per_output_chunk",
                (event.time - stream.time) / (event.seq - stream.seq - 1),
                attributes,
            )
        self._count(event.usage)

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            for name, facts in COUNTS.items():
                count = getattr(usage, name)
                if facts.metric is not None and count is not None:
                    self._record(
                        "gen_ai.client.token.usage", count, {**self._of_chat(), "gen_ai.token.type": facts.metric}
                    )

    def _step_end(self, event: StepEnd) -> None:
        # A step that is left or cancelled has no `StreamEnd`, but asked a model all the same.
        if not self._ended:
            attributes = self._of_chat()
            if STEP_OUTCOMES[event.outcome].is_error:
                attributes["error.type"] = _OTHER
            self._operation_ended(event.time, attributes)

    def _attempt_began(self, event: AttemptBegan) -> None:
        self._asked_again = None if event.attempt == 1 else event.time

    def _attempt_discarded(self, event: AttemptDiscarded) -> None:
        self._operation_ended(event.time, {**self._of_chat(), "error.type": event.error_type})
        self._count(event.usage)
        self._stream, self._ended = None, False

    def _operation_ended(self, at: float, attributes: dict[str, str]) -> None:
        self._ended = True
        # A step of given or resumed calls asks no model.
        if self._start is None or not self._start.asks_model:
            return
        self._record("gen_ai.client.operation.duration", max(0.0, at - self._asked), attributes)

    def _observation(self, event: Observation) -> None:
        # Each set of attributes is a time series of its own. An id is in none of them, and a name only if a tool of the
        # program's has it: a model may make up any number.
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": _OTHER if event.schema_source is None else event.tool_name,
        }
        self._record("streamtools.calls", 1, {**tool, Names.call_outcome: event.outcome})
        for wait in event.waits:
            self._record("streamtools.wait.duration", wait.seconds, {**tool, Names.wait_reason: wait.reason})
        if event.duration is not None:
            failed = {} if OUTCOMES[event.outcome].stage is None else {"error.type": call_error_type(event)}
            self._record("gen_ai.execute_tool.duration", event.duration, {**tool, **failed})

    @property
    def _asked(self) -> float:
        start = self._start
        if self._asked_again is not None:
            return self._asked_again
        return 0.0 if start is None else start.time if start.requested_at is None else start.requested_at

    def _of_chat(self) -> dict[str, str]:
        attributes = {"gen_ai.operation.name": "chat"}
        request = None if self._start is None else self._start.request
        if request is not None and (asked := request_model(request)) is not None:
            attributes["gen_ai.request.model"] = _bounded(asked)
        if self._stream is not None:
            attributes["gen_ai.provider.name"] = provider_of(self._stream.wire)
            if self._stream.model is not None:
                attributes["gen_ai.response.model"] = _bounded(self._stream.model)
        return attributes

    def _record(self, which: str, value: float, attributes: Mapping[str, str]) -> None:
        self._instruments[which](value, attributes)


@dataclass(slots=True)
class _OpenRun:
    name: str | None
    began: float


# -- instruments --

_HANDLERS: dict[type[Event], Callable[[Metrics, Any], None]] = {
    StepStart: Metrics._step_start,
    AttemptBegan: Metrics._attempt_began,
    AttemptDiscarded: Metrics._attempt_discarded,
    StreamStart: Metrics._stream_start,
    StreamEnd: Metrics._stream_end,
    StepEnd: Metrics._step_end,
    Observation: Metrics._observation,
}

_Record = Callable[[float, Mapping[str, str]], None]
_known: WeakKeyDictionary[Any, dict[str, _Record]] = WeakKeyDictionary()

_HISTOGRAMS: Mapping[str, tuple[str, str, tuple[float, ...]]] = {
    "gen_ai.client.operation.duration": ("s", "Duration of a model's response, from the request on", _SECONDS),
    "gen_ai.client.token.usage": ("{token}", "Tokens of a model's response", _TOKENS),
    "gen_ai.client.operation.time_to_first_chunk": ("s", "Time from the request to the first chunk", _FIRST_CHUNK),
    "gen_ai.client.operation.time_per_output_chunk": ("s", "Mean time per event after the first chunk", _PER_CHUNK),
    "gen_ai.execute_tool.duration": ("s", "Duration of a tool", _SECONDS),
    "streamtools.wait.duration": ("s", "Time in which a call could not start", _SECONDS),
    "gen_ai.invoke_agent.duration": ("s", "Duration of a run", _AGENT_SECONDS),
}


def _instruments_of(provider: Any) -> dict[str, _Record]:
    try:
        if (known := _known.get(provider)) is None:
            known = _known[provider] = _made(provider.get_meter("streamtools", __version__))
        return known
    except TypeError:  # it has no hash, or no weak references
        return _made(provider.get_meter("streamtools", __version__))


def _made(meter: metrics.Meter) -> dict[str, _Record]:
    records: dict[str, _Record] = {
        name: meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=buckets).record
        for name, (unit, about, buckets) in _HISTOGRAMS.items()
    }
    records["streamtools.calls"] = meter.create_counter("streamtools.calls", "{call}", "Calls by outcome").add
    return records


def _bounded(model: str) -> str:
    # A compatible server may answer with any name of a model, another one each time.
    if model not in _models and len(_models) >= MAX_MODELS:
        return _OTHER
    _models.add(model)
    return model[:256]
