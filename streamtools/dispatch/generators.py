"""Tools that are async generators: what they yield is progress, and one `Result` is the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from anyio.lowlevel import checkpoint

from ..content import Result, ToolResult
from ..errors import ToolFailed

__all__ = ["last_word"]


async def last_word(tool: str, values: AsyncGenerator[Any, Any], progress: Callable[[Any], None]) -> Any:
    """The result of a generator, which is run in this task, up to its result, and closed on every path.

    Args:
        tool: its name.
        values: what the tool yields.
        progress: takes each value but the result, at once.

    Raises:
        ToolFailed: there is no result. That of the last value is not taken for it: nobody said that it is one.
    """
    async with aclosing(values):
        async for value in values:
            if isinstance(value, Result):
                return value.value
            if isinstance(value, ToolResult):
                return value
            progress(value)
            await checkpoint()  # a generator that never awaits must not keep all others from running
    raise ToolFailed(f"the tool {tool} ended without a result")
