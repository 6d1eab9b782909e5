"""Payloads in a streamed text: events as they come, the same however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from streams import anthropic, chat, chat_chunk, sse

from streamtools import Event, Limits, ReasoningDelta, StreamDecoder, TextDelta, ToolCallValidated, Turn, parse, tool
from streamtools.events import ToolCallDelta, ToolCallEnd, ToolCallStart
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    Payload,
    StreamingAdapter,
    ValidatedAdapter,
)
from streamtools.stages import StageList, split_think


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


@pytest.mark.parametrize(("written", "parts"), CASES, ids=range(len(CASES)))
def test_a_text_becomes_these_parts_however_it_is_cut(written: str, parts: list[tuple[str, str]]) -> None:
    assert every_way(written)["parts"] == parts


@pytest.mark.parametrize("adapter", ADAPTERS)
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


def test_the_preview_of_the_arguments_grows_with_every_delta() -> None:
    previews = []
    for event in decode(chat(list(CALL), finish="stop")):
        if isinstance(event, ToolCallDelta):
            previews.append(json.dumps(event.preview))
    assert previews[0] == "{}"
    assert '{"city": "Pa"}' in previews
    assert previews[-1] == '{"city": "Paris", "days": 2}'
    assert len(previews) == len('{"city": "Par\\u0069s", "days": 2}')


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


def test_text_before_the_payload_is_not_held() -> None:
    decoder = StreamDecoder(tools=TOOLS, stages=ValidatedAdapter().stages())
    for piece in ("Let", " me ", "look", "."):
        events = decoder.feed(sse([chat_chunk({"content": piece})])[0])
        assert [event.text for event in events if isinstance(event, TextDelta)] == [piece]


# -- what was cut, or is wrong, does not run ----------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["stop", "length", None])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_payload_that_was_cut_anywhere_is_never_dispatchable(finish: str | None, wrapped: bool) -> None:
    written = f'{{"response": {CALL}}}' if wrapped else CALL
    for end in range(len(written)):
        turn = read(written[:end], 5, finish=finish)
        assert [call for call in turn.calls if call.dispatchable or call.status == "ready"] == []
        assert ValidatedAdapter().extract_tool_call(turn) is None
    assert [call.dispatchable for call in read(written, 5, finish=finish).calls] == [finish == "stop"]


@pytest.mark.parametrize("after", ["", "\n", "``", " and on", "\n```\nand on", "}", ', "tool": "other"}'])
@pytest.mark.parametrize("fence", ["", "```json\n", "```"])
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


@pytest.mark.parametrize("written", SPOILED)
def test_a_payload_that_is_broken_behind_its_call_does_not_run(written: str) -> None:
    (call,) = every_way(written)["calls"]
    assert call[3] == "truncated"


def test_bad_arguments_are_rejected_as_native_ones_are() -> None:
    arguments = '{"city": 5, "days": "x"}'
    in_text = read(f'{{"tool": "get_weather", "arguments": {arguments}}}', 3).calls
    native = parse(chat(calls=[("c", "get_weather", arguments)]), tools=TOOLS).calls
    assert [(call.status, call.problem) for call in in_text] == [("invalid", "invalid_arguments")]
    assert [(call.status, call.problem) for call in native] == [("invalid", "invalid_arguments")]
    errors = [
        [str(event.error) for event in decode(body) if isinstance(event, ToolCallEnd)]
        for body in (
            chat([f'{{"tool": "get_weather", "arguments": {arguments}}}'], finish="stop"),
            chat(calls=[("c", "get_weather", arguments)]),
        )
    ]
    assert errors[0] == errors[1]


def test_a_rejected_call_still_gives_its_payload_for_the_retry() -> None:
    turn = read('{"tool": "get_weather", "arguments": {"city": 5}}', 3)
    adapter = ValidatedAdapter()
    payload = adapter.extract_tool_call(turn)
    assert payload == {"tool": "get_weather", "arguments": {"city": 5}}
    verdict = adapter.validate_tool_call(payload, {"get_weather": get_weather})
    assert verdict.error_message == "ArgValidationError: city\n  Input should be a valid string"


def test_only_the_first_payload_of_a_text_counts() -> None:
    """A model that goes on by itself has invented the result that its next call rests on."""
    turn = read(f"{CALL}\nObservation: 9\n{CALL}", 4)
    assert len(turn.calls) == 1
    assert turn.text == f"\nObservation: 9\n{CALL}"


def test_a_text_without_payload_is_told_so() -> None:
    assert every_way("I would rather not.")["warnings"] == ["no_payload"]
    assert every_way('{"answer": "42"}')["warnings"] == []


def test_limits_bound_what_is_held() -> None:
    limits = Limits(max_argument_bytes=100)
    stages = ValidatedAdapter().stages()
    written = '{"arguments": {"city": "' + "x" * 200 + '"}, "tool": "get_weather"}'
    turn = parse(chat([written], finish="stop"), tools=TOOLS, stages=stages, limits=limits)
    assert (turn.calls, turn.text) == ((), written)


# -- with the rest of the library --------------------------------------------------------------------------------


def test_native_calls_may_come_beside_payloads() -> None:
    body = chat([CALL], [("c1", "get_weather", '{"city": "Rome"}')])
    turn = parse(body, tools=TOOLS, stages=ValidatedAdapter().stages())
    assert [call.arguments for call in turn.calls] == [{"city": "Paris", "days": 2}, {"city": "Rome"}]


def test_every_wires_text_is_read() -> None:
    turn = parse(anthropic([CALL[:9], CALL[9:]], stop="end_turn"), tools=TOOLS, stages=ValidatedAdapter().stages())
    assert turn.wire == "anthropic.messages"
    assert [call.dispatchable for call in turn.calls] == [True]
    assert turn.finish == "tool_calls"


def test_a_payload_may_stand_in_any_of_several_texts() -> None:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c", "usage": {}}
    payloads: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, written in enumerate((" ", "A { brace", CALL, CALL)):
        payloads.append({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}})
        for at in range(0, len(written), 5):
            delta = {"type": "text_delta", "text": written[at : at + 5]}
            payloads.append({"type": "content_block_delta", "index": index, "delta": delta})
        payloads.append({"type": "content_block_stop", "index": index})
    payloads += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    turn = parse(payloads, tools=TOOLS, stages=ValidatedAdapter().stages())
    parts = [(part.kind, part.text) for part in turn.parts]
    assert parts == [*text(" ", "A { brace"), ("call", ""), *text(CALL)]
    assert [call.dispatchable for call in turn.calls] == [True]


def test_reasoning_between_tags_is_split_off_before() -> None:
    stages = ValidatedAdapter().stages().insert_before("payloads", split_think())
    turn = parse(chat([f"So. <think>{CALL}</think>", '{"answer": "No."}'], finish="stop"), tools=TOOLS, stages=stages)
    assert (turn.calls, turn.reasoning, turn.text) == ((), CALL, "So. No.")


def test_native_mode_leaves_text_alone() -> None:
    turn = parse(chat([CALL], finish="stop"), tools=TOOLS, stages=NativeToolAdapter().stages())
    assert (turn.calls, turn.text) == ((), CALL)


def test_parsed_mode_lets_pass_what_validation_refuses() -> None:
    written = '{"tool": "get_weather", "arguments": {"city": 5}}'
    body = chat([written], finish="stop")
    (ready,) = [e for e in decode(body, ParsedAdapter().stages()) if isinstance(e, ToolCallValidated)]
    assert (ready.invocation.kwargs, ready.invocation.validated) == ({"city": 5}, False)
    assert not [e for e in decode(body) if isinstance(e, ToolCallValidated)]


def test_bare_names_are_not_validated_in_any_mode() -> None:
    for adapter in ADAPTERS:
        turn = parse(chat([CALL], finish="stop"), tools=["get_weather"], stages=adapter.stages())
        assert [call.status for call in turn.calls] == ["ready"]


def test_an_unknown_tool_is_announced_so_that_the_model_hears_of_it() -> None:
    events = decode(chat(['{"tool": "rm", "arguments": {}}'], finish="stop"))
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["rm"]


# -- properties --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=8), JSON, max_size=3)
SCRATCHPAD = st.fixed_dictionaries({}, optional={"scratchpad": st.text(max_size=20)})
DECIDED = st.fixed_dictionaries({"tool": st.from_regex(r"\A[a-z_]{1,8}\Z"), "arguments": ARGUMENTS}) | (
    st.fixed_dictionaries({"answer": st.text(max_size=30)})
)
PROSE = st.text(st.characters(exclude_characters="{`<", exclude_categories=["Cs"]), max_size=12)


@settings(derandomize=True, deadline=None, max_examples=examples(120))
@given(DECIDED, SCRATCHPAD, st.booleans(), st.booleans(), st.integers(1, 9), st.booleans())
def test_what_was_written_is_what_is_read(
    decided: Payload, scratchpad: Payload, ascii_only: bool, wrapped: bool, size: int, scratchpad_first: bool
) -> None:
    payload = {**scratchpad, **decided} if scratchpad_first else {**decided, **scratchpad}
    written = json.dumps({"response": payload} if wrapped else payload, ensure_ascii=ascii_only)
    adapter = ValidatedAdapter()
    expected = json.loads(json.dumps(payload))
    assert adapter.extract_tool_call(written) == expected
    expected = {key: value for key, value in expected.items() if key != "scratchpad" or value}  # an empty one is none
    turn = read(written, size)
    assert adapter.extract_tool_call(turn) == expected
    assert told(turn) == told(read(written, len(written)))


@settings(derandomize=True, deadline=None, max_examples=examples(120))
@given(PROSE, DECIDED, PROSE, st.booleans(), st.data())
def test_prose_around_a_payload_stays_text(before: str, payload: Payload, after: str, fenced: bool, data: Any) -> None:
    inside = json.dumps(payload)
    written = before + (f"```json\n{inside}\n```" if fenced else inside) + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    pieces = [written[start:end] for start, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    stages = ValidatedAdapter().stages()
    turn = parse(chat(pieces, finish="stop"), stages=stages)
    assert told(turn) == told(parse(chat([written], finish="stop"), stages=stages))
    kept = ["" if piece.isspace() else piece for piece in (before, after)]
    assert turn.text == kept[0] + payload.get("answer", "") + kept[1]


@settings(derandomize=True, deadline=None, max_examples=examples(300))
@given(st.text('{}[]",:\\`antols \nu12', max_size=60), st.integers(1, 7))
def test_no_text_breaks_anything(written: str, size: int) -> None:
    for prefix in ("", '{"tool": "get_weather", "arguments": ', '{"answer": "', '{"scratchpad": '):
        turn = read(prefix + written, size)
        assert told(turn) == told(read(prefix + written, len(prefix + written) or 1))
        assert turn.error is None
        ValidatedAdapter().extract_tool_call(prefix + written)


def test_time_is_linear_in_the_text() -> None:
    """A text of a million characters in tiny pieces takes seconds if anything is read twice."""
    written = '{"tool": "get_weather", "arguments": {"city": "' + "x" * 300_000 + '"}}'
    decoder = StreamDecoder(tools=TOOLS, stages=ValidatedAdapter().stages())
    for at in range(0, len(written), 3):
        decoder.feed({"choices": [{"index": 0, "delta": {"content": written[at : at + 3]}}]})
    decoder.feed(chat_chunk({}, "stop"))
    (ready,) = [event for event in decoder.finish() if isinstance(event, ToolCallValidated)]
    assert ready.call.arguments == {"city": "x" * 300_000}
