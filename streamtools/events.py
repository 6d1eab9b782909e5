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

`StreamWarning` and `UnknownPayload` may come anywhere, and `EventsDropped` in a branch that drops events.
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
    """Position in the run: gap-free, increasing; -1 before the pipeline has stamped it."""
    step: int = field(default=0, kw_only=True)
    """The number of the run's model response that this belongs to, from 0."""

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
    """False if no model is asked: the calls waited for an approval (`resume`), or were given (`run_calls`)."""
    dispatches: bool = True
    """True if the calls are run here, so that each gets an `Observation`; False with ``start="off"`` and
    ``"pure"``, which leave calls to others."""
    requested_at: float | None = field(default=None, kw_only=True, metadata=NEVER)
    """When the model was asked, on ``time.monotonic``; None if that is not known: then `time` is the latest."""
    request: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False, metadata=NEVER)
    """The request as the caller sent it (model, parameters, messages), as far as the caller has given it."""
    resumes: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The ``traceparent`` (W3C Trace Context) of the step that suspended these calls, or had this response, if it was
    traced."""
    proposed_by: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """Likewise of the response that made the calls."""
    continued: bool = field(default=False, kw_only=True)
    """True if no model is asked, since the step goes on with calls that another one left: its events tell of them again
    from the beginning, and nobody is asked again about a call that was decided."""
    replayed: bool = field(default=False, kw_only=True)
    """True if the whole step is on record in the run's journal: its events tell what happened before, nothing runs, and
    observers do not see them."""


@event
class RequestFailed(CausedEvent):
    """The model was asked, and no stream came: `StreamEnd` has the error, and the step ends."""

    outcome: RequestOutcome
    error_type: str
    """The HTTP status, else the class of the exception."""
    status: int | None = None
    """The HTTP status of the refusal."""
    retry_after: float | None = None
    """The seconds after which the provider wants to be asked again, if it says so."""


@event
class MessageAdded(CausedEvent):
    """A message of the user's has entered the history: the request of this step is the first that has it. See
    `AgentLoop.say`."""

    message_id: str
    """The id that `AgentLoop.say` returned."""
    messages: tuple[Any, ...] = field(default=(), repr=False)
    """The message in the wire's own shape: one, or as many as the wire needs."""
    when: Literal["next", "now"] = "next"
    """When it was to be added: ``now`` has cut the response of the step before."""


@event
class StreamStart(CausedEvent):
    """The stream begins: its first chunk has shown which wire it speaks."""

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
    """Data that the provider wants back with this text (citations)."""
    whole: str | None = field(default=None, repr=False)
    """The whole text, if the provider repeats it at the end and contradicts the deltas: the turn has this text instead
    of theirs. None, nearly always, if the deltas are right."""


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
    """Data that the provider wants back with the reasoning, byte for byte (signatures, encrypted reasoning, the field's
    name)."""
    whole: str | None = field(default=None, repr=False)
    """The whole reasoning, if the provider repeats it at the end and contradicts the deltas; see `TextEnd.whole`."""


@event
class RefusalDelta(EventBase):
    """More of the model's refusal."""

    text: str


@event
class ProviderItem(CausedEvent):
    """A part of the response, kept with the turn as it came (redacted thinking, search results, images, sources)."""

    type: str
    """The provider's name for the part."""
    raw: Mapping[str, Any] = field(repr=False)
    """The part as the provider sent it."""


# -- attempts --


@event
class AttemptBegan(CausedEvent):
    """The model is asked within a step of ``retry=``: for the first time, or again after an `AttemptDiscarded`."""

    attempt: int
    """The number of the request in its step, from 1."""
    fallback: int = 0
    """The place of the function that makes the request: 0 for the first, from 1 for those of ``fallback=``."""
    after_output: bool = False
    """The attempt may be discarded even when some of its answer has been emitted."""


@event
class AttemptDiscarded(CausedEvent):
    """An attempt broke off, and another follows: forget every event whose `seq` is `from_seq` or greater. Each call of
    it has its `Observation` by now."""

    attempt: int
    from_seq: int
    """`seq` of the first event to forget: the attempt's `AttemptBegan`."""
    cause: str
    """Why it broke off: the error's kind (``stream_truncated``, ``request_failed``)."""
    error_type: str = "_OTHER"
    """The HTTP status, the provider's word for its error, or the class of the exception."""
    delay_s: float = 0.0
    """Seconds until the next attempt, as planned."""
    usage: Usage | None = None
    """The tokens that it has used, as far as they are known; `AgentLoop.usage` has them, too."""


