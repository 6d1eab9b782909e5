"""An agent to be tested, with a model that follows a script: it books tables."""

from __future__ import annotations

import json
from typing import Any

from streamtools import AgentLoop, agent_loop, tool
from streamtools.testing import FakeTool, ScriptedSource

CHAT = "openai.chat_completions"


@tool(effect="once")
async def book(table: int) -> str:
    """Book a table."""
    raise AssertionError("the fake runs instead")


def says(text: str) -> dict[str, Any]:
    """A response that is a text."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}


def books(*tables: Any) -> dict[str, Any]:
    """A response that books tables."""
    calls = [
        {"index": index, "id": f"c{index}", "function": {"name": "book", "arguments": json.dumps({"table": table})}}
        for index, table in enumerate(tables)
    ]
    return {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}


class Waiter:
    """The agent."""

    def __init__(self, *responses: dict[str, Any], results: Any = None) -> None:
        self.book = FakeTool(book, results=results)
        self.asked: list[list[Any]] = []
        self._responses = iter(responses)

    def run(self, text: str, **options: Any) -> AgentLoop:
        """A run of it."""
        messages = [{"role": "user", "content": text}]
        return agent_loop(self._ask, messages, tools=[self.book.tool], wire=CHAT, **options)

    async def _ask(self, messages: list[Any], tools: list[Any]) -> ScriptedSource:
        self.asked.append(messages)
        return ScriptedSource([next(self._responses)])
