"""What repairing makes of a history, case by case; `test_repair_laws` says what holds for all."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES
from openai.types.chat import ChatCompletionMessage
from profiles import every
from spoken_histories import NATIVE, Call, refusals

from streamtools.errors import ExportError
from streamtools.history import convert, lint, repair
from streamtools.history.calls import valid_ids
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt

Message = dict[str, Any]
INTERRUPTED = "Error: the call was interrupted and has no result."
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Look."}
DONE = {"role": "assistant", "content": "Well."}


def call(id_: str, name: str = "look", arguments: Any = "{}") -> Message:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(*calls: Message) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": [*calls]}


def asked(*ids: str) -> Message:
    return said(*map(call, ids))


def came(id_: str, content: Any = "seen") -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content}


class Case(NamedTuple):
    given: list[Any]
    becomes: list[Any] | None
    """None: the very same object."""
    last: bool = False


CASES = {
    # -- results that answer nothing --
    "a result before anything else": Case([came("a"), USER, DONE], [USER, DONE]),
    "a result whose call was cut off by a window": Case([came("a"), came("b"), DONE, USER], [DONE, USER]),
    "a result in front of its call": Case(
        [USER, came("a"), asked("a"), DONE], [USER, asked("a"), came("a", INTERRUPTED), DONE]
    ),
    "a result of another id": Case([USER, asked("a"), came("b"), came("a"), DONE], [USER, asked("a"), came("a"), DONE]),
    "only the stray of several results goes": Case(
        [USER, asked("a", "b"), came("a"), came("z"), came("b"), DONE],
        [USER, asked("a", "b"), came("a"), came("b"), DONE],
    ),
    "a retried result": Case(
        [USER, asked("a"), came("a", "1"), came("a", "2"), DONE], [USER, asked("a"), came("a", "1"), DONE]
    ),
    "a result again, after the model went on": Case(
        [USER, asked("a"), came("a"), DONE, came("a"), USER], [USER, asked("a"), came("a"), DONE, USER]
    ),
    "a result without an id": Case(
        [USER, asked("a"), came(""), DONE], [USER, asked("a"), came("a", INTERRUPTED), DONE]
    ),
    # -- calls that nothing answers --
    "a dangling call": Case([USER, asked("a"), DONE], [USER, asked("a"), came("a", INTERRUPTED), DONE]),
    "one of two calls dangles": Case(
        [USER, asked("a", "b"), came("a"), DONE], [USER, asked("a", "b"), came("a"), came("b", INTERRUPTED), DONE]
    ),
    "the first of two calls dangles": Case(
        [USER, asked("a", "b"), came("b"), DONE], [USER, asked("a", "b"), came("a", INTERRUPTED), came("b"), DONE]
    ),
    "the user interrupted": Case([USER, asked("a"), USER], [USER, asked("a"), came("a", INTERRUPTED), USER]),
    "two answers dangle": Case(
        [USER, asked("a"), asked("b"), DONE],
        [USER, asked("a"), came("a", INTERRUPTED), asked("b"), came("b", INTERRUPTED), DONE],
    ),
    # -- calls at the end are still running --
    "a live call": Case([USER, asked("a")], None),
    "a live call, answered if asked for": Case([USER, asked("a")], [USER, asked("a"), came("a", INTERRUPTED)], True),
    "live calls of which one is answered": Case([USER, asked("a", "b"), came("b")], None),
    "the same, answered if asked for": Case(
        [USER, asked("a", "b"), came("b")], [USER, asked("a", "b"), came("a", INTERRUPTED), came("b")], True
    ),
    "an earlier call is not live": Case(
        [USER, asked("a"), USER, asked("b")], [USER, asked("a"), came("a", INTERRUPTED), USER, asked("b")]
    ),
    "an empty message behind does not end it": Case([USER, asked("a"), USER | {"content": ""}], [USER, asked("a")]),
    # -- order --
    "results in the order in which they came": Case(
        [USER, asked("a", "b"), came("b"), came("a"), DONE], [USER, asked("a", "b"), came("a"), came("b"), DONE]
    ),
    "a result after the model spoke again": Case(
        [USER, asked("a"), DONE, came("a"), USER], [USER, asked("a"), came("a"), DONE, USER]
    ),
    "what the user said meanwhile goes behind": Case(
        [USER, asked("a", "b"), came("a"), USER, came("b"), DONE],
        [USER, asked("a", "b"), came("a"), came("b"), USER, DONE],
    ),
    "a system prompt in between": Case(
        [USER, asked("a"), SYSTEM, came("a"), DONE], [USER, asked("a"), came("a"), SYSTEM, DONE]
    ),
    # -- ids --
    "ids that each turn counts anew": Case(
        [USER, asked("call_0"), came("call_0", "1"), asked("call_0"), came("call_0", "2"), DONE],
        [
            USER,
            asked("call_0"),
            came("call_0", "1"),
            asked("call_5a360484c58c91492384e4da"),
            came("call_5a360484c58c91492384e4da", "2"),
            DONE,
        ],
    ),
    "an id of the turn before is that of the latest": Case(
        [USER, asked("a"), USER, asked("a"), came("a"), DONE],
        [
            USER,
            asked("a"),
            came("a", INTERRUPTED),
            USER,
            asked("call_6be7ea06bc36a54123417c9f"),
            came("call_6be7ea06bc36a54123417c9f"),
            DONE,
        ],
    ),
    "two calls with one id in one answer": Case(
        [USER, asked("a", "a"), came("a", "1"), came("a", "2"), DONE],
        [
            USER,
            asked("a", "call_6be7ea06bc36a54123417c9f"),
            came("a", "1"),
            came("call_6be7ea06bc36a54123417c9f", "2"),
            DONE,
        ],
    ),
    # -- nothing empty, nothing strange --
    "an empty prompt": Case([USER, {"role": "user", "content": ""}, DONE], [USER, DONE]),
    "an empty answer": Case([USER, {"role": "assistant", "content": ""}, DONE], [USER, DONE]),
    "an answer that only thought": Case([USER, {"role": "assistant", "reasoning_content": "Hm"}, DONE], [USER, DONE]),
    "an empty text among others": Case(
        [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Look."}]}, DONE],
        [{"role": "user", "content": [{"type": "text", "text": "Look."}]}, DONE],
    ),
    "an empty text beside calls": Case(
        [USER, asked("a") | {"content": [{"type": "text", "text": ""}]}, came("a"), DONE],
        [USER, asked("a"), came("a"), DONE],
    ),
    "a bare text as a part": Case(
        [{"role": "user", "content": ["Look."]}, DONE],
        [{"role": "user", "content": [{"type": "text", "text": "Look."}]}, DONE],
    ),
    "parts that are none": Case(
        [{"role": "user", "content": [3, {"type": "text", "text": "a"}]}, DONE],
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}, DONE],
    ),
    "what is no message": Case([USER, {"role": "alien"}, None, "hi", DONE], [USER, DONE]),
    "calls that are none": Case(
        [USER, asked("a") | {"tool_calls": [None, {"id": "z"}, call("a")]}, came("a"), DONE],
        [USER, asked("a"), came("a"), DONE],
    ),
    "calls that are no list": Case([USER, DONE | {"tool_calls": "f"}], [USER, DONE]),
    "a result known by its name alone": Case(
        [USER, asked("a"), {"role": "tool", "name": "look", "content": "seen"}, DONE],
        [USER, asked("a"), came("a") | {"name": "look"}, DONE],
    ),
    "thinking in a text among others": Case(
        [
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "So."}]},
        ],
        None,
    ),
    "thinking whose parts are none": Case(
        [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": [3, {"text": "Hm"}]}]}], None
    ),
    # -- what was once --
    "functions, as they were before tools": Case(
        [
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "seen"},
            DONE,
        ],
        [USER, asked("call_6f5bf2dbcaf0787a1bf08ad2"), came("call_6f5bf2dbcaf0787a1bf08ad2"), DONE],
    ),
    # -- what is right --
    "nothing": Case([], None),
    "a whole history": Case([SYSTEM, USER, asked("a", "b"), came("a"), came("b"), DONE, USER], None),
    "two prompts and two answers in a row": Case([USER, USER, DONE, DONE], None),
    "an empty result": Case([USER, asked("a"), came("a", ""), DONE], None),
    "a refusal": Case([USER, {"role": "assistant", "content": None, "refusal": "No."}], None),
    "an earlier answer that was spoken": Case(
        [USER, {"role": "assistant", "content": None, "audio": {"id": "au"}}], None
    ),
    "a developer's prompt": Case([{"role": "developer", "content": "x"}, USER, DONE], None),
    "text in parts": Case([USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}], None),
}


@every("case", CASES.values())
def test_a_history_becomes(case: Case) -> None:
    given = copy.deepcopy(case.given)
    repaired = repair(given, CHAT, last=case.last)
    assert repaired == (case.given if case.becomes is None else case.becomes)
    assert (repaired is given) == (case.becomes is None)
    assert lint(repaired, CHAT, last=case.last) == []
    assert bool(lint(given, CHAT, last=case.last)) == (case.becomes is not None)
    assert refusals(CHAT, repaired) == [] or not case.last


def test_each_message_that_is_right_stays_the_same_object() -> None:
    history = [SYSTEM, USER, asked("a"), came("a"), DONE, USER, asked("b", "c"), came("c"), DONE, USER]
    repaired = repair(history, CHAT)
    assert [any(message is one for one in history) for message in repaired] == [
        *[True] * 7,
        False,  # the result that b lacked
        *[True] * 3,
    ]
    assert repaired[8] is history[7]


ARGUMENTS = {
    "{}": ("{}", "{}"),
    '{"a":  1}': ('{"a":  1}', '{"a":  1}'),
    '"{\\"a\\":1}"': ('{"a":1}', '{"a":1}'),  # nothing is lost by that, so it is no matter of policy
    "": ("{}", "{}"),
    '{"a": ': ("{}", '{"INVALID_JSON":"{\\"a\\": "}'),
    "[1]": ("{}", '{"INVALID_JSON":"[1]"}'),
    "rm -rf": ("{}", '{"INVALID_JSON":"rm -rf"}'),
    "{'a': 1}": ("{}", '{"INVALID_JSON":"{\'a\': 1}"}'),
}


@every("given", ARGUMENTS)
def test_arguments_become_an_object(given: str) -> None:
    history = [USER, said(call("a", arguments=given)), came("a"), DONE]
    found = [
        repair(history, CHAT)[1]["tool_calls"][0]["function"]["arguments"],
        repair(history, CHAT, bad_arguments="wrap_raw")[1]["tool_calls"][0]["function"]["arguments"],
    ]
    assert tuple(found) == ARGUMENTS[given]


def test_arguments_given_as_an_object_become_its_text() -> None:
    history = [USER, said(call("a", arguments={"at": 1})), came("a"), DONE]
    repaired = repair(history, CHAT)
    assert json.loads(repaired[1]["tool_calls"][0]["function"]["arguments"]) == {"at": 1}
    assert repaired[2] is history[2]


def test_no_half_of_a_surrogate_pair_comes_out() -> None:
    history = [USER, said(call("a", arguments="\ud800")), DONE]
    repaired = repair(history, CHAT, bad_arguments="wrap_raw")
    json.dumps(repaired, ensure_ascii=False).encode()


def test_a_call_keeps_what_its_provider_wants_back() -> None:
    """Gemini's facade puts the signature of a thought there."""
    signed = {**call("x" * 50), "extra_content": {"google": {"thought_signature": "c2ln"}}}
    custom = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    answer = {"role": "assistant", "content": None, "name": "bob", "tool_calls": [signed, custom]}
    [_, written, *_] = repair([USER, answer, came("x" * 50), came("c"), DONE], CHAT)
    first, second = written["tool_calls"]
    assert first == {**signed, "id": first["id"]}
    assert second == custom
    assert written["name"] == "bob"


