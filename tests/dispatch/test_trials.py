"""A pure call is tried before its response has ended, and nobody can tell but by the time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest
from growing.written import steadily
from profiles import every, examples
from streams import Seeing, chat, chat_chunk, exhaust, pass_on, sse
from telemetry.scripted import Spans
from trial_streams import Program, ran, shown

from streamtools import Limits, Observation, ToolContext, Trajectory, agent_loop, pipeline, tool
from streamtools.dispatch import Begin, CallPool, Emit, Invocation
from streamtools.events import AnswerRequested, TextDelta, ToolCallValidated, ToolProgress, ToolStarted
from streamtools.seams import Allow
from streamtools.stages import DEFAULT
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio

CALL = {"index": 0, "id": "c0", "type": "function"}
WHOLE = '{"n": 1}'


class Looks:
    """A tool that notes when its body begins and ends."""

    def __init__(self, *, waits: bool = False) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.may_end = anyio.Event()
        if not waits:
            self.may_end.set()

    async def look(self, n: int) -> int:
        """Look."""
        self.begun.append(n)
        try:
            await self.may_end.wait()
        finally:
            self.ended.append(n)
        return n


def written(*texts: str, name: str = "look", index: int = 0) -> list[bytes]:
    """A call, in pieces."""
    head = {**CALL, "index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}
    pieces = [{"index": index, "function": {"arguments": text}} for text in texts]
    return sse([chat_chunk({"tool_calls": [piece]}) for piece in (head, *pieces)])


def end(finish: str = "tool_calls") -> list[bytes]:
    return [sse([chat_chunk({}, finish)])[0] + b"data: [DONE]\n\n"]


async def observed(items: list[Any], made: Any, **options: Any) -> list[Observation]:
    with anyio.fail_after(10):
        turn = await pipeline(steadily(items), tools=made if isinstance(made, list) else [made], **options)
    return list(turn.observations)


KEPT = {
    "in one piece": [WHOLE],
    "in letters": list(WHOLE),
    "white space behind": [WHOLE, "  ", "\n"],
    "white space in the piece": [WHOLE + " \n"],
    "braces within": ['{"n": 1', ', "more": ', '{"a": {}}', ', "s": "}"', "}"],
}


@every("case", KEPT)
async def test_a_body_begins_behind_its_brace_and_its_result_is_the_calls(case: str) -> None:
    work, early = Looks(), list[int]()
    made = tool(effect="pure")(work.look)
    if "more" in "".join(KEPT[case]):

        @tool(effect="pure")
        async def look(n: int, more: dict[str, Any], s: str) -> int:
            """Look."""
            return await work.look(n)

        made = look
    items = [*written(*KEPT[case]), lambda: early.extend(work.ended), *end()]
    (seen,) = await observed(items, made)
    assert (early, seen.outcome, seen.value, work.begun) == ([1], "ok", 1, [1])


async def test_the_same_call_sent_again_is_one_call() -> None:
    work, early = Looks(), list[int]()
    again = {**CALL, "function": {"name": "look", "arguments": WHOLE}}
    items = [*written(WHOLE), *sse([chat_chunk({"tool_calls": [again]})]), lambda: early.extend(work.begun), *end()]
    (seen,) = await observed(items, tool(effect="pure")(work.look))
    assert (early, seen.outcome, work.begun) == ([1], "ok", [1])


DROPPED: dict[str, tuple[list[Any], str, dict[str, Any]]] = {
    "another brace": ([*written(WHOLE, "}"), *end()], "invalid", {}),
    "a second object": ([*written(WHOLE, '{"n": 2}'), *end()], "invalid", {}),
    "cut for its length": ([*written(WHOLE), *end("length")], "skipped", {}),
    "a filter's verdict": ([*written(WHOLE), *end("content_filter")], "skipped", {}),
    "a stream that breaks off": (written(WHOLE), "skipped", {}),
    "drained": (written(WHOLE), "skipped", {"on_source_error": "drain"}),
    "no place for an older call": (
        [*written("{", name="act"), *written(WHOLE, index=1), *written('"n": 3}', name="act")[1:], *end()],
        "ok",
        {"limits": Limits(max_concurrency=1)},
    ),
}


@every("case", DROPPED)
async def test_what_comes_otherwise_drops_a_trial_that_is_awaited(case: str) -> None:
    items, outcome, options = DROPPED[case]
    work = Looks(waits=True)

    @tool(effect="idempotent")
    async def act(n: int) -> int:
        """Act."""
        assert work.ended == work.begun == [1]  # it has made room
        work.may_end.set()
        return n

    at = next(at for at, item in enumerate(items) if WHOLE.encode()[-3:] in item.replace(b"\\", b""))
    early: list[int] = []
    items = [*items[: at + 1], lambda: early.extend(work.begun), *items[at + 1 :]]
    with anyio.fail_after(10):
        block = pipeline(steadily(items), tools=[tool(effect="pure")(work.look), act], **options)
        async with block as events:
            try:
                await exhaust(events)
            except Exception:
                assert len(items) < 4
        seen = {one.call_id: one for one in block.turn.observations}
    assert early == [1]
    assert work.ended == work.begun
    assert seen["c1" if outcome == "ok" else "c0"].outcome == outcome
    assert len(work.begun) == (2 if outcome == "ok" else 1)


@every("way", ["break", "raise", "cancel"])
async def test_whoever_leaves_or_cancels_ends_a_trial(way: str) -> None:
    work = Looks(waits=True)
    items: list[Any] = [*written(WHOLE), *sse([chat_chunk({"content": "now"})]), *written("{", index=1), *end()]
    block = pipeline(steadily(items), tools=[tool(effect="pure")(work.look)])
    with anyio.fail_after(10):
        try:
            async with block as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        assert work.begun == [1]
                        if way == "break":
                            break
                        if way == "raise":
                            raise KeyError
                        events.cancel("c0")
        except KeyError:
            assert way == "raise"
    assert work.ended == [1]
    assert block.turn.observations[0].outcome in ("cancelled", "truncated", "skipped")
    assert block.turn.observations[0].attempts == 0


class Here:
    """An executor of the user's own."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None: ...

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        await begin()
        return call.arguments["n"]


