"""`replay` gives a recording's events again, and says where its bodies decode to something else now."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from profiles import mostly_thorough
from record.recorded import files, lines, run_loop, same, sent
from sansio import QUIRKS, body_of
from streams import anthropic, chat
from view.seen_runs import watched
from web.tapping import Server, read, tapped
from wire_cases.names import ANTHROPIC, CHAT

from streamtools import Event, Limits, TextDelta, Tool, Trajectory, pipeline, tool
from streamtools.errors import LocalProtocolError, StreamError, TruncatedStream
from streamtools.events import Observation, StepStart, ToolCallDelta, ToolCallEnd, ToolStarted
from streamtools.record import Recording, RecordingError, record, replay
from streamtools.stages import DEFAULT, text_calls
from streamtools.telemetry import Tracing
from streamtools.view import Watch
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio

ASKS = anthropic(["Loo", "king. "], [("c1", "get_weather", '{"city": "Oslo"}')])
ENDS = anthropic(["Rain", "."], stop="end_turn")
RAN: list[str] = []


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather."""
    RAN.append(city)
    return f"rain in {city}"


@pytest.fixture
async def recorded(tmp_path: Path) -> tuple[Path, list[Event]]:
    path = tmp_path / "run.jsonl"
    events = await run_loop(ASKS, ENDS, tools=[get_weather], observers=[record(path)], wire=ANTHROPIC)
    RAN.clear()
    return path, events


async def test_a_replay_gives_the_recorded_events_and_runs_nothing(recorded: tuple[Path, list[Event]]) -> None:
    path, events = recorded
    async with replay(path) as run:
        found = [event async for event in run]
    same(found, events, times=False)
    assert RAN == []
    assert (run.differences, run.unchecked) == ((), ())
    assert [turn.text for turn in run.turns] == ["Looking. ", "Rain."]
    assert [one.value for one in run.observations] == ["rain in Oslo"]
    assert run.turns[0].messages()[-1]["content"][0]["content"] == "rain in Oslo"
    assert [event.preview for event in found if isinstance(event, ToolCallDelta)][-1] == {"city": "Oslo"}


async def test_the_times_of_a_replay_are_moved_all_alike(recorded: tuple[Path, list[Event]]) -> None:
    path, events = recorded
    began = time.monotonic()
    async with replay(path) as run:
        found = [event async for event in run]
    moved = [
        after.time - before.time for before, after in zip(events, found, strict=True) if isinstance(before, StepStart)
    ]
    assert moved == pytest.approx([moved[0]] * 2)
    assert isinstance(found[0], StepStart)
    assert found[0].time >= began - 1


@pytest.mark.parametrize("wire", mostly_thorough(list(WIRES), 4))
async def test_every_deviation_of_a_wire_replays_to_the_same_events(wire: str, tmp_path: Path) -> None:
    for quirk in (quirk for quirk in QUIRKS if quirk["wire"] == wire):
        path, seen = tmp_path / f"{quirk['id']}.jsonl", []
        body = body_of(quirk)
        chunks = [body[at : at + 97] for at in range(0, len(body), 97)]
        tools = [_named(name) for name in quirk["tools"]]
        async with pipeline(sent(chunks), tools=tools, wire=wire, observers=[record(path)]) as events:
            try:
                async for event in events:
                    seen.append(event)
            except StreamError:
                pass  # the last event has it
        for given in (None, tools):
            run = replay(path, tools=given)
            async with run:
                same([event async for event in run], seen, times=False)
            assert (run.differences, run.unchecked) == ((), ()), quirk["id"]


def _named(name: str) -> Any:
    async def stub(**arguments: Any) -> str:
        return "done"

    return Tool.from_schema(stub, None, name=name, description="", check=lambda arguments: None)


