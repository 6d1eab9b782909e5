"""Payloads in a streamed text: events as they come, the same however the text is cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from streams import chat, chat_chunk, sse

from streamtools import Event, Limits, ReasoningDelta, StreamDecoder, TextDelta, ToolCallValidated, Turn, parse, tool
from streamtools.events import ToolCallDelta
from streamtools.modes import (
    JSONObjectAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    StreamingAdapter,
    ValidatedAdapter,
)
from streamtools.stages import StageList


@tool(effect="pure")
def get_weather(city: str, days: int = 1) -> str:
    """Weather."""
    return f"{city}: {days}"


TOOLS = [get_weather]
ADAPTERS: list[StreamingAdapter] = [
    OpenAIStructuredAdapter(strict=False),
    JSONObjectAdapter(),
    ValidatedAdapter(),
    ParsedAdapter(),
]
CALL = '{"tool": "get_weather", "arguments": {"city": "Par\\u0069s", "days": 2}}'


def read(text: str, size: int, stages: StageList | None = None, finish: str | None = "stop") -> Turn:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return parse(chat(pieces, finish=finish), tools=TOOLS, stages=stages or ValidatedAdapter().stages())


def told(turn: Turn) -> dict[str, Any]:
    """What a turn says, without the ids that are made up."""
    return {
        "parts": [(part.kind, part.text) for part in turn.parts],
        "calls": [(call.name, call.arguments_text, call.arguments, call.status, call.problem) for call in turn.calls],
        "finish": turn.finish,
        "warnings": [warning.code for warning in turn.warnings],
    }


def every_way(text: str) -> dict[str, Any]:
    """What a text amounts to, which has to be the same token by token and whole."""
    whole = told(read(text, len(text) or 1))
    for size in (1, 2, 3, 7, 20):
        assert told(read(text, size)) == whole
    return whole


def text(*pieces: str) -> list[tuple[str, str]]:
    return [("text", piece) for piece in pieces]


CASES: list[tuple[str, list[tuple[str, str]]]] = [
    (CALL, [("call", "")]),
    (f'{{"response": {CALL}}}\n', [("call", "")]),
    (f"Let me look.\n{CALL}", [*text("Let me look.\n"), ("call", "")]),
    (f"One moment: ```json\n{CALL}\n```\n", [*text("One moment: "), ("call", "")]),
    (f"\n\n{CALL} Then I go on.", [("call", ""), *text(" Then I go on.")]),
    (f'{{"scratchpad": "Where?\\nThere.", {CALL[1:]}', [("reasoning", "Where?\nThere."), ("call", "")]),
    (f'{CALL[:-1]}, "scratchpad": "Done."}}', [("call", ""), ("reasoning", "Done.")]),
    ('{"answer": "It is \\"sunny\\" \\ud83d\\ude00"}', text('It is "sunny" 😀')),
    ('Well: {"answer": "42"} Bye.', text("Well: ", "42", " Bye.")),
    ('{"scratchpad": "s", "answer": "a"}', [("reasoning", "s"), *text("a")]),
    ('{"answer": "a", "scratchpad": "s"}', [*text("a"), ("reasoning", "s")]),
    ('{"answer": [1, "b"]}', text('[1, "b"]')),
    ('{"answer": ""}', text("")),
    ('{"scratchpad": "s"}', [("reasoning", "s")]),
    ("Plain text, in {braces}, and `code`.", text("Plain text, in {braces}, and `code`.")),
    ('See {"a": {"tool": "get_weather"}}.', text('See {"a": {"tool": "get_weather"}}.')),
    ("```python\nx = {}\n``` that was it", text("```python\nx = {}\n``` that was it")),
    ("```", text("```")),
    ('```json\n{"a": 1}\n```', text('```json\n{"a": 1}\n```')),
    ('{"scratchpad": "s", "answer": nope}', [("reasoning", "s"), *text(', "answer": nope}')]),
    ('{"tool": "get_weather", "arguments": {"city": tru}}', [("call", "")]),
    ("   ", text("   ")),
    (" " * 5000 + "x", text(" " * 5000 + "x")),
    (" " * 5000 + '{"answer": "a"}', text(" " * 5000, "a")),
    ('{"answer": "cut he', text("cut he")),
    ('{"answer": "broken \\x"} and on', text("broken ", '\\x"} and on')),
    ('{"scratchpad": "cut he', [("reasoning", "cut he")]),
    ('{"answer": "a", "scratch', text("a")),
    ("It ends with ``", text("It ends with ``")),
    ('{"tool": "get_wea', text('{"tool": "get_wea')),
]


@every(("written", "parts"), CASES)
def test_a_text_becomes_these_parts_however_it_is_cut(written: str, parts: list[tuple[str, str]]) -> None:
    assert every_way(written)["parts"] == parts


@every("adapter", ADAPTERS)
def test_a_stream_and_a_whole_response_give_equal_payloads(adapter: StreamingAdapter) -> None:
    for written, parts in CASES:
        turn = read(written, 1, adapter.stages())
        whole = adapter.extract_tool_call(written)
        if whole is not None and "answer" in whole and [kind for kind, _ in parts].count("text") > 1:
            continue  # prose around an answer is part of a turn's text
        if whole is not None and not isinstance(whole.get("answer", ""), str):
            whole["answer"] = json.dumps(whole["answer"])  # a turn has it as it is written
        assert adapter.extract_tool_call(turn) == whole


def test_a_call_is_one_like_a_native_one() -> None:
    events = decode(chat(list(f"Wait. {CALL}"), finish="stop"))
    kinds = [type(event).__name__ for event in events if not isinstance(event, (TextDelta, ToolCallDelta))]
    assert kinds == [
        *("StreamStart", "TextStart", "TextEnd"),
        *("ToolCallStart", "ToolCallEnd", "ToolCallValidated", "StreamEnd"),
    ]
    (ready,) = [event for event in events if isinstance(event, ToolCallValidated)]
    assert ready.call.arguments == {"city": "Paris", "days": 2}
    assert ready.call.call_id_synthesized
    native = decode(chat(calls=[("c", "get_weather", '{"city": "Paris", "days": 2}')]))
    (same,) = [event for event in native if isinstance(event, ToolCallValidated)]
    assert same.invocation == ready.invocation


def decode(body: list[bytes], stages: StageList | None = None) -> list[Event]:
    decoder = StreamDecoder(tools=TOOLS, stages=stages or ValidatedAdapter().stages())
    return [event for chunk in body for event in decoder.feed(chunk)] + list(decoder.finish())


def test_an_answer_and_a_scratchpad_are_told_as_they_come() -> None:
    decoder = StreamDecoder(tools=TOOLS, stages=ValidatedAdapter().stages())
    for piece, told_now in [
        ('{"scratch', []),
        ('pad": "Hm', [ReasoningDelta("Hm")]),
        (". Ah", [ReasoningDelta(". Ah")]),
        (".\\", [ReasoningDelta(".")]),
        ('n", "ans', [ReasoningDelta("\n")]),
        ('wer": "It', [TextDelta("It")]),
        (" is", [TextDelta(" is")]),
        ("\\ud83d", []),
        ("\\ude00", [TextDelta("😀")]),
    ]:
        events = decoder.feed(sse([chat_chunk({"content": piece})])[0])
        assert [event for event in events if isinstance(event, (TextDelta, ReasoningDelta))] == told_now


# -- what was cut, or is wrong, does not run ----------------------------------------------------------------------


@every("finish", ["stop", "length", None])
@every("wrapped", [False, True])
def test_a_payload_that_was_cut_anywhere_is_never_dispatchable(finish: str | None, wrapped: bool) -> None:
    written = f'{{"response": {CALL}}}' if wrapped else CALL
    for end in range(len(written)):
        turn = read(written[:end], 5, finish=finish)
        assert [call for call in turn.calls if call.dispatchable or call.status == "ready"] == []
        assert ValidatedAdapter().extract_tool_call(turn) is None
    assert [call.dispatchable for call in read(written, 5, finish=finish).calls] == [finish == "stop"]


@every("after", ["", "\n", "``", " and on", "\n```\nand on", "}", ', "tool": "other"}'])
@every("fence", ["", "```json\n", "```"])
def test_a_whole_payload_is_whole_whatever_follows(fence: str, after: str) -> None:
    assert [call[3] for call in every_way(fence + CALL + after)["calls"]] == ["ready"]


SPOILED = [
    CALL[:-1] + ", }",
    CALL[:-1] + ', "tool": "other"}',
    CALL[:-1] + ', "arguments": {}}',
    CALL[:-1] + ', "scratchpad": nonsense}',
    CALL[:-1] + ' "answer": "x"}',
    CALL[:-1] + "]",
    CALL.replace("2}", "2]"),
]


@every("written", SPOILED)
def test_a_payload_that_is_broken_behind_its_call_does_not_run(written: str) -> None:
    (call,) = every_way(written)["calls"]
    assert call[3] == "truncated"


def test_only_the_first_payload_of_a_text_counts() -> None:
    """A model that goes on by itself has invented the result that its next call rests on."""
    turn = read(f"{CALL}\nObservation: 9\n{CALL}", 4)
    assert len(turn.calls) == 1
    assert turn.text == f"\nObservation: 9\n{CALL}"


def test_limits_bound_what_is_held() -> None:
    limits = Limits(max_argument_bytes=100)
    stages = ValidatedAdapter().stages()
    written = '{"arguments": {"city": "' + "x" * 200 + '"}, "tool": "get_weather"}'
    turn = parse(chat([written], finish="stop"), tools=TOOLS, stages=stages, limits=limits)
    assert (turn.calls, turn.text) == ((), written)


# -- properties --------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(st.text('{}[]",:\\`antols \nu12', max_size=60), st.integers(1, 7))
def test_no_text_breaks_anything(written: str, size: int) -> None:
    for prefix in ("", '{"tool": "get_weather", "arguments": ', '{"answer": "', '{"scratchpad": '):
        turn = read(prefix + written, size)
        assert told(turn) == told(read(prefix + written, len(prefix + written) or 1))
        assert turn.error is None
        ValidatedAdapter().extract_tool_call(prefix + written)


def test_time_is_linear_in_the_text() -> None:
    """A long text in tiny pieces takes seconds if anything is read twice."""
    written = '{"tool": "get_weather", "arguments": {"city": "' + "x" * 60_000 + '"}}'
    decoder = StreamDecoder(tools=TOOLS, stages=ValidatedAdapter().stages())
    for at in range(0, len(written), 3):
        decoder.feed({"choices": [{"index": 0, "delta": {"content": written[at : at + 3]}}]})
    decoder.feed(chat_chunk({}, "stop"))
    (ready,) = [event for event in decoder.finish() if isinstance(event, ToolCallValidated)]
    assert ready.call.arguments == {"city": "x" * 60_000}
