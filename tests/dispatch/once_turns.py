"""Turns that are run again from the same body, as after a restart, for tests of calls that run once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
from streams import Call, chat, stream

from streamtools import Event, Observation, Pipeline, ToolContext, Trajectory, pipeline, tool
from streamtools.events import StreamWarning

WAIT_S = 60  # for anything: a worker or a program may have to start on a busy machine


def said(name: str, call_id: str = "a", /, **arguments: Any) -> Call:
    return call_id, name, json.dumps(arguments)


class Effects(list[str]):
    """The keys under which tools have had their effect."""

    def tool(self, ends: Any = "done", **options: Any) -> Any:
        """A tool that has an effect, then returns or raises what it is given."""

        @tool(name="pay", **options)
        async def pay(ctx: ToolContext, amount: int = 1) -> Any:
            """Pay."""
            self.append(ctx.idempotency_key)
            await anyio.lowlevel.checkpoint()
            if isinstance(ends, BaseException):
                raise ends
            return ends

        return pay


@dataclass
class Seen:
    """What came of one turn."""

    pipeline: Pipeline
    events: list[Event]

    @property
    def observations(self) -> dict[str, Observation]:
        return {seen.call_id: seen for seen in self.pipeline.turn.observations}

    @property
    def only(self) -> Observation:
        (observation,) = self.pipeline.turn.observations
        return observation

    @property
    def warnings(self) -> list[str]:
        """The codes of all warnings but `loop_blocked`, which a slow machine may bring about."""
        codes = [event.code for event in self.events if isinstance(event, StreamWarning)]
        return [code for code in codes if code != "loop_blocked"]


async def run(call: Call | Sequence[Call], tools: Any, store: Any, **options: Any) -> Seen:
    """One turn of the run "r", from the same body each time: as after a restart."""
    calls = [call] if isinstance(call, tuple) else call
    tools = tools if isinstance(tools, list) else [tools]
    options.setdefault("trajectory", Trajectory(run_id="r"))
    with anyio.fail_after(WAIT_S):
        async with pipeline(stream(chat(calls=calls)), tools=tools, store=store, **options) as events:
            seen = [event async for event in events]
    return Seen(events, seen)
