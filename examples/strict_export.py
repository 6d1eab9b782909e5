"""Exports a tool strictly: the provider constrains the model to the schema, and the rewrites are converted back."""

from __future__ import annotations

import asyncio
import json

from streamtools import Observation, pipeline, tool
from streamtools.exports import export

CHAT = "openai.chat_completions"


@tool(effect="pure")
def search(query: str, filters: dict[str, str] | None = None, limit: int = 10) -> str:
    """Search the shop.

    Args:
        query: Words to look for.
        filters: Attribute values to match, by name.
        limit: Maximum number of results.
    """
    return f"{limit} of {query} with {filters}"


strict = export(search, CHAT, strict=True)
parameters = strict.payload["function"]["parameters"]
assert parameters["required"] == ["query", "filters", "limit"]  # all of them, as OpenAI requires

# Arguments of a model under this schema: null for "the default", a map as a list of entries.
WRITTEN = {"query": "pens", "filters": [{"key": "colour", "value": "red"}], "limit": None}


def said(delta: dict[str, object], finish: str | None = None) -> bytes:
    """Returns one event of a stream, as the API would send it."""
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


CALL = {"index": 0, "id": "c1", "function": {"name": "search", "arguments": json.dumps(WRITTEN)}}
BODY = said({"tool_calls": [CALL]}) + said({}, "tool_calls") + b"data: [DONE]\n\n"


async def main() -> None:
    async with pipeline(BODY, tools=[strict]) as events:  # the export replaces the tool and decodes its arguments
        async for event in events:
            if isinstance(event, Observation):
                print(event.outcome, event.value)
                assert event.value == "10 of pens with {'colour': 'red'}"


asyncio.run(main())
