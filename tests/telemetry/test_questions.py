"""The questions that a person has at night, answered from the file for Jaeger's UI: spans, references, tags, logs.

Each test is a row of the table in ``docs/observability.md``.
"""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest
from decisions import decisions_on
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from streams import anthropic

from streamtools import Deny, Limits, Suspended, Trajectory, agent_loop, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.telemetry import Tracing
from streamtools.telemetry.setup import to_jaeger

pytestmark = pytest.mark.anyio

WIRE = "anthropic.messages"
ENDS = anthropic(["It is planned."], stop="end_turn")


def asks(name: str, arguments: str, stop: str = "tool_use") -> list[bytes]:
    return anthropic([], [("c1", name, arguments)], stop=stop)


class Jaeger:
    """A file for Jaeger's UI, as its reader sees it."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        document = to_jaeger(exporter.get_finished_spans())
        self.spans = [span for found in document["data"] for span in found["spans"]]

    def span(self, name: str, **tags: Any) -> dict[str, Any]:
        found = [
            span
            for span in self.spans
            if span["operationName"] == name and all(self.tag(span, key) == value for key, value in tags.items())
        ]
        assert len(found) == 1, [span["operationName"] for span in self.spans]
        return found[0]

    def tag(self, span: dict[str, Any], key: str) -> Any:
        return next((tag["value"] for tag in span["tags"] if tag["key"] == key), None)

    def led_to_by(self, span: dict[str, Any], how: str) -> list[str]:
        """The names of the spans that a link of this kind leads to."""
        ids = [
            reference["spanID"]
            for reference in span["references"]
            if reference["refType"] == "FOLLOWS_FROM"
            and any(tag["key"] == "streamtools.link.type" and tag["value"] == how for tag in reference.get("tags", []))
        ]
        return [other["operationName"] for other in self.spans for wanted in ids if other["spanID"] == wanted]

    def below(self, span: dict[str, Any]) -> str:
        parents = [one["spanID"] for one in span["references"] if one["refType"] == "CHILD_OF"]
        return next(other["operationName"] for other in self.spans if [other["spanID"]] == parents)

    def logs(self, span: dict[str, Any], event: str) -> list[dict[str, Any]]:
        told = [{field["key"]: field["value"] for field in log["fields"]} for log in span["logs"]]
        return [fields for fields in told if fields.get("event") == event]


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather."""
    return f"rain in {city}"


@tool(effect="idempotent", retries=2, retry_delay_s=0.002)
async def get_rate(currency: str) -> float:
    """Get the rate."""
    FAILURES.append(currency)
    if len(FAILURES) == 1:
        raise ConnectionError("the bank does not answer")
    return 1.08


