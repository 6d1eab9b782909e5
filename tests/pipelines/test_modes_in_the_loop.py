"""A run in a mode: requests, history and results are in words that a model without tool calling can read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every, mostly_thorough
from pydantic import BaseModel
from ran import ran
from streams import chat, stream

from streamtools import ApprovalRequested, Decision, Deny, Observation, Suspended, TextDelta, tool
from streamtools.dispatch import MemoryStore
from streamtools.events import ReasoningDelta
from streamtools.front import agent_loop
from streamtools.front.run_face import AgentLoop
from streamtools.history import lint
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    StreamingAdapter,
    ValidatedAdapter,
)

pytestmark = pytest.mark.anyio

CHAT = "openai.chat_completions"
KEY = "a key that is long enough"
ASKED = [{"role": "user", "content": "Twice 2?"}]


@tool(effect="pure")
async def double(n: int, times: int = 1) -> int:
    """Twice n."""
    return 2 * n * times


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay."""
    ran.append(to)
    return f"paid {to}"


def said(text: str) -> list[bytes]:
    return chat([text[at : at + 5] for at in range(0, len(text), 5)], finish="stop")


def payload(**members: Any) -> str:
    return json.dumps(members, separators=(",", ":"))


class Model:
    """Answers with one text after the other, and remembers the requests as they were sent."""

    def __init__(self, *texts: str, wrapped: bool = False) -> None:
        self.texts = [f'{{"response":{text}}}' if wrapped else text for text in texts]
        self.asked: list[list[Any]] = []
        self.fields: list[dict[str, Any]] = []

    async def __call__(self, messages: list[Any], fields: dict[str, Any]) -> AsyncIterator[Any]:
        await anyio.lowlevel.checkpoint()
        self.asked.append(json.loads(json.dumps(messages)))
        self.fields.append(fields)
        return stream(self.respond(self.texts[len(self.asked) - 1]))

    def respond(self, text: str) -> list[bytes]:
        return said(text)


CALL = payload(tool="double", arguments={"n": 2})
ANSWER = payload(answer="It is 4.")
THOUGHT = payload(scratchpad="Twice is n plus n.")

TEXT_MODES: list[StreamingAdapter] = [
    OpenAIStructuredAdapter(),
    OpenAIStructuredAdapter(wrapped=False),
    JSONObjectAdapter(),
    ValidatedAdapter(),
    ParsedAdapter(),
]


def run_of(model: Any, mode: StreamingAdapter, messages: list[Any] = ASKED, **options: Any) -> AgentLoop:
    return agent_loop(model, messages, tools=options.pop("tools", [double, pay]), wire=CHAT, mode=mode, **options)


# -- requests and history ----------------------------------------------------------------------------------------


@every("mode", mostly_thorough(TEXT_MODES, 1))
async def test_a_text_model_reads_its_own_words_only(mode: StreamingAdapter) -> None:
    wrapped = "wrapped=True" in repr(mode)
    model = Model(CALL, ANSWER, wrapped=wrapped)
    async with run_of(model, mode) as run:
        events = [event async for event in run]
    assert (run.outcome, run.turn and run.turn.text) == ("answered", "It is 4.")
    assert [event.value for event in events if isinstance(event, Observation)] == [4]
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1, "the answer streams"
    history = [
        *ASKED,
        {"role": "assistant", "content": model.texts[0]},
        {"role": "user", "content": "Observation: 4"},
        {"role": "assistant", "content": model.texts[1]},
    ]
    assert run.messages == history
    assert model.asked[1][-3:] == history[:3]
    assert lint(run.messages, CHAT) == []


# -- thoughts ----------------------------------------------------------------------------------------------------


@every("mode", mostly_thorough(TEXT_MODES, 1))
async def test_a_thought_alone_is_shown_to_the_model_which_goes_on(mode: StreamingAdapter) -> None:
    model = Model(THOUGHT, CALL, ANSWER, wrapped="wrapped=True" in repr(mode))
    async with run_of(model, mode) as run:
        thoughts = [event.text async for event in run if isinstance(event, ReasoningDelta)]
    assert (run.outcome, len(model.asked)) == ("answered", 3)
    assert "".join(thoughts) == "Twice is n plus n."
    assert model.asked[1][-2:] == [
        {"role": "assistant", "content": model.texts[0]},
        {"role": "user", "content": "Go on: call a tool, or give the answer."},
    ]
    assert lint(run.messages, CHAT) == []


class Cut(Model):
    """A model whose first answer is cut by its length."""

    def respond(self, text: str) -> list[bytes]:
        return chat([text], finish="length") if len(self.asked) == 1 else said(text)


@every("mode", mostly_thorough(TEXT_MODES[1:], 1))
async def test_a_thought_that_was_cut_is_no_answer(mode: StreamingAdapter) -> None:
    model = Cut(THOUGHT[:-5], ANSWER)
    run = run_of(model, mode)
    assert (await run).text == "It is 4."
    assert [message["role"] for message in run.messages] == ["user", "assistant", "user", "assistant"]
    assert run.messages[1]["content"] == THOUGHT[:-5]


# -- calls that fail, and more of them ----------------------------------------------------------------------------


@tool(output_schema={"type": "string"}, effect="pure")
async def lie() -> Any:
    """Say nothing of what was promised."""
    return 5


