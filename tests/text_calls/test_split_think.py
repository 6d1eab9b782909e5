"""Reasoning between tags, anywhere in the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from sansio import byte_by_byte, checked, snapshot
from streams import chat, chat_chunk, sse

from streamtools import Event, Limits, ReasoningDelta, TextDelta, Turn, parse
from streamtools.events import ReasoningEnd, ReasoningStart, TextEnd, TextStart
from streamtools.stages import DEFAULT, StageList, split_think
from streamtools.tools import Toolset


def with_think(**options: Any) -> StageList:
    return DEFAULT.insert_before("accumulate", split_think(**options))


def read(deltas: Iterable[str], *, finish: str | None = "stop", **options: Any) -> Turn:
    return parse(b"".join(chat([*deltas], finish=finish)), stages=with_think(**options))


def parts(turn: Turn) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in turn.parts]


SPLITS = {
    "in the middle": ("a <think>b</think> c", [("text", "a "), ("reasoning", "b"), ("text", " c")]),
    "at the end": ("a<think>b</think>", [("text", "a"), ("reasoning", "b")]),
    "twice": (
        "a<think>b</think>c<thinking>d</thinking>e",
        [("text", "a"), ("reasoning", "b"), ("text", "c"), ("reasoning", "d"), ("text", "e")],
    ),
    "one behind the other": (
        "x<think>a</think><think>b</think>",
        [("text", "x"), ("reasoning", "a"), ("reasoning", "b")],
    ),
    "other tags": (
        "x<reasoning>a</reasoning>[THINK]b[/THINK]",
        [("text", "x"), ("reasoning", "a"), ("reasoning", "b")],
    ),
    "blanks stay where they are": (
        "x\n<think>\n a \n</think>\n\ny",
        [("text", "x\n"), ("reasoning", "\n a \n"), ("text", "\n\ny")],
    ),
    "never closed": ("x<think>a\nb", [("text", "x"), ("reasoning", "a\nb")]),
    "cut in its closing tag": ("x<think>a</thin", [("text", "x"), ("reasoning", "a</thin")]),
    "cut in its opening tag": ("x<thin", [("text", "x<thin")]),
    "empty": ("x<think></think>y", [("text", "xy")]),
    "a closing tag alone": ("x</think>y", [("text", "x</think>y")]),
    "tags of another kind inside": (
        "x<think>a<thinking>b</thinking>[THINK]</think>y",
        [("text", "x"), ("reasoning", "a<thinking>b</thinking>[THINK]"), ("text", "y")],
    ),
    "a tag inside itself": (
        "x<think>a<think>b</think>c</think>",
        [("text", "x"), ("reasoning", "a<think>b"), ("text", "c</think>")],
    ),
    "nearly a tag": ("x <thinks> < think> <Think> [THIN", [("text", "x <thinks> < think> <Think> [THIN")]),
    "a tag behind the beginning of one": ("x<thi<think>a</th</think>", [("text", "x<thi"), ("reasoning", "a</th")]),
}  # fmt: skip


@every("name", SPLITS)
def test_a_block_is_split_off_however_it_is_cut(name: str) -> None:
    text, expected = SPLITS[name]
    whole = read([text])
    assert parts(whole) == expected
    checked(whole)
    assert snapshot(read(list(text))) == snapshot(whole)
    for size in (2, 3, 5, 7):
        body = b"".join(chat([text[at : at + size] for at in range(0, len(text), size)], finish="stop"))
        assert snapshot(parse(byte_by_byte(body), stages=with_think())) == snapshot(whole)


def test_a_block_that_opens_a_chat_response_is_still_given_back_as_it_was() -> None:
    turn = read(["<think>a</think>\n\nb <think>c</think>d"])
    assert parts(turn) == [("reasoning", "a"), ("text", "b "), ("reasoning", "c"), ("text", "d")]
    assert turn.messages()[0]["content"] == "<think>a</think>\n\nb d", "what was split off here is not sent back"


@every(
    ("tags", "text"),
    [
        (["think_more"], "x<think_more>a</think_more>y"),
        (["◁think▷"], "x◁think▷a◁/think▷y"),
        ("thought", "x<thought>a</thought>y"),
        ([("<|channel|>analysis<|message|>", "<|end|>")], "x<|channel|>analysis<|message|>a<|end|>y"),
        ([("{{", "}}"), "think"], "x{{a}}y"),
    ],
)
def test_tags_can_be_chosen(tags: Any, text: str) -> None:
    for deltas in ([text], list(text)):
        assert parts(read(deltas, tags=tags)) == [("text", "x"), ("reasoning", "a"), ("text", "y")]


@every("tags", [[], [""], [("a", "")], [("a", "a")]])
def test_what_is_no_tag_is_refused(tags: Any) -> None:
    with pytest.raises(ValueError, match="tag"):
        split_think(tags)


OPENED = {
    "the closing tag alone": (["a</think>b"], [("reasoning", "a"), ("text", "b")]),
    "any closing tag": (["a</thinking>b"], [("reasoning", "a"), ("text", "b")]),
    "another block later": (["a</think>b<think>c</think>"], [("reasoning", "a"), ("text", "b"), ("reasoning", "c")]),
    "nothing but reasoning": (["a"], [("reasoning", "a")]),
    "opened once more by the model": (
        ["a<thinking>b</think></thinking>c"],
        [("reasoning", "ab</think>"), ("text", "c")],
    ),
    "nothing at all": ([], []),
}  # fmt: skip


@every("name", OPENED)
def test_a_text_may_begin_inside_a_block_that_the_prompt_has_opened(name: str) -> None:
    deltas, expected = OPENED[name]
    assert parts(read(deltas, opened=True)) == expected
    assert parts(read([c for delta in deltas for c in delta], opened=True)) == expected


def test_a_block_that_the_wire_told_itself_is_over_when_the_text_begins() -> None:
    for first in (chat_chunk({"content": "<think>a</think>"}), chat_chunk({"reasoning_content": "a"})):
        turn = parse(sse([first, chat_chunk({"content": "b"}), chat_chunk({}, "stop")]), stages=with_think(opened=True))
        assert parts(turn) == [("reasoning", "a"), ("text", "b")]


def test_the_events_of_a_block_stand_between_those_of_the_text() -> None:
    chain = StageList([("split_think", split_think().build)]).build(Toolset(), Limits())
    state = {"citations": [1]}
    out: list[Event] = []
    chain.feed_all([TextStart(), TextDelta("a<think>b"), TextDelta("</think>c"), TextEnd(state)], out)
    assert out == [
        TextStart(), TextDelta("a"), TextEnd(), ReasoningStart(), ReasoningDelta("b"), ReasoningEnd(), TextStart(),
        TextDelta("c"), TextEnd(state),
    ]  # fmt: skip
    out.clear()
    chain.feed_all([TextStart(), TextDelta("<think>b</think>"), TextEnd()], out)
    assert out == [ReasoningStart(), ReasoningDelta("b"), ReasoningEnd()], "no text, no part of text"
    out.clear()
    chain.feed_all([TextStart(), TextDelta("<think>b</think>"), TextEnd(state), TextStart(), TextEnd(state)], out)
    assert out[3:] == [TextStart(), TextEnd(state), TextStart(), TextEnd(state)], "a text's state is not lost"
    out.clear()
    chain.feed_all([TextDelta("a<thi")], out)
    assert (out, chain.finish()) == ([TextStart(), TextDelta("a")], [TextDelta("<thi"), TextEnd()])


TAGS = [
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "[THINK]",
    "[/THINK]",
    "<",
    "</",
    "[",
    "think",
    ">",
    " ",
    "x",
]


@given(
    st.lists(st.sampled_from(TAGS) | st.text(max_size=3), max_size=20).map("".join), st.integers(1, 6), st.booleans()
)
@settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)
def test_any_text_in_any_pieces_is_told_once_and_in_order(text: str, size: int, opened: bool) -> None:
    text = "x" + text
    whole = read([text], opened=opened)
    assert snapshot(read([text[at : at + size] for at in range(0, len(text), size)], opened=opened)) == snapshot(whole)
    characters = iter(text)
    assert all(character in characters for _, told in parts(whole) for character in told)
    if opened:
        return
    if not any(tag in text for tag in ("<think>", "<thinking>", "<reasoning>", "[THINK]")):
        assert parts(whole) == [("text", text)]
