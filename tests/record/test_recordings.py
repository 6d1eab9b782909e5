"""`record` writes a run as it happens, and `Recording.read` has it again: events, turns, bodies, times."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from decisions import decisions_on
from profiles import every
from pydantic import BaseModel
from record.recorded import answers, files, lines, run_loop, same
from streams import anthropic, chat, stream
from wire_cases.names import ANTHROPIC, CHAT

from streamtools import Limits, Observation, Suspended, Trajectory, agent_loop, pipeline, resume, run_calls, tool
from streamtools.content import Media, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.errors import InvalidArguments, ToolError, ToolFailed
from streamtools.events import StepStart, StreamWarning, TextDelta
from streamtools.record import Chunk, RecordedError, RecordedObject, Recording, RecordingError, record, replay
from streamtools.view import draw_recordings

pytestmark = pytest.mark.anyio

ASKS = anthropic(
    ["Loo", "king. "], [("c1", "get_weather", '{"city": "Oslo"}'), ("c2", "fail", "{}"), ("c3", "gone", "{}")]
)
ENDS = anthropic(["Rain", "."], stop="end_turn")


@tool(effect="pure")
async def get_weather(city: str) -> dict[str, Any]:
    """Get the weather."""
    return {"city": city, "sky": ("rain", 1)}


@tool(effect="idempotent", retries=1, retry_delay_s=0.001)
async def fail() -> str:
    """Fail."""
    raise ConnectionError("the bank does not answer")


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_a_recording_has_the_events_of_its_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    events = await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    found = Recording.read(path)
    same(found.events, events)
    assert (found.name, found.conversation_id, found.outcome) == ("guide", "talk", "answered")
    assert [turn.text for turn in found.turns] == ["Looking. ", "Rain."]
    assert [len(turn.observations) for turn in found.turns] == [3, 0]
    assert (found.redacted, found.cut) == (False, False)


async def test_a_recording_has_the_bodies_as_they_were_read(tmp_path: Path) -> None:
    body = "data: é€\n\n".encode()
    cut = [body[:7], body[7:9], body[9:]]
    path = tmp_path / "run.jsonl"
    await run_loop([*ASKS, *cut], ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    first, second = Recording.read(path).bodies
    assert [_bytes(chunk) for chunk in second] == ENDS
    assert [_bytes(chunk) for chunk in first] == ASKS  # what follows the end is not read
    times = [chunk.at for chunk in (*first, *second)]
    assert times == sorted(times)


async def test_bytes_that_are_no_text_and_payloads_are_kept(tmp_path: Path) -> None:
    path, euro = tmp_path / "run.jsonl", b"\n\n" + ": €\n\n".encode()
    payload = json.loads(chat(["Hi"], finish="stop")[1][6:])
    payload["choices"][0]["finish_reason"] = "stop"
    for number, body in enumerate(([euro[:5], euro[5:], *chat(finish="stop")], [payload])):
        run = Trajectory(run_id=f"run{number}", observers=[record(path)])
        await run_pipeline(pipeline(_each(body), wire=CHAT, trajectory=run))
    first, second = Recording.read_all(path)
    assert [chunk.item for chunk in first.bodies[0]][:2] == [euro[:5], euro[5:]]
    assert [chunk.item for chunk in second.bodies[0]] == [payload]


async def test_it_is_its_owners_alone_and_closed_between_steps(tmp_path: Path) -> None:
    recorder = record(tmp_path / "run.jsonl")
    run = Trajectory(observers=[recorder])
    await run_pipeline(pipeline(stream(chat(["Hi"], finish="stop")), trajectory=run))
    if sys.platform != "win32":
        assert stat.S_IMODE(recorder.path.stat().st_mode) == 0o600
    recorder.path.rename(tmp_path / "moved.jsonl")
    await run_pipeline(pipeline(stream(chat(["Ho"], finish="stop")), trajectory=run))
    assert [event.step for event in Recording.read(tmp_path / "moved.jsonl").events][-1] == 0
    assert b'"step":1' in recorder.path.read_bytes()


async def test_a_directory_gets_a_file_for_each_run(tmp_path: Path) -> None:
    names = ["one", "../../two", "tenant_1", "tenant:1", "tenant/1"]
    for name in names:
        run = Trajectory(run_id=name, observers=[record(tmp_path)])
        await run_pipeline(pipeline(stream(chat(["Hi"], finish="stop")), trajectory=run))
    found = {run.run_id: path.name for path in files(tmp_path) for run in Recording.read_all(path)}
    assert found["one"] == "one.jsonl"
    assert re.fullmatch(r"______two-[0-9a-f]{16}\.jsonl", found["../../two"])
    assert len(set(found.values())) == len(names)


async def test_a_run_goes_on_in_its_file_after_an_approval(tmp_path: Path) -> None:
    path, store = tmp_path / "run.jsonl", MemoryStore()
    asks = anthropic(["Paying."], [("c1", "pay", '{"amount": 5}')])
    async with agent_loop(
        answers(asks), [], tools=[pay], wire=ANTHROPIC, store=store, trajectory=Trajectory(observers=[record(path)])
    ) as loop:
        before = [event async for event in loop]
    kept = Suspended.from_text(loop.suspended.to_text("k" * 32), "k" * 32)
    async with resume(
        kept, tools=[pay], store=store, decisions=decisions_on(kept, {"c1": True}), observers=[record(path)]
    ) as events:
        after = [event async for event in events]
    found = Recording.read(path)
    same([event for event in found.events if event.seq >= after[0].seq], after)
    assert [type(event).__name__ for event in found.events][: len(before)] == [type(e).__name__ for e in before]
    assert [turn.observations[0].outcome for turn in found.turns] == ["skipped", "ok"]
    assert [event.seq for event in found.events] == sorted(event.seq for event in found.events)
    async with replay(path) as again:
        assert len([event async for event in again]) == len(found.events)
    assert again.differences == ()  # the calls that waited come out of no body


async def test_a_step_that_goes_on_in_another_process_is_placed_by_the_calendar(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    rows = [json.loads(line) for line in lines(path)]
    second = next(n for n, row in enumerate(rows) if row.get("event") == "StepStart" and row.get("step") == 1) - 1
    assert rows[second]["recording"] == 1
    began = datetime.fromisoformat(rows[0]["began"])
    for row in rows[second:]:  # another machine's clock, a day later
        for key in ("at", "time", "requested_at"):
            if key in row:
                row[key] -= 1000
    rows[second]["began"] = (began + timedelta(days=1)).isoformat()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = Recording.read(path)
    times = [at for at, _ in found.timed()]
    assert times == sorted(times)
    starts = [event.time for event in found.events if isinstance(event, StepStart)]
    assert starts[1] - starts[0] == pytest.approx(86_400, abs=5)
    assert [turn.text for turn in found.turns] == ["Looking. ", "Rain."]


@pytest.mark.skipif(sys.platform == "win32", reason="no such locks on Windows")
async def test_a_file_takes_one_step_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    async with pipeline(stream(chat(["one"], finish="stop")), observers=[record(path)]) as first:
        await anext(first)
        second = await pipeline(stream(chat(["two"], finish="stop")), observers=[record(path)])
        assert [(one.code, one.detail) for one in second.warnings] == [
            ("observer_failed", "Recorder raised BlockingIOError")
        ]
        await first.finish()
    assert [turn.text for turn in Recording.read(path).turns] == ["one"]


async def test_calls_that_were_given_are_recorded_without_a_body(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    turn = await run_calls([("c1", "get_weather", {"city": "Oslo"})], [get_weather], observers=[record(path)])
    found = Recording.read(path)
    assert found.bodies == ()
    assert found.turns[0].observations[0].value == turn.observations[0].value


class Sky(BaseModel):
    """A sky."""

    colour: str


@dataclass
class Opaque:
    """What no JSON has."""

    lock: object


LOOP: list[Any] = []
LOOP.append(LOOP)


@every(
    ("value", "read"),
    [
        ({"a": (1, [2.5, None, True])}, {"a": (1, [2.5, None, True])}),
        ({1: "a", "$": 2}, {1: "a", "$": 2}),
        (b"\x00\xff", b"\x00\xff"),
        ({"inf": float("inf")}, {"inf": float("inf")}),
        (2**70, 2**70),
        ("half \ud800", "half \ud800"),
        (frozenset({1}), frozenset({1})),
        (Sky(colour="grey"), {"colour": "grey"}),
        (Decimal("1.50"), "1.50"),
        (Opaque(object()), RecordedObject("test_recordings.Opaque")),
    ],
)
async def test_a_value_comes_back_as_it_was_or_as_the_model_reads_it(value: Any, read: Any, tmp_path: Path) -> None:
    @tool(effect="pure")
    async def get() -> Any:
        """Get it."""
        return value

    path = tmp_path / f"{len(files(tmp_path))}.jsonl"
    await run_calls([("c1", "get", {})], [get], observers=[record(path)])
    found = Recording.read(path).turns[0].observations[0]
    assert (type(found.value), found.value) == (type(read), read)


async def test_a_value_that_contains_itself_is_named(tmp_path: Path) -> None:
    @tool(effect="pure")
    async def get() -> Any:
        """Get it."""
        return LOOP

    path = tmp_path / "run.jsonl"
    await run_calls([("c1", "get", {})], [get], observers=[record(path)])
    found = Recording.read(path).turns[0].observations[0].value
    while isinstance(found, list):
        (found,) = found
    assert found == RecordedObject("list")


async def test_blocks_and_errors_come_back(tmp_path: Path) -> None:
    @tool(effect="pure")
    async def draw() -> ToolResult:
        """Draw."""
        return ToolResult(blocks=("a plan", Media(kind="image", mime_type="image/png", data="iVBORw0KGgo=")), value=1)

    path = tmp_path / "run.jsonl"
    turn = await run_calls([("c1", "draw", {}), ("c2", "fail", {})], [draw, fail], observers=[record(path)])
    drawn, failed = Recording.read(path).turns[0].observations
    assert drawn.result == turn.observations[0].result
    assert isinstance(failed.error, ToolFailed)
    with pytest.raises(RecordedError, match="the bank does not answer") as raised:
        failed.unwrap()
    assert raised.value.type == "ConnectionError"


async def test_a_full_recording_ends_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = record(tmp_path / "run.jsonl", limits=Limits(max_recording_bytes=4000))
    with caplog.at_level(logging.WARNING, "streamtools"):
        events = await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[recorder], wire=ANTHROPIC)
    assert recorder.cut
    assert [event.code for event in events if isinstance(event, StreamWarning)] == []
    assert "max_recording_bytes" in caplog.text
    found = Recording.read(recorder.path)
    assert found.cut
    same(found.events, events[: len(found.events)])
    assert recorder.path.stat().st_size < 4000 + 50


async def test_a_recorder_that_cannot_write_is_dropped_with_a_warning(tmp_path: Path) -> None:
    recorder = record(tmp_path / "missing" / "run.jsonl")
    turn = await pipeline(stream(chat(["Hi"], finish="stop")), observers=[recorder])
    assert turn.text == "Hi"
    assert [(one.code, one.detail) for one in turn.warnings] == [
        ("observer_failed", "Recorder raised FileNotFoundError")
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
async def test_a_run_is_recorded_on_after_the_disk_was_full_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """A limit on files' size tears a line as a full disk does; then room is made, and the run goes on."""
    import resource

    path = tmp_path / "run.jsonl"
    run = Trajectory(observers=[record(path)])
    long, limits = chat(["x" * 100_000], finish="stop"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, limits[1]))
    try:
        torn = await pipeline(stream(long), trajectory=run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(one.code, one.detail) for one in torn.warnings] == [("observer_failed", "Recorder raised OSError")]
    await run_pipeline(pipeline(stream(chat(["two"], finish="stop")), trajectory=run))
    found = Recording.read(path)
    assert len(found.lost) == 1
    assert not lines(path)[found.lost[0] - 1].endswith(b"}\n")
    assert [turn.text for turn in found.turns][1:] == ["two"]
    async with replay(path) as again:
        events = [event async for event in again]
    assert len(events) == len(found.events)
    assert (again.differences, again.unchecked) == ((), (f"lines of the file were torn: {found.lost[0]}",))


