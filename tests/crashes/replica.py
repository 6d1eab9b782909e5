"""One of several servers with the same conversations: its model is a script, and its tools write into a ledger."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import anyio
import uvicorn
from crashes.stores import store_at
from every_wire import framed, said
from starlette.applications import Starlette
from starlette.routing import Mount

from streamtools import AgentLoop, agent_loop, tool
from streamtools.web import Chats
from streamtools.web.runs import Chat

__all__ = ["edited", "plan_of", "ref_of", "serve"]

WIRE = "openai.chat_completions"
LEASE_S = 1.5
PAUSE_S = 0.01


def plan_of(run_id: str) -> list[list[str]]:
    """The tools that the model calls in each step of a run."""
    dice = random.Random(f"plan {run_id}")
    steps = [dice.choices(("pay", "approve", "look"), k=dice.choice((1, 1, 2))) for _ in range(dice.choice((1, 2, 2)))]
    return [*steps, []]


def ref_of(run_id: str, step: int, at: int) -> str:
    """What a call is to be run with."""
    return f"{run_id}:{step}:{at}"


def edited(ref: str) -> str:
    """What a person makes of that."""
    return f"{ref}e"


class _Replica:
    def __init__(self, ledger: str) -> None:
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._dice = random.Random()
        self.dies = False

    async def act(self, ref: str, user: str | None) -> str:
        dies_at = self._dice.choice((0, 1)) if self.dies else None
        if dies_at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        await anyio.sleep(self._dice.choice((0, PAUSE_S, 15 * PAUSE_S)))
        os.write(self._ledger, f"{ref} {user}\n".encode())
        os.fsync(self._ledger)
        if dies_at == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        await anyio.sleep(self._dice.choice((0, PAUSE_S, 15 * PAUSE_S)))
        return f"done {ref}"

    def run(self, chat: Chat) -> AgentLoop:
        begun = len(chat.messages(WIRE))

        @tool(effect="once")
        async def pay(ref: str) -> str:
            """Pays."""
            return await self.act(ref, chat.user)

        @tool(effect="once", needs_approval=True)
        async def approve(ref: str) -> str:
            """Does what a person has approved."""
            return await self.act(ref, chat.user)

        @tool(effect="pure")
        async def look(ref: str) -> str:
            """Looks."""
            return f"seen {ref}"

        async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
            step = sum(message["role"] == "assistant" for message in messages[begun:])
            calls = [
                (f"c{at}", name, json.dumps({"ref": ref_of(chat.run_id, step, at)}))
                for at, name in enumerate(plan_of(chat.run_id)[step])
            ]
            words = ["Step ", f"{step} ", f"({os.urandom(4).hex()}) ", "is ", "here."]  # others each time
            return pieces(framed(WIRE, said(WIRE, text=words, calls=calls, pieces=2)))

        async def pieces(items: list[bytes]) -> AsyncIterator[bytes]:
            for item in items:
                await anyio.sleep(PAUSE_S)
                yield item

        return agent_loop(ask, chat.messages(WIRE), tools=[pay, approve, look], wire=WIRE, **chat.options)


def serve(address: str, ledger: str, parent: Connection) -> None:
    """Serves until it is told to end, or its parent is gone: that is told the port, and may have it die in a call."""
    logging.disable(logging.CRITICAL)
    replica = _Replica(ledger)
    chats = Chats(records=store_at(address, lease=LEASE_S), run=replica.run)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with chats:
            parent.send(listener.getsockname()[1])
            yield

    def obey() -> None:
        try:
            while True:
                replica.dies = parent.recv()
        except EOFError:
            os._exit(1)

    app = chats.app(may=lambda request: request.headers["x-user"], heartbeat=0.5)
    served = Starlette(routes=[Mount("/", app)], lifespan=lifespan)
    config = uvicorn.Config(
        served, http="h11", ws="none", loop="asyncio", lifespan="on", log_level="critical", timeout_graceful_shutdown=1
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=obey, daemon=True).start()
        uvicorn.Server(config).run([listener])
