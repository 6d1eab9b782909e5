"""The picture of a run: what it says of steps, calls, waits, attempts, causes and texts, and what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import decisions_on
from profiles import every
from view.seen_runs import hostile_events, many_events, stamped, watched

from streamtools import Deny, Suspended, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.events import (
    Event,
    EventsDropped,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from streamtools.parts import ToolCall
from streamtools.view import Picture, Watch, draw, page
from streamtools.view.lanes import CallLane

PAYS = b"""\
data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function",\
"function":{"name":"pay","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"""


async def seen(**options: Any) -> Picture:
    watch = Watch(**options)
    await watched(watch)
    return watch.picture


def call_of(picture: Picture, call_id: str) -> CallLane:
    (call,) = [call for call in picture.calls if call.call_id == call_id]
    return call


@pytest.mark.anyio
async def test_a_call_shows_each_attempt_and_each_wait() -> None:
    picture = await seen()
    assert [one.number for one in call_of(picture, "c2").tries] == [1, 2, 3]
    assert [wait.reason for wait in call_of(picture, "d2").waits][-1] == "approval"
    assert call_of(picture, "c3").tries == []
    for call in picture.calls:
        for wait in call.waits:
            assert wait.end is not None
            assert wait.start <= wait.end
        assert call.end is not None


def test_the_wait_for_the_turns_end_is_shown_and_that_for_a_place() -> None:
    call = ToolCall(call_id="c", name="pay", status="ready")
    between: list[Event] = [TextDelta("x") for _ in range(20)]
    events = [StepStart("run"), StreamStart("w"), ToolCallStart("c", "pay"), ToolCallEnd(call), ToolCallValidated(call)]
    rest = [*between[:10], StreamEnd("tool_calls"), *between[10:], ToolStarted("c", "pay"), StepEnd()]
    (drawn,) = draw(stamped([*events, *rest])).calls
    told = [(wait.reason, round(1000 * ((wait.end or 0) - wait.start))) for wait in drawn.waits]
    assert told == [("turn's end", 11), ("place", 11)]


@pytest.mark.anyio
async def test_a_call_points_to_the_text_before_it_and_an_answer_to_the_results_it_had() -> None:
    picture = await seen()
    after = call_of(picture, "d1").after
    assert after is not None
    assert "".join(text for piece, _, _, text in picture.growth if piece == after) == "Paying."
    assert [picture.calls[id].call_id for id in sorted(picture.steps[1].fed_by)] == ["c1", "c2", "c3", "c4"]
    fed = {arrow.source for arrow in picture.arrows if arrow.target == "s1"}
    assert fed == {call.ref for call in picture.calls if call.step == 0}


@pytest.mark.anyio
async def test_without_content_no_text_is_in_the_picture() -> None:
    told = str((await seen(content=False)).data())
    for secret in ("Lisbon", "rain.", "Paying", "too much", "70007000", "planned", "Mondays"):
        assert secret not in told
    assert "CallDenied" in told


@pytest.mark.anyio
@every("verdict", [True, Deny("no")])
async def test_a_run_that_was_resumed_is_drawn_behind_the_one_that_asked(verdict: Any) -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    watch = Watch()
    async with pipeline(PAYS, tools=[pay], observers=[watch]) as events:
        async for _ in events:
            pass
        waiting: Suspended | None = events.suspended
    assert waiting is not None
    store = MemoryStore()
    async with resume(
        waiting, tools=[pay], decisions=decisions_on(waiting, {"c1": verdict}), store=store, observers=[watch]
    ) as events:
        async for _ in events:
            pass
    picture = watch.picture
    assert [call.outcome for call in picture.calls][-1] == ("ok" if verdict is True else "denied")
    assert [step.asks_model for step in picture.steps] == [True, False]
    assert {call.call_id for call in picture.calls} == {"c1"}
    assert picture.calls[0].to_model is None  # nobody has read that it waits
    assert picture.data()["head"]["calls"] == 1


def test_two_runs_at_once_are_no_picture() -> None:
    with pytest.raises(ValueError, match="the events belong to two runs"):
        draw([StepStart("one", seq=0, time=1.0), StepStart("two", seq=0, step=0, time=1.0)])


def test_deltas_without_times_stand_between_the_events_around_them() -> None:
    events = stamped([StepStart("run"), TextDelta("a"), TextDelta("b"), StepEnd()])
    times = [time for _, _, time, _ in draw(events).growth]
    assert times == [pytest.approx(0.001), pytest.approx(0.002)]


def test_events_that_were_dropped_are_told() -> None:
    assert draw([EventsDropped(3, 9, seq=9)]).notes == ["events 3 to 9 were dropped"]


def test_a_picture_is_bounded_and_says_what_is_missing() -> None:
    watch = Watch(max_events=10, max_chars=20)
    for event in many_events(100):
        watch.on_event(event)
    data = watch.picture.data()
    assert len(data["marks"][0]) + len(data["growth"][0]) == 10
    assert data["leftOut"] > 0
    assert len(data["growth"][4]) <= 20
    assert data["cutChars"] > 0
    for bound in ("max_events", "max_chars"):
        with pytest.raises(ValueError, match=bound):
            Watch(**{bound: 0})  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_page_is_made_of_a_watch_or_of_its_picture() -> None:
    watch = Watch("Trip")
    await watched(watch)
    assert page(watch) == page(watch.picture)
    assert "\\u003c/script" in page(hostile_events())


def test_a_step_begins_with_its_request() -> None:
    events: list[Event] = [
        StepStart("run", requested_at=100.0, seq=0, time=102.0),
        StreamStart("openai.responses", "m", seq=1, step=0, causes=(0,), time=103.0),
        StreamEnd(finish="stop", complete=True, seq=2, step=0, causes=(1,), time=105.0),
        StepEnd("complete", seq=3, step=0, causes=(2,), time=105.0),
    ]
    (step,) = draw(events).steps
    assert (step.start, step.stream_start, step.end) == (0.0, 3.0, 5.0)
