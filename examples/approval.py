"""Runs one call at once and holds another until a person approves it, as if days later in another process."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from streamtools import Decision, Suspended, pipeline, resume, tool
from streamtools.dispatch import SqliteStore
from streamtools.history import with_results

CHAT = "openai.chat_completions"


@tool(needs_approval=lambda arguments: arguments["amount"] > 10)
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


async def answer() -> AsyncIterator[dict[str, Any]]:
    """Streams a provider's response in which the model pays twice."""
    for index, (to, amount) in enumerate([("the baker", 3), ("the bank", 900)]):
        function = {"name": "pay", "arguments": json.dumps({"to": to, "amount": amount})}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


async def main() -> None:
    secret = secrets.token_bytes(32)
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "calls.db") as store:
        async with pipeline(answer(), tools=[pay], wire=CHAT, store=store) as events:
            async for _ in events:
                pass
        messages = [{"role": "user", "content": "Pay them."}, *events.turn.messages()]
        assert events.suspended is not None
        kept = events.suspended.to_text(secret)
        print("before:", [m["content"] for m in messages if m["role"] == "tool"])

        # Days later, in another process, that has only `messages`, `kept` and the secret.
        suspended = Suspended.from_text(kept, secret)
        for call in suspended.calls:
            print("asked about:", call.tool_name, call.arguments)
        decisions = [Decision.on(call, True) for call in suspended.calls]
        async with resume(suspended, tools=[pay], store=store, decisions=decisions) as events:
            async for _ in events:
                pass
        messages = with_results(messages, events.turn.observations, CHAT)
        print("after: ", [m["content"] for m in messages if m["role"] == "tool"])


asyncio.run(main())
