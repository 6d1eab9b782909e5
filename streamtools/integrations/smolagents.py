"""Runs the tool calls of a smolagents agent as a pipeline would: limits, approvals, observations.

    from streamtools.integrations.smolagents import CallsAgent

    agent = CallsAgent(tools=[look_up, pay], model=model)

Each call is a run of its own, and its body runs in a thread of ours, with the caller's context variables and without
its thread-local state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smolagents import ToolCallingAgent
from smolagents.utils import AgentError

from ..dispatch.store import IdempotencyStore
from ..errors import ToolError
from ..pipelines.entry import StepKeywords
from ..pipelines.modelless import run_calls
from ..tools import AnyTools, Tool, Toolset
from .promises import broken_alone, refuse_store

__all__ = ["CallsAgent"]


class CallsAgent(ToolCallingAgent):  # type: ignore[misc,unused-ignore]
    """A `ToolCallingAgent` whose calls are run by `streamtools.run_calls`.

    Args:
        args: as for `ToolCallingAgent`.
        with_options: those of the tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``.
        store: refused: smolagents' calls have no identity here that outlives a crash or a retry.
        options: as for `run_calls`: ``{"approve": ask, "limits": Limits(...)}``.
        more: as for `ToolCallingAgent`.

    Raises:
        TypeError: a store was given, or an option that cannot hold where each call is a run of its own:
            ``exclusive``, ``conflict_key``, ``max_concurrency``, a pool.
    """

    def __init__(
        self,
        *args: Any,
        with_options: AnyTools = (),
        store: IdempotencyStore | None = None,
        options: StepKeywords | None = None,
        **more: Any,
    ) -> None:
        refuse_store("CallsAgent", store)
        self._known = Toolset(with_options)
        self._options: StepKeywords = options or {}
        # smolagents runs the calls of an answer in threads of its own, each by `execute_tool_call`.
        if (option := broken_alone(self._known, self._options)) is not None:
            raise TypeError(
                f"CallsAgent: {option} cannot hold, since smolagents runs each call by itself in a thread; an "
                "asynchronous loop holds it: agent_loop(...), or CallsNode, CallsToolset, CallsExecutor"
            )
        super().__init__(*args, **more)

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs one call; returns the tool's value, or raises smolagents' error. Of a call that was not run, denied say,
        it returns the text for the model."""
        # smolagents' own way of running one call is the body of the tool here, so that state variables, managed agents
        # and its errors stay.
        own = super().execute_tool_call
        raised: AgentError | None = None

        def run(given: Mapping[str, Any]) -> Any:
            nonlocal raised
            raised = None
            try:
                return own(tool_name, arguments)
            except AgentError as error:  # smolagents has worded it for the model
                raised = error
                raise ToolError(f"the tool raised {type(error).__name__}") from None

        known = self._known.get(tool_name)
        if known is None:
            made = Tool.from_schema(run, {"type": "object"}, name=tool_name, description="", pass_as="mapping")
        else:
            made = known.running(run)
        given = arguments if isinstance(arguments, Mapping) else {}
        turn = run_calls([(None, tool_name, given)], [made], **self._options).sync().finish()
        (seen,) = turn.observations
        if raised is not None and seen.outcome == "failed":
            raise raised
        return seen.unwrap() if seen.attempts else seen.model_content
