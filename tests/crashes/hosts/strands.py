"""A Strands agent with its session in files: each visit works on a copy, as a process does that was restored."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from typing import Any

import strands
from crashes.schedules import Work
from strands.hooks import AfterToolCallEvent
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.tools import ToolContext

from streamtools.integrations.strands import CallsExecutor

ASKS = True


class _Answers(Model):  # type: ignore[misc]
    def get_config(self) -> Any:
        return {}

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def _agent(work: Work, folder: str, executor: Any) -> Any:
    def pay(call: str) -> str:
        """Pay."""
        return work.run(call)

    def confirm(call: str, tool_context: Any) -> str:
        """Ask a person, then pay."""
        tool_context.interrupt("sure", reason=f"run {call}?")
        return work.run(call)

    confirm.__annotations__["tool_context"] = ToolContext
    return strands.Agent(
        model=_Answers(),
        tools=[strands.tool(pay), strands.tool(context=True)(confirm)],
        tool_executor=executor,
        callback_handler=None,
        session_manager=FileSessionManager("order-7", storage_dir=str(work.folder / folder)),
    )


def prepare(work: Work) -> None:
    agent = _agent(work, "session", None)
    calls = [
        {
            "toolUse": {
                "toolUseId": plan.call_id,
                "name": "confirm" if plan.asks else "pay",
                "input": {"call": plan.call_id},
            }
        }
        for plan in work.plans.values()
    ]
    for message in ({"role": "user", "content": [{"text": "go"}]}, {"role": "assistant", "content": calls}):
        agent._session_manager.append_message(message, agent)
    agent._session_manager.sync_agent(agent)


def visit(work: Work) -> dict[str, str]:
    folder = f"session-{work.number}"
    shutil.copytree(work.folder / "session", work.folder / folder)
    with work.store() as store:
        agent = _agent(work, folder, CallsExecutor(store=store))
        if work.variant & 1:
            agent.hooks.add_callback(AfterToolCallEvent, _once_more(set()))
        interrupts = agent._interrupt_state.interrupts.values() if agent._interrupt_state.activated else ()
        given = [{"interruptResponse": {"interruptId": one.id, "response": "yes"}} for one in interrupts]
        result = asyncio.run(agent.invoke_async(given or None))
    if result.stop_reason == "interrupt":
        shutil.move(work.folder / "session", work.folder / f"{folder}-before")
        shutil.move(work.folder / folder, work.folder / "session")
        return {}
    blocks = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    texts = {block["toolUseId"]: " ".join(str(one.get("text")) for one in block["content"]) for block in blocks}
    if not given and any("the bank is closed" in text for text in texts.values()):
        raise RuntimeError("a call has not started, and is made again")
    return texts


def _once_more(tried: set[str]) -> Any:
    def again(event: AfterToolCallEvent) -> None:
        event.retry = event.tool_use["toolUseId"] not in tried
        tried.add(event.tool_use["toolUseId"])

    return again
