"""The cases of Mistral's chat, after its open validator (mistralai/mistral-common, ``validator.py``) and its types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from streams import chat_chunk

from streamtools import Turn

from . import chat_shapes
from .names import CHAT, MISTRAL
from .parts import NAME, each, one_by_one
from .record import Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES"]

_ID = re.compile(r"[a-zA-Z0-9]{9}")


def _say(response: Response) -> list[Payload]:
    payloads = chat_shapes.say(replace(response, reasoning=(), refusal=()))
    thoughts = [[{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}] for piece in response.reasoning]
    return [payloads[0], *(chat_chunk({"content": thought}) for thought in thoughts), *payloads[1:]]


def _objections(_: list[Message], spoken: list[Spoken]) -> Iterator[str]:
    """Objects to a user behind results, and to a system prompt behind an answer or results."""
    speakers = [who for who, _ in spoken]
    for before, after in pairwise(who for who in speakers if who != "system"):
        if (before, after) == ("result", "user"):
            yield "Unexpected role 'user' after role 'tool'"
    for before, after in pairwise(speakers):
        if after == "system" and before in ("model", "result"):
            yield f"Unexpected role 'system' after {before!r}"


def _check(turn: Turn, messages: list[Message]) -> None:
    """An assistant's message with content or calls, and one result for each call, in call order."""
    message, results = messages[0], messages[1:]
    assert message.keys() <= {"role", "content", "tool_calls"}, "a field that is not documented is refused"
    assert message["role"] == "assistant"
    calls = message.get("tool_calls", [])
    assert message["content"] or calls, "Assistant message must have either content or tool_calls, but not none."
    if isinstance(message["content"], list):
        own = turn.wire == MISTRAL
        assert all(own or chunk["type"] == "text" for chunk in message["content"])
        for chunk in message["content"]:
            assert chunk["type"] != "text" or chunk["text"]
            assert chunk["type"] != "thinking" or isinstance(chunk["thinking"], list)
    else:
        assert isinstance(message["content"], str)
    ours = [call for call in turn.calls if call.kind != "server"]
    for call, result, said in zip(
        calls, results, ours, strict=True
    ):  # "Not the same number of function calls and responses"
        assert call.keys() == {"id", "type", "function"}
        assert call["type"] == "function"
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert result == {
            "role": "tool",
            "tool_call_id": call["id"],
            "name": call["function"]["name"],
            "content": result["content"],
        }
        assert isinstance(result["content"], str)
        assert NAME.fullmatch(result["name"])
        if turn.wire != MISTRAL or said.call_id_synthesized:  # its own ids are its own business
            assert _ID.fullmatch(call["id"]), "must be a-z, A-Z, 0-9, with a length of 9"


CASES = WireCases(
    say=_say,
    told_by=chat_shapes.TOLD_BY,
    nothing=chat_shapes.NOTHING,
    blocks=lambda n: [chat_chunk({"content": [{"type": "reference", "reference_ids": [i]}]}) for i in range(n)],
    events_of_a_call=None,
    detected_as=CHAT,
    not_found_again={
        r":(id|model)=": "the start has both; some servers make a new id for each chunk",
        r":p=": "padding",
    },
    native=Native(
        user=chat_shapes.USER,
        said=chat_shapes.said,
        came=each(lambda c: {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result}),
        system=chat_shapes.SYSTEM,
    ),
    flow=chat_shapes.flow,
    objections=(_objections,),
    check=_check,
    is_answered=one_by_one,
    formats=(chat_shapes.FUNCTION,),
    request=chat_shapes.tools_with_choice,
    takes_tool=chat_shapes.takes_function,
    provider="mistral_ai",
)
