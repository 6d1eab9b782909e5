"""Both async backends for every test that is marked ``anyio``, and a heap that stays small for the collector."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def _spare_the_collector_what_is_there_already() -> None:
    """Keep collections cheap: a session holds millions of objects, and many tests collect to see what was left open.

    Freezing once per session would not do, as imports, hypothesis and pytest's reports go on adding to the heap.
    Collects first, since garbage that is frozen is never finalized, and the warning that it would give is lost.
    """
    gc.collect()
    gc.freeze()
