"""Defines every event, in the order in which it can occur.

    StepStart MessageAdded*
      [AttemptBegan]                                                 with ``retry=``; may come again, behind a discard
      [RequestFailed StreamEnd]                                 the request was not answered by a stream
      StreamStart
        (TextStart TextDelta* TextEnd | ReasoningStart ReasoningDelta* ReasoningEnd | RefusalDelta | ProviderItem)*
        ToolCallStart ToolCallDelta* ToolCallEnd [ToolCallValidated]          each call; calls may interleave
        [ApprovalRequested [ApprovalResolved]]                            before a call that needs one would start
        [AnswerRequested]                                                 instead of its start, if it is done outside
        [ToolStarted (ToolProgress | AnswerRequested)* Observation]       while the stream goes on (`effect="pure"`)
      [Observation* AttemptDiscarded]                                the attempt broke off, and another follows
      StreamEnd [AttemptCommitted]
      [ApprovalRequested [ApprovalResolved]] [AnswerRequested]
      [ToolStarted (ToolProgress | AnswerRequested)* Observation]         after it; one `Observation` for every call
    StepEnd

`StreamWarning` and `UnknownPayload` may come anywhere, and `EventsDropped` in a branch that drops events. A tool that
reads a `Growing` argument begins within its call: its `ToolStarted` and progress stand before the `ToolCallEnd`.
`ToolCallFragment` is a wire's piece of a call; the accumulate stage turns it into the `ToolCall...` events, so that a
consumer never meets it.

Every event has a `seq`, gap-free and increasing within its run, and the `step` it belongs to. Every event that is not
a delta also has `causes` (the `seq` of the events that led to it) and `time` (monotonic seconds; stamped by the
pipeline, 0.0 where no clock was at hand). Treat events as immutable: type checkers enforce it, the interpreter does
not, because freezing them would cost four times the price of building them. The arguments of a valid call are a copy
wherever they are read, so that a change of them changes neither the call nor what others see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, dataclass_transform

from .content import Caller, ToolResult
from .errors import StreamError, ToolError, ToolFailed
from .ground.own import builder_of, on_read, owned
from .ground.text import ALWAYS, NEVER, described, one_line, shown_by
from .parts import (
    FINISHES,
    CallKind,
    Carry,
    FailedAttempt,
    Finding,
    Finish,
    Outcome,
    RequestOutcome,
    ResumePoint,
    StepOutcome,
    ToolCall,
    Usage,
    Wait,
)

__all__ = [
    "AnswerRequested", "ApprovalRequested", "ApprovalResolved", "AttemptBegan", "AttemptCommitted", "AttemptDiscarded",
    "CausedEvent", "Event", "EventBase", "EventsDropped", "Observation", "OutputDelta", "OutputEnd", "NO_MOMENT",
    "MessageAdded", "Moment", "Preview", "ProviderItem", "ReasoningDelta", "ReasoningEnd", "ReasoningStart",
    "RefusalDelta", "RequestFailed", "StepEnd", "StepStart", "StreamEnd", "StreamStart", "TextDelta", "TextEnd",
    "TextStart", "ToolCallDelta", "ToolCallEnd", "ToolCallFragment", "ToolCallValidated", "ToolCallStart",
    "ToolProgress", "ToolStarted", "UnknownPayload", "StreamWarning",
]  # fmt: skip

T = TypeVar("T")
_set = object.__setattr__


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(field,))
def event(cls: type[T]) -> type[T]:
    """Makes a slotted event class: immutable to type checkers, 0.15 µs to build (0.57 µs if frozen at run time)."""
    return dataclass(slots=True, repr=False)(cls)


@event
class EventBase:
    """Base of all events. Do not subclass it outside this module."""

    seq: int = field(default=-1, kw_only=True)
    """The position in the run, increasing without gaps; -1 before the pipeline has stamped it."""
    step: int = field(default=0, kw_only=True)
    """The number of the model response in the run, from 0."""

    __repr__ = shown_by(last=("seq", "step"))


@event
class CausedEvent(EventBase):
    """Base of the events that are not deltas."""

    causes: tuple[int, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """`seq` of each event that led to this one."""
    time: float = field(default=0.0, kw_only=True, metadata=NEVER)
    """Monotonic seconds (`time.monotonic`); differences are meaningful, the value is not."""


# -- around a model response --


@event
class StepStart(CausedEvent):
    """A step begins: one model response and the tools that it calls. Caused by the previous step's observations."""

    run_id: str
    """The run (trajectory) that the step belongs to."""
    asks_model: bool = True
    """False if no model is asked: the calls waited for approval (`resume`), or you passed them (`run_calls`)."""
    dispatches: bool = True
    """True if the calls run here, so that each gets an `Observation`; False with ``start="off"`` and ``"pure"``, which
    leave calls to other programs."""
    requested_at: float | None = field(default=None, kw_only=True, metadata=NEVER)
    """The time of the request on ``time.monotonic``; None if unknown, but it was no later than `time`."""
    request: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False, metadata=NEVER)
    """The request (model, parameters, messages), if the caller passed it, or the part that was passed."""
    resumes: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The ``traceparent`` (W3C Trace Context) of the step that suspended these calls or received this response, if that
    step was traced."""
    proposed_by: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The ``traceparent`` of the response that made the calls."""
    continued: bool = field(default=False, kw_only=True)
    """True if no model is asked, because the step continues calls that an earlier step left open. Its events report
    these calls from the beginning; no approval is requested again for a call that was already decided."""
    replayed: bool = field(default=False, kw_only=True)
    """True if the whole step comes from the run's journal: its events report the past, nothing runs, and observers do
    not see them."""


