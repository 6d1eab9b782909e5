"""Runs the calls of a pydantic-ai agent: within limits, in order, one observation each; the agent stays as it is."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.models.test import TestModel

from streamtools.integrations.pydantic_ai import CallsToolset


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    agent = Agent(TestModel(), toolsets=[CallsToolset(FunctionToolset([add]))])
    print((await agent.run("add")).output)


asyncio.run(main())
