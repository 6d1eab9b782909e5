"""The cases of OpenAI's Realtime; its items are checked with the SDK's own types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openai.types.realtime import ConversationItemParam, RealtimeFunctionToolParam
from pydantic import ConfigDict, TypeAdapter

from streamtools import Turn

from . import responses
from .names import REALTIME
from .parts import NAME, cut, each, new, typed
from .record import Call, Format, Message, Native, Payload, Response, WireCases

__all__ = ["CASES", "check_items"]

_ITEMS: TypeAdapter[Any] = TypeAdapter(list[ConversationItemParam], config=ConfigDict(extra="forbid"))


def _say(response: Response) -> list[Payload]:
    begun = {"object": "realtime.response", "id": "resp_1", "status": "in_progress", "output": []}
    payloads: list[Payload] = [{"type": "response.created", "event_id": "event_1", "response": begun}]
    done: list[dict[str, Any]] = []

    def item(head: dict[str, Any], whole: dict[str, Any], inside: Iterable[Payload]) -> None:
        at = {"event_id": "event_2", "response_id": "resp_1", "output_index": len(done)}
        payloads.append({"type": "response.output_item.added", **at, "item": head})
        payloads.extend({**event, **at, "item_id": head["id"]} for event in inside)
        payloads.append({"type": "response.output_item.done", **at, "item": whole})
        done.append(whole)

    if response.text:
        head = {"id": "item_text", "type": "message", "role": "assistant"}
        told = [{"type": "response.output_text.delta", "content_index": 0, "delta": piece} for piece in response.text]
        content = [{"type": "output_text", "text": "".join(response.text)}]
        item({**head, "content": []}, {**head, "status": "completed", "content": content}, told)
    for number, (call_id, name, arguments) in enumerate(response.calls):
        head = {"id": f"item_{number}", "type": "function_call", "call_id": call_id, "name": name}
        kind = "response.function_call_arguments"
        told = [{"type": f"{kind}.delta", "call_id": call_id, "delta": p} for p in cut(arguments, response.pieces)]
        told.append({"type": f"{kind}.done", "call_id": call_id, "name": name, "arguments": arguments})
        item({**head, "arguments": ""}, {**head, "arguments": arguments, "status": "completed"}, told)
    if response.ends:
        usage = {"input_tokens": 1, "output_tokens": 1}
        end = {**begun, "status": "completed", "output": done, "usage": usage}
        payloads.append({"type": "response.done", "event_id": "event_3", "response": end})
    return payloads


def _blocks(count: int) -> list[Payload]:
    return _say(Response(calls=[(f"c{number}", "f", "{}") for number in range(count)], ends=False))[1:]


def _user(text: str) -> Message:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _system(text: str) -> Message:
    return {**_user(text), "role": "system"}


def _said(text: str, calls: list[Call]) -> list[Message]:
    content = [{"type": "output_text", "text": text}]
    message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    items = [{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments} for c in calls]
    return [*([message] if text else []), *items]


def _check(turn: Turn, items: list[Message]) -> None:
    """Each call of ours has one output, in call order, after all that the model said; and no item is refused."""
    ours = [call for call in turn.calls if call.kind != "server"]
    outputs = [item for item in items if item["type"] == "function_call_output"]
    calls = [item for item in items if item["type"] == "function_call"]
    functions = [call for call in ours if call.kind != "approval"] if turn.wire == REALTIME else ours
    assert items[len(items) - len(outputs) :] == outputs
    assert [item["call_id"] for item in calls] == [output["call_id"] for output in outputs]
    assert len({item["call_id"] for item in calls}) == len(calls) == len(functions)
    for item in calls:
        assert isinstance(json.loads(item["arguments"]), dict)
        assert NAME.fullmatch(item["name"])
    if turn.wire == REALTIME:
        check_items(outputs)  # the rest is the server's own, whatever that was
    else:
        assert all(len(item["call_id"]) <= 32 for item in calls)
        check_items(items)


def check_items(items: list[Message]) -> None:
    """The SDK's types take them."""
    _ITEMS.validate_python(items)


def _takes(items: list[Message]) -> None:
    check_items([item for item in items if item["type"] != "alien"])


_FUNCTION = Format(
    name="openai.realtime.function",
    call=responses.CASES.formats[0].call,
    tool=lambda said, parameters: {"type": "function", **said, "parameters": parameters},
    read_as="openai.responses.function",
)

CASES = WireCases(
    say=_say,
    told_by=rb'"event_id"\s*:\s*"|"realtime\.response"',
    nothing={
        "an unknown event": lambda n: {"type": f"response.new{n}", "event_id": "event_9", "data": n},
        "an event of the session": lambda n: {"type": "session.updated", "session": {new(n): n}},
        "sound": lambda _: {"type": "response.output_audio.delta", "event_id": "event_9", "delta": "QUJD"},
        "empty text": lambda _: {
            "type": "response.output_text.delta",
            "event_id": "event_9",
            "output_index": 0,
            "delta": "",
        },
    },
    blocks=_blocks,
    events_of_a_call=None,
    not_found_again={
        r"[\w.]+:event_id=": "the event's own, which nothing refers to",
        r"conversation\.item\.(added|done):previous_item_id=": "the item's place, which the response has",
        r"response\.content_part\.(added|done):part": "the end of the item has the part, too",
        r"response\.done:response\.output\[\]\.content\[\]": "the end of the item had the same part",
    },
    reasons=False,
    native=Native(
        user=_user,
        said=_said,
        came=each(lambda c: {"type": "function_call_output", "call_id": c.id, "output": c.result}),
        system=_system,
    ),
    flow=responses.CASES.flow,
    joined=("result", "model"),
    model_roles=None,
    check=_check,
    is_answered=responses.CASES.is_answered,
    takes=_takes,
    pictures_in_results=False,
    formats=(_FUNCTION,),
    request=responses.CASES.request,
    takes_tool=typed(list[RealtimeFunctionToolParam]),
    provider="openai",
)
