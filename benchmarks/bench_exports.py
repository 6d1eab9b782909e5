"""What it costs to say tools in a provider's shape.

Bars: the tools of a request, 50 of them with nested models, exported for the first time within 50 ms, strict included;
and again, as for every further request, within 50 µs, payloads in hand. Stated beside it is the way back of one call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any, Literal

from pydantic import BaseModel, Field

from streamtools import Tool, tool
from streamtools.exports import export, export_all

from .measure import Figure, best_of, show

__all__ = ["run"]

TOOLS = 50
REPEATS = 5
AGAIN = 200
CALLS = 5_000
MAX_COLD_MS = 50.0
MAX_CACHED_MICROSECONDS = 50.0
TARGETS = ("openai.chat_completions", "openai.chat_completions.strict", "anthropic.messages", "gemini.parameters")


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(description="Street and number.")
    zip: str = Field(pattern=r"^\d{5}$")


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0, le=150)
    addresses: list[Address] = []


def invite(
    people: list[Person],
    event: str,
    mode: Literal["mail", "call"] = "mail",
    seats: dict[str, int] | None = None,
    note: str | None = None,
) -> None:
    """Invite people to an event.

    Args:
        people: Whom to invite.
        event: What to invite them to.
        note: What else to say.
    """


ARGUMENTS = {
    "people": [{"name": "A", "age": 3, "addresses": None}],
    "event": "party",
    "mode": None,
    "seats": [{"key": "A", "value": 1}],
    "note": None,
}


def run() -> list[Figure]:
    """Measure all."""
    figures = [figure for target in TARGETS for figure in (_cold(target), _cached(target))]
    return [*figures, _way_back()]


def _tools() -> list[Tool[..., Any]]:
    return [tool(invite, name=f"invite_{number}") for number in range(TOOLS)]


def _cold(target: str) -> Figure:
    fresh = cycle([_tools() for _ in range(REPEATS + 1)])  # each is exported for the first time, once
    best = best_of({"cold": lambda: export_all(next(fresh), target).payloads}, repeats=REPEATS)
    name = f"{TOOLS} tools for {target}, the first time"
    return Figure(name=name, value=best["cold"] * 1e3, unit="ms", bar=MAX_COLD_MS)


def _cached(target: str) -> Figure:
    tools = _tools()
    best = best_of({"again": partial(_repeat, lambda: export_all(tools, target).payloads, AGAIN)}, repeats=REPEATS)
    name = f"{TOOLS} tools for {target}, again"
    return Figure(name=name, value=best["again"] / AGAIN * 1e6, unit="µs", bar=MAX_CACHED_MICROSECONDS)


def _way_back() -> Figure:
    exported = export(tool(invite), "openai.chat_completions", strict=True)
    best = best_of({"back": partial(_repeat, lambda: exported.decode(ARGUMENTS), CALLS)}, repeats=REPEATS)
    return Figure(name="the way back of one strict call", value=best["back"] / CALLS * 1e6, unit="µs")


def _repeat(what: Callable[[], object], times: int) -> None:
    for _ in range(times):
        what()


if __name__ == "__main__":
    show(run())
