"""The cases of OpenAI's Responses; its items are checked with the SDK's own types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from pydantic import TypeAdapter

from streamtools import Turn

from . import chat_shapes
from .names import RESPONSES
from .parts import NAME, cut, each, new, plain, typed
from .record import Call, Format, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES", "check_items"]

_ITEMS: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
}
_MAY_WAIT = ("computer_call", "mcp_approval_request")
"""Calls that are given no answer where there is none: a picture, a person's word."""


def _id(item: Message) -> str:
    named = "id" if item["type"] == "mcp_approval_request" else "approval_request_id"
    return str(item.get("call_id") or item[named])


_ANYTHING_MISSING = {"message": {"id": "msg_1"}, "reasoning": {"id": "rs_1"}, "local_shell_call_output": {"id": "x"}}


def _say(response: Response) -> list[Payload]:
    created = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "output": []}
    payloads: list[Payload] = [{"type": "response.created", "response": created}]
    done: list[dict[str, Any]] = []

    def item(begun: dict[str, Any], whole: dict[str, Any], inside: Iterable[Payload]) -> None:
        at = len(done)
        payloads.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        payloads.extend({**event, "item_id": begun["id"], "output_index": at} for event in inside)
        payloads.append({"type": "response.output_item.done", "output_index": at, "item": whole})
        done.append(whole)

    if response.reasoning:
        head = {"id": "rs_1", "type": "reasoning", "encrypted_content": "ZW5j"}
        summary = {"type": "summary_text", "text": "".join(response.reasoning)}
        told = [
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}
            for piece in response.reasoning
        ]
        item({**head, "summary": []}, {**head, "summary": [summary]}, told)
    for kind, piece_type, key, given in (
        ("response.output_text", "output_text", "text", response.text),
        ("response.refusal", "refusal", "refusal", response.refusal),
    ):
        if given:
            head = {"id": f"msg_{piece_type}", "type": "message", "role": "assistant"}
            part: dict[str, Any] = {"type": piece_type, key: "".join(given)} | (
                {"annotations": []} if key == "text" else {}
            )
            told = [{"type": f"{kind}.delta", "content_index": 0, "delta": piece} for piece in given]
            whole = {**head, "status": "completed", "content": [part]}
            item({**head, "status": "in_progress", "content": []}, whole, told)
    for number, (call_id, name, arguments) in enumerate(response.calls):
        head = {"id": f"fc_{number}", "type": "function_call", "call_id": call_id, "name": name}
        kind = "response.function_call_arguments"
        told = [{"type": f"{kind}.delta", "delta": piece} for piece in cut(arguments, response.pieces)]
        told.append({"type": f"{kind}.done", "arguments": arguments})
        item({**head, "arguments": ""}, {**head, "arguments": arguments, "status": "completed"}, told)
    if response.ends:
        usage = {"input_tokens": 1, "output_tokens": 1}
        end = {**created, "status": "completed", "output": done, "usage": usage}
        payloads.append({"type": "response.completed", "response": end})
    return payloads


def _blocks(count: int) -> list[Payload]:
    return _say(Response(calls=[(f"c{number}", "f", "{}") for number in range(count)], ends=False))[1:]


def _said(text: str, calls: list[Call]) -> list[Message]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    items = [{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments} for c in calls]
    return [*([message] if text else []), *items]


def _flow(item: Message) -> Iterator[Spoken]:
    kind = item.get("type", "message")
    if kind == "function_call":
        yield "model", [item["call_id"]]
    elif kind == "function_call_output":
        yield "result", [item["call_id"]]
    elif kind == "message" and item["role"] != "assistant":
        yield ("system" if item["role"] == "developer" else item["role"]), []
    else:
        yield "model", []


