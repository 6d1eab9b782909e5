"""Runs one call without a stream: `run_tool`.

The call goes through the same stages and the same dispatcher as one that came over a wire, so that outcome, record and
rules (sizes, timeouts, threads, the text for the model) are the same. It runs in the caller's task.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..errors import InvalidArguments
from ..event_loop import settle_next
from ..events import Event, Observation, StreamEnd, ToolCallEnd, ToolCallFragment, ToolCallStart
from ..limits import Limits
from ..parts import ToolCall
from ..stages import DEFAULT
from ..tools import AnyTool, Toolset
from ..tools.problems import refusal
from ..tools.typed import as_json
from .call import RunCounts
from .calls import Calls
from .moves import Moves
from .options import DispatchOptions

__all__ = ["run_tool"]


async def run_tool(
    tool: AnyTool,
    arguments: Mapping[str, Any] | str | bytes,
    *,
    call_id: str | None = None,
    limits: Limits = Limits(),
    approved: bool = False,
) -> Observation:
    """Runs one call as a pipeline would, and returns its record: outcome, value, the text for the model.

    The arguments are validated; a sync function runs in a thread, within the timeout. Nothing is raised for the call:
    bad arguments, a timeout, a tool that fails are outcomes. `Observation.unwrap` returns the value alone, or raises.

        seen = await run_tool(get_weather, {"city": "Rome"})
        seen.outcome, seen.value

    Args:
        tool: a tool, or a function to make one from.
        arguments: a JSON object, or its text as a model would write it; for a freeform tool, ``{"input": text}``.
        call_id: the call's identity; made up by default.
        limits: times, sizes and threads.
        approved: the call has the approval that its tool may need; without it such a call is ``skipped``.

    Raises:
        ToolDefinitionError: `tool` is no tool, and none can be made from it.
    """
    tools = Toolset([tool])
    (name,) = tools
    host = _Host()
    options = DispatchOptions(policy="early", approver=(lambda _: True) if approved else None)
    calls = Calls(Moves(None, tools, limits, options, host, host.waiting.append), tools)
    for event in await _events(name, tools, arguments, call_id or f"call_{uuid.uuid4().hex}", limits):
        calls.on_event(event)
    for start in host.waiting:
        await start()  # may append another one
    calls.settle()
    assert host.observation is not None, "a call that was announced is observed"
    return host.observation


async def _events(
    name: str, tools: Toolset, arguments: Mapping[str, Any] | str | bytes, call_id: str, limits: Limits
) -> list[Event]:
    """Returns the events that a stream with this call alone would have given."""
    try:
        text = _text(name, arguments)
    except InvalidArguments as error:
        call = ToolCall(call_id=call_id, name=name, status="invalid", problem="malformed_json")
        return [ToolCallStart(call_id, name), ToolCallEnd(call, error)]
    chain = DEFAULT.build(tools, limits, defer=True)
    fragment = ToolCallFragment(id=call_id, name=name, arguments=text, start=True, end=True)
    events = [*chain.feed(fragment), *chain.feed(StreamEnd(finish="tool_calls", complete=True))]
    while chain.deferred is not None:
        events += await settle_next(chain)
    return events


def _text(name: str, arguments: Mapping[str, Any] | str | bytes) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return (arguments if isinstance(arguments, bytes) else as_json(name, arguments)).decode()
    except UnicodeDecodeError:  # the error's text quotes the input
        raise refusal(name, ["the arguments: should be UTF-8"]) from None


class _Host:
    """The step of a call that has none."""

    def __init__(self) -> None:
        self.run_id = f"run_{uuid.uuid4().hex}"
        self.number = 0
        self.ended = False
        self.behind = 0
        self.counts = RunCounts()
        self.waiting: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.observation: Observation | None = None

    def emit(self, event: Event) -> None:
        """Keeps the Observation, ignores the rest."""
        if isinstance(event, Observation):
            self.observation = event

    def around_tool(self, call_id: str) -> Sequence[AbstractContextManager[object]]:
        """Returns no context managers, since there are no observers."""
        return ()
