"""Runs the tool calls of a LangGraph `ToolNode` as a pipeline would: limits, order, approvals, once, observations.

    from streamtools.integrations.langgraph import CallsNode

    node = CallsNode([look_up, pay], store=SqliteStore("calls.db"))

The arguments are validated by LangGraph, by the tool's own model; those of tools in `with_options=`, here before.
Where something else makes the node, give it both wrappers: with ``awrap_tool_call=`` alone, ``graph.invoke`` would run
the tools without approvals and limits.

    calls = RunCalls()
    node = ToolNode([look_up, pay], awrap_tool_call=calls, wrap_tool_call=calls.sync)

With a store, a call is known by its thread, the id of the model's message and its own id. The checkpoint has all three,
so that they are the same after an interrupt, a retry, a crash and a replay of an earlier checkpoint. The namespace of
the task is not: a replay makes new tasks. A store that keeps decisions lets the graph ask about calls that need an
approval, by an interrupt; see `langgraph_interrupts`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.prebuilt import ToolNode

from ..dispatch import IdempotencyStore
from ..durable.desk import decides
from ..errors import ApprovalPending, CallStillRunning, ToolError, ToolSuspended
from ..events import Observation
from ..front import StepKeywords
from ..ground import type_name
from ..tools import AnyTools, Toolset
from .hosting import CallHost, CallPlace, MakeObservers, is_repetition, notes_of, tool_of
from .identity import AnswerName, Identity, answer_name, check_identity, given_name
from .langgraph_interrupts import InterruptApproval, Siblings

__all__ = ["CallsNode", "RunCalls"]

_WRITE = (
    "write builder.compile(checkpointer=...) and graph.invoke(..., {'configurable': {'thread_id': 'order-7'}}), or "
    "name the calls yourself: identity=lambda request: ..."
)


class RunCalls:
    """The wrappers for the calls of one or more tool nodes: itself for ``ainvoke``, `sync` for ``invoke``.

    Args:
        with_options: the node's tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``. All
            others have the defaults.
        store: remembers ``once`` calls and approved ones, so that none runs again after an interrupt, a retry or a
            crash. The graph needs a checkpointer and a thread, or `identity`.
        identity: stands for the thread: a text, or a function of LangGraph's `ToolCallRequest`. The place of the
            model's message in the state then stands for the message's id.
        observers: makes the observers of each call's run; by default spans are drawn if OpenTelemetry is configured.
        options: as for `run_calls`, but for ``on_tool_error="cancel"``. With ``"raise"`` an exception of a tool ends
            the graph's run, or is for a `RetryPolicy`. All calls share a pool.

    Raises:
        TypeError: `identity` is of another type, or an option cannot hold. Each call raises one if there is a store
            that would not know it again.
    """

    def __init__(
        self,
        with_options: AnyTools = (),
        *,
        store: IdempotencyStore | None = None,
        identity: Identity | None = None,
        observers: MakeObservers | None = None,
        **options: Unpack[StepKeywords],
    ) -> None:
        check_identity("RunCalls", identity)
        self._known = Toolset(with_options)
        self._identity = identity
        self._siblings = Siblings()
        self._host = CallHost("RunCalls", self._known, store=store, observers=observers, options=options)

    async def __call__(self, request: Any, execute: Any) -> Any:
        """Returns LangGraph's message or command, or raises what is for the graph, as an interrupt. Of a call that
        failed, or was not run, it returns a message with the reason.
        """
        one = _Call(request, self._host)
        found = _message_of(request)
        identity = self._answer(request, *found)

        # LangGraph's own way of running one call is the body of the tool here, so that injected state, stores,
        # commands, its words for an error, and exceptions and interrupts that leave the node stay.
        async def run(arguments: dict[str, Any]) -> Any:
            try:
                done = await execute(one.with_arguments(arguments))
            except GraphBubbleUp as error:
                done = one.left_by(error)
            return one.judged(done)

        # The tasks of a node begin in the order of the calls.
        place = CallPlace(_task_of(request))
        asking = self._asking(request, identity)
        with self._siblings.running(place.answer):
            if asking is not None:
                await asking.read()
            approve = None if asking is None else asking.approve
            tool = tool_of(self._known, one.call["name"], run)
            seen = await self._host.run(one.call, tool, identity=identity, place=place, approve=approve)
        is_open = isinstance(seen.error, ApprovalPending)
        if is_open or seen.outcome == "suspended":
            await self._siblings.wait(place.answer)
        if asking is not None:
            await asking.leave(is_open=is_open)
        return one.answer(seen)

    def sync(self, request: Any, execute: Any) -> Any:
        """Runs one call in a program without an event loop, in LangGraph's thread; see `__call__`."""
        one = _Call(request, self._host)
        found = _message_of(request)
        identity = self._answer(request, *found)

        def run(arguments: dict[str, Any]) -> Any:
            try:
                done = execute(one.with_arguments(arguments))
            except GraphBubbleUp as error:
                done = one.left_by(error)
            return one.judged(done)

        number = _number_of(request, found[0])
        place = None if number is None else CallPlace(_task_of(request), number)
        asking = self._asking(request, identity)
        if asking is not None:
            asking.read_sync()
        approve = None if asking is None else asking.approve
        tool = tool_of(self._known, one.call["name"], run)
        seen = self._host.run_sync(one.call, tool, identity=identity, place=place, approve=approve)
        if asking is not None:
            asking.leave_sync(is_open=isinstance(seen.error, ApprovalPending))
        return one.answer(seen)

    def _asking(self, request: Any, name: AnswerName | None) -> InterruptApproval | None:
        call, config = request.tool_call, request.runtime.config["configurable"]
        known = self._known.get(call["name"])
        is_gated = known is not None and known.needs_approval is not False
        if not (is_gated and decides(self._host.store) and config.get("__pregel_checkpointer")):
            return None
        assert name is not None, "there is a store"
        return InterruptApproval(config, call["args"], name, self._host.approver)

    def _answer(self, request: Any, message: AIMessage | None, place: int | None) -> AnswerName | None:
        """Returns a name for the model's answer that a call stands in; None if there is no store to know it by. Raises
        a TypeError if the answer would have another name when the graph goes on."""
        if self._host.store is None:
            return None
        if self._identity is not None:
            return answer_name(given_name("RunCalls", self._identity, request), place)
        config = request.runtime.config["configurable"]
        thread = config.get("thread_id")
        if thread is None or not config.get("__pregel_checkpointer"):
            missing = "without a thread_id" if thread is None else "without a checkpointer"
            raise TypeError(f"RunCalls: a store cannot recognise a repeated call {missing}; {_WRITE}")
        if message is None or not request.tool_call.get("id"):
            raise TypeError(
                f"RunCalls: a store cannot recognise a repeated call that is in no message of the state; {_WRITE}"
            )
        # A state without the reducer `add_messages` has messages without ids.
        named = (message.id,) if message.id else (config.get("checkpoint_ns"), place)
        return answer_name(thread, "langgraph", *named)


