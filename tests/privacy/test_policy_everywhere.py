"""A policy meets the rest: functions, pages, taps, synchronous programs, approvals that are resumed, and failures."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from decisions import decisions_on
from every_wire import IN_DELTAS, REFUSES, framed, said
from kept_spans import kept_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from rich.console import Console
from streams import chat, stream
from web.asgi_client import Client
from web.tapping import Server, called, read, tapped

from streamtools import Event, ToolContext, Trajectory, agent_loop, pipeline, resume, run_calls, tool
from streamtools.content import Media, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.events import Observation, RefusalDelta, TextDelta, TextEnd, ToolCallDelta
from streamtools.integrations import EventStreamResponse, RunEnd
from streamtools.observers import Cursor, Observer
from streamtools.privacy import Privacy, redact_secrets
from streamtools.record import Recording, record
from streamtools.telemetry import Metrics, Tracing
from streamtools.view import Watch, page
from streamtools.view.terminal import TerminalView
from streamtools.web import OwnEvents
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio

SECRET = "tulip-4711"
POLICY = Privacy(redact=lambda text: text.replace(SECRET, "<key>"))
WIRE = "openai.chat_completions"


@tool(effect="pure")
async def look_up(key: str) -> str:
    """Look up."""
    return f"found {key}"


@tool(needs_approval=True)
async def pay(key: str) -> str:
    """Pay."""
    return f"paid {key}"


def parts(kind: Any, events: list[Any]) -> list[str]:
    return [event.delta if kind is ToolCallDelta else event.text for event in events if isinstance(event, kind)]


async def test_a_page_gets_a_text_that_a_function_judges_as_one_delta_at_its_end() -> None:
    shown: list[Any] = []
    body = framed(
        WIRE, said(WIRE, text=["The tul", "ip-47", "11."], calls=[("c", "look_up", f'{{"key": "{SECRET}"}}')])
    )
    run = pipeline(stream(body), tools=[look_up], privacy=POLICY)
    await Client().request(EventStreamResponse(run, encode=shown.append))
    assert parts(TextDelta, shown) == ["The <key>."]
    assert parts(ToolCallDelta, shown) == ['{"key": "<key>"}']
    assert [event.value for event in shown if isinstance(event, Observation)] == ["found <key>"]
    assert [event.value for event in run.turn.observations] == [f"found {SECRET}"]
    kinds = [type(event) for event in shown]
    assert kinds.index(TextDelta) == kinds.index(TextEnd) - 1
    assert isinstance(shown[-1], RunEnd)


async def test_refusals_have_no_end_of_their_own_and_are_whole_at_that_of_the_stream(tmp_path: Path) -> None:
    for wire in sorted(REFUSES):
        for policy, wanted in ((POLICY, "No <key>."), (Privacy(redact=redact_secrets()), f"No {SECRET}.")):
            shown: list[Any] = []
            path = tmp_path / f"{wire}-{wanted[4]}.jsonl"
            body = framed(wire, said(wire, refusal=["No tul", "ip-47", "11."]))
            run = pipeline(stream(body), wire=wire, observers=[record(path)], privacy=policy)
            await Client().request(EventStreamResponse(run, encode=shown.append))
            kept = parts(RefusalDelta, list(Recording.read(path).events))
            assert "".join(parts(RefusalDelta, shown)) == wanted, wire
            assert set("".join(kept)) == {"·"} or "".join(kept) == wanted, wire


async def test_what_has_come_of_a_secret_is_in_no_copy_of_a_stream_that_was_cut(tmp_path: Path) -> None:
    tried = [(wire, {part: ["The ", "tul"]}) for part in ("text", "reasoning") for wire in WIRES]
    tried += [(wire, {"calls": [("c", "look_up", '{"key": "tul')]}) for wire in IN_DELTAS]
    for number, (wire, words) in enumerate(tried * 2):
        policy = POLICY if number < len(tried) else Privacy(redact=redact_secrets())
        path, body, client = tmp_path / f"{number}.jsonl", framed(wire, said(wire, **words)), Client()
        end = next((at for at, piece in enumerate(body, 1) if b"tul" in piece), 0)
        run = pipeline(stream(body[:end]), wire=wire, tools=[look_up], observers=[record(path)], privacy=policy)
        await client.request(EventStreamResponse(run, encode=OwnEvents()))
        assert "tul" not in path.read_text(encoding="utf-8") + client.body.decode(), (wire, words)


async def test_a_tap_has_a_policy_of_its_own(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.jsonl", []
    body = [piece for part in called(arguments=f'{{"key": "{SECRET}"}}') for piece in part]
    observe: Any = {"observers": lambda: [record(path)], "on_event": seen.append, "privacy": POLICY}
    async with tapped(Server(body), **observe) as (_, client):
        await read(client)
    assert SECRET not in path.read_text(encoding="utf-8")
    assert Recording.read(path).redacted
    assert SECRET in repr([event.call.arguments for event in seen if hasattr(event, "call")])  # as one who iterates


async def test_a_run_that_waited_is_resumed_under_its_policy_and_with_its_own_arguments(tmp_path: Path) -> None:
    path, bodies = tmp_path / "run.jsonl", iter([chat(calls=[("c", "pay", f'{{"key": "{SECRET}"}}')]), chat(["Done."])])

    async def ask(messages: Any, tools: Any) -> AsyncIterator[bytes]:
        return stream(next(bodies))

    async with agent_loop(ask, [], tools=[pay], wire=WIRE, privacy=POLICY) as run:
        _ = [event async for event in run]
    assert SECRET in run.suspended.to_text(b"k" * 32)  # state is whole
    decisions = decisions_on(run.suspended, {"c": True})
    turn = await resume(
        run.suspended, tools=[pay], store=MemoryStore(), decisions=decisions, observers=[record(path)], privacy=POLICY
    )
    assert [seen.value for seen in turn.observations] == [f"paid {SECRET}"]
    written = path.read_text(encoding="utf-8")
    assert "paid <key>" in written
    assert SECRET not in written


def test_without_an_event_loop_it_holds_as_well(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    calls: list[Any] = [("c", "look_up", {"key": SECRET})]
    turn = run_calls(calls, [look_up], observers=[record(path)], privacy=POLICY).sync().finish()
    assert turn.observations[0].value == f"found {SECRET}"
    assert SECRET not in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="pass the policy to the Trajectory"):
        run_calls(calls, [look_up], trajectory=Trajectory(), privacy=POLICY)


async def test_a_function_that_fails_shows_nothing_in_any_copy_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMTOOLS_DEBUG", "1")

    @tool(effect="pure")
    async def break_down(key: str) -> str:
        """Break down."""
        raise RuntimeError(key)

    def fails(text: str) -> str:
        raise KeyError(text)

    seen: list[Event] = []

    class Seeing(Observer):
        def on_event(self, event: Event) -> None:
            seen.append(event)

    body = chat([SECRET], [("c", "break_down", f'{{"key": "{SECRET}"}}')])
    observers = [record(tmp_path / "run.jsonl"), Seeing(), Seeing()]
    policy = Privacy(redact=fails)
    turn = await pipeline(stream(body), tools=[break_down], observers=observers, privacy=policy)
    assert [one.outcome for one in turn.observations] == ["failed"]
    assert {one.code for one in turn.warnings} == {"observer_failed"}
    assert SECRET not in repr(seen) + caplog.text + (tmp_path / "run.jsonl").read_text(encoding="utf-8")
    assert any("break_down: failed: RuntimeError" in one.getMessage() for one in caplog.records)
    assert caplog.records[0].levelno == logging.ERROR
    client = Client()
    with pytest.raises(KeyError):
        await client.request(EventStreamResponse(pipeline(stream(chat([SECRET])), privacy=policy)))
    assert client.told[-1] == ("run_end", {"outcome": "error", "kind": "internal_error"})
    assert SECRET.encode() not in client.body


async def test_a_policy_that_changes_every_text_breaks_no_observer(tmp_path: Path) -> None:
    tries = iter([OSError("once")])

    @tool(effect="idempotent", needs_approval=True, retries=1, retry_delay_s=0.001, conflict_key=lambda _: "disk")
    async def store(key: str, ctx: ToolContext) -> Any:
        """Store."""
        ctx.progress(key)
        for error in tries:
            raise error
        return ToolResult(blocks=(Media(kind="image", mime_type="image/png", data="aGk="), "text"), value=key)

    calls = [(name, "store", f'{{"key": "{name}"}}') for name in "ab"]
    calls += [("c", "gone", "{}"), ("d", "store", '{"wrong": 1}')]
    for wire in WIRES:
        measured = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
        provider, spans = kept_spans()
        watch, path = Watch(), tmp_path / f"{wire}.jsonl"
        view = TerminalView(console=Console(file=io.StringIO()))
        observers = [Tracing(provider), Metrics(measured), record(path), watch, view, Cursor()]
        policy = Privacy(redact=lambda text: "x", content_in_spans=True)
        run = Trajectory(observers=observers, privacy=policy)
        body = framed(wire, said(wire, text=["Well"], reasoning=["Hm"], calls=calls))
        with view:
            turn = await pipeline(stream(body), tools=[store], wire=wire, trajectory=run, approve=lambda _: True)
        assert [one for one in turn.warnings if one.code == "observer_failed"] == [], wire
        assert [one.outcome for one in turn.observations].count("ok") == 2, wire
        assert len(spans.get_finished_spans()) > 6
        assert "x" in page(watch)
        assert [event.outcome for event in Recording.read(path).events if isinstance(event, Observation)]


async def test_plain_values_without_secrets_are_the_same_objects_and_others_their_json() -> None:
    @dataclass(repr=False)
    class Own:
        """A value of the program's own, which shows more than its JSON has."""

        name: str

        def __repr__(self) -> str:
            return f"Own({SECRET})"

    value = {"at": [1, 2.5, None, True, b"\x00\xff"], "deep": ({"x": frozenset({"a"})},)}
    seen: list[Observation] = []

    class Seeing(Observer):
        event_types = (Observation,)

        def on_event(self, event: Event) -> None:
            assert isinstance(event, Observation)
            seen.append(event)

    @tool(effect="pure")
    async def give(own: bool) -> Any:
        """Give."""
        return Own("x") if own else value

    calls: list[Any] = [("a", "give", {"own": False}), ("b", "give", {"own": True})]
    privacy = Privacy(redact=redact_secrets())
    turn = await run_calls(calls, [give], observers=[Seeing()], privacy=privacy)
    by_id = {one.call_id: one for one in seen}
    assert by_id["a"].value is value
    assert by_id["b"].value == {"name": "x"}
    assert isinstance(turn.observations[1].value, Own)
