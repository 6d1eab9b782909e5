"""Payloads in whole texts and whole responses."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from profiles import every

from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    Payload,
    ToolCallingAdapter,
    ValidatedAdapter,
    parse_json_response,
)

CALL = {"tool": "web_search", "arguments": {"query": "python help"}}
TEXT_MODES: list[ToolCallingAdapter] = [
    OpenAIStructuredAdapter(),
    JSONObjectAdapter(),
    ParsedAdapter(),
    ValidatedAdapter(),
]


def completion(content: str | None, **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content, **message}}
        ],
    }


def native_call(arguments: Any, name: str = "web_search") -> dict[str, Any]:
    return {"id": "call_abc123", "type": "function", "function": {"name": name, "arguments": arguments}}


WRITTEN = json.dumps(CALL)
TEXTS: list[tuple[str, Payload | None]] = [
    (WRITTEN, CALL),
    (f'{{"response": {WRITTEN}}}', CALL),
    (f"  \n{WRITTEN}\n", CALL),
    (f"Let me look.\n```json\n{WRITTEN}\n```\nThat is all.", CALL),
    (f"```\n{WRITTEN}```", CALL),
    (f"Thought: I need help.\nAction: {WRITTEN}\nObservation: none", CALL),
    (f"In {{braces}}, `{{}}` and {{ 'x': 1 }}: {WRITTEN}", CALL),
    (f'<think>or {{"tool": "rm", "arguments": {{}}}}?</think>{WRITTEN}', CALL),
    ('{"arguments": {"query": "python help"}, "tool": "web_search"}', CALL),
    ('{"tool": "web_search", "arguments": "{\\"query\\": \\"python help\\"}"}', CALL),
    ('{"scratchpad": "hm", "tool": "t", "arguments": {}}', {"scratchpad": "hm", "tool": "t", "arguments": {}}),
    ('{"tool": "t", "arguments": {}, "scratchpad": "hm"}', {"scratchpad": "hm", "tool": "t", "arguments": {}}),
    ('{"tool": "t"}', {"tool": "t", "arguments": {}}),
    ('{"tool": "t", "arguments": null}', {"tool": "t", "arguments": {}}),
    (
        '{"tool": "t", "confidence": 0.9, "arguments": {"a": [1, {"b": "}"}]}}',
        {"tool": "t", "arguments": {"a": [1, {"b": "}"}]}},
    ),
    ('{"tool": "t", "arguments": {"a": 1}, "more": {"x": []}}', {"tool": "t", "arguments": {"a": 1}}),
    ('{"tool": "t", "arguments": {}, "answer": "done"}', {"tool": "t", "arguments": {}}),
    ('{"tool": null, "arguments": null, "answer": "hi"}', {"answer": "hi"}),
    ('{"tool": "", "answer": "hi"}', {"answer": "hi"}),
    ('{"answer": "a\\n\\"b\\" \\ud83d\\ude00 \\u00e9 \\\\ \\/"}', {"answer": 'a\n"b" 😀 é \\ /'}),
    ('{"answer": "half \\ud83d."}', {"answer": "half \ufffd."}),
    ('{"answer": "half \\ud83d"}', {"answer": "half \ufffd"}),
    ('{"answer": "two\nlines"}', {"answer": "two\nlines"}),
    ('{"answer": ""}', {"answer": ""}),
    ('{"answer": 42}', {"answer": 42}),
    ('{"answer": {"city": "Paris"}, "scratchpad": "s"}', {"answer": {"city": "Paris"}, "scratchpad": "s"}),
    ('{"scratchpad": "only thinking"}', {"scratchpad": "only thinking"}),
    (f"{WRITTEN} Observation: 3 {json.dumps({'tool': 'rm', 'arguments': {}})}", CALL),
    (f'{{"note": 1}} {WRITTEN}', CALL),
    (f'```python\n{{"tool": "rm", "arguments": {{}}}}\n``` {WRITTEN}', CALL),
    # no payload, or no whole one
    ("", None),
    ("   ", None),
    ("no JSON at all", None),
    ("{", None),
    ("{}", None),
    ("{ }", None),
    ("```json\n[]\n```", None),
    ("```python\nprint(1)", None),
    ("``` `` {`", None),
    (f'{{"example": {WRITTEN}}}', None),
    (f'{{"a": "{{", "example": [{WRITTEN}], "b": null}}', None),
    (f'{{"tool": 5, "example": {WRITTEN}}}', None),
    (f'{{"arguments": {{}}, "example": {WRITTEN}}}', None),
    (f'{{"arguments": {{}}, "arguments": {WRITTEN}}}', None),
    ('{"arguments": {}}', None),
    ('{"tool": "a", "tool": "b", "arguments": {}}', None),
    (WRITTEN[:-1], None),
    (WRITTEN[:-2], None),
    (WRITTEN[:-1] + ",}", None),
    (WRITTEN[:-1] + ', "scratchpad": "s", "scratchpad": "s"}', None),
    (WRITTEN[:-1] + ', "arguments": {}}', None),
    (WRITTEN[:-1] + ', "tool": 3}', None),
    ('{"tool": "t", "arguments": {"a": tru}}', None),
    ('{"tool": "t", "arguments": [1]}', None),
    ('{"tool": "t", "arguments": {]}', None),
    ('{"tool": "t", "arguments": }', None),
    ('{"tool": nothing}', None),
    ('{"answer": "bad \\q escape"}', None),
    ('{"answer": "bad \\u12x4 escape"}', None),
    ('{"answer": "cut \\u12', None),
    ('{"answer": nope}', None),
    ('{"scratchpad": "s", "answer": nope}', None),
    ('{"answer": {"a": tru}}', None),
    ('{"answer": tru}', None),
    ('{"tool": "' + "x" * 200 + '", "arguments": {}}', None),
    (f"<think>never closed {WRITTEN}", None),
]


@every(("text", "payload"), TEXTS)
def test_a_text_holds_this_payload(text: str, payload: Payload | None) -> None:
    for adapter in TEXT_MODES:
        assert adapter.extract_tool_call(text) == payload
        assert adapter.extract_tool_call(completion(text)) == payload


RESPONSES: list[Any] = [
    completion(WRITTEN),
    completion(WRITTEN)["choices"][0]["message"],
    ChatCompletion.model_validate(completion(WRITTEN)),
    ChatCompletion.model_validate(completion(WRITTEN)).choices[0].message,
    SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=WRITTEN, tool_calls=None))]),
    {"message": {"role": "assistant", "content": WRITTEN}, "done": True},
    {"role": "assistant", "content": [{"type": "text", "text": WRITTEN[:9]}, {"type": "text", "text": WRITTEN[9:]}]},
    WRITTEN,
]


@every("response", RESPONSES)
def test_a_response_is_read_whoever_made_the_object(response: Any) -> None:
    for adapter in TEXT_MODES:
        assert adapter.extract_tool_call(response) == CALL


@every("response", [None, 5, {}, {"choices": []}, object()])
def test_what_is_no_response_is_refused(response: Any) -> None:
    with pytest.raises(TypeError, match="cannot read a response of type"):
        ParsedAdapter().extract_tool_call(response)


NATIVE_RESPONSES: list[tuple[Any, Payload | None]] = [
    (completion(None, tool_calls=[native_call('{"query": "python help"}')]), CALL),
    (ChatCompletion.model_validate(completion(None, tool_calls=[native_call('{"query": "python help"}')])), CALL),
    (completion("Wait.", tool_calls=[native_call('{"query": "python help"}'), native_call("{}")]), CALL),
    (completion(None, tool_calls=[native_call("")]), {"tool": "web_search", "arguments": {}}),
    (completion(None, tool_calls=[native_call('{"query": ')]), {"tool": "web_search", "arguments": '{"query": '}),
    ({"message": {"content": "", "tool_calls": [native_call({"query": "python help"})]}}, CALL),
    ({"message": {"content": "", "tool_calls": [native_call(None)]}}, {"tool": "web_search", "arguments": {}}),
    (
        completion(None, tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}]),
        {"tool": "patch", "arguments": {"input": "*** x"}},
    ),
    (completion("It is sunny.", tool_calls=None), {"answer": "It is sunny."}),
    (completion('{"tool": "rm", "arguments": {}}'), {"answer": '{"tool": "rm", "arguments": {}}'}),
    (completion(None, tool_calls=None), None),
    (completion("", tool_calls=[]), None),
]


@every(("response", "payload"), NATIVE_RESPONSES)
def test_native_calls_come_before_content_and_content_is_the_answer(response: Any, payload: Payload | None) -> None:
    assert NativeToolAdapter().extract_tool_call(response) == payload


def test_a_native_call_that_comes_in_a_text_mode_is_one() -> None:
    whole = completion("Wait.", tool_calls=[native_call('{"query": "python help"}')])
    cut = completion("Wait.", tool_calls=[native_call('{"query": ')])
    for adapter in TEXT_MODES:
        assert adapter.extract_tool_call(whole) == CALL
        assert adapter.extract_tool_call(cut) is None


OBJECTS: list[tuple[str, dict[str, Any] | None]] = [
    ('{"a": 1}', {"a": 1}),
    ('Sure:\n```json\n{"a": {"b": [1, "}"]}}\n```\nDone.', {"a": {"b": [1, "}"]}}),
    ('{x} {"a": 1} {"b": 2}', {"a": 1}),
    ("{} {", {}),
    ('{"a": NaN}', None),
    ('{"a": 1', None),
    ("nothing", None),
    ("{" * 100 + '{"a": 1}', None),  # more braces than are tried
    ('{"a":' * 5000, None),
]


@every(("text", "found"), OBJECTS)
def test_the_first_whole_object_of_a_text_is_found(text: str, found: dict[str, Any] | None) -> None:
    assert parse_json_response(text) == found
