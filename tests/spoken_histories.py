"""Histories in each provider's own shape, written by hand, and what a provider looks at in them.

Nothing here uses the library's way of reading or writing messages, so that what it makes is judged by somebody else:
`flow` says who speaks and who answers whom, `refusals` what a provider would object to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES

__all__ = ["NATIVE", "Call", "Native", "flow", "refusals"]

Message = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call, and what it comes to."""

    id: str
    name: str = "look"
    arguments: str = '{"at": 1}'
    result: str = "seen"


@dataclass(frozen=True)
class Native:
    """How a provider's messages are written."""

    user: Callable[[str], Message]
    said: Callable[[str, list[Call]], list[Message]]
    came: Callable[[list[Call]], list[Message]]
    system: Callable[[str], Message] | None = None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _function(call: Call) -> Message:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _chat_said(text: str, calls: list[Call]) -> list[Message]:
    message: Message = {"role": "assistant", "content": text or None}
    return [message | ({"tool_calls": [_function(call) for call in calls]} if calls else {})]


def _cohere_said(text: str, calls: list[Call]) -> list[Message]:
    if not calls:
        return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
    plan = {"tool_plan": text} if text else {}
    return [{"role": "assistant", **plan, "tool_calls": [_function(call) for call in calls]}]


def _ollama_said(text: str, calls: list[Call]) -> list[Message]:
    functions = [{"id": c.id, "function": {"name": c.name, "arguments": _value(c.arguments)}} for c in calls]
    return [{"role": "assistant", "content": text, **({"tool_calls": functions} if calls else {})}]


def _anthropic_said(text: str, calls: list[Call]) -> list[Message]:
    uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": _value(c.arguments)} for c in calls]
    return [{"role": "assistant", "content": [*([{"type": "text", "text": text}] if text else []), *uses]}]


