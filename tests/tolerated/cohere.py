"""The deviations of Cohere, and of servers that stand in for it, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance("`[DONE]` without `message-end`", "truncated",
              case="cohere-done-without-end", servers="proxies"),
    Tolerance("no `[DONE]` after `message-end`", "complete",
              case="cohere-no-done", servers="proxies, v1"),
    Tolerance("`COMPLETE` although tools were called", "`tool_calls`",
              case="cohere-complete-with-tools", warning="finish_reason_normalized", servers="compatible servers"),
    Tolerance("`ERROR` or `TIMEOUT` as finish reason, with or without an `error`", "a `ProviderError`; nothing runs",
              case="cohere-error-finish", servers="Cohere, vLLM"),
    Tolerance("an error as nothing but a `message`", "a `ProviderError`",
              case="cohere-bare-error", servers="Cohere"),
    # the message
    Tolerance("no `event:` lines; keys in any order", "nothing: events are told by their `type`",
              case="cohere-unnamed-events", servers="vLLM, recorders"),
    Tolerance("the same `message-start` twice", "one; another message inside this one is a `protocol_error`",
              case="cohere-start-twice", warning="duplicate_message_start", servers="relays"),
    Tolerance("events of an unknown type", "an `UnknownPayload` event",
              case="cohere-unknown-event", warning="unknown_event"),
    # content
    Tolerance("text or thinking of a block that never started", "told",
              case="cohere-delta-without-start", warning="delta_without_block", servers="compatible servers"),
    Tolerance("content that is neither text nor thinking", "an `UnknownPayload` event",
              case="cohere-unknown-content", warning="unknown_block_type"),
    Tolerance("citations after their block, or in the midst of it",
              "a `ProviderItem` each, which splits no text; given back",
              case="cohere-citations", servers="Cohere"),
    # calls
    Tolerance('no arguments at all, `""` or `"null"`', "`{}`",
              case="cohere-no-arguments", servers="Cohere", source="vercel/ai, packages/cohere"),
    Tolerance("whole arguments in `tool-call-start`; `tool_calls` as a list of one", "a call",
              case="cohere-whole-call", servers="compatible servers"),
    Tolerance("`arguments` as an object", "understood, integers of any size exact",
              case="cohere-whole-call", warning="arguments_object", servers="compatible servers"),
    Tolerance("the start of a call twice", "one call",
              case="cohere-duplicate-call-start", warning="duplicate_block_start", servers="relays"),
    Tolerance("a call that never ends",
              "ended by `message-end`, or by the next call with its index, which truncates one without arguments",
              case="cohere-call-without-end", warning="missing_block_stop", servers="compatible servers"),
    Tolerance("arguments after their call's end", "not added",
              case="cohere-arguments-after-end", warning="delta_after_stop"),
    Tolerance("an end of a call that has ended", "nothing",
              case="cohere-arguments-after-end", warning="duplicate_block_stop"),
    Tolerance("arguments of a call that never started", "no call",
              case="cohere-arguments-without-start", warning="delta_without_block"),
    # v1
    Tolerance("v1, as JSON lines or as an event stream",
              "understood; `stop` with calls is `tool_calls`, since v1 has no word for it",
              case="cohere-v1-calls", servers="Cohere v1"),
    Tolerance("v1: calls that did not stream, or only in `stream-end`", "calls",
              case="cohere-v1-calls-at-the-end", servers="Cohere v1"),
    Tolerance("v1: a call that streamed and that neither list names", "truncated; it never runs",
              case="cohere-v1-call-not-listed", warning="missing_block_stop"),
    Tolerance("v1: other arguments at the end than those that streamed", "the end is right",
              case="cohere-v1-arguments-differ", warning="done_overrides_delta", servers="Cohere v1"),
    Tolerance("v1: text that only `stream-end` has", "told then",
              case="cohere-v1-text-at-the-end", servers="Cohere v1"),
    Tolerance("v1: another text in `stream-end` than the one that streamed",
              "the end is right, and replaces the text (`TextEnd.whole`)",
              case="cohere-v1-text-differs", warning="text_differs"),
)  # fmt: skip