@event
class AttemptCommitted(CausedEvent):
    """The attempt is not discarded any more: what it said is the step's answer."""

    attempt: int
    cut: bool = False
    """True if it broke off, and a call of it had begun that must not run twice: the calls that have begun go on, the
    others are ``skipped``, and the next step is asked with their results."""


# -- tool calls --


@event
class ToolCallFragment(EventBase):
    """One chunk's piece of one call, in the wire's own terms. The accumulate stage decides which call it belongs to."""

    index: int | str | None = None
    """The wire's label for the call while it streams; not its identity."""
    id: str | None = None
    """The call's id, as sent; None and ``""`` both mean that there is none."""
    name: str | None = None
    arguments: str = field(default="", repr=False)
    """More of the arguments' text."""
    kind: CallKind = "function"
    start: bool = False
    """True if the wire's own marker said that a call begins here, whatever its id and label look like."""
    end: bool = False
    """True if this call has ended."""
    cut: bool = False
    """True if it must not run: the stream ended before the marker that this wire promises for every call."""
    in_text: bool = False
    """True if a stage has read the beginning of a call in the text."""
    disorder: Literal["early", "late", "again", "unmarked", "declined"] | None = None
    """What is out of order, on a wire that marks where calls begin and end. ``early``: arguments where nothing has
    begun; ``late``: arguments where something is over, or is no call; ``again``: a beginning that was said before;
    ``unmarked``: an end without its marker, since something else began there, or the response ended well;
    ``declined``: all calls so far are void, since the provider declined their model, and another one goes on."""
    problem: str | None = None
    """The code of the reason why the wire could not give the arguments (``too_deep``)."""
    whole: str | None = field(default=None, repr=False)
    """The whole text of the arguments, as the wire repeats it at their end: it replaces the text so far."""
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that the provider wants back with the call."""
    namespace: str | None = None
    """The namespace of the tool, where the wire names one beside `name`."""
    awaits: str | None = None
    """As `ToolCall.awaits`."""
    caller: Caller | None = None
    """As `ToolCall.caller`; None if this piece does not name one."""


@event
class ToolCallStart(CausedEvent):
    """The model begins to call a tool. Exactly one `Observation` with this `call_id` will follow, whatever happens
    (calls of kind ``server`` are the provider's own and get none)."""

    call_id: str
    """The call's identity, unique within the turn."""
    name: str
    """The tool's name as registered where it is, else as the model spelled it; ``""`` if it never came."""
    kind: CallKind = "function"
    index: int = 0
    """Position among the turn's calls, from 0."""
    call_id_synthesized: bool = False
    """True if the wire gave no usable id, so that `call_id` was made up (the same for the same stream)."""


Moment: TypeAlias = tuple[Any, tuple[str | int, ...] | None]
"""A growing JSON text at one of its deltas: its value, or None if there is nothing to show; and the path of a number at
the very end, which the next delta may continue, or None."""

NO_MOMENT: Moment = (None, None)


class Preview:
    """A growing JSON text, as its deltas read it. See `streamtools.stages.preview`."""

    __slots__ = ()

    def at(self, end: int) -> Moment:
        """Returns the moment at which the text had `end` characters."""
        raise NotImplementedError


@event
class ToolCallDelta(EventBase):
    """More of a call's arguments."""

    call_id: str
    delta: str = field(repr=False)
    """The new text. It may be cut anywhere, also inside an escape sequence."""
    _source: Preview | Moment | None = field(default=None, repr=False, compare=False)
    _end: int = field(default=0, repr=False, compare=False)

    @property
    def preview(self) -> Any:
        """The best view of the arguments so far, for eyes only: never run it.

        A plain object of this delta: it stays as it is when the call grows. From one delta to the next a path once
        shown stays, and a string only gets longer. Parts that were complete are shared with later previews, so do not
        change it. None until there is something to show. Computed when first read, in time linear in what is new if
        deltas are read in order; long strings and lists may be shown a little late.
        """
        return _moment_of(self)[0]

    @property
    def preview_tentative(self) -> tuple[str | int, ...] | None:
        """Path in `preview` of a number that may not be whole yet (``12`` of ``123``), else None."""
        return _moment_of(self)[1]


@event
class ToolCallEnd(CausedEvent):
    """The call's text is whole, or will never be: `call.status` shows which. With the problem ``void``, which may come
    behind another end of it, it does not count: it is `discarded`, and in no turn."""

    call: ToolCall
    error: ToolError | None = None
    """Why `call` is not ready, if it is not."""
    in_disorder: bool = False
    """True if its pieces did not come in the order that the wire promises: its text is read as it is, or not at all."""

    @property
    def call_id(self) -> str:
        """The call's identity."""
        return self.call.call_id


@event
class ToolCallValidated(CausedEvent):
    """The call's arguments are complete, and valid where the tool is known: it will run if the turn allows it."""

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
    """The call is complete and valid, and does not run before somebody has approved it: `Pipeline.approve`, `deny`."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """The validated arguments by parameter name, defaults included: just what would run."""
    fingerprint: str = field(kw_only=True)
    """A hash of the tool's name and the arguments: a person who decides later, elsewhere, can say which ones were
    seen."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    caller: Caller = field(default="direct", kw_only=True)
    """As `ToolCall.caller`."""
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)
    """Where the values of the arguments come from, if the call has a `policy`: each as a sentence by ``str()``."""
    approvals: int = field(default=1, kw_only=True)
    """How many people have to approve it, each by name if there are several."""