@event
class RequestFailed(CausedEvent):
    """The request did not return a stream: `StreamEnd` has the error, and the step ends."""

    outcome: RequestOutcome
    error_type: str
    """The HTTP status, or the class of the exception if there is none."""
    status: int | None = None
    """The HTTP status of the response, if there was one."""
    retry_after: float | None = None
    """Seconds to wait before you ask again, if the provider says so."""


@event
class MessageAdded(CausedEvent):
    """A user message was added to the history; this step's request is the first to contain it. See `AgentLoop.say`."""

    message_id: str
    """The id that `AgentLoop.say` returned."""
    messages: tuple[Any, ...] = field(default=(), repr=False)
    """The message in the wire's own shape: one dict, or as many as the wire needs."""
    when: Literal["next", "now"] = "next"
    """The moment that was requested; ``now`` cut off the response of the previous step."""


@event
class StreamStart(CausedEvent):
    """The stream begins, and its wire is known."""

    wire: str
    """The wire's name (``openai.chat_completions``, ``anthropic.messages``)."""
    model: str | None = None
    """The model's name as the provider gives it."""
    response_id: str | None = None
    """The provider's id of this response."""


@event
class TextStart(CausedEvent):
    """Text begins."""


@event
class TextDelta(EventBase):
    """More text."""

    text: str


@event
class TextEnd(CausedEvent):
    """Text ends."""

    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that must be sent back to the provider with this text (citations)."""
    whole: str | None = field(default=None, repr=False)
    """The whole text, if the provider repeated it at the end and it differs from the deltas: the turn has this text.
    Nearly always None."""


@event
class ReasoningStart(CausedEvent):
    """Reasoning (thinking) begins."""


@event
class ReasoningDelta(EventBase):
    """More reasoning."""

    text: str


@event
class ReasoningEnd(CausedEvent):
    """Reasoning ends."""

    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that must be sent back to the provider with the reasoning, byte for byte (signatures, encrypted reasoning,
    the field's name)."""
    whole: str | None = field(default=None, repr=False)
    """The whole reasoning, if the provider repeated it at the end and it differs; see `TextEnd.whole`."""


@event
class RefusalDelta(EventBase):
    """More of the model's refusal."""

    text: str


@event
class ProviderItem(CausedEvent):
    """A part of the response that the turn keeps unchanged (redacted thinking, search results, images, sources)."""

    type: str
    """The provider's name for the part."""
    raw: Mapping[str, Any] = field(repr=False)
    """The part as the provider sent it."""


# -- attempts --


