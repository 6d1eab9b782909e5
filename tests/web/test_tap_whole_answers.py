"""`Tap` under requests that do not stream: their answers are traced and recorded as streams are, and pass unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from kept_spans import kept_spans
from profiles import every
from tapping import Server, kinds, tapped
from test_whole_answers import ANSWERS

from streamtools import Event, Limits, Observation, StreamEnd
from streamtools.events import ToolCallEnd
from streamtools.record import record, replay
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json; charset=utf-8"}
CHAT = ANSWERS["openai.chat_completions"]


def whole(answer: Any, **options: Any) -> Server:
    body = json.dumps(answer, indent=2).encode()
    return Server([body[:40], body[40:]], headers=JSON, **options)


@every("wire", ANSWERS)
async def test_a_whole_answer_is_seen_as_a_stream_is_and_passes_unchanged(wire: str) -> None:
    seen: list[Event] = []
    given = wire if wire == "mistral.chat" else None  # which is never detected
    async with tapped(whole(ANSWERS[wire]), on_event=seen.append, wire=given) as (tap, client):
        assert (await client.post("http://model/")).json() == ANSWERS[wire]
    assert next(kinds(seen)) == "StepStart"
    assert [event.outcome for event in seen if type(event).__name__ == "StepEnd"] == ["complete"]  # type: ignore[attr-defined]
    (end,) = [event for event in seen if isinstance(event, StreamEnd)]
    assert end.usage is not None
    assert [event.call.arguments for event in seen if isinstance(event, ToolCallEnd)] == [{"a": 1}, {"a": 2}]
    assert tap.warnings == {}


async def test_a_whole_answer_is_traced_and_recorded(tmp_path: Path) -> None:
    provider, exporter = kept_spans()
    path = tmp_path / "run.jsonl"
    async with tapped(whole(CHAT), observers=lambda: [record(path), Tracing(provider)]) as (_, client):
        await client.post("http://model/")
    assert sorted(span.name for span in exporter.get_finished_spans())[:1] == ["chat m"]
    async with replay(path) as run:
        ends = [event async for event in run if isinstance(event, StreamEnd)]
    assert [end.finish for end in ends] == ["tool_calls"]


async def test_calls_of_a_whole_answer_are_left_to_the_framework_and_counted() -> None:
    """The framework asks for them as soon as it has the answer, so that a second run could only double the work."""
    keys: list[int] = []

    async def f(a: int) -> int:
        """Returns it."""
        keys.append(a)
        return a

    seen: list[Event] = []
    async with tapped(whole(CHAT), on_event=seen.append) as (tap, client):
        early = tap.tool(f, effect="pure")
        await client.post("http://model/")
        assert await early(1) == 1
        assert tap.summary().missed == {"no_run": 1}
    assert keys == [1]
    assert not any(isinstance(event, Observation) for event in seen)


async def test_an_answer_that_breaks_or_is_too_long_passes_without_an_event() -> None:
    seen: list[Event] = []
    async with tapped(whole(CHAT), on_event=seen.append, limits=Limits(max_event_bytes=100)) as (tap, client):
        assert (await client.post("http://model/")).json() == CHAT
    assert tap.warnings == {}
    broken = Server([b'{"id": "r1", ', httpx.ReadError("broken")], headers=JSON)
    async with tapped(broken, on_event=seen.append) as (tap, client):
        with pytest.raises(httpx.ReadError):
            await client.post("http://model/")
    assert tap.warnings == {}
    assert seen == []
