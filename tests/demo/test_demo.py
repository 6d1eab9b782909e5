"""The demo as a whole: with the real model, with its recordings, and with a model that misbehaves."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from display import Glass
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from demo import QUESTION, WIRES, DemoError, Options, converse, run
from demo.model import IN_TEXT, Ask, Messages, asking
from demo.replay import CAPTURES, capture, replaying
from demo.server import installed
from demo.show import Show
from demo.terminal import Terminal
from demo.tools import TOOLS
from streamtools import Observation, StreamEnd, StreamError, Trajectory, parse
from streamtools.record import Recording, replay
from streamtools.stages import DEFAULT
from streamtools.wires import WIRES as ALL_WIRES

needs_server = pytest.mark.skipif(
    not installed(), reason="THE MODEL SERVER IS NOT INSTALLED: nothing was asked of the real model"
)
CITIES = ("Tokyo", "Oslo", "Lima")


def ran(folder: Path, **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """Run the demo. What was shown, and the spans."""
    out, trace = io.StringIO(), folder / "some" / "trace.json"
    run(Options(trace=trace, **{"pace": 0, **options}), out)
    (data,) = json.loads(trace.read_text(encoding="utf-8"))["data"]
    assert f"\ntrace  {trace}  (" in out.getvalue(), "a path is to be copied: it must not be broken"
    return out.getvalue(), data["spans"]


def check_the_default_run(shown: str, spans: list[dict[str, Any]]) -> None:
    """Three calls at once, an answer with their three results, and the spans of it all in one trace."""
    results = {city: re.search(rf'get_weather\(city="{city}"\) .* ms  (\d+ degrees)$', shown, re.M) for city in CITIES}
    answer = " ".join(shown.rpartition("\nmodel  ")[2].split())
    for city, result in results.items():
        assert result is not None, shown
        assert f"The weather in {city} is {result[1]}." in answer
    assert "3 tools worked " in shown
    names = [span["operationName"] for span in spans]
    assert sorted({name.partition(" ")[0] for name in names} - {"streamtools.wait", "streamtools.begin.run"}) == [
        *("chat", "execute_tool", "invoke_agent", "streamtools.step"),
    ]
    assert sum(name.startswith("execute_tool") for name in names) == 3


# -- the real model ----------------------------------------------------------------------------------------------


@needs_server
@pytest.mark.parametrize("wire", WIRES)
def test_the_model_calls_three_tools_and_tells_their_results(wire: str, tmp_path: Path) -> None:
    shown, spans = ran(tmp_path, wire=wire)
    assert "served by llama.cpp at http://127.0.0.1:" in shown
    assert wire in shown
    check_the_default_run(shown, spans)


@needs_server
def test_a_second_step_takes_up_the_result_of_the_first(tmp_path: Path) -> None:
    shown, spans = ran(tmp_path, question="stock price of QZX and then convert it from USD to EUR")
    price = re.search(r'stock_price\(symbol="QZX"\) .* ms  ([\d.]+)$', shown, re.M)
    assert price is not None
    assert f'convert(amount={price[1]}, from_currency="USD", to_currency="EUR")' in shown
    assert sum(span["operationName"] == "streamtools.step" for span in spans) == 3


@needs_server
def test_a_tool_that_fails_is_shown_and_told_to_the_model(tmp_path: Path) -> None:
    shown, _ = ran(tmp_path, question="convert 5 USD to QQQ")
    assert "failed: no rate" in shown
    assert "model  The convert call failed: no rate." in shown


@needs_server
def test_a_question_that_is_too_long_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="exceeds the available context size"):
        ran(tmp_path, question="word " * 3000)


# -- the recordings ----------------------------------------------------------------------------------------------


def test_a_replay_is_the_same_run(tmp_path: Path) -> None:
    shown, spans = ran(tmp_path, replay=True)
    assert "replayed from a recording: as you asked" in shown
    check_the_default_run(shown, spans)
    shown, spans = ran(tmp_path, replay=True, server_reads_calls=True)
    check_the_default_run(shown, spans)


def test_a_tool_ends_while_the_model_still_writes(tmp_path: Path) -> None:
    ran(tmp_path, replay=True, pace=50)
    events = Recording.read(tmp_path / "some" / "trace.jsonl").events
    ends = [event for event in events if isinstance(event, (Observation, StreamEnd))]
    assert isinstance(ends[0], Observation)


def test_a_run_becomes_a_page_and_a_recording(tmp_path: Path) -> None:
    shown, _ = ran(tmp_path, replay=True)
    folder = tmp_path / "some"
    assert f"\npage   {folder / 'trace.html'}  (" in shown
    assert "get_weather" in (folder / "trace.html").read_text(encoding="utf-8")
    run = replay(folder / "trace.jsonl", tools=TOOLS, stages=IN_TEXT)
    turn = asyncio.run(run.finish())
    assert all(city in turn.text for city in CITIES)
    assert (run.differences, run.unchecked) == ((), ())


class Tty(io.StringIO):
    """A terminal of 80 by 24 cells."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Tty:
    for name, value in {"COLUMNS": "80", "LINES": "24", "TERM": "xterm", "NO_COLOR": "1", "WT_SESSION": "1"}.items():
        monkeypatch.setenv(name, value)
    return Tty()