class CallsNode(ToolNode):  # type: ignore[misc,unused-ignore]
    """A `ToolNode` whose calls are run by `streamtools.run_calls`, however the graph is invoked.

    Args:
        tools: as for `ToolNode`.
        with_options: see `RunCalls`.
        store, identity, observers, options: see `RunCalls`; the options as a dict: ``{"approve": ask}``.
        more: as for `ToolNode`; ``on_tool_error="raise"`` is in the place of ``handle_tool_errors=False``.
    """

    def __init__(
        self,
        tools: Any,
        *,
        with_options: AnyTools = (),
        store: IdempotencyStore | None = None,
        identity: Identity | None = None,
        observers: MakeObservers | None = None,
        options: StepKeywords | None = None,
        **more: Any,
    ) -> None:
        if more.get("handle_tool_errors") is False and (options or {}).get("on_tool_error") != "raise":
            raise TypeError('CallsNode: write options={"on_tool_error": "raise"} for handle_tool_errors=False')
        calls = RunCalls(with_options, store=store, identity=identity, observers=observers, **(options or {}))
        super().__init__(tools, awrap_tool_call=calls, wrap_tool_call=calls.sync, **more)


class _Call:
    """One call, and how LangGraph's own run of it ended. A store keeps its value, which has to be JSON then."""

    def __init__(self, request: Any, host: CallHost) -> None:
        self.call = request.tool_call
        self._request = request
        self._host = host
        self._is_kept = host.store is not None
        self._done: Any = None  # the value of LangGraph's
        self._record: Any = None  # as the store has it
        self._worded: ToolMessage | None = None  # LangGraph has worded the error for the model
        self._interrupted: GraphBubbleUp | None = None

    def with_arguments(self, arguments: dict[str, Any]) -> Any:
        self._done = self._record = self._worded = self._interrupted = None
        return self._request.override(tool_call={**self.call, "args": arguments})

    def judged(self, done: Any) -> Any:
        # Raised, it counts as the failure of a call, with its retries and its span; `answer` gives the message back.
        if isinstance(done, ToolMessage) and done.status == "error":
            self._worded = done
            raise ToolError(str(done.content))
        self._done = done
        if self._is_kept:
            self._record = _record_of(done)
        return done if self._record is None else self._record

    def left_by(self, error: GraphBubbleUp) -> Any:
        """Returns an exception that is the end of a call; keeps any other, which is for the graph, and raises that of a
        call that runs again. Raises `ToolSuspended` if the call is not over."""
        if isinstance(error, ParentCommand):
            return error
        # An interrupt, say, by which a tool asks a person: no failure whose text is to be logged or kept.
        self._interrupted = error
        raise ToolSuspended(f"the tool raised {type_name(error)}") from None

    def answer(self, seen: Observation) -> Any:
        if seen.outcome == "ok":
            return self._raised_or(self._value(seen))
        if seen.outcome == "suspended" and self._interrupted is not None:
            raise self._interrupted
        if isinstance(seen.error, CallStillRunning):
            raise seen.error  # as a message it would be put on record over the answer of the run that goes on
        if seen.outcome == "failed" and seen.attempts and self._worded is not None:
            return self._worded
        if self._host.raises(seen):
            seen.unwrap()
        return self._message(seen.model_content, status="error")

    def _value(self, seen: Observation) -> Any:
        notes, value = notes_of(seen), seen.value
        if self._is_kept:
            if not _is_record(value):  # LangGraph cannot write it, a person has put it on record, or middleware
                return self._message(seen.model_content) if seen.recorded else value
            value = self._done if value == self._record and not is_repetition(seen) else _read_back(value)
        if is_repetition(seen) and not isinstance(value, ToolMessage):
            # What another call has done to the graph, or to its state, is not done again.
            return self._message("\n".join([*notes, "[a command, which the graph has followed]"]))
        return self._noted(value, notes) if notes and isinstance(value, ToolMessage) else value

    def _noted(self, value: ToolMessage, notes: list[str]) -> ToolMessage:
        content = value.content
        noted = "\n".join([*notes, content]) if isinstance(content, str) else [*notes, *content]
        return value.model_copy(update={"content": noted, "tool_call_id": self.call["id"], "id": None})

    @staticmethod
    def _raised_or(value: Any) -> Any:
        if isinstance(value, ParentCommand):
            raise value
        return value

    def _message(self, text: str, **more: Any) -> ToolMessage:
        return ToolMessage(text, tool_call_id=self.call["id"], name=self.call["name"], **more)