async def test_a_run_with_every_kind_of_trouble_replays(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.jsonl", []

    class Seen:
        event_types = None

        def on_event(self, event: Event) -> None:
            seen.append(event)

        def around_tool(self, call_id: str) -> None:
            return None

    recorder = record(path)
    both: Any = Seen()

    def on_event(event: Event) -> None:
        recorder.on_event(event)
        seen.append(event)

    both.on_event = on_event
    await watched(both)
    async with replay(path) as run:
        same([event async for event in run], seen, times=False)


async def test_speed_is_that_of_the_recording_or_a_multiple(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ENDS, observers=[record(path)], wire=ANTHROPIC)
    rows = [json.loads(line) for line in lines(path)]
    rows[-1]["at"] = rows[0]["at"] + 3600  # not waited for: no event is that late
    for row in rows:
        if row.get("event") == "StreamEnd":
            row["time"] = rows[0]["at"] + 0.5
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    clock = []
    for speed in (100.0, 50.0):
        began = anyio.current_time()
        await replay(path, speed=speed)
        clock.append(anyio.current_time() - began)
    assert clock[0] >= 0.005
    assert clock[1] >= 0.01


async def test_observers_see_a_replay_as_they_saw_the_run(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded
    exporter, provider, watch = InMemorySpanExporter(), TracerProvider(), Watch()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await replay(path, observers=[Tracing(tracer_provider=provider, spans={"wait": False}), watch])
    names = [span.name for span in exporter.get_finished_spans() if span.name != "streamtools.step"]
    drawn = ["chat c", "chat c", "execute_tool get_weather", "invoke_agent guide", "streamtools.begin.run guide"]
    assert sorted(names) == drawn
    assert [lane.name for lane in watch.picture.calls] == ["get_weather"]


async def test_a_body_that_decodes_to_something_else_is_a_difference(recorded: tuple[Path, list[Event]]) -> None:
    path, events = recorded
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"delta":"{\\"city\\": \\"Oslo\\"}"', '"delta":"{}"'), encoding="utf-8")
    async with replay(path) as run:
        found = [event async for event in run]
    assert [type(event) for event in found] == [type(event) for event in events]
    place = next(event.seq for event in events if isinstance(event, ToolCallDelta))
    assert [str(one) for one in run.differences] == [f"event {place}: ToolCallDelta has another delta"]
    assert "Oslo" not in repr(run.differences)


async def test_events_that_are_missing_or_too_many_are_differences(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded
    whole = lines(path)
    first = next(number for number, line in enumerate(whole) if b'"TextDelta"' in line)
    path.write_bytes(b"".join(whole[:first] + whole[first + 1 :]))
    run = replay(path)
    await run
    assert [one.text for one in run.differences] == ["TextDelta comes out, and was not recorded"]
    path.write_bytes(b"".join(whole[: first + 1] + whole[first:]))
    run = replay(path)
    await run
    assert [one.text for one in run.differences] == ["TextDelta was recorded, and does not come out"]


async def test_with_tools_the_arguments_are_judged_again(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded

    @tool(name="get_weather", effect="pure")
    async def changed(city: str, country: str) -> str:
        """Get the weather."""
        raise AssertionError("it must not run")

    run = replay(path, tools=[changed])
    await run
    assert len(run.differences) == 1
    assert (
        run.differences[0].text
        == "ToolCallEnd has another call.problem: None was recorded, and 'invalid_arguments' comes out"
    )
    assert run.observations[0].value == "rain in Oslo"


async def test_live_results_run_the_tools(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded

    @tool(name="get_weather", effect="pure")
    async def changed(city: str) -> str:
        """Get the weather."""
        RAN.append(city)
        return "sun"

    async with replay(path, tools=[changed], results="live", speed=1000.0) as run:
        kinds = [type(event) async for event in run]
    assert RAN == ["Oslo"]
    assert ToolStarted in kinds
    assert [turn.text for turn in run.turns] == ["Looking. ", "Rain."]
    assert [one.value for one in run.observations] == ["sun"]


async def test_a_live_replay_may_be_left_in_the_middle(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded
    async with replay(path, tools=[get_weather], results="live") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    with pytest.raises(KeyError, match="mine"):
        async with replay(path, tools=[get_weather], results="live") as run:
            await anext(run)
            raise KeyError("mine")
    with anyio.CancelScope() as scope:
        async with replay(path, tools=[get_weather], results="live") as run:
            scope.cancel()
            async for _ in run:
                pass
    assert scope.cancelled_caught


async def test_a_stream_that_broke_breaks_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    async def breaks() -> AsyncIterator[bytes]:
        yield ASKS[0]
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await pipeline(breaks(), tools=[get_weather], wire=ANTHROPIC, observers=[record(path)])
    run = replay(path)
    turn = await run
    assert isinstance(turn.error, TruncatedStream)
    assert run.differences == ()
    with pytest.raises(TruncatedStream):
        await replay(path, tools=[get_weather], results="live")


async def test_a_run_that_was_left_replays_as_far_as_it_came(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.jsonl", []

    class Keeps:
        event_types = None

        def on_event(self, event: Event) -> None:
            seen.append(event)

        def around_tool(self, call_id: str) -> None:
            return None

    async with pipeline(sent(ASKS), tools=[get_weather], observers=[record(path), Keeps()]) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    async with replay(path) as run:
        same([event async for event in run], seen, times=False)
    assert run.differences == ()


async def test_stages_of_the_programs_own_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    stages = DEFAULT.insert_before("accumulate", text_calls("hermes"))
    body = chat(['<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'], finish="stop")
    await pipeline(sent(body), tools=[get_weather], stages=stages, observers=[record(path)])
    run = replay(path)
    assert [call.name for call in (await run).calls] == ["get_weather"]
    assert run.unchecked == ("a response passed stages or transforms of the program's own; give stages=",)
    run = replay(path, stages=stages, tools=[get_weather])
    await run
    assert (run.unchecked, run.differences) == ((), ())


async def test_a_tap_records_what_a_client_reads(tmp_path: Path) -> None:
    async with tapped(Server(ENDS), observers=lambda: [record(tmp_path)]) as (_, client):
        assert await read(client) == ENDS
    (path,) = files(tmp_path)
    run = replay(path)
    assert (await run).text == "Rain."
    assert run.differences == ()
    assert len(run.recording.bodies[0]) == len(ENDS)


async def test_a_replay_says_what_it_cannot_do(recorded: tuple[Path, list[Event]], tmp_path: Path) -> None:
    path, _ = recorded
    with pytest.raises(ValueError, match="speed=0: must be a number greater than 0"):
        replay(path, speed=0)
    with pytest.raises(ValueError, match="unknown results 'none'; known: recorded, live"):
        replay(path, results="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'results="live" needs the tools'):
        replay(path, results="live")
    with pytest.raises(TypeError, match="approve means nothing where results are recorded"):
        replay(path, approve=lambda request: True)
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "missing.jsonl")
    run = replay(path)
    with pytest.raises(TypeError, match="the replay's block was not entered"):
        await anext(run)
    await run
    with pytest.raises(LocalProtocolError, match="a replay is entered once"):
        async with run:
            pass
    path.write_bytes(lines(path)[0])
    with pytest.raises(RecordingError, match="has no step"):
        await replay(path)


async def test_limits_bound_what_is_decoded_again(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded
    run = replay(path, limits=Limits(max_argument_bytes=5))
    await run
    assert [one.text for one in run.differences] == ["ToolCallDelta was recorded, and does not come out"]


async def test_a_difference_of_a_call_names_the_field_alone(recorded: tuple[Path, list[Event]]) -> None:
    path, events = recorded
    end = next(event for event in events if isinstance(event, ToolCallEnd))
    text = path.read_text(encoding="utf-8").replace(
        '"call_id":"c1","name":"get_weather","arguments_text"', '"call_id":"c1","name":"get_wether","arguments_text"', 1
    )
    path.write_text(text, encoding="utf-8")
    run = replay(path)
    await run
    assert [str(one) for one in run.differences] == [f"event {end.seq}: ToolCallEnd has another call.name"]


async def test_several_runs_of_one_file_are_replayed_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for name in ("one", "two"):
        run = Trajectory(run_id=name, observers=[record(path)])
        await pipeline(sent(chat([name], finish="stop")), wire=CHAT, trajectory=run)
    for found in Recording.read_all(path):
        assert (await replay(found)).text == found.run_id
    assert (await replay(path, run_id="two")).text == "two"


async def test_a_replayed_observation_has_its_waits_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    @tool(effect="once")
    async def book() -> str:
        """Book."""
        return "booked"

    await run_loop(anthropic([], [("c1", "book", "{}")]), ENDS, tools=[book], observers=[record(path)], wire=ANTHROPIC)
    async with replay(path) as run:
        events = {type(event): event async for event in run if isinstance(event, (ToolStarted, Observation))}
    (wait,) = [one for one in events[Observation].waits if one.reason == "turn_end"]  # type: ignore[attr-defined]
    assert wait.began <= wait.ended <= events[ToolStarted].time + 1e-6  # type: ignore[attr-defined]
