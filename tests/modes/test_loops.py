"""Whole conversations: a scripted model, in every mode, streamed and not."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from alone import run_alone
from streams import anthropic, chat

from streamtools import Event, Observation, StreamEnd, ToolContext, pipeline, tool
from streamtools.events import ToolCallStart
from streamtools.exports import export
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    Payload,
    StreamingAdapter,
    ValidatedAdapter,
    get_adapter,
)
from streamtools.testing import ScriptedSource

Body = list[bytes]


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast for a city.

    Args:
        city: City name.
        days: How many days ahead.
    """
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return {"city": city, "days": days}


ran: list[Any] = []


@tool
def delete(path: str) -> str:
    """Delete a file."""
    ran.append(path)
    return "gone"


def content(text: str, *, step: int = 4, finish: str | None = "stop") -> Body:
    return chat([text[at : at + step] for at in range(0, len(text), step)], finish=finish)


def payload(**members: Any) -> Body:
    return content(json.dumps(members))


async def run_turn(
    body: Body, adapter: StreamingAdapter, tools: Sequence[Any] = (get_weather, delete)
) -> tuple[list[Event], Any]:
    with anyio.fail_after(30):
        async with pipeline(ScriptedSource(body), tools=tools, stages=adapter.stages()) as events:
            return [event async for event in events], events.turn


# -- one tool, five models ---------------------------------------------------------------------------------------

FIVE: dict[str, tuple[StreamingAdapter, Callable[[str], Body]]] = {
    "GPT-4, native": (get_adapter("gpt-4"), lambda arguments: chat(calls=[("call_abc", "get_weather", arguments)])),
    "Claude, native": (
        get_adapter("claude-3-5-sonnet"),
        lambda arguments: anthropic(["Let me look."], [("toolu_1", "get_weather", arguments)]),
    ),
    "Llama 2, JSON in prose": (
        get_adapter("llama-2-13b"),
        lambda arguments: content(f'Sure!\n\n{{"tool": "get_weather", "arguments": {arguments}}}\n\nHope it helps!'),
    ),
    "Mistral, held to a schema": (
        get_adapter("mistral-large", "structured"),
        lambda arguments: content(f'{{"response":{{"tool":"get_weather","arguments":{arguments}}}}}'),
    ),
    "a local model, ReAct": (
        get_adapter("local-model"),
        lambda arguments: content(
            "Thought: I have to look up the weather.\nAction:\n```json\n"
            f'{{"scratchpad": "Paris", "tool": "get_weather", "arguments": {arguments}}}\n```\n'
        ),
    ),
}


def record(observation: Observation) -> dict[str, Any]:
    """A call's record but for what is of the one run: identity, position and time."""
    names = (
        *("tool_name", "outcome", "value", "model_content", "schema_source", "schema_present", "validated"),
        *("validator", "boundary", "coercions", "validation_error", "validated_args", "observation_type", "attempts"),
    )
    return {name: getattr(observation, name) for name in names} | {"error": str(observation.error)}


ARGUMENTS = {
    "ok": '{"city": "Paris", "days": 2}',
    "failed": '{"city": "Atlantis", "days": 2}',
    "invalid": '{"city": "Paris", "days": "soon"}',
}


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", ARGUMENTS)
async def test_five_models_that_call_one_tool_give_one_record(outcome: str) -> None:
    records = {}
    for name, (adapter, body) in FIVE.items():
        events, _ = await run_turn(body(ARGUMENTS[outcome]), adapter)
        (observation,) = [event for event in events if isinstance(event, Observation)]
        records[name] = record(observation)
    first = records["GPT-4, native"]
    assert first["outcome"] == outcome
    assert records == dict.fromkeys(FIVE, first)


# -- a loop over streams ----------------------------------------------------------------------------------------


