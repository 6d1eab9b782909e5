"""The deviations of servers on every wire, and what becomes of each. Each wire's own stand in its module here."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["BODIES", "CALLS"]

BODIES = (
    Tolerance("lines ended by LF, CR or CRLF; a byte order mark; no space after `data:`", "as the standard has it",
              case="sse-crlf"),
    Tolerance("one payload over several `data:` lines", "joined",
              case="sse-multi-data-lines"),
    Tolerance("characters split anywhere; U+2028 and its like in the text", "nothing",
              case="sse-u2028"),
    Tolerance("a last block without its blank line", "counts, if its data is whole",
              case="sse-no-blank-line-at-eof", servers="hand-written servers"),
    Tolerance("comments, `id:`, `retry:`, an `event:` without data", "nothing",
              case="sse-openrouter-comments", servers="OpenRouter, gateways"),
    Tolerance("`data:` empty, or beginning with a colon", "ignored",
              case="sse-comment-as-data", warning="keepalive_data", servers="Vertex, gateways"),
    Tolerance("`ping` and `keepalive` payloads before the first that tells the wire", "nothing",
              case="every-ping-first", servers="gateways"),
    Tolerance("payloads after the end marker", "`UnknownPayload` events, which change no turn",
              case="chat-data-after-done", warning="data_after_done", servers="LiteLLM, relays"),
    Tolerance("payloads as JSON lines instead of an event stream", "understood",
              case="every-json-lines", servers="Ollama, Cohere v1"),
    Tolerance("payloads as one JSON array", "understood",
              case="gemini-json-array-stream", warning="json_array_stream", servers="Gemini without `alt=sse`"),
    Tolerance("a JSON object that stands bare between the events", "a payload",
              case="every-unframed-error", warning="unframed_object", servers="Gemini, in errors"),
    Tolerance("bytes that are no UTF-8", "U+FFFD",
              case="sse-invalid-utf8", servers="llama.cpp"),
    Tolerance("halves of surrogate pairs", "joined where they meet; a lone one is U+FFFD",
              case="chat-args-lone-surrogate-final", warning="lone_surrogate",
              servers="servers that escape token by token"),
    Tolerance("provider extras nested too deep to be written again", "not given back",
              case="every-nested-too-deep", warning="nested_too_deep"),
)  # fmt: skip
"""How a body comes."""

CALLS = (
    Tolerance("two calls on one index", "two calls",
              case="chat-parallel-index-0", warning="index_reused", servers="Ollama, Gemini's facade, LiteLLM"),
    Tolerance("one id twice", "the second gets a made-up id",
              case="chat-id-duplicate-parallel", warning="duplicate_id", servers="DeepSeek, GLM"),
    Tolerance("a call that came before, again: the same id, tool and arguments",
              "one call",
              case="anthropic-call-twice", warning="call_resent", servers="gateways that send an event twice"),
    Tolerance("another id on a call that has one", "the first is kept",
              case="chat-id-changes", warning="id_changed", servers="Poolside"),
    Tolerance("no id", "made up, the same for the same stream; `call_id_synthesized` is set",
              case="chat-id-empty-all", servers="Gemini, Ollama, compatible servers"),
    Tolerance("a name repeated", "once",
              case="chat-id-repeated", warning="name_repeated", servers="DeepSeek, Qwen, TGI, llama-cpp-python"),
    Tolerance("a name in pieces", "joined",
              case="chat-name-split", warning="name_split", servers="NVIDIA Switchyard"),
    Tolerance("`functions.` before a name, or a special token after it", "removed, if the rest is a tool's name",
              case="chat-name-functions-prefix", warning="name_normalized", servers="Kimi, vLLM with gpt-oss"),
    Tolerance("no name at all", 'a call that cannot run: `problem="missing_name"`',
              case="chat-name-never", servers="SGLang"),
    Tolerance('arguments `""`, white space, `null`', "`{}`; unless the call was cut there: then it is truncated",
              case="chat-args-empty-string", servers="most, for tools without parameters"),
    Tolerance("arguments before the start of their call",
              "the call's own, if it brings none itself, and nothing else begins in its place",
              case="anthropic-arguments-before-start", warning="delta_without_block", servers="relays"),
    Tolerance("arguments behind the end of a call, before two calls at one place, or without a number",
              "the call is `truncated`, since nobody can say what it lacks: it runs neither for `{}` nor for defaults",
              case="anthropic-arguments-before-two-starts", warning="arguments_lost", servers="relays"),
    Tolerance("arguments in a JSON string", "taken out; `ToolCall.normalizations` says so",
              case="chat-args-double-encoded", warning="double_encoded", servers="Qwen, vLLM"),
    Tolerance("arguments in a code fence, or after `json`", "taken out",
              case="chat-args-fenced", warning="fenced_arguments", servers="DeepSeek R1"),
    Tolerance("arguments after a byte order mark", "taken out",
              case="every-arguments-after-bom", warning="bom", servers="relays"),
    Tolerance("line breaks and tabs in the strings of arguments, not escaped", "parts of the strings",
              case="every-arguments-with-raw-breaks", warning="raw_line_break", servers="small models"),
)  # fmt: skip
"""How calls come, whatever the wire."""
