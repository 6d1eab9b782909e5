"""The second process of two: somebody has approved the payment, and the run goes on to its answer."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

from approval_asked import SECRET, ask, pay

from streamtools import Decision, Suspended, agent_loop
from streamtools.dispatch import SqliteStore
from streamtools.errors import AlreadyDecided


async def main() -> None:
    suspended = Suspended.from_text(Path("waiting.json").read_text(), SECRET)
    history = json.loads(Path("history.json").read_text())
    decisions = [Decision.on(call, True) for call in suspended.calls]
    with SqliteStore("calls.db") as store:
        with suppress(AlreadyDecided):  # the button was pressed before: the run goes on with the first decision
            await suspended.decide(decisions, store)
        run = agent_loop(
            ask,
            history,
            tools=[pay],
            wire="openai.chat_completions",
            store=store,
            suspended=suspended,
        )
        turn = await run
    print(run.outcome, turn.text)
    print([message["content"] for message in run.messages if message["role"] == "tool"])


asyncio.run(main())
