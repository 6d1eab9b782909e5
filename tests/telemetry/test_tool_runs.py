"""A span `execute_tool` is a run of a tool: as long as metrics say, and there for no call that did not run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode
from scripted import Spans
from streams import anthropic, key_of, sse, stream

from streamtools import Deny, Limits, Trajectory, pipeline, tool
from streamtools.dispatch import MemoryStore
from streamtools.dispatch.store import Claimed
from streamtools.dispatch.store import call_fingerprint as fingerprint
from streamtools.telemetry import Metrics, Tracing

pytestmark = pytest.mark.anyio


@tool(effect="pure")
async def answer() -> int:
    """Answer."""
    return 1


@tool(effect="pure")
async def fail() -> int:
    """Fail."""
    raise ValueError("secret")


@tool(effect="pure", timeout=0.01)
async def hang() -> int:
    """Never return."""
    await anyio.sleep_forever()
    return 1


TRIES: Counter[str] = Counter()


@tool(effect="idempotent", retries=1, retry_delay_s=0.001)
async def flaky() -> int:
    """Fail once."""
    TRIES["flaky"] += 1
    if TRIES["flaky"] == 1:
        raise ConnectionError("no route")
    return 1


@tool(effect="once", needs_approval=True)
async def pay(to: str) -> str:
    """Pay."""
    return to


@tool(effect="once", timeout=0.01)
async def book() -> str:
    """Book."""
    return "booked"


TOOLS = (answer, fail, hang, flaky, pay, book)
CALLS = [
    ("c1", "answer", "{}"), ("c2", "fail", "{}"), ("c3", "hang", "{}"), ("c4", "flaky", "{}"),
    ("c5", "pay", '{"to": "denied"}'), ("c6", "pay", '{"to": "pending"}'), ("c7", "pay", '{"to": "ok"}'),
    ("c8", "pay", "{}"), ("c9", "nothing", "{}"), ("c10", "book", "{}"), ("c11", "book", "{}"),
]  # fmt: skip
SERVER = sse(
    [
        {
            "type": "content_block_start",
            "index": 90,
            "content_block": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        },
        {"type": "content_block_delta", "index": 90, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop", "index": 90},
    ],
    named=True,
)
RAN = {"answer ok", "fail failed", "hang timed_out", "flaky ok", "pay ok", "book ok"}
DID_NOT = {
    "pay denied": "not run: it was denied",
    "pay skipped": "not run: it waits for an approval",
    "pay invalid": "not run: its arguments do not fit the tool's schema",
    "nothing unknown_tool": "not run: there is no such tool",
    "book unknown": "it may or may not have run: its end is not known",
    "book ok": "not run again: its end is on record",
    "answer skipped": "not run: its turn ended by length",
    "answer over_budget": "not run: the budget is spent",
}


async def test_runs_of_tools_are_as_long_as_the_metric_and_other_calls_are_points_with_a_reason(spans: Spans) -> None:
    TRIES.clear()
    reader, store = InMemoryMetricReader(), MemoryStore()
    run = Trajectory(observers=[Tracing(spans.provider), Metrics(MeterProvider([reader]))], run_id="r")
    key = key_of("c11", response="msg_1")
    assert isinstance(await store.claim(key, fingerprint("book", {})), Claimed)  # by one that has died since

    def approve(request: Any) -> bool | Deny | None:
        return {"denied": Deny("no"), "pending": None, "ok": True}[request.arguments["to"]]

    head, *rest = anthropic(["Well."], CALLS)
    cut = anthropic([], [("c1", "answer", "{}")], stop="max_tokens")
    for body, options in (
        ([head, *rest[:-2], *SERVER, *rest[-2:]], {"approve": approve, "store": store}),
        (cut, {"start": "turn_end"}),
        (anthropic([], [("c1", "answer", "{}")]), {"limits": Limits(call_budget=1)}),
    ):
        async with pipeline(stream(body), tools=TOOLS, trajectory=run, **options) as events:
            _ = [seen async for seen in events]
    again = Trajectory(observers=run.observers, default_observers=False, run_id="r")
    async with pipeline(
        stream(anthropic([], [("c10", "book", "{}")])), tools=TOOLS, trajectory=again, store=store
    ) as events:
        _ = [seen async for seen in events]

    said = {span: dict(span.attributes or {}) for span in spans.tools()}
    ran = {span: found for span, found in said.items() if span.name.startswith("execute_tool")}
    assert {f"{found['gen_ai.tool.name']} {found['streamtools.call.outcome']}" for found in ran.values()} == RAN
    assert len(ran) == len(RAN)
    data = reader.get_metrics_data()
    assert data is not None
    points = [
        point
        for scope in data.resource_metrics[0].scope_metrics
        for one in scope.metrics
        if one.name == "gen_ai.execute_tool.duration"
        for point in one.data.data_points
    ]
    assert sum(getattr(point, "count", 0) for point in points) == len(ran)
    drawn = sum((span.end_time or 0) - (span.start_time or 0) for span in ran) / 1e9
    assert drawn == pytest.approx(sum(getattr(point, "sum", 0) for point in points), abs=2e-9 * len(ran))

    others = {span: found for span, found in said.items() if span not in ran}
    reasons = {
        f"{found['streamtools.tool.name']} {found['streamtools.call.outcome']}": found["streamtools.call.reason"]
        for found in others.values()
    }
    assert reasons == DID_NOT
    for span, found in others.items():
        assert span.start_time == span.end_time
        harmless = found["streamtools.call.reason"] in (DID_NOT["pay skipped"], DID_NOT["book ok"])
        assert span.status.status_code is (StatusCode.UNSET if harmless else StatusCode.ERROR), found
        assert span.status.description == (None if harmless else found["streamtools.call.reason"])
    assert not [span for span in spans.all if "web_search" in span.name], "the provider ran it"
    by_id = {span.context.span_id: span for span in spans.all if span.context is not None}
    for span in spans.all:
        if span.parent is not None:
            assert (span.end_time or 0) <= (by_id[span.parent.span_id].end_time or 0)


async def test_a_call_that_is_left_to_the_caller_is_a_point_and_no_error(spans: Spans) -> None:
    body = anthropic([], [("c1", "answer", "{}"), ("c2", "book", "{}")])
    async with pipeline(stream(body), tools=TOOLS, start="pure", observers=[Tracing(spans.provider)]) as events:
        _ = [seen async for seen in events]
    left = spans.named("streamtools.call book")
    assert spans.names() == ["chat c", "execute_tool answer", "streamtools.call book", "streamtools.step"]
    assert left.status.status_code is StatusCode.UNSET
    assert (left.attributes or {})["streamtools.call.reason"] == "not run here: it is left to the caller"
    assert "streamtools.call.outcome" not in (left.attributes or {})
