"""`Tool.run`: one call, validated and run, its value or its error."""

from __future__ import annotations

from datetime import date

import anyio
import pytest

from streamtools.errors import ApprovalPending, InvalidArguments, ToolTimeout
from streamtools.tools import tool

pytestmark = pytest.mark.anyio
ran: list[object] = []


@tool
def book(day: date, seats: int = 1) -> str:
    """Book a table."""
    ran.append((day, seats))
    return f"{seats} on {day.isoformat()}"


@tool
async def fail(self: str) -> str:
    """Raise."""
    raise LookupError(self)


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    raise AssertionError(f"paid {to}")


@tool(timeout=0.001)
async def wait() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    raise AssertionError("woke")


async def test_a_tool_runs_with_arguments_that_fit_and_returns_its_value() -> None:
    assert await book.run(day="2026-12-01", seats=2) == "2 on 2026-12-01"
    assert ran.pop() == (date(2026, 12, 1), 2)


async def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    for arguments in ({}, {"day": "soon"}, {"day": "2026-12-01", "more": 1}, {"day": "2026-12-01", "seats": object()}):
        with pytest.raises(InvalidArguments):
            await book.run(**arguments)
    assert not ran


async def test_a_call_without_a_value_raises_the_reason() -> None:
    with pytest.raises(LookupError, match="nobody"):
        await fail.run(self="nobody")
    with pytest.raises(ApprovalPending):
        await pay.run(to="Ann")
    with pytest.raises(ToolTimeout):
        await wait.run()
