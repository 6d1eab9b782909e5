"""A tool reads an argument while the model writes it, and takes effect only with its whole call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from growing.written import WIRES, Notes, Row, began_early, chat_end, cut, on_chat, seen_of
from profiles import every, thorough_unless

from streamtools import Limits

pytestmark = pytest.mark.anyio

TEXTS = {
    "plain": "Hello, you",
    "escapes": 'a "quoted"\n\tline \\ and / \u0007 more',
    "a pair": "grin \U0001f600 and \U0001f680",
    "another alphabet": "žluťoučký kůň 漢字",
    "empty": "",
}


def _written(text: str, *, is_ascii: bool) -> str:
    return json.dumps({"path": "a.txt", "text": text}, ensure_ascii=is_ascii)


@every("case, wire", thorough_unless(lambda row: row[1] == "chat", [(t, w) for t in TEXTS for w in WIRES]))
async def test_pieces_cut_anywhere_are_the_text(case: str, wire: str) -> None:
    for is_ascii in (True, False):
        written = _written(TEXTS[case], is_ascii=is_ascii)
        for size in (1, 2, 3, 5, len(written)):
            notes = Notes()
            seen, events, _ = await seen_of(WIRES[wire](cut(written, size)), notes.tools())
            assert ("".join(notes.read), notes.files, notes.drafts) == (TEXTS[case], {"a.txt": TEXTS[case]}, set())
            assert (seen.outcome, seen.attempts, notes.aborted) == ("ok", 1, 0)
            if size < 5:
                assert began_early(events)
                assert len(TEXTS[case]) < 5 or len(notes.read) > 1


async def test_a_text_is_the_same_split_in_two_at_every_place() -> None:
    written = _written(TEXTS["a pair"] + TEXTS["escapes"], is_ascii=True)
    for at in range(len(written)):
        notes = Notes()
        seen, _, _ = await seen_of(WIRES["chat"]([written[:at], written[at:]]), notes.tools())
        assert (seen.outcome, seen.attempts, "".join(notes.read)) == ("ok", 1, TEXTS["a pair"] + TEXTS["escapes"]), at


async def test_items_come_as_they_close_each_one_validated() -> None:
    items = [{"name": "a", "size": 1}, {"name": "}]", "size": 22}, {"name": "c"}]
    written = json.dumps({"of": "x", "items": items})
    for wire in WIRES.values():
        for size in (1, 4, len(written)):
            notes = Notes()
            seen, events, _ = await seen_of(wire(cut(written, size), "rows"), notes.tools())
            assert notes.read == [Row(name="a", size=1), Row(name="}]", size=22), Row(name="c")]
            assert (seen.value, began_early(events)) == (3, True)


WHOLE = '{"path": "p", "text": "Hello, you"}'
UNDONE: dict[str, tuple[list[Any], str, dict[str, Any]]] = {
    "cut for its length": ([*on_chat(cut(WHOLE[:-5], 3)), *chat_end("length")], "arguments were cut", {}),
    "whole, in an answer cut for its length": ([*on_chat(cut(WHOLE, 3)), *chat_end("length")], "ended by length", {}),
    "a filter's verdict": ([*on_chat(cut(WHOLE, 3)), *chat_end("content_filter")], "content_filter", {}),
    "drained": (on_chat(cut(WHOLE[:-5], 3)), "cut", {"on_source_error": "drain"}),
    "another argument": ([*on_chat(cut(WHOLE[:-1] + ', "b": 1}', 3)), *chat_end()], "b: is not an argument", {}),
    "broken behind it": ([*on_chat(cut(WHOLE + "}", 3)), *chat_end()], "no valid JSON", {}),
    "a budget of tokens": ([*on_chat(cut(WHOLE, 3)), *chat_end()], "max_argument_bytes", {"limits": 24}),
}


@every("case", UNDONE)
async def test_a_call_that_is_void_in_the_end_is_undone_and_says_that_it_ran(case: str) -> None:
    items, why, options = UNDONE[case]
    options = {key: Limits(max_argument_bytes=value) if key == "limits" else value for key, value in options.items()}
    notes = Notes()
    if options.get("on_source_error"):
        with pytest.raises(Exception, match="ended before"):
            await seen_of(items, notes.tools(), **options)
    else:
        seen, events, _ = await seen_of(items, notes.tools(), **options)
        assert (seen.outcome, seen.attempts, seen.duration is not None) == ("cancelled", 1, True)
        assert all([why in str(seen.error), "was undone" in seen.model_content, began_early(events)]), seen.error
        assert "may have taken effect" not in seen.model_content
    assert (notes.files, notes.drafts, notes.aborted) == ({}, set(), 1)


AGAIN = {
    "its key comes a second time": WHOLE[:-1] + ', "text": "other"}',
    "another argument behind it": WHOLE[:-1] + ', "mode": "add"}',
    "its key comes again, with as much": WHOLE[:-1] + ', "text": "Hello, you"}',
}


@every("case", AGAIN)
async def test_what_turns_out_otherwise_is_undone_and_the_whole_given_to_another_attempt(case: str) -> None:
    notes = Notes()
    seen, _, _ = await seen_of(WIRES["chat"](cut(AGAIN[case], 3)), notes.tools())
    text = "other" if "other" in AGAIN[case] else "Hello, you"
    assert (seen.outcome, notes.files, notes.drafts) == ("ok", {"p": text}, set())
    assert (seen.attempts, notes.aborted) == ((1, 0) if "again" in case and notes.aborted == 0 else (2, 1))


async def test_a_line_break_within_the_text_is_given_at_the_end() -> None:
    notes = Notes()
    seen, events, _ = await seen_of(WIRES["chat"](cut('{"path": "p", "text": "a\nbc"}', 3)), notes.tools())
    assert (seen.outcome, "".join(notes.read), notes.files["p"]) == ("ok", "a\nbc", "a\nbc")
    assert (began_early(events), notes.aborted) == (True, 0)


async def test_an_item_that_does_not_fit_stops_the_body_at_once() -> None:
    notes = Notes()
    pieces = cut('{"of": "x", "items": [{"name": "a"}, {"name": 7}, {"name": "b"}', 4)
    items: list[Any] = [*on_chat(pieces, "rows"), lambda: notes.read.append("later"), *on_chat(["]}"])[1:]]
    seen, _, _ = await seen_of([*items, *chat_end()], notes.tools())
    assert notes.read == [Row(name="a"), "later"]
    assert (seen.outcome, "items[1].name: should be a valid string" in str(seen.error)) == ("cancelled", True)


async def test_a_text_is_given_up_as_soon_as_it_is_too_long() -> None:
    notes = Notes()
    seen, _, _ = await seen_of(WIRES["chat"](cut(json.dumps({"text": "ab" * 40}), 3), "say"), notes.tools())
    assert (seen.outcome, len("".join(notes.read)) <= 40, "at most 40" in str(seen.error)) == ("cancelled", True, True)
