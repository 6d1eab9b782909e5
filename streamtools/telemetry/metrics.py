"""Counts and times a run's responses and calls as OpenTelemetry metrics.

Names and buckets: https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai (gen-ai-metrics.md,
read 2026-11-23); https://github.com/open-telemetry/semantic-conventions-genai/tree/main/docs/gen-ai
(client-inference.md, gen-ai-metrics.md and non-normative/migration.md, read 2026-11-28). `streamtools.*` names are
ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import metrics

from .._version import __version__
from ..events import AttemptBegan, AttemptDiscarded, Event, Observation, StepEnd, StepStart, StreamEnd, StreamStart
from ..ground import class_name
from ..observers import Observer, RunFacts
from ..parts import COUNTS, OUTCOMES, RUN_OUTCOMES, STEP_OUTCOMES, Usage
from .names import SEMCONV, provider_of, request_model
from .tracing import call_error_type, stream_error_type, stream_outcome

MAX_MODELS = 100  # different names of models in the attributes of one process; the others are `_OTHER`

# The buckets that the conventions advise for each metric.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_CHUNK = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_PER_CHUNK = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS = tuple(4**power for power in range(14))
_AGENT_SECONDS = tuple(0.1 * 2**power for power in range(13))
_CALLS = tuple(2**power for power in range(8))
_OTHER = "_OTHER"

_models: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNames:
    """A profile of names; one that is None is not recorded."""

    operation_duration: str | None = "gen_ai.client.operation.duration"
    token_usage: str | None = "gen_ai.client.token.usage"
    time_to_first_chunk: str | None = "gen_ai.client.operation.time_to_first_chunk"
    time_per_output_chunk: str | None = "gen_ai.client.operation.time_per_output_chunk"
    """Seconds per event of a response after its first chunk: their mean, recorded once for a response."""
    tool_duration: str | None = "gen_ai.execute_tool.duration"  # seconds that a tool ran
    calls: str | None = "streamtools.calls"  # calls, by their outcome
    wait_duration: str | None = "streamtools.wait.duration"  # seconds in which a call could not start, by `Wait.reason`
    usage: str | None = None  # begins the names of counters of tokens, by `gen_ai.token.modality`
    usage_of_operation: str | None = None  # begins the names of histograms of a response's tokens: input and output
    agent_duration: str | None = "gen_ai.invoke_agent.duration"
    """Seconds of a run that was entered: a `Trajectory`, or one of `agent_loop`; by its outcome."""
    agent_inference_calls: str | None = None  # requests to a model in a run
    agent_tool_calls: str | None = None  # calls of a run whose tool ran


NAMES = MetricNames()  # the GenAI conventions v1.41, and the new repository's names for the durations of tools and runs

METRIC_PROFILES: Mapping[str, MetricNames] = MappingProxyType(
    {
        "semconv-1.41": NAMES,
        "genai-0.1": replace(
            NAMES,
            operation_duration="gen_ai.client.inference.duration",
            token_usage=None,
            time_to_first_chunk="gen_ai.client.inference.time_to_first_chunk",
            time_per_output_chunk="gen_ai.client.inference.time_per_output_chunk",
            usage="gen_ai.client.inference.usage",
            usage_of_operation="gen_ai.client.inference.operation",
            agent_inference_calls="gen_ai.invoke_agent.inference_calls",
            agent_tool_calls="gen_ai.invoke_agent.tool_calls",
        ),
    }
)


class Metrics(Observer):
    """An observer that records metrics. Give each run its own: it is cheap to make.

    Args:
        meter_provider: takes the metrics; by default the global provider.
        names: a profile: ``"semconv-1.41"``, ``"genai-0.1"``, or a `MetricNames`, say
            ``dataclasses.replace(NAMES, token_usage=None)``.

    Raises:
        ValueError: an unknown profile.
    """

    def __init__(
        self, meter_provider: metrics.MeterProvider | None = None, *, names: MetricNames | str = "semconv-1.41"
    ) -> None:
        if isinstance(names, str):
            if names not in METRIC_PROFILES:
                raise ValueError(f"names={names!r}: must be a MetricNames or one of {', '.join(METRIC_PROFILES)}")
            names = METRIC_PROFILES[names]
        self._instruments = _instruments_of(meter_provider or metrics.get_meter_provider(), names)
        self._start: StepStart | None = None
        self._stream: StreamStart | None = None
        self._ended = False
        self._asked_again: float | None = None
        self._run: _OpenRun | None = None

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The events that begin or end something."""
        return _HANDLERS

    def on_event(self, event: Event) -> None:
        """Records the event's metrics."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def begin_run(self, run: RunFacts) -> None:
        """Begins to time a run, and to count its calls."""
        self._run = _OpenRun(run.name, time.monotonic())

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Records the run's metrics."""
        run, self._run = self._run, None
        if run is None:
            return
        attributes = {} if run.name is None else {"gen_ai.agent.name": run.name}
        self._record("agent_inference_calls", run.inference_calls, attributes)
        self._record("agent_tool_calls", run.tool_calls, attributes)
        if outcome is not None:
            attributes[SEMCONV.run_outcome] = outcome
        if isinstance(error, Exception) or any(name == outcome and one.is_error for name, one in RUN_OUTCOMES.items()):
            attributes["error.type"] = _OTHER if error is None else class_name(error)
        self._record("agent_duration", max(0.0, time.monotonic() - run.began), attributes)

    def _step_start(self, event: StepStart) -> None:
        self._start, self._stream, self._ended = event, None, False
        self._asked_again = None

    def _stream_start(self, event: StreamStart) -> None:
        self._stream = event
        self._record("time_to_first_chunk", max(0.0, event.time - self._asked), self._of_chat())

    def _stream_end(self, event: StreamEnd) -> None:
        if self._stream is not None and event.model is not None:
            self._stream = replace(self._stream, model=event.model)
        outcome, attributes = stream_outcome(event), self._of_chat()
        if STEP_OUTCOMES[outcome].is_error:
            attributes["error.type"] = stream_error_type(event.error)
        self._operation_ended(event.time, attributes, event.usage)
        # One mean for a response: an observation for each chunk would cost something per token.
        stream = self._stream
        if stream is not None and event.seq - stream.seq > 1:
            self._record("time_per_output_chunk", (event.time - stream.time) / (event.seq - stream.seq - 1), attributes)
        self._count(event.usage)

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            for name, facts in COUNTS.items():
                count = getattr(usage, name)
                if facts.metric is not None and count is not None:
                    self._record("token_usage", count, {**self._of_chat(), "gen_ai.token.type": facts.metric})

    def _step_end(self, event: StepEnd) -> None:
        # A step that is left or cancelled has no `StreamEnd`, but asked a model all the same.
        if not self._ended:
            attributes = self._of_chat()
            if STEP_OUTCOMES[event.outcome].is_error:
                attributes["error.type"] = _OTHER
            self._operation_ended(event.time, attributes, None)

    def _attempt_began(self, event: AttemptBegan) -> None:
        self._asked_again = None if event.attempt == 1 else event.time

    def _attempt_discarded(self, event: AttemptDiscarded) -> None:
        self._operation_ended(event.time, {**self._of_chat(), "error.type": event.error_type}, event.usage)
        self._count(event.usage)
        self._stream, self._ended = None, False

    def _operation_ended(self, at: float, attributes: dict[str, str], usage: Usage | None) -> None:
        self._ended = True
        # A step of given or resumed calls asks no model.
        if self._start is None or not self._start.asks_model:
            return
        self._record("operation_duration", max(0.0, at - self._asked), attributes)
        if self._run is not None:
            self._run.inference_calls += 1
        # "0 if the response was not received or did not contain token usage", so that none is missing in a rate.
        usage = usage or _NO_USAGE
        for count in _OF_OPERATION:
            self._record(f"usage_of_operation.{count}", getattr(usage, count) or 0, attributes)
        for count in _COUNTED if f"usage.{_COUNTED[0]}" in self._instruments else ():
            for modality, tokens in _by_modality(usage, count):
                self._record(f"usage.{count}", tokens, {**self._of_chat(), "gen_ai.token.modality": modality})

    def _observation(self, event: Observation) -> None:
        # Each set of attributes is a time series of its own. An id is in none of them, and a name only if a tool of the
        # program's has it: a model may make up any number.
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": _OTHER if event.schema_source is None else event.tool_name,
        }
        self._record("calls", 1, {**tool, SEMCONV.call_outcome: event.outcome})
        for wait in event.waits:
            self._record("wait_duration", wait.seconds, {**tool, SEMCONV.wait_reason: wait.reason})
        if event.duration is not None:
            failed = {} if OUTCOMES[event.outcome].stage is None else {"error.type": call_error_type(event)}
            self._record("tool_duration", event.duration, {**tool, **failed})
            if self._run is not None:
                self._run.tool_calls += 1

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
        record = self._instruments.get(which)
        if record is not None:
            record(value, attributes)