async def test_failures_are_told_in_words_and_the_model_may_correct_itself() -> None:
    texts = [
        payload(tool="double", arguments={"n": "two"}),
        payload(tool="lie", arguments={}),
        payload(tool="nothing_of_the_kind", arguments={}),
        CALL,
        ANSWER,
    ]
    run = run_of(Model(*texts), ValidatedAdapter(), tools=[double, lie])
    await run
    assert [turn.observations[0].outcome for turn in run.turns[:-1]] == ["invalid", "failed", "unknown_tool", "ok"]
    told = [message["content"] for message in run.messages if message["content"].startswith("Observation: ")]
    assert [text.startswith("Observation: Error: ") for text in told] == [True, True, True, False]
    assert "two" not in told[0]


class Number(BaseModel):
    n: int


@every("answer", [payload(answer='{"n": 4}'), payload(answer={"n": 4})])
async def test_the_answer_is_read_as_a_type(answer: str) -> None:
    run = run_of(Model(CALL, answer), ValidatedAdapter(), output=Number)
    assert (await run).output == Number(n=4)


# -- approvals and stores ------------------------------------------------------------------------------------------

PAY = payload(tool="pay", arguments={"to": "x"})


async def test_a_call_waits_for_its_approval_and_the_run_goes_on() -> None:
    model = Model(PAY, ANSWER)
    with anyio.fail_after(30):
        async with run_of(model, ValidatedAdapter()) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    assert ran == []
                    run.approve(event)
    assert (run.outcome, ran) == ("answered", ["x"])
    assert run.messages[2] == {"role": "user", "content": "Observation: paid x"}


def after_the_block(run: AgentLoop, during: list[Any]) -> list[Any]:
    return run.messages


def within_the_block(run: AgentLoop, during: list[Any]) -> list[Any]:
    return during


@every("kept_messages", [after_the_block, within_the_block])
@every("decision", [True, Deny("not them")])
async def test_a_run_left_while_its_call_waits_goes_on_in_another_process(
    decision: Any, kept_messages: Callable[[AgentLoop, list[Any]], list[Any]]
) -> None:
    ran.clear()
    with anyio.fail_after(30):
        async with run_of(Model(PAY), OpenAIStructuredAdapter()) as run:
            await run.finish()
            during = run.messages
        assert (run.outcome, ran) == ("suspended", [])
        saved = json.dumps(kept_messages(run, during)), run.suspended.to_text(KEY)

        suspended = Suspended.from_text(saved[1], KEY)
        (call,) = suspended.calls
        model = Model(ANSWER, wrapped=True)
        options = {"suspended": suspended, "decisions": [Decision.on(call, decision)], "store": MemoryStore()}
        later = run_of(model, OpenAIStructuredAdapter(), json.loads(saved[0]), **options)
        await later
    told = "paid x" if decision is True else "Error: not run: the call was not approved: not them"
    assert later.outcome == "answered"
    assert model.asked[0][-1] == {"role": "user", "content": f"Observation: {told}"}
    assert ran == (["x"] if decision is True else [])
    assert [message["role"] for message in later.messages] == ["user", "assistant", "user", "assistant"]


async def test_suspended_calls_that_the_history_does_not_say_are_refused_before_anything_runs() -> None:
    run = run_of(Model(PAY), ValidatedAdapter())
    await run
    assert run.suspended is not None
    given: dict[str, Any] = {"suspended": run.suspended, "store": MemoryStore()}
    given["decisions"] = [Decision.on(call, True) for call in run.suspended.calls]
    twice = f"{run.messages[-1]['content']}\n{run.messages[-1]['content']}"
    for messages in (ASKED, [*ASKED, {"role": "user", "content": twice}]):
        with pytest.raises(ValueError, match="expected 1 calls that wait for a result, got"):
            run_of(Model(), ValidatedAdapter(), messages, **given)
    assert ran == []


# -- mistakes ------------------------------------------------------------------------------------------------------


class OnlyWhole:
    """An adapter that reads no streams."""

    def format_request(self, tools: Any, messages: Any) -> dict[str, Any]:
        return {}

    def extract_tool_call(self, response: Any) -> Any:
        raise AssertionError("it is not asked about streams")

    def validate_tool_call(self, payload: Any, tools_by_name: Any) -> Any:
        raise AssertionError("it is not asked about streams")


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"mode": "structured"},
        TypeError,
        r"mode must be an adapter of streamtools.modes, such as get_adapter\(.*not str",
    ),
    ({"mode": OnlyWhole()}, TypeError, r"such as ValidatedAdapter\(yours\), not OnlyWhole"),
    ({"mode": ValidatedAdapter(), "strict": True}, TypeError, "set it on the adapter"),
    (
        {"mode": NativeToolAdapter("anthropic.messages")},
        ValueError,
        r"is for another wire than wire='openai.chat_completions'; pass NativeToolAdapter\('openai",
    ),
    ({"mode": ValidatedAdapter(NativeToolAdapter("anthropic.messages"))}, ValueError, "another wire"),
]


@every(("options", "error", "says"), WRONG)
def test_a_mistake_is_told_before_the_model_is_asked(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        agent_loop(Model(), ASKED, tools=[double], wire=CHAT, **options)
