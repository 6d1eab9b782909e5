"""Runs the tool calls of a LangGraph `ToolNode` as a pipeline would: limits, order, approvals, observations.

    from streamtools.integrations.langgraph import CallsNode

    node = CallsNode([look_up, pay])

The arguments are validated by LangGraph, by the tool's own model; those of tools in `with_options=`, here before.
Where something else makes the node, give it both wrappers: with ``awrap_tool_call=`` alone, ``graph.invoke`` would run
the tools without approvals and limits.

    calls = RunCalls()
    node = ToolNode([look_up, pay], awrap_tool_call=calls, wrap_tool_call=calls.sync)
"""

from __future__ import annotations

from typing import Any, Unpack

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode

from ..dispatch import CallPool
from ..dispatch.store import IdempotencyStore
from ..errors import ToolError
from ..events import Observation
from ..pipelines.entry import StepKeywords
from ..pipelines.modelless import run_calls
from ..tools import AnyTools, Tool, Toolset
from .promises import broken_alone, refuse_store

__all__ = ["CallsNode", "RunCalls"]


class RunCalls:
    """The wrappers for the calls of one or more tool nodes: itself for ``ainvoke``, `sync` for ``invoke``.

    Args:
        with_options: the node's tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``. All
            others have the defaults.
        store: refused: LangGraph's calls have no identity here that outlives a crash or a retry.
        options: as for `run_calls`. Calls share a pool, unless they are run by `sync`: each is a run of its own then,
            so `sync` refuses calls if an option of the tools or the pipeline is about calls at the same time.

    Raises:
        TypeError: a store was given.
    """

    def __init__(
        self,
        with_options: AnyTools = (),
        *,
        store: IdempotencyStore | None = None,
        **options: Unpack[StepKeywords],
    ) -> None:
        refuse_store("RunCalls", store)
        self._known = Toolset(with_options)
        self._options = options
        self._pool = CallPool()

    async def __call__(self, request: Any, execute: Any) -> Any:
        """Runs one call; returns LangGraph's message or command for it, or raises the exception that LangGraph lets
        through. Of a call that was not run, denied say, it returns a message with the reason."""
        one = _Call(request)

        # LangGraph's own way of running one call is the body of the tool here, so that injected state, stores,
        # commands, its words for an error, and exceptions and interrupts that leave the node stay.
        async def run(arguments: dict[str, Any]) -> Any:
            try:
                return one.judged(await execute(one.with_arguments(arguments)))
            except GraphBubbleUp as error:
                raise one.interrupted_by(error) from None

        options: StepKeywords = {"pool": self._pool, **self._options}
        turn = await run_calls([one.call], [self._made(one, run)], **options)
        return one.answer(turn.observations[0])

    def sync(self, request: Any, execute: Any) -> Any:
        """Runs one call in a program without an event loop; see `__call__`.

        Raises:
            TypeError: an option cannot hold here, since each call is a run of its own; nothing has run.
        """
        # LangGraph runs the calls of a node in threads, each by this method: they have no pool in common. A graph may
        # be invoked either way, so that this is known only now.
        if (option := broken_alone(self._known, self._options)) is not None:
            raise TypeError(
                f"RunCalls: {option} cannot hold under invoke and stream, where each call is a run of its own; "
                "await graph.ainvoke(...) or iterate graph.astream(...), where calls share a pool"
            )
        one = _Call(request)

        def run(arguments: dict[str, Any]) -> Any:
            try:
                return one.judged(execute(one.with_arguments(arguments)))
            except GraphBubbleUp as error:
                raise one.interrupted_by(error) from None

        made = self._made(one, run)
        turn = run_calls([one.call], [made], **self._options).sync().finish()
        return one.answer(turn.observations[0])

    def _made(self, one: _Call, run: Any) -> Tool[..., Any]:
        name = one.call["name"]
        known = self._known.get(name)
        if known is not None:
            return known.running(run)
        return Tool.from_schema(run, {"type": "object"}, name=name, description="", pass_as="mapping")


class CallsNode(ToolNode):  # type: ignore[misc,unused-ignore]
    """A `ToolNode` whose calls are run by `streamtools.run_calls`, however the graph is invoked.

    Args:
        tools: as for `ToolNode`.
        with_options: see `RunCalls`.
        store, options: see `RunCalls`; the options as a dict: ``{"approve": ask, "limits": Limits(...)}``.
        more: as for `ToolNode`.
    """

    def __init__(
        self,
        tools: Any,
        *,
        with_options: AnyTools = (),
        store: IdempotencyStore | None = None,
        options: StepKeywords | None = None,
        **more: Any,
    ) -> None:
        calls = RunCalls(with_options, store=store, **(options or {}))
        super().__init__(tools, awrap_tool_call=calls, wrap_tool_call=calls.sync, **more)


class _Call:
    """One call, and how LangGraph's own run of it ended."""

    def __init__(self, request: Any) -> None:
        self.call = request.tool_call
        self._request = request
        self._worded: ToolMessage | None = None  # LangGraph has worded the error for the model
        self._interrupted: GraphBubbleUp | None = None

    def with_arguments(self, arguments: dict[str, Any]) -> Any:
        """Returns LangGraph's request for another attempt."""
        self._worded = self._interrupted = None
        return self._request.override(tool_call={**self.call, "args": arguments})

    def judged(self, done: Any) -> Any:
        """Returns the value of a run; raises what LangGraph has made a message of."""
        # Raised, it counts as the failure of a call, with its retries and its span; `answer` gives the message back.
        if isinstance(done, ToolMessage) and done.status == "error":
            self._worded = done
            raise ToolError(str(done.content))
        return done

    def interrupted_by(self, error: GraphBubbleUp) -> ToolError:
        """Keeps an exception that is for the graph; returns that of the call."""
        # An interrupt, say, by which a tool asks a person: no failure whose text is to be logged.
        self._interrupted = error
        return ToolError(f"the tool raised {type(error).__name__}")

    def answer(self, seen: Observation) -> Any:
        """Returns or raises the end of the call, as LangGraph has it."""
        if seen.outcome == "ok":
            return seen.value
        if seen.outcome == "failed" and self._interrupted is not None:
            raise self._interrupted
        if seen.outcome == "failed" and seen.attempts:
            return seen.unwrap() if self._worded is None else self._worded
        return ToolMessage(seen.model_content, tool_call_id=seen.call_id, name=seen.tool_name, status="error")
