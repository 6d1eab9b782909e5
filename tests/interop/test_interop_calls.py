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
    CHAT_CUSTOM,
    CHAT_FUNCTION,
    CLEAN_CALL,
    CORRUPT_CALL,
    CUSTOM,
    FUNCTIONS,
    GEMINI,
    MCP,
    READ_AS,
    RESPONSES_CALL,
    RESPONSES_CUSTOM,
    RESPONSES_FUNCTION,
    call,
    custom_schema,
    function_call,
    raw_call,
)
from profiles import examples

from streamtools.errors import ExportError
from streamtools.interop import (
    FORMATS,
    TARGET_FORMATS,
    Contribution,
    InspectedCall,
    SanitizedCall,
    ToolCallAccessor,
    ToolCallAdapter,
    ToolDescriptor,
    ToolInteropRegistry,
    ToolInteropTarget,
    assistant_message,
    tool_calls_of,
)
from streamtools.limits import Limits

CHAT = ToolInteropTarget("openai.chat_completions")
WIRE_OF = {format: wire for wire, formats in reversed([*TARGET_FORMATS.items()]) for format in formats}


def registry() -> ToolInteropRegistry:
    return ToolInteropRegistry.of()


def with_patch() -> ToolInteropRegistry:
    """A registry of a request with a freeform tool."""
    schema = custom_schema(RESPONSES_CUSTOM)
    return ToolInteropRegistry.of(descriptors=[ToolDescriptor("patches", "apply_patch", schema)])


# -- the examples of the specification ---------------------------------------------------------------------------------


def test_a_call_tells_its_tool_id_and_payload() -> None:
    inspected = registry().inspect_call(CHAT_CALL)
    assert inspected.call_id == "call_123"
    assert inspected.tool_name == "read_file"
    assert inspected.payload == {"path": "README.md"}
    assert inspected.payload_kind == "object"
    assert inspected.payload_format == "openai.chat_completions.function"
    assert inspected.payload_metadata == {"arguments_text": '{"path":"README.md"}'}


def test_a_responses_call_becomes_a_chat_call() -> None:
    source = copy.deepcopy(RESPONSES_CALL)
    assert registry().convert_tool_calls([source], target=CHAT) == [CHAT_CALL]
    assert source == RESPONSES_CALL


def test_corrupt_arguments_become_empty_ones() -> None:
    source = copy.deepcopy(CORRUPT_CALL)
    assert registry().sanitize_tool_call(source) == CLEAN_CALL
    assert source == CORRUPT_CALL


def test_a_custom_call_stays_raw() -> None:
    native = {"type": "custom_tool_call", "call_id": "call_9", "name": "apply_patch", "input": "*** patch"}
    (stored,) = registry().convert_tool_calls([native], target=CHAT)
    assert stored == {"id": "call_9", "type": "custom", "custom": {"name": "apply_patch", "input": "*** patch"}}
    assert registry().inspect_call(stored).payload == "*** patch"
    assert registry().convert_tool_calls([stored], target="openai.responses") == [native]


# -- each format in each other -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", FUNCTIONS)
@pytest.mark.parametrize("target", FUNCTIONS)
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


@pytest.mark.parametrize("source", CUSTOM)
@pytest.mark.parametrize("target", FORMATS)
def test_a_raw_call_says_the_same_in_every_format(source: str, target: str) -> None:
    (converted,) = registry().convert_tool_calls([raw_call(source)], target=WIRE_OF[target], target_formats=[target])
    assert converted == raw_call(target)


@pytest.mark.parametrize("source", FUNCTIONS)
@pytest.mark.parametrize("target", CUSTOM)
def test_a_wrapped_call_of_a_freeform_tool_becomes_raw_again(source: str, target: str) -> None:
    native = raw_call(source)
    (converted,) = with_patch().convert_tool_calls([native], target=WIRE_OF[target], id_seed="r1")
    found = with_patch().inspect_call(converted)
    assert (found.payload_format, found.payload, found.payload_kind) == (target, "*** patch", "raw")
    assert source == MCP or found.call_id == "call_1"


