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
from streams import Seeing, chat
from telemetry.scripted import Spans

from streamtools import Growing, Retry, ToolContext, Trajectory, agent_loop, pipeline, tool
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
ASKED = [{"role": "user", "content": "Write."}]


def asks(*answers: Any) -> Any:
    left = list(answers)

    async def ask(messages: Any, tools: Any) -> Any:
        return left.pop(0)

    return ask


async def until(block: Any, notes: Notes, then: Any) -> list[Event]:
    """The events; acts once the tool has read something."""
    events: list[Event] = []
    with anyio.fail_after(10):
        async with block as run:
            async for event in run:
                events.append(event)
                if then is not None and isinstance(event, ToolStarted):
                    while not notes.read:
                        await anyio.lowlevel.checkpoint()
                    acts, then = then, None
                    if await acts(run):
                        break
    return events


async def _leave(run: Any) -> bool:
    return True


async def _cancel(run: Any) -> None:
    run.cancel("c0")


async def _stop(run: Any) -> None:
    run.stop()


async def _say(run: Any) -> None:
    run.say("No, stop.", when="now")


ENDS = {"left": _leave, "cancelled": _cancel, "stopped": _stop, "cut by what is said": _say}


@every("case", ENDS)
async def test_a_run_that_ends_in_the_middle_leaves_nothing(case: str) -> None:
    notes = Notes()
    loop = agent_loop(asks(steadily(HALF, hangs=True), steadily(DONE)), ASKED, tools=notes.tools(), wire=WIRE)
    if case == "cancelled":
        pipe = pipeline(steadily([*HALF, *chat_end()]), tools=notes.tools())
        await until(pipe, notes, _cancel)
        (seen,) = pipe.turn.observations
    else:
        await until(loop, notes, ENDS[case])
        seen = loop.turns[0].observations[0]
        assert lint(loop.messages, WIRE) == []
    assert (seen.outcome, seen.attempts, notes.drafts, notes.files) == ("cancelled", 1, set(), {})
    assert "was undone" in str(seen.error)


async def test_an_answer_that_is_asked_for_again_undoes_the_first_ones_call() -> None:
    notes, again = Notes(), Retry(attempts=2, after_output=True, backoff=0)
    loop = agent_loop(
        asks(steadily(HALF, then=ConnectionResetError()), steadily(GROWS), steadily(DONE)),
        ASKED,
        tools=notes.tools(),
        wire=WIRE,
        retry=again,
    )
    events = await until(loop, notes, None)
    assert [type(one) for one in events].count(AttemptDiscarded) == 1
    assert [one.outcome for one in events if isinstance(one, Observation)] == ["discarded", "ok"]
    assert (notes.files, notes.drafts, notes.aborted) == ({"p": "Hello, you"}, set(), 1)


async def test_a_run_whose_process_died_while_it_was_written_asks_anew(tmp_path: Path) -> None:
    notes = Notes()
    given: dict[str, Any] = {"tools": notes.tools(), "wire": WIRE, "journal": tmp_path / "j.db", "run_id": "r"}
    await until(agent_loop(asks(steadily(HALF, hangs=True)), ASKED, **given), notes, _leave)
    loop = agent_loop(asks(steadily(GROWS), steadily(DONE)), ASKED, **given)
    await until(loop, notes, None)
    assert (notes.files, notes.drafts, loop.turns[0].observations[0].outcome) == ({"p": "Hello, you"}, set(), "ok")


async def test_a_run_whose_process_died_in_the_commit_does_not_know_its_end(tmp_path: Path) -> None:
    began = anyio.Event()
    notes, hung = Notes(), True

    async def publish(path: str, text: str) -> None:
        began.set()
        if hung:
            await anyio.sleep_forever()

    given: dict[str, Any] = {"wire": WIRE, "journal": tmp_path / "j.db", "run_id": "r"}
    tools = notes.tools(commit=publish, abort=lambda: None)
    with anyio.fail_after(10):
        async with agent_loop(asks(steadily(GROWS)), ASKED, tools=tools, **given) as first:
            async for event in first:
                if isinstance(event, ToolCallEnd):
                    break
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:

                    async def reads() -> None:
                        async for _ in first:
                            pass

                    group.start_soon(reads)
                    await began.wait()
                    scope.cancel()
    hung = False
    loop = agent_loop(asks(steadily(DONE)), ASKED, tools=tools, **given)
    await until(loop, notes, None)
    assert loop.turns[0].observations[0].outcome == "unknown"


