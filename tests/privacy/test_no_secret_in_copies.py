"""The law: under `redact_secrets()` none of a hundred secrets stands in any copy of a run, wherever it came from.

Each secret comes as an argument, a result, streamed text and reasoning, a header, a URL, the text of an exception, a
variable of the environment, the name of an unregistered tool, a reported value, and a number. Each copy is read whole:
files, spans with events and states, metrics, pages, frames, log lines, and the terminal.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from every_wire import framed, said
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from privacy.seeded import as_json, secrets, survivors
from profiles import FULL
from rich.console import Console
from streams import stream
from web.asgi_client import Client

from streamtools import Event, ToolContext, Trajectory, agent_loop, pipeline, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import StreamError
from streamtools.events import Observation, TextDelta, ToolCallDelta
from streamtools.integrations import EventStreamResponse, RunEnd, encode_event
from streamtools.observers import Observer
from streamtools.privacy import Privacy, redact_secrets
from streamtools.record import Recording, record
from streamtools.telemetry import Metrics, Tracing
from streamtools.telemetry.setup import to_otlp
from streamtools.view import Watch, draw, draw_recordings, page
from streamtools.view.terminal import TerminalView, show
from streamtools.web import OwnEvents

pytestmark = pytest.mark.anyio

POLICY = Privacy(redact=redact_secrets(), content_in_spans=True)
WIRE = "anthropic.messages"
SEEDED = secrets()
PLACES = ("argument", "result", "blocks", "number", "progress", "failure", "http", "environment", "headers")


class AnError(Exception):
    """An exception of the program's own, which keeps its words elsewhere."""

    def __init__(self, words: str) -> None:
        super().__init__(words, {"words": words})


@tool(effect="pure")
async def give(at: int, where: str, said: Any, ctx: ToolContext) -> Any:
    """Give a secret back, in one of many ways."""
    secret = SEEDED[at]
    if where == "result":
        return {"found": secret.text, "at": [(secret.text, secret.value)], secret.text: {1, secret.text}}
    if where == "blocks":
        blocks = (Text(secret.text), Media(kind="image", mime_type="image/png", url=f"https://x.example/{secret.text}"))
        return ToolResult(blocks=blocks, value=secret.value, display=secret.text)
    if where == "number":
        return secret.value
    if where == "progress":
        ctx.progress(secret.text)
        ctx.progress({"at": secret.value})
        return secret.text.encode()
    if where == "failure":
        raise AnError(secret.text) from ValueError(secret.value)
    if where == "http":
        request = httpx.Request("GET", "https://api.example.org/", headers={"x-note": as_json(secret.text)})
        raise httpx.HTTPStatusError(secret.text, request=request, response=httpx.Response(500, text=secret.text))
    if where == "environment":
        return {"PATH": "/bin", "SOMETHING": secret.text, "values": secret.value}
    return [("accept", "*/*"), (b"x-note", secret.text.encode()), secret.value, Given(secret.text, secret.value)]


@dataclass
class Given:
    """An object of the program's own."""

    text: str
    value: Any


def asked(some: range) -> list[bytes]:
    """A response that has some of the secrets in each place, cut into small deltas."""
    text = " ".join(f"So {SEEDED[at].text} it is." for at in some)
    names = [SEEDED[at].text for at in some]
    calls = [
        (f"c{at}_{where}", "give", json.dumps({"at": at, "where": where, "said": [SEEDED[at].text, SEEDED[at].value]}))
        for at in some
        for where in PLACES
        if not _is_bytes(SEEDED[at].value)
    ] + [
        (f"c{at}_{where}", "give", json.dumps({"at": at, "where": where, "said": SEEDED[at].text}))
        for at in some
        for where in PLACES
        if _is_bytes(SEEDED[at].value)
    ]
    calls += [(f"u{at}", name, json.dumps({"of": name})) for at, name in zip(some, names, strict=True)]
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    return framed(WIRE, said(WIRE, text=pieces, reasoning=pieces, calls=calls, pieces=7))


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(one, bytes) for one in value.values())