class Allows:
    async def judge(self, call: Any, step: Any, /) -> Any:
        return Allow()


class Passing:
    """A stage that changes nothing."""

    def feed(self, event: Any) -> list[Any]:
        return [event]

    def finish(self) -> list[Any]:
        return []


async def around(call: Any, run: Any) -> Any:
    return await run()


NOT_TRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "trials=False": ({}, {"trials": False}),
    "trial=False": ({"trial": False}, {}),
    "idempotent": ({"effect": "idempotent"}, {}),
    "once": ({"effect": "once"}, {}),
    "an approval": ({"needs_approval": True}, {"approve": lambda request: True}),
    "perhaps an approval": ({"needs_approval": lambda arguments: False}, {}),
    "middleware of the tool": ({"middleware": around}, {}),
    "middleware": ({}, {"middleware": around}),
    "an executor": ({}, {"executor": Here()}),
    "a key": ({"conflict_key": "n"}, {}),
    "alone": ({"exclusive": True}, {}),
    "the turn's end": ({}, {"start": "turn_end"}),
    "a rule": ({}, {"capabilities": [Allows()]}),
    "a stage": ({}, {"stages": DEFAULT.insert_after("finalize", Passing)}),
    "a transform": ({}, {"transforms": [pass_on]}),
    "repeated": ({}, {"limits": Limits(max_repeated_calls=1)}),
    "a budget": ({}, {"limits": Limits(call_budget=1)}),
    "a budget of runs": ({}, {"pool": Limits()}),
    "no place": ({"max_concurrency": 1}, {}),
}


@every("case", NOT_TRIED)
async def test_who_is_not_tried(case: str) -> None:
    options, given = NOT_TRIED[case]
    if "pool" in given:
        given = {"pool": CallPool(given["pool"], call_budget=1)}
    work, early = Looks(), list[int]()
    waiting = Looks(waits=True)
    of_tool: Any = {"effect": "pure", **options}
    made = tool(**of_tool)(work.look)
    items: list[Any] = [*written(WHOLE, index=0, name="look"), *written('{"n": 2}', index=1)]
    if case == "no place":
        made = tool(effect="pure", max_concurrency=1)(waiting.look)
        items = [*items, lambda: early.extend(waiting.begun[1:]), waiting.may_end.set]
    elif case in ("a budget", "a budget of runs", "repeated"):  # the first fits
        items = [*items, lambda: early.extend(work.begun[1:])]
    else:
        items = [*items, lambda: early.extend(work.begun)]
    seen = await observed([*items, *end()], made, **given)
    assert early == []
    assert [one.outcome for one in seen] == ["ok", "over_budget" if "budget" in case else "ok"]


async def test_no_call_is_tried_behind_one_that_runs_alone() -> None:
    work, early = Looks(), list[int]()

    @tool(effect="pure", exclusive=True)
    async def alone(n: int) -> int:
        """Look alone."""
        return n

    items = [*written(WHOLE, name="alone"), *written(WHOLE, index=1), lambda: early.extend(work.begun), *end()]
    seen = await observed(items, [alone, tool(effect="pure")(work.look)])
    assert (early, [one.outcome for one in seen]) == ([], ["ok", "ok"])


