"""Of parallel calls one is approved, one denied with a reason, one decided later: on every wire, as the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES, framed, said
from profiles import every

from streamtools import ApprovalRequested, Decision, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.history import lint, with_results

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "approval.md").read_text()
CALLS = [(f"{name:0<9}", "pay", json.dumps({"to": name})) for name in ("ann", "bob", "cy")]
DENIED = "Error: not run: the call was not approved: too much"
WAITS = "Error: the call was not run: it waits for an approval"
FIRST: dict[str, dict[str, Any]] = {
    GEMINI: {"role": "user", "parts": [{"text": "Pay them."}]},
    BEDROCK: {"role": "user", "content": [{"text": "Pay them."}]},
}


def results_in(value: Any) -> list[dict[str, Any]]:
    """Returns the results in messages of any wire, each as it stands there."""
    if isinstance(value, list):
        return [found for one in value for found in results_in(one)]
    if not isinstance(value, dict):
        return []
    is_result = {"tool_call_id", "tool_use_id", "functionResponse", "toolResult", "output"} & {*value}
    return [value] if is_result else results_in(value.get("parts", value.get("content", [])))


@pytest.mark.anyio
@every("wire", [ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES])
async def test_each_call_of_an_answer_is_decided_alone_and_the_provider_takes_each_history(wire: str) -> None:
    paid: list[str] = []

    @tool(needs_approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return f"paid {to}"

    store = MemoryStore()
    async with pipeline(framed(wire, said(wire, calls=CALLS)), tools=[pay], wire=wire, store=store) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested) and event.arguments["to"] == "ann":
                events.approve(event, by="eve")
            elif isinstance(event, ApprovalRequested) and event.arguments["to"] == "bob":
                events.deny(event, "too much", by="eve")
    first = FIRST.get(wire, {"role": "user", "content": "Pay them."})
    history = [first, *events.turn.messages()]
    ran, denied, waits = results_in(history[1:])
    assert [*map(texts, (ran, denied, waits))] == ["paid ann", DENIED, WAITS]
    assert [row for row in PAGE.splitlines() if f"`{wire}`" in row and row.endswith(f"| `{shape(denied)}` |")]
    assert [lint(history, wire, last=True), paid] == [[], ["ann"]]
    (left,) = events.suspended.calls
    decisions = [Decision.on(left, True, by="eve")]
    async with resume(events.suspended, tools=[pay], store=store, decisions=decisions) as later:
        async for _ in later:
            await anyio.lowlevel.checkpoint()
    history = with_results(history, later.turn.observations, wire)
    assert [*map(texts, results_in(history[1:]))] == ["paid ann", DENIED, "paid cy"]
    assert [lint(history, wire, last=True), paid] == [[], ["ann", "cy"]]


def texts(result: Any) -> str:
    """Returns the text of a result."""
    found = json.dumps(result)
    return next(one for one in (DENIED, WAITS, "paid ann", "paid cy") if one in found)


def shape(result: Any) -> str:
    """Returns a result as the page shows it: without ids, and without its text."""
    ids = {"tool_call_id", "tool_use_id", "toolUseId", "call_id", "id"}

    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: "…" if key in ids else shown(one) for key, one in value.items()}
        if isinstance(value, list):
            return [*map(shown, value)]
        return value.replace(DENIED, "Error: …") if isinstance(value, str) else value

    return json.dumps(shown(result), ensure_ascii=False)