@every(
    "answer",
    [
        {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": []},
        {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []},
        {"role": "assistant", "content": "a", "reasoning": "Hm", "reasoning_details": [{"type": "x", "data": "e"}]},
        {"role": "assistant", "content": "<think>Hm</think>\n\nSo."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "alien", "x": 1}, {"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}]},
    ],
)
def test_all_else_in_an_answer_goes_back_as_it_stands_there(answer: Message) -> None:
    given = {**answer, "tool_calls": [call("x" * 50)]}
    [_, written, *_] = repair([USER, given, came("x" * 50), DONE], CHAT)
    assert written["tool_calls"][0]["id"] != "x" * 50
    for key in answer:
        if key != "tool_calls":
            assert (written[key] or None) == (answer[key] or None)


def test_objects_of_an_sdk_are_messages_like_any_other() -> None:
    answer = ChatCompletionMessage.model_validate(asked("a") | {"annotations": None})
    history: list[Any] = [USER, answer, came("a"), DONE]
    assert lint(history, CHAT) == []
    assert repair(history, CHAT) is history
    without = [USER, answer, DONE]
    assert repair(without, CHAT)[1] is answer
    assert repair(without, CHAT)[2] == came("a", INTERRUPTED)


def test_an_object_whose_dump_fails_is_no_message() -> None:
    class Broken:
        def model_dump(self, **_: Any) -> dict[str, Any]:
            raise RuntimeError("not today")

    class Other:
        model_dump = "no function"

    history: list[Any] = [USER, Broken(), Other(), DONE]
    assert [violation.code for violation in lint(history, CHAT)] == ["not_a_message", "not_a_message"]
    assert repair(history, CHAT) == [USER, DONE]


@every("wire", WIRES)
def test_results_go_where_the_wire_wants_them(wire: str) -> None:
    """The same disorder everywhere: results swapped, one behind what the user said, one call without any."""
    native = NATIVE[wire]
    a, b, c = (Call(f"call0000{n}", result=f"result {n}") for n in (1, 2, 3))
    history = [
        native.user("Look."),
        *native.said("", [a, b, c]),
        *native.came([b]),
        native.user("Well?"),
        *native.came([a]),
        *native.said("So.", []),
    ]
    assert lint(history, wire)
    repaired = repair(history, wire)
    assert lint(repaired, wire) == []
    assert refusals(wire, repaired) == []
    told = json.dumps(repaired)
    assert told.index("result 1") < told.index("result 2") < told.index(INTERRUPTED) < told.index("Well?")


def test_ids_of_older_turns_do_not_change_while_a_history_grows() -> None:
    history: list[Any] = []
    before: list[Any] = []
    for number in range(6):
        history += [USER, asked("call_0"), came("call_0", str(number)), DONE]
        after = repair(history, MISTRAL)
        assert after[: len(before)] == before
        before = after
    assert len({message["tool_call_id"] for message in before if message["role"] == "tool"}) == 6


def test_a_call_without_an_id_is_answered_by_name_and_order_where_ids_may_be_missing() -> None:
    calls = [{"function": {"name": name, "arguments": {}}} for name in ("f", "g", "f")]
    told = [{"role": "tool", "tool_name": name, "content": text} for name, text in [("g", "2"), ("f", "1"), ("f", "3")]]
    history = [USER, {"role": "assistant", "content": "", "tool_calls": calls}, *told, DONE]
    repaired = repair(history, OLLAMA)
    assert [message["content"] for message in repaired[2:5]] == ["1", "2", "3"]
    assert repaired[1] is history[1]
    assert all(any(message is one for one in history) for message in repaired)


def test_a_result_that_says_nothing_of_its_call_answers_the_first_one_open() -> None:
    """Ollama's oldest histories."""
    calls = [{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g", "arguments": {}}}]
    history = [USER, {"role": "assistant", "content": "", "tool_calls": calls}, {"role": "tool", "content": "1"}, DONE]
    assert repair(history, OLLAMA)[3] == {"role": "tool", "tool_name": "g", "content": INTERRUPTED}


def test_cohere_v1_is_repaired_as_what_it_is() -> None:
    look: Message = {"name": "look", "parameters": {"at": 1}}
    history = [
        {"role": "SYSTEM", "message": "Be brief."},
        {"role": "USER", "message": "Look."},
        {"role": "CHATBOT", "message": "", "tool_calls": [look, {"name": "find", "parameters": {}}]},
        {"role": "TOOL", "tool_results": [{"call": look, "outputs": [{"output": "seen"}]}]},
        {"role": "USER", "message": ""},
        {"role": "CHATBOT", "message": "Well."},
    ]
    assert [violation.code for violation in lint(history, COHERE)] == ["unanswered_call", "empty_message"]
    repaired = repair(history, COHERE)
    assert [message["role"] for message in repaired] == ["SYSTEM", "USER", "CHATBOT", "TOOL", "TOOL", "CHATBOT"]
    assert repaired[4]["tool_results"][0]["outputs"] == [{"output": INTERRUPTED}]
    moved = convert(history, COHERE, CHAT)
    assert moved.messages[0] == SYSTEM
    assert refusals(CHAT, moved.messages) == []


CHUNKS = {
    "a chunk that is none": [3, {"type": "text", "text": "So."}],
    "a text that says nothing": [{"type": "text", "text": ""}, {"type": "text", "text": "So."}],
    "thinking that says nothing": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "So."}],
}


@every("content", CHUNKS.values())
def test_mistrals_chunks_that_say_nothing_are_dropped(content: list[Any]) -> None:
    history = [USER, {"role": "assistant", "content": content, "prefix": False}, USER]
    assert lint(history, MISTRAL)[0].path == "messages[1].content[0]"
    assert repair(history, MISTRAL) == [USER, {"role": "assistant", "content": "So.", "prefix": False}, USER]


def test_mistrals_chunks_stay_in_their_places() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "c2ln"},
        {"type": "text", "text": "See "},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "."},
    ]
    history = [USER, {"role": "assistant", "content": content, "tool_calls": [call("call_1")]}, came("call_1"), DONE]
    repaired = repair(history, MISTRAL)
    assert repaired[1]["content"] == content
    assert repaired[1]["tool_calls"][0]["id"] == repaired[2]["tool_call_id"] != "call_1"


