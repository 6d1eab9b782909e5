"""A wire with words of its own (``examples/own_wire.py``): read and written by the fields that its record names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from example_wire import EXAMPLE, known_by_name
from pydantic import BaseModel

from streamtools import Observation, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.exports import export_all
from streamtools.history import convert, lint, repair, with_results
from streamtools.interop import (
    ToolInteropRegistry,
    build_request_context,
    from_native_messages,
    get_registry_from_context,
    get_schema_target_formats_from_context,
    initialize_request,
    initialize_stack,
    to_native_messages,
)
from streamtools.wires import Answer, Wire
from streamtools.wires.formats import CallFormat

CHAT = "openai.chat_completions"
QUESTION = {"who": "user", "words": "Weather in Oslo?"}


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


SKILLS = {"who": "skills", "answers": [{"id": "c1", "words": "rain in Oslo"}]}
CALLED: dict[str, Any] = {"id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}}
ASKED = {"who": "model", "words": "", "calls": [CALLED]}


def test_messages_alternate_by_the_field_that_its_rules_name() -> None:
    def join(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {**messages[0], "words": " ".join(message["words"] for message in messages)}

    strict = replace(EXAMPLE, rules=replace(EXAMPLE.rules, alternate=True, join=join))
    history: list[Any] = [QUESTION, QUESTION, ASKED, SKILLS]
    (found,) = lint(history, strict)
    assert (found.code, found.path) == ("role_order", "messages[1]")
    assert found.message == "two messages of the role 'user' in a row"
    repaired = repair(history, strict)
    assert repaired == [{"who": "user", "words": "Weather in Oslo? Weather in Oslo?"}, ASKED, SKILLS]
    assert lint(history, EXAMPLE) == []


class Message(BaseModel):
    """A message as an SDK of the provider would have it: nobody has to set the field that tells whose it is."""

    who: Literal["user"] = "user"
    words: str


def test_an_objects_default_says_whose_message_it_is() -> None:
    history: list[Any] = [Message(words="Weather in Oslo?"), ASKED, SKILLS]
    assert lint(history, EXAMPLE) == []
    assert convert(history, EXAMPLE, CHAT).messages[0] == {"role": "user", "content": "Weather in Oslo?"}


def with_pictures_behind(answer: Answer) -> list[dict[str, Any]]:
    """Writes pictures of results into a message of the user's behind them, and a word of the model's between."""
    messages: list[dict[str, Any]] = EXAMPLE.render(answer)
    parts = [
        part
        for result in answer.results
        for block in result.blocks
        if isinstance(block, Media)
        for part in ({"say": f"From {result.call_id}:"}, {"image": {"b64": block.data}})
    ]
    return [*messages, {"who": "model", "words": "."}, {"who": "user", "parts": parts}] if parts else messages


def test_a_result_is_put_between_messages_by_whose_they_are() -> None:
    """The model's word stands between the results and the user's message, not between them and the model's."""
    own = replace(EXAMPLE, render=with_pictures_behind)
    seen = Observation(call_id="c1", tool_name="get_weather", outcome="ok", model_content="rain in Oslo")
    said, again = {"who": "model", "words": "Rain."}, {"who": "user", "words": "And now?"}
    assert with_results([QUESTION, ASKED, said], [seen], own) == [QUESTION, ASKED, SKILLS, said]
    word = {"who": "model", "words": "."}
    assert with_results([QUESTION, ASKED, again], [seen], own) == [QUESTION, ASKED, SKILLS, word, again]


def test_pictures_behind_results_are_replaced_where_parts_have_no_types() -> None:
    own = replace(EXAMPLE, render=with_pictures_behind)
    picture = {"who": "user", "parts": [{"say": "From c1:"}, {"image": {"b64": "AAAA"}}, {"say": "Mine."}]}
    history: list[Any] = [QUESTION, ASKED, SKILLS, {"who": "model", "words": "."}, picture]
    blocks = (Text("rain in Oslo"), Media(kind="image", mime_type="image/png", data="BBBB"))
    result = ToolResult(blocks=blocks)
    seen = Observation(call_id="c1", tool_name="get_weather", outcome="ok", model_content="rain in Oslo", result=result)
    *_, behind = with_results(history, [seen], own)
    assert behind["parts"] == [{"say": "From c1:"}, {"image": {"b64": "BBBB"}}, {"say": "Mine."}]


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}


def test_interop_reads_its_calls_and_tools_by_their_own_keys(registered: Wire) -> None:
    registry = ToolInteropRegistry.of()
    own = {**get_weather.to(EXAMPLE), "since": 2026}
    found = registry.inspect_schema(own)
    assert (found.tool_name, found.description, found.extra) == ("get_weather", "Weather in a city.", {"since": 2026})
    assert registry.convert_schemas([own], target=CHAT) == [get_weather.to(CHAT)]
    assert registry.convert_tool_calls([CALLED], target=CHAT) == [CHAT_CALL]
    assert registry.inspect_call({**CALLED, "args": '{"city": "Oslo"'}).problem == "incomplete_json"


