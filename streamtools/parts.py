"""Defines the parts of a response: its calls, its token counts, its pieces in order, and the reasons why it ended.

`FINISHES` and `OUTCOMES` are the only tables of the reasons to end. All code that depends on a reason reads them: which
calls may start, which siblings are cancelled, how far a call came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from .content import Caller
from .display import ALWAYS, shown_by

__all__ = [
    "FINISHES",
    "OUTCOMES",
    "CallKind",
    "FailedAttempt",
    "Finish",
    "FinishFacts",
    "Outcome",
    "OutcomeFacts",
    "Part",
    "ResumePoint",
    "StepOutcome",
    "ToolCall",
    "Usage",
    "Wait",
    "WaitReason",
]

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "pause", "steered", "other", "error"]
"""Why the model stopped, in our words; the provider's own word is kept beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFacts:
    """The consequences of a finish."""

    lets_calls_start: bool = False
    """The model has decided, so calls that were held back may run."""
    goes_on: bool = False
    """The model continues the turn once it is sent back, as after Anthropic's server tools."""


FINISHES: Mapping[Finish, FinishFacts] = {
    "stop": FinishFacts(lets_calls_start=True),
    "tool_calls": FinishFacts(lets_calls_start=True),
    "length": FinishFacts(),
    "content_filter": FinishFacts(),
    "pause": FinishFacts(goes_on=True),
    "steered": FinishFacts(goes_on=True),  # what it called was decided before the input that redirects it
    "other": FinishFacts(),
    "error": FinishFacts(),
}
"""Every finish, with its consequences."""

Outcome: TypeAlias = Literal[
    "ok",
    "failed",  # the tool raised
    "invalid",  # the arguments do not fit the tool's schema
    "unknown_tool",
    "truncated",  # the arguments were cut
    "denied",  # not approved, or repeated too often
    "timed_out",
    "cancelled",
    "skipped",  # complete, but its turn ended in a way that starts nothing
    "unknown",  # handed over; it may or may not have run
]
"""The end of one call, its `Observation.outcome`; ``docs/dispatch.md`` says which of them ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFacts:
    """The consequences of an outcome."""

    stage: str | None
    """The stage that a failed call reached, as spans name it; None for success. A call whose tool had started reached
    ``execution`` in any case."""
    cancels_siblings: bool = False
    """The tool ran and failed, so that ``on_tool_error="cancel"`` ends the other calls of the turn."""
    follows_the_end: bool = False
    """The turn's end is a cause of it, if that has come."""
    may_run_later: bool = False
    """The call did not run, and may if its turn, which was cut, is continued."""
    may_have_had_effect: bool = False
    """The tool may still run, or have run to any point, when the call ends so."""


OUTCOMES: Mapping[Outcome, OutcomeFacts] = {
    "ok": OutcomeFacts(stage=None),
    "failed": OutcomeFacts(stage="execution", cancels_siblings=True),
    "invalid": OutcomeFacts(stage="validation"),
    "unknown_tool": OutcomeFacts(stage="lookup"),
    "truncated": OutcomeFacts(stage="arguments", may_run_later=True),
    "denied": OutcomeFacts(stage="approval"),
    "timed_out": OutcomeFacts(stage="dispatch", cancels_siblings=True, may_have_had_effect=True),
    "cancelled": OutcomeFacts(stage="dispatch", may_have_had_effect=True),
    "skipped": OutcomeFacts(stage="dispatch", follows_the_end=True, may_run_later=True),
    "unknown": OutcomeFacts(stage="dispatch", cancels_siblings=True, may_have_had_effect=True),
}
"""Every outcome, with its consequences."""

StepOutcome: TypeAlias = Literal["complete", "truncated", "error", "cancelled", "abandoned"]
"""The end of one step; see `streamtools.events.StepEnd.outcome`."""

WaitReason: TypeAlias = Literal[
    "turn_end",  # only the end of its turn lets the call start
    "approval",
    "caller",  # calls start by hand
    "key",  # another call works on the same `conflict_key`
    "tool_limit",  # the tool's `max_concurrency`
    "exclusive",  # an `exclusive` tool runs alone
    "limit",  # `Limits.max_concurrency`, or the turns of other pipelines
    "thread",  # `Limits.max_threads`
]
"""The thing that a call waits for before its tool runs."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A time in which a call could not start."""

    reason: WaitReason
    """What it waited for; of several reasons at once, the one that was looked at first."""
    began: float
    """On ``time.monotonic``."""
    ended: float
    """On ``time.monotonic``."""

    @property
    def seconds(self) -> float:
        """The length of the wait."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt at a call that failed, and was followed by another."""

    number: int
    """From 1."""
    began: float
    """On ``time.monotonic``."""
    ended: float
    """On ``time.monotonic``."""
    error_type: str
    """The class of the exception, with its module unless that is ``builtins``; ``timeout`` for a timeout."""
    delay_s: float
    """Seconds of pause before the next attempt, as planned."""


