"""Lists every code of a `StreamWarning`: one table, a row for each situation, whatever the wire.

A code is for programs, its words are for people. The documentation, the tests, and programs that show words for a code
read `WARNINGS`; a stream does not load it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["WARNINGS", "Severity", "WarningFacts"]

Severity: TypeAlias = Literal["note", "guess", "loss", "fault"]
"""``note``: read as it was meant, nothing is missing. ``guess``: the peer contradicted itself or left something out,
and one reading was chosen. ``loss``: something was left out of the turn or its history. ``fault``: something of the
program's own, or of the way to the provider, went wrong; the stream is not affected."""


class WarningFacts(NamedTuple):
    """The meaning of a code."""

    severity: Severity
    words: str
    """The situation, in words for people."""


# One code for a situation, and not for a wire: a program that handles a code handles it on every wire.
WARNINGS: Mapping[str, WarningFacts] = {
    # -- the body --
    "data_after_done": WarningFacts("loss", "payloads arrived after the end of the response"),
    "json_array_stream": WarningFacts("note", "the payloads arrived as one JSON array"),
    "keepalive_data": WarningFacts("note", "an event had no data, or only a comment as its data"),
    "event_repeated": WarningFacts("note", "an event arrived twice, and was used once"),
    "unframed_object": WarningFacts("note", "a JSON object appeared between the events without a field name"),
    "lone_surrogate": WarningFacts("guess", "half of a surrogate pair arrived alone, and became U+FFFD"),
    "nested_too_deep": WarningFacts("loss", "a provider's extra field was nested too deeply to be sent back"),
    "wrapped_response": WarningFacts("note", "the response was wrapped in another object"),
    # -- the response and its end --
    "conflicting_finish_reason": WarningFacts("guess", "the response had two different finish reasons"),
    "duplicate_message_start": WarningFacts("note", "the response started twice"),
    "event_after_stop": WarningFacts("loss", "content arrived after the end of the message"),
    "extra_candidate": WarningFacts("loss", "there was more than one candidate; the first was read"),
    "extra_choice": WarningFacts("loss", "there was more than one choice; the first was read"),
    "finish_reason_normalized": WarningFacts("guess", "the finish reason did not mention the response's calls"),
    "finish_without_calls": WarningFacts("loss", "the finish reason announced calls, but there were none"),
    "inject_failed": WarningFacts("loss", "an injected input was refused, or arrived too late"),
    "masked_truncation": WarningFacts("guess", "the finish reason did not say that the response was cut"),
    "missing_done": WarningFacts("note", "the end marker after the finish reason was missing"),
    "missing_done_reason": WarningFacts("guess", "the response ended without a reason"),
    "numeric_finish_reason": WarningFacts("guess", "the finish reason was a number"),
    "other_response": WarningFacts("loss", "events of another response arrived"),
    "repeated_finish_reason": WarningFacts("note", "the finish reason was repeated"),
    "response_resumed": WarningFacts("note", "the response broke off, and its rest was requested"),
    "said_again": WarningFacts("guess", "a resumed response repeated its beginning, which was replaced"),
    "session_error": WarningFacts("loss", "an error concerned another part of the session"),
    "steer_failed": WarningFacts("loss", "a steering input was refused"),
    # -- blocks: what begins, grows and ends, be it called a block, an item, a step or a call --
    "delta_after_stop": WarningFacts("loss", "a piece arrived after the end of its block; arguments are dropped"),
    "arguments_lost": WarningFacts("loss", "arguments arrived when no call was open; calls that may lack them are cut"),
    "delta_without_block": WarningFacts("guess", "a piece arrived for a block that had not begun"),
    "done_overrides_delta": WarningFacts("guess", "the end of an item contradicted its deltas; the end was used"),
    "duplicate_block_stop": WarningFacts("note", "a block ended twice; the first end was used"),
    "duplicate_block_start": WarningFacts("note", "a block began twice"),
    "extra_signature": WarningFacts("loss", "a call had a second signature"),
    "inline_think": WarningFacts("guess", "the text began with reasoning between tags"),
    "interleaved_blocks": WarningFacts("guess", "one text interrupted another, whose signature is not sent back"),
    "item_id_rotated": WarningFacts("note", "an item had a different id in every event"),
    "item_without_added": WarningFacts("guess", "a complete item arrived without a start event"),
    "mismatched_delta": WarningFacts("guess", "a piece did not fit its block"),
    "missing_block_stop": WarningFacts("guess", "a block ended without its own marker"),
    "state_dropped": WarningFacts("loss", "a call's data for the next request exceeded the limit"),
    "stop_without_block": WarningFacts("note", "a block that had never begun ended"),
    "stray_marker": WarningFacts("loss", "the text contained a closing marker without an opening one"),
    "terminal_backfill": WarningFacts("guess", "the last event had new items, texts or arguments"),
    "text_differs": WarningFacts("guess", "the text at the end differed from the deltas; the end was used"),
    "text_resent": WarningFacts("guess", "the last chunk repeated the whole text, which is emitted once"),
    "unclosed_think": WarningFacts("guess", "a reasoning block in the text was never closed"),
    "unknown_block_type": WarningFacts("loss", "a block had an unknown type; it is sent back if it arrived complete"),
    "unknown_delta_type": WarningFacts("loss", "a piece had an unknown type; its block is not sent back"),
    "unknown_event": WarningFacts("loss", "an event had an unknown type"),
    # -- calls --
    "arguments_object": WarningFacts("note", "arguments were an object instead of text"),
    "arguments_text": WarningFacts("note", "arguments were text instead of an object"),
    "bom": WarningFacts("note", "arguments began with a byte order mark"),
    "call_in_content": WarningFacts("loss", "a call appeared where the wire has none"),
    "call_in_reasoning": WarningFacts("guess", "a call appeared inside a reasoning block"),
    "call_in_text": WarningFacts("note", "a call was sent both in the text and natively; it is one call"),
    "call_resent": WarningFacts("note", "a call was sent again with the same id and arguments; it is one call"),
    "call_taken_back": WarningFacts("guess", "a call was cancelled in the message that made it"),
    "call_without_name": WarningFacts("loss", "a call had neither a name nor arguments"),
    "double_encoded": WarningFacts("note", "arguments were wrapped in a JSON string"),
    "duplicate_id": WarningFacts("guess", "two calls had the same id"),
    "fenced_arguments": WarningFacts("note", "arguments were wrapped in a code fence"),
    "id_changed": WarningFacts("guess", "a call's id changed; the first one was used"),
    "id_replaced": WarningFacts("loss", "a call's id was too long or arrived too late, and was replaced"),
    "index_reused": WarningFacts("guess", "two calls had the same index"),
    "input_in_block_start": WarningFacts("note", "the start event of a block contained its arguments"),
    "missing_index": WarningFacts("guess", "a piece of a call had no index"),
    "name_normalized": WarningFacts("note", "a tool's name had a prefix or suffix"),
    "name_repeated": WarningFacts("note", "a tool's name was repeated"),
    "name_split": WarningFacts("note", "a tool's name arrived in pieces"),
    "no_payload": WarningFacts("loss", "the text began a call, but did not complete it"),
    "quoted_call": WarningFacts("guess", "a call in the text also appears in a tool result, and was not simply run"),
    "raw_line_break": WarningFacts("note", "a string in the arguments had a line break or tab that was not escaped"),
    # -- what runs here --
    "tools_changed": WarningFacts("note", "the list of tools changed within a run, which costs the provider's cache"),
    "call_not_compared": WarningFacts(
        "fault", "a call that was started early could not be compared with the framework's"
    ),
    "carry_unsent": WarningFacts("fault", "a request lacked a field that the provider requires besides the messages"),
    "capability_failed": WarningFacts("fault", "a rule or filter raised an exception"),
    "claim_not_abandoned": WarningFacts("fault", "the store could not record that a call's end is unknown"),
    "claim_not_released": WarningFacts("fault", "the store could not release a call's claim"),
    "late_result": WarningFacts("fault", "an abandoned tool has ended"),
    "loop_blocked": WarningFacts("fault", "an async tool blocked the event loop"),
    "observer_failed": WarningFacts("fault", "an observer raised an exception, and was dropped"),
    "on_event_failed": WarningFacts("fault", "a tap's callback raised an exception"),
    "progress_dropped": WarningFacts("fault", "the consumer was too slow for a tool's progress reports"),
    "already_decided": WarningFacts("note", "a decision arrived after an earlier one, which still applies"),
    "decision_not_kept": WarningFacts("fault", "the store failed to save or read a decision; the call waits"),
    "already_answered": WarningFacts("note", "an answer arrived after an earlier one, which still applies"),
    "answer_not_kept": WarningFacts("fault", "the store failed to save or read an answer; the call waits"),
    "result_not_stored": WarningFacts("fault", "a long result could not be written to its file, and stays in memory"),
    "result_not_kept": WarningFacts("fault", "the store could not keep a call's result"),
    "source_close_failed": WarningFacts("fault", "closing the source raised an exception"),
    "source_unresponsive": WarningFacts("fault", "closing the source took too long"),
    "stage_failed": WarningFacts("fault", "a stage raised while the stream was being closed"),
    "tap_failed": WarningFacts("fault", "a tap failed, but its client did not"),
    "tokens_uncounted": WarningFacts("fault", "a token budget is set, but the response has no token counts"),
    "tool_unresponsive": WarningFacts("fault", "a tool kept running after it was asked to stop"),
}
"""Every code, with its severity and its words."""
