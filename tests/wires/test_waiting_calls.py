"""Calls of tools that other providers than OpenAI define and we run: asked for, answered in their shape, sent back."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from streams import stream

from streamtools import ApprovalRequested, Turn, pipeline, tool
from streamtools.content import Media, RequestHints, ToolResult
from streamtools.exports import export_all
from streamtools.history import lint

pytestmark = pytest.mark.anyio

GEMINI = "gemini.generate_content"
BROWSER = {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}
RISKY = {"decision": "require_confirmation", "explanation": "It accepts the terms."}


@tool(
    effect="once",
    hints=RequestHints(entry=BROWSER),
    needs_approval=lambda arguments: arguments["safety_decision"] is not None,
)
def click_at(x: int, y: int, safety_decision: dict[str, str] | None = None) -> ToolResult:
    """Click in the browser."""
    acknowledged = {} if safety_decision is None else {"safety_acknowledgement": "true"}
    shot = Media(kind="image", mime_type="image/png", data="AA==")
    return ToolResult(blocks=(shot,), native={GEMINI: {"url": f"https://shop.example/{x}/{y}", **acknowledged}})


def answer(args: dict[str, Any]) -> list[dict[str, Any]]:
    part = {"functionCall": {"name": "click_at", "args": args}, "thoughtSignature": "c2ln"}
    return [{"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}]


async def run(args: dict[str, Any]) -> tuple[Turn, list[ApprovalRequested]]:
    asked: list[ApprovalRequested] = []

    def approve(request: ApprovalRequested) -> bool:
        asked.append(request)
        return True

    async with pipeline(stream(answer(args)), tools=[click_at], approve=approve) as events:
        async for _ in events:
            pass
    return events.turn, asked


async def test_an_action_of_geminis_computer_use_is_answered_with_a_screenshot() -> None:
    turn, asked = await run({"x": 3, "y": 4})
    assert asked == []
    _, told = turn.messages()
    (part,) = told["parts"]
    assert part["functionResponse"] == {
        "name": "click_at",
        "response": {"url": "https://shop.example/3/4"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}],
    }
    types.Content.model_validate(told)


async def test_an_action_that_gemini_wants_confirmed_waits_for_an_approval_and_acknowledges_it() -> None:
    turn, (asked,) = await run({"x": 3, "y": 4, "safety_decision": RISKY})
    assert asked.arguments["safety_decision"] == RISKY
    said, told = turn.messages()
    assert said["parts"][0]["functionCall"]["args"]["safety_decision"] == RISKY
    assert told["parts"][0]["functionResponse"]["response"]["safety_acknowledgement"] == "true"
    assert lint([{"role": "user", "parts": [{"text": "Buy it."}]}, said, told], GEMINI) == []


def test_computer_use_is_asked_for_beside_the_declarations() -> None:
    @tool(effect="pure")
    def look(at: int) -> int:
        """Look."""
        return at

    request = export_all([click_at, look], GEMINI).request
    assert request["tools"][1:] == [BROWSER]
    assert [one["name"] for one in request["tools"][0]["functionDeclarations"]] == ["look"]
    types.Tool.model_validate(request["tools"][1])
