"""What Cohere, and servers that stand in for it, do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance(
        seen="`[DONE]` without `message-end`",
        becomes="truncated",
        servers="proxies",
        case="cohere-done-without-end",
    ),
    Tolerance(
        seen="no `[DONE]` after `message-end`",
        becomes="complete",
        servers="proxies, v1",
        case="cohere-no-done",
    ),
    Tolerance(
        seen="`COMPLETE` although tools were called",
        becomes="`tool_calls`",
        servers="compatible servers",
        warning="finish_reason_normalized",
        case="cohere-complete-with-tools",
    ),
    Tolerance(
        seen="`ERROR` or `TIMEOUT` as finish reason, with or without an `error`",
        becomes="a `ProviderError`; nothing runs",
        servers="Cohere, vLLM",
        case="cohere-error-finish",
    ),
    Tolerance(
        seen="an error as nothing but a `message`",
        becomes="a `ProviderError`",
        servers="Cohere",
        case="cohere-bare-error",
    ),
    # the message
    Tolerance(
        seen="no `event:` lines; keys in any order",
        becomes="nothing: events are told by their `type`",
        servers="vLLM, recorders",
        case="cohere-unnamed-events",
    ),
    Tolerance(
        seen="the same `message-start` twice",
        becomes="one; another message inside this one is a `protocol_error`",
        servers="relays",
        warning="duplicate_message_start",
        case="cohere-start-twice",
    ),
    Tolerance(
        seen="events of an unknown type",
        becomes="an `UnknownPayload` event",
        warning="unknown_event",
        case="cohere-unknown-event",
    ),
    # content
    Tolerance(
        seen="text or thinking of a block that never started",
        becomes="told",
        servers="compatible servers",
        warning="delta_without_block",
        case="cohere-delta-without-start",
    ),
    Tolerance(
        seen="an end of a block that never started",
        becomes="nothing",
        warning="end_without_block",
        case="cohere-delta-without-start",
    ),
    Tolerance(
        seen="content that is neither text nor thinking",
        becomes="an `UnknownPayload` event",
        warning="unknown_content",
        case="cohere-unknown-content",
    ),
    Tolerance(
        seen="citations after their block, or in the midst of it",
        becomes="a `ProviderItem` each, which splits no text; given back",
        servers="Cohere",
        case="cohere-citations",
    ),
    # calls
    Tolerance(
        seen='no arguments at all, `""` or `"null"`',
        becomes="`{}`",
        servers="Cohere",
        case="cohere-no-arguments",
        source="vercel/ai, packages/cohere",
    ),
    Tolerance(
        seen="whole arguments in `tool-call-start`; `tool_calls` as a list of one",
        becomes="a call",
        servers="compatible servers",
        case="cohere-whole-call",
    ),
    Tolerance(
        seen="`arguments` as an object",
        becomes="understood, integers of any size exact",
        servers="compatible servers",
        warning="arguments_object",
        case="cohere-whole-call",
    ),
    Tolerance(
        seen="the start of a call twice",
        becomes="one call",
        servers="relays",
        warning="duplicate_call_start",
        case="cohere-duplicate-call-start",
    ),
    Tolerance(
        seen="a call that never ends",
        becomes="ended by `message-end`, or by the next call with its index, which truncates one without arguments",
        servers="compatible servers",
        warning="missing_call_end",
        case="cohere-call-without-end",
    ),
    Tolerance(
        seen="arguments after their call's end",
        becomes="not added",
        warning="delta_after_end",
        case="cohere-arguments-after-end",
    ),
    Tolerance(
        seen="an end of a call that never started, or has ended",
        becomes="nothing",
        warning="end_without_call",
        case="cohere-arguments-after-end",
    ),
    Tolerance(
        seen="arguments of a call that never started",
        becomes="a call without a name, which cannot run",
        warning="delta_without_call",
        case="cohere-arguments-without-start",
    ),
    # v1
    Tolerance(
        seen="v1, as JSON lines or as an event stream",
        becomes="understood; `stop` with calls is `tool_calls`, since v1 has no word for it",
        servers="Cohere v1",
        case="cohere-v1-calls",
    ),
    Tolerance(
        seen="v1: calls that did not stream, or only in `stream-end`",
        becomes="calls",
        servers="Cohere v1",
        case="cohere-v1-calls-at-the-end",
    ),
    Tolerance(
        seen="v1: a call that streamed and that neither list names",
        becomes="truncated; it never runs",
        warning="missing_call_end",
        case="cohere-v1-call-not-listed",
    ),
    Tolerance(
        seen="v1: text that only `stream-end` has",
        becomes="told then",
        servers="Cohere v1",
        case="cohere-v1-text-at-the-end",
    ),
    Tolerance(
        seen="v1: another text in `stream-end` than the one that streamed",
        becomes="what streamed stays",
        warning="text_differs",
        case="cohere-v1-text-differs",
    ),
)
