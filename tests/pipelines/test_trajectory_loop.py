"""A run of many steps: asked until it answers, bounded, stoppable anywhere, always with a history that can be sent."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from streams import anthropic, chat, hanging, stream

from streamtools import Observation, TextDelta, Trajectory, Turn, tool
from streamtools.errors import ExportError, LocalProtocolError, StreamError, TruncatedStream
from streamtools.events import StepStart, ToolStarted
from streamtools.history import lint
from streamtools.pipelines.agent_loop import agent_loop

pytestmark = pytest.mark.anyio

CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Twice 2, and twice of that?"}]


@tool(effect="pure")
async def double(n: int, note: str = "") -> int:
    """Twice n."""
    return 2 * n


@tool(effect="once")
async def send(text: str) -> str:
    """Send a text."""
    return "sent"


class Model:
    """Answers with one body after the other, and remembers what it was asked."""

    def __init__(self, *bodies: list[bytes]) -> None:
        self.bodies = list(bodies)
        self.asked: list[tuple[list[Any], list[Any]]] = []

    async def __call__(self, messages: list[Any], tools: list[Any]) -> AsyncIterator[Any]:
        await anyio.lowlevel.checkpoint()
        self.asked.append((messages, tools))
        return stream(self.bodies[len(self.asked) - 1])


def calling(n: int, call_id: str = "c") -> list[bytes]:
    return chat(calls=[(f"{call_id}{n}", "double", f'{{"n": {n}}}')])


ANSWER = chat(["It is ", "8."], finish="stop")


async def test_the_model_is_asked_until_it_answers() -> None:
    model = Model(calling(2), calling(4), ANSWER)
    async with agent_loop(model, ASKED, tools=[double], wire=CHAT) as run:
        events = [event async for event in run]
    assert (run.outcome, len(run.turns)) == ("answered", 3)
    assert [event.value for event in events if isinstance(event, Observation)] == [4, 8]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is 8."
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.step for event in events if isinstance(event, StepStart)] == [0, 1, 2]
    assert [len(messages) for messages, _ in model.asked] == [1, 3, 5]
    assert model.asked[0][1][0]["function"]["name"] == "double"
    assert lint(run.messages, CHAT) == []
    assert run.messages[-1] == {"role": "assistant", "content": "It is 8."}
    assert ASKED == [{"role": "user", "content": "Twice 2, and twice of that?"}]


async def test_it_is_asked_so_often_and_no_oftener() -> None:
    model = Model(*(calling(n) for n in range(5)))
    async with agent_loop(model, ASKED, tools=[double], wire=CHAT, max_steps=3) as run:
        assert (await run.finish()).observations[0].value == 4
    assert (run.outcome, len(model.asked)) == ("max_steps", 3)
    assert lint(run.messages, CHAT) == []


async def test_a_condition_of_ones_own_ends_it_before_the_model_is_asked_again() -> None:
    model = Model(calling(2), calling(4), ANSWER)
    async with agent_loop(
        model, ASKED, tools=[double], wire=CHAT, stop=lambda turn: turn.observations[0].value == 8
    ) as run:
        await run.finish()
    assert (run.outcome, len(model.asked)) == ("stopped", 2)
    assert run.messages[-1]["content"] == "8"


async def test_what_a_strict_export_says_otherwise_is_turned_back() -> None:
    model = Model(chat(calls=[("c1", "double", '{"n": 2, "note": null}')]), ANSWER)
    async with agent_loop(model, ASKED, tools=[double], wire=CHAT, strict=True) as run:
        await run.finish()
    assert model.asked[0][1][0]["function"]["strict"] is True
    assert run.turns[0].observations[0].outcome == "ok"


async def test_a_stream_that_breaks_is_raised_and_leaves_a_history_that_can_be_sent() -> None:
    model = Model(calling(2), chat(["It is"], finish=None))
    run = agent_loop(model, ASKED, tools=[double], wire=CHAT)
    async with run:
        with pytest.raises(TruncatedStream):
            await run.finish()
        assert [event async for event in run] == []
    assert (run.outcome, len(run.turns)) == ("error", 2)
    assert lint(run.messages, CHAT) == []
    assert (run.messages[-1]["content"], run.turn.text) == ("4", "It is"), "the half answer is in the turns alone"


async def test_a_run_that_is_cut_anywhere_leaves_a_history_that_the_newest_models_take() -> None:
    calls = [("a", "double", '{"n": 2}'), ("b", "send", '{"text": "hi"}')]
    bodies = {
        CHAT: ("anthropic/claude-sonnet-4.6", chat(["I", " see."], calls), chat(["It", " is 4"], finish="stop")),
        "anthropic.messages": ("claude-opus-5", anthropic(["I see."], calls), anthropic(["It is 4"], stop="end_turn")),
    }
    for wire, (model, first, second) in bodies.items():
        for cut, start in itertools.product(range(len(first) + len(second)), ("auto", "early", "turn_end")):
            where = (wire, start, cut)
            for drafts in (False, True):
                asked = Model(first[:cut], second[: max(0, cut - len(first))])
                run = agent_loop(asked, ASKED, tools=[double, send], wire=wire, start=start, drafts=drafts)
                with suppress(StreamError):
                    await run
                kept = str(run.messages)
                begun = [one.call_id for turn in run.turns for one in turn.observations if one.attempts]
                assert all(f"'{call_id}'" in kept for call_id in begun), (where, "what was done is not forgotten")
                if drafts:
                    assert all(turn.text in kept for turn in run.turns), (where, "drafts are there if they are wanted")
                elif run.outcome != "answered":
                    assert lint(run.messages, wire, model=model, last=True) == [], where


async def test_a_draft_is_out_of_the_history_also_while_a_later_step_goes_on() -> None:
    draft = chat(["Let me"], calls=[("a", "double", '{"n": 1}')], finish="error")
    run = agent_loop(Model(draft, calling(2, "b"), ANSWER), ASKED, tools=[double], wire=CHAT)
    async with run:
        async for event in run:
            if event.step == 1:
                assert "Let me" not in str(run.messages)
                assert lint(run.messages, CHAT) == []
    assert [turn.is_draft for turn in run.turns] == [True, False, False]


async def test_a_run_that_has_its_answer_has_it_in_its_history_whatever_its_finish() -> None:
    for finish in ("stop", "length", "content_filter", "error", "something new"):
        run = agent_loop(Model(chat(["It is"], finish=finish)), ASKED, wire=CHAT)
        await run
        assert (run.outcome, run.messages[-1]["content"]) == ("answered", "It is"), finish


async def test_an_error_of_the_request_comes_out_as_it_is() -> None:
    async def fails(messages: list[Any], tools: list[Any]) -> Any:
        raise OSError("no route")

    run = agent_loop(fails, ASKED, wire=CHAT)
    with pytest.raises(OSError, match="no route"):
        async with run:
            await run.finish()
    assert (run.outcome, run.messages) == ("error", ASKED)
    assert [turn.error.kind for turn in run.turns if turn.error] == ["request_failed"]


@pytest.mark.parametrize("at", range(12))
async def test_it_may_be_left_at_any_event(at: int) -> None:
    model = Model(calling(2), calling(4), ANSWER)
    seen = 0
    async with agent_loop(model, ASKED, tools=[double], wire=CHAT) as run:
        async for _ in run:
            seen += 1
            if seen > at:
                break
    assert run.outcome == "left"
    assert lint(run.messages, CHAT, last=True) == []
    for turn in run.turns:
        assert [o.call_id for o in turn.observations] == [call.call_id for call in turn.calls]


async def test_leaving_while_a_tool_runs_cancels_it_and_the_history_says_so() -> None:
    @tool(effect="pure")
    async def wait(n: int) -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return "never"

    def ask(messages: list[Any], tools: list[Any]) -> Any:
        return hanging(chat(calls=[("c1", "wait", '{"n": 1}')])[:-2] + chat(calls=[("c1", "wait", '{"n": 1}')])[-2:])

    with anyio.fail_after(30):
        async with agent_loop(ask, ASKED, tools=[wait], wire=CHAT) as run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    assert lint(run.messages, CHAT, last=True) == []  # also in the middle
                    break
    assert run.turns[0].observations[0].outcome == "cancelled"
    assert lint(run.messages, CHAT, last=True) == []


async def test_a_cancellation_from_outside_leaves_a_history_that_can_be_sent() -> None:
    run = agent_loop(Model(calling(2), calling(4), ANSWER), ASKED, tools=[double], wire=CHAT)
    with anyio.CancelScope() as scope:
        async with run:
            async for event in run:
                if isinstance(event, Observation) and event.step == 1:
                    scope.cancel()
    assert scope.cancelled_caught
    assert run.outcome == "left"
    assert lint(run.messages, CHAT, last=True) == []


async def test_a_cancellation_while_the_request_is_made_is_no_error_of_the_run() -> None:
    async def waits(messages: list[Any], tools: list[Any]) -> Any:
        await anyio.sleep_forever()

    run = agent_loop(waits, ASKED, wire=CHAT)
    with anyio.move_on_after(0) as scope:
        async with run:
            await run.finish()
    assert scope.cancelled_caught
    assert (run.outcome, run.messages) == ("left", ASKED)


async def test_a_condition_that_fails_ends_the_run_and_no_model_is_asked_again() -> None:
    def fails(turn: Turn) -> bool:
        raise KeyError("mine")

    model = Model(calling(2), ANSWER)
    run = agent_loop(model, ASKED, tools=[double], wire=CHAT, stop=fails)
    async with run:
        with pytest.raises(KeyError, match="mine"):
            await run.finish()
        assert [event async for event in run] == []
    assert (run.outcome, len(model.asked)) == ("error", 1)
    assert lint(run.messages, CHAT) == []


async def test_an_error_of_the_body_leaves_the_block_unwrapped() -> None:
    with pytest.raises(KeyError):
        async with agent_loop(Model(calling(2), ANSWER), ASKED, tools=[double], wire=CHAT) as run:
            async for _ in run:
                raise KeyError("mine")
    assert run.outcome == "left"


async def test_a_run_of_ones_own_brings_its_observers_and_its_id() -> None:
    mine = Trajectory(run_id="mine", observers=())
    async with agent_loop(Model(ANSWER), ASKED, wire=CHAT, trajectory=mine) as run:
        events = [event async for event in run]
    assert isinstance(events[0], StepStart)
    assert (events[0].run_id, run.trajectory) == ("mine", mine)


async def test_misuse_says_what_to_write() -> None:
    run = agent_loop(Model(ANSWER), ASKED, wire=CHAT)
    with pytest.raises(TypeError, match="async with agent_loop"):
        await anext(run)
    async with run:
        await run.finish()
    with pytest.raises(LocalProtocolError, match="entered once"):
        async with run:
            raise AssertionError("it is not entered")
    with pytest.raises(TypeError, match="no option 'temperature'"):
        agent_loop(Model(ANSWER), ASKED, wire=CHAT, temperature=1)
    with pytest.raises(TypeError, match="not str"):
        agent_loop("gpt", ASKED, wire=CHAT)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="unknown wire"):
        agent_loop(Model(ANSWER), ASKED, tools=[double], wire="morse")
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="max_steps"):
            agent_loop(Model(ANSWER), ASKED, wire=CHAT, max_steps=wrong)  # type: ignore[arg-type]