def test_mistrals_result_keeps_what_it_holds() -> None:
    chunks = [{"type": "text", "text": "a map"}, {"type": "image_url", "image_url": "https://example.org/a.png"}]
    history = [USER, asked("call_1"), came("call_1", chunks) | {"name": "look"}, DONE]
    assert repair(history, MISTRAL)[2]["content"] == chunks
    assert convert(history, MISTRAL, CHAT).messages[3]["content"][1]["image_url"] == {
        "url": "https://example.org/a.png"
    }


def test_cohere_drops_what_is_neither_text_nor_thinking() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "text", "text": " "},
        3,
        {"type": "text", "text": "So."},
    ]
    history = [USER, {"role": "assistant", "content": content}, {"role": "assistant", "content": " "}]
    assert [violation.path for violation in lint(history, COHERE)] == [
        "messages[1].content[1]",
        "messages[1].content[2]",
        "messages[2]",
    ]
    assert repair(history, COHERE) == [USER, {"role": "assistant", "content": [content[0], content[3]]}]


def test_a_freeform_call_whose_input_is_no_text_gets_an_empty_one() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": {"x": 1}}}
    history = [USER, said(custom), came("a"), DONE]
    assert [violation.code for violation in lint(history, CHAT)] == ["arguments_not_object"]
    assert repair(history, CHAT)[1]["tool_calls"][0]["custom"] == {"name": "patch", "input": ""}
    half = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "\ud800"}}
    history = [USER, said(half), came("a"), DONE]
    assert repair(history, CHAT)[1]["tool_calls"][0]["custom"] == {"name": "patch", "input": "\ufffd"}


