"""Runs the tool calls of a pydantic-ai agent as a pipeline would: limits, order, approvals, observations.

from pydantic_ai import Agent, FunctionToolset
from streamtools.integrations.pydantic_ai import CallsToolset

agent = Agent("openai:gpt-5-mini", toolsets=[CallsToolset(FunctionToolset([look_up, pay]))])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.toolsets import WrapperToolset

from ..dispatch import CallPool
from ..dispatch.store import IdempotencyStore
from ..errors import ToolError
from ..pipelines.entry import StepKeywords
from ..pipelines.modelless import run_calls
from ..tools import AnyTools, Tool, Toolset
from .promises import refuse_store

__all__ = ["CallsToolset"]

_SIGNALS = (ApprovalRequired, CallDeferred, ModelRetry)
"""Exceptions by which a tool signals something to its agent; they are not failures to be logged."""


@dataclass
class CallsToolset(WrapperToolset[Any]):  # type: ignore[misc,unused-ignore]
    """A toolset of pydantic-ai's whose calls are run by `streamtools.run_calls`, in one pool."""

    tools: AnyTools | Toolset = ()
    """Those of the tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``."""
    store: IdempotencyStore | None = None
    """Refused: pydantic-ai's calls have no identity here that outlives a crash or a retry."""
    options: StepKeywords = field(default_factory=StepKeywords)
    """As for `run_calls`: ``{"approve": ask, "limits": Limits(...)}``."""
    pool: CallPool = field(default_factory=CallPool, repr=False)

    def __post_init__(self) -> None:
        refuse_store("CallsToolset", self.store)
        self.tools = Toolset(self.tools)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Runs one call; returns the tool's value, or raises its exception. Of a call that was not run, denied say, it
        returns the text for the model."""

        raised: Exception | None = None

        # pydantic-ai has validated the arguments by now, and runs the function itself, so that its context, hooks and
        # retries stay.
        async def run(arguments: Mapping[str, Any]) -> Any:
            nonlocal raised
            raised = None
            try:
                return await self.wrapped.call_tool(name, tool_args, ctx, tool)
            except _SIGNALS as error:
                raised = error
                raise ToolError(f"the tool raised {type(error).__name__}") from None

        known = Toolset(self.tools).get(name)
        if known is None:
            made = Tool.from_schema(run, {"type": "object"}, name=name, description="", pass_as="mapping")
        else:
            made = known.running(run)
        options: StepKeywords = {"pool": self.pool, **self.options}
        turn = await run_calls([(ctx.tool_call_id, name, tool_args)], [made], **options)
        (seen,) = turn.observations
        # A signal leaves as it came. Where the call ended in another way after it, cancelled say, it is not the end.
        if raised is not None and seen.outcome == "failed":
            raise raised
        return seen.unwrap() if seen.attempts else seen.model_content