class Copies(Observer):
    """Everything that a run is copied to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spans, self.meters, self.console = InMemorySpanExporter(), InMemoryMetricReader(), io.StringIO()
        self.provider = TracerProvider(shutdown_on_exit=False)
        for exporter in (self.spans, ConsoleSpanExporter(out=self.console)):
            self.provider.add_span_processor(SimpleSpanProcessor(exporter))
        self.measured = MeterProvider([self.meters], shutdown_on_exit=False)
        self.watch, self.screen = Watch(), io.StringIO()
        self.terminal = TerminalView(console=Console(file=self.screen, width=1000))
        self.seen: list[str] = []  # by an observer of the program's own

    @property
    def event_types(self) -> None:
        return None

    def on_event(self, event: Event) -> None:
        self.seen.append(repr(event) + as_json([getattr(event, one.name) for one in fields(event)]))
        if isinstance(event, Observation):
            self.seen.append(event.report(values=True))
        elif isinstance(event, ToolCallDelta):
            self.seen.append(as_json(event.preview))

    def run(self, privacy: Privacy | None = POLICY) -> Trajectory:
        tracing = Tracing(self.provider)
        observers = [tracing, Metrics(self.measured), record(f"{self.folder}/"), self.watch, self.terminal, self]
        return Trajectory(name="guide", observers=observers, privacy=privacy)

    async def written(self) -> AsyncIterator[tuple[str, str]]:
        """The text of each copy."""
        spans = self.spans.get_finished_spans()
        yield "spans", "".join(span.to_json() for span in spans) + str(encode_spans(spans))
        yield "console", self.console.getvalue()
        yield "otlp", json.dumps(to_otlp(spans), ensure_ascii=False)
        yield "metrics", self.meters.get_metrics_data().to_json()  # type: ignore[union-attr]
        yield "own observer", "\n".join(self.seen)
        yield "page", page(self.watch)
        yield "terminal", self.screen.getvalue()
        for path in self.folder.iterdir():
            yield "recording", path.read_text(encoding="utf-8")
            read = Recording.read(path)
            yield "texts of the recording", as_json([[turn.text, turn.reasoning] for turn in read.turns])
            yield "page of the recording", page(draw_recordings([read]))
            out = io.StringIO()
            show(draw(read.events), Console(file=out, width=1000))
            yield "terminal of the recording", out.getvalue()


def whole(event: Event | RunEnd) -> list[tuple[str, Any]]:
    """All fields of an event, for a page that shows everything."""
    named = {one.name: getattr(event, one.name) for one in fields(event) if not one.name.startswith("_")}
    return [("all", json.loads(json.dumps(named, default=repr))), ("shown", {"as": repr(event)})]


@pytest.mark.thorough
@pytest.mark.asyncio_only
async def test_none_of_a_hundred_secrets_is_in_any_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMTOOLS_DEBUG", "1")  # logs and `repr` show all that they may
    caplog.set_level(logging.DEBUG)
    problems: list[str] = []
    frames: list[str] = []
    count = 100 if FULL else 20
    for first in range(0, count, 10):
        copies = Copies(tmp_path / str(first))
        bodies = iter([asked(range(first, first + 10)), framed(WIRE, said(WIRE, text=["Done."]))])

        async def ask(messages: Any, tools: Any) -> AsyncIterator[bytes]:
            return stream(next(bodies))  # each loop is over before the next begins

        history = [{"role": "user", "content": SEEDED[at].text} for at in range(first, first + 10)]
        for encode in (encode_event, whole, OwnEvents())[first // 10 % 3 :][:1]:
            loop = agent_loop(ask, history, tools=[give], wire=WIRE, trajectory=copies.run())
            client = Client()
            with copies.terminal:
                await client.request(EventStreamResponse(loop, encode=encode))
            assert loop.outcome == "answered"
            assert len(loop.turns[0].observations) == 100
            frames.append(client.body.decode())
            texts = [data["text"] for name, data in client.told if name == "text_delta"]
            frames.append("".join(texts))
        async for name, text in copies.written():
            problems += [f"{name}: {one}" for one in survivors([text], SEEDED[first : first + 10])]
            assert len(text) > 50, name
    problems += [f"frames: {one}" for one in survivors(frames, SEEDED[:count])]
    handler = logging.Formatter("%(message)s")
    logged = [handler.format(one) for one in caplog.records]
    assert any("AnError" in line for line in logged)
    problems += [f"log: {one}" for one in survivors(logged, SEEDED)]
    assert not problems, "\n".join(problems[:40])


async def test_without_a_policy_the_same_search_finds_them(tmp_path: Path) -> None:
    """The search looks in the right places."""
    copies = Copies(tmp_path)
    with copies.terminal:
        await pipeline(stream(asked(range(6))), tools=[give], trajectory=copies.run(Privacy(content_in_spans=True)))
    found = {name: list(survivors([text], SEEDED[:6])) async for name, text in copies.written()}
    lacking = [name for name, survived in found.items() if len(survived) < 3 and name != "metrics"]
    assert lacking == []


async def test_a_stream_that_fails_or_is_left_shows_no_secret_either(tmp_path: Path) -> None:
    for number, secret in enumerate(SEEDED[::9] if FULL else SEEDED[:27:9]):
        copies = Copies(tmp_path / str(number))
        error = {"type": "error", "error": {"type": "bad", "message": f"you sent {secret.text}"}}
        body = [
            *asked(range(number * 9, number * 9 + 1))[:-2],
            b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n",
        ]
        with pytest.raises(StreamError), copies.terminal:
            await pipeline(
                stream(body), tools=[give], wire=WIRE, trajectory=copies.run(), request={"messages": [secret.text]}
            )
        async for name, text in copies.written():
            found = list(survivors([text], SEEDED))
            assert found == [], (name, [text[at - 300 : at + 80] for at in [text.find(secret.traces[0])]])


async def test_what_is_part_of_the_run_sees_originals() -> None:
    class Part(Observer):
        event_types = (TextDelta,)
        sees_originals = True

        def __init__(self) -> None:
            self.text = ""

        def on_event(self, event: Event) -> None:
            assert isinstance(event, TextDelta)
            self.text += event.text

    part = Part()
    body = framed(WIRE, said(WIRE, text=[SEEDED[0].text]))
    await pipeline(stream(body), observers=[part], wire=WIRE, privacy=POLICY)
    assert part.text == SEEDED[0].text
