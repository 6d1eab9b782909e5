"""The deviations of Ollama's versions and imitations, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    Tolerance("calls without ids", "made up; name and id both go back with the result",
              case="ollama-no-ids", servers="older Ollama", source="ollama/ollama#6708"),
    Tolerance("several calls on one index, in one line, or in lines of their own", "a call each: they come whole",
              case="ollama-same-index", servers="Ollama", source="ollama/ollama#15457"),
    Tolerance("two calls with one id", "the second gets one of its own",
              case="ollama-duplicate-id", warning="duplicate_id", servers="proxies"),
    Tolerance("calls in the line that is done; an answer that was not streamed", "understood",
              case="ollama-calls-in-last-line", servers="Ollama", source="ollama/ollama-python#667"),
    Tolerance("arguments null or absent", "`{}`",
              case="ollama-no-arguments", servers="proxies"),
    Tolerance("arguments as text", "understood",
              case="ollama-arguments-text", warning="arguments_text", servers="proxies"),
    Tolerance("`tool_calls` as one object", "a call",
              case="ollama-call-object", servers="proxies"),
    Tolerance("integers beyond 64 bits in the arguments", "exact",
              case="ollama-large-integer", servers="any"),
    Tolerance("`done` without `done_reason`", "`stop`, or `tool_calls`",
              case="ollama-no-done-reason", warning="missing_done_reason", servers="older Ollama, imitations",
              source="ollama/ollama#4235"),
    Tolerance("`load`, `unload`", "`other`: an answer without a word",
              case="ollama-load", servers="Ollama"),
    Tolerance("`response` in place of `message` (`/api/generate`)", "text and reasoning",
              case="ollama-generate", servers="Ollama"),
    Tolerance("`<think>` in the content", "stays text",
              case="ollama-inline-think", servers="Ollama, where thinking was not asked for"),
    Tolerance("lines of another kind", "`UnknownPayload` events",
              case="ollama-unknown-line", warning="unknown_event", servers="Ollama"),
    Tolerance("lines that end in CRLF; no end after the last", "nothing",
              case="ollama-no-last-newline", servers="proxies"),
)  # fmt: skip
