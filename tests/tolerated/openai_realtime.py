"""The deviations of Realtime servers, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    Tolerance("the ends of items of a response that was interrupted, incomplete or cancelled",
              "its calls are `truncated`: only `completed` lets them run",
              case="realtime-cancelled", servers="OpenAI", source="types of openai 3.54.0"),
    Tolerance("`response.done` without a status", "as if it was not completed",
              case="realtime-no-status", servers="imitations"),
    Tolerance("an `error` while a response goes on", "an `UnknownPayload`: it is about something else that was sent",
              case="realtime-error-inside", warning="session_error", servers="OpenAI",
              source="pipecat-ai/pipecat#3960"),
    Tolerance("items that only the last event has", "taken from there",
              case="realtime-backfill", warning="terminal_backfill", servers="imitations"),
    Tolerance("an event twice, with the same `event_id`", "once",
              case="realtime-event-twice", warning="event_repeated", servers="relays"),
    Tolerance("`response.text.*`, `response.audio_transcript.*`, `response.audio.*`: the words of the beta",
              "as those that took their place",
              case="realtime-beta-words", servers="Azure Voice Live, xAI",
              source="types/beta/realtime of openai 3.54.0"),
    Tolerance("events of another response, out of band", "left out, its calls do not run",
              case="realtime-other-response", warning="other_response", servers="OpenAI"),
    Tolerance("`arguments` as an object", "its text",
              case="realtime-arguments-object", servers="imitations"),
    Tolerance("events of a new type", "passed on as `UnknownPayload`",
              case="realtime-new-event", warning="unknown_event", servers="any, later"),
)  # fmt: skip
