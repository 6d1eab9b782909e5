"""Defines the parts of a response: its calls, its token counts, its pieces in order, and the reasons why it ended.

Each vocabulary is one table: `FINISHES`, `OUTCOMES`, `REQUEST_OUTCOMES`, `STEP_OUTCOMES`, `RUN_OUTCOMES`, `WAITS` and
`COUNTS`. All code that depends on a word, or shows it, reads its row: dispatch, histories, spans, metrics, prices, the
terminal and the page. To add a word, add it to the type and a row to the table, both here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from .content import Caller
from .ground.own import builder_of, on_read
from .ground.text import ALWAYS, shown_by

__all__ = [
    "COUNTS", "FINISHES", "OUTCOMES", "REQUEST_OUTCOMES", "RUN_OUTCOMES", "STEP_OUTCOMES", "WAITS", "CallKind", "Carry",
    "CountFacts", "FailedAttempt", "Failure", "Finding", "Finish", "FinishFacts", "Outcome", "OutcomeFacts", "Part",
    "RequestOutcome", "ResumePoint", "RunOutcome", "RunOutcomeFacts", "StepOutcome", "StepOutcomeFacts", "Tone",
    "ToolCall", "Usage", "Wait", "WaitFacts", "WaitReason", "changed",
]  # fmt: skip

# -- the words for ends --

Tone: TypeAlias = Literal["good", "bad", "held", "mute", "odd", "live"]
"""The tone in which a view shows a word: success, failure, held back, not reached, unknown, in progress."""

Finish: TypeAlias = Literal[
    "stop",
    "tool_calls",
    "length",
    "content_filter",
    "pause",
    "steered",
    "pending",  # not at all: the answer is queued or in progress
    "other",
    "error",
]
"""Why the model stopped, in one word for all providers; the provider's own word is kept beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFacts:
    """The consequences of a finish."""

    lets_calls_start: bool = False
    """The model has finished deciding, so calls that were held back may run."""
    goes_on: bool = False
    """The model continues the turn once it is sent back, as after Anthropic's server tools."""
    is_over: bool = True
    """False if the model is still working, and the answer has to be requested again."""
    is_whole: bool = True
    """False if the answer broke off."""


FINISHES: Mapping[Finish, FinishFacts] = {
    "stop": FinishFacts(lets_calls_start=True),
    "tool_calls": FinishFacts(lets_calls_start=True),
    "length": FinishFacts(),
    "content_filter": FinishFacts(),
    "pause": FinishFacts(goes_on=True),
    # Its calls were decided before the input that redirects it, so that they do not start.
    "steered": FinishFacts(goes_on=True),
    "pending": FinishFacts(is_over=False),
    "other": FinishFacts(),
    "error": FinishFacts(is_whole=False),
}
"""All finishes with their consequences."""

Outcome: TypeAlias = Literal[
    "ok",
    "failed",  # the tool raised
    "invalid",  # the arguments do not fit the tool's schema
    "unknown_tool",
    "truncated",  # the arguments were cut
    "denied",  # not approved, or repeated too often
    "quoted_call",  # the model has copied it out of a tool's result
    "over_budget",  # the calls or tokens of its run, or of its pool, are spent
    "timed_out",
    "cancelled",
    "skipped",  # complete, but its turn ended in a way that starts nothing
    "suspended",  # the tool waits for something outside, and is to run again
    "discarded",  # its answer broke off or was declined, and another took its place: it is not in the turn
    "unknown",  # handed over; it may or may not have run
]
"""How one call ended, in `Observation.outcome`; ``docs/guide/parallel-calls.md`` lists which of them ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFacts:
    """The consequences of an outcome, and its words."""

    stage: str | None
    """The stage that a failed call reached, as spans name it; None for success. A call whose tool had started reached
    ``execution`` in any case."""
    words: str
    """The reason why the call is not ``ok``, for people; ``{type}`` is the class of the tool's exception."""
    sign: str
    """The character for it in a terminal."""
    tone: Tone
    to_model: str = ""
    """The text for the model where no error says more."""
    error_type: str | None = None
    """The `error.type` of spans, where it is not the class of the error."""
    cancels_siblings: bool = False
    """The tool ran and failed, so ``on_tool_error="cancel"`` ends the other calls of the turn."""
    follows_the_end: bool = False
    """The end of the turn, if it has ended, is one of its causes."""
    may_run_later: bool = False
    """The call did not run for a reason outside it, and may run if its turn, which was cut, is continued."""
    may_have_had_effect: bool = False
    """The tool may still be running, or have run up to any point, when the call ends in this way."""
    frees_claim: bool = False
    """The end is not recorded: the call runs again when it is made again."""