@event
class AttemptBegan(CausedEvent):
    """A step with ``retry=`` asks the model: for the first time, or again after an `AttemptDiscarded`."""

    attempt: int
    """The number of the request in its step, from 1."""
    fallback: int = 0
    """The number of the function that makes the request: 0 for the first, from 1 for those in ``fallback=``."""
    after_output: bool = False
    """True if the attempt may be discarded even after some of its answer has been emitted."""


@event
class AttemptDiscarded(CausedEvent):
    """An attempt broke off, and another follows: forget every event whose `seq` is `from_seq` or greater. Every call of
    the attempt has its `Observation` by now."""

    attempt: int
    from_seq: int
    """`seq` of the first event to forget: the attempt's `AttemptBegan`."""
    cause: str
    """The kind of the error (``stream_truncated``, ``request_failed``)."""
    error_type: str = "_OTHER"
    """The HTTP status, the provider's word for its error, or the class of the exception."""
    delay_s: float = 0.0
    """Seconds until the next attempt, as planned."""
    usage: Usage | None = None
    """The tokens that the attempt used, as far as known; `AgentLoop.usage` includes them."""


@event
class AttemptCommitted(CausedEvent):
    """The attempt will not be discarded: its answer is the step's answer."""

    attempt: int
    cut: bool = False
    """True if the attempt broke off after a call that must not run twice had begun: calls that have begun continue, the
    others are ``skipped``, and the next request has their results."""


# -- tool calls --


@event
class ToolCallFragment(EventBase):
    """A piece of one call from one chunk, in the wire's own terms. The accumulate stage finds its call."""

    index: int | str | None = None
    """The wire's label for the call while it streams; not its identity."""
    id: str | None = None
    """The call's id, as sent; None and ``""`` both mean that there is none."""
    name: str | None = None
    arguments: str = field(default="", repr=False)
    """More of the arguments' text."""
    kind: CallKind = "function"
    start: bool = False
    """True if the wire marks the beginning of a call here, whatever its id and label."""
    end: bool = False
    """True if the call ends here."""
    cut: bool = False
    """True if the call must not run: the stream ended before the marker that this wire promises for every call."""
    in_text: bool = False
    """True if a stage has read the beginning of a call in the text."""
    disorder: Literal["early", "late", "again", "unmarked", "declined"] | None = None
    """The disorder, on a wire that marks where calls begin and end. ``early``: arguments before any call began;
    ``late``: arguments after the call's end, or in something that is no call; ``again``: a second beginning;
    ``unmarked``: an end without its marker, since another call began, or the response ended well; ``declined``: all
    calls so far are void, since the provider replaced their model."""
    problem: str | None = None
    """The code of the reason why the arguments are missing (``too_deep``)."""
    whole: str | None = field(default=None, repr=False)
    """The whole text of the arguments, if the wire repeats it at the end: it replaces the text so far."""
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that the provider wants back with the call."""
    namespace: str | None = None
    """The namespace of the tool, where the wire names one beside `name`."""
    awaits: str | None = None
    """See `ToolCall.awaits`."""
    caller: Caller | None = None
    """See `ToolCall.caller`; None if this piece names none."""


@event
class ToolCallStart(CausedEvent):
    """The model begins to call a tool. Exactly one `Observation` with this `call_id` will follow, whatever happens
    (calls of kind ``server`` are the provider's own and get none)."""

    call_id: str
    """The call's identity, unique within the turn."""
    name: str
    """The tool's name as you registered it, or as the model spelled it if it is unknown; ``""`` if it never arrived."""
    kind: CallKind = "function"
    index: int = 0
    """Position among the turn's calls, from 0."""
    call_id_synthesized: bool = False
    """True if the wire gave no usable id and `call_id` was generated (always the same for the same stream)."""


Moment: TypeAlias = tuple[Any, tuple[str | int, ...] | None]
"""A growing JSON text at one of its deltas: its value, or None if there is nothing to show; and the path of a number at
the very end, which the next delta may continue, or None."""

NO_MOMENT: Moment = (None, None)


class Preview:
    """A view of a growing JSON text for its deltas. See `streamtools.stages.preview`."""

    __slots__ = ()

    def at(self, end: int) -> Moment:
        """Returns the moment at which the text had `end` characters."""
        raise NotImplementedError


@event
class ToolCallDelta(EventBase):
    """More of a call's arguments."""

    call_id: str
    delta: str = field(repr=False)
    """The new text. It may be cut anywhere, even inside an escape sequence."""
    _source: Preview | Moment | None = field(default=None, repr=False, compare=False)
    _end: int = field(default=0, repr=False, compare=False)

    @property
    def preview(self) -> Any:
        """The best view of the arguments so far, for eyes only: never run it.

        The object belongs to this delta and does not change when the call grows. A path that was shown stays in later
        previews, and a string only gets longer. Do not change the object, since later previews share its complete
        parts. None until there is something to show. Computed when first read, in time linear in the new text if you
        read deltas in order; long strings and lists may appear a little late.
        """
        return _moment_of(self)[0]

    @property
    def preview_tentative(self) -> tuple[str | int, ...] | None:
        """The path in `preview` of a number that may be incomplete (``12`` of ``123``), else None."""
        return _moment_of(self)[1]


@event
class ToolCallEnd(CausedEvent):
    """The call's text has ended: `call.status` says whether it is complete. A call with the problem ``void`` is
    `discarded` and in no turn; it may already have had a `ToolCallEnd`."""

    call: ToolCall
    error: ToolError | None = None
    """The reason why `call` is not ready; None if it is."""
    in_disorder: bool = False
    """True if its pieces arrived in an order that the wire forbids: its text is read verbatim or not at all."""

    @property
    def call_id(self) -> str:
        """The call's identity."""
        return self.call.call_id


@event
class ToolCallValidated(CausedEvent):
    """The call's arguments are complete, and valid if the tool is known: the call will run if the turn allows it."""

    call: ToolCall
    invocation: Any = field(default=None, repr=False, compare=False)
    """The call as validation prepared it for the dispatcher; not for consumers."""

    @property
    def call_id(self) -> str:
        """The call's identity."""
        return self.call.call_id


# -- approval --


@event
class ApprovalRequested(CausedEvent):
    """The call is complete and valid, and waits until you approve or deny it: `Pipeline.approve`, `Pipeline.deny`."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """The validated arguments by parameter name, defaults included, exactly as the tool would get them."""
    fingerprint: str = field(kw_only=True)
    """A hash of the tool's name and the arguments, with which a later decision says which arguments were shown."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    caller: Caller = field(default="direct", kw_only=True)
    """See `ToolCall.caller`."""
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)
    """The origins of the argument values, if the tool has a `policy`; ``str()`` makes a sentence of each."""
    approvals: int = field(default=1, kw_only=True)
    """The number of people who have to approve the call; if more than one, each decision must name who made it."""


