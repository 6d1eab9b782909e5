"""What Gemini's servers, and those that speak like them, do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # -- the envelope --
    Tolerance(
        seen="`[DONE]`",
        becomes="nothing: only a finish reason completes the response",
        servers="gateways",
        case="gemini-done-without-finish",
    ),
    Tolerance(
        seen="the response inside `response`",
        becomes="understood",
        servers="Code Assist, Antigravity",
        warning="wrapped_response",
        case="gemini-wrapped",
    ),
    Tolerance(
        seen="names like `finish_reason`",
        becomes="understood",
        servers="google-genai's `model_dump()`",
        case="gemini-snake-case",
        source="https://protobuf.dev/programming-guides/json",
    ),
    Tolerance(
        seen="null where nothing was set",
        becomes="nothing",
        servers="SDK objects, LiteLLM",
        case="gemini-null-fields",
    ),
    Tolerance(
        seen="other candidates than the first",
        becomes="left out",
        servers="Gemini, with `candidateCount`",
        warning="extra_candidate",
        case="gemini-two-candidates",
    ),
    Tolerance(
        seen="a payload that says nothing known",
        becomes="an `UnknownPayload` event",
        warning="unknown_event",
        case="gemini-unknown-payload",
    ),
    # -- parts --
    Tolerance(
        seen="a part of an unknown kind",
        becomes="given back as it came",
        warning="unknown_part_type",
        case="gemini-unknown-part",
    ),
    Tolerance(
        seen="a signature on an empty text",
        becomes="a part of its own",
        servers="Gemini 3",
        case="gemini-thought-parts",
        source="vercel/ai#18073",
    ),
    Tolerance(
        seen="`executableCode`, `toolCall` and their results",
        becomes="calls of kind `server`: reported, never run, given back",
        servers="Gemini",
        case="gemini-server-tools",
    ),
    # -- calls --
    Tolerance(
        seen="no `args`, or null",
        becomes="`{}`",
        servers="Gemini, Vertex",
        case="gemini-no-args",
        source="vercel/ai#14968",
    ),
    Tolerance(
        seen="`args` as text",
        becomes="understood",
        servers="relays",
        warning="arguments_text",
        case="gemini-args-text",
    ),
    Tolerance(
        seen="a call sent again, with its id",
        becomes="one call",
        servers="relays",
        warning="call_resent",
        case="gemini-id-resend",
        source="NousResearch/hermes-agent#111686",
    ),
    Tolerance(
        seen="one id for two different calls",
        becomes="two calls; the second goes back without an id",
        servers="relays",
        warning="duplicate_id",
        case="gemini-id-twice",
        source="watt-mind/coach#280",
    ),
    # -- calls in pieces --
    Tolerance(
        seen="no empty `functionCall` at the end of `partialArgs`",
        becomes="ended by the part without `willContinue`",
        servers="Vertex",
        case="gemini-partial-args-missing-terminal",
        source="vercel/ai#14358",
    ),
    Tolerance(
        seen="an empty `functionCall` after the end",
        becomes="nothing",
        servers="Vertex",
        case="gemini-terminator-after-end",
    ),
    Tolerance(
        seen="a named `functionCall` while another has not ended",
        becomes="another call; the first is truncated",
        servers="Vertex",
        case="gemini-partial-args-superseded",
    ),
    Tolerance(
        seen="`partialArgs` before any call",
        becomes="an `UnknownPayload` event: they are nobody's",
        servers="relays",
        warning="piece_without_call",
        case="gemini-piece-without-call",
    ),
    Tolerance(
        seen="a call's end while a string of it was to go on",
        becomes="truncated",
        servers="Vertex",
        case="gemini-partial-args-string-open",
    ),
    Tolerance(
        seen="a path into a value, past the end of a list, or to a place that is taken; `args` that say otherwise",
        becomes='a call that cannot run, `problem="bad_path"`',
        servers="hostile servers",
        case="gemini-partial-args-hole",
        source="vercel/ai#16040",
    ),
    Tolerance(
        seen="names like `__proto__` in a path",
        becomes="names",
        servers="hostile servers",
        case="gemini-partial-args-proto-path",
        source="vercel/ai#16040",
    ),
    Tolerance(
        seen="a second signature for one call",
        becomes="the first is kept",
        servers="Vertex",
        warning="extra_signature",
        case="gemini-signature-twice",
    ),
    # -- the end --
    Tolerance(
        seen="a finish reason on several payloads, or before the content",
        becomes="one",
        servers="Gemini, relays",
        warning="repeated_finish_reason",
        case="gemini-early-stop-chunks",
        source="Chevey339/kelivo#1003",
    ),
    Tolerance(
        seen="two different ones",
        becomes="the first, unless the second is bad news",
        servers="relays",
        warning="conflicting_finish_reason",
        case="gemini-finish-conflicting",
    ),
    Tolerance(
        seen="a call after the only finish reason",
        becomes="a truncated stream, unless `[DONE]` follows",
        servers="relays",
        case="gemini-call-after-finish",
    ),
    Tolerance(
        seen="a finish reason as a number",
        becomes="understood up to 4; `other` beyond, where Google's APIs differ",
        servers="Vertex' Python library",
        warning="numeric_finish_reason",
        case="gemini-finish-number",
    ),
    Tolerance(
        seen="`FUNCTION_CALL`",
        becomes="`tool_calls`",
        servers="aimock",
        case="gemini-finish-function-call",
    ),
    Tolerance(
        seen="an unknown finish reason",
        becomes="`other`; held calls do not start",
        case="gemini-finish-unknown",
    ),
    Tolerance(
        seen="thoughts inside `candidatesTokenCount`, as the total tells",
        becomes="not counted twice",
        servers="Gemma, older Gemini",
        case="gemini-thoughts-inside-count",
        source="BerriAI/litellm#10141",
    ),
)
"""The rows of this wire's table."""
