"""What became of the calls under a tap: counted, logged once for each reason, in spans and on the page."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from kept_spans import kept_spans
from streams import anthropic
from tapping import CALL, Server, read, tapped

from streamtools.telemetry import Tracing
from streamtools.telemetry.names import Names

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
    provider, exporter = kept_spans()
    await claimed_missed_and_left(Server(TWO), observers=lambda: [Tracing(provider)])
    spans = exporter.get_finished_spans()
    (step,) = [span for span in spans if span.name == Names.step_span]
    early = [span for span in spans if span.name == "streamtools.early look_up"]
    assert all(span.parent is not None and span.parent.span_id == step.context.span_id for span in early)
    found = {span.attributes[Names.early_fate]: dict(span.attributes) for span in early if span.attributes}
    assert {*found} == {"claimed", "missed", "never_asked"}
    assert found["claimed"][Names.waiting_call] == "c1"
    assert found["claimed"][Names.early_won] >= 0
    assert found["missed"][Names.early_reason] == "other_arguments"
    assert "secret" not in str(found)
