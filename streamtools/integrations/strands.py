"""Runs the tool calls of a Strands agent as a pipeline would: limits, order, approvals, one observation each.

    from strands import Agent
    from streamtools.integrations.strands import CallsExecutor

    agent = Agent(tools=[look_up, pay], tool_executor=CallsExecutor())

The arguments are validated by the schema that the model was shown, before Strands sees the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Unpack

from strands.tools.executors import ConcurrentToolExecutor

from ..content import FinalResult
from ..dispatch.store import IdempotencyStore
from ..errors import ToolError
from ..events import Observation, ToolProgress
from ..pipelines.entry import StepKeywords
from ..pipelines.modelless import run_calls
from ..tools import AnyTools, Tool, ToolContext, Toolset, tool
from .promises import refuse_store

__all__ = ["CallsExecutor"]

_Events = Callable[[dict[str, Any], list[Any]], AsyncIterator[Any]]
"""Runs one call as Strands does: of the call and a list that its result is put into."""


class CallsExecutor(ConcurrentToolExecutor):  # type: ignore[misc,unused-ignore]
    """An executor of Strands' whose calls are run by `streamtools.run_calls`.

    Args:
        tools: the agent's tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``. All others
            have the defaults.
        store: refused: Strands' calls have no identity here that outlives a crash or a retry.
        options: as for `run_calls`. An approver decides before Strands' own hooks are asked.

    Raises:
        TypeError: a store was given.
    """

    def __init__(
        self,
        tools: AnyTools = (),
        *,
        store: IdempotencyStore | None = None,
        **options: Unpack[StepKeywords],
    ) -> None:
        refuse_store("CallsExecutor", store)
        self._known = Toolset(tools)
        self._options = options

    async def _execute(
        self,
        agent: Any,
        tool_uses: list[Any],
        tool_results: list[Any],
        cycle_trace: Any,
        cycle_span: Any,
        invocation_state: dict[str, Any],
        structured_output_context: Any = None,
    ) -> AsyncIterator[Any]:
        """Runs the calls of one answer; yields Strands' events as they come, and leaves the results in call order."""
        uses = {use["toolUseId"]: use for use in tool_uses}
        results: dict[str, list[Any]] = {call_id: [] for call_id in uses}

        # Strands' own way of running one call is the body of the tool here, so that its hooks, interrupts, spans and
        # events stay. Its events come out as progress, in the order in which they happen.
        def events(use: dict[str, Any], into: list[Any]) -> AsyncIterator[Any]:
            stream: AsyncIterator[Any] = self._stream_with_trace(
                agent, use, into, cycle_trace, cycle_span, invocation_state, structured_output_context
            )
            return stream

        tools = [self._tool(agent, name, uses, results, events) for name in {use["name"]: None for use in tool_uses}]
        calls = [(call_id, use["name"], use["input"]) for call_id, use in uses.items()]
        async with run_calls(calls, [one for one in tools if one], **self._options) as running:
            async for event in running:
                if isinstance(event, ToolProgress):
                    yield event.value
                # A call that Strands' own code has not ended: it was denied, or its arguments do not fit.
                elif isinstance(event, Observation) and not results[event.call_id] and event.outcome != "ok":
                    content = [{"text": event.model_content}]
                    failure = {"toolUseId": event.call_id, "status": "error", "content": content}
                    results[event.call_id].append(failure)
        tool_results.extend(result for call_id in uses for result in results[call_id])

    def _tool(
        self, agent: Any, name: str, uses: dict[str, Any], results: dict[str, list[Any]], events: _Events
    ) -> Tool | None:
        """Returns a tool that runs a call as Strands does; None if the agent has no such tool."""
        registry = agent.tool_registry
        theirs = registry.dynamic_tools.get(name) or registry.registry.get(name)
        if theirs is None:
            return None

        async def run(arguments: dict[str, Any], ctx: ToolContext) -> AsyncIterator[Any]:
            into = results[ctx.call_id]
            into.clear()  # of an attempt before
            async for event in events({**uses[ctx.call_id], "input": arguments}, into):
                yield event
            if into and into[-1]["status"] == "error":  # the result itself stays as Strands has worded it
                raise ToolError("\n".join(block["text"] for block in into[-1]["content"] if "text" in block))
            yield FinalResult(into[-1] if into else None)  # None: the call was interrupted

        ours = self._known.get(name) or tool(theirs)
        return ours.running(run)
