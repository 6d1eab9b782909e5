"""What Mistral, and servers that stand in for it, do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance(
        seen="no `[DONE]` after a finish reason",
        becomes="complete",
        servers="proxies",
        warning="missing_done",
        case="mistral-no-done",
    ),
    Tolerance(
        seen="`stop` although tools were called",
        becomes="`tool_calls`",
        servers="compatible servers",
        warning="finish_reason_normalized",
        case="mistral-stop-with-tools",
    ),
    Tolerance(
        seen="the finish reason in the chunk of the call",
        becomes="one after the other; a call cut by `length` does not run",
        servers="Mistral",
        case="mistral-cut-in-the-last-chunk",
    ),
    Tolerance(
        seen="`model_length`",
        becomes="`length`",
        servers="Mistral",
        case="mistral-model-length",
    ),
    # the envelope
    Tolerance(
        seen="padding (`p`) beside the choices",
        becomes="nothing",
        servers="Mistral",
        case="mistral-whole-calls",
    ),
    Tolerance(
        seen="`choices: []` in the middle",
        becomes="nothing",
        servers="Mistral",
        case="mistral-empty-choices",
        source="vercel/ai, packages/mistral",
    ),
    Tolerance(
        seen="other choices (n > 1)",
        becomes="left out",
        servers="Mistral, if asked",
        warning="extra_choice",
        case="mistral-two-choices",
    ),
    Tolerance(
        seen='an error as `object: "error"`',
        becomes="a `ProviderError`",
        servers="Mistral",
        case="mistral-error",
    ),
    # text and thinking
    Tolerance(
        seen="`content` now a list of chunks, now a string",
        becomes="text and reasoning; thinking goes back as chunks, with its signature",
        servers="Mistral",
        case="mistral-thinking-then-text",
    ),
    Tolerance(
        seen="a reference among the texts, its ids numbers or strings",
        becomes="a `ProviderItem`; given back in its place",
        servers="Mistral",
        case="mistral-references",
        source="vercel/ai#4747, mistralai/client-python#325",
    ),
    Tolerance(
        seen="a chunk of a type that nobody knows",
        becomes="a `ProviderItem`, given back",
        warning="unknown_chunk_type",
        case="mistral-unknown-chunk",
    ),
    Tolerance(
        seen="`<think>` at the very start of the text",
        becomes="reasoning, given back as it was",
        servers="Magistral of 2506, self-hosted",
        warning="inline_think",
        case="mistral-inline-think",
    ),
    # calls
    Tolerance(
        seen="several calls in one chunk, no `type`, `content: null` beside them",
        becomes="calls",
        servers="Mistral",
        case="mistral-whole-calls",
    ),
    Tolerance(
        seen="no `index`",
        becomes="found by id, else the latest call",
        servers="Mistral before 2025",
        warning="missing_index",
        case="mistral-no-index",
    ),
    Tolerance(
        seen='no id, or the id `"null"`',
        becomes="made up; what has an index or no name continues a call",
        servers="Mistral before 2025, its SDK's objects",
        warning="missing_index",
        case="mistral-id-null",
        source="langchain-ai/langchain#38677",
    ),
    Tolerance(
        seen='arguments in pieces, with no id and the name `""` after the first',
        becomes="continues the call",
        servers="GLM relayed by Mistral",
        case="mistral-arguments-in-pieces",
        source="anomalyco/opencode#49692",
    ),
    Tolerance(
        seen="`arguments` as an object",
        becomes="understood, integers of any size exact",
        servers="compatible servers; the SDK's type allows it",
        warning="arguments_object",
        case="mistral-arguments-object",
    ),
)
