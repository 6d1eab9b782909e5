"""Runs the tool calls of a pydantic-ai agent as a pipeline would: limits, order, approvals, once, observations.

    from pydantic_ai import Agent, FunctionToolset
    from streamtools.integrations.pydantic_ai import CallsToolset

    agent = Agent("openai:gpt-5-mini", toolsets=[CallsToolset(FunctionToolset([look_up, pay]))])

With a store, a call is known by the response that it stands in and its own id: by the conversation, run and time that
pydantic-ai has put on the response. They are parts of the history, so that they are the same when an agent is run with
that history again. `RunContext.run_id` is not: each run has another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import exceptions, messages
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturn
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import from_json, to_json

from .. import errors
from ..dispatch import IdempotencyStore
from ..durable.desk import decides
from ..errors import CallStillRunning, ToolNotStarted, ToolSuspended
from ..events import Observation
from ..front import StepKeywords
from ..ground import type_name
from ..tools import AnyTools, Toolset
from .hosting import CallHost, CallPlace, MakeObservers, notes_of, tool_of
from .identity import AnswerName, Identity, answer_name, check_identity, given_name
from .pydantic_ai_approvals import DeferredApproval, settled

__all__ = ["CallsToolset"]

_WAITS = (ApprovalRequired, CallDeferred)  # exceptions by which a tool says that the call's end comes later
_SIGNALS = (
    *_WAITS, ModelRetry, ToolFailed, exceptions.SkipToolExecution, exceptions.ToolRetryError,
    exceptions.ToolFailedError, exceptions.RunCancelled, exceptions.UsageLimitExceeded,
)  # fmt: skip


@dataclass
class CallsToolset(WrapperToolset[Any]):  # type: ignore[misc,unused-ignore]
    """A toolset of pydantic-ai's whose calls are run by `streamtools.run_calls`, in one pool."""

    tools: AnyTools | Toolset = ()
    """Those of the tools that have options of ours, say ``tool(look_up, effect="pure", timeout=5)``."""
    store: IdempotencyStore | None = None
    """Remembers ``once`` calls and approved ones, so that none runs again when an agent is run with the same history
    again: after a crash, or with the results of deferred calls."""
    identity: Identity | None = None
    """Names the conversation, if the history is kept without pydantic-ai's own ids: a text, or a function of the
    `RunContext`. The place of the response in the history then stands for the response."""
    observers: MakeObservers | None = None
    """Makes the observers of each call's run; by default spans are drawn if OpenTelemetry is configured."""
    options: StepKeywords = field(default_factory=StepKeywords)
    """As for `run_calls`, but for ``on_tool_error="cancel"``: ``{"approve": ask, "limits": Limits(...)}``. With
    ``"raise"`` an exception of a tool ends the agent's run."""
    host: CallHost | None = field(default=None, repr=False)
    """Runs the calls; copies that pydantic-ai makes of the toolset share it."""

    def __post_init__(self) -> None:
        check_identity("CallsToolset", self.identity)
        self.tools = Toolset(self.tools)
        if self.host is None:
            self.host = CallHost(
                "CallsToolset", self.tools, store=self.store, observers=self.observers, options=self.options
            )

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Runs one call; returns the tool's value. Of a call that was not run, denied say, it returns the text for the
        model.

        Raises:
            ToolFailed: the tool has failed, of which the model reads.
            TypeError: there is a store, which would not know the call again; nothing has run.
        """
        assert self.host is not None, "made with the toolset"
        one, answer = _Call(self.host), self._answer(ctx)
        asking = self._asking(name, ctx, answer)

        # pydantic-ai has validated the arguments by now, and runs the function itself: context, hooks and retries stay.
        async def run(arguments: Mapping[str, Any]) -> Any:
            try:
                given = _validated(tool, tool_args, arguments)
                return one.returned(await self.wrapped.call_tool(name, given, ctx, tool))
            except _SIGNALS as error:
                raise one.left_by(error) from None

        made = tool_of(Toolset(self.tools), name, run)
        # The tasks of a step begin in the order of the calls.
        place = CallPlace((ctx.run_id, ctx.run_step))
        call = (ctx.tool_call_id, name, tool_args)
        approve = None if asking is None else asking.approve
        seen = await self.host.run(call, made, identity=answer, place=place, approve=approve)
        if asking is not None and isinstance(seen.error, errors.ApprovalPending):
            await asking.leave()
        return one.answer(seen)

    async def settled(self, messages: list[ModelMessage], results: DeferredToolResults) -> DeferredToolResults:
        """Puts answers on record, and returns those that hold: of a call that was decided before, the first one's.

            given = await toolset.settled(history, DeferredToolResults(approvals={"call_1": False}))
            await agent.run(message_history=history, deferred_tool_results=given)

        Args:
            messages: the history with the calls.
            results: the answers; ``metadata={"call_1": {"by": "ann"}}`` says who has given one.

        Raises:
            AlreadyDecided: a call was approved with edited arguments, and now it is denied.
            TypeError: the store keeps no decisions, or `identity` is a function, which needs a call's context; or an
                answer needs a name.
        """
        if not decides(self.store) or callable(self.identity):
            raise TypeError("CallsToolset: settled() needs a store that keeps decisions, and identity= as a text")
        approvals = dict(results.approvals)
        for call_id, given in results.approvals.items():
            at = _Place(messages, call_id)
            part = _part_of(at)
            if part is not None and (answer := self._answer(at)) is not None:
                about = results.metadata.get(call_id)
                approvals[call_id] = await settled(self.store, answer, part, given, about)
        return replace(results, approvals=approvals)

    def _asking(self, name: str, ctx: Any, answer: AnswerName | None) -> DeferredApproval | None:
        known, part = Toolset(self.tools).get(name), _part_of(ctx)
        is_gated = known is not None and known.needs_approval is not False
        if not (is_gated and decides(self.store) and part is not None and answer is not None):
            return None
        assert self.host is not None, "made with the toolset"
        return DeferredApproval(self.store, ctx, part, answer, self.host.approver)

    def _answer(self, ctx: Any) -> AnswerName | None:
        """Returns a name for the response that a call stands in; None if there is no store to know it by. Raises a
        TypeError if the response would have another name in another run with the same history."""
        if self.store is None:
            return None
        response, place = _response_of(ctx)
        if self.identity is not None:
            return answer_name(given_name("CallsToolset", self.identity, ctx), place)
        if response is None or response.run_id is None:
            missing = "response is not in the messages of its run" if response is None else "response has no run_id"
            raise TypeError(
                f"CallsToolset: a store cannot recognise a repeated call whose {missing}; keep the history with "
                "pydantic-ai's ids (ModelMessagesTypeAdapter does), or write CallsToolset(..., store=store, "
                "identity=lambda ctx: ctx.deps.order)"
            )
        time = response.timestamp.isoformat()
        conversation = response.conversation_id or response.run_id
        return answer_name(conversation, "pydantic-ai", response.run_id, time, response.provider_response_id)


def _validated(tool: Any, given: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those given, unless somebody has changed them. Raises `ToolNotStarted` if pydantic-ai refuses them."""
    if from_json(to_json(given)) == from_json(to_json(dict(wanted))):
        return given
    try:
        validated: dict[str, Any] = tool.args_validator.validate_python(dict(wanted))
    except ValidationError as error:
        raise ToolNotStarted(f"not run: its changed arguments do not fit: {error.title}") from None
    return validated