def _check(turn: Turn, items: list[Message]) -> None:
    """Each call of ours has one output, in call order, after all that the model said; and no item is refused."""
    ours = [call for call in turn.calls if call.kind != "server"]
    waiting = sum(call.name in _MAY_WAIT and call.awaits is not None for call in ours) if turn.wire == RESPONSES else 0
    count = len(ours) - waiting
    said, outputs = items[: len(items) - count], items[len(items) - count :]
    served = {call.call_id for call in turn.calls if call.kind == "server"}
    asked = [item for item in said if item["type"] in _CALLS and _id(item) not in served]
    by_id = {_id(item): item for item in asked}
    assert len(by_id) == len(asked) == len(ours)
    assert len({_id(output) for output in outputs}) == len(outputs)
    for output in outputs:
        assert output["type"] == _CALLS[by_id[_id(output)]["type"]]
    for item in asked:
        if item["type"] == "function_call":
            assert isinstance(json.loads(item["arguments"]), dict)
        assert "name" not in item or NAME.fullmatch(item["name"])
    if turn.wire == RESPONSES:
        if turn.finish not in ("stop", "tool_calls"):
            assert not said or said[-1]["type"] != "reasoning", "refused without the item that follows it"
        check_items(outputs)  # the rest is the server's own, whatever that was
    else:
        assert [_id(item) for item in asked] == [_id(output) for output in outputs]
        assert all(len(call_id) <= 64 for call_id in by_id)
        check_items(items)


def check_items(items: list[Message]) -> None:
    """The SDK's types take them. What the API does not ask for, though they do, is put in: Codex sends no ids."""
    _ITEMS.validate_python([_ANYTHING_MISSING.get(item["type"], {}) | item for item in items])


def _is_answered(items: list[Message], count: int) -> bool:
    """Returns whether so many outputs are the last items; before them there may be outputs that the server made."""
    return all(item["type"].endswith("_output") for item in items[len(items) - count :])


def _takes(items: list[Message]) -> None:
    """An item without a type is a message; one of an unknown type has nothing that can be checked."""
    typed_items = [{"type": "message"} | item for item in items]
    check_items([item for item in typed_items if item["type"] != "alien"])


_FUNCTION = Format(
    name="openai.responses.function",
    call=lambda call_id, name, arguments, _: {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    },
    tool=lambda said, parameters: {"type": "function", **said, "parameters": parameters, "strict": False},
)
_CUSTOM = Format(
    name="openai.responses.custom",
    call=lambda call_id, name, _, value: {
        "type": "custom_tool_call",
        "call_id": call_id,
        "name": name,
        "input": value,
    },
    tool=lambda said, _: {"type": "custom", **said},
    raw=True,
)

CASES = WireCases(
    say=_say,
    told_by=rb'"type"\s*:\s*"response\.',
    nothing={
        "a keep-alive": lambda n: {"type": "keepalive", "sequence_number": n},
        "progress": lambda n: {"type": "response.in_progress", "response": {"id": "resp_1", new(n): n}},
        "an unknown event": lambda n: {"type": f"response.new{n}", "data": n},
        "an annotation": lambda n: {
            "type": "response.output_text.annotation.added",
            "output_index": 0,
            "annotation": n,
        },
        "empty text": lambda _: {"type": "response.output_text.delta", "output_index": 0, "delta": ""},
    },
    blocks=_blocks,
    events_of_a_call=6,
    refuses=True,
    not_found_again={
        r"response\.completed:response\.output\[\]\.(content|summary)\[\]": "the end of the item had the same piece",
        r"response\.\w+(\.\w+)?:(response|item)\.id=": "an id that is another in each event; that of the start counts",
    },
    native=Native(
        user=plain("user"),
        said=_said,
        came=each(lambda c: {"type": "function_call_output", "call_id": c.id, "output": c.result}),
        system=plain("system"),
    ),
    flow=_flow,
    joined=("result", "model"),
    model_roles=None,
    check=_check,
    is_answered=_is_answered,
    takes=_takes,
    formats=(_FUNCTION, _CUSTOM),
    request=chat_shapes.tools_with_choice,
    takes_tool=typed(list[FunctionToolParam]),
    provider="openai",
)