async def react(adapter: StreamingAdapter, script: Sequence[Body], *, max_steps: int = 4) -> list[dict[str, Any]]:
    """Ask until there is an answer, as an agent does; returns the history."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
    for body in script[:max_steps]:
        adapter.format_request([get_weather, delete], messages)
        _, turn = await run_turn(body, adapter)
        messages += adapter.messages(turn)
        if not turn.calls:
            break
    return messages


@pytest.mark.anyio
@pytest.mark.parametrize(
    "adapter",
    [OpenAIStructuredAdapter(), JSONObjectAdapter(), ValidatedAdapter(), ParsedAdapter()],
    ids=lambda adapter: type(adapter).__name__,
)
async def test_a_loop_goes_on_until_the_answer(adapter: StreamingAdapter) -> None:
    script = [
        payload(scratchpad="Look.", tool="get_weather", arguments={"city": "Paris", "days": 2}),
        payload(tool="get_weather", arguments={"city": "Atlantis", "days": 1}),
        payload(tool="unheard_of", arguments={}),
        payload(answer="Sunny."),
    ]
    messages = await react(adapter, script)
    assert [message["role"] for message in messages] == ["user", *(["assistant", "user"] * 3), "assistant"]
    assert messages[2]["content"] == 'Observation: {"city":"Paris","days":2}'
    assert messages[4]["content"].startswith("Observation: Error: the tool ")
    assert messages[4]["content"].endswith("raised LookupError")
    assert messages[6]["content"].startswith("Observation: Error: unknown tool 'unheard_of'; available tools: ")
    asked_to_wrap = isinstance(adapter, OpenAIStructuredAdapter)
    answer = {"answer": "Sunny."}
    assert json.loads(messages[-1]["content"]) == ({"response": answer} if asked_to_wrap else answer)


@pytest.mark.anyio
async def test_a_native_loop_writes_native_messages() -> None:
    script = [chat(calls=[("c1", "get_weather", '{"city": "Paris"}')]), chat(["Sunny."], finish="stop")]
    messages = await react(NativeToolAdapter(), script)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": '{"city":"Paris","days":1}'}


@pytest.mark.anyio
async def test_a_loop_ends_after_its_last_step_without_an_answer() -> None:
    again = payload(tool="get_weather", arguments={"city": "Paris"})
    messages = await react(ValidatedAdapter(), [again] * 9, max_steps=2)
    assert [message["role"] for message in messages] == ["user", *(["assistant", "user"] * 2)]


# -- what must not run ------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("finish", ["length", None])
async def test_a_response_that_was_cut_dispatches_nothing(finish: str | None) -> None:
    ran.clear()
    written = '{"tool": "delete", "arguments": {"path": "/tmp"}, "scratchpad": "done"}'
    for end in range(len(written) - 24, len(written) + 1, 3):
        source = ScriptedSource(content(written[:end], finish=finish))
        async with pipeline(source, tools=[delete], stages=ValidatedAdapter().stages()) as events:
            if finish is None:
                with pytest.raises(Exception, match="ended before"):
                    _ = [event async for event in events]
            else:
                _ = [event async for event in events]
        assert [found.outcome for found in events.turn.observations] in (["truncated"], ["skipped"])
    assert ran == []


@pytest.mark.anyio
async def test_every_announced_call_has_one_observation() -> None:
    for written in (
        '{"tool": "delete", "arguments": {"path": 5}}',
        '{"tool": "delete", "arguments": {"pa',
        '{"tool": "x"}',
    ):
        events, _ = await run_turn(content(written), ValidatedAdapter())
        announced = [event.call_id for event in events if isinstance(event, ToolCallStart)]
        assert [event.call_id for event in events if isinstance(event, Observation)] == announced
        assert len(announced) == 1
        assert isinstance(events[-2 if isinstance(events[-2], StreamEnd) else -3], (StreamEnd, Observation))


@pytest.mark.anyio
async def test_parsed_calls_run_unvalidated_and_their_record_says_so() -> None:
    ran.clear()
    events, _ = await run_turn(payload(tool="delete", arguments={"path": 5}), ParsedAdapter())
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, found.validated) == ("ok", False)
    assert ran == [5]
    events, _ = await run_turn(payload(tool="delete", arguments={"path": 5}), ValidatedAdapter())
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, found.validated) == ("invalid", False)
    assert ran == [5], "not again"


class Secret:
    """What only the program may give."""


UNCHECKED_CALLS = [
    ({"path": "x"}, "ok"),
    ({"path": "x", "options": {"force": True}}, "ok"),
    ({"path": "x", "ctx": "mine"}, "invalid"),
    ({"path": "x", "options": {"ctx": "mine"}}, "invalid"),
    ({"path": "x", "secret": "mine"}, "invalid"),
    ({"path": "x", "options": {"secret": "mine"}}, "invalid"),
    ({"path": "x", "options": 5}, "invalid"),
    ({}, "failed"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("arguments", "outcome"), UNCHECKED_CALLS)
async def test_even_unvalidated_a_call_cannot_set_what_only_the_program_sets(
    arguments: dict[str, Any], outcome: str
) -> None:
    def wipe(path: str, ctx: ToolContext, secret: Secret, **options: bool) -> str:
        """Wipe."""
        assert isinstance(ctx, ToolContext)
        assert isinstance(secret, Secret)
        return path

    wiping = tool(functools.partial(wipe, secret=Secret()), name="wipe")
    events, _ = await run_turn(payload(tool="wipe", arguments=arguments), ParsedAdapter(), [wiping])
    (found,) = [event for event in events if isinstance(event, Observation)]
    assert (found.outcome, "mine" in str(found.error)) == (outcome, False), found.error


@pytest.mark.anyio
async def test_structured_arguments_are_read_as_they_were_asked_for() -> None:
    """A strict schema requires every property: null stands for an argument that is left out."""
    body = payload(response={"tool": "get_weather", "arguments": {"city": "Paris", "days": None}})
    strictly = export(get_weather, "openai.chat_completions", strict=True)
    for told in (get_weather, strictly, export(get_weather, "anthropic.messages")):
        events, turn = await run_turn(body, OpenAIStructuredAdapter(), [told])
        (found,) = [event for event in events if isinstance(event, Observation)]
        assert found.value == {"city": "Paris", "days": 1}
        assert turn.calls[0].arguments == {"city": "Paris", "days": None}


# -- without streams --------------------------------------------------------------------------------------------


class Completions:
    """A client that answers from a script."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.script = list(messages)
        self.requests: list[dict[str, Any]] = []

    def create(self, **request: Any) -> Any:
        self.requests.append(json.loads(json.dumps(request)))
        calls = self.script[0].get("tool_calls")
        made = [SimpleNamespace(id=c["id"], function=SimpleNamespace(**c["function"])) for c in calls or ()] or None
        said = SimpleNamespace(role="assistant", content=self.script.pop(0).get("content"), tool_calls=made)
        return SimpleNamespace(choices=[SimpleNamespace(message=said)])


