"""The sums of a run: its question, its end apart from that of its calls, each call in few words, and the time saved."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from kept_spans import kept_spans
from streams import anthropic, chat, exhaust
from view.seen_runs import stamped, watched

from streamtools import Limits, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import CallSkipped, TruncatedStream
from streamtools.events import (
    AttemptDiscarded,
    Event,
    MessageAdded,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    TextEnd,
    ToolCallEnd,
    ToolCallStart,
)
from streamtools.parts import RUN_OUTCOMES, ToolCall, Usage
from streamtools.telemetry import Tracing
from streamtools.view import Watch, draw
from streamtools.view.picture import TRIED


@tool(effect="pure", conflict_key="key", retries=1, retry_delay_s=0.5)
async def work(seconds: float, key: str, fails: bool = False) -> str:
    """Work."""
    await anyio.sleep(seconds)
    if fails and next(ATTEMPTS) % 2 == 0:
        raise ConnectionError("again")
    return "done"


ATTEMPTS = count()
WORK = "work"


async def sent(body: list[bytes], pace: float) -> AsyncIterator[bytes]:
    for piece in body:
        await anyio.sleep(pace)
        yield piece


def on_a_made_clock(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    """Runs it by a clock that stands still while code runs."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: 1000 + clock.current_time())
        for name in ("monotonic_ns", "time_ns"):
            patch.setattr(time, name, lambda: round((1000 + clock.current_time()) * 1e9))
        return trio.run(run, clock=clock)


def test_the_time_that_overlapping_saved_is_that_of_the_same_run_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
        "one": ([{"seconds": 1, "key": "a"}], {}),
        "different lengths": ([{"seconds": n, "key": f"{n}"} for n in (0.1, 3, 0.7)], {}),
        "one after the other": ([{"seconds": n, "key": "a"} for n in (2, 1, 0.5)], {}),
        "a late one is the longest": ([{"seconds": n, "key": f"{n}"} for n in (0.1, 0.2, 5)], {}),
        "tried twice": ([{"seconds": 1, "key": "a", "fails": True}, {"seconds": 1, "key": "b"}], {}),
        "one place": ([{"seconds": 2, "key": f"{n}"} for n in range(3)], {"limits": Limits(max_concurrency=1)}),
        "nothing to save": ([], {}),
    }
    found: dict[str, tuple[float, float, float]] = {}
    for name, (calls, options) in cases.items():
        heads = []
        for start in ("eager", "turn_end"):
            bodies = iter([anthropic(["Working."], [(f"c{n}", WORK, json.dumps(one)) for n, one in enumerate(calls)]),
                           anthropic(["Done."], stop="end_turn")][not calls:])  # fmt: skip
            watch = Watch()

            async def ask(messages: Any, tools: Any, bodies: Any = bodies) -> Any:
                await anyio.sleep(0.4)
                return sent(next(bodies), 0.1)

            async def main(ask: Any = ask, start: Any = start, options: Any = options, watch: Watch = watch) -> None:
                when = {"start": start} if start == "turn_end" else {}
                run = Trajectory(observers=[watch])
                asked = [{"role": "user", "content": "Work."}]
                await agent_loop(ask, asked, tools=[work], wire="anthropic.messages", trajectory=run, **when, **options)

            on_a_made_clock(monkeypatch, main)
            heads.append(watch.picture.data()["head"])
        early, late = heads
        assert late["took"] == late["withoutOverlap"], name
        found[name] = (early["took"] / 1e6, early["withoutOverlap"] / 1e6, late["took"] / 1e6)
    assert all(abs(made_up - real) < 0.01 for _, made_up, real in found.values()), found
    assert all((took < real) is (name != "nothing to save") for name, (took, _, real) in found.items()), found


@tool(effect="pure")
async def look(seconds: float) -> str:
    """Look."""
    await anyio.sleep(seconds)
    return "seen"