OUTCOMES: Mapping[Outcome, OutcomeFacts] = {
    "ok": OutcomeFacts(stage=None, words="it returned", sign="✔", tone="good"),
    "failed": OutcomeFacts(
        stage="execution", words="the tool raised {type}", sign="✖", tone="bad", cancels_siblings=True
    ),
    "invalid": OutcomeFacts(
        stage="validation",
        words="not run: its arguments do not fit the tool's schema",
        sign="✖",
        tone="bad",
        to_model="Error: the call's arguments were not valid, so it was not run.",
    ),
    "unknown_tool": OutcomeFacts(stage="lookup", words="not run: no tool has this name", sign="∅", tone="bad"),
    "truncated": OutcomeFacts(
        stage="arguments",
        words="not run: the call was cut",
        sign="✂",
        tone="bad",
        to_model="Error: the call was cut before its end, so it was not run.",
        may_run_later=True,
    ),
    "denied": OutcomeFacts(stage="approval", words="not run: it was denied", sign="⊘", tone="held"),
    "quoted_call": OutcomeFacts(stage="approval", words="not run: a tool result contains it", sign="❝", tone="held"),
    "over_budget": OutcomeFacts(stage="dispatch", words="not run: the budget is spent", sign="⊖", tone="held"),
    "timed_out": OutcomeFacts(
        stage="dispatch",
        words="timed out",
        sign="◷",
        tone="bad",
        error_type="timeout",
        cancels_siblings=True,
        may_have_had_effect=True,
    ),
    "cancelled": OutcomeFacts(stage="dispatch", words="cancelled", sign="◌", tone="mute", may_have_had_effect=True),
    "skipped": OutcomeFacts(
        stage="dispatch",
        words="not run",
        sign="»",
        tone="mute",
        to_model="Error: the call was interrupted and has no result.",
        follows_the_end=True,
        may_run_later=True,
    ),
    "suspended": OutcomeFacts(
        stage="execution",
        words="not finished: it waits for an answer from outside",
        sign="‖",
        tone="held",
        may_run_later=True,
        frees_claim=True,
    ),
    "discarded": OutcomeFacts(
        stage="dispatch", words="discarded: another answer replaced the one with this call", sign="↺", tone="mute"
    ),
    "unknown": OutcomeFacts(
        stage="dispatch",
        words="outcome unknown: it may or may not have run",
        sign="?",
        tone="odd",
        cancels_siblings=True,
        may_have_had_effect=True,
    ),
}
"""All outcomes with their consequences and words."""

RequestOutcome: TypeAlias = Literal["refused", "timed_out", "connection_lost", "failed"]
"""How a request failed that got no stream; see `streamtools.events.RequestFailed`."""

REQUEST_OUTCOMES: Mapping[RequestOutcome, str] = {
    "refused": "the provider answered with an HTTP error status",
    "timed_out": "no answer came in time",
    "connection_lost": "the connection failed, or broke before anything came",
    "failed": "the function that makes the request raised an exception, or returned no stream",
}
"""All ends of a failed request with their words."""