@pytest.mark.asyncio_only  # nothing in it knows which one runs
async def test_a_torn_line_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    whole, events = lines(path), Recording.read(path).events
    assert Recording.read(path).lost == ()
    for at in range(1, len(whole) - 1):
        path.write_bytes(b"".join([*whole[:at], whole[at][: len(whole[at]) // 2], b"\n\xff\n", *whole[at + 1 :]]))
        found = Recording.read(path)
        assert found.lost == (at + 1, at + 2)
        assert len(events) - 1 <= len(found.events) <= len(events)
    path.write_bytes(b"".join([whole[0][:20], b"\n", *whole]))
    assert Recording.read(path).lost == (1,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on Windows")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # other threads run
async def test_a_fork_in_a_tool_leaves_the_recording_to_the_parent(tmp_path: Path) -> None:
    """The child inherits the file with its lock and its buffer, and lives on."""
    path, pipe = tmp_path / "run.jsonl", os.pipe()
    run = Trajectory(observers=[recorder := record(path)])
    children: list[int] = []

    @tool(effect="pure")
    async def fork() -> str:
        """Fork a child."""
        if (child := os.fork()) == 0:
            try:
                for _ in range(3):
                    recorder.on_event(StepStart(run_id=run.run_id))
                    recorder.on_event(TextDelta("of the child"))
                os.read(pipe[0], 1)
            finally:
                os._exit(0)
        children.append(child)
        return "forked"

    try:
        await run_pipeline(pipeline(stream(chat(calls=[("a", "fork", "{}")])), tools=[fork], trajectory=run))
        second = await pipeline(stream(chat(["two"], finish="stop")), trajectory=run)
        assert second.warnings == ()
    finally:
        os.write(pipe[1], b".")
        for child in children:
            os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        os.close(pipe[0])
        os.close(pipe[1])
    found = Recording.read(path)
    assert found.lost == ()
    assert [event.seq for event in found.events] == list(range(len(found.events)))
    assert [turn.text for turn in found.turns] == ["", "two"]


async def test_a_run_is_chosen_in_a_file_of_several(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for name in ("one", "two"):
        run = Trajectory(run_id=name, observers=[record(path)])
        await run_pipeline(pipeline(stream(chat([name], finish="stop")), trajectory=run))
    assert Recording.read(path, run_id="two").turns[0].text == "two"
    with pytest.raises(RecordingError, match="has 2 runs; choose one: run_id='one'"):
        Recording.read(path)
    with pytest.raises(RecordingError, match="has no run 'three'; it has 'one', 'two'"):
        Recording.read(path, run_id="three")


@pytest.mark.asyncio_only  # nothing in it knows which one runs
async def test_of_a_run_that_died_all_whole_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    events = await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    whole = lines(path)
    for kept in range(1, len(whole)):
        path.write_bytes(b"".join(whole[:kept]) + whole[kept][: len(whole[kept]) // 2])
        found = Recording.read(path)
        same(found.events, events[: len(found.events)])
        assert len(found.turns) <= 2


SENSELESS = [
    (b"[]", "line 2: expected an object, got list"),
    (b"{}", "line 2: a line of an unknown kind"),
    (b"[" * 10_000, "line 2: a value is nested too deeply"),
    (b'{"event": "Event"}', "line 2: an event of an unknown kind"),
    (b'{"event": ["x"]}', "line 2: an event of an unknown kind"),
    (b'{"event": "TextDelta", "seq": 1}', "line 2: TextDelta.text is missing"),
    (b'{"event": "TextDelta", "seq": 1, "text": 5}', "line 2: TextDelta.text: expected str, got int"),
    (b'{"event": "TextDelta", "seq": true, "text": "a"}', "line 2: TextDelta.seq: expected int, got bool"),
    (b'{"event": "TextDelta", "seq": -9223372036854775808, "text": "a"}', "seq: expected int, got int out of range"),
    (b'{"event": "TextDelta", "text": "a", "__class__": 1}', "line 2: TextDelta has the unknown field '__class__'"),
    (b'{"event": "TextStart", "causes": ["a"]}', "line 2: TextStart.causes: expected tuple\\[int, ...\\], got tuple"),
    (b'{"event": "ToolCallEnd", "call": {"call_id": "a"}}', "line 2: ToolCallEnd.call: expected ToolCall, got dict"),
    (b'{"event": "UnknownPayload", "raw": {"$": "Path", "is": "/"}}', "line 2: a value of an unknown kind"),
    (b'{"event": "UnknownPayload", "raw": {"$": "bytes", "is": "%"}}', "line 2: expected a bytes"),
    (b'{"event": "UnknownPayload", "raw": {"$": "set", "is": [[1]]}}', "line 2: expected a set"),
    (b'{"event": "StreamEnd", "error": {"$": "error", "is": "OSError"}}', "line 2: an error of an unknown kind"),
    (
        b'{"event": "StreamEnd", "error": {"$": "error", "is": "ToolError"}}',
        "line 2: StreamEnd.error: expected StreamError",
    ),
    (b'{"chunk": 5, "at": 1}', "line 2: chunk: expected str or None, got int"),
    (b'{"chunk": "a"}', "line 2: at is missing"),
    (b'{"bytes": "%", "at": 1}', "line 2: expected base64 in bytes"),
    (b'{"payload": [], "at": 1}', "line 2: payload: expected an object, got list"),
    (b'{"stream": 1}', "line 2: stream: expected an object, got int"),
    (b'{"source_end": 1, "at": 1}', "line 2: source_end: expected StreamError or None, got int"),
    (b'{"event": "TextStart", "seq": %d}' % 2**200, "line 2: TextStart.seq: expected int, got int out of range"),
    (b'{"event": "TextStart", "time": 1e308}', "line 2: TextStart.time: expected float, got float out of range"),
    (b'{"event": "TextStart", "time": {"$": "float", "is": "nan"}}', "TextStart.time: expected float, got float out"),
    (
        b'{"event": "StreamEnd", "finish": "bored"}',
        "finish: expected one of stop, tool_calls, .* or None, got another str",
    ),
    (b'{"event": "StepEnd", "outcome": "odd"}', "StepEnd.outcome: expected one of complete, .*, got another str"),
    (
        b'{"event": "Observation", "call_id": "a", "tool_name": "f", "outcome": "fine"}',
        "Observation.outcome: expected one",
    ),
    (
        b'{"event": "StreamEnd", "error": {"$": "error", "is": "ProviderError", "has": {"message": "a"}}}',
        "line 2: ProviderError.code is missing",
    ),
    (
        b'{"event": "StreamEnd", "error": {"$": "error", "is": "LimitExceeded", "has": {"message": "", "setting": 1}}}',
        "line 2: LimitExceeded.setting: expected str, got int",
    ),
    (b'{"event": "UnknownPayload", "raw": {"$": "error", "type": 5}}', "line 2: error.type: expected str, got int"),
    (b'{"event": "UnknownPayload", "raw": {"$": "object"}}', "line 2: RecordedObject.type: expected str, got NoneType"),
    (b'{"event": "UnknownPayload", "raw": {"$": "float", "is": 1%s}}' % (b"0" * 400), "line 2: expected a float"),
    (
        b'{"recording": 1, "run_id": "r", "began": "2026-01-01T00:00:00", "at": 1}',
        "began: expected datetime with a zone",
    ),
    (b'{"recording": 1, "run_id": "r", "began": "today", "at": 1}', "began: expected datetime with a zone, got"),
    (b'{"recording": 1, "run_id": "r", "began": "2026-01-01T00:00:00Z", "at": 1e300}', "line 2: at: expected float"),
    (b'{"chunk": null, "at": 1, "size": -1}', "line 2: size: expected int from 0 to"),
    (b'{"stream": {"wire": null, "id_salt": "", "tools": [1], "is_plain": true}}', "stream.tools: expected tuple"),
    (
        b'{"stream": {"wire": null, "id_salt": "", "tools": ["f", "f"], "is_plain": true}}',
        "line 2: stream.tools: expected different names, got the same name twice",
    ),
    (b'{"run_end": "happily", "error": null, "at": 1}', "run_end: expected one of answered, .*, got another str"),
    (b'{"cut": 5}', "line 2: cut: expected str, got int"),
    (
        b'{"event": "StepStart", "run_id": "s"}',
        "line 2: StepStart.run_id: expected the id of the recording, got another one",
    ),
    (b'{"recording": 2}', "line 2: a recording of version 2; this release reads version 1"),
]


def test_a_line_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    path, wrong = tmp_path / "run.jsonl", []
    for line, problem in SENSELESS:
        path.write_bytes(HEAD + line + b"\n")
        try:
            Recording.read(path)
        except RecordingError as error:
            if re.search(problem, str(error)):
                continue
            wrong.append(f"{line[:80]!r}: {error}")
        else:
            wrong.append(f"{line[:80]!r} was read")
    assert wrong == []


HEAD = b'{"recording": 1, "run_id": "r", "began": "2026-01-01T00:00:00+00:00", "at": 0.5}\n'


async def test_an_error_of_the_programs_that_lacks_fields_makes_no_recording_unreadable(tmp_path: Path) -> None:
    class Odd(InvalidArguments):
        def __init__(self) -> None:
            pass  # and so has no `problems`

    class Known(ToolError):
        code = None

    @tool(effect="pure")
    async def ask(which: int) -> str:
        """Ask."""
        if which:
            raise Known("it is known") from Odd()
        raise Odd()

    path = tmp_path / "run.jsonl"
    await run_calls([("c1", "ask", {"which": 0}), ("c2", "ask", {"which": 1})], [ask], observers=[record(path)])
    errors = [one.error for one in Recording.read(path).turns[0].observations]
    assert [type(error) for error in errors] == [ToolError, ToolError]
    assert errors[1] is not None
    assert type(errors[1].__cause__) is ToolError


@pytest.mark.asyncio_only  # nothing in it knows which one runs
async def test_a_run_that_died_and_the_next_one_in_its_file_are_drawn_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ASKS, ENDS, tools=[get_weather, fail], observers=[record(path)], wire=ANTHROPIC)
    whole = lines(path)
    next_one = [HEAD, b'{"event":"StepStart","seq":0,"step":0,"run_id":"r","time":1e9}\n']
    for kept in range(3, len(whole)):
        path.write_bytes(b"".join([*whole[:kept], *next_one]))
        assert len(draw_recordings(Recording.read_all(path)).runs) == 2
        # The line that begins a response may be torn, too: what follows is of another one.
        path.write_bytes(b"".join([*whole[: kept - 1], b"{\n", *whole[kept:]]))
        torn = Recording.read(path)
        assert torn.lost == (kept,)
        assert draw_recordings([torn]).steps
        await replay(torn)


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for content, problem in (
        (b"", "it has no complete line"),
        (HEAD[:-1], "it has no complete line"),
        (b'{"event": "TextStart"}\n', "line 1: no recording begins before this line"),
        (b"data: [DONE]\n\xff\n", "is not a recording"),
    ):
        path.write_bytes(content)
        with pytest.raises(RecordingError, match=problem):
            Recording.read(path)
    path.write_bytes(b"".join(HEAD.replace(b'"r"', b'"\\u202e%d%s"' % (n, b"x" * 500)) for n in range(9)))
    with pytest.raises(RecordingError, match=re.escape("choose one: run_id='\\u202e0xxx")):
        Recording.read(path)
    with pytest.raises(RecordingError, match=r"has no run 's'; it has ('[^']{80,90}', ){5}\.\.\.$"):
        Recording.read(path, run_id="s")
    path.write_bytes(HEAD)
    assert Recording.read(path).turns == ()
    with pytest.raises(RecordingError, match="exceeds max_recording_bytes=10"):
        Recording.read(path, limits=Limits(max_recording_bytes=10))


def _bytes(chunk: Chunk) -> bytes:
    assert not isinstance(chunk.item, dict)
    return chunk.item.encode() if isinstance(chunk.item, str) else chunk.item  # type: ignore[return-value,union-attr]


async def _each(items: list[Any]) -> Any:
    for item in items:
        yield item


async def run_pipeline(events: Any) -> list[Observation]:
    turn = await events
    return list(turn.observations)
