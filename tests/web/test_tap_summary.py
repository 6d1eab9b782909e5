"""What became of the calls under a tap: counted, logged once for each reason, in spans and on the page."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from streams import anthropic
from tapping import CALL, Server, read, tapped

from streamtools.integrations.early_runs import MISSES
from streamtools.observers import EarlyEnd
from streamtools.telemetry import Tracing, configure
from streamtools.telemetry.names import SEMCONV
from streamtools.view import Watch, draw_traces, page

pytestmark = pytest.mark.anyio

TWO = anthropic([], [("c1", "look_up", '{"key": "a"}'), ("c2", "look_up", '{"key": "b"}')])


async def claimed_missed_and_left(server: Server, **options: Any) -> Any:
    """Has one call claimed, one missed and one left; returns the tap."""
    started = anyio.Event()

    async def look_up(key: str) -> str:
        """Looks a key up."""
        started.set()
        await anyio.sleep(0.01)
        return key

    async with tapped(server, **options) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        await started.wait()
        assert await early("a") == "a"
        assert await early("a secret") == "a secret"
    return tap


async def test_calls_are_counted_as_claimed_missed_or_never_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamtools"):
        tap = await claimed_missed_and_left(Server(TWO))
    counts = tap.summary()
    assert (counts.claimed, counts.missed, counts.never_asked, counts.waiting) == (1, {"other_arguments": 1}, 1, 0)
    assert 0 <= counts.seconds_won < 1
    assert str(counts).startswith("1 claimed, 1 missed (other_arguments 1), 1 never asked for, 0 waiting, 0.")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "look_up" in record.getMessage()
    assert "a secret" not in caplog.text


async def test_the_seconds_won_are_those_that_the_run_had_gone_on() -> None:
    async def look_up(key: str) -> str:
        """Looks a key up."""
        await anyio.sleep(0.05)
        return key

    async with tapped(Server([b"".join(part) for part in CALL])) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        await read(client)
        await anyio.sleep(0.2)  # the rest of a response
        await early("a")
        assert 0.05 <= tap.summary().seconds_won < 0.2


def test_the_page_about_frameworks_has_every_reason() -> None:
    text = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| reason | the function was called, since |")
    rows = [line.split("`")[1] for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    assert rows == [*MISSES]


async def test_the_first_miss_for_each_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def look_up(key: str) -> str:
        """Looks a key up."""
        return key

    async with tapped(Server(CALL[0] + CALL[1])) as (tap, client):
        early = tap.tool(look_up, effect="pure")
        with caplog.at_level(logging.WARNING, "streamtools"):
            for _ in range(3):
                await early("a")
            await read(client)
            for _ in range(3):
                await early("b")
        assert tap.summary().missed == {"no_run": 3, "other_arguments": 3}
        assert len(caplog.records) == 2


async def test_what_became_of_calls_is_in_spans_with_the_seconds_won() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await claimed_missed_and_left(Server(TWO), observers=lambda: [Tracing(provider)])
    spans = exporter.get_finished_spans()
    (step,) = [span for span in spans if span.name == SEMCONV.step_span]
    early = [span for span in spans if span.name == "streamtools.early look_up"]
    assert all(span.parent is not None and span.parent.span_id == step.context.span_id for span in early)
    found = {span.attributes[SEMCONV.early_fate]: dict(span.attributes) for span in early if span.attributes}
    assert {*found} == {"claimed", "missed", "never_asked"}
    assert found["claimed"][SEMCONV.waiting_call] == "c1"
    assert found["claimed"][SEMCONV.early_won] >= 0
    assert found["missed"][SEMCONV.early_reason] == "other_arguments"
    assert "secret" not in str(found)


async def test_spans_of_early_runs_can_be_switched_off() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await claimed_missed_and_left(Server(TWO), observers=lambda: [Tracing(provider, spans={"early": False})])
    assert not [span for span in exporter.get_finished_spans() if "early" in span.name]


async def test_the_page_shows_what_became_of_calls() -> None:
    watch = Watch()
    await claimed_missed_and_left(Server(TWO), observers=lambda: [watch])
    facts = {call.call_id: dict(call.facts).get("early run", "") for call in watch.picture.calls}
    assert facts["c1"].startswith("claimed, 0.")
    assert facts["c1"].endswith(" s won")
    assert facts["c2"] == "nobody has asked for it"
    assert "A call of look_up under a tap was not answered" in watch.picture.notes[0]
    assert "nobody has asked for it" in page(watch)


async def test_the_page_of_a_trace_shows_what_became_of_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)  # as nothing else unsets it
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    path = tmp_path / "trace.json"
    with configure("jaeger-file", path=path) as providers:
        await claimed_missed_and_left(Server(TWO))
        del providers
    picture = draw_traces(json.loads(path.read_text()))
    facts = {call.call_id: dict(call.facts).get("early run") for call in picture.calls}
    assert {*facts} == {"c1", "c2"}
    assert str(facts["c1"]).startswith("claimed, 0.")
    assert any("other_arguments" in note for note in picture.notes)
    assert not any("other instrumentations" in note for note in picture.notes)


async def test_an_observer_that_fails_at_it_changes_nothing_and_is_counted() -> None:
    seen: list[EarlyEnd] = []

    class Fails(Watch):
        def see_early(self, end: EarlyEnd) -> None:
            seen.append(end)
            raise KeyError("a secret")

    tap = await claimed_missed_and_left(Server(TWO), observers=lambda: [Fails()])
    assert len(seen) == 1
    assert tap.warnings == {"observer_failed": 1}
    await checkpoint()
