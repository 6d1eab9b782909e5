"""Makes a typed function a tool, and shows its schema, a refused call, and the record of each call."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import BaseModel, Field

from streamtools import Limits, ToolContext, ToolError, run_calls, tool

STOCK = {"pen": 3, "ink": 0}


class Address(BaseModel):
    street: str
    city: str


@tool(effect="once", timeout=5)
async def order(
    item: str, to: Address, ctx: ToolContext, count: Annotated[int, Field(ge=1, le=100)] = 1
) -> dict[str, int]:
    """Order an item.

    Args:
        item: The item, in one word.
        to: The address to ship it to.
        count: The quantity.
    """
    ctx.progress("checking the stock")
    if STOCK.get(item, 0) < count:
        raise ToolError(f"there are {STOCK.get(item, 0)} left; order fewer")  # the model reads this
    STOCK[item] -= count
    return {"left": STOCK[item]}


async def main() -> None:
    home = {"street": "Main Street 1", "city": "Oslo"}
    orders = (
        {"item": "pen", "to": home, "count": 2},
        {"item": "pen", "to": home, "count": "1"},  # coerced, and listed
        {"item": "pen", "to": home, "count": 1000},  # refused: the function does not run
        {"item": "ink", "to": home},  # runs, and fails with the tool's own message
    )
    calls = [(f"call_{number}", "order", arguments) for number, arguments in enumerate(orders, 1)]
    for record in (await run_calls(calls, [order], limits=Limits(tool_timeout=1))).observations:
        print(record.report(values=True), record.coercions, sep="\n", end="\n\n")
    assert STOCK == {"pen": 0, "ink": 0}


asyncio.run(main())