StepOutcome: TypeAlias = Literal["complete", "suspended", "truncated", "error", "cancelled", "abandoned"]
"""How one step ended; see `streamtools.events.StepEnd.outcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcomeFacts:
    """The meaning of a step's end."""

    tone: Tone
    is_error: bool = False
    """The stream failed; leaving early and being cancelled are not errors."""


STEP_OUTCOMES: Mapping[StepOutcome, StepOutcomeFacts] = {
    "complete": StepOutcomeFacts(tone="good"),
    "suspended": StepOutcomeFacts(tone="mute"),
    "truncated": StepOutcomeFacts(tone="bad", is_error=True),
    "error": StepOutcomeFacts(tone="bad", is_error=True),
    "cancelled": StepOutcomeFacts(tone="mute"),
    "abandoned": StepOutcomeFacts(tone="mute"),
}
"""All ends of a step."""

RunOutcome: TypeAlias = Literal[
    "answered", "unanswered", "pending", "stopped", "max_steps", "budget", "retries_exhausted", "interrupted", "error",
    "suspended", "cancelled", "left"
]  # fmt: skip
"""How a run of several steps ended; see `streamtools.AgentLoop.outcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcomeFacts:
    """The meaning of a run's end."""

    words: str
    tone: Tone = "mute"
    is_error: bool = False
    goes_on: bool = False
    """With a journal, the same line continues the run."""


RUN_OUTCOMES: Mapping[RunOutcome, RunOutcomeFacts] = {
    "answered": RunOutcomeFacts(words="the model made no more calls", tone="good"),
    # `Turn.unanswered`: the provider would refuse the next request
    "unanswered": RunOutcomeFacts(words="the model called a provider-defined tool that you did not pass"),
    "pending": RunOutcomeFacts(words="the provider has not finished the response; request it again", goes_on=True),
    "stopped": RunOutcomeFacts(words="`stop` returned True"),
    "max_steps": RunOutcomeFacts(words="the run needed more steps than `max_steps` allows"),
    "budget": RunOutcomeFacts(words="its tokens are spent, or the model made calls beyond the limit"),
    "retries_exhausted": RunOutcomeFacts(words="the model kept making calls that it was told not to repeat"),
    # only with `retry=`: without it, this is an `error`, too
    "interrupted": RunOutcomeFacts(
        words="a response was cut off after part of it had been shown, and was not retried",
        tone="bad",
        is_error=True,
        goes_on=True,
    ),
    "error": RunOutcomeFacts(words="a stream, a request or `stop` failed", tone="bad", is_error=True, goes_on=True),
    # `AgentLoop.suspended`
    "suspended": RunOutcomeFacts(words="the run ended with calls waiting for people", tone="held", goes_on=True),
    "cancelled": RunOutcomeFacts(words="the run was cancelled, for example by `run.stop()`"),
    "left": RunOutcomeFacts(words="the block was left or cancelled before the run ended", goes_on=True),
}
"""All ends of a run with their words."""

# -- waits and attempts --