@dataclass(slots=True)
class _OpenRun:
    name: str | None
    began: float
    inference_calls: int = 0
    tool_calls: int = 0


# -- tokens by modality --

_NO_USAGE = Usage()
_OF_OPERATION = ("input_tokens", "output_tokens")
_COUNTED = (*_OF_OPERATION, "cached_input_tokens", "cache_write_input_tokens", "reasoning_tokens")
"""The counts that have a counter; each of the last three is a part of one of the others."""
_AUDIO = {"input_tokens": "audio_input_tokens", "output_tokens": "audio_output_tokens"}


def _by_modality(usage: Usage, count: str) -> Iterator[tuple[str, int]]:
    tokens, audio = getattr(usage, count), getattr(usage, _AUDIO.get(count, ""), None)
    if tokens is None and count not in _OF_OPERATION:
        return
    if audio:
        yield "audio", audio
    yield "unknown", max(0, (tokens or 0) - (audio or 0))


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
_known: WeakKeyDictionary[Any, dict[MetricNames, dict[str, _Record]]] = WeakKeyDictionary()

_HISTOGRAMS: Mapping[str, tuple[str, str, tuple[float, ...]]] = {
    "operation_duration": ("s", "Duration of a model's response, from the request on", _SECONDS),
    "token_usage": ("{token}", "Tokens of a model's response", _TOKENS),
    "time_to_first_chunk": ("s", "Time from the request to the first chunk", _FIRST_CHUNK),
    "time_per_output_chunk": ("s", "Mean time per event after the first chunk", _PER_CHUNK),
    "tool_duration": ("s", "Duration of a tool", _SECONDS),
    "wait_duration": ("s", "Time in which a call could not start", _SECONDS),
    "agent_duration": ("s", "Duration of a run", _AGENT_SECONDS),
    "agent_inference_calls": ("{inference_call}", "Requests to a model in a run", _CALLS),
    "agent_tool_calls": ("{tool_call}", "Calls of a run whose tool ran", _CALLS),
}


