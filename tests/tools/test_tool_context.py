"""What a tool is told about its call, and what it tells."""

from __future__ import annotations

from typing import Any

from streamtools.tools import ToolContext, tool


@tool
def count(to: int, ctx: ToolContext) -> int:
    """Count."""
    for number in range(to):
        if ctx.cancelled:
            return number
        ctx.progress(number)
    return to


def test_a_tool_can_be_tested_with_a_bare_context() -> None:
    assert count(3, ToolContext()) == 3


def test_progress_and_cancellation_are_the_dispatchers() -> None:
    seen: list[Any] = []
    context = ToolContext(report=seen.append, is_cancelled=lambda: len(seen) == 2)
    assert count(5, context) == 2
    assert seen == [0, 1]


def test_the_idempotency_key_belongs_to_one_call_and_stays_over_attempts() -> None:
    first = ToolContext(run_id="r", step=2, call_id="c")
    again = ToolContext(run_id="r", step=2, call_id="c", attempt=2)
    other = ToolContext(run_id="r", step=3, call_id="c")
    assert first.idempotency_key == again.idempotency_key == "r:2::c"
    assert other.idempotency_key != first.idempotency_key


def test_no_two_calls_share_a_key_whatever_their_ids_look_like() -> None:
    ids = [("r", 0, "0:x"), ("r:0", 0, "x"), ("r%3A0", 0, "x"), ("r", 0, "x"), ("r", 0, ":x")]
    keys = {ToolContext(run_id=run, step=step, call_id=call).idempotency_key for run, step, call in ids}
    assert len(keys) == len(ids)
