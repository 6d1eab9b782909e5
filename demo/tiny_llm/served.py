"""The model behind its server, asked over the three wires that llama.cpp speaks.

Needs this repository, installed with ``pip install -e '.[demo]'``.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from template import Params, Turn

from demo.server import ModelServer

__all__ = ["WIRES", "Answer", "Served"]

Answer = tuple[str, list[tuple[str, str]]]
"""The text, and the calls as (tool, arguments as JSON text)."""

Schemas = list[tuple[str, dict[str, Any]]]
"""Each tool's name and JSON Schema."""

Body = dict[str, Any]

PATIENCE_S = 60


class Served:
    """A model that answers greedily, as long as the block runs."""

    def __init__(self, model: Path) -> None:
        self._server = ModelServer(model)
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Served:
        url = self._server.__enter__().url
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._connection is not None:
            self._connection.close()
        self._server.__exit__(*error)

    def answer(self, wire: str, tools: dict[str, Params], turns: list[Turn]) -> Answer:
        """What the model makes of the conversation so far.

        Raises:
            RuntimeError: the server refused the request.
        """
        assert self._connection is not None, "inside the block"
        path, request, answer = WIRES[wire]
        body = json.dumps(request(schemas(tools), turns))
        self._connection.request("POST", path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {data[:300]!r}")
        return answer(json.loads(data))


class Wire(NamedTuple):
    """Where a wire is served, how one asks, and how one reads the answer."""

    path: str
    request: Callable[[Schemas, list[Turn]], Body]
    answer: Callable[[Body], Answer]


def schemas(tools: dict[str, Params]) -> Schemas:
    return [
        (
            name,
            {
                "type": "object",
                "properties": {param: {"type": kind} for param, kind, _ in params},
                "required": [param for param, _, required in params if required],
                "additionalProperties": False,
            },
        )
        for name, params in tools.items()
    ]


def numbered(turns: list[Turn]) -> Iterator[tuple[Turn, list[str]]]:
    """Each turn with the ids of its calls, or with the id of the call that it answers."""
    waiting: list[str] = []
    made = 0
    for turn in turns:
        if turn.role == "tool":
            yield turn, [waiting.pop(0)]
            continue
        waiting = [f"call_{made + number}" for number in range(len(turn.calls))]
        made += len(turn.calls)
        yield turn, list(waiting)


def identified(turn: Turn, ids: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The turn's calls: id, tool, arguments."""
    if turn.calls:
        for call_id, (name, args) in zip(ids, turn.calls, strict=True):
            yield call_id, name, args


# -- OpenAI Chat Completions -------------------------------------------------------------------------------------


def chat_request(tools: Schemas, turns: list[Turn]) -> Body:
    messages = []
    for turn, ids in numbered(turns):
        message: Body = {"role": turn.role, "content": turn.content}
        if turn.role == "tool":
            message["tool_call_id"] = ids[0]
        if turn.calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
                for call_id, name, args in identified(turn, ids)
            ]
        messages.append(message)
    body: Body = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 500}
    if tools:
        body["tools"] = [
            {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in tools
        ]
    return body


def chat_answer(body: Body) -> Answer:
    message = body["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return message.get("content") or "", [(function["name"], function["arguments"]) for function in functions]


# -- OpenAI Responses --------------------------------------------------------------------------------------------


def responses_request(tools: Schemas, turns: list[Turn]) -> Body:
    items: list[Body] = []
    for turn, ids in numbered(turns):
        if turn.role == "tool":
            items.append({"type": "function_call_output", "call_id": ids[0], "output": turn.content})
        elif turn.role != "assistant":
            items.append({"role": turn.role, "content": turn.content})
        elif turn.content:
            content = [{"type": "output_text", "text": turn.content}]
            items.append({"type": "message", "role": "assistant", "status": "completed", "content": content})
        items += [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(args)}
            for call_id, name, args in identified(turn, ids)
        ]
    body: Body = {"model": "tiny", "input": items, "temperature": 0, "max_output_tokens": 500}
    if tools:
        body["tools"] = [
            {"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in tools
        ]
    return body


def responses_answer(body: Body) -> Answer:
    messages = [item for item in body["output"] if item["type"] == "message"]
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    text = "".join(part.get("text", "") for message in messages for part in message["content"])
    return text, [(call["name"], call["arguments"]) for call in calls]


# -- Anthropic Messages ------------------------------------------------------------------------------------------


def messages_request(tools: Schemas, turns: list[Turn]) -> Body:
    messages: list[Body] = []
    body: Body = {"model": "tiny", "max_tokens": 500, "temperature": 0, "messages": messages}
    for turn, ids in numbered(turns):
        if turn.role == "system":
            body["system"] = turn.content
            continue
        blocks = _blocks(turn, ids)
        if turn.role == "tool" and messages[-1]["role"] == "user":  # all results of a round in one message
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": "assistant" if turn.role == "assistant" else "user", "content": blocks})
    if tools:
        body["tools"] = [{"name": name, "input_schema": schema} for name, schema in tools]
    return body


def _blocks(turn: Turn, ids: list[str]) -> list[Body]:
    if turn.role == "tool":
        return [{"type": "tool_result", "tool_use_id": ids[0], "content": turn.content}]
    blocks: list[Body] = [{"type": "text", "text": turn.content}] if turn.content else []
    calls = identified(turn, ids)
    return blocks + [{"type": "tool_use", "id": call_id, "name": name, "input": args} for call_id, name, args in calls]


def messages_answer(body: Body) -> Answer:
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    calls = [block for block in body["content"] if block["type"] == "tool_use"]
    return text, [(call["name"], json.dumps(call["input"])) for call in calls]


WIRES = {
    "chat": Wire("/v1/chat/completions", chat_request, chat_answer),
    "responses": Wire("/v1/responses", responses_request, responses_answer),
    "messages": Wire("/v1/messages", messages_request, messages_answer),
}
