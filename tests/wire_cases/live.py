"""The cases of Gemini's Live API; its contents are those of generateContent."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from streamtools import Turn

from . import gemini
from .names import LIVE
from .parts import new
from .record import Message, Payload, Response, WireCases

__all__ = ["CASES"]


def _in_capitals(schema: Any) -> Any:
    """A schema in Gemini's own notation."""
    return json.loads(re.sub(r'"type": "\w+"', lambda found: '"type":' + found[0][7:].upper(), json.dumps(schema)))


def _say(response: Response) -> list[Payload]:
    """A call ends the response, so that nothing follows one."""
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in response.reasoning]
    parts += [{"text": piece} for piece in response.text]
    payloads: list[Payload] = [_part(**part) for part in parts]
    calls = [
        {"id": call_id, "name": name, "args": json.loads(arguments)} for call_id, name, arguments in response.calls
    ]
    usage = {"promptTokenCount": 1, "responseTokenCount": 1}
    if calls and response.ends:
        payloads.append({"toolCall": {"functionCalls": calls}, "usageMetadata": usage})
    elif calls:
        payloads.append({"toolCall": {"functionCalls": [*calls[:-1], {**calls[-1], "willContinue": True}]}})
    elif response.ends:
        payloads.append({"serverContent": {"generationComplete": True}})
        payloads.append({"serverContent": {"turnComplete": True}, "usageMetadata": usage})
    return payloads


def _part(**part: Any) -> Payload:
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [part]}}}


def _check(turn: Turn, contents: list[Message]) -> None:
    gemini.check(turn, contents, own=turn.wire == LIVE)


CASES: WireCases = replace(
    gemini.CASES,
    say=_say,
    told_by=rb'"(serverContent|toolCall|goAway|sessionResumptionUpdate|setupComplete)"\s*:',
    nothing={
        "usage": lambda n: {"usageMetadata": {"promptTokenCount": n, new(n): n}},
        "empty text": lambda _: _part(text=""),
        "no parts": lambda _: {"serverContent": {"modelTurn": {"role": "model"}}},
        "the session": lambda n: {"sessionResumptionUpdate": {"newHandle": new(n), "resumable": True}},
        "what the user says": lambda n: {"serverContent": {"inputTranscription": {"text": new(n)}}},
        "an unknown payload": lambda n: {new(n): n},
    },
    blocks=lambda n: [_part(text="x", thoughtSignature="c2ln")] * n,
    events_of_a_call=None,
    framings=("sse",),
    not_found_again={},
    check=_check,
    formats=(
        replace(
            gemini.CASES.formats[0],
            name="gemini.live.function_declaration",
            tool=lambda said, parameters: {**said, "parameters": _in_capitals(parameters)},
            read_as="gemini.function_declaration",
        ),
    ),
    request=lambda tool: {"tools": [{"functionDeclarations": [tool]}]},
)