WaitReason: TypeAlias = Literal[
    "judging",  # a rule has not given its verdict yet
    "turn_end",  # only the end of its turn lets the call start
    "approval",
    "answer",  # it is done outside, and somebody hands in its result
    "caller",  # calls start by hand
    "key",  # another call works on the same `conflict_key`
    "tool_limit",  # the tool's `max_concurrency`
    "exclusive",  # an `exclusive` tool runs alone
    "limit",  # `Limits.max_concurrency`, or the turns of other pipelines
    "loop",  # it may start, and the event loop has not come to its task
    "middleware",  # its middleware has not run it yet
    "thread",  # `Limits.max_threads`
    "executor",  # its executor has not begun it, and says nothing more exact
    "worker_start",  # a worker is being started for it
    "worker_busy",  # all workers of its executor run calls
    "store",  # it is being claimed
    "elsewhere",  # it runs already, in another turn or process, and its end will be this call's
]
"""The reason why a call waits before its tool runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFacts:
    """The words for a wait, and who can end it."""

    words: str
    """The name of the thing that is waited for, as a picture shows it."""
    phrase: str
    """The same name, as it follows "waited for"."""
    states: tuple[str, ...] = ()
    """The states of a call that waits for it; empty where dispatch looks at more than the state."""
    is_passing: bool = False
    """Every call waits for it for a moment: a wait shorter than a millisecond counts with the next wait."""
    has_own_span: bool = False
    """The wait has a span of its own kind, shown however short it was."""
    reader_acts: bool = False
    """A person or your program ends the wait; other waits end by themselves."""


WAITS: Mapping[WaitReason, WaitFacts] = {
    "judging": WaitFacts(words="judging", phrase="a rule's verdict", is_passing=True),
    "turn_end": WaitFacts(words="turn's end", phrase="the turn's end", states=("held",)),
    "approval": WaitFacts(words="approval", phrase="approval", has_own_span=True, reader_acts=True),
    "answer": WaitFacts(words="answer", phrase="its answer", reader_acts=True),
    "caller": WaitFacts(words="caller", phrase="its caller", reader_acts=True),
    "key": WaitFacts(words="same key", phrase="another call with its key"),
    "tool_limit": WaitFacts(words="tool's limit", phrase="the tool's limit"),
    "exclusive": WaitFacts(words="exclusive tool", phrase="an exclusive tool"),
    "limit": WaitFacts(words="place", phrase="a free slot"),
    "loop": WaitFacts(words="event loop", phrase="the event loop", states=("queued", "starting"), is_passing=True),
    "middleware": WaitFacts(words="middleware", phrase="its middleware", is_passing=True),
    "thread": WaitFacts(words="thread", phrase="a thread"),
    "executor": WaitFacts(words="executor", phrase="its executor", is_passing=True),
    "worker_start": WaitFacts(words="worker's start", phrase="a worker to start"),
    "worker_busy": WaitFacts(words="free worker", phrase="a free worker"),
    "store": WaitFacts(words="store", phrase="its store", is_passing=True),
    "elsewhere": WaitFacts(words="its run elsewhere", phrase="the same call elsewhere"),
}
"""All reasons to wait."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A period in which a call could not start."""

    reason: WaitReason
    """The reason; of several at once, the one that was checked first."""
    began: float
    """On ``time.monotonic``."""
    ended: float
    """On ``time.monotonic``."""

    @property
    def seconds(self) -> float:
        """The length of the wait."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The origins of one value in the arguments of a call, for its `policy`. It never contains the value."""

    argument: str
    """The name of the argument."""
    path: str
    """The place of the value, such as ``items[0].name``."""
    origins: tuple[str, ...] = ()
    """Descriptions of the texts in which the value occurs; only the trusted ones if there are any."""
    is_trusted: bool = False
    """The value occurs in a trusted text."""
    is_short: bool = False
    """The value has fewer than four characters, and may occur anywhere by chance."""
    is_complete: bool = True
    """All texts that the model has read were searched."""
    unseen: tuple[str, ...] = ()
    """The results and messages with media, which cannot be searched; empty if the value occurs in a text."""

    def __str__(self) -> str:
        if self.origins:
            only = "" if self.is_trusted else "only "
            words = f"`{self.path}` occurs {only}in {' and '.join(self.origins)}"
        elif self.is_complete:
            words = f"`{self.path}` occurs in none of the texts that the model has read"
        else:
            return f"the origin of `{self.path}` is not known"
        return f"{words}, apart from the media in {' and '.join(self.unseen)}" if self.unseen else words


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt at a call that was followed by another one."""

    number: int
    """From 1."""
    began: float
    """On ``time.monotonic``."""
    ended: float
    """On ``time.monotonic``."""
    error_type: str
    """The class of the exception, with its module unless that is ``builtins``; ``timeout`` for a timeout."""
    delay_s: float
    """Seconds planned between this attempt and the next."""


# -- counts, calls and pieces --

CallKind: TypeAlias = Literal["function", "custom", "approval", "server"]
"""``function``: JSON arguments. ``custom``: free text. ``approval``: the provider asks for permission to run a call of
its own. ``server``: the provider runs the call; it is only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFacts:
    """The meaning of a token count, and its names in other places."""

    label: str
    """The words for it on the page."""
    span: str
    """Its attribute of spans, by the default profile of names."""
    metric: str | None = None
    """Its `gen_ai.token.type` in the metric of tokens; None if that has no such type."""
    part_of: str | None = None
    """The count that includes it, whose price covers it unless it has a price of its own."""


