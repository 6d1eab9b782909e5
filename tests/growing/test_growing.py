"""A tool reads an argument while the model writes it, and takes effect only with its whole call."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from growing.written import WIRES, Notes, Row, began_early, chat_end, cut, on_chat, seen_of, steadily
from profiles import every, thorough_unless
from pydantic import AfterValidator
from streams import chat_chunk, pass_on, sse

from streamtools import Growing, Limits, ToolContext, pipeline, run_calls, tool
from streamtools.errors import ToolDefinitionError
from streamtools.executors import LocalExecutor
from streamtools.exports import export
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio

TEXTS = {
    "plain": "Hello, you",
    "escapes": 'a "quoted"\n\tline \\ and / \u0007 more',
    "a pair": "grin \U0001f600 and \U0001f680",
    "another alphabet": "žluťoučký kůň 漢字",
    "empty": "",
}


@every("case, wire", thorough_unless(lambda row: row[1] == "chat", [(t, w) for t in TEXTS for w in WIRES]))
async def test_pieces_cut_anywhere_are_the_text(case: str, wire: str) -> None:
    for is_ascii in (True, False):
        written = json.dumps({"path": "a", "text": TEXTS[case]}, ensure_ascii=is_ascii)
        for size in (1, 2, 5, len(written)):
            notes = Notes()
            seen, events = await seen_of(WIRES[wire](cut(written, size)), notes.tools())
            assert ("".join(notes.read), notes.files, notes.drafts) == (TEXTS[case], {"a": TEXTS[case]}, set())
            assert (seen.outcome, seen.attempts, notes.aborted, began_early(events)) == ("ok", 1, 0, True)
            assert size > 2 or len(TEXTS[case]) < 5 or len(notes.read) > 1


async def test_a_text_is_the_same_split_in_two_at_every_place() -> None:
    text = TEXTS["a pair"] + TEXTS["escapes"]
    written = json.dumps({"path": "a", "text": text})
    for at in range(len(written)):
        notes = Notes()
        seen, _ = await seen_of(WIRES["chat"]([written[:at], written[at:]]), notes.tools())
        assert (seen.outcome, seen.attempts, "".join(notes.read)) == ("ok", 1, text), at


async def test_items_come_as_they_close_each_one_validated() -> None:
    written = json.dumps({"of": "x", "items": [{"name": "a", "size": 1}, {"name": "}]", "size": 22}, {"name": "c"}]})
    for wire in WIRES.values():
        for size in (1, 4, len(written)):
            notes = Notes()
            seen, events = await seen_of(wire(cut(written, size), "rows"), notes.tools())
            assert notes.read == [Row(name="a", size=1), Row(name="}]", size=22), Row(name="c")]
            assert (seen.value, began_early(events)) == (3, True)


WHOLE = '{"path": "p", "text": "Hello, you"}'
UNDONE: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "cut for its length": (WHOLE[:-5], "length", "arguments were cut", {}),
    "whole, in an answer cut for its length": (WHOLE, "length", "finish reason is length", {}),
    "a filter's verdict": (WHOLE, "content_filter", "content_filter", {}),
    "another argument": (WHOLE[:-1] + ', "b": 1}', "tool_calls", "b: is not an argument", {}),
    "broken behind it": (WHOLE + "}", "tool_calls", "not valid JSON", {}),
    "too large": (WHOLE, "tool_calls", "max_argument_bytes", {"limits": Limits(max_argument_bytes=24)}),
}


@every("case", UNDONE)
async def test_a_call_that_is_void_in_the_end_is_undone_and_says_that_it_ran(case: str) -> None:
    written, finish, why, options = UNDONE[case]
    notes = Notes()
    seen, events = await seen_of([*on_chat(cut(written, 3)), *chat_end(finish)], notes.tools(), **options)
    assert (seen.outcome, seen.attempts, seen.duration is not None) == ("cancelled", 1, True)
    assert all([why in str(seen.error), "was undone" in seen.model_content, began_early(events)]), seen.error
    assert "may have taken effect" not in seen.model_content
    assert (notes.files, notes.drafts, notes.aborted) == ({}, set(), 1)


AGAIN = {
    "its key comes a second time": (WHOLE[:-1] + ', "text": "other"}', "other", 2),
    "another argument behind it": (WHOLE[:-1] + ', "mode": "add"}', "Hello, you", 2),
    "its key comes again, with as much": (WHOLE[:-1] + ', "text": "Hello, you"}', "Hello, you", 1),
    "a line break within it": ('{"path": "p", "text": "a\nbc"}', "a\nbc", 1),
}


@every("case", AGAIN)
async def test_what_turns_out_otherwise_is_undone_and_the_whole_given_to_another_attempt(case: str) -> None:
    written, text, attempts = AGAIN[case]
    notes = Notes()
    one_place = Limits(max_concurrency=1)
    seen, events = await seen_of(WIRES["chat"](cut(written, 3)), notes.tools(), limits=one_place)
    assert (seen.outcome, notes.files, notes.drafts, began_early(events)) == ("ok", {"p": text}, set(), True)
    assert (seen.attempts, notes.aborted, "".join(notes.read).endswith(text)) == (attempts, attempts - 1, True)


async def test_what_cannot_become_valid_stops_the_body_at_once() -> None:
    notes = Notes()
    pieces = cut('{"of": "x", "items": [{"name": "a"}, {"name": 7}, {"name": "b"}', 4)
    items: list[Any] = [*on_chat(pieces, "rows"), lambda: notes.read.append("later"), *on_chat(["]}"])[1:]]
    seen, _ = await seen_of([*items, *chat_end()], notes.tools())
    assert notes.read == [Row(name="a"), "later"]
    assert (seen.outcome, "items[1].name: should be a valid string" in str(seen.error)) == ("cancelled", True)
    notes = Notes()
    seen, _ = await seen_of(WIRES["chat"](cut(json.dumps({"text": "ab" * 40}), 3), "say"), notes.tools())
    assert (seen.outcome, len("".join(notes.read)) <= 40, "at most 40" in str(seen.error)) == ("cancelled", True, True)


# -- where the whole comes at once, and where a tool cannot grow --


async def _wraps(call: Any, run: Any) -> Any:
    return await run()


AT_ONCE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an approval": ({"needs_approval": lambda arguments: False}, {}, WHOLE),
    "a policy": ({"policy": lambda findings: True}, {"request": {"messages": []}}, WHOLE),
    "middleware of the tool": ({"middleware": _wraps}, {}, WHOLE),
    "middleware of the pipeline": ({}, {"middleware": [_wraps]}, WHOLE),
    "an executor": ({}, {"executor": {}}, WHOLE),
    "a transform": ({}, {"transforms": [pass_on]}, WHOLE),
    "a stage behind": ({}, {"stages": DEFAULT.append(SimpleNamespace(feed=lambda event: [event], finish=list))}, WHOLE),
    "start=turn_end": ({}, {"start": "turn_end"}, WHOLE),
    "trials=False": ({}, {"trials": False}, WHOLE),
    "a conflict key": ({"conflict_key": "path"}, {}, WHOLE),
    "an exclusive tool": ({"exclusive": True}, {}, WHOLE),
    "a check of the arguments": ({"check": lambda arguments: True}, {}, WHOLE),
    "another order of keys": ({}, {}, '{"text": "Hello, you", "path": "p"}'),
    "a JSON text of it": ({}, {}, json.dumps(WHOLE)),
}


@every("case", AT_ONCE)
async def test_the_whole_comes_at_once_with(case: str) -> None:
    options, given, written = AT_ONCE[case]
    notes = Notes()
    tools = notes.tools(**options)
    async with LocalExecutor(tools) as elsewhere:
        given = {**given, "executor": {"write": elsewhere}} if "executor" in given else given
        seen, events = await seen_of([*on_chat(cut(written, 3)), *chat_end()], tools, **given)
    assert (notes.read, began_early(events)) == (["Hello, you"], False)
    assert (seen.outcome, notes.files) == ("ok", {"p": "Hello, you"})


async def test_of_two_calls_with_one_place_the_younger_takes_the_whole() -> None:
    notes, whole = Notes(), cut(WHOLE, 3)
    items = [*on_chat(whole), *on_chat(whole, index=1, call_id="c1"), *chat_end()]
    turn = await pipeline(steadily(items), tools=notes.tools(), limits=Limits(max_concurrency=1))
    assert [one.outcome for one in turn.observations] == ["ok", "ok"]
    assert ("".join(notes.read[:-1]), notes.read[-1]) == ("Hello, you", "Hello, you")
    assert (len(notes.read) > 2, notes.drafts) == (True, set())


async def test_calls_at_hand_and_functions_that_are_called_take_the_whole() -> None:
    notes = Notes()
    write, *_ = notes.tools()
    (seen,) = (await run_calls([("c0", "write", WHOLE)], [write])).observations
    assert (seen.outcome, notes.read, notes.files) == ("ok", ["Hello, you"], {"p": "Hello, you"})
    await write.run(path="r", text="once")
    for text in ("by hand", Growing("by name")):
        await write(path="q", text=text, ctx=ToolContext(call_id="x"))
    assert (notes.files["r"], notes.files["q"], notes.drafts) == ("once", "by name", set())


async def test_a_freeform_text_and_a_method_grow() -> None:
    class Desk(Notes):
        @tool(effect="pure")
        async def note(self, text: Growing[str]) -> int:
            """Note it."""
            return await self.take(text)

        @tool(kind="custom", effect="pure")
        async def code(self, code: Growing[str]) -> int:
            """Run it."""
            return await self.take(code)

    desk = Desk()
    _, events = await seen_of(WIRES["chat"](cut('{"text": "abc def"}', 3), "note"), [desk.note])
    assert ("".join(desk.read), began_early(events)) == ("abc def", True)
    head = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "code", "input": ""}}
    pieces = [head, *({"index": 0, "custom": {"input": piece}} for piece in ('x = "', 'a"\n', "y"))]
    seen, events = await seen_of(
        [*sse([chat_chunk({"tool_calls": [one]}) for one in pieces]), *chat_end()], [desk.code]
    )
    assert ("".join(desk.read)[7:], seen.outcome, began_early(events)) == ('x = "a"\ny', "ok", True)


async def test_exports_put_the_growing_parameter_last_and_it_grows_in_a_strict_form_as_well() -> None:
    notes = Notes()
    write, *_ = notes.tools()
    for wire in ("anthropic.messages", "gemini.generate_content", "openai.responses", "openai.chat_completions"):
        exported = export(write, wire, strict="openai" in wire)
        payload = json.dumps(exported.payload)
        assert payload.index('"path"') < payload.index('"mode"') < payload.index('"text"')
    seen, events = await seen_of(WIRES["chat"](cut('{"path": "p", "mode": null, "text": "Hello"}', 3)), [exported])
    assert (seen.outcome, began_early(events), notes.files, seen.attempts) == ("ok", True, {"p": "Hello"}, 1)


async def test_a_type_that_changes_the_text_is_read_whole() -> None:
    notes = Notes()

    @tool(effect="pure")
    async def say(text: Growing[Annotated[str, AfterValidator(str.upper)]]) -> int:
        """Say it."""
        return await notes.take(text)

    await seen_of(WIRES["chat"](cut('{"text": "abc def"}', 3), "say"), [say])
    assert notes.read == ["ABC DEF"]


def reads(kind: Any, *, default: Any = None, more: Any = None, is_async: bool = True) -> Any:
    def sync(text: Any, other: Any) -> str:
        """Read."""
        return ""

    async def read(text: Any, other: Any) -> str:
        """Read."""
        return ""

    made: Any = read if is_async else sync
    made.__annotations__ = {"text": kind, "other": more or int, "return": str}
    made.__defaults__ = None if default is None else (default, 1)
    return made


def _other(text: str, others: int) -> None: ...


def _none() -> None: ...


TEXT, PURE = Growing[str], {"effect": "pure"}
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a function that is not async": (reads(TEXT, is_async=False), PURE, "only an `async def` tool"),
    "one that takes effect": (reads(TEXT), {}, "would take effect before its call has ended; say effect='pure'"),
    "commit without abort": (reads(TEXT), {"commit": _none}, "belong together"),
    "commit without Growing": (reads(str), {"commit": _none}, "require a parameter of type Growing"),
    "a commit of unknown names": (reads(TEXT), {"commit": _other, "abort": _none}, "commit= takes 'others'"),
    "an abort that wants the text": (reads(TEXT), {"commit": _none, "abort": _other}, "abort= takes"),
    "two of them": (reads(TEXT, more=TEXT), PURE, "a tool has at most one Growing parameter"),
    "a default": (reads(TEXT, default=""), PURE, "a tool has at most one Growing parameter"),
    "one within a type": (reads(list[TEXT]), PURE, "as its whole type"),  # type: ignore[valid-type]
    "a number": (reads(Growing[int]), PURE, "expected Growing"),
    "no type": (reads(Growing), PURE, "expected Growing"),
    "a lazy one": (reads(TEXT), {**PURE, "lazy": lambda: print}, "only an `async def` tool"),
}


@every("case", REFUSED)
def test_a_tool_is_refused_in_words_for(case: str) -> None:
    function, options, words = REFUSED[case]
    with pytest.raises(ToolDefinitionError, match=words):
        tool(**options)(function)
