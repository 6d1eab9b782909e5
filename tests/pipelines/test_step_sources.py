"""A run takes its steps from a source of the user's, by ``capabilities=[...]``, before it asks the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from profiles import every
from streams import chat, exhaust, stream

from streamtools import Observation, Turn, agent_loop, tool
from streamtools.errors import LocalProtocolError
from streamtools.events import StepStart
from streamtools.parts import RunOutcome
from streamtools.seams import RunView, StepPlan, StepRequest

pytestmark = pytest.mark.anyio

WIRE = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Twice 2, and twice of that?"}]
ANSWER = chat(["It is 8."], finish="stop")


def calling(n: int) -> list[bytes]:
    return chat(calls=[(f"c{n}", "double", f'{{"n": {n}}}')])


class Source:
    """Plans one step after the other, and remembers what it was told."""

    def __init__(self, *plans: Callable[[StepRequest], StepPlan | RunOutcome]) -> None:
        self.plans = list(plans)
        self.told: list[Any] = []

    async def begin(self, run: RunView) -> None:
        self.told.append(run.run_id)

    def peek(self) -> bool:
        return bool(self.plans)

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        return self.plans.pop(0)(request) if self.plans else None

    async def ended(self, turn: Turn) -> RunOutcome | None:
        self.told.append(len(turn.calls))
        return None

    async def leave(self, outcome: RunOutcome) -> None:
        self.told.append(outcome)


def replayed(body: list[bytes], **facts: Any) -> Callable[[StepRequest], StepPlan]:
    return lambda request: StepPlan(stream=stream(body), **facts)


class Program:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.doubled: list[int] = []

    def run(self, source: Any, **options: Any) -> Any:
        @tool(effect="once")
        async def double(n: int) -> int:
            """Twice n."""
            self.doubled.append(n)
            return 2 * n

        def ask(messages: list[Any], tools: Any) -> Any:
            self.asked.append(messages)
            return stream(ANSWER)

        return agent_loop(ask, ASKED, tools=[double], wire=WIRE, capabilities=[source], run_id="r", **options)


async def test_two_recorded_answers_are_replayed_before_the_model_is_asked() -> None:
    program, source = Program(), Source(replayed(calling(2)), replayed(calling(4)))
    async with program.run(source) as run:
        steps = [event async for event in run if isinstance(event, StepStart)]
    assert [(step.step, step.asks_model) for step in steps] == [(0, False), (1, False), (2, True)]
    assert (run.outcome, run.turn.text, program.doubled) == ("answered", "It is 8.", [2, 4])
    assert [one["role"] for one in program.asked[0]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert source.told == ["r", 1, 1, 0, "answered"]


async def test_calls_whose_ends_are_known_do_not_run() -> None:
    end = Observation(call_id="c2", tool_name="double", outcome="ok", value=4, model_content="4")
    program = Program()
    async with program.run(Source(replayed(calling(2), ends=[end]))) as run:
        events = [event async for event in run]
    assert [event.replayed for event in events if isinstance(event, StepStart)] == [True, False]
    assert (program.doubled, program.asked[0][-1]["content"], run.outcome) == ([], "4", "answered")


async def test_a_source_reads_the_request_and_may_end_the_run() -> None:
    read: list[Any] = []

    def look(request: StepRequest) -> StepPlan:
        read.append((request.number, request.messages, [one["function"]["name"] for one in request.tools]))
        request.messages.clear()
        return StepPlan(stream=stream(calling(2)), asks_model=True)

    program = Program()
    async with program.run(Source(look, lambda request: "stopped")) as run:
        run.say("Briefly.")
        asks = [event.asks_model async for event in run if isinstance(event, StepStart)]
    said = {"role": "user", "content": "Briefly."}
    assert read == [(0, [*ASKED, said], ["double"])]
    assert (asks, run.outcome, program.asked, run.messages[1]) == ([True], "stopped", [], said)


async def test_what_is_said_or_stopped_while_a_source_is_asked_counts_behind_its_answer() -> None:
    class Slow(Source):
        async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
            if request.number:
                run.stop()
                return None
            run.say("Briefly.")
            return StepPlan(stream=stream(calling(2)))

    program = Program()
    async with program.run(Slow()) as run:
        await exhaust(run)
    assert (run.outcome, program.asked, program.doubled) == ("cancelled", [], [2])
    assert [one["role"] for one in run.messages] == ["user", "assistant", "tool"]
    assert [one["messages"][0]["content"] for one in run.unread] == ["Briefly."]


async def test_a_source_that_cannot_begin_keeps_the_run_from_it_and_the_others_give_back_what_they_hold(
    tmp_path: Path,
) -> None:
    class Broken(Source):
        async def begin(self, run: RunView) -> None:
            raise LocalProtocolError("no answers here")

    program, journal = Program(), {"journal": tmp_path / "runs.db"}
    with pytest.raises(LocalProtocolError, match="no answers here"):
        await program.run(Broken(), **journal)
    await program.run(Source(replayed(calling(2))), **journal)  # nobody holds the run
    again = program.run(Source(), **journal)  # its step is on record
    assert ((await again).text, program.doubled, len(program.asked)) == ("It is 8.", [2], 1)


@every(("found", "name"), [(3, "int"), ("stoped", "stoped"), ([], "list")])
async def test_what_a_source_must_not_return_is_refused_by_name(found: Any, name: str) -> None:
    run = Program().run(Source(lambda request: found))
    with pytest.raises(TypeError, match=f"expected a StepPlan, an outcome of a run or None, got {name}"):
        await run
    assert run.outcome == "error"