# -- the message that a call stands in --


def _message_of(request: Any) -> tuple[AIMessage | None, int | None]:
    call = request.tool_call
    for messages in _lists(request.state):
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, AIMessage) and any(_is_same(call, one) for one in message.tool_calls):
                return message, place
    return None, None


def _number_of(request: Any, message: AIMessage | None) -> int | None:
    calls = [] if message is None else message.tool_calls
    return next((number for number, one in enumerate(calls) if _is_same(request.tool_call, one)), None)


def _task_of(request: Any) -> tuple[Any, ...]:
    """Returns what the calls of one message have in common while they run: the task, or, where each call was sent to
    a task of its own, what has sent them."""
    config = request.runtime.config
    known, given = config.get("configurable", {}), config.get("metadata", {})
    namespace = str(known.get("checkpoint_ns", ""))
    if given.get("langgraph_path", ())[:1] == ("__pregel_push",):
        namespace = namespace.rpartition(":")[0]
    return (known.get("thread_id"), given.get("langgraph_step"), namespace)


def _lists(state: Any) -> Iterable[list[Any]]:
    fields = [state] if isinstance(state, list) else (state if isinstance(state, Mapping) else vars(state)).values()
    return [one for one in fields if isinstance(one, list)]


def _is_same(call: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(call["id"] == other["id"] and call["name"] == other["name"])


# -- the value of a call in a store --

_KEPT = "streamtools_langgraph"
_serde = JsonPlusSerializer()


def _record_of(done: Any) -> dict[str, Any] | None:
    try:
        if isinstance(done, ToolMessage):
            return {_KEPT: "message", "message": done.model_dump(mode="json")}
        value = done.args[0] if isinstance(done, ParentCommand) else done
        kind, written = _serde.dumps_typed(value)
    except Exception:  # an artifact's own code runs here
        return None
    raised = isinstance(done, ParentCommand)
    return {_KEPT: "raised" if raised else "value", "kind": kind, "value": b64encode(written).decode()}


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and _KEPT in value


def _read_back(record: dict[str, Any]) -> Any:
    if record[_KEPT] == "message":
        return ToolMessage.model_validate(record["message"])
    value = _serde.loads_typed((record["kind"], b64decode(record["value"])))
    return ParentCommand(value) if record[_KEPT] == "raised" else value
