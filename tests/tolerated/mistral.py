"""The deviations of Mistral, and of servers that stand in for it, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance("no `[DONE]` after a finish reason", "complete",
              case="mistral-no-done", warning="missing_done", servers="proxies"),
    Tolerance("`stop` although tools were called", "`tool_calls`",
              case="mistral-stop-with-tools", warning="finish_reason_normalized", servers="compatible servers"),
    Tolerance("the finish reason in the chunk of the call", "one after the other; a call cut by `length` does not run",
              case="mistral-cut-in-the-last-chunk", servers="Mistral"),
    Tolerance("`model_length`", "`length`",
              case="mistral-model-length", servers="Mistral"),
    # the envelope
    Tolerance("padding (`p`) beside the choices", "nothing",
              case="mistral-whole-calls", servers="Mistral"),
    Tolerance("`choices: []` in the middle", "nothing",
              case="mistral-empty-choices", servers="Mistral", source="vercel/ai, packages/mistral"),
    Tolerance("other choices (n > 1)", "left out",
              case="mistral-two-choices", warning="extra_choice", servers="Mistral, if asked"),
    Tolerance('an error as `object: "error"`', "a `ProviderError`",
              case="mistral-error", servers="Mistral"),
    # text and thinking
    Tolerance("`content` now a list of chunks, now a string",
              "text and reasoning; thinking goes back as chunks, with its signature",
              case="mistral-thinking-then-text", servers="Mistral"),
    Tolerance("a reference among the texts, its ids numbers or strings", "a `ProviderItem`; given back in its place",
              case="mistral-references", servers="Mistral", source="vercel/ai#4747, mistralai/client-python#325"),
    Tolerance("a chunk of a type that nobody knows", "a `ProviderItem`, given back",
              case="mistral-unknown-chunk", warning="unknown_block_type"),
    Tolerance("`<think>` at the very start of the text", "reasoning, given back as it was",
              case="mistral-inline-think", warning="inline_think", servers="Magistral of 2506, self-hosted"),
    # calls
    Tolerance("several calls in one chunk, no `type`, `content: null` beside them", "calls",
              case="mistral-whole-calls", servers="Mistral"),
    Tolerance("no `index`", "found by id, else the latest call",
              case="mistral-no-index", warning="missing_index", servers="Mistral before 2025"),
    Tolerance('no id, or the id `"null"`', "made up; what has an index or no name continues a call",
              case="mistral-id-null", warning="missing_index", servers="Mistral before 2025, its SDK's objects",
              source="langchain-ai/langchain#38677"),
    Tolerance('arguments in pieces, with no id and the name `""` after the first', "continues the call",
              case="mistral-arguments-in-pieces", servers="GLM relayed by Mistral", source="anomalyco/opencode#49692"),
    Tolerance("`arguments` as an object", "understood, integers of any size exact",
              case="mistral-arguments-object", warning="arguments_object",
              servers="compatible servers; the SDK's type allows it"),
)  # fmt: skip