def _bedrock_said(text: str, calls: list[Call]) -> list[Message]:
    uses = [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": _value(c.arguments)}} for c in calls]
    return [{"role": "assistant", "content": [*([{"text": text}] if text else []), *uses]}]


def _gemini_said(text: str, calls: list[Call]) -> list[Message]:
    parts: list[Message] = [{"functionCall": {"id": c.id, "name": c.name, "args": _value(c.arguments)}} for c in calls]
    if parts:
        parts[0]["thoughtSignature"] = "c2lnbmVk"
    return [{"role": "model", "parts": [*([{"text": text}] if text else []), *parts]}]


def _responses_said(text: str, calls: list[Call]) -> list[Message]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    items = [{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments} for c in calls]
    return [*([message] if text else []), *items]


def _one_message(write: Callable[[Call], Message], field: str = "content") -> Callable[[list[Call]], list[Message]]:
    return lambda calls: [{"role": "user", field: [write(call) for call in calls]}] if calls else []


def _each(write: Callable[[Call], Message]) -> Callable[[list[Call]], list[Message]]:
    return lambda calls: [write(call) for call in calls]


def _plain(role: str) -> Callable[[str], Message]:
    return lambda text: {"role": role, "content": text}


NATIVE: dict[str, Native] = {
    CHAT: Native(
        _plain("user"),
        _chat_said,
        _each(lambda c: {"role": "tool", "tool_call_id": c.id, "content": c.result}),
        _plain("system"),
    ),
    MISTRAL: Native(
        _plain("user"),
        _chat_said,
        _each(lambda c: {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result}),
        _plain("system"),
    ),
    COHERE: Native(
        _plain("user"),
        _cohere_said,
        _each(lambda c: {"role": "tool", "tool_call_id": c.id, "content": c.result}),
        _plain("system"),
    ),
    OLLAMA: Native(
        _plain("user"),
        _ollama_said,
        _each(lambda c: {"role": "tool", "tool_name": c.name, "tool_call_id": c.id, "content": c.result}),
        _plain("system"),
    ),
    ANTHROPIC: Native(
        _plain("user"),
        _anthropic_said,
        _one_message(lambda c: {"type": "tool_result", "tool_use_id": c.id, "content": c.result}),
    ),
    BEDROCK: Native(
        lambda text: {"role": "user", "content": [{"text": text}]},
        _bedrock_said,
        _one_message(lambda c: {"toolResult": {"toolUseId": c.id, "content": [{"text": c.result}]}}),
    ),
    GEMINI: Native(
        lambda text: {"role": "user", "parts": [{"text": text}]},
        _gemini_said,
        _one_message(
            lambda c: {"functionResponse": {"id": c.id, "name": c.name, "response": {"output": c.result}}}, "parts"
        ),
    ),
    RESPONSES: Native(
        _plain("user"),
        _responses_said,
        _each(lambda c: {"type": "function_call_output", "call_id": c.id, "output": c.result}),
        _plain("system"),
    ),
}

# -- what a provider looks at ------------------------------------------------------------------------------------------

Spoken = tuple[str, list[Any]]
"""Who, and the ids of the calls or results that the message holds: ``("model", ["a"])``, ``("result", ["a"])``."""


_ANSWER = ("model", "result")


def flow(wire: str, messages: list[Message]) -> list[Spoken]:
    """Who speaks in each message. Results of one turn are one, however many messages they stand in."""
    found: list[Spoken] = []
    for message in messages:
        for who, ids in _FLOWS.get(wire, _chat_flow)(message):
            one = ("result", "model") if wire == RESPONSES else ("result",)
            if found and found[-1][0] == who and who in one:
                found[-1][1].extend(ids)
            else:
                found.append((who, ids))
    return found


def refusals(wire: str, messages: list[Message]) -> list[str]:
    """What is wrong with the order of a history: calls without their results behind them, or results without calls."""
    wrong: list[str] = []
    spoken = [one for one in flow(wire, messages) if one[0] != "system"]
    for at, (who, ids) in enumerate(spoken):
        before = spoken[at - 1] if at else ("nobody", [])
        after = spoken[at + 1] if at + 1 < len(spoken) else ("nobody", [])
        if who == "model" and ids and not (after[0] == "result" and _answers(after[1], ids)):
            wrong.append(f"calls {ids} are followed by {after}")
        if who == "result" and not (before[0] == "model" and _answers(ids, before[1])):
            wrong.append(f"results {ids} follow {before}")
        if wire == MISTRAL and who == "result" and after[0] == "user":
            wrong.append("Unexpected role 'user' after role 'tool'")
    if wire == MISTRAL:
        speakers = [who for who, _ in flow(wire, messages)]
        wrong += [
            f"Unexpected role 'system' after {a!r}" for a, b in pairwise(speakers) if b == "system" and a in _ANSWER
        ]
    calls = [id_ for who, ids in spoken if who == "model" for id_ in ids]
    named = [id_ for id_ in calls if not (isinstance(id_, tuple) and id_[0] is None)]
    if len(set(named)) < len(named):
        wrong.append("an id is used twice")
    if wire in (ANTHROPIC, BEDROCK, GEMINI) and spoken and spoken[0][0] != "user":
        wrong.append(f"{spoken[0][0]} speaks first")
    roles = [message.get("role") for message in messages]
    if wire == BEDROCK and any(a == b for a, b in pairwise(roles)):
        wrong.append("two messages of one role")
    return wrong


def _answers(results: list[Any], calls: list[Any]) -> bool:
    """Whether these results are those of these calls. One without an id, where that may be, answers by its name."""
    nameless = [isinstance(result, tuple) and result[0] is None for result in results]
    return len(results) == len(calls) and all(
        result[1] == call[1] if by_name else result == call
        for result, call, by_name in zip(results, calls, nameless, strict=True)
    )


def _chat_flow(message: Message) -> Iterator[Spoken]:
    role = message["role"]
    if role == "assistant":
        yield "model", [call["id"] for call in message.get("tool_calls") or []]
    elif role == "tool":
        yield "result", [message["tool_call_id"]]
    else:
        yield ("system" if role == "developer" else role), []


def _ollama_flow(message: Message) -> Iterator[Spoken]:
    if message["role"] == "tool":
        yield "result", [(message.get("tool_call_id") or None, message["tool_name"])]
    elif message["role"] == "assistant":
        calls = message.get("tool_calls") or []
        yield "model", [(call.get("id") or None, call["function"]["name"]) for call in calls]
    else:
        yield message["role"], []


def _anthropic_flow(message: Message) -> Iterator[Spoken]:
    content = message["content"]
    blocks = [{"type": "text"}] if isinstance(content, str) else content
    if message["role"] == "assistant":
        yield "model", [block["id"] for block in blocks if block["type"] == "tool_use"]
        return
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results stand first"
    if results:
        yield "result", results
    if len(results) < len(blocks):
        yield message["role"], []


def _bedrock_flow(message: Message) -> Iterator[Spoken]:
    blocks = message["content"]
    if message["role"] == "assistant":
        yield "model", [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        return
    results = [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
    if results:
        yield "result", results
    if len(results) < len(blocks):
        yield "user", []


def _gemini_flow(message: Message) -> Iterator[Spoken]:
    parts = message["parts"]
    if message["role"] == "model":
        yield "model", [_gemini_id(part["functionCall"]) for part in parts if "functionCall" in part]
        return
    results = [_gemini_id(part["functionResponse"]) for part in parts if "functionResponse" in part]
    assert len(results) in (0, len(parts)), "a response stands with nothing else"
    yield ("result", results) if results else ("user", [])


def _gemini_id(body: Message) -> tuple[Any, str]:
    return body.get("id") or None, body["name"]


def _responses_flow(item: Message) -> Iterator[Spoken]:
    kind = item.get("type", "message")
    if kind == "function_call":
        yield "model", [item["call_id"]]
    elif kind == "function_call_output":
        yield "result", [item["call_id"]]
    elif kind == "message" and item["role"] != "assistant":
        yield ("system" if item["role"] == "developer" else item["role"]), []
    else:
        yield "model", []


_FLOWS: dict[str, Callable[[Message], Iterator[Spoken]]] = {
    OLLAMA: _ollama_flow,
    ANTHROPIC: _anthropic_flow,
    BEDROCK: _bedrock_flow,
    GEMINI: _gemini_flow,
    RESPONSES: _responses_flow,
}
