"""The cases of Gemini's generateContent; its contents are checked more strictly than by its SDK's types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from streamtools import Turn

from .names import GEMINI
from .parts import all_at_once, calls_of_ours, new, one_message, user_first, value_of
from .record import Call, Format, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES", "SKIP", "check"]

SKIP = "skip_thought_signature_validator"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_DATA = frozenset({
    "text", "functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData",
    "fileData", "functionResponse",
})  # fmt: skip


def _say(response: Response) -> list[Payload]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in response.reasoning]
    parts += [{"text": piece} for piece in response.text]
    for call_id, name, arguments in response.calls:
        parts.append({"functionCall": {"id": call_id, "name": name, "args": json.loads(arguments)}})
    payloads: list[Payload] = [
        {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": "g",
            "responseId": "r",
        }
        for part in parts
    ]
    if response.ends:
        end = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1}
        payloads.append({"candidates": [end], "usageMetadata": usage, "modelVersion": "g", "responseId": "r"})
    return payloads


def _part(**part: Any) -> Payload:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}


def _said(text: str, calls: list[Call]) -> list[Message]:
    bodies = [{"id": c.id, "name": c.name, "args": value_of(c.arguments)} for c in calls]
    parts: list[Message] = [{"functionCall": body} for body in bodies]
    if parts:
        parts[0]["thoughtSignature"] = "c2lnbmVk"
    return [{"role": "model", "parts": [*([{"text": text}] if text else []), *parts]}]


def _flow(message: Message) -> Iterator[Spoken]:
    parts = message["parts"]
    if message["role"] == "model":
        yield "model", [_id_of(part["functionCall"]) for part in parts if "functionCall" in part]
        return
    results = [_id_of(part["functionResponse"]) for part in parts if "functionResponse" in part]
    assert len(results) in (0, len(parts)), "a response stands with nothing else"
    yield ("result", results) if results else ("user", [])


def _id_of(body: Message) -> tuple[Any, str]:
    return body.get("id") or None, body["name"]


def _check(turn: Turn, contents: list[Message]) -> None:
    check(turn, contents, own=turn.wire == GEMINI)


def check(turn: Turn, contents: list[Message], *, own: bool) -> None:
    """Asserts that the API takes these contents; a turn of its `own` may have what is its own."""
    parts = contents[0]["parts"]
    assert parts, "contents.parts must not be empty"
    assert [content["role"] for content in contents] == ["model", "user"][: len(contents)]
    assert all(set(content) == {"role", "parts"} for content in contents)
    assert not all(set(part) == {"text", "thought"} for part in parts), "summaries alone are no content"
    for part in parts:
        assert isinstance(part.get("thoughtSignature", ""), str)
        assert len(set(part) & _DATA) == 1 or (own and not set(part) & _DATA), "a part has one kind of data"
        if "text" in part:
            assert (part["text"] if own else part["text"].strip()) or part.get("thoughtSignature")
        if not own:
            assert set(part) <= {"text", "functionCall", "thoughtSignature"}
            assert part.get("thoughtSignature", SKIP) == SKIP, "another provider's state is nothing to Gemini"
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    assert len(calls) == calls_of_ours(turn)
    for call in calls:
        assert set(call) - {"id"} == {"name", "args"}
        assert _NAME.fullmatch(call["name"])
        assert isinstance(call["args"], dict)
    ids = [call["id"] for call in calls if "id" in call]
    assert len(set(ids)) == len(ids), "an id twice in one content is refused"
    if not own:
        signed = ["thoughtSignature" in part for part in parts if "functionCall" in part]
        assert signed == [True, *[False] * (len(calls) - 1)][: len(calls)]
    _check_server_calls(parts)
    assert len(contents) == (2 if calls else 1)
    responses = [part["functionResponse"] for part in contents[1]["parts"]] if calls else []
    assert all(set(part) == {"functionResponse"} for part in (contents[1]["parts"] if calls else ()))
    assert [(r["name"], r.get("id")) for r in responses] == [(call["name"], call.get("id")) for call in calls]
    for response in responses:
        [(key, value)] = response["response"].items()
        assert key in ("output", "error")
        assert isinstance(value, str)


def _check_server_calls(parts: list[Message]) -> None:
    for number, part in enumerate(parts):
        if "executableCode" in part:
            assert any("codeExecutionResult" in later for later in parts[number:]), "code goes with its result"
        if "toolCall" in part:
            assert any("toolResponse" in later for later in parts[number:]), "a server's call goes with its response"


def _takes(messages: list[Message]) -> None:
    from google.genai import types  # when it is asked for, as it takes a second and few tests need it

    for message in messages:
        types.Content.model_validate(message)


def _takes_tool(payload: Payload) -> None:
    from google.genai import types

    types.FunctionDeclaration.model_validate(payload)


CASES = WireCases(
    say=_say,
    told_by=rb'"(candidates|promptFeedback|usageMetadata)"\s*:',
    nothing={
        "usage": lambda n: {"usageMetadata": {"promptTokenCount": n, new(n): n}},
        "empty text": lambda _: _part(text=""),
        "no parts": lambda _: {"candidates": [{"content": {"role": "model"}, "index": 0}]},
        "no candidates": lambda n: {"candidates": [], "modelVersion": f"g{n}"},
        "another candidate": lambda n: {"candidates": [{"content": {"parts": [{"text": "x"}]}, "index": n + 1}]},
        "an unknown payload": lambda n: {new(n): n},
    },
    blocks=lambda n: [_part(text="x", thoughtSignature="c2ln")] * n,
    events_of_a_call=1,
    framings=("sse", "json_array"),
    in_deltas=False,
    not_found_again={
        r":candidates\[\]\.content\.parts\[\]\.functionCall\.args": "a later piece of the call has all arguments again",
    },
    native=Native(
        user=lambda text: {"role": "user", "parts": [{"text": text}]},
        said=_said,
        came=one_message(
            lambda c: {"functionResponse": {"id": c.id, "name": c.name, "response": {"output": c.result}}}, "parts"
        ),
    ),
    flow=_flow,
    objections=(user_first,),
    model_roles=("model",),
    check=_check,
    is_answered=all_at_once("parts"),
    takes=_takes,
    formats=(
        Format(
            name="gemini.function_declaration",
            call=lambda call_id, name, _, value: {"functionCall": {"id": call_id, "name": name, "args": value}},
            tool=lambda said, parameters: {**said, "parametersJsonSchema": parameters},
        ),
    ),
    request=lambda tool: {
        "tools": [{"functionDeclarations": [tool]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    },
    takes_tool=_takes_tool,
    provider="gcp.gemini",
)