def test_the_time_that_the_model_takes_is_not_the_tools() -> None:
    async def run(rest_s: float) -> str:
        @tool(effect="pure", timeout=5)
        async def say(text: Growing[str]) -> str:
            """Say it."""
            async for _ in text:
                pass
            await anyio.sleep(rest_s)
            return "said"

        async def slow() -> Any:
            for item in [*on_chat(cut('{"text": "abc def"}', 3), "say"), *chat_end()]:
                await anyio.sleep(1)
                yield item

        return (await pipeline(slow(), tools=[say])).observations[0].outcome

    clocks = (trio.testing.MockClock(autojump_threshold=0) for _ in range(2))
    assert [trio.run(run, rest_s, clock=next(clocks)) for rest_s in (4, 9)] == ["ok", "timed_out"]


async def test_a_body_that_cannot_be_undone_has_an_end_that_nobody_knows() -> None:
    notes = Notes()

    def fails() -> None:
        raise OSError("disk")

    block = pipeline(steadily([*HALF, *chat_end("length")]), tools=notes.tools(abort=fails))
    (seen,) = (await block).observations
    assert (seen.outcome, "undoing it raised OSError" in str(seen.error)) == ("unknown", True)


async def test_a_body_or_a_commit_that_fails_is_undone_and_may_be_tried_again() -> None:
    read: list[str] = []
    undone: list[int] = []

    def commits(text: str, ctx: ToolContext) -> None:
        if ctx.attempt == 2:
            raise OSError("full")

    @tool(
        effect="idempotent", retries=2, retry_delay_s=1e-6, commit=commits, abort=lambda ctx: undone.append(ctx.attempt)
    )
    async def note(text: Growing[str], ctx: ToolContext) -> str:
        """Note it."""
        async for piece in text:
            read.append(piece)
            if ctx.attempt == 1:
                raise ValueError(piece)
        return "noted"

    items = [*on_chat(cut('{"text": "abc def"}', 3), "note"), *chat_end()]
    (seen,) = (await pipeline(steadily(items), tools=[note])).observations
    assert (seen.outcome, seen.attempts, undone, read[-1]) == ("ok", 3, [1, 2], "abc def")


async def test_a_thousand_void_calls_leave_nothing() -> None:
    notes = Notes()
    ends = [HALF + chat_end("length"), HALF, GROWS[:-1] + chat_end("content_filter")]
    for number in range(examples(1000, 60)):
        at = number % 3
        text = WHOLE[: 22 + number % 12]
        items = [*on_chat(cut(text, 1 + number % 5)), *chat_end("length")] if at == 0 else ends[at]
        block = pipeline(steadily(items), tools=notes.tools(), on_source_error="drain")
        try:
            await block
        except Exception:
            assert at == 1
        assert (notes.drafts, notes.files) == (set(), {})
        assert block.turn.observations[0].outcome in ("cancelled", "truncated")


# -- those who watch --


async def test_spans_recordings_and_pictures_have_a_call_that_ran_before_its_end(tmp_path: Path) -> None:
    notes, spans, seeing = Notes(), Spans(), Seeing()
    for answer, outcome in ((GROWS, "ok"), ([*HALF, *chat_end("length")], "cancelled")):
        notes.read.clear()
        path = tmp_path / f"{outcome}.jsonl"
        observers = [record(path), Tracing(spans.provider), seeing]
        run = Trajectory(run_id="r", observers=observers, default_observers=False)
        loop = agent_loop(asks(steadily(answer), steadily(DONE)), ASKED, tools=notes.tools(), wire=WIRE, trajectory=run)
        events = await until(loop, notes, None)
        kinds = [type(event) for event in events]
        assert kinds.index(ToolStarted) < kinds.index(ToolCallEnd)
        (span,) = [one for one in spans.all if one.name == "execute_tool write"]
        spans.exporter.clear()
        assert (span.end_time or 0) > (span.start_time or 0) > 0
        async with replay(path) as again:
            found = [event async for event in again]
        same(found, events, times=False)
        assert again.differences == ()
        (call,) = draw(events).calls
        assert (call.outcome, len(call.tries)) == (outcome, 1)
        assert call.start <= call.tries[0].start <= (call.ready or call.end or 0)