def test_a_call_that_was_tried_is_drawn_from_its_true_begin_to_its_true_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events come when the response has ended, which ends all calls of Chat Completions."""
    chunks = chat(["Looking."], [(f"c{n}", "look", json.dumps({"seconds": n})) for n in (1, 9)])
    watch, (provider, spans) = Watch(), kept_spans()

    async def main() -> None:
        async with pipeline(sent(chunks, 0.5), tools=[look], observers=[watch, Tracing(provider)]) as events:
            await exhaust(events)

    on_a_made_clock(monkeypatch, main)
    picture = watch.picture
    (step,), (short, long) = picture.steps, picture.calls
    assert step.stream_end is not None
    assert [len(call.tries) for call in (short, long)] == [1, 1]
    assert [(call.tries[0].end or 0) - call.tries[0].start for call in (short, long)] == pytest.approx([1, 9])
    assert [call.tries[0].end == call.end for call in (short, long)] == [True, True]
    assert short.start <= short.tries[0].start < long.start < (short.end or 0) < step.stream_end < (long.end or 0)
    assert (step.waited_for, step.saved) == (long.ref, pytest.approx(step.stream_end - long.tries[0].start))
    assert [call.facts.count(TRIED) for call in (short, long)] == [1, 1]
    waited = [
        span.attributes.get("streamtools.tool.queue_time_s") for span in spans.get_finished_spans() if span.attributes
    ]
    assert [seconds for seconds in waited if seconds is not None] == [0.0, 0.0]


@pytest.mark.anyio
async def test_a_runs_own_end_is_apart_from_that_of_its_calls() -> None:
    watch = Watch()
    await watched(watch)
    head = watch.picture.data()["head"]
    assert (head["outcome"], head["tone"], head["calls"], head["failed"]) == ("answered", "good", 7, 3)
    assert head["question"] == "Plan a trip."
    assert head["ends"] == {"ok": 3, "unknown_tool": 1, "invalid": 1, "denied": 1, "failed": 1}
    for outcome, facts in RUN_OUTCOMES.items():
        watch.end_run(outcome, None)
        head = watch.picture.data()["head"]
        assert (head["outcome"], head["words"], head["tone"]) == (outcome, facts.words, facts.tone)
        assert (head["tone"] == "bad") is facts.is_error


def test_the_end_of_a_run_that_nobody_tells_is_that_of_its_last_step() -> None:
    begun: list[Event] = [StepStart("run"), StreamStart("w"), TextDelta("Hi."), StreamEnd("stop")]
    called: list[Event] = [ToolCallStart("c", "pay"), *ended("c", "pay", "ok", "paid")]
    cases: dict[str | None, list[Event]] = {
        None: begun,
        "answered": [*begun, StepEnd()],
        "complete": [*begun, *called, StepEnd()],
        "suspended": [*begun, *called, StepEnd("suspended")],
        "interrupted": [*begun, StepEnd("truncated")],
        "left": [*begun, StepEnd("abandoned")],
        "cancelled": [*begun, StepEnd("cancelled")],
        "error": [*begun, StepEnd("error")],
    }
    for outcome, events in cases.items():
        assert draw(stamped([*events])).data()["head"]["outcome"] == outcome
    watch = Watch()
    watch.begin_run(Trajectory(run_id="run"))
    for event in stamped([*begun, StepEnd()]):
        watch.on_event(event)
    assert watch.picture.data()["head"]["outcome"] is None  # it may go on
    watch.end_run(None, ValueError("the loop's own"))
    assert watch.picture.data()["head"]["outcome"] == "error"
    assert watch.picture.data()["runs"][0][-1] == "ValueError: the loop's own"


def ended(call_id: str, name: str, outcome: Any, text: str = "", arguments: Any = None) -> list[Event]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    error = None if outcome == "ok" else CallSkipped(text)
    call = ToolCall(call_id=call_id, name=name, arguments_text=written, status="ready")
    return [
        ToolCallEnd(call),
        Observation(call_id=call_id, tool_name=name, outcome=outcome, error=error, model_content=text),
    ]


def test_calls_that_were_skipped_for_one_cause_have_not_failed_each() -> None:
    events: list[Event] = [StepStart("run"), StreamStart("w")]
    for number in range(128):
        events += [
            ToolCallStart(f"c{number}", "fetch"),
            *ended(f"c{number}", "fetch", "skipped", "not run: it broke off"),
        ]
    failed = StreamEnd("error", error=TruncatedStream("the connection is gone"))
    head = draw(stamped([*events, failed, StepEnd("truncated")])).data()["head"]
    assert (head["calls"], head["failed"], head["ends"]) == (128, 0, {"skipped": 128})
    assert (head["outcome"], head["tone"]) == ("interrupted", "bad")


def test_a_call_is_told_from_the_others_by_the_argument_that_differs() -> None:
    cases: list[tuple[list[Any], list[str | None]]] = [
        ([{"city": "Tokyo"}], ["Tokyo"]),
        ([{"days": 2, "city": "Tokyo"}], ["Tokyo"]),
        ([{"unit": "C", "city": "Tokyo"}, {"unit": "C", "city": "Oslo"}], ["Tokyo", "Oslo"]),
        ([{"city": "Tokyo", "days": 1}, {"city": "Tokyo", "days": 1}, {"city": "Tokyo", "days": 2}],
         ["days=1", "days=1", "days=2"]),
        ([{"to": ["a", "b"]}], ['to=["a","b"]']),
        ([{}], [None]),
        (["free   text\nof two lines"], ["free text of two lines"]),
        ([{"text": "x" * 500}], ["x" * 59 + "…"]),
        ([{"city": ""}, {"other": "name"}], ['city=""', "name"]),
        (["[1]", '{"cut": "'], ["[1]", '{"cut": "']),
        (['{"deep": ' + "[" * 300 + "]" * 300 + "}"], ["deep=…"]),
    ]  # fmt: skip
    for given, shown in cases:
        events: list[Event] = [StepStart("run"), StreamStart("w")]
        for number, arguments in enumerate(given):
            events += [ToolCallStart(f"c{number}", "tool"), *ended(f"c{number}", "tool", "ok", "fine", arguments)]
        assert [call.argument for call in draw(stamped(events)).calls] == shown
        assert [call.argument for call in draw(stamped(events), content=False).calls] == [None] * len(shown)


def test_the_question_is_the_latest_text_of_the_users_in_any_shape_of_request() -> None:
    class Message:
        """An SDK's own message."""

        def model_dump(self) -> dict[str, Any]:
            return {"role": "user", "content": "as an object"}

    block = {"type": "tool_result", "tool_use_id": "c", "content": "a result"}
    cases: dict[str, Any] = {
        "plain": {"messages": [{"role": "user", "content": "old"}, {"role": "user", "content": "plain"}]},
        "before": {"messages": [{"role": "user", "content": "before"}, {"role": "assistant", "content": "an answer"}]},
        "blocks": {"messages": [{"role": "user", "content": [{"type": "text", "text": "blocks"}]}]},
        "a\nb": {"messages": [{"role": "user", "content": [{"text": "a"}, {"image": {}}, {"text": "b"}]}]},
        "asked": {"messages": [{"role": "user", "content": "asked"}, {"role": "user", "content": [block]}]},
        "responses": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "responses"}]},
                                {"type": "function_call_output", "call_id": "c", "output": "a result"}]},
        "bare": {"input": "bare"},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "gemini"}]}, {"role": "model", "parts": []}]},
        "in a list": {"contents": ["in a list"]},
        "as an object": {"messages": [Message()]},
    }  # fmt: skip
    for question, request in cases.items():
        events = stamped([StepStart("run", request=request), StepEnd()])
        assert draw(events).data()["head"]["question"] == question
        assert draw(events, content=False).data()["head"]["question"] is None
    for request in ({}, {"messages": 7}, {"messages": [7, None, {"role": "user", "content": 7}]}, {"messages": []}):
        assert draw(stamped([StepStart("run", request=request), StepEnd()])).data()["head"]["question"] is None


