"""Pictures of runs that are no plain pipeline: calls alone, without an event loop, whole answers, calls left to others,
a client's copy, and one that is left in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from profiles import every
from streams import add, anthropic, chat, until
from view.seen_runs import stamped

from streamtools import pipeline, run_calls
from streamtools.durable.codec import written_event
from streamtools.errors import TruncatedStream
from streamtools.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    OutputDelta,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    StreamWarning,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolProgress,
    ToolStarted,
)
from streamtools.parts import ToolCall
from streamtools.record import Recording
from streamtools.view import Picture, Watch, draw, draw_recordings, page
from streamtools.view.picture import words_of

BODY = chat(["Adding."], [("c1", "add", '{"a": 1, "b": 2}')])


async def endless() -> AsyncIterator[bytes]:
    """A text that goes on until somebody leaves."""
    for chunk in anthropic(["a", "b"], stop=None):
        yield chunk
    await anyio.sleep_forever()


def told(picture: Picture) -> dict[str, str | None]:
    """The outcomes, once the picture can be shown every way."""
    assert page(picture)
    return {call.call_id: call.outcome for call in picture.calls}


@pytest.mark.anyio
async def test_calls_that_were_given_are_drawn_without_a_model() -> None:
    watch = Watch()
    await run_calls([("c1", "add", {"a": 1, "b": 2})], [add], observers=[watch])
    assert told(watch.picture) == {"c1": "ok"}
    assert [step.asks_model for step in watch.picture.steps] == [False]


@pytest.mark.anyio
@every(("start", "outcome"), [("off", "left_alone"), ("turn_end", "ok"), (None, "ok")])
async def test_a_call_that_nobody_here_runs_is_not_shown_as_running(start: Any, outcome: str) -> None:
    watch = Watch()
    await pipeline(BODY, tools=[add], start=start, observers=[watch])
    assert told(watch.picture) == {"c1": outcome}
    assert all(call.end is not None for call in watch.picture.calls)


def test_recordings_are_drawn_by_their_begin_each_as_long_as_it_was(tmp_path: Path) -> None:
    runs = {  # the second of its begin, the moment on its own clock, its length; two overlap, one was made elsewhere
        "b": (0, 500.0, 4.0),
        "a": (2, 502.0, 3.0),
        "c": (10, 7.0, 0.5),
    }
    for name, (second, at, length) in runs.items():
        events: list[Event] = [
            StepStart(name, seq=0, step=0, time=at + 0.25, requested_at=at),
            StepEnd("complete", seq=1, step=0, time=at + length),
        ]
        head = {"recording": 1, "run_id": name, "began": f"2026-01-01T00:00:{second:02}+00:00", "at": at}
        lines = [head, *map(written_event, events)]
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    read = [Recording.read(tmp_path / f"{name}.jsonl") for name in runs]
    for order in permutations(read):
        picture = draw_recordings(order)
        assert picture.title == "b"
        spans = [(step.start, step.end) for step in picture.steps]
        assert spans == [(0.0, 4.0), (4.0, 7.0), (10.0, 10.5)]


@pytest.mark.anyio
async def test_a_run_that_was_left_in_the_middle_has_an_end() -> None:
    watch = Watch()
    async with pipeline(endless(), tools=[add], observers=[watch]) as events:
        await until(events, TextDelta)
    assert watch.picture.steps[0].outcome == "abandoned"
    assert told(watch.picture) == {}


class Unspeakable(Exception):
    """An exception whose own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_stream_that_failed_says_why_even_if_its_error_has_no_words() -> None:
    failed = StreamEnd("error", error=TruncatedStream("the connection is gone"))
    picture = draw(stamped([StepStart("run"), TextDelta("a"), failed, StepEnd("truncated")]))
    assert picture.steps[0].error == "TruncatedStream: the connection is gone"
    assert words_of(Unspeakable()) == "Unspeakable"
    assert words_of(TruncatedStream("a secret"), text=False) == "TruncatedStream"


def test_a_call_whose_beginning_nobody_saw_is_drawn_from_there_on() -> None:
    late: list[Event] = [
        ToolProgress("c", "pay", 1),
        ApprovalRequested("d", "pay", {}, fingerprint="f"),
        ApprovalResolved("e", "pay", True),
        ToolCallValidated(ToolCall(call_id="f", name="ask", status="ready")),
        ToolCallDelta("never seen", "{"),
        OutputDelta(),
        TextEnd(),
        ToolStarted("d", "pay"),
        ToolStarted("d", "pay", 2),
        StepEnd("cancelled"),
    ]
    picture = draw(stamped([StepStart("run"), *late]))
    assert [call.name for call in picture.calls] == ["pay", "pay", "pay", "ask"]
    assert [one.number for one in picture.calls[1].tries] == [1, 2]
    assert draw([ToolProgress("c", "pay", 1)]).steps[0].number == 0
    assert set(told(picture)) == {"c", "d", "e", "f"}


def test_every_piece_of_a_response_is_drawn_and_each_deviation_told() -> None:
    served = ToolCall(call_id="s", name="search", kind="server", status="ready", normalizations=("double_encoded",))
    picture = draw(
        stamped(
            [
                StepStart("run"), StreamStart("w", "m"),
                ReasoningStart(), ReasoningDelta("hm"), ReasoningEnd(),
                RefusalDelta("no"), TextDelta("old"), TextEnd(whole="new"),
                ToolCallStart("s", "search", "server"), ToolCallEnd(served),
                StreamWarning("index_reused", "twice"), StreamEnd("stop"), StepEnd(),
            ]
        )
    )  # fmt: skip
    assert [piece.kind for piece in picture.pieces] == ["reasoning", "refusal", "text", "call"]
    assert [(code, text) for _, code, text in picture.steps[0].warnings] == [
        ("text_replaced", "new"), ("index_reused", "twice"),
    ]  # fmt: skip
    assert told(picture) == {"s": "server"}
    assert ("normalized", "double_encoded") in picture.calls[0].facts