def native(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def test_an_adapter_serves_without_an_agent() -> None:
    @tool
    def search(query: str) -> str:
        """Search the web."""
        return f"Results for {query}"

    tools = [search]
    messages = [{"role": "user", "content": "Search for Python docs"}]
    client = Completions({"content": '{"response": {"tool": "search", "arguments": {"query": "Python docs"}}}'})
    adapter = get_adapter("gpt-4o-mini")
    request = adapter.format_request(tools, messages)
    response = client.create(model="gpt-4o-mini", messages=messages, **request)
    found = adapter.extract_tool_call(response)
    assert found == {"tool": "search", "arguments": {"query": "Python docs"}}
    validation = adapter.validate_tool_call(found, {t.name: t for t in tools})
    assert validation.is_valid
    assert tools[0](**validation.arguments or {}) == "Results for Python docs"


SCRIPTS: list[tuple[StreamingAdapter, list[dict[str, Any]]]] = [
    (
        NativeToolAdapter(),
        [
            native("c1", "get_weather", city=5),
            native("c2", "get_weather", city="Atlantis"),
            native("c3", "get_weather", city="Paris"),
            {"content": "Sunny."},
        ],
    ),
    *(
        (
            adapter,
            [
                {"content": '{"tool": "get_weather", "arguments": {"city": 5}}'},
                {"content": '{"tool": "get_weather", "arguments": {"city": "Atlantis"}}'},
                {"content": 'Now: {"tool": "get_weather", "arguments": {"city": "Paris"}}'},
                {"content": '{"answer": "Sunny."}'},
            ],
        )
        for adapter in (ValidatedAdapter(), get_adapter("local-model"))
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("adapter", "script"), SCRIPTS)
async def test_a_loop_over_whole_responses_runs_tools_and_survives_their_failures(
    adapter: StreamingAdapter, script: list[dict[str, Any]]
) -> None:
    client = Completions(*script)
    tools = {"get_weather": get_weather}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is the weather?"}]
    records: list[Observation] = []
    found: Payload | None = None
    for _ in range(6):
        request = {"model": "m", "messages": messages, **adapter.format_request([get_weather], messages)}
        response = client.create(**request)
        found = adapter.extract_tool_call(response)
        if found is None or "tool" not in found:
            break
        records.append(await run_alone(tools[found["tool"]], found["arguments"], call_id=f"c{len(records) + 1}"))
        messages += [adapter.format_assistant_message(response), adapter.format_tool_result(records[-1])]
    assert found == {"answer": "Sunny."}
    assert [record.outcome for record in records] == ["invalid", "failed", "ok"]
    assert len(client.requests) == 4
    assert [message["role"] for message in messages[1:]] == ["assistant", messages[2]["role"]] * 3
    if isinstance(adapter, NativeToolAdapter):
        assert [message["tool_call_id"] for message in messages[2::2]] == ["c1", "c2", "c3"]
    assert messages[-1]["content"].endswith('{"city":"Paris","days":1}')