async def test_a_trial_reports_and_asks_only_when_its_call_has_ended() -> None:
    seeing, log = Seeing(), list[str]()

    @tool(effect="pure")
    async def look(n: int, ctx: ToolContext) -> Any:
        """Look."""
        ctx.progress("begun")
        log.append("begun")
        return await ctx.ask("how many?")

    items: list[Any] = [*written(WHOLE), lambda: log.append("end"), *end()]
    run = Trajectory(observers=[seeing], default_observers=False)
    async with pipeline(steadily(items), tools=[look], trajectory=run) as events:
        async for event in events:
            if isinstance(event, AnswerRequested):
                events.answer(event, 7)
    assert log == ["begun", "end"]
    kinds = [type(event) for event in seeing.events]
    order = [kinds.index(kind) for kind in (ToolCallValidated, ToolStarted, ToolProgress, AnswerRequested, Observation)]
    assert order == sorted(order)
    assert events.turn.observations[0].value == 7


async def test_times_are_those_of_the_body() -> None:
    seeing, work = Seeing(), Looks()
    items: list[Any] = [*written(WHOLE), *end()]
    run = Trajectory(observers=[seeing], default_observers=False)
    await observed(items, tool(effect="pure")(work.look), trajectory=run)
    by_kind = {type(event): event for event in seeing.events}
    started, ready, seen = (by_kind[kind] for kind in (ToolStarted, ToolCallValidated, Observation))
    assert started.tried  # type: ignore[attr-defined]
    assert started.time < ready.time  # type: ignore[attr-defined]
    assert started.time + seen.duration < ready.time  # type: ignore[attr-defined]


async def test_a_body_that_takes_too_long_is_timed_out_from_its_begin_and_tried_again() -> None:
    attempts: list[int] = []

    @tool(effect="pure", timeout=0.02, retries=1, retry_delay_s=1e-6)
    async def look(n: int, ctx: ToolContext) -> int:
        """Look."""
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        return n

    async def slow() -> AsyncIterator[bytes]:
        for item in written(WHOLE):
            yield item
        await anyio.sleep(0.05)
        for item in end():
            yield item

    with anyio.fail_after(10):
        turn = await pipeline(slow(), tools=[look])
    assert (attempts, turn.observations[0].outcome, turn.observations[0].attempts) == ([1, 2], "ok", 2)


async def test_spans_of_a_body_are_below_its_calls_own_also_when_it_is_dropped() -> None:
    for finish in ("tool_calls", "length"):
        spans, work = Spans(), Looks()
        tracer = spans.provider.get_tracer("body")

        @tool(effect="pure")
        async def look(n: int) -> int:
            """Look."""
            with tracer.start_as_current_span("body"):
                return await work.look(n)

        run = Trajectory(observers=[Tracing(spans.provider)], default_observers=False)
        await pipeline(steadily([*written(WHOLE), *end(finish)]), tools=[look], trajectory=run)
        inner = spans.named("body")
        (outer,) = [span for span in spans.tools() if span.context.span_id == inner.parent.span_id]  # type: ignore[union-attr]
        assert outer.name == "execute_tool look"
        assert (outer.attributes.get("streamtools.tool.trial") == "dropped") is (finish == "length")
        assert spans.ledger.balanced


async def test_a_run_of_several_steps_tries_the_calls_of_each() -> None:
    answers = iter([[*written(WHOLE), *end()], chat(["done"], finish="stop")])
    work = Looks()

    async def ask(messages: list[Any], tools: Any) -> Any:
        return steadily(list(next(answers)))

    seeing = Seeing()
    run = Trajectory(observers=[seeing], default_observers=False)
    loop = agent_loop(
        ask,
        [{"role": "user", "content": "look"}],
        tools=[tool(effect="pure")(work.look)],
        wire="openai.chat_completions",
        trajectory=run,
    )
    assert (await loop).text == "done"
    assert [event.tried for event in seeing.events if isinstance(event, ToolStarted)] == [True]


@pytest.mark.deadline(600)
async def test_events_results_and_histories_are_those_without_trials(anyio_backend_name: str) -> None:
    tried = 0
    for seed in range(examples(600, 40)):
        program = Program(seed)
        with anyio.fail_after(20):
            first, second = await ran(program, trials=True), await ran(Program(seed), trials=False)
        tried += sum(isinstance(event, ToolStarted) and event.tried for event in first.events)
        with_trials, without = shown(first.events), shown(second.events)
        assert with_trials[0] == without[0], seed
        if anyio_backend_name == "trio" and program.is_instant:
            continue  # which starts its tasks in any order: who fails first, and cancels others, is its choice
        assert with_trials[1] == without[1], seed
        assert (first.messages, first.error) == (second.messages, second.error), seed
    assert tried > 5
