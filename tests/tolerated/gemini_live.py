"""The deviations of Live sessions, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    Tolerance("several fields in one message", "each is read, as if it came alone",
              case="live-many-in-one", servers="Gemini", source="types of google-genai 3.4.0"),
    Tolerance("a call taken back in its own message", "`truncated`: it does not run",
              case="live-taken-back-at-once", warning="call_taken_back", servers="Gemini, if interrupted"),
    Tolerance("a call in the model's content", "an `UnknownPayload`: only a `toolCall` asks for one",
              case="live-call-in-content", warning="call_in_content", servers="imitations"),
    Tolerance("the same call twice, with its id", "one call",
              case="live-call-twice", warning="call_resent", servers="relays"),
    Tolerance("a call with neither a name nor arguments", "an `UnknownPayload`",
              case="live-call-without-name", warning="call_without_name", servers="imitations"),
    Tolerance("`args` as text", "understood",
              case="live-args-text", warning="arguments_text", servers="relays"),
    Tolerance("no `turnComplete`", "a truncated stream",
              case="live-no-end", servers="a session that was closed"),
    Tolerance("`interrupted` without `generationComplete`", "`other`; what was said stays",
              case="live-interrupted", servers="Gemini, if interrupted", source="types of google-genai 3.4.0"),
    Tolerance("`interrupted` before anything was said", "nothing: it is about the response before",
              case="live-late-interrupted", servers="Gemini, if interrupted"),
    Tolerance("a transcript after `turnComplete`", "text of the response that has ended, never of the next",
              case="live-late-transcript", servers="Gemini", source="types of google-genai 3.4.0"),
    Tolerance("`turnComplete` while the session is `IN_PROGRESS`", "the response goes on",
              case="live-in-progress", servers="Gemini", source="live.py of google-genai 3.4.0"),
    Tolerance("names like `server_content`", "understood",
              case="live-snake-case", servers="google-genai's `model_dump()`"),
    Tolerance("messages about the session, the user or the sound", "`UnknownPayload` events",
              case="live-session-messages", servers="Gemini"),
    Tolerance("a message that says nothing known", "an `UnknownPayload` event",
              case="live-unknown-message", warning="unknown_event", servers="any, later"),
    Tolerance("a part of an unknown kind", "given back as it came",
              case="live-unknown-part", warning="unknown_block_type", servers="any, later"),
    Tolerance("an unknown reason for the end", "`other`",
              case="live-reason-unknown", servers="any, later"),
)  # fmt: skip
"""The rows of this wire's table."""
