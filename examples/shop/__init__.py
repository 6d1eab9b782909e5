"""Defines the tools of `process_executor.py`. Workers import it, so it starts nothing."""

from __future__ import annotations

import os

from streamtools import tool


@tool(effect="pure", timeout=2)
def render(page: int) -> str:
    """Render a page."""
    while page > 1:  # an endless loop, which would block a thread for ever
        pass
    return f"page {page}"


@tool  # effect="once": a second run would ship a second parcel
def ship(order: int) -> str:
    """Ship an order."""
    with open("shipped.txt", "a", encoding="utf-8") as file:
        file.write(f"{order}\n")
    if order == 13:
        os._exit(1)  # as if it had run out of memory
    return f"shipped {order}"