def test_a_step_has_the_beginning_of_its_text_what_was_said_before_it_and_what_the_next_one_waited_for() -> None:
    said = MessageAdded("m", ({"role": "user", "content": "and Oslo?"},), "next")
    call = ToolCall(call_id="c", name="pay", arguments_text="{}", status="ready")
    events: list[Event] = [
        StepStart("run"), said, StreamStart("w"), TextDelta("void"), AttemptDiscarded(1, 3, "stream_truncated"),
        StreamStart("w"), TextDelta("In  Oslo\n"), TextDelta("it rains. " + "x" * 900), ToolCallStart("c", "pay"),
        ToolCallEnd(call), StreamEnd("tool_calls"), StepEnd(),
        StepStart("run"), TextDelta("wrong"), TextEnd(whole="right"), StreamEnd("stop"), StepEnd(),
    ]  # fmt: skip
    first, second = sorted(draw(stamped(events)).data()["steps"], key=lambda row: row["id"])
    assert first["opening"].startswith("In Oslo it rains. xxx")
    assert len(first["opening"]) == 200
    assert first["userMessages"] == ["and Oslo?"]
    assert (first["waitedFor"], second["waitedFor"], second["opening"]) == ("s0", "s1", "right")
    bare = draw(stamped(events), content=False).data()
    assert not any("opening" in row or "userMessages" in row for row in bare["steps"])
    answers: list[Event] = []
    usage = Usage(input_tokens=2_000_000, output_tokens=100_000)
    for model in ("gpt-5-2027", "unknown"):
        answers += [
            StepStart("run"),
            StreamStart("w", model=model),
            StreamEnd("stop", usage=usage),
            StepEnd(),
        ]
    priced = draw(stamped(answers), prices={"gpt-5": {"input_tokens": 1.25, "output_tokens": 10}}).data()["steps"]
    assert [row.get("cost") for row in sorted(priced, key=lambda row: row["id"])] == [3.5, None]
    with pytest.raises(ValueError, match="unknown count"):
        Watch(prices={"gpt-5": {"words": 1}})
