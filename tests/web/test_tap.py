"""`Tap`: a response passes through it as if it were not there, and its copy is decoded as a pipeline's stream is."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import httpx2
import pytest
from encoded import CODINGS, encoded
from kept_spans import kept_spans
from profiles import every, mostly_thorough
from streams import anthropic, sse
from tapping import CALL, Server, kinds, read, tapped

from streamtools import Event, Limits, StreamEnd, TextDelta, agent_loop, tool
from streamtools.errors import TruncatedStream
from streamtools.events import StepEnd
from streamtools.integrations.httpx import Tap
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio

LIBRARIES = every("library", [httpx, httpx2])
TEXT = anthropic(["Hel", "lo"], stop="end_turn")


@LIBRARIES
async def test_a_response_passes_unchanged_and_its_events_are_told(library: Any) -> None:
    seen: list[Event] = []
    async with tapped(Server(TEXT, library=library), on_event=seen.append) as (tap, client):
        assert await read(client) == TEXT
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Hello"
    assert next(kinds(seen)) == "StepStart"
    assert isinstance(seen[-1], StepEnd)
    assert seen[-1].outcome == "complete"
    assert tap.warnings == {}


async def test_a_chunk_leaves_before_it_is_decoded() -> None:
    seen: list[Event] = []
    async with (
        tapped(Server(TEXT), on_event=seen.append) as (_, client),
        client.stream("POST", "http://model/") as response,
    ):
        chunks = response.aiter_raw()
        assert await anext(chunks) == TEXT[0]
        assert seen == []
        assert [chunk async for chunk in chunks] == TEXT[1:]


@every("coding", mostly_thorough(CODINGS, 2))
async def test_the_copy_of_an_encoded_body_is_decoded_and_the_body_is_not(coding: str) -> None:
    seen: list[Event] = []
    body = encoded(TEXT, coding)
    async with tapped(Server(body, headers={"content-encoding": coding.partition(",")[0]}), on_event=seen.append) as (
        tap,
        client,
    ):
        assert await read(client) == body
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Hello"
    assert tap.warnings == {}


NO_STREAMS: dict[str, tuple[list[bytes], dict[str, Any]]] = {
    "a whole answer": ([b'{"id": "x"}'], {"headers": {"content-type": "application/json"}}),
    "an error": (TEXT, {"status": 500}),
    "no model's events": (sse([{"jsonrpc": "2.0", "id": 1, "result": {}}] * 40), {}),
    "a page": ([b"data: it is no JSON\n\n"], {}),
    "nothing": ([], {}),
    "an unknown coding": (TEXT[:1], {"headers": {"content-encoding": "rot13", "content-type": "text/plain"}}),
}


@every("case", NO_STREAMS)
async def test_what_is_no_model_stream_passes_without_an_event(case: str) -> None:
    seen: list[Event] = []
    body, options = NO_STREAMS[case]
    async with tapped(Server(body, **options), on_event=seen.append) as (tap, client):
        assert await read(client) == body
    assert seen == []
    assert tap.warnings == {}


async def test_a_connection_that_breaks_is_told_to_both_sides() -> None:
    seen: list[Event] = []
    broken = httpx.ReadError("broken")
    async with tapped(Server([*TEXT[:3], broken]), on_event=seen.append) as (tap, client):
        with pytest.raises(httpx.ReadError) as raised:
            await read(client)
    assert raised.value is broken
    (end,) = [event for event in seen if isinstance(event, StreamEnd)]
    assert isinstance(end.error, TruncatedStream)
    assert tap.warnings == {}


async def test_a_response_that_is_left_is_cut_for_the_copy_too() -> None:
    seen: list[Event] = []

    def leave(event: Event) -> None:
        seen.append(event)
        if isinstance(event, TextDelta):
            reading.cancel()

    server = Server([*TEXT[:3], anyio.Event()])
    async with tapped(server, on_event=leave) as (tap, client):
        with anyio.CancelScope() as reading:
            await read(client)
        assert reading.cancelled_caught
        assert server.closed == 1
    (end,) = [event for event in seen if isinstance(event, StreamEnd)]
    assert "closed before its end" in str(end.error)
    assert seen[-1].outcome == "truncated"  # type: ignore[attr-defined]
    assert tap.warnings == {}


async def test_a_copy_that_lags_behind_is_dropped_and_the_response_is_not_delayed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Event] = []
    body = anthropic(["x" * 100] * 600, stop="end_turn")
    server = Server([*body[:4], b"".join(body[4:])])  # as if its reader had been kept from running meanwhile
    with caplog.at_level(logging.WARNING, "streamtools"):
        async with tapped(server, on_event=seen.append, limits=Limits(max_waiting_bytes=10_000)) as (tap, client):
            for _ in range(2):
                assert b"".join(await read(client)) == b"".join(body)
    assert tap.warnings == {"copy_dropped": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "tap: copy_dropped; the response itself is not affected"
    ]
    ends = [event for event in seen if isinstance(event, StreamEnd)]
    assert ["max_waiting_bytes=10000" in str(end.error) for end in ends] == [True, True]


async def test_a_callback_that_fails_is_told_once_and_disturbs_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STREAMTOOLS_DEBUG", raising=False)
    seen: list[Event] = []

    def fails(event: Event) -> None:
        seen.append(event)
        raise KeyError("a secret")

    with caplog.at_level(logging.WARNING, "streamtools"):
        async with tapped(Server(TEXT), on_event=fails) as (tap, client):
            assert await read(client) == TEXT
            assert await read(client) == TEXT
    assert list(kinds(seen)) == ["StepStart", "StepStart"]
    assert tap.warnings == {"on_event_failed": 2}
    assert "KeyError" in caplog.text
    assert "a secret" not in caplog.text
    assert len(caplog.records) == 1


async def test_responses_are_traced_below_the_span_of_the_request() -> None:
    provider, exporter = kept_spans()
    server = Server(TEXT)
    async with tapped(server, observers=lambda: [Tracing(provider)]) as (_, client):
        with provider.get_tracer("app").start_as_current_span("request"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, client)
                tasks.start_soon(read, client)
    spans = exporter.get_finished_spans()
    assert sorted(span.name for span in spans) == ["chat c", "chat c", "request", *["streamtools.step"] * 2]
    ids = {span.context.span_id: span.name for span in spans if span.context is not None}
    parents = [span.parent for span in spans if span.name == "streamtools.step"]
    assert [ids[parent.span_id] for parent in parents if parent is not None] == ["request"] * 2


async def test_a_loop_over_tapped_responses_has_them_to_itself() -> None:
    runs: list[str] = []
    seen: list[Event] = []

    def look_up(key: str) -> str:
        """Looks a key up."""
        runs.append(key)
        return key

    async with tapped(Server(CALL[0] + CALL[1], TEXT), on_event=seen.append) as (tap, client):
        tap.tool(look_up, effect="pure")

        async def ask(messages: list[Any], tools: list[Any]) -> Any:
            return await client.send(client.build_request("POST", "http://model/", json=messages), stream=True)

        question = {"role": "user", "content": "Look a up."}
        run = agent_loop(ask, [question], tools=[tool(look_up, effect="pure")], wire="anthropic.messages")
        assert (await run).text == "Hello"
    assert (runs, seen, tap.warnings) == (["a"], [], {})


@every(("library", "other"), [(httpx, httpx2), (httpx2, httpx)])
async def test_a_transport_of_the_other_library_is_refused_with_the_way_out(library: Any, other: Any) -> None:
    async with library.AsyncClient(transport=Tap(Server(TEXT, library=other).transport())) as client:
        with pytest.raises(TypeError, match=rf"write Tap\({library.__name__}\.MockTransport\(\.\.\.\)\)"):
            await client.post("http://model/")
    sync = library.Client(transport=Tap(Server(TEXT, library=other).sync_transport()))
    with (
        sync,
        pytest.raises(TypeError, match=rf"from {library.__name__}, but the transport from {other.__name__};"),
    ):
        await anyio.to_thread.run_sync(sync.post, "http://model/")


def test_a_tap_refuses_what_it_cannot_use() -> None:
    transport: Any = Server(TEXT).transport()
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((httpx.AsyncClient,), {}, TypeError, "expected a transport"),
        ((transport,), {"wire": "acme"}, ValueError, "acme"),
        ((transport,), {"on_event": 1}, TypeError, "on_event: expected a function"),
        ((transport,), {"observers": []}, TypeError, "observers: expected a function"),
        ((transport,), {"scope": "ada"}, TypeError, "scope: expected a function"),
    ]
    for arguments, options, error, text in cases:
        with pytest.raises(error, match=text):
            Tap(*arguments, **options)
