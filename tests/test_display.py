"""What `print` shows of events, turns, calls, tools and options: what one looks for, on one line, without content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from streams import chat

from streamtools import (
    Limits,
    Observation,
    StreamEnd,
    TextDelta,
    ToolCall,
    Turn,
    Usage,
    agent_loop,
    parse,
    pipeline,
    run_calls,
    tool,
)
from streamtools.durable.suspended import SuspendedCall
from streamtools.errors import ProviderError, ToolFailed
from streamtools.events import ApprovalRequested, StepEnd, TextEnd, ToolCallDelta, ToolProgress, UnknownPayload
from streamtools.exports import export
from streamtools.ground.text import printable

CALL = ToolCall(call_id="c1", name="pay", arguments_text='{"n": 1}', arguments={"n": 1}, status="ready")


@tool
async def pay(n: int) -> int:
    """Pay."""
    return n


@tool(effect="pure", timeout=2.5, retries=2)
async def look(n: int) -> int:
    """Look."""
    return n


SHOWN: dict[str, tuple[Any, str]] = {
    "text": (TextDelta("Hello"), "TextDelta(text='Hello')"),
    "its place in the run": (TextDelta("Hello", seq=7, step=2), "TextDelta(text='Hello', seq=7, step=2)"),
    "long text": (TextDelta("x" * 300), f"TextDelta(text='{'x' * 100}'…)"),
    "no clock and causes": (TextEnd(causes=(1, 2), time=12.5, seq=3), "TextEnd(seq=3)"),
    "a piece of arguments": (ToolCallDelta("c1", '{"a'), "ToolCallDelta(call_id='c1', delta=<str of 3>)"),
    "progress": (ToolProgress("c1", "pay", {"a": 1}), "ToolProgress(call_id='c1', tool_name='pay', value=<dict of 1>)"),
    "a request": (
        ApprovalRequested("c1", "pay", {"n": 1}, fingerprint="f"),
        "ApprovalRequested(call_id='c1', tool_name='pay', arguments=<dict of 1>, fingerprint='f')",
    ),
    "a payload": (UnknownPayload([1, 2, 3], place=""), "UnknownPayload(raw=<list of 3>, place='')"),
    "a result": (
        Observation(call_id="c1", tool_name="pay", outcome="ok", value=object(), duration=0.123456789, attempts=1),
        "Observation(call_id='c1', tool_name='pay', outcome='ok', value=<object>, duration=0.123457, attempts=1)",
    ),
    "an error": (
        Observation(call_id="c1", tool_name="pay", outcome="failed", error=ToolFailed("the tool raised KeyError")),
        "Observation(call_id='c1', tool_name='pay', outcome='failed', error=ToolFailed('the tool raised KeyError'))",
    ),
    "a provider's error": (
        StreamEnd(error=ProviderError("m" * 500, code=429)),
        f"StreamEnd(complete=False, error=ProviderError('{'m' * 300}'…))",
    ),
    "an end": (
        StreamEnd(finish="stop", complete=True, usage=Usage(input_tokens=3)),
        "StreamEnd(finish='stop', complete=True, usage=Usage(input_tokens=3))",
    ),
    "a step's end": (StepEnd(), "StepEnd(outcome='complete')"),
    "a call": (
        CALL,
        "ToolCall(call_id='c1', name='pay', arguments_text=<str of 8>, arguments=<dict of 1>, status='ready')",
    ),
    "a cut call": (ToolCall(call_id="c1", name=""), "ToolCall(call_id='c1', name='', status='truncated')"),
    "a turn": (
        Turn(wire="w", calls=(CALL,)),
        f"Turn(wire='w', calls=({CALL!r},), complete=False)",
    ),
    "an answer": (
        parse(chat(["Hi ", "there"], finish="stop")),
        "Turn(wire='openai.chat_completions', model='m', response_id='chatcmpl-1', text='Hi there', finish='stop', "
        "complete=True)",
    ),
    "many calls": (
        Turn(calls=tuple(ToolCall(call_id=str(n), name="f") for n in range(12))),
        "Turn(calls=("
        + ", ".join(f"ToolCall(call_id='{n}', name='f', status='truncated')" for n in range(10))
        + ", … 2 more), complete=False)",
    ),
    "a suspended call": (
        SuspendedCall(call_id="c1", tool_name="pay", arguments_text="{}", fingerprint="f", idempotency_key="k"),
        "SuspendedCall(call_id='c1', tool_name='pay', arguments_text=<str of 2>, fingerprint='f', idempotency_key='k')",
    ),
    "limits": (Limits(), "Limits()"),
    "changed limits": (
        Limits(max_tool_calls=3, tool_timeout=None),
        "Limits(max_tool_calls=3, tool_timeout=None)",
    ),
    "the same limits": (Limits(max_tool_calls=Limits().max_tool_calls), "Limits()"),
    "a tool": (pay, "Tool(name='pay')"),
    "a tool with options": (look, "Tool(name='look', effect='pure', timeout=2.5, retries=2)"),
    "an export": (
        export(pay, "anthropic.messages"),
        "Exported(tool=Tool(name='pay'), wire='anthropic.messages', name='pay')",
    ),
    "a pipeline": (pipeline(b"", trajectory=None).turn, "Turn(complete=False)"),
    "a run": (
        agent_loop(lambda *_: None, [], wire="anthropic.messages"),
        "AgentLoop(outcome=None, turns=<tuple of 0>)",
    ),
}


@every("case", SHOWN)
def test_an_object_shows_what_differs_from_its_defaults_and_no_content(case: str) -> None:
    value, shown = SHOWN[case]
    assert repr(value) == str(value) == shown


class Unwilling:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"card": "4111"}, "{'card': '4111'}"),
        ("a\x1b[2J\nb", r"'a\x1b[2J\nb'"),
        ("\ud800", r"'\ud800'"),
        (Unwilling(), "<a Unwilling that cannot be shown>"),
        ("x" * 2000, "'" + "x" * 999 + "…"),
    ],
    ids=["a value", "escapes", "half a character", "no repr", "a long text"],
)
def test_a_developer_who_asks_for_content_gets_it_safe_and_cut(
    value: Any, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = ToolProgress("c1", "pay", value)
    assert repr(event) == f"ToolProgress(call_id='c1', tool_name='pay', value=<{described(value)}>)"
    monkeypatch.setenv("STREAMTOOLS_DEBUG", "1")
    assert repr(event) == f"ToolProgress(call_id='c1', tool_name='pay', value={shown})"


def described(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (dict, str)) else type(value).__name__


PLACES: tuple[Callable[[str], Any], ...] = (
    TextDelta,
    lambda text: ToolCall(call_id=text, name=text, problem=text),
    lambda text: Turn(model=text, output_problem=text, error=ProviderError(text)),
    lambda text: UnknownPayload({text: text}, place=text),
)


@settings(max_examples=examples(100), deadline=None)
@given(st.text(st.characters(codec=None), max_size=400))
def test_whatever_the_peer_wrote_is_shown_on_one_bounded_line(text: str) -> None:
    for make in PLACES:
        shown = repr(make(text))
        assert shown.isprintable()
        assert len(shown) <= 4000
        shown.encode()


@pytest.mark.anyio
async def test_printing_a_result_does_not_write_it_for_the_model() -> None:
    class Written:
        def __repr__(self) -> str:
            raise AssertionError("nobody asked for the text")

        __str__ = __repr__

    @tool(effect="pure")
    async def make() -> Any:
        """Make it."""
        return Written()

    (seen,) = (await run_calls([("c1", "make", {})], [make])).observations
    assert repr(seen).startswith("Observation(call_id='c1', tool_name='make', outcome='ok', value=<Written>, ")


@every(
    ("text", "shown"),
    [
        ("plain, Zürich 東京", "plain, Zürich 東京"),
        ("two\nlines", "two\nlines"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_what_a_terminal_might_obey_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
