"""One call of one tool, run without a stream: for tests of tools and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtools import Limits, Observation, run_calls, tool
from streamtools.tools import AnyTool, Tool

__all__ = ["run_alone"]


async def run_alone(
    given: AnyTool,
    arguments: Mapping[str, Any] | str | bytes,
    *,
    call_id: str | None = None,
    limits: Limits = Limits(),
    approved: bool = False,
) -> Observation:
    """Run one call by `run_calls`, and return its observation."""
    made = given if isinstance(given, Tool) else tool()(given)
    calls = [(call_id, made.name, arguments)]
    turn = await run_calls(calls, [made], limits=limits, approve=(lambda _: True) if approved else None)
    (seen,) = turn.observations
    return seen