@event
class ApprovalResolved(CausedEvent):
    """Somebody has decided. A call that was approved runs when its turn comes, a denied one is observed at once."""

    call_id: str
    tool_name: str
    approved: bool
    reason: str | None = None
    """Why; of a denial, as the model reads it."""
    by: tuple[str, ...] = field(default=(), kw_only=True)
    """Who decided, where that was said: those who approved, or the one who denied."""
    at: float = field(default=0.0, kw_only=True)
    """When the last of them decided, in seconds since 1970, perhaps in another process and long ago."""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    """Those that the call is to run with, if whoever approved it has changed them."""


# -- calls that are done outside --


@event
class AnswerRequested(CausedEvent):
    """The call is handed out: nothing here runs it, and its result has to be handed in: `Pipeline.answer`. Or it runs,
    and has a `question`, whose answer is handed in likewise."""

    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """The validated arguments by parameter name, defaults included."""
    fingerprint: str = field(kw_only=True)
    """A hash of the tool's name, the arguments and the question, by which an answer names what it is to."""
    question: Any = field(default=None, repr=False, kw_only=True)
    """What a running call asks for, as text or JSON; None if the call's own result is wanted."""
    rests: bool = field(default=False, kw_only=True)
    """The run does not wait for the answer: it rests when nothing else goes on."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    caller: Caller = field(default="direct", kw_only=True)
    """As `ToolCall.caller`."""


# -- running tools --


@event
class ToolStarted(CausedEvent):
    """The tool runs now."""

    call_id: str
    tool_name: str
    attempt: int = 1
    effect: Literal["pure", "idempotent", "once"] | None = field(default=None, kw_only=True, metadata=NEVER)
    """The tool's ``effect``."""
    tried: bool = field(default=False, kw_only=True, metadata=NEVER)
    """It has run since `time`, before its call had ended."""


@event
class ToolProgress(CausedEvent):
    """A running tool reported through ``ctx.progress(value)``."""

    call_id: str
    tool_name: str
    value: Any = field(repr=False)


