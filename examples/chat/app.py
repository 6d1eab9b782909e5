"""Mounts conversations beside the pages that read them: our own, one of useChat's and one of AG-UI's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

from streamtools import AgentLoop, Tool, ToolContext, ToolError, agent_loop, tool
from streamtools.web import Chats
from streamtools.web.app import PageRequest
from streamtools.web.runs import Chat

from .model import WIRE, script_of
from .times import Times, Watch

HERE = Path(__file__).parent
CLIENTS = ("use-chat", "ag-ui")
BUNDLES = HERE.parents[1] / ".node-web" / "pages"  # where `make chat` leaves them
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
NOT_FOUND = """<!doctype html><html lang="en"><title>Not found</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/page.css">
<main id="lost"><h1>There is nothing at this address</h1><p><a href="/">Begin a chat</a></p></main></html>"""


def tools_at(pause: float) -> list[Tool[..., Any]]:
    """Returns the tools, which take some *pause* each."""

    @tool(effect="pure")
    async def get_weather(city: str) -> str:
        """Weather in a city."""
        await anyio.sleep(pause * 12)
        if city not in ("Lisbon", "Porto"):
            raise ToolError(f"There is no weather station in {city}.")
        return "24 degrees, clear" if city == "Lisbon" else "17 degrees, rain"

    @tool(effect="pure")
    async def find_trains(start: str, to: str, day: str, ctx: ToolContext, passengers: int = 1) -> dict[str, Any]:
        """Trains between two cities."""
        for done in range(1, 6):
            await anyio.sleep(pause * 9)
            ctx.progress({"done": done, "of": 5, "text": f"asked {done} of 5 railways"})
        return {"train": "Lusitania 335", "leaves": f"{day} 21:43", "berths": 7 - passengers}

    @tool(effect="once", needs_approval=True)
    async def book(train: str, berths: int, price_eur: int) -> str:
        """Book berths."""
        await anyio.sleep(pause * 20)
        return f"booked {berths} berths on {train} for {price_eur} EUR"

    return [get_weather, find_trains, book]


def may(request: PageRequest) -> bool:
    """Lets in what our page asks for. With users, compare the conversation's owner instead."""
    return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def not_found(request: Any, error: Exception) -> HTMLResponse:
    """Answers a bad address."""
    return HTMLResponse(NOT_FOUND, status_code=404, headers=HEADERS)


def clients() -> tuple[str, ...]:
    """Returns the names of the pages that were bundled."""
    return tuple(name for name in CLIENTS if (BUNDLES / f"{name}.js").exists())


def pages() -> list[Route]:
    """Returns the routes of the pages."""

    def file(path: Path) -> Any:
        async def send(request: Any) -> FileResponse:
            return FileResponse(path, headers=HEADERS)

        return send

    own = {"/": "page.html", "/page.js": "page.js", "/page.css": "page.css", "/pages.css": "pages/pages.css"}
    routes = [Route(path, file(HERE / name)) for path, name in own.items()]
    for name in CLIENTS:
        is_here = name in clients()
        routes.append(Route(f"/{name}/", file(HERE / "pages" / "page.html") if is_here else _missing))
        routes.append(Route(f"/{name}/page.js", file(BUNDLES / f"{name}.js")))
    return routes


async def _missing(request: Any) -> PlainTextResponse:
    return PlainTextResponse("This page is bundled by `make chat`, where node and npm are.", status_code=404)


class TimedChats(Chats):
    """Conversations whose times go with them."""

    def __init__(self, times: Times, **options: Any) -> None:
        super().__init__(**options)
        self._times = times

    async def delete(self, chat_id: str) -> bool:
        """Removes a conversation, and then its times."""
        deleted = await super().delete(chat_id)
        self._times.forget(chat_id)
        return deleted


def page_app(records: str | Path, *, times: Path | None = None, pause: float = 0.05) -> Starlette:
    """Returns the application; its model waits *pause* seconds before each piece. *times* is a file of each process."""

    def run(chat: Chat) -> AgentLoop:
        wire, script = script_of(chat.messages(WIRE))

        async def ask(messages: list[Any], tools: list[Any]) -> AsyncIterator[dict[str, Any]]:
            return script(messages, pause)

        loop = agent_loop(ask, chat.messages(wire), tools=tools_at(pause), wire=wire, **chat.options)
        loop.trajectory.observers = (*loop.trajectory.observers, Watch(known, chat.run_id))
        return loop

    known = Times(times or Path(f"{records}.times.jsonl"))
    chats = TimedChats(known, records=records, run=run)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with chats:
            await chats.recover()
            yield

    async def send_times(request: Any) -> JSONResponse:
        chat_id = request.path_params["chat"]
        if not may(PageRequest(chat_id, "read", dict(request.headers), request.scope)):
            return JSONResponse(None, status_code=403)
        return JSONResponse(known.of(chat_id), headers={"cache-control": "no-store"})

    return Starlette(
        routes=[*pages(), Route("/times/{chat:path}", send_times), Mount("/chats", chats.app(may=may))],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        lifespan=lifespan,
        exception_handlers={404: not_found},
    )
