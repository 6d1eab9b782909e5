"""Chat Completions, Mistral, Cohere and Ollama: what each refuses in a history, in its own words, and what becomes of
it."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from every_wire import CHAT, COHERE, MISTRAL, OLLAMA
from profiles import every

from streamtools.history import lint, repair
from streamtools.wires import find

Message = dict[str, Any]
USER = {"role": "user", "content": "Look."}
DONE = {"role": "assistant", "content": "Well."}


def call(id_: object = "call00001", name: object = "look", arguments: object = "{}", **more: Any) -> Message:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asked(*calls: Any, **more: Any) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": list(calls or (call(),)), **more}


def came(id_: object = "call00001", content: object = "seen", **more: Any) -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content, **more}


class Bad(NamedTuple):
    """A history that is refused, and what becomes of it."""

    wire: str
    code: str
    path: str
    provider_text: str
    messages: list[Any]
    becomes: list[Any]


INTERRUPTED = "Error: the call was interrupted and has no result."
LONG = "chatcmpl-tool-" + "0" * 32  # what vLLM gives
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
COUNT = "Not the same number of function calls and responses"

REFUSED = {
    "chat: a call without a result": Bad(
        CHAT,
        "unanswered_call",
        "messages[1]",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        [USER, asked(), DONE],
        [USER, asked(), came(content=INTERRUPTED), DONE],
    ),
    "chat: a result without a call": Bad(
        CHAT,
        "orphan_result",
        "messages[1]",
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'",
        [USER, came(), DONE],
        [USER, DONE],
    ),
    "chat: a result twice": Bad(
        CHAT,
        "duplicate_result",
        "messages[3]",
        "Duplicate value for 'tool_call_id'",
        [USER, asked(), came(content="aborted"), came(), DONE],
        [USER, asked(), came(content="aborted"), DONE],
    ),
    "chat: a user between calls and results": Bad(
        CHAT,
        "content_before_results",
        "messages[3]",
        "must be followed by tool messages responding to each 'tool_call_id'",
        [asked(), USER, USER, came(), DONE],
        [asked(), came(), USER, USER, DONE],
    ),
    "chat: an id that is too long": Bad(
        CHAT,
        "bad_id",
        "messages[1].tool_calls[0]",
        "string too long. Expected a string with maximum length 40",
        [USER, asked(call(LONG)), came(LONG), DONE],
        [USER, asked(call("call_69dc74d572dcc502ba228f15")), came("call_69dc74d572dcc502ba228f15"), DONE],
    ),
    "chat: a name that is none": Bad(
        CHAT,
        "bad_name",
        "messages[1].tool_calls[0]",
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'",
        [USER, asked(call(name="multi_tool_use.parallel")), came(), DONE],
        [USER, asked(call(name="multi_tool_use_parallel")), came(), DONE],
    ),
    "chat: no content and no calls": Bad(
        CHAT,
        "empty_message",
        "messages[1]",
        "Invalid value for 'content': expected a string, got null.",
        [USER, {"role": "assistant", "content": None}, DONE],
        [USER, DONE],
    ),
    "chat: a result without content": Bad(
        CHAT,
        "empty_message",
        "messages[2]",
        "Invalid value for 'content': expected a string, got null.",
        [USER, asked(), came(content=None), DONE],
        [USER, asked(), came(content=""), DONE],
    ),
    "chat: arguments that are no JSON": Bad(
        CHAT,
        "arguments_not_object",
        "messages[1].tool_calls[0]",
        "Expecting ',' delimiter",
        [USER, asked(call(arguments='{"a": 1 "b"}')), came(), DONE],
        [USER, asked(call()), came(), DONE],
    ),
    "chat: an image in a result": Bad(
        CHAT,
        "mixed_results",
        "messages[2]",
        "Image URLs are only allowed for messages with role 'user', but this message with role 'tool'",
        [USER, asked(), came(content=[{"type": "text", "text": "a map"}, IMAGE]), DONE],
        [
            USER,
            asked(),
            came(content="a map\n[image: image/png]"),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "From the result of call call00001:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
            DONE,
        ],
    ),
    "mistral: a call without a result": Bad(
        MISTRAL,
        "unanswered_call",
        "messages[1]",
        COUNT,
        [USER, asked(), DONE],
        [USER, asked(), came(name="look", content=INTERRUPTED), DONE],
    ),
    "mistral: a result without a call": Bad(MISTRAL, "orphan_result", "messages[1]", COUNT, [USER, came()], [USER]),
    "mistral: a result twice": Bad(
        MISTRAL, "duplicate_result", "messages[3]", COUNT, [USER, asked(), came(), came()], [USER, asked(), came()]
    ),
    "mistral: the same id again, which its small models give": Bad(
        MISTRAL,
        "duplicate_id",
        "messages[3].tool_calls[0]",
        COUNT,
        [USER, asked(), came(), asked(), came(), DONE],
        [USER, asked(), came(), asked(call("f55e1805d")) | {"content": ""}, came("f55e1805d"), DONE],
    ),
    "mistral: the user right behind a result": Bad(
        MISTRAL,
        "role_order",
        "messages[3]",
        "Unexpected role 'user' after role 'tool'",
        [USER, asked(), came(), USER],
        [USER, asked(), came(), {"role": "assistant", "content": "."}, USER],
    ),
    "mistral: the user in front of a result": Bad(
        MISTRAL,
        "content_before_results",
        "messages[3]",
        "Unexpected role 'tool' after role 'user'",
        [USER, asked(), USER, came(), DONE],
        [USER, asked(), came(), {"role": "assistant", "content": "."}, USER, DONE],
    ),
    "mistral: an id that is none": Bad(
        MISTRAL,
        "bad_id",
        "messages[1].tool_calls[0]",
        "must be a-z, A-Z, 0-9, with a length of 9",
        [USER, asked(call("call_1", arguments="{}")), came("call_1", name="look"), DONE],
        [USER, asked(call("b7ac559aa")) | {"content": ""}, came("b7ac559aa", name="look"), DONE],
    ),
    "mistral: no content and no calls": Bad(
        MISTRAL,
        "empty_message",
        "messages[1]",
        "Assistant message must have either content or tool_calls, but not none.",
        [USER, {"role": "assistant", "content": ""}, DONE],
        [USER, DONE],
    ),
    "cohere: text beside calls": Bad(
        COHERE,
        "mixed_results",
        "messages[1]",
        "text content is not allowed when tool_calls are provided",
        [USER, asked(content=[{"type": "text", "text": "I will look."}]), came(), DONE],
        [USER, {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [call()]}, came(), DONE],
    ),
    "cohere: an answer that only plans": Bad(
        COHERE,
        "empty_message",
        "messages[1]",
        "all elements in history must have a message",
        [USER, {"role": "assistant", "tool_plan": "I will look."}, DONE],
        [USER, DONE],
    ),
    "cohere: a call without an id": Bad(
        COHERE,
        "bad_id",
        "messages[1].tool_calls[0]",
        "",
        [USER, asked(call(None)), came(None), DONE],
        [USER, {"role": "assistant", "tool_calls": [call("call_1_0")]}, came("call_1_0"), DONE],
    ),
    "ollama: arguments as a text": Bad(
        OLLAMA,
        "arguments_not_object",
        "messages[1].tool_calls[0]",
        "json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments",
        [
            USER,
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]},
            {"role": "tool", "tool_name": "f", "content": "seen"},
        ],
        [
            USER,
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "content": "seen"},
        ],
    ),
}


@every("bad", REFUSED.values())
def test_a_refusal_is_foreseen_in_the_providers_words_and_repaired(bad: Bad) -> None:
    given = copy.deepcopy(bad.messages)
    found = lint(given, bad.wire)
    assert (bad.code, bad.path) in {(violation.code, violation.path) for violation in found}
    [violation] = [one for one in found if (one.code, one.path) == (bad.code, bad.path)]
    assert bad.provider_text in violation.provider_text
    assert str(violation) == f"{violation.path}: {violation.message} ({bad.code})"
    repaired = repair(given, bad.wire)
    assert repaired == bad.becomes
    assert lint(repaired, bad.wire) == []
    assert given == bad.messages, "what is given is not changed"


def test_every_text_of_a_provider_is_shown() -> None:
    shown = {(bad.wire, bad.code) for bad in REFUSED.values()}
    for wire in (CHAT, MISTRAL, COHERE, OLLAMA):
        assert {(wire, code) for code in find(wire).rules.texts if code != "last_not_user"} <= shown
