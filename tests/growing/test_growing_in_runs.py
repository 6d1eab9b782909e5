"""Growing tools in runs: what ends them, what goes on after a crash, and what watches, records and shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from growing.written import Notes, chat_end, cut, on_chat, steadily
from profiles import every, examples
from record.recorded import same
from streams import chat, exhaust
from telemetry.scripted import Spans

from streamtools import Growing, Retry, ToolContext, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.events import AttemptDiscarded, Event, Observation, ToolCallEnd, ToolStarted
from streamtools.history import lint
from streamtools.record import record, replay
from streamtools.telemetry import Tracing
from streamtools.view import draw

pytestmark = pytest.mark.anyio

WIRE = "openai.chat_completions"
WHOLE = '{"path": "p", "text": "Hello, you"}'
GROWS = [*on_chat(cut(WHOLE, 3)), *chat_end()]
HALF = on_chat(cut(WHOLE[:-8], 3))
DONE = chat(["Done."], finish="stop")


def loop_of(notes: Notes, *answers: Any, **options: Any) -> Any:
    left = list(answers)

    async def ask(messages: Any, tools: Any) -> Any:
        return left.pop(0)

    return agent_loop(ask, [{"role": "user", "content": "Write."}], **{"tools": notes.tools(), "wire": WIRE, **options})


async def read(block: Any, notes: Notes, then: Any = None) -> list[Event]:
    """Returns the events; acts once the tool has read something, and leaves if that says so."""
    events: list[Event] = []
    with anyio.fail_after(10):
        async with block as run:
            async for event in run:
                events.append(event)
                if then is not None and isinstance(event, ToolStarted):
                    while not notes.read:
                        await anyio.lowlevel.checkpoint()
                    if then(run) == "leave":
                        break
                    then = None
    return events


ENDS = {
    "left": lambda run: "leave",
    "cancelled": lambda run: run.cancel("c0"),
    "stopped": lambda run: run.stop(),
    "cut by what is said": lambda run: run.say("No, stop.", when="now") and None,
}


@every("case", ENDS)
async def test_a_run_that_ends_in_the_middle_leaves_nothing(case: str) -> None:
    notes = Notes()
    if case == "cancelled":
        block: Any = pipeline(steadily([*HALF, *chat_end()]), tools=notes.tools())
        await read(block, notes, ENDS[case])
        (seen,) = block.turn.observations
    else:
        block = loop_of(notes, steadily(HALF, hangs=True), steadily(DONE))
        await read(block, notes, ENDS[case])
        (seen,) = block.turns[0].observations
        assert lint(block.messages, WIRE) == []
    assert (seen.outcome, seen.attempts, notes.drafts, notes.files) == ("cancelled", 1, set(), {})
    assert "was undone" in str(seen.error)


async def test_an_answer_that_is_asked_for_again_undoes_the_first_ones_call() -> None:
    notes, again = Notes(), Retry(attempts=2, after_output=True, backoff=0)
    answers = steadily(HALF, then=ConnectionResetError()), steadily(GROWS), steadily(DONE)
    events = await read(loop_of(notes, *answers, retry=again), notes)
    assert [type(one) for one in events].count(AttemptDiscarded) == 1
    assert [one.outcome for one in events if isinstance(one, Observation)] == ["discarded", "ok"]
    assert (notes.files, notes.drafts, notes.aborted) == ({"p": "Hello, you"}, set(), 1)


async def test_a_run_whose_process_died_while_it_was_written_asks_anew(tmp_path: Path) -> None:
    notes, given = Notes(), {"journal": tmp_path / "j.db", "run_id": "r"}
    await read(loop_of(notes, steadily(HALF, hangs=True), **given), notes, ENDS["left"])
    loop = loop_of(notes, steadily(GROWS), steadily(DONE), **given)
    await read(loop, notes)
    assert (notes.files, notes.drafts, loop.turns[0].observations[0].outcome) == ({"p": "Hello, you"}, set(), "ok")


async def test_a_run_whose_process_died_in_the_commit_does_not_know_its_end(tmp_path: Path) -> None:
    began, notes = anyio.Event(), Notes()

    async def publish() -> None:
        began.set()
        await anyio.sleep_forever()

    given = {"journal": tmp_path / "j.db", "run_id": "r", "tools": notes.tools(commit=publish, abort=lambda: None)}
    with anyio.fail_after(10):
        async with loop_of(notes, steadily(GROWS), **given) as first, anyio.create_task_group() as group:

            async def reads() -> None:
                await exhaust(first)

            group.start_soon(reads)
            await began.wait()
            group.cancel_scope.cancel()
    loop = loop_of(notes, steadily(DONE), **given)
    await read(loop, notes)
    assert loop.turns[0].observations[0].outcome == "unknown"


def test_the_time_that_the_model_takes_is_not_the_tools() -> None:
    async def run(rest_s: float) -> str:
        @tool(effect="pure", timeout=5)
        async def say(text: Growing[str]) -> None:
            """Say it."""
            await exhaust(text)
            await anyio.sleep(rest_s)

        async def slow() -> Any:
            for item in [*on_chat(cut('{"text": "abc def"}', 3), "say"), *chat_end()]:
                await anyio.sleep(1)
                yield item

        return (await pipeline(slow(), tools=[say])).observations[0].outcome

    clocks = (trio.testing.MockClock(autojump_threshold=0) for _ in range(2))
    assert [trio.run(run, rest_s, clock=next(clocks)) for rest_s in (4, 9)] == ["ok", "timed_out"]


async def test_a_body_that_cannot_be_undone_has_an_end_that_nobody_knows() -> None:
    def fails() -> None:
        raise OSError("disk")

    block = pipeline(steadily([*HALF, *chat_end("length")]), tools=Notes().tools(abort=fails))
    (seen,) = (await block).observations
    assert (seen.outcome, "undoing it raised OSError" in str(seen.error)) == ("unknown", True)


async def test_a_body_or_a_commit_that_fails_is_undone_and_may_be_tried_again() -> None:
    read, undone = list[str](), list[int]()

    def commits(text: str, ctx: ToolContext) -> None:
        if ctx.attempt == 2:
            raise OSError("full")

    def undoes(ctx: ToolContext) -> None:
        undone.append(ctx.attempt)

    @tool(effect="idempotent", retries=2, retry_delay_s=1e-6, commit=commits, abort=undoes)
    async def note(text: Growing[str], ctx: ToolContext) -> None:
        """Note it."""
        async for piece in text:
            read.append(piece)
            if ctx.attempt == 1:
                raise ValueError(piece)

    items = [*on_chat(cut('{"text": "abc def"}', 3), "note"), *chat_end()]
    (seen,) = (await pipeline(steadily(items), tools=[note])).observations
    assert (seen.outcome, seen.attempts, undone, read[-1]) == ("ok", 3, [1, 2], "abc def")


async def test_a_thousand_void_calls_leave_nothing() -> None:
    notes = Notes()
    for number in range(examples(1000, 60)):
        text = WHOLE[: 24 + number % 10] if number % 3 == 0 else WHOLE
        items = [*on_chat(cut(text, 1 + number % 5)), *chat_end("length" if number % 3 == 0 else "content_filter")]
        block = pipeline(steadily(items[: -1 if number % 3 == 1 else None]), tools=notes.tools())
        try:
            await block
        except TruncatedStream:
            assert number % 3 == 1
        assert (notes.drafts, notes.files, block.turn.observations[0].outcome) == (set(), {}, "cancelled")


async def test_spans_recordings_and_pictures_have_a_call_that_ran_before_its_end(tmp_path: Path) -> None:
    for answer, outcome in ((GROWS, "ok"), ([*HALF, *chat_end("length")], "cancelled")):
        notes, spans, path = Notes(), Spans(), tmp_path / f"{outcome}.jsonl"
        run = Trajectory(run_id="r", observers=[record(path), Tracing(spans.provider)], default_observers=False)
        events = await read(loop_of(notes, steadily(answer), steadily(DONE), trajectory=run), notes)
        kinds = [type(event) for event in events]
        assert kinds.index(ToolStarted) < kinds.index(ToolCallEnd)
        (span,) = [one for one in spans.all if one.name == "execute_tool write"]
        assert (span.end_time or 0) > (span.start_time or 0) > 0
        async with replay(path) as again:
            same([event async for event in again], events, times=False)
        assert again.differences == ()
        (call,) = draw(events).calls
        assert (call.outcome, len(call.tries)) == (outcome, 1)
        assert call.start <= call.tries[0].start <= (call.ready or call.end or 0)
