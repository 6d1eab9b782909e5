"""The second process of two: somebody has approved the payment, and the run goes on to its answer."""

import asyncio
import json
from pathlib import Path

from approval_asked import SECRET, ask, pay

from streamtools import Decision, Suspended, agent_loop
from streamtools.dispatch import SqliteStore


async def main() -> None:
    suspended = Suspended.from_text(Path("waiting.json").read_text(), SECRET)
    history = json.loads(Path("history.json").read_text())
    decisions = [Decision.on(call, True) for call in suspended.calls]
    with SqliteStore("calls.db") as store:
        run = agent_loop(
            ask,
            history,
            tools=[pay],
            wire="openai.chat_completions",
            store=store,
            suspended=suspended,
            decisions=decisions,
        )
        turn = await run
    print(run.outcome, turn.text)
    print([message["content"] for message in run.messages if message["role"] == "tool"])


asyncio.run(main())
