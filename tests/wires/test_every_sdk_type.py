"""Every type that the providers' SDKs know is read, or is listed on the page of its wire with the reason.

A new version of an SDK that brings a type fails here, so that nobody finds out from a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from anthropic.types import ContentBlock, RawContentBlockDelta, RawMessageStreamEvent
from anthropic.types.beta import BetaContentBlock, BetaRawContentBlockDelta, BetaRawMessageStreamEvent, BetaStopReason
from google.genai import types as genai
from google.genai._gaos.types import interactions
from google.genai._gaos.types.interactions import interactionsseevent, step, stepdeltadata
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta, ChoiceDeltaToolCall
from openai.types.realtime import ConversationItem, RealtimeServerEvent
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from profiles import every, mostly_thorough
from sansio import codes

from streamtools import StreamDecoder, Turn, parse
from streamtools.events import UnknownPayload

PAGE = (Path(__file__).parents[2] / "docs" / "providers" / "wires.md").read_text(encoding="utf-8")
CHAT, RESPONSES, REALTIME, ANTHROPIC, GEMINI, INTERACTIONS, LIVE = (
    "openai.chat_completions",
    "openai.responses",
    "openai.realtime",
    "anthropic.messages",
    "gemini.generate_content",
    "gemini.interactions",
    "gemini.live",
)

UNREAD = {
    "response.audio.delta",
    "response.audio.done",
    "response.audio.transcript.delta",
    "response.audio.transcript.done",
}
"""Types that are passed on as `UnknownPayload`."""


def members(kind: Any) -> Iterator[Any]:
    """The classes of a union, however it is wrapped."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        for each in get_args(kind):
            yield from members(each)
    else:
        yield kind


def types_of(*unions: Any) -> list[str]:
    kinds = {each for union in unions for each in members(union)}
    return sorted({word for kind in kinds for word in get_args(kind.model_fields["type"].annotation)})


# -- OpenAI ------------------------------------------------------------------------------------------------------------

ITEMS = types_of(ResponseOutputItem)


def responses(*payloads: dict[str, Any]) -> Turn:
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}
    return parse([created, *payloads], wire=RESPONSES)


@every("event", mostly_thorough(types_of(ResponseStreamEvent), 9))
def test_every_event_of_a_response_is_read_or_listed(event: str) -> None:
    topic = event.removeprefix("response.").partition(".")[0]
    items = [item for item in ITEMS if topic.startswith(item)] or ["reasoning" if "reasoning" in topic else "message"]
    item = {"id": "i", "type": max(items, key=len), "call_id": "c"}
    body = {"type": event, "item_id": "i", "output_index": 0, "delta": "x", "response": {"id": "r", "output": []}}
    turn = responses({"type": "response.output_item.added", "output_index": 0, "item": item}, body)
    assert ("unknown_event" in codes(turn)) is (event in UNREAD)
    assert event not in UNREAD or f"`{event}`" in PAGE


@every("item", mostly_thorough(sorted({*ITEMS} - {"mcp_approval_response"}), 4))
def test_every_item_of_a_response_is_read(item: str) -> None:
    """An approval is no output: the union has it because the API lists inputs by the same type."""
    body = {"id": "i", "type": item, "call_id": "c", "name": "f", "arguments": "{}"}
    turn = responses({"type": "response.output_item.done", "output_index": 0, "item": body})
    assert "unknown_block_type" not in codes(turn)


