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
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, StatusCode
from placed_tools import FORMS, SECRET, marks
from streams import Call, anthropic, chat, hanging, key_of, sse, stream

from streamtools import Event, Limits, Observation, Tool, ToolCallValidated, ToolContext, Trajectory, pipeline, tool
from streamtools.dispatch.executor import Begin, Emit
from streamtools.dispatch.executors import Invocation, LocalExecutor, MemoryStore, ProcessExecutor
from streamtools.errors import (
    LocalProtocolError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from streamtools.events import StreamWarning, ToolProgress, ToolStarted
from streamtools.exports import export_all
from streamtools.telemetry import Tracing

pytestmark = [pytest.mark.anyio, pytest.mark.costly]

WAIT_S = 60  # for anything: workers start slowly on a busy machine

PLACES: list[Any] = [
    pytest.param(LocalExecutor, "async", id="in_process"),
    pytest.param(LocalExecutor, "sync", id="thread"),
    pytest.param(ProcessExecutor, "async", id="process-async"),
    pytest.param(ProcessExecutor, "sync", id="process-sync"),
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

ENDS = [
    said("told", "tell", value="5"),
    said("blocks", "end", how="blocks"),
    said("complaint", "end", how="complaint"),
    said("words", "end", how="words"),
    said("again", "end", how="again"),
    said("crash", "end", how="crash"),
    said("invalid", "tell", value="five"),
    said("nobody's", "tall", value=5),
    ("cut", "tell", '{"value": '),
]
OUTCOMES = {
    "told": "ok",
    "blocks": "ok",
    "complaint": "failed",
    "words": "failed",
    "again": "failed",
    "crash": "failed",
    "invalid": "invalid",
    "nobody's": "unknown_tool",
    "cut": "truncated",
}


def record_of(observation: Observation) -> tuple[Any, ...]:
    """What stays of a call, its times aside."""
    error = observation.error and (type(observation.error), str(observation.error))
    said = (observation.value, observation.model_content, observation.result, observation.coercions)
    return (observation.outcome, error, *said, observation.validated_args, observation.attempts, observation.recorded)


@in_every_place
async def test_a_call_ends_as_it_would_here_and_its_tool_is_told_the_same(make: Any, form: str) -> None:
    tools = list(FORMS[form].values())
    here_events, here = await run(ENDS, tools)
    async with make(tools) as executor:
        there_events, there = await run(ENDS, tools, executor=executor)
    assert {call_id: observation.outcome for call_id, observation in there.items()} == OUTCOMES
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
                async for event in events:
                    if isinstance(event, ToolProgress):
                        break
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


async def test_a_worker_that_was_lost_is_followed_by_another_attempt_where_that_does_no_harm(tmp_path: Path) -> None:
    once = replace(FORMS["sync"]["second_time"], effect="once", retries=0)
    async with ProcessExecutor([FORMS["sync"]["second_time"]]) as executor:
        _, again = await run([said("a", "second_time", how="exit")], [FORMS["sync"]["second_time"]], executor=executor)
        _, lost = await run([said("a", "second_time", how="exit")], [once], executor=executor)
    assert (again["a"].outcome, again["a"].attempts) == ("ok", 2)
    assert (lost["a"].outcome, lost["a"].attempts) == ("unknown", 1)
    assert "lost (exit code 3); the call may have had its effect" in lost["a"].model_content


@pytest.mark.thorough
async def test_each_attempt_in_a_process_has_its_own_time_and_the_hung_worker_is_killed(tmp_path: Path) -> None:
    tools: list[Any] = [placed_tools.hang_once, placed_tools.meet]
    path = str(tmp_path / "marks")
    async with ProcessExecutor(tools, max_workers=2) as executor:
        two = [said("a", "meet", path=path), said("b", "meet", path=path)]
        await run(two, tools, executor=executor)  # two workers are there now
        _, seen = await run([said("a", "hang_once")], tools, executor=executor)
    assert (seen["a"].outcome, seen["a"].value) == ("ok", {"attempt": 2, "key": key_of("a", run="run")})
    assert len(set(marks(path))) == 2


# -- which calls --


async def test_a_mapping_sends_the_calls_of_some_tools_and_leaves_the_others_here(tmp_path: Path) -> None:
    path = str(tmp_path / "marks")
    away, here = FORMS["sync"]["where"], tool(FORMS["async"]["where"].fn, name="here")
    calls = [said("a", "where", path=path), said("b", "here", path=path)]
    async with ProcessExecutor([away]) as executor:
        _, seen = await run(calls, [away, here], executor={"where": executor})
    assert seen["a"].value != os.getpid()
    assert seen["b"].value == os.getpid()
    assert sorted(marks(path)) == sorted([seen["a"].value, os.getpid()])


async def test_sync_and_async_tools_run_on_one_executor_or_on_one_for_each() -> None:
    pairs = [FORMS["async"]["tell"], FORMS["sync"]["end"]]
    calls = [said("a", "tell", value=1), said("b", "end", how="blocks")]
    async with LocalExecutor(pairs) as both, LocalExecutor(pairs[1:]) as threads:
        _, seen = await run(calls, pairs, executor=both)
        assert [seen[call_id].outcome for call_id in "ab"] == ["ok", "ok"]
        _, seen = await run(calls, pairs, executor={"tell": both, "end": threads})
    assert [seen[call_id].outcome for call_id in "ab"] == ["ok", "ok"]


async def test_what_a_model_wrote_for_a_strict_export_is_decoded_before_it_travels() -> None:
    exports = export_all([placed_tools.search], "openai.chat_completions", strict=True)
    (exported,) = exports
    written = {"query": "pens", "filters": [{"key": "colour", "value": "red"}], "limit": None}
    store = MemoryStore()
    async with ProcessExecutor([placed_tools.search]) as executor:
        _, seen = await run([said("a", exported.name, **written)], [exported], executor=executor, store=store)
        _, again = await run(
            [said("a", "search", query="pens", filters={"colour": "red"})], [placed_tools.search], store=store
        )
    assert seen["a"].value == "10 of pens with {'colour': 'red'}"
    assert (again["a"].recorded, again["a"].value) == (True, seen["a"].value)


async def test_a_tool_that_its_target_knows_by_another_name_is_found_by_its_own() -> None:
    named = tool(FORMS["async"]["tell"].fn, name="shop.tell")
    (exported,) = export_all([named], "openai.chat_completions")
    assert exported.name != named.name
    async with LocalExecutor([named]) as executor:
        _, seen = await run([said("a", exported.name, value=2)], [exported], executor={"shop.tell": executor})
    assert (seen["a"].value["value"], seen["a"].value["tool_name"]) == (2, "shop.tell")


async def test_the_text_of_a_freeform_tool_travels_as_it_is() -> None:
    head = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** \u00e4\n"}}
    deltas = [({"role": "assistant", "tool_calls": [head]}, None), ({}, "tool_calls")]
    body = sse(
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": f}]}
        for d, f in deltas
    )
    tools = [placed_tools.apply_patch]
    async with ProcessExecutor(tools) as executor, pipeline(stream(body), tools=tools, executor=executor) as events:
        _ = [event async for event in events]
    assert [seen.value for seen in events.turn.observations] == ["*** \u00c4\n"]


async def test_spans_of_a_tool_in_a_worker_are_children_of_its_own_span() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
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
        assert context is not None
        assert seen[call_id].value == {"trace": f"{context.trace_id:032x}", "parent": f"{context.span_id:016x}"}


async def test_the_spans_of_a_tool_in_a_worker_reach_the_programs_processors() -> None:
    """Whole and below the call's span, with the worker's pid; but for a provider of the tool's own, those of a trace
    that nobody records, and those beyond the bounds."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    out = TracerProvider(sampler=ALWAYS_OFF)
    drawn: dict[str, tuple[Observation, list[ReadableSpan], list[str]]] = {}
    async with ProcessExecutor([placed_tools.draws], max_workers=1) as executor:
        for how, spans, by in (
            ("well", 2, provider),
            ("sampled out", 2, out),
            ("flood", 2000, provider),
            ("fail", 2, provider),
            ("own provider", 2, provider),
        ):
            exporter.clear()
            traced = Trajectory(observers=[Tracing(by)])
            calls = [said("a", "draws", how=how, spans=spans)]
            events, seen = await run(calls, [placed_tools.draws], executor=executor, trajectory=traced)
            warned = [event.detail for event in events if isinstance(event, StreamWarning)]
            drawn[how] = seen["a"], list(exporter.get_finished_spans()), warned
    seen_, spans_, warned = drawn["well"]
    named = {span.name: span for span in spans_}
    order, item, call = named["order"], named["item 0"], named["execute_tool draws"]
    assert call.context is not None
    assert order.context is not None
    assert order.parent is not None
    assert order.parent[:2] == call.context[:2]
    assert item.parent == order.context
    assert order.context.trace_id == call.context.trace_id
    assert order.attributes == {"text": "ä", "many": ("a", "b"), "number": 2**60, "share": 0.5, "is": True}
    assert [(event.name, event.attributes) for event in order.events] == [("packed", {"items": 2})]
    assert [(link.context, link.attributes) for link in order.links] == [(order.context, {"why": "same"})]
    assert (order.kind, order.status.status_code, order.status.description) == (
        SpanKind.CLIENT,
        StatusCode.ERROR,
        "sold out",
    )
    assert order.instrumentation_scope == InstrumentationScope("shop", "1.2", "https://example.com/schema")
    assert dict(order.resource.attributes) == {"service.name": "shop", "process.pid": seen_.value}
    assert seen_.value != os.getpid()
    assert call.start_time is not None
    assert order.start_time is not None
    assert order.end_time is not None
    assert call.start_time <= order.start_time <= order.end_time
    assert warned == []
    assert drawn["sampled out"][1:] == ([], [])
    seen_, spans_, warned = drawn["flood"]
    assert (seen_.outcome, len([span for span in spans_ if span.name.startswith("item")])) == ("ok", 1000)
    assert warned == ["draws, call a: 1000 spans are missing (at most 1000, and 1048576 bytes)"]
    assert (drawn["fail"][0].outcome, "order" in {span.name for span in drawn["fail"][1]}) == ("failed", True)
    assert (drawn["own provider"][0].outcome, drawn["own provider"][2]) == ("ok", [])
    assert "".join(span.to_json() for span in drawn["fail"][1]).count('"how"') == 0, "arguments are in no span"


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


NOT_AGAIN = "\nIt may have taken effect. Do not call it again for the same thing: find out first, or say so."
UNKNOWN_NOW = "Error: the executor of pay raised {} after the call had begun"
WORDS: list[tuple[str, Any, str, type[Exception], str]] = [
    ("lost", ToolOutcomeUnknown("lost"), "unknown", ToolOutcomeUnknown, "Error: lost"),
    ("late", ToolTimeout(7.0), "timed_out", ToolTimeout, "Error: the tool did not finish within 120 s"),
    ("raised", ToolFailed("the tool pay raised KeyError"), "failed", ToolFailed, "Error: the tool pay raised KeyError"),
    ("words", ToolError("no money"), "failed", ToolError, "Error: no money"),
    ("its_own", ConnectionError(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("ConnectionError")),
    ("an_exit", SystemExit(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("SystemExit")),
    ("too_late_to_say", ToolNotStarted(SECRET), "unknown", ToolOutcomeUnknown, UNKNOWN_NOW.format("ToolNotStarted")),
    ("no_words", Wordless(), "failed", ToolFailed, "Error: the tool pay raised Wordless"),
]


@pytest.mark.parametrize(
    ("says", "outcome", "kind", "content"), [words[1:] for words in WORDS], ids=[words[0] for words in WORDS]
)
async def test_what_an_executor_says_once_the_call_has_begun_is_its_outcome(
    says: Any, outcome: str, kind: Any, content: str
) -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(says))
    content += "" if outcome == "failed" else NOT_AGAIN
    assert (seen["a"].outcome, type(seen["a"].error), seen["a"].model_content) == (outcome, kind, content)
    assert (seen["a"].attempts, started(events)) == (1, [1])


REFUSALS: list[tuple[str, Any, str]] = [
    ("no_worker", ToolNotStarted("not run: no worker"), "not run: no worker"),
    ("its_own", ConnectionError(SECRET), "not run: the executor of pay raised ConnectionError"),
    ("an_exit", SystemExit(SECRET), "not run: the executor of pay raised SystemExit"),
    ("late", ToolTimeout(7.0), "not run: the executor of pay raised ToolTimeout"),
    ("lost", ToolOutcomeUnknown(SECRET), "not run: the executor of pay raised ToolOutcomeUnknown"),
    ("no_words", Wordless(), "not run: the executor of pay raised Wordless"),
]


@pytest.mark.parametrize(("says", "text"), [words[1:] for words in REFUSALS], ids=[words[0] for words in REFUSALS])
async def test_whatever_an_executor_raises_before_the_call_has_begun_it_has_not_run(says: Any, text: str) -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(Early(says)))
    assert (seen["a"].outcome, type(seen["a"].error)) == ("failed", ToolNotStarted)
    assert seen["a"].model_content == f"Error: {text}"
    assert (seen["a"].attempts, seen["a"].duration, started(events)) == (0, None, [])


async def test_a_value_of_a_call_that_never_began_is_not_believed() -> None:
    events, seen = await run([said("a", "pay")], [pay], executor=Scripted(Early("done")))
    assert (seen["a"].outcome, seen["a"].value, started(events)) == ("unknown", None, [])
    words = "Error: the executor of pay returned without having begun the call"
    assert seen["a"].model_content == words + NOT_AGAIN


async def test_a_second_begin_is_refused_and_starts_nothing_again() -> None:
    class Stuttering(Scripted):
        async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
            await begin()
            with pytest.raises(LocalProtocolError, match="awaited once"):
                await begin()
            return "done"

    events, seen = await run([said("a", "pay")], [pay], executor=Stuttering())
    assert (seen["a"].outcome, seen["a"].attempts, started(events)) == ("ok", 1, [1])


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


@pytest.mark.parametrize(("says", "outcome", "asked"), TRIES)
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


async def test_each_call_has_a_key_of_its_own_in_every_step_of_a_run() -> None:
    scripted, run_ = Scripted(*["done"] * 4), Trajectory(run_id="run")
    for _ in range(2):
        await run([said("a", "pay", amount=1), said("b", "pay", amount=1)], [pay], executor=scripted, trajectory=run_)
    assert sorted(call.key for call in scripted.calls) == [
        key_of("a", run="run"),
        key_of("b", run="run"),
        key_of("a", run="run", step=1),
        key_of("b", run="run", step=1),
    ]


async def test_an_executor_is_given_the_call_as_plain_values() -> None:
    scripted = Scripted("done")
    await run([said("a", "pay", amount=3)], [replace(pay, timeout=60.0)], executor=scripted)
    (call,) = scripted.calls
    told = (call.tool, call.arguments, call.effect, call.call_id, call.run_id, call.step, call.attempt)
    assert told == ("pay", {"amount": 3}, "once", "a", "run", 0, 1)
    assert scripted.seconds == [60.0]


class Deaf(Scripted):
    """An executor that does not keep the time."""

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        await begin()
        await anyio.sleep_forever()


async def test_an_executor_that_does_not_keep_the_time_is_cancelled_behind_it() -> None:
    _, seen = await run([said("a", "pay")], [replace(pay, timeout=0.05)], executor=Deaf())
    assert (seen["a"].outcome, str(seen["a"].error)) == ("timed_out", "the tool did not finish within 0.05 s")


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
    with pytest.raises(ToolError, match="nobody can be asked any more"):
        await kept[0].ask("?")


async def test_a_call_whose_executor_is_closed_while_it_runs_is_unknown(tmp_path: Path) -> None:
    tools = [FORMS["async"]["stay"]]
    async with LocalExecutor(tools) as executor:
        with anyio.fail_after(WAIT_S):
            body = chat(calls=[said("a", "stay", path=str(tmp_path / "marks"))])
            async with pipeline(stream(body), tools=tools, executor=executor) as events:
                async for event in events:
                    if isinstance(event, ToolProgress):
                        await executor.__aexit__(None, None, None)
                    elif isinstance(event, Observation):
                        break
    assert [seen.outcome for seen in events.turn.observations] == ["unknown"]


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


# -- when they run --


class Counting(Scripted):
    """An executor that counts what runs at once, and keeps the order."""

    def __init__(self) -> None:
        super().__init__()
        self.running = self.most = 0
        self.order: list[str] = []

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        await begin()
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(call.call_id)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        self.running -= 1
        return call.call_id


BOUNDS: list[tuple[Tool[..., Any], Limits, int]] = [
    (pay, Limits(), 6),
    (pay, Limits(max_concurrency=2), 2),
    (replace(pay, max_concurrency=3), Limits(), 3),
    (replace(pay, conflict_key="amount"), Limits(), 1),
    (replace(pay, exclusive=True), Limits(), 1),
]


@pytest.mark.parametrize(("made", "limits", "most"), BOUNDS, ids=["free", "pipeline", "tool", "conflict", "exclusive"])
async def test_what_bounds_calls_bounds_them_elsewhere_too(made: Tool[..., Any], limits: Limits, most: int) -> None:
    counting, calls = Counting(), [said(call_id, "pay") for call_id in "abcdef"]
    _, seen = await run(calls, [made], executor=counting, limits=limits)
    assert {observation.outcome for observation in seen.values()} == {"ok"}
    assert counting.most == most
    if most == 1:
        assert counting.order == list("abcdef")


async def test_sync_tools_elsewhere_take_no_thread_here() -> None:
    def work() -> None:
        """Work elsewhere."""

    counting = Counting()
    await run(
        [said(call_id, "work") for call_id in "abcd"], [tool(work)], executor=counting, limits=Limits(max_threads=1)
    )
    assert counting.most == 4


async def test_calls_by_hand_run_elsewhere_when_they_are_told_to() -> None:
    scripted = Scripted("done")
    with anyio.fail_after(WAIT_S):
        body = chat(calls=[said("a", "pay"), said("b", "pay")])
        async with pipeline(stream(body), tools=[pay], executor=scripted, start="manual") as events:
            async for event in events:
                if isinstance(event, ToolCallValidated) and event.call.call_id == "b":
                    assert (await events.run_call(event)).value == "done"
    assert {seen.call_id: seen.outcome for seen in events.turn.observations} == {"a": "skipped", "b": "ok"}
    assert [call.call_id for call in scripted.calls] == ["b"]


async def test_early_calls_run_elsewhere_before_the_turn_has_ended() -> None:
    scripted = Scripted("done")
    body = anthropic(calls=[said("a", "pay")], stop=None)  # the end of the turn never comes
    with anyio.fail_after(WAIT_S):
        async with pipeline(hanging(body), tools=[pay], executor=scripted, start="early") as events:
            async for event in events:
                if isinstance(event, Observation):
                    assert (event.call_id, event.value) == ("a", "done")
                    break


# -- mistakes --


async def test_an_executor_that_was_not_entered_starts_nothing_and_says_what_to_do() -> None:
    executor = LocalExecutor([FORMS["async"]["tell"]])
    _, seen = await run([said("a", "tell", value=1)], [FORMS["async"]["tell"]], executor=executor)
    assert seen["a"].outcome == "failed"
    assert "the executor was not entered; run calls inside `async with executor`" in seen["a"].model_content


class NoExecutor:
    """Has no way to run anything."""


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"executor": NoExecutor()}, TypeError, "NoExecutor is no Executor; enter one and pass it, or a mapping"),
    ({"executor": {"pay": None}}, TypeError, "NoneType is no Executor"),
    ({"executor": {"play": Scripted()}}, ValueError, "executor: there is no tool 'play'; there are pay"),
    (
        {"executor": LocalExecutor([])},
        ValueError,
        "the LocalExecutor was made without the tool 'pay'; it has nothing; for some tools only, pass a mapping",
    ),
    ({"executor": Scripted}, TypeError, "the class Scripted is no Executor"),
    ({"store": MemoryStore}, TypeError, "store is an IdempotencyStore.*not the class MemoryStore"),
    ({"store": NoExecutor()}, TypeError, r"store is an IdempotencyStore, say MemoryStore\(\), not NoExecutor"),
]


@pytest.mark.parametrize(("options", "kind", "text"), MISTAKES, ids=[text for _, _, text in MISTAKES])
def test_what_is_no_executor_or_store_is_refused_at_once(options: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        pipeline(stream([]), tools=[pay], **options)
