"""The cases of Ollama's chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from streamtools import Turn

from . import chat_shapes
from .parts import NAME, alternating, calls_of_ours, each, new, one_by_one, value_of
from .record import Call, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES"]


def _say(response: Response) -> list[Payload]:
    messages: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in response.reasoning]
    messages += [{"content": piece} for piece in response.text]
    for call_id, name, arguments in response.calls:
        call = {"id": call_id, "function": {"name": name, "arguments": json.loads(arguments)}}
        messages.append({"content": "", "tool_calls": [call]})
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    payloads = [{**head, "message": {"role": "assistant", **message}, "done": False} for message in messages]
    if response.ends:
        end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        payloads.append({**head, **end, "prompt_eval_count": 1, "eval_count": 1})
    return payloads


def _line(**message: Any) -> Payload:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


def _said(text: str, calls: list[Call]) -> list[Message]:
    functions = [{"id": c.id, "function": {"name": c.name, "arguments": value_of(c.arguments)}} for c in calls]
    return [{"role": "assistant", "content": text, **({"tool_calls": functions} if calls else {})}]


def _flow(message: Message) -> Iterator[Spoken]:
    """Reads who speaks; a call or a result is known by its id, if it has one, and by its name."""
    if message["role"] == "tool":
        yield "result", [(message.get("tool_call_id") or None, message["tool_name"])]
    elif message["role"] == "assistant":
        calls = message.get("tool_calls") or []
        yield "model", [(call.get("id") or None, call["function"]["name"]) for call in calls]
    else:
        yield message["role"], []


def _check(turn: Turn, messages: list[Message]) -> None:
    message, *results = messages
    assert set(message) <= {"role", "content", "thinking", "tool_calls"}
    assert isinstance(message["content"], str)
    calls = message.get("tool_calls", [])
    assert len(calls) == calls_of_ours(turn)
    for call, result in zip(calls, results, strict=True):
        function = call["function"]
        assert set(call) == {"id", "function"}
        assert set(function) <= {"index", "name", "arguments"}
        assert NAME.fullmatch(function["name"])
        assert isinstance(function["arguments"], dict)
        assert isinstance(result["content"], str)
        said = {"role": "tool", "tool_name": function["name"], "tool_call_id": call["id"]}
        assert result == said | {"content": result["content"]}


CASES = WireCases(
    say=_say,
    told_by=rb'"done"\s*:',
    nothing={
        "empty text": lambda _: _line(),
        "empty thinking": lambda _: _line(thinking=""),
        "an unknown line": lambda n: {new(n): n},
        "unknown content": lambda n: _line(content=[n]),
    },
    blocks=lambda n: alternating(n, lambda: _line(thinking="x"), lambda: _line(content="y")),
    events_of_a_call=1,
    framings=("ndjson",),
    in_deltas=False,
    not_found_again={
        r":created_at=": "the time, which the client knows",
    },
    native=Native(
        user=chat_shapes.USER,
        said=_said,
        came=each(lambda c: {"role": "tool", "tool_name": c.name, "tool_call_id": c.id, "content": c.result}),
        system=chat_shapes.SYSTEM,
    ),
    flow=_flow,
    check=_check,
    is_answered=one_by_one,
    formats=(chat_shapes.FUNCTION,),
    request=lambda tool: {"tools": [tool]},
    takes_tool=chat_shapes.takes_function,
    provider="ollama",
    telemetry_knows=False,
)
