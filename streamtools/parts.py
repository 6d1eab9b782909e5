"""The parts of a response: its calls, its token counts, its pieces in order; and why it ended.

`FINISHES` and `OUTCOMES` are the one place where a reason to end is described. Everything that asks what follows from
one reads it here: which calls may start, which siblings are cancelled, how far a call came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = [
    "FINISHES",
    "OUTCOMES",
    "CallKind",
    "Finish",
    "FinishFacts",
    "Outcome",
    "OutcomeFacts",
    "Part",
    "StepOutcome",
    "ToolCall",
    "Usage",
]

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "pause", "other", "error"]
"""Why the model stopped, in our words; the provider's own word is kept beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishFacts:
    """What follows from a finish."""

    lets_calls_start: bool = False
    """The model had finished deciding, so that calls which were held back may run."""
    goes_on: bool = False
    """The turn goes on when it is sent back, as after Anthropic's own tools."""


FINISHES: Mapping[Finish, FinishFacts] = {
    "stop": FinishFacts(lets_calls_start=True),
    "tool_calls": FinishFacts(lets_calls_start=True),
    "length": FinishFacts(),
    "content_filter": FinishFacts(),
    "pause": FinishFacts(goes_on=True),
    "other": FinishFacts(),
    "error": FinishFacts(),
}
"""Every finish, with what follows from it."""

Outcome: TypeAlias = Literal[
    "ok",
    "failed",
    "invalid",
    "unknown_tool",
    "truncated",
    "denied",
    "timed_out",
    "cancelled",
    "skipped",
    "unknown",
]
"""How one call ended; see `streamtools.events.Observation.outcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeFacts:
    """What follows from an outcome."""

    stage: str | None
    """How far the call came that did not succeed, as spans name it; None for success. A call whose tool had started
    came to ``execution`` in any case."""
    cancels_siblings: bool = False
    """The tool ran and failed, so that ``on_tool_error="cancel"`` ends the other calls of the turn."""
    may_have_had_effect: bool = False
    """The tool may still run, or have run to any point, when the call ends so."""


OUTCOMES: Mapping[Outcome, OutcomeFacts] = {
    "ok": OutcomeFacts(stage=None),
    "failed": OutcomeFacts(stage="execution", cancels_siblings=True),
    "invalid": OutcomeFacts(stage="validation"),
    "unknown_tool": OutcomeFacts(stage="lookup"),
    "truncated": OutcomeFacts(stage="arguments"),
    "denied": OutcomeFacts(stage="approval"),
    "timed_out": OutcomeFacts(stage="dispatch", cancels_siblings=True, may_have_had_effect=True),
    "cancelled": OutcomeFacts(stage="dispatch", may_have_had_effect=True),
    "skipped": OutcomeFacts(stage="dispatch"),
    "unknown": OutcomeFacts(stage="dispatch", cancels_siblings=True, may_have_had_effect=True),
}
"""Every outcome, with what follows from it."""

StepOutcome: TypeAlias = Literal["complete", "truncated", "error", "cancelled", "abandoned"]
"""How one step ended; see `streamtools.events.StepEnd.outcome`."""

CallKind: TypeAlias = Literal["function", "custom", "server"]
"""``function``: JSON arguments. ``custom``: free text. ``server``: the provider runs it itself; we only report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts with the same meaning on every wire; None where the wire gives none."""

    input_tokens: int | None = None
    """All that the model was given, read from the provider's cache, written to it, or neither."""
    output_tokens: int | None = None
    """All that the model wrote."""
    cached_input_tokens: int | None = None
    """Those of `input_tokens` that were read from the cache."""
    cache_write_input_tokens: int | None = None
    """Those of `input_tokens` that were written to the cache."""
    reasoning_tokens: int | None = None
    """How many tokens of reasoning the model wrote."""


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
    """What the wire said, verbatim. A ``custom`` call's input."""
    arguments: dict[str, Any] | None = field(default=None, repr=False)
    """The dispatchable value: verbatim, or losslessly normalised (`normalizations`); None unless ``ready``."""
    status: Literal["ready", "truncated", "invalid"] = "truncated"
    problem: str | None = None
    """Code of what is wrong (``incomplete_json``, ``malformed_json``, ``invalid_arguments``), else None."""
    normalizations: tuple[str, ...] = ()
    """Lossless steps that led from `arguments_text` to `arguments` (``double_encoded``)."""
    dispatchable: bool = False
    """Ready, of ours to run, and its turn ended well. Whether a tool of that name exists is the registry's question."""
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the provider wants back with the call, byte for byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of the response, in the order in which the pieces began: what a history is rendered from."""

    kind: Literal["text", "reasoning", "refusal", "call", "provider"]
    text: str = field(default="", repr=False)
    call_id: str | None = None
    provider_state: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the provider wants back with it; for ``provider`` parts the part itself."""