@pytest.mark.parametrize("source", FUNCTIONS)
def test_the_tool_gets_the_text_of_a_wrapped_call(source: str) -> None:
    found = with_patch().inspect_call(raw_call(source))
    assert (found.payload, found.payload_kind, found.arguments) == ("*** patch", "raw", {"input": "*** patch"})
    assert found.payload_metadata["unwrapped"] is True
    assert registry().inspect_call(raw_call(source)).payload == {"input": "*** patch"}


def test_a_registry_remembers_which_tools_it_made_functions_of() -> None:
    own = registry()
    own.convert_schemas([custom_schema(CHAT_CUSTOM)], target="anthropic.messages")
    assert own.inspect_call(raw_call(ANTHROPIC)).payload == "*** patch"


@pytest.mark.parametrize("arguments", ['{"input":5}', '{"patch":"x"}', '{"input":"x","more":1}', "{}"])
def test_a_freeform_tool_is_not_run_with_anything_but_a_text(arguments: str) -> None:
    found = with_patch().inspect_call(call(CHAT_FUNCTION, "apply_patch", arguments, None))
    assert (found.payload, found.problem, found.arguments) == (None, "invalid_arguments", None)
    assert not found.dispatchable


def test_a_wrapped_call_stays_where_only_functions_are_accepted() -> None:
    native = {**raw_call(CHAT_FUNCTION), "extra_content": {"google": {"thought_signature": "x"}}}
    assert with_patch().convert_tool_calls([native], target=CHAT, target_formats=[CHAT_FUNCTION])[0] is native


def test_an_object_cannot_be_a_custom_call() -> None:
    with pytest.raises(ExportError, match="'read_file' has an object"):
        registry().convert_tool_calls([CHAT_CALL], target="openai.responses", target_formats=[RESPONSES_CUSTOM])


def test_what_is_no_dict_is_left_out() -> None:
    given: list[object] = [None, "x", CHAT_CALL, 3]
    assert registry().convert_tool_calls(given, target=CHAT) == [CHAT_CALL]


def test_an_accepted_call_goes_through_as_the_same_object() -> None:
    native = {**CHAT_CALL, "extra_content": {"google": {"thought_signature": "x"}}}
    assert registry().convert_tool_calls([native], target=CHAT)[0] is native
    assert registry().inspect_call(native).payload_metadata["extra"] == {"extra_content": native["extra_content"]}


def test_a_call_without_an_id_gets_one_that_depends_on_its_turn_and_place() -> None:
    calls = [{"functionCall": {"name": "ping", "args": {}}}] * 2

    def ids(seed: str) -> list[str]:
        return [made["id"] for made in registry().convert_tool_calls(calls, target=CHAT, id_seed=seed)]

    assert len({*ids("response_1"), *ids("response_2")}) == 4
    assert ids("response_1") == ids("response_1")
    assert registry().convert_tool_calls(calls, target="gemini.generate_content") == calls


# -- arguments as they come --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("arguments", CORRUPT)
@pytest.mark.parametrize("format", [CHAT_FUNCTION, RESPONSES_FUNCTION])
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


@pytest.mark.parametrize("format", [ANTHROPIC, GEMINI, BEDROCK, MCP])
@pytest.mark.parametrize("value", ["text", 7, [1], json.loads(DEEP)])
def test_arguments_that_are_no_object_are_cleaned_where_the_wire_has_objects(format: str, value: Any) -> None:
    native = call(format, "f", "", value)
    if value == "text":  # a text that might hold an object is read as one
        native = call(format, "f", "", '{"a"')
    clean = registry().sanitize_tool_call(native)
    assert clean == call(format, "f", "", {})
    assert isinstance(clean, SanitizedCall)


@pytest.mark.parametrize("format", CUSTOM)
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


