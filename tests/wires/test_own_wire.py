"""A wire that the package does not know (``examples/own_wire.py``): passed itself, or known by name once registered."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from example_wire import EXAMPLE, OWN, known_by_name
from streams import chat, stream

from streamtools import Observation, StreamDecoder, Turn, Usage, agent_loop, parse, pipeline, tool
from streamtools.history import convert, lint, repair
from streamtools.interop import ToolInteropRegistry
from streamtools.wires import WIRES, Wire, detect, find, known, names, register

CHAT = "openai.chat_completions"
QUESTION = {"who": "user", "words": "Weather in Oslo?"}


BODY = b"".join(json.dumps(line).encode() + b"\n" for line in OWN.LINES)


@pytest.fixture
def registered() -> Iterator[Wire]:
    with known_by_name(EXAMPLE):
        yield EXAMPLE


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city.

    Args:
        city: Its name.
    """
    return f"rain in {city}"


def the_turn(turn: Turn) -> tuple[Any, ...]:
    calls = [(call.call_id, call.name, call.arguments, call.dispatchable) for call in turn.calls]
    return turn.wire, turn.text, calls, turn.finish, turn.usage


MEANT = (
    "example.talk",
    "Let me look. ",
    [("c1", "get_weather", {"city": "Oslo"}, True)],
    "tool_calls",
    Usage(input_tokens=12, output_tokens=5),
)


def test_a_wire_that_is_passed_decodes_without_being_registered() -> None:
    assert the_turn(parse(BODY, wire=EXAMPLE, tools=[get_weather])) == MEANT
    assert the_turn(parse(OWN.LINES, wire=EXAMPLE, tools=[get_weather])) == MEANT
    assert StreamDecoder(wire=EXAMPLE).wire == "example.talk"
    assert "example.talk" not in names()


def test_nobody_detects_a_wire_that_is_not_registered() -> None:
    turn = parse(BODY)
    assert turn.error is not None
    assert turn.calls == ()


def test_a_registered_wire_is_detected_found_and_listed(registered: Wire) -> None:
    assert the_turn(parse(BODY, tools=[get_weather])) == MEANT
    assert the_turn(parse(BODY, wire="example.talk", tools=[get_weather])) == MEANT
    assert detect(OWN.LINES[0]) == "example.talk"
    assert find("example.talk") is registered
    assert known()[0] is registered


def test_a_name_is_registered_once(registered: Wire) -> None:
    register(registered)
    with pytest.raises(ValueError, match=r"the name 'example\.talk' is taken by example\.talk"):
        register(copy.copy(registered))
    with pytest.raises(TypeError, match=r"register takes a streamtools\.wires\.Wire, not str"):
        register("example.talk")  # type: ignore[arg-type]


TAKEN = [
    ({"name": CHAT}, CHAT, CHAT),
    ({"name": "openai"}, "openai", CHAT),
    ({"name": "own.talk", "short_name": CHAT}, CHAT, CHAT),
    ({"name": "own.talk", "short_name": "openai"}, "openai", CHAT),
    ({"name": "own.talk", "short_name": "gemini.parameters"}, "gemini.parameters", "gemini.generate_content"),
    ({"name": "own.talk", "short_name": "mcp"}, "mcp", "MCP"),
    ({"name": "own.talk"}, "example", "example.talk"),
    ({"name": "example", "short_name": None}, "example", "example.talk"),
    ({"name": "own.talk", "short_name": "example.talk"}, "example.talk", "example.talk"),
]


@pytest.mark.parametrize(("said", "name", "owner"), TAKEN)
def test_a_name_that_means_another_wire_is_refused_with_that_wires_name(
    said: dict[str, Any], name: str, owner: str, registered: Wire
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'the name {name!r} is taken by {owner}')}$"):
        register(replace(EXAMPLE, **said))
    assert find("example.talk") is registered
    assert names()[1:] == WIRES


def test_what_is_cut_is_truncated() -> None:
    turn = parse(BODY[: BODY.index(b'{"line": "end"')], wire=EXAMPLE, tools=[get_weather])
    assert (turn.error.kind, turn.calls[0].dispatchable) == ("stream_truncated", False)