@every("event", mostly_thorough(types_of(RealtimeServerEvent), 9))
def test_every_event_of_a_session_is_read_or_passed_on(event: str) -> None:
    kinds = {"function_call_arguments": "function_call", "mcp_call_arguments": "mcp_call", "mcp_call": "mcp_call"}
    item = {"id": "i", "type": kinds.get(event.removeprefix("response.").partition(".")[0], "message"), "call_id": "c"}
    body = {"type": event, "item_id": "i", "output_index": 0, "delta": "x", "response": {"id": "r", "output": []}}
    created = {"type": "response.created", "response": {"id": "r", "output": []}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    assert "unknown_event" not in codes(parse([created, added, body], wire=REALTIME))


@every("item", types_of(ConversationItem))
def test_every_item_of_a_session_is_read(item: str) -> None:
    body = {"id": "i", "type": item, "call_id": "c", "name": "f", "arguments": "{}"}
    created = {"type": "response.created", "response": {"id": "r", "output": []}}
    turn = parse([created, {"type": "response.output_item.done", "output_index": 0, "item": body}], wire=REALTIME)
    assert "unknown_block_type" not in codes(turn)


def test_every_field_of_a_chunk_is_read() -> None:
    assert set(ChoiceDelta.model_fields) == {"audio", "content", "function_call", "refusal", "role", "tool_calls"}
    assert set(ChoiceDeltaToolCall.model_fields) == {"index", "id", "function", "type"}
    words = [word for each in get_args(Choice.model_fields["finish_reason"].annotation) for word in get_args(each)]
    for word in words:
        chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": word}]}
        turn = parse([chunk], wire=CHAT)
        assert turn.finish not in (None, "other"), word


# -- Anthropic ---------------------------------------------------------------------------------------------------------


def anthropic(*payloads: dict[str, Any]) -> Turn:
    message = {"id": "m", "role": "assistant", "content": [], "usage": {}}
    return parse([{"type": "message_start", "message": message}, *payloads], wire=ANTHROPIC)


@every("event", types_of(RawMessageStreamEvent, BetaRawMessageStreamEvent))
def test_every_event_of_a_message_is_read(event: str) -> None:
    assert "unknown_event" not in codes(anthropic({"type": event, "index": 0, "delta": {}, "content_block": {}}))


@every("block", mostly_thorough(types_of(ContentBlock, BetaContentBlock), 4))
def test_every_block_is_read(block: str) -> None:
    body = {"type": block, "id": "i", "name": "n"}
    start = {"type": "content_block_start", "index": 0, "content_block": body}
    assert "unknown_block_type" not in codes(anthropic(start, {"type": "content_block_stop", "index": 0}))


@every("delta", types_of(RawContentBlockDelta, BetaRawContentBlockDelta))
def test_every_delta_is_read(delta: str) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    body = {"type": "content_block_delta", "index": 0, "delta": {"type": delta}}
    assert not {"unknown_delta_type", "unknown_delta_type"} & set(codes(anthropic(start, body)))


@every("reason", get_args(BetaStopReason))
def test_every_reason_to_stop_has_a_finish(reason: str) -> None:
    turn = anthropic({"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"})
    assert turn.finish not in (None, "other")


def test_a_compaction_pauses_the_turn() -> None:
    turn = anthropic({"type": "message_delta", "delta": {"stop_reason": "compaction"}}, {"type": "message_stop"})
    assert turn.finish == "pause", "the turn goes back as it is, to be continued"


# -- Gemini ------------------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "text": "x",
    "thought": True,
    "thought_signature": "QUI=",
    "function_call": {"name": "f", "args": {}},
    "inline_data": {"mimeType": "image/png", "data": "QUI="},
}
ALONE = {
    "text", "function_call", "function_response", "inline_data", "file_data", "executable_code",
    "code_execution_result", "tool_call", "tool_response", "audio_transcription",
}  # fmt: skip
UNSAID = {"FINISH_REASON_UNSPECIFIED", "OTHER", "IMAGE_OTHER", "NO_IMAGE", "PUP_LIMITED_DISABLED"}
"""Reasons that say no more than `other`, or nothing."""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def gemini(part: dict[str, Any], reason: str = "STOP") -> Turn:
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": reason, "index": 0}
    return parse([{"candidates": [candidate]}], wire=GEMINI)


@every("field", mostly_thorough(genai.Part.model_fields, 4))
def test_every_field_of_a_part_is_read(field: str) -> None:
    part = {camel(field): VALUES.get(field, {"a": 1})}
    turn = gemini(part if field in ALONE else {"text": "x", **part})
    assert codes(turn) == []


@every("reason", mostly_thorough([reason.value for reason in genai.FinishReason], 4))
def test_every_finish_of_gemini_has_one_of_ours(reason: str) -> None:
    assert (gemini({"text": "x"}, reason).finish in (None, "other")) is (reason in UNSAID)