@tool(effect="once", conflict_key=lambda people: "desk")
async def book(people: int) -> str:
    """Book a table."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    await anyio.sleep(0.003)
    return "booked"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return "paid"


FAILURES: list[str] = []


async def ran(*bodies: list[bytes], tracing: dict[str, Any] | None = None, **options: Any) -> Jaeger:
    """Runs a loop, and returns what Jaeger would show of it."""
    FAILURES.clear()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    left = iter([*bodies, ENDS])
    await agent_loop(
        lambda messages, tools: next(left), [], tools=[get_weather, get_rate, book, pay], wire=WIRE,
        trajectory=Trajectory(name="guide", observers=[Tracing(provider, **(tracing or {}))]), **options,
    )  # fmt: skip
    return Jaeger(exporter)


async def test_which_response_caused_this_call() -> None:
    jaeger = await ran(anthropic(["Looking."], [("c1", "get_weather", '{"city": "Oslo"}')]))
    call = jaeger.span("execute_tool get_weather")
    assert jaeger.led_to_by(call, "proposed_by") == ["chat c"]
    assert jaeger.below(call) == "streamtools.step"


async def test_which_results_fed_this_answer() -> None:
    calls = [("c1", "get_weather", '{"city": "Oslo"}'), ("c2", "get_rate", '{"currency": "EUR"}')]
    jaeger = await ran(anthropic([], calls))
    chats = [span for span in jaeger.spans if span["operationName"] == "chat c"]
    fed = [sorted(jaeger.led_to_by(chat, "observed")) for chat in chats]
    assert sorted(fed) == [[], ["execute_tool get_rate", "execute_tool get_weather"]]


async def test_what_a_call_waited_for() -> None:
    calls = [("c1", "book", '{"people": 2}'), ("c2", "book", '{"people": 4}')]
    jaeger = await ran(anthropic([], calls))
    waits = [span for span in jaeger.spans if span["operationName"] == "streamtools.wait book"]
    reasons = {jaeger.tag(span, "streamtools.wait.reason"): span["duration"] for span in waits}
    assert reasons["key"] >= 3000
    assert {jaeger.tag(span, "streamtools.tool.name") for span in waits} == {"book"}


async def test_what_a_person_decided_and_how_long_that_took() -> None:
    jaeger = await ran(
        anthropic([], [("c1", "pay", '{"amount": 5}')]), approve=lambda request: Deny("too much"), limits=Limits()
    )
    asked = jaeger.span("streamtools.approval pay")
    assert jaeger.tag(asked, "streamtools.approval.verdict") == "denied"
    assert jaeger.tag(asked, "gen_ai.tool.name") is None
    call = jaeger.span("streamtools.call pay")
    assert jaeger.tag(call, "otel.status_description") == "not run: it was denied"


async def test_which_attempt_failed_and_why() -> None:
    jaeger = await ran(anthropic([], [("c1", "get_rate", '{"currency": "EUR"}')]))
    call = jaeger.span("execute_tool get_rate")
    (failed,) = jaeger.logs(call, "streamtools.attempt")
    assert failed["streamtools.attempt.number"] == 1
    assert failed["error.type"] == "ConnectionError"
    assert failed["streamtools.attempt.delay_s"] == pytest.approx(0.002, rel=1)
    assert jaeger.tag(call, "streamtools.call.outcome") == "ok"


@pytest.mark.parametrize(
    ("body", "name", "why"),
    [
        (
            anthropic([], [("c1", "book", '{"people": "x"}')]),
            "book",
            "not run: its arguments do not fit the tool's schema",
        ),
        (anthropic([], [("c1", "fly", "{}")]), "fly", "not run: there is no such tool"),
        (
            anthropic([], [("c1", "book", '{"people": 1}')], stop="max_tokens"),
            "book",
            "not run: its turn ended by length",
        ),
    ],
)
async def test_why_a_call_did_not_run(body: list[bytes], name: str, why: str) -> None:
    jaeger = await ran(body)
    call = jaeger.span(f"streamtools.call {name}")
    assert jaeger.tag(call, "error") is True
    assert jaeger.tag(call, "otel.status_description") == why


async def test_what_it_cost() -> None:
    jaeger = await ran(
        anthropic([], [("c1", "get_weather", '{"city": "Oslo"}')]), tracing={"prices": {"c": {"output_tokens": 1e6}}}
    )
    chats = [span for span in jaeger.spans if span["operationName"] == "chat c"]
    run = jaeger.span("invoke_agent guide")
    for key in ("gen_ai.usage.output_tokens", "streamtools.cost"):
        each = [jaeger.tag(chat, key) for chat in chats]
        assert jaeger.tag(run, key) == sum(each) > 0


async def test_where_the_time_went_before_the_first_chunk() -> None:
    jaeger = await ran()
    chat = jaeger.span("chat c")
    assert jaeger.tag(chat, "gen_ai.response.time_to_first_chunk") >= 0
    step = jaeger.span("streamtools.step")
    assert step["startTime"] <= chat["startTime"]


async def test_what_happened_the_day_before() -> None:
    exporter, provider, store = InMemorySpanExporter(), TracerProvider(), MemoryStore()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    body = anthropic([], [("c1", "pay", '{"amount": 5}')])
    async with agent_loop(
        lambda messages, tools: body, [], tools=[pay], wire=WIRE, store=store,
        trajectory=Trajectory(observers=[Tracing(provider)]),
    ) as loop:  # fmt: skip
        async for _ in loop:
            pass
    assert loop.suspended is not None
    kept = Suspended.from_text(loop.suspended.to_text("k" * 32), "k" * 32)
    before = {span.context.trace_id for span in exporter.get_finished_spans() if span.context is not None}
    await resume(
        kept, tools=[pay], store=store, decisions=decisions_on(kept, {"c1": True}), observers=[Tracing(provider)]
    )
    jaeger = Jaeger(exporter)
    steps = [span for span in jaeger.spans if span["operationName"] == "streamtools.step"]
    resumed = next(span for span in steps if int(span["traceID"], 16) not in before)
    assert jaeger.led_to_by(resumed, "resumes") == ["streamtools.step"]