CallKind: TypeAlias = Literal["function", "custom", "approval", "server"]
"""``function``: JSON arguments. ``custom``: free text. ``approval``: the provider asks whether it may run a call of its
own. ``server``: the provider runs it itself; we only report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts with the same meaning on every wire; None where the wire gives none."""

    input_tokens: int | None = None
    """All tokens of the input, including those read from the provider's cache or written to it."""
    output_tokens: int | None = None
    """All tokens of the output."""
    cached_input_tokens: int | None = None
    """Those of `input_tokens` that were read from the cache."""
    cache_write_input_tokens: int | None = None
    """Those of `input_tokens` that were written to the cache."""
    long_cache_write_input_tokens: int | None = None
    """Those of `cache_write_input_tokens` that stay for an hour or longer, at a price of their own."""
    audio_input_tokens: int | None = None
    """Those of `input_tokens` that were sound."""
    tool_use_input_tokens: int | None = None
    """Input that came from tools which the provider ran itself, beside `input_tokens` (Gemini)."""
    reasoning_tokens: int | None = None
    """Those of `output_tokens` that were reasoning, where the provider counts them."""
    audio_output_tokens: int | None = None
    """Those of `output_tokens` that were sound."""

    __repr__ = shown_by()

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum, field by field. A count that only one of the two has is taken as it is."""
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(**{one.name: _sum(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)})


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The place at which a response was cut, for the request that goes on with it."""

    response_id: str | None = None
    """The provider's id of the response."""
    after: str | int | None = None
    """The last event that came: its id (``last_event_id``), or its number (``starting_after``)."""
    account: tuple[tuple[Mapping[str, Any], int | None], ...] = field(default=(), repr=False)
    """All that had come, as payloads of the wire; and the number of the call whose arguments belong into one."""

    __repr__ = shown_by()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model made."""

    call_id: str
    """Its identity, unique within the turn."""
    name: str
    """The tool's name as registered where it is, else as the model spelled it; ``""`` if it never came."""
    call_id_synthesized: bool = False
    """The wire gave no usable id, so `call_id` was made up (the same for the same stream)."""
    kind: CallKind = "function"
    index: int = 0
    """Position among the turn's calls, from 0."""
    arguments_text: str = field(default="", repr=False)
    """The arguments as the wire sent them, verbatim; the input of a ``custom`` call."""
    arguments: dict[str, Any] | None = field(default=None, repr=False)
    """The dispatchable value: verbatim, or losslessly normalised (`normalizations`); None unless ``ready``."""
    status: Literal["ready", "truncated", "invalid"] = field(default="truncated", metadata=ALWAYS)
    problem: str | None = None
    """Code of what is wrong (``incomplete_json``, ``malformed_json``, ``invalid_arguments``), else None."""
    normalizations: tuple[str, ...] = ()
    """Lossless steps that led from `arguments_text` to `arguments` (``double_encoded``)."""
    dispatchable: bool = False
    """Ready, of ours to run, and its turn ended well. It does not say whether a tool of that name exists."""
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that has to be sent back to the provider with the call, byte for byte."""
    namespace: str | None = None
    """The group of tools that the call named beside the tool. It is a part of `name`: ``billing.get_eta``."""
    awaits: str | None = None
    """The answer that the provider waits for, where the tool is one that it defines and we run
    (``computer_call_output``); None for tools that the request defined."""
    caller: Caller = "direct"
    """Who made the call: the model itself, or code that it wrote and the provider runs (``code``)."""

    __repr__ = shown_by()

    @property
    def local_name(self) -> str:
        """The name inside the namespace; `name` itself where there is none."""
        return self.name if self.namespace is None else self.name.removeprefix(f"{self.namespace}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of the response, in the order in which the pieces began: what a history is rendered from."""

    kind: Literal["text", "reasoning", "refusal", "call", "provider"]
    text: str = ""
    call_id: str | None = None
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """Data that has to be sent back to the provider with the part; for ``provider`` parts the part itself."""

    __repr__ = shown_by()
