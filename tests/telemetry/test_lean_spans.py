"""Lean spans are exported as the SDK's own would be, and what is sampled out costs nothing below its root."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Span, Status, StatusCode, TraceState
from scripted import CountingIds, Script, capturing
from streams import anthropic

from streamtools import Deny, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import ToolFailed
from streamtools.events import StepEnd, StepStart
from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing, lean_spans, tracing
from streamtools.telemetry.lean_spans import LeanSpan
from streamtools.telemetry.setup import to_otlp

CLOCK_NS = 1_800_000_000_000_000_000


@pytest.fixture(autouse=True)
def _clocks_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two observers of one run would have two offsets between the clocks."""
    still = SimpleNamespace(time_ns=lambda: CLOCK_NS, monotonic_ns=lambda: 0, monotonic=lambda: 5.0)
    monkeypatch.setattr(tracing, "time", still)
    monkeypatch.setattr(lean_spans, "time", still)
    monkeypatch.setattr(sdk, "time_ns", still.time_ns)


class OwnSpans(trace.Tracer):
    """A tracer whose spans are the SDK's own, as a wrapper's are."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self.start_span = tracer.start_span  # type: ignore[method-assign]
        self.start_as_current_span = tracer.start_as_current_span  # type: ignore[method-assign]

    def start_span(self, *_: Any, **options: Any) -> Any: ...

    def start_as_current_span(self, *_: Any, **options: Any) -> Any: ...


class Exported:
    """A provider with ids that are counted, and what it exports; with `full` all its spans are the SDK's own."""

    def __init__(self, *, full: bool = False, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(
            resource=Resource({"service.name": "tests"}), id_generator=CountingIds(), shutdown_on_exit=False, **options
        )
        provider.add_span_processor(Recorded(self.exporter))
        self.provider: Any = provider
        if full:
            self.provider = SimpleNamespace(get_tracer=lambda *names, **_: OwnSpans(provider.get_tracer(*names)))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def shown(self) -> list[object]:
        """All that is in the spans, in the order of their ends."""
        return [
            (
                span.to_json(), span.context, span.parent, span.instrumentation_scope, span.resource,
                (span.dropped_attributes, span.dropped_events, span.dropped_links),
                [link.dropped_attributes for link in span.links], [event.dropped_attributes for event in span.events],
            )
            for span in self.spans
        ]  # fmt: skip


class Recorded(SpanProcessor):
    """Exports all spans that are recorded, sampled or not, with what is known at their begin as an attribute."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        known = (span.name, str(span.kind), span.start_time, len(span.links), len(span.attributes), str(span.parent))
        span.set_attribute("at.start", [str(one) for one in (*known, *baggage.get_all(parent_context))])

    def on_end(self, span: ReadableSpan) -> None:
        self.exporter.export((span,))


class Deciding(Sampler):
    """Decides by the name, and marks what it keeps with what a sampler may look at."""

    def __init__(self, **decisions: Decision) -> None:
        self.decisions = decisions
        self.asked: list[str] = []

    def should_sample(
        self,
        parent_context: Any,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        self.asked.append(name)
        marks = {"seen": [str(kind), len(attributes or ()), len(links or ()), *baggage.get_all(parent_context)]}
        decision = self.decisions.get(name.rpartition(" ")[2], Decision.RECORD_AND_SAMPLE)
        return SamplingResult(decision, {**(attributes or {}), **marks}, TraceState([("rule", name.partition(" ")[0])]))

    def get_description(self) -> str:
        return "Deciding"


# -- the same, whoever records it --------------------------------------------------------------------------------------


@tool(effect="idempotent", retries=1, retry_delay_s=0.001)
async def look_up(key: str) -> str:
    """Look something up."""
    CURRENT.append(trace.get_current_span())
    if len(CURRENT) == 1:
        raise ConnectionError("no answer")
    return key


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    CURRENT.append(trace.get_current_span())
    return "paid"


CURRENT: list[Span] = []
CALLS = [
    ("c1", "look_up", '{"key": "Größe \\ud83d"}'),
    ("c2", "pay", '{"amount": 5}'),
    ("c3", "pay", '{"amount": 6}'),
    ("c4", "look_up", '{"key": 5}'),
    ("c5", "fly", "{}"),
]


@pytest.mark.anyio
async def test_a_run_is_exported_the_same_through_lean_spans_as_through_the_sdks_own() -> None:
    for content in (False, True):
        CURRENT.clear()
        full, lean = Exported(full=True), Exported()
        bodies = iter([anthropic(["Hm."], CALLS), anthropic(["Done."], stop="end_turn")])
        await agent_loop(
            lambda messages, tools: next(bodies), [], tools=[look_up, pay], wire="anthropic.messages",
            approve=lambda request: Deny("too much") if request.call_id == "c3" else True,
            trajectory=Trajectory(
                name="guide", conversation_id="c7", privacy=Privacy(content_in_spans=content),
                observers=[Tracing(full.provider), Tracing(lean.provider)],
            ),
        )  # fmt: skip
        assert [type(span) for span in CURRENT] == [LeanSpan] * 3
        assert {span.name.partition(" ")[0] for span in full.spans} >= {
            "invoke_agent", "streamtools.step", "chat", "execute_tool", "streamtools.approval",
        }  # fmt: skip
        assert lean.shown() == full.shown()
        assert to_otlp(lean.spans) == to_otlp(full.spans)


ODD = object()


def adds(span: Span, link: trace.SpanContext, many: int = 0) -> None:
    """What a tool may do with its span."""
    assert span.get_span_context().is_valid
    span.set_attribute("app.rows", 3)
    span.set_attribute("streamtools.run.id", "mine")
    span.set_attributes({"app.list": [1, 2], "app.mixed": (1, "x"), "app.odd": ODD, "": 1, "app.text": "x" * 40})  # type: ignore[dict-item]
    span.set_attributes({f"app.{number}": number for number in range(many)})
    for number in range(3 + many):
        span.add_event("row", {"number": number, "text": "y" * 40}, timestamp=CLOCK_NS + number)
        span.add_link(link, {"number": number})
    span.add_event("now")
    span.add_link(link, {"why": "z" * 40})
    span.add_link(trace.INVALID_SPAN_CONTEXT)
    span.record_exception(KeyError("k"), {"app.more": True})
    span.set_status(Status(StatusCode.ERROR, "first"))
    span.set_status(StatusCode.ERROR, "second")
    span.set_status(Status(StatusCode.UNSET))
    span.update_name("renamed")


def drawn(
    exported: Exported, messages: Callable[[], Iterable[str]], wanted: Mapping[str, bool] | None, many: int
) -> tuple[list[object], list[str]]:
    """Draws two steps whose tools add to their spans: while they run, and too late."""
    token = otel_context.attach(baggage.set_baggage("tenant", "7"))
    link = trace.SpanContext(1, 2, is_remote=True)
    try:
        observer = capturing(exported.provider, capture=True, spans=wanted)
        script = Script.started(observer)
        for index, name in enumerate(("alpha", "beta", "gamma")):
            script.call(name, name, index=index)
            script.run(name, name)
        held = []
        for name in ("alpha", "beta"):
            with observer.around_tool(name):
                held.append(trace.get_current_span())
                adds(held[-1], link, many)
                exported.provider.get_tracer("app").start_span(f"query of {name}").end()
        with observer.around_tool("gamma"), pytest.raises(ValueError, match="left"), trace.get_current_span():
            raise ValueError("left")
        held[0].set_status(StatusCode.OK)
        script.observe("alpha", name="alpha")
        script.observe("beta", "failed", name="beta", index=1, error=ToolFailed("the tool raised"))
        seqs = [script.observe("gamma", name="gamma", index=2)]
        seqs += [script.cut_call(f"call_{number}") for number in range(many)]
        script.end_step()
        for span in held:
            assert not span.is_recording()
            adds(span, link)
            span.end()
        script.whole_step(causes=tuple(seqs))
    finally:
        otel_context.detach(token)
    return exported.shown(), list(messages())


def test_a_span_keeps_the_limits_the_samplers_marks_and_the_rules_of_the_sdk(caplog: pytest.LogCaptureFixture) -> None:
    def messages() -> Iterable[str]:
        found = [record.getMessage() for record in caplog.records if record.name == "opentelemetry.sdk.trace"]
        caplog.clear()
        return found

    cases: list[dict[str, Any]] = [
        {},
        {"span_limits": SpanLimits(max_attributes=SpanLimits.UNSET)},
        *({"span_limits": SpanLimits(**limits)} for limits in NARROW),
        {"sampler": Deciding()},
        {"sampler": Deciding(beta=Decision.DROP)},
        {"sampler": Deciding(alpha=Decision.RECORD_ONLY, beta=Decision.RECORD_ONLY)},
        {"sampler": ParentBased(Deciding())},
    ]
    caplog.set_level(logging.DEBUG, logger="opentelemetry")
    for case in cases:
        for wanted, many in ((None, 0), ({"step": False}, 70), ({"chat": False}, 130), (None, 130)):
            if "span_limits" in case and many:
                continue
            full = drawn(Exported(full=True, **case), messages, wanted, many)
            lean = drawn(Exported(**case), messages, wanted, many)
            assert lean == full, (case, wanted)
            assert any("ended span" in message for message in lean[1])


# -- where the SDK's own spans are needed ------------------------------------------------------------------------------


NARROW: list[dict[str, Any]] = [
    {"max_span_attributes": 5},
    {"max_attributes": 0},
    {"max_span_attribute_length": 4},
    {"max_attribute_length": 3},
    {"max_events": 2},
    {"max_links": 9},
    {"max_event_attributes": 1},
    {"max_link_attributes": 0},
]


def test_spans_are_the_sdks_own_where_its_limits_are_narrow_or_it_counts_them_or_others_wrap_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_lean(provider: Any) -> bool:
        observer = Tracing(provider)
        script = Script.started(observer)
        script.call("call_a")
        script.run("call_a")
        with observer.around_tool("call_a"):
            span = trace.get_current_span()
        script.observe("call_a")
        script.end()
        return isinstance(span, LeanSpan)

    assert is_lean(Exported().provider)
    assert is_lean(TracerProvider(shutdown_on_exit=False))
    assert not is_lean(Exported(full=True).provider)
    for limits in NARROW:
        assert not is_lean(TracerProvider(span_limits=SpanLimits(**limits), shutdown_on_exit=False)), limits
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "True")
    assert not is_lean(TracerProvider(shutdown_on_exit=False))


# -- sampled out -------------------------------------------------------------------------------------------------------


@tool(effect="pure")
def in_thread(key: str) -> str:
    """Look from a thread."""
    CURRENT.append(trace.get_current_span())
    return key


@pytest.mark.anyio
async def test_a_sampler_is_asked_once_for_what_it_drops_and_the_tools_spans_are_dropped_too() -> None:
    calls = [("c1", "look_up", '{"key": "a"}'), ("c2", "in_thread", '{"key": "b"}'), ("c3", "fly", "{}")]
    for run_name in ("guide", None):
        CURRENT[:] = [trace.INVALID_SPAN]
        sampler = Deciding(**{"guide": Decision.DROP, "streamtools.step": Decision.DROP})
        exported = Exported(full=True, sampler=ParentBased(sampler))
        observer = Tracing(exported.provider)
        if run_name is None:
            await pipeline(anthropic([], calls), tools=[look_up, in_thread], observers=[observer])
        else:
            bodies = iter([anthropic([], calls), anthropic(["Done."], stop="end_turn")])
            await agent_loop(
                lambda messages, tools: next(bodies), [], tools=[look_up, in_thread], wire="anthropic.messages",
                trajectory=Trajectory(name=run_name, observers=[observer]),
            )  # fmt: skip
        assert sampler.asked == ["streamtools.step" if run_name is None else "invoke_agent guide"]
        assert exported.spans == ()
        assert len(CURRENT) == 3
        root, other = (span.get_span_context() for span in CURRENT[1:])
        assert other == root
        assert root.is_valid
        assert not root.trace_flags.sampled
        traceparent = observer.traceparent()
        assert traceparent == f"00-{trace.format_trace_id(root.trace_id)}-{trace.format_span_id(root.span_id)}-00"


def test_a_step_that_is_sampled_out_asks_for_its_end_alone() -> None:
    exported = Exported(sampler=ALWAYS_OFF)
    observer = Tracing(exported.provider)
    script = Script(observer)
    everything = observer.event_types
    script.start()
    assert set(observer.event_types or ()) == {StepStart, StepEnd}
    script.call("call_a")
    script.run("call_a")
    with observer.around_tool("call_a"):
        child = exported.provider.get_tracer("app").start_span("query")
        assert not child.is_recording()
    script.observe("call_a")
    script.end_step()
    assert observer.event_types == everything
    assert exported.spans == ()
