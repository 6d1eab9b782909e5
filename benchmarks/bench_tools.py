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
    best = best_of(
        {
            "bare": partial(_repeat, lambda: search(**ARGUMENTS)),
            "text": partial(_repeat, _caller(SEARCH, ARGUMENTS, from_text=True)),
            "dict": partial(_repeat, _caller(SEARCH, ARGUMENTS, from_text=False)),
            "coerced": partial(_repeat, _caller(SEARCH, COERCED, from_text=True)),
            "foreign": partial(_repeat, _caller(FOREIGN, ARGUMENTS, from_text=True)),
        },
        repeats=7,
    )
    micros = {name: seconds / CALLS * 1e6 for name, seconds in best.items()}
    bare = micros.pop("bare")
    names = {
        "text": "5 arguments as JSON text, validated and called, over the bare function",
        "dict": "5 arguments as a dict, validated and called, over the bare function",
        "coerced": "the same with one string to be an integer",
        "foreign": f"the same by a foreign schema ({FOREIGN.validator})",
    }
    return [
        Figure(name=names[key], value=took - bare, unit="µs", detail=f"bare {bare:.2f} µs")
        for key, took in micros.items()
    ]


def _caller(made: Tool, arguments: dict[str, Any], *, from_text: bool) -> Callable[[], object]:
    text = json.dumps(arguments) if from_text else None

    def call() -> object:
        bound = made.validate(arguments, text=text)
        return search(*bound.args, **bound.kwargs)

    return call


def _repeat(call: Callable[[], object]) -> None:
    for _ in range(CALLS):
        call()
