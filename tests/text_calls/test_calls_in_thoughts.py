"""A call inside a thought is a draft, unless the model never closed the thought, and it was asked for."""

from __future__ import annotations

from dialect_cases import CASES, TOOLS, WHOLE
from profiles import every, mostly_thorough
from sansio import checked, codes, snapshot
from streams import chat

from streamtools import Turn, parse
from streamtools.stages import DEFAULT, StageList, split_think, text_calls

CALL = WHOLE["hermes"].text
BEGINNINGS = ["<think>so ", "x <think>so "]
"""The wire splits the first off, the stage the second."""
OTHER = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'


def stages(dialect: str, *, run: bool) -> StageList:
    calls = text_calls(dialect, in_unclosed_thoughts=run)
    return DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", calls)


def read(text: str, *, run: bool, dialect: str = "hermes", finish: str | None = "stop", size: int = 0) -> Turn:
    deltas = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    return parse(b"".join(chat(deltas, finish=finish)), tools=TOOLS, stages=stages(dialect, run=run))


@every("before", BEGINNINGS)
@every("dialect", mostly_thorough(CASES, 8))
def test_a_call_at_the_end_of_an_unclosed_thought_runs_if_asked_for(dialect: str, before: str) -> None:
    case = WHOLE[dialect]
    text = f"{before}\n{case.text}\n"
    turn = read(text, run=True, dialect=dialect)
    assert [(call.name, call.arguments, call.dispatchable) for call in turn.calls] == [
        (case.calls[0].name, case.calls[0].arguments, True)
    ]
    assert turn.finish == "tool_calls"
    assert turn.reasoning == text.partition("<think>")[2], "it was thought, and stays so"
    assert "call_in_reasoning" in codes(turn)
    checked(turn)
    for size in (1, 3):
        assert snapshot(read(text, run=True, dialect=dialect, size=size)) == snapshot(turn)


@every("before", BEGINNINGS)
def test_without_asking_it_is_reasoning_and_a_warning_names_it(before: str) -> None:
    turn = read(before + CALL, run=False)
    assert (turn.calls, turn.finish) == ((), "stop")
    assert [w.detail for w in turn.warnings if w.code == "call_in_reasoning"] == ["get_weather"]


@every("before", BEGINNINGS)
@every(
    "rest",
    [
        f"{CALL}</think>",
        f"{CALL}</think>\n",
        f"{CALL}</think>Done.",
        f"{CALL} or rather not",
        "nothing to call",
    ],
)
def test_a_draft_never_runs(before: str, rest: str) -> None:
    turn = read(before + rest, run=True)
    assert (turn.calls, turn.finish) == ((), "stop")
    assert "call_in_reasoning" not in codes(turn)


@every("before", BEGINNINGS)
def test_the_call_behind_the_thought_is_the_one(before: str) -> None:
    turn = read(f"{before}{CALL}</think>{OTHER}", run=True)
    assert [call.name for call in turn.calls] == ["get_time"]


def test_a_native_call_behind_a_thought_is_the_one() -> None:
    body = chat([f"<think>{CALL}"], [("a", "get_time", "{}")])
    turn = parse(body, tools=TOOLS, stages=stages("hermes", run=True))
    assert [(call.name, call.call_id) for call in turn.calls] == [("get_time", "a")]


def test_a_thought_in_a_field_of_its_own_may_have_been_left_open() -> None:
    body = [{"reasoning_content": f"so {CALL}"}]
    for text, names in ([], ["get_weather"]), ([{"content": "Done."}], []):
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in [*body, *text]]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        turn = parse([*chunks, end], tools=TOOLS, stages=stages("hermes", run=True))
        assert [call.name for call in turn.calls] == names


@every(
    ("dialect", "opener"),
    [("gemma", "<|channel>thought\n"), ("cohere", "<|START_THINKING|>"), ("kimi_k3", "<|open|>think<|sep|>")],
)
def test_the_same_holds_for_thoughts_that_a_dialect_marks(dialect: str, opener: str) -> None:
    text = f"{opener}so {WHOLE[dialect].text}"
    for size in (0, 1):
        turn = read(text, run=True, dialect=dialect, size=size)
        assert [(call.name, call.dispatchable) for call in turn.calls] == [("get_weather", True)]
        assert read(text, run=False, dialect=dialect, size=size).calls == ()
        assert {"unclosed_think", "call_in_reasoning"} <= set(codes(turn))
