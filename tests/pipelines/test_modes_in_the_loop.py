"""A run in a mode: requests, history and results are in words that a model without tool calling can read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from decisions import decisions_on
from profiles import mostly_thorough
from pydantic import BaseModel
from streams import anthropic, chat, stream

from streamtools import ApprovalRequested, Decision, Deny, Limits, Observation, Suspended, TextDelta, Trajectory, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.events import ReasoningDelta
from streamtools.exports import export_all
from streamtools.history import lint
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    StreamingAdapter,
    ValidatedAdapter,
    read_results,
)
from streamtools.pipelines.agent_loop import AgentLoop, agent_loop
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio

CHAT = "openai.chat_completions"
KEY = "a key that is long enough"
ASKED = [{"role": "user", "content": "Twice 2?"}]

ran: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


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


@pytest.mark.parametrize("mode", mostly_thorough(TEXT_MODES, 1), ids=repr)
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


FIELDS: list[tuple[StreamingAdapter, set[str]]] = [
    (OpenAIStructuredAdapter(), {"response_format"}),
    (JSONObjectAdapter(), {"response_format"}),
    (ValidatedAdapter(), set()),
    (NativeToolAdapter(), {"tools"}),
]


@pytest.mark.parametrize(("mode", "fields"), mostly_thorough(FIELDS, 2))
async def test_the_request_gets_the_fields_of_the_mode(mode: StreamingAdapter, fields: set[str]) -> None:
    model = Model(ANSWER)
    await run_of(model, mode)
    assert model.fields[0].keys() == fields


async def test_a_prompt_of_the_mode_is_in_each_request_and_not_in_the_history() -> None:
    model = Model(CALL, ANSWER)
    run = run_of(model, JSONObjectAdapter())
    await run
    for messages in model.asked:
        assert [message["role"] for message in messages].count("system") == 1
        assert "- double: Twice n." in messages[0]["content"]
    assert run.messages[0] == ASKED[0]


class NativeModel(Model):
    def respond(self, text: str) -> list[bytes]:
        return said(text) if text.startswith("It") else chat(calls=[("c1", "double", text), ("c2", "double", text)])


async def test_in_native_mode_a_run_is_that_without_a_mode() -> None:
    models = [NativeModel('{"n": 2}', "It is 4."), NativeModel('{"n": 2}', "It is 4.")]
    run = run_of(models[0], NativeToolAdapter())
    await run
    plain = agent_loop(models[1], ASKED, tools=[double, pay], wire=CHAT)
    await plain
    assert run.messages == plain.messages
    assert [len(turn.observations) for turn in run.turns] == [2, 0]
    assert models[0].fields[0]["tools"] == models[1].fields[0]


async def test_a_mode_writes_in_the_shape_of_another_wire_as_well() -> None:
    bodies = [anthropic([CALL], stop="end_turn"), anthropic([ANSWER], stop="end_turn")]

    def ask(messages: list[Any], fields: dict[str, Any]) -> Any:
        return stream(bodies.pop(0))

    run = agent_loop(ask, ASKED, tools=[double], wire="anthropic.messages", mode=ValidatedAdapter())
    await run
    assert [message["role"] for message in run.messages] == ["user", "assistant", "user", "assistant"]
    assert lint(run.messages, "anthropic.messages") == []
    assert '"tool_use"' not in json.dumps(run.messages)


async def test_strict_arguments_are_read_as_the_schema_made_the_model_write_them() -> None:
    model = Model(payload(tool="double", arguments={"n": 2, "times": None}), ANSWER, wrapped=True)
    for tools in ([double], export_all([double], CHAT, strict=True)):
        model.asked.clear()
        run = run_of(model, OpenAIStructuredAdapter(), tools=tools)
        await run
        assert run.turns[0].observations[0].value == 4


# -- thoughts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", mostly_thorough(TEXT_MODES, 1), ids=repr)
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


@pytest.mark.parametrize("mode", mostly_thorough(TEXT_MODES[1:], 1), ids=repr)
async def test_a_thought_that_was_cut_is_no_answer(mode: StreamingAdapter) -> None:
    model = Cut(THOUGHT[:-5], ANSWER)
    run = run_of(model, mode)
    assert (await run).text == "It is 4."
    assert [message["role"] for message in run.messages] == ["user", "assistant", "user", "assistant"]
    assert run.messages[1]["content"] == THOUGHT[:-5]


async def test_without_a_text_mode_a_cut_thought_ends_the_run_as_ever() -> None:
    def ask(messages: list[Any], fields: Any) -> Any:
        delta = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}, "finish_reason": "length"}]}
        return stream([b"data: " + json.dumps(delta).encode() + b"\n\n", b"data: [DONE]\n\n"])

    for mode in (None, NativeToolAdapter()):
        run = agent_loop(ask, ASKED, tools=[double], wire=CHAT, mode=mode)
        await run
        assert (run.outcome, run.turns[0].reasoning, len(run.turns)) == ("answered", "Hm", 1)


async def test_a_model_that_only_thinks_is_stopped_by_the_bound_and_the_outcome_says_so() -> None:
    model = Model(*[THOUGHT] * 9)
    run = run_of(model, ValidatedAdapter(), max_steps=3)
    await run
    assert (run.outcome, len(model.asked)) == ("max_steps", 3)


async def test_a_stop_of_ones_own_sees_thoughts() -> None:
    model = Model(*[THOUGHT] * 9)
    run = run_of(model, ValidatedAdapter(), stop=lambda turn: not turn.calls and len(model.asked) == 2)
    await run
    assert (run.outcome, len(model.asked)) == ("stopped", 2)


@pytest.mark.parametrize("text", ["Just prose.", payload(scratchpad="Easy.", answer="4"), '{"city": "Oslo"}'])
async def test_any_other_text_is_an_answer(text: str) -> None:
    model = Model(text)
    run = run_of(model, ValidatedAdapter())
    await run
    assert (run.outcome, len(model.asked)) == ("answered", 1)


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


async def test_a_model_that_cannot_correct_itself_is_told_to_stop() -> None:
    bad = payload(tool="double", arguments={"n": "two"})
    run = run_of(Model(bad, bad, ANSWER), ValidatedAdapter(), limits=Limits(max_model_retries=1))
    await run
    told = [turn.observations[0].model_content for turn in run.turns[:-1]]
    assert told[0] != told[1]
    assert "again" in told[1]


async def test_of_several_payloads_in_one_answer_the_first_runs_and_the_rest_stays_what_was_said() -> None:
    run = run_of(Model(f"{CALL}\nObservation: 5\n{CALL}", ANSWER), ValidatedAdapter())
    await run
    assert [turn.observations[0].value for turn in run.turns[:-1]] == [4]
    assert run.messages[1]["content"].count('"tool"') == 2
    assert run.messages[2] == {"role": "user", "content": "Observation: 4"}


PIXEL = Media(kind="image", mime_type="image/png", data="AA==")


@tool(effect="pure")
async def look() -> ToolResult:
    """Look."""
    return ToolResult(blocks=(Text("Look:"), PIXEL))


async def test_a_picture_stands_behind_the_words() -> None:
    run = run_of(Model(payload(tool="look", arguments={}), ANSWER), ValidatedAdapter(), tools=[look])
    await run
    words, picture = run.messages[2]["content"]
    assert words == {"type": "text", "text": "Observation: Look:\n> [image: image/png]"}
    assert picture["image_url"]["url"].endswith("AA==")


async def test_middleware_and_checks_are_those_of_any_run() -> None:
    seen = []

    async def noted(call: Any, run: Any) -> Any:
        seen.append(call.arguments)
        return await run()

    run = run_of(Model(CALL, ANSWER), OpenAIStructuredAdapter(wrapped=False), middleware=[noted])
    await run
    assert (run.outcome, len(seen)) == ("answered", 1)


async def test_a_call_that_was_cut_is_said_to_be_cut() -> None:
    run = run_of(Cut('{"tool": "double", "arguments": {"n": 2', ANSWER), ValidatedAdapter())
    await run
    assert run.turns[0].observations[0].outcome == "truncated"
    assert run.outcome == "answered"
    assert "cut" in run.messages[2]["content"]


class Number(BaseModel):
    n: int


@pytest.mark.parametrize("answer", [payload(answer='{"n": 4}'), payload(answer={"n": 4})])
async def test_the_answer_is_read_as_a_type(answer: str) -> None:
    run = run_of(Model(CALL, answer), ValidatedAdapter(), output=Number)
    assert (await run).output == Number(n=4)


async def test_other_stages_take_the_place_of_the_modes() -> None:
    run = run_of(Model(CALL), ValidatedAdapter(), stages=DEFAULT)
    assert (await run).text == CALL
    assert run.outcome == "answered"


# -- approvals and stores ------------------------------------------------------------------------------------------

PAY = payload(tool="pay", arguments={"to": "x"})
NATIVE_PAY = [("a", "pay", '{"to": "x"}'), ("l", "double", '{"n": 2}'), ("b", "pay", '{"to": "y"}')]


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


@pytest.mark.parametrize("kept_messages", [after_the_block, within_the_block])
@pytest.mark.parametrize("decision", [True, Deny("not them")])
async def test_a_run_left_while_its_call_waits_goes_on_in_another_process(
    decision: Any, kept_messages: Callable[[AgentLoop, list[Any]], list[Any]]
) -> None:
    with anyio.fail_after(30):
        async with run_of(Model(PAY), OpenAIStructuredAdapter()) as run:
            await run.finish()
            during = run.messages
        assert (run.outcome, ran) == ("suspended", [])
        assert run.suspended is not None
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


async def test_what_is_not_decided_stays_suspended_and_can_be_decided_later() -> None:
    with anyio.fail_after(30):
        run = run_of(Model(PAY), ValidatedAdapter())
        await run
        store = MemoryStore()
        again = run_of(Model(), ValidatedAdapter(), run.messages, suspended=run.suspended, store=store)
        await again
        assert (again.outcome, ran) == ("suspended", [])
        assert again.messages == run.messages
        model = Model(ANSWER)
        async with run_of(model, ValidatedAdapter(), again.messages, suspended=again.suspended, store=store) as third:
            async for event in third:
                if isinstance(event, ApprovalRequested):
                    third.approve(event)
    assert (third.outcome, ran) == ("answered", ["x"])


class NativePays(Model):
    def respond(self, text: str) -> list[bytes]:
        return chat(calls=NATIVE_PAY) if text == "pay" else said(text)


@pytest.mark.parametrize("mode", [NativeToolAdapter(), ValidatedAdapter()], ids=repr)
async def test_results_of_several_calls_find_their_places(mode: StreamingAdapter) -> None:
    """A server may read the calls of a text model by itself."""
    with anyio.fail_after(30):
        run = run_of(NativePays("pay"), mode)
        await run
        decisions = decisions_on(run.suspended, {"a": True, "b": Deny("no")})
        model = Model(ANSWER)
        later = run_of(model, mode, run.messages, suspended=run.suspended, decisions=decisions, store=MemoryStore())
        await later
    told = "\n".join(message["content"] for message in model.asked[0][2:])
    lines = [line.removeprefix("Observation: ") for line in told.splitlines()]
    assert lines == ["paid x", "4", "Error: not run: the call was not approved: no"]


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


async def test_a_result_that_quotes_the_words_for_waiting_moves_no_other_result() -> None:
    for quoted in ("{}", "Fine.\nObservation: {}"):

        @tool(effect="pure", name="double")
        async def quoting(n: int, quoted: str = quoted) -> str:
            """Say what is said of calls that wait."""
            return quoted.format("Error: the call was not run: it waits for an approval")

        ran.clear()
        run = run_of(NativePays("pay"), ValidatedAdapter(), tools=[quoting, pay])
        await run
        options: dict[str, Any] = {"suspended": run.suspended, "store": MemoryStore()}
        options["decisions"] = decisions_on(run.suspended, {"a": True, "b": True})
        model = Model(ANSWER)
        await run_of(model, ValidatedAdapter(), run.messages, tools=[quoting, pay], **options)
        results = read_results(model.asked[0][-1]["content"])
        assert results == ["paid x", await quoting.fn(2), "paid y"]
        assert sorted(ran) == ["x", "y"]


@pytest.mark.parametrize("at", mostly_thorough([9, *range(20)], 1))
async def test_a_run_in_a_mode_may_be_left_at_any_event(at: int) -> None:
    seen = 0
    async with run_of(Model(THOUGHT, CALL, ANSWER), ValidatedAdapter()) as run:
        async for _ in run:
            seen += 1
            if seen > at:
                break
    assert run.outcome == "left"
    assert lint(run.messages, CHAT, last=True) == []
    assert {message["role"] for message in run.messages} <= {"user", "assistant"}


async def test_a_run_that_is_repeated_runs_no_call_twice() -> None:
    store = MemoryStore()

    @tool
    async def order(item: str) -> str:
        """Order."""
        ran.append(item)
        return f"ordered {item}"

    for _ in range(2):
        model = Model(payload(tool="order", arguments={"item": "tea"}), ANSWER)
        mine = Trajectory(run_id="r", observers=())
        run = run_of(model, ValidatedAdapter(), tools=[order], store=store, trajectory=mine)
        await run
        assert model.asked[1][-1]["content"] == "Observation: ordered tea"
    assert ran == ["tea"]


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
    ({"mode": "structured"}, TypeError, r"mode is an adapter of streamtools.modes, say get_adapter\(.*not str"),
    ({"mode": OnlyWhole()}, TypeError, r"say ValidatedAdapter\(yours\), not OnlyWhole"),
    ({"mode": ValidatedAdapter(), "strict": True}, TypeError, "it is an option of the adapter"),
    (
        {"mode": NativeToolAdapter("anthropic.messages")},
        ValueError,
        r"writes for another wire than wire='openai.chat_completions'; pass NativeToolAdapter\('openai",
    ),
    ({"mode": ValidatedAdapter(NativeToolAdapter("anthropic.messages"))}, ValueError, "another wire"),
]


@pytest.mark.parametrize(("options", "error", "says"), WRONG)
def test_a_mistake_is_told_before_the_model_is_asked(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        agent_loop(Model(), ASKED, tools=[double], wire=CHAT, **options)


async def test_an_adapter_of_ones_own_serves_inside_a_validating_one() -> None:
    run = run_of(Model(THOUGHT, CALL, ANSWER), ValidatedAdapter(OnlyWhole()))
    await run
    assert (run.outcome, run.turns[1].observations[0].value) == ("answered", 4)
