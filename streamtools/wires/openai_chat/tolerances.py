"""What Chat Completions servers do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance(
        seen="no `[DONE]` after a finish reason",
        becomes="complete",
        servers="Together, Cerebras, proxies",
        warning="missing_done",
        case="chat-eof-after-finish-no-done",
    ),
    Tolerance(
        seen="`[DONE]` without a finish reason, which gateways add after an upstream died",
        becomes="truncated",
        servers="proxies",
        case="chat-finish-missing-with-done",
    ),
    Tolerance(
        seen="a call after the last finish reason, and no `[DONE]`",
        becomes="truncated: nothing says that it is whole",
        servers="Cerebras, if cut",
        case="chat-call-after-finish",
    ),
    Tolerance(
        seen="the connection stays open after `[DONE]`",
        becomes="the response is over at `[DONE]`",
        servers="OpenCode",
        case="chat-hang-after-done",
    ),
    Tolerance(
        seen="`stop` although tools were called",
        becomes="`tool_calls`",
        servers="Gemini's facade, Ollama, LiteLLM, OpenAI with a forced tool",
        warning="finish_reason_normalized",
        case="chat-finish-stop-with-tools",
    ),
    Tolerance(
        seen="`tool_calls`, but `native_finish_reason` says that the response was cut",
        becomes="`length`; nothing runs",
        servers="OpenRouter",
        warning="masked_truncation",
        case="chat-masked-truncation",
    ),
    Tolerance(
        seen="the same finish reason twice",
        becomes="one",
        servers="OpenRouter, gateways",
        warning="repeated_finish_reason",
        case="chat-finish-repeated",
    ),
    Tolerance(
        seen="two different finish reasons",
        becomes="the first counts, unless the second is bad news",
        servers="Gemini relays",
        warning="conflicting_finish_reason",
        case="chat-finish-conflicting",
    ),
    Tolerance(
        seen='`finish_reason: ""` on every chunk',
        becomes="none",
        servers="Ollama, SGLang, GLM relays",
        case="chat-finish-empty-string",
    ),
    Tolerance(
        seen="a vendor's own finish reason (`eos`, `end_turn`, `COMPLETE`)",
        becomes="ours; an unknown one is `other`, and held calls do not start",
        servers="TGI, Cohere's and Gemini's facades",
        case="chat-finish-unknown",
    ),
    # the envelope
    Tolerance(
        seen="`choices: []`, `choices: null`, a choice without `delta`, `delta: null`",
        becomes="nothing; usage in it counts",
        servers="Azure, Copilot, gateways",
        case="chat-azure-no-delta",
    ),
    Tolerance(
        seen="a first chunk of `prompt_filter_results` with empty id and model",
        becomes="nothing",
        servers="Azure",
        case="chat-azure-first-chunk",
    ),
    Tolerance(
        seen="other choices (n > 1); a choice index that counts tokens",
        becomes="left out; followed",
        servers="Foundry Local",
        warning="extra_choice",
        case="chat-chunk-id-varies",
    ),
    Tolerance(
        seen="another chunk id in every chunk",
        becomes="nothing: it is no identity",
        servers="Foundry Local, LiteLLM",
        case="chat-chunk-id-varies",
    ),
    Tolerance(
        seen="usage in `x_groq`, in a chunk of its own, or in every chunk",
        becomes="usage; the last counts",
        servers="Groq, Perplexity, Databricks",
        case="chat-usage-x-groq",
    ),
    Tolerance(
        seen="an error with `failed_generation` in the middle",
        becomes="a `ProviderError`",
        servers="Groq",
        case="chat-error-groq-tool-use-failed",
    ),
    Tolerance(
        seen="`x_groq.error`: the stream was stopped early",
        becomes="a `ProviderError`",
        servers="Groq",
        case="chat-groq-stopped-early",
    ),
    Tolerance(
        seen="an error inside the choice",
        becomes="a `ProviderError`",
        servers="OpenRouter",
        case="chat-error-in-choice",
    ),
    Tolerance(
        seen="`error: null`, or `{}` beside an answer",
        becomes="nothing",
        servers="proxies",
        case="chat-empty-error",
    ),
    Tolerance(
        seen="a payload without anything of a chunk; a delta's unknown fields",
        becomes="an `UnknownPayload` event",
        servers="proxies",
        warning="unknown_event",
        case="chat-unknown-payload",
    ),
    Tolerance(
        seen='a tool call of the provider\'s own (`type: "web_search"`)',
        becomes="an `UnknownPayload` event: nobody's to run",
        servers="compatible servers",
        case="chat-provider-tool-call",
    ),
    Tolerance(
        seen="an error as text, with its code beside it",
        becomes="a `ProviderError`",
        servers="xAI",
        case="chat-error-string",
    ),
    Tolerance(
        seen='an error as `object: "error"`',
        becomes="a `ProviderError`",
        servers="vLLM",
        case="chat-error-object-type",
    ),
    Tolerance(
        seen="an error beside empty choices",
        becomes="a `ProviderError`",
        servers="OpenRouter",
        case="chat-error-with-empty-choices",
    ),
    Tolerance(
        seen="an error in a field called `error:` instead of `data:`",
        becomes="a `ProviderError`",
        servers="llama.cpp",
        case="chat-error-field-name",
    ),
    # text and reasoning
    Tolerance(
        seen="`content` as a list of typed blocks",
        becomes="text and reasoning",
        servers="Mistral, GLM, Databricks",
        case="chat-content-list",
    ),
    Tolerance(
        seen="`reasoning` instead of `reasoning_content`, or both",
        becomes="reasoning, once; given back in the field that it came in",
        servers="vLLM, Ollama, OpenRouter, Groq, DeepSeek",
        case="chat-reasoning-both",
    ),
    Tolerance(
        seen="`reasoning_details`",
        becomes="reasoning where no field has it; given back byte for byte",
        servers="OpenRouter",
        case="chat-reasoning-details",
    ),
    Tolerance(
        seen="`<think>` at the very start of the text",
        becomes="reasoning, given back as it was; a tag anywhere else stays text",
        servers="Qwen, DeepSeek behind vLLM and LiteLLM",
        warning="inline_think",
        case="chat-inline-think",
    ),
    Tolerance(
        seen="a tool call as markup in the text",
        becomes="text; a stage reads it as a call if asked to",
        servers="DeepSeek, Kimi",
        case="chat-special-tokens-in-content",
    ),
    # calls
    Tolerance(
        seen="no `index`, or null",
        becomes="found by id, else the latest call",
        servers="Ollama, Gemini's facade",
        warning="missing_index",
        case="chat-index-missing",
    ),
    Tolerance(
        seen="indexes that begin at 1, or with gaps",
        becomes="labels",
        servers="LiteLLM on Bedrock, Anthropic's facade",
        case="chat-index-sparse",
    ),
    Tolerance(
        seen='no `type`, `id: ""` or null on what continues a call',
        becomes="continues it",
        servers="DashScope, SGLang, Azure AI Foundry",
        case="chat-id-empty-continuation",
    ),
    Tolerance(
        seen="`tool_calls` as one object",
        becomes="a call",
        servers="TGI",
        case="chat-tool-calls-dict",
    ),
    Tolerance(
        seen="`function_call`",
        becomes="a call",
        servers="OpenAI's legacy functions",
        case="chat-legacy-function-call",
    ),
    Tolerance(
        seen="`arguments` as an object",
        becomes="understood, integers of any size exact",
        servers="llama.cpp, TGI",
        warning="arguments_object",
        case="chat-args-object",
    ),
    Tolerance(
        seen="`tool_calls: []` in every delta of text",
        becomes="nothing",
        servers="Foundry Local",
        case="chat-tool-calls-empty-list",
    ),
    Tolerance(
        seen="`custom` calls; `extra_content`",
        becomes="calls of kind `custom`; given back byte for byte",
        servers="OpenAI; Gemini's facade",
        case="chat-custom-call-extra-content",
    ),
    Tolerance(
        seen="a finish reason that speaks of calls, and no call",
        becomes="no call; what was read of the stream before it was passed on is lost",
        servers="a stream that somebody had begun to read",
        warning="finish_without_calls",
        case="chat-finish-without-calls",
    ),
)