@every("wire", [CHAT, MISTRAL, COHERE, OLLAMA])
def test_a_prompt_that_says_nothing_is_no_message(wire: str) -> None:
    write = find(wire).render_prompt
    assert write is not None
    assert write(Prompt(role="user", blocks=())) == []


def test_a_replacement_that_is_taken_already_is_not_given_again() -> None:
    """A hash that two ids share, or an id that looks like one."""
    [replacement] = valid_ids(["x" * 50], CHAT).values()
    found = valid_ids([replacement, "x" * 50], CHAT)
    assert found[replacement] == replacement
    assert found["x" * 50] not in (replacement, "x" * 50)


class Told(NamedTuple):
    wire: str
    messages: list[Any]
    violations: list[tuple[str, str, str]]
    """Code, path, message."""
    options: Mapping[str, Any] = MappingProxyType({})
    text: str = ""
    """The beginning of the provider's words for the first."""


def used(*ids: str) -> Message:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id_, "name": "look", "input": {}} for id_ in ids],
    }


def seen(id_: str) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": "seen"}]}


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
TEXT = {"type": "text", "text": "Well."}
FOUND = {
    "role": "assistant",
    "content": [{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}],
}
TURN = [
    {"role": "user", "content": [{"text": "Look."}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "seen"}]}}]},
]
CONTENTS = [
    {"role": "user", "parts": [{"text": "Look."}]},
    {"role": "model", "parts": [{"functionCall": {"id": "f1", "name": "look", "args": {}}}]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"id": "f1", "name": "look", "response": {"output": 1}}}, {"text": "And?"}],
    },
]
UNANSWERED = ("unanswered_call", "messages[1]", "no result before the model speaks again: 'a'")
MISPLACED = "a system prompt is not allowed here"
UNDECLARED = "the history has calls, so the request has to declare tools, even if none is wanted now"
TOLD = [
    Told(CHAT, [], []),
    Told(
        CHAT,
        [3, USER, {"role": "user", "content": ""}],
        [
            ("not_a_message", "messages[0]", "this is not a message that the wire knows"),
            ("empty_message", "messages[2]", "the message has no content"),
        ],
    ),
    Told(
        CHAT,
        [USER, asked("a"), came("a"), came("a"), DONE],
        [("duplicate_result", "messages[3]", "a second result for 'a'")],
        text="Invalid parameter: Duplicate value",
    ),
    Told(
        CHAT,
        [USER, asked("a"), came("z"), came("a"), DONE],
        [("orphan_result", "messages[2]", "no call before it has the id 'z'")],
        text="Invalid parameter: messages with role 'tool'",
    ),
    Told(
        CHAT,
        [USER, asked("a", "a"), came("a"), came("a"), DONE],
        [("duplicate_id", "messages[1].tool_calls[1]", "another call has the id 'a'")],
    ),
    Told(
        CHAT,
        [USER, asked("b", "x" * 50), came("b"), came("x" * 50), DONE],
        [("bad_id", "messages[1].tool_calls[1]", f"the id '{'x' * 50}' has to match [\\x21-\\x7e]{{1,40}}")],
    ),
    Told(
        CHAT,
        [USER, said(call("")), came(""), DONE],
        [
            ("bad_id", "messages[1].tool_calls[0]", "a call without an id"),
            ("unanswered_call", "messages[1]", "no result before the model speaks again: ''"),
            ("orphan_result", "messages[2]", "no call before it has the id ''"),
        ],
    ),
    Told(
        CHAT,
        [USER, said(call("a", "multi tool.use"), call("b", arguments="[1]")), came("a"), came("b"), DONE],
        [
            (
                "bad_name",
                "messages[1].tool_calls[0]",
                "the tool name 'multi tool.use' has to match [a-zA-Z0-9_-]{1,64}",
            ),
            ("arguments_not_object", "messages[1].tool_calls[1]", "the arguments of 'b' are not a JSON object"),
        ],
    ),
    Told(
        CHAT,
        [USER, asked("a"), {"role": "tool", "name": "look", "content": "seen"}, DONE],
        [("bad_id", "messages[2]", "a result without the id of its call, 'a'")],
    ),
    Told(
        OLLAMA,
        [USER, said(call("a", arguments={})), came("a") | {"tool_name": "g"}, DONE],
        [("bad_name", "messages[2]", "the result is named 'g', its call 'look'")],
    ),
    Told(OLLAMA, [USER, said(call("", arguments={})), {"role": "tool", "content": "1"}, DONE], []),
    Told(
        CHAT,
        [USER, asked("a", "b"), came("a"), USER, came("b"), DONE],
        [
            (
                "content_before_results",
                "messages[4]",
                "user content comes between the model's calls and their results",
            )
        ],
    ),
    Told(CHAT, [USER, asked("a"), {"role": "user", "content": ""}, came("a"), DONE], [
        ("empty_message", "messages[2]", "the message has no content"),
    ]),
    Told(
        CHAT,
        [USER, asked("a"), DONE, came("a"), USER],
        [UNANSWERED, ("orphan_result", "messages[3]", "the result of 'a' comes after a later answer of the model")],
    ),
    Told(CHAT, [USER, asked("a", "b"), came("b"), USER], [UNANSWERED]),
    Told(CHAT, [USER, asked("a")], []),
    Told(CHAT, [USER, asked("a")], [UNANSWERED], {"last": True}, "An assistant message with 'tool_calls' must be"),
    Told(ANTHROPIC, [USER, used("a", "b"), seen("a"), seen("b")], [
        ("result_count", "messages[3]", "the results of one answer are in several messages"),
    ]),
    Told(
        ANTHROPIC,
        [DONE, USER],
        [("first_not_user", "messages[0]", "the first message has to be the user's")],
        text="messages: first message must use",
    ),
    Told(
        MISTRAL,
        [USER, SYSTEM, DONE, SYSTEM, USER],
        [("role_order", "messages[3]", MISPLACED)],
        text="Unexpected role 'system' after role 'assistant'",
    ),
    Told(
        MISTRAL,
        [USER, said(call("abcdefghi")), came("abcdefghi"), USER],
        [("role_order", "messages[3]", "the user speaks after results, before the model does")],
        text="Unexpected role 'user' after role 'tool'",
    ),
    Told(ANTHROPIC, [USER, {"role": "assistant", "content": [TEXT, SEARCH]}, SYSTEM, FOUND], []),
    Told(
        ANTHROPIC,
        [USER, {"role": "assistant", "content": [SEARCH, TEXT]}, SYSTEM, FOUND],
        [("role_order", "messages[2]", MISPLACED)],
    ),
    Told(BEDROCK, TURN, []),
    Told(BEDROCK, TURN, [], {"tools": [{"toolSpec": {}}]}),
    Told(BEDROCK, TURN[:1], [], {"tools": []}),
    Told(
        BEDROCK,
        TURN[1:],
        [
            ("missing_tools", "tools", UNDECLARED),
            ("first_not_user", "messages[0]", "the first message has to be the user's"),
        ],
        {"tools": []},
    ),
    Told(CHAT, [USER, asked("a"), came("a"), DONE], [], {"tools": []}),
    Told(
        BEDROCK,
        [TURN[0], *TURN],
        [
            ("missing_tools", "tools", UNDECLARED),
            ("role_order", "messages[1]", "two messages of the role 'user' in a row"),
        ],
        {"tools": []},
        "The toolConfig field must be defined",
    ),
    Told(
        GEMINI,
        CONTENTS,
        [("mixed_results", "contents[2]", "the message has results together with other content")],
    ),
]  # fmt: skip