def _count(label: str, span: str, **facts: Any) -> Any:
    return field(default=None, metadata={"count": CountFacts(label=label, span=span, **facts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts with the same meaning on every wire; None where the wire has no such count."""

    # Anthropic and Bedrock leave the tokens of a cache out of their input. Their wires add them, so that a sum over
    # turns of several wires is one of like things.
    input_tokens: int | None = _count("in", "gen_ai.usage.input_tokens", metric="input")
    """All input tokens, including those read from the provider's cache or written to it."""
    output_tokens: int | None = _count("out", "gen_ai.usage.output_tokens", metric="output")
    """All output tokens."""
    cached_input_tokens: int | None = _count(
        "of these read from the cache", "gen_ai.usage.cache_read.input_tokens", part_of="input_tokens"
    )
    """Those of `input_tokens` that were read from the cache."""
    cache_write_input_tokens: int | None = _count(
        "of these written to the cache",
        "gen_ai.usage.cache_creation.input_tokens",
        part_of="input_tokens",
    )
    """Those of `input_tokens` that were written to the cache."""
    long_cache_write_input_tokens: int | None = _count(
        "of these for an hour or longer",
        "streamtools.usage.long_cache_write.input_tokens",
        part_of="cache_write_input_tokens",
    )
    """Those of `cache_write_input_tokens` that stay for an hour or longer, at a price of their own."""
    audio_input_tokens: int | None = _count(
        "of these in sound",
        "streamtools.usage.audio.input_tokens",
        part_of="input_tokens",
    )
    """Those of `input_tokens` that were audio."""
    tool_use_input_tokens: int | None = _count(
        "in, from the provider's tools", "streamtools.usage.tool_use.input_tokens"
    )
    """Input from tools that the provider ran itself, in addition to `input_tokens` (Gemini)."""
    reasoning_tokens: int | None = _count(
        "of these reasoning", "gen_ai.usage.reasoning.output_tokens", part_of="output_tokens"
    )
    """Those of `output_tokens` that were reasoning, where the provider counts them."""
    audio_output_tokens: int | None = _count(
        "of these in sound",
        "streamtools.usage.audio.output_tokens",
        part_of="output_tokens",
    )
    """Those of `output_tokens` that were audio."""

    __repr__ = shown_by()

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum, field by field. A count that only one of the two has is kept."""
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(**{one.name: _sum(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)})


COUNTS: Mapping[str, CountFacts] = {one.name: one.metadata["count"] for one in fields(Usage)}
"""All counts of `Usage`."""


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed request or stream, whichever client library reported it."""

    outcome: RequestOutcome
    error_type: str
    """The HTTP status, the provider's own word, or the class of the exception."""
    status: int | None = None
    """The HTTP status."""
    retry_after: float | None = None
    """The seconds after which the provider wants to be asked again, if it says so."""
    code: str | None = None
    """The kind of failure, the same for all providers (``rate_limited``, ``overloaded``, ...); None if none fits."""
    may_pass: bool = False
    """The same request may succeed soon."""
    is_of_one_provider: bool = False
    """Another provider may answer the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The place at which a response was cut, for the request that continues it."""

    response_id: str | None = None
    """The provider's id of the response."""
    after: str | int | None = None
    """The id (``last_event_id``) or number (``starting_after``) of the last event that was received."""
    account: tuple[tuple[Mapping[str, Any], int | None], ...] = field(default=(), repr=False)
    """All that was received, as payloads of the wire, and the number of the call whose arguments belong into one."""

    __repr__ = shown_by()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Carry(Mapping[str, str]):
    """The fields that a provider wants in the next request beside the messages: ``create(..., **turn.carry)``."""

    fields: Mapping[str, str] = field(default_factory=dict)
    expires_at: str | None = None
    """The time after which the provider refuses them (RFC 3339, as sent); None if the provider named none."""

    __repr__ = shown_by()

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


NO_CARRY = Carry()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model made."""

    call_id: str
    """Its identity, unique within the turn."""
    name: str
    """The tool's name as you registered it, else as the model spelled it; ``""`` if there was none."""
    call_id_synthesized: bool = False
    """True if the wire gave no usable id, so that `call_id` was made up (the same for the same stream)."""
    kind: CallKind = "function"
    index: int = 0
    """Position among the turn's calls, from 0."""
    arguments_text: str = field(default="", repr=False)
    """The arguments as the wire sent them, verbatim; the input of a ``custom`` call."""
    arguments: dict[str, Any] | None = field(default=None, repr=False)
    """The parsed arguments, verbatim or losslessly normalised; None unless ``ready``. A copy, once validated."""
    status: Literal["ready", "truncated", "invalid"] = field(default="truncated", metadata=ALWAYS)
    problem: str | None = None
    """The code of the problem (``incomplete_json``, ``malformed_json``, ``invalid_arguments``), else None."""
    normalizations: tuple[str, ...] = ()
    """The lossless steps from `arguments_text` to `arguments` (``double_encoded``)."""
    dispatchable: bool = False
    """True if the call is ready, not the provider's to run, and its turn ended well. The tool need not exist."""
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that has to be sent back to the provider with the call, byte for byte."""
    namespace: str | None = None
    """The group of tools that the call named beside the tool. `name` includes it: ``billing.get_eta``."""
    awaits: str | None = None
    """The answer that the provider waits for, if it defines the tool and your program runs it
    (``computer_call_output``); None for tools that the request defined."""
    caller: Caller = "direct"
    """The caller: the model itself, or code that it wrote and the provider runs (``code``)."""

    __repr__ = shown_by()

    @property
    def local_name(self) -> str:
        """The name inside the namespace; `name` itself without one."""
        return self.name if self.namespace is None else self.name.removeprefix(f"{self.namespace}.")


def changed(call: ToolCall, **values: Any) -> ToolCall:
    """Returns a copy of a call with other values."""
    kept = dict(zip(_FIELDS_OF_A_CALL, _values_of(call), strict=True))
    return new_call(**{**kept, "arguments": ARGUMENTS.__get__(call), **values})


new_call = builder_of(ToolCall)
_FIELDS_OF_A_CALL = tuple(one.name for one in fields(ToolCall) if one.name != "arguments")
_values_of = attrgetter(*_FIELDS_OF_A_CALL)
ARGUMENTS: Any = vars(ToolCall)["arguments"]
"""The slot of a call's arguments or, once they are validated, of the function that copies them."""
ToolCall.arguments = on_read(ARGUMENTS)  # type: ignore[misc]


def arguments_in(call: ToolCall) -> dict[str, Any] | None:
    """Returns a call's arguments themselves, for those who change nothing: `ToolCall.arguments` copies them."""
    held = ARGUMENTS.__get__(call)
    arguments: dict[str, Any] | None = getattr(held, "__self__", held)  # of what makes the copies
    return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of the response, from which a history is rendered. Pieces are in the order in which they began."""

    kind: Literal["text", "reasoning", "refusal", "call", "provider"]
    text: str = ""
    call_id: str | None = None
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that has to be sent back to the provider with the part; of a ``provider`` part, the part itself."""

    __repr__ = shown_by()


new_part = builder_of(Part)
