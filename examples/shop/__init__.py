"""The tools of `process_executor.py`. Worker processes import them from here by name, so this starts nothing."""

from __future__ import annotations

import os

from streamtools import tool


@tool(effect="pure", timeout=2)
def render(page: int) -> str:
    """Render a page."""
    while page > 1:  # a loop without end, which no thread could be got out of
        pass
    return f"page {page}"


@tool  # effect="once": twice would be one parcel too many
def ship(order: int) -> str:
    """Ship an order."""
    with open("shipped.txt", "a", encoding="utf-8") as file:
        file.write(f"{order}\n")
    if order == 13:
        os._exit(1)  # as if it had run out of memory in the middle
    return f"shipped {order}"
