"""Both async backends for tests that are marked ``anyio``, how much is tried, a deadline for each test, and a heap that
is cheap to collect."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from deadlines import pytest_addoption, pytest_configure
from hypothesis import settings
from profiles import FULL, QUICK_EXAMPLES
from ran import ran
from servers import PostgresServer, RedisServer, postgres_server, redis_server

__all__ = ["pytest_addoption", "pytest_configure"]  # and the hooks and fixtures below

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Of a shell without job control: `make test &`. What tests start and interrupt would inherit it, and go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything is frozen: hypothesis asks who refers to trio's dice, and of frozen objects that is not told.
settings.register_profile("quick", max_examples=QUICK_EXAMPLES)
settings.register_profile("full", max_examples=100)
settings.load_profile("full" if FULL else "quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage until all tests are collected: what is imported and listed meanwhile stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave trio out where a test asks for it, and to `make test-all` where the code touches no tasks or is costly."""
    items[:] = [item for item in items if not (_is_on_trio(item) and _is_for_asyncio(item))]
    for item in filter(_is_on_trio, items):
        touches_tasks = item.path.is_relative_to(_HERE / "dispatch") or item.path.is_relative_to(_HERE / "pipelines")
        if item.get_closest_marker("costly") or not touches_tasks:
            item.add_marker("thorough")


_HERE = Path(__file__).resolve().parent


def _is_on_trio(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)  # missing where nothing is parametrised
    return parameters is not None and parameters.params.get("anyio_backend") == "trio"


def _is_for_asyncio(item: pytest.Item) -> bool:
    names_them = any("anyio_backend" in mark.args[0] for mark in item.iter_markers("parametrize"))
    return item.get_closest_marker("asyncio_only") is not None and not names_them  # a test of the file may want both


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _spare_the_collector_what_is_there_already() -> None:
    """Keep collections cheap: a session holds millions of objects, and many tests collect to see what was left open.

    Freezing once per session would not do, as imports, hypothesis and pytest's reports go on adding to the heap.
    Collects first, since garbage that is frozen is never finalized, and the warning that it would give is lost.
    """
    gc.collect()
    gc.freeze()
