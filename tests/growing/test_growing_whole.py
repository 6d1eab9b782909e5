"""Where a growing tool gets the whole at once, and where a tool cannot grow at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from growing.written import WIRES, Notes, began_early, chat_end, cut, on_chat, seen_of, steadily
from profiles import every
from pydantic import AfterValidator, Field
from streams import chat_chunk, pass_on, sse

from streamtools import Growing, Limits, ToolContext, pipeline, run_calls, tool
from streamtools.content import FinalResult
from streamtools.errors import ToolDefinitionError
from streamtools.exports import export
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio

WHOLE = '{"path": "p", "text": "Hello, you"}'


async def _wraps(call: Any, run: Any) -> Any:
    return await run()


class _Marks:
    def feed(self, event: Any) -> list[Any]:
        return [event]

    def finish(self) -> list[Any]:
        return []


AT_ONCE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an approval": ({"needs_approval": lambda arguments: False}, {}, WHOLE),
    "a policy": ({"policy": lambda findings: True}, {"request": {"messages": []}}, WHOLE),
    "middleware of the tool": ({"middleware": _wraps}, {}, WHOLE),
    "middleware of the pipeline": ({}, {"middleware": [_wraps]}, WHOLE),
    "a transform": ({}, {"transforms": [pass_on]}, WHOLE),
    "a stage behind": ({}, {"stages": DEFAULT.append(_Marks)}, WHOLE),
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
    seen, events, _ = await seen_of([*on_chat(cut(written, 3)), *chat_end()], tools, **given)
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
    assert await write(path="q", text="by hand", ctx=ToolContext(call_id="x")) > 0
    assert (await write(path="q", text=Growing("by name"), ctx=ToolContext(call_id="x"))) > 0
    assert notes.files["q"] == "by name"


async def test_a_freeform_text_grows_as_it_is() -> None:
    read: list[str] = []

    @tool(kind="custom", effect="pure")
    async def run(code: Growing[str]) -> str:
        """Run it."""
        async for piece in code:
            read.append(piece)
        return "ran"

    head = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "run", "input": ""}}
    pieces = [head, *({"index": 0, "custom": {"input": piece}} for piece in ('x = "', 'a"\n', "y"))]
    items = [*sse([chat_chunk({"tool_calls": [piece]}) for piece in pieces]), *chat_end()]
    seen, events, _ = await seen_of(items, [run])
    assert (seen.outcome, "".join(read), began_early(events)) == ("ok", 'x = "a"\ny', True)
    assert len(read) > 1


@every("wire", ["openai.chat_completions", "anthropic.messages", "gemini.generate_content", "openai.responses"])
def test_exports_put_the_growing_parameter_last(wire: str) -> None:
    write, *_ = Notes().tools()
    for strict in (False, True) if "openai" in wire else (False,):
        payload = json.dumps(export(write, wire, strict=strict).payload)
        assert payload.rindex('"mode"') < payload.rindex('"text"')
        (properties,) = [part for part in _objects(json.loads(payload)) if "text" in part]
        assert list(properties)[-1] == "text"


def _objects(node: Any) -> list[dict[str, Any]]:
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [*([node] if isinstance(node, dict) else []), *(one for part in parts for one in _objects(part))]


async def test_a_strict_form_grows_as_well() -> None:
    notes = Notes()
    write, *_ = notes.tools()
    exported = export(write, "openai.chat_completions", strict=True)
    seen, events, _ = await seen_of(WIRES["chat"](cut('{"path": "p", "mode": null, "text": "Hello"}', 3)), [exported])
    assert (seen.outcome, began_early(events), notes.files, seen.attempts) == ("ok", True, {"p": "Hello"}, 1)


def _sync(text: Growing[str]) -> str:
    """Read."""
    return ""


async def _reads(text: Growing[str]) -> str:
    """Read."""
    return ""


async def _two(text: Growing[str], more: Growing[str]) -> str:
    """Read."""
    return ""


async def _default(text: Growing[str] = Growing("")) -> str:
    """Read."""
    return ""


async def _inside(text: list[Growing[str]]) -> str:
    """Read."""
    return ""


async def _number(text: Growing[int]) -> str:
    """Read."""
    return ""


async def _bare(text: Growing) -> str:  # type: ignore[type-arg]
    """Read."""
    return ""


async def _generator(text: Growing[str]) -> Any:
    """Read."""
    yield FinalResult(1)


async def _plain(text: str) -> str:
    """Read."""
    return ""


def _takes(text: str, other: str) -> None: ...


REFUSED: dict[str, tuple[Callable[..., Any], Mapping[str, Any], str]] = {
    "a function that is not async": (_sync, {"effect": "pure"}, "only an async def function"),
    "a generator": (_generator, {"effect": "pure"}, "only an async def function"),
    "one that takes effect": (_reads, {}, "would take effect before its call has ended; say effect='pure'"),
    "commit without abort": (_reads, {"commit": lambda text: None}, "belong together"),
    "commit without Growing": (_plain, {"commit": _plain}, "for a tool with a parameter of type Growing"),
    "a commit of unknown names": (_reads, {"commit": _takes, "abort": lambda: 0}, "commit= takes 'other'"),
    "an abort that wants the text": (_reads, {"commit": lambda: 0, "abort": _reads}, "abort= takes 'text'"),
    "two of them": (_two, {"effect": "pure"}, "one parameter can"),
    "a default": (_default, {"effect": "pure"}, "without a default"),
    "one within a type": (_inside, {"effect": "pure"}, "as its whole type"),
    "a number": (_number, {"effect": "pure"}, "expected Growing"),
    "no type": (_bare, {"effect": "pure"}, "expected Growing"),
    "a lazy one": (_reads, {"effect": "pure", "lazy": lambda: _reads}, "only an async def function"),
}


@every("case", REFUSED)
def test_a_tool_is_refused_in_words_for(case: str) -> None:
    function, options, words = REFUSED[case]
    with pytest.raises(ToolDefinitionError, match=words.replace("(", r"\(")):
        tool(**options)(function)


async def test_a_type_that_changes_the_text_is_read_whole() -> None:
    read: list[str] = []

    @tool(effect="pure")
    async def say(text: Growing[Annotated[str, AfterValidator(str.upper)]]) -> str:
        """Say it."""
        async for piece in text:
            read.append(piece)
        return "said"

    @tool(effect="pure")
    async def stripped(text: Annotated[Growing[str], Field(pattern="^a")]) -> str:
        """Say it."""
        async for piece in text:
            read.append(piece)
        return "said"

    await seen_of(WIRES["chat"](cut('{"text": "abc def"}', 3), "say"), [say])
    assert read == ["ABC DEF"]
    seen, _, _ = await seen_of(WIRES["chat"](cut('{"text": "bbc def"}', 3), "stripped"), [stripped])
    assert (seen.outcome, "".join(read[1:])) == ("cancelled", "bbc def")


async def test_methods_grow() -> None:
    class Desk:
        def __init__(self) -> None:
            self.read: list[str] = []

        @tool(effect="pure")
        async def note(self, text: Growing[str]) -> int:
            """Note it."""
            async for piece in text:
                self.read.append(piece)
            return len(self.read)

    desk = Desk()
    seen, events, _ = await seen_of(WIRES["chat"](cut('{"text": "abc def"}', 3), "note"), [desk.note])
    assert (seen.outcome, "".join(desk.read), began_early(events)) == ("ok", "abc def", True)
    assert (await pipeline(WIRES["chat"](['{"text": "z"}'], "note"), tools=[Desk().note])).observations[0].value == 1
