"""Shapes that programs write and a provider refuses: `lint` tells of them, and `repair` keeps what they say."""

from __future__ import annotations

from typing import Any, NamedTuple

from every_wire import ANTHROPIC, BEDROCK, CHAT, GEMINI, RESPONSES
from profiles import every

from streamtools.history import convert, lint, repair

Message = dict[str, Any]
USER = {"role": "user", "content": "Look."}


def asked(**fields: Any) -> Message:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]} | fields


def came(content: Any = "seen") -> Message:
    return {"role": "tool", "tool_call_id": "c1", "content": content}


def function(**fields: Any) -> list[Message]:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    return [USER, call, {"type": "function_call_output", "call_id": "c1", **fields}]


def freeform(type_: str) -> list[Message]:
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "look", "input": "x"}
    return [USER, call, {"type": type_, "call_id": "c1", "output": "seen"}]


def told(*content: Message) -> list[Message]:
    return [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": list(content)}}]},
    ]


def responded(**fields: Any) -> list[Message]:
    return [
        {"role": "user", "parts": [{"text": "Look."}]},
        {"role": "model", "parts": [{"functionCall": {"id": "f1", "name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "f1", **fields}}]},
    ]


class Case(NamedTuple):
    wire: str
    given: list[Message]
    code: str
    path: str
    text: str
    becomes: list[Message]


EMPTY = "empty array. Expected an array with minimum length 1, but got an empty array instead."
CASES = {
    "no calls in a list": Case(
        CHAT,
        [USER, {"role": "assistant", "content": "Well.", "tool_calls": []}],
        "empty_message",
        "messages[1].tool_calls",
        f"Invalid 'messages[1].tool_calls': {EMPTY}",
        [USER, {"role": "assistant", "content": "Well."}],
    ),
    "no content in a list beside calls": Case(
        CHAT,
        [USER, asked(content=[]), came()],
        "empty_message",
        "messages[1].content",
        f"Invalid 'messages[1].content': {EMPTY}",
        [USER, asked(), came()],
    ),
    "no content in a list as a result": Case(
        CHAT,
        [USER, asked(), came([])],
        "empty_message",
        "messages[2].content",
        f"Invalid 'messages[2].content': {EMPTY}",
        [USER, asked(), came("")],
    ),
    "a tool's own objects as content": Case(
        CHAT,
        [USER, asked(), came([{"city": "Oslo"}])],
        "missing_field",
        "messages[2].content[0].type",
        "Missing required parameter: 'messages[2].content[0].type'.",
        [USER, asked(), came('{"city":"Oslo"}')],
    ),
    "a text that does not say that it is one": Case(
        CHAT,
        [{"role": "user", "content": [{"text": "Look."}]}],
        "missing_field",
        "messages[0].content[0].type",
        "Missing required parameter: 'messages[0].content[0].type'.",
        [{"role": "user", "content": [{"type": "text", "text": "Look."}]}],
    ),
    "a call without a type": Case(
        CHAT,
        [USER, asked(tool_calls=[{"id": "c1", "function": {"name": "look", "arguments": "{}"}}]), came()],
        "missing_field",
        "messages[1].tool_calls[0].type",
        "Missing required parameter: 'messages[1].tool_calls[0].type'.",
        [USER, asked(), came()],
    ),
    "no output": Case(
        RESPONSES,
        function(),
        "missing_field",
        "input[2]",
        "Missing required parameter: 'input[2].output'.",
        function(output=""),
    ),
    "an output of null": Case(
        RESPONSES,
        function(output=None),
        "missing_field",
        "input[2]",
        "Missing required parameter: 'input[2].output'.",
        function(output=""),
    ),
    "an output that is an object": Case(
        RESPONSES, function(output={"at": 1}), "bad_result", "input[2]", "", function(output='{"at":1}')
    ),
    "a function's output for a freeform call": Case(
        RESPONSES,
        freeform("function_call_output"),
        "orphan_result",
        "input[2]",
        "No tool call found for function call output with call_id call_1.",
        freeform("custom_tool_call_output"),
    ),
    "JSON that is no object": Case(
        BEDROCK,
        told({"json": [1]}, {"json": "so"}, {"json": {"at": 1}}),
        "bad_result",
        "messages[2].content[0].content[0]",
        "The format of the value at messages.28.content.0.toolResult.content.0.json is invalid. Provide a json object "
        "for the field and try again.",
        told({"text": "[1]"}, {"text": "so"}, {"json": {"at": 1}}),
    ),
    "a response that does not name its function": Case(
        GEMINI,
        responded(response={"output": 1}),
        "missing_field",
        "contents[2].parts[0].functionResponse.name",
        "",
        responded(name="look", response={"output": 1}),
    ),
}


@every("case", CASES)
def test_what_a_provider_refuses_is_told_and_mended_without_loss(case: str) -> None:
    wire, given, code, path, text, becomes = CASES[case]
    first = lint(given, wire)[0]
    assert (first.code, first.path, first.provider_text) == (code, path, text)
    repaired = repair(given, wire)
    assert repaired == becomes
    assert lint(repaired, wire) == []


def test_a_violation_among_several_results_names_the_one_that_stands_wrong() -> None:
    def call(id_: str) -> Message:
        return {"id": id_, "type": "function", "function": {"name": "look", "arguments": "{}"}}

    def tool(id_: str) -> Message:
        return {"role": "tool", "tool_call_id": id_, "content": "seen"}

    def used(id_: str) -> Message:
        return {"type": "tool_use", "id": id_, "name": "look", "input": {}}

    def result(id_: str) -> Message:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": "seen"}]}

    calls = asked(tool_calls=[call("c1"), call("c2"), call("c3")])
    uses = {"role": "assistant", "content": [used("c1"), used("c2"), used("c3")]}
    shell = {"type": "shell_call", "call_id": "s", "id": "x", "action": {"commands": []}, "status": "completed"}
    look = {"type": "function_call", "call_id": "f", "name": "look", "arguments": "{}"}
    unanswered = "No tool output found for {} call call_1."
    cases: list[tuple[str, list[Message], str, str, str | None]] = [
        (CHAT, [USER, calls, tool("c3"), tool("c1"), tool("c2")], "results_out_of_order", "messages[2]", None),
        (CHAT, [USER, calls, tool("c1"), tool("c3"), tool("c2")], "results_out_of_order", "messages[3]", None),
        (ANTHROPIC, [USER, uses, result("c1"), result("c2"), result("c3")], "result_count", "messages[4]", None),
        (RESPONSES, [USER, shell, look, USER], "unanswered_call", "input[1]", unanswered.format("shell")),
        (RESPONSES, [USER, look, shell, USER], "unanswered_call", "input[1]", unanswered.format("function")),
    ]
    for wire, given, code, path, text in cases:
        found = lint(given, wire)
        assert [(violation.code, violation.path) for violation in found] == [(code, path)], given
        assert text is None or found[0].provider_text == text, given


def test_a_list_of_two_calls_by_one_id_takes_the_output_of_either_type() -> None:
    """Which of them an output is meant for only its type says, and a provider that counts anew gives ids twice."""
    calls = [function(output="1")[1], function(output="1")[2], *freeform("custom_tool_call_output")[1:]]
    assert [violation.code for violation in lint([USER, *calls], RESPONSES)] == ["duplicate_id"]


@every("target", [RESPONSES, BEDROCK])
def test_that_a_call_failed_is_still_told_beside_its_picture(target: str) -> None:
    """These take pictures in a result, and have no flag that every model takes."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    content = [{"type": "text", "text": "No such file."}, picture]
    history = [
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": content}],
        },
    ]
    result = convert(history, "anthropic.messages", target).messages[2]
    told = result["output"] if target == RESPONSES else result["content"][0]["toolResult"]["content"]
    assert [block.get("text") for block in told] == ["Error:", "No such file.", None]


@every("field", ["id", "name"])
def test_a_report_stays_short_and_on_one_line_whatever_a_model_called_things(field: str) -> None:
    told = "x y\n" * 100_000
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}, "type": "function"}
    call = call | ({"id": told} if field == "id" else {"function": {"name": told, "arguments": "{}"}})
    found = lint([USER, asked(tool_calls=[call]), came(), USER], CHAT)
    assert found
    assert all(len(str(violation)) < 250 and "\n" not in str(violation) for violation in found)
