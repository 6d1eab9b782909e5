"""Ten runs of different kinds, each with five questions and the words that answer them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from streams import anthropic, stream

from streamtools import Trajectory, agent_loop, tool
from streamtools.errors import StreamToolsError
from streamtools.events import ToolStarted
from streamtools.view import Watch


@dataclass(frozen=True)
class Kind:
    """A run: what its user asks, what its model answers, what it is asked for, and the words that a reader looks for:
    what was asked, what answered, what failed, why it was slow, which call it was."""

    question: str
    bodies: list[list[bytes]]
    words: tuple[str, str, str, str, str]
    options: dict[str, Any]
    during: Callable[[Any, Any], Awaitable[None]] | None = None


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the weather."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"{len(city)} degrees"


@tool(effect="pure", timeout=0.2)
async def crawl(site: str) -> str:
    """Read a site."""
    await anyio.sleep(0.12)
    return f"{site} has 12 pages"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return "receipt 77"


@tool(effect="pure")
async def fetch(page: int) -> str:
    """Read a page."""
    if page % 5 == 0:
        raise TimeoutError("the server was silent")
    return f"page {page}"


def _retried() -> Any:
    failures = iter([True, True])

    @tool(effect="idempotent", retries=2, retry_delay_s=0.05)
    async def get_rates(currency: str) -> str:
        """Get the rates."""
        if next(failures, False):
            raise ConnectionError("the bank is away")
        return "1.08 dollars"

    return get_rates


async def _approve(asked: Any) -> bool:
    await anyio.sleep(0.1)
    return True


async def _stop(run: Any, event: Any) -> None:
    if isinstance(event, ToolStarted):
        run.stop()


def _asks(*calls: tuple[str, dict[str, Any]], text: str = "") -> list[bytes]:
    made = [(f"c{at}", name, json.dumps(given)) for at, (name, given) in enumerate(calls)]
    return anthropic([text] if text else [], made)


def _says(text: str) -> list[bytes]:
    return anthropic([text], stop="end_turn")


def ten_kinds() -> dict[str, Kind]:
    """Returns the runs by name."""
    weather = ("get_weather", {"city": "Tokyo"})
    steps = [_asks(("get_weather", {"city": f"Town-{at}"})) for at in range(49)]
    return {
        "failure": Kind(
            "weather in Tokyo and Atlantis?",
            [_asks(weather, ("get_weather", {"city": "Atlantis"})), _says("Tokyo has 5 degrees.")],
            ("weather in Tokyo and Atlantis?", "Tokyo has 5 degrees.", "no such city", "longest call", "Atlantis"),
            {},
        ),
        "slow call": Kind(
            "how large is example.org?",
            [_asks(("crawl", {"site": "example.org"})), _says("It has 12 pages.")],
            ("how large is example.org?", "It has 12 pages.", "1 ok", "the next step waited", "crawl example.org"),
            {},
        ),
        "retry": Kind(
            "what is a euro worth?",
            [_asks(("get_rates", {"currency": "EUR"})), _says("It is worth 1.08 dollars.")],
            ("what is a euro worth?", "It is worth 1.08 dollars.", "1 ok", "3 attempts", "get_rates EUR"),
            {"tools": [_retried()]},
        ),
        "approval": Kind(
            "pay the bill of 12 euros",
            [_asks(("pay", {"amount": 12})), _says("It is paid.")],
            ("pay the bill of 12 euros", "It is paid.", "1 ok", "for approval", "amount=12"),
            {"approve": _approve},
        ),
        "many equal calls": Kind(
            "read 120 pages",
            [_asks(*(("fetch", {"page": page}) for page in range(1, 121))), _says("24 pages are missing.")],
            ("read 120 pages", "24 pages are missing.", "24 failed: TimeoutError", "longest call", "fetch ×120"),
            {},
        ),
        "fifty steps": Kind(
            "tour fifty towns",
            [*steps, _says("The tour is over.")],
            ("tour fifty towns", "The tour is over.", "49 ok", "model answers", "get_weather Town-"),
            {"max_steps": 60},
        ),
        "suspended": Kind(
            "pay 5000 euros",
            [_asks(("pay", {"amount": 5000}), text="I shall ask.")],
            ("pay 5000 euros", "I shall ask.", "suspended", "waited for a person", "amount=5000"),
            {"durable": True},
        ),
        "cut stream": Kind(
            "tell me a story",
            [anthropic(["Once upon a "], stop=None)],
            ("tell me a story", "Once upon a", "error", "model answers", "Step 1"),
            {},
        ),
        "max_steps": Kind(
            "weather, again and again",
            [_asks(weather), _asks(weather)],
            ("weather, again and again", "5 degrees", "max steps", "would have gone on", "get_weather Tokyo"),
            {"max_steps": 2},
        ),
        "cancelled": Kind(
            "crawl until I stop you",
            [_asks(("crawl", {"site": "example.org"})), _says("never")],
            ("crawl until I stop you", "example.org", "cancelled", "somebody stopped it", "crawl example.org"),
            {},
            _stop,
        ),
    }


async def seen(kind: Kind) -> Watch:
    """Runs one of them, and returns what watched it."""
    watch = Watch()
    bodies = iter(kind.bodies)

    async def ask(messages: list[Any], tools: Any) -> Any:
        return stream(next(bodies))

    options = dict(kind.options)
    options.setdefault("tools", [get_weather, crawl, pay, fetch])
    if options.pop("durable", False):
        options["approve"] = None
    run = agent_loop(
        ask,
        [{"role": "user", "content": kind.question}],
        wire="anthropic.messages",
        trajectory=Trajectory(observers=[watch]),
        **options,
    )
    try:
        async with run as events:
            async for event in events:
                if kind.during is not None:
                    await kind.during(run, event)
    except StreamToolsError:
        assert run.outcome not in (None, "answered")
    return watch