@pytest.mark.anyio
@pytest.mark.parametrize("given", [EXAMPLE, "example.talk", None], ids=["the wire", "its name", "found"])
async def test_a_pipeline_runs_its_calls_and_hands_back_its_messages(
    given: Wire | str | None, registered: Wire
) -> None:
    with anyio.fail_after(30):
        async with pipeline(stream([BODY]), tools=[get_weather], wire=given) as events:
            seen = [event async for event in events]
    assert [event.value for event in seen if isinstance(event, Observation)] == ["rain in Oslo"]
    call = {"id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}}
    assert events.turn.messages() == [
        {"who": "model", "words": "Let me look. ", "calls": [call]},
        {"who": "skills", "answers": [{"id": "c1", "words": "rain in Oslo"}]},
    ]


@pytest.mark.anyio
async def test_the_messages_of_a_turn_need_no_registration() -> None:
    turn = await pipeline(stream([BODY]), tools=[get_weather], wire=EXAMPLE)
    assert turn.messages()[0]["who"] == "model"
    assert turn.messages(CHAT)[0]["role"] == "assistant"
    assert parse(chat(["Hi"], finish="stop")).messages(EXAMPLE) == [{"who": "model", "words": "Hi"}]


@pytest.mark.anyio
async def test_an_agent_loop_speaks_it_to_the_end() -> None:
    asked: list[list[Any]] = []
    bodies = [BODY, b'{"line": "say", "text": "Rain."}\n{"line": "end", "why": "done"}\n']

    def ask(messages: list[Any], tools: list[Any]) -> Any:
        asked.append(messages)
        assert tools[0]["skill"] == "get_weather"
        return stream([bodies.pop(0)])

    with anyio.fail_after(30):
        async with agent_loop(ask, [QUESTION], tools=[get_weather], wire=EXAMPLE) as run:
            turn = await run.finish()
    assert (run.outcome, turn.text) == ("answered", "Rain.")
    assert [message["who"] for message in asked[1]] == ["user", "model", "skills"]


def test_its_histories_are_checked_repaired_and_moved() -> None:
    call = {"id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}}
    history: list[Any] = [QUESTION, {"who": "model", "words": "", "calls": [call]}, QUESTION]
    assert [violation.code for violation in lint(history, EXAMPLE)] == ["unanswered_call"]
    repaired = repair(history, EXAMPLE)
    assert lint(repaired, EXAMPLE) == []
    assert [message["who"] for message in repaired] == ["user", "model", "skills", "user"]
    moved = convert(repaired, EXAMPLE, "anthropic.messages")
    assert lint(moved.messages, "anthropic.messages") == []
    back = convert(moved.messages, "anthropic.messages", EXAMPLE)
    assert back.messages == repaired


def test_messages_alternate_by_the_field_that_its_rules_name() -> None:
    def join(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {**messages[0], "words": " ".join(message["words"] for message in messages)}

    strict = replace(EXAMPLE, rules=replace(EXAMPLE.rules, alternate=True, join=join))
    history: list[Any] = [QUESTION, QUESTION]
    (found,) = lint(history, strict)
    assert (found.code, found.path) == ("role_order", "messages[1]")
    assert found.message == "two messages of the role 'user' in a row"
    assert repair(history, strict) == [{"who": "user", "words": "Weather in Oslo? Weather in Oslo?"}]


def test_interop_writes_its_calls_and_tools(registered: Wire) -> None:
    registry = ToolInteropRegistry.of()
    (written,) = registry.convert_schemas([get_weather.to(CHAT)], target="example.talk")
    assert written == get_weather.to(registered)
    chat_call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    (call,) = registry.convert_tool_calls([chat_call], target="example.talk")
    assert call == {"id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}}


def test_a_turn_of_a_registered_wire_can_be_pickled_and_copied(registered: Wire) -> None:
    turn = parse(BODY, tools=[get_weather])
    assert pickle.loads(pickle.dumps(turn)) == copy.deepcopy(turn) == turn
