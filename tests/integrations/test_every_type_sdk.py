"""Every type that the SDKs of Mistral, Cohere and Ollama know is read, or is listed on the page of its wire with the
reason. `tests/wires/test_every_sdk_type.py` is the same for the SDKs that are installed with the development tools."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from cohere_streams import START, block, call, end
from mistral_streams import chunk
from pydantic import BaseModel

from streamtools import StreamDecoder, Turn, parse
from streamtools.events import UnknownPayload
from streamtools.exports import export_output

PAGE = (Path(__file__).parents[2] / "docs" / "providers" / "wires.md").read_text(encoding="utf-8")


def wanted(module: str) -> Any:
    """A module of an SDK; its test is skipped where the SDK is not installed."""
    package = module.partition(".")[0]
    pytest.importorskip(package, reason=f"THE {package} SDK IS NOT INSTALLED: nox -s integrations")
    return importlib.import_module(module)


def words(annotation: Any) -> list[str]:
    """The literals of an annotation, however they are wrapped."""
    if isinstance(annotation, str):
        return [annotation]
    return [word for inner in get_args(annotation) if not isinstance(inner, bytes) for word in words(inner)]


def members(union: Any) -> Iterator[Any]:
    """The classes of a union, without the one for what the SDK does not know."""
    if get_origin(union) is Annotated:
        union = get_args(union)[0]
    yield from (kind for kind in get_args(union) if not kind.__name__.startswith("Unknown"))


def types_of(union: Any, key: str = "type") -> list[str]:
    return sorted(kind.model_fields[key].default for kind in members(union))


def codes(turn: Turn) -> set[str]:
    return {warning.code for warning in turn.warnings} - {"missing_done_reason"}


# -- Mistral -----------------------------------------------------------------------------------------------------------

mistral = partial(parse, wire="mistral.chat")


def test_every_content_chunk_of_mistral_is_read() -> None:
    kinds = types_of(wanted("mistralai.client.models").ContentChunk)
    assert "thinking" in kinds
    for kind in kinds:
        turn = mistral([chunk({"content": [{"type": kind, kind: []}]}), chunk({"content": ""}, "stop")])
        assert (codes(turn), turn.error) == (set(), None), kind


DELTA: dict[str, Any] = {
    "role": "assistant", "content": "x", "tool_calls": [{"id": "D681PevKs", "function": {"name": "f"}}],
}  # fmt: skip
"""The fields of a delta that are read; any other is told."""


def test_every_field_of_a_chunk_of_mistral_is_read_or_told() -> None:
    models = wanted("mistralai.client.models")
    for name in models.DeltaMessage.model_fields:
        decoder = StreamDecoder(wire="mistral.chat")
        events = [*decoder.feed(chunk({name: DELTA.get(name, 3)})), *decoder.finish()]
        told = [event.raw for event in events if isinstance(event, UnknownPayload)]
        assert told == ([] if name in DELTA else [{name: 3}])
    assert set(models.ToolCall.model_fields) == {"function", "id", "type", "index"}
    assert set(models.CompletionChunk.model_fields) == {"id", "model", "choices", "object", "created", "usage"}


def test_every_finish_of_mistral_has_one_of_ours() -> None:
    models = wanted("mistralai.client.models")
    reasons = words(models.CompletionResponseStreamChoice.model_fields["finish_reason"].annotation)
    assert "tool_calls" in reasons
    for reason in reasons:
        assert mistral([chunk({"content": "x"}, reason)]).finish not in (None, "other"), reason


def test_the_events_of_conversations_are_listed() -> None:
    kinds = types_of(wanted("mistralai.client.models.conversationevents").ConversationEventsData)
    assert [kind for kind in kinds if f"`{kind}`" not in PAGE] == []


# -- Cohere ------------------------------------------------------------------------------------------------------------

cohere = partial(parse, wire="cohere.chat")


def test_every_event_of_cohere_is_read() -> None:
    kinds = types_of(wanted("cohere.v2.types.v2chat_stream_response").V2ChatStreamResponse)
    assert "message-start" in kinds
    unread = {kind for kind in [*kinds, "new"] if "unknown_event" in codes(cohere([START, {"type": kind}, end()]))}
    assert unread == {"new"}


def test_every_content_of_cohere_is_read() -> None:
    contents = words(wanted("cohere.types").ChatContentStartEventDeltaMessageContentType)
    assert "thinking" in contents
    for kind in contents:
        assert codes(cohere([START, *block(0, "x", kind=kind), end()])) == set(), kind
    whole = [START, *call(0, "c", "f", "{}"), end("TOOL_CALL")]
    assert codes(cohere(whole)) == set()


def test_every_finish_of_cohere_has_one_of_ours_or_is_an_error() -> None:
    reasons = words(wanted("cohere.types").ChatFinishReason)
    assert "TOOL_CALL" in reasons
    for reason in reasons:
        turn = cohere([START, *block(0, "x"), end(reason)])
        assert turn.finish not in (None, "other") or turn.error is not None, reason


def test_every_event_of_coheres_first_api_is_read() -> None:
    types = wanted("cohere.types")
    kinds = types_of(types.StreamedChatResponse, "event_type")
    assert "stream-end" in kinds
    first, last = {"event_type": "stream-start"}, {"event_type": "stream-end", "finish_reason": "COMPLETE"}
    turns = {kind: cohere([first, {"event_type": kind}, last]) for kind in [*kinds, "new"]}
    assert [kind for kind, turn in turns.items() if "unknown_event" in codes(turn)] == ["new"]
    for reason in words(types.FinishReason):
        turn = cohere([first, {**last, "finish_reason": reason}])
        assert (turn.finish == "other") is (reason == "USER_CANCEL"), "which only this client can have done"


# -- Ollama ------------------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "role": "assistant", "content": "x", "thinking": "x", "images": ["QUI="], "tool_name": "f",
    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}],
}  # fmt: skip
NUMBERS = {"prompt_eval_count": 1, "eval_count": 1, "done": True, "done_reason": "stop", "model": "m"}


def test_every_field_of_an_answer_of_ollama_is_read_or_told() -> None:
    types = wanted("ollama")
    assert set(types.Message.model_fields) == VALUES.keys()
    for name, value in VALUES.items():
        turn = parse([{"message": {name: value}}, {"message": {}, **NUMBERS}], wire="ollama.chat")
        assert (codes(turn), turn.error) == (set(), None), name
    assert set(types.ChatResponse.model_fields) == {
        "model", "created_at", "done", "done_reason", "total_duration", "load_duration", "prompt_eval_count",
        "prompt_eval_duration", "eval_count", "eval_duration", "message", "logprobs",
    }  # fmt: skip


# -- an answer by a schema ---------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int = 0


def test_the_sdks_take_the_request_for_an_answer_by_a_schema() -> None:
    said = export_output(City, "mistral.chat").request["response_format"]
    known = wanted("mistralai.client.models").ResponseFormat.model_validate(said)
    assert known.model_dump(by_alias=True) == said
    said = export_output(City, "cohere.chat").request["response_format"]
    known = wanted("cohere.types").JsonObjectResponseFormatV2.model_validate(said)
    assert (known.type, known.json_schema) == ("json_object", said["json_schema"])
    said = export_output(City, "ollama.chat").request
    assert wanted("ollama._types").ChatRequest(model="m", **said).format == said["format"]
