"""Runs the tool calls of a Strands agent as a pipeline would: limits, order, approvals, once, one observation each.

    from strands import Agent
    from streamtools.integrations.strands import CallsExecutor

    agent = Agent(tools=[look_up, pay], tool_executor=CallsExecutor())

The arguments are validated by the schema that the model was shown, before Strands sees the call.

With a store, a call is known by the agent's session, the place of the model's message in the conversation, and its own
id: the session has all three, so that they are the same after an interrupt and in the next process. Without a session
manager an agent's `session_id` is made up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any, Unpack
from weakref import WeakSet

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.tools.executors import ConcurrentToolExecutor
from strands.types._events import ToolInterruptEvent, ToolResultEvent
from strands.types.session import decode_bytes_values, encode_bytes_values
from strands.types.tools import AgentTool

from ..content import FinalResult
from ..dispatch import CallPool, IdempotencyStore
from ..errors import CallStillRunning, ToolError, ToolNotStarted, ToolSuspended
from ..events import Observation, ToolProgress
from ..front import StepKeywords, run_calls
from ..front.checked import check_operations
from ..limits import Limits
from ..pipelines import Trajectory
from ..tools import AnyTools, Tool, ToolContext, Toolset, tool
from .hosting import MakeObservers, check_budgets, check_policies, notes_of
from .identity import AnswerName, Identity, answer_name, check_identity, given_name

__all__ = ["CallsExecutor"]

_Events = Callable[[dict[str, Any], list[Any]], AsyncIterator[Any]]
"""Runs one call as Strands does: of the call and a list that its result is put into."""


class CallsExecutor(ConcurrentToolExecutor):  # type: ignore[misc,unused-ignore]
    """An executor of Strands' whose calls are run by `streamtools.run_calls`.

    Args:
        tools: the agent's tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``. All others
            have the defaults.
        store: remembers ``once`` calls and approved ones, so that none runs again after an interrupt, or where a hook
            asks for another try. The agent needs a session manager, or `identity`.
        identity: stands for the session: a text, or a function of the agent.
        trajectory: the run that the answers are steps of, one after the other.
        observers: makes the observers of each answer's run; by default spans are drawn if OpenTelemetry is configured,
            and the trajectory has its own.
        options: as for `run_calls`. With ``on_tool_error="raise"`` an exception of a tool ends the agent's run. All
            calls of the executor share a pool. An approver decides before Strands' own hooks are asked.

    Raises:
        TypeError: `identity` is of another type. An agent whose calls a store would not know again raises one, too.
    """

    def __init__(
        self,
        tools: AnyTools = (),
        *,
        store: IdempotencyStore | None = None,
        identity: Identity | None = None,
        trajectory: Trajectory | None = None,
        observers: MakeObservers | None = None,
        **options: Unpack[StepKeywords],
    ) -> None:
        check_identity("CallsExecutor", identity)
        self._known = Toolset(tools)
        conversation = "known when a call is made" if trajectory is None else trajectory.conversation_id
        check_policies("CallsExecutor", options, self._known)
        if trajectory is None:
            check_budgets("CallsExecutor", options)
        check_operations(self._known, store, conversation)
        self._store = store
        self._identity = identity
        self._trajectory = trajectory
        self._observers = observers
        self._privacy = options.pop("privacy", None)
        if trajectory is not None and self._privacy is not None:
            raise ValueError("pass the policy to the Trajectory, which all answers share, not to the CallsExecutor")
        self._raises = options.get("on_tool_error") == "raise"
        if self._raises:
            options["on_tool_error"] = "continue"
        self._options: StepKeywords = {"pool": CallPool(options.get("limits", Limits())), **options}
        self._retries = _Retries()

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
        answer = self._answer(agent, tool_uses)
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
        name, conversation = answer or (None, None)
        run = self._trajectory
        if run is None:
            observers = None if self._observers is None else self._observers()
            run = Trajectory(conversation_id=conversation, observers=observers, privacy=self._privacy)
        used, failure = [one for one in tools if one], None
        async with run_calls(calls, used, store=self._store, identity=name, trajectory=run, **self._options) as running:
            async for event in running:
                if isinstance(event, ToolProgress):
                    yield event.value
                elif isinstance(event, Observation):
                    into = results[event.call_id]
                    into[:] = [*into[:-1], _noted(into[-1], event)] if into else _without_a_run(event)
                    if event.outcome == "failed" and self._raises:
                        failure = failure or (event.error and event.error.__cause__)
        if failure is not None:
            raise failure
        tool_results.extend(result for call_id in uses for result in results[call_id])

    def _answer(self, agent: Any, tool_uses: list[Any]) -> AnswerName | None:
        """Returns a name for the model's answer, if there is a store; raises a TypeError if it would not last."""
        if self._store is None or not tool_uses:
            return None
        self._retries.guard(agent)
        place = _place_of(agent, tool_uses[0]["toolUseId"])
        if self._identity is not None:
            return answer_name(given_name("CallsExecutor", self._identity, agent), place)
        session = getattr(agent._session_manager, "session_id", None)
        if session is None:
            raise TypeError(
                "CallsExecutor: a store needs a session to recognise a repeated call; write "
                'Agent(..., session_manager=FileSessionManager(session_id="order-7")), or name the calls yourself: '
                'CallsExecutor(store=store, identity="order-7")'
            )
        return answer_name(session, "strands", agent.agent_id, place)

    def _tool(
        self, agent: Any, name: str, uses: dict[str, Any], results: dict[str, list[Any]], events: _Events
    ) -> Tool | None:
        registry = agent.tool_registry
        theirs = registry.dynamic_tools.get(name) or registry.registry.get(name)
        if theirs is None:
            return None
        known = self._known.get(name)
        is_guarded = self._store is not None and (known is None or known.effect == "once")

        async def run(arguments: dict[str, Any], ctx: ToolContext) -> AsyncIterator[Any]:
            into, raised, interrupted = results[ctx.call_id], None, False
            into.clear()  # of an attempt before
            self._retries.begin(is_guarded=is_guarded)
            async for event in events({**uses[ctx.call_id], "input": arguments}, into):
                interrupted |= isinstance(event, ToolInterruptEvent)
                raised = event.exception if isinstance(event, ToolResultEvent) else raised
                yield event
            if not into and interrupted:
                raise ToolSuspended("the tool was interrupted")
            if into and into[-1]["status"] == "error":  # the result itself stays as Strands has worded it
                words = "\n".join(block["text"] for block in into[-1]["content"] if "text" in block)
                raise (ToolNotStarted(words) if isinstance(raised, ToolNotStarted) else ToolError(words)) from raised
            yield FinalResult(encode_bytes_values(into[-1]) if into else None)

        return (tool(theirs) if known is None else known).running(run)


