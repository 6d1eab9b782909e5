"""Executors through the pipeline: wherever a call runs, it ends as it would have ended here."""

from __future__ import annotations

import gc
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
import placed_tools
import pytest
from kept_spans import kept_spans
from placed_tools import FORMS, SECRET, marks
from profiles import every
from streams import Call, chat, key_of, sse, stream, until

from streamtools import Event, Limits, Observation, ToolContext, Trajectory, pipeline, tool
from streamtools.dispatch import Begin, Emit, MemoryStore
from streamtools.errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from streamtools.events import StreamWarning, ToolProgress, ToolStarted
from streamtools.executors import Invocation, LocalExecutor, ProcessExecutor
from streamtools.exports import export_all
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.costly]

WAIT_S = 60  # for anything: workers start slowly on a busy machine

PLACES: list[Any] = [
    pytest.param(LocalExecutor, "async", id="in_process"),
    pytest.param(LocalExecutor, "sync", id="thread", marks=pytest.mark.thorough),
    pytest.param(ProcessExecutor, "async", id="process-async"),
    pytest.param(ProcessExecutor, "sync", id="process-sync", marks=pytest.mark.thorough),
]
in_every_place = pytest.mark.parametrize(("make", "form"), PLACES)


def said(call_id: str, name: str, **arguments: Any) -> Call:
    return call_id, name, json.dumps(arguments)


async def run(
    calls: Sequence[Call], tools: Sequence[Any], **options: Any
) -> tuple[list[Event], dict[str, Observation]]:
    """A turn with these calls, to its end: its events, and its observations by call."""
    options.setdefault("trajectory", Trajectory(run_id="run"))
    with anyio.fail_after(WAIT_S):
        async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
            seen = [event async for event in events]
    return seen, {observation.call_id: observation for observation in events.turn.observations}


async def stops(path: Path) -> None:
    """Wait until there are no more effects. There was one every 10 ms, so 200 ms without one tell that it is over."""
    before = -1
    while before != (before := len(marks(path))):  # noqa: ASYNC110 - another process or thread may go on
        await anyio.sleep(0.2)


# -- every place --

ENDS = {
    said("told", "tell", value="5"): "ok",
    said("blocks", "end", how="blocks"): "ok",
    said("complaint", "end", how="complaint"): "failed",
    said("words", "end", how="words"): "failed",
    said("again", "end", how="again"): "failed",
    said("crash", "end", how="crash"): "failed",
    said("invalid", "tell", value="five"): "invalid",
    said("nobody's", "tall", value=5): "unknown_tool",
    ("cut", "tell", '{"value": '): "truncated",
}


def record_of(observation: Observation) -> tuple[Any, ...]:
    """What stays of a call, its times aside."""
    error = observation.error and (type(observation.error), str(observation.error))
    said = (observation.value, observation.model_content, observation.result, observation.coercions)
    return (observation.outcome, error, *said, observation.validated_args, observation.attempts, observation.recorded)


@in_every_place
async def test_a_call_ends_as_it_would_here_and_its_tool_is_told_the_same(make: Any, form: str) -> None:
    tools = list(FORMS[form].values())
    here_events, here = await run([*ENDS], tools)
    async with make(tools) as executor:
        there_events, there = await run([*ENDS], tools, executor=executor)
    assert [there[call_id].outcome for call_id, _, _ in ENDS] == [*ENDS.values()]
    assert {call_id: record_of(seen) for call_id, seen in there.items()} == {
        call_id: record_of(seen) for call_id, seen in here.items()
    }
    assert SECRET not in "".join(seen.model_content + str(seen.error) for seen in there.values())
    assert there["told"].coercions == ("value: string to integer",)
    assert there["told"].value == {
        "value": 5,
        "call_id": "told",
        "tool_name": "tell",
        "run_id": "run",
        "step": 0,
        "attempt": 1,
        "idempotency_key": key_of("told", run="run"),
    }
    for events in (here_events, there_events):
        assert [event.value for event in events if isinstance(event, ToolProgress)] == [{"told": 5}]
        assert len([event for event in events if isinstance(event, ToolStarted)]) == 6


