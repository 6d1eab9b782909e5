"""What Gemini takes back: contents checked more strictly than its SDK's types do it."""

from __future__ import annotations

import re
from typing import Any

from streamtools import Turn

__all__ = ["GEMINI", "check_gemini"]

GEMINI = "gemini.generate_content"
SKIP = "skip_thought_signature_validator"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_DATA = frozenset({
    "text", "functionCall", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData",
    "fileData", "functionResponse",
})  # fmt: skip


def check_gemini(turn: Turn, contents: list[dict[str, Any]]) -> None:
    own = turn.wire == GEMINI
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
    assert len(calls) == len([call for call in turn.calls if call.kind != "server"])
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


def _check_server_calls(parts: list[dict[str, Any]]) -> None:
    for number, part in enumerate(parts):
        if "executableCode" in part:
            assert any("codeExecutionResult" in later for later in parts[number:]), "code goes with its result"
        if "toolCall" in part:
            assert any("toolResponse" in later for later in parts[number:]), "a server's call goes with its response"
