"""Lists every span and attribute name that streamtools emits, in one table.

A profile is one `Names`: the default writes the GenAI semantic conventions v1.41, the last release of OpenTelemetry's
conventions that has them (stability: development); ``genai-0.1`` the first release of the repository that they have
moved to. A name that is None is not emitted. The ``streamtools.*`` names are ours, and the same in every profile. Arize
Phoenix and MLflow read the default, and fill more columns from it than from names of their own (`tests/backends`).

    Tracing(names="genai-0.1")
    Tracing(names=dataclasses.replace(SEMCONV, response_id=None))

Source: https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai (read 2026-11-20)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ..parts import COUNTS
from ..wires import find

__all__ = ["GENAI_0_1", "PROFILES", "SEMCONV", "Names", "provider_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A profile of names for spans and attributes. The defaults are the GenAI semantic conventions v1.41."""

    schema_url: str | None = "https://opentelemetry.io/schemas/1.41.0"
    """The conventions that the instrumentation scope says it follows."""

    run_span: str = "invoke_agent"
    """The agent's name follows it, where it has one."""
    step_span: str = "streamtools.step"
    chat_span: str = "chat"
    """The model's name follows it, where the stream told it."""
    tool_span: str = "execute_tool"
    """The tool's name follows it."""
    approval_span: str = "streamtools.approval"
    """The tool's name follows it."""
    wait_span: str = "streamtools.wait"
    """The tool's name follows it."""
    attempt_event: str = "streamtools.attempt"
    """An event on a tool span: an attempt that failed and was followed by another."""

    run_constants: Mapping[str, str] = field(default_factory=lambda: {"gen_ai.operation.name": "invoke_agent"})
    """Attributes of every run span."""
    # A step carries no `gen_ai.*` attribute: Jaeger's UI would show it as an unknown GenAI operation.
    step_constants: Mapping[str, str] = field(default_factory=dict)
    """Attributes of every step span."""
    chat_constants: Mapping[str, str] = field(default_factory=lambda: {"gen_ai.operation.name": "chat"})
    """Attributes of every chat span."""
    tool_constants: Mapping[str, str] = field(
        default_factory=lambda: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
    )
    """Attributes of every tool span."""

    # -- a run --
    agent_name: str | None = "gen_ai.agent.name"
    conversation_id: str | None = "gen_ai.conversation.id"

    # -- the model's response --
    provider: str | None = "gen_ai.provider.name"
    request_stream: str | None = "gen_ai.request.stream"
    request_model: str | None = "gen_ai.request.model"
    request_parameters: Mapping[str, str | None] = field(
        default_factory=lambda: {
            "temperature": "gen_ai.request.temperature",
            "top_p": "gen_ai.request.top_p",
            "top_k": "gen_ai.request.top_k",
            "max_tokens": "gen_ai.request.max_tokens",
            "seed": "gen_ai.request.seed",
        }
    )
    """A name for each parameter of a request that the conventions name."""
    response_model: str | None = "gen_ai.response.model"
    response_id: str | None = "gen_ai.response.id"
    finish_reasons: str | None = "gen_ai.response.finish_reasons"
    """The provider's own words, as a list."""
    time_to_first_chunk: str | None = "gen_ai.response.time_to_first_chunk"
    """Seconds from the request, or from the moment when streamtools took the stream over, to the first chunk."""
    usage: Mapping[str, str | None] = field(
        default_factory=lambda: {count: facts.span for count, facts in COUNTS.items()}
    )
    """A name for each count of `Usage`; one without a name is not emitted."""
    cost: str | None = "streamtools.cost"
    """In the currency of the caller's ``prices=``; of a run the sum."""
    input_messages: str | None = "gen_ai.input.messages"
    """Content; only if it is captured, and the caller gave it."""
    system_instructions: str | None = "gen_ai.system_instructions"
    """Content; only if it is captured, and the caller gave it."""
    output_messages: str | None = "gen_ai.output.messages"
    """Content; only if it is captured."""

    # -- a tool call --
    tool_name: str | None = "gen_ai.tool.name"
    tool_call_id: str | None = "gen_ai.tool.call.id"
    tool_arguments: str | None = "gen_ai.tool.call.arguments"
    """Content; only if it is captured."""
    tool_result: str | None = "gen_ai.tool.call.result"
    """Content; only if it is captured."""

    error_type: str = "error.type"

    # -- ours: identity and cause. They repeat the span links, because some trace stores drop those. --
    run_id: str = "streamtools.run.id"
    run_steps: str = "streamtools.run.steps"
    """How many responses of a model have ended in the run."""
    run_outcome: str = "streamtools.run.outcome"
    """`RunOutcome`; not there for a loop of the caller's own."""
    step: str = "streamtools.step.number"
    call_key: str = "streamtools.call.key"
    """``{step}.{index}``: the call's identity within its run, also where the provider gives no usable id."""
    seq_first: str = "streamtools.seq.first"
    """`seq` of the first event that the span covers."""
    seq_last: str = "streamtools.seq.last"
    """`seq` of the last event that the span covers; on a tool span its `Observation`."""
    cause_seq: str = "streamtools.cause.seq"
    """`seq` of its causes. On a chat span: the observations of the step before."""
    link_type: str = "streamtools.link.type"
    """On a link: ``proposed_by`` (tool to chat), ``observed`` (chat to the tools of the step before), ``follows`` (step
    to the one before, where no run span is above them), ``resumes`` (step to the one that suspended its calls)."""

    # -- ours: outcomes --
    step_outcome: str = "streamtools.step.outcome"
    """`StepEnd.outcome`."""
    stream_wire: str = "streamtools.stream.wire"
    stream_outcome: str = "streamtools.stream.outcome"
    """``complete``, ``truncated``, ``abandoned``, ``cancelled`` or ``error``."""
    stream_finish: str = "streamtools.stream.finish"
    """The finish in our words."""
    stream_server_calls: str = "streamtools.stream.server_calls"
    """The number of tools that the provider ran itself; they have no spans of their own."""
    call_kind: str = "streamtools.call.kind"
    call_outcome: str = "streamtools.call.outcome"
    """`Observation.outcome`."""
    call_id_synthesized: str = "streamtools.call.id_synthesized"
    call_validated: str = "streamtools.call.validated"
    call_problem: str = "streamtools.call.problem"
    """Code of the problem with the arguments."""
    call_normalizations: str = "streamtools.call.normalizations"
    """Lossless steps that led from the arguments' text to their value."""
    failure_stage: str = "streamtools.failure_stage"
    """``arguments``, ``lookup``, ``validation``, ``approval``, ``dispatch`` or ``execution``."""
    schema_source: str = "streamtools.schema.source"
    tool_owner: str = "streamtools.tool.owner"
    schema_present: str = "streamtools.schema.present"
    observation_type: str = "streamtools.observation.type"
    tool_attempts: str = "streamtools.tool.attempts"
    tool_queue_time: str = "streamtools.tool.queue_time_s"
    """Seconds from the call's being ready to its tool's start, the wait for the turn's end included."""
    approval_verdict: str = "streamtools.approval.verdict"
    """``approved``, ``denied``, or ``none``: the block was left before anybody had decided."""
    waiting_tool: str = "streamtools.tool.name"
    """The tool of a call that waits. Not `gen_ai.tool.name`, by which the wait would count as a call."""
    waiting_call: str = "streamtools.call.id"
    """The id of a call that waits."""
    wait_reason: str = "streamtools.wait.reason"
    """`Wait.reason`."""
    attempt_number: str = "streamtools.attempt.number"
    attempt_duration: str = "streamtools.attempt.duration_s"
    attempt_delay: str = "streamtools.attempt.delay_s"
    """Seconds of pause before the next attempt."""
    call_recorded: str = "streamtools.call.recorded"
    """The idempotency store knew how the call had ended: nothing ran."""
    tool_still_running: str = "streamtools.tool.still_running"


SEMCONV = Names()
"""The GenAI semantic conventions v1.41."""

GENAI_0_1 = replace(
    SEMCONV,
    schema_url=None,  # the address of its schema was another one in each version that was read
    usage={count: facts.profiles.get("genai-0.1", facts.span) for count, facts in COUNTS.items()},
)
"""The GenAI semantic conventions v0.1 of their own repository: the names that changed since v1.41, of those that are
written here."""

PROFILES: Mapping[str, Names] = MappingProxyType({"semconv-1.41": SEMCONV, "genai-0.1": GENAI_0_1})
"""The profiles by the names that `Tracing` accepts."""


def provider_of(wire: str) -> str:
    """Returns the provider whose flavour of telemetry a wire has; for an unknown wire, the first part of its name.

    >>> provider_of("openai.chat_completions"), provider_of("gemini.generate_content"), provider_of("mine.chat")
    ('openai', 'gcp.gemini', 'mine')
    """
    try:
        return find(wire).provider
    except ValueError:  # a wire of somebody's own that is not registered
        return wire.partition(".")[0]