@event
class ApprovalResolved(CausedEvent):
    """The call was approved or denied. An approved call runs as soon as it can; a denied one is reported
    immediately (`Observation`)."""

    call_id: str
    tool_name: str
    approved: bool
    reason: str | None = None
    """The reason; for a denial, the model reads it."""
    by: tuple[str, ...] = field(default=(), kw_only=True)
    """The people who approved, or the one who denied, if the decisions named them."""
    at: float = field(default=0.0, kw_only=True)
    """The time of the last decision in seconds since 1970; it may have been made long ago, in another process."""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    """The changed arguments, if the approver changed them; the call runs with these."""


# -- calls that are done outside --


@event
class AnswerRequested(CausedEvent):
    """The call needs something from outside, to be passed to `Pipeline.answer`: its result, if another program runs it,
    or the answer to a `question` that the running tool asks."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """The validated arguments by parameter name, defaults included."""
    fingerprint: str = field(kw_only=True)
    """A hash of the tool's name, the arguments and the question; an answer must repeat it."""
    question: Any = field(default=None, repr=False, kw_only=True)
    """The running call's question, as text or JSON; None if the call's result is wanted."""
    rests: bool = field(default=False, kw_only=True)
    """True if the run does not wait for the answer, and is suspended once nothing else is left to do."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    caller: Caller = field(default="direct", kw_only=True)
    """See `ToolCall.caller`."""


# -- running tools --


@event
class ToolStarted(CausedEvent):
    """The tool begins to run."""

    call_id: str
    tool_name: str
    attempt: int = 1
    effect: Literal["pure", "idempotent", "once"] | None = field(default=None, kw_only=True, metadata=NEVER)
    """The tool's ``effect``."""
    tried: bool = field(default=False, kw_only=True, metadata=NEVER)
    """True if the tool has run since `time`, before the call's text was complete."""


