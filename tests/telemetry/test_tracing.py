"""The laws of the span tree: what is drawn, how it hangs together, and that every span ends exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode
from profiles import examples
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
from streamtools.events import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallFragment, ToolCallStart, ToolStarted
from streamtools.parts import Outcome, Usage
from streamtools.telemetry import Tracing, default_observers


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def linked(span: ReadableSpan, kind: str) -> set[int]:
    return {link.context.span_id for link in span.links if (link.attributes or {})["streamtools.link.type"] == kind}


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


def test_a_tool_is_linked_to_the_chat_that_proposed_it(spans: Spans) -> None:
    Script(Tracing(spans.provider)).whole_step()
    chat = spans.named("chat glm-mini")
    for tool in spans.tools():
        assert linked(tool, "proposed_by") == {span_id(chat)}


def test_what_the_links_say_can_be_read_from_attributes_alone(spans: Spans) -> None:
    """Some trace stores drop links, and others their attributes."""
    script = Script(Tracing(spans.provider))
    observations = script.whole_step()
    script.whole_step(causes=observations)
    first_chat, second_chat = (span for span in spans.all if span.name.startswith("chat"))
    first_tools = [tool for tool in spans.tools() if attributes(tool)["streamtools.step.number"] == 0]
    for tool in first_tools:
        said, proposer = attributes(tool), attributes(first_chat)
        assert said["streamtools.run.id"] == proposer["streamtools.run.id"] == "run-1"
        assert proposer["streamtools.seq.first"] < said["streamtools.seq.first"] < proposer["streamtools.seq.last"]
    assert linked(second_chat, "observed") == {span_id(tool) for tool in first_tools}
    assert set(attributes(second_chat)["streamtools.cause.seq"]) == {
        attributes(tool)["streamtools.seq.last"] for tool in first_tools
    }


def test_a_chat_observes_only_the_tools_that_its_step_was_caused_by(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    seq, _ = script.whole_step()
    script.whole_step(causes=(seq,))
    assert linked(spans.named("chat glm-mini"), "observed") == {
        span_id(tool) for tool in spans.tools() if attributes(tool)["streamtools.seq.last"] == seq
    }


def test_calls_are_known_by_step_and_index(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.whole_step(causes=script.whole_step())
    assert sorted(attributes(tool)["streamtools.call.key"] for tool in spans.tools()) == ["0.0", "0.1", "1.0", "1.1"]


def test_a_step_begins_where_the_caller_is(spans: Spans) -> None:
    with spans.provider.get_tracer("app").start_as_current_span("request") as request:
        Script(Tracing(spans.provider)).whole_step()
    assert parent_id(spans.named("streamtools.step")) == request.get_span_context().span_id


def test_a_chat_that_never_said_a_word_has_no_model_in_its_name(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.begin()
    script.end_stream(None, complete=False, error=ProviderError("no", type="overloaded_error"))
    script.end("error")
    assert spans.names() == ["chat", "streamtools.step"]
    assert "gen_ai.response.time_to_first_chunk" not in attributes(spans.named("chat"))


def test_a_nameless_call_has_a_span_too(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a", "", ready=False)
    script.observe("call_a", "unknown_tool", name="", error=UnknownTool(None))
    script.end_stream()
    script.end()
    assert "streamtools.tool.name" not in attributes(spans.named("streamtools.call"))


def test_a_call_that_the_provider_ran_itself_is_counted_and_not_drawn(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("srv_1", "web_search", kind="server")
    script.end_stream("stop")
    script.end()
    assert spans.names() == ["chat glm-mini", "streamtools.step"]
    assert attributes(spans.named("chat glm-mini"))["streamtools.stream.server_calls"] == 1


def test_a_custom_tool_is_drawn_like_a_function(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a", "shell", "ls", kind="custom")
    script.run("call_a", "shell")
    script.observe("call_a", name="shell")
    script.end_stream()
    script.end()
    said = attributes(spans.named("execute_tool shell"))
    assert (said["streamtools.call.kind"], said["gen_ai.tool.type"]) == ("custom", "function")


# -- what the spans say ------------------------------------------------------------------------------------------


def test_a_chat_tells_model_usage_finish_and_the_wait_for_the_first_chunk(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.end_stream(
        "length",
        finish_raw="max_tokens",
        usage=Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, reasoning_tokens=2),
    )
    script.end()
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


@pytest.mark.parametrize("wire", ["anthropic.messages", "openai.chat_completions"])
def test_counts_are_told_as_the_turn_has_them_whatever_the_wire(spans: Spans, wire: str) -> None:
    script = Script(Tracing(spans.provider))
    script.start(wire=wire)
    script.end_stream("stop", usage=Usage(input_tokens=17, cached_input_tokens=4, cache_write_input_tokens=3))
    script.end()
    told = attributes(spans.named("chat glm-mini"))
    assert {name: value for name, value in told.items() if name.startswith("gen_ai.usage.")} == {
        "gen_ai.usage.input_tokens": 17,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 3,
    }


def test_a_tool_tells_its_identity_schema_and_outcome(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
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
    script = Script(Tracing(spans.provider))
    script.start()
    script.emit(ToolCallStart, "call_0", "alpha", call_id_synthesized=True)
    script.run("call_0", "alpha")
    script.observe("call_0", name="alpha", still_running=True)
    script.end_stream()
    script.end()
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
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a", "alpha", ready=False, problem="invalid_arguments")  # its end at 100.4
    script.observe("call_a", "invalid", name="alpha", error=InvalidArguments("x"))  # 100.5
    script.end_stream()
    script.end()
    call, step = spans.named("streamtools.call alpha"), spans.named("streamtools.step")
    assert call.start_time == call.end_time
    assert round(((call.end_time or 0) - (step.start_time or 0)) / 1e8) == 5
    said = attributes(call)
    assert said["streamtools.call.problem"] == "invalid_arguments"
    assert "streamtools.tool.queue_time_s" not in said
    # Jaeger's UI takes a span with any other attribute of these for a run of a tool.
    assert [name for name in said if name.startswith("gen_ai.")] == ["gen_ai.tool.call.id"]
    assert said["streamtools.tool.name"] == "alpha"


def test_attempts_of_one_call_share_one_span(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a", "alpha")
    script.end_stream()
    script.run("call_a", "alpha")
    script.emit(ToolStarted, "call_a", "alpha", 2)
    script.observe("call_a", name="alpha", attempts=2)
    script.end()
    (tool,) = spans.tools()
    assert attributes(tool)["streamtools.tool.attempts"] == 2
    assert spans.ledger.balanced


def test_another_kind_of_stream_error_is_named_by_its_code(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.end_stream("error", complete=False, error=LimitExceeded("max_tool_calls", limit=1))
    script.end("error")
    assert attributes(spans.named("streamtools.step"))["error.type"] == "limit_exceeded"


def test_a_call_waits_in_the_queue_from_the_time_it_is_ready(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a")
    script.end_stream()
    script.text("a", "b", "c")  # three tenths of a second
    script.run("call_a")
    script.observe("call_a")
    script.end()
    assert attributes(spans.named("execute_tool lookup"))["streamtools.tool.queue_time_s"] == pytest.approx(0.5)


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


@pytest.mark.parametrize(("outcome", "started", "error", "error_type", "stage"), CALL_OUTCOMES)
def test_every_outcome_of_a_call_has_its_span(
    spans: Spans,
    outcome: Outcome,
    started: bool,
    error: ToolError | None,
    error_type: str | None,
    stage: str | None,
) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a")
    if started:
        script.run("call_a")
    script.observe("call_a", outcome, error=error)
    script.end_stream()
    script.end()
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
    (None, "abandoned", "abandoned", None),
    (None, "cancelled", "cancelled", None),
    (None, "error", "error", "_OTHER"),
]


@pytest.mark.parametrize(("stream_end", "step_end", "outcome", "error_type"), STREAM_ENDS)
def test_every_exit_of_a_stream_ends_its_spans_and_says_how(
    spans: Spans, stream_end: dict[str, Any] | None, step_end: str, outcome: str, error_type: str | None
) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
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
    script = Script(Tracing(spans.provider))
    script.start()
    script.end_stream(None, complete=False, error=CUT, usage=Usage(input_tokens=10))
    script.end("abandoned")
    assert attributes(spans.named("chat glm-mini"))["gen_ai.usage.input_tokens"] == 10


def test_a_call_without_an_observation_still_ends_with_its_step(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a", "alpha")
    script.call("call_b", "beta", index=1)
    script.run("call_a", "alpha")
    script.end("error")
    assert spans.ledger.balanced
    assert {attributes(tool)["error.type"] for tool in spans.tools()} == {"_OTHER"}
    assert {attributes(tool)["streamtools.call.outcome"] for tool in spans.tools()} == {"unknown"}
    assert {tool.status.description for tool in spans.tools()} == {"its end is not known: its step is over"}
    assert {span.name for span in spans.tools()} == {"execute_tool alpha", "streamtools.call beta"}


def test_a_second_observation_of_a_call_changes_nothing(spans: Spans, caplog: pytest.LogCaptureFixture) -> None:
    script = Script(Tracing(spans.provider))
    script.start()
    script.call("call_a")
    script.observe("call_a")
    script.observe("call_a", "failed")
    script.observe("call_never_announced")
    script.end_stream()
    script.end()
    (tool,) = spans.tools()
    assert attributes(tool)["streamtools.call.outcome"] == "ok"
    assert not caplog.records


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
    script = Script(Tracing(spans.provider))
    script.start()
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
    with pytest.raises(LocalProtocolError, match="every concurrent run its own"):
        second.begin()
    first.end_stream("stop")
    first.end()
    assert [attributes(span)["streamtools.run.id"] for span in spans.all] == ["run-1", "run-1"]
    assert spans.ledger.balanced


def test_events_between_steps_are_ignored(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.call("call_a")
    script.end()
    assert spans.all == ()


@settings(max_examples=examples(150), deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(CALL_OUTCOMES), st.booleans(), st.sampled_from(["function", "custom", "server"])),
        max_size=6,
    ),
    exit_=st.sampled_from(STREAM_ENDS),
    steps=st.integers(1, 3),
)
def test_whatever_happens_every_call_has_one_span_and_every_span_one_end(
    calls: Sequence[tuple[tuple[Outcome, bool, ToolError | None, Any, Any], bool, Any]],
    exit_: tuple[dict[str, Any] | None, str, str, str | None],
    steps: int,
) -> None:
    spans = Spans()
    script = Script(Tracing(spans.provider))
    causes: tuple[int, ...] = ()
    for _ in range(steps):
        script.start(causes=causes)
        late = []
        for index, ((outcome, started, error, *_), early, kind) in enumerate(calls):
            script.call(f"call_{index}", index=index, kind=kind)
            if kind == "server":
                continue
            if started:
                script.run(f"call_{index}")
            late.append((index, outcome, error)) if not early else script.observe(
                f"call_{index}", outcome, index=index, error=error
            )
        if exit_[0] is not None:
            script.end_stream(**exit_[0])
        causes = tuple(script.observe(f"call_{i}", outcome, index=i, error=error) for i, outcome, error in late)
        script.end(exit_[1])
    ours = [kind for _, _, kind in calls if kind != "server"]
    assert len(spans.tools()) == steps * len(ours)
    assert spans.ledger.balanced
    roots = [span for span in spans.all if span.parent is None]
    assert [root.name for root in roots] == ["streamtools.step"] * steps
    by_id = {span_id(span): span for span in spans.all}
    for span in spans.all:
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert (parent.start_time or 0) <= (span.start_time or 0)
            assert (span.end_time or 0) <= (parent.end_time or 0)
        assert all(link.context.span_id in by_id for link in span.links)


# -- which spans, and where they go ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spans_wanted", "names"),
    [
        ({"chat": False}, ["execute_tool alpha", "execute_tool beta", "streamtools.step"]),
        ({"execute_tool": False}, ["chat glm-mini", "streamtools.step"]),
        ({"step": False}, ["chat glm-mini", "execute_tool alpha", "execute_tool beta"]),
        ({"step": False, "chat": False, "execute_tool": False}, []),
    ],
)
def test_spans_that_another_instrumentation_draws_can_be_left_out(
    spans: Spans, spans_wanted: dict[str, bool], names: list[str]
) -> None:
    with spans.provider.get_tracer("app").start_as_current_span("request") as request:
        script = Script(Tracing(spans.provider, spans=spans_wanted))
        script.whole_step(causes=script.whole_step())
    assert sorted({span.name for span in spans.all} - {"request"}) == names
    assert spans.ledger.balanced
    tops = [span for span in spans.all if span.name != "request" and parent_id(span) == span_id(spans.named("request"))]
    assert bool(tops) is bool(names)
    assert request.get_span_context().is_valid


def test_an_unknown_span_or_profile_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"unknown \['tool'\]; there are run, step, chat, approval, wait, execute_tool"
    ):
        Tracing(spans={"tool": False})
    with pytest.raises(ValueError, match=r"must be a Names or one of semconv-1.41, genai-0.1"):
        Tracing(names="latest")


def test_no_delta_reaches_the_observer() -> None:
    """Telemetry must not cost anything per token."""
    wanted = capturing(capture=False).event_types
    assert not {TextDelta, ReasoningDelta, ToolCallDelta, ToolCallFragment} & set(wanted)


def test_a_delta_that_comes_all_the_same_is_not_drawn(spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    script = Script(tracing)
    script.start()
    tracing.on_event(ReasoningDelta("hm"))
    tracing.on_event(TextDelta("secret"))
    script.end_stream("stop")
    script.end()
    assert "secret" not in "".join(span.to_json() for span in spans.all)


def test_a_trace_that_is_not_sampled_costs_no_attributes_and_stays_unsampled() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    tracing = capturing(provider, capture=True)
    script = Script(tracing)
    script.start()
    script.call("call_a")
    script.run("call_a")
    with tracing.around_tool("call_a"):
        inside = trace.get_current_span()
        assert inside.get_span_context().is_valid
        assert not inside.is_recording()
    script.observe("call_a", "failed", error=failed(ValueError("x")))
    script.end_stream()
    script.end()


def test_without_a_provider_nothing_happens(no_global_provider: None) -> None:
    tracing = Tracing()
    before = trace.get_current_span()
    script = Script(tracing)
    script.start()
    script.call("call_a")
    script.run("call_a")
    with tracing.around_tool("call_a"):
        assert not trace.get_current_span().get_span_context().is_valid
    script.observe("call_a")
    script.end_stream()
    script.end()
    assert trace.get_current_span() is before


def test_pipelines_are_observed_by_default_only_if_the_program_has_a_provider(
    no_global_provider: None, spans: Spans
) -> None:
    assert default_observers() == []
    trace.set_tracer_provider(spans.provider)
    (tracing,) = default_observers()
    Script(tracing).whole_step()
    assert len(spans.all) == 4


def test_a_program_that_switched_tracing_off_is_not_observed(no_global_provider: None) -> None:
    trace.set_tracer_provider(trace.NoOpTracerProvider())
    assert default_observers() == []


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
