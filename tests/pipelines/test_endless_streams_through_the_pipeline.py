"""A server that keeps the connection alive without saying anything: however long it does so, nothing grows."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator
from itertools import islice

import anyio
import anyio.lowlevel
import pytest
from every_wire import FRAMINGS
from nothing import NOTHING, nothings
from profiles import mostly_thorough

from streamtools import pipeline
from streamtools.errors import TruncatedStream
from streamtools.wires import WIRES

FIRST, LATER = 1500, 3000  # by the first, caches of fixed size are full
ROOM = 9000  # bytes: less than a pointer for each of those between


@pytest.mark.parametrize("wire", mostly_thorough(WIRES, 2))
def test_what_says_nothing_costs_no_memory_however_often_it_comes(wire: str) -> None:
    async def source() -> AsyncIterator[bytes]:
        framing, name = FRAMINGS[wire][0], next(iter(NOTHING[wire]))
        for number, item in enumerate(islice(nothings(wire, framing, name), LATER + 1)):
            yield item
            if number in (FIRST, LATER):
                await anyio.lowlevel.checkpoint()
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])

    async def read() -> None:
        with anyio.fail_after(30):
            async with pipeline(source(), wire=wire) as events:
                with pytest.raises(TruncatedStream):
                    async for _ in events:
                        pass

    sizes: list[int] = []
    tracemalloc.start()
    try:
        anyio.run(read)
    finally:
        tracemalloc.stop()
    assert sizes[1] - sizes[0] < ROOM
