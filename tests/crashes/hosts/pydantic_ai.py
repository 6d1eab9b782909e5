"""A pydantic-ai agent whose history is in a file: it runs with that history again, and with a person's approvals."""

from __future__ import annotations

import asyncio
from typing import Any

from crashes.schedules import Work
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, FunctionToolset, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from streamtools.dispatch import SqliteStore
from streamtools.integrations.pydantic_ai import CallsToolset

ASKS = True
CUTS = True  # where a call raises, the agent cancels those beside it, whose threads go on


def prepare(work: Work) -> None:
    calls = [
        ToolCallPart("confirm" if plan.asks else "pay", {"call": plan.call_id}, plan.call_id)
        for plan in work.plans.values()
    ]
    history = [ModelRequest([UserPromptPart("go")], run_id="run-1"), ModelResponse(calls, run_id="run-1")]
    work.replace("history", ModelMessagesTypeAdapter.dump_json(history))


def visit(work: Work) -> dict[str, str]:
    with work.store() as store:
        return asyncio.run(_visit(work, store))


async def _visit(work: Work, store: SqliteStore) -> dict[str, str]:
    def pay(call: str) -> str:
        """Pay."""
        return work.run(call)

    async def pay_async(call: str) -> str:
        """Pay."""
        return await asyncio.to_thread(work.run, call)

    def confirm(ctx: Any, call: str) -> str:
        """Ask a person, then pay."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return work.run(call)

    confirm.__annotations__["ctx"] = RunContext
    tools: FunctionToolset[Any] = FunctionToolset()
    tools.add_function(pay_async if work.variant & 1 else pay, name="pay")
    tools.add_function(confirm)

    def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
        return ModelResponse([TextPart("done")])

    agent = Agent(
        FunctionModel(model),
        toolsets=[CallsToolset(tools, store=store)],
        output_type=[str, DeferredToolRequests],
    )
    history = ModelMessagesTypeAdapter.validate_json((work.folder / "history").read_bytes())
    asked = work.folder / "asked"
    approved: dict[str, Any] = dict.fromkeys(asked.read_text().split(), True) if asked.exists() else {}
    given = DeferredToolResults(approvals=approved) if approved else None
    run = await agent.run(message_history=history, deferred_tool_results=given)
    if isinstance(run.output, DeferredToolRequests):
        work.replace("history", ModelMessagesTypeAdapter.dump_json(run.all_messages()))
        work.replace("asked", " ".join(call.tool_call_id for call in run.output.approvals).encode())
        return {}
    parts = [part for message in run.all_messages() for part in message.parts]
    return {part.tool_call_id: str(part.content) for part in parts if part.part_kind in ("tool-return", "retry-prompt")}