def test_a_terminal_ends_with_the_picture_that_a_file_gets(tty: Tty, tmp_path: Path) -> None:
    options = Options(replay=True, trace=tmp_path / "trace.json", pace=0)
    run(options, tty)
    assert " running" in tty.getvalue()
    page = Tty()
    run(replace(options, verbose=True), page)
    assert "\x1b" not in page.getvalue(), "a log may be written in between, so nothing is rewritten"
    glass = Glass().write(tty.getvalue()).text()
    without_times = [re.sub(r"[\d.]+ (s|ms|→)|[█▒ ]+", " ", text) for text in (glass, page.getvalue())]
    assert without_times[0] == without_times[1]


def test_a_replay_sends_what_was_recorded() -> None:
    async def received() -> bytes:
        return b"".join([line async for line in await replaying(QUESTION, WIRES[0])([])])

    assert asyncio.run(received()) == capture(WIRES[0], 1).read_bytes()


@pytest.mark.parametrize("missing", ["xllamacpp", "httpx"])
def test_without_the_server_or_a_client_the_demo_replays_and_says_so(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DemoError, match=r"was recorded; .* pip install -e '\.\[demo\]'$"):
        ran(tmp_path, question="Hello!")
    with pytest.raises(DemoError, match="a recording has no model file and no port"):
        ran(tmp_path, port=8080)


@pytest.mark.parametrize(("wire", "in_text"), [*((wire, False) for wire in WIRES), (WIRES[0], True)])
def test_the_recordings_are_whole_and_without_a_deviation(wire: str, in_text: bool) -> None:
    calls, answer = (
        parse(capture(wire, number, in_text=in_text).read_bytes(), tools=TOOLS, stages=IN_TEXT if in_text else DEFAULT)
        for number in (1, 2)
    )
    assert [call.arguments for call in calls.calls] == [{"city": city} for city in CITIES]
    assert all(city in answer.text for city in CITIES)
    for turn in (calls, answer):
        assert (turn.wire, turn.complete, turn.error, turn.warnings) == (wire, True, None, ())


def test_there_is_no_recording_that_nothing_plays() -> None:
    kinds = [*((wire, False) for wire in WIRES), (WIRES[0], True)]
    played = [capture(wire, number, in_text=in_text) for wire, in_text in kinds for number in (1, 2)]
    assert sorted(CAPTURES.iterdir()) == sorted(played)


def test_the_demo_speaks_wires_that_exist() -> None:
    assert set(WIRES) <= set(ALL_WIRES)


# -- a model that misbehaves -------------------------------------------------------------------------------------

ENDLESS = b"""\
data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"no_tool","arguments":"{}"}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

"""


def conversation(ask: Ask) -> tuple[str, str]:
    """Converse without a server. The answer, and what was shown."""
    out = io.StringIO()

    async def talk() -> str:
        show = Show(out, Terminal())
        with show.running():
            return await converse(QUESTION, ask, show, wire=WIRES[0], trajectory=Trajectory(observers=[]))

    return asyncio.run(talk()), out.getvalue()


def answering(body: bytes) -> Ask:
    async def ask(_: Messages) -> AsyncIterator[bytes]:
        async def stream() -> AsyncIterator[bytes]:
            yield body

        return stream()

    return ask


def test_a_model_that_never_stops_calling_is_stopped() -> None:
    with pytest.raises(DemoError, match="still calls tools after 8 turns"):
        conversation(answering(ENDLESS))


def test_a_response_that_breaks_off_is_an_error() -> None:
    with pytest.raises(StreamError, match=r"ended before"):
        conversation(answering(capture(WIRES[0], 2).read_bytes()[:3000]))


def test_the_answer_is_returned() -> None:
    answer, shown = conversation(answering(capture(WIRES[0], 2).read_bytes()))
    assert " ".join(shown.removeprefix("\nmodel").split()) == answer


@pytest.mark.skipif(not installed(), reason="httpx is not installed")
def test_a_server_that_is_gone_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def talk() -> None:
        async with asking(f"http://127.0.0.1:{port}", WIRES[0], "a model") as ask:
            await ask([])

    with pytest.raises(DemoError, match=r"^the model server did not answer: "):
        asyncio.run(talk())


def test_only_the_demos_own_question_was_recorded() -> None:
    assert replaying(QUESTION, WIRES[0])
    with pytest.raises(DemoError, match=f"^only '{re.escape(QUESTION)}' was recorded"):
        replaying("Hello!", WIRES[0])


@needs_server
def test_who_asked_for_a_replay_is_not_told_to_install_anything(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"for questions of your own: leave out --replay$"):
        ran(tmp_path, question="Hello!", replay=True)


def test_a_trace_that_cannot_be_written_is_told_before_anything_is_shown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = io.StringIO()
    with pytest.raises(DemoError, match=r"^cannot write the trace to "):
        run(Options(replay=True, trace=tmp_path / "file" / "trace.json"), out)
    assert out.getvalue() == ""


def test_the_spans_go_to_the_collector_that_the_environment_names_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[str, bytes]] = []

    class Collecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(400 if self.path == "/hunter2" else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Collecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://ann:hunter2@{place}")
        shown, spans = ran(tmp_path, replay=True)
        assert f"\nspans  {spans[0]['traceID']}, sent to http://{place}\n" in shown
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://{place}/of/traces")
        ran(tmp_path, replay=True)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://{place}/hunter2")
        shown, _ = ran(tmp_path, replay=True)
        assert f"\nspans  http://{place} did not take the spans (OTLP over HTTP)\n" in shown
        server.shutdown()
    assert [path for path, _ in taken] == ["/v1/traces", "/of/traces", "/hunter2"]
    sent = ExportTraceServiceRequest.FromString(taken[0][1])
    found = [span.name for one in sent.resource_spans for scope in one.scope_spans for span in scope.spans]
    assert sorted(found) == sorted(span["operationName"] for span in spans)