def test_each_violation_says_what_is_wrong_where() -> None:
    for case in TOLD:
        found = lint(case.messages, case.wire, **case.options)
        assert [(each.code, each.path, each.message) for each in found] == case.violations, case
        assert not case.text or found[0].provider_text.startswith(case.text), case


def test_what_is_dropped_or_stays_changes_nothing_else() -> None:
    """An empty answer separates nobody, and a picture among the results that stay makes no other of them new."""
    nothing = {"role": "assistant", "content": ""}
    assert repair([USER, nothing, SYSTEM, USER], MISTRAL) == [USER, SYSTEM, USER]
    assert repair([{"role": "model", "parts": []}, CONTENTS[0]], GEMINI) == CONTENTS[:1]
    live = [USER, asked("a")]
    assert repair(live, CHAT) is live
    picture = [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
    calls = [{"type": "function_call", "call_id": id_, "name": "look", "arguments": "{}"} for id_ in "ab"]
    history = [USER, *calls, {"type": "function_call_output", "call_id": "a", "output": picture}, USER]
    repaired = repair(history, RESPONSES)
    assert repaired[3] is history[3]
    assert repaired[4] == {"type": "function_call_output", "call_id": "b", "output": INTERRUPTED}
    answer = {"role": "assistant", "content": [{"text": "Well."}]}
    joined = repair([*TURN[:1], *TURN, answer], BEDROCK)
    assert joined[0] == {"role": "user", "content": [{"text": "Look."}] * 2}
    assert joined[1:] == [*TURN[1:], answer]
    assert all(one is other for one, other in zip(joined[1:], [*TURN[1:], answer], strict=True))
    looks: list[Message] = [{"name": name, "parameters": {}} for name in ("look", "find", "open")]
    swapped = [{"call": look, "outputs": [{"output": "seen"}]} for look in (looks[1], looks[0])]
    tools = [
        {"role": "TOOL", "tool_results": swapped},
        {"role": "TOOL", "tool_results": [{"call": looks[2], "outputs": [{}]}]},
    ]
    asks = [{"role": "USER", "message": "Look."}, {"role": "CHATBOT", "message": "", "tool_calls": looks}]
    cohere = repair([*asks, *tools, {"role": "CHATBOT", "message": "Well."}], COHERE)
    assert [each["call"] for message in cohere[2:-1] for each in message["tool_results"]] == looks
    assert cohere[-2] is tools[1]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    chat = repair([USER, asked("a", "b", "c"), came("a", [image]), came("c"), DONE], CHAT)
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "tool", "tool", "user", "assistant"]


