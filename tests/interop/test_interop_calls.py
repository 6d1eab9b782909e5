"""Calls: what they mean, how they are written for another provider, and what is left of one that came corrupt."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop_cards import (
    ANTHROPIC,
    BEDROCK,
    CHAT_CALL,
    CHAT_FUNCTION,
    CLEAN_CALL,
    CORRUPT_CALL,
    CUSTOM,
    FORMATS,
    FUNCTIONS,
    GEMINI,
    MCP,
    READ_AS,
    RESPONSES_CUSTOM,
    RESPONSES_FUNCTION,
    call,
    custom_schema,
    function_call,
    raw_call,
)
from profiles import each_with_each, every, examples

from streamtools.errors import ExportError
from streamtools.interop import (
    TARGET_FORMATS,
    SanitizedCall,
    ToolDescriptor,
    ToolInteropRegistry,
    ToolInteropTarget,
    assistant_message,
    tool_calls_of,
)
from streamtools.limits import Limits

CHAT = ToolInteropTarget("openai.chat_completions")
WIRE_OF = {format: wire for wire, formats in reversed([*TARGET_FORMATS.items()]) for format in formats}
registry = ToolInteropRegistry.of


def with_patch() -> ToolInteropRegistry:
    """A registry of a request with a freeform tool."""
    schema = custom_schema(RESPONSES_CUSTOM)
    return ToolInteropRegistry.of(descriptors=[ToolDescriptor("patches", "apply_patch", schema)])


# -- each format in each other -----------------------------------------------------------------------------------------


@every("source, target", each_with_each(FUNCTIONS))
def test_a_call_of_a_function_says_the_same_in_every_format(source: str, target: str) -> None:
    native = function_call(source)
    (converted,) = registry().convert_tool_calls([native], target=WIRE_OF[target], target_formats=[target])
    assert native == function_call(source)
    if source == MCP and target != MCP:  # MCP has no ids, so there is one now that was made up
        assert registry().inspect_call(converted).call_id is not None
        assert registry().convert_tool_calls([converted], target="mcp") == [native]
    else:
        assert converted == function_call(target)
        assert (converted is native) is (READ_AS[source] == target)


@every("source", CUSTOM)
@every("target", FORMATS)
def test_a_raw_call_says_the_same_in_every_format(source: str, target: str) -> None:
    (converted,) = registry().convert_tool_calls([raw_call(source)], target=WIRE_OF[target], target_formats=[target])
    assert converted == raw_call(target)


@every("source", FUNCTIONS)
@every("target", CUSTOM)
def test_a_wrapped_call_of_a_freeform_tool_becomes_raw_again(source: str, target: str) -> None:
    native = raw_call(source)
    (converted,) = with_patch().convert_tool_calls([native], target=WIRE_OF[target], id_seed="r1")
    found = with_patch().inspect_call(converted)
    assert (found.payload_format, found.payload, found.payload_kind) == (target, "*** patch", "raw")
    assert source == MCP or found.call_id == "call_1"


@every("arguments", ['{"input":5}', '{"patch":"x"}', '{"input":"x","more":1}', "{}"])
def test_a_freeform_tool_is_not_run_with_anything_but_a_text(arguments: str) -> None:
    found = with_patch().inspect_call(call(CHAT_FUNCTION, "apply_patch", arguments, None))
    assert (found.payload, found.problem, found.arguments) == (None, "invalid_arguments", None)
    assert not found.dispatchable


def test_a_call_without_an_id_gets_one_that_depends_on_its_turn_and_place() -> None:
    calls = [{"functionCall": {"name": "ping", "args": {}}}] * 2

    def ids(seed: str) -> list[str]:
        return [made["id"] for made in registry().convert_tool_calls(calls, target=CHAT, id_seed=seed)]

    assert len({*ids("response_1"), *ids("response_2")}) == 4
    assert ids("response_1") == ids("response_1")
    assert registry().convert_tool_calls(calls, target="gemini.generate_content") == calls


# -- arguments as they come --------------------------------------------------------------------------------------------


@every(
    ("arguments", "payload", "steps"),
    [
        ('{"a":1}', {"a": 1}, None),
        ("", {}, ("empty_arguments",)),
        ("null", {}, ("empty_arguments",)),
        ('"{\\"a\\":1}"', {"a": 1}, ("double_encoded",)),
        ('```json\n{"a":1}\n```', {"a": 1}, ("fenced_arguments",)),
    ],
)
def test_lossless_steps_lead_to_a_payload(arguments: str, payload: Any, steps: Any) -> None:
    native = call(RESPONSES_FUNCTION, "f", arguments, None)
    found = registry().inspect_call(native)
    assert (found.payload, found.payload_metadata.get("normalizations")) == (payload, steps)
    clean = registry().sanitize_tool_call(native)
    assert (clean is native) is (steps is None)
    assert json.loads(clean["arguments"]) == payload
    assert not isinstance(clean, SanitizedCall)
    assert registry().inspect_call(clean).dispatchable


DEEP = "{" + '"a":[' + "[" * 70 + "]" * 70 + "]}"
CORRUPT = {
    '{"a":': "incomplete_json",
    "[1]": "non_object_arguments",
    "7": "non_object_arguments",
    "{'a': 1}": "malformed_json",
    '{"a":1}{"b":2}': "concatenated_json",
    '{"a":1e999}': "number_out_of_range",
    '{"a":NaN}': "malformed_json",
    DEEP: "too_deep",
}


@every("arguments", CORRUPT)
@every("format", [CHAT_FUNCTION, RESPONSES_FUNCTION])
def test_corrupt_arguments_are_told_and_cleaned_and_never_run(format: str, arguments: str) -> None:
    own = registry()
    native = call(format, "f", arguments, None)
    found = own.inspect_call(native)
    assert (found.payload, found.problem, found.arguments) == (None, CORRUPT[arguments], None)
    clean = own.sanitize_tool_call(native)
    assert clean == call(format, "f", "{}", None)
    assert isinstance(clean, SanitizedCall)
    assert (clean.raw, clean.problem) == (arguments, CORRUPT[arguments])
    assert own.sanitize_tool_call(clean) is clean
    assert not own.inspect_call(clean).dispatchable


@every("format", [ANTHROPIC, GEMINI, BEDROCK, MCP])
@every("value", ["text", 7, [1], json.loads(DEEP)])
def test_arguments_that_are_no_object_are_cleaned_where_the_wire_has_objects(format: str, value: Any) -> None:
    native = call(format, "f", "", value)
    if value == "text":  # a text that might hold an object is read as one
        native = call(format, "f", "", '{"a"')
    clean = registry().sanitize_tool_call(native)
    assert clean == call(format, "f", "", {})
    assert isinstance(clean, SanitizedCall)


@every("format", CUSTOM)
def test_a_raw_call_without_text_is_cleaned(format: str) -> None:
    native = call(format, "apply_patch", "", None)
    assert registry().inspect_call(native).problem == "missing_input"
    clean = registry().sanitize_tool_call(native)
    assert clean == call(format, "apply_patch", "", "")
    assert isinstance(clean, SanitizedCall)
    whole = raw_call(format, '{"looks": like json')
    assert registry().sanitize_tool_call(whole) is whole


def test_a_call_is_no_longer_than_the_limit() -> None:
    text = '{"a":"' + "x" * Limits().max_argument_bytes + '"}'
    assert registry().inspect_call(call(CHAT_FUNCTION, "f", text, None)).problem == "argument_too_large"


TEXTS = (
    st.text() | st.sampled_from(["{", '{"a":', "[]", "null", "```json\n{}\n```", '"{}"']) | st.from_type(int).map(str)
)
OBJECTS = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(), max_size=4)


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(TEXTS | OBJECTS.map(json.dumps), st.booleans(), st.booleans())
def test_a_cleaned_call_is_always_an_object_and_stays_as_it_is(text: str, complete: bool, responses: bool) -> None:
    own = registry()
    native = call(RESPONSES_FUNCTION if responses else CHAT_FUNCTION, "f", text, None)
    clean = own.sanitize_tool_call(native, complete=complete)
    body = clean if responses else clean["function"]
    assert isinstance(json.loads(body["arguments"]), dict)
    assert own.sanitize_tool_call(clean, complete=complete) is clean
    if clean is native:
        assert body["arguments"] == text
    assert own.inspect_call(clean).dispatchable is not isinstance(clean, SanitizedCall)


# -- a call that was cleaned is never dispatched ----------------------------------------------------------------------


def test_a_cleaned_call_is_known_by_its_id_where_it_became_a_plain_dict() -> None:
    own = registry()
    plain = dict(own.sanitize_tool_call(CORRUPT_CALL))
    found = own.inspect_call(plain)
    assert (found.problem, found.payload) == ("sanitized", None)
    later = {**CHAT_CALL, "id": CORRUPT_CALL["id"]}
    assert own.inspect_call(later).dispatchable  # another call of the same id, with arguments


def test_a_corrupt_call_is_cleaned_wherever_it_is_converted_to() -> None:
    for wire in TARGET_FORMATS:
        own = registry()
        (converted,) = own.convert_tool_calls([CORRUPT_CALL], target=wire)
        assert isinstance(converted, SanitizedCall)
        assert converted.raw == '{"path":'
        if TARGET_FORMATS[wire][0] == CHAT_FUNCTION:
            assert converted == CLEAN_CALL
        assert own.inspect_call(converted).problem == "incomplete_json"
        (again,) = own.convert_tool_calls([converted], target="openai.responses")
        assert isinstance(again, SanitizedCall)
        assert again.raw == '{"path":'


def test_a_cleaned_call_keeps_what_came_apart_from_what_is_sent() -> None:
    clean = registry().sanitize_tool_call(CORRUPT_CALL)
    assert isinstance(clean, SanitizedCall)
    for again in (copy.copy(clean), copy.deepcopy(clean), pickle.loads(pickle.dumps(clean))):
        assert again == CLEAN_CALL
        assert (again.raw, again.problem) == ('{"path":', "incomplete_json")
    assert json.loads(json.dumps(clean)) == CLEAN_CALL
    assert '{"path":' not in repr(clean)


def test_a_stored_answer_tells_which_of_its_calls_must_not_run() -> None:
    own = registry()
    stored = assistant_message("", [own.sanitize_tool_call(CORRUPT_CALL), {**CHAT_CALL, "id": "call_2"}])
    loaded = json.loads(json.dumps(stored))
    assert loaded["metadata"]["sanitized"] == {"call_123": "incomplete_json"}
    first, second = tool_calls_of(loaded)
    assert registry().inspect_call(first).problem == "incomplete_json"
    assert registry().inspect_call(second).dispatchable
    assert tool_calls_of(stored)[0] is stored["metadata"]["tool_calls"][0]


# -- what is no call ---------------------------------------------------------------------------------------------------


@every(
    "odd",
    [
        {},
        {"type": "function", "function": None},
        {"type": "function", "function": {"name": None, "arguments": "{}"}},
        {"type": "custom", "custom": {"input": "x"}},
        {"type": "custom", "custom": 3},
        {"type": "function_call"},
        {"type": "custom_tool_call", "name": 3},
        {"type": "tool_use", "input": {}},
        {"functionCall": "x"},
        {"toolUse": {}},
        {"name": "read_file", "content": "x"},
        {"type": "reasoning", "summary": []},
    ],
)
def test_what_is_no_call_is_refused_or_left_alone(odd: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="no accessor knows this call"):
        registry().inspect_call(odd)
    with pytest.raises(ExportError, match="no accessor knows this call"):
        registry().convert_tool_calls([odd], target=CHAT)
    assert registry().sanitize_tool_call(odd) is odd


def test_arguments_that_are_an_object_already_are_taken_for_chat() -> None:
    """As Ollama has them."""
    native = {"function": {"name": "f", "arguments": {"a": 1}}}
    found = registry().inspect_call(native)
    assert (found.payload, found.call_id) == ({"a": 1}, None)
    (item,) = registry().convert_tool_calls([{**native, "id": "c"}], target="openai.responses")
    assert item["arguments"] == '{"a":1}'


@every(
    ("arguments", "problem"),
    [
        ({"x": float("nan")}, "number_out_of_range"),
        ({"x": [-math.inf]}, "number_out_of_range"),
        ({"x": "\ud800"}, "malformed_json"),
        ({"x": object()}, "malformed_json"),
    ],
)
def test_arguments_given_as_a_value_that_json_cannot_say_are_corrupt(arguments: Any, problem: str) -> None:
    """Written into the next request they would break it, or raise what nobody expects."""
    own = registry()
    given = {"type": "tool_use", "id": "c1", "name": "find", "input": arguments}
    assert own.inspect_call(given).problem == problem
    (written,) = own.convert_tool_calls([given], target=CHAT)
    assert isinstance(written, SanitizedCall)
    assert json.loads(written["function"]["arguments"]) == {}
    assert own.sanitize_tool_call(given) == {**given, "input": {}}
    assert own.inspect_call({**given, "input": {"x": "NaN, Infinity"}}).problem is None
