"""A chat behind FastAPI in which a person approves payments: one request ends while a call waits, the next goes on."""

import os

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from streamtools import AgentLoop, Suspended, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.integrations import EventStreamResponse

SECRET = b"32 bytes that only your servers know"
WIRE = "openai.chat_completions"

app = FastAPI()
model = httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"])
store = SqliteStore(os.environ["CALLS"])
history: list[dict] = []
waiting: list[str] = []
paid: list[str] = []


class Question(BaseModel):
    text: str


class Decision(BaseModel):
    decisions: dict[str, bool]


@tool(needs_approval=True)
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    paid.append(f"{amount} to {to}")
    return f"paid {amount} to {to}"


async def ask(messages, tools):
    return model.stream("POST", "/chat/completions", json={"messages": messages, "tools": tools, "stream": True})


async def keep(run: AgentLoop) -> None:
    history[:] = run.messages
    waiting[:] = [] if run.suspended is None else [run.suspended.to_json(SECRET)]


@app.post("/chat")
async def chat(question: Question) -> EventStreamResponse:
    messages = [*history, {"role": "user", "content": question.text}]
    return EventStreamResponse(agent_loop(ask, messages, tools=[pay], wire=WIRE, store=store), after=keep)


@app.post("/decide")
async def decide(decision: Decision) -> EventStreamResponse:
    suspended = Suspended.from_json(waiting[0], SECRET)
    run = agent_loop(
        ask, history, tools=[pay], wire=WIRE, store=store, suspended=suspended, decisions=decision.decisions
    )
    return EventStreamResponse(run, after=keep)
