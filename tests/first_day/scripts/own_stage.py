"""A stage that hides card numbers from everything behind it, and a transform that only counts."""

import asyncio
import os
import re

import httpx

from streamtools import Event, TextDelta, pipeline
from streamtools.stages import DEFAULT

counts: dict[str, int] = {}


class HideCards:
    def feed(self, event: Event) -> list[Event]:
        if isinstance(event, TextDelta):
            return [TextDelta(re.sub(r"(?:\d{4} ?){4}", "[card] ", event.text))]
        return [event]

    def finish(self) -> list[Event]:
        return []


async def count(events):
    async for event in events:
        name = type(event).__name__
        counts[name] = counts.get(name, 0) + 1
        yield event


async def main() -> None:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        stream = client.stream("POST", "/chat/completions", json={})
        stages = DEFAULT.insert_after("finalize", HideCards)
        async with pipeline(stream, stages=stages, transforms=[count]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    print(event.text)
    print(counts["TextDelta"], events.turn.text)


asyncio.run(main())