@event
class Observation(CausedEvent):
    """The outcome of one call: the last event about it, exactly once. Frozen at run time, too."""

    call_id: str = field(kw_only=True)
    tool_name: str = field(kw_only=True)
    outcome: Outcome = field(kw_only=True)
    """How the call ended; `streamtools.parts.Outcome` lists the words, docs/guide/parallel-calls.md explains them."""
    value: Any = field(default=None, repr=False, kw_only=True)
    """The tool's return value, as Python made it; None unless the outcome is ``ok``."""
    error: ToolError | None = field(default=None, kw_only=True)
    """Why the call is not ``ok``; a failed tool's own exception is the error's ``__cause__``."""
    model_content: str = field(default="", repr=False, kw_only=True, metadata=NEVER)
    """The text that the model will read as the call's result. Of `run_calls`, it is written when it is first read."""
    result: ToolResult | None = field(default=None, repr=False, kw_only=True)
    """The tool's return value, if it was a `ToolResult`: its blocks go into the history in `model_content`'s place."""
    index: int = field(default=0, kw_only=True)
    """Position among the turn's calls, from 0."""
    schema_source: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """Where the tool's schema comes from (``typed_signature``; see `streamtools.tools.SchemaSource`), None if the tool
    is unknown."""
    owner: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The one who answers for the tool's schema: for an MCP tool the server's label; None if a function gave it."""
    schema_present: bool = field(default=False, kw_only=True, metadata=NEVER)
    validated: bool = field(default=False, kw_only=True, metadata=NEVER)
    """True if the arguments passed the schema."""
    validator: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """The judge of the arguments: ``pydantic``, ``jsonschema-rs``, a validator's own name, or None."""
    boundary: Literal["validated", "advisory"] = field(default="validated", kw_only=True)
    """``advisory``: the tool has no schema that could be enforced; only its own check stood before it."""
    coercions: tuple[str, ...] = field(default=(), kw_only=True)
    """The coercions that made the arguments fit: path and kind (``priority: string to integer``)."""
    validation_error: str | None = field(default=None, kw_only=True, metadata=NEVER)
    """Why the arguments did not fit; without the values."""
    validated_args: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """The typed arguments by parameter name."""
    edited: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """Those that a person has given the call in place of the model's, as they were given; None if nobody has."""
    observation_type: str = field(default="none", kw_only=True, metadata=NEVER)
    """The Python type of `value`, ``"error"`` if the call is not ``ok``."""
    duration: float | None = field(default=None, kw_only=True)
    """Seconds that the tool ran; None if it never started."""
    attempts: int = field(default=0, kw_only=True)
    """How often the call was started."""
    waits: tuple[Wait, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """The times in which the call could not start, in order: for its turn's end, an approval, a key, a limit."""
    failed_attempts: tuple[FailedAttempt, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """The attempts that were followed by another one."""
    findings: tuple[Finding, ...] = field(default=(), kw_only=True, metadata=NEVER)
    """Where its arguments come from, if its tool has a `policy`."""
    idempotency_key: str | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """The key that the tool was given as ``ctx.idempotency_key``, and that a store keeps the call under."""
    recorded: bool = field(default=False, kw_only=True)
    """True if the idempotency store knew how the call had ended before, or a discarded attempt had made it: nothing ran
    now."""
    still_running: bool = field(default=False, kw_only=True)
    """True if a sync tool that was given up goes on in its thread: Python cannot stop it."""
    notes: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True, metadata=NEVER)
    """What the call has left for its run, by the method of `ToolContext`: ``{"add_tools": ["pay"]}``."""

    if not TYPE_CHECKING:  # checkers derive it from the fields; the generated one would pass the guard for each field

        def __init__(self, **given: object) -> None:
            values = _OBSERVED | given
            if values.keys() != _OBSERVATION_FIELDS:
                raise TypeError(f"expected call_id, tool_name, outcome and other fields alone, got {', '.join(given)}")
            for _ in map(_set, repeat(self), values, values.values()):  # a loop in C
                pass

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):  # each field is set once, by pickle; __init__ and the pipeline go past this guard
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _set(self, name, value)

    def report(self, *, values: bool = False) -> str:
        """Returns the call record in readable lines: the eight that every tool call should leave, then the other facts.

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
            lines.append(("recorded", "yes: it had run before, and did not run again"))
        if self.still_running:
            lines.append(("still running", "yes, in a thread that was given up"))
        return "\n".join(f"{label}: {one_line(text)}" for label, text in lines)

    def unwrap(self) -> Any:
        """Returns the value, or raises the error that kept the call from having one.

        Raises:
            Exception: the one that the tool raised, else `error`: bad arguments, a timeout, a missing approval.
        """
        if (error := self.exception) is not None:
            raise error
        return self.value

    @property
    def exception(self) -> Exception | None:
        """The exception that the tool raised, else `error`; None if the call is ``ok``."""
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
    """The answer that was asked for with ``output=`` has grown; follows a `TextDelta`."""

    _source: Preview | Moment | None = field(default=None, repr=False, compare=False)
    _end: int = field(default=0, repr=False, compare=False)

    @property
    def preview(self) -> Any:
        """The best view of the answer so far, for eyes only; as `ToolCallDelta.preview`."""
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
    """The answer that was asked for with ``output=`` is over: its value, or the reason why it has none."""

    value: Any = field(default=None, repr=False)
    """The answer as the type that was asked for; None if it is none."""
    problem: str | None = None
    """The reason, for people and for the model; None if there is a value."""


# -- the end --


@event
class StreamEnd(CausedEvent):
    """The model's response is over; running tools may still report."""

    finish: Finish | None = None
    finish_raw: str | None = None
    """The provider's own word for `finish`."""
    complete: bool = field(default=False, metadata=ALWAYS)
    """True if the wire's own terminal marker was seen."""
    error: StreamError | None = None
    """The error that ended the stream, if it did not end by itself; raised at ``async for`` after the last event."""
    usage: Usage | None = None
    usage_raw: Mapping[str, Any] | None = field(default=None, repr=False)
    """The provider's own usage object; of several, the first one with the fields of the last."""
    response_id: str | None = None
    """The provider's id of the response, where it became another one on the way or came late."""
    model: str | None = None
    """The model that has ended the response, where another one had begun it."""
    resume_from: ResumePoint | None = field(default=None, repr=False)
    """The place at which to go on, where the stream was cut and its wire can resume one."""
    carry: Carry | None = None
    """The fields that the provider wants in the next request beside the messages; see `Turn.carry`."""

    @property
    def ended_well(self) -> bool:
        """True if the stream came to its own end, and the model to a decision: calls that were held back may run."""
        if not self.complete or self.error is not None or self.finish is None:
            return False
        return FINISHES[self.finish].lets_calls_start


