"""The laws of the span tree: what is drawn, how it hangs together, and that every span ends exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode
from profiles import every
from scripted import Script, Spans, span_id
from telemetry.scripted import capturing

from streamtools.errors import (
    CallCancelled,
    CallSkipped,
    CallTruncated,
    InvalidArguments,
    LimitExceeded,
    LocalProtocolError,
    ProviderError,
    ToolError,
    ToolFailed,
    ToolTimeout,
    TruncatedStream,
    UnknownTool,
)
from streamtools.events import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallFragment, ToolCallStart
from streamtools.parts import Outcome, Usage
from streamtools.telemetry import Tracing, default_observers


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


# -- the tree ----------------------------------------------------------------------------------------------------


def test_a_step_holds_a_chat_and_its_tools_as_siblings(spans: Spans) -> None:
    Script(Tracing(spans.provider)).whole_step()
    step = spans.named("streamtools.step")
    assert spans.names() == ["chat glm-mini", "execute_tool alpha", "execute_tool beta", "streamtools.step"]
    assert step.parent is None
    assert {parent_id(span) for span in spans.all if span is not step} == {span_id(step)}
    kinds = {span.name: span.kind for span in spans.all}
    assert kinds["chat glm-mini"] is SpanKind.CLIENT
    assert {kind for name, kind in kinds.items() if name != "chat glm-mini"} == {SpanKind.INTERNAL}


def test_a_chat_that_never_said_a_word_has_no_model_in_its_name(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.begin()
    script.end_stream(None, complete=False, error=ProviderError("no", type="overloaded_error"))
    script.end("error")
    assert spans.names() == ["chat", "streamtools.step"]
    assert "gen_ai.response.time_to_first_chunk" not in attributes(spans.named("chat"))


def test_a_nameless_call_has_a_span_too(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.call("call_a", "", ready=False)
    script.observe("call_a", "unknown_tool", name="", error=UnknownTool(None))
    script.end_step()
    assert "streamtools.tool.name" not in attributes(spans.named("streamtools.call"))


def test_a_call_that_the_provider_ran_itself_is_counted_and_not_drawn(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.call("srv_1", "web_search", kind="server")
    script.end_step("stop")
    assert spans.names() == ["chat glm-mini", "streamtools.step"]
    assert attributes(spans.named("chat glm-mini"))["streamtools.stream.server_calls"] == 1


# -- what the spans say ------------------------------------------------------------------------------------------


def test_a_chat_tells_model_usage_finish_and_the_wait_for_the_first_chunk(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.end_step(
        "length",
        finish_raw="max_tokens",
        usage=Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, reasoning_tokens=2),
    )
    chat = spans.named("chat glm-mini")
    assert dict(attributes(chat)) == {
        "streamtools.run.id": "run-1",
        "streamtools.step.number": 0,
        "streamtools.cause.seq": (),
        "streamtools.seq.first": 1,
        "streamtools.seq.last": 2,
        "streamtools.stream.wire": "openai.chat_completions",
        "streamtools.stream.outcome": "complete",
        "streamtools.stream.finish": "length",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "glm-mini",
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.finish_reasons": ("max_tokens",),
        "gen_ai.response.time_to_first_chunk": pytest.approx(0.1),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    assert chat.status.status_code is StatusCode.UNSET


def test_a_tool_tells_its_identity_schema_and_outcome(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.call("call_a", "alpha", '"{}"', normalizations=("double_encoded",))
    script.end_stream()
    script.run("call_a", "alpha")
    script.observe("call_a", name="alpha", value=1, validated=True, attempts=1, observation_type="int")
    script.end()
    assert dict(attributes(spans.named("execute_tool alpha"))) == {
        "streamtools.run.id": "run-1",
        "streamtools.step.number": 0,
        "streamtools.cause.seq": (1,),
        "streamtools.seq.first": 2,
        "streamtools.seq.last": 8,
        "streamtools.call.key": "0.0",
        "streamtools.call.kind": "function",
        "streamtools.call.outcome": "ok",
        "streamtools.call.validated": True,
        "streamtools.call.normalizations": ("double_encoded",),
        "streamtools.schema.present": True,
        "streamtools.schema.source": "typed_signature",
        "streamtools.observation.type": "int",
        "streamtools.tool.attempts": 1,
        "streamtools.tool.queue_time_s": pytest.approx(0.2),
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.name": "alpha",
        "gen_ai.tool.call.id": "call_a",
    }


def test_a_synthesised_call_id_says_so(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.emit(ToolCallStart, "call_0", "alpha", call_id_synthesized=True)
    script.run("call_0", "alpha")
    script.observe("call_0", name="alpha", still_running=True)
    script.end_step()
    said = attributes(spans.named("execute_tool alpha"))
    assert said["streamtools.call.id_synthesized"] is True
    assert said["streamtools.tool.still_running"] is True


def test_spans_begin_and_end_with_their_events(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()  # 100.0, 100.1
    script.call("call_a", "alpha")  # start 100.2, delta, end 100.4, ready 100.5
    script.end_stream()  # 100.6
    script.run("call_a", "alpha")  # 100.7
    script.observe("call_a", name="alpha")  # 100.8
    script.end()  # 100.9
    step, chat, tool = (spans.named(name) for name in ("streamtools.step", "chat glm-mini", "execute_tool alpha"))
    begin = step.start_time or 0
    tenths = {
        span.name: [round(((at or 0) - begin) / 1e8) for at in (span.start_time, span.end_time)]
        for span in (step, chat, tool)
    }
    assert tenths == {"streamtools.step": [0, 9], "chat glm-mini": [0, 6], "execute_tool alpha": [7, 8]}


def test_a_call_that_did_not_run_is_a_point_at_its_observation_and_no_run_of_its_tool(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.call("call_a", "alpha", ready=False, problem="invalid_arguments")  # its end at 100.4
    script.observe("call_a", "invalid", name="alpha", error=InvalidArguments("x"))  # 100.5
    script.end_step()
    call, step = spans.named("streamtools.call alpha"), spans.named("streamtools.step")
    assert call.start_time == call.end_time
    assert round(((call.end_time or 0) - (step.start_time or 0)) / 1e8) == 5
    said = attributes(call)
    assert said["streamtools.call.problem"] == "invalid_arguments"
    assert "streamtools.tool.queue_time_s" not in said
    # Jaeger's UI takes a span with any other attribute of these for a run of a tool.
    assert [name for name in said if name.startswith("gen_ai.")] == ["gen_ai.tool.call.id"]
    assert said["streamtools.tool.name"] == "alpha"


# -- outcomes ----------------------------------------------------------------------------------------------------


def failed(error: BaseException) -> ToolFailed:
    outer = ToolFailed("the tool raised")
    outer.__cause__ = error
    return outer


class AppError(Exception):
    pass


class NoSuchCity(ToolError):
    """What a tool raises to tell the model something."""


def no_such_city() -> NoSuchCity:
    error = NoSuchCity("try another one")
    error.__cause__ = KeyError("x")
    return error


CALL_OUTCOMES: list[tuple[Outcome, bool, ToolError | None, str | None, str | None]] = [
    # outcome, its tool had started, error -> error.type, failure stage
    ("ok", True, None, None, None),
    ("failed", True, failed(KeyError("x")), "KeyError", "execution"),
    ("failed", True, failed(AppError()), f"{__name__}.AppError", "execution"),
    ("failed", True, ToolFailed("x"), "ToolFailed", "execution"),
    ("failed", True, no_such_city(), "NoSuchCity", "execution"),
    ("invalid", False, InvalidArguments("x"), "InvalidArguments", "validation"),
    ("unknown_tool", False, UnknownTool("x"), "UnknownTool", "lookup"),
    ("truncated", False, CallTruncated("x"), "CallTruncated", "arguments"),
    ("denied", False, None, "denied", "approval"),
    ("timed_out", True, ToolTimeout(1.0), "timeout", "execution"),
    ("timed_out", False, ToolTimeout(1.0), "timeout", "dispatch"),
    ("cancelled", True, CallCancelled("x"), "CallCancelled", "execution"),
    ("cancelled", False, CallCancelled("x"), "CallCancelled", "dispatch"),
    ("skipped", False, CallSkipped("x"), "CallSkipped", "dispatch"),
    ("unknown", True, None, "unknown", "execution"),
]


@every(("outcome", "started", "error", "error_type", "stage"), CALL_OUTCOMES)
def test_every_outcome_of_a_call_has_its_span(
    outcome: Outcome, started: bool, error: ToolError | None, error_type: str | None, stage: str | None
) -> None:
    spans = Spans()
    script = Script.started(Tracing(spans.provider))
    script.call("call_a")
    if started:
        script.run("call_a")
    script.observe("call_a", outcome, error=error)
    script.end_step()
    (tool,) = spans.tools()
    said = attributes(tool)
    assert tool.name == ("execute_tool lookup" if started else "streamtools.call lookup")
    assert (tool.start_time == tool.end_time) is ("streamtools.call.reason" in said) is not started
    assert (tool.status.description or "") == said.get("streamtools.call.reason", tool.status.description or "")
    assert said["streamtools.call.outcome"] == outcome
    assert (said.get("error.type"), said.get("streamtools.failure_stage")) == (error_type, stage)
    assert tool.status.status_code is (StatusCode.UNSET if outcome == "ok" else StatusCode.ERROR)
    assert spans.named("streamtools.step").status.status_code is StatusCode.UNSET
    assert spans.ledger.balanced


CUT = TruncatedStream("cut")
OVERLOADED = ProviderError("busy", type="overloaded_error", code=529)

STREAM_ENDS: list[tuple[dict[str, Any] | None, str, str, str | None]] = [
    # StreamEnd (None: it never came), StepEnd.outcome -> the chat's outcome and error.type
    ({"finish": "stop"}, "complete", "complete", None),
    ({"finish": "stop"}, "abandoned", "complete", None),
    ({"finish": None, "complete": False}, "truncated", "truncated", "_OTHER"),
    ({"finish": None, "complete": False, "error": CUT}, "truncated", "truncated", "stream_truncated"),
    ({"finish": None, "complete": False, "error": CUT}, "abandoned", "abandoned", None),
    ({"finish": None, "complete": False, "error": CUT}, "cancelled", "cancelled", None),
    ({"finish": "error", "complete": False, "error": OVERLOADED}, "error", "error", "overloaded_error"),
    ({"finish": "error", "complete": False, "error": OVERLOADED}, "abandoned", "error", "overloaded_error"),
    ({"finish": "error", "complete": False, "error": ProviderError("x", code=429)}, "error", "error", "429"),
    (
        {"finish": "error", "complete": False, "error": ProviderError("x", type="prose, not a code")},
        "error",
        "error",
        "provider_error",
    ),
    (
        {"finish": "error", "complete": False, "error": LimitExceeded("max_tool_calls", limit=1)},
        "error",
        "error",
        "limit_exceeded",
    ),
    (None, "abandoned", "abandoned", None),
    (None, "cancelled", "cancelled", None),
    (None, "error", "error", "_OTHER"),
]


@every(("stream_end", "step_end", "outcome", "error_type"), STREAM_ENDS)
def test_every_exit_of_a_stream_ends_its_spans_and_says_how(
    stream_end: dict[str, Any] | None, step_end: str, outcome: str, error_type: str | None
) -> None:
    spans = Spans()
    script = Script.started(Tracing(spans.provider))
    script.call("call_a")
    script.run("call_a")
    script.cut_call("call_b")
    if stream_end is not None:
        script.end_stream(**stream_end)
    script.observe("call_a", "cancelled", error=CallCancelled("x"))
    script.end(step_end)
    chat, step = spans.named("chat glm-mini"), spans.named("streamtools.step")
    assert attributes(chat)["streamtools.stream.outcome"] == outcome
    assert attributes(chat).get("error.type") == error_type
    assert chat.status.status_code is (StatusCode.UNSET if error_type is None else StatusCode.ERROR)
    assert attributes(step)["streamtools.step.outcome"] == step_end
    assert (step.status.status_code is StatusCode.ERROR) is (step_end in ("error", "truncated"))
    assert spans.ledger.balanced
    assert len(spans.tools()) == 2


def test_a_stream_that_its_consumer_left_keeps_the_usage_seen_until_then(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.end_stream(None, complete=False, error=CUT, usage=Usage(input_tokens=10))
    script.end("abandoned")
    assert attributes(spans.named("chat glm-mini"))["gen_ai.usage.input_tokens"] == 10


def test_a_call_without_an_observation_still_ends_with_its_step(spans: Spans) -> None:
    script = Script.started(Tracing(spans.provider))
    script.call("call_a", "alpha")
    script.call("call_b", "beta", index=1)
    script.run("call_a", "alpha")
    script.end("error")
    assert spans.ledger.balanced
    assert {attributes(tool)["error.type"] for tool in spans.tools()} == {"_OTHER"}
    assert {attributes(tool)["streamtools.call.outcome"] for tool in spans.tools()} == {"unknown"}
    assert {tool.status.description for tool in spans.tools()} == {"unknown outcome: its step is over"}
    assert {span.name for span in spans.tools()} == {"execute_tool alpha", "streamtools.call beta"}


class Refusing(Sampler):
    """Breaks when a span of that name is to be made."""

    def __init__(self, name: str) -> None:
        self._name = name

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **more: Any) -> SamplingResult:
        if name == self._name:
            raise RuntimeError("a broken sampler")
        return ALWAYS_ON.should_sample(parent_context, trace_id, name)

    def get_description(self) -> str:
        return "Refusing"


def test_a_broken_sdk_leaves_no_span_open(spans: Spans) -> None:
    spans.provider.sampler = Refusing("execute_tool beta")
    script = Script.started(Tracing(spans.provider))
    script.call("call_a", "alpha")
    script.run("call_a", "alpha")
    script.call("call_b", "beta", index=1)
    with pytest.raises(RuntimeError, match="a broken sampler"):
        script.run("call_b", "beta")
    assert spans.names() == ["chat glm-mini", "execute_tool alpha", "streamtools.step"]
    assert spans.ledger.balanced


def test_two_steps_at_once_are_refused_and_the_first_goes_on(spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    first, second = Script(tracing), Script(tracing, run_id="run-2")
    first.start()
    with pytest.raises(LocalProtocolError, match="one for each concurrent run"):
        second.begin()
    first.end_stream("stop")
    first.end()
    assert [attributes(span)["streamtools.run.id"] for span in spans.all] == ["run-1", "run-1"]
    assert spans.ledger.balanced


# -- which spans, and where they go ------------------------------------------------------------------------------


@every(
    ("spans_wanted", "names"),
    [
        ({"chat": False}, ["execute_tool alpha", "execute_tool beta", "streamtools.step"]),
        ({"execute_tool": False}, ["chat glm-mini", "streamtools.step"]),
        ({"step": False}, ["chat glm-mini", "execute_tool alpha", "execute_tool beta"]),
        ({"step": False, "chat": False, "execute_tool": False}, []),
    ],
)
def test_spans_that_another_instrumentation_draws_can_be_left_out(
    spans_wanted: dict[str, bool], names: list[str]
) -> None:
    spans = Spans()
    with spans.provider.get_tracer("app").start_as_current_span("request") as request:
        script = Script(Tracing(spans.provider, spans=spans_wanted))
        script.whole_step(causes=script.whole_step())
    assert sorted({span.name for span in spans.all} - {"request"}) == names
    assert spans.ledger.balanced
    tops = [span for span in spans.all if span.name != "request" and parent_id(span) == span_id(spans.named("request"))]
    assert bool(tops) is bool(names)
    assert request.get_span_context().is_valid


def test_an_unknown_span_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown \['tool'\]; known: run, step, chat, approval, wait, execute_tool"):
        Tracing(spans={"tool": False})


def test_no_delta_reaches_the_observer() -> None:
    """Telemetry must not cost anything per token."""
    wanted = capturing(capture=False).event_types
    assert not {TextDelta, ReasoningDelta, ToolCallDelta, ToolCallFragment} & set(wanted)


def test_without_a_provider_nothing_happens(no_global_provider: None) -> None:
    tracing = Tracing()
    before = trace.get_current_span()
    script = Script.started(tracing)
    script.call("call_a")
    script.run("call_a")
    with tracing.around_tool("call_a"):
        assert not trace.get_current_span().get_span_context().is_valid
    script.observe("call_a")
    script.end_step()
    assert trace.get_current_span() is before


def test_pipelines_are_observed_by_default_only_if_the_program_has_a_provider(
    no_global_provider: None, spans: Spans
) -> None:
    assert default_observers() == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
        assert default_observers() == []
    trace.set_tracer_provider(spans.provider)
    (tracing,) = default_observers()
    Script(tracing).whole_step()
    assert len(spans.all) == 4


def test_a_provider_without_a_hash_draws_spans(spans: Spans) -> None:
    class Unhashable:
        """Logfire's is a dataclass, which has an equality and no hash."""

        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

        def get_tracer(self, *args: Any, **options: Any) -> trace.Tracer:
            return spans.provider.get_tracer(*args, **options)

    for _ in range(2):
        Script(Tracing(Unhashable())).whole_step()  # type: ignore[arg-type]
    assert spans.names().count("streamtools.step") == 2


def test_a_provider_that_is_set_later_is_found(no_global_provider: None, spans: Spans) -> None:
    tracing = Tracing()
    trace.set_tracer_provider(spans.provider)
    Script(tracing).whole_step()
    assert len(spans.all) == 4
