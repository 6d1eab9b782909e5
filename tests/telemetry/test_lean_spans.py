"""Lean spans are exported as the SDK's own would be, and what is sampled out costs nothing below its root."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Span, Status, StatusCode, TraceState
from scripted import CountingIds, Ledger, Script, capturing
from streams import anthropic

from streamtools import Deny, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import ToolFailed
from streamtools.events import Event, Observation, StepEnd, StepStart
from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing, lean_spans, tracing
from streamtools.telemetry.lean_spans import LeanSpan, lean_tracer
from streamtools.telemetry.setup import configure, to_jaeger

CLOCK_NS = 1_800_000_000_000_000_000


@pytest.fixture(autouse=True)
def _clocks_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two observers of one run would have two offsets between the clocks."""
    still = SimpleNamespace(time_ns=lambda: CLOCK_NS, monotonic_ns=lambda: 0, monotonic=lambda: 5.0)
    monkeypatch.setattr(tracing, "time", still)
    monkeypatch.setattr(lean_spans, "time", still)
    monkeypatch.setattr(sdk, "time_ns", still.time_ns)


class Exported:
    """A provider with ids that are counted, and what it exports; with a ledger it needs the SDK's own spans."""

    def __init__(self, *, full: bool = False, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(
            resource=Resource({"service.name": "tests"}), id_generator=CountingIds(), shutdown_on_exit=False, **options
        )
        self.provider.add_span_processor(Recorded(self.exporter))
        if full:
            self.provider.add_span_processor(Ledger())

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
    """Exports all spans that are recorded, sampled or not."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter

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
        assert len(CURRENT) == 3
        assert {type(span) for span in CURRENT} == {LeanSpan}
        assert {span.name.partition(" ")[0] for span in full.spans} >= {
            "invoke_agent", "streamtools.step", "chat", "execute_tool", "streamtools.approval",
        }  # fmt: skip
        assert lean.shown() == full.shown()
        assert to_jaeger(lean.spans) == to_jaeger(full.spans)


ODD = object()


def adds(span: Span, link: trace.SpanContext) -> None:
    """What a tool may do with its span."""
    assert span.get_span_context().is_valid
    span.set_attribute("app.rows", 3)
    span.set_attribute("streamtools.run.id", "mine")
    span.set_attributes({"app.list": [1, 2], "app.mixed": (1, "x"), "app.odd": ODD, "": 1, "app.text": "x" * 40})  # type: ignore[dict-item]
    for number in range(3):
        span.add_event("row", {"number": number, "text": "y" * 40}, timestamp=CLOCK_NS + number)
    span.add_event("now")
    span.add_link(link, {"why": "z" * 40})
    span.add_link(trace.INVALID_SPAN_CONTEXT)
    span.record_exception(KeyError("k"), {"app.more": True})
    span.set_status(Status(StatusCode.ERROR, "first"), "ignored")
    span.set_status(StatusCode.ERROR, "second")
    span.set_status(Status(StatusCode.UNSET))
    span.update_name("renamed")


def drawn(
    exported: Exported, messages: Callable[[], Iterable[str]], wanted: Mapping[str, bool] | None
) -> tuple[list[object], list[str]]:
    """Draws two steps whose tools add to their spans: while they run, and too late."""
    token = otel_context.attach(baggage.set_baggage("tenant", "7"))
    link = trace.SpanContext(1, 2, is_remote=True)
    try:
        observer = capturing(exported.provider, capture=True, spans=wanted)
        script = Script(observer)
        script.start()
        for index, name in enumerate(("alpha", "beta", "gamma")):
            script.call(name, name, index=index)
            script.run(name, name)
        held = []
        for name in ("alpha", "beta"):
            with observer.around_tool(name):
                held.append(trace.get_current_span())
                adds(held[-1], link)
                exported.provider.get_tracer("app").start_span(f"query of {name}").end()
        with observer.around_tool("gamma"), pytest.raises(ValueError, match="left"), trace.get_current_span():
            raise ValueError("left")
        held[0].set_status(StatusCode.OK)
        script.observe("alpha", name="alpha")
        script.observe("beta", "failed", name="beta", index=1, error=ToolFailed("the tool raised"))
        seq = script.observe("gamma", name="gamma", index=2)
        script.end_stream()
        script.end()
        for span in held:
            assert not span.is_recording()
            adds(span, link)
            span.end()
        script.whole_step(causes=(seq,))
    finally:
        otel_context.detach(token)
    return exported.shown(), list(messages())


def test_a_span_keeps_the_limits_the_samplers_marks_and_the_rules_of_the_sdk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def messages() -> Iterable[str]:
        found = [record.getMessage() for record in caplog.records if record.name == "opentelemetry.sdk.trace"]
        caplog.clear()
        return found

    cases: list[dict[str, Any]] = [
        {},
        *(
            {"span_limits": SpanLimits(**limits)}
            for limits in (
                {"max_span_attributes": 5},
                {"max_span_attributes": 19},
                {"max_attributes": 0},
                {"max_span_attribute_length": 4},
                {"max_attribute_length": 3},
                {"max_events": 2, "max_links": 1},
                {"max_links": 0, "max_event_attributes": 1},
                {"max_link_attributes": 0},
            )
        ),
        {"sampler": Deciding()},
        {"sampler": Deciding(beta=Decision.DROP)},
        {"sampler": Deciding(alpha=Decision.RECORD_ONLY, beta=Decision.RECORD_ONLY)},
        {"sampler": ParentBased(Deciding())},
    ]
    caplog.set_level(logging.DEBUG, logger="opentelemetry")
    for case in cases:
        for wanted in (None, {"step": False}, {"chat": False}):
            full = drawn(Exported(full=True, **case), messages, wanted)
            lean = drawn(Exported(**case), messages, wanted)
            assert lean == full, (case, wanted)
            assert any("ended span" in message for message in lean[1])


# -- where the SDK's own spans are needed ------------------------------------------------------------------------------


class EndsAlone(SimpleSpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        super().on_end(span)


class AtItsEnding(SpanProcessor):
    def _on_ending(self, span: Any) -> None:
        span.set_attribute("late", True)


def is_lean(*processors: SpanProcessor, provider: Any = None, tracer_provider: Any = None) -> bool:
    provider = provider or TracerProvider(shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    observer = Tracing(tracer_provider or provider)
    script = Script(observer)
    script.start()
    script.call("call_a")
    script.run("call_a")
    with observer.around_tool("call_a"):
        span = trace.get_current_span()
    script.observe("call_a")
    script.end()
    assert isinstance(span, (LeanSpan, ReadableSpan))
    return isinstance(span, LeanSpan)


def test_spans_are_the_sdks_own_where_anybody_looks_at_them_before_their_end() -> None:
    exporter = InMemorySpanExporter()
    batch = BatchSpanProcessor(exporter)
    marked = SimpleSpanProcessor(exporter)
    marked.on_start = lambda span, parent_context=None: span.set_attribute("marked", True)  # type: ignore[method-assign]
    within = sdk.SynchronousMultiSpanProcessor()
    within.add_span_processor(Ledger())
    quiet = sdk.ConcurrentMultiSpanProcessor()
    quiet.add_span_processor(EndsAlone(exporter))
    concurrent = TracerProvider(shutdown_on_exit=False, active_span_processor=sdk.ConcurrentMultiSpanProcessor())
    wrapped = TracerProvider(shutdown_on_exit=False)
    telemetry = configure("memory", set_global=False)
    try:
        assert is_lean()
        assert is_lean(SimpleSpanProcessor(exporter), batch, EndsAlone(exporter), quiet)
        assert is_lean(provider=concurrent)
        assert is_lean(provider=telemetry.provider)
        assert not is_lean(SimpleSpanProcessor(exporter), Ledger())
        assert not is_lean(within)
        assert not is_lean(marked)
        assert not is_lean(AtItsEnding())
        assert not is_lean(Ledger(), provider=concurrent)

        class Wrapper(trace.Tracer):
            start_span = wrapped.get_tracer("streamtools").start_span
            start_as_current_span = wrapped.get_tracer("streamtools").start_as_current_span

        assert not is_lean(tracer_provider=SimpleNamespace(get_tracer=lambda *args, **options: Wrapper()))
        # A processor that comes later is respected from the next step on.
        provider = TracerProvider(shutdown_on_exit=False)
        assert is_lean(provider=provider)
        assert not is_lean(Ledger(), provider=provider)
    finally:
        telemetry.shutdown()
        batch.shutdown()


def test_spans_are_the_sdks_own_where_the_sdk_is_not_the_one_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def tracer() -> Any:
        return TracerProvider(shutdown_on_exit=False).get_tracer("streamtools")

    assert lean_tracer(tracer()) is not None
    for name in lean_spans._TRACER:
        lacking = tracer()
        delattr(lacking, name)
        assert lean_tracer(lacking) is None, name
    for name in lean_spans._LIMITS:
        lacking = tracer()
        delattr(lacking._span_limits, name)
        assert lean_tracer(lacking) is None, name
    counting = tracer()
    counting._tracer_metrics = SimpleNamespace()
    assert lean_tracer(counting) is None
    lacking = tracer()
    monkeypatch.delattr(lacking.span_processor, "_span_processors")
    assert lean_tracer(lacking) is None
    with monkeypatch.context() as patched:
        patched.setattr(lean_spans, "ReadableSpan", lambda name, context: None)
        assert not is_lean()
    assert is_lean()
    monkeypatch.setitem(sys.modules, "streamtools.telemetry.lean_spans", None)
    assert not is_lean()


# -- sampled out -------------------------------------------------------------------------------------------------------


@tool(effect="pure")
def in_thread(key: str) -> str:
    """Look from a thread."""
    CURRENT.append(trace.get_current_span())
    return key


@pytest.mark.anyio
async def test_a_sampler_is_asked_once_for_what_it_drops_and_the_tools_spans_are_dropped_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = [("c1", "look_up", '{"key": "a"}'), ("c2", "in_thread", '{"key": "b"}'), ("c3", "fly", "{}")]
    caplog.set_level(logging.INFO, logger="calls")
    for run_name in ("guide", None):
        CURRENT[:] = [trace.INVALID_SPAN]
        caplog.clear()
        sampler = Deciding(**{"guide": Decision.DROP, "streamtools.step": Decision.DROP})
        exported = Exported(full=True, sampler=ParentBased(sampler))
        observer = Tracing(exported.provider, logger=logging.getLogger("calls"))
        if run_name is None:
            async with pipeline(anthropic([], calls), tools=[look_up, in_thread], observers=[observer]) as events:
                async for _ in events:
                    pass
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
        assert sorted(vars(record)["call_id"] for record in caplog.records) == ["c1", "c2", "c3"]
        assert {vars(record)["span_id"] for record in caplog.records} == {trace.format_span_id(root.span_id)}


def test_a_step_that_is_sampled_out_asks_for_its_end_and_for_what_is_logged() -> None:
    exported = Exported(sampler=ALWAYS_OFF)
    ends: set[type[Event]] = {StepStart, StepEnd}
    for logger, wanted in ((None, ends), (logging.getLogger("calls"), ends | {Observation})):
        observer = Tracing(exported.provider, logger=logger)
        script = Script(observer)
        everything = observer.event_types
        script.start()
        assert set(observer.event_types or ()) == wanted
        script.call("call_a")
        script.run("call_a")
        with observer.around_tool("call_a"):
            child = exported.provider.get_tracer("app").start_span("query")
            assert not child.is_recording()
        script.observe("call_a")
        script.end_stream()
        script.end()
        assert observer.event_types == everything
        assert exported.spans == ()