@event
class StepEnd(CausedEvent):
    """Nothing more will come of this step: every call has its observation."""

    outcome: StepOutcome = field(default="complete", metadata=ALWAYS)
    """``suspended``: calls wait for people, and a `StepStart.continued` goes on with them;
    ``abandoned``: the consumer left the block before the end, or the response was cut (`AgentLoop.say`, ``stop``);
    ``cancelled``: it was cancelled from outside."""


@event
class StreamWarning(CausedEvent):
    """A deviation of the peer that was tolerated. The stream goes on."""

    code: str
    """The code of the tolerance that was used (``index_reused``); every wire's documentation lists its codes."""
    detail: str = ""


@event
class UnknownPayload(CausedEvent):
    """A chunk, block or event that this version does not interpret, or fields beside those that it does; never dropped
    silently."""

    raw: Any = field(repr=False)
    """As the provider sent it; of an object that is otherwise understood, its other fields."""
    place: str | None = None
    """Path of the object in the payload whose fields these are (``choices[0].delta``; ``""`` for the payload itself);
    None if this is not about an object's other fields."""


@event
class EventsDropped(EventBase):
    """A gap: a branch that was full has dropped the events that stood here (`Pipeline.branch`, ``"drop_oldest"``).

    The gap is of this branch alone: neither observers nor other consumers see it. Its own `seq` is `to_seq`, so that
    the last `seq` that was seen shows how far the branch has come.
    """

    from_seq: int
    """`seq` of the first event that was dropped."""
    to_seq: int
    """`seq` of the last one. Numbers in between without an event of this step belong to another step of the run."""


Event: TypeAlias = (
    StepStart | RequestFailed | MessageAdded | StreamStart | TextStart | TextDelta | TextEnd | ReasoningStart
    | ReasoningDelta | ReasoningEnd | RefusalDelta | ProviderItem | AttemptBegan | AttemptDiscarded | AttemptCommitted
    | ToolCallFragment | ToolCallStart | ToolCallDelta | ToolCallEnd | ToolCallValidated | ApprovalRequested
    | ApprovalResolved | AnswerRequested | ToolStarted | ToolProgress | Observation | OutputDelta | OutputEnd
    | StreamEnd | StepEnd | StreamWarning | UnknownPayload | EventsDropped
)  # fmt: skip
"""Any event: a ``match`` over one may end in ``assert_never``. Only stages meet `ToolCallFragment`."""
