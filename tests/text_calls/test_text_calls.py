"""Calls in the text of a model, in every dialect: found however the text is cut, and nothing else changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from dialect_cases import CASES, FRAMED, HELD, TOOLS, WHOLE
from profiles import every, mostly_thorough
from sansio import check_turn
from streams import chat

from streamtools import Turn, parse, tool
from streamtools.stages import DEFAULT, DIALECTS, StageList, text_calls


def with_calls(dialect: str) -> StageList:
    return DEFAULT.insert_before("accumulate", text_calls(dialect))


def read(dialect: str, deltas: Sequence[str], finish: str | None = "stop") -> Turn:
    return parse(b"".join(chat(deltas, finish=finish)), tools=TOOLS, stages=with_calls(dialect))


def told(turn: Turn) -> list[tuple[str, Any, str | None]]:
    return [
        (call.name, call.problem or call.arguments, None if call.call_id_synthesized else call.call_id)
        for call in turn.calls
    ]


@every("dialect", CASES)
def test_a_text_is_read_as_its_dialect_says(dialect: str) -> None:
    for case in CASES[dialect]:
        turn = read(dialect, [case.text])
        assert (turn.text, told(turn)) == (case.said, [tuple(call) for call in case.calls]), case.name
        assert turn.finish == ("tool_calls" if case.calls else "stop"), case.name
        assert turn.complete
        assert all(call.dispatchable == (call.problem is None) for call in turn.calls), case.name
        check_turn(turn)


@every("dialect", mostly_thorough(CASES, 8))
@every("finish", ["stop", "length", None])
def test_wherever_a_text_ends_nothing_runs_that_is_not_whole(dialect: str, finish: str | None) -> None:
    case = WHOLE[dialect]
    for end in range(len(case.text)):
        turn = read(dialect, [case.text[:end]], finish)
        check_turn(turn)
        assert all((call.name, call.arguments) == case.calls[0][:2] for call in turn.calls if call.dispatchable)
        if turn.calls:  # of a section whose call has ended, the rest is text until it is whole
            assert case.text[:end].endswith(turn.text)
            assert not turn.text or turn.calls[0].status == "ready"
        elif dialect in FRAMED:
            assert case.text[:end].endswith(turn.text)
        else:
            assert turn.text == case.text[:end], "nothing is lost"
        assert turn.calls or turn.finish == finish


@every("dialect", mostly_thorough(CASES, 8))
def test_arguments_stream_as_they_come(dialect: str) -> None:
    from streamtools import StreamDecoder
    from streamtools.events import ToolCallDelta, ToolCallEnd

    stream = StreamDecoder(tools=TOOLS, stages=with_calls(dialect))
    seen: list[tuple[str, int]] = []
    for item in chat(list(WHOLE[dialect].text), finish="stop"):
        seen += [(type(event).__name__, len(getattr(event, "delta", ""))) for event in stream.feed(item)]
    seen += [(type(event).__name__, 0) for event in stream.finish()]
    deltas = [size for name, size in seen if name == ToolCallDelta.__name__]
    assert [name for name, _ in seen].count(ToolCallEnd.__name__) == 1
    if dialect in HELD:
        assert len(deltas) == 1, "nothing is known before the list has ended"
    else:
        assert len(deltas) > 5
        assert max(deltas) < 12


@every("dialect", mostly_thorough(CASES, 8))
def test_text_is_never_parsed_unless_it_is_asked_for(dialect: str) -> None:
    turn = parse(chat([WHOLE[dialect].text], finish="stop"), tools=TOOLS)
    assert (turn.text, turn.calls, turn.finish) == (WHOLE[dialect].text, (), "stop")


def test_only_a_finish_that_says_stop_is_changed() -> None:
    text = [WHOLE["hermes"].text]
    assert read("hermes", text, "stop").finish == "tool_calls"
    assert read("hermes", text, "length").finish == "length"
    assert [call.dispatchable for call in read("hermes", text, "length").calls] == [False]
    cut = read("hermes", text, None)
    assert (cut.finish, cut.complete, cut.calls[0].status, cut.calls[0].dispatchable) == (None, False, "ready", False)


@every("dialect", DIALECTS)
def test_the_example_of_a_dialect_is_a_call_in_it(dialect: str) -> None:
    @tool
    def f(a: int) -> int:
        """Return it."""
        return a

    chunks = chat([DIALECTS[dialect].example], finish="stop")
    turn = parse(chunks, tools=[f], stages=with_calls(dialect))
    assert ([(call.name, call.arguments, call.status) for call in turn.calls], turn.text) == (
        [("f", {"a": 1}, "ready")],
        "",
    )


def test_an_unknown_dialect_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"unknown dialect 'hermès'; known: hermes, qwen3_coder, llama3"):
        text_calls("hermès")


@every("text", ["a<|tool_call_end|>b", "a<|tool_call_end|><|tool_calls_section_end|>b"])
def test_an_orphan_is_dropped_with_one_warning_that_names_it(text: str) -> None:
    turn = read("kimi", [text])
    assert (turn.text, turn.finish) == ("ab", "stop")
    assert [(warning.code, warning.detail) for warning in turn.warnings] == [("stray_marker", "<|tool_call_end|>")]


def test_a_closing_marker_is_text_behind_an_opening_one_that_is_text() -> None:
    text = "from <|tool_calls_section_begin|> to <|tool_calls_section_end|>"
    assert (read("kimi", [text]).text, read("kimi", [text]).warnings) == (text, ())