def test_interop_reads_and_writes_its_results(registered: Wire) -> None:
    registry = ToolInteropRegistry.of()
    (answer,) = SKILLS["answers"]
    chat_result = {"role": "tool", "tool_call_id": "c1", "content": "rain in Oslo"}
    assert registry.convert_results([answer], target=CHAT) == [chat_result]
    assert registry.convert_results([chat_result], target="example.talk") == [answer]
    history = [SKILLS, QUESTION, ASKED, SKILLS]
    stored = from_native_messages(history, "example.talk", registry=registry)
    assert to_native_messages(stored, "example.talk", registry=registry) == history


def test_a_record_that_says_the_wrong_head_of_results_is_named() -> None:
    wrong = replace(EXAMPLE, results=replace(EXAMPLE.results, head={"role": "user"}))
    said = r"example\.talk recognises this result, and its `read` finds none"
    with known_by_name(wrong), pytest.raises(ExportError, match=said):
        ToolInteropRegistry.of().inspect_result({"id": "c1", "words": "rain"})


def requested(target: str, payload: dict[str, Any]) -> Any:
    state = {"_tools": [get_weather.to(CHAT)], "request": {"payload": payload}}
    _, after = initialize_request([QUESTION], state, target=target, context=build_request_context())
    return after["request"]["payload"]


def test_a_request_has_its_tools_where_the_record_says(registered: Wire) -> None:
    tools = {"skills": [get_weather.to(registered)]}
    assert requested("example.talk", {}) == tools
    assert requested("example.talk", {"tools": 1}) == {"tools": 1, **tools}
    assert requested("example.talk", {"skills": []}) == {"skills": []}


def test_a_request_leaves_the_choice_to_the_model_in_the_records_words() -> None:
    def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
        return {"skills": {"all": entries}}

    (tools,) = EXAMPLE.tools
    choice = {"skills": {"pick": "any"}, "mood": "free"}
    own = replace(EXAMPLE, tools=(replace(tools, request=request, choice=choice),))
    with known_by_name(own):
        entry = get_weather.to(own)
        assert requested("example.talk", {}) == {"skills": {"all": [entry], "pick": "any"}, "mood": "free"}
        assert requested("example.talk", {"mood": "bound"})["mood"] == "bound"
        assert export_all([get_weather], own).request == {"skills": {"all": [entry]}}


def test_a_wire_that_nobody_knows_gets_its_tools_and_no_choice() -> None:
    context = build_request_context(schema_target_formats=["mcp.tool"])
    state = {"_tools": [get_weather.to("mcp")]}
    _, after = initialize_request([], state, context=context, target="nobodys.talk")
    assert after["request"]["payload"] == {"tools": [get_weather.to("mcp")]}


def test_its_formats_are_among_those_that_a_request_may_hold(registered: Wire) -> None:
    build_request_context(schema_target_formats=["example.talk.skill"])
    with pytest.raises(ExportError, match=r"unknown format 'example\.talk\.skil' .*: example\.talk\.skill, openai\."):
        build_request_context(schema_target_formats=["example.talk.skil"])


def test_tools_that_an_extension_put_into_its_field_need_no_provider_with_a_wire(registered: Wire) -> None:
    state = {"_tools": [get_weather.to(CHAT)], "request": {"payload": {"skills": []}}}
    assert initialize_stack([], state, provider=object())[1] is state
    with pytest.raises(ExportError, match="no extension put the tools into the request"):
        initialize_stack([], {**state, "request": {"payload": {"schools": []}}}, provider=object())


@pytest.fixture
def two_ways() -> Iterator[Wire]:
    """Registers a wire whose calls are also written as a part of a message."""
    part = CallFormat(name="example.talk.part", inside="do", name_at="skill", id="id", id_inside=True, arguments="args")
    wire = replace(EXAMPLE, calls=(*EXAMPLE.calls, part))
    with known_by_name(wire):
        yield wire


def test_a_call_is_written_in_two_ways_and_its_tool_in_one(two_ways: Wire) -> None:
    context = build_request_context(provider=SimpleNamespace(wire="example.talk"))
    registry = get_registry_from_context(context)
    formats = get_schema_target_formats_from_context(context)
    assert formats == ["example.talk.skill", "example.talk.part"]
    for accepted in (None, formats, ["example.talk.part"]):
        (written,) = registry.convert_schemas([get_weather.to(CHAT)], target="example.talk", target_formats=accepted)
        assert written == get_weather.to(two_ways)
        (same,) = registry.convert_schemas([written], target="example.talk", target_formats=accepted)
        assert same is written
    part = {"do": {"id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}}}
    assert registry.convert_tool_calls([part], target=CHAT) == [CHAT_CALL]
    accepted = ["example.talk.part"]
    assert registry.convert_tool_calls([CHAT_CALL], target="example.talk", target_formats=accepted) == [part]
