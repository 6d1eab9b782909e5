"""The servers that the SDKs are pointed at. All of it runs on this machine; what is missing is skipped and named.

The tests here run when they are asked for by their path, as `nox -s integrations` does: they take half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aimock
import pytest

from demo.server import ModelServer, installed
from streamtools.dispatch import SqliteStore

FOLDER = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = any(Path(argument.partition("::")[0]).resolve().is_relative_to(FOLDER) for argument in config.args)
    return None if asked or not collection_path.name.endswith("_sdk.py") else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Some SDKs keep connections, and pydantic-ai's run_sync an event loop, with no way to close them but the garbage
    # collector.
    left = ("<socket", "<function BaseEventLoop.__del__")
    words = (f"ignore:Exception ignored in. {one}:pytest.PytestUnraisableExceptionWarning" for one in left)
    kept = [pytest.mark.filterwarnings(one) for one in words]
    for item in items:
        if item.path.is_relative_to(FOLDER):
            for mark in kept:
                item.add_marker(mark)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store in a file of the test's own."""
    with SqliteStore(tmp_path / "calls.db") as opened:
        yield opened


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """The URL of the real llama.cpp server with the demo's model."""
    if not installed():
        pytest.skip("THE MODEL SERVER IS NOT INSTALLED: nothing was asked of the real model")
    with ModelServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of aimock."""
    if what := aimock.missing():
        pytest.skip(f"{what}: nothing was asked of aimock")
    with aimock.Aimock(tmp_path_factory.mktemp("aimock")) as server:
        yield server.url
