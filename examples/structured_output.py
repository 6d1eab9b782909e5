"""Asks for an answer of a type: the provider holds the model to its schema, and the answer comes back as the type."""

from __future__ import annotations

import asyncio
from typing import Literal

from local_model import use_model
from openai import AsyncOpenAI
from pydantic import BaseModel

from streamtools import pipeline
from streamtools.events import OutputDelta
from streamtools.exports import export_output


class Trip(BaseModel):
    city: Literal["Oslo", "Lima"]
    by_ship: bool = False
    stops: dict[str, bool] = {}


async def main() -> None:
    answer = export_output(Trip, "openai.chat_completions")  # a map travels as a list of entries, a default as null
    async with AsyncOpenAI() as client:
        stream = await client.chat.completions.create(
            model="gpt-5-mini",
            messages=[{"role": "user", "content": "Say: Oslo"}],
            stream=True,
            **answer.request,
        )
        async with pipeline(stream, output=answer) as events:
            async for event in events:
                if isinstance(event, OutputDelta):
                    print("so far:", event.preview)
    print("the model wrote:", events.turn.text)
    print("the answer:", events.turn.output_as(Trip))


if __name__ == "__main__":
    use_model("OPENAI_API_KEY")
    asyncio.run(main())