def test_violations_stand_in_the_order_of_the_messages() -> None:
    history = [{"role": "user", "content": ""}, came("z"), asked("a"), {"role": "alien"}, asked("a"), USER]
    places = [int(violation.path.removeprefix("messages[")[0]) for violation in lint(history, CHAT)]
    assert places == sorted(places)
    assert len(places) >= 6


def test_no_content_is_in_what_lint_says() -> None:
    secret = "hunter2"
    answer = {"role": "assistant", "content": secret, "tool_calls": [call("a", arguments=secret)]}
    found = lint(
        [{"role": "user", "content": [{"type": "text", "text": ""}, secret]}, answer, came("b", secret)], ANTHROPIC
    )
    found += lint(
        [{"role": "user", "content": [{"type": "text", "text": ""}, secret]}, answer, came("b", secret)], CHAT
    )
    assert found
    assert secret not in "".join(map(str, found))


def test_a_long_history_costs_in_proportion() -> None:
    """Each id again in each turn, and late results: nothing is looked for from the start."""

    def cost(turns: int) -> int:
        """Calls of functions, which are the same on every machine."""
        history = [m for n in range(turns) for m in (USER, asked("call_0", f"late{n}"), came("call_0"), DONE)]
        history += [came(f"late{n}") for n in range(turns)]
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            repair(history, CHAT)
        finally:
            sys.setprofile(before)
        return calls

    cost(10)
    assert cost(300) < 11 * cost(30)


@every(
    ("given", "says"),
    [
        ({"messages": [USER]}, "got dict; pass its list of messages"),
        ("Hello", "expected a list of messages, got str"),
        (None, "expected a list of messages, got NoneType"),
    ],
)
def test_what_is_no_list_of_messages_is_refused(given: Any, says: str) -> None:
    for use in (repair,) if isinstance(given, dict) else (lint, repair):  # lint takes a whole request
        with pytest.raises(TypeError, match=says):
            use(given, CHAT)
    with pytest.raises(TypeError, match=says):
        convert(given, CHAT, "anthropic.messages")


def test_a_history_of_another_wire_is_refused_rather_than_emptied() -> None:
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello"}]}]
    says = "none of these is a message of openai.chat_completions; they look like those of gemini.generate_content"
    with pytest.raises(ExportError, match=says):
        repair(contents, CHAT)
    with pytest.raises(ExportError, match=says):
        convert(contents, CHAT, "anthropic.messages")
    assert lint(contents, CHAT)  # it only reports
    assert repair([{"role": "user", "content": ""}], CHAT) == []  # of nobody: empty
