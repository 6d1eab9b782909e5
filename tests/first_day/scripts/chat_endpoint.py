"""A chat behind FastAPI: answers of several steps, and the history also of a user who has left."""

import asyncio
import os

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from streamtools import AgentLoop, agent_loop, tool
from streamtools.integrations import EventStreamResponse

app = FastAPI()
model = httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"])
history: list[dict] = []
stored = asyncio.Event()


class Question(BaseModel):
    text: str


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return f"sunny in {city}"


@tool(effect="pure")
async def wait_for_rain() -> str:
    """Wait until it rains."""
    await asyncio.Event().wait()
    return "it rains"


async def ask(messages, tools):
    return model.stream("POST", "/chat/completions", json={"messages": messages, "tools": tools, "stream": True})


async def store(run: AgentLoop) -> None:
    history[:] = run.messages
    stored.set()


@app.post("/chat")
async def chat(question: Question) -> EventStreamResponse:
    messages = [*history, {"role": "user", "content": question.text}]
    run = agent_loop(ask, messages, tools=[get_weather, wait_for_rain], wire="openai.chat_completions")
    return EventStreamResponse(run, after=store)
