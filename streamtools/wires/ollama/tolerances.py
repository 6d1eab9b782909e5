"""What Ollama's versions and imitations do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    Tolerance(
        seen="calls without ids",
        becomes="made up; name and id both go back with the result",
        servers="older Ollama",
        case="ollama-no-ids",
        source="ollama/ollama#6708",
    ),
    Tolerance(
        seen="several calls on one index, in one line, or in lines of their own",
        becomes="a call each: they come whole",
        servers="Ollama",
        case="ollama-same-index",
        source="ollama/ollama#15457",
    ),
    Tolerance(
        seen="two calls with one id",
        becomes="the second gets one of its own",
        servers="proxies",
        warning="duplicate_id",
        case="ollama-duplicate-id",
    ),
    Tolerance(
        seen="calls in the line that is done; an answer that was not streamed",
        becomes="understood",
        servers="Ollama",
        case="ollama-calls-in-last-line",
        source="ollama/ollama-python#667",
    ),
    Tolerance(
        seen="arguments null or absent",
        becomes="`{}`",
        servers="proxies",
        case="ollama-no-arguments",
    ),
    Tolerance(
        seen="arguments as text",
        becomes="understood",
        servers="proxies",
        warning="arguments_text",
        case="ollama-arguments-text",
    ),
    Tolerance(
        seen="`tool_calls` as one object",
        becomes="a call",
        servers="proxies",
        case="ollama-call-object",
    ),
    Tolerance(
        seen="integers beyond 64 bits in the arguments",
        becomes="exact",
        servers="any",
        case="ollama-large-integer",
    ),
    Tolerance(
        seen="`done` without `done_reason`",
        becomes="`stop`, or `tool_calls`",
        servers="older Ollama, imitations",
        warning="missing_done_reason",
        case="ollama-no-done-reason",
        source="ollama/ollama#4235",
    ),
    Tolerance(
        seen="`load`, `unload`",
        becomes="`other`: an answer without a word",
        servers="Ollama",
        case="ollama-load",
    ),
    Tolerance(
        seen="`response` in place of `message` (`/api/generate`)",
        becomes="text and reasoning",
        servers="Ollama",
        case="ollama-generate",
    ),
    Tolerance(
        seen="`<think>` in the content",
        becomes="stays text",
        servers="Ollama, where thinking was not asked for",
        case="ollama-inline-think",
    ),
    Tolerance(
        seen="lines of another kind",
        becomes="`UnknownPayload` events",
        servers="Ollama",
        warning="unknown_event",
        case="ollama-unknown-line",
    ),
    Tolerance(
        seen="lines that end in CRLF; no end after the last",
        becomes="nothing",
        servers="proxies",
        case="ollama-no-last-newline",
    ),
)
