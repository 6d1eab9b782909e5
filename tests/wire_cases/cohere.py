"""The cases of Cohere's chat, after the types of cohere-ai/cohere-python and the errors that people met."""

from __future__ import annotations

import json

import cohere_streams

from streamtools import Turn

from . import chat_shapes
from .names import COHERE
from .parts import NAME, calls_of_ours, cut, each
from .record import Call, Message, Native, Payload, Response, WireCases

__all__ = ["CASES"]


def _say(response: Response) -> list[Payload]:
    payloads: list[Payload] = [{**cohere_streams.START, "id": "c-1"}]
    told = [(kind, given) for kind, given in (("thinking", response.reasoning), ("text", response.text)) if given]
    for index, (kind, given) in enumerate(told):
        payloads += cohere_streams.block(index, *given, kind=kind)
    for number, (call_id, name, arguments) in enumerate(response.calls):
        payloads += cohere_streams.call(number, call_id, name, *cut(arguments, response.pieces))
    if response.ends:
        usage = {"tokens": {"input_tokens": 1, "output_tokens": 1}}
        reason = "TOOL_CALL" if response.calls else "COMPLETE"
        payloads.append({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
    return payloads


def _said(text: str, calls: list[Call]) -> list[Message]:
    if not calls:
        return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
    plan = {"tool_plan": text} if text else {}
    return [{"role": "assistant", **plan, "tool_calls": [chat_shapes.function(call) for call in calls]}]


def _check(turn: Turn, messages: list[Message]) -> None:
    """v2's messages; v1's where the turn came over v1."""
    if messages[0]["role"] == "CHATBOT":
        assert turn.wire == COHERE
        _check_v1(turn, messages)
        return
    message, results = messages[0], messages[1:]
    assert message.keys() <= {"role", "content", "tool_plan", "tool_calls", "citations"}
    assert message["role"] == "assistant"
    content, calls = message.get("content", []), message.get("tool_calls", [])
    assert any(block["type"] == "text" for block in content) or calls
    for block in content:
        assert block.keys() == {"type", block["type"]}
        assert block["type"] in ("text", "thinking")
        assert block["type"] == "thinking" or block["text"].strip()
        assert not (calls and block["type"] == "text"), "text content is not allowed when tool_calls are provided"
    assert message.get("tool_plan") != ""
    assert calls or "tool_plan" not in message
    assert all(isinstance(citation, dict) for citation in message.get("citations", []))
    assert len(calls) == calls_of_ours(turn)
    for call, result in zip(calls, results, strict=True):
        assert call.keys() >= {"id", "type", "function"}
        assert call["type"] == "function"
        assert NAME.fullmatch(call["function"]["name"])
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert result.keys() == {"role", "tool_call_id", "content"}
        assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
        assert isinstance(result["content"], str)


def _check_v1(turn: Turn, messages: list[Message]) -> None:
    message, *rest = messages
    assert message.keys() <= {"role", "message", "tool_calls"}
    calls = message.get("tool_calls", [])
    assert isinstance(message["message"], str)
    assert message["message"] or calls, "all elements in history must have a message"
    assert len(calls) == calls_of_ours(turn)
    for call in calls:
        assert call.keys() == {"name", "parameters"}
        assert NAME.fullmatch(call["name"])
        assert isinstance(call["parameters"], dict)
    if not calls:
        assert rest == []
        return
    [results] = rest
    assert results.keys() == {"role", "tool_results"}
    assert results["role"] == "TOOL"
    assert [result["call"] for result in results["tool_results"]] == calls
    for result in results["tool_results"]:
        assert all(isinstance(output, dict) for output in result["outputs"])


def _is_answered(messages: list[Message], count: int) -> bool:
    """Returns whether there are so many results, in either version: v1 has all of a turn in one message."""
    results = [message for message in messages[1:] if message["role"].lower() == "tool"]
    return len([answer for result in results for answer in result.get("tool_results", [result])]) == count


CASES = WireCases(
    say=_say,
    told_by=rb'"type"\s*:\s*"(message-(start|end)|content-(start|delta)|tool-call-start)"|"event_type"\s*:',
    nothing={
        "a prompt": lambda n: {"type": "debug", "prompt": f"p{n}"},
        "an unknown event": lambda n: {"type": f"new{n}"},
        "the end of no block": lambda n: {"type": "content-end", "index": n + 9},
        "an empty plan": lambda _: {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": ""}}},
    },
    blocks=lambda n: [event for index in range(n) for event in cohere_streams.block(index)],
    events_of_a_call=5,
    not_found_again={
        r"stream-end:response\.(generation|response)_id=": "the start has the one, and no request takes the other",
        r"stream-end:response\.tool_calls\[\](\.parameters)?": "the calls were told before, with all that they have",
        r"tool-calls-generation:text=": "the plan again, which was told in pieces",
    },
    native=Native(
        user=chat_shapes.USER,
        said=_said,
        came=each(lambda c: {"role": "tool", "tool_call_id": c.id, "content": c.result}),
        system=chat_shapes.SYSTEM,
    ),
    flow=chat_shapes.flow,
    model_roles=("assistant", "CHATBOT"),
    check=_check,
    is_answered=_is_answered,
    pictures_in_results=False,
    text_beside_calls=False,
    formats=(chat_shapes.FUNCTION,),
    request=lambda tool: {"tools": [tool]},
    takes_tool=chat_shapes.takes_function,
    provider="cohere",
)