LIVE_VALUES: dict[str, Any] = {
    "model_turn": {"parts": [{"text": "x"}]},
    "interaction_status": "IDLE",
    "turn_complete_reason": "NEED_MORE_INPUT",
    "output_transcription": {"text": "x"},
}
NO_LIVE_FINISH = {"MAX_REGENERATION_REACHED"}
"""Reasons that say no more than `other`."""


def live(*messages: dict[str, Any], **end: Any) -> Turn:
    return parse([*messages, {"serverContent": {"turnComplete": True, **end}}], wire=LIVE)


@every("field", genai.LiveServerMessage.model_fields)
def test_every_message_of_a_live_session_is_read_or_passed_on(field: str) -> None:
    assert codes(live({camel(field): {"a": 1}})) == []


@every("field", mostly_thorough(genai.LiveServerContent.model_fields, 4))
def test_every_content_of_a_live_session_is_read_or_passed_on(field: str) -> None:
    flags = {"turn_complete", "interrupted", "generation_complete", "waiting_for_input"}
    value = LIVE_VALUES.get(field, True if field in flags else {"a": 1})
    assert codes(live({"serverContent": {camel(field): value}})) == []


@every("reason", mostly_thorough([reason.value for reason in genai.TurnCompleteReason], 3))
def test_every_reason_of_a_live_turn_has_a_finish(reason: str) -> None:
    assert (live(turnCompleteReason=reason).finish in (None, "other")) is (reason in NO_LIVE_FINISH)


@every("status", [status.value for status in genai.InteractionStatus])
def test_every_status_of_a_live_session_is_known(status: str) -> None:
    decoder = StreamDecoder(wire=LIVE)
    made = decoder.feed({"serverContent": {"interactionStatus": status}})
    assert not any(isinstance(event, UnknownPayload) for event in made)


# -- Gemini's Interactions ---------------------------------------------------------------------------------------------

DELTAS_OF = {
    "text": "model_output",
    "text_annotation_delta": "model_output",
    "thought_summary": "thought",
    "thought_signature": "thought",
    "arguments_delta": "function_call",
    **dict.fromkeys(("image", "audio", "video", "document"), "model_output"),
}
NO_FINISH = {"cancelled", "idle"}
"""Statuses that say no more than `other`."""


def interaction(*events: dict[str, Any], status: str = "completed") -> Turn:
    body = {"id": "v1_a", "status": "in_progress"}
    created = {"event_type": "interaction.created", "interaction": body}
    completed = {"event_type": "interaction.completed", "interaction": {**body, "status": status}}
    return parse([created, *events, completed], wire=INTERACTIONS)


@every("event", mostly_thorough(sorted(interactionsseevent._INTERACTION_SSE_EVENT_VARIANTS), 3))
def test_every_event_of_an_interaction_is_read(event: str) -> None:
    turn = interaction({"event_type": event, "index": 0, "step": {"type": "model_output"}, "delta": {"type": "text"}})
    assert "unknown_event" not in codes(turn)


@every("kind", mostly_thorough(sorted(step._STEP_VARIANTS), 3))
def test_every_step_is_read(kind: str) -> None:
    body = {"type": kind, "id": "k", "call_id": "k", "name": "f", "arguments": {}}
    start = {"event_type": "step.start", "index": 0, "step": body}
    assert "unknown_block_type" not in codes(interaction(start, {"event_type": "step.stop", "index": 0}))


@every("kind", mostly_thorough(sorted(stepdeltadata._STEP_DELTA_DATA_VARIANTS), 3))
def test_every_delta_of_a_step_is_read(kind: str) -> None:
    start = {"event_type": "step.start", "index": 0, "step": {"type": DELTAS_OF.get(kind, kind), "id": "k"}}
    turn = interaction(start, {"event_type": "step.delta", "index": 0, "delta": {"type": kind}})
    assert "unknown_delta_type" not in codes(turn)


def test_every_status_of_an_interaction_has_a_finish() -> None:
    words = get_args(get_args(interactions.InteractionSseEventInteractionStatus)[0])
    assert len(words) >= 9
    assert {word for word in words if interaction(status=word).finish in (None, "other")} == NO_FINISH & set(words)