@in_every_place
async def test_a_call_out_of_time_is_stopped_where_it_runs(make: Any, form: str, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    stay = replace(FORMS[form]["stay"], timeout=1.0)
    tools = [FORMS[form]["tell"], stay]
    async with make([FORMS[form]["tell"], FORMS[form]["stay"]]) as executor:
        await run([said("a", "tell", value=1)], tools, executor=executor)  # a worker is there now
        _, seen = await run([said("a", "stay", path=str(path))], tools, executor=executor)
        await stops(path)
        assert (seen["a"].outcome, str(seen["a"].error)) == ("timed_out", "the tool did not finish within 1 s")
        _, after = await run([said("a", "tell", value=1)], tools, executor=executor)
    assert after["a"].outcome == "ok"
    assert marks(path)


@in_every_place
async def test_leaving_the_block_stops_a_call_where_it_runs(make: Any, form: str, tmp_path: Path) -> None:
    path = tmp_path / "marks"
    tools = [FORMS[form]["stay"]]
    body = chat(calls=[said("a", "stay", path=str(path))])
    async with make(tools) as executor:
        with anyio.fail_after(WAIT_S):
            async with pipeline(stream(body), tools=tools, executor=executor) as events:
                await until(events, ToolProgress)
        await stops(path)
    (observation,) = events.turn.observations
    assert (observation.outcome, observation.attempts) == ("cancelled", 1)


@in_every_place
async def test_an_attempt_that_failed_is_followed_by_another_under_the_same_key(make: Any, form: str) -> None:
    tools = [FORMS[form]["second_time"]]
    async with make(tools) as executor:
        _, seen = await run([said("a", "second_time", how="raise")], tools, executor=executor)
    assert seen["a"].value == {"attempt": 2, "key": key_of("a", run="run")}
    assert seen["a"].attempts == 2


@pytest.mark.thorough
async def test_a_worker_that_was_lost_is_followed_by_another_attempt_where_that_does_no_harm(tmp_path: Path) -> None:
    once = replace(FORMS["sync"]["second_time"], effect="once", retries=0)
    async with ProcessExecutor([FORMS["sync"]["second_time"]]) as executor:
        _, again = await run([said("a", "second_time", how="exit")], [FORMS["sync"]["second_time"]], executor=executor)
        _, lost = await run([said("a", "second_time", how="exit")], [once], executor=executor)
    assert (again["a"].outcome, again["a"].attempts) == ("ok", 2)
    assert (lost["a"].outcome, lost["a"].attempts) == ("unknown", 1)
    assert "lost (exit code 3); the call may have had its effect" in lost["a"].model_content


# -- which calls --


@pytest.mark.thorough
async def test_a_mapping_sends_the_calls_of_some_tools_and_leaves_the_others_here(tmp_path: Path) -> None:
    path = str(tmp_path / "marks")
    away, here = placed_tools.place_order, tool(placed_tools.place_order.fn, name="here")
    calls = [said("a", "place_order", path=path), said("b", "here", path=path)]
    async with ProcessExecutor([away]) as executor:
        _, seen = await run(calls, [away, here], executor={"place_order": executor})
    assert seen["b"].value == f"ordered by {os.getpid()}" != seen["a"].value
    assert len(set(marks(path))) == 2


async def test_what_a_model_wrote_for_a_strict_export_is_decoded_before_it_travels() -> None:
    @tool
    def search(query: str, filters: dict[str, str] | None = None, limit: int = 10) -> str:
        """Search."""
        raise AssertionError("it runs elsewhere")

    (exported,) = export_all([search], "openai.chat_completions", strict=True)
    written = {"query": "pens", "filters": [{"key": "colour", "value": "red"}], "limit": None}
    await run([said("a", exported.name, **written)], [exported], executor=(scripted := Scripted("done")))
    assert [call.arguments for call in scripted.calls] == [{"query": "pens", "filters": {"colour": "red"}}]


async def test_a_tool_that_its_target_knows_by_another_name_is_found_by_its_own() -> None:
    named = tool(FORMS["async"]["tell"].fn, name="shop.tell")
    (exported,) = export_all([named], "openai.chat_completions")
    assert exported.name != named.name
    async with LocalExecutor([named]) as executor:
        _, seen = await run([said("a", exported.name, value=2)], [exported], executor={"shop.tell": executor})
    assert (seen["a"].value["value"], seen["a"].value["tool_name"]) == (2, "shop.tell")


async def test_the_text_of_a_freeform_tool_travels_as_it_is() -> None:
    @tool(kind="custom")
    def apply_patch(text: str) -> str:
        """Apply a patch."""
        raise AssertionError("it runs elsewhere")

    head = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** \u00e4\n"}}
    deltas = [({"role": "assistant", "tool_calls": [head]}, None), ({}, "tool_calls")]
    body = sse(
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": f}]}
        for d, f in deltas
    )
    await pipeline(stream(body), tools=[apply_patch], executor=(scripted := Scripted("done")))
    assert [call.arguments for call in scripted.calls] == [{"input": "*** \u00e4\n"}]


async def test_spans_of_a_tool_in_a_worker_are_children_of_its_own_span() -> None:
    provider, exporter = kept_spans()
    calls = [said("a", "span_here"), said("b", "span_here")]
    async with ProcessExecutor([placed_tools.span_here], max_workers=1) as executor:
        run_ = Trajectory(observers=[Tracing(provider)])
        _, seen = await run(calls, [placed_tools.span_here], executor=executor, trajectory=run_)
    spans = {
        (span.attributes or {}).get("gen_ai.tool.call.id"): span.get_span_context()
        for span in exporter.get_finished_spans()
    }
    for call_id in "ab":
        context = spans[call_id]
        assert seen[call_id].value == {"trace": f"{context.trace_id:032x}", "parent": f"{context.span_id:016x}"}


# -- what an executor says --


class Wordless(ToolError):
    """An error of a user's that cannot tell what it is."""

    def __str__(self) -> str:
        raise ValueError(SECRET)


def started(events: Sequence[Event]) -> list[int]:
    """The attempts that began."""
    return [event.attempt for event in events if isinstance(event, ToolStarted)]


class Early:
    """Something that an executor says without having begun."""

    def __init__(self, say: Any) -> None:
        self.say = say


NO_WORKER = Early(ToolNotStarted("not run: no worker"))


class Scripted:
    """An executor that says what it is told to, after the call has begun or before, and keeps what it was given."""

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.calls: list[Invocation] = []
        self.seconds: list[float] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        return None

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        self.calls.append(call)
        await anyio.lowlevel.checkpoint()
        say = self.says.pop(0)
        if isinstance(say, Early):
            say = say.say
        else:
            self.seconds.append(await begin())
        if isinstance(say, BaseException):
            raise say
        return say


@tool
async def pay(amount: int = 1) -> str:
    """Pay, elsewhere: this is never run."""
    raise AssertionError("it runs elsewhere")


@tool(effect="idempotent", retries=2, retry_delay_s=0.001)
async def put(amount: int = 1) -> str:
    """Put, elsewhere: this is never run."""
    raise AssertionError("it runs elsewhere")


NOT_AGAIN = "\nIt may have taken effect. Do not call it again for the same purpose: first find out, or tell the user."
UNKNOWN_NOW = "Error: the executor of pay raised {} after the call had begun"
WORDS: list[tuple[Any, str, type[Exception], str]] = [
    (ToolOutcomeUnknown("lost"), "unknown", ToolOutcomeUnknown, "Error: lost"),
    (ToolTimeout(7.0), "timed_out", ToolTimeout, "Error: the tool did not finish within 120 s"),
    (ToolFailed("the tool pay raised KeyError"), "failed", ToolFailed, "Error: the tool pay raised KeyError"),
    (ToolError("no money"), "failed", ToolError, "Error: no money"),
    (ConnectionError(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("ConnectionError")),
    (SystemExit(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("SystemExit")),
    (ToolNotStarted(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("ToolNotStarted")),
    (Wordless(), "failed", ToolFailed, "Error: the tool pay raised Wordless"),
]


@every(("says", "outcome", "kind", "content"), WORDS)
async def test_what_an_executor_says_once_the_call_has_begun_is_its_outcome(
    says: Any, outcome: str, kind: Any, content: str
) -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(says))
    content += "" if outcome == "failed" else NOT_AGAIN
    assert (seen["a"].outcome, type(seen["a"].error), seen["a"].model_content) == (outcome, kind, content)
    assert (seen["a"].attempts, started(events)) == (1, [1])


REFUSALS: list[tuple[Any, str]] = [
    (ToolNotStarted("not run: no worker"), "not run: no worker"),
    (ConnectionError(SECRET), "not run: the executor of pay raised ConnectionError"),
    (SystemExit(SECRET), "not run: the executor of pay raised SystemExit"),
    (ToolTimeout(7.0), "not run: the executor of pay raised ToolTimeout"),
    (ToolOutcomeUnknown(SECRET), "not run: the executor of pay raised ToolOutcomeUnknown"),
    (Wordless(), "not run: the executor of pay raised Wordless"),
]


@every(("says", "text"), REFUSALS)
async def test_whatever_an_executor_raises_before_the_call_has_begun_it_has_not_run(says: Any, text: str) -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(Early(says)))
    assert (seen["a"].outcome, type(seen["a"].error)) == ("failed", ToolNotStarted)
    assert seen["a"].model_content == f"Error: {text}"
    assert (seen["a"].attempts, seen["a"].duration, started(events)) == (0, None, [])


async def test_a_value_of_a_call_that_never_began_is_not_believed() -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(Early("done")))
    assert (seen["a"].outcome, seen["a"].value, started(events)) == ("unknown", None, [])
    words = "Error: the executor of pay returned without awaiting begin()"
    assert seen["a"].model_content == words + NOT_AGAIN


async def test_without_a_limit_of_ours_the_time_that_an_executor_tells_stands() -> None:
    scripted = Scripted(ToolTimeout(7.0))
    _, seen = await run([said("a", "pay")], [pay], executor=scripted, limits=Limits(tool_timeout=None))
    assert str(seen["a"].error) == "the tool did not finish within 7 s"
    assert scripted.seconds == [math.inf]


TRIES: list[tuple[list[Any], str, list[int]]] = [
    ([NO_WORKER, ToolTimeout(1), "done"], "ok", [1, 1, 2]),
    ([ToolOutcomeUnknown("lost"), ToolFailed("raised"), "done"], "ok", [1, 2, 3]),
    ([ToolOutcomeUnknown("lost"), ConnectionError(), "done"], "ok", [1, 2, 3]),
    ([Early(ConnectionError()), "done"], "ok", [1, 1]),
    ([ToolError("no"), "done"], "failed", [1]),
    ([NO_WORKER] * 3, "failed", [1, 1, 1]),
    ([ToolOutcomeUnknown("lost"), NO_WORKER, NO_WORKER], "unknown", [1, 2, 2]),
    ([NO_WORKER, ToolTimeout(1), NO_WORKER], "timed_out", [1, 1, 2]),
]
"""What an executor says; the call's outcome; the number of the attempt that it is asked for each time."""


@every(("says", "outcome", "asked"), TRIES)
async def test_what_may_be_tried_again_is_and_that_the_last_attempt_did_not_start_is_not_all(
    says: list[Any], outcome: str, asked: list[int]
) -> None:
    """An attempt is one that has begun."""
    scripted = Scripted(*says)
    events, seen = await run([said("a", "put")], [put], executor=scripted)
    begun = sum(not isinstance(say, Early) for say in says[: len(asked)])
    assert (seen["a"].outcome, seen["a"].attempts) == (outcome, begun)
    assert [call.attempt for call in scripted.calls] == asked
    assert started(events) == list(range(1, begun + 1))
    assert {call.key for call in scripted.calls} == {key_of("a", run="run")}


async def test_an_executor_is_given_the_call_as_plain_values() -> None:
    scripted = Scripted("done")
    await run([said("a", "pay", amount=3)], [replace(pay, timeout=60.0)], executor=scripted)
    (call,) = scripted.calls
    told = (call.tool, call.arguments, call.effect, call.call_id, call.run_id, call.step, call.attempt)
    assert told == ("pay", {"amount": 3}, "once", "a", "run", 0, 1)
    assert scripted.seconds == [60.0]


class Aside(Scripted):
    """An executor that begins a call in another task, and takes a refusal for its end."""

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        async def begun() -> None:
            with suppress(ToolError):
                self.seconds.append(await begin())

        async with anyio.create_task_group() as group:
            group.start_soon(begun)
        self.says[0]()
        return "done aside"


class Holding:
    """An observer that notes when it holds its context, and in which task."""

    event_types = ()

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def on_event(self, event: Event) -> None:
        raise AssertionError("it wants none")

    @contextmanager
    def around_tool(self, call_id: str) -> Iterator[None]:
        task = anyio.get_current_task().id
        self.log.append(f"{self.name} in")
        yield
        assert anyio.get_current_task().id == task
        self.log.append(f"{self.name} out")


async def test_observers_hold_their_contexts_around_a_tool_and_leave_them_in_their_own_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamtools.dispatch.in_process.BLOCKED_S", 0)  # of an executor's code nothing is said
    log, kept = list[str](), list[ToolContext]()

    @tool(effect="once")
    async def here(ctx: ToolContext) -> str:
        """Run here."""
        kept.append(ctx)
        log.append("ran")
        return "done here"

    cases: list[tuple[Any, Any, list[str]]] = [
        (here, None, ["a in", "b in", "ran", "b out", "a out"]),
        (pay, Aside(lambda: log.append("ran")), ["a in", "b in", "b out", "a out", "ran"]),
    ]
    for wanted, executor, expected in cases:
        log.clear()
        store = MemoryStore()
        for recorded in (False, True):
            trajectory = Trajectory(run_id="run", observers=[Holding("a", log), Holding("b", log)])
            calls = [said("c", wanted.name)]
            events, seen = await run(calls, [wanted], executor=executor, store=store, trajectory=trajectory)
            assert (seen["c"].outcome, seen["c"].recorded) == ("ok", recorded)
            assert seen["c"].value == ("done aside" if executor else "done here")
            warned = {event.code for event in events if isinstance(event, StreamWarning)}
            assert ("loop_blocked" in warned) is (executor is None)
        assert log == [*expected, *(["ran"] if executor else [])]
    del events, seen
    gc.collect()
    with pytest.raises(ToolError, match="the tool can no longer ask"):
        await kept[0].ask("?")


async def test_reports_that_come_after_a_call_is_over_are_not_heard() -> None:
    kept: list[Callable[[Any], object]] = []

    class Keeping(Scripted):
        async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
            async def began() -> float:
                seconds = await begin()
                emit("in time")
                return seconds

            kept.append(emit)
            return await super().run(call, began, emit)

    with anyio.fail_after(WAIT_S):
        async with pipeline(stream(chat(calls=[said("a", "pay")])), tools=[pay], executor=Keeping("done")) as events:
            async for event in events:
                if isinstance(event, Observation):
                    kept[0]("late")
    kept[0]("after all is over")
    seen, _ = await run([said("a", "put")], [put], executor=(keeping := Keeping(ToolTimeout(1), "done")))
    kept[1]("of an attempt that is over")
    assert [event.value for event in seen if isinstance(event, ToolProgress)] == ["in time", "in time"]
    assert len(keeping.calls) == 2


# -- mistakes --


class NoExecutor:
    """Has no way to run anything."""


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"executor": NoExecutor()}, TypeError, "NoExecutor is not an Executor; enter one and pass it, or a mapping"),
    ({"executor": {"pay": None}}, TypeError, "NoneType is not an Executor"),
    ({"executor": {"play": Scripted()}}, ValueError, "executor: unknown tool 'play'; the tools are pay"),
    (
        {"executor": LocalExecutor([])},
        ValueError,
        "the LocalExecutor was made without the tool 'pay'; it has nothing; for some tools only, pass a mapping",
    ),
    ({"executor": Scripted}, TypeError, "the class Scripted is not an Executor"),
    ({"store": MemoryStore}, TypeError, "store must be an IdempotencyStore.*not the class MemoryStore"),
    ({"store": NoExecutor()}, TypeError, r"such as streamtools.dispatch.SqliteStore\(path\), not NoExecutor"),
]


@every(("options", "kind", "text"), MISTAKES)
def test_what_is_no_executor_or_store_is_refused_at_once(options: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        pipeline(stream([]), tools=[pay], **options)