class _Place(NamedTuple):
    messages: list[ModelMessage]
    tool_call_id: str


def _part_of(ctx: Any) -> ToolCallPart | None:
    response, _ = _response_of(ctx)
    parts = () if response is None else response.parts
    return next((one for one in parts if isinstance(one, ToolCallPart) and one.tool_call_id == ctx.tool_call_id), None)


def _response_of(ctx: Any) -> tuple[ModelResponse | None, int | None]:
    for place in range(len(ctx.messages) - 1, -1, -1):
        message = ctx.messages[place]
        if isinstance(message, ModelResponse) and any(
            getattr(part, "tool_call_id", None) == ctx.tool_call_id for part in message.parts
        ):
            return message, place
    return None, None


class _Call:
    """One call, and how pydantic-ai's own run of it ended. A store keeps its value, which has to be JSON then."""

    def __init__(self, host: CallHost) -> None:
        self._host = host
        self._is_kept = host.store is not None
        self._value: Any = None
        self._record: Any = None  # as the store has it
        self._raised: Exception | None = None  # by which the tool speaks to its agent: no failure to be logged

    def returned(self, value: Any) -> Any:
        self._raised, self._value = None, value
        self._record = _record_of(value) if self._is_kept else value
        return self._record

    def left_by(self, error: Exception) -> errors.ToolError:
        """Keeps an exception that is for the agent; returns that of the call."""
        self._raised = error
        if isinstance(error, _WAITS):
            return ToolSuspended(f"the tool raised {type_name(error)}")
        return errors.ModelRetry(str(error)) if isinstance(error, ModelRetry) else errors.ToolError(str(error))

    def answer(self, seen: Observation) -> Any:
        # A signal leaves as it came. Where the call ended in another way after it, cancelled say, it is not the end.
        if self._raised is not None and seen.outcome in ("failed", "suspended"):
            raise self._raised
        if isinstance(seen.error, CallStillRunning):
            raise seen.error  # as a text it would be put on record over the answer of the run that goes on
        if seen.recorded and isinstance(seen.error, errors.ModelRetry):
            raise ModelRetry(str(seen.error))
        if seen.recorded and seen.outcome == "ok":
            return _noted(_read_back(seen.value), notes_of(seen))
        if not seen.attempts:
            return seen.model_content
        if seen.outcome != "ok" and not self._host.raises(seen):
            raise ToolFailed(seen.model_content)
        value = seen.unwrap()
        value = self._value if _is_record(value) and value == self._record else value  # middleware may have changed it
        return _noted(value, notes_of(seen))


def _noted(value: Any, notes: list[str]) -> Any:
    if not notes:
        return value
    if isinstance(value, str):
        return "\n".join([*notes, value])
    returned = value if isinstance(value, ToolReturn) else ToolReturn(value)
    more = [returned.content] if isinstance(returned.content, str) else returned.content or []
    return replace(returned, content=[*notes, *more])


# -- the value of a call in a store --

_KEPT = "streamtools_pydantic_ai"
_RETURNS: dict[str, TypeAdapter[Any]] = {"return": TypeAdapter(ToolReturn), "content": messages.tool_return_content_ta}


def _record_of(value: Any) -> Any:
    kind = "return" if isinstance(value, ToolReturn) else "content"
    try:
        written = _RETURNS[kind].dump_python(value, mode="json")
    except Exception:  # the value's own code runs here
        return value
    is_plain = kind == "content" and isinstance(value, (str, int, float, bool))
    return written if is_plain else {_KEPT: kind, "value": written}


def _read_back(value: Any) -> Any:
    if not _is_record(value):
        return value  # a text or number, or the words of a person who has looked into the call
    return _RETURNS[value[_KEPT]].validate_python(value["value"])


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and _KEPT in value