def _instruments_of(provider: Any, names: MetricNames) -> dict[str, _Record]:
    try:
        made = _known.setdefault(provider, {})
    except TypeError:  # it has no hash, or no weak references
        made = {}
    if names not in made:
        made[names] = _made(provider.get_meter("streamtools", __version__), names)
    return made[names]


def _made(meter: metrics.Meter, names: MetricNames) -> dict[str, _Record]:
    records: dict[str, _Record] = {}
    for which, (unit, description, buckets) in _HISTOGRAMS.items():
        if (name := getattr(names, which)) is not None:
            records[which] = meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=buckets
            ).record
    if names.calls is not None:
        records["calls"] = meter.create_counter(names.calls, "{call}", "Calls, by their outcome").add
    for count in _COUNTED if names.usage is not None else ():
        records[f"usage.{count}"] = meter.create_counter(
            f"{names.usage}.{_suffix(count)}", "{token}", f"Tokens {COUNTS[count].label}"
        ).add
    for count in _OF_OPERATION if names.usage_of_operation is not None else ():
        records[f"usage_of_operation.{count}"] = meter.create_histogram(
            f"{names.usage_of_operation}.{_suffix(count)}",
            "{token}",
            f"Tokens {COUNTS[count].label} of a model's response",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ).record
    return records


def _suffix(count: str) -> str:
    facts = COUNTS[count]
    return facts.profiles.get("genai-0.1", facts.span).removeprefix("gen_ai.usage.")


def _bounded(model: str) -> str:
    # A compatible server may answer with any name of a model, another one each time.
    if model not in _models and len(_models) >= MAX_MODELS:
        return _OTHER
    _models.add(model)
    return model[:256]
