"""The cases of OpenAI's Chat Completions."""

from __future__ import annotations

from typing import Any

from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter
from streams import chat_chunk

from streamtools import Turn

from . import chat_shapes
from .parts import NAME, alternating, calls_of_ours, each, strict_json
from .record import Format, Message, Native, WireCases

__all__ = ["CASES"]

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])


def _check(turn: Turn, messages: list[Message]) -> None:
    message, results = messages[0], messages[1:]
    calls = message.get("tool_calls", [])
    assert len(calls) == calls_of_ours(turn)
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in calls]
    assert all(result["role"] == "tool" and isinstance(result["content"], str) for result in results)
    for call in calls:
        name = call[call["type"]]["name"]
        assert NAME.fullmatch(name)
        if call["type"] == "function":
            assert isinstance(strict_json(call["function"]["arguments"]), dict)
    assert message["content"] != "" or calls or message.get("reasoning_content"), "empty only beside something"
    if isinstance(message["content"], list):  # typed thinking is Mistral's, and OpenAI's types do not know it
        message = message | {"content": None}
    _MESSAGES.validate_python([message, *results])


_CUSTOM = Format(
    name="openai.chat_completions.custom",
    call=lambda call_id, name, _, value: {"id": call_id, "type": "custom", "custom": {"name": name, "input": value}},
    tool=lambda said, _: {"type": "custom", "custom": dict(said)},
    raw=True,
)

CASES = WireCases(
    say=chat_shapes.say,
    told_by=chat_shapes.TOLD_BY,
    nothing=chat_shapes.NOTHING,
    blocks=lambda n: alternating(n, lambda: chat_chunk({"reasoning": "x"}), lambda: chat_chunk({"content": "y"})),
    events_of_a_call=None,
    refuses=True,
    not_found_again={
        r":(id|model)=": "the start has both; some servers make a new id for each chunk",
        r":error": "the first error ends the stream, and a second one is not read",
        r":x_groq\.id=": "the id of the request",
    },
    native=Native(
        user=chat_shapes.USER,
        said=chat_shapes.said,
        came=each(lambda c: {"role": "tool", "tool_call_id": c.id, "content": c.result}),
        system=chat_shapes.SYSTEM,
    ),
    flow=chat_shapes.flow,
    check=_check,
    takes=_MESSAGES.validate_python,
    formats=(chat_shapes.FUNCTION, _CUSTOM),
    request=chat_shapes.tools_with_choice,
    takes_tool=chat_shapes.takes_function,
    provider="openai",
)
