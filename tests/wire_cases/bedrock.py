"""The cases of Bedrock's Converse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from bedrock_streams import START, USAGE, end, text_deltas, tool_use

from streamtools import Turn

from .names import BEDROCK
from .parts import NAME, all_at_once, calls_of_ours, new, one_message, roles_alternate, user_first, value_of
from .record import Call, Format, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_BLOCKS = {"text", "toolUse", "reasoningContent", "citationsContent", "toolResult", "image"}


def _say(response: Response) -> list[Payload]:
    payloads, index = [START], 0
    if response.reasoning:
        deltas = [{"reasoningContent": {"text": piece}} for piece in response.reasoning]
        deltas.append({"reasoningContent": {"signature": "c2ln"}})
        payloads += [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}} for delta in deltas]
        payloads.append({"contentBlockStop": {"contentBlockIndex": 0}})
        index = 1
    if response.text:
        payloads += text_deltas(response.text, index)
        index += 1
    for number, call in enumerate(response.calls, index):
        payloads += tool_use(number, call, pieces=response.pieces)
    ending = [end("tool_use" if response.calls else "end_turn"), USAGE]
    return [*payloads, *ending] if response.ends else payloads


def _said(text: str, calls: list[Call]) -> list[Message]:
    uses = [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": value_of(c.arguments)}} for c in calls]
    return [{"role": "assistant", "content": [*([{"text": text}] if text else []), *uses]}]


def _flow(message: Message) -> Iterator[Spoken]:
    blocks = message["content"]
    if message["role"] == "assistant":
        yield "model", [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        return
    results = [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
    if results:
        yield "result", results
    if len(results) < len(blocks):
        yield "user", []


def _check(turn: Turn, messages: list[Message]) -> None:
    blocks = messages[0]["content"]
    assert blocks
    assert all(len(block) == 1 and set(block) <= _BLOCKS for block in blocks), "a block is of one kind"
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    kinds = {call.call_id: call.kind for call in turn.calls}
    ours = [use for use in uses if kinds.get(use["toolUseId"]) != "server"]
    assert len(ours) == calls_of_ours(turn)
    results = [block["toolResult"] for block in messages[1]["content"]] if len(messages) > 1 else []
    assert [result["toolUseId"] for result in results] == [use["toolUseId"] for use in ours]
    assert [message["role"] for message in messages] == ["assistant", *(["user"] if ours else [])]
    for use in uses:
        assert NAME.fullmatch(use["name"])
        assert isinstance(use["input"], dict)
        assert use["toolUseId"]
        if turn.wire != BEDROCK:
            assert _ID.fullmatch(use["toolUseId"])
            assert set(use) == {"toolUseId", "name", "input"}
    for result in results:
        assert set(result) == {"toolUseId", "content"}, "not every model takes a status"
        assert [set(part) for part in result["content"]] == [{"text"}]
        assert result["content"][0]["text"].strip(), "not every model takes a blank result"
    for block in blocks:
        if "text" in block:
            assert block["text"].strip(), "blank text is refused"
        elif "reasoningContent" in block and "reasoningText" in block["reasoningContent"]:
            assert block["reasoningContent"]["reasoningText"]["signature"], "unsigned reasoning is refused"
        elif "citationsContent" in block:
            assert set(block["citationsContent"]) == {"content", "citations"}
    assert "reasoningContent" not in blocks[-1], "refused as the final block"
    asked = {use["toolUseId"] for use in uses if kinds.get(use["toolUseId"]) == "server"}
    assert {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block} >= asked


@lru_cache
def _service() -> Any:
    """Returns the model of the service. botocore is loaded when it is asked for, as few tests need it."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def _validate(value: Any, shape: Any) -> None:
    from botocore.validate import ParamValidator

    report = ParamValidator().validate(value, shape)
    assert not report.has_errors(), report.generate_report()


def _takes(messages: list[Message]) -> None:
    _validate({"modelId": "m", "messages": messages}, _service().operation_model("ConverseStream").input_shape)


def _takes_tool(payload: Payload) -> None:
    _validate(payload, _service().shape_for("Tool"))


CASES = WireCases(
    say=_say,
    told_by=rb":event-type\x07..message(Start|Stop)",
    nothing={
        "empty text": lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": ""}}},
        "an unknown event": lambda n: {f"new{n}": {"a": n}},
        "an unknown delta": lambda n: {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {new(n): n}}},
        "the end of no block": lambda n: {"contentBlockStop": {"contentBlockIndex": n + 9}},
        "a trace": lambda n: {"metadata": {"trace": {"n": n}}},
    },
    blocks=lambda n: [event for index in range(n) for event in text_deltas(["x"], index)],
    events_of_a_call=5,
    framings=("aws_eventstream",),
    signature_characters=4,
    payloads_after_end=1,
    cache_apart=True,
    not_found_again={
        r":amazon-bedrock-invocationMetrics": "counts that the usage has, too",
        r":contentBlockDelta\.delta\.reasoningContent\.redactedContent=": "pieces of Base64, which are joined as bytes",
    },
    native=Native(
        user=lambda text: {"role": "user", "content": [{"text": text}]},
        said=_said,
        came=one_message(lambda c: {"toolResult": {"toolUseId": c.id, "content": [{"text": c.result}]}}),
    ),
    flow=_flow,
    objections=(user_first, roles_alternate),
    check=_check,
    is_answered=all_at_once("content"),
    takes=_takes,
    says_failures=False,
    formats=(
        Format(
            name="bedrock.tool_spec",
            call=lambda call_id, name, _, value: {"toolUse": {"toolUseId": call_id, "name": name, "input": value}},
            tool=lambda said, parameters: {"toolSpec": {**said, "inputSchema": {"json": parameters}}},
        ),
    ),
    request=lambda tool: {"toolConfig": {"tools": [tool], "toolChoice": {"auto": {}}}},
    takes_tool=_takes_tool,
    provider="aws.bedrock",
)
