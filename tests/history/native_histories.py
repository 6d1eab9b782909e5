"""What the tests of histories share: a bad history, what is said of it, what becomes of it; turns with one result."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from sdk_types import check_types

from streamtools import Observation, Turn, history
from streamtools.content import ToolResult
from streamtools.wires import find
from streamtools.wires.history_rules import Violation
from streamtools.wires.transcript import Prompt, Reply, Returned

__all__ = ["again", "codes", "found", "observed", "repaired"]


def found(messages: list[Any], target: str, **options: Any) -> list[Violation]:
    """What is wrong with a history, its last calls included."""
    return history.lint(messages, target, last=True, **options)


def codes(messages: list[Any], target: str, **options: Any) -> list[str]:
    """By what names that is known."""
    return [violation.code for violation in found(messages, target, **options)]


def repaired(messages: list[Any], target: str, **options: Any) -> list[Any]:
    """The repaired history: nothing is wrong with it any more, it stays what it is, and what was given is untouched."""
    before = copy.deepcopy(messages)
    after = history.repair(messages, target, last=True, **options)
    assert messages == before, "what was given is not changed"
    assert found(after, target, **options) == []
    assert history.repair(after, target, last=True, **options) is after
    again = history.repair(copy.deepcopy(before), target, last=True, **options)
    assert again == after, "the same history is always repaired alike"
    check_types(target, copy.deepcopy(after))
    return after


def observed(turn: Turn, result: ToolResult | None = None, *, content: str = "t", is_error: bool = False) -> Turn:
    """A turn whose one call came to this."""
    (call,) = turn.calls
    failed = is_error or (result is not None and result.is_error)
    seen = Observation(
        call_id=call.call_id,
        tool_name=call.name,
        outcome="failed" if failed else "ok",
        model_content=content,
        result=result,
    )
    return replace(turn, observations=(seen,))


def again(messages: list[Any], wire: str) -> list[Any]:
    """The messages after reading and writing all of them."""
    known, written = find(wire), list[Any]()
    entries = known.read(copy.deepcopy(messages))
    at = 0
    while at < len(entries):
        entry = entries[at]
        at += 1
        if isinstance(entry, Prompt):
            written += known.render_prompt(entry)
        elif isinstance(entry, Reply):
            results: list[Any] = []
            while at < len(entries) and isinstance(behind := entries[at], Returned):
                results += behind.results
                at += 1
            calls = entry.answer.our_calls
            answered = [replace(r, call_id=c.call_id) for r, c in zip(results, calls, strict=True)]
            written += known.render(replace(entry.answer, results=tuple(answered)))
    return written
