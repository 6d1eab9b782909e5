"""Connections that carry several responses: an event that nobody knows changes no turn, wherever it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from streamtools import Turn, pipeline, tool
from streamtools.errors import StreamError

pytestmark = pytest.mark.anyio

Payload = dict[str, Any]


@tool(effect="pure")
async def f(n: int) -> str:
    """Return n."""
    return f"got {n}"


class Connection:
    """A socket that has received some messages, and then closes."""

    def __init__(self, payloads: Iterable[Payload]) -> None:
        self._frames = [json.dumps(payload) for payload in payloads]

    async def recv(self) -> str:
        await anyio.lowlevel.checkpoint()
        if not self._frames:
            raise EOFError
        return self._frames.pop(0)


async def turns_of(payloads: Iterable[Payload]) -> list[Turn]:
    """Reads a connection to its end, a pipeline for each response."""
    connection, turns = Connection(payloads), list[Turn]()
    with anyio.fail_after(30):
        while True:
            events = pipeline(connection, tools=[f])
            try:
                async with events:
                    _ = [seen async for seen in events]
            except StreamError as error:
                if "no event" in str(error):  # between responses
                    return turns
            turns.append(events.turn)


def told(turns: Iterable[Turn]) -> list[Any]:
    """Returns all of the turns but what may be reported of an unknown event."""
    return [
        (turn.response_id, turn.text, turn.finish, turn.finish_raw, turn.complete, str(turn.error), turn.messages())
        for turn in turns
    ]


# -- a session of each wire --------------------------------------------------------------------------------------------


def _item(number: int, id_: str) -> Payload:
    arguments = {"type": "function_call", "call_id": f"call_{number}", "name": "f", "arguments": f'{{"n":{number}}}'}
    return {"id": id_, **arguments, "status": "completed"}


def _message(words: str, id_: str) -> Payload:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"id": id_, "type": "message", "role": "assistant", "status": "completed", "content": content}


def _response(number: int, last: str, kind: str, **more: Any) -> list[Payload]:
    """Returns a response with a text that streams, and a call."""
    id_, words = f"resp_{number}", f"Text {number}"
    text, call = _message(words, f"msg_{number}"), _item(number, f"fc_{number}")
    inside = {"response_id": id_, **more} if more else {}
    head = {"object": kind, "id": id_, "status": "in_progress", "output": []}
    at = {**inside, "output_index": 0, "content_index": 0, "item_id": text["id"]}
    return [
        {"type": "response.created", **more, "response": head},
        {"type": "response.output_item.added", **inside, "output_index": 0, "item": {**text, "content": []}},
        {"type": "response.output_text.delta", **at, "delta": words[:3]},
        {"type": "response.output_text.delta", **at, "delta": words[3:]},
        {"type": "response.output_text.done", **at, "text": words},
        {"type": "response.output_item.done", **inside, "output_index": 0, "item": text},
        {"type": "response.output_item.added", **inside, "output_index": 1, "item": {**call, "arguments": ""}},
        {"type": "response.output_item.done", **inside, "output_index": 1, "item": call},
        {"type": last, **more, "response": {**head, "status": "completed", "output": [text, call]}},
    ]


def _realtime() -> list[Payload]:
    script = [
        {"type": "session.created", "session": {"model": "m"}},
        *_response(1, "response.done", "realtime.response", event_id="e"),
        {"type": "input_audio_buffer.speech_started", "item_id": "item_9"},
        *_response(2, "response.done", "realtime.response", event_id="e"),
    ]
    return [{**payload, "event_id": f"event_{number}"} for number, payload in enumerate(script)]


def _responses() -> list[Payload]:
    script = [*_response(1, "response.completed", "response"), *_response(2, "response.completed", "response")]
    return [{**payload, "sequence_number": number} for number, payload in enumerate(script)]


def _content(**more: Any) -> Payload:
    return {"serverContent": more}


def _says(words: str) -> Payload:
    return _content(modelTurn={"parts": [{"text": words}]})


def _live() -> list[Payload]:
    call = {"id": "call-1", "name": "f", "args": {"n": 1}}
    sound = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "QUJD"}}
    return [
        {"setupComplete": {}},
        _says("Let me "),
        _says("see."),
        {"toolCall": {"functionCalls": [call]}},
        _says("It is 1."),
        _content(generationComplete=True),
        {**_content(turnComplete=True), "usageMetadata": {"promptTokenCount": 3, "responseTokenCount": 4}},
        _content(inputTranscription={"text": "And?"}),
        _content(modelTurn={"parts": [sound]}),
        _content(outputTranscription={"text": "That is "}),
        _content(outputTranscription={"text": "all."}),
        _content(turnComplete=True),
    ]


SESSIONS = {"openai.realtime": _realtime, "openai.responses": _responses, "gemini.live": _live}

NESTED = {"id": "x_1", "response": {"id": "resp_9"}, "item": {"id": "msg_9"}, "delta": "no", "list": [{"type": "text"}]}
UNKNOWN: list[Payload] = [
    {"type": "ping"},
    {"type": "keepalive", "event_id": "event_900"},
    {"type": "response.metadata", "metadata": {"a": "b"}, "sequence_number": 900},
    {"type": "response.brand_new", "event_id": "event_900"},
    {"type": "response.brand_new", "sequence_number": 900, "detail": NESTED},
    {"type": "brand.new", "event_id": "event_900", "detail": NESTED, "item": {"id": "msg_9"}},
    {"type": "warning", "warning": {"code": "slow", "message": "It takes its time", "detail": NESTED}},
]
UNKNOWN_TO_LIVE: list[Payload] = [
    {"brandNew": {}},
    {"brandNew": {"text": "no", "detail": NESTED}},
    {"event_id": "event_900", "brandNew": True},
    _content(brandNew={"text": "no"}),
    {**_content(), "brandNew": {"parts": [{"text": "no"}]}},
]


@pytest.mark.parametrize("wire", SESSIONS)
async def test_an_unknown_event_changes_no_turn_and_holds_none_up_wherever_it_comes(wire: str) -> None:
    session = SESSIONS[wire]()
    plain = await turns_of(session)
    assert [turn.complete for turn in plain] == [True] * (3 if wire == "gemini.live" else 2)
    assert all(turn.error is None and not turn.warnings for turn in plain)
    changed: list[Any] = []
    for unknown in UNKNOWN_TO_LIVE if wire == "gemini.live" else UNKNOWN:
        for place in range(len(session) + 1):
            turns = await turns_of([*session[:place], unknown, *session[place:]])
            if told(turns) != told(plain):
                changed.append((place, unknown, told(turns)))
    assert not changed, changed[:3]