@event
class ToolProgress(CausedEvent):
    """A running tool reported through ``ctx.progress(value)``."""

    call_id: str
    tool_name: str
    value: Any = field(repr=False)


@event
class Observation(CausedEvent):
    """The outcome of one call: its last event, exactly one for each call. Immutable even at run time."""

    call_id: str = field(kw_only=True)
    tool_name: str = field(kw_only=True)
    outcome: Outcome = field(kw_only=True)
    """How the call ended, one of `streamtools.parts.Outcome`; docs/guide/parallel-calls.md explains each."""
    value: Any = field(default=None, repr=False, kw_only=True)
    """The tool's return value as a Python object; None unless the outcome is ``ok``."""
    error: ToolError | None = field(default=None, kw_only=True)
    """The reason why the call is not ``ok``; the exception of a failed tool is its ``__cause__``."""
    model_content: str = field(default="", repr=False, kw_only=True, metadata=NEVER)
    """The text that the model will read as the call's result. With `run_calls`, it is made when you first read it."""
    result: ToolResult | None = field(default=None, repr=False, kw_only=True)
    """The tool's return value, if it is a `ToolResult`: the history contains its blocks instead of `model_content`."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    schema_source: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The origin of the tool's schema (``typed_signature``; see `streamtools.tools.SchemaSource`); None if the tool is
    unknown."""
    owner: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The owner of the tool's schema: an MCP server's label; None if the schema comes from a function."""
    schema_present: bool = field(default=False, kw_only=True, metadata=NEVER)
    validated: bool = field(default=False, kw_only=True, metadata=NEVER)
    """True if the arguments passed the schema."""
    validator: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The validator of the arguments: ``pydantic``, ``jsonschema-rs``, the name of your own validator, or None."""
    boundary: Literal["validated", "advisory"] = field(default="validated", kw_only=True)
    """``advisory``: the tool has no enforceable schema, so only its own code checked the arguments."""
    coercions: tuple[str, ...] = field(default=(), kw_only=True)
    """The coercions that made the arguments fit: path and kind (``priority: string to integer``)."""
    validation_error: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The reason why the arguments did not fit, without their values."""
    validated_args: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """The typed arguments by parameter name."""
    edited: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """The arguments that a person substituted for the model's; None if nobody did."""
    observation_type: str = field(default="none", kw_only=True, metadata=NEVER)
    """The Python type of `value`, or ``"error"`` if the call is not ``ok``."""
    duration: float | None = field(default=None, kw_only=True)
    """Seconds for which the tool ran; None if it never started."""
    attempts: int = field(default=0, kw_only=True)
    """The number of times that the call was started."""
    waits: tuple[Wait, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """The periods in which the call could not start, in order, each with its reason (an approval, a key, a limit)."""
    failed_attempts: tuple[FailedAttempt, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """The attempts that were followed by another."""
    findings: tuple[Finding, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """The origins of the argument values, if the tool has a `policy`."""
    idempotency_key: str | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """The call's key in the store, which the tool gets as ``ctx.idempotency_key``."""
    recorded: bool = field(default=False, kw_only=True)
    """True if the outcome was already known from the idempotency store or a discarded attempt, so nothing ran now."""
    still_running: bool = field(default=False, kw_only=True)
    """True if an abandoned sync tool continues in its thread, which Python cannot stop."""
    notes: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """What the call passed to its run, keyed by the method of `ToolContext`: ``{"add_tools": ["pay"]}``."""

    if not TYPE_CHECKING:  # checkers derive it from the fields; the generated one would pass the guard for each field

        def __init__(self, **given: object) -> None:
            values = _OBSERVED | given
            if values.keys() != _OBSERVATION_FIELDS:
                raise TypeError(f"expected call_id, tool_name, outcome and other fields, got {', '.join(given)}")
            for _ in map(_set, repeat(self), values, values.values()):  # a loop in C
                pass

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):  # each field is set once, by pickle; __init__ and the pipeline go past this guard
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _set(self, name, value)

    def report(self, *, values: bool = False) -> str:
        """Returns a readable record of the call: the eight facts that every call should leave, then the others.

        Args:
            values: show the value itself. By default only its type and size are shown, since it may be secret;
                arguments are never shown.
        """
        lines = [
            ("tool_name", self.tool_name or "(no name)"),
            ("schema_source", self.schema_source or "none"),
            ("schema_present", _yes_or_no(self.schema_present)),
            ("args_validated", _yes_or_no(self.validated)),
            ("validation_error", self.validation_error or "none"),
            ("call_id", self.call_id),
            ("observation_type", self.observation_type),
            ("return_value", "none" if self.error is not None else _shown(self.value, whole=values)),
            ("outcome", self.outcome),
        ]
        if self.boundary == "advisory":
            lines.append(("boundary", "advisory: no schema was enforced"))
        lines += [
            ("validator", self.validator or "none"),
            ("coercions", ", ".join(self.coercions) or "none"),
            ("duration", "not started" if self.duration is None else f"{self.duration * 1000:.1f} ms"),
            ("attempts", str(self.attempts)),
        ]
        if self.error is not None:
            lines.append(("error", _safely(str, self.error)))
        if self.outcome == "unknown" and self.idempotency_key is not None:
            lines.append(("idempotency_key", self.idempotency_key))
        if self.recorded:
            lines.append(("recorded", "yes: the call had run before, and did not run again"))
        if self.still_running:
            lines.append(("still running", "yes, in a thread that was abandoned"))
        return "\n".join(f"{label}: {one_line(text)}" for label, text in lines)

    def unwrap(self) -> Any:
        """Returns the value, or raises the error of a call that has none.

        Raises:
            Exception: the tool's own exception, else `error` (invalid arguments, a timeout, a missing approval).
        """
        if (error := self.exception) is not None:
            raise error
        return self.value

    @property
    def exception(self) -> Exception | None:
        """The tool's own exception, else `error`; None if the call is ``ok``."""
        error = self.error
        # A cancellation that the tool let out must not be taken for one of the caller's task.
        return error.__cause__ if isinstance(error, ToolFailed) and isinstance(error.__cause__, Exception) else error


new_observation = builder_of(Observation)
_OBSERVATION_FIELDS = {one.name for one in fields(Observation)}
_OBSERVED = {one.name: one.default for one in fields(Observation) if one.default is not MISSING}
StepStart.request = on_read(StepStart.request)
Observation.model_content = on_read(Observation.model_content)
Observation.validated_args = owned(Observation.validated_args)
Observation.edited = owned(Observation.edited)
ApprovalRequested.arguments = owned(ApprovalRequested.arguments)
ApprovalResolved.arguments = owned(ApprovalResolved.arguments)
AnswerRequested.arguments = owned(AnswerRequested.arguments)
MessageAdded.messages = owned(MessageAdded.messages)


def _yes_or_no(fact: bool) -> str:
    return "true" if fact else "false"


def _shown(value: object, *, whole: bool) -> str:
    """Returns a value for a report: as JSON, or its type and size alone."""
    if not whole:
        return described(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except Exception:  # odd keys, a value that contains itself, or a user's repr that fails
        return _safely(repr, value)


def _safely(tell: Callable[[object], str], value: object) -> str:
    """Returns the text that `tell` makes of a value, whose own code may fail at that."""
    try:
        return tell(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"


# -- structured output --


@event
class OutputDelta(EventBase):
    """The answer for ``output=`` has grown; follows a `TextDelta`."""

    _source: Preview | Moment | None = field(default=None, repr=False, compare=False)
    _end: int = field(default=0, repr=False, compare=False)

    @property
    def preview(self) -> Any:
        """The best view of the answer so far, for eyes only; see `ToolCallDelta.preview`."""
        return _moment_of(self)[0]


def _moment_of(delta: ToolCallDelta | OutputDelta) -> Moment:
    source = delta._source
    if isinstance(source, tuple):
        return source
    found = NO_MOMENT if source is None else source.at(delta._end)
    delta._source = found  # type: ignore[misc]  # events are immutable to everybody else
    return found


@event
class OutputEnd(CausedEvent):
    """The answer for ``output=`` has ended: its value, or the reason why there is none."""

    value: Any = field(default=None, repr=False)
    """The answer as a value of the type; None if the answer does not fit."""
    problem: str | None = None
    """The reason, for people and for the model; None if there is a value."""


# -- the end --


@event
class StreamEnd(CausedEvent):
    """The model's response is over; running tools may still emit events."""

    finish: Finish | None = None
    finish_raw: str | None = None
    """The provider's own word for `finish`."""
    complete: bool = field(default=False, metadata=ALWAYS)
    """True if the wire's own terminal marker was seen."""
    error: StreamError | None = None
    """The error that ended the stream, or None. ``async for`` raises it after the last event."""
    usage: Usage | None = None
    usage_raw: Mapping[str, Any] | None = field(default=None, repr=False)
    """The provider's own usage object. If there are several, they are merged, and the latest fields take precedence."""
    response_id: str | None = None
    """The provider's id of the response, if it changed during the stream or arrived late."""
    model: str | None = None
    """The model that ended the response, if another one had begun it."""
    resume_from: ResumePoint | None = field(default=None, repr=False)
    """The point from which to continue, if the stream was cut off and its wire supports resuming."""
    carry: Carry | None = None
    """The fields that the provider requires in the next request in addition to the messages; see `Turn.carry`."""

    @property
    def ended_well(self) -> bool:
        """True if the stream ended by itself and the model finished deciding: calls that were held back may run."""
        if not self.complete or self.error is not None or self.finish is None:
            return False
        return FINISHES[self.finish].lets_calls_start


@event
class StepEnd(CausedEvent):
    """The step is over: every call has its observation."""

    outcome: StepOutcome = field(default="complete", metadata=ALWAYS)
    """``suspended``: calls wait for people, and a step with `StepStart.continued` will continue them. ``abandoned``:
    the consumer left the block early, or the response was cut off (`AgentLoop.say`, ``stop``). ``cancelled``: the
    step was cancelled from outside."""


@event
class StreamWarning(CausedEvent):
    """The peer deviated from its wire format in a way that is tolerated. The stream continues."""

    code: str
    """The code of the tolerance (``index_reused``); the documentation of each wire lists its codes."""
    detail: str = ""


@event
class UnknownPayload(CausedEvent):
    """A chunk, block, event or field that this version does not interpret. streamtools drops none of these silently."""

    raw: Any = field(repr=False)
    """The data as the provider sent it; only the unknown fields if the rest of the object is understood."""
    place: str | None = None
    """The payload's path to the object with the unknown fields (``choices[0].delta``; ``""`` for the payload
    itself); None if `raw` is a whole object."""


@event
class EventsDropped(EventBase):
    """A full branch dropped events here (`Pipeline.branch`, ``"drop_oldest"``); only this branch has the gap.

    Its own `seq` is `to_seq`, so the last `seq` that you saw shows the branch's position.
    """

    from_seq: int
    """`seq` of the first event that was dropped."""
    to_seq: int
    """`seq` of the last event that was dropped. Numbers in between may belong to another step of the run."""


Event: TypeAlias = (
    StepStart | RequestFailed | MessageAdded | StreamStart | TextStart | TextDelta | TextEnd | ReasoningStart
    | ReasoningDelta | ReasoningEnd | RefusalDelta | ProviderItem | AttemptBegan | AttemptDiscarded | AttemptCommitted
    | ToolCallFragment | ToolCallStart | ToolCallDelta | ToolCallEnd | ToolCallValidated | ApprovalRequested
    | ApprovalResolved | AnswerRequested | ToolStarted | ToolProgress | Observation | OutputDelta | OutputEnd
    | StreamEnd | StepEnd | StreamWarning | UnknownPayload | EventsDropped
)  # fmt: skip
"""Any event: a ``match`` over one may end in ``assert_never``. Only stages meet `ToolCallFragment`."""
