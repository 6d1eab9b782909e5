"""A pipeline is made where a program makes its objects: also before a loop runs, or in a framework's worker thread."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from streams import chat

from streamtools import Pipeline, pipeline, tool


@tool
async def charge(amount: int) -> str:
    """Charge an account."""
    return f"charged {amount}"


def made() -> Pipeline:
    """As an endpoint of a web framework does that is no coroutine function."""
    return pipeline(chat(calls=[("a", "charge", '{"amount": 3}')]), tools=[charge], wire="openai.chat_completions")


async def outcomes(events: Pipeline) -> list[tuple[str, Any]]:
    async with events:
        async for _ in events:
            pass
    return [(seen.outcome, seen.value) for seen in events.turn.observations]


async def in_a_worker_thread() -> list[tuple[str, Any]]:
    return await outcomes(await anyio.to_thread.run_sync(made))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_pipeline_may_be_made_before_the_event_loop_runs(backend: str) -> None:
    assert anyio.run(partial(outcomes, made()), backend=backend) == [("ok", "charged 3")]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_pipeline_may_be_made_in_a_worker_thread(backend: str) -> None:
    assert anyio.run(in_a_worker_thread, backend=backend) == [("ok", "charged 3")]
