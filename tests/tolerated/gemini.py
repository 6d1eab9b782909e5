"""The deviations of Gemini's servers, and of those that speak like them, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # -- the envelope --
    Tolerance("`[DONE]`", "nothing: only a finish reason completes the response",
              case="gemini-done-without-finish", servers="gateways"),
    Tolerance("the response inside `response`", "understood",
              case="gemini-wrapped", warning="wrapped_response", servers="Code Assist, Antigravity"),
    Tolerance("names like `finish_reason`", "understood",
              case="gemini-snake-case", servers="google-genai's `model_dump()`",
              source="https://protobuf.dev/programming-guides/json"),
    Tolerance("null where nothing was set", "nothing",
              case="gemini-null-fields", servers="SDK objects, LiteLLM"),
    Tolerance("other candidates than the first", "left out",
              case="gemini-two-candidates", warning="extra_candidate", servers="Gemini, with `candidateCount`"),
    Tolerance("a payload that says nothing known", "an `UnknownPayload` event",
              case="gemini-unknown-payload", warning="unknown_event"),
    # -- parts --
    Tolerance("a part of an unknown kind", "given back as it came",
              case="gemini-unknown-part", warning="unknown_block_type"),
    Tolerance("a signature on an empty text", "a part of its own",
              case="gemini-thought-parts", servers="Gemini 3", source="vercel/ai#18073"),
    Tolerance("`executableCode`, `toolCall` and their results",
              "calls of kind `server`: reported, never run, given back",
              case="gemini-server-tools", servers="Gemini"),
    # -- calls --
    Tolerance("no `args`, or null", "`{}`",
              case="gemini-no-args", servers="Gemini, Vertex", source="vercel/ai#14968"),
    Tolerance("`args` as text", "understood",
              case="gemini-args-text", warning="arguments_text", servers="relays"),
    Tolerance("a call sent again, with its id", "one call",
              case="gemini-id-resend", warning="call_resent", servers="relays",
              source="NousResearch/hermes-agent#111686"),
    Tolerance("one id for two different calls", "two calls; the second goes back without an id",
              case="gemini-id-twice", warning="duplicate_id", servers="relays", source="watt-mind/coach#280"),
    # -- calls in pieces --
    Tolerance("no empty `functionCall` at the end of `partialArgs`", "ended by the part without `willContinue`",
              case="gemini-partial-args-missing-terminal", servers="Vertex", source="vercel/ai#14358"),
    Tolerance("an empty `functionCall` after the end", "nothing",
              case="gemini-terminator-after-end", servers="Vertex"),
    Tolerance("a named `functionCall` while another has not ended", "another call; the first is truncated",
              case="gemini-partial-args-superseded", servers="Vertex"),
    Tolerance("`partialArgs` before any call", "an `UnknownPayload` event: they are nobody's",
              case="gemini-piece-without-call", warning="delta_without_block", servers="relays"),
    Tolerance("a call's end while a string of it was to go on", "truncated",
              case="gemini-partial-args-string-open", servers="Vertex"),
    Tolerance("a path into a value, past the end of a list, or to a place that is taken; `args` that say otherwise",
              'a call that cannot run, `problem="bad_path"`',
              case="gemini-partial-args-hole", servers="hostile servers", source="vercel/ai#16040"),
    Tolerance("names like `__proto__` in a path", "names",
              case="gemini-partial-args-proto-path", servers="hostile servers", source="vercel/ai#16040"),
    Tolerance("a second signature for one call", "the first is kept",
              case="gemini-signature-twice", warning="extra_signature", servers="Vertex"),
    # -- the end --
    Tolerance("a finish reason on several payloads, or before the content", "one",
              case="gemini-early-stop-chunks", warning="repeated_finish_reason", servers="Gemini, relays",
              source="Chevey339/kelivo#1003"),
    Tolerance("two different ones", "the first, unless the second is bad news",
              case="gemini-finish-conflicting", warning="conflicting_finish_reason", servers="relays"),
    Tolerance("a call after the only finish reason", "a truncated stream, unless `[DONE]` follows",
              case="gemini-call-after-finish", servers="relays"),
    Tolerance("a finish reason as a number", "understood up to 4; `other` beyond, where Google's APIs differ",
              case="gemini-finish-number", warning="numeric_finish_reason", servers="Vertex' Python library"),
    Tolerance("`FUNCTION_CALL`", "`tool_calls`",
              case="gemini-finish-function-call", servers="aimock"),
    Tolerance("an unknown finish reason", "`other`; held calls do not start",
              case="gemini-finish-unknown"),
    Tolerance("thoughts inside `candidatesTokenCount`, as the total tells", "not counted twice",
              case="gemini-thoughts-inside-count", servers="Gemma, older Gemini", source="BerriAI/litellm#10141"),
)  # fmt: skip
"""The rows of this wire's table."""
