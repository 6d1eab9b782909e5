"""What the check of a call's arguments costs.

To validate the arguments of a tool with five parameters and call its function, beyond the bare function: from the JSON
text of the call (as in a stream) and from a dict; arguments that have to be coerced; a foreign schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from streamtools import Tool, tool

from .measure import Figure, best_of

CALLS = 20_000

ARGUMENTS: dict[str, Any] = {"query": "how to bake bread", "limit": 5, "exact": True, "lang": "de", "tags": ["a", "b"]}
COERCED = {**ARGUMENTS, "limit": "5"}


def search(
    query: str, limit: int = 10, exact: bool = False, lang: Literal["en", "de"] = "en", tags: list[str] | None = None
) -> int:
    """Search.

    Args:
        query: What to look for.
        limit: How many results.
    """
    return limit


SEARCH = tool(search, effect="pure")
FOREIGN = Tool.from_schema(search, SEARCH.schema, effect="pure")


def run() -> list[Figure]:
    """Measure all."""
    works = {
        "bare": lambda: search(**ARGUMENTS),
        "5 arguments as JSON text, validated and called, over the bare function": _caller(SEARCH, ARGUMENTS),
        "5 arguments as a dict, validated and called, over the bare function": _caller(
            SEARCH, ARGUMENTS, as_text=False
        ),
        "the same with one string to be an integer": _caller(SEARCH, COERCED),
        f"the same by a foreign schema ({FOREIGN.validator})": _caller(FOREIGN, ARGUMENTS),
    }
    best = best_of({name: partial(_repeat, work) for name, work in works.items()})
    micros = {name: seconds / CALLS * 1e6 for name, seconds in best.items()}
    told = f"bare {(bare := micros.pop('bare')):.2f} µs"
    return [Figure(name=name, value=took - bare, unit="µs", detail=told) for name, took in micros.items()]


def _caller(made: Tool, arguments: dict[str, Any], *, as_text: bool = True) -> Callable[[], object]:
    text = json.dumps(arguments) if as_text else None

    def call() -> object:
        bound = made.validate(arguments, text=text)
        return search(*bound.args, **bound.kwargs)

    return call


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()
