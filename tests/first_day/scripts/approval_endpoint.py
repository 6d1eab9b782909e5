"""A chat behind FastAPI in which a person approves payments: one request ends while a call waits, the next goes on."""

import os

import httpx
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from streamtools import AgentLoop, Decision, Suspended, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.errors import AlreadyDecided, DecisionError
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


class Click(BaseModel):
    call_id: str
    fingerprint: str
    approved: bool


@tool(needs_approval=True)
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    paid.append(f"{amount} to {to}")
    return f"paid {amount} to {to}"


async def ask(messages, tools):
    return model.stream("POST", "/chat/completions", json={"messages": messages, "tools": tools, "stream": True})


async def keep(run: AgentLoop) -> None:
    history[:] = run.messages
    if (
        run.suspended is not None
    ):  # a state stays when its calls are decided, so that a second click is told of the first
        waiting[:] = [run.suspended.to_text([SECRET])]


@app.post("/chat")
async def chat(question: Question) -> EventStreamResponse:
    messages = [*history, {"role": "user", "content": question.text}]
    return EventStreamResponse(agent_loop(ask, messages, tools=[pay], wire=WIRE, store=store), after=keep)


@app.post("/decide")
async def decide(clicks: list[Click]) -> Response:
    if not waiting:
        return JSONResponse({"error": "no call waits"}, 404)
    decisions = [Decision(call_id=one.call_id, fingerprint=one.fingerprint, verdict=one.approved) for one in clicks]
    suspended = Suspended.from_text(waiting[0], [SECRET])
    try:
        await suspended.decide(decisions, store)
    except AlreadyDecided as error:
        return JSONResponse({"error": str(error), "approved": error.first.verdict}, 409)
    except DecisionError as error:
        return JSONResponse({"error": str(error)}, 404 if error.code == "unknown_call" else 409)
    run = agent_loop(ask, history, tools=[pay], wire=WIRE, store=store, suspended=suspended)
    return EventStreamResponse(run, after=keep)