def test_no_arguments_are_a_cut_where_the_turn_was_cut() -> None:
    native = call(CHAT_FUNCTION, "f", "", None)
    clean = registry().sanitize_tool_call(native, complete=False)
    assert isinstance(clean, SanitizedCall)
    assert clean.problem == "incomplete_json"
    whole = call(CHAT_FUNCTION, "f", "{}", None)
    assert registry().sanitize_tool_call(whole, complete=False) is whole


TEXTS = (
    st.text() | st.sampled_from(["{", '{"a":', "[]", "null", "```json\n{}\n```", '"{}"']) | st.from_type(int).map(str)
)
OBJECTS = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(), max_size=4)


@settings(derandomize=True, deadline=None, max_examples=examples(300))
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


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(OBJECTS, st.sampled_from(FUNCTIONS), st.sampled_from(FUNCTIONS))
def test_no_payload_changes_on_its_way_through_two_formats(value: dict[str, Any], first: str, second: str) -> None:
    native = call(first, "f", json.dumps(value), value)
    there = registry().convert_tool_calls([native], target=WIRE_OF[second], target_formats=[second])
    back = registry().convert_tool_calls(there, target=WIRE_OF[first], target_formats=[first])
    assert registry().inspect_call(back[0]).payload == value


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


@pytest.mark.parametrize("metadata", [None, {}, {"tool_calls": None}, {"tool_calls": [None]}, {"sanitized": 3}])
def test_an_answer_without_calls_has_none(metadata: Any) -> None:
    assert tool_calls_of({"role": "assistant", "content": "x", "metadata": metadata}) == []


# -- what is no call ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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


def test_a_call_may_lack_its_arguments_altogether() -> None:
    native = {"id": "c", "type": "function", "function": {"name": "ping"}}
    assert registry().inspect_call(native).payload == {}
    assert registry().sanitize_tool_call(native)["function"] == {"name": "ping", "arguments": "{}"}
    assert registry().inspect_call({"name": "ping"}).payload_format == MCP


def test_arguments_that_are_an_object_already_are_taken_for_chat() -> None:
    """As Ollama has them."""
    native = {"function": {"name": "f", "arguments": {"a": 1}}}
    found = registry().inspect_call(native)
    assert (found.payload, found.call_id) == ({"a": 1}, None)
    (item,) = registry().convert_tool_calls([{**native, "id": "c"}], target="openai.responses")
    assert item["arguments"] == '{"a":1}'


# -- formats of one's own ----------------------------------------------------------------------------------------------


def _inspect_xml(given: Any) -> InspectedCall | None:
    if "xml" not in given:
        return None
    return InspectedCall(
        tool_name=given["xml"], call_id="x1", payload={"a": 1}, payload_kind="object", payload_format="acme.xml"
    )


XML = Contribution(
    call_accessors=(ToolCallAccessor("acme.xml", _inspect_xml, lambda given, arguments: {**given, "a": arguments}),),
    call_adapters=(ToolCallAdapter("acme.xml", lambda found: {"xml": found.tool_name}),),
)


def test_a_provider_may_bring_a_format_of_its_own() -> None:
    own = ToolInteropRegistry.of(provider=XML)
    (chat,) = own.convert_tool_calls([{"xml": "find"}], target=CHAT)
    assert chat == {"id": "x1", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}
    assert own.convert_tool_calls([chat], target="acme", target_formats=["acme.xml"]) == [{"xml": "find"}]
    with pytest.raises(ExportError, match=r"call of 'find' is acme\.xml, and no adapter writes it as acme\.toml"):
        own.convert_tool_calls([{"xml": "find"}], target="acme", target_formats=["acme.toml"])


def test_a_format_without_an_id_needs_none() -> None:
    own = registry()
    assert own.convert_tool_calls([CHAT_CALL], target="mcp") == [
        {"name": "read_file", "arguments": {"path": "README.md"}}
    ]
    with pytest.raises(ExportError, match="has no id"):
        own.stored_tool_call({"name": "ping", "arguments": {}})


@pytest.mark.parametrize(
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
