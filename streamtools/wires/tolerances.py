"""What servers of every wire do otherwise, and what becomes of it. Each wire's own rows stand in its package."""

from __future__ import annotations

from .wire import Tolerance

__all__ = ["BODIES", "CALLS"]

BODIES = (
    Tolerance(
        seen="lines ended by LF, CR or CRLF; a byte order mark; no space after `data:`",
        becomes="as the standard has it",
        case="sse-crlf",
    ),
    Tolerance(seen="one payload over several `data:` lines", becomes="joined", case="sse-multi-data-lines"),
    Tolerance(
        seen="characters split anywhere; U+2028 and its like in the text",
        becomes="nothing",
        case="sse-u2028",
    ),
    Tolerance(
        seen="a last block without its blank line",
        becomes="counts, if its data is whole",
        servers="hand-written servers",
        case="sse-no-blank-line-at-eof",
    ),
    Tolerance(
        seen="comments, `id:`, `retry:`, an `event:` without data",
        becomes="nothing",
        servers="OpenRouter, gateways",
        case="sse-openrouter-comments",
    ),
    Tolerance(
        seen="`data:` empty, or beginning with a colon",
        becomes="ignored",
        servers="Vertex, gateways",
        warning="keepalive_data",
        case="sse-comment-as-data",
    ),
    Tolerance(
        seen="`ping` and `keepalive` payloads before the first that tells the wire",
        becomes="nothing",
        servers="gateways",
        case="every-ping-first",
    ),
    Tolerance(
        seen="payloads after the end marker",
        becomes="ignored",
        servers="LiteLLM, relays",
        warning="data_after_done",
        case="chat-data-after-done",
    ),
    Tolerance(
        seen="payloads as JSON lines instead of an event stream",
        becomes="understood",
        servers="Ollama, Cohere v1",
        case="every-json-lines",
    ),
    Tolerance(
        seen="payloads as one JSON array",
        becomes="understood",
        servers="Gemini without `alt=sse`",
        warning="json_array_stream",
        case="gemini-json-array-stream",
    ),
    Tolerance(
        seen="a JSON object that stands bare between the events",
        becomes="a payload",
        servers="Gemini, in errors",
        warning="unframed_object",
        case="every-unframed-error",
    ),
    Tolerance(
        seen="bytes that are no UTF-8",
        becomes="U+FFFD",
        servers="llama.cpp",
        case="sse-invalid-utf8",
    ),
    Tolerance(
        seen="halves of surrogate pairs",
        becomes="joined where they meet; a lone one is U+FFFD",
        servers="servers that escape token by token",
        warning="lone_surrogate",
        case="chat-args-lone-surrogate-final",
    ),
    Tolerance(
        seen="provider extras nested too deep to be written again",
        becomes="not given back",
        warning="nested_too_deep",
        case="every-nested-too-deep",
    ),
)
"""How a body comes."""

CALLS = (
    Tolerance(
        seen="two calls on one index",
        becomes="two calls",
        servers="Ollama, Gemini's facade, LiteLLM",
        warning="index_reused",
        case="chat-parallel-index-0",
    ),
    Tolerance(
        seen="one id twice",
        becomes="the second gets a made-up id",
        servers="DeepSeek, GLM",
        warning="duplicate_id",
        case="chat-id-duplicate-parallel",
    ),
    Tolerance(
        seen="a call that came before, again: the same id, tool and arguments",
        becomes='a call that does not run: `problem="repeated_call"`',
        servers="gateways that send an event twice",
        warning="duplicate_id",
        case="anthropic-call-twice",
    ),
    Tolerance(
        seen="another id on a call that has one",
        becomes="the first is kept",
        servers="Poolside",
        warning="id_changed",
        case="chat-id-changes",
    ),
    Tolerance(
        seen="no id",
        becomes="made up, the same for the same stream; `call_id_synthesized` is set",
        servers="Gemini, Ollama, compatible servers",
        case="chat-id-empty-all",
    ),
    Tolerance(
        seen="a name repeated",
        becomes="once",
        servers="DeepSeek, Qwen, TGI, llama-cpp-python",
        warning="name_repeated",
        case="chat-id-repeated",
    ),
    Tolerance(
        seen="a name in pieces",
        becomes="joined",
        servers="NVIDIA Switchyard",
        warning="name_split",
        case="chat-name-split",
    ),
    Tolerance(
        seen="`functions.` before a name, or a special token after it",
        becomes="removed, if the rest is a tool's name",
        servers="Kimi, vLLM with gpt-oss",
        warning="name_normalized",
        case="chat-name-functions-prefix",
    ),
    Tolerance(
        seen="no name at all",
        becomes='a call that cannot run: `problem="missing_name"`',
        servers="SGLang",
        case="chat-name-never",
    ),
    Tolerance(
        seen='arguments `""`, white space, `null`',
        becomes="`{}`; unless the call was cut there: then it is truncated",
        servers="most, for tools without parameters",
        case="chat-args-empty-string",
    ),
    Tolerance(
        seen="arguments in a JSON string",
        becomes="taken out; `ToolCall.normalizations` says so",
        servers="Qwen, vLLM",
        warning="double_encoded",
        case="chat-args-double-encoded",
    ),
    Tolerance(
        seen="arguments in a code fence, or after `json`",
        becomes="taken out",
        servers="DeepSeek R1",
        warning="fenced_arguments",
        case="chat-args-fenced",
    ),
    Tolerance(
        seen="arguments after a byte order mark",
        becomes="taken out",
        servers="relays",
        warning="bom",
        case="every-arguments-after-bom",
    ),
)
"""How calls come, whatever the wire."""
