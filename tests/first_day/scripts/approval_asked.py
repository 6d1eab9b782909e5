"""The first process of two: the model wants to pay, and nobody is there to approve it."""

import asyncio
import json
import os
from pathlib import Path

import httpx

from streamtools import agent_loop, tool
from streamtools.dispatch import SqliteStore

SECRET = b"32 bytes that only your servers know"


@tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    with open("payments.txt", "a") as payments:
        payments.write(f"{amount} to {to}\n")
    return f"paid {amount} to {to}"


async def ask(messages, tools):
    client = httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"])
    return client.stream("POST", "/chat/completions", json={"messages": messages, "tools": tools, "stream": True})


async def main() -> None:
    question = [{"role": "user", "content": "Pay Ada 5."}]
    with SqliteStore("calls.db") as store:
        async with agent_loop(ask, question, tools=[pay], wire="openai.chat_completions", store=store) as run:
            await run.finish()
    assert run.suspended is not None
    Path("waiting.json").write_text(run.suspended.to_text(SECRET))
    Path("history.json").write_text(json.dumps(run.messages))
    print(run.outcome, [call.tool_name for call in run.suspended.calls])


if __name__ == "__main__":
    asyncio.run(main())
