"""Both async backends for tests that are marked ``anyio``, how much is tried, a deadline for each test, and a heap that
is cheap to collect."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from deadlines import pytest_addoption, pytest_configure
from profiles import FULL, QUICK_EXAMPLES

__all__ = ["pytest_addoption", "pytest_configure"]  # and the hooks and fixtures below

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Of a shell without job control: `make unit &`. What tests start and interrupt would inherit it, and go on.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("hypothesis") is not None:  # the venvs for Ray and DBOS do without
    # Before anything is frozen: hypothesis asks who refers to trio's dice, and of frozen objects that is not told.
    from hypothesis import settings

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
    """Leave what is costly to `make test-all` on trio."""
    for item in items:
        if item.get_closest_marker("costly") and _backend(item) == "trio":
            item.add_marker("thorough")


def _backend(item: pytest.Item) -> str | None:
    """The backend of a test that has one; `callspec` is missing where nothing is parametrised."""
    parameters = getattr(item, "callspec", None)
    return parameters.params.get("anyio_backend") if parameters else None


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
