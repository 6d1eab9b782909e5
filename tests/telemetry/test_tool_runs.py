"""A span `execute_tool` is a run of a tool, and there for no call that did not run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from opentelemetry.trace import StatusCode
from scripted import Spans
from streams import anthropic, key_of, stream

from streamtools import Deny, Limits, Trajectory, pipeline, run_calls, tool
from streamtools.dispatch import Claimed, MemoryStore
from streamtools.seams import call_fingerprint as fingerprint
from streamtools.telemetry import Tracing
from streamtools.tools import RunCall, ToolCallRequest

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
RAN = {"answer ok", "fail failed", "hang timed_out", "flaky ok", "pay ok", "book ok"}
DID_NOT = {
    "pay denied": "not run: it was denied",
    "pay skipped": "not run: it waits for an approval",
    "pay invalid": "not run: its arguments do not fit the tool's schema",
    "nothing unknown_tool": "not run: no tool has this name",
    "book unknown": "outcome unknown: it may or may not have run",
    "book ok": "not run again: its end is recorded",
    "answer skipped": "not run: its turn ended by length",
    "answer over_budget": "not run: the budget is spent",
}


async def test_runs_of_tools_have_spans_and_other_calls_are_points_with_a_reason(spans: Spans) -> None:
    TRIES.clear()
    store = MemoryStore()
    run = Trajectory(observers=[Tracing(spans.provider)], run_id="r")
    key = key_of("c11", response="msg_1")
    assert isinstance(await store.claim(key, fingerprint("book", {})), Claimed)  # by one that has died since

    def approve(request: Any) -> bool | Deny | None:
        return {"denied": Deny("no"), "pending": None, "ok": True}[request.arguments["to"]]

    cut = anthropic([], [("c1", "answer", "{}")], stop="max_tokens")
    for body, options in (
        (anthropic(["Well."], CALLS), {"approve": approve, "store": store}),
        (cut, {"start": "turn_end"}),
        (anthropic([], [("c1", "answer", "{}")]), {"limits": Limits(call_budget=1)}),
    ):
        await pipeline(stream(body), tools=TOOLS, trajectory=run, **options)
    again = Trajectory(observers=run.observers, default_observers=False, run_id="r")
    await pipeline(stream(anthropic([], [("c10", "book", "{}")])), tools=TOOLS, trajectory=again, store=store)

    said = {span: dict(span.attributes or {}) for span in spans.tools()}
    ran = {span: found for span, found in said.items() if span.name.startswith("execute_tool")}
    assert {f"{found['gen_ai.tool.name']} {found['streamtools.call.outcome']}" for found in ran.values()} == RAN
    assert len(ran) == len(RAN)
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


async def test_a_call_that_is_left_to_the_caller_is_a_point_and_no_error(spans: Spans) -> None:
    body = anthropic([], [("c1", "answer", "{}"), ("c2", "book", "{}")])
    await pipeline(stream(body), tools=TOOLS, start="pure", observers=[Tracing(spans.provider)])
    left = spans.named("streamtools.call book")
    assert spans.names() == ["chat c", "execute_tool answer", "streamtools.call book", "streamtools.step"]
    assert left.status.status_code is StatusCode.UNSET
    assert (left.attributes or {})["streamtools.call.reason"] == "not run here: the caller runs it"
    assert "streamtools.call.outcome" not in (left.attributes or {})


async def test_a_call_that_its_middleware_answers_has_a_span_without_attempts(spans: Spans) -> None:
    async def cached(call: ToolCallRequest, run: RunCall) -> int:
        return 7

    tracing = Tracing(tracer_provider=spans.provider)
    await run_calls([("a", "answer", {})], [answer], observers=[tracing], middleware=cached)
    (span,) = spans.tools()
    told = span.attributes or {}
    assert (told["streamtools.call.outcome"], told["streamtools.tool.attempts"]) == ("ok", 0)
    assert (span.name, told["streamtools.call.reason"]) == (
        "streamtools.call answer",
        "not run: its result was passed in",
    )
