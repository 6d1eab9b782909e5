"""Runs the tool calls of a smolagents agent as a pipeline would: limits, approvals, once, observations.

    from streamtools.integrations.smolagents import CallsAgent

    agent = CallsAgent(tools=[look_up, pay], model=model)

The body of each call runs in a thread of ours, with the caller's context variables and without its thread-local state.
The agent may run anywhere, also inside an event loop, which it holds up until it has an answer.

smolagents keeps no run, so that a store needs a name for it: ``CallsAgent(..., store=store, identity="order-7")``. A
call is then known by that name, the number of its step and its own id.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from smolagents import ToolCallingAgent
from smolagents.utils import AgentError, AgentToolExecutionError

from ..dispatch import IdempotencyStore
from ..errors import CallStillRunning, ToolError, ToolNotStarted, ToolSuspended
from ..events import Observation
from ..front import StepKeywords
from ..tools import AnyTools, Toolset
from .hosting import CallHost, CallPlace, MakeObservers, notes_of, tool_of
from .identity import AnswerName, Identity, answer_name, check_identity, given_name

__all__ = ["CallsAgent"]


class CallsAgent(ToolCallingAgent):  # type: ignore[misc,unused-ignore]
    """A `ToolCallingAgent` whose calls are run by `streamtools.run_calls`.

    Args:
        args: as for `ToolCallingAgent`.
        with_options: those of the tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``.
        store: remembers ``once`` calls and approved ones, so that none runs again when the same answer of the model is
            run again. It needs `identity`.
        identity: names the run, the same after a crash: a text, which stands for the first run of the agent, or a
            function of the agent.
        observers: makes the observers of each call's run; by default spans are drawn if OpenTelemetry is configured.
        options: as for `run_calls`, but for ``on_tool_error="cancel"``: ``{"approve": ask}``. With ``"raise"`` an
            exception of a tool ends the agent's run. All calls of the agent share a pool.
        more: as for `ToolCallingAgent`.

    Raises:
        TypeError: a store was given without an identity, or an option that cannot hold.
    """

    def __init__(
        self,
        *args: Any,
        with_options: AnyTools = (),
        store: IdempotencyStore | None = None,
        identity: Identity | None = None,
        observers: MakeObservers | None = None,
        options: StepKeywords | None = None,
        **more: Any,
    ) -> None:
        check_identity("CallsAgent", identity)
        if store is not None and identity is None:
            raise TypeError(
                "CallsAgent: a store needs a name for the run, since smolagents has none; write "
                'CallsAgent(..., store=store, identity="order-7"), or identity=lambda agent: ...'
            )
        self._known = Toolset(with_options)
        self._host = CallHost("CallsAgent", self._known, store=store, observers=observers, options=options or {})
        self._identity = identity
        self._runs = 0
        self._answer = _Answer((), None)
        super().__init__(*args, **more)

    def run(self, *args: Any, **more: Any) -> Any:
        """Runs the agent; see `ToolCallingAgent`."""
        self._runs += 1
        return super().run(*args, **more)

    def process_tool_calls(self, chat_message: Any, memory_step: Any) -> Iterator[Any]:
        """Runs the calls of one answer; see `ToolCallingAgent`."""
        self._answer = _Answer(chat_message.tool_calls, self._name_of(memory_step))
        yield from super().process_tool_calls(chat_message, memory_step)

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs one call; returns the tool's value, or raises smolagents' error. Of a call that was not run, denied say,
        or has failed beside others of its answer, it returns the text for the model."""
        # smolagents' own way of running one call is the body of the tool here, so that state variables, managed agents
        # and its errors stay.
        own = super().execute_tool_call
        raised: AgentError | None = None

        def run(given: Mapping[str, Any]) -> Any:
            nonlocal raised
            raised = None
            try:
                return own(tool_name, arguments if given == call[2] else dict(given))
            except AgentError as error:  # smolagents has worded it for the model
                raised = error
                if isinstance(error.__cause__, (ToolNotStarted, ToolSuspended)):
                    raise type(error.__cause__)(str(error)) from None
                raise ToolError(str(error)) from None

        answer = self._answer
        call_id, number = answer.take(tool_name, arguments)
        call = (call_id, tool_name, arguments if isinstance(arguments, Mapping) else {})
        place = None if number is None else CallPlace(answer, number)
        # What ends a run has no effect, and its value may be anything.
        tool = tool_of(self._known, tool_name, run, effect="pure" if tool_name == "final_answer" else "once")
        seen = self._host.run_sync(call, tool, identity=answer.name, place=place)
        cause = raised.__cause__ if isinstance(raised, AgentToolExecutionError) else None
        if cause is not None and self._host.ends_runs and seen.outcome == "failed":
            raise cause
        try:
            return self._end(seen, raised)
        except AgentError as error:
            # With one that is raised smolagents forgets the results beside it. What ends the run has no other end.
            if answer.is_single or tool_name == "final_answer":
                raise
            return str(error)

    def _end(self, seen: Observation, raised: AgentError | None) -> Any:
        if raised is not None and seen.outcome in ("failed", "suspended"):
            raise raised
        if isinstance(seen.error, CallStillRunning):
            raise seen.error  # as a text it would stand for the end of the run that goes on
        if (seen.recorded and seen.outcome == "failed") or seen.outcome in ("timed_out", "unknown"):
            raise AgentToolExecutionError(str(seen.error), self.logger)
        if seen.outcome == "ok" and notes_of(seen):
            return seen.model_content
        if seen.recorded and seen.outcome == "ok":
            return seen.value
        return seen.unwrap() if seen.attempts else seen.model_content

    def _name_of(self, memory_step: Any) -> AnswerName | None:
        if self._host.store is None or self._identity is None:
            return None
        name = given_name("CallsAgent", self._identity, self)
        # A text names all runs of this agent, so that they are counted; a function may name each by itself.
        runs = () if callable(self._identity) else (self._runs,)
        return answer_name(name, "smolagents", *runs, memory_step.step_number)


class _Answer:
    """The calls of one answer, in the model's order, of which smolagents tells name and arguments alone."""

    def __init__(self, calls: Any, name: AnswerName | None) -> None:
        self.name = name
        self.is_single = len(calls) == 1
        self._lock = threading.Lock()
        self._left = list(enumerate(calls))

    def take(self, tool_name: str, arguments: Any) -> tuple[str | None, int | None]:
        """Returns the id and the number of a call, each call once; None if the answer has no such call."""
        with self._lock:
            for at, (number, call) in enumerate(self._left):
                if call.function.name == tool_name and (call.function.arguments or {}) == arguments:
                    del self._left[at]
                    return str(call.id), number
        return None, None
