"""The demo as a whole: with the real model, with its recordings, and with a model that misbehaves."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from demo import QUESTION, WIRES, DemoError, Options, converse, run
from demo.model import IN_TEXT, Ask, Messages, asking
from demo.replay import capture
from demo.server import installed
from demo.show import Show
from demo.terminal import Terminal
from demo.tools import TOOLS
from streamtools import Observation, StreamEnd, StreamError, Trajectory, parse
from streamtools.record import Recording, replay
from streamtools.stages import DEFAULT

needs_server = pytest.mark.skipif(
    not installed(), reason="THE MODEL SERVER IS NOT INSTALLED: nothing was asked of the real model"
)
CITIES = ("Tokyo", "Oslo", "Lima")


def ran(folder: Path, **options: Any) -> tuple[str, list[dict[str, Any]]]:
    """Run the demo. What was shown, and the spans."""
    out, trace = io.StringIO(), folder / "some" / "trace.json"
    run(Options(trace=trace, **{"pace": 0, **options}), out)
    resources = json.loads(trace.read_text(encoding="utf-8"))["resourceSpans"]
    assert f"\ntrace  {trace}  (" in out.getvalue(), "a path is to be copied: it must not be broken"
    return out.getvalue(), [span for one in resources for scope in one["scopeSpans"] for span in scope["spans"]]


def check_the_default_run(shown: str, spans: list[dict[str, Any]]) -> None:
    """Three calls at once, an answer with their three results, and the spans of it all in one trace."""
    results = {city: re.search(rf'get_weather\(city="{city}"\) .* ms  (\d+ degrees)$', shown, re.M) for city in CITIES}
    answer = " ".join(shown.rpartition("\nmodel  ")[2].split())
    for city, result in results.items():
        assert result is not None, shown
        assert f"The weather in {city} is {result[1]}." in answer
    assert "3 tools worked " in shown
    names = [span["name"] for span in spans]
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


# -- the recordings ----------------------------------------------------------------------------------------------


def test_a_replay_is_the_same_run(tmp_path: Path) -> None:
    shown, spans = ran(tmp_path, replay=True)
    assert "replayed from a recording: as you asked" in shown
    check_the_default_run(shown, spans)
    shown, spans = ran(tmp_path, replay=True, server_reads_calls=True)
    check_the_default_run(shown, spans)


@pytest.mark.thorough
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