def _place_of(agent: Any, call_id: str) -> int | None:
    """Returns the place of the message with a call in the whole conversation, of which the agent has the end."""
    for place in range(len(agent.messages) - 1, -1, -1):
        if any(block.get("toolUse", {}).get("toolUseId") == call_id for block in agent.messages[place]["content"]):
            return place + int(agent.conversation_manager.removed_message_count)
    return None


def _noted(result: dict[str, Any], seen: Observation) -> dict[str, Any]:
    return {**result, "content": [*({"text": note} for note in notes_of(seen)), *result["content"]]}


def _without_a_run(seen: Observation) -> list[Any]:
    """Returns the result of a call that Strands' own code has not run now, none if the call waits; raises
    `CallStillRunning` if it runs elsewhere: as a result it would stand for the end of that."""
    if isinstance(seen.error, CallStillRunning):
        raise seen.error
    if seen.outcome == "suspended" or (seen.outcome == "ok" and not seen.recorded):
        return []
    if seen.outcome == "ok" and isinstance(seen.value, dict) and "toolUseId" in seen.value:
        result = {**decode_bytes_values(seen.value), "toolUseId": seen.call_id}
        return [_noted(result, seen)]
    status = "success" if seen.outcome == "ok" else "error"
    return [{"toolUseId": seen.call_id, "status": status, "content": [{"text": seen.model_content}]}]


# -- hooks that ask for another try --


class _Retries:
    """Refuses to run a call again that a store has to know: Strands' hooks ask for that within the run of a call."""

    def __init__(self) -> None:
        self._guarded: WeakSet[Any] = WeakSet()  # agents
        self._results: ContextVar[dict[str, Any] | None] = ContextVar("streamtools_strands_results", default=None)

    def guard(self, agent: Any) -> None:
        if agent not in self._guarded:
            self._guarded.add(agent)
            agent.hooks.add_callback(BeforeToolCallEvent, self._before)
            agent.hooks.add_callback(AfterToolCallEvent, self._after)

    def begin(self, *, is_guarded: bool) -> None:
        self._results.set({} if is_guarded else None)

    def _before(self, event: Any) -> None:
        result = (self._results.get() or {}).get(event.tool_use["toolUseId"])
        if result is not None and event.selected_tool is not None:
            event.selected_tool = _Answered(event.selected_tool, result)

    def _after(self, event: Any) -> None:
        results = self._results.get()
        if results is not None and not isinstance(event.exception, ToolNotStarted):
            results[event.tool_use["toolUseId"]] = event.result


class _Answered(AgentTool):  # type: ignore[misc,unused-ignore]
    def __init__(self, instead_of: Any, result: Any) -> None:
        super().__init__()
        self._tool = instead_of
        self._result = result

    @property
    def tool_name(self) -> str:
        return str(self._tool.tool_name)

    @property
    def tool_spec(self) -> Any:
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        return str(self._tool.tool_type)

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **more: Any) -> AsyncIterator[Any]:
        yield ToolResultEvent(self._result)
