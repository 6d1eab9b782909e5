"""`replay` gives a recording's events again, and says where its bodies decode to something else now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from record.recorded import lines, run_loop, same
from streams import anthropic, chat, stream, until
from wire_cases.names import ANTHROPIC

from streamtools import Event, Limits, Retry, TextDelta, agent_loop, pipeline, tool
from streamtools.errors import LocalProtocolError, TruncatedStream
from streamtools.events import Observation, ToolCallDelta, ToolCallEnd, ToolStarted
from streamtools.observers import Observer
from streamtools.privacy import Privacy
from streamtools.record import RecordingError, record, recorded_responses, replay
from streamtools.stages import DEFAULT, text_calls
from streamtools.testing import FakeTool

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
    assert [one.text for one in run.differences] == ["TextDelta is emitted, but was not recorded"]
    path.write_bytes(b"".join(whole[: first + 1] + whole[first:]))
    run = replay(path)
    await run
    assert [one.text for one in run.differences] == ["TextDelta was recorded, but is not emitted"]


async def test_a_loop_of_today_runs_on_the_recorded_responses(tmp_path: Path) -> None:
    path, cut = tmp_path / "run.jsonl", ASKS[:-2]
    retry = Retry(after_output=True, backoff=0.001)
    await run_loop(cut, ASKS, ENDS, tools=[get_weather], observers=[record(path)], wire=ANTHROPIC, retry=retry)
    RAN.clear()
    weather = FakeTool(get_weather, results=["sun"])
    ask = recorded_responses(path)
    run = agent_loop(ask, [], tools=[weather.tool], wire=ANTHROPIC)
    assert ((await run).text, run.outcome, weather.calls, RAN) == ("Rain.", "answered", [{"city": "Oslo"}], [])
    assert [seen.model_content for seen in run.turns[0].observations] == ["sun"]
    with pytest.raises(RecordingError, match="asks for more than the 2 recorded responses"):
        ask([], [])

    path = tmp_path / "cut.jsonl"
    with pytest.raises(TruncatedStream):
        await run_loop(cut, tools=[get_weather], observers=[record(path)], wire=ANTHROPIC)
    with pytest.raises(TruncatedStream):
        await agent_loop(recorded_responses(path), [], tools=[get_weather], wire=ANTHROPIC)
    path = tmp_path / "redacted.jsonl"
    hidden = Privacy(redact=lambda text: "x")
    await run_loop(ENDS, observers=[record(path)], wire=ANTHROPIC, privacy=hidden)
    with pytest.raises(RecordingError, match="the recording is redacted"):
        recorded_responses(path)


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
        == "ToolCallEnd has another call.problem: None was recorded, but is 'invalid_arguments' now"
    )
    assert run.observations[0].value == "rain in Oslo"


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


async def test_a_run_that_was_left_replays_as_far_as_it_came(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.jsonl", []

    class Keeps(Observer):
        def on_event(self, event: Event) -> None:
            seen.append(event)

    async with pipeline(stream(ASKS), tools=[get_weather], observers=[record(path), Keeps()]) as events:
        await until(events, TextDelta)
    async with replay(path) as run:
        same([event async for event in run], seen, times=False)
    assert run.differences == ()


async def test_stages_of_the_programs_own_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    stages = DEFAULT.insert_before("accumulate", text_calls("hermes"))
    body = chat(['<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'], finish="stop")
    await pipeline(stream(body), tools=[get_weather], stages=stages, observers=[record(path)])
    run = replay(path)
    assert [call.name for call in (await run).calls] == ["get_weather"]
    assert run.unchecked == ("a response passed through the program's own stages or transforms; pass stages=",)
    run = replay(path, stages=stages, tools=[get_weather])
    await run
    assert (run.unchecked, run.differences) == ((), ())


async def test_a_replay_says_what_it_cannot_do(recorded: tuple[Path, list[Event]], tmp_path: Path) -> None:
    path, _ = recorded
    with pytest.raises(ValueError, match="speed=0: must be a number greater than 0"):
        replay(path, speed=0)
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "missing.jsonl")
    run = replay(path)
    with pytest.raises(TypeError, match="the replay was not entered"):
        await anext(run)
    await run
    with pytest.raises(LocalProtocolError, match="a replay can be entered once"):
        async with run:
            pass
    path.write_bytes(lines(path)[0])
    with pytest.raises(RecordingError, match="has no step"):
        await replay(path)


async def test_limits_bound_what_is_decoded_again(recorded: tuple[Path, list[Event]]) -> None:
    path, _ = recorded
    run = replay(path, limits=Limits(max_argument_bytes=5))
    await run
    assert [one.text for one in run.differences] == ["ToolCallDelta was recorded, but is not emitted"]


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
