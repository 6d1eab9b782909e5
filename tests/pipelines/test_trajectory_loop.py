"""A run of many steps: asked until it answers, bounded, stoppable anywhere, always with a history that can be sent."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from typing import Any

import pytest
from every_wire import framed, said
from profiles import every
from streams import Model, anthropic, chat, exhaust, stream

from streamtools import Observation, TextDelta, tool
from streamtools.dispatch import MemoryStore
from streamtools.errors import ExportError, LocalProtocolError, StreamError
from streamtools.events import StepStart
from streamtools.front import agent_loop
from streamtools.history import lint

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
    assert [len(messages) for messages in model.asked] == [1, 3, 5]
    assert model.tools[0]["function"]["name"] == "double"
    assert lint(run.messages, CHAT) == []
    assert run.messages[-1] == {"role": "assistant", "content": "It is 8."}
    assert ASKED == [{"role": "user", "content": "Twice 2, and twice of that?"}]


async def test_a_condition_of_ones_own_ends_it_before_the_model_is_asked_again() -> None:
    model = Model(calling(2), calling(4), ANSWER)
    async with agent_loop(
        model, ASKED, tools=[double], wire=CHAT, stop=lambda turn: turn.observations[0].value == 8
    ) as run:
        await run.finish()
    assert (run.outcome, len(model.asked)) == ("stopped", 2)
    assert run.messages[-1]["content"] == "8"


async def test_a_run_that_is_cut_anywhere_leaves_a_history_that_the_newest_models_take() -> None:
    calls = [("a", "double", '{"n": 2}'), ("b", "send", '{"text": "hi"}')]
    bodies = {
        CHAT: ("anthropic/claude-sonnet-4.6", chat(["I", " see."], calls), chat(["It", " is 4"], finish="stop")),
        "anthropic.messages": ("claude-opus-5", anthropic(["I see."], calls), anthropic(["It is 4"], stop="end_turn")),
    }
    for wire, (model, first, second) in bodies.items():
        for cut, start in zip(range(len(first) + len(second)), itertools.cycle(("auto", "early", "turn_end"))):
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
    with pytest.raises(TypeError, match="got str"):
        agent_loop("gpt", ASKED, wire=CHAT)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="unknown wire"):
        agent_loop(Model(ANSWER), ASKED, tools=[double], wire="morse")
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="max_steps"):
            agent_loop(Model(ANSWER), ASKED, wire=CHAT, max_steps=wrong)  # type: ignore[arg-type]


@pytest.mark.asyncio_only  # trio's own work differs from step to step
@every("wire, options", [(CHAT, {}), (CHAT, {"journal": True}), ("mistral.chat", {}), ("bedrock.converse_stream", {})])
async def test_a_late_step_does_as_much_as_an_early_one(wire: str, options: dict[str, Any]) -> None:
    """Counted in calls of functions, while something was said at the beginning."""
    steps, made, asked = 44, 0, list[int]()
    bodies = [framed(wire, said(wire, calls=[(f"c{n:08}", "double", f'{{"n": {n}}}')])) for n in range(steps)]

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event == "call"

    async def ask(messages: list[Any], tools: Any) -> Any:
        asked.append(made)
        return stream(bodies[len(asked) - 1])

    if "journal" in options:
        options = {"journal": MemoryStore(), "run_id": "long"}
    given = [{"role": "user", "content": "Hi" if wire != "bedrock.converse_stream" else [{"text": "Hi"}]}]
    async with agent_loop(ask, given, tools=[double], wire=wire, max_steps=steps, **options) as run:
        run.say("And?")
        sys.setprofile(count)
        try:
            await exhaust(run)
        finally:
            sys.setprofile(None)
    early, late = (sorted(b - a for a, b in zip(asked[at:], asked[at + 1 : at + 8]))[3] for at in (4, 36))
    assert len(asked) == steps
    assert late <= early * 1.02 + 5, (early, late)
