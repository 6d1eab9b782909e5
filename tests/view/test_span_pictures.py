"""Pictures of stored spans: as much of a run as they have, whatever the document, and nothing on a stranger's word."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from decisions import decisions_on
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from profiles import examples, mostly_thorough
from streams import chat
from telemetry.scripted import capturing
from view.stored import spellings, to_otlp

from streamtools import Trajectory, agent_loop, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.telemetry import Tracing
from streamtools.telemetry.names import PROFILES
from streamtools.telemetry.setup import to_jaeger
from streamtools.view import draw_traces, is_trace, page


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


USAGE = (
    b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,'
    b'"prompt_tokens_details":{"cache_write_tokens":3}}}\n\n'
)
*_SAID, _DONE = chat(
    ["Adding."], [("c1", "add", '{"a": 1, "b": 2}'), ("c2", "fail", "{}"), ("c3", "nothing", "{}"), ("c4", "pay", "{}")]
)
BODY = [*_SAID, USAGE, _DONE]


def collecting() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


async def spans(*, capture: bool = True, names: str = "semconv-1.41") -> Sequence[ReadableSpan]:
    provider, exporter = collecting()
    tracing = capturing(provider, capture=capture, names=names)
    async with pipeline(BODY, tools=[add, fail, pay], approve=lambda _: True, observers=[tracing]) as events:
        async for _ in events:
            pass
    return exporter.get_finished_spans()


async def document(*, capture: bool = True) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(to_jaeger(await spans(capture=capture))))
    return read


@pytest.mark.anyio
async def test_every_spelling_of_otlp_becomes_the_picture_that_jaegers_document_becomes() -> None:
    for names in PROFILES:
        collected = await spans(names=names)
        known = draw_traces(to_jaeger(collected)).patch()
        assert "ValueError" in known["calls"][1]["error"]
        assert known["steps"][0]["usage"]["cache_write_input_tokens"] == 3
        for spelling, written in spellings(collected).items():
            assert is_trace(written), spelling
            assert draw_traces(written).patch() == known, (names, spelling)


@pytest.mark.anyio
async def test_a_run_that_was_resumed_days_later_is_one_picture_without_the_days() -> None:
    provider, exporter = collecting()
    run, store = Trajectory(name="trip", observers=[Tracing(provider)]), MemoryStore()
    body = chat([], [("c1", "pay", "{}")])
    async with agent_loop(
        lambda *_: body, [], tools=[pay], wire="openai.chat_completions", store=store, trajectory=run
    ) as loop:
        _ = [seen async for seen in loop]
    assert loop.suspended is not None
    asked, decisions = exporter.get_finished_spans(), decisions_on(loop.suspended, {"c1": True})
    exporter.clear()
    await resume(loop.suspended, tools=[pay], store=store, decisions=decisions, observers=[Tracing(provider)])
    first, second = to_otlp(asked), to_otlp(exporter.get_finished_spans())
    later = json.loads(json.dumps(second), object_hook=two_days_later)
    both = {"resourceSpans": [*first["resourceSpans"], *later["resourceSpans"]]}
    for documents in ((first, later), (later, first, later), (to_jaeger(asked), later), (both,)):
        picture = draw_traces(*documents)
        assert [(head.run_id, head.name) for head in picture.runs] == [(run.run_id, "trip")] * 2
        assert [step.run for step in picture.steps] == [0, 1]
        assert [head.outcome for head in picture.runs] == ["suspended", None]
        assert picture.patch()["head"]["ends"] == {"ok": 1}  # the call that was resumed is one
        assert [call.call_id for call in picture.calls] == ["c1", "c1"]
        assert picture.calls[1].outcome == "ok"
        assert (picture.steps[0].end or 0) <= picture.steps[1].start < 60
        assert "A pause between traces, of 2 days, 0:00:" in picture.notes[0]
    assert len(draw_traces(first, second).notes) == 1


@pytest.mark.anyio
async def test_a_run_whose_process_died_shows_what_had_ended_and_the_call_whose_end_is_not_known() -> None:
    @tool(effect="once")
    async def send() -> str:
        """Send."""
        return "sent"

    provider, exporter = collecting()
    body = chat(["Sending."], [("c1", "send", "{}"), ("c2", "add", '{"a": 1, "b": 2}')])
    run = Trajectory(name="trip", observers=[Tracing(provider)])
    async with run, pipeline(body, tools=[send, add], store=MemoryStore(), trajectory=run) as events:
        _ = [seen async for seen in events]
    collected = exporter.get_finished_spans()
    whole = draw_traces(to_otlp(collected))
    assert "died" not in str(whole.notes)
    assert [(call.outcome, len(call.tries)) for call in whole.calls] == [("ok", 1)] * 2
    lacking = ("streamtools.step", "invoke_agent", "execute_tool send")
    died = [span for span in collected if not span.name.startswith(lacking)]
    for written in (to_otlp(died), to_jaeger(died)):
        picture = draw_traces(written)
        assert [(head.run_id, head.name) for head in picture.runs] == [(run.run_id, "trip")]
        assert [(step.number, step.outcome, step.model) for step in picture.steps] == [(0, None, "m")]
        calls = {call.name: (call.outcome, len(call.tries)) for call in picture.calls}
        assert calls == {"send": ("unknown", 1), "add": ("ok", 1)}
        assert any("whose process died: 1." in note for note in picture.notes)
        assert page(picture)
    begun = [span for span in died if span.name.startswith("streamtools.begin.run")]
    with pytest.raises(ValueError, match="a run has begun, but no response and no call of it has ended yet"):
        draw_traces(to_otlp(begun))


def two_days_later(held: dict[str, Any]) -> dict[str, Any]:
    return {key: str(int(one) + 2 * 86_400 * 10**9) if key.endswith("UnixNano") else one for key, one in held.items()}


@pytest.mark.anyio
async def test_a_document_becomes_a_picture_with_outcomes_arguments_and_links() -> None:
    read = await document()
    assert is_trace(read)
    picture = draw_traces(read)
    assert {call.name: call.outcome for call in picture.calls} == {
        "add": "ok",
        "fail": "failed",
        "nothing": "unknown_tool",
        "pay": "ok",
    }
    (added,) = [call for call in picture.calls if call.name == "add"]
    assert json.loads(added.arguments or "") == {"a": 1, "b": 2}
    assert added.result == "3"
    assert picture.steps[0].outcome == "complete"
    assert [call.name for call in picture.calls] == ["add", "fail", "nothing", "pay"]
    assert {call.after for call in picture.calls} == {0}
    assert "approval" in [wait.reason for wait in picture.calls[3].waits]
    assert {arrow.source for arrow in picture.arrows} == {"s0"}
    assert any("do not show how texts" in note for note in picture.notes)


@pytest.mark.anyio
async def test_without_captured_content_the_picture_has_outcomes_alone() -> None:
    picture = draw_traces(await document(capture=False))
    assert all(call.arguments is None and call.result is None for call in picture.calls)
    assert {call.outcome for call in picture.calls} == {"ok", "failed", "unknown_tool"}


@pytest.mark.anyio
async def test_spans_of_others_are_counted_and_messages_that_were_cut_left_out() -> None:
    read = await document()
    spans = read["data"][0]["spans"]
    (step,) = [span for span in spans if span["operationName"] == "streamtools.step"]
    parent = {"refType": "CHILD_OF", "traceID": step["traceID"], "spanID": step["spanID"]}
    spans.append({**step, "spanID": "0f", "operationName": "GET /", "references": [parent], "tags": []})
    for span in spans:
        for tag in span["tags"]:
            if tag["key"] == "gen_ai.output.messages":
                tag["value"] = tag["value"][:20]
    picture = draw_traces(read, title="Cut")
    assert picture.pieces == []
    assert any(note.startswith("Spans of other instrumentations") for note in picture.notes)
    assert picture.title == "Cut"


def test_a_document_without_our_spans_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected spans named 'streamtools\.step', got none"):
        draw_traces({"data": [{"spans": []}]})


@pytest.mark.parametrize("other", [[], {}, {"data": 1}, {"data": [1]}, {"data": [{"spans": 3}]}, "text", None])
def test_other_json_is_no_jaeger_document(other: object) -> None:
    assert not is_trace(other)


@pytest.mark.anyio
@pytest.mark.parametrize("seed", mostly_thorough(range(examples(100)), 5))
async def test_a_document_that_was_tampered_with_is_drawn_or_refused(seed: int) -> None:
    """Every value may be of any type: it then counts as missing, and no page breaks."""
    dice = random.Random(seed)
    read = tampered(await document(), dice)
    if not is_trace(read):
        return
    try:
        picture = draw_traces(read)
    except ValueError:
        return
    assert page(picture)


def tampered(value: Any, dice: random.Random) -> Any:
    if dice.random() < 0.03:
        return dice.choice([None, -1, "x", [], {}, True, 1e300, 10**30])
    if isinstance(value, dict):
        return (
            {key: tampered(one, dice) for key, one in value.items()}
            if "data" not in value
            else {"data": [tampered(one, dice) if isinstance(one, dict) else one for one in value["data"]]}
        )
    return [tampered(one, dice) for one in value] if isinstance(value, list) else value


def test_the_golden_document_of_the_exporter_is_drawn() -> None:
    golden = Path(__file__).parent.parent / "telemetry" / "golden"
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(golden.glob("*.json"))]
    drawn = [draw_traces(one) for one in documents if is_trace(one)]
    assert drawn
    assert all(picture.calls for picture in drawn)


@pytest.mark.anyio
async def test_a_document_shows_the_runs_name_the_waits_and_the_attempts_that_failed() -> None:
    left = [ConnectionError("no")]

    @tool(effect="idempotent", retries=1, retry_delay_s=0.001)
    async def rate() -> str:
        """Ask the bank."""
        if left:
            raise left.pop()
        return "1.08"

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    provider, exporter = collecting()
    body = chat([], [("c1", "rate", "{}"), ("c2", "pay", "{}")])
    async with (
        Trajectory(name="trip", observers=[Tracing(provider)]) as run,
        pipeline(body, tools=[rate, pay], approve=lambda _: True, trajectory=run) as events,
    ):
        _ = [seen async for seen in events]
    picture = draw_traces(json.loads(json.dumps(to_jaeger(exporter.get_finished_spans()))))
    assert [head.name for head in picture.runs] == ["trip"]
    assert not [note for note in picture.notes if "other instrumentations" in note]
    asked, paid = (next(call for call in picture.calls if call.name == name) for name in ("rate", "pay"))
    assert [(one.number, one.error) for one in asked.tries] == [(1, "ConnectionError"), (2, None)]
    assert "approval" in [wait.reason for wait in paid.waits]
    assert [wait.start for wait in paid.waits] == sorted(wait.start for wait in paid.waits)
